"""Search by what a person types: one engine for help, completion, "did you mean", bundles and the
screens.

Ranks exact > prefix > whole word > fuzzy over names, tags, argument names and descriptions, and
forgives typos. Case and the kind of separator (`.`, `_`, `-`, a space) never count. An `Index` is
made once from entries and never changes; its parts are made when a query first needs them. Pure;
rapidfuzz is imported late.
"""

from __future__ import annotations

import re
import string
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.records import collector_paused, once

Tier = Literal["exact", "prefix", "word", "fuzzy"]
"""How well a hit fits, best first."""

_SEPARATORS = str.maketrans(dict.fromkeys(string.punctuation, " "))
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WEIGHTS = (0.8, 0.85, 0.9, 1.0)
"""What a word counts by where it is: description, argument, tag, name."""
_MAX_ENTRIES = 4_000
_MAX_WORDS = 60
_MAX_QUERY = 200
_MAX_UNITS = 8
_MAX_DESCRIPTION = 600
_NEAR = 45.0
"""From this score on a hit is near enough to be proposed as what was meant."""
_LITTLE_WORDS = (
    "a an and are as at be by can do for from how i in is it me my of on or that the this to use"
    " with"
)
_STOP = frozenset(_LITTLE_WORDS.split())

_LAST = "\U0010ffff"

_Sorted = tuple[list[str], list[int]]
"""Texts in order, and the number of the entry that has each."""
_Weights = dict[int, float]
"""Entries by number, with what they count."""


class Entry(NamedTuple):
    """What can be found: a name, the words that go with it, and the thing itself in `value`."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    value: Any = None


class Hit(NamedTuple):
    """An entry that was found. `score` is 0 to 100 and falls from hit to hit; `own` does not depend
    on other hits."""

    item: Entry
    score: float
    tier: Tier
    own: float


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


def key_of(text: str) -> str:
    """Return the text without what does not count: case, the kind of separator, odd forms of a
    letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().translate(_SEPARATORS).split())


def _lines(texts: Sequence[str]) -> list[str]:
    """Return each text ready to be split into its words: all of them at once, which is faster than
    one by one."""
    plain = "\0".join([text if text.isascii() and "\0" not in text else "" for text in texts])
    lines = plain.lower().translate(_SEPARATORS).split("\0")
    return [line or key_of(text) for line, text in zip(lines, texts, strict=False)]


class Index:
    """Entries, ready to be searched. Shorter names come first where nothing else decides."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        by_name = sorted(entries, key=attrgetter("name"))
        keys = [" ".join(line.split()) for line in _lines([entry.name for entry in by_name])]
        order = sorted(range(len(keys)), key=keys.__getitem__)
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
        # The first search builds the index: many objects, and nothing to collect.
        with collector_paused():
            for tier, i, score in self._ranked(text, key, most):
                if i not in hits:
                    best = min(best, score)
                    hits[i] = Hit(self._entries[i], round(best, 2), tier, round(score, 2))
                    if len(hits) == most:
                        break
        return list(hits.values())

    def _ranked(self, text: str, key: str, wanted: int) -> Iterator[tuple[Tier, int, float]]:
        """Yield hits from best to worst. A tier is searched only if the tiers before it were not
        enough."""
        names, tails = self._sorted_names
        for i in sorted(
            _between(names, key, f"{key}\0"), key=lambda i: self._entries[i].name != text
        ):
            yield "exact", i, 100.0
        for i in _between(tails, key, f"{key}\0"):
            yield "exact", i, 99.0
        for i in self._saying(key):
            yield "exact", i, 98.5
        for i in self._starting(text, key):
            yield "prefix", i, 90 + 8 * len(key) / max(len(key), len(self._keys[i]))
        for i, weight in self._whole_words(text):
            yield "word", i, 80 + 8 * weight
        for i, score in _best_first(self._fuzzy(key, wanted)):
            yield "fuzzy", i, score

    @once
    def _tails(self) -> list[str]:
        """The names without their pack; empty for a name that has none."""
        packs = [
            pack if dot else ""
            for pack, dot, _ in (entry.name.partition(".") for entry in self._entries)
        ]
        heads = {pack: f"{key_of(pack)} ".lstrip() for pack in set(packs)}
        pairs = zip(self._keys, packs, strict=True)
        return [key.removeprefix(heads[pack]) if pack else "" for key, pack in pairs]

    @once
    def _sorted_names(self) -> tuple[_Sorted, _Sorted]:
        """The names, and those without their pack."""
        return _sorted(self._keys), _sorted(self._tails)

    @once
    def _sorted_joined(self) -> tuple[_Sorted, ...]:
        """Both without the blanks between their words, since whoever types a name in one go may
        leave them out."""
        return tuple(
            _sorted([text.replace(" ", "") for text in texts])
            for texts in (self._keys, self._tails)
        )

    @once
    def _tails_by_length(self) -> _Sorted:
        numbers = sorted(range(len(self._tails)), key=list(map(len, self._tails)).__getitem__)
        return [self._tails[i] for i in numbers], numbers

    @once
    def _fields(self) -> list[tuple[float, dict[str, list[int]]]]:
        """The entries by word, for each place that a word can be in, with what it counts there; the
        best comes last."""
        descriptions = _lines([entry.description[:_MAX_DESCRIPTION] for entry in self._entries])
        names = _lines([_with_humps(entry.name) for entry in self._entries])
        arguments, tags = (
            (entry.arguments for entry in self._entries),
            (entry.tags for entry in self._entries),
        )
        fields = (
            _postings(descriptions),
            _label_postings(arguments),
            _label_postings(tags),
            _postings(names),
        )
        return list(zip(_WEIGHTS, fields, strict=True))

    @once
    def _known_words(self) -> list[str]:
        return sorted(set().union(*(postings for _, postings in self._fields)))

    def _having(self, word: str) -> _Weights:
        """Return the entries that have this word, with what it counts in its best place."""
        weights: _Weights = {}
        for weight, postings in self._fields:
            weights.update(dict.fromkeys(postings.get(word, ()), weight))
        return weights

    def _saying(self, key: str) -> list[int]:
        """Return the entries whose description begins with a line equal to the query."""
        words = key.split(" ")
        rarest = min(map(self._having, dict.fromkeys(words)), key=len)
        lines: dict[int, str] = {}
        for i in sorted(rarest):
            line = self._entries[i].description[:_MAX_QUERY].strip().partition("\n")[0]
            # A line that says only this is not much longer, nor shorter unless it has a ligature
            # that becomes letters.
            if len(line) < 2 * len(key) + 20 and (len(line) >= len(key) or not line.isascii()):
                lines[i] = line
        pairs = zip(lines, _lines([*lines.values()]), strict=False)
        return [
            i for i, line in pairs if line.lstrip().startswith(words[0]) and line.split() == words
        ]

    def _starting(self, text: str, key: str) -> Iterator[int]:
        """Yield the names that start with the query, first those where a word ends there."""
        for names in self._sorted_names:
            yield from _between(names, f"{key} ", f"{key} {_LAST}")
        yield from sorted(
            {i for names in self._sorted_names for i in _between(names, key, key + _LAST)}
        )
        # Several words are looked for as words.
        if len(text.split()) == 1:
            joined = key.replace(" ", "")
            yield from sorted(
                {
                    i
                    for names in self._sorted_joined
                    for i in _between(names, joined, joined + _LAST)
                }
            )

    def _whole_words(self, text: str) -> Iterator[tuple[int, float]]:
        """Yield the entries that have every term as a whole word, with a score. `a.b` has to be in
        a name as it is."""
        terms = list(dict.fromkeys(term for term in map(key_of, text.split()[:_MAX_UNITS]) if term))
        weighed: list[Mapping[int, float]] = []
        for term in terms:
            weights = min(map(self._having, term.split(" ")), key=len)
            if " " in term:
                weights = {i: 1.0 for i in weights if f" {term} " in f" {self._keys[i]} "}
            weighed.append(weights)
        common = set(weighed[0]).intersection(*weighed[1:])
        return _best_first(
            {i: sum(weights[i] for weights in weighed) / len(weighed) for i in common}
        )

    def _fuzzy(self, key: str, wanted: int) -> _Weights:
        """Return the entries with names or words like those of the query."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA, Indel

        # If enough entries have all words of the query, only those count.
        units = list(dict.fromkeys(key.split(" ")))[:_MAX_UNITS]
        units = [unit for unit in units if unit not in _STOP] or units
        weighed = [self._weigh(unit) for unit in units]
        counts = Counter(i for weights in weighed for i in weights)
        least = len(units)
        while least > (len(units) + 1) // 2 and sum(n >= least for n in counts.values()) < wanted:
            least -= 1
        scores = {
            i: 70 * sum(weights.get(i, 0.0) for weights in weighed) / len(units)
            for i, count in counts.items()
            if count >= least
        }
        # A swap of neighbours is one edit. Among equal distances the one that shares more letters
        # is nearer.
        edits = _allowed_edits(len(key))
        by_length = (
            ((self._keys, range(len(self._keys)), 79), (*self._tails_by_length, 76))
            if edits
            else ()
        )
        for names, numbers, top in by_length:
            start, end = (bisect_left(names, len(key) + n, key=len) for n in (-edits, edits + 1))
            near = process.extract(
                key, names[start:end], scorer=OSA.distance, score_cutoff=edits, limit=50
            )
            for name, distance, place in near:
                i, apart = (
                    numbers[start + place],
                    distance + 0.25 * Indel.normalized_distance(key, name),
                )
                scores[i] = max(scores.get(i, 0.0), top * (1 - apart / max(len(key), len(name))))
        return scores

    def _weigh(self, unit: str) -> _Weights:
        """Return the entries that have a word like this one, with the best it counts."""
        lists: list[tuple[float, list[int]]] = []
        budget = _MAX_ENTRIES
        for word, quality in self._like(unit):
            for weight, postings in reversed(self._fields):
                if budget > 0 and word in postings:
                    lists.append((quality * weight, postings[word][:budget]))
                    budget -= len(postings[word])
        weights: _Weights = {}
        for weight, ids in sorted(lists, key=itemgetter(0)):
            weights.update(dict.fromkeys(ids, weight))
        return weights

    def _like(self, unit: str) -> Iterator[tuple[str, float]]:
        """Yield words like this one, best first: itself, mistyped, longer ones that begin so or
        hold it."""
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        n = len(unit)
        edits = min(2, _allowed_edits(n))
        if any(unit in postings for _, postings in self._fields):
            yield unit, 1.0
        elif edits:
            near = process.extract(
                unit, self._known_words, scorer=OSA.distance, score_cutoff=edits, limit=_MAX_WORDS
            )
            yield from ((word, 0.85 - 0.15 * distance) for word, distance, _ in near)
        # Scripts without blanks have their words inside.
        if n >= 2:
            longer = [word for word in self._known_words if unit in word and word != unit]
            begin = [word for word in longer if word.startswith(unit)]
            yield from ((word, 0.6 + 0.2 * n / len(word)) for word in begin[:_MAX_WORDS])
            if n >= 3 or not unit.isascii():
                inside = [word for word in longer if not word.startswith(unit)]
                yield from ((word, 0.5 + 0.1 * n / len(word)) for word in inside[:_MAX_WORDS])


def _allowed_edits(length: int) -> int:
    """Return how many typos a word of this length may have and still match."""
    return 0 if length < 3 else 1 if length < 6 else 2 if length < 12 else 3


def _best_first(scores: Mapping[int, float]) -> Iterator[tuple[int, float]]:
    """Yield numbers with their scores; equal ones in their order."""
    return iter(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def _sorted(texts: list[str]) -> _Sorted:
    numbers = sorted(range(len(texts)), key=texts.__getitem__)
    return [texts[i] for i in numbers], numbers


def _between(index: _Sorted, low: str, high: str) -> list[int]:
    """Return the numbers of the texts from `low` up to `high`."""
    texts, numbers = index
    return sorted(numbers[bisect_left(texts, low) : bisect_left(texts, high)])


def _with_humps(label: str) -> str:
    """Return a label with the words inside it: `readFile` is `readfile`, `read` and `file`."""
    return label if label == label.lower() else f"{label} {_HUMP.sub(' ', label)}"


def _postings(lines: list[str]) -> dict[str, list[int]]:
    """Return the entries by word. An entry with a word twice is listed twice: a check would cost a
    third."""
    postings: dict[str, list[int]] = defaultdict(list)
    for i, line in enumerate(lines):
        for word in line.split():
            postings[word].append(i)
    return dict(postings)


def _label_postings(labels: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """Postings of short texts that many entries share: each of them is cut into words once."""
    by_label: dict[str, list[int]] = defaultdict(list)
    for i, texts in enumerate(labels):
        for text in texts:
            by_label[text].append(i)
    postings: dict[str, list[int]] = defaultdict(list)
    for line, numbers in zip(
        _lines([_with_humps(label) for label in by_label]), by_label.values(), strict=True
    ):
        for word in line.split():
            postings[word] += numbers
    return dict(postings)
