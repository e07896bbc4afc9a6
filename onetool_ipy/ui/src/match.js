// Find things by what a person types. The twin of onetool_ipy/core/match.py: the same entries and the same query give
// the same order, which tests/ui compares. For up to some thousand entries, so that a keystroke asks no one.
import { Spelled, Vocabulary, allowedEdits, compare, indel, keyOf, lengthOf } from './words.js';

const MAX_QUERY = 200;
const MAX_UNITS = 8;
const MAX_DESCRIPTION = 600;
const STOP = new Set(
  'a an and are as at be by can do for from how i in is it me my of on or that the this to use with'.split(' ')
);

/** Entries `{name, description, arguments, tags}`, ready to be searched. */
export class Index {
  constructor(entries) {
    const given = [...entries].sort((a, b) => compare(a.name, b.name));
    const keyed = given.map(entry => ({ entry, key: keyOf(entry.name) }));
    keyed.sort((a, b) => lengthOf(a.key) - lengthOf(b.key) || compare(a.key, b.key));
    this.entries = keyed.map(each => each.entry);
    this.keys = keyed.map(each => each.key);
    this.tails = this.entries.map((entry, i) => tailOf(entry.name, this.keys[i]));
    this.spelledKeys = this.keys.map(key => new Spelled(key));
    this.spelledTails = this.tails.map(tail => new Spelled(tail));
    this.sortedKeys = sorted(this.keys);
    this.sortedTails = sorted(this.tails);
    this.sortedSaid = sorted(this.entries.map(entry => keyOf([...(entry.description ?? '')].slice(0, MAX_QUERY).join('').split('\n')[0])));
    this.words = new Vocabulary([
      this.entries.map(entry => entry.name),
      this.entries.map(entry => (entry.tags ?? []).join(' ')),
      this.entries.map(entry => (entry.arguments ?? []).join(' ')),
      this.entries.map(entry => [...(entry.description ?? '')].slice(0, MAX_DESCRIPTION).join(''))
    ]);
  }

  /** The entries that fit, best first, as `{entry, score, tier}`. */
  search(query, limit = 20) {
    const text = [...query].slice(0, MAX_QUERY).join('').trim();
    const key = keyOf(text);
    const wanted = limit ?? this.entries.length;
    if (!key || wanted < 1) return [];
    const found = new Map();
    let best = 100;
    for (const [tier, i, score] of this.ranked(text, key, wanted)) {
      if (found.has(i)) continue;
      best = Math.min(best, score);
      found.set(i, { entry: this.entries[i], score: Math.round(best * 100) / 100, tier });
      if (found.size === wanted) break;
    }
    return [...found.values()];
  }

  *ranked(text, key, wanted) {
    for (const i of this.exact(text, key)) yield ['exact', i, this.keys[i] === key ? 100 : 99];
    for (const i of having(this.sortedSaid, key).sort(byNumber)) yield ['exact', i, 98.5];
    const long = lengthOf(key);
    for (const i of this.starting(key)) yield ['prefix', i, 90 + (8 * long) / Math.max(long, lengthOf(this.keys[i]))];
    for (const [i, weight] of this.wholeWords(text)) yield ['word', i, 80 + 8 * weight];
    for (const [i, score] of this.fuzzy(key, wanted)) yield ['fuzzy', i, score];
  }

  exact(text, key) {
    const whole = having(this.sortedKeys, key);
    whole.sort((a, b) => (this.entries[a].name !== text) - (this.entries[b].name !== text));
    return [...whole, ...having(this.sortedTails, key).sort(byNumber)];
  }

  *starting(key) {
    const both = [this.sortedKeys, this.sortedTails];
    for (const keys of both) yield* beginning(keys, key + ' ').sort(byNumber);
    yield* [...new Set(both.flatMap(keys => beginning(keys, key)))].sort(byNumber);
  }

  *wholeWords(text) {
    const terms = [...new Set(text.split(/\s+/).slice(0, MAX_UNITS).map(keyOf).filter(Boolean))];
    if (terms.length === 1 && !terms[0].includes(' ')) {
      for (const [ids, weight] of this.words.having(terms[0])) for (const i of ids) yield [i, weight];
      return;
    }
    const weighed = terms.map(term => this.withTerm(term)).sort((a, b) => a.size - b.size);
    const scores = new Map();
    for (const i of weighed[0]?.keys() ?? []) {
      if (!weighed.every(each => each.has(i))) continue;
      scores.set(i, weighed.reduce((sum, each) => sum + each.get(i), 0) / weighed.length);
    }
    yield* bestFirst(scores);
  }

  withTerm(term) {
    if (!term.includes(' ')) return this.words.weighed([[term, 1]]);
    const lists = term.split(' ').map(part => this.words.inNames(part));
    const rarest = lists.reduce((least, each) => (each.length < least.length ? each : least));
    return new Map(rarest.filter(i => ` ${this.keys[i]} `.includes(` ${term} `)).map(i => [i, 1]));
  }

  *fuzzy(key, wanted) {
    const scores = new Map(this.likeWords(key, wanted));
    for (const [i, score] of this.nearNames(key)) if (score > (scores.get(i) ?? 0)) scores.set(i, score);
    yield* bestFirst(scores);
  }

  *nearNames(key) {
    const edits = allowedEdits(lengthOf(key));
    if (!edits) return;
    for (const [i, similarity] of near(key, this.keys, this.spelledKeys, edits)) yield [i, 79 * similarity];
    for (const [i, similarity] of near(key, this.tails, this.spelledTails, edits)) yield [i, 76 * similarity];
  }

  *likeWords(key, wanted) {
    const asked = [...new Set(key.split(' '))].slice(0, MAX_UNITS);
    const telling = asked.filter(unit => !STOP.has(unit));
    const units = telling.length ? telling : asked;
    const weighed = units.map(unit => this.words.weighed(this.words.like(unit)));
    const counts = new Map();
    for (const qualities of weighed) for (const i of qualities.keys()) counts.set(i, (counts.get(i) ?? 0) + 1);
    const enough = least => {
      let n = 0;
      for (const count of counts.values()) if (count >= least) n += 1;
      return n >= wanted;
    };
    let least = units.length;
    while (least > Math.floor((units.length + 1) / 2) && !enough(least)) least -= 1;
    for (const [i, count] of counts) {
      if (count < least) continue;
      const sum = weighed.reduce((total, each) => total + (each.get(i) ?? 0), 0);
      yield [i, (70 * sum) / units.length];
    }
  }
}

/** Where in a name the letters stand that a query shares with it: [start, end] in order. */
export function spans(query, name) {
  const low = name.toLowerCase();
  const wanted = query.toLowerCase().trim();
  if (low.length !== name.length || !wanted) return [];
  const at = low.indexOf(wanted);
  if (at >= 0) return [[at, at + wanted.length]];
  const found = new Set();
  for (const unit of keyOf(query).split(' ').slice(0, MAX_UNITS)) {
    const start = low.indexOf(unit);
    if (unit && start >= 0) for (let i = 0; i < unit.length; i += 1) found.add(start + i);
    else for (const position of shared(unit, low)) found.add(position);
  }
  return runs([...found].sort(byNumber));
}

function shared(unit, name) {
  let best = null;
  for (const match of name.matchAll(/[\p{L}\p{N}]+/gu)) {
    const likeness = 1 - indel(unit, match[0]) / (unit.length + match[0].length || 1);
    if (!best || likeness > best.likeness) best = { likeness, word: match[0], start: match.index };
  }
  if (!best || best.likeness < 0.6) return [];
  return common(unit, best.word).map(i => best.start + i);
}

/** Positions in `word` of one longest common subsequence with `unit`. */
function common(unit, word) {
  const table = Array.from({ length: unit.length + 1 }, () => new Array(word.length + 1).fill(0));
  for (let i = unit.length - 1; i >= 0; i -= 1) {
    for (let j = word.length - 1; j >= 0; j -= 1) {
      table[i][j] = unit[i] === word[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const positions = [];
  for (let i = 0, j = 0; i < unit.length && j < word.length; ) {
    if (unit[i] === word[j]) {
      positions.push(j);
      i += 1;
      j += 1;
    } else if (table[i + 1][j] >= table[i][j + 1]) i += 1;
    else j += 1;
  }
  return positions;
}

function runs(positions) {
  const found = [];
  for (const position of positions) {
    const last = found.at(-1);
    if (last && last[1] === position) last[1] += 1;
    else found.push([position, position + 1]);
  }
  return found;
}

function near(key, names, spelled, edits) {
  const asked = new Spelled(key);
  const found = [];
  for (let i = 0; i < names.length; i += 1) {
    const distance = asked.edits(spelled[i], edits);
    if (distance <= edits) found.push([i, distance]);
  }
  // As rapidfuzz does it: the 50 nearest, equal ones in the order of their list, which goes by length.
  found.sort((a, b) => a[1] - b[1] || spelled[a[0]].length - spelled[b[0]].length || a[0] - b[0]);
  return found.slice(0, 50).map(([i, distance]) => {
    const other = spelled[i].length;
    const apart = distance + (0.25 * indel(key, names[i])) / (asked.length + other || 1);
    return [i, 1 - apart / Math.max(asked.length, other)];
  });
}

function tailOf(name, key) {
  const dot = name.indexOf('.');
  if (dot < 0) return '';
  const head = keyOf(name.slice(0, dot));
  const start = head ? head + ' ' : '';
  return key.startsWith(start) ? key.slice(start.length) : key;
}

function bestFirst(scores) {
  return [...scores].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

function sorted(keys) {
  const ids = keys.map((_, i) => i).sort((a, b) => compare(keys[a], keys[b]) || a - b);
  return { keys: ids.map(i => keys[i]), ids };
}

function lower(keys, wanted) {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(keys[middle], wanted) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function having({ keys, ids }, key) {
  const found = [];
  for (let at = lower(keys, key); at < keys.length && keys[at] === key; at += 1) found.push(ids[at]);
  return found;
}

function beginning({ keys, ids }, start) {
  const found = [];
  for (let at = lower(keys, start); at < keys.length && keys[at].startsWith(start); at += 1) found.push(ids[at]);
  return found;
}

function byNumber(a, b) {
  return a - b;
}
