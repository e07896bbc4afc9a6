// The form in which a person chooses a model: what was found on this machine, a test, and Save. Nothing is looked for or sent
// before a button is pressed. Names of models and what they say come from elsewhere and are shown as text.
import { batch, type ReadonlySignal, signal } from '@preact/signals';
import { Check, Input, Select } from './controls.js';
import { withoutArgumentName } from './format.js';
import type { Ask, Requests } from './requests.js';
import { isEqual } from './schema.js';

const KINDS = [
  ['openai', 'OpenAI format (LM Studio, llama.cpp, vLLM, …)'], ['ollama', 'Ollama'], ['anthropic', 'Anthropic'], ['gemini', 'Gemini']
] as const;
const NEW_KEY = ' new';

type Entry = Partial<Record<'provider' | 'base_url' | 'model' | 'key', string>>;
type Found = { place: string; entry: Entry; models: string[] };

/** What the kernel says of the models of a project, and of what a new one needs. */
export interface Models {
  models: { name: string; model?: string; isWithheld?: boolean }[];
  default: string;
  keys: string[];
  addresses: Record<string, string>;
  /** The project names models, and then the person's own do not count. */
  inProject: boolean;
  ownFile: string;
}

/** What the kernel says when a model was written down. */
export type Saved = { name: string; said: string };

const placeOf = ({ provider, base_url, key }: Entry) => [provider, base_url, key];

/** Returns a component; `onSaved` is called when a model was written down. */
export function modelForm(requests: Requests, models: ReadonlySignal<Models | null>, onSaved: (saved: Saved) => void) {
  const entry = signal<Entry>({ provider: 'openai' });
  const inProject = signal(false);
  const newKey = signal({ name: '', value: '' });
  /** The names of the keys that were stored here. */
  const stored = signal<string[]>([]);
  const found = signal<Found[] | null>(null);
  const names = signal<string[]>([]);
  const said = signal({ text: '', isOk: true });
  const busy = signal('');
  const isOfProject = (): boolean => inProject.value || models.value!.inProject;
  const change = (part: Entry): void => {
    entry.value = { ...entry.value, ...part };
  };
  const tell = (text: string, isOk: boolean): void => {
    said.value = { text, isOk };
  };

  /** Do one thing at a time; says what came of it. What is filled in meanwhile stays. */
  async function act<T>(word: string, work: (ask: Ask) => Promise<T>, then: (value: T) => void): Promise<void> {
    if (busy.value) return;
    busy.value = word;
    tell('', true);
    const reply = await requests.onceOf(work);
    if (reply.status === 'late') return;
    batch(() => {
      busy.value = '';
      if (reply.status === 'ok') then(reply.value);
      else tell(reply.error.message, false);
    });
  }

  function take({ entry: chosen, models: all }: Found): void {
    batch(() => {
      entry.value = { ...chosen, model: all[0] ?? '' };
      names.value = all;
      tell('', true);
    });
  }

  function look(): Promise<void> {
    const before = entry.value;
    return act('look', ask => ask<{ items: Found[]; said: string }>('findModels'), ({ items, said: text }) => {
      found.value = items;
      if (!items.length) tell(`${text} Fill in the form for any other.`, false);
      else if (entry.value === before) take(items[0]);
    });
  }

  function list(): Promise<void> {
    const before = entry.value;
    return act('list', ask => ask<{ models: string[] }>('modelNames', { entry: before }), ({ models: all }) => {
      if (!isEqual(placeOf(entry.value), placeOf(before))) return;
      names.value = all;
      if (!all.includes(entry.value.model ?? '')) change({ model: all[0] });
    });
  }

  const test = () =>
    act(
      'test', async ask => ask<{ said: string; isOk: boolean }>('testModel', { entry: await filledIn(ask) }),
      reply => tell(reply.said, reply.isOk)
    );
  const save = () => act('save', async ask => ask<Saved>('saveModel', { inProject: isOfProject(), entry: await filledIn(ask) }), onSaved);

  /** The form as it is now. A key that was typed is stored first; then the form has its name. */
  async function filledIn(ask: Ask): Promise<Entry> {
    const [own, typed] = [entry.value, newKey.value];
    if (own.key !== NEW_KEY) return own;
    const { errors } = await ask<{ errors?: { message: string }[] }>('httpSecret', { ...typed, isOwn: !isOfProject() });
    if (errors?.length) throw new Error(withoutArgumentName(errors[0].message));
    const { name } = typed;
    batch(() => {
      stored.value = [...stored.value, name];
      if (entry.value.key === NEW_KEY) change({ key: name });
      if (newKey.value === typed) newKey.value = { name: '', value: '' };
    });
    return { ...own, key: name };
  }

  return function ModelForm({ isOver }: { isOver: boolean }) {
    const known = models.value!;
    const keys = [...new Set([...known.keys, ...stored.value])];
    const ownSecrets = known.ownFile.replace('onetool.yaml', 'secrets.yaml');
    const { provider = '', base_url = '', model = '', key = '' } = entry.value;
    const choices = [...new Set([...names.value, model])];
    const isIdle = !busy.value && !isOver;
    const button = (word: string, title: string, onClick: () => unknown, more: { class?: string; title?: string } = {}) => (
      <button class="otx-small" type="button" aria-disabled={!isIdle} onClick={() => isIdle && onClick()} {...more}>
        {busy.value === word ? `${title} …` : title}
      </button>
    );
    return (
      <section class="otx-models" aria-label="Choose a model">
        {known.models.length ? null : (
          <p class="otx-muted">No model is configured yet. Look for one on this machine, or fill in the form.</p>
        )}
        <div class="otx-bar">
          {button('look', 'Look for models', look, {
            class: 'otx-run', title: 'Looks at the usual ports of this machine, and for the names of keys'
          })}
        </div>
        {found.value?.length ? (
          <div class="otx-models-found" role="group" aria-label="Found">
            {found.value.map(each => (
              <button
                key={each.place} class="otx-small" type="button" aria-pressed={isEqual(placeOf(each.entry), placeOf(entry.value))}
                onClick={() => take(each)}
              >
                {each.place}
              </button>
            ))}
          </div>
        ) : null}
        <div class="otx-models-fields">
          <label>Kind<Select label="Kind" value={provider} options={KINDS} onChange={value => change({ provider: value })} /></label>
          <label>
            Address
            <Input
              label="Address" placeholder={known.addresses[provider]} value={base_url}
              onInput={text => change({ base_url: text || undefined })}
            />
          </label>
          <label>
            Key<Select label="Key" value={key} options={[
              ['', 'no key'], ...keys, [NEW_KEY, 'a new one …']
            ]} onChange={value => change({ key: value || undefined })} />
          </label>
          {key === NEW_KEY ? (
            <>
              <label>
                Name of the key
                <Input
                  label="Name of the key" placeholder="OPENAI_API_KEY" value={newKey.value.name}
                  onInput={text => (newKey.value = { ...newKey.value, name: text })}
                />
              </label>
              <label
                title={`It goes into ${isOfProject() ? "the project's secrets.yaml" : ownSecrets}, which only you can read`}
              >
                Its value
                <Input
                  label="Its value" type="password" value={newKey.value.value}
                  onInput={text => (newKey.value = { ...newKey.value, value: text })}
                />
              </label>
            </>
          ) : null}
          <label>Model<span class="otx-models-name">
            {names.value.length
              ? <Select label="Model" value={model} options={choices} onChange={value => change({ model: value })} />
              : <Input label="Model" value={model} onInput={text => change({ model: text })} />}
            {button('list', 'List', list, { title: `Asks ${base_url || known.addresses[provider]} for its models` })}
          </span></label>
          {known.inProject ? null : (
            <Check
              title={`By default it is written to ${known.ownFile}, for all projects`} isOn={inProject.value}
              onChange={isOn => (inProject.value = isOn)}
            > for this project alone</Check>
          )}
        </div>
        <div class="otx-bar otx-models-do">
          {button('test', 'Test', test, { title: 'Sends one tiny request' })}
          {button('save', 'Save', save)}
        </div>
        <p class={said.value.isOk ? 'otx-ok' : 'otx-error'} role="status">{said.value.text}</p>
      </section>
    );
  };
}
