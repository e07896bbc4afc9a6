// JMESPath expressions of what a user clicks on in a response.

/** A place in a value: names of keys and numbers in lists. */
export type Path = (string | number)[];

/** The JMESPath of a path. A place in a list stands for all places: `orders[].price`. */
export function expressionOf(path: Path): string {
  const names = path.map(part => (typeof part === 'number' ? '[]' : `.${/^[A-Za-z_]\w*$/.test(part) ? part : JSON.stringify(part)}`));
  return names.join('').replace(/^\./, '').replace(/\[\]$/, '');
}

/** The expression `inner` within what `outer` takes. */
export function within(outer: string, inner: string): string {
  if (!outer) return inner;
  if (/[|&<>=!{}()]/.test(outer)) return `${outer} | ${inner}`;
  return `${outer}${inner.startsWith('[') ? '' : '.'}${inner}`.replaceAll('[][]', '[]');
}
