// A question to the user, in a cell or in the panel: calls to approve, a form, an address to visit, or a yes or no. What a
// server or a model says is shown as text. Nothing takes the focus, and nothing happens without a click or a key on a
// button. The question that is drawn is the one that is answered.
import { batch, type Signal, signal } from '@preact/signals';
import { type ComponentChildren, createContext, type Key } from 'preact';
import { useContext, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { elementOf, offerFocus, uniqueId } from './dom.js';
import { number, withoutArgumentName } from './format.js';
import { Badge, drawInto, ErrorLines } from './parts.js';
import { Requests } from './requests.js';
import { escapePointer } from './schema.js';
import { type Inventory, TrustForm } from './trust.js';

const MAX_SHOWN = 200;
const MAX_DETAIL = 1000;
const MAX_WRITES = 20;

type Argument = { name: string; text: string };
type Call = { tool: string; summary: string; badges: string[]; note: string; sends?: string; args: Argument[] };
type Titled = { const: string; title?: string }[];

type Choices = { oneOf?: Titled; anyOf?: Titled; enum?: string[]; enumNames?: string[] };
type Field = Choices & { type: string; title?: string; description?: string; format?: string; default?: unknown; items?: Choices };

/** Which of the calls, numbered from 1, shall run; a call without a decision is not in it. */
type Decisions = ReadonlyMap<number, boolean>;

/** A question of the kernel. Its text comes from models and servers. */
export interface Question {
  id: string;
  asker: string;
  text: string;
  url: string;
  form: { properties: Record<string, Field>; required: string[] } | null;
  trust: (Inventory & { part: string }) | null;
  calls: Call[];
  details: string[];
  yes: string;
  no: string;
  program?: string;
  /** Where data would go; then this is asked alone. */
  places?: string[];
  eachTime?: boolean;
  offersAlways?: boolean;
  /** What a person did so far. The question may be drawn in a cell and in the panel: both show it, one answer is sent. */
  state?: { decisions: Signal<Decisions>; isBusy: Signal<boolean> };
}

export type Answer = { action: 'accept' | 'decline' | 'cancel'; content: Record<string, unknown> };

type Send = (action: Answer['action'], content?: Answer['content']) => void;

/** What the parts of a question are drawn from. */
interface Props {
  question: Question;
  send: Send;
  decisions: Decisions;
  decide: (numbers: number[], isRun: boolean) => Decisions;
  /** What was sent and is wrong. */
  refused: { content: Answer['content']; errors: { pointer: string; message: string }[] };
}

/** Whether an answer is under way: nothing can be pressed or typed then. */
const Busy = createContext(false);

/** Returns `{element}`. `answer({action, content})` sends an answer and resolves with `{errors}`, for as long as `requests` are open. */
export function createQuestion(question: Question, answer: (answer: Answer) => Promise<{ errors: any[] }>, requests = new Requests(null)) {
  const { decisions, isBusy } = (question.state ??= { decisions: signal(new Map()), isBusy: signal(false) });
  const refused = signal<Props['refused']>({ content: {}, errors: [] });
  const failure = signal('');
  const titleId = uniqueId('question');
  const element = elementOf('section.otx.otx-question', {
    role: 'group', ...(question.trust ? { 'aria-label': 'Trust' } : { 'aria-labelledby': titleId })
  });

  async function send(action: Answer['action'], content: Answer['content'] = {}): Promise<void> {
    if (isBusy.peek()) return;
    isBusy.value = true;
    const reply = await requests.onceOf(() => answer({ action, content }));
    if (reply.status === 'late') return;
    batch(() => {
      refused.value = { content, errors: reply.status === 'ok' ? reply.value.errors : [] };
      failure.value = reply.status === 'failed' ? reply.error.message : '';
      isBusy.value = reply.status === 'ok' && !refused.value.errors.length;
    });
  }

  const decide = (numbers: number[], isRun: boolean): Decisions => (decisions.value = new Map([
    ...decisions.peek(), ...numbers.map(number => [number, isRun] as const)
  ]));
  const { trust, program, calls, form, yes, eachTime } = question;
  const Draw = program ? ProgramWrites : calls.length ? Approval : form ? Form : yes ? Consent : Address;
  const text = yes || program || eachTime ? '' : question.text; // a question of our own has it as its title
  drawInto(element, () => (
    <Busy.Provider value={isBusy.value}>
      {trust ? (
        <TrustForm inventory={trust} part={trust.part} isBusy={isBusy.value} onYes={() => send('accept')} onNo={() => send('decline')} />
      ) : (
        <>
          <strong class="otx-question-title" id={titleId}>{plain(titleOf(question))}</strong>
          {text ? <p class="otx-question-text">{plain(text)}</p> : null}
          <Draw question={question} send={send} decisions={decisions.value} decide={decide} refused={refused.value} />
        </>
      )}
      <div class="otx-error" role="alert" hidden={!failure.value}>{failure.value}</div>
    </Busy.Provider>
  ));
  return { element };
}

function titleOf({ asker, calls, url, yes, text, program, eachTime, places }: Question): string {
  if (yes || program) return visible(text);
  if (eachTime) return `${asker} ${visible(text)}`;
  if (calls.length && places?.length) return `${asker} wants to send your data to ${plain(listed(places))}`;
  const sent = [...new Set(calls.flatMap(({ sends }) => sends || []))];
  const alsoSends = sent.length ? `, or send your data to ${plain(listed(sent))}` : '';
  const made = calls.length === 1 ? 'a call' : `${calls.length} calls`;
  if (calls.length) return `${asker} wants to make ${made} that may change something${alsoSends}`;
  return url ? `${asker} sends you to an address` : `${asker} asks you`;
}

function Button({ kind, label, isOff = false, onClick, children }: {
  kind?: string; label?: string; isOff?: boolean; onClick: () => void; children: ComponentChildren;
}) {
  const isBusy = useContext(Busy);
  // `disabled` would lose the focus.
  return (
    <button class={kind} type="button" aria-label={label} aria-disabled={isBusy} disabled={isOff} onClick={() => isBusy || onClick()}>
      {children}
    </button>
  );
}

/**
 * Calls to approve. Each can be decided alone; the answer is sent once all are decided. No button is the main one, since
 * each call may change something.
 */
function Approval({ question: { asker, calls, places = [], eachTime, offersAlways }, send, decisions, decide }: Props) {
  const isOne = calls.length === 1;
  const isSending = places.length > 0; // data would leave, and nothing else is asked
  const [doIt, leave] = isSending ? ['Send', 'No'] : ['Run', 'Skip'];
  const all = calls.map((_, at) => at + 1);
  const tools = [...new Set(calls.map(({ tool }) => tool))];
  const isDestructive = calls.some(({ badges }) => badges.includes('destructive'));
  const finish = (run: number[], always = false): void => (run.length ? send('accept', { run, always }) : send('decline'));
  const chosen = (among: Decisions): number[] => all.filter(number => among.get(number));
  // What a button for all runs: a call that was skipped by itself stays skipped.
  const unskipped = all.filter(number => decisions.get(number) !== false);
  const decideOne = (number: number, isRun: boolean): void => {
    const latest = decide([number], isRun);
    if (latest.size === calls.length) finish(chosen(latest));
  };
  const more = isSending
    ? `Send to ${plain(listed(places))} for the rest of this ${asker === 'The program' ? 'program' : 'ask'}`
    : tools.length === 1
    ? `Always run ${plain(tools[0])}`
    : `Always run these ${tools.length} tools`;
  const hasMore = !eachTime && (isSending || offersAlways !== false);
  const tip = eachTime
    ? 'You are asked each time.'
    : hasMore && !isSending
    ? `Always: every later call of ${plain(listed(tools))} in this session, with any arguments, until the tool changes.`
    : '';
  return (
    <>
      <ol class="otx-question-calls">
        {calls.map((call, at) => (
          <Card
            key={at} call={call} number={isOne ? 0 : at + 1} isRun={decisions.get(at + 1)} onDecide={isRun => decideOne(at + 1, isRun)}
          />
        ))}
      </ol>
      <div class="otx-question-buttons">
        <Button kind={isDestructive ? 'otx-failed' : undefined} onClick={() => finish(unskipped)}>
          {isOne ? doIt : decisions.size ? `${doIt} the rest` : `${doIt} all`}
        </Button>
        {hasMore ? <Button onClick={() => finish(unskipped, true)}>{more}</Button> : null}
        <Button onClick={() => finish(chosen(decisions))}>
          {isOne || isSending ? leave : decisions.size ? 'Skip the rest' : 'Skip all'}
        </Button>
      </div>
      {tip ? <p class="otx-muted otx-tip">{tip}</p> : null}
    </>
  );
}

/** `a`, `a and b`, `a, b and c` */
function listed(names: string[]): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** A call to approve. `number` is 0 for one that is alone, and decided by the buttons of the question. */
function Card({ call: { tool, summary, badges, note, args }, number, isRun, onDecide }: {
  call: Call; number: number; isRun: boolean | undefined; onDecide: (isRun: boolean) => void; key?: Key;
}) {
  return (
    <li>
      <div class="otx-question-head">
        <span class="otx-name">{plain(number ? `${number}. ${tool}` : tool)}</span>
        {badges.map(badge => <Badge key={badge} badge={badge} />)}
        {number ? (
          <span class="otx-question-decide">
            <span class={isRun ? 'otx-chip otx-ok' : 'otx-chip'} role="status" hidden={isRun === undefined}>
              {isRun ? 'will run' : 'will be skipped'}
            </span>
            <Button kind="otx-small" label={`Run ${tool}`} onClick={() => onDecide(true)}>Run</Button>
            <Button kind="otx-small" label={`Skip ${tool}`} onClick={() => onDecide(false)}>Skip</Button>
          </span>
        ) : null}
      </div>
      {summary ? <div class="otx-muted">{plain(summary)}</div> : null}
      {note ? <div class="otx-error">{note}</div> : null}
      {args.length ? <dl class="otx-question-args">{args.map(argument)}</dl> : <div class="otx-muted">no arguments</div>}
    </li>
  );
}

/**
 * The writes of a program: its text, a table of the first ones, and what a yes is about. One button runs what is chosen,
 * and says how many that are. Writes that are not in the table are chosen together, by the last box.
 */
function ProgramWrites({ question: { calls, program, details }, send, decisions, decide }: Props) {
  const all = calls.map((_, at) => at + 1);
  const rest = all.slice(MAX_WRITES);
  const run = all.filter(number => decisions.get(number) !== false);
  const isBusy = useContext(Busy);
  const box = (numbers: number[], label: string) => (
    <input
      type="checkbox" aria-label={label} disabled={isBusy} checked={decisions.get(numbers[0]) !== false}
      onChange={event => decide(numbers, event.currentTarget.checked)}
    />
  );
  return (
    <>
      <pre class="otx-question-program" tabIndex={0} role="group" aria-label="Program">
        {program!.trimEnd().split(/\r\n|\r|\n/).map(codeLine)}
      </pre>
      <div class="otx-question-writes" tabIndex={0} role="group" aria-label="Writes">
        <table>
          <tbody>
            {calls.slice(0, MAX_WRITES).map(({ tool, badges, args }, at) => (
              <tr key={at}>
                <td>{box([at + 1], `Run ${at + 1}. ${tool}`)}</td>
                <td>{at + 1}</td>
                <td>
                  <div class="otx-question-write">
                    <div><span class="otx-name">{plain(tool)}</span>{badges.map(badge => <Badge key={badge} badge={badge} />)}</div>
                    {args.length ? (
                      <dl>{args.map((each, place) => <div key={place}>{argument(each)}</div>)}</dl>
                    ) : <div class="otx-muted">no arguments</div>}
                  </div>
                </td>
              </tr>
            ))}
            {rest.length ? (
              <tr>
                <td>{box(rest, `Run ${MAX_WRITES + 1} to ${calls.length}`)}</td>
                <td colSpan={2}>{MAX_WRITES + 1} to {calls.length}, which are not shown here</td>
              </tr>
            ) : null}
          </tbody>
        </table>
      </div>
      <Details lines={details} />
      <div class="otx-question-buttons">
        <Button isOff={!run.length} onClick={() => send('accept', { run, always: false })}>
          {calls.length === 1 ? 'Run' : `Run ${run.length} of ${calls.length}`}
        </Button>
        <Button onClick={() => send('decline')}>No</Button>
      </div>
    </>
  );
}

/** A line of a program. Where it is too long for the page, its rest is further to the right than its beginning. */
function codeLine(line: string, at: number) {
  const text = line.replace(/^ +/, '');
  return <div key={at} style={`padding-left: ${Math.min(line.length - text.length, 24) + 4}ch`}>{visible(text)}{'\n'}</div>;
}

function Details({ lines }: { lines: string[] }) {
  return (
    <ul class="otx-question-details">
      {lines.map((line, at) => <li key={at}><Foreign text={line} limit={MAX_DETAIL} name={`line ${at + 1}`} /></li>)}
    </ul>
  );
}

function argument({ name, text }: Argument) {
  return [<dt>{visible(name)}</dt>, <dd><Foreign text={text} limit={MAX_SHOWN} name={name} /></dd>];
}

/** Foreign text. Long text is cut, says how much is missing, and is whole after a click. */
function Foreign({ text, limit, name }: { text: string; limit: number; name: string }) {
  const [isWhole, setWhole] = useState(false);
  if (isWhole || text.length <= limit) return <code>{visible(text)}</code>;
  const more = `${number(text.length - limit)} more characters`;
  return (
    <>
      <code>{visible(text.slice(0, limit))}</code>
      {'… '}
      <Button kind="otx-small" label={`${more} of ${name}`} onClick={() => setWhole(true)}>{more}</Button>
    </>
  );
}

/** A yes or a no to what the details say. */
function Consent({ question: { details, yes, no }, send }: Props) {
  return (
    <>
      {details.length ? <Details lines={details} /> : null}
      <div class="otx-question-buttons">
        <Button kind="otx-run" onClick={() => send('accept')}>{yes}</Button>
        <Button onClick={() => send('decline')}>{no}</Button>
      </div>
    </>
  );
}

/** Text in which characters that show nothing, or turn the direction of text, are escapes. */
function visible(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu,
    char => (char === '\n' || char === '\t' ? char : `\\u${char.codePointAt(0)!.toString(16).padStart(4, '0')}`)
  );
}

/** Text without characters that turn the direction of text. */
function plain(text: string): string {
  return String(text).replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, visible);
}

/** An address to visit, whole, with its host in bold. One that no browser opens has no link, and can still be declined. */
function Address({ question: { url }, send }: Props) {
  const [, before, host, after] = /^(https?:\/\/)([^/?#\\]+)(.*)$/is.exec(url) ?? [null, '', '', url];
  const isUsable = host !== '' && canOpen(url);
  return (
    <>
      <code class="otx-question-address">{before}<strong>{visible(host)}</strong>{visible(after)}</code>
      {isUsable ? null : <p class="otx-error">No browser opens this address.</p>}
      <div class="otx-question-buttons">
        {isUsable ? (
          <a class="otx-run" href={url} target="_blank" rel="noopener noreferrer" onClick={() => send('accept')}>Open this address</a>
        ) : null}
        <Refusals send={send} />
      </div>
    </>
  );
}

function canOpen(url: string): boolean {
  try {
    return Boolean(new URL(url).host);
  } catch {
    return false;
  }
}

function Refusals({ send }: { send: Send }) {
  return <><Button onClick={() => send('decline')}>Decline</Button><Button onClick={() => send('cancel')}>Cancel</Button></>;
}

/** The fields are read as they are shown, once they are sent. */
function Form({ question: { form, yes, no }, send, refused: { content, errors } }: Props) {
  const element = useRef<HTMLFormElement>(null);
  const isBusy = useContext(Busy);
  const fields = Object.entries(form!.properties).map(([name, field]) => ({ name, field, isRequired: form!.required.includes(name) }));
  useLayoutEffect(() => {
    if (errors.length) offerFocus(element.current!.querySelector<HTMLElement>('[aria-invalid="true"]'), element.current!);
  }, [errors]);
  const submit = (event: Event): void => {
    event.preventDefault();
    const values = fields.map(({ name, field, isRequired }, at) => [
      name, valueOf(field, isRequired, [...element.current!.querySelectorAll<HTMLInputElement>(`[data-field="${at}"]`)])
    ]);
    send('accept', Object.fromEntries(values.filter(([, value]) => value !== undefined)));
  };
  const messagesOf = (name: string, isRequired: boolean): string[] => {
    if (isRequired && content[name] === undefined && errors.length) return ['This field is required.'];
    const pointer = `/${escapePointer(name)}`;
    return errors.filter(error => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`))
      .map(error => withoutArgumentName(error.message));
  };
  return (
    <form ref={element} class="otx-form" noValidate autocomplete="off" onSubmit={submit}>
      {fields.map(({ name, field, isRequired }, at) => (
        <FormField key={name} at={at} name={name} field={field} isRequired={isRequired} messages={messagesOf(name, isRequired)} />
      ))}
      <div class="otx-question-buttons">
        <button class="otx-run" type="submit" aria-disabled={isBusy}>{yes || 'Send'}</button>
        {yes ? <Button onClick={() => send('decline')}>{no}</Button> : <Refusals send={send} />}
      </div>
    </form>
  );
}

const INPUT_TYPES: Record<string, string> = { email: 'email', uri: 'url', date: 'date', password: 'password' };

/** One field of a flat form: text, a number, yes or no, one of some choices, or any of them. */
function FormField({ at, name, field, isRequired, messages }: {
  at: number; name: string; field: Field; isRequired: boolean; messages: string[]; key?: Key;
}) {
  const [id] = useState(() => uniqueId('field'));
  const { type, format, description, default: preset } = field;
  const [isGroup, isBox, choices] = [type === 'array', type === 'boolean', choicesOf(field)];
  const kind = type === 'string' ? (INPUT_TYPES[format ?? ''] ?? 'text') : 'text';
  const input = { 'data-field': at, disabled: useContext(Busy) };
  const common = {
    id, 'aria-describedby': description ? `${id}-help ${id}-error` : `${id}-error`, 'aria-required': isRequired,
    'aria-invalid': messages.length > 0
  };
  const words = (
    <>
      <span class="otx-name">{plain(field.title || name)}</span>
      {isRequired ? <span class="otx-required" aria-hidden="true">*</span> : isBox ? null : <span class="otx-type">optional</span>}
    </>
  );
  const label = isGroup ? <legend class="otx-label">{words}</legend> : <label class="otx-label" for={id}>{words}</label>;
  const help = description ? <div class="otx-help" id={`${id}-help`}>{plain(description)}</div> : null;
  const isPreset = (choice: string): boolean => (Array.isArray(preset) ? preset.includes(choice) : preset === choice);
  const control = isGroup ? (
    <div {...common}>
      {choices.map(([choice, title]) => (
        <label key={choice} class="otx-choice">
          <input {...input} type="checkbox" value={choice} defaultChecked={isPreset(choice)} />
          {plain(title)}
        </label>
      ))}
    </div>
  ) : isBox ? (
    <input {...common} {...input} type="checkbox" defaultChecked={preset === true} />
  ) : choices.length ? (
    <select {...common} {...input} class="otx-input">
      <option value="">choose …</option>
      {choices.map(([choice, title]) => <option key={choice} value={choice} selected={isPreset(choice)}>{plain(title)}</option>)}
    </select>
  ) : (
    <input
      {...common} {...input} class="otx-input" type={kind as 'text'} inputMode={type === 'string' ? undefined : 'decimal'}
      placeholder={format === 'date-time' ? '2026-01-31T12:00:00Z' : undefined} spellcheck={false}
      autocomplete={kind === 'password' ? 'new-password' : undefined} defaultValue={String(preset ?? '')}
    />
  );
  const Box = isGroup ? 'fieldset' : 'div';
  return (
    <Box class={isGroup ? 'otx-field otx-choices' : 'otx-field'}>
      {isBox ? <><div class="otx-choice">{control}{label}</div>{help}</> : <>{label}{help}{control}</>}
      <ErrorLines id={`${id}-error`} messages={messages} />
    </Box>
  );
}

/** What the inputs of a field hold, as its type; `undefined` if it was left empty. */
function valueOf({ type }: Field, isRequired: boolean, inputs: HTMLInputElement[]): unknown {
  if (type === 'array') {
    const chosen = inputs.filter(box => box.checked).map(box => box.value);
    return chosen.length || isRequired ? chosen : undefined;
  }
  const [{ checked, value }] = inputs;
  if (type === 'boolean') return checked;
  const text = value.trim();
  if (text === '') return undefined;
  if (type === 'string') return value;
  const isExact = /^[-+]?\d+$/.test(text) ? Number.isSafeInteger(Number(text)) : /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(text);
  return isExact ? Number(text) : value; // the kernel says what is wrong with it
}

/** The values of a field with their titles. */
function choicesOf(field: Field): [string, string][] {
  const { oneOf, anyOf, enum: values = [], enumNames } = (field.type === 'array' ? field.items : null) ?? field;
  return (oneOf ?? anyOf)?.map(one => [one.const, one.title ?? one.const]) ?? values.map((value, at) => [value, enumNames?.[at] ?? value]);
}
