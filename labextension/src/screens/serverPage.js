// A server in a tab of its own: its state with the one thing that helps, what it offers, every message whole, its log.
// All of it comes from the server or about it, and is shown as text.
import { addTabKeys, copyText, debounce, fill, h, keepFocus, retryButton, selectTab, show, uniqueId } from './dom.js';
import { byteSize, counted, drawIcon, duration, number, STATES } from './format.js';
import { Requests } from './requests.js';
import { SIGN_IN } from './servers.js';

const PARTS = { tools: 'Tools', resources: 'Resources', prompts: 'Prompts', messages: 'Messages', log: 'Log' };
const EVERY_MS = 2000;
const WAYS = [['', 'Both directions'], ['→', '→ to the server'], ['←', '← from the server']];
/** What helps in a state, as an action and its label; in any other state one can start the server. */
const REMEDIES = { connected: ['restart', 'Restart'], starting: ['stop', 'Stop'], 'signed out': ['signIn', 'Sign in'], untrusted: ['trust', 'Trust …'], disabled: null };

/** Returns `{element, close()}`. `onTrust()` shows the question whether to trust the project, `onCall(tool)` opens a tool. */
export function createServerPage(transport, name, { onTrust = () => {}, onCall = () => {} } = {}) {
  const requests = new Requests(transport);
  const page = new ServerPage(requests, name, onTrust, onCall);
  const stop = [transport.store.onClosed(reason => page.say(reason)), transport.store.onChanged(() => page.load()), keepFocus(page.element)];
  page.load();
  page.messages.start();
  return { element: page.element, close: () => (requests.close(), stop.forEach(each => each()), page.messages.close()) };
}

class ServerPage {
  constructor(requests, name, onTrust, onCall) {
    Object.assign(this, { requests, name, onTrust, onCall, keys: {} });
    this.head = h('div.otx-server-head');
    this.status = h('p.otx-muted', { role: 'status' });
    this.messages = new Messages(requests, name);
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
    const reply = await this.requests.latest('serverPage').send({ name: this.name });
    if (reply.status === 'failed') this.say(reply.error.message, () => this.load());
    if (reply.status !== 'ok') return;
    const page = reply.value;
    this.drawHead(page);
    this.drawList('tools', page.tools, tool => [tool.name, tool.title, tool.description, tool, h('button.otx-small', { type: 'button', onclick: () => this.onCall(`${this.name}.${tool.name}`) }, 'Call')]);
    const resources = [...(page.resources ?? []), ...(page.templates ?? [])];
    this.drawList('resources', resources, resource => [resource.uri ?? resource.uriTemplate, resource.title ?? resource.name, resource.description, resource]);
    this.drawList('prompts', page.prompts, prompt => [prompt.name, prompt.title, prompt.description, prompt]);
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
    const reply = await this.requests.onceOf(async ask => {
      try {
        return await ask('server', { name: this.name, action });
      } finally {
        await this.load();
        await this.messages.load();
      }
    });
    if (reply.status === 'late') return;
    const { said, url } = reply.value ?? {};
    if (url) fill(this.status, SIGN_IN.test(url) ? h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, `Sign in to ${this.name}`) : 'Visit: ', ' ', h('code.otx-whole', null, url));
    else this.say(said ?? reply.error.message);
  }

  async loadLog() {
    const reply = await this.requests.latest('serverLogs').send({ name: this.name });
    if (reply.status === 'late') return;
    const again = label => h('button.otx-small', { type: 'button', onclick: () => this.loadLog() }, label);
    if (reply.status === 'failed') fill(this.boxes.log, h('p.otx-error', null, reply.error.message), again('Try again'));
    else fill(this.boxes.log, h('div.otx-bar', null, again('Refresh')), h('pre.otx-server-log', null, reply.value.text || 'No log output.'));
  }

  say(text, retry = null) {
    fill(this.status, text, retry ? [' ', retryButton(retry)] : null);
  }
}

/** The messages in both directions, newest last; each unfolds to its whole JSON. */
class Messages {
  constructor(requests, name) {
    Object.assign(this, { requests, name, rows: [], last: 0 });
    this.filter = h('input.otx-input', { type: 'search', placeholder: 'Filter messages', 'aria-label': 'Filter messages', spellcheck: 'false', oninput: debounce(150, () => this.draw()) });
    this.way = h('select.otx-input', { 'aria-label': 'Direction', onchange: () => this.draw() }, WAYS.map(([value, title]) => h('option', { value }, title)));
    this.count = h('span.otx-muted', { role: 'status' });
    this.list = h('ul.otx-messages', { 'aria-label': 'Messages' });
    this.element = h('div', null, h('div.otx-bar.otx-table-bar', null, this.filter, this.way, this.count, h('span.otx-tools', null, h('button.otx-small', { type: 'button', onclick: () => this.copyAll() }, 'Copy as JSON'))), this.list);
  }

  start() {
    // A slow kernel is not asked again before it has answered, else no answer would ever count.
    this.timer = setInterval(() => this.element.offsetParent && !this.requests.latest('serverMessages').isPending.value && this.load(), EVERY_MS);
    return this.load();
  }

  async load() {
    const reply = await this.requests.latest('serverMessages').send({ name: this.name, after: this.last });
    if (reply.status === 'failed') fill(this.count, reply.error.message); // the timer asks again
    if (reply.status !== 'ok') return;
    const { rows } = reply.value;
    if (!rows.length && this.isDrawn) return;
    this.rows.push(...rows.map(row => ({ ...row, element: null })));
    this.last = this.rows.at(-1)?.number ?? 0;
    this.isDrawn = true;
    this.draw();
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
    if (!isOpen || body.querySelector('pre')) return;
    const reply = await this.requests.onceOf(ask => this.whole(row, ask));
    if (reply.status === 'failed') fill(body, h('p.otx-error', null, reply.error.message));
    if (reply.status !== 'ok') return;
    const { value: text } = reply;
    const copy = h('button.otx-small', { type: 'button', onclick: async () => fill(copy, (await copyText(text)) ? 'Copied' : 'The browser did not allow copying.') }, 'Copy as JSON');
    fill(body, copy, h('pre', { tabindex: '0' }, text));
  }

  async whole(row, ask) {
    row.text ??= (await ask('serverMessage', { name: this.name, number: row.number })).text;
    return row.text;
  }

  /** Copy the messages that are shown, as a list with time and direction. */
  async copyAll() {
    const reply = await this.requests.onceOf(async ask => {
      const entries = [];
      for (const row of this.shown) entries.push({ time: row.time, direction: row.way === '→' ? 'to the server' : 'from the server', message: parsed(await this.whole(row, ask)) });
      return entries;
    });
    if (reply.status === 'failed') fill(this.count, reply.error.message);
    if (reply.status !== 'ok') return;
    fill(this.count, (await copyText(JSON.stringify(reply.value, null, 2))) ? `Copied ${counted(reply.value.length, 'message')}.` : 'The browser did not allow copying.');
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
