/** The screen Ask of a notebook: its questions go into cells and run there; what a model wrote is drawn by JupyterLab. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';

import { insertCode } from './notebook';
import { type AskOptions, createAsk } from '../screens/ask.js';
import type { Transport } from '../screens/transport.js';

export function createNotebookAsk(notebook: NotebookPanel, transport: Transport) {
  return createAsk(transport, {
    onAsk: code => ask(notebook, code),
    onStop: () => void notebook.sessionContext.session?.kernel?.interrupt(),
    markdown: () => drawnMarkdown(notebook)
  });
}

/** Run a question in a cell of its own; the focus stays where it is. Resolves with why it failed, or with ''. */
async function ask(notebook: NotebookPanel, code: string): Promise<string> {
  const cell = await insertCode(notebook, code);
  if (await NotebookActions.run(notebook.content, notebook.sessionContext)) return '';
  const { outputs } = (cell.isDisposed ? {} : cell.model.toJSON()) as { outputs?: { output_type: string; evalue?: string }[] };
  return outputs?.find(each => each.output_type === 'error')?.evalue || 'The cell did not run to its end; it says why.';
}

/** JupyterLab's own renderer of Markdown, which sanitizes it. Of texts that come while it draws, only the last is drawn. */
function drawnMarkdown({ content: { rendermime } }: NotebookPanel): ReturnType<NonNullable<AskOptions['markdown']>> {
  const renderer = rendermime.createRenderer('text/markdown');
  let wanted = '';
  let isDrawing = false;
  const draw = async (): Promise<void> => {
    isDrawing = true;
    for (let drawn: string | null = null; drawn !== wanted; ) {
      drawn = wanted;
      await renderer.renderModel(rendermime.createModel({ data: { 'text/markdown': drawn }, trusted: false }));
    }
    isDrawing = false;
  };
  return {
    element: renderer.node,
    show: text => {
      wanted = text;
      if (!isDrawing) void draw();
    }
  };
}
