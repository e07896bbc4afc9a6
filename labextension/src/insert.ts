/** Putting calls into the notebook: into an empty current cell, else into one new cell below; and running it. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';

/** Insert code and make its cell the current one. */
export async function insertCode(panel: NotebookPanel, code: string): Promise<void> {
  await panel.context.ready; // before that, what is inserted is lost without a word
  const notebook = panel.content;
  const current = notebook.activeCell;
  const isFree = current?.model.type === 'code' && current.model.sharedModel.getSource().trim() === '';
  if (!isFree) {
    NotebookActions.insertBelow(notebook);
    if (notebook.activeCell?.model.type !== 'code') {
      NotebookActions.changeCellType(notebook, 'code');
    }
  }
  notebook.activeCell?.model.sharedModel.setSource(code);
  notebook.deselectAll();
}

/** Run the current cell and stay at it. */
export async function runCurrent(panel: NotebookPanel): Promise<void> {
  await NotebookActions.run(panel.content, panel.sessionContext);
}
