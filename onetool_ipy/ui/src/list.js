// Tools to choose from: what is shown for a query and some filters, and which one is chosen. The ranking is match.js's
// up to 2,000 tools, and Python's beyond.
import { h, marked } from './dom.js';
import { Index, spans } from './match.js';
import { Windowed } from './windowed.js';

const ROW = 44;
const MOST = 500;

export class ToolList {
  constructor({ onChoose, onStar, search, onDrag = null }) {
    Object.assign(this, { onChoose, onStar, search, onDrag, items: [], all: [], index: null, chosen: -1, turn: 0, id: `otx-tools-${Math.random().toString(36).slice(2)}` });
    this.list = new Windowed({
      rowHeight: ROW,
      label: 'Tools',
      fetch: async (offset, limit) => this.items.slice(offset, offset + limit),
      draw: (item, at) => this.row(item, at)
    });
    this.element = this.list.element;
    this.element.setAttribute('role', 'listbox');
    this.element.id = this.id;
    this.element.tabIndex = -1;
    this.query = '';
  }

  /** What there is: `{items, isPartial}` of Python, and which are favourites and recent. */
  load({ items, isPartial }, { favourites, recent }) {
    this.all = items;
    this.isPartial = isPartial;
    this.index = isPartial ? null : new Index(items);
    this.mark({ favourites, recent });
  }

  mark({ favourites, recent }) {
    if (favourites) this.favourites = new Set(favourites);
    if (recent) this.recent = recent;
  }

  /** Show what fits; the first is chosen where something is asked for. */
  async show(query, filters) {
    const turn = (this.turn += 1);
    const kept = this.items[this.chosen]?.name;
    const found = await this.found(query, filters);
    if (turn !== this.turn) return this.items.length;
    this.query = query;
    this.items = found;
    this.chosen = query.trim() ? (found.length ? 0 : -1) : found.findIndex(item => item.name === kept);
    this.list.reset(found.length, found);
    if (this.chosen > 0) this.list.go(this.chosen, true);
    return found.length;
  }

  async found(query, filters) {
    const fits = item =>
      (!filters.pack || item.pack === filters.pack) &&
      (!filters.source || item.source === filters.source) &&
      (!filters.tag || item.tags.includes(filters.tag)) &&
      (!filters.isFavourite || this.favourites.has(item.name));
    if (this.isPartial) return this.search(query, filters);
    if (query.trim()) return this.index.search(query, MOST).map(hit => hit.entry).filter(fits);
    return this.firstFirst(this.all.filter(fits));
  }

  /** Favourites, then what was used lately, then the rest in its order. */
  firstFirst(items) {
    const place = item => {
      if (this.favourites.has(item.name)) return -2;
      const at = this.recent.indexOf(item.name);
      return at < 0 ? this.recent.length : at;
    };
    return items.map((item, at) => [place(item), at, item]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(each => each[2]);
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
      h('div.otx-tool-text', null, h('div.otx-tool-name', null, marked(item.name, spans(this.query, item.name)), item.disabled ? h('span.otx-chip', null, 'off') : null), h('div.otx-tool-said', null, item.summary)),
      star
    );
    if (at === this.chosen) row.classList.add('otx-current');
    return row;
  }

  /** Choose by number; `isOpened` opens it too. */
  choose(at, isOpened) {
    if (!this.items.length) return;
    this.chosen = Math.max(0, Math.min(this.items.length - 1, at));
    const { top, visible } = this.list;
    if (this.chosen < top || this.chosen > top + visible - 2) this.list.go(Math.max(0, this.chosen - Math.floor(visible / 2)));
    else this.list.paint();
    if (isOpened) this.onChoose(this.items[this.chosen]);
  }

  step(by) {
    this.choose(this.chosen + by, false);
  }

  open() {
    if (this.items[this.chosen]) this.onChoose(this.items[this.chosen]);
  }

  get active() {
    return this.chosen < 0 ? '' : `${this.id}-${this.chosen}`;
  }

  close() {
    this.list.close();
  }
}
