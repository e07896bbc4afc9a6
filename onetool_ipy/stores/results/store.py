"""Text on its way to the disk, with every secret hidden, in pieces of bounded size.

Owns where a stream of text may be cut: a secret that lies across a cut would be missed in both parts. What a secret
looks like is known by `mask` alone; a form of one is taken to be at most 16 KiB long.

Results that are kept by reference until somebody asks for their lines.

Owns which objects are held and for how long: the newest 32, and of those only as many as weigh 256 MB together, by
estimate; the newest one always. What has to go is handed back to be written. A heavy object that allows it is held
weakly instead, so that nobody waits for a write he did not ask for: while its owner has it, its handle works.

The folder of stored results: handles and their files, what has expired, what the quota removes.

    <handle>.lines      a result (see `lines`); its time of change is set to when it expires
    <handle>.expired    a tombstone, empty: the result was kept for its time
    <handle>.evicted    a tombstone: the result was removed to make room

Handles are 12 letters and digits that nobody can guess; anything else is unknown and touches no path. Many processes
share the folder without a lock: a result appears in one rename, goes in one unlink, and never changes in between.

Clocks: a result expires at the time that was set when it was stored. A clock that is set back lets results live longer
and never makes one expire early; what has a tombstone stays expired. The quota goes by the order of storing, also then.

Stored results: put a value, get a handle; ask for its lines by number, by pattern, by likeness.

Owns the answers of contract 6 and who may be told what: everything that goes to the disk is masked. What becomes a
line is in `rows`, the file in `lines`, the folder with quota and tombstones in `shelf`, what is
only kept by reference in `kept`. Text and bytes are written at once; `keep` holds other objects until their
lines are asked for, and what is stored then is what they are then. Once written, a handle works in every process.
"""

from __future__ import annotations

import operator
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.files import Draft, StoreError, sweep
from onetool_ipy.base.records import Value
from onetool_ipy.core.result import Json
from onetool_ipy.stores.results.lines import DamagedResult, LineFile, LineWriter, NewerResult, Outline
from onetool_ipy.stores.results.search import InvalidPattern, Pattern, search
from onetool_ipy.stores.results.tables import lines_of, pieces

__all__ = [
    "DamagedResult",
    "HandleExpired",
    "HandleNotFound",
    "InvalidPattern",
    "Kept",
    "KeptResults",
    "Mask",
    "Results",
    "Shelf",
    "StoreError",
    "estimate",
    "is_handle",
    "masked",
    "new_handle",
]

Mask = Callable[[str], str]

_REACH = 16 * 1024
_ENOUGH = 256 * 1024
_TOO_MUCH = 4 * 1024 * 1024
_TRIES = 16
_STEP = 997


def masked(pieces: Iterable[str | bytes], mask: Mask) -> Iterator[bytes]:
    """The same text as UTF-8, masked. Lone surrogates, which UTF-8 cannot hold, are written out as `\\udXXX`."""
    held = ""
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.decode("utf-8")
        if len(held) < _ENOUGH or len(text) < _REACH:
            held += text
        elif _is_clean(held[-_REACH:] + text[:_REACH], mask):
            yield _encode(mask(held))
            held = text
        else:
            ready, held = _cut(held + text, mask)
            yield _encode(ready)
    yield _encode(mask(held))


def _is_clean(text: str, mask: Mask) -> bool:
    hidden = mask(text)
    return hidden is text or hidden == text


def _cut(text: str, mask: Mask) -> tuple[str, str]:
    """A masked beginning of the text, and the rest that has to wait for what follows."""
    at = len(text) - _REACH
    for _ in range(_TRIES):
        at = text.rfind("\n", 0, at - 1) + 1 or at - _STEP
        if at <= 0:
            break
        before, after = text[max(0, at - _REACH) : at], text[at : at + _REACH]
        if mask(before + after) == mask(before) + mask(after):  # nothing lies across
            return mask(text[:at]), text[at:]
    if len(text) < _TOO_MUCH:
        return "", text
    return mask(text), ""  # one secret after the other, without a gap


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


_MOST = 32
_MOST_BYTES = 256 * 1024 * 1024
_MOST_WEAK = 1_000
_HEAVY = 16 * 1024 * 1024
_SAMPLE = 50
_UNKNOWN = 1_000
_CONTAINERS = (list, tuple, dict, set, frozenset)
_KNOWN = (*_CONTAINERS, str, bytes, int, float)


class Kept(Value):
    """An object and what is known of the call that gave it; `get` gives it, or None if its owner let go of it."""

    get: Callable[[], Any]
    weight: int
    tool: str
    call_id: str
    created_ns: int


class KeptResults:
    """Objects by handle, oldest first."""

    def __init__(self) -> None:
        self._strong: dict[str, Kept] = {}
        self._weak: dict[str, Kept] = {}

    def add(self, handle: str, value: Any, *, tool: str, call_id: str, created_ns: int) -> None:
        self._strong[handle] = Kept(lambda: value, estimate(value), tool, call_id, created_ns)

    def find(self, handle: str) -> Kept | None:
        return self._strong.get(handle) or self._weak.get(handle)

    def drop(self, handle: str) -> bool:
        """Forget an object, and say whether it was there."""
        return (self._strong.pop(handle, None) or self._weak.pop(handle, None)) is not None

    def too_many(self) -> list[str]:
        """Handles, oldest first, that have to be written and dropped; heavy ones are held weakly from now on."""
        out = []
        weight = sum(kept.weight for kept in self._strong.values())
        spare = len(self._strong) - _MOST
        for handle, kept in list(self._strong.items())[:-1]:
            if spare <= 0 and weight <= _MOST_BYTES:
                break
            spare, weight = spare - 1, weight - kept.weight
            if not (kept.weight >= _HEAVY and self._weaken(handle, kept)):
                out.append(handle)
        return out

    def items(self) -> list[tuple[str, Kept]]:
        """What is held and still there."""
        held = [*self._weak.items(), *self._strong.items()]
        return [(handle, kept) for handle, kept in held if kept.get() is not None]

    def clear(self) -> None:
        self._strong.clear()
        self._weak.clear()

    def _weaken(self, handle: str, kept: Kept) -> bool:
        try:
            reference = weakref.ref(kept.get())
        except TypeError:
            return False
        self._weak[handle] = Kept(reference, kept.weight, kept.tool, kept.call_id, kept.created_ns)
        self._strong.pop(handle, None)
        for oldest in list(self._weak)[:-_MOST_WEAK]:
            self._weak.pop(oldest, None)
        return True


def estimate(value: Any, depth: int = 0) -> int:
    """About how many bytes an object takes, from a sample of what is in it; strangers are not asked."""
    if type(value).__module__.partition(".")[0] in ("pandas", "numpy"):
        return _array_size(value)
    if not isinstance(value, _KNOWN):
        return _UNKNOWN
    size = sys.getsizeof(value)
    if depth > 5 or not isinstance(value, _CONTAINERS) or not value:
        return size
    inside = value.items() if isinstance(value, dict) else value
    sample = [estimate(item, depth + 1) for item in islice(inside, _SAMPLE)]
    return size + sum(sample) * len(value) // len(sample)


def _array_size(value: Any) -> int:
    if hasattr(value, "memory_usage"):
        used = value.memory_usage()
        return int(used.sum() if hasattr(used, "sum") else used)
    return int(getattr(value, "nbytes", _UNKNOWN))


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


_MAX_TTL_S = 100 * 365 * 86_400.0
_MAX_OUTLINES = 16
_SECOND_STORE = 1_000_000_000
_WRITTEN_AT_ONCE = (str, bytes, bytearray, memoryview, int, float, bool, type(None))


class Results:
    """The results of one project. Many processes may have one open on the same folder, which is made when needed."""

    def __init__(
        self,
        folder: Path,
        *,
        ttl_s: float = 86_400.0,
        max_bytes: int = 1 << 30,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        mask: Mask = str,
    ) -> None:
        self._shelf = Shelf(folder, max_bytes=max_bytes, clock=clock)
        self._ttl_ns = int(min(ttl_s, _MAX_TTL_S) * _SECOND_STORE)
        self._mask = mask
        self._kept = KeptResults()
        self._outlines: dict[str, Outline] = {}

    @property
    def folder(self) -> Path:
        return self._shelf.folder

    def put(self, value: Any, *, tool: str = "", call_id: str = "") -> str:
        """Store a value now and give its handle; raises StoreError and leaves nothing behind where that fails."""
        return self._write(new_handle(), pieces(value), tool, call_id, self._shelf.now_ns())

    def put_lines(self, items: Iterable[Any], *, tool: str = "", call_id: str = "") -> str:
        """Store an iterable as it comes, one line per item, and use it up: it may be larger than memory."""
        return self._write(new_handle(), lines_of(items), tool, call_id, self._shelf.now_ns())

    def keep(self, value: Any, *, tool: str = "", call_id: str = "") -> str:
        """Give a handle now and write the value when its lines are asked for; text and the like are written at once."""
        if isinstance(value, _WRITTEN_AT_ONCE):
            return self.put(value, tool=tool, call_id=call_id)
        handle = new_handle()
        self._kept.add(handle, value, tool=tool, call_id=call_id, created_ns=self._shelf.now_ns())
        for oldest in self._kept.too_many():
            try:
                self.store(oldest)
            except StoreError:
                break  # a full disk: better held than lost
        return handle

    def store(self, handle: str) -> str:
        """Write what is kept under this handle, so that other processes find it; gives the handle."""
        kept = self._find_kept(handle)
        if kept is None:
            with self._open(handle):
                return handle
        value = kept.get()
        if value is None or kept.created_ns + self._ttl_ns <= self._shelf.now_ns():
            self._kept.drop(handle)
            raise HandleExpired(handle, ": it was only kept in memory, and is gone" if value is None else "")
        self._write(handle, pieces(value), kept.tool, kept.call_id, kept.created_ns)
        self._kept.drop(handle)
        return handle

    def query(
        self,
        handle: str,
        *,
        offset: int = 1,
        limit: int = 100,
        search: str | None = None,
        fuzzy: bool = False,
    ) -> Json:
        """Give lines of a stored result: `{lines, total_lines, returned, offset, has_more}`.

        With `search` (RE2, or similar words with `fuzzy`) offset and limit count the lines found, and there are also
        `matched` and `line_numbers`; with `fuzzy` also `scores`, best first, and `searched`, the number of lines looked
        at in the time there is. A pattern that takes longer than 10 s answers with `searched`, too. Very long lines
        are cut, and an answer ends at 32 MiB: `returned` and `has_more` tell.
        """
        offset, limit = _whole("offset", offset), _whole("limit", limit)
        if search is not None and not isinstance(search, str):
            raise TypeError(f"search must be text, got {values.safe_repr(search, 40)}")
        if offset < 1:
            raise ValueError(f"offset must be >= 1 (1-indexed), got {offset}")
        if limit < 1:
            raise ValueError(f"limit must be >= 1, got {limit}")
        if self._find_kept(handle) is not None:
            self.store(handle)
        with self._open(handle) as file:
            if not search:
                return _page(file, offset, limit)
            return _similar(file, search, offset, limit) if fuzzy else _found(file, search, offset, limit)

    def describe(self, handle: str) -> Json:
        """One row of `list`; lines and bytes are None while the value is only kept in memory."""
        kept = self._find_kept(handle)
        if kept is not None:
            return self._kept_row(handle, kept)
        with self._open(handle) as file:
            return _row(handle, file.outline)

    def list(self) -> list[Json]:
        """Every result there is, newest first: `{handle, tool, created, lines, bytes, expires}`; times are UTC."""
        rows = [*self._stored_rows(), *(self._kept_row(handle, kept) for handle, kept in self._kept.items())]
        return sorted(rows, key=lambda row: (row["created"], row["handle"]), reverse=True)

    def delete(self, handle: str) -> bool:
        """Remove a result, and say whether it was there."""
        if not is_handle(handle):
            return False
        self._outlines.pop(handle, None)
        return self._kept.drop(handle) | self._shelf.delete(handle)

    def reap(self) -> int:
        """Remove what has expired or is over the quota, and say how many; done by `put` every now and then, too."""
        return self._shelf.reap()

    def take_over(self, older: Results) -> None:
        """Go on holding what another one, of the same folder, holds by reference: a reload loses no handle."""
        self._kept = older._kept

    def close(self) -> None:
        """Let go of the objects kept; may be called twice."""
        self._kept = KeptResults()
        self._outlines.clear()

    def _write(self, handle: str, parts: Iterable[str | bytes], tool: str, call_id: str, created_ns: int) -> str:
        expires_ns = created_ns + self._ttl_ns
        draft = Draft(self._shelf.path(handle))
        try:
            draft.open()
            writer = LineWriter(draft)
            for data in masked(parts, self._mask):
                writer.add(data)
            writer.finish({"tool": str(tool), "call_id": str(call_id), "created": created_ns, "expires": expires_ns})
            draft.set_time(self._shelf.next_rank(expires_ns))
            draft.publish()
        except BaseException:  # also an interrupt: nothing may stay that nobody has the handle of
            draft.discard()
            with suppress(StoreError):
                self._shelf.delete(handle)
            raise
        self._shelf.added(handle, draft.size)
        return handle

    def _find_kept(self, handle: str) -> Kept | None:
        if not is_handle(handle):
            raise HandleNotFound(handle)
        return self._kept.find(handle)

    def _open(self, handle: str) -> LineFile:
        path = self._shelf.path(handle)
        try:
            file = LineFile(path, self._outlines.get(handle))
        except StoreError as exc:
            if isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
                raise self._shelf.missing(handle) from None
            raise
        if file.outline.meta["expires"] <= self._shelf.now_ns():
            file.close()
            self._shelf.bury(handle, "expired")
            raise HandleExpired(handle)
        if handle not in self._outlines:
            for oldest in list(self._outlines)[: 1 - _MAX_OUTLINES]:
                self._outlines.pop(oldest, None)
        self._outlines[handle] = file.outline
        return file

    def _stored_rows(self) -> Iterator[Json]:
        now_ns = self._shelf.now_ns()
        for stored in self._shelf.stored():
            try:
                with LineFile(self._shelf.path(stored.handle)) as file:
                    outline = file.outline
            except StoreError:
                continue  # damaged, or just removed; whoever asks for it is told
            if outline.meta["expires"] > now_ns:
                yield _row(stored.handle, outline)

    def _kept_row(self, handle: str, kept: Kept) -> Json:
        expires_ns = kept.created_ns + self._ttl_ns
        return _listed(handle, kept.tool, kept.created_ns, None, None, expires_ns)


def _whole(name: str, number: Any) -> int:
    """A whole number, also one of numpy's; raises TypeError for anything else."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a whole number, got {values.safe_repr(number, 40)}")


def _page(file: LineFile, offset: int, limit: int) -> Json:
    return _answer(file, file.page(offset - 1, limit), offset, file.lines)


def _found(file: LineFile, pattern: str, offset: int, limit: int) -> Json:
    found = search(file, Pattern(pattern), skip=offset - 1, limit=limit)
    answer = _answer(file, found.lines, offset, found.matched)
    answer |= {"matched": found.matched, "line_numbers": found.numbers}
    if found.searched < file.lines:
        answer["searched"] = found.searched
    return answer


def _similar(file: LineFile, query: str, offset: int, limit: int) -> Json:
    from onetool_ipy.stores.results.search import find_similar

    found = find_similar(file, query, skip=offset - 1, limit=limit)
    answer = _answer(file, found.lines, offset, found.matched)
    answer |= {"matched": found.matched, "line_numbers": found.numbers}
    answer |= {"scores": found.scores, "searched": found.searched}
    return answer


def _answer(file: LineFile, lines: list[str], offset: int, available: int) -> Json:
    return {
        "lines": lines,
        "total_lines": file.lines,
        "returned": len(lines),
        "offset": offset,
        "has_more": offset - 1 + len(lines) < available,
    }


def _row(handle: str, outline: Outline) -> Json:
    meta = outline.meta
    return _listed(handle, meta["tool"], meta["created"], outline.lines, outline.size, meta["expires"])


def _listed(handle: str, tool: str, created_ns: int, lines: int | None, size: int | None, expires_ns: int) -> Json:
    return {
        "handle": handle,
        "tool": tool,
        "created": _time(created_ns),
        "lines": lines,
        "bytes": size,
        "expires": _time(expires_ns),
    }


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / _SECOND_STORE, UTC)
