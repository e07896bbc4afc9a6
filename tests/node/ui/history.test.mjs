// The call history without a kernel: search, failed calls, pages, runs of ot.map, and lines that stay.
import assert from 'node:assert/strict';
import test from 'node:test';
import { press, transportOf, type, ui, until } from './page.mjs';

const { createBrowser } = await ui('browser');
const { keepKeys } = await ui('dom');

const ROWS = 120;
const call = (id, more = {}) => ({ id, tool: 'shop.order', ok: true, ms: 12, when: '11:46:28', summary: `{"n": "${id}"}`, args: { n: 1 }, readOnly: true, ...more });
const run = (more = {}) => ({ id: 'map-1', run: 'map-1', tool: 'shop.order', ok: false, rows: 500, failures: 10, ms: 2900, when: '11:40:00', ...more });

/** A browser that shows the history; `answer` gives the replies. */
async function open(answer) {
  const { transport, asked } = await transportOf({
    overview: () => ({ tools: 0, packs: [], sources: [], tags: [], badges: [], favourites: [], recent: [] }),
    entries: () => ({ items: [], icons: [], isPartial: false }),
    history: answer
  });
  const browser = createBrowser(transport);
  document.body.replaceChildren(browser.element);
  browser.selectView('history');
  const $ = selector => browser.element.querySelector(selector);
  const lines = () => [...browser.element.querySelectorAll('.otx-history-row')];
  const requests = () => asked.filter(message => message.kind === 'history').map(message => message.payload);
  return { browser, search: $('.otx-search'), $, lines, requests };
}

test('the search and the filter go to the kernel, and an empty list says why it is empty', async () => {
  const { browser, search, $, lines, requests } = await open(({ query, isFailed }) => ({ hasMore: false, items: query ? [] : [call('a'), call('b', { ok: false, summary: 'no such street' })].filter(row => !isFailed || !row.ok) }));
  await until(() => lines().length === 2);
  assert.equal(search.placeholder, 'Search history');
  assert.equal(search.getAttribute('role'), null, 'it is no combobox for the hidden list of tools');
  assert.match(lines()[1].textContent, /shop\.order11:46:28no such street/);
  assert.equal(lines()[1].querySelector('.otx-tool-name').innerHTML, 'shop.<wbr>order', 'a long name breaks behind its dot');
  assert.equal(lines()[1].querySelector('.otx-outcome').getAttribute('aria-label'), 'failed');
  const failed = [...browser.element.querySelectorAll('button')].find(button => button.textContent === 'Failed only');
  failed.click();
  await until(() => failed.getAttribute('aria-pressed') === 'true');
  await until(() => lines().length === 1);
  type(search, 'nowhere');
  await until(() => /No failed call matches 'nowhere'\./.test($('.otx-history').textContent));
  assert.deepEqual(requests().at(-1), { query: 'nowhere', isFailed: true, since: '', offset: 0, limit: 50 });
  assert.equal(browser.view.value, 'history', 'typing does not leave the history');
  press(search, 'Escape');
  await until(() => lines().length === 1);
  assert.equal(search.value, '');
  const times = $('[aria-label="When"]');
  times.value = 'yesterday';
  times.dispatchEvent(new Event('change'));
  await until(() => requests().at(-1).since === 'yesterday');
  browser.close();
});

test('a run of ot.map is one line, which unfolds to its calls by the page', async () => {
  const calls = Array.from({ length: ROWS }, (_, at) => call(`r${at}`, { ok: at >= 10 }));
  const { browser, $, lines } = await open(({ run: wanted, offset, limit }) => (wanted ? { items: calls.slice(offset, offset + limit), hasMore: offset + limit < ROWS } : { items: [run()], hasMore: false }));
  await until(() => $('.otx-run-line'));
  const toggle = $('.otx-run-line');
  assert.match(toggle.textContent, /ot\.map shop\.order.*500 rows, 10 failed · 2\.9 s/);
  assert.equal(toggle.getAttribute('aria-expanded'), 'false');
  toggle.click();
  await until(() => lines().length === 50);
  assert.equal(toggle.getAttribute('aria-expanded'), 'true');
  assert.deepEqual(lines().slice(0, 11).map(line => line.querySelector('.otx-outcome').textContent), [...'✗'.repeat(10), '✓']);
  const more = () => [...browser.element.querySelectorAll('.otx-more')].find(button => !button.hidden);
  more().click();
  await until(() => lines().length === 100);
  more().click();
  await until(() => lines().length === ROWS);
  assert.equal(more(), undefined);
  toggle.click();
  await until(() => lines()[0].closest('.otx-calls-page').hidden);
  browser.close();
});

test('a call that cannot be run again says why, and nothing is called masked that was not', async () => {
  const { browser, lines } = await open(() => ({ items: [call('a', { args: null, noArgs: 'no such tool', ok: false }), call('b', { args: null, noArgs: 'masked' }), call('c')], hasMore: false }));
  await until(() => lines().length === 3);
  assert.deepEqual(lines().map(line => /masked|no such tool/.exec(line.textContent)?.[0]), ['no such tool', 'masked', undefined]);
  assert.match(lines()[0].querySelector('.otx-tool-text').textContent, /no such tool$/);
  assert.equal(lines()[0].querySelector('button[aria-label^="Rerun"]'), null);
  browser.close();
});

test('Show more asks again after a request that failed, and the failure goes away', async () => {
  const calls = Array.from({ length: ROWS }, (_, at) => call(`c${at}`));
  let fails = false;
  const { browser, $, lines, requests } = await open(({ offset, limit }) => {
    if (fails) throw new Error('The kernel is busy.');
    return { items: calls.slice(offset, offset + limit), hasMore: offset + limit < ROWS };
  });
  await until(() => lines().length === 50);
  const more = $('.otx-more');
  fails = true;
  more.click();
  await until(() => /The kernel is busy\./.test($('.otx-history').textContent));
  assert.equal(more.hidden, false);
  more.click();
  await until(() => requests().filter(page => page.offset === 50).length === 2);
  fails = false;
  await until(() => (more.click(), lines().length === 100));
  assert.doesNotMatch($('.otx-history').textContent, /busy/);
  browser.close();
});

test('lines that stay keep the focus and what is unfolded when a call has finished', async () => {
  const items = [run({ failures: 0, rows: 1 }), call('a')];
  const { browser, $, lines } = await open(({ run: wanted }) => (wanted ? { items: [call('r1')], hasMore: false } : { items: [...items], hasMore: false }));
  await until(() => $('.otx-run-line'));
  $('.otx-run-line').click();
  await until(() => lines().length === 2);
  const [edit] = lines()[1].querySelectorAll('button');
  edit.focus();
  items.unshift(call('new'));
  items[1] = run({ failures: 1, rows: 2 });
  await browser.history.load();
  await until(() => lines().length === 3);
  assert.equal(document.activeElement, edit);
  assert.match($('.otx-run-line').textContent, /2 rows, 1 failed/);
  assert.equal($('.otx-run-line').getAttribute('aria-expanded'), 'true');
  browser.close();
});

test('Escape goes back to the search, and from there to the notebook', async () => {
  const { browser, search, lines } = await open(() => ({ items: [call('a')], hasMore: false }));
  const cell = document.createElement('div');
  cell.className = 'jp-Cell';
  cell.tabIndex = -1;
  const host = cell.appendChild(document.createElement('div'));
  keepKeys(host);
  host.append(browser.element);
  document.body.replaceChildren(cell);
  await until(() => lines().length === 1);
  lines()[0].querySelector('button').focus();
  press(document.activeElement, 'Escape');
  assert.equal(document.activeElement, search);
  press(search, 'Escape');
  assert.equal(document.activeElement, cell);
  browser.close();
});

test('a press on Show more counts, also where a call that ends loads the list again', async () => {
  const calls = Array.from({ length: ROWS }, (_, at) => call(`c${at}`));
  let held = null;
  const { browser, $, lines } = await open(({ offset, limit }) => {
    const reply = { items: calls.slice(offset, offset + limit), hasMore: offset + limit < ROWS };
    return held ? held.then(() => reply) : reply;
  });
  await until(() => lines().length === 50);
  let go;
  held = new Promise(resolve => (go = resolve));
  $('.otx-history .otx-more').click();
  void browser.history.load();
  go();
  await until(() => lines().length === 100, 'no more calls are shown');
  browser.close();
});
