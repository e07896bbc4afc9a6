// How counts, durations, sizes and the outcome of a call are written on every screen.

export function number(n: number | string): string {
  return Number(n).toLocaleString('en-US');
}

/** `1 row`, `1,200 rows` */
export function counted(n: number, noun: string): string {
  return `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
}

/** Whether a text has every word of a query, in small or capital letters. */
export function hasWords(text: string, query: string): boolean {
  const low = text.toLowerCase();
  return query.toLowerCase().split(/\s+/).every(word => low.includes(word));
}

export function duration(ms: number): string {
  if (ms < 1) return ms > 0 ? '<1 ms' : '0 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function byteSize(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Where a tool comes from, for people: `proxy:github` is a tool of the MCP server `github`. */
export function sourceText(source: string): string {
  return source.startsWith('proxy:') ? `MCP server ${source.slice('proxy:'.length)}` : source;
}

/** The outcome of a call in one word. A cancelled call has not failed. */
export function outcomeOf({ ok, error }: { ok: boolean; error?: { reason?: string } | null }): string {
  return ok ? 'ok' : error?.reason === 'cancelled' ? 'cancelled' : 'failed';
}

/** How the state of a server is marked; any other is idle. */
export const STATES: Record<string, string> = {
  connected: 'ok', failed: 'failed', unreachable: 'failed', 'wrong address': 'failed', refused: 'failed', disconnected: 'failed',
  'signed out': 'warning', untrusted: 'warning'
};

/** A message without the name of its argument, for display at that field. */
export function withoutArgumentName(message: string): string {
  return message.replace(/^(argument|field) '[^']*': /, '');
}

export const BADGES: Record<string, string> = {
  'read-only': 'It changes nothing',
  destructive: 'It may delete or overwrite something',
  idempotent: 'Calling it again with the same arguments changes nothing more',
  'open world': 'It reaches things outside, such as the web'
};

/** What ends a line of code for Python, and begins another that would run. */
export const LINE_END = /[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;
