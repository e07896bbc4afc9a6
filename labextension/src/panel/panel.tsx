/**
 * The side panel: the tools of the front notebook's kernel, the bundles of its project, its MCP servers, its usage and
 * its health.
 * Owns which notebook the panel follows, and which of the five views it shows.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { LabIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { type ComponentChildren, render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import type { IKernelReport, KernelConnection } from './kernelConnection';
import { NotebookTools } from './notebook';
import { RestClient } from './restClient';
import { addTabKeys, h, type IHttpPlace, type IWantedTool, reconcile, Requests } from '../screens/index.js';
import { VERSION } from './version';

export const PANEL_ID = 'onetool-ipy-panel';

export const toolsIcon = new LabIcon({
  name: 'onetool-ipy:tools',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M9 4h6a2 2 0 0 1 2 2v2h3a2 2 0 0 1 2 2v3h-6v-1h-3v1h-2v-1H8v1H2v-3a2 2 0 0 1 2-2h3V6a2 2 0 0 1 2-2zm0 2v2h6V6z"/>
  <path class="jp-icon3" fill="#616161" d="M2 14.5h6v1.5h3v-1.5h2v1.5h3v-1.5h6V18a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z"/>
</svg>`
});

export type View = 'tools' | 'bundles' | 'servers' | 'ask' | 'usage' | 'health';
/** What the tabs are called, in order. Two views share the tab Status: five tabs do not fit into the panel's usual width. */
const TITLES: Record<View | 'status', string> = { tools: 'Tools', bundles: 'Bundles', servers: 'Servers', ask: 'Ask', status: 'Status', health: 'Health', usage: 'Usage' };
const MAIN_TABS = ['tools', 'bundles', 'servers', 'ask', 'status'] as const;
const STATUS_VIEWS = ['health', 'usage'] as const;
const VIEWS: View[] = ['tools', 'bundles', 'servers', 'ask', 'health', 'usage'];
/** What is shown in place of a view that has nothing to show yet. */
const MISSING: Partial<Record<View, string>> = {
  bundles: 'Open a notebook to see the bundles of its project.',
  servers: 'MCP servers appear here once onetool_ipy is loaded in a kernel.',
  ask: 'You can ask a model here once onetool_ipy is loaded in a kernel.',
  health: 'Open a notebook to see the health of its tools.',
  usage: 'Usage appears here once onetool_ipy is loaded in a kernel.'
};

const STATE_TEXTS: Record<string, string> = {
  other: 'This kernel is not Python; it has no tools.',
  connecting: 'Connecting to the kernel …',
  missing: 'onetool_ipy is not loaded in this kernel.',
  none: 'This notebook has no kernel. Choose one in the menu: Kernel > Change Kernel.'
};

export class ToolsPanel extends Widget {
  constructor(
    tracker: INotebookTracker,
    private readonly server: ServerConnection.ISettings,
    private readonly onOpenFile: (path: string, line: number | null) => void
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('onetool-Panel');
    this.title.caption = 'Tools';
    this.title.icon = toolsIcon;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Tools');
    this.node.append(this._inner);
    window.addEventListener('pagehide', () => this._closeAll());
    tracker.currentChanged.connect((_, notebook) => this._follow(notebook));
    this._follow(tracker.currentWidget);
    this._inner.querySelectorAll<HTMLElement>('.onetool-Panel-tabs, .onetool-Panel-subtabs').forEach(addTabKeys);
  }

  /** Emitted when the panel follows another notebook, or its kernel reports a change. */
  readonly updated = new Signal<this, void>(this);

  /** Emitted when the user wants to make or edit an HTTP tool. */
  readonly edited = new Signal<this, IHttpPlace>(this);

  /** Emitted when the user wants to import a document. */
  readonly importing = new Signal<this, void>(this);

  /** Emitted with a tool that the user wants to open. */
  readonly toolOpened = new Signal<this, IWantedTool>(this);

  /** Emitted with the handle of a stored result that the user wants to see. */
  readonly resultOpened = new Signal<this, string>(this);

  /** Emitted with the name of a server that the user wants to look at. */
  readonly serverOpened = new Signal<this, string>(this);

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

  /** The connection to a notebook's kernel. */
  connectionOf(notebook: NotebookPanel): KernelConnection {
    return (this._notebooks.get(notebook) ?? this._open(notebook)).connection;
  }

  selectView(view: View): void {
    this._view = view;
    this._statusView = isStatus(view) ? view : this._statusView;
    const known = this._held.usage;
    this._render();
    if (view === 'usage' && known && known === this._held.usage) void this._current?.usage?.load();
  }

  /** Open a tool's page, or show the tools of a pack. Returns whether the panel shows it. */
  async showTool(name: string): Promise<boolean> {
    this.selectView('tools');
    return (await this._current?.browser?.find(name)) ?? true;
  }

  /** Show the bundles after a tool was saved in an editor. */
  showSaved(name: string): void {
    void this._current?.bundles.saved(name);
  }

  /** Load the bundles again after one was changed in an editor. */
  loadBundles(): void {
    void this._current?.bundles.load();
  }

  override dispose(): void {
    this._closeAll();
    Signal.clearData(this);
    super.dispose();
  }

  protected override onActivateRequest(): void {
    this._inner.querySelector<HTMLElement>('.onetool-Panel-tabs > [aria-selected="true"]')?.focus();
  }

  /** Close the connections to all kernels. */
  private _closeAll(): void {
    for (const tools of this._notebooks.values()) {
      tools.close();
    }
    this._notebooks.clear();
    this._current = null;
  }

  private _follow(notebook: NotebookPanel | null): void {
    if (notebook === this.notebook && this._current) {
      return;
    }
    this._current = notebook ? (this._notebooks.get(notebook) ?? this._open(notebook)) : null;
    this._held = {};
    this._draw();
  }

  private _open(notebook: NotebookPanel): NotebookTools {
    const tools = new NotebookTools(notebook, this.server, { onTrust: () => void this.askTrust(), onServer: (name, action) => void this._actOnServer(name, action), onOpen: this.onOpenFile });
    this._notebooks.set(notebook, tools);
    tools.edited.connect((_, place) => this.edited.emit(place));
    tools.importing.connect(() => this.importing.emit());
    tools.serverOpened.connect((_, name) => this.serverOpened.emit(name));
    tools.toolOpened.connect((_, wanted) => this.toolOpened.emit(wanted));
    tools.resultOpened.connect((_, handle) => this.resultOpened.emit(handle));
    tools.changed.connect(() => {
      if (tools === this._current) {
        this._draw();
      }
    });
    notebook.disposed.connect(() => {
      this._notebooks.delete(notebook);
      tools.close();
    });
    return tools;
  }

  private _draw(): void {
    if (this.isDisposed) {
      return;
    }
    this._render();
    if (this.connection?.state === 'connected' && this._serverVersion === null) {
      void this._requestServerVersion();
    }
    this.updated.emit();
  }

  /** Draw the panel from what is known now: elements that stay keep their focus and what was filled in. */
  private _render(): void {
    this._holdScreens();
    const { connection, _view: view } = this;
    const report = connection?.report ?? null;
    const counts: Partial<Record<View | 'status', number>> = { servers: downServers(report).length, status: report?.problems.length, health: report?.problems.length };
    const tab = (each: View | 'status') => {
      const isSelected = each === view || (each === 'status' && isStatus(view));
      const count = counts[each] ?? 0;
      return (
        <button key={each} class="otx-tab" type="button" role="tab" id={`${PANEL_ID}-${each}-tab`} aria-controls={`${PANEL_ID}-${each}`} data-view={each} aria-selected={isSelected} tabIndex={isSelected ? 0 : -1} onClick={() => this.selectView(each === 'status' ? this._statusView : each)}>
          {TITLES[each]}{count ? <span class="onetool-Panel-count">{count > 9 ? '9+' : count}</span> : null}
        </button>
      );
    };
    const status = this._status();
    render(
      <>
        <Held class="onetool-Panel-questions" elements={this._questions()} />
        <div class="otx-tabs onetool-Panel-tabs" role="tablist" aria-label="Views">{MAIN_TABS.map(tab)}</div>
        <div class="otx-tabs onetool-Panel-subtabs" role="tablist" aria-label="Status" id={`${PANEL_ID}-status`} hidden={!isStatus(view)}>{STATUS_VIEWS.map(tab)}</div>
        <div class="onetool-Panel-status" role="status" hidden={!status}>{status}</div>
        {VIEWS.map(each => <Held key={each} class={`onetool-Panel-view onetool-Panel-${each}`} role="tabpanel" id={`${PANEL_ID}-${each}`} aria-labelledby={`${PANEL_ID}-${each}-tab`} tabIndex={-1} hidden={each !== view} elements={this._elementsOf(each)} />)}
      </>,
      this._inner
    );
  }

  /** The screens that are shown; one stays to be read when its kernel is gone. Those that are not in view are not made for it. */
  private _holdScreens(): void {
    const { _current: current, _view: view } = this;
    const hold = (each: View, element: HTMLElement | undefined): boolean => {
      const isNew = element !== undefined && element !== this._held[each];
      this._held[each] = element ?? this._held[each];
      return isNew;
    };
    hold('tools', current?.tools);
    hold('health', current?.health.element);
    if (view === 'bundles') hold('bundles', current?.bundles.element);
    if (view === 'usage') hold('usage', current?.usage?.element);
    if (view === 'ask' && hold('ask', current?.ask?.element)) void current?.ask?.load();
    if (view === 'servers' && hold('servers', current?.servers?.element)) void current?.servers?.load();
  }

  private _elementsOf(view: View): HTMLElement[] {
    const element = this._held[view];
    if (element) return [element];
    const words = MISSING[view];
    return words ? [(this._words[view] ??= h('p.otx-muted', null, words))] : [];
  }

  /** The questions of the kernel. One that stays is not made again, so that it keeps what was filled in. */
  private _questions(): HTMLElement[] {
    const ids = [...(this.connection?.questions.keys() ?? [])];
    this._drawnQuestions = new Map(ids.map(id => [id, this._drawnQuestions.get(id) ?? this.connection!.drawQuestion(id)!]));
    return [...this._drawnQuestions.values()];
  }

  /** What there is to say of the kernel; null for nothing. */
  private _status(): ComponentChildren {
    const state = this.connection?.state ?? 'none';
    if (state === 'missing') return this._missing(this.connection!);
    const notes = state === 'connected' ? this._notes() : [this.notebook ? STATE_TEXTS[state] : 'Open a notebook to see its tools.'];
    if (state === 'connecting' && this.connection?.isBusy) notes[0] = 'The kernel is busy; its tools are shown when it is free.';
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
        <button class="otx-run" type="button" aria-disabled={isOn} onClick={() => void this.connection?.load()}>{isOn ? 'Loading …' : 'Load it'}</button>
        {isBusy ? <p>{isOn ? 'The kernel is busy; it is loaded when the cell has ended.' : 'The kernel is busy.'}</p> : null}
        {failure ? <div class="otx-failure" role="alert">{failure}<p>Install it for this kernel: %pip install onetool-ipy</p></div> : null}
      </>
    );
  }

  private _notes(): string[] {
    const version = this.connection?.report?.version;
    const notes = this.connection?.isBusy && this._view !== 'ask' ? ['A cell is running: you see the last known state.'] : [];
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
    this.selectView('servers');
    await this._current?.servers?.act(name, action);
    await this.connection?.refresh();
  }

  /** Show the question whether to trust the project. */
  async askTrust(): Promise<void> {
    this.selectView('tools');
    await this._current?.browser?.askTrustAgain();
  }

  private readonly _inner: HTMLElement = h('div.otx.onetool-Panel-inner', { 'data-lm-suppress-shortcuts': 'true' });
  private readonly _notebooks = new Map<NotebookPanel, NotebookTools>();
  private readonly _words: Partial<Record<View, HTMLElement>> = {};
  private _held: Partial<Record<View, HTMLElement>> = {};
  private _current: NotebookTools | null = null;
  private _view: View = 'tools';
  private _statusView: View = 'health';
  private _serverVersion: string | null = null;
  private _drawnQuestions = new Map<string, HTMLElement>();
}

/** A box for elements that draw themselves, such as the screens. */
function Held({ elements, ...props }: { elements: HTMLElement[] } & Record<string, unknown>) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => reconcile(box.current!, elements));
  return <div ref={box} {...props} />;
}

function isStatus(view: View): boolean {
  return view === 'health' || view === 'usage';
}

const DOWN_STATES = ['failed', 'unreachable', 'wrong address', 'refused', 'signed out', 'disconnected'];

/** The MCP servers that did not start or have stopped. */
export function downServers(report: IKernelReport | null): string[] {
  return Object.entries(report?.servers ?? {})
    .filter(([, { state }]) => DOWN_STATES.includes(state))
    .map(([name]) => name);
}
