// A tool in a tab of its own, while the tools of the kernel change.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { createToolTab } = await ui('toolTab');
const { Transport } = await ui('transport');

const TOOL = { name: 'srv.add', pack: 'srv', source: 'mcp', tags: [], summary: '', description: '', arguments: ['a'], badges: [], disabled: false, signature: 'srv.add(a)', parameters: { type: 'object', properties: { a: { type: 'string' } } }, usage: { calls: 0 }, isFavourite: false };
const OTHERS = { favourite: () => ({ favourites: ['srv.add'] }), check: () => ({ errors: [], code: {} }), variables: () => ({ items: [] }), run: () => ({ job: 'j1' }) };

/** A tab, and the requests for its tool, which the test answers. A change is told to the tab once it has heard of it. */
function opened(t, args = null) {
  const held = [];
  const asked = [];
  const now = {}; // what is different about the tool now
  const checks = { isHeld: false, held: [] };
  const transport = new Transport(async ({ id, kind, payload }) => {
    asked.push({ kind, payload });
    if (kind === 'tool') held.push(() => transport.receive({ id, value: structuredClone({ ...TOOL, ...now }) }));
    else if (kind === 'check' && checks.isHeld) checks.held.push(() => transport.receive({ id, value: OTHERS.check() }));
    else queueMicrotask(() => transport.receive({ id, value: OTHERS[kind](payload) }));
  });
  const tab = createToolTab(transport, 'srv.add', args, { onInsert() {}, onTrust() {}, onChanged() {} });
  t.after(() => tab.close());
  document.body.replaceChildren(tab.element);
  const changed = async () => {
    const heard = new Promise(resolve => transport.store.onChanged(resolve));
    transport.receive({ event: 'changed' });
    await heard;
  };
  const answerAll = () => {
    for (const answer of held.splice(0)) answer();
  };
  return { tab, held, asked, now, checks, changed, answerAll, input: () => tab.element.querySelector('.otx-form input') };
}

test('the first field has the focus, though the tools changed before the tool was there', async t => {
  const { tab, held, changed, answerAll, input } = opened(t);
  tab.focus();
  await changed();
  answerAll();
  await until(() => input() && document.activeElement === input(), 'the field has no focus');
  await until(() => held.length, 'the tool is not read again');
  answerAll();
  assert.equal(document.activeElement, input());
});

test('arguments and a run that were asked for outlast a change of the tools', async t => {
  const { tab, held, asked, changed, answerAll, input } = opened(t, { a: 'first' });
  await changed();
  answerAll();
  await until(() => input()?.value === 'first', 'the arguments are lost');
  await until(() => held.length, 'the tool is not read again');
  answerAll();

  const filled = tab.fill({ a: 'second' }, true);
  await until(() => held.length);
  await changed();
  answerAll();
  await filled;
  assert.equal(input().value, 'second');
  assert.deepEqual(asked.filter(({ kind }) => kind === 'run').map(({ payload }) => payload.args), [{ a: 'second' }]);
});

test('a star that is set while the tool is read again stays', async t => {
  const { tab, held, now, changed, answerAll } = opened(t);
  answerAll();
  const star = () => tab.element.querySelector('.otx-star');
  await until(star, 'there is no star');
  await changed();
  await until(() => held.length, 'the tool is not read again');
  star().click();
  Object.assign(now, { parameters: { type: 'object', properties: { b: { type: 'string' } } } });
  answerAll();
  await until(() => tab.element.querySelector('[data-name="b"], [name="b"], label')?.textContent.includes('b'), 'the tool is that of before');
  assert.equal(star().getAttribute('aria-pressed'), 'true');
});

test('a run that was pressed outlasts a tool that is another one when its arguments are checked', async t => {
  const { tab, held, asked, now, checks, changed, answerAll, input } = opened(t, { a: 'tea' });
  answerAll();
  await until(() => input()?.value === 'tea', 'the tool is not there');

  checks.isHeld = true;
  [...tab.element.querySelectorAll('button')].find(({ textContent }) => textContent === 'Run').click();
  await until(() => checks.held.length, 'the arguments are not checked');
  now.description = 'Trusted.';
  now.badges = ['pack'];
  await changed();
  await until(() => held.length, 'the tool is not read again');
  answerAll();
  await until(() => tab.element.textContent.includes('Trusted.'), 'the tool is the old one');
  checks.isHeld = false;
  for (const answer of checks.held.splice(0)) answer();
  await until(() => asked.some(({ kind }) => kind === 'run'), 'the run is lost');
  assert.deepEqual(asked.filter(({ kind }) => kind === 'run').map(({ payload }) => payload.args), [{ a: 'tea' }]);
});
