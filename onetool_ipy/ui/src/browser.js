// The tool browser: packs, tools, one tool; history and stored results beside them. It owns the layout and the keys,
// and asks the transport for everything it shows.
import { currentTab, debounced, fill, h, keepFocus, show, tabKeys } from './dom.js';
import { Detail } from './detail.js';
import { ToolList } from './list.js';
import { Runs } from './runs.js';
import { needsTrust, trustForm } from './trust.js';
import { duration, number } from './viewer.js';

const KEYS = [
  ['/', 'search'],
  ['↑ ↓', 'choose a tool'],
  ['Enter', 'open it'],
  ['Ctrl-Enter', 'run it'],
  ['Esc', 'back to the search'],
  ['?', 'these keys']
];
const SLOW_MS = 2500;
const NO_FILTER = { pack: '', source: '', tag: '', isFavourite: false };

/** `{element, close(), open(name, args)}`. `onInsert(code, isRun)` and
 * `onDrag(name, event)` are for those who have a notebook to put a call into; `onTrust()` hears of a yes. */
export function createBrowser(transport, options = {}) {
  return new Browser(transport, options);
}

class Browser {
  constructor(transport, { onInsert = null, onDrag = null, onTrust = () => {}, isSmall = false } = {}) {
    Object.assign(this, { transport, onTrust, isSmall, filters: { ...NO_FILTER }, view: 'tools' });
    this.runs = new Runs(transport, { onChange: run => this.told(run), onOpen: run => this.show(run) });
    this.detail = new Detail(transport, this.runs, { onStar: (name, isOn) => this.star(name, isOn), onInsert });
    this.tools = new ToolList({ onChoose: item => this.choose(item), onStar: (name, isOn) => this.star(name, isOn), search: asked => transport.request('search', asked), onDrag });
    this.build();
    this.undo = [transport.on('lost', event => this.lost(event.reason)), transport.on('changed', debounced(300, () => this.load()))];
    this.watching = setInterval(() => this.watch(), 1000);
    this.load();
  }

  build() {
    const { isSmall } = this;
    this.search = h('input.otx-input.otx-search', { type: 'search', placeholder: 'Search tools', 'aria-label': 'Search tools', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': this.tools.id, 'aria-autocomplete': 'list', spellcheck: 'false', oninput: () => this.find() });
    this.source = h('select.otx-input', { 'aria-label': 'Source', onchange: () => this.filter({ source: this.source.value }) });
    this.tag = h('select.otx-input', { 'aria-label': 'Tag', onchange: () => this.filter({ tag: this.tag.value }) });
    this.packSelect = h('select.otx-input.otx-pack-select', { 'aria-label': 'Pack', onchange: () => this.filter({ pack: this.packSelect.value }) });
    this.count = h('span.otx-quiet.otx-total', { role: 'status' });
    this.notice = h('div.otx-notice', { role: 'alert', hidden: true });
    this.trust = show(h('div.otx-trust-box', { role: 'status' }), false);
    this.packs = h('nav.otx-packs', { 'aria-label': 'Packs' });
    this.side = show(h('div.otx-side', { tabindex: '-1' }), false);
    this.help = show(h('div.otx-keys', { role: 'note', 'aria-label': 'Keys' }, KEYS.map(([key, does]) => h('div', null, h('kbd', null, key), ` ${does}`))), false);
    this.views = tabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': 'What to look at' }, [['tools', isSmall ? 'All' : 'Tools'], ['history', 'History'], ['results', 'Results']].map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => this.look(kind) }, title))));
    this.none = show(h('div.otx-none'), false);
    this.back = h('button.otx-small.otx-back', { type: 'button', onclick: () => this.leave() }, '‹ All tools');
    this.empty = h('div.otx-empty', null, h('p', null, 'Type a few letters, choose a tool, fill in its form, press Run.'), h('p.otx-quiet', null, 'Keys: / search, ↑ ↓ choose, Enter open, Ctrl-Enter run, ? more'));
    this.right = h('div.otx-right', null, this.back, this.empty, show(this.detail.element, false));
    this.left = h('div.otx-left', null, this.views, this.none, this.tools.element, this.side, this.runs.element);
    this.element = h(
      isSmall ? 'div.otx.otx-browser.otx-narrow' : 'div.otx.otx-browser',
      // JupyterLab's own shortcuts stay out of what is typed here.
      { 'data-lm-suppress-shortcuts': 'true', role: 'application', 'aria-label': 'Tool browser' },
      h('div.otx-head', null, this.search, this.packSelect, this.source, this.tag, this.count, h('button.otx-small', { type: 'button', 'aria-label': 'Keys', title: 'Keys', onclick: () => this.keys() }, '?')),
      this.notice,
      this.trust,
      this.help,
      h('div.otx-body', null, this.packs, this.left, this.right)
    );
    this.element.addEventListener('keydown', event => this.key(event));
    this.letFocusGo = keepFocus(this.element);
    this.look('tools');
  }

  async load() {
    try {
      const hello = await this.transport.request('hello');
      this.hello = hello;
      this.tools.favourites = new Set(hello.favourites);
      this.drawFilters();
      this.drawTrust(hello.trust);
      await this.refresh();
      show(this.notice, false);
    } catch (error) {
      show(fill(this.notice, error.message), true);
    }
  }

  /** Ask whether the project is trusted, until there is an answer; nothing is drawn anew under someone's hands. */
  drawTrust(trust) {
    const key = needsTrust(trust) ? JSON.stringify(trust) : '';
    if (key === this.trustKey) return;
    this.trustKey = key;
    const servers = key && trust.isTrusted ? trust.wouldRun.servers.map(server => server.name) : key ? [''] : [];
    const forms = servers.map(server => trustForm(trust.wouldRun, { server, onYes: () => this.sayYes(server), onNo: () => show(this.trust, false) }).element);
    show(fill(this.trust, forms), forms.length > 0);
  }

  async sayYes(server) {
    try {
      this.drawTrust(await this.transport.request('trust', { isTrusted: true, server }));
      await this.load();
      this.search.focus();
      this.onTrust();
    } catch (error) {
      show(fill(this.notice, error.message), true);
    }
  }

  /** A call was refused for want of trust: the form is there again, also after a "Not now". */
  async refused() {
    this.trustKey = null;
    this.drawTrust(await this.transport.request('trust', {}));
    this.trust.querySelector('button')?.focus();
  }

  drawFilters() {
    const { hello, filters } = this;
    const all = what => (this.isSmall ? what[0].toUpperCase() + what.slice(1) : `All ${what}`); // there is room for a word
    const choices = (title, values) => [h('option', { value: '' }, title), ...values.map(value => h('option', { value }, value))];
    fill(this.source, choices(all('sources'), hello.sources)).value = filters.source;
    fill(this.tag, choices(all('tags'), hello.tags)).value = filters.tag;
    fill(this.packSelect, choices(all('packs'), hello.packs.map(pack => pack.name))).value = filters.pack;
    show(this.source, hello.sources.length > 1);
    show(this.tag, hello.tags.length > 0);
    const button = (label, n, isOn, onclick) => h(isOn ? 'button.otx-pack.otx-current' : 'button.otx-pack', { type: 'button', 'aria-pressed': String(isOn), onclick }, h('span', null, label), h('span.otx-quiet', null, n));
    fill(
      this.packs,
      button('All', number(hello.tools), !filters.pack && !filters.isFavourite, () => this.filter({ pack: '', isFavourite: false })),
      hello.favourites.length ? button('★ Favourites', number(hello.favourites.length), filters.isFavourite, () => this.filter({ pack: '', isFavourite: true })) : null,
      hello.packs.map(pack => button(pack.name, number(pack.count), filters.pack === pack.name, () => this.filter({ pack: pack.name, isFavourite: false })))
    );
  }

  filter(change) {
    Object.assign(this.filters, change);
    this.drawFilters();
    this.look('tools');
    return this.refresh();
  }

  find() {
    if (this.view !== 'tools') this.look('tools');
    this.element.classList.remove('otx-opened');
    return this.refresh();
  }

  refresh() {
    this.searching = this.searchNow();
    return this.searching;
  }

  async searchNow() {
    try {
      const shown = await this.tools.show(this.search.value, this.filters);
      const total = this.hello?.tools ?? 0;
      fill(this.count, shown === total ? `${number(total)} ${total === 1 ? 'tool' : 'tools'}` : shown ? `${number(shown)} of ${number(total)}` : 'no tool');
      this.isNone = shown === 0;
      this.drawNone();
      this.search.setAttribute('aria-activedescendant', this.tools.active);
    } catch (error) {
      show(fill(this.notice, error.message), true);
    }
  }

  /** An empty list says why it is empty, and what to do. */
  drawNone() {
    const query = this.search.value.trim();
    const isFiltered = Object.values(this.filters).some(Boolean);
    const said = query ? `No tool fits '${query}'${isFiltered ? ' here' : ''}.` : isFiltered ? 'No tool is left by these filters.' : 'There are no tools yet.';
    const all = h('button.otx-small', { type: 'button', onclick: () => this.filter(NO_FILTER) }, 'Look in all tools');
    show(fill(this.none, h('p', null, said), isFiltered ? all : null), this.view === 'tools' && this.isNone);
  }

  choose(item) {
    return this.open(item.name);
  }

  /** Show a tool; with `args` its form is filled. */
  async open(name, args = null, isFocused = true) {
    show(this.empty, false);
    show(this.detail.element, true);
    this.element.classList.add('otx-opened');
    await this.detail.open(name, args);
    if (isFocused && this.detail.tool) this.detail.form.focus();
  }

  leave() {
    this.element.classList.remove('otx-opened');
    this.search.focus();
  }

  async star(name, isOn) {
    const { favourites } = await this.transport.request('favourite', { name, isOn });
    this.hello.favourites = favourites;
    this.tools.favourites = new Set(favourites);
    this.drawFilters();
    await this.refresh();
  }

  /** A call has got on or ended, in sight or not. */
  told(run) {
    this.detail.told(run);
    if (run.result?.error?.reason === 'untrusted') this.refused();
    if (run.result && this.view !== 'tools') this.look(this.view);
  }

  /** Look at a call: its arguments in the form, and how it stands. */
  async show(run) {
    await this.open(run.tool, run.args, false);
    if (this.detail.tool?.name === run.tool) this.detail.look(run);
  }

  look(view) {
    this.view = view;
    currentTab(this.views, tab => tab.dataset.kind === view);
    show(this.tools.element, view === 'tools');
    show(this.none, view === 'tools' && this.isNone === true);
    show(this.side, view !== 'tools');
    if (view === 'history') this.drawSide('history', row => this.call(row), 'No call yet: what you run is listed here.');
    if (view === 'results') this.drawSide('results', row => this.stored(row), 'No stored result: large ones are kept here.');
  }

  async drawSide(kind, draw, nothing) {
    try {
      const { items } = await this.transport.request(kind);
      if (this.view === kind) fill(this.side, items.length ? items.map(draw) : h('p.otx-quiet', null, nothing));
    } catch (error) {
      fill(this.side, h('div.otx-failure', { role: 'alert' }, error.message));
    }
  }

  call(row) {
    const rerun = async () => {
      show(sure, false);
      await this.open(row.tool, row.args, false);
      await this.detail.start();
    };
    const ask = () => {
      show(sure, true);
      sure.querySelector('button').focus();
    };
    const leave = () => {
      show(sure, false);
      again?.focus();
    };
    const again = row.args ? h('button.otx-small', { type: 'button', 'aria-label': `Run ${row.tool} again`, onclick: row.readOnly ? rerun : ask }, 'Rerun') : null;
    const sure = show(h('div.otx-sure', { role: 'alertdialog', 'aria-label': `Run ${row.tool} again?` }, h('span', null, `${row.tool} may change something. Run it again?`), h('button.otx-small', { type: 'button', onclick: leave }, 'Cancel'), h('button.otx-small', { type: 'button', onclick: rerun }, 'Run again')), false);
    return h(
      'div.otx-past',
      null,
      h('div.otx-tool-text', null, h('div.otx-tool-name', null, h(row.ok ? 'span.otx-chip.otx-ok' : 'span.otx-chip.otx-bad', null, row.ok ? 'ok' : 'failed'), ` ${row.tool}`), h('div.otx-tool-said', null, `${row.when} · ${duration(row.ms)} · ${row.said}`)),
      row.args ? h('button.otx-small', { type: 'button', 'aria-label': `Edit the call of ${row.tool}`, onclick: () => this.open(row.tool, row.args) }, 'Edit') : h('span.otx-quiet', { title: 'Its arguments were masked or cut in the log' }, 'masked'),
      again,
      sure
    );
  }

  stored(row) {
    const open = async () => {
      show(this.empty, false);
      show(this.detail.element, true);
      this.element.classList.add('otx-opened');
      try {
        this.detail.showResult(await this.transport.request('open', { handle: row.handle }));
      } catch (error) {
        show(fill(this.notice, error.message), true);
      }
    };
    return h('div.otx-past', null, h('div.otx-tool-text', null, h('div.otx-tool-name', null, row.tool || row.handle), h('div.otx-tool-said', null, `${row.when} · ${row.said}`)), h('button.otx-small', { type: 'button', 'aria-label': `Open the result of ${row.tool}`, onclick: open }, 'Open'));
  }

  keys() {
    show(this.help, this.help.hidden);
  }

  key(event) {
    event.stopPropagation();
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target !== this.search;
    const inSearch = event.target === this.search;
    const act = this.action(event, isTyping, inSearch);
    if (!act) return;
    event.preventDefault();
    act();
  }

  action(event, isTyping, inSearch) {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) return () => this.detail.start();
    if (event.key === 'Escape') return () => this.escape(inSearch);
    if (inSearch || this.tools.element.contains(event.target)) {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) return () => this.step(step);
      if (event.key === 'Enter') return () => this.openChosen();
    }
    if (isTyping || (inSearch && this.search.value) || event.ctrlKey || event.metaKey || event.altKey) return null;
    if (event.key === '/') return () => this.search.focus();
    if (event.key === '?') return () => this.keys();
    return null;
  }

  /** Open the chosen tool; what was typed just now is searched first. */
  async openChosen() {
    await this.searching;
    this.tools.open();
  }

  step(by) {
    this.tools.step(by);
    this.search.setAttribute('aria-activedescendant', this.tools.active);
  }

  escape(inSearch) {
    if (!this.help.hidden) {
      show(this.help, false);
      return;
    }
    if (inSearch && this.search.value) {
      this.search.value = '';
      this.find();
    }
    this.leave();
  }

  /** Say when nobody answers: the kernel is busy, and what is asked waits its turn. */
  watch() {
    if (this.transport.gone) return;
    const isSlow = this.transport.waited > SLOW_MS;
    if (isSlow) show(fill(this.notice, 'The kernel is busy; it will answer when it is free.'), true);
    else if (this.wasSlow) show(this.notice, false);
    this.wasSlow = isSlow;
  }

  lost(reason) {
    show(fill(this.notice, reason), true);
    this.element.classList.add('otx-lost');
    this.runs.lose();
  }

  close() {
    clearInterval(this.watching);
    this.letFocusGo();
    for (const undo of this.undo) undo();
    this.runs.close();
    this.detail.close();
    this.tools.close();
  }
}
