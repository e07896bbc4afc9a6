// The MCP servers: each with its state and reason, what can be done with it, and its logs. Names, reasons and logs come from
// elsewhere and are shown as text.
import { signal } from '@preact/signals';
import type { Key } from 'preact';
import { useSure } from './controls.js';
import { counted, STATES } from './format.js';
import { Dot, Icon, SecretField } from './parts.js';
import { Requests } from './requests.js';
import type { Transport } from './transport.js';

const STARTS = 'It starts when its tools are needed.';
const SIGN_IN = /^https:\/\/|^http:\/\/(localhost|127\.0\.0\.1|\[::1\])[:/]/;

export type Server = Record<'name' | 'type' | 'state' | 'reason' | 'address', string> & {
  tools: string[]; icon?: string; isSaved: boolean; signsIn: boolean;
};
/** A server of the project that is left out while the secrets of these names are missing. */
type Waiting = { name: string; lacks: string[] };
/** What the kernel says of an action: a sentence, or where one signs in. */
export type Done = { said?: string; url?: string };
type Below = { logs: string } | { url: string };
export type Servers = ReturnType<typeof createServers>;

/**
 * Returns `{items(), row(server), notice(), load(), act(name, action), close()}`; `act` does what a button of that server does,
 * `notice` is what the last action gave. `onOpen(name)` opens the page of a server; `onKept()` is told of a secret.
 */
export function createServers(transport: Transport, { onOpen, onKept = () => {} }: {
  onOpen: (name: string) => void; onKept?: () => void;
}) {
  const requests = new Requests(transport);
  const servers = requests.latest<{ items: (Server | Waiting)[] }>('servers');
  const said = signal({ text: '', isFailed: false });
  const say = (text: string, isFailed = false): void => void (said.value = { text, isFailed });
  /** What stands below the servers: the logs of one, or where one signs in. */
  const below = signal<Record<string, Below>>({});

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

  async function press(name: string, action: string): Promise<void> {
    if (action === 'logs') return toggleLogs(name);
    say(`${name}: ${action} …`);
    const reply = await requests.onceOf(async ask => {
      try {
        return await ask<Done>('server', { name, action });
      } finally {
        await load();
      }
    });
    if (reply.status === 'late') return;
    const { said: sentence = '', url }: Done = reply.status === 'ok' ? reply.value : { said: reply.error.message };
    const reason = servers.value.value?.items.find((item): item is Server => item.name === name && 'reason' in item)?.reason;
    // Why is said once, in the row of the server.
    if (reply.status === 'failed' && reason && sentence.includes(reason)) say(`${name} did not ${action}.`, true);
    else say(url ? `Sign in to ${name} at the address below. Then press Refresh.` : sentence, reply.status === 'failed');
    if (url) show(name, { url });
    else if (!isThere(name)) show(name, null);
  }

  async function toggleLogs(name: string): Promise<void> {
    if (name in below.value) return show(name, null);
    const reply = await requests.latest<{ text: string }>('serverLogs', name).send({ name });
    if (reply.status === 'failed') say(reply.error.message, true);
    if (reply.status === 'ok') show(name, { logs: reply.value.text || 'No log output.' });
  }

  const waitingRow = ({ name, lacks }: Waiting) => (
    <div key={`server ${name}`} class="otx-server" role="listitem">
      <div class="otx-server-facts">
        <Dot mark="warning" />
        <strong>{name}</strong> <span class="otx-chip">MCP</span>
        <span>needs a secret</span>
      </div>
      {lacks.map(secret => <SecretField key={secret} name={secret} requests={requests} onKept={() => (onKept(), load())} />)}
    </div>
  );

  const row = (server: Server | Waiting) => {
    if ('lacks' in server) return waitingRow(server);
    const { name, state, reason, address } = server;
    const more = below.value[name];
    return (
      <div key={`server ${name}`} class="otx-server" role="listitem">
        <div class="otx-server-facts">
          <Dot mark={STATES[state] ?? 'idle'} />
          <Icon src={server.icon} />
          <button
            class="otx-server-name" type="button" title="Tools, resources, prompts, messages, log" aria-label={`Open ${name}`}
            disabled={isOver()} onClick={() => onOpen(name)}
          >
            {name}
          </button>
          <span class="otx-chip">MCP</span>
          <span>{state}</span>
          <span class="otx-muted">{factsOf(server)}</span>
          <code class="otx-server-address" title={address}>{address}</code>
          <p class={STATES[state] === 'failed' ? 'otx-error' : 'otx-muted'}>{reason || (state === 'not started' ? STARTS : '')}</p>
        </div>
        <div class="otx-server-buttons">
          {actionsOf(server).map(([action, label]) => (
            <button
              key={action} class="otx-small" type="button" aria-label={`${label} ${name}`} disabled={isOver()}
              onClick={event => event.detail > 1 || press(name, action)}
            >
              {label}
            </button>
          ))}
          <RemoveButton key="remove" name={name} isOff={isOver()} remove={() => press(name, 'remove')} />
        </div>
        <div class="otx-server-more">
          {more && 'logs' in more ? (
            <pre class="otx-server-logs" tabIndex={0} role="group" aria-label={`Logs of ${name}`}>{more.logs}</pre>
          ) : more ? <p><SignIn name={name} url={more.url} /></p> : null}
        </div>
      </div>
    );
  };
  const isOver = (): boolean => transport.store.closed.value !== null;
  const notice = (): { text: string; isFailed: boolean } => {
    const failure = transport.store.closed.value ?? servers.failure.value;
    return { text: [said.value.text, failure].filter(Boolean).join('\n'), isFailed: said.value.isFailed || Boolean(failure) };
  };
  async function act(name: string, action: string): Promise<void> {
    await load();
    if (isThere(name)) await press(name, action);
  }
  return { items: () => servers.value.value?.items ?? [], row, notice, load, act, close: () => requests.close() };
}

/** Where one signs in: the address whole, which only a click opens. */
export function SignIn({ name, url }: { name: string; url: string }) {
  return (
    <>
      {SIGN_IN.test(url) ? (
        <a href={url} target="_blank" rel="noopener noreferrer">Sign in to {name}</a>
      ) : 'Visit:'} <code class="otx-whole">{url}</code>
    </>
  );
}

function factsOf({ type, state, tools, isSaved }: Server): string {
  return [
    type === 'stdio' ? 'local program' : 'by HTTP', state === 'connected' || tools.length ? counted(tools.length, 'tool') : '',
    isSaved ? '' : 'this session'
  ]
    .filter(Boolean)
    .join(' · ');
}

function actionsOf({ state, signsIn, type }: Server): [string, string][] {
  const actions: [string, string][] = [];
  if (state === 'signed out') actions.push(['signIn', 'Sign in']);
  if (state === 'connected') actions.push(['restart', 'Restart'], ['stop', 'Stop']);
  else if (state === 'starting') actions.push(['stop', 'Stop']);
  else if (!['untrusted', 'disabled'].includes(state)) actions.push(['start', 'Start']);
  if (state === 'connected' && signsIn) actions.push(['signOut', 'Sign out']);
  if (type === 'stdio') actions.push(['logs', 'Logs']);
  return actions;
}

function RemoveButton({ name, isOff, remove }: { name: string; isOff: boolean; remove: () => Promise<void>; key?: Key }) {
  const [isAsked, presses] = useSure(remove);
  const label = isAsked ? 'Really remove?' : 'Remove';
  return <button class="otx-small" type="button" aria-label={`${label} ${name}`} disabled={isOff} {...presses}>{label}</button>;
}
