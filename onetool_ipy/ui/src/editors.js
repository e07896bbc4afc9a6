// A form's fields, and the editors that have parts inside: lists, objects, unions. Each editor has `element`, `id`,
// `value()`, `set(value)` and `mark(isWrong)`; those with parts also show the errors of these.
import { fill, h, show, uid } from './dom.js';
import { Choice, NOTHING, Null, Switch, Text } from './inputs.js';
import { fieldsOf, isObject, typeText } from './schema.js';
import { atField, fit, isVariable, wordOf } from './typed.js';

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
    this.parent = parent;
    this.pointer = `${parent}/${escaped(name)}`;
    const said = node.schema.description;
    this.error = h('div.otx-error', { role: 'alert', id: uid('error'), hidden: true });
    this.help = typeof said === 'string' && said ? h('div.otx-help', { id: uid('help') }, said) : null;
    const about = this.help ? `${this.help.id} ${this.error.id}` : this.error.id;
    this.editor = editorOf(name, node, this.pointer, changed, about);
    this.variable = this.editor instanceof Text ? null : new Named(name, about, changed, isOn => show(this.editor.element, !isOn));
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
    this.editor.set(this.variable?.isOn ? NOTHING : value);
  }

  showErrors(errors, left) {
    this.editor.showErrors?.(errors, left);
    const own = errors.filter(error => left.has(error) && isAt(error, this.pointer));
    const missing = this.isRequired && this.value() === NOTHING ? errors.filter(error => error.keyword === 'required' && error.pointer === this.parent) : [];
    for (const error of [...own, ...missing]) left.delete(error);
    const said = [...own.map(error => atField(error.message)), ...(missing.length ? ['It is needed.'] : [])];
    const isNamed = this.variable?.isOn ?? false;
    tell(this.error, said);
    this.variable?.mark(isNamed && said.length > 0);
    this.editor.mark(!isNamed && said.length > 0);
  }
}

/** A name as a part of a JSON pointer. */
function escaped(name) {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function isAt(error, pointer) {
  return error.pointer === pointer || error.pointer.startsWith(`${pointer}/`);
}

function tell(element, messages) {
  show(fill(element, messages.map(message => h('div', null, message))), messages.length > 0);
}

/** A notebook variable in the place of an editor that takes no text. */
class Named {
  constructor(name, about, changed, onTurn) {
    Object.assign(this, { isOn: false, onTurn });
    this.input = h('input.otx-input', { type: 'text', placeholder: '=name', 'aria-label': `${name}, a notebook variable`, 'aria-describedby': about, spellcheck: 'false', oninput: changed });
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

  mark(isWrong) {
    this.input.setAttribute('aria-invalid', String(isWrong));
  }
}

/** `about` are the ids of what is said of the field: its help, its error. */
function editorOf(name, node, pointer, changed, about) {
  const make = { enum: Choice, boolean: Switch, list: List, object: Group, map: Pairs, union: Union, null: Null }[node.kind] ?? Text;
  return new make({ name, node, pointer, changed, about });
}

/** Something with parts: it has no value of its own to call wrong, so its frame is marked. */
class Parts {
  constructor(element, about) {
    this.isMany = true;
    this.element = element;
    if (about) element.setAttribute('aria-describedby', about);
  }

  mark(isWrong) {
    this.element.classList.toggle('otx-wrong', isWrong);
  }
}

class List extends Parts {
  constructor({ name, node, pointer, changed, about }) {
    super(h('div.otx-list', { role: 'group', 'aria-label': name }), about);
    this.id = uid('list');
    Object.assign(this, { name, node, pointer, changed, rows: [], whole: NOTHING });
    this.body = h('div.otx-rows');
    this.add = h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append(true) }, `+ Add to ${name}`);
    fill(this.element, this.body, this.add);
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
      rowErrors(row, `${this.pointer}/${at}`, errors, left);
    });
  }
}

/** Show at a row what is wrong with it, as far as no part of it has said so. */
function rowErrors({ editor, error: place }, pointer, errors, left) {
  const own = errors.filter(error => left.has(error) && isAt(error, pointer));
  for (const error of own) left.delete(error);
  tell(place, own.map(error => atField(error.message)));
  editor.mark(own.length > 0);
}

class Group extends Parts {
  constructor({ name, node, pointer, changed, about }) {
    super(h('fieldset.otx-group', { 'aria-label': name }), about);
    this.id = uid('group');
    this.fields = node.fields.map(field => new Field(field.name, field, pointer, changed));
    fill(this.element, this.fields.map(field => field.element)).id = this.id;
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
class Pairs extends Parts {
  constructor({ name, node, pointer, changed, about }) {
    super(h('div.otx-list', { role: 'group', 'aria-label': name }), about);
    this.id = uid('pairs');
    Object.assign(this, { name, node, pointer, changed, rows: [] });
    this.body = h('div.otx-rows');
    fill(this.element, this.body, h('button.otx-small', { type: 'button', id: this.id, onclick: () => this.append('', NOTHING, true) }, `+ Add to ${name}`));
  }

  append(key, value, isByHand) {
    const error = h('div.otx-error', { role: 'alert', id: uid('error'), hidden: true });
    const editor = editorOf(this.name, this.node.values, `${this.pointer}/${escaped(key)}`, this.changed, error.id);
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

  showErrors(errors, left) {
    for (const row of this.rows) {
      row.editor.showErrors?.(errors, left);
      rowErrors(row, `${this.pointer}/${escaped(row.label.value)}`, errors, left);
    }
  }
}

class Union {
  constructor({ name, node, pointer, changed, about }) {
    this.id = uid('union');
    Object.assign(this, { name, node, pointer, changed, about, editor: null });
    const options = [h('option', { value: '' }, 'choose ...'), ...node.branches.map((branch, i) => h('option', { value: String(i) }, branch.label))];
    this.select = h('select.otx-input', { id: this.id, 'aria-describedby': about, onchange: () => {
      this.choose(this.select.value);
      this.changed();
    } }, options);
    this.body = h('div.otx-branch');
    this.element = h('div.otx-union', null, this.select, this.body);
  }

  choose(at) {
    this.select.value = at;
    this.editor = at === '' ? null : editorOf(this.name, this.node.branches[Number(at)].node, this.pointer, this.changed, this.about);
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

  mark(isWrong) {
    this.select.setAttribute('aria-invalid', String(isWrong && !this.editor));
    this.editor?.mark(isWrong);
  }
}
