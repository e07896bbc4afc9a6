// The result viewer: text, table, summary, tree, images. It requests only the visible part of a result. Finding runs in
// the kernel, over the whole result.
import { ComparePane, compareMenu } from './compare.js';
import { addTabKeys, copyText, debounce, fill, h, menu, retryButton, selectTab, show } from './dom.js';
import { byteSize, counted, duration, number, outcomeChip, outcomeOf } from './format.js';
import { expressionOf } from './jmespath.js';
import { Requests } from './requests.js';
import { keyOf, SummaryPane, TablePane } from './table.js';
import { VirtualList } from './virtualList.js';

const LINE_HEIGHT = 18;
const TITLES = { text: 'Raw', table: 'Table', summary: 'Summary', tree: 'Tree', image: 'Image', compare: 'Changes' };

/**
 * Returns `{element, show(result), close()}`; `source` answers requests. `onPick(expression)` gets the JMESPath of a key of
 * the tree or a column of the table that the user wants to keep.
 */
export function createViewer(source, { onPick = null } = {}) {
  let requests = new Requests(source); // of the result that is shown
  const head = h('div.otx-result-head');
  const tabs = addTabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': 'Result formats' }));
  const body = h('div.otx-result-body');
  const element = h('section.otx-viewer', { 'aria-label': 'Result' }, head, tabs, body);
  let pane = null;
  let table = null;
  let chosen = null;

  function open(result, kind) {
    if (pane === table) table?.pause();
    else pane?.close?.();
    selectTab(tabs, tab => tab.dataset.kind === kind);
    const isAgain = kind === 'table' && table !== null;
    if (kind === 'table' || kind === 'summary') table ??= new TablePane(requests.part(), result, onPick);
    const panes = { text: TextPane, table: TablePane, summary: SummaryPane, tree: TreePane, image: ImagePane };
    if (kind === 'table') pane = table;
    else if (kind === 'compare') pane = new ComparePane(requests.part(), result, chosen);
    else pane = new panes[kind](requests.part(), result, table, next => open(result, next), onPick);
    fill(body, pane.element);
    if (isAgain && table.columns) table.resume();
    else pane.start?.();
  }

  function closePanes() {
    pane?.close?.();
    table?.close();
    pane = table = null;
    requests.close();
  }

  /** Show the difference from another result in a tab of its own; a second choice takes its place. */
  function compareWith(result, other) {
    chosen = other;
    if (!tabs.querySelector('[data-kind="compare"]')) tabs.append(tabOf(result, 'compare'));
    show(tabs, true);
    open(result, 'compare');
  }

  function tabOf(result, kind) {
    return h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => open(result, kind) }, TITLES[kind]);
  }

  function showResult(result) {
    closePanes();
    requests = new Requests(source);
    const tools = result.ok ? h('span.otx-tools', null, compareMenu(requests, result, other => compareWith(result, other)), saveMenu(requests, result, () => pane)) : null;
    fill(head, summary(result), tools);
    if (!result.ok) {
      show(fill(tabs), false);
      fill(body, errorBox(result.error));
      return;
    }
    const kinds = result.kinds ?? ['text'];
    show(fill(tabs, kinds.map(kind => tabOf(result, kind))), kinds.length > 1);
    open(result, kinds[0]);
  }

  return { element, show: showResult, close: closePanes };
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
  const lines = [error.message, error.hint].filter(Boolean);
  return h('div.otx-failure', { role: 'alert' }, h('strong', null, error.title ?? 'The call failed'), h('pre', null, lines.join('\n')));
}

/** Saves the result, or the rows that a table shows, as a variable of the notebook. */
function saveMenu(requests, result, pane) {
  const name = h('input.otx-input.otx-short', { type: 'text', placeholder: 'name', 'aria-label': 'Name of the variable', spellcheck: 'false' });
  const onlyFound = h('input', { type: 'checkbox', checked: true });
  const found = h('label.otx-choice', { hidden: true }, onlyFound, ' only the rows found');
  const status = h('span.otx-muted', { role: 'status' });
  const form = h('form.otx-assign', null, name, h('button.otx-small', { type: 'submit' }, 'Save'), found);
  const saving = menu('Save as variable', form, () => {
    show(found, Boolean(pane()?.isFiltered));
    name.focus();
  });
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const query = pane()?.query?.() ?? {};
    const rows = onlyFound.checked ? query : { sort: query.sort };
    const reply = await requests.latest('assign').send({ ...keyOf(pane()?.saved ?? result), ...rows, variable: name.value.trim() });
    if (reply.status === 'late') return;
    fill(status, reply.status === 'ok' ? reply.value.said : reply.error.message);
    if (reply.status === 'ok') saving.close();
  });
  return [saving.element, status];
}

class TextPane {
  constructor(requests, result) {
    Object.assign(this, { requests, result });
    this.list = new VirtualList({
      requests,
      rowHeight: LINE_HEIGHT,
      label: 'Lines of the result',
      fetch: async (offset, limit, ask) => (await ask('page', { ...keyOf(result), offset: offset + 1, limit })).lines,
      draw: (line, at) => this.line(line, at),
      onScroll: from => this.showPosition(from)
    });
    this.lineInput = h('input.otx-input.otx-short', { type: 'text', inputmode: 'numeric', 'aria-label': 'Go to line', title: 'Go to line', value: '1' });
    this.lineInput.addEventListener('change', () => this.list.scrollTo(Number.parseInt(this.lineInput.value.replaceAll(/\D/g, ''), 10) - 1 || 0).catch(() => {}));
    this.list.element.style.flexBasis = `${Math.min(result.lines, 99) * LINE_HEIGHT + 16}px`;
    this.finder = new Finder(requests, result, line => this.showLine(line));
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, this.finder.element, h('label.otx-muted', null, 'line ', this.lineInput, ` of ${number(result.lines)}`)), this.list.element);
  }

  start() {
    return this.list.reset(this.result.lines, this.result.preview ?? []).catch(() => {}); // rows that cannot be loaded stay '…'
  }

  line(text, at) {
    return h(this.current === at ? 'div.otx-line.otx-current' : 'div.otx-line', null, h('span.otx-number', { 'aria-hidden': 'true' }, at + 1), h('span.otx-text', null, text));
  }

  showPosition(from) {
    if (document.activeElement !== this.lineInput) this.lineInput.value = String(from + 1);
  }

  showLine(line) {
    this.current = line - 1;
    return this.list.scrollTo(line - 1, true).catch(() => {});
  }

  close() {
    this.requests.close();
    this.list.close();
  }
}

/** Find in a text, by regular expression or fuzzily, with a count and buttons for next and previous. */
class Finder {
  constructor(requests, result, onHit) {
    Object.assign(this, { finds: requests.latest('find'), result, onHit, hits: [], at: -1 });
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
    this.searched = this.query();
    this.hits = [];
    this.at = -1;
    this.finds.reset();
    fill(this.count, this.input.value ? '…' : '');
    if (!this.input.value) return;
    const reply = await this.finds.send({ ...keyOf(this.result), pattern: this.input.value, isFuzzy: this.fuzzy.checked });
    if (reply.status === 'late') return;
    if (reply.status === 'failed') {
      this.searched = null; // Enter tries again
      fill(this.count, reply.error.message);
      return;
    }
    this.answer = reply.value;
    this.hits = this.answer.hits;
    if (this.hits.length) await this.step(1);
    else fill(this.count, 'no match');
  }

  async step(by) {
    if (!this.hits.length) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    const { matched, isComplete } = this.answer;
    fill(this.count, `${number(this.at + 1)} of ${number(matched)}${isComplete ? '' : ' so far'}`);
    await this.onHit(this.hits[this.at]);
  }
}

class TreePane {
  constructor(requests, result, _table, _open, onPick = null) {
    Object.assign(this, { requests, result, onPick });
    this.status = h('span.otx-muted', { role: 'status' });
    this.root = h('ul.otx-tree', { role: 'tree', 'aria-label': 'Result as a tree' });
    this.element = h('div.otx-pane', null, h('div.otx-bar', null, this.status), h('div.otx-scroll', { tabindex: '0', role: 'group', 'aria-label': 'Tree' }, this.root));
  }

  start() {
    return this.children(this.root, [], 0);
  }

  /** Append the children of a node from `offset` on; where that fails, a button in their place tries again. */
  async children(list, path, offset, label = 'Try again') {
    list.querySelector(':scope > .otx-more')?.remove(); // a second press would append the same children again
    const reply = await this.requests.once('tree', { ...keyOf(this.result), path, offset, limit: 100 });
    if (reply.status === 'late') return;
    const again = (words, from) => list.append(h('li.otx-more', { role: 'none' }, h('button.otx-small', { type: 'button', onclick: () => this.children(list, path, from, words) }, words)));
    if (reply.status === 'failed') {
      fill(this.status, reply.error.message);
      again(label, offset);
      return;
    }
    fill(this.status);
    const { children, total } = reply.value;
    for (const child of children) list.append(this.node(child, [...path, child.key]));
    const next = offset + children.length;
    if (next < total) again(`${number(total - next)} more`, next);
  }

  node(child, path) {
    const key = h('span.otx-key', null, String(child.key));
    const value = h('span.otx-value', { data: { kind: child.kind } }, child.preview);
    const copy = h('button.otx-small.otx-path', { type: 'button', title: 'Copy the path', 'aria-label': `Copy the path of ${child.key}`, onclick: () => this.copy(path) }, 'path');
    const keep = this.onPick ? h('button.otx-small.otx-path', { type: 'button', title: 'Keep only this', 'aria-label': `Keep only ${child.key}`, onclick: () => this.onPick(expressionOf(path)) }, 'keep') : null;
    if (!child.count) return h('li', { role: 'treeitem' }, h('span.otx-leaf', null, key, ': ', value, copy, keep));
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
    fill(item, toggle, copy, keep, list);
    return item;
  }

  close() {
    this.requests.close();
  }

  async copy(path) {
    const text = path.map(part => (typeof part === 'number' ? `[${part}]` : `[${JSON.stringify(part)}]`)).join('');
    fill(this.status, (await copyText(text)) ? `copied ${text}` : text);
  }
}

/** The images of a result, and the text between them. */
class ImagePane {
  constructor(requests, result) {
    Object.assign(this, { requests, result });
    this.element = h('div.otx-pane.otx-image', { tabindex: '0', role: 'group', 'aria-label': 'Image' }, h('span.otx-muted', null, '…'));
  }

  async start() {
    const reply = await this.requests.once('image', keyOf(this.result));
    if (reply.status === 'failed') fill(this.element, reply.error.message, ' ', retryButton(() => this.start()));
    if (reply.status !== 'ok') return;
    fill(this.element, reply.value.parts.map(({ text, mime, base64 }) => (mime ? h('img', { src: `data:${mime};base64,${base64}`, alt: `Image given by ${this.result.tool || 'the tool'}` }) : h('pre', null, text))));
  }

  close() {
    this.requests.close();
  }
}
