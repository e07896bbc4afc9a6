// The messages that a kernel sends by itself, for every view of a notebook: that it is gone, that its tools have changed,
// the questions that wait, and how its calls go on.
import { signal } from '@preact/signals';

const CHANGED_MS = 300;

/** A message of the kernel that answers no request. */
export interface Event {
  event: string;
  [detail: string]: any;
}

type Stop = () => void;

export class Store {
  /** Why the connection ended; null while it stands. */
  readonly closed = signal<string | null>(null);
  /** The questions that wait for a person. */
  readonly questions = signal<any[]>([]);
  private readonly changes = new Set<() => void>();
  private readonly calls = new Set<(event: Event) => void>();
  private readonly asks = new Set<(event: Event) => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  receive(event: Event): void {
    if (event.event === 'questions') this.questions.value = event.questions;
    else if (event.event === 'job') for (const listener of [...this.calls]) listener(event);
    else if (event.event === 'ask') for (const listener of [...this.asks]) listener(event);
    else if (event.event === 'changed') {
      // A pack that loads reports each of its tools: views read them once.
      clearTimeout(this.timer);
      this.timer = setTimeout(() => [...this.changes].forEach(listener => this.changes.has(listener) && listener()), CHANGED_MS);
    }
  }

  /** Call `listener` when tools or servers have changed. Returns what ends it, as the next three do. */
  onChanged(listener: () => void): Stop {
    return listen(this.changes, listener);
  }

  /** Call `listener` with the progress and the result of calls. */
  onCall(listener: (event: Event) => void): Stop {
    return listen(this.calls, listener);
  }

  /** Call `listener` with an ask of a session each time it goes on. */
  onAsk(listener: (event: Event) => void): Stop {
    return listen(this.asks, listener);
  }

  /** Call `listener` once the kernel is gone; at once if it is gone by now. */
  onClosed(listener: (reason: string) => void): Stop {
    return this.closed.subscribe(reason => {
      if (reason !== null) listener(reason);
    });
  }
}

function listen<T>(listeners: Set<T>, listener: T): Stop {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
