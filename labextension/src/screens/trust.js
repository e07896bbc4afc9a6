// The form that asks the user to trust a project, or one part of it: what would run or be reached, and two buttons. Its
// content comes from the project's files and is shown as text. Long lists are folded; nothing is left out.
import { h } from './dom.js';

const MAX_ITEMS = 5;

/** Whether the user must be asked: about the whole project, or about parts of it that are new or have changed. */
export function needsTrust(trust) {
  if (!trust) return false;
  return trust.how === 'untrusted' || (trust.isTrusted && (trust.wouldRun?.parts ?? []).length > 0);
}

/**
 * Returns `{element}`. `inventory` is what a yes covers; with `part` (`server github`) the form is about that part alone.
 * `isTrusted` says that the project is trusted already, and this is about what is new or has changed.
 */
export function trustForm(inventory, { part = '', isTrusted = false, onYes, onNo }) {
  const parts = inventory.parts.filter(each => !part || each.key === part);
  const label = part ? `Trust this ${parts[0]?.kind ?? 'part'}` : isTrusted ? 'Trust these changes' : 'Trust this project';
  const yes = h('button.otx-run', { type: 'button', onclick: onYes }, label);
  const no = h('button.otx-small', { type: 'button', onclick: onNo }, 'Not now');
  const isOld = part ? parts.some(each => each.changes.length) : isTrusted;
  const title = `${part ? `The ${part}` : 'This project'} ${isOld ? 'has changed since you trusted it' : part ? 'is new' : 'is not trusted yet'}.`;
  const element = h(
    'section.otx-trust',
    { role: 'group', 'aria-label': 'Trust' },
    h('strong.otx-trust-title', null, title),
    part ? null : h('code.otx-trust-folder', null, inventory.folder),
    part ? null : h('p', null, 'A yes covers:'),
    h('ul', null, part ? parts.map(partLine) : projectLines(inventory)),
    h('div.otx-trust-buttons', null, yes, no)
  );
  return { element };
}

function projectLines({ folder, packFiles, parts, httpTools, hosts, snippets }) {
  const kinds = [...new Set(parts.map(part => part.kind))];
  const lines = [
    ...folded(packFiles.map(file => h('li', null, 'Python: ', fileLink(`${folder}/.onetool/${file}`, file))), 'pack files'),
    ...kinds.flatMap(kind => folded(parts.filter(part => part.kind === kind).map(partLine), `${kind}s`)),
    httpTools ? h('li', null, `${httpTools} HTTP ${httpTools === 1 ? 'tool' : 'tools'} to `, h('code', null, hosts.join(', ') || 'no host')) : null,
    ...folded(snippets.map(name => h('li', null, 'Snippet: ', h('code', null, `$${name}`))), 'snippets')
  ].filter(Boolean);
  return lines.length ? lines : h('li', null, 'Nothing that runs by itself or reaches out of the folder.');
}

/** A file that a click opens in JupyterLab, so that one can read what a yes would run. */
function fileLink(path, label) {
  const command = { 'data-commandlinker-command': 'onetool:open-file', 'data-commandlinker-args': JSON.stringify({ path }) };
  return h('button.otx-file', { type: 'button', title: `Open ${path}`, ...command }, h('code', null, label));
}

/** What the project's files say is set in a monospaced font; our own words about a folder or a host are not. */
function partLine({ kind, name, text, details, changes }) {
  const isTheirs = kind === 'server' || kind === 'model';
  return h(
    'li',
    null,
    `${kind[0].toUpperCase()}${kind.slice(1)} `,
    h('code', null, name),
    ': ',
    isTheirs ? h('code', null, text) : text,
    details.map(line => h('div', null, h('code', null, line))),
    changes.length ? h('pre.otx-trust-changes', null, changes.join('\n')) : null
  );
}

/** The first items, and the others in a fold that says how many they are. */
function folded(items, noun) {
  if (items.length <= MAX_ITEMS + 1) return items;
  const rest = items.slice(MAX_ITEMS);
  return [...items.slice(0, MAX_ITEMS), h('li', null, h('details', null, h('summary', null, `${rest.length} more ${noun}`), h('ul', null, rest)))];
}
