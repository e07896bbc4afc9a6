// What is typed into a form as a value, and a value as what is shown of it.
import { isObject } from './schema.js';

/** How well a value fits a branch, to choose the one to show it in. */
export function fit(node, value) {
  if (node.kind === 'any') return 0.5;
  if (node.kind === 'enum') return node.choices.some(choice => JSON.stringify(choice) === JSON.stringify(value)) ? 3 : -1;
  if (value === null) return node.kind === 'null' || node.isNullable ? 2 : -1;
  if (Array.isArray(value)) return node.kind === 'list' ? 2 : -1;
  if (isObject(value)) {
    if (node.kind === 'map') return 1;
    if (node.kind !== 'object') return -1;
    return node.fields.reduce((sum, field) => {
      if (!Object.hasOwn(value, field.name)) return sum - (field.isRequired ? 1 : 0);
      return sum + (fit(field.node, value[field.name]) > 0 ? 1 : -2);
    }, 1);
  }
  if (typeof value === 'number') return node.kind === 'integer' && Number.isInteger(value) ? 2.5 : node.kind === 'number' ? 2 : -1;
  if (typeof value === 'string' && isVariable(value)) return node.kind === 'string' ? 1 : 1.5;
  return typeof value === node.kind ? 2 : -1;
}

/** Whether a text names a notebook variable; `==text` is the text `=text`. */
export function isVariable(text) {
  return /^\s*=[\p{L}_][\p{L}\p{N}_]*([.[].*)?\s*$/u.test(text);
}

export function parsed(text) {
  try {
    const value = JSON.parse(text);
    // What JavaScript cannot hold exactly goes as it was typed, and Python reads it.
    return typeof value === 'number' && !isExact(text, value) ? text : value;
  } catch {
    return text;
  }
}

function isExact(text, value) {
  return /[.eE]/.test(text) ? Number.isFinite(value) : Number.isSafeInteger(value);
}

export function hint(node) {
  const { schema } = node;
  if ('default' in schema) return typeof schema.default === 'string' ? schema.default || '""' : JSON.stringify(schema.default);
  const example = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
  if (example !== undefined) return `e.g. ${typeof example === 'string' ? example : JSON.stringify(example)}`;
  return node.kind === 'any' ? 'JSON' : '';
}

export function wordOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What is wrong, said where it is wrong: without the name that stands above it. */
export function atField(message) {
  return message.replace(/^argument '[^']*': /, '');
}
