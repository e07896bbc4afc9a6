"""The append files: each process writes its own, with one write for each record; anybody may read them.

A process holds a lock on its file for as long as any of its threads may write to it, so a file that nobody holds has
all the lines it will ever have. A record that is cut off by a kill has no newline and was never acknowledged. Nothing
here raises for a disk that is full or cannot be written: the record is dropped, counted and said.
"""

from __future__ import annotations

import errno
import io
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
from typing import NamedTuple
from weakref import ref

from onetool_ipy.core.model import Problem
from onetool_ipy.stores.calls.line import FORMAT
from onetool_ipy.stores.files import StoreError, make_folder

if sys.platform != "win32":
    import fcntl

__all__ = ["FOLD_BYTES", "Appender", "End", "Reader", "newer_files", "open_readers"]

FOLD_BYTES = 256 << 10
"""How much one process appends before a fold is due: some thousand calls."""

_NAME = re.compile(r"calls-(\d{1,9})-\d+-[0-9a-f]{12}\.jsonl")
_MANY_FILES = 64
_TRY_AGAIN_S = 1.0
_BLOCK = 1 << 20
_MARKED = 256
_ABANDONED_S = 24 * 3600.0
_IN_USE = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)
_NOT_OURS = (errno.ENOENT, errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EISDIR)
"""What opening says of a file that was deleted in this moment, is not a plain file, or is another user's."""


class Appender:
    """Where this process writes. Threads share it without a lock, since a write to an append file is one step.

    `left` falls below zero when a fold is due: this file has become long, or there are many files.
    """

    __slots__ = ("__weakref__", "_fold_bytes", "_folder", "_next_try", "_open", "dropped", "fault", "left")

    def __init__(self, folder: Path, *, fold_bytes: int = FOLD_BYTES) -> None:
        self.dropped = 0
        self.fault: StoreError | None = None
        self.left = fold_bytes
        self._fold_bytes = fold_bytes
        self._folder = folder
        self._open: _Open | None = None
        self._next_try = 0.0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_begin_anew, ref(self)))

    def append(self, line: bytes) -> None:
        """Write a line with its newline."""
        line = b"\n" + line  # so that it is whole even behind one that a full disk cut off
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
        """Let go of the file; it is closed when no thread writes to it any more. The next record opens another."""
        self._open = None
        self.left = self._fold_bytes

    def begin_anew(self) -> None:
        """Forget what belongs to the process this one was forked from."""
        self.release()
        self.dropped, self.fault, self._next_try = 0, None, 0.0

    def is_gone(self) -> bool:
        """Whether somebody deleted the file this process is writing to."""
        opened = self._open
        return opened is not None and os.fstat(opened.fileno()).st_nlink == 0

    def problems(self) -> Iterator[Problem]:
        """What was not recorded, and why."""
        if self.dropped and self.fault is not None:
            said = f"{self.dropped} calls of this process were not recorded: {self.fault.reason}."
            yield Problem(str(self.fault.path), said, self.fault.hint or "See that this place can be written to.")

    def _reopen(self) -> _Open:
        if time.monotonic() < self._next_try:
            raise OSError(errno.EAGAIN, "not tried again yet")
        try:
            opened = self._make()
        except OSError:
            self._next_try = time.monotonic() + _TRY_AGAIN_S
            raise
        self.left = self._fold_bytes if len(_names(self._folder)) < _MANY_FILES else 0
        self._open = opened
        return opened

    def _make(self) -> _Open:
        """A new file that is held from its first moment on."""
        try:
            make_folder(self._folder)
        except StoreError as exc:
            self.fault = exc
            raise OSError(errno.EAGAIN, exc.reason) from exc
        while True:
            name = f"calls-{FORMAT}-{os.getpid()}-{os.urandom(6).hex()}.jsonl"
            opened = _Open(self._folder / name, "ab", opener=_open_new)
            _hold(opened.fileno())
            if os.fstat(opened.fileno()).st_nlink:
                return opened

    def _drop(self, exc: OSError) -> None:
        self.dropped += 1
        if exc.errno != errno.EAGAIN:
            self.fault = StoreError.of(self._folder, exc)


def _begin_anew(appender: ref[Appender]) -> None:
    found = appender()
    if found is not None:
        found.begin_anew()


class _Open(io.FileIO):
    """A file that is closed when the last thread has let go of it.

    By the destructor of FileIO, since an interrupt inside one written in Python would be lost; the slot hides the mark
    by which it knows that it was not closed by hand, and would warn.
    """

    __slots__ = ("_finalizing",)


class End(NamedTuple):
    """How far an append file was read, with the checksum of what stands before that; None where it is not known."""

    offset: int = 0
    mark: int | None = 0


class Reader:
    """An append file open for reading; what is read stays readable when somebody deletes the file meanwhile."""

    __slots__ = ("_file", "name", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self._file = _Open(path, "rb", opener=_open_to_read)
        if not stat.S_ISREG(self._stat().st_mode):
            raise OSError(errno.EINVAL, "not a plain file")

    def size(self) -> int:
        return self._stat().st_size

    def blocks(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """The whole lines from an offset on, some thousand at a time, each with the offset behind them.

        A megabyte without a newline is no line of ours; it comes as a block that cannot be read.
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
        """A checksum of the last bytes before an offset; None where the file does not have so many."""
        if not 0 <= offset <= self.size():
            return None
        start = max(0, offset - _MARKED)
        self._file.seek(start)
        return zlib.crc32(self._file.read(offset - start) or b"")

    def still_has(self, end: End) -> bool:
        """Whether the file is as it was when it was read up to here, as far as can be told."""
        mark = self.mark(end.offset)
        return mark is not None and end.mark in (mark, None)

    def sync(self) -> None:
        """Bring the file to the disk."""
        with suppress(OSError):  # a disk that cannot: the database has what was read all the same
            os.fsync(self._file.fileno())

    def delete_if_done(self, offset: int) -> bool:
        """Delete the file if its owner is gone and nothing but the rest of a cut record stands behind the offset."""
        if not _take(self._file.fileno(), self.name):
            return False
        try:
            is_young = time.time() - self._stat().st_mtime < _ABANDONED_S
            if (is_young and self.size() == 0) or any(True for _ in self.blocks(offset)):
                return False  # an empty one may be between being made and being held
            os.unlink(self.path)
        except OSError:
            return False
        finally:
            _hand_back(self._file.fileno())
        return True

    def _stat(self) -> os.stat_result:
        return os.fstat(self._file.fileno())


def _open_new(name: str, _flags: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)


def _open_to_read(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def open_readers(folder: Path) -> list[Reader]:
    """The append files there are, in the order of their names; what is not one of ours is left alone.

    Raises OSError where one of them cannot be opened.
    """
    found: list[Reader] = []
    for name in _names(folder):
        match = _NAME.fullmatch(name)
        if match is None or int(match[1]) > FORMAT:
            continue
        try:
            found.append(Reader(folder / name))
        except OSError as exc:
            if exc.errno not in _NOT_OURS:
                raise  # such as too many open files: a part must not pass for the whole
    return found


def newer_files(folder: Path) -> list[str]:
    """The append files of a later version of this package."""
    matches = (_NAME.fullmatch(name) for name in _names(folder))
    return [match[0] for match in matches if match is not None and int(match[1]) > FORMAT]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


if sys.platform == "win32":

    def _hold(_fd: int) -> None:
        return

    def _take(_fd: int, _name: str) -> bool:
        return True  # deleting an open file is refused there

    def _hand_back(_fd: int) -> None:
        return

else:

    def _hold(fd: int) -> None:
        with suppress(OSError):  # a disk without locks: `_take` goes by age and process then
            fcntl.flock(fd, fcntl.LOCK_EX)  # somebody else has it for the moment of a look, if at all

    def _take(fd: int, name: str) -> bool:
        """Hold an append file of which nobody is the owner any more."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            is_old = time.time() - os.fstat(fd).st_mtime > _ABANDONED_S
            return exc.errno not in _IN_USE and is_old and not _is_running(int(name.split("-")[2]))
        return True

    def _hand_back(fd: int) -> None:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _is_running(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True
