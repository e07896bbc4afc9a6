"""Repair: a damaged database is set aside, and a new one takes its place with everything that can be read of it.

Rollups and rows are read apart, and each makes up for the other: lost rollups are counted from the rows, and lost rows
are read again from the journals. Of two rows of the same call the later one is right, which may be a journal's, and of
two rollups of the same calls the larger one. The new file takes the old one's place in one step, under a lock, unless
another process has done it before. A database in the landed format is converted in the same way, and kept beside the
new one.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base.files import StoreError, locked, names_in
from onetool_ipy.core.tool import Problem
from onetool_ipy.stores.calls import landed
from onetool_ipy.stores.calls.database import (
    COLUMNS,
    CallWriter,
    LogUnusable,
    attempt,
    creating,
    database_path,
    identity,
    salvaging,
    to_rollup,
)
from onetool_ipy.stores.calls.journal import JournalEnd, JournalReader, are_calls, open_journals, parse
from onetool_ipy.stores.calls.rollup import DAY_US, Rollup, by_hour_and_tool, by_span, grouped

if TYPE_CHECKING:
    import sqlite3

__all__ = ["repair", "salvage", "set_aside"]

_Cells = dict[tuple[str, int, str], Rollup]
"""Rollups by span, start and tool."""


class _Contents(NamedTuple):
    """What can be read of a database. `calls` gives the rows in parts, and None where some are lost."""

    calls: Iterator[list[Any] | None]
    cells: _Cells
    files: list[Any]
    are_all_cells: bool = False
    are_all_files: bool = False


_KEYS = {"handles": "call_id", "rollups": "span, start, tool", "files": "name", "state": "name"}
_DRAFT, _PATCHED = ".calls-draft.db", ".calls-patched.db"
_ASIDE, _LANDED = "calls-damaged-", "calls-landed-"
_KEEP_ASIDE = 2
_SLICE, _MOST_ROWS, _MOST_FAILURES = 10_000, 100, 50_000
"""How many ids are read at a time, how many rows a page may hold, and how often a range is halved at most."""

_DELETE_TWINS = "DELETE FROM calls WHERE id NOT IN (SELECT max(id) FROM calls GROUP BY call_id)"
_WAIT_S = 60.0


def repair(folder: Path, seen: int | None) -> None:
    """Replace a damaged or landed database, unless it is no longer the file that was `seen`. Raises StoreError."""
    path, draft = database_path(folder), folder / _DRAFT
    with locked(path, _WAIT_S):
        if identity(path) != seen:
            return
        _remove(draft)  # of a process that was killed here
        try:
            with salvaging(path) as old:
                is_landed = landed.freeze(old)
                attempt(old, "BEGIN IMMEDIATE")  # so that nobody folds into the file that is set aside
                with creating(draft) as new:
                    is_whole = salvage(old, new, path)
                _swap(path, draft, _LANDED if is_landed and is_whole else _ASIDE)
        except OSError as exc:
            raise StoreError.of(path, exc) from exc
        except LogUnusable as exc:
            raise StoreError(path, exc.message) from exc
        finally:
            _remove(draft)
        for old_file in _aside(folder)[:-_KEEP_ASIDE]:
            _remove(old_file)


def set_aside(folder: Path) -> list[Problem]:
    """Report the damaged databases that were set aside and are still there."""
    said = "this call log was damaged and set aside; what could be read of it is still counted."
    return [Problem(str(path), said, "Delete it if you do not need it.") for path in _aside(folder)]


def salvage(old: sqlite3.Connection, new: sqlite3.Connection, path: Path) -> bool:
    """Copy what can be read of a database and its journals into an empty one; True if that is everything."""
    journals = open_journals(path.parent)
    names = {name for (name,) in attempt(old, "SELECT name FROM sqlite_master")[0]}
    if names >= landed.TABLES:
        return _copy_landed(old, new, journals)
    if names >= COLUMNS.keys():
        return _copy(old, new, journals)
    copy = path.with_name(_PATCHED)
    try:
        _copy_with_first_page(path, copy)
        with salvaging(copy) as patched:
            return _copy(patched, new, journals)
    except (OSError, LogUnusable) as exc:
        if isinstance(exc, LogUnusable) and exc.path != copy:
            raise
    finally:
        _remove(copy)
    return _fill(new, journals, _Contents(iter([None]), {}, []))


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, journals: Sequence[JournalReader]) -> bool:
    for table in ("handles", "state"):
        _insert(new, table, _rows_of(old, table)[0])
    cells, are_all_cells = _rollups_of(old)
    files, are_all_files = _rows_of(old, "files")
    total = cells.get(("all", 0, ""), Rollup()).calls
    return _fill(new, journals, _Contents(_calls_of(old, total), cells, files, are_all_cells, are_all_files))


def _copy_landed(old: sqlite3.Connection, new: sqlite3.Connection, journals: Sequence[JournalReader]) -> bool:
    cells, are_all_cells = landed.rollups(old)
    files, are_all_files = landed.files(old)
    _insert(new, "state", landed.state(old))
    are_all_cells = are_all_cells and _is_consistent(cells)
    is_whole = _fill(new, journals, _Contents(landed.calls(old), cells, files, are_all_cells, are_all_files))
    last = new.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()[0]
    _insert(new, "handles", [(*row, last) for row in landed.handles(old)])
    return is_whole


def _fill(new: sqlite3.Connection, journals: Sequence[JournalReader], found: _Contents) -> bool:
    """Write what was read of a database, and make up for what was lost; True if nothing was."""
    writer = CallWriter(new)
    writer.write_rollups(found.cells)
    are_all_rows = True
    for part in found.calls:
        are_all_rows = are_all_rows and part is not None
        writer.add_rows(part or [])
    are_rollups_right = found.are_all_cells
    known = {name: (JournalEnd(offset, mark), damaged) for name, offset, mark, damaged, _ in found.files}
    for journal in journals:
        end, damaged = known.get(journal.name, (JournalEnd(), 0))
        if journal.name in known and journal.still_has(end):
            if not are_all_rows:
                _read_again(writer, journal, end.offset)
            writer.note_file(journal, end.offset, damaged)
        elif journal.name in known or not found.are_all_files:
            writer.note_file(journal, *_read_again(writer, journal))
            are_rollups_right = False  # some of these calls may not be counted yet
    if not (are_all_rows and are_rollups_right):
        new.execute(_DELETE_TWINS)
    present = {journal.name for journal in journals}
    _insert(new, "files", [(row[0], row[1], row[2] or 0, *row[3:]) for row in found.files if row[0] not in present])
    if not are_rollups_right:
        writer.write_rollups(_rebuilt(new, found.cells))
    return are_all_rows and found.are_all_cells and found.are_all_files


def _copy_with_first_page(path: Path, copy: Path) -> None:
    """Copy a database whose first page is lost; the first page is the same in each new database."""
    _remove(copy)
    with creating(copy):
        pass
    first = copy.read_bytes()
    with copy.open("r+b") as file, path.open("rb") as old:
        file.truncate(0)
        shutil.copyfileobj(old, file)
        page = int.from_bytes(first[16:18], "big") or 1 << 16
        count = max(1, file.tell() // page)
        file.seek(0)
        file.write(first[:28] + count.to_bytes(4, "big") + first[32:page])


def _rows_of(old: sqlite3.Connection, table: str) -> tuple[list[Any], bool]:
    """Read the valid rows of a table from both of its ends, and tell whether these are all."""
    key = _KEYS[table]
    found, are_all = attempt(old, f"SELECT * FROM {table} ORDER BY {key}")
    if not are_all:
        backwards = key.replace(",", " DESC,") + " DESC"
        found = list(dict.fromkeys(found + attempt(old, f"SELECT * FROM {table} ORDER BY {backwards}")[0]))
    valid = [row for row in found if tuple(map(type, row)) == COLUMNS[table]]
    return valid, are_all and len(valid) == len(found)


def _insert(new: sqlite3.Connection, table: str, rows: list[Any]) -> None:
    marks = ", ".join("?" * len(COLUMNS[table]))
    new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


def _calls_of(old: sqlite3.Connection, total: int) -> Iterator[list[Any] | None]:
    """Read the calls by ranges of their ids; a range that cannot be read is halved, down to single calls."""
    failures = 0
    (first,), (last,), (pages,) = (
        (attempt(old, asked)[0] or [(0,)])[0]
        for asked in ("SELECT min(id) FROM calls", "SELECT max(id) FROM calls", "PRAGMA page_count")
    )
    first = first or 0
    most = first + _MOST_ROWS * pages
    last = min(most, last or max(total, most))
    pending = [(start, min(start + _SLICE, last + 1) - 1) for start in range(first, last + 1, _SLICE)][::-1]
    while pending:
        start, stop = pending.pop()
        where = "id BETWEEN ? AND ? ORDER BY id" if stop > start else "id = ?"  # which looks at no other row
        found, are_all = attempt(old, f"SELECT * FROM calls WHERE {where}", (start, stop) if stop > start else (start,))
        failures += not are_all
        if not are_all and stop > start and failures < _MOST_FAILURES:
            middle = (start + stop) // 2
            pending += [(middle + 1, stop), (start, middle)]
            continue
        calls = [_to_call(row) for row in found]
        valid = calls if not calls or are_calls(calls) else [call for call in calls if are_calls([call])]
        yield valid
        if not are_all or len(valid) < len(found):
            yield None


def _to_call(row: Sequence[Any]) -> list[Any]:
    """Give a row of `calls` as the line that it came from."""
    _, ts, call_id, tool, source, args, args_whole, ok, code, reason, ms, size, handle = row
    texts = code or "", reason or "", handle or ""
    return [ts, call_id, tool, source, args, bool(args_whole), bool(ok), *texts[:2], ms, size, texts[2]]


def _rollups_of(old: sqlite3.Connection) -> tuple[_Cells, bool]:
    """Read the rollups that calls can add up to, and tell whether none is missing."""
    found, are_all = _rows_of(old, "rollups")
    cells: _Cells = {}
    for row in found:
        with suppress(LogUnusable):
            cell = to_rollup(row[3:])
            if cell.is_valid():
                cells[row[:3]] = cell
    return cells, are_all and len(cells) == len(found) and _is_consistent(cells)


def _is_consistent(cells: _Cells) -> bool:
    """Whether each span has the same calls of each tool, and all tools together as many as each of them."""
    calls = {span: Counter[str]() for span in ("all", "day", "hour")}
    for (span, _, tool), cell in cells.items():
        calls.setdefault(span, Counter())[tool] += cell.calls
    return all(one == calls["all"] and 2 * one[""] == one.total() for one in calls.values())


def _rebuilt(new: sqlite3.Connection, stored: _Cells) -> _Cells:
    """Make all rollups from those that are left and from the rows: of two for the same calls, the larger one."""
    hours: list[tuple[tuple[int, str], Rollup]] = []
    cursor = new.execute("SELECT ts, tool, ok, ms, size FROM calls")
    while part := cursor.fetchmany(_SLICE):
        hours += by_hour_and_tool(part).items()
    counted = by_span(grouped(hours))
    by_hour = _larger("hour", stored, counted)
    sums = grouped((("day", start - start % DAY_US, tool), cell) for (_, start, tool), cell in by_hour.items())
    by_day = _larger("day", stored, counted, sums)
    sums = grouped((("all", 0, tool), cell) for (_, _, tool), cell in by_day.items())
    return by_hour | by_day | _larger("all", stored, counted, sums)


def _larger(span: str, *parts: _Cells) -> _Cells:
    out: _Cells = {}
    for cells in parts:
        for key, cell in cells.items():
            if key[0] == span and (key not in out or cell.calls > out[key].calls):
                out[key] = cell
    return out


def _read_again(writer: CallWriter, journal: JournalReader, most: int = sys.maxsize) -> tuple[int, int]:
    """Add rows and handles of a journal up to an offset; give the offset that was reached and the invalid lines."""
    offset = damaged = 0
    for data, end in journal.blocks(0):
        lines = parse(data[: max(0, most - (end - len(data)))])
        writer.add_rows(lines.calls)
        writer.add_handles(lines.handles)
        offset, damaged = end, damaged + lines.damaged
    return offset, damaged


def _swap(path: Path, draft: Path, prefix: str) -> None:
    """Give the old file a second name, then give its first one to the new file, which must not meet its journal."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    aside = path.with_name(f"{prefix}{stamp}-{os.urandom(2).hex()}.db")
    try:
        os.link(path, aside)
    except OSError:  # on a disk without hard links there is no database for a moment, which does no harm
        os.replace(path, aside)
    try:
        with suppress(FileNotFoundError):
            os.replace(_journal_of(path), _journal_of(aside))
        os.replace(draft, path)
    except OSError:
        if path.exists():
            os.unlink(aside)  # only its second name
        raise


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def _aside(folder: Path) -> list[Path]:
    return [folder / name for name in names_in(folder) if name.startswith(_ASIDE) and name.endswith(".db")]


def _remove(database: Path) -> None:
    for path in (database, _journal_of(database)):
        with suppress(OSError):
            os.unlink(path)
