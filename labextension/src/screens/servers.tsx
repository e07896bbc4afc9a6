// The servers screen: every MCP server with its state and reason, what can be done with it, its logs; and adding one from
// what a README says. Names, reasons and logs come from elsewhere and are shown as text.
import { signal } from '@preact/signals';
import { h } from './dom.js';
import { counted, STATES } from './format.js';
import { drawInto, Icon } from './parts.js';
import { Requests } from './requests.js';
import type { Transport } from './transport.js';

const STARTS = 'It starts when its tools are needed.';
const SIGN_IN = /^https:\/\/|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/;

export type Server = Record<'name' | 'type' | 'state' | 'reason' | 'address', string> & { tools: string[]; icon?: string; isSaved: boolean; signsIn: boolean };
/** What the kernel says of an action: a sentence, or where one signs in. */
export type Done = { said?: string; url?: string };
type Below = { logs: string } | { url: string };
export type Servers = ReturnType<typeof createServers>;

/**
 * Returns `{element, load(), act(name, action), close()}`; `act` does what a button of that server does. `onOpen(name)` opens
 * the page of a server.
 */
export function createServers(transport: Transport, { onOpen }: { onOpen?: (name: string) => void } = {}) {
  const requests = new Requests(transport);
  const servers = requests.latest<{ items: Server[] }>('servers');
  const said = signal('');
  const isAdding = signal(false);
  const draft = signal({ text: '', name: '', isSaved: false });
  /** The server whose removal was asked for once. */
  const unsure = signal('');
  /** What stands below the servers: the logs of one, or where one signs in. */
  const below = signal<Record<string, Below>>({});
  const element: HTMLElement = h('div.otx-servers-screen');

  async function load(): Promise<void> {
    await servers.again();
  }

  function isThere(name: string): boolean {
    return servers.value.value?.items.some(item => item.name === name) ?? false;
  }

  function show(name: string, content: Below | null): void {
    const { [name]: _, ...others } = below.value;
    below.value = content ? { ...others, [name]: content } : others;
  }

  async function add(event: Event): Promise<void> {
    event.preventDefault();
    const sent = draft.value;
    isAdding.value = true;
    const reply = await requests.onceOf(async ask => {
      const added = await ask<{ said: string }>('addServer', sent);
      // What was typed meanwhile is the next one.
      if (draft.value === sent) draft.value = { ...sent, text: '', name: '' };
      await load();
      return added;
    });
    if (reply.status === 'late') return;
    isAdding.value = false;
    said.value = reply.status === 'ok' ? reply.value.said : reply.error.message;
  }

  async function press(name: string, action: string): Promise<void> {
    if (action === 'logs') return toggleLogs(name);
    if (action === 'remove' && unsure.value !== name) {
      unsure.value = name;
      return undefined;
    }
    unsure.value = '';
    said.value = `${name}: ${action} …`;
    const reply = await requests.onceOf(async ask => {
      try {
        return await ask<Done>('server', { name, action });
      } finally {
        await load();
      }
    });
    if (reply.status === 'late') return undefined;
    const { said: sentence = '', url } = reply.status === 'ok' ? reply.value : { said: reply.error.message };
    said.value = url ? `Sign in to ${name} at the address below. Then press Refresh.` : sentence;
    if (url) show(name, { url });
    else if (!isThere(name)) show(name, null);
    return undefined;
  }

  async function toggleLogs(name: string): Promise<void> {
    if (name in below.value) return show(name, null);
    const reply = await requests.latest<{ text: string }>('serverLogs', name).send({ name });
    if (reply.status === 'failed') said.value = reply.error.message;
    if (reply.status === 'ok') show(name, { logs: reply.value.text || 'No log output.' });
    return undefined;
  }

  const row = (server: Server) => {
    const { name, state, reason, address } = server;
    const more = below.value[name];
    return (
      <div key={name} class="otx-server" role="listitem">
        <div class="otx-server-facts">
          <span class={`otx-state otx-state-${STATES[state] ?? 'idle'}`} aria-hidden="true">●</span>
          <Icon src={server.icon} />
          {onOpen ? <button class="otx-server-name" type="button" title="Tools, resources, prompts, messages, log" aria-label={`Open ${name}`} disabled={isOver()} onClick={() => onOpen(name)}>{name}</button> : <strong>{name}</strong>}
          <span>{state}</span>
          <span class="otx-muted">{factsOf(server)}</span>
          <code class="otx-server-address" title={address}>{address}</code>
          <p class="otx-muted">{reason || (state === 'not started' ? STARTS : '')}</p>
        </div>
        <div class="otx-server-buttons">
          {actionsOf(server).map(([action, title]) => {
            const label = action === 'remove' && unsure.value === name ? 'Really remove?' : title;
            return <button key={action} class="otx-small" type="button" aria-label={`${label} ${name}`} disabled={isOver()} onClick={() => press(name, action)} onBlur={() => action === 'remove' && (unsure.value = '')}>{label}</button>;
          })}
        </div>
        <div class="otx-server-more">
          {more && 'logs' in more ? <pre class="otx-server-logs" tabIndex={0} role="group" aria-label={`Logs of ${name}`}>{more.logs}</pre> : more ? <p><SignIn name={name} url={more.url} /></p> : null}
        </div>
      </div>
    );
  };
  const isOver = (): boolean => transport.store.closed.value !== null;
  const change = (part: Partial<typeof draft.value>) => (draft.value = { ...draft.value, ...part });
  const form = () => (
    <form class="otx-add-server" onSubmit={add}>
      <label class="otx-muted">Paste the command, the address or the JSON of its README</label>
      <textarea class="otx-input otx-json" rows={3} placeholder="npx -y @modelcontextprotocol/server-memory" aria-label="Command, address or JSON of a server" spellcheck={false} value={draft.value.text} onInput={event => change({ text: event.currentTarget.value })} />
      <div class="otx-bar">
        <input class="otx-input otx-short" type="text" placeholder="name" aria-label="Name of the server (optional)" title="Optional: by default the name of the package or host" spellcheck={false} value={draft.value.name} onInput={event => change({ name: event.currentTarget.value })} />
        <label class="otx-choice" title="Writes it to onetool.yaml, and its secrets to secrets.yaml"><input type="checkbox" checked={draft.value.isSaved} onChange={event => change({ isSaved: event.currentTarget.checked })} /> keep in the project</label>
        <button class="otx-run" type="submit" disabled={isAdding.value || isOver()}>Add server</button>
      </div>
    </form>
  );
  const stop = [
    drawInto(element, () => {
      const items = servers.value.value?.items;
      return (
        <>
          {form()}
          <p class="otx-muted" role="status">{transport.store.closed.value ?? [said.value, servers.failure.value].filter(Boolean).join('\n')}</p>
          <p class="otx-muted" hidden={items?.length !== 0}>No MCP servers yet. Paste the server's command line or JSON above.</p>
          <div class="otx-servers" role="list" aria-label="MCP servers">{items?.map(row)}</div>
          <button class="otx-small" type="button" disabled={isOver()} onClick={load}>Refresh</button>
        </>
      );
    }),
    transport.store.onChanged(() => element.isConnected && void load())
  ];
  async function act(name: string, action: string): Promise<void> {
    await load();
    if (isThere(name)) await press(name, action);
  }
  return { element, load, act, close: () => (requests.close(), stop.forEach(each => each())) };
}

/** Where one signs in: the address whole, which only a click opens. */
export function SignIn({ name, url }: { name: string; url: string }) {
  return (
    <>
      {SIGN_IN.test(url) ? <a href={url} target="_blank" rel="noopener noreferrer">Sign in to {name}</a> : 'Visit:'} <code class="otx-whole">{url}</code>
    </>
  );
}

function factsOf({ type, state, tools, isSaved }: Server): string {
  return [type === 'stdio' ? 'local program' : 'by HTTP', state === 'connected' || tools.length ? counted(tools.length, 'tool') : '', isSaved ? '' : 'this session'].filter(Boolean).join(' · ');
}

function actionsOf({ state, signsIn, type }: Server): [string, string][] {
  const actions: [string, string][] = [];
  if (state === 'signed out') actions.push(['signIn', 'Sign in']);
  if (state === 'connected') actions.push(['restart', 'Restart'], ['stop', 'Stop']);
  else if (state === 'starting') actions.push(['stop', 'Stop']);
  else if (!['untrusted', 'disabled'].includes(state)) actions.push(['start', 'Start']);
  if (state === 'connected' && signsIn) actions.push(['signOut', 'Sign out']);
  if (type === 'stdio') actions.push(['logs', 'Logs']);
  return [...actions, ['remove', 'Remove']];
}
