// The result viewer: text, table, summary, tree, images. It requests only the visible part of a result. Finding runs in
// the kernel, over the whole result.
import { type Signal, signal, useSignal } from '@preact/signals';
import { type ComponentChild, Fragment } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { type Chosen, CompareChoices, createCompare } from './compare.js';
import { Check, Search } from './controls.js';
import { copyText, debounce, elementOf } from './dom.js';
import { byteSize, counted, duration, number, outcomeOf } from './format.js';
import { expressionOf, type Path } from './jmespath.js';
import { createScreen, drawInto, Failure, Menu, OutcomeChip, Placed, Tabs } from './parts.js';
import { Requests, type Source } from './requests.js';
import { createSummary } from './summary.js';
import { createTable, keyOf, type Result, type Table } from './table.js';
import type { Payload, Transport } from './transport.js';
import { Rows, VirtualRows } from './virtualRows.js';

const LINE_HEIGHT = 18;
/** A tree of a result that is not larger opens by itself, with at most so many places. */
const [SMALL_BYTES, MAX_OPEN, FEW_LINES] = [2000, 30, 9];
const TITLES: Record<string, string> = {
  text: 'Raw', table: 'Table', summary: 'Summary', tree: 'Tree', image: 'Image', compare: 'Changes'
};

type Pick = ((expression: string) => void) | null;

/** One way to show a result. Its view is drawn again when a signal that it reads changes. */
export interface Pane {
  view(): ComponentChild;
  start(): unknown;
  close(): void;
  /** The table in it, whose rows *Save as variable* takes. */
  table?(): Table | null;
}

export type Viewer = ReturnType<typeof createViewer>;

/**
 * Returns `{element, show(result), close()}`; `source` answers requests. `onPick(expression)` gets the JMESPath of a key of
 * the tree or a column of the table that the user wants to keep. A plain one has only the result: what is known of it is said
 * elsewhere, and it is of no use later.
 */
export function createViewer(source: Source, { onPick = null, isPlain = false }: { onPick?: Pick; isPlain?: boolean } = {}) {
  const element = elementOf('section.otx-viewer', { 'aria-label': 'Result' });
  const shown = signal<Shown | null>(null);
  drawInto(element, () => (
    <>
      <div key={shown.value?.id} class="otx-result-head" hidden={isPlain}>{isPlain ? null : shown.value?.head()}</div>
      <Tabs
        label="Result formats" tabs={shown.value?.tabs() ?? []} selected={shown.value?.kind} hidden={(shown.value?.tabs().length ?? 0) < 2}
        onSelect={kind => shown.value?.select(kind)}
      />
      <div class="otx-result-body">{shown.value?.body()}</div>
    </>
  ));
  const show = (result: Result): void => {
    shown.peek()?.close();
    shown.value = new Shown(source, result, onPick, (shown.peek()?.id ?? 0) + 1);
  };
  return { element, show, close: () => shown.peek()?.close() };
}

/** A stored result as a screen of its own; `onShown` is called once it is there. Returns `{element, close()}`. */
export function createResult(transport: Transport, wanted: Payload, onShown = (_result: Result): void => {}) {
  const requests = new Requests(transport);
  const opened = requests.latest<Result>('open');
  const viewer = createViewer(transport);
  const { closed } = transport.store;
  const screen = createScreen('div.otx.otx-standalone', {}, () => (
    <>
      <div class="otx-notice" role="alert" hidden={closed.value === null && !opened.failure.value}>
        {closed.value ?? <Failure of={opened} />}
      </div>
      <Placed class="otx-place" element={viewer.element} />
    </>
  ));
  opened.value.subscribe(result => {
    if (!result) return;
    viewer.show(result);
    onShown(result);
  });
  void opened.send(wanted);
  return { element: screen.element, close: () => (screen.close(), requests.close(), viewer.close()) };
}

/** A result, and the pane that shows it. */
class Shown {
  private readonly kinds = signal<string[]>([]);
  private readonly open = signal<{ kind: string; pane: Pane; id: number } | null>(null);
  private readonly requests: Requests;
  private table: Table | null = null;
  private chosen: Chosen | null = null;

  constructor(source: Source, private readonly result: Result, private readonly onPick: Pick, readonly id: number) {
    this.requests = new Requests(source);
    if (!result.ok) return;
    this.kinds.value = result.kinds ?? ['text'];
    this.select(this.kinds.peek()[0]);
  }

  select(kind: string): void {
    const before = this.open.peek();
    if (before?.pane !== this.table) before?.pane.close();
    const pane = this.paneOf(kind);
    this.open.value = { kind, pane, id: (before?.id ?? 0) + 1 };
    if (pane !== this.table || !this.table.page.value.peek()) void pane.start();
  }

  private paneOf(kind: string): Pane {
    const { result, onPick } = this;
    const own = (): Requests => this.requests.part();
    if (kind === 'text') return createText(own(), result);
    if (kind === 'tree') return createTree(own(), result, onPick);
    if (kind === 'image') return createImage(own(), result);
    if (kind === 'compare') return createCompare(own(), result, this.chosen!);
    this.table ??= createTable(own(), result, { onPick });
    return kind === 'table' ? this.table : createSummary(own(), result, this.table, next => this.select(next));
  }

  /** Show the difference from another result in a tab of its own; a second choice takes its place. */
  private compareWith(chosen: Chosen): void {
    this.chosen = chosen;
    if (!this.kinds.peek().includes('compare')) this.kinds.value = [...this.kinds.peek(), 'compare'];
    this.select('compare');
  }

  head(): ComponentChild {
    const { result, requests } = this;
    const pane = this.open.value?.pane;
    const table = pane === this.table ? this.table : (pane?.table?.() ?? null);
    return (
      <>
        <Facts result={result} />
        {result.ok ? (
          <span class="otx-tools">
            <More
              requests={requests} result={result} table={table} isFiltered={table?.isFiltered() ?? false}
              onChoose={chosen => this.compareWith(chosen)}
            />
          </span>
        ) : null}
      </>
    );
  }

  get kind(): string | undefined {
    return this.open.value?.kind;
  }

  tabs(): [kind: string, title: string][] {
    return this.kinds.value.map(kind => [kind, TITLES[kind]]);
  }

  body(): ComponentChild {
    if (!this.result.ok) return <Problem error={this.result.error!} />;
    const { pane, id } = this.open.value!;
    return <Fragment key={`${this.id} ${id}`}>{pane.view()}</Fragment>;
  }

  close(): void {
    this.open.peek()?.pane.close();
    this.table?.close();
    this.requests.close();
  }
}

function Facts({ result }: { result: Result }) {
  const { ms, rows, lines, bytes, note, tool, handle } = result;
  const outcome = outcomeOf(result as { ok: boolean });
  const facts: string[] = [];
  if (ms && outcome !== 'cancelled') facts.push(duration(ms)); // no time was taken by a value that came from no call
  if (rows !== undefined) facts.push(counted(rows, 'row'));
  else if (lines !== undefined && result.kinds?.[0] !== 'image') facts.push(counted(lines, 'line'));
  if (bytes !== undefined && bytes !== null) facts.push(byteSize(bytes));
  if (note) facts.push(note);
  return (
    <div class="otx-summary" role="status">
      <OutcomeChip outcome={outcome} />
      {tool ? <code>{tool}</code> : null}
      {facts.map((fact, at) => <span key={at} class="otx-muted">{fact}</span>)}
      {handle ? <span class="otx-muted" title="The handle: ot.result(handle=...)">{handle}</span> : null}
    </div>
  );
}

function Problem({ error: { title, reason, message, hint } }: { error: NonNullable<Result['error']> }) {
  if (reason === 'cancelled') return <p class="otx-muted">{message}</p>;
  return (
    <div class="otx-failure" role="alert">
      <strong>{title ?? 'The call failed'}</strong>
      <pre>{[message, hint].filter(Boolean).join('\n')}</pre>
    </div>
  );
}

interface MoreProps {
  requests: Requests;
  result: Result;
  table: Table | null;
  isFiltered: boolean;
  onChoose: (chosen: Chosen) => void;
}

/** What is seldom wanted of a result: it becomes a variable of the notebook, or is compared with another one. */
function More({ requests, result, table, isFiltered, onChoose }: MoreProps) {
  const [isOpen, status] = [useSignal(false), useSignal('')];
  const onSaved = (said: string): void => {
    status.value = said;
    isOpen.value = false;
  };
  const choose = (chosen: Chosen): void => {
    isOpen.value = false;
    onChoose(chosen);
  };
  return (
    <>
      <span class="otx-muted" role="status">{status.value}</span>
      <Menu label="⋯" name="More: save as variable, compare" kind="otx-more-menu" isOpen={isOpen} onOpen={() => (status.value = '')}>
        {isOpen.value ? (
          <>
            <SaveForm requests={requests} result={result} table={table} isFiltered={isFiltered} onSaved={onSaved} />
            <CompareChoices requests={requests} result={result} onChoose={choose} />
          </>
        ) : null}
      </Menu>
    </>
  );
}

/** Saves the result, or the rows that a table shows, as a variable of the notebook. */
function SaveForm({ requests, result, table, isFiltered, onSaved }: Omit<MoreProps, 'onChoose'> & { onSaved: (said: string) => void }) {
  const assign = requests.latest<{ said: string }>('assign');
  const [name, onlyFound] = [useRef<HTMLInputElement>(null), useRef<HTMLInputElement>(null)];
  useLayoutEffect(() => {
    assign.reset();
    name.current!.focus();
  }, []);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const query = table?.query();
    const rows = onlyFound.current!.checked ? query : { sort: query?.sort };
    const reply = await assign.send({ ...keyOf(table?.result ?? result), ...rows, variable: name.current!.value.trim() });
    if (reply.status === 'ok') onSaved(reply.value.said);
  };
  return (
    <form class="otx-assign" aria-label="Save as variable" onSubmit={save}>
      <strong>Save as variable</strong>
      <input ref={name} class="otx-input otx-short" type="text" placeholder="name" aria-label="Name of the variable" spellcheck={false} />
      <button class="otx-small" type="submit">Save</button>
      <label class="otx-choice" hidden={!isFiltered}><input ref={onlyFound} type="checkbox" defaultChecked /> only the rows found</label>
      <span class="otx-error" role="alert">{assign.failure.value}</span>
    </form>
  );
}

function createText(requests: Requests, result: Result): Pane {
  const lines = result.lines ?? 0;
  const rows = new VirtualRows<string>(
    requests, LINE_HEIGHT, async (offset, limit, ask) => (await ask('page', { ...keyOf(result), offset: offset + 1, limit })).lines
  );
  const current = signal(-1);
  const typed = signal<string | null>(null);
  const finder = createFinder(requests, result, line => {
    current.value = line - 1;
    void rows.scrollTo(line - 1, true);
  });
  const goTo = (text: string): void => {
    typed.value = null;
    void rows.scrollTo(Number.parseInt(text.replaceAll(/\D/g, ''), 10) - 1 || 0);
  };
  const line = (text: string, at: number, key: number | string) => (
    <div key={key} class={at === current.value ? 'otx-line otx-current' : 'otx-line'}>
      <span class="otx-number" aria-hidden="true">{at + 1}</span>
      <span class="otx-text">{text}</span>
    </div>
  );
  const view = () => {
    const { seen } = rows;
    return (
      <div class="otx-pane">
        <div class="otx-bar" hidden={lines <= FEW_LINES && (result.bytes ?? Infinity) <= SMALL_BYTES}>
          {finder.view()}
          <label class="otx-muted">
            {'line '}
            <input
              class="otx-input otx-short" type="text" inputMode="numeric" aria-label="Go to line" title="Go to line"
              value={typed.value ?? String(seen.from + 1)} onInput={event => (typed.value = event.currentTarget.value)}
              onChange={event => goTo(event.currentTarget.value)}
            />
            {' of '}
            {number(lines)}
          </label>
        </div>
        <Rows
          rows={rows} seen={seen} label="Lines of the result" style={`flex-basis:${Math.min(lines, 99) * LINE_HEIGHT + 16}px`} draw={line}
        />
      </div>
    );
  };
  return { view, start: () => rows.reset(lines, result.preview ?? []), close: () => (finder.close(), requests.close(), rows.close()) };
}

/** Find in a text, by regular expression or fuzzily, with a count and buttons for next and previous. */
function createFinder(requests: Requests, result: Result, onHit: (line: number) => void) {
  const finds = requests.latest<{ hits: number[]; matched: number; isComplete: boolean }>('find');
  const [pattern, isFuzzy, at] = [signal(''), signal(false), signal(-1)];
  let searched = ''; // what Enter goes on with
  const words = (): string => `${isFuzzy.peek() ? 'fuzzy' : 'exact'} ${pattern.peek()}`;

  async function search(): Promise<void> {
    searchSoon.cancel();
    searched = words();
    at.value = -1;
    finds.reset();
    if (!pattern.peek()) return;
    const reply = await finds.send({ ...keyOf(result), pattern: pattern.peek(), isFuzzy: isFuzzy.peek() });
    if (reply.status === 'failed') searched = ''; // Enter tries again
    if (reply.status === 'ok') step(1);
  }
  const searchSoon = debounce(200, search);

  function step(by: number): void {
    const hits = finds.value.peek()?.hits ?? [];
    if (!hits.length) return;
    at.value = (at.peek() + by + hits.length) % hits.length;
    onHit(hits[at.peek()]);
  }

  function count(): string {
    if (finds.isPending.value) return '…';
    const { hits, matched, isComplete } = finds.value.value ?? {};
    if (!hits) return finds.failure.value;
    return hits.length ? `${number(at.value + 1)} of ${number(matched!)}${isComplete ? '' : ' so far'}` : 'no match';
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    if (searched === words()) step(event.shiftKey ? -1 : 1);
    else void search();
  }

  const button = (label: string, title: string, by: number) => (
    <button class="otx-small" type="button" title={title} aria-label={title} onClick={() => step(by)}>{label}</button>
  );
  const view = () => (
    <div class="otx-find" role="search">
      <Search
        label="Find in the result" placeholder="Find" value={pattern.value} onInput={text => ((pattern.value = text), searchSoon())}
        onKeyDown={onKeyDown}
      />
      <Check class="otx-muted" title="Also find near matches" isOn={isFuzzy.value} onChange={isOn => ((isFuzzy.value = isOn), search())}>
        {' fuzzy'}
      </Check>
      {button('↑', 'Previous', -1)}
      {button('↓', 'Next', 1)}
      <span class="otx-muted otx-count" role="status">{count()}</span>
    </div>
  );
  return { view, close: searchSoon.cancel };
}

/** `count`: how many children it has. */
type Child = { key: string | number; kind: string; preview: string; count: number };

/** A place of the tree that has children, as far as they are loaded. */
interface Branch {
  path: Path;
  isOpen: Signal<boolean>;
  children: Signal<(Child & { branch: Branch | null })[]>;
  /** The button below the children that loads those from `offset` on. */
  more: Signal<typeof FIRST | null>;
  isAsked: boolean;
}

const FIRST = { words: 'Try again', offset: 0 };
const branchOf = (path: Path): Branch => ({ path, isOpen: signal(false), children: signal([]), more: signal(null), isAsked: false });

function createTree(requests: Requests, result: Result, onPick: Pick): Pane {
  const status = signal('');
  const root = branchOf([]);
  let opened = 0;

  /** Load more children of a branch; where that fails, the button in their place tries again. */
  async function load(branch: Branch, more = FIRST): Promise<void> {
    branch.isAsked = true;
    branch.more.value = null;
    const reply = await requests.once<{ children: Child[]; total: number }>('tree', {
      ...keyOf(result), path: branch.path, offset: more.offset, limit: 100
    });
    if (reply.status === 'late') return;
    status.value = reply.status === 'failed' ? reply.error.message : '';
    if (reply.status === 'failed') {
      branch.more.value = more;
      return;
    }
    const { children, total } = reply.value;
    const offset = more.offset + children.length;
    const added = children.map(child => ({ ...child, branch: child.count ? branchOf([...branch.path, child.key]) : null }));
    branch.children.value = [...branch.children.peek(), ...added];
    if (offset < total) branch.more.value = { words: `${number(total - offset)} more`, offset };
    const isSmall = (result.bytes ?? Infinity) <= SMALL_BYTES;
    for (const { branch: inner } of added) if (inner && isSmall && (opened += 1) <= MAX_OPEN) toggle(inner);
  }

  async function copy(path: Path): Promise<void> {
    const text = path.map(part => `[${JSON.stringify(part)}]`).join('');
    status.value = (await copyText(text)) ? `copied ${text}` : text;
  }

  function toggle(branch: Branch): void {
    branch.isOpen.value = !branch.isOpen.peek();
    if (!branch.isAsked) void load(branch);
  }

  function drawChildren(parent: Branch): ComponentChild {
    const { path, children, more } = parent;
    return [
      ...children.value.map(({ key, kind, preview, branch }, at) => {
        const own = [...path, key];
        const words = <><span class="otx-key">{key}</span>: <span class="otx-value" data-kind={kind}>{preview}</span></>;
        return (
          <li key={at} role="treeitem" aria-expanded={branch?.isOpen.value}>
            {branch ? (
              <button class="otx-expand" type="button" onClick={() => toggle(branch)}>{words}</button>
            ) : <span class="otx-leaf">{words}{tools(own, key)}</span>}
            {branch ? tools(own, key) : null}
            {branch ? <ul role="group" hidden={!branch.isOpen.value}>{drawChildren(branch)}</ul> : null}
          </li>
        );
      }),
      more.value ? (
        <li key="more of them" class="otx-more" role="none">
          <button class="otx-small" type="button" onClick={() => load(parent, more.peek()!)}>{more.value.words}</button>
        </li>
      ) : null
    ];
  }

  function tools(path: Path, key: string | number): ComponentChild {
    return (
      <>
        <button
          class="otx-small otx-path" type="button" title="Copy the path" aria-label={`Copy the path of ${key}`} onClick={() => copy(path)}
        >
          path
        </button>
        {onPick ? (
          <button
            class="otx-small otx-path" type="button" title="Keep only this" aria-label={`Keep only ${key}`}
            onClick={() => onPick(expressionOf(path))}
          >
            keep
          </button>
        ) : null}
      </>
    );
  }

  const view = () => (
    <div class="otx-pane">
      <div class="otx-bar"><span class="otx-muted" role="status">{status.value}</span></div>
      <div class="otx-scroll" tabIndex={0} role="group" aria-label="Tree">
        <ul class="otx-tree" role="tree" aria-label="Result as a tree">{drawChildren(root)}</ul>
      </div>
    </div>
  );
  return { view, start: () => load(root), close: () => requests.close() };
}

/** The images of a result, and the text between them. */
function createImage(requests: Requests, result: Result): Pane {
  const image = requests.latest<{ parts: { text?: string; mime?: string; base64?: string }[] }>('image');
  const view = () => (
    <div class="otx-pane otx-image" tabIndex={0} role="group" aria-label="Image">
      {image.failure.value ? <Failure of={image} /> : image.value.value ? null : <span class="otx-muted">…</span>}
      {image.value.value?.parts.map(({ text, mime, base64 }, at) => (mime ? (
        <img key={at} src={`data:${mime};base64,${base64}`} alt={`Image given by ${result.tool || 'the tool'}`} />
      ) : <pre key={at}>{text}</pre>))}
    </div>
  );
  return { view, start: () => image.send(keyOf(result)), close: () => requests.close() };
}
