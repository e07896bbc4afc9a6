/**
 * The import of a document of another format: a file, a pasted text or an address; then its operations by tag, of which
 * the chosen ones become tools. The server says what a document has (tools/import/preview).
 */

import { type IFieldError, type IImported, type IImportPreview, type IOperation, type RestClient, RestError } from './restClient';
import { createForm, fill, h, type IForm, show } from './ui/index.js';

const SECRET = { type: 'string', description: 'Its name in secrets.yaml, not its value.', examples: ['API_TOKEN'] };

/** A kind of auth: a secret, and a field for what it is sent with. The key of that field is the kind. */
function authKind(title: string, kind?: string, field?: Record<string, unknown>): Record<string, unknown> {
  const fields = kind ? { [kind]: { type: 'string', ...field }, secret: SECRET } : { secret: SECRET };
  return { title, type: 'object', required: Object.keys(fields), additionalProperties: false, properties: fields };
}

const SCHEMA = {
  type: 'object',
  required: ['document'],
  properties: {
    document: { type: 'string', contentMediaType: 'application/yaml', description: 'Paste OpenAPI, Swagger or Postman, or write its URL.' },
    server: { type: 'string', description: 'The server to call, if the document names none or another.', examples: ['https://api.example.com'] },
    auth: {
      description: 'Sent by the tools for which the document names no auth.',
      oneOf: [
        authKind('Bearer token'),
        authKind('API key in a header', 'header', { description: 'Name of the header.', examples: ['X-Api-Key'] }),
        authKind('API key in the query', 'query', { description: 'Name of the parameter.', examples: ['key'] }),
        authKind('User and password', 'basic', { description: 'Name of the user.' })
      ]
    },
    bundle: { type: 'string', description: 'Name of the new bundle: letters, digits and dashes.', examples: ['my-api'] }
  }
};

/** With more operations than this, the groups are closed at first. */
const MANY = 60;

export class ImportForm {
  constructor(
    private readonly rest: RestClient,
    private readonly options: { onImported: (imported: IImported) => void; onClosed: () => void }
  ) {
    this._form = createForm(SCHEMA, { onSubmit: () => void this._look(), onChange: () => this._changed() });
    this._file = h('input', { type: 'file', accept: '.json,.yaml,.yml', 'aria-label': 'Choose a file', onchange: () => void this._pick() });
    this._status = h('div.otx-muted', { role: 'status' });
    this._choice = show(h('div.onetool-Import-choice'), false);
    this._lookButton = h('button.otx-run', { type: 'button', onclick: () => void this._look() }, 'Show operations');
    this._importButton = show(h('button.otx-run', { type: 'button', onclick: () => void this._import() }, 'Import'), false);
    const close = h('button.otx-small', { type: 'button', onclick: () => this.options.onClosed() }, 'Close');
    this.element = h(
      'div.onetool-Import',
      null,
      h('h3', null, 'Import tools'),
      h('label.onetool-Import-file', null, h('span.otx-muted', null, 'A file: '), this._file),
      this._form.element,
      this._choice,
      h('div.otx-actions', null, this._importButton, this._lookButton, close, this._status)
    );
  }

  readonly element: HTMLElement;

  focus(): void {
    this._file.focus();
  }

  /** A changed document or server is looked at again before anything is imported. */
  private _changed(): void {
    this._form.showErrors([]);
    const { document = '', server = '' } = this._form.value() as Record<string, string>;
    if (this._preview && JSON.stringify([document, server]) !== this._seen) {
      this._showPreview(null);
    }
  }

  private async _pick(): Promise<void> {
    const file = this._file.files?.[0];
    this._picked = file ? parseDocument((await file.text()).trim()) : null;
    if (file) {
      this._set({ document: '' });
      await this._look();
    } else {
      this._showPreview(null);
    }
  }

  /** Change some fields; an empty text leaves its field empty. */
  private _set(changes: Record<string, string>): void {
    const wanted = Object.entries({ ...this._form.value(), ...changes });
    this._form.set(Object.fromEntries(wanted.filter(([, text]) => text !== '')));
  }

  /** The document: what was typed, else the chosen file. */
  private _document(): unknown {
    const typed = String(this._form.value().document ?? '').trim();
    return typed ? parseDocument(typed) : this._picked;
  }

  /** Ask the server which operations the document has. */
  private async _look(): Promise<void> {
    const { document = '', server = '', bundle = '' } = this._form.value() as Record<string, string>;
    const source = this._document();
    if (source === null) {
      this._fail([{ pointer: '/document', message: 'Choose a file, paste a document or write its URL.' }]);
      return;
    }
    await this._busy('Reading …', async () => {
      const preview = await this.rest.previewImport(source, server.trim());
      this._seen = JSON.stringify([document, server]);
      if (!bundle.trim()) {
        this._set({ bundle: String(preview.bundle.slug) });
      }
      this._showPreview(preview);
    });
  }

  private async _import(): Promise<void> {
    const { server = '', bundle = '' } = this._form.value() as Record<string, string>;
    if (!bundle.trim()) {
      this._fail([{ pointer: '/bundle', message: 'This field is required.' }]);
      return;
    }
    const auth = this._auth();
    if (auth === null) {
      return;
    }
    const names = this._operations().map(each => each.name).filter(name => this._chosen.has(name));
    await this._busy('Importing …', async () => {
      this.options.onImported(await this.rest.importDocument(this._document(), { server: server.trim(), slug: bundle.trim(), names, auth }));
    });
  }

  /** The auth as `%tool import --auth` has it; '' without one, null if a part of it is wrong. */
  private _auth(): string | null {
    const chosen = this._form.value().auth as Record<string, string> | undefined;
    if (!chosen) {
      return '';
    }
    const { secret = '', ...rest } = chosen;
    const [kind, name] = Object.entries(rest)[0] ?? ['bearer', ''];
    if (!/^[A-Za-z_]\w*$/.test(secret.trim())) {
      this._fail([{ pointer: '/auth/secret', message: 'Write the name of a secret, such as API_TOKEN: letters, digits and _.' }]);
      return null;
    }
    return [kind, name.trim(), secret.trim()].filter(Boolean).join(':');
  }

  private async _busy(words: string, work: () => Promise<void>): Promise<void> {
    fill(this._status, words);
    this._lookButton.disabled = this._importButton.disabled = true;
    try {
      await work();
      fill(this._status);
    } catch (error) {
      fill(this._status);
      this._fail(importErrors(error as Error));
    } finally {
      this._lookButton.disabled = false;
      this._count();
    }
  }

  private _fail(errors: IFieldError[]): void {
    this._form.showErrors(errors);
    this._form.focusError();
  }

  private _operations(): IOperation[] {
    return this._preview?.operations ?? [];
  }

  private _showPreview(preview: IImportPreview | null): void {
    this._preview = preview;
    this._chosen = new Set(this._operations().map(each => each.name));
    show(this._choice, preview !== null);
    show(this._importButton, preview !== null);
    this._lookButton.className = preview ? 'otx-small' : 'otx-run';
    if (!preview) {
      return;
    }
    const filter = h('input.otx-input', { type: 'search', placeholder: 'Filter operations', 'aria-label': 'Filter operations', oninput: () => this._showOperations(filter.value) });
    const pick = (label: string, isMeant: (each: IOperation) => boolean) =>
      h('button.otx-small', { type: 'button', onclick: () => this._choose(this._operations().filter(isMeant), filter.value) }, label);
    this._groups = h('div.onetool-Import-groups');
    const count = preview.operations.length;
    const about = [preview.kind, String(preview.bundle.displayName ?? ''), `${count} ${count === 1 ? 'operation' : 'operations'}`];
    fill(
      this._choice,
      h('div.onetool-Import-about', null, about.filter(Boolean).join(' · ')),
      h('div.otx-muted', null, [`Calls ${preview.hosts.join(', ')}.`, preview.secrets.length ? ` Needs ${preview.secrets.map(each => each.name).join(', ')}.` : '']),
      preview.notes.length ? h('details', null, h('summary', null, `${preview.notes.length} not taken over`), h('ul', null, preview.notes.slice(0, 100).map(note => h('li', null, note)))) : null,
      h('div.otx-bar', null, filter, pick('All', () => true), pick('None', () => false), pick('Only GET', each => isReading(each))),
      this._groups
    );
    this._showOperations('');
    filter.focus();
  }

  private _choose(operations: IOperation[], filter: string): void {
    this._chosen = new Set(operations.map(each => each.name));
    this._showOperations(filter);
  }

  private _showOperations(filter: string): void {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this._operations().filter(each => words.every(word => `${each.name} ${each.method} ${each.url} ${each.tags.join(' ')}`.toLowerCase().includes(word)));
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
      h('span.onetool-Import-method', { data: { reads: String(isReading(operation)) } }, operation.method),
      h('span.onetool-Import-words', null, h('span', null, operation.name), h('span.otx-muted', null, path))
    );
  }

  private _count(): void {
    const taken = this._chosen.size;
    fill(this._importButton, `Import ${taken} ${taken === 1 ? 'tool' : 'tools'}`);
    this._importButton.disabled = taken === 0;
  }

  private readonly _form: IForm;
  private readonly _file: HTMLInputElement;
  private readonly _status: HTMLElement;
  private readonly _choice: HTMLElement;
  private readonly _lookButton: HTMLButtonElement;
  private readonly _importButton: HTMLButtonElement;
  private _groups: HTMLElement = h('div');
  private _preview: IImportPreview | null = null;
  private _picked: unknown = null;
  private _seen = '';
  private _chosen = new Set<string>();
}

/** What was imported, and what is left to do. */
export function importSummary({ bundle, tools, hosts, secrets, notes }: IImported): string[] {
  const lines = [`${tools.length} ${tools.length === 1 ? 'tool' : 'tools'} imported into ${bundle.slug}.`];
  if (hosts?.length) {
    lines.push(`They call ${hosts.join(', ')}. Add it to http.allowed_hosts in onetool.yaml if it is not there.`);
  }
  if (secrets?.length) {
    lines.push(`They need these secrets in secrets.yaml: ${secrets.map(secret => secret.name).join(', ')}.`);
  }
  return [...lines, ...(notes ?? []).slice(0, 5)];
}

function isReading({ method }: IOperation): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** A JSON document as a value; any other text (YAML, a URL) as it is. */
function parseDocument(text: string): unknown {
  try {
    const found = JSON.parse(text);
    return typeof found === 'object' && found !== null ? found : text;
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
