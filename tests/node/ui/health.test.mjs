// The health screen without a kernel: the states, one line for each problem, details, and what its buttons do.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { createHealth } = await ui('health');

const AT_LINE = { where: '/home/me/p/.onetool/onetool.yaml:12', message: "Unknown key 'tols'.", hint: 'Did you mean tools?', action: { kind: 'open', label: 'Open', path: '/home/me/p/.onetool/onetool.yaml', line: 12 } };
const SERVER = { where: '/home/me/p/.onetool/onetool.yaml:3', message: "The server 'git': it stopped.", hint: 'Look at its logs.', action: { kind: 'server', label: 'Restart', server: 'git', action: 'restart' } };
const TRUST = { where: '/home/me/p', message: 'This project is not trusted.', hint: 'To trust it, run: %tool trust', action: { kind: 'trust', label: 'Trust' } };
const ALIAS = { where: "alias 'lost'", message: '<img src=x>', hint: '', action: null };

const MISSING = { where: 'geo.map', message: "needs the cli 'gdal'.", hint: 'apt install gdal-bin', action: null };
const report = (problems, servers = {}) => ({ tools: 22, servers, problems });

function open(problems, checked = async () => ({ missing: [MISSING] })) {
  const done = [];
  const note = name => (...args) => done.push([name, ...args]);
  const request = async (kind, { where } = {}) => {
    done.push([kind, where]);
    if (kind === 'health') return checked();
    return { first: 11, line: 12, lines: ['servers:', 'tols: []'] };
  };
  const screen = createHealth({ source: { request }, onRefresh: note('refresh'), onTrust: note('trust'), onServer: note('server'), onOpen: note('open') });
  document.body.replaceChildren(screen.element);
  screen.draw(report(problems));
  const button = name => [...screen.element.querySelectorAll('button')].find(each => (each.getAttribute('aria-label') ?? each.textContent).startsWith(name));
  return { screen, done, button, rows: () => [...screen.element.querySelectorAll('.otx-problem')] };
}

test('a problem is one line; its details and the lines of its file unfold', async () => {
  const { screen, done, rows } = open([AT_LINE, ALIAS]);
  const [toggle] = rows()[0].querySelectorAll('button');
  const details = rows()[0].querySelector('.otx-problem-details');
  assert.equal(toggle.textContent, "onetool.yaml:12 Unknown key 'tols'.");
  assert.ok(details.hidden);
  toggle.click();
  await until(() => !details.hidden);
  assert.match(details.textContent, /Did you mean tools\?/);
  await until(() => details.querySelector('.otx-line.otx-current')?.textContent === '12tols: []');
  assert.deepEqual(done, [['problemLines', AT_LINE.where]]);
  screen.draw(report([AT_LINE]));
  assert.equal(rows().length, 1);
  assert.equal(toggle.getAttribute('aria-expanded'), 'true', 'a row that stays is not drawn anew');
  screen.draw(report([]));
  assert.match(screen.element.textContent, /No problems found/);
  screen.draw(null);
  assert.match(screen.element.textContent, /once onetool_ipy is loaded/);
});

test('each button does what the hint says, and a problem for a person alone has none', () => {
  const { done, button, rows } = open([AT_LINE, SERVER, TRUST, ALIAS]);
  button('Open').click();
  button('Restart').click();
  button('Trust').click();
  button('Refresh').click();
  assert.deepEqual(done.map(each => each.slice(0, 3)).slice(0, 3), [['open', AT_LINE.action.path, 12], ['server', 'git', 'restart'], ['trust']]);
  assert.equal(done[3][0], 'refresh');
  assert.equal(rows()[3].querySelectorAll('button').length, 1);
  assert.equal(rows()[3].querySelector('img'), null);
});

test('the state of the tools and servers is told at once, and nothing is asked of the kernel for it', () => {
  const { screen, done } = open([]);
  const lines = () => [...screen.element.querySelectorAll('.otx-states > li')].map(each => [each.firstChild.className.split('-').pop(), each.lastChild.textContent]);
  assert.deepEqual(lines(), [['ok', '22 tools'], ['idle', 'No MCP servers'], ['ok', 'No problems found']]);
  screen.draw(report([SERVER], { git: { state: 'failed' }, a: { state: 'connected' }, b: { state: 'connected' } }));
  assert.deepEqual(lines(), [['ok', '22 tools'], ['failed', '3 servers: 1 failed, 2 connected'], ['failed', '1 problem']]);
  assert.deepEqual(done, []);
});

test('a check tells what tools lack, and why it failed when the kernel is gone', async () => {
  const { screen, done, button, rows } = open([ALIAS]);
  button('Check now').click();
  assert.equal(button('Check now').getAttribute('aria-disabled'), 'true', 'one check at a time');
  assert.match(screen.element.textContent, /Starting and testing the servers/);
  await until(() => /Checked just now/.test(screen.element.textContent));
  assert.deepEqual(done.map(each => each[0]), ['health', 'refresh']);
  assert.match(rows()[1].textContent, /geo\.map needs the cli 'gdal'/);
  screen.draw(report([ALIAS]));
  assert.equal(rows().length, 2, 'the next report does not take it away');

  const gone = open([], async () => { throw new Error('The kernel was restarted.'); });
  gone.button('Check now').click();
  await until(() => /The kernel was restarted/.test(gone.screen.element.textContent));
  assert.equal(gone.button('Check now').getAttribute('aria-disabled'), 'false');
});

test('a report that arrives during a check leaves what the check says', async () => {
  let finish;
  const { screen, button } = open([ALIAS], () => new Promise(resolve => { finish = resolve; }));
  button('Check now').click();
  screen.draw(report([ALIAS, SERVER]));
  assert.match(screen.element.textContent, /Starting and testing the servers/);
  finish({ missing: [] });
  await until(() => /Checked just now/.test(screen.element.textContent));
  screen.draw(null);
  screen.draw(report([ALIAS]));
  assert.doesNotMatch(screen.element.textContent, /Checked just now|once onetool_ipy is loaded/);
});

test('a secret that is missing has a field; once it is kept the report is asked for again', async () => {
  const { screen, done, button, rows } = open([{ where: 'shop.get@1 and 2 more', message: "the secret 'KEY' is missing.", hint: '', action: { kind: 'secret', label: 'Save', name: 'KEY' } }]);
  const field = rows()[0].querySelector('[type="password"]');
  field.value = 'abc';
  field.dispatchEvent(new Event('input', { bubbles: true }));
  button('Save KEY').click();
  await until(() => done.some(([kind]) => kind === 'refresh'));
  assert.ok(done.some(([kind]) => kind === 'httpSecret'));
  screen.close();
});
