// The result viewer: it requests only the visible rows; the kernel sorts, filters and finds; trees open lazily.
import assert from 'node:assert/strict';
import test from 'node:test';
import { transportOf, type, ui, until } from './page.mjs';

const { createViewer } = await ui('viewer');

const COLUMNS = [{ name: 'a', kind: 'integer' }, { name: '<b>', kind: 'text' }];

async function open(result, answers) {
  const { transport, asked } = await transportOf(answers);
  const viewer = createViewer(transport);
  document.body.replaceChildren(viewer.element);
  viewer.show({ ok: true, ...result });
  return { viewer, asked, $: selector => viewer.element.querySelector(selector) };
}

test('of a million lines only the page of the wanted line is requested', async () => {
  const { asked, $, viewer } = await open(
    { handle: 'h', lines: 1_000_000, preview: Array.from({ length: 200 }, (_, i) => `line ${i + 1}`), kinds: ['text'] },
    { page: ({ offset, limit }) => ({ lines: Array.from({ length: limit }, (_, i) => `line ${offset + i}`), total: 1_000_000 }) }
  );
  type($('[aria-label="Go to line"]'), '900001');
  await until(() => asked.some(message => message.payload.offset > 800_000));
  assert.ok(asked.length <= 3);
  assert.ok(asked.every(message => message.payload.limit <= 200));
  viewer.close();
});

test('Find steps from match to match and shows how many there are', async () => {
  const { $, viewer } = await open(
    { handle: 'h', lines: 100, preview: Array.from({ length: 100 }, (_, i) => `l${i}`), kinds: ['text'] },
    { find: () => ({ hits: [5, 50], matched: 2, isComplete: true }), page: () => ({ lines: [] }) }
  );
  type($('[aria-label="Find in the result"]'), 'l.');
  await until(() => /1 of 2/.test($('.otx-count').textContent));
  $('[aria-label="Next"]').click();
  await until(() => /2 of 2/.test($('.otx-count').textContent));
  $('[aria-label="Next"]').click();
  await until(() => /1 of 2/.test($('.otx-count').textContent));
  viewer.close();
});

test('a few short lines have no bar to find in them', async () => {
  for (const [bytes, isHidden] of [[24, true], [5000, false]]) {
    const { $, viewer } = await open({ handle: 'h', lines: 1, bytes, preview: ['a'], kinds: ['text'] });
    assert.equal(Boolean($('.otx-find').closest('[hidden]')), isHidden);
    viewer.close();
  }
});

test('a bad pattern is reported beside the input', async () => {
  const { $, viewer } = await open({ handle: 'h', lines: 1, preview: ['a'], kinds: ['text'] }, { find: () => { throw new Error("bad pattern '('"); } });
  type($('[aria-label="Find in the result"]'), '(');
  await until(() => /bad pattern/.test($('.otx-count').textContent));
  viewer.close();
});

test('a table has no head until its columns are known', async () => {
  let answer;
  const { $, viewer } = await open({ handle: 'h', lines: 1, rows: 1, kinds: ['table', 'text'] }, { table: () => new Promise(resolve => { answer = resolve; }) });
  await until(() => answer);
  assert.equal($('.otx-table-head').hidden, true);
  answer({ columns: COLUMNS, rows: [[1, '1', 'x']], total: 1 });
  await until(() => $('[role="columnheader"] button'));
  assert.equal($('.otx-table-head').hidden, false);
  viewer.close();
});

test('a table sorts ascending, descending and not at all, over the whole result', async () => {
  const sorts = [];
  const { $, viewer } = await open(
    { handle: 'h', lines: 3, rows: 3, kinds: ['table', 'text'] },
    { table: ({ sort, filter }) => { sorts.push(JSON.stringify(sort)); return { columns: COLUMNS, rows: filter ? [[1, '1', 'x']] : [[1, '1', 'x'], [2, '2', 'y'], [3, '3', '<i>']], total: filter ? 1 : 3 }; } }
  );
  await until(() => $('[role="columnheader"] button'));
  assert.equal($('b'), null);
  for (let n = 0; n < 3; n += 1) {
    const before = sorts.length;
    $('[role="columnheader"] button').click();
    await until(() => sorts.length > before);
    await until(() => $('[role="columnheader"] button'));
  }
  assert.deepEqual(sorts, ['null', '{"column":0,"isDown":false}', '{"column":0,"isDown":true}', 'null']);
  type($('[aria-label="Filter rows"]'), 'x');
  await until(() => /1 of 3 rows/.test(viewer.element.textContent));
  viewer.close();
});

test('a tree requests only the opened nodes, by their path', async () => {
  const paths = [];
  const { $, viewer } = await open(
    { call: 'c', lines: 1, kinds: ['tree', 'text'] },
    { tree: ({ path }) => { paths.push(path); return path.length ? { children: [{ key: 0, kind: 'int', preview: '1', count: 0 }], total: 1 } : { children: [{ key: 'a', kind: 'list', preview: '[1]', count: 1 }], total: 1 }; } }
  );
  await until(() => $('.otx-expand'));
  assert.deepEqual(paths, [[]]);
  $('.otx-expand').click();
  await until(() => paths.length === 2);
  assert.deepEqual(paths[1], ['a']);
  viewer.close();
});

test('the tree of a small result is open, that of a large one is not', async () => {
  const tree = ({ path }) => ({ children: [{ key: `k${path.length}`, kind: path.length < 2 ? 'object' : 'int', preview: '', count: path.length < 2 ? 1 : 0 }], total: 1 });
  for (const [bytes, keys] of [[160, ['k0', 'k1', 'k2']], [1e6, ['k0']]]) {
    const { viewer, asked } = await open({ call: 'c', lines: 1, bytes, kinds: ['tree', 'text'] }, { tree });
    const shown = () => [...viewer.element.querySelectorAll('.otx-key')].map(each => each.textContent);
    await until(() => shown().length === keys.length);
    await asked;
    assert.deepEqual(shown(), keys);
    viewer.close();
  }
});

test('"more" of a tree is pressed once: its children come once, and after an error it is there again', async () => {
  const keys = Array.from({ length: 150 }, (_, at) => ({ key: at, kind: 'int', preview: '1', count: 0 }));
  let reply;
  const page = ({ offset, limit }) => ({ children: keys.slice(offset, offset + limit), total: keys.length });
  const tree = payload => (payload.offset ? new Promise((resolve, reject) => (reply = { resolve: () => resolve(page(payload)), reject })) : page(payload));
  const { $, asked, viewer } = await open({ call: 'c', lines: 1, kinds: ['tree', 'text'] }, { tree });
  await until(() => $('.otx-more button'));
  $('.otx-more button').click();
  assert.equal($('.otx-more'), null);
  reply.reject(new Error('The kernel is gone.'));
  await until(() => $('.otx-more button'));
  assert.equal($('.otx-more button').textContent, '50 more');
  assert.match($('.otx-bar').textContent, /The kernel is gone\./);
  $('.otx-more button').click();
  $('.otx-more button')?.click();
  assert.equal(asked.filter(message => message.payload.offset).length, 2);
  reply.resolve();
  await until(() => viewer.element.querySelectorAll('[role="treeitem"]').length === keys.length);
  assert.equal($('.otx-more'), null);
  viewer.close();
});

test('a failed result shows its error; hostile text stays text', async () => {
  const { $, viewer } = await open({ ok: false, error: { code: 'execution_error', message: '<script>window.hacked = 1</script>' } }, {});
  assert.equal($('script'), null);
  assert.match($('.otx-failure').textContent, /<script>/);
  viewer.close();
});

test('a failure has its title and its hint, as the cell shows them', async () => {
  const hint = 'It sent GET https://api.example.com/items\nThis tool sends no auth.';
  const { $, viewer } = await open({ ok: false, error: { code: 'execution_error', title: 'The call failed', message: '401 Unauthorized', hint } }, {});
  assert.equal($('.otx-failure strong').textContent, 'The call failed');
  assert.equal($('.otx-failure pre').textContent, `401 Unauthorized\n${hint}`);
  viewer.close();
});

async function openTable(answers = {}) {
  const rows = [[1, '10', 'x'], [2, '20', 'y'], [3, '30', 'z']];
  const opened = await open({ handle: 'h', lines: 3, rows: 3, kinds: ['table', 'text'], formats: ['csv', 'parquet'] }, { table: () => ({ columns: COLUMNS, rows, total: 3 }), ...answers });
  await until(() => opened.$('.otx-table-row'));
  return opened;
}

function button(viewer, label) {
  return [...viewer.element.querySelectorAll('button')].find(each => each.textContent === label);
}

function keyDown(element, key, more = {}) {
  element.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
}

test('the filter of a column has a condition and the counted values', async () => {
  const items = [{ id: 4, text: '<i>', count: 1200 }, { id: -1, text: '', count: 2 }];
  const { $, asked, viewer } = await openTable({ values: () => ({ items, total: 2 }) });
  $('[aria-label="Filter a"]').click();
  await until(() => $('.otx-filter-value'));
  assert.equal($('.otx-filter-values i'), null);
  assert.match($('.otx-filter-values').textContent, /<i>1,200\(missing\)2/);
  type($('[aria-label="Condition for a"]'), '> 5');
  await until(() => asked.some(message => message.payload.columns?.[0] === '> 5'));
  const [box] = viewer.element.querySelectorAll('.otx-filter-value input');
  box.checked = true;
  box.dispatchEvent(new Event('change'));
  await until(() => asked.some(message => message.kind === 'table' && message.payload.choices?.[0]?.[0] === 4));
  await until(() => /a > 5; <i>/.test($('.otx-chips').textContent));
  $('.otx-filter-chip').click();
  await until(() => asked.at(-1).kind === 'table' && Object.keys(asked.at(-1).payload.columns).length === 0);
  await until(() => $('.otx-chips').hidden);
  viewer.close();
});

test('the filter of a column has the focus; a condition that is not understood leaves rows, count and the other filters', async () => {
  const rows = [[1, '10', 'x'], [2, '20', 'y'], [3, '30', 'z']];
  const refused = "'much' is not a number.";
  const { $, asked, viewer } = await openTable({
    values: () => ({ items: [], total: 0 }),
    table: ({ columns }) => {
      if (Object.values(columns).includes('> much')) throw new Error(refused);
      return { columns: COLUMNS, rows: rows.slice(0, columns[0] ? 2 : 3), total: columns[0] ? 2 : 3 };
    }
  });
  const condition = () => $('.otx-filter-box input[type="text"]');
  $('[aria-label="Filter a"]').click();
  assert.equal(document.activeElement, condition());
  type(condition(), '< 25');
  keyDown(condition(), 'Enter');
  await until(() => /2 of 3 rows/.test($('.otx-table-bar').textContent));
  $('[aria-label="Filter <b>"]').click();
  assert.equal(condition().value, '');
  type(condition(), '> much');
  keyDown(condition(), 'Enter');
  await until(() => $('.otx-filter-box [role="alert"]').textContent === refused);
  assert.equal(condition().getAttribute('aria-invalid'), 'true');
  assert.match($('.otx-table-bar').textContent, /2 of 3 rows/);
  assert.equal(viewer.element.querySelectorAll('.otx-table-row').length, 2);
  assert.match($('.otx-chips').textContent, /^a < 25 ×Clear filters$/);
  $('[aria-label="Filter a"]').click();
  assert.equal($('.otx-filter-box [role="alert"]').hidden, true);
  const before = asked.length;
  viewer.element.querySelector('.otx-sort').click();
  await until(() => asked.slice(before).some(({ kind }) => kind === 'table'));
  assert.deepEqual(asked.findLast(({ kind }) => kind === 'table').payload.columns, { 0: '< 25' });
  viewer.close();
});

test('a condition that was just typed counts, also where another column is opened at once', async () => {
  const { $, asked, viewer } = await openTable({ values: () => ({ items: [], total: 0 }) });
  $('[aria-label="Filter a"]').click();
  type($('[aria-label="Condition for a"]'), '> 5');
  $('[aria-label="Filter <b>"]').click();
  assert.equal($('[aria-label="Condition for <b>"]').value, '');
  await until(() => asked.some(({ kind, payload }) => kind === 'table' && payload.columns[0] === '> 5'), 'the condition is lost');
  await until(() => /a > 5/.test($('.otx-chips').textContent));
  viewer.close();
});

test('one who goes on to another tab while the summary clears the filters stays there', async () => {
  let go;
  const { $, viewer, asked } = await open({ handle: 'h', lines: 3, rows: 3, kinds: ['table', 'summary', 'text'] }, {
    summary: () => ({ kind: 'integer', rows: 3, missing: 0, distinct: 3, top: [] }),
    table: ({ filter, limit }) => (filter || limit === 1 || !go ? { columns: COLUMNS, rows: [[1, '1', 'x']], total: 1 } : new Promise(resolve => go.push(() => resolve({ columns: COLUMNS, rows: [], total: 3 }))))
  });
  await until(() => $('.otx-table-row'));
  type($('[aria-label="Filter rows"]'), 'x');
  await until(() => asked.some(({ kind, payload }) => kind === 'table' && payload.filter === 'x'));
  $('[data-kind=summary]').click();
  await until(() => button(viewer, 'Clear filters') && !button(viewer, 'Clear filters').hidden);
  go = [];
  button(viewer, 'Clear filters').click();
  $('[data-kind=text]').click();
  await until(() => go.length);
  go[0]();
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.equal($('[role=tab][aria-selected=true]').dataset.kind, 'text');
  viewer.close();
});

test('a table without a row that matches says so, and clears its filters', async () => {
  const { $, viewer } = await openTable({ table: ({ filter }) => ({ columns: COLUMNS, rows: filter ? [] : [[1, '1', 'x']], total: filter ? 0 : 1 }) });
  type($('[aria-label="Filter rows"]'), 'zzzz');
  await until(() => $('.otx-table-empty'));
  assert.equal($('.otx-table-empty').firstChild.textContent, "No row has 'zzzz'.");
  $('.otx-table-empty button').click();
  await until(() => $('.otx-table-row'));
  assert.equal($('.otx-table-empty'), null);
  assert.equal($('[aria-label="Filter rows"]').value, '');
  viewer.close();
});

test('copying more than is allowed leaves the number of rows on the screen', async () => {
  const { $, viewer } = await openTable({ copied: () => { throw new Error('At most 10,000 rows are copied at once.'); } });
  button(viewer, 'Cells').click();
  await until(() => /At most 10,000/.test($('.otx-table-bar').textContent));
  assert.match($('.otx-table-bar').textContent, /3 rows/);
  viewer.close();
});

test('the present rows and columns are copied as pandas code', async () => {
  const { asked, viewer } = await openTable({ pandasCode: () => ({ code: 'df[0]' }) });
  button(viewer, 'As pandas code').click();
  await until(() => asked.some(message => message.kind === 'pandasCode'));
  assert.deepEqual(asked.find(message => message.kind === 'pandasCode').payload.visible, [0, 1]);
  viewer.close();
});

test('a hidden column is not drawn, copied or downloaded', async () => {
  const { $, asked, viewer } = await openTable({ copied: () => ({ text: 't' }) });
  const box = $('.otx-table-bar .otx-menu-body input[type="checkbox"]');
  box.checked = false;
  box.dispatchEvent(new Event('change'));
  await until(() => viewer.element.querySelectorAll('.otx-table-row')[0].children.length === 2);
  button(viewer, 'With column names').click();
  await until(() => asked.some(message => message.kind === 'copied'));
  assert.deepEqual(asked.find(message => message.kind === 'copied').payload.visible, [1]);
  assert.equal(asked.find(message => message.kind === 'copied').payload.hasNames, true);
  viewer.close();
});

test('arrow keys move the active cell, Shift selects more, Ctrl-C copies them', async () => {
  const { $, asked, viewer } = await openTable({ copied: () => ({ text: 't' }) });
  const grid = $('[role="grid"]');
  Object.defineProperty(grid, 'clientHeight', { value: 240 });
  keyDown(grid, 'ArrowDown');
  keyDown(grid, 'ArrowRight');
  assert.equal($('.otx-current[role="gridcell"]').textContent, 'x');
  keyDown(grid, 'c', { ctrlKey: true });
  await until(() => asked.some(message => message.kind === 'copied'));
  assert.deepEqual([asked.at(-1).payload.first, asked.at(-1).payload.last, asked.at(-1).payload.visible], [0, 0, [1]]);
  keyDown(grid, 'ArrowDown', { shiftKey: true });
  assert.equal(viewer.element.querySelectorAll('.otx-selected').length, 2);
  keyDown(grid, 'c', { ctrlKey: true });
  await until(() => asked.filter(message => message.kind === 'copied').length === 2);
  assert.deepEqual([asked.at(-1).payload.first, asked.at(-1).payload.last, asked.at(-1).payload.visible], [0, 1, [1]]);
  keyDown(grid, 'a', { ctrlKey: true });
  assert.equal(viewer.element.querySelectorAll('[role="row"][aria-selected="true"]').length, 3);
  keyDown(grid, 'c', { ctrlKey: true });
  await until(() => asked.filter(message => message.kind === 'copied').length === 3);
  assert.deepEqual([asked.at(-1).payload.first, asked.at(-1).payload.last, asked.at(-1).payload.visible], [0, 2, [0, 1]]);
  keyDown(grid, 'Escape');
  assert.equal($('.otx-selected'), null);
  viewer.close();
});

test('a column is made wider with arrow keys on its edge', async () => {
  const { $, viewer } = await openTable();
  const edge = () => $('[aria-label="Width of a"]');
  const before = Number(edge().getAttribute('aria-valuenow'));
  edge().focus();
  keyDown(edge(), 'ArrowRight');
  assert.equal(Number(edge().getAttribute('aria-valuenow')), before + 2);
  assert.equal(document.activeElement, edge());
  viewer.close();
});

test('the summary requests one column after the other; a click on a bar filters the table', async () => {
  const text = { kind: 'text', rows: 3, missing: 1, distinct: 2, top: [['<i>', 2, 7]] };
  const numbers = { kind: 'integer', rows: 3, missing: 0, distinct: 3, min: '10', max: '30', mean: '20', bars: [1, 0, 2], ranges: ['10..<20', '20..<30', '30..<40'] };
  const { $, asked, viewer } = await openTable({ summary: ({ column }) => (column ? text : numbers) });
  viewer.show({ ok: true, handle: 'h', rows: 3, kinds: ['summary', 'table'] });
  await until(() => viewer.element.querySelectorAll('tbody tr').length === 2);
  assert.equal($('tbody i'), null);
  assert.equal($('.otx-spread').getAttribute('aria-label'), 'How a is spread from 10 to 30');
  assert.match($('tbody tr:last-child').textContent, /1 \(33 %\)/);
  const [bar] = viewer.element.querySelectorAll('.otx-spread-bar');
  assert.equal(bar.title, '10 to below 20: 1 row');
  bar.click();
  await until(() => asked.some(message => message.kind === 'table' && message.payload.columns?.[0] === '10..<20'));
  await until(() => /a 10\.\.<20/.test($('.otx-chips').textContent));
  assert.equal($('[role="tab"][aria-selected="true"]').textContent, 'Table');
  viewer.close();
});

test('Save as variable says what was saved; of a filtered table the found rows', async () => {
  const { $, asked, viewer } = await openTable({ assign: ({ variable }) => ({ said: `${variable}: list, 1 row` }) });
  type($('[aria-label="Filter rows"]'), 'x');
  await until(() => asked.at(-1).payload.filter === 'x');
  $('.otx-more-menu > button').click();
  await until(() => document.activeElement === $('[aria-label="Name of the variable"]'));
  type($('[aria-label="Name of the variable"]'), 'rows');
  $('.otx-assign').dispatchEvent(new Event('submit', { cancelable: true, bubbles: true }));
  await until(() => /rows: list, 1 row/.test($('.otx-result-head').textContent));
  assert.equal(asked.find(message => message.kind === 'assign').payload.filter, 'x');
  viewer.close();
});

test('Compare lists other results and shows what changed; what goes wrong is one sentence', async () => {
  const items = [{ handle: null, call: 'c1', tool: 'nb.prices', text: 'page=<b>', when: '11:46:28', isSame: true }];
  const asked = [];
  const compare = payload => {
    asked.push(payload);
    if (payload.key[0] === 'name') throw new Error("The key is not unique: name='tea' is in more than one row of the first.");
    return { text: '1 row new, 1 price changed: 1 price 1.5 → 1.75', kind: 'table', key: ['id'], columns: ['id', 'name'], sides: [{ when: '11:46:28', isThis: false }, { when: '', isThis: true }], result: { ok: true, call: 'at-1', rows: 2, formats: [] } };
  };
  const table = ({ call }) => (call === 'at-1' ? { columns: [{ name: 'change', kind: 'text' }, { name: 'price', kind: 'text' }], rows: [[0, 'added', '3'], [1, 'changed', ['1.5', '']]], total: 2 } : { columns: COLUMNS, rows: [], total: 0 });
  const { viewer, $ } = await open({ handle: 'h2', call: 'c2', tool: 'nb.prices', rows: 0, lines: 0, kinds: ['table', 'text'] }, { comparable: () => ({ items }), compare, table });

  $('.otx-more-menu > button').click();
  await until(() => $('.otx-compare-choice'));
  assert.equal($('b'), null);
  $('.otx-compare-choice').click();
  await until(() => $('.otx-row-changed'));
  assert.deepEqual(asked, [{ handle: 'h2', call: 'c2', other: { handle: null, call: 'c1' }, key: [] }]);
  assert.match($('.otx-compare-text').textContent, /^1 row new/);
  assert.match($('.otx-compare-sides').textContent, /From nb.prices page=<b>, 11:46:28 to this result/);
  assert.equal($('.otx-row-changed del').textContent, '1.5');
  assert.equal($('.otx-row-changed ins').textContent, 'nothing');
  assert.equal($('[role="tab"][aria-selected="true"]').textContent, 'Changes');

  const [id, name] = viewer.element.querySelectorAll('.otx-compare-head input');
  assert.equal(id.checked, true);
  id.click();
  name.click();
  await until(() => /not unique: name='tea'/.test($('.otx-compare-text').textContent));
  assert.deepEqual(asked.at(-1).key, ['name']);
  assert.equal($('.otx-row-changed'), null);
  viewer.close();
});

test('without another result Compare says what to do', async () => {
  const { viewer, $ } = await open({ call: 'c2', lines: 1, preview: ['a'], kinds: ['text'] }, { comparable: () => ({ items: [] }) });
  $('.otx-more-menu > button').click();
  await until(() => /no other result yet/.test($('.otx-compare-list')?.textContent));
  viewer.close();
});
