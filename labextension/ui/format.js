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

/** Where a tool comes from, for people: `proxy:github` is a tool of the MCP server `github`. */
export function sourceText(source) {
  return source.startsWith('proxy:') ? `MCP server ${source.slice('proxy:'.length)}` : source;
}

/** The outcome of a call in one word. A cancelled call has not failed. */
export function outcomeOf({ ok, error }) {
  return ok ? 'ok' : error?.reason === 'cancelled' ? 'cancelled' : 'failed';
}

const BADGES = {
  'read-only': 'It changes nothing',
  destructive: 'It may delete or overwrite something',
  idempotent: 'Calling it again with the same arguments changes nothing more',
  'open world': 'It reaches things outside, such as the web'
};

/** What a tool does to the world, as its author says. */
export function badgeChip(badge) {
  return h(badge === 'destructive' ? 'span.otx-chip.otx-failed' : 'span.otx-chip', { title: BADGES[badge] ?? null }, badge);
}

const ICON = /^data:image\/(png|jpeg|webp|svg\+xml)[;,]/;

/** The icon of a server or tool, or null. It comes as data, so nothing is fetched; in an image nothing of it runs. */
export function drawIcon(src) {
  return ICON.test(src ?? '') ? h('img.otx-icon', { src, alt: '', onerror: event => event.target.remove() }) : null;
}

export function outcomeChip(outcome) {
  return h({ ok: 'span.otx-chip.otx-ok', failed: 'span.otx-chip.otx-failed' }[outcome] ?? 'span.otx-chip', null, outcome);
}
