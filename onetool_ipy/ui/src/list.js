// The list of tools for a query and some filters, and which one is chosen. The kernel ranks and pages them, with the same
// search as `ot.help`, so that there is one engine; MiniSearch and uFuzzy were tried and put other tools first.
import { h, marked } from './dom.js';
import { Windowed } from './windowed.js';

const ROW = 44;
const PAGE = 50;

/** `search({query, filters, offset, limit})` gives `{items, total}`. */
export class ToolList {
  constructor({ onChoose, onStar, search, onDrag = null }) {
    Object.assign(this, { onChoose, onStar, search, onDrag, asked: {}, total: 0, chosen: -1, turn: 0, favourites: new Set(), id: `otx-tools-${Math.random().toString(36).slice(2)}` });
    this.list = new Windowed({
      rowHeight: ROW,
      pageSize: PAGE,
      label: 'Tools',
      fetch: async (offset, limit) => (await this.search({ ...this.asked, offset, limit })).items,
      draw: (item, at) => this.row(item, at)
    });
    this.element = this.list.element;
    this.element.setAttribute('role', 'listbox');
    this.element.id = this.id;
    this.element.tabIndex = -1;
  }

  /** Show the tools that match, and return how many there are. With a query the first one is chosen. */
  async show(query, filters) {
    const turn = (this.turn += 1);
    const kept = this.list.known(this.chosen)?.name;
    const asked = { query, filters: { ...filters } };
    const { items, total } = await this.search({ ...asked, offset: 0, limit: PAGE });
    if (turn !== this.turn) return this.total;
    Object.assign(this, { asked, total });
    this.chosen = query.trim() ? (total ? 0 : -1) : items.findIndex(item => item.name === kept);
    this.list.reset(total, items);
    if (this.chosen > 0) this.list.go(this.chosen, true);
    return total;
  }

  row(item, at) {
    const isStarred = this.favourites.has(item.name);
    // For the mouse only; a tool's own page has a button for everyone.
    const star = h(isStarred ? 'span.otx-star.otx-on' : 'span.otx-star', {
      'aria-hidden': 'true', title: isStarred ? 'No longer a favourite' : 'Make it a favourite',
      onclick: event => {
        event.stopPropagation();
        this.onStar(item.name, !isStarred);
      }
    }, isStarred ? '★' : '☆');
    const row = h(
      'div.otx-tool',
      { role: 'option', id: `${this.id}-${at}`, 'aria-selected': String(at === this.chosen), draggable: this.onDrag ? 'true' : null, ondragstart: this.onDrag ? event => this.onDrag(item.name, event) : null, onclick: () => this.choose(at, true) },
      h('div.otx-tool-text', null, h('div.otx-tool-name', null, marked(item.name, item.spans), item.disabled ? h('span.otx-chip', null, 'off') : null), h('div.otx-tool-said', null, item.summary)),
      star
    );
    if (at === this.chosen) row.classList.add('otx-current');
    return row;
  }

  /** Choose by number; `isOpened` opens it too. */
  choose(at, isOpened) {
    if (!this.total) return;
    this.chosen = Math.max(0, Math.min(this.total - 1, at));
    const { top, visible } = this.list;
    if (this.chosen < top || this.chosen > top + visible - 2) this.list.go(Math.max(0, this.chosen - Math.floor(visible / 2)));
    else this.list.paint();
    if (isOpened) this.open();
  }

  step(by) {
    this.choose(this.chosen + by, false);
  }

  open() {
    const item = this.list.known(this.chosen);
    if (item) this.onChoose(item);
  }

  get active() {
    return this.chosen < 0 ? '' : `${this.id}-${this.chosen}`;
  }

  close() {
    this.list.close();
  }
}
