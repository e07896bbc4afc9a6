// Questions: which click sends what, hostile text as text, and the values of a form.
import assert from 'node:assert/strict';
import test from 'node:test';
import { type, ui, until } from './page.mjs';

const { createQuestion } = await ui('question');
const { keepKeys } = await ui('dom');

const EVIL = '<img src=x onerror=alert(1)>\u202eevil';

function draw(fields, reply = () => ({ errors: [] })) {
  const sent = [];
  const question = { id: '1', asker: 'The model', text: '', url: '', form: null, trust: null, calls: [], details: [], yes: '', no: 'No', ...fields };
  const { element } = createQuestion(question, async given => {
    sent.push(given);
    return reply(given);
  });
  document.body.replaceChildren(element);
  const button = label => [...element.querySelectorAll('button, a')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === label);
  return { element, sent, press: label => button(label).click(), button };
}

const call = (tool, args = []) => ({ tool, summary: '', badges: [], note: '', args });
const three = [call('a.one'), call('a.two'), call('a.three')];

test('one call has three buttons, and each sends its own answer', () => {
  for (const [label, wanted] of [['Run', { action: 'accept', content: { run: [1], always: false } }], ['Always run a.one', { action: 'accept', content: { run: [1], always: true } }], ['Skip', { action: 'decline', content: {} }]]) {
    const { element, sent, press } = draw({ calls: [call('a.one')] });
    assert.deepEqual([...element.querySelectorAll('button')].map(each => each.textContent), ['Run', 'Always run a.one', 'Skip']);
    press(label);
    assert.deepEqual(sent, [wanted]);
  }
});

test('a question that is asked each time names its asker and offers no always', () => {
  const { element, sent, press } = draw({ asker: "Server 'shop'", text: 'wants to use your model.', calls: [call('your model')], eachTime: true });
  assert.deepEqual([...element.querySelectorAll('button')].map(each => each.textContent), ['Run', 'Skip']);
  assert.match(element.textContent, /^Server 'shop' wants to use your model\./);
  assert.doesNotMatch(element.textContent, /always/i);
  press('Run');
  assert.deepEqual(sent, [{ action: 'accept', content: { run: [1], always: false } }]);
});

test('calls are decided one by one; the answer is sent with the last, or by skipping the rest', () => {
  const each = draw({ calls: three });
  each.press('Run a.two');
  each.press('Skip a.one');
  assert.deepEqual(each.sent, []);
  each.press('Run a.three');
  assert.deepEqual(each.sent, [{ action: 'accept', content: { run: [2, 3], always: false } }]);
  const rest = draw({ calls: three });
  rest.press('Run a.two');
  rest.press('Run a.two');
  rest.press('Skip a.two');
  rest.press('Skip the rest');
  assert.deepEqual(rest.sent, [{ action: 'decline', content: {} }]);
});

test('a decision is shown in every drawing of the question', () => {
  const question = { id: '1', asker: 'The model', text: '', url: '', form: null, trust: null, calls: three, details: [], yes: '', no: 'No' };
  const sent = [];
  const [cell, panel] = [0, 1].map(() => createQuestion(question, async answer => sent.push(answer) && { errors: [] }).element);
  const press = (element, label) => [...element.querySelectorAll('button')].find(each => (each.getAttribute('aria-label') ?? each.textContent) === label).click();
  press(cell, 'Run a.two');
  assert.match(panel.querySelectorAll('li')[1].textContent, /will run/);
  press(panel, 'Skip a.one');
  assert.match(cell.querySelectorAll('li')[0].textContent, /will be skipped/);
  press(cell, 'Skip the rest');
  assert.deepEqual(sent, [{ action: 'accept', content: { run: [2], always: false } }]);
});

test('of two drawings of a question one sends its answer; after a refusal either can answer again', async () => {
  const question = { id: '1', asker: 'The model', text: '', url: '', form: null, trust: null, calls: three, details: [], yes: '', no: 'No' };
  const sent = [];
  const answers = [Promise.reject(new Error('The kernel is busy.')), Promise.resolve({ errors: [] })];
  const [cell, panel] = [0, 1].map(() => createQuestion(question, async answer => (sent.push(answer.action), answers[sent.length - 1])).element);
  const button = (element, label) => [...element.querySelectorAll('button')].find(each => each.textContent === label);
  button(cell, 'Run all').click();
  button(panel, 'Skip all').click();
  assert.deepEqual(sent, ['accept']);
  const isBusy = () => button(panel, 'Skip all').getAttribute('aria-disabled') === 'true';
  assert.ok(isBusy());
  await until(() => !isBusy());
  assert.match(cell.textContent, /The kernel is busy\./);
  button(panel, 'Skip all').click();
  assert.deepEqual(sent, ['accept', 'decline']);
});

test('the question speaks of calls, says what always covers, and makes no button the main one', () => {
  const { element } = draw({ calls: [call('a.one'), call('a.one'), call('b.two')] });
  assert.match(element.textContent, /The model wants to make 3 calls that may change something/);
  assert.match(element.textContent, /Always: every later call of a\.one and b\.two in this session, with any arguments/);
  assert.equal(element.querySelector('.otx-run'), null);
  const mixed = draw({ calls: [{ ...call('web.find'), sends: 'search.example.com' }, call('b.two')] });
  assert.match(mixed.element.textContent, /make 2 calls that may change something, or send your data to search\.example\.com/);
  assert.match(draw({ calls: [{ ...call('a.one'), badges: ['destructive'] }] }).button('Run').className, /otx-failed/);
});

test('an answer is sent once; after a failure one can answer again', async () => {
  const { element, sent, press, button } = draw({ calls: three }, () => {
    throw new Error('This question is over.');
  });
  press('Run all');
  press('Run all');
  assert.equal(sent.length, 1);
  await until(() => button('Run all').getAttribute('aria-disabled') !== 'true');
  assert.match(element.textContent, /This question is over\./);
});

test('hostile text is text, and every argument is there with its whole value', async () => {
  const long = 'x'.repeat(250);
  const { element, press } = draw({ asker: EVIL, text: EVIL, calls: [call(EVIL, [{ name: EVIL, text: EVIL }, { name: 'long', text: long }])] });
  assert.equal(element.querySelectorAll('img').length, 0);
  assert.ok(!element.textContent.includes('\u202e'));
  assert.ok(element.textContent.includes('\\u202e'));
  assert.ok(!element.textContent.includes(long));
  press('50 more characters of long');
  await until(() => element.textContent.includes(long));
});

test('keys pressed in a question do not reach the notebook', () => {
  const { element } = draw({ calls: three });
  const cell = document.body.appendChild(document.createElement('div'));
  keepKeys(cell); // as the output of a cell does
  cell.append(element);
  let heard = 0;
  document.body.addEventListener('keydown', () => (heard += 1));
  element.querySelector('button').dispatchEvent(new window.KeyboardEvent('keydown', { key: 'd', bubbles: true }));
  assert.equal(heard, 0);
});

test('an address is shown whole, and its link is the consent', () => {
  const url = 'https://shop.example/a?b=c#d';
  const { element, sent, button, press } = draw({ url });
  assert.equal(element.querySelector('code').textContent, url);
  assert.equal(element.querySelector('strong + p, code strong').textContent, 'shop.example');
  assert.equal(button('Open this address').getAttribute('rel'), 'noopener noreferrer');
  press('Cancel');
  assert.deepEqual(sent, [{ action: 'cancel', content: {} }]);
});

test('an address that no browser opens is text, and can be declined', () => {
  for (const url of ['https://shop.example:99999/pay', 'https://256.256.256.256/', 'nonsense', 'javascript:alert(1)']) {
    const { element, sent, button, press } = draw({ url });
    assert.equal(element.querySelector('code').textContent, url);
    assert.equal(button('Open this address'), undefined);
    assert.match(element.textContent, /No browser opens this address\./);
    press('Decline');
    assert.deepEqual(sent, [{ action: 'decline', content: {} }]);
  }
});

test('a host is shown as it was written', () => {
  const { element } = draw({ url: 'https://Shop.Example:443/a' });
  assert.equal(element.querySelector('code').textContent, 'https://Shop.Example:443/a');
  assert.equal(element.querySelector('code strong').textContent, 'Shop.Example:443');
});

const FORM = {
  type: 'object',
  required: ['mail'],
  properties: {
    mail: { type: 'string', format: 'email', title: 'E-mail' },
    count: { type: 'integer', default: 2 },
    gift: { type: 'boolean', default: true },
    size: { type: 'string', oneOf: [{ const: 's', title: 'Small' }, { const: 'l', title: 'Large' }] },
    extras: { type: 'array', items: { enum: ['milk', 'sugar'], enumNames: ['Milk', 'Sugar'] } }
  }
};

test('a form sends its values as their types, and shows errors at their fields', async () => {
  const errors = [{ pointer: '/mail', message: "field 'mail': 'x' is not a valid email" }, { pointer: '/count', message: 'too large' }];
  const { element, sent, press } = draw({ form: FORM }, () => ({ errors }));
  const [mail, count] = element.querySelectorAll('input');
  assert.equal(element.querySelector(`label[for="${mail.id}"]`).textContent, 'E-mail*');
  type(mail, 'x');
  type(count, '12345678901234567890');
  element.querySelector('select').value = 'l';
  element.querySelector('input[value="milk"]').checked = true;
  press('Send');
  await until(() => mail.getAttribute('aria-invalid') === 'true');
  assert.deepEqual(sent, [{ action: 'accept', content: { mail: 'x', count: '12345678901234567890', gift: true, size: 'l', extras: ['milk'] } }]);
  assert.equal(document.getElementById(mail.getAttribute('aria-describedby')).textContent, "'x' is not a valid email");
  assert.equal(document.activeElement, mail);
  assert.equal(mail.value, 'x');
});

test('a required field that is empty says so', async () => {
  const { element, sent, press } = draw({ form: FORM }, () => ({ errors: [{ pointer: '', message: "'mail' is missing" }] }));
  press('Send');
  await until(() => element.querySelector('[aria-invalid="true"]'));
  assert.deepEqual(sent[0].content, { count: 2, gift: true });
  assert.match(element.textContent, /This field is required\./);
});

test('a yes or a no has its own words, and shows what it is about as text', async () => {
  const long = 'x'.repeat(1300);
  for (const [label, action] of [['Add', 'accept'], ['No', 'decline']]) {
    const { element, sent, press } = draw({ asker: '%tool', text: `Add ${EVIL}?`, details: [EVIL, long], yes: 'Add' });
    assert.deepEqual([...element.querySelectorAll('.otx-question-buttons button')].map(each => each.textContent), ['Add', 'No']);
    assert.equal(document.getElementById(element.getAttribute('aria-labelledby')).textContent, 'Add <img src=x onerror=alert(1)>\\u202eevil?');
    assert.equal(element.querySelectorAll('img').length, 0);
    assert.ok(!element.textContent.includes('\u202e') && !element.textContent.includes(long));
    press('300 more characters of line 2');
    await until(() => element.textContent.includes(long));
    assert.deepEqual(sent, []);
    press(label);
    press('Add');
    assert.deepEqual(sent, [{ action, content: {} }]);
  }
});

test('a secret is typed into a password field that no browser fills in', () => {
  const schema = { type: 'object', required: ['value'], properties: { value: { type: 'string', format: 'password', title: 'KEY' } } };
  const { element, sent, press } = draw({ text: 'It needs KEY.', form: schema, yes: 'Go on', no: 'Cancel' });
  const field = element.querySelector('input');
  assert.deepEqual([field.type, field.getAttribute('autocomplete'), field.value], ['password', 'new-password', '']);
  assert.deepEqual([...element.querySelectorAll('button')].map(each => each.textContent), ['Go on', 'Cancel']);
  type(field, 's3cret');
  press('Go on');
  assert.deepEqual(sent, [{ action: 'accept', content: { value: 's3cret' } }]);
  assert.ok(!element.outerHTML.includes('s3cret'));
});

test('the trust question has two buttons', () => {
  const found = { folder: '/p', packFiles: ['a.py'], parts: [], httpTools: 0, hosts: [], snippets: [], part: '' };
  const { sent, press } = draw({ trust: found });
  press('Trust this project');
  assert.deepEqual(sent, [{ action: 'accept', content: {} }]);
});

const writes = count => Array.from({ length: count }, (_, at) => call(`a.w${at + 1}`));
const programOf = (calls, program = 'import a') => ({ asker: 'The program', text: 'The program wants to make writes.', program, calls, details: [] });
const tick = (element, label) => [...element.querySelectorAll('input')].find(each => each.getAttribute('aria-label') === label).click();

test('one button runs the chosen writes of a program, and says how many', () => {
  const { element, sent, press } = draw(programOf(writes(6)));
  const labels = () => [...element.querySelectorAll('.otx-question-buttons button')].map(each => each.textContent);
  assert.deepEqual(labels(), ['Run 6 of 6', 'No']);
  tick(element, 'Run 2. a.w2');
  assert.deepEqual(labels(), ['Run 5 of 6', 'No']);
  press('Run 5 of 6');
  assert.deepEqual(sent, [{ action: 'accept', content: { run: [1, 3, 4, 5, 6], always: false } }]);
});

test('without a chosen write nothing can be run, and one write has a plain button', () => {
  const none = draw(programOf(writes(2)));
  tick(none.element, 'Run 1. a.w1');
  tick(none.element, 'Run 2. a.w2');
  assert.equal(none.button('Run 0 of 2').disabled, true);
  none.press('No');
  assert.deepEqual(none.sent, [{ action: 'decline', content: {} }]);
  const one = draw(programOf(writes(1)));
  one.press('Run');
  assert.deepEqual(one.sent, [{ action: 'accept', content: { run: [1], always: false } }]);
});

test('after a refused answer a program without a chosen write can still not be run', async () => {
  const { element, press, button } = draw(programOf(writes(1)), () => { throw new Error('Not now.'); });
  tick(element, 'Run 1. a.w1');
  press('No');
  await until(() => /Not now\./.test(element.textContent) && button('No').getAttribute('aria-disabled') !== 'true');
  assert.equal(button('Run').disabled, true);
});

test('writes that are not in the table are chosen together', () => {
  const { element, sent, press } = draw(programOf(writes(50)));
  assert.equal(element.querySelectorAll('tr').length, 21);
  tick(element, 'Run 3. a.w3');
  tick(element, 'Run 21 to 50');
  press('Run 19 of 50');
  assert.deepEqual(sent[0].content.run, Array.from({ length: 20 }, (_, at) => at + 1).filter(number => number !== 3));
});

test('a choice is shown in every drawing of the question', () => {
  const question = { id: '1', url: '', form: null, trust: null, yes: '', no: 'No', ...programOf(writes(3)) };
  const [cell, panel] = [0, 1].map(() => createQuestion(question, async () => ({ errors: [] })).element);
  document.body.replaceChildren(cell, panel);
  tick(cell, 'Run 2. a.w2');
  assert.equal([...panel.querySelectorAll('input')][1].checked, false);
  assert.match(panel.textContent, /Run 2 of 3/);
});

test('a line of a program ends where a line of Python ends', () => {
  const { element } = draw(programOf(writes(1), '# harmless\ra.delete()\r\nb = 1'));
  assert.deepEqual([...element.querySelectorAll('pre div')].map(each => each.textContent.trim()), ['# harmless', 'a.delete()', 'b = 1']);
});

test('a question about data that would leave names the place, and sends, allows it for this ask, or refuses', () => {
  const sending = { calls: [{ ...call('web.search'), note: 'would send to a.example: 2 values' }], places: ['a.example'], offersAlways: true };
  const rest = 'Send to a.example for the rest of this ask';
  for (const [label, wanted] of [['Send', { action: 'accept', content: { run: [1], always: false } }], [rest, { action: 'accept', content: { run: [1], always: true } }], ['No', { action: 'decline', content: {} }]]) {
    const { element, sent, press } = draw(sending);
    assert.deepEqual([...element.querySelectorAll('button')].map(each => each.textContent), ['Send', rest, 'No']);
    assert.match(element.textContent, /^The model wants to send your data to a\.example/);
    assert.match(element.textContent, /would send to a\.example: 2 values/);
    press(label);
    assert.deepEqual(sent, [wanted]);
  }
});

test('a question about data and about changes at once offers no always', () => {
  const { element } = draw({ calls: three, places: [], offersAlways: false });
  assert.deepEqual([...element.querySelectorAll('.otx-question-buttons button')].map(each => each.textContent), ['Run all', 'Skip all']);
});
