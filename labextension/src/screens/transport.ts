// Requests and replies, matched by id, over any channel that carries messages: a widget's comm, a kernel's comm, a test.
//
//   request   {id, kind, payload}            ->   {id, value} or {id, error: {message, ...}}
//   event     {event: 'job', job, status, ...}, sent by the kernel on its own: see store.ts
//
// Views do not call `request`: they ask by `Requests` in requests.ts.
import { type Event, Store } from './store.js';

export type Payload = Record<string, unknown>;

interface Failure {
  message: string;
  [detail: string]: unknown;
}

/** What arrives over the channel. */
export type Message = Event | { id: string; value?: unknown; error?: Failure };

/** The kernel refused a request, or the connection closed. */
class RequestError extends Error {
  readonly details: Record<string, unknown>;

  constructor({ message, ...details }: Failure) {
    super(message);
    this.details = details;
  }
}

interface Pending {
  resolve: (value: any) => void;
  reject: (error: RequestError) => void;
  sentAt: number;
}

export class Transport {
  /** What the kernel sends by itself. */
  readonly store = new Store();
  private readonly pending = new Map<string, Pending>();
  private count = 0;
  // Two views of one widget receive each other's replies.
  private readonly prefix = Math.random().toString(36).slice(2);

  /** `send(message)` puts a message on the channel. Pass every message that arrives to `receive`. */
  constructor(private readonly send: (message: Payload) => void) {}

  /** Resolve with the kernel's reply, or reject with a RequestError. */
  request<T = any>(kind: string, payload: Payload = {}): Promise<T> {
    if (this.closed !== null) return Promise.reject(new RequestError({ message: this.closed }));
    const id = `${this.prefix}-${(this.count += 1)}`;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject, sentAt: Date.now() });
      try {
        this.send({ id, kind, payload });
      } catch (error) {
        this.pending.delete(id); // nobody will answer it
        reject(error);
      }
    });
  }

  receive(message: Message): void {
    if ('event' in message) {
      this.store.receive(message);
      return;
    }
    const request = this.pending.get(message.id);
    if (!request) return;
    this.pending.delete(message.id);
    if (message.error) request.reject(new RequestError(message.error));
    else request.resolve(message.value);
  }

  /** Why the connection ended; null while it stands. */
  get closed(): string | null {
    return this.store.closed.value;
  }

  /** How long the oldest pending request has waited, in milliseconds. */
  get longestWaitMs(): number {
    const now = Date.now();
    return Math.max(0, ...Array.from(this.pending.values(), request => now - request.sentAt));
  }

  /** The kernel is gone: reject every request, pending and future, with this reason. */
  close(reason: string): void {
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const request of pending) request.reject(new RequestError({ message: reason }));
    this.store.closed.value = reason;
  }
}
