// What the side panel imports of the screens.
export { type AskOptions as IAskOptions, createAsk } from './ask.js';
export { createBrowser, type ToolBrowser as IBrowser, type WantedTool as IWantedTool } from './browser.js';
export { addTabKeys, fill, h, keepFocus, reconcile } from './dom.js';
export { createHealth, type Health as IHealth, type HealthActions as IHealthActions, type Problem as IProblem } from './health.js';
export { createHttpEditor, type HttpPlace as IHttpPlace } from './httpEditor.js';
export { type Answer as IAnswer, createQuestion, type Question as IQuestion } from './question.js';
export { type Ask, type LatestRequest, type Reply, Requests, type Source } from './requests.js';
export { createServerPage } from './serverPage.js';
export { createServers, type Servers as IServers } from './servers.js';
export { createToolTab, type ToolTab as IToolTab, type ToolTabOptions as IToolTabOptions } from './toolTab.js';
export { type Message, type Payload, Transport } from './transport.js';
export { type Inventory as IWouldRun, needsTrust, type Trust as ITrust } from './trust.js';
export { createUsage, type UsageScreen as IUsage } from './usage.js';
export { createViewer } from './viewer.js';
