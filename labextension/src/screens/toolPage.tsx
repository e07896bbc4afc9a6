// The page of one tool: its documentation, its arguments (as a form, as JSON, as code), its calls, Run with progress and
// Cancel, and the result. Arguments typed for a tool, and its latest call, are still there when the user comes back to it.
import { batch, signal } from '@preact/signals';
import { type ComponentChild, createRef, Fragment } from 'preact';
import { useState } from 'preact/hooks';
import type { Call, Calls, Result } from './calls.js';
import { copyText, debounce, elementOf, offerFocus } from './dom.js';
import { createForm, type Form, type SchemaError, type Variable } from './form.js';
import { counted, duration, number, sourceText, withoutArgumentName } from './format.js';
import { createHistory } from './history.js';
import { Badge, drawInto, ErrorLines, Icon, Placed, Tabs } from './parts.js';
import type { Ask, LatestRequest, Reply, Requests } from './requests.js';
import { isEqual, isObject, type Schema } from './schema.js';
import type { Payload, Transport } from './transport.js';
import { createViewer, type Viewer } from './viewer.js';

const TABS = [['form', 'Form'], ['json', 'JSON'], ['code', 'Code'], ['calls', 'Calls']] as const;
const SHOW_PROGRESS_MS = 300;

interface Usage {
  calls: number;
  failures: number;
  avgMs: number | null;
}

export interface Tool {
  name: string;
  title?: string;
  signature: string;
  description: string;
  parameters: Schema;
  returns: string;
  example: string;
  where: string;
  source: string;
  icon?: string | null;
  tags: string[];
  badges: string[];
  /** Why it is switched off; empty if it is not. */
  disabled: string;
  usage: Usage;
  isFavourite: boolean;
}

/** A call as `%tool`, as Python, and as curl if it is a request. */
export type Code = Partial<Record<'tool' | 'python' | 'curl', string>>;

interface Check {
  errors: SchemaError[];
  code: Code;
}

interface Options {
  onFavourite: (name: string, isOn: boolean) => void;
  onInsert?: ((code: Code, isRun: boolean) => void) | null;
}

/** What the page shows: a tool, a stored result alone, or why there is no tool. */
type Content = { tool: Tool; form: Form } | { stored: true } | { message: string; retry: () => void } | null;

/** The earlier calls of the tool, and the requests that end with it. */
interface Earlier {
  tool: string;
  requests: Requests;
  history: ReturnType<typeof createHistory>;
}

export class ToolPage {
  readonly element = elementOf('div.otx-tool-page', { role: 'region', 'aria-label': 'Tool' });
  private readonly content = signal<Content>(null);
  private readonly current = signal<Call | null>(null);
  private readonly pane = signal<string>('form');
  private readonly args = signal<Payload>({});
  /** What is typed as JSON, and what is wrong with it. */
  private readonly json = signal('');
  private readonly jsonErrors = signal<string[]>([]);
  private readonly code = signal<Code>({});
  private readonly usage = signal<Usage | null>(null);
  private readonly isStar = signal(false);
  private readonly isResultShown = signal(false);
  private isJsonValid = true;
  private isSubmitted = false;
  private earlier: Earlier | null = null;
  private readonly drafts = new Map<string, Payload>();
  private readonly viewer: Viewer;
  /** A tool and a stored result take each other's place. */
  private readonly opening: LatestRequest<[string, Payload], any>;
  /** What a person opened last: whether it is shown. */
  private opened: Promise<boolean> | null = null;
  private readonly checkSoon = debounce(150, () => this.check());
  private readonly places = {
    run: createRef<HTMLButtonElement>(), cancel: createRef<HTMLButtonElement>(), json: createRef<HTMLTextAreaElement>(),
    actions: createRef<HTMLDivElement>(), answer: createRef<HTMLDivElement>()
  };

  constructor(transport: Transport, private readonly requests: Requests, private readonly calls: Calls, private readonly options: Options) {
    this.opening = requests.latestOf(([kind, payload]: [string, Payload], ask: Ask) => ask(kind, payload));
    this.viewer = createViewer(transport);
    drawInto(this.element, () => this.draw());
  }

  get tool(): Tool | null {
    const content = this.content.peek();
    return content && 'tool' in content ? content.tool : null;
  }

  get form(): Form | null {
    const content = this.content.peek();
    return content && 'tool' in content ? content.form : null;
  }

  get call(): Call | null {
    return this.current.peek();
  }

  /** Whether the user has typed or run anything here. */
  get isUsed(): boolean {
    return this.drafts.size > 0 || this.calls.all.length > 0;
  }

  /** Show a tool; with `args` its form is filled in. Returns false if the tool is gone, or the user has opened another since. */
  open(name: string, args: Payload | null = null): Promise<boolean> {
    return (this.opened = this.load(name, args));
  }

  /** Resolves when what a person opened is there. */
  async settled(): Promise<void> {
    for (let awaited: unknown = null; awaited !== this.opened; ) await (awaited = this.opened);
  }

  /** Read the tool again, after what a person opened is there: that would be late otherwise, and its arguments lost. */
  async refresh(name: string): Promise<void> {
    await this.settled();
    await this.load(name, null);
  }

  private async load(name: string, args: Payload | null): Promise<boolean> {
    const reply = await this.opening.send(['tool', { name }]);
    if (reply.status === 'failed') this.showFailure(reply.error.message, () => this.open(name, args));
    if (reply.status !== 'ok') return false;
    const tool: Tool = reply.value;
    // What is the same as it was is not drawn anew while the user types.
    if (args === null && this.tool && isEqual(definitionOf(tool), definitionOf(this.tool))) return true;
    this.isJsonValid = true;
    this.isSubmitted = false;
    const isAnother = tool.name !== this.tool?.name;
    const form = createForm(tool.parameters, {
      onChange: given => this.onFormChange(given), onSubmit: () => this.run(), variables: () => this.variables()
    });
    batch(() => {
      this.content.value = { tool, form };
      this.args.value = args ?? this.drafts.get(name) ?? {};
      this.pane.value = 'form';
      this.jsonErrors.value = [];
      this.code.value = {};
      this.usage.value = tool.usage;
      if (isAnother) this.isStar.value = tool.isFavourite; // a star that was set since stays
      form.set(this.args.value);
    });
    this.showCall(args === null ? this.calls.latest(name) : null);
    void this.check();
    return true;
  }

  /** Show a message in place of a tool. There is no tool to run then, and a call of the tool before has a line again. */
  private showFailure(message: string, retry: () => void): void {
    this.checkSoon.cancel();
    this.content.value = { message, retry };
    this.current.value = null;
    this.calls.setShown(null);
  }

  /** Show the progress or the result of a call, or of none. */
  showCall(call: Call | null): void {
    if (!call || call.result.peek()) this.leaveCancel();
    batch(() => {
      this.current.value = call;
      this.isResultShown.value = false;
      this.calls.setShown(call);
    });
    if (call) this.showResult(call);
  }

  /** Show the result of a call, once it is there. */
  showResult(call: Call): void {
    const result = call.result.peek();
    if (call !== this.call || !this.tool || !result) return;
    this.showInViewer(result);
    void this.updateUsage();
  }

  /** The call of the page is over, and Cancel goes: what goes with the focus loses it, so the focus leaves before. */
  leaveCancel(call: Call | null = this.call): void {
    if (call === this.call && document.activeElement === this.places.cancel.current) this.places.run.current?.focus();
  }

  private showInViewer(result: Result): void {
    this.isResultShown.value = true;
    this.viewer.show(result);
    // Scroll this page, never the notebook, so that the result is visible below the Run button.
    const page = this.element.closest<HTMLElement>('.otx-right, .otx-tool-tab');
    const { actions: { current: actions }, answer: { current: answer } } = this.places;
    if (!page || !actions || !answer || answer.getBoundingClientRect().top < page.getBoundingClientRect().bottom - 160) return;
    page.scrollTop += actions.getBoundingClientRect().bottom - page.getBoundingClientRect().top - 60;
  }

  private async updateUsage(): Promise<void> {
    const { tool } = this;
    if (this.pane.peek() === 'calls') void this.earlier?.history.load();
    const reply = await this.requests.latest<Tool>('tool', 'usage').send({ name: tool!.name });
    // Without a reply the numbers stay as they were: the next call asks again.
    if (reply.status === 'ok' && tool === this.tool) this.usage.value = reply.value.usage;
  }

  /** Show whether the tool is a favourite. */
  setStar(isFavourite: boolean): void {
    this.isStar.value = isFavourite;
  }

  private toggleStar(name: string): void {
    this.isStar.value = !this.isStar.peek();
    this.options.onFavourite(name, this.isStar.peek());
  }

  /** While a call runs, Run does not start the same call again; a call with other arguments may run beside it. */
  private get isRepeat(): boolean {
    const call = this.current.value;
    return call !== null && !call.result.value && isEqual(call.args, this.args.value);
  }

  /** The variables to suggest; null if the kernel does not tell, undefined if the answer is late. */
  private async variables(): Promise<Variable[] | null | undefined> {
    const reply = await this.requests.latest<{ items: Variable[] }>('variables').again();
    return reply.status === 'late' ? undefined : reply.status === 'ok' ? reply.value.items : null;
  }

  private selectPane(kind: string): void {
    if (kind === 'json' && this.isJsonValid) this.json.value = JSON.stringify(this.args.peek(), null, 2);
    if (kind === 'calls') void this.earlierOf(this.tool!.name).history.load();
    this.pane.value = kind;
  }

  /** The earlier calls of a tool: one of them fills in the form, or is run again. */
  private earlierOf(tool: string): Earlier {
    if (this.earlier?.tool === tool) return this.earlier;
    this.earlier?.requests.close();
    const requests = this.requests.part();
    const onEdit = async (call: { args: Payload | null }): Promise<void> =>
      void ((await this.open(tool, call.args)) && offerFocus(this.form, this.element));
    const onRerun = async (call: { args: Payload | null }): Promise<void> =>
      void ((await this.open(tool, call.args)) && (await this.run()));
    this.earlier = { tool, requests, history: createHistory(requests, { onEdit, onRerun }, tool) };
    return this.earlier;
  }

  private onFormChange(args: Payload): void {
    this.args.value = args;
    this.isJsonValid = true;
    this.drafts.set(this.tool!.name, args);
    this.jsonErrors.value = [];
    this.checkSoon();
  }

  private onJsonInput(text: string): void {
    this.json.value = text;
    try {
      const args: unknown = JSON.parse(text || '{}');
      if (!isObject(args)) throw new Error('The arguments must be an object: {"name": value}.');
      this.onFormChange(args);
      this.form!.set(args);
    } catch (error) {
      this.isJsonValid = false;
      this.jsonErrors.value = [(error as Error).message];
    }
  }

  /** Show each error at its field, and all of them below the JSON. */
  private showErrors(errors: SchemaError[]): void {
    this.form!.showErrors(errors);
    if (this.isJsonValid) this.jsonErrors.value = errors.map(
      ({ pointer, message }) => (pointer ? `${pointer}: ${withoutArgumentName(message)}` : message)
    );
  }

  /** Ask the kernel for errors and for the call as code. Missing arguments are not reported before the first Run. */
  async check(): Promise<void> {
    const { tool } = this;
    this.showCheck(await this.requests.latest<Check>('check').send({ name: tool!.name, args: this.args.peek() }), tool);
  }

  private showCheck(reply: Reply<Check>, tool: Tool | null): void {
    if (reply.status === 'late' || !tool || tool !== this.tool) return;
    if (reply.status === 'failed') {
      this.showErrors([{ pointer: '', message: reply.error.message }]);
      return;
    }
    this.showErrors(reply.value.errors.filter(error => this.isSubmitted || error.keyword !== 'required'));
    this.code.value = reply.value.code;
  }

  /** Check the arguments that are run or inserted now, whatever is typed meanwhile; null without an answer. */
  private async checkToUse(args: Payload): Promise<Check | null> {
    this.checkSoon.cancel();
    const { tool } = this;
    const reply = await this.requests.once<Check>('check', { name: tool!.name, args });
    if (args === this.args.peek()) this.showCheck(reply, tool);
    // It was read again meanwhile: what was pressed is checked against what it is now.
    if (reply.status === 'ok' && tool !== this.tool && tool!.name === this.tool?.name) return this.checkToUse(args);
    return reply.status === 'ok' && tool === this.tool ? reply.value : null;
  }

  async run(): Promise<void> {
    const { tool } = this;
    if (!tool || tool.disabled || this.isRepeat) return;
    if (!this.isJsonValid) {
      this.selectPane('json');
      return;
    }
    this.isSubmitted = true;
    const args = this.args.peek();
    const answer = await this.checkToUse(args);
    if (!answer || this.isRepeat) return;
    if (!answer.errors.length) {
      this.showCall(this.calls.start(tool.name, args));
      return;
    }
    if (this.pane.peek() === 'code') this.selectPane('form');
    if (this.pane.peek() === 'form') this.showError();
    else offerFocus(this.places.json.current, this.element);
  }

  private showError(): void {
    offerFocus({ focus: () => this.form!.focusError() }, this.element);
  }

  /** Insert the call into the notebook; with `isRun` it is inserted only if its arguments are valid, and run. */
  private async insert(isRun: boolean): Promise<void> {
    this.isSubmitted = this.isSubmitted || isRun;
    const answer = await this.checkToUse(this.args.peek());
    if (!answer) return;
    if (isRun && answer.errors.length) this.showError();
    else this.options.onInsert!(answer.code, isRun);
  }

  /** Show a stored result, unless the user opens a tool or another result before it is there. Returns what became of it. */
  async openResult(handle: string): Promise<Reply<Result>> {
    const reply: Reply<Result> = await this.opening.send(['open', { handle }]);
    if (reply.status !== 'ok') return reply;
    if (this.tool) this.showCall(null);
    else this.content.value = { stored: true };
    this.showInViewer(reply.value);
    return reply;
  }

  private draw(): ComponentChild {
    const content = this.content.value;
    if (!content) return <p class="otx-muted">reading …</p>;
    if ('stored' in content) return <Placed element={this.viewer.element} />;
    if ('tool' in content) return this.drawTool(content.tool, content.form);
    return (
      <>
        <div class="otx-failure" role="alert">{content.message}</div>
        <button class="otx-small" type="button" onClick={content.retry}>Try again</button>
      </>
    );
  }

  private drawTool(tool: Tool, form: Form) {
    const pane = this.pane.value;
    return (
      <Fragment key={tool.name}>
        <div class="otx-tool-head">
          {this.title(tool)}
          {this.documentation(tool)}
        </div>
        <div class="otx-tool-ask">
          <Tabs label="Argument formats" tabs={TABS} selected={pane} onSelect={kind => this.selectPane(kind)} />
          <Placed element={form.element} hidden={pane !== 'form'} />
          <div hidden={pane !== 'json'}>
            <textarea
              ref={this.places.json} class="otx-input otx-json" rows={10} spellcheck={false} aria-label="Arguments as JSON"
              value={this.json.value} onInput={event => this.onJsonInput(event.currentTarget.value)}
            />
            <ErrorLines messages={this.jsonErrors.value} />
          </div>
          <div class="otx-code" hidden={pane !== 'code'}>
            {([['tool', '%tool'], ['python', 'Python'], ['curl', 'curl']] as const).map(([kind, title]) => (
              <Snippet key={kind} kind={kind} title={title} text={this.code.value[kind]} />
            ))}
          </div>
          {pane === 'calls' ? <Placed class="otx-tool-calls" element={this.earlierOf(tool.name).history.element} /> : null}
          {this.actions(tool)}
        </div>
        <div ref={this.places.answer} class="otx-tool-answer">
          <p class="otx-muted" hidden={this.isResultShown.value}>The result is shown here.</p>
          <Placed class="otx-result" element={this.viewer.element} hidden={!this.isResultShown.value} />
        </div>
      </Fragment>
    );
  }

  private title({ name, title, icon, source, badges, tags }: Tool) {
    const isStar = this.isStar.value;
    return (
      <div class="otx-title">
        <Icon src={icon} />
        <h3 title={title || undefined}>{name}</h3>
        <button
          class={isStar ? 'otx-star otx-on' : 'otx-star'} type="button" title="Favourite" aria-label={`${name}: favourite`}
          aria-pressed={isStar} onClick={() => this.toggleStar(name)}
        >
          {isStar ? '★' : '☆'}
        </button>
        <span class="otx-chip">{sourceText(source)}</span>
        {badges.map(badge => <Badge key={badge} badge={badge} />)}
        {tags.map(tag => <span key={tag} class="otx-chip">{tag}</span>)}
      </div>
    );
  }

  private documentation({ signature, disabled, description, returns, example, where }: Tool) {
    return (
      <div class="otx-tool-docs">
        <code class="otx-signature">{signature}</code>
        {disabled ? <div class="otx-failure" role="alert">Switched off: {disabled}</div> : null}
        <p>{description}</p>
        {returns || example || where ? (
          <details>
            <summary>More</summary>
            {returns ? <p><strong>Returns </strong>{returns}</p> : null}
            {example ? <pre>{example}</pre> : null}
            {where ? <p class="otx-muted">{where}</p> : null}
          </details>
        ) : null}
        <p class="otx-muted">{usageText(this.usage.value)}</p>
      </div>
    );
  }

  private actions({ disabled }: Tool) {
    const call = this.current.value;
    const running = call && !call.result.value ? call : null;
    // `disabled` would lose the focus.
    return (
      <div ref={this.places.actions} class="otx-actions" hidden={this.pane.value === 'calls' && !running}>
        <button
          ref={this.places.run} class="otx-run" type="button" title="Ctrl-Enter" hidden={Boolean(disabled)} aria-disabled={this.isRepeat}
          onClick={() => this.run()}
        >
          Run
        </button>
        <button
          ref={this.places.cancel} class="otx-small" type="button" hidden={!running} onClick={() => running && this.calls.cancel(running)}
        >
          Cancel
        </button>
        {this.options.onInsert ? (
          <button class="otx-small" type="button" title="Insert the call into the notebook" onClick={() => this.insert(false)}>
            Insert
          </button>
        ) : null}
        {this.options.onInsert ? (
          <button
            class="otx-small" type="button" title="Insert the call into the notebook and run it" hidden={Boolean(disabled)}
            onClick={event => event.detail > 1 || this.insert(true)}
          >
            Insert and run
          </button>
        ) : null}
        <div class="otx-progress" role="status" aria-live="polite">{running ? <Progress call={running} calls={this.calls} /> : null}</div>
      </div>
    );
  }

  close(): void {
    this.checkSoon.cancel();
    this.earlier?.requests.close();
    this.viewer.close();
  }
}

/** What makes a page of a tool another page. */
function definitionOf({ name, signature, description, parameters, disabled }: Tool) {
  return { name, signature, description, parameters, disabled };
}

function Progress({ call, calls }: { call: Call; calls: Calls }) {
  if (calls.elapsed(call) < SHOW_PROGRESS_MS) return null;
  const { done, total } = call.progress.value;
  const bar = total ? (
    <progress key="steps" aria-label="Progress" max={total} value={done} />
  ) : <progress key="some" aria-label="Progress" />;
  return <>{bar}<span>{calls.progressOf(call)}</span></>;
}

/** A call as code, with a button that copies it. */
function Snippet({ kind, title, text }: { kind: string; title: string; text: string | undefined }) {
  const [copied, setCopied] = useState({ text: '', outcome: '' });
  if (!text) return null;
  const copy = async (): Promise<void> => setCopied({
    text, outcome: (await copyText(text)) ? 'copied' : 'not copied: select the text and copy it'
  });
  return (
    <div class="otx-snippet" data-kind={kind}>
      <div class="otx-bar">
        <strong>{title}</strong>
        <button class="otx-small" type="button" aria-label={`Copy as ${title}`} onClick={copy}>Copy</button>
        <span class="otx-muted" role="status">{copied.text === text ? copied.outcome : ''}</span>
      </div>
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}

function usageText(usage: Usage | null): string {
  if (!usage?.calls) return 'not called yet';
  return `${counted(usage.calls, 'call')}, ${number(usage.failures)} failed, ${duration(usage.avgMs ?? 0)} on average`;
}
