/** What the panel uses of the screens that are plain JavaScript yet, and where it finds the others. */

import type { Transport } from './transport.js';

export { addTabKeys, debounce, fill, h, reconcile, retryButton, selectTab, show } from './dom.js';
export { type Ask, type LatestRequest, type Reply, Requests, type Source } from './requests.js';
export { type Message, type Payload, Transport } from './transport.js';

export { createBrowser, type ToolBrowser as IBrowser, type WantedTool as IWantedTool } from './browser.js';

/** The tool to edit; empty for a new one. */
export interface IHttpPlace {
  bundle?: string;
  tool?: string;
  version?: string;
  /** A curl command, or an address, to make a new tool of. */
  pasted?: string;
}

export function createHttpEditor(transport: Transport, place: IHttpPlace, options?: { onSaved: (name: string) => void; onSwitched: () => void; isTab: boolean }): { element: HTMLElement; focus(): void; close(): void };

export interface IUsage {
  element: HTMLElement;
  load(): Promise<void>;
  close(): void;
}

export function createUsage(transport: Transport, options?: { period?: string; tool?: string; since?: string }): IUsage;

export { createHealth, type Health as IHealth, type HealthActions as IHealthActions, type Problem as IProblem } from './health.js';
export { type Answer as IAnswer, createQuestion, type Question as IQuestion } from './question.js';
export { type Inventory as IWouldRun, needsTrust, type Trust as ITrust } from './trust.js';
export { createServerPage } from './serverPage.js';
export { createServers, type Servers as IServers } from './servers.js';
export { createToolTab, type ToolTab as IToolTab, type ToolTabOptions as IToolTabOptions } from './toolTab.js';
export { createViewer } from './viewer.js';
