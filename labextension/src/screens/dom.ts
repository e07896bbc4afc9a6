// Creates elements, and the keyboard behaviour that screens share: tabs, focus, debounced input, the clipboard. Text from
// tools becomes text nodes and attribute values. No function here accepts HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Props = Record<string, unknown> | null;

/** Make an element: `h('button.otx-run', {onclick: f, disabled: true}, 'Run')`. */
export function h(tag: string, props?: Props, ...children: Child[]): any {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) set(element, key, value);
  append(element, children);
  return element;
}

/** Replace the children of an element. */
export function fill<E extends Element>(element: E, ...children: Child[]): E {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Make `elements` the children of a list. Elements that stay are not moved, so they keep the focus. */
export function reconcile(list: Element, elements: Element[]): void {
  const kept = new Set(elements);
  for (const child of [...list.children]) if (!kept.has(child)) child.remove();
  elements.forEach((element, at) => {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  });
}

/** Call `fn` after `wait` milliseconds without another call. `.now()` calls it at once, `.cancel()` drops it. */
export function debounce<A extends unknown[], R>(wait: number, fn: (...args: A) => R): ((...args: A) => void) & { cancel(): void; now(...args: A): R } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const call = (...args: A): void => {
    clearTimeout(timer);
    timer = setTimeout(fn, wait, ...args);
  };
  call.cancel = () => clearTimeout(timer);
  call.now = (...args: A) => {
    clearTimeout(timer);
    return fn(...args);
  };
  return call;
}

/**
 * Keep the focus inside `root` when the focused element is removed. Otherwise the next key would reach the notebook,
 * where single letters delete cells. A click elsewhere still moves the focus, and so does Escape, if nothing inside has
 * a use for it: then the notebook has its keys again. Returns the function that stops this.
 */
export function keepFocus(root: HTMLElement): () => void {
  let isOutside = true;
  const onPointerDown = (event: Event): void => {
    isOutside = !root.contains(event.target as Node);
  };
  const onFocusOut = (event: FocusEvent): void => {
    if (event.relatedTarget || isOutside) return;
    queueMicrotask(() => requestAnimationFrame(() => {
      const { activeElement } = document;
      const isLost = !activeElement || activeElement === document.body || activeElement.contains(root);
      if (isLost && !isOutside && root.isConnected && document.hasFocus()) root.focus({ preventScroll: true });
    }));
  };
  const onFocusIn = () => {
    isOutside = false;
  };
  root.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.defaultPrevented) root.closest<HTMLElement>('.jp-Cell')?.focus();
  });
  document.addEventListener('pointerdown', onPointerDown, true);
  root.addEventListener('focusin', onFocusIn);
  root.addEventListener('focusout', onFocusOut);
  root.tabIndex = -1;
  return () => document.removeEventListener('pointerdown', onPointerDown, true);
}

/** Give an element the focus, unless the person has gone on to something outside of `root` by now. */
export function offerFocus(element: HTMLElement | null, root: HTMLElement): void {
  const { activeElement } = document;
  if (!activeElement || activeElement === document.body || root.contains(activeElement)) element?.focus();
}

/**
 * Let Ctrl+S pressed inside `root` save the notebook around it. Our screens keep their keys from the notebook's shortcuts,
 * so the key is pressed again on the element around them.
 */
export function passSaveOn(root: HTMLElement): void {
  root.addEventListener(
    'keydown',
    event => {
      if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return;
      event.stopPropagation();
      const isTaken = !root.parentElement!.dispatchEvent(new KeyboardEvent('keydown', event));
      if (isTaken) event.preventDefault();
    },
    true
  );
}

/** Let arrow keys, Home and End move between the tabs of a list: what its `keydown` does. */
export function moveBetweenTabs(event: KeyboardEvent): void {
  const all = [...(event.currentTarget as HTMLElement).children] as HTMLElement[];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const keys: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 };
  const next = keys[event.key];
  if (next === undefined || at < 0) return;
  all[next % all.length].focus();
  all[next % all.length].click();
  event.preventDefault();
  event.stopPropagation();
}

export function addTabKeys<E extends HTMLElement>(tabs: E): E {
  tabs.addEventListener('keydown', moveBetweenTabs);
  return tabs;
}

/** Copy a text to the clipboard; resolves with false if the browser forbids it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h('textarea', { style: 'position:fixed;opacity:0', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand('copy');
    area.remove();
    return isCopied;
  }
}

let ids = 0;

/** An id that is unique in the page. */
export function uniqueId(stem: string): string {
  ids += 1;
  return `otx-${stem}-${ids}-${Math.floor(Math.random() * 1e9).toString(36)}`;
}

function set(element: any, key: string, value: any): void {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
  else if (key === 'value') element.value = value;
  else if (key === 'data') for (const [name, text] of Object.entries(value)) element.dataset[name] = text;
  else element.setAttribute(key, value === true ? '' : String(value));
}

function append(element: Element, children: Child[]): void {
  for (const child of children.flat(Infinity as 1) as Child[]) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}
