"""The finished rows of `ot.map`, on disk, so that a stopped run can be resumed.

There is one file per tool (name, schema, code) and format. Every process that runs rows appends one
line per finished row, with one write, before the row counts as finished: a kill loses at most the
rows that are running. A run keeps the file open. Values are stored by `stores.encoding`. A row
whose value cannot be encoded, or holds a secret, is not stored and is called again.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from orjson import OPT_SORT_KEYS, dumps

from onetool_ipy.base import forks
from onetool_ipy.base.files import StoreError, append, append_to, open_to_append, remove
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.base.values import Json
from onetool_ipy.stores.encoding import NotEncodable, decode, encode

MAX_AGE_S = 7 * 24 * 3600.0
"""How long a row counts as finished."""

_FORMAT = 1
_KEYS_PER_DROP = 10_000
_LINE_HEAD = re.compile(rb'\n\{"(?:k":"([0-9a-f-]+)","t":([0-9]++\.?[0-9]*+),|drop")')
_BLOCK = 1 << 20


class FinishedRow(NamedTuple):
    """The value of a finished row, and how long its call took."""

    value: Any
    ms: float


class _RowFile:
    """The open file of a run. It is closed with its last user: a row that Stop left running may be
    writing just now."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class MapProgress:
    """The finished rows of one tool. Threads may share it; each process opens its own."""

    def __init__(
        self, path: Path, *, mask: Callable[[str], str] = str, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self.fault: StoreError | None = None
        self._mask = mask
        self._now = now
        self._size_read = 0
        self._offsets: dict[str, int] = {}
        self._file: _RowFile | None = None
        forks.register(self)

    def after_fork(self) -> None:
        """Leave the open file to the parent."""
        self._file = None

    @contextmanager
    def open_for_rows(self) -> Iterator[None]:
        """Keep the file open for the rows of a run. A row that ends after the block opens it for
        itself."""
        try:
            with deferred:
                self._file = _RowFile(open_to_append(self.path))
        except StoreError as exc:
            self.fault = exc
        try:
            yield
        finally:
            self._file = None

    def begin(self) -> str:
        """Create the file if it is missing, delete old ones, and return the stamp that identifies
        this file."""
        # Files that have not grown for long are of no use any more.
        with suppress(OSError):
            for entry in os.scandir(self.path.parent):
                if time.time() - entry.stat().st_mtime > 2 * MAX_AGE_S and entry.path != str(
                    self.path
                ):
                    remove(entry.path)
        if not self._stamp():
            self._append({"stamp": os.urandom(8).hex()})
        return self._stamp()

    def last_write(self) -> datetime.datetime | None:
        """When a row was last stored; None if there is none."""
        try:
            return datetime.datetime.fromtimestamp(self.path.stat().st_mtime, datetime.UTC)
        except OSError:
            return None

    def has_stamp(self, stamp: str) -> bool:
        """Whether this is the file that another process began, and not one of another machine."""
        return stamp != "" and self._stamp() == stamp

    def is_finished(self, key: str) -> bool:
        """Whether a row is finished, as of the last `refresh`."""
        return key in self._offsets

    def refresh(self) -> None:
        """Read what was appended since the last time. A disk error is stored as `fault`."""
        oldest, offset = self._now() - MAX_AGE_S, self._size_read
        try:
            with open(self.path, "rb") as file:
                file.seek(offset)
                while block := file.read(_BLOCK):
                    block += file.readline()
                    whole = block[: block.rfind(b"\n") + 1]
                    self._read_block(whole, offset, oldest)
                    offset += len(whole)
                    if len(whole) < len(block):
                        break  # its last line is still being written
        except FileNotFoundError:
            offset, self._offsets = 0, {}
        except OSError as exc:
            self.fault = StoreError.of(self.path, exc, doing="read")
        self._size_read = offset

    def values(self, keys: Iterable[str]) -> Iterator[FinishedRow | None]:
        """Yield the value of each row; None if it is not finished or cannot be read."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed below; a generator may be left in the middle
        except OSError:
            yield from (None for _ in keys)
            return
        with file:
            for key in keys:
                yield self._value(file, key)

    def add(self, key: str, value: object, ms: float) -> bool:
        """Store a finished row; False if it cannot be stored."""
        try:
            record = {"k": key, "t": round(self._now(), 1), "ms": round(ms, 2), "v": encode(value)}
        except NotEncodable:
            return False
        return self._append(record)

    def drop(self, keys: Iterable[str]) -> None:
        """Mark rows as not finished, also those that were not read yet."""
        dropped = [key for key in keys if key]
        for first in range(0, len(dropped), _KEYS_PER_DROP):
            self._append({"drop": dropped[first : first + _KEYS_PER_DROP]})
        for key in dropped:
            self._offsets.pop(key, None)

    def _append(self, record: Json) -> bool:
        try:
            line = dumps(record).decode()
        except TypeError:  # an integer of more than 64 bits
            line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        if self._mask(line) != line:
            return False
        data, file = f"\n{line}\n".encode(), self._file
        try:
            if file is None:
                append(self.path, data)
            else:
                append_to(file.fd, data)
        except (OSError, StoreError) as exc:
            self.fault = exc if isinstance(exc, StoreError) else StoreError.of(self.path, exc)
            return False
        return True

    def _stamp(self) -> str:
        try:
            with open(self.path, "rb") as file:
                head = file.read(200).split(b"\n")
        except OSError:
            return ""
        return str(_parse(head[1] if len(head) > 1 else b"").get("stamp", ""))

    def _read_block(self, lines: bytes, offset: int, oldest: float) -> None:
        """Note which rows some whole lines finish or drop. One search for all: a file may have a
        million rows."""
        for match in _LINE_HEAD.finditer(b"\n" + lines):
            key, at = match.groups()
            if key is None:
                dropped = _parse(lines[match.start() : lines.index(b"\n", match.start())]).get(
                    "drop"
                )
                for each in dropped if isinstance(dropped, list) else ():
                    self._offsets.pop(str(each), None)
            elif float(at) > oldest:
                self._offsets[key.decode()] = offset + match.start()

    def _value(self, file: BinaryIO, key: str) -> FinishedRow | None:
        offset = self._offsets.get(key)
        if offset is None:
            return None
        file.seek(offset)
        record = _parse(file.readline())
        if record.get("k") != key:
            return None
        try:
            return FinishedRow(decode(record["v"]), record["ms"])
        except (NotEncodable, KeyError):
            return None


def progress_file(folder: Path, name: str) -> Path:
    """Return the file of a tool. Its name ends in the format, so that other versions of this
    package skip it."""
    return folder / f"{name}.{_FORMAT}.jsonl"


def row_keys(rows: Iterable[Json]) -> list[str]:
    """Return a key for the arguments of each row. Equal rows get different keys; "" if they cannot
    be encoded."""
    counts: dict[str, int] = {}
    keys = []
    for args in rows:
        try:
            data = encode(args)
        except NotEncodable:
            keys.append("")
            continue
        try:
            written = dumps(data, option=OPT_SORT_KEYS)
        except TypeError:  # an integer of more than 64 bits
            written = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
        key = hashlib.blake2b(written, digest_size=12).hexdigest()
        count = counts[key] = counts.get(key, 0) + 1
        keys.append(key if count == 1 else f"{key}-{count}")
    return keys


def _parse(line: bytes) -> Json:
    try:
        record = json.loads(line)
    except ValueError:  # cut off by a full disk, or damaged: that row is called again
        return {}
    return record if isinstance(record, dict) else {}
