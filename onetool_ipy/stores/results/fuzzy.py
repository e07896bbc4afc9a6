"""Similar words in a stored result, with scores from 0 to 100, best first.

Each word of the query looks for the word of a line that is most like it, upper and lower case alike:

    100            the same word
    90 to 99       a word that holds it (`config` in `configuration`): the more of it, the higher
    70 to 99       a word that is spelled nearly so, or holds a part that is
    (below 70      no match)

and a line's score is the mean over the query's words, by their length. So a short word is found in a long line. A word
of 4 to 7 letters may have one letter wrong, missing, too much, or swapped with its neighbour; a longer one two letters,
or one swap; a shorter one none. Lines are found with one RE2 expression that no such word can escape, then scored with
rapidfuzz. After 1.5 s the search answers with what it has and says how many lines that were.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from onetool_ipy.stores.results.lines import Chunk, LineFile
from onetool_ipy.stores.results.search import InvalidPattern, compile_re2, finder

__all__ = ["Similar", "find_similar"]

_LOWEST = 70
_EXACT = 3
_ONE_EDIT = 7
_CHUNK = 128 * 1024
_MAX_QUERY = 200
_MAX_KNOWN = 100_000
_NEWLINE = b"\n"
_WORD = re.compile(r"\w+")
_LETTER = r"[0-9A-Za-z_\x{80}-\x{10FFFF}]"

Scores = tuple[float, ...]


class Similar(NamedTuple):
    """A page of similar lines, best first: numbers from 1; `matched` lines among those `searched`."""

    lines: list[str]
    numbers: list[int]
    scores: list[int]
    matched: int
    searched: int


def find_similar(file: LineFile, query: str, *, skip: int, limit: int, budget_s: float = 1.5) -> Similar:
    """Find lines with words like those of the query, best first, and take a page after the first `skip` ones."""
    deadline = time.monotonic() + budget_s
    wanted = _Wanted(query)
    ranking = _Ranking(skip + limit)
    searched = file.lines
    number, score = -1, 0
    for chunk in file.chunks(_CHUNK):
        if time.monotonic() > deadline:
            searched = file.number_at(chunk.offset)
            break
        for at, found in _scored_lines(file, chunk, wanted):
            if at != number:
                ranking.add(number, score)
                number, score = at, 0
            score = max(score, found)  # pieces of one long line each have their own
    ranking.add(number, score)
    best = ranking.best(skip, limit)
    lines = [file.page(at, 1)[0] for at, _ in best]
    return Similar(lines, [at + 1 for at, _ in best], [found for _, found in best], ranking.matched, searched)


class _Wanted:
    """The query: what to look for in the text, and how like its words a word of the text is."""

    def __init__(self, query: str) -> None:
        from rapidfuzz import fuzz

        if len(query) > _MAX_QUERY:
            raise InvalidPattern(query, f"a fuzzy search takes at most {_MAX_QUERY} characters")
        self.words = _WORD.findall(query.lower()) or [query.lower()]
        self._ratio: Callable[..., float] = fuzz.ratio
        self._partial_ratio: Callable[..., float] = fuzz.partial_ratio
        self._known: dict[bytes, Scores] = {}
        self._weights = [len(word) / sum(map(len, self.words)) for word in self.words]
        ways = sorted({way for word in self.words for way in _ways(word)})
        self.find = finder(compile_re2(f"(?i){_LETTER}*(?:{'|'.join(ways)}){_LETTER}*", query))

    def scores(self, word: bytes) -> Scores:
        """How like each word of the query this word of the text is."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            text = word.decode("utf-8", "replace").lower()
            found = self._known[word] = tuple(self._score(wanted, text) for wanted in self.words)
        return found

    def total(self, scores: Scores) -> int:
        """The score of a line with these best scores for the words."""
        return int(sum(score * weight for score, weight in zip(scores, self._weights, strict=True)) + 1e-6)

    def _score(self, wanted: str, text: str) -> float:
        if wanted == text:
            return 100.0
        if wanted in text:
            return 90.0 + 9.0 * len(wanted) / len(text)
        score = self._ratio(wanted, text)
        if len(wanted) > _EXACT and len(text) > len(wanted):
            score = max(score, 0.9 * self._partial_ratio(wanted, text))
        return min(score, 99.0) if score >= _LOWEST else 0.0


def _ways(word: str) -> Iterator[str]:
    """Expressions of which every word within reach of this one fits at least one."""
    if len(word) <= _EXACT:
        yield re.escape(word)
    elif len(word) <= _ONE_EDIT:
        yield from _one_edit(word)
    else:  # three parts, of which two edits, or a swap over a border, leave one whole
        first, second = len(word) // 3, len(word) - len(word) // 3
        yield from map(re.escape, (word[:first], word[first:second], word[second:]))


def _one_edit(word: str) -> Iterator[str]:
    for place in range(len(word)):
        before, after = re.escape(word[:place]), re.escape(word[place + 1 :])
        yield f"{before}{_LETTER}?{after}"
        yield f"{before}{_LETTER}{re.escape(word[place:])}"
        if place:
            yield re.escape(_swap(word, place - 1))


def _swap(word: str, place: int) -> str:
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _scored_lines(file: LineFile, chunk: Chunk, wanted: _Wanted) -> Iterator[tuple[int, int]]:
    """The lines of a chunk that have a similar word, by number from 0, with their scores."""
    data, at, number = chunk.data, 0, -1
    count, find, scores_of = data.count, wanted.find, wanted.scores
    best: Scores | None = None
    end = 0
    while (span := find(data, end))[0] >= 0:
        start, end = span
        if number < 0:
            number = file.number_at(chunk.offset)
        ahead = count(_NEWLINE, at, start)
        at = start
        if ahead and best is not None:
            yield number, wanted.total(best)
            best = None
        number += ahead
        scores = scores_of(data[start:end])
        best = scores if best is None else tuple(map(max, best, scores))
    if best is not None:
        yield number, wanted.total(best)


class _Ranking:
    """The best lines so far: of each score the first ones, and how many there are."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: dict[int, list[int]] = {}
        self.matched = 0

    def add(self, number: int, score: int) -> None:
        if score < _LOWEST:
            return
        self.matched += 1
        lines = self._lines.setdefault(score, [])
        if len(lines) < self._size:
            lines.append(number)

    def best(self, skip: int, limit: int) -> list[tuple[int, int]]:
        ranked: list[Any] = [(at, score) for score in sorted(self._lines, reverse=True) for at in self._lines[score]]
        return ranked[skip : skip + limit]
