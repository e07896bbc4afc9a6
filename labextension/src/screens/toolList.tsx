// The list of tools: those that match a query and some filters, and the chosen one. Up to 2,000 tools are searched here. Beyond
// that the kernel does not send them (`isPartial`), and it is asked. The functions of the toolbox
// itself (`ot`) are no tools of a person: they are found by what is typed, or as a pack that is named.
import { batch, signal } from '@preact/signals';
import type { Key } from 'preact';
import { uniqueId } from './dom.js';
import { Badge, Icon } from './parts.js';
import type { Reply, Requests } from './requests.js';
import { isEqual } from './schema.js';
import { type Entry, matchingSpans, SearchIndex } from './search.js';
import { Rows, VirtualRows } from './virtualRows.js';

const ROW_HEIGHT = 44;
const MAX_MATCHES = 500;
export const TOOLBOX = 'ot';

export interface Item extends Entry {
  pack: string;
  source: string;
  summary: string;
  tags: string[];
  badges: string[];
  icon?: string | null;
  disabled?: boolean;
}

/** Tools as the kernel sends them: their icons are numbers. */
export interface Entries {
  items: (Omit<Item, 'icon'> & { icon?: number })[];
  icons: string[];
  isPartial?: boolean;
}

export interface Filters {
  pack: string;
  source: string;
  tag: string;
  isFavourite: boolean;
}

export interface Known {
  favourites: string[];
  recent: string[];
  packs: { name: string; count: number }[];
}

interface Actions {
  onOpen: (item: Item) => void;
  onFavourite: (name: string, isOn: boolean) => void;
  onDrag?: ((name: string, event: DragEvent) => void) | null;
}

export const isFiltering = (filters: Filters): boolean => Object.values(filters).some(Boolean);

export class ToolList {
  readonly id = uniqueId('tools');
  readonly rows: VirtualRows<Item>;
  private readonly found = signal<Item[]>([]);
  private readonly place = signal(-1);
  private readonly stars = signal<ReadonlySet<string>>(new Set());
  /** What the list answers, and how many tools match; null before the first answer. */
  readonly answer = signal<{ query: string; filters: Filters; count: number } | null>(null);
  recent: string[] = [];
  private all: Item[] = [];
  private index: SearchIndex<Item> | null = null;
  private terms = new Map<string, string[]>();

  constructor(private readonly requests: Requests, private readonly actions: Actions) {
    this.rows = new VirtualRows<Item>(requests, ROW_HEIGHT, async (offset, limit) => this.items.slice(offset, offset + limit));
  }

  get items(): Item[] {
    return this.found.peek();
  }

  get chosen(): number {
    return this.place.peek();
  }

  get favourites(): ReadonlySet<string> {
    return this.stars.peek();
  }

  set favourites(names: Iterable<string>) {
    this.stars.value = new Set(names);
  }

  /** The id of the chosen row, for `aria-activedescendant`. */
  get activeId(): string {
    return this.place.value < 0 ? '' : `${this.id}-${this.place.value}`;
  }

  load(entries: Entries, { favourites, recent }: Known): void {
    this.all = withIcons(entries);
    this.index = entries.isPartial ? null : new SearchIndex(this.all);
    this.favourites = favourites;
    this.recent = recent;
  }

  /** Show the tools that match. With a new query the first tool is chosen. */
  async show(query: string, filters: Filters): Promise<Reply<unknown>> {
    const searches = this.requests.latest<Entries>('search');
    searches.reset();
    const isHere = this.index !== null;
    const reply: Reply<any> = isHere
      ? { status: 'ok', value: this.matches(query, filters) }
      : await searches.send({ query, filters, limit: MAX_MATCHES });
    if (reply.status !== 'ok') return reply;
    const found: Item[] = isHere ? reply.value : withIcons(reply.value);
    const items = kept(this.items, found);
    const before = this.answer.peek();
    const isAgain = before !== null && before.query === query && isEqual(before.filters, filters);
    const chosenName = this.items[this.chosen]?.name;
    const place = query.trim() && !isAgain ? -1 : items.findIndex(item => item.name === chosenName);
    const first = query.trim() && items.length ? 0 : -1;
    batch(() => {
      this.found.value = items;
      this.place.value = place < 0 ? first : place;
      this.answer.value = { query, filters, count: items.length };
      void this.rows.reset(items.length, items, isAgain);
    });
    if (this.chosen > 0 && !isAgain) void this.rows.scrollTo(this.chosen, true);
    return reply;
  }

  /** With a query, by rank; without one, favourites first, then recently used tools, then the rest. */
  private matches(query: string, filters: Filters): Item[] {
    const isMatch = (item: Item): boolean =>
      (!filters.pack || item.pack === filters.pack) &&
      (!filters.source || item.source === filters.source) &&
      (!filters.tag || [...item.tags, ...item.badges].includes(filters.tag)) &&
      (!filters.isFavourite || this.favourites.has(item.name));
    if (query.trim()) {
      const hits = this.index!.search(query, MAX_MATCHES).filter(({ entry }) => isMatch(entry));
      this.terms = new Map(hits.map(({ entry, terms }) => [entry.name, terms]));
      return hits.map(({ entry }) => entry);
    }
    const places = new Map(this.recent.map((name, at) => [name, at]));
    const placeOf = ({ name }: Item): number => (this.favourites.has(name) ? -1 : (places.get(name) ?? places.size));
    const isListed = ({ name, pack }: Item): boolean => pack !== TOOLBOX || filters.pack === TOOLBOX || this.favourites.has(name);
    return this.all.filter(item => isListed(item) && isMatch(item)).sort((a, b) => placeOf(a) - placeOf(b));
  }

  /** Choose the tool with this number and scroll to it. */
  choose(at: number): void {
    if (!this.items.length) return;
    this.place.value = Math.max(0, Math.min(this.items.length - 1, at));
    const { top, visible } = this.rows;
    if (this.chosen < top || this.chosen > top + visible - 2) void this.rows.scrollTo(Math.max(0, this.chosen - Math.floor(visible / 2)));
  }

  openChosen(): void {
    const item = this.items[this.chosen];
    if (item) this.actions.onOpen(item);
  }

  view(isHidden: boolean) {
    return (
      <Rows
        rows={this.rows} seen={this.rows.seen} id={this.id} role="listbox" label="Tools" tabIndex={-1} hidden={isHidden}
        draw={(item, at, key) => this.row(item, at, key)}
      />
    );
  }

  private row(item: Item, at: number, key: Key) {
    const { name, icon, badges, summary, disabled } = item;
    const { onDrag, onFavourite } = this.actions;
    const isFavourite = this.stars.value.has(name);
    const isChosen = at === this.place.value;
    const open = (): void => {
      this.choose(at);
      this.openChosen();
    };
    const toggleStar = (event: Event): void => {
      event.stopPropagation();
      onFavourite(name, !isFavourite);
    };
    const drag = onDrag ? { draggable: true, onDragStart: (event: DragEvent) => onDrag(name, event) } : {};
    // The star in a row is for the mouse; the tool's page has a button that the keyboard reaches.
    const star = (
      <span
        class={isFavourite ? 'otx-star otx-on' : 'otx-star'} aria-hidden="true"
        title={isFavourite ? 'Remove from favourites' : 'Make it a favourite'} onClick={toggleStar}
      >
        {isFavourite ? '★' : '☆'}
      </span>
    );
    return (
      <div
        key={key} class={isChosen ? 'otx-tool otx-current' : 'otx-tool'} role="option" id={`${this.id}-${at}`} aria-selected={isChosen}
        onClick={open} {...drag}
      >
        <div class="otx-tool-text">
          <div class="otx-tool-name" title={name}>
            <Icon src={icon} />
            {marked(name, matchingSpans(this.answer.value?.query ?? '', name, this.terms.get(name)))}
            {disabled ? <span class="otx-chip">off</span> : null}
          </div>
          <div class="otx-tool-summary">{badges.map(badge => <Badge key={badge} badge={badge} />)}{summary}</div>
        </div>
        {star}
      </div>
    );
  }
}

/** A text with some of its letters in `<mark>`; spans are [start, end] in order. */
function marked(text: string, spans: [number, number][]) {
  return [
    ...spans.flatMap(([start, end], at) => [text.slice(spans[at - 1]?.[1] ?? 0, start), <mark>{text.slice(start, end)}</mark>]),
    text.slice(spans.at(-1)?.[1] ?? 0)
  ];
}

/** Entries with their icons in place of the icons' numbers. */
function withIcons({ items, icons }: Entries): Item[] {
  return items.map(item => ({ ...item, icon: icons[item.icon!] }));
}

/** The items of a list, where one that did not change is the object of the list before: its row keeps its element. */
function kept(before: Item[], items: Item[]): Item[] {
  const known = new Map(before.map(item => [item.name, item]));
  return items.map(item => {
    const old = known.get(item.name);
    return old && isEqual(old, item) ? old : item;
  });
}
