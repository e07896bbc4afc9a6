"""One stored result as a file of lines that can be read from anywhere.

    data | index | meta | tail

`data` is UTF-8 text; lines end at `\\n` only. `index` holds the number of newlines before every block of 8 KiB: any
line is found with two small reads, for 0.1 % of the size. `meta` is JSON. `tail` holds the sizes, a checksum of index
and meta, and a mark that ends in the format. A file is written in one go and never changes, so a file without a valid
tail is damaged. In answers, a line longer than 16 KiB is cut and its length shown; one answer holds at most 32 MiB.
"""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base.files import Draft, StoreError
from onetool_ipy.base.records import Value

__all__ = ["Chunk", "DamagedResult", "LineFile", "LineWriter", "NewerResult", "Outline", "show"]

MAX_LINE_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 32 * 1024 * 1024

_BLOCK = 8 * 1024
_PAGE = 20 * 1024
_MAX_PAGE = 1024 * 1024
_TAIL = struct.Struct("<QQII8s")
_MARKS = b"OTLINES"
_MARK = _MARKS + b"1"
_NEWLINE = b"\n"


class DamagedResult(StoreError):
    """A stored result that is damaged; other results are not affected."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, f"the stored result is damaged ({what})", doing="read", hint="Call the tool again.")


class NewerResult(StoreError):
    """A stored result in the format of a later version; it is left to that version."""

    def __init__(self, path: Path) -> None:
        why = "a later version stored this result in a format that this one does not know"
        super().__init__(path, why, doing="read", hint="Update onetool-ipy, or call the tool again.")


class LineWriter:
    """Writes text into a draft and counts its lines on the way."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._index = array("Q", [0])
        self._newlines = 0
        self._size = 0
        self._last = b""

    def add(self, data: bytes) -> None:
        """Add text; it may be cut anywhere but inside a character."""
        if not data:
            return
        at, room, count = 0, _BLOCK - self._size % _BLOCK, data.count
        while len(data) - at >= room:
            self._newlines += count(_NEWLINE, at, at + room)
            self._index.append(self._newlines)
            at, room = at + room, _BLOCK
        self._newlines += count(_NEWLINE, at)
        self._size += len(data)
        self._last = data[-1:]
        self._draft.write(data)

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Write index, meta and tail; the draft may then be published."""
        lines = self._newlines + (self._size > 0 and self._last != _NEWLINE)
        if sys.byteorder == "big":
            self._index.byteswap()
        index = self._index.tobytes()
        words = json.dumps({**meta, "lines": lines, "bytes": self._size}).encode()
        check = zlib.adler32(words, zlib.adler32(index))
        self._draft.write(index + words + _TAIL.pack(self._size, len(index), len(words), check, _MARK))


class Outline(Value):
    """The index and meta of a file; `identity` tells whether a path still holds that file."""

    size: int
    lines: int
    index: array[int]
    meta: dict[str, Any]
    identity: tuple[int, int, int]


class Chunk(NamedTuple):
    """A part of the data: whole lines, or a piece of one very long line."""

    data: bytes
    offset: int
    starts_line: bool = True
    ends_line: bool = True

    @property
    def is_whole(self) -> bool:
        return self.starts_line and self.ends_line


class LineFile(io.FileIO):
    """A stored result, open for reading. `known` saves reading the outline again if it is still the same file.

    A subclass of FileIO, since leaving a `with` then closes it in C, which no interrupt can divide.
    """

    def __init__(self, path: Path, known: Outline | None = None) -> None:
        self.path = path
        try:
            _require_plain(path)
            super().__init__(path, "r")
        except (OSError, ValueError) as exc:
            raise StoreError.of(path, exc, doing="read") from exc
        try:
            self.outline = self._outline(known)
        except BaseException:
            self.close()
            raise
        self.size, self.lines = self.outline.size, self.outline.lines

    def page(self, first: int, count: int) -> list[str]:
        """Return up to `count` lines from number `first` on, counted from 0; fewer if they are very long."""
        out: list[str] = []
        if first >= self.lines:
            return out
        count = min(count, self.lines - first)
        position = self.start_of(first)
        page, budget = _PAGE, MAX_ANSWER_BYTES
        while len(out) < count and position < self.size and budget > 0:
            data = self._read(position, min(page, self.size - position))
            is_last = position + len(data) == self.size
            whole = len(data) if is_last else data.rfind(_NEWLINE) + 1
            if whole:
                out += _show_lines(data[:whole], count - len(out))
                position, budget, page = position + whole, budget - whole, min(2 * page, _MAX_PAGE)
            else:  # a line longer than a page, which is cut in any case
                start, position = position, self.start_of(first + len(out) + 1)
                out.append(show(data, position - start - self._ends_with_newline(position)))
                budget -= MAX_LINE_BYTES
        return out

    def text(self) -> str:
        """Return all of the data; no line is cut."""
        return self._read(0, self.size).decode("utf-8", "replace")

    def start_of(self, line: int) -> int:
        """Return the offset of the line with this number, counted from 0; the end of the data after the last line."""
        if line >= self.lines:
            return self.size
        if line == 0:
            return 0
        block = bisect_left(self.outline.index, line) - 1
        start = block * _BLOCK
        data = self._read(start, min(_BLOCK, self.size - start))
        parts = data.split(_NEWLINE, line - self.outline.index[block])
        return start + len(data) - len(parts[-1])

    def number_at(self, position: int) -> int:
        """Return the number, counted from 0, of the line at this offset."""
        block, inside = divmod(position, _BLOCK)
        before = self.outline.index[block]
        return before + self._read(block * _BLOCK, inside).count(_NEWLINE) if inside else before

    def chunks(self, size: int) -> Iterator[Chunk]:
        """Yield the data in order, about `size` bytes at a time.

        A longer line comes in pieces of twice that size, which overlap by a quarter of it.
        """
        position = 0
        while position < self.size:
            data = self._read(position, min(size, self.size - position))
            if position + len(data) < self.size:
                data = data[: data.rfind(_NEWLINE) + 1]
            if data:
                yield Chunk(data, position)
                position += len(data)
                continue
            end = self.start_of(self.number_at(position) + 1)
            yield from self._long_line(position, end, size)
            position = end

    def _long_line(self, start: int, end: int, size: int) -> Iterator[Chunk]:
        stop = end - self._ends_with_newline(end)
        position = start
        while position < stop:
            data = self._read(position, min(2 * size, stop - position))
            yield Chunk(data, position, starts_line=position == start, ends_line=position + len(data) == stop)
            if position + len(data) == stop:
                return
            position += len(data) - size // 4

    def _ends_with_newline(self, position: int) -> bool:
        return self._read(position - 1, 1) == _NEWLINE

    def _read(self, position: int, size: int) -> bytes:
        try:
            self.seek(position)
            data = self.read(size)
        except OSError as exc:
            raise StoreError.of(self.path, exc, doing="read") from exc
        if len(data) != size:
            raise DamagedResult(self.path, "it is too short")
        return data

    def _outline(self, known: Outline | None) -> Outline:
        found = os.fstat(self.fileno())
        identity = (found.st_ino, found.st_size, found.st_mtime_ns)
        if known is not None and known.identity == identity:
            return known
        if found.st_size < _TAIL.size:
            raise DamagedResult(self.path, "it is too short")
        size, index_size, meta_size, check, mark = _TAIL.unpack(self._read(found.st_size - _TAIL.size, _TAIL.size))
        if mark != _MARK and mark.startswith(_MARKS):
            raise NewerResult(self.path)
        if mark != _MARK or size + index_size + meta_size + _TAIL.size != found.st_size:
            raise DamagedResult(self.path, "its end is missing")
        body = self._read(size, index_size + meta_size)
        if zlib.adler32(body) != check:
            raise DamagedResult(self.path, "its index does not fit its checksum")
        index = array("Q")
        index.frombytes(body[:index_size])
        if sys.byteorder == "big":
            index.byteswap()
        meta = json.loads(body[index_size:])
        return Outline(size, meta["lines"], index, meta, identity)


def show(line: bytes, length: int | None = None) -> str:
    """Return a line as text, cut at 16 KiB, with a note of its length in bytes."""
    length = len(line) if length is None else length
    if length <= MAX_LINE_BYTES:
        return line.decode("utf-8", "replace")
    return f"{line[:MAX_LINE_BYTES].decode('utf-8', 'ignore')} ... [cut: line of {length:,} bytes]"


def _show_lines(data: bytes, count: int) -> list[str]:
    """Return the first `count` lines of data that holds whole lines."""
    lines = data.decode("utf-8", "replace").split("\n", count)
    if len(lines) > count or not lines[-1]:
        lines.pop()  # the remaining lines, or the empty text after the last newline
    if len(data) > MAX_LINE_BYTES and max(map(len, lines)) * 4 > MAX_LINE_BYTES:
        return [show(line) for line in data.split(_NEWLINE, count)[: len(lines)]]
    return lines


def _require_plain(path: Path) -> None:
    """Refuse links, which are not followed, and pipes, which would block."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError("it is not a plain file")
