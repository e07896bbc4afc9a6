// The face of the module. `render` is what anywidget calls; the side panel uses the parts themselves.
import { createBrowser } from './browser.js';
import { h } from './dom.js';
import { Transport } from './transport.js';
import { createUsage } from './usage.js';
import { createViewer } from './viewer.js';

export { Transport, createBrowser, createUsage, createViewer };

const GONE = 'The kernel was restarted: run the cell again to go on.';

/** Draw the view that a widget asks for. */
function render({ model, el }) {
  const transport = new Transport(message => model.send(message));
  const receive = message => transport.receive(message);
  model.on('msg:custom', receive);
  const view = open(model, transport);
  el.append(view.element);
  const stopWatching = watch(model, () => transport.lose(GONE));
  return () => {
    model.off('msg:custom', receive);
    stopWatching();
    view.close();
  };
}

function open(model, transport) {
  const options = model.get('options');
  if (model.get('view') === 'usage') return createUsage(transport, options);
  if (model.get('view') === 'result') return viewerOf(transport, options);
  const browser = createBrowser(transport);
  if (options.tool) browser.open(options.tool, options.args ?? null, false);
  return browser;
}

function viewerOf(transport, options) {
  const viewer = createViewer(transport.request);
  const notice = h('div.otx-notice', { role: 'alert', hidden: true });
  const element = h('div.otx.otx-alone', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element);
  element.addEventListener('keydown', event => event.stopPropagation());
  const say = message => {
    notice.textContent = message;
    notice.hidden = false;
  };
  transport.request('open', options).then(viewer.show, error => say(error.message));
  const undo = transport.on('lost', event => say(event.reason));
  return { element, close: () => (undo(), viewer.close()) };
}

/** Hear of the kernel's end: the comm closes, or JupyterLab tells that the kernel restarted. */
function watch(model, onGone) {
  const session = model.widget_manager?.context?.sessionContext;
  const changed = (_sender, status) => {
    if (/restarting|dead|terminating/.test(String(status))) onGone();
  };
  session?.statusChanged?.connect(changed);
  const closed = () => {
    if (model.comm_live === false) onGone();
  };
  model.on('comm_live_update', closed);
  return () => {
    session?.statusChanged?.disconnect(changed);
    model.off('comm_live_update', closed);
  };
}

export default { render };
