// A list of any length that keeps only its visible rows in the page. It fetches rows by the page and caches some pages.
import { h, reconcile } from './dom.js';
import { Requests } from './requests.js';

const PAGE_SIZE = 200;
const MAX_PAGES = 20;
const MAX_HEIGHT = 8_000_000; // pixels; browsers cannot lay out much more

/**
 * `fetch(offset, limit, ask)` returns rows (offset from 0); `draw(row, number)` returns an element of
 * `rowHeight` pixels; `onScroll(first, end)` receives the visible range; `onDraw()` hears that rows were drawn.
 */
export class VirtualList {
  constructor({ requests = new Requests(null), rowHeight, fetch, draw, label, onScroll = () => {}, onDraw = () => {} }) {
    Object.assign(this, { requests, rowHeight, fetch, draw, onScroll, onDraw });
    this.total = 0;
    this.height = 0;
    this.pages = new Map();
    this.loads = requests.part();
    this.drawn = new Map();
    this.body = h('div.otx-virtual-list-body');
    this.spacer = h('div.otx-spacer', null, this.body);
    const redraw = () => this.update().catch(() => {}); // rows that cannot be loaded stay '…'
    this.element = h('div.otx-virtual-list', { tabindex: '0', role: 'group', 'aria-label': label, onscroll: redraw }, this.spacer);
    this.element.addEventListener('keydown', event => this.onKey(event));
    this.resizes = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(redraw);
    this.resizes?.observe(this.element);
  }

  /**
   * Show another list of `total` rows; `first` holds the rows from the start that are already loaded. It begins at the
   * top, unless `isAgain`: it is the same list, loaded again, and the user may be amid it.
   */
  reset(total, first = [], isAgain = false) {
    this.total = total;
    this.loads.close(); // pages of the list before are late
    this.loads = this.requests.part();
    this.pages.clear();
    for (let at = 0; at * PAGE_SIZE < first.length; at += 1) {
      const rows = first.slice(at * PAGE_SIZE, (at + 1) * PAGE_SIZE);
      if (rows.length === PAGE_SIZE || (at * PAGE_SIZE) + rows.length === total) this.pages.set(at, rows);
    }
    this.height = Math.min(total * this.rowHeight, MAX_HEIGHT);
    this.spacer.style.height = `${this.height}px`;
    if (!isAgain) {
      this.scrolledTo = undefined;
      this.element.scrollTop = 0;
    }
    return this.update();
  }

  /** The number of the first visible row, from 0. */
  get top() {
    const hidden = this.height - this.element.clientHeight;
    if (this.total * this.rowHeight <= MAX_HEIGHT || hidden <= 0) return Math.floor(this.element.scrollTop / this.rowHeight);
    if (this.scrolledTo !== undefined && Math.abs(this.element.scrollTop - this.scrolledTo.scroll) < 1) return this.scrolledTo.row;
    return Math.round((this.element.scrollTop / hidden) * Math.max(0, this.total - this.visible));
  }

  get visible() {
    return Math.max(1, Math.ceil(this.element.clientHeight / this.rowHeight));
  }

  /** Scroll to a row (from 0). */
  scrollTo(row, isCentred = false) {
    const wanted = Math.max(0, Math.min(this.total - 1, row - (isCentred ? Math.floor(this.visible / 3) : 0)));
    if (this.total * this.rowHeight <= MAX_HEIGHT) this.element.scrollTop = wanted * this.rowHeight;
    else {
      const hidden = this.height - this.element.clientHeight;
      this.element.scrollTop = hidden * (wanted / Math.max(1, this.total - this.visible));
      this.scrolledTo = { scroll: this.element.scrollTop, row: Math.min(wanted, Math.max(0, this.total - this.visible)) };
    }
    return this.update();
  }

  async update() {
    const from = Math.min(this.top, Math.max(0, this.total - 1));
    const to = Math.min(this.total, from + this.visible + 1);
    this.onScroll(from, to);
    this.drawRows(from, to);
    const missing = [];
    for (let at = Math.floor(from / PAGE_SIZE); at * PAGE_SIZE < to; at += 1) if (!this.pages.has(at)) missing.push(at);
    if (!missing.length) return;
    const areThere = await Promise.all(missing.map(at => this.loadPage(at)));
    if (areThere.every(Boolean)) this.drawRows(this.top, Math.min(this.total, this.top + this.visible + 1));
  }

  /** Load a page; false if another list is shown by now. */
  async loadPage(at) {
    this.pages.set(at, null);
    const reply = await this.loads.onceOf(ask => this.fetch(at * PAGE_SIZE, PAGE_SIZE, ask));
    if (reply.status === 'late') return false;
    this.pages.delete(at);
    if (reply.status === 'failed') throw reply.error;
    this.pages.set(at, reply.value);
    while (this.pages.size > MAX_PAGES) this.pages.delete(this.pages.keys().next().value);
    return true;
  }

  /** Draw the visible rows. A row that is as it was stays in the page: the mouse button may be down on it. */
  drawRows(from, to) {
    const drawn = new Map();
    for (let row = from; row < to; row += 1) {
      const data = this.pages.get(Math.floor(row / PAGE_SIZE))?.[row % PAGE_SIZE];
      const element = data === undefined ? h('div.otx-loading-row', null, '…') : this.draw(data, row);
      element.style.height = `${this.rowHeight}px`;
      const before = this.drawn.get(row);
      drawn.set(row, before && before.data === data && before.element.isEqualNode(element) ? before : { data, element });
    }
    this.drawn = drawn;
    const isScaled = this.total * this.rowHeight > MAX_HEIGHT;
    this.body.style.transform = `translateY(${isScaled ? this.element.scrollTop : from * this.rowHeight}px)`;
    reconcile(this.body, [...drawn.values()].map(({ element }) => element));
    this.onDraw();
  }

  onKey(event) {
    const jump = { PageDown: this.visible - 1, PageUp: 1 - this.visible, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.target !== this.element) return;
    if (jump) this.scrollTo(this.top + jump);
    else if (event.key === 'Home') this.scrollTo(0);
    else if (event.key === 'End') this.scrollTo(this.total - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.loads.close();
    this.resizes?.disconnect();
  }
}
