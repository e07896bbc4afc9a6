/**
 * The box that adds a source: a curl command, an address, the description of an API, the JSON or the command of an MCP server.
 * The kernel says what a text is and what can be done with it (`pasted`); the box shows that and hands it on. It starts nothing
 * before a button is pressed. It imports nothing of JupyterLab.
 */

import { batch, computed, signal } from '@preact/signals';
import { createRef } from 'preact';

import { Check, FileButton, Input } from '../screens/controls.js';
import { debounce, offerFocus } from '../screens/dom.js';
import type { Requests } from '../screens/requests.js';

type Kind = 'http' | 'import' | 'server';

/** What the kernel says of a text; the likeliest choice is the first. */
interface IPasted {
  says: string;
  choices: { kind: Kind; label: string }[];
  document: string;
  runs: string[];
  digest: string;
  name: string;
  fields: { name: string; description: string }[];
}

/** A document to import: its text, or its address. */
export interface IDocument {
  name: string;
  text: string;
}

export interface IAdding {
  /** Make sure that a kernel can answer; the reason why none does. */
  connect: () => Promise<string>;
  onHttp: (text: string) => void;
  onImport: (document: IDocument) => void;
  onAdded: (names: string[]) => void;
}

/** A file that is larger is a document: what it is need not be asked. */
const LARGE = 4_000_000;
const SOON_MS = 250;
const EMPTY = { text: '', name: '', isSaved: false };

export class AddBox {
  constructor(
    private readonly requests: Requests,
    private readonly options: IAdding
  ) {
    this._look = requests.latestOf(async (text: string, ask) => {
      const reason = await options.connect();
      if (reason) throw new Error(reason);
      return { text, pasted: await ask<IPasted>('pasted', { text }) };
    });
    this._files = requests.latestOf((file: File) => file.text());
  }

  focus(): void {
    this._box.current?.focus();
  }

  readonly View = () => {
    const { text, name, isSaved } = this._draft.value;
    const pasted = this._pasted.value;
    const failure = this._failure.value;
    const isOnlyServer = pasted?.choices[0].kind === 'server';
    const change = (part: Partial<typeof EMPTY>): void => void (this._draft.value = { ...this._draft.value, ...part });
    return (
      <form class="onetool-Add" onSubmit={event => (event.preventDefault(), void this._go())}>
        <textarea
          ref={this._box} class="otx-input otx-json" rows={text.length > 90 || text.includes('\n') ? 6 : 4} aria-label="Add"
          placeholder="Paste a curl command, an address, an OpenAPI document, or an MCP server's command or JSON" spellcheck={false}
          value={text} onInput={event => this._type(event)} onKeyDown={event => this._onKey(event)}
        />
        {failure ? <p class="otx-error" role="alert">{failure}</p> : (
          <p class="onetool-Add-says" role="status">{pasted?.says ?? this._done.value}</p>
        )}
        {pasted?.runs.map((line, at) => <code key={at} class="otx-whole onetool-Add-runs">{line}</code>)}
        {isOnlyServer ? pasted?.fields.map(field => this._secret(field)) : null}
        {pasted && isOnlyServer ? (
          <div class="otx-bar">
            {pasted.name ? (
              <Input
                label="Name of the server" title="What its tools begin with" placeholder={pasted.name} value={name}
                onInput={typed => change({ name: typed })}
              />
            ) : null}
            <Check title="Writes it to onetool.yaml" isOn={isSaved} onChange={isOn => change({ isSaved: isOn })}>
              {' keep in the project'}
            </Check>
          </div>
        ) : null}
        <div class="otx-bar">
          {pasted ? pasted.choices.map(({ kind, label }, at) => (
            <button
              key={kind} class={at ? 'otx-small' : 'otx-run'} type={at ? 'button' : 'submit'} aria-disabled={this._isBusy.value}
              onClick={() => at && void this._take(kind)}
            >
              {label}
            </button>
          )) : <button class="otx-run" type="submit" disabled={!text.trim() || this._isBusy.value}>Add</button>}
          {text ? <button class="otx-small" type="button" onClick={() => this._clear()}>Clear</button> : (
            <FileButton label="Choose a file to add" accept=".json,.yaml,.yml" onPick={file => this._pick(file)}>Choose a file</FileButton>
          )}
        </div>
      </form>
    );
  };

  private _secret({ name, description }: IPasted['fields'][number]) {
    const typed = this._values.value[name] ?? '';
    return (
      <label key={name} class="onetool-Add-secret">
        <span>{name}</span>
        <input
          class="otx-input" type="password" autocomplete="off" data-secret={name} title={description}
          placeholder={description || 'for secrets.yaml'} value={typed}
          onInput={event => (this._values.value = { ...this._values.value, [name]: event.currentTarget.value })}
        />
      </label>
    );
  }

  /** Look at what was pasted at once; at what is typed letter by letter, when it rests, and then a refusal can wait for Enter. */
  private _type(event: Event & { currentTarget: HTMLTextAreaElement }): void {
    const { inputType, data } = event as unknown as InputEvent;
    this._files.reset(); // what is typed takes the place of a file
    this._isTyping.value = Boolean(inputType?.startsWith('delete')) || (inputType === 'insertText' && (data ?? '').length === 1);
    batch(() => {
      this._draft.value = { ...EMPTY, text: event.currentTarget.value };
      this._values.value = {};
      this._done.value = this._refused.value = '';
    });
    if (this._isTyping.value) this._soon();
    else void this._see();
  }

  private _onKey(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void this._go();
  }

  /** Ask the kernel what the text is, unless it has said so; null if it is another text by then. */
  private async _see(): Promise<IPasted | null> {
    this._soon.cancel();
    const { text } = this._draft.value;
    if (!text.trim()) return null;
    if (this._look.value.value?.text !== text || this._look.failure.value) await this._look.send(text);
    return this._draft.value.text === text ? this._pasted.value : null;
  }

  /** Do the first of the choices. A server is added once it was shown what runs. */
  private async _go(): Promise<void> {
    this._isTyping.value = false;
    const shown = this._pasted.value;
    const pasted = await this._see();
    if (pasted && (shown || pasted.choices[0].kind !== 'server')) await this._take(pasted.choices[0].kind);
  }

  private async _take(kind: Kind): Promise<void> {
    const [{ text }, pasted] = [this._draft.value, this._pasted.value];
    if (!pasted || this._isBusy.value) return;
    if (kind === 'server') return this._add(pasted);
    this._clear();
    const line = text.trim();
    if (kind === 'http') this.options.onHttp(line);
    else this.options.onImport({ name: this._name || (pasted.document ? line : ''), text: pasted.document || line });
  }

  private async _add(pasted: IPasted): Promise<void> {
    const missing = pasted.fields.find(({ name }) => !this._values.value[name]);
    if (missing) {
      this._refused.value = `Fill in ${missing.name}: it is not in secrets.yaml yet.`;
      this._box.current?.form?.querySelector<HTMLElement>(`[data-secret="${missing.name}"]`)?.focus();
      return;
    }
    const { text } = this._draft.value;
    this._isBusy.value = true;
    const reply = await this.requests.once<{ said: string; names: string[] }>('addServer', {
      ...this._draft.value, digest: pasted.digest, values: this._values.value
    });
    if (reply.status === 'late') return;
    this._isBusy.value = false;
    if (reply.status === 'failed') {
      this._refused.value = reply.error.message;
      return;
    }
    if (text === this._draft.value.text) this._clear(); // else another one was typed meanwhile
    this._done.value = reply.value.said;
    this.options.onAdded(reply.value.names);
  }

  private async _pick(file: File): Promise<void> {
    const reply = await this._files.send(file);
    if (reply.status === 'failed') this._refused.value = reply.error.message;
    if (reply.status !== 'ok') return;
    const text = reply.value.trim();
    if (file.size > LARGE) return this.options.onImport({ name: file.name, text });
    this._clear();
    this._draft.value = { ...EMPTY, text };
    this._name = file.name;
    await this._see();
  }

  private _clear(): void {
    batch(() => {
      this._draft.value = EMPTY;
      this._values.value = {};
      this._done.value = this._refused.value = this._name = '';
      this._look.reset();
    });
    offerFocus(this._box.current, this._box.current?.form ?? document.body);
  }

  private readonly _look;
  private readonly _files;
  private readonly _draft = signal(EMPTY);
  /** The values that were typed for missing secrets. */
  private readonly _values = signal<Record<string, string>>({});
  private readonly _done = signal('');
  private readonly _refused = signal('');
  private readonly _isBusy = signal(false);
  private readonly _box = createRef<HTMLTextAreaElement>();
  private readonly _isTyping = signal(false);
  private _name = '';
  private readonly _soon = debounce(SOON_MS, () => void this._see());
  /** What the present text is; null while nobody has said so. */
  private readonly _pasted = computed(() => {
    const { value, failure } = this._look;
    return value.value && !failure.value && value.value.text === this._draft.value.text ? value.value.pasted : null;
  });
  private readonly _failure = computed(
    () => this._refused.value || (this._draft.value.text && !this._isTyping.value ? this._look.failure.value : '')
  );
}
