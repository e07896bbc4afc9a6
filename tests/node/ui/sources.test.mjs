// The sources in the panel without JupyterLab: what a person began stays through every load, a refusal stays until the next
// action, and replies come in any order.
import assert from 'node:assert/strict';
import test from 'node:test';
import { panel, pick, slowFile, transportOf, type, ui, until } from './page.mjs';

const { createServers } = await ui('servers');
const { SourcesView } = await panel('sources');
const { RestError } = await panel('restApi');

const SHOP = { bundleID: 'b1', slug: 'shop', description: '', isEnabled: true, isBuiltIn: false };
const FS = { bundleID: 'b2', slug: 'fs', description: 'Files', isEnabled: true, isBuiltIn: true };
const TOOL = { bundleID: 'b1', slug: 'get', version: '1', description: 'Get', type: 'http', http: { request: {} }, isEnabled: true, isBuiltIn: false, available: true, callCount: 0 };
const REFUSED = 'shop is not empty.';
const tick = () => new Promise(resolve => setTimeout(resolve, 5));

/** The REST API of a project. Each request waits while `gate` is a promise, and is refused while `refusal` is a text. */
class Rest {
  project = '/home/me/project';
  asked = [];
  gates = {};
  refusals = {};
  bundleList = [SHOP, FS];
  toolList = [TOOL];

  async answer(kind, value) {
    this.asked.push(kind);
    const reply = structuredClone(value());
    const refusal = this.refusals[kind];
    await this.gates[kind];
    if (refusal) throw new RestError(refusal, refusal === 'no such folder' ? 403 : 409, '', []);
    return reply;
  }

  bundles = () => this.answer('bundles', () => this.bundleList);
  tools = () => this.answer('tools', () => this.toolList);
  switchBundle = (id, isEnabled) => this.answer('switchBundle', () => {
    if (!this.refusals.switchBundle) this.bundleList = this.bundleList.map(each => (each.bundleID === id ? { ...each, isEnabled } : each));
    return null;
  });
  deleteBundle = () => this.answer('deleteBundle', () => null);
  deleteTool = () => this.answer('deleteTool', () => ((this.toolList = []), null));

  /** Keep back the answers to one kind of request. Returns what lets them go. */
  hold(kind) {
    let go;
    this.gates[kind] = new Promise(resolve => (go = resolve));
    return () => (delete this.gates[kind], go());
  }
}

async function open(t, answers = {}, options = {}) {
  const rest = new Rest();
  const { transport, asked } = await transportOf({ environments: () => ({}), packs: () => ({ items: [] }), ...answers });
  const heard = [];
  const view = new SourcesView(rest, transport, { onChanged: () => heard.push('changed'), onEdit: place => heard.push(place), onImport: document => heard.push(document), onAdded: names => heard.push(names), onShow: name => heard.push(name), onOpen: path => heard.push(path), connect: async () => '', ...options });
  t.after(() => view.close());
  document.body.replaceChildren(view.element);
  const find = label => [...view.element.querySelectorAll('button, input, select')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === label);
  const notice = view.element.querySelector('.otx-notice');
  await until(() => find('Bundle shop'), 'the bundles were not drawn');
  const press = label => (assert.ok(find(label), `no '${label}'`), find(label).focus(), find(label).click());
  const unfold = async () => (press('shop HTTP'), await until(() => find('get 1')));
  return { rest, view, heard, asked, transport, find, notice, press, unfold };
}

test('an environment that is chosen while a load fails is used', async t => {
  let isRefused = false;
  let active = 'live';
  const waits = [];
  const { view, find } = await open(t, {
    environments: () => {
      if (isRefused) throw new Error('busy');
      return { shop: { names: ['live', 'test'], active } };
    },
    switchEnvironment: ({ name }) => new Promise(resolve => waits.push(() => resolve(((active = name), {}))))
  });
  await until(() => find('Environment of shop'));
  const choose = name => {
    find('Environment of shop').value = name;
    find('Environment of shop').dispatchEvent(new Event('change', { bubbles: true }));
  };
  choose('test');
  await until(() => waits.length === 1);
  isRefused = true;
  await view.load();
  await tick();
  choose('live');
  await tick();
  assert.equal(waits.length, 1, 'it waits for the one before');
  isRefused = false;
  waits.shift()();
  await until(() => waits.length);
  waits.shift()();
  await until(() => find('Environment of shop').getAttribute('aria-busy') === 'false');
  assert.deepEqual([active, find('Environment of shop').value], ['live', 'live']);
});

test('a load that ends between the two presses leaves the delete button armed', async t => {
  const { rest, view, find, notice, press } = await open(t);
  rest.refusals.deleteBundle = REFUSED;
  press('Delete the bundle shop');
  await until(() => find('Delete shop?'));
  const armed = find('Delete shop?');

  rest.bundleList = [{ ...SHOP, description: 'Now with a description' }, FS];
  await view.refresh();
  await view.load();
  await tick();

  assert.match(view.element.textContent, /Now with a description/);
  assert.equal(find('Delete shop?'), armed, 'it is the same button');
  assert.equal(document.activeElement, armed);
  press('Delete shop?');
  await until(() => !notice.hidden);
  assert.equal(notice.textContent, REFUSED);
  assert.ok(find('Delete the bundle shop'), 'a refused delete disarms it');
});

test('a load that ends after a refused delete leaves its sentence', async t => {
  const { rest, view, notice, press } = await open(t);
  rest.refusals.deleteBundle = REFUSED;
  const letLoadGo = rest.hold('bundles');
  const load = view.load();
  press('Delete the bundle shop');
  await tick();
  press('Delete shop?');
  await until(() => notice.textContent === REFUSED);

  letLoadGo();
  await load;
  await view.refresh();
  await tick();

  assert.equal(notice.hidden, false);
  assert.equal(notice.textContent, REFUSED);
  press('Refresh');
  await until(() => notice.hidden, 'who asks for a new list has read it');
});

test('an armed button is disarmed by leaving it, and a double click deletes nothing', async t => {
  const { rest, find, press } = await open(t);
  press('Delete the bundle shop');
  await until(() => find('Delete shop?'));
  find('Delete shop?').dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }));
  await tick();
  assert.deepEqual(rest.asked, ['bundles'], 'the second click of a double click does not count');
  assert.ok(find('Delete shop?'));
  find('Refresh').focus();
  await until(() => find('Delete the bundle shop'));
});

test('after a delete the focus is on the bundle, unless one has gone elsewhere', async t => {
  const { rest, find, press, unfold } = await open(t);
  await unfold();
  press('Delete get 1');
  await until(() => find('Delete get 1?'));
  press('Delete get 1?');
  await until(() => !find('Edit get 1'));
  assert.equal(document.activeElement, find('Bundle shop'));

  const letGo = rest.hold('deleteBundle');
  press('Delete the bundle shop');
  await until(() => find('Delete shop?'));
  const cell = document.createElement('textarea');
  document.body.append(cell);
  press('Delete shop?');
  cell.focus();
  rest.bundleList = [FS];
  letGo();
  await until(() => !find('Bundle shop'));
  assert.equal(document.activeElement, cell);
});

test('a switch shows the wish at once, keeps the focus, and goes back if it is refused', async t => {
  const { rest, view, find, notice, press, heard } = await open(t);
  const box = find('Bundle shop');
  rest.refusals.switchBundle = 'the file is locked';
  const letGo = rest.hold('switchBundle');
  press('Bundle shop');
  await until(() => box.getAttribute('aria-busy') === 'true');
  await view.refresh();
  assert.equal(box.checked, false, 'a load while it is under way changes nothing');
  letGo();
  await until(() => box.checked);
  assert.equal(notice.textContent, 'the file is locked');
  assert.deepEqual(heard, []);

  rest.refusals = {};
  press('Bundle shop');
  await until(() => /off/.test(view.element.querySelector('[data-slug=shop]').textContent));
  assert.equal(notice.hidden, true);
  assert.equal(find('Bundle shop'), box);
  assert.equal(document.activeElement, box);
  assert.equal(box.checked, false);
});

test('a switch that is pressed again while the first press is under way ends as it was pressed last', async t => {
  const { rest, find, press } = await open(t);
  const box = find('Bundle shop');
  const letGo = rest.hold('bundles');
  press('Bundle shop');
  await until(() => rest.asked.includes('switchBundle'));
  await tick();
  press('Bundle shop');
  await tick();
  assert.equal(box.checked, true);
  letGo();
  await until(() => rest.asked.filter(kind => kind === 'switchBundle').length === 2);
  await until(() => box.getAttribute('aria-busy') === 'false');
  assert.equal(box.checked, true);
  assert.equal(rest.bundleList.find(each => each.slug === 'shop').isEnabled, true);
});

test('a failed load says so with Try again, beside the sentence of an action', async t => {
  const { rest, view, find, notice, press } = await open(t);
  rest.refusals = { deleteBundle: REFUSED, bundles: 'no such folder' };
  press('Delete the bundle shop');
  await until(() => find('Delete shop?'));
  press('Delete shop?');
  await until(() => notice.textContent === REFUSED);
  await view.load();
  await until(() => find('Try again'));
  assert.equal(notice.textContent, `${REFUSED}no such folder (/home/me/project) Try again`);
  assert.ok(find('Bundle shop'), 'what was known stays');
  delete rest.refusals.bundles;
  press('Try again');
  await until(() => notice.textContent === REFUSED);
});

test('an older list is not shown over a newer one, and nothing comes after the end', async t => {
  const { rest, view, find } = await open(t);
  const letGo = rest.hold('bundles');
  const older = view.load();
  delete rest.gates.bundles;
  rest.bundleList = [FS];
  await view.load();
  await until(() => !find('Bundle shop'));
  letGo();
  await older;
  await tick();
  assert.equal(find('Bundle shop'), undefined);

  rest.bundleList = [SHOP];
  const letLast = rest.hold('bundles');
  const last = view.load();
  view.close();
  letLast();
  await last;
  await tick();
  assert.equal(find('Bundle shop'), undefined);
});

test('tools that come late do not undo a later delete', async t => {
  const { rest, view, find, press, unfold } = await open(t);
  await unfold();
  press('shop HTTP');
  const letGo = rest.hold('tools');
  press('shop HTTP');
  await until(() => rest.asked.filter(kind => kind === 'tools').length === 2);
  delete rest.gates.tools;
  rest.toolList = [];
  await view.load();
  letGo();
  await tick();
  assert.equal(find('Edit get 1'), undefined);
  assert.match(view.element.textContent, /No tools yet/);
});

test('the environment: a question keeps the old one, Cancel goes back, and a yes is sent with what was asked', async t => {
  let active = 'live';
  const sent = [];
  const { view, find, notice, asked } = await open(t, {
    environments: () => ({ shop: { names: ['live', 'test'], active } }),
    switchEnvironment: payload => {
      sent.push(payload);
      if (!payload.agreed.length) return { questions: [{ key: 'host', text: 'Allow requests to b?' }] };
      active = payload.name;
      return { notes: ['It has no token.'] };
    }
  });
  const select = find('Environment of shop');
  const choose = name => (select.focus(), (select.value = name), select.dispatchEvent(new Event('change', { bubbles: true })));
  assert.equal(select.value, 'live');
  choose('test');
  await until(() => find('Cancel'));
  await until(() => document.activeElement === find('Switch to test'));
  await until(() => select.value === 'live');
  await view.refresh();
  assert.ok(find('Cancel'), 'a load leaves the question');
  find('Cancel').click();
  await until(() => notice.hidden);
  assert.equal(document.activeElement, select);

  choose('test');
  await until(() => find('Switch to test'));
  find('Switch to test').click();
  await until(() => notice.textContent === 'It has no token.');
  await until(() => select.value === 'test');
  assert.deepEqual(sent.at(-1), { bundle: 'shop', name: 'test', agreed: ['host'] });
  assert.equal(document.activeElement, select);
  assert.equal(find('Environment of shop'), select);
  assert.ok(asked.length);
});

test('a kernel that does not answer keeps no bundle away, and a late line waits while somebody points at the list', async t => {
  let answer;
  const waits = new Promise(resolve => (answer = resolve));
  const { view, find } = await open(t, { environments: () => waits });
  const list = view.element.querySelector('.onetool-Sources-list');
  list.dispatchEvent(new MouseEvent('mouseenter'));
  answer({ shop: { names: ['live'], active: 'live' } });
  await tick();
  assert.equal(find('Environment of shop'), undefined);
  list.dispatchEvent(new MouseEvent('mouseleave'));
  await until(() => find('Environment of shop'));
});

test('Run all says how each tool went, again after a failure, and the report closes', async t => {
  let fails = true;
  const { view, find, press, heard } = await open(t, {
    runBundle: () => {
      if (fails) throw new Error('The kernel is busy.');
      return { runs: [{ tool: 'shop.get', outcome: 'ok', ms: 12, message: '', call: 'shop.get()' }, { tool: 'shop.buy', outcome: 'skipped', ms: 0, message: 'It may change something.', call: '' }] };
    }
  });
  const report = view.element.querySelector('[data-slug=shop] .onetool-Bundle-report');
  press('Run all tools of shop');
  await until(() => /The kernel is busy\./.test(report.textContent));
  fails = false;
  press('Try again');
  await until(() => /1 ok, 0 failed, 1 skipped/.test(report.textContent));
  assert.match(report.textContent, /get 12 ms.*buy It may change something\./);
  await view.refresh();
  assert.equal(report.querySelectorAll('li').length, 2);
  press('Close the report');
  await until(() => !report.firstChild);
  assert.deepEqual(heard, ['changed']);
});

const ADDER = { name: 'adder', type: 'stdio', state: 'connected', reason: '', address: 'python adder.py', tools: ['adder.add'], isSaved: false, signsIn: false };
const GEO = { name: 'geo', tools: 2, disabled: false, where: '/p/geo.py:3', action: { kind: 'open', path: '/p/geo.py', line: 3 } };

test('bundles, servers and packs of Python are one list by name, each with its kind', async t => {
  const { view, heard, press, transport } = await open(t, { packs: () => ({ items: [GEO] }), servers: () => ({ items: [ADDER] }) });
  view.servers.value = createServers(transport, {});
  await view.load();
  const rows = [...view.element.querySelectorAll('[aria-label="Sources"] > *')];
  assert.deepEqual(rows.map(row => row.querySelector('.otx-chip').textContent), ['MCP', 'Python', 'HTTP']);
  press('geo Python');
  press('Open the file of geo');
  assert.deepEqual(heard, ['geo', '/p/geo.py']);
  view.servers.value = null;
  await until(() => view.element.querySelectorAll('[aria-label="Sources"] > *').length === 1, 'they belong to the kernel that is gone');
});

const SEEN = { says: 'A command line: an MCP server.', choices: [{ kind: 'server', label: 'Add server' }], document: '', runs: ['time: uvx time'], name: 'time', fields: [] };
const seen = more => ({ ...SEEN, ...more });
const box = view => view.element.querySelector('textarea');
const enter = view => box(view).dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));

test('what a text is stands below it, and nothing is done before it is asked for', async t => {
  const { view, find, asked } = await open(t, { pasted: () => seen(), addServer: () => ({ said: 'time: added.', names: ['time'] }) });
  type(box(view), 'uvx time');
  await until(() => find('Add server'));
  assert.match(view.element.textContent, /an MCP server\..*time: uvx time/);
  assert.ok(!asked.some(({ kind }) => kind === 'addServer'));
});

test('Enter does the first of the choices: a server is added, and shown', async t => {
  const { view, heard, asked, find } = await open(t, { pasted: () => seen({ digest: 'abc' }), addServer: () => ({ said: 'time: added.', names: ['time'] }) });
  type(box(view), 'uvx time');
  enter(view);
  await until(() => find('Add server'));
  assert.ok(!asked.some(({ kind }) => kind === 'addServer'), 'what runs was not shown when Enter was pressed');
  enter(view);
  await until(() => /time: added\./.test(view.element.textContent));
  assert.equal(box(view).value, '');
  assert.deepEqual(heard, [['time']]);
  assert.deepEqual(asked.find(({ kind }) => kind === 'addServer').payload, { text: 'uvx time', name: '', isSaved: false, digest: 'abc', values: {} });
});

test('a value that is missing is asked for before anything is added', async t => {
  const { view, asked, find } = await open(t, { pasted: () => seen({ fields: [{ name: 'KEY', description: '' }] }), addServer: () => ({ said: 'added.', names: [] }) });
  type(box(view), 'uvx time');
  await until(() => find('Add server'));
  enter(view);
  await until(() => /Fill in KEY/.test(view.element.querySelector('[role="alert"]')?.textContent));
  const field = view.element.querySelector('[data-secret="KEY"]');
  assert.equal(document.activeElement, field);
  assert.equal(field.type, 'password');
  type(field, 's3cr3t');
  field.form.dispatchEvent(new Event('submit', { cancelable: true, bubbles: true }));
  await until(() => asked.some(({ kind }) => kind === 'addServer'));
  assert.deepEqual(asked.find(({ kind }) => kind === 'addServer').payload.values, { KEY: 's3cr3t' });
});

test('a curl command goes to the editor, and a document to the import', async t => {
  const { view, heard } = await open(t, { pasted: ({ text }) => seen({ choices: [{ kind: text.startsWith('curl') ? 'http' : 'import', label: 'Go' }], document: text.endsWith('yaml') ? 'openapi: 3.1.0' : '', fields: [] }) });
  for (const text of ['curl https://a.test', 'https://a.test/openapi.json', 'api.yaml']) {
    type(box(view), text);
    enter(view);
    await until(() => box(view).value === '');
  }
  assert.deepEqual(heard, [{ pasted: 'curl https://a.test' }, { name: '', text: 'https://a.test/openapi.json' }, { name: 'api.yaml', text: 'openapi: 3.1.0' }]);
});

test('a refusal is an alert with the words of the kernel, and goes with the next letter', async t => {
  const { view } = await open(t, { pasted: () => { throw new Error("'pip install' installs a program."); } });
  type(box(view), 'pip install x');
  await until(() => /installs a program/.test(view.element.querySelector('[role="alert"]')?.textContent));
  type(box(view), '');
  await until(() => !view.element.querySelector('[role="alert"]'));
});

test('a kernel that cannot answer is said to be so', async t => {
  const { view, asked } = await open(t, {}, { connect: async () => 'No module named onetool_ipy' });
  type(box(view), 'uvx time');
  await until(() => /No module named/.test(view.element.textContent));
  assert.ok(!asked.some(({ kind }) => kind === 'pasted'));
});

test('what is typed while it is looked at is looked at instead', async t => {
  const replies = [];
  const { view } = await open(t, { pasted: ({ text }) => new Promise(resolve => replies.push(() => resolve(seen({ says: `This is ${text}.` })))) });
  type(box(view), 'one');
  await until(() => replies.length === 1);
  type(box(view), 'two');
  await until(() => replies.length === 2);
  replies[1]();
  replies[0]();
  await until(() => /This is two\./.test(view.element.textContent));
  assert.doesNotMatch(view.element.textContent, /This is one/);
});

test('Enter is about the text that stood there, not about one that took its place', async t => {
  const replies = new Map();
  const { view, heard } = await open(t, { pasted: ({ text }) => new Promise(resolve => replies.set(text, () => resolve(seen({ says: `This is ${text}.`, choices: [{ kind: 'http', label: 'Go' }] })))) });
  type(box(view), 'curl one');
  enter(view);
  await until(() => replies.has('curl one'));
  type(box(view), 'curl two');
  await until(() => replies.has('curl two'));
  replies.get('curl two')();
  await until(() => /This is curl two\./.test(view.element.textContent));
  replies.get('curl one')();
  await tick();
  assert.deepEqual([heard, box(view).value], [[], 'curl two']);
});

test('what is typed while a server is added stays', async t => {
  let added;
  const { view, find, heard } = await open(t, { pasted: () => seen(), addServer: () => new Promise(resolve => (added = resolve)) });
  type(box(view), 'uvx time');
  await until(() => find('Add server'));
  enter(view);
  await until(() => added);
  type(box(view), 'uvx other');
  added({ said: 'time: added.', names: ['time'] });
  await until(() => heard.length);
  assert.equal(box(view).value, 'uvx other');
});

test('the file that was chosen last is looked at, and what is typed later stays', async t => {
  const { view, find, press } = await open(t, { pasted: ({ text }) => ({ says: `It is ${text}.`, choices: [{ kind: 'http', label: 'Make it' }], document: '', runs: [], name: '', fields: [] }) });
  const box = view.element.querySelector('textarea');
  const choose = async file => {
    if (find('Clear')) press('Clear');
    await until(() => find('Choose a file to add'));
    pick(find('Choose a file to add'), file);
  };
  const [first, second, third] = ['first', 'second', 'third'].map(text => slowFile(`${text}.json`, text));
  await choose(first.file);
  await choose(second.file);
  second.read();
  await until(() => /It is second\./.test(view.element.textContent));
  first.read();
  await tick();
  assert.equal(box.value, 'second');
  await choose(third.file);
  type(box, 'typed');
  third.read();
  await tick();
  assert.equal(box.value, 'typed');
  await choose(Object.assign(new File(['x'], 'gone.json'), { text: async () => { throw new Error('gone.json could not be read.'); } }));
  await until(() => /gone\.json could not be read\./.test(view.element.textContent));
});

test('the question of one bundle stays while another one switches its environment', async t => {
  const names = ['live', 'test'];
  const { rest, view, find } = await open(t, {
    environments: () => ({ shop: { names, active: 'live' }, mail: { names, active: 'live' } }),
    switchEnvironment: ({ bundle }) => (bundle === 'shop' ? { questions: [{ key: 'host:x', text: 'May it go to x?' }] } : new Promise(resolve => setTimeout(resolve, 20, { notes: [] })))
  });
  rest.bundleList = [SHOP, { ...SHOP, bundleID: 'b3', slug: 'mail' }];
  await view.load();
  await until(() => find('Environment of mail'));
  for (const slug of ['mail', 'shop']) {
    find(`Environment of ${slug}`).value = 'test';
    find(`Environment of ${slug}`).dispatchEvent(new Event('change', { bubbles: true }));
  }
  await until(() => find('Switch to test'));
  await until(() => view.element.querySelector('[aria-label="Environment of mail"][aria-busy=false]'));
  assert.ok(find('Switch to test'), 'the question is gone');
});
