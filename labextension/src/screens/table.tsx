// The table of a result: typed columns that are sorted, filtered, hidden and resized; rows that are copied and
// downloaded. The kernel sorts, filters, summarises and writes, over all rows; the page keeps only the visible ones.
import { computed, signal } from '@preact/signals';
import type { ComponentChild, Key } from 'preact';
import { createColumnFilter, KINDS } from './columnFilter.js';
import { Check, Search } from './controls.js';
import { copyText, debounce, elementOf, uniqueId } from './dom.js';
import { byteSize, counted, number } from './format.js';
import { Drawing, Failure, Menu } from './parts.js';
import type { Ask, LatestRequest, Reply, Requests } from './requests.js';
import { Rows, VirtualRows } from './virtualRows.js';

const ROW_HEIGHT = 24;
const HEAD_HEIGHT = 25;
const MIN_WIDTH = 3;
const MAX_WIDTH = 40;
const HEAD_SPACE = 5; // letters that the buttons of a head take
const FUNNEL = 'M2.5 3h11L9.5 8v4.5l-3-1.5V8z';
const NOTHING = 'nothing';
const FORMATS: Record<string, string> = { csv: 'CSV', xlsx: 'Excel', json: 'JSON', parquet: 'Parquet' };
const CSV_HINT = "Text that a spreadsheet would run (=, +, -, @) gets a ' before it";
const COPY_HINT = 'The selected cells or rows (Ctrl+C); without a selection all rows';
const LABEL_HINT = "The row's label in the index of pandas; without an index its number from 0";

export interface Result {
  ok?: boolean;
  handle?: string | null;
  call?: string | null;
  tool?: string;
  kinds?: string[];
  rows?: number;
  lines?: number;
  preview?: string[];
  formats?: string[];
  ms?: number;
  bytes?: number | null;
  note?: string;
  error?: { title?: string; reason?: string; message: string; hint?: string } | null;
}

type Column = { name: string; kind: string };
/** A cell that changed is its old and its new text. */
type Cell = string | [string, string];
type Row = [label: Cell | number, ...cells: Cell[]];
type Place = { row: number; column: number };

/** The rows that are shown, and their order. Values that were chosen are their numbers with their texts. */
interface Query {
  filter: string;
  conditions: Record<number, string>;
  choices: Record<number, ReadonlyMap<number, string>>;
  sort: { column: number; isDown: boolean } | null;
}

type Page = { query: Query; columns: Column[]; rows: Row[]; total: number };

/** What others use of a table. */
export interface Table {
  result: Result;
  requests: Requests;
  /** What is shown; while another query is under way or was refused it stays. */
  page: LatestRequest<Query, Page>;
  onPick: ((expression: string) => void) | null;
  /** The query as the kernel takes it. */
  query(): ReturnType<typeof payloadOf>;
  isFiltered(): boolean;
  filterColumn(at: number, condition: string, texts?: ReadonlyMap<number, string>): Promise<Reply<Page>>;
  clearFilters(): Promise<unknown>;
  start(): Promise<unknown>;
  view(): ComponentChild;
  close(): void;
}

interface Options {
  /** Gets the JMESPath of a column that the user wants to keep. */
  onPick?: Table['onPick'];
  /** The class of a row. */
  kindOf?: (row: Row) => string;
}

const ALL: Query = { filter: '', conditions: {}, choices: {}, sort: null };

/** It ends with `requests`, which are its own. */
export function createTable(requests: Requests, result: Result, { onPick = null, kindOf = () => '' }: Options = {}): Table {
  const key = keyOf(result);
  const page = requests.latestOf<Query, Page>(async (query, ask) => ({
    ...(await ask<Omit<Page, 'query'>>('table', { ...key, ...payloadOf(query), offset: 0, limit: 200 })), query
  }));
  const rows = new VirtualRows<Row>(
    requests, ROW_HEIGHT, async (offset, limit, ask) => (await ask('table', { ...key, ...query(), offset, limit })).rows
  );
  const text = signal('');
  const hidden = signal<ReadonlySet<number>>(new Set());
  const resized = signal<Record<number, number>>({});
  const selection = signal<{ from: Place; to: Place; isRows: boolean } | null>(null);
  const status = signal('');
  const [isCopying, isSaving] = [signal(false), signal(false)];
  const activeId = uniqueId('cell');
  const visible = computed(() => (page.value.value?.columns ?? []).map((_, at) => at).filter(at => !hidden.value.has(at)));
  const search = debounce(200, () => change({ filter: text.peek() }));
  let widest: number[] = []; // columns only grow
  let asked = ALL;
  let isDragging = false;

  page.value.subscribe(found => {
    if (!found) return;
    widest = widthsOf(found.columns, found.rows).map((width, at) => Math.max(width, widest[at] ?? 0));
    selection.value = null;
    status.value = '';
    void rows.reset(found.total, found.rows);
  });

  const shown = (): Query => page.value.peek()?.query ?? ALL;
  const query = () => payloadOf(shown());
  const widthAt = (at: number): number => resized.value[at] ?? widest[at] ?? MIN_WIDTH;

  /** Ask for other rows. A query that was refused is forgotten with the next one. */
  function change(part: Partial<Query>): Promise<Reply<Page>> {
    asked = { ...(page.isPending.peek() ? asked : shown()), ...part };
    return page.send(asked);
  }

  function filterColumn(at: number, condition: string, texts?: ReadonlyMap<number, string>): Promise<Reply<Page>> {
    const { conditions, choices } = page.isPending.peek() ? asked : shown();
    return change({
      conditions: changed(conditions, at, condition.trim() ? condition : null), choices: changed(choices, at, texts?.size ? texts : null)
    });
  }

  function clearFilters(): Promise<unknown> {
    text.value = '';
    search.cancel();
    return change({ filter: '', conditions: {}, choices: {} });
  }

  function sortBy(column: number): void {
    const { sort } = page.isPending.peek() ? asked : shown();
    const isSame = sort?.column === column;
    void change({ sort: isSame && sort.isDown ? null : { column, isDown: isSame } });
  }

  /** The selected rectangle, in rows and in places of visible columns; null without a selection. */
  function area() {
    if (!selection.value) return null;
    const { from, to, isRows } = selection.value;
    const places = [from, to].map(({ column }) => visible.value.indexOf(column));
    const [left, right] = isRows ? [0, visible.value.length - 1] : [Math.min(...places), Math.max(...places)];
    return { top: Math.min(from.row, to.row), bottom: Math.max(from.row, to.row), left, right };
  }

  /** Press on a cell or a row's number to select it; drag, or press with Shift, to select all up to there. */
  function onPointer(event: PointerEvent, isPress: boolean): void {
    const cell = (event.target as Element).closest<HTMLElement>('[data-row]');
    if (isPress) isDragging = cell !== null && event.button === 0;
    if (!cell || !isDragging) return;
    const isRows = isPress ? cell.dataset.column === undefined : (selection.peek()?.isRows ?? false);
    select({ row: Number(cell.dataset.row), column: Number(cell.dataset.column ?? visible.peek()[0]) }, isRows, event.shiftKey || !isPress);
  }

  /** Move the active cell; `isLonger` keeps the other end of the selection where it is. */
  function select({ row, column }: Place, isRows: boolean, isLonger: boolean): void {
    const to = { row: Math.max(0, Math.min(rows.total - 1, row)), column };
    selection.value = { from: (isLonger && selection.peek()?.from) || to, to, isRows };
    const { top, bottom, left, right } = area()!;
    const [down, across] = [bottom - top + 1, right - left + 1];
    status.value = down * across === 1
      ? ''
      : isRows
      ? `${counted(down, 'row')} selected`
      : `${number(down)} × ${number(across)} cells selected`;
    const first = rows.top;
    if (to.row < first) void rows.scrollTo(to.row);
    else if (to.row > first + rows.visible - 4) void rows.scrollTo(Math.min(to.row, to.row - rows.visible + 4));
    rows.element?.querySelector(`#${activeId}`)?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' });
  }

  function onKey(event: KeyboardEvent): boolean {
    const columns = visible.peek();
    if (!columns.length || !rows.total) return false;
    const letter = event.ctrlKey || event.metaKey ? event.key.toLowerCase() : '';
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    const before = selection.peek();
    if (letter === 'c' && !document.getSelection()?.toString()) void copy(false);
    else if (letter === 'a') {
      selection.value = { from: { row: 0, column: columns[0] }, to: { row: rows.total - 1, column: columns[0] }, isRows: true };
      status.value = `${counted(rows.total, 'row')} selected`;
    } else if (event.key === 'Escape' && before) {
      selection.value = null;
      status.value = '';
    } else if (down || right) {
      const { row, column } = before?.to ?? { row: rows.top - down, column: columns[0] };
      const at = Math.max(0, Math.min(columns.length - 1, columns.indexOf(column) + right));
      const isLonger = event.shiftKey && before !== null;
      select({ row: row + down, column: columns[at] }, isLonger && before.isRows, isLonger);
    } else return false;
    return true;
  }

  function copy(hasNames: boolean): Promise<void> {
    const { top, bottom, left, right } = area() ?? { top: 0, bottom: rows.total - 1, left: 0, right: visible.peek().length - 1 };
    const columns = visible.peek().slice(left, right + 1);
    const cells = (bottom - top + 1) * columns.length;
    const isRows = selection.peek()?.isRows ?? true;
    const words = isRows ? counted(bottom - top + 1, 'row') : cells === 1 ? 'the cell' : counted(cells, 'cell');
    return copyFrom('copied', { first: top, last: bottom, visible: columns, hasNames }, `Copied ${words}.`);
  }

  async function copyFrom(kind: string, payload: object, message: string): Promise<void> {
    const reply = await requests.latest<{ text?: string; code?: string }>(kind).send({ ...key, ...query(), ...payload });
    if (reply.status === 'ok') status.value = (await copyText(reply.value.text ?? reply.value.code ?? ''))
      ? message
      : 'The browser did not allow copying.';
    else if (reply.status === 'failed') status.value = reply.error.message;
  }

  async function download(format: string): Promise<void> {
    status.value = 'writing …';
    const reply = await requests.onceOf(ask => fetchFile(format, ask));
    if (reply.status === 'failed') status.value = reply.error.message;
    if (reply.status !== 'ok') return;
    const { name, mime, size, total, parts } = reply.value;
    const url = URL.createObjectURL(new Blob(parts, { type: mime }));
    elementOf('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    status.value = `${name}, ${counted(total, 'row')}, ${byteSize(size)}`;
  }

  async function fetchFile(format: string, ask: Ask) {
    const { total } = rows;
    const { name, mime, size, part } = await ask<{ name: string; mime: string; size: number; part: number }>('download', {
      ...key, ...query(), visible: visible.peek(), format
    });
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for (let offset = 0; offset < size; offset += part) {
      status.value = `${Math.round((offset / size) * 100)} %`;
      parts.push(bytesOf((await ask<{ base64: string }>('part', { ...key, offset })).base64));
    }
    return { name, mime, size, total, parts };
  }

  function item(label: string, title: string | undefined, run: () => Promise<void>, isOpen: { value: boolean }) {
    return (
      <button key={label} class="otx-small" type="button" title={title} onClick={() => run().then(() => (isOpen.value = false))}>
        {label}
      </button>
    );
  }

  function toolbar() {
    const found = page.value.value;
    const flip = (at: number, isShown: boolean): void => {
      const left = new Set(hidden.peek());
      hidden.value = isShown ? (left.delete(at), left) : left.add(at);
    };
    return (
      <div class="otx-bar otx-table-bar">
        <Search label="Filter rows" value={text.value} onInput={typed => ((text.value = typed), search())} />
        <span class="otx-muted" role="status">{countOf(found)}</span>
        <span class="otx-muted" role="status">{status.value}</span>
        <span class="otx-tools">
          <Menu label="Columns">
            {found?.columns.map(({ name }, at) => (
              <Check key={at} isOn={!hidden.value.has(at)} onChange={isOn => flip(at, isOn)}> {name}</Check>
            ))}
          </Menu>
          <Menu label="Copy" isOpen={isCopying}>
            {item('Cells', COPY_HINT, () => copy(false), isCopying)}
            {item('With column names', undefined, () => copy(true), isCopying)}
            {item('As pandas code', undefined, () => copyFrom('pandasCode', { visible: visible.peek() }, 'Copied the code.'), isCopying)}
          </Menu>
          <Menu label="Download" isOpen={isSaving}>
            {(result.formats ?? ['csv', 'json']).map(format => item(
              FORMATS[format], format === 'csv' ? CSV_HINT : undefined, () => download(format), isSaving
            ))}
          </Menu>
        </span>
      </div>
    );
  }

  function countOf(found: Page | null): ComponentChild {
    if (page.isPending.value) return 'reading …';
    if (page.failure.value && !columnFilter.isOpen()) return <Failure of={page} />;
    if (!found) return '';
    return found.total === result.rows ? counted(found.total, 'row') : `${number(found.total)} of ${number(result.rows ?? 0)} rows`;
  }

  function chips(columns: Column[], { conditions, choices }: Query) {
    const filtered = Object.keys({ ...conditions, ...choices }).map(Number);
    const words = (at: number): string => {
      const texts = [...(choices[at]?.values() ?? [])].map(each => each || '(missing)');
      const few = texts.length > 3 ? [...texts.slice(0, 3), `${texts.length - 3} more`] : texts;
      return [conditions[at], few.join(', ')].filter(Boolean).join('; ');
    };
    return (
      <div class="otx-chips" role="group" aria-label="Filters of columns" hidden={!filtered.length}>
        {filtered.map(at => (
          <button key={at} class="otx-small otx-filter-chip" type="button" title="Remove this filter" onClick={() => filterColumn(at, '')}>
            <strong>{columns[at].name}</strong> {words(at)} <span aria-hidden="true">×</span>
          </button>
        ))}
        {filtered.length ? <button class="otx-small otx-link" type="button" onClick={clearFilters}>Clear filters</button> : null}
      </div>
    );
  }

  function headCell({ columns, query: { sort, conditions, choices } }: Page, at: number) {
    const { name, kind } = columns[at];
    const direction = sort?.column !== at ? 'none' : sort.isDown ? 'descending' : 'ascending';
    const letters = widthAt(at);
    const resize = (to: number): void => {
      resized.value = { ...resized.peek(), [at]: Math.max(MIN_WIDTH, Math.min(200, Math.round(to))) };
    };
    const fit = (): void => resize(rows.loaded().reduce(
      (most, row) => Math.max(most, textOf(row[at + 1] as Cell).length), name.length + HEAD_SPACE
    ));
    return (
      <div key={at} class={`otx-cell otx-kind-${kind}`} role="columnheader" aria-sort={direction} style={widthOf(letters)}>
        <button class="otx-sort" type="button" title={`Sort by ${name} (${KINDS[kind] ?? kind})`} onClick={() => sortBy(at)}>
          {name}
          {{ ascending: ' ▲', descending: ' ▼', none: '' }[direction]}
        </button>
        <button
          class="otx-funnel" type="button" title={`Filter ${name}`} aria-label={`Filter ${name}`} aria-haspopup="dialog"
          aria-pressed={at in conditions || at in choices} onClick={event => columnFilter.open(at, event.currentTarget)}
        >
          <Drawing path={FUNNEL} />
        </button>
        <Edge name={name} letters={letters} resize={resize} fit={fit} />
      </div>
    );
  }

  function drawRow(columns: Column[], row: Row, at: number, rowKey: Key): ComponentChild {
    const [label, ...cells] = row;
    const { top = -1, bottom = -1, left = 0, right = 0 } = area() ?? {};
    const isIn = at >= top && at <= bottom;
    const cell = (column: number, place: number) => {
      const isActive = selection.value?.to.row === at && selection.value.to.column === column;
      const isSelected = isIn && place >= left && place <= right;
      const words = textOf(cells[column]);
      const letters = widthAt(column);
      return (
        <div
          key={column} id={isActive ? activeId : undefined}
          class={`otx-cell otx-kind-${columns[column].kind}${isActive ? ' otx-current' : ''}${isSelected ? ' otx-selected' : ''}`}
          role="gridcell" title={words.length > letters ? words : undefined} style={widthOf(letters)}
          aria-selected={isSelected || undefined} data-row={at} data-column={column}
        >
          {contentOf(cells[column])}
        </div>
      );
    };
    return (
      <div
        key={rowKey} class={`otx-table-row ${kindOf(row)}`.trim()} role="row" aria-rowindex={at + 2}
        aria-selected={(isIn && selection.value?.isRows) || undefined}
      >
        <div class="otx-cell otx-number" role="rowheader" title="Click to select the row, Shift+click for several" data-row={at}>
          {String(label)}
        </div>
        {visible.value.map(cell)}
      </div>
    );
  }

  /** The list is as high as its rows, so that nothing empty is below the last one. */
  function height(found: Page | null): number {
    const { offsetHeight = 0, clientHeight = 0 } = rows.element ?? {};
    return Math.min(found?.total ?? result.rows ?? 99, 99) * ROW_HEIGHT + HEAD_HEIGHT + Math.max(2, offsetHeight - clientHeight);
  }

  function view() {
    const found = page.value.value;
    const { seen } = rows;
    const active = selection.value?.to;
    const isActiveSeen = active && active.row >= seen.from && active.row < seen.to && visible.value.includes(active.column);
    const isEmpty = found?.total === 0 && isFilter(found.query);
    const head = (
      <div class="otx-table-heads" role="rowgroup">
        <div class="otx-table-head" role="row" hidden={!found}>
          <div class="otx-cell otx-number" role="columnheader" title={LABEL_HINT}>#</div>
          {found ? visible.value.map(at => headCell(found, at)) : null}
        </div>
      </div>
    );
    return (
      <div class="otx-pane">
        {toolbar()}
        {chips(found?.columns ?? [], found?.query ?? ALL)}
        <Rows
          rows={rows} seen={seen} label="Rows of the result" role="grid" head={head} headHeight={HEAD_HEIGHT}
          style={`flex-basis:${height(found)}px`} draw={(row, at, rowKey) => drawRow(found!.columns, row, at, rowKey)} onKey={onKey}
          aria-multiselectable="true" aria-rowcount={found ? found.total + 1 : undefined}
          aria-activedescendant={isActiveSeen ? activeId : undefined} onPointerDown={(event: PointerEvent) => onPointer(event, true)}
          onPointerOver={(event: PointerEvent) => event.buttons === 1 && onPointer(event, false)}
        />
        {isEmpty ? (
          <p class="otx-muted otx-table-empty">
            {found.query.filter ? `No row has '${found.query.filter}'.` : 'No row matches the filters.'}{' '}
            <button class="otx-small" type="button" onClick={clearFilters}>Clear filters</button>
          </p>
        ) : null}
        {columnFilter.view()}
      </div>
    );
  }

  const close = (): void => (requests.close(), rows.close(), search.cancel(), columnFilter.close());
  const table: Table = {
    result, requests, page, onPick, query, isFiltered: () => isFilter(shown()), filterColumn, clearFilters, start: () => change({}), view,
    close
  };
  const columnFilter = createColumnFilter(table);
  return table;
}

/** The right edge of a column: drag it, press arrow keys on it, or double-click it for the width of its content. */
function Edge({ name, letters, resize, fit }: { name: string; letters: number; resize: (to: number) => void; fit: () => void }) {
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 2, ArrowLeft: -2 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    resize(letters + step);
  };
  const onPointerDown = (event: PointerEvent): void => {
    event.preventDefault();
    const cell = (event.currentTarget as HTMLElement).parentElement!;
    const letter = (cell.offsetWidth - 14) / letters || 7;
    const move = (moved: PointerEvent): void => resize(letters + (moved.clientX - event.clientX) / letter);
    const drag = new AbortController();
    const { signal } = drag;
    document.addEventListener('pointermove', move, { signal });
    for (const end of ['pointerup', 'pointercancel']) document.addEventListener(end, () => drag.abort(), { signal });
  };
  return (
    <span
      class="otx-edge" role="separator" tabIndex={0} aria-orientation="vertical" aria-label={`Width of ${name}`} aria-valuenow={letters}
      aria-valuemin={MIN_WIDTH} aria-valuemax={200} onKeyDown={onKeyDown} onDblClick={fit} onPointerDown={onPointerDown}
    />
  );
}

/** Names the result in a request. */
export function keyOf({ handle, call }: Result) {
  return { handle, call };
}

function payloadOf({ filter, conditions, choices, sort }: Query) {
  return {
    filter, columns: conditions, choices: Object.fromEntries(Object.entries(choices).map(([at, texts]) => [at, [...texts.keys()]])), sort
  };
}

function isFilter({ filter, conditions, choices }: Query): boolean {
  return Boolean(filter) || Object.keys({ ...conditions, ...choices }).length > 0;
}

function changed<T>(filters: Record<number, T>, at: number, filter: T | null): Record<number, T> {
  const { [at]: _, ...others } = filters;
  return filter === null ? others : { ...others, [at]: filter };
}

function bytesOf(base64: string) {
  return Uint8Array.from(atob(base64), letter => letter.codePointAt(0)!);
}

function textOf(cell: Cell): string {
  return Array.isArray(cell) ? cell.map(side => side || NOTHING).join(' → ') : cell;
}

/** What a cell shows; of one that changed the old text, struck out, and the new one. */
function contentOf(cell: Cell): ComponentChild {
  if (!Array.isArray(cell)) return cell;
  const [old, fresh] = cell.map(side => side || <em>{NOTHING}</em>);
  return <><del>{old}</del><span class="otx-hidden"> → </span> <ins>{fresh}</ins></>;
}

/** The width of a cell with this many letters. */
function widthOf(letters: number): string {
  return `width:calc(${letters}ch + 14px)`;
}

function widthsOf(columns: Column[], rows: Row[]): number[] {
  return columns.map(({ name }, at) => {
    const longest = rows.slice(0, 50).reduce(
      (most, row) => Math.max(most, textOf((row[at + 1] ?? '') as Cell).length), name.length + HEAD_SPACE
    );
    return Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, longest));
  });
}
