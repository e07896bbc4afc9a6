/** The JupyterLab plugin of onetool_ipy: the Tools panel, its commands, and where they are found. */

import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './icon';
import { insertCode, runCurrent } from './insert';
import { PANEL_ID, ToolsPanel } from './panel';

const PLUGIN = 'onetool-ipy:panel';
const CATEGORY = 'Tools';
const MOST_IN_PALETTE = 1000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The tools of the kernel of the notebook in front.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher, IStatusBar, ISettingRegistry, ILabShell],
  activate
};

function activate(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  statusBar: IStatusBar | null,
  registry: ISettingRegistry | null,
  shell: ILabShell | null
): void {
  const panel = new ToolsPanel(tracker, app.serviceManager.serverSettings);
  app.shell.add(panel, 'left', { rank: 900 });
  addCommands(app, panel);
  app.contextMenu.addItem({ command: 'onetool:save-snippet', selector: '.jp-Notebook .jp-CodeCell', rank: 90 });
  app.contextMenu.addItem({ command: 'onetool:save-tool', selector: '.jp-Notebook .jp-CodeCell', rank: 91 });
  launcher?.add({ command: 'onetool:open', category: 'Other', rank: 50 });
  for (const command of ['onetool:open', 'onetool:browser', 'onetool:new-http', 'onetool:insert']) {
    palette?.addItem({ command, category: CATEGORY });
  }
  const choices = new Choices(panel, palette);
  panel.updated.connect(() => void choices.refresh());
  const item = statusBar ? addStatus(panel, statusBar, () => app.shell.activateById(PANEL_ID)) : null;
  void follow(registry, settings => {
    choices.isOn = settings.palette;
    item?.setHidden(!settings.statusBar);
    if (settings.openAtStart && shell) {
      shell.activateById(PANEL_ID);
    }
  });
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
      if (panel.notebook && (await ready(panel))) {
        await insertCode(panel.notebook, 'ot.browser()');
        await runCurrent(panel.notebook);
      }
    }
  });
  app.commands.addCommand('onetool:new-http', {
    label: 'New HTTP tool',
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
      if (tool && panel.notebook) {
        await insertCode(panel.notebook, await callOf(panel, tool));
        panel.notebook.activate();
        if (args.run === true) {
          await runCurrent(panel.notebook);
        }
      }
      return tool;
    }
  });
  const save = (what: 'snippet' | 'tool', hint: string, code: (name: string, source: string) => string): void => {
    app.commands.addCommand(`onetool:save-${what}`, {
      label: `Save cell as ${what}`,
      isEnabled: () => panel.notebook?.content.activeCell?.model.type === 'code',
      execute: () => saveCell(panel, what, hint, code)
    });
  };
  save('snippet', 'Name of the snippet', (name, source) => `%%snippet ${name} --save\n${source}`);
  save('tool', 'Name of the pack that its functions go to', (name, source) => `%%tool --save ${name}\n${source}`);
}

/** Load the extension into the kernel where it is not yet. */
async function ready(panel: ToolsPanel): Promise<boolean> {
  if (panel.link?.state === 'missing') {
    const said = await panel.link.load();
    if (said) {
      Notification.error(said);
      return false;
    }
  }
  return panel.link !== null;
}

async function chooseTool(panel: ToolsPanel): Promise<string | null> {
  const { items } = (await panel.link?.transport?.request('entries')) ?? { items: [] };
  const names: string[] = items.map((item: { name: string }) => item.name);
  if (!names.length) {
    Notification.info('No tools are known: load onetool_ipy in the notebook first.');
    return null;
  }
  return (await InputDialog.getItem({ title: 'Insert a call of', items: names, editable: true })).value;
}

/** The line that calls a tool, with its required arguments to fill in. */
async function callOf(panel: ToolsPanel, tool: string): Promise<string> {
  const found = await panel.link?.transport?.request('tool', { name: tool }).catch(() => null);
  const required: string[] = found?.parameters?.required ?? [];
  return ['%tool', tool, ...required.map(name => `${name}=`)].join(' ');
}

async function saveCell(panel: ToolsPanel, what: string, hint: string, code: (name: string, source: string) => string): Promise<void> {
  const source = panel.notebook?.content.activeCell?.model.sharedModel.getSource() ?? '';
  const { value } = await InputDialog.getText({ title: `Save cell as ${what}`, label: hint });
  const name = value?.trim();
  if (!name || !panel.link || !(await ready(panel))) {
    return;
  }
  const said = /^\w+$/.test(name) ? await panel.link.run(code(name, source)) : `'${name}' is no name: use letters, digits and _.`;
  if (said) {
    Notification.error(said);
  } else {
    Notification.success(`Saved as ${what === 'snippet' ? '$' : ''}${name}.`);
  }
  await panel.link.refresh();
}

/** The tools in the command palette, as +pack.tool. */
class Choices {
  constructor(
    private readonly panel: ToolsPanel,
    private readonly palette: ICommandPalette | null
  ) {}

  isOn = true;

  async refresh(): Promise<void> {
    const turn = ++this._turn;
    const transport = this.isOn && this.panel.link?.state === 'up' ? this.panel.link.transport : null;
    const { items } = (await transport?.request('entries').catch(() => null)) ?? { items: [] };
    const names: string[] = items.slice(0, MOST_IN_PALETTE).map((item: { name: string }) => item.name);
    if (turn !== this._turn || names.join() === this._names.join()) {
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

  private _turn = 0;
  private _names: string[] = [];
  private readonly _items: IDisposable[] = [];
}

function addStatus(panel: ToolsPanel, statusBar: IStatusBar, onClick: () => void): Widget {
  const item = new Widget({ node: document.createElement('button') });
  item.addClass('onetool-Status');
  item.node.addEventListener('click', onClick);
  item.node.setAttribute('aria-label', 'Tools');
  const draw = (): void => {
    const about = panel.link?.about;
    const down = Object.values(about?.servers ?? {}).filter(state => state === 'disconnected').length;
    item.node.textContent = about ? `${about.tools} tools${down ? ` · ${down} servers down` : ''}` : '';
    item.node.title = about ? 'Tools of this notebook; click to see them' : '';
  };
  panel.updated.connect(draw);
  statusBar.registerStatusItem('onetool-ipy:status', { item, align: 'left', rank: 200 });
  draw();
  return item;
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
