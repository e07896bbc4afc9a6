// The call history: newest first, by the page, with a search and a filter for failed calls. A run of `ot.map` is one line
// that unfolds to its calls, those that failed first. Owns the lines; the browser opens and runs the calls.
import { debounce, fill, h, icon, reconcile, show } from './dom.js';
import { counted, duration, number } from './format.js';

const PAGE_SIZE = 50;
const TIMES = [['', 'Any time'], ['today', 'Today'], ['yesterday', 'Since yesterday'], ['7d', '7 days'], ['30d', '30 days']];
const NEAR_END = 200; // pixels
const EDIT = 'M10.8 2.4l2.8 2.8M2.5 13.5l.7-3.5 8.3-8.3a1 1 0 0 1 1.4 0l1.4 1.4a1 1 0 0 1 0 1.4L6 12.8z';
const RERUN = 'M13.5 8A5.5 5.5 0 1 1 11.6 3.8M12 .8v3.4H8.6';

/** `onEdit(row)` opens a call in its form, `onRerun(row)` runs it again. `query` is the search text. */
export class HistoryView {
  constructor(transport, { onEdit, onRerun }) {
    Object.assign(this, { transport, actions: { onEdit, onRerun }, query: '', isFailed: false, since: '' });
    this.search = debounce(200, query => {
      this.query = query;
      this.calls.reset();
    });
    this.failed = h('button.otx-small', { type: 'button', 'aria-pressed': 'false', onclick: () => this.toggleFailed() }, 'Failed only');
    const times = h('select.otx-input', { 'aria-label': 'When', onchange: () => this.setSince(times.value) }, TIMES.map(([value, title]) => h('option', { value }, title)));
    this.calls = new CallLines(page => this.request(page), this.actions, () => this.emptyText);
    this.element = h('div.otx-history', { tabindex: '-1' }, h('div.otx-bar.otx-history-bar', null, times, this.failed), this.calls.element);
    this.element.addEventListener('scroll', () => {
      const { scrollTop, clientHeight, scrollHeight } = this.element;
      if (scrollTop + clientHeight > scrollHeight - NEAR_END) this.calls.more();
    });
  }

  get emptyText() {
    if (this.query) return `No ${this.isFailed ? 'failed ' : ''}call matches '${this.query}'.`;
    const when = TIMES.find(([value]) => value === this.since)[1].toLowerCase();
    if (this.since) return `No ${this.isFailed ? 'failed call' : 'call'} (${when}).`;
    return this.isFailed ? 'No call has failed.' : 'No calls yet. Your calls appear here.';
  }

  request(page) {
    return this.transport.request('history', { query: this.query, isFailed: this.isFailed, since: this.since, ...page });
  }

  setSince(since) {
    this.since = since;
    return this.calls.reset();
  }

  toggleFailed() {
    this.isFailed = !this.isFailed;
    this.failed.setAttribute('aria-pressed', String(this.isFailed));
    return this.calls.reset();
  }

  /** Load what is shown again; lines that stay keep the focus and what was unfolded. */
  load() {
    return this.calls.load(0, Math.max(PAGE_SIZE, this.calls.rows.size));
  }
}

/** Lines of calls, and a button for the next page. `request({offset, limit, run})` resolves with `{items, hasMore}`. */
class CallLines {
  constructor(request, actions, emptyText, run = null) {
    Object.assign(this, { request, actions, run, emptyText, rows: new Map(), loads: 0, hasMore: false });
    this.list = h('div', { role: 'list', 'aria-label': run ? 'Calls of this run' : 'Calls' });
    this.next = show(h('button.otx-small.otx-more', { type: 'button', onclick: () => this.more() }, 'Show more'), false);
    this.status = h('p.otx-muted', { role: 'status' });
    this.element = h('div.otx-calls-page', null, this.list, this.status, this.next);
  }

  reset() {
    this.rows.clear();
    return this.load(0, PAGE_SIZE);
  }

  async more() {
    if (!this.hasMore) return;
    this.hasMore = false; // until the page is there
    await this.load(this.rows.size, PAGE_SIZE);
  }

  async load(offset, limit) {
    const turn = (this.loads += 1);
    try {
      const { items, hasMore } = await this.request(this.run ? { offset, limit, run: this.run } : { offset, limit });
      if (turn !== this.loads) return;
      const known = this.rows;
      this.rows = new Map(offset ? known : []);
      for (const item of items) this.rows.set(item.id, known.get(item.id) ?? this.line(item));
      // A run that goes on has the same id and other numbers.
      for (const item of items) if (item.run) this.rows.get(item.id).redraw(item);
      this.hasMore = hasMore;
      reconcile(this.list, [...this.rows.values()].map(row => row.element));
      fill(this.status, this.rows.size ? '' : this.emptyText());
      show(this.next, hasMore);
    } catch (error) {
      if (turn !== this.loads) return;
      fill(this.status, error.message);
      // The button that asked for this page asks for it again.
      this.hasMore = !this.next.hidden;
    }
  }

  line(item) {
    return item.run ? new RunLine(item, this.request, this.actions) : { element: callLine(item, this.actions, this.run !== null) };
  }
}

/** A run of `ot.map`; its calls are loaded when it is unfolded. */
class RunLine {
  constructor(run, request, actions) {
    this.calls = new CallLines(request, actions, () => 'No calls.', run.run);
    show(this.calls.element, false);
    this.mark = h('span.otx-outcome');
    this.head = h('div.otx-history-head');
    this.facts = h('div.otx-tool-summary');
    this.toggle = h('button.otx-expand.otx-run-line', { type: 'button', onclick: () => this.unfold() }, this.mark, h('div.otx-tool-text', null, this.head, this.facts));
    this.element = h('div.otx-history-run', { role: 'listitem' }, this.toggle, this.calls.element);
    this.toggle.setAttribute('aria-expanded', 'false');
    this.redraw(run);
  }

  redraw(run) {
    const { rows, failures } = run;
    drawOutcome(this.mark, failures === 0);
    fill(this.head, headOf(`ot.map ${run.tool}`, run));
    fill(this.facts, counted(rows, 'row'), failures ? h('span.otx-error', null, `, ${number(failures)} failed`) : null, ` · ${duration(run.ms)}`);
    if (!this.calls.element.hidden) this.calls.load(0, Math.max(PAGE_SIZE, this.calls.rows.size));
  }

  unfold() {
    const isOpen = this.calls.element.hidden;
    show(this.calls.element, isOpen);
    this.toggle.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) this.calls.reset();
  }
}

/** A call. Within a run the name and the time, which all lines have, are left out. */
function callLine(row, { onEdit, onRerun }, isInRun) {
  const button = (path, title, label, onclick) => h('button.otx-icon-button', { type: 'button', title, 'aria-label': label, onclick }, icon(path));
  const rerun = row.args && !row.isAsk ? button(RERUN, 'Rerun', `Rerun ${row.tool}`, () => (row.readOnly ? run() : ask())) : null;
  const run = () => {
    show(confirm, false);
    return onRerun(row);
  };
  const ask = () => {
    show(confirm, true);
    confirm.querySelector('button').focus();
  };
  const cancel = () => {
    show(confirm, false);
    rerun.focus();
  };
  const confirm = show(h(
    'div.otx-confirm',
    { role: 'alertdialog', 'aria-label': `Rerun ${row.tool}?` },
    h('span', null, `${row.tool} may change something. Run it again?`),
    h('button.otx-small', { type: 'button', onclick: cancel }, 'Cancel'),
    h('button.otx-small', { type: 'button', onclick: run }, 'Run again')
  ), false);
  return h(
    'div.otx-history-row',
    { role: 'listitem' },
    drawOutcome(h('span.otx-outcome'), row.ok),
    h('div.otx-tool-text', null, isInRun ? null : h('div.otx-history-head', null, headOf(row.tool, row)), h('div.otx-tool-summary', { title: row.summary }, row.summary)),
    rerun ? button(EDIT, 'Edit', `Edit the call of ${row.tool}`, () => onEdit(row)) : null,
    row.args ? null : h('span.otx-muted', { title: 'The log does not have its arguments, so it cannot be run again' }, row.noArgs),
    rerun,
    confirm
  );
}

function headOf(name, { when, ms }) {
  return [h('span.otx-tool-name', null, name), h('span.otx-muted', { title: duration(ms) }, when)];
}

function drawOutcome(element, isOk) {
  element.className = `otx-outcome otx-outcome-${isOk ? 'ok' : 'failed'}`;
  element.setAttribute('role', 'img');
  element.setAttribute('aria-label', isOk ? 'ok' : 'failed');
  return fill(element, isOk ? '✓' : '✗');
}
