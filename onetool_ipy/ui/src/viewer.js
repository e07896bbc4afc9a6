// The result viewer: text, table, tree, image. It requests only the visible part of a result. Sorting, filtering and
// finding run in the kernel, over the whole result.
import { addTabKeys, copyText, debounce, fill, h, selectTab, show } from './dom.js';
import { byteSize, counted, duration, number, outcomeChip, outcomeOf } from './format.js';
import { VirtualList } from './virtualList.js';

const LINE_HEIGHT = 18;
const ROW_HEIGHT = 24;
const TITLES = { text: 'Raw', table: 'Table', tree: 'Tree', image: 'Image' };

/** Returns `{element, show(result), close()}`; `request` is the transport's. */
export function createViewer(request, { onAssigned = () => {} } = {}) {
  const head = h('div.otx-result-head');
  const tabs = addTabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': 'Result formats' }));
  const body = h('div.otx-result-body');
  const element = h('section.otx-viewer', { 'aria-label': 'Result' }, head, tabs, body);
  let pane = null;

  function open(result, kind) {
    pane?.close?.();
    const Pane = { text: TextPane, table: TablePane, tree: TreePane, image: ImagePane }[kind];
    selectTab(tabs, tab => tab.dataset.kind === kind);
    pane = new Pane(request, result);
    fill(body, pane.element);
    pane.start?.();
  }

  function showResult(result) {
    fill(head, summary(result), result.handle ? assignForm(request, result, onAssigned) : null);
    if (!result.ok) {
      pane?.close?.();
      pane = null;
      show(fill(tabs), false);
      fill(body, errorBox(result.error));
      return;
    }
    const kinds = result.kinds ?? ['text'];
    show(fill(tabs, kinds.map(kind => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => open(result, kind) }, TITLES[kind]))), kinds.length > 1);
    open(result, kinds[0]);
  }

  return { element, show: showResult, close: () => pane?.close?.() };
}

function summary(result) {
  const facts = [];
  const outcome = outcomeOf(result);
  if (result.ms !== undefined && outcome !== 'cancelled') facts.push(duration(result.ms));
  if (result.rows !== undefined) facts.push(counted(result.rows, 'row'));
  else if (result.lines !== undefined && result.kinds?.[0] !== 'image') facts.push(counted(result.lines, 'line'));
  if (result.bytes !== undefined && result.bytes !== null) facts.push(byteSize(result.bytes));
  if (result.note) facts.push(result.note);
  return h(
    'div.otx-summary',
    { role: 'status' },
    outcomeChip(outcome),
    result.tool ? h('code', null, result.tool) : null,
    facts.map(fact => h('span.otx-muted', null, fact)),
    result.handle ? h('span.otx-muted', { title: 'The handle: ot.result(handle=...)' }, result.handle) : null
  );
}

function errorBox(error) {
  if (error.reason === 'cancelled') return h('p.otx-muted', null, error.message);
  const reason = error.reason ? ` (${error.reason})` : '';
  return h('div.otx-failure', { role: 'alert' }, h('strong', null, `${error.code}${reason}`), h('pre', null, error.message));
}

function assignForm(request, result, onAssigned) {
  const name = h('input.otx-input.otx-short', { type: 'text', placeholder: 'variable', 'aria-label': 'Name of the variable', spellcheck: 'false' });
  const status = h('code.otx-muted', { role: 'status' });
  const assign = async () => {
    try {
      const answer = await request('assign', { handle: result.handle, call: result.call, variable: name.value.trim() });
      fill(status, answer.code);
      onAssigned(answer);
    } catch (error) {
      fill(status, error.message);
    }
  };
  const form = h('form.otx-assign', null, name, h('button.otx-small', { type: 'submit', title: 'Assign the result to a notebook variable' }, 'Assign'), status);
  form.addEventListener('submit', event => {
    event.preventDefault();
    assign();
  });
  return form;
}

class TextPane {
  constructor(request, result) {
    Object.assign(this, { request, result });
    this.list = new VirtualList({
      rowHeight: LINE_HEIGHT,
      label: 'Lines of the result',
      fetch: async (offset, limit) => (await request('page', { ...keyOf(result), offset: offset + 1, limit })).lines,
      draw: (line, at) => this.line(line, at),
      onScroll: from => this.showPosition(from)
    });
    this.lineInput = h('input.otx-input.otx-short', { type: 'text', inputmode: 'numeric', 'aria-label': 'Go to line', title: 'Go to line', value: '1' });
    this.lineInput.addEventListener('change', () => this.list.scrollTo(Number.parseInt(this.lineInput.value.replaceAll(/\D/g, ''), 10) - 1 || 0));
    this.list.element.style.flexBasis = `${Math.min(result.lines, 99) * LINE_HEIGHT + 16}px`;
    this.finder = new Finder(request, result, line => this.showLine(line));
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, this.finder.element, h('label.otx-muted', null, 'line ', this.lineInput, ` of ${number(result.lines)}`)), this.list.element);
  }

  start() {
    this.list.reset(this.result.lines, this.result.preview ?? []);
  }

  line(text, at) {
    return h(this.current === at ? 'div.otx-line.otx-current' : 'div.otx-line', null, h('span.otx-number', { 'aria-hidden': 'true' }, at + 1), h('span.otx-text', null, text));
  }

  showPosition(from) {
    if (document.activeElement !== this.lineInput) this.lineInput.value = String(from + 1);
  }

  showLine(line) {
    this.current = line - 1;
    return this.list.scrollTo(line - 1, true);
  }

  close() {
    this.list.close();
  }
}

/** Find in a text, by regular expression or fuzzily, with a count and buttons for next and previous. */
class Finder {
  constructor(request, result, onHit) {
    Object.assign(this, { request, result, onHit, hits: [], at: -1, searches: 0 });
    this.input = h('input.otx-input', { type: 'search', placeholder: 'Find', 'aria-label': 'Find in the result', spellcheck: 'false' });
    this.fuzzy = h('input', { type: 'checkbox' });
    this.count = h('span.otx-muted.otx-count', { role: 'status' });
    const search = debounce(200, () => this.search());
    this.input.addEventListener('input', search);
    this.fuzzy.addEventListener('change', () => search.now());
    this.input.addEventListener('keydown', event => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      if (this.searched === this.query()) this.step(event.shiftKey ? -1 : 1);
      else search.now();
    });
    const button = (label, title, step) => h('button.otx-small', { type: 'button', title, 'aria-label': title, onclick: () => this.step(step) }, label);
    this.element = h('div.otx-find', { role: 'search' }, this.input, h('label.otx-muted', { title: 'Also find near matches' }, this.fuzzy, ' fuzzy'), button('↑', 'Previous', -1), button('↓', 'Next', 1), this.count);
  }

  query() {
    return JSON.stringify([this.input.value, this.fuzzy.checked]);
  }

  async search() {
    const turn = (this.searches += 1);
    this.searched = this.query();
    this.hits = [];
    this.at = -1;
    if (!this.input.value) {
      fill(this.count);
      return;
    }
    fill(this.count, '…');
    try {
      const answer = await this.request('find', { ...keyOf(this.result), pattern: this.input.value, isFuzzy: this.fuzzy.checked });
      if (turn !== this.searches) return;
      this.hits = answer.hits;
      this.answer = answer;
      if (this.hits.length) await this.step(1);
      else fill(this.count, 'no match');
    } catch (error) {
      if (turn === this.searches) fill(this.count, error.message);
    }
  }

  async step(by) {
    if (!this.hits.length) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    const { matched, isComplete } = this.answer;
    fill(this.count, `${number(this.at + 1)} of ${number(matched)}${isComplete ? '' : ' so far'}`);
    await this.onHit(this.hits[this.at]);
  }
}

class TablePane {
  constructor(request, result) {
    Object.assign(this, { request, result, sort: null, filter: '', loads: 0 });
    this.head = h('div.otx-table-head', { role: 'row' });
    this.count = h('span.otx-muted', { role: 'status' });
    this.list = new VirtualList({ rowHeight: ROW_HEIGHT, label: 'Rows of the result', fetch: (offset, limit) => this.fetch(offset, limit), draw: (row, at) => this.row(row, at) });
    this.list.element.setAttribute('role', 'table');
    this.list.spacer.prepend(this.head);
    this.list.element.style.flexBasis = `${Math.min(result.rows ?? 99, 99) * ROW_HEIGHT + 42}px`;
    const filter = h('input.otx-input', { type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows', spellcheck: 'false' });
    filter.addEventListener('input', debounce(200, () => {
      this.filter = filter.value;
      this.restart();
    }));
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, filter, this.count), this.list.element);
  }

  start() {
    return this.restart();
  }

  query(offset, limit) {
    return { ...keyOf(this.result), offset, limit, sort: this.sort, filter: this.filter };
  }

  async restart() {
    const turn = (this.loads += 1);
    fill(this.count, 'reading …');
    try {
      const answer = await this.request('table', this.query(0, 200));
      if (turn !== this.loads) return;
      this.columns = answer.columns;
      const widths = widthsOf(answer.columns, answer.rows);
      this.widths = widths.map((width, at) => Math.max(width, this.widths?.[at] ?? 0)); // columns only grow
      this.drawHead();
      fill(this.count, answer.total === this.result.rows ? counted(answer.total, 'row') : `${number(answer.total)} of ${number(this.result.rows)} rows`);
      this.list.element.setAttribute('aria-rowcount', String(answer.total + 1));
      this.list.reset(answer.total, answer.rows);
    } catch (error) {
      if (turn === this.loads) fill(this.count, error.message);
    }
  }

  async fetch(offset, limit) {
    return (await this.request('table', this.query(offset, limit))).rows;
  }

  drawHead() {
    const cells = this.columns.map((column, at) => {
      const direction = this.sort?.column === at ? (this.sort.isDown ? 'descending' : 'ascending') : 'none';
      const arrow = { ascending: ' ▲', descending: ' ▼', none: '' }[direction];
      return h('div.otx-cell', { role: 'columnheader', 'aria-sort': direction, style: widthOf(this.widths[at]) }, h('button.otx-sort', { type: 'button', title: `Sort by ${column}`, onclick: () => this.sortBy(at) }, `${column}${arrow}`));
    });
    fill(this.head, h('div.otx-cell.otx-number', { role: 'columnheader' }, '#'), cells);
  }

  sortBy(column) {
    const isSame = this.sort?.column === column;
    if (isSame && this.sort.isDown) this.sort = null;
    else this.sort = { column, isDown: isSame };
    return this.restart();
  }

  row(cells, at) {
    return h('div.otx-table-row', { role: 'row' }, h('div.otx-cell.otx-number', { role: 'rowheader' }, at + 1), cells.map((cell, i) => h('div.otx-cell', { role: 'cell', title: cell.length > this.widths[i] ? cell : null, style: widthOf(this.widths[i]) }, cell)));
  }

  close() {
    this.list.close();
  }
}

class TreePane {
  constructor(request, result) {
    Object.assign(this, { request, result });
    this.status = h('span.otx-muted', { role: 'status' });
    this.root = h('ul.otx-tree', { role: 'tree', 'aria-label': 'Result as a tree' });
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, this.status), h('div.otx-scroll', { tabindex: '0', role: 'group', 'aria-label': 'Tree' }, this.root));
  }

  start() {
    return this.children(this.root, [], 0);
  }

  async children(list, path, offset) {
    try {
      const answer = await this.request('tree', { ...keyOf(this.result), path, offset, limit: 100 });
      list.querySelector(':scope > .otx-more')?.remove();
      for (const child of answer.children) list.append(this.node(child, [...path, child.key]));
      const next = offset + answer.children.length;
      if (next < answer.total) {
        const more = h('button.otx-small', { type: 'button', onclick: () => this.children(list, path, next) }, `${number(answer.total - next)} more`);
        list.append(h('li.otx-more', { role: 'none' }, more));
      }
    } catch (error) {
      fill(this.status, error.message);
    }
  }

  node(child, path) {
    const key = h('span.otx-key', null, String(child.key));
    const value = h('span.otx-value', { data: { kind: child.kind } }, child.preview);
    const copy = h('button.otx-small.otx-path', { type: 'button', title: 'Copy the path', 'aria-label': `Copy the path of ${child.key}`, onclick: () => this.copy(path) }, 'path');
    if (!child.count) return h('li', { role: 'treeitem' }, h('span.otx-leaf', null, key, ': ', value, copy));
    const list = h('ul', { role: 'group', hidden: true });
    const item = h('li', { role: 'treeitem', 'aria-expanded': 'false' });
    let isLoaded = false;
    const toggle = h('button.otx-expand', { type: 'button', onclick: () => {
      const isOpen = list.hidden;
      show(list, isOpen);
      item.setAttribute('aria-expanded', String(isOpen));
      if (isOpen && !isLoaded) {
        isLoaded = true;
        this.children(list, path, 0);
      }
    } }, key, ': ', value);
    fill(item, toggle, copy, list);
    return item;
  }

  async copy(path) {
    const text = path.map(part => (typeof part === 'number' ? `[${part}]` : `[${JSON.stringify(part)}]`)).join('');
    fill(this.status, (await copyText(text)) ? `copied ${text}` : text);
  }
}

class ImagePane {
  constructor(request, result) {
    Object.assign(this, { request, result });
    this.element = h('div.otx-pane.otx-image', { tabindex: '0', role: 'group', 'aria-label': 'Image' }, h('span.otx-muted', null, '…'));
  }

  async start() {
    try {
      const { mime, base64 } = await this.request('image', keyOf(this.result));
      fill(this.element, h('img', { src: `data:${mime};base64,${base64}`, alt: `Image given by ${this.result.tool ?? 'the tool'}` }));
    } catch (error) {
      fill(this.element, error.message);
    }
  }
}

/** Names the result in a request. */
function keyOf(result) {
  return { handle: result.handle, call: result.call };
}

/** The width of a cell with this many letters. */
function widthOf(letters) {
  return `width:calc(${letters}ch + 14px)`;
}

function widthsOf(columns, rows) {
  return columns.map((column, at) => {
    const longest = rows.slice(0, 50).reduce((most, row) => Math.max(most, row[at]?.length ?? 0), String(column).length + 2);
    return Math.max(3, Math.min(40, longest));
  });
}
