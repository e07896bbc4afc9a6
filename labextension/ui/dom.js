// Creates elements, and the keyboard behaviour that screens share: tabs, focus, debounced input, the clipboard. Text from
// tools becomes text nodes and attribute values. No function here accepts HTML.

/** Make an element: `h('button.otx-run', {onclick: f, disabled: true}, 'Run')`. */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name || 'div');
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) set(element, key, value);
  append(element, children);
  return element;
}

/** Make an SVG element. */
export function svg(name, props, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(props ?? {})) element.setAttribute(key, String(value));
  append(element, children);
  return element;
}

/** A line drawing of 16 by 16, in the colour of the text. */
export function icon(path) {
  return svg('svg', { viewBox: '0 0 16 16', width: 14, height: 14, 'aria-hidden': 'true', class: 'otx-drawing' }, svg('path', { d: path }));
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Make `elements` the children of a list. Elements that stay are not moved, so they keep the focus. */
export function reconcile(list, elements) {
  const kept = new Set(elements);
  for (const child of [...list.children]) if (!kept.has(child)) child.remove();
  elements.forEach((element, at) => {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  });
}

/** Show or hide an element. */
export function show(element, isShown) {
  element.hidden = !isShown;
  return element;
}

/** A text with some of its letters in `<mark>`; spans are [start, end] in order. */
export function highlighted(text, spans) {
  const parts = [];
  let at = 0;
  for (const [start, end] of spans) {
    parts.push(text.slice(at, start), h('mark', null, text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at)];
}

/** Call `fn` after `wait` milliseconds without another call. `.now()` calls it at once, `.cancel()` drops it. */
export function debounce(wait, fn) {
  let timer = null;
  const call = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(fn, wait, ...args);
  };
  call.cancel = () => clearTimeout(timer);
  call.now = (...args) => {
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
export function keepFocus(root) {
  let isOutside = true;
  const onPointerDown = event => {
    isOutside = !root.contains(event.target);
  };
  const onFocusOut = event => {
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
    if (event.key === 'Escape' && !event.defaultPrevented) root.closest('.jp-Cell')?.focus();
  });
  document.addEventListener('pointerdown', onPointerDown, true);
  root.addEventListener('focusin', onFocusIn);
  root.addEventListener('focusout', onFocusOut);
  root.tabIndex = -1;
  return () => document.removeEventListener('pointerdown', onPointerDown, true);
}

/**
 * Let Ctrl+S pressed inside `root` save the notebook around it. Our screens keep their keys from the notebook's shortcuts,
 * so the key is pressed again on the element around them.
 */
export function passSaveOn(root) {
  root.addEventListener(
    'keydown',
    event => {
      if (event.key !== 's' || !(event.ctrlKey || event.metaKey)) return;
      event.stopPropagation();
      const isTaken = !root.parentElement.dispatchEvent(new KeyboardEvent('keydown', event));
      if (isTaken) event.preventDefault();
    },
    true
  );
}

/** Select one of the tabs. Only the selected tab is in the tab order; arrow keys reach the others. */
export function selectTab(tabs, isSelected) {
  for (const tab of tabs.children) {
    tab.setAttribute('aria-selected', String(isSelected(tab)));
    tab.tabIndex = isSelected(tab) ? 0 : -1;
  }
}

/** Make arrow keys, Home and End move between the tabs. */
export function addTabKeys(tabs) {
  tabs.addEventListener('keydown', event => {
    const all = [...tabs.children];
    const at = all.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (next === undefined || at < 0) return;
    all[next % all.length].focus();
    all[next % all.length].click();
    event.preventDefault();
    event.stopPropagation();
  });
  return tabs;
}

/** A button that opens a small box below it: `{element, button, content, close}`. Escape and a click elsewhere close it. */
export function menu(label, content, onOpen = () => {}) {
  const box = h('div.otx-menu-body', { hidden: true }, content);
  const button = h('button.otx-small', { type: 'button', 'aria-expanded': 'false', onclick: () => toggle(box.hidden) }, label);
  const element = h('span.otx-menu', null, button, box);
  const onPointerDown = event => element.contains(event.target) || toggle(false);
  function toggle(isOpen) {
    show(box, isOpen);
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) document.addEventListener('pointerdown', onPointerDown, true);
    else document.removeEventListener('pointerdown', onPointerDown, true);
    if (isOpen) onOpen();
  }
  element.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || box.hidden) return;
    toggle(false);
    button.focus();
    event.stopPropagation();
  });
  return { element, button, content: box, close: () => toggle(false) };
}

/** Copy a text to the clipboard; resolves with false if the browser forbids it. */
export async function copyText(text) {
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

/** An id that is unique in the page. */
export function uniqueId(stem) {
  uniqueId.last = (uniqueId.last ?? 0) + 1;
  return `otx-${stem}-${uniqueId.last}-${Math.floor(Math.random() * 1e9).toString(36)}`;
}

function set(element, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
  else if (key === 'value') element.value = value;
  else if (key === 'data') for (const [name, text] of Object.entries(value)) element.dataset[name] = text;
  else element.setAttribute(key, value === true ? '' : String(value));
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}
