// The table of a result: typed columns that are sorted, filtered, hidden and resized; rows that are copied and
// downloaded. The kernel sorts, filters, summarises and writes, over all rows; the page keeps only the visible ones.
import { ColumnFilter, KINDS } from './columnFilter.js';
import { copyText, debounce, fill, h, icon, menu, retryButton, show, uniqueId } from './dom.js';
import { byteSize, counted, number } from './format.js';
import { VirtualList } from './virtualList.js';

const ROW_HEIGHT = 24;
const HEAD_HEIGHT = 25;
const MIN_WIDTH = 3;
const MAX_WIDTH = 40;
const HEAD_SPACE = 5; // letters that the buttons of a head take
const FUNNEL = 'M2.5 3h11L9.5 8v4.5l-3-1.5V8z';
const NOTHING = 'nothing';
const FORMATS = { csv: 'CSV', xlsx: 'Excel', json: 'JSON', parquet: 'Parquet' };
const CSV_HINT = "Text that a spreadsheet would run (=, +, -, @) gets a ' before it";

export class TablePane {
  /** It ends with `requests`, which are its own. */
  constructor(requests, result, onPick = null) {
    Object.assign(this, { requests, result, onPick, sort: null, filter: '', conditions: {}, choices: {}, hidden: new Set(), resized: {}, selection: null, id: uniqueId('cell') });
    this.count = h('span.otx-muted', { role: 'status' });
    this.status = h('span.otx-muted', { role: 'status' });
    this.chips = h('div.otx-chips', { role: 'group', 'aria-label': 'Filters of columns', hidden: true });
    this.heads = h('div.otx-table-head', { role: 'row', hidden: true }); // a row without cells is none
    this.list = new VirtualList({ requests, rowHeight: ROW_HEIGHT, label: 'Rows of the result', fetch: async (offset, limit, ask) => (await ask('table', this.page(offset, limit))).rows, draw: (row, at) => this.row(row, at), onDraw: () => this.nameActive() });
    this.columnFilter = new ColumnFilter(this);
    const { element, spacer, body } = this.list;
    element.setAttribute('role', 'grid');
    element.setAttribute('aria-multiselectable', 'true');
    spacer.prepend(h('div.otx-table-heads', { role: 'rowgroup' }, this.heads));
    body.style.top = `${HEAD_HEIGHT}px`;
    this.fit(result.rows ?? 99);
    element.addEventListener('keydown', event => this.onKey(event), true);
    element.addEventListener('pointerdown', event => this.onPointer(event, true));
    element.addEventListener('pointerover', event => event.buttons === 1 && this.isDragging && this.onPointer(event, false));
    this.element = h('div.otx-pane', null, this.toolbar(), this.chips, element, this.columnFilter.element);
  }

  toolbar() {
    this.filterInput = h('input.otx-input', { type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows', spellcheck: 'false' });
    this.filterInput.addEventListener('input', debounce(200, () => {
      this.filter = this.filterInput.value;
      this.restart();
    }));
    this.columnMenu = menu('Columns', []);
    const formats = this.result.formats ?? ['csv', 'json'];
    const item = (label, title, run) => h('button.otx-small', { type: 'button', title, onclick: run }, label);
    const download = menu('Download', formats.map(format => item(FORMATS[format], format === 'csv' ? CSV_HINT : null, () => this.download(format).then(download.close))));
    const copies = { Cells: () => this.copy(false), 'With column names': () => this.copy(true), 'As pandas code': () => this.copyCode() };
    const copy = menu('Copy', Object.entries(copies).map(([label, run]) => item(label, label === 'Cells' ? 'The selected cells or rows (Ctrl+C); without a selection all rows' : null, () => run().then(copy.close))));
    return h('div.otx-bar.otx-table-bar', null, this.filterInput, this.count, this.status, h('span.otx-tools', null, this.columnMenu.element, copy.element, download.element));
  }

  /** The list is as high as its rows, so that nothing empty is below the last one. */
  fit(rows) {
    const { element } = this.list;
    const scrollBar = element.offsetHeight - element.clientHeight;
    element.style.flexBasis = `${Math.min(rows, 99) * ROW_HEIGHT + HEAD_HEIGHT + Math.max(2, scrollBar)}px`;
  }

  start() {
    return this.restart();
  }

  /** Show the table again after another pane was open. */
  resume() {
    this.list.scrollTo(this.scrolled ?? 0);
  }

  pause() {
    this.scrolled = this.list.top;
  }

  /** The rows that are shown, in their order, as the kernel takes it. */
  query() {
    const choices = Object.fromEntries(Object.entries(this.choices).map(([at, texts]) => [at, [...texts.keys()]]));
    return { filter: this.filter, columns: this.conditions, choices, sort: this.sort };
  }

  get isFiltered() {
    return Boolean(this.filter) || Object.keys({ ...this.conditions, ...this.choices }).length > 0;
  }

  /** Filter a column by a condition and by values, a map from their numbers to their texts. */
  filterColumn(at, condition, texts) {
    if (condition?.trim()) this.conditions[at] = condition;
    else delete this.conditions[at];
    if (texts?.size) this.choices[at] = texts;
    else delete this.choices[at];
    return this.restart();
  }

  clearFilters() {
    Object.assign(this, { filter: '', conditions: {}, choices: {} });
    this.filterInput.value = '';
    return this.restart();
  }

  drawChips() {
    const chips = Object.keys({ ...this.conditions, ...this.choices }).map(Number).map(at => {
      const { name } = this.columns[at];
      const texts = [...(this.choices[at]?.values() ?? [])].map(text => text || '(missing)');
      const few = texts.length > 3 ? [...texts.slice(0, 3), `${texts.length - 3} more`] : texts;
      const words = [this.conditions[at], few.join(', ')].filter(Boolean).join('; ');
      return h('button.otx-small.otx-filter-chip', { type: 'button', title: 'Remove this filter', onclick: () => this.filterColumn(at) }, h('strong', null, name), ` ${words} `, h('span', { 'aria-hidden': 'true' }, '×'));
    });
    if (chips.length) chips.push(h('button.otx-small.otx-link', { type: 'button', onclick: () => this.clearFilters() }, 'Clear filters'));
    show(fill(this.chips, chips), chips.length > 0);
  }

  get visible() {
    return (this.columns ?? []).map((_, at) => at).filter(at => !this.hidden.has(at));
  }

  async restart() {
    fill(this.count, 'reading …');
    const reply = await this.requests.latest('table').send(this.page(0, 200));
    if (reply.status === 'late') return;
    if (reply.status === 'failed') {
      fill(this.count, reply.error.message, ' ', retryButton(() => this.restart()));
      return;
    }
    const { value: answer } = reply;
    const isFirst = !this.columns;
    this.columns = answer.columns;
    const widths = widthsOf(answer.columns, answer.rows);
    this.widths = widths.map((width, at) => this.resized[at] ?? Math.max(width, this.widths?.[at] ?? 0)); // columns only grow
    if (isFirst) fill(this.columnMenu.content, this.columns.map((column, at) => this.columnChoice(column, at)));
    this.total = answer.total;
    this.selection = null;
    this.drawHeads();
    this.drawChips();
    fill(this.status);
    fill(this.count, answer.total === this.result.rows ? counted(answer.total, 'row') : `${number(answer.total)} of ${number(this.result.rows)} rows`);
    this.list.element.setAttribute('aria-rowcount', String(answer.total + 1));
    await this.list.reset(answer.total, answer.rows).catch(() => {}); // rows that cannot be loaded stay '…'
    if (this.fitted !== answer.total) this.fit(this.fitted = answer.total);
  }

  page(offset, limit) {
    return { ...keyOf(this.result), ...this.query(), offset, limit };
  }

  columnChoice({ name }, at) {
    const box = h('input', { type: 'checkbox', checked: true, onchange: () => {
      if (box.checked) this.hidden.delete(at);
      else this.hidden.add(at);
      this.redraw();
    } });
    return h('label.otx-choice', null, box, ` ${name}`);
  }

  redraw() {
    this.drawHeads();
    this.list.update();
  }

  drawHeads() {
    const focused = document.activeElement?.dataset?.key;
    this.heads.hidden = false;
    fill(this.heads, h('div.otx-cell.otx-number', { role: 'columnheader', title: "The row's label in the index of pandas; without an index its number from 0" }, '#'), this.visible.map(at => this.headCell(at)));
    if (focused) this.list.element.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  headCell(at) {
    const { name, kind } = this.columns[at];
    const direction = this.sort?.column === at ? (this.sort.isDown ? 'descending' : 'ascending') : 'none';
    const arrow = { ascending: ' ▲', descending: ' ▼', none: '' }[direction];
    const sort = h('button.otx-sort', { type: 'button', data: { key: `sort-${at}` }, title: `Sort by ${name} (${KINDS[kind] ?? kind})`, onclick: () => this.sortBy(at) }, `${name}${arrow}`);
    const isOn = at in this.conditions || at in this.choices;
    const filter = h('button.otx-funnel', { type: 'button', data: { key: `filter-${at}` }, title: `Filter ${name}`, 'aria-label': `Filter ${name}`, 'aria-haspopup': 'dialog', 'aria-pressed': String(isOn), onclick: () => this.columnFilter.open(at) }, icon(FUNNEL));
    return h(`div.otx-cell.otx-kind-${kind}`, { role: 'columnheader', 'aria-sort': direction, style: widthOf(this.widths[at]) }, sort, filter, this.handle(at));
  }

  /** The right edge of a column: drag it, press arrow keys on it, or double-click it for the width of its content. */
  handle(at) {
    const { name } = this.columns[at];
    const edge = h('span.otx-edge', { role: 'separator', tabindex: '0', 'aria-orientation': 'vertical', 'aria-label': `Width of ${name}`, 'aria-valuenow': this.widths[at], 'aria-valuemin': MIN_WIDTH, 'aria-valuemax': 200, data: { key: `edge-${at}` } });
    const resize = letters => {
      this.resized[at] = this.widths[at] = Math.max(MIN_WIDTH, Math.min(200, Math.round(letters)));
      this.redraw();
    };
    edge.addEventListener('keydown', event => {
      const step = { ArrowRight: 2, ArrowLeft: -2 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      resize(this.widths[at] + step);
    });
    edge.addEventListener('dblclick', () => {
      const shown = [...(this.list.pages.values())].filter(Boolean).flat();
      resize(shown.reduce((most, row) => Math.max(most, textOf(row[at + 1]).length), name.length + HEAD_SPACE));
    });
    edge.addEventListener('pointerdown', event => {
      event.preventDefault();
      const cell = edge.parentElement;
      const letter = (cell.offsetWidth - 14) / this.widths[at] || 7;
      const [start, width] = [event.clientX, this.widths[at]];
      const move = moved => resize(width + (moved.clientX - start) / letter);
      const end = () => {
        document.removeEventListener('pointermove', move);
        document.removeEventListener('pointerup', end);
      };
      document.addEventListener('pointermove', move);
      document.addEventListener('pointerup', end);
    });
    return edge;
  }

  sortBy(column) {
    const isSame = this.sort?.column === column;
    if (isSame && this.sort.isDown) this.sort = null;
    else this.sort = { column, isDown: isSame };
    return this.restart();
  }

  row([label, ...cells], at) {
    const area = this.area();
    const isRow = area !== null && at >= area.top && at <= area.bottom;
    const drawn = this.visible.map((column, place) => {
      const isActive = this.selection?.to.row === at && this.selection.to.column === column;
      const isSelected = isRow && place >= area.left && place <= area.right;
      const text = textOf(cells[column]);
      const attributes = { role: 'gridcell', title: text.length > this.widths[column] ? text : null, style: widthOf(this.widths[column]), data: { row: at, column } };
      if (isActive) attributes.id = this.id;
      if (isSelected) attributes['aria-selected'] = 'true';
      return h(`div.otx-cell.otx-kind-${this.columns[column].kind}${isActive ? '.otx-current' : ''}${isSelected ? '.otx-selected' : ''}`, attributes, contentOf(cells[column]));
    });
    return h('div.otx-table-row', { role: 'row', 'aria-rowindex': at + 2, 'aria-selected': isRow && this.selection.isRows ? 'true' : null }, h('div.otx-cell.otx-number', { role: 'rowheader', title: 'Click to select the row, Shift+click for several', data: { row: at } }, String(label)), drawn);
  }

  /** The selected rectangle, in rows and in places of visible columns; null without a selection. */
  area() {
    if (!this.selection) return null;
    const { from, to, isRows } = this.selection;
    const places = [from, to].map(({ column }) => this.visible.indexOf(column));
    const [left, right] = isRows ? [0, this.visible.length - 1] : [Math.min(...places), Math.max(...places)];
    return { top: Math.min(from.row, to.row), bottom: Math.max(from.row, to.row), left, right };
  }

  /** Press on a cell or a row's number to select it; drag, or press with Shift, to select all up to there. */
  onPointer(event, isPress) {
    const cell = event.target.closest('[data-row]');
    if (isPress) this.isDragging = Boolean(cell) && event.button === 0;
    if (!cell || (isPress && event.button !== 0)) return;
    const isRows = isPress ? cell.dataset.column === undefined : this.selection?.isRows;
    const to = { row: Number(cell.dataset.row), column: Number(cell.dataset.column ?? this.visible[0]) };
    this.select(to, { isRows, isLonger: (event.shiftKey || !isPress) && this.selection !== null });
  }

  /** Move the active cell; `isLonger` keeps the other end of the selection where it is. */
  select({ row, column }, { isRows = false, isLonger = false } = {}) {
    const to = { row: Math.max(0, Math.min(this.total - 1, row)), column };
    this.selection = { from: isLonger ? this.selection.from : to, to, isRows };
    const { top, bottom, left, right } = this.area();
    const [rows, columns] = [bottom - top + 1, right - left + 1];
    fill(this.status, rows * columns === 1 ? null : isRows ? `${counted(rows, 'row')} selected` : `${number(rows)} × ${number(columns)} cells selected`);
    const first = this.list.top;
    if (to.row < first) this.list.scrollTo(to.row);
    else if (to.row > first + this.list.visible - 4) this.list.scrollTo(Math.min(to.row, to.row - this.list.visible + 4));
    else this.list.update();
    this.list.element.querySelector('.otx-cell.otx-current')?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' });
  }

  /** Name the active cell to readers of screens, as long as it is drawn. */
  nameActive() {
    const active = this.list.element.querySelector(`#${this.id}`);
    active ? this.list.element.setAttribute('aria-activedescendant', this.id) : this.list.element.removeAttribute('aria-activedescendant');
  }

  onKey(event) {
    if (event.target !== this.list.element || !this.columns || !this.total) return;
    const letter = event.ctrlKey || event.metaKey ? event.key.toLowerCase() : '';
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    const columns = this.visible;
    if (letter === 'c' && !document.getSelection()?.toString()) this.copy(false);
    else if (letter === 'a') {
      this.selection = { from: { row: 0, column: columns[0] }, to: { row: this.total - 1, column: columns[0] }, isRows: true };
      fill(this.status, `${counted(this.total, 'row')} selected`);
      this.list.update();
    } else if (event.key === 'Escape' && this.selection) {
      this.selection = null;
      fill(this.status);
      this.list.update();
    } else if (down || right) {
      const { row, column } = this.selection?.to ?? { row: this.list.top - down, column: columns[0] };
      const at = Math.max(0, Math.min(columns.length - 1, columns.indexOf(column) + right));
      const isLonger = event.shiftKey && this.selection !== null;
      this.select({ row: row + down, column: columns[at] }, { isRows: isLonger && this.selection.isRows, isLonger });
    } else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  async copy(hasNames) {
    const { top, bottom, left, right } = this.area() ?? { top: 0, bottom: this.total - 1, left: 0, right: this.visible.length - 1 };
    const visible = this.visible.slice(left, right + 1);
    const cells = (bottom - top + 1) * visible.length;
    const isRows = !this.selection || this.selection.isRows;
    const words = isRows ? counted(bottom - top + 1, 'row') : cells === 1 ? 'the cell' : counted(cells, 'cell');
    await this.copyFrom('copied', { first: top, last: bottom, visible, hasNames }, 'text', `Copied ${words}.`);
  }

  copyCode() {
    return this.copyFrom('pandasCode', { visible: this.visible }, 'code', 'Copied the code.');
  }

  async copyFrom(kind, payload, key, message) {
    const reply = await this.requests.latest(kind).send({ ...keyOf(this.result), ...this.query(), ...payload });
    if (reply.status === 'ok') fill(this.status, (await copyText(reply.value[key])) ? message : 'The browser did not allow copying.');
    else if (reply.status === 'failed') fill(this.status, reply.error.message);
  }

  async download(format) {
    fill(this.status, 'writing …');
    const reply = await this.requests.onceOf(ask => this.fetchFile(format, ask));
    if (reply.status === 'failed') fill(this.status, reply.error.message);
    if (reply.status !== 'ok') return;
    const { name, mime, size, total, parts } = reply.value;
    const url = URL.createObjectURL(new Blob(parts, { type: mime }));
    h('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    fill(this.status, `${name}, ${counted(total, 'row')}, ${byteSize(size)}`);
  }

  async fetchFile(format, ask) {
    const key = keyOf(this.result);
    const { total } = this;
    const { name, mime, size, part } = await ask('download', { ...key, ...this.query(), visible: this.visible, format });
    const parts = [];
    for (let offset = 0; offset < size; offset += part) {
      fill(this.status, `${Math.round((offset / size) * 100)} %`);
      parts.push(bytesOf((await ask('part', { ...key, offset })).base64));
    }
    return { name, mime, size, total, parts };
  }

  close() {
    this.requests.close();
    this.columnFilter.close();
    this.list.close();
  }
}

/** What is in each column of the rows that the table shows. A click on a bar or a value filters the table by it. */
export class SummaryPane {
  constructor(requests, result, table, openTable) {
    Object.assign(this, { requests, result, table, openTable });
    this.status = h('span.otx-muted', { role: 'status' }, 'reading …');
    this.clear = h('button.otx-small', { type: 'button', hidden: !table.isFiltered, onclick: () => table.clearFilters().then(() => openTable('summary')) }, 'Clear filters');
    this.body = h('tbody');
    const heads = ['Column', 'Values', 'Missing', 'Distinct', 'Smallest', 'Median', 'Mean', 'Std. dev.', 'Largest'].map((head, at) => h(at > 1 ? 'th.otx-right-cell' : 'th', { scope: 'col' }, head));
    const grid = h('table.otx-columns', null, h('thead', null, h('tr', null, heads)), this.body);
    this.element = h('div.otx-pane', null, h('div.otx-bar.otx-table-bar', null, this.status, this.clear), h('div.otx-scroll', { tabindex: '0', role: 'group', 'aria-label': 'Summary of the columns' }, grid));
  }

  async start() {
    fill(this.body);
    const reply = await this.requests.onceOf(ask => this.load(ask));
    if (reply.status === 'failed') fill(this.status, reply.error.message, ' ', retryButton(() => this.start()));
  }

  async load(ask) {
    const key = { ...keyOf(this.result), ...this.table.query(), sort: null };
    const { columns, total } = await ask('table', { ...key, offset: 0, limit: 1 });
    for (const [column, { name }] of columns.entries()) {
      fill(this.status, `column ${number(column + 1)} of ${number(columns.length)} …`);
      this.body.append(this.row(column, name, await ask('summary', { ...key, column })));
    }
    const rows = this.table.isFiltered ? `${number(total)} of ${number(this.result.rows)} rows` : counted(total, 'row');
    fill(this.status, `${counted(columns.length, 'column')}, ${rows}`);
  }

  row(column, name, summary) {
    const percent = (summary.missing / summary.rows) * 100;
    const share = summary.missing ? ` (${percent < 1 ? '< 1' : Math.round(percent)} %)` : '';
    const figures = [number(summary.missing) + share, number(summary.distinct), summary.min, summary.median, summary.mean, summary.std, summary.max];
    const title = h('th', { scope: 'row' }, name, h('div.otx-muted.otx-tip', null, KINDS[summary.kind] ?? summary.kind));
    return h('tr', null, title, h('td', null, summary.bars?.length ? this.bars(column, name, summary) : this.top(column, name, summary)), figures.map(text => h('td.otx-right-cell', null, text ?? '')));
  }

  top(column, name, { top }) {
    const choices = (top ?? []).map(([value, count, id]) => h('button.otx-top', { type: 'button', title: `Only rows with ${name} ${value}`, onclick: () => this.filter(column, '', new Map([[id, value]])) }, `${value || '""'} `, h('span.otx-muted', null, number(count))));
    return choices;
  }

  bars(column, name, { bars, ranges, min, max }) {
    const most = Math.max(...bars);
    const drawn = bars.map((count, at) => {
      const label = `${ranges[at].replace('..<', ' to below ').replace('..', ' to ')}: ${counted(count, 'row')}`;
      return h('button.otx-spread-bar', { type: 'button', title: label, 'aria-label': label, tabindex: at ? '-1' : '0', onclick: () => this.filter(column, ranges[at]) }, h('span', { style: `height:${count ? Math.max(2, Math.round((24 * count) / most)) : 0}px` }));
    });
    const group = h('div.otx-spread', { role: 'group', 'aria-label': `How ${name} is spread from ${min} to ${max}` }, drawn);
    group.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      drawn[(drawn.indexOf(document.activeElement) + step + drawn.length) % drawn.length].focus();
      event.preventDefault();
      event.stopPropagation();
    });
    return group;
  }

  filter(column, condition, texts) {
    this.openTable('table');
    return this.table.filterColumn(column, condition, texts);
  }

  close() {
    this.requests.close();
  }
}

/** Names the result in a request. */
export function keyOf(result) {
  return { handle: result.handle, call: result.call };
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), letter => letter.codePointAt(0));
}

/** The text of a cell; one that changed comes as its old and its new text. */
function textOf(cell) {
  return Array.isArray(cell) ? cell.map(side => side || NOTHING).join(' → ') : cell;
}

/** What a cell shows; of one that changed the old text, struck out, and the new one. */
function contentOf(cell) {
  if (!Array.isArray(cell)) return cell;
  const [old, fresh] = cell.map(side => side || h('em', null, NOTHING));
  return [h('del', null, old), h('span.otx-hidden', null, ' → '), ' ', h('ins', null, fresh)];
}

/** The width of a cell with this many letters. */
function widthOf(letters) {
  return `width:calc(${letters}ch + 14px)`;
}

function widthsOf(columns, rows) {
  return columns.map(({ name }, at) => {
    const longest = rows.slice(0, 50).reduce((most, row) => Math.max(most, textOf(row[at + 1] ?? '').length), name.length + HEAD_SPACE);
    return Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, longest));
  });
}
