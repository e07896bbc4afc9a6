/** Putting calls into the notebook: into an empty code cell, else into one new cell below; and running it. */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';

/** What a dragged tool carries besides plain text. */
export const DRAGGED = 'application/x-onetool-tool';

/** Insert code at the current cell, and make its cell the current one. */
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
  notebook.deselectAll();
  const cell = notebook.activeCell;
  cell?.model.sharedModel.setSource(code);
  cell?.editor?.setCursorPosition({ line: code.split('\n').length - 1, column: code.split('\n').pop()?.length ?? 0 });
}

/** Run the current cell and stay at it. */
export async function runCurrent(panel: NotebookPanel): Promise<void> {
  await NotebookActions.run(panel.content, panel.sessionContext);
}

/** Take tools that are dropped on a notebook; gives back what ends that. */
export function acceptTools(panel: NotebookPanel, onDrop: (tool: string) => void): () => void {
  const { node } = panel.content;
  const isOurs = (event: DragEvent): boolean => event.dataTransfer?.types.includes(DRAGGED) ?? false;
  const over = (event: DragEvent): void => {
    if (isOurs(event)) {
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer!.dropEffect = 'copy';
    }
  };
  const drop = (event: DragEvent): void => {
    if (!isOurs(event)) {
      return;
    }
    over(event);
    const at = panel.content.widgets.findIndex(cell => cell.node.contains(event.target as Node));
    panel.content.activeCellIndex = at < 0 ? panel.content.widgets.length - 1 : at;
    onDrop(event.dataTransfer!.getData(DRAGGED));
  };
  node.addEventListener('dragover', over, true);
  node.addEventListener('drop', drop, true);
  return () => {
    node.removeEventListener('dragover', over, true);
    node.removeEventListener('drop', drop, true);
  };
}
