// The parts of the HTTP tool editor that hold several fields: name and value rows, auth with its secret, arguments.
import { useRef } from 'preact/hooks';
import { Check, FileButton, Input, Select } from './controls.js';
import { byteSize } from './format.js';
import {
  type Argument, argumentIn, type Auth, authKind, bundleOf, type Choices, type Fields, hasOwnAuth, isAuthShared, KEPT, NEW, newSecretName,
  type Pair, secretChoice, TYPES, withEmpty
} from './httpRecord.js';

const KINDS: Record<string, string> = {
  none: 'No auth', bearer: 'Bearer token', apiKey: 'API key', basic: 'User and password', oauth2: 'OAuth2 client credentials'
};
const PLACES = { header: 'in a header', query: 'in the query' };
/** The texts of each kind of auth, with what stands in their fields while they are empty. */
const TEXTS = [
  ['apiKey', 'name', 'Name of the key', 'X-Api-Key'], ['basic', 'username', 'User', 'user'],
  ['oauth2', 'tokenUrl', 'Token URL', 'https://api.example.com/token'], ['oauth2', 'clientId', 'Client id', 'client id'],
  ['oauth2', 'scope', 'Scope', 'scope (optional)']
] as const;

/** Rows of name and value, with an empty one at the end. */
export function Pairs({ label, pairs, onChange, ...attributes }: {
  label: string; pairs: Pair[]; onChange: (pairs: Pair[]) => void; [attribute: string]: unknown;
}) {
  const group = useRef<HTMLDivElement>(null);
  const edit = (key: string, change: Partial<Pair>): void => onChange(
    withEmpty(pairs.map(pair => (pair.key === key ? { ...pair, ...change } : pair)))
  );
  const remove = (key: string): void => {
    onChange(withEmpty(pairs.filter(pair => pair.key !== key)));
    group.current?.lastElementChild?.querySelector('input')?.focus();
  };
  return (
    <div ref={group} class="otx-pairs" role="group" aria-label={`${label}s`} {...attributes}>
      {pairs.map(({ key, name, value }) => (
        <div key={key} class="otx-pair">
          <Input label={`${label} name`} placeholder="name" value={name} onInput={text => edit(key, { name: text })} />
          <Input label={`${label} value`} placeholder="value, or {argument}" value={value} onInput={text => edit(key, { value: text })} />
          <button class="otx-small" type="button" aria-label={`Remove ${label.toLowerCase()}`} title="Remove" onClick={() => remove(key)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}

interface PartProps<T> {
  fields: Fields;
  choices: Choices;
  onChange: (change: Partial<T>) => void;
}

export function AuthForm({ fields, choices, onChange, ...attributes }: PartProps<Auth> & { [attribute: string]: unknown }) {
  const { auth } = fields;
  const bundle = bundleOf(fields, choices);
  const kind = authKind(fields, bundle);
  const secret = secretChoice(auth, choices.secrets);
  const inherited: Record<string, string> = bundle?.auth ? { inherit: `From the bundle: ${KINDS[bundle.auth.type]}` } : {};
  const secrets = {
    ...(auth.kept === null ? {} : { [KEPT]: 'as it is' }), ...Object.fromEntries(choices.secrets.map(name => [name, name])),
    [NEW]: 'New secret …'
  };
  return (
    <div {...attributes}>
      <Select label="Kind of auth" value={kind} options={{ ...inherited, ...KINDS }} onChange={value => onChange({ kind: value })} />
      <p class="otx-muted">
        {kind === 'inherit' ? `Sent to ${bundle!.baseUrl} only. Change it with: %tool bundle set ${bundle!.slug} --auth …` : ''}
      </p>
      <div class="otx-editor-auth" hidden={!hasOwnAuth(kind)}>
        {kind === 'apiKey' ? (
          <Select label="Where the key goes" value={auth.in} options={PLACES} onChange={value => onChange({ in: value })} />
        ) : null}
        {TEXTS.filter(([own]) => own === kind).map(([, name, label, placeholder]) => (
          <Input key={name} label={label} placeholder={placeholder} value={auth[name]} onInput={text => onChange({ [name]: text })} />
        ))}
        <div>
          <Select label="Secret" value={secret} options={secrets} onChange={value => onChange({ secret: value })} />
          <div class="otx-pair" hidden={secret !== NEW}>
            <Input
              label="Name of the new secret" placeholder="API_TOKEN" value={newSecretName(fields, choices)}
              onInput={text => onChange({ newName: text })}
            />
            <Input
              label="Value of the new secret" type="password" placeholder="value" autocomplete="new-password" data-sends=""
              value={auth.password} onInput={text => onChange({ password: text })}
            />
          </div>
          <p class="otx-help">The tool stores only the secret's name. The value goes to secrets.yaml and is not shown again.</p>
        </div>
        <Check class="" isOn={isAuthShared(fields, choices)} onChange={isShared => onChange({ isShared })}>
          {' use it for all tools of this bundle'}
        </Check>
      </div>
    </div>
  );
}

/** The arguments as a table. Those that stand in the request as `{name}` appear by themselves. */
export function Arguments({ fields, names, onChange, ...attributes }: {
  fields: Fields; names: string[]; onChange: (name: string, change: Partial<Argument>) => void; [attribute: string]: unknown;
}) {
  if (!names.length) return <p class="otx-muted" {...attributes}>None yet. Write {'{name}'} in the URL, a value or the body.</p>;
  return (
    <div class="otx-scroll" tabIndex={0} role="group" aria-label="Arguments" {...attributes}>
      <table class="otx-columns otx-arguments">
        <thead>
          <tr>
            {['Name', 'Type', 'Required', 'Default', 'Description', 'Try with'].map(title => <th key={title} scope="col">{title}</th>)}
          </tr>
        </thead>
        <tbody>
          {names.map(name => (
            <ArgumentRow key={name} name={name} argument={argumentIn(fields, name)} onChange={change => onChange(name, change)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ArgumentRow({ name, argument, onChange }: {
  name: string; argument: Argument; onChange: (change: Partial<Argument>) => void; key?: string;
}) {
  const { type, isRequired, preset, description, value, file, own } = argument;
  const isFile = type === 'file';
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <Select
          label={`Type of ${name}`} value={type}
          options={typeof own.type === 'string' && own.type in TYPES ? TYPES : { '': 'as it is', ...TYPES }}
          onChange={chosen => onChange({ type: chosen })}
        />
      </td>
      <td>
        <input
          type="checkbox" aria-label={`${name} is required`} checked={isRequired}
          onChange={event => onChange({ isRequired: event.currentTarget.checked })}
        />
      </td>
      <td><Input label={`Default of ${name}`} value={preset} hidden={isFile} onInput={text => onChange({ preset: text })} /></td>
      <td><Input label={`Description of ${name}`} value={description} onInput={text => onChange({ description: text })} /></td>
      <td>
        <Input
          label={`Value of ${name} to try`} data-name={name} data-sends="" value={value} hidden={isFile}
          onInput={text => onChange({ value: text })}
        />
        {isFile ? (
          <span>
            <FileButton label={`File of ${name} to try`} onPick={chosen => onChange({ file: chosen })}>
              {file ? `${file.name} · ${byteSize(file.size)}` : 'Choose a file …'}
            </FileButton>
          </span>
        ) : null}
      </td>
    </tr>
  );
}
