// A tool in a tab of its own: its page, the other calls of it that run, and what stands in the way.
import { signal } from '@preact/signals';
import { Calls } from './calls.js';
import { createScreen, Placed } from './parts.js';
import { Requests } from './requests.js';
import { type Code, ToolPage } from './toolPage.js';
import type { Payload, Transport } from './transport.js';

export type ToolTab = ReturnType<typeof createToolTab>;

export interface ToolTabOptions {
  /** Puts the call into the notebook. */
  onInsert: (code: Code, isRun: boolean) => void;
  /** Called when a call was refused because the project is not trusted. */
  onTrust: () => void;
  /** Called when a call has ended, or the tool became a favourite or no longer is one. */
  onChanged: () => void;
}

/** Show the tool with this name; with `args` its form is filled in. */
export function createToolTab(transport: Transport, name: string, args: Payload | null, { onInsert, onTrust, onChanged }: ToolTabOptions) {
  const requests = new Requests(transport);
  const problem = signal('');
  const calls: Calls = new Calls(transport, requests, {
    beforeFinish: call => page.leaveCancel(call),
    onFinish: call => {
      page.showResult(call);
      if (call.result.peek()!.error?.reason === 'untrusted') onTrust();
      onChanged();
    },
    onOpen: async call => {
      if (await page.open(name, call.args)) page.showCall(call);
    }
  });
  const onFavourite = async (_: string, isOn: boolean): Promise<void> => {
    const reply = await requests.latest<{ favourites: string[] }>('favourite').send({ name, isOn });
    if (reply.status === 'late') return;
    problem.value = reply.status === 'failed' ? reply.error.message : '';
    if (reply.status === 'failed') page.setStar(!isOn);
    else onChanged();
  };
  const page: ToolPage = new ToolPage(transport, requests, calls, { onFavourite, onInsert });
  const draw = () => {
    const notice = transport.store.closed.value ?? problem.value;
    return (
      <>
        <div class="otx-notice" role="alert" hidden={!notice}>{notice}</div>
        <Placed class="otx-tool-place" element={page.element} />
        <Placed element={calls.element} />
      </>
    );
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void page.run();
  };
  const { element, close } = createScreen('div.otx.otx-tool-tab', {}, draw, onKey);
  const stop = [
    close,
    transport.store.onClosed(() => calls.failRunning()),
    transport.store.onChanged(() => void page.refresh(name))
  ];
  const focus = (): void => page.form?.focus();
  const opened = page.open(name, args).then(isShown => isShown && element.contains(document.activeElement) && focus());
  return {
    element,
    /** Whether something was typed or run here, which another tool must not take the place of. */
    get isUsed() {
      return page.isUsed;
    },
    /** Fill the form in, and run the call. */
    async fill(given: Payload, isRun: boolean): Promise<void> {
      await opened;
      if ((await page.open(name, given)) && isRun) await page.run();
    },
    focus: () => (page.form ? focus() : element.focus()),
    close: () => (stop.forEach(each => each()), requests.close(), calls.close(), page.close())
  };
}
