// The search of the tool list in the page, by MiniSearch: it follows what is typed, letter by letter, forgives typos, and
// works while the kernel is busy. Used for up to 2,000 tools; beyond that the kernel searches (onetool_ipy/base/search.py).
import MiniSearch, { type Query, type SearchResult } from 'minisearch';

const MAX_QUERY = 200;
const MAX_WORDS = 8;
const FIELDS = ['name', 'tags', 'arguments', 'description'];
const BOOST = { name: 4, tags: 2, arguments: 1.5, description: 1 };
const WEIGHTS = { prefix: 0.6, fuzzy: 0.3 };
const SWAPPED = 0.5;
const REST = 3;

export interface Entry {
  name: string;
  description?: string;
  arguments?: string[];
  tags?: string[];
}

type Span = [start: number, end: number];

/** The search over tools. */
export class SearchIndex<E extends Entry> {
  private readonly names: string[][];
  private readonly index: MiniSearch;

  constructor(private readonly entries: E[]) {
    this.names = entries.map(({ name }) => namesOf(name));
    this.index = new MiniSearch({
      fields: FIELDS,
      // A field is the list of its words already.
      tokenize: words => words as unknown as string[],
      processTerm: word => word,
      stringifyField: words => words
    });
    this.index.addAll(entries.map((entry, id) => ({
      id,
      name: [...new Set([...wordsOf(entry.name), ...this.names[id]])].filter(Boolean),
      tags: (entry.tags ?? []).flatMap(wordsOf),
      arguments: (entry.arguments ?? []).flatMap(wordsOf),
      description: wordsOf(entry.description ?? '')
    })));
  }

  /**
   * The entries that match, as `{entry, terms}`, `terms` being the words of the entry that were found. Best first: the name
   * itself, its beginning (shorter names first), all words of the query, some of them.
   */
  search(query: string, limit = 20): { entry: E; terms: string[] }[] {
    const words = wordsOf(query.slice(0, MAX_QUERY)).slice(0, MAX_WORDS);
    if (!words.length) return [];
    const joined = words.join('');
    const all: Query = { combineWith: 'AND', queries: words.map(likeWord) };
    let hits = this.find(words.length > 1 ? { combineWith: 'OR', queries: [all, likeWord(joined)] } : all);
    if (!hits.length && words.length > 1) hits = this.find({ combineWith: 'OR', queries: words.map(likeWord) });
    const ranked = hits.map(({ id, score, match }) => ({
      id, tier: tierOf(this.names[id], joined), length: this.names[id][0].length, score, match
    }));
    ranked.sort((a, b) => a.tier - b.tier || (a.tier < REST ? a.length - b.length : b.score - a.score) || a.id - b.id);
    return ranked.slice(0, limit).map(({ id, match }) => ({ entry: this.entries[id], terms: Object.keys(match) }));
  }

  private find(query: Query): SearchResult[] {
    return this.index.search(query, { boost: BOOST, weights: WEIGHTS, tokenize: (word: string) => [word] });
  }
}

/** The words like one of the query: itself, longer ones that begin so, mistyped ones, and those with two letters swapped. */
function likeWord(word: string): Query {
  // One letter begins thousands of words: beyond names it has to be a word of its own.
  if (word.length < 2) return { combineWith: 'OR', queries: [word, { queries: [word], prefix: true, fields: ['name'] }] };
  const like: Query = { queries: [word], prefix: true, fuzzy: editsIn(word) };
  if (!like.fuzzy) return like;
  return { combineWith: 'OR', queries: [
    like, { queries: swapsOf(word), combineWith: 'OR', prefix: false, fuzzy: false, boostTerm: () => SWAPPED }
  ] };
}

/** How many typos a word may have. */
function editsIn(word: string): number {
  return word.length < 3 ? 0 : word.length < 6 ? 1 : 2;
}

/** The word with each pair of neighbours swapped: for MiniSearch a swap is two edits, for a hand it is one slip. */
function swapsOf(word: string): string[] {
  return Array.from({ length: word.length - 1 }, (_, at) => word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2));
}

/** How a name fits the whole query: it is the name, the name without its pack, a beginning of one of them, or none. */
function tierOf([whole, tail]: string[], joined: string): number {
  return whole === joined ? 0 : tail === joined ? 1 : whole.startsWith(joined) || tail.startsWith(joined) ? 2 : REST;
}

/** A name in small letters and without separators: whole, without its pack, and the pack. `get-orders` is `getorders`. */
function namesOf(name: string): string[] {
  const dot = name.indexOf('.');
  return [name, name.slice(dot + 1), name.slice(0, Math.max(dot, 0))].map(part => partsOf(part).join(''));
}

/** The words of a text in small letters; a word with humps counts whole and in parts: `readFile`, `read`, `file`. */
function wordsOf(text: string): string[] {
  const words = partsOf(text);
  return /[a-z0-9][A-Z]/.test(text) ? [...new Set([...words, ...partsOf(text.replace(/(?<=[a-z0-9])(?=[A-Z])/g, ' '))])] : words;
}

function partsOf(text: string): string[] {
  return text.normalize('NFKC').toLowerCase().match(/[\p{L}\p{N}\p{M}]+/gu) ?? [];
}

/** The parts of a name that match a query, to highlight: [start, end] in order. `terms` are the words found for a typo. */
export function matchingSpans(query: string, name: string, terms: string[] = []): Span[] {
  const low = name.toLowerCase();
  const letters = [...low].flatMap((letter, at) => (/[\p{L}\p{N}\p{M}]/u.test(letter) ? [at] : []));
  const plain = letters.map(at => low[at]).join('');
  const typed = partsOf(query).slice(0, MAX_WORDS);
  // What was typed may run over a separator: `getord` in `get-orders`.
  const words = plain.includes(typed.join('')) ? [typed.join('')] : typed;
  const isTypo = !words.some(word => plain.includes(word));
  const positions = new Set<number>();
  for (const word of isTypo ? terms : words) {
    const start = word ? plain.indexOf(word) : -1;
    for (let at = start; start >= 0 && at < start + word.length; at += 1) positions.add(letters[at]);
  }
  return toSpans([...positions].sort((a, b) => a - b));
}

function toSpans(positions: number[]): Span[] {
  const spans: Span[] = [];
  for (const position of positions) {
    const last = spans.at(-1);
    if (last && last[1] === position) last[1] += 1;
    else spans.push([position, position + 1]);
  }
  return spans;
}
