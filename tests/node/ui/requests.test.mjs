// The one way by which views ask: what is late, what fails, and what comes after the end; and the messages that a kernel
// sends by itself.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { Requests } = await ui('requests');
const { Transport } = await ui('transport');

/** A source whose replies are given by hand, in any order. */
function source() {
  const sent = [];
  const request = (kind, payload) => new Promise((resolve, reject) => sent.push({ kind, payload, resolve, reject: message => reject(new Error(message)) }));
  return { sent, requests: new Requests({ request }) };
}

const settled = () => new Promise(resolve => setTimeout(resolve));
const statuses = async replies => (await Promise.all(replies)).map(({ status }) => status);

test('of two requests only the later one counts, whichever reply comes first, and errors count alike', async () => {
  for (const order of [[0, 1], [1, 0]]) {
    for (const [first, second] of [['value', 'value'], ['error', 'value'], ['value', 'error'], ['error', 'error']]) {
      const { sent, requests } = source();
      const request = requests.latest('tool');
      const replies = [request.send({ name: 'a' }), request.send({ name: 'b' })];
      const kinds = [first, second];
      for (const at of order) {
        if (kinds[at] === 'value') sent[at].resolve(at);
        else sent[at].reject(`no ${at}`);
        await settled();
      }
      assert.deepEqual(await statuses(replies), ['late', second === 'value' ? 'ok' : 'failed']);
      assert.equal(request.value.value, second === 'value' ? 1 : null);
      assert.equal(request.failure.value, second === 'value' ? '' : 'no 1');
      assert.equal(request.isPending.value, false);
    }
  }
});

test('again sends the last payload, and a reply to an earlier sending is shown until the later one is there', async () => {
  const { sent, requests } = source();
  const request = requests.latest('servers');
  const replies = [request.again(), request.again(), request.again()];
  sent[1].resolve('second');
  await settled();
  assert.equal(request.value.value, 'second');
  assert.equal(request.isPending.value, true);
  sent[0].resolve('first');
  sent[2].reject('gone');
  assert.deepEqual(await statuses(replies), ['late', 'ok', 'failed']);
  assert.equal(request.value.value, 'second', 'what was there stays beside the message');
  assert.equal(request.failure.value, 'gone');
  const retry = request.again();
  sent[3].resolve('fourth');
  assert.deepEqual(await retry, { status: 'ok', value: 'fourth' });
  assert.equal(request.failure.value, '');
});

test('after the end nothing arrives, nothing is sent, and work of several steps stops at the next one', async () => {
  const { sent, requests } = source();
  const request = requests.latest('tool');
  const part = requests.part();
  const steps = [];
  const work = ask => ask('download').then(() => steps.push('part')).then(() => ask('part'));
  const replies = [request.send({}), requests.once('run'), part.once('cancel'), part.latest('open').again(), requests.onceOf(work), requests.latestOf((_, ask) => ask('values')).again()];
  requests.close();
  for (const each of sent) each.resolve(1);
  assert.deepEqual(await statuses(replies), replies.map(() => 'late'));
  assert.deepEqual(steps, []);
  assert.equal(request.value.value, null);
  const count = sent.length;
  const after = [request.send({}), requests.once('run'), part.once('run'), requests.part().once('run'), requests.latest('new').again()];
  assert.deepEqual(await statuses(after), after.map(() => 'late'));
  assert.equal(sent.length, count);
});

test('what is done counts each time; work that a later one replaces stops at its next step', async () => {
  const { sent, requests } = source();
  const replies = [requests.once('run', { n: 1 }), requests.once('run', { n: 2 })];
  sent[1].resolve('two');
  sent[0].reject('one');
  assert.deepEqual(await statuses(replies), ['failed', 'ok']);
  const request = requests.latestOf(async (n, ask) => [n, await ask('first'), await ask('second')]);
  const works = [request.send(1), request.send(2)];
  assert.deepEqual(sent.slice(2).map(({ kind }) => kind), ['first', 'first']);
  sent[2].resolve('a');
  sent[3].resolve('b');
  await settled();
  assert.deepEqual(sent.slice(4).map(({ kind }) => kind), ['second'], 'the first work asks nothing more');
  sent[4].resolve('c');
  assert.deepEqual(await statuses(works), ['late', 'ok']);
  assert.deepEqual(request.value.value, [2, 'b', 'c']);
});

test('the last state follows the last question, for any order of sendings and replies', async () => {
  let seed = 7;
  const random = n => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let turn = 0; turn < 300; turn += 1) {
    const { sent, requests } = source();
    const request = requests.latest('search');
    const open = [];
    let asked = 0;
    let isSound = true;
    request.value.subscribe(value => { isSound &&= value === null || value.query === asked; });
    for (let step = 0; step < 12; step += 1) {
      if (random(2) || !open.length) {
        if (random(3) || !asked) request.send({ query: (asked += 1) });
        else request.again();
        open.push(sent.length - 1);
      } else {
        const [at] = open.splice(random(open.length), 1);
        if (random(4)) sent[at].resolve({ query: sent[at].payload.query });
        else sent[at].reject(`${sent[at].payload.query}`);
        await Promise.resolve().then(() => {});
        await settled();
      }
    }
    const last = open.at(-1) === sent.length - 1;
    for (const at of open) sent[at].resolve({ query: sent[at].payload.query });
    await settled();
    assert.ok(isSound, `turn ${turn}: a reply to an older question was shown`);
    assert.equal(request.isPending.value, false);
    if (last) assert.equal(request.value.value.query, asked);
    if (request.failure.value) assert.equal(request.failure.value, String(asked));
  }
});

test('changes are told once for a burst, calls each time, the end once; and nobody who has gone is told', async () => {
  const transport = new Transport(() => {});
  const told = [];
  const stops = [transport.store.onChanged(() => told.push('changed')), transport.store.onCall(event => told.push(event.job)), transport.store.onClosed(reason => told.push(reason))];
  const gone = transport.store.onChanged(() => told.push('gone'));
  for (let n = 0; n < 3; n += 1) transport.receive({ event: 'changed' });
  transport.receive({ event: 'job', job: '1' });
  transport.receive({ event: 'questions', questions: [{ id: 'q' }] });
  transport.receive({ event: 'of a later version' });
  gone();
  await until(() => told.includes('changed'));
  transport.close('It was restarted.');
  transport.close('It was restarted.');
  assert.deepEqual(told, ['1', 'changed', 'It was restarted.']);
  assert.deepEqual(transport.store.questions.value, [{ id: 'q' }]);
  transport.store.onClosed(reason => told.push(`again: ${reason}`));
  assert.equal(told.at(-1), 'again: It was restarted.');
  for (const stop of stops) stop();
  transport.receive({ event: 'job', job: '2' });
  assert.equal(told.length, 4);
  assert.deepEqual((await new Requests(transport).once('tool')).status, 'failed');
});
