"""Search a stored result: a regular expression (RE2) line by line, or lines with similar words,
best first.

`search`: a line matches if the pattern matches inside it; `^` and `$` are its ends, and no match
crosses lines. RE2 is linear in the text and releases the GIL. Chunks are small, so that an
interrupt lands within a second even for the worst pattern. After 10 s a search returns what it has.
A line longer than a chunk (128 KiB; 16 KiB for patterns of more than 200 steps) is searched in
overlapping pieces: a match longer than a quarter of a chunk may be missed there.

`find_similar`: rapidfuzz compares each word of the query with the most similar part of a line
(`partial_ratio`, 0 to 100), ignoring case; a word of up to three letters has to be there as it is.
The score of a line is the mean over the words, weighted by their length; lines of 70 and more
match. Of lines with the same score the shorter one comes first. After 4 s it returns what it has,
and how many lines it looked at.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.stores.result_file import ResultText

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Scores = np.ndarray[tuple[int], np.dtype[np.uint8]]

Find = Callable[[bytes, int, int], tuple[int, int]]
"""Returns start and end of the first match between two positions, or (-1, -1)."""

_CHUNK = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_MAX_PATTERN = 4_000
_COMPLEX = 200
_TOO_COMPLEX = 20_000
_ENDS_OF_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
"""Syntax for the ends of the text instead of the line: `\\A`, `\\z`, and switching `(?m)` off."""

_FUZZY_CHUNK = 1024 * 1024
_FUZZY_PIECE = _FUZZY_CHUNK // 8
_MIN_SCORE = 70
_EXACT = 3
_MAX_QUERY = 200
_WORD = re.compile(r"\w+")


class InvalidPattern(UsageProblem, ValueError):
    """A search pattern that RE2 refuses; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        hint = (
            "Patterns have RE2 syntax: no look-around, no back-references; write \\( for a bracket"
            " that is meant."
        )
        super().__init__(
            f"Invalid search pattern '{values.cut(pattern, 80)}': {reason}.", hint=hint
        )
        self.pattern = pattern
        self.reason = reason


class Matches(NamedTuple):
    """A page of the lines that match, counted from 0; `total` of the `searched` lines do. Fuzzy
    ones have `scores`."""

    numbers: list[int]
    total: int
    searched: int
    scores: list[int] | None = None


def search(
    text: ResultText, pattern: str, *, skip: int, limit: int, budget_s: float = 10.0
) -> Matches:
    """Find the lines that match, and return a page of them after the first `skip`."""
    deadline = time.monotonic() + budget_s
    matcher = _Matcher(pattern)
    page: list[int] = []
    total, first = 0, 0
    try:
        for first, end in text.chunks(matcher.chunk):
            numbers = matcher.matching_lines(text, first, end, deadline)
            page += numbers[max(0, skip - total) : max(0, skip + limit - total)].tolist()
            total += len(numbers)
    except TimeoutError:
        return Matches(page, total, first)
    return Matches(page, total, text.lines)


class _Matcher:
    """A compiled pattern, for chunks of about `chunk` bytes."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN:
            raise InvalidPattern(pattern, f"it is longer than {_MAX_PATTERN:,} characters")
        # The pattern is compiled unchanged first, so that a surplus bracket does not close one of
        # ours.
        compiled = _compile(pattern, pattern)
        self._is_by_line = _ENDS_OF_TEXT.search(pattern) is not None
        self._find = finder(
            compiled if self._is_by_line else _compile(f"(?m)(?:{pattern})", pattern)
        )
        self.chunk = _CHUNK if compiled.programsize < _COMPLEX else _SMALL_CHUNK

    def matching_lines(self, text: ResultText, first: int, end: int, deadline: float) -> Numbers:
        """Return the numbers of the lines in a range that match. Raises TimeoutError."""
        import numpy as np

        _require_time(deadline)
        if self._is_by_line or end == first + 1:
            lines = range(first, end)
            return np.array(
                [number for number in lines if self._is_match(text, number, deadline)], np.int64
            )
        offset = text.bounds(first)[0]
        data = text.read(offset, text.bounds(end - 1)[1])
        starts = text.starts[first:end]
        if b"\r" in data:
            # Before a newline it belongs to the line's end, as Windows writes it.
            data = re.sub(rb"\r(?=\n|\Z)", b"", data)
            newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
            starts, offset = np.concatenate([[0], newlines + 1]), 0
        places, position = [], 0
        # Jumping from match to match costs less than splitting the text into lines.
        while (span := self._find(data, position, len(data)))[0] >= 0:
            places.append(span[0] + offset)
            position = data.find(b"\n", span[1]) + 1
            if not position:
                break
        return np.searchsorted(starts, np.array(places, starts.dtype), "right") + (first - 1)

    def _is_match(self, text: ResultText, number: int, deadline: float) -> bool:
        """Whether one line matches, which may be of any length."""
        for data, begin, end in text.pieces(number, self.chunk):
            if self._find(data, begin, end)[0] >= 0:
                return True
            _require_time(deadline)
        return False


def _require_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError


def _compile(expression: str, pattern: str) -> Any:
    """Compile an expression that cannot match a newline; an error names the pattern it was made
    of."""
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.never_nl = True
    options.never_capture = True
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error as exc:
        reason = exc.args[0] if exc.args else "RE2 refuses it"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise InvalidPattern(pattern, reason) from exc
    except UnicodeEncodeError as exc:
        raise InvalidPattern(pattern, "it holds a lone surrogate") from exc
    if compiled.programsize > _TOO_COMPLEX:
        raise InvalidPattern(pattern, "it is too complex")
    return compiled


def finder(compiled: Any) -> Find:
    """Return the bare match function of a compiled pattern: re2's wrapper costs more than most
    matches."""
    import re2

    try:
        match, anchor = compiled._regexp.Match, re2._Anchor.UNANCHORED
    except AttributeError:
        # Another version of re2: its public API is slower and always there.
        def find(data: bytes, begin: int, end: int) -> tuple[int, int]:
            match = compiled.search(data, begin, end)
            span: tuple[int, int] = (-1, -1) if match is None else match.span()
            return span

        return find
    return lambda data, begin, end: match(anchor, data, begin, end)[0]


def find_similar(
    text: ResultText, query: str, *, skip: int, limit: int, budget_s: float = 4.0
) -> Matches:
    """Find lines with words similar to those of the query, best first, and return a page after the
    first `skip`."""
    import numpy as np

    if len(query) > _MAX_QUERY:
        raise InvalidPattern(query, f"a fuzzy search takes at most {_MAX_QUERY} characters")
    deadline = time.monotonic() + budget_s
    words = sorted(_WORD.findall(query.lower()) or [query.lower()], key=len, reverse=True)
    numbers, scores = [np.zeros(0, text.starts.dtype)], [np.zeros(0, np.uint8)]
    searched = 0
    try:
        for first, end in text.chunks(_FUZZY_CHUNK):
            _require_time(deadline)
            chunk_scores = _chunk_scores(words, text, first, end, deadline)
            places = np.flatnonzero(chunk_scores >= _MIN_SCORE)
            numbers.append((places + first).astype(text.starts.dtype))
            scores.append(chunk_scores[places])
            searched = end
    except TimeoutError:
        pass
    number, score = np.concatenate(numbers), np.concatenate(scores)
    length = text.starts[number + 1] - text.starts[number]
    page = np.lexsort((number, length, 100 - score))[skip : skip + limit]
    return Matches(number[page].tolist(), len(number), searched, score[page].tolist())


def _chunk_scores(
    words: list[str], text: ResultText, first: int, end: int, deadline: float
) -> Scores:
    """Return the score of each line of a range; of a line longer than a chunk, that of its best
    piece.

    rapidfuzz may need forty bytes for each character of a long line, so the pieces are small.
    """
    if end > first + 1:
        data = text.read(text.bounds(first)[0], text.bounds(end - 1)[1])
        return _scores(words, data.decode("utf-8", "replace").lower().split("\n"))
    best = _scores(words, [""])
    for data, begin, stop in text.pieces(first, _FUZZY_PIECE):
        _require_time(deadline)
        best = max(
            best,
            _scores(words, [data[begin:stop].decode("utf-8", "ignore").lower()]),
            key=lambda one: one[0],
        )
    return best


def _scores(words: list[str], lines: list[str]) -> Scores:
    """Return the score of each line. The words come longest first."""
    import numpy as np
    from rapidfuzz import fuzz, process

    # `partial_ratio` looks for the shorter text in the longer one: a line must not be the shorter
    # one, or the line "on" would be just like "configuration".
    lines = [line.ljust(len(words[0])) for line in lines]
    total_length = sum(map(len, words))
    scores = np.zeros(len(lines))
    places, weight_left = np.arange(len(lines)), 1.0
    for word in words:
        candidates = lines if len(places) == len(lines) else [lines[place] for place in places]
        if len(word) <= _EXACT:
            word_scores = np.array([100.0 * (word in line) for line in candidates])
        else:
            word_scores = process.cdist(
                [word], candidates, scorer=fuzz.partial_ratio, score_cutoff=70, workers=-1
            )[0]
        scores[places] += word_scores * (len(word) / total_length)
        # Only the lines that can still reach the lowest score are compared with the other words.
        weight_left -= len(word) / total_length
        places = places[scores[places] + 100 * weight_left >= _MIN_SCORE - 1e-6]
    return (scores + 1e-6).astype(np.uint8)
