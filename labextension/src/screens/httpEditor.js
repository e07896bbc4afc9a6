// The HTTP tool editor: request, auth, arguments and response of one tool on one page. The kernel reads curl commands,
// stores secrets, sends, selects and saves; what it refuses is shown at its field, what needs a yes is asked here.
import { addTabKeys, copyText, debounce, fill, h, keepFocus, offerFocus, retryButton, selectTab, show, uniqueId } from './dom.js';
import { byteSize, duration } from './format.js';
import { within } from './jmespath.js';
import { Arguments, AuthForm, marked, Pairs, placeholdersIn, select } from './httpFields.js';
import { Requests } from './requests.js';
import { createViewer } from './viewer.js';

const METHODS = Object.fromEntries(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map(name => [name, name]));
const BODIES = { none: 'None', json: 'JSON', form: 'Form', multipart: 'Multipart form, with files', binary: 'File', text: 'Raw text' };
const PAIRED = ['form', 'multipart'];

/**
 * Returns `{element, focus(), close()}`. `place` is `{bundle, tool, version}` of a tool to edit, or empty for a new one. In
 * a tab of its own (`isTab`) Ctrl+S saves the tool; in a cell it is the notebook's.
 */
export function createHttpEditor(transport, place = {}, { onSaved = () => {}, onSwitched = () => {}, isTab = false } = {}) {
  const requests = new Requests(transport);
  const editor = new HttpEditor(transport, requests, { onSaved, onSwitched, isTab });
  const stop = transport.store.onClosed(reason => editor.say(reason, 'failed'));
  const releaseFocus = keepFocus(editor.element);
  editor.start(place);
  return { element: editor.element, focus: () => editor.focus(), close: () => (requests.close(), stop(), releaseFocus(), editor.viewer.close()) };
}

class HttpEditor {
  constructor(source, requests, options) {
    Object.assign(this, { requests, ...options, known: null, bundles: [], secrets: [], errors: new Map(), isBusy: false, saved: '', id: uniqueId('editor') });
    this.viewer = createViewer(source, { onPick: expression => this.keep(expression) });
    const changed = () => this.changed();
    this.method = select('Method', METHODS, changed);
    this.url = input('URL', { placeholder: 'https://api.example.com/users/{id}, or paste a curl command', oninput: changed });
    this.query = new Pairs('Query parameter', changed);
    this.headers = new Pairs('Header', changed);
    this.bodyKind = select('Kind of body', BODIES, () => this.changeBody());
    this.bodyText = h('textarea.otx-input.otx-json', { rows: '6', 'aria-label': 'Body', spellcheck: 'false', oninput: changed });
    this.bodyForm = new Pairs('Form field', changed);
    this.auth = new AuthForm(changed);
    this.args = new Arguments(changed);
    this.bundle = input('Bundle', { placeholder: 'bundle', title: 'Bundle name; created if it does not exist.', list: uniqueId('bundles'), oninput: () => (this.isBundleTyped = true, this.changed()) });
    this.tool = input('Tool', { placeholder: 'tool', oninput: () => (this.isToolTyped = true) });
    this.environment = h('select.otx-input', { 'aria-label': 'Environment', title: 'Environment: the base URL, auth and variables of the bundle', onchange: () => this.switchTo(this.environment.value) });
    this.target = h('p.otx-muted.otx-editor-target', { 'aria-label': 'Resulting URL' });
    this.version = input('Version', { placeholder: '1' });
    this.description = input('Description', { placeholder: 'What it does, for people and models' });
    this.tags = input('Tags', { placeholder: 'comma-separated' });
    this.selector = input('Keep (JMESPath)', { placeholder: 'all of it; or items[].name', oninput: debounce(250, () => this.trySelector()) });
    this.status = h('span.otx-editor-status', { role: 'status' });
    this.question = h('div.otx-confirm', { role: 'alertdialog', 'aria-label': 'Confirm', hidden: true });
    this.element = this.layout();
    this.element.addEventListener('keydown', event => this.onKey(event));
    for (const field of [this.url, this.auth.secret.password]) field.addEventListener('keydown', event => event.key === 'Enter' && !event.ctrlKey && this.send());
    this.url.addEventListener('paste', event => this.onPaste(event));
    this.element.addEventListener('input', event => this.clearError(event.target));
    this.changed();
  }

  layout() {
    const field = (label, control, pointer) => h('div.otx-editor-field', null, h('label.otx-muted', { for: nameControl(control) }, label), control, this.errorAt(pointer, control));
    const section = (title, ...parts) => h('section.otx-editor-section', { 'aria-label': title }, h('h3', null, title), parts);
    this.sendButton = h('button.otx-run', { type: 'button', onclick: () => this.send(), title: 'Ctrl+Enter' }, 'Send');
    this.saveButton = h('button.otx-run', { type: 'button', onclick: () => this.save(), title: this.isTab ? 'Ctrl+S' : null }, 'Save');
    this.curl = h('textarea.otx-input.otx-json', { rows: '4', 'aria-label': 'curl command', placeholder: "curl -H 'Authorization: Bearer …' https://api.example.com/users", spellcheck: 'false' });
    this.keepsSecrets = h('input', { type: 'checkbox', checked: true });
    this.curlBox = h('details.otx-editor-curl', null, h('summary', null, 'Paste curl'), this.curl, this.errorAt('/curl', this.curl),
      h('div.otx-bar', null, h('label', null, this.keepsSecrets, ' keep its credentials as secrets of this project'), h('button.otx-small', { type: 'button', onclick: () => this.readCurl() }, 'Fill in')));
    this.more = h('details', null, h('summary', null, 'More'), h('div.otx-editor-more', null, field('Description', this.description, '/description'), field('Tags', this.tags, '/tags'), field('Version', this.version, '/version')));
    this.list = h('datalist', { id: this.bundle.getAttribute('list') });
    const top = h('div.otx-editor-top', null,
      h('div.otx-editor-line', null, this.method, this.url, this.sendButton), this.errorAt('/http/request/urlTemplate', this.url), this.errorAt('/http/request/method', this.method), this.target,
      h('div.otx-editor-line', null, this.bundle, h('span', { 'aria-hidden': 'true' }, '.'), this.tool, this.environment, this.saveButton, this.list), this.errorAt('/bundle', this.bundle), this.errorAt('/slug', this.tool),
      this.question, h('div.otx-editor-line', null, this.status));
    this.bodyBox = h('div', null, this.bodyText, this.bodyForm.element);
    const left = h('div.otx-editor-left', null,
      section('Request', h('h4', null, 'Query'), this.query.element, this.errorAt('/http/request/query', this.query.element), h('h4', null, 'Headers'), this.headers.element, this.errorAt('/http/request/headers', this.headers.element),
        h('div.otx-editor-line', null, h('h4', null, 'Body'), this.bodyKind), this.bodyBox, this.errorAt('/http/request/body', this.bodyText)),
      section('Auth', this.auth.element, this.errorAt('/http/request/auth', this.auth.kind), this.errorAt('/secret', this.auth.element)),
      section('Arguments', this.args.element, this.errorAt('/args', this.args.element), this.errorAt('/argSchema', this.args.element)));
    return h('div.otx.otx-editor', { 'data-lm-suppress-shortcuts': 'true', role: 'form', 'aria-label': 'HTTP tool' }, top, this.curlBox, this.more, h('div.otx-editor-columns', null, left, h('div.otx-editor-right', null, section('Response', this.responseParts(field)))));
  }

  responseParts(field) {
    const kinds = { body: 'Body', headers: 'Headers', request: 'Request' };
    const id = uniqueId('response');
    this.tabs = addTabKeys(h('div.otx-tabs', { role: 'tablist', 'aria-label': 'Response' }, Object.entries(kinds).map(([kind, title]) => h('button.otx-tab', { type: 'button', role: 'tab', id: `${id}-${kind}-tab`, 'aria-controls': `${id}-${kind}`, data: { kind }, onclick: () => this.showPart(kind) }, title))));
    this.parts = {
      body: h('div', null, field('Keep (JMESPath)', this.selector, '/http/response/selector'), this.viewer.element),
      headers: h('div.otx-scroll', { tabindex: '0' }),
      request: h('div.otx-scroll', { tabindex: '0' })
    };
    for (const [kind, part] of Object.entries(this.parts)) {
      part.id = `${id}-${kind}`;
      part.setAttribute('role', 'tabpanel');
      part.setAttribute('aria-labelledby', `${id}-${kind}-tab`);
    }
    this.empty = h('p.otx-muted', null, 'Send the request to see its response here: as a table, a tree, text or an image.');
    this.response = h('div', { hidden: true }, this.tabs, Object.values(this.parts));
    this.showPart('body');
    return [this.empty, this.response];
  }

  showPart(kind) {
    selectTab(this.tabs, tab => tab.dataset.kind === kind);
    for (const [each, part] of Object.entries(this.parts)) show(part, each === kind);
  }

  /** Load what there is to choose from, and the tool to edit: its record replaces the fields, so nobody fills them before. */
  async start(place) {
    this.setLoading(Boolean(place.tool));
    const reply = await this.requests.latest('httpTool').send(place);
    if (reply.status === 'late') return;
    if (reply.status === 'ok') {
      const { bundles, secrets, tool, version } = reply.value;
      this.bundles = bundles;
      this.setSecrets(secrets);
      fill(this.list, bundles.map(each => h('option', { value: each.slug })));
      if (tool) this.set(tool, place.bundle, version);
      this.changed();
    } else {
      this.say(reply.error.message, 'failed');
      this.status.append(' ', retryButton(() => this.start(place)));
    }
    this.setLoading(false);
    if (reply.status === 'ok' && place.pasted) this.take(place.pasted);
  }

  setLoading(isLoading) {
    this.isLoading = isLoading;
    for (const part of this.element.children) part.inert = isLoading;
    if (!isLoading && document.activeElement === this.element) this.focus();
  }

  /** Put the cursor into the URL, as soon as one can type there. */
  focus() {
    (this.isLoading ? this.element : this.url).focus();
  }

  /** Fill the fields from a tool's record. */
  set(tool, bundle, version = '') {
    this.known = tool;
    const request = tool.http.request;
    this.method.value = request.method ?? 'GET';
    this.url.value = request.urlTemplate;
    this.query.set(request.query ?? {});
    this.headers.set(request.headers ?? {});
    this.setBody(request);
    this.auth.set(request.auth ?? null);
    this.args.set(tool.argSchema ?? {});
    this.description.value = tool.description ?? '';
    this.tags.value = (tool.tags ?? []).join(', ');
    const { selector } = tool.http.response ?? {};
    this.selector.value = typeof selector === 'string' ? selector : '';
    this.version.value = version;
    if (bundle) {
      this.isBundleTyped = this.isToolTyped = true;
      this.bundle.value = bundle;
      this.tool.value = tool.slug;
    }
  }

  setBody({ body, bodyType }) {
    const other = bodyType && !BODIES[bodyType] ? bodyType : null;
    fill(this.bodyKind, Object.entries(other ? { ...BODIES, [other]: other } : BODIES).map(([value, title]) => h('option', { value }, title)));
    const kind = body === undefined || body === null ? 'none' : (bodyType ?? (typeof body === 'string' ? 'text' : 'json'));
    this.bodyKind.value = kind === 'form' && typeof body === 'string' ? 'text' : kind;
    const isForm = PAIRED.includes(this.bodyKind.value) && typeof body === 'object';
    this.bodyForm.set(isForm ? body : {});
    this.bodyText.value = isForm || kind === 'none' ? '' : typeof body === 'string' ? body : JSON.stringify(body, null, 2);
  }

  /** A body that is one file is an argument of that type. */
  changeBody() {
    if (this.bodyKind.value === 'binary' && !this.bodyText.value.trim()) this.bodyText.value = '{file}';
    this.changed();
    if (this.bodyKind.value === 'binary') this.args.setType('file', 'file');
  }

  /** Keep a part of what is shown, by a click on it. */
  keep(expression) {
    this.selector.value = within(this.selector.value.trim(), expression);
    this.selector.focus();
    return this.trySelector();
  }

  setSecrets(names) {
    this.secrets = names;
    this.auth.setNames(names);
  }

  /** Keep in step what follows from the fields: arguments, names, the auth of the bundle. */
  changed() {
    if (!this.isBundleTyped) this.bundle.value = bundleFor(this.url.value, this.bundles);
    if (!this.isToolTyped) this.tool.value = toolFor(this.method.value, this.url.value);
    const bundle = this.bundles.find(each => each.slug === this.bundle.value.trim());
    this.auth.setBundle(this.bundle.value.trim(), bundle ?? null);
    this.drawEnvironment(bundle);
    const kind = this.bodyKind.value;
    show(this.bodyText, kind !== 'none' && !PAIRED.includes(kind));
    show(this.bodyForm.element, PAIRED.includes(kind));
    const { request } = this.draft().http;
    const texts = [request.urlTemplate, request.query, request.headers, kind === 'none' ? '' : PAIRED.includes(kind) ? request.body : marked(this.bodyText.value)];
    this.args.follow(placeholdersIn(JSON.stringify(texts), [...this.secrets, ...Object.keys(bundle?.variables ?? {})]));
  }

  /** Show the environments of the bundle, and the URL that a request is sent to. */
  drawEnvironment(bundle) {
    const { environments = [], environment = '', variables = {}, baseUrl } = bundle ?? {};
    fill(this.environment, (environment ? environments : ['', ...environments]).map(name => h('option', { value: name }, name || 'no environment')));
    this.environment.value = environment;
    show(this.environment, environments.length > 0);
    const typed = this.url.value.trim();
    const isRelative = /^[/?]/.test(typed);
    const isHere = isRelative || pathBelow(typed, baseUrl) !== null;
    const named = marked(typed).replace(/(?<!\$)\$\{(\w+)\}/g, (whole, name) => (name in variables && !this.args.own.has(name) ? encodeURIComponent(variables[name].replace(/\$\{\w+\}/g, '***')) : `{${name}}`));
    const note = isRelative && !baseUrl ? 'A URL that begins with / needs a bundle with a base URL.' : `Sent to ${isRelative ? baseUrl : ''}${named}`;
    const whose = isHere ? ` (${environment})` : `, whatever the environment: this is not below ${baseUrl}`;
    show(fill(this.target, note, environment && !note.startsWith('A ') ? whose : ''), Boolean(typed) && (isRelative || environments.length > 0));
  }

  /** Let the bundle use another environment, after a yes where one is needed. */
  switchTo(name, agreed = []) {
    return this.run(async ask => {
      const bundle = this.bundle.value.trim();
      try {
        const path = pathBelow(this.url.value.trim(), this.bundles.find(each => each.slug === bundle)?.baseUrl);
        const reply = await ask('switchEnvironment', { bundle, name, agreed });
        if (!this.isSettled(reply, agreed, 'Switch', keys => this.switchTo(name, keys))) return;
        if (path !== null) {
          this.isBundleTyped = this.isToolTyped = true; // both were made of the whole address
          this.url.value = path;
        }
        await this.loadBundles(ask);
        this.say([`${bundle} uses ${name}.`, ...(reply.notes ?? [])].join(' '), 'ok');
        this.onSwitched();
      } finally {
        this.changed();
      }
    });
  }

  async loadBundles(ask) {
    const { bundles } = await ask('httpTool');
    this.bundles = bundles;
  }

  /** The tool's record as the fields are now; `wrong` collects what cannot be read. */
  draft(wrong = []) {
    const { http = {}, ...rest } = this.known ?? {};
    const { query: _q, headers: _h, body: _b, bodyType: _t, auth: _a, ...others } = http.request ?? {};
    const request = { ...others, method: this.method.value, urlTemplate: marked(this.url.value.trim()), ...this.body(wrong) };
    const [query, headers, auth] = [this.query.value(), this.headers.value(), this.auth.value()];
    if (Object.keys(query).length) request.query = query;
    if (Object.keys(headers).length) request.headers = headers;
    if (auth) request.auth = auth;
    const { selector, ...response } = http.response ?? {};
    const kept = typeof selector === 'object' && selector !== null && !this.selector.value.trim() ? { selector } : {};
    if (this.selector.value.trim()) kept.selector = this.selector.value.trim();
    const record = { type: 'http', displayName: this.tool.value.trim(), description: this.description.value.trim() || `${this.method.value} ${this.url.value.trim().replace(/^https?:\/\/[^/]*/i, '') || '/'}`, tags: this.tags.value.split(',').map(tag => tag.trim()).filter(Boolean), argSchema: this.args.schema(wrong), http: { request, response: { ...response, ...kept } } };
    for (const key of ['outputSchema', 'outputSchemaFrom', 'readOnly', 'limits']) if (rest[key] !== undefined) record[key] = rest[key];
    return record;
  }

  body(wrong) {
    const kind = this.bodyKind.value;
    if (kind === 'none') return {};
    if (PAIRED.includes(kind)) return { bodyType: kind, body: this.bodyForm.value() };
    if (kind === 'text') return { bodyType: 'text', body: this.bodyText.value };
    if (kind === 'binary') return { bodyType: 'binary', body: marked(this.bodyText.value.trim()) };
    try {
      const text = this.bodyText.value.replace(/([:[,]\s*)\$\{(\w+)\}(?=\s*[,\]}])/g, '$1"${$2}"'); // {"n": ${n}}
      return { bodyType: kind, body: JSON.parse(text, (_key, value) => (typeof value === 'string' && /^\{\w+\}$/.test(value) ? `$${value}` : value)) };
    } catch (error) {
      wrong.push({ pointer: '/http/request/body', message: `This is not JSON: ${error.message}.` });
      return {};
    }
  }

  /** Do one thing at a time, and say what went wrong. */
  async run(work, onFailed = error => this.say(error.message, 'failed')) {
    if (this.isBusy) return;
    this.isBusy = true;
    for (const button of [this.sendButton, this.saveButton]) button.setAttribute('aria-disabled', 'true'); // keeps the focus
    const reply = await this.requests.onceOf(work);
    if (reply.status === 'late') return;
    if (reply.status === 'failed') onFailed(reply.error);
    this.isBusy = false;
    for (const button of [this.sendButton, this.saveButton]) button.setAttribute('aria-disabled', 'false');
  }

  send(agreed = []) {
    return this.run(async ask => {
      this.say('Sending …');
      const wrong = [];
      const [tool, args] = [this.draft(wrong), this.args.values(wrong)];
      if (!(await this.isReady(wrong, ask))) return;
      const missing = this.args.missing();
      if (missing.length) {
        this.showErrors([{ pointer: `/args/${missing[0]}`, message: `Fill in 'Try with' for ${missing.join(', ')}.` }]);
        return;
      }
      const selector = this.selector.value;
      const reply = await ask('httpSend', { tool, args, agreed, bundle: this.bundle.value, selector, editor: this.id });
      if (!this.isSettled(reply, agreed, 'Send', keys => this.send(keys))) return;
      this.requests.latest('httpSelect').reset(); // what was selected of the response before is late
      this.showResponse(reply);
      if (selector !== this.selector.value) this.trySelector(); // it was typed while the request was under way
    });
  }

  save(agreed = []) {
    return this.run(async ask => {
      this.say('Saving …');
      const wrong = [];
      const tool = this.draft(wrong);
      if (!(await this.isReady(wrong, ask))) return;
      const names = { bundle: this.bundle.value, slug: this.tool.value, version: this.version.value };
      const isReplaced = this.saved !== '' && this.saved === JSON.stringify(names);
      const reply = await ask('httpSave', { ...names, tool, agreed, isReplaced, isShared: this.auth.isShared.checked && this.auth.canShare });
      if (!this.isSettled(reply, agreed, 'Save', keys => this.save(keys))) return;
      if (this.version.value === names.version) this.version.value = reply.version; // else another one was typed meanwhile
      this.saved = JSON.stringify({ ...names, version: reply.version });
      await this.loadBundles(ask);
      this.changed();
      this.saySaved(reply.name); // last: before, what is pasted next would be dropped
      this.onSaved(reply.name);
    });
  }

  /** Say how to call the saved tool, with the values that were tried; a click copies it. */
  saySaved(name) {
    const written = Object.entries(this.args.values([])).filter(([, value]) => typeof value !== 'object').map(([key, value]) => `${key}=${/^[\w.-]+$/.test(value) ? value : JSON.stringify(value)}`);
    const missing = this.args.missing().map(key => `${key}=`);
    const line = [`%tool ${name}`, ...written, ...missing].join(' ');
    const copy = h('button.otx-small', { type: 'button', title: 'Copy', onclick: async () => (await copyText(line)) && fill(note, ' copied') }, h('code', null, line));
    const note = h('span.otx-muted');
    this.say('', 'ok');
    fill(this.status, 'Saved. Call it: ', copy, note);
  }

  /** Store a secret that was typed, and show what cannot be read; false if something is wrong. */
  async isReady(wrong, ask) {
    this.showErrors(wrong);
    const pending = wrong.length ? null : this.auth.pending();
    if (pending) {
      const { errors, secrets } = await ask('httpSecret', pending);
      if (errors) this.showErrors(errors);
      else this.setSecrets(secrets), this.auth.choose(pending.name);
      return !errors;
    }
    return !wrong.length;
  }

  /** Show the errors of a reply, or ask its questions; true if it has neither. */
  isSettled({ errors, questions }, agreed, label, again) {
    if (errors) this.showErrors(errors);
    else if (questions) this.ask(questions, label, () => again([...agreed, ...questions.map(({ key }) => key)]));
    return !errors && !questions;
  }

  ask(questions, label, onYes) {
    const close = () => (show(this.question, false), (label === 'Switch' ? this.environment : this.sendButton).focus());
    const isHost = questions.some(({ key }) => key.startsWith('host:'));
    const yes = h('button.otx-run', { type: 'button', onclick: () => (close(), onYes()) }, isHost ? `Allow and ${label.toLowerCase()}` : `${label} it`);
    show(fill(this.question, h('div', null, questions.map(({ text }) => h('p', null, text))), yes, h('button.otx-small', { type: 'button', onclick: () => (close(), this.say(label === 'Switch' ? 'The environment stays as it is.' : 'Nothing was sent or saved.')) }, 'Cancel')), true);
    this.say('');
    offerFocus(yes, this.element); // not from one who has gone on meanwhile
  }

  showResponse({ request, response, view, isOk, selectorErrors }) {
    const { status, phrase, durationMs, size, headers } = response;
    this.say([`${status} ${phrase}`.trim(), duration(durationMs), byteSize(size)].join(' · '), isOk ? 'ok' : 'failed');
    show(this.empty, false);
    show(this.response, true);
    this.viewer.show(view);
    fill(this.parts.headers, table(['Header', 'Value'], Object.entries(headers)));
    fill(this.parts.request, h('pre', null, [`${request.method} ${request.url}`, ...Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`), ...(request.body ? ['', request.body] : [])].join('\n')));
    this.showPart('body');
    this.showErrors(selectorErrors ?? [], false);
    this.response.scrollIntoView({ block: 'nearest' });
  }

  async trySelector() {
    if (this.response.hidden) return;
    const reply = await this.requests.latest('httpSelect').send({ selector: this.selector.value, editor: this.id });
    if (reply.status === 'late') return; // another selector or response is newer
    if (reply.status === 'failed') {
      this.say(reply.error.message, 'failed');
      return;
    }
    const { errors, view } = reply.value;
    this.showErrors(errors ?? [], false);
    if (view) this.viewer.show(view);
  }

  readCurl() {
    return this.run(async ask => {
      this.showErrors([]);
      const text = this.curl.value;
      const { tool, notes, missing, secrets } = await ask('httpCurl', { text, isKept: this.keepsSecrets.checked });
      this.setSecrets(secrets);
      this.set(tool, null);
      this.known = null;
      if (this.curl.value === text) this.curl.value = ''; // else the next one was pasted meanwhile
      this.curlBox.open = this.curl.value !== '';
      this.changed();
      this.say(['Filled in.', ...notes, ...missing.map(name => `The secret ${name} is not stored yet.`)].join(' '), 'ok');
      offerFocus(this.url, this.element);
    }, error => this.showErrors([{ pointer: '/curl', message: error.message }]));
  }

  onPaste(event) {
    const text = event.clipboardData?.getData('text/plain') ?? '';
    if (!/^\s*curl\s/.test(text)) return;
    event.preventDefault();
    this.take(text);
  }

  /** Fill the fields from a curl command or an address. */
  take(text) {
    if (/^https?:/i.test(text)) {
      this.url.value = text;
      this.changed();
      return;
    }
    this.curlBox.open = true;
    this.curl.value = text;
    this.readCurl();
  }

  onKey(event) {
    event.stopPropagation();
    const isOurs = (event.ctrlKey || event.metaKey) && (event.key === 'Enter' || (event.key === 's' && this.isTab));
    if (!isOurs) return;
    event.preventDefault();
    if (event.key === 'Enter') this.send();
    else this.save();
  }

  say(text, kind = '') {
    this.status.className = `otx-editor-status${kind ? ` otx-${kind}` : ''}`;
    fill(this.status, text);
  }

  /** The place for the error of a part of the record. */
  errorAt(pointer, control) {
    const box = h('div.otx-error', { id: uniqueId('error'), hidden: true });
    this.errors.set(pointer, { box, control });
    return box;
  }

  showErrors(errors, isSaid = true) {
    for (const each of this.errors.values()) this.setError(each, '');
    const loose = [];
    let first = null;
    for (const { pointer, message } of errors) {
      const own = this.args.controlAt(pointer);
      const found = [...this.errors.keys()].filter(prefix => pointer === prefix || pointer.startsWith(`${prefix}/`) || (prefix.endsWith('body') && pointer.startsWith(prefix))).pop();
      if (!found) loose.push(message);
      else this.setError(this.errors.get(found), own && !message.startsWith('Fill in') ? `${own.dataset.name}: ${message}` : message);
      first ??= own ?? (found && this.errors.get(found).control);
      if (['/version', '/description', '/tags'].includes(found)) this.more.open = true;
    }
    if (loose.length) this.say(loose.join(' '), 'failed');
    else if (errors.length && isSaid) this.say(errors.length === 1 ? errors[0].message : `Correct the ${errors.length} marked fields.`, 'failed');
    if (isSaid && first) offerFocus(first.matches('input, select, textarea') ? first : first.querySelector('input, select, textarea'), this.element);
  }

  setError({ box, control }, message) {
    show(fill(box, message), Boolean(message));
    if (message) control.setAttribute('aria-describedby', box.id);
    else control.removeAttribute('aria-describedby');
    if (control.matches('input, select, textarea')) control.setAttribute('aria-invalid', String(Boolean(message)));
  }

  clearError(target) {
    for (const each of this.errors.values()) if (each.control.contains(target)) this.setError(each, '');
  }
}

function input(label, props) {
  return h('input.otx-input', { type: 'text', 'aria-label': label, spellcheck: 'false', autocomplete: 'off', ...props });
}

function nameControl(control) {
  control.id ||= uniqueId('field');
  return control.id;
}

function table(titles, rows) {
  return h('table.otx-columns', null, h('thead', null, h('tr', null, titles.map(title => h('th', { scope: 'col' }, title)))), h('tbody', null, rows.map(([name, value]) => h('tr', null, h('th', { scope: 'row' }, name), h('td.otx-whole', null, value)))));
}

/** The path of a whole address below a base URL; null if it is not below it. The kernel decides when it saves. */
function pathBelow(url, baseUrl) {
  const base = (baseUrl ?? '').replace(/\/$/, '');
  const isBelow = base !== '' && url.startsWith(base) && /^[/?]/.test(url.slice(base.length));
  return isBelow ? url.slice(base.length) : null;
}

/** The bundle of the same API, else a name from the host. */
function bundleFor(url, bundles) {
  const [origin, host] = /^https?:\/\/([^/?#:]*)(?::\d+)?/i.exec(url) ?? ['', ''];
  const same = origin && bundles.find(({ baseUrl }) => baseUrl && (baseUrl === origin || baseUrl.startsWith(`${origin}/`)));
  if (same) return same.slug;
  if (!host) return '';
  const names = host.toLowerCase().split('.').filter(part => /^[a-z]/.test(part) && !['www', 'api', 'localhost'].includes(part));
  return (names.length > 1 ? names.at(-2) : names[0]) ?? 'my-api';
}

/** A name from the method and the last fixed part of the path. */
function toolFor(method, url) {
  const path = url.replace(/^https?:\/\/[^/]*/i, '').split(/[?#]/)[0];
  const part = path.split('/').filter(each => /^[\w-]+$/.test(each)).pop();
  return part ? `${method.toLowerCase()}-${part.toLowerCase().replaceAll('_', '-')}` : '';
}
