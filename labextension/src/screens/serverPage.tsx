// A server in a tab of its own: its state with the one thing that helps, what it offers, every message whole, its log.
// All of it comes from the server or about it, and is shown as text.
import { batch, signal, useSignal } from '@preact/signals';
import type { ComponentChild, Key } from 'preact';
import { Search, Select } from './controls.js';
import { copyText, debounce, uniqueId } from './dom.js';
import { byteSize, counted, duration, number, STATES } from './format.js';
import type { WantedTool } from './browser.js';
import { createScreen, Dot, Failure, Icon, panelOf, Tabs } from './parts.js';
import { type LatestRequest, Requests } from './requests.js';
import { type Done, type Server, SignIn } from './servers.js';
import type { Payload, Transport } from './transport.js';

const PARTS = { tools: 'Tools', resources: 'Resources', prompts: 'Prompts', messages: 'Messages', log: 'Log' };
const EVERY_MS = 2000;
const WAYS = [['', 'Both directions'], ['→', '→ to the server'], ['←', '← from the server']];
/** What helps in a state, as an action and its label; in any other state one can start the server. */
const REMEDIES: Record<string, [string, string] | null> = {
  connected: ['restart', 'Restart'], starting: ['stop', 'Stop'], 'signed out': ['signIn', 'Sign in'], untrusted: ['trust', 'Trust …'],
  disabled: null
};
const WORDS: Record<string, string> = { stop: 'Stopping', signOut: 'Signing out' };
const NOT_COPIED = 'The browser did not allow copying.';

/** What one does with what a server offers, on the page of a tool: its form, and beside it what the server gave. */
const CALLS: Partial<Record<Part, string>> = { tools: 'Call', resources: 'Read', prompts: 'Get' };

type Part = keyof typeof PARTS;
type TextRequest = LatestRequest<Payload, { text: string }>;

/** A tool, a resource, the template of one, or a prompt. */
type Offer = Partial<Record<'name' | 'title' | 'description' | 'uri' | 'uriTemplate', string> & { arguments: unknown[] }>;
type Page = { server: Server; promptTools?: Record<string, string> } & Partial<
  Record<'about' | 'protocol' | 'instructions' | 'reader', string> & Record<'tools' | 'resources' | 'templates' | 'prompts', Offer[]>
>;
type Message = Record<'time' | 'way' | 'method' | 'id' | 'message', string> & { number: number; bytes: number; ms: number | null };

/** Returns `{element, close()}`. `onTrust()` shows the question whether to trust the project, `onCall` opens a tool. */
export function createServerPage(transport: Transport, name: string, { onTrust = () => {}, onCall = () => {} }: {
  onTrust?: () => void; onCall?: (wanted: WantedTool) => void;
} = {}) {
  const requests = new Requests(transport);
  const page = requests.latest<Page>('serverPage');
  const log = requests.latest<{ text: string }>('serverLogs');
  const messages = createMessages(requests, name);
  const part = signal<Part>('tools');
  const done = signal<Done>({});
  const id = uniqueId('server');
  const loadLog = (): void => void log.send({ name });

  function select(chosen: Part): void {
    part.value = chosen;
    if (chosen === 'log') loadLog();
  }

  async function act(action: string): Promise<void> {
    if (action === 'trust') return onTrust();
    done.value = { said: `${WORDS[action] ?? 'Starting'} …` };
    const reply = await requests.onceOf(async ask => {
      try {
        return await ask<Done>('server', { name, action });
      } finally {
        await page.send({ name });
        await messages.load();
      }
    });
    if (reply.status !== 'late') done.value = reply.status === 'ok' ? reply.value : { said: reply.error.message };
  }

  function offersOf(each: Part): Offer[] | undefined {
    const found = page.value.value;
    if (!found || each === 'messages' || each === 'log') return undefined;
    return each === 'resources' ? [...(found.resources ?? []), ...(found.templates ?? [])] : (found[each] ?? []);
  }

  /** The tool behind an offer. What needs no arguments runs at once. */
  function wantedOf({ name: own = '', uri, uriTemplate, arguments: given = [] }: Offer, each: Part): WantedTool {
    const { reader = '', promptTools = {} } = page.value.peek()!;
    if (each === 'resources') return { name: reader, args: { uri: uri ?? uriTemplate }, isRun: uri !== undefined };
    if (each === 'prompts') return { name: promptTools[own], args: {}, isRun: !given.length };
    return { name: `${name}.${own}` };
  }

  const tabs = (): (readonly [Part, string, ComponentChild])[] =>
    parts.map(each => {
      const count = offersOf(each)?.length;
      return [each, PARTS[each], count ? <span class="otx-muted"> {number(count)}</span> : null];
    });
  const content = (each: Part) => {
    if (each === 'messages') return messages.draw();
    if (each === 'log') return <Log log={log} load={loadLog} />;
    const offers = offersOf(each);
    return offers && (
      <Offers
        part={each} offers={offers} isConnected={page.value.value?.server.state === 'connected'}
        onCall={offer => onCall(wantedOf(offer, each))}
      />
    );
  };
  const parts = Object.keys(PARTS) as Part[];
  const screen = createScreen('div.otx.otx-server-page', { role: 'region', 'aria-label': `Server ${name}` }, () => {
    const { said, url } = done.value;
    return (
      <>
        <div class="otx-server-head">{page.value.value ? <Head name={name} page={page.value.value} act={act} /> : null}</div>
        <p class="otx-muted" role="status">
          {transport.store.closed.value ?? (url ? <SignIn name={name} url={url} /> : said)}
          {page.failure.value ? <> <Failure of={page} /></> : null}
        </p>
        <Tabs label={`Server ${name}`} id={id} tabs={tabs()} selected={part.value} onSelect={select} />
        {parts.map(each => <div key={each} class="otx-server-part" tabIndex={0} {...panelOf(id, each, part.value)}>{content(each)}</div>)}
      </>
    );
  });
  const { element } = screen;
  const stopListening = transport.store.onChanged(() => void page.send({ name }));
  // A slow kernel is not asked again before it has answered, else no answer would ever count.
  const timer = setInterval(
    () => part.peek() === 'messages' && element.offsetParent && !messages.isPending.peek() && messages.load(), EVERY_MS
  );
  void page.send({ name });
  void messages.load();
  return { element, close: () => (requests.close(), clearInterval(timer), stopListening(), screen.close()) };
}

function Head({ name, page: { server, about, protocol, instructions }, act }: { name: string; page: Page; act: (action: string) => void }) {
  const { state, reason, type, address, icon } = server;
  const remedy = state in REMEDIES ? REMEDIES[state] : ['start', state === 'not started' ? 'Start' : 'Start again'];
  const isConnected = state === 'connected';
  const button = ([action, label]: string[], kind = 'otx-small') => (
    <button key={action} class={kind} type="button" onClick={event => event.detail > 1 || act(action)}>{label}</button>
  );
  return (
    <>
      <div class="otx-server-line">
        <Dot mark={STATES[state] ?? 'idle'} />
        <Icon src={icon} />
        <h3>{name}</h3>
        <strong>{state}</strong>
        <span class="otx-tools">
          {remedy ? button(remedy, isConnected ? 'otx-small' : 'otx-run') : null}
          {isConnected ? button(['stop', 'Stop']) : null}
          {isConnected && server.signsIn ? button(['signOut', 'Sign out']) : null}
        </span>
      </div>
      {reason ? <p>{reason}</p> : null}
      <p class="otx-muted">
        {[about, type === 'stdio' ? 'local program' : 'by HTTP', protocol ? `protocol ${protocol}` : null].filter(Boolean).join(' · ')}
      </p>
      <code class="otx-whole">{address}</code>
      {instructions ? <details><summary>What it says to models</summary><pre>{instructions}</pre></details> : null}
    </>
  );
}

function Offers({ part, offers, isConnected, onCall }: {
  part: Part; offers: Offer[]; isConnected: boolean; onCall: (offer: Offer) => void;
}) {
  if (!offers.length) return (
    <p class="otx-muted">{isConnected ? `It lists no ${part}.` : `Its ${part} are known once it is connected.`}</p>
  );
  return (
    <ul class="otx-offers">
      {offers.map(offer => {
        const key = offer.uri ?? offer.uriTemplate ?? offer.name ?? '';
        const title = offer.title ?? (part === 'resources' ? offer.name : undefined);
        return (
          <li key={key}>
            <div class="otx-server-line">
              <code>{key}</code>
              {title && title !== key ? <span class="otx-muted">{title}</span> : null}
              <span class="otx-tools">
                <button class="otx-small" type="button" aria-label={`${CALLS[part]} ${key}`} onClick={() => onCall(offer)}>
                  {CALLS[part]}
                </button>
              </span>
            </div>
            {offer.description ? <p>{offer.description}</p> : null}
            <details><summary>JSON</summary><pre>{JSON.stringify(offer, null, 2)}</pre></details>
          </li>
        );
      })}
    </ul>
  );
}

function Log({ log, load }: { log: TextRequest; load: () => void }) {
  if (log.failure.value) return <p class="otx-error"><Failure of={log} /></p>;
  if (!log.value.value) return null;
  return (
    <>
      <div class="otx-bar"><button class="otx-small" type="button" onClick={load}>Refresh</button></div>
      <pre class="otx-server-log">{log.value.value.text || 'No log output.'}</pre>
    </>
  );
}

/** The messages in both directions, newest last; each unfolds to its whole JSON. */
function createMessages(requests: Requests, name: string) {
  const request = requests.latest<{ rows: Message[] }>('serverMessages');
  const rows = signal<Message[]>([]);
  const typed = signal('');
  const words = signal('');
  const way = signal('');
  /** What came of copying; it stands in place of the count until something else is shown. */
  const note = signal('');

  async function load(): Promise<void> {
    const reply = await request.send({ name, after: rows.peek().at(-1)?.number ?? 0 });
    if (reply.status !== 'ok' || !reply.value.rows.length) return;
    note.value = '';
    rows.value = [...rows.peek(), ...reply.value.rows];
  }

  function shownRows(): Message[] {
    return rows.value.filter(
      row => (!way.value || row.way === way.value) && `${row.method} ${row.id} ${row.message}`.toLowerCase().includes(words.value)
    );
  }

  function countText(shown: number): string {
    if (note.value || request.failure.value) return note.value || request.failure.value; // the timer asks again
    const all = rows.value.length;
    if (!all) return request.value.value ? 'No messages yet.' : '';
    return shown === all ? counted(all, 'message') : `${number(shown)} of ${counted(all, 'message')}`;
  }

  const wholeOf = (row: Message): TextRequest => requests.latest<{ text: string }>('serverMessage', String(row.number));

  /** Copy the messages that are shown, as a list with time and direction. */
  async function copyAll(): Promise<void> {
    const reply = await requests.onceOf(async ask => {
      const entries = [];
      for (const row of shownRows()) {
        const { text } = wholeOf(row).value.peek() ?? (await ask<{ text: string }>('serverMessage', { name, number: row.number }));
        entries.push({ time: row.time, direction: row.way === '→' ? 'to the server' : 'from the server', message: parsed(text) });
      }
      return entries;
    });
    if (reply.status === 'failed') note.value = reply.error.message;
    if (reply.status === 'ok') note.value = (await copyText(JSON.stringify(reply.value, null, 2)))
      ? `Copied ${counted(reply.value.length, 'message')}.`
      : NOT_COPIED;
  }

  const filter = debounce(150, (text: string) => batch(() => ((note.value = ''), (words.value = text.trim().toLowerCase()))));
  const draw = (shown = shownRows()) => (
    <div>
      <div class="otx-bar otx-table-bar">
        <Search label="Filter messages" value={typed.value} onInput={text => ((typed.value = text), filter(text))} />
        <Select label="Direction" value={way.value} options={WAYS} onChange={chosen => ((note.value = ''), (way.value = chosen))} />
        <span class="otx-muted" role="status">{countText(shown.length)}</span>
        <span class="otx-tools"><button class="otx-small" type="button" onClick={copyAll}>Copy as JSON</button></span>
      </div>
      <ul class="otx-messages" aria-label="Messages">
        {shown.map(row => <MessageLine key={row.number} row={row} name={name} whole={wholeOf(row)} />)}
      </ul>
    </div>
  );
  return { load, draw, isPending: request.isPending };
}

function MessageLine({ row, name, whole }: { row: Message; name: string; whole: TextRequest; key?: Key }) {
  const isOpen = useSignal(false);
  const isCopied = useSignal<boolean | null>(null);
  const { time, way, method, id, ms, bytes } = row;
  const text = whole.value.value?.text;
  const isOut = way === '→';
  const unfold = (): void => {
    isOpen.value = !isOpen.peek();
    if (isOpen.peek() && text === undefined) void whole.send({ name, number: row.number });
  };
  const copy = async (): Promise<void> => void (isCopied.value = await copyText(text!));
  const facts = [id ? `#${id}` : null, ms === null ? null : duration(ms), byteSize(bytes)].filter(Boolean).join(' · ');
  return (
    <li>
      <button class="otx-expand" type="button" aria-expanded={isOpen.value} onClick={unfold}>
        <span class="otx-muted">{time}</span>
        <span class={isOut ? 'otx-way otx-way-out' : 'otx-way'} title={isOut ? 'to the server' : 'from the server'}>{way}</span>
        <strong>{method || 'message'}</strong>
        <span class="otx-muted">{facts}</span>
      </button>
      <code class="otx-message-start" hidden={isOpen.value}>{row.message}</code>
      <div class="otx-message-body" hidden={!isOpen.value}>
        {whole.failure.value ? <p class="otx-error"><Failure of={whole} /></p> : null}
        {text === undefined ? null : (
          <>
            <button class="otx-small" type="button" onClick={copy}>
              {isCopied.value === null ? 'Copy as JSON' : isCopied.value ? 'Copied' : NOT_COPIED}
            </button>
            <pre tabIndex={0}>{text}</pre>
          </>
        )}
      </div>
    </li>
  );
}

/** The message as JSON; one that was cut stays text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
