/**
 * The form that creates an HTTP tool, or edits one as a new version, with a live test. The test shows the request and the
 * response; the server masks the secrets in both.
 */

import { type IBundle, type IFieldError, type ITool, type RestClient, RestError } from './restClient';
import { createForm, fill, h, type IForm } from './ui/index.js';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'];

interface IOptions {
  bundles: IBundle[];
  bundle?: IBundle;
  tool?: ITool;
  onSaved: (name: string) => void;
  onClosed: () => void;
}

/** The JSON Schema of this form. */
function schemaOf(isNew: boolean): Record<string, unknown> {
  return {
    type: 'object',
    required: ['bundle', 'tool', 'version', 'url'],
    properties: {
      bundle: { type: 'string', description: isNew ? 'Bundle name; created if it does not exist.' : 'Bundle name.', examples: ['my-api'] },
      tool: { type: 'string', description: 'Letters, digits and dashes.', examples: ['get-user'] },
      version: { type: 'string', examples: ['v1'] },
      url: { type: 'string', description: 'Use ${name} for each argument, for example https://api.example.com/users/${id}.' },
      method: { enum: METHODS, default: 'GET' },
      description: { type: 'string' },
      arguments: { type: 'object', description: 'JSON Schema of the arguments. If empty, it is made from the ${names}.' },
      query: { type: 'object', additionalProperties: { type: 'string' } },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      body: { description: 'JSON, with "${name}" where an argument goes.' },
      auth: { description: 'For example {"type": "bearer", "value": "${MY_API_KEY}"}. Give the name of a secret, never its value.' },
      selector: { type: 'string', description: 'Part of the response to keep (JMESPath).' },
      tags: { type: 'array', items: { type: 'string' } }
    }
  };
}

/** The field of the form for each part of a tool record. */
const FIELDS: [string, string][] = [
  ['/slug', '/tool'],
  ['/displayName', '/tool'],
  ['/version', '/version'],
  ['/description', '/description'],
  ['/tags', '/tags'],
  ['/argSchema', '/arguments'],
  ['/http/request/method', '/method'],
  ['/http/request/urlTemplate', '/url'],
  ['/http/request/query', '/query'],
  ['/http/request/headers', '/headers'],
  ['/http/request/body', '/body'],
  ['/http/request/auth', '/auth'],
  ['/http/response/selector', '/selector']
];

export class HttpToolForm {
  constructor(
    private readonly rest: RestClient,
    private readonly options: IOptions
  ) {
    this._form = createForm(schemaOf(!options.tool), { onChange: () => this._changed(), onSubmit: () => void this._save() });
    this._args = h('div');
    this._tested = h('div.onetool-Tested');
    this._saveButton = h('button.otx-run', { type: 'button', onclick: () => void this._save() }, 'Save');
    this.element = h(
      'section.onetool-ToolForm',
      { 'aria-label': 'HTTP tool' },
      h('h3', null, options.tool ? `Edit ${options.tool.slug} as a new version` : 'New HTTP tool'),
      this._form.element,
      h('h4', null, 'Try it'),
      this._args,
      h('div.otx-actions', null, h('button.otx-small', { type: 'button', onclick: () => void this._test() }, 'Test'), this._saveButton, h('button.otx-small', { type: 'button', onclick: options.onClosed }, 'Close')),
      this._tested
    );
    this._form.set(options.tool && options.bundle ? valuesOf(options.bundle, options.tool) : { version: 'v1' });
    this._changed();
  }

  readonly element: HTMLElement;

  focus(): void {
    this._form.focus();
  }

  /** Keep the test arguments in step with the form, and drop the errors of fields that were changed. */
  private _changed(): void {
    const now = this._form.value();
    const remaining = this._errors.filter(({ pointer, was }) => was === textAt(now, pointer));
    if (remaining.length < this._errors.length) {
      this._errors = remaining;
      this._form.showErrors(remaining);
    }
    const schema = JSON.stringify(this._record().argSchema);
    if (schema !== this._schema) {
      this._schema = schema;
      this._argForm = createForm(JSON.parse(schema));
      fill(this._args, this._argForm.element);
    }
  }

  private _record(): Record<string, any> {
    const given: Record<string, any> = this._form.value();
    const known = this.options.tool;
    // Keep what the form does not show: time limits, body kinds, success codes, limits, output schema.
    const { query: _q, headers: _h, body: _b, auth: _a, ...others } = known?.http?.request ?? {};
    const request: Record<string, unknown> = { ...others, method: given.method ?? 'GET', urlTemplate: given.url ?? '' };
    for (const key of ['query', 'headers', 'body', 'auth']) {
      if (given[key] !== undefined) {
        request[key] = given[key];
      }
    }
    const { selector, ...rest } = known?.http?.response ?? {};
    const kept = typeof selector === 'object' && selector !== null ? { selector } : {};
    const response = { ...rest, ...kept, ...(given.selector ? { selector: given.selector } : {}) };
    const texts = JSON.stringify([given.url, given.query, given.headers, given.body]);
    return {
      displayName: given.tool ?? '',
      description: given.description ?? given.tool ?? '',
      tags: given.tags ?? [],
      type: 'http',
      ...(known?.outputSchema ? { outputSchema: known.outputSchema } : {}),
      ...(known?.outputSchemaFrom ? { outputSchemaFrom: known.outputSchemaFrom } : {}),
      ...(known?.readOnly !== undefined ? { readOnly: known.readOnly } : {}),
      ...(known?.limits ? { limits: known.limits } : {}),
      argSchema: given.arguments ?? schemaFor(texts),
      http: { request, response }
    };
  }

  private async _test(): Promise<void> {
    fill(this._tested, '…');
    this._showErrors([]);
    this._argForm?.showErrors([]);
    const given: Record<string, any> = this._form.value();
    try {
      const draft = { ...this._record(), slug: given.tool || 'draft', version: given.version || 'v1' };
      const { request, response, result } = await this.rest.test(draft, this._argForm?.value() ?? {});
      const part = (title: string, value: unknown) => (value === undefined || value === null ? null : [h('h4', null, title), h('pre', { tabindex: '0' }, JSON.stringify(value, null, 2))]);
      const isOk = result?.ok !== false;
      fill(this._tested, h(isOk ? 'span.otx-chip.otx-ok' : 'span.otx-chip.otx-failed', { role: 'status' }, isOk ? 'ok' : 'failed'), part('Request', request), part('Response', response), part('Result', result));
    } catch (error) {
      fill(this._tested);
      this._showRefusal(error as Error, given);
    }
  }

  /** Save the form as it is now. Later input is not saved, and a second press does nothing. */
  private async _save(): Promise<void> {
    if (this._saveButton.getAttribute('aria-disabled') === 'true') {
      return;
    }
    const given: Record<string, any> = this._form.value();
    const missing = ['bundle', 'tool', 'version', 'url'].filter(name => !given[name]);
    if (missing.length) {
      this._showErrors(missing.map(name => ({ pointer: `/${name}`, message: 'This field is required.' })));
      this._form.focusError();
      return;
    }
    this._saveButton.setAttribute('aria-disabled', 'true'); // `disabled` would lose the focus
    const isSaved = await this._put(given, this._record());
    this._saveButton.setAttribute('aria-disabled', 'false');
    if (isSaved) {
      this.options.onClosed();
      this.options.onSaved(`${given.bundle}.${given.tool}`);
    }
  }

  private async _put(given: Record<string, any>, record: Record<string, any>): Promise<boolean> {
    const known = this.options.bundles.find(each => each.slug === given.bundle);
    const bundle = known ?? (await this._newBundle(given, record));
    if (!bundle) {
      return false;
    }
    try {
      await this.rest.putTool(bundle.bundleID, given.tool, given.version, record);
      return true;
    } catch (error) {
      if (!known) {
        await this.rest.deleteBundle(bundle.bundleID).catch(() => undefined); // leave nothing behind
      }
      this._showRefusal(error as Error, given);
      return false;
    }
  }

  /** Create the bundle. If it cannot be created, show all errors at once, those of the tool too, and return null. */
  private async _newBundle(given: Record<string, any>, record: Record<string, any>): Promise<IBundle | null> {
    const slug = given.bundle;
    try {
      return await this.rest.putBundle(newId(), { slug, displayName: slug, description: '', isEnabled: true });
    } catch (error) {
      const own = errorsOf(error as Error).map(({ message }) => ({ pointer: '/bundle', message }));
      // The tool cannot be saved without its bundle, but the server reports its errors first.
      const others = await this.rest.putTool(newId(), given.tool, given.version, record).then(
        () => [],
        (refusal: Error) => (refusal instanceof RestError && refusal.status === 400 ? errorsOf(refusal) : [])
      );
      this._showErrors([...own, ...others.map(atFormField)], given);
      this._form.focusError();
      return null;
    }
  }

  /** Show the errors of a refused request at their fields. */
  private _showRefusal(error: Error, given: Record<string, unknown>): void {
    const isTaken = error instanceof RestError && error.code === 'conflict' && error.reason !== 'secret_host';
    const errors = errorsOf(error).map(({ pointer, message }) => ({ pointer: pointer || (isTaken ? '/version' : ''), message }));
    if (error instanceof RestError && error.code === 'invalid_args') {
      this._showArgumentErrors(errors);
      return;
    }
    this._showErrors(errors.map(atFormField), given);
    this._form.focusError();
  }

  private _showArgumentErrors(errors: IFieldError[]): void {
    this._argForm?.showErrors(errors);
    this._argForm?.focusError();
  }

  /** Show errors, each until the value of its field changes. */
  private _showErrors(errors: IFieldError[], given = this._form.value()): void {
    this._errors = errors.map(error => ({ ...error, was: textAt(given, error.pointer) }));
    this._form.showErrors(this._errors);
  }

  private readonly _form: IForm;
  private readonly _args: HTMLElement;
  private readonly _tested: HTMLElement;
  private readonly _saveButton: HTMLElement;
  private _argForm: IForm | null = null;
  private _errors: (IFieldError & { was: string })[] = [];
  private _schema = '';
}

/** The errors of the fields; if the server names none, one error of the whole form. */
function errorsOf(error: Error): IFieldError[] {
  return error instanceof RestError && error.details.length ? error.details : [{ pointer: '', message: error.message }];
}

/** An error of a record or a draft, at its field of the form. */
function atFormField({ pointer, message }: IFieldError): IFieldError {
  const inside = pointer.replace(/^\/tool(?=\/|$)/, '');
  const found = FIELDS.find(([part]) => inside === part || inside.startsWith(`${part}/`));
  return { pointer: found ? found[1] + inside.slice(found[0].length) : inside, message };
}

/** The value of a field as text, to see whether it has changed; of the whole form for the pointer ''. */
function textAt(values: Record<string, unknown>, pointer: string): string {
  const [, name] = pointer.split('/');
  return JSON.stringify(name === undefined ? values : (values[name] ?? null));
}

function valuesOf(bundle: IBundle, tool: ITool): Record<string, unknown> {
  const request = tool.http?.request ?? {};
  const next = /^v(\d+)$/.exec(tool.version);
  const found: Record<string, unknown> = {
    bundle: bundle.slug,
    tool: tool.slug,
    version: next ? `v${Number(next[1]) + 1}` : `${tool.version}-2`,
    url: request.urlTemplate,
    method: request.method,
    description: tool.description,
    arguments: tool.argSchema,
    query: request.query,
    headers: request.headers,
    body: request.body,
    auth: request.auth,
    selector: typeof tool.http?.response?.selector === 'string' ? tool.http.response.selector : undefined,
    tags: tool.tags
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined && value !== null));
}

/** Every `${name}` becomes a text argument; names in capitals are secrets. */
function schemaFor(text: string): Record<string, unknown> {
  const names = [...new Set([...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map(match => match[1]))].filter(name => name !== name.toUpperCase());
  return { type: 'object', properties: Object.fromEntries(names.map(name => [name, { type: 'string' }])), required: names };
}

/** A new UUIDv7. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let i = 5; i >= 0; i -= 1) {
    bytes[i] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  const hex = [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
