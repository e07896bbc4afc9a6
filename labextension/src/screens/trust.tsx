// The form that asks the user to trust a project, or one part of it: what would run or be reached, and two buttons. Its
// content comes from the project's files and is shown as text. Long lists are folded; nothing is left out.
import type { ComponentChild, Key } from 'preact';

const MAX_ITEMS = 5;

type Part = { key: string; kind: string; name: string; text: string; details: string[]; changes: string[] };
/** What a yes covers. */
export type Inventory = { folder: string; packFiles: string[]; parts: Part[]; httpTools: number; hosts: string[]; snippets: string[] };
export type Trust = { folder: string; isTrusted: boolean; how: string; wouldRun: Inventory };

interface FormProps {
  inventory: Inventory;
  /** `server github`: the form is about that part alone. */
  part?: string;
  /** The project is trusted already, and this is about what is new or has changed. */
  isTrusted?: boolean;
  isBusy?: boolean;
  onYes: () => void;
  onNo: () => void;
  key?: Key;
}

/** Whether the user must be asked: about the whole project, or about parts of it that are new or have changed. */
export function needsTrust(trust: Trust | null | undefined): boolean {
  if (!trust) return false;
  return trust.how === 'untrusted' || (trust.isTrusted && (trust.wouldRun?.parts ?? []).length > 0);
}

export function TrustForm({ inventory, part = '', isTrusted = false, isBusy = false, onYes, onNo }: FormProps) {
  const parts = inventory.parts.filter(each => !part || each.key === part);
  const label = part ? `Trust this ${parts[0]?.kind ?? 'part'}` : isTrusted ? 'Trust these changes' : 'Trust this project';
  const isOld = part ? parts.some(each => each.changes.length) : isTrusted;
  const state = isOld ? 'has changed since you trusted it' : part ? 'is new' : 'is not trusted yet';
  const title = `${part ? `The ${part}` : 'This project'} ${state}.`;
  return (
    <section class="otx-trust" role="group" aria-label="Trust">
      <strong class="otx-trust-title">{title}</strong>
      {part ? null : <><code class="otx-trust-folder">{inventory.folder}</code><p>A yes covers:</p></>}
      <ul>{part ? parts.map(partLine) : projectLines(inventory)}</ul>
      <div class="otx-trust-buttons">
        <button class="otx-run" type="button" aria-disabled={isBusy} onClick={onYes}>{label}</button>
        <button class="otx-small" type="button" aria-disabled={isBusy} onClick={onNo}>Not now</button>
      </div>
    </section>
  );
}

function projectLines({ folder, packFiles, parts, httpTools, hosts, snippets }: Inventory): ComponentChild {
  const kinds = [...new Set(parts.map(part => part.kind))];
  const lines = [
    ...folded(packFiles.map(file => (
      <li key={file}>Python: <FileLink path={`${folder}/.onetool/${file}`} label={file} /></li>
    )), 'pack files'),
    ...kinds.flatMap(kind => folded(parts.filter(part => part.kind === kind).map(partLine), `${kind}s`)),
    ...(httpTools
      ? [<li key="http">{httpTools} HTTP {httpTools === 1 ? 'tool' : 'tools'} to <code>{hosts.join(', ') || 'no host'}</code></li>]
      : []),
    ...folded(snippets.map(name => <li key={`$${name}`}>Snippet: <code>${name}</code></li>), 'snippets')
  ];
  return lines.length ? lines : <li>Nothing that runs by itself or reaches out of the folder.</li>;
}

/** A file that a click opens in JupyterLab, so that one can read what a yes would run. */
function FileLink({ path, label }: { path: string; label: string }) {
  return (
    <button
      class="otx-file" type="button" title={`Open ${path}`} data-path={path} data-commandlinker-command="onetool:open-file"
      data-commandlinker-args={JSON.stringify({ path })}
    >
      <code>{label}</code>
    </button>
  );
}

/** What the project's files say is set in a monospaced font; our own words about a folder or a host are not. */
function partLine({ key, kind, name, text, details, changes }: Part) {
  const isTheirs = kind === 'server' || kind === 'model';
  return (
    <li key={key}>
      {kind[0].toUpperCase()}{kind.slice(1)} <code>{name}</code>: {isTheirs ? <code>{text}</code> : text}
      {details.map((line, at) => <div key={at}><code>{line}</code></div>)}
      {changes.length ? <pre class="otx-trust-changes">{changes.join('\n')}</pre> : null}
    </li>
  );
}

/** The first items, and the others in a fold that says how many they are. */
function folded(items: ComponentChild[], noun: string): ComponentChild[] {
  if (items.length <= MAX_ITEMS + 1) return items;
  const rest = items.slice(MAX_ITEMS);
  return [...items.slice(0, MAX_ITEMS), <li key={noun}><details><summary>{rest.length} more {noun}</summary><ul>{rest}</ul></details></li>];
}
