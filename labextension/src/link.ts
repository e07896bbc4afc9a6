/**
 * The line to one notebook's kernel: the comm that our extension has listed there, and the transport of the ui module
 * over it.
 *
 * Owns when it is up: it is looked for when there is a kernel, after a cell while it is missing, and is lost when the
 * kernel restarts, dies or unloads us. Nothing is run in the kernel to find it, and nothing is printed there. Where the
 * kernel has subshells the questions go through one of their own, so that they are answered while a cell runs.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel, Session } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { Transport } from './ui/index.js';
import type { ITrust } from './ui/trust.js';

export const TARGET = 'onetool_ipy.panel';
const SHOWN_BUSY_MS = 300;

/** How the line is: no kernel, a kernel of another language, one without us, on its way, up. */
export type State = 'none' | 'other' | 'missing' | 'opening' | 'up';

export interface IProblem {
  where: string;
  message: string;
  hint: string;
}

export interface IAbout {
  version: string;
  project: string;
  trust: ITrust;
  tools: number;
  mark: string;
  problems: IProblem[];
  servers: Record<string, { state: string; reason: string }>;
}

export class Link {
  constructor(readonly session: ISessionContext) {
    session.kernelChanged.connect(this._onKernel, this);
    session.statusChanged.connect(this._onStatus, this);
    session.iopubMessage.connect(this._onMessage, this);
    session.disposed.connect(this.dispose, this); // before its connection is: the kernel is told
    void this._renew();
  }

  /** Emitted when the state, what the kernel says of itself, or whether it is busy changes. */
  readonly changed = new Signal<this, void>(this);

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

  /** Whether a cell has been running for a moment. */
  get isBusy(): boolean {
    return this._isShownBusy;
  }

  /** Whether the extension is being loaded, and why that failed last. */
  get loading(): { isOn: boolean; failure: string } {
    return this._loading;
  }

  /** Load the extension into the kernel; the error's text where that fails. */
  async load(): Promise<string> {
    if (this._loading.isOn) {
      return '';
    }
    this._setLoading(true, '');
    const turn = this._turn;
    const said = await this.run('%load_ext onetool_ipy').catch(() => 'The kernel went away.');
    if (!said && this._state !== 'up') {
      await this._look();
    }
    const failure = said || (this._state === 'missing' && !this._transport ? 'It did not load: see what %load_ext onetool_ipy says in a cell.' : '');
    if (turn === this._turn) {
      this._setLoading(false, failure);
    }
    return failure;
  }

  /** Run code in the kernel without a trace in the notebook; the error's text where it fails. */
  async run(code: string): Promise<string> {
    const kernel = this.session.session?.kernel;
    if (!kernel) {
      return 'There is no kernel.';
    }
    const { content } = await kernel.requestExecute({ code, store_history: false, stop_on_error: false }).done;
    if (content.status === 'ok') {
      return '';
    }
    const { ename, evalue } = content as KernelMessage.IReplyErrorContent;
    return ename ? `${ename}: ${evalue}` : 'The kernel dropped it after an error in another cell. Try again.';
  }

  async refresh(): Promise<void> {
    const transport = this._transport;
    if (this._state !== 'up' || !transport) {
      return;
    }
    try {
      const about = await transport.request<IAbout>('about');
      if (transport === this._transport && JSON.stringify(about) !== JSON.stringify(this._about)) {
        this._about = about;
        this.changed.emit();
      }
    } catch {
      // The line was lost meanwhile, and said so.
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this.session.kernelChanged.disconnect(this._onKernel, this);
    this.session.statusChanged.disconnect(this._onStatus, this);
    this.session.iopubMessage.disconnect(this._onMessage, this);
    this.session.disposed.disconnect(this.dispose, this);
    clearTimeout(this._busyTimer);
    this._drop('The notebook was closed.', true);
    Signal.clearData(this);
  }

  /** Begin anew with the kernel there is now. */
  private async _renew(): Promise<void> {
    this._drop('The kernel is another one now.', false);
    const turn = this._turn;
    const kernel = this.session.session?.kernel ?? null;
    this._kernel = kernel;
    if (!kernel) {
      this._set('none');
      return;
    }
    this._set('opening');
    const info = await kernel.info.catch(() => null);
    if (turn !== this._turn) {
      return;
    }
    if (info?.language_info.name !== 'python') {
      this._set(info ? 'other' : 'none');
      return;
    }
    if (kernel.status === 'busy') {
      this._watchBusy(kernel, turn);
    }
    if (kernel.supportsSubshells) {
      const made = await kernel.requestCreateSubshell({}).done.catch(() => null);
      const id = made?.content.subshell_id ?? null;
      if (turn !== this._turn) {
        endSubshell(kernel, id);
        return;
      }
      this._subshell = id;
    }
    await this._look();
  }

  /** See whether the extension has its line there, and take it. */
  private async _look(): Promise<void> {
    const kernel = this._kernel;
    const turn = this._turn;
    if (!kernel || this._transport) {
      return;
    }
    const asked = message(kernel, 'comm_info_request', { target_name: TARGET }, this._subshell);
    const reply = (await kernel.sendShellMessage(asked, true).done.catch(() => null)) as KernelMessage.ICommInfoReplyMsg | null;
    if (turn !== this._turn || this._transport) {
      return;
    }
    const comms = reply?.content.status === 'ok' ? Object.keys(reply.content.comms) : [];
    if (!comms.length) {
      this._set('missing');
      return;
    }
    await this._take(kernel, comms[comms.length - 1]);
  }

  private async _take(kernel: Kernel.IKernelConnection, comm: string): Promise<void> {
    const transport = new Transport(data => {
      if (!kernel.isDisposed) {
        const asked = message(kernel, 'comm_msg', { comm_id: comm, data: data as JSONObject }, this._subshell);
        kernel.sendShellMessage(asked, false, true);
      }
    });
    this._comm = comm;
    this._transport = transport;
    try {
      const about = await transport.request<IAbout>('about');
      if (transport === this._transport) {
        this._about = about;
        this._set('up');
      }
    } catch {
      // It was lost before it was up.
    }
  }

  private _drop(reason: string, isLast: boolean): void {
    this._turn += 1;
    const transport = this._transport;
    this._transport = this._about = this._comm = null;
    transport?.lose(reason);
    const [kernel, subshell] = [this._kernel, this._subshell];
    this._kernel = this._subshell = null;
    if (kernel && (isLast || !this._isRestarting)) {
      endSubshell(kernel, subshell);
    }
    this._running.clear();
    this._loading = { isOn: false, failure: '' };
    this._setBusy(false);
  }

  private _onKernel(_: ISessionContext, change: Session.ISessionConnection.IKernelChangedArgs): void {
    this._isRestarting = false;
    if (change.newValue !== this._kernel) {
      void this._renew();
    }
  }

  private _onStatus(_: ISessionContext, status: KernelMessage.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead' || status === 'terminating') {
      const isFirst = !this._isRestarting;
      this._isRestarting = true;
      if (isFirst) {
        this._drop('The kernel was restarted.', false);
      }
      this._set(status === 'dead' || status === 'terminating' ? 'none' : 'opening');
    } else if (this._isRestarting && (status === 'idle' || status === 'busy')) {
      this._isRestarting = false;
      void this._renew();
    }
  }

  private _onMessage(_: ISessionContext, heard: KernelMessage.IMessage): void {
    if (KernelMessage.isCommMsgMsg(heard) && heard.content.comm_id === this._comm) {
      this._transport?.receive(heard.content.data as Record<string, unknown>);
    } else if (KernelMessage.isCommCloseMsg(heard) && heard.content.comm_id === this._comm) {
      this._unloaded();
    } else if (KernelMessage.isStatusMsg(heard)) {
      this._onCell(heard);
    }
  }

  private _unloaded(): void {
    const transport = this._transport;
    this._transport = this._about = this._comm = null;
    transport?.lose('The extension was unloaded.');
    this._set('missing');
  }

  /** A cell that ended may have loaded us, or added tools. Only what executes counts: our own questions do not. */
  private _onCell(heard: KernelMessage.IStatusMsg): void {
    const { msg_id, msg_type } = heard.parent_header as { msg_id?: string; msg_type?: string };
    if (msg_type !== 'execute_request' || !msg_id) {
      return;
    }
    if (heard.content.execution_state === 'busy') {
      this._running.add(msg_id);
    } else {
      this._running.delete(msg_id);
      this._wasBusy = false;
      void (this._state === 'missing' ? this._look() : this.refresh());
    }
    this._setBusy(this._running.size > 0);
  }

  /** It was busy before we came: it is free when its main shell answers. */
  private _watchBusy(kernel: Kernel.IKernelConnection, turn: number): void {
    this._wasBusy = true;
    this._setBusy(true);
    void kernel.requestKernelInfo().then(
      () => {
        if (turn === this._turn) {
          this._wasBusy = false;
          this._setBusy(this._running.size > 0);
        }
      },
      () => undefined
    );
  }

  /** Say that it is busy once that lasts, and at once when it is over. */
  private _setBusy(isBusy: boolean): void {
    clearTimeout(this._busyTimer);
    if (!isBusy && !this._wasBusy) {
      if (this._isShownBusy) {
        this._isShownBusy = false;
        this.changed.emit();
      }
    } else if (!this._isShownBusy) {
      this._busyTimer = window.setTimeout(() => {
        this._isShownBusy = true;
        this.changed.emit();
      }, SHOWN_BUSY_MS);
    }
  }

  private _setLoading(isOn: boolean, failure: string): void {
    this._loading = { isOn, failure };
    this.changed.emit();
  }

  private _set(state: State): void {
    this._state = state;
    this.changed.emit();
  }

  private _state: State = 'none';
  private _loading = { isOn: false, failure: '' };
  private _about: IAbout | null = null;
  private _kernel: Kernel.IKernelConnection | null = null;
  private _subshell: string | null = null;
  private _comm: string | null = null;
  private _transport: Transport | null = null;
  private _isRestarting = false;
  private _isDisposed = false;
  private _isShownBusy = false;
  private _wasBusy = false;
  private _busyTimer = 0;
  private _turn = 0;
  private readonly _running = new Set<string>();
}

function endSubshell(kernel: Kernel.IKernelConnection, subshell_id: string | null): void {
  if (subshell_id !== null && !kernel.isDisposed && kernel.connectionStatus === 'connected') {
    kernel.requestDeleteSubshell({ subshell_id }, true);
  }
}

function message<T extends 'comm_info_request' | 'comm_msg'>(
  kernel: Kernel.IKernelConnection,
  msgType: T,
  content: T extends 'comm_msg' ? { comm_id: string; data: JSONObject } : { target_name: string },
  subshellId: string | null
): any {
  const options = { msgType, channel: 'shell', username: kernel.username, session: kernel.clientId, content };
  return KernelMessage.createMessage((subshellId === null ? options : { ...options, subshellId }) as any);
}
