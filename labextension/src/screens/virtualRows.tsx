// Rows of any number of which only the visible ones are in the page. They are fetched by the page, and some pages are kept.
import { signal } from '@preact/signals';
import type { ComponentChild, ComponentChildren } from 'preact';
import type { Ask, Requests } from './requests.js';

const PAGE_SIZE = 200;
const MAX_PAGES = 20;
const MAX_HEIGHT = 8_000_000; // pixels; browsers cannot lay out much more

/** Rows that can be seen: where they are, and those that are loaded. */
interface Seen<T> {
  from: number;
  to: number;
  offset: number;
  rows: (T | undefined)[];
}

export class VirtualRows<T> {
  private readonly changes = signal(0);
  total = 0;
  /** The element that scrolls, while it is in the page. */
  element: HTMLElement | null = null;
  private first = 0;
  private pages = new Map<number, T[] | null>();
  private loads: Requests;
  private scrolledTo: { scroll: number; row: number } | null = null;
  private readonly resizes = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => void this.update());
  private readonly keys = new WeakMap<object, number>();
  private lastKey = 0;

  /** `fetch(offset, limit, ask)` returns rows, from 0 on. It ends with `requests`. */
  constructor(
    private readonly requests: Requests,
    readonly rowHeight: number,
    private readonly fetch: (offset: number, limit: number, ask: Ask) => Promise<T[]>
  ) {
    this.loads = requests.part();
  }

  /** Take the element that scrolls, which may come and go: it begins where the last one was. */
  readonly attach = (element: HTMLElement | null): void => {
    this.resizes?.disconnect();
    this.element = element;
    if (!element) return;
    this.resizes?.observe(element);
    if (this.first) void this.scrollTo(this.first);
  };

  /**
   * Show other rows; `first` holds those from the start that are loaded by now. They begin at the top, unless `isAgain`: they
   * are the same, loaded again, and the user may be amid them. Resolves once the visible rows are there, or cannot be loaded.
   */
  reset(total: number, first: T[] = [], isAgain = false): Promise<void> {
    this.total = total;
    this.loads.close(); // pages of the rows before are late
    this.loads = this.requests.part();
    this.pages.clear();
    for (let at = 0; at * PAGE_SIZE < first.length; at += 1) {
      const rows = first.slice(at * PAGE_SIZE, (at + 1) * PAGE_SIZE);
      if (rows.length === PAGE_SIZE || at * PAGE_SIZE + rows.length === total) this.pages.set(at, rows);
    }
    if (!isAgain) {
      this.scrolledTo = null;
      if (this.element) this.element.scrollTop = 0;
    }
    return this.update();
  }

  get isScaled(): boolean {
    return this.total * this.rowHeight > MAX_HEIGHT;
  }

  get height(): number {
    return Math.min(this.total * this.rowHeight, MAX_HEIGHT);
  }

  /** The number of the first visible row, from 0. */
  get top(): number {
    if (!this.element) return this.first;
    const { scrollTop, clientHeight } = this.element;
    const hidden = this.height - clientHeight;
    if (!this.isScaled || hidden <= 0) return Math.floor(scrollTop / this.rowHeight);
    if (this.scrolledTo && Math.abs(scrollTop - this.scrolledTo.scroll) < 1) return this.scrolledTo.row;
    return Math.round((scrollTop / hidden) * Math.max(0, this.total - this.visible));
  }

  get visible(): number {
    return Math.max(1, Math.ceil((this.element?.clientHeight ?? 0) / this.rowHeight));
  }

  /** The visible rows; a view that reads them is drawn again when there are others. */
  get seen(): Seen<T> {
    void this.changes.value;
    return this.look();
  }

  private look(): Seen<T> {
    const from = Math.max(0, Math.min(this.top, this.total - 1));
    const to = Math.min(this.total, from + this.visible + 1);
    const rows = Array.from(
      { length: to - from }, (_, at) => this.pages.get(Math.floor((from + at) / PAGE_SIZE))?.[(from + at) % PAGE_SIZE]
    );
    return { from, to, offset: this.isScaled ? (this.element?.scrollTop ?? 0) : from * this.rowHeight, rows };
  }

  /** All rows that are loaded. */
  loaded(): T[] {
    return [...this.pages.values()].flatMap(rows => rows ?? []);
  }

  /** Scroll to a row (from 0). */
  scrollTo(row: number, isCentred = false): Promise<void> {
    const wanted = Math.max(0, Math.min(this.total - 1, row - (isCentred ? Math.floor(this.visible / 3) : 0)));
    if (!this.element) this.first = wanted;
    else if (!this.isScaled) this.element.scrollTop = wanted * this.rowHeight;
    else {
      const last = Math.max(0, this.total - this.visible);
      this.element.scrollTop = (this.height - this.element.clientHeight) * (wanted / Math.max(1, last));
      this.scrolledTo = { scroll: this.element.scrollTop, row: Math.min(wanted, last) };
    }
    return this.update();
  }

  /** Draw the visible rows, and load those that are missing. A page that cannot be loaded is tried again when it is seen again. */
  async update(): Promise<void> {
    const { from, to } = this.look();
    if (this.element) this.first = this.top;
    this.changes.value = this.changes.peek() + 1;
    const missing = [];
    for (let at = Math.floor(from / PAGE_SIZE); at * PAGE_SIZE < to; at += 1) if (!this.pages.has(at)) missing.push(at);
    await Promise.all(missing.map(at => this.load(at)));
  }

  /** What stays the same for a row as long as its data do: its element is not given to another row while it is pressed. */
  keyOf(row: T, at: number): number | string {
    if (typeof row !== 'object' || row === null) return `row ${at}`;
    const key = this.keys.get(row) ?? (this.lastKey += 1);
    this.keys.set(row, key);
    return key;
  }

  close(): void {
    this.loads.close();
    this.resizes?.disconnect();
  }

  private async load(at: number): Promise<void> {
    this.pages.set(at, null);
    const reply = await this.loads.onceOf(ask => this.fetch(at * PAGE_SIZE, PAGE_SIZE, ask));
    if (reply.status === 'late') return;
    this.pages.delete(at);
    if (reply.status === 'failed') return;
    this.pages.set(at, reply.value);
    while (this.pages.size > MAX_PAGES) this.pages.delete(this.pages.keys().next().value!);
    this.changes.value = this.changes.peek() + 1;
  }
}

interface RowsProps<T> {
  rows: VirtualRows<T>;
  seen: Seen<T>;
  label: string;
  role?: 'group' | 'grid' | 'listbox';
  /** Rows above the others, which stay in view. */
  head?: ComponentChildren;
  headHeight?: number;
  /** Draws a row, which has the height of the list's rows. */
  draw: (row: T, at: number, key: number | string) => ComponentChild;
  /** Returns whether the key is taken. */
  onKey?: (event: KeyboardEvent) => boolean;
  [attribute: `on${string}` | `aria-${string}`]: unknown;
  style?: string;
  id?: string;
  tabIndex?: number;
  hidden?: boolean;
}

export function Rows<T>({ rows, seen, label, role = 'group', head, headHeight = 0, draw, onKey, style = '', ...attributes }: RowsProps<T>) {
  const { from, offset } = seen;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget) return;
    const isTaken = onKey?.(event) ?? false;
    const jump = { PageDown: rows.visible - 1, PageUp: 1 - rows.visible, ArrowDown: 1, ArrowUp: -1 }[event.key];
    const wanted = jump ? rows.top + jump : event.key === 'Home' ? 0 : event.key === 'End' ? rows.total - 1 : null;
    if (!isTaken && wanted === null) return;
    if (!isTaken) void rows.scrollTo(wanted!);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={rows.attach} class="otx-virtual-list" tabIndex={0} role={role} aria-label={label}
      style={`--otx-row-height:${rows.rowHeight}px;${style}`} onScroll={() => rows.update()} onKeyDown={onKeyDown} {...attributes}
    >
      <div class="otx-spacer" style={`height:${rows.height}px`}>
        {head}
        <div class="otx-virtual-list-body" style={`top:${headHeight}px;transform:translateY(${offset}px)`}>
          {seen.rows.map((row, at) => (row === undefined ? (
            <div key={`loading ${from + at}`} class="otx-loading-row">…</div>
          ) : draw(row, from + at, rows.keyOf(row, from + at))))}
        </div>
      </div>
    </div>
  );
}
