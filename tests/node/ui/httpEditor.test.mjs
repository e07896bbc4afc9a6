// The HTTP tool editor: fields become a record, a record fills the fields, errors stand at their fields, a secret's value
// leaves the page once and is not kept in it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { pick, slowFile, transportOf, type, ui, until } from './page.mjs';

const { createHttpEditor } = await ui('httpEditor');
window.Element.prototype.scrollIntoView ??= () => {};
const SHOP = { slug: 'shop', baseUrl: 'https://api.shop.com/v1', auth: { type: 'bearer', value: '${SHOP_TOKEN}' } };
const VIEW = { ok: true, tool: '', call: 'draft-1', ms: 1, kinds: ['text'], lines: 1, preview: ['{}'] };
const REPLY = { request: { method: 'GET', url: 'https://a.test', headers: {} }, response: { status: 200, phrase: 'OK', durationMs: 12, size: 2, headers: { etag: '<b>' } }, isOk: true, view: VIEW };

async function open(answers = {}, place = {}) {
  const { transport, asked } = await transportOf({ httpTool: () => ({ bundles: [SHOP], secrets: ['SHOP_TOKEN'], tool: null }), httpSend: () => REPLY, httpSave: ({ version }) => ({ said: 'Saved.', name: 'a.b', version: version || '1' }), page: () => ({ lines: ['{}'], total: 1 }), ...answers });
  const editor = createHttpEditor(transport, place);
  document.body.replaceChildren(editor.element);
  const field = label => [...editor.element.querySelectorAll('[aria-label]')].find(each => each.getAttribute('aria-label') === label);
  await until(() => asked.some(({ kind }) => kind === 'httpTool') && field('Secret').options.length > 1);
  const button = name => [...editor.element.querySelectorAll('button')].find(each => each.textContent === name);
  const press = async name => (await until(() => button(name)?.getAttribute('aria-disabled') !== 'true'), button(name).click());
  const sent = kind => asked.filter(message => message.kind === kind).at(-1)?.payload;
  const status = () => editor.element.querySelector('.otx-editor-status').textContent;
  const choose = (label, value) => {
    field(label).value = value;
    for (const kind of ['input', 'change']) field(label).dispatchEvent(new Event(kind, { bubbles: true }));
  };
  const errors = () => [...editor.element.querySelectorAll('.otx-error:not([hidden])')].map(each => each.textContent);
  return { editor, field, button, press, sent, status, choose, errors, asked };
}

test('fields become a record: arguments appear, names are suggested, kinds are kept', async () => {
  const { field, press, sent, status, choose, errors, editor } = await open();
  type(field('URL'), 'https://api.example.com/users/{id}?x=${page}');
  choose('Method', 'POST');
  type(field('Query parameter name'), 'limit');
  type(field('Query parameter value'), '{limit}');
  choose('Kind of body', 'json');
  type(field('Body'), '{"name": "{name}", "n": ${count}, "key": "${API_KEY}"}');
  choose('Type of count', 'integer');
  type(field('Default of limit'), '5');
  choose('Type of limit', 'integer');
  type(field('Value of count to try'), '3');
  type(field('Value of id to try'), '7');
  await press('Send');
  await until(() => document.activeElement === field('Value of page to try'));
  assert.match(errors().join(), /Fill in 'Try with' for page, name\./);
  assert.equal(sent('httpSend'), undefined);
  type(field('Value of page to try'), '1');
  type(field('Value of name to try'), 'Ada');
  await press('Send');
  await until(() => status().startsWith('200 OK'));
  const { tool, args, bundle } = sent('httpSend');
  assert.deepEqual(tool.http.request, { method: 'POST', urlTemplate: 'https://api.example.com/users/${id}?x=${page}', query: { limit: '${limit}' }, bodyType: 'json', body: { name: '${name}', n: '${count}', key: '${API_KEY}' } });
  assert.deepEqual(Object.keys(tool.argSchema.properties), ['id', 'page', 'limit', 'name', 'count']);
  assert.deepEqual(tool.argSchema.properties.limit, { type: 'integer', default: 5 });
  assert.deepEqual(tool.argSchema.required, ['id', 'page', 'name', 'count']);
  assert.deepEqual(args, { id: '7', page: '1', name: 'Ada', count: 3 });
  assert.deepEqual([bundle, field('Tool').value], ['example', 'post-users']);
  type(field('URL'), 'https://api.example.com/users/{user}');
  assert.equal(field('Type of id'), undefined);
  assert.equal(editor.element.querySelector('b'), null);
  editor.close();
});

test('a bundle of the same API is chosen, with its auth; none can be chosen', async () => {
  const { field, press, sent, choose, editor } = await open();
  type(field('URL'), 'https://api.shop.com/orders');
  assert.deepEqual([field('Bundle').value, field('Kind of auth').value], ['shop', 'inherit']);
  await press('Save');
  await until(() => sent('httpSave'));
  assert.equal(sent('httpSave').tool.http.request.auth, undefined);
  assert.equal(sent('httpSave').isShared, false);
  choose('Kind of auth', 'none');
  await press('Save');
  await until(() => sent('httpSave').tool.http.request.auth);
  assert.deepEqual(sent('httpSave').tool.http.request.auth, { type: 'none' });
  editor.close();
});

test('a new secret is stored once, and its value does not stay in the page', async () => {
  const { field, press, sent, status, choose, editor, asked } = await open({ httpSecret: ({ name }) => ({ secrets: ['SHOP_TOKEN', name] }) });
  type(field('URL'), 'https://x.test/a');
  choose('Kind of auth', 'apiKey');
  type(field('Name of the key'), 'X-Key');
  choose('Secret', '+');
  type(field('Value of the new secret'), 'v-123');
  await press('Send');
  await until(() => status().startsWith('200'));
  assert.deepEqual(sent('httpSecret'), { name: 'X_TOKEN', value: 'v-123' });
  assert.deepEqual(sent('httpSend').tool.http.request.auth, { type: 'apiKey', in: 'header', name: 'X-Key', value: '${X_TOKEN}' });
  assert.deepEqual([field('Secret').value, field('Value of the new secret').value], ['X_TOKEN', '']);
  assert.equal(asked.filter(({ kind, payload }) => kind !== 'httpSecret' && JSON.stringify(payload).includes('v-123')).length, 0);
  editor.close();
});

test('errors stand at their fields and go when the field is edited; questions are asked here', async () => {
  const faults = [{ pointer: '/http/request/urlTemplate', message: 'Must start with http.' }, { pointer: '/http/request/auth/value', message: 'It must be text.' }, { pointer: '', message: 'And <i>this</i>.' }];
  const replies = [{ errors: faults }, { questions: [{ key: 'write', text: 'DELETE may change data.' }] }, REPLY];
  const { field, button, press, sent, status, choose, errors, editor } = await open({ httpSend: () => replies.shift() });
  choose('Kind of body', 'json');
  type(field('Body'), '{"a": ');
  await press('Send');
  await until(() => errors().length);
  assert.match(errors()[0], /^This is not JSON/);
  assert.equal(sent('httpSend'), undefined);
  assert.equal(document.activeElement, field('Body'));
  type(field('Body'), '{}');
  assert.deepEqual(errors(), []);
  type(field('URL'), 'ftp://x/{n}');
  choose('Type of n', 'integer');
  type(field('Value of n to try'), 'many');
  await press('Send');
  await until(() => errors().length);
  assert.deepEqual(errors(), ["n: 'many' is not a whole number."]);
  type(field('Value of n to try'), '2');
  await press('Send');
  await until(() => errors().length === 2);
  assert.equal(status(), 'And <i>this</i>.');
  assert.equal(document.activeElement, field('URL'));
  assert.equal(field('URL').getAttribute('aria-invalid'), 'true');
  choose('Kind of auth', 'bearer');
  assert.equal(field('Kind of auth').value, 'bearer', 'a choice that takes an error away is made');
  assert.equal(errors().length, 1);
  choose('Kind of auth', 'none');
  await press('Send');
  await until(() => button('Send it'));
  await press('Send it');
  await until(() => status().startsWith('200 OK'));
  assert.deepEqual(sent('httpSend').agreed, ['write']);
  editor.close();
});

test('a record fills the fields, and comes back as it was', async () => {
  const tool = { slug: 'order', version: '1', displayName: 'order', description: 'Order.', tags: ['a'], type: 'http', limits: { maxCallsPerMinute: 3 }, argSchema: { type: 'object', properties: { id: { type: 'integer', maximum: 9, description: 'Which.' }, any: { anyOf: [{ type: 'string' }, { type: 'null' }] } }, required: ['id'] }, http: { request: { method: 'PUT', urlTemplate: '/orders/${id}', timeoutMs: 5, query: { on: true, tag: ['a', 'b'] }, headers: { Accept: 'text/plain' }, body: { a: '${any}' }, bodyType: 'form', auth: { type: 'basic', username: 'me', password: 'x${SHOP_TOKEN}' } }, response: { errorMode: 'empty', selector: { type: 'regex', expr: 'a', all: true } } } };
  const { field, press, sent, editor } = await open({ httpTool: () => ({ bundles: [SHOP], secrets: ['SHOP_TOKEN'], tool, version: '2' }) }, { bundle: 'shop', tool: 'order', version: '1' });
  assert.match(editor.element.textContent, /Sent to https:\/\/api\.shop\.com\/v1\/orders/);
  await press('Save');
  await until(() => sent('httpSave'));
  const { slug, version, bundle, tool: saved } = sent('httpSave');
  assert.deepEqual([bundle, slug, version, field('Version').value], ['shop', 'order', '2', '2']);
  assert.deepEqual(saved.http, tool.http);
  assert.deepEqual({ ...saved.argSchema, additionalProperties: undefined }, { ...tool.argSchema, additionalProperties: undefined });
  assert.deepEqual([saved.limits, saved.tags, saved.description], [tool.limits, tool.tags, tool.description]);
  editor.close();
});

test('a pasted curl command replaces all fields', async () => {
  const tool = { slug: 'x', version: '1', argSchema: { type: 'object', properties: { name: { type: 'string', default: 'Ada' } } }, http: { request: { method: 'POST', urlTemplate: 'https://api.shop.com/users', body: { name: '${name}' }, bodyType: 'json' } } };
  const { field, choose, status, editor } = await open({ httpCurl: () => ({ tool, notes: [], missing: [], secrets: ['SHOP_TOKEN'] }) });
  type(field('URL'), 'https://api.shop.com/items/{id}');
  choose('Kind of auth', 'bearer');
  const event = Object.assign(new Event('paste', { cancelable: true, bubbles: true }), { clipboardData: { getData: () => "curl -X POST 'x'" } });
  field('URL').dispatchEvent(event);
  await until(() => status() === 'Filled in.');
  assert.equal(event.defaultPrevented, true);
  assert.equal(field('Type of id'), undefined);
  assert.deepEqual([field('Kind of auth').value, field('Default of name').value, field('Kind of body').value], ['inherit', 'Ada', 'json']);
  editor.close();
});

test('Enter in a value to try sends, and the response is said in one line', async () => {
  const { field, editor, status, asked, press, button } = await open();
  type(field('URL'), 'https://a.test/{id}');
  type(field('Value of id to try'), '7');
  field('Value of id to try').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  await until(() => status() === '200 OK · 12 ms · 2 B');
  assert.deepEqual(asked.find(({ kind }) => kind === 'httpSend').payload.args, { id: '7' });
  await until(() => editor.element.querySelector('.otx-viewer .otx-line'));
  assert.equal(editor.element.querySelector('.otx-summary'), null);
  for (const name of ['Compare', 'Save as variable']) assert.equal(button(name), undefined);
  field('Query parameter name').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  await press('Save');
  await until(() => status().startsWith('Saved'));
  assert.equal(asked.filter(({ kind }) => kind === 'httpSend').length, 1);
  editor.close();
});

test('a file goes into a multipart form or is the body itself', async () => {
  const { field, press, sent, choose, editor, status } = await open();
  type(field('URL'), 'https://api.example.com/photos');
  choose('Method', 'PUT');
  choose('Kind of body', 'multipart');
  type(field('Form field name'), 'photo');
  type(field('Form field value'), '{photo}');
  choose('Type of photo', 'file');
  pick(field('File of photo to try'), new File(['hi'], 'a.png', { type: 'image/png' }));
  await until(() => /a\.png · 2 B/.test(editor.element.textContent));
  await press('Send');
  await until(() => status().startsWith('200'));
  const { tool, args } = sent('httpSend');
  assert.deepEqual([tool.http.request.bodyType, tool.http.request.body], ['multipart', { photo: '${photo}' }]);
  assert.deepEqual(tool.argSchema.properties.photo.required, ['base64']);
  assert.deepEqual(args, { photo: { base64: 'aGk=', filename: 'a.png', mime: 'image/png' } });
  choose('Kind of body', 'binary');
  assert.equal(field('Type of file').value, 'file');
  editor.close();
});

test('the file that was chosen last is sent, however long an earlier one takes to read', async () => {
  const { field, press, sent, choose, editor, status } = await open();
  type(field('URL'), 'https://api.example.com/photos');
  choose('Kind of body', 'binary');
  const [first, second] = [slowFile('a.txt', 'first'), slowFile('b.txt', 'second')];
  pick(field('File of file to try'), first.file);
  pick(field('File of file to try'), second.file);
  second.read();
  await until(() => /b\.txt/.test(editor.element.textContent));
  first.read();
  await new Promise(resolve => setTimeout(resolve, 5));
  await press('Send');
  await until(() => status().startsWith('200'));
  assert.deepEqual([sent('httpSend').args.file.filename, atob(sent('httpSend').args.file.base64)], ['b.txt', 'second']);
  const gone = Object.assign(new File(['x'], 'gone.txt'), { arrayBuffer: async () => { throw new Error('gone.txt could not be read.'); } });
  pick(field('File of file to try'), gone);
  await press('Send');
  await until(() => status() === 'gone.txt could not be read.');
  editor.close();
});

test('after a save the line to call it has the values that were tried, and can be copied', async () => {
  const { field, press, editor, status } = await open();
  type(field('URL'), 'https://api.example.com/orders/{id}/{day}');
  type(field('Value of id to try'), '7');
  await press('Save');
  await until(() => status().startsWith('Saved.'));
  assert.equal(status(), 'Saved. Call it: %tool a.b id=7 day=');
  assert.equal(editor.element.querySelector('.otx-editor-status button code').textContent, '%tool a.b id=7 day=');
  editor.close();
});

test('a question, an error and a filled form take the focus from nobody who has gone on meanwhile', async () => {
  const questions = [{ key: 'host:a.test', text: 'Allow requests to a.test?' }];
  for (const answer of [() => ({ questions }), () => ({ errors: [{ pointer: '/http/request/urlTemplate', message: 'No such host.' }] })]) {
    let go;
    const gate = new Promise(resolve => (go = resolve));
    const { field, press, editor, asked } = await open({ httpSend: () => gate.then(answer) });
    type(field('URL'), 'https://a.test');
    await press('Send');
    await until(() => asked.some(({ kind }) => kind === 'httpSend'));
    const cell = document.createElement('textarea');
    document.body.append(cell);
    cell.focus();
    go();
    await until(() => /a\.test\?|No such host/.test(editor.element.textContent));
    await new Promise(resolve => setTimeout(resolve, 5));
    assert.equal(document.activeElement, cell);
    editor.close();
  }
});

test('an error is said once, and a question goes with what it was about', async () => {
  const replies = [{ questions: [{ key: 'host:a.test', text: 'Allow requests to a.test?' }] }, { errors: [{ pointer: '/http/request/urlTemplate', message: 'Must start with http.' }] }];
  const { field, press, button, status, errors, editor } = await open({ httpSend: () => replies.shift() });
  type(field('URL'), 'https://a.test');
  await press('Send');
  await until(() => button('Allow and send'));
  type(field('URL'), 'b.test');
  await press('Send');
  await until(() => errors().length);
  assert.equal(editor.element.querySelector('[role=alertdialog]').hidden, true);
  assert.deepEqual([errors(), status()], [['Must start with http.'], 'Correct the marked field.']);
  editor.close();
});

test('a curl command that is typed as the URL fills the fields, too', async () => {
  const { field, press, sent, status, editor } = await open({ httpCurl: () => ({ tool: { http: { request: { method: 'GET', urlTemplate: 'https://a.test' } } }, notes: [], missing: [], secrets: [] }) });
  type(field('URL'), 'curl https://a.test');
  await press('Send');
  await until(() => /Filled in/.test(status()));
  assert.deepEqual([sent('httpCurl').text, field('URL').value, sent('httpSend')], ['curl https://a.test', 'https://a.test', undefined]);
  editor.close();
});

test('what is typed while the kernel saves or reads a curl command stays', async () => {
  let go;
  const gate = new Promise(resolve => (go = resolve));
  const { field, press, status, editor, asked } = await open({ httpSave: () => gate.then(() => ({ name: 'a.b', version: '1' })), httpCurl: () => gate.then(() => ({ tool: { http: { request: { method: 'GET', urlTemplate: 'https://a.test' } } }, notes: [], missing: [], secrets: [] })) });
  type(field('URL'), 'https://a.test');
  await press('Save');
  await until(() => asked.some(({ kind }) => kind === 'httpSave'));
  type(field('Version'), '7');
  go();
  await until(() => /Saved/.test(status()));
  assert.equal(field('Version').value, '7');

  type(field('curl command'), 'curl https://a.test');
  await press('Fill in');
  type(field('curl command'), 'curl https://b.test');
  await until(() => /Filled in/.test(status()));
  assert.equal(field('curl command').value, 'curl https://b.test');
  editor.close();
});

test("'Saved' is said when the editor takes the next curl command, not while it still looks at the bundles", async () => {
  const looks = [];
  const kernel = { bundles: [SHOP], secrets: ['SHOP_TOKEN'], tool: null };
  let isSaved = false;
  const { field, press, editor, status } = await open({
    httpTool: () => (isSaved ? new Promise(resolve => looks.push(resolve)) : kernel),
    httpSave: () => ((isSaved = true), { said: 'Saved.', name: 'a.b', version: '1' })
  });
  type(field('URL'), 'https://api.example.com/orders');
  await press('Save');
  await until(() => looks.length === 1);
  assert.equal(status(), 'Saving …');
  looks[0](kernel);
  await until(() => status().startsWith('Saved.'));
  editor.close();
});

test('a click on a key or a column puts it into Keep', async () => {
  const view = { ...VIEW, kinds: ['tree', 'text'] };
  const { field, press, editor, status, sent } = await open({ httpSend: () => ({ ...REPLY, view }), httpSelect: () => ({ view }), tree: ({ path }) => ({ total: 1, children: [path.length === 0 ? { key: 'orders', kind: 'list', preview: '[2]', count: 2 } : path.length === 1 ? { key: 0, kind: 'object', preview: '{1}', count: 1 } : { key: 'a b', kind: 'int', preview: '1', count: 0 }] }) });
  type(field('URL'), 'https://api.example.com/orders');
  await press('Send');
  await until(() => status().startsWith('200') && field('Keep only orders'));
  field('Keep only orders').previousSibling.previousSibling.click();
  await until(() => field('Keep only 0'));
  field('Keep only 0').previousSibling.previousSibling.click();
  await until(() => field('Keep only a b'));
  field('Keep only a b').click();
  await until(() => sent('httpSelect')?.selector === 'orders[]."a b"');
  editor.close();
});

test('the part that is shown is that of the last selector, also if the reply to an older one is late', async () => {
  const replies = [];
  const { field, press, status, sent, editor } = await open({ httpSelect: () => new Promise(resolve => replies.push(resolve)) });
  type(field('URL'), 'https://api.example.com/orders');
  await press('Send');
  await until(() => status().startsWith('200'));
  for (const [at, selector] of ['items', 'items[].name'].entries()) {
    type(field('Keep (JMESPath)'), selector);
    await until(() => replies.length === at + 1);
  }
  assert.equal(sent('httpSelect').editor, sent('httpSend').editor);
  const shown = () => editor.element.querySelector('.otx-viewer').textContent;
  replies[1]({ view: { ...VIEW, preview: ['newer'] } });
  replies[0]({ view: { ...VIEW, preview: ['older'] }, errors: [{ pointer: '/http/response/selector', message: 'older' }] });
  await press('Save'); // its reply is later than both
  await until(() => status().startsWith('Saved.'));
  assert.match(shown(), /newer/);
  editor.close();
});

/** An editor whose start the kernel has not answered yet: `start(reply)`. */
async function openEarly(place) {
  let start;
  const { transport } = await transportOf({ httpTool: () => new Promise(resolve => { start = reply => resolve({ bundles: [SHOP], secrets: ['SHOP_TOKEN'], tool: null, ...reply }); }) });
  const editor = createHttpEditor(transport, place, { isTab: true });
  document.body.replaceChildren(editor.element);
  editor.focus();
  const field = label => editor.element.querySelector(`[aria-label="${label}"]`);
  await until(() => start);
  return { editor, field, start };
}

test('a new tool has the cursor in its URL at once, and the reply of the kernel leaves it where it is by then', async () => {
  const { editor, field, start } = await openEarly({});
  assert.equal(document.activeElement, field('URL'));
  field('Bundle').focus();
  type(field('Bundle'), 'mine');
  start();
  await until(() => field('Secret').options.length > 1);
  assert.equal(document.activeElement, field('Bundle'));
  assert.equal(field('Bundle').value, 'mine');
  editor.close();
});

test('nobody can type into the fields of a tool before its record fills them; then the cursor is in its URL', async () => {
  const { editor, field, start } = await openEarly({ bundle: 'shop', tool: 'order', version: '1' });
  const isOff = () => [...editor.element.children].map(part => part.hasAttribute('inert'));
  assert.deepEqual(isOff().filter(each => !each), []);
  assert.equal(document.activeElement, editor.element, 'the next key is not the notebook\'s');
  start({ tool: { slug: 'order', http: { request: { urlTemplate: '/orders' } } }, version: '2' });
  await until(() => document.activeElement === field('URL'));
  assert.deepEqual(isOff().filter(each => each), []);
  assert.equal(field('URL').value, '/orders');
  editor.close();
});

test('after Save the tick "for all tools of this bundle" stays, since the bundle has the auth now', async () => {
  const auth = { value: '${SHOP_TOKEN}', type: 'bearer' };
  let bundles = [];
  const { editor, field, press, choose, sent, status } = await open({ httpTool: () => ({ bundles, secrets: ['SHOP_TOKEN'], tool: null }) });
  type(field('URL'), 'https://api.new.com/orders');
  choose('Kind of auth', 'bearer');
  choose('Secret', 'SHOP_TOKEN');
  const tick = [...editor.element.querySelectorAll('label')].find(each => each.textContent.includes('for all tools')).querySelector('input');
  assert.equal(tick.checked, true);
  bundles = [{ slug: field('Bundle').value, baseUrl: 'https://api.new.com', auth }];
  await press('Save');
  await until(() => status().startsWith('Saved'));
  assert.equal(sent('httpSave').isShared, true);
  assert.equal(tick.checked, true);
  editor.close();
});

test('switching turns a whole address below the base URL into its path, and names what keeps its host', async () => {
  const environments = { environments: ['default', 'staging'], environment: 'default', variables: {} };
  let shop = { ...SHOP, ...environments };
  const notes = ['Keeps its own host: shop.other (https://other.test:443)'];
  const { editor, field, choose, status, sent } = await open({ httpTool: () => ({ bundles: [shop], secrets: ['SHOP_TOKEN'], tool: null }), switchEnvironment: () => ((shop = { ...shop, baseUrl: 'https://stage.shop.com', environment: 'staging' }), { notes }) });
  type(field('Bundle'), 'shop');
  type(field('URL'), 'https://api.shop.com/v1/orders/{id}');
  assert.match(field('Resulting URL').textContent, /\(default\)$/);
  choose('Environment', 'staging');
  await until(() => status().startsWith('shop uses staging.'));
  assert.deepEqual([field('URL').value, sent('switchEnvironment').name], ['/orders/{id}', 'staging']);
  assert.match(field('Resulting URL').textContent, /^Sent to https:\/\/stage\.shop\.com\/orders\/\{id\} \(staging\)$/);
  assert.match(status(), /shop\.other/);
  type(field('URL'), 'https://api.shop.com/v10/orders');
  assert.match(field('Resulting URL').textContent, /whatever the environment: this is not below https:\/\/stage\.shop\.com$/);
  editor.close();
});
