"""A damaged database: it is set aside whole, and a new one takes its place with all of it that can be read.

The tallies and how far each append file was read are kept together or not at all, since one without the other would
count calls twice; without them, what the append files still hold is counted anew. Rows of single calls are kept chunk
by chunk. The new file takes the old one's place in one step, under a lock, and only if nobody else has done it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.core.model import Problem
from onetool_ipy.stores.calls.chunk import COLUMNS, decode
from onetool_ipy.stores.calls.database import KINDS, MAX_NUMBER, Unusable, attempt, database_path, reading, writing
from onetool_ipy.stores.calls.fold import histogram_of
from onetool_ipy.stores.files import StoreError, locked

if TYPE_CHECKING:
    import sqlite3

__all__ = ["identity", "mend", "set_aside_files"]

_TOGETHER = ("words", "marks", "files", "tallies", "handles")
_DRAFT = ".calls-draft.db"
_ASIDE = "calls-damaged-"
_KEEP_ASIDE = 2
_MOST_CALLS, _MOST = 1 << 40, 1 << 60
_WAIT_S = 10.0


def identity(folder: Path) -> int | None:
    """Which file the database is now; it changes when one is mended."""
    try:
        return os.lstat(database_path(folder)).st_ino
    except OSError:
        return None


def mend(folder: Path, seen: int | None) -> None:
    """Replace the damaged database, unless it is no longer the one that was `seen`. Raises StoreError."""
    path = database_path(folder)
    with locked(path, _WAIT_S):
        if identity(folder) != seen:
            return
        draft = folder / _DRAFT
        _remove(draft)  # of one who was killed here
        try:
            _salvage(path, draft)
            _swap(path, draft)
        except OSError as exc:
            raise StoreError.of(path, exc) from exc
        except Unusable as exc:
            raise StoreError(path, exc.message) from exc
        finally:
            _remove(draft)
        for old in _aside(folder)[:-_KEEP_ASIDE]:
            _remove(old)


def set_aside_files(folder: Path) -> list[Problem]:
    """What was set aside and is still there."""
    said = "this call log was damaged and set aside; what could be read of it is still counted."
    return [Problem(str(path), said, "Delete it if you do not need it.") for path in _aside(folder)]


def _salvage(path: Path, draft: Path) -> None:
    with writing(draft) as new:
        try:
            with reading(path) as old:
                if _copy_counts(old, new, path.parent):
                    _copy_chunks(old, new)
        except Unusable:
            return  # not even its first page: the new one starts empty


def _copy_counts(old: sqlite3.Connection, new: sqlite3.Connection, folder: Path) -> bool:
    tables: dict[str, list[Any]] = {}
    for table in _TOGETHER:
        rows = attempt(old, f"SELECT * FROM {table}")
        if rows is None:
            return False
        tables[table] = [row for row in rows if tuple(map(type, row)) == KINDS[table]]
        if table == "files" and not _are_right(rows, tables[table], folder):
            return False
    tables["words"] = [row for row in tables["words"] if 0 < row[0] <= MAX_NUMBER]
    tables["tallies"] = [row for row in tables["tallies"] if _is_tally(row)]
    for table, rows in tables.items():
        marks = ", ".join("?" * len(KINDS[table]))
        new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)
    return True


def _are_right(rows: list[Any], typed: list[Any], folder: Path) -> bool:
    """Whether we know of every append file how far it was read."""
    if len(typed) != len(rows):
        return False
    for name, offset, *_ in typed:
        with suppress(OSError):  # one that is gone
            if not 0 <= offset <= os.stat(folder / name).st_size:
                return False
    return True


def _copy_chunks(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    names = ", ".join(COLUMNS)
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    for row in attempt(old, "SELECT id, rows, bytes, first_ts, last_ts FROM chunks") or []:
        found = attempt(old, f"SELECT {names} FROM columns WHERE id = ?", (row[0],))
        if not found or tuple(map(type, (*row, *found[0]))) != (*KINDS["chunks"], *KINDS["columns"][1:]):
            continue
        columns = dict(zip(COLUMNS, found[0], strict=True))
        if decode(columns, {}) is None:
            continue
        new.execute("INSERT OR IGNORE INTO chunks VALUES (?, ?, ?, ?, ?)", row)
        new.execute(f"INSERT OR IGNORE INTO columns VALUES ({marks})", (row[0], *found[0]))


def _is_tally(row: tuple[Any, ...]) -> bool:
    """Whether a row is one that calls can add up to."""
    _, _, _, calls, failures, ms_sum, ms_min, ms_max, size, last_ts, blob = row
    try:
        histogram_of(blob)
    except Unusable:
        return False
    is_counted = 0 <= failures <= calls <= _MOST_CALLS and 0 <= size <= _MOST and abs(last_ts) <= _MOST
    return bool(is_counted and 0 <= ms_min <= ms_max <= ms_sum * (1 + 1e-6) < float("inf"))


def _swap(path: Path, draft: Path) -> None:
    """Give the old file a second name, then let the new one take its first; a journal must not meet the new file."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    aside = path.with_name(f"{_ASIDE}{stamp}-{os.urandom(2).hex()}.db")
    try:
        os.link(path, aside)
    except OSError:  # a disk without hard links: for a moment there is no database, which is none the worse
        os.replace(path, aside)
    try:
        with suppress(FileNotFoundError):
            os.replace(_journal(path), _journal(aside))
        os.replace(draft, path)
    except OSError:
        if path.exists():
            os.unlink(aside)  # only its second name
        raise


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _aside(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.startswith(_ASIDE) and name.endswith(".db")]


def _remove(database: Path) -> None:
    for path in (database, _journal(database)):
        with suppress(OSError):
            os.unlink(path)
