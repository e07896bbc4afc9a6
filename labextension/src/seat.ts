/**
 * What the panel has of one open notebook: the line to its kernel, the browser on it, the bundles of its project.
 * Made when the notebook first comes to the front, kept while it is open (so that coming back finds everything as it
 * was left), closed with it.
 */

import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';

import { BundlesView } from './bundles';
import { callOf } from './calls';
import { acceptTools, DRAGGED, insertCode, runCurrent } from './insert';
import { type IAbout, Link } from './link';
import { Rest } from './rest';
import { fill, h } from './ui/dom.js';
import { createBrowser, type IBrowser, type Transport } from './ui/index.js';

export class Seat {
  constructor(
    readonly notebook: NotebookPanel,
    private readonly server: ServerConnection.ISettings
  ) {
    this.tools = h('div.onetool-Panel-seat');
    this.link = new Link(notebook.sessionContext);
    this.link.changed.connect(this._onLink, this);
    this._endDrops = acceptTools(notebook, tool => void this.insertTool(tool));
  }

  readonly link: Link;
  readonly tools: HTMLElement;

  /** Emitted when there is something new to show. */
  readonly changed = new Signal<this, void>(this);

  get browser(): IBrowser | null {
    return this._browser;
  }

  /** The bundles of the kernel's project; of the notebook's folder as long as the kernel has not said which it is. */
  get bundles(): BundlesView {
    const project = this.link.about?.project ?? PathExt.dirname(this.notebook.context.path);
    if (this._bundles?.project !== project) {
      this._bundles?.close();
      this._bundles = new BundlesView(new Rest(this.server, project), { onChanged: () => void this._lookAgain() });
    }
    return this._bundles;
  }

  /** Put a call of a tool into the notebook. */
  async insertTool(tool: string, isRun = false): Promise<void> {
    await this.insert(await callOf(this.link, tool), isRun);
  }

  async insert(code: string, isRun = false): Promise<void> {
    await insertCode(this.notebook, code);
    this.notebook.activate();
    if (isRun) {
      await runCurrent(this.notebook);
    } else {
      this.notebook.content.mode = 'edit';
    }
  }

  close(): void {
    this._endDrops();
    this._closeBrowser();
    this._bundles?.close();
    this.link.dispose();
    Signal.clearData(this);
  }

  private _onLink(link: Link): void {
    if (link.state === 'up' && link.transport && this._browserOf !== link.transport) {
      this._openBrowser(link.transport);
    } else if (link.state === 'up' && link.about && markOf(link.about) !== this._mark) {
      void this._browser?.load();
    } else if (link.state === 'missing' || link.state === 'none' || link.state === 'other') {
      this._closeBrowser();
    }
    this._mark = link.about ? markOf(link.about) : '';
    this.changed.emit();
  }

  private _openBrowser(transport: Transport): void {
    this._closeBrowser();
    this._browserOf = transport;
    this._browser = createBrowser(transport, {
      isSmall: true,
      onInsert: (code, isRun) => void this.insert(code.tool, isRun),
      onTrust: () => void this.link.refresh(),
      onDrag: (name, event) => {
        event.dataTransfer?.setData(DRAGGED, name);
        event.dataTransfer?.setData('text/plain', `%tool ${name}`);
      }
    });
    fill(this.tools, this._browser.element);
  }

  private _closeBrowser(): void {
    this._browser?.close();
    this._browser = null;
    this._browserOf = null;
    fill(this.tools);
  }

  /** Something was changed over REST: the kernel sees it when it looks. */
  private async _lookAgain(): Promise<void> {
    await this.link.refresh();
  }

  private _browser: IBrowser | null = null;
  private _browserOf: Transport | null = null;
  private _bundles: BundlesView | null = null;
  private _mark = '';
  private readonly _endDrops: () => void;
}

/** What the browser shows of a kernel: where it is another, it is loaded anew. */
function markOf(about: IAbout): string {
  return JSON.stringify([about.mark, about.trust]);
}
