// The problems of a project: one line each, the details folded, and a button that does what the hint says. Names and
// messages come from files and servers, and are shown as text.
import { copyText, fill, h, reconcile, show } from './dom.js';

/**
 * Returns `{element, draw(problems)}`. `request` asks the kernel; `onRefresh()`, `onTrust()`, `onServer(name, action)` and
 * `onOpen(path, line)` do what a button says. `draw(null)` says that there is no kernel with tools.
 */
export function createProblems({ request, onRefresh, onTrust, onServer, onOpen }) {
  const rows = new Map();
  const list = h('div', { role: 'list', 'aria-label': 'Problems' });
  const status = h('p.otx-muted', { role: 'status' });
  const refresh = h('button.otx-small', { type: 'button', onclick: onRefresh }, 'Refresh');
  const element = h('div.otx-problems', null, list, status, refresh);
  const actions = {
    trust: () => onTrust(),
    server: ({ server, action }) => onServer(server, action),
    open: ({ path, line }) => onOpen(path, line),
    copy: async ({ text }) => fill(status, (await copyText(text)) ? `Copied: ${text}` : text)
  };

  function draw(problems) {
    const wanted = new Map((problems ?? []).map(problem => [JSON.stringify(problem), problem]));
    for (const key of [...rows.keys()]) if (!wanted.has(key)) rows.delete(key);
    for (const [key, problem] of wanted) if (!rows.has(key)) rows.set(key, problemRow(problem, request, actions));
    const hadFocus = list.contains(document.activeElement);
    reconcile(list, [...wanted.keys()].map(key => rows.get(key)));
    if (hadFocus && !list.contains(document.activeElement)) refresh.focus();
    fill(status, !problems ? 'Problems with the tools appear here once onetool_ipy is loaded in a kernel.' : wanted.size ? '' : 'No problems found.');
    show(refresh, problems !== null);
  }

  draw(null);
  return { element, draw };
}

function problemRow({ where, message, hint, action }, request, actions) {
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
    const { first, line, lines } = await request('problemLines', { where }).catch(() => ({ lines: [] }));
    fill(excerpt, lines.map((text, at) => h(first + at === line ? 'div.otx-line.otx-current' : 'div.otx-line', null, h('span.otx-number', null, first + at), text)));
    show(excerpt, lines.length > 0);
  }

  return h('div.otx-problem', { role: 'listitem' }, h('div.otx-problem-head', null, toggle, button), details);
}
