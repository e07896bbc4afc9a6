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

import type { IKernelReport, KernelConnection } from './kernelConnection';
import { NotebookTools } from './notebook';
import { RestClient } from './restClient';
import { addTabKeys, fill, h, type IHttpPlace, reconcile, Requests, selectTab, show } from '../screens/index.js';
import { VERSION } from './version';

export const PANEL_ID = 'onetool-ipy-panel';

export const toolsIcon = new LabIcon({
  name: 'onetool-ipy:tools',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" d="M9 4h6a2 2 0 0 1 2 2v2h3a2 2 0 0 1 2 2v3h-6v-1h-3v1h-2v-1H8v1H2v-3a2 2 0 0 1 2-2h3V6a2 2 0 0 1 2-2zm0 2v2h6V6z"/>
  <path class="jp-icon3" fill="#616161" d="M2 14.5h6v1.5h3v-1.5h2v1.5h3v-1.5h6V18a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2z"/>
</svg>`
});

export type View = 'tools' | 'bundles' | 'servers' | 'usage' | 'health';
const VIEWS: [View, string][] = [
  ['tools', 'Tools'],
  ['bundles', 'Bundles'],
  ['servers', 'Servers'],
  ['health', 'Health'],
  ['usage', 'Usage']
];
/** The views that share the tab Status: five tabs do not fit into the panel's usual width. */
const STATUS_VIEWS: View[] = ['health', 'usage'];

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
    this._status = h('div.onetool-Panel-status', { role: 'status' });
    this._tabs = addTabKeys(h('div.otx-tabs.onetool-Panel-tabs', { role: 'tablist', 'aria-label': 'Views' }));
    for (const [view, title] of VIEWS) {
      const id = `${PANEL_ID}-${view}`;
      const tab = h('button.otx-tab', { type: 'button', role: 'tab', id: `${id}-tab`, 'aria-controls': id, data: { view }, onclick: () => this.selectView(view) }, title);
      const box = h(`div.onetool-Panel-view.onetool-Panel-${view}`, { role: 'tabpanel', id, 'aria-labelledby': `${id}-tab`, tabindex: '-1' });
      (STATUS_VIEWS.includes(view) ? this._statusTabs : this._tabs).append(tab);
      this._boxes[view] = box;
    }
    this._tabs.append(h('button.otx-tab', { type: 'button', role: 'tab', id: `${PANEL_ID}-status-tab`, 'aria-controls': `${PANEL_ID}-status`, data: { view: 'status' }, onclick: () => this.selectView(this._statusView) }, 'Status'));
    const inner = h('div.otx.onetool-Panel-inner', { 'data-lm-suppress-shortcuts': 'true' }, this._questions, this._tabs, this._statusTabs, this._status, Object.values(this._boxes));
    this.node.append(inner);
    window.addEventListener('pagehide', () => this._closeAll());
    tracker.currentChanged.connect((_, notebook) => this._follow(notebook));
    this._follow(tracker.currentWidget);
    this.selectView('tools');
  }

  /** Emitted when the panel follows another notebook, or its kernel reports a change. */
  readonly updated = new Signal<this, void>(this);

  /** Emitted when the user wants to make or edit an HTTP tool. */
  readonly edited = new Signal<this, IHttpPlace>(this);

  /** Emitted when the user wants to import a document. */
  readonly importing = new Signal<this, void>(this);

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
    const isStatus = STATUS_VIEWS.includes(view);
    this._statusView = isStatus ? view : this._statusView;
    selectTab(this._tabs, tab => tab.dataset.view === (isStatus ? 'status' : view));
    selectTab(this._statusTabs, tab => tab.dataset.view === view);
    show(this._statusTabs, isStatus);
    for (const [each, box] of Object.entries(this._boxes)) {
      show(box, each === view);
    }
    this._drawBundles();
    this._drawServers();
    if (!this._drawUsage()) {
      void this._current?.usage?.load();
    }
  }

  /** Show a tool's page, or the tools of a pack. */
  async showTool(name: string): Promise<void> {
    this.selectView('tools');
    await this._current?.browser?.find(name);
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
    (this._tabs.querySelector('[aria-selected="true"]') as HTMLElement | null)?.focus();
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
    fill(this._boxes.tools, this._current?.tools);
    fill(this._boxes.bundles);
    fill(this._boxes.servers);
    fill(this._boxes.health);
    fill(this._boxes.usage);
    this._draw();
  }

  private _open(notebook: NotebookPanel): NotebookTools {
    const tools = new NotebookTools(notebook, this.server, { onTrust: () => void this.askTrust(), onServer: (name, action) => void this._actOnServer(name, action), onOpen: this.onOpenFile });
    this._notebooks.set(notebook, tools);
    tools.edited.connect((_, place) => this.edited.emit(place));
    tools.importing.connect(() => this.importing.emit());
    tools.serverOpened.connect((_, name) => this.serverOpened.emit(name));
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
    this._drawQuestions();
    this._drawStatus();
    this._drawHealth();
    this._drawBundles();
    this._drawServers();
    this._drawUsage();
    if (this.connection?.state === 'connected' && this._serverVersion === null) {
      void this._requestServerVersion();
    }
    this.updated.emit();
  }

  /** The questions of the kernel. One that stays is not drawn again, so that it keeps what was filled in. */
  private _drawQuestions(): void {
    const { connection } = this;
    const wanted = [...(connection?.questions.keys() ?? [])];
    if (wanted.join() !== [...this._drawnQuestions.keys()].join()) {
      this._drawnQuestions = new Map(wanted.map(id => [id, this._drawnQuestions.get(id) ?? connection!.drawQuestion(id)!]));
      reconcile(this._questions, [...this._drawnQuestions.values()]);
    }
  }

  private _drawStatus(): void {
    const state = this.connection?.state ?? 'none';
    if (state === 'missing') {
      this._drawMissing(this.connection!);
      return;
    }
    this._status.dataset.key = '';
    const notes = state === 'connected' ? this._notes() : [this.notebook ? STATE_TEXTS[state] : 'Open a notebook to see its tools.'];
    if (state === 'connecting' && this.connection?.isBusy) {
      notes[0] = 'The kernel is busy; its tools are shown when it is free.';
    }
    if (this._status.textContent !== notes.join('')) {
      fill(this._status, notes.map(note => h('p', null, note)));
    }
    show(this._status, notes.length > 0);
  }

  /** Offer to load the extension, and show that it loads or why it failed. */
  private _drawMissing(connection: KernelConnection): void {
    const { isOn, failure } = connection.loading;
    const key = JSON.stringify([isOn, failure, connection.isBusy]);
    show(this._status, true);
    if (this._status.dataset.key === key) {
      return;
    }
    this._status.dataset.key = key;
    const busy = isOn ? 'The kernel is busy; it is loaded when the cell has ended.' : 'The kernel is busy.';
    const failed = failure ? h('div.otx-failure', { role: 'alert' }, failure, h('p', null, 'Install it for this kernel: %pip install onetool-ipy')) : null;
    this._loadButton.setAttribute('aria-disabled', String(isOn));
    fill(this._loadButton, isOn ? 'Loading …' : 'Load it');
    // The button stays the same and what comes and goes stands below it: it does not move while the user presses it.
    reconcile(this._status, [h('p', null, STATE_TEXTS.missing), this._loadButton, connection.isBusy ? h('p', null, busy) : null, failed].filter(each => each !== null));
  }

  private _notes(): string[] {
    const version = this.connection?.report?.version;
    const notes = this.connection?.isBusy ? ['A cell is running: you see the last known state.'] : [];
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
    if (this._serverVersion) {
      this._drawStatus();
    }
  }

  private _drawHealth(): void {
    const report = this.connection?.report ?? null;
    this._drawTab('health', report?.problems.length ?? 0);
    this._drawTab('status', report?.problems.length ?? 0);
    this._drawScreen('health', this._current?.health ?? null, 'Open a notebook to see the health of its tools.');
  }

  /** The name of a view, and how many things in it need a look. */
  private _drawTab(view: View | 'status', count: number): void {
    const title = VIEWS.find(([each]) => each === view)?.[1] ?? 'Status';
    fill(this.node.querySelector(`[role="tab"][data-view="${view}"]`)!, title, count ? h('span.onetool-Panel-count', null, count > 9 ? '9+' : count) : null);
  }

  /** Show a screen of the kernel, or `missing` without one. Returns whether the box shows another element now. */
  private _drawScreen(view: View, screen: { element: HTMLElement } | null, missing: string): boolean {
    const box = this._boxes[view];
    const isNew = screen ? box.firstChild !== screen.element : !box.firstChild;
    if (isNew) {
      fill(box, screen?.element ?? h('p.otx-muted', null, missing));
    }
    return isNew;
  }

  /** Returns whether it is up to date: it is not in view, or it was opened just now and loads. */
  private _drawUsage(): boolean {
    return this._view !== 'usage' || this._drawScreen('usage', this._current?.usage ?? null, 'Usage appears here once onetool_ipy is loaded in a kernel.');
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

  private _drawServers(): void {
    const down = downServers(this.connection?.report ?? null);
    this._drawTab('servers', down.length);
    if (this._view !== 'servers') {
      return;
    }
    const servers = this._current?.servers ?? null;
    if (this._drawScreen('servers', servers, 'MCP servers appear here once onetool_ipy is loaded in a kernel.')) {
      void servers?.load();
    }
  }

  private _drawBundles(): void {
    if (this._view === 'bundles') {
      this._drawScreen('bundles', this._current?.bundles ?? null, 'Open a notebook to see the bundles of its project.');
    }
  }

  private readonly _questions: HTMLElement = h('div.onetool-Panel-questions');
  private readonly _tabs: HTMLElement;
  private readonly _statusTabs = addTabKeys(h('div.otx-tabs.onetool-Panel-subtabs', { role: 'tablist', 'aria-label': 'Status', id: `${PANEL_ID}-status` }));
  private readonly _status: HTMLElement;
  private readonly _loadButton: HTMLElement = h('button.otx-run', { type: 'button', onclick: () => void this.connection?.load() });
  private readonly _boxes = {} as Record<View, HTMLElement>;
  private readonly _notebooks = new Map<NotebookPanel, NotebookTools>();
  private _current: NotebookTools | null = null;
  private _view: View = 'tools';
  private _statusView: View = 'health';
  private _serverVersion: string | null = null;
  private _drawnQuestions = new Map<string, HTMLElement>();
}

const DOWN_STATES = ['failed', 'unreachable', 'wrong address', 'refused', 'signed out', 'disconnected'];

/** The MCP servers that did not start or have stopped. */
export function downServers(report: IKernelReport | null): string[] {
  return Object.entries(report?.servers ?? {})
    .filter(([, { state }]) => DOWN_STATES.includes(state))
    .map(([name]) => name);
}
