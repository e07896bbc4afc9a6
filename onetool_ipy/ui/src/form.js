// A form made from a tool's JSON Schema. What is left empty is not sent; defaults are placeholders. A field takes a
// notebook variable as `=name`; Python reads that, and checks everything. Nothing here knows the transport.
import { fill, h, show, uid } from './dom.js';
import { collected, fieldsFor } from './editors.js';
import { NOTHING } from './inputs.js';
import { isObject } from './schema.js';

/** `{element, value(), set(args), showErrors([{pointer, message}]), focus(), focusError()}` for a tool's parameters. */
export function createForm(parameters, { onChange = () => {}, onSubmit = () => {}, variables = async () => [] } = {}) {
  const fields = fieldsFor(parameters, changed);
  const spare = h('div.otx-error', { role: 'alert', tabindex: '-1', hidden: true });
  const element = h('form.otx-form', { novalidate: true, autocomplete: 'off' });
  const optional = fields.filter(field => !field.isRequired);
  fill(
    element,
    spare,
    fields.filter(field => field.isRequired).map(field => field.element),
    optional.length > 0 && optional.length < fields.length ? h('div.otx-divider', null, 'Optional') : null,
    optional.map(field => field.element),
    fields.length === 0 ? h('p.otx-quiet', null, 'This tool takes no arguments.') : null,
    fields.length ? h('p.otx-quiet.otx-tip', null, 'Any field takes a notebook variable: ', h('code', null, '=name')) : null
  );
  hinted(element, variables);
  element.addEventListener('submit', event => {
    event.preventDefault();
    onSubmit();
  });

  function changed() {
    onChange(value());
  }

  function value() {
    return collected(fields);
  }

  return {
    element,
    value,
    set(args) {
      const given = isObject(args) ? args : {};
      for (const field of fields) field.set(Object.hasOwn(given, field.name) ? given[field.name] : NOTHING);
    },
    showErrors(errors) {
      const left = new Set(errors);
      for (const field of fields) field.showErrors(errors, left);
      // What belongs to no field stands above all of them.
      show(fill(spare, [...left].map(error => h('div', null, `${error.pointer ? `${error.pointer}: ` : ''}${error.message}`))), left.size > 0);
    },
    focus() {
      element.querySelector('input, select, textarea')?.focus();
    },
    /** Go to the first thing that is wrong. */
    focusError() {
      const first = [...element.querySelectorAll('[aria-invalid="true"], .otx-wrong, .otx-error')].find(each => !each.closest('[hidden]'));
      const target = first?.matches('.otx-wrong') ? first.querySelector('input, select, textarea, button') : first;
      target?.focus();
      target?.scrollIntoView?.({ block: 'nearest' });
    }
  };
}

/** Offer the notebook's variables where someone types `=`. */
function hinted(form, variables) {
  const names = h('datalist', { id: uid('names') });
  form.prepend(names);
  form.addEventListener('input', async event => {
    const { target } = event;
    if (target.tagName !== 'INPUT' || target.type !== 'text') return;
    const isNaming = target.value.startsWith('=');
    if (!isNaming) target.removeAttribute('list');
    if (!isNaming || target.hasAttribute('list')) return;
    target.setAttribute('list', names.id);
    const found = await variables().catch(() => []);
    fill(names, found.map(({ name, kind }) => h('option', { value: `=${name}` }, kind)));
  });
}
