// A page for the tests of the ui module, and a transport whose replies a test provides.
import { register } from 'node:module';

import { JSDOM } from 'jsdom';

register(new URL('typescript.mjs', import.meta.url));

const dom = new JSDOM('<!doctype html><body></body>', { pretendToBeVisual: true });
for (const name of ['window', 'document', 'Node', 'HTMLElement', 'KeyboardEvent', 'Event', 'MouseEvent']) {
  Object.defineProperty(globalThis, name, { value: name === 'window' ? dom.window : dom.window[name], configurable: true });
}

const source = new URL('../../../labextension/src/screens/', import.meta.url);
export const ui = async name => import(new URL(`${name}.js`, source));
/** A part of the JupyterLab panel that needs nothing of JupyterLab. */
export const panel = async name => import(new URL(`../panel/${name}.js`, source));

/** A transport that is answered by an object of functions: kind -> reply. */
export async function transportOf(answers) {
  const { Transport } = await ui('transport');
  const asked = [];
  const transport = new Transport(async message => {
    asked.push(message);
    const answer = answers[message.kind];
    try {
      if (!answer) throw new Error(`no reply for ${message.kind}`);
      transport.receive({ id: message.id, value: await answer(message.payload) });
    } catch (error) {
      transport.receive({ id: message.id, error: { message: error.message } });
    }
  });
  return { transport, asked };
}

/** Wait until a condition holds. */
export async function until(holds, what = 'the condition never held') {
  for (let n = 0; n < 400; n += 1) {
    if (holds()) return;
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  throw new Error(what);
}

export function type(input, text) {
  input.value = text;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  input.dispatchEvent(new Event('change', { bubbles: true }));
}

export function press(element, key, more = {}) {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  element.dispatchEvent(event);
  return event;
}

/** A file that is read when the test says so. */
export function slowFile(name, text) {
  const file = new File([text], name);
  let read;
  const held = new Promise(resolve => (read = resolve));
  Object.assign(file, { text: () => held.then(() => text), arrayBuffer: () => held.then(() => new TextEncoder().encode(text).buffer) });
  return { file, read };
}

export function pick(input, file) {
  Object.defineProperty(input, 'files', { value: [file], configurable: true });
  input.dispatchEvent(new Event('change', { bubbles: true }));
}
