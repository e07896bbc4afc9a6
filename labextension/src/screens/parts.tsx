// How a screen is drawn, and what several screens draw alike: a failed request, icons, menus, the mark of an outcome.
import { effect, type Signal, untracked, useSignal } from '@preact/signals';
import { type ComponentChild, type ComponentChildren, type Key, render } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Input } from './controls.js';
import { elementOf, keepFocus, moveWithin } from './dom.js';
import { BADGES } from './format.js';
import type { LatestRequest, Requests } from './requests.js';

/**
 * Draw a view into an element: at once, and again when a signal that `view` reads has changed, before the next line runs.
 * Returns what ends it; the element stays as it is then. Signals that a component inside reads draw it a moment later.
 */
export function drawInto(element: Element, view: () => ComponentChild): () => void {
  return effect(() => {
    const drawn = view();
    untracked(() => render(drawn, element));
  });
}

/** A whole screen, in a tab or in a cell: `draw` draws it, `onKey` gets its keys. The focus stays in it when what has it goes. */
export function createScreen(
  tag: string, attributes: Record<string, string>, draw: (element: HTMLElement) => ComponentChild, onKey = (_: KeyboardEvent): void => {}
) {
  const element = elementOf(tag, attributes);
  element.addEventListener('keydown', onKey);
  const ends = [drawInto(element, () => draw(element)), keepFocus(element)];
  return { element, close: () => ends.forEach(end => end()) };
}

/** A place for an element that draws itself, such as another screen. */
export function Placed({ element, ...attributes }: {
  element: HTMLElement; key?: Key; class?: string; hidden?: boolean;
} & Record<string, unknown>) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current!.replaceChildren(element), [element]);
  return <div ref={place} {...attributes} />;
}

interface TabsProps<Kind extends string> {
  label: string;
  class?: string;
  /** Where each tab has a panel, whose id is this and the tab's kind, or what `panel` says. */
  id?: string;
  panel?: (kind: Kind) => string;
  /** Each with its title, and what stands behind it. */
  tabs: readonly (readonly [kind: Kind, title: string, more?: ComponentChild])[];
  selected: string | undefined;
  onSelect: (kind: Kind, event: MouseEvent) => void;
  hidden?: boolean;
}

/** Tabs, of which only the selected one is in the tab order; arrow keys reach the others. */
export function Tabs<Kind extends string>({
  label, class: kinds = '', id, panel = kind => kind, tabs, selected, onSelect, hidden
}: TabsProps<Kind>) {
  const ids = (kind: Kind) => (id ? { id: `${id}-${kind}-tab`, 'aria-controls': `${id}-${panel(kind)}` } : {});
  return (
    <div
      class={`otx-tabs ${kinds}`.trim()} role="tablist" aria-label={label} hidden={hidden} onKeyDown={event => moveWithin(event)?.click()}
    >
      {tabs.map(([kind, title, more]) => (
        <button
          key={kind} class="otx-tab" type="button" role="tab" {...ids(kind)} data-kind={kind} aria-selected={kind === selected}
          tabIndex={kind === selected ? 0 : -1} onClick={event => onSelect(kind, event)}
        >
          {title}
          {more}
        </button>
      ))}
    </div>
  );
}

/** What makes an element the panel of a tab of `Tabs` with this id. */
export function panelOf(id: string, kind: string, selected: string | undefined) {
  return { id: `${id}-${kind}`, role: 'tabpanel', 'aria-labelledby': `${id}-${kind}-tab`, hidden: kind !== selected } as const;
}

/** Why a request failed, and a button that sends it again, by `retry` where more belongs to it; nothing if it did not. */
export function Failure({ of: request, retry = () => request.again() }: { of: LatestRequest<any, any>; retry?: () => unknown }) {
  if (!request.failure.value) return null;
  return (
    <>
      {request.failure.value} <button class="otx-small" type="button" onClick={() => retry()}>Try again</button>
    </>
  );
}

/** A line drawing of 16 by 16, in the colour of the text. */
export function Drawing({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" class="otx-drawing">
      <path d={path} />
    </svg>
  );
}

const ICON = /^data:image\/(png|jpeg|webp|svg\+xml)[;,]/;

/** The icon of a server or tool, if it has one. It comes as data, so nothing is fetched; in an image nothing of it runs. */
export function Icon({ src }: { src: string | null | undefined }) {
  return ICON.test(src ?? '') ? (
    <img key={src} class="otx-icon" src={src!} alt="" onError={event => (event.currentTarget.hidden = true)} />
  ) : null;
}

/** A name that may go on in the next line behind a dot or an underscore, and so not within a word. */
export function breakable(name: string): ComponentChild[] {
  return name.split(/(?<=[._])/).flatMap((part, at) => (at ? [<wbr />, part] : [part]));
}

const MARKS: Record<string, string> = { ok: '✓', failed: '✗', running: '…' };

/** How a call went, as a mark with a name. */
export function Outcome({ outcome }: { outcome: string }) {
  return <span class={`otx-outcome otx-outcome-${outcome}`} role="img" aria-label={outcome}>{MARKS[outcome] ?? '–'}</span>;
}

/** A dot in the colour of a state: `ok`, `warning`, `failed` or `idle`. */
export function Dot({ mark }: { mark: string }) {
  return <span class={`otx-state otx-state-${mark}`} aria-hidden="true">●</span>;
}

export function ErrorLines({ id, messages }: { id?: string; messages: string[] }) {
  return (
    <div class="otx-error" role="alert" id={id} hidden={!messages.length}>
      {messages.map((message, at) => <div key={at}>{message}</div>)}
    </div>
  );
}

/** What a tool does to the world, as its author says. */
export function Badge({ badge }: { badge: string; key?: Key }) {
  return <span class={badge === 'destructive' ? 'otx-chip otx-failed' : 'otx-chip'} title={BADGES[badge]}>{badge}</span>;
}

/** The outcome of a call as a word. */
export function OutcomeChip({ outcome }: { outcome: string }) {
  return <span class={outcome === 'ok' || outcome === 'failed' ? `otx-chip otx-${outcome}` : 'otx-chip'}>{outcome}</span>;
}

interface MenuProps {
  label: ComponentChildren;
  /** What the button does, where its label is only a sign. */
  name?: string;
  /** Given by a view that closes the menu itself. */
  isOpen?: Signal<boolean>;
  kind?: string;
  onOpen?: () => void;
  children: ComponentChildren;
}

/** A button that opens a small box below it. Escape and a click elsewhere close it. */
export function Menu({ label, name, isOpen: given, kind = '', onOpen, children }: MenuProps) {
  const own = useSignal(false);
  const isOpen = given ?? own;
  const menu = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (!isOpen.value) return undefined;
    const onPointerDown = (event: Event): void => {
      if (!menu.current?.contains(event.target as Node)) isOpen.value = false;
    };
    document.addEventListener('pointerdown', onPointerDown, true);
    return () => document.removeEventListener('pointerdown', onPointerDown, true);
  }, [isOpen.value]);
  const toggle = (): void => {
    isOpen.value = !isOpen.peek();
    if (isOpen.peek()) onOpen?.();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || !isOpen.value) return;
    isOpen.value = false;
    button.current?.focus();
    event.stopPropagation();
  };
  return (
    <span ref={menu} class={`otx-menu ${kind}`.trim()} onKeyDown={onKeyDown}>
      <button ref={button} class="otx-small" type="button" title={name} aria-label={name} aria-expanded={isOpen.value} onClick={toggle}>
        {label}
      </button>
      <div class="otx-menu-body" hidden={!isOpen.value}>{children}</div>
    </span>
  );
}

/** A field for a secret that is missing. Its value goes to the kernel, and is never shown. */
export function SecretField({ name, requests, onKept = () => {} }: {
  name: string; requests: Requests; onKept?: () => unknown; key?: Key;
}) {
  const value = useSignal('');
  const failure = useSignal('');
  const isKept = useSignal(false);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!value.value) return void (failure.value = 'Type its value.');
    const reply = await requests.once<{ errors?: { message: string }[] }>('httpSecret', { name, value: value.value });
    if (reply.status === 'late') return;
    failure.value = reply.status === 'failed' ? reply.error.message : (reply.value.errors ?? []).map(({ message }) => message).join(' ');
    if (failure.value) return;
    value.value = '';
    isKept.value = true;
    onKept();
  };
  if (isKept.value) return <p class="otx-secret-field" role="status">{name} is in secrets.yaml now.</p>;
  return (
    <form class="otx-secret-field" onSubmit={save}>
      <label>
        <span>{name}</span>
        <Input
          label={`Value of ${name}`} type="password" placeholder="for secrets.yaml" value={value.value}
          onInput={text => (value.value = text)}
        />
      </label>
      <button class="otx-run" type="submit" aria-label={`Save ${name}`}>Save</button>
      {failure.value ? <span class="otx-error" role="alert">{failure.value}</span> : null}
    </form>
  );
}
