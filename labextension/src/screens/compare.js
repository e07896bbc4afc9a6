// Compare in the result viewer: choose another result, see what changed between the two. The kernel compares, and gives
// the changes as a table.
import { fill, h, menu, retryButton, show } from './dom.js';
import { keyOf, TablePane } from './table.js';

const MANY = 8;
const EMPTY = 'There is no other result yet. Call the tool again, then compare.';

/** The menu of the results that one can be compared with; `onChoose(item)` gets the chosen one. */
export function compareMenu(requests, result, onChoose) {
  const search = h('input.otx-input', { type: 'search', placeholder: 'Find a call', 'aria-label': 'Find a call', spellcheck: 'false', hidden: true });
  const list = h('div.otx-compare-list', { role: 'group', 'aria-label': 'Results to compare with' });
  let items = [];
  const draw = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    const matches = items.filter(item => words.every(word => `${item.tool} ${item.text} ${item.when}`.toLowerCase().includes(word)));
    const others = matches.filter(item => !item.isSame);
    const title = others.length && others.length < matches.length ? h('div.otx-divider', null, 'Other tools') : null;
    fill(list, matches.filter(item => item.isSame).map(choice), title, others.map(choice), matches.length ? null : h('p.otx-muted', null, items.length ? 'No call matches.' : EMPTY));
  };
  const choice = item => h('button.otx-compare-choice', { type: 'button', title: `${item.tool} ${item.text}`, onclick: () => choose(item) }, h('span.otx-compare-call', null, h('span.otx-tool-name', null, item.tool), ' ', h('span.otx-muted', null, item.text)), h('span.otx-muted.otx-compare-when', null, item.when));
  const choose = item => {
    choices.close();
    onChoose(item);
  };
  const load = async () => {
    fill(list, h('span.otx-muted', null, 'reading …'));
    const reply = await requests.latest('comparable').send({ ...keyOf(result), tool: result.tool });
    if (reply.status === 'failed') fill(list, h('p.otx-error', { role: 'alert' }, reply.error.message), retryButton(load));
    if (reply.status !== 'ok') return;
    ({ items } = reply.value);
    search.value = '';
    draw();
    show(search, items.length > MANY);
    (items.length > MANY ? search : list.querySelector('button'))?.focus();
  };
  search.addEventListener('input', draw);
  const choices = menu('Compare', [search, list], load);
  choices.element.classList.add('otx-compare-menu');
  return choices.element;
}

/** What changed between a result and the chosen one, which keeps the chosen key: a sentence, and the rows that differ. */
export class ComparePane {
  constructor(requests, result, chosen) {
    Object.assign(this, { requests, result, chosen, table: null });
    this.text = h('p.otx-compare-text', { role: 'status' }, 'comparing …');
    this.sides = h('p.otx-muted.otx-compare-sides');
    this.keys = menu('Rows matched by', []);
    this.body = h('div.otx-compare-body');
    show(this.keys.element, false);
    this.element = h('div.otx-compare', null, h('div.otx-compare-head', null, h('div.otx-grow', null, this.text, this.sides), this.keys.element), this.body);
  }

  async start() {
    const reply = await this.requests.latest('compare').send({ ...keyOf(this.result), other: keyOf(this.chosen), key: this.chosen.key ?? [] });
    if (reply.status === 'late') return;
    this.closeTable();
    if (reply.status === 'ok') this.draw(reply.value);
    else {
      fill(this.text, h('span.otx-error', null, reply.error.message));
      fill(this.body, retryButton(() => this.start()));
    }
  }

  draw({ text, key, columns, sides, result }) {
    // The examples behind the counts are in plain letters.
    const [counts, ...examples] = text.split(': ');
    fill(this.text, h('strong', null, counts), examples.length ? `: ${examples.join(': ')}` : null);
    const name = ({ when, isThis }) => [h('strong', null, isThis ? 'this result' : `${this.chosen.tool} ${this.chosen.text}`.trim()), when ? `, ${when}` : ''];
    fill(this.sides, 'From ', name(sides[0]), ' to ', name(sides[1]));
    this.drawKeys(key, columns);
    if (!result.rows) return;
    this.table = new ChangeTable(this.requests.part(), result);
    fill(this.body, this.table.element);
    this.table.start();
  }

  /** The columns that rows are matched by; more than one can be chosen. */
  drawKeys(key, columns) {
    show(this.keys.element, columns.length > 0);
    fill(this.keys.button, 'Rows matched by ', h('strong', null, key.join(', ') || 'their place'));
    // The boxes stay, and with them the focus of somebody who chooses several.
    if (!this.boxes) {
      this.boxes = columns.map(() => h('input', { type: 'checkbox', onchange: () => {
        this.chosen.key = columns.filter((_, at) => this.boxes[at].checked);
        this.start();
      } }));
      fill(this.keys.content, columns.map((column, at) => h('label.otx-choice', null, this.boxes[at], ` ${column}`)));
    }
    for (const [at, column] of columns.entries()) this.boxes[at].checked = key.includes(column);
  }

  closeTable() {
    this.table?.close();
    this.table = null;
    fill(this.body);
  }

  /** The table of the changes is what can be saved from here. */
  get saved() {
    return this.table?.result;
  }

  get isFiltered() {
    return Boolean(this.table?.isFiltered);
  }

  query() {
    return this.table?.query() ?? {};
  }

  close() {
    this.requests.close();
    this.closeTable();
  }
}

/** The table of the changes: its first column says how a row changed. */
class ChangeTable extends TablePane {
  row([label, change, ...cells], at) {
    const element = super.row([label, change, ...cells], at);
    element.classList.add(`otx-row-${change}`);
    return element;
  }
}
