// Reads a JSON Schema into the nodes that the form draws. It checks no values: the kernel does, with the checker of
// `%tool`.

const MAX_DEPTH = 6;
const TYPES = ['string', 'number', 'integer', 'boolean', 'array', 'object', 'null'];

export type Schema = Record<string, any>;

interface Described {
  schema: Schema;
  /** `X or null` has the node of X. */
  isNullable?: boolean;
}

export type PlainNode = Described & { kind: 'any' | 'string' | 'number' | 'integer' };
type EnumNode = Described & { kind: 'enum'; choices: unknown[] };
type ListNode = Described & { kind: 'list'; items: SchemaNode };
export type ObjectNode = Described & { kind: 'object'; fields: FieldNode[] };
type MapNode = Described & { kind: 'map'; values: SchemaNode };
export type UnionNode = Described & { kind: 'union'; branches: Branch[] };

/** What the form draws. A schema that it cannot show has the kind `any`: a JSON field. */
export type SchemaNode = PlainNode | EnumNode | ListNode | ObjectNode | MapNode | UnionNode | (Described & { kind: 'boolean' | 'null' });

export interface FieldNode {
  name: string;
  isRequired: boolean;
  node: SchemaNode;
}

interface Branch {
  node: SchemaNode;
  label: string;
}

function nodeOf(schema: unknown, root: Schema, depth: number): SchemaNode {
  const found = resolve(schema, root);
  if (found === null || depth > MAX_DEPTH) return { kind: 'any', schema: isObject(schema) ? schema : {} };
  if ('const' in found) return { kind: 'enum', schema: found, choices: [found.const] };
  if (Array.isArray(found.enum)) return { kind: 'enum', schema: found, choices: found.enum };
  const branches = branchesOf(found);
  return branches ? union(found, branches, root, depth) : plain(found, root, depth);
}

/** The arguments of a tool, required ones first. An argument with a default is optional. */
export function fieldsOf(schema: Schema, root: Schema, depth = 0): FieldNode[] {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = Object.entries(properties).map(([name, part]) => ({
    name,
    isRequired: required.has(name) && !('default' in (resolve(part, root) ?? {})),
    node: nodeOf(part, root, depth + 1)
  }));
  return [...fields.filter(field => field.isRequired), ...fields.filter(field => !field.isRequired)];
}

/** A short label for the expected type: `integer, 1 to 10`. */
export function typeLabel(node: SchemaNode): string {
  const { schema } = node;
  if (node.kind === 'enum') return node.choices.length === 1 ? 'fixed' : `one of ${node.choices.length}`;
  if (node.kind === 'union') return node.branches.map(branch => branch.label).join(' or ');
  const name = node.kind === 'any' ? 'JSON' : node.kind === 'map' ? 'names and values' : node.kind;
  const [low, high] = [schema.minimum ?? schema.exclusiveMinimum, schema.maximum ?? schema.exclusiveMaximum];
  const bounds = low !== undefined && high !== undefined
    ? `, ${low} to ${high}`
    : low !== undefined
    ? `, from ${low}`
    : high !== undefined
    ? `, up to ${high}`
    : '';
  const format = typeof schema.format === 'string' ? `, ${schema.format}` : '';
  return `${name}${bounds}${format}`;
}

/** Whether a text argument gets a box instead of a line. */
export function isMultiline(name: string, schema: Schema): boolean {
  if (typeof schema.maxLength === 'number' && schema.maxLength <= 200) return false;
  return schema.contentMediaType !== undefined || /^(body|code|content|html|markdown|message|prompt|sql|text|thought)$/i.test(name);
}

export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A name as one part of a JSON pointer. */
export function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Whether two JSON values are the same. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((each, at) => isEqual(each, b[at]));
  if (!isObject(a) || !isObject(b)) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every(key => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

/** A schema with its local `$ref` followed and simple `allOf` merged; null if that is not possible. */
function resolve(schema: unknown, root: Schema, seen = new Set<string>()): Schema | null {
  if (schema === true || schema === undefined) return {};
  if (!isObject(schema)) return null;
  if (typeof schema.$ref === 'string') {
    if (seen.has(schema.$ref)) return null;
    seen.add(schema.$ref);
    const target = lookup(root, schema.$ref);
    const { $ref: _, ...beside } = schema;
    const base = target === undefined ? null : resolve(target, root, seen);
    return base === null ? null : { ...base, ...beside };
  }
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...rest } = schema;
    const parts = allOf.map(part => resolve(part, root, new Set(seen)));
    return parts.reduce<Schema | null>((merged, part) => (merged && part ? merge(merged, part) : null), rest);
  }
  return schema;
}

function lookup(root: Schema, ref: string): unknown {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  let at: any = root;
  for (const part of ref.slice(2).split('/')) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

function merge(a: Schema, b: Schema): Schema {
  const properties = a.properties || b.properties ? { properties: { ...a.properties, ...b.properties } } : {};
  const required = a.required || b.required ? { required: [...(a.required ?? []), ...(b.required ?? [])] } : {};
  return { ...a, ...b, ...properties, ...required };
}

function branchesOf(schema: Schema): unknown[] | null {
  const given = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(given) && given.length) {
    const { anyOf: _, oneOf: __, description, title, default: ___, ...shared } = schema;
    return given.map(part => (isObject(part) && Object.keys(shared).length && !part.$ref ? merge(shared, part) : part));
  }
  return Array.isArray(schema.type) && schema.type.length > 1 ? schema.type.map(type => ({ ...schema, type })) : null;
}

function union(schema: Schema, parts: unknown[], root: Schema, depth: number): SchemaNode {
  const branches = parts.map(part => {
    const node = nodeOf(part, root, depth + 1);
    return { node, label: labelOf(part, node, root) };
  });
  const real = branches.filter(branch => branch.node.kind !== 'null');
  // `X or null` gets the editor of X, which also accepts null.
  if (real.length === 1 && branches.length === 2) {
    const annotations = Object.fromEntries(
      ['description', 'default'].filter(key => schema[key] !== undefined).map(key => [key, schema[key]])
    );
    return { ...real[0].node, schema: { ...real[0].node.schema, ...annotations }, isNullable: true };
  }
  const labels = new Map<string, number>();
  for (const branch of branches) {
    const n = (labels.get(branch.label) ?? 0) + 1;
    labels.set(branch.label, n);
    if (n > 1) branch.label = `${branch.label} ${n}`;
  }
  return { kind: 'union', schema, branches };
}

function labelOf(part: unknown, node: SchemaNode, root: Schema): string {
  const found = resolve(part, root) ?? {};
  if (typeof found.title === 'string' && found.title) return found.title;
  const named = Object.entries<any>(isObject(found.properties) ? found.properties : {}).find(
    ([, each]) => isObject(each) && ('const' in each || (Array.isArray(each.enum) && each.enum.length === 1))
  );
  if (named) return `${named[0]}: ${named[1].const ?? named[1].enum[0]}`;
  if (node.kind === 'enum') return node.choices.map(choice => JSON.stringify(choice)).join(', ').slice(0, 40);
  if (node.kind === 'list') return `list of ${node.items.kind}`;
  return node.kind === 'any' ? 'JSON' : node.kind;
}

function plain(schema: Schema, root: Schema, depth: number): SchemaNode {
  const guess = isObject(schema.properties)
    ? 'object'
    : schema.items !== undefined || schema.prefixItems !== undefined
    ? 'array'
    : undefined;
  const type = schema.type ?? guess;
  const only = Array.isArray(type) ? type[0] : type;
  if (!TYPES.includes(only)) return { kind: 'any', schema };
  if (only === 'array') return list(schema, root, depth);
  if (only === 'object') return object(schema, root, depth);
  return { kind: only, schema };
}

function list(schema: Schema, root: Schema, depth: number): SchemaNode {
  if (Array.isArray(schema.prefixItems) || Array.isArray(schema.items)) return { kind: 'any', schema };
  if (schema.items === undefined || schema.items === true) return { kind: 'list', schema, items: { kind: 'any', schema: {} } };
  return { kind: 'list', schema, items: nodeOf(schema.items, root, depth + 1) };
}

function object(schema: Schema, root: Schema, depth: number): SchemaNode {
  const fields = fieldsOf(schema, root, depth);
  const more = schema.additionalProperties;
  if (fields.length) return { kind: 'object', schema, fields };
  return isObject(more) ? { kind: 'map', schema, values: nodeOf(more, root, depth + 1) } : { kind: 'any', schema };
}
