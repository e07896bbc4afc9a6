// A form made from a tool's JSON Schema. What is left empty is not sent; defaults are placeholders. A field takes a
// notebook variable as `=name`; Python reads that, and checks everything. Nothing here knows the transport.
import { fill, h, show } from './dom.js';
import { NOTHING, collected, fieldsFor } from './editors.js';
import { isObject } from './schema.js';

/** `{element, value(), set(args), showErrors([{pointer, message}]), focus()}` for a tool's parameters. */
export function createForm(parameters, { onChange = () => {}, onSubmit = () => {} } = {}) {
  const fields = fieldsFor(parameters, changed);
  const spare = h('div.otx-error', { role: 'alert', hidden: true });
  const element = h('form.otx-form', { novalidate: true, autocomplete: 'off' });
  const optional = fields.filter(field => !field.isRequired);
  fill(
    element,
    fields.filter(field => field.isRequired).map(field => field.element),
    optional.length > 0 && optional.length < fields.length ? h('div.otx-divider', null, 'Optional') : null,
    optional.map(field => field.element),
    fields.length === 0 ? h('p.otx-quiet', null, 'This tool takes no arguments.') : null,
    spare
  );
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
      show(fill(spare, [...left].map(error => h('div', null, `${error.pointer ? `${error.pointer}: ` : ''}${error.message}`))), left.size > 0);
    },
    focus() {
      element.querySelector('input, select, textarea')?.focus();
    }
  };
}
