/** The HTTP tool editor in a tab of the main area: the editor of the screens, on the kernel's own transport. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './panel';
import { createHttpEditor, type IHttpPlace, type Transport } from '../screens/index.js';

/** Open an editor; a new tool has one tab for each kernel, so that what was typed is found again. */
export function openHttpTool(app: JupyterFrontEnd, transport: Transport, place: IHttpPlace, { onSaved, onSwitched }: { onSaved: (name: string) => void; onSwitched: () => void }): void {
  const known = Array.from(app.shell.widgets('main')).find(widget => tabs.get(widget)?.transport === transport && tabs.get(widget)?.key === JSON.stringify(place));
  if (known) {
    app.shell.activateById(known.id);
    return;
  }
  const editor = createHttpEditor(transport, place, { onSaved: name => ((tab.title.label = name), onSaved(name)), onSwitched, isTab: true });
  const content = new Widget({ node: editor.element });
  content.addClass('onetool-HttpTool');
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-http-${Date.now()}`;
  tab.title.label = place.tool ? `${place.bundle}.${place.tool}` : 'New HTTP tool';
  tab.title.icon = toolsIcon;
  tab.title.closable = true;
  tabs.set(tab, { transport, key: JSON.stringify(place) });
  tab.disposed.connect(() => editor.close());
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
  editor.focus();
}

const tabs = new WeakMap<Widget, { transport: Transport; key: string }>();
