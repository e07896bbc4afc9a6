// The filter of a column: a condition in words, and its values with their counts, to be searched and chosen.
import { debounce, fill, h, retryButton, show } from './dom.js';
import { counted, number } from './format.js';
import { expressionOf } from './jmespath.js';

export const KINDS = { integer: 'whole numbers', number: 'numbers', boolean: 'true or false', date: 'dates', text: 'text', nested: 'records or lists' };
const HINTS = {
  integer: '> 5 · 2..8 · != 3 · = for missing',
  number: '> 0.5 · 2..8 · != 3 · = for missing',
  date: '2024-03 · > 2024 · 2024-01..2024-06',
  boolean: 'true · false · = for missing',
  text: 'a part · =all of it · !not this',
  nested: 'a part · !not this'
};
const WIDTH = 280;
const HEIGHT = 380;

/** One box for all columns of a table pane; `open(at)` shows it below the head of a column. */
export class ColumnFilter {
  constructor(pane) {
    this.pane = pane;
    this.condition = h('input.otx-input', { type: 'text', spellcheck: 'false' });
    this.search = h('input.otx-input', { type: 'search', placeholder: 'Search values', 'aria-label': 'Search values', spellcheck: 'false' });
    this.title = h('div.otx-filter-title');
    this.hint = h('code.otx-muted.otx-tip');
    this.values = h('div.otx-filter-values', { role: 'group', 'aria-label': 'Values' });
    this.note = h('span.otx-muted.otx-tip', { role: 'status' });
    this.keep = h('button.otx-small', { type: 'button', title: 'Keep only this column of the response', hidden: !pane.onPick, onclick: () => (this.close(), pane.onPick(`[].${expressionOf([pane.columns[this.at].name])}`)) }, 'Keep');
    const clear = h('button.otx-small', { type: 'button', onclick: () => this.clear() }, 'Clear');
    const done = h('button.otx-small', { type: 'button', onclick: () => this.close() }, 'Done');
    this.element = h('div.otx-filter-box', { role: 'dialog', popover: 'auto' }, this.title, this.condition, this.hint, this.search, this.values, h('div.otx-filter-foot', null, this.note, this.keep, clear, done));
    this.condition.addEventListener('input', debounce(250, () => this.apply().then(() => this.load())));
    this.search.addEventListener('input', debounce(200, () => this.load()));
    this.element.addEventListener('keydown', event => {
      if (event.key === 'Escape' || (event.key === 'Enter' && event.target === this.condition)) this.close();
      event.stopPropagation();
    });
    this.element.addEventListener('toggle', event => event.newState === 'closed' && this.focusButton());
  }

  open(at) {
    const { name, kind } = this.pane.columns[at];
    Object.assign(this, { at, texts: new Map(this.pane.choices[at] ?? []) });
    fill(this.title, h('strong', null, name), h('span.otx-muted', null, KINDS[kind] ?? kind));
    fill(this.hint, HINTS[kind] ?? '');
    this.element.setAttribute('aria-label', `Filter ${name}`);
    this.condition.setAttribute('aria-label', `Condition for ${name}`);
    this.condition.placeholder = 'Condition';
    this.condition.value = this.pane.conditions[at] ?? '';
    this.search.value = '';
    fill(this.values);
    fill(this.note, 'reading …');
    const { left, top, bottom } = this.button.getBoundingClientRect();
    const isBelow = window.innerHeight - bottom >= HEIGHT || top < window.innerHeight - bottom;
    const space = Math.min(HEIGHT, (isBelow ? window.innerHeight - bottom : top) - 8);
    Object.assign(this.element.style, { left: `${Math.max(4, Math.min(left, window.innerWidth - WIDTH - 8))}px`, top: isBelow ? `${bottom + 4}px` : 'auto', bottom: isBelow ? 'auto' : `${window.innerHeight - top + 4}px`, maxHeight: `${space}px` });
    this.element.showPopover?.();
    this.search.focus();
    return this.load();
  }

  get button() {
    return this.pane.heads.querySelector(`[data-key="filter-${this.at}"]`);
  }

  async load() {
    const { requests, result } = this.pane;
    const reply = await requests.latest('values').send({ handle: result.handle, call: result.call, ...this.pane.query(), column: this.at, text: this.search.value });
    if (reply.status === 'late') return;
    if (reply.status === 'failed') {
      fill(this.note, reply.error.message, ' ', retryButton(() => this.load()));
      return;
    }
    const { items, total } = reply.value;
    fill(this.values, items.map(item => this.choice(item)));
    const rest = total - items.length;
    fill(this.note, rest > 0 ? `${number(rest)} more: search for them` : counted(total, 'value'));
    show(this.search, total > 8 || Boolean(this.search.value));
  }

  choice({ id, text, count }) {
    const box = h('input', { type: 'checkbox', checked: this.texts.has(id), onchange: () => {
      if (box.checked) this.texts.set(id, text);
      else this.texts.delete(id);
      this.apply();
    } });
    return h('label.otx-filter-value', { title: text }, box, h('span', null, text || h('em.otx-muted', null, '(missing)')), h('span.otx-muted', null, number(count)));
  }

  apply() {
    return this.pane.filterColumn(this.at, this.condition.value, new Map(this.texts));
  }

  async clear() {
    this.texts.clear();
    this.condition.value = '';
    this.search.value = '';
    await this.apply();
    await this.load();
  }

  focusButton() {
    if (!document.activeElement || document.activeElement === document.body || this.element.contains(document.activeElement)) this.button?.focus();
  }

  close() {
    if (this.element.matches?.(':popover-open')) this.element.hidePopover();
  }
}
