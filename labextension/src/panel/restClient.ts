/** A client of onetool_ipy's REST API on this Jupyter server, for one project. Uses the server's base URL and token. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { type IBundle, type IImported, type IImportPreview, type ITool, RestError } from './restApi.js';

const NO_API = 'This Jupyter server does not have the REST API of onetool_ipy. Install onetool-ipy where JupyterLab runs, and restart it.';

const NO_RESPONSE = 'The Jupyter server does not respond. Check that it is still running.';

export class RestClient {
  constructor(
    private readonly settings: ServerConnection.ISettings,
    public project: string
  ) {}

  /** The version of onetool_ipy that the server runs. */
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

  switchBundle(id: string, isEnabled: boolean): Promise<IBundle> {
    return this.send('PATCH', `tools/bundles/${id}`, { isEnabled });
  }

  deleteBundle(id: string): Promise<void> {
    return this.send('DELETE', `tools/bundles/${id}`);
  }

  switchTool(each: ITool, isEnabled: boolean): Promise<ITool> {
    return this.send('PATCH', toolPath(each.bundleID, each.slug, each.version), { isEnabled });
  }

  deleteTool(each: ITool): Promise<void> {
    return this.send('DELETE', toolPath(each.bundleID, each.slug, each.version));
  }

  /** What an import of a document would make; nothing is stored. */
  previewImport(document: unknown, server: string): Promise<IImportPreview> {
    return this.send('POST', 'tools/import/preview', { document, server });
  }

  importDocument(document: unknown, { server, slug, names, auth }: {
    server: string; slug: string; names: string[]; auth: string;
  }): Promise<IImported> {
    const body = { document, server, auth, choose: { names }, bundle: { slug } };
    return confirmingSecrets(confirmSecrets => this.send('POST', 'tools/import', { ...body, confirmSecrets }));
  }

  async send<T>(method: string, path: string, body?: unknown, query: Record<string, string> = {}): Promise<T> {
    const parameters = { ...query, ...(this.project ? { project: this.project } : {}) };
    const url = URLExt.join(this.settings.baseUrl, 'onetool', path) + URLExt.objectToQueryString(parameters);
    const init: RequestInit = { method };
    if (body !== undefined) init.body = JSON.stringify(body);
    const response = await ServerConnection.makeRequest(url, init, this.settings).catch(error => {
      throw error instanceof ServerConnection.NetworkError ? new RestError(NO_RESPONSE, 0, '', []) : error;
    });
    if (response.status === 204) return undefined as T;
    const reply = await response.json().catch(() => null);
    if (response.ok && reply?.ok !== false) return reply as T;
    if (reply === null && response.status === 404) throw new RestError(NO_API, 404, '', []);
    const error = reply?.error ?? {};
    throw new RestError(
      error.message ?? `The server responded with status ${response.status}.`, response.status, error.code ?? '',
      Array.isArray(error.details) ? error.details : [], error.reason ?? ''
    );
  }

  private async _all<T>(path: string, query: Record<string, string>): Promise<T[]> {
    const found: T[] = [];
    let pageToken: string | undefined;
    do {
      const page: { items: T[]; nextPageToken?: string } = await this.send(
        'GET', path, undefined, pageToken ? { ...query, pageToken } : query
      );
      found.push(...page.items);
      pageToken = page.nextPageToken;
    } while (pageToken);
    return found;
  }
}

/** Send a request. If it would send a secret to a new host, ask the user, and send it again with the confirmation. */
async function confirmingSecrets<T>(send: (confirmSecrets: string[]) => Promise<T>): Promise<T> {
  try {
    return await send([]);
  } catch (error) {
    if (!(error instanceof RestError) || error.reason !== 'secret_host') throw error;
    const body = error.details.map(({ message }) => message).join('\n');
    const buttons = [Dialog.cancelButton(), Dialog.warnButton({ label: 'Send it there' })];
    const { button } = await showDialog({ title: 'Send a secret to another host?', body, buttons, defaultButton: 0 });
    if (!button.accept) throw error;
    return send(error.details.map(({ secret, host }) => `${secret}=${host}`));
  }
}

function toolPath(bundleID: string, slug: string, version: string): string {
  return `tools/bundles/${bundleID}/tools/${encodeURIComponent(slug)}/version/${encodeURIComponent(version)}`;
}
