/** The tabs of ours in the main area: an HTTP tool, a server, a result, an import and the usage, each a screen on what the panel has. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import type { IDocument } from './addBox';
import { createImport, type IImportOptions } from './importScreen.js';
import { toolsIcon } from './panel';
import type { RestClient } from './restClient';
import { createHttpEditor, createServerPage, createUsage, createViewer, h, type IHttpPlace, Requests, type Transport } from '../screens/index.js';
import { drawInto, Failure } from '../screens/parts.js';

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
}

const tabs = new WeakMap<Widget, { wanted: ITab; screen: IScreen }>();

let opened = 0;

/** Open the editor of a tool; a new tool has one tab for each kernel, and one for each text that was pasted. */
export function openHttpTool(app: JupyterFrontEnd, transport: Transport, place: IHttpPlace, { onSaved, onSwitched }: { onSaved: (name: string) => void; onSwitched: () => void }): void {
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

export function openServer(app: JupyterFrontEnd, transport: Transport, name: string, options: { onTrust: () => void; onCall: (tool: string) => void }): void {
  open(app, { owner: transport, key: `server ${name}`, label: name, caption: `MCP server ${name}`, className: 'onetool-Server', open: () => createServerPage(transport, name, options) });
}

export function openUsage(app: JupyterFrontEnd, transport: Transport): void {
  open(app, { owner: transport, key: 'usage', label: 'Usage', caption: 'How often tools were called, and what failed', className: 'onetool-Usage', open: () => wrapped(createUsage(transport)) });
}

/** Open the import; a project has one, and a document that is given is shown in it. */
export function openImport(app: JupyterFrontEnd, rest: RestClient, options: Omit<IImportOptions, 'onClose'>, document?: IDocument): void {
  const screen = open(app, {
    owner: app,
    key: `import ${rest.project}`,
    label: 'Import tools',
    className: 'onetool-Import',
    open: tab => wrapped(createImport(rest, { ...options, onClose: tab.close }))
  });
  if (document) (screen as ReturnType<typeof createImport>).show(document);
}

export function openResult(app: JupyterFrontEnd, transport: Transport, handle: string): void {
  open(app, { owner: transport, key: `result ${handle}`, label: `Result ${handle}`, className: 'onetool-Result', open: tab => createResult(transport, handle, tab.rename) });
}

/** A stored result in the viewer of the screens. */
function createResult(transport: Transport, handle: string, rename: (label: string) => void): IScreen {
  const requests = new Requests(transport);
  const result = requests.latest<{ tool?: string }>('open');
  const viewer = createViewer(transport);
  const notice: HTMLElement = h('div', { role: 'alert' });
  const stop = drawInto(notice, () => {
    const reason = transport.store.closed.value;
    return reason || result.failure.value ? <div class="otx-notice">{reason ?? <Failure of={result} />}</div> : null;
  });
  result.value.subscribe(value => {
    if (!value) return;
    if (value.tool) rename(`${value.tool} result`);
    viewer.show(value);
  });
  void result.send({ handle });
  return {
    element: h('div.otx.otx-standalone', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element),
    close: () => (stop(), requests.close(), viewer.close())
  };
}

/** A screen in an element of its own: a tab gives its content another role and name. */
function wrapped<S extends IScreen>(screen: S): S {
  return { ...screen, element: h('div', null, screen.element) };
}

function open(app: JupyterFrontEnd, wanted: ITab): IScreen {
  for (const widget of app.shell.widgets('main')) {
    const known = tabs.get(widget);
    if (known?.wanted.owner === wanted.owner && known.wanted.key === wanted.key) {
      app.shell.activateById(widget.id);
      return known.screen;
    }
  }
  const screen = wanted.open({ rename: label => void (tab.title.label = label), close: () => tab.dispose() });
  const content = new Widget({ node: screen.element });
  content.addClass(wanted.className);
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-tab-${Date.now()}`;
  Object.assign(tab.title, { label: wanted.label, caption: wanted.caption ?? '', icon: toolsIcon, closable: true });
  tabs.set(tab, { wanted, screen });
  tab.disposed.connect(() => screen.close());
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
  screen.focus?.();
  return screen;
}
