"""Search a stored result: regular expressions (RE2) line by line, or similar words with scores.

`search`: a line matches if the pattern matches inside it; `^` and `$` are its ends, and no match crosses lines. RE2 is
linear in the text and releases the GIL. Chunks are small, so an interrupt lands within a second even for the worst
pattern. After 10 s a search returns what it has. A line longer than a chunk (128 KiB; 16 KiB for patterns of more than
200 steps) is searched in overlapping pieces: a match longer than a quarter of a chunk may be missed there.

`find_similar`: each word of the query is compared with the words of a line, ignoring case:

    100            the same word
    90 to 99       a word that contains it (`config` in `configuration`): the more of it, the higher
    70 to 99       a word spelled almost so, or one that contains such a part
    (below 70      no match)

A line's score is the mean over the query's words, weighted by their length, so a short query is found in a long line. A
word of 4 to 7 letters may have one letter wrong, missing, added, or swapped with its neighbour; a longer word two
letters, or one swap; a shorter word none. RE2 finds candidates for the words without which no line scores 70, rapidfuzz
scores them, and only the lines of those that are similar are looked at whole. A million lines take one or two seconds;
after 4 s the search returns what it has and how many lines it looked at.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.stores.result_file import MAX_ANSWER_BYTES, Chunk, LineFile

__all__ = ["InvalidPattern", "MatchPage", "Pattern", "compile_re2", "find_similar", "finder", "search"]

Find = Callable[[bytes, int], tuple[int, int]]
"""Returns start and end of the first match at or after a position, or (-1, -1)."""

LineRun = tuple[int, int]
"""Adjacent lines that match: a position in the first one, in its chunk, and their number."""
Scores = tuple[float, ...]

_CHUNK = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_NEWLINE = b"\n"

_MAX_PATTERN = 4_000
_COMPLEX = 200
_TOO_COMPLEX = 20_000
_DENSE = 64
_ENDS_OF_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
"""Syntax for the ends of the text instead of the line: `\\A`, `\\z`, and switching `(?m)` off."""

_STAYS_IN_LINE = re.compile(
    r"""(?x) (?:\(\?i\))?  # RE2 syntax that never matches a newline
    (?: [\w\ \t=:/,;@%&~"'<>!.)|?*+^$\#-] | \((?!\?) | \(\?: | \\[-.+*?()|\[\]{}^$\\/dwb] | \{\d+(?:,\d*)?\}
      | \[[A-Za-z0-9_.\ -]+\] )+"""
)
_LOOKS_AROUND = re.compile(r"[$^]|\\[AbBz]")

_MIN_SCORE = 70
_EXACT = 3
_ONE_EDIT = 7
_MAX_QUERY = 200
_MAX_CACHED = 100_000
_WORD = re.compile(r"\w+")
_LETTER = r"[0-9A-Za-z_\x{80}-\x{10FFFF}]"


class InvalidPattern(OneToolError, ValueError):
    """A search pattern that RE2 refuses; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
        hint = "Patterns have RE2 syntax: no look-around, no back-references; write \\( for a bracket that is meant."
        super().__init__(f"Invalid search pattern '{shown}': {reason}.", hint=hint)
        self.pattern = pattern
        self.reason = reason


class MatchPage(NamedTuple):
    """A page of lines found, numbered from 1; `matched` of the `searched` lines match. Similar ones have `scores`."""

    lines: list[str]
    numbers: list[int]
    matched: int
    searched: int
    scores: list[int] | None = None


def search(file: LineFile, pattern: Pattern, *, skip: int, limit: int, budget_s: float = 10.0) -> MatchPage:
    """Find the lines that match, and return a page of them after the first `skip`."""
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
                    break  # another piece of this line has matched
                long_line = number
            if skip < matched + lines and matched < stop:
                if number < 0:
                    number = file.number_at(chunk.offset)
                number += chunk.data.count(_NEWLINE, counted, at)
                counted = at
                first = max(0, skip - matched)
                runs.append((number + first, min(lines, stop - matched) - first))
            matched += lines
    lines_found, numbers = _fetch(file, runs)
    return MatchPage(lines_found, numbers, matched, searched)


def _fetch(file: LineFile, runs: list[tuple[int, int]]) -> tuple[list[str], list[int]]:
    """Read the lines of runs (first number from 0, count), as many as fit into one answer."""
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


class Pattern:
    """A compiled search pattern for chunks of at most `chunk` bytes, one after the other.

    If most lines match, finding each of them costs more than reading all of the text. A pattern that cannot match a
    newline then takes a run of matching lines as one match.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_PATTERN:
            raise InvalidPattern(text, f"it is longer than {_MAX_PATTERN:,} characters")
        alone = compile_re2(text, text)  # unchanged, so that a surplus bracket does not close one of ours
        self._by_line = _ENDS_OF_TEXT.search(text) is not None
        self._looks_around = _LOOKS_AROUND.search(text) is not None
        compiled = alone if self._by_line else compile_re2(f"(?m)(?:{text})", text)
        self._find = finder(compiled)
        self._find_run: Find | None = None
        if _STAYS_IN_LINE.fullmatch(text):
            self._find_run = finder(compile_re2(f"(?m)(?:^.*(?:{text}).*$\n?)+", text, never_nl=False))
        self._is_dense = False
        self.chunk = _CHUNK if compiled.programsize < _COMPLEX else _SMALL_CHUNK

    def hits(self, chunk: Chunk) -> list[LineRun]:
        """Return the lines of the chunk that match, in order; for a piece of a line at most one."""
        data = chunk.data
        if not chunk.is_whole:
            return self._piece_hits(chunk)
        if self._by_line:
            return self._single_hits(data)
        is_dense = self._is_dense and self._find_run is not None
        found = self._run_hits(data) if is_dense else self._line_hits(data)
        matched = sum([lines for _, lines in found]) if is_dense else len(found)
        self._is_dense = matched >= _DENSE and 2 * matched > data.count(_NEWLINE)
        return found

    def _line_hits(self, data: bytes) -> list[LineRun]:
        """Jump from match to match, without splitting the lines between."""
        find, next_line, size, position = self._find, data.find, len(data), 0
        found: list[LineRun] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE)):
                break  # no match, or only after the last newline, where there is no line
            found.append((start, 1))
            position = next_line(_NEWLINE, end) + 1 or size
        return found

    def _run_hits(self, data: bytes) -> list[LineRun]:
        assert self._find_run is not None
        find, size, position = self._find_run, len(data), 0
        found: list[LineRun] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE)):
                break
            ended = data.count(_NEWLINE, start, end)
            found.append((start, ended + (start == end or data[end - 1 : end] != _NEWLINE)))
            position = max(end, start + 1)
        return found

    def _single_hits(self, data: bytes) -> list[LineRun]:
        found: list[LineRun] = []
        position = 0
        for line in data.removesuffix(_NEWLINE).split(_NEWLINE):
            if self._find(line, 0)[0] >= 0:
                found.append((position, 1))
            position += len(line) + 1
        return found

    def _piece_hits(self, chunk: Chunk) -> list[LineRun]:
        """Ignore a match that exists only because the piece was cut there."""
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


def compile_re2(pattern: str, shown: str, *, never_nl: bool = True) -> Any:
    """Compile a pattern for searching in chunks; with `never_nl` it cannot match a newline."""
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.never_nl = never_nl
    options.never_capture = True
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "RE2 refuses it"
        raise InvalidPattern(shown, reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason) from exc
    except UnicodeEncodeError as exc:
        raise InvalidPattern(shown, "it holds a lone surrogate") from exc
    if compiled.programsize > _TOO_COMPLEX:
        raise InvalidPattern(shown, "it is too complex")
    return compiled


def finder(compiled: Any) -> Find:
    """Return the bare match function of a compiled pattern: re2's wrapper costs more than most matches."""
    import re2

    try:
        match, anchor = compiled._regexp.Match, re2._Anchor.UNANCHORED
    except AttributeError:  # another version of re2: use its public API, which is slower

        def find(data: bytes, position: int) -> tuple[int, int]:
            found = compiled.search(data, position)
            span: tuple[int, int] = (-1, -1) if found is None else found.span()
            return span

        return find
    return lambda data, position: match(anchor, data, position, len(data))[0]


def find_similar(file: LineFile, query: str, *, skip: int, limit: int, budget_s: float = 4.0) -> MatchPage:
    """Find lines with words similar to those of the query, best first, and return a page after the first `skip`."""
    deadline = time.monotonic() + budget_s
    wanted = _Query(query)
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
            score = max(score, found)  # a line is found once for each of its similar words, and for each of its pieces
    ranking.add(number, score)
    best = ranking.best(skip, limit)
    lines = [file.page(at, 1)[0] for at, _ in best]
    return MatchPage(lines, [at + 1 for at, _ in best], ranking.matched, searched, [found for _, found in best])


class _Query:
    """A fuzzy query: expressions for candidate words, and scores of words and lines."""

    def __init__(self, query: str) -> None:
        from rapidfuzz import fuzz

        if len(query) > _MAX_QUERY:
            raise InvalidPattern(query, f"a fuzzy search takes at most {_MAX_QUERY} characters")
        self.words = sorted(_WORD.findall(query.lower()) or [query.lower()], key=len, reverse=True)
        self._ratio: Callable[..., float] = fuzz.ratio
        self._partial_ratio: Callable[..., float] = fuzz.partial_ratio
        self._cache: dict[bytes, Scores] = {}
        self._weights = [len(word) / sum(map(len, self.words)) for word in self.words]
        needed = 1
        while self._total([100.0 * (place >= needed) for place in range(len(self.words))]) >= _MIN_SCORE:
            needed += 1  # a line without any of these words cannot reach the lowest score with the other ones
        self.find = _word_finder(self.words[:needed], query)
        self._find_any = _word_finder(self.words, query)

    def scores(self, word: bytes) -> Scores:
        """Return the score of this word of the text for each word of the query; nothing if none is similar."""
        found = self._cache.get(word)
        if found is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            text = word.decode("utf-8", "replace").lower()
            scores = tuple(self._score(wanted, text) for wanted in self.words)
            found = self._cache[word] = scores if any(scores) else ()
        return found

    def line_score(self, line: bytes) -> int:
        """Return the score of a line: of each word of the query the best."""
        best, end = (0.0,) * len(self.words), 0
        while (span := self._find_any(line, end))[0] >= 0:
            start, end = span
            if scores := self.scores(line[start:end]):
                best = tuple(map(max, best, scores))
        return self._total(best)

    def _total(self, scores: Iterable[float]) -> int:
        return int(sum(score * weight for score, weight in zip(scores, self._weights, strict=True)) + 1e-6)

    def _score(self, wanted: str, text: str) -> float:
        if wanted == text:
            return 100.0
        if wanted in text:
            return 90.0 + 9.0 * len(wanted) / len(text)
        score = self._ratio(wanted, text)
        if len(wanted) > _EXACT and len(text) > len(wanted):
            score = max(score, 0.9 * self._partial_ratio(wanted, text))
        return min(score, 99.0) if score >= _MIN_SCORE else 0.0


def _word_finder(words: list[str], query: str) -> Find:
    """Return what finds the next word of a text that may be similar to one of these."""
    ways = sorted({way for word in words for way in _ways(word)})
    return finder(compile_re2(f"(?i){_LETTER}*(?:{'|'.join(ways)}){_LETTER}*", query))


def _ways(word: str) -> Iterator[str]:
    """Yield expressions of which every similar word matches at least one."""
    if len(word) <= _EXACT:
        yield re.escape(word)
    elif len(word) <= _ONE_EDIT:
        yield from _one_edit(word)
    else:  # three parts, one of which stays whole after two edits, or a swap over a border
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


def _scored_lines(file: LineFile, chunk: Chunk, wanted: _Query) -> Iterator[tuple[int, int]]:
    """Yield the number (from 0) and the score of each line of a chunk, once for each similar word or once for all."""
    data, at, end, number = chunk.data, 0, 0, -1
    find, scores_of, is_one = wanted.find, wanted.scores, len(wanted.words) == 1
    while (span := find(data, end))[0] >= 0:
        start, end = span
        scores = scores_of(data[start:end])
        if not scores:
            continue
        if number < 0:
            number = file.number_at(chunk.offset)
        number += data.count(_NEWLINE, at, start)
        at = start
        if is_one:
            yield number, int(scores[0])
        else:
            end = data.find(_NEWLINE, end) + 1 or len(data)
            yield number, wanted.line_score(data[data.rfind(_NEWLINE, 0, start) + 1 : end])


class _Ranking:
    """The best lines so far: the first lines of each score, and how many matched."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lines: dict[int, list[int]] = {}
        self.matched = 0

    def add(self, number: int, score: int) -> None:
        if score < _MIN_SCORE:
            return
        self.matched += 1
        lines = self._lines.setdefault(score, [])
        if len(lines) < self._size:
            lines.append(number)

    def best(self, skip: int, limit: int) -> list[tuple[int, int]]:
        ranked: list[Any] = [(at, score) for score in sorted(self._lines, reverse=True) for at in self._lines[score]]
        return ranked[skip : skip + limit]
