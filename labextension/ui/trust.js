// The form that asks the user to trust a project or a server: what would run, and two buttons. Its content comes from the
// project's files and is shown as text.
import { h } from './dom.js';

const MAX_ITEMS = 20;

/** Whether the user must be asked: about the whole project, or about servers that are new or have changed. */
export function needsTrust(trust) {
  if (!trust) return false;
  return trust.how === 'untrusted' || (trust.isTrusted && (trust.wouldRun?.servers ?? []).length > 0);
}

/** Returns `{element}`. `found` is what would run; with `server` the form is about that server alone. */
export function trustForm(found, { server = '', onYes, onNo }) {
  const yes = h('button.otx-run', { type: 'button', onclick: onYes }, server ? 'Trust this server' : 'Trust this project');
  const no = h('button.otx-small', { type: 'button', onclick: onNo }, 'Not now');
  const buttons = h('div.otx-trust-buttons', null, yes, no);
  const element = h('section.otx-trust', { role: 'group', 'aria-label': 'Trust' }, h('strong.otx-trust-title', null, titleOf(found, server)), server ? null : h('code.otx-trust-folder', null, found.folder), server ? null : h('p', null, 'If you trust it, it may run:'), h('ul', null, linesOf(found, server)), buttons);
  return { element };
}

function titleOf(found, server) {
  if (!server) return 'This project is not trusted yet.';
  const isChanged = found.servers.some(each => each.name === server && each.changes.length);
  return isChanged ? `The server ${server} has changed since you trusted it.` : `The server ${server} is new.`;
}

function linesOf(found, server) {
  const servers = found.servers.filter(each => !server || each.name === server).map(serverLine);
  if (server) return servers;
  const lines = [
    ...cut(found.packFiles, 'pack files').map(file => h('li', null, 'Python: ', h('code', null, file))),
    ...servers,
    found.httpTools ? h('li', null, `${found.httpTools} HTTP ${found.httpTools === 1 ? 'tool' : 'tools'} to `, h('code', null, cut(found.hosts, 'hosts').join(', ') || 'no host')) : null,
    found.snippets.length ? h('li', null, 'Snippets: ', h('code', null, cut(found.snippets.map(name => `$${name}`), 'snippets').join(', '))) : null
  ].filter(Boolean);
  return lines.length ? lines : h('li', null, 'Nothing in it runs by itself.');
}

function serverLine({ name, runs, variables, secrets, changes }) {
  return h(
    'li',
    null,
    `Server ${name}: `,
    h('code', null, runs),
    secrets.length ? h('div.otx-muted', null, 'gets the secrets ', h('code', null, secrets.join(', '))) : null,
    variables.length ? h('div.otx-muted', null, 'gets the variables ', h('code', null, variables.join(', '))) : null,
    changes.length ? h('pre.otx-trust-changes', null, changes.join('\n')) : null
  );
}

function cut(items, what) {
  return items.length <= MAX_ITEMS ? items : [...items.slice(0, MAX_ITEMS), `… and ${items.length - MAX_ITEMS} more ${what}`];
}
