// The filter of a column: a condition in words, and its values with their counts, to be searched and chosen.
import { batch, signal } from '@preact/signals';
import { createRef } from 'preact';
import { Search } from './controls.js';
import { debounce, offerFocus, uniqueId } from './dom.js';
import { counted, number } from './format.js';
import { expressionOf } from './jmespath.js';
import { Failure } from './parts.js';
import type { Table } from './table.js';

export const KINDS: Record<string, string> = {
  integer: 'whole numbers', number: 'numbers', boolean: 'true or false', date: 'dates', text: 'text', nested: 'records or lists'
};
const HINTS: Record<string, string> = {
  integer: '> 5 · 2..8 · != 3 · = for missing',
  number: '> 0.5 · 2..8 · != 3 · = for missing',
  date: '2024-03 · > 2024 · 2024-01..2024-06',
  boolean: 'true · false · = for missing',
  text: 'a part · =all of it · !not this',
  nested: 'a part · !not this'
};
const WIDTH = 280;
const HEIGHT = 380;

/** One box for all columns of a table; `open(at, button)` shows it below a button in the head of a column. */
export function createColumnFilter(table: Table) {
  const { requests, result, page, onPick } = table;
  const values = requests.latest<{ items: { id: number; text: string; count: number }[]; total: number }>('values');
  const column = signal<number | null>(null);
  const condition = signal('');
  const search = signal('');
  const texts = signal<ReadonlyMap<number, string>>(new Map());
  const isOpen = signal(false);
  const place = signal('');
  const box = createRef<HTMLDivElement>();
  const input = createRef<HTMLInputElement>();
  const errorId = uniqueId('error');
  const apply = () => table.filterColumn(column.peek()!, condition.peek(), texts.peek());
  const load = () => values.send({
    handle: result.handle, call: result.call, ...table.query(), column: column.peek(), text: search.peek()
  });
  const applyAndLoad = async (): Promise<void> => {
    const reply = await apply();
    if (reply.status !== 'late' && isOpen.peek()) await load();
  };
  const applySoon = debounce(250, applyAndLoad);
  const loadSoon = debounce(200, load);
  let button: HTMLElement | null = null;

  function open(at: number, opener: HTMLElement): void {
    applySoon.flush(); // of the column before
    const { conditions, choices } = page.value.peek()!.query;
    const { left, top, bottom } = opener.getBoundingClientRect();
    const isBelow = window.innerHeight - bottom >= HEIGHT || top < window.innerHeight - bottom;
    const space = Math.min(HEIGHT, (isBelow ? window.innerHeight - bottom : top) - 8);
    button = opener;
    batch(() => {
      column.value = at;
      condition.value = conditions[at] ?? '';
      search.value = '';
      texts.value = choices[at] ?? new Map();
      const x = Math.max(4, Math.min(left, window.innerWidth - WIDTH - 8));
      const y = isBelow ? `top:${bottom + 4}px;bottom:auto` : `top:auto;bottom:${window.innerHeight - top + 4}px`;
      place.value = `left:${x}px;${y};max-height:${space}px`;
      isOpen.value = true;
      page.failure.value = '';
      values.reset();
    });
    void load();
    box.current?.showPopover?.();
    input.current?.focus();
  }

  /** A condition that was refused is forgotten. */
  function onClosed(): void {
    batch(() => {
      isOpen.value = false;
      page.failure.value = '';
    });
    offerFocus(button, box.current!);
  }

  function close(): void {
    if (box.current?.matches(':popover-open')) box.current.hidePopover();
    else isOpen.value = false;
  }

  function choose(id: number, text: string, isOn: boolean): void {
    const chosen = new Map(texts.peek());
    if (isOn) chosen.set(id, text);
    else chosen.delete(id);
    texts.value = chosen;
    void apply();
  }

  function clear(): void {
    batch(() => {
      condition.value = search.value = '';
      texts.value = new Map();
    });
    applySoon.cancel();
    void applyAndLoad();
  }

  function onKeyDown(event: KeyboardEvent): void {
    event.stopPropagation();
    if (event.key === 'Escape') close();
    else if (event.key === 'Enter' && event.target === input.current) void enter();
  }

  /** Apply the condition, and close the box unless it was refused. */
  async function enter(): Promise<void> {
    const at = column.peek();
    applySoon.cancel();
    const reply = await apply();
    if (reply.status === 'ok' && column.peek() === at) close();
  }

  function view() {
    const { name, kind } = page.value.value?.columns[column.value ?? -1] ?? { name: '', kind: '' };
    const found = values.value.value;
    const rest = (found?.total ?? 0) - (found?.items.length ?? 0);
    const refusal = isOpen.value ? page.failure.value : '';
    return (
      <div
        ref={box} class="otx-filter-box" role="dialog" popover="auto" aria-label={`Filter ${name}`} style={place.value}
        onKeyDown={onKeyDown} onToggle={event => event.newState === 'closed' && onClosed()}
      >
        <div class="otx-filter-title"><strong>{name}</strong><span class="otx-muted">{KINDS[kind] ?? kind}</span></div>
        <input
          ref={input} class="otx-input" type="text" spellcheck={false} placeholder="Condition" aria-label={`Condition for ${name}`}
          aria-invalid={Boolean(refusal)} aria-describedby={errorId} value={condition.value}
          onInput={event => ((condition.value = event.currentTarget.value), applySoon())}
        />
        <div class="otx-error" id={errorId} role="alert" hidden={!refusal}>{refusal}</div>
        <code class="otx-muted otx-tip">{HINTS[kind] ?? ''}</code>
        <Search
          label="Search values" hidden={!search.value && (found?.total ?? 0) <= 8} value={search.value}
          onInput={text => ((search.value = text), loadSoon())}
        />
        <div class="otx-filter-values" role="group" aria-label="Values">
          {found?.items.map(({ id, text, count }) => (
            <label key={id} class="otx-filter-value" title={text}>
              <input type="checkbox" checked={texts.value.has(id)} onChange={event => choose(id, text, event.currentTarget.checked)} />
              <span>{text || <em class="otx-muted">(missing)</em>}</span>
              <span class="otx-muted">{number(count)}</span>
            </label>
          ))}
        </div>
        <div class="otx-filter-foot">
          <span class="otx-muted otx-tip" role="status">
            {values.failure.value
              ? <Failure of={values} />
              : !found
              ? 'reading …'
              : rest > 0
              ? `${number(rest)} more: search for them`
              : counted(found.total, 'value')}
          </span>
          {onPick ? (
            <button
              class="otx-small" type="button" title="Keep only this column of the response"
              onClick={() => (close(), onPick(`[].${expressionOf([name])}`))}
            >
              Keep
            </button>
          ) : null}
          <button class="otx-small" type="button" onClick={clear}>Clear</button>
          <button class="otx-small" type="button" onClick={close}>Done</button>
        </div>
      </div>
    );
  }

  return { view, open, isOpen: () => isOpen.value, close: () => (applySoon.cancel(), loadSoon.cancel(), close()) };
}
