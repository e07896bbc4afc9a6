/**
 * Create an HTTP tool, or edit one as a new version, with a live test: the request as it would go
 * out and the answer, both masked by the server.
 */

import type { IBundle, ITool, Rest } from './rest';
import { RestError } from './rest';
import { fill, h } from './ui/dom.js';
import { createForm, type IForm } from './ui/form.js';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'];

interface IOptions {
  bundles: IBundle[];
  bundle?: IBundle;
  tool?: ITool;
  onSaved: (name: string) => void;
  onClosed: () => void;
}

/** The form's own schema: it is the ui module's form that shows it. */
function schemaOf(isNew: boolean): Record<string, unknown> {
  return {
    type: 'object',
    required: ['bundle', 'tool', 'version', 'url'],
    properties: {
      bundle: { type: 'string', description: isNew ? 'The bundle it belongs to; a new one is made where there is none.' : 'The bundle it belongs to.', examples: ['my-api'] },
      tool: { type: 'string', description: 'Letters, digits and dashes.', examples: ['get-user'] },
      version: { type: 'string', examples: ['v1'] },
      url: { type: 'string', description: 'With ${name} for each argument, such as https://api.example.com/users/${id}.' },
      method: { enum: METHODS, default: 'GET' },
      description: { type: 'string' },
      arguments: { type: 'object', description: 'The JSON Schema of the arguments; made from the ${names} where it is left empty.' },
      query: { type: 'object', additionalProperties: { type: 'string' } },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      body: { description: 'JSON, with "${name}" where an argument goes.' },
      auth: { description: 'For example {"type": "bearer", "value": "${MY_API_KEY}"}: secrets by name, never their values.' },
      selector: { type: 'string', description: 'What to take of the answer (JMESPath).' },
      tags: { type: 'array', items: { type: 'string' } }
    }
  };
}

/** Where the server's words about a record belong in the form. */
const PLACES: [RegExp, string][] = [
  [/urlTemplate|url|host/i, '/url'],
  [/version/i, '/version'],
  [/slug/i, '/tool'],
  [/argSchema/i, '/arguments'],
  [/auth/i, '/auth'],
  [/header/i, '/headers'],
  [/query/i, '/query'],
  [/body/i, '/body'],
  [/selector/i, '/selector'],
  [/tag/i, '/tags'],
  [/description/i, '/description']
];

export class ToolForm {
  constructor(
    private readonly rest: Rest,
    private readonly options: IOptions
  ) {
    this._form = createForm(schemaOf(!options.tool), { onChange: () => this._changed(), onSubmit: () => void this._save() });
    this._args = h('div');
    this._tested = h('div.onetool-Tested');
    this.element = h(
      'section.onetool-ToolForm',
      { 'aria-label': 'HTTP tool' },
      h('h3', null, options.tool ? `Edit ${options.tool.slug} as a new version` : 'New HTTP tool'),
      this._form.element,
      h('h4', null, 'Try it'),
      this._args,
      h('div.otx-actions', null, h('button.otx-small', { type: 'button', onclick: () => void this._test() }, 'Test'), h('button.otx-run', { type: 'button', onclick: () => void this._save() }, 'Save'), h('button.otx-small', { type: 'button', onclick: options.onClosed }, 'Close')),
      this._tested
    );
    this._form.set(options.tool && options.bundle ? valuesOf(options.bundle, options.tool) : { version: 'v1' });
    this._changed();
  }

  readonly element: HTMLElement;

  focus(): void {
    this._form.focus();
  }

  private _changed(): void {
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
    // What the form does not show is carried over: time limits, body kinds, success codes, limits, output schema.
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
      ...(known?.limits ? { limits: known.limits } : {}),
      argSchema: given.arguments ?? schemaFor(texts),
      http: { request, response }
    };
  }

  private async _test(): Promise<void> {
    fill(this._tested, '…');
    try {
      const given: Record<string, any> = this._form.value();
      const draft = { ...this._record(), slug: given.tool || 'draft', version: given.version || 'v1' };
      const { request, response, result } = await this.rest.test(draft, this._argForm?.value() ?? {});
      const part = (title: string, value: unknown) => (value === undefined || value === null ? null : [h('h4', null, title), h('pre', { tabindex: '0' }, JSON.stringify(value, null, 2))]);
      const isOk = result?.ok !== false;
      fill(this._tested, h(isOk ? 'span.otx-chip.otx-ok' : 'span.otx-chip.otx-bad', { role: 'status' }, isOk ? 'ok' : 'failed'), part('Request', request), part('Response', response), part('Result', result));
    } catch (error) {
      fill(this._tested);
      this._refused(error as Error);
    }
  }

  private async _save(): Promise<void> {
    const given: Record<string, any> = this._form.value();
    const missing = ['bundle', 'tool', 'version', 'url'].filter(name => !given[name]);
    if (missing.length) {
      this._point(missing.map(name => ({ pointer: `/${name}`, message: 'It is needed.' })));
      return;
    }
    const known = this.options.bundles.find(each => each.slug === given.bundle);
    const bundle = known ?? (await this._newBundle(given.bundle));
    if (!bundle) {
      return;
    }
    try {
      await this.rest.putTool(bundle.bundleID, given.tool, given.version, this._record());
    } catch (error) {
      if (!known) {
        await this.rest.deleteBundle(bundle.bundleID).catch(() => undefined); // nothing is left of what was refused
      }
      this._refused(error as Error);
      return;
    }
    this.options.onClosed();
    this.options.onSaved(`${given.bundle}.${given.tool}`);
  }

  /** A bundle of this name; null where there can be none. */
  private async _newBundle(slug: string): Promise<IBundle | null> {
    try {
      return await this.rest.putBundle(newId(), { slug, displayName: slug, description: '', isEnabled: true });
    } catch (error) {
      this._point([{ pointer: '/bundle', message: unprefixed((error as Error).message) }]);
      return null;
    }
  }

  /** Show what is refused where it belongs: the server's words begin with the field they are about. */
  private _refused(error: Error): void {
    const isTaken = error instanceof RestError && error.status === 409;
    const details = error instanceof RestError && error.details.length ? error.details : error.message.split('; ').map(message => ({ pointer: '', message }));
    this._point(
      details.map(({ pointer, message }) => {
        const place = placeOf(`${pointer} ${message}`, isTaken);
        return { pointer: place, message: place ? unprefixed(message) : message };
      })
    );
  }

  /** Show errors at their fields, and go to the first. */
  private _point(errors: { pointer: string; message: string }[]): void {
    this._form.showErrors(errors);
    const first = this._form.element.querySelector('[aria-invalid="true"], .otx-error:not([hidden])') as HTMLElement | null;
    first?.focus();
    first?.scrollIntoView({ block: 'nearest' });
  }

  private readonly _form: IForm;
  private readonly _args: HTMLElement;
  private readonly _tested: HTMLElement;
  private _argForm: IForm | null = null;
  private _schema = '';
}

/** Without the field's name in front: it stands at the field. */
function unprefixed(message: string): string {
  const rest = message.replace(/^[A-Za-z][\w.]*: /, '');
  return rest[0].toUpperCase() + rest.slice(1);
}

function placeOf(text: string, isTaken: boolean): string {
  const place = (part: string): string | undefined => PLACES.find(([pattern]) => pattern.test(part))?.[1];
  const field = /^[\s/']*([A-Za-z][\w./]*)/.exec(text)?.[1] ?? '';
  return place(field) ?? place(text) ?? (isTaken ? '/version' : '');
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

/** Every `${name}` in lower case as a text argument; names in capitals are secrets. */
function schemaFor(text: string): Record<string, unknown> {
  const names = [...new Set([...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map(match => match[1]))].filter(name => name !== name.toUpperCase());
  return { type: 'object', properties: Object.fromEntries(names.map(name => [name, { type: 'string' }])), required: names };
}

/** A UUIDv7, as the store wants it. */
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
