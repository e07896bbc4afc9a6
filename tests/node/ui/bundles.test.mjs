// The bundles of the panel without JupyterLab: what a person began stays through every load, a refusal stays until the next
// action, and replies come in any order.
import assert from 'node:assert/strict';
import test from 'node:test';
import { panel, transportOf, until } from './page.mjs';

const { BundlesView } = await panel('bundles');
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

async function open(t, answers = {}) {
  const rest = new Rest();
  const { transport, asked } = await transportOf({ environments: () => ({}), ...answers });
  const heard = [];
  const view = new BundlesView(rest, transport, { onChanged: () => heard.push('changed'), onEdit: place => heard.push(place), onImport: () => {} });
  t.after(() => view.close());
  document.body.replaceChildren(view.element);
  const find = label => [...view.element.querySelectorAll('button, input, select')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === label);
  const notice = view.element.querySelector('.otx-notice');
  await until(() => find('Bundle shop'), 'the bundles were not drawn');
  const press = label => (assert.ok(find(label), `no '${label}'`), find(label).focus(), find(label).click());
  const unfold = async () => (press('shop'), await until(() => find('get 1')));
  return { rest, view, heard, asked, find, notice, press, unfold };
}

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
  press('shop');
  const letGo = rest.hold('tools');
  press('shop');
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
  const list = view.element.querySelector('.onetool-Bundles-list');
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
