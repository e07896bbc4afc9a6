// How counts, durations, sizes and the outcome of a call are written on every screen.
import { h } from './dom.js';

export function number(n) {
  return Number(n).toLocaleString('en-US');
}

/** `1 row`, `1,200 rows` */
export function counted(n, noun) {
  return `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(1, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function byteSize(bytes) {
  return bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** The outcome of a call in one word. A cancelled call has not failed. */
export function outcomeOf({ ok, error }) {
  return ok ? 'ok' : error?.reason === 'cancelled' ? 'cancelled' : 'failed';
}

export function outcomeChip(outcome) {
  return h({ ok: 'span.otx-chip.otx-ok', failed: 'span.otx-chip.otx-failed' }[outcome] ?? 'span.otx-chip', null, outcome);
}
