// A question to the user, in a cell or in the panel: calls to approve, a form, an address to visit, or a yes or no. What a
// server or a model says is shown as text. Nothing takes the focus, and nothing happens without a click or a key on a
// button.
import { fill, h, show, uniqueId } from './dom.js';
import { badgeChip, withoutArgumentName } from './format.js';
import { Requests } from './requests.js';
import { trustForm } from './trust.js';

const MAX_SHOWN = 200;
const MAX_DETAIL = 1000;
const MAX_WRITES = 20;

/** Returns `{element}`. `answer({action, content})` sends an answer and resolves with `{errors}`, for as long as `requests` are open. */
export function createQuestion(question, answer, requests = new Requests(null)) {
  const failure = h('div.otx-error', { role: 'alert', hidden: true });
  const title = h('strong.otx-question-title', { id: uniqueId('question') }, plain(titleOf(question)));
  const element = h('section.otx.otx-question', { role: 'group', 'aria-labelledby': title.id, 'data-lm-suppress-shortcuts': 'true' }, title);
  element.addEventListener('keydown', event => event.stopPropagation());

  async function send(action, content = {}) {
    setBusy(true);
    const reply = await requests.onceOf(() => answer({ action, content }));
    if (reply.status === 'late') return [];
    const errors = reply.status === 'ok' ? reply.value.errors : [];
    show(fill(failure, reply.status === 'ok' ? '' : reply.error.message), reply.status === 'failed');
    setBusy(reply.status === 'ok' && errors.length === 0);
    return errors;
  }

  function setBusy(isBusy) {
    for (const control of element.querySelectorAll('button, input, select')) control.disabled = isBusy;
  }

  if (question.trust) {
    const { element: trust } = trustForm(question.trust, { part: question.trust.part, onYes: () => send('accept'), onNo: () => send('decline') });
    fill(element, trust, failure).removeAttribute('aria-labelledby');
    element.setAttribute('aria-label', 'Trust');
    return { element };
  }
  const draw = question.program ? programWrites : question.calls.length ? approval : question.form ? form : question.yes ? consent : address;
  const text = question.yes || question.program || question.eachTime ? null : question.text; // a question of our own has it as its title
  fill(element, title, text ? h('p.otx-question-text', null, plain(text)) : null, draw(question, send), failure);
  return { element };
}

function titleOf({ asker, calls, url, yes, text, program, eachTime, places }) {
  if (yes || program) return visible(text);
  if (eachTime) return `${asker} ${visible(text)}`;
  if (calls.length && places?.length) return `${asker} wants to send your data to ${plain(listed(places))}`;
  if (calls.length) return `${asker} wants to make ${calls.length === 1 ? 'a call that may' : `${calls.length} calls that may`} change something`;
  return url ? `${asker} sends you to an address` : `${asker} asks you`;
}

function button(label, onclick, isMain = false) {
  return h(isMain ? 'button.otx-run' : 'button', { type: 'button', onclick }, label);
}

/**
 * Calls to approve. Each can be decided alone; the answer is sent once all are decided. The question may be drawn in a
 * cell and in the panel: both show each decision. No button is the main one, since each call may change something.
 */
function approval(question, send) {
  const { calls } = question;
  const { decided, drawings } = (question.shared ??= { decided: new Map(), drawings: new Set() });
  const isOne = calls.length === 1;
  const isSending = question.places?.length > 0; // data would leave, and nothing else is asked
  const [doIt, leave] = isSending ? ['Send', 'No'] : ['Run', 'Skip'];
  const all = calls.map((_, at) => at + 1);
  const tools = [...new Set(calls.map(({ tool }) => tool))];
  const skip = button('', () => finish(chosen(), false));
  const isDestructive = calls.some(({ badges }) => badges.includes('destructive'));
  const run = h(isDestructive ? 'button.otx-failed' : 'button', { type: 'button', onclick: () => finish(unskipped(), false) });
  const cards = calls.map((call, at) => card(call, isOne ? '' : `${at + 1}. `, isOne ? null : isRun => decide(at + 1, isRun)));

  function chosen() {
    return all.filter(number => decided.get(number));
  }

  /** What a button for all runs: a call that was skipped by itself stays skipped. */
  function unskipped() {
    return all.filter(number => decided.get(number) !== false);
  }

  function finish(run, always) {
    return run.length ? send('accept', { run, always }) : send('decline');
  }

  function decide(number, isRun) {
    decided.set(number, isRun);
    for (const redraw of drawings) redraw();
    if (decided.size === calls.length) finish(chosen(), false);
  }

  function redraw() {
    cards.forEach(({ showDecision }, at) => showDecision(decided.get(at + 1)));
    fill(skip, isOne || isSending ? leave : decided.size ? 'Skip the rest' : 'Skip all');
    fill(run, isOne ? doIt : decided.size ? `${doIt} the rest` : `${doIt} all`);
  }

  drawings.add(redraw);
  redraw();
  const list = h('ol.otx-question-calls', null, cards.map(({ element }) => element));
  if (question.eachTime) return [list, h('div.otx-question-buttons', null, run, skip), h('p.otx-muted.otx-tip', null, 'You are asked each time.')];
  const buttons = more => h('div.otx-question-buttons', null, run, more, skip);
  if (isSending) return [list, buttons(button(`Send to ${plain(listed(question.places))} for the rest of this ask`, () => finish(unskipped(), true)))];
  if (question.offersAlways === false) return [list, buttons(null)];
  const always = button(tools.length === 1 ? `Always run ${plain(tools[0])}` : `Always run these ${tools.length} tools`, () => finish(unskipped(), true));
  const scope = `Always: every later call of ${plain(listed(tools))} in this session, with any arguments, until the tool changes.`;
  return [list, buttons(always), h('p.otx-muted.otx-tip', null, scope)];
}

/** `a`, `a and b`, `a, b and c` */
function listed(names) {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/**
 * The writes of a program: its text, a table of the first ones, and what a yes is about. One button runs what is chosen,
 * and says how many that are. The question may be drawn in a cell and in the panel: both show each choice.
 */
function programWrites(question, send) {
  const { calls, program, details } = question;
  const shown = calls.slice(0, MAX_WRITES);
  // Writes that are not in the table are chosen together, by the last box.
  const { skipped, drawings } = (question.shared ??= { skipped: new Set(), drawings: new Set() });
  const all = calls.map((_, at) => at + 1);
  const boxOf = (numbers, label) => h('input', { type: 'checkbox', 'aria-label': label, onchange: event => choose(numbers, event.target.checked) });
  const boxes = shown.map(({ tool }, at) => boxOf([at + 1], `Run ${at + 1}. ${tool}`));
  const rest = all.slice(MAX_WRITES);
  const restBox = boxOf(rest, `Run ${MAX_WRITES + 1} to ${calls.length}`);
  const run = button('', () => finish(chosen()));

  function chosen() {
    return all.filter(number => !skipped.has(number));
  }

  function choose(numbers, isRun) {
    for (const number of numbers) skipped[isRun ? 'delete' : 'add'](number);
    for (const redraw of drawings) redraw();
  }

  function redraw() {
    boxes.forEach((box, at) => (box.checked = !skipped.has(at + 1)));
    restBox.checked = !skipped.has(MAX_WRITES + 1);
    fill(run, calls.length === 1 ? 'Run' : `Run ${chosen().length} of ${calls.length}`);
    run.disabled = chosen().length === 0;
  }

  const rows = shown.map(({ tool, badges, args }, at) => {
    const head = h('div', null, h('span.otx-name', null, plain(tool)), badges.map(badgeChip));
    const cells = args.length ? h('dl', null, args.map(each => h('div', null, argument(each)))) : h('div.otx-muted', null, 'no arguments');
    return h('tr', null, h('td', null, boxes[at]), h('td', null, String(at + 1)), h('td', null, h('div.otx-question-write', null, head, cells)));
  });
  if (rest.length) rows.push(h('tr', null, h('td', null, restBox), h('td', { colspan: '2' }, `${MAX_WRITES + 1} to ${calls.length}, which are not shown here`)));
  const finish = run => (run.length ? send('accept', { run, always: false }) : send('decline'));
  drawings.add(redraw);
  redraw();
  const lines = details.map((line, at) => shortened(h('li'), line, MAX_DETAIL, `line ${at + 1}`));
  return [
    h('pre.otx-question-program', { tabindex: '0', role: 'group', 'aria-label': 'Program' }, program.split(/\r\n|\r|\n/).map(codeLine)),
    h('div.otx-question-writes', { tabindex: '0', role: 'group', 'aria-label': 'Writes' }, h('table', null, h('tbody', null, rows))),
    h('ul.otx-question-details', null, lines),
    h('div.otx-question-buttons', null, run, button('No', () => send('decline'))),
  ];
}

/** A line of a program. Where it is too long for the page, its rest is further to the right than its beginning. */
function codeLine(line) {
  const text = line.replace(/^ +/, '');
  return h('div', { style: `padding-left: ${Math.min(line.length - text.length, 24) + 4}ch` }, visible(text), '\n');
}

function card({ tool, summary, badges, note, args }, number, onDecide) {
  const state = h('span.otx-chip', { role: 'status', hidden: true });
  const decide = onDecide ? h('span.otx-question-decide', null, state, small(`Run ${tool}`, 'Run', () => onDecide(true)), small(`Skip ${tool}`, 'Skip', () => onDecide(false))) : null;
  const head = h('div.otx-question-head', null, h('span.otx-name', null, plain(`${number}${tool}`)), badges.map(badgeChip), decide);
  const element = h('li', null, head, summary ? h('div.otx-muted', null, plain(summary)) : null, note ? h('div.otx-error', null, note) : null, args.length ? h('dl.otx-question-args', null, args.map(argument)) : h('div.otx-muted', null, 'no arguments'));
  const showDecision = isRun => show(fill(state, isRun ? 'will run' : 'will be skipped'), isRun !== undefined).classList.toggle('otx-ok', isRun === true);
  return { element, showDecision };
}

function small(label, text, onclick) {
  return h('button.otx-small', { type: 'button', 'aria-label': label, onclick }, text);
}

function argument({ name, text }) {
  return [h('dt', null, visible(name)), shortened(h('dd'), text, MAX_SHOWN, name)];
}

/** Fill `element` with foreign text. Long text is cut, says how much is missing, and is whole after a click. */
function shortened(element, text, limit, name) {
  const more = `${(text.length - limit).toLocaleString('en')} more characters`;
  const rest = text.length > limit ? ['… ', small(`${more} of ${name}`, more, () => fill(element, h('code', null, visible(text))))] : null;
  return fill(element, h('code', null, visible(text.slice(0, limit))), rest);
}

/** A yes or a no to what the details say. */
function consent({ details, yes, no }, send) {
  const lines = details.map((line, at) => shortened(h('li'), line, MAX_DETAIL, `line ${at + 1}`));
  return [lines.length ? h('ul.otx-question-details', null, lines) : null, h('div.otx-question-buttons', null, button(yes, () => send('accept'), true), button(no, () => send('decline')))];
}

/** Text in which characters that show nothing, or turn the direction of text, are escapes. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu, char => (char === '\n' || char === '\t' ? char : `\\u${char.codePointAt(0).toString(16).padStart(4, '0')}`));
}

/** Text without characters that turn the direction of text. */
function plain(text) {
  return String(text).replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, visible);
}

/** An address to visit, whole, with its host in bold. One that no browser opens has no link, and can still be declined. */
function address({ url }, send) {
  const [, before, host, after] = /^(https?:\/\/)([^/?#\\]+)(.*)$/is.exec(url) ?? [null, '', '', url];
  const isUsable = host !== '' && canOpen(url);
  const link = isUsable ? h('a.otx-run', { href: url, target: '_blank', rel: 'noopener noreferrer', onclick: () => send('accept') }, 'Open this address') : null;
  const note = isUsable ? null : h('p.otx-error', null, 'No browser opens this address.');
  return [h('code.otx-question-address', null, before, h('strong', null, visible(host)), visible(after)), note, h('div.otx-question-buttons', null, link, button('Decline', () => send('decline')), button('Cancel', () => send('cancel')))];
}

function canOpen(url) {
  try {
    return Boolean(new URL(url).host);
  } catch {
    return false;
  }
}

function form({ form: schema, yes, no }, send) {
  const fields = Object.entries(schema.properties).map(([name, field]) => new FormField(name, field, schema.required.includes(name)));
  const element = h('form.otx-form', { novalidate: true, autocomplete: 'off' }, fields.map(field => field.element));
  const submit = h('button.otx-run', { type: 'submit' }, yes || 'Send');
  const refusals = yes ? button(no, () => send('decline')) : [button('Decline', () => send('decline')), button('Cancel', () => send('cancel'))];
  fill(element, fields.map(field => field.element), h('div.otx-question-buttons', null, submit, refusals));
  element.addEventListener('submit', async event => {
    event.preventDefault();
    const content = Object.fromEntries(fields.map(field => [field.name, field.value()]).filter(([, value]) => value !== undefined));
    const errors = await send('accept', content);
    for (const field of fields) field.showErrors(errors);
    element.querySelector('[aria-invalid="true"]')?.focus();
  });
  return element;
}

const INPUT_TYPES = { email: 'email', uri: 'url', date: 'date', password: 'password' };

/** One field of a flat form: text, a number, yes or no, one of some choices, or any of them. */
class FormField {
  constructor(name, field, isRequired) {
    Object.assign(this, { name, field, isRequired, choices: choicesOf(field) });
    const id = uniqueId('field');
    this.error = h('div.otx-error', { role: 'alert', id: uniqueId('error'), hidden: true });
    const help = field.description ? h('div.otx-help', { id: uniqueId('help') }, plain(field.description)) : null;
    this.control = this.createControl({ id, 'aria-describedby': [help?.id, this.error.id].filter(Boolean).join(' '), 'aria-required': String(isRequired) });
    const isGroup = field.type === 'array';
    const isBox = field.type === 'boolean';
    const star = isRequired ? h('span.otx-required', { 'aria-hidden': 'true' }, '*') : null;
    const label = h(isGroup ? 'legend.otx-label' : 'label.otx-label', isGroup ? null : { for: id }, h('span.otx-name', null, plain(field.title || name)), star, isRequired || isBox ? null : h('span.otx-type', null, 'optional'));
    const parts = isBox ? [h('div.otx-choice', null, this.control, label), help] : [label, help, this.control];
    this.element = h(isGroup ? 'fieldset.otx-field.otx-choices' : 'div.otx-field', null, parts, this.error);
  }

  createControl(common) {
    const { type, default: preset, format } = this.field;
    if (type === 'array') {
      const chosen = new Set(Array.isArray(preset) ? preset : []);
      this.boxes = this.choices.map(([value]) => h('input', { type: 'checkbox', checked: chosen.has(value), value }));
      return h('div', common, this.choices.map(([, label], at) => h('label.otx-choice', null, this.boxes[at], plain(label))));
    }
    if (type === 'boolean') return h('input', { ...common, type: 'checkbox', checked: preset === true });
    if (this.choices.length) {
      const select = h('select.otx-input', common, h('option', { value: '' }, 'choose …'), this.choices.map(([value, label]) => h('option', { value }, plain(label))));
      select.value = preset ?? '';
      return select;
    }
    const kind = type === 'string' ? (INPUT_TYPES[format] ?? 'text') : 'text';
    const hint = format === 'date-time' ? '2026-01-31T12:00:00Z' : null;
    return h('input.otx-input', { ...common, type: kind, inputmode: type === 'string' ? null : 'decimal', placeholder: hint, spellcheck: 'false', autocomplete: kind === 'password' ? 'new-password' : null, value: preset ?? '' });
  }

  /** The value as its type; `undefined` if the field was left empty. */
  value() {
    if (this.boxes) {
      const found = this.boxes.filter(box => box.checked).map(box => box.value);
      return found.length || this.isRequired ? found : undefined;
    }
    if (this.field.type === 'boolean') return this.control.checked;
    const text = this.control.value;
    if (text.trim() === '') return undefined;
    if (this.field.type === 'string') return text;
    const number = text.trim();
    const isExact = /^[-+]?\d+$/.test(number) ? Number.isSafeInteger(Number(number)) : /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(number);
    return isExact ? Number(text) : text; // the kernel says what is wrong with it
  }

  showErrors(errors) {
    const pointer = `/${this.name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const own = errors.filter(error => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`)).map(error => withoutArgumentName(error.message));
    const isMissing = this.isRequired && this.value() === undefined && errors.length > 0;
    const messages = isMissing ? ['This field is required.'] : own;
    show(fill(this.error, messages.map(message => h('div', null, message))), messages.length > 0);
    this.control.setAttribute('aria-invalid', String(messages.length > 0));
  }
}

/** The values of a field with their titles. */
function choicesOf(field) {
  const node = field.type === 'array' ? field.items : field;
  const listed = node.oneOf ?? node.anyOf;
  if (listed) return listed.map(one => [one.const, one.title ?? one.const]);
  return (node.enum ?? []).map((value, at) => [value, node.enumNames?.[at] ?? value]);
}
