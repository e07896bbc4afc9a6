// The one way by which a view asks the kernel or the server. A view has its own `Requests`, which end with it.
//
//   latest   what is shown: a later request takes the place of an earlier one, errors included
//   once     what is done: each reply counts, whatever is sent after it
//
// Nothing of either arrives after the view is gone. A reply says in its `status` whether it may be shown, so that no view
// can forget to look.
import { batch, signal } from '@preact/signals';
import type { Payload } from './transport.js';

/** What became of a request. `late`: a later one took its place, or its view is gone. */
export type Reply<T> = { status: 'ok'; value: T } | { status: 'failed'; error: Error } | { status: 'late' };

/** What answers requests by their kind: a transport. */
export interface Source {
  request<T>(kind: string, payload?: Payload): Promise<T>;
}

/** How work of several steps asks: it ends by itself, with an error nobody sees, once its result would be late. */
export type Ask = <T = any>(kind: string, payload?: Payload) => Promise<T>;

const LATE = { status: 'late' } as const;

/** A request that is made again and again, of which only the latest counts. */
export class LatestRequest<P, T> {
  /** The latest reply; it stays while the next one is under way. */
  readonly value = signal<T | null>(null);
  /** Why the latest request failed; empty if it did not. */
  readonly failure = signal('');
  readonly isPending = signal(false);
  private payload: P | undefined;
  private sent = 0;
  /** The first request with the present payload: replies to those before are late. */
  private first = 0;
  private answered = 0;
  private isClosed = false;

  constructor(
    private readonly source: Source | null,
    private readonly work: (payload: P, ask: Ask) => Promise<T>
  ) {}

  send(payload: P): Promise<Reply<T>> {
    this.payload = payload;
    this.first = this.sent + 1;
    return this.deliver(payload);
  }

  /**
   * Send the last payload again, to retry or to refresh. A reply that is still under way may come before it: a kernel that
   * reports changes faster than it answers would otherwise never be shown.
   */
  again(): Promise<Reply<T>> {
    return this.deliver(this.payload as P);
  }

  /** Forget what is under way, and what was shown. */
  reset(): void {
    this.first = this.sent + 1;
    batch(() => {
      this.value.value = null;
      this.failure.value = '';
      this.isPending.value = false;
    });
  }

  close(): void {
    this.isClosed = true;
  }

  private async deliver(payload: P): Promise<Reply<T>> {
    if (this.isClosed) return LATE;
    const turn = (this.sent += 1);
    this.isPending.value = true;
    const isLate = (): boolean => this.isClosed || turn < this.first || turn < this.answered;
    try {
      const value = await this.work(payload, askUntil(this.source, isLate));
      if (isLate()) return LATE;
      this.answered = turn;
      batch(() => {
        this.value.value = value;
        this.failure.value = '';
        this.isPending.value = turn < this.sent;
      });
      return { status: 'ok', value };
    } catch (caught) {
      if (isLate() || turn < this.sent) return LATE;
      const error = asError(caught);
      this.answered = turn;
      batch(() => {
        this.failure.value = error.message;
        this.isPending.value = false;
      });
      return { status: 'failed', error };
    }
  }
}

/** The requests of one view. */
export class Requests {
  private readonly open = new Map<string, LatestRequest<any, any>>();
  private readonly others = new Set<{ close(): void }>();
  private isClosed = false;

  constructor(
    /** Null for requests that ask no kernel, such as those of the REST API. */
    private readonly source: Source | null,
    private readonly onClosed: (self: Requests) => void = () => {}
  ) {}

  /** The request of a kind. `key` tells apart those that do not replace each other, such as the stars of two tools. */
  latest<T>(kind: string, key = ''): LatestRequest<Payload, T> {
    const name = `${kind} ${key}`;
    const request = this.open.get(name) ?? this.latestOf((payload: Payload, ask) => ask<T>(kind, payload));
    this.open.set(name, request);
    return request;
  }

  /** What several requests give together, or one of the REST API. */
  latestOf<P, T>(work: (payload: P, ask: Ask) => Promise<T>): LatestRequest<P, T> {
    const request = new LatestRequest(this.source, work);
    this.others.add(request);
    if (this.isClosed) request.close();
    return request;
  }

  /** Do something: no other request takes its place. */
  once<T>(kind: string, payload: Payload = {}): Promise<Reply<T>> {
    return this.onceOf(ask => ask<T>(kind, payload));
  }

  async onceOf<T>(work: (ask: Ask) => Promise<T>): Promise<Reply<T>> {
    if (this.isClosed) return LATE;
    try {
      const value = await work(askUntil(this.source, () => this.isClosed));
      return this.isClosed ? LATE : { status: 'ok', value };
    } catch (caught) {
      return this.isClosed ? LATE : { status: 'failed', error: asError(caught) };
    }
  }

  /** The requests of a part of this view, which may end before it. */
  part(): Requests {
    const part = new Requests(this.source, closed => this.others.delete(closed));
    this.others.add(part);
    if (this.isClosed) part.close();
    return part;
  }

  close(): void {
    this.isClosed = true;
    for (const each of this.others) each.close();
    this.onClosed(this);
  }
}

function askUntil(source: Source | null, isLate: () => boolean): Ask {
  const check = (): void => {
    if (isLate()) throw new Error('late');
  };
  return async (kind, payload) => {
    check();
    const value = await source!.request<any>(kind, payload);
    check();
    return value;
  };
}

function asError(caught: unknown): Error {
  return caught instanceof Error ? caught : new Error(String(caught));
}
