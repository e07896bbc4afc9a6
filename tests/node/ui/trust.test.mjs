// The trust form: everything that a yes covers is in it as text; long lists are folded, and nothing is left out.
import assert from 'node:assert/strict';
import test from 'node:test';
import { transportOf, ui, until } from './page.mjs';

const { createBrowser } = await ui('browser');
const { needsTrust, TrustForm } = await ui('trust');
const { h, render } = await import('../../../labextension/node_modules/preact/dist/preact.mjs');

const part = (kind, name, more = {}) => ({ key: `${kind} ${name}`, kind, name, text: 'text', details: [], changes: [], ...more });
const inventory = (more = {}) => ({ folder: '/p', packFiles: [], parts: [], httpTools: 0, hosts: [], snippets: [], ...more });
function draw(more, part = '', isTrusted = false) {
  const box = document.createElement('div');
  render(h(TrustForm, { inventory: inventory(more), part, isTrusted, onYes: () => {}, onNo: () => {} }), box);
  return box;
}

test('every part is shown with what it gets', () => {
  const model = part('model', 'm', { text: 'openai x at https://evil.example', details: ['sends the key AWS_SECRET'] });
  const server = part('server', 's', { text: 'npx <b>x</b>', details: ['sets LD_PRELOAD=${HOME}/x.so', 'gets the variable HOME'] });
  const element = draw({ parts: [server, model, part('folder', '/'), part('setting', 'http.allow_private')] });
  for (const text of ['Model m: openai x at https://evil.example', 'sends the key AWS_SECRET', 'Server s: npx <b>x</b>', 'LD_PRELOAD=${HOME}/x.so', 'Folder /: ', 'Setting http.allow_private: ']) {
    assert.ok(element.textContent.includes(text), text);
  }
  assert.equal(element.querySelector('b'), null);
});

test('long lists are folded and whole', () => {
  const files = Array.from({ length: 40 }, (_, number) => `tools/pack${number}.py`);
  const hosts = Array.from({ length: 30 }, (_, number) => part('host', `h${number}.example`));
  const element = draw({ packFiles: files, parts: hosts });
  const folds = [...element.querySelectorAll('details')];
  assert.deepEqual(folds.map(fold => [fold.open, fold.querySelector('summary').textContent]), [[false, '35 more pack files'], [false, '25 more hosts']]);
  for (const name of [...files, ...hosts.map(host => host.name)]) assert.ok(element.textContent.includes(name), name);
});

test('a short list is not folded, and an empty project says that it does nothing', () => {
  assert.equal(draw({ packFiles: ['a.py', 'b.py'] }).querySelector('details'), null);
  assert.ok(draw({}).textContent.includes('Nothing that runs by itself or reaches out of the folder.'));
});

test('the form of one part is about that part alone, and says what changed', () => {
  const parts = [part('model', 'm', { changes: ['- key: A', '+ key: B'] }), part('host', 'x.example')];
  const changed = draw({ parts, packFiles: ['a.py'] }, 'model m');
  assert.ok(changed.textContent.includes('The model m has changed since you trusted it.'));
  assert.ok(changed.querySelector('.otx-trust-changes').textContent.includes('+ key: B'));
  assert.equal(changed.querySelector('.otx-run').textContent, 'Trust this model');
  for (const other of ['x.example', 'a.py']) assert.ok(!changed.textContent.includes(other));
  assert.ok(draw({ parts }, 'host x.example').textContent.includes('The host x.example is new.'));
});

test('many new parts of a trusted project are one form', () => {
  const parts = Array.from({ length: 9 }, (_, number) => part('host', `h${number}.example`));
  const element = draw({ parts }, '', true);
  assert.ok(element.textContent.includes('This project has changed since you trusted it.'));
  assert.equal(element.querySelector('.otx-run').textContent, 'Trust these changes');
});

test('a question is due for an untrusted project and for any part that is not covered', () => {
  assert.ok(needsTrust({ how: 'untrusted', isTrusted: false, wouldRun: inventory() }));
  assert.ok(needsTrust({ how: 'listed', isTrusted: true, wouldRun: inventory({ parts: [part('folder', '/')] }) }));
  assert.ok(!needsTrust({ how: 'listed', isTrusted: true, wouldRun: inventory() }));
});

test('a yes sends what its form shows, not what the kernel sent since; a refused yes draws what there is now', async () => {
  const held = ['a.py'];
  const trust = () => ({ how: 'untrusted', isTrusted: false, wouldRun: inventory({ packFiles: [...held] }) });
  const { transport, asked } = await transportOf({
    overview: () => ({ tools: 0, packs: [], sources: [], tags: [], badges: [], favourites: [], recent: [], trust: trust() }),
    entries: () => ({ items: [], icons: [], isPartial: false }),
    trust: () => Promise.reject(new Error('The project has changed.'))
  });
  const browser = createBrowser(transport);
  await browser.loading;
  held.push('b.py');
  await browser.onCallFinished();
  const yes = browser.element.querySelector('.otx-trust .otx-run');
  yes.click();
  const notice = browser.element.querySelector('.otx-notice');
  await until(() => !notice.hidden);
  assert.deepEqual(asked.find(({ kind }) => kind === 'trust').payload, { isTrusted: true, part: '', wouldRun: inventory({ packFiles: ['a.py'] }) });
  assert.equal(notice.textContent, 'The project has changed.');
  await until(() => browser.element.querySelector('.otx-trust').textContent.includes('b.py'));
  assert.ok(!yes.isConnected, 'a press that began on the old question is no answer to the new one');
  browser.close();
});
