/**
 * The bundles of a project, over the REST API: list, switch on and off, and delete. Making and editing a tool is in a tab of
 * its own (httpToolTab.ts), and so is the import of a document (importTab.ts).
 */

import { type IBundle, type ITool, type RestClient, RestError } from './restClient';
import { type Ask, fill, h, type IHttpPlace, type LatestRequest, Requests, retryButton, show, type Source } from '../screens/index.js';

/** How one tool of a bundle went. */
export interface IToolRun {
  tool: string;
  outcome: 'ok' | 'failed' | 'skipped';
  ms: number;
  message: string;
  call: string;
}

/** The environments of a bundle, and the one that it uses; '' if that is none of them. */
interface IEnvironments {
  names: string[];
  active: string;
}

/** What the list shows: the bundles, the tools of those that are open, and the environments by bundle. */
interface IBundles {
  bundles: IBundle[];
  tools: (readonly [string, ITool[]])[];
  environments: Record<string, IEnvironments>;
}

/** How long a list waits for the kernel, which may be busy. */
const SOON_MS = 700;

export class BundlesView {
  constructor(
    readonly rest: RestClient,
    kernel: Source,
    private readonly options: { onChanged: () => void; onEdit: (place: IHttpPlace) => void; onImport: () => void }
  ) {
    this._requests = new Requests(kernel);
    this._loads = this._requests.latestOf(() => this._read());
    this._notice = show(h('div.otx-notice', { role: 'status' }), false);
    this._list = h('div.onetool-Bundles-list');
    this._newButton = h('button.otx-small', { type: 'button', onclick: () => this.options.onEdit({}) }, 'New HTTP tool');
    const bar = h(
      'div.otx-bar',
      null,
      this._newButton,
      h('button.otx-small', { type: 'button', onclick: () => this.options.onImport() }, 'Import tools')
    );
    const projectBar = h(
      'div.otx-bar.onetool-Bundles-bar',
      null,
      this._project,
      h('button.otx-small', { type: 'button', onclick: () => void this.load(), title: 'Refresh', 'aria-label': 'Refresh' }, '↻')
    );
    this.element = h('div.onetool-Bundles', null, bar, projectBar, this._notice, this._list);
    void this.load();
  }

  readonly element: HTMLElement;

  /** Show the bundles of this project; what was opened stays open. */
  async follow(project: string): Promise<void> {
    this.rest.project = project;
    await this.load();
  }

  /**
   * Load the bundles again. `focused` is the label of the control that gets the focus afterwards. With `onlyNew` the
   * list is drawn only if something in it has changed: a switch that is being pressed stays where it is.
   */
  async load(focused?: string, onlyNew = false): Promise<void> {
    if (!onlyNew) {
      this._focused = focused ?? this._focused;
    }
    const { project } = this.rest;
    this._project.title = project || 'The folder in which Jupyter was started';
    fill(this._project, `Project: ${project.split('/').filter(Boolean).pop() ?? 'none (Jupyter\'s start folder)'}`);
    const reply = await this._loads.send(undefined);
    if (reply.status === 'failed') {
      this._showFailure(reply.error);
      this._notice.append(retryButton(() => this.load()));
    }
    if (reply.status !== 'ok') {
      return; // the later load gives the focus
    }
    show(this._notice, false);
    const facts = JSON.stringify(reply.value);
    const isDrawn = !onlyNew || facts !== this._facts;
    if (isDrawn) {
      this._facts = facts;
      this._draw(reply.value);
    }
    this._focus(this._focused ?? (isDrawn ? focused : undefined));
  }

  /** The bundles, the tools of those that are open, and the environments that the kernel knows. */
  private async _read(): Promise<IBundles> {
    const environments = this._readEnvironments();
    const bundles = await this.rest.bundles();
    bundles.sort((a, b) => a.slug.localeCompare(b.slug));
    const open = bundles.filter(bundle => this._opened.has(bundle.slug));
    const tools = await Promise.all(open.map(async bundle => [bundle.slug, await this.rest.tools(bundle.bundleID)] as const));
    return { bundles, tools, environments: await environments };
  }

  /**
   * The environments of the bundles; without a kernel there are none. At first, and after a switch, they are drawn together
   * with the bundles, since a line that came later would move what is below it. A busy kernel does not keep the bundles away:
   * what it says later is drawn when it comes.
   */
  private async _readEnvironments(): Promise<IBundles['environments']> {
    const reading = this._requests.latest<IBundles['environments']>('environments').again();
    const wait = new Promise<null>(resolve => window.setTimeout(() => resolve(null), this._waitMs));
    const reply = await Promise.race([reading, wait]);
    this._waitMs = 0;
    if (reply?.status === 'ok' || reply?.status === 'failed') {
      this._environments = reply.status === 'ok' ? reply.value : {};
    } else {
      this._isWaiting = true;
      void reading.then(late => {
        this._isWaiting = late.status === 'late' && this._isWaiting;
        if (late.status === 'ok') {
          this._drawEnvironments(late.value);
        }
      });
    }
    return this._environments;
  }

  /** Draw environments that came after the bundles, as soon as nobody points at what they would move. */
  private _drawEnvironments(environments: IBundles['environments']): void {
    if (JSON.stringify(environments) === JSON.stringify(this._environments)) {
      return;
    }
    this._environments = environments;
    const draw = (): void => {
      const bundles = this._loads.value.value;
      if (bundles) {
        const label = this._focused ?? this._focusedLabel() ?? undefined;
        this._facts = JSON.stringify({ ...bundles, environments });
        this._draw({ ...bundles, environments });
        this._focus(label);
      }
    };
    if (this._list.matches(':hover')) {
      this._list.addEventListener('mouseleave', draw, { once: true });
    } else {
      draw();
    }
  }

  private _focusedLabel(): string | null {
    return this._list.contains(document.activeElement) ? (document.activeElement?.getAttribute('aria-label') ?? null) : null;
  }

  /** Load the bundles again after something else changed them; a question that stands here stays. */
  async refresh(): Promise<void> {
    if (this._notice.hidden) {
      await this.load(this._focusedLabel() ?? undefined, true);
    }
  }

  private _draw({ bundles, tools, environments }: IBundles): void {
    const known = new Map(tools);
    const [own, builtIn] = [false, true].map(isBuiltIn => bundles.filter(bundle => bundle.isBuiltIn === isBuiltIn).map(bundle => this._bundle(bundle, known.get(bundle.slug) ?? null)));
    for (const [slug, names] of Object.entries(environments)) {
      own.find(row => row.dataset.slug === slug)?.querySelector('.otx-expand')!.after(this._environmentSelect(slug, names));
    }
    fill(this._list, own.length ? own : h('p.otx-muted.onetool-Bundles-none', null, 'No bundles yet: write an HTTP tool, or import tools.'), h('h3', null, 'Built-in packs'), builtIn);
  }

  /** Give a control the focus. One that comes with the environments has it once they are there. */
  private _focus(label: string | undefined): void {
    if (label === undefined) {
      return;
    }
    const control = this._labelled(label);
    (control ?? this._newButton).focus();
    this._focused = control || !this._isWaiting ? null : label;
  }

  close(): void {
    this._requests.close();
  }

  private _labelled(label: string): HTMLElement | undefined {
    return Array.from(this._list.querySelectorAll<HTMLElement>('[aria-label]')).find(each => each.getAttribute('aria-label') === label);
  }

  /** Show a tool that was saved in an editor. */
  async saved(name: string): Promise<void> {
    this._opened.add(name.split('.')[0]);
    this.options.onChanged();
    await this.load();
  }

  private _bundle(bundle: IBundle, known: ITool[] | null): HTMLElement {
    const isOpen = this._opened.has(bundle.slug);
    const tools = show(h('div.onetool-Bundles-tools'), isOpen);
    const loads = this._requests.latestOf(() => this.rest.tools(bundle.bundleID));
    const load = async (): Promise<void> => {
      const reply = await loads.send(undefined);
      if (reply.status === 'failed') {
        fill(tools, h('p.otx-error', null, reply.error.message), retryButton(load));
      } else if (reply.status === 'ok') {
        this._fillTools(bundle, tools, reply.value);
      }
    };
    if (known) {
      this._fillTools(bundle, tools, known);
    } else if (isOpen) {
      void load();
    }
    const open = async (): Promise<void> => {
      const isOpen = tools.hidden;
      toggle.setAttribute('aria-expanded', String(isOpen));
      show(tools, isOpen);
      this._opened[isOpen ? 'add' : 'delete'](bundle.slug);
      if (isOpen) {
        await load();
      }
    };
    const toggle = h(
      'button.otx-expand',
      { type: 'button', 'aria-expanded': String(isOpen), onclick: open },
      h('strong', null, bundle.slug),
      bundle.isEnabled ? null : [' ', h('span.otx-chip', null, 'off')]
    );
    const report = this._reports.get(bundle.slug) ?? h('div.onetool-Bundle-report', { role: 'status' });
    this._reports.set(bundle.slug, report);
    const run = bundle.isBuiltIn ? null : h('button.otx-small', { type: 'button', 'aria-label': `Run all tools of ${bundle.slug}`, title: 'Call each tool that only reads, with example arguments', onclick: () => this._runAll(bundle, report) }, 'Run all');
    const remove = bundle.isBuiltIn ? null : this._deleteButton(`Delete the bundle ${bundle.slug}`, '', () => this.rest.deleteBundle(bundle.bundleID));
    return h(
      'div.onetool-Bundle',
      { data: { slug: bundle.slug } },
      h('div.onetool-Bundle-head', null, toggle, run, this._switch(`${bundle.isBuiltIn ? 'Pack' : 'Bundle'} ${bundle.slug}`, bundle.isEnabled, isOn => this.rest.switchBundle(bundle.bundleID, isOn)), remove),
      bundle.description ? h('div.otx-muted', null, bundle.description) : null,
      report,
      tools
    );
  }

  /** The environments of a bundle, to switch between. */
  private _environmentSelect(slug: string, own: IEnvironments): HTMLElement {
    const options = (own.active ? own.names : ['', ...own.names]).map(name => h('option', { value: name }, name || 'other'));
    const select = h('select.otx-input', { 'aria-label': `Environment of ${slug}`, title: 'Environment' }, options) as HTMLSelectElement;
    select.value = own.active;
    select.addEventListener('change', () => this._switchEnvironment(slug, select.value, []));
    return h('div.onetool-Bundle-environment', null, h('span.otx-muted', { 'aria-hidden': 'true' }, 'Environment'), select);
  }

  /** Let a bundle use another environment, after a yes to what is new: its host, and the secrets that go there. */
  private async _switchEnvironment(slug: string, name: string, agreed: string[]): Promise<void> {
    let questions: { key: string; text: string }[] = [];
    let notes: string[] = [];
    const isSet = await this._try(async ask => {
      ({ questions = [], notes = [] } = await ask('switchEnvironment', { bundle: slug, name, agreed }));
    });
    if (isSet && !questions.length) {
      this.options.onChanged();
    }
    const notice = isSet ? notes : [this._notice.textContent ?? ''];
    this._waitMs = SOON_MS;
    await this.load(`Environment of ${slug}`);
    if (notice.length) {
      this._showNotice(notice);
    }
    if (questions.length) {
      const yes = h('button.otx-run', { type: 'button', onclick: () => this._switchEnvironment(slug, name, [...agreed, ...questions.map(({ key }) => key)]) }, `Switch to ${name}`);
      const cancel = h('button.otx-small', { type: 'button', onclick: () => void this.load(`Environment of ${slug}`) }, 'Cancel');
      show(fill(this._notice, questions.map(({ text }) => h('p', null, text)), h('div.otx-bar', null, yes, cancel)), true);
      yes.focus();
    }
  }

  /** Call the tools of a bundle, and say how each went. */
  private async _runAll(bundle: IBundle, report: HTMLElement): Promise<void> {
    fill(report, h('p.otx-muted', null, 'Running …'));
    const reply = await this._requests.latest<{ runs: IToolRun[] }>('runBundle', bundle.slug).send({ bundle: bundle.slug });
    if (reply.status === 'failed') {
      fill(report, h('p.otx-error', null, reply.error.message), retryButton(() => this._runAll(bundle, report)));
    } else if (reply.status === 'ok') {
      const { runs } = reply.value;
      const count = (outcome: string): number => runs.filter(run => run.outcome === outcome).length;
      const mark = { ok: '✓', failed: '✗', skipped: '–' };
      const lines = runs.map(run =>
        h('li', { title: run.call }, h(`span.otx-outcome.otx-outcome-${run.outcome}`, { role: 'img', 'aria-label': run.outcome }, mark[run.outcome]), h('span.otx-tool-name', null, run.tool.split('.').pop()), ' ', h('span.otx-muted', null, run.message || `${Math.round(run.ms)} ms`))
      );
      const close = h('button.otx-small', { type: 'button', 'aria-label': 'Close the report', onclick: () => fill(report) }, '×');
      fill(report, h('div.otx-bar', null, h('strong', null, `${count('ok')} ok, ${count('failed')} failed, ${count('skipped')} skipped`), close), h('ul', null, lines));
      this.options.onChanged();
    }
  }

  private _fillTools(bundle: IBundle, box: HTMLElement, tools: ITool[] | null): void {
    fill(box, tools?.length ? tools.map(tool => this._tool(bundle, tool)) : h('p.otx-muted', null, 'No tools yet.'));
  }

  private _tool(bundle: IBundle, tool: ITool): HTMLElement {
    const edit = (): void => this.options.onEdit({ bundle: bundle.slug, tool: tool.slug, version: tool.version });
    const calls = tool.callCount ? ` · ${tool.callCount} calls` : '';
    return h(
      'div.onetool-Tool',
      { data: { slug: tool.slug, version: tool.version } },
      h(
        'div.otx-tool-text',
        null,
        h('div.otx-tool-name', null, `${tool.slug} `, h('span.otx-chip', null, tool.version)),
        h('div.otx-tool-summary', { title: tool.description }, tool.available ? `${tool.description}${calls}` : (tool.reason ?? 'not available'))
      ),
      tool.type === 'http' && tool.http?.request ? h('button.otx-small', { type: 'button', 'aria-label': `Edit ${tool.slug} ${tool.version}`, onclick: edit }, 'Edit') : null,
      this._switch(`${tool.slug} ${tool.version}`, tool.isEnabled, isOn => this.rest.switchTool(tool, isOn)),
      tool.isBuiltIn ? null : this._deleteButton(`Delete ${tool.slug} ${tool.version}`, `Bundle ${bundle.slug}`, () => this.rest.deleteTool(tool))
    );
  }

  /** A switch that goes back if the server refuses the change. */
  private _switch(label: string, isOn: boolean, set: (isOn: boolean) => Promise<unknown>): HTMLElement {
    const box = h('input', { type: 'checkbox', role: 'switch', 'aria-label': label, title: isOn ? 'Switch off' : 'Switch on' }) as HTMLInputElement;
    box.checked = isOn;
    box.addEventListener('change', async () => {
      box.disabled = true;
      const isSet = await this._try(() => set(box.checked));
      if (isSet) {
        this.options.onChanged();
        await this.load(label);
      } else {
        box.checked = isOn;
        box.disabled = false;
        box.focus();
      }
    });
    return box;
  }

  /** A delete button that must be pressed twice. `nextFocus` is the label of the control that gets the focus afterwards. */
  private _deleteButton(label: string, nextFocus: string, act: () => Promise<unknown>): HTMLElement {
    let isArmed = false;
    const arm = (isOn: boolean): void => {
      isArmed = isOn;
      button.setAttribute('aria-label', isOn ? `${label}: press again` : label);
      fill(button, isOn ? 'Sure?' : '×');
    };
    const press = async (): Promise<void> => {
      if (!isArmed) {
        arm(true);
      } else if (await this._try(act)) {
        this.options.onChanged();
        await this.load(nextFocus);
      } else {
        arm(false);
      }
    };
    const button = h('button.otx-small', { type: 'button', title: 'Delete', onclick: press, onblur: () => arm(false) });
    arm(false);
    return button;
  }

  private _showNotice(lines: string[]): void {
    show(fill(this._notice, lines.map(line => h('div', null, line))), true);
  }

  private _showFailure(error: Error): void {
    const isForbidden = error instanceof RestError && error.status === 403 && this.rest.project;
    this._showNotice([isForbidden ? `${error.message} (${this.rest.project})` : error.message]);
  }

  /** Do something, and say why where it fails. Returns whether it was done. */
  private async _try(work: (ask: Ask) => Promise<unknown>): Promise<boolean> {
    show(this._notice, false);
    const reply = await this._requests.onceOf(work);
    if (reply.status === 'failed') {
      this._showFailure(reply.error);
    }
    return reply.status === 'ok';
  }

  private readonly _project: HTMLElement = h('span.otx-muted.onetool-Bundles-project');
  private readonly _notice: HTMLElement;
  private readonly _list: HTMLElement;
  private readonly _newButton: HTMLElement;
  private readonly _requests: Requests;
  private readonly _loads: LatestRequest<undefined, IBundles>;
  private _waitMs = SOON_MS;
  /** Whether the kernel has not said yet which environments there are. */
  private _isWaiting = false;
  private _facts = '';
  private _environments: IBundles['environments'] = {};
  /** The label of the control that gets the focus with the next drawing. */
  private _focused: string | null = null;
  /** What the last *Run all* of each bundle found. */
  private readonly _reports = new Map<string, HTMLElement>();
  private readonly _opened = new Set<string>();
}
