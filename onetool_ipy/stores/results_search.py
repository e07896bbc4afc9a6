"""Regular expressions (RE2) over a stored result: line by line in meaning, chunk by chunk in fact.

A line matches if the pattern matches inside it: `^` and `$` are its ends, nothing crosses from one line into the next.
RE2 is linear in the text for every pattern and lets other threads run; chunks are small, so an interrupt lands within
a second even for the worst pattern, within milliseconds for others. After 10 s a search answers with what it has.

A line longer than a chunk (128 KiB; 16 KiB for patterns of more than 1,000 steps) is searched in overlapping pieces:
there a match that is longer than a quarter of a chunk may be missed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.results_lines import MAX_ANSWER_BYTES, Chunk, LineFile

__all__ = ["Find", "Found", "InvalidPattern", "Pattern", "compile_re2", "finder", "search"]

Find = Callable[[bytes, int], tuple[int, int]]
"""Where the first match at or after a position starts and ends; (-1, -1) if there is none."""

_MAX_PATTERN = 4_000
_COMPLEX = 1_000
_TOO_COMPLEX = 20_000
_CHUNK = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_NEWLINE = b"\n"

_ENDS_OF_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
"""What means the ends of the text and not of the line: `\\A`, `\\z`, and switching `(?m)` off."""

_PLAIN = re.compile(r"""[\w\t =:/,;@%&~"'<>!#-]+""")
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
    """A search pattern, ready to be used on chunks of at most `chunk` bytes."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_PATTERN:
            raise InvalidPattern(text, f"it is longer than {_MAX_PATTERN:,} characters")
        alone = compile_re2(text, text)  # as it is, so that a bracket too many does not close one of ours
        self._by_line = _ENDS_OF_TEXT.search(text) is not None
        self._looks_around = _LOOKS_AROUND.search(text) is not None
        compiled = alone if self._by_line else compile_re2(f"(?m)(?:{text})", text)
        self._find = finder(compiled)
        self._plain = text.encode("utf-8") if _PLAIN.fullmatch(text) else None
        self.chunk = _CHUNK if compiled.programsize < _COMPLEX else _SMALL_CHUNK

    def hits(self, chunk: Chunk) -> Iterator[int]:
        """A position in each line of the chunk that matches; of a piece of a line, at most one."""
        if not chunk.is_whole:
            return self._piece_hits(chunk)
        if self._plain is not None:
            return self._plain_hits(chunk.data, self._plain)
        return self._single_hits(chunk.data) if self._by_line else self._line_hits(chunk.data)

    def _line_hits(self, data: bytes) -> Iterator[int]:
        """Jump from hit to hit, without looking at the lines between."""
        find, size, position = self._find, len(data), 0
        while position < size:
            start, end = find(data, position)
            if start < 0 or (start == size and data.endswith(_NEWLINE)):  # behind the last newline is no line
                return
            yield start
            position = data.find(_NEWLINE, end) + 1 or size

    def _plain_hits(self, data: bytes, text: bytes) -> Iterator[int]:
        """The same for a pattern that is just text: three times as fast where there are many hits."""
        find, size, position = data.find, len(data), 0
        while (start := find(text, position)) >= 0:
            yield start
            position = find(_NEWLINE, start) + 1 or size

    def _single_hits(self, data: bytes) -> Iterator[int]:
        position = 0
        for line in data.removesuffix(_NEWLINE).split(_NEWLINE):
            if self._find(line, 0)[0] >= 0:
                yield position
            position += len(line) + 1

    def _piece_hits(self, chunk: Chunk) -> Iterator[int]:
        """A match that may owe itself to the ends of our piece does not count."""
        data, position = chunk.data, 0
        while position <= len(data):
            start, end = self._find(data, position)
            if start < 0:
                return
            at_our_cut = (start == 0 and not chunk.starts_line) or (end == len(data) and not chunk.ends_line)
            if not (at_our_cut and self._looks_around):
                yield start
                return
            position = max(end, position + 1)


class Found(NamedTuple):
    """A page of what matched: lines, their numbers from 1, how many lines match in all of those `searched`."""

    lines: list[str]
    numbers: list[int]
    matched: int
    searched: int


def compile_re2(pattern: str, shown: str) -> Any:
    """Compile for searching in chunks: nothing in it matches a newline."""
    import re2  # type: ignore[import-untyped]  # it ships no types

    options = re2.Options()
    options.never_nl = True
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
    page: list[tuple[int, int | None]] = []
    matched, stop, searched, long_line = 0, skip + limit, file.lines, -1
    for chunk in file.chunks(pattern.chunk):
        if time.monotonic() > deadline:
            searched = file.number_at(chunk.offset)
            break
        data, number, counted = chunk.data, -1, 0
        for start in pattern.hits(chunk):
            if not chunk.is_whole:
                number = file.number_at(chunk.offset)
                if number == long_line:
                    break  # another piece of it has matched
                long_line = number
            matched += 1
            if not skip < matched <= stop:
                continue
            if number < 0:
                number = file.number_at(chunk.offset)
            number += data.count(_NEWLINE, counted, start)
            counted = start
            page.append((number, chunk.offset + data.rfind(_NEWLINE, 0, start) + 1 if chunk.is_whole else None))
    lines, numbers = _fetch(file, page)
    return Found(lines, numbers, matched, searched)


def _fetch(file: LineFile, page: list[tuple[int, int | None]]) -> tuple[list[str], list[int]]:
    """The lines of a page by number from 0 and offset, as many as fit into one answer."""
    lines: list[str] = []
    budget = MAX_ANSWER_BYTES
    for number, offset in page:
        if budget <= 0:
            break
        lines += file.page(number, 1, offset=offset)
        budget -= len(lines[-1])
    return lines, [number + 1 for number, _ in page[: len(lines)]]
