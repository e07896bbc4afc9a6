// A form made from a tool's JSON Schema: one field for each argument, and an editor for each kind of value. Empty fields
// are not sent; defaults are placeholders. Any field accepts a notebook variable as `=name`. The kernel reads the
// variables and checks the values. Nothing here knows the transport.
//
// Every editor has `element`, `id`, `value()`, `set(value)` and `markInvalid(isInvalid)`. Composite editors (list, object,
// map, union) also have `showErrors(errors, unshown)`, which removes from `unshown` the errors it shows.
import { fill, h, show, uniqueId } from './dom.js';
import { fieldsOf, isMultiline, isObject, typeLabel } from './schema.js';

/** The value of a field that was left empty. */
const EMPTY = Symbol('empty');

/** Returns `{element, value(), set(args), showErrors([{pointer, message}]), focus(), focusError()}`. */
export function createForm(parameters, { onChange = () => {}, onSubmit = () => {}, variables = async () => [] } = {}) {
  const fields = fieldsOf(parameters, parameters).map(field => new Field(field.name, field, '', changed));
  const generalErrors = h('div.otx-error', { role: 'alert', tabindex: '-1', hidden: true });
  const element = h('form.otx-form', { novalidate: true, autocomplete: 'off' });
  const optional = fields.filter(field => !field.isRequired);
  fill(
    element,
    generalErrors,
    fields.filter(field => field.isRequired).map(field => field.element),
    optional.length > 0 && optional.length < fields.length ? h('div.otx-divider', null, 'Optional') : null,
    optional.map(field => field.element),
    fields.length === 0 ? h('p.otx-muted', null, 'This tool takes no arguments.') : null,
    fields.length ? h('p.otx-muted.otx-tip', null, 'Any field accepts a notebook variable: ', h('code', null, '=name')) : null
  );
  suggestVariables(element, variables);
  element.addEventListener('submit', event => {
    event.preventDefault();
    onSubmit();
  });

  function changed() {
    onChange(value());
  }

  function value() {
    return valuesOf(fields);
  }

  return {
    element,
    value,
    set(args) {
      const given = isObject(args) ? args : {};
      for (const field of fields) field.set(Object.hasOwn(given, field.name) ? given[field.name] : EMPTY);
    },
    showErrors(errors) {
      const unshown = new Set(errors);
      for (const field of fields) field.showErrors(errors, unshown);
      // Errors that belong to no field are shown above all fields.
      show(fill(generalErrors, [...unshown].map(error => h('div', null, `${error.pointer ? `${error.pointer}: ` : ''}${error.message}`))), unshown.size > 0);
    },
    focus() {
      element.querySelector('input, select, textarea')?.focus();
    },
    /** Focus the first invalid field. */
    focusError() {
      const first = [...element.querySelectorAll('[aria-invalid="true"], .otx-invalid, .otx-error')].find(each => !each.closest('[hidden]'));
      const target = first?.matches('.otx-invalid') ? first.querySelector('input, select, textarea, button') : first;
      target?.focus();
      target?.scrollIntoView?.({ block: 'nearest' });
    }
  };
}

/** Suggest the notebook's variables in a field that starts with `=`. */
function suggestVariables(form, variables) {
  const names = h('datalist', { id: uniqueId('names') });
  form.prepend(names);
  form.addEventListener('input', async event => {
    const { target } = event;
    if (target.tagName !== 'INPUT' || target.type !== 'text') return;
    const isVariableName = target.value.startsWith('=');
    if (!isVariableName) target.removeAttribute('list');
    if (!isVariableName || target.hasAttribute('list')) return;
    target.setAttribute('list', names.id);
    const found = await variables();
    if (found === null) target.removeAttribute('list'); // typing on asks again
    else if (found) fill(names, found.map(({ name, kind }) => h('option', { value: `=${name}` }, kind)));
  });
}

/** The values of the fields by name, without the empty ones. */
function valuesOf(fields) {
  const found = {};
  for (const field of fields) {
    const value = field.value();
    if (value !== EMPTY) found[field.name] = value;
  }
  return found;
}

class Field {
  constructor(name, { isRequired, node }, parent, changed) {
    this.name = name;
    this.isRequired = isRequired;
    this.fixedValue = isRequired && node.kind === 'enum' && node.choices.length === 1 ? node.choices[0] : EMPTY;
    this.parent = parent;
    this.pointer = `${parent}/${escapePointer(name)}`;
    const { description } = node.schema;
    this.error = h('div.otx-error', { role: 'alert', id: uniqueId('error'), hidden: true });
    this.help = typeof description === 'string' && description ? h('div.otx-help', { id: uniqueId('help') }, description) : null;
    const describedBy = this.help ? `${this.help.id} ${this.error.id}` : this.error.id;
    this.editor = createEditor(name, node, this.pointer, changed, describedBy);
    this.variable = this.editor instanceof TextEditor ? null : new VariableInput(name, describedBy, changed, isOn => show(this.editor.element, !isOn));
    const label = h(
      'label.otx-label',
      { for: this.editor.isComposite ? null : this.editor.id },
      h('span.otx-name', null, name),
      isRequired ? h('span.otx-required', { title: 'required', 'aria-label': 'required' }, '*') : null,
      h('span.otx-type', null, typeLabel(node))
    );
    this.element = h(
      'div.otx-field',
      null,
      h('div.otx-label-row', null, label, this.variable?.toggle),
      this.help,
      this.editor.element,
      this.variable?.element,
      this.error
    );
  }

  value() {
    return this.variable?.isOn ? this.variable.value() : this.editor.value();
  }

  set(value) {
    this.variable?.set(value);
    this.editor.set(this.variable?.isOn ? EMPTY : value);
  }

  showErrors(errors, unshown) {
    this.editor.showErrors?.(errors, unshown);
    const own = errors.filter(error => unshown.has(error) && isAt(error, this.pointer));
    const missing = this.isRequired && this.value() === EMPTY ? errors.filter(error => error.keyword === 'required' && error.pointer === this.parent) : [];
    for (const error of [...own, ...missing]) unshown.delete(error);
    const messages = [...own.map(error => withoutArgumentName(error.message)), ...(missing.length ? ['This field is required.'] : [])];
    const isVariableOn = this.variable?.isOn ?? false;
    showMessages(this.error, messages);
    this.variable?.markInvalid(isVariableOn && messages.length > 0);
    this.editor.markInvalid(!isVariableOn && messages.length > 0);
  }
}

/** A name as one part of a JSON pointer. */
function escapePointer(name) {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function isAt(error, pointer) {
  return error.pointer === pointer || error.pointer.startsWith(`${pointer}/`);
}

function showMessages(element, messages) {
  show(fill(element, messages.map(message => h('div', null, message))), messages.length > 0);
}

/** The name of a notebook variable, in place of an editor that has no text input. */
class VariableInput {
  constructor(name, describedBy, changed, onToggle) {
    Object.assign(this, { isOn: false, onToggle });
    this.input = h('input.otx-input', { type: 'text', placeholder: '=name', 'aria-label': `${name}, a notebook variable`, 'aria-describedby': describedBy, spellcheck: 'false', oninput: changed });
    this.element = show(h('div', null, this.input), false);
    this.toggle = h('button.otx-variable-toggle', { type: 'button', title: 'Use a notebook variable', 'aria-label': `${name}: use a notebook variable`, 'aria-pressed': 'false', onclick: () => {
      this.setOn(!this.isOn);
      if (this.isOn) this.input.focus();
      changed();
    } }, '=');
  }

  setOn(isOn) {
    this.isOn = isOn;
    show(this.element, isOn);
    this.toggle.setAttribute('aria-pressed', String(isOn));
    this.onToggle(isOn);
  }

  value() {
    const text = this.input.value.trim();
    return text === '' ? EMPTY : text.startsWith('=') ? text : `=${text}`;
  }

  set(value) {
    const isName = typeof value === 'string' && isVariable(value);
    this.input.value = isName ? value : '';
    this.setOn(isName);
  }

  markInvalid(isInvalid) {
    this.input.setAttribute('aria-invalid', String(isInvalid));
  }
}

/** Create the editor for a schema node. `describedBy` holds the ids of the field's help and error elements. */
function createEditor(name, node, pointer, changed, describedBy) {
  const Editor = { enum: ChoiceEditor, boolean: BooleanEditor, list: ListEditor, object: ObjectEditor, map: MapEditor, union: UnionEditor, null: NullEditor }[node.kind] ?? TextEditor;
  return new Editor({ name, node, pointer, changed, describedBy });
}

/** An editor made of other editors. It has no input of its own, so its frame is marked when it is invalid. */
class CompositeEditor {
  constructor(element, describedBy) {
    this.isComposite = true;
    this.element = element;
    if (describedBy) element.setAttribute('aria-describedby', describedBy);
  }

  markInvalid(isInvalid) {
    this.element.classList.toggle('otx-invalid', isInvalid);
  }
}

class ListEditor extends CompositeEditor {
  constructor({ name, node, pointer, changed, describedBy }) {
    super(h('div.otx-list', { role: 'group', 'aria-label': name }), describedBy);
    this.id = uniqueId('list');
    Object.assign(this, { name, node, pointer, changed, rows: [], unlisted: EMPTY });
    this.body = h('div.otx-rows');
    this.add = h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append(true) }, `+ Add to ${name}`);
    fill(this.element, this.body, this.add);
  }

  append(isByUser, value = EMPTY) {
    const at = this.rows.length;
    const error = h('div.otx-error', { role: 'alert', id: uniqueId('error'), hidden: true });
    const editor = createEditor(this.name, this.node.items, `${this.pointer}/${at}`, this.changed, error.id);
    editor.set(value);
    const row = { editor, error };
    const remove = h('button.otx-small', { type: 'button', title: 'Remove', 'aria-label': `Remove item ${at + 1} of ${this.name}`, onclick: () => this.remove(row) }, '×');
    row.element = h('div.otx-row', null, h('div.otx-grow', null, editor.element, error), remove);
    editor.element.setAttribute('aria-label', `${this.name}, item ${at + 1}`);
    this.rows.push(row);
    this.body.append(row.element);
    if (isByUser) {
      row.element.querySelector('input, select, textarea, button')?.focus();
      this.changed();
    }
  }

  remove(row) {
    const values = this.rows.filter(each => each !== row).map(each => each.editor.value());
    this.set(EMPTY);
    for (const value of values) this.append(false, value);
    this.add.focus();
    this.changed();
  }

  value() {
    if (this.unlisted !== EMPTY && this.rows.length === 0) return this.unlisted;
    const values = this.rows.map(row => row.editor.value()).filter(value => value !== EMPTY);
    return this.rows.length ? values : EMPTY;
  }

  set(value) {
    this.rows = [];
    this.body.replaceChildren();
    this.unlisted = Array.isArray(value) && value.length ? EMPTY : value;
    if (Array.isArray(value)) for (const each of value) this.append(false, each);
    else if (value !== EMPTY) this.body.append(h('div.otx-muted', null, textOf(value)));
  }

  showErrors(errors, unshown) {
    this.rows.forEach((row, at) => {
      row.editor.showErrors?.(errors, unshown);
      showRowErrors(row, `${this.pointer}/${at}`, errors, unshown);
    });
  }
}

/** Show the errors of a row that its editor has not shown. */
function showRowErrors({ editor, error: place }, pointer, errors, unshown) {
  const own = errors.filter(error => unshown.has(error) && isAt(error, pointer));
  for (const error of own) unshown.delete(error);
  showMessages(place, own.map(error => withoutArgumentName(error.message)));
  editor.markInvalid(own.length > 0);
}

class ObjectEditor extends CompositeEditor {
  constructor({ name, node, pointer, changed, describedBy }) {
    super(h('fieldset.otx-group', { 'aria-label': name }), describedBy);
    this.id = uniqueId('group');
    this.fields = node.fields.map(field => new Field(field.name, field, pointer, changed));
    fill(this.element, this.fields.map(field => field.element)).id = this.id;
  }

  value() {
    const found = valuesOf(this.fields);
    return Object.keys(found).length ? found : EMPTY;
  }

  set(value) {
    const given = isObject(value) ? value : {};
    for (const field of this.fields) field.set(Object.hasOwn(given, field.name) ? given[field.name] : EMPTY);
  }

  /** Fill in fields with one possible value, such as the one that distinguishes the branches of a union. */
  setFixedValues() {
    for (const field of this.fields) if (field.fixedValue !== EMPTY) field.set(field.fixedValue);
  }

  showErrors(errors, unshown) {
    for (const field of this.fields) field.showErrors(errors, unshown);
  }
}

/** An object with any keys. */
class MapEditor extends CompositeEditor {
  constructor({ name, node, pointer, changed, describedBy }) {
    super(h('div.otx-list', { role: 'group', 'aria-label': name }), describedBy);
    this.id = uniqueId('pairs');
    Object.assign(this, { name, node, pointer, changed, rows: [] });
    this.body = h('div.otx-rows');
    fill(this.element, this.body, h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append('', EMPTY, true) }, `+ Add to ${name}`));
  }

  append(key, value, isByUser) {
    const error = h('div.otx-error', { role: 'alert', id: uniqueId('error'), hidden: true });
    const editor = createEditor(this.name, this.node.values, `${this.pointer}/${escapePointer(key)}`, this.changed, error.id);
    editor.set(value);
    const label = h('input.otx-input', { type: 'text', value: key, placeholder: 'key', 'aria-label': `${this.name}, key`, oninput: this.changed });
    editor.element.setAttribute('aria-label', `${this.name}, value`);
    const row = { label, editor, error };
    row.element = h('div.otx-row', null, label, h('div.otx-grow', null, editor.element, error), h('button.otx-small', {
      type: 'button', title: 'Remove', 'aria-label': `Remove from ${this.name}`,
      onclick: () => {
        this.rows = this.rows.filter(each => each !== row);
        row.element.remove();
        this.changed();
      }
    }, '×'));
    this.rows.push(row);
    this.body.append(row.element);
    if (isByUser) {
      label.focus();
      this.changed();
    }
  }

  value() {
    const found = {};
    for (const { label, editor } of this.rows) {
      const value = editor.value();
      if (label.value && value !== EMPTY) found[label.value] = value;
    }
    return Object.keys(found).length ? found : EMPTY;
  }

  set(value) {
    this.rows = [];
    this.body.replaceChildren();
    for (const [key, each] of Object.entries(isObject(value) ? value : {})) this.append(key, each, false);
  }

  showErrors(errors, unshown) {
    for (const row of this.rows) {
      row.editor.showErrors?.(errors, unshown);
      showRowErrors(row, `${this.pointer}/${escapePointer(row.label.value)}`, errors, unshown);
    }
  }
}

class UnionEditor {
  constructor({ name, node, pointer, changed, describedBy }) {
    this.id = uniqueId('union');
    Object.assign(this, { name, node, pointer, changed, describedBy, editor: null });
    const options = [h('option', { value: '' }, 'choose ...'), ...node.branches.map((branch, i) => h('option', { value: String(i) }, branch.label))];
    this.select = h('select.otx-input', { id: this.id, 'aria-describedby': describedBy, onchange: () => {
      this.choose(this.select.value);
      this.changed();
    } }, options);
    this.body = h('div.otx-branch');
    this.element = h('div.otx-union', null, this.select, this.body);
  }

  choose(at) {
    this.select.value = at;
    this.editor = at === '' ? null : createEditor(this.name, this.node.branches[Number(at)].node, this.pointer, this.changed, this.describedBy);
    this.editor?.element.setAttribute('aria-label', this.name);
    this.editor?.setFixedValues?.();
    fill(this.body, this.editor?.element);
  }

  value() {
    return this.editor ? this.editor.value() : EMPTY;
  }

  set(value) {
    this.choose(value === EMPTY ? '' : String(this.bestBranch(value)));
    this.editor?.set(value);
  }

  bestBranch(value) {
    const scores = this.node.branches.map(branch => matchScore(branch.node, value));
    return scores.indexOf(Math.max(...scores));
  }

  showErrors(errors, unshown) {
    this.editor?.showErrors?.(errors, unshown);
  }

  markInvalid(isInvalid) {
    this.select.setAttribute('aria-invalid', String(isInvalid && !this.editor));
    this.editor?.markInvalid(isInvalid);
  }
}

/** A line or a box of text: strings, numbers, and JSON for schemas that the form cannot show. */
class TextEditor {
  constructor({ name, node, changed, describedBy }) {
    this.id = uniqueId('field');
    this.node = node;
    const isBox = node.kind === 'any' || (node.kind === 'string' && isMultiline(name, node.schema));
    const common = { id: this.id, placeholder: placeholderOf(node), 'aria-describedby': describedBy, spellcheck: 'false', oninput: changed };
    this.input = isBox
      ? h('textarea.otx-input', { ...common, rows: node.kind === 'any' ? 2 : 3 })
      : h('input.otx-input', { ...common, type: 'text', inputmode: node.kind === 'string' ? null : 'decimal' });
    this.element = this.input;
  }

  value() {
    const text = this.input.value;
    if (text.trim() === '') return text !== '' && this.node.kind === 'string' ? text : EMPTY;
    if (isVariable(text)) return text.trim();
    if (this.node.isNullable && text.trim() === 'null') return null;
    if (this.node.kind === 'string') return text.trim() === '""' ? '' : text;
    return parseValue(text.trim());
  }

  set(value) {
    if (value === EMPTY) this.input.value = '';
    else if (typeof value === 'string') this.input.value = value === '' ? '""' : value;
    else this.input.value = JSON.stringify(value, null, this.node.kind === 'any' ? 1 : undefined);
  }

  markInvalid(isInvalid) {
    this.input.setAttribute('aria-invalid', String(isInvalid));
  }
}

class ChoiceEditor {
  constructor({ node, changed, describedBy }) {
    this.id = uniqueId('field');
    this.choices = node.choices;
    this.other = null;
    const preset = 'default' in node.schema ? `default: ${JSON.stringify(node.schema.default)}` : 'choose ...';
    const options = [h('option', { value: '' }, preset), ...this.choices.map((choice, i) => h('option', { value: String(i) }, textOf(choice)))];
    if (node.isNullable) options.push(h('option', { value: 'null' }, 'null'));
    this.input = h('select.otx-input', { id: this.id, 'aria-describedby': describedBy, onchange: changed }, options);
    this.element = this.input;
  }

  value() {
    const chosen = this.input.value;
    if (chosen === '') return EMPTY;
    if (chosen === 'null') return null;
    return chosen === 'other' ? this.other : this.choices[Number(chosen)];
  }

  set(value) {
    this.input.querySelector('option[value="other"]')?.remove();
    const at = this.choices.findIndex(choice => JSON.stringify(choice) === JSON.stringify(value));
    if (value === EMPTY) this.input.value = '';
    else if (at >= 0) this.input.value = String(at);
    else if (value === null && this.input.querySelector('option[value="null"]')) this.input.value = 'null';
    else {
      this.other = value; // keep what was typed as JSON; the kernel reports that it is invalid
      this.input.append(h('option', { value: 'other' }, textOf(value)));
      this.input.value = 'other';
    }
  }

  markInvalid(isInvalid) {
    this.input.setAttribute('aria-invalid', String(isInvalid));
  }
}

class BooleanEditor extends ChoiceEditor {
  constructor(given) {
    super({ ...given, node: { ...given.node, choices: [true, false] } });
  }
}

class NullEditor {
  constructor() {
    this.id = uniqueId('field');
    this.element = h('span.otx-muted', { id: this.id }, 'null');
  }

  value() {
    return null;
  }

  set() {}

  markInvalid() {}
}

/** How well a value matches a schema node: the union shows the value in its best branch. */
function matchScore(node, value) {
  if (node.kind === 'any') return 0.5;
  if (node.kind === 'enum') return node.choices.some(choice => JSON.stringify(choice) === JSON.stringify(value)) ? 3 : -1;
  if (value === null) return node.kind === 'null' || node.isNullable ? 2 : -1;
  if (Array.isArray(value)) return node.kind === 'list' ? 2 : -1;
  if (isObject(value)) {
    if (node.kind === 'map') return 1;
    if (node.kind !== 'object') return -1;
    return node.fields.reduce((sum, field) => {
      if (!Object.hasOwn(value, field.name)) return sum - (field.isRequired ? 1 : 0);
      return sum + (matchScore(field.node, value[field.name]) > 0 ? 1 : -2);
    }, 1);
  }
  if (typeof value === 'number') return node.kind === 'integer' && Number.isInteger(value) ? 2.5 : node.kind === 'number' ? 2 : -1;
  if (typeof value === 'string' && isVariable(value)) return node.kind === 'string' ? 1 : 1.5;
  return typeof value === node.kind ? 2 : -1;
}

/** Whether a text names a notebook variable; `==text` means the text `=text`. */
function isVariable(text) {
  return /^=[\p{L}_][\p{L}\p{N}_]*([.[].*)?$/u.test(text.trim());
}

function parseValue(text) {
  try {
    const value = JSON.parse(text);
    // A number that JavaScript cannot hold exactly is sent as typed; Python reads it.
    return typeof value === 'number' && !isExact(text, value) ? text : value;
  } catch {
    return text;
  }
}

function isExact(text, value) {
  return /[.eE]/.test(text) ? Number.isFinite(value) : Number.isSafeInteger(value);
}

function placeholderOf(node) {
  const { schema } = node;
  if ('default' in schema) return typeof schema.default === 'string' ? schema.default || '""' : JSON.stringify(schema.default);
  const example = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
  if (example !== undefined) return `e.g. ${typeof example === 'string' ? example : JSON.stringify(example)}`;
  return node.kind === 'any' ? 'JSON' : '';
}

function textOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
