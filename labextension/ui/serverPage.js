// A server in a tab of its own: its state with the one thing that helps, what it offers, every message whole, its log.
// All of it comes from the server or about it, and is shown as text.
import { addTabKeys, copyText, debounce, fill, h, keepFocus, selectTab, show, uniqueId } from './dom.js';
import { byteSize, counted, drawIcon, duration, number } from './format.js';
import { CHANGED_MS, SIGN_IN, STATES } from './servers.js';

const PARTS = { tools: 'Tools', resources: 'Resources', prompts: 'Prompts', messages: 'Messages', log: 'Log' };
const EVERY_MS = 2000;
const WAYS = [['', 'Both directions'], ['→', '→ to the server'], ['←', '← from the server']];
/** What helps in a state, as an action and its label; in any other state one can start the server. */
const REMEDIES = { connected: ['restart', 'Restart'], starting: ['stop', 'Stop'], 'signed out': ['signIn', 'Sign in'], untrusted: ['trust', 'Trust …'], disabled: null };

/** Returns `{element, close()}`. `onTrust()` shows the question whether to trust the project, `onCall(tool)` opens a tool. */
export function createServerPage(transport, name, { onTrust = () => {}, onCall = () => {} } = {}) {
  const page = new ServerPage(transport, name, onTrust, onCall);
  const reload = debounce(CHANGED_MS, () => page.load());
  const stop = [transport.on('closed', event => page.say(event.reason)), transport.on('changed', reload), reload.cancel, keepFocus(page.element)];
  page.load();
  page.messages.start();
  return { element: page.element, close: () => (stop.forEach(each => each?.()), page.messages.close()) };
}

class ServerPage {
  constructor(transport, name, onTrust, onCall) {
    Object.assign(this, { transport, name, onTrust, onCall, loads: 0, drawn: 0, keys: {} });
    this.head = h('div.otx-server-head');
    this.status = h('p.otx-muted', { role: 'status' });
    this.messages = new Messages(transport, name);
    const id = uniqueId('server');
    this.tabs = addTabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': `Server ${name}` }, Object.keys(PARTS).map(part => h('button.otx-tab', { type: 'button', role: 'tab', id: `${id}-${part}-tab`, 'aria-controls': `${id}-${part}`, data: { part }, onclick: () => this.select(part) }, PARTS[part]))));
    this.boxes = Object.fromEntries(Object.keys(PARTS).map(part => [part, h('div.otx-server-part', { role: 'tabpanel', id: `${id}-${part}`, 'aria-labelledby': `${id}-${part}-tab`, tabindex: '0' })]));
    fill(this.boxes.messages, this.messages.element);
    this.element = h('div.otx.otx-server-page', { 'data-lm-suppress-shortcuts': 'true', role: 'region', 'aria-label': `Server ${name}` }, this.head, this.status, this.tabs, Object.values(this.boxes));
    this.element.addEventListener('keydown', event => event.stopPropagation());
    this.select('tools');
  }

  select(part) {
    selectTab(this.tabs, tab => tab.dataset.part === part);
    for (const [each, box] of Object.entries(this.boxes)) show(box, each === part);
    if (part === 'log') this.loadLog();
  }

  async load() {
    const turn = (this.loads += 1);
    try {
      const page = await this.transport.request('serverPage', { name: this.name });
      if (turn < this.drawn) return; // the reply to a later request is drawn
      this.drawn = turn;
      this.drawHead(page);
      this.drawList('tools', page.tools, tool => [tool.name, tool.title, tool.description, tool, h('button.otx-small', { type: 'button', onclick: () => this.onCall(`${this.name}.${tool.name}`) }, 'Call')]);
      const resources = [...(page.resources ?? []), ...(page.templates ?? [])];
      this.drawList('resources', resources, resource => [resource.uri ?? resource.uriTemplate, resource.title ?? resource.name, resource.description, resource]);
      this.drawList('prompts', page.prompts, prompt => [prompt.name, prompt.title, prompt.description, prompt]);
    } catch (error) {
      this.say(error.message);
    }
  }

  /** Remember what a part shows. False if it shows that already: not drawn again, it keeps the focus and what was opened. */
  remember(part, content) {
    const key = JSON.stringify(content);
    const isNew = key !== this.keys[part];
    this.keys[part] = key;
    return isNew;
  }

  drawHead({ server, about, protocol, instructions }) {
    if (!this.remember('head', [server, about, protocol, instructions])) return;
    const { state, reason, type, address, icon } = server;
    const remedy = state in REMEDIES ? REMEDIES[state] : ['start', state === 'not started' ? 'Start' : 'Start again'];
    const button = remedy ? h(state === 'connected' ? 'button.otx-small' : 'button.otx-run', { type: 'button', onclick: () => this.act(remedy[0]) }, remedy[1]) : null;
    const extra = state === 'connected' ? [['stop', 'Stop'], ...(server.signsIn ? [['signOut', 'Sign out']] : [])].map(([action, label]) => h('button.otx-small', { type: 'button', onclick: () => this.act(action) }, label)) : null;
    const facts = [about, type === 'stdio' ? 'local program' : 'by HTTP', protocol ? `protocol ${protocol}` : null].filter(Boolean).join(' · ');
    fill(
      this.head,
      h('div.otx-server-line', null, h(`span.otx-state.otx-state-${STATES[state] ?? 'idle'}`, { 'aria-hidden': 'true' }, '●'), drawIcon(icon), h('h3', null, this.name), h('strong', null, state), h('span.otx-tools', null, button, extra)),
      reason ? h('p', null, reason) : null,
      h('p.otx-muted', null, facts),
      h('code.otx-whole', null, address),
      instructions ? h('details', null, h('summary', null, 'What it says to models'), h('pre', null, instructions)) : null
    );
  }

  drawList(part, items = [], cells) {
    if (!this.remember(part, items)) return;
    const title = this.tabs.querySelector(`[data-part="${part}"]`);
    fill(title, PARTS[part], items.length ? h('span.otx-muted', null, ` ${number(items.length)}`) : null);
    const rows = items.map(item => {
      const [key, name, description, whole, action] = cells(item);
      const json = h('details', null, h('summary', null, 'JSON'), h('pre', null, JSON.stringify(whole, null, 2)));
      return h('li', null, h('div.otx-server-line', null, h('code', null, key), name && name !== key ? h('span.otx-muted', null, name) : null, action ? h('span.otx-tools', null, action) : null), description ? h('p', null, description) : null, json);
    });
    fill(this.boxes[part], rows.length ? h('ul.otx-offers', null, rows) : h('p.otx-muted', null, `It lists no ${part}.`));
  }

  async act(action) {
    if (action === 'trust') {
      this.onTrust();
      return;
    }
    this.say(`${action === 'stop' ? 'Stopping' : action === 'signOut' ? 'Signing out' : 'Starting'} …`);
    try {
      const { said, url } = await this.transport.request('server', { name: this.name, action });
      await this.load();
      await this.messages.load();
      if (url) fill(this.status, SIGN_IN.test(url) ? h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, `Sign in to ${this.name}`) : 'Visit: ', ' ', h('code.otx-whole', null, url));
      else this.say(said);
    } catch (error) {
      this.say(error.message);
      await this.load();
    }
  }

  async loadLog() {
    try {
      const { text } = await this.transport.request('serverLogs', { name: this.name });
      fill(this.boxes.log, h('div.otx-bar', null, h('button.otx-small', { type: 'button', onclick: () => this.loadLog() }, 'Refresh')), h('pre.otx-server-log', null, text || 'No log output.'));
    } catch (error) {
      fill(this.boxes.log, h('p.otx-error', null, error.message));
    }
  }

  say(text) {
    fill(this.status, text);
  }
}

/** The messages in both directions, newest last; each unfolds to its whole JSON. */
class Messages {
  constructor(transport, name) {
    Object.assign(this, { transport, name, rows: [], last: 0 });
    this.filter = h('input.otx-input', { type: 'search', placeholder: 'Filter messages', 'aria-label': 'Filter messages', spellcheck: 'false', oninput: debounce(150, () => this.draw()) });
    this.way = h('select.otx-input', { 'aria-label': 'Direction', onchange: () => this.draw() }, WAYS.map(([value, title]) => h('option', { value }, title)));
    this.count = h('span.otx-muted', { role: 'status' });
    this.list = h('ul.otx-messages', { 'aria-label': 'Messages' });
    this.element = h('div', null, h('div.otx-bar.otx-table-bar', null, this.filter, this.way, this.count, h('span.otx-tools', null, h('button.otx-small', { type: 'button', onclick: () => this.copyAll() }, 'Copy as JSON'))), this.list);
  }

  start() {
    this.timer = setInterval(() => this.element.offsetParent && this.load(), EVERY_MS);
    return this.load();
  }

  async load() {
    try {
      const { rows } = await this.transport.request('serverMessages', { name: this.name, after: this.last });
      const newer = rows.filter(row => row.number > this.last); // another reply may have brought the others
      if (!newer.length && this.isDrawn) return;
      this.rows.push(...newer.map(row => ({ ...row, element: null })));
      this.last = this.rows.at(-1)?.number ?? 0;
      this.isDrawn = true;
      this.draw();
    } catch (error) {
      fill(this.count, error.message);
    }
  }

  get shown() {
    const text = this.filter.value.trim().toLowerCase();
    return this.rows.filter(row => (!this.way.value || row.way === this.way.value) && (!text || `${row.method} ${row.id} ${row.message}`.toLowerCase().includes(text)));
  }

  draw() {
    const { shown } = this;
    for (const row of shown) row.element ??= this.line(row);
    this.list.replaceChildren(...shown.map(row => row.element));
    fill(this.count, this.rows.length ? (shown.length === this.rows.length ? counted(shown.length, 'message') : `${number(shown.length)} of ${counted(this.rows.length, 'message')}`) : 'No messages yet.');
  }

  line(row) {
    const body = h('div.otx-message-body', { hidden: true });
    const toggle = h('button.otx-expand', { type: 'button', 'aria-expanded': 'false', onclick: () => this.unfold(row, toggle, body) },
      h('span.otx-muted', null, row.time), h(`span.otx-way${row.way === '→' ? '.otx-way-out' : ''}`, { title: row.way === '→' ? 'to the server' : 'from the server' }, row.way), h('strong', null, row.method || 'message'), h('span.otx-muted', null, [row.id ? `#${row.id}` : null, row.ms === null ? null : duration(row.ms), byteSize(row.bytes)].filter(Boolean).join(' · ')));
    return h('li', null, toggle, h('code.otx-message-start', null, row.message), body);
  }

  async unfold(row, toggle, body) {
    const isOpen = body.hidden;
    toggle.setAttribute('aria-expanded', String(isOpen));
    show(body, isOpen);
    show(body.previousSibling, !isOpen);
    if (!isOpen || body.firstChild) return;
    try {
      const text = await this.whole(row);
      const copy = h('button.otx-small', { type: 'button', onclick: async () => fill(copy, (await copyText(text)) ? 'Copied' : 'The browser did not allow copying.') }, 'Copy as JSON');
      fill(body, copy, h('pre', { tabindex: '0' }, text));
    } catch (error) {
      fill(body, h('p.otx-error', null, error.message));
    }
  }

  async whole(row) {
    row.text ??= (await this.transport.request('serverMessage', { name: this.name, number: row.number })).text;
    return row.text;
  }

  /** Copy the messages that are shown, as a list with time and direction. */
  async copyAll() {
    try {
      const entries = [];
      for (const row of this.shown) entries.push({ time: row.time, direction: row.way === '→' ? 'to the server' : 'from the server', message: parsed(await this.whole(row)) });
      fill(this.count, (await copyText(JSON.stringify(entries, null, 2))) ? `Copied ${counted(entries.length, 'message')}.` : 'The browser did not allow copying.');
    } catch (error) {
      fill(this.count, error.message);
    }
  }

  close() {
    clearInterval(this.timer);
  }
}

/** The message as JSON; one that was cut stays text. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
