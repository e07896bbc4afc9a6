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
from collections.abc import Iterator
from typing import Any, NamedTuple

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.results_lines import MAX_ANSWER_BYTES, Chunk, LineFile

__all__ = ["Found", "InvalidPattern", "Pattern", "compile_re2", "search"]

_MAX_PATTERN = 4_000
_COMPLEX = 1_000
_TOO_COMPLEX = 20_000
_CHUNK = 128 * 1024
_SMALL_CHUNK = 16 * 1024
_WORTH_COUNTING = 64
_NEWLINE = b"\n"

_ENDS_OF_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*-[a-zA-Z]*m")
"""What means the ends of the text and not of the line: `\\A`, `\\z`, and switching `(?m)` off."""

_LOOKS_AROUND = re.compile(r"[$^]|\\[AbBz]")

_STAYS_IN_LINE = re.compile(
    r"""(?x) (?:\(\?i\))?  # RE2's words for anything that is surely no newline
    (?: [\w\ \t=:/,;@%&~"'<>!.)|?*+^$\#-] | \((?!\?) | \(\?: | \\[-.+*?()|\[\]{}^$\\/dwb] | \{\d+(?:,\d*)?\}
      | \[[A-Za-z0-9_.\ -]+\] )+"""
)


class InvalidPattern(OneToolError, ValueError):
    """A search pattern that RE2 does not take; `reason` says why."""

    def __init__(self, pattern: str, reason: str) -> None:
        shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
        hint = "Patterns have RE2 syntax: no look-around, no back-references; write \\( for a bracket that is meant."
        super().__init__(f"Invalid search pattern '{shown}': {reason}.", hint=hint)
        self.pattern = pattern
        self.reason = reason


class Pattern:
    """A search pattern in the forms that are needed.

    `line` matches from a hit to the end of its line; `inside` the hit itself, in a piece of a line; `run` neighbouring
    lines at once, where the pattern surely keeps to its line. With `by_line` each line has to be looked at alone.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_PATTERN:
            raise InvalidPattern(text, f"it is longer than {_MAX_PATTERN:,} characters")
        alone = compile_re2(text, text)  # first as it is, so that a bracket too many does not close one of ours
        self.by_line = _ENDS_OF_TEXT.search(text) is not None
        self.looks_around = _LOOKS_AROUND.search(text) is not None
        self.line = compile_re2(f"(?m)(?:{text}).*", text)
        self.inside = alone if self.by_line else compile_re2(f"(?m)(?:{text})", text)
        self.run = None
        if _STAYS_IN_LINE.fullmatch(text):
            self.run = compile_re2(f"(?m)(?:^.*(?:{text}).*$\n?)+", text, never_nl=False)
        self.chunk = _CHUNK if self.line.programsize < _COMPLEX else _SMALL_CHUNK


class Found(NamedTuple):
    """A page of what matched: lines, their numbers from 1, how many lines match in all of those `searched`."""

    lines: list[str]
    numbers: list[int]
    matched: int
    searched: int


class _Hit(NamedTuple):
    """Neighbouring lines that match: the first one's number from 0, how many, and where they begin (-1: not known)."""

    number: int
    lines: int
    offset: int


def compile_re2(pattern: str, shown: str, *, never_nl: bool = True) -> Any:
    """Compile for searching in chunks: with `never_nl` nothing matches a newline."""
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


def search(file: LineFile, pattern: Pattern, *, skip: int, limit: int, budget_s: float = 10.0) -> Found:
    """Find the lines that match, and take a page of them after the first `skip` ones."""
    deadline = time.monotonic() + budget_s
    pages: list[_Hit] = []
    matched, wanted, searched = 0, limit, file.lines
    is_dense, last = False, -1
    for chunk in file.chunks(pattern.chunk):
        if time.monotonic() > deadline:
            searched = file.number_at(chunk.offset)
            break
        before = matched
        for hit in _hits(file, pattern, chunk, is_dense):
            if hit.number == last:
                continue  # another piece of the same long line
            first = max(0, skip - matched)
            if wanted and first < hit.lines:
                taken = min(wanted, hit.lines - first)
                pages.append(_Hit(hit.number + first, taken, hit.offset if first == 0 else -1))
                wanted -= taken
            matched += hit.lines
            last = hit.number + hit.lines - 1
        is_dense = pattern.run is not None and _is_dense(chunk, matched - before, is_dense)
    lines, numbers = _fetch(file, pages)
    return Found(lines, numbers, matched, searched)


def _hits(file: LineFile, pattern: Pattern, chunk: Chunk, is_dense: bool) -> Iterator[_Hit]:
    if not chunk.is_whole:
        return _piece_hits(file, pattern, chunk)
    if pattern.by_line:
        return _single_hits(file, pattern, chunk)
    return _run_hits(file, pattern, chunk) if is_dense else _line_hits(file, pattern, chunk)


def _line_hits(file: LineFile, pattern: Pattern, chunk: Chunk) -> Iterator[_Hit]:
    """Every matching line by itself, found without looking at the others."""
    data, at, number, end = chunk.data, 0, -1, -1
    count = data.count
    for match in pattern.line.finditer(data):
        start, previous = match.start(), end
        end = match.end()
        if start == previous or _is_behind(data, start):
            continue  # nothing, after a line that is already taken or after the last newline
        if number < 0:
            number = file.number_at(chunk.offset)
        number += count(_NEWLINE, at, start)
        at = start
        yield _Hit(number, 1, chunk.offset + data.rfind(_NEWLINE, 0, start) + 1)


def _run_hits(file: LineFile, pattern: Pattern, chunk: Chunk) -> Iterator[_Hit]:
    assert pattern.run is not None
    data, at, number = chunk.data, 0, file.number_at(chunk.offset)
    for match in pattern.run.finditer(data):
        start, end = match.span()
        if _is_behind(data, start):
            continue
        number += data.count(_NEWLINE, at, start)
        at = start
        ended = data.count(_NEWLINE, start, end)
        yield _Hit(number, ended + (start == end or data[end - 1 : end] != _NEWLINE), chunk.offset + start)


def _single_hits(file: LineFile, pattern: Pattern, chunk: Chunk) -> Iterator[_Hit]:
    number, offset = file.number_at(chunk.offset), chunk.offset
    for line in chunk.data.removesuffix(_NEWLINE).split(_NEWLINE):
        if pattern.inside.search(line) is not None:
            yield _Hit(number, 1, offset)
        number, offset = number + 1, offset + len(line) + 1


def _piece_hits(file: LineFile, pattern: Pattern, chunk: Chunk) -> Iterator[_Hit]:
    """A piece of a long line; a match that may owe itself to the piece's own ends does not count."""
    for match in pattern.inside.finditer(chunk.data):
        at_our_cut = (match.start() == 0 and not chunk.starts_line) or (
            match.end() == len(chunk.data) and not chunk.ends_line
        )
        if not (at_our_cut and pattern.looks_around):
            yield _Hit(file.number_at(chunk.offset), 1, -1)
            return


def _is_behind(data: bytes, position: int) -> bool:
    return position == len(data) and data.endswith(_NEWLINE)


def _is_dense(chunk: Chunk, matched: int, was_dense: bool) -> bool:
    """Whether so many lines match that runs of them are faster to find."""
    if matched < _WORTH_COUNTING:
        return False
    return matched * (3 if was_dense else 2) > chunk.data.count(_NEWLINE)


def _fetch(file: LineFile, hits: list[_Hit]) -> tuple[list[str], list[int]]:
    lines: list[str] = []
    numbers: list[int] = []
    budget = MAX_ANSWER_BYTES
    for hit in hits:
        if budget <= 0:
            break
        found = file.page(hit.number, hit.lines, offset=hit.offset if hit.offset >= 0 else None)
        lines += found
        numbers += range(hit.number + 1, hit.number + 1 + len(found))
        budget -= sum(map(len, found))
    return lines, numbers
