/**
 * *Import tools*, in a tab of the main area: a document by its address, from a file or pasted; then its operations, of
 * which the chosen ones become tools. The server says what a document has (tools/import/preview).
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './panel';
import { type IFieldError, type IImported, type IImportPreview, type IOperation, RestError } from './restApi.js';
import type { RestClient } from './restClient';
import { fill, h, Requests, show } from '../screens/index.js';

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

interface IOptions {
  onImported: (imported: IImported) => void;
  /** Allow HTTP tools to reach hosts; returns what went wrong. */
  allow: (hosts: string[]) => Promise<string>;
}

/** Open the tab; a project has one, so that what was chosen is found again. */
export function openImport(app: JupyterFrontEnd, rest: RestClient, options: IOptions): void {
  const known = Array.from(app.shell.widgets('main')).find(widget => tabs.get(widget)?.project === rest.project);
  if (known) {
    app.shell.activateById(known.id);
    return;
  }
  const requests = new Requests(null);
  const screen = new ImportScreen(rest, requests, options, () => tab.dispose());
  const content = new Widget();
  content.node.append(screen.element);
  content.addClass('onetool-Import');
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-import-${Date.now()}`;
  tab.title.label = 'Import tools';
  tab.title.icon = toolsIcon;
  tab.title.closable = true;
  tabs.set(tab, rest);
  tab.disposed.connect(() => requests.close());
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
  screen.focus();
}

const tabs = new WeakMap<Widget, RestClient>();
let counter = 0;

class ImportScreen {
  constructor(
    private readonly rest: RestClient,
    private readonly _requests: Requests,
    private readonly options: IOptions,
    private readonly close: () => void
  ) {
    const changed = (): void => this._showPreview(null);
    this._address = h('input.otx-input', { type: 'text', 'aria-label': 'Document', placeholder: 'https://api.example.com/openapi.json', spellcheck: 'false', oninput: () => (this._forgetFile(), changed()) });
    this._address.addEventListener('keydown', event => event.key === 'Enter' && void this._look());
    this._pasted = h('textarea.otx-input.otx-json', { rows: '8', 'aria-label': 'Pasted document', spellcheck: 'false', oninput: () => (this._forgetFile(), changed()) });
    this._file = h('input', { type: 'file', accept: '.json,.yaml,.yml', 'aria-label': 'Choose a file', hidden: true, onchange: () => void this._pick() });
    this._server = text('Server', { placeholder: 'https://api.example.com' });
    this._bundle = text('Bundle', { placeholder: 'my-api' });
    this._authKind = h('select.otx-input', { 'aria-label': 'Auth', onchange: () => this._showAuth() });
    fill(this._authKind, Object.entries(AUTH).map(([value, { title }]) => h('option', { value }, title)));
    this._authName = text('Sent with');
    this._authSecret = text('Secret', { placeholder: 'API_TOKEN' });
    this._importButton = h('button.otx-run', { type: 'button', onclick: () => void this._import() }, 'Import');
    this.element = h('div.otx.onetool-Import-page', { 'data-lm-suppress-shortcuts': 'true', role: 'form', 'aria-label': 'Import tools' }, this._layout());
    this.element.addEventListener('input', () => this._fail([]));
    this._showAuth();
    this._showPreview(null);
  }

  readonly element: HTMLElement;

  focus(): void {
    this._address.focus();
  }

  private _layout(): HTMLElement[] {
    const choose = h('button.otx-small', { type: 'button', onclick: () => this._file.click() }, 'Choose a file');
    this._source = h(
      'div.onetool-Import-source',
      null,
      h('p.otx-muted', null, 'The address of an OpenAPI, Swagger or Postman document, a file, or the text itself.'),
      h('div.otx-bar', null, this._address, choose, this._file, h('button.otx-run', { type: 'button', onclick: () => void this._look() }, 'Show operations')),
      h('details', null, h('summary', null, 'Paste it'), this._pasted)
    );
    const field = (label: string, control: HTMLElement, help: string, pointer: string): HTMLElement => h('div.onetool-Import-field', null, h('label', null, h('span', null, label), control), h('span.otx-help', null, help), this._errorAt(pointer));
    this._authMore = h('div.onetool-Import-fields', null, field('Sent with', this._authName, '', '/auth/name'), field('Secret', this._authSecret, 'The name of a secret in secrets.yaml, not its value.', '/auth/secret'));
    this._settings = h(
      'div.onetool-Import-settings',
      null,
      h('div.onetool-Import-fields', null,
        field('Bundle', this._bundle, 'The tools are called BUNDLE.TOOL.', '/bundle'),
        field('Server', this._server, 'Needed if the document names no server; otherwise it replaces that one.', '/server'),
        field('Auth', this._authKind, '', '/auth')),
      this._authMore
    );
    this._footer = h('div.otx-actions.onetool-Import-footer', null, this._importButton, h('button.otx-small', { type: 'button', onclick: () => this.close() }, 'Close'), this._status);
    return [h('h2', null, 'Import tools'), this._source, this._errorAt('/document'), this._errorAt(''), this._blocked, this._choice, this._settings, this._footer];
  }

  private _errorAt(pointer: string): HTMLElement {
    const element = show(h('div.otx-error', { role: 'alert', id: `onetool-import-error-${counter++}` }), false);
    this._errors.set(pointer, element);
    return element;
  }

  private _forgetFile(): void {
    this._picked = null;
    this._file.value = '';
  }

  private async _pick(): Promise<void> {
    const file = this._file.files?.[0];
    if (file) {
      this._picked = { name: file.name, document: parseDocument((await file.text()).trim()) };
      this._address.value = this._pasted.value = '';
      await this._look();
    }
  }

  /** The document: the chosen file, what was pasted, or an address. */
  private _document(): unknown {
    const typed = this._pasted.value.trim() || this._address.value.trim();
    return this._picked ? this._picked.document : typed ? parseDocument(typed) : null;
  }

  /** Ask the server which operations the document has. */
  private async _look(): Promise<void> {
    const source = this._document();
    if (source === null) {
      this._fail([{ pointer: '/document', message: 'Choose a file, paste a document or write its URL.' }]);
      return;
    }
    await this._busy('Reading …', async () => {
      const preview = await this.rest.previewImport(source, this._server.value.trim());
      this._bundle.value ||= String(preview.bundle.slug);
      this._showPreview(preview);
    });
  }

  private async _import(): Promise<void> {
    const auth = this._auth();
    if (auth === null) {
      return;
    }
    if (!this._bundle.value.trim()) {
      this._fail([{ pointer: '/bundle', message: 'Write a name for the bundle.' }]);
      return;
    }
    const names = this._operations().map(each => each.name).filter(name => this._chosen.has(name));
    await this._busy('Importing …', async () => {
      const imported = await this.rest.importDocument(this._document(), { server: this._server.value.trim(), slug: this._bundle.value.trim(), names, auth });
      this._showImported(imported);
      this.options.onImported(imported);
    });
  }

  /** The auth as `%tool import --auth` has it; '' without one, null if a part of it is wrong. */
  private _auth(): string | null {
    const kind = this._authKind.value;
    const [name, secret] = [this._authName.value.trim(), this._authSecret.value.trim()];
    if (!kind) {
      return '';
    }
    if (AUTH[kind].sentWith && !name) {
      this._fail([{ pointer: '/auth/name', message: `Write the ${AUTH[kind].sentWith!.toLowerCase()}.` }]);
      return null;
    }
    if (!/^[A-Za-z_]\w*$/.test(secret)) {
      this._fail([{ pointer: '/auth/secret', message: 'Write the name of a secret, such as API_TOKEN: letters, digits and _.' }]);
      return null;
    }
    return [kind, AUTH[kind].sentWith ? name : '', secret].filter(Boolean).join(':');
  }

  private _showAuth(): void {
    const { sentWith } = AUTH[this._authKind.value];
    show(this._authMore, this._authKind.value !== '');
    const [own] = this._authMore.children;
    show(own as HTMLElement, sentWith !== undefined);
    fill(own.querySelector('span')!, sentWith ?? '');
    this._authName.setAttribute('aria-label', sentWith ?? '');
  }

  /** Do some work, during which nothing can be changed that it is for. */
  private async _busy(words: string, work: () => Promise<void>): Promise<void> {
    this._fail([]);
    fill(this._status, words);
    this._source.inert = this._settings.inert = this._importButton.disabled = true;
    const reply = await this._requests.onceOf(work);
    if (reply.status === 'late') {
      return;
    }
    const error = reply.status === 'failed' ? reply.error : null;
    fill(this._status);
    this._source.inert = this._settings.inert = false;
    this._count();
    const host = error instanceof RestError && error.reason === 'host_not_allowed' ? hostOf(this._address.value) : '';
    if (host && error!.message.includes(`'${host}'`)) {
      fill(this._blocked, this._allowing([host], () => void this._look()));
      this._address.focus();
    } else if (error) {
      this._fail(importErrors(error));
    }
  }

  /** Says that requests to these hosts are not allowed yet, with a button that allows them. */
  private _allowing(hosts: string[], onAllowed: () => void): HTMLElement {
    const names = hosts.join(', ');
    const box = h('div.onetool-Import-blocked');
    const allow = h('button.otx-run', {
      type: 'button',
      onclick: async () => {
        allow.disabled = true;
        const reply = await this._requests.onceOf(() => this.options.allow(hosts));
        if (reply.status === 'late') {
          return;
        }
        const message = reply.status === 'ok' ? reply.value : reply.error.message;
        allow.disabled = message === '';
        fill(box, message || `${names} is allowed now.`);
        if (!message) {
          onAllowed();
        }
      }
    }, `Allow ${names}`);
    return fill(box, h('span', { role: 'alert' }, `Requests to ${names} are not allowed yet.`), allow);
  }

  /** Show errors at their fields, and go to the first; an empty list clears them. */
  private _fail(errors: IFieldError[]): void {
    fill(this._blocked);
    const controls: Record<string, HTMLElement> = { '/document': this._address, '/server': this._server, '/bundle': this._bundle, '/auth': this._authKind, '/auth/name': this._authName, '/auth/secret': this._authSecret };
    for (const [pointer, element] of this._errors) {
      const own = errors.filter(error => error.pointer === pointer).map(error => error.message);
      show(fill(element, own.join(' ')), own.length > 0);
      controls[pointer]?.setAttribute('aria-invalid', String(own.length > 0));
      controls[pointer]?.setAttribute('aria-describedby', element.id);
    }
    if (!errors.length) {
      return;
    }
    const pointer = errors[0].pointer;
    show(this._settings, this._preview !== null || !['', '/document'].includes(pointer));
    controls[pointer]?.focus();
    this._errors.get(pointer)?.scrollIntoView({ block: 'nearest' });
  }

  private _operations(): IOperation[] {
    return this._preview?.operations ?? [];
  }

  /** The operations of a document first: its source folds to one line. What reads is chosen, what may change data is not. */
  private _showPreview(preview: IImportPreview | null): void {
    this._preview = preview;
    this._chosen = new Set(this._operations().filter(isReading).map(each => each.name));
    for (const part of [this._choice, this._settings, this._importButton]) {
      show(part, preview !== null);
    }
    show(this._source, preview === null);
    if (!preview) {
      fill(this._choice);
      return;
    }
    this._filter = h('input.otx-input', { type: 'search', placeholder: 'Filter operations', 'aria-label': 'Filter operations', oninput: () => this._showOperations() });
    const pick = (label: string, title: string, isMeant: (each: IOperation) => boolean): HTMLElement =>
      h('button.otx-small', { type: 'button', title, onclick: () => this._choose(this._matching().filter(isMeant)) }, label);
    this._groups = h('div.onetool-Import-groups');
    const count = preview.operations.length;
    const about = [this._picked?.name ?? '', preview.kind, String(preview.bundle.displayName ?? ''), `${count} ${count === 1 ? 'operation' : 'operations'}`];
    fill(
      this._choice,
      h('div.otx-bar', null, h('span.onetool-Import-about', null, about.filter(Boolean).join(' · ')), h('button.otx-small', { type: 'button', onclick: () => this._another() }, 'Another document')),
      h('div.otx-muted', null, [`Calls ${preview.hosts.join(', ')}.`, preview.secrets.length ? ` Needs the ${preview.secrets.length === 1 ? 'secret' : 'secrets'} ${preview.secrets.map(each => each.name).join(', ')}.` : '']),
      preview.notes.length ? h('details', null, h('summary', null, `${preview.notes.length} not taken over`), h('ul', null, preview.notes.slice(0, 100).map(note => h('li', null, note)))) : null,
      h('div.otx-bar', null, this._filter, pick('All', 'Choose exactly the operations below', () => true), pick('None', 'Choose none', () => false), pick('Only GET', 'Choose exactly those below that only read', isReading)),
      this._groups
    );
    this._showOperations();
    this._filter?.focus();
  }

  private _another(): void {
    this._forgetFile();
    this._bundle.value = this._server.value = this._authKind.value = '';
    this._showAuth();
    this._showPreview(null);
    this._address.focus();
  }

  private _choose(operations: IOperation[]): void {
    this._chosen = new Set(operations.map(each => each.name));
    this._showOperations();
  }

  private _matching(): IOperation[] {
    const words = (this._filter?.value ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    return this._operations().filter(each => words.every(word => `${each.name} ${each.method} ${each.url} ${each.tags.join(' ')}`.toLowerCase().includes(word)));
  }

  private _showOperations(): void {
    const matching = this._matching();
    const groups = new Map<string, IOperation[]>();
    for (const each of matching) {
      const tag = each.tags[0] ?? '';
      groups.set(tag, [...(groups.get(tag) ?? []), each]);
    }
    const isOpen = matching.length <= MANY || groups.size === 1;
    fill(this._groups, matching.length ? [...groups].map(([tag, operations]) => this._group(tag || 'Without a tag', operations, isOpen)) : h('p.otx-muted', null, 'No operation matches.'));
    this._count();
  }

  /** One tag: a box for all of its operations, and one for each. The rows of a closed group are made when it is opened. */
  private _group(tag: string, operations: IOperation[], isOpen: boolean): HTMLElement {
    const all = h('input', { type: 'checkbox', 'aria-label': `All of ${tag}` });
    const size = h('span.otx-muted');
    const rows = h('div', { role: 'group', 'aria-label': tag });
    const refresh = (): void => {
      const taken = operations.filter(each => this._chosen.has(each.name)).length;
      all.checked = taken === operations.length;
      all.indeterminate = taken > 0 && taken < operations.length;
      fill(size, ` ${taken} of ${operations.length}`);
      this._count();
    };
    const draw = (): void => void fill(rows, operations.map(each => this._row(each, refresh)));
    all.addEventListener('change', () => {
      operations.forEach(each => this._chosen[all.checked ? 'add' : 'delete'](each.name));
      if (rows.firstChild) {
        draw();
      }
      refresh();
    });
    const details = h('details.onetool-Import-group', { open: isOpen }, h('summary', null, h('strong', null, tag), size), rows);
    details.addEventListener('toggle', () => {
      if (details.open && !rows.firstChild) {
        draw();
      }
    });
    if (isOpen) {
      draw();
    }
    refresh();
    return h('div.onetool-Import-tag', null, all, details);
  }

  private _row(operation: IOperation, onChanged: () => void): HTMLElement {
    const box = h('input', { type: 'checkbox' });
    box.checked = this._chosen.has(operation.name);
    box.addEventListener('change', () => {
      this._chosen[box.checked ? 'add' : 'delete'](operation.name);
      onChanged();
    });
    const path = operation.url.replace(/^https?:\/\/[^/]*/, '').replaceAll('${', '{') || '/';
    return h(
      'label.onetool-Import-row',
      { title: `${operation.method} ${operation.url}\n${operation.description}` },
      box,
      h('span.onetool-Import-method', { data: { method: operation.method } }, operation.method),
      h('span.onetool-Import-name', null, operation.name),
      h('span.otx-muted', null, path),
      h('span.otx-muted', null, operation.description)
    );
  }

  private _count(): void {
    const taken = this._chosen.size;
    fill(this._importButton, `Import ${taken} ${taken === 1 ? 'tool' : 'tools'}`);
    this._importButton.disabled = taken === 0;
  }

  /** What was imported, what to type, and what is left to do. */
  private _showImported({ bundle, tools, blockedHosts = [], secrets = [], notes = [] }: IImported): void {
    this._preview = null;
    for (const part of [this._source, this._settings, this._importButton]) {
      show(part, false);
    }
    const names = secrets.map(secret => String(secret.name)).join(', ');
    fill(
      this._choice,
      h('p.onetool-Import-done', { role: 'status' }, `${tools.length} ${tools.length === 1 ? 'tool' : 'tools'} imported into ${bundle.slug}.`),
      tools.length ? h('p', null, 'Call it: ', h('code', null, `%tool ${bundle.slug}.${tools[0].slug}`)) : null,
      blockedHosts.length ? this._allowing(blockedHosts, () => undefined) : null,
      secrets.length ? h('p', null, `Put the ${secrets.length === 1 ? 'secret' : 'secrets'} ${names} into secrets.yaml.`) : null,
      notes.length ? h('details', null, h('summary', null, `${notes.length} not taken over`), h('ul', null, notes.slice(0, 100).map(note => h('li', null, note)))) : null,
      h('button.otx-small', { type: 'button', onclick: () => this._another() }, 'Import another document')
    );
    show(this._choice, true);
  }

  private readonly _errors = new Map<string, HTMLElement>();
  private readonly _blocked = h('div');
  private readonly _choice = h('div.onetool-Import-choice');
  private readonly _status = h('span.otx-muted', { role: 'status' });
  private readonly _address: HTMLInputElement;
  private readonly _pasted: HTMLTextAreaElement;
  private readonly _file: HTMLInputElement;
  private readonly _server: HTMLInputElement;
  private readonly _bundle: HTMLInputElement;
  private readonly _authKind: HTMLSelectElement;
  private readonly _authName: HTMLInputElement;
  private readonly _authSecret: HTMLInputElement;
  private readonly _importButton: HTMLButtonElement;
  private _authMore: HTMLElement = h('div');
  private _source: HTMLElement = h('div');
  private _settings: HTMLElement = h('div');
  private _footer: HTMLElement = h('div');
  private _groups: HTMLElement = h('div');
  private _filter: HTMLInputElement | null = null;
  private _preview: IImportPreview | null = null;
  private _picked: { name: string; document: unknown } | null = null;
  private _chosen = new Set<string>();
}

function text(label: string, props: Record<string, unknown> = {}): HTMLInputElement {
  return h('input.otx-input', { type: 'text', 'aria-label': label, spellcheck: 'false', autocomplete: 'off', ...props });
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
  const details = error instanceof RestError ? error.details : [];
  const code = error instanceof RestError ? error.code : '';
  if (code === 'too_large') {
    return [{ pointer: '/document', message: `${error.message} Give its address instead.` }];
  }
  const place = (pointer: string): string => ['/bundle', '/server', '/auth', '/document'].find(each => pointer.startsWith(each)) ?? '';
  return details.length ? details.map(({ pointer, message }) => ({ pointer: place(pointer), message })) : [{ pointer: code === 'conflict' ? '/bundle' : '', message: error.message }];
}
