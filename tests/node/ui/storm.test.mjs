// A kernel that answers in any order, late and with refusals, while a person clicks without waiting: no exception, and in the
// end each part shows what was asked of it last. ONETOOL_STORMS sets how many of each (3).
import assert from 'node:assert/strict';
import test from 'node:test';
import { panel, pick as pickFile, press, type, ui, until } from './page.mjs';

const { Transport } = await ui('transport');
const { createAsk } = await ui('ask');
const { createBrowser } = await ui('browser');
const { createServers } = await ui('servers');
const { createToolTab } = await ui('toolTab');
const { createHistory } = await ui('history');
const { createHttpEditor } = await ui('httpEditor');
const { createQuestion } = await ui('question');
const { Requests } = await ui('requests');
const { createServerPage } = await ui('serverPage');
const { createUsage } = await ui('usage');
const { createViewer } = await ui('viewer');
const { createImport } = await panel('importScreen');
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
    const value = structuredClone(answers[kind]?.(payload) || undefined);
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
      const buttons = [...actions, () => [pick([...element.querySelectorAll('button')])].find(isUsable)?.click()];
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
  return [...element.querySelectorAll(selector)].filter(isUsable);
}

function isUsable(button) {
  return button && !button.disabled && !button.closest('[hidden], .otx-filter-box');
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

storms('in the history shows the calls of the last filter, each once and in order', async weather => {
  const { random, pick } = weather;
  const [TOTAL, IN_RUN] = [130, 8];
  const words = ({ query, isFailed, since }) => `${query}|${isFailed}|${since}`;
  const item = (at, filter, run) => {
    const line = { id: `${run ?? 'all'} ${at}`, tool: 'nb.slow', ms: 1, when: 'now' };
    if (!run && at % 25 === 0) return { ...line, run: `r${at}`, rows: IN_RUN, failures: at % 4 };
    return { ...line, ok: at % 2 === 0, summary: `${words(filter)} ${run ?? ''} ${at}`, args: {}, readOnly: at % 3 === 0 };
  };
  const history = ({ offset, limit, run, ...filter }) => {
    const to = Math.min(run ? IN_RUN : TOTAL, offset + limit);
    return { items: Array.from({ length: Math.max(0, to - offset) }, (_, at) => item(offset + at, filter, run)), hasMore: to < (run ? IN_RUN : TOTAL) };
  };
  const requests = new Requests(transportOf(weather, { history }));
  const view = createHistory(requests, { onEdit() {}, onRerun() {} });
  const { element } = view;
  document.body.replaceChildren(element);
  void view.load();
  await until(() => element.querySelector('.otx-history-row'));
  const more = () => [...element.querySelectorAll(':scope > .otx-calls-page > .otx-more')].find(each => !each.hidden);
  const actions = [
    () => view.search(pick(['', 'a', 'b'])),
    () => choose(element.querySelector('select'), pick(['', 'today', '7d'])),
    () => more()?.click(),
    () => pick(buttonsOf(element, '.otx-run-line'))?.click(),
    () => void view.load()
  ];
  const end = async () => {
    for (let n = 0; n < 3; n += 1) buttonsOf(element, '[aria-pressed]')[0].click();
    choose(element.querySelector('select'), '30d');
    view.search('last');
    await new Promise(resolve => setTimeout(resolve));
    const isFailed = buttonsOf(element, '[aria-pressed]')[0].getAttribute('aria-pressed');
    const last = `last|${isFailed}|30d`;
    const summaries = () => [...element.querySelectorAll('.otx-tool-summary')].filter(each => !each.closest('[hidden]')).map(each => each.textContent).filter(text => text.includes('|'));
    await until(() => summaries().length && summaries().every(text => text.startsWith(last)), 'calls of another filter');
    for (let n = 0; more() && n < 9; n += 1) {
      const before = element.querySelectorAll('[role=listitem]').length;
      more().click();
      if (n === 0) void view.load();
      await until(() => element.querySelectorAll('[role=listitem]').length > before, 'Show more shows no more');
      await new Promise(resolve => setTimeout(resolve, 40));
    }
    const numbers = [...element.querySelectorAll(':scope > .otx-calls-page > [role=list] > .otx-history-row .otx-tool-summary')].map(each => Number(each.textContent.split(' ').at(-1)));
    assert.deepEqual(numbers, Array.from({ length: TOTAL }, (_, at) => at).filter(at => at % 25), 'a call is missing, or there twice');
    const run = element.querySelector('.otx-history-run');
    if (run.querySelector('.otx-run-line').getAttribute('aria-expanded') === 'false') run.querySelector('.otx-run-line').click();
    await until(() => run.querySelectorAll('.otx-history-row').length === IN_RUN);
    await until(() => [...run.querySelectorAll('.otx-history-row')].every(each => each.textContent.includes(`${last} r0 `)), 'calls of another run or filter');
  };
  return { element, actions, end, close: () => (view.search.cancel(), requests.close()) };
});

storms('in the usage shows the period and the tool that were chosen last', async weather => {
  const { pick } = weather;
  const periods = ['day', 'week', 'month', 'all'];
  const usage = ({ period, tool, since }) => ({ period, tool, since, start: '', note: '', known: ['a.b', 'c.d'], totals: [{ value: `${period} ${tool}`, label: 'calls' }], series: [{ label: 'now', ok: 1, failed: 1, p50: 1, p95: 2 }], tools: [], failures: [] });
  const view = createUsage(transportOf(weather, { usage }));
  const { element } = view;
  document.body.replaceChildren(element);
  const [period, tool] = ['Period', 'Tool'].map(label => element.querySelector(`[aria-label=${label}]`));
  await until(() => tool.options.length === 3);
  const actions = [() => choose(period, pick(periods)), () => choose(tool, pick(['', 'a.b', 'c.d'])), () => void view.load()];
  const end = async () => {
    for (const each of ['day', 'all', 'month']) choose(period, each);
    choose(tool, 'a.b');
    choose(tool, 'c.d');
    await until(() => element.querySelector('.otx-big').textContent === 'month c.d', element.querySelector('.otx-big').textContent);
    assert.deepEqual([period.value, tool.value], ['month', 'c.d']);
  };
  return { element, actions, end, close: view.close };
});

storms('in the import imports operations of the document that is shown, and the last one', async weather => {
  const { random, pick } = weather;
  const imported = [];
  const later = async value => {
    const isRefused = weather.isRough();
    await new Promise(resolve => setTimeout(resolve, random(20)));
    if (isRefused) throw new Error('The server refused.');
    return value;
  };
  const nameOf = document => (typeof document === 'string' ? document : document.name);
  const operations = document => ['list', 'find', 'make'].map((name, at) => ({ name: `${nameOf(document)} ${name}`, method: at < 2 ? 'GET' : 'POST', url: 'https://x.test', tags: ['all'], description: '' }));
  const rest = {
    previewImport: document => later({ kind: 'OpenAPI', bundle: { slug: 'x', displayName: nameOf(document) }, operations: operations(document), hosts: ['x.test'], secrets: [], notes: [] }),
    importDocument: (document, { names }) => {
      imported.push({ of: nameOf(document), names });
      return later({ bundle: { slug: 'x' }, tools: [{ slug: 'list' }], blockedHosts: ['y.test'], secrets: [{ name: 'KEY' }] });
    }
  };
  const told = [];
  const view = createImport(rest, transportOf(weather, { allowHosts: () => ({}), httpSecret: () => ({}) }), { onImported: done => told.push(done), onClose() {} });
  const { element } = view;
  document.body.replaceChildren(element);
  const field = label => element.querySelector(`[aria-label="${label}"]`);
  const isFree = each => each && !each.closest('[inert]') && !each.closest('[hidden]');
  const file = name => Object.assign(new File(['x'], `${name}.json`), { text: () => later(JSON.stringify({ name })) });
  const actions = [
    () => isFree(field('Document')) && (type(field('Document'), pick(['https://a.test', 'https://b.test', ''])), press(field('Document'), 'Enter')),
    () => isFree(field('Choose a file').nextSibling) && pickFile(field('Choose a file'), file(pick(['c', 'd']))),
    () => view.show(pick([{ name: '', text: 'https://e.test' }, { name: 'f.json', text: '{"name": "f"}' }])),
    () => pick(buttonsOf(element, '.otx-run').filter(isFree))?.click(),
    () => pick([...element.querySelectorAll('.onetool-Import-groups input')])?.click(),
    () => field('Filter operations') && type(field('Filter operations'), pick(['', 'list', 'no such']))
  ];
  const end = async () => {
    for (const name of ['g', 'h', 'last']) view.show({ name: `${name}.json`, text: JSON.stringify({ name }) });
    await until(() => /last\.json/.test(element.querySelector('.onetool-Import-about')?.textContent ?? '') && !element.querySelector('[inert]'), element.textContent);
    const go = () => buttonsOf(element, '.onetool-Import-footer .otx-run')[0];
    assert.equal(go().textContent, 'Import 2 tools');
    type(field('Bundle'), 'mine');
    const before = imported.length;
    go().click();
    go()?.click();
    await until(() => /imported into/.test(element.textContent));
    assert.deepEqual(imported.slice(before), [{ of: 'last', names: ['last list', 'last find'] }]);
    for (const { of, names } of imported) assert.ok(names.length && names.every(name => name.startsWith(`${of} `)), `of ${of}: ${names}`);
  };
  return { element, actions, end, close: view.close };
});

storms('in the HTTP editor shows the response to what was sent last, and the environment that is used', async weather => {
  const { pick } = weather;
  let environment = 'live';
  let [response, saved] = ['', ''];
  const bundles = () => [{ slug: 'shop', baseUrl: 'https://api.shop.com', environment, environments: ['live', 'test'], variables: {} }];
  const view = (tool, selector) => ({ ok: true, call: 'draft', kinds: ['text'], lines: 1, preview: [`${tool} by '${selector}'`] });
  const refusal = agreed => (agreed.length ? null : pick([null, null, { questions: [{ key: 'host:x', text: 'May it go there?' }] }, { errors: [{ pointer: '/http/request/urlTemplate', message: 'is wrong' }] }]));
  const calm = agreed => (weather.isCalm ? null : refusal(agreed));
  const answers = {
    httpTool: () => ({ bundles: bundles(), secrets: ['TOKEN'], tool: null }),
    httpSend: ({ tool, selector, agreed }) => calm(agreed) ?? ((response = tool.http.request.urlTemplate), { request: { method: 'GET', url: response, headers: {} }, response: { status: 200, phrase: 'OK', durationMs: 1, size: 2, headers: {} }, isOk: true, view: view(response, selector) }),
    httpSelect: ({ selector }) => ({ view: view(response, selector) }),
    httpSave: ({ tool, agreed }) => calm(agreed) ?? ((saved = tool.http.request.urlTemplate), { name: 'shop.a', version: '1' }),
    httpSecret: ({ name }) => ({ secrets: ['TOKEN', name] }),
    httpCurl: ({ text }) => text && ({ tool: { http: { request: { method: 'GET', urlTemplate: text.split(' ')[1] } } }, notes: [], missing: [], secrets: [] }),
    switchEnvironment: ({ name, agreed }) => calm(agreed) ?? ((environment = name), { notes: [] })
  };
  const transport = transportOf(weather, answers);
  const editor = createHttpEditor(transport, {}, { isTab: true });
  const { element } = editor;
  document.body.replaceChildren(element);
  const field = label => [...element.querySelectorAll('[aria-label]')].find(each => each.getAttribute('aria-label') === label);
  const button = name => [...element.querySelectorAll('button')].find(each => each.textContent === name);
  await until(() => field('Secret').options.length > 1);
  const select = (label, value) => {
    field(label).value = value;
    for (const kind of ['input', 'change']) field(label).dispatchEvent(new Event(kind, { bubbles: true }));
  };
  const actions = [
    () => type(field('URL'), pick(['https://api.shop.com/a', 'https://b.test/{id}', '/c'])),
    () => type(field('Bundle'), pick(['shop', 'new'])),
    () => select('Environment', pick(['live', 'test'])),
    () => select('Kind of auth', pick(['none', 'bearer', 'basic'])),
    () => select('Kind of body', pick(['none', 'json', 'form'])),
    () => type(field('Keep (JMESPath)'), pick(['a', 'b', ''])),
    () => (type(field('curl command'), 'curl https://curl.test'), button('Fill in').click()),
    () => type(pick([...element.querySelectorAll('.otx-pair input')]), pick(['', 'x', '{y}'])),
    ...['Send', 'Save'].map(name => () => button(name).click()),
    () => press(field('URL'), 'Enter')
  ];
  const isQuiet = () => transport.longestWaitMs === 0 && button('Send').getAttribute('aria-disabled') === 'false';
  const end = async () => {
    await until(isQuiet);
    select('Kind of auth', 'none');
    select('Kind of body', 'none');
    for (const row = () => element.querySelector('.otx-pairs > .otx-pair:not(:last-child)'); row(); ) row().querySelector('button').click();
    type(field('Bundle'), 'shop');
    type(field('Tool'), 'last');
    type(field('URL'), 'https://api.shop.com/last');
    button('Send').click();
    type(field('Keep (JMESPath)'), 'first');
    type(field('Keep (JMESPath)'), 'end');
    await until(() => isQuiet() && /\/last by 'end'/.test(element.querySelector('.otx-viewer').textContent), element.querySelector('.otx-viewer').textContent);
    select('Environment', 'test');
    await until(isQuiet);
    select('Environment', 'live');
    await until(isQuiet);
    assert.deepEqual([field('Environment').value, environment], ['live', 'live']);
    button('Save').click();
    button('Save').click();
    await until(() => /Saved\. Call it/.test(element.textContent), element.querySelector('.otx-editor-status').textContent);
    assert.match(saved, /\/last$/);
  };
  return { element, actions, end, close: editor.close };
});

for (const isPlan of [false, true]) {
  storms(`in ${isPlan ? 'the plan of a program' : 'a question'} that is drawn twice sends one answer: what both show`, async weather => {
    const { random, pick } = weather;
    const calls = Array.from({ length: 4 }, (_, at) => ({ tool: `nb.tool${at}`, summary: '', badges: [], note: '', args: [{ name: 'text', text: 'long '.repeat(100) }] }));
    const question = { id: 'q', asker: 'The model', text: isPlan ? 'Run it?' : '', url: '', form: null, trust: null, calls, details: [], yes: '', no: '', ...(isPlan ? { program: 'a = 1\nb = 2' } : {}) };
    const asked = [];
    let underWay = 0;
    const requests = new Requests(null);
    const answer = async given => {
      const isRefused = !weather.isCalm && random(3) > 0;
      asked.push({ given, isRefused });
      assert.equal((underWay += 1), 1, 'two answers at a time');
      await new Promise(resolve => setTimeout(resolve, random(20)));
      underWay -= 1;
      if (isRefused && random(2)) throw new Error('The kernel refused.');
      return { errors: isRefused ? [{ pointer: '', message: 'not so' }] : [] };
    };
    const element = document.createElement('div');
    element.append(...[1, 2].map(() => createQuestion(question, answer, requests).element));
    document.body.replaceChildren(element);
    const drawings = () => [...element.children].map(each => [...each.querySelectorAll('[role=status], input')].map(own => (own.matches('input') ? own.checked : own.hidden ? 'open' : own.textContent)).join());
    const boxes = () => [...element.querySelectorAll('input:not(:disabled)')];
    const actions = isPlan ? [() => pick(boxes())?.click(), () => pick(boxes())?.click()] : [() => pick(buttonsOf(element, '.otx-question-decide button'))?.click()];
    const end = async () => {
      await until(() => underWay === 0);
      await new Promise(resolve => setTimeout(resolve, 20));
      const [first, second] = drawings();
      assert.equal(first, second, 'the two drawings differ');
      const accepted = asked.filter(each => !each.isRefused);
      assert.ok(accepted.length <= 1, 'two answers were accepted');
      if (accepted.length) assert.equal(asked.at(-1), accepted[0], 'something was sent after the answer');
      else {
        const { decisions } = question.state;
        const isEach = !isPlan && decisions.value.size === calls.length;
        const run = calls.map((_, at) => at + 1).filter(number => decisions.value.get(number) !== false);
        const button = pick([...element.children]).querySelector('.otx-question-buttons button');
        if (!button.disabled) {
          button.click();
          await until(() => underWay === 0 && asked.some(each => !each.isRefused), `${isEach} ${run}`);
          assert.deepEqual(asked.at(-1).given, run.length ? { action: 'accept', content: { run, always: false } } : { action: 'decline', content: {} });
        }
      }
    };
    return { element, actions, end, close: () => requests.close() };
  });
}

storms('in a result shows the rows of the last query, and the tab that was chosen last', async weather => {
  const { pick } = weather;
  const columns = [{ name: 'a', kind: 'integer' }, { name: 'b', kind: 'text' }];
  const wordsOf = ({ filter, columns: conditions, choices, sort }) => JSON.stringify([filter, conditions, choices, sort]);
  const answers = {
    table: query => {
      if (Object.values(query.columns).includes('much')) return undefined; // it is refused
      return { columns, total: 500, rows: Array.from({ length: Math.min(query.limit, 500 - query.offset) }, (_, at) => [query.offset + at, String(at), wordsOf(query)]) };
    },
    values: () => ({ items: [{ id: 1, text: 'one', count: 2 }, { id: 2, text: 'two', count: 1 }], total: 2 }),
    summary: ({ column }) => ({ kind: 'integer', rows: 3, missing: 0, distinct: 3, top: [['one', 2, 1]], ...(column ? {} : { bars: [1, 2], ranges: ['0..<1', '1..2'], min: '0', max: '2' }) }),
    page: ({ offset, limit }) => ({ lines: Array.from({ length: limit }, (_, at) => `line ${offset + at}`), total: 1000 }),
    find: ({ pattern }) => ({ hits: pattern === 'none' ? [] : [5, 500], matched: 2, isComplete: true }),
    tree: ({ path, offset }) => ({ children: Array.from({ length: 3 }, (_, at) => ({ key: offset + at, kind: 'object', preview: '{}', count: path.length < 2 ? 6 : 0 })), total: 6 }),
    copied: () => ({ text: 'a' }),
    pandasCode: () => ({ code: 'df' }),
    download: () => ({ name: 'a.csv', mime: 'text/csv', size: 2, part: 1 }),
    part: () => ({ base64: 'YQ==' }),
    assign: () => ({ said: 'saved' }),
    comparable: () => ({ items: [{ handle: 'o', tool: 'nb.slow', text: '', when: 'then', isSame: true }] }),
    compare: ({ key }) => ({ text: `by ${key}`, key, columns: ['a', 'b'], sides: [{ when: '', isThis: true }, { when: '', isThis: false }], result: { rows: 500, handle: 'd' } })
  };
  window.URL.createObjectURL = URL.createObjectURL = () => 'blob:x';
  window.URL.revokeObjectURL = URL.revokeObjectURL = () => {};
  window.HTMLAnchorElement.prototype.click = () => {};
  const transport = transportOf(weather, answers);
  const view = createViewer(transport);
  const { element } = view;
  document.body.replaceChildren(element);
  const result = { ok: true, handle: 'h', tool: 'nb.slow', lines: 1000, rows: 500, bytes: 100, preview: ['line 1'], kinds: ['table', 'summary', 'tree', 'text'], formats: ['csv'] };
  view.show(result);
  const $ = selector => element.querySelector(selector);
  const box = () => [$('.otx-filter-box')].find(each => each?.querySelector('strong').textContent); // one can reach it once it was opened
  await until(() => $('.otx-table-row'));
  const actions = [
    ...['[role=tab]', '.otx-sort', '.otx-funnel', '.otx-top, .otx-spread-bar', '.otx-compare-choice', '.otx-expand'].map(selector => () => pick(buttonsOf(element, selector))?.click()),
    () => $('[aria-label="Filter rows"]') && type($('[aria-label="Filter rows"]'), pick(['', 'x', 'y'])),
    () => box() && type(box().querySelector('input'), pick(['> 1', 'much', ''])),
    () => box() && press(box().querySelector('input'), 'Enter'),
    () => box() && pick([...box().querySelectorAll('button, .otx-filter-value input')]).click(),
    () => pick([...element.querySelectorAll('.otx-menu input[type=checkbox]')])?.click(),
    () => $('[aria-label="Find in the result"]') && type($('[aria-label="Find in the result"]'), pick(['a', 'none', ''])),
    () => $('[aria-label="Go to line"]') && type($('[aria-label="Go to line"]'), pick(['1', '500', '900']))
  ];
  const tab = kind => $(`.otx-tabs [data-kind=${kind}]`);
  const end = async () => {
    for (const kind of ['text', 'tree', 'summary', 'table']) tab(kind).click();
    await until(() => transport.longestWaitMs === 0);
    await new Promise(resolve => setTimeout(resolve, 300)); // what was typed last is asked for by now
    await until(() => transport.longestWaitMs === 0);
    for (const clear = () => [...element.querySelectorAll('.otx-chips .otx-link')].find(each => !each.closest('[hidden]')); clear(); ) {
      clear().click();
      await until(() => !clear());
    }
    for (const box of [...element.querySelectorAll('.otx-table-bar .otx-menu input')]) if (!box.checked) box.click();
    for (const text of ['x', 'y', 'last']) type($('[aria-label="Filter rows"]'), text);
    const shown = () => [...element.querySelectorAll('.otx-table-row .otx-kind-text')].map(each => each.textContent);
    const filterOf = text => JSON.parse(text)[0];
    await until(() => shown().length && shown().every(text => filterOf(text) === 'last'), `rows of another query: ${shown()}`);
    if ($('.otx-sort')) {
      for (let n = 0; n < 2; n += 1) $('.otx-sort').click();
      const direction = () => $('[role=columnheader][aria-sort]').getAttribute('aria-sort');
      await until(() => transport.longestWaitMs === 0);
      const { column, isDown } = JSON.parse(shown()[0])[3] ?? {};
      assert.equal(direction(), column === 0 ? (isDown ? 'descending' : 'ascending') : direction());
    }
    for (const kind of ['summary', 'table', 'text', 'summary', 'tree', 'text']) tab(kind).click();
    type($('[aria-label="Find in the result"]'), 'a');
    await until(() => /1 of 2/.test($('.otx-count').textContent), $('.otx-count').textContent);
    await until(() => transport.longestWaitMs === 0);
    assert.equal($('.otx-tabs [aria-selected=true]').dataset.kind, 'text');
  };
  return { element, actions, end, close: view.close };
});

storms('on the page of a server shows each message once, in order, and what the server is', async weather => {
  const { random, pick } = weather;
  let count = 1;
  let state = 'connected';
  const row = number => ({ number, time: '', way: number % 2 ? '→' : '←', method: `m${number}`, id: String(number), ms: 1, bytes: 1, message: '{}' });
  const answers = {
    serverPage: () => ({ server: { name: 'srv', type: 'stdio', state, reason: '', address: 'uvx srv', tools: [], isSaved: true, signsIn: true }, tools: [{ name: state }], prompts: [] }),
    serverLogs: () => ({ text: 'one line' }),
    serverMessages: ({ after }) => ({ rows: Array.from({ length: count - after }, (_, at) => row(after + at + 1)) }),
    serverMessage: ({ number }) => ({ text: JSON.stringify({ number }) }),
    server: ({ action }) => ((count += 2), (state = { start: 'connected', restart: 'connected', stop: 'stopped', signOut: 'signed out', signIn: 'connected' }[action]), { said: `${action} is done` })
  };
  const transport = transportOf(weather, answers);
  const view = createServerPage(transport, 'srv');
  const { element } = view;
  document.body.replaceChildren(element);
  await until(() => element.querySelector('.otx-messages li') && element.querySelector('.otx-server-line'));
  const field = label => element.querySelector(`[aria-label="${label}"]`);
  const actions = [
    ...['[role=tab]', '.otx-server-head button', '.otx-messages button'].map(selector => () => pick(buttonsOf(element, selector))?.click()),
    () => type(field('Filter messages'), pick(['', 'm1', 'm2'])),
    () => choose(field('Direction'), pick(['', '→', '←'])),
    () => void ((count += random(3)), transport.receive({ event: 'changed' }))
  ];
  const end = async () => {
    await until(() => transport.longestWaitMs === 0);
    state = 'signed out';
    transport.receive({ event: 'changed' });
    await until(() => /signed out/.test(element.querySelector('.otx-server-head').textContent));
    buttonsOf(element, '.otx-server-head button')[0].click();
    type(field('Filter messages'), '');
    choose(field('Direction'), '');
    const numbers = () => [...element.querySelectorAll('.otx-messages strong')].map(each => Number(each.textContent.slice(1)));
    await until(() => transport.longestWaitMs === 0 && numbers().length === count, `${numbers()} of ${count}`);
    assert.deepEqual(numbers(), Array.from({ length: count }, (_, at) => at + 1));
    await until(() => /connected/.test(element.querySelector('.otx-server-head').textContent) && /signIn is done/.test(element.textContent));
  };
  return { element, actions, end, close: view.close };
});
