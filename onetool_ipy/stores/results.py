"""The result store: put a value, get a handle; read its lines by number, by pattern, by similarity.

`Results` is what the rest of the package uses. Text and bytes are written at once. `keep` holds other objects in memory
(`HeldValues`) until `store` or a query writes them, as they are then. Everything that goes to disk is masked.
Once written, a handle works in every process. `result_lines` turns a value into lines, `result_file` is one file.

`ResultFolder` is the folder on disk:

    <handle>.lines      a result; its time of change is when it expires
    <handle>.expired    a tombstone, empty: the result's time was up
    <handle>.evicted    a tombstone: the result was removed to make room

Handles are 12 letters and digits that nobody can guess; anything else is unknown and touches no path. Many processes
share the folder without a lock: a result appears by one rename, goes by one unlink, and never changes in between. A
result expires at the time set when it was stored. If the clock is set back, results live longer and none expires early;
a result with a tombstone stays expired. The quota removes the oldest first, in the order of storing.
"""

from __future__ import annotations

import operator
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.background import ForkLock
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.files import Draft, StoreError, sweep
from onetool_ipy.base.records import Value
from onetool_ipy.core.result import Json
from onetool_ipy.stores.result_file import DamagedResult, LineFile, LineWriter, NewerResult, Outline
from onetool_ipy.stores.result_lines import form_of, lines_of, pieces, value_of
from onetool_ipy.stores.result_search import InvalidPattern, Pattern, find_similar, search

__all__ = [
    "DamagedResult",
    "HandleExpired",
    "HandleNotFound",
    "InvalidPattern",
    "ResultFolder",
    "Results",
    "StoreError",
    "estimate_size",
    "mask_stream",
    "new_handle",
]

Mask = Callable[[str], str]
Clock = Callable[[], datetime]
Tombstone = Literal["expired", "evicted"]

_MAX_TTL_S = 100 * 365 * 86_400.0
_MAX_OUTLINES = 16
_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
_WRITTEN_AT_ONCE = (str, bytes, bytearray, memoryview, int, float, bool, type(None))

_LETTERS = "abcdefghjkmnpqrstvwxyz"
_ALPHABET = "0123456789" + _LETTERS
_HANDLE = re.compile(r"[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{11}")
_RESULT = ".lines"
_TOMBSTONES: tuple[Tombstone, ...] = ("expired", "evicted")
_MAX_TOMBSTONES = 10_000
_MAX_TOMBSTONE_AGE_S = 30 * 86_400.0
_REAP_EVERY_S = 600.0
_REAP_EVERY_RESULTS = 100
_REAP_EVERY_SHARE = 8
"""Reap once an eighth of the quota was written."""

_MAX_HELD = 32
_MAX_HELD_BYTES = 256 * 1024 * 1024
_MAX_WEAK = 1_000
_HEAVY = 16 * 1024 * 1024
_SAMPLE = 50
_UNKNOWN_SIZE = 1_000
_CONTAINERS = (list, tuple, dict, set, frozenset)
_SIZED = (*_CONTAINERS, str, bytes, int, float)

_MAX_SECRET = 16 * 1024
_MIN_PIECE = 256 * 1024
_MAX_PIECE = 4 * 1024 * 1024
_CUT_TRIES = 16
_CUT_STEP = 997


class HandleNotFound(OneToolError):
    """No result was ever stored under this handle, or it was deleted."""

    def __init__(self, handle: object) -> None:
        shown = handle if isinstance(handle, str) else repr(handle)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        super().__init__(f"Handle not found: {shown!r}.", hint="ot.results() lists the handles there are.")
        self.handle = handle


class HandleExpired(OneToolError):
    """The result under this handle is gone: its time was up, or it was removed to make room."""

    def __init__(self, handle: str, why: str = "") -> None:
        super().__init__(f"Result {handle!r} has expired{why}.", hint="Call the tool again to get a new one.")
        self.handle = handle


class Results:
    """The results of one project. Many processes may open the same folder, which is created when needed."""

    def __init__(
        self,
        folder: Path,
        *,
        ttl_s: float = 86_400.0,
        max_bytes: int = 1 << 30,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        mask: Mask = str,
    ) -> None:
        self._folder = ResultFolder(folder, max_bytes=max_bytes, clock=clock)
        self._ttl_ns = int(min(ttl_s, _MAX_TTL_S) * _SECOND)
        self._mask = mask
        self._held = HeldValues()
        self._outlines: dict[str, Outline] = {}
        self._storing = ForkLock()  # one at a time: a second writer that fails would remove the first one's file

    @property
    def folder(self) -> Path:
        return self._folder.folder

    def put(self, value: Any, *, tool: str = "", call_id: str = "") -> str:
        """Store a value now and return its handle; on StoreError nothing is left behind."""
        return self._write(new_handle(), pieces(value), tool, call_id, self._folder.now_ns(), form_of(value))

    def put_lines(self, items: Iterable[Any], *, tool: str = "", call_id: str = "") -> str:
        """Store an iterable, one line per item, and use it up: it may be larger than memory."""
        return self._write(new_handle(), lines_of(items), tool, call_id, self._folder.now_ns())

    def keep(self, value: Any, *, tool: str = "", call_id: str = "") -> str:
        """Return a handle now and write the value when its lines are read; text and the like are written at once."""
        if isinstance(value, _WRITTEN_AT_ONCE):
            return self.put(value, tool=tool, call_id=call_id)
        handle = new_handle()
        self._held.add(handle, value, tool=tool, call_id=call_id, created_ns=self._folder.now_ns())
        for oldest in self._held.too_many():
            try:
                self.store(oldest)
            except StoreError:
                break  # a full disk: hold it longer than planned
        return handle

    def store(self, handle: str) -> str:
        """Write the value held under this handle, so that other processes find it; returns the handle."""
        if self._find_held(handle) is None:
            with self._open(handle):
                return handle
        with self._storing.mine():
            held = self._held.find(handle)
            return handle if held is None else self._store_held(handle, held)

    def _store_held(self, handle: str, held: HeldValue) -> str:
        value = held.get()
        if value is None or held.created_ns + self._ttl_ns <= self._folder.now_ns():
            self._held.drop(handle)
            raise HandleExpired(handle, ": it was only kept in memory, and is gone" if value is None else "")
        self._write(handle, pieces(value), held.tool, held.call_id, held.created_ns, form_of(value))
        self._held.release(handle)
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
        """Return lines of a stored result: `{lines, total_lines, returned, offset, has_more}`.

        With `search` (RE2, or similar words with `fuzzy`) offset and limit count the lines found, and there are also
        `matched` and `line_numbers`; with `fuzzy` also `scores`, best first, and `searched`, the number of lines looked
        at in the time there is. A pattern that takes longer than 10 s answers with `searched`, too. Very long lines
        are cut, and an answer ends at 32 MiB, as `returned` and `has_more` show.
        """
        offset, limit = _require_whole("offset", offset), _require_whole("limit", limit)
        if search is not None and not isinstance(search, str):
            raise TypeError(f"search must be text, got {values.safe_repr(search, 40)}")
        if offset < 1:
            raise ValueError(f"offset must be >= 1 (1-indexed), got {offset}")
        if limit < 1:
            raise ValueError(f"limit must be >= 1, got {limit}")
        if self._find_held(handle) is not None:
            self.store(handle)
        with self._open(handle) as file:
            if not search:
                return _read_page(file, offset, limit)
            return _search(file, search, offset, limit, fuzzy=fuzzy)

    def value(self, handle: str) -> Any:
        """Return the value itself while this process has it, else what its lines give: see `result_lines.value_of`."""
        held = self._find_held(handle)
        value = None if held is None else held.get()
        if value is not None:
            return value
        with self._open(handle) as file:
            value = self._held.find_released(handle)
            return value_of(file.text(), file.outline.meta) if value is None else value

    def describe(self, handle: str) -> Json:
        """One row of `list`; lines and bytes are None while the value is only in memory."""
        held = self._find_held(handle)
        if held is not None:
            return self._held_row(handle, held)
        with self._open(handle) as file:
            return _row(handle, file.outline)

    def list(self) -> list[Json]:
        """List all results, newest first: `{handle, tool, created, lines, bytes, expires}`; times are UTC."""
        rows = [*self._stored_rows(), *(self._held_row(handle, held) for handle, held in self._held.items())]
        return sorted(rows, key=lambda row: (row["created"], row["handle"]), reverse=True)

    def delete(self, handle: str) -> bool:
        """Remove a result; False if there was none."""
        if not is_handle(handle):
            return False
        self._outlines.pop(handle, None)
        return self._held.drop(handle) | self._folder.delete(handle)

    def reap(self) -> int:
        """Remove what has expired or is over the quota, and return how many; `put` does so from time to time."""
        return self._folder.reap()

    def take_over(self, older: Results) -> None:
        """Take the values that an older store of the same folder holds, so that a reload loses no handle."""
        self._held = older._held

    def close(self) -> None:
        """Release the values held; may be called twice."""
        self._held = HeldValues()
        self._outlines.clear()

    def _write(
        self,
        handle: str,
        parts: Iterable[str | bytes],
        tool: str,
        call_id: str,
        created_ns: int,
        form: Mapping[str, Any] | None = None,
    ) -> str:
        times = {"created": created_ns, "expires": created_ns + self._ttl_ns}
        draft = Draft(self._folder.path(handle))
        try:
            draft.open()
            writer = LineWriter(draft)
            for data in mask_stream(parts, self._mask):
                writer.add(data)
            writer.finish({"tool": str(tool), "call_id": str(call_id), **times, **(form or {})})
            draft.set_time(self._folder.next_rank(times["expires"]))
            draft.publish()
        except BaseException:  # also an interrupt: no file may stay whose handle nobody has
            draft.discard()
            with suppress(StoreError):
                self._folder.delete(handle)
            raise
        self._folder.added(handle, draft.size)
        return handle

    def _find_held(self, handle: str) -> HeldValue | None:
        if not is_handle(handle):
            raise HandleNotFound(handle)
        return self._held.find(handle)

    def _open(self, handle: str) -> LineFile:
        path = self._folder.path(handle)
        try:
            file = LineFile(path, self._outlines.get(handle))
        except StoreError as exc:
            if isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
                raise self._folder.missing(handle) from None
            raise
        if file.outline.meta["expires"] <= self._folder.now_ns():
            file.close()
            self._folder.remove_with_tombstone(handle, "expired")
            raise HandleExpired(handle)
        if handle not in self._outlines:
            for oldest in list(self._outlines)[: 1 - _MAX_OUTLINES]:
                self._outlines.pop(oldest, None)
        self._outlines[handle] = file.outline
        return file

    def _stored_rows(self) -> Iterator[Json]:
        now_ns = self._folder.now_ns()
        for stored in self._folder.stored():
            try:
                with LineFile(self._folder.path(stored.handle)) as file:
                    outline = file.outline
            except StoreError:
                continue  # damaged, or just removed; a query says so
            if outline.meta["expires"] > now_ns:
                yield _row(stored.handle, outline)

    def _held_row(self, handle: str, held: HeldValue) -> Json:
        expires_ns = held.created_ns + self._ttl_ns
        return _describe(handle, held.tool, held.created_ns, None, None, expires_ns)


def _require_whole(name: str, number: Any) -> int:
    """Return an int, also from one of numpy's; raises TypeError for anything else."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a whole number, got {values.safe_repr(number, 40)}")


def _read_page(file: LineFile, offset: int, limit: int) -> Json:
    return _answer(file, file.page(offset - 1, limit), offset, file.lines)


def _search(file: LineFile, wanted: str, offset: int, limit: int, *, fuzzy: bool) -> Json:
    if fuzzy:
        found = find_similar(file, wanted, skip=offset - 1, limit=limit)
    else:
        found = search(file, Pattern(wanted), skip=offset - 1, limit=limit)
    answer = _answer(file, found.lines, offset, found.matched)
    answer |= {"matched": found.matched, "line_numbers": found.numbers}
    if found.scores is not None:
        answer["scores"] = found.scores
    if fuzzy or found.searched < file.lines:
        answer["searched"] = found.searched
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
    return _describe(handle, meta["tool"], meta["created"], outline.lines, outline.size, meta["expires"])


def _describe(handle: str, tool: str, created_ns: int, lines: int | None, size: int | None, expires_ns: int) -> Json:
    return {
        "handle": handle,
        "tool": tool,
        "created": _time(created_ns),
        "lines": lines,
        "bytes": size,
        "expires": _time(expires_ns),
    }


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / _SECOND, UTC)


# --- handles and their files -------------------------------------------------------------------


def new_handle() -> str:
    """Return a random handle. It starts with a letter, so that it never looks like a number."""
    noise = int.from_bytes(os.urandom(12), "big")
    noise, letter = divmod(noise, len(_LETTERS))
    out = [_LETTERS[letter]]
    for _ in range(11):
        noise, place = divmod(noise, len(_ALPHABET))
        out.append(_ALPHABET[place])
    return "".join(out)


def is_handle(handle: object) -> bool:
    return isinstance(handle, str) and len(handle) == 12 and _HANDLE.fullmatch(handle) is not None


class ResultFile(NamedTuple):
    """A result on disk. `rank` is its time of change in ns: when it expires, or later. The lowest was stored first."""

    handle: str
    size: int
    rank: int


class ResultFolder:
    """The files of the store, by handle, with their expiry and quota."""

    def __init__(self, folder: Path, *, max_bytes: int, clock: Clock) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._clock = clock
        self._newest_rank = 0
        self._bytes_since = 0
        self._results_since = 0
        self._reaped_at = -_REAP_EVERY_S

    def now_ns(self) -> int:
        return int(self._clock().timestamp() * 1_000_000) * 1_000

    def path(self, handle: str) -> Path:
        return self.folder / f"{handle}{_RESULT}"

    def missing(self, handle: str) -> OneToolError:
        """Return the error for a handle without a file."""
        if os.path.lexists(self.folder / f"{handle}.expired"):
            return HandleExpired(handle)
        if os.path.lexists(self.folder / f"{handle}.evicted"):
            return HandleExpired(handle, ": it was removed to make room for newer ones")
        return HandleNotFound(handle)

    def next_rank(self, expires_ns: int) -> int:
        """Return the time to set on a new file: when it expires, but later than all others, whatever the clock says."""
        self._newest_rank = max(expires_ns, self._newest_rank + _MILLISECOND)
        return self._newest_rank

    def added(self, handle: str, size: int) -> None:
        """Count a stored result, and reap if it is time."""
        self._bytes_since += size
        self._results_since += 1
        if (
            self._bytes_since * _REAP_EVERY_SHARE >= self._max_bytes
            or self._results_since >= _REAP_EVERY_RESULTS
            or time.monotonic() - self._reaped_at >= _REAP_EVERY_S
        ):
            self.reap(keep=handle)

    def reap(self, *, keep: str = "") -> int:
        """Remove expired results, those over the quota (oldest first, never `keep`) and orphaned temp files.

        Returns how many results were removed. Never raises for a file: the next time tries it again.
        """
        self._bytes_since = self._results_since = 0
        self._reaped_at = time.monotonic()
        sweep(self.folder)
        found = self.stored()
        now_ns = self.now_ns()
        gone = {one.handle for one in found if one.rank <= now_ns and self._is_expired(one, now_ns)}
        for handle in gone:
            self.remove_with_tombstone(handle, "expired")
        left = sorted((one for one in found if one.handle not in gone), key=lambda one: one.rank)
        total = sum(one.size for one in left)
        for one in left:
            if total <= self._max_bytes:
                break
            if one.handle == keep:
                continue
            total -= one.size
            if not self._is_newer(one):
                self.remove_with_tombstone(one.handle, "evicted")
                gone.add(one.handle)
        self._newest_rank = max([self._newest_rank, *(one.rank for one in left)])
        self._clear_tombstones(now_ns)
        return len(gone)

    def stored(self) -> list[ResultFile]:
        """List the files of all results, in no order."""
        found = []
        for entry in self._entries(_RESULT):
            with suppress(OSError):  # another process removed it
                state = entry.stat(follow_symlinks=False)
                found.append(ResultFile(entry.name.removesuffix(_RESULT), state.st_size, state.st_mtime_ns))
        return found

    def remove_with_tombstone(self, handle: str, gone: Tombstone) -> None:
        """Remove a result and leave a tombstone, unless the disk is full."""
        now_ns = self.now_ns()
        place = self.folder / f"{handle}.{gone}"
        with suppress(OSError):
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o600))
            os.utime(place, ns=(now_ns, now_ns))
        with suppress(OSError):
            os.unlink(self.path(handle))

    def delete(self, handle: str) -> bool:
        """Remove a result and its tombstones; False if there was no result."""
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

    def _is_expired(self, one: ResultFile, now_ns: int) -> bool:
        """Read the expiry in the file, since a copied folder has other times. A damaged file expires after a day."""
        try:
            with LineFile(self.path(one.handle)) as file:
                return int(file.outline.meta["expires"]) <= now_ns
        except NewerResult:
            return False
        except (StoreError, KeyError, ValueError):
            return one.rank + 86_400 * _SECOND <= now_ns

    def _is_newer(self, one: ResultFile) -> bool:
        """Whether a later version stored this file; it is left to that version."""
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
        """Delete tombstones older than 30 days, and all but the newest 10,000."""
        found: list[tuple[int, str]] = []
        for gone in _TOMBSTONES:
            for entry in self._entries(f".{gone}"):
                with suppress(OSError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
        found.sort(reverse=True)
        for place, (removed_ns, path) in enumerate(found):
            if place >= _MAX_TOMBSTONES or now_ns - removed_ns > _MAX_TOMBSTONE_AGE_S * _SECOND:
                with suppress(OSError):
                    os.unlink(path)


# --- values held in memory ---------------------------------------------------------------------


class HeldValue(Value):
    """A value in memory and the call it came from. `get` returns it, or None if it was held weakly and is gone."""

    get: Callable[[], Any]
    weight: int
    tool: str
    call_id: str
    created_ns: int


class HeldValues:
    """Values by handle, oldest first: the newest 32, of at most 256 MB together by estimate, and always the newest one.

    A heavy value that allows weak references is then held weakly instead of being written: its handle works as long as
    the user keeps the value. A value that was written is released: it is known as long as somebody else keeps it.
    """

    def __init__(self) -> None:
        self._strong: dict[str, HeldValue] = {}
        self._weak: dict[str, HeldValue] = {}
        self._released: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def add(self, handle: str, value: Any, *, tool: str, call_id: str, created_ns: int) -> None:
        self._strong[handle] = HeldValue(lambda: value, estimate_size(value), tool, call_id, created_ns)

    def find(self, handle: str) -> HeldValue | None:
        return self._strong.get(handle) or self._weak.get(handle)

    def drop(self, handle: str) -> bool:
        """Release a value; False if there was none."""
        return (self._strong.pop(handle, None) or self._weak.pop(handle, None)) is not None

    def release(self, handle: str) -> None:
        """Let go of a value that was written; `find_released` knows it while it exists."""
        held = self.find(handle)
        value = None if held is None else held.get()
        self.drop(handle)
        with suppress(TypeError):  # Plain lists and dicts cannot be referred to weakly.
            self._released[handle] = value

    def find_released(self, handle: str) -> Any:
        return self._released.get(handle)

    def too_many(self) -> list[str]:
        """Return the handles, oldest first, that have to be written and dropped; heavy values become weak."""
        out = []
        weight = sum(held.weight for held in self._strong.values())
        spare = len(self._strong) - _MAX_HELD
        for handle, held in list(self._strong.items())[:-1]:
            if spare <= 0 and weight <= _MAX_HELD_BYTES:
                break
            spare, weight = spare - 1, weight - held.weight
            if not (held.weight >= _HEAVY and self._weaken(handle, held)):
                out.append(handle)
        return out

    def items(self) -> list[tuple[str, HeldValue]]:
        """List the values that still exist."""
        held = [*self._weak.items(), *self._strong.items()]
        return [(handle, held) for handle, held in held if held.get() is not None]

    def _weaken(self, handle: str, held: HeldValue) -> bool:
        try:
            reference = weakref.ref(held.get())
        except TypeError:
            return False
        self._weak[handle] = HeldValue(reference, held.weight, held.tool, held.call_id, held.created_ns)
        self._strong.pop(handle, None)
        for oldest in list(self._weak)[:-_MAX_WEAK]:
            self._weak.pop(oldest, None)
        return True


def estimate_size(value: Any, depth: int = 0) -> int:
    """Estimate the bytes an object takes, from a sample of its items; foreign types are not inspected."""
    if type(value).__module__.partition(".")[0] in ("pandas", "numpy"):
        return _array_size(value)
    if not isinstance(value, _SIZED):
        return _UNKNOWN_SIZE
    size = sys.getsizeof(value)
    if depth > 5 or not isinstance(value, _CONTAINERS) or not value:
        return size
    inside = value.items() if isinstance(value, dict) else value
    sample = [estimate_size(item, depth + 1) for item in islice(inside, _SAMPLE)]
    return size + sum(sample) * len(value) // len(sample)


def _array_size(value: Any) -> int:
    if hasattr(value, "memory_usage"):
        used = value.memory_usage()
        return int(used.sum() if hasattr(used, "sum") else used)
    return int(getattr(value, "nbytes", _UNKNOWN_SIZE))


# --- masking on the way to disk ----------------------------------------------------------------


def mask_stream(pieces: Iterable[str | bytes], mask: Mask) -> Iterator[bytes]:
    """Yield the text as UTF-8, masked, in pieces of bounded size.

    A secret must not lie across two pieces, so the text is cut where none does; a secret has at most 16 KiB. Lone
    surrogates, which UTF-8 cannot hold, are written out as `\\udXXX`.
    """
    held = ""
    for piece in pieces:
        text = piece if isinstance(piece, str) else piece.decode("utf-8")
        if len(held) < _MIN_PIECE or len(text) < _MAX_SECRET:
            held += text
        elif _is_clean(held[-_MAX_SECRET:] + text[:_MAX_SECRET], mask):
            yield mask(held).encode("utf-8", "backslashreplace")
            held = text
        else:
            ready, held = _cut(held + text, mask)
            yield ready.encode("utf-8", "backslashreplace")
    yield mask(held).encode("utf-8", "backslashreplace")


def _is_clean(text: str, mask: Mask) -> bool:
    hidden = mask(text)
    return hidden is text or hidden == text


def _cut(text: str, mask: Mask) -> tuple[str, str]:
    """Return a masked beginning of the text, and the rest, which has to wait for more text."""
    at = len(text) - _MAX_SECRET
    for _ in range(_CUT_TRIES):
        at = text.rfind("\n", 0, at - 1) + 1 or at - _CUT_STEP
        if at <= 0:
            break
        before, after = text[max(0, at - _MAX_SECRET) : at], text[at : at + _MAX_SECRET]
        if mask(before + after) == mask(before) + mask(after):  # no secret lies across
            return mask(text[:at]), text[at:]
    if len(text) < _MAX_PIECE:
        return "", text
    return mask(text), ""  # one secret after the other, without a gap
