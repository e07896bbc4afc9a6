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

Regular expressions (RE2) over a stored result: line by line in meaning, chunk by chunk in fact.

A line matches if the pattern matches inside it: `^` and `$` are its ends, nothing crosses from one line into the next.
RE2 is linear in the text for every pattern and lets other threads run; chunks are small, so an interrupt lands within
a second even for the worst pattern, within milliseconds for others. After 10 s a search answers with what it has.

A line longer than a chunk (128 KiB; 16 KiB for patterns of more than 200 steps) is searched in overlapping pieces:
there a match that is longer than a quarter of a chunk may be missed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.stores.results.lines import MAX_ANSWER_BYTES, Chunk, LineFile

__all__ = [
    "Find",
    "Found",
    "Hit",
    "InvalidPattern",
    "Pattern",
    "Similar",
    "compile_re2",
    "find_similar",
    "finder",
    "search",
]

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


Find = Callable[[bytes, int], tuple[int, int]]
"""Where the first match at or after a position starts and ends; (-1, -1) if there is none."""

Hit = tuple[int, int]
"""Neighbouring lines that match: a position in the first of them in its chunk, and how many they are."""

_MAX_PATTERN = 4_000
_COMPLEX = 200
_TOO_COMPLEX = 20_000
_CHUNK_SEARCH = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_WORTH_COUNTING = 64
_NEWLINE_SEARCH = b"\n"

_ENDS_OF_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
"""What means the ends of the text and not of the line: `\\A`, `\\z`, and switching `(?m)` off."""

_STAYS_IN_LINE = re.compile(
    r"""(?x) (?:\(\?i\))?  # RE2's words for anything that is surely no newline
    (?: [\w\ \t=:/,;@%&~"'<>!.)|?*+^$\#-] | \((?!\?) | \(\?: | \\[-.+*?()|\[\]{}^$\\/dwb] | \{\d+(?:,\d*)?\}
      | \[[A-Za-z0-9_.\ -]+\] )+"""
)
_LOOKS_AROUND = re.compile(r"[$^]|\\[AbBz]")


class InvalidPattern(OneToolError, ValueError):
    """A search pattern that RE2 does not take; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
        hint = "Patterns have RE2 syntax: no look-around, no back-references; write \\( for a bracket that is meant."
        super().__init__(f"Invalid search pattern '{shown}': {reason}.", hint=hint)
        self.pattern = pattern
        self.reason = reason


class Pattern:
    """A search pattern, ready to be used on chunks of at most `chunk` bytes, one after the other.

    Where most lines match, finding each of them costs more than looking at all of the text; a pattern that surely keeps
    to its line then takes a run of matching lines as one hit.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_PATTERN:
            raise InvalidPattern(text, f"it is longer than {_MAX_PATTERN:,} characters")
        alone = compile_re2(text, text)  # as it is, so that a bracket too many does not close one of ours
        self._by_line = _ENDS_OF_TEXT.search(text) is not None
        self._looks_around = _LOOKS_AROUND.search(text) is not None
        compiled = alone if self._by_line else compile_re2(f"(?m)(?:{text})", text)
        self._find = finder(compiled)
        self._find_run: Find | None = None
        if _STAYS_IN_LINE.fullmatch(text):
            self._find_run = finder(compile_re2(f"(?m)(?:^.*(?:{text}).*$\n?)+", text, never_nl=False))
        self._is_dense = False
        self.chunk = _CHUNK_SEARCH if compiled.programsize < _COMPLEX else _SMALL_CHUNK

    def hits(self, chunk: Chunk) -> list[Hit]:
        """The lines of the chunk that match, in order; of a piece of a line, at most one hit."""
        data = chunk.data
        if not chunk.is_whole:
            return self._piece_hits(chunk)
        if self._by_line:
            return self._single_hits(data)
        is_dense = self._is_dense and self._find_run is not None
        found = self._run_hits(data) if is_dense else self._line_hits(data)
        matched = sum([lines for _, lines in found]) if is_dense else len(found)
        self._is_dense = matched >= _WORTH_COUNTING and 2 * matched > data.count(_NEWLINE_SEARCH)
        return found

    def _line_hits(self, data: bytes) -> list[Hit]:
        """Jump from hit to hit, without looking at the lines between."""
        find, next_line, size, position = self._find, data.find, len(data), 0
        found: list[Hit] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE_SEARCH)):
                break  # nothing more, or only behind the last newline, where there is no line
            found.append((start, 1))
            position = next_line(_NEWLINE_SEARCH, end) + 1 or size
        return found

    def _run_hits(self, data: bytes) -> list[Hit]:
        assert self._find_run is not None
        find, size, position = self._find_run, len(data), 0
        found: list[Hit] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE_SEARCH)):
                break
            ended = data.count(_NEWLINE_SEARCH, start, end)
            found.append((start, ended + (start == end or data[end - 1 : end] != _NEWLINE_SEARCH)))
            position = max(end, start + 1)
        return found

    def _single_hits(self, data: bytes) -> list[Hit]:
        found: list[Hit] = []
        position = 0
        for line in data.removesuffix(_NEWLINE_SEARCH).split(_NEWLINE_SEARCH):
            if self._find(line, 0)[0] >= 0:
                found.append((position, 1))
            position += len(line) + 1
        return found

    def _piece_hits(self, chunk: Chunk) -> list[Hit]:
        """A match that may owe itself to the ends of our piece does not count."""
        data, position = chunk.data, 0
        while position <= len(data):
            start, end = self._find(data, position)
            if start < 0:
                break
            at_our_cut = (start == 0 and not chunk.starts_line) or (end == len(data) and not chunk.ends_line)
            if not (at_our_cut and self._looks_around):
                return [(start, 1)]
            position = max(end, position + 1)
        return []


class Found(NamedTuple):
    """A page of what matched: lines, their numbers from 1, how many lines match in all of those `searched`."""

    lines: list[str]
    numbers: list[int]
    matched: int
    searched: int


def compile_re2(pattern: str, shown: str, *, never_nl: bool = True) -> Any:
    """Compile for searching in chunks: with `never_nl` nothing in it matches a newline."""
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.never_nl = never_nl
    options.never_capture = True
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "RE2 does not take it"
        raise InvalidPattern(shown, reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason) from exc
    except UnicodeEncodeError as exc:
        raise InvalidPattern(shown, "it holds a lone surrogate") from exc
    if compiled.programsize > _TOO_COMPLEX:
        raise InvalidPattern(shown, "it is too complex")
    return compiled


def finder(compiled: Any) -> Find:
    """The bare matching of a compiled pattern: what re2 wraps around it costs more than most matches."""
    import re2

    try:
        match, anchor = compiled._regexp.Match, re2._Anchor.UNANCHORED
    except AttributeError:  # another version of it: slower, but all in public

        def find(data: bytes, position: int) -> tuple[int, int]:
            found = compiled.search(data, position)
            span: tuple[int, int] = (-1, -1) if found is None else found.span()
            return span

        return find
    return lambda data, position: match(anchor, data, position, len(data))[0]


def search(file: LineFile, pattern: Pattern, *, skip: int, limit: int, budget_s: float = 10.0) -> Found:
    """Find the lines that match, and take a page of them after the first `skip` ones."""
    deadline = time.monotonic() + budget_s
    runs: list[tuple[int, int]] = []
    matched, stop, searched, long_line = 0, skip + limit, file.lines, -1
    for chunk in file.chunks(pattern.chunk):
        if time.monotonic() > deadline:
            searched = file.number_at(chunk.offset)
            break
        number, counted = -1, 0
        for at, lines in pattern.hits(chunk):
            if not chunk.is_whole:
                number = file.number_at(chunk.offset)
                if number == long_line:
                    break  # another piece of it has matched
                long_line = number
            if skip < matched + lines and matched < stop:
                if number < 0:
                    number = file.number_at(chunk.offset)
                number += chunk.data.count(_NEWLINE_SEARCH, counted, at)
                counted = at
                first = max(0, skip - matched)
                runs.append((number + first, min(lines, stop - matched) - first))
            matched += lines
    lines_found, numbers = _fetch(file, runs)
    return Found(lines_found, numbers, matched, searched)


def _fetch(file: LineFile, runs: list[tuple[int, int]]) -> tuple[list[str], list[int]]:
    """The lines of runs (first number from 0, count), as many as fit into one answer."""
    lines: list[str] = []
    numbers: list[int] = []
    budget = MAX_ANSWER_BYTES
    for first, count in runs:
        if budget <= 0:
            break
        found = file.page(first, count)
        lines += found
        numbers += range(first + 1, first + 1 + len(found))
        budget -= sum(map(len, found))
    return lines, numbers
