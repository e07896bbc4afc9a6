// The virtual list: only visible rows are in the page.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui } from './page.mjs';

const { VirtualList } = await ui('virtualList');

test('a list of five million rows keeps only the visible ones', async () => {
  const list = new VirtualList({ rowHeight: 20, label: 'x', fetch: async (offset, limit) => Array.from({ length: limit }, (_, i) => offset + i), draw: row => { const element = document.createElement('div'); element.textContent = row; return element; } });
  document.body.replaceChildren(list.element);
  Object.defineProperty(list.element, 'clientHeight', { value: 200 });
  await list.reset(5_000_000);
  await list.scrollTo(4_000_000);
  assert.ok(list.body.children.length <= 11);
  list.close();
});

test('a row that cannot be loaded stays a placeholder, and scrolling raises nothing', async () => {
  const list = new VirtualList({ rowHeight: 20, label: 'x', fetch: async () => { throw new Error('the kernel stopped'); }, draw: () => document.createElement('div') });
  document.body.replaceChildren(list.element);
  await assert.rejects(list.reset(10), /kernel stopped/);
  list.element.dispatchEvent(new Event('scroll'));
  await new Promise(resolve => setTimeout(resolve, 0)); // an unhandled rejection would fail this test
  assert.equal(list.body.textContent.replaceAll('…', ''), '');
  assert.ok(list.body.children.length > 0);
  list.close();
});

test('a row that is as it was stays in the page when the list is drawn again', async () => {
  const rows = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];
  const marked = new Set();
  const draw = row => { const element = document.createElement('div'); element.textContent = marked.has(row) ? `${row.name}!` : row.name; return element; };
  const list = new VirtualList({ rowHeight: 20, label: 'x', fetch: async () => rows, draw });
  document.body.replaceChildren(list.element);
  Object.defineProperty(list.element, 'clientHeight', { value: 200 });
  await list.reset(3, rows);
  const before = [...list.body.children];
  marked.add(rows[1]);
  await list.update();
  assert.deepEqual([...list.body.children].map((row, at) => row === before[at]), [true, false, true]);
  await list.reset(4, [...rows, { name: 'd' }]);
  assert.equal(list.body.children[0], before[0]);
  await list.reset(3, [{ name: 'a' }, ...rows.slice(1)]);
  assert.notEqual(list.body.children[0], before[0], 'it looks the same, but what a click on it does may be other');
  assert.equal(list.body.textContent, 'ab!c');
  list.close();
});
