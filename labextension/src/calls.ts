/** How a call of a tool is written into a cell. */

import type { Link } from './link';

const PATIENCE_MS = 400;

/** The line that calls a tool, with its required arguments to fill in; without them where the kernel does not answer. */
export async function callOf(link: Link | null, tool: string): Promise<string> {
  const plain = `%tool ${tool}`;
  const transport = link?.transport;
  if (!transport) {
    return plain;
  }
  const late = new Promise<null>(resolve => window.setTimeout(() => resolve(null), PATIENCE_MS));
  const found = await Promise.race([transport.request('tool', { name: tool }).catch(() => null), late]);
  const required: string[] = found?.parameters?.required ?? [];
  return [plain, ...required.map(name => `${name}=`)].join(' ');
}

/** The names of the tools, some of them where they are very many. */
export async function toolNames(link: Link | null, limit: number): Promise<string[]> {
  const found = await link?.transport?.request('search', { query: '', limit }).catch(() => null);
  return (found?.items ?? []).map((item: { name: string }) => item.name);
}
