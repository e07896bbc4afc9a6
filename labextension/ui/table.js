// The table of a result: typed columns that are sorted, filtered, hidden and resized; rows that are copied and
// downloaded. The kernel sorts, filters, summarises and writes, over all rows; the page keeps only the visible ones.
import { copyText, debounce, fill, h, menu, svg, uniqueId } from './dom.js';
import { byteSize, counted, number } from './format.js';
import { VirtualList } from './virtualList.js';

const ROW_HEIGHT = 24;
const HEAD_HEIGHT = 25;
const CONDITION_HEIGHT = 28;
const MIN_WIDTH = 3;
const MAX_WIDTH = 40;
const KINDS = { integer: 'whole numbers', number: 'numbers', boolean: 'true or false', date: 'dates', text: 'text', nested: 'records or lists' };
const HINTS = { integer: '> 5, 2..8', number: '> 0.5, 2..8', date: '2024-03, > 2024', boolean: 'true', text: 'part, =all, !not', nested: 'part' };
const FORMATS = { csv: 'CSV', json: 'JSON', parquet: 'Parquet' };
const CSV_HINT = "Text that a spreadsheet would run (=, +, -, @) gets a ' before it";

export class TablePane {
  constructor(request, result) {
    Object.assign(this, { request, result, sort: null, filter: '', conditions: {}, hidden: new Set(), resized: {}, loads: 0, active: null, anchor: null, id: uniqueId('cell') });
    this.count = h('span.otx-muted', { role: 'status' });
    this.heads = h('div.otx-table-head', { role: 'row' });
    this.conditionRow = h('div.otx-table-head.otx-conditions', { role: 'row', hidden: true });
    this.list = new VirtualList({ rowHeight: ROW_HEIGHT, label: 'Rows of the result', fetch: (offset, limit) => this.fetch(offset, limit), draw: (row, at) => this.row(row, at) });
    const { element, spacer } = this.list;
    element.setAttribute('role', 'grid');
    element.setAttribute('aria-multiselectable', 'true');
    spacer.prepend(h('div.otx-table-heads', { role: 'rowgroup' }, this.heads, this.conditionRow));
    element.style.flexBasis = `${Math.min(result.rows ?? 99, 99) * ROW_HEIGHT + 42}px`;
    element.addEventListener('keydown', event => this.onKey(event), true);
    element.addEventListener('click', event => this.onClick(event));
    this.element = h('div.otx-pane', null, this.toolbar(), element);
  }

  toolbar() {
    const filter = h('input.otx-input', { type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows', spellcheck: 'false' });
    filter.addEventListener('input', debounce(200, () => {
      this.filter = filter.value;
      this.restart();
    }));
    const conditions = h('button.otx-small', { type: 'button', 'aria-pressed': 'false', title: 'One filter for each column', onclick: () => {
      this.conditionRow.hidden = !this.conditionRow.hidden;
      conditions.setAttribute('aria-pressed', String(!this.conditionRow.hidden));
      if (this.conditionRow.hidden && Object.keys(this.conditions).length) {
        this.conditions = {};
        this.restart();
      } else this.drawHeads();
      this.list.update();
      this.conditionRow.querySelector('input')?.focus();
    } }, 'Column filters');
    this.columnMenu = menu('Columns', []);
    const formats = this.result.formats ?? ['csv', 'json'];
    const download = menu('Download', formats.map(format => h('button.otx-small', { type: 'button', title: format === 'csv' ? CSV_HINT : null, onclick: () => this.download(format).then(download.close) }, FORMATS[format])));
    const copy = h('button.otx-small', { type: 'button', title: 'Copy the selected cell or rows (Ctrl-C); without a selection all visible rows', onclick: () => this.copy() }, 'Copy');
    return h('div.otx-bar.otx-table-bar', null, filter, this.count, h('span.otx-tools', null, conditions, this.columnMenu.element, copy, download.element));
  }

  start() {
    return this.restart();
  }

  /** The rows that are shown, in their order, as the kernel takes it. */
  query() {
    return { filter: this.filter, columns: this.conditions, sort: this.sort };
  }

  get isFiltered() {
    return Boolean(this.filter) || Object.keys(this.conditions).length > 0;
  }

  get visible() {
    return (this.columns ?? []).map((_, at) => at).filter(at => !this.hidden.has(at));
  }

  async restart() {
    const turn = (this.loads += 1);
    fill(this.count, 'reading …');
    try {
      const answer = await this.fetchPage(0, 200);
      if (turn !== this.loads) return;
      const isFirst = !this.columns;
      this.columns = answer.columns;
      const widths = widthsOf(answer.columns, answer.rows);
      this.widths = widths.map((width, at) => this.resized[at] ?? Math.max(width, this.widths?.[at] ?? 0)); // columns only grow
      if (isFirst) fill(this.columnMenu.content, this.columns.map((column, at) => this.columnChoice(column, at)));
      this.total = answer.total;
      this.active = this.anchor = null;
      this.drawHeads();
      fill(this.count, answer.total === this.result.rows ? counted(answer.total, 'row') : `${number(answer.total)} of ${number(this.result.rows)} rows`);
      this.list.element.setAttribute('aria-rowcount', String(answer.total + 1));
      this.list.reset(answer.total, answer.rows);
    } catch (error) {
      if (turn === this.loads) fill(this.count, error.message);
    }
  }

  fetchPage(offset, limit) {
    return this.request('table', { ...keyOf(this.result), ...this.query(), offset, limit });
  }

  async fetch(offset, limit) {
    return (await this.fetchPage(offset, limit)).rows;
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
    fill(this.heads, h('div.otx-cell.otx-number', { role: 'columnheader', title: 'Number of the row in the data' }, '#'), this.visible.map(at => this.headCell(at)));
    if (!this.conditionRow.hidden) fill(this.conditionRow, h('div.otx-cell.otx-number', { role: 'columnheader' }, h('span.otx-hidden', null, 'filters')), this.visible.map(at => this.conditionCell(at)));
    this.list.body.style.top = `${HEAD_HEIGHT + (this.conditionRow.hidden ? 0 : CONDITION_HEIGHT)}px`;
    if (focused) this.list.element.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  headCell(at) {
    const { name, kind } = this.columns[at];
    const direction = this.sort?.column === at ? (this.sort.isDown ? 'descending' : 'ascending') : 'none';
    const arrow = { ascending: ' ▲', descending: ' ▼', none: '' }[direction];
    const sort = h('button.otx-sort', { type: 'button', data: { key: `sort-${at}` }, title: `Sort by ${name} (${KINDS[kind] ?? kind})`, onclick: () => this.sortBy(at) }, `${name}${arrow}`);
    return h(`div.otx-cell.otx-kind-${kind}`, { role: 'columnheader', 'aria-sort': direction, style: widthOf(this.widths[at]) }, sort, this.handle(at));
  }

  conditionCell(at) {
    const { name, kind } = this.columns[at];
    const input = h('input.otx-input', { type: 'text', value: this.conditions[at] ?? '', placeholder: HINTS[kind] ?? '', 'aria-label': `Filter ${name}`, data: { key: `filter-${at}` }, spellcheck: 'false' });
    input.addEventListener('input', debounce(250, () => {
      if (input.value.trim()) this.conditions[at] = input.value;
      else delete this.conditions[at];
      this.restart();
    }));
    return h('div.otx-cell', { role: 'columnheader', style: widthOf(this.widths[at]) }, input);
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
      resize(shown.reduce((most, row) => Math.max(most, row[at + 1].length), name.length + 2));
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

  row([place, ...cells], at) {
    const isSelected = this.anchor !== null && at >= Math.min(this.anchor, this.active.row) && at <= Math.max(this.anchor, this.active.row);
    const drawn = this.visible.map(column => {
      const isActive = this.active?.row === at && this.active.column === column;
      const attributes = { role: 'gridcell', title: cells[column].length > this.widths[column] ? cells[column] : null, style: widthOf(this.widths[column]), data: { row: at, column } };
      if (isActive) Object.assign(attributes, { id: this.id, 'aria-selected': 'true' });
      return h(`div.otx-cell.otx-kind-${this.columns[column].kind}${isActive ? '.otx-current' : ''}`, attributes, cells[column]);
    });
    return h(isSelected ? 'div.otx-table-row.otx-selected' : 'div.otx-table-row', { role: 'row', 'aria-rowindex': at + 2, 'aria-selected': isSelected ? 'true' : null }, h('div.otx-cell.otx-number', { role: 'rowheader', title: 'Click to select the row, Shift-click for several', data: { row: at } }, number(place)), drawn);
  }

  onClick(event) {
    const cell = event.target.closest('[data-row]');
    if (!cell) return;
    const row = Number(cell.dataset.row);
    const column = cell.dataset.column === undefined ? null : Number(cell.dataset.column);
    if (event.shiftKey && this.active) this.select(row, this.active.column, this.anchor ?? this.active.row);
    else this.select(row, column ?? this.visible[0], column === null ? row : null);
  }

  /** Make a cell the active one; with an anchor the rows from there to it are selected. */
  select(row, column, anchor = null) {
    this.active = { row: Math.max(0, Math.min(this.total - 1, row)), column };
    this.anchor = anchor;
    this.list.element.setAttribute('aria-activedescendant', this.id);
    const { top, visible } = this.list;
    if (this.active.row < top) this.list.scrollTo(this.active.row);
    else if (this.active.row > top + visible - 4) this.list.scrollTo(Math.min(this.active.row, this.active.row - visible + 4));
    else this.list.update();
    this.list.element.querySelector('.otx-cell.otx-current')?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' });
  }

  onKey(event) {
    if (event.target !== this.list.element || !this.columns || !this.total) return;
    const isCopy = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'c';
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    if (isCopy && !document.getSelection()?.toString()) this.copy();
    else if (event.key === 'Escape' && this.active) {
      this.active = this.anchor = null;
      this.list.update();
    } else if (down || right) {
      const columns = this.visible;
      const { row, column } = this.active ?? { row: this.list.top - down, column: columns[0] };
      const at = Math.max(0, Math.min(columns.length - 1, columns.indexOf(column) + right));
      this.select(row + down, columns[at], event.shiftKey && down ? this.anchor ?? row : null);
    } else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  async copy() {
    const columns = this.visible;
    const { row, column } = this.active ?? { row: this.total - 1, column: null };
    const isCell = this.active !== null && this.anchor === null;
    const first = isCell ? row : Math.min(this.anchor ?? 0, row);
    const last = isCell ? row : Math.max(this.anchor ?? 0, row);
    try {
      const { text } = await this.request('copied', { ...keyOf(this.result), ...this.query(), first, last, visible: isCell ? [column] : columns });
      const said = isCell ? 'Copied the cell.' : `Copied ${counted(last - first + 1, 'row')}.`;
      fill(this.count, (await copyText(text)) ? said : 'The browser did not allow copying.');
    } catch (error) {
      fill(this.count, error.message);
    }
  }

  async download(format) {
    fill(this.count, 'writing …');
    try {
      const key = keyOf(this.result);
      const { name, mime, size, part } = await this.request('download', { ...key, ...this.query(), visible: this.visible, format });
      const parts = [];
      for (let offset = 0; offset < size; offset += part) {
        fill(this.count, `${Math.round((offset / size) * 100)} %`);
        parts.push(bytesOf((await this.request('part', { ...key, offset })).base64));
      }
      const url = URL.createObjectURL(new Blob(parts, { type: mime }));
      h('a', { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      fill(this.count, `${name}, ${counted(this.total, 'row')}, ${byteSize(size)}`);
    } catch (error) {
      fill(this.count, error.message);
    }
  }

  close() {
    this.list.close();
  }
}

/** What is in each column of all rows: kind, missing and distinct values, smallest and largest, how they are spread. */
export class SummaryPane {
  constructor(request, result) {
    Object.assign(this, { request, result, isOpen: true });
    this.status = h('span.otx-muted', { role: 'status' }, 'reading …');
    this.body = h('tbody');
    const heads = ['Column', 'Kind', 'Missing', 'Distinct', 'Smallest', 'Largest', 'Values'].map(head => h('th', { scope: 'col' }, head));
    const table = h('table.otx-columns', null, h('thead', null, h('tr', null, heads)), this.body);
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, this.status), h('div.otx-scroll', { tabindex: '0', role: 'group', 'aria-label': 'Summary of the columns' }, table));
  }

  async start() {
    const key = keyOf(this.result);
    try {
      const { columns, total } = await this.request('table', { ...key, offset: 0, limit: 1, sort: null, filter: '' });
      for (const [column, { name }] of columns.entries()) {
        fill(this.status, `column ${number(column + 1)} of ${number(columns.length)} …`);
        const found = await this.request('summary', { ...key, column });
        if (!this.isOpen) return;
        this.body.append(this.row(name, found, total));
      }
      fill(this.status, `${counted(columns.length, 'column')}, ${counted(total, 'row')}`);
    } catch (error) {
      fill(this.status, error.message);
    }
  }

  row(name, found, total) {
    const share = found.missing ? ` (${Math.max(1, Math.round((found.missing / total) * 100))} %)` : '';
    const top = (found.top ?? []).map(([value, count]) => h('span.otx-top', { title: `${value}: ${number(count)}` }, `${value || '""'} `, h('span.otx-muted', null, number(count))));
    const cells = [number(found.missing) + share, number(found.distinct), found.min ?? '', found.max ?? ''].map(text => h('td.otx-right-cell', null, text));
    return h('tr', null, h('th', { scope: 'row' }, name), h('td', null, KINDS[found.kind] ?? found.kind), cells, h('td', null, found.bars?.length ? bars(found, name) : top));
  }

  close() {
    this.isOpen = false;
  }
}

function bars({ bars: counts, min, max }, name) {
  const most = Math.max(...counts);
  const drawn = counts.map((count, at) => svg('rect', { x: at * 6, y: 20 - (20 * count) / most, width: 5, height: (20 * count) / most, class: 'otx-bar-ok' }));
  return svg('svg', { viewBox: `0 0 ${counts.length * 6} 20`, width: counts.length * 6, height: 20, role: 'img', 'aria-label': `How ${name} is spread from ${min} to ${max}` }, drawn);
}

/** Names the result in a request. */
export function keyOf(result) {
  return { handle: result.handle, call: result.call };
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), letter => letter.codePointAt(0));
}

/** The width of a cell with this many letters. */
function widthOf(letters) {
  return `width:calc(${letters}ch + 14px)`;
}

function widthsOf(columns, rows) {
  return columns.map(({ name }, at) => {
    const longest = rows.slice(0, 50).reduce((most, row) => Math.max(most, row[at + 1]?.length ?? 0), name.length + 2);
    return Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, longest));
  });
}
