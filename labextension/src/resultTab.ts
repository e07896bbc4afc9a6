/** A stored result in a tab of the main area: the viewer of the screens, on the kernel's own transport. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './panel';
import { createViewer, fill, h, show, type Transport } from './ui/index.js';

/** Open the tab of a result, or bring it to the front. */
export function openResult(app: JupyterFrontEnd, transport: Transport, handle: string): void {
  const known = Array.from(app.shell.widgets('main')).find(widget => tabs.get(widget)?.transport === transport && tabs.get(widget)?.handle === handle);
  if (known) {
    app.shell.activateById(known.id);
    return;
  }
  const viewer = createViewer(transport.request);
  const notice = h('div.otx-notice', { role: 'alert', hidden: true });
  const showNotice = (message: string): void => show(fill(notice, message), true);
  const content = new Widget({ node: h('div.otx.otx-standalone.onetool-Result', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element) });
  const stop = transport.on('closed', event => showNotice(event.reason));
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-result-${Date.now()}`;
  tab.title.label = `Result ${handle}`;
  tab.title.icon = toolsIcon;
  tab.title.closable = true;
  tabs.set(tab, { transport, handle });
  tab.disposed.connect(() => {
    stop();
    viewer.close();
  });
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
  transport.request('open', { handle }).then(
    result => {
      tab.title.label = result.tool ? `${result.tool} result` : tab.title.label;
      viewer.show(result);
    },
    error => showNotice(error.message)
  );
}

const tabs = new WeakMap<Widget, { transport: Transport; handle: string }>();
