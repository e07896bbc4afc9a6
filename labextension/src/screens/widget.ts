// The entry of the notebook widget: anywidget calls `render`. It is all that screens.js exports, so the screens of the side
// panel alone are not in that file.
import { createBrowser } from './browser.js';
import { keepKeys } from './dom.js';
import { createHttpEditor } from './httpEditor.js';
import { Requests } from './requests.js';
import { type Message, type Payload, Transport } from './transport.js';
import { createUsage } from './usage.js';
import { createResult } from './viewer.js';

const RESTARTED = 'The kernel was restarted. Run the cell again to continue.';

type Listener = (...args: any[]) => void;

interface KernelSignal {
  connect(listener: Listener): void;
  disconnect(listener: Listener): void;
}

/** What anywidget hands over, as far as it is used here. */
interface Model {
  send(message: Payload): void;
  on(event: string, listener: Listener): void;
  off(event: string, listener: Listener): void;
  widget_manager?: { context?: { sessionContext?: { statusChanged?: KernelSignal } } };
}

interface View {
  element: HTMLElement;
  close(): void;
}

/** Draw the widget's view once the kernel answers. Without a kernel the static picture beside it stays visible. */
function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const transport = new Transport(message => model.send(message));
  const receive = (message: Message): void => transport.receive(message);
  model.on('msg:custom', receive);
  const stopWatching = watchKernel(model, () => transport.close(RESTARTED));
  keepKeys(el);
  const requests = new Requests(transport);
  let view: View | null = null;
  // Without a reply the picture stays.
  const draw = async (): Promise<void> => {
    const reply = await requests.once<{ view: string; options: any; picture: string }>('view');
    if (reply.status !== 'ok') return;
    const { view: kind, options, picture } = reply.value;
    hidePicture(picture);
    view = openView(transport, kind, options);
    el.append(view.element);
  };
  void draw();
  return () => {
    requests.close();
    model.off('msg:custom', receive);
    stopWatching();
    view?.close();
  };
}

/** Hide the static picture of this view by its id, wherever the front end has put it. */
function hidePicture(picture: string): void {
  if (!picture || document.getElementById(`${picture}-style`)) return;
  const style = document.createElement('style');
  style.id = `${picture}-style`;
  style.textContent = `#${picture} { display: none; }`;
  document.head.append(style);
}

function openView(transport: Transport, kind: string, options: any): View {
  if (kind === 'usage') return createUsage(transport, options);
  if (kind === 'result') return createResult(transport, options);
  if (kind === 'http') return createHttpEditor(transport, options);
  const browser = createBrowser(transport);
  if (options.tool) void browser.open(options.tool, options.args ?? null, false);
  if (options.pack) void browser.find(options.pack);
  return browser;
}

/** Call `onGone` when the kernel restarts or dies, as JupyterLab's widget manager reports it. */
function watchKernel(model: Model, onGone: () => void): () => void {
  const changes = model.widget_manager?.context?.sessionContext?.statusChanged;
  const onStatus = (_sender: unknown, status: unknown): void => {
    if (/restarting|dead|terminating/.test(String(status))) onGone();
  };
  const onDestroy = (): void => onGone();
  changes?.connect(onStatus);
  model.on('destroy', onDestroy);
  return () => {
    changes?.disconnect(onStatus);
    model.off('destroy', onDestroy);
  };
}

export default { render };
