// The result viewer: it requests only the visible rows; the kernel sorts, filters and finds; trees open lazily.
import assert from 'node:assert/strict';
import test from 'node:test';
import { transportOf, type, ui, until } from './page.mjs';

const { createViewer } = await ui('viewer');

async function open(result, answers) {
  const { transport, asked } = await transportOf(answers);
  const viewer = createViewer(transport.request);
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

test('a bad pattern is reported beside the input', async () => {
  const { $, viewer } = await open({ handle: 'h', lines: 1, preview: ['a'], kinds: ['text'] }, { find: () => { throw new Error("bad pattern '('"); } });
  type($('[aria-label="Find in the result"]'), '(');
  await until(() => /bad pattern/.test($('.otx-count').textContent));
  viewer.close();
});

test('a table sorts ascending, descending and not at all, over the whole result', async () => {
  const sorts = [];
  const { $, viewer } = await open(
    { handle: 'h', lines: 3, rows: 3, kinds: ['table', 'text'] },
    { table: ({ sort, filter }) => { sorts.push(JSON.stringify(sort)); return { columns: ['a', '<b>'], rows: filter ? [['1', 'x']] : [['1', 'x'], ['2', 'y'], ['3', '<i>']], total: filter ? 1 : 3 }; } }
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

test('a failed result shows its error; hostile text stays text', async () => {
  const { $, viewer } = await open({ ok: false, error: { code: 'execution_error', message: '<script>window.hacked = 1</script>' } }, {});
  assert.equal($('script'), null);
  assert.match($('.otx-failure').textContent, /<script>/);
  viewer.close();
});

test('Assign shows the code that does the same', async () => {
  const { $, viewer } = await open({ handle: 'h', lines: 1, preview: ['a'], kinds: ['text'] }, { assign: ({ variable }) => ({ code: `${variable} = 1` }) });
  type($('[aria-label="Name of the variable"]'), 'rows');
  $('.otx-assign').dispatchEvent(new Event('submit', { cancelable: true, bubbles: true }));
  await until(() => /rows = 1/.test($('.otx-assign').textContent));
  viewer.close();
});
