// The page of one tool: its documentation, its arguments (as a form, as JSON, as code), Run with progress and Cancel, and
// the result. Arguments typed for a tool, and its latest call, are still there when the user comes back to it.
import { addTabKeys, copyText, debounce, fill, h, retryButton, selectTab, show } from './dom.js';
import { progressText } from './calls.js';
import { createForm } from './form.js';
import { badgeChip, counted, drawIcon, duration, number, sourceText, withoutArgumentName } from './format.js';
import { isObject } from './schema.js';
import { createViewer } from './viewer.js';

const TABS = [['form', 'Form'], ['json', 'JSON'], ['code', 'Code']];
const SHOW_PROGRESS_MS = 300;

export class ToolPage {
  constructor(transport, requests, calls, { onFavourite, onInsert = null }) {
    Object.assign(this, { requests, calls, onFavourite, onInsert, tool: null, args: {}, call: null, drafts: new Map() });
    // A tool and a stored result take each other's place.
    this.opening = requests.latestOf(([kind, payload], ask) => ask(kind, payload));
    this.viewer = createViewer(transport);
    this.element = h('div.otx-tool-page', { role: 'region', 'aria-label': 'Tool' });
    this.checkSoon = debounce(150, () => this.check());
  }

  /** Show a tool; with `args` its form is filled in. Returns false if the tool is gone, or the user has opened another since. */
  async open(name, args = null) {
    const reply = await this.opening.send(['tool', { name }]);
    if (reply.status === 'failed') this.showFailure(reply.error.message, () => this.open(name, args));
    if (reply.status !== 'ok') return false;
    const tool = reply.value;
    if (this.isDrawn(tool) && args === null) return true;
    this.tool = tool;
    this.isJsonValid = true;
    this.isSubmitted = false;
    this.args = args ?? this.drafts.get(name) ?? {};
    this.draw();
    this.form.set(this.args);
    this.showCall(args === null ? this.calls.latest(name) : null);
    this.check();
    return true;
  }

  /** Show a message in place of a tool. There is no tool to run then, and a call of the tool before has a line again. */
  showFailure(message, retry) {
    this.checkSoon.cancel();
    this.tool = this.call = null;
    this.calls.setShown(null);
    fill(this.element, h('div.otx-failure', { role: 'alert' }, message), retryButton(retry));
  }

  /** Whether the page already shows this tool as it is now: then it is not redrawn while the user types. */
  isDrawn(tool) {
    const { name, signature, description, parameters, disabled } = tool;
    const drawn = JSON.stringify([name, signature, description, parameters, disabled]);
    const isSame = drawn === this.drawn && this.tool !== null;
    this.drawn = drawn;
    return isSame;
  }

  /** Show the progress or the result of a call, or of none. */
  showCall(call) {
    this.call = call;
    this.calls.setShown(call);
    show(this.resultBox, false);
    this.updateCall(call);
  }

  /** A call has made progress or finished. */
  updateCall(call) {
    if (call !== this.call || !this.tool) return;
    const isRunning = call !== null && !call.result;
    if (!isRunning && document.activeElement === this.cancelButton) this.runButton.focus();
    show(this.cancelButton, isRunning);
    this.drawProgress(isRunning ? call : null);
    this.updateRunButton();
    if (call?.result) {
      show(this.resultBox, true);
      this.viewer.show(call.result);
      this.scrollToResult();
      this.updateUsage();
    }
  }

  async updateUsage() {
    const { tool, usage } = this;
    const reply = await this.requests.latest('tool', 'usage').send({ name: tool.name });
    // Without a reply the numbers stay as they were: the next call asks again.
    if (reply.status === 'ok' && tool === this.tool) fill(usage, usageText(reply.value.usage));
  }

  /** Scroll this page, never the notebook, so that the result is visible below the Run button. */
  scrollToResult() {
    const page = this.element.parentElement;
    if (!page || this.resultBox.getBoundingClientRect().top < page.getBoundingClientRect().bottom - 160) return;
    page.scrollTop += this.actions.getBoundingClientRect().bottom - page.getBoundingClientRect().top - 60;
  }

  /** While a call runs, Run does not start the same call again; a call with other arguments may run beside it. */
  updateRunButton() {
    const isRunning = this.call !== null && !this.call.result;
    this.isRepeat = isRunning && JSON.stringify(this.call.args) === JSON.stringify(this.args);
    this.runButton.setAttribute('aria-disabled', String(this.isRepeat)); // `disabled` would lose the focus
  }

  drawProgress(call) {
    if (!call || Date.now() - call.startedAt < SHOW_PROGRESS_MS) {
      fill(this.progress);
      return;
    }
    const { done, total } = call.progress ?? {};
    let bar = this.progress.querySelector('progress');
    if (!bar) fill(this.progress, (bar = h('progress', { 'aria-label': 'Progress' })), h('span'));
    if (total) {
      bar.max = total;
      bar.value = done;
    } else bar.removeAttribute('value');
    fill(this.progress.querySelector('span'), progressText(call));
  }

  draw() {
    const { tool } = this;
    this.form = createForm(tool.parameters, {
      onChange: args => this.onFormChange(args),
      onSubmit: () => this.run(),
      variables: () => this.variables()
    });
    this.json = h('textarea.otx-input.otx-json', { rows: 10, spellcheck: 'false', 'aria-label': 'Arguments as JSON', oninput: () => this.onJsonInput() });
    this.jsonError = h('div.otx-error', { role: 'alert', hidden: true });
    this.code = h('div.otx-code');
    this.panes = { form: this.form.element, json: h('div', null, this.json, this.jsonError), code: this.code };
    this.tabs = addTabKeys(h(
      'div.otx-tabs',
      { role: 'tablist', 'aria-label': 'Argument formats' },
      TABS.map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => this.selectPane(kind) }, title))
    ));
    this.runButton = h('button.otx-run', { type: 'button', title: 'Ctrl-Enter', onclick: () => this.run() }, 'Run');
    this.cancelButton = h('button.otx-small', { type: 'button', hidden: true, onclick: () => this.calls.cancel(this.call) }, 'Cancel');
    const insertButton = (title, isRun, text) => h('button.otx-small', { type: 'button', title, onclick: () => this.insert(isRun) }, text);
    const insertButtons = this.onInsert
      ? [insertButton('Insert the call into the notebook', false, 'Insert'), insertButton('Insert the call into the notebook and run it', true, 'Insert and run')]
      : null;
    this.progress = h('div.otx-progress', { role: 'status', 'aria-live': 'polite' });
    this.resultBox = show(h('div.otx-result', null, this.viewer.element), false);
    this.actions = h('div.otx-actions', null, this.runButton, this.cancelButton, insertButtons, this.progress);
    fill(this.element, this.title(), this.documentation(), this.tabs, Object.values(this.panes), this.actions, this.resultBox);
    this.selectPane('form');
    for (const button of [this.runButton, insertButtons?.[1]]) if (button) show(button, !tool.disabled);
  }

  /** The variables to suggest; null if the kernel does not tell, undefined if the answer is late. */
  async variables() {
    const reply = await this.requests.latest('variables').again();
    return reply.status === 'late' ? undefined : reply.status === 'ok' ? reply.value.items : null;
  }

  /** Show whether the tool is a favourite. */
  drawStar(isFavourite) {
    this.tool.isFavourite = isFavourite;
    this.star.setAttribute('aria-pressed', String(isFavourite));
    this.star.classList.toggle('otx-on', isFavourite);
    fill(this.star, isFavourite ? '★' : '☆');
  }

  title() {
    const { tool } = this;
    this.star = h('button.otx-star', {
      type: 'button', title: 'Favourite', 'aria-label': `${tool.name}: favourite`,
      onclick: () => {
        this.drawStar(!tool.isFavourite);
        this.onFavourite(tool.name, tool.isFavourite);
      }
    });
    this.drawStar(tool.isFavourite);
    const chip = text => h('span.otx-chip', null, text);
    return h('div.otx-title', null, drawIcon(tool.icon), h('h3', { title: tool.title || null }, tool.name), this.star, chip(sourceText(tool.source)), tool.badges.map(badgeChip), tool.tags.map(chip));
  }

  documentation() {
    const { tool } = this;
    this.usage = h('p.otx-muted', null, usageText(tool.usage));
    const more = [
      tool.returns ? h('p', null, h('strong', null, 'Returns '), tool.returns) : null,
      tool.example ? h('pre', null, tool.example) : null,
      tool.where ? h('p.otx-muted', null, tool.where) : null
    ].filter(Boolean);
    return h(
      'div.otx-tool-docs',
      null,
      h('code.otx-signature', null, tool.signature),
      tool.disabled ? h('div.otx-failure', { role: 'alert' }, `Switched off: ${tool.disabled}`) : null,
      h('p', null, tool.description),
      more.length ? h('details', null, h('summary', null, 'More'), more) : null,
      this.usage
    );
  }

  selectPane(kind) {
    for (const [name, pane] of Object.entries(this.panes)) show(pane, name === kind);
    selectTab(this.tabs, tab => tab.dataset.kind === kind);
    if (kind === 'json' && this.isJsonValid) this.json.value = JSON.stringify(this.args, null, 2);
  }

  onFormChange(args) {
    this.setArgs(args);
    show(this.jsonError, false);
    this.checkSoon();
  }

  setArgs(args) {
    this.args = args;
    this.isJsonValid = true;
    this.drafts.set(this.tool.name, args);
    this.updateRunButton();
  }

  onJsonInput() {
    try {
      const args = JSON.parse(this.json.value || '{}');
      if (!isObject(args)) throw new Error('The arguments must be an object: {"name": value}.');
      this.setArgs(args);
      this.form.set(args);
      show(this.jsonError, false);
      this.checkSoon();
    } catch (error) {
      this.isJsonValid = false;
      show(fill(this.jsonError, error.message), true);
    }
  }

  /** Show each error at its field, and all of them below the JSON. */
  showErrors(errors) {
    this.form.showErrors(errors);
    const lines = errors.map(({ pointer, message }) => h('div', null, pointer ? `${pointer}: ${withoutArgumentName(message)}` : message));
    if (this.isJsonValid) show(fill(this.jsonError, lines), lines.length > 0);
  }

  /** Ask the kernel for errors and for the call as code. Missing arguments are not reported before the first Run. */
  async check() {
    const { tool, args } = this;
    this.showCheck(await this.requests.latest('check').send({ name: tool.name, args }), tool);
  }

  showCheck(reply, tool) {
    if (reply.status === 'late' || tool !== this.tool) return;
    if (reply.status === 'failed') {
      this.showErrors([{ pointer: '', message: reply.error.message }]);
      return;
    }
    this.showErrors(reply.value.errors.filter(error => this.isSubmitted || error.keyword !== 'required'));
    this.drawCode(reply.value.code);
  }

  /** Check the arguments that are run or inserted now, whatever is typed meanwhile; null without an answer. */
  async checkToUse() {
    this.checkSoon.cancel();
    const { tool, args } = this;
    const reply = await this.requests.once('check', { name: tool.name, args });
    if (args === this.args) this.showCheck(reply, tool);
    return reply.status === 'ok' && tool === this.tool ? reply.value : null;
  }

  drawCode(code) {
    const kinds = [['tool', '%tool'], ['python', 'Python'], ['curl', 'curl']].filter(([kind]) => code[kind]);
    fill(this.code, kinds.map(([kind, title]) => {
      const status = h('span.otx-muted', { role: 'status' });
      const copy = async () => fill(status, (await copyText(code[kind])) ? 'copied' : 'not copied: select the text and copy it');
      const button = h('button.otx-small', { type: 'button', 'aria-label': `Copy as ${title}`, onclick: copy }, 'Copy');
      return h('div.otx-snippet', { data: { kind } }, h('div.otx-bar', null, h('strong', null, title), button, status), h('pre', { tabindex: '0' }, code[kind]));
    }));
  }

  async run() {
    if (!this.tool || this.tool.disabled || this.isRepeat) return;
    if (!this.isJsonValid) {
      this.selectPane('json');
      return;
    }
    this.isSubmitted = true;
    const { tool, args } = this;
    const answer = await this.checkToUse();
    if (!answer || this.isRepeat) return;
    if (answer.errors.length) {
      if (!this.panes.code.hidden) this.selectPane('form');
      if (this.panes.json.hidden) this.form.focusError();
      else this.json.focus();
      return;
    }
    this.showCall(this.calls.start(tool.name, args));
  }

  /** Insert the call into the notebook; with `isRun` it is inserted only if its arguments are valid, and run. */
  async insert(isRun) {
    this.isSubmitted = this.isSubmitted || isRun;
    const answer = await this.checkToUse();
    if (!answer) return;
    if (isRun && answer.errors.length) this.form.focusError();
    else this.onInsert(answer.code, isRun);
  }

  /** Show a stored result, unless the user opens a tool or another result before it is there. Returns what became of it. */
  async openResult(handle) {
    const reply = await this.opening.send(['open', { handle }]);
    if (reply.status !== 'ok') return reply;
    if (this.tool) this.showCall(null);
    if (this.tool) show(this.resultBox, true);
    else fill(this.element, this.viewer.element);
    this.viewer.show(reply.value);
    if (this.tool) this.scrollToResult();
    return reply;
  }

  close() {
    this.checkSoon.cancel();
    this.viewer.close();
  }
}

function usageText(usage) {
  if (!usage?.calls) return 'not called yet';
  return `${counted(usage.calls, 'call')}, ${number(usage.failures)} failed, ${duration(usage.avgMs ?? 0)} on average`;
}
