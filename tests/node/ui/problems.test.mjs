// The problems screen without a kernel: one line each, details, and what its buttons do.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { createProblems } = await ui('problems');

const AT_LINE = { where: '/home/me/p/.onetool/onetool.yaml:12', message: "Unknown key 'tols'.", hint: 'Did you mean tools?', action: { kind: 'open', label: 'Open', path: '/home/me/p/.onetool/onetool.yaml', line: 12 } };
const SERVER = { where: '/home/me/p/.onetool/onetool.yaml:3', message: "The server 'git': it stopped.", hint: 'Look at its logs.', action: { kind: 'server', label: 'Restart', server: 'git', action: 'restart' } };
const TRUST = { where: '/home/me/p', message: 'This project is not trusted.', hint: 'To trust it, run: %tool trust', action: { kind: 'trust', label: 'Trust' } };
const ALIAS = { where: "alias 'lost'", message: '<img src=x>', hint: '', action: null };

function open(problems) {
  const done = [];
  const note = name => (...args) => done.push([name, ...args]);
  const request = async (kind, { where }) => {
    done.push([kind, where]);
    return { first: 11, line: 12, lines: ['servers:', 'tols: []'] };
  };
  const screen = createProblems({ request, onRefresh: note('refresh'), onTrust: note('trust'), onServer: note('server'), onOpen: note('open') });
  document.body.replaceChildren(screen.element);
  screen.draw(problems);
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
  assert.ok(!details.hidden);
  assert.match(details.textContent, /Did you mean tools\?/);
  await until(() => details.querySelector('.otx-line.otx-current')?.textContent === '12tols: []');
  assert.deepEqual(done, [['problemLines', AT_LINE.where]]);
  screen.draw([AT_LINE]);
  assert.equal(rows().length, 1);
  assert.equal(toggle.getAttribute('aria-expanded'), 'true', 'a row that stays is not drawn anew');
  screen.draw([]);
  assert.match(screen.element.textContent, /No problems found\./);
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
