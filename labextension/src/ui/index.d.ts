/** What the panel uses of onetool_ipy/ui/src, which is plain JavaScript; `npm run compile` copies it into lib/ui. */

export interface IRefusal extends Error {
  details: Record<string, unknown>;
}

export class Transport {
  constructor(send: (message: Record<string, unknown>) => void);
  request: <T = any>(kind: string, payload?: Record<string, unknown>) => Promise<T>;
  receive(message: Record<string, unknown>): void;
  on(event: string, listener: (event: any) => void): () => void;
  lose(reason: string): void;
  readonly gone: string | null;
  readonly waited: number;
}

export interface ICode {
  tool: string;
  python: string;
}

export interface IBrowser {
  element: HTMLElement;
  open(name: string, args?: Record<string, unknown> | null, isFocused?: boolean): Promise<void>;
  load(): Promise<void>;
  close(): void;
}

export interface IBrowserOptions {
  onInsert?: ((code: ICode, isRun: boolean) => void) | null;
  onDrag?: ((name: string, event: DragEvent) => void) | null;
  onTrust?: () => void;
  isSmall?: boolean;
}

export function createBrowser(transport: Transport, options?: IBrowserOptions): IBrowser;
