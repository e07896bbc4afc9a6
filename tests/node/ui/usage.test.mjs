// The usage screen without a kernel: two charts that fit young and older data, and the failed calls by message.
import assert from 'node:assert/strict';
import test from 'node:test';
import { transportOf, ui, until } from './page.mjs';

const { axisMarks, createUsage } = await ui('usage');

const step = at => ({ label: `10:0${at}`, ok: 30, failed: 9, p50: 5, p95: 39 });
const usage = steps => ({
  period: 'week', tool: '', note: 'Calls of ot are left out.', known: ['shop.order'], totals: [{ label: 'calls', value: '39' }],
  series: Array.from({ length: steps }, (_, at) => step(at)),
  tools: [{ tool: 'shop.order', calls: 39, failures: 9, avg_ms: 10, p95_ms: 39, last_called: '10:05:00' }],
  failures: [{ message: 'no such <b>street</b>', tool: 'shop.order', calls: 9, last_called: '10:05:00' }]
});

async function open(steps, more = {}) {
  const { transport } = await transportOf({ usage: () => ({ ...usage(steps), ...more }) });
  const { element, close } = createUsage(transport);
  document.body.replaceChildren(element);
  assert.match(element.textContent, /Loading …/);
  await until(() => !/Loading/.test(element.textContent));
  return { element, transport, close };
}

test('failures stand at the foot of the columns, and the axis has round numbers', async () => {
  const { element, close } = await open(6);
  const [calls, latency] = element.querySelectorAll('figure');
  const [failed, ok] = calls.querySelectorAll('rect');
  assert.equal(failed.getAttribute('class'), 'otx-bar-failed');
  assert.equal(Number(failed.getAttribute('y')) + Number(failed.getAttribute('height')), 120);
  assert.equal(Number(ok.getAttribute('y')) + Number(ok.getAttribute('height')), Number(failed.getAttribute('y')));
  const marks = figure => [...figure.querySelectorAll('.otx-axis')].map(text => text.textContent).slice(0, 3);
  assert.deepEqual(marks(calls), ['0', '20', '40']);
  assert.deepEqual(marks(latency), ['0 ms', '20 ms', '40 ms']);
  assert.equal(latency.querySelectorAll('.otx-line-p50').length, 6);
  assert.equal(element.querySelectorAll('circle').length, 0);
  close();
});

test('few steps show the latency by tool, and failures are grouped by message', async () => {
  const { element, close } = await open(2);
  const [, latency] = element.querySelectorAll('figure');
  assert.match(latency.textContent, /Latency by tool.*shop\.order10 ms \/ 39 ms/);
  const failed = element.querySelector('.otx-usage-failed');
  assert.match(element.textContent, /Calls of ot are left out/);
  assert.match(failed.textContent, /no such <b>street<\/b>shop\.order9/);
  assert.equal(failed.querySelector('b'), null);
  assert.equal(failed.querySelectorAll('td wbr').length, 1); // a long name breaks between its words
  close();
});

test('the marks of an axis are those of the report', () => {
  assert.deepEqual([0.088, 3, 34, 1200, 0].map(top => axisMarks(top)), [[0, 0.05, 0.1], [0, 1, 2, 3], [0, 20, 40], [0, 500, 1000, 1500], [0, 1]]);
  assert.deepEqual(axisMarks(1, true), [0, 1]);
});

test('before the first call it says what to do; a period without calls says so', async () => {
  const none = { series: [], tools: [], failures: [] };
  const first = await open(0, { ...none, known: [] });
  assert.match(first.element.textContent, /No calls yet\. Run a tool/);
  const later = await open(0, none);
  assert.match(later.element.textContent, /No calls in this period\./);
  later.transport.close('The kernel was restarted.');
  await until(() => later.element.querySelector('[role=alert]').textContent === 'The kernel was restarted.');
  first.close();
  later.close();
});
