// What the fields of the HTTP tool editor hold, and the record of a tool: each is made from the other, without a page. What
// follows from other fields is null until it is typed: names, the kind of auth, whether all tools of the bundle share it.
import { uniqueId } from './dom.js';
import { isEqual, isObject } from './schema.js';

const NAME = '[A-Za-z_][A-Za-z0-9_]*';
export const TYPES: Record<string, string> = {
  string: 'text', integer: 'integer', number: 'number', boolean: 'true / false', array: 'list', object: 'object', file: 'file'
};
const FILE = {
  type: 'object', properties: { base64: { type: 'string' }, filename: { type: 'string' }, mime: { type: 'string' } }, required: ['base64']
};
export const BODIES: Record<string, string> = {
  none: 'None', json: 'JSON', form: 'Form', multipart: 'Multipart form, with files', binary: 'File', text: 'Raw text'
};
/** In place of a secret's name: a new one, and the text that the record has. */
export const [NEW, KEPT] = ['+', '='];

export type Json = Record<string, any>;
export type Fault = { pointer: string; message: string };

export interface Pair {
  key: string;
  name: string;
  value: string;
  /** What the record has, and how it was shown: a value that was not edited stays as it was. */
  original?: unknown;
  shown?: string;
}

export interface Auth {
  kind: string | null;
  in: string;
  name: string;
  username: string;
  tokenUrl: string;
  clientId: string;
  scope: string;
  secret: string | null;
  /** A secret in the record that is no name. */
  kept: string | null;
  newName: string | null;
  password: string;
  isShared: boolean | null;
}

export interface Argument {
  type: string;
  isRequired: boolean;
  preset: string;
  description: string;
  /** What to try with. */
  value: string;
  file: File | null;
  own: Json;
}

export interface Fields {
  method: string;
  url: string;
  query: Pair[];
  headers: Pair[];
  bodyKind: string;
  bodyText: string;
  bodyForm: Pair[];
  auth: Auth;
  bundle: string | null;
  tool: string | null;
  version: string;
  description: string;
  tags: string;
  selector: string;
  /** By name; those of the opened tool in `own` stay, whatever the request has. */
  args: Record<string, Argument>;
  own: string[];
  schema: Json;
}

export interface Bundle {
  slug: string;
  baseUrl?: string;
  auth?: Json | null;
  environment?: string;
  environments?: string[];
  variables?: Record<string, string>;
}

/** What there is to choose from. */
export interface Choices {
  bundles: Bundle[];
  secrets: string[];
}

const NO_AUTH: Auth = {
  kind: null, in: 'header', name: '', username: '', tokenUrl: '', clientId: '', scope: '', secret: null, kept: null, newName: null,
  password: '', isShared: null
};
export const isPaired = (kind: string): boolean => kind === 'form' || kind === 'multipart';
export const blank = (): Fields => fieldsOf({ http: { request: { urlTemplate: '' } } });

/** The fields of a tool's record; the bundle and the tool are named by them, or by the request if they are null. */
export function fieldsOf(record: Json, bundle: string | null = null, version = ''): Fields {
  const { request, response } = record.http as { request: Json; response?: Json };
  const schema: Json = record.argSchema ?? {};
  const own = Object.entries<Json>(schema.properties ?? {});
  return {
    method: request.method ?? 'GET',
    url: request.urlTemplate,
    query: pairsOf(request.query ?? {}),
    headers: pairsOf(request.headers ?? {}),
    ...bodyFields(request),
    auth: authFields(request.auth ?? null),
    bundle,
    tool: bundle === null ? null : record.slug,
    version,
    description: record.description ?? '',
    tags: (record.tags ?? []).join(', '),
    selector: typeof response?.selector === 'string' ? response.selector : '',
    args: Object.fromEntries(own.map(([name, each]) => [name, argumentOf(each, (schema.required ?? []).includes(name))])),
    own: own.map(([name]) => name),
    schema
  };
}

function bodyFields({ body, bodyType }: Json): Pick<Fields, 'bodyKind' | 'bodyText' | 'bodyForm'> {
  const kind = body === undefined || body === null ? 'none' : (bodyType ?? (typeof body === 'string' ? 'text' : 'json'));
  const bodyKind = kind === 'form' && typeof body === 'string' ? 'text' : kind;
  const isForm = isPaired(bodyKind) && typeof body === 'object';
  return {
    bodyKind, bodyForm: pairsOf(isForm ? body : {}),
    bodyText: isForm || kind === 'none' ? '' : typeof body === 'string' ? body : JSON.stringify(body, null, 2)
  };
}

function authFields(auth: Json | null): Auth {
  if (!auth) return NO_AUTH;
  const { name = '', username = '', tokenUrl = '', clientId = '', scope = '' } = auth;
  const secret: string | undefined = auth.value ?? auth.password ?? auth.clientSecret;
  const [, named] = new RegExp(`^\\$\\{(${NAME})\\}$`).exec(secret ?? '') ?? [];
  const kept = secret && !named ? secret : null;
  return {
    ...NO_AUTH, kind: auth.type, in: auth.in ?? 'header', name, username, tokenUrl, clientId, scope,
    secret: named ?? (kept === null ? null : KEPT), kept
  };
}

function argumentOf(own: Json, isRequired: boolean): Argument {
  const preset = own.default === undefined ? '' : typeof own.default === 'string' ? own.default : JSON.stringify(own.default);
  return { type: typeOf(own), isRequired, preset, description: own.description ?? '', value: '', file: null, own };
}

/** Rows of name and value, with an empty one at the end. */
function pairsOf(record: Json): Pair[] {
  return withEmpty(Object.entries(record).map(([name, original]) => {
    const shown = typeof original === 'string' ? original : JSON.stringify(original);
    return { key: uniqueId('pair'), name, value: shown, shown, original };
  }));
}

export function withEmpty(pairs: Pair[]): Pair[] {
  const last = pairs.at(-1);
  return last && !last.name && !last.value ? pairs : [...pairs, { key: uniqueId('pair'), name: '', value: '' }];
}

/** The pairs as an object; a name that stands twice gets a list. */
function recordOfPairs(pairs: Pair[]): Json {
  const record: Json = {};
  for (const { name, value, shown, original } of pairs) {
    const key = name.trim();
    if (!key) continue;
    const own = value === shown ? original : marked(value);
    record[key] = key in record ? [record[key], own].flat() : own;
  }
  return record;
}

/** `{name}` as `${name}`, as records have it. */
function marked(text: string): string {
  return text.replace(new RegExp(`(?<!\\$)\\{(${NAME})\\}`, 'g'), '${$1}');
}

export const bundleName = ({ bundle, url }: Fields, { bundles }: Choices): string => bundle ?? bundleFor(url, bundles);
export const toolName = ({ tool, method, url }: Fields): string => tool ?? toolFor(method, url);

export function bundleOf(fields: Fields, choices: Choices): Bundle | null {
  const slug = bundleName(fields, choices).trim();
  return choices.bundles.find(each => each.slug === slug) ?? null;
}

/** The names of the arguments: those of the opened tool, and those that stand in the request as `{name}`. */
export function argumentNames(fields: Fields, choices: Choices): string[] {
  const { url, query, headers, bodyKind, bodyForm, bodyText, own } = fields;
  const body = bodyKind === 'none' ? '' : isPaired(bodyKind) ? recordOfPairs(bodyForm) : marked(bodyText);
  const text = JSON.stringify([marked(url.trim()), recordOfPairs(query), recordOfPairs(headers), body]);
  const names = placeholdersIn(text, [...choices.secrets, ...Object.keys(bundleOf(fields, choices)?.variables ?? {})]);
  return [...own, ...names.filter(name => !own.includes(name))];
}

/** Every `${name}` in a text but secrets, which are known or written in capitals. */
function placeholdersIn(text: string, secrets: string[]): string[] {
  const names = [...text.matchAll(new RegExp(`(?<!\\$)\\$\\{(${NAME})(?:\\|\\w+)?\\}|\\\\"\\{(${NAME})\\}\\\\"`, 'g'))]
    .map(match => match[1] ?? match[2]);
  return [...new Set(names)].filter(name => !secrets.includes(name) && name !== name.toUpperCase());
}

const UNTYPED = argumentOf({ type: 'string' }, true);
export const argumentIn = ({ args }: Fields, name: string): Argument => args[name] ?? UNTYPED;

/** What a tool uses: its own auth, or that of its bundle. */
export function authKind({ auth }: Fields, bundle: Bundle | null): string {
  if (auth.kind !== null && (auth.kind !== 'inherit' || bundle?.auth)) return auth.kind;
  return bundle?.auth ? 'inherit' : 'none';
}

export const hasOwnAuth = (kind: string): boolean => kind !== 'none' && kind !== 'inherit';

export function secretChoice({ secret, kept }: Auth, secrets: string[]): string {
  if (secret === null) return kept === null ? (secrets[0] ?? NEW) : KEPT;
  return (secret === KEPT && kept !== null) || secrets.includes(secret) ? secret : NEW;
}

export function newSecretName(fields: Fields, choices: Choices): string {
  const { newName, secret } = fields.auth;
  const named = secret !== null && secret !== NEW && secret !== KEPT ? secret : null;
  return newName ?? named ?? `${(bundleName(fields, choices).trim() || 'api').replace(/\W+/g, '_').toUpperCase()}_TOKEN`;
}

/** The secret that was typed and is not stored yet. */
export function pendingSecret(fields: Fields, choices: Choices): { name: string; value: string } | null {
  const isNew = hasOwnAuth(authKind(fields, bundleOf(fields, choices))) && secretChoice(fields.auth, choices.secrets) === NEW;
  return isNew ? { name: newSecretName(fields, choices).trim(), value: fields.auth.password } : null;
}

function authOf(fields: Fields, choices: Choices): Json | null {
  const { auth } = fields;
  const bundle = bundleOf(fields, choices);
  const choice = secretChoice(auth, choices.secrets);
  const secret = choice === KEPT ? auth.kept : `\${${choice === NEW ? newSecretName(fields, choices).trim() : choice}}`;
  const scope = auth.scope.trim();
  switch (authKind(fields, bundle)) {
    case 'bearer': return { type: 'bearer', value: secret };
    case 'apiKey': return { type: 'apiKey', in: auth.in, name: auth.name.trim(), value: secret };
    case 'basic': return { type: 'basic', username: auth.username.trim(), password: secret };
    case 'oauth2': return {
      type: 'oauth2', tokenUrl: auth.tokenUrl.trim(), clientId: auth.clientId.trim(), clientSecret: secret, ...(scope ? { scope } : {})
    };
    case 'none': return bundle?.auth ? { type: 'none' } : null;
    default: return null;
  }
}

/** Whether all tools of the bundle get this auth. One that has it already, as after a save, keeps it. */
export function isAuthShared(fields: Fields, choices: Choices): boolean {
  const bundle = bundleOf(fields, choices);
  return fields.auth.isShared ?? (!bundle || (Boolean(bundle.auth) && isEqual(bundle.auth, authOf(fields, choices))));
}

/** The tool's record as the fields are now, on what the record had before; `wrong` collects what cannot be read. */
export function recordOf(fields: Fields, known: Json | null, choices: Choices, wrong: Fault[]): Json {
  const { http = {}, outputSchema, outputSchemaFrom, readOnly, limits } = known ?? {};
  const { query: _q, headers: _h, body: _b, bodyType: _t, auth: _a, ...others } = http.request ?? {};
  const request: Json = { ...others, method: fields.method, urlTemplate: marked(fields.url.trim()), ...bodyOf(fields, wrong) };
  const [query, headers, auth] = [recordOfPairs(fields.query), recordOfPairs(fields.headers), authOf(fields, choices)];
  if (Object.keys(query).length) request.query = query;
  if (Object.keys(headers).length) request.headers = headers;
  if (auth) request.auth = auth;
  const { selector, ...response } = http.response ?? {};
  const typed = fields.selector.trim();
  if (typed) response.selector = typed;
  else if (isObject(selector)) response.selector = selector;
  const record: Json = {
    type: 'http',
    displayName: toolName(fields).trim(),
    description: fields.description.trim() || `${fields.method} ${fields.url.trim().replace(/^https?:\/\/[^/]*/i, '') || '/'}`,
    tags: fields.tags.split(',').map(tag => tag.trim()).filter(Boolean),
    argSchema: schemaOf(fields, choices, wrong),
    http: { request, response }
  };
  const kept = { outputSchema, outputSchemaFrom, readOnly, limits };
  for (const [key, value] of Object.entries(kept)) if (value !== undefined) record[key] = value;
  return record;
}

function bodyOf({ bodyKind: kind, bodyText, bodyForm }: Fields, wrong: Fault[]): Json {
  if (kind === 'none') return {};
  if (isPaired(kind)) return { bodyType: kind, body: recordOfPairs(bodyForm) };
  if (kind === 'text') return { bodyType: 'text', body: bodyText };
  if (kind === 'binary') return { bodyType: 'binary', body: marked(bodyText.trim()) };
  try {
    const text = bodyText.replace(/([:[,]\s*)\$\{(\w+)\}(?=\s*[,\]}])/g, '$1"${$2}"'); // {"n": ${n}}
    return { bodyType: kind, body: JSON.parse(
      text, (_key, value) => (typeof value === 'string' && /^\{\w+\}$/.test(value) ? `$${value}` : value)
    ) };
  } catch (error) {
    wrong.push({ pointer: '/http/request/body', message: `This is not JSON: ${(error as Error).message}.` });
    return {};
  }
}

function schemaOf(fields: Fields, choices: Choices, wrong: Fault[]): Json {
  const { properties: _p, required: _r, ...whole } = fields.schema;
  const properties: Json = {};
  const required: string[] = [];
  for (const name of argumentNames(fields, choices)) {
    const { type, isRequired, preset, description, own } = argumentIn(fields, name);
    const { default: _d, description: _t, ...property } = (type === typeOf(own) ? own : type === 'file' ? FILE : { type }) as Json;
    if (description.trim()) property.description = description.trim();
    const value = read(type, preset, name, '/argSchema', wrong);
    if (value !== undefined) property.default = value;
    else if (isRequired) required.push(name);
    properties[name] = property;
  }
  return { type: 'object', additionalProperties: false, ...whole, properties, ...(required.length ? { required } : {}) };
}

/** The values to send; a file is to be read then, by `withFiles`. */
export function valuesOf(fields: Fields, choices: Choices, wrong: Fault[]): Json {
  const values: Json = {};
  for (const name of argumentNames(fields, choices)) {
    const { type, value, file } = argumentIn(fields, name);
    const own = type === 'file' ? (file ?? undefined) : read(type, value, name, `/args/${name}`, wrong);
    if (own !== undefined) values[name] = own;
  }
  return values;
}

export async function withFiles(values: Json): Promise<Json> {
  const all = Object.entries(values).map(async ([name, value]) => [name, value instanceof File ? await contentOf(value) : value]);
  return Object.fromEntries(await Promise.all(all));
}

async function contentOf(file: File): Promise<Json> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let letters = '';
  for (let at = 0; at < bytes.length; at += 8192) letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return { base64: btoa(letters), filename: file.name, ...(file.type ? { mime: file.type } : {}) };
}

/** The names of the required arguments that have no value to try. */
export function missingIn(fields: Fields, choices: Choices): string[] {
  const values = valuesOf(fields, choices, []);
  return argumentNames(fields, choices).filter(
    name => argumentIn(fields, name).isRequired && !argumentIn(fields, name).preset && values[name] === undefined
  );
}

function typeOf(own: Json): string {
  if (own.type === 'object' && own.properties?.base64) return 'file';
  return typeof own.type === 'string' && own.type in TYPES ? own.type : '';
}

/** A typed text as a value; undefined if it is empty. What cannot be read goes to `wrong`. */
function read(type: string, text: string, name: string, pointer: string, wrong: Fault[]): unknown {
  if (text === '' || type === 'string') return text === '' ? undefined : text;
  const fault = {
    integer: 'a whole number', number: 'a number', boolean: 'true or false', array: 'a list, such as [1, 2]',
    object: 'an object, such as {"a": 1}'
  }[type];
  try {
    const value: unknown = JSON.parse(text);
    const isOk = {
      integer: Number.isInteger(value), number: typeof value === 'number', boolean: typeof value === 'boolean', array: Array.isArray(value),
      object: isObject(value)
    }[type];
    if (isOk ?? true) return value;
  } catch {
    if (!type) return text;
  }
  wrong.push({
    pointer, message: pointer.startsWith('/args') ? `'${text}' is not ${fault}.` : `${name}: the default '${text}' is not ${fault}.`
  });
  return undefined;
}

/** The address that a request is sent to, and by which environment; empty where the URL says it. */
export function targetOf(fields: Fields, choices: Choices): string {
  const { environments = [], environment = '', variables = {}, baseUrl } = bundleOf(fields, choices) ?? {};
  const typed = fields.url.trim();
  const isRelative = /^[/?]/.test(typed);
  if (!typed || !(isRelative || environments.length)) return '';
  if (isRelative && !baseUrl) return 'A URL that begins with / needs a bundle with a base URL.';
  const named = marked(typed).replace(
    /(?<!\$)\$\{(\w+)\}/g,
    (_, name) => (name in variables && !fields.own.includes(name)
      ? encodeURIComponent(variables[name].replace(/\$\{\w+\}/g, '***'))
      : `{${name}}`)
  );
  const isHere = isRelative || pathBelow(typed, baseUrl) !== null;
  const whose = isHere ? ` (${environment})` : `, whatever the environment: this is not below ${baseUrl}`;
  return `Sent to ${isRelative ? baseUrl : ''}${named}${environment ? whose : ''}`;
}

/** The path of a whole address below a base URL; null if it is not below it. The kernel decides when it saves. */
export function pathBelow(url: string, baseUrl: string | undefined): string | null {
  const base = (baseUrl ?? '').replace(/\/$/, '');
  const isBelow = base !== '' && url.startsWith(base) && /^[/?]/.test(url.slice(base.length));
  return isBelow ? url.slice(base.length) : null;
}

/** The bundle of the same API, else a name from the host. */
function bundleFor(url: string, bundles: Bundle[]): string {
  const [origin, host] = /^https?:\/\/([^/?#:]*)(?::\d+)?/i.exec(url) ?? ['', ''];
  const same = origin && bundles.find(({ baseUrl }) => baseUrl && (baseUrl === origin || baseUrl.startsWith(`${origin}/`)));
  if (same) return same.slug;
  if (!host) return '';
  const names = host.toLowerCase().split('.').filter(part => /^[a-z]/.test(part) && !['www', 'api', 'localhost'].includes(part));
  return (names.length > 1 ? names.at(-2) : names[0]) ?? 'my-api';
}

/** A name from the method and the last fixed part of the path. */
function toolFor(method: string, url: string): string {
  const path = url.replace(/^https?:\/\/[^/]*/i, '').split(/[?#]/)[0];
  const part = path.split('/').filter(each => /^[\w-]+$/.test(each)).pop();
  return part ? `${method.toLowerCase()}-${part.toLowerCase().replaceAll('_', '-')}` : '';
}
