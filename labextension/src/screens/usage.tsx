// The usage screen: totals, calls over time with their failures, latency, failed calls by message and the tools, for a
// period and one tool or all. The kernel chooses the steps in time that suit the calls; `render/report.py` draws alike.
import { type ReadonlySignal, signal } from '@preact/signals';
import type { ComponentChild } from 'preact';
import { Select } from './controls.js';
import { duration, number } from './format.js';
import { breakable, createScreen } from './parts.js';
import { type LatestRequest, Requests } from './requests.js';
import type { Payload, Transport } from './transport.js';

const CHART_WIDTH = 360;
const CHART_HEIGHT = 120;
const AXIS = 44; // room for the numbers of the axis
const FEW_STEPS = 5;
const PERIODS = [['day', '24 hours'], ['week', '7 days'], ['month', '30 days'], ['all', 'All time']];
const NO_CALLS = 'No calls yet. Run a tool on its page, or write %tool time.now in a cell, then press Refresh.';

/** What is asked: calls of a period or since a time, of one tool or all. */
interface Query {
  period: string;
  tool: string;
  since: string;
}

interface Step {
  label: string;
  ok: number;
  failed: number;
  p50: number | null;
  p95: number | null;
}

interface ToolUsage {
  tool: string;
  calls: number;
  failures: number;
  avg_ms: number | null;
  p95_ms: number | null;
  last_called: string | null;
}

interface Usage extends Query {
  start: string;
  note: string;
  known: string[];
  totals: { value: string; label: string }[];
  series: Step[];
  tools: ToolUsage[];
  failures: { message: string; tool: string; calls: number; last_called: string }[];
}

/** Returns `{element, load(), close()}`. */
export function createUsage(transport: Transport, { period = 'week', tool = '', since = '' }: Partial<Query> = {}) {
  const requests = new Requests(transport);
  const usage = requests.latest<Usage>('usage');
  const query = signal<Query>({ period, tool, since });
  const load = (change: Partial<Query> = {}): Promise<unknown> => {
    query.value = { ...query.value, ...change };
    return usage.send({ ...query.value });
  };
  const screen = createScreen('div.otx.otx-usage', { role: 'region', 'aria-label': 'Usage' }, () => (
    <View usage={usage} query={query} closed={transport.store.closed} load={load} />
  ));
  void load();
  return { element: screen.element, load, close: () => (requests.close(), screen.close()) };
}

interface ViewProps {
  usage: LatestRequest<Payload, Usage>;
  query: ReadonlySignal<Query>;
  closed: ReadonlySignal<string | null>;
  load: (change?: Partial<Query>) => unknown;
}

function View({ usage, query, closed, load }: ViewProps) {
  const found = usage.value.value;
  const notice = closed.value ?? usage.failure.value;
  return (
    <>
      <div class="otx-head">
        <Choices usage={usage} query={query.value} load={load} />
        <button class="otx-small" type="button" onClick={() => load()}>Refresh</button>
      </div>
      <div class="otx-notice" role="alert" hidden={!notice}>{notice}</div>
      <div class="otx-totals" hidden={!found?.known.length}>
        {found?.totals.map(({ value, label }) => (
          <span key={label} class="otx-total-box"><span class="otx-big">{value}</span> {label}</span>
        ))}
        {found?.note ? <span>{found.note}</span> : null}
      </div>
      <div class="otx-charts">
        {found?.series.length ? <><Calls series={found.series} /><Latency series={found.series} tools={found.tools} /></> : null}
      </div>
      <div
        class="otx-scroll otx-usage-table otx-usage-failed" tabIndex={0} role="group" aria-label="Failed calls by message"
        hidden={!found?.failures.length}
      >
        <h3>Failed calls by message</h3>
        <Table
          heads={['Message', 'Tool', 'Calls', 'Last']}
          lines={(found?.failures ?? []).map(row => [row.message, breakable(row.tool), number(row.calls), row.last_called])}
        />
      </div>
      <div class="otx-scroll otx-usage-table" tabIndex={0} role="group" aria-label="Per tool" hidden={!found?.tools.length}>
        <Table heads={['Tool', 'Calls', 'Failed', 'Mean', 'p95', 'Last']} lines={(found?.tools ?? []).map(cellsOf)} />
      </div>
      <p class="otx-muted otx-note" hidden={Boolean(found?.tools.length)}>
        {!found ? 'Loading …' : found.known.length ? 'No calls in this period.' : NO_CALLS}
      </p>
    </>
  );
}

/** The period and the tool: those that were chosen last, and once the kernel has answered what it took them for. */
function Choices({ usage, query, load }: Omit<ViewProps, 'closed' | 'query'> & { query: Query }) {
  const found = usage.value.value;
  const isOwn = !found || usage.isPending.value || Boolean(usage.failure.value);
  const { period, since, tool } = isOwn ? query : found;
  const names = [...new Set([...(found?.known ?? []), ...(tool ? [tool] : [])])];
  const times = since ? [[since, `Since ${found?.since === since ? found.start : since}`], ...PERIODS] : PERIODS;
  return (
    <>
      <Select label="Period" value={since || period} options={times} onChange={chosen => load({ period: chosen, since: '' })} />
      <Select label="Tool" value={tool ?? ''} options={[['', 'All tools'], ...names]} onChange={chosen => load({ tool: chosen })} />
    </>
  );
}

function Figure({ title, legend = null, children }: { title: string; legend?: ComponentChild; children: ComponentChild }) {
  return <figure class="otx-figure"><figcaption>{title}{legend}</figcaption>{children}</figure>;
}

/** Two to four round numbers from 0 on, the last of them not below `top`: 0, 20, 40. */
export function axisMarks(top: number, isWhole = false): number[] {
  if (top <= 0) return [0, 1];
  const size = 10 ** Math.floor(Math.log10(top) - 1);
  let step = [1, 2, 5, 10, 20, 50, 100].map(factor => size * factor).find(each => top <= 3 * each)!;
  if (isWhole) step = Math.max(step, 1);
  return Array.from({ length: Math.ceil(top / step - 1e-9) + 1 }, (_, at) => Number((step * at).toPrecision(6)));
}

/** Columns over time, with the failed part at the foot of each. */
function Calls({ series }: { series: Step[] }) {
  const marks = axisMarks(Math.max(0, ...series.map(step => step.ok + step.failed)), true);
  const { yOf, wide } = scaleOf(marks, series);
  const column = Math.min(wide * 0.8, 32);
  const part = (at: number, from: number, to: number, kind: string) =>
    to > from ? (
      <rect x={AXIS + (at + 0.5) * wide - column / 2} y={yOf(to)} width={column} height={yOf(from) - yOf(to)} class={`otx-bar-${kind}`} />
    ) : null;
  return (
    <Figure title="Calls" legend={['ok', 'failed'].map(kind => <span key={kind} class={`otx-legend otx-legend-${kind}`}>{kind}</span>)}>
      <Chart title="Calls" series={series} marks={marks} unit="">
        {series.map((step, at) => (
          <g key={at}>
            <title>{`${step.label}: ${number(step.ok)} ok, ${number(step.failed)} failed`}</title>
            {part(at, 0, step.failed, 'failed')}
            {part(at, step.failed, step.failed + step.ok, 'ok')}
          </g>
        ))}
      </Chart>
    </Figure>
  );
}

/** A band over time from the median to p95; with few steps the latency of each tool. */
function Latency({ series, tools }: { series: Step[]; tools: ToolUsage[] }) {
  const known = series.filter(step => step.p95 !== null);
  if (known.length < FEW_STEPS) return <LatencyByTool tools={tools} />;
  const most = Math.max(...known.map(step => step.p95!));
  const [unit, factor] = most >= 2000 ? ['s', 1000] as const : ['ms', 1] as const;
  const marks = axisMarks(most / factor);
  const { yOf, wide } = scaleOf(marks, series);
  const band = ({ label, p50, p95 }: Step, at: number) => {
    if (p95 === null || p50 === null) return null;
    const [x, median, high] = [AXIS + at * wide, yOf(p50 / factor), yOf(p95 / factor)];
    const line = (y: number, kind: string) => <line x1={x} x2={x + wide} y1={y} y2={y} class={`otx-line-${kind}`} />;
    return (
      <g key={at}>
        <title>{`${label}: median ${duration(p50)}, p95 ${duration(p95)}`}</title>
        <rect x={x} y={high} width={wide} height={median - high} class="otx-band" />
        {line(high, 'p95')}
        {line(median, 'p50')}
      </g>
    );
  };
  return (
    <Figure title="Latency" legend={<span class="otx-muted">median to p95</span>}>
      <Chart title="Latency" series={series} marks={marks} unit={unit}>{series.map(band)}</Chart>
    </Figure>
  );
}

function LatencyByTool({ tools }: { tools: ToolUsage[] }) {
  const most = Math.max(...tools.map(row => row.p95_ms ?? 0), 0.001);
  const share = (ms: number): string => `width:${(100 * ms) / most}%`;
  return (
    <Figure title="Latency by tool" legend={<span class="otx-muted">mean / p95</span>}>
      <div class="otx-failing">
        {tools.slice(0, 8).map(({ tool, avg_ms: mean, p95_ms: high }) => (
          <div key={tool}>
            <span class="otx-failing-name" title={tool}>{tool}</span>
            <span class="otx-range" aria-hidden="true">
              <span class="otx-range-all" style={share(high ?? 0)} />
              <span class="otx-range-part" style={share(Math.min(mean ?? 0, high ?? 0))} />
            </span>
            <span class="otx-muted">{`${duration(mean ?? 0)} / ${duration(high ?? 0)}`}</span>
          </div>
        ))}
      </div>
    </Figure>
  );
}

function scaleOf(marks: number[], series: Step[]) {
  return {
    yOf: (value: number) => CHART_HEIGHT - (value / marks.at(-1)!) * (CHART_HEIGHT - 8), wide: (CHART_WIDTH - AXIS) / series.length
  };
}

function Chart({ title, series, marks, unit, children }: {
  title: string; series: Step[]; marks: number[]; unit: string; children: ComponentChild;
}) {
  const { yOf, wide } = scaleOf(marks, series);
  const every = Math.ceil(series.length / 4);
  const text = (x: number, y: number, anchor: 'start' | 'middle' | 'end', content: string) => (
    <text x={x} y={y} text-anchor={anchor} class="otx-axis">{content}</text>
  );
  return (
    <svg
      viewBox={`0 0 ${CHART_WIDTH} ${CHART_HEIGHT + 18}`} role="img" aria-label={`${title}, ${series[0].label} to ${series.at(-1)!.label}`}
    >
      {marks.map(mark => [
        <line x1={AXIS} x2={CHART_WIDTH} y1={yOf(mark)} y2={yOf(mark)} class="otx-axis-line" />,
        text(AXIS - 4, yOf(mark) + 4, 'end', `${number(mark)} ${unit}`.trim())
      ])}
      {children}
      {series.map((step, at) => (at % every ? null : text(
        AXIS + (at + 0.5) * wide, CHART_HEIGHT + 14, series.length > 1 && at === 0 && wide < 40 ? 'start' : 'middle', step.label
      )))}
    </svg>
  );
}

function cellsOf(row: ToolUsage): ComponentChild[] {
  return [
    breakable(row.tool), number(row.calls), number(row.failures), duration(row.avg_ms ?? 0), duration(row.p95_ms ?? 0),
    row.last_called ?? ''
  ];
}

function Table({ heads, lines }: { heads: string[]; lines: ComponentChild[][] }) {
  return (
    <table>
      <thead><tr>{heads.map(head => <th key={head} scope="col">{head}</th>)}</tr></thead>
      <tbody>
        {lines.map(([first, ...cells], line) => (
          <tr key={line}><th scope="row">{first}</th>{cells.map((cell, at) => <td key={at}>{cell}</td>)}</tr>
        ))}
      </tbody>
    </table>
  );
}
