// The usage screen: calls over time, latency, failures per tool and totals, for a period and one tool or all.
import { fill, h, keepFocus, show, svg } from './dom.js';
import { duration, number } from './format.js';

const CHART_WIDTH = 360;
const CHART_HEIGHT = 110;
const PERIODS = [['day', 'Last 24 hours'], ['week', 'Last 7 days'], ['month', 'Last 30 days'], ['all', 'All']];

/** Returns `{element, close()}`. */
export function createUsage(transport, { period = 'week', tool = '' } = {}) {
  const query = { period, tool };
  let loads = 0;
  const notice = show(h('div.otx-notice', { role: 'alert' }), false);
  const periods = h('select.otx-input', { 'aria-label': 'Period', onchange: () => load({ period: periods.value }) }, PERIODS.map(([value, title]) => h('option', { value }, title)));
  const tools = h('select.otx-input', { 'aria-label': 'Tool', onchange: () => load({ tool: tools.value }) });
  const totals = h('div.otx-totals');
  const charts = h('div.otx-charts');
  const table = h('div.otx-scroll.otx-usage-table', { tabindex: '0', role: 'group', 'aria-label': 'Per tool' });
  const refresh = h('button.otx-small', { type: 'button', onclick: () => load({}) }, 'Refresh');
  const element = h('div.otx.otx-usage', { 'data-lm-suppress-shortcuts': 'true', role: 'region', 'aria-label': 'Usage' }, h('div.otx-head', null, periods, tools, refresh), notice, totals, charts, table);
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
    periods.value = usage.period;
    const names = [...new Set([...usage.known, ...(usage.tool ? [usage.tool] : [])])];
    fill(tools, h('option', { value: '' }, 'All tools'), names.map(name => h('option', { value: name }, name))).value = usage.tool ?? '';
    fill(totals, usage.totals.map(total => h('div.otx-total-box', { title: total.help || null }, h('div.otx-big', null, total.value), h('div.otx-muted', null, total.label))));
    fill(charts, bars('Calls', usage.series, [['ok', 'ok'], ['failed', 'failed']]), line('Latency (ms)', usage.series), failures('Failures per tool', usage.tools));
    fill(table, rows(usage.tools));
  }

  const unsubscribe = transport.on('closed', event => show(fill(notice, event.reason), true));
  load({});
  return { element, close: () => (unsubscribe(), releaseFocus()) };
}

function figure(title, picture, legend = null) {
  return h('figure.otx-figure', null, h('figcaption', null, title, legend), picture);
}

function empty(title) {
  return figure(title, h('div.otx-muted.otx-no-data', null, 'No calls in this period.'));
}

function bars(title, series, kinds) {
  const most = Math.max(0, ...series.map(step => step.ok + step.failed));
  if (!most) return empty(title);
  const wide = CHART_WIDTH / series.length;
  const shapes = series.map((step, at) => {
    let base = CHART_HEIGHT;
    const parts = kinds.map(([kind]) => {
      const tall = (step[kind] / most) * (CHART_HEIGHT - 8);
      base -= tall;
      return svg('rect', { x: at * wide + wide * 0.1, y: base, width: wide * 0.8, height: tall, class: `otx-bar-${kind}` });
    });
    return svg('g', {}, svg('title', {}, `${step.label}: ${number(step.ok)} ok, ${number(step.failed)} failed`), parts);
  });
  const legend = kinds.map(([kind, label]) => h(`span.otx-legend.otx-legend-${kind}`, null, label));
  return figure(title, chart(title, shapes, series, `${number(most)}`), legend);
}

function line(title, series) {
  const known = series.filter(step => step.p95 !== null && step.p95 !== undefined);
  const most = Math.max(0, ...known.map(step => step.p95));
  if (!most) return empty(title);
  const at = (step, value) => [(series.indexOf(step) + 0.5) * (CHART_WIDTH / series.length), CHART_HEIGHT - (value / most) * (CHART_HEIGHT - 8)];
  const path = key => known.map((step, i) => `${i ? 'L' : 'M'}${at(step, step[key]).map(n => n.toFixed(1)).join(' ')}`).join('');
  const dot = (step, key) => svg('circle', { cx: at(step, step[key])[0], cy: at(step, step[key])[1], r: 2.5, class: `otx-dot otx-dot-${key}` }, svg('title', {}, `${step.label}: median ${duration(step.p50)}, p95 ${duration(step.p95)}`));
  const dots = known.flatMap(step => [dot(step, 'p95'), dot(step, 'p50')]);
  const legend = [h('span.otx-legend.otx-legend-p50', null, 'median'), h('span.otx-legend.otx-legend-p95', null, 'p95')];
  return figure(title, chart(title, [svg('path', { d: path('p95'), class: 'otx-line-p95' }), svg('path', { d: path('p50'), class: 'otx-line-p50' }), dots], series, duration(most)), legend);
}

function failures(title, tools) {
  const failing = tools.filter(row => row.failures).slice(0, 8);
  if (!failing.length) return figure(title, h('div.otx-muted.otx-no-data', null, 'No failures in this period.'));
  const most = Math.max(...failing.map(row => row.failures));
  return figure(title, h('div.otx-failing', null, failing.map(row => h('div', null, h('span.otx-failing-name', { title: row.tool }, row.tool), h('span.otx-failing-bar', { style: `width:${(100 * row.failures) / most}%` }), h('span.otx-muted', null, `${number(row.failures)} of ${number(row.calls)}`)))));
}

function chart(title, shapes, series, top) {
  const first = series[0].label;
  const last = series.at(-1).label;
  const text = (x, y, anchor, content) => svg('text', { x, y, 'text-anchor': anchor, class: 'otx-axis' }, content);
  return svg('svg', { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT + 18}`, role: 'img', 'aria-label': `${title}, ${first} to ${last}` }, svg('line', { x1: 0, x2: CHART_WIDTH, y1: CHART_HEIGHT, y2: CHART_HEIGHT, class: 'otx-axis-line' }), shapes, text(0, CHART_HEIGHT + 14, 'start', first), text(CHART_WIDTH, CHART_HEIGHT + 14, 'end', last), text(0, 10, 'start', top));
}

function rows(tools) {
  if (!tools.length) return h('p.otx-muted', null, 'No calls.');
  const heads = ['Tool', 'Calls', 'Failures', 'Average', 'p95', 'Last'];
  const cells = row => [row.tool, number(row.calls), number(row.failures), duration(row.avg_ms ?? 0), duration(row.p95_ms ?? 0), row.last_called ?? ''];
  return h('table', null, h('thead', null, h('tr', null, heads.map(head => h('th', { scope: 'col' }, head)))), h('tbody', null, tools.map(row => h('tr', null, cells(row).map((cell, at) => h(at ? 'td' : 'th', at ? {} : { scope: 'row' }, cell))))));
}
