/** A stored result in a tab of the main area: the viewer of the screens, on the kernel's own transport. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './panel';
import { createViewer, fill, h, Requests, retryButton, show, type Transport } from '../screens/index.js';

/** Open the tab of a result, or bring it to the front. */
export function openResult(app: JupyterFrontEnd, transport: Transport, handle: string): void {
  const known = Array.from(app.shell.widgets('main')).find(widget => tabs.get(widget)?.transport === transport && tabs.get(widget)?.handle === handle);
  if (known) {
    app.shell.activateById(known.id);
    return;
  }
  const requests = new Requests(transport);
  const viewer = createViewer(transport);
  const notice = h('div.otx-notice', { role: 'alert', hidden: true });
  const showNotice = (message: string): void => show(fill(notice, message), true);
  const content = new Widget({ node: h('div.otx.otx-standalone.onetool-Result', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element) });
  const stop = transport.store.onClosed(showNotice);
  const tab = new MainAreaWidget({ content });
  tab.id = `onetool-result-${Date.now()}`;
  tab.title.label = `Result ${handle}`;
  tab.title.icon = toolsIcon;
  tab.title.closable = true;
  tabs.set(tab, { transport, handle });
  tab.disposed.connect(() => {
    stop();
    requests.close();
    viewer.close();
  });
  app.shell.add(tab, 'main');
  app.shell.activateById(tab.id);
  const open = async (): Promise<void> => {
    const reply = await requests.latest<{ tool?: string }>('open').send({ handle });
    if (reply.status === 'failed') {
      show(fill(notice, reply.error.message, ' ', retryButton(open)), true);
    } else if (reply.status === 'ok') {
      show(notice, false);
      tab.title.label = reply.value.tool ? `${reply.value.tool} result` : tab.title.label;
      viewer.show(reply.value);
    }
  };
  void open();
}

const tabs = new WeakMap<Widget, { transport: Transport; handle: string }>();
