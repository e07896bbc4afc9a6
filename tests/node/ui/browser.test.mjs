// The tool browser without a kernel: search, tool page, calls, history, keyboard, and a kernel that stops.
import assert from 'node:assert/strict';
import test from 'node:test';
import { press, transportOf, type, ui, until } from './page.mjs';

const { createBrowser } = await ui('browser');
const { keepKeys } = await ui('dom');

const TOOLS = [
  ['brave.search', 'Search the web.', ['query', 'count'], ['web']],
  ['fs.read_file', 'Read a text file.', ['path'], []],
  ['nb.slow', 'Count slowly.', ['n'], []]
].map(([name, description, args, tags]) => ({ name, pack: name.split('.')[0], source: 'local', tags, summary: description, description, arguments: args, badges: name === 'fs.read_file' ? ['read-only'] : [], disabled: false }));

const toolOf = name => ({ name, signature: `${name}(n: int)`, description: 'What it does.', parameters: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }, returns: '', example: '', source: 'local', tags: [], readOnly: true, badges: ['read-only', 'destructive'], disabled: '', where: '', usage: { calls: 0 }, isFavourite: false });

async function open(more = {}) {
  const stars = [];
  const { transport, asked } = await transportOf({
    overview: () => ({ tools: TOOLS.length, packs: [{ name: 'brave', count: 1 }, { name: 'fs', count: 1 }, { name: 'nb', count: 1 }], sources: ['local'], tags: ['web'], badges: ['read-only'], favourites: [...stars], recent: ['nb.slow'] }),
    entries: () => ({ items: TOOLS, icons: [], isPartial: false }),
    tool: ({ name }) => toolOf(name),
    check: ({ name, args }) => ({ errors: Number.isInteger(args.n) ? [] : [{ pointer: '/n', message: 'is not an integer' }], code: { tool: `%tool ${name} n=${args.n}`, python: `f(n=${args.n})` } }),
    run: () => ({ job: 'j1' }),
    cancel: () => ({ isCancelled: true }),
    favourite: ({ name, isOn }) => {
      if (isOn) stars.push(name);
      return { favourites: [...stars] };
    },
    history: () => ({ hasMore: false, items: [{ id: 'c1', tool: 'nb.slow', ok: true, ms: 12, when: 'now', summary: '{"n": 7}', args: { n: 7 }, readOnly: true }, { id: 'c2', tool: 'fs.read_file', ok: false, ms: 1, when: 'then', summary: 'x', args: null }] }),
    results: () => ({ items: [{ handle: 'h1', tool: 'nb.slow', when: 'now', summary: '3 lines' }] }),
    open: () => ({ ok: true, handle: 'h1', lines: 3, preview: ['a', 'b', 'c'], kinds: ['text'] }),
    ...more
  });
  const browser = createBrowser(transport);
  document.body.replaceChildren(browser.element);
  await until(() => names(browser).length > 0);
  return { browser, transport, asked, search: browser.element.querySelector('.otx-search') };
}
const names = browser => browser.tools.items.map(item => item.name);
const $ = (browser, selector) => browser.element.querySelector(selector);
const ran = asked => asked.filter(message => message.kind === 'run').map(message => message.payload.name);

test('recently used tools come first; a typo finds its tool; an empty list says why it is empty', async () => {
  const { browser, search } = await open();
  assert.equal(names(browser)[0], 'nb.slow');
  type(search, 'brave.serach');
  await until(() => names(browser)[0] === 'brave.search');
  type(search, 'xyzzy');
  await until(() => names(browser).length === 0);
  assert.match($(browser, '.otx-total').textContent, /no tool/);
  assert.equal($(browser, '.otx-no-matches').textContent, "No tool matches 'xyzzy'.");
  $(browser, '[data-kind="history"]').click();
  assert.equal($(browser, '.otx-no-matches'), null);
  assert.equal(search.value, '', 'the history has a search text of its own');
  $(browser, '[data-kind="tools"]').click();
  assert.equal(search.value, 'xyzzy');
  type(search, '');
  await until(() => names(browser).length === TOOLS.length);
  assert.equal($(browser, '.otx-no-matches'), null);
  browser.close();
});

test('a change in the kernel leaves the rows that stay, and where the user is in the list', async () => {
  const tools = Array.from({ length: 60 }, (_, at) => ({ ...TOOLS[1], name: `fs.tool${String(at).padStart(2, '0')}`, icon: 0 }));
  const { browser, transport } = await open({ entries: () => JSON.parse(JSON.stringify({ items: tools, icons: ['data:image/png;base64,aaaa'], isPartial: false })) });
  const { rows } = browser.tools;
  Object.defineProperty(rows.element, 'clientHeight', { value: 200 });
  await rows.scrollTo(20);
  const row = $(browser, '.otx-tool');
  assert.match(row.textContent, /fs\.tool20/);
  tools.push({ ...tools[0], name: 'fs.tool60' });
  transport.receive({ event: 'changed' });
  await until(() => names(browser).length === 61);
  assert.equal(rows.top, 20);
  assert.equal($(browser, '.otx-tool'), row, 'a mouse button that is down on it is not lost');
  row.click();
  await until(() => browser.page.tool?.name === 'fs.tool20');
  browser.close();
});

test('a change in the kernel leaves the tool that the user has chosen among the matches', async () => {
  const tools = ['one', 'two', 'three'].map(name => ({ ...TOOLS[1], name: `fs.read_${name}`, summary: '', description: '' }));
  const { browser, transport, search } = await open({ entries: () => ({ items: tools, icons: [], isPartial: false }) });
  type(search, 'read');
  await until(() => browser.tools.chosen === 0);
  press(search, 'ArrowDown');
  press(search, 'ArrowDown');
  const { name } = browser.tools.items[2];
  tools.unshift({ ...tools[0], name: 'fs.read' });
  transport.receive({ event: 'changed' });
  await until(() => names(browser).length === 4);
  assert.equal(names(browser)[0], 'fs.read');
  assert.equal(search.getAttribute('aria-activedescendant'), browser.tools.activeId);
  press(search, 'Enter');
  await until(() => browser.page.tool);
  assert.equal(browser.page.tool.name, name);
  tools.splice(tools.findIndex(tool => tool.name === name), 1);
  transport.receive({ event: 'changed' });
  await until(() => names(browser).length === 3);
  assert.equal(browser.tools.chosen, 0, 'the chosen tool is gone');
  browser.close();
});

test('while the kernel searches, the user can choose another tool of the list that is loaded again', async () => {
  let reply;
  const answer = { items: TOOLS, icons: [], total: TOOLS.length };
  const { browser, search } = await open({ entries: () => ({ items: [], icons: [], isPartial: true }), search: () => (reply === undefined ? answer : new Promise(resolve => (reply = () => resolve(answer)))) });
  type(search, 'anything');
  await browser.searching;
  reply = null;
  const load = browser.load();
  await until(() => reply);
  press(search, 'ArrowDown');
  reply();
  await load;
  assert.equal(browser.tools.chosen, 1);
  browser.close();
});

test('the buttons of the packs stay when their numbers change, and keep the focus', async () => {
  const packs = [{ name: 'brave', count: 1 }, { name: 'fs', count: 1 }];
  const { browser } = await open({ overview: () => ({ tools: 3, packs: packs.map(pack => ({ ...pack })), sources: ['local'], tags: [], badges: [], favourites: [], recent: [] }) });
  const buttons = () => [...browser.element.querySelectorAll('.otx-pack')];
  const [all, brave, fs] = buttons();
  fs.focus();
  fs.click();
  assert.deepEqual(buttons().map(button => button.getAttribute('aria-pressed')), ['false', 'false', 'true']);
  packs[1].count = 2;
  packs.shift();
  packs.push({ name: 'nb', count: 1 });
  await browser.load();
  assert.deepEqual(buttons().map(button => button.textContent), ['All3', 'fs2', 'nb1']);
  assert.deepEqual(buttons().slice(0, 2), [all, fs]);
  assert.equal(document.activeElement, fs);
  assert.ok(!brave.isConnected);
  browser.close();
});

test('filters and the search combine', async () => {
  const { browser, search } = await open();
  [...browser.element.querySelectorAll('.otx-pack')].find(each => each.textContent.startsWith('fs')).click();
  await until(() => names(browser).length === 1);
  assert.deepEqual(names(browser), ['fs.read_file']);
  type(search, 'search');
  await until(() => names(browser).length === 0);
  assert.match($(browser, '.otx-no-matches').textContent, /No tool matches 'search' with these filters\./);
  $(browser, '.otx-no-matches button').click();
  await until(() => names(browser).includes('brave.search'));
  browser.close();
});

test('what a tool does to the world is a badge in the list and a filter', async () => {
  const wipe = { ...TOOLS[0], name: 'far.wipe', pack: 'far', badges: ['destructive', 'open world'] };
  const overview = () => ({ tools: 4, packs: [], sources: ['local'], tags: ['web'], badges: ['read-only', 'destructive', 'open world'], favourites: [], recent: [] });
  const { browser } = await open({ entries: () => ({ items: [...TOOLS, wipe], icons: [], isPartial: false }), overview });
  const select = $(browser, 'select[aria-label="Tag"]');
  assert.deepEqual([...select.options].map(option => option.textContent), ['All tags', 'read-only', 'destructive', 'open world', 'web']);
  assert.deepEqual([...select.querySelectorAll('optgroup')].map(group => group.label), ['Behaviour', 'Tags']);
  type(select, 'destructive');
  await until(() => names(browser).length === 1);
  assert.deepEqual(names(browser), ['far.wipe']);
  const chips = [...browser.element.querySelectorAll('.otx-tool .otx-chip')];
  assert.deepEqual(chips.map(chip => chip.textContent), ['destructive', 'open world']);
  assert.match(chips[0].title, /delete/);
  assert.ok(chips[0].classList.contains('otx-failed'));
  browser.close();
});

test('icons that come as data are drawn as images, on the row and the page; others are not fetched', async () => {
  const icons = ['data:image/png;base64,iVBORw0KGgo=', 'https://shop.example/x.png', 'data:text/html,<script>alert(1)</script>', 'javascript:alert(1)'];
  const items = icons.map((_, at) => ({ ...TOOLS[0], name: `far.tool${at}`, pack: 'far', icon: at }));
  const { browser } = await open({ entries: () => ({ items: [...items, TOOLS[1]], icons, isPartial: false }) });
  const drawn = [...browser.element.querySelectorAll('.otx-tool img')];
  assert.deepEqual(drawn.map(image => image.getAttribute('src')), [icons[0]]);
  assert.equal(drawn[0].getAttribute('alt'), '');
  assert.match(drawn[0].closest('.otx-tool').textContent, /far\.tool0/);
  drawn[0].dispatchEvent(new window.Event('error'));
  assert.ok(drawn[0].hidden, 'a picture that is none leaves no broken image');
  browser.close();
});

test('the source filter shows the tools of that source', async () => {
  const other = { ...TOOLS[0], name: 'far.away', pack: 'far', source: 'mcp' };
  const { browser } = await open({ entries: () => ({ items: [...TOOLS, other], icons: [], isPartial: false }), overview: () => ({ tools: 4, packs: [], sources: ['local', 'mcp'], tags: [], badges: [], favourites: [], recent: [] }) });
  const select = $(browser, 'select[aria-label="Source"]');
  assert.ok(!select.hidden);
  type(select, 'mcp');
  await until(() => names(browser).length === 1);
  assert.deepEqual(names(browser), ['far.away']);
  browser.close();
});

test('the keyboard alone finds, opens, fills in and runs a tool', async () => {
  const { browser, transport, search } = await open();
  press(browser.element, '/');
  assert.equal(document.activeElement, search);
  type(search, 'slow');
  await until(() => names(browser)[0] === 'nb.slow');
  press(search, 'Enter');
  await until(() => $(browser, '.otx-form input'));
  await until(() => document.activeElement === $(browser, '.otx-form input'));
  type(document.activeElement, '3');
  press(document.activeElement, 'Enter', { ctrlKey: true });
  await until(() => browser.calls.all[0]?.id === 'j1');
  transport.receive({ event: 'job', job: 'j1', status: 'running', progress: { done: 1, total: 3, text: 'counting' } });
  await until(() => /1 of 3/.test($(browser, '.otx-progress').textContent));
  transport.receive({ event: 'job', job: 'other', status: 'done', result: { ok: true, lines: 1, preview: ['not mine'], kinds: ['text'] } });
  transport.receive({ event: 'job', job: 'j1', status: 'done', result: { ok: true, tool: 'nb.slow', lines: 1, preview: ['done'], kinds: ['text'], ms: 5 } });
  await until(() => /ok/.test($(browser, '.otx-summary')?.textContent ?? ''));
  assert.equal($(browser, '.otx-progress').textContent, '');
  press(browser.element, 'Escape');
  assert.equal(document.activeElement, search);
  browser.close();
});

test('a page or a trust form that comes late leaves the focus where the user has moved it', async () => {
  const replies = {};
  const late = kind => payload => new Promise(resolve => (replies[kind] = value => resolve(value ?? toolOf(payload.name))));
  const { browser, transport, search } = await open({ tool: late('tool'), trust: late('trust') });
  const row = $(browser, '.otx-tool');
  browser.tools.rows.element.focus();
  row.click();
  search.focus();
  replies.tool();
  await until(() => $(browser, '.otx-form input'));
  await transport.request('overview');
  assert.equal(document.activeElement, search);
  browser.tools.rows.element.focus();
  const opening = browser.open('fs.read_file');
  browser.element.focus(); // as if the list had been hidden
  replies.tool();
  await opening;
  assert.equal(document.activeElement, $(browser, '.otx-form input'));

  const asking = browser.askTrustAgain();
  search.focus();
  replies.trust({ how: 'untrusted', isTrusted: false, wouldRun: { folder: '/p', packFiles: [], parts: [], httpTools: 0, hosts: [], snippets: [] } });
  await asking;
  assert.ok(!$(browser, '.otx-trust-box').hidden);
  assert.equal(document.activeElement, search, 'the next key must not press its button');
  browser.close();
});

test('a page that comes late leaves the focus in the cell where the user types by now', async () => {
  const replies = [];
  const { browser } = await open({ tool: payload => new Promise(resolve => replies.push(() => resolve(toolOf(payload.name)))) });
  const cell = document.body.appendChild(document.createElement('textarea'));
  browser.tools.rows.element.focus();
  const opening = browser.open('fs.read_file');
  cell.focus();
  replies[0]();
  assert.equal(await opening, true);
  assert.equal(document.activeElement, cell);
  replies.length = 0;
  $(browser, '[data-kind=calls]').click();
  await until(() => $(browser, '.otx-tool-calls [aria-label="Edit the call of nb.slow"]'));
  $(browser, '.otx-tool-calls [aria-label="Edit the call of nb.slow"]').focus();
  document.activeElement.click();
  cell.focus();
  await until(() => replies.length);
  replies[0]();
  await until(() => $(browser, '.otx-form input')?.value === '7');
  assert.equal(document.activeElement, cell);
  browser.close();
});

test('what is typed on after Enter, before the search is there, opens nothing', async () => {
  const searches = [];
  const items = [TOOLS[0]];
  const { browser, search, asked } = await open({ entries: () => ({ items: [], icons: [], isPartial: true }), search: ({ query }) => (query ? new Promise(resolve => searches.push(() => resolve({ items, icons: [] }))) : { items: TOOLS, icons: [] }) });
  press(search, 'ArrowDown');
  type(search, 'bra');
  await until(() => searches.length === 1);
  press(search, 'Enter');
  type(search, 'brave.sea');
  await until(() => searches.length === 2);
  searches[0]();
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.ok(!asked.some(({ kind }) => kind === 'tool'), 'a tool of the list before was opened');
  press(search, 'Enter');
  searches[1]();
  await until(() => asked.some(({ kind, payload }) => kind === 'tool' && payload.name === 'brave.search'));
  browser.close();
});

test('a double click on Trust asks once: after the first the project holds something else to trust', async () => {
  const wouldRun = { folder: '/p', packFiles: [], parts: [], httpTools: 0, hosts: [], snippets: [] };
  let isTrusted = false;
  const trust = () => ({ how: isTrusted ? 'trusted' : 'untrusted', isTrusted, wouldRun });
  const { browser, asked } = await open({
    overview: () => ({ tools: 1, packs: [], sources: [], tags: [], badges: [], favourites: [], recent: [], trust: trust() }),
    trust: async () => {
      if (isTrusted) throw new Error('The project has changed since you were shown what it holds.');
      isTrusted = true;
      return trust();
    }
  });
  await until(() => $(browser, '.otx-trust .otx-run'));
  const yes = $(browser, '.otx-trust .otx-run');
  yes.click();
  yes.click();
  await until(() => $(browser, '.otx-trust-box').hidden);
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.equal(asked.filter(({ kind }) => kind === 'trust').length, 1);
  assert.ok($(browser, '.otx-notice').hidden, $(browser, '.otx-notice').textContent);
  browser.close();
});

test('a double click inserts and runs a call once', async () => {
  const { createToolTab } = await ui('toolTab');
  const { transport } = await transportOf({ tool: ({ name }) => toolOf(name), check: () => ({ errors: [], code: { tool: '%tool nb.slow' } }) });
  const inserted = [];
  const tab = createToolTab(transport, 'nb.slow', { n: 1 }, { onInsert: (code, isRun) => inserted.push(isRun), onTrust() {}, onChanged() {} });
  const button = () => [...tab.element.querySelectorAll('button')].find(each => each.textContent === 'Insert and run');
  await until(button);
  for (const detail of [1, 2]) button().dispatchEvent(new MouseEvent('click', { bubbles: true, detail }));
  await until(() => inserted.length);
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.deepEqual(inserted, [true]);
  tab.close();
});

test('invalid arguments are reported at their field, and nothing runs', async () => {
  const { browser, asked } = await open();
  await browser.open('nb.slow');
  type($(browser, '.otx-form input'), 'three');
  await browser.page.run();
  assert.match($(browser, '.otx-form .otx-error:not([hidden])').textContent, /not an integer/);
  assert.equal(asked.filter(message => message.kind === 'run').length, 0);
  browser.close();
});

test('Cancel sends a request, and a cancelled call is not shown as failed', async () => {
  const { browser, transport, asked } = await open();
  await browser.open('nb.slow', { n: 3 });
  await browser.page.run();
  [...browser.element.querySelectorAll('button')].find(each => each.textContent === 'Cancel').click();
  await until(() => asked.some(message => message.kind === 'cancel'));
  transport.receive({ event: 'job', job: 'j1', status: 'cancelled', result: { ok: false, error: { code: 'execution_error', reason: 'cancelled', message: 'The job was cancelled.' } } });
  await until(() => /The job was cancelled/.test($(browser, '.otx-result').textContent));
  assert.equal($(browser, '.otx-summary .otx-chip').textContent, 'cancelled');
  assert.equal($(browser, '.otx-result .otx-failed, .otx-failure'), null);
  browser.close();
});

test('a missing argument is reported at its field after Run, not before; in the JSON pane below the text', async () => {
  const check = ({ args }) => ({ errors: 'n' in args ? [] : [{ pointer: '', message: "missing argument 'n'", keyword: 'required' }], code: {} });
  const { browser, asked } = await open({ check });
  await browser.open('nb.slow');
  type(browser.element.querySelector('.otx-form input'), '1');
  type(browser.element.querySelector('.otx-form input'), '');
  await browser.page.check();
  assert.equal(browser.element.querySelector('.otx-form .otx-error:not([hidden])'), null);
  await browser.page.run();
  assert.equal($(browser, '.otx-field > .otx-error').textContent, 'This field is required.');
  assert.equal(document.activeElement, $(browser, '.otx-form input'));
  $(browser, '[role=tab][data-kind="json"]').click();
  await browser.page.run();
  assert.match($(browser, '.otx-json + .otx-error').textContent, /missing argument 'n'/);
  assert.equal(document.activeElement, $(browser, '.otx-json'));
  assert.ok(!asked.some(message => message.kind === 'run'));
  browser.close();
});

test('tabs are one stop in the tab order, and arrow keys move between them', async () => {
  const { browser } = await open();
  await browser.open('nb.slow');
  const [form, json, code, calls] = browser.element.querySelectorAll('.otx-tool-page .otx-tab');
  assert.deepEqual([form, json, code, calls].map(tab => tab.tabIndex), [0, -1, -1, -1]);
  form.focus();
  press(form, 'ArrowRight');
  assert.equal(document.activeElement, json);
  assert.equal(json.getAttribute('aria-selected'), 'true');
  press(json, 'End');
  assert.equal(document.activeElement, calls);
  press(calls, 'ArrowRight');
  assert.deepEqual([form, json, code, calls].map(tab => tab.tabIndex), [0, -1, -1, -1]);
  browser.close();
});

test('the calls of a tool are listed on its page; Edit fills its form in', async () => {
  const { browser, asked } = await open();
  await browser.open('nb.slow');
  $(browser, '.otx-tool-page [data-kind="calls"]').click();
  await until(() => $(browser, '.otx-tool-calls .otx-history-row'));
  assert.equal(asked.filter(message => message.kind === 'history').at(-1).payload.tool, 'nb.slow');
  assert.ok($(browser, '.otx-actions').hidden, 'what is not in sight is not run');
  $(browser, '.otx-tool-calls [aria-label="Edit the call of nb.slow"]').click();
  await until(() => browser.page.form?.value().n === 7);
  assert.equal($(browser, '.otx-tool-page [aria-selected="true"]').textContent, 'Form');
  browser.close();
});

test('tools, reruns and results are shown elsewhere where there is a place for them', async () => {
  const wanted = [];
  const { transport, browser: other } = await open();
  other.close();
  const browser = createBrowser(transport, { isSmall: true, onOpen: each => wanted.push(each), onOpenResult: handle => wanted.push(handle) });
  document.body.replaceChildren(browser.element);
  await until(() => names(browser).length > 0);
  $(browser, '.otx-tool').click();
  browser.select('history'); // a tab of the panel
  await until(() => $(browser, '.otx-history-row'));
  $(browser, '[aria-label="Edit the call of nb.slow"]').click();
  $(browser, '[aria-label="Rerun nb.slow"]').click();
  $(browser, '[data-kind="results"]').click();
  await until(() => $(browser, '[aria-label="Open the result of nb.slow"]'));
  $(browser, '[aria-label="Open the result of nb.slow"]').click();
  assert.deepEqual(wanted, [{ name: 'nb.slow', args: null }, { name: 'nb.slow', args: { n: 7 } }, { name: 'nb.slow', args: { n: 7 }, isRun: true }, 'h1']);
  assert.equal(await browser.find('brave'), true, 'a pack is shown here');
  assert.equal(await browser.find('nb.slow'), false);
  browser.close();
});

test('a call that finishes before the reply to run is not lost', async () => {
  let settle;
  const { browser, transport } = await open({ run: () => new Promise(resolve => (settle = resolve)) });
  await browser.open('nb.slow', { n: 3 });
  const running = browser.page.run();
  await until(() => settle);
  transport.receive({ event: 'job', job: 'j9', status: 'done', result: { ok: true, lines: 1, preview: ['early'], kinds: ['text'] } });
  settle({ job: 'j9' });
  await running;
  await until(() => /ok/.test($(browser, '.otx-summary')?.textContent ?? ''));
  browser.close();
});

test('several calls run at once; those not on the page have a line, which opens them', async () => {
  let last = 0;
  const { browser, transport, asked } = await open({ run: () => ({ job: `j${(last += 1)}` }) });
  await browser.open('nb.slow', { n: 3 });
  await browser.page.run();
  await until(() => browser.calls.all[0].id === 'j1');
  await browser.page.run();
  assert.equal(asked.filter(message => message.kind === 'run').length, 1, 'a second press starts nothing');
  await browser.open('brave.search', { n: 5 });
  await browser.page.run();
  await until(() => browser.calls.all[1]?.id === 'j2');
  const lines = () => [...browser.element.querySelectorAll('.otx-call-line')].map(each => each.textContent);
  assert.equal(lines().length, 1);
  assert.match(lines()[0], /nb\.slow/);
  transport.receive({ event: 'job', job: 'j1', status: 'done', result: { ok: true, tool: 'nb.slow', lines: 1, preview: ['slow one'], kinds: ['text'] } });
  await until(() => /^ok/.test(lines()[0]));
  assert.equal($(browser, '.otx-summary'), null, 'what is in sight is not replaced');
  $(browser, '.otx-call-open').click();
  await until(() => /nb\.slow/.test($(browser, '.otx-summary')?.textContent ?? ''));
  assert.equal($(browser, '.otx-form input').value, '3');
  assert.match(lines()[0], /brave\.search/);
  $(browser, '[aria-label="Cancel the call of brave.search"]').click();
  await until(() => asked.some(message => message.kind === 'cancel' && message.payload.job === 'j2'));
  browser.close();
});

test('a call that finishes leaves the focus on the line of another call', async () => {
  let last = 0;
  const { browser, transport } = await open({ run: () => ({ job: `j${(last += 1)}` }) });
  for (const n of [1, 2, 3]) {
    await browser.open('nb.slow', { n });
    await browser.page.run();
  }
  await until(() => browser.calls.all.every(call => call.id));
  const cancel = browser.element.querySelectorAll('[aria-label="Cancel the call of nb.slow"]')[1];
  cancel.focus();
  transport.receive({ event: 'job', job: 'j1', status: 'done', result: { ok: true, tool: 'nb.slow', lines: 1, preview: ['1'], kinds: ['text'] } });
  await until(() => browser.element.querySelector('.otx-call-line .otx-ok'));
  assert.equal(document.activeElement, cancel);
  browser.close();
});

test('a press that began on Cancel never meets Dismiss, and the focus leaves Cancel before it goes', async () => {
  let last = 0;
  const { browser, transport } = await open({ run: () => ({ job: `j${(last += 1)}` }) });
  const finish = job => transport.receive({ event: 'job', job, status: 'done', result: { ok: true, tool: 'nb.slow', lines: 1, preview: ['1'], kinds: ['text'] } });
  for (const n of [1, 2]) {
    await browser.open('nb.slow', { n });
    await browser.page.run();
  }
  await until(() => browser.calls.all.every(call => call.id));
  const cancel = $(browser, '[aria-label="Cancel the call of nb.slow"]');
  finish('j1');
  assert.ok(!cancel.isConnected, 'the button below the mouse is another one');
  assert.ok($(browser, '[aria-label="Dismiss the call of nb.slow"]'));
  const own = [...browser.element.querySelectorAll('.otx-actions button')].find(each => each.textContent === 'Cancel');
  let wasHidden = null;
  own.addEventListener('blur', () => (wasHidden = own.hidden));
  own.focus();
  finish('j2');
  assert.equal(document.activeElement, $(browser, '.otx-run'));
  assert.equal(wasHidden, false, 'a browser takes the focus from what is hidden');
  browser.close();
});

test('another call of the same tool may run beside the first; the typed arguments are kept', async () => {
  let last = 0;
  const { browser } = await open({ run: () => ({ job: `k${(last += 1)}` }) });
  await browser.open('nb.slow', { n: 3 });
  await browser.page.run();
  type($(browser, '.otx-form input'), '4');
  await browser.page.run();
  await until(() => browser.calls.running.length === 2);
  await browser.open('brave.search');
  await browser.open('nb.slow');
  assert.equal($(browser, '.otx-form input').value, '4');
  browser.close();
});

test('form, JSON and code show the same arguments', async () => {
  const { browser } = await open();
  await browser.open('nb.slow', { n: 3 });
  const tab = kind => $(browser, `.otx-tool-page .otx-tab[data-kind="${kind}"]`);
  tab('json').click();
  const json = $(browser, '.otx-json');
  assert.deepEqual(JSON.parse(json.value), { n: 3 });
  type(json, '{"n": 8}');
  assert.equal($(browser, '.otx-form input').value, '8');
  await until(() => /n=8/.test($(browser, '.otx-snippet[data-kind="tool"] pre')?.textContent));
  type(json, '{"n": ');
  assert.ok(!$(browser, '.otx-json + .otx-error').hidden);
  assert.equal($(browser, '.otx-form input').value, '8', 'half a text changes nothing');
  browser.close();
});

test('a call that may change something is rerun only after a confirmation', async () => {
  const { browser, asked } = await open({ history: () => ({ hasMore: false, items: [{ id: 'c1', tool: 'nb.slow', ok: true, ms: 12, when: 'now', summary: '', args: { n: 7 }, readOnly: false }] }) });
  const ran = () => asked.filter(message => message.kind === 'run').length;
  browser.selectView('history');
  await until(() => $(browser, '[aria-label="Rerun nb.slow"]'));
  const sure = $(browser, '.otx-confirm');
  assert.ok(sure.hidden);
  $(browser, '[aria-label="Rerun nb.slow"]').click();
  await until(() => !sure.hidden);
  assert.match(sure.textContent, /may change something/);
  const [cancel, again] = sure.querySelectorAll('button');
  assert.equal(document.activeElement, cancel);
  cancel.click();
  await until(() => sure.hidden);
  assert.equal(ran(), 0);
  $(browser, '[aria-label="Rerun nb.slow"]').click();
  again.click();
  await until(() => ran() === 1);
  browser.close();
});

test('a call in the history can be edited and rerun; a masked one cannot', async () => {
  const { browser, asked } = await open();
  browser.selectView('history');
  await until(() => browser.element.querySelectorAll('.otx-history-row').length === 2);
  $(browser, '[aria-label="Edit the call of nb.slow"]').click();
  await until(() => $(browser, '.otx-form input')?.value === '7');
  assert.equal($(browser, '[aria-label="Rerun fs.read_file"]'), null);
  $(browser, '[aria-label="Rerun nb.slow"]').click();
  await until(() => asked.some(message => message.kind === 'run'));
  browser.close();
});

test('Rerun of a tool that is gone runs nothing, and neither does Ctrl-Enter below its error', async () => {
  let isGone = false;
  const { browser, asked } = await open({
    tool: ({ name }) => {
      if (isGone) throw new Error(`No tool '${name}'.`);
      return toolOf(name);
    }
  });
  await browser.open('brave.search', { n: 5 });
  await browser.page.run();
  type($(browser, '.otx-form input'), '6');
  browser.selectView('history');
  await until(() => $(browser, '[aria-label="Rerun nb.slow"]'));
  isGone = true;
  $(browser, '[aria-label="Rerun nb.slow"]').click();
  await until(() => /No tool 'nb\.slow'/.test($(browser, '.otx-tool-page').textContent));
  await browser.page.run(); // as Ctrl-Enter does
  assert.deepEqual(ran(asked), ['brave.search']);
  assert.match($(browser, '.otx-call-line').textContent, /brave\.search/, 'the call that was on the page has a line');
  isGone = false;
  await browser.open('brave.search');
  assert.equal($(browser, '.otx-call-line'), null, 'and is on the page again');
  browser.close();
});

test('a tool that is opened after Rerun is not run in its place', async () => {
  let reply;
  const { browser, asked } = await open({ tool: ({ name }) => (name === 'nb.slow' ? new Promise(resolve => (reply = () => resolve(toolOf(name)))) : toolOf(name)) });
  const rerun = browser.rerun({ tool: 'nb.slow', args: { n: 7 } });
  await browser.open('brave.search', { n: 5 });
  reply();
  await rerun;
  assert.deepEqual(ran(asked), []);
  assert.equal(browser.page.tool.name, 'brave.search');
  browser.close();
});

test('stored results open in the viewer', async () => {
  const { browser } = await open();
  browser.selectView('results');
  await until(() => $(browser, '[aria-label="Open the result of nb.slow"]'));
  $(browser, '[aria-label="Open the result of nb.slow"]').click();
  await until(() => /h1/.test($(browser, '.otx-summary')?.textContent ?? ''));
  browser.close();
});

test('of results and tools that are opened, the last is shown, whatever arrives last', async () => {
  const replies = new Map();
  const result = handle => ({ ok: true, handle, lines: 1, preview: ['a'], kinds: ['text'] });
  const { browser, transport } = await open({
    results: () => ({ items: ['h1', 'h2'].map(handle => ({ handle, tool: `nb.${handle}`, when: 'now', summary: '' })) }),
    open: ({ handle }) => new Promise(resolve => replies.set(handle, () => resolve(result(handle))))
  });
  browser.selectView('results');
  await until(() => $(browser, '[aria-label="Open the result of nb.h2"]'));
  for (const handle of ['h1', 'h2']) $(browser, `[aria-label="Open the result of nb.${handle}"]`).click();
  replies.get('h2')();
  await until(() => /h2/.test($(browser, '.otx-summary')?.textContent ?? ''));
  replies.get('h1')();
  await transport.request('results');
  assert.match($(browser, '.otx-summary').textContent, /h2/);

  $(browser, '[aria-label="Open the result of nb.h1"]').click();
  await browser.open('nb.slow', { n: 3 });
  await browser.page.run();
  replies.get('h1')();
  await transport.request('results');
  assert.equal(browser.page.call, browser.calls.all[0], 'the running call stays on the page of its tool');
  assert.ok($(browser, '.otx-result').hidden);
  browser.close();
});

test('of two lists of results the one that was requested last is shown', async () => {
  const replies = [];
  const { browser, transport } = await open({ results: () => new Promise(resolve => replies.push(handles => resolve({ items: handles.map(handle => ({ handle, tool: '', when: 'now', summary: '' })) }))) });
  browser.selectView('results');
  browser.selectView('results');
  await until(() => replies.length === 2);
  const shown = () => [...browser.element.querySelectorAll('.otx-side .otx-tool-name')].map(each => each.textContent);
  replies[1](['h1', 'h2']);
  await until(() => shown().length === 2);
  replies[0](['h1']);
  await transport.request('overview');
  assert.deepEqual(shown(), ['h1', 'h2']);
  browser.close();
});

test('a favourite stays one when the page of its tool comes later', async () => {
  let send;
  const { browser } = await open({ tool: ({ name }) => new Promise(resolve => (send = () => resolve(toolOf(name)))) });
  const opened = browser.open('fs.read_file', null, false);
  const kept = browser.setFavourite('fs.read_file', true);
  await until(() => browser.tools.favourites.has('fs.read_file'));
  await new Promise(resolve => setTimeout(resolve, 5));
  send();
  await Promise.all([opened, kept]);
  await until(() => $(browser, '.otx-title .otx-star').getAttribute('aria-pressed') === 'true', 'the star is that of before');
  browser.close();
});

test('a favourite is kept and comes first', async () => {
  const { browser } = await open();
  await browser.setFavourite('fs.read_file', true);
  assert.equal(names(browser)[0], 'fs.read_file');
  browser.close();
});

test('keys typed in a cell never reach the notebook but Ctrl+S and Ctrl+Shift+C, and the help is not a dialog', async () => {
  const { browser, search } = await open();
  const cell = document.createElement('div');
  keepKeys(cell);
  document.body.replaceChildren(cell);
  cell.append(browser.element);
  const heard = [];
  document.body.addEventListener('keydown', event => heard.push(event.key));
  for (const key of ['a', 'd', 'Enter', 'Escape', 'ArrowDown', '?', 'C']) press(search, key);
  press(search, 's', { ctrlKey: true });
  press(search, 'C', { ctrlKey: true, shiftKey: true });
  assert.deepEqual(heard, ['s', 'C']);
  assert.equal(cell.getAttribute('data-lm-suppress-shortcuts'), 'true');
  assert.ok(!$(browser, '.otx-keys').hidden);
  browser.close();
});

test('the functions of the toolbox are found by name, and neither listed nor counted', async () => {
  const help = { ...TOOLS[0], name: 'ot.help', pack: 'ot', summary: 'Find out how to use something.' };
  const { browser, search } = await open({ entries: () => ({ items: [...TOOLS, help], icons: [], isPartial: false }) });
  assert.ok(!names(browser).includes('ot.help'));
  assert.equal($(browser, '.otx-total').textContent, '3 tools');
  type(search, 'ot.help');
  await until(() => names(browser)[0] === 'ot.help');
  await browser.find('ot');
  assert.deepEqual(names(browser), ['ot.help']);
  assert.equal($(browser, '.otx-pack-select').value, 'ot');
  browser.close();
});

test('an empty project shows how to begin', async () => {
  const { browser } = await open({ overview: () => ({ tools: 3, packs: [], sources: [], tags: [], badges: [], favourites: [], recent: [], begin: [['%tool server add NAME', 'add an MCP server']] }) });
  assert.match($(browser, '.otx-begin').textContent, /%tool server add NAME.*add an MCP server/);
  browser.close();
});

test('a kernel that stops is reported, and the running call fails', async () => {
  const { browser, transport } = await open();
  await browser.open('nb.slow', { n: 3 });
  await browser.page.run();
  transport.close('The kernel was restarted. Run the cell again to continue.');
  assert.match($(browser, '.otx-notice').textContent, /restarted/);
  assert.match($(browser, '.otx-failure').textContent, /kernel stopped/);
  await assert.rejects(transport.request('overview'), /restarted/);
  browser.close();
});

test('with more than 2,000 tools the kernel searches, and Enter waits for the answer', async () => {
  const { browser, search, asked } = await open({
    overview: () => ({ tools: 3003, packs: [{ name: 'brave', count: 3003 }], sources: ['local'], tags: ['web'], badges: [], favourites: [], recent: [] }),
    entries: () => ({ items: [], icons: [], isPartial: true }),
    search: ({ query }) => ({ items: query ? [TOOLS[0]] : TOOLS, icons: [], total: 1 })
  });
  assert.deepEqual(names(browser), TOOLS.map(tool => tool.name));
  type(search, 'anything');
  press(search, 'Enter');
  await until(() => browser.page.tool?.name === TOOLS[0].name);
  assert.deepEqual(names(browser), [TOOLS[0].name]);
  assert.deepEqual(asked.findLast(message => message.kind === 'search').payload.query, 'anything');
  browser.close();
});
