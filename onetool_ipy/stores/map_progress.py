"""Rows that are done: what a tool gave for which arguments, so that a long run goes on where it was stopped.

One file per tool as it is (name, schema, code) and per format, to which every process that runs rows appends one line
per row, with one write, before the row counts as done: a kill loses at most the row that is under way. Values are kept
by `faithful`, in JSON; a row whose value cannot be kept, or holds a secret, is not, and is simply called again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.base.files import StoreError, append
from onetool_ipy.stores.encoding import Unfaithful, decode, encode

__all__ = ["KEEP_S", "Done", "DoneRows", "keys_of", "place_of"]

KEEP_S = 7 * 24 * 3600.0
"""How long a row counts as done."""

_FORMAT = 1
_NUMBERED = re.compile(r"\.([0-9]{1,9})\.jsonl")
_PER_DROP = 10_000


class Done(NamedTuple):
    """A row that is done."""

    value: Any
    ms: float


class DoneRows:
    """The done rows of one tool. Threads share it; each process has its own."""

    def __init__(self, path: Path, *, mask: Callable[[str], str] = str, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self.fault: StoreError | None = None
        self._mask = mask
        self._now = now
        self._read = 0
        self._places: dict[str, int] = {}

    def begin(self) -> str:
        """Make the file where it is not there, forget old ones, and give the stamp by which it is known elsewhere."""
        _prune(self.path.parent, self.path)
        if self._stamp() == "":
            self._append({"stamp": os.urandom(8).hex()})
        return self._stamp()

    def is_same(self, stamp: str) -> bool:
        """Whether the file here is the one that another process began, and not that of another machine."""
        return stamp != "" and self._stamp() == stamp

    def find(self, key: str) -> bool:
        """Whether a row is done, as far as was read."""
        return key in self._places

    def refresh(self) -> None:
        """Read what was appended since; never raises for a disk."""
        try:
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size == self._read:
                    return
                file.seek(self._read)
                for place, line in _lines(file, self._read):
                    self._note(place, line)
                    self._read = place + len(line)
        except FileNotFoundError:
            self._read, self._places = 0, {}
        except OSError as exc:
            self.fault = StoreError.of(self.path, exc, doing="read")

    def values(self, keys: Iterable[str]) -> Iterator[Done | None]:
        """What each row gave; None for one that cannot be read any more."""
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed below; a generator may be left in the middle
        except OSError:
            yield from (None for _ in keys)
            return
        with file:
            for key in keys:
                yield self._value(file, key)

    def add(self, key: str, value: Any, ms: float) -> bool:
        """Note a row as done; False where it cannot be kept."""
        try:
            record = {"k": key, "t": round(self._now(), 1), "ms": round(ms, 2), "v": encode(value)}
        except Unfaithful:
            return False
        return self._append(record)

    def drop(self, keys: Iterable[str]) -> None:
        """Let rows count as not done again."""
        known = [key for key in keys if key in self._places]
        for first in range(0, len(known), _PER_DROP):
            self._append({"drop": known[first : first + _PER_DROP]})
        for key in known:
            self._places.pop(key, None)

    def _append(self, record: dict[str, Any]) -> bool:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        if self._mask(line) != line:
            return False
        try:
            append(self.path, f"\n{line}\n".encode())
        except StoreError as exc:
            self.fault = exc
            return False
        return True

    def _stamp(self) -> str:
        try:
            with open(self.path, "rb") as file:
                head = file.read(200).split(b"\n")
        except OSError:
            return ""
        found = _parsed(head[1] if len(head) > 1 else b"")
        return str(found.get("stamp", "")) if found is not None else ""

    def _note(self, place: int, line: bytes) -> None:
        if line.startswith(b'{"k":"'):
            head = _parsed(line[: line.find(b',"ms":')] + b"}")
            at = head.get("t") if head is not None else None
            if head is not None and isinstance(at, (int, float)) and at > self._now() - KEEP_S:
                self._places[str(head.get("k"))] = place
        elif line.startswith(b'{"drop"'):
            dropped = (_parsed(line) or {}).get("drop")
            for key in dropped if isinstance(dropped, list) else ():
                self._places.pop(str(key), None)

    def _value(self, file: Any, key: str) -> Done | None:
        place = self._places.get(key)
        if place is None:
            return None
        file.seek(place)
        found = _parsed(file.readline())
        if found is None or found.get("k") != key:
            return None
        try:
            return Done(decode(found["v"]), found["ms"])
        except (Unfaithful, KeyError):
            return None


def place_of(folder: Path, name: str) -> Path:
    """The file of a tool; its name ends in the format, so that versions of this package do not meet in it."""
    return folder / f"{name}.{_FORMAT}.jsonl"


def keys_of(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A key for each row's arguments; the second row with the same ones has another. "" for what has none."""
    seen: dict[str, int] = {}
    found = []
    for args in rows:
        try:
            text = json.dumps(encode(args), sort_keys=True, separators=(",", ":"))
        except Unfaithful:
            found.append("")
            continue
        key = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        count = seen[key] = seen.get(key, 0) + 1
        found.append(key if count == 1 else f"{key}-{count}")
    return found


def _lines(file: Any, place: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines and where they begin; one without its end is still being written."""
    for line in file:
        if not line.endswith(b"\n"):
            return
        yield place, line
        place += len(line)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:  # cut off by a full disk, or damaged: that row is called again
        return None
    return found if isinstance(found, dict) else None


def _prune(folder: Path, own: Path) -> None:
    """Remove files to which nobody has added for long, but none of a later format; never raises."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            is_old = time.time() - entry.stat().st_mtime > 2 * KEEP_S
            if is_old and entry.path != str(own) and not _is_newer(entry.name):
                os.unlink(entry.path)


def _is_newer(name: str) -> bool:
    found = _NUMBERED.search(name)
    return found is not None and int(found[1]) > _FORMAT
