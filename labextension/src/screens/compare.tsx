// Compare in the result viewer: choose another result, see what changed between the two. The kernel compares, and gives
// the changes as a table.
import { type Signal, signal, useSignal } from '@preact/signals';
import { useLayoutEffect } from 'preact/hooks';
import { Check, Search } from './controls.js';
import { hasWords } from './format.js';
import { Failure, Menu } from './parts.js';
import type { Requests } from './requests.js';
import { createTable, keyOf, type Result, type Table } from './table.js';
import type { Pane } from './viewer.js';

const MANY = 8;
const EMPTY = 'There is no other result yet. Call the tool again, then compare.';

/** `isSame`: it is of the same tool. */
type Other = Result & { tool: string; text: string; when: string; isSame: boolean };
/** Another result, and the columns that its rows are matched by. */
export type Chosen = { other: Other; key: Signal<string[]> };
type Side = { when: string; isThis: boolean };
type Comparison = { text: string; key: string[]; columns: string[]; sides: [Side, Side]; result: Result };

/** The results that one can be compared with. */
export function CompareChoices({ requests, result, onChoose }: { requests: Requests; result: Result; onChoose: (chosen: Chosen) => void }) {
  const request = requests.latest<{ items: Other[] }>('comparable');
  const search = useSignal('');
  const items = request.value.value?.items ?? [];
  useLayoutEffect(() => {
    request.reset();
    void request.send({ ...keyOf(result), tool: result.tool });
  }, []);
  const choose = (other: Other): void => onChoose({ other, key: signal([]) });
  const matches = items.filter(({ tool, text, when }) => hasWords(`${tool} ${text} ${when}`, search.value));
  const others = matches.filter(item => !item.isSame);
  const choice = (item: Other, at: number) => (
    <button key={at} class="otx-compare-choice" type="button" title={`${item.tool} ${item.text}`} onClick={() => choose(item)}>
      <span class="otx-compare-call"><span class="otx-tool-name">{item.tool}</span> <span class="otx-muted">{item.text}</span></span>
      <span class="otx-muted otx-compare-when">{item.when}</span>
    </button>
  );
  const choices = () => (
    <>
      {matches.filter(item => item.isSame).map(choice)}
      {others.length && others.length < matches.length ? <div class="otx-divider">Other tools</div> : null}
      {others.map(choice)}
      {matches.length ? null : <p class="otx-muted">{items.length ? 'No call matches.' : EMPTY}</p>}
    </>
  );
  return (
    <div class="otx-compare-choices">
      <strong>Compare with</strong>
      <Search label="Find a call" hidden={items.length <= MANY} value={search.value} onInput={text => (search.value = text)} />
      <div class="otx-compare-list" role="group" aria-label="Results to compare with">
        {request.failure.value ? (
          <p class="otx-error" role="alert"><Failure of={request} /></p>
        ) : request.value.value ? choices() : <span class="otx-muted">reading …</span>}
      </div>
    </div>
  );
}

/** What changed between a result and the chosen one: a sentence, and the rows that differ. */
export function createCompare(requests: Requests, result: Result, { other, key }: Chosen): Pane {
  const request = requests.latest<Comparison>('compare');
  // What is saved from here are the changes. The first column says how a row changed.
  const table = signal<Table | null>(null);

  async function start(): Promise<void> {
    const reply = await request.send({ ...keyOf(result), other: keyOf(other), key: key.peek() });
    if (reply.status === 'late') return;
    table.peek()?.close();
    table.value = reply.status === 'ok' && reply.value.result.rows
      ? createTable(requests.part(), reply.value.result, { kindOf: row => `otx-row-${row[1]}` })
      : null;
    if (reply.status === 'ok') key.value = reply.value.key;
    void table.peek()?.start();
  }

  function match(columns: string[], column: string, isOn: boolean): void {
    key.value = columns.filter(each => (each === column ? isOn : key.peek().includes(each)));
    void start();
  }

  const nameOf = ({ when, isThis }: Side) => (
    <><strong>{isThis ? 'this result' : `${other.tool} ${other.text}`.trim()}</strong>{when ? `, ${when}` : ''}</>
  );

  function view() {
    const found = request.value.value;
    const failure = request.failure.value;
    const [counts, ...examples] = found?.text.split(': ') ?? ['']; // the examples behind the counts are in plain letters
    return (
      <div class="otx-compare">
        <div class="otx-compare-head">
          <div class="otx-grow">
            <p class="otx-compare-text" role="status">
              {failure ? <span class="otx-error">{failure}</span> : found ? (
                <><strong>{counts}</strong>{examples.length ? `: ${examples.join(': ')}` : ''}</>
              ) : 'comparing …'}
            </p>
            <p class="otx-muted otx-compare-sides">{found ? <>From {nameOf(found.sides[0])} to {nameOf(found.sides[1])}</> : null}</p>
          </div>
          {found?.columns.length ? (
            <Menu label={<>Rows matched by <strong>{found.key.join(', ') || 'their place'}</strong></>}>
              {found.columns.map(column => (
                <Check key={column} isOn={key.value.includes(column)} onChange={isOn => match(found.columns, column, isOn)}>
                  {' '}{column}
                </Check>
              ))}
            </Menu>
          ) : null}
        </div>
        <div class="otx-compare-body">
          {failure ? <button class="otx-small" type="button" onClick={start}>Try again</button> : table.value?.view()}
        </div>
      </div>
    );
  }

  return { view, start, table: () => table.value, close: () => (requests.close(), table.peek()?.close()) };
}
