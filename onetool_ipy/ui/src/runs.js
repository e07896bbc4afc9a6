// The calls that were started here: what they tell while they run, and how they end. Several run at once; those that
// are not in sight are listed, so that none is forgotten.
import { fill, h, show } from './dom.js';
import { duration, number, stateChip, stateOf } from './viewer.js';

const MOST_SEEN = 5;

/** `onChange(run)` hears of everything, `onOpen(run)` when someone wants to look at one. */
export class Runs {
  constructor(transport, { onChange, onOpen }) {
    Object.assign(this, { transport, onChange, onOpen, all: [], early: [], shown: null });
    this.element = show(h('div.otx-runs', { role: 'group', 'aria-label': 'Other calls' }), false);
    this.stopHearing = transport.on('job', event => this.heard(event));
    this.ticking = setInterval(() => this.tick(), 200);
  }

  /** Start a call; gives its run at once. */
  start(tool, args) {
    const run = { id: null, tool, args, began: Date.now(), told: null, result: null, isStopping: false };
    this.all.push(run);
    this.draw();
    this.ask(run);
    return run;
  }

  async ask(run) {
    try {
      const { job } = await this.transport.request('run', { name: run.tool, args: run.args });
      run.id = job;
      if (run.isStopping) this.cancel(run);
      for (const event of this.early.filter(each => each.job === job)) this.tell(run, event);
    } catch (error) {
      this.end(run, { ok: false, tool: run.tool, error: { code: 'execution_error', message: error.message } });
    }
    if (this.all.every(each => each.id !== null || each.result)) this.early = [];
  }

  heard(event) {
    const run = this.all.find(each => each.id === event.job);
    if (run) this.tell(run, event);
    // An end may come before the answer that says whose it is.
    else if (this.all.some(each => each.id === null && !each.result)) this.early.push(event);
  }

  tell(run, event) {
    if (run.result) return;
    if (event.progress) run.told = event.progress;
    if (event.result) this.end(run, event.result);
    else this.onChange(run);
  }

  end(run, result) {
    run.result = result;
    this.onChange(run);
    this.draw();
  }

  async cancel(run) {
    run.isStopping = true;
    this.onChange(run);
    if (run.id) await this.transport.request('cancel', { job: run.id }).catch(() => {});
  }

  /** The kernel is gone: nothing that runs will end by itself. */
  lose() {
    for (const run of this.all.filter(each => !each.result)) {
      this.end(run, { ok: false, tool: run.tool, error: { code: 'execution_error', reason: 'unavailable', message: 'The kernel went away while the tool ran.' } });
    }
  }

  /** Say which run is in sight; it needs no line of its own. */
  look(run) {
    this.shown = run;
    this.draw();
  }

  latest(tool) {
    return this.all.findLast(run => run.tool === tool) ?? null;
  }

  get running() {
    return this.all.filter(run => !run.result);
  }

  draw() {
    if (this.shown?.result) this.shown.isSeen = true;
    const ended = this.all.filter(run => run.result && !run.isSeen && run !== this.shown);
    const lines = [...this.running.filter(run => run !== this.shown), ...ended.slice(-MOST_SEEN)];
    show(fill(this.element, lines.map(run => this.line(run))), lines.length > 0);
  }

  line(run) {
    const chip = stateChip(run.result ? stateOf(run.result) : 'runs');
    run.words = h('span.otx-quiet.otx-run-words', null, run.result ? '' : progressWords(run));
    const open = h('button.otx-small.otx-run-open', { type: 'button', title: 'Look at it', onclick: () => this.onOpen(run) }, run.tool);
    const stop = run.result
      ? h('button.otx-small', { type: 'button', title: 'Put away', 'aria-label': `Put the call of ${run.tool} away`, onclick: () => this.put(run) }, '×')
      : h('button.otx-small', { type: 'button', 'aria-label': `Cancel the call of ${run.tool}`, onclick: () => this.cancel(run) }, 'Cancel');
    return h('div.otx-run-line', null, chip, open, run.words, stop);
  }

  put(run) {
    run.isSeen = true;
    this.draw();
  }

  tick() {
    for (const run of this.running) {
      if (run === this.shown) this.onChange(run);
      else if (run.words) fill(run.words, progressWords(run));
    }
  }

  close() {
    this.stopHearing();
    clearInterval(this.ticking);
  }
}

/** `3 of 10 · counting · 2.1 s` */
export function progressWords(run) {
  const { done, total, text } = run.told ?? {};
  const counted = total ? `${number(done)} of ${number(total)}` : done ? number(done) : null;
  return [run.isStopping ? 'stopping …' : null, counted, text, duration(Date.now() - run.began)].filter(Boolean).join(' · ');
}
