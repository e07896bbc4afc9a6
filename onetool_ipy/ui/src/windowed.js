// A list of any length of which only the rows in sight exist. Rows are asked for in pages and a few pages are kept.
import { h } from './dom.js';

const KEPT = 20;
const TALLEST = 8_000_000; // pixels; browsers give up somewhat above that

/** `fetch(offset, limit)` gives rows (offset from 0), `draw(row, number)` an element of `rowHeight` pixels. Rows are fetched by `pageSize`. */
export class Windowed {
  constructor({ rowHeight, pageSize = 200, fetch, draw, label, onMove = () => {} }) {
    Object.assign(this, { rowHeight, pageSize, fetch, draw, onMove });
    this.total = 0;
    this.tall = 0;
    this.pages = new Map();
    this.asked = 0;
    this.body = h('div.otx-window-body');
    this.spacer = h('div.otx-spacer', null, this.body);
    this.element = h('div.otx-window', { tabindex: '0', role: 'group', 'aria-label': label, onscroll: () => this.paint() }, this.spacer);
    this.element.addEventListener('keydown', event => this.key(event));
    this.seen = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this.paint());
    this.seen?.observe(this.element);
  }

  /** Show other rows: `first` are those known already, from the start. */
  reset(total, first = []) {
    this.total = total;
    this.asked += 1;
    this.pages.clear();
    const { pageSize } = this;
    for (let at = 0; at * pageSize < first.length; at += 1) {
      const rows = first.slice(at * pageSize, (at + 1) * pageSize);
      if (rows.length === pageSize || (at * pageSize) + rows.length === total) this.pages.set(at, rows);
    }
    this.tall = Math.min(total * this.rowHeight, TALLEST);
    this.exact = undefined;
    this.spacer.style.height = `${this.tall}px`;
    this.element.scrollTop = 0;
    return this.paint();
  }

  /** The number of the row at the top, from 0. */
  get top() {
    const hidden = this.tall - this.element.clientHeight;
    if (this.total * this.rowHeight <= TALLEST || hidden <= 0) return Math.floor(this.element.scrollTop / this.rowHeight);
    if (this.exact !== undefined && Math.abs(this.element.scrollTop - this.exact.scroll) < 1) return this.exact.row;
    return Math.round((this.element.scrollTop / hidden) * Math.max(0, this.total - this.visible));
  }

  get visible() {
    return Math.max(1, Math.ceil(this.element.clientHeight / this.rowHeight));
  }

  /** Bring a row (from 0) into sight. */
  go(row, isCentred = false) {
    const wanted = Math.max(0, Math.min(this.total - 1, row - (isCentred ? Math.floor(this.visible / 3) : 0)));
    if (this.total * this.rowHeight <= TALLEST) this.element.scrollTop = wanted * this.rowHeight;
    else {
      const hidden = this.tall - this.element.clientHeight;
      this.element.scrollTop = hidden * (wanted / Math.max(1, this.total - this.visible));
      this.exact = { scroll: this.element.scrollTop, row: Math.min(wanted, Math.max(0, this.total - this.visible)) };
    }
    return this.paint();
  }

  async paint() {
    const turn = this.asked;
    const from = Math.min(this.top, Math.max(0, this.total - 1));
    const to = Math.min(this.total, from + this.visible + 1);
    this.onMove(from, to);
    this.place(from, to);
    const missing = [];
    for (let at = Math.floor(from / this.pageSize); at * this.pageSize < to; at += 1) if (!this.pages.has(at)) missing.push(at);
    if (!missing.length) return;
    await Promise.all(missing.map(at => this.load(at, turn)));
    if (turn === this.asked) this.place(this.top, Math.min(this.total, this.top + this.visible + 1));
  }

  async load(at, turn) {
    this.pages.set(at, null);
    try {
      const rows = await this.fetch(at * this.pageSize, this.pageSize);
      if (turn !== this.asked) return;
      this.pages.delete(at);
      this.pages.set(at, rows);
      while (this.pages.size > KEPT) this.pages.delete(this.pages.keys().next().value);
    } catch (error) {
      if (turn === this.asked) this.pages.delete(at);
      throw error;
    }
  }

  /** The row of this number, or undefined if its page is not here. */
  known(row) {
    return this.pages.get(Math.floor(row / this.pageSize))?.[row % this.pageSize];
  }

  place(from, to) {
    const rows = [];
    for (let row = from; row < to; row += 1) {
      const known = this.known(row);
      const element = known === undefined ? h('div.otx-wait', null, '…') : this.draw(known, row);
      element.style.height = `${this.rowHeight}px`;
      rows.push(element);
    }
    const isScaled = this.total * this.rowHeight > TALLEST;
    this.body.style.transform = `translateY(${isScaled ? this.element.scrollTop : from * this.rowHeight}px)`;
    this.body.replaceChildren(...rows);
  }

  key(event) {
    const jump = { PageDown: this.visible - 1, PageUp: 1 - this.visible, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.target !== this.element) return;
    if (jump) this.go(this.top + jump);
    else if (event.key === 'Home') this.go(0);
    else if (event.key === 'End') this.go(this.total - 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.seen?.disconnect();
  }
}
