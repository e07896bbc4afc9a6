/**
 * Where the tools of a project come from, in one list: its bundles, over the REST API, the MCP servers and the packs of Python
 * of its kernel; and the box that adds one. Making and editing an HTTP tool is in a tab of its own (mainTabs.tsx), and so is
 * the import of a document (importScreen.tsx).
 *
 * A load changes data only. What a person began here, such as a delete button that was pressed once, an open bundle or the
 * sentence of a refused action, is state of its own, which no load touches. It imports nothing of JupyterLab.
 */

import { computed, effect, signal } from '@preact/signals';
import { type ComponentChild, createRef, type Key, type RefObject, render } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { AddBox, type IAdding, type IDocument } from './addBox.js';
import { type IBundle, type ITool, RestError } from './restApi.js';
import type { RestClient } from './restClient';
import { Select, useSure } from '../screens/controls.js';
import { elementOf, offerFocus } from '../screens/dom.js';
import { counted } from '../screens/format.js';
import type { HttpPlace } from '../screens/httpEditor.js';
import { Failure, Outcome } from '../screens/parts.js';
import { type Ask, type LatestRequest, type Reply, Requests, type Source } from '../screens/requests.js';
import type { Servers } from '../screens/servers.js';
import type { Payload } from '../screens/transport.js';

/** How the tools of a bundle went. */
interface IRuns {
  runs: { tool: string; outcome: string; ms: number; message: string; call: string }[];
}

/** The environments of a bundle, and the one that it uses; '' if that is none of them. */
interface IEnvironments {
  names: string[];
  active: string;
}

/** The bundles, and the tools of those that were open when they were loaded. */
interface IBundles {
  bundles: IBundle[];
  tools: Map<string, ITool[]>;
}

/** What came of the last action: sentences, and a question whose yes does the rest. */
interface INotice {
  lines: string[];
  question?: { yes: string; onYes: () => void; onCancel: () => void };
}

/** A pack of Python; `action` is where its file opens. */
interface IPack {
  name: string;
  tools: number;
  disabled: boolean;
  where: string;
  action: { kind: string; path: string; line: number | null } | null;
}

interface IOptions {
  /** Make sure that a kernel can answer; the reason why none does. */
  connect: IAdding['connect'];
  onChanged: () => void;
  onEdit: (place: HttpPlace) => void;
  onImport: (document?: IDocument) => void;
  /** Servers were added. */
  onAdded: (names: string[]) => void;
  /** Show the tools of a pack. */
  onShow: (name: string) => void;
  onOpen: (path: string, line: number | null) => void;
}

/** How long a list waits for the kernel, which may be busy. */
const SOON_MS = 700;

export class SourcesView {
  constructor(
    readonly rest: RestClient,
    kernel: Source,
    readonly options: IOptions
  ) {
    this.requests = new Requests(kernel);
    this.loads = this.requests.latestOf((waitMs: number) => this._read(waitMs));
    this._environments = this.requests.latest('environments');
    this._packs = this.requests.latest('packs');
    this.adding = new AddBox(this.requests, {
      connect: options.connect, onHttp: pasted => options.onEdit({ pasted }), onImport: options.onImport,
      onAdded: names => (void this.load(), options.onAdded(names))
    });
    this.project = signal(rest.project);
    this._followEnvironments();
    render(<View view={this} />, this.element);
    void this.load(SOON_MS);
  }

  readonly element = elementOf('div.onetool-Sources');
  readonly adding: AddBox;
  /** The MCP servers, while a kernel is connected. */
  readonly servers = signal<Servers | null>(null);
  readonly requests: Requests;
  readonly loads: LatestRequest<number, IBundles>;
  readonly project;
  readonly notice = signal<INotice | null>(null);
  readonly opened = signal<ReadonlySet<string>>(new Set());
  readonly environments = signal<Record<string, IEnvironments>>({});
  /** Whether the pointer is over the list. */
  readonly isPointed = signal(false);
  readonly newButton = createRef<HTMLButtonElement>();

  /** The person's own packs of Python. */
  get packs(): IPack[] {
    return (this.servers.value && this._packs.value.value?.items) || [];
  }

  /** Show the bundles of this project; what was opened stays open. */
  async follow(project: string): Promise<void> {
    if (project !== this.rest.project) this.notice.value = null;
    this.rest.project = this.project.value = project;
    await this.load();
  }

  /** Load the bundles again; resolves once no later load is under way. The environments are waited for so long. */
  async load(waitMs = 0): Promise<void> {
    const own = (this._latest = this.loads.send(waitMs));
    await own;
    if (own !== this._latest) await this._latest;
  }

  /** Load the bundles again after something else changed them. */
  async refresh(): Promise<void> {
    await this.loads.again();
  }

  /** Show a tool that was saved in an editor. */
  async saved(name: string): Promise<void> {
    this._open(name.split('.')[0], true);
    this.options.onChanged();
    await this.load();
  }

  close(): void {
    this.requests.close();
  }

  toggle(slug: string): void {
    const isOpen = !this.opened.value.has(slug);
    this._open(slug, isOpen);
    if (isOpen) void this.load();
  }

  /** Change something on the server, then load. Says why where it fails. `onDone` comes before the load. */
  async change(work: () => Promise<unknown>, onDone = (): void => {}): Promise<void> {
    const reply = await this._do(work);
    if (reply.status === 'ok') {
      onDone();
      this.options.onChanged();
      await this.load();
    }
  }

  /** Let a bundle use another environment, after a yes to what is new: its host, and the secrets that go there. */
  async switchEnvironment(slug: string, name: string, back: () => void, agreed: string[] = []): Promise<void> {
    type Answer = { questions?: { key: string; text: string }[]; notes?: string[] };
    const reply = await this._do(ask => ask<Answer>('switchEnvironment', { bundle: slug, name, agreed }));
    if (reply.status !== 'ok') return;
    const { questions = [], notes = [] } = reply.value;
    if (!questions.length) {
      if (notes.length) this.notice.value = { lines: notes };
      this.options.onChanged();
      return this.load(SOON_MS);
    }
    const onCancel = (): void => {
      back();
      this.notice.value = null;
    };
    const onYes = (): void => {
      back();
      void this.switchEnvironment(slug, name, back, [...agreed, ...questions.map(({ key }) => key)]);
    };
    this.notice.value = { lines: questions.map(({ text }) => text), question: { yes: `Switch to ${name}`, onYes, onCancel } };
  }

  /** The last run of all tools of a bundle. */
  runOf(slug: string): LatestRequest<Payload, IRuns> {
    return this.requests.latest('runBundle', slug);
  }

  /** Call the tools of a bundle. */
  async runAll(slug: string): Promise<void> {
    const reply = await this.runOf(slug).send({ bundle: slug });
    if (reply.status === 'ok') this.options.onChanged();
  }

  private _open(slug: string, isOpen: boolean): void {
    const opened = new Set(this.opened.value);
    opened[isOpen ? 'add' : 'delete'](slug);
    this.opened.value = opened;
  }

  /**
   * The bundles, and the tools of those that are open. At first, and after a switch, the environments are drawn together with
   * them, since a line that came later would move what is below it. A busy kernel does not keep the bundles away.
   */
  private async _read(waitMs: number): Promise<IBundles> {
    const others = Promise.all([this._environments.again(), this._packs.again(), this.servers.peek()?.load()]);
    try {
      const bundles = await this.rest.bundles();
      bundles.sort((a, b) => a.slug.localeCompare(b.slug));
      const open = bundles.filter(bundle => this.opened.peek().has(bundle.slug));
      const tools = await Promise.all(open.map(async bundle => [bundle.slug, await this.rest.tools(bundle.bundleID)] as const));
      await Promise.race([others, new Promise(resolve => window.setTimeout(resolve, waitMs))]);
      return { bundles, tools: new Map(tools) };
    } catch (error) {
      throw this._explained(error);
    }
  }

  /** Environments that come after the bundles are drawn at once, unless somebody points at what their lines would move. */
  private _followEnvironments(): void {
    const known = computed(() => this._environments.value.value ?? {});
    effect(() => {
      const lines = Object.keys(known.value).join();
      if (!this.isPointed.value || lines === Object.keys(this.environments.peek()).join()) this.environments.value = known.value;
    });
    this.loads.value.subscribe(() => {
      this.environments.value = known.peek();
    });
  }

  /** Do what a person asked for; the sentence of the action before goes, and where it fails its own is shown. */
  private async _do<T>(work: (ask: Ask) => Promise<T>): Promise<Reply<T>> {
    this.notice.value = null;
    const reply = await this.requests.onceOf(work);
    if (reply.status === 'failed') this.notice.value = { lines: [this._explained(reply.error).message] };
    return reply;
  }

  /** An error in words; which folder the server does not serve is known here alone. */
  private _explained(error: unknown): Error {
    const isForbidden = error instanceof RestError && error.status === 403 && this.rest.project;
    return isForbidden ? new Error(`${error.message} (${this.rest.project})`) : (error as Error);
  }

  private readonly _environments: LatestRequest<Payload, Record<string, IEnvironments>>;
  private readonly _packs: LatestRequest<Payload, { items: IPack[] }>;
  private _latest: Promise<unknown> | null = null;
}

function View({ view }: { view: SourcesView }) {
  const { options, notice, loads, isPointed, adding } = view;
  const folder = view.project.value;
  const told = view.servers.value?.notice();
  const refresh = (): void => {
    notice.value = null;
    void view.load();
  };
  return (
    <>
      <adding.View />
      <div class="otx-bar">
        <button ref={view.newButton} class="otx-small" type="button" onClick={() => options.onEdit({})}>New HTTP tool</button>
        <button class="otx-small" type="button" onClick={() => options.onImport()}>Import tools</button>
      </div>
      <div class="otx-bar onetool-Sources-bar">
        <span class="otx-muted onetool-Sources-project" title={folder || 'The folder in which Jupyter was started'}>
          Project: {folder.split('/').filter(Boolean).pop() ?? 'none (Jupyter\'s start folder)'}
        </span>
        <button class="otx-small" type="button" title="Refresh" aria-label="Refresh" onClick={refresh}>↻</button>
      </div>
      <div class="otx-notice" role="status" hidden={!notice.value && !loads.failure.value}>
        {notice.value ? <Notice notice={notice.value} root={view.element} /> : null}
        {loads.failure.value ? <div><Failure of={loads} /></div> : null}
      </div>
      {told?.text ? <p class={told.isFailed ? 'otx-error' : 'otx-muted'} role={told.isFailed ? 'alert' : 'status'}>{told.text}</p> : null}
      <div class="onetool-Sources-list" onMouseEnter={() => (isPointed.value = true)} onMouseLeave={() => (isPointed.value = false)}>
        {loads.value.value ? <List view={view} bundles={loads.value.value.bundles} /> : null}
      </div>
    </>
  );
}

function Notice({ notice: { lines, question }, root }: { notice: INotice; root: HTMLElement }) {
  const yes = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (question) offerFocus(yes.current!, root);
  }, [question]);
  return (
    <>
      {lines.map(line => (question ? <p key={line}>{line}</p> : <div key={line}>{line}</div>))}
      {question ? (
        <div class="otx-bar">
          <button ref={yes} class="otx-run" type="button" onClick={question.onYes}>{question.yes}</button>
          <button class="otx-small" type="button" onClick={question.onCancel}>Cancel</button>
        </div>
      ) : null}
    </>
  );
}

/** What is one's own, by name; then the packs that we ship. A name stands once, whoever else has it. */
function List({ view, bundles }: { view: SourcesView; bundles: IBundle[] }) {
  const rows = new Map<string, ComponentChild>();
  for (const pack of view.packs) rows.set(pack.name, <Pack key={`pack ${pack.name}`} view={view} pack={pack} />);
  for (const server of view.servers.value?.items() ?? []) rows.set(server.name, view.servers.value!.row(server));
  const drawn = (isBuiltIn: boolean) => bundles.filter(bundle => bundle.isBuiltIn === isBuiltIn).map(bundle => [
    bundle.slug, <Bundle key={bundle.bundleID} view={view} bundle={bundle} />
  ] as const);
  for (const [slug, row] of drawn(false)) rows.set(slug, row);
  const names = [...rows.keys()].sort((a, b) => a.localeCompare(b));
  return (
    <>
      {names.length ? <div role="list" aria-label="Sources">{names.map(name => rows.get(name))}</div> : (
        <p class="otx-muted onetool-Sources-none">Nothing of your own yet. Paste something above.</p>
      )}
      <h3>Built-in packs</h3>
      <div role="list" aria-label="Built-in packs">{drawn(true).map(([, row]) => row)}</div>
    </>
  );
}

/** A pack of Python: its name shows its tools, and its file opens. */
function Pack({ view, pack: { name, tools, disabled, where, action } }: { view: SourcesView; pack: IPack; key?: Key }) {
  return (
    <div class="onetool-Bundle" role="listitem" data-slug={name}>
      <div class="onetool-Bundle-head">
        <button class="otx-expand onetool-Pack" type="button" title={`Show the tools of ${name}`} onClick={() => view.options.onShow(name)}>
          <strong>{name}</strong> <span class="otx-chip">Python</span>
          {disabled ? <> <span class="otx-chip">off</span></> : null}
        </button>
        <span class="otx-muted">{counted(tools, 'tool')}</span>
        {action?.kind === 'open' ? (
          <button
            class="otx-small" type="button" title={where} aria-label={`Open the file of ${name}`}
            onClick={() => view.options.onOpen(action.path, action.line)}
          >
            File
          </button>
        ) : null}
      </div>
    </div>
  );
}

function Bundle({ view, bundle }: { view: SourcesView; bundle: IBundle; key?: Key }) {
  const { slug, bundleID, description, isEnabled, isBuiltIn } = bundle;
  const { rest } = view;
  const box = useRef<HTMLInputElement>(null);
  const isOpen = view.opened.value.has(slug);
  const tools = view.loads.value.value?.tools.get(slug);
  const environments = view.environments.value[slug];
  return (
    <div class="onetool-Bundle" role="listitem" data-slug={slug}>
      <div class="onetool-Bundle-head">
        <button class="otx-expand" type="button" aria-expanded={isOpen} onClick={() => view.toggle(slug)}>
          <strong>{slug}</strong> <span class="otx-chip">{isBuiltIn ? 'Python' : 'HTTP'}</span>
          {isEnabled ? null : <> <span class="otx-chip">off</span></>}
        </button>
        {environments && !isBuiltIn ? <EnvironmentSelect view={view} slug={slug} own={environments} /> : null}
        {isBuiltIn ? null : (
          <button
            class="otx-small" type="button" aria-label={`Run all tools of ${slug}`}
            title="Call each tool that only reads, with example arguments" onClick={() => view.runAll(slug)}
          >
            Run all
          </button>
        )}
        <Switch
          requests={view.requests} label={`${isBuiltIn ? 'Pack' : 'Bundle'} ${slug}`} isOn={isEnabled}
          set={isOn => view.change(() => rest.switchBundle(bundleID, isOn))} input={box}
        />
        {isBuiltIn ? null : (
          <DeleteButton
            view={view} name={slug} label={`Delete the bundle ${slug}`} act={() => rest.deleteBundle(bundleID)} next={view.newButton}
          />
        )}
      </div>
      {description ? <div class="otx-muted">{description}</div> : null}
      <div class="onetool-Bundle-report" role="status"><Report view={view} slug={slug} /></div>
      <div class="onetool-Sources-tools" hidden={!isOpen}>
        {tools?.length === 0 ? <p class="otx-muted">No tools yet.</p> : tools?.map(tool => (
          <Tool key={`${tool.slug}@${tool.version}`} view={view} bundle={bundle} tool={tool} next={box} />
        ))}
      </div>
    </div>
  );
}

function Tool({ view, bundle, tool, next }: { view: SourcesView; bundle: IBundle; tool: ITool; next: RefObject<HTMLElement | null> }) {
  const { slug, version, description, callCount } = tool;
  const name = `${slug} ${version}`;
  return (
    <div class="onetool-Tool" data-slug={slug} data-version={version}>
      <div class="otx-tool-text">
        <div class="otx-tool-name">{slug} <span class="otx-chip">{version}</span></div>
        <div class="otx-tool-summary" title={description}>
          {tool.available ? `${description}${callCount ? ` · ${callCount} calls` : ''}` : (tool.reason ?? 'not available')}
        </div>
      </div>
      {tool.type === 'http' && tool.http?.request ? (
        <button
          class="otx-small" type="button" aria-label={`Edit ${name}`}
          onClick={() => view.options.onEdit({ bundle: bundle.slug, tool: slug, version })}
        >
          Edit
        </button>
      ) : null}
      <Switch
        requests={view.requests} label={name} isOn={tool.isEnabled} set={isOn => view.change(() => view.rest.switchTool(tool, isOn))}
      />
      {tool.isBuiltIn ? null : (
        <DeleteButton view={view} name={name} label={`Delete ${name}`} act={() => view.rest.deleteTool(tool)} next={next} />
      )}
    </div>
  );
}

/** What a person chose last, shown until it is done; then what is there is shown again. One that is chosen meanwhile is next. */
function useWish<T>(requests: Requests, set: (value: T) => Promise<void>): {
  wish: T | undefined; isBusy: boolean; choose: (value: T) => Promise<void>;
} {
  const [wish, setWish] = useState<{ value: T } | null>(null);
  const last = useRef(Promise.resolve());
  const choose = async (value: T): Promise<void> => {
    const own = { value };
    setWish(own);
    const reply = await requests.onceOf(() => (last.current = last.current.then(() => set(value))));
    if (reply.status !== 'late') setWish(latest => (latest === own ? null : latest));
  };
  return { wish: wish?.value, isBusy: wish !== null, choose };
}

/** The environments of a bundle, to switch between. */
function EnvironmentSelect({ view, slug, own }: { view: SourcesView; slug: string; own: IEnvironments }) {
  const select = useRef<HTMLSelectElement>(null);
  const { wish, isBusy, choose } = useWish(
    view.requests, (name: string) => view.switchEnvironment(slug, name, () => select.current?.focus())
  );
  return (
    <div class="onetool-Bundle-environment">
      <span class="otx-muted" aria-hidden="true">Environment</span>
      <Select
        ref={select} label={`Environment of ${slug}`} title="Environment" aria-busy={isBusy} value={wish ?? own.active}
        options={(own.active ? own.names : ['', ...own.names]).map(name => [name, name || 'other'])} onChange={choose}
      />
    </div>
  );
}

/** A switch that goes back if the server refuses the change. */
function Switch({ requests, label, isOn, set, input }: {
  requests: Requests; label: string; isOn: boolean; set: (isOn: boolean) => Promise<void>; input?: RefObject<HTMLInputElement | null>;
}) {
  const { wish, isBusy, choose } = useWish(requests, set);
  return (
    <input
      ref={input}
      type="checkbox"
      role="switch"
      aria-label={label}
      title={isOn ? 'Switch off' : 'Switch on'}
      checked={wish ?? isOn}
      aria-busy={isBusy}
      onChange={event => choose(event.currentTarget.checked)}
    />
  );
}

/** A delete button; `next` has the focus once it is done. */
function DeleteButton({ view, name, label, act, next }: {
  view: SourcesView; name: string; label: string; act: () => Promise<void>; next: RefObject<HTMLElement | null>;
}) {
  const [isAsked, presses] = useSure(() => view.change(act, () => offerFocus(next.current, view.element)));
  const question = `Delete ${name}?`;
  return (
    <button
      class="otx-small onetool-Delete" type="button" title={isAsked ? 'Press again to delete it' : 'Delete'}
      aria-label={isAsked ? question : label} {...presses}
    >
      ×{isAsked ? <span class="onetool-Delete-question">{question}</span> : null}
    </button>
  );
}

/** How each tool of a bundle went when all of them were run. */
function Report({ view, slug }: { view: SourcesView; slug: string }) {
  const request = view.runOf(slug);
  if (request.isPending.value) return <p class="otx-muted">Running …</p>;
  if (request.failure.value) {
    return <p class="otx-error"><Failure of={request} retry={() => view.runAll(slug)} /></p>;
  }
  const runs = request.value.value?.runs;
  return runs ? <Runs runs={runs} onClose={() => request.reset()} /> : null;
}

function Runs({ runs, onClose }: IRuns & { onClose: () => void }) {
  const count = (outcome: string): number => runs.filter(run => run.outcome === outcome).length;
  return (
    <>
      <div class="otx-bar">
        <strong>{`${count('ok')} ok, ${count('failed')} failed, ${count('skipped')} skipped`}</strong>
        <button class="otx-small" type="button" aria-label="Close the report" onClick={onClose}>×</button>
      </div>
      <ul>
        {runs.map(run => (
          <li key={run.tool} title={run.call}>
            <Outcome outcome={run.outcome} />
            <span class="otx-tool-name">{run.tool.split('.').pop()}</span>{' '}
            <span class="otx-muted">{run.message || `${Math.round(run.ms)} ms`}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
