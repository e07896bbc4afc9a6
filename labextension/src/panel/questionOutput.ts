/**
 * Draws a kernel's question in the output of the cell that asks. The output holds only the question's id: what is asked
 * comes from the kernel itself, so that a notebook from elsewhere cannot show a question of its own.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import type { KernelConnection } from './kernelConnection';
import { keepKeys } from '../screens/dom.js';

const QUESTION_MIME = 'application/vnd.onetool.question+json';

type Model = { data: Record<string, unknown> };

/** Draw the questions in every notebook. */
export function addQuestionOutputs(
  tracker: INotebookTracker, connectionOf: (notebook: NotebookPanel) => KernelConnection, openFile: (path: string) => unknown
): void {
  const add = (notebook: NotebookPanel): void =>
    notebook.content.rendermime.addFactory(
      { safe: true, mimeTypes: [QUESTION_MIME], createRenderer: () => new QuestionOutput(connectionOf(notebook), openFile) }, 0
    );
  tracker.forEach(add);
  tracker.widgetAdded.connect((_, notebook) => add(notebook));
}

/** Open the files that a question of ours names. The linker of JupyterLab would first ask whether the notebook is trusted. */
export function opensFiles(node: HTMLElement, open: (path: string) => unknown): void {
  node.addEventListener('click', event => {
    const path = (event.target as Element).closest<HTMLElement>('.otx-file')?.dataset.path;
    if (!path) return;
    event.stopPropagation();
    void open(path);
  });
}

class QuestionOutput extends Widget {
  constructor(private readonly connection: KernelConnection, openFile: (path: string) => unknown) {
    super();
    opensFiles(this.node, openFile);
    this.addClass('onetool-Question');
    keepKeys(this.node);
    connection.changed.connect(this._draw, this);
  }

  async renderModel(model: Model): Promise<void> {
    this._id = String((model.data[QUESTION_MIME] as { id?: unknown })?.id);
    this._draw();
    await this.connection.lookAgain();
  }

  override dispose(): void {
    this.connection.changed.disconnect(this._draw, this);
    super.dispose();
  }

  private _draw(): void {
    const { questions, state } = this.connection;
    const drawn = questions.has(this._id) ? 'open' : state === 'connecting' ? '' : 'over';
    if (drawn !== this._drawn) {
      this._drawn = drawn;
      // What goes takes the focus with it: the notebook has its keys again.
      if (this.node.contains(document.activeElement)) this.node.closest<HTMLElement>('.jp-Cell')?.focus();
      this.node.replaceChildren(this.connection.drawQuestion(this._id) ?? (drawn === 'over' ? 'This question is over.' : ''));
    }
  }

  private _id = '';
  private _drawn = '';
}
