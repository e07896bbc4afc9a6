// The health screen: the tools, servers and problems of a project as the kernel last reported them. Each problem is one
// line, its details folded, with a button that does what the hint says. Nothing is started unless the user asks for it.
// Names and messages come from files and servers, and are shown as text.
import { batch, signal, useSignal } from '@preact/signals';
import { createRef, type Key } from 'preact';
import { copyText, elementOf } from './dom.js';
import { counted, STATES } from './format.js';
import { Dot, drawInto, SecretField } from './parts.js';
import { Requests, type Source } from './requests.js';

const NO_KERNEL = 'The health of your tools appears here once onetool_ipy is loaded in a kernel.';
const CHECK = 'Starts and tests every server, and looks for missing programs and libraries';

type Action = { label: string } & (
  | { kind: 'trust' }
  | { kind: 'server'; server: string; action: string }
  | { kind: 'open'; path: string; line: number | null }
  | { kind: 'copy'; text: string }
  | { kind: 'secret'; name: string }
);

/** A problem; its action does what the hint says. */
export type Problem = { where: string; message: string; hint: string; action: Action | null };
type Report = { tools: number; servers: Record<string, { state: string }>; problems: Problem[] };

/** What the buttons of a problem do. */
export interface HealthActions {
  onTrust: () => void;
  onServer: (name: string, action: string) => void;
  onOpen: (path: string, line: number | null) => void;
}

export type Health = ReturnType<typeof createHealth>;

/** Returns `{element, draw(report), close()}`. `draw(null)` says that there is no kernel with tools. */
export function createHealth({
  source, onRefresh, onTrust, onServer, onOpen
}: HealthActions & { source: Source; onRefresh: () => unknown }) {
  const requests = new Requests(source);
  const report = signal<Report | null>(null);
  const copied = signal('');
  // What programs and libraries the tools lack.
  const check = requests.latestOf<void, Problem[]>(async (_, ask) => {
    const { missing } = await ask<{ missing: Problem[] }>('health');
    await onRefresh();
    return missing;
  });
  const list = createRef<HTMLDivElement>();
  const refresh = createRef<HTMLButtonElement>();
  const element = elementOf('div.otx-health');

  function checkNow(): void {
    if (check.isPending.peek()) return;
    copied.value = '';
    void check.send();
  }

  async function act(action: Action): Promise<void> {
    if (action.kind === 'trust') onTrust();
    else if (action.kind === 'server') onServer(action.server, action.action);
    else if (action.kind === 'open') onOpen(action.path, action.line);
    else if (action.kind === 'copy') copied.value = (await copyText(action.text)) ? `Copied: ${action.text}` : action.text;
  }

  function status(): string {
    if (!report.value) return NO_KERNEL;
    if (copied.value) return copied.value;
    if (check.isPending.value) return 'Starting and testing the servers …';
    return check.failure.value || (check.value.value ? 'Checked just now.' : '');
  }

  const stop = drawInto(element, () => {
    const problems = unique([...(report.value?.problems ?? []), ...(check.value.value ?? [])]);
    return (
      <>
        <ul class="otx-states" aria-label="State" hidden={!report.value}>
          {report.value ? <States report={report.value} problems={problems.size} /> : null}
        </ul>
        <div ref={list} role="list" aria-label="Problems">
          {[...problems].map(([key, problem]) => (
            <ProblemLine key={key} problem={problem} requests={requests} act={act} onRefresh={onRefresh} />
          ))}
        </div>
        <p class="otx-muted" role="status">{status()}</p>
        <div class="otx-server-buttons" hidden={!report.value}>
          <button ref={refresh} class="otx-small" type="button" onClick={() => onRefresh()}>Refresh</button>
          <button class="otx-small" type="button" title={CHECK} aria-disabled={check.isPending.value} onClick={checkNow}>Check now</button>
        </div>
      </>
    );
  });

  function draw(latest: Report | null): void {
    const hadFocus = list.current?.contains(document.activeElement);
    batch(() => {
      report.value = latest;
      if (latest) return;
      check.reset();
      copied.value = '';
    });
    if (hadFocus && !list.current?.contains(document.activeElement)) refresh.current?.focus();
  }

  return { element, draw, close: () => (requests.close(), stop()) };
}

/** The problems by what they say; a check may find one that the report has. */
function unique(problems: Problem[]): Map<string, Problem> {
  return new Map(problems.map(problem => [[problem.where, problem.message, problem.hint].join('\n'), problem]));
}

/** A line each for the tools, the servers by state, and the number of problems. */
function States({ report: { tools, servers }, problems }: { report: Report; problems: number }) {
  const states = Object.values(servers).map(server => server.state);
  const counts = [...new Set(states)].map(state => `${states.filter(each => each === state).length} ${state}`);
  const worst = ['failed', 'warning', 'ok'].find(mark => states.some(state => STATES[state] === mark)) ?? 'idle';
  const line = (mark: string, text: string) => <li><Dot mark={mark} /><span>{text}</span></li>;
  return (
    <>
      {line('ok', counted(tools, 'tool'))}
      {states.length ? line(worst, `${counted(states.length, 'server')}: ${counts.join(', ')}`) : line('idle', 'No MCP servers')}
      {line(problems ? 'failed' : 'ok', problems ? counted(problems, 'problem') : 'No problems found')}
    </>
  );
}

interface IProblemLine {
  problem: Problem;
  requests: Requests;
  act: (action: Action) => void;
  onRefresh: () => unknown;
  key?: Key;
}

function ProblemLine({ problem, requests, act, onRefresh }: IProblemLine) {
  const { where, message, hint, action } = problem;
  const isOpen = useSignal(false);
  const request = requests.latest<{ first: number; line: number; lines: string[] }>('problemLines', where);
  const place = where.split(/[/\\]/).pop();
  const unfold = (): void => {
    isOpen.value = !isOpen.peek();
    if (isOpen.peek() && action?.kind === 'open') void request.send({ where }); // a refusal leaves the problem without its lines
  };
  const { first = 0, line = 0, lines = [] } = request.value.value ?? {};
  return (
    <div class="otx-problem" role="listitem">
      <div class="otx-problem-head">
        <button class="otx-expand otx-problem-line" type="button" aria-expanded={isOpen.value} title={message} onClick={unfold}>
          <span class="otx-muted">{place}</span> {message}
        </button>
        {action && action.kind !== 'secret' ? (
          <button class="otx-small" type="button" aria-label={`${action.label}: ${place}`} onClick={() => act(action)}>
            {action.label}
          </button>
        ) : null}
      </div>
      {action?.kind === 'secret' ? <SecretField name={action.name} requests={requests} onKept={onRefresh} /> : null}
      <div class="otx-problem-details" hidden={!isOpen.value}>
        <p>{message}</p>
        {hint ? <p>{hint}</p> : null}
        <code class="otx-whole">{where}</code>
        <pre class="otx-excerpt" tabIndex={0} role="group" aria-label={`Lines of ${place}`} hidden={!lines.length}>
          {lines.map((text, at) => (
            <div key={at} class={first + at === line ? 'otx-line otx-current' : 'otx-line'}>
              <span class="otx-number">{first + at}</span>
              {text}
            </div>
          ))}
        </pre>
      </div>
    </div>
  );
}
