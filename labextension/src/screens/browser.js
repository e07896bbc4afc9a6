// The tool browser: filters, the list of tools, the page of one tool, the stored results, and the call history beside
// them. It owns the layout and the keyboard, and requests everything it shows over the transport.
import { Calls } from './calls.js';
import { addTabKeys, debounce, fill, h, highlighted, keepFocus, reconcile, retryButton, selectTab, show, uniqueId } from './dom.js';
import { badgeChip, counted, drawIcon, number, sourceText } from './format.js';
import { createHistory } from './history.js';
import { Requests } from './requests.js';
import { isEqual } from './schema.js';
import { SearchIndex, matchingSpans } from './search.js';
import { ToolPage } from './toolPage.js';
import { needsTrust, trustForm } from './trust.js';
import { VirtualList } from './virtualList.js';

const KEYS = [
  ['/', 'search'],
  ['↑ ↓', 'choose a tool'],
  ['Enter', 'open it'],
  ['Ctrl-Enter', 'run it'],
  ['Esc', 'back to the search; again: back to the notebook'],
  ['?', 'show these keys']
];
const VIEWS = [['tools', 'Tools'], ['history', 'History'], ['results', 'Results']];
/** In the panel the views are its tabs; the results stand beside the calls. */
const PANEL_VIEWS = [['history', 'Calls'], ['results', 'Results']];
const SLOW_MS = 2500;
/** How many new parts of a trusted project get a form each; more are one form. */
const MAX_FORMS = 3;
const NO_FILTERS = { pack: '', source: '', tag: '', isFavourite: false };
const ROW_HEIGHT = 44;
const MAX_MATCHES = 500;
/** What a notice can be about, the most important first. */
const NOTICES = ['closed', 'trust', 'favourite', 'result', 'busy', 'load', 'search'];

/**
 * Returns `{element, open(name, args), find(name), select(view), showCalls(), load(), close()}`. `onInsert(code, isRun)` and `onDrag(name, event)` are for a
 * front end with a notebook to put a call into; `onTrust()` is called when the user trusts the project.
 */
export function createBrowser(transport, options = {}) {
  return new ToolBrowser(transport, options);
}

class ToolBrowser {
  constructor(transport, { onInsert = null, onDrag = null, onTrust = () => {}, isSmall = false } = {}) {
    Object.assign(this, { transport, onTrust, isSmall, filters: { ...NO_FILTERS }, view: 'tools', notices: {} });
    this.requests = new Requests(transport);
    this.loads = this.requests.latestOf((_, ask) => Promise.all([ask('overview'), ask('entries')]));
    const onFavourite = (name, isOn) => this.setFavourite(name, isOn);
    this.calls = new Calls(transport, this.requests, { beforeFinish: call => this.page.leaveCancel(call), onFinish: call => this.onCallEnd(call), onOpen: call => this.showCall(call) });
    this.page = new ToolPage(transport, this.requests, this.calls, { onFavourite, onInsert });
    this.tools = new ToolList({
      searches: this.requests.latest('search'),
      onOpen: item => (item.folded ? this.showPack(item.name) : this.open(item.name)),
      onFavourite,
      onDrag
    });
    this.queries = { tools: '', history: '', results: '' };
    this.history = createHistory(this.requests, { onEdit: row => this.open(row.tool, row.args), onRerun: row => this.rerun(row) });
    this.build();
    this.subscriptions = [
      transport.store.onClosed(reason => this.onClosed(reason)),
      transport.store.onChanged(() => this.load()),
      transport.store.onCall(event => event.result && this.showCalls())
    ];
    this.busyTimer = setInterval(() => this.showBusy(), 1000);
    this.load();
  }

  build() {
    const { isSmall } = this;
    this.buildHead();
    this.notice = h('div.otx-notice', { role: 'alert', hidden: true });
    this.trust = show(h('div.otx-trust-box', { role: 'status' }), false);
    this.packs = h('nav.otx-packs', { 'aria-label': 'Packs' });
    this.packButtons = new Map();
    this.side = show(h('div.otx-side', { tabindex: '-1' }), false);
    this.help = show(h('div.otx-keys', { role: 'note', 'aria-label': 'Keys' }, KEYS.map(([key, does]) => h('div', null, h('kbd', null, key), ` ${does}`))), false);
    this.views = addTabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': isSmall ? 'Calls and results' : 'Tools, history and results' }, (isSmall ? PANEL_VIEWS : VIEWS).map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => this.selectView(kind) }, title))));
    this.none = show(h('div.otx-no-matches'), false);
    const back = h('button.otx-small.otx-back', { type: 'button', onclick: () => this.back() }, '‹ All tools');
    this.intro = h(
      'div.otx-intro',
      null,
      h('p', null, 'Type a few letters, choose a tool, fill in its form, press Run.'),
      h('p.otx-muted', null, 'Keys: / search, ↑ ↓ choose, Enter open, Ctrl-Enter run, ? more')
    );
    const right = h('div.otx-right', null, back, this.intro, show(this.page.element, false));
    const left = h('div.otx-left', null, isSmall ? null : this.views, this.none, this.tools.element, this.history.element, this.side, this.calls.element);
    this.element = h(
      isSmall ? 'div.otx.otx-browser.otx-narrow' : 'div.otx.otx-browser',
      // Keys typed here must not trigger JupyterLab's shortcuts.
      { 'data-lm-suppress-shortcuts': 'true', role: 'application', 'aria-label': 'Tool browser' },
      // In the panel the fields of a view differ in height: below the tabs they do not move them.
      isSmall ? this.views : null,
      this.head,
      this.notice,
      this.trust,
      this.help,
      h('div.otx-body', null, this.packs, left, right)
    );
    this.element.addEventListener('keydown', event => this.onKey(event));
    this.releaseFocus = keepFocus(this.element);
    this.selectView('tools');
  }

  buildHead() {
    this.search = h('input.otx-input.otx-search', {
      type: 'search', spellcheck: 'false', oninput: () => this.onSearchInput()
    });
    this.source = h('select.otx-input', { 'aria-label': 'Source', onchange: () => this.setFilters({ source: this.source.value }) });
    this.tag = h('select.otx-input', { 'aria-label': 'Tag', onchange: () => this.setFilters({ tag: this.tag.value }) });
    this.packSelect = h('select.otx-input.otx-pack-select', { 'aria-label': 'Pack', onchange: () => this.setFilters({ pack: this.packSelect.value }) });
    this.count = h('span.otx-muted.otx-total', { role: 'status' });
    const keys = h('button.otx-small', { type: 'button', 'aria-label': 'Keys', title: 'Keys', onclick: () => this.toggleKeys() }, '?');
    this.head = h('div.otx-head', null, this.search, this.packSelect, this.source, this.tag, this.count, keys);
  }

  /** Request the packs, the filters and the tools again. */
  load() {
    this.loading = this.loadAll();
    return this.loading;
  }

  async loadAll() {
    const reply = await this.loads.again();
    if (reply.status === 'late') return;
    this.say('load', reply.status === 'failed' ? reply.error.message : '', () => this.load());
    if (reply.status === 'failed') return;
    const [overview, entries] = reply.value;
    this.overview = overview;
    this.tools.load(entries, overview);
    this.drawFilters();
    this.drawTrust(overview.trust);
    await this.refresh();
  }

  /**
   * Say what is wrong with one thing, or with '' that nothing is. What matters most is shown, and what was said of another
   * thing comes back after it.
   */
  say(about, message, retry = null) {
    this.notices[about] = { message, retry };
    const notice = NOTICES.map(each => this.notices[each]).find(each => each?.message);
    const again = notice?.retry && !this.transport.closed ? [' ', retryButton(notice.retry)] : null;
    show(fill(this.notice, notice?.message, again), Boolean(notice));
  }

  /** Ask the user to trust the project, or its new and changed parts. The form is redrawn only if the question changes. */
  drawTrust(trust) {
    const asked = needsTrust(trust) ? trust : null;
    if (isEqual(asked, this.askedTrust)) return;
    this.askedTrust = asked;
    const isTrusted = trust?.isTrusted ?? false;
    const isEach = isTrusted && trust.wouldRun.parts.length <= MAX_FORMS;
    const parts = !asked ? [] : isEach ? trust.wouldRun.parts.map(part => part.key) : [''];
    const forms = parts.map(part => trustForm(trust.wouldRun, { part, isTrusted, onYes: () => this.grantTrust(part, trust.wouldRun), onNo: () => (show(this.trust, false), this.say('trust', '')) }).element);
    show(fill(this.trust, forms), forms.length > 0);
  }

  /** A yes to `wouldRun`, which is what its form shows. */
  async grantTrust(part, wouldRun) {
    const reply = await this.requests.once('trust', { isTrusted: true, part, wouldRun });
    if (reply.status === 'late') return;
    this.say('trust', reply.status === 'failed' ? reply.error.message : '');
    if (reply.status === 'ok') this.drawTrust(reply.value);
    await this.load(); // after a no the project may hold something else by now
    if (reply.status === 'failed') return;
    this.search.focus();
    this.onTrust();
  }

  /** The kernel refused a call because the project is not trusted: show the form again, also after "Not now". */
  async askTrustAgain() {
    const before = document.activeElement;
    this.askedTrust = undefined;
    const reply = await this.requests.latest('trust').send({});
    if (reply.status === 'late') return;
    this.say('trust', reply.status === 'failed' ? reply.error.message : '', () => this.askTrustAgain());
    if (reply.status === 'failed') return;
    this.drawTrust(reply.value);
    if (!this.hasMovedFrom(before)) this.trust.querySelector('button')?.focus();
  }

  drawFilters() {
    const { overview, filters } = this;
    const all = noun => (this.isSmall ? noun[0].toUpperCase() + noun.slice(1) : `All ${noun}`);
    const options = values => values.map(value => h('option', { value }, sourceText(value)));
    const group = (label, values) => (values.length ? h('optgroup', { label }, options(values)) : null);
    const choices = (title, values) => [h('option', { value: '' }, title), ...options(values)];
    fill(this.source, choices(all('sources'), overview.sources)).value = filters.source;
    fill(this.tag, choices(all('tags'), []), group('Behaviour', overview.badges), group('Tags', overview.tags)).value = filters.tag;
    fill(this.packSelect, choices(all('packs'), overview.packs.map(pack => pack.name))).value = filters.pack;
    show(this.source, overview.sources.length > 1);
    show(this.tag, overview.tags.length + overview.badges.length > 0);
    const stars = overview.favourites.length;
    reconcile(this.packs, [
      this.packButton({}, 'All', overview.tools, !filters.pack && !filters.isFavourite),
      ...(stars ? [this.packButton({ isFavourite: true }, '★ Favourites', stars, filters.isFavourite)] : []),
      ...overview.packs.map(({ name, count }) => this.packButton({ pack: name }, name, count, filters.pack === name))
    ]);
  }

  /** The button that sets some filters. It is made once: at a later load the focus or the mouse button may be on it. */
  packButton(change, label, count, isOn) {
    const key = change.pack ? `pack ${change.pack}` : label;
    const onclick = () => this.setFilters({ pack: '', isFavourite: false, ...change });
    const button = this.packButtons.get(key) ?? h('button.otx-pack', { type: 'button', onclick }, h('span', null, label), h('span.otx-muted'));
    this.packButtons.set(key, button);
    button.classList.toggle('otx-current', isOn);
    button.setAttribute('aria-pressed', String(isOn));
    fill(button.lastChild, number(count));
    return button;
  }

  setFilters(change) {
    Object.assign(this.filters, change);
    this.drawFilters();
    this.selectView('tools');
    return this.refresh();
  }

  onSearchInput() {
    if (this.view === 'history') return this.history.search(this.search.value.trim());
    if (this.view === 'results') return this.drawResults();
    this.element.classList.remove('otx-page-open');
    return this.refresh();
  }

  /** Search again. `searching` resolves when the list shows the result. */
  refresh() {
    this.searching = this.showMatches();
    return this.searching;
  }

  async showMatches() {
    const reply = await this.tools.show(this.search.value, this.filters);
    if (reply.status === 'late') return;
    this.say('search', reply.status === 'failed' ? reply.error.message : '', () => this.refresh());
    if (reply.status === 'ok') {
      const found = reply.value;
      const total = this.overview?.tools ?? 0;
      fill(this.count, found === total ? counted(total, 'tool') : found ? `${number(found)} of ${number(total)}` : 'no tools');
      this.drawNoMatches(found === 0);
      this.search.setAttribute('aria-activedescendant', this.tools.activeId);
    }
  }

  /** Say why the list is empty, and offer to search all tools. */
  drawNoMatches(isNone) {
    this.isNone = isNone;
    const query = this.search.value.trim();
    const isFiltered = Object.values(this.filters).some(Boolean);
    const message = query
      ? `No tool matches '${query}'${isFiltered ? ' with these filters' : ''}.`
      : isFiltered ? 'No tool matches these filters.' : 'There are no tools yet.';
    const all = h('button.otx-small', { type: 'button', onclick: () => this.setFilters(NO_FILTERS) }, 'Search all tools');
    show(fill(this.none, h('p', null, message), isFiltered ? all : null), this.view === 'tools' && isNone);
  }

  /** Show a tool's page, or the tools of a pack. */
  async find(name) {
    await this.loading;
    const isPack = this.overview?.packs.some(pack => pack.name === name);
    return isPack ? this.showPack(name) : this.open(name);
  }

  /** List only the tools of a pack. */
  showPack(pack) {
    this.search.value = '';
    this.element.classList.remove('otx-page-open');
    return this.setFilters({ ...NO_FILTERS, pack });
  }

  /** Show the page of a tool; with `args` its form is filled in. Returns whether the page shows it. */
  async open(name, args = null, isFocused = true) {
    const before = document.activeElement;
    this.showPage();
    const isShown = await this.page.open(name, args);
    if (isShown && isFocused && !this.hasMovedFrom(before)) this.page.form?.focus();
    return isShown;
  }

  /**
   * Whether the user has moved the focus within the browser, and types or clicks there now. A focus that was lost, as by
   * what is hidden in a narrow panel, is at the browser itself or outside.
   */
  hasMovedFrom(before) {
    const { activeElement } = document;
    return activeElement !== before && activeElement !== this.element && this.element.contains(activeElement);
  }

  showPage() {
    for (const about of ['favourite', 'result']) this.say(about, '');
    show(this.intro, false);
    show(this.page.element, true);
    this.element.classList.add('otx-page-open');
  }

  back() {
    this.element.classList.remove('otx-page-open');
    this.search.focus();
  }

  /** Keep a favourite. If the kernel refuses, the stars show again what it knows. */
  async setFavourite(name, isOn) {
    const reply = await this.requests.latest('favourite').send({ name, isOn });
    if (reply.status === 'late') return;
    this.say('favourite', reply.status === 'failed' ? reply.error.message : '');
    if (reply.status === 'failed') {
      this.drawStar();
      await this.load();
    } else {
      this.overview.favourites = reply.value.favourites;
      this.tools.favourites = new Set(reply.value.favourites);
      this.drawFilters();
      await this.refresh();
    }
    this.drawStar();
  }

  drawStar() {
    if (this.page.tool) this.page.setStar(this.tools.favourites.has(this.page.tool.name));
  }

  /** A call has finished, whether the page shows it or not. */
  onCallEnd(call) {
    this.page.showResult(call);
    if (call.result.value.error?.reason === 'untrusted') this.askTrustAgain();
    this.onCallFinished();
  }

  async onCallFinished() {
    this.showCalls();
    if (this.view === 'results') this.drawResults();
    const reply = await this.requests.latest('overview', 'recent').again();
    if (reply.status === 'ok') this.tools.recent = reply.value.recent; // else the order of the list stays as it was
  }

  /** Show a call: its arguments in the form, and its progress or result. */
  async showCall(call) {
    if (await this.open(call.tool, call.args, false)) this.page.showCall(call);
  }

  /** Load the calls again, if they are in view: some have ended. */
  showCalls() {
    if (this.view === 'history') this.history.load();
  }

  /** Show the tools or the calls, as the panel's tabs say; the page of a tool stays until the other one is chosen. */
  select(view) {
    const isCalls = this.view !== 'tools';
    if (isCalls === (view === 'history')) return this.showCalls();
    this.element.classList.remove('otx-page-open');
    return this.selectView(view);
  }

  /** Show one of the views. Each has its own search text. */
  selectView(view) {
    const isOther = view !== this.view;
    this.queries[this.view] = this.search.value;
    this.view = view;
    if (isOther) this.search.value = this.queries[view];
    selectTab(this.views, tab => tab.dataset.kind === view);
    const isTools = view === 'tools';
    show(this.views, !this.isSmall || !isTools);
    this.search.placeholder = `Search ${view}`;
    const combobox = { role: 'combobox', 'aria-expanded': 'true', 'aria-controls': this.tools.id, 'aria-autocomplete': 'list' };
    for (const [name, value] of Object.entries(combobox)) isTools ? this.search.setAttribute(name, value) : this.search.removeAttribute(name);
    if (!isTools) this.search.removeAttribute('aria-activedescendant');
    this.search.setAttribute('aria-label', `Search ${view}`);
    this.head.classList.toggle('otx-only-search', !isTools);
    show(this.tools.element, isTools);
    show(this.none, isTools && this.isNone === true);
    show(this.history.element, view === 'history');
    show(this.side, view === 'results');
    if (view === 'history') this.history.load();
    if (view === 'results') this.drawResults();
  }

  async drawResults() {
    const reply = await this.requests.latest('results').again();
    if (reply.status === 'late' || this.view !== 'results') return;
    if (reply.status === 'failed') {
      fill(this.side, h('div.otx-failure', { role: 'alert' }, reply.error.message), retryButton(() => this.drawResults()));
      return;
    }
    const { items } = reply.value;
    const words = this.search.value.toLowerCase().split(/\s+/);
    const found = items.filter(row => words.every(word => `${row.tool} ${row.handle} ${row.when}`.toLowerCase().includes(word)));
    const emptyText = items.length ? 'No stored result matches.' : 'No stored results yet. Large results appear here.';
    fill(this.side, found.length ? found.map(row => this.resultRow(row)) : h('p.otx-muted', null, emptyText));
  }

  async rerun(row) {
    if (await this.open(row.tool, row.args, false)) await this.page.run();
  }

  resultRow(row) {
    const open = async () => {
      this.showPage();
      const reply = await this.page.openResult(row.handle);
      if (reply.status !== 'late') this.say('result', reply.status === 'failed' ? reply.error.message : '', open);
    };
    return h(
      'div.otx-history-row',
      null,
      h('div.otx-tool-text', null, h('div.otx-tool-name', null, row.tool || row.handle), h('div.otx-tool-summary', null, `${row.when} · ${row.summary}`)),
      h('button.otx-small', { type: 'button', 'aria-label': `Open the result of ${row.tool}`, onclick: open }, 'Open')
    );
  }

  toggleKeys() {
    show(this.help, this.help.hidden);
  }

  onKey(event) {
    event.stopPropagation();
    const action = this.actionFor(event);
    if (!action) return;
    event.preventDefault();
    action();
  }

  actionFor(event) {
    const inSearch = event.target === this.search;
    const inOtherField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && !inSearch;
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return () => this.page.run();
    if (event.key === 'Escape') return this.escapeFor(inSearch);
    if (this.view === 'tools' && (inSearch || this.tools.element.contains(event.target))) {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) return () => this.step(step);
      if (event.key === 'Enter') return () => this.openChosen();
    }
    if (inOtherField || (inSearch && this.search.value) || event.ctrlKey || event.metaKey || event.altKey) return null;
    if (event.key === '/') return () => this.search.focus();
    if (event.key === '?') return () => this.toggleKeys();
    return null;
  }

  /** Open the chosen tool, once the list shows the result for what was typed. */
  async openChosen() {
    await this.searching;
    this.tools.openChosen();
  }

  step(by) {
    this.tools.choose(this.tools.chosen + by);
    this.search.setAttribute('aria-activedescendant', this.tools.activeId);
  }

  /** What Escape does: close the keys, clear the search, go back to it; null if the notebook may have its keys again. */
  escapeFor(inSearch) {
    if (!this.help.hidden) return () => this.toggleKeys();
    if (!inSearch) return () => this.back();
    if (!this.search.value) return null;
    return () => {
      this.search.value = '';
      this.onSearchInput();
    };
  }

  /** Tell the user while the kernel is busy and requests wait. */
  showBusy() {
    const isBusy = !this.transport.closed && this.transport.longestWaitMs > SLOW_MS;
    if (isBusy !== this.isBusy) this.say('busy', isBusy ? 'The kernel is busy; it will answer when it is free.' : '');
    this.isBusy = isBusy;
  }

  onClosed(reason) {
    this.say('closed', reason);
    this.element.classList.add('otx-disconnected');
    this.calls.failRunning();
  }

  close() {
    clearInterval(this.busyTimer);
    this.requests.close();
    this.releaseFocus();
    for (const unsubscribe of this.subscriptions) unsubscribe();
    this.history.search.cancel();
    this.calls.close();
    this.page.close();
    this.tools.close();
  }
}

const countOf = items => items.reduce((sum, item) => sum + (item.folded ?? 1), 0);

/**
 * The tools for a query and some filters, and the chosen one. Up to 2,000 tools are searched here. Beyond that the kernel
 * does not send them (`isPartial`), and `searches` asks it.
 */
class ToolList {
  constructor({ searches, onOpen, onFavourite, onDrag }) {
    Object.assign(this, { searches, onOpen, onFavourite, onDrag, all: [], items: [], index: null, terms: new Map(), query: '', chosen: -1, favourites: new Set(), recent: [], id: uniqueId('tools') });
    this.list = new VirtualList({
      rowHeight: ROW_HEIGHT,
      label: 'Tools',
      fetch: async (offset, limit) => this.items.slice(offset, offset + limit),
      draw: (item, at) => this.row(item, at)
    });
    this.element = this.list.element;
    this.element.setAttribute('role', 'listbox');
    this.element.id = this.id;
    this.element.tabIndex = -1;
  }

  load(entries, { favourites, recent, packs }) {
    this.all = withIcons(entries);
    this.index = entries.isPartial ? null : new SearchIndex(this.all);
    this.favourites = new Set(favourites);
    this.recent = recent;
    this.aboutCount = packs.find(pack => pack.name === 'ot')?.count ?? 0;
  }

  /** Show the tools that match. The reply has their number. With a new query the first tool is chosen. */
  async show(query, filters) {
    this.searches.reset();
    const asked = { query, filters: { ...filters } };
    const isHere = this.index !== null;
    const reply = isHere ? { status: 'ok', value: this.matches(query, filters) } : await this.searches.send({ query, filters, limit: MAX_MATCHES });
    if (reply.status !== 'ok') return reply;
    const found = isHere ? reply.value : withIcons(reply.value);
    const items = kept(this.items, query.trim() || filters.pack ? found : this.folded(found, Object.values(filters).some(Boolean)));
    const isAgain = isEqual(asked, this.asked);
    const chosenName = this.items[this.chosen]?.name;
    const place = query.trim() && !isAgain ? -1 : items.findIndex(item => item.name === chosenName);
    const first = query.trim() && items.length ? 0 : -1;
    Object.assign(this, { query, items, asked, chosen: place < 0 ? first : place });
    this.list.reset(items.length, items, isAgain);
    if (this.chosen > 0 && !isAgain) this.list.scrollTo(this.chosen, true);
    return { status: 'ok', value: countOf(items) };
  }

  /** With a query, by rank; without one, favourites first, then recently used tools, then the rest. */
  matches(query, filters) {
    const isMatch = item =>
      (!filters.pack || item.pack === filters.pack) &&
      (!filters.source || item.source === filters.source) &&
      (!filters.tag || [...item.tags, ...item.badges].includes(filters.tag)) &&
      (!filters.isFavourite || this.favourites.has(item.name));
    if (query.trim()) {
      const hits = this.index.search(query, MAX_MATCHES).filter(({ entry }) => isMatch(entry));
      this.terms = new Map(hits.map(({ entry, terms }) => [entry.name, terms]));
      return hits.map(({ entry }) => entry);
    }
    const places = new Map(this.recent.map((name, at) => [name, at]));
    const placeOf = ({ name }) => (this.favourites.has(name) ? -1 : (places.get(name) ?? places.size));
    return this.all.filter(isMatch).sort((a, b) => placeOf(a) - placeOf(b));
  }

  /** The tools of `ot` as one row, after the others. The kernel sends only the first of many tools, so it may miss some. */
  folded(found, isFiltered) {
    const [about, others] = [true, false].map(isAbout => found.filter(item => (item.pack === 'ot' && !this.favourites.has(item.name)) === isAbout));
    const count = this.index || isFiltered ? about.length : this.aboutCount;
    if (!count || !others.length) return found;
    return [...others, { name: 'ot', folded: count, badges: [], summary: `${counted(count, 'tool')} about the toolbox itself` }];
  }

  row(item, at) {
    const isFavourite = this.favourites.has(item.name);
    // The star in a row is for the mouse; the tool's page has a button that the keyboard reaches.
    const star = h(isFavourite ? 'span.otx-star.otx-on' : 'span.otx-star', {
      'aria-hidden': 'true', title: isFavourite ? 'Remove from favourites' : 'Make it a favourite',
      onclick: event => {
        event.stopPropagation();
        this.onFavourite(item.name, !isFavourite);
      }
    }, isFavourite ? '★' : '☆');
    const onclick = () => {
      this.choose(at);
      this.openChosen();
    };
    const drag = this.onDrag && !item.folded ? { draggable: 'true', ondragstart: event => this.onDrag(item.name, event) } : {};
    const name = h('div.otx-tool-name', { title: item.name }, drawIcon(item.icon), highlighted(item.name, matchingSpans(this.query, item.name, this.terms.get(item.name))), item.disabled ? h('span.otx-chip', null, 'off') : null);
    return h(
      at === this.chosen ? 'div.otx-tool.otx-current' : 'div.otx-tool',
      { role: 'option', id: `${this.id}-${at}`, 'aria-selected': String(at === this.chosen), onclick, ...drag },
      h('div.otx-tool-text', null, name, h('div.otx-tool-summary', null, item.badges.map(badgeChip), item.summary)),
      item.folded ? h('span.otx-muted', { 'aria-hidden': 'true' }, '›') : star
    );
  }

  /** Choose the tool with this number and scroll to it. */
  choose(at) {
    if (!this.items.length) return;
    this.chosen = Math.max(0, Math.min(this.items.length - 1, at));
    const { top, visible } = this.list;
    if (this.chosen < top || this.chosen > top + visible - 2) this.list.scrollTo(Math.max(0, this.chosen - Math.floor(visible / 2)));
    else this.list.update();
  }

  openChosen() {
    const item = this.items[this.chosen];
    if (item) this.onOpen(item);
  }

  /** The id of the chosen row, for `aria-activedescendant`. */
  get activeId() {
    return this.chosen < 0 ? '' : `${this.id}-${this.chosen}`;
  }

  close() {
    this.list.close();
  }
}

/** Entries with their icons in place of the icons' numbers. */
function withIcons({ items, icons }) {
  return items.map(item => ({ ...item, icon: icons[item.icon] }));
}

/** The items of a list, where one that did not change is the object of the list before: its row is not drawn again. */
function kept(before, items) {
  const known = new Map(before.map(item => [item.name, item]));
  return items.map(item => {
    const old = known.get(item.name);
    return old && isEqual(old, item) ? old : item;
  });
}
