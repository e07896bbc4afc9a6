// The servers screen: every MCP server with its state and reason, what can be done with it, its logs; and adding one from
// what a README says. Names, reasons and logs come from elsewhere and are shown as text.
import { fill, h, reconcile, show } from './dom.js';
import { counted, drawIcon, STATES } from './format.js';
import { Requests } from './requests.js';

const STARTS = 'It starts when its tools are needed.';
export const SIGN_IN = /^https:\/\/|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/;

/**
 * Returns `{element, load(), act(name, action), close()}`; `act` does what a button of that server does. `onOpen(name)` opens
 * the page of a server.
 */
export function createServers(transport, { onOpen = null } = {}) {
  const list = h('div.otx-servers', { role: 'list', 'aria-label': 'MCP servers' });
  const status = h('p.otx-muted', { role: 'status' });
  const none = show(h('p.otx-muted', null, 'No MCP servers yet. Paste the server\'s command line or JSON above.'), false);
  const rows = new Map();
  const requests = new Requests(transport);

  async function load() {
    const reply = await requests.latest('servers').again();
    if (reply.status === 'failed') say(reply.error.message);
    if (reply.status !== 'ok') return;
    const { items } = reply.value;
    for (const name of [...rows.keys()]) if (!items.some(item => item.name === name)) rows.delete(name);
    for (const item of items) {
      if (!rows.has(item.name)) rows.set(item.name, new ServerRow(requests, load, say, onOpen));
      rows.get(item.name).draw(item);
    }
    reconcile(list, items.map(item => rows.get(item.name).element));
    show(none, !items.length);
  }

  function say(text) {
    fill(status, text);
  }

  const refresh = h('button.otx-small', { type: 'button', onclick: load }, 'Refresh');
  const element = h('div.otx-servers-screen', null, addForm(transport, requests, load, say), status, none, list, refresh);
  async function act(name, action) {
    await load();
    await rows.get(name)?.act(name, action);
  }

  /** What was known stays, as on the usage screen; nothing can be done with it. */
  function end(reason) {
    say(reason);
    for (const button of element.querySelectorAll('button')) button.disabled = true;
  }

  const stop = [transport.store.onClosed(end), transport.store.onChanged(() => element.isConnected && load())];
  return { element, load, act, close: () => { requests.close(); stop.forEach(each => each()); } };
}

function addForm(transport, requests, load, say) {
  const text = h('textarea.otx-input.otx-json', { rows: '3', placeholder: 'npx -y @modelcontextprotocol/server-memory', 'aria-label': 'Command, address or JSON of a server', spellcheck: 'false' });
  const name = h('input.otx-input.otx-short', { type: 'text', placeholder: 'name', 'aria-label': 'Name of the server (optional)', title: 'Optional: by default the name of the package or host', spellcheck: 'false' });
  const isSaved = h('input', { type: 'checkbox' });
  const button = h('button.otx-run', { type: 'submit' }, 'Add server');
  const form = h('form.otx-add-server', null, h('label.otx-muted', null, 'Paste the command, the address or the JSON of its README'), text, h('div.otx-bar', null, name, h('label.otx-choice', { title: 'Writes it to onetool.yaml, and its secrets to secrets.yaml' }, isSaved, ' keep in the project'), button));
  form.addEventListener('submit', async event => {
    event.preventDefault();
    button.disabled = true;
    const reply = await requests.onceOf(async ask => {
      const added = await ask('addServer', { text: text.value, name: name.value, isSaved: isSaved.checked });
      text.value = name.value = '';
      await load();
      return added;
    });
    if (reply.status === 'late') return;
    button.disabled = transport.closed !== null;
    say(reply.status === 'ok' ? reply.value.said : reply.error.message);
  });
  return form;
}

class ServerRow {
  constructor(requests, load, say, onOpen) {
    Object.assign(this, { requests, load, say, onOpen });
    this.facts = h('div.otx-server-facts');
    this.buttons = h('div.otx-server-buttons');
    this.more = h('div.otx-server-more');
    this.element = h('div.otx-server', { role: 'listitem' }, this.facts, this.buttons, this.more);
  }

  draw(server) {
    const key = JSON.stringify(server);
    if (key === this.key) return;
    this.key = key;
    const { name, type, state, reason, address, tools } = server;
    const facts = [type === 'stdio' ? 'local program' : 'by HTTP', state === 'connected' || tools.length ? counted(tools.length, 'tool') : null, server.isSaved ? null : 'this session'].filter(Boolean);
    fill(
      this.facts,
      h(`span.otx-state.otx-state-${STATES[state] ?? 'idle'}`, { 'aria-hidden': 'true' }, '●'),
      drawIcon(server.icon),
      this.onOpen ? h('button.otx-server-name', { type: 'button', title: 'Tools, resources, prompts, messages, log', 'aria-label': `Open ${name}`, onclick: () => this.onOpen(name) }, name) : h('strong', null, name),
      h('span', null, state),
      h('span.otx-muted', null, facts.join(' · ')),
      h('code.otx-server-address', { title: address }, address),
      h('p.otx-muted', null, reason || (state === 'not started' ? STARTS : ''))
    );
    const focused = this.buttons.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    fill(this.buttons, actionsOf(server).map(([action, label]) => h('button.otx-small', { type: 'button', data: { action }, 'aria-label': `${label} ${name}`, onclick: event => this.act(name, action, event.currentTarget) }, label)));
    if (focused) this.buttons.querySelector(`[data-action="${focused}"]`)?.focus();
  }

  async act(name, action, button) {
    if (action === 'logs') return this.toggleLogs(name);
    if (action === 'remove' && button.dataset.isSure !== 'yes') {
      button.dataset.isSure = 'yes';
      fill(button, 'Really remove?');
      button.setAttribute('aria-label', `Really remove? ${name}`);
      return undefined;
    }
    this.say(`${name}: ${action} …`);
    const reply = await this.requests.onceOf(async ask => {
      try {
        return await ask('server', { name, action });
      } finally {
        this.key = null; // a button that asked whether one is sure is drawn anew
        await this.load();
      }
    });
    if (reply.status === 'late') return undefined;
    if (reply.status === 'failed') this.say(reply.error.message);
    else if (reply.value.url) this.showLink(name, reply.value.url);
    else this.say(reply.value.said);
    return undefined;
  }

  /** The address is shown whole, and opened only by a click. */
  showLink(name, url) {
    this.say(`Sign in to ${name} at the address below. Then press Refresh.`);
    const link = SIGN_IN.test(url) ? h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, `Sign in to ${name}`) : h('span', null, 'Visit:');
    fill(this.more, h('p', null, link, ' ', h('code.otx-whole', null, url)));
  }

  async toggleLogs(name) {
    if (this.more.firstChild) {
      fill(this.more);
      return;
    }
    const reply = await this.requests.latest('serverLogs', name).send({ name });
    if (reply.status === 'failed') this.say(reply.error.message);
    if (reply.status !== 'ok') return;
    fill(this.more, h('pre.otx-server-logs', { tabindex: '0', role: 'group', 'aria-label': `Logs of ${name}` }, reply.value.text || 'No log output.'));
    show(this.more, true);
  }
}

function actionsOf({ state, signsIn, type }) {
  const actions = [];
  if (state === 'signed out') actions.push(['signIn', 'Sign in']);
  if (state === 'connected') actions.push(['restart', 'Restart'], ['stop', 'Stop']);
  else if (state === 'starting') actions.push(['stop', 'Stop']);
  else if (!['untrusted', 'disabled'].includes(state)) actions.push(['start', 'Start']);
  if (state === 'connected' && signsIn) actions.push(['signOut', 'Sign out']);
  if (type === 'stdio') actions.push(['logs', 'Logs']);
  return [...actions, ['remove', 'Remove']];
}
