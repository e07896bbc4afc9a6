/**
 * The tools of one open notebook: the connection to its kernel, the tool browser on it, the bundles of its project, and
 * the calls that go into its cells. Created when the notebook first comes to the front and kept while it is open, so that
 * the user finds everything as before when coming back to it.
 */

import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import type { IDocument } from './addBox';
import { createNotebookAsk } from './askPlace';
import { type IKernelReport, KernelConnection } from './kernelConnection';
import { RestClient } from './restClient';
import { SourcesView } from './sources';
import { createBrowser, type ToolBrowser, type WantedTool } from '../screens/browser.js';
import { createHealth, type Health, type HealthActions } from '../screens/health.js';
import type { HttpPlace } from '../screens/httpEditor.js';
import { Requests } from '../screens/requests.js';
import { isEqual } from '../screens/schema.js';
import { createServers, type Servers } from '../screens/servers.js';
import type { Transport } from '../screens/transport.js';

/** The type of a dragged tool, beside plain text. */
const DRAG_TYPE = 'application/x-onetool-tool';
/** How often the calls of a running cell are shown, and how much more time passes between two looks than one of them takes. */
const LOOK_MS = 500;
const PAUSES = 4;

/** Shows what a person asks for in the panel, outside of it. */
export interface IPlaces {
  tool: (wanted: WantedTool) => void;
  httpTool: (place: HttpPlace) => void;
  /** Import this document, or one that is still to be chosen. */
  importing: (document?: IDocument) => void;
  server: (name: string) => void;
  /** A stored result, by its handle. */
  result: (handle: string) => void;
  usage: () => void;
  file: (path: string, line: number | null) => void;
}

/** What a notebook asks of the panel; `pack` shows the tools of a pack. */
type Actions = IPlaces & Omit<HealthActions, 'onOpen'> & { pack: (name: string) => void };

type Cell = NonNullable<NotebookPanel['content']['activeCell']>;

export class NotebookTools {
  constructor(
    readonly notebook: NotebookPanel,
    private readonly server: ServerConnection.ISettings,
    private readonly actions: Actions
  ) {
    this.connection = new KernelConnection(notebook.sessionContext);
    this._requests = new Requests(this.connection);
    this.health = createHealth({ source: this.connection, onRefresh: () => this.connection.refresh(), ...actions, onOpen: actions.file });
    this.connection.changed.connect(this._onConnectionChange, this);
    this.connection.cellEnded.connect(this._onCellEnd, this);
    this._stopDrops = acceptDrops(notebook, tool => void this.insertTool(tool));
  }

  readonly connection: KernelConnection;

  /** The health screen; a check that it began ends in it, also when another notebook is in front by then. */
  readonly health: Health;

  /** Emitted when the panel must be redrawn. */
  readonly changed = new Signal<this, void>(this);

  /** The MCP servers, once the kernel is connected. */
  get servers(): Servers | null {
    return this._servers;
  }

  /** The conversations with models, made when they are first wanted; null if no kernel is connected. */
  get ask(): ReturnType<typeof createNotebookAsk> | null {
    if (!this._ask && this._browserTransport) this._ask = createNotebookAsk(this.notebook, this._browserTransport);
    return this._ask;
  }

  get browser(): ToolBrowser | null {
    return this._browser;
  }

  /** The sources of the kernel's project, or of the notebook's folder until the kernel reports its project. */
  get sources(): SourcesView {
    if (!this._sources) {
      const project = this.connection.report?.project ?? PathExt.dirname(this.notebook.context.path);
      this._sources = new SourcesView(new RestClient(this.server, project), this.connection, {
        connect: () => this._connect(),
        onChanged: () => void this.connection.refresh(),
        onEdit: this.actions.httpTool,
        onImport: this.actions.importing,
        onAdded: names => names.length === 1 && this.actions.server(names[0]),
        onShow: this.actions.pack,
        onOpen: this.actions.file
      });
      this._sources.servers.value = this._servers;
    }
    return this._sources;
  }

  /** Insert a call of a tool into the notebook; its required arguments follow, unless the user has gone on writing. */
  async insertTool(tool: string): Promise<void> {
    const line = `%tool ${tool}`;
    const cell = await this.insert(line);
    const reply = await this._requests.once<{ parameters?: { required?: string[] } }>('tool', { name: tool });
    const required = (reply.status === 'ok' && reply.value.parameters?.required) || [];
    if (!cell.isDisposed && cell.model.sharedModel.getSource() === line) {
      writeCode(cell, [line, ...required.map(name => `${name}=`)].join(' '));
    }
  }

  async insert(code: string, isRun = false): Promise<Cell> {
    const cell = await insertCode(this.notebook, code);
    this.notebook.activate();
    if (isRun) {
      await NotebookActions.run(this.notebook.content, this.notebook.sessionContext);
    } else {
      this.notebook.content.mode = 'edit';
    }
    return cell;
  }

  /** Load the extension if the kernel lacks it; the reason why it cannot answer. */
  private async _connect(): Promise<string> {
    const { connection } = this;
    await connection.settled();
    return connection.state === 'missing' ? connection.load() : '';
  }

  /** A cell may have called tools, and changed what the requests of other programs change. */
  private _onCellEnd(): void {
    void this._browser?.loadView();
    if (this._sources?.element.offsetParent) void this._sources.refresh();
  }

  /** While a cell runs, show its calls as they end, if they are in view. */
  private async _followCell(): Promise<void> {
    if (this._isFollowing) return;
    this._isFollowing = true;
    while (this.connection.isBusy) {
      const begin = performance.now();
      if (this._browser?.element.offsetParent) await this._browser.loadView();
      const pause = Math.max(LOOK_MS, PAUSES * (performance.now() - begin));
      await new Promise(resolve => window.setTimeout(resolve, pause));
    }
    this._isFollowing = false;
  }

  close(): void {
    this._stopDrops();
    this._closeBrowser();
    this._requests.close();
    this._sources?.close();
    this.health.close();
    this.connection.dispose();
    Signal.clearData(this);
  }

  private _onConnectionChange({ state, transport, report }: KernelConnection): void {
    const isNew = state === 'connected' && transport !== null && this._browserTransport !== transport;
    if (isNew) {
      this._openBrowser(transport);
    } else if (state === 'connected' && report && !isEqual(fingerprintOf(report), this._fingerprint)) {
      void this._browser?.load();
    } else if (state === 'missing' || state === 'none' || state === 'other') {
      this._closeBrowser();
    }
    void this._followCell();
    this.health.draw(report);
    this._fingerprint = report ? fingerprintOf(report) : [];
    if (report && this._sources && (isNew || report.project !== this._sources.rest.project)) {
      void this._sources.follow(report.project);
    }
    this.changed.emit();
  }

  private _openBrowser(transport: Transport): void {
    this._closeBrowser();
    this._browserTransport = transport;
    transport.store.onChanged(() => void this._sources?.refresh());
    this._setServers(createServers(transport, { onOpen: this.actions.server, onKept: () => void this.connection.refresh() }));
    this._browser = createBrowser(transport, {
      isSmall: true,
      onOpen: this.actions.tool,
      onOpenResult: this.actions.result,
      onTrust: () => void this.connection.refresh(),
      onDrag: (name, event) => {
        event.dataTransfer?.setData(DRAG_TYPE, name);
        event.dataTransfer?.setData('text/plain', `%tool ${name}`);
      }
    });
  }

  private _setServers(servers: Servers | null): void {
    this._servers = servers;
    if (this._sources) this._sources.servers.value = servers;
  }

  private _closeBrowser(): void {
    this._browser?.close();
    this._servers?.close();
    this._ask?.close();
    this._ask = null;
    this._setServers(null);
    this._browser = null;
    this._browserTransport = null;
  }

  private _browser: ToolBrowser | null = null;
  private _servers: Servers | null = null;
  private _ask: ReturnType<typeof createNotebookAsk> | null = null;
  private _browserTransport: Transport | null = null;
  private _sources: SourcesView | null = null;
  private readonly _requests: Requests;
  private _fingerprint: unknown[] = [];
  private _isFollowing = false;
  private readonly _stopDrops: () => void;
}

/** Changes when the browser must load its tools again. */
function fingerprintOf(report: IKernelReport): unknown[] {
  return [report.fingerprint, report.trust];
}

/** Insert code into the active cell if it is an empty code cell, else into a new cell below, which becomes active. */
export async function insertCode(panel: NotebookPanel, code: string): Promise<Cell> {
  await panel.context.ready; // a cell inserted earlier is lost silently
  const notebook = panel.content;
  const current = notebook.activeCell;
  const isFree = current?.model.type === 'code' && current.model.sharedModel.getSource().trim() === '';
  if (!isFree) {
    NotebookActions.insertBelow(notebook);
    if (notebook.activeCell?.model.type !== 'code') NotebookActions.changeCellType(notebook, 'code');
  }
  notebook.deselectAll();
  writeCode(notebook.activeCell!, code);
  return notebook.activeCell!;
}

/** Replace what a cell holds; the cursor stands at its end. */
function writeCode(cell: Cell, code: string): void {
  cell.model.sharedModel.setSource(code);
  cell.editor?.setCursorPosition({ line: code.split('\n').length - 1, column: code.split('\n').pop()?.length ?? 0 });
}

/** Accept tools that are dropped on a notebook. Returns the function that stops this. */
function acceptDrops(panel: NotebookPanel, onDrop: (tool: string) => void): () => void {
  const { node } = panel.content;
  const isOurs = (event: DragEvent): boolean => event.dataTransfer?.types.includes(DRAG_TYPE) ?? false;
  const over = (event: DragEvent): void => {
    if (isOurs(event)) {
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer!.dropEffect = 'copy';
    }
  };
  const drop = (event: DragEvent): void => {
    if (!isOurs(event)) return;
    over(event);
    const at = panel.content.widgets.findIndex(cell => cell.node.contains(event.target as Node));
    panel.content.activeCellIndex = at < 0 ? panel.content.widgets.length - 1 : at;
    onDrop(event.dataTransfer!.getData(DRAG_TYPE));
  };
  node.addEventListener('dragover', over, true);
  node.addEventListener('drop', drop, true);
  return () => {
    node.removeEventListener('dragover', over, true);
    node.removeEventListener('drop', drop, true);
  };
}
