/**
 * Renders the kernel's trust question as a form in the output of the cell. Its buttons fill in the text box that
 * JupyterLab shows below for `input()`. Without that box the kernel does not wait, and there are no buttons.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import { fill, type IWouldRun, show, trustForm } from './ui/index.js';

const TRUST_MIME = 'application/vnd.onetool.trust+json';
const INPUT_BOX = '.jp-Stdin-input';

type Question = IWouldRun & { server: string };
type Model = { data: Record<string, unknown> };

/** Render the question as a form in every notebook. */
export function addTrustPrompts(tracker: INotebookTracker): void {
  const add = (notebook: NotebookPanel): void =>
    notebook.content.rendermime.addFactory({ safe: true, mimeTypes: [TRUST_MIME], createRenderer: () => new TrustPrompt() }, 0);
  tracker.forEach(add);
  tracker.widgetAdded.connect((_, notebook) => add(notebook));
}

class TrustPrompt extends Widget {
  constructor() {
    super();
    this.addClass('onetool-TrustPrompt');
  }

  async renderModel(model: Model): Promise<void> {
    const question = model.data[TRUST_MIME] as Question;
    const { element, buttons } = trustForm(question, { server: question.server, onYes: () => this._answer('y'), onNo: () => this._answer('n') });
    element.classList.add('otx');
    this._buttons = buttons;
    fill(this.node, element);
    this._updateButtons();
  }

  override dispose(): void {
    this._observer?.disconnect();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    const area = this._outputArea;
    if (area) {
      this._observer = new MutationObserver(() => this._updateButtons());
      this._observer.observe(area, { childList: true, subtree: true });
    }
    this._updateButtons();
  }

  protected override onBeforeDetach(): void {
    this._observer?.disconnect();
  }

  private get _outputArea(): Element | null {
    return this.node.closest('.jp-OutputArea');
  }

  private get _inputBox(): HTMLInputElement | null {
    return this._outputArea?.querySelector<HTMLInputElement>(INPUT_BOX) ?? null;
  }

  /** Show the buttons while the kernel waits for an answer. */
  private _updateButtons(): void {
    if (this._buttons && this._buttons.hidden !== !this._inputBox) {
      show(this._buttons, this._inputBox !== null);
    }
  }

  private _answer(value: string): void {
    const box = this._inputBox;
    if (box) {
      box.value = value;
      box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    }
  }

  private _buttons: HTMLElement | null = null;
  private _observer: MutationObserver | null = null;
}
