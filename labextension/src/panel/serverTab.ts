/** An MCP server in a tab of the main area: its page of the screens, on the kernel's own transport. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './panel';
import { createServerPage, type Transport } from '../screens/index.js';

/** Open the tab of a server, or bring it to the front. */
export function openServer(app: JupyterFrontEnd, transport: Transport, name: string, options: { onTrust: () => void; onCall: (tool: string) => void }): void {
  const known = Array.from(app.shell.widgets('main')).find(widget => tabs.get(widget)?.transport === transport && tabs.get(widget)?.name === name);
  if (known) {
    app.shell.activateById(known.id);
    return;
  }
  const page = createServerPage(transport, name, options);
  const content = new Widget({ node: page.element });
  content.addClass('onetool-Server');
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-server-${Date.now()}`;
  tab.title.label = name;
  tab.title.caption = `MCP server ${name}`;
  tab.title.icon = toolsIcon;
  tab.title.closable = true;
  tabs.set(tab, { transport, name });
  tab.disposed.connect(() => page.close());
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
}

const tabs = new WeakMap<Widget, { transport: Transport; name: string }>();
