// The HTTP tool editor: request, auth, arguments and response of one tool on one page. The kernel reads curl commands,
// stores secrets, sends, selects and saves; what it refuses is shown at its field, what needs a yes is asked here.
import { computed, signal } from '@preact/signals';
import { type ComponentChild, createRef } from 'preact';
import { Check, Input, Select } from './controls.js';
import { copyText, debounce, offerFocus, uniqueId } from './dom.js';
import { byteSize, duration, LINE_END } from './format.js';
import { Arguments, AuthForm, Pairs } from './httpFields.js';
import {
  type Argument, argumentIn, argumentNames, type Auth, authKind, blank, BODIES, type Bundle, bundleName, bundleOf, type Choices, type Fault,
  type Fields, fieldsOf, hasOwnAuth, isAuthShared, isPaired, type Json, missingIn, pathBelow, pendingSecret, recordOf, targetOf, toolName,
  valuesOf, withFiles
} from './httpRecord.js';
import { within } from './jmespath.js';
import { createScreen, panelOf, Placed, Tabs } from './parts.js';
import { type Ask, Requests } from './requests.js';
import { isEqual } from './schema.js';
import type { Result } from './table.js';
import type { Transport } from './transport.js';
import { createViewer } from './viewer.js';

const METHODS = Object.fromEntries(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map(name => [name, name]));
const PARTS = [['body', 'Body'], ['headers', 'Headers'], ['request', 'Request']] as const;
const IS_CURL = /^\s*curl\s/;
/** The parts of a record whose errors have a place of their own. */
const PLACES = [
  '/http/request/urlTemplate', '/http/request/method', '/bundle', '/slug', '/http/request/query', '/http/request/headers',
  '/http/request/body', '/http/request/auth', '/secret', '/args', '/argSchema', '/version', '/description', '/tags',
  '/http/response/selector', '/curl'
];
const IN_MORE = ['/version', '/description', '/tags'];

/** The tool to edit; empty for a new one. */
export interface HttpPlace {
  bundle?: string;
  tool?: string;
  version?: string;
  /** A curl command, or an address, to make a new tool of. */
  pasted?: string;
}

interface Options {
  onSaved: (name: string) => void;
  onSwitched: () => void;
  /** In a tab of its own Ctrl+S saves the tool; in a cell it is the notebook's. */
  isTab: boolean;
}

type Question = { key: string; text: string };
/** What the kernel wants to have right, or agreed to, before it does something. */
type Refusal = { errors?: Fault[]; questions?: Question[] };

interface Exchange extends Refusal {
  request: { method: string; url: string; headers: Record<string, string>; body?: string };
  response: { status: number; phrase: string; durationMs: number; size: number; headers: Record<string, string> };
  view: Result;
  isOk: boolean;
  selectorErrors?: Fault[];
}

interface Status {
  text: string;
  kind?: 'ok' | 'failed';
  retry?: () => void;
  /** The line that calls the saved tool; a click copies it. */
  line?: string;
  isCopied?: boolean;
}

/** Returns `{element, focus(), close()}`. */
export function createHttpEditor(transport: Transport, place: HttpPlace = {}, options: Partial<Options> = {}) {
  const editor = new HttpEditor(transport, { onSaved: () => {}, onSwitched: () => {}, isTab: false, ...options });
  void editor.start(place);
  return { element: editor.element, focus: () => editor.focus(), close: () => editor.close() };
}

class HttpEditor {
  readonly element: HTMLElement;
  private readonly id = uniqueId('editor');
  private readonly fields = signal(blank());
  private readonly choices = signal<Choices>({ bundles: [], secrets: [] });
  private readonly names = computed(() => argumentNames(this.fields.value, this.choices.value));
  private readonly curl = signal({ text: '', isKept: true, isOpen: false });
  private readonly isMoreOpen = signal(false);
  private readonly errors = signal<Record<string, string>>({});
  private readonly status = signal<Status>({ text: '' });
  private readonly question = signal<{ texts: string[]; yes: string; onYes: () => void; onNo: () => void } | null>(null);
  private readonly isBusy = signal(false);
  private readonly isLoading = signal(false);
  private readonly exchange = signal<Exchange | null>(null);
  private readonly part = signal<string>('body');
  private readonly places = {
    url: createRef<HTMLDivElement>(), send: createRef<HTMLButtonElement>(), environment: createRef<HTMLDivElement>(),
    response: createRef<HTMLDivElement>(), question: createRef<HTMLDivElement>()
  };
  private readonly requests: Requests;
  private readonly viewer;
  private readonly ends: (() => void)[];
  private readonly trySoon = debounce(250, () => this.trySelector());
  /** The record that was opened, for what has no field. */
  private known: Json | null = null;
  /** What this editor has saved: it may be saved over. */
  private saved: Json | null = null;

  constructor(transport: Transport, private readonly options: Options) {
    this.requests = new Requests(transport);
    this.viewer = createViewer(transport, { onPick: expression => this.keep(expression), isPlain: true });
    const screen = createScreen(
      'div.otx.otx-editor', { role: 'form', 'aria-label': 'HTTP tool' }, () => this.draw(), event => this.onKey(event)
    );
    this.element = screen.element;
    // Of a choice `change` comes last: one that is drawn anew at its `input` is what it was before.
    for (const kind of ['input', 'change']) this.element.addEventListener(kind, event => this.clearErrors(event.target as Element, kind));
    this.ends = [
      screen.close,
      transport.store.onClosed(reason => this.say(reason, 'failed')),
      () => this.requests.close(),
      () => this.trySoon.cancel(),
      () => this.viewer.close()
    ];
  }

  close(): void {
    for (const end of this.ends) end();
  }

  /** Load what there is to choose from, and the tool to edit: its record replaces the fields, so nobody fills them before. */
  async start(place: HttpPlace): Promise<void> {
    this.setLoading(Boolean(place.tool));
    const reply = await this.requests.latest<Choices & { tool: Json | null; version: string }>('httpTool').send({ ...place });
    if (reply.status === 'late') return;
    if (reply.status === 'ok') {
      const { bundles, secrets, tool, version } = reply.value;
      this.choices.value = { bundles, secrets };
      if (tool) this.open(tool, place.bundle, version);
    } else this.status.value = { text: reply.error.message, kind: 'failed', retry: () => this.start(place) };
    this.setLoading(false);
    if (reply.status === 'ok' && place.pasted) this.take(place.pasted);
  }

  private setLoading(isLoading: boolean): void {
    this.isLoading.value = isLoading;
    if (!isLoading && document.activeElement === this.element) this.focus();
  }

  /** Put the cursor into the URL, as soon as one can type there. */
  focus(): void {
    (this.isLoading.peek() ? this.element : this.urlField).focus({ preventScroll: true });
  }

  private get urlField(): HTMLElement {
    return this.places.url.current!.querySelector('[type="text"]')!;
  }

  private open(tool: Json, bundle?: string, version?: string): void {
    this.known = tool;
    this.fields.value = fieldsOf(tool, bundle, version);
  }

  private set(change: Partial<Fields>): void {
    this.fields.value = { ...this.fields.peek(), ...change };
  }

  private readonly setAuth = (change: Partial<Auth>): void => this.set({ auth: { ...this.fields.peek().auth, ...change } });

  private readonly setArgument = (name: string, change: Partial<Argument>): void => {
    const fields = this.fields.peek();
    this.set({ args: { ...fields.args, [name]: { ...argumentIn(fields, name), ...change } } });
  };

  /** A body that is one file is an argument of that type. */
  private setBodyKind(bodyKind: string): void {
    const isEmpty = !this.fields.peek().bodyText.trim();
    this.set({ bodyKind, ...(bodyKind === 'binary' && isEmpty ? { bodyText: '{file}' } : {}) });
    if (bodyKind === 'binary' && this.names.peek().includes('file')) this.setArgument('file', { type: 'file' });
  }

  /** Keep a part of what is shown, by a click on it. */
  private keep(expression: string): void {
    this.set({ selector: within(this.fields.peek().selector.trim(), expression) });
    this.firstField('/http/response/selector')?.focus();
    void this.trySelector();
  }

  private async loadBundles(ask: Ask): Promise<void> {
    const { bundles } = await ask<{ bundles: Bundle[] }>('httpTool');
    this.choices.value = { ...this.choices.peek(), bundles };
  }

  /** Do one thing at a time, and say what went wrong. */
  private async run(
    work: (ask: Ask) => Promise<void>, onFailed = (error: Error): void => this.say(error.message, 'failed')
  ): Promise<void> {
    if (this.isBusy.peek()) return;
    this.isBusy.value = true;
    this.question.value = null; // it was about what the fields were then
    const reply = await this.requests.onceOf(work);
    if (reply.status === 'late') return;
    if (reply.status === 'failed') onFailed(reply.error);
    this.isBusy.value = false;
  }

  /** Let the bundle use another environment, after a yes where one is needed. */
  private switchTo(name: string, agreed: string[] = []): Promise<void> {
    return this.run(async ask => {
      const fields = this.fields.peek();
      const bundle = bundleName(fields, this.choices.peek()).trim();
      const path = pathBelow(fields.url.trim(), bundleOf(fields, this.choices.peek())?.baseUrl);
      const reply = await ask<Refusal & { notes?: string[] }>('switchEnvironment', { bundle, name, agreed });
      if (!this.isSettled(reply, agreed, 'Switch', keys => this.switchTo(name, keys))) return;
      // Both names may have been made of the whole address.
      if (path !== null) this.set({ bundle, tool: toolName(this.fields.peek()), url: path });
      await this.loadBundles(ask);
      this.say([`${bundle} uses ${name}.`, ...(reply.notes ?? [])].join(' '), 'ok');
      this.options.onSwitched();
    });
  }

  private readonly send = async (agreed: string[] = []): Promise<void> => {
    const { url } = this.fields.peek();
    if (IS_CURL.test(url)) return this.take(url);
    return this.run(async ask => {
      this.say('Sending …');
      const wrong: Fault[] = [];
      const [fields, choices] = [this.fields.peek(), this.choices.peek()];
      const [tool, args] = [recordOf(fields, this.known, choices, wrong), valuesOf(fields, choices, wrong)];
      if (!(await this.isReady(wrong, ask))) return;
      const missing = missingIn(fields, choices);
      if (missing.length) {
        this.showErrors([{ pointer: `/args/${missing[0]}`, message: `Fill in 'Try with' for ${missing.join(', ')}.` }]);
        return;
      }
      const { selector } = fields;
      const reply = await ask<Exchange>('httpSend', {
        tool, args: await withFiles(args), agreed, bundle: bundleName(fields, choices), selector, editor: this.id
      });
      if (!this.isSettled(reply, agreed, 'Send', keys => this.send(keys))) return;
      this.requests.latest('httpSelect').reset(); // what was selected of the response before is late
      this.showExchange(reply);
      if (selector !== this.fields.peek().selector) void this.trySelector(); // it was typed while the request was under way
    });
  };

  private readonly save = (agreed: string[] = []): Promise<void> =>
    this.run(async ask => {
      this.say('Saving …');
      const wrong: Fault[] = [];
      const [fields, choices] = [this.fields.peek(), this.choices.peek()];
      const tool = recordOf(fields, this.known, choices, wrong);
      if (!(await this.isReady(wrong, ask))) return;
      const names = { bundle: bundleName(fields, choices), slug: toolName(fields), version: fields.version };
      const isShared = hasOwnAuth(authKind(fields, bundleOf(fields, choices))) && isAuthShared(fields, choices);
      const reply = await ask<Refusal & { name: string; version: string }>('httpSave', {
        ...names, tool, agreed, isReplaced: isEqual(this.saved, names), isShared
      });
      if (!this.isSettled(reply, agreed, 'Save', keys => this.save(keys))) return;
      if (this.fields.peek().version === names.version) this.set({ version: reply.version }); // else another one was typed meanwhile
      this.saved = { ...names, version: reply.version };
      await this.loadBundles(ask);
      // Last: before, what is pasted next would be dropped.
      this.status.value = { text: 'Saved. Call it: ', kind: 'ok', line: this.lineOf(reply.name) };
      this.options.onSaved(reply.name);
    });

  /** How to call the saved tool with the values that were tried. */
  private lineOf(name: string): string {
    const [fields, choices] = [this.fields.peek(), this.choices.peek()];
    const written = Object.entries(valuesOf(fields, choices, []))
      .filter(([, value]) => typeof value !== 'object' && !LINE_END.test(String(value)))
      .map(([key, value]) => `${key}=${/^[\w.-]+$/.test(value) ? value : JSON.stringify(value)}`);
    return [`%tool ${name}`, ...written, ...missingIn(fields, choices).map(key => `${key}=`)].join(' ');
  }

  /** Store a secret that was typed, and show what cannot be read; false if something is wrong. */
  private async isReady(wrong: Fault[], ask: Ask): Promise<boolean> {
    this.showErrors(wrong);
    if (wrong.length) return false;
    const pending = pendingSecret(this.fields.peek(), this.choices.peek());
    if (!pending) return true;
    const { errors, secrets } = await ask<{ errors?: Fault[]; secrets: string[] }>('httpSecret', pending);
    if (errors) {
      this.showErrors(errors);
      return false;
    }
    this.choices.value = { ...this.choices.peek(), secrets };
    this.setAuth({ secret: pending.name, password: '' });
    return true;
  }

  /** Show the errors of a reply, or ask its questions; true if it has neither. */
  private isSettled(
    { errors, questions }: Refusal, agreed: string[], label: 'Send' | 'Save' | 'Switch', again: (agreed: string[]) => void
  ): boolean {
    if (errors) this.showErrors(errors);
    else if (questions) this.askFor(questions, label, () => again([...agreed, ...questions.map(({ key }) => key)]));
    return !errors && !questions;
  }

  private askFor(questions: Question[], label: 'Send' | 'Save' | 'Switch', onAgreed: () => void): void {
    const isHost = questions.some(({ key }) => key.startsWith('host:'));
    const close = (): void => {
      this.question.value = null;
      (label === 'Switch' ? this.places.environment.current!.querySelector('select') : this.places.send.current)?.focus();
    };
    const onYes = (): void => (close(), onAgreed());
    const onNo = (): void => (close(), this.say(label === 'Switch' ? 'The environment stays as it is.' : 'Nothing was sent or saved.'));
    this.question.value = {
      texts: questions.map(({ text }) => text), yes: isHost ? `Allow and ${label.toLowerCase()}` : `${label} it`, onYes, onNo
    };
    this.say('');
    offerFocus(this.places.question.current!.querySelector('button'), this.element); // not from one who has gone on meanwhile
  }

  private showExchange(exchange: Exchange): void {
    const { status, phrase, durationMs, size } = exchange.response;
    this.say([`${status} ${phrase}`.trim(), duration(durationMs), byteSize(size)].join(' · '), exchange.isOk ? 'ok' : 'failed');
    this.exchange.value = exchange;
    this.part.value = 'body';
    this.viewer.show(exchange.view);
    this.showErrors(exchange.selectorErrors ?? [], false);
    this.places.response.current!.scrollIntoView({ block: 'nearest' });
  }

  private async trySelector(): Promise<void> {
    if (!this.exchange.peek()) return;
    const reply = await this.requests.latest<{ errors?: Fault[]; view?: Result }>('httpSelect').send({
      selector: this.fields.peek().selector, editor: this.id
    });
    if (reply.status === 'failed') this.say(reply.error.message, 'failed');
    if (reply.status !== 'ok') return;
    const { errors, view } = reply.value;
    this.showErrors(errors ?? [], false);
    if (view) this.viewer.show(view);
  }

  private readonly readCurl = (): Promise<void> =>
    this.run(async ask => {
      this.showErrors([]);
      const { text, isKept } = this.curl.peek();
      type Answer = { tool: Json; notes: string[]; missing: string[]; secrets: string[] };
      const { tool, notes, missing, secrets } = await ask<Answer>('httpCurl', { text, isKept });
      this.choices.value = { ...this.choices.peek(), secrets };
      this.open(tool);
      this.known = null;
      // What was pasted meanwhile stays.
      if (this.curl.peek().text === text) this.curl.value = { text: '', isKept, isOpen: false };
      this.say(['Filled in.', ...notes, ...missing.map(name => `The secret ${name} is not stored yet.`)].join(' '), 'ok');
      offerFocus(this.urlField, this.element);
    }, error => this.showErrors([{ pointer: '/curl', message: error.message }]));

  private onPaste(event: ClipboardEvent): void {
    const text = event.clipboardData?.getData('text/plain') ?? '';
    if (!IS_CURL.test(text)) return;
    event.preventDefault();
    this.take(text);
  }

  /** Fill the fields from a curl command or an address. */
  private take(text: string): void {
    if (/^https?:/i.test(text)) return this.set({ url: text });
    this.curl.value = { ...this.curl.peek(), text, isOpen: true };
    void this.readCurl();
  }

  private onKey(event: KeyboardEvent): void {
    const isControl = event.ctrlKey || event.metaKey;
    const isSend = event.key === 'Enter' && (isControl || 'sends' in (event.target as HTMLElement).dataset);
    if (!isSend && !(event.key === 's' && isControl && this.options.isTab)) return;
    event.preventDefault();
    void (isSend ? this.send() : this.save());
  }

  private say(text: string, kind?: Status['kind']): void {
    this.status.value = { text, kind };
  }

  private showErrors(errors: Fault[], isSaid = true): void {
    const shown: Record<string, string> = {};
    const loose: string[] = [];
    let first: HTMLElement | undefined;
    for (const { pointer, message } of errors) {
      const argument = pointer.startsWith('/args/')
        ? [...this.element.querySelectorAll<HTMLElement>('[data-name]')].find(each => `/args/${each.dataset.name}` === pointer)
        : undefined;
      const place = PLACES.find(each => pointer === each || pointer.startsWith(each.endsWith('body') ? each : `${each}/`));
      if (place) shown[place] = argument && !message.startsWith('Fill in') ? `${argument.dataset.name}: ${message}` : message;
      else loose.push(message);
      first ??= argument ?? (place ? this.firstField(place) : null) ?? undefined;
    }
    this.errors.value = shown;
    if (IN_MORE.some(place => place in shown)) this.isMoreOpen.value = true;
    if (loose.length) this.say(loose.join(' '), 'failed');
    else if (errors.length && isSaid) this.say(
      errors.length === 1 ? 'Correct the marked field.' : `Correct the ${errors.length} marked fields.`, 'failed'
    );
    if (isSaid && first) offerFocus(first, this.element);
  }

  private firstField(place: string): HTMLElement | null {
    const [part] = this.element.querySelectorAll<HTMLElement>(`[data-at~="${place}"]`);
    return part?.matches('input, select, textarea') ? part : (part?.querySelector('input, select, textarea') ?? null);
  }

  /** What is typed into a field takes its error away. */
  private clearErrors(target: Element, kind: string): void {
    if (kind === 'input' && target.matches('select, [type="checkbox"]')) return;
    const places = target.closest<HTMLElement>('[data-at]')?.dataset.at!.split(' ') ?? [];
    if (places.some(place => place in this.errors.peek())) this.errors.value = Object.fromEntries(
      Object.entries(this.errors.peek()).filter(([place]) => !places.includes(place))
    );
  }

  /** What says that a part of the page belongs to these parts of the record, and whether they are wrong. */
  private at(...places: string[]) {
    const wrong = places.filter(place => this.errors.value[place]);
    return { 'data-at': places.join(' '), 'aria-describedby': wrong.length ? wrong.map(place => this.idOf(place)).join(' ') : undefined };
  }

  private fieldAt(place: string) {
    return { ...this.at(place), 'aria-invalid': Boolean(this.errors.value[place]) };
  }

  private idOf(place: string): string {
    return this.id + place.replaceAll('/', '-');
  }

  private errorAt(...places: string[]): ComponentChild {
    return places.map(place => (
      <div key={place} id={this.idOf(place)} class="otx-error" hidden={!this.errors.value[place]}>{this.errors.value[place]}</div>
    ));
  }

  private draw(): ComponentChild {
    const fields = this.fields.value;
    return (
      <div class="otx-place" inert={this.isLoading.value}>
        {this.top(fields)}
        {this.curlBox()}
        <details open={this.isMoreOpen.value} onToggle={event => (this.isMoreOpen.value = event.currentTarget.open)}>
          <summary>More</summary>
          <div class="otx-editor-more">
            {this.textField('Description', 'description', 'What it does, for people and models')}
            {this.textField('Tags', 'tags', 'comma-separated')}
            {this.textField('Version', 'version', '1')}
          </div>
        </details>
        <div class="otx-editor-columns">
          <div class="otx-editor-left">{this.requestPart(fields)}</div>
          <div class="otx-editor-right">
            <section class="otx-editor-section" aria-label="Response"><h3>Response</h3>{this.responsePart(fields)}</section>
          </div>
        </div>
      </div>
    );
  }

  private textField(label: string, name: 'description' | 'tags' | 'version', placeholder: string): ComponentChild {
    const place = `/${name}`;
    return (
      <div class="otx-editor-field">
        <span class="otx-muted" aria-hidden="true">{label}</span>
        <Input
          label={label} placeholder={placeholder} value={this.fields.value[name]} onInput={text => this.set({ [name]: text })}
          {...this.fieldAt(place)}
        />
        {this.errorAt(place)}
      </div>
    );
  }

  private top(fields: Fields): ComponentChild {
    const choices = this.choices.value;
    const { environments = [], environment = '' } = bundleOf(fields, choices) ?? {};
    const target = targetOf(fields, choices);
    const isBusy = this.isBusy.value;
    const environmentNames = (environment ? environments : ['', ...environments]).map(name => [name, name || 'no environment']);
    return (
      <div class="otx-editor-top">
        <div ref={this.places.url} class="otx-editor-line">
          <Select
            label="Method" value={fields.method} options={METHODS} onChange={method => this.set({ method })}
            {...this.fieldAt('/http/request/method')}
          />
          <Input
            label="URL" placeholder="https://api.example.com/users/{id}, or paste a curl command" data-sends="" value={fields.url}
            onInput={url => this.set({ url })} onPaste={(event: ClipboardEvent) => this.onPaste(event)}
            {...this.fieldAt('/http/request/urlTemplate')}
          />
          <button
            ref={this.places.send} class="otx-run" type="button" title="Ctrl+Enter" aria-disabled={isBusy} onClick={() => this.send()}
          >
            Send
          </button>
        </div>
        {this.errorAt('/http/request/urlTemplate', '/http/request/method')}
        <p class="otx-muted otx-editor-target" aria-label="Resulting URL" hidden={!target}>{target}</p>
        <div ref={this.places.environment} class="otx-editor-line">
          <Input
            label="Bundle" placeholder="bundle" title="Bundle name; created if it does not exist." list={`${this.id}-bundles`}
            value={bundleName(fields, choices)} onInput={bundle => this.set({ bundle })} {...this.fieldAt('/bundle')}
          />
          <span aria-hidden="true">.</span>
          <Input label="Tool" placeholder="tool" value={toolName(fields)} onInput={tool => this.set({ tool })} {...this.fieldAt('/slug')} />
          <Select
            label="Environment" title="Environment: the base URL, auth and variables of the bundle" hidden={!environments.length}
            value={environment} options={environmentNames} onChange={name => this.switchTo(name)}
          />
          <button
            class="otx-run" type="button" title={this.options.isTab ? 'Ctrl+S' : undefined} aria-disabled={isBusy}
            onClick={() => this.save()}
          >
            Save
          </button>
          <datalist id={`${this.id}-bundles`}>{choices.bundles.map(({ slug }) => <option key={slug} value={slug} />)}</datalist>
        </div>
        {this.errorAt('/bundle', '/slug')}
        {this.confirmation()}
        <div class="otx-editor-line">{this.statusLine()}</div>
      </div>
    );
  }

  private confirmation(): ComponentChild {
    const question = this.question.value;
    return (
      <div ref={this.places.question} class="otx-confirm" role="alertdialog" aria-label="Confirm" hidden={!question}>
        <div>{question?.texts.map(text => <p key={text}>{text}</p>)}</div>
        <button class="otx-run" type="button" onClick={question?.onYes}>{question?.yes}</button>
        <button class="otx-small" type="button" onClick={question?.onNo}>Cancel</button>
      </div>
    );
  }

  private statusLine(): ComponentChild {
    const status = this.status.value;
    const { text, kind, retry, line, isCopied } = status;
    const copy = async (): Promise<void> => {
      if ((await copyText(line!)) && this.status.peek() === status) this.status.value = { ...status, isCopied: true };
    };
    return (
      <span class={`otx-editor-status${kind ? ` otx-${kind}` : ''}`} role="status">
        {text}
        {retry ? <> <button class="otx-small" type="button" onClick={retry}>Try again</button></> : null}
        {line ? (
          <>
            <button class="otx-small" type="button" title="Copy" onClick={copy}><code>{line}</code></button>
            <span class="otx-muted">{isCopied ? ' copied' : ''}</span>
          </>
        ) : null}
      </span>
    );
  }

  private curlBox(): ComponentChild {
    const { text, isKept, isOpen } = this.curl.value;
    const set = (change: Partial<{ text: string; isKept: boolean; isOpen: boolean }>): void =>
      void (this.curl.value = { ...this.curl.peek(), ...change });
    return (
      <details class="otx-editor-curl" open={isOpen} onToggle={event => set({ isOpen: event.currentTarget.open })}>
        <summary>Paste curl</summary>
        <textarea
          class="otx-input otx-json" rows={4} aria-label="curl command"
          placeholder="curl -H 'Authorization: Bearer …' https://api.example.com/users" spellcheck={false} value={text}
          onInput={event => set({ text: event.currentTarget.value })} {...this.fieldAt('/curl')}
        />
        {this.errorAt('/curl')}
        <div class="otx-bar">
          <Check class="" isOn={isKept} onChange={isOn => set({ isKept: isOn })}> keep its credentials as secrets of this project</Check>
          <button class="otx-small" type="button" onClick={this.readCurl}>Fill in</button>
        </div>
      </details>
    );
  }

  private requestPart(fields: Fields): ComponentChild {
    const { query, headers, bodyKind, bodyText, bodyForm } = fields;
    const kinds = bodyKind in BODIES ? BODIES : { ...BODIES, [bodyKind]: bodyKind };
    return (
      <>
        <section class="otx-editor-section" aria-label="Request">
          <h3>Request</h3>
          <h4>Query</h4>
          <Pairs label="Query parameter" pairs={query} onChange={pairs => this.set({ query: pairs })} {...this.at('/http/request/query')} />
          {this.errorAt('/http/request/query')}
          <h4>Headers</h4>
          <Pairs label="Header" pairs={headers} onChange={pairs => this.set({ headers: pairs })} {...this.at('/http/request/headers')} />
          {this.errorAt('/http/request/headers')}
          <div class="otx-editor-line">
            <h4>Body</h4>
            <Select label="Kind of body" value={bodyKind} options={kinds} onChange={kind => this.setBodyKind(kind)} />
          </div>
          {bodyKind === 'none' ? null : isPaired(bodyKind)
            ? (
              <Pairs
                label="Form field" pairs={bodyForm} onChange={pairs => this.set({ bodyForm: pairs })} {...this.at('/http/request/body')}
              />
            ) : (
              <textarea
                class="otx-input otx-json" rows={6} aria-label="Body" spellcheck={false} value={bodyText}
                onInput={event => this.set({ bodyText: event.currentTarget.value })} {...this.fieldAt('/http/request/body')}
              />
            )}
          {this.errorAt('/http/request/body')}
        </section>
        <section class="otx-editor-section" aria-label="Auth">
          <h3>Auth</h3>
          <AuthForm fields={fields} choices={this.choices.value} onChange={this.setAuth} {...this.at('/http/request/auth', '/secret')} />
          {this.errorAt('/http/request/auth', '/secret')}
        </section>
        <section class="otx-editor-section" aria-label="Arguments">
          <h3>Arguments</h3>
          <Arguments fields={fields} names={this.names.value} onChange={this.setArgument} {...this.at('/args', '/argSchema')} />
          {this.errorAt('/args', '/argSchema')}
        </section>
      </>
    );
  }

  private responsePart(fields: Fields): ComponentChild {
    const exchange = this.exchange.value;
    const part = this.part.value;
    const panel = (kind: string) => panelOf(this.id, kind, part);
    const setSelector = (selector: string): void => (this.set({ selector }), this.trySoon());
    return (
      <>
        <p class="otx-muted" hidden={Boolean(exchange)}>Send the request to see its response here: as a table, a tree, text or an image.</p>
        <div ref={this.places.response} hidden={!exchange}>
          <Tabs label="Response" id={this.id} tabs={PARTS} selected={part} onSelect={kind => (this.part.value = kind)} />
          <div {...panel('body')}>
            <div class="otx-editor-field">
              <span class="otx-muted" aria-hidden="true">Keep (JMESPath)</span>
              <Input
                label="Keep (JMESPath)" placeholder="all of it; or items[].name" value={fields.selector} onInput={setSelector}
                {...this.fieldAt('/http/response/selector')}
              />
              {this.errorAt('/http/response/selector')}
            </div>
            <Placed element={this.viewer.element} />
          </div>
          <div class="otx-scroll" tabIndex={0} {...panel('headers')}>
            <table class="otx-columns">
              <thead><tr><th scope="col">Header</th><th scope="col">Value</th></tr></thead>
              <tbody>
                {Object.entries(exchange?.response.headers ?? {}).map(([name, value]) => (
                  <tr key={name}><th scope="row">{name}</th><td class="otx-whole">{value}</td></tr>
                ))}
              </tbody>
            </table>
          </div>
          <div class="otx-scroll" tabIndex={0} {...panel('request')}><pre>{exchange ? requestText(exchange) : ''}</pre></div>
        </div>
      </>
    );
  }
}

function requestText({ request: { method, url, headers, body } }: Exchange): string {
  return [`${method} ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), ...(body ? ['', body] : [])]
    .join('\n');
}
