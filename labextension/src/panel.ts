/**
 * The side panel: the tools of the kernel of the notebook in front, the bundles of its project, and what is wrong.
 * Owns which notebook it looks at, and which of the three it shows.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './icon';
import type { IAbout, Link } from './link';
import { Rest } from './rest';
import { Seat } from './seat';
import { fill, h, show, tabKeys } from './ui/dom.js';
import { VERSION } from './version';

export const PANEL_ID = 'onetool-ipy-panel';
type View = 'tools' | 'bundles' | 'problems';
const VIEWS: [View, string][] = [
  ['tools', 'Tools'],
  ['bundles', 'Bundles'],
  ['problems', 'Problems']
];

const SAID: Record<string, string> = {
  other: 'This kernel is not Python; it has no tools.',
  opening: 'Asking the kernel …',
  missing: 'onetool_ipy is not loaded in this kernel.',
  none: 'This notebook has no kernel: choose one in the menu, Kernel > Change Kernel.'
};

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
    this._status = h('div.onetool-Panel-status', { role: 'status' });
    this._tabs = tabKeys(h('div.otx-tabs.onetool-Panel-tabs', { role: 'tablist', 'aria-label': 'Views' }));
    for (const [view, title] of VIEWS) {
      const id = `${PANEL_ID}-${view}`;
      const tab = h('button.otx-tab', { type: 'button', role: 'tab', id: `${id}-tab`, 'aria-controls': id, data: { view }, onclick: () => this.look(view) }, title);
      const box = h(`div.onetool-Panel-view.onetool-Panel-${view}`, { role: 'tabpanel', id, 'aria-labelledby': `${id}-tab`, tabindex: '-1' });
      this._tabs.append(tab);
      this._boxes[view] = box;
    }
    const inner = h('div.otx.onetool-Panel-inner', { 'data-lm-suppress-shortcuts': 'true' }, this._tabs, this._status, Object.values(this._boxes));
    this.node.append(inner);
    window.addEventListener('pagehide', () => this._leave());
    tracker.currentChanged.connect((_, notebook) => this._follow(notebook));
    this._follow(tracker.currentWidget);
    this.look('tools');
  }

  /** Emitted when the panel looks at another notebook, or knows more of its kernel. */
  readonly updated = new Signal<this, void>(this);

  get link(): Link | null {
    return this._seat?.link ?? null;
  }

  get notebook(): NotebookPanel | null {
    return this._seat?.notebook ?? null;
  }

  get seat(): Seat | null {
    return this._seat;
  }

  look(view: View): void {
    this._view = view;
    for (const tab of Array.from(this._tabs.children) as HTMLElement[]) {
      const isOn = tab.dataset.view === view;
      tab.setAttribute('aria-selected', String(isOn));
      tab.tabIndex = isOn ? 0 : -1;
    }
    for (const [each, box] of Object.entries(this._boxes)) {
      show(box, each === view);
    }
    this._drawBundles();
  }

  /** Begin a new HTTP tool. */
  newHttpTool(): void {
    this.look('bundles');
    this._seat?.bundles.create();
  }

  override dispose(): void {
    this._leave();
    Signal.clearData(this);
    super.dispose();
  }

  protected override onActivateRequest(): void {
    (this._tabs.querySelector('[aria-selected="true"]') as HTMLElement | null)?.focus();
  }

  /** Let go of every kernel. */
  private _leave(): void {
    for (const seat of this._seats.values()) {
      seat.close();
    }
    this._seats.clear();
    this._seat = null;
  }

  private _follow(notebook: NotebookPanel | null): void {
    if (notebook === this.notebook && this._seat) {
      return;
    }
    this._seat = notebook ? (this._seats.get(notebook) ?? this._take(notebook)) : null;
    fill(this._boxes.tools, this._seat?.tools);
    fill(this._boxes.bundles);
    this._draw();
  }

  private _take(notebook: NotebookPanel): Seat {
    const seat = new Seat(notebook, this.server);
    this._seats.set(notebook, seat);
    seat.changed.connect(() => {
      if (seat === this._seat) {
        this._draw();
      }
    });
    notebook.disposed.connect(() => {
      this._seats.delete(notebook);
      seat.close();
    });
    return seat;
  }

  private _draw(): void {
    if (this.isDisposed) {
      return;
    }
    this._drawStatus();
    this._drawProblems();
    this._drawBundles();
    if (this.link?.state === 'up' && this._serverVersion === null) {
      void this._askServer();
    }
    this.updated.emit();
  }

  private _drawStatus(): void {
    const state = this.link?.state ?? 'none';
    if (state === 'missing') {
      this._drawMissing(this.link!);
      return;
    }
    this._status.dataset.key = '';
    const notes = state === 'up' ? this._notes() : [this.notebook ? SAID[state] : 'Open a notebook to see its tools.'];
    if (state === 'opening' && this.link?.isBusy) {
      notes[0] = 'The kernel is busy; its tools are shown when it is free.';
    }
    if (this._status.textContent !== notes.join('')) {
      fill(this._status, notes.map(note => h('p', null, note)));
    }
    show(this._status, notes.length > 0);
  }

  /** Offer to load us; while that is under way, or where it failed, say so. */
  private _drawMissing(link: Link): void {
    const { isOn, failure } = link.loading;
    const key = JSON.stringify([isOn, failure, link.isBusy]);
    show(this._status, true);
    if (this._status.dataset.key === key) {
      return; // nothing is drawn anew under someone's hands
    }
    this._status.dataset.key = key;
    const button = h('button.otx-run', { type: 'button', 'aria-disabled': String(isOn), onclick: () => void link.load() }, isOn ? 'Loading …' : 'Load it');
    const busy = isOn ? 'The kernel is busy; it is loaded when the cell has ended.' : 'The kernel is busy.';
    const failed = failure ? h('div.otx-failure', { role: 'alert' }, failure, h('p', null, 'Install it for this kernel: %pip install onetool-ipy')) : null;
    const hadFocus = this._status.contains(document.activeElement);
    fill(this._status, h('p', null, SAID.missing), link.isBusy ? h('p', null, busy) : null, failed, button);
    if (hadFocus) {
      button.focus();
    }
  }

  private _notes(): string[] {
    const version = this.link?.about?.version;
    const notes = this.link?.isBusy ? ['A cell is running: you see the last known state.'] : [];
    if (version && version !== VERSION) {
      notes.push(`The kernel has onetool_ipy ${version}, this panel is of ${VERSION}: install the same version for both.`);
    } else if (version && this._serverVersion && version !== this._serverVersion) {
      notes.push(`The kernel has onetool_ipy ${version}, the server ${this._serverVersion}: restart the one that was updated.`);
    }
    return notes;
  }

  private async _askServer(): Promise<void> {
    this._serverVersion = '';
    this._serverVersion = await new Rest(this.server, '').version().catch(() => '');
    if (this._serverVersion) {
      this._drawStatus();
    }
  }

  private _drawProblems(): void {
    const about = this.link?.about ?? null;
    const down = downServers(about);
    const count = about?.problems.length ?? 0;
    fill(this._tabs.querySelector('[data-view="problems"]')!, count ? `Problems (${count})` : 'Problems');
    const shown = JSON.stringify([about?.problems, about?.servers]);
    if (shown === this._shownProblems) {
      return;
    }
    this._shownProblems = shown;
    const again = h('button.otx-small', { type: 'button', onclick: () => void this.link?.refresh() }, 'Look again');
    const servers = Object.entries(about?.servers ?? {});
    const hadFocus = this._boxes.problems.contains(document.activeElement);
    fill(
      this._boxes.problems,
      !about ? h('p.otx-quiet', null, 'What is wrong with the tools is listed here once a kernel has onetool_ipy loaded.') : null,
      about && !count ? h('p.otx-quiet', null, 'Nothing is wrong.') : null,
      (about?.problems ?? []).map(problem =>
        h('div.otx-failure.onetool-Problem', null, h('strong', null, problem.where), h('div', null, problem.message), problem.hint ? h('div.onetool-Problem-hint', null, problem.hint) : null)
      ),
      servers.length ? h('h3', null, 'MCP servers') : null,
      servers.map(([name, { state, reason }]) =>
        h(
          'div.onetool-Server',
          null,
          h(state === 'connected' ? 'span.otx-chip.otx-ok' : down.includes(name) ? 'span.otx-chip.otx-bad' : 'span.otx-chip', null, state),
          h('strong', null, name),
          h('span.otx-quiet', null, reason || (state === 'not started' ? 'starts with its first call' : ''))
        )
      ),
      about ? again : null
    );
    if (hadFocus) {
      again.focus();
    }
  }

  private _drawBundles(): void {
    if (this._view !== 'bundles') {
      return;
    }
    const element = this._seat?.bundles.element ?? h('p.otx-quiet', null, 'Open a notebook to see the bundles of its project.');
    if (this._boxes.bundles.firstChild !== element && (this._seat || !this._boxes.bundles.firstChild)) {
      fill(this._boxes.bundles, element);
    }
  }

  private readonly _tabs: HTMLElement;
  private readonly _status: HTMLElement;
  private readonly _boxes = {} as Record<View, HTMLElement>;
  private readonly _seats = new Map<NotebookPanel, Seat>();
  private _seat: Seat | null = null;
  private _view: View = 'tools';
  private _serverVersion: string | null = null;
  private _shownProblems = '';
}

const DOWN = ['failed', 'signed out', 'disconnected'];

/** Servers that did not start, or went away. */
export function downServers(about: IAbout | null): string[] {
  return Object.entries(about?.servers ?? {})
    .filter(([, { state }]) => DOWN.includes(state))
    .map(([name]) => name);
}
