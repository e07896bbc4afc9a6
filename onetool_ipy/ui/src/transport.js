// Requests with ids over any channel that carries messages: a widget's comm, a kernel's comm, a test's double.
//
//   request   {id, kind, payload}            ->   {id, value} or {id, error: {message, ...}}
//   event     {event: 'job', job, status, ...}, unasked

/** An answer that says no, in the words of the other side. */
export class Refused extends Error {
  constructor({ message, ...details }) {
    super(message);
    this.details = details;
  }
}

export class Transport {
  /** `send(message)` gives a message to the channel; hand what comes back to `receive`. */
  constructor(send) {
    this.send = send;
    this.waiting = new Map();
    this.listeners = new Map();
    this.last = 0;
    this.mine = Math.random().toString(36).slice(2); // two views of one widget hear the same answers
    this.gone = null;
    this.request = (kind, payload = {}) => this.ask(kind, payload);
  }

  ask(kind, payload) {
    if (this.gone) return Promise.reject(new Refused({ message: this.gone }));
    const id = `${this.mine}-${(this.last += 1)}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, since: Date.now() });
      this.send({ id, kind, payload });
    });
  }

  receive(message) {
    if (message.event) {
      for (const listener of this.listeners.get(message.event) ?? []) listener(message);
      return;
    }
    const asked = this.waiting.get(message.id);
    if (!asked) return;
    this.waiting.delete(message.id);
    if (message.error) asked.reject(new Refused(message.error));
    else asked.resolve(message.value);
  }

  /** Hear of an event; gives back what ends that. */
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
    return () => this.listeners.get(event).delete(listener);
  }

  /** How long the oldest request has waited, in milliseconds. */
  get waited() {
    let since = Date.now();
    for (const asked of this.waiting.values()) since = Math.min(since, asked.since);
    return Date.now() - since;
  }

  /** The other side is gone: every request, waiting or new, says so. */
  lose(reason) {
    this.gone = reason;
    for (const asked of this.waiting.values()) asked.reject(new Refused({ message: reason }));
    this.waiting.clear();
    for (const listener of this.listeners.get('lost') ?? []) listener({ event: 'lost', reason });
  }
}
