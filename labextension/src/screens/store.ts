// The messages that a kernel sends by itself, for every view of a notebook: that it is gone, that its tools have changed,
// the questions that wait, and how its calls go on.
import { signal } from '@preact/signals';

const CHANGED_MS = 300;

/** A message of the kernel that answers no request. */
export interface Event {
  event: string;
  [detail: string]: any;
}

type Listener = (event: Event) => void;
type Stop = () => void;

export class Store {
  /** Why the connection ended; null while it stands. */
  readonly closed = signal<string | null>(null);
  /** The questions that wait for a person. */
  readonly questions = signal<any[]>([]);
  private readonly listeners = { changed: new Set<Listener>(), job: new Set<Listener>(), ask: new Set<Listener>() };
  private timer: ReturnType<typeof setTimeout> | undefined;

  receive(event: Event): void {
    if (event.event === 'questions') this.questions.value = event.questions;
    else if (event.event === 'job' || event.event === 'ask') this.tell(event.event, event);
    else if (event.event === 'changed') {
      // A pack that loads reports each of its tools: views read them once.
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.tell('changed', event), CHANGED_MS);
    }
  }

  /** Call `listener` when tools or servers have changed. Returns what ends it, as the next three do. */
  onChanged(listener: Listener): Stop {
    return this.listen('changed', listener);
  }

  /** Call `listener` with the progress and the result of calls. */
  onCall(listener: Listener): Stop {
    return this.listen('job', listener);
  }

  /** Call `listener` with an ask of a session each time it goes on. */
  onAsk(listener: Listener): Stop {
    return this.listen('ask', listener);
  }

  /** Call `listener` once the kernel is gone; at once if it is gone by now. */
  onClosed(listener: (reason: string) => void): Stop {
    return this.closed.subscribe(reason => {
      if (reason !== null) listener(reason);
    });
  }

  private tell(kind: keyof Store['listeners'], event: Event): void {
    for (const listener of [...this.listeners[kind]]) if (this.listeners[kind].has(listener)) listener(event);
  }

  private listen(kind: keyof Store['listeners'], listener: Listener): Stop {
    this.listeners[kind].add(listener);
    return () => void this.listeners[kind].delete(listener);
  }
}
