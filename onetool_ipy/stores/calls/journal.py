"""The journals of the call log: files of JSON Lines, the only truth about past calls.

A journal lives through three states, told apart by the end of its name:

- `<time>-<random>.jsonl` is open. One process at a time owns it by a file lock and appends each call with one write. A
  new process goes on with a short journal that nobody owns, so that many short processes share one file.
- `.jsonl.gz` is closed: a full journal, compressed. It keeps its calls until there are too many newer ones.
- `.sums.jsonl` is expired: what its calls added up to, by hour and tool. Sums are kept for ever.

Each line stands for itself, so a damaged line costs that line only. Writing never raises: a call that cannot be written
is dropped, counted and reported.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.files import StoreError, make_folder, write_whole
from onetool_ipy.core.tool import Problem

if sys.platform != "win32":
    import fcntl

FIELDS = (
    *("ts", "id", "tool", "source", "args", "whole", "ok", "code", "reason", "message", "ms", "size", "handle"),
    *("parent", "user", "host", "notebook", "cell", "session", "fingerprint", "inputs"),
)
"""The keys of a line. `ts` is the end of the call in microseconds since 1970; a text that is missing is empty."""

ROTATE_BYTES = 1 << 20
"""How long a journal grows before it is closed: some thousand calls."""

_NAME = re.compile(r"(\d{8}T\d{12}-[0-9a-f]{8})(\.jsonl|\.jsonl\.gz|\.sums\.jsonl)")
_BLOCK_BYTES = 64 << 10
"""How much is parsed at a time. Parsing holds the interpreter, and callers must not wait for it."""

_RETRY_S = 1.0
_MAX_TS, _MAX_MS, _MAX_SIZE = 1 << 60, 1e12, 1 << 50
_NUMBERS: dict[str, set[type]] = {"ts": {int}, "whole": {bool}, "ok": {bool}, "ms": {int, float}, "size": {int}}
_TYPES = [_NUMBERS.get(name, {str}) for name in FIELDS]
_MISSING = [""] * len(FIELDS)
_TS, _MS, _SIZE = map(FIELDS.index, ("ts", "ms", "size"))

State = Literal["open", "closed", "expired"]
_STATES: dict[str, State] = {".jsonl": "open", ".jsonl.gz": "closed", ".sums.jsonl": "expired"}
_ENDINGS = {state: ending for ending, state in _STATES.items()}


JournalCall = list[Any]
"""A call as its journal has it: the values of `FIELDS`."""


class JournalLines(NamedTuple):
    """What some lines hold: calls, later handles by call id, and how many lines are damaged."""

    calls: list[JournalCall]
    handles: list[tuple[str, str]]
    damaged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """One journal of a folder as it is now. `name` stays the same through all states; `size` is that of an open one."""

    folder: Path
    name: str
    state: State
    size: int

    @property
    def path(self) -> Path:
        return self.path_as(self.state)

    def lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Give the whole lines from an offset on, some hundred at a time, each block with the offset after it.

        Offsets count what was written, also in a closed journal. A last line without its end is left out.
        """
        with self.path.open("rb") as file:
            if self.state == "closed":
                # What is behind a damaged place cannot be read. It counts as one damaged line.
                packed, stream, unpacked = file.read(), zlib.decompressobj(31), bytearray()
                with suppress(zlib.error):
                    for start in range(0, len(packed), 4096):
                        unpacked += stream.decompress(packed[start : start + 4096])
                data = (bytes(unpacked) if stream.eof else bytes(unpacked) + b"\n(damaged)\n")[offset:]
            else:
                file.seek(offset)
                data = file.read()
        start, end = 0, data.rfind(b"\n") + 1
        while start < end:
            stop = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.index(b"\n", start) + 1
            yield data[start:stop], offset + stop
            start = stop

    def close(self) -> None:
        """Compress the journal, unless a process still owns it. Raises OSError, StoreError."""
        from gzip import compress

        with self.path.open("rb") as file:
            if not claim(file.fileno()):
                return
            write_whole(self.path_as("closed"), compress(file.read(), compresslevel=1, mtime=0))
            # A kill between these two steps leaves both files; `journals_in` then takes the closed one.
            self.path.unlink()

    def path_as(self, state: State) -> Path:
        """Return the path of this journal in another state."""
        return self.folder / (self.name + _ENDINGS[state])


class Journal:
    """The open journal of this process. Threads share it."""

    def __init__(self, folder: Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        self.dropped = 0
        self.fault: StoreError | None = None
        self._folder = folder
        self._rotate_bytes = rotate_bytes
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._size = 0
        self._next_try = 0.0

    def append(self, line: bytes) -> bool:
        """Write a line, which ends with its newline. True if the journal is full now, and the next line opens another.

        The system has the line when this returns, so it survives a kill of the process.
        """
        with self._lock:
            try:
                written = os.write(self._fd or self._open(), line)
            except OSError as exc:
                self._drop(exc)
                return False
            self._size += written
            if written != len(line):
                # A full disk took a part of the line. Nobody else writes here, so it can be taken back.
                self._size -= written
                os.ftruncate(self._fd or 0, self._size)
                self._drop(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
                return False
            is_full = self._size >= self._rotate_bytes
            if is_full:
                self._close()
            return is_full

    @property
    def position(self) -> tuple[int | None, int]:
        """Where the next line goes: it changes with every line."""
        return self._fd, self._size

    def release(self) -> None:
        """Let another process go on with the file. The next line opens one again."""
        with self._lock:
            self._close()

    def release_deleted(self) -> None:
        """Leave a file that somebody deleted."""
        with self._lock:
            if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
                self._close()

    def restart(self) -> None:
        """Forget what belongs to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._close()
        self.dropped, self.fault, self._next_try = 0, None, 0.0

    def problems(self) -> list[Problem]:
        """Report the calls that were not recorded, and why."""
        if not self.dropped or self.fault is None:
            return []
        message = f"{self.dropped} calls of this process were not recorded: {self.fault.reason}."
        return [Problem(str(self.fault.path), message, self.fault.hint or "Make this place writable.")]

    def _drop(self, exc: OSError) -> None:
        self.dropped += 1
        if exc.errno != errno.EAGAIN:
            self.fault = StoreError.of(self._folder, exc)

    def _open(self) -> int:
        """Go on with a journal that nobody owns, or create one. Raises OSError; EAGAIN if it failed just now."""
        if time.monotonic() < self._next_try:
            raise OSError(errno.EAGAIN, "not tried again yet")
        try:
            make_folder(self._folder)
            fd = self._adopt()
            if fd is None:
                name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{os.urandom(4).hex()}.jsonl"
                path = self._folder / (name if sys.platform == "win32" else f".{name}")
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
                fd = os.open(path, flags, 0o600)
                claim(fd)
                # It gets its name when it is locked, so that no other process adopts it before.
                if sys.platform != "win32":
                    os.rename(path, self._folder / name)
        except StoreError as exc:
            self._next_try = time.monotonic() + _RETRY_S
            self.fault = exc
            raise OSError(errno.EAGAIN, exc.reason) from exc
        except OSError:
            self._next_try = time.monotonic() + _RETRY_S
            raise
        self._fd, self._size = fd, os.fstat(fd).st_size
        return fd

    def _adopt(self) -> int | None:
        """Claim a short journal that nobody owns. Windows has no lock that tells."""
        if sys.platform == "win32":
            return None
        for file in journals_in(self._folder).values():
            if file.state != "open" or file.size >= self._rotate_bytes:
                continue
            with suppress(OSError):  # it is being compressed, or belongs to another user
                fd = os.open(file.path, os.O_RDWR | os.O_APPEND)
                is_owned = claim(fd)
                size = os.fstat(fd).st_size  # not before: its last owner may have added to it
                if is_owned and os.fstat(fd).st_nlink and size < self._rotate_bytes:
                    # A kill may have left the beginning of a line. Its call was never acknowledged.
                    tail = os.pread(fd, _BLOCK_BYTES, max(0, size - _BLOCK_BYTES))
                    os.ftruncate(fd, size - len(tail) + tail.rfind(b"\n") + 1)
                    return fd
                os.close(fd)
        return None

    def _close(self) -> None:
        # The number is forgotten first: once it is free, another thread's file may get it, and a fork at that moment
        # would leave a child that closes that file.
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def journals_in(folder: Path) -> dict[str, JournalFile]:
    """Give the journals of a folder by name, the oldest first; other files are left alone. Raises OSError."""
    files: dict[str, JournalFile] = {}
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return {}
    for entry in entries:
        match = _NAME.fullmatch(entry.name)
        if match is None or not entry.is_file(follow_symlinks=False):
            continue
        state, size = _STATES[match[2]], 0
        if state == "open":
            try:
                size = entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # it has just been compressed
                continue
        file = JournalFile(folder=folder, name=match[1], state=state, size=size)
        # Of two files a kill left both: a closed journal is complete, sums may be written again.
        if file.name not in files or file.state == "closed":
            files[file.name] = file
    return files


def claim(fd: int) -> bool:
    """Lock an open journal for this process until it is closed; False if another process owns it."""
    if sys.platform == "win32":
        return True  # which refuses to delete a file that is open elsewhere
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # also on a disk without locks: then nobody takes over anything
        return False
    return True


def parse(data: bytes) -> JournalLines:
    """Read whole lines. Those that are not valid are counted."""
    from orjson import JSONDecodeError, loads

    try:
        calls = [[*map(row.get, FIELDS, _MISSING)] for row in loads(b"[%b]" % data.strip(b"\n").replace(b"\n", b","))]
        if _are_calls(calls):
            return JournalLines(calls, [], 0)
    except (JSONDecodeError, AttributeError):
        pass
    calls, handles, damaged = [], [], 0
    for line in filter(None, data.split(b"\n")):
        try:
            row = loads(line)
        except JSONDecodeError:
            row = None
        call = [*map(row.get, FIELDS, _MISSING)] if isinstance(row, dict) else []
        if isinstance(row, dict) and row.keys() == {"id", "handle"} and all(type(text) is str for text in row.values()):
            handles.append((row["id"], row["handle"]))
        elif call and _are_calls([call]):
            calls.append(call)
        else:
            damaged += 1
    return JournalLines(calls, handles, damaged)


def _are_calls(calls: list[JournalCall]) -> bool:
    """Whether every value has its type and is within its bounds. By columns, which is much quicker than by rows."""
    columns = list(zip(*calls, strict=True))
    if not columns or any(
        not types.issuperset(map(type, column)) for types, column in zip(_TYPES, columns, strict=True)
    ):
        return False
    bounds = ((columns[_TS], -_MAX_TS, _MAX_TS), (columns[_MS], 0, _MAX_MS), (columns[_SIZE], 0, _MAX_SIZE))
    return all(low <= min(column) and max(column) <= high for column, low, high in bounds) and all(columns[2])
