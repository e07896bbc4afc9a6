/**
 * The tabs of ours in the main area: a tool, an HTTP tool, a server, a result, an import and the usage, each a screen on what
 * the panel has. Where the main area holds one notebook and no tabs, as in Notebook 7, they are below it.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { SplitPanel, TabPanel, Widget } from '@lumino/widgets';

import type { IDocument } from './addBox';
import { createImport, type IImportOptions } from './importScreen.js';
import type { KernelConnection } from './kernelConnection';
import { toolsIcon } from './panel';
import type { RestClient } from './restClient';
import type { WantedTool } from '../screens/browser.js';
import { elementOf, uniqueId } from '../screens/dom.js';
import { createHttpEditor, type HttpPlace } from '../screens/httpEditor.js';
import { createServerPage } from '../screens/serverPage.js';
import { createToolTab, type ToolTab, type ToolTabOptions } from '../screens/toolTab.js';
import type { Transport } from '../screens/transport.js';
import { createUsage } from '../screens/usage.js';
import { createResult } from '../screens/viewer.js';

interface IScreen {
  element: HTMLElement;
  focus?(): void;
  close(): void;
}

/** What a tab shows. The same `owner` and `key` again bring the tab that is there to the front, so that what was typed is found. */
interface ITab {
  owner: object;
  key: string;
  label: string;
  caption?: string;
  className: string;
  open: (tab: { rename: (label: string) => void; close: () => void }) => IScreen;
  /** Whether it gives its place to the next one of its class: nothing was done in it. */
  isPassing?: () => boolean;
}

const tabs = new WeakMap<Widget, { wanted: ITab; screen: IScreen }>();

/** Open the page of a tool. A page that was only looked at gives its place to the next. */
export function openTool(
  app: JupyterFrontEnd, transport: Transport, { name, args = null, isRun = false }: WantedTool, options: ToolTabOptions
): void {
  let screen: ToolTab | null = null;
  const shown = open(app, {
    owner: transport,
    key: `tool ${name}`,
    label: name,
    className: 'onetool-ToolTab',
    open: () => (screen = createToolTab(transport, name, args, options)),
    isPassing: () => !screen?.isUsed
  }) as ToolTab;
  if (args && (shown !== screen || isRun)) void shown.fill(args, isRun);
}

let opened = 0;

/** Open the editor of a tool; a new tool has one tab for each kernel, and one for each text that was pasted. */
export function openHttpTool(app: JupyterFrontEnd, transport: Transport, place: HttpPlace, { onSaved, onSwitched }: {
  onSaved: (name: string) => void; onSwitched: () => void;
}): void {
  const { bundle, tool, version, pasted } = place;
  opened += 1;
  open(app, {
    owner: transport,
    key: ['http', bundle, tool, version, pasted === undefined ? '' : opened].join(' '),
    label: tool ? `${bundle}.${tool}` : 'New HTTP tool',
    className: 'onetool-HttpTool',
    open: tab => createHttpEditor(transport, place, { onSaved: name => (tab.rename(name), onSaved(name)), onSwitched, isTab: true })
  });
}

export function openServer(app: JupyterFrontEnd, transport: Transport, name: string, options: {
  onTrust: () => void; onCall: (wanted: WantedTool) => void;
}): void {
  open(app, {
    owner: transport, key: `server ${name}`, label: name, caption: `MCP server ${name}`, className: 'onetool-Server',
    open: () => createServerPage(transport, name, options)
  });
}

export function openUsage(app: JupyterFrontEnd, transport: Transport): void {
  open(app, {
    owner: transport, key: 'usage', label: 'Usage', caption: 'How often tools were called, and what failed', className: 'onetool-Usage',
    open: () => wrapped(createUsage(transport))
  });
}

/** Open the import; a project has one, and a document that is given is shown in it. */
export function openImport(
  app: JupyterFrontEnd, rest: RestClient, kernel: KernelConnection, onImported: IImportOptions['onImported'], document?: IDocument
): void {
  const screen = open(app, {
    owner: app,
    key: `import ${rest.project}`,
    label: 'Import tools',
    className: 'onetool-Import',
    open: tab => wrapped(createImport(rest, kernel, { onImported, onClose: tab.close }))
  });
  if (document) (screen as ReturnType<typeof createImport>).show(document);
}

export function openResult(app: JupyterFrontEnd, transport: Transport, handle: string): void {
  open(app, {
    owner: transport, key: `result ${handle}`, label: `Result ${handle}`, className: 'onetool-Result',
    open: tab => createResult(transport, { handle }, ({ tool }) => tool && tab.rename(`${tool} result`))
  });
}

/** A screen in an element of its own: a tab gives its content another role and name. */
function wrapped<S extends IScreen>(screen: S): S {
  const element = elementOf('div');
  element.append(screen.element);
  return { ...screen, element };
}

/** Open a tab, or bring the one that is there to the front. Returns its screen. */
function open(app: JupyterFrontEnd, wanted: ITab): IScreen {
  // A front end whose main area holds one document has an area below it.
  const area = 'mode' in app.shell ? 'main' : 'down';
  const others = Array.from(app.shell.widgets(area)).filter(widget => tabs.has(widget));
  const known = others.find(widget => tabs.get(widget)!.wanted.owner === wanted.owner && tabs.get(widget)!.wanted.key === wanted.key);
  const front = (tab: Widget): void => {
    app.shell.activateById(tab.id);
    if (area === 'down') showBelow(tab);
  };
  if (known) {
    front(known);
    return tabs.get(known)!.screen;
  }
  const passing = others.find(widget => {
    const { owner, className, isPassing } = tabs.get(widget)!.wanted;
    return owner === wanted.owner && className === wanted.className && isPassing?.();
  });
  const screen = wanted.open({ rename: label => void (tab.title.label = label), close: () => tab.dispose() });
  const content = new Widget({ node: screen.element });
  content.addClass(wanted.className);
  const tab = new MainAreaWidget({ content });
  tab.toolbar.hide();
  tab.id = uniqueId('tab');
  Object.assign(tab.title, { label: wanted.label, caption: wanted.caption ?? '', icon: toolsIcon, closable: true });
  tabs.set(tab, { wanted, screen });
  tab.disposed.connect(() => screen.close());
  app.shell.add(tab, area, passing ? { ref: passing.id, mode: 'tab-after' } : {});
  passing?.dispose();
  front(tab);
  screen.focus?.();
  return screen;
}

/** Bring a tab of the area below the notebook to the front. At first that area is as high as its tabs: it gets half of the page. */
function showBelow(tab: Widget): void {
  let stack = tab.parent;
  while (stack && !(stack instanceof TabPanel)) stack = stack.parent;
  if (!stack) return;
  stack.currentWidget = tab;
  const { node, parent } = stack;
  // Its height is known once the page is laid out.
  requestAnimationFrame(() => {
    if (parent instanceof SplitPanel && node.offsetHeight < parent.node.offsetHeight / 4) parent.setRelativeSizes([1, 1]);
  });
}
