/** The JupyterLab plugin of onetool_ipy: the Tools panel, its commands, and where they are found. */

import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { toolNames } from './calls';
import { toolsIcon } from './icon';
import type { Link } from './link';
import { downServers, PANEL_ID, ToolsPanel } from './panel';
import { addQuestions } from './question';
import { needsTrust } from './ui/trust.js';

const PLUGIN = 'onetool-ipy:panel';
const CATEGORY = 'Tools';
const MOST_IN_PALETTE = 1000;
const TOAST_MS = 6000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The tools of the kernel of the notebook in front.',
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
  const panel = new ToolsPanel(tracker, app.serviceManager.serverSettings);
  app.shell.add(panel, 'left', { rank: 900 });
  addCommands(app, panel);
  addQuestions(tracker);
  app.contextMenu.addItem({ command: 'onetool:save-snippet', selector: '.jp-Notebook .jp-CodeCell', rank: 90 });
  app.contextMenu.addItem({ command: 'onetool:save-tool', selector: '.jp-Notebook .jp-CodeCell', rank: 91 });
  for (const command of ['onetool:open', 'onetool:browser', 'onetool:new-http', 'onetool:insert']) {
    palette?.addItem({ command, category: CATEGORY });
  }
  const choices = new Choices(panel, palette);
  panel.updated.connect(() => void choices.refresh());
  const status = new Status(panel, () => app.shell.activateById(PANEL_ID));
  void service(app, async () => (await import('@jupyterlab/launcher')).ILauncher).then(launcher => launcher?.add({ command: 'onetool:open', category: 'Other', rank: 50 }));
  void service(app, async () => (await import('@jupyterlab/statusbar')).IStatusBar).then(bar =>
    bar?.registerStatusItem('onetool-ipy:status', { item: status, align: 'left', rank: 200, isActive: () => status.isActive, activeStateChanged: status.changed })
  );
  let isOpened = false;
  void follow(registry, settings => {
    choices.isOn = settings.palette;
    void choices.refresh();
    status.isOn = settings.statusBar;
    status.draw();
    if (settings.openAtStart && !isOpened && shell) {
      void app.restored.then(() => shell.activateById(PANEL_ID));
    }
    isOpened = true;
  });
}

/** A service that not every front end has: neither it nor its module is asked for before there is a notebook. */
async function service<T>(app: JupyterFrontEnd, token: () => Promise<Token<T>>): Promise<T | null> {
  try {
    return await app.resolveOptionalService(await token());
  } catch {
    return null;
  }
}

function addCommands(app: JupyterFrontEnd, panel: ToolsPanel): void {
  const open = (): void => app.shell.activateById(PANEL_ID);
  app.commands.addCommand('onetool:open', {
    label: 'Tools panel',
    caption: 'Show the tools of the notebook in front',
    icon: toolsIcon,
    execute: open
  });
  app.commands.addCommand('onetool:browser', {
    label: 'Open tool browser',
    caption: 'Put a cell with the tool browser into the notebook, and run it',
    isEnabled: () => panel.notebook !== null,
    execute: async () => {
      if (await ready(panel)) {
        await panel.seat?.insert('ot.browser()', true);
      }
    }
  });
  app.commands.addCommand('onetool:new-http', {
    label: 'New HTTP tool',
    isEnabled: () => panel.notebook !== null,
    execute: () => {
      open();
      panel.newHttpTool();
    }
  });
  app.commands.addCommand('onetool:insert', {
    label: args => (typeof args.tool === 'string' ? `+${args.tool}` : 'Insert tool call'),
    caption: 'Put a call of a tool into the notebook',
    isEnabled: () => panel.notebook !== null,
    execute: async args => {
      const tool = typeof args.tool === 'string' ? args.tool : await chooseTool(panel);
      if (tool) {
        await panel.seat?.insertTool(tool, args.run === true);
      }
      return tool;
    }
  });
  for (const what of ['snippet', 'tool'] as const) {
    app.commands.addCommand(`onetool:save-${what}`, {
      label: `Save cell as ${what}`,
      isEnabled: () => panel.notebook?.content.activeCell?.model.type === 'code',
      execute: () => saveCell(panel, what)
    });
  }
}

/** Load the extension into the kernel where it is not yet. */
async function ready(panel: ToolsPanel): Promise<boolean> {
  if (panel.link?.state === 'missing') {
    const said = await panel.link.load();
    if (said) {
      Notification.error(said, { autoClose: 2 * TOAST_MS });
      return false;
    }
  }
  return panel.link !== null;
}

async function chooseTool(panel: ToolsPanel): Promise<string | null> {
  const names = (await ready(panel)) ? await toolNames(panel.link, MOST_IN_PALETTE) : [];
  if (!names.length) {
    Notification.info('No tools are known yet.', { autoClose: TOAST_MS });
    return null;
  }
  return (await InputDialog.getItem({ title: 'Insert a call of', items: names, editable: true })).value;
}

async function saveCell(panel: ToolsPanel, what: 'snippet' | 'tool'): Promise<void> {
  const { link, notebook } = panel;
  const source = notebook?.content.activeCell?.model.sharedModel.getSource() ?? '';
  const label = what === 'snippet' ? 'Name of the snippet; call it with $name' : 'Name of the pack that its functions go to';
  const { value } = await InputDialog.getText({ title: `Save cell as ${what}`, label });
  const name = value?.trim();
  if (!name || !link || !(await ready(panel))) {
    return;
  }
  try {
    const said = what === 'snippet' ? await saveSnippet(link, name, source) : await saveTool(link, name, source);
    Notification.success(said, { autoClose: TOAST_MS });
    await link.refresh();
  } catch (error) {
    Notification.error((error as Error).message, { autoClose: 2 * TOAST_MS });
  }
}

async function saveSnippet(link: Link, name: string, source: string): Promise<string> {
  const said = /^[A-Za-z_]\w*$/.test(name) ? await link.run(`%%snippet ${name} --save\n${source}`) : `'${name}' is no name: use letters, digits and _.`;
  if (said) {
    throw new Error(said);
  }
  return `Saved: call it with $${name}.`;
}

async function saveTool(link: Link, name: string, source: string): Promise<string> {
  const { tools } = await link.transport!.request<{ tools: string[] }>('keepTool', { name, source });
  return `Saved: ${tools.join(', ')}.`;
}

/** The tools in the command palette, as +pack.tool. */
class Choices {
  constructor(
    private readonly panel: ToolsPanel,
    private readonly palette: ICommandPalette | null
  ) {}

  isOn = true;

  async refresh(): Promise<void> {
    const { link } = this.panel;
    const mark = this.isOn && link?.state === 'up' ? (link.about?.mark ?? '') : '';
    if (mark === this._mark) {
      return;
    }
    this._mark = mark;
    const names = mark ? await toolNames(link, MOST_IN_PALETTE) : [];
    if (mark !== this._mark || names.join() === this._names.join()) {
      return;
    }
    this._names = names;
    for (const item of this._items.splice(0)) {
      item.dispose();
    }
    for (const tool of names) {
      const item = this.palette?.addItem({ command: 'onetool:insert', args: { tool }, category: CATEGORY });
      if (item) {
        this._items.push(item);
      }
    }
  }

  private _mark = '';
  private _names: string[] = [];
  private readonly _items: IDisposable[] = [];
}

/** How many tools are ready and how many servers are down; nothing where that is not known, or not wanted. */
class Status extends Widget {
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
    const about = this.panel.link?.about ?? null;
    const down = downServers(about).length;
    const isAsked = needsTrust(about?.trust);
    const doubt = !isAsked ? '' : about?.trust.isTrusted ? 'Untrusted server' : 'Untrusted';
    const counts = about ? `${about.tools} ${about.tools === 1 ? 'tool' : 'tools'}${down ? ` · ${down} ${down === 1 ? 'server' : 'servers'} down` : ''}` : '';
    const words = [doubt, counts].filter(Boolean).join(' · ');
    this.node.classList.toggle('onetool-mod-untrusted', isAsked);
    this.node.title = isAsked ? 'Nothing of this project runs until you trust it; click to see what it holds' : 'Tools of this notebook; click to see them';
    this.node.textContent = words;
    this.node.setAttribute('aria-label', `Tools: ${words || 'none known'}`);
    this.changed.emit();
  }
}

interface ISettings {
  palette: boolean;
  statusBar: boolean;
  openAtStart: boolean;
}

async function follow(registry: ISettingRegistry | null, apply: (settings: ISettings) => void): Promise<void> {
  try {
    const settings = await registry?.load(PLUGIN);
    const read = (): void =>
      apply({
        palette: settings?.get('palette').composite !== false,
        statusBar: settings?.get('statusBar').composite !== false,
        openAtStart: settings?.get('openAtStart').composite === true
      });
    settings?.changed.connect(read);
    read();
  } catch {
    // Without settings the defaults hold.
  }
}

export default plugin;
