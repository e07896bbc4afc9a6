// A form made from a tool's JSON Schema: one field for each argument, and an editor for each kind of value. Empty fields
// are not sent; defaults are placeholders. Any field accepts a notebook variable as `=name`. The kernel reads the
// variables and checks the values. Nothing here knows the transport.
//
// An editor is the state of what is typed, in signals, and draws it; the form draws itself at once when one of them changes.
import { batch, signal, type Signal } from '@preact/signals';
import { type ComponentChild, createRef } from 'preact';
import { elementOf, uniqueId } from './dom.js';
import { withoutArgumentName } from './format.js';
import { drawInto, ErrorLines } from './parts.js';
import {
  escapePointer, fieldsOf, type FieldNode, isEqual, isMultiline, isObject, type ObjectNode, type PlainNode, type Schema, type SchemaNode,
  typeLabel, type UnionNode
} from './schema.js';

/** The value of a field that was left empty. */
const EMPTY = Symbol('empty');

const CONTROLS = 'input, select, textarea';

/** What the kernel says of some arguments: a sentence, and where it belongs, as a JSON pointer. */
export interface SchemaError {
  pointer: string;
  message: string;
  keyword?: string;
}

export interface Variable {
  name: string;
  kind: string;
}

interface Options {
  onChange?: (args: Schema) => void;
  onSubmit?: () => void;
  /** The variables to suggest; null if there is no answer, undefined if it is late. */
  variables?: () => Promise<Variable[] | null | undefined>;
}

export type Form = ReturnType<typeof createForm>;

/** Returns `{element, value(), set(args), showErrors(errors), focus(), focusError()}`. */
export function createForm(parameters: Schema, { onChange = () => {}, onSubmit = () => {}, variables = async () => [] }: Options = {}) {
  const value = (): Schema => valuesOf(fields);
  const names = variableNames(variables);
  const whole = { names, changed: () => onChange(value()) };
  const fields = fieldsOf(parameters, parameters).map(node => fieldOf(node, whole));
  const [required, optional] = [true, false].map(isRequired => fields.filter(field => field.isRequired === isRequired));
  const errors = signal<SchemaError[]>([]); // those that belong to no field
  const element = elementOf<HTMLFormElement>('form.otx-form', { novalidate: '', autocomplete: 'off' });
  element.addEventListener('submit', event => {
    event.preventDefault();
    onSubmit();
  });
  drawInto(element, () => (
    <>
      <datalist id={names.id}>{names.items.value.map(({ name, kind }) => <option key={name} value={`=${name}`}>{kind}</option>)}</datalist>
      <div class="otx-error" role="alert" tabIndex={-1} hidden={!errors.value.length}>
        {errors.value.map(({ pointer, message }, at) => <div key={at}>{pointer ? `${pointer}: ` : ''}{message}</div>)}
      </div>
      {required.map(field => field.draw())}
      {required.length && optional.length ? <div class="otx-divider">Optional</div> : null}
      {optional.map(field => field.draw())}
      {fields.length ? (
        <p class="otx-muted otx-tip">Any field accepts a notebook variable: <code>=name</code></p>
      ) : <p class="otx-muted">This tool takes no arguments.</p>}
      {/* Enter in a field of several submits a form only where it has such a button. */}
      <button type="submit" hidden tabIndex={-1} />
    </>
  ));
  return {
    element,
    value,
    set: (args: unknown): void => batch(() => setFields(fields, args)),
    showErrors: (found: SchemaError[]): void => batch(() => {
      const unshown = new Errors(found);
      for (const field of fields) field.place(unshown, '');
      errors.value = [...unshown.rest];
    }),
    focus: (): void => element.querySelector<HTMLElement>(CONTROLS)?.focus(),
    /** Focus the first invalid field. */
    focusError(): void {
      const first = [...element.querySelectorAll<HTMLElement>('[aria-invalid="true"], .otx-invalid, .otx-error')]
        .find(each => !each.closest('[hidden]'));
      const target = first?.matches('.otx-invalid') ? first.querySelector<HTMLElement>(`${CONTROLS}, button`) : first;
      target?.focus();
      target?.scrollIntoView?.({ block: 'nearest' });
    }
  };
}

/** The notebook's variables, suggested in a field that starts with `=`. */
function variableNames(variables: () => Promise<Variable[] | null | undefined>) {
  const items = signal<Variable[]>([]);
  let isAsked = false;
  /** A text was typed. The names are asked for when it begins to be one, and again if there was no answer. */
  const onInput = async (text: string, before: string): Promise<void> => {
    if (!text.startsWith('=') || (before.startsWith('=') && isAsked)) return;
    isAsked = true;
    const found = await variables();
    if (found) items.value = found;
    isAsked = found !== null;
  };
  return { id: uniqueId('names'), items, onInput };
}

/** The values of the fields by name, without the empty ones. */
function valuesOf(fields: Field[]): Schema {
  return Object.fromEntries(fields.map(field => [field.name, field.value()]).filter(([, value]) => value !== EMPTY));
}

function setFields(fields: Field[], value: unknown): void {
  const given = isObject(value) ? value : {};
  for (const field of fields) field.set(Object.hasOwn(given, field.name) ? given[field.name] : EMPTY);
}

/** The errors that no field has shown yet. */
class Errors {
  readonly rest: Set<SchemaError>;

  constructor(readonly all: SchemaError[]) {
    this.rest = new Set(all);
  }

  /** Take those at or below a pointer, as sentences. */
  take(pointer: string): string[] {
    const own = [...this.rest].filter(error => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`));
    for (const error of own) this.rest.delete(error);
    return own.map(error => withoutArgumentName(error.message));
  }

  /** Take those that say that something is missing at a pointer. */
  takeMissing(pointer: string): string[] {
    const missing = this.all.filter(error => error.keyword === 'required' && error.pointer === pointer);
    for (const error of missing) this.rest.delete(error);
    return missing.length ? ['This field is required.'] : [];
  }
}

/** What editors need of their form: `changed()` is called when the user has changed something. */
interface Whole {
  names: ReturnType<typeof variableNames>;
  changed: () => void;
}

/** How an editor is drawn; it has a label of its own where no `<label>` is for it. */
interface Look {
  'aria-describedby': string;
  'aria-invalid': boolean;
  'aria-label'?: string;
}

interface Editor {
  /** What its label is for; an editor made of others has none. */
  id?: string;
  isText?: boolean;
  value(): unknown;
  set(value: unknown): void;
  /** Show the errors that belong to its parts; `pointer` is its own place. */
  place?(errors: Errors, pointer: string): void;
  /** Fill in what has only one possible value, such as what distinguishes the branches of a union. */
  fix?(): void;
  draw(look: Look): ComponentChild;
}

function editorOf(name: string, node: SchemaNode, whole: Whole): Editor {
  switch (node.kind) {
    case 'enum': return choiceEditor(node, node.choices, whole);
    case 'boolean': return choiceEditor(node, [true, false], whole);
    case 'list': return rowsEditor(name, node.items, whole, false);
    case 'map': return rowsEditor(name, node.values, whole, true);
    case 'object': return objectEditor(name, node, whole);
    case 'union': return unionEditor(name, node, whole);
    case 'null': return { value: () => null, set() {}, draw: ({ 'aria-label': label }) => (
      <span class="otx-muted" aria-label={label}>null</span>
    ) };
    default: return textEditor(name, node, whole);
  }
}

type Field = ReturnType<typeof fieldOf>;
type Change = { currentTarget: { value: string } };

/** Keep what the user types or chooses. */
function keep(text: Signal<string>, changed: () => void) {
  return ({ currentTarget: { value } }: Change): void => {
    text.value = value;
    changed();
  };
}

/** An argument. The name of a notebook variable can stand in place of an editor that has no text input. */
function fieldOf({ name, isRequired, node }: FieldNode, whole: Whole) {
  const ids = { error: uniqueId('error'), help: uniqueId('help') };
  const editor = editorOf(name, node, whole);
  const messages = signal<string[]>([]);
  const isVariable = signal(false);
  const variable = signal('');
  const input = createRef<HTMLInputElement>();
  const value = (): unknown => {
    const text = variable.peek().trim();
    return !isVariable.peek() ? editor.value() : text === '' ? EMPTY : text.startsWith('=') ? text : `=${text}`;
  };
  const set = (given: unknown): void => {
    isVariable.value = !editor.isText && typeof given === 'string' && isVariableName(given);
    variable.value = isVariable.peek() ? (given as string) : '';
    editor.set(isVariable.peek() ? EMPTY : given);
  };
  const toggle = (): void => {
    isVariable.value = !isVariable.peek();
    input.current?.focus();
    whole.changed();
  };
  const help = typeof node.schema.description === 'string' && node.schema.description;
  const draw = () => {
    const look = { 'aria-describedby': help ? `${ids.help} ${ids.error}` : ids.error, 'aria-invalid': messages.value.length > 0 };
    return (
      <div key={name} class="otx-field">
        <div class="otx-label-row">
          <label class="otx-label" for={editor.id}>
            <span class="otx-name">{name}</span>
            {isRequired ? <span class="otx-required" title="required" aria-label="required">*</span> : null}
            <span class="otx-type">{typeLabel(node)}</span>
          </label>
          {editor.isText ? null : (
            <button
              class="otx-variable-toggle" type="button" title="Use a notebook variable" aria-label={`${name}: use a notebook variable`}
              aria-pressed={isVariable.value} onClick={toggle}
            >
              =
            </button>
          )}
        </div>
        {help ? <div class="otx-help" id={ids.help}>{help}</div> : null}
        {isVariable.value ? (
          <div>
            {textLine(whole, variable, { ...look, 'aria-label': `${name}, a notebook variable`, placeholder: '=name', ref: input })}
          </div>
        ) : editor.draw(look)}
        <ErrorLines id={ids.error} messages={messages.value} />
      </div>
    );
  };
  return {
    name,
    isRequired,
    value,
    set,
    fix: () => isRequired && node.kind === 'enum' && node.choices.length === 1 && set(node.choices[0]),
    place(errors: Errors, parent: string): void {
      const pointer = `${parent}/${escapePointer(name)}`;
      editor.place?.(errors, pointer);
      const own = errors.take(pointer);
      messages.value = [...own, ...(isRequired && value() === EMPTY ? errors.takeMissing(parent) : [])];
    },
    draw
  };
}

/** A line of text, which suggests the names of variables. */
function textLine({ names, changed }: Whole, text: Signal<string>, attributes: object) {
  const onInput = (event: Change): void => {
    void names.onInput(event.currentTarget.value, text.peek());
    keep(text, changed)(event);
  };
  return (
    <input
      class="otx-input" type="text" value={text.value} list={text.value.startsWith('=') ? names.id : undefined} spellcheck={false}
      onInput={onInput} {...attributes}
    />
  );
}

/** A list, or an object with any keys (`isMap`). */
function rowsEditor(name: string, node: SchemaNode, whole: Whole, isMap: boolean): Editor {
  const rowOf = (value: unknown, key = '') => {
    const editor = editorOf(name, node, whole);
    editor.set(value);
    return { id: uniqueId('error'), key: signal(key), messages: signal<string[]>([]), editor };
  };
  type Row = ReturnType<typeof rowOf>;
  const rows = signal<Row[]>([]);
  /** A value that is no list, or an empty one; it counts while there are no rows. */
  const unlisted = signal<unknown>(EMPTY);
  const body = createRef<HTMLDivElement>();
  const add = createRef<HTMLButtonElement>();
  const append = (): void => {
    rows.value = [...rows.peek(), rowOf(EMPTY)];
    body.current?.lastElementChild?.querySelector<HTMLElement>(`${CONTROLS}, button`)?.focus();
    whole.changed();
  };
  const remove = (row: Row): void => {
    unlisted.value = EMPTY;
    rows.value = rows.peek().filter(each => each !== row);
    add.current?.focus();
    whole.changed();
  };
  const drawRow = (row: Row, at: number) => (
    <div key={row.id} class="otx-row">
      {isMap ? (
        <input
          class="otx-input" type="text" value={row.key.value} placeholder="key" aria-label={`${name}, key`}
          onInput={keep(row.key, whole.changed)}
        />
      ) : null}
      <div class="otx-grow">
        {row.editor.draw({
          'aria-describedby': row.id, 'aria-invalid': row.messages.value.length > 0,
          'aria-label': isMap ? `${name}, value` : `${name}, item ${at + 1}`
        })}
        <ErrorLines id={row.id} messages={row.messages.value} />
      </div>
      <button
        class="otx-small" type="button" title="Remove" aria-label={isMap ? `Remove from ${name}` : `Remove item ${at + 1} of ${name}`}
        onClick={() => remove(row)}
      >
        ×
      </button>
    </div>
  );
  return {
    value() {
      const pairs = rows.peek()
        .map(({ key, editor }) => [key.peek(), editor.value()] as const)
        .filter(([key, value]) => value !== EMPTY && (key || !isMap));
      if (isMap) return pairs.length ? Object.fromEntries(pairs) : EMPTY;
      return rows.peek().length ? pairs.map(([, value]) => value) : unlisted.peek();
    },
    set(value) {
      const pairs = isMap ? Object.entries(isObject(value) ? value : {}) : Array.isArray(value) ? value.map(each => ['', each]) : [];
      rows.value = pairs.map(([key, each]) => rowOf(each, key));
      unlisted.value = pairs.length || isMap ? EMPTY : value;
    },
    place(errors, pointer) {
      rows.peek().forEach(({ editor, key, messages }, at) => {
        const own = `${pointer}/${isMap ? escapePointer(key.peek()) : at}`;
        editor.place?.(errors, own);
        messages.value = errors.take(own);
      });
    },
    draw: ({ 'aria-invalid': isInvalid, 'aria-label': label = name, ...described }) => (
      <div class={isInvalid ? 'otx-list otx-invalid' : 'otx-list'} role="group" aria-label={label} {...described}>
        <div class="otx-rows" ref={body}>
          {rows.value.length || unlisted.value === EMPTY || Array.isArray(unlisted.value) ? null : (
            <div class="otx-muted">{textOf(unlisted.value)}</div>
          )}
          {rows.value.map(drawRow)}
        </div>
        <button class="otx-small" type="button" ref={add} onClick={append}>+ Add to {name}</button>
      </div>
    )
  };
}

function objectEditor(name: string, node: ObjectNode, whole: Whole): Editor {
  const fields = node.fields.map(field => fieldOf(field, whole));
  return {
    value() {
      const found = valuesOf(fields);
      return Object.keys(found).length ? found : EMPTY;
    },
    set: value => setFields(fields, value),
    fix: () => fields.forEach(field => field.fix()),
    place: (errors, pointer) => fields.forEach(field => field.place(errors, pointer)),
    draw: ({ 'aria-invalid': isInvalid, 'aria-label': label = name, ...described }) => (
      <fieldset class={isInvalid ? 'otx-group otx-invalid' : 'otx-group'} aria-label={label} {...described}>
        {fields.map(field => field.draw())}
      </fieldset>
    )
  };
}

function unionEditor(name: string, { branches }: UnionNode, whole: Whole): Editor {
  const id = uniqueId('union');
  const chosen = signal<{ at: number; editor: Editor } | null>(null);
  const choose = (at: number): void => {
    const editor = at < 0 ? null : editorOf(name, branches[at].node, whole);
    editor?.fix?.();
    chosen.value = editor && { at, editor };
  };
  const onChange = ({ currentTarget: { value } }: Change): void => {
    choose(value === '' ? -1 : Number(value));
    whole.changed();
  };
  return {
    id,
    value: () => (chosen.peek() ? chosen.peek()!.editor.value() : EMPTY),
    set(value) {
      const scores = value === EMPTY ? [] : branches.map(branch => matchScore(branch.node, value));
      choose(scores.indexOf(Math.max(...scores)));
      chosen.peek()?.editor.set(value);
    },
    place: (errors, pointer) => chosen.peek()?.editor.place?.(errors, pointer),
    draw(look) {
      const { at = '', editor = null } = chosen.value ?? {};
      return (
        <div class="otx-union">
          <select class="otx-input" id={id} value={String(at)} onChange={onChange} {...look} aria-invalid={look['aria-invalid'] && !editor}>
            <option value="">choose ...</option>
            {branches.map(({ label }, number) => <option key={number} value={String(number)}>{label}</option>)}
          </select>
          <div key={at} class="otx-branch">{editor?.draw({ ...look, 'aria-label': look['aria-label'] ?? name })}</div>
        </div>
      );
    }
  };
}

/** A line or a box of text: strings, numbers, and JSON for schemas that the form cannot show. */
function textEditor(name: string, node: PlainNode, whole: Whole): Editor {
  const { kind, schema, isNullable } = node;
  const id = uniqueId('field');
  const text = signal('');
  return {
    id,
    isText: true,
    value() {
      const typed = text.peek();
      const trimmed = typed.trim();
      if (trimmed === '') return typed !== '' && kind === 'string' ? typed : EMPTY;
      if (isVariableName(typed)) return trimmed;
      if (isNullable && trimmed === 'null') return null;
      if (kind === 'string') return trimmed === '""' ? '' : typed;
      return parseValue(trimmed);
    },
    set(value) {
      if (value === EMPTY) text.value = '';
      else if (typeof value === 'string') text.value = value === '' ? '""' : value;
      else text.value = JSON.stringify(value, null, kind === 'any' ? 1 : undefined);
    },
    draw(look) {
      const attributes = { id, placeholder: placeholderOf(node), ...look };
      const isBox = kind === 'any' || (kind === 'string' && isMultiline(name, schema));
      if (!isBox) return textLine(whole, text, { inputmode: kind === 'string' ? undefined : 'decimal', ...attributes });
      return (
        <textarea
          class="otx-input" rows={kind === 'any' ? 2 : 3} value={text.value} spellcheck={false} onInput={keep(text, whole.changed)}
          {...attributes}
        />
      );
    }
  };
}

function choiceEditor({ schema, isNullable }: SchemaNode, choices: unknown[], whole: Whole): Editor {
  const id = uniqueId('field');
  /** The number of the choice, `null`, or `other`: a value typed as JSON that is none; the kernel reports that it is invalid. */
  const at = signal('');
  const other = signal<unknown>(EMPTY);
  return {
    id,
    value: () => (at.peek() === ''
      ? EMPTY
      : at.peek() === 'null'
      ? null
      : at.peek() === 'other'
      ? other.peek()
      : choices[Number(at.peek())]),
    set(value) {
      const number = choices.findIndex(choice => isEqual(choice, value));
      const isOther = value !== EMPTY && number < 0 && !(value === null && isNullable);
      other.value = isOther ? value : EMPTY;
      at.value = value === EMPTY ? '' : number >= 0 ? String(number) : isOther ? 'other' : 'null';
    },
    draw: look => (
      <select class="otx-input" id={id} value={at.value} onChange={keep(at, whole.changed)} {...look}>
        <option value="">{'default' in schema ? `default: ${JSON.stringify(schema.default)}` : 'choose ...'}</option>
        {choices.map((choice, number) => <option key={number} value={String(number)}>{textOf(choice)}</option>)}
        {isNullable ? <option value="null">null</option> : null}
        {other.value === EMPTY ? null : <option value="other">{textOf(other.value)}</option>}
      </select>
    )
  };
}

/** How well a value matches a schema node: the union shows the value in its best branch. */
function matchScore(node: SchemaNode, value: unknown): number {
  if (node.kind === 'any') return 0.5;
  if (node.kind === 'enum') return node.choices.some(choice => isEqual(choice, value)) ? 3 : -1;
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
  if (typeof value === 'string' && isVariableName(value)) return node.kind === 'string' ? 1 : 1.5;
  return typeof value === node.kind ? 2 : -1;
}

/** Whether a text names a notebook variable; `==text` means the text `=text`. */
function isVariableName(text: string): boolean {
  return /^=[\p{L}_][\p{L}\p{N}_]*([.[].*)?$/u.test(text.trim());
}

function parseValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    // A number that JavaScript cannot hold exactly is sent as typed; Python reads it.
    return typeof value === 'number' && !isExact(text, value) ? text : value;
  } catch {
    return text;
  }
}

function isExact(text: string, value: number): boolean {
  return /[.eE]/.test(text) ? Number.isFinite(value) : Number.isSafeInteger(value);
}

function placeholderOf({ schema, kind }: PlainNode): string {
  if ('default' in schema) return typeof schema.default === 'string' ? schema.default || '""' : JSON.stringify(schema.default);
  const example = Array.isArray(schema.examples) ? schema.examples[0] : undefined;
  if (example !== undefined) return `e.g. ${textOf(example)}`;
  return kind === 'any' ? 'JSON' : '';
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
