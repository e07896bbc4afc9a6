/** The JupyterLab plugin of onetool_ipy: the Tools panel, its commands, the command palette, the status bar, settings. */

import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ReadonlyPartialJSONObject, Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { MessageLoop } from '@lumino/messaging';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { openHttpTool, openImport, openResult, openServer, openTool, openUsage } from './mainTabs';
import type { KernelConnection } from './kernelConnection';
import type { IPlaces, NotebookTools } from './notebook';
import { downServers, PANEL_ID, toolsIcon, ToolsPanel } from './panel';
import { addQuestionOutputs } from './questionOutput';
import { counted } from '../screens/format.js';
import { Requests } from '../screens/requests.js';
import type { Transport } from '../screens/transport.js';
import { needsTrust } from '../screens/trust.js';

const PLUGIN = 'onetool-ipy:panel';
const CATEGORY = 'onetool';
const MAX_IN_PALETTE = 1000;
const TOAST_MS = 6000;
const SHOW_IN_CELL_MS = 1000;

type Command = Parameters<JupyterFrontEnd['commands']['addCommand']>[1];

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: "The tools of the front notebook's kernel.",
  autoStart: true,
  optional: [INotebookTracker, ICommandPalette, ISettingRegistry, ILabShell],
  activate
};

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker | null,
  palette: ICommandPalette | null,
  registry: ISettingRegistry | null,
  shell: ILabShell | null
): void {
  if (!tracker) {
    return; // a page without notebooks, such as Voila's
  }
  const places = placesOf(app, () => panel);
  const panel: ToolsPanel = new ToolsPanel(tracker, app.serviceManager.serverSettings, places);
  app.shell.add(panel, 'left', { rank: 900 });
  // Escape that nothing in the panel has a use for leads to what is beside it.
  panel.node.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.defaultPrevented) app.shell.currentWidget?.activate();
  });
  addCommands(app, panel, places);
  addQuestionOutputs(tracker, notebook => panel.connectionOf(notebook), path => places.file(path, null));
  showQuestions(app, panel);
  app.contextMenu.addItem({ command: 'onetool:save-snippet', selector: '.jp-Notebook .jp-CodeCell', rank: 90 });
  app.contextMenu.addItem({ command: 'onetool:save-tool', selector: '.jp-Notebook .jp-CodeCell', rank: 91 });
  [
    'onetool:open', 'onetool:browser', 'onetool:ask', 'onetool:usage', 'onetool:health', 'onetool:new-http', 'onetool:import',
    'onetool:insert'
  ].forEach((command, rank) => {
    palette?.addItem({ command, category: CATEGORY, rank }); // before the tools
  });
  const paletteTools = new PaletteTools(panel, palette);
  panel.updated.connect(() => void paletteTools.refresh());
  const status = new StatusItem(panel, () => app.shell.activateById(PANEL_ID));
  void optionalService(app, async () => (await import('@jupyterlab/launcher')).ILauncher).then(
    launcher => launcher?.add({ command: 'onetool:open', category: CATEGORY, rank: 50 })
  );
  void optionalService(app, async () => (await import('@jupyterlab/statusbar')).IStatusBar).then(bar =>
    bar?.registerStatusItem('onetool-ipy:status', {
      item: status, align: 'left', rank: 200, isActive: () => status.isActive, activeStateChanged: status.changed
    })
  );
  let isOpened = false;
  void applySettings(registry, settings => {
    paletteTools.isOn = settings.palette;
    void paletteTools.refresh();
    status.isOn = settings.statusBar;
    status.draw();
    if (settings.openAtStart && !isOpened && shell) void app.restored.then(() => shell.activateById(PANEL_ID));
    isOpened = true;
  });
}

/** Open the panel for a question that no cell on this page shows: the page was reloaded, or a job asks. */
function showQuestions(app: JupyterFrontEnd, panel: ToolsPanel): void {
  const shown = new Set<string>();
  panel.updated.connect(() => {
    for (const id of panel.connection?.questions.keys() ?? []) {
      if (!shown.has(id)) {
        shown.add(id);
        window.setTimeout(() => {
          const isInCell = document.querySelector('.onetool-Question .otx-question') !== null;
          if (!isInCell && panel.connection?.questions.has(id)) app.shell.activateById(PANEL_ID);
        }, SHOW_IN_CELL_MS);
      }
    }
  });
}

/** A service that not every front end has. Its module is not loaded before there is a notebook. */
async function optionalService<T>(app: JupyterFrontEnd, token: () => Promise<Token<T>>): Promise<T | null> {
  try {
    return await app.resolveOptionalService(await token());
  } catch {
    return null;
  }
}

function addCommands(app: JupyterFrontEnd, panel: ToolsPanel, places: IPlaces): void {
  // The palette gives the focus back to the notebook when a command has run and when it loses the focus itself, each by
  // two messages, one behind the other. The panel takes it after both.
  const open = async (): Promise<void> => {
    await null;
    (document.activeElement as HTMLElement | null)?.blur();
    for (let round = 0; round < 2; round++) MessageLoop.flush();
    app.shell.activateById(PANEL_ID);
  };
  const hasNotebook = (): boolean => panel.notebook !== null;
  const has = (name: string) => (args: ReadonlyPartialJSONObject): boolean => typeof args[name] === 'string';
  const saving = (what: 'snippet' | 'tool'): Command => ({
    label: `Save cell as ${what}`,
    isEnabled: () => panel.notebook?.content.activeCell?.model.type === 'code',
    execute: () => saveCell(panel, what)
  });
  const commands: Record<string, Command> = {
    open: { label: 'Tools panel', caption: 'Show the tools of the front notebook', icon: toolsIcon, execute: open },
    ask: { label: 'Ask', caption: 'Choose a model, and ask it in the notebook', execute: () => (panel.selectView('ask'), open()) },
    usage: {
      label: 'Usage', caption: 'Show how often tools were called, how long they took, and what failed', isEnabled: hasNotebook,
      execute: places.usage
    },
    health: {
      label: 'Health', caption: 'Show the state of the tools and servers, and what is wrong',
      execute: () => (panel.showHealth(true), open())
    },
    browser: {
      label: 'Open tool browser',
      caption: 'Insert a cell with the tool browser and run it',
      isEnabled: hasNotebook,
      execute: async () => {
        await (await loadedTools(panel))?.insert('ot.browser()', true);
      }
    },
    'open-file': { label: 'Open file', isVisible: has('path'), execute: ({ path }) => typeof path === 'string' && places.file(path, null) },
    view: {
      label: 'Open result in viewer', caption: 'Open a stored result in a tab of its own', isVisible: has('handle'),
      execute: ({ handle }) => typeof handle === 'string' && places.result(handle)
    },
    show: {
      label: 'Show in the Tools panel',
      caption: 'Open a tool or a pack in the Tools panel',
      isVisible: has('name'),
      execute: async ({ name }) => {
        if (typeof name === 'string' && (await loadedTools(panel)) && (await panel.showTool(name))) open();
      }
    },
    'new-http': { label: 'New HTTP tool', isEnabled: hasNotebook, execute: () => places.httpTool({}) },
    import: {
      label: 'Import tools', caption: 'Make tools of an OpenAPI, Swagger or Postman document', isEnabled: hasNotebook,
      execute: () => places.importing()
    },
    insert: {
      label: args => (typeof args.tool === 'string' ? `Insert ${args.tool}` : 'Insert tool call'),
      caption: 'Insert a call of a tool into the notebook',
      isEnabled: hasNotebook,
      execute: async args => {
        if (typeof args.line === 'string') {
          await panel.current?.insert(args.line);
          return null;
        }
        const tool = typeof args.tool === 'string' ? args.tool : await chooseTool(panel);
        if (tool) await panel.current?.insertTool(tool); // never run: a link in a stranger's output may ask for this
        return tool;
      }
    },
    'save-snippet': saving('snippet'),
    'save-tool': saving('tool')
  };
  for (const [name, command] of Object.entries(commands)) app.commands.addCommand(`onetool:${name}`, command);
}

/** Open a file of the kernel at a line. A file that the server does not offer cannot be opened: its path is copied. */
async function openFile(app: JupyterFrontEnd, path: string, line: number | null): Promise<void> {
  const root = `${PageConfig.getOption('serverRoot').replace(/^~|\/$/g, '')}/`;
  const at = path.indexOf(root);
  try {
    if (at < 0) throw new Error('outside the folder of the server');
    const opened = await app.commands.execute('docmanager:open', { path: path.slice(at + root.length), factory: 'Editor' });
    await opened.context.ready;
    opened.content.editor.setCursorPosition({ line: (line ?? 1) - 1, column: 0 });
    opened.content.editor.focus();
  } catch {
    Clipboard.copyToSystem(path);
    Notification.info(
      `The path is copied: this JupyterLab cannot open ${path.split('/').pop()}, which is in a hidden folder or elsewhere.`,
      { autoClose: 2 * TOAST_MS }
    );
  }
}

/**
 * The tools of the front notebook; the extension is loaded into its kernel if it is not loaded yet. Null if none answers: then a
 * message says why.
 */
async function loadedTools(panel: ToolsPanel): Promise<NotebookTools | null> {
  const tools = panel.current;
  await tools?.connection.settled();
  const error = tools?.connection.state === 'missing' ? await tools.connection.load() : '';
  if (tools?.connection.transport && !error) return tools;
  Notification.error(error || panel.reason, { autoClose: 2 * TOAST_MS });
  return null;
}

/** What is shown outside of the panel, on the kernel of the front notebook. */
function placesOf(app: JupyterFrontEnd, panelOf: () => ToolsPanel): IPlaces {
  const onKernel = async (show: (transport: Transport, tools: NotebookTools) => void): Promise<void> => {
    const tools = await loadedTools(panelOf());
    if (tools?.connection.transport) show(tools.connection.transport, tools);
  };
  const onTrust = (): void => (app.shell.activateById(PANEL_ID), void panelOf().askTrust());
  const places: IPlaces = {
    tool: wanted =>
      onKernel((transport, tools) =>
        openTool(app, transport, wanted, {
          onInsert: (code, isRun) => (app.shell.activateById(tools.notebook.id), void tools.insert(code.tool ?? '', isRun)),
          onTrust,
          onChanged: () => void tools.browser?.load()
        })
      ),
    httpTool: place => onKernel(transport => openHttpTool(
      app, transport, place, { onSaved: name => panelOf().showSaved(name), onSwitched: () => panelOf().loadBundles() }
    )),
    importing(document) {
      const tools = panelOf().current;
      if (tools) openImport(
        app, tools.sources.rest, tools.connection, ({ bundle }) => void tools.sources.saved(`${bundle.slug}.`), document
      );
    },
    server: name => onKernel(transport => openServer(app, transport, name, { onTrust, onCall: places.tool })),
    result: handle => onKernel(transport => openResult(app, transport, handle)),
    usage: () => onKernel(transport => openUsage(app, transport)),
    file: (path, line) => openFile(app, path, line)
  };
  return places;
}

/** Ask for the names of the tools, at most MAX_IN_PALETTE; an Error if the kernel does not tell them. */
async function toolNames(connection: KernelConnection): Promise<string[] | Error> {
  const reply = await new Requests(connection).once<{ items: { name: string }[] }>('search', { query: '', limit: MAX_IN_PALETTE });
  if (reply.status === 'failed') return reply.error;
  return reply.status === 'ok' ? reply.value.items.map(({ name }) => name) : [];
}

async function chooseTool(panel: ToolsPanel): Promise<string | null> {
  const tools = await loadedTools(panel);
  if (!tools) return null;
  const names = await toolNames(tools.connection);
  if (names instanceof Error || !names.length) {
    if (names instanceof Error) Notification.error(names.message, { autoClose: 2 * TOAST_MS });
    else Notification.info('No tools are known yet.', { autoClose: TOAST_MS });
    return null;
  }
  return (await InputDialog.getItem({ title: 'Insert a call of', items: names, editable: true })).value;
}

async function saveCell(panel: ToolsPanel, what: 'snippet' | 'tool'): Promise<void> {
  const { connection, notebook } = panel;
  const source = notebook?.content.activeCell?.model.sharedModel.getSource() ?? '';
  const label = what === 'snippet' ? 'Name of the snippet; call it with $name' : 'Name of the pack for its functions';
  const { value } = await InputDialog.getText({ title: `Save cell as ${what}`, label });
  const name = value?.trim();
  if (!name || !connection || !(await loadedTools(panel))) return;
  try {
    const message = what === 'snippet' ? await saveSnippet(connection, name, source) : await saveTool(connection, name, source);
    Notification.success(message, { autoClose: TOAST_MS });
    await connection.refresh();
  } catch (error) {
    Notification.error((error as Error).message, { autoClose: 2 * TOAST_MS });
  }
}

async function saveSnippet(connection: KernelConnection, name: string, source: string): Promise<string> {
  const isValid = /^[A-Za-z_]\w*$/.test(name);
  const error = isValid
    ? await connection.run(`%%snippet ${name} --save\n${source}`)
    : `'${name}' is not a valid name. Use letters, digits and _.`;
  if (error) throw new Error(error);
  return `Saved. Call it with $${name}.`;
}

async function saveTool(connection: KernelConnection, name: string, source: string): Promise<string> {
  const reply = await new Requests(connection).once<{ tools: string[] }>('saveTool', { name, source });
  if (reply.status === 'failed') throw reply.error;
  return reply.status === 'ok' ? `Saved: ${reply.value.tools.join(', ')}.` : '';
}

/** The tools in the command palette. */
class PaletteTools {
  constructor(
    private readonly panel: ToolsPanel,
    private readonly palette: ICommandPalette | null
  ) {}

  isOn = true;

  async refresh(): Promise<void> {
    const { connection } = this.panel;
    const fingerprint = this.isOn && connection?.state === 'connected' ? (connection.report?.fingerprint ?? '') : '';
    if (fingerprint === this._fingerprint) return;
    this._fingerprint = fingerprint;
    const names = fingerprint ? await toolNames(connection!) : [];
    if (fingerprint !== this._fingerprint) return;
    if (names instanceof Error) this._fingerprint = ''; // asked again at the next change of the panel
    if (names instanceof Error || names.join() === this._names.join()) return;
    this._names = names;
    for (const item of this._items.splice(0)) item.dispose();
    for (const tool of names) {
      const item = this.palette?.addItem({ command: 'onetool:insert', args: { tool }, category: CATEGORY });
      if (item) this._items.push(item);
    }
  }

  private _fingerprint = '';
  private _names: string[] = [];
  private readonly _items: IDisposable[] = [];
}

/** The number of tools and of stopped servers in the status bar; empty if it is unknown or switched off. */
class StatusItem extends Widget {
  constructor(
    private readonly panel: ToolsPanel,
    onClick: () => void
  ) {
    super({ node: document.createElement('button') });
    this.addClass('onetool-Status');
    this.node.addEventListener('click', onClick);
    panel.updated.connect(() => this.draw());
    this.draw();
  }

  readonly changed = new Signal<this, void>(this);
  isOn = true;

  get isActive(): boolean {
    return this.isOn && this.node.textContent !== '';
  }

  draw(): void {
    const report = this.panel.connection?.report ?? null;
    const down = downServers(report);
    const isUntrusted = needsTrust(report?.trust);
    const warning = !isUntrusted ? '' : report?.trust.isTrusted ? `Untrusted ${report.trust.wouldRun.parts[0].kind}` : 'Untrusted';
    const questions = this.panel.connection?.questions.size ?? 0;
    const asked = questions ? counted(questions, 'question') : '';
    const text = [asked, warning, report ? counted(report.tools, 'tool') : '', down ? `${counted(down, 'server')} down` : '']
      .filter(Boolean)
      .join(' · ');
    this.node.classList.toggle('onetool-mod-untrusted', isUntrusted || questions > 0);
    this.node.title = asked
      ? 'A cell waits for your answer. Click to see the question.'
      : report?.trust.isTrusted && isUntrusted
      ? 'A part of this project is new or has changed, and waits for your yes. Click to see it.'
      : isUntrusted
      ? 'Nothing in this project runs until you trust it. Click to see what it contains.'
      : 'Tools of this notebook. Click to see them.';
    this.node.textContent = text;
    this.node.setAttribute('aria-label', `Tools: ${text || 'none known'}`);
    this.changed.emit();
  }
}

interface ISettings {
  palette: boolean;
  statusBar: boolean;
  openAtStart: boolean;
}

async function applySettings(registry: ISettingRegistry | null, apply: (settings: ISettings) => void): Promise<void> {
  const settings = await registry?.load(PLUGIN).catch(() => null);
  if (!settings) return; // the defaults apply
  const read = (): void => apply(settings.composite as unknown as ISettings);
  settings.changed.connect(read);
  read();
}

export default plugin;
