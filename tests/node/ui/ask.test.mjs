// The screen Ask without a kernel: what goes into a cell, what comes while an ask runs, and the choice of a model.
import assert from 'node:assert/strict';
import test from 'node:test';
import { press, transportOf, type, ui, until } from './page.mjs';

const { cellOf, createAsk } = await ui('ask');

const EVIL = '<img src=x onerror="window.hacked = 1">';
const CALL = { call: 'shop.look', line: 'shop.look x=1', args: '{"x": 1}', state: 'failed', facts: 'no such street · 3 ms', problem: 'no such street', result: '' };
const exchange = (id, more = {}) => ({ id, prompt: `Question ${id}`, when: '11:46:28', state: 'done', isOk: true, facts: 'local · 2 tokens in', parts: [{ text: `Answer ${id}` }], ...more });
const LOCAL = { models: [{ name: 'local', model: 'small' }, { name: 'big' }], default: 'local', keys: ['TOKEN'], addresses: {}, inProject: false, ownFile: 'onetool.yaml' };

/** The screen over a kernel with two conversations; `run` is what the notebook says of a cell. */
async function open({ models = LOCAL, run = async () => '', ...answers } = {}) {
  const cells = [];
  const kept = { trip: [exchange('a')], other: [] };
  const { transport, asked } = await transportOf({
    models: () => (typeof models === 'function' ? models() : models),
    sessions: () => ({ items: Object.keys(kept) }),
    conversation: ({ session }) => ({ items: kept[session] ?? [], earlier: 0, tokens: 12, cost: 0.0123 }),
    forgetSession: ({ session }) => (delete kept[session], { said: 'It is forgotten.' }),
    ...answers
  });
  const stops = [];
  const view = createAsk(transport, { onAsk: code => (cells.push(code), run(code)), onStop: () => stops.push(1) });
  document.body.replaceChildren(view.element);
  void view.load();
  await until(() => view.element.querySelector('[role=log]') && asked.some(({ kind }) => kind === 'conversation'));
  const $ = selector => view.element.querySelector(selector);
  const button = name => [...view.element.querySelectorAll('button')].find(each => each.textContent === name);
  const live = (more, session = 'trip') => transport.receive({ event: 'ask', session, exchange: exchange('b', more) });
  const choose = (label, value) => {
    const field = $(`[aria-label="${label}"]`);
    field.value = value;
    field.dispatchEvent(new Event('change', { bubbles: true }));
  };
  return { view, $, button, cells, kept, asked, stops, live, choose, box: $('textarea'), text: () => view.element.textContent };
}

test('a question is a line magic, or a cell magic where a line would be read otherwise', () => {
  assert.equal(cellOf('Why?', 'chat'), '%ask --session chat Why?');
  assert.equal(cellOf('Why?', 'my "trip"', 'big'), '%ask --session "my \\"trip\\"" --model big Why?');
  assert.equal(cellOf('--help me', 'chat'), '%%ask --session chat\n--help me');
  assert.equal(cellOf('one\ntwo', 'chat'), '%%ask --session chat\none\ntwo');
  for (const end of '\r\v\f\x1c\x1d\x1e\x85\u2028\u2029') assert.equal(cellOf(`one${end}!rm x`, 'chat'), `%%ask --session chat\none${end}!rm x`, 'all of it is the question');
});

test('a conversation shows its calls, failures and price, and all of it is text', async () => {
  const { view, text, $ } = await open({ conversation: () => ({ items: [exchange('a', { prompt: EVIL, parts: [{ text: EVIL }, { ...CALL, problem: EVIL }, { note: EVIL }] })], earlier: 3, tokens: 1234, cost: 0.0123 }) });
  await until(() => /4 questions · 1,234 tokens · \$0\.012/.test(text()), text());
  assert.equal(view.element.querySelectorAll('img').length, 0);
  assert.equal($('summary').textContent, '✗shop.look x=1 no such street · 3 ms');
  assert.match(text(), /3 earlier questions not shown/);
  assert.equal(view.element.querySelectorAll('.otx-exchange').length, 1);
});

test('a question goes into a cell, and grows in the conversation while it runs', async () => {
  let end;
  const { box, cells, kept, live, text, button, stops, $ } = await open({ run: () => new Promise(resolve => (end = resolve)) });
  await until(() => /Answer a/.test(text()));
  type(box, 'Question b');
  press(box, 'Enter');
  await until(() => cells.length === 1);
  assert.deepEqual(cells, ['%ask --session trip Question b']);
  assert.equal(box.value, '');
  assert.match(text(), /waiting for its turn/);
  live({ state: 'running', parts: [{ text: 'Let me' }] });
  await until(() => /Let me/.test(text()));
  assert.doesNotMatch(text(), /waiting for its turn/);
  const element = $('.otx-exchange:last-of-type');
  live({ state: 'running' }, 'other');
  live({ state: 'waiting', parts: [{ text: 'Let me look' }, CALL] });
  await until(() => /Waits for your answer/.test(text()));
  assert.equal($('.otx-exchange:last-of-type'), element, 'its element stays');
  button('Stop').click();
  assert.equal(stops.length, 1);
  live({});
  kept.trip.push(exchange('b'));
  end('');
  await until(() => /Answer b/.test(text()) && !button('Stop'));
  assert.equal((text().match(/Question b/g) ?? []).length, 1);
});

test('a cell that failed before it asked gives the question back with the reason', async () => {
  const { box, text } = await open({ run: async () => 'There is no variable of that name.' });
  type(box, '@nosuch');
  press(box, 'Enter', { shiftKey: true });
  assert.equal(box.value, '@nosuch', 'Shift+Enter begins a line');
  press(box, 'Enter');
  await until(() => /no variable of that name/.test(text()));
  assert.equal(box.value, '@nosuch');
});

test('another conversation and another model go into the cell', async () => {
  const { box, cells, choose, button, text, $ } = await open();
  await until(() => /Answer a/.test(text()));
  choose('Model to ask', 'big');
  choose('Conversation', 'other');
  await until(() => !/Answer a/.test(text()));
  type(box, 'And?');
  press(box, 'Enter');
  await until(() => cells.length === 1);
  button('New').click();
  await until(() => $('[aria-label="Conversation"]').value === 'chat');
  type(box, 'Hi');
  await until(() => !button('Ask').disabled);
  button('Ask').click();
  await until(() => cells.length === 2);
  assert.deepEqual(cells, ['%ask --session other --model big And?', '%ask --session chat --model big Hi']);
});

test('a conversation is forgotten after a second press', async () => {
  const { asked, button, text, $ } = await open();
  await until(() => /Answer a/.test(text()));
  button('Forget').click();
  await until(() => button('Really forget?'));
  assert.ok(!asked.some(({ kind }) => kind === 'forgetSession'));
  button('Really forget?').click();
  await until(() => /It is forgotten/.test(text()));
  assert.equal($('[aria-label="Conversation"]').value, 'other');
  assert.doesNotMatch(text(), /Answer a/);
});

test('a conversation that is chosen while another one is forgotten stays', async () => {
  let go;
  const { choose, button, text, $ } = await open({ conversation: ({ session }) => ({ items: [exchange(session)], earlier: 0, tokens: 1, cost: null }), forgetSession: () => new Promise(resolve => (go = () => resolve({ said: 'It is forgotten.' }))), sessions: () => ({ items: ['trip', 'other', 'third'] }) });
  await until(() => /Answer trip/.test(text()));
  button('Forget').click();
  await until(() => button('Really forget?'));
  button('Really forget?').click();
  choose('Conversation', 'third');
  await until(() => /Answer third/.test(text()));
  go();
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.equal($('[aria-label="Conversation"]').value, 'third');
  assert.match(text(), /Answer third/);
});

test('a question that waits for its turn is shown in its own conversation alone', async () => {
  const { box, choose, live, text, button } = await open({ run: () => new Promise(() => {}) });
  await until(() => /Answer a/.test(text()));
  type(box, 'Question b');
  press(box, 'Enter');
  await until(() => /waiting for its turn/.test(text()));
  choose('Conversation', 'other');
  await until(() => !/Answer a/.test(text()));
  assert.doesNotMatch(text(), /waiting for its turn|Question b/);
  live({ state: 'running', parts: [] });
  type(box, 'Meanwhile');
  await until(() => !button('Ask').disabled, 'it runs: another one may be asked');
  choose('Conversation', 'trip');
  await until(() => /Answer a/.test(text()));
  assert.doesNotMatch(text(), /waiting for its turn/);
});

test('a double click forgets no conversation', async () => {
  const { asked, button, text } = await open();
  await until(() => /Answer a/.test(text()));
  button('Forget').click();
  await until(() => button('Really forget?'));
  button('Really forget?').dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }));
  await new Promise(resolve => setTimeout(resolve));
  assert.ok(!asked.some(({ kind }) => kind === 'forgetSession'));
});

test('a model is found, tested and saved without a word typed; a key is stored by its name first', async () => {
  const none = { ...LOCAL, models: [], default: '', addresses: { openai: 'https://api.openai.com/v1' } };
  const entry = { provider: 'openai', base_url: 'http://127.0.0.1:1234/v1', model: 'small' };
  let isSaved = false;
  const { asked, button, text, choose, view, $ } = await open({
    models: () => (isSaved ? LOCAL : none),
    conversation: () => ({ items: [], earlier: 0, tokens: 0, cost: null }),
    findModels: () => ({ items: [{ place: 'LM Studio on port 1234', entry, models: ['small', 'large'] }], said: '' }),
    testModel: ({ entry: tried }) => ({ isOk: tried.model === 'large', said: `${tried.model} said ${EVIL}` }),
    httpSecret: () => ({ secrets: ['TOKEN', 'NEW'] }),
    saveModel: () => ((isSaved = true), { name: 'local', said: "Saved as 'local'." })
  });
  await until(() => button('Look for models'));
  assert.deepEqual([...new Set(asked.map(({ kind }) => kind))].sort(), ['conversation', 'models', 'sessions'], 'looking at it looks for nothing');
  button('Look for models').click();
  await until(() => button('LM Studio on port 1234')?.getAttribute('aria-pressed') === 'true');
  button('Test').click();
  await until(() => /small said <img/.test(text()));
  assert.equal($('.otx-models [role=status]').className, 'otx-error');
  choose('Model', 'large');
  button('Test').click();
  await until(() => /large said/.test(text()));
  assert.equal($('.otx-models [role=status]').className, 'otx-ok');
  const key = [...view.element.querySelectorAll('.otx-models select')].find(each => [...each.options].some(({ text: label }) => label === 'TOKEN'));
  key.value = key.options[key.options.length - 1].value;
  key.dispatchEvent(new Event('change', { bubbles: true }));
  await until(() => $('input[type=password]'));
  const fields = [...view.element.querySelectorAll('.otx-models input')];
  type(fields.find(each => each.placeholder === 'OPENAI_API_KEY'), 'NEW');
  type($('input[type=password]'), 'value');
  button('Save').click();
  await until(() => /Saved as 'local'\./.test(text()));
  const sent = kind => asked.filter(each => each.kind === kind).map(({ payload }) => payload);
  assert.deepEqual(sent('httpSecret'), [{ name: 'NEW', value: 'value', isOwn: true }]);
  assert.deepEqual(sent('saveModel'), [{ entry: { ...entry, model: 'large', key: 'NEW' }, inProject: false }]);
  await until(() => !$('.otx-models'));
});

const UNCHOSEN = { ...LOCAL, models: [], default: '', addresses: { openai: 'https://api.openai.com/v1' } };
const gate = () => {
  let go;
  const held = new Promise(resolve => (go = resolve));
  return { held, go };
};

test('what is filled in while models are looked for or listed stays', async () => {
  const [look, list] = [gate(), gate()];
  const found = { place: 'LM Studio', entry: { provider: 'openai', base_url: 'http://127.0.0.1:1234/v1' }, models: ['found'] };
  const { button, choose, $ } = await open({ models: UNCHOSEN, conversation: () => ({ items: [], earlier: 0, tokens: 0, cost: null }), findModels: () => look.held, modelNames: () => list.held });
  await until(() => button('Look for models'));
  button('Look for models').click();
  type($('[aria-label=Address]'), 'https://mine.test/v1');
  look.go({ items: [found], said: '' });
  await until(() => button('LM Studio'), 'what was found is offered');
  assert.equal($('[aria-label=Address]').value, 'https://mine.test/v1');
  assert.equal(button('LM Studio').getAttribute('aria-pressed'), 'false');
  button('List').click();
  choose('Kind', 'anthropic');
  list.go({ models: ['gpt'] });
  await until(() => button('List'));
  assert.equal($('[aria-label=Model]').value, '', 'models of another address');
});

test('what is tested and saved is what the form had when its button was pressed', async () => {
  const kept = gate();
  const { asked, button, choose, $ } = await open({ models: UNCHOSEN, conversation: () => ({ items: [], earlier: 0, tokens: 0, cost: null }), httpSecret: () => kept.held, saveModel: () => ({ name: 'local', said: 'Saved.' }) });
  await until(() => button('Save'));
  choose('Key', ' new');
  await until(() => $('[aria-label="Name of the key"]'));
  type($('[aria-label="Name of the key"]'), 'NEW');
  type($('[aria-label="Its value"]'), 'value');
  type($('[aria-label=Model]'), 'mine');
  button('Save').click();
  await until(() => asked.some(({ kind }) => kind === 'httpSecret'));
  type($('[aria-label=Model]'), 'mine-2');
  choose('Key', 'TOKEN');
  kept.go({ secrets: ['NEW'] });
  await until(() => asked.some(({ kind }) => kind === 'saveModel'));
  assert.deepEqual(asked.find(({ kind }) => kind === 'saveModel').payload.entry, { provider: 'openai', model: 'mine', key: 'NEW' });
});

test('a model that was saved takes no focus from a person who is elsewhere by then', async () => {
  const saving = gate();
  const { asked, button, text, $ } = await open({ models: UNCHOSEN, conversation: () => ({ items: [], earlier: 0, tokens: 0, cost: null }), saveModel: () => saving.held });
  await until(() => button('Save'));
  button('Save').click();
  await until(() => asked.some(({ kind }) => kind === 'saveModel'));
  const cell = document.body.appendChild(document.createElement('textarea'));
  cell.focus();
  saving.go({ name: 'local', said: 'Saved.' });
  await until(() => /Saved\./.test(text()) && !$('.otx-models'));
  assert.equal(document.activeElement, cell);
});

test('a question that is asked before the conversations are known is shown in its own', async () => {
  const known = gate();
  const { transport } = await transportOf({ models: () => LOCAL, sessions: () => known.held, conversation: () => ({ items: [], earlier: 0, tokens: 0, cost: null }) });
  const cells = [];
  const { element, load } = createAsk(transport, { onAsk: code => (cells.push(code), new Promise(() => {})), onStop() {} });
  document.body.replaceChildren(element);
  void load();
  await until(() => element.querySelector('textarea'));
  type(element.querySelector('textarea'), 'Early');
  press(element.querySelector('textarea'), 'Enter');
  assert.deepEqual(cells, ['%ask --session chat Early']);
  known.go({ items: ['trip'] });
  await until(() => element.querySelectorAll('[aria-label=Conversation] option').length === 2);
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.equal(element.querySelector('select[aria-label=Conversation]').value, 'chat');
  assert.match(element.textContent, /Early/);
});

test('what was forgotten is not told in a conversation that is chosen meanwhile', async () => {
  const first = gate();
  const { choose, button, text, $ } = await open({ conversation: ({ session }) => (session === 'other' ? first.held : { items: [exchange(session)], earlier: 0, tokens: 1, cost: null }), sessions: () => ({ items: ['other', 'trip', 'third'] }) });
  await until(() => $('select[aria-label=Conversation]').value === 'other');
  choose('Conversation', 'trip');
  await until(() => /Answer trip/.test(text()));
  button('Forget').click();
  await until(() => button('Really forget?'));
  button('Really forget?').click();
  await until(() => $('select[aria-label=Conversation]').value === 'other');
  choose('Conversation', 'third');
  await until(() => /Answer third/.test(text()));
  first.go({ items: [], earlier: 0, tokens: 0, cost: null });
  await new Promise(resolve => setTimeout(resolve, 20));
  assert.doesNotMatch(text(), /It is forgotten/);
});
