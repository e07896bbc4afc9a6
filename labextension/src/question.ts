/**
 * The kernel's question whether a project is trusted, as a form in the cell that asks. Its buttons answer the text box
 * that JupyterLab shows below for `input()`; without a box nobody waits, and there are no buttons.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import { fill, show } from './ui/dom.js';
import type { IWouldRun } from './ui/trust.js';
import { trustForm } from './ui/trust.js';

export const TRUST_MIME = 'application/vnd.onetool.trust+json';
const BOX = '.jp-Stdin-input';

type Question = IWouldRun & { server: string };
type Model = { data: Record<string, unknown> };

/** Show the question as a form in every notebook. */
export function addQuestions(tracker: INotebookTracker): void {
  const add = (notebook: NotebookPanel): void =>
    notebook.content.rendermime.addFactory({ safe: true, mimeTypes: [TRUST_MIME], createRenderer: () => new QuestionForm() }, 0);
  tracker.forEach(add);
  tracker.widgetAdded.connect((_, notebook) => add(notebook));
}

class QuestionForm extends Widget {
  constructor() {
    super();
    this.addClass('onetool-Question');
  }

  async renderModel(model: Model): Promise<void> {
    const asked = model.data[TRUST_MIME] as Question;
    const { element, buttons } = trustForm(asked, { server: asked.server, onYes: () => this._answer('y'), onNo: () => this._answer('n') });
    element.classList.add('otx');
    this._buttons = buttons;
    fill(this.node, element);
    this._look();
  }

  override dispose(): void {
    this._watch?.disconnect();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    const area = this._area;
    if (area) {
      this._watch = new MutationObserver(() => this._look());
      this._watch.observe(area, { childList: true, subtree: true });
    }
    this._look();
  }

  protected override onBeforeDetach(): void {
    this._watch?.disconnect();
  }

  private get _area(): Element | null {
    return this.node.closest('.jp-OutputArea');
  }

  private get _box(): HTMLInputElement | null {
    return this._area?.querySelector<HTMLInputElement>(BOX) ?? null;
  }

  /** Buttons are there as long as someone waits for the answer. */
  private _look(): void {
    if (this._buttons && this._buttons.hidden !== !this._box) {
      show(this._buttons, this._box !== null);
    }
  }

  private _answer(value: string): void {
    const box = this._box;
    if (box) {
      box.value = value;
      box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    }
  }

  private _buttons: HTMLElement | null = null;
  private _watch: MutationObserver | null = null;
}
