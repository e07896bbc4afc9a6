// The form: every kind of field, what is sent and what is not, errors at their field, labels.
import assert from 'node:assert/strict';
import test from 'node:test';
import { type, ui, until } from './page.mjs';

const { createForm } = await ui('form');

function formOf(properties, required = [], more = {}) {
  const form = createForm({ type: 'object', properties, required, ...more });
  document.body.replaceChildren(form.element);
  return form;
}
const field = (form, name) => [...form.element.querySelectorAll('.otx-field')].find(each => each.querySelector('.otx-name').textContent === name);
const input = (form, name) => field(form, name).querySelector('input, select, textarea');

test('required arguments come first, and empty fields are not sent', () => {
  const form = formOf({ limit: { type: 'integer', default: 5 }, query: { type: 'string' } }, ['query']);
  assert.deepEqual([...form.element.querySelectorAll('.otx-name')].map(each => each.textContent), ['query', 'limit']);
  assert.equal(input(form, 'limit').placeholder, '5');
  assert.deepEqual(form.value(), {});
});

test('values get the types of the schema', () => {
  const form = formOf({ s: { type: 'string' }, i: { type: 'integer' }, n: { type: 'number' }, b: { type: 'boolean' }, e: { enum: ['a', 2, null] } });
  type(input(form, 's'), '12');
  type(input(form, 'i'), '12');
  type(input(form, 'n'), '1.50');
  type(input(form, 'b'), '1');
  type(input(form, 'e'), '1');
  assert.deepEqual(form.value(), { s: '12', i: 12, n: 1.5, b: false, e: 2 });
});

test('text that is not a number, or a number that JavaScript cannot hold, is sent as typed', () => {
  const form = formOf({ i: { type: 'integer' } });
  type(input(form, 'i'), 'three');
  assert.deepEqual(form.value(), { i: 'three' });
  type(input(form, 'i'), '12345678901234567890');
  assert.deepEqual(form.value(), { i: '12345678901234567890' });
});

test('an empty text can be entered', () => {
  const form = formOf({ s: { type: 'string' } });
  type(input(form, 's'), '""');
  assert.deepEqual(form.value(), { s: '' });
  form.set({ s: '' });
  assert.equal(input(form, 's').value, '""');
});

test('a notebook variable is sent as =name from any field', () => {
  const form = formOf({ df: { type: 'array', items: {} }, n: { type: 'integer' }, s: { type: 'string' } });
  type(input(form, 'n'), '=count');
  type(input(form, 's'), '=df.name');
  assert.deepEqual(form.value(), { n: '=count', s: '=df.name' });
});

test('lists grow and shrink', () => {
  const form = formOf({ tags: { type: 'array', items: { type: 'string' } } });
  const add = field(form, 'tags').querySelector('button.otx-small');
  add.click();
  add.click();
  const [first, second] = field(form, 'tags').querySelectorAll('input');
  type(first, 'a');
  type(second, 'b');
  assert.deepEqual(form.value(), { tags: ['a', 'b'] });
  field(form, 'tags').querySelector('[aria-label="Remove item 1 of tags"]').click();
  assert.deepEqual(form.value(), { tags: ['b'] });
});

test('nested objects, references and unions have fields of their own', () => {
  const form = formOf(
    { shape: { $ref: '#/$defs/Shape' }, at: { $ref: '#/$defs/Point' } },
    ['shape'],
    {
      $defs: {
        Point: { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x'] },
        Circle: { type: 'object', properties: { kind: { const: 'circle' }, r: { type: 'number' } }, required: ['kind', 'r'] },
        Box: { type: 'object', properties: { kind: { const: 'box' }, wide: { type: 'integer' } }, required: ['kind', 'wide'] },
        Shape: { anyOf: [{ $ref: '#/$defs/Circle' }, { $ref: '#/$defs/Box' }] }
      }
    }
  );
  const choice = field(form, 'shape').querySelector('select');
  assert.deepEqual([...choice.options].map(each => each.textContent), ['choose ...', 'kind: circle', 'kind: box']);
  type(choice, '1');
  type(input(form, 'kind'), '0');
  type(input(form, 'wide'), '3');
  type(input(form, 'x'), '1');
  assert.deepEqual(form.value(), { shape: { kind: 'box', wide: 3 }, at: { x: 1 } });
  form.set({ shape: { kind: 'circle', r: 2 } });
  assert.equal(choice.value, '0');
  assert.deepEqual(form.value(), { shape: { kind: 'circle', r: 2 } });
});

test('a type or null is one field that accepts null', () => {
  const form = formOf({ a: { anyOf: [{ type: 'integer' }, { type: 'null' }], default: null, description: 'How many.' } });
  assert.equal(field(form, 'a').querySelector('.otx-help').textContent, 'How many.');
  type(input(form, 'a'), '4');
  assert.deepEqual(form.value(), { a: 4 });
  type(input(form, 'a'), 'null');
  assert.deepEqual(form.value(), { a: null });
});

test('a schema that the form cannot show is a JSON field: free, recursive, tuples', () => {
  const form = formOf(
    { free: {}, node: { $ref: '#/$defs/Node' }, pair: { type: 'array', prefixItems: [{}, {}] } },
    [],
    { $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } } } }
  );
  type(input(form, 'free'), '{"a": [1]}');
  type(input(form, 'pair'), '[1, "b"]');
  assert.deepEqual(form.value(), { free: { a: [1] }, pair: [1, 'b'] });
});

test('an object with any keys is a list of key and value', () => {
  const form = formOf({ headers: { type: 'object', additionalProperties: { type: 'integer' } } });
  field(form, 'headers').querySelector('button.otx-small').click();
  const [key, value] = field(form, 'headers').querySelectorAll('input');
  type(key, 'x');
  type(value, '3');
  assert.deepEqual(form.value(), { headers: { x: 3 } });
});

test('errors are shown at their field, nested ones too; an error without a field is shown above', () => {
  const form = formOf({ at: { type: 'object', properties: { x: { type: 'number' } } }, tags: { type: 'array', items: { type: 'string' } } });
  form.set({ at: { x: 'no' }, tags: ['ok', 3] });
  form.showErrors([
    { pointer: '/at/x', message: 'not a number' },
    { pointer: '/tags/1', message: 'not a text' },
    { pointer: '/other', message: 'not known' }
  ]);
  assert.equal(field(form, 'x').querySelector(':scope > .otx-error').textContent, 'not a number');
  assert.equal(input(form, 'x').getAttribute('aria-invalid'), 'true');
  assert.match(field(form, 'tags').textContent, /not a text/);
  const [first] = form.element.querySelectorAll(':scope > .otx-error, :scope > .otx-field');
  assert.match(first.textContent, /\/other: not known/);
  form.showErrors([]);
  assert.ok([...form.element.querySelectorAll('.otx-error')].every(each => each.hidden));
  assert.equal(form.element.querySelector('[aria-invalid="true"], .otx-invalid'), null);
});

test('every kind of field shows its error, to screen readers too', () => {
  const kinds = {
    text: { type: 'string', description: 'What it is.' }, choice: { enum: ['a', 'b'] }, on: { type: 'boolean' }, any: {}, list: { type: 'array', items: { type: 'string' } },
    map: { type: 'object', additionalProperties: { type: 'string' } }, group: { type: 'object', properties: { x: { type: 'string' } } }, union: { anyOf: [{ type: 'integer' }, { type: 'string' }] }
  };
  const form = formOf(kinds);
  for (const name of Object.keys(kinds)) {
    form.showErrors([{ pointer: `/${name}`, message: `wrong ${name}` }]);
    const error = field(form, name).querySelector(':scope > .otx-error');
    assert.equal(error.textContent, `wrong ${name}`);
    const marked = form.element.querySelectorAll('[aria-invalid="true"], .otx-invalid');
    assert.equal(marked.length, 1, name);
    assert.ok(marked[0].getAttribute('aria-describedby').split(' ').includes(error.id), name);
    form.focusError();
    assert.ok(field(form, name).contains(document.activeElement) && document.activeElement !== document.body, name);
  }
  const [help] = input(form, 'text').getAttribute('aria-describedby').split(' ');
  assert.equal(document.getElementById(help).textContent, 'What it is.');
});

test('a nested error is shown at its row; the first invalid field gets the focus, after an error without a field', () => {
  const form = formOf({ tags: { type: 'array', items: { type: 'string' } }, headers: { type: 'object', additionalProperties: { type: 'string' } } });
  form.set({ tags: ['a', 'b'], headers: { 'a/b': 'x', c: 'y' } });
  const errors = [{ pointer: '/headers/a~1b', message: 'no header' }, { pointer: '/tags/1', message: 'too short' }];
  form.showErrors(errors);
  const [, second] = field(form, 'tags').querySelectorAll('input');
  assert.equal(second.getAttribute('aria-invalid'), 'true');
  assert.equal(document.getElementById(second.getAttribute('aria-describedby')).textContent, 'too short');
  const value = field(form, 'headers').querySelector('[aria-label="headers, value"]');
  assert.equal(value.getAttribute('aria-invalid'), 'true');
  assert.equal(document.getElementById(value.getAttribute('aria-describedby')).textContent, 'no header');
  form.focusError();
  assert.equal(document.activeElement, second);
  form.showErrors([...errors, { pointer: '', message: 'all of it' }]);
  form.focusError();
  assert.equal(document.activeElement.textContent, 'all of it');
  form.showErrors([{ pointer: '/tags/7', message: 'there is no such row' }]);
  assert.equal(field(form, 'tags').querySelector(':scope > .otx-error').textContent, 'there is no such row');
});

test('a missing argument is shown at its field, by the keyword of the error and not by its text', () => {
  const inner = { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x'] };
  const form = formOf({ name: { type: 'string' }, at: inner }, ['name', 'at']);
  form.set({ at: { y: 1 } });
  form.showErrors([
    { pointer: '', message: "missing argument 'name'", keyword: 'required' },
    { pointer: '/at', message: '"x" is a required property', keyword: 'required' }
  ]);
  const said = [...form.element.querySelectorAll('.otx-error:not([hidden])')].map(each => [each.parentElement.querySelector('.otx-name').textContent, each.textContent]);
  assert.deepEqual(said, [['name', 'This field is required.'], ['x', 'This field is required.']]);
});

test('an argument with a default is optional, even if the schema lists it as required', () => {
  const root = { depth: { type: 'integer', default: 3 }, kind: { $ref: '#/$defs/Kind' }, url: { type: 'string' } };
  const form = formOf(root, ['depth', 'kind', 'url'], { $defs: { Kind: { enum: ['a', 'b'], default: 'a' } } });
  const names = [...form.element.querySelectorAll('.otx-required')].map(each => each.parentElement.querySelector('.otx-name').textContent);
  assert.deepEqual(names, ['url']);
  assert.equal(field(form, 'depth').querySelector('input').placeholder, '3');
  form.set({ url: 'x' });
  assert.deepEqual(form.value(), { url: 'x' });
});

test('an invalid variable is marked where it is typed', () => {
  const form = formOf({ rows: { type: 'array', items: {} } });
  form.set({ rows: '=nothing' });
  form.showErrors([{ pointer: '/rows', message: 'no such variable' }]);
  form.focusError();
  assert.equal(document.activeElement.getAttribute('aria-label'), 'rows, a notebook variable');
});

test('set and value round-trip for every kind', () => {
  const form = formOf({
    s: { type: 'string' }, i: { type: 'integer' }, b: { type: 'boolean' }, e: { enum: ['x', 'y'] }, l: { type: 'array', items: { type: 'integer' } },
    o: { type: 'object', properties: { a: { type: 'array', items: { type: 'object', properties: { z: { type: 'string' } } } } } }, m: { type: 'object', additionalProperties: { type: 'string' } }, any: {}
  });
  const args = { s: 'text', i: 0, b: false, e: 'y', l: [1, 2], o: { a: [{ z: 'q' }] }, m: { k: 'v' }, any: [1, { deep: null }] };
  form.set(args);
  assert.deepEqual(form.value(), args);
  form.set({ e: 'neither' });
  assert.deepEqual(form.value(), { e: 'neither' }, 'nothing that was typed as JSON is lost');
});

test('every control has a label', () => {
  const form = formOf({ s: { type: 'string' }, e: { enum: [1] }, l: { type: 'array', items: { type: 'string' } }, u: { anyOf: [{ type: 'string' }, { type: 'array' }] } });
  form.set({ l: ['a'] });
  for (const control of form.element.querySelectorAll('input, select, textarea')) {
    assert.ok(control.getAttribute('aria-label') || form.element.querySelector(`label[for="${control.id}"]`), control.outerHTML);
  }
});

test('text from a tool stays text', () => {
  const evil = '<img src=x onerror="window.hacked = 1">';
  const form = formOf({ [evil]: { type: 'string', description: evil, default: evil, enum: [evil] } }, [evil]);
  assert.equal(form.element.querySelector('img'), null);
  assert.equal(window.hacked, undefined);
  assert.match(form.element.textContent, /<img src=x/);
});

test('a field without a text input accepts a variable too, and suggests names', async () => {
  let asked = 0;
  const form = createForm({ type: 'object', properties: { rows: { type: 'array', items: { type: 'string' } }, on: { type: 'boolean' }, n: { type: 'integer' } } }, { variables: async () => (asked += 1, [{ name: 'df', kind: 'DataFrame' }]) });
  document.body.replaceChildren(form.element);
  form.element.querySelector('[aria-label="rows: use a notebook variable"]').click();
  type(form.element.querySelector('[aria-label="rows, a notebook variable"]'), '=df.name');
  assert.deepEqual(form.value(), { rows: '=df.name' });
  form.set({ on: '=flag', rows: ['a'] });
  assert.deepEqual(form.value(), { on: '=flag', rows: ['a'] });
  await until(() => form.element.querySelector('datalist option')?.value === '=df');
  assert.equal(asked, 1);
});

test('a row that is removed leaves the others, and what is typed there, in the page', () => {
  const form = formOf({ tags: { type: 'array', items: { type: 'string' } }, headers: { type: 'object', additionalProperties: { type: 'string' } } });
  form.set({ tags: ['a', 'b', 'c'], headers: { x: '1', y: '2' } });
  const [, second, third] = field(form, 'tags').querySelectorAll('input');
  const [, , key, value] = field(form, 'headers').querySelectorAll('.otx-rows input');
  field(form, 'tags').querySelector('[aria-label="Remove item 1 of tags"]').click();
  field(form, 'headers').querySelector('[aria-label="Remove from headers"]').click();
  assert.deepEqual([...field(form, 'tags').querySelectorAll('input')], [second, third]);
  assert.equal(second.getAttribute('aria-label'), 'tags, item 1');
  assert.deepEqual([...field(form, 'headers').querySelectorAll('.otx-rows input')], [key, value]);
  assert.deepEqual(form.value(), { tags: ['b', 'c'], headers: { y: '2' } });
  assert.equal(document.activeElement.textContent, '+ Add to headers', 'the focus stays in the form');
});

test('names are asked for when a text begins to be one, and again where there was no answer', async () => {
  const answers = [null, [{ name: 'df', kind: 'DataFrame' }]];
  let asked = 0;
  const form = createForm({ type: 'object', properties: { a: { type: 'string' } } }, { variables: async () => answers[(asked += 1) - 1] });
  document.body.replaceChildren(form.element);
  for (const text of ['x', '=', '=d']) {
    type(input(form, 'a'), text);
    await new Promise(resolve => setTimeout(resolve));
  }
  assert.equal(asked, 2);
  type(input(form, 'a'), '=df');
  assert.equal(asked, 2);
  assert.equal(form.element.querySelector('datalist option').value, '=df');
  assert.equal(input(form, 'a').getAttribute('list'), form.element.querySelector('datalist').id);
});
