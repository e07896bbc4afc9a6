"""The folder of stored results: handles and their files, what has expired, what the quota removes.

    <handle>.lines      a result (see `lines`); its time of change is set to when it expires
    <handle>.expired    a tombstone, empty: the result was kept for its time
    <handle>.evicted    a tombstone: the result was removed to make room

Handles are 12 letters and digits that nobody can guess; anything else is unknown and touches no path. Many processes
share the folder without a lock: a result appears in one rename, goes in one unlink, and never changes in between.

Clocks: a result expires at the time that was set when it was stored. A clock that is set back lets results live longer
and never makes one expire early; what has a tombstone stays expired. The quota goes by the order of storing, also then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.files import StoreError, sweep
from onetool_ipy.stores.results.lines import LineFile, NewerResult

__all__ = ["HandleExpired", "HandleNotFound", "Shelf", "is_handle", "new_handle"]

Clock = Callable[[], datetime]
Gone = Literal["expired", "evicted"]

_LETTERS = "abcdefghjkmnpqrstvwxyz"
_ALPHABET = "0123456789" + _LETTERS
_HANDLE = re.compile(r"[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{11}")
_RESULT = ".lines"
_TOMBSTONES: tuple[Gone, ...] = ("expired", "evicted")
_MAX_TOMBSTONES = 10_000
_TOMBSTONES_KEPT_S = 30 * 86_400.0
_LOOK_AFTER_S = 600.0
_LOOK_AFTER_RESULTS = 100
_SHARE = 8
_A_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000


class HandleNotFound(OneToolError):
    """No result was ever stored under this handle, or it was deleted."""

    def __init__(self, handle: object) -> None:
        shown = handle if isinstance(handle, str) else repr(handle)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        super().__init__(f"Handle not found: {shown!r}.", hint="ot.results() lists the handles there are.")
        self.handle = handle


class HandleExpired(OneToolError):
    """The result under this handle is gone: its time was up, or the room was needed."""

    def __init__(self, handle: str, why: str = "") -> None:
        super().__init__(f"Result {handle!r} has expired{why}.", hint="Call the tool again to get a new one.")
        self.handle = handle


class Stored(NamedTuple):
    """A file on the shelf: `rank` is when it expires or later, in ns; the lowest was stored first."""

    handle: str
    size: int
    rank: int


def new_handle() -> str:
    """A handle that no other process makes; it starts with a letter, so that nothing takes it for a number."""
    noise = int.from_bytes(os.urandom(12), "big")
    noise, letter = divmod(noise, len(_LETTERS))
    out = [_LETTERS[letter]]
    for _ in range(11):
        noise, place = divmod(noise, len(_ALPHABET))
        out.append(_ALPHABET[place])
    return "".join(out)


def is_handle(handle: object) -> bool:
    return isinstance(handle, str) and len(handle) == 12 and _HANDLE.fullmatch(handle) is not None


class Shelf:
    """The files of one folder, by handle."""

    def __init__(self, folder: Path, *, max_bytes: int, clock: Clock) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._clock = clock
        self._newest_rank = 0
        self._bytes_since = 0
        self._results_since = 0
        self._looked_at = -_LOOK_AFTER_S

    def now_ns(self) -> int:
        return int(self._clock().timestamp() * 1_000_000) * 1_000

    def path(self, handle: str) -> Path:
        return self.folder / f"{handle}{_RESULT}"

    def missing(self, handle: str) -> OneToolError:
        """What to raise for a handle without a file."""
        if os.path.lexists(self.folder / f"{handle}.expired"):
            return HandleExpired(handle)
        if os.path.lexists(self.folder / f"{handle}.evicted"):
            return HandleExpired(handle, ": it was removed to make room for newer ones")
        return HandleNotFound(handle)

    def next_rank(self, expires_ns: int) -> int:
        """The time to set on a new file: when it expires, but newer than all known here, whatever the clock says."""
        self._newest_rank = max(expires_ns, self._newest_rank + _A_MILLISECOND)
        return self._newest_rank

    def added(self, handle: str, size: int) -> None:
        """Make room after a result was stored, every now and then at most."""
        self._bytes_since += size
        self._results_since += 1
        if (
            self._bytes_since * _SHARE >= self._max_bytes
            or self._results_since >= _LOOK_AFTER_RESULTS
            or time.monotonic() - self._looked_at >= _LOOK_AFTER_S
        ):
            self.reap(keep=handle)

    def reap(self, *, keep: str = "") -> int:
        """Remove what has expired, what is over the quota (oldest first, never `keep`) and what writers left behind.

        Says how many results went. Never raises for a file: what cannot be removed now is tried again next time.
        """
        self._bytes_since = self._results_since = 0
        self._looked_at = time.monotonic()
        sweep(self.folder)
        found = self.stored()
        now_ns = self.now_ns()
        gone = {one.handle for one in found if one.rank <= now_ns and self._is_over(one, now_ns)}
        for handle in gone:
            self.bury(handle, "expired")
        left = sorted((one for one in found if one.handle not in gone), key=lambda one: one.rank)
        total = sum(one.size for one in left)
        for one in left:
            if total <= self._max_bytes:
                break
            if one.handle == keep:
                continue
            total -= one.size
            if not self._is_newer(one):
                self.bury(one.handle, "evicted")
                gone.add(one.handle)
        self._newest_rank = max([self._newest_rank, *(one.rank for one in left)])
        self._clear_tombstones(now_ns)
        return len(gone)

    def stored(self) -> list[Stored]:
        """Every result's file, in no order."""
        found = []
        for entry in self._entries(_RESULT):
            with suppress(OSError):  # another process was faster
                state = entry.stat(follow_symlinks=False)
                found.append(Stored(entry.name.removesuffix(_RESULT), state.st_size, state.st_mtime_ns))
        return found

    def bury(self, handle: str, gone: Gone) -> None:
        """Remove a result and leave a tombstone; on a full disk it may go without."""
        now_ns = self.now_ns()
        place = self.folder / f"{handle}.{gone}"
        with suppress(OSError):
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
            os.utime(place, ns=(now_ns, now_ns))
        with suppress(OSError):
            os.unlink(self.path(handle))

    def delete(self, handle: str) -> bool:
        """Remove a result or its tombstone without a trace, and say whether there was a result."""
        for gone in _TOMBSTONES:
            with suppress(OSError):
                os.unlink(self.folder / f"{handle}.{gone}")
        try:
            os.unlink(self.path(handle))
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise StoreError.of(self.path(handle), exc, doing="delete") from exc
        return True

    def _is_over(self, one: Stored, now_ns: int) -> bool:
        """Ask the file itself, since a copied folder has other times; a damaged one goes a day after it was changed."""
        try:
            with LineFile(self.path(one.handle)) as file:
                return int(file.outline.meta["expires"]) <= now_ns
        except NewerResult:
            return False
        except (StoreError, KeyError, ValueError):
            return one.rank + 86_400 * _SECOND <= now_ns

    def _is_newer(self, one: Stored) -> bool:
        """Whether a later version stored it, and has to remove it."""
        try:
            LineFile(self.path(one.handle)).close()
        except NewerResult:
            return True
        except StoreError:
            return False
        return False

    def _entries(self, suffix: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder) as entries:
                yield from (e for e in entries if e.name.endswith(suffix) and is_handle(e.name.removesuffix(suffix)))
        except OSError:
            return

    def _clear_tombstones(self, now_ns: int) -> None:
        """Forget the oldest: those of more than 30 days ago, and all but the newest 10,000."""
        found: list[tuple[int, str]] = []
        for gone in _TOMBSTONES:
            for entry in self._entries(f".{gone}"):
                with suppress(OSError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
        found.sort(reverse=True)
        for place, (buried_ns, path) in enumerate(found):
            if place >= _MAX_TOMBSTONES or now_ns - buried_ns > _TOMBSTONES_KEPT_S * _SECOND:
                with suppress(OSError):
                    os.unlink(path)
