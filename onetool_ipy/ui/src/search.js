// The search of the tool list, in the page: the JavaScript twin of onetool_ipy/base/search.py. The same entries and the
// same query give the same order as `ot.help`; a test compares the two over 700 queries. Used for up to 2,000 tools;
// beyond that the kernel searches.
//
// Why it is written by hand, measured with 2,000 tools in JupyterLab: a keystroke takes 9 ms here and 42 ms when the
// kernel searches (best of six rounds, busy machine), and it works while the kernel is busy. Of MiniSearch's answers 72 %
// have the same first tool as `ot.help`, of uFuzzy's 55 %, and practically none the same order; they are not smaller
// (17.7 and 8.9 kB minified, this file 8.8 kB) and with 10,000 tools slower (23 and 19 ms, this file 3 ms).

const MAX_QUERY = 200;
const MAX_UNITS = 8;
const MAX_DESCRIPTION = 600;
const STOP_WORDS = new Set(
  'a an and are as at be by can do for from how i in is it me my of on or that the this to use with'.split(' ')
);
const SEPARATORS = /[!-/:-@[-`{-~]/g;
const CAMEL_CASE = /(?<=[a-z0-9])(?=[A-Z])/g;
const WEIGHTS = [1.0, 0.9, 0.85, 0.8];
const MAX_POSTINGS = 4000;
const MAX_WORDS = 60;

/** An index over entries `{name, description, arguments, tags}`. */
export class SearchIndex {
  constructor(entries) {
    const given = [...entries].sort((a, b) => compare(a.name, b.name));
    const keyed = given.map(entry => ({ entry, key: keyOf(entry.name) }));
    keyed.sort((a, b) => lengthOf(a.key) - lengthOf(b.key) || compare(a.key, b.key));
    this.entries = keyed.map(each => each.entry);
    this.keys = keyed.map(each => each.key);
    this.tails = this.entries.map((entry, i) => tailOf(entry.name, this.keys[i]));
    this.keyCodes = this.keys.map(key => new LetterCodes(key));
    this.tailCodes = this.tails.map(tail => new LetterCodes(tail));
    this.sortedKeys = sorted(this.keys);
    this.sortedTails = sorted(this.tails);
    this.sortedSummaries = sorted(this.entries.map(entry => keyOf([...(entry.description ?? '')].slice(0, MAX_QUERY).join('').split('\n')[0])));
    this.words = new Vocabulary([
      this.entries.map(entry => entry.name),
      this.entries.map(entry => (entry.tags ?? []).join(' ')),
      this.entries.map(entry => (entry.arguments ?? []).join(' ')),
      this.entries.map(entry => [...(entry.description ?? '')].slice(0, MAX_DESCRIPTION).join(''))
    ]);
  }

  /** The entries that match, best first, as `{entry, score, tier}`. */
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
    for (const i of equalTo(this.sortedSummaries, key).sort(byNumber)) yield ['exact', i, 98.5];
    const length = lengthOf(key);
    for (const i of this.starting(key)) yield ['prefix', i, 90 + (8 * length) / Math.max(length, lengthOf(this.keys[i]))];
    for (const [i, weight] of this.wholeWords(text)) yield ['word', i, 80 + 8 * weight];
    for (const [i, score] of this.fuzzy(key, wanted)) yield ['fuzzy', i, score];
  }

  exact(text, key) {
    const whole = equalTo(this.sortedKeys, key);
    whole.sort((a, b) => (this.entries[a].name !== text) - (this.entries[b].name !== text));
    return [...whole, ...equalTo(this.sortedTails, key).sort(byNumber)];
  }

  *starting(key) {
    const both = [this.sortedKeys, this.sortedTails];
    for (const keys of both) yield* startingWith(keys, key + ' ').sort(byNumber);
    yield* [...new Set(both.flatMap(keys => startingWith(keys, key)))].sort(byNumber);
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
    const scores = new Map(this.similarWords(key, wanted));
    for (const [i, score] of this.nearNames(key)) if (score > (scores.get(i) ?? 0)) scores.set(i, score);
    yield* bestFirst(scores);
  }

  *nearNames(key) {
    const edits = allowedEdits(lengthOf(key));
    if (!edits) return;
    for (const [i, similarity] of nearest(key, this.keys, this.keyCodes, edits)) yield [i, 79 * similarity];
    for (const [i, similarity] of nearest(key, this.tails, this.tailCodes, edits)) yield [i, 76 * similarity];
  }

  *similarWords(key, wanted) {
    const words = [...new Set(key.split(' '))].slice(0, MAX_UNITS);
    const meaningful = words.filter(unit => !STOP_WORDS.has(unit));
    const units = meaningful.length ? meaningful : words;
    const weighed = units.map(unit => this.words.weighed(this.words.similar(unit)));
    const counts = new Map();
    for (const qualities of weighed) for (const i of qualities.keys()) counts.set(i, (counts.get(i) ?? 0) + 1);
    const isEnough = least => {
      let n = 0;
      for (const count of counts.values()) if (count >= least) n += 1;
      return n >= wanted;
    };
    let least = units.length;
    while (least > Math.floor((units.length + 1) / 2) && !isEnough(least)) least -= 1;
    for (const [i, count] of counts) {
      if (count < least) continue;
      const sum = weighed.reduce((total, each) => total + (each.get(i) ?? 0), 0);
      yield [i, (70 * sum) / units.length];
    }
  }
}

/** The parts of a name that match a query, to highlight: [start, end] in order. */
export function matchingSpans(query, name) {
  const low = name.toLowerCase();
  const wanted = query.toLowerCase().trim();
  if (low.length !== name.length || !wanted) return [];
  const at = low.indexOf(wanted);
  if (at >= 0) return [[at, at + wanted.length]];
  const found = new Set();
  for (const unit of keyOf(query).split(' ').slice(0, MAX_UNITS)) {
    const start = low.indexOf(unit);
    if (unit && start >= 0) for (let i = 0; i < unit.length; i += 1) found.add(start + i);
    else for (const position of similarPositions(unit, low)) found.add(position);
  }
  return toSpans([...found].sort(byNumber));
}

function similarPositions(unit, name) {
  let best = null;
  for (const match of name.matchAll(/[\p{L}\p{N}]+/gu)) {
    const likeness = 1 - indel(unit, match[0]) / (unit.length + match[0].length || 1);
    if (!best || likeness > best.likeness) best = { likeness, word: match[0], start: match.index };
  }
  if (!best || best.likeness < 0.6) return [];
  return commonPositions(unit, best.word).map(i => best.start + i);
}

/** Positions in `word` of one longest common subsequence with `unit`. */
function commonPositions(unit, word) {
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

function toSpans(positions) {
  const found = [];
  for (const position of positions) {
    const last = found.at(-1);
    if (last && last[1] === position) last[1] += 1;
    else found.push([position, position + 1]);
  }
  return found;
}

function nearest(key, names, codes, edits) {
  const wanted = new LetterCodes(key);
  const found = [];
  for (let i = 0; i < names.length; i += 1) {
    const distance = wanted.editDistance(codes[i], edits);
    if (distance <= edits) found.push([i, distance]);
  }
  // As rapidfuzz does: the 50 nearest; ties keep the order of the list, which is sorted by length.
  found.sort((a, b) => a[1] - b[1] || codes[a[0]].length - codes[b[0]].length || a[0] - b[0]);
  return found.slice(0, 50).map(([i, distance]) => {
    const length = codes[i].length;
    const apart = distance + (0.25 * indel(key, names[i])) / (wanted.length + length || 1);
    return [i, 1 - apart / Math.max(wanted.length, length)];
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

function lowerBound(keys, wanted) {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(keys[middle], wanted) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function equalTo({ keys, ids }, key) {
  const found = [];
  for (let at = lowerBound(keys, key); at < keys.length && keys[at] === key; at += 1) found.push(ids[at]);
  return found;
}

function startingWith({ keys, ids }, start) {
  const found = [];
  for (let at = lowerBound(keys, start); at < keys.length && keys[at].startsWith(start); at += 1) found.push(ids[at]);
  return found;
}

function byNumber(a, b) {
  return a - b;
}

/** A text in the form that is compared: case, separators and letter variants are normalized. */
function keyOf(text) {
  const plain = isAscii(text) ? text : text.normalize('NFKC');
  return foldCase(plain).replace(SEPARATORS, ' ').split(/\s+/).filter(Boolean).join(' ');
}

/** How many typos a word or name of this length may have and still match. */
function allowedEdits(length) {
  return length < 3 ? 0 : length < 6 ? 1 : length < 12 ? 2 : 3;
}

/** Order by code points, as Python does. */
function compare(a, b) {
  if (a === b) return 0;
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i += 1) {
    if (a.charCodeAt(i) === b.charCodeAt(i)) continue;
    return a.codePointAt(i) - b.codePointAt(i) || a.charCodeAt(i) - b.charCodeAt(i);
  }
  return a.length - b.length;
}

/** The length in code points. */
function lengthOf(text) {
  if (isAscii(text)) return text.length;
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

/** The code points of a text, and a bit mask of its letters that rules out most distant texts at once. */
class LetterCodes {
  constructor(text) {
    this.codes = Array.from(text, letter => letter.codePointAt(0));
    this.mask = 0;
    for (const code of this.codes) this.mask |= 1 << code % 31;
  }

  get length() {
    return this.codes.length;
  }

  /** The edit distance to another text, where a swap of neighbours is one edit; `most + 1` if it is above `most`. */
  editDistance(other, most) {
    const from = this.codes;
    const to = other.codes;
    // An edit changes at most two letters of the mask, a swap none.
    if (Math.abs(from.length - to.length) > most || bits(this.mask ^ other.mask) > 2 * most) return most + 1;
    return osa(from, to, most);
  }
}

const ROWS = [new Int32Array(512), new Int32Array(512), new Int32Array(512)];

function osa(from, to, most) {
  const wide = to.length + 1;
  let [before, above, row] = wide <= 512 ? ROWS : ROWS.map(() => new Int32Array(wide));
  for (let j = 0; j < wide; j += 1) above[j] = j;
  for (let i = 1; i <= from.length; i += 1) {
    const low = Math.max(1, i - most);
    const high = Math.min(to.length, i + most);
    let least = (row[low - 1] = low === 1 ? i : most + 1);
    for (let j = low; j <= high; j += 1) {
      let cost = above[j - 1] + (from[i - 1] === to[j - 1] ? 0 : 1);
      if (j < i + most && above[j] + 1 < cost) cost = above[j] + 1;
      if (row[j - 1] + 1 < cost) cost = row[j - 1] + 1;
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1] && before[j - 2] + 1 < cost) {
        cost = before[j - 2] + 1;
      }
      row[j] = cost;
      if (cost < least) least = cost;
    }
    if (least > most) return most + 1;
    [before, above, row] = [above, row, before];
  }
  return Math.min(above[to.length], most + 1);
}

function bits(mask) {
  let n = mask - ((mask >>> 1) & 0x55555555);
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return (((n + (n >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

/** The number of letters to delete and insert to turn one text into the other. */
function indel(a, b) {
  const from = isAscii(a) ? a : [...a];
  const to = isAscii(b) ? b : [...b];
  let above = new Array(to.length + 1).fill(0);
  for (let i = 1; i <= from.length; i += 1) {
    const row = [0];
    for (let j = 1; j <= to.length; j += 1) {
      row.push(from[i - 1] === to[j - 1] ? above[j - 1] + 1 : Math.max(above[j], row[j - 1]));
    }
    above = row;
  }
  return from.length + to.length - 2 * above[to.length];
}

/** An inverted index of words by field: names, tags, arguments, descriptions; each field has one text per entry. */
class Vocabulary {
  constructor([names, tags, args, descriptions]) {
    const parted = [names, tags, args].map(field => field.map(withCamelCaseParts));
    this.fields = [...parted, descriptions].map(postings);
    this.known = new Set(this.fields.flatMap(field => [...field.keys()]));
    this.sorted = [...this.known].sort(compare);
    this.text = ['', ...this.sorted, ''].join('\n');
    this.byLength = new Map();
    for (const word of this.known) {
      const length = lengthOf(word);
      if (!this.byLength.has(length)) this.byLength.set(length, []);
      this.byLength.get(length).push([word, new LetterCodes(word)]);
    }
  }

  inNames(word) {
    return this.fields[0].get(word) ?? [];
  }

  *having(word) {
    for (let at = 0; at < this.fields.length; at += 1) {
      const ids = this.fields[at].get(word);
      if (ids) yield [ids, WEIGHTS[at]];
    }
  }

  /** The entries with any of these words and their best weight; the words come best first. */
  weighed(words) {
    const lists = [];
    let budget = MAX_POSTINGS;
    for (const [word, quality] of words) {
      for (const [ids, weight] of this.having(word)) {
        lists.push([quality * weight, ids.length <= budget ? ids : ids.slice(0, budget)]);
        budget -= ids.length;
        if (budget <= 0) break;
      }
      if (budget <= 0) break;
    }
    lists.sort((a, b) => a[0] - b[0]);
    const found = new Map();
    for (const [weight, ids] of lists) for (const i of ids) found.set(i, weight);
    return found;
  }

  /** Words similar to this one, best first: the same, typos of it, words that start with it or contain it. */
  *similar(unit) {
    const n = lengthOf(unit);
    const edits = Math.min(2, allowedEdits(n));
    if (this.known.has(unit)) yield [unit, 1];
    else if (edits) yield* this.typos(unit, edits);
    if (n >= 2) for (const word of this.startingWith(unit)) yield [word, 0.6 + (0.2 * n) / lengthOf(word)];
    if (n >= 3 || (n === 2 && !isAscii(unit))) {
      for (const word of this.containing(unit)) yield [word, 0.5 + (0.1 * n) / lengthOf(word)];
    }
  }

  startingWith(unit) {
    const start = lowerBound(this.sorted, unit);
    return this.sorted.slice(start, start + MAX_WORDS).filter(word => word.startsWith(unit) && word !== unit);
  }

  *containing(unit) {
    let at = this.text.indexOf(unit);
    for (let n = 0; n < MAX_WORDS && at >= 0; n += 1) {
      const start = this.text.lastIndexOf('\n', at) + 1;
      const end = this.text.indexOf('\n', at);
      if (start !== at) yield this.text.slice(start, end);
      at = this.text.indexOf(unit, end);
    }
  }

  typos(unit, edits) {
    const found = [];
    const wanted = new LetterCodes(unit);
    for (let length = wanted.length - edits; length <= wanted.length + edits; length += 1) {
      for (const [word, codes] of this.byLength.get(length) ?? []) {
        const distance = wanted.editDistance(codes, edits);
        if (distance && distance <= edits) found.push([word, distance]);
      }
    }
    found.sort((a, b) => a[1] - b[1]);
    return found.slice(0, MAX_WORDS).map(([word, distance]) => [word, 0.85 - 0.15 * distance]);
  }
}

function isAscii(text) {
  // eslint-disable-next-line no-control-regex
  return !/[^\x00-\x7f]/.test(text);
}

/** Case folding as in Python, for the few letters that toLowerCase does not fold. */
function foldCase(text) {
  return text.toLowerCase().replace(/ß/g, 'ss').replace(/ς/g, 'σ').replace(/ſ/g, 's');
}

function postings(texts) {
  const found = new Map();
  texts.forEach((text, i) => {
    for (const word of keyOf(text).split(' ')) {
      if (!word) continue;
      const ids = found.get(word);
      if (!ids) found.set(word, [i]);
      else if (ids.at(-1) !== i) ids.push(i);
    }
  });
  return found;
}

function withCamelCaseParts(text) {
  return text.toLowerCase() === text ? text : `${text} ${text.replace(CAMEL_CASE, ' ')}`;
}
