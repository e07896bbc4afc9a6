// A kernel that answers in any order, late and with refusals, while a person clicks without waiting: no exception, and in the
// end each part shows what was asked of it last. ONETOOL_STORMS sets how many of each (3).
import assert from 'node:assert/strict';
import test from 'node:test';
import { panel, press, type, ui, until } from './page.mjs';

const { Transport } = await ui('transport');
const { createAsk } = await ui('ask');
const { createBrowser } = await ui('browser');
const { createServers } = await ui('servers');
const { createToolTab } = await ui('toolTab');
const { SourcesView } = await panel('sources');
document.execCommand ??= () => true;
window.Element.prototype.scrollIntoView ??= () => {};
const STORMS = Number(process.env.ONETOOL_STORMS ?? 3);
const CLICKS = 200;

const NAMES = Array.from({ length: 12 }, (_, at) => `pack${at % 3}.tool${at}`);
const entry = name => ({ name, pack: name.split('.')[0], source: 'local', tags: [], summary: name, description: name, arguments: [], badges: [], disabled: false });
const page = name => ({ ...entry(name), signature: `${name}()`, parameters: { type: 'object', properties: {} }, usage: { calls: 0 }, isFavourite: false });

/** Random numbers that are the same for the same seed. */
function randomOf(seed) {
  let state = seed * 2654435761 % 2 ** 32;
  return n => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** A transport to a kernel that does things in the order in which it is asked, and answers in any. `onReply` hears what it sends. */
function transportOf(weather, answers, onReply = () => {}) {
  const transport = new Transport(({ id, kind, payload }) => {
    const value = structuredClone(answers[kind]?.(payload));
    const message = value === undefined || weather.isRough() ? { id, error: { message: `${kind} was refused.` } } : { id, value };
    setTimeout(() => {
      transport.receive(message);
      onReply(kind, payload, message);
    }, weather.random(20));
  });
  return transport;
}

/** One storm for each seed. `act(storm)` opens a screen and returns what a person may do, and what must hold in the end. */
function storms(title, open) {
  for (let seed = 1; seed <= STORMS; seed += 1) {
    test(`a storm of ${CLICKS} clicks ${title}, number ${seed}`, async () => {
      const random = randomOf(seed);
      const pick = list => list[random(list.length)];
      const weather = { random, pick, isCalm: true, isRough: () => !weather.isCalm && random(12) === 0 };
      const thrown = [];
      const onError = ({ error }) => thrown.push(error);
      window.addEventListener('error', onError);
      const { element, actions, end, close } = await open(weather);
      weather.isCalm = false;
      const buttons = [...actions, () => pick(buttonsOf(element))?.click()];
      for (let click = 0; click < CLICKS; click += 1) {
        pick(buttons)();
        if (random(3) === 0) await new Promise(resolve => setTimeout(resolve, random(8)));
      }
      weather.isCalm = true; // from here on nothing is refused, and what was asked last must be there
      await end();
      close();
      await new Promise(resolve => setTimeout(resolve, 50));
      window.removeEventListener('error', onError);
      assert.deepEqual(thrown, []);
    });
  }
}

function buttonsOf(element, selector = 'button') {
  return [...element.querySelectorAll(selector)].filter(each => !each.closest('[hidden]') && !each.disabled);
}

function choose(select, value) {
  select.value = value;
  select.dispatchEvent(new Event('change', { bubbles: true }));
}

storms('in the browser ends in what was asked last', async weather => {
  const { random, pick } = weather;
  const stars = new Set();
  let jobs = 0;
  const answers = {
    overview: () => ({ tools: NAMES.length, packs: ['pack0', 'pack1', 'pack2'].map(name => ({ name, count: 4 })), sources: ['local'], tags: [], badges: [], favourites: [...stars], recent: [] }),
    entries: () => ({ items: NAMES.map(entry), icons: [], isPartial: true }),
    search: ({ query, filters }) => ({ items: NAMES.filter(name => name.includes(query) && (!filters.pack || name.startsWith(filters.pack)) && (!filters.isFavourite || stars.has(name))).map(entry), icons: [] }),
    favourite: ({ name, isOn }) => (isOn ? stars.add(name) : stars.delete(name), { favourites: [...stars] }),
    tool: ({ name }) => ({ ...page(name), isFavourite: stars.has(name) }),
    check: () => ({ errors: [], code: { tool: '%tool' } }),
    run: () => ({ job: `j${(jobs += 1)}` }),
    cancel: () => ({}),
    history: ({ query, isFailed, since, offset }) => ({ hasMore: offset < 50, items: [{ id: `${query}|${isFailed}|${since}|${offset}`, tool: NAMES[0], ok: true, ms: 1, when: 'now', summary: `asked ${query} ${isFailed} ${since}`, args: {}, readOnly: true }] }),
    results: () => ({ items: [{ handle: 'h', tool: NAMES[1], when: 'now', summary: '3 lines' }] }),
    open: ({ handle }) => ({ ok: true, handle, lines: 1, preview: ['a'], kinds: ['text'] })
  };
  const transport = transportOf(weather, answers, (kind, payload, { value }) => {
    if (kind === 'run' && value) setTimeout(() => transport.receive({ event: 'job', job: value.job, result: { ok: true, tool: payload.name, lines: 1, preview: ['x'], kinds: ['text'] } }), random(20));
  });
  const browser = createBrowser(transport);
  const { element } = browser;
  document.body.replaceChildren(element);
  await until(() => browser.tools.items.length);
  const actions = [
    () => browser.open(pick(NAMES), null, false),
    ...['.otx-tabs [data-kind]', '.otx-pack', '.otx-star', '.otx-run', '.otx-history button'].map(selector => () => pick(buttonsOf(element, selector))?.click()),
    () => type(browser.search, pick(['', 'tool1', 'pack2', 'tool'])),
    () => transport.receive({ event: 'changed' })
  ];
  const end = async () => {
    await until(() => transport.longestWaitMs === 0);
    const last = pick(NAMES);
    for (const name of [pick(NAMES), pick(NAMES), last]) browser.open(name, null, false);
    browser.selectView('tools');
    browser.setFilters({ pack: '', source: '', tag: '', isFavourite: false });
    for (const text of ['pack1', 'tool', 'tool7']) type(browser.search, text);
    for (const isOn of [true, false, true]) browser.setFavourite(last, isOn);
    await until(() => transport.longestWaitMs === 0 && browser.tools.items.map(({ name }) => name).join() === 'pack1.tool7', `tools: ${browser.tools.items.map(({ name }) => name)}`);
    await until(() => element.querySelector('.otx-title h3')?.textContent === last, `not the tool that was opened last: ${last}`);
    assert.ok(stars.has(last));
    await until(() => element.querySelector('.otx-title .otx-star').getAttribute('aria-pressed') === 'true', 'the star is not what the kernel knows');
    browser.selectView('history');
    for (const isFailed of [1, 2, 3]) void isFailed, browser.history.element.querySelector('button').click();
    type(browser.search, 'last words');
    const isPressed = () => browser.history.element.querySelector('button').getAttribute('aria-pressed');
    await until(() => [...element.querySelectorAll('.otx-history .otx-tool-summary')].every(each => each.textContent.startsWith(`asked last words ${isPressed()}`)) && element.querySelector('.otx-history .otx-tool-summary'), 'the history is not of the last search');
  };
  return { element, actions, end, close: () => browser.close() };
});

storms('in the tab of a tool shows the last call, its arguments and the star that the kernel knows', async weather => {
  const { random, pick } = weather;
  const ran = [];
  let isStar = false;
  let hasB = false;
  const tool = () => ({ name: 'srv.add', pack: 'srv', source: 'mcp', tags: [], summary: '', description: hasB ? 'Add b, too' : 'Add', arguments: ['a'], badges: [], disabled: '', returns: '', example: '', where: '', signature: 'srv.add(a)', parameters: { type: 'object', properties: { a: { type: 'string' }, ...(hasB && { b: { type: 'string' } }) } }, usage: { calls: ran.length, failures: 0, avgMs: 1 }, isFavourite: isStar });
  const answers = {
    tool,
    check: ({ args }) => ({ errors: [], code: { tool: `%tool srv.add a=${args.a}` } }),
    variables: () => ({ items: [] }),
    run: ({ args }) => ({ job: `j${ran.push(args)}` }),
    cancel: () => ({}),
    favourite: ({ isOn }) => ((isStar = isOn), { favourites: isOn ? ['srv.add'] : [] }),
    history: () => ({ hasMore: false, items: ran.slice(-3).map((args, at) => ({ id: `c${at}`, tool: 'srv.add', ok: true, ms: 1, when: 'now', summary: '', args, readOnly: true })) }),
    page: () => ({ lines: [], total: 1 })
  };
  const transport = transportOf(weather, answers, (kind, { args }, { value }) => {
    if (kind !== 'run' || !value) return;
    const later = random(30);
    if (later % 2) transport.receive({ event: 'job', job: value.job, progress: { done: 1, total: 2 } });
    setTimeout(() => transport.receive({ event: 'job', job: value.job, result: { ok: true, tool: 'srv.add', lines: 1, preview: [`ran ${args.a}`], kinds: ['text'] } }), later);
  });
  const tab = createToolTab(transport, 'srv.add', { a: 'first' }, { onInsert() {}, onTrust() {}, onChanged() {} });
  const { element } = tab;
  document.body.replaceChildren(element);
  const $ = selector => element.querySelector(selector);
  await until(() => $('.otx-form input'), 'no form');
  const actions = [
    () => $('.otx-form input') && type($('.otx-form input'), pick(['x', 'y', 'z'])),
    () => $('.otx-json') && type($('.otx-json'), pick(['{"a": "j"}', '{"a": ', '[]'])),
    ...['[role=tab]', '.otx-run', '.otx-star', '.otx-calls button', '.otx-history button'].map(selector => () => pick(buttonsOf(element, selector))?.click()),
    () => void tab.fill({ a: pick(['f', 'g']) }, random(2) === 0),
    () => {
      hasB = random(2) === 0;
      transport.receive({ event: 'changed' });
    }
  ];
  const end = async () => {
    await until(() => transport.longestWaitMs === 0 && !buttonsOf(element, '[aria-label^=Cancel]').length);
    for (const [a, isRun] of [['one', true], ['two', false], ['last', true]]) void tab.fill({ a }, isRun);
    await until(() => $('.otx-form input')?.value === 'last' && ran.at(-1).a === 'last', `not what was filled in last: ${$('.otx-form input')?.value}, ${ran.at(-1).a}`);
    await until(() => /ran last/.test($('.otx-result').textContent), `not the result of the last call: ${$('.otx-result').textContent}`);
    $('.otx-star').click();
    $('.otx-star').click();
    $('.otx-star').click();
    const isPressed = $('.otx-star').getAttribute('aria-pressed');
    transport.receive({ event: 'changed' });
    await until(() => transport.longestWaitMs === 0);
    assert.deepEqual([$('.otx-star').getAttribute('aria-pressed'), String(isStar)], [isPressed, isPressed]);
    for (const pane of ['Calls', 'JSON', 'Code', 'JSON']) buttonsOf(element, '[role=tab]').find(each => each.textContent === pane).click();
    assert.equal(JSON.parse($('.otx-json').value).a, 'last');
    type($('.otx-json'), '{"a": "typed"}');
    assert.equal($('.otx-form input').value, 'typed');
    await until(() => /a=typed/.test($('.otx-code').textContent), 'the code is of other arguments');
  };
  return { element, actions, end, close: () => tab.close() };
});

storms('in Ask shows the conversation that was chosen last, and each question once', async weather => {
  const { random, pick } = weather;
  const kept = { trip: [], other: [] };
  const cells = [];
  let ids = 0;
  const summary = (id, prompt, more) => ({ id, prompt, when: '11:46:28', state: 'done', isOk: true, facts: 'local', parts: [{ text: `answer to ${prompt}` }], ...more });
  const answers = {
    models: () => ({ models: [{ name: 'local', model: 'small' }, { name: 'big' }], default: 'local', keys: [], addresses: {}, inProject: false, ownFile: 'onetool.yaml' }),
    sessions: () => ({ items: Object.keys(kept) }),
    conversation: ({ session }) => ({ items: kept[session] ?? [], earlier: 0, tokens: 12, cost: 0.01 }),
    forgetSession: ({ session }) => (delete kept[session], { said: `${session} is forgotten.` }),
    findModels: () => ({ items: [], said: 'None.' }),
    modelNames: () => ({ models: ['small'] }),
    testModel: () => ({ isOk: true, said: 'It works.' }),
    saveModel: () => ({ name: 'big', said: 'Saved.' })
  };
  const transport = transportOf(weather, answers);
  const later = () => new Promise(resolve => setTimeout(resolve, random(15)));
  /** The cell of a question: it waits for its turn, runs and ends; the kernel tells of it and keeps it. */
  async function run(code) {
    cells.push(code);
    const [, session, prompt] = /--session (\S+)(?: --model \S+)? (.*)/.exec(code);
    await later();
    if (weather.isRough()) return 'It failed.';
    const id = `e${(ids += 1)}`;
    transport.receive({ event: 'ask', session, exchange: summary(id, prompt, { state: 'running', parts: [] }) });
    await later();
    (kept[session] ??= []).push(summary(id, prompt));
    transport.receive({ event: 'ask', session, exchange: summary(id, prompt) });
    await later();
    return '';
  }
  let running = 0;
  const onAsk = code => {
    running += 1;
    return run(code).finally(() => (running -= 1));
  };
  const view = createAsk(transport, { onAsk, onStop() {} });
  const { element } = view;
  document.body.replaceChildren(element);
  const $ = selector => element.querySelector(selector);
  const conversation = () => $('[aria-label="Conversation"]');
  void view.load();
  await until(() => conversation()?.value);
  const question = () => {
    type($('textarea'), `${conversation().value} asks ${random(1000)}`);
    press($('textarea'), 'Enter');
  };
  const actions = [
    question,
    () => choose(conversation(), pick([...conversation().options]).value),
    () => choose($('[aria-label="Model to ask"]'), pick(['', 'big'])),
    () => buttonsOf(element).find(each => /forget/i.test(each.textContent))?.click(),
    () => void view.load()
  ];
  const end = async () => {
    await until(() => transport.longestWaitMs === 0 && running === 0);
    Object.assign(kept, { trip: [summary('t', 'trip asks first')], other: [summary('o', 'other asks first')], third: [] });
    await view.load();
    choose(conversation(), 'third');
    await until(() => transport.longestWaitMs === 0);
    const forget = () => buttonsOf(element).find(each => /forget/i.test(each.textContent));
    choose(conversation(), 'trip');
    await until(() => forget());
    forget().click();
    forget().click();
    choose(conversation(), 'other');
    type($('textarea'), 'other asks last');
    press($('textarea'), 'Enter');
    choose(conversation(), 'third');
    await until(() => transport.longestWaitMs === 0);
    assert.doesNotMatch($('.otx-ask-talk').textContent, /asks/, 'what is shown is of another conversation');
    await until(() => kept.other.length === 2 && transport.longestWaitMs === 0);
    assert.equal(conversation().value, 'third', 'not the conversation that was chosen last');
    choose(conversation(), 'other');
    await until(() => /answer to other asks last/.test(element.textContent), element.textContent);
    assert.deepEqual([...element.querySelectorAll('.otx-prompt')].map(each => each.textContent), ['other asks first', 'other asks last']);
    assert.equal($('textarea').value, '');
  };
  return { element, actions, end, close: () => view.close() };
});

storms('in Sources ends as it was switched, opened and pasted last', async weather => {
  const { random, pick } = weather;
  const bundles = ['shop', 'mail'].map((slug, at) => ({ bundleID: `b${at}`, slug, description: '', isEnabled: true, isBuiltIn: false }));
  let environment = 'live';
  let state = 'connected';
  const answers = {
    environments: () => ({ shop: { names: ['live', 'test'], active: environment } }),
    packs: () => ({ items: [{ name: 'nb', tools: 2, disabled: false, where: '', action: null }] }),
    servers: () => ({ items: [{ name: 'srv', type: 'stdio', state, reason: '', address: 'uvx srv', tools: [], isSaved: true, signsIn: false }] }),
    server: ({ action }) => ((state = { start: 'connected', restart: 'connected', stop: 'stopped' }[action] ?? state), { said: `srv: ${action} done` }),
    serverLogs: () => ({ text: 'one line' }),
    switchEnvironment: ({ name }) => ((environment = name), { notes: [`shop uses ${name} now.`] }),
    runBundle: () => ({ runs: [{ tool: 'shop.get', outcome: 'ok', ms: 1, message: '', call: '' }] }),
    pasted: ({ text }) => ({ says: `It is ${text}.`, choices: [{ kind: 'http', label: `Make ${text}` }], document: '', runs: [], name: '', fields: [] })
  };
  const later = async work => {
    const value = structuredClone(work() ?? null); // the server does things in the order in which it is asked
    const isRefused = weather.isRough();
    await new Promise(resolve => setTimeout(resolve, random(20)));
    if (isRefused) throw new Error('The server refused.');
    return value;
  };
  const set = (object, isEnabled) => later(() => void (object.isEnabled = isEnabled));
  const tool = { slug: 'get', version: '1', description: 'Get', type: 'http', http: { request: {} }, isEnabled: true, isBuiltIn: false, available: true, callCount: 0 };
  const tools = new Map(bundles.map(({ bundleID }) => [bundleID, { ...tool, bundleID }]));
  const rest = {
    project: '/home/me/project',
    bundles: () => later(() => bundles),
    tools: id => later(() => [tools.get(id)]),
    switchBundle: (id, isEnabled) => set(bundles.find(each => each.bundleID === id), isEnabled),
    switchTool: ({ bundleID }, isEnabled) => set(tools.get(bundleID), isEnabled),
    deleteBundle: () => later(() => null),
    deleteTool: () => later(() => null)
  };
  const transport = transportOf(weather, answers);
  const made = [];
  const view = new SourcesView(rest, transport, { onChanged() {}, onEdit: place => made.push(place), onImport() {}, onAdded() {}, onShow() {}, onOpen() {}, connect: async () => '' });
  view.servers.value = createServers(transport, { onOpen() {} });
  const { element } = view;
  document.body.replaceChildren(element);
  const find = label => [...element.querySelectorAll('button, input, select, textarea')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === label);
  await until(() => find('Environment of shop'));
  const actions = [
    () => pick([...element.querySelectorAll('[role=switch]')]).click(),
    () => choose(find('Environment of shop'), pick(['live', 'test'])),
    () => type(find('Add'), pick(['', 'curl a', 'curl b'])),
    () => press(find('Add'), 'Enter'),
    () => pick(buttonsOf(element, '.otx-server-buttons button'))?.click(),
    () => pick(buttonsOf(element, '.otx-expand'))?.click(),
    () => void view.load()
  ];
  const isQuiet = () => transport.longestWaitMs === 0 && !element.querySelector('[aria-busy=true]');
  const end = async () => {
    await until(isQuiet);
    for (let n = 0; n < 3; n += 1) {
      find('Bundle shop').click();
      choose(find('Environment of shop'), n % 2 ? 'test' : 'live');
    }
    const isOn = find('Bundle shop').checked;
    for (const text of ['curl a', 'curl b', 'curl last']) type(find('Add'), text);
    for (let n = 0; n < 3; n += 1) view.toggle('shop');
    const isOpen = view.opened.value.has('shop');
    await until(() => /It is curl last\./.test(element.textContent), 'what is said is not of the text in the box');
    await until(isQuiet);
    await view.load();
    await until(isQuiet);
    assert.deepEqual([find('Bundle shop').checked, bundles[0].isEnabled], [isOn, isOn], 'the switch is not as it was pressed last');
    assert.deepEqual([find('Environment of shop').value, environment], ['live', 'live'], 'not the environment that was chosen last');
    assert.equal(element.querySelector('[data-slug=shop] .onetool-Sources-tools').hidden, !isOpen);
    assert.equal(element.querySelector('[data-slug=shop] .onetool-Tool') !== null, isOpen, 'the tools of the bundle are not there');
    assert.equal(/stopped/.test(element.querySelector('.otx-server-facts').textContent), state === 'stopped');
    made.length = 0;
    press(find('Add'), 'Enter');
    await until(() => made.length);
    assert.deepEqual(made, [{ pasted: 'curl last' }]);
    assert.equal(find('Add').value, '');
  };
  return { element, actions, end, close: () => (view.close(), view.servers.value.close()) };
});
