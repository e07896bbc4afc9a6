export interface IForm {
  element: HTMLElement;
  value(): Record<string, unknown>;
  set(args: Record<string, unknown>): void;
  showErrors(errors: { pointer: string; message: string }[]): void;
  focus(): void;
  focusError(): void;
}

export function createForm(
  parameters: Record<string, unknown>,
  options?: { onChange?: (args: Record<string, unknown>) => void; onSubmit?: () => void }
): IForm;
