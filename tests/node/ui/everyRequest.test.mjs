// Every request of every screen, by one table: a refusal is shown and it can be asked again, an older reply is never shown
// over a newer one, and nothing happens once the view is closed. A request that is missing here fails the last test.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test from 'node:test';
import { panel, type, ui, until } from './page.mjs';

const { Transport } = await ui('transport');
const { createAsk } = await ui('ask');
const { createBrowser } = await ui('browser');
const { createViewer } = await ui('viewer');
const { createUsage } = await ui('usage');
const { createHealth } = await ui('health');
const { drawInto } = await ui('parts');
const { createServers } = await ui('servers');
const { createServerPage } = await ui('serverPage');
const { createHttpEditor } = await ui('httpEditor');
const { createToolTab } = await ui('toolTab');
const { default: entry } = await ui('widget');
const { SourcesView } = await panel('sources');
const { createImport } = await panel('importScreen');
window.Element.prototype.scrollIntoView ??= () => {};
document.execCommand ??= () => true;

const REFUSED = 'Refused for this test.';
const TOOL = { name: 'nb.slow', pack: 'nb', source: 'local', tags: [], summary: '', description: '', arguments: ['n'], badges: [], disabled: false };
const PAGE = { ...TOOL, signature: 'nb.slow(n)', parameters: { type: 'object', properties: { n: { type: 'string' } } }, usage: { calls: 0 }, isFavourite: false };
const SERVER = { name: 'srv', type: 'stdio', state: 'connected', reason: '', address: 'uvx srv', tools: [], isSaved: true, signsIn: false };
const TEXT = { ok: true, handle: 'h', tool: 'nb.slow', lines: 3, preview: ['a', 'b', 'c'], kinds: ['text'] };
const COLUMNS = [{ name: 'a', kind: 'integer' }];
const SHOP = { slug: 'shop', baseUrl: 'https://api.shop.com', environment: 'live', environments: ['live', 'test'], variables: {} };
const BUNDLE = { bundleID: 'b', slug: 'shop', description: '', isEnabled: true, isBuiltIn: false };
const GET = { bundleID: 'b', slug: 'get', version: '1', description: 'Get', type: 'http', http: { request: {} }, isEnabled: true, isBuiltIn: false, available: true, callCount: 0 };
const CALL = { id: 'c', tool: 'nb.slow', ok: true, ms: 1, when: 'now', summary: '', args: {}, readOnly: true };

/** What the kernel answers where a test holds nothing back. */
const ANSWERS = {
  overview: () => ({ tools: 1, packs: [{ name: 'nb', count: 1 }], sources: ['local'], tags: [], badges: [], favourites: [], recent: [] }),
  entries: () => ({ items: [TOOL], icons: [], isPartial: false }),
  search: () => ({ items: [TOOL], icons: [] }),
  favourite: () => ({ favourites: ['nb.slow'] }),
  trust: () => ({ isTrusted: true, wouldRun: { parts: [] } }),
  results: () => ({ items: [{ handle: 'h', tool: 'nb.slow', when: 'now', summary: '3 lines' }] }),
  run: () => ({ job: 'j1' }),
  cancel: () => ({}),
  tool: () => PAGE,
  check: () => ({ errors: [], code: { tool: '%tool nb.slow' } }),
  variables: () => ({ items: [{ name: 'x', kind: 'int' }] }),
  open: () => TEXT,
  history: () => ({ hasMore: false, items: [CALL] }),
  page: () => ({ lines: [], total: 1000 }),
  find: () => ({ hits: [1], matched: 1, isComplete: true }),
  tree: () => ({ children: [{ key: 'k', kind: 'int', preview: '1', count: 0 }], total: 1 }),
  image: () => ({ parts: [{ text: 'a picture' }] }),
  table: () => ({ columns: COLUMNS, total: 2, rows: [[0, '1'], [1, '2']] }),
  summary: () => ({ kind: 'integer', rows: 2, missing: 0, distinct: 2, top: [] }),
  values: () => ({ items: [{ id: 1, text: '1', count: 1 }], total: 1 }),
  copied: () => ({ text: '1' }),
  pandasCode: () => ({ code: 'df' }),
  download: () => ({ name: 'a.csv', mime: 'text/csv', size: 2, part: 1 }),
  part: () => ({ base64: 'YQ==' }),
  assign: () => ({ said: 'saved' }),
  comparable: () => ({ items: [{ handle: 'o', tool: 'nb.slow', text: '', when: 'then', isSame: true }] }),
  compare: () => ({ text: 'nothing changed', key: [], columns: [], sides: [{}, {}], result: {} }),
  usage: () => ({ period: 'week', tool: '', since: '', known: [], totals: [], series: [], tools: [], failures: [] }),
  health: () => ({ missing: [] }),
  problemLines: () => ({ first: 1, line: 1, lines: ['a'] }),
  servers: () => ({ items: [SERVER] }),
  server: () => ({ said: 'done' }),
  serverLogs: () => ({ text: 'log' }),
  serverPage: () => ({ server: SERVER, tools: [], prompts: [] }),
  serverMessages: () => ({ rows: [{ number: 1, time: '', way: '→', method: 'm', id: 1, ms: 1, bytes: 1, message: '{}' }] }),
  serverMessage: () => ({ text: '{}' }),
  httpTool: () => ({ bundles: [SHOP], secrets: [], tool: null }),
  httpSend: () => ({ request: { method: 'GET', url: 'https://a.test', headers: {} }, response: { status: 200, phrase: 'OK', durationMs: 1, size: 2, headers: {} }, isOk: true, view: TEXT }),
  httpSave: () => ({ name: 'shop.a', version: '1' }),
  httpSecret: () => ({ secrets: ['TOKEN'] }),
  httpSelect: () => ({ view: TEXT }),
  httpCurl: () => ({ tool: { http: { request: { method: 'GET', urlTemplate: 'https://a.test' } } }, notes: [], missing: [], secrets: [] }),
  switchEnvironment: () => ({ notes: [] }),
  models: () => ({ models: [], default: '', keys: [], addresses: { openai: 'https://api.openai.com/v1' }, inProject: false, ownFile: 'onetool.yaml' }),
  findModels: () => ({ items: [{ place: 'LM Studio', entry: { provider: 'openai', base_url: 'http://127.0.0.1:1234/v1', model: 'm' }, models: ['m'] }], said: '' }),
  modelNames: () => ({ models: ['m', 'n'] }),
  testModel: () => ({ isOk: true, said: 'm answered' }),
  saveModel: () => ({ name: 'local', said: 'Saved' }),
  sessions: () => ({ items: ['chat'] }),
  conversation: () => ({ items: [{ id: 'e', prompt: 'Hi', when: 'now', state: 'done', isOk: true, facts: 'm', parts: [{ text: 'Hello' }] }], earlier: 0, tokens: 2, cost: 0.1 }),
  forgetSession: () => ({ said: 'gone' }),
  view: () => ({ view: 'usage', options: {}, picture: '' }),
  environments: () => ({ shop: { names: ['live', 'test'], active: 'live' } }),
  packs: () => ({ items: [{ name: 'nb', tools: 1, disabled: false, where: '', action: null }] }),
  pasted: ({ text }) => ({ says: `It is ${text}.`, choices: [{ kind: 'server', label: 'Add the server' }], document: '', runs: ['uvx srv'], digest: '', name: 'srv', fields: [] }),
  addServer: () => ({ said: 'Added srv.', names: ['srv'] }),
  runBundle: () => ({ runs: [{ tool: 'shop.get', outcome: 'ok', ms: 1, message: '', call: '' }] }),
  // What follows is asked of the REST API.
  bundles: () => [BUNDLE],
  tools: () => [GET],
  switchBundle: () => null,
  deleteBundle: () => null,
  switchTool: () => null,
  deleteTool: () => null,
  previewImport: ([document]) => ({ kind: 'OpenAPI', bundle: { slug: 'items', displayName: document }, operations: [{ name: 'list', method: 'GET', url: 'https://x.test/list', tags: [], description: '' }], hosts: [], secrets: [], notes: [] }),
  importDocument: () => ({ bundle: { slug: 'items' }, tools: [{ slug: 'list' }], blockedHosts: ['y.test'], secrets: [{ name: 'KEY' }] }),
  allowHosts: () => null
};
const REST = ['bundles', 'tools', 'switchBundle', 'deleteBundle', 'switchTool', 'deleteTool', 'previewImport', 'importDocument'];

/** A kernel that keeps back its answers to one kind of request once `hold` is set to it. */
class Kernel {
  constructor(answers = {}) {
    Object.assign(this, { answers: { ...ANSWERS, ...answers }, hold: null, held: [], asked: [] });
    this.transport = new Transport(message => this.take(message));
  }

  async take({ id, kind, payload }) {
    this.asked.push(kind);
    const answer = () => this.transport.receive({ id, value: this.answers[kind](payload) });
    const refuse = () => this.transport.receive({ id, error: { message: REFUSED } });
    if (kind === this.hold) this.held.push({ answer, refuse });
    else await Promise.resolve().then(answer);
  }

  count(kind) {
    return this.asked.filter(each => each === kind).length;
  }
}

const button = (view, name) => [...view.element.querySelectorAll('button')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === name || each.textContent === name);
const more = async view => {
  if (!view.element.querySelector('.otx-compare-choices')) button(view, '⋯').click();
  await until(() => view.element.querySelector('.otx-compare-choices'));
};
const press = name => async view => (await until(() => button(view, name), `no button ${name}`), button(view, name).click());
const field = (view, label) => view.element.querySelector(`[aria-label="${label}"]`);
let typed = 0;
const typeInto = label => view => type(field(view, label), `https://api.shop.com/${(typed += 1)}`);

const browser = async ({ transport }) => {
  const view = createBrowser(transport);
  await until(() => view.tools.items.length);
  return view;
};
const toolPage = async kernel => {
  const view = await browser(kernel);
  await view.open('nb.slow', { n: '1' });
  await until(() => button(view, 'Run'));
  return view;
};
const viewerOf = (result, ready) => async ({ transport }) => {
  const view = createViewer(transport);
  const show = () => view.show({ ...TEXT, ...result });
  show();
  if (ready) await until(() => ready(view));
  return Object.assign(view, { again: show });
};
const table = viewerOf({ kinds: ['table', 'summary'], rows: 2 }, view => button(view, 'Filter a'));
const screenOf = (create, ready) => async kernel => {
  const view = create(kernel);
  document.body.replaceChildren(view.element);
  await until(() => ready(view));
  return view;
};
const usage = screenOf(({ transport }) => createUsage(transport), view => /No calls yet/.test(view.element.textContent));
const health = screenOf(({ transport }) => {
  const view = createHealth({ source: transport, onRefresh: async () => {} });
  view.draw({ tools: 1, servers: {}, problems: [{ where: 'a.yaml:1', message: 'wrong', hint: '', action: { kind: 'open', label: 'Open' } }] });
  return view;
}, () => true);
const servers = screenOf(({ transport }) => {
  const view = createServers(transport, {});
  const element = document.createElement('div');
  const stop = drawInto(element, () => [view.notice().text, ...view.items().map(view.row)]);
  view.load();
  return { ...view, element, close: () => (view.close(), stop()) };
}, view => button(view, 'Logs srv'));
const serverPage = screenOf(({ transport }) => createServerPage(transport, 'srv'), view => button(view, 'Stop') && view.element.querySelector('.otx-messages li'));
const editor = screenOf(({ transport }) => createHttpEditor(transport, {}), view => view.element.querySelector('datalist option'));
const asking = async kernel => {
  const view = createAsk(kernel.transport, { onAsk: async () => '', onStop: () => {} });
  document.body.replaceChildren(view.element);
  view.load();
  await until(() => /Hello/.test(view.element.textContent));
  button(view, 'Models').click();
  await until(() => button(view, 'Look for models'));
  return view;
};
const sent = async kernel => {
  const view = await editor(kernel);
  type(field(view, 'URL'), 'https://api.shop.com/a');
  button(view, 'Send').click();
  await until(() => /200 OK/.test(view.element.textContent));
  return view;
};
const widget = async ({ transport }) => {
  const element = document.createElement('div');
  document.body.replaceChildren(element);
  // The widget has a transport of its own, over its model.
  const listeners = [];
  const model = { on: (_, listener) => listeners.push(listener), off: () => {}, send: message => transport.request(message.kind, message.payload).then(value => listeners[0]({ id: message.id, value }), error => listeners[0]({ id: message.id, error: { message: error.message } })) };
  let close = () => {};
  return { element, close: () => close(), draw: () => (close = entry.render({ model, el: element })) };
};
const toolTab = screenOf(({ transport }) => createToolTab(transport, 'nb.slow', { n: '1' }, { onInsert() {}, onTrust() {}, onChanged() {} }), view => button(view, 'Run'));
const restOf = ({ transport }) => Object.fromEntries(REST.map(kind => [kind, (...given) => transport.request(kind, given)]));
const sources = screenOf(kernel => {
  const done = () => {};
  const view = new SourcesView({ ...restOf(kernel), project: '' }, kernel.transport, { connect: async () => '', onChanged: done, onEdit: done, onImport: done, onAdded: done, onShow: done, onOpen: done });
  return Object.assign(view, { close: view.close.bind(view) });
}, view => field(view, 'Bundle shop'));
const openBundle = async kernel => {
  const view = await sources(kernel);
  view.toggle('shop');
  await until(() => field(view, 'get 1'));
  return view;
};
const pastedServer = async kernel => {
  const view = await sources(kernel);
  type(field(view, 'Add'), 'uvx srv');
  await until(() => button(view, 'Add the server'));
  return view;
};
const importing = screenOf(kernel => createImport(restOf(kernel), kernel.transport, { onImported() {}, onClose() {} }), () => true);
const previewed = async kernel => {
  const view = await importing(kernel);
  view.show({ name: '', text: 'https://x.test/openapi.json' });
  await until(() => button(view, 'Import 1 tool'));
  return view;
};
const imported = async kernel => {
  const view = await previewed(kernel);
  button(view, 'Import 1 tool').click();
  await until(() => button(view, 'Save KEY'));
  return view;
};
const twice = (label, again) => async view => (button(view, label).click(), await press(again)(view));

/**
 * kind, the screen, what asks; `isOne`: not twice at a time; `quiet`: why a refusal is not told, so that nothing is in the way
 * of what is shown.
 */
const ROWS = [
  ['overview', browser, view => view.load()],
  ['entries', browser, view => view.load()],
  ['search', kernel => (kernel.answers.entries = () => ({ items: [TOOL], icons: [], isPartial: true }), browser(kernel)), view => type(view.search, `n${(typed += 1)}`)],
  ['favourite', toolPage, view => view.element.querySelector('.otx-title .otx-star').click()],
  ['trust', browser, view => view.askTrustAgain()],
  ['results', browser, view => (view.selectView('tools'), view.selectView('results'))],
  ['run', toolPage, view => view.page.run(), { isEach: true }],
  ['cancel', async kernel => {
    const view = await toolPage(kernel);
    button(view, 'Run').click();
    await until(() => view.calls.all[0]?.id);
    return view;
  }, press('Cancel'), { quiet: 'the call runs on, and Cancel is there again' }],
  ['tool', browser, view => view.open('nb.slow')],
  ['check', toolPage, view => view.page.check()],
  ['variables', toolPage, view => {
    const input = view.element.querySelector('.otx-form input');
    for (const text of ['', '=x']) type(input, text);
  }, { quiet: 'names are not suggested' }],
  ['open', async kernel => {
    const view = await browser(kernel);
    view.selectView('results');
    await until(() => button(view, 'Open'));
    return view;
  }, press('Open')],
  ['history', async kernel => {
    const view = await browser(kernel);
    view.selectView('history');
    await until(() => view.element.querySelector('.otx-history-row'));
    return view;
  }, view => view.history.load()],
  ['page', viewerOf({ lines: 1000, preview: ['a'] }), view => view.again(), { quiet: 'rows that cannot be loaded stay "…"' }],
  ['find', viewerOf({}), async view => {
    type(field(view, 'Find in the result'), `a${(typed += 1)}`);
    field(view, 'Find in the result').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
  }],
  ['tree', viewerOf({ kinds: ['tree'] }), view => view.again()],
  ['image', viewerOf({ kinds: ['image'] }), view => view.again()],
  ['table', table, view => view.again()],
  ['summary', table, press('Summary')],
  ['values', table, press('Filter a')],
  ['copied', table, press('Cells')],
  ['pandasCode', table, press('As pandas code')],
  ['download', table, press('CSV'), { isEach: true }],
  ['part', table, press('CSV'), { isEach: true }],
  ['assign', viewerOf({}), async view => (await more(view), press('Save')(view))],
  ['comparable', viewerOf({}), async view => (view.element.querySelector('.otx-compare-choices') && (button(view, '⋯').click(), await until(() => !view.element.querySelector('.otx-compare-choices'))), more(view))],
  ['compare', viewerOf({}), async view => {
    await more(view);
    await settled(); // the choices of the time before are gone
    await until(() => view.element.querySelector('.otx-compare-choice'));
    view.element.querySelector('.otx-compare-choice').click();
  }],
  ['usage', usage, view => view.load()],
  ['health', health, press('Check now'), { isOne: true }],
  ['problemLines', health, view => {
    const toggle = view.element.querySelector('.otx-problem-line');
    if (toggle.getAttribute('aria-expanded') === 'true') toggle.click();
    toggle.click();
  }, { quiet: 'the problem is shown without its lines' }],
  ['servers', servers, view => view.load()],
  ['server', servers, press('Restart srv'), { isEach: true }],
  ['serverLogs', servers, press('Logs srv')],
  ['serverPage', serverPage, (_, { transport }) => transport.receive({ event: 'changed' })],
  ['serverMessages', serverPage, press('Restart'), { isOne: true }],
  ['serverMessage', serverPage, press('Copy as JSON'), { isEach: true }],
  ['httpTool', ({ transport }) => ({ element: document.createElement('div'), close() {}, start() {
    const view = createHttpEditor(transport, {});
    this.element.append(view.element);
    this.close = view.close;
  } }), view => view.start(), { isOne: true }],
  ['httpSend', editor, view => (typeInto('URL')(view), button(view, 'Send').click()), { isOne: true }],
  ['httpSave', editor, view => (typeInto('URL')(view), button(view, 'Save').click()), { isOne: true }],
  ['httpSecret', editor, view => {
    typeInto('URL')(view);
    const choose = (label, value) => (field(view, label).value = value, field(view, label).dispatchEvent(new Event('change', { bubbles: true })));
    choose('Kind of auth', 'bearer');
    const secret = field(view, 'Secret');
    secret.value = [...secret.options].at(-1).value;
    secret.dispatchEvent(new Event('change', { bubbles: true }));
    for (const input of view.element.querySelectorAll('input')) if (/secret/i.test(input.getAttribute('aria-label') ?? '')) type(input, 'TOKEN');
    button(view, 'Send').click();
  }, { isOne: true }],
  ['httpSelect', sent, view => type(field(view, 'Keep (JMESPath)'), `a${(typed += 1)}`)],
  ['httpCurl', editor, view => (type(field(view, 'curl command'), 'curl https://a.test'), button(view, 'Fill in').click()), { isOne: true }],
  ['switchEnvironment', async kernel => {
    const view = await editor(kernel);
    type(field(view, 'Bundle'), 'shop');
    return view;
  }, view => field(view, 'Environment').dispatchEvent(new Event('change', { bubbles: true })), { isOne: true }],
  ['models', asking, view => view.load()],
  ['sessions', asking, view => view.load()],
  ['conversation', asking, view => view.load()],
  ['findModels', asking, press('Look for models'), { isOne: true }],
  ['modelNames', asking, press('List'), { isOne: true }],
  ['testModel', asking, press('Test'), { isOne: true }],
  ['saveModel', asking, press('Save'), { isOne: true }],
  ['forgetSession', asking, async view => {
    button(view, 'Forget').click();
    await press('Really forget?')(view);
  }, { isOne: true }],
  ['view', widget, view => view.draw(), { isOne: true, quiet: 'the picture stays' }],
  ['environments', sources, view => view.load(), { quiet: 'the bundles are shown without them' }],
  ['packs', sources, view => view.load(), { quiet: 'the bundles are shown without them' }],
  ['pasted', sources, view => type(field(view, 'Add'), `text ${(typed += 1)}`)],
  ['addServer', pastedServer, press('Add the server'), { isOne: true }],
  ['runBundle', sources, view => view.runAll('shop')],
  ['bundles', sources, view => view.load()],
  ['tools', openBundle, view => view.load()],
  ['switchBundle', sources, view => field(view, 'Bundle shop').click(), { isOne: true }],
  ['deleteBundle', sources, twice('Delete the bundle shop', 'Delete shop?'), { isOne: true }],
  ['switchTool', openBundle, view => field(view, 'get 1').click(), { isOne: true }],
  ['deleteTool', openBundle, twice('Delete get 1', 'Delete get 1?'), { isOne: true }],
  ['previewImport', importing, view => view.show({ name: '', text: `https://x.test/${(typed += 1)}` })],
  ['allowHosts', imported, press('Allow y.test'), { isOne: true }],
  ['importDocument', previewed, press('Import 1 tool'), { isOne: true }],
  // What other screens ask, too.
  ['favourite', toolTab, view => view.element.querySelector('.otx-title .otx-star').click(), { of: 'the tab of a tool' }],
  ['check', toolTab, press('Run'), { isEach: true, of: 'Run' }],
  ['serverLogs', serverPage, view => view.element.querySelector('[data-kind=log]').click(), { of: 'the page of a server' }],
  ['server', serverPage, press('Stop'), { isEach: true, of: 'the page of a server' }],
  ['switchEnvironment', sources, view => field(view, 'Environment of shop').dispatchEvent(new Event('change', { bubbles: true })), { isOne: true, of: 'Sources' }],
  ['httpSecret', imported, view => (type(field(view, 'Value of KEY'), 'secret'), button(view, 'Save KEY').click()), { isOne: true, of: 'a secret that is missing' }]
];
/** What is asked by what needs JupyterLab, and tested in it. */
const OF_JUPYTERLAB = ['questionSeen', 'report', 'saveTool'];

/** Open a screen, and keep back what it asks for. */
async function open(t, kind, create) {
  const kernel = new Kernel();
  const view = await create(kernel);
  t.after(() => view.close());
  document.body.replaceChildren(view.element);
  await new Promise(resolve => setTimeout(resolve, 5));
  kernel.hold = kind;
  const waitFor = count => until(() => kernel.held.length >= count, `${kind} was not asked ${count} times`);
  return { kernel, view, waitFor };
}

const settled = () => new Promise(resolve => setTimeout(resolve, 20));
const textOf = view => view.element.textContent;

for (const [kind, create, ask, { isOne = false, isEach = false, quiet = '', of = '' } = {}] of ROWS) {
  const name = of ? `${kind} of ${of}` : kind;
  test(`${name}: a refusal is ${quiet ? 'quiet' : 'told'}, and it can be asked again`, async t => {
    const { kernel, view, waitFor } = await open(t, kind, create);
    ask(view, kernel);
    await waitFor(1);
    kernel.held[0].refuse();
    if (quiet) await settled();
    else await until(() => textOf(view).includes(REFUSED), `${kind}: the refusal is not shown`);
    ask(view, kernel);
    await waitFor(2);
    kernel.held[1].answer();
    await settled();
  });

  test(`${name}: nothing comes after the end`, async t => {
    const { kernel, view, waitFor } = await open(t, kind, create);
    ask(view, kernel);
    await waitFor(1);
    await settled();
    view.close();
    const [before, asked] = [view.element.innerHTML, kernel.asked.length];
    for (const [at, each] of kernel.held.entries()) at % 2 ? each.answer() : each.refuse();
    await settled();
    assert.equal(view.element.innerHTML, before);
    assert.equal(kernel.asked.length, asked);
  });

  if (isOne || isEach) continue;
  test(`${name}: an older reply is not shown over a newer one`, async t => {
    const { kernel, view, waitFor } = await open(t, kind, create);
    ask(view, kernel);
    await waitFor(1);
    ask(view, kernel);
    await waitFor(2);
    kernel.held[1].answer();
    await settled();
    const before = textOf(view);
    kernel.held[0].refuse();
    await settled();
    assert.equal(textOf(view), before);
    assert.ok(!before.includes(REFUSED));
  });
}

test('the table has every request of the screens and of the panel', () => {
  const kinds = new Set();
  for (const part of ['screens', 'panel']) {
    const folder = new URL(`../../../labextension/src/${part}/`, import.meta.url);
    for (const name of readdirSync(folder).filter(each => !['requests.ts', 'restClient.ts'].includes(each))) {
      const code = readFileSync(new URL(name, folder), 'utf8').replace(/^\s*(\/\/|\*).*$/gm, '');
      for (const [, kind] of code.matchAll(/(?:\.latest(?:<.*?>)?|\.once(?:<.*?>)?|\bask(?:<.*?>)?|\.send)\(\[?'(\w+)'/g)) kinds.add(kind);
      for (const [, copied, own] of code.matchAll(/copyFrom\('(\w+)'|\brest\.(?!delete\()(\w+)\(/g)) kinds.add(copied ?? own);
    }
  }
  assert.deepEqual([...kinds].sort(), [...new Set(ROWS.map(([kind]) => kind)), ...OF_JUPYTERLAB].sort());
});
