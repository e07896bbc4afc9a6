/**
 * The side panel: one line about the kernel of the notebook in front.
 *
 * Owns when to ask: another notebook, another kernel, a restart, the end of a cell. Only cells
 * announce themselves with `execute_input`; our own silent question does not, so it never asks
 * again because of itself, nor because of the same panel in another browser window.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { KernelMessage } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';

import { toolsIcon } from './icon';
import { askState } from './kernel';

const NO_NOTEBOOK = 'no notebook';
const NO_KERNEL = 'no kernel';
const NOT_LOADED = 'load the extension: %load_ext onetool_ipy';

export class ToolsPanel extends Widget {
  constructor(tracker: INotebookTracker) {
    super();
    this.id = 'onetool-ipy-panel';
    this.addClass('onetool-Panel');
    this.title.caption = 'Tools';
    this.title.icon = toolsIcon;

    const heading = document.createElement('h2');
    heading.textContent = 'Tools';
    this._line.setAttribute('role', 'status');
    this.node.append(heading, this._line);

    tracker.currentChanged.connect(this._follow, this);
    this._follow(tracker, tracker.currentWidget);
  }

  /** Ask the kernel in front and show what it says; only the latest question is answered. */
  async refresh(): Promise<void> {
    const turn = ++this._turn;
    const text = await this._describe();
    if (turn === this._turn && !this.isDisposed) {
      this._line.textContent = text;
    }
  }

  override dispose(): void {
    this._leave();
    super.dispose();
  }

  private async _describe(): Promise<string> {
    if (!this._session) {
      return NO_NOTEBOOK;
    }
    const kernel = this._session.session?.kernel;
    if (!kernel) {
      return NO_KERNEL;
    }
    try {
      const state = await askState(kernel);
      return state ? `tools: ${state.tools}` : NOT_LOADED;
    } catch {
      // The kernel went away while it was asked; its next sign of life asks again.
      return NO_KERNEL;
    }
  }

  private _follow(_: INotebookTracker, notebook: NotebookPanel | null): void {
    this._leave();
    this._session = notebook?.sessionContext ?? null;
    this._session?.kernelChanged.connect(this._onKernel, this);
    this._session?.statusChanged.connect(this._onStatus, this);
    this._session?.iopubMessage.connect(this._onMessage, this);
    void this.refresh();
  }

  private _leave(): void {
    this._session?.kernelChanged.disconnect(this._onKernel, this);
    this._session?.statusChanged.disconnect(this._onStatus, this);
    this._session?.iopubMessage.disconnect(this._onMessage, this);
    this._session = null;
    this._cells.clear();
    this._isRestarting = false;
  }

  private _onKernel(): void {
    this._cells.clear();
    void this.refresh();
  }

  private _onStatus(_: ISessionContext, status: KernelMessage.Status): void {
    if (status === 'restarting' || status === 'autorestarting') {
      this._isRestarting = true;
    } else if (status === 'idle' && this._isRestarting) {
      this._isRestarting = false;
      this._onKernel();
    } else if (status === 'dead') {
      this._line.textContent = NO_KERNEL;
    }
  }

  private _onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    const cell = (message.parent_header as { msg_id?: string }).msg_id;
    if (cell === undefined) {
      return;
    }
    if (message.header.msg_type === 'execute_input') {
      this._cells.add(cell);
    } else if (isIdle(message) && this._cells.delete(cell)) {
      void this.refresh();
    }
  }

  private readonly _line = document.createElement('div');
  private readonly _cells = new Set<string>();
  private _session: ISessionContext | null = null;
  private _isRestarting = false;
  private _turn = 0;
}

function isIdle(message: KernelMessage.IMessage): boolean {
  const { execution_state } = message.content as { execution_state?: string };
  return message.header.msg_type === 'status' && execution_state === 'idle';
}
