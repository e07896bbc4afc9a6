/**
 * *Import tools*: a document by its address, from a file or pasted; then its operations, of which the chosen ones become
 * tools. The server says what a document has (tools/import/preview). It imports nothing of JupyterLab.
 */

import { batch, computed, signal, useSignal } from '@preact/signals';
import type { ComponentChildren, JSX, Key } from 'preact';

import type { IDocument } from './addBox';
import { type IFieldError, type IImported, type IImportPreview, type IOperation, RestError } from './restApi.js';
import type { RestClient } from './restClient';
import { FileButton, Input, Search, Select } from '../screens/controls.js';
import { elementOf, keepFocus, offerFocus, uniqueId } from '../screens/dom.js';
import { counted, hasWords } from '../screens/format.js';
import { drawInto, SecretField } from '../screens/parts.js';
import { type Reply, Requests, type Source } from '../screens/requests.js';

/** The kinds of auth as `%tool import --auth` names them, and what a secret is sent with. */
const AUTH: Record<string, { title: string; sentWith?: string }> = {
  '': { title: 'As the document says' },
  bearer: { title: 'Bearer token' },
  header: { title: 'API key in a header', sentWith: 'Name of the header' },
  query: { title: 'API key in the query', sentWith: 'Name of the parameter' },
  basic: { title: 'User and password', sentWith: 'Name of the user' }
};
/** With more operations than this, the groups are closed at first. */
const MANY = 60;
const EMPTY = { address: '', pasted: '', server: '', bundle: '', authKind: '', authName: '', authSecret: '' };
const [DOCUMENT, SERVER, BUNDLE, AUTH_KIND, AUTH_NAME, AUTH_SECRET] = [
  '/document', '/server', '/bundle', '/auth', '/auth/name', '/auth/secret'
];

export interface IImportOptions {
  onImported: (imported: IImported) => void;
  onClose: () => void;
}

/** The operations that are shown, and the very document that has them. */
type IShown = IImportPreview & { document: unknown };

/**
 * Returns `{element, focus(), show(document), close()}`; `show` takes a document as if it was chosen here. The kernel allows hosts, and
 * keeps secrets.
 */
export function createImport(rest: Pick<RestClient, 'previewImport' | 'importDocument'>, kernel: Source, options: IImportOptions) {
  const requests = new Requests(kernel);
  const previews = requests.latestOf(async (document: unknown): Promise<IShown> => {
    const server = fields.value.server.trim();
    const read = await document;
    return { document: read, ...(await rest.previewImport(read, server)) };
  });
  const imports = requests.latestOf((wanted: Parameters<RestClient['importDocument']>) => rest.importDocument(...wanted));
  const fields = signal(EMPTY);
  /** A file, or what was pasted elsewhere; a file is still being read. */
  const picked = signal<{ name: string; document: unknown } | null>(null);
  const preview = signal<IShown | null>(null);
  const imported = signal<IImported | null>(null);
  const chosen = signal<ReadonlySet<string>>(new Set());
  const filter = signal('');
  /** Whether the bundle, the server and the auth are shown: with the operations, and where one of them is wrong. */
  const isSet = signal(false);
  const errors = signal<IFieldError[]>([]);
  const blocked = signal('');
  /** What is under way; nothing can be changed that it is for. */
  const busy = computed(() => (previews.isPending.value ? 'Reading …' : imports.isPending.value ? 'Importing …' : ''));
  const ids = uniqueId('import');
  const element = elementOf('div.otx.onetool-Import-page', { role: 'form', 'aria-label': 'Import tools' });
  const find = (selector: string): HTMLElement | null => element.querySelector<HTMLElement>(selector);
  const errorId = (pointer: string): string => ids + pointer.replaceAll('/', '-');
  /** What is changed takes the errors away. */
  const change = (part: Partial<typeof EMPTY>): void =>
    batch(() => {
      fields.value = { ...fields.value, ...part };
      forgive();
    });
  const choose = (operations: IOperation[]): void => void (chosen.value = new Set(operations.map(each => each.name)));

  function focus(): void {
    find('[data-at="/document"]')?.focus();
  }

  /** The document: the chosen file, what was pasted, or an address. */
  function documentOf(): unknown {
    const typed = fields.value.pasted.trim() || fields.value.address.trim();
    return picked.value ? picked.value.document : typed ? parseDocument(typed) : null;
  }

  /** Show errors at their fields, and go to the first. */
  function fail(found: IFieldError[]): void {
    const [{ pointer }] = found;
    batch(() => {
      errors.value = found;
      isSet.value ||= !['', DOCUMENT].includes(pointer);
    });
    offerFocus(find(`[data-at="${pointer}"]`), element);
    find(`[id="${errorId(pointer)}"]`)?.scrollIntoView({ block: 'nearest' });
  }

  function forgive(): void {
    batch(() => {
      errors.value = [];
      blocked.value = '';
    });
  }

  /** Say why a request failed, if it did. Returns whether there is a value to show. */
  function tell<T>(reply: Reply<T>): reply is { status: 'ok'; value: T } {
    if (reply.status !== 'failed') return reply.status === 'ok';
    const { error } = reply;
    const host = error instanceof RestError && error.reason === 'host_not_allowed' ? hostOf(fields.value.address) : '';
    if (!host || !error.message.includes(`'${host}'`)) fail(importErrors(error));
    else {
      blocked.value = host;
      offerFocus(find('[data-at="/document"]'), element);
    }
    return false;
  }

  /** Ask the server which operations the document has. What reads is chosen, what may change data is not. */
  async function look(): Promise<void> {
    forgive();
    const reply = await previews.send(documentOf());
    if (!tell(reply)) return;
    const answer = reply.value;
    batch(() => {
      if (!fields.value.bundle) change({ bundle: String(answer.bundle.slug) });
      preview.value = answer;
      imported.value = null;
      filter.value = '';
      isSet.value = true;
      choose(answer.operations.filter(isReading));
    });
    offerFocus(find('[type=search]'), element);
  }

  async function lookAtTyped(): Promise<void> {
    if (documentOf() === null) return fail([{ pointer: DOCUMENT, message: 'Choose a file, paste a document or write its URL.' }]);
    await look();
  }

  function pick(file: File): void {
    change({ address: '', pasted: '' });
    picked.value = { name: file.name, document: file.text().then(text => parseDocument(text.trim())) };
    void look();
  }

  function show({ name, text }: IDocument): void {
    startAnew();
    if (URL.canParse(text) && !text.includes('\n')) change({ address: text });
    else picked.value = { name, document: parseDocument(text) };
    void look();
  }

  async function importChosen(): Promise<void> {
    const auth = authOf();
    if (auth === null) return;
    const slug = fields.value.bundle.trim();
    if (!slug) return fail([{ pointer: BUNDLE, message: 'Write a name for the bundle.' }]);
    const own = preview.value!;
    const names = own.operations.map(each => each.name).filter(name => chosen.value.has(name));
    forgive();
    const reply = await imports.send([own.document, { server: fields.value.server.trim(), slug, names, auth }]);
    if (!tell(reply)) return;
    options.onImported(reply.value);
    if (preview.value !== own) return; // another document took its place
    batch(() => {
      preview.value = null;
      isSet.value = false;
      imported.value = reply.value;
    });
    offerFocus(find('.onetool-Import-choice > button'), element);
  }

  /** The auth as `%tool import --auth` has it; '' without one, null if a part of it is wrong. */
  function authOf(): string | null {
    const { authKind, authName, authSecret } = fields.value;
    const { sentWith } = AUTH[authKind];
    const [name, secret] = [authName.trim(), authSecret.trim()];
    const refuse = (pointer: string, message: string): null => (fail([{ pointer, message }]), null);
    if (!authKind) return '';
    if (sentWith && !name) return refuse(AUTH_NAME, `Write the ${sentWith.toLowerCase()}.`);
    if (!/^[A-Za-z_]\w*$/.test(secret)) return refuse(AUTH_SECRET, 'Write the name of a secret, such as API_TOKEN: letters, digits and _.');
    return [authKind, sentWith ? name : '', secret].filter(Boolean).join(':');
  }

  function startAnew(): void {
    batch(() => {
      picked.value = preview.value = imported.value = null;
      isSet.value = false;
      change({ server: '', bundle: '', authKind: '' });
    });
    focus();
  }

  /** A document that is typed takes the place of a file. */
  function typeDocument(part: Partial<typeof EMPTY>): void {
    picked.value = null;
    change(part);
  }

  const errorAt = (pointer: string) => {
    const own = errors.value.filter(error => error.pointer === pointer);
    return <div class="otx-error" role="alert" id={errorId(pointer)} hidden={!own.length}>{own.map(error => error.message).join(' ')}</div>;
  };
  const at = (pointer: string) => ({
    'data-at': pointer, 'aria-invalid': errors.value.some(error => error.pointer === pointer), 'aria-describedby': errorId(pointer)
  });
  const field = (pointer: string, label: string, control: JSX.Element, help = '', isHidden = false) => (
    <div class="onetool-Import-field" hidden={isHidden}>
      <label><span>{label}</span>{control}</label>
      <span class="otx-help">{help}</span>
      {errorAt(pointer)}
    </div>
  );
  const text = (key: keyof typeof EMPTY, pointer: string, label: string, placeholder?: string) => (
    <Input label={label} placeholder={placeholder} value={fields.value[key]} onInput={typed => change({ [key]: typed })} {...at(pointer)} />
  );
  const source = () => (
    <div class="onetool-Import-source" hidden={Boolean(preview.value || imported.value)} inert={busy.value !== ''}>
      <p class="otx-muted">The address of an OpenAPI, Swagger or Postman document, a file, or the text itself.</p>
      <div class="otx-bar">
        <Input
          label="Document" placeholder="https://api.example.com/openapi.json" value={fields.value.address}
          onInput={address => typeDocument({ address })} onKeyDown={(event: KeyboardEvent) => event.key === 'Enter' && void lookAtTyped()}
          {...at(DOCUMENT)}
        />
        <FileButton label="Choose a file" accept=".json,.yaml,.yml" onPick={pick}>Choose a file</FileButton>
        <button class="otx-run" type="button" onClick={lookAtTyped}>Show operations</button>
      </div>
      <details>
        <summary>Paste it</summary>
        <textarea
          class="otx-input otx-json" rows={8} aria-label="Pasted document" spellcheck={false} value={fields.value.pasted}
          onInput={event => typeDocument({ pasted: event.currentTarget.value })}
        />
      </details>
    </div>
  );
  const settings = () => {
    const { authKind } = fields.value;
    const { sentWith } = AUTH[authKind];
    return (
      <div class="onetool-Import-settings" hidden={!isSet.value} inert={busy.value !== ''}>
        <div class="onetool-Import-fields">
          {field(BUNDLE, 'Bundle', text('bundle', BUNDLE, 'Bundle', 'my-api'), 'The tools are called BUNDLE.TOOL.')}
          {field(
            SERVER, 'Server', text('server', SERVER, 'Server', 'https://api.example.com'),
            'Needed if the document names no server; otherwise it replaces that one.'
          )}
          {field(
            AUTH_KIND, 'Auth',
            <Select
              label="Auth" value={authKind} options={Object.entries(AUTH).map(([value, { title }]) => [value, title])}
              onChange={kind => change({ authKind: kind })} {...at(AUTH_KIND)}
            />
          )}
        </div>
        <div class="onetool-Import-fields" hidden={!authKind}>
          {field(AUTH_NAME, sentWith ?? '', text('authName', AUTH_NAME, sentWith ?? ''), '', !sentWith)}
          {field(
            AUTH_SECRET, 'Secret', text('authSecret', AUTH_SECRET, 'Secret', 'API_TOKEN'),
            'The name of a secret in secrets.yaml, not its value.'
          )}
        </div>
      </div>
    );
  };
  const operations = ({ kind, bundle, operations: all, hosts, secrets, notes }: IShown) => {
    const shown = all.filter(({ name, method, url, tags }) => hasWords(`${name} ${method} ${url} ${tags.join(' ')}`, filter.value));
    const about = [picked.value?.name, kind, String(bundle.displayName ?? ''), counted(all.length, 'operation')];
    const pickButton = (label: string, title: string, isMeant: (each: IOperation) => boolean) => (
      <button class="otx-small" type="button" title={title} onClick={() => choose(shown.filter(isMeant))}>{label}</button>
    );
    return (
      <>
        <div class="otx-bar">
          <span class="onetool-Import-about">{about.filter(Boolean).join(' · ')}</span>
          <button class="otx-small" type="button" onClick={startAnew}>Another document</button>
        </div>
        <div class="otx-muted">
          Calls {hosts.join(', ')}.{secrets.length
            ? ` Needs the ${secrets.length === 1 ? 'secret' : 'secrets'} ${secrets.map(each => each.name).join(', ')}.`
            : ''}
        </div>
        <Notes notes={notes} />
        <div class="otx-bar">
          <Search label="Filter operations" value={filter.value} onInput={typed => (filter.value = typed)} />
          {pickButton('All', 'Choose exactly the operations below', () => true)}
          {pickButton('None', 'Choose none', () => false)}
          {pickButton('Only GET', 'Choose exactly those below that only read', isReading)}
        </div>
        <Groups operations={shown} chosen={chosen.value} onChosen={names => (forgive(), (chosen.value = names))} />
      </>
    );
  };
  const stop = drawInto(element, () => (
    <>
      <h2>Import tools</h2>
      {source()}
      {errorAt(DOCUMENT)}
      {errorAt('')}
      <div>
        {blocked.value ? <Allowing key={blocked.value} hosts={[blocked.value]} requests={requests} onAllowed={lookAtTyped} /> : null}
      </div>
      <div class="onetool-Import-choice" hidden={!preview.value && !imported.value}>
        {preview.value ? operations(preview.value) : imported.value ? (
          <Done imported={imported.value} requests={requests} onAnother={startAnew} />
        ) : null}
      </div>
      {settings()}
      <div class="otx-actions onetool-Import-footer">
        <button
          class="otx-run" type="button" hidden={!preview.value} disabled={!chosen.value.size || busy.value !== ''} onClick={importChosen}
        >
          Import {counted(chosen.value.size, 'tool')}
        </button>
        <button class="otx-small" type="button" onClick={() => options.onClose()}>Close</button>
        <span class="otx-muted" role="status">{busy.value}</span>
      </div>
    </>
  ));
  const releaseFocus = keepFocus(element);
  return { element, focus, show, close: () => (requests.close(), stop(), releaseFocus()) };
}

/** The operations by their first tag. */
function Groups({ operations, chosen, onChosen }: {
  operations: IOperation[]; chosen: ReadonlySet<string>; onChosen: (names: Set<string>) => void;
}) {
  const groups = new Map<string, IOperation[]>();
  for (const each of operations) {
    const tag = each.tags[0] ?? '';
    groups.set(tag, [...(groups.get(tag) ?? []), each]);
  }
  const isOpen = operations.length <= MANY || groups.size === 1;
  const take = (names: string[], isTaken: boolean): void => {
    const all = new Set(chosen);
    for (const name of names) all[isTaken ? 'add' : 'delete'](name);
    onChosen(all);
  };
  return (
    <div class="onetool-Import-groups">
      {operations.length ? [...groups].map(([tag, own]) => (
        <Group key={`${tag} ${isOpen}`} tag={tag || 'Without a tag'} operations={own} chosen={chosen} take={take} isOpenAtFirst={isOpen} />
      )) : <p class="otx-muted">No operation matches.</p>}
    </div>
  );
}

interface IGroup {
  key?: Key;
  tag: string;
  operations: IOperation[];
  chosen: ReadonlySet<string>;
  take: (names: string[], isTaken: boolean) => void;
  isOpenAtFirst: boolean;
}

/** One tag: a box for all of its operations, and one for each. The rows of a closed group are made when it is opened. */
function Group({ tag, operations, chosen, take, isOpenAtFirst }: IGroup) {
  const isOpen = useSignal(isOpenAtFirst);
  const taken = operations.filter(each => chosen.has(each.name)).length;
  return (
    <div class="onetool-Import-tag">
      <input
        type="checkbox" aria-label={`All of ${tag}`} checked={taken === operations.length}
        indeterminate={taken > 0 && taken < operations.length}
        onInput={event => take(operations.map(each => each.name), event.currentTarget.checked)}
      />
      <details class="onetool-Import-group" open={isOpen.value} onToggle={event => (isOpen.value = event.currentTarget.open)}>
        <summary><strong>{tag}</strong><span class="otx-muted"> {taken} of {operations.length}</span></summary>
        <div role="group" aria-label={tag}>
          {isOpen.value ? operations.map(each => (
            <label key={each.name} class="onetool-Import-row" title={`${each.method} ${each.url}\n${each.description}`}>
              <input type="checkbox" checked={chosen.has(each.name)} onInput={event => take([each.name], event.currentTarget.checked)} />
              <span class="onetool-Import-method" data-method={each.method}>{each.method}</span>
              <span class="onetool-Import-name">{each.name}</span>
              <span class="otx-muted">{each.url.replace(/^https?:\/\/[^/]*/, '').replaceAll('${', '{') || '/'}</span>
              <span class="otx-muted">{each.description}</span>
            </label>
          )) : null}
        </div>
      </details>
    </div>
  );
}

interface IAllowing {
  key?: Key;
  hosts: string[];
  requests: Requests;
  onAllowed?: () => void;
}

/** Says that requests to these hosts are not allowed yet, with a button that allows them. */
function Allowing({ hosts, requests, onAllowed }: IAllowing) {
  const isBusy = useSignal(false);
  const isAllowed = useSignal(false);
  const failure = useSignal('');
  const names = hosts.join(', ');
  const press = async (): Promise<void> => {
    if (isBusy.value) return;
    isBusy.value = true;
    const reply = await requests.once('allowHosts', { hosts });
    if (reply.status === 'late') return;
    isBusy.value = false;
    failure.value = reply.status === 'failed' ? reply.error.message : '';
    isAllowed.value = !failure.value;
    if (isAllowed.value) onAllowed?.();
  };
  if (isAllowed.value) return <div class="onetool-Import-blocked">{names} is allowed now.</div>;
  return (
    <div class="onetool-Import-blocked">
      <span role="alert">{failure.value || `Requests to ${names} are not allowed yet.`}</span>
      <button class="otx-run" type="button" aria-disabled={isBusy.value} onClick={press}>Allow {names}</button>
    </div>
  );
}

/** What was imported, what to type, and what is left to do. */
function Done({
  imported: { bundle, tools, blockedHosts = [], secrets = [], notes = [] }, requests, onAnother
}: { imported: IImported; requests: Requests; onAnother: () => void }): ComponentChildren {
  return (
    <>
      <p class="onetool-Import-done" role="status">{`${counted(tools.length, 'tool')} imported into ${bundle.slug}.`}</p>
      {tools.length ? <p>Call it: <code>{`%tool ${bundle.slug}.${tools[0].slug}`}</code></p> : null}
      {blockedHosts.length ? <Allowing hosts={blockedHosts} requests={requests} /> : null}
      {secrets.map(({ name }) => <SecretField key={name} name={name} requests={requests} />)}
      <Notes notes={notes} />
      <button class="otx-small" type="button" onClick={onAnother}>Import another document</button>
    </>
  );
}

/** What of a document was not taken over. */
function Notes({ notes }: { notes: string[] }) {
  return notes.length ? (
    <details>
      <summary>{notes.length} not taken over</summary>
      <ul>{notes.slice(0, 100).map((note, at) => <li key={at}>{note}</li>)}</ul>
    </details>
  ) : null;
}

/** The host of a document's address, with its port; '' for any other text. */
function hostOf(address: string): string {
  return URL.canParse(address.trim()) ? new URL(address.trim()).host : '';
}

function isReading({ method }: IOperation): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** A JSON document as a value; any other text (YAML, a URL) as it is. */
function parseDocument(text: string): unknown {
  try {
    const value = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : text;
  } catch {
    return text;
  }
}

/** The errors of an import, at the fields of its form. */
function importErrors(error: Error): IFieldError[] {
  const [details, code] = error instanceof RestError ? [error.details, error.code] : [[], ''];
  if (code === 'too_large') return [{ pointer: DOCUMENT, message: `${error.message} Give its address instead.` }];
  const place = (pointer: string): string => [BUNDLE, SERVER, AUTH_KIND, DOCUMENT].find(each => pointer.startsWith(each)) ?? '';
  return details.length
    ? details.map(({ pointer, message }) => ({ pointer: place(pointer), message }))
    : [{ pointer: code === 'conflict' ? BUNDLE : '', message: error.message }];
}
