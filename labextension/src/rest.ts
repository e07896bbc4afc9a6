/** The REST API of our server extension: always this server, with its base URL and token, for one project. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

const NO_API = 'This server does not have the REST API of onetool_ipy: install onetool-ipy where JupyterLab runs, and restart it.';

const NO_ANSWER = 'The Jupyter server does not answer: see whether it still runs.';

/** What is wrong with one part of what was sent, by its JSON pointer; '' is all of it. */
export interface IFault {
  pointer: string;
  message: string;
  /** Where a secret would go to a host that did not get it before: its name, and that host. */
  secret?: string;
  host?: string;
}

/** An answer that says no; `details` hold what is wrong with each field. */
export class RestError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly details: IFault[],
    readonly reason = ''
  ) {
    super(message);
  }
}

export interface IBundle {
  bundleID: string;
  slug: string;
  displayName: string;
  description: string;
  isEnabled: boolean;
  isBuiltIn: boolean;
}

export interface ITool {
  bundleID: string;
  slug: string;
  version: string;
  displayName: string;
  description: string;
  type: string;
  tags: string[];
  argSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown>;
  outputSchemaFrom?: string;
  readOnly?: boolean;
  http?: Record<string, any>;
  limits?: Record<string, unknown>;
  isEnabled: boolean;
  isBuiltIn: boolean;
  available: boolean;
  reason?: string;
  callCount: number;
}

export interface IImported {
  bundle: IBundle;
  tools: ITool[];
  hosts?: string[];
  secrets?: { name: string }[];
  notes?: string[];
}

export class Rest {
  constructor(
    private readonly settings: ServerConnection.ISettings,
    readonly project: string
  ) {}

  /** The version of the package in the server. */
  async version(): Promise<string> {
    const { info } = await this.send<{ info: { version: string } }>('GET', 'openapi.json');
    return info.version;
  }

  async bundles(): Promise<IBundle[]> {
    return this._all<IBundle>('tools/bundles', { includeDisabled: 'true', pageSize: '256' });
  }

  async tools(bundleID: string): Promise<ITool[]> {
    return this._all<ITool>('tools/tools', { includeDisabled: 'true', bundleIDs: bundleID, pageSize: '256' });
  }

  putBundle(id: string, body: Partial<IBundle>): Promise<IBundle> {
    return this.send('PUT', `tools/bundles/${id}`, body);
  }

  switchBundle(id: string, isEnabled: boolean): Promise<IBundle> {
    return this.send('PATCH', `tools/bundles/${id}`, { isEnabled });
  }

  deleteBundle(id: string): Promise<void> {
    return this.send('DELETE', `tools/bundles/${id}`);
  }

  putTool(bundleID: string, slug: string, version: string, body: Record<string, unknown>): Promise<ITool> {
    return asking(words => this.send('PUT', tool(bundleID, slug, version), body, { checkSecrets: 'true', ...(words.length ? { confirmSecrets: words.join(',') } : {}) }));
  }

  switchTool(each: ITool, isEnabled: boolean): Promise<ITool> {
    return this.send('PATCH', tool(each.bundleID, each.slug, each.version), { isEnabled });
  }

  deleteTool(each: ITool): Promise<void> {
    return this.send('DELETE', tool(each.bundleID, each.slug, each.version));
  }

  test(draft: Record<string, unknown>, args: Record<string, unknown>): Promise<any> {
    return asking(confirmSecrets => this.send('POST', 'tools/test', { tool: draft, args, confirmSecrets }));
  }

  importOpenapi(document: unknown, slug: string): Promise<IImported> {
    return asking(confirmSecrets => this.send('POST', 'tools/import', { openapi: document, bundle: { slug, displayName: slug }, confirmSecrets }));
  }

  async send<T>(method: string, path: string, body?: unknown, query: Record<string, string> = {}): Promise<T> {
    const asked = { ...query, ...(this.project ? { project: this.project } : {}) };
    const url = URLExt.join(this.settings.baseUrl, 'onetool', path) + URLExt.objectToQueryString(asked);
    const init: RequestInit = { method };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    const response = await ServerConnection.makeRequest(url, init, this.settings).catch(error => {
      throw error instanceof ServerConnection.NetworkError ? new RestError(NO_ANSWER, 0, '', []) : error;
    });
    if (response.status === 204) {
      return undefined as T;
    }
    const answer = await response.json().catch(() => null);
    if (response.ok && answer?.ok !== false) {
      return answer as T;
    }
    if (answer === null && response.status === 404) {
      throw new RestError(NO_API, 404, '', []);
    }
    const error = answer?.error ?? {};
    throw new RestError(error.message ?? `The server answered ${response.status}.`, response.status, error.code ?? '', Array.isArray(error.details) ? error.details : [], error.reason ?? '');
  }

  private async _all<T>(path: string, query: Record<string, string>): Promise<T[]> {
    const found: T[] = [];
    let pageToken: string | undefined;
    do {
      const page: { items: T[]; nextPageToken?: string } = await this.send('GET', path, undefined, pageToken ? { ...query, pageToken } : query);
      found.push(...page.items);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }
}

/** Send; where a secret would go to a host that did not get it before, ask first, and send again with the yes. */
async function asking<T>(send: (confirmSecrets: string[]) => Promise<T>): Promise<T> {
  try {
    return await send([]);
  } catch (error) {
    if (!(error instanceof RestError) || error.reason !== 'secret_host') {
      throw error;
    }
    const body = error.details.map(({ message }) => message).join('\n');
    const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label: 'Send it there' })];
    const { button } = await showDialog({ title: 'Send a secret to another host?', body, buttons, defaultButton: 0 });
    if (!button.accept) {
      throw error;
    }
    return send(error.details.map(({ secret, host }) => `${secret}=${host}`));
  }
}

function tool(bundleID: string, slug: string, version: string): string {
  return `tools/bundles/${bundleID}/tools/${encodeURIComponent(slug)}/version/${encodeURIComponent(version)}`;
}
