"""A damaged database: it is set aside whole, and a new one takes its place with all of it that can be read.

Sums and single calls are kept apart and each is made anew from the other: of a table that is damaged, the rows that
can be read are taken from both of its ends; sums that are lost are counted from the single calls; append files are read
again for calls that are lost, and no call counts twice. A first page that is lost is the same in each new database, so
a new one's takes its place. The new file takes the old one's place in one step, under a lock, and only if nobody else
has done it.
"""

from __future__ import annotations

import os
import shutil
import time
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.core.model import Problem
from onetool_ipy.stores.calls.append import End, Reader, open_readers
from onetool_ipy.stores.calls.chunk import COLUMNS, WIDTHS, decode
from onetool_ipy.stores.calls.database import (
    ALL,
    DAY,
    END,
    HOUR,
    KINDS,
    MAX_NUMBER,
    Unusable,
    attempt,
    database_path,
    salvaging,
    writing,
)
from onetool_ipy.stores.calls.fold import (
    DAY_US,
    add,
    add_rows,
    cells_of,
    histogram_of,
    note_file,
    unseen,
    write_cells,
)
from onetool_ipy.stores.calls.line import Batch, parse
from onetool_ipy.stores.calls.tally import EMPTY, Tally, summed
from onetool_ipy.stores.files import StoreError, locked

if TYPE_CHECKING:
    import sqlite3

__all__ = ["identity", "mend", "set_aside_files"]

_Cells = dict[tuple[int, int, int], Tally]
"""What calls add up to, by level, start and the number of the tool."""

_KEYS = {
    "words": "id",
    "marks": "name",
    "files": "name",
    "tallies": "level, start, tool",
    "chunks": "id",
    "handles": "call_id",
}
_DRAFT, _PATCHED = ".calls-draft.db", ".calls-patched.db"
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
    with writing(draft):
        pass
    for source in (path, path.with_name(_PATCHED)):
        try:
            if source != path:
                _copy_with_first_page(path, draft, source)
            with salvaging(source) as old:
                names, _ = attempt(old, "SELECT name FROM sqlite_master")
                if {name for (name,) in names} >= KINDS.keys():
                    with writing(draft) as new:
                        _copy(old, new, path.parent)
                    return
        except Unusable as exc:
            if exc.path == draft:
                raise
        finally:
            if source != path:
                _remove(source)
    with writing(draft) as new:
        _count_again(new, path.parent)


def _copy_with_first_page(path: Path, template: Path, copy: Path) -> None:
    """Copy a database whose first page is lost, with the first page of a new one."""
    _remove(copy)
    descriptor = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    with os.fdopen(descriptor, "r+b") as file, path.open("rb") as old:
        shutil.copyfileobj(old, file)
        first = template.read_bytes()
        page = int.from_bytes(first[16:18], "big") or 1 << 16
        count = max(1, file.tell() // page)
        file.seek(0)
        file.write(first[:28] + count.to_bytes(4, "big") + first[32:page])


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, folder: Path) -> None:
    for table in ("words", "marks", "handles"):
        _insert(new, table, _rows_of(old, table)[0])
    have_all_rows = _copy_chunks(old, new)
    tallies, have_all_tallies = _tallies_of(old)
    _name_numbers(new, {tool for _, _, tool in tallies})
    if have_all_tallies:
        write_cells(new, tallies)
    files, have_all_files = _rows_of(old, "files")
    marks = dict(attempt(new, "SELECT name, value FROM marks")[0])
    known = {name: (End(offset, marks.get(END + name)), damaged) for name, offset, damaged, _ in files}
    for reader in open_readers(folder):
        end, damaged = known.pop(reader.name, (End(), 0))
        if reader.name in {row[0] for row in files} and reader.still_has(end):
            _add_lost_rows(new, reader, end.offset) if not have_all_rows else None
            note_file(new, reader, end.offset, damaged)
        elif not have_all_files or reader.name in {row[0] for row in files}:
            _read_again(new, reader, add if have_all_rows and have_all_tallies else add_rows)
    _insert(new, "files", [row for row in files if row[0] in known])
    if not have_all_tallies:
        write_cells(new, _rebuilt(new, tallies))


def _count_again(new: sqlite3.Connection, folder: Path) -> None:
    """Nothing of the database can be read: count what the append files hold."""
    for reader in open_readers(folder):
        _read_again(new, reader, add)


def _rows_of(old: sqlite3.Connection, table: str) -> tuple[list[Any], bool]:
    """The rows of a table that are as we write them, read from both ends, and whether these are all."""
    key = _KEYS[table]
    found, are_all = attempt(old, f"SELECT * FROM {table} ORDER BY {key}")
    if not are_all:
        backwards = key.replace(",", " DESC,") + " DESC"
        found = list(dict.fromkeys(found + attempt(old, f"SELECT * FROM {table} ORDER BY {backwards}")[0]))
    right = [row for row in found if tuple(map(type, row)) == KINDS[table]]
    if table == "words":
        right = [row for row in right if 0 < row[0] <= MAX_NUMBER]
    return right, are_all and len(right) == len(found)


def _insert(new: sqlite3.Connection, table: str, rows: list[Any]) -> None:
    marks = ", ".join("?" * len(KINDS[table]))
    new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


def _copy_chunks(old: sqlite3.Connection, new: sqlite3.Connection) -> bool:
    """Copy the single calls, chunk by chunk; True where all of them could be read."""
    noted, _ = _rows_of(old, "chunks")
    listed, are_all = attempt(old, "SELECT id FROM columns ORDER BY id")
    if not are_all:
        listed += attempt(old, "SELECT id FROM columns ORDER BY id DESC")[0]
    numbers = sorted({number for (number,) in listed if 0 < number < _MOST_CALLS})
    for number in numbers:
        columns = _columns_of(old, number)
        batch = decode(columns, {}) if columns is not None else None
        if columns is None or batch is None:
            are_all = False
            continue
        for name in ("tool", "source", "code", "reason"):
            _name_numbers(new, set(array("H", columns[name])))
        size = sum(map(len, columns.values()))
        _insert(new, "chunks", [(number, len(batch), size, min(batch.ts), max(batch.ts))])
        _insert(new, "columns", [(number, *(columns[name] for name in COLUMNS))])
    return are_all and {row[0] for row in noted} <= set(numbers)


def _columns_of(old: sqlite3.Connection, number: int) -> dict[str, bytes] | None:
    """The columns of a chunk; texts that cannot be read are blank."""
    columns: dict[str, bytes] = {}
    for name in COLUMNS:
        found, _ = attempt(old, f"SELECT {name} FROM columns WHERE id = ?", (number,))
        if found and type(found[0][0]) is bytes:
            columns[name] = found[0][0]
        elif name in WIDTHS:
            return None
    blank = b"\n" * (len(columns["flags"]) - 1)
    columns = {name: columns.get(name, blank) for name in COLUMNS}
    texts = [name for name in COLUMNS if name not in WIDTHS and columns[name].count(b"\n") != len(blank)]
    return columns | dict.fromkeys(texts, blank)


def _name_numbers(new: sqlite3.Connection, numbers: set[int]) -> None:
    """Give numbers a word whose own is lost, so that no new word gets the same."""
    _insert(new, "words", [(number, f"(unknown {number})") for number in sorted(numbers) if 0 < number <= MAX_NUMBER])


def _tallies_of(old: sqlite3.Connection) -> tuple[_Cells, bool]:
    """The sums that calls can add up to, and whether none is missing: each level has the same calls of each tool."""
    found, are_all = _rows_of(old, "tallies")
    cells = {row[:3]: Tally._make((*row[3:-1], histogram_of(row[-1]))) for row in found if _is_tally(row)}
    calls = {level: Counter[int]() for level in (ALL, DAY, HOUR)}
    for (level, _, tool), part in cells.items():
        calls.get(level, Counter())[tool] += part.calls
    return cells, are_all and len(cells) == len(found) and calls[ALL] == calls[DAY] == calls[HOUR]


def _rebuilt(new: sqlite3.Connection, stored: _Cells) -> _Cells:
    """All sums, from those that are left and the single calls: of two for one thing, the one with more calls."""
    counted: _Cells = {}
    for number, tools in attempt(new, "SELECT id, tool FROM columns")[0]:
        columns = _columns_of(new, number)
        batch = decode(columns, {}) if columns is not None else None
        if batch is not None:
            counted = summed(chain(counted.items(), cells_of(batch, array("H", tools)).items()))
    hours = _larger(HOUR, stored, counted)
    days = _larger(
        DAY, stored, counted, summed(((DAY, start - start % DAY_US, t), p) for (_, start, t), p in hours.items())
    )
    whole = _larger(ALL, stored, counted, summed(((ALL, 0, tool), part) for (_, _, tool), part in days.items()))
    return hours | days | whole


def _larger(level: int, *parts: _Cells) -> _Cells:
    out: _Cells = {}
    for key, part in chain.from_iterable(cells.items() for cells in parts):
        if key[0] == level and part.calls > out.get(key, EMPTY).calls:
            out[key] = part
    return out


def _add_lost_rows(new: sqlite3.Connection, reader: Reader, offset: int) -> None:
    """Take from the part of an append file that was counted the single calls that are lost."""
    for data, end in reader.blocks(0):
        counted = parse(data[: max(0, offset - (end - len(data)))])
        add_rows(new, unseen(new, counted))


def _read_again(new: sqlite3.Connection, reader: Reader, take: Callable[[sqlite3.Connection, Batch], None]) -> None:
    """Take the calls of an append file of which nobody knows how far it was read."""
    offset = damaged = 0
    for data, end in reader.blocks(0):
        batch = parse(data)
        take(new, unseen(new, batch))
        offset, damaged = end, damaged + batch.damaged
    note_file(new, reader, offset, damaged)


def _is_tally(row: tuple[Any, ...]) -> bool:
    """Whether a row is one that calls can add up to."""
    level, _, _, calls, failures, ms_sum, ms_min, ms_max, size, last_ts, blob = row
    try:
        part = Tally._make((*row[3:-1], histogram_of(blob)))
    except Unusable:
        return False
    is_counted = 0 <= failures <= calls <= _MOST_CALLS and 0 <= size <= _MOST and abs(last_ts) <= _MOST
    is_timed = bool(0 <= ms_min <= ms_max <= ms_sum * (1 + 1e-6) < float("inf"))
    return level in (ALL, DAY, HOUR) and is_counted and is_timed and part.is_sound


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
