/**
 * The side panel: the tools of the kernel of the notebook in front, the bundles of its project,
 * and what is wrong. Owns which notebook it looks at, and one browser per kernel's line.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { BundlesView } from './bundles';
import { toolsIcon } from './icon';
import { insertCode } from './insert';
import { Link } from './link';
import { Rest } from './rest';
import { fill, h, show } from './ui/dom.js';
import { createBrowser, type IBrowser } from './ui/index.js';
import { VERSION } from './version';

export const PANEL_ID = 'onetool-ipy-panel';
type View = 'tools' | 'bundles' | 'problems';

export class ToolsPanel extends Widget {
  constructor(
    tracker: INotebookTracker,
    private readonly server: ServerConnection.ISettings
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('onetool-Panel');
    this.title.caption = 'Tools';
    this.title.icon = toolsIcon;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Tools');
    this._tabs = h(
      'div.otx-tabs',
      { role: 'tablist', 'aria-label': 'Tools' },
      (['tools', 'bundles', 'problems'] as View[]).map(view =>
        h('button.otx-tab', { type: 'button', role: 'tab', data: { view }, onclick: () => this.look(view) }, view[0].toUpperCase() + view.slice(1))
      )
    );
    this._status = h('div.onetool-Panel-status', { role: 'status' });
    this._tools = h('div.onetool-Panel-tools');
    this._bundlesBox = h('div.onetool-Panel-bundles');
    this._problems = h('div.onetool-Panel-problems');
    this.node.append(h('div.otx.onetool-Panel-inner', { 'data-lm-suppress-shortcuts': 'true' }, this._tabs, this._status, this._tools, this._bundlesBox, this._problems));
    tracker.currentChanged.connect(this._follow, this);
    this._follow(tracker, tracker.currentWidget);
    this.look('tools');
  }

  /** Emitted when the panel looks at another kernel, or knows more of it. */
  readonly updated = new Signal<this, void>(this);

  get link(): Link | null {
    return this._link;
  }

  get notebook(): NotebookPanel | null {
    return this._notebook;
  }

  look(view: View): void {
    this._view = view;
    for (const tab of Array.from(this._tabs.children) as HTMLElement[]) {
      tab.setAttribute('aria-selected', String(tab.dataset.view === view));
    }
    show(this._tools, view === 'tools');
    show(this._bundlesBox, view === 'bundles');
    show(this._problems, view === 'problems');
    if (view === 'bundles') {
      this._openBundles();
    }
  }

  /** Show a tool's form. */
  async openTool(name: string): Promise<void> {
    this.look('tools');
    await this._browser?.open(name);
  }

  /** Begin a new HTTP tool. */
  newHttpTool(): void {
    this.look('bundles');
    this._bundles?.create();
  }

  override dispose(): void {
    this._leave();
    Signal.clearData(this);
    super.dispose();
  }

  private _follow(_: INotebookTracker, notebook: NotebookPanel | null): void {
    if (notebook === this._notebook) {
      return;
    }
    this._leave();
    this._notebook = notebook;
    if (notebook) {
      this._link = new Link(notebook.sessionContext);
      this._link.changed.connect(this._draw, this);
    }
    this._draw();
  }

  private _leave(): void {
    this._closeBrowser();
    this._bundles?.close();
    this._bundles = null;
    this._link?.dispose();
    this._link = null;
    this._notebook = null;
  }

  private _closeBrowser(): void {
    this._browser?.close();
    this._browser = null;
    this._browserOf = null;
    fill(this._tools);
  }

  private _draw(): void {
    const link = this._link;
    const state = link?.state ?? 'none';
    this._drawStatus(state);
    if (link && state === 'up' && link.transport && this._browserOf !== link.transport) {
      this._closeBrowser();
      this._browserOf = link.transport;
      this._browser = createBrowser(link.transport, {
        isSmall: true,
        onInsert: code => void this._insert(code.tool),
        onDrag: (name, event) => this._drag(name, event)
      });
      this._tools.append(this._browser.element);
    }
    if (state === 'missing' || state === 'none' || state === 'other') {
      this._closeBrowser();
    }
    this._drawProblems();
    if (this._view === 'bundles') {
      this._openBundles();
    }
    this.updated.emit();
  }

  private _drawStatus(state: string): void {
    const link = this._link;
    const said: Record<string, string> = {
      none: this._notebook ? 'This notebook has no kernel.' : 'Open a notebook to see its tools.',
      other: 'This kernel is not Python; it has no tools.',
      opening: 'Asking the kernel …',
      missing: 'onetool_ipy is not loaded in this kernel.'
    };
    if (state === 'missing') {
      const button = h('button.otx-run', { type: 'button', onclick: () => this._load(button) }, 'Load it');
      fill(this._status, said.missing, ' ', button);
    } else if (state === 'up') {
      const about = link?.about;
      const notes: (string | null)[] = [
        link?.isBusy ? 'busy: what you see is the last known state' : null,
        about && about.version !== VERSION ? `the kernel has onetool_ipy ${about.version}, this panel is of ${VERSION}` : null
      ];
      fill(this._status, notes.filter(Boolean).join(' · '));
    } else {
      fill(this._status, said[state]);
    }
    show(this._status, this._status.textContent !== '');
  }

  private async _load(button: HTMLButtonElement): Promise<void> {
    button.disabled = true;
    const said = await this._link?.load();
    if (said) {
      fill(this._status, h('div.otx-failure', { role: 'alert' }, said));
    }
  }

  private _drawProblems(): void {
    const about = this._link?.about;
    const tab = this._tabs.querySelector('[data-view="problems"]') as HTMLElement;
    const down = Object.entries(about?.servers ?? {}).filter(([, state]) => state === 'disconnected');
    const count = (about?.problems.length ?? 0) + down.length;
    tab.textContent = count ? `Problems (${count})` : 'Problems';
    if (!about || !count) {
      fill(this._problems, h('p.otx-quiet', null, about ? 'Nothing is wrong.' : 'Nothing is known yet.'));
      return;
    }
    fill(
      this._problems,
      about.problems.map(problem => h('div.otx-failure', null, h('strong', null, problem.where), h('div', null, problem.message), problem.hint ? h('div.otx-quiet', null, problem.hint) : null)),
      down.map(([name]) => h('div.otx-quiet', null, `The server ${name} is not connected; it starts with its first call.`))
    );
  }

  private _openBundles(): void {
    const project = this._link?.about?.project ?? '';
    if (this._bundles && this._bundles.project === project) {
      return;
    }
    this._bundles?.close();
    this._bundles = new BundlesView(new Rest(this.server, project), { onChanged: () => void this._browser?.load() });
    fill(this._bundlesBox, this._bundles.element);
  }

  private async _insert(code: string): Promise<void> {
    if (this._notebook) {
      await insertCode(this._notebook, code);
      this._notebook.activate();
    }
  }

  private _drag(name: string, event: DragEvent): void {
    event.dataTransfer?.setData('text/plain', `%tool ${name} `);
  }

  private readonly _tabs: HTMLElement;
  private readonly _status: HTMLElement;
  private readonly _tools: HTMLElement;
  private readonly _bundlesBox: HTMLElement;
  private readonly _problems: HTMLElement;
  private _view: View = 'tools';
  private _notebook: NotebookPanel | null = null;
  private _link: Link | null = null;
  private _browser: IBrowser | null = null;
  private _browserOf: unknown = null;
  private _bundles: BundlesView | null = null;
}
