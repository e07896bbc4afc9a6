// The MCP servers: states with what can be done, a confirmed removal, a sign-in link that nobody opens for you.
import assert from 'node:assert/strict';
import test from 'node:test';
import { transportOf, ui, until } from './page.mjs';

const { drawInto } = await ui('parts');
const { createServers } = await ui('servers');
const SERVER = { name: 'time', type: 'stdio', state: 'connected', reason: '', address: 'uvx mcp-server-time', tools: ['time.now'], isSaved: true, signsIn: false };

/** The rows, and what the last action gave, as the panel has them. */
function drawn(transport) {
  const servers = createServers(transport, {});
  const element = document.createElement('div');
  const stop = drawInto(element, () => [servers.notice().text, ...servers.items().map(servers.row)]);
  transport.store.onChanged(() => void servers.load());
  return { ...servers, element, close: () => (servers.close(), stop()) };
}

async function open(answers) {
  const { transport, asked } = await transportOf(answers);
  const screen = drawn(transport);
  document.body.replaceChildren(screen.element);
  await screen.load();
  const button = name => [...screen.element.querySelectorAll('button')].find(each => each.textContent === name);
  return { screen, asked, button, text: () => screen.element.textContent, emit: event => transport.receive({ event }), transport };
}

test('a server shows its state, and the buttons that fit it', async () => {
  const servers = [SERVER, { ...SERVER, name: '<b>', state: 'failed', reason: 'It ended with <i>1</i>.', tools: [] }, { ...SERVER, name: 'linear', type: 'http', state: 'signed out', signsIn: true }];
  const { screen, text } = await open({ servers: () => ({ items: servers }) });
  const rows = [...screen.element.querySelectorAll('[role="listitem"]')];
  const labels = rows.map(row => [...row.querySelectorAll('button')].map(button => button.textContent).join(' '));
  assert.deepEqual(labels, ['time Restart Stop Logs Remove', '<b> Start Logs Remove', 'linear Sign in Start Remove']);
  assert.match(text(), /1 tool/);
  assert.equal(screen.element.querySelector('b, i'), null);
  screen.close();
});

test('why a server did not start is said once, in its row', async () => {
  const failed = { ...SERVER, state: 'failed', reason: 'It ended with status 1: no key.', tools: [] };
  const { screen, text, button } = await open({ servers: () => ({ items: [failed] }), server: () => { throw new Error(`The server 'time' did not start. ${failed.reason} See what it wrote.`); } });
  button('Start').click();
  await until(() => text().startsWith('time did not start.'));
  assert.equal(text().split('no key').length, 2);
  assert.equal(screen.element.querySelector('p.otx-error').textContent, failed.reason);
  screen.close();
});

test('a server that lacks a secret has a field for it, and is one to start once it is kept', async () => {
  const kept = [];
  const answers = {
    servers: () => ({ items: kept.length ? [{ ...SERVER, state: 'not started' }] : [{ name: 'time', lacks: ['TIME_KEY'] }] }),
    httpSecret: payload => (kept.push(payload), {})
  };
  const { screen, text, button } = await open(answers);
  assert.match(text(), /time.*needs a secret.*TIME_KEY/);
  const field = screen.element.querySelector('input');
  field.value = 'abc';
  field.dispatchEvent(new window.Event('input', { bubbles: true }));
  button('Save').click();
  await until(() => button('Start'));
  assert.deepEqual(kept, [{ name: 'TIME_KEY', value: 'abc' }]);
  screen.close();
});

test('a server that starts is neither to be started nor a fault, and the page shows that it is up when the kernel says so', async () => {
  const states = ['starting', 'connected'];
  const { screen, asked, text, button, emit } = await open({ servers: () => ({ items: [{ ...SERVER, state: states.length > 1 ? states.shift() : states[0], tools: [] }] }) });
  assert.match(text(), /starting/);
  assert.equal(button('Start'), undefined);
  assert.ok(button('Stop'));
  emit('changed');
  emit('changed');
  await until(() => button('Restart'));
  assert.equal(asked.filter(message => message.kind === 'servers').length, 2);
  screen.close();
});

test('a server is removed at the second click', async () => {
  const { screen, asked, button } = await open({ servers: () => ({ items: [SERVER] }), server: () => ({ said: 'time is removed.' }) });
  button('Remove').click();
  await until(() => button('Really remove?'));
  assert.equal(asked.some(message => message.kind === 'server'), false);
  button('Really remove?').click();
  await until(() => asked.some(message => message.kind === 'server'));
  assert.deepEqual(asked.find(message => message.kind === 'server').payload, { name: 'time', action: 'remove' });
  screen.close();
});

test('a double click removes no server', async () => {
  const { screen, asked, button } = await open({ servers: () => ({ items: [SERVER] }), server: () => ({ said: 'time is removed.' }) });
  button('Remove').click();
  await until(() => button('Really remove?'));
  button('Really remove?').dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 2 }));
  await new Promise(resolve => setTimeout(resolve));
  assert.equal(asked.some(message => message.kind === 'server'), false);
  assert.ok(button('Really remove?'));
  screen.close();
});

test('a double click restarts a server once, in the list and on its page', async t => {
  const { createServerPage } = await ui('serverPage');
  const { screen, asked, transport } = await open({ servers: () => ({ items: [SERVER] }), server: () => ({ said: 'It is restarted.' }), serverPage: () => ({ server: SERVER }), serverMessages: () => ({ rows: [] }) });
  const page = createServerPage(transport, 'time');
  t.after(() => (page.close(), screen.close()));
  for (const { element } of [screen, page]) {
    const button = () => [...element.querySelectorAll('button')].find(each => each.textContent === 'Restart');
    await until(button);
    for (const detail of [1, 2]) button().dispatchEvent(new MouseEvent('click', { bubbles: true, detail }));
    await until(() => /It is restarted\./.test(element.textContent));
  }
  assert.equal(asked.filter(({ kind }) => kind === 'server').length, 2);
});

test('a list that is loaded between the two clicks leaves the removal asked for, and the same button', async () => {
  const items = [SERVER];
  const { screen, button, asked } = await open({ servers: () => ({ items }), server: () => ({ said: 'time is removed.' }) });
  button('Remove').focus();
  button('Remove').click();
  await until(() => button('Really remove?'));
  const sure = button('Really remove?');
  items[0] = { ...SERVER, state: 'disconnected', reason: 'It ended.' };
  await screen.load();
  assert.match(screen.element.textContent, /It ended\./);
  assert.equal(button('Really remove?'), sure);
  assert.equal(document.activeElement, sure);
  sure.blur();
  await until(() => !button('Really remove?'));
  assert.equal(asked.some(message => message.kind === 'server'), false);
  screen.close();
});

test('a list that cannot be loaded says so beside what came of the action', async () => {
  let fails = false;
  const { screen, text, button } = await open({ servers: () => { if (fails) throw new Error('The kernel is busy.'); return { items: [SERVER] }; }, server: () => ((fails = true), { said: 'time is stopped.' }) });
  button('Stop').click();
  await until(() => /time is stopped\.\nThe kernel is busy\./.test(text()));
  fails = false;
  await screen.load();
  assert.match(text(), /time is stopped\./);
  assert.doesNotMatch(text(), /busy/);
  screen.close();
});

test('a sign-in shows the whole address; only an https or loopback one is a link', async () => {
  let url = 'https://auth.example/authorize?state=1';
  const { screen, button, text } = await open({ servers: () => ({ items: [{ ...SERVER, state: 'signed out', type: 'http' }] }), server: () => ({ url }) });
  button('Sign in').click();
  await until(() => screen.element.querySelector('a[href]'));
  assert.match(text(), /authorize\?state=1/);
  url = 'javascript:alert(1)';
  button('Sign in').click();
  await until(() => /javascript:alert/.test(text()));
  assert.equal(screen.element.querySelector('a[href]'), null);
  screen.close();
});

test('logs open and close', async () => {
  const { screen, button } = await open({ servers: () => ({ items: [SERVER] }), serverLogs: () => ({ text: 'line <one>' }) });
  button('Logs').click();
  await until(() => screen.element.querySelector('.otx-server-logs'));
  button('Logs').click();
  await until(() => !screen.element.querySelector('.otx-server-logs'));
  screen.close();
});

test('when the kernel is gone, the list says why and its buttons are off', async () => {
  const { screen, transport, text } = await open({ servers: () => ({ items: [SERVER] }) });
  transport.close('The kernel was restarted.');
  await Promise.allSettled([screen.load()]);
  screen.close();
  assert.match(text(), /The kernel was restarted\..*connected/);
  assert.deepEqual([...screen.element.querySelectorAll('button:not(:disabled)')].map(each => each.textContent), []);
});

test('the page of a server shows its state, what it offers and every message whole', async () => {
  const { createServerPage } = await ui('serverPage');
  const server = { name: 'srv', type: 'stdio', state: 'failed', reason: 'exit 1 <b>', address: 'python srv.py', tools: [], isSaved: false, signsIn: false, icon: '' };
  const rows = [{ number: 1, time: '10:00:00.000', way: '→', method: 'tools/call', id: '1', bytes: 5000, ms: null, message: '{"name": "<i>"' }, { number: 2, time: '10:00:00.010', way: '←', method: 'tools/call', id: '1', bytes: 20, ms: 10, message: '{"ok": 1}' }];
  const { transport, asked } = await transportOf({
    serverPage: () => ({ server, tools: [{ name: 'echo', description: 'Say it.' }], resources: [{ uri: 'a://b' }], templates: [{ uriTemplate: 'a://{x}' }], prompts: [{ name: 'greet', arguments: [{ name: 'who' }] }, { name: 'plain', arguments: [] }], reader: 'srv.read', promptTools: { greet: 'srv.greet', plain: 'srv.plain_prompt' } }),
    serverMessages: ({ after }) => ({ rows: rows.filter(row => row.number > after) }),
    serverMessage: () => ({ text: '{"whole": "<i>message</i>"}' }),
    server: () => ((server.state = 'connected'), { said: 'srv was started.' })
  });
  const called = [];
  const page = createServerPage(transport, 'srv', { onCall: tool => called.push(tool) });
  document.body.replaceChildren(page.element);
  const $ = selector => page.element.querySelector(selector);
  const button = label => [...page.element.querySelectorAll('button')].find(each => each.textContent === label);
  await until(() => button('Start again'));
  assert.match($('.otx-server-head').textContent, /failed.*exit 1 <b>/);
  assert.match($('.otx-offers').textContent, /echo.*Say it\./);
  button('Call').click();
  for (const label of ['Read a://b', 'Read a://{x}', 'Get greet', 'Get plain']) $(`[aria-label="${label}"]`).click();
  assert.deepEqual(called, [
    { name: 'srv.echo' },
    { name: 'srv.read', args: { uri: 'a://b' }, isRun: true },
    { name: 'srv.read', args: { uri: 'a://{x}' }, isRun: false },
    { name: 'srv.greet', args: {}, isRun: false },
    { name: 'srv.plain_prompt', args: {}, isRun: true }
  ]);
  await until(() => page.element.querySelectorAll('.otx-messages > li').length === 2);
  $('.otx-messages .otx-expand').click();
  await until(() => $('.otx-message-body pre'));
  assert.equal($('.otx-message-body pre').textContent, '{"whole": "<i>message</i>"}');
  assert.equal($('i'), null);
  const way = $('[aria-label="Direction"]');
  way.value = '←';
  way.dispatchEvent(new Event('change'));
  assert.equal(page.element.querySelectorAll('.otx-messages > li').length, 1);
  button('Start again').click();
  await until(() => button('Restart'));
  assert.deepEqual(asked.find(({ kind }) => kind === 'server').payload, { name: 'srv', action: 'start' });
  page.close();
});

/** Replies that wait until the test gives them: `replies[0](value)`. */
function held() {
  const replies = [];
  return Object.assign(() => new Promise(resolve => replies.push(resolve)), { replies });
}

const FAILED = { server: { ...SERVER, name: 'srv', state: 'failed', tools: [] }, instructions: 'Be brief.', tools: [{ name: 'echo' }], prompts: [] };

/** The page of a server that failed, and that starts when it is asked to. */
async function openPage(t, answers) {
  const { createServerPage } = await ui('serverPage');
  const { transport, asked } = await transportOf({ serverPage: () => FAILED, serverMessages: () => ({ rows: [] }), server: () => ({ said: 'srv was started.' }), ...answers });
  const page = createServerPage(transport, 'srv');
  t.after(page.close); // its timer would keep a test that fails from ending
  document.body.replaceChildren(page.element);
  const button = label => [...page.element.querySelectorAll('button')].find(each => each.textContent === label);
  return { page, button, asked, emit: event => transport.receive({ event }), text: () => page.element.textContent };
}

test('a message is shown once, also when two replies bring it and the older one is the last', async t => {
  const serverMessages = held();
  const { page, button, text } = await openPage(t, { serverMessages });
  await until(() => button('Start again'));
  button('Start again').click();
  await until(() => serverMessages.replies.length === 2);
  const rows = [1, 2, 3].map(number => ({ number, time: '', way: '→', method: `m${number}`, id: '', bytes: 1, ms: null, message: '{}' }));
  serverMessages.replies[1]({ rows });
  serverMessages.replies[0]({ rows: rows.slice(0, 2) });
  await until(() => /srv was started/.test(text()));
  assert.deepEqual([...page.element.querySelectorAll('.otx-messages > li strong')].map(each => each.textContent), ['m1', 'm2', 'm3']);
});

test('the page draws again only the part that changed: what was opened stays open, a button stays the same', async t => {
  const pages = [FAILED, { ...FAILED, prompts: [{ name: 'greet' }] }];
  const { page, button, asked, emit, text } = await openPage(t, { serverPage: () => (pages.length > 1 ? pages.shift() : pages[0]) });
  await until(() => button('Start again'));
  const start = button('Start again');
  const details = [...page.element.querySelectorAll('details')];
  for (const each of details) each.open = true;
  start.focus();
  emit('changed');
  emit('changed');
  await until(() => /Prompts 1/.test(text()));
  assert.deepEqual(details.map(each => each.isConnected && each.open), [true, true]);
  assert.equal(document.activeElement, start);
  assert.equal(asked.filter(({ kind }) => kind === 'serverPage').length, 2);
});

test('an older reply is not drawn over a newer one: the page', async t => {
  const serverPage = held();
  const { button, emit, text } = await openPage(t, { serverPage });
  serverPage.replies[0](FAILED);
  await until(() => button('Start again'));
  assert.match(text(), /Its prompts are known once it is connected\./);
  emit('changed');
  await until(() => serverPage.replies.length === 2);
  button('Start again').click();
  await until(() => serverPage.replies.length === 3);
  serverPage.replies[2]({ ...FAILED, server: { ...FAILED.server, state: 'connected' } });
  serverPage.replies[1](FAILED);
  await until(() => /srv was started/.test(text()));
  assert.ok(button('Restart'));
  assert.match(text(), /It lists no prompts\./);
});

test('an older reply is not drawn over a newer one: the list', async () => {
  const servers = held();
  const { transport } = await transportOf({ servers });
  const screen = drawn(transport);
  const loads = [screen.load(), screen.load()];
  servers.replies[1]({ items: [SERVER] });
  servers.replies[0]({ items: [] });
  await Promise.all(loads);
  assert.equal(screen.element.querySelectorAll('[role="listitem"]').length, 1);
  screen.close();
});
