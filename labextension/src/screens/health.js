// The health screen: the tools, servers and problems of a project as the kernel last reported them. Each problem is one
// line, its details folded, with a button that does what the hint says. Nothing is started unless the user asks for it.
// Names and messages come from files and servers, and are shown as text.
import { copyText, fill, h, reconcile, show } from './dom.js';
import { counted, STATES } from './format.js';
import { Requests } from './requests.js';

const NO_KERNEL = 'The health of your tools appears here once onetool_ipy is loaded in a kernel.';
const CHECK = 'Starts and tests every server, and looks for missing programs and libraries';

/**
 * Returns `{element, draw(report)}`. `source` answers requests; `onRefresh()`, `onTrust()`, `onServer(name, action)` and
 * `onOpen(path, line)` do what a button says. `draw(null)` says that there is no kernel with tools.
 */
export function createHealth({ source, onRefresh, onTrust, onServer, onOpen }) {
  const requests = new Requests(source);
  const rows = new Map();
  let report = null;
  let missing = [];
  const states = h('ul.otx-states', { 'aria-label': 'State' });
  const list = h('div', { role: 'list', 'aria-label': 'Problems' });
  const status = h('p.otx-muted', { role: 'status' }, NO_KERNEL);
  const refresh = h('button.otx-small', { type: 'button', onclick: onRefresh }, 'Refresh');
  const check = h('button.otx-small', { type: 'button', title: CHECK, onclick: () => checkNow() }, 'Check now');
  const buttons = h('div.otx-server-buttons', null, refresh, check);
  const element = h('div.otx-health', null, states, list, status, buttons);
  const actions = {
    trust: () => onTrust(),
    server: ({ server, action }) => onServer(server, action),
    open: ({ path, line }) => onOpen(path, line),
    copy: async ({ text }) => fill(status, (await copyText(text)) ? `Copied: ${text}` : text)
  };

  function draw(found) {
    if (!report !== !found) fill(status, found ? '' : NO_KERNEL); // else it says how a check goes
    report = found;
    if (!report) missing = [];
    const wanted = new Map([...(report?.problems ?? []), ...missing].map(problem => [JSON.stringify(problem), problem]));
    for (const key of [...rows.keys()]) if (!wanted.has(key)) rows.delete(key);
    for (const [key, problem] of wanted) if (!rows.has(key)) rows.set(key, problemRow(problem, requests, actions));
    const hadFocus = list.contains(document.activeElement);
    reconcile(list, [...wanted.keys()].map(key => rows.get(key)));
    if (hadFocus && !list.contains(document.activeElement)) refresh.focus();
    show(fill(states, report ? stateLines(report, wanted.size) : null), report !== null);
    show(buttons, report !== null);
  }

  async function checkNow() {
    check.disabled = true;
    fill(status, 'Starting and testing the servers …');
    const reply = await requests.onceOf(async ask => {
      const found = await ask('health');
      await onRefresh();
      return found.missing;
    });
    if (reply.status === 'late') return;
    check.disabled = false;
    if (reply.status === 'ok') {
      missing = reply.value;
      draw(report);
    }
    fill(status, reply.status === 'ok' ? 'Checked just now.' : reply.error.message);
  }

  draw(null);
  return { element, draw, close: () => requests.close() };
}

/** A line each for the tools, the servers by state, and the number of problems. */
function stateLines({ tools, servers }, problems) {
  const line = (mark, text) => h('li', null, h(`span.otx-state.otx-state-${mark}`, { 'aria-hidden': 'true' }, '●'), h('span', null, text));
  const found = Object.values(servers).map(server => server.state);
  const counts = [...new Set(found)].map(state => `${found.filter(each => each === state).length} ${state}`);
  const worst = ['failed', 'warning', 'ok'].find(mark => found.some(state => STATES[state] === mark)) ?? 'idle';
  return [
    line('ok', counted(tools, 'tool')),
    found.length ? line(worst, `${counted(found.length, 'server')}: ${counts.join(', ')}`) : line('idle', 'No MCP servers'),
    line(problems ? 'failed' : 'ok', problems ? counted(problems, 'problem') : 'No problems found')
  ];
}

function problemRow({ where, message, hint, action }, requests, actions) {
  const place = where.split(/[/\\]/).pop();
  const excerpt = h('pre.otx-excerpt', { tabindex: '0', role: 'group', 'aria-label': `Lines of ${place}`, hidden: true });
  const details = show(h('div.otx-problem-details', null, h('p', null, message), hint ? h('p', null, hint) : null, h('code.otx-whole', null, where), excerpt), false);
  const toggle = h('button.otx-expand.otx-problem-line', { type: 'button', 'aria-expanded': 'false', title: message, onclick: () => unfold() }, h('span.otx-muted', null, place), ` ${message}`);
  const button = action ? h('button.otx-small', { type: 'button', 'aria-label': `${action.label}: ${place}`, onclick: () => actions[action.kind](action) }, action.label) : null;

  async function unfold() {
    const isOpen = details.hidden;
    show(details, isOpen);
    toggle.setAttribute('aria-expanded', String(isOpen));
    if (!isOpen || action?.kind !== 'open' || excerpt.firstChild) return;
    const reply = await requests.latest('problemLines', where).send({ where });
    if (reply.status !== 'ok') return; // its lines are there when it is unfolded again
    const { first, line, lines } = reply.value;
    fill(excerpt, lines.map((text, at) => h(first + at === line ? 'div.otx-line.otx-current' : 'div.otx-line', null, h('span.otx-number', null, first + at), text)));
    show(excerpt, lines.length > 0);
  }

  return h('div.otx-problem', { role: 'listitem' }, h('div.otx-problem-head', null, toggle, button), details);
}
