// The parts of the HTTP tool editor that hold several fields: name and value rows, auth with its secret, arguments.
import { fill, h, reconcile, show, uniqueId } from './dom.js';
import { byteSize } from './format.js';

const NAME = '[A-Za-z_][A-Za-z0-9_]*';
const TYPES = { string: 'text', integer: 'integer', number: 'number', boolean: 'true / false', array: 'list', object: 'object', file: 'file' };
const FILE = { type: 'object', properties: { base64: { type: 'string' }, filename: { type: 'string' }, mime: { type: 'string' } }, required: ['base64'] };
const KINDS = { none: 'No auth', bearer: 'Bearer token', apiKey: 'API key', basic: 'User and password', oauth2: 'OAuth2 client credentials' };
const NEW = '+';

export function select(label, options, onChange) {
  const element = h('select.otx-input', { 'aria-label': label, onchange: onChange });
  fill(element, Object.entries(options).map(([value, title]) => h('option', { value }, title)));
  return element;
}

/** `{name}` as `${name}`, as records have it. */
export function marked(text) {
  return text.replace(new RegExp(`(?<!\\$)\\{(${NAME})\\}`, 'g'), '${$1}');
}

/** The names of the arguments in a text: every `${name}` but secrets, which are known or written in capitals. */
export function placeholdersIn(text, secrets) {
  const names = [...text.matchAll(new RegExp(`(?<!\\$)\\$\\{(${NAME})(?:\\|\\w+)?\\}|\\\\"\\{(${NAME})\\}\\\\"`, 'g'))].map(found => found[1] ?? found[2]);
  return [...new Set(names)].filter(name => !secrets.includes(name) && name !== name.toUpperCase());
}

function input(label, props = {}) {
  return h('input.otx-input', { type: 'text', 'aria-label': label, spellcheck: 'false', autocomplete: 'off', ...props });
}

/** Rows of name and value, with an empty one at the end. */
export class Pairs {
  constructor(label, onChange) {
    Object.assign(this, { label, onChange, rows: [] });
    this.element = h('div.otx-pairs', { role: 'group', 'aria-label': `${label}s` });
    this.set({});
  }

  /** The pairs as an object. A value that was not edited stays as it was; a name that stands twice gets a list. */
  value() {
    const found = {};
    for (const { name, value, shown, original } of this.rows) {
      const key = name.value.trim();
      if (!key) continue;
      const own = shown !== undefined && value.value === shown ? original : marked(value.value);
      found[key] = key in found ? [found[key], own].flat() : own;
    }
    return found;
  }

  set(pairs) {
    this.rows = [];
    for (const [name, value] of Object.entries(pairs)) this.add(name, value);
    this.add();
    this.draw();
  }

  add(key = '', original = undefined) {
    const shown = original === undefined ? undefined : typeof original === 'string' ? original : JSON.stringify(original);
    const onInput = () => {
      if (this.rows.at(-1) === row) this.add(), this.draw();
      this.onChange();
    };
    const name = input(`${this.label} name`, { placeholder: 'name', value: key, oninput: onInput });
    const value = input(`${this.label} value`, { placeholder: 'value, or {argument}', value: shown ?? '', oninput: onInput });
    const remove = h('button.otx-small', { type: 'button', 'aria-label': `Remove ${this.label.toLowerCase()}`, title: 'Remove', onclick: () => this.remove(row) }, '×');
    const row = { element: h('div.otx-pair', null, name, value, remove), name, value, shown, original };
    this.rows.push(row);
  }

  remove(row) {
    this.rows = this.rows.filter(each => each !== row);
    if (!this.rows.length || this.rows.at(-1).name.value) this.add();
    this.draw();
    this.rows.at(-1).name.focus();
    this.onChange();
  }

  draw() {
    reconcile(this.element, this.rows.map(row => row.element));
  }
}

/** A secret by its name, or a new one, whose value is typed and never shown. */
class SecretPicker {
  constructor(label, onChange) {
    this.names = [];
    this.kept = null;
    this.select = h('select.otx-input', { 'aria-label': label, onchange: () => (this.draw(), onChange()) });
    this.name = input('Name of the new secret', { placeholder: 'API_TOKEN', oninput: () => (this.isNamed = true, onChange()) });
    this.password = input('Value of the new secret', { type: 'password', placeholder: 'value', autocomplete: 'new-password', oninput: onChange });
    this.fresh = h('div.otx-pair', null, this.name, this.password);
    this.element = h('div', null, this.select, this.fresh, h('p.otx-help', null, "The tool stores only the secret's name. The value goes to secrets.yaml and is not shown again."));
    this.setNames([]);
  }

  setNames(names) {
    const chosen = this.select.value;
    this.names = names;
    fill(this.select, this.kept === null ? null : h('option', { value: '=' }, 'as it is'), names.map(name => h('option', { value: name }, name)), h('option', { value: NEW }, 'New secret …'));
    this.choose([...this.select.options].some(({ value }) => value === chosen) ? chosen : this.select.options[0].value);
  }

  choose(value) {
    this.select.value = value;
    if (value !== NEW) this.password.value = '';
    this.draw();
  }

  draw() {
    show(this.fresh, this.select.value === NEW);
  }

  set(text) {
    const [, name] = new RegExp(`^\\$\\{(${NAME})\\}$`).exec(text ?? '') ?? [];
    this.kept = text && !name ? text : null;
    this.setNames(this.names);
    if (name && !this.names.includes(name)) this.name.value = name, this.isNamed = true;
    this.choose(name ? (this.names.includes(name) ? name : NEW) : this.kept === null ? this.select.value : '=');
  }

  suggest(name) {
    if (!this.isNamed) this.name.value = name;
  }

  value() {
    if (this.select.value === '=') return this.kept;
    return `\${${this.select.value === NEW ? this.name.value.trim() : this.select.value}}`;
  }

  pending() {
    return this.select.value === NEW ? { name: this.name.value.trim(), value: this.password.value } : null;
  }
}

export class AuthForm {
  constructor(onChange) {
    this.bundle = null;
    this.kind = h('select.otx-input', { 'aria-label': 'Kind of auth', onchange: () => (this.isTyped = true, this.draw(), onChange()) });
    this.secret = new SecretPicker('Secret', onChange);
    this.where = select('Where the key goes', { header: 'in a header', query: 'in the query' }, onChange);
    this.texts = Object.fromEntries(Object.entries({ name: ['Name of the key', 'X-Api-Key'], username: ['User', 'user'], tokenUrl: ['Token URL', 'https://api.example.com/token'], clientId: ['Client id', 'client id'], scope: ['Scope', 'scope (optional)'] }).map(([key, [label, placeholder]]) => [key, input(label, { placeholder, oninput: onChange })]));
    this.isShared = h('input', { type: 'checkbox', checked: true, onchange: () => (this.isSharedTyped = true) });
    this.shared = h('label', null, this.isShared, ' use it for all tools of this bundle');
    this.note = h('p.otx-muted');
    this.fields = h('div.otx-editor-auth', null, this.where, Object.values(this.texts), this.secret.element, this.shared);
    this.element = h('div', null, this.kind, this.note, this.fields);
    this.setBundle('', null);
  }

  get canShare() {
    return !this.shared.hidden && !this.fields.hidden;
  }

  setNames(names) {
    this.secret.setNames(names);
  }

  choose(name) {
    this.secret.choose(name);
  }

  pending() {
    return this.fields.hidden ? null : this.secret.pending();
  }

  /** Follow the bundle: its auth is what a tool uses unless it has its own. */
  setBundle(slug, bundle) {
    const key = JSON.stringify([slug, bundle]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.bundle = bundle;
    const own = this.kind.value;
    const inherited = bundle?.auth ? { inherit: `From the bundle: ${KINDS[bundle.auth.type]}` } : {};
    fill(this.kind, Object.entries({ ...inherited, ...KINDS }).map(([value, title]) => h('option', { value }, title)));
    this.kind.value = this.isTyped && [...this.kind.options].some(({ value }) => value === own) ? own : bundle?.auth ? 'inherit' : 'none';
    this.secret.suggest(`${(slug || 'api').replace(/\W+/g, '_').toUpperCase()}_TOKEN`);
    // The bundle has the auth already where it was just saved with it: the tick stays.
    if (!this.isSharedTyped) this.isShared.checked = !bundle || isSame(bundle.auth, this.value());
    this.draw();
  }

  draw() {
    const kind = this.kind.value;
    const used = { apiKey: ['name'], basic: ['username'], oauth2: ['tokenUrl', 'clientId', 'scope'] }[kind] ?? [];
    show(this.fields, kind !== 'none' && kind !== 'inherit');
    show(this.where, kind === 'apiKey');
    for (const [key, control] of Object.entries(this.texts)) show(control, used.includes(key));
    fill(this.note, kind === 'inherit' ? `Sent to ${this.bundle.baseUrl} only. Change it with: %tool bundle set ${this.bundle.slug} --auth …` : '');
  }

  set(auth) {
    this.isTyped = auth !== null;
    if (!auth) {
      this.drawn = ''; // the next bundle decides
      return;
    }
    this.kind.value = auth.type;
    for (const [key, control] of Object.entries(this.texts)) control.value = auth[key] ?? '';
    if (auth.in) this.where.value = auth.in;
    if (auth.type !== 'none') this.secret.set(auth.value ?? auth.password ?? auth.clientSecret ?? null);
    this.isShared.checked = false;
    this.draw();
  }

  value() {
    const text = key => this.texts[key].value.trim();
    const secret = this.secret.value();
    switch (this.kind.value) {
      case 'bearer': return { type: 'bearer', value: secret };
      case 'apiKey': return { type: 'apiKey', in: this.where.value, name: text('name'), value: secret };
      case 'basic': return { type: 'basic', username: text('username'), password: secret };
      case 'oauth2': return { type: 'oauth2', tokenUrl: text('tokenUrl'), clientId: text('clientId'), clientSecret: secret, ...(text('scope') ? { scope: text('scope') } : {}) };
      case 'none': return this.bundle?.auth ? { type: 'none' } : null;
      default: return null;
    }
  }
}

/** Whether two records of auth say the same. */
function isSame(one, other) {
  const sorted = auth => JSON.stringify(Object.entries(auth ?? {}).sort());
  return Boolean(one) && sorted(one) === sorted(other);
}

/** The arguments as a table. Those that stand in the request as `{name}` appear by themselves. */
export class Arguments {
  constructor(onChange) {
    Object.assign(this, { onChange, rows: new Map(), own: new Set(), order: [], whole: {} });
    this.body = h('tbody');
    this.empty = h('p.otx-muted', null, 'None yet. Write {name} in the URL, a value or the body.');
    const titles = ['Name', 'Type', 'Required', 'Default', 'Description', 'Try with'];
    this.table = h('table.otx-columns.otx-arguments', null, h('thead', null, h('tr', null, titles.map(title => h('th', { scope: 'col' }, title)))), this.body);
    this.box = h('div.otx-scroll', { tabindex: '0', role: 'group', 'aria-label': 'Arguments' }, this.table);
    this.element = h('div', null, this.empty, this.box);
    this.follow([]);
  }

  set(schema) {
    this.whole = schema;
    this.rows.clear();
    this.own = new Set(Object.keys(schema.properties ?? {}));
    this.order = [...this.own];
    for (const [name, own] of Object.entries(schema.properties ?? {})) this.rows.set(name, row(name, own, (schema.required ?? []).includes(name), this.onChange));
  }

  /** Show the arguments of these names, and those that the opened tool has. */
  follow(names) {
    this.order = [...this.own, ...names.filter(name => !this.own.has(name))];
    for (const name of this.order) if (!this.rows.has(name)) this.rows.set(name, row(name, { type: 'string' }, true, this.onChange));
    reconcile(this.body, this.order.map(name => this.rows.get(name).element));
    show(this.empty, !this.order.length);
    show(this.box, this.order.length > 0);
  }

  schema(wrong) {
    const { properties: _p, required: _r, ...whole } = this.whole;
    const properties = {};
    const required = [];
    for (const name of this.order) {
      const { type, isRequired, preset, description, own } = this.rows.get(name);
      const kept = type.value === typeOf(own) ? { ...own } : type.value === 'file' ? { ...FILE } : { type: type.value };
      delete kept.default;
      delete kept.description;
      if (description.value.trim()) kept.description = description.value.trim();
      const value = read(type.value, preset.value, name, '/argSchema', wrong);
      if (value !== undefined) kept.default = value;
      else if (isRequired.checked) required.push(name);
      properties[name] = kept;
    }
    return { type: 'object', additionalProperties: false, ...whole, properties, ...(required.length ? { required } : {}) };
  }

  /** The values to send. */
  values(wrong) {
    const found = {};
    for (const name of this.order) {
      const { type, value, file } = this.rows.get(name);
      const own = type.value === 'file' ? file.content : read(type.value, value.value, name, `/args/${name}`, wrong);
      if (own !== undefined) found[name] = own;
    }
    return found;
  }

  /** The names of the required arguments that have no value to try. */
  missing() {
    const values = this.values([]);
    return this.order.filter(name => this.rows.get(name).isRequired.checked && !this.rows.get(name).preset.value && values[name] === undefined);
  }

  setType(name, kind) {
    const { type } = this.rows.get(name) ?? {};
    if (!type || type.value === kind) return;
    type.value = kind;
    type.dispatchEvent(new Event('change'));
  }

  /** The field of an argument's value, from a pointer such as `/args/id`. */
  controlAt(pointer) {
    const [, where, name] = pointer.split('/');
    return where === 'args' ? (this.rows.get(name)?.value ?? null) : null;
  }
}

function row(name, own, isRequired, onChange) {
  const kind = typeOf(own);
  const type = select(`Type of ${name}`, kind ? TYPES : { '': 'as it is', ...TYPES }, onChange);
  type.value = kind;
  const cells = {
    type,
    isRequired: h('input', { type: 'checkbox', 'aria-label': `${name} is required`, onchange: onChange }),
    preset: input(`Default of ${name}`, { value: textOf(own.default), oninput: onChange }),
    description: input(`Description of ${name}`, { value: own.description ?? '', oninput: onChange }),
    value: input(`Value of ${name} to try`, { id: uniqueId('value'), oninput: onChange, data: { name } })
  };
  cells.isRequired.checked = isRequired;
  const file = fileInput(name);
  const drawFile = () => {
    show(file.element, type.value === 'file');
    for (const cell of [cells.value, cells.preset]) show(cell, type.value !== 'file');
  };
  type.addEventListener('change', drawFile);
  drawFile();
  return { ...cells, file, own, element: h('tr', null, h('th', { scope: 'row' }, name), Object.values(cells).map(cell => h('td', null, cell, cell === cells.value ? file.element : null))) };
}

/** A button that takes a file; `content` is the file as an argument has it. */
function fileInput(name) {
  const picker = h('input.otx-hidden', { type: 'file', 'aria-label': `File of ${name} to try`, tabindex: '-1' });
  const button = h('button.otx-small', { type: 'button', onclick: () => picker.click() }, 'Choose a file …');
  const file = { content: undefined, element: h('span', null, picker, button) };
  picker.addEventListener('change', async () => {
    const [chosen] = picker.files;
    if (!chosen) return;
    const bytes = new Uint8Array(await chosen.arrayBuffer());
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    file.content = { base64: btoa(text), filename: chosen.name, ...(chosen.type ? { mime: chosen.type } : {}) };
    fill(button, `${chosen.name} · ${byteSize(chosen.size)}`);
  });
  return file;
}

function typeOf(own) {
  if (own.type === 'object' && own.properties?.base64) return 'file';
  return typeof own.type === 'string' && own.type in TYPES ? own.type : '';
}

function textOf(value) {
  return value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value);
}

/** A typed text as a value; undefined if it is empty. What cannot be read goes to `wrong`. */
function read(type, text, name, pointer, wrong) {
  if (text === '' || type === 'string') return text === '' ? undefined : text;
  const fault = { integer: 'a whole number', number: 'a number', boolean: 'true or false', array: 'a list, such as [1, 2]', object: 'an object, such as {"a": 1}' }[type];
  try {
    const value = JSON.parse(text);
    const isOk = { integer: Number.isInteger(value), number: typeof value === 'number', boolean: typeof value === 'boolean', array: Array.isArray(value), object: typeof value === 'object' && value !== null && !Array.isArray(value) }[type];
    if (isOk ?? true) return value;
  } catch {
    if (!type) return text;
  }
  wrong.push({ pointer, message: pointer.startsWith('/args') ? `'${text}' is not ${fault}.` : `${name}: the default '${text}' is not ${fault}.` });
  return undefined;
}
