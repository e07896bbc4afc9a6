"""The journals of the call log: files of JSON Lines, the only truth about past calls.

A line is one of three things:

- an object with `context` says where calls come from (tool, caller, cell, notebook, ...) and gives
  that a number. It is written before the first call that needs it.
- an array is a call: number of its context, end in microseconds since 1970, id, arguments,
  milliseconds, size, and, where there is more to say, an object with it. Arguments that are whole
  are JSON; cut or masked ones are a text.
- `{"id":..., "handle":...}` says that the result of a call was stored later.

Lines of earlier versions, which are an object for each call, are read too.

The end of a file's name tells what it is:

- `<time>-<random>.jsonl` is open. One process at a time owns it by a file lock and appends each
  call with one write. A new process goes on with a short journal that nobody owns, so that many
  short processes share one file.
- `.parquet` is closed: a part with the same calls, made by `closing`.
- `.days.parquet` is expired: what its calls added up to, by day and tool. Sums are kept for ever.
- `.jsonl.gz` was closed by an earlier version.

A damaged line costs that line only: a call whose context is damaged keeps everything else. Writing
never raises: a call that cannot be written is dropped, counted and reported.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base.files import StoreError, claim, make_folder
from onetool_ipy.core.tool import Problem

CONTEXT = ("tool", "source", "user", "host", "notebook", "cell", "session", "fingerprint")
"""What many calls share: the keys of a context line beside `context`. A text that is missing is
empty."""

MORE = ("code", "reason", "message", "handle", "parent", "inputs")
"""What few calls have, beside `ok`: the keys of a call's object. All are texts; one that is empty
counts as missing."""

ROTATE_CALLS = 5_000
ROTATE_BYTES = 4 << 20
"""How long a journal grows before it is closed."""

_NAME = re.compile(r"(\d{8}T\d{12}-[0-9a-f]{8})(\.jsonl|\.jsonl\.gz|\.parquet|\.days\.parquet)")
_BLOCK_BYTES = 64 << 10
"""How much is parsed at a time. Parsing holds the interpreter, and callers must not wait for it."""

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_RETRY_S = 1.0
_MOST_LOOKS = 50
_MAX_TS, _MAX_MS, _MAX_SIZE = 1 << 60, 1e12, 1 << 50
_TYPES: tuple[set[type], ...] = ({int}, {str}, {str}, {bool}, {int, float}, {int}, {dict})
"""Of the values of a call behind its context."""
_MORE_TYPES = {("ok", bool), *((name, str) for name in MORE)}
_UNKNOWN = ("(unknown)", *[""] * 7)
"""The context of a call whose context line is damaged."""
_GOOD: dict[str, Any] = {"ok": True}
_DAMAGES = (AttributeError, LookupError, TypeError, ValueError)
"""What a line raises that is not valid. That it is no JSON is a ValueError."""

State = Literal["open", "closed", "part", "expired"]
_STATES: dict[str, State] = {
    ".jsonl": "open",
    ".jsonl.gz": "closed",
    ".parquet": "part",
    ".days.parquet": "expired",
}
_ENDINGS = {state: ending for ending, state in _STATES.items()}


Context = tuple[str, ...]
"""The values of `CONTEXT`."""

JournalCall = tuple[Context, int, str, str, bool, float, int, dict[str, Any]]
"""A call: its context, end in microseconds since 1970, id, arguments, whether they are whole,
milliseconds, size, and what few calls have. Journals have millions, so it has no class."""

Contexts = dict[Any, Context]
"""The contexts of a journal by number."""

ContextKey = tuple[str, str, str, str, str]
"""What tells the contexts of a session apart: tool, source, fingerprint, cell, notebook."""


class JournalLines(NamedTuple):
    """What some lines hold: calls, later handles by call id, and how many lines are damaged."""

    calls: list[JournalCall]
    handles: list[tuple[str, str]]
    damaged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """One file of a log's folder as it is now. `name` stays the same through all states; `size` is
    that of an open one."""

    folder: Path
    name: str
    state: State
    size: int

    @property
    def path(self) -> Path:
        return self.folder / (self.name + _ENDINGS[self.state])

    def as_state(self, state: State) -> JournalFile:
        """Return this file in another state."""
        return replace(self, state=state, size=0)

    def lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Give the whole lines from an offset on, some hundred at a time, each block with the
        offset after it.

        Offsets count what was written, also in a closed journal. A last line without its end is
        left out.
        """
        with self.path.open("rb") as file:
            if self.state == "closed":
                # What is behind a damaged place cannot be read. It counts as one damaged line.
                packed, stream, unpacked = file.read(), zlib.decompressobj(31), bytearray()
                with suppress(zlib.error):
                    for start in range(0, len(packed), 4096):
                        unpacked += stream.decompress(packed[start : start + 4096])
                data = (bytes(unpacked) if stream.eof else bytes(unpacked) + b"\n(damaged)\n")[
                    offset:
                ]
            else:
                file.seek(offset)
                data = file.read()
        start, end = 0, data.rfind(b"\n") + 1
        while start < end:
            stop = (
                data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.index(b"\n", start) + 1
            )
            yield data[start:stop], offset + stop
            start = stop


def _no_context(key: ContextKey) -> Mapping[str, str]:
    """Describe a call by what its key says."""
    return dict(zip(("tool", "source", "fingerprint", "cell", "notebook"), key, strict=True))


class Journal:
    """The open journal of this process. Threads share it.

    `describe` gives the context line of a call, without its number.
    """

    def __init__(
        self,
        folder: Path,
        *,
        describe: Callable[[ContextKey], Mapping[str, str]] = _no_context,
        rotate_calls: int = ROTATE_CALLS,
        rotate_bytes: int = ROTATE_BYTES,
    ) -> None:
        self.dropped = 0
        self.fault: StoreError | None = None
        self._folder = folder
        self._describe = describe
        self._rotate_calls = rotate_calls
        self._rotate_bytes = rotate_bytes
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._size = 0
        self._lines = 0
        self._first = 0
        self._heads: dict[ContextKey, bytes] = {}
        self._next_try = 0.0

    def add(self, key: ContextKey, call: bytes) -> bool:
        """Write a call: its array without the number of its context. True if the journal is full
        now, and the next line opens another.

        The system has the line when this returns, so it survives a kill of the process.
        """
        # `with` would take twice as long.
        self._lock.acquire()
        try:
            head = self._heads.get(key)
            if head is None:
                return self._write_with_context(key, call)
            return self._write(head + call[1:] + b"\n")
        finally:
            self._lock.release()

    def append(self, line: bytes) -> bool:
        """Write another line, which ends with its newline."""
        with self._lock:
            return self._write(line)

    def _write_with_context(self, key: ContextKey, call: bytes) -> bool:
        """Write a call behind the context that it is the first to need, both at once."""
        from orjson import dumps

        try:
            if self._fd is None:
                self._open()
        except OSError as exc:
            self._drop(exc)
            return False
        # Numbers go on from the size of the file, so that a process that goes on with a journal
        # uses none of those in it: no context is as short as one byte.
        number = self._first + len(self._heads)
        context = dumps({"context": number, **self._describe(key)})
        dropped, head = self.dropped, b"[%d," % number
        is_full = self._write(context + b"\n" + head + call[1:] + b"\n")
        if dropped == self.dropped and not is_full:
            self._heads[key] = head
        return is_full

    def _write(self, line: bytes) -> bool:
        try:
            written = os.write(self._fd or self._open(), line)
        except OSError as exc:
            if exc.errno == errno.EBADF:
                self._lose()
            self._drop(exc)
            return False
        self._size += written
        if written != len(line):
            # A full disk took a part of the line. Nobody else writes here, so it can be taken
            # back.
            self._size -= written
            os.ftruncate(self._fd or 0, self._size)
            self._drop(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            return False
        self._lines += 1
        is_full = self._lines >= self._rotate_calls or self._size >= self._rotate_bytes
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
            try:
                if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
                    self._close()
            except OSError:
                self._lose()

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
        return [
            Problem(str(self.fault.path), message, self.fault.hint or "Make this place writable.")
        ]

    def _lose(self) -> None:
        """Forget a file that somebody else closed, so that the next line opens another."""
        self._fd, self._heads = None, {}

    def _drop(self, exc: OSError) -> None:
        self.dropped += 1
        if exc.errno != errno.EAGAIN:
            self.fault = StoreError.of(self._folder, exc)

    def _open(self) -> int:
        """Go on with a journal that nobody owns, or create one. Raises OSError; EAGAIN if it failed
        just now."""
        if time.monotonic() < self._next_try:
            raise OSError(errno.EAGAIN, "not tried again yet")
        try:
            make_folder(self._folder)
            fd = self._adopt()
            if fd is None:
                self._first = self._size = self._lines = 0
                name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{os.urandom(4).hex()}.jsonl"
                # It is claimed before its first line, and others leave an empty journal alone.
                fd = os.open(self._folder / name, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
                claim(fd)
        except StoreError as exc:
            self._next_try = time.monotonic() + _RETRY_S
            self.fault = exc
            raise OSError(errno.EAGAIN, exc.reason) from exc
        except OSError:
            self._next_try = time.monotonic() + _RETRY_S
            raise
        self._fd = fd
        return fd

    def _adopt(self) -> int | None:
        """Claim a short journal that nobody owns."""
        files = files_in(self._folder)
        parts = {file.name for file in files if file.state in ("part", "expired")}
        for file in files:
            is_short = 0 < file.size < self._rotate_bytes
            if file.state != "open" or not is_short or file.name in parts:
                continue
            with suppress(OSError):  # it is being compressed, or belongs to another user
                fd = os.open(file.path, _FLAGS)
                # Whoever owned it may have made a part of it a moment ago, and been killed.
                if self._go_on_with(fd) and not file.as_state("part").path.exists():
                    return fd
                os.close(fd)
        return None

    def _go_on_with(self, fd: int) -> bool:
        """Take over a journal, unless it is another process's, deleted, or full."""
        if not claim(fd) or not os.fstat(fd).st_nlink:
            return False
        # It is read only now: its last owner may have added to it.
        with open(fd, "rb", closefd=False) as file:
            data = file.read(self._rotate_bytes)
        lines, size = data.count(b"\n"), data.rfind(b"\n") + 1
        if len(data) >= self._rotate_bytes or lines >= self._rotate_calls:
            return False
        # A kill may have left the beginning of a line. Its call was never acknowledged.
        if size < len(data):
            os.ftruncate(fd, size)
        self._first = self._size = size
        self._lines = lines
        return True

    def _close(self) -> None:
        # The number is forgotten first: once it is free, another thread's file may get it, and a
        # fork at that moment would leave a child that closes that file.
        fd, self._fd, self._heads = self._fd, None, {}
        if fd is not None:
            os.close(fd)


def files_in(folder: Path) -> list[JournalFile]:
    """Give the files of a log, the oldest first; other files are left alone. Raises OSError.

    A folder is read bit by bit, and a file that is renamed meanwhile may be missed under both
    names. So it is read until it looks the same twice, and all that was in it is still there.
    """
    before, names = None, _names_in(folder)
    for _ in range(_MOST_LOOKS):
        if names == before:
            files, is_whole = _stated(folder, names)
            if is_whole:
                return files
        before, names = names, _names_in(folder)
    return _stated(folder, names)[0]


def _stated(folder: Path, names: list[str]) -> tuple[list[JournalFile], bool]:
    """Give the files of these names, and whether all of them are still there: one that has just
    been closed has another name now, which was not listed."""
    files, is_whole = [], True
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        try:
            status = os.lstat(folder / name)
        except FileNotFoundError:
            is_whole = False
            continue
        if stat.S_ISREG(status.st_mode):
            size, state = status.st_size, _STATES[match[2]]
            files.append(JournalFile(folder=folder, name=match[1], state=state, size=size))
    return files, is_whole


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def parse(data: bytes, contexts: Contexts) -> JournalLines:
    """Read whole lines. Those that are not valid are counted; contexts among them are added."""
    from orjson import loads

    try:
        rows = loads(b"[%b]" % data.strip(b"\n").replace(b"\n", b","))
        if len(rows) == data.count(b"\n"):
            after = contexts.copy()
            lines = _read(rows, after)
            contexts.update(after)
            return lines
    except _DAMAGES:
        pass
    calls, handles, damaged = [], [], 0
    for line in filter(None, data.split(b"\n")):
        try:
            lines = _read([loads(line)], contexts)
        except _DAMAGES:
            damaged += 1
        else:
            calls += lines.calls
            handles += lines.handles
    return JournalLines(calls, handles, damaged)


def _read(rows: list[Any], contexts: Contexts) -> JournalLines:
    """Sort decoded lines by what they are. Raises one of _DAMAGES if any of them is not valid."""
    from orjson import dumps

    calls: list[JournalCall] = []
    handles: list[tuple[str, str]] = []
    for row in rows:
        if type(row) is list:
            number, ts, call_id, args, ms, size, *rest = row
            context, more = contexts.get(number, _UNKNOWN), _more(rest[0]) if rest else _GOOD
            is_whole = type(args) is not str
            text = dumps(args).decode() if is_whole else args
            calls.append((context, ts, call_id, text, is_whole, ms, size, more))
        elif "context" in row:
            contexts[row["context"]] = _context(row)
        elif row.keys() == {"id", "handle"}:
            handles.append((row["id"], row["handle"]))
        else:
            more = _more({"ok": row["ok"], **{name: row[name] for name in MORE if name in row}})
            values = row["ts"], row["id"], row.get("args", ""), row["whole"], row["ms"], row["size"]
            calls.append((_context(row), *values, more))
    if not {str}.issuperset(type(text) for pair in handles for text in pair):
        raise ValueError("not a handle")
    _check(calls)
    return JournalLines(calls, handles, 0)


def _context(row: Mapping[str, Any]) -> Context:
    context = tuple(row.get(name, "") for name in CONTEXT)
    if not context[0] or not {str}.issuperset(map(type, context)):
        raise ValueError("not a context")
    return context


def _more(row: Mapping[str, Any]) -> dict[str, Any]:
    return _GOOD | {name: each for name, each in row.items() if each != "" or name not in MORE}


def _check(calls: list[JournalCall]) -> None:
    """Raise ValueError unless every value has its type and is within its bounds. By columns, which
    is much quicker than by rows."""
    if not calls:
        return
    _, *columns = zip(*calls, strict=True)
    times, _, _, _, durations, sizes, more = columns
    if not (
        all(
            kinds.issuperset(map(type, column))
            for kinds, column in zip(_TYPES, columns, strict=True)
        )
        and _MORE_TYPES.issuperset(
            (k, type(v)) for each in more if each is not _GOOD for k, v in each.items()
        )
        and -_MAX_TS <= min(times) <= max(times) <= _MAX_TS
        and 0 <= min(durations) <= max(durations) <= _MAX_MS
        and 0 <= min(sizes) <= max(sizes) <= _MAX_SIZE
    ):
        raise ValueError("not a call")
