"""The words of many entries and where each stands: what `match` searches in when a name alone does not decide.

Owns what counts as a word and as the same word (`key_of`). Built once, in one pass over all texts; never changes.
Numbers of entries are given in their order, so the lists of a word are sorted as they come.
"""

from __future__ import annotations

import re
import string
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from onetool_ipy.core.once import once

__all__ = ["Vocabulary", "allowed_edits", "key_of", "keys_of"]

_SEPARATORS = str.maketrans(dict.fromkeys(string.punctuation, " "))
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WEIGHTS = (1.0, 0.9, 0.85, 0.8)
"""What a word counts by where it stands: name, tag, argument, description."""
_MAX_POSTINGS = 4_000
_MAX_WORDS = 60

_Postings = dict[str, list[int]]


def key_of(text: str) -> str:
    """Give a text without what does not count: case, the kind of separator, odd forms of a letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().translate(_SEPARATORS).split())


def keys_of(texts: Sequence[str]) -> list[str]:
    """`key_of` each, faster."""
    return [" ".join(line.split()) for line in _lines(texts)]


def allowed_edits(length: int) -> int:
    """How many typos a word or name of this length may have and still be known."""
    return 0 if length < 3 else 1 if length < 6 else 2 if length < 12 else 3


class Vocabulary:
    """Words by field: names, tags, arguments, descriptions. Each field is one text per entry."""

    def __init__(
        self,
        names: Sequence[str],
        tags: Sequence[str],
        arguments: Sequence[str],
        descriptions: Sequence[str],
    ) -> None:
        parted = [[_with_humps(text) for text in field] for field in (names, tags, arguments)]
        self._fields = [_postings(_lines(field)) for field in (*parted, descriptions)]

    def in_names(self, word: str) -> list[int]:
        """Entries that have this word in their name."""
        return self._fields[0].get(word, [])

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
            for ids, weight in self.having(word):
                lists.append((quality * weight, ids if len(ids) <= budget else ids[:budget]))
                budget -= len(ids)
                if budget <= 0:
                    break
            if budget <= 0:
                break
        lists.sort(key=lambda pair: pair[0])
        found: dict[int, float] = {}
        for weight, ids in lists:
            found.update(dict.fromkeys(ids, weight))
        return found

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
        if n >= 3 or (n == 2 and not unit.isascii()):  # scripts without blanks have their words inside
            yield from ((word, 0.5 + 0.1 * n / len(word)) for word in self._holding(unit))

    @once
    def _known(self) -> set[str]:
        return set().union(*self._fields)

    @once
    def _sorted(self) -> list[str]:
        return sorted(self._known)

    @once
    def _by_length(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for word in self._known:
            found.setdefault(len(word), []).append(word)
        return found

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
    """The words of each text, by blanks; of plain texts all in one go, since one long one is cheaper than many."""
    plain = [text.replace("\n", " ") if text.isascii() else "" for text in texts]
    lines = "\n".join(plain).lower().translate(_SEPARATORS).split("\n")[: len(texts)]
    for i, text in enumerate(texts):
        if text and not plain[i]:
            lines[i] = key_of(text)
    return lines


def _postings(lines: list[str]) -> _Postings:
    found: _Postings = {}
    get = found.get
    for i, line in enumerate(lines):
        for word in line.split():
            ids = get(word)
            if ids is None:
                found[word] = [i]
            elif ids[-1] != i:
                ids.append(i)
    return found


def _with_humps(text: str) -> str:
    """A name with the words inside it: `readFile` is `readfile`, `read` and `file`."""
    lower = text.lower()
    return text if lower == text else f"{text} {_HUMP.sub(' ', text)}"
