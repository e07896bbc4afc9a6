// The calls started from this screen: their progress and their results. Several run at once. The calls that are not on
// the open tool page are listed, with a button to cancel or dismiss each.
import { fill, h, reconcile, show } from './dom.js';
import { duration, number, outcomeChip, outcomeOf } from './format.js';

const MAX_FINISHED = 5;

/** `onChange(call)` is called at every change, `onOpen(call)` when the user opens a call from the list. */
export class Calls {
  constructor(transport, requests, { onChange, onOpen }) {
    Object.assign(this, { requests, onChange, onOpen, all: [], earlyEvents: [], shown: null });
    this.element = show(h('div.otx-calls', { role: 'group', 'aria-label': 'Other calls' }), false);
    this.stopListening = transport.store.onCall(event => this.onEvent(event));
    this.timer = setInterval(() => this.updateProgress(), 200);
  }

  /** Start a call and return it at once. */
  start(tool, args) {
    const call = { id: null, tool, args, startedAt: Date.now(), progress: null, result: null, isCancelling: false };
    this.all.push(call);
    this.draw();
    this.send(call);
    return call;
  }

  async send(call) {
    const reply = await this.requests.once('run', { name: call.tool, args: call.args });
    if (reply.status === 'late') return;
    if (reply.status === 'ok') {
      call.id = reply.value.job;
      if (call.isCancelling) this.cancel(call);
      for (const event of this.earlyEvents.filter(each => each.job === call.id)) this.update(call, event);
    } else this.finish(call, { ok: false, tool: call.tool, error: { code: 'execution_error', message: reply.error.message } });
    if (this.all.every(each => each.id !== null || each.result)) this.earlyEvents = [];
  }

  onEvent(event) {
    const call = this.all.find(each => each.id === event.job);
    if (call) this.update(call, event);
    // A call can finish before the reply that carries its id.
    else if (this.all.some(each => each.id === null && !each.result)) this.earlyEvents.push(event);
  }

  update(call, event) {
    if (call.result) return;
    if (event.progress) call.progress = event.progress;
    if (event.result) this.finish(call, event.result);
    else this.onChange(call);
  }

  finish(call, result) {
    call.result = result;
    this.onChange(call);
    this.draw();
  }

  async cancel(call) {
    call.isCancelling = true;
    this.onChange(call);
    if (!call.id) return;
    const reply = await this.requests.once('cancel', { job: call.id });
    if (reply.status !== 'failed' || call.result) return;
    call.isCancelling = false; // it runs on, and Cancel can be pressed again
    this.onChange(call);
  }

  /** The kernel is gone: fail every call that is still running. */
  failRunning() {
    const message = 'The kernel stopped while the tool was running.';
    for (const call of this.running) {
      this.finish(call, { ok: false, tool: call.tool, error: { code: 'execution_error', reason: 'unavailable', message } });
    }
  }

  /** Name the call that the tool page shows; it needs no line of its own. */
  setShown(call) {
    this.shown = call;
    this.draw();
  }

  latest(tool) {
    return this.all.findLast(call => call.tool === tool) ?? null;
  }

  get running() {
    return this.all.filter(call => !call.result);
  }

  draw() {
    if (this.shown?.result) this.shown.isSeen = true;
    const finished = this.all.filter(call => call.result && !call.isSeen && call !== this.shown);
    const lines = [...this.running.filter(call => call !== this.shown), ...finished.slice(-MAX_FINISHED)];
    reconcile(this.element, lines.map(call => this.line(call)));
    show(this.element, lines.length > 0);
  }

  /** The line of a call; a new one when the call finishes. */
  line(call) {
    if (call.line && call.lineResult === call.result) return call.line;
    call.lineResult = call.result;
    const chip = outcomeChip(call.result ? outcomeOf(call.result) : 'runs');
    call.progressElement = h('span.otx-muted.otx-call-progress', null, call.result ? '' : progressText(call));
    const open = h('button.otx-small.otx-call-open', { type: 'button', title: 'Show this call', onclick: () => this.onOpen(call) }, call.tool);
    const button = call.result
      ? h('button.otx-small', { type: 'button', title: 'Dismiss', 'aria-label': `Dismiss the call of ${call.tool}`, onclick: () => this.dismiss(call) }, '×')
      : h('button.otx-small', { type: 'button', 'aria-label': `Cancel the call of ${call.tool}`, onclick: () => this.cancel(call) }, 'Cancel');
    call.line = h('div.otx-call-line', null, chip, open, call.progressElement, button);
    return call.line;
  }

  dismiss(call) {
    call.isSeen = true;
    this.draw();
  }

  updateProgress() {
    for (const call of this.running) {
      if (call === this.shown) this.onChange(call);
      else if (call.progressElement) fill(call.progressElement, progressText(call));
    }
  }

  close() {
    this.stopListening();
    clearInterval(this.timer);
  }
}

/** `3 of 10 · counting · 2.1 s` */
export function progressText(call) {
  const { done, total, text } = call.progress ?? {};
  const steps = total ? `${number(done)} of ${number(total)}` : done ? number(done) : null;
  return [call.isCancelling ? 'stopping …' : null, steps, text, duration(Date.now() - call.startedAt)].filter(Boolean).join(' · ');
}
