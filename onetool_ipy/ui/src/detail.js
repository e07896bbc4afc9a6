// One tool: its words, its form (or JSON, or code), Run with progress and Cancel, and the result.
import { debounced, fill, h, show } from './dom.js';
import { createForm } from './form.js';
import { isObject } from './schema.js';
import { copied, createViewer, duration, number } from './viewer.js';

const TABS = [['form', 'Form'], ['json', 'JSON'], ['code', 'Code']];

export class Detail {
  constructor(transport, { onStar, onInsert = null, onRan = () => {} }) {
    Object.assign(this, { transport, onStar, onInsert, onRan, tool: null, args: {}, job: null, turn: 0 });
    this.viewer = createViewer(transport.request);
    this.element = h('div.otx-detail', { role: 'region', 'aria-label': 'Tool' });
    this.stopHearing = transport.on('job', event => this.heard(event));
    this.check = debounced(150, () => this.checkNow());
  }

  /** Show a tool, with arguments to begin with. */
  async open(name, args = null) {
    const turn = (this.turn += 1);
    const isSame = this.tool?.name === name;
    let tool;
    try {
      tool = await this.transport.request('tool', { name });
    } catch (error) {
      if (turn === this.turn) fill(this.element, h('div.otx-failure', { role: 'alert' }, error.message));
      return;
    }
    if (turn !== this.turn) return;
    if (!isSame) this.job = null;
    this.tool = tool;
    this.args = args ?? (isSame ? this.args : {});
    this.draw();
    this.form.set(this.args);
    this.checkNow(true);
  }

  draw() {
    const { tool } = this;
    this.form = createForm(tool.parameters, { onChange: args => this.changed(args), onSubmit: () => this.run() });
    this.json = h('textarea.otx-input.otx-json', { rows: 10, spellcheck: 'false', 'aria-label': 'Arguments as JSON', oninput: () => this.typed() });
    this.jsonSaid = h('div.otx-error', { role: 'alert', hidden: true });
    this.code = h('div.otx-code');
    this.panes = { form: this.form.element, json: h('div', null, this.json, this.jsonSaid), code: this.code };
    this.tabs = h('div.otx-tabs', { role: 'tablist' }, TABS.map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', data: { kind }, onclick: () => this.tab(kind) }, title)));
    this.runButton = h('button.otx-run', { type: 'button', title: 'Ctrl-Enter', onclick: () => this.run() }, 'Run');
    this.cancelButton = h('button.otx-small', { type: 'button', hidden: true, onclick: () => this.cancel() }, 'Cancel');
    this.insertButton = this.onInsert ? h('button.otx-small', { type: 'button', title: 'Put the call into the notebook', onclick: () => this.insert() }, 'Insert') : null;
    this.progress = h('div.otx-progress', { role: 'status', 'aria-live': 'polite' });
    this.resultBox = show(h('div.otx-result', null, this.viewer.element), false);
    fill(this.element, this.title(), this.words(), this.tabs, Object.values(this.panes), h('div.otx-actions', null, this.runButton, this.cancelButton, this.insertButton, this.progress), this.resultBox);
    this.tab('form');
    show(this.runButton, !tool.disabled);
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
    const usage = tool.usage?.calls ? `${number(tool.usage.calls)} calls, ${number(tool.usage.failures)} failed, ${duration(tool.usage.avgMs ?? 0)} on average` : 'not called yet';
    return h(
      'div.otx-words',
      null,
      h('code.otx-signature', null, tool.signature),
      tool.disabled ? h('div.otx-failure', { role: 'alert' }, `Switched off: ${tool.disabled}`) : null,
      h('p', null, tool.description),
      tool.returns || tool.example || tool.where
        ? h('details', null, h('summary', null, 'More'), tool.returns ? h('p', null, h('strong', null, 'Returns '), tool.returns) : null, tool.example ? h('pre', null, tool.example) : null, tool.where ? h('p.otx-quiet', null, tool.where) : null)
        : null,
      h('p.otx-quiet', null, usage)
    );
  }

  tab(kind) {
    for (const [name, pane] of Object.entries(this.panes)) show(pane, name === kind);
    for (const tab of this.tabs.children) tab.setAttribute('aria-selected', String(tab.dataset.kind === kind));
    if (kind === 'json' && this.isReadable !== false) this.json.value = JSON.stringify(this.args, null, 2);
  }

  changed(args) {
    this.args = args;
    this.isReadable = true;
    show(this.jsonSaid, false);
    this.check();
  }

  typed() {
    try {
      const args = JSON.parse(this.json.value || '{}');
      if (!isObject(args)) throw new Error('The arguments are an object: {"name": value}.');
      this.args = args;
      this.isReadable = true;
      this.form.set(args);
      show(this.jsonSaid, false);
      this.check();
    } catch (error) {
      this.isReadable = false;
      show(fill(this.jsonSaid, error.message), true);
    }
  }

  /** Ask Python what is wrong, and how the call reads as code. On opening, missing arguments are not yet called wrong. */
  async checkNow(isFirst = false) {
    const turn = (this.checking = (this.checking ?? 0) + 1);
    const { tool, args } = this;
    try {
      const answer = await this.transport.request('check', { name: tool.name, args });
      if (turn !== this.checking || tool !== this.tool) return answer;
      const isTouched = !isFirst || Object.keys(args).length > 0;
      this.form.showErrors(isTouched ? answer.errors.filter(error => !isFirst || error.keyword !== 'required') : []);
      this.drawCode(answer.code);
      return answer;
    } catch (error) {
      if (turn === this.checking) this.form.showErrors([{ pointer: '', message: error.message }]);
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

  async run() {
    if (!this.tool || this.tool.disabled || this.job) return;
    if (this.isReadable === false) {
      this.tab('json');
      return;
    }
    this.check.stop();
    const { tool, args } = this;
    const answer = await this.checkNow();
    if (!answer || answer.errors.length || this.job || tool !== this.tool) {
      this.element.querySelector('[aria-invalid="true"]')?.focus();
      return;
    }
    this.began = Date.now();
    this.job = { id: null };
    this.busy(true);
    try {
      const { job } = await this.transport.request('run', { name: tool.name, args });
      if (tool !== this.tool) return;
      this.job = { id: job };
      for (const event of this.early ?? []) if (event.job === job) this.heard(event);
    } catch (error) {
      if (tool === this.tool) this.finished({ ok: false, error: { code: 'execution_error', message: error.message } });
    } finally {
      this.early = [];
    }
  }

  busy(isBusy) {
    this.runButton.disabled = isBusy;
    show(this.cancelButton, isBusy);
    clearInterval(this.ticking);
    fill(this.progress);
    if (isBusy) {
      this.told = null;
      this.ticking = setInterval(() => this.tick(), 100);
    }
  }

  tick() {
    const elapsed = Date.now() - this.began;
    if (elapsed < 300) return;
    const { done, total, text } = this.told ?? {};
    const bar = total ? h('progress', { max: total, value: done, 'aria-label': 'Progress' }) : h('progress', { 'aria-label': 'Running' });
    if (total) bar.value = done;
    fill(this.progress, bar, h('span', null, [total ? `${number(done)} of ${number(total)}` : null, text, duration(elapsed)].filter(Boolean).join(' · ')));
  }

  heard(event) {
    if (!this.job) return;
    if (this.job.id === null) {
      (this.early ??= []).push(event);
      return;
    }
    if (event.job !== this.job.id) return;
    if (event.progress) this.told = event.progress;
    if (event.result) this.finished(event.result);
  }

  finished(result) {
    this.job = null;
    this.busy(false);
    show(this.resultBox, true);
    this.viewer.show(result);
    this.onRan(this.tool.name);
  }

  async cancel() {
    if (!this.job?.id) return;
    fill(this.progress, 'stopping …');
    await this.transport.request('cancel', { job: this.job.id }).catch(() => {});
  }

  async insert() {
    const answer = await this.checkNow();
    if (answer) this.onInsert(answer.code);
  }

  /** Show a stored result here. */
  showResult(result) {
    if (!this.tool) fill(this.element, this.viewer.element);
    else show(this.resultBox, true);
    this.viewer.show(result);
  }

  lost() {
    if (this.job) this.finished({ ok: false, error: { code: 'execution_error', reason: 'unavailable', message: 'The kernel went away while the tool ran.' } });
  }

  close() {
    this.stopHearing();
    clearInterval(this.ticking);
    this.check.stop();
    this.viewer.close();
  }
}
