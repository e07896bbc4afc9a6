// Requests and replies, matched by id, over any channel that carries messages: a widget's comm, a kernel's comm, a test.
//
//   request   {id, kind, payload}            ->   {id, value} or {id, error: {message, ...}}
//   event     {event: 'job', job, status, ...}, sent by the kernel on its own

/** The kernel refused a request, or the connection closed. */
export class RequestError extends Error {
  constructor({ message, ...details }) {
    super(message);
    this.details = details;
  }
}

export class Transport {
  /** `send(message)` puts a message on the channel. Pass every message that arrives to `receive`. */
  constructor(send) {
    this.send = send;
    this.pending = new Map();
    this.listeners = new Map();
    this.count = 0;
    this.prefix = Math.random().toString(36).slice(2); // two views of one widget receive each other's replies
    this.closed = null;
    this.request = this.request.bind(this);
  }

  /** Resolve with the kernel's reply, or reject with a RequestError. */
  request(kind, payload = {}) {
    if (this.closed) return Promise.reject(new RequestError({ message: this.closed }));
    const id = `${this.prefix}-${(this.count += 1)}`;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject, sentAt: Date.now() });
      this.send({ id, kind, payload });
    });
  }

  receive(message) {
    if (message.event) {
      this.emit(message);
      return;
    }
    const request = this.pending.get(message.id);
    if (!request) return;
    this.pending.delete(message.id);
    if (message.error) request.reject(new RequestError(message.error));
    else request.resolve(message.value);
  }

  /** Listen for an event; returns the function that stops listening. */
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
    return () => this.listeners.get(event).delete(listener);
  }

  emit(message) {
    for (const listener of this.listeners.get(message.event) ?? []) listener(message);
  }

  /** How long the oldest pending request has waited, in milliseconds. */
  get longestWaitMs() {
    const now = Date.now();
    return Math.max(0, ...Array.from(this.pending.values(), request => now - request.sentAt));
  }

  /** The kernel is gone: reject every request, pending and future, with this reason. Emits `closed`. */
  close(reason) {
    this.closed = reason;
    for (const request of this.pending.values()) request.reject(new RequestError({ message: reason }));
    this.pending.clear();
    this.emit({ event: 'closed', reason });
  }
}
