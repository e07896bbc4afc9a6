// The editors of one value: a text, a choice, a switch, null. NOTHING stands for what was left empty; `about` are the ids
// of what is said of the field, its help and its error.
import { h, uid } from './dom.js';
import { isLong } from './schema.js';
import { hint, isVariable, parsed, wordOf } from './typed.js';

export const NOTHING = Symbol('nothing');

/** One line or box of text: strings, numbers, and JSON for what has no form of its own. */
export class Text {
  constructor({ name, node, changed, about }) {
    this.id = uid('field');
    this.node = node;
    const isBox = node.kind === 'any' || (node.kind === 'string' && isLong(name, node.schema));
    const common = { id: this.id, placeholder: hint(node), 'aria-describedby': about, spellcheck: 'false', oninput: changed };
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

export class Choice {
  constructor({ node, changed, about }) {
    this.id = uid('field');
    this.choices = node.choices;
    this.other = null;
    const preset = 'default' in node.schema ? `default: ${JSON.stringify(node.schema.default)}` : 'choose ...';
    const options = [h('option', { value: '' }, preset), ...this.choices.map((choice, i) => h('option', { value: String(i) }, wordOf(choice)))];
    if (node.isNullable) options.push(h('option', { value: 'null' }, 'null'));
    this.input = h('select.otx-input', { id: this.id, 'aria-describedby': about, onchange: changed }, options);
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

export class Switch extends Choice {
  constructor(given) {
    super({ ...given, node: { ...given.node, choices: [true, false] } });
  }
}

export class Null {
  constructor() {
    this.id = uid('field');
    this.element = h('span.otx-quiet', { id: this.id }, 'null');
  }

  value() {
    return null;
  }

  set() {}

  mark() {}
}
