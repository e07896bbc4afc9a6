// The import of a document without JupyterLab: what is wrong is said at its field, a choice stays, and nothing that comes
// late or after the end is shown.
import assert from 'node:assert/strict';
import test from 'node:test';
import { panel, pick, slowFile, type, until } from './page.mjs';

const { createImport } = await panel('importScreen');
const { RestError } = await panel('restApi');
window.Element.prototype.scrollIntoView ??= () => {};

const operation = (name, method = 'GET', tag = 'a') => ({ name, method, url: `https://x.test/${name}`, tags: [tag], description: `Does ${name}` });
const PREVIEW = { kind: 'OpenAPI 3.1', bundle: { slug: 'items', displayName: 'Items' }, operations: [operation('list'), operation('make', 'POST'), operation('find', 'GET', 'b')], hosts: ['x.test'], secrets: [], notes: [] };
const DONE = { bundle: { slug: 'items' }, tools: [{ slug: 'list' }], blockedHosts: ['x.test'], secrets: [{ name: 'KEY' }], notes: [] };
const tick = () => new Promise(resolve => setTimeout(resolve, 5));

function held() {
  const replies = [];
  return Object.assign((...payload) => new Promise((resolve, reject) => replies.push({ payload, resolve, reject })), { replies });
}

function open(t, { previewImport = async () => PREVIEW, importDocument = async () => DONE, kernel = async () => ({}) } = {}) {
  const heard = [];
  const screen = createImport({ previewImport, importDocument }, { request: kernel }, { onImported: done => heard.push(done), onClose: () => heard.push('closed') });
  t.after(screen.close);
  document.body.replaceChildren(screen.element);
  screen.focus();
  const { element } = screen;
  const field = label => element.querySelector(`[aria-label="${label}"]`);
  const button = name => [...element.querySelectorAll('button')].find(each => each.textContent.trim() === name && !each.hidden);
  const press = name => (assert.ok(button(name), `no ${name}`), button(name).focus(), button(name).click());
  const errorOf = label => (field(label).getAttribute('aria-invalid') === 'true' ? element.querySelector(`[id="${field(label).getAttribute('aria-describedby')}"]`).textContent : '');
  const show = async () => (type(field('Document'), 'https://x.test/openapi.json'), press('Show operations'), await until(() => field('Filter operations')));
  return { screen, element, field, button, press, errorOf, show, heard };
}

test('what reads is chosen; the filter and the boxes choose others, and those are imported', async t => {
  const asked = [];
  const { field, button, press, show, heard, element } = open(t, { importDocument: async (document, options) => (asked.push([document, options]), DONE) });
  await show();
  await until(() => document.activeElement === field('Filter operations'));
  assert.ok(button('Import 2 tools'));
  press('All');
  assert.ok(button('Import 3 tools'));
  type(field('Filter operations'), 'find');
  press('All');
  assert.ok(button('Import 1 tool'));
  type(field('Filter operations'), '');
  await until(() => field('All of a'));
  field('All of a').click();
  await until(() => button('Import 3 tools'));
  const [box] = element.querySelectorAll('.onetool-Import-row input');
  box.click();
  await until(() => button('Import 2 tools'));
  assert.equal(field('All of a').indeterminate, true);
  press('Import 2 tools');
  await until(() => /1 tool imported into items\./.test(element.textContent));
  assert.deepEqual(asked, [['https://x.test/openapi.json', { server: '', slug: 'items', names: ['make', 'find'], auth: '' }]]);
  assert.deepEqual(heard, [DONE]);
  assert.equal(document.activeElement, button('Import another document'), 'the focus is not lost with the button that had it');
});

test('what is wrong is said at its field, which has the focus; typing clears it', async t => {
  const refusals = [new RestError('Only a relative server URL.', 400, '', [{ pointer: '/server', message: 'only a relative server URL' }]), new RestError("'items' is there.", 409, 'conflict', [])];
  const { field, press, errorOf, show, element } = open(t, {
    previewImport: async () => { if (refusals.length === 2) throw refusals.shift(); return PREVIEW; },
    importDocument: async () => { throw refusals.shift(); }
  });
  press('Show operations');
  assert.match(errorOf('Document'), /Choose a file/);
  assert.equal(document.activeElement, field('Document'));
  type(field('Document'), 'https://x.test/openapi.json');
  assert.equal(errorOf('Document'), '');
  press('Show operations');
  await until(() => /relative/.test(errorOf('Server')));
  assert.equal(document.activeElement, field('Server'));
  type(field('Server'), 'https://x.test');
  assert.equal(field('Server').closest('.onetool-Import-settings').hidden, false, 'the field stays while it is filled in');
  await show();
  type(field('Bundle'), '');
  press('Import 2 tools');
  assert.match(errorOf('Bundle'), /Write a name/);
  type(field('Bundle'), 'items');
  type(field('Auth'), 'header');
  press('Import 2 tools');
  assert.match(errorOf('Name of the header'), /Write the name of the header\./);
  type(field('Name of the header'), 'X-Key');
  type(field('Secret'), 'no name');
  press('Import 2 tools');
  assert.match(errorOf('Secret'), /Write the name of a secret/);
  type(field('Secret'), 'KEY');
  press('Import 2 tools');
  await until(() => errorOf('Bundle') === "'items' is there.");
  assert.match(element.textContent, /3 operations/, 'the choice stays');
});

test('while a document is read nothing of it can be changed, and one that was refused can be read again', async t => {
  const previewImport = held();
  const { field, press, element } = open(t, { previewImport });
  type(field('Document'), 'https://x.test/openapi.json');
  press('Show operations');
  await until(() => previewImport.replies.length === 1);
  assert.match(element.textContent, /Reading …/);
  assert.ok(field('Document').closest('[inert]'));
  previewImport.replies[0].reject(new RestError('Too large.', 413, 'too_large', []));
  await until(() => /Too large\. Give its address instead\./.test(element.textContent));
  assert.equal(element.querySelector('[inert]'), null);
  press('Show operations');
  await until(() => previewImport.replies.length === 2);
  previewImport.replies[1].resolve(PREVIEW);
  await until(() => field('Filter operations'));
});

test('a host is allowed with a click; where that fails the button stays, and afterwards the document is read', async t => {
  const answers = ['The file is locked.', ''];
  let isAllowed = false;
  const { field, press, button, element } = open(t, {
    previewImport: async () => { if (!isAllowed) throw new RestError("Requests to 'x.test' are not allowed.", 403, '', [], 'host_not_allowed'); return PREVIEW; },
    kernel: async (kind, payload) => {
      assert.deepEqual([kind, payload], ['allowHosts', { hosts: ['x.test'] }]);
      isAllowed = answers.length === 1;
      const refusal = answers.shift();
      if (refusal) throw new Error(refusal);
    }
  });
  type(field('Document'), 'https://x.test/openapi.json');
  press('Show operations');
  await until(() => button('Allow x.test'));
  press('Allow x.test');
  await until(() => /The file is locked\./.test(element.textContent));
  press('Allow x.test');
  await until(() => field('Filter operations'));
});

test('one who has gone elsewhere keeps the focus, and nothing comes after the end', async t => {
  const previewImport = held();
  const { screen, field, press, element } = open(t, { previewImport });
  type(field('Document'), 'https://x.test/openapi.json');
  press('Show operations');
  const cell = document.createElement('textarea');
  document.body.append(cell);
  cell.focus();
  await until(() => previewImport.replies.length === 1);
  previewImport.replies[0].resolve(PREVIEW);
  await until(() => field('Filter operations'));
  assert.equal(document.activeElement, cell);

  press('Another document');
  type(field('Document'), 'https://y.test');
  press('Show operations');
  await until(() => previewImport.replies.length === 2);
  screen.close();
  const before = element.innerHTML;
  previewImport.replies[1].reject(new Error('Refused.'));
  await tick();
  assert.equal(element.innerHTML, before);
});

test('a secret that the tools need has a field, whose value goes to the project alone', async t => {
  const kept = [];
  const replies = [{ errors: [{ message: 'Type another one.' }] }, {}];
  const { show, press, element, button } = open(t, { kernel: async (kind, { name, value }) => (kept.push([kind, name, value]), replies.shift()) });
  await show();
  press('Import 2 tools');
  await until(() => element.querySelector('[aria-label="Value of KEY"]'));
  const field = element.querySelector('[aria-label="Value of KEY"]');
  press('Save');
  await until(() => /Type its value/.test(element.textContent));
  type(field, 'abc');
  press('Save');
  await until(() => /Type another one/.test(element.textContent));
  press('Save');
  await until(() => /KEY is in secrets\.yaml now/.test(element.textContent));
  assert.deepEqual(kept, [['httpSecret', 'KEY', 'abc'], ['httpSecret', 'KEY', 'abc']]);
  assert.ok(button('Import another document'));
});

test('a document that was pasted elsewhere is shown as if it was chosen here', async t => {
  const asked = [];
  const { screen, field } = open(t, { previewImport: async document => (asked.push(document), PREVIEW) });
  screen.show({ name: '', text: 'https://x.test/openapi.json' });
  await until(() => field('Filter operations'));
  screen.show({ name: 'api.json', text: '{"openapi": "3.1.0"}' });
  await until(() => asked.length === 2);
  assert.deepEqual(asked, ['https://x.test/openapi.json', { openapi: '3.1.0' }]);
});

test('a document that is shown while another one is imported stays, and what was imported is told', async t => {
  const importDocument = held();
  const { screen, field, press, show, element, heard } = open(t, { importDocument, previewImport: async () => ({ ...PREVIEW }) });
  await show();
  press('Import 2 tools');
  await until(() => importDocument.replies.length === 1);
  screen.show({ name: '', text: 'https://y.test/openapi.json' });
  await until(() => field('Filter operations'));
  importDocument.replies[0].resolve(DONE);
  await until(() => heard.length === 1);
  assert.ok(field('Filter operations'));
  assert.doesNotMatch(element.textContent, /imported into/);
});

test('what is imported is the document whose operations are shown, also where a file was still being read', async t => {
  const [previewed, imported] = [[], []];
  const { screen, field, press } = open(t, { previewImport: async document => (previewed.push(document), PREVIEW), importDocument: async document => (imported.push(document), DONE) });
  const { file, read } = slowFile('slow.json', '{"openapi": "3.0.0"}');
  pick(field('Choose a file'), file);
  screen.show({ name: 'api.json', text: '{"openapi": "3.1.0"}' });
  await until(() => field('Filter operations'));
  read();
  await tick();
  assert.match(screen.element.textContent, /api\.json/);
  press('Import 2 tools');
  await until(() => imported.length);
  assert.deepEqual(imported, [{ openapi: '3.1.0' }]);
  assert.deepEqual(previewed[0], imported[0]);
});
