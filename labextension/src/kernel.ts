/**
 * What the panel asks of a kernel, and how it reads the answer.
 *
 * Nothing is imported into a kernel that has not loaded our extension, and the question leaves no
 * trace there: a silent execute request with one user expression.
 */

import type { Kernel } from '@jupyterlab/services';

const MIME = 'application/vnd.onetool.state+json';

const QUESTION =
  "__import__('importlib').import_module('onetool_ipy.faces.ipython.panel').state()" +
  " if 'onetool_ipy' in __import__('IPython').get_ipython().extension_manager.loaded else None";

/** What the kernel's toolbox holds. */
export interface IState {
  version: string;
  tools: number;
  packs: number;
}

/** Ask `kernel` for its state; null where our extension is not loaded. */
export async function askState(
  kernel: Kernel.IKernelConnection
): Promise<IState | null> {
  const { language_info } = await kernel.info;
  if (language_info.name !== 'python') {
    return null;
  }
  const request = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    stop_on_error: false,
    allow_stdin: false,
    user_expressions: { state: QUESTION }
  });
  const { content } = await request.done;
  return content.status === 'ok' ? readState(content.user_expressions.state) : null;
}

function readState(answer: unknown): IState | null {
  const data = (answer as { data?: Record<string, unknown> } | undefined)?.data;
  const state = data?.[MIME] as IState | undefined;
  return typeof state?.tools === 'number' ? state : null;
}
