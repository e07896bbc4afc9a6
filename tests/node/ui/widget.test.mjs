// The widget as anywidget renders it: the static picture is hidden, in any front end.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ui, until } from './page.mjs';

const { default: widget } = await ui('widget');

const TRUST = { how: 'no project', isTrusted: false, wouldRun: { parts: [] } };
const ANSWERS = {
  view: { view: 'browser', options: {}, picture: 'otx-picture-1a2b' },
  overview: { tools: 0, packs: [], sources: [], tags: [], badges: [], favourites: [], recent: [], trust: TRUST },
  entries: { items: [], icons: [], isPartial: false }
};

/** A model whose kernel answers, or does not. */
function modelOf(isAlive) {
  const listeners = [];
  return {
    on: (_event, listener) => listeners.push(listener),
    off: () => {},
    send: ({ id, kind }) => isAlive && setTimeout(() => listeners[0]({ id, value: ANSWERS[kind] }), 0)
  };
}

const hidden = element => window.getComputedStyle(element).display === 'none';

test('the picture is hidden once the view is drawn, in any front end', async () => {
  document.body.innerHTML = '<div class="output_a"><div id="otx-picture-1a2b"><div class="otx-picture">picture</div></div></div><div class="output_b"></div>';
  const picture = document.getElementById('otx-picture-1a2b');
  const close = widget.render({ model: modelOf(true), el: document.querySelector('.output_b') });
  await until(() => document.querySelector('.otx-browser'));
  assert.ok(hidden(picture));
  close();
});

test('without a kernel the picture stays', async () => {
  document.head.replaceChildren();
  document.body.innerHTML = '<div><div id="otx-picture-1a2b">picture</div></div><div class="output_b"></div>';
  const close = widget.render({ model: modelOf(false), el: document.querySelector('.output_b') });
  await new Promise(resolve => setTimeout(resolve, 20)); // no reply comes
  assert.ok(!hidden(document.getElementById('otx-picture-1a2b')));
  close();
});
