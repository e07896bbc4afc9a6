// The usage screen: totals, calls over time with their failures, latency, failed calls by message and the tools, for a
// period and one tool or all. The kernel chooses the steps in time that suit the calls; `render/report.py` draws alike.
import { fill, h, keepFocus, show, svg } from './dom.js';
import { duration, number } from './format.js';

const CHART_WIDTH = 360;
const CHART_HEIGHT = 120;
const AXIS = 44; // room for the numbers of the axis
const FEW_STEPS = 5;
const PERIODS = [['day', '24 hours'], ['week', '7 days'], ['month', '30 days'], ['all', 'All time']];
const NO_CALLS = 'No calls yet. Run a tool on its page, or write %tool time.now in a cell, then press Refresh.';

/** Returns `{element, load(), close()}`. */
export function createUsage(transport, { period = 'week', tool = '', since = '' } = {}) {
  const query = { period, tool, since };
  let loads = 0;
  const notice = show(h('div.otx-notice', { role: 'alert' }), false);
  const periods = h('select.otx-input', { 'aria-label': 'Period', onchange: () => load({ period: periods.value, since: '' }) }, PERIODS.map(([value, title]) => h('option', { value }, title)));
  const tools = h('select.otx-input', { 'aria-label': 'Tool', onchange: () => load({ tool: tools.value }) }, h('option', { value: '' }, 'All tools'));
  const totals = h('div.otx-totals');
  const charts = h('div.otx-charts');
  const failed = h('div.otx-scroll.otx-usage-table.otx-usage-failed', { tabindex: '0', role: 'group', 'aria-label': 'Failed calls by message' });
  const perTool = h('div.otx-scroll.otx-usage-table', { tabindex: '0', role: 'group', 'aria-label': 'Per tool', hidden: true });
  const none = h('p.otx-muted.otx-note', null, 'Loading …');
  const refresh = h('button.otx-small', { type: 'button', onclick: () => load({}) }, 'Refresh');
  const element = h('div.otx.otx-usage', { 'data-lm-suppress-shortcuts': 'true', role: 'region', 'aria-label': 'Usage' }, h('div.otx-head', null, periods, tools, refresh), notice, totals, charts, failed, perTool, none);
  element.addEventListener('keydown', event => event.stopPropagation());
  const releaseFocus = keepFocus(element);

  async function load(change) {
    Object.assign(query, change);
    const turn = (loads += 1);
    try {
      const usage = await transport.request('usage', query);
      if (turn !== loads) return;
      draw(usage);
      show(notice, false);
    } catch (error) {
      if (turn === loads) show(fill(notice, error.message), true);
    }
  }

  function draw(usage) {
    const span = usage.since ? [[usage.since, `Since ${usage.start}`]] : [];
    fill(periods, [...span, ...PERIODS].map(([value, title]) => h('option', { value }, title))).value = usage.since || usage.period;
    const names = [...new Set([...usage.known, ...(usage.tool ? [usage.tool] : [])])];
    fill(tools, h('option', { value: '' }, 'All tools'), names.map(name => h('option', { value: name }, name))).value = usage.tool ?? '';
    fill(totals, usage.totals.map(total => h('span.otx-total-box', null, h('span.otx-big', null, total.value), ` ${total.label}`)));
    fill(charts, usage.series.length ? [calls(usage.series), latency(usage.series, usage.tools)] : null);
    show(fill(failed, h('h3', null, 'Failed calls by message'), failureRows(usage.failures)), usage.failures.length > 0);
    const isEmpty = usage.tools.length === 0;
    show(totals, usage.known.length > 0);
    show(fill(perTool, rows(usage.tools)), !isEmpty);
    show(fill(none, usage.known.length ? 'No calls in this period.' : NO_CALLS), isEmpty);
  }

  const unsubscribe = transport.on('closed', event => show(fill(notice, event.reason), true));
  load({});
  return { element, load: () => load({}), close: () => (unsubscribe(), releaseFocus()) };
}

function figure(title, picture, legend = null) {
  return h('figure.otx-figure', null, h('figcaption', null, title, legend), picture);
}

/** Two to four round numbers from 0 on, the last of them not below `top`: 0, 20, 40. */
export function axisMarks(top, isWhole = false) {
  if (top <= 0) return [0, 1];
  const size = 10 ** Math.floor(Math.log10(top) - 1);
  let step = [1, 2, 5, 10, 20, 50, 100].map(factor => size * factor).find(each => top <= 3 * each);
  if (isWhole) step = Math.max(step, 1);
  return Array.from({ length: Math.ceil(top / step - 1e-9) + 1 }, (_, at) => Number((step * at).toPrecision(6)));
}

/** Columns over time, with the failed part at the foot of each. */
function calls(series) {
  const title = 'Calls';
  const marks = axisMarks(Math.max(0, ...series.map(step => step.ok + step.failed)), true);
  const { yOf, wide } = scaleOf(marks, series);
  const column = Math.min(wide * 0.8, 32);
  const shapes = series.map((step, at) => {
    const part = (from, to, kind) => (to > from ? svg('rect', { x: AXIS + (at + 0.5) * wide - column / 2, y: yOf(to), width: column, height: yOf(from) - yOf(to), class: `otx-bar-${kind}` }) : null);
    return svg('g', {}, svg('title', {}, `${step.label}: ${number(step.ok)} ok, ${number(step.failed)} failed`), part(0, step.failed, 'failed'), part(step.failed, step.failed + step.ok, 'ok'));
  });
  const legend = ['ok', 'failed'].map(kind => h(`span.otx-legend.otx-legend-${kind}`, null, kind));
  return figure(title, chart(title, shapes, series, marks, ''), legend);
}

/** A band over time from the median to p95; with few steps the latency of each tool. */
function latency(series, tools) {
  const known = series.filter(step => step.p95 !== null);
  if (known.length < FEW_STEPS) return latencyByTool(tools);
  const title = 'Latency';
  const most = Math.max(...known.map(step => step.p95));
  const [unit, factor] = most >= 2000 ? ['s', 1000] : ['ms', 1];
  const marks = axisMarks(most / factor);
  const { yOf, wide } = scaleOf(marks, series);
  const shapes = series.map((step, at) => {
    if (step.p95 === null) return null;
    const [x, p50, p95] = [AXIS + at * wide, yOf(step.p50 / factor), yOf(step.p95 / factor)];
    const line = (y, kind) => svg('line', { x1: x, x2: x + wide, y1: y, y2: y, class: `otx-line-${kind}` });
    return svg('g', {}, svg('title', {}, `${step.label}: median ${duration(step.p50)}, p95 ${duration(step.p95)}`), svg('rect', { x, y: p95, width: wide, height: p50 - p95, class: 'otx-band' }), line(p95, 'p95'), line(p50, 'p50'));
  });
  return figure(title, chart(title, shapes, series, marks, unit), h('span.otx-muted', null, 'median to p95'));
}

function latencyByTool(tools) {
  const most = Math.max(...tools.map(row => row.p95_ms), 0.001);
  const bar = row => h('span.otx-range', { 'aria-hidden': 'true' }, h('span.otx-range-all', { style: `width:${(100 * row.p95_ms) / most}%` }), h('span.otx-range-part', { style: `width:${(100 * Math.min(row.avg_ms, row.p95_ms)) / most}%` }));
  const line = row => h('div', null, h('span.otx-failing-name', { title: row.tool }, row.tool), bar(row), h('span.otx-muted', null, `${duration(row.avg_ms)} / ${duration(row.p95_ms)}`));
  return figure('Latency by tool', h('div.otx-failing', null, tools.slice(0, 8).map(line)), h('span.otx-muted', null, 'mean / p95'));
}

function scaleOf(marks, series) {
  return { yOf: value => CHART_HEIGHT - (value / marks.at(-1)) * (CHART_HEIGHT - 8), wide: (CHART_WIDTH - AXIS) / series.length };
}

function chart(title, shapes, series, marks, unit) {
  const text = (x, y, anchor, content) => svg('text', { x, y, 'text-anchor': anchor, class: 'otx-axis' }, content);
  const { yOf, wide } = scaleOf(marks, series);
  const lines = marks.map(mark => [svg('line', { x1: AXIS, x2: CHART_WIDTH, y1: yOf(mark), y2: yOf(mark), class: 'otx-axis-line' }), text(AXIS - 4, yOf(mark) + 4, 'end', `${number(mark)} ${unit}`.trim())]);
  const every = Math.ceil(series.length / 4);
  const labels = series.map((step, at) => (at % every ? null : text(AXIS + (at + 0.5) * wide, CHART_HEIGHT + 14, series.length > 1 && at === 0 && wide < 40 ? 'start' : 'middle', step.label)));
  return svg('svg', { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT + 18}`, role: 'img', 'aria-label': `${title}, ${series[0].label} to ${series.at(-1).label}` }, lines, shapes, labels);
}

/** The failed calls by message. */
function failureRows(failures) {
  return table(['Message', 'Tool', 'Calls', 'Last'], failures.map(row => [row.message, row.tool, number(row.calls), row.last_called]));
}

function rows(tools) {
  const cells = row => [row.tool, number(row.calls), number(row.failures), duration(row.avg_ms ?? 0), duration(row.p95_ms ?? 0), row.last_called ?? ''];
  return table(['Tool', 'Calls', 'Failed', 'Mean', 'p95', 'Last'], tools.map(cells));
}

function table(heads, lines) {
  return h('table', null, h('thead', null, h('tr', null, heads.map(head => h('th', { scope: 'col' }, head)))), h('tbody', null, lines.map(cells => h('tr', null, cells.map((cell, at) => h(at ? 'td' : 'th', at ? {} : { scope: 'row' }, cell))))));
}
