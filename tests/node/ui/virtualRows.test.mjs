// Virtual rows: only those that can be seen are in the page, and a row keeps its element as long as its data do.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { Requests } = await ui('requests');
const { drawInto } = await ui('parts');
const { Rows, VirtualRows } = await ui('virtualRows');
const { h } = await import('../../../labextension/node_modules/preact/dist/preact.mjs');

function open(fetch) {
  const requests = new Requests(null);
  const rows = new VirtualRows(requests, 20, fetch);
  const element = document.createElement('div');
  document.body.replaceChildren(element);
  const draw = (row, at, key) => h('p', { key }, row.name ?? row);
  drawInto(element, () => h(Rows, { rows, seen: rows.seen, label: 'x', draw }));
  Object.defineProperty(rows.element, 'clientHeight', { value: 200 });
  const children = () => [...element.querySelector('.otx-virtual-list-body').children];
  return { rows, requests, children, texts: () => children().map(each => each.textContent) };
}

const numbers = async (offset, limit) => Array.from({ length: limit }, (_, at) => `row ${offset + at}`);

test('of five million rows only the visible ones are in the page', async () => {
  const { rows, texts } = open(numbers);
  await rows.reset(5_000_000);
  await rows.scrollTo(4_000_000);
  assert.deepEqual([texts().length, texts()[0]], [11, 'row 4000000']);
  rows.close();
});

test('a row that cannot be loaded stays a placeholder, and is tried again when it is seen again', async () => {
  let isBroken = true;
  const { rows, texts } = open(async (...page) => (isBroken ? Promise.reject(new Error('the kernel stopped')) : numbers(...page)));
  await rows.reset(3);
  assert.deepEqual(texts(), ['…', '…', '…']);
  isBroken = false;
  rows.element.dispatchEvent(new Event('scroll'));
  await until(() => texts()[2] === 'row 2');
  rows.close();
});

test('a row with the same data keeps its element, and another row never gets it', async () => {
  const data = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];
  const { rows, children } = open(async () => data);
  await rows.reset(3, data);
  const before = children();
  await rows.reset(4, [...data, { name: 'd' }]);
  assert.deepEqual(children().slice(0, 3), before);
  await rows.reset(3, [{ name: 'a' }, ...data.slice(1)]);
  assert.notEqual(children()[0], before[0], 'it looks the same, but what a click on it does may be other');
  assert.equal(children()[1], before[1]);
  rows.close();
});

test('pages of the rows before are not shown, nor any after the end', async () => {
  const held = [];
  const { rows, requests, texts } = open(() => new Promise(resolve => held.push(resolve)));
  void rows.reset(2);
  void rows.reset(1);
  held[0](['old', 'old']);
  held[1](['new']);
  await until(() => texts()[0] === 'new');
  void rows.reset(1);
  requests.close();
  held[2](['late']);
  await new Promise(resolve => setTimeout(resolve, 5));
  assert.deepEqual(texts(), ['…']);
  rows.close();
});

test('rows that come into the page again are where they were', async () => {
  const { rows } = open(numbers);
  await rows.reset(1000);
  await rows.scrollTo(500);
  const { element } = rows;
  rows.attach(null);
  element.scrollTop = 0;
  rows.attach(element);
  assert.equal(rows.top, 500);
  rows.close();
});
