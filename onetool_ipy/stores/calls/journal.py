"""The journals: append files of the call log, one per process, with one line and one write for each call.

A line is a JSON array of the twelve `FIELDS`, or of two, `call_id` and `handle`, if a result was stored after its call
was recorded. A newline stands before and after it, so a line that was cut off spoils no other. A process locks its
journal for as long as one of its threads may write to it: a journal without a lock is complete. Writing never raises:
a call that cannot be written is dropped, counted and reported. Reading never raises for a line: one that is not valid
is counted and left out.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import ref

from onetool_ipy.base.files import OpenFile, StoreError, is_running, make_folder, names_in
from onetool_ipy.core.tool import Problem

if sys.platform != "win32":
    import fcntl

__all__ = [
    "FIELDS",
    "FOLD_BYTES",
    "Journal",
    "JournalEnd",
    "JournalLines",
    "JournalReader",
    "are_calls",
    "newer_journals",
    "open_journals",
    "parse",
]

FIELDS = ("ts", "call_id", "tool", "source", "args", "args_whole", "ok", "code", "reason", "ms", "size", "handle")
"""`ts` is the end of the call in microseconds since 1970. `args_whole` and `ok` are booleans; a missing text is ""."""

FOLD_BYTES = 256 << 10
"""How much a process appends before a fold is due: some thousand calls."""

_FORMAT = 1
"""Part of a journal's name. A journal with a higher number is not read."""

_NAME = re.compile(r"calls-(\d{1,9})-\d+-[0-9a-f]{12}\.jsonl")
_MANY_FILES = 64
_RETRY_S = 1.0
_BLOCK = 64 << 10
"""How much is read and parsed at a time. A valid line is much shorter."""

_MARKED = 256
_ABANDONED_S = 24 * 3600.0
_IN_USE = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
_NOT_OURS = (errno.ENOENT, errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EISDIR)
"""Errors of opening a file that was just deleted, is not a plain file, or belongs to another user."""

_MAX_TS, _MAX_MS, _MAX_SIZE = 1 << 60, 1e12, 1 << 50
_TEXT, _FLAG = frozenset((str,)), frozenset((bool,))
_TYPES: tuple[frozenset[type], ...] = (
    *(frozenset((int,)), _TEXT, _TEXT, _TEXT, _TEXT, _FLAG, _FLAG, _TEXT, _TEXT),
    *(frozenset((int, float)), frozenset((int,)), _TEXT),
)


class Journal:
    """The journal that this process writes. Threads share it without a lock: a write to an append file is one step.

    `left` falls below zero when a fold is due: the file has become long, or there are many files.
    """

    __slots__ = ("__weakref__", "_fold_bytes", "_folder", "_next_try", "_open", "dropped", "fault", "left")

    def __init__(self, folder: Path, *, fold_bytes: int = FOLD_BYTES) -> None:
        self.dropped = 0
        self.fault: StoreError | None = None
        self.left = fold_bytes
        self._fold_bytes = fold_bytes
        self._folder = folder
        self._open: OpenFile | None = None
        self._next_try = 0.0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_restart, ref(self)))

    def append(self, line: bytes) -> None:
        """Write a line, which ends with its newline."""
        line = b"\n" + line  # so it is whole even after a line that a full disk cut off
        opened = self._open
        try:
            if opened is None:
                opened = self._reopen()
            done = opened.write(line)
        except OSError as exc:
            self._drop(exc)
            return
        if done != len(line):
            self._drop(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            return
        self.left -= done

    def release(self) -> None:
        """Leave the file; it is closed when no thread writes to it any more. The next line opens another."""
        self._open = None
        self.left = self._fold_bytes

    def is_idle(self) -> bool:
        """Whether nothing was written since the last `release`."""
        return self._open is None

    def restart(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self.release()
        self.dropped, self.fault, self._next_try = 0, None, 0.0

    def is_deleted(self) -> bool:
        """Whether somebody deleted the file that this process is writing to."""
        opened = self._open
        return opened is not None and os.fstat(opened.fileno()).st_nlink == 0

    def problems(self) -> Iterator[Problem]:
        """Report the calls that were not recorded, and why."""
        if self.dropped and self.fault is not None:
            said = f"{self.dropped} calls of this process were not recorded: {self.fault.reason}."
            yield Problem(str(self.fault.path), said, self.fault.hint or "Make this place writable.")

    def _reopen(self) -> OpenFile:
        if time.monotonic() < self._next_try:
            raise OSError(errno.EAGAIN, "not tried again yet")
        try:
            opened = self._create()
        except OSError:
            self._next_try = time.monotonic() + _RETRY_S
            raise
        self.left = self._fold_bytes if len(names_in(self._folder)) < _MANY_FILES else 0
        self._open = opened
        return opened

    def _create(self) -> OpenFile:
        """Create a file and lock it; another process may have taken it for an abandoned one in between."""
        try:
            make_folder(self._folder)
        except StoreError as exc:
            self.fault = exc
            raise OSError(errno.EAGAIN, exc.reason) from exc
        while True:
            name = f"calls-{_FORMAT}-{os.getpid()}-{os.urandom(6).hex()}.jsonl"
            opened = OpenFile(self._folder / name, "ab", opener=_open_new)
            _lock(opened.fileno())
            if os.fstat(opened.fileno()).st_nlink:
                return opened

    def _drop(self, exc: OSError) -> None:
        self.dropped += 1
        if exc.errno != errno.EAGAIN:
            self.fault = StoreError.of(self._folder, exc)


def _restart(journal: ref[Journal]) -> None:
    found = journal()
    if found is not None:
        found.restart()


class JournalEnd(NamedTuple):
    """How far a journal was read, and the checksum of the bytes before that place; None if it is not known."""

    offset: int = 0
    mark: int | None = 0


class JournalReader:
    """A journal open for reading. It stays readable when another process deletes the file."""

    __slots__ = ("_file", "name", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._file = OpenFile(path, "rb", opener=_open_existing)
        if not stat.S_ISREG(self._stat().st_mode):
            raise OSError(errno.EINVAL, "not a plain file")

    def size(self) -> int:
        return self._stat().st_size

    def blocks(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Give the whole lines from an offset on, some hundred at a time, each block with the offset after it.

        A block without a newline is not a line of ours; it comes as one that cannot be parsed.
        """
        while True:
            self._file.seek(offset)
            data = self._file.read(_BLOCK) or b""
            end = data.rfind(b"\n") + 1
            if not end and len(data) == _BLOCK:
                data, end = data[:-1] + b"\n", _BLOCK
            if not end:
                return
            offset += end
            yield data[:end], offset

    def mark(self, offset: int) -> int | None:
        """Give a checksum of the last bytes before an offset; None if the file is shorter."""
        if not 0 <= offset <= self.size():
            return None
        start = max(0, offset - _MARKED)
        self._file.seek(start)
        return zlib.crc32(self._file.read(offset - start) or b"")

    def still_has(self, end: JournalEnd) -> bool:
        """Whether the file is, as far as can be told, the one that was read up to this end."""
        mark = self.mark(end.offset)
        return mark is not None and end.mark in (mark, None)

    def sync(self) -> None:
        """Flush the file to the disk."""
        with suppress(OSError):  # on a disk that cannot, the database still has what was read
            os.fsync(self._file.fileno())

    def delete_if_done(self, offset: int) -> bool:
        """Delete the file if its process is gone and only the rest of a cut line stands after the offset."""
        if not _take_over(self._file.fileno(), self.name):
            return False
        try:
            is_young = time.time() - self._stat().st_mtime < _ABANDONED_S
            if (is_young and self.size() == 0) or any(True for _ in self.blocks(offset)):
                return False  # an empty one may be created but not locked yet
            os.unlink(self.path)
        except OSError:
            return False
        finally:
            _unlock(self._file.fileno())
        return True

    def _stat(self) -> os.stat_result:
        return os.fstat(self._file.fileno())


def open_journals(folder: Path) -> list[JournalReader]:
    """Open the journals of a folder, in the order of their names; other files are left alone.

    Raises OSError if one of them cannot be opened.
    """
    found: list[JournalReader] = []
    for name in names_in(folder):
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) > _FORMAT:
            continue
        try:
            found.append(JournalReader(folder / name))
        except OSError as exc:
            if exc.errno not in _NOT_OURS:
                raise  # such as too many open files: a part must not pass for the whole
    return found


def newer_journals(folder: Path) -> list[str]:
    """Give the names of the journals that a later version of this package wrote."""
    matches = (_NAME.fullmatch(name) for name in names_in(folder))
    return [match[0] for match in matches if match is not None and int(match[1]) > _FORMAT]


class JournalLines(NamedTuple):
    """What some lines hold: calls, each with its `FIELDS`; handles by call id; and the number of invalid lines."""

    calls: list[Any]
    handles: dict[str, str]
    damaged: int


def parse(data: bytes) -> JournalLines:
    """Read whole lines, each with its newline."""
    from orjson import JSONDecodeError, loads

    try:
        calls = loads(b"[%b]" % data.strip(b"\n").replace(b"\n\n", b","))
    except JSONDecodeError:
        calls = None
    return JournalLines(calls, {}, 0) if calls and are_calls(calls) else _parse_one_by_one(data)


def _parse_one_by_one(data: bytes) -> JournalLines:
    from orjson import JSONDecodeError, loads

    calls: list[Any] = []
    handles: dict[str, str] = {}
    damaged = 0
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            row = loads(line)
        except JSONDecodeError:
            damaged += 1
            continue
        if type(row) is list and len(row) == 2 and type(row[0]) is type(row[1]) is str:
            handles[row[0]] = row[1]
        elif are_calls([row]):
            calls.append(row)
        else:
            damaged += 1
    return JournalLines(calls, handles, damaged)


def are_calls(rows: list[Any]) -> bool:
    """Whether every row has all fields, each of its type and within its bounds."""
    if not {list, tuple}.issuperset(map(type, rows)) or set(map(len, rows)) != {len(FIELDS)}:
        return False
    columns = list(zip(*rows, strict=True))
    if any(not types.issuperset(map(type, column)) for types, column in zip(_TYPES, columns, strict=True)):
        return False
    bounds = ((columns[0], -_MAX_TS, _MAX_TS), (columns[9], 0, _MAX_MS), (columns[10], 0, _MAX_SIZE))
    return all(low <= min(column) and max(column) <= high for column, low, high in bounds)


def _open_new(name: str, _flags: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)


def _open_existing(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


if sys.platform == "win32":

    def _lock(_fd: int) -> None:
        return

    def _take_over(_fd: int, _name: str) -> bool:
        return True  # Windows refuses to delete an open file

    def _unlock(_fd: int) -> None:
        return

else:

    def _lock(fd: int) -> None:
        with suppress(OSError):  # on a disk without locks `_take_over` judges by age and process
            fcntl.flock(fd, fcntl.LOCK_EX)  # another process holds it for a moment, if at all

    def _take_over(fd: int, name: str) -> bool:
        """Lock a journal whose process is gone."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            is_old = time.time() - os.fstat(fd).st_mtime > _ABANDONED_S
            return exc.errno not in _IN_USE and is_old and not is_running(int(name.split("-")[2]))
        return True

    def _unlock(fd: int) -> None:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
