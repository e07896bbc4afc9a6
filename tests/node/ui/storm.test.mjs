// A kernel that answers in any order, late and with refusals, while a person clicks without waiting: no exception, and in the
// end each part shows what was asked of it last. ONETOOL_STORMS sets how many times (3).
import assert from 'node:assert/strict';
import test from 'node:test';
import { type, ui, until } from './page.mjs';

const { Transport } = await ui('transport');
const { createBrowser } = await ui('browser');
document.execCommand ??= () => true;
const STORMS = Number(process.env.ONETOOL_STORMS ?? 3);
const CLICKS = 200;

const NAMES = Array.from({ length: 12 }, (_, at) => `pack${at % 3}.tool${at}`);
const entry = name => ({ name, pack: name.split('.')[0], source: 'local', tags: [], summary: name, description: name, arguments: [], badges: [], disabled: false });
const page = name => ({ ...entry(name), signature: `${name}()`, parameters: { type: 'object', properties: {} }, usage: { calls: 0 }, isFavourite: false });

/** Random numbers that are the same for the same seed. */
function randomOf(seed) {
  let state = seed * 2654435761 % 2 ** 32;
  return n => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * n);
  };
}

function kernelOf(random, isCalm) {
  const stars = new Set();
  let jobs = 0;
  const answers = {
    overview: () => ({ tools: NAMES.length, packs: ['pack0', 'pack1', 'pack2'].map(name => ({ name, count: 4 })), sources: ['local'], tags: [], badges: [], favourites: [...stars], recent: [] }),
    entries: () => ({ items: NAMES.map(entry), icons: [], isPartial: true }),
    search: ({ query, filters }) => ({ items: NAMES.filter(name => name.includes(query) && (!filters.pack || name.startsWith(filters.pack)) && (!filters.isFavourite || stars.has(name))).map(entry), icons: [] }),
    favourite: ({ name, isOn }) => (isOn ? stars.add(name) : stars.delete(name), { favourites: [...stars] }),
    tool: ({ name }) => ({ ...page(name), isFavourite: stars.has(name) }),
    check: () => ({ errors: [], code: { tool: '%tool' } }),
    run: () => ({ job: `j${(jobs += 1)}` }),
    cancel: () => ({}),
    history: ({ query, isFailed, since, offset }) => ({ hasMore: offset < 50, items: [{ id: `${query}|${isFailed}|${since}|${offset}`, tool: NAMES[0], ok: true, ms: 1, when: 'now', summary: `asked ${query} ${isFailed} ${since}`, args: {}, readOnly: true }] }),
    results: () => ({ items: [{ handle: 'h', tool: NAMES[1], when: 'now', summary: '3 lines' }] }),
    open: ({ handle }) => ({ ok: true, handle, lines: 1, preview: ['a'], kinds: ['text'] })
  };
  const transport = new Transport(({ id, kind, payload }) => {
    const value = answers[kind]?.(payload); // the kernel does things in the order in which it is asked
    const message = value === undefined || (!isCalm() && random(12) === 0) ? { id, error: { message: `${kind} was refused.` } } : { id, value };
    setTimeout(() => {
      transport.receive(message);
      if (kind === 'run' && value.job && !message.error) setTimeout(() => transport.receive({ event: 'job', job: value.job, result: { ok: true, tool: payload.name, lines: 1, preview: ['x'], kinds: ['text'] } }), random(20));
    }, random(20));
  });
  return { transport, stars };
}

for (let storm = 1; storm <= STORMS; storm += 1) {
  test(`a storm of ${CLICKS} clicks ends in what was asked last, number ${storm}`, async () => {
    const random = randomOf(storm);
    let isCalm = true;
    const { transport, stars } = kernelOf(random, () => isCalm);
    const browser = createBrowser(transport);
    document.body.replaceChildren(browser.element);
    await until(() => browser.tools.items.length);
    isCalm = false;
    const pick = list => list[random(list.length)];
    const buttons = selector => [...browser.element.querySelectorAll(selector)].filter(each => !each.closest('[hidden]') && !each.disabled);
    const actions = [
      () => browser.open(pick(NAMES), null, false),
      () => pick(buttons('.otx-tabs [data-kind]'))?.click(),
      () => pick(buttons('.otx-pack'))?.click(),
      () => pick(buttons('.otx-star'))?.click(),
      () => pick(buttons('.otx-run'))?.click(),
      () => pick(buttons('.otx-history button'))?.click(),
      () => pick(buttons('button'))?.click(),
      () => type(browser.search, pick(['', 'tool1', 'pack2', 'tool'])),
      () => transport.receive({ event: 'changed' })
    ];
    for (let click = 0; click < CLICKS; click += 1) {
      pick(actions)();
      if (random(3) === 0) await new Promise(resolve => setTimeout(resolve, random(8)));
    }
    await until(() => transport.longestWaitMs === 0);

    isCalm = true; // from here on nothing is refused, and what was asked last must be there
    const last = pick(NAMES);
    for (const name of [pick(NAMES), pick(NAMES), last]) browser.open(name, null, false);
    browser.selectView('tools');
    browser.setFilters({ pack: '', source: '', tag: '', isFavourite: false });
    for (const text of ['pack1', 'tool', 'tool7']) type(browser.search, text);
    for (const isOn of [true, false, true]) browser.setFavourite(last, isOn);
    await until(() => transport.longestWaitMs === 0 && browser.tools.items.map(({ name }) => name).join() === 'pack1.tool7', `tools: ${browser.tools.items.map(({ name }) => name)}`);
    await until(() => browser.element.querySelector('.otx-title h3')?.textContent === last, `not the tool that was opened last: ${last}`);
    assert.ok(stars.has(last));
    await until(() => browser.element.querySelector('.otx-title .otx-star').getAttribute('aria-pressed') === 'true', 'the star is not what the kernel knows');
    browser.selectView('history');
    for (const isFailed of [1, 2, 3]) void isFailed, browser.history.element.querySelector('button').click();
    type(browser.search, 'last words');
    const isPressed = () => browser.history.element.querySelector('button').getAttribute('aria-pressed');
    await until(() => [...browser.element.querySelectorAll('.otx-history .otx-tool-summary')].every(each => each.textContent.startsWith(`asked last words ${isPressed()}`)) && browser.element.querySelector('.otx-history .otx-tool-summary'), 'the history is not of the last search');
    browser.close();
    await new Promise(resolve => setTimeout(resolve, 50));
  });
}
