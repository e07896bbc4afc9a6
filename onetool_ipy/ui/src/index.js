// The face of the module. `render` is what anywidget calls; the side panel uses the parts themselves.
import { createBrowser } from './browser.js';
import { h, keepFocus } from './dom.js';
import { Transport } from './transport.js';
import { createUsage } from './usage.js';
import { createViewer } from './viewer.js';

export { Transport, createBrowser, createUsage, createViewer };

const GONE = 'The kernel was restarted: run the cell again to go on.';

/** Draw the view that a widget asks for, once a kernel answers: without one, the picture beside it is what one sees. */
function render({ model, el }) {
  const transport = new Transport(message => model.send(message));
  const receive = message => transport.receive(message);
  model.on('msg:custom', receive);
  const stopWatching = watch(model, () => transport.lose(GONE));
  let isOver = false;
  let view = null;
  const draw = ({ view: kind, options, picture }) => {
    if (isOver) return;
    hide(picture);
    view = open(transport, kind, options);
    el.append(view.element);
  };
  transport.request('first').then(draw, () => {});
  return () => {
    isOver = true;
    model.off('msg:custom', receive);
    stopWatching();
    view?.close();
  };
}

/** Hide the static picture of this view by its id, wherever a front end has put it. */
function hide(picture) {
  if (!picture || document.getElementById(`${picture}-style`)) return;
  const style = document.createElement('style');
  style.id = `${picture}-style`;
  style.textContent = `#${picture} { display: none; }`;
  document.head.append(style);
}

function open(transport, kind, options) {
  if (kind === 'usage') return createUsage(transport, options);
  if (kind === 'result') return viewerOf(transport, options);
  const browser = createBrowser(transport);
  if (options.tool) browser.open(options.tool, options.args ?? null, false);
  return browser;
}

function viewerOf(transport, options) {
  const viewer = createViewer(transport.request);
  const notice = h('div.otx-notice', { role: 'alert', hidden: true });
  const element = h('div.otx.otx-alone', { 'data-lm-suppress-shortcuts': 'true' }, notice, viewer.element);
  element.addEventListener('keydown', event => event.stopPropagation());
  const letFocusGo = keepFocus(element);
  const say = message => {
    notice.textContent = message;
    notice.hidden = false;
  };
  transport.request('open', options).then(viewer.show, error => say(error.message));
  const undo = transport.on('lost', event => say(event.reason));
  return { element, close: () => (undo(), letFocusGo(), viewer.close()) };
}

/** Hear of the kernel's end, as JupyterLab's manager of widgets tells it. */
function watch(model, onGone) {
  const session = model.widget_manager?.context?.sessionContext;
  const changed = (_sender, status) => {
    if (/restarting|dead|terminating/.test(String(status))) onGone();
  };
  session?.statusChanged?.connect(changed);
  const closed = () => onGone();
  model.on('destroy', closed);
  return () => {
    session?.statusChanged?.disconnect(changed);
    model.off('destroy', closed);
  };
}

export default { render };
