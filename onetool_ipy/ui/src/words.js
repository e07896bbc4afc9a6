// The words of many entries and where each stands; what counts as a word and as the same word. The twin of
// onetool_ipy/core/vocabulary.py.

const SEPARATORS = /[!-/:-@[-`{-~]/g;
const HUMP = /(?<=[a-z0-9])(?=[A-Z])/g;
const WEIGHTS = [1.0, 0.9, 0.85, 0.8];
const MAX_POSTINGS = 4000;
const MAX_WORDS = 60;

/** A text without what does not count: case, the kind of separator, odd forms of a letter. */
export function keyOf(text) {
  const plain = isAscii(text) ? text : text.normalize('NFKC');
  return folded(plain).replace(SEPARATORS, ' ').split(/\s+/).filter(Boolean).join(' ');
}

/** How many typos a word or name of this length may have and still be known. */
export function allowedEdits(length) {
  return length < 3 ? 0 : length < 6 ? 1 : length < 12 ? 2 : 3;
}

/** Order by code points, as Python does. */
export function compare(a, b) {
  if (a === b) return 0;
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i += 1) {
    if (a.charCodeAt(i) === b.charCodeAt(i)) continue;
    return a.codePointAt(i) - b.codePointAt(i) || a.charCodeAt(i) - b.charCodeAt(i);
  }
  return a.length - b.length;
}

/** Letters, not halves of them. */
export function lengthOf(text) {
  if (isAscii(text)) return text.length;
  let n = 0;
  for (const _ of text) n += 1;
  return n;
}

/** A text as numbers, and which letters it has at all, so that most of what is far away is seen at once. */
export class Spelled {
  constructor(text) {
    this.codes = Array.from(text, letter => letter.codePointAt(0));
    this.mask = 0;
    for (const code of this.codes) this.mask |= 1 << code % 31;
  }

  get length() {
    return this.codes.length;
  }

  /** Edits to the other text, a swap of neighbours being one; anything above `most` is `most + 1`. */
  edits(other, most) {
    const from = this.codes;
    const to = other.codes;
    // An edit changes at most two letters of the set, a swap none.
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

/** Letters to take out and put in to come from one text to the other. */
export function indel(a, b) {
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

/** Words by field: names, tags, arguments, descriptions; each field is one text per entry. */
export class Vocabulary {
  constructor([names, tags, args, descriptions]) {
    const parted = [names, tags, args].map(field => field.map(withHumps));
    this.fields = [...parted, descriptions].map(postings);
    this.known = new Set(this.fields.flatMap(field => [...field.keys()]));
    this.sorted = [...this.known].sort(compare);
    this.text = ['', ...this.sorted, ''].join('\n');
    this.byLength = new Map();
    for (const word of this.known) {
      const long = lengthOf(word);
      if (!this.byLength.has(long)) this.byLength.set(long, []);
      this.byLength.get(long).push([word, new Spelled(word)]);
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

  /** Entries that have one of these words, with the best it counts; words come best first. */
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

  /** Words like this one, best first: itself, mistyped, longer ones that begin so or hold it. */
  *like(unit) {
    const n = lengthOf(unit);
    const edits = Math.min(2, allowedEdits(n));
    if (this.known.has(unit)) yield [unit, 1];
    else if (edits) yield* this.typos(unit, edits);
    if (n >= 2) for (const word of this.beginning(unit)) yield [word, 0.6 + (0.2 * n) / lengthOf(word)];
    if (n >= 3 || (n === 2 && !isAscii(unit))) {
      for (const word of this.holding(unit)) yield [word, 0.5 + (0.1 * n) / lengthOf(word)];
    }
  }

  beginning(unit) {
    let low = 0;
    let high = this.sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.sorted[middle], unit) < 0) low = middle + 1;
      else high = middle;
    }
    return this.sorted.slice(low, low + MAX_WORDS).filter(word => word.startsWith(unit) && word !== unit);
  }

  *holding(unit) {
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
    const asked = new Spelled(unit);
    for (let long = asked.length - edits; long <= asked.length + edits; long += 1) {
      for (const [word, spelled] of this.byLength.get(long) ?? []) {
        const distance = asked.edits(spelled, edits);
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

/** Case folding as Python's; the few letters that lower case alone does not join are named. */
function folded(text) {
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

function withHumps(text) {
  return text.toLowerCase() === text ? text : `${text} ${text.replace(HUMP, ' ')}`;
}
