// The elements that screens draw themselves into, and what they share beside: keys, focus, debounced input, the clipboard.
// No function here accepts HTML.

/** Make the element of a screen: `elementOf('section.otx-viewer', { 'aria-label': 'Result' })`. */
export function elementOf<E extends HTMLElement = HTMLElement>(tag: string, attributes: Record<string, string> = {}): E {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name) as E;
  element.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Call `fn` after `wait` milliseconds without another call. `.flush()` makes a call that waits, `.cancel()` drops it. */
export function debounce<A extends unknown[]>(wait: number, fn: (...args: A) => unknown) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let waiting: A | null = null;
  const call = (...args: A): void => {
    call.cancel();
    waiting = args;
    timer = setTimeout(call.flush, wait);
  };
  call.cancel = (): void => {
    clearTimeout(timer);
    waiting = null;
  };
  call.flush = (): void => {
    const args = waiting;
    call.cancel();
    if (args) fn(...args);
  };
  return call;
}

/**
 * Keep the focus inside `root` when the focused element is removed. Otherwise the next key would reach the notebook,
 * where single letters delete cells. A click elsewhere still moves the focus. Returns the function that stops this.
 */
export function keepFocus(root: HTMLElement): () => void {
  let isOutside = true;
  const onPointerDown = (event: Event): void => {
    isOutside = !root.contains(event.target as Node);
  };
  const onFocusOut = (event: FocusEvent): void => {
    if (event.relatedTarget || isOutside) return;
    requestAnimationFrame(() => {
      const isLost = !document.activeElement || document.activeElement.contains(root);
      if (isLost && !isOutside && root.isConnected && document.hasFocus()) root.focus({ preventScroll: true });
    });
  };
  document.addEventListener('pointerdown', onPointerDown, true);
  root.addEventListener('focusin', () => (isOutside = false));
  root.addEventListener('focusout', onFocusOut);
  root.tabIndex = -1;
  return () => document.removeEventListener('pointerdown', onPointerDown, true);
}

/**
 * Give the focus to an element, or to what `focus` chooses, unless the person has gone on by now: to something outside of `root`,
 * or to anything else than what had the focus `before`, if that is given. A focus that was lost is at the root or around it.
 */
export function offerFocus(target: { focus(): void } | null | undefined, root: HTMLElement, before?: Element | null): void {
  const { activeElement: now } = document;
  const isThere = before === undefined ? root.contains(now) : now === before;
  if (!now || now.contains(root) || isThere) target?.focus();
}

/**
 * Keep the keys pressed inside `host`, which is in a cell, from the notebook, where single letters delete cells. Escape, if
 * nothing inside has a use for it, gives the cell the focus. Ctrl+S and Ctrl+Shift+C, which opens the command palette, are
 * the application's: they are pressed again on the element around.
 */
export function keepKeys(host: HTMLElement): void {
  host.dataset.lmSuppressShortcuts = 'true';
  host.addEventListener('keydown', event => {
    event.stopPropagation();
    if (event.key === 'Escape' && !event.defaultPrevented) host.closest<HTMLElement>('.jp-Cell')?.focus();
  });
  host.addEventListener(
    'keydown',
    event => {
      const isPassed = event.key === 's' || (event.shiftKey && event.key === 'C');
      if (!isPassed || !(event.ctrlKey || event.metaKey)) return;
      event.stopPropagation();
      const isTaken = !host.parentElement!.dispatchEvent(new KeyboardEvent('keydown', event));
      if (isTaken) event.preventDefault();
    },
    true
  );
}

/** Let arrow keys, Home and End move the focus within a list: what its `keydown` does. Returns what has it then. */
export function moveWithin(event: KeyboardEvent): HTMLElement | null {
  const all = [...(event.currentTarget as HTMLElement).children] as HTMLElement[];
  const at = all.indexOf(document.activeElement as HTMLElement);
  const keys: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 };
  const next = keys[event.key];
  if (next === undefined || at < 0) return null;
  all[next % all.length].focus();
  event.preventDefault();
  event.stopPropagation();
  return all[next % all.length];
}

/** Copy a text to the clipboard; resolves with false if the browser forbids it. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = elementOf<HTMLTextAreaElement>('textarea', { style: 'position:fixed;opacity:0', 'aria-hidden': 'true' });
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
