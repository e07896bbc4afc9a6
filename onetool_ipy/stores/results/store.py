"""Stored results: put a value, get a handle; ask for its lines by number, by pattern, by likeness.

Owns the answers of contract 6 and who may be told what: everything that goes to the disk is masked. What becomes a
line is in `rows`, the file in `lines`, the folder with quota and tombstones in `shelf`, what is
only kept by reference in `kept`. Text and bytes are written at once; `keep` holds other objects until their
lines are asked for, and what is stored then is what they are then. Once written, a handle works in every process.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.model import Json
from onetool_ipy.stores.files import Draft, StoreError
from onetool_ipy.stores.results.kept import Kept, KeptResults
from onetool_ipy.stores.results.lines import DamagedResult, LineFile, LineWriter, Outline
from onetool_ipy.stores.results.masked import Mask, masked
from onetool_ipy.stores.results.rows import lines_of, pieces
from onetool_ipy.stores.results.search import InvalidPattern, Pattern, search
from onetool_ipy.stores.results.shelf import HandleExpired, HandleNotFound, Shelf, is_handle, new_handle

__all__ = [
    "DamagedResult",
    "HandleExpired",
    "HandleNotFound",
    "InvalidPattern",
    "Results",
    "StoreError",
]

_MAX_TTL_S = 100 * 365 * 86_400.0
_MAX_OUTLINES = 16
_SECOND = 1_000_000_000
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
        self._ttl_ns = int(min(ttl_s, _MAX_TTL_S) * _SECOND)
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
    from onetool_ipy.stores.results.fuzzy import find_similar

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
    return datetime.fromtimestamp(ns / _SECOND, UTC)
