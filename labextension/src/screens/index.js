// The entry of the module. anywidget calls `render`; the side panel imports the parts.
import { createBrowser } from './browser.js';
import { addTabKeys, debounce, fill, h, keepFocus, passSaveOn, reconcile, retryButton, selectTab, show } from './dom.js';
import { createForm } from './form.js';
import { createHealth } from './health.js';
import { createHttpEditor } from './httpEditor.js';
import { createQuestion } from './question.js';
import { createServerPage } from './serverPage.js';
import { createServers } from './servers.js';
import { Requests } from './requests.js';
import { Transport } from './transport.js';
import { needsTrust } from './trust.js';
import { createUsage } from './usage.js';
import { createViewer } from './viewer.js';

export { Requests, Transport, addTabKeys, createBrowser, createForm, createHealth, createHttpEditor, createQuestion, createServerPage, createServers, createUsage, createViewer, debounce, fill, h, needsTrust, reconcile, retryButton, selectTab, show };

const RESTARTED = 'The kernel was restarted. Run the cell again to continue.';

/** Draw the widget's view once the kernel answers. Without a kernel the static picture beside it stays visible. */
function render({ model, el }) {
  const transport = new Transport(message => model.send(message));
  const receive = message => transport.receive(message);
  model.on('msg:custom', receive);
  const stopWatching = watchKernel(model, () => transport.close(RESTARTED));
  passSaveOn(el);
  const requests = new Requests(transport);
  let view = null;
  // Without a reply the picture stays.
  const draw = async () => {
    const reply = await requests.once('view');
    if (reply.status !== 'ok') return;
    const { view: kind, options, picture } = reply.value;
    hidePicture(picture);
    view = openView(transport, kind, options);
    el.append(view.element);
  };
  draw();
  return () => {
    requests.close();
    model.off('msg:custom', receive);
    stopWatching();
    view?.close();
  };
}

/** Hide the static picture of this view by its id, wherever the front end has put it. */
function hidePicture(picture) {
  if (!picture || document.getElementById(`${picture}-style`)) return;
  const style = document.createElement('style');
  style.id = `${picture}-style`;
  style.textContent = `#${picture} { display: none; }`;
  document.head.append(style);
}

function openView(transport, kind, options) {
  if (kind === 'usage') return createUsage(transport, options);
  if (kind === 'result') return openViewer(transport, options);
  if (kind === 'http') return createHttpEditor(transport, options);
  const browser = createBrowser(transport);
  if (options.tool) browser.open(options.tool, options.args ?? null, false);
  if (options.pack) browser.find(options.pack);
  return browser;
}

function openViewer(transport, options) {
  const requests = new Requests(transport);
  const viewer = createViewer(transport);
  const notice = h('div.otx-notice', { role: 'alert', hidden: true });
  const element = h('div.otx.otx-standalone', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element);
  element.addEventListener('keydown', event => event.stopPropagation());
  const releaseFocus = keepFocus(element);
  const open = async () => {
    const reply = await requests.latest('open').send(options);
    if (reply.status === 'failed') show(fill(notice, reply.error.message, transport.closed ? null : [' ', retryButton(open)]), true);
    if (reply.status !== 'ok') return;
    show(notice, false);
    viewer.show(reply.value);
  };
  open();
  const unsubscribe = transport.store.onClosed(reason => show(fill(notice, reason), true));
  return { element, close: () => (requests.close(), unsubscribe(), releaseFocus(), viewer.close()) };
}

/** Call `onGone` when the kernel restarts or dies, as JupyterLab's widget manager reports it. */
function watchKernel(model, onGone) {
  const session = model.widget_manager?.context?.sessionContext;
  const onStatus = (_sender, status) => {
    if (/restarting|dead|terminating/.test(String(status))) onGone();
  };
  const onDestroy = () => onGone();
  session?.statusChanged?.connect(onStatus);
  model.on('destroy', onDestroy);
  return () => {
    session?.statusChanged?.disconnect(onStatus);
    model.off('destroy', onDestroy);
  };
}

export default { render };
