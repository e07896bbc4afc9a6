// The call history: newest first, by the page, with a search and a filter for failed calls. A run of `ot.map` is one line
// that unfolds to its calls, those that failed first. The browser opens and runs the calls.
import { batch, computed, signal, useComputed } from '@preact/signals';
import { type ComponentChildren, render } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Select } from './controls.js';
import { debounce, elementOf } from './dom.js';
import { counted, duration, number } from './format.js';
import { breakable, Drawing, Failure, Outcome } from './parts.js';
import type { LatestRequest, Requests } from './requests.js';

const PAGE_SIZE = 50;
const TIMES = [['', 'Any time'], ['today', 'Today'], ['yesterday', 'Since yesterday'], ['7d', '7 days'], ['30d', '30 days']];
const NEAR_END = 200; // pixels
const EDIT = 'M10.8 2.4l2.8 2.8M2.5 13.5l.7-3.5 8.3-8.3a1 1 0 0 1 1.4 0l1.4 1.4a1 1 0 0 1 0 1.4L6 12.8z';
const RERUN = 'M13.5 8A5.5 5.5 0 1 1 11.6 3.8M12 .8v3.4H8.6';

interface Line {
  id: string;
  tool: string;
  ms: number;
  when: string;
}

export interface Call extends Line {
  run?: undefined;
  ok: boolean;
  summary: string;
  /** Null if the log does not have them; `noArgs` says why. */
  args: Record<string, unknown> | null;
  noArgs?: string;
  isAsk?: boolean;
  readOnly: boolean;
}

/** A run of `ot.map`. */
interface Run extends Line {
  run: string;
  rows: number;
  failures: number;
}

type Item = Call | Run;

interface Filter {
  query: string;
  isFailed: boolean;
  since: string;
}

interface Page {
  offset: number;
  limit: number;
}

/** `onEdit(call)` opens a call in its form, `onRerun(call)` runs it again. */
interface Actions {
  onEdit: (call: Call) => void;
  onRerun: (call: Call) => void;
}

/** The calls that were loaded so far, of the history or of one run. */
class Pages {
  readonly items = signal<Item[]>([]);
  readonly hasMore = signal(false);
  /** How many a person wants to see; they may be under way. */
  private wanted = PAGE_SIZE;
  readonly request: LatestRequest<Page, { items: Item[]; hasMore: boolean; offset: number }>;

  constructor(requests: Requests, filter: () => Filter, run?: string) {
    this.request = requests.latestOf(async ({ offset, limit }, ask) => ({
      ...(await ask('history', { ...filter(), offset, limit, ...(run ? { run } : {}) })), offset
    }));
    this.request.value.subscribe(page => {
      if (!page) return;
      batch(() => {
        this.items.value = page.offset ? [...this.items.peek(), ...page.items] : page.items;
        this.hasMore.value = page.hasMore;
      });
    });
  }

  load(offset = 0, limit = PAGE_SIZE): Promise<unknown> {
    this.wanted = offset + limit;
    return this.request.send({ offset, limit });
  }

  /** Load what is shown again. */
  refresh(): Promise<unknown> {
    return this.load(0, this.wanted);
  }

  /** Load the next page; while the present ones are being loaded, they and the next one together. */
  more(): Promise<unknown> {
    const { length } = this.items.peek();
    return this.request.isPending.peek() ? this.load(0, length + PAGE_SIZE) : this.load(length, PAGE_SIZE);
  }
}

/** Returns `{element, search(query), load()}`; it ends with `requests`. With `tool` it has only the calls of that tool. */
export function createHistory(requests: Requests, actions: Actions, tool = '') {
  const filter = signal<Filter>({ query: '', isFailed: false, since: '' });
  const asked = (): Filter => ({ ...filter.peek(), ...(tool ? { tool } : {}) });
  const pages = new Pages(requests, asked);
  const emptyText = computed(() => emptyTextOf(filter.value));
  const set = (change: Partial<Filter>): void => {
    filter.value = { ...filter.peek(), ...change };
    void pages.load();
  };
  const element = elementOf('div.otx-history', { tabindex: '-1' });
  element.addEventListener('scroll', () => {
    const { scrollTop, clientHeight, scrollHeight } = element;
    const isNearEnd = scrollTop + clientHeight > scrollHeight - NEAR_END;
    if (isNearEnd && pages.hasMore.peek() && !pages.request.isPending.peek()) void pages.more();
  });
  function View() {
    const { since, isFailed } = filter.value;
    return (
      <>
        <div class="otx-bar otx-history-bar">
          <Select label="When" value={since} options={TIMES} onChange={value => set({ since: value })} />
          <button class="otx-small" type="button" aria-pressed={isFailed} onClick={() => set({ isFailed: !isFailed })}>Failed only</button>
        </div>
        <Lines pages={pages} label="Calls" emptyText={emptyText.value}>
          {item => (item.run !== undefined ? (
            <RunLine key={item.id} run={item} requests={requests} filter={asked} actions={actions} />
          ) : <CallLine key={item.id} call={item} actions={actions} isNamed={!tool} />)}
        </Lines>
      </>
    );
  }
  const search = debounce(200, (query: string) => set({ query }));
  render(<View />, element);
  return { element, search, load: () => pages.refresh() };
}

function emptyTextOf({ query, isFailed, since }: Filter): string {
  if (query) return `No ${isFailed ? 'failed ' : ''}call matches '${query}'.`;
  const when = TIMES.find(([value]) => value === since)![1].toLowerCase();
  if (since) return `No ${isFailed ? 'failed call' : 'call'} (${when}).`;
  return isFailed ? 'No call has failed.' : 'No calls yet. Your calls appear here.';
}

interface LinesProps<T extends Item> {
  pages: Pages;
  label: string;
  emptyText: string;
  children: (item: T) => ComponentChildren;
  isHidden?: boolean;
}

/** The lines of some calls, why they cannot be loaded, and a button for the next page. */
function Lines<T extends Item>({ pages, label, emptyText, children, isHidden = false }: LinesProps<T>) {
  const { request, items, hasMore } = pages;
  const isEmpty = useComputed(() => request.value.value !== null && !items.value.length);
  return (
    <div class="otx-calls-page" hidden={isHidden}>
      <div role="list" aria-label={label}>{items.value.map(item => children(item as T))}</div>
      <p class="otx-muted" role="status">{request.failure.value ? <Failure of={request} /> : isEmpty.value ? emptyText : ''}</p>
      <button class="otx-small otx-more" type="button" hidden={!hasMore.value} onClick={() => pages.more()}>Show more</button>
    </div>
  );
}

/** A run of `ot.map`; its calls are loaded when it is unfolded, and again when its numbers change. */
function RunLine({ run, requests, filter, actions }: { run: Run; requests: Requests; filter: () => Filter; actions: Actions }) {
  const [isOpen, setOpen] = useState(false);
  const pages = useMemo(() => new Pages(requests, filter, run.run), [run.run]);
  useLayoutEffect(() => {
    if (isOpen) void pages.refresh();
  }, [isOpen, run, pages]);
  const { rows, failures, tool, ms } = run;
  return (
    <div class="otx-history-run" role="listitem">
      <button class="otx-expand otx-run-line" type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Outcome outcome={failures ? 'failed' : 'ok'} />
        <div class="otx-tool-text">
          <Head name={`ot.map ${tool}`} line={run} />
          <div class="otx-tool-summary">
            {counted(rows, 'row')}
            {failures ? <span class="otx-error">, {number(failures)} failed</span> : null} · {duration(ms)}
          </div>
        </div>
      </button>
      <Lines<Call> pages={pages} label="Calls of this run" emptyText="No calls." isHidden={!isOpen}>
        {call => <CallLine key={call.id} call={call} actions={actions} isInRun />}
      </Lines>
    </div>
  );
}

/** A call. What all lines have is left out: within a run the name and the time, among the calls of a tool its name. */
function CallLine({ call, actions, isInRun = false, isNamed = true }: {
  call: Call; actions: Actions; isInRun?: boolean; isNamed?: boolean;
}) {
  const [isAsking, setAsking] = useState(false);
  const cancel = useRef<HTMLButtonElement>(null);
  const rerun = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (isAsking) cancel.current?.focus();
  }, [isAsking]);
  const { tool, summary, args, noArgs } = call;
  const run = (): void => {
    setAsking(false);
    actions.onRerun(call);
  };
  const stay = (): void => {
    setAsking(false);
    rerun.current?.focus();
  };
  const canRun = args !== null && !call.isAsk;
  return (
    <div class="otx-history-row" role="listitem">
      <Outcome outcome={call.ok ? 'ok' : 'failed'} />
      <div class="otx-tool-text">
        {isInRun ? null : <Head name={isNamed ? tool : summary} line={call} />}
        {isNamed ? <div class="otx-tool-summary" title={summary}>{summary}</div> : null}
        {args ? null : <div class="otx-tool-summary" title="The log does not have its arguments, so it cannot be run again">{noArgs}</div>}
      </div>
      {canRun ? (
        <button
          class="otx-icon-button" type="button" title="Edit" aria-label={`Edit the call of ${tool}`} onClick={() => actions.onEdit(call)}
        >
          <Drawing path={EDIT} />
        </button>
      ) : null}
      {canRun ? (
        <button
          ref={rerun} class="otx-icon-button" type="button" title="Rerun" aria-label={`Rerun ${tool}`}
          onClick={() => (call.readOnly ? run() : setAsking(true))}
        >
          <Drawing path={RERUN} />
        </button>
      ) : null}
      <div class="otx-confirm" role="alertdialog" aria-label={`Rerun ${tool}?`} hidden={!isAsking}>
        <span>{tool} may change something. Run it again?</span>
        <button ref={cancel} class="otx-small" type="button" onClick={stay}>Cancel</button>
        <button class="otx-small" type="button" onClick={run}>Run again</button>
      </div>
    </div>
  );
}

function Head({ name, line }: { name: string; line: Line }) {
  return (
    <div class="otx-history-head">
      <span class="otx-tool-name">{breakable(name)}</span>
      <span class="otx-muted" title={duration(line.ms)}>{line.when}</span>
    </div>
  );
}
