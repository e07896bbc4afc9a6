// What the side panel imports of the screens.
import { createBrowser } from './browser.js';
import { addTabKeys, debounce, fill, h, reconcile, retryButton, selectTab, show } from './dom.js';
import { createHealth } from './health.js';
import { createHttpEditor } from './httpEditor.js';
import { createQuestion } from './question.js';
import { createServerPage } from './serverPage.js';
import { createServers } from './servers.js';
import { createToolTab } from './toolTab.js';
import { Requests } from './requests.js';
import { Transport } from './transport.js';
import { needsTrust } from './trust.js';
import { createUsage } from './usage.js';
import { createViewer } from './viewer.js';

export { Requests, Transport, addTabKeys, createBrowser, createHealth, createHttpEditor, createQuestion, createServerPage, createServers, createToolTab, createUsage, createViewer, debounce, fill, h, needsTrust, reconcile, retryButton, selectTab, show };
