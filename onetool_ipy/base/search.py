"""Search by what a person types: one engine for help, completion, "did you mean", bundles and the screens.

Ranks exact > prefix > whole word > fuzzy over names, tags, argument names and descriptions, and forgives typos. Case
and the kind of separator (`.`, `_`, `-`, a space) never count. An `Index` is made once from entries and never
changes; its parts are made when a query first needs them. Pure; rapidfuzz is imported late.
"""

from __future__ import annotations

import re
import string
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.records import once

_SEPARATORS = str.maketrans(dict.fromkeys(string.punctuation, " "))
_PLAIN = bytes(range(256)).lower().translate(bytes.maketrans(string.punctuation.encode(), b" " * 32))
"""Small letters, and blanks for separators, byte by byte: all that `key_of` does to ASCII but for the blanks."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WEIGHTS = (1.0, 0.9, 0.85, 0.8)
"""What a word counts by where it stands: name, tag, argument, description."""
_MAX_POSTINGS = 4_000
_MAX_WORDS = 60

_Postings = dict[str, list[int]]


def key_of(text: str) -> str:
    """Return the text without what does not count: case, the kind of separator, odd forms of a letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().translate(_SEPARATORS).split())


def keys_of(texts: Sequence[str]) -> list[str]:
    """Return `key_of` each text, faster than one by one."""
    return [" ".join(line.split()) for line in _lines(texts)]


def allowed_edits(length: int) -> int:
    """Return how many typos a word of this length may have and still match."""
    return 0 if length < 3 else 1 if length < 6 else 2 if length < 12 else 3


class Vocabulary:
    """Words by field: names, tags, arguments, descriptions. Names and descriptions are one text per entry."""

    def __init__(
        self,
        names: Sequence[str],
        tags: Iterable[Iterable[str]],
        arguments: Iterable[Iterable[str]],
        descriptions: Sequence[str],
    ) -> None:
        self.said = _lines(descriptions)
        parted = _postings(_lines([_with_humps(text) for text in names]))
        self._fields = [parted, _label_postings(tags), _label_postings(arguments), _postings(self.said)]

    def in_names(self, word: str) -> list[int]:
        """Entries that have this word in their name."""
        return self._fields[0].get(word, [])

    def in_descriptions(self, word: str) -> list[int]:
        """Entries that have this word in their description."""
        return self._fields[3].get(word, [])

    def having(self, word: str) -> Iterator[tuple[list[int], float]]:
        """Entries that have this word, field by field, with what it counts there."""
        for postings, weight in zip(self._fields, _WEIGHTS, strict=True):
            if word in postings:
                yield postings[word], weight

    def weighed(self, words: Iterable[tuple[str, float]]) -> dict[int, float]:
        """Entries that have one of these words, with the best it counts; words come best first."""
        lists: list[tuple[float, list[int]]] = []
        budget = _MAX_POSTINGS
        for word, quality in words:
            for listed, weight in self.having(word):
                ids = list(dict.fromkeys(listed))
                lists.append((quality * weight, ids[:budget]))
                budget -= len(ids)
                if budget <= 0:
                    break
            if budget <= 0:
                break
        lists.sort(key=lambda pair: pair[0])
        weights: dict[int, float] = {}
        for weight, ids in lists:
            weights.update(dict.fromkeys(ids, weight))
        return weights

    def like(self, unit: str) -> Iterator[tuple[str, float]]:
        """Words like this one, best first: itself, mistyped, longer ones that begin so or hold it."""
        n = len(unit)
        edits = min(2, allowed_edits(n))
        if unit in self._known:
            yield unit, 1.0
        elif edits:
            yield from ((word, 0.85 - 0.15 * distance) for word, distance in self._typos(unit, edits))
        if n >= 2:
            yield from ((word, 0.6 + 0.2 * n / len(word)) for word in self._beginning(unit))
        # Scripts without blanks have their words inside.
        if n >= 3 or (n == 2 and not unit.isascii()):
            yield from ((word, 0.5 + 0.1 * n / len(word)) for word in self._holding(unit))

    @once
    def _known(self) -> set[str]:
        return set().union(*self._fields)

    @once
    def _sorted(self) -> list[str]:
        return sorted(self._known)

    @once
    def _by_length(self) -> dict[int, list[str]]:
        words: dict[int, list[str]] = {}
        for word in self._known:
            words.setdefault(len(word), []).append(word)
        return words

    @once
    def _text(self) -> str:
        return "\n".join(["", *self._sorted, ""])

    def _beginning(self, unit: str) -> list[str]:
        start = bisect_left(self._sorted, unit)
        words = self._sorted[start : start + _MAX_WORDS]
        return [word for word in words if word.startswith(unit) and word != unit]

    def _holding(self, unit: str) -> Iterator[str]:
        """Words with this one inside; found in one long text, which is faster than word by word."""
        text = self._text
        at = text.find(unit)
        for _ in range(_MAX_WORDS):
            if at < 0:
                return
            start, end = text.rindex("\n", 0, at) + 1, text.index("\n", at)
            if start != at:
                yield text[start:end]
            at = text.find(unit, end)

    def _typos(self, unit: str, edits: int) -> list[tuple[str, int]]:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        lengths = range(len(unit) - edits, len(unit) + edits + 1)
        words = [word for length in lengths for word in self._by_length.get(length, ())]
        near = process.extract(unit, words, scorer=OSA.distance, score_cutoff=edits, limit=_MAX_WORDS)
        return [(word, int(distance)) for word, distance, _ in near if distance]


def _lines(texts: Sequence[str]) -> list[str]:
    """Split each text at blanks. Plain texts are joined and split at once, which is cheaper."""
    whole = "\0".join(texts)
    odd: dict[int, str] = {}
    if not whole.isascii() or whole.count("\0") >= len(texts):
        odd = {i: text for i, text in enumerate(texts) if not text.isascii() or "\0" in text}
        whole = "\0".join("" if i in odd else text for i, text in enumerate(texts))
    lines = whole.encode("ascii").translate(_PLAIN).decode("ascii").split("\0")[: len(texts)]
    for i, text in odd.items():
        lines[i] = "\n".join(map(key_of, text.split("\n")))
    return lines


def _postings(lines: list[str]) -> _Postings:
    """Return the entries by word, in order. An entry with a word twice is listed twice: a check would cost a third."""
    postings: _Postings = defaultdict(list)
    for i, line in enumerate(lines):
        for word in line.split():
            postings[word].append(i)
    return postings


def _label_postings(labels: Iterable[Iterable[str]]) -> _Postings:
    """Postings of short texts that many entries share: each of them is cut into words once."""
    by_label: _Postings = defaultdict(list)
    for i, texts in enumerate(labels):
        for text in texts:
            by_label[text].append(i)
    by_word: dict[str, list[list[int]]] = defaultdict(list)
    for line, ids in zip(_lines([_with_humps(text) for text in by_label]), by_label.values(), strict=True):
        for word in line.split():
            by_word[word].append(ids)
    return {word: lists[0] if len(lists) == 1 else sorted(chain(*lists)) for word, lists in by_word.items()}


def _with_humps(text: str) -> str:
    """A name with the words inside it: `readFile` is `readfile`, `read` and `file`."""
    lower = text.lower()
    return text if lower == text else f"{text} {_HUMP.sub(' ', text)}"


Tier = Literal["exact", "prefix", "word", "fuzzy"]
"""How well a hit fits, best first."""

_MAX_QUERY = 200
_MAX_UNITS = 8
_MAX_DESCRIPTION = 600
_NEAR = 45.0
"""From this score on a hit is near enough to be proposed as what was meant."""
_LAST = "\U0010ffff"
_LITTLE_WORDS = "a an and are as at be by can do for from how i in is it me my of on or that the this to use with"
_STOP = frozenset(_LITTLE_WORDS.split())
_name = attrgetter("name")


class Entry(NamedTuple):
    """What can be found: a name, the words that go with it, and the thing itself in `value`."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    value: Any = None


class Hit(NamedTuple):
    """An entry that was found. `score` is 0 to 100 and falls from hit to hit."""

    item: Entry
    score: float
    tier: Tier


def contains(pattern: str, text: str) -> bool:
    """Whether the text contains the pattern, ignoring case. The empty pattern is in every text."""
    return pattern.casefold() in text.casefold()


def suggest(name: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Return the known names nearest to `name`, best first; none if nothing is near."""
    index = Index(Entry(choice) for choice in dict.fromkeys(known))
    return [hit.item.name for hit in index.search(name, limit=limit) if hit.score >= _NEAR]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean 'a' or 'b'?`, or nothing."""
    near = [f"'{n}'" for n in suggest(name, known)]
    return f"Did you mean {' or '.join(near)}?" if near else ""


class Index:
    """Entries, ready to be searched. Shorter names come first where nothing else decides."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        by_name = sorted(entries, key=_name)
        keys = keys_of([entry.name for entry in by_name])
        order = sorted(range(len(by_name)), key=keys.__getitem__)
        order.sort(key=list(map(len, keys)).__getitem__)
        self._keys = [keys[i] for i in order]
        self._entries = [by_name[i] for i in order]

    def __len__(self) -> int:
        return len(self._entries)

    def search(self, query: str, *, limit: int | None = 20) -> list[Hit]:
        """Return the entries that match, best first. A query without a letter matches nothing."""
        text = query[:_MAX_QUERY].strip()
        key = key_of(text)
        most = len(self._entries) if limit is None else limit
        if not key or most < 1:
            return []
        hits: dict[int, Hit] = {}
        best = 100.0
        for tier, i, score in self._ranked(text, key, most):
            if i not in hits:
                best = min(best, score)
                hits[i] = Hit(self._entries[i], round(best, 2), tier)
                if len(hits) == most:
                    break
        return list(hits.values())

    def _ranked(self, text: str, key: str, wanted: int) -> Iterator[tuple[Tier, int, float]]:
        """Yield hits from best to worst. A tier is searched only if the tiers before it were not enough."""
        for i in self._exact(text, key):
            yield "exact", i, 100.0 if self._keys[i] == key else 99.0
        for i in self._said(key):
            yield "exact", i, 98.5
        for i in self._starting(text, key):
            yield "prefix", i, 90 + 8 * len(key) / max(len(key), len(self._keys[i]))
        for i, weight in self._whole_words(text):
            yield "word", i, 80 + 8 * weight
        for i, score in self._fuzzy(key, wanted):
            yield "fuzzy", i, score

    # Exact and prefix: sorted lists of whole names and of names without their pack; what descriptions say first.

    @once
    def _tails(self) -> list[str]:
        packs = [pack if dot else "" for pack, dot, _ in (entry.name.partition(".") for entry in self._entries)]
        heads = {pack: f"{key_of(pack)} ".lstrip() for pack in set(packs)}
        pairs = zip(self._keys, packs, strict=True)
        return [key.removeprefix(heads[pack]) if pack else "" for key, pack in pairs]

    @once
    def _sorted_keys(self) -> tuple[list[str], list[int]]:
        return _sorted(self._keys)

    @once
    def _sorted_tails(self) -> tuple[list[str], list[int]]:
        return _sorted(self._tails)

    def _said(self, key: str) -> list[int]:
        """Return the entries whose description begins with a line equal to the query."""
        lines, words = self._words.said, key.split(" ")
        rarest = min((self._words.in_descriptions(word) for word in words[:-1] or words), key=len)
        return [
            i
            for i in rarest
            if lines[i].lstrip().startswith(words[0])
            and " ".join(lines[i][:_MAX_QUERY].partition("\n")[0].split()) == key
        ]

    def _exact(self, text: str, key: str) -> list[int]:
        whole, tail = _range(self._sorted_keys, key, key), _range(self._sorted_tails, key, key)
        whole.sort(key=lambda i: self._entries[i].name != text)
        return [*whole, *sorted(tail)]

    @once
    def _sorted_joined(self) -> tuple[tuple[list[str], list[int]], ...]:
        """The names and tails without the blanks between their words: `getord` begins `get-orders`."""
        return tuple(_sorted([key.replace(" ", "") for key in keys]) for keys in (self._keys, self._tails))

    def _starting(self, text: str, key: str) -> Iterator[int]:
        """Return the names that start with the query, first those where a word ends there."""
        both = (self._sorted_keys, self._sorted_tails)
        for keys in both:
            yield from sorted(_range(keys, key + " ", key + " " + _LAST))
        yield from sorted({i for keys in both for i in _range(keys, key, key + _LAST)})
        # Whoever types a name in one go may leave its separators out; several words are looked for as words.
        if len(text.split()) == 1:
            joined = key.replace(" ", "")
            yield from sorted({i for keys in self._sorted_joined for i in _range(keys, joined, joined + _LAST)})

    # Whole words, in names, tags, arguments and descriptions.

    @once
    def _words(self) -> Vocabulary:
        entries = self._entries
        return Vocabulary(
            names=[entry.name for entry in entries],
            tags=[entry.tags for entry in entries],
            arguments=[entry.arguments for entry in entries],
            descriptions=[entry.description[:_MAX_DESCRIPTION] for entry in entries],
        )

    def _whole_words(self, text: str) -> Iterator[tuple[int, float]]:
        """Yield the entries that have every term as a whole word, with a score. `a.b` must stand so in a name."""
        terms = list(dict.fromkeys(term for term in map(key_of, text.split()[:_MAX_UNITS]) if term))
        if len(terms) == 1 and " " not in terms[0]:
            for ids, weight in self._words.having(terms[0]):
                for i in ids:
                    yield i, weight
            return
        weighed = sorted((self._with_term(term) for term in terms), key=len)
        common = set(weighed[0]).intersection(*weighed[1:]) if weighed else set[int]()
        scores = {i: sum(w[i] for w in weighed) / len(weighed) for i in common}
        for i in _best_first(scores):
            yield i, scores[i]

    def _with_term(self, term: str) -> dict[int, float]:
        if " " not in term:
            return self._words.weighed([(term, 1.0)])
        padded = f" {term} "
        rarest = min((self._words.in_names(part) for part in term.split(" ")), key=len)
        return {i: 1.0 for i in rarest if padded in f" {self._keys[i]} "}

    # Fuzzy: names with and without their pack by edits; single words by edits, beginnings and parts.

    def _fuzzy(self, key: str, wanted: int) -> Iterator[tuple[int, float]]:
        scores = dict(self._like_words(key, wanted))
        for i, score in self._near_names(key):
            if score > scores.get(i, 0.0):
                scores[i] = score
        for i in _best_first(scores):
            yield i, scores[i]

    @once
    def _tails_by_length(self) -> tuple[list[str], list[int]]:
        ids = sorted(range(len(self._tails)), key=list(map(len, self._tails)).__getitem__)
        return [self._tails[i] for i in ids], ids

    def _near_names(self, key: str) -> Iterator[tuple[int, float]]:
        edits = allowed_edits(len(key))
        if not edits:
            return
        for i, similarity in _near(key, self._keys, edits):
            yield i, 79 * similarity
        tails, ids = self._tails_by_length
        for i, similarity in _near(key, tails, edits):
            yield ids[i], 76 * similarity

    def _like_words(self, key: str, wanted: int) -> Iterator[tuple[int, float]]:
        """Yield entries with words like those of the query; if enough entries have all of them, only those."""
        units = list(dict.fromkeys(key.split(" ")))[:_MAX_UNITS]
        units = [unit for unit in units if unit not in _STOP] or units
        weighed = [self._words.weighed(self._words.like(unit)) for unit in units]
        counts: Counter[int] = Counter()
        for qualities in weighed:
            counts.update(qualities.keys())
        least = len(units)
        while least > (len(units) + 1) // 2 and sum(n >= least for n in counts.values()) < wanted:
            least -= 1
        for i, count in counts.items():
            if count >= least:
                yield i, 70 * sum(w[i] for w in weighed if i in w) / len(units)


def _best_first(scores: dict[int, float]) -> list[int]:
    """Numbers by score, equal ones in their order; without a tuple for each, which would wake the garbage collector."""
    ids = sorted(scores)
    ids.sort(key=scores.__getitem__, reverse=True)
    return ids


def _sorted(keys: list[str]) -> tuple[list[str], list[int]]:
    ids = sorted(range(len(keys)), key=keys.__getitem__)
    return [keys[i] for i in ids], ids


def _range(index: tuple[list[str], list[int]], low: str, high: str) -> list[int]:
    """The numbers of the keys from `low` to `high`, both included."""
    keys, ids = index
    end = bisect_left(keys, high + "\0")
    return ids[bisect_left(keys, low) : end]


def _near(key: str, by_length: list[str], edits: int) -> Iterator[tuple[int, float]]:
    """Numbers of the names at most `edits` edits away, with their similarity; they are sorted by length.

    A swap of neighbours is one edit. Among equal distances the one that shares more letters is nearer.
    """
    from rapidfuzz import process
    from rapidfuzz.distance import OSA, Indel

    start = bisect_left(by_length, len(key) - edits, key=len)
    end = bisect_left(by_length, len(key) + edits + 1, key=len)
    names = by_length[start:end]
    near = process.extract(key, names, scorer=OSA.distance, score_cutoff=edits, limit=50)
    for name, distance, number in near:
        apart = distance + 0.25 * Indel.normalized_distance(key, name)
        yield start + number, 1 - apart / max(len(key), len(name))
