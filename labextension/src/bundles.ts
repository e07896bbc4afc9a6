/**
 * The bundles of a project over the REST API: list, switch, create, edit as a new version, live
 * test, import, delete. Everything shown is text; what the server refuses stands at its field.
 */

import type { IBundle, ITool, Rest } from './rest';
import { RestError } from './rest';
import { ToolForm } from './toolform';
import { fill, h, show } from './ui/dom.js';

export class BundlesView {
  constructor(
    private readonly rest: Rest,
    private readonly options: { onChanged: () => void }
  ) {
    this._notice = show(h('div.otx-notice', { role: 'alert' }), false);
    this._list = h('div.onetool-Bundles-list');
    this._editor = show(h('div.onetool-Bundles-editor'), false);
    const bar = h(
      'div.otx-bar',
      null,
      h('button.otx-small', { type: 'button', onclick: () => this.create() }, 'New HTTP tool'),
      h('button.otx-small', { type: 'button', onclick: () => this._askImport() }, 'Import OpenAPI'),
      h('button.otx-small', { type: 'button', onclick: () => void this.load(), title: 'Look again', 'aria-label': 'Look again' }, '↻')
    );
    this.element = h('div.onetool-Bundles', null, bar, this._notice, this._editor, this._list);
    void this.load();
  }

  readonly element: HTMLElement;

  get project(): string {
    return this.rest.project;
  }

  async load(): Promise<void> {
    await this._try(async () => {
      const bundles = await this.rest.bundles();
      bundles.sort((a, b) => Number(a.isBuiltIn) - Number(b.isBuiltIn) || a.slug.localeCompare(b.slug));
      this._bundles = bundles;
      fill(this._list, bundles.map(bundle => this._bundle(bundle)));
    });
  }

  /** Begin a new HTTP tool. */
  create(): void {
    this._edit(new ToolForm(this.rest, { bundles: this._bundles, onSaved: () => this._saved(), onClosed: () => this._close() }));
  }

  close(): void {
    this._isClosed = true;
  }

  private _bundle(bundle: IBundle): HTMLElement {
    const tools = h('div.onetool-Bundles-tools', { hidden: true });
    const toggle = h(
      'button.otx-toggle',
      {
        type: 'button',
        'aria-expanded': 'false',
        onclick: async () => {
          const isOpen = tools.hidden;
          show(tools, isOpen);
          toggle.parentElement.setAttribute('aria-expanded', String(isOpen));
          if (isOpen) {
            await this._openTools(bundle, tools);
          }
        }
      },
      h('strong', null, bundle.slug),
      bundle.isBuiltIn ? h('span.otx-chip', null, 'built in') : null
    );
    const remove = bundle.isBuiltIn ? null : this._twice('Delete', `Delete the bundle ${bundle.slug}`, () => this.rest.deleteBundle(bundle.bundleID));
    return h(
      'div.onetool-Bundle',
      { data: { slug: bundle.slug } },
      h('div.onetool-Bundle-head', null, toggle, this._switch(`Bundle ${bundle.slug}`, bundle.isEnabled, isOn => this.rest.switchBundle(bundle.bundleID, isOn)), remove),
      bundle.description ? h('div.otx-quiet', null, bundle.description) : null,
      tools
    );
  }

  private async _openTools(bundle: IBundle, box: HTMLElement): Promise<void> {
    await this._try(async () => {
      const tools = await this.rest.tools(bundle.bundleID);
      fill(box, tools.length ? tools.map(tool => this._tool(bundle, tool)) : h('p.otx-quiet', null, 'No tool in it yet.'));
    });
  }

  private _tool(bundle: IBundle, tool: ITool): HTMLElement {
    const edit = () =>
      this._edit(new ToolForm(this.rest, { bundles: this._bundles, bundle, tool, onSaved: () => this._saved(), onClosed: () => this._close() }));
    return h(
      'div.onetool-Tool',
      { data: { slug: tool.slug, version: tool.version } },
      h('div.otx-tool-text', null, h('div.otx-tool-name', null, `${tool.slug} `, h('span.otx-chip', null, tool.version)), h('div.otx-tool-said', null, tool.available ? tool.description : (tool.reason ?? 'not available'))),
      this._switch(`${tool.slug} ${tool.version}`, tool.isEnabled, isOn => this.rest.switchTool(tool, isOn)),
      tool.type === 'http' ? h('button.otx-small', { type: 'button', 'aria-label': `Edit ${tool.slug}`, onclick: edit }, 'Edit') : null,
      tool.isBuiltIn ? null : this._twice('Delete', `Delete ${tool.slug} ${tool.version}`, () => this.rest.deleteTool(tool))
    );
  }

  /** A switch that shows what the server has, also when it refuses. */
  private _switch(label: string, isOn: boolean, set: (isOn: boolean) => Promise<unknown>): HTMLElement {
    const box = h('input', { type: 'checkbox', role: 'switch', 'aria-label': label, title: isOn ? 'on' : 'off' }) as HTMLInputElement;
    box.checked = isOn;
    box.addEventListener('change', async () => {
      const wanted = box.checked;
      if (await this._try(() => set(wanted))) {
        this.options.onChanged();
      } else {
        box.checked = !wanted;
      }
    });
    return box;
  }

  /** A button that is pressed twice: no dialog, and nothing is deleted by a slip. */
  private _twice(word: string, label: string, act: () => Promise<unknown>): HTMLElement {
    let isSure = false;
    const button = h(
      'button.otx-small',
      {
        type: 'button',
        'aria-label': label,
        onclick: async () => {
          if (!isSure) {
            isSure = true;
            fill(button, 'Sure?');
            return;
          }
          if (await this._try(act)) {
            this.options.onChanged();
          }
          await this.load();
        },
        onblur: () => {
          isSure = false;
          fill(button, word);
        }
      },
      word
    );
    return button;
  }

  private _askImport(): void {
    const source = h('textarea.otx-input', { rows: 4, placeholder: 'Paste an OpenAPI 3 document (JSON), or its address', 'aria-label': 'OpenAPI document or address', spellcheck: 'false' });
    const slug = h('input.otx-input', { type: 'text', placeholder: 'my-api', 'aria-label': 'Name of the bundle', spellcheck: 'false' });
    const said = h('div.otx-error', { role: 'alert', hidden: true });
    const run = async () => {
      const text = source.value.trim();
      try {
        const document = text.startsWith('{') ? JSON.parse(text) : text;
        const { tools } = await this.rest.importOpenapi(document, slug.value.trim());
        this._close();
        show(fill(this._notice, `${tools.length} tools imported.`), true);
        this.options.onChanged();
        await this.load();
      } catch (error) {
        show(fill(said, (error as Error).message), true);
      }
    };
    show(
      fill(this._editor, h('h3', null, 'Import OpenAPI'), source, slug, said, h('div.otx-actions', null, h('button.otx-run', { type: 'button', onclick: run }, 'Import'), h('button.otx-small', { type: 'button', onclick: () => this._close() }, 'Close'))),
      true
    );
    source.focus();
  }

  private _edit(form: ToolForm): void {
    show(fill(this._editor, form.element), true);
    form.focus();
  }

  private _close(): void {
    show(fill(this._editor), false);
  }

  private async _saved(): Promise<void> {
    this.options.onChanged();
    await this.load();
  }

  private async _try(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      if (!this._isClosed) {
        show(this._notice, false);
      }
      return true;
    } catch (error) {
      const said = error instanceof RestError && error.status === 403 && this.project ? `${error.message} (${this.project})` : (error as Error).message;
      show(fill(this._notice, said), true);
      return false;
    }
  }

  private readonly _notice: HTMLElement;
  private readonly _list: HTMLElement;
  private readonly _editor: HTMLElement;
  private _bundles: IBundle[] = [];
  private _isClosed = false;
}
