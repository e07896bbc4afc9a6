/** What the panel uses of the screens in labextension/ui, which are plain JavaScript; `npm run compile` builds them. */

type Child = Node | string | number | null | undefined | false | Child[];

export function h(tag: string, props?: Record<string, unknown> | null, ...children: Child[]): any;
export function fill(element: Element, ...children: Child[]): any;
export function reconcile(list: Element, elements: Element[]): void;
export function debounce(wait: number, fn: () => void): () => void;
export function show(element: HTMLElement, isShown: boolean): any;
export function addTabKeys(tabs: HTMLElement): any;
export function selectTab(tabs: HTMLElement, isSelected: (tab: HTMLElement) => boolean): void;

export class Transport {
  constructor(send: (message: Record<string, unknown>) => void);
  request: <T = any>(kind: string, payload?: Record<string, unknown>) => Promise<T>;
  receive(message: Record<string, unknown>): void;
  on(event: string, listener: (message: any) => void): () => void;
  close(reason: string): void;
}

export interface IForm {
  element: HTMLElement;
  value(): Record<string, unknown>;
  set(args: Record<string, unknown>): void;
  showErrors(errors: { pointer: string; message: string }[]): void;
  focus(): void;
  focusError(): void;
}

export function createForm(
  parameters: Record<string, unknown>,
  options?: { onChange?: (args: Record<string, unknown>) => void; onSubmit?: () => void }
): IForm;

export interface IBrowser {
  element: HTMLElement;
  open(name: string, args?: Record<string, unknown> | null, isFocused?: boolean): Promise<void>;
  find(name: string): Promise<void>;
  load(): Promise<void>;
  askTrustAgain(): Promise<void>;
  close(): void;
}

export interface IBrowserOptions {
  onInsert?: ((code: { tool: string; python: string }, isRun: boolean) => void) | null;
  onDrag?: ((name: string, event: DragEvent) => void) | null;
  onTrust?: () => void;
  isSmall?: boolean;
}

export function createBrowser(transport: Transport, options?: IBrowserOptions): IBrowser;

export interface IViewer {
  element: HTMLElement;
  show(result: Record<string, unknown>): void;
  close(): void;
}

export function createViewer(request: Transport['request']): IViewer;

/** The tool to edit; empty for a new one. */
export interface IHttpPlace {
  bundle?: string;
  tool?: string;
  version?: string;
}

export function createHttpEditor(transport: Transport, place: IHttpPlace, options: { onSaved: (name: string) => void; onSwitched: () => void; isTab: boolean }): { element: HTMLElement; focus(): void; close(): void };

export interface IServers {
  element: HTMLElement;
  load(): Promise<void>;
  act(name: string, action: string): Promise<void>;
  close(): void;
}

export function createServers(transport: Transport, options: { onOpen: (name: string) => void }): IServers;

export function createServerPage(transport: Transport, name: string, options: { onTrust: () => void; onCall: (tool: string) => void }): { element: HTMLElement; close(): void };

export interface IUsage {
  element: HTMLElement;
  load(): Promise<void>;
  close(): void;
}

export function createUsage(transport: Transport): IUsage;

/** A problem; its action does what the hint says. */
export interface IProblem {
  where: string;
  message: string;
  hint: string;
  action: { kind: string; label: string } | null;
}

export interface IHealth {
  element: HTMLElement;
  draw(report: { tools: number; servers: Record<string, { state: string }>; problems: IProblem[] } | null): void;
}

/** What the buttons of a problem do. */
export interface IHealthActions {
  onTrust: () => void;
  onServer: (name: string, action: string) => void;
  onOpen: (path: string, line: number | null) => void;
}

export function createHealth(options: IHealthActions & { request: Transport['request']; onRefresh: () => Promise<void> }): IHealth;

/** A question of the kernel. Its text comes from models and servers. */
export interface IQuestion {
  id: string;
  asker: string;
}

export interface IAnswer {
  action: 'accept' | 'decline' | 'cancel';
  content: Record<string, unknown>;
}

export function createQuestion(question: IQuestion, answer: (given: IAnswer) => Promise<{ errors: unknown[] }>): { element: HTMLElement };

export interface IWouldRun {
  folder: string;
  packFiles: string[];
  parts: { key: string; kind: string; name: string; text: string; details: string[]; changes: string[] }[];
  httpTools: number;
  hosts: string[];
  snippets: string[];
}

export interface ITrust {
  folder: string;
  isTrusted: boolean;
  how: string;
  wouldRun: IWouldRun;
}

export function needsTrust(trust: ITrust | null | undefined): boolean;
