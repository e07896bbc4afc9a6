// The controls of all screens: a line of text, a search, a choice, a box to check, a file, and what must be pressed twice.
import type { ComponentChildren, Key, Ref } from 'preact';
import { useRef, useState } from 'preact/hooks';

interface InputProps {
  label: string;
  value: string;
  onInput: (text: string) => void;
  key?: Key;
  ref?: Ref<HTMLInputElement>;
  [attribute: string]: unknown;
}

export function Input({ label, value, onInput, ...attributes }: InputProps) {
  return (
    <input
      class="otx-input" type="text" aria-label={label} spellcheck={false} autocomplete="off" value={value}
      onInput={event => onInput(event.currentTarget.value)} {...attributes}
    />
  );
}

export function Search({ label, ...props }: InputProps) {
  return <Input type="search" label={label} placeholder={label} {...props} />;
}

interface SelectProps {
  label: string;
  value: string;
  /** Titles by their values; or values in order, each alone or with its title. */
  options: Record<string, string> | readonly (string | readonly string[])[];
  onChange: (value: string) => void;
  [attribute: string]: unknown;
}

export function Select({ label, value, options, onChange, ...attributes }: SelectProps) {
  const each = Array.isArray(options) ? options : Object.entries(options);
  return (
    <select class="otx-input" aria-label={label} value={value} onChange={event => onChange(event.currentTarget.value)} {...attributes}>
      {each.map((own: string | readonly string[]) => {
        const [choice, title = choice] = typeof own === 'string' ? [own] : own;
        return <option key={choice} value={choice}>{title}</option>;
      })}
    </select>
  );
}

interface CheckProps {
  isOn: boolean;
  onChange: (isOn: boolean) => void;
  /** What stands beside the box. */
  children: ComponentChildren;
  key?: Key;
  class?: string;
  title?: string;
}

export function Check({ isOn, onChange, children, class: kind = 'otx-choice', title }: CheckProps) {
  return (
    <label class={kind} title={title}>
      <input type="checkbox" checked={isOn} onChange={event => onChange(event.currentTarget.checked)} />
      {children}
    </label>
  );
}

/** A button that takes a file; the same file can be taken twice. */
export function FileButton({ label, accept, onPick, children }: {
  label: string; accept?: string; onPick: (file: File) => unknown; children: ComponentChildren;
}) {
  const picker = useRef<HTMLInputElement>(null);
  const pick = (): void => {
    const [file] = picker.current!.files!;
    if (file) onPick(file);
  };
  return (
    <>
      <input
        ref={picker} type="file" accept={accept} aria-label={label} hidden onClick={event => (event.currentTarget.value = '')}
        onChange={pick}
      />
      <button class="otx-small" type="button" onClick={() => picker.current!.click()}>{children}</button>
    </>
  );
}

/**
 * What cannot be undone: a button does it at the second press, and the second click of a double click is none. Returns whether
 * it was pressed once, and what the button needs.
 */
export function useSure(act: () => unknown) {
  const [isAsked, ask] = useState(false);
  const isBusy = useRef(false);
  const onClick = async (event: MouseEvent): Promise<void> => {
    if (isBusy.current || event.detail > 1) return;
    ask(!isAsked);
    if (!isAsked) return;
    isBusy.current = true;
    await act();
    isBusy.current = false;
  };
  return [isAsked, { onClick, onBlur: () => ask(false) }] as const;
}
