// The editors of a form's fields, one per kind of schema. Each has `element`, `id`, `value()` and `set(value)`; NOTHING
// stands for what was left empty. Those with parts inside also show their errors.
import { fill, h, show, uid } from './dom.js';
import { fieldsOf, isLong, isObject, typeText } from './schema.js';
import { atField, fit, hint, isVariable, parsed, wordOf } from './typed.js';

export const NOTHING = Symbol('nothing');

/** The fields of an object's schema, required ones first. */
export function fieldsFor(schema, changed) {
  return fieldsOf(schema, schema).map(field => new Field(field.name, field, '', changed));
}

/** What the fields hold, without what was left empty. */
export function collected(fields) {
  const found = {};
  for (const field of fields) {
    const value = field.value();
    if (value !== NOTHING) found[field.name] = value;
  }
  return found;
}

class Field {
  constructor(name, { isRequired, node }, parent, changed) {
    this.name = name;
    this.isRequired = isRequired;
    this.only = isRequired && node.kind === 'enum' && node.choices.length === 1 ? node.choices[0] : NOTHING;
    this.pointer = `${parent}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    this.error = h('div.otx-error', { role: 'alert', id: uid('error'), hidden: true });
    this.editor = editorOf(name, node, this.pointer, changed, this.error.id);
    this.variable = this.editor instanceof Text ? null : new Named(name, this.error.id, changed, isOn => show(this.editor.element, !isOn));
    const said = node.schema.description;
    const label = h(
      'label.otx-label',
      { for: this.editor.isMany ? null : this.editor.id },
      h('span.otx-name', null, name),
      isRequired ? h('span.otx-required', { title: 'required', 'aria-label': 'required' }, '*') : null,
      h('span.otx-type', null, typeText(node))
    );
    this.element = h(
      'div.otx-field',
      null,
      h('div.otx-label-row', null, label, this.variable?.toggle),
      typeof said === 'string' && said ? h('div.otx-help', { id: `${this.editor.id}-help` }, said) : null,
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
    this.editor.set(this.variable?.isOn ? NOTHING : value);
  }

  showErrors(errors, left) {
    this.editor.showErrors?.(errors, left);
    const own = errors.filter(error => left.has(error) && (error.pointer === this.pointer || (!this.editor.showErrors && error.pointer.startsWith(`${this.pointer}/`))));
    for (const error of own) left.delete(error);
    show(fill(this.error, own.map(error => h('div', null, atField(error.message)))), own.length > 0);
    this.editor.mark?.(own.length > 0);
  }
}

/** A notebook variable in the place of an editor that takes no text. */
class Named {
  constructor(name, errorId, changed, onTurn) {
    Object.assign(this, { isOn: false, onTurn });
    this.input = h('input.otx-input', { type: 'text', placeholder: '=name', 'aria-label': `${name}, a notebook variable`, 'aria-describedby': errorId, spellcheck: 'false', oninput: changed });
    this.element = show(h('div', null, this.input), false);
    this.toggle = h('button.otx-equals', { type: 'button', title: 'Take a notebook variable', 'aria-label': `${name}: take a notebook variable`, 'aria-pressed': 'false', onclick: () => {
      this.turn(!this.isOn);
      if (this.isOn) this.input.focus();
      changed();
    } }, '=');
  }

  turn(isOn) {
    this.isOn = isOn;
    show(this.element, isOn);
    this.toggle.setAttribute('aria-pressed', String(isOn));
    this.onTurn(isOn);
  }

  value() {
    const text = this.input.value.trim();
    return text === '' ? NOTHING : text.startsWith('=') ? text : `=${text}`;
  }

  set(value) {
    const isOne = typeof value === 'string' && isVariable(value);
    this.input.value = isOne ? value : '';
    this.turn(isOne);
  }
}

function editorOf(name, node, pointer, changed, errorId) {
  const make = { enum: Choice, boolean: Switch, list: List, object: Group, map: Pairs, union: Union, null: Null }[node.kind] ?? Text;
  return new make({ name, node, pointer, changed, errorId });
}

/** One line or box of text: strings, numbers, and JSON for what has no form of its own. */
class Text {
  constructor({ name, node, changed, errorId }) {
    this.id = uid('field');
    this.node = node;
    const isBox = node.kind === 'any' || (node.kind === 'string' && isLong(name, node.schema));
    const common = { id: this.id, placeholder: hint(node), 'aria-describedby': errorId, spellcheck: 'false', oninput: changed };
    this.input = isBox
      ? h('textarea.otx-input', { ...common, rows: node.kind === 'any' ? 2 : 3 })
      : h('input.otx-input', { ...common, type: 'text', inputmode: node.kind === 'string' ? null : 'decimal' });
    this.element = this.input;
  }

  value() {
    const text = this.input.value;
    if (text.trim() === '') return text !== '' && this.node.kind === 'string' ? text : NOTHING;
    if (isVariable(text)) return text.trim();
    if (this.node.isNullable && text.trim() === 'null') return null;
    if (this.node.kind === 'string') return text.trim() === '""' ? '' : text;
    return parsed(text.trim());
  }

  set(value) {
    if (value === NOTHING) this.input.value = '';
    else if (typeof value === 'string') this.input.value = value === '' ? '""' : value;
    else this.input.value = JSON.stringify(value, null, this.node.kind === 'any' ? 1 : undefined);
  }

  mark(isWrong) {
    this.input.setAttribute('aria-invalid', String(isWrong));
  }
}

class Choice {
  constructor({ node, changed, errorId }) {
    this.id = uid('field');
    this.choices = node.choices;
    this.other = null;
    const preset = 'default' in node.schema ? `default: ${JSON.stringify(node.schema.default)}` : 'choose ...';
    const options = [h('option', { value: '' }, preset), ...this.choices.map((choice, i) => h('option', { value: String(i) }, wordOf(choice)))];
    if (node.isNullable) options.push(h('option', { value: 'null' }, 'null'));
    this.input = h('select.otx-input', { id: this.id, 'aria-describedby': errorId, onchange: changed }, options);
    this.element = this.input;
  }

  value() {
    const chosen = this.input.value;
    if (chosen === '') return NOTHING;
    if (chosen === 'null') return null;
    return chosen === 'other' ? this.other : this.choices[Number(chosen)];
  }

  set(value) {
    this.input.querySelector('option[value="other"]')?.remove();
    const at = this.choices.findIndex(choice => JSON.stringify(choice) === JSON.stringify(value));
    if (value === NOTHING) this.input.value = '';
    else if (at >= 0) this.input.value = String(at);
    else if (value === null && this.input.querySelector('option[value="null"]')) this.input.value = 'null';
    else {
      this.other = value; // kept, so that nothing typed as JSON is lost; the checker says that it is wrong
      this.input.append(h('option', { value: 'other' }, wordOf(value)));
      this.input.value = 'other';
    }
  }

  mark(isWrong) {
    this.input.setAttribute('aria-invalid', String(isWrong));
  }
}

class Switch extends Choice {
  constructor(given) {
    super({ ...given, node: { ...given.node, choices: [true, false] } });
  }
}

class Null {
  constructor() {
    this.id = uid('field');
    this.element = h('span.otx-quiet', { id: this.id }, 'null');
  }

  value() {
    return null;
  }

  set() {}
}

class List {
  constructor({ name, node, pointer, changed }) {
    this.id = uid('list');
    this.isMany = true;
    Object.assign(this, { name, node, pointer, changed, rows: [], whole: NOTHING });
    this.body = h('div.otx-rows');
    this.add = h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append(true) }, `+ Add to ${name}`);
    this.element = h('div.otx-list', { role: 'group', 'aria-label': name }, this.body, this.add);
  }

  append(isByHand, value = NOTHING) {
    const at = this.rows.length;
    const error = h('div.otx-error', { role: 'alert', id: uid('error'), hidden: true });
    const editor = editorOf(this.name, this.node.items, `${this.pointer}/${at}`, this.changed, error.id);
    editor.set(value);
    const row = { editor, error };
    const remove = h('button.otx-small', { type: 'button', title: 'Remove', 'aria-label': `Remove item ${at + 1} of ${this.name}`, onclick: () => this.remove(row) }, '×');
    row.element = h('div.otx-row', null, h('div.otx-grow', null, editor.element, error), remove);
    editor.element.setAttribute('aria-label', `${this.name}, item ${at + 1}`);
    this.rows.push(row);
    this.body.append(row.element);
    if (isByHand) {
      row.element.querySelector('input, select, textarea, button')?.focus();
      this.changed();
    }
  }

  remove(row) {
    const values = this.rows.filter(each => each !== row).map(each => each.editor.value());
    this.set(NOTHING);
    for (const value of values) this.append(false, value);
    this.add.focus();
    this.changed();
  }

  value() {
    if (this.whole !== NOTHING && this.rows.length === 0) return this.whole;
    const values = this.rows.map(row => row.editor.value()).filter(value => value !== NOTHING);
    return this.rows.length ? values : NOTHING;
  }

  set(value) {
    this.rows = [];
    this.body.replaceChildren();
    this.whole = Array.isArray(value) && value.length ? NOTHING : value;
    if (Array.isArray(value)) for (const each of value) this.append(false, each);
    else if (value !== NOTHING) this.body.append(h('div.otx-quiet', null, wordOf(value)));
  }

  showErrors(errors, left) {
    this.rows.forEach((row, at) => {
      row.editor.showErrors?.(errors, left);
      const start = `${this.pointer}/${at}`;
      const own = errors.filter(error => left.has(error) && (error.pointer === start || error.pointer.startsWith(`${start}/`)));
      for (const error of own) left.delete(error);
      show(fill(row.error, own.map(error => h('div', null, atField(error.message)))), own.length > 0);
    });
  }
}

class Group {
  constructor({ name, node, pointer, changed }) {
    this.id = uid('group');
    this.isMany = true;
    this.fields = node.fields.map(field => new Field(field.name, field, pointer, changed));
    this.element = h('fieldset.otx-group', { id: this.id, 'aria-label': name }, this.fields.map(field => field.element));
  }

  value() {
    const found = collected(this.fields);
    return Object.keys(found).length ? found : NOTHING;
  }

  set(value) {
    const given = isObject(value) ? value : {};
    for (const field of this.fields) field.set(Object.hasOwn(given, field.name) ? given[field.name] : NOTHING);
  }

  /** Fill in what can be nothing else, such as the word that tells the branches of a union apart. */
  fix() {
    for (const field of this.fields) if (field.only !== NOTHING) field.set(field.only);
  }

  showErrors(errors, left) {
    for (const field of this.fields) field.showErrors(errors, left);
  }
}

/** An object whose keys are free. */
class Pairs {
  constructor({ name, node, pointer, changed }) {
    this.id = uid('pairs');
    this.isMany = true;
    Object.assign(this, { name, node, pointer, changed, rows: [] });
    this.body = h('div.otx-rows');
    this.element = h('div.otx-list', { role: 'group', 'aria-label': name }, this.body, h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append('', NOTHING, true) }, `+ Add to ${name}`));
  }

  append(key, value, isByHand) {
    const editor = editorOf(this.name, this.node.values, `${this.pointer}/${key}`, this.changed, '');
    editor.set(value);
    const label = h('input.otx-input', { type: 'text', value: key, placeholder: 'key', 'aria-label': `${this.name}, key`, oninput: this.changed });
    editor.element.setAttribute('aria-label', `${this.name}, value`);
    const row = { label, editor };
    row.element = h('div.otx-row', null, label, h('div.otx-grow', null, editor.element), h('button.otx-small', {
      type: 'button', title: 'Remove', 'aria-label': `Remove from ${this.name}`,
      onclick: () => {
        this.rows = this.rows.filter(each => each !== row);
        row.element.remove();
        this.changed();
      }
    }, '×'));
    this.rows.push(row);
    this.body.append(row.element);
    if (isByHand) {
      label.focus();
      this.changed();
    }
  }

  value() {
    const found = {};
    for (const { label, editor } of this.rows) {
      const value = editor.value();
      if (label.value && value !== NOTHING) found[label.value] = value;
    }
    return Object.keys(found).length ? found : NOTHING;
  }

  set(value) {
    this.rows = [];
    this.body.replaceChildren();
    for (const [key, each] of Object.entries(isObject(value) ? value : {})) this.append(key, each, false);
  }
}

class Union {
  constructor({ name, node, pointer, changed, errorId }) {
    this.id = uid('union');
    Object.assign(this, { name, node, pointer, changed, errorId, editor: null });
    const options = [h('option', { value: '' }, 'choose ...'), ...node.branches.map((branch, i) => h('option', { value: String(i) }, branch.label))];
    this.select = h('select.otx-input', { id: this.id, 'aria-describedby': errorId, onchange: () => {
      this.choose(this.select.value);
      this.changed();
    } }, options);
    this.body = h('div.otx-branch');
    this.element = h('div.otx-union', null, this.select, this.body);
  }

  choose(at) {
    this.select.value = at;
    this.editor = at === '' ? null : editorOf(this.name, this.node.branches[Number(at)].node, this.pointer, this.changed, this.errorId);
    this.editor?.element.setAttribute('aria-label', this.name);
    this.editor?.fix?.();
    fill(this.body, this.editor?.element);
  }

  value() {
    return this.editor ? this.editor.value() : NOTHING;
  }

  set(value) {
    this.choose(value === NOTHING ? '' : String(this.fitting(value)));
    this.editor?.set(value);
  }

  fitting(value) {
    const scores = this.node.branches.map(branch => fit(branch.node, value));
    return scores.indexOf(Math.max(...scores));
  }

  showErrors(errors, left) {
    this.editor?.showErrors?.(errors, left);
  }
}
