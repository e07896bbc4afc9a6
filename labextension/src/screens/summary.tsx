// What is in each column of the rows that a table shows. A click on a bar or a value filters the table by it.
import { signal } from '@preact/signals';
import { KINDS } from './columnFilter.js';
import { moveWithin } from './dom.js';
import { counted, number } from './format.js';
import { Failure } from './parts.js';
import type { Requests } from './requests.js';
import { keyOf, type Result, type Table } from './table.js';
import type { Pane } from './viewer.js';

const HEADS = ['Column', 'Values', 'Missing', 'Distinct', 'Smallest', 'Median', 'Mean', 'Std. dev.', 'Largest'];

type Figure = 'min' | 'median' | 'mean' | 'std' | 'max';
/** `top` are the most frequent values: text, count, number. */
type Summary = {
  kind: string; rows: number; missing: number; distinct: number; top?: [string, number, number][]; bars?: number[]; ranges?: string[];
} & { [figure in Figure]?: string };

export function createSummary(requests: Requests, result: Result, table: Table, open: (kind: string) => void): Pane {
  const status = signal('reading …');
  const summaries = signal<(Summary & { name: string })[]>([]);
  // The columns are asked for one after the other, and shown as they come.
  const request = requests.latestOf<void, void>(async (_, ask) => {
    const key = { ...keyOf(result), ...table.query(), sort: null };
    summaries.value = [];
    const { columns, total } = await ask<{ columns: { name: string }[]; total: number }>('table', { ...key, offset: 0, limit: 1 });
    for (const [column, { name }] of columns.entries()) {
      status.value = `column ${number(column + 1)} of ${number(columns.length)} …`;
      const summary = await ask<Summary>('summary', { ...key, column });
      summaries.value = [...summaries.peek(), { ...summary, name }];
    }
    const rows = table.isFiltered() ? `${number(total)} of ${number(result.rows ?? 0)} rows` : counted(total, 'row');
    status.value = `${counted(columns.length, 'column')}, ${rows}`;
  });

  function filter(column: number, condition: string, texts?: ReadonlyMap<number, string>): void {
    open('table');
    void table.filterColumn(column, condition, texts);
  }

  async function clear(): Promise<void> {
    await table.clearFilters();
    void request.send();
  }

  function row(summary: Summary & { name: string }, column: number) {
    const { name, kind, rows, missing, distinct, min, median, mean, std, max, top = [] } = summary;
    const percent = (missing / rows) * 100;
    const share = missing ? ` (${percent < 1 ? '< 1' : Math.round(percent)} %)` : '';
    const values = top.map(([text, count, id]) => (
      <button
        key={id} class="otx-top" type="button" title={`Only rows with ${name} ${text}`}
        onClick={() => filter(column, '', new Map([[id, text]]))}
      >
        {text || '""'} <span class="otx-muted">{number(count)}</span>
      </button>
    ));
    return (
      <tr key={column}>
        <th scope="row">{name}<div class="otx-muted otx-tip">{KINDS[kind] ?? kind}</div></th>
        <td>{summary.bars?.length ? <Bars name={name} summary={summary} choose={range => filter(column, range)} /> : values}</td>
        {[number(missing) + share, number(distinct), min, median, mean, std, max]
          .map((text, at) => <td key={at} class="otx-right-cell">{text}</td>)}
      </tr>
    );
  }

  const view = () => (
    <div class="otx-pane">
      <div class="otx-bar otx-table-bar">
        <span class="otx-muted" role="status">{request.failure.value ? <Failure of={request} /> : status.value}</span>
        <button class="otx-small" type="button" hidden={!table.isFiltered()} onClick={clear}>Clear filters</button>
      </div>
      <div class="otx-scroll" tabIndex={0} role="group" aria-label="Summary of the columns">
        <table class="otx-columns">
          <thead>
            <tr>{HEADS.map((head, at) => <th key={head} class={at > 1 ? 'otx-right-cell' : undefined} scope="col">{head}</th>)}</tr>
          </thead>
          <tbody>{summaries.value.map(row)}</tbody>
        </table>
      </div>
    </div>
  );
  return { view, start: () => request.send(), close: () => requests.close() };
}

/** How the numbers of a column are spread. Only the first bar is in the tab order; arrow keys reach the others. */
function Bars({ name, summary: { bars = [], ranges = [], min, max }, choose }: {
  name: string; summary: Summary; choose: (range: string) => void;
}) {
  const most = Math.max(...bars);
  return (
    <div class="otx-spread" role="group" aria-label={`How ${name} is spread from ${min} to ${max}`} onKeyDown={moveWithin}>
      {bars.map((count, at) => {
        const label = `${ranges[at].replace('..<', ' to below ').replace('..', ' to ')}: ${counted(count, 'row')}`;
        return (
          <button
            key={at} class="otx-spread-bar" type="button" title={label} aria-label={label} tabIndex={at ? -1 : 0}
            onClick={() => choose(ranges[at])}
          >
            <span style={`height:${count ? Math.max(2, Math.round((24 * count) / most)) : 0}px`} />
          </button>
        );
      })}
    </div>
  );
}
