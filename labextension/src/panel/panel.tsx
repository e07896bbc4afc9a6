/**
 * The side panel: the tools of the front notebook's kernel, the history of its calls, where its tools come from, and
 * the conversations with models; at its foot how the project is.
 * Owns which notebook the panel follows, and which of the four views it shows.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { LabIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { type ComponentChildren, type Key, render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import type { IKernelReport, KernelConnection } from './kernelConnection';
import { type IPlaces, NotebookTools } from './notebook';
import { RestClient } from './restClient';
import type { ToolBrowser } from '../screens/browser.js';
import { elementOf, keepFocus } from '../screens/dom.js';
import { counted, STATES } from '../screens/format.js';
import { Dot, Placed, Tabs } from '../screens/parts.js';
import { Requests } from '../screens/requests.js';
import { opensFiles } from './questionOutput';
import { VERSION } from './version';

export const PANEL_ID = 'onetool-ipy-panel';

export const toolsIcon = new LabIcon({
  name: 'onetool-ipy:tools',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M9 4h6a2 2 0 0 1 2 2v2h3a2 2 0 0 1 2 2v3h-6v-1h-3v1h-2v-1H8v1H2v-3a2 2 0 0 1 2-2h3V6a2 2 0 0 1 2-2zm0 2v2h6V6z"/>
  <path class="jp-icon3" fill="#616161" d="M2 14.5h6v1.5h3v-1.5h2v1.5h3v-1.5h6V18a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z"/>
</svg>`
});

const VIEWS = [['tools', 'Tools'], ['history', 'History'], ['sources', 'Sources'], ['ask', 'Ask']] as const;
export type View = (typeof VIEWS)[number][0];
/** What holds the views: the tools and the history are both in the tool browser. */
const PLACES = ['tools', 'sources', 'ask'] as const;
type Place = (typeof PLACES)[number];
type Part = Place | 'health';
/** What is shown in place of a part that has nothing to show yet. */
const MISSING: Partial<Record<Part, string>> = {
  sources: 'Open a notebook to see where its tools come from.',
  ask: 'You can ask a model here once onetool_ipy is loaded in a kernel.',
  health: 'Open a notebook to see the health of its tools.'
};

const STATE_TEXTS: Record<string, string> = {
  other: 'This kernel is not Python; it has no tools.',
  connecting: 'Connecting to the kernel …',
  missing: 'onetool_ipy is not loaded in this kernel.',
  none: 'This notebook has no kernel. Choose one in the menu: Kernel > Change Kernel.'
};

/** What *Write a function* puts into a cell: it runs as it is, and every line of it is there to be changed. */
const FIRST_TOOL = `from onetool_ipy import tool

@tool
def greet(name: str, times: int = 1) -> str:
    "Say hello to somebody."
    return " ".join([f"Hello {name}!"] * times)`;

export class ToolsPanel extends Widget {
  constructor(
    tracker: INotebookTracker,
    private readonly server: ServerConnection.ISettings,
    private readonly places: IPlaces
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('onetool-Panel');
    this.title.caption = 'Tools';
    this.title.icon = toolsIcon;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Tools');
    this.node.append(this._inner);
    opensFiles(this.node, path => places.file(path, null));
    window.addEventListener('pagehide', () => this._closeAll());
    tracker.currentChanged.connect((_, notebook) => this._follow(notebook));
    this._follow(tracker.currentWidget);
    this._releaseFocus = keepFocus(this._inner);
  }

  /** Emitted when the panel follows another notebook, or its kernel reports a change. */
  readonly updated = new Signal<this, void>(this);

  get connection(): KernelConnection | null {
    return this._current?.connection ?? null;
  }

  get notebook(): NotebookPanel | null {
    return this._current?.notebook ?? null;
  }

  /** The tools of the notebook that the panel follows. */
  get current(): NotebookTools | null {
    return this._current;
  }

  /** Why no kernel answers, as far as the panel knows. */
  get reason(): string {
    const { state, isBusy } = this.connection ?? {};
    if (!state) return 'Open a notebook to see its tools.';
    if (state === 'connecting' && isBusy) return 'The kernel is busy; its tools are shown when it is free.';
    return STATE_TEXTS[state] ?? 'The kernel does not answer yet. Try again when it is free.';
  }

  /** The connection to a notebook's kernel. */
  connectionOf(notebook: NotebookPanel): KernelConnection {
    return (this._notebooks.get(notebook) ?? this._open(notebook)).connection;
  }

  /** Show a view. */
  selectView(view: View): void {
    this._view = view;
    if (view === 'tools' || view === 'history') this._current?.browser?.select(view);
    if (view === 'sources') void this._current?.sources.load();
    this._render();
  }

  /** Show where a source is added. */
  addSource(): void {
    this.selectView('sources');
    this._current?.sources.adding.focus();
  }

  /** Unfold the health at the panel's foot, or fold it. */
  showHealth(isOpen: boolean): void {
    this._isHealthOpen = isOpen;
    this._render();
  }

  /** Open a tool's page, or show the tools of a pack. Returns whether the panel shows it. */
  async showTool(name: string): Promise<boolean> {
    this.selectView('tools');
    return (await this._current?.browser?.find(name)) ?? true;
  }

  /** Show the bundle of a tool that was saved in an editor. */
  showSaved(name: string): void {
    void this._current?.sources.saved(name);
  }

  /** Load the bundles again after one was changed in an editor. */
  loadBundles(): void {
    void this._current?.sources.load();
  }

  override dispose(): void {
    this._closeAll();
    this._releaseFocus();
    Signal.clearData(this);
    super.dispose();
  }

  protected override onActivateRequest(): void {
    this._inner.querySelector<HTMLElement>('.onetool-Panel-tabs > [aria-selected="true"]')?.focus();
  }

  /** Close the connections to all kernels. */
  private _closeAll(): void {
    for (const tools of this._notebooks.values()) tools.close();
    this._notebooks.clear();
    this._current = null;
  }

  private _follow(notebook: NotebookPanel | null): void {
    if (notebook === this.notebook && this._current) return;
    this._current = notebook ? (this._notebooks.get(notebook) ?? this._open(notebook)) : null;
    this._held = {};
    this._draw();
  }

  private _open(notebook: NotebookPanel): NotebookTools {
    const tools = new NotebookTools(notebook, this.server, {
      ...this.places,
      pack: name => void this.showTool(name),
      onTrust: () => void this.askTrust(),
      onServer: (name, action) => void this._actOnServer(name, action)
    });
    this._notebooks.set(notebook, tools);
    tools.changed.connect(() => {
      if (tools === this._current) this._draw();
    });
    notebook.disposed.connect(() => {
      this._notebooks.delete(notebook);
      tools.close();
    });
    return tools;
  }

  private _draw(): void {
    if (this.isDisposed) return;
    this._render();
    if (this.connection?.state === 'connected' && this._serverVersion === null) void this._requestServerVersion();
    this.updated.emit();
  }

  /** Draw the panel from what is known now. */
  private _render(): void {
    this._holdScreens();
    const { connection, _view: view } = this;
    const report = connection?.report ?? null;
    const down = downServers(report);
    const count = down ? <span class="onetool-Panel-count" title={`${counted(down, 'server')} down`}>{down > 9 ? '9+' : down}</span> : null;
    // Whoever points at Sources wants to add one, mostly; with the arrow keys one goes on to the next tab.
    const select = (each: View, event: MouseEvent): void => (each === 'sources' && event.detail ? this.addSource() : this.selectView(each));
    const status = this._status();
    render(
      <>
        <div class="onetool-Panel-questions">
          {[...(connection?.questions.keys() ?? [])].map(id => <Question key={id} id={id} connection={connection!} />)}
        </div>
        <Tabs
          label="Views" class="onetool-Panel-tabs" id={PANEL_ID} panel={placeOf}
          tabs={VIEWS.map(([each, title]) => [each, title, each === 'sources' ? count : null])} selected={view} onSelect={select}
        />
        <div class="onetool-Panel-status" role="status" hidden={!status}>{status}</div>
        {this._beginnings()}
        {PLACES.map(each => this._place(
          each,
          {
            class: `onetool-Panel-view onetool-Panel-${each}`, role: 'tabpanel',
            'aria-labelledby': `${PANEL_ID}-${each === placeOf(view) ? view : each}-tab`, tabIndex: -1, hidden: each !== placeOf(view)
          }
        ))}
        {this._foot(report)}
      </>,
      this._inner
    );
  }

  /** The screen that a part holds, or what is said in its place. */
  private _place(part: Part, attributes: Record<string, unknown>): ComponentChildren {
    const [element, id] = [this._held[part], `${PANEL_ID}-${part}`];
    if (element) return <Placed key={part} id={id} element={element} {...attributes} />;
    return <div key={`no ${part}`} id={id} {...attributes}>{MISSING[part] ? <p class="otx-muted">{MISSING[part]}</p> : null}</div>;
  }

  /** How the project is, in one line that unfolds to its problems. */
  private _foot(report: IKernelReport | null): ComponentChildren {
    const problems = report?.problems.length ?? 0;
    const mark = problems ? 'failed' : report ? 'ok' : 'idle';
    return (
      <footer class="onetool-Panel-foot">
        {this._place('health', { class: 'onetool-Panel-health', role: 'region', 'aria-label': 'Health', hidden: !this._isHealthOpen })}
        <div class="otx-bar">
          <button
            class="otx-expand onetool-Panel-problems" type="button" title="Health: the tools, the servers, and what is wrong"
            aria-expanded={this._isHealthOpen} aria-controls={`${PANEL_ID}-health`} onClick={() => this.showHealth(!this._isHealthOpen)}
          >
            <Dot mark={mark} /> {report ? (problems ? counted(problems, 'problem') : 'No problems') : 'Health'}
          </button>
          {report ? (
            <button
              class="otx-small" type="button" title="How often tools were called, how long they took, and what failed"
              onClick={() => this.places.usage()}
            >
              Usage
            </button>
          ) : null}
        </div>
      </footer>
    );
  }

  /** How to begin, while the project has no tool of its own. */
  private _beginnings(): ComponentChildren {
    const { report } = this.connection ?? {};
    if (!report || report.own || Object.keys(report.servers).length || this._view !== 'tools') return null;
    return (
      <div class="onetool-Panel-beginnings" role="group" aria-label="How to begin">
        <p>No tool is your own yet.</p>
        <button class="otx-small" type="button" onClick={() => void this._current?.insert(FIRST_TOOL)}>Write a function</button>
        <button class="otx-small" type="button" onClick={() => this.addSource()}>Paste a curl command</button>
        <button class="otx-small" type="button" onClick={() => this.addSource()}>Add an MCP server</button>
      </div>
    );
  }

  /** The screens that are shown; one stays to be read when its kernel is gone. One that is not in view is not made for it. */
  private _holdScreens(): void {
    const { _current: current, _view: view } = this;
    // The browser of another notebook, or one that was made by now, may show the other of its two views.
    const browser = current?.browser ?? null;
    if (browser && browser !== this._browser && (view === 'tools' || view === 'history')) browser.select(view);
    this._browser = browser;
    const hold = (each: Part, element: HTMLElement | undefined): void => void (this._held[each] = element ?? this._held[each]);
    this._held.tools = browser?.element;
    hold('health', current?.health.element);
    if (view === 'sources') hold('sources', current?.sources.element);
    if (view === 'ask' && current?.ask && this._held.ask !== current.ask.element) {
      hold('ask', current.ask.element);
      void current.ask.load();
    }
  }

  /** What there is to say of the kernel; null for nothing. */
  private _status(): ComponentChildren {
    const state = this.connection?.state ?? 'none';
    if (state === 'missing') return this._missing(this.connection!);
    const notes = state === 'connected' ? this._notes() : [this.reason];
    return notes.length ? notes.map(note => <p key={note}>{note}</p>) : null;
  }

  /**
   * Offer to load the extension, and show that it loads or why it failed. What comes and goes stands below the button, which
   * does not move while the user presses it.
   */
  private _missing({ loading: { isOn, failure }, isBusy }: KernelConnection): ComponentChildren {
    return (
      <>
        <p>{STATE_TEXTS.missing}</p>
        <button class="otx-run" type="button" aria-disabled={isOn} onClick={() => void this.connection?.load()}>
          {isOn ? 'Loading …' : 'Load it'}
        </button>
        {isBusy ? <p>{isOn ? 'The kernel is busy; it is loaded when the cell has ended.' : 'The kernel is busy.'}</p> : null}
        {failure ? <div class="otx-failure" role="alert">{failure}<p>Install it for this kernel: %pip install onetool-ipy</p></div> : null}
      </>
    );
  }

  private _notes(): string[] {
    const version = this.connection?.report?.version;
    const isCurrent = this._view === 'ask' || (this._view === 'history' && this.connection?.hasSubshell);
    const notes = this.connection?.isBusy && !isCurrent ? ['A cell is running: you see the last known state.'] : [];
    if (version && version !== VERSION) {
      notes.push(`The kernel has onetool_ipy ${version}, this panel has ${VERSION}. Install the same version for both.`);
    } else if (version && this._serverVersion && version !== this._serverVersion) {
      notes.push(`The kernel has onetool_ipy ${version}, the server has ${this._serverVersion}. Restart the one that was updated.`);
    }
    return notes;
  }

  private readonly _requests = new Requests(null);

  private async _requestServerVersion(): Promise<void> {
    this._serverVersion = '';
    const reply = await this._requests.onceOf(() => new RestClient(this.server, '').version());
    this._serverVersion = reply.status === 'ok' ? reply.value : '';
    if (this._serverVersion) this._render();
  }

  private async _actOnServer(name: string, action: string): Promise<void> {
    this.selectView('sources');
    const tools = this._current; // another notebook may be in front by then
    await tools?.servers?.act(name, action);
    await tools?.connection.refresh();
  }

  /** Show the question whether to trust the project. */
  async askTrust(): Promise<void> {
    this.selectView('tools');
    await this._current?.browser?.askTrustAgain();
  }

  private readonly _inner = elementOf('div.otx.onetool-Panel-inner');
  private readonly _releaseFocus: () => void;
  private readonly _notebooks = new Map<NotebookPanel, NotebookTools>();
  private _held: Partial<Record<Part, HTMLElement>> = {};
  private _current: NotebookTools | null = null;
  private _browser: ToolBrowser | null = null;
  private _view: View = 'tools';
  private _isHealthOpen = false;
  private _serverVersion: string | null = null;
}

/** A question of the kernel. While it stays it is not made again, so that it keeps what was filled in. */
function Question({ id, connection }: { id: string; connection: KernelConnection; key?: Key }) {
  const place = useRef<HTMLDivElement>(null);
  // Not while the panel is drawn: a question draws itself at once, and one drawing within another breaks both.
  useLayoutEffect(() => place.current!.replaceChildren(connection.drawQuestion(id)!), [connection, id]);
  return <div ref={place} />;
}

function placeOf(view: View): Place {
  return view === 'history' ? 'tools' : view;
}

/** How many MCP servers did not start or have stopped. */
export function downServers(report: IKernelReport | null): number {
  return Object.values(report?.servers ?? {}).filter(({ state }) => STATES[state] === 'failed' || state === 'signed out').length;
}
