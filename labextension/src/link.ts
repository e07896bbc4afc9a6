/**
 * The line to one kernel: a comm on our target, and the transport of the ui module over it.
 *
 * Owns when it is up: it opens with the kernel, is lost when the kernel restarts or dies, and says
 * so. A kernel that has not loaded our extension closes the comm at once; that is `missing`.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { Transport } from './ui/index.js';

export const TARGET = 'onetool_ipy.panel';

/** How the line is: no kernel, a kernel of another language, one without us, on its way, up. */
export type State = 'none' | 'other' | 'missing' | 'opening' | 'up';

export interface IAbout {
  version: string;
  project: string;
  tools: number;
  problems: { where: string; message: string; hint: string }[];
  servers: Record<string, string>;
}

export class Link {
  constructor(readonly session: ISessionContext) {
    session.kernelChanged.connect(this._renew, this);
    session.statusChanged.connect(this._onStatus, this);
    session.iopubMessage.connect(this._onMessage, this);
    void this._renew();
  }

  readonly changed = new Signal<this, State>(this);

  get state(): State {
    return this._state;
  }

  /** What the kernel said of itself last. */
  get about(): IAbout | null {
    return this._about;
  }

  get transport(): Transport | null {
    return this._transport;
  }

  get isBusy(): boolean {
    return this.session.session?.kernel?.status === 'busy';
  }

  /** Load the extension into the kernel; the error's text where that fails. */
  async load(): Promise<string> {
    const kernel = this.session.session?.kernel;
    if (!kernel) {
      return 'There is no kernel.';
    }
    const reply = await kernel.requestExecute({ code: '%load_ext onetool_ipy', silent: false, store_history: false }).done;
    await this._renew();
    return reply.content.status === 'ok' ? '' : `${(reply.content as any).ename}: ${(reply.content as any).evalue}`;
  }

  /** Run code in the kernel without a trace in the notebook; the error's text where it fails. */
  async run(code: string): Promise<string> {
    const kernel = this.session.session?.kernel;
    if (!kernel) {
      return 'There is no kernel.';
    }
    const { content } = await kernel.requestExecute({ code, store_history: false }).done;
    return content.status === 'ok' ? '' : `${(content as any).ename}: ${(content as any).evalue}`;
  }

  async refresh(): Promise<void> {
    const transport = this._transport;
    if (this._state !== 'up' || !transport) {
      return;
    }
    try {
      this._about = await transport.request<IAbout>('about');
      this.changed.emit(this._state);
    } catch {
      // The line was lost meanwhile, and said so.
    }
  }

  dispose(): void {
    this.session.kernelChanged.disconnect(this._renew, this);
    this.session.statusChanged.disconnect(this._onStatus, this);
    this.session.iopubMessage.disconnect(this._onMessage, this);
    this._drop('The panel looks at another notebook.');
    Signal.clearData(this);
  }

  private async _renew(): Promise<void> {
    this._drop('The kernel is another one now.');
    const kernel = this.session.session?.kernel;
    if (!kernel) {
      this._set('none');
      return;
    }
    this._set('opening');
    const turn = ++this._turn;
    const { language_info } = await kernel.info;
    if (turn !== this._turn) {
      return;
    }
    if (language_info.name !== 'python') {
      this._set('other');
      return;
    }
    this._open(kernel, turn);
  }

  private _open(kernel: Kernel.IKernelConnection, turn: number): void {
    const comm = kernel.createComm(TARGET);
    const transport = new Transport(message => void comm.send(message as JSONObject));
    comm.onMsg = message => transport.receive(message.content.data as Record<string, unknown>);
    comm.onClose = () => {
      if (turn === this._turn) {
        this._comm = null;
        this._drop('The extension was unloaded.');
        this._set('missing');
      }
    };
    this._comm = comm;
    this._transport = transport;
    comm.open();
    transport.request<IAbout>('about').then(
      about => {
        if (turn === this._turn) {
          this._about = about;
          this._set('up');
        }
      },
      () => undefined
    );
  }

  private _drop(reason: string): void {
    this._turn += 1;
    const [comm, transport] = [this._comm, this._transport];
    this._comm = this._transport = this._about = null;
    transport?.lose(reason);
    if (comm && !comm.isDisposed) {
      comm.onClose = () => undefined;
      try {
        comm.close();
      } catch {
        // The kernel is gone, and the comm with it.
      }
    }
  }

  private _onStatus(_: ISessionContext, status: KernelMessage.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead') {
      this._drop('The kernel was restarted.');
      this._isRestarting = true;
      this._set(status === 'dead' ? 'none' : 'opening');
    } else if (status === 'idle' && this._isRestarting) {
      this._isRestarting = false;
      void this._renew();
    } else if (this._state === 'up') {
      this.changed.emit(this._state);
    }
  }

  /** A cell that ended may have loaded us, or added tools. Only cells announce themselves with `execute_input`. */
  private _onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    const cell = (message.parent_header as { msg_id?: string }).msg_id;
    if (cell === undefined) {
      return;
    }
    if (message.header.msg_type === 'execute_input') {
      this._cells.add(cell);
    } else if (isIdle(message) && this._cells.delete(cell)) {
      void (this._state === 'missing' ? this._renew() : this.refresh());
    }
  }

  private _set(state: State): void {
    this._state = state;
    this.changed.emit(state);
  }

  private _state: State = 'none';
  private _about: IAbout | null = null;
  private _comm: Kernel.IComm | null = null;
  private _transport: Transport | null = null;
  private _isRestarting = false;
  private _turn = 0;
  private readonly _cells = new Set<string>();
}

function isIdle(message: KernelMessage.IMessage): boolean {
  const { execution_state } = message.content as { execution_state?: string };
  return message.header.msg_type === 'status' && execution_state === 'idle';
}
