/** What the REST API of onetool_ipy answers: its records, and why it refused. It needs nothing of JupyterLab. */

/** An error in one part of a request, by its JSON pointer; '' is the whole request. */
export interface IFieldError {
  pointer: string;
  message: string;
  /** If a secret would go to a new host: the name of the secret, and that host. */
  secret?: string;
  host?: string;
}

/** The server refused a request; `details` holds the error of each field. */
export class RestError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly details: IFieldError[],
    readonly reason = ''
  ) {
    super(message);
  }
}

export interface IBundle {
  bundleID: string;
  slug: string;
  description: string;
  isEnabled: boolean;
  isBuiltIn: boolean;
}

export interface ITool {
  bundleID: string;
  slug: string;
  version: string;
  description: string;
  type: string;
  http?: { request?: unknown };
  isEnabled: boolean;
  isBuiltIn: boolean;
  available: boolean;
  reason?: string;
  callCount: number;
}

export interface IImported {
  bundle: IBundle;
  tools: ITool[];
  /** Those of its hosts that HTTP tools may not reach yet. */
  blockedHosts?: string[];
  secrets?: { name: string }[];
  notes?: string[];
}

/** An operation of a document, by the name that its tool would have. */
export interface IOperation {
  name: string;
  method: string;
  url: string;
  tags: string[];
  description: string;
}

export interface IImportPreview {
  kind: string;
  bundle: Record<string, unknown>;
  operations: IOperation[];
  hosts: string[];
  secrets: { name: string }[];
  notes: string[];
}
