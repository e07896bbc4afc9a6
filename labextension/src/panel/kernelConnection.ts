/**
 * The connection to one notebook's kernel: the comm that onetool_ipy has registered there, and the ui module's transport
 * over it.
 *
 * Owns when it is connected. It looks for the comm when a kernel starts, and after each cell while it is missing. It
 * disconnects when the kernel restarts, dies or unloads the extension. Finding the comm runs no code in the kernel and
 * prints nothing. If the kernel has subshells, requests go through one of their own and are answered while a cell runs.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import { signalToPromise } from '@jupyterlab/coreutils';
import type { Kernel, Session } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import type { Problem } from '../screens/health.js';
import { type Answer, createQuestion, type Question } from '../screens/question.js';
import { Requests, type Source } from '../screens/requests.js';
import { isEqual } from '../screens/schema.js';
import { type Message, type Payload, Transport } from '../screens/transport.js';
import type { Trust } from '../screens/trust.js';

const COMM_TARGET = 'onetool_ipy.panel';
const SHOW_BUSY_MS = 300;
const INFO_TIMEOUT_MS = 1500;
/** Stands among the running cells for whatever the kernel was busy with when we connected. */
const BEFORE_US = 'before us';

/** No kernel, a kernel of another language, onetool_ipy not loaded, connecting, connected. */
type ConnectionState = 'none' | 'other' | 'missing' | 'connecting' | 'connected';

/** What the kernel reports about its tools. */
export interface IKernelReport {
  version: string;
  project: string;
  trust: Trust;
  tools: number;
  /** Those that we do not ship. */
  own: number;
  fingerprint: string;
  problems: Problem[];
  servers: Record<string, { state: string; reason: string }>;
}

export class KernelConnection implements Source {
  constructor(readonly session: ISessionContext) {
    session.kernelChanged.connect(this._onKernel, this);
    session.statusChanged.connect(this._onStatus, this);
    session.iopubMessage.connect(this._onMessage, this);
    session.disposed.connect(this.dispose, this); // before its kernel connection, so that the kernel is notified
    void this._connect();
  }

  /** Emitted when the state, the report or the busy flag changes. */
  readonly changed = new Signal<this, void>(this);

  /** Emitted when a cell has ended. */
  readonly cellEnded = new Signal<this, void>(this);

  get state(): ConnectionState {
    return this._state;
  }

  /** The latest report of the kernel. */
  get report(): IKernelReport | null {
    return this._report;
  }

  /** The questions that wait for the user. */
  get questions(): ReadonlyMap<string, Question> {
    return this._questions;
  }

  /** Draw a question that still waits; null if it is over. */
  drawQuestion(id: string): HTMLElement | null {
    const question = this._questions.get(id);
    const answer = (given: Answer): Promise<{ errors: unknown[] }> => this.request('answer', { question: id, ...given });
    return question ? createQuestion(question, answer, this._requests!).element : null;
  }

  /** Resolves when it is known what the kernel has. */
  async settled(): Promise<void> {
    while (this._state === 'connecting') await signalToPromise(this.changed);
  }

  /** Look for the extension now, while a cell runs that has just loaded it. */
  async lookAgain(): Promise<void> {
    if (this._state === 'missing') await this._findComm();
  }

  /** Ask the kernel; an error if none with the extension is connected. Views ask by `Requests` of this connection. */
  async request<T = any>(kind: string, payload: Payload = {}): Promise<T> {
    if (!this._transport) throw new Error('No kernel with onetool_ipy is connected. Load it in the Tools view.');
    return this._transport.request<T>(kind, payload);
  }

  get transport(): Transport | null {
    return this._transport;
  }

  /** Whether a cell has been running for at least SHOW_BUSY_MS. */
  get isBusy(): boolean {
    return this._isShownBusy;
  }

  /** Whether requests are answered while a cell runs. */
  get hasSubshell(): boolean {
    return this._subshell !== null;
  }

  /** Whether the extension is being loaded, and why the last attempt failed. */
  get loading(): { isOn: boolean; failure: string } {
    return this._loading;
  }

  /** Load the extension into the kernel. Resolves with the error text, or with '' on success. */
  async load(): Promise<string> {
    if (this._loading.isOn) return '';
    this._setLoading(true, '');
    const attempt = this._attempt;
    const error = await this.run('%load_ext onetool_ipy').catch(() => 'The kernel stopped.');
    if (!error && this._state !== 'connected') await this._findComm();
    const failure = error || (this._state === 'missing' && !this._transport
      ? 'onetool_ipy did not load. Run %load_ext onetool_ipy in a cell to see why.'
      : '');
    if (attempt === this._attempt) this._setLoading(false, failure);
    return failure;
  }

  /** Run code in the kernel without any output in the notebook. Resolves with the error text, or with '' on success. */
  async run(code: string): Promise<string> {
    const kernel = this.session.session?.kernel;
    if (!kernel) return 'There is no kernel.';
    const { content } = await kernel.requestExecute({ code, store_history: false, stop_on_error: false }).done;
    if (content.status === 'ok') return '';
    const { ename, evalue } = content as KernelMessage.IReplyErrorContent;
    return ename ? `${ename}: ${evalue}` : 'The kernel cancelled it after an error in another cell. Try again.';
  }

  /** Request the report again. The first one makes the connection whole. */
  async refresh(): Promise<void> {
    // Where it fails the connection was closed meanwhile, and its state already says so.
    const reply = await this._requests?.latest<IKernelReport>('report').again();
    if (reply?.status === 'ok' && !isEqual(reply.value, this._report)) {
      this._report = reply.value;
      this._setState('connected');
    }
  }

  dispose(): void {
    if (this._isDisposed) return;
    this._isDisposed = true;
    this.session.kernelChanged.disconnect(this._onKernel, this);
    this.session.statusChanged.disconnect(this._onStatus, this);
    this.session.iopubMessage.disconnect(this._onMessage, this);
    this.session.disposed.disconnect(this.dispose, this);
    clearTimeout(this._busyTimer);
    this._disconnect('The notebook was closed.', true);
    Signal.clearData(this);
  }

  /** Connect to the current kernel. */
  private async _connect(): Promise<void> {
    this._disconnect('The kernel was changed.', false);
    const attempt = this._attempt;
    const kernel = this.session.session?.kernel ?? null;
    this._kernel = kernel;
    if (!kernel) {
      this._setState('none');
      return;
    }
    this._setState('connecting');
    const unknown = new Promise<undefined>(resolve => window.setTimeout(() => resolve(undefined), INFO_TIMEOUT_MS));
    const info = await Promise.race([kernel.info.catch(() => null), unknown]);
    if (attempt !== this._attempt) return;
    if (info !== undefined && info?.language_info.name !== 'python') {
      this._setState(info ? 'other' : 'none');
      return;
    }
    if (info === undefined || kernel.status === 'busy') this._waitUntilFree(kernel, attempt);
    if (info === undefined || kernel.supportsSubshells) {
      const id = await createSubshell(kernel);
      if (attempt !== this._attempt) {
        deleteSubshell(kernel, id);
        return;
      }
      this._subshell = id;
    }
    await this._findComm();
  }

  /** Look for the extension's comm in the kernel, and open it. */
  private async _findComm(): Promise<void> {
    const [kernel, attempt, ended] = [this._kernel, this._attempt, this._ended];
    if (!kernel || this._transport) {
      await this.refresh();
      return;
    }
    const request = createMessage(kernel, 'comm_info_request', { target_name: COMM_TARGET }, this._subshell);
    const reply = (await kernel.sendShellMessage(request, true).done.catch(() => null)) as KernelMessage.ICommInfoReplyMsg | null;
    if (attempt !== this._attempt) return;
    const comms = reply?.content.status === 'ok' ? Object.keys(reply.content.comms) : [];
    // Another look may have found it first, and a cell that ended meanwhile may have loaded us after the kernel's answer.
    if (this._transport || (!comms.length && ended !== this._ended)) {
      await this._findComm();
    } else if (comms.length) {
      await this._openComm(kernel, comms[comms.length - 1]);
    } else {
      this._setState('missing');
    }
  }

  private async _openComm(kernel: Kernel.IKernelConnection, comm: string): Promise<void> {
    const transport = new Transport(data => {
      if (!kernel.isDisposed) {
        const request = createMessage(kernel, 'comm_msg', { comm_id: comm, data: data as JSONObject }, this._subshell);
        kernel.sendShellMessage(request, false, true);
      }
    });
    this._comm = comm;
    this._transport = transport;
    this._requests = new Requests(transport);
    transport.store.onChanged(() => void this.refresh());
    transport.store.questions.subscribe(questions => this._setQuestions(questions));
    await this.refresh();
  }

  /** Show these questions, and tell the kernel of the new ones that somebody can answer them here. */
  private _setQuestions(questions: Question[]): void {
    const known = this._questions;
    // One that stays is the same object, since its drawings share what was decided in it.
    this._questions = new Map(questions.map(each => [each.id, known.get(each.id) ?? each]));
    for (const id of this._questions.keys()) {
      if (!known.has(id)) void this._requests?.once('questionSeen', { question: id });
    }
    if ([...known.keys()].join() !== [...this._questions.keys()].join()) this.changed.emit();
  }

  private _disconnect(reason: string, isClosing: boolean): void {
    this._attempt += 1;
    this._closeComm(reason);
    const [kernel, subshell] = [this._kernel, this._subshell];
    this._kernel = this._subshell = null;
    if (kernel && (isClosing || !this._isRestarting)) deleteSubshell(kernel, subshell);
    this._running.clear();
    this._loading = { isOn: false, failure: '' };
    this._setBusy(false);
  }

  /** Forget the comm, and all that came over it. */
  private _closeComm(reason: string): void {
    const transport = this._transport;
    this._requests?.close();
    this._requests = this._transport = this._report = this._comm = null;
    this._questions = new Map();
    transport?.close(reason);
  }

  private _onKernel(_: ISessionContext, change: Session.ISessionConnection.IKernelChangedArgs): void {
    this._isRestarting = false;
    if (change.newValue !== this._kernel) void this._connect();
  }

  private _onStatus(_: ISessionContext, status: KernelMessage.Status): void {
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead' || status === 'terminating') {
      const isFirst = !this._isRestarting;
      this._isRestarting = true;
      if (isFirst) this._disconnect('The kernel was restarted.', false);
      this._setState(status === 'dead' || status === 'terminating' ? 'none' : 'connecting');
    } else if (this._isRestarting && (status === 'idle' || status === 'busy')) {
      this._isRestarting = false;
      void this._connect();
    }
  }

  private _onMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    if (KernelMessage.isCommMsgMsg(message) && message.content.comm_id === this._comm) {
      this._transport?.receive(message.content.data as unknown as Message);
    } else if (KernelMessage.isCommCloseMsg(message) && message.content.comm_id === this._comm) {
      this._closeComm('The extension was unloaded.');
      this._setState('missing');
    } else if (KernelMessage.isStatusMsg(message)) {
      this._onExecution(message);
    }
  }

  /** A finished cell may have loaded the extension or added tools. Only executions count, not our own requests. */
  private _onExecution(message: KernelMessage.IStatusMsg): void {
    const { msg_id, msg_type } = message.parent_header as { msg_id?: string; msg_type?: string };
    if (msg_type !== 'execute_request' || !msg_id) return;
    if (message.content.execution_state === 'busy') {
      this._running.add(msg_id);
    } else {
      this._running.delete(msg_id);
      this._running.delete(BEFORE_US);
      this._ended += 1;
      this.cellEnded.emit();
      // With a transport, also before its first report: that may have been made while the cell ran.
      void (this._state === 'missing' && !this._transport ? this._findComm() : this.refresh());
    }
    this._setBusy(this._running.size > 0);
  }

  /** The kernel was busy when we connected: it is free once its main shell answers. */
  private _waitUntilFree(kernel: Kernel.IKernelConnection, attempt: number): void {
    this._running.add(BEFORE_US);
    this._setBusy(true);
    const onFree = (): void => {
      if (attempt === this._attempt) {
        this._running.delete(BEFORE_US);
        this._setBusy(this._running.size > 0);
      }
    };
    void kernel.requestKernelInfo().then(onFree, onFree);
  }

  /** Show that the kernel is busy after SHOW_BUSY_MS, and at once that it is free. */
  private _setBusy(isBusy: boolean): void {
    clearTimeout(this._busyTimer);
    if (!isBusy) {
      if (this._isShownBusy) {
        this._isShownBusy = false;
        this.changed.emit();
      }
    } else if (!this._isShownBusy) {
      this._busyTimer = window.setTimeout(() => {
        this._isShownBusy = true;
        this.changed.emit();
      }, SHOW_BUSY_MS);
    }
  }

  private _setLoading(isOn: boolean, failure: string): void {
    this._loading = { isOn, failure };
    this.changed.emit();
  }

  private _setState(state: ConnectionState): void {
    this._state = state;
    this.changed.emit();
  }

  private _state: ConnectionState = 'none';
  private _loading = { isOn: false, failure: '' };
  private _report: IKernelReport | null = null;
  private _questions = new Map<string, Question>();
  private _kernel: Kernel.IKernelConnection | null = null;
  private _subshell: string | null = null;
  private _comm: string | null = null;
  private _transport: Transport | null = null;
  private _requests: Requests | null = null;
  private _isRestarting = false;
  private _isDisposed = false;
  private _isShownBusy = false;
  private _busyTimer = 0;
  private _attempt = 0;
  /** How many cells have ended. */
  private _ended = 0;
  /** The cells that run, by the ids of their requests. A new connection begins without any. */
  private readonly _running = new Set<string>();
}

/** Create a subshell. A busy kernel does so too, although it does not say yet what it supports. */
async function createSubshell(kernel: Kernel.IKernelConnection): Promise<string | null> {
  const { clientId: session, username } = kernel;
  const request = KernelMessage.createMessage<KernelMessage.ICreateSubshellRequestMsg>({
    channel: 'control', msgType: 'create_subshell_request', session, username, content: {}
  });
  const reply = kernel.sendControlMessage(request, true).done.catch(() => null) as Promise<KernelMessage.ICreateSubshellReplyMsg | null>;
  const isSupported = kernel.info.then(() => kernel.supportsSubshells, () => false);
  const found = await Promise.race([reply, isSupported.then(isOn => (isOn ? reply : null))]);
  return found?.content.subshell_id ?? null;
}

function deleteSubshell(kernel: Kernel.IKernelConnection, subshell_id: string | null): void {
  if (subshell_id !== null && !kernel.isDisposed && kernel.connectionStatus === 'connected') {
    kernel.requestDeleteSubshell({ subshell_id }, true);
  }
}

function createMessage<T extends 'comm_info_request' | 'comm_msg'>(
  kernel: Kernel.IKernelConnection,
  msgType: T,
  content: T extends 'comm_msg' ? { comm_id: string; data: JSONObject } : { target_name: string },
  subshellId: string | null
): any {
  const options = { msgType, channel: 'shell', username: kernel.username, session: kernel.clientId, content };
  return KernelMessage.createMessage((subshellId === null ? options : { ...options, subshellId }) as any);
}
