// Small ways to make elements. Text from tools goes in as text nodes and attribute values, never as markup: there is no
// way here to hand over HTML.

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

/** Replace what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Show or hide without moving anything else. */
export function show(element, isShown) {
  element.hidden = !isShown;
  return element;
}

/** A text with some of its letters marked; spans are [start, end] in code points, in order. */
export function marked(text, spans) {
  const letters = [...text];
  const parts = [];
  let at = 0;
  for (const [start, end] of spans) {
    parts.push(letters.slice(at, start).join(''), h('mark', null, letters.slice(start, end).join('')));
    at = end;
  }
  return [...parts, letters.slice(at).join('')];
}

/** Call a function once things have been quiet for so many milliseconds. `.now()` does not wait, `.stop()` drops it. */
export function debounced(wait, fn) {
  let timer = null;
  const call = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      fn(...args);
    }, wait);
  };
  call.stop = () => clearTimeout(timer);
  call.now = (...args) => {
    clearTimeout(timer);
    return fn(...args);
  };
  return call;
}

/**
 * Keep the focus inside when what had it goes away: else the next key would go to the notebook, which deletes cells by
 * single letters. Someone who clicks elsewhere takes the focus along. Gives back what ends that.
 */
export function keepFocus(root) {
  let isOutside = true;
  const pressed = event => {
    isOutside = !root.contains(event.target);
  };
  const left = event => {
    if (event.relatedTarget || isOutside) return;
    queueMicrotask(() => requestAnimationFrame(() => {
      const { activeElement } = document;
      const isLost = !activeElement || activeElement === document.body || activeElement.contains(root);
      if (isLost && !isOutside && root.isConnected && document.hasFocus()) root.focus({ preventScroll: true });
    }));
  };
  const entered = () => {
    isOutside = false;
  };
  document.addEventListener('pointerdown', pressed, true);
  root.addEventListener('focusin', entered);
  root.addEventListener('focusout', left);
  root.tabIndex = -1;
  return () => document.removeEventListener('pointerdown', pressed, true);
}

/** Show which of some tabs is the current one: only that one is reached by Tab, the others from there. */
export function currentTab(tabs, isCurrent) {
  for (const tab of tabs.children) {
    tab.setAttribute('aria-selected', String(isCurrent(tab)));
    tab.tabIndex = isCurrent(tab) ? 0 : -1;
  }
}

/** Let arrow keys, Home and End go from tab to tab. */
export function tabKeys(tabs) {
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

/** An id that no other element of the page has. */
export function uid(stem) {
  uid.last = (uid.last ?? 0) + 1;
  return `otx-${stem}-${uid.last}-${Math.floor(Math.random() * 1e9).toString(36)}`;
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
