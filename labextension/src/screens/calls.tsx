// The calls started from this screen: their progress and their results. Several run at once. The calls that are not on
// the open tool page are listed, with a button to cancel or dismiss each.
import { batch, signal } from '@preact/signals';
import { elementOf, uniqueId } from './dom.js';
import { duration, number, outcomeOf } from './format.js';
import { drawInto, OutcomeChip } from './parts.js';
import type { Requests } from './requests.js';
import type { Event } from './store.js';
import type { Payload, Transport } from './transport.js';

const MAX_FINISHED = 5;
const TICK_MS = 200;

export interface Result {
  ok: boolean;
  error?: { code: string; reason?: string; message: string } | null;
  [part: string]: unknown;
}

/** A call and what became of it. */
export class Call {
  readonly key = uniqueId('call');
  readonly startedAt = Date.now();
  readonly progress = signal<{ done?: number; total?: number; text?: string }>({});
  readonly isCancelling = signal(false);
  readonly result = signal<Result | null>(null);
  /** Its result was on the page, or was dismissed. */
  readonly isSeen = signal(false);
  /** What the kernel calls it, once it has answered. */
  id: string | null = null;

  constructor(readonly tool: string, readonly args: Payload) {}
}

interface Options {
  /** Called when a call is about to be shown as finished: what belongs to a running call goes. */
  beforeFinish: (call: Call) => void;
  /** Called when a call has finished. */
  onFinish: (call: Call) => void;
  /** Called when the user opens a call from the list. */
  onOpen: (call: Call) => void;
}

export class Calls {
  readonly element = elementOf('div.otx-calls', { role: 'group', 'aria-label': 'Other calls' });
  private readonly started = signal<Call[]>([]);
  /** The call that the tool page shows; it needs no line of its own. */
  private readonly shown = signal<Call | null>(null);
  private readonly now = signal(Date.now());
  private earlyEvents: Event[] = [];
  private readonly stopListening: () => void;
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(transport: Transport, private readonly requests: Requests, private readonly options: Options) {
    this.stopListening = transport.store.onCall(event => this.onEvent(event));
    this.timer = setInterval(() => this.running.length && (this.now.value = Date.now()), TICK_MS);
    drawInto(this.element, () => this.lines());
  }

  get all(): Call[] {
    return this.started.peek();
  }

  get running(): Call[] {
    return this.all.filter(call => !call.result.peek());
  }

  latest(tool: string): Call | null {
    return this.all.filter(call => call.tool === tool).at(-1) ?? null;
  }

  /** Start a call and return it at once. */
  start(tool: string, args: Payload): Call {
    const call = new Call(tool, args);
    this.started.value = [...this.all, call];
    void this.send(call);
    return call;
  }

  private async send(call: Call): Promise<void> {
    const reply = await this.requests.once<{ job: string }>('run', { name: call.tool, args: call.args });
    if (reply.status === 'late') return;
    if (reply.status === 'ok') {
      call.id = reply.value.job;
      if (call.isCancelling.peek()) void this.cancel(call);
      for (const event of this.earlyEvents.filter(each => each.job === call.id)) this.update(call, event);
    } else this.finish(call, { ok: false, tool: call.tool, error: { code: 'execution_error', message: reply.error.message } });
    if (!this.awaitsId) this.earlyEvents = [];
  }

  private get awaitsId(): boolean {
    return this.running.some(call => call.id === null);
  }

  private onEvent(event: Event): void {
    const call = this.all.find(each => each.id === event.job);
    if (call) this.update(call, event);
    // A call can finish before the reply that carries its id.
    else if (this.awaitsId) this.earlyEvents.push(event);
  }

  private update(call: Call, { progress, result }: Event): void {
    if (call.result.peek()) return;
    if (progress) call.progress.value = progress;
    if (result) this.finish(call, result);
  }

  private finish(call: Call, result: Result): void {
    this.options.beforeFinish(call);
    batch(() => {
      call.result.value = result;
      call.isSeen.value = call === this.shown.peek();
    });
    this.options.onFinish(call);
  }

  async cancel(call: Call): Promise<void> {
    call.isCancelling.value = true;
    if (!call.id) return;
    const reply = await this.requests.once('cancel', { job: call.id });
    // It runs on, and Cancel can be pressed again.
    if (reply.status === 'failed') call.isCancelling.value = false;
  }

  /** The kernel is gone: fail every call that is still running. */
  failRunning(): void {
    const message = 'The kernel stopped while the tool was running.';
    for (const call of this.running) this.finish(call, {
      ok: false, tool: call.tool, error: { code: 'execution_error', reason: 'unavailable', message }
    });
  }

  setShown(call: Call | null): void {
    batch(() => {
      this.shown.value = call;
      if (call?.result.peek()) call.isSeen.value = true;
    });
  }

  /** `3 of 10 · counting · 2.1 s` */
  progressOf(call: Call): string {
    const { done, total, text } = call.progress.value;
    const steps = total ? `${number(done ?? 0)} of ${number(total)}` : done ? number(done) : null;
    return [call.isCancelling.value ? 'stopping …' : null, steps, text, duration(this.elapsed(call))].filter(Boolean).join(' · ');
  }

  /** How long a call has run by now, in milliseconds. */
  elapsed(call: Call): number {
    return Math.max(this.now.value, Date.now()) - call.startedAt;
  }

  private lines() {
    const others = this.started.value.filter(call => call !== this.shown.value);
    const finished = others.filter(call => call.result.value && !call.isSeen.value);
    const lines = [...others.filter(call => !call.result.value), ...finished.slice(-MAX_FINISHED)];
    this.element.hidden = !lines.length;
    return lines.map(call => this.line(call));
  }

  /** The line of a call; another one once it has finished, so that no click on Cancel meets Dismiss. */
  private line(call: Call) {
    const { key, tool, result: { value: result } } = call;
    const dismiss = (): void => void (call.isSeen.value = true);
    const last = result
      ? <button class="otx-small" type="button" title="Dismiss" aria-label={`Dismiss the call of ${tool}`} onClick={dismiss}>×</button>
      : <button class="otx-small" type="button" aria-label={`Cancel the call of ${tool}`} onClick={() => this.cancel(call)}>Cancel</button>;
    return (
      <div key={result ? `${key}-result` : key} class="otx-call-line">
        <OutcomeChip outcome={result ? outcomeOf(result) : 'runs'} />
        <button class="otx-small otx-call-open" type="button" title="Show this call" onClick={() => this.options.onOpen(call)}>
          {tool}
        </button>
        <span class="otx-muted otx-call-progress">{result ? '' : this.progressOf(call)}</span>
        {last}
      </div>
    );
  }

  close(): void {
    this.stopListening();
    clearInterval(this.timer);
  }
}
