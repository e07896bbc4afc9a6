"""Regular expressions (RE2) over a stored result: line by line in meaning, chunk by chunk in fact.

A line matches if the pattern matches inside it: `^` and `$` are its ends, nothing crosses from one line into the next.
RE2 is linear in the text for every pattern and lets other threads run; chunks are small, so an interrupt lands within
a second even for the worst pattern, within milliseconds for others. After 10 s a search answers with what it has.

A line longer than a chunk (128 KiB; 16 KiB for patterns of more than 200 steps) is searched in overlapping pieces:
there a match that is longer than a quarter of a chunk may be missed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.results.lines import MAX_ANSWER_BYTES, Chunk, LineFile

__all__ = ["Find", "Found", "Hit", "InvalidPattern", "Pattern", "compile_re2", "finder", "search"]

Find = Callable[[bytes, int], tuple[int, int]]
"""Where the first match at or after a position starts and ends; (-1, -1) if there is none."""

Hit = tuple[int, int]
"""Neighbouring lines that match: a position in the first of them in its chunk, and how many they are."""

_MAX_PATTERN = 4_000
_COMPLEX = 200
_TOO_COMPLEX = 20_000
_CHUNK = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_WORTH_COUNTING = 64
_NEWLINE = b"\n"

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
        self.chunk = _CHUNK if compiled.programsize < _COMPLEX else _SMALL_CHUNK

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
        self._is_dense = matched >= _WORTH_COUNTING and 2 * matched > data.count(_NEWLINE)
        return found

    def _line_hits(self, data: bytes) -> list[Hit]:
        """Jump from hit to hit, without looking at the lines between."""
        find, next_line, size, position = self._find, data.find, len(data), 0
        found: list[Hit] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE)):
                break  # nothing more, or only behind the last newline, where there is no line
            found.append((start, 1))
            position = next_line(_NEWLINE, end) + 1 or size
        return found

    def _run_hits(self, data: bytes) -> list[Hit]:
        assert self._find_run is not None
        find, size, position = self._find_run, len(data), 0
        found: list[Hit] = []
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE)):
                break
            ended = data.count(_NEWLINE, start, end)
            found.append((start, ended + (start == end or data[end - 1 : end] != _NEWLINE)))
            position = max(end, start + 1)
        return found

    def _single_hits(self, data: bytes) -> list[Hit]:
        found: list[Hit] = []
        position = 0
        for line in data.removesuffix(_NEWLINE).split(_NEWLINE):
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
                number += chunk.data.count(_NEWLINE, counted, at)
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
