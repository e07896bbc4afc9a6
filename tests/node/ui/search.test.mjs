// The search of the tool list: what is found while it is typed, with typos, and what comes first.
import assert from 'node:assert/strict';
import test from 'node:test';

import { ui } from './page.mjs';

const { matchingSpans, SearchIndex } = await ui('search');

const TOOLS = [
  ['fs.list_dir', 'List the files in a directory.', ['path', 'maxDepth']],
  ['fs.read_file', 'Read a text file.', ['path']],
  ['my-api.get-orders', 'get-orders', ['id']],
  ['time.now', 'The time now.', []],
  ['time.convert_time', 'A time in another zone.', ['zone']],
  ['crm.createTicket', 'Open a ticket for a customer.', ['subject'], ['support']],
  ['größe.messen', 'Misst die Größe.', []],
  ['数据.查询', '查询数据', []]
].map(([name, description, args, tags = []]) => ({ name, description, arguments: args, tags }));
const index = new SearchIndex(TOOLS);
const names = query => index.search(query).map(({ entry }) => entry.name);
const first = query => names(query)[0];

test('a tool stays found while its name is typed, with any separators or none', () => {
  for (const typed of ['my-api.get-orders', 'myapi.getorders', 'my_api get_orders', 'getorders', 'get-orders', 'MyApi', 'my api']) {
    for (let end = 4; end <= typed.length; end += 1) assert.equal(first(typed.slice(0, end)), 'my-api.get-orders', typed.slice(0, end));
  }
});

test('typos are forgiven: a letter more, less, other, or two swapped', () => {
  const typos = {
    'my-api.get-orders': ['ordres', 'getordrs', 'my-api.get-oders', 'myapj'],
    'fs.list_dir': ['lstdir', 'lits dir', 'fs.list_dri'],
    'time.now': ['tme.nwo', 'time.mow'],
    'crm.createTicket': ['create tikcet', 'creatticket', 'suport']
  };
  for (const [name, queries] of Object.entries(typos)) for (const query of queries) assert.equal(first(query), name, query);
});

test('the name itself comes first, then its beginning, the shorter one first, then words of the description', () => {
  assert.deepEqual(names('time').slice(0, 2), ['time.now', 'time.convert_time']);
  assert.equal(first('now'), 'time.now');
  assert.equal(first('customer ticket'), 'crm.createTicket');
  assert.equal(first('path directory'), 'fs.list_dir');
  assert.equal(first('read nonsense'), 'fs.read_file', 'where no tool has all words, one with some is shown');
  assert.equal(first('GRÖSSE'.normalize('NFD')), 'größe.messen');
  assert.equal(first('Größe'), 'größe.messen');
  assert.equal(first('数据'), '数据.查询');
  assert.ok(names('a').includes('crm.createTicket'), 'one letter that is a word of the description');
});

test('what has no letter or is too long finds nothing, and breaks nothing', () => {
  for (const query of ['', ' ', '...', '__proto__', 'x'.repeat(10_000), 'a b c d e f g h i j k']) assert.ok(Array.isArray(index.search(query)));
  assert.deepEqual(index.search('...'), []);
  assert.equal(index.search('i', 2).length <= 2, true);
});

test('the letters that were typed are marked in the name', () => {
  assert.deepEqual(matchingSpans('getord', 'my-api.get-orders'), [[7, 10], [11, 14]]);
  assert.deepEqual(matchingSpans('FS read', 'fs.read_file'), [[0, 2], [3, 7]]);
  assert.deepEqual(matchingSpans('file read', 'fs.read_file'), [[3, 7], [8, 12]]);
  assert.deepEqual(matchingSpans('', 'fs.read_file'), []);
  assert.deepEqual(matchingSpans('xyz', 'fs.read_file'), []);
  const [{ entry, terms }] = index.search('ordres');
  assert.deepEqual(matchingSpans('ordres', entry.name, terms), [[11, 17]], 'of a typo, the word that was meant');
});
