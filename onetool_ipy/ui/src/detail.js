// One tool: its words, its form (or JSON, or code), Run with progress and Cancel, and the result. What was typed for a
// tool, and its last call, are still there when one comes back to it.
import { currentTab, debounced, fill, h, show, tabKeys } from './dom.js';
import { createForm } from './form.js';
import { progressWords } from './runs.js';
import { isObject } from './schema.js';
import { atField } from './typed.js';
import { copied, createViewer, duration, number } from './viewer.js';

const TABS = [['form', 'Form'], ['json', 'JSON'], ['code', 'Code']];

export class Detail {
  constructor(transport, runs, { onStar, onInsert = null }) {
    Object.assign(this, { transport, runs, onStar, onInsert, tool: null, args: {}, run: null, typedFor: new Map(), turn: 0 });
    this.viewer = createViewer(transport.request);
    this.element = h('div.otx-detail', { role: 'region', 'aria-label': 'Tool' });
    this.check = debounced(150, () => this.checkNow());
  }

  /** Show a tool, with arguments to begin with. */
  async open(name, args = null) {
    const turn = (this.turn += 1);
    let tool;
    try {
      tool = await this.transport.request('tool', { name });
    } catch (error) {
      if (turn === this.turn) fill(this.element, h('div.otx-failure', { role: 'alert' }, error.message));
      return;
    }
    if (turn !== this.turn || (this.isDrawn(tool) && args === null)) return;
    this.tool = tool;
    this.isReadable = true;
    this.isAsked = false;
    this.args = args ?? this.typedFor.get(name) ?? {};
    this.draw();
    this.form.set(this.args);
    this.look(args === null ? this.runs.latest(name) : null);
    this.checkNow();
  }

  /** Whether this tool, as it is now, is what one sees: then nothing is drawn anew under someone's hands. */
  isDrawn(tool) {
    const { name, signature, description, parameters, disabled } = tool;
    const drawn = JSON.stringify([name, signature, description, parameters, disabled]);
    const isSame = drawn === this.drawn && this.form.element.isConnected;
    this.drawn = drawn;
    return isSame;
  }

  /** Show how a call stands; null shows none. */
  look(run) {
    this.run = run;
    this.runs.look(run);
    show(this.resultBox, false);
    this.told(run);
  }

  /** A call has got on or ended. */
  told(run) {
    if (run !== this.run || !this.tool) return;
    const isBusy = run !== null && !run.result;
    if (!isBusy && document.activeElement === this.cancelButton) this.runButton.focus();
    show(this.cancelButton, isBusy);
    this.drawProgress(isBusy ? run : null);
    this.allow();
    if (run?.result) {
      show(this.resultBox, true);
      this.viewer.show(run.result);
      this.bringIntoSight();
      this.countAgain();
    }
  }

  async countAgain() {
    const { tool, usage } = this;
    const { usage: now } = await this.transport.request('tool', { name: tool.name }).catch(() => tool);
    fill(usage, usageWords(now));
  }

  /** Scroll this tool's own page, never the notebook, so that a result can be seen beside its Run. */
  bringIntoSight() {
    const page = this.element.parentElement;
    if (!page || this.resultBox.getBoundingClientRect().top < page.getBoundingClientRect().bottom - 160) return;
    page.scrollTop += this.actions.getBoundingClientRect().bottom - page.getBoundingClientRect().top - 60;
  }

  /** A second press of Run does nothing while the same call runs; another call may run beside it. */
  allow() {
    const isBusy = this.run !== null && !this.run.result;
    this.isHeld = isBusy && JSON.stringify(this.run.args) === JSON.stringify(this.args);
    this.runButton.setAttribute('aria-disabled', String(this.isHeld)); // `disabled` would lose the focus
  }

  drawProgress(run) {
    if (!run || Date.now() - run.began < 300) {
      fill(this.progress);
      return;
    }
    const { done, total } = run.told ?? {};
    let bar = this.progress.querySelector('progress');
    if (!bar) fill(this.progress, (bar = h('progress', { 'aria-label': 'Progress' })), h('span'));
    if (total) {
      bar.max = total;
      bar.value = done;
    } else bar.removeAttribute('value');
    fill(this.progress.querySelector('span'), progressWords(run));
  }

  draw() {
    const { tool } = this;
    this.form = createForm(tool.parameters, { onChange: args => this.changed(args), onSubmit: () => this.start(), variables: async () => (await this.transport.request('variables')).items });
    this.json = h('textarea.otx-input.otx-json', { rows: 10, spellcheck: 'false', 'aria-label': 'Arguments as JSON', oninput: () => this.typed() });
    this.jsonSaid = h('div.otx-error', { role: 'alert', hidden: true });
    this.code = h('div.otx-code');
    this.panes = { form: this.form.element, json: h('div', null, this.json, this.jsonSaid), code: this.code };
    this.tabs = tabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': 'Ways to give the arguments' }, TABS.map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => this.tab(kind) }, title))));
    this.runButton = h('button.otx-run', { type: 'button', title: 'Ctrl-Enter', onclick: () => this.start() }, 'Run');
    this.cancelButton = h('button.otx-small', { type: 'button', hidden: true, onclick: () => this.cancel() }, 'Cancel');
    this.insertButton = this.onInsert ? h('button.otx-small', { type: 'button', title: 'Put the call into the notebook', onclick: () => this.insert(false) }, 'Insert') : null;
    this.cellButton = this.onInsert ? h('button.otx-small', { type: 'button', title: 'Put the call into the notebook, and run it there', onclick: () => this.insert(true) }, 'Insert and run') : null;
    this.progress = h('div.otx-progress', { role: 'status', 'aria-live': 'polite' });
    this.resultBox = show(h('div.otx-result', null, this.viewer.element), false);
    this.actions = h('div.otx-actions', null, this.runButton, this.cancelButton, this.insertButton, this.cellButton, this.progress);
    fill(this.element, this.title(), this.words(), this.tabs, Object.values(this.panes), this.actions, this.resultBox);
    this.tab('form');
    for (const button of [this.runButton, this.cellButton]) if (button) show(button, !tool.disabled);
  }

  title() {
    const { tool } = this;
    const star = h(tool.isFavourite ? 'button.otx-star.otx-on' : 'button.otx-star', {
      type: 'button', title: 'Favourite', 'aria-label': `${tool.name}: favourite`, 'aria-pressed': String(tool.isFavourite),
      onclick: async () => {
        tool.isFavourite = !tool.isFavourite;
        star.setAttribute('aria-pressed', String(tool.isFavourite));
        star.classList.toggle('otx-on', tool.isFavourite);
        fill(star, tool.isFavourite ? '★' : '☆');
        await this.onStar(tool.name, tool.isFavourite);
      }
    }, tool.isFavourite ? '★' : '☆');
    const chips = [tool.source, tool.readOnly ? 'read-only' : null, ...tool.tags].filter(Boolean);
    return h('div.otx-title', null, h('h3', null, tool.name), star, chips.map(chip => h('span.otx-chip', null, chip)));
  }

  words() {
    const { tool } = this;
    this.usage = h('p.otx-quiet', null, usageWords(tool.usage));
    return h(
      'div.otx-words',
      null,
      h('code.otx-signature', null, tool.signature),
      tool.disabled ? h('div.otx-failure', { role: 'alert' }, `Switched off: ${tool.disabled}`) : null,
      h('p', null, tool.description),
      tool.returns || tool.example || tool.where
        ? h('details', null, h('summary', null, 'More'), tool.returns ? h('p', null, h('strong', null, 'Returns '), tool.returns) : null, tool.example ? h('pre', null, tool.example) : null, tool.where ? h('p.otx-quiet', null, tool.where) : null)
        : null,
      this.usage
    );
  }

  tab(kind) {
    for (const [name, pane] of Object.entries(this.panes)) show(pane, name === kind);
    currentTab(this.tabs, tab => tab.dataset.kind === kind);
    if (kind === 'json' && this.isReadable !== false) this.json.value = JSON.stringify(this.args, null, 2);
  }

  changed(args) {
    this.keep(args);
    this.isReadable = true;
    show(this.jsonSaid, false);
    this.check();
  }

  keep(args) {
    this.args = args;
    this.typedFor.set(this.tool.name, args);
    this.allow();
  }

  typed() {
    try {
      const args = JSON.parse(this.json.value || '{}');
      if (!isObject(args)) throw new Error('The arguments are an object: {"name": value}.');
      this.keep(args);
      this.isReadable = true;
      this.form.set(args);
      show(this.jsonSaid, false);
      this.check();
    } catch (error) {
      this.isReadable = false;
      show(fill(this.jsonSaid, error.message), true);
    }
  }

  /** Show what is wrong at its field, and below the JSON. */
  point(errors) {
    this.form.showErrors(errors);
    const said = errors.map(({ pointer, message }) => h('div', null, pointer ? `${pointer}: ${atField(message)}` : message));
    if (this.isReadable !== false) show(fill(this.jsonSaid, said), said.length > 0);
  }

  /** Ask Python what is wrong, and how the call reads as code. What is missing is not called wrong before Run. */
  async checkNow() {
    const turn = (this.checking = (this.checking ?? 0) + 1);
    const { tool, args } = this;
    try {
      const answer = await this.transport.request('check', { name: tool.name, args });
      if (turn !== this.checking || tool !== this.tool) return answer;
      this.point(answer.errors.filter(error => this.isAsked || error.keyword !== 'required'));
      this.drawCode(answer.code);
      return answer;
    } catch (error) {
      if (turn === this.checking) this.point([{ pointer: '', message: error.message }]);
      return null;
    }
  }

  drawCode(code) {
    const kinds = [['tool', '%tool'], ['python', 'Python'], ['curl', 'curl']].filter(([kind]) => code[kind]);
    fill(this.code, kinds.map(([kind, title]) => {
      const said = h('span.otx-quiet', { role: 'status' });
      const copy = h('button.otx-small', { type: 'button', 'aria-label': `Copy as ${title}`, onclick: async () => {
        fill(said, (await copied(code[kind])) ? 'copied' : 'select it and copy');
      } }, 'Copy');
      return h('div.otx-snippet', { data: { kind } }, h('div.otx-bar', null, h('strong', null, title), copy, said), h('pre', { tabindex: '0' }, code[kind]));
    }));
    this.lastCode = code;
  }

  async start() {
    if (!this.tool || this.tool.disabled || this.isHeld) return;
    if (this.isReadable === false) {
      this.tab('json');
      return;
    }
    this.check.stop();
    this.isAsked = true;
    const { tool, args } = this;
    const answer = await this.checkNow();
    if (!answer || tool !== this.tool || this.isHeld) return;
    if (answer.errors.length) {
      if (this.panes.code.hidden === false) this.tab('form');
      if (this.panes.json.hidden) this.form.focusError();
      else this.json.focus();
      return;
    }
    this.look(this.runs.start(tool.name, args));
  }

  cancel() {
    if (this.run) this.runs.cancel(this.run);
  }

  /** Put the call into the notebook; one that cannot be right is not run there. */
  async insert(isRun) {
    this.isAsked = this.isAsked || isRun;
    const answer = await this.checkNow();
    if (!answer) return;
    if (isRun && answer.errors.length) this.form.focusError();
    else this.onInsert(answer.code, isRun);
  }

  /** Show a stored result here. */
  showResult(result) {
    const isBelow = this.tool && this.resultBox.isConnected;
    if (isBelow) this.look(null);
    if (isBelow) show(this.resultBox, true);
    else fill(this.element, this.viewer.element);
    this.viewer.show(result);
    if (isBelow) this.bringIntoSight();
  }

  close() {
    this.check.stop();
    this.viewer.close();
  }
}

function usageWords(usage) {
  if (!usage?.calls) return 'not called yet';
  return `${number(usage.calls)} ${usage.calls === 1 ? 'call' : 'calls'}, ${number(usage.failures)} failed, ${duration(usage.avgMs ?? 0)} on average`;
}
