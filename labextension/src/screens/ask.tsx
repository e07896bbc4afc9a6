// Asking: the conversations of a project, each ask with its calls and its price, and a box for the next question. A question
// goes into a cell of the notebook and runs there; while it runs, the kernel sends how it goes on. What a model wrote is
// Markdown without HTML, drawn by whoever shows this screen, or else text.
import { batch, computed, signal } from '@preact/signals';
import { render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Select, useSure } from './controls.js';
import { elementOf, offerFocus } from './dom.js';
import { counted, LINE_END, number } from './format.js';
import { type Models, modelForm } from './models.js';
import { Failure, Outcome } from './parts.js';
import { type Reply, Requests } from './requests.js';
import type { Transport } from './transport.js';

const NEAR_END = 60; // pixels
const FIRST = 'chat';

type Part = {
  text?: string; markdown?: string; note?: string; call?: string; line: string; args: string; state: string; facts: string; problem: string;
  result: string;
};
interface Exchange {
  id: string;
  prompt: string;
  when: string;
  /** `running`, `waiting` for an answer, or how it ended. */
  state: string;
  isOk?: boolean;
  facts?: string;
  parts?: Part[];
}
type Conversation = { session: string; items: Exchange[]; earlier: number; tokens: number; cost: number | null };

export interface AskOptions {
  /** Put a question into a cell and run it. Resolves with why it failed, or with ''. */
  onAsk: (code: string) => Promise<string>;
  onStop: () => void;
  /** Makes an element for Markdown that grows. */
  markdown?: () => { element: HTMLElement; show(text: string): void };
}

/** The cell of a question. */
export function cellOf(prompt: string, session: string, model = ''): string {
  const flags = [['--session', session], ['--model', model]]
    .filter(([, value]) => value)
    .map(([flag, value]) => `${flag} ${/^[\w.-]+$/.test(value) ? value : JSON.stringify(value)}`);
  const isLine = !LINE_END.test(prompt) && !prompt.startsWith('-');
  return isLine ? `%ask ${flags.join(' ')} ${prompt}` : `%%ask ${flags.join(' ')}\n${prompt}`;
}

/** Returns `{element, load(), close()}`. */
export function createAsk(transport: Transport, { onAsk, onStop, markdown }: AskOptions) {
  const requests = new Requests(transport);
  const models = requests.latest<Models>('models');
  const sessions = requests.latest<{ items: string[] }>('sessions');
  const kept = requests.latestOf(async ({ session }: { session: string }, ask) => ({
    session, ...(await ask<Omit<Conversation, 'session'>>('conversation', { session }))
  }));
  const session = signal('');
  const model = signal('');
  /** Whether the form for a model is open; while nobody has pressed its button, where there is no model and nothing to read. */
  const isChoosing = signal<boolean | null>(null);
  const draft = signal('');
  const said = signal({ text: '', isOk: true });
  /** A question whose cell waits for its turn, in its conversation. */
  const queued = signal<{ session: string; prompt: string } | null>(null);
  /** The exchanges that the kernel has sent since they began, by their ids. */
  const live = signal<Record<string, Exchange>>({});
  const conversation = computed(() => (kept.value.value?.session === session.value ? kept.value.value : null));
  const exchanges = computed(() => {
    const items = conversation.value?.items ?? [];
    const known = new Set(items.map(({ id }) => id));
    return [...items.map(item => live.value[item.id] ?? item), ...Object.values(live.value).filter(({ id }) => !known.has(id))];
  });
  const running = computed(() => exchanges.value.find(({ state }) => state === 'running' || state === 'waiting'));
  const names = computed(() => [...new Set([...(sessions.value.value?.items ?? []), ...(session.value ? [session.value] : [])])]);
  const isOver = (): boolean => transport.store.closed.value !== null;

  async function load(): Promise<void> {
    void models.again();
    const reply = await sessions.again();
    if (!session.value && reply.status !== 'late') await open((reply.status === 'ok' && reply.value.items[0]) || FIRST);
    else if (session.value) await kept.again();
  }

  function open(name: string): Promise<Reply<Conversation>> {
    batch(() => {
      if (name !== session.value) live.value = {};
      session.value = name;
      said.value = { text: '', isOk: true };
    });
    return kept.send({ session: name });
  }

  function startNew(): void {
    let at = 1;
    const name = (): string => (at === 1 ? FIRST : `${FIRST}-${at}`);
    while (names.value.includes(name())) at += 1;
    void open(name());
    box()?.focus();
  }

  async function forget(): Promise<void> {
    const name = session.value;
    const reply = await requests.once<{ said: string }>('forgetSession', { session: name });
    if (reply.status === 'late') return;
    if (reply.status === 'failed') return void (said.value = { text: reply.error.message, isOk: false });
    const left = await sessions.again();
    if (left.status === 'late' || session.value !== name) return;
    session.value = '';
    offerFocus(box(), element); // there may be nothing more to forget
    const next = await open(sessions.value.value?.items[0] ?? FIRST);
    if (next.status !== 'late') said.value = { text: reply.value.said, isOk: true };
  }

  async function submit(): Promise<void> {
    const prompt = draft.value.trim();
    if (!prompt || queued.value || isOver()) return;
    if (!session.value) void open(FIRST); // the conversations are not known yet
    const own = { session: session.value, prompt };
    batch(() => {
      queued.value = own;
      draft.value = '';
      said.value = { text: '', isOk: true };
    });
    offerFocus(box(), element); // Ask cannot be pressed again
    toEnd();
    const failure = await onAsk(cellOf(prompt, own.session, model.value));
    batch(() => {
      // It never began: the question is there again, unless another one was begun meanwhile.
      if (failure && queued.value === own) {
        draft.value ||= prompt;
        said.value = { text: failure, isOk: false };
      }
      queued.value = null;
    });
    await load();
  }

  const stopHearing = transport.store.onAsk(({ session: name, exchange }) => {
    batch(() => {
      if (name === queued.value?.session) queued.value = null;
      if (name === session.value) live.value = { ...live.value, [exchange.id]: exchange };
    });
  });

  const ModelForm = modelForm(requests, models.value, async ({ name, said: sentence }) => {
    const reply = await models.again();
    if (reply.status === 'late') return;
    batch(() => {
      isChoosing.value = false;
      said.value = { text: sentence, isOk: true };
      model.value = reply.status === 'ok' && reply.value.default === name ? '' : name;
    });
    offerFocus(box(), element);
  });

  const element = elementOf('div.otx-ask');
  const box = (): HTMLTextAreaElement | null => element.querySelector('.otx-ask-box textarea');
  let isAtEnd = true;
  const stayAtEnd = (): void => {
    if (isAtEnd && !isFormShown()) toEnd();
  };
  function toEnd(): void {
    isAtEnd = true;
    const talk = element.querySelector('.otx-ask-talk');
    if (talk) talk.scrollTop = talk.scrollHeight;
  }

  function ForgetButton({ isOff }: { isOff: boolean; key: string }) {
    const [isAsked, presses] = useSure(forget);
    return (
      <button class="otx-small" type="button" title="Delete this conversation" disabled={isOff} {...presses}>
        {isAsked ? 'Really forget?' : 'Forget'}
      </button>
    );
  }

  function Bar() {
    const known = models.value.value;
    const items = known?.models ?? [];
    const title = (name: string): string => [name, items.find(each => each.name === name)?.model].filter(Boolean).join(' · ');
    const first = known === null ? '…' : !items.length ? 'No model yet' : known.default ? title(known.default) : 'Choose a model';
    const others = items.filter(({ name }) => name !== known!.default);
    return (
      <div class="otx-ask-bar">
        <div>
          <Select
            label="Model to ask" title="The model to ask" value={model.value}
            options={[['', first], ...others.map(({ name }) => [name, title(name)])]} onChange={name => (model.value = name)}
          />
          <button
            class="otx-small" type="button" title="Choose another model" aria-expanded={isFormShown()}
            onClick={() => (isChoosing.value = !isFormShown())}
          >
            Models
          </button>
        </div>
        <div>
          <Select label="Conversation" title="The conversation" value={session.value} options={names.value} onChange={open} />
          <button class="otx-small" type="button" title="Begin another conversation" disabled={isOver()} onClick={startNew}>New</button>
          <ForgetButton key={session.value} isOff={isOver() || !exchanges.value.length} />
        </div>
      </div>
    );
  }
  const isFormShown = (): boolean => isChoosing.value ??
    (models.value.value?.models.length === 0 && conversation.value !== null && !exchanges.value.length);

  function Talk() {
    const talk = useRef<HTMLDivElement>(null);
    const isForm = isFormShown();
    const isQueued = queued.value?.session === session.value;
    useLayoutEffect(() => {
      if (isForm) talk.current!.scrollTop = 0;
      else toEnd();
    }, [isForm]);
    useLayoutEffect(stayAtEnd);
    const { value: known } = conversation;
    const cost = known?.cost == null ? null : `$${Number(known.cost.toPrecision(2))}`;
    const total = known?.tokens
      ? [counted(known.items.length + known.earlier, 'question'), `${number(known.tokens)} tokens`, cost].filter(Boolean).join(' · ')
      : '';
    return (
      <div
        ref={talk} class="otx-ask-talk" tabIndex={0} role="log" aria-label="Conversation"
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) =>
          (isAtEnd = scrollTop + clientHeight > scrollHeight - NEAR_END)}
      >
        {isForm && models.value.value ? <ModelForm isOver={isOver()} /> : null}
        {!exchanges.value.length && !isQueued && !isForm && known ? (
          <p class="otx-muted otx-ask-intro">
            Ask about this notebook. A question goes into a cell and runs there: <b>@name</b> sends a variable, <b>+pack</b> offers
            only its tools.
          </p>
        ) : null}
        {known?.earlier ? <p class="otx-muted">{counted(known.earlier, 'earlier question')} not shown</p> : null}
        {exchanges.value.map(each => <ExchangeView key={each.id} exchange={each} markdown={markdown} />)}
        {isQueued ? (
          <article class="otx-exchange">
            <p class="otx-prompt">{queued.value!.prompt}</p>
            <p class="otx-muted">In the notebook, waiting for its turn …</p>
          </article>
        ) : null}
        {total ? <p class="otx-muted otx-ask-total">{total}</p> : null}
      </div>
    );
  }

  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void submit();
  }

  function Box() {
    useLayoutEffect(stayAtEnd);
    const failures = [models, sessions, kept].find(each => each.failure.value);
    return (
      <form class="otx-ask-box" onSubmit={event => (event.preventDefault(), void submit())}>
        <p class={transport.store.closed.value || failures || !said.value.isOk ? 'otx-error' : 'otx-muted'} role="status">
          {transport.store.closed.value ?? (failures ? <Failure of={failures} retry={load} /> : said.value.text)}
        </p>
        <textarea
          class="otx-input" rows={3} placeholder="Ask a question" aria-label="Question" title="Enter asks, Shift+Enter begins a new line"
          value={draft.value} onInput={event => (draft.value = event.currentTarget.value)} onKeyDown={onKeyDown}
        />
        {running.value ? <button class="otx-small" type="button" onClick={onStop}>Stop</button> : null}
        <button class="otx-run" type="submit" disabled={isOver() || !draft.value.trim() || !!queued.value}>Ask</button>
      </form>
    );
  }

  render(<><Bar /><Talk /><Box /></>, element);
  return { element, load, close: () => (requests.close(), stopHearing()) };
}

function ExchangeView({ exchange, markdown }: { exchange: Exchange; markdown: AskOptions['markdown'] }) {
  const { prompt, when, state, isOk, facts, parts = [] } = exchange;
  const end = state === 'running' ? 'Asking …' : state === 'waiting' ? 'Waits for your answer' : `${when} · ${facts ?? state}`;
  return (
    <article class="otx-exchange" aria-label={prompt}>
      <p class="otx-prompt">{prompt}</p>
      {parts.map(
        (part, at) => (part.call !== undefined
          ? <CallView key={at} call={part} />
          : part.note !== undefined
          ? <p key={at} class="otx-muted">{part.note}</p>
          : <Text key={at} part={part} markdown={markdown} />)
      )}
      <p class={isOk === false ? 'otx-error otx-ask-end' : 'otx-muted otx-ask-end'}>{end}</p>
    </article>
  );
}

/** One call: a line that unfolds to its arguments and what came back. */
function CallView({ call: { call = '', line, args, state, facts, problem, result } }: { call: Part }) {
  return (
    <details class="otx-ask-call">
      <summary><Outcome outcome={state} /><b>{call}</b>{line.slice(call.length)} <span class="otx-muted">{facts}</span></summary>
      {args ? <><span class="otx-muted">arguments</span><pre>{args}</pre></> : null}
      {problem ? <><span class="otx-muted">not done</span><pre>{problem}</pre></> : null}
      {result ? <><span class="otx-muted">result, as the model got it</span><pre>{result}</pre></> : null}
    </details>
  );
}

function Text({ part: { text, markdown: safe }, markdown }: { part: Part; markdown: AskOptions['markdown'] }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<ReturnType<NonNullable<AskOptions['markdown']>> | null>(null);
  useLayoutEffect(() => {
    if (!markdown) return;
    if (!drawn.current) place.current!.replaceChildren((drawn.current = markdown()).element);
    drawn.current.show(safe ?? text ?? '');
  }, [safe, text]);
  return markdown ? <div ref={place} class="otx-ask-text" /> : <div class="otx-ask-text otx-plain">{text}</div>;
}
