// The tool browser: filters, the list of tools, the page of one tool, the stored results, and the call history beside
// them. It owns the layout and the keyboard.
import { batch, signal } from '@preact/signals';
import { type ComponentChild, createRef, Fragment } from 'preact';
import { type Call, Calls } from './calls.js';
import { Search } from './controls.js';
import { offerFocus } from './dom.js';
import { counted, hasWords, number, sourceText } from './format.js';
import { type Call as PastCall, createHistory } from './history.js';
import { createScreen, Failure, Placed, Tabs } from './parts.js';
import { type Reply, Requests } from './requests.js';
import { isEqual } from './schema.js';
import { type Entries, type Filters, isFiltering, type Item, type Known, TOOLBOX, ToolList } from './toolList.js';
import { type Code, ToolPage } from './toolPage.js';
import type { Payload, Transport } from './transport.js';
import { needsTrust, type Trust, TrustForm } from './trust.js';

const KEYS = [
  ['/', 'search'],
  ['↑ ↓', 'choose a tool'],
  ['Enter', 'open it'],
  ['Ctrl-Enter', 'run it'],
  ['Esc', 'back to the search; again: back to the notebook'],
  ['?', 'show these keys']
];
const VIEWS = [['tools', 'Tools'], ['history', 'History'], ['results', 'Results']] as const;
/** In a side panel the views are its tabs; the results stand beside the calls. */
const SMALL_VIEWS = [['history', 'Calls'], ['results', 'Results']] as const;
const SLOW_MS = 2500;
/** How many new parts of a trusted project get a form each; more are one form. */
const MAX_FORMS = 3;
const NO_FILTERS: Filters = { pack: '', source: '', tag: '', isFavourite: false };
/** What a notice can be about, the most important first. */
const NOTICES = ['trust', 'favourite', 'result', 'busy', 'load', 'search'] as const;

type View = (typeof VIEWS)[number][0];
type Subject = (typeof NOTICES)[number];
type Stored = { handle: string; tool: string; when: string; summary: string };

interface Overview extends Known {
  tools: number;
  sources: string[];
  tags: string[];
  badges: string[];
  /** How to begin, while the project has no tool of its own: what to type, and what it does. */
  begin: [string, string][];
  trust?: Trust;
}

/** A tool to open, with arguments to fill in, and whether to run it with them. */
export interface WantedTool {
  name: string;
  args?: Payload | null;
  isRun?: boolean;
}

interface BrowserOptions {
  /** For a front end with a notebook to put a call into. */
  onInsert?: ((code: Code, isRun: boolean) => void) | null;
  onDrag?: ((name: string, event: DragEvent) => void) | null;
  /** Show tools and results elsewhere; without them the browser shows them itself. */
  onOpen?: ((wanted: WantedTool) => void) | null;
  onOpenResult?: ((handle: string) => void) | null;
  /** Called when the user trusts the project. */
  onTrust?: () => void;
  /** For a side panel. */
  isSmall?: boolean;
}

export function createBrowser(transport: Transport, options: BrowserOptions = {}): ToolBrowser {
  return new ToolBrowser(transport, options);
}

export class ToolBrowser {
  readonly element: HTMLElement;
  readonly calls: Calls;
  readonly page: ToolPage;
  readonly tools: ToolList;
  readonly history: ReturnType<typeof createHistory>;
  /** Resolves when the list shows what was searched last; with false if something else is searched by then. */
  searching: Promise<boolean> = Promise.resolve(true);
  private loading: Promise<unknown> = Promise.resolve();
  private readonly requests: Requests;
  private readonly loads;
  private readonly view = signal<View>('tools');
  /** What is typed into the search of each view. */
  private readonly queries = signal<Record<View, string>>({ tools: '', history: '', results: '' });
  private readonly filters = signal(NO_FILTERS);
  private readonly overview = signal<Overview | null>(null);
  private readonly notices = signal<Partial<Record<Subject, { message: string; retry: (() => unknown) | null }>>>({});
  /** What the user is asked to trust. Another question has another turn, and so other buttons. */
  private readonly question = signal({ trust: null as Trust | null, turn: 0, isAnswered: false });
  private readonly isGranting = signal(false);
  private readonly isHelpOpen = signal(false);
  /** Whether there is a page; a narrow browser shows the page or the list. */
  private readonly pageState = signal<'none' | 'behind' | 'front'>('none');
  private readonly searchField = createRef<HTMLInputElement>();
  private readonly trustBox = createRef<HTMLDivElement>();
  private readonly ends: (() => void)[];

  constructor(private readonly transport: Transport, private readonly options: BrowserOptions) {
    this.requests = new Requests(transport);
    this.loads = this.requests.latestOf((_: void, ask): Promise<[Overview, Entries]> => Promise.all([ask('overview'), ask('entries')]));
    const onFavourite = (name: string, isOn: boolean): void => void this.setFavourite(name, isOn);
    this.calls = new Calls(transport, this.requests, {
      beforeFinish: call => this.page.leaveCancel(call), onFinish: call => this.onCallEnd(call), onOpen: call => void this.showCall(call)
    });
    this.page = new ToolPage(transport, this.requests, this.calls, { onFavourite, onInsert: options.onInsert });
    const onOpen = (item: Item): unknown => this.open(item.name);
    this.tools = new ToolList(this.requests, { onOpen, onFavourite, onDrag: options.onDrag });
    this.history = createHistory(this.requests, {
      onEdit: call => void this.open(call.tool, call.args), onRerun: call => void this.rerun(call)
    });
    const screen = createScreen(
      options.isSmall ? 'div.otx.otx-browser.otx-narrow' : 'div.otx.otx-browser', { role: 'application', 'aria-label': 'Tool browser' },
      element => this.draw(element), event => this.onKey(event)
    );
    this.element = screen.element;
    const busyTimer = setInterval(() => this.lookWhetherBusy(), 1000);
    this.ends = [
      screen.close,
      transport.store.onClosed(() => this.calls.failRunning()),
      transport.store.onChanged(() => this.load()),
      transport.store.onCall(event => event.result && this.loadView()),
      () => clearInterval(busyTimer)
    ];
    void this.load();
  }

  get search(): HTMLInputElement {
    return this.searchField.current!;
  }

  /** Request the packs, the filters and the tools again. */
  load(): Promise<unknown> {
    void this.loadView();
    this.loading = this.loadAll();
    return this.loading;
  }

  private async loadAll(): Promise<void> {
    const reply = await this.loads.again();
    if (!this.tell('load', reply, () => this.load())) return;
    const [overview, entries] = reply.value;
    batch(() => {
      this.overview.value = overview;
      this.tools.load(entries, overview);
      this.askTrust(overview.trust);
    });
    await this.refresh();
  }

  /** Say what is wrong with one thing, or with '' that nothing is. What was said of another thing comes back after it. */
  private say(about: Subject, message: string, retry: (() => unknown) | null = null): void {
    if (message || this.notices.peek()[about]?.message) this.notices.value = { ...this.notices.peek(), [about]: { message, retry } };
  }

  /** Say why a request failed, if it did. Returns whether there is a value to show. */
  private tell<T>(about: Subject, reply: Reply<T>, retry: (() => unknown) | null = null): reply is { status: 'ok'; value: T } {
    if (reply.status !== 'late') this.say(about, reply.status === 'failed' ? reply.error.message : '', retry);
    return reply.status === 'ok';
  }

  /** Ask the user to trust the project, or its new and changed parts. The same question is not asked twice. */
  private askTrust(trust: Trust | undefined): void {
    const asked = trust && needsTrust(trust) ? trust : null;
    const { trust: before, turn } = this.question.peek();
    if (!isEqual(asked, before)) this.question.value = { trust: asked, turn: turn + 1, isAnswered: false };
  }

  private readonly refuseTrust = (): void => {
    this.question.value = { ...this.question.peek(), isAnswered: true };
    this.say('trust', '');
  };

  /** A yes to `wouldRun`, which is what its form shows. */
  private async grantTrust(part: string, wouldRun: Trust['wouldRun']): Promise<void> {
    if (this.isGranting.peek()) return;
    this.isGranting.value = true;
    const reply = await this.requests.once<Trust>('trust', { isTrusted: true, part, wouldRun });
    if (reply.status === 'late') return;
    this.isGranting.value = false;
    if (this.tell('trust', reply)) this.askTrust(reply.value);
    await this.load(); // after a no the project may hold something else by now
    if (reply.status === 'failed') return;
    offerFocus(this.search, this.element);
    this.options.onTrust?.();
  }

  /** The kernel refused a call because the project is not trusted: show the form again, also after "Not now". */
  async askTrustAgain(): Promise<void> {
    const before = document.activeElement;
    const reply = await this.requests.latest<Trust>('trust').send({});
    if (!this.tell('trust', reply, () => this.askTrustAgain())) return;
    batch(() => {
      this.askTrust(reply.value);
      this.question.value = { ...this.question.peek(), isAnswered: false };
    });
    offerFocus(this.trustBox.current?.querySelector('button'), this.element, before);
  }

  setFilters(change: Partial<Filters>): Promise<unknown> {
    this.filters.value = { ...this.filters.peek(), ...change };
    this.selectView('tools');
    return this.refresh();
  }

  private onSearch(query: string): void {
    const view = this.view.peek();
    this.queries.value = { ...this.queries.peek(), [view]: query };
    if (view === 'history') this.history.search(query.trim());
    if (view !== 'tools') return;
    this.leavePage();
    void this.refresh();
  }

  /** Search again. */
  private refresh(): Promise<unknown> {
    this.searching = this.tools.show(this.queries.peek().tools, this.filters.peek()).then(
      reply => (this.tell('search', reply, () => this.refresh()), reply.status !== 'late')
    );
    return this.searching;
  }

  /** Show a tool's page, or the tools of a pack. Returns whether it is shown here. */
  async find(name: string): Promise<boolean> {
    await this.loading;
    const isPack = name === TOOLBOX || (this.overview.peek()?.packs.some(pack => pack.name === name) ?? false);
    await (isPack ? this.showPack(name) : this.open(name));
    return isPack || !this.options.onOpen;
  }

  /** List only the tools of a pack. */
  private showPack(pack: string): Promise<unknown> {
    this.queries.value = { ...this.queries.peek(), tools: '' };
    this.leavePage();
    return this.setFilters({ ...NO_FILTERS, pack });
  }

  /** Show the page of a tool; with `args` its form is filled in. Returns whether the page shows it. */
  async open(name: string, args: Payload | null = null, isFocused = true): Promise<boolean> {
    if (this.options.onOpen) {
      this.options.onOpen({ name, args });
      return true;
    }
    const before = document.activeElement;
    this.showPage();
    const isShown = await this.page.open(name, args);
    if (isShown && isFocused) offerFocus(this.page.form, this.element, before);
    return isShown;
  }

  private showPage(): void {
    batch(() => {
      for (const about of ['favourite', 'result'] as const) this.say(about, '');
      this.pageState.value = 'front';
    });
  }

  private leavePage(): void {
    if (this.pageState.peek() === 'front') this.pageState.value = 'behind';
  }

  private readonly back = (): void => {
    this.leavePage();
    this.search.focus();
  };

  /** Keep a favourite. If the kernel refuses, the stars show again what it knows. */
  async setFavourite(name: string, isOn: boolean): Promise<void> {
    const reply = await this.requests.latest<{ favourites: string[] }>('favourite').send({ name, isOn });
    if (reply.status === 'late') return;
    if (this.tell('favourite', reply)) {
      const { favourites } = reply.value;
      this.overview.value = { ...this.overview.peek()!, favourites };
      this.tools.favourites = favourites;
      await this.refresh();
    } else {
      this.drawStar();
      await this.load();
    }
    await this.page.settled(); // a tool that was asked for before has the star of then
    this.drawStar();
  }

  private drawStar(): void {
    const { tool } = this.page;
    if (tool) this.page.setStar(this.tools.favourites.has(tool.name));
  }

  /** A call has finished, whether the page shows it or not. */
  private onCallEnd(call: Call): void {
    this.page.showResult(call);
    if (call.result.peek()!.error?.reason === 'untrusted') void this.askTrustAgain();
    void this.onCallFinished();
  }

  private async onCallFinished(): Promise<void> {
    void this.loadView();
    const reply = await this.requests.latest<Overview>('overview', 'recent').again();
    if (reply.status === 'ok') this.tools.recent = reply.value.recent; // else the order of the list stays as it was
  }

  /** Show a call: its arguments in the form, and its progress or result. */
  private async showCall(call: Call): Promise<void> {
    if (await this.open(call.tool, call.args, false)) this.page.showCall(call);
  }

  /** Show one of the views. Each has its own search text. */
  selectView(view: View): void {
    this.view.value = view;
    void this.loadView();
  }

  /** Show the tools or the calls, as the tabs of a panel say; the page of a tool stays until the other one is chosen. */
  select(view: 'tools' | 'history'): void {
    if ((this.view.peek() === 'tools') === (view === 'tools')) return void this.loadView();
    this.leavePage();
    this.selectView(view);
  }

  /** Load the calls or results again, if they are in view: calls have ended. Resolves when they are shown. */
  async loadView(): Promise<void> {
    if (this.view.peek() === 'history') await this.history.load();
    if (this.view.peek() === 'results') await this.requests.latest('results').again();
  }

  async rerun(call: Pick<PastCall, 'tool' | 'args'>): Promise<void> {
    if (this.options.onOpen) this.options.onOpen({ name: call.tool, args: call.args, isRun: true });
    else if (await this.open(call.tool, call.args, false)) await this.page.run();
  }

  private async openResult(handle: string): Promise<void> {
    if (this.options.onOpenResult) {
      this.options.onOpenResult(handle);
      return;
    }
    this.showPage();
    this.tell('result', await this.page.openResult(handle), () => this.openResult(handle));
  }

  private readonly toggleKeys = (): void => {
    this.isHelpOpen.value = !this.isHelpOpen.peek();
  };

  private onKey(event: KeyboardEvent): void {
    const action = this.actionFor(event);
    if (!action) return;
    event.preventDefault();
    action();
  }

  private actionFor(event: KeyboardEvent): (() => unknown) | null {
    const target = event.target as HTMLElement;
    const inSearch = target === this.search;
    const inOtherField = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !inSearch;
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return () => this.page.run();
    if (event.key === 'Escape') return this.escapeFor(inSearch);
    if (this.view.peek() === 'tools' && (inSearch || this.tools.rows.element?.contains(target))) {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) return () => this.tools.choose(this.tools.chosen + step);
      // The list may not show yet what was typed.
      if (event.key === 'Enter') return () => this.searching.then(isShown => isShown && this.tools.openChosen());
    }
    if (inOtherField || (inSearch && this.search.value) || event.ctrlKey || event.metaKey || event.altKey) return null;
    if (event.key === '/') return () => this.search.focus();
    if (event.key === '?') return this.toggleKeys;
    return null;
  }

  /** What Escape does: close the keys, clear the search, go back to it; null if the notebook may have its keys again. */
  private escapeFor(inSearch: boolean): (() => void) | null {
    if (this.isHelpOpen.peek()) return this.toggleKeys;
    if (!inSearch) return this.back;
    return this.search.value ? () => this.onSearch('') : null;
  }

  /** Tell the user while the kernel is busy and requests wait. */
  private lookWhetherBusy(): void {
    const isBusy = !this.transport.closed && this.transport.longestWaitMs > SLOW_MS;
    this.say('busy', isBusy ? 'The kernel is busy; it will answer when it is free.' : '');
  }

  private draw({ classList }: HTMLElement): ComponentChild {
    const { isSmall } = this.options;
    const view = this.view.value;
    classList.toggle('otx-page-open', this.pageState.value === 'front');
    classList.toggle('otx-disconnected', this.transport.closed !== null);
    const begin = this.overview.value?.begin ?? [];
    // A narrow browser has its beginnings above the list: what stands beside it is hidden there.
    classList.toggle('otx-beginning', begin.length > 0 && !isSmall && view === 'tools' && this.pageState.value !== 'front');
    const tabs = isSmall && view === 'tools' ? null : (
      <Tabs
        label={isSmall ? 'Calls and results' : 'Tools, history and results'} tabs={isSmall ? SMALL_VIEWS : VIEWS} selected={view}
        onSelect={kind => this.selectView(kind)}
      />
    );
    return (
      <>
        {/* In the panel the fields of a view differ in height: below the tabs they do not move them. */}
        {isSmall ? tabs : null}
        {this.head(view)}
        {this.notice()}
        {this.trust()}
        <div class="otx-keys" role="note" aria-label="Keys" hidden={!this.isHelpOpen.value}>
          {KEYS.map(([key, does]) => <div key={key}><kbd>{key}</kbd> {does}</div>)}
        </div>
        <div class="otx-body">
          {this.packs()}
          <div class="otx-left">
            {isSmall ? null : tabs}
            {view === 'tools' ? this.noMatches() : null}
            {this.tools.view(view !== 'tools')}
            <Placed class="otx-place" element={this.history.element} hidden={view !== 'history'} />
            <div class="otx-side" tabIndex={-1} hidden={view !== 'results'}>{this.results()}</div>
            <Placed class="otx-place" element={this.calls.element} />
          </div>
          <div class="otx-right">
            <button class="otx-small otx-back" type="button" onClick={this.back}>‹ All tools</button>
            <div class={this.pageState.value === 'none' ? 'otx-intro' : 'otx-intro otx-behind'}>
              {begin.length ? (
                <>
                  <p>No tool is your own yet. Three ways to begin, each in a cell:</p>
                  <div class="otx-begin" role="list">
                    {begin.map(([line, about]) => (
                      <div key={line} role="listitem"><code>{line}</code><div class="otx-muted">{about}</div></div>
                    ))}
                  </div>
                </>
              ) : null}
              <p class="otx-how">Type a few letters, choose a tool, fill in its form, press Run.</p>
              <p class="otx-how otx-muted">Keys: / search, ↑ ↓ choose, Enter open, Ctrl-Enter run, ? more</p>
            </div>
            <Placed class="otx-place" element={this.page.element} hidden={this.pageState.value === 'none'} />
          </div>
        </div>
      </>
    );
  }

  private head(view: View): ComponentChild {
    const { sources = [], packs = [], tags = [], badges = [] } = this.overview.value ?? {};
    const capital = (noun: string): string => noun[0].toUpperCase() + noun.slice(1);
    const options = (values: string[]) => values.map(value => <option key={value} value={value}>{sourceText(value)}</option>);
    const choice = (name: 'pack' | 'source' | 'tag', children: ComponentChild, isHidden = false) => (
      <select
        class={name === 'pack' ? 'otx-input otx-pack-select' : 'otx-input'} aria-label={capital(name)} hidden={isHidden}
        value={this.filters.value[name]} onChange={event => this.setFilters({ [name]: event.currentTarget.value })}
      >
        <option value="">{this.options.isSmall ? capital(`${name}s`) : `All ${name}s`}</option>
        {children}
      </select>
    );
    const combobox = view === 'tools'
      ? {
        role: 'combobox', list: undefined, 'aria-expanded': true, 'aria-controls': this.tools.id, 'aria-autocomplete': 'list',
        'aria-activedescendant': this.tools.activeId
      } as const
      : {};
    return (
      <div class={view === 'tools' ? 'otx-head' : 'otx-head otx-only-search'}>
        <Search
          ref={this.searchField} class="otx-input otx-search" label={`Search ${view}`} value={this.queries.value[view]}
          onInput={query => this.onSearch(query)} {...combobox}
        />
        {choice('pack', options([...packs.map(pack => pack.name), ...(this.filters.value.pack === TOOLBOX ? [TOOLBOX] : [])]))}
        {choice('source', options(sources), sources.length < 2)}
        {choice(
          'tag',
          <>
            {badges.length ? <optgroup label="Behaviour">{options(badges)}</optgroup> : null}
            {tags.length ? <optgroup label="Tags">{options(tags)}</optgroup> : null}
          </>,
          !tags.length && !badges.length
        )}
        <span class="otx-muted otx-total" role="status">{this.countText()}</span>
        <button class="otx-small" type="button" aria-label="Keys" title="Keys" onClick={this.toggleKeys}>?</button>
      </div>
    );
  }

  private countText(): string {
    const [count, total] = [this.tools.answer.value?.count, this.overview.value?.tools ?? 0];
    if (count === undefined) return '';
    // What is searched for or named may be of the toolbox itself, which does not count.
    if (count >= total) return counted(count, 'tool');
    return count ? `${number(count)} of ${number(total)}` : 'no tools';
  }

  /** The notice that matters most. */
  private notice(): ComponentChild {
    const { closed } = this.transport;
    const notice = closed === null
      ? NOTICES.map(about => this.notices.value[about]).find(each => each?.message)
      : { message: closed, retry: null };
    return (
      <div class="otx-notice" role="alert" hidden={!notice}>
        {notice?.message}
        {notice?.retry ? <> <button class="otx-small" type="button" onClick={() => notice.retry!()}>Try again</button></> : null}
      </div>
    );
  }

  private trust(): ComponentChild {
    const { trust, turn, isAnswered } = this.question.value;
    if (!trust || isAnswered) return <div class="otx-trust-box" role="status" hidden />;
    const { isTrusted, wouldRun } = trust;
    const parts = isTrusted && wouldRun.parts.length <= MAX_FORMS ? wouldRun.parts.map(part => part.key) : [''];
    return (
      <div ref={this.trustBox} class="otx-trust-box" role="status">
        <Fragment key={turn}>
          {parts.map(part => (
            <TrustForm
              key={part} inventory={wouldRun} part={part} isTrusted={isTrusted} isBusy={this.isGranting.value}
              onYes={() => this.grantTrust(part, wouldRun)} onNo={this.refuseTrust}
            />
          ))}
        </Fragment>
      </div>
    );
  }

  private packs(): ComponentChild {
    const { pack, isFavourite } = this.filters.value;
    const { tools = 0, packs = [], favourites = [] } = this.overview.value ?? {};
    const button = (change: Partial<Filters>, label: string, count: number, isOn: boolean) => (
      <button
        key={change.pack ? `pack ${change.pack}` : label} class={isOn ? 'otx-pack otx-current' : 'otx-pack'} type="button"
        aria-pressed={isOn} onClick={() => this.setFilters({ pack: '', isFavourite: false, ...change })}
      >
        <span>{label}</span>
        <span class="otx-muted">{number(count)}</span>
      </button>
    );
    return (
      <nav class="otx-packs" aria-label="Packs">
        {this.overview.value ? button({}, 'All', tools, !pack && !isFavourite) : null}
        {favourites.length ? button({ isFavourite: true }, '★ Favourites', favourites.length, isFavourite) : null}
        {packs.map(({ name, count }) => button({ pack: name }, name, count, pack === name))}
      </nav>
    );
  }

  /** Why the list is empty, and a button that searches all tools. */
  private noMatches(): ComponentChild {
    const answer = this.tools.answer.value;
    if (!answer || answer.count) return null;
    const query = answer.query.trim();
    const isFiltered = isFiltering(answer.filters);
    const message = query
      ? `No tool matches '${query}'${isFiltered ? ' with these filters' : ''}.`
      : isFiltered
      ? 'No tool matches these filters.'
      : 'There are no tools yet.';
    return (
      <div class="otx-no-matches">
        <p>{message}</p>
        {isFiltered ? <button class="otx-small" type="button" onClick={() => this.setFilters(NO_FILTERS)}>Search all tools</button> : null}
      </div>
    );
  }

  private results(): ComponentChild {
    const results = this.requests.latest<{ items: Stored[] }>('results');
    if (results.failure.value) return <div class="otx-failure" role="alert"><Failure of={results} /></div>;
    const items = results.value.value?.items;
    if (!items) return null;
    const found = items.filter(({ tool, handle, when }) => hasWords(`${tool} ${handle} ${when}`, this.queries.value.results));
    if (!found.length) return (
      <p class="otx-muted">{items.length ? 'No stored result matches.' : 'No stored results yet. Large results appear here.'}</p>
    );
    return found.map(({ handle, tool, when, summary }) => (
      <div key={handle} class="otx-history-row">
        <div class="otx-tool-text">
          <div class="otx-tool-name">{tool || handle}</div>
          <div class="otx-tool-summary">{when} · {summary}</div>
        </div>
        <button class="otx-small" type="button" aria-label={`Open the result of ${tool}`} onClick={() => this.openResult(handle)}>
          Open
        </button>
      </div>
    ));
  }

  close(): void {
    for (const end of this.ends) end();
    this.requests.close();
    this.history.search.cancel();
    this.calls.close();
    this.page.close();
    this.tools.rows.close();
  }
}
