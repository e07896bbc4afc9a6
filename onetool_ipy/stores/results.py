"""The result store: put a value, get a handle; read its lines by number, by pattern, by similarity.

`Results` is what the rest of the package uses. Text and bytes are written at once. `keep` holds
other objects in memory (`HeldValues`) until `store` or a query writes them, as they are then.
Everything that goes to disk is masked. `result_lines` turns a value into lines, `result_file` is
one result on disk, `result_search` searches it.

Handles are 12 letters and digits that nobody can guess; anything else is unknown and touches no
path. A handle works in every process, and many processes share the folder without a lock: the
sidecar is written first, one rename of the text makes the result appear, one unlink of the text
ends it, and the sidecar that stays is how a later query knows that the result has expired. The
quota removes the oldest text first.
"""

from __future__ import annotations

import operator
import os
import re
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import AtomicFile, StoreError, remove, remove_stale_temp_files
from onetool_ipy.base.tables import is_dataframe
from onetool_ipy.base.values import Json
from onetool_ipy.stores.calls.record import measure
from onetool_ipy.stores.result_file import MAX_LINE_BYTES, ResultText, Sidecar, read_sidecar
from onetool_ipy.stores.result_lines import as_stored, form_of, pieces, value_of
from onetool_ipy.stores.result_search import find_similar
from onetool_ipy.stores.result_search import search as find_matches

if TYPE_CHECKING:
    from onetool_ipy.stores.result_file import LineStarts

Mask = Callable[[str], str]

_MAX_TTL_S = 100 * 365 * 86_400.0
_MAX_CACHED = 16
_LONG_TABLE = 20_000
_SHORT_PAGE = 5_000
_WRITTEN_AT_ONCE = (str, bytes, bytearray, memoryview, int, float, bool, type(None))

_LETTERS = "abcdefghjkmnpqrstvwxyz"
_ALPHABET = "0123456789" + _LETTERS
_HANDLE = re.compile(r"[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{11}")
_DAMAGED_AGE = timedelta(days=1)
_SIDECAR_AGE = timedelta(days=30)
"""How long the sidecar of a result that is gone stays."""
_MAX_SIDECARS = 10_000
_REAP_EVERY_S = 600.0
_REAP_EVERY_RESULTS = 100
_REAP_EVERY_SHARE = 8
"""Reap once an eighth of the quota was written."""

_MAX_HELD = 32
_MAX_HELD_BYTES = 256 * 1024 * 1024
_MAX_WEAK = 1_000
_HEAVY = 16 * 1024 * 1024

_MAX_SECRET = 16 * 1024
_MIN_PIECE = 256 * 1024
_MAX_PIECE = 4 * 1024 * 1024
_CUT_TRIES = 16
_CUT_STEP = 997


class HandleNotFound(UsageProblem, reason="handle_not_found"):
    """No result was ever stored under this handle, or it was deleted."""

    def __init__(self, handle: object) -> None:
        text = values.cut(handle if isinstance(handle, str) else repr(handle), 40)
        super().__init__(
            f"Handle not found: {text!r}.", hint="ot.results() lists the handles there are."
        )
        self.handle = handle


class HandleExpired(UsageProblem, reason="handle_expired"):
    """The result under this handle is gone: its time was up, or it was removed to make room."""

    def __init__(self, handle: str, why: str = "") -> None:
        super().__init__(
            f"Result {handle!r} has expired{why}.", hint="Call the tool again to get a new one."
        )
        self.handle = handle


class HeldValue(NamedTuple):
    """A value in memory and the call it came from. `get` returns it, or None if it was held weakly
    and is gone."""

    get: Callable[[], Any]
    weight: int
    tool: str
    call_id: str
    created: datetime


class Results:
    """The results of one project. Many processes may open the same folder, which is created when
    needed."""

    def __init__(
        self,
        folder: Path,
        *,
        ttl_s: float = 86_400.0,
        max_bytes: int = 1 << 30,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        mask: Mask = str,
    ) -> None:
        self.folder = folder
        self._ttl = timedelta(seconds=min(ttl_s, _MAX_TTL_S))
        self._max_bytes = max_bytes
        self._clock = clock
        self._mask = mask
        self._held = HeldValues()
        self._cache: dict[str, tuple[Sidecar, LineStarts | None]] = {}
        # One thread at a time writes a held value: a second one that failed would remove the first
        # one's file.
        self._storing = threading.Lock()
        self._bytes_since_reap = 0
        self._results_since_reap = 0
        self._reaped_at = -_REAP_EVERY_S

    def put(self, value: object, *, tool: str = "", call_id: str = "") -> str:
        """Store a value now and return its handle; on StoreError nothing is left behind."""
        table = as_stored(value)
        return self._write(
            new_handle(), pieces(table), tool, call_id, self._clock(), form_of(table)
        )

    def keep(self, value: object, *, tool: str = "", call_id: str = "") -> str:
        """Return a handle now and write the value when its lines are read; text and the like are
        written at once."""
        if isinstance(value, _WRITTEN_AT_ONCE):
            return self.put(value, tool=tool, call_id=call_id)
        handle = new_handle()
        self._held.add(handle, value, tool=tool, call_id=call_id, created=self._clock())
        for oldest in self._held.too_many():
            try:
                self.store(oldest)
            except StoreError:
                break  # The disk is full, so the value is held longer than planned.
        return handle

    def store(self, handle: str) -> str:
        """Write the value held under this handle, so that other processes find it; returns the
        handle."""
        if self._find_held(handle) is None:
            with self._open(handle):
                return handle
        with self._storing:
            held = self._held.find(handle)
            if held is None:
                return handle
            value = held.get()
            if value is None or held.created + self._ttl <= self._clock():
                self._held.drop(handle)
                raise HandleExpired(
                    handle, ": it was only kept in memory, and is gone" if value is None else ""
                )
            table = as_stored(value)
            self._write(
                handle, pieces(table), held.tool, held.call_id, held.created, form_of(table)
            )
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

        With `search` (RE2, or similar words with `fuzzy`) offset and limit count the lines found,
        and there are also `matched` and `line_numbers`; with `fuzzy` also `scores`, best first, and
        `searched`, the number of lines looked at in the time there is. A pattern that takes longer
        than 10 s answers with `searched`, too. Very long lines are cut, and an answer ends at 32
        MiB, as `returned` and `has_more` show.
        """
        offset, limit = _require_whole("offset", offset), _require_whole("limit", limit)
        if search is not None and not isinstance(search, str):
            raise TypeError(f"search must be text, got {values.safe_repr(search, 40)}")
        if offset < 1:
            raise ValueError(f"offset must be >= 1 (1-indexed), got {offset}")
        if limit < 1:
            raise ValueError(f"limit must be >= 1, got {limit}")
        held = self._find_held(handle)
        if held is not None:
            page = None if search else self._page_of_table(held, offset, limit)
            if page is not None:
                return page
            self.store(handle)
        with self._open(handle) as text:
            if search:
                find = find_similar if fuzzy else find_matches
                matches = find(text, search, skip=offset - 1, limit=limit)
                lines = text.lines_at(matches.numbers)
                page = _page(text, lines, offset, matches.total)
                line_numbers = [number + 1 for number in matches.numbers[: len(lines)]]
                page |= {"matched": matches.total, "line_numbers": line_numbers}
                if matches.scores is not None:
                    page["scores"] = matches.scores[: len(lines)]
                if fuzzy or matches.searched < text.lines:
                    page["searched"] = matches.searched
            else:
                numbers = range(min(offset - 1, text.lines), min(offset - 1 + limit, text.lines))
                page = _page(text, text.lines_at(numbers), offset, text.lines)
            self._cache[handle] = (text.sidecar, text.starts)
        return page

    def _page_of_table(self, held: HeldValue, offset: int, limit: int) -> Json | None:
        """Return a page of a large table in memory: writing all of it first would take seconds."""
        table = held.get()
        if not is_dataframe(table) or len(table) < _LONG_TABLE or limit > _SHORT_PAGE:
            return None
        if held.created + self._ttl <= self._clock():
            return None
        data = b"".join(
            mask_stream(pieces(table.iloc[offset - 1 : offset - 1 + limit]), self._mask)
        )
        lines = data.decode("utf-8").removesuffix("\n").split("\n") if data else []
        # A line that is cut, or that a mask has joined to the next, is left to the text on disk.
        if (
            len(lines) != max(0, min(limit, len(table) - offset + 1))
            or len(max(lines, key=len, default="")) * 4 > MAX_LINE_BYTES
        ):
            return None
        has_more = offset - 1 + len(lines) < len(table)
        sizes = {
            "total_lines": len(table),
            "returned": len(lines),
            "offset": offset,
            "has_more": has_more,
        }
        return {"lines": lines, **sizes}

    def form(self, handle: str) -> str:
        """Return what the lines of a result were made from, as `result_lines.form_of` says."""
        held = self._find_held(handle)
        if held is not None and (value := held.get()) is not None:
            return str(form_of(as_stored(value))["form"])
        with self._open(handle) as text:
            return str(text.sidecar.form.get("form", ""))

    def value(self, handle: str) -> Any:
        """Return the value itself while this process has it, else what its lines give: see
        `result_lines.value_of`."""
        held = self._find_held(handle)
        value = None if held is None else held.get()
        if value is not None:
            return value
        with self._open(handle) as text:
            value = self._held.find_released(handle)
            return value_of(text.whole(), text.sidecar.form) if value is None else value

    def held_table(self, handle: str) -> Any:
        """Return a DataFrame of pandas that this process holds under a handle, or None."""
        held = self._find_held(handle)
        value = None if held is None else held.get()
        return value if is_dataframe(value) else None

    def file_of(self, handle: str) -> tuple[Path, str]:
        """Return the file of a result, written now if it was only held, and its form; see
        `result_lines.form_of`."""
        self.store(handle)
        with self._open(handle) as text:
            return text.path, str(text.sidecar.form.get("form", ""))

    def call_of(self, handle: str) -> str:
        """Return the id of the call that gave a result, also of one that has expired; "" if it is
        not known."""
        if not is_handle(handle):
            return ""
        held = self._held.find(handle)
        if held is not None:
            return held.call_id
        with suppress(StoreError):
            sidecar = read_sidecar(self._path(handle, "json"))
            return "" if sidecar is None else sidecar.call_id
        return ""

    def describe(self, handle: str) -> Json:
        """One row of `list`; lines and bytes are None while the value is only in memory."""
        held = self._find_held(handle)
        if held is not None:
            return self._row(handle, held)
        with self._open(handle) as text:
            return self._row(handle, text.sidecar)

    def list(self) -> list[Json]:
        """List all results, newest first: `{handle, tool, created, lines, bytes, expires}`; times
        are UTC."""
        rows = [self._row(handle, held) for handle, held in self._held.items()]
        for handle, files in self._scan().items():
            with suppress(StoreError):
                sidecar = read_sidecar(self._path(handle, "json"))
                # A text of another size is damaged, as a query says.
                is_whole = (
                    sidecar is not None and "txt" in files and files["txt"].st_size == sidecar.bytes
                )
                if sidecar is not None and is_whole and sidecar.expires > self._clock():
                    rows.append(self._row(handle, sidecar))
        return sorted(rows, key=lambda row: (row["created"], row["handle"]), reverse=True)

    def delete(self, handle: str) -> bool:
        """Remove a result; False if there was none."""
        if not is_handle(handle):
            return False
        return self._held.drop(handle) | self._delete_files(handle)

    def reap(self, *, keep: str = "") -> int:
        """Remove what has expired or is over the quota (oldest first, never `keep`), and return how
        many results.

        `put` does so from time to time. Never raises for a file: the next time tries it again.
        """
        self._bytes_since_reap = self._results_since_reap = 0
        self._reaped_at = time.monotonic()
        remove_stale_temp_files(self.folder)
        files = self._scan()
        now = self._clock()
        oldest_first = sorted(
            (self._read_times(handle, files[handle]["txt"]), handle)
            for handle in files
            if "txt" in files[handle]
        )
        sizes = {
            handle: sum(state.st_size for state in files[handle].values())
            for _, handle in oldest_first
        }
        expired = [handle for (*_, expires), handle in oldest_first if expires <= now]
        total = sum(sizes.values()) - sum(sizes[handle] for handle in expired)
        for (*_, expires), handle in oldest_first:
            if total > self._max_bytes and expires > now and handle != keep:
                expired.append(handle)
                total -= sizes[handle]
        for handle in expired:
            self._expire(handle)
        self._remove_leftovers(
            {handle: files[handle] for handle in files if "txt" not in files[handle]}, now
        )
        return len(expired)

    def take_over(self, older: Results) -> None:
        """Take the values that an older store of the same folder holds, so that a reload loses no
        handle."""
        self._held = older._held

    def close(self) -> None:
        """Release the values held; may be called twice."""
        self._held = HeldValues()
        self._cache.clear()

    def _path(self, handle: str, suffix: str) -> Path:
        return self.folder / f"{handle}.{suffix}"

    def _write(
        self,
        handle: str,
        parts: Iterable[str | bytes],
        tool: str,
        call_id: str,
        created: datetime,
        form: Json,
    ) -> str:
        newlines, last = 0, b""
        try:
            with AtomicFile(self._path(handle, "txt")) as file:
                for data in mask_stream(parts, self._mask):
                    file.write(data)
                    newlines += data.count(b"\n")
                    last = data[-1:] or last
                sidecar = Sidecar(
                    tool=str(tool),
                    call_id=str(call_id),
                    created=created,
                    expires=created + self._ttl,
                    lines=newlines + (last not in (b"", b"\n")),
                    bytes=file.size,
                    form=form,
                )
                sidecar.write(self._path(handle, "json"))
                file.commit()
        except BaseException:
            # No file may stay whose handle nobody has.
            with suppress(StoreError):
                self._delete_files(handle)
            raise
        self._bytes_since_reap += file.size
        self._results_since_reap += 1
        if (
            self._bytes_since_reap * _REAP_EVERY_SHARE >= self._max_bytes
            or self._results_since_reap >= _REAP_EVERY_RESULTS
            or time.monotonic() - self._reaped_at >= _REAP_EVERY_S
        ):
            self.reap(keep=handle)
        return handle

    def _delete_files(self, handle: str) -> bool:
        """Remove all files of a result; False if there was no text."""
        self._cache.pop(handle, None)
        is_stored = True
        try:
            remove(self._path(handle, "txt"))
        except (FileNotFoundError, NotADirectoryError):
            is_stored = False
        except OSError as exc:
            raise StoreError.of(self._path(handle, "txt"), exc, doing="delete") from exc
        for suffix in ("json", "npy"):
            with suppress(OSError):
                remove(self._path(handle, suffix))
        return is_stored

    def _find_held(self, handle: str) -> HeldValue | None:
        if not is_handle(handle):
            raise HandleNotFound(handle)
        return self._held.find(handle)

    def _open(self, handle: str) -> ResultText:
        """Open a stored result. Its sidecar and index stay in the cache, since they never
        change."""
        sidecar, starts = self._cache.get(handle) or (
            read_sidecar(self._path(handle, "json")),
            None,
        )
        if sidecar is None:
            raise HandleNotFound(handle)
        if sidecar.expires <= self._clock():
            self._expire(handle)
            raise HandleExpired(handle)
        try:
            text = ResultText(self._path(handle, "txt"), sidecar, starts)
        except StoreError as exc:
            self._cache.pop(handle, None)
            if isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
                raise HandleExpired(
                    handle, ": it was removed to make room for newer ones"
                ) from None
            raise
        if handle not in self._cache:
            for oldest in list(self._cache)[: 1 - _MAX_CACHED]:
                self._cache.pop(oldest, None)
            self._cache[handle] = (sidecar, starts)
        return text

    def _expire(self, handle: str) -> None:
        """Remove the text of a result. The sidecar stays, and its time says since when the text is
        gone."""
        self._cache.pop(handle, None)
        now_s = self._clock().timestamp()
        for suffix in ("txt", "npy"):
            with suppress(OSError):
                remove(self._path(handle, suffix))
        with suppress(OSError):
            os.utime(self._path(handle, "json"), (now_s, now_s))

    def _scan(self) -> dict[str, dict[str, os.stat_result]]:
        """Return the state of the plain files in the folder, by handle and suffix."""
        files: dict[str, dict[str, os.stat_result]] = {}
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                handle, _, suffix = entry.name.partition(".")
                if is_handle(handle) and entry.is_file(follow_symlinks=False):
                    # Another process may remove the file at any moment.
                    with suppress(OSError):
                        files.setdefault(handle, {})[suffix] = entry.stat(follow_symlinks=False)
        return files

    def _read_times(self, handle: str, text: os.stat_result) -> tuple[float, datetime, datetime]:
        """Return when a text was written by the clock of the disk and by ours, and when it expires.

        The first puts results in order, since our clock may have been set back; two files that were
        written within one tick of the disk's clock differ in the second. A result with a damaged
        sidecar expires after a day.
        """
        changed = datetime.fromtimestamp(text.st_mtime, UTC)
        with suppress(StoreError):
            sidecar = read_sidecar(self._path(handle, "json"))
            if sidecar is not None:
                return text.st_mtime, sidecar.created, sidecar.expires
        return text.st_mtime, changed, changed + _DAMAGED_AGE

    def _remove_leftovers(self, files: dict[str, dict[str, os.stat_result]], now: datetime) -> None:
        """Of what has no text, remove the indexes, the old sidecars, and all but the newest
        10,000."""
        oldest_s = (now - _SIDECAR_AGE).timestamp()
        newest_first = sorted(
            files, key=lambda handle: max(state.st_mtime for state in files[handle].values())
        )[::-1]
        for place, handle in enumerate(newest_first):
            for suffix, state in files[handle].items():
                if suffix == "npy" or place >= _MAX_SIDECARS or state.st_mtime < oldest_s:
                    with suppress(OSError):
                        remove(self._path(handle, suffix))

    def _row(self, handle: str, about: HeldValue | Sidecar) -> Json:
        stored = about if isinstance(about, Sidecar) else None
        return {
            "handle": handle,
            "tool": about.tool,
            "created": about.created,
            "lines": stored and stored.lines,
            "bytes": stored and stored.bytes,
            "expires": about.created + self._ttl if stored is None else stored.expires,
        }


def _require_whole(name: str, number: Any) -> int:
    """Return an int, also from one of numpy's; raises TypeError for anything else."""
    try:
        if not isinstance(number, bool):
            return operator.index(number)
    except TypeError:
        pass
    raise TypeError(f"{name} must be a whole number, got {values.safe_repr(number, 40)}")


def _page(text: ResultText, lines: list[str], offset: int, available: int) -> Json:
    return {
        "lines": lines,
        "total_lines": text.lines,
        "returned": len(lines),
        "offset": offset,
        "has_more": offset - 1 + len(lines) < available,
    }


def new_handle() -> str:
    """Return a random handle. It starts with a letter, so that it never looks like a number."""
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_ALPHABET) for _ in range(11))


def is_handle(handle: object) -> bool:
    return isinstance(handle, str) and len(handle) == 12 and _HANDLE.fullmatch(handle) is not None


class HeldValues:
    """Values by handle, oldest first: the newest 32, of at most 256 MB together by estimate, and
    always the newest one.

    A heavy value that allows weak references is then held weakly instead of being written: its
    handle works as long as the user keeps the value. A value that was written is released: it is
    known as long as somebody else keeps it.
    """

    def __init__(self) -> None:
        self._strong: dict[str, HeldValue] = {}
        self._weak: dict[str, HeldValue] = {}
        self._released: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def add(
        self, handle: str, value: object, *, tool: str, call_id: str, created: datetime
    ) -> None:
        self._strong[handle] = HeldValue(
            get=lambda: value, weight=measure(value), tool=tool, call_id=call_id, created=created
        )

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
        # Plain lists and dicts cannot be referred to weakly.
        with suppress(TypeError):
            self._released[handle] = value

    def find_released(self, handle: str) -> Any:
        return self._released.get(handle)

    def too_many(self) -> list[str]:
        """Return the handles, oldest first, that have to be written and dropped; heavy values
        become weak."""
        handles = []
        weight = sum(held.weight for held in self._strong.values())
        spare = len(self._strong) - _MAX_HELD
        for handle, held in list(self._strong.items())[:-1]:
            if spare <= 0 and weight <= _MAX_HELD_BYTES:
                break
            spare, weight = spare - 1, weight - held.weight
            if not (held.weight >= _HEAVY and self._weaken(handle, held)):
                handles.append(handle)
        return handles

    def items(self) -> list[tuple[str, HeldValue]]:
        """List the values that still exist."""
        everything = [*self._weak.items(), *self._strong.items()]
        return [(handle, held) for handle, held in everything if held.get() is not None]

    def _weaken(self, handle: str, held: HeldValue) -> bool:
        try:
            reference = weakref.ref(held.get())
        except TypeError:
            return False
        self._weak[handle] = held._replace(get=reference)
        self._strong.pop(handle, None)
        for oldest in list(self._weak)[:-_MAX_WEAK]:
            self._weak.pop(oldest, None)
        return True


def mask_stream(pieces: Iterable[str | bytes], mask: Mask) -> Iterator[bytes]:
    """Yield the text as UTF-8, masked, in pieces of bounded size.

    A secret must not lie across two pieces, so the text is cut where none does; a secret has at
    most 16 KiB. Lone surrogates, which UTF-8 cannot hold, are written out as `\\udXXX`.
    """
    pending = ""
    for piece in pieces:
        pending += piece if isinstance(piece, str) else piece.decode("utf-8")
        if len(pending) >= _MIN_PIECE:
            masked, pending = _cut(pending, mask)
            yield masked.encode("utf-8", "backslashreplace")
    yield mask(pending).encode("utf-8", "backslashreplace")


def _cut(text: str, mask: Mask) -> tuple[str, str]:
    """Return a masked beginning of the text, and the rest, which has to wait for more text."""
    position = len(text) - _MAX_SECRET
    for _ in range(_CUT_TRIES):
        position = text.rfind("\n", 0, position - 1) + 1 or position - _CUT_STEP
        if position <= 0:
            break
        before, after = (
            text[max(0, position - _MAX_SECRET) : position],
            text[position : position + _MAX_SECRET],
        )
        # If masking both sides alone gives the same text, no secret lies across the cut.
        if mask(before + after) == mask(before) + mask(after):
            return mask(text[:position]), text[position:]
    if len(text) < _MAX_PIECE:
        return "", text
    # One secret follows the other without a gap.
    return mask(text), ""
