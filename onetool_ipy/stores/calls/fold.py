"""Append files -> database: what is in the files is added to the tallies and kept as rows, once.

How far each file was read is stored in the same transaction as what was read from it, so a kill at any moment neither
loses nor doubles a call, and any number of processes may fold at once. The file is synced before the transaction ends.
A file that was cut or changed since is read again; calls that the database has do not count twice. Tallies are kept
for ever, by hour, by day and in all; of the calls themselves the newest million, or 256 MB. A file that was read to its
end and whose owner is gone is deleted.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.stores.calls.append import End, Reader, open_readers
from onetool_ipy.stores.calls.chunk import COLUMNS, UNKNOWN, encode, is_whole, joined, lines, one_line
from onetool_ipy.stores.calls.database import (
    ALL,
    DAY,
    END,
    HOUR,
    KINDS,
    MAX_NUMBER,
    Unusable,
    database_path,
    ends,
    rows,
    writing,
)
from onetool_ipy.stores.calls.line import FIELDS, Batch, parse
from onetool_ipy.stores.calls.tally import Tally, summed, tally, to_blob, to_histogram

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "DAY_US",
    "HOUR_US",
    "KEEP",
    "Keep",
    "add",
    "add_rows",
    "cells_of",
    "fold",
    "histogram_of",
    "note_file",
    "unseen",
    "write_cells",
]

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_SELECT = (
    "SELECT tool, calls, failures, ms_sum, ms_min, ms_max, size, last_ts, histogram FROM tallies"
    " WHERE level = ? AND start = ?"
)
_CHUNK_ROWS = 2048
_MAX_WORDS = 60_000
_MAX_WRONG_NAMES = 1000
_AT_ONCE = 16 << 20
_FORGET_FILE_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of the single calls is kept: at least so many of the newest, but not more than so many bytes."""

    calls: int = 1_000_000
    bytes: int = 256 << 20


KEEP = Keep()


def fold(folder: Path, *, keep: Keep = KEEP, at_most: int = _AT_ONCE) -> bool:
    """Add what the append files hold, at most so many bytes; True where there is more. Raises Unusable."""
    readers = open_readers(folder)
    if not readers:
        return False
    reached: dict[str, int] = {}
    left = at_most
    with writing(database_path(folder)) as connection:
        known = ends(connection)
        for reader in readers:
            end = known.get(reader.name, End())
            reached[reader.name] = _fold_file(connection, reader, end, left)
            left -= max(0, reached[reader.name] - end.offset)
            if left <= 0:
                break
        _forget_files(connection, {reader.name for reader in readers})
        _keep_newest(connection, keep)
    for reader in readers:
        if reader.name in reached:
            reader.delete_if_done(reached[reader.name])
    return left <= 0


def add_rows(connection: sqlite3.Connection, batch: Batch) -> None:
    """Keep the single calls of a batch, without counting them."""
    if len(batch):
        _add_rows(connection, batch, encode(batch, _numbers(connection, batch)))


def add(connection: sqlite3.Connection, batch: Batch) -> None:
    """Count and keep the calls of a batch."""
    if len(batch):
        numbers = _numbers(connection, batch)
        _add_tallies(connection, batch, numbers)
        _add_rows(connection, batch, encode(batch, numbers))
    if batch.handles:
        chunk = connection.execute("SELECT coalesce(max(id), 0) FROM chunks").fetchone()[0]
        later = [(one_line(call_id), handle, chunk) for call_id, handle in batch.handles.items()]
        connection.executemany("INSERT OR REPLACE INTO handles VALUES (?, ?, ?)", later)


def unseen(connection: sqlite3.Connection, batch: Batch) -> Batch:
    """The calls of a batch that the database does not have, by their time and id."""
    if not len(batch):
        return batch
    have: Counter[tuple[int, str]] = Counter()
    near = "SELECT ts, call_id FROM columns WHERE id IN (SELECT id FROM chunks WHERE last_ts >= ? AND first_ts <= ?)"
    for times, call_ids in rows(connection, (bytes, bytes), near, (min(batch.ts), max(batch.ts))):
        have.update(zip(array("q", times), lines(call_ids), strict=False))
    new: list[int] = []
    for place, key in enumerate(zip(batch.ts, map(one_line, batch.call_id), strict=True)):
        if have[key] > 0:
            have[key] -= 1
        else:
            new.append(place)
    columns: list[Any] = [[getattr(batch, name)[place] for place in new] for name in FIELDS]
    return replace(Batch(*columns), handles=batch.handles, damaged=batch.damaged)


def cells_of(batch: Batch, tools: Iterable[int]) -> dict[tuple[int, int, int], Tally]:
    """What the calls of a batch add up to, by level, start and the number of the tool."""
    hours = (ts - ts % HOUR_US for ts in batch.ts)
    cells = tally(batch, zip(hours, tools, strict=True))
    return summed(
        (key, part)
        for (hour, tool), part in cells.items()
        for key in ((ALL, 0, tool), (DAY, hour - hour % DAY_US, tool), (HOUR, hour, tool))
    )


def write_cells(connection: sqlite3.Connection, cells: Mapping[tuple[int, int, int], Tally]) -> None:
    """Store what calls add up to."""
    fresh = [(*key, *part[:-1], to_blob(part.histogram)) for key, part in cells.items()]
    connection.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fresh)


def note_file(connection: sqlite3.Connection, reader: Reader, offset: int, damaged: int) -> None:
    """Note how far an append file was read and how many lines could not be. The file is on the disk before that."""
    reader.sync()
    connection.execute(
        "INSERT INTO files VALUES (?, ?, ?, ?) ON CONFLICT(name) DO UPDATE"
        " SET offset = excluded.offset, damaged = damaged + excluded.damaged, at = excluded.at",
        (reader.name, offset, damaged, int(time.time())),
    )
    connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (END + reader.name, reader.mark(offset) or 0))


def histogram_of(blob: Any) -> int:
    """A histogram from `tallies`. Raises Unusable where it is none."""
    try:
        return to_histogram(blob)
    except (ValueError, TypeError) as exc:
        raise Unusable(Path("calls.db"), "damaged") from exc


def _fold_file(connection: sqlite3.Connection, reader: Reader, known: End, left: int) -> int:
    """Add what stands behind the known end of a file, at most so many bytes, and give the offset behind it.

    A file that was cut or changed is read again from its start, for the calls that the database does not have.
    """
    is_torn = not reader.still_has(known)
    begin = offset = 0 if is_torn else known.offset
    damaged = 0
    for data, end in reader.blocks(begin):
        batch = parse(data)
        add(connection, unseen(connection, batch) if is_torn else batch)
        damaged += batch.damaged
        offset = end
        if offset - begin >= left and not is_torn:
            break
    if is_torn:
        connection.execute("DELETE FROM files WHERE name = ?", (reader.name,))
    if is_torn or offset != begin:
        note_file(connection, reader, offset, damaged)
    return offset


def _numbers(connection: sqlite3.Connection, batch: Batch) -> dict[str, int]:
    numbers = _word_numbers(connection, {*batch.source, *batch.code, *batch.reason, *_found(batch)}, _MAX_WORDS)
    return numbers | _word_numbers(connection, set(batch.tool) - numbers.keys(), _MAX_WRONG_NAMES)


def _found(batch: Batch) -> set[str]:
    """The names under which there was a tool."""
    return {tool for tool, code in zip(batch.tool, batch.code, strict=True) if code != "tool_not_found"}


def _word_numbers(connection: sqlite3.Connection, words: Iterable[str], limit: int) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for word in sorted(words):
        found = rows(connection, (int,), "SELECT id FROM words WHERE text = ?", (word,))
        number = found[0][0] if found else _new_word(connection, word, limit)
        if not 0 < number <= MAX_NUMBER:
            raise Unusable(Path("calls.db"), "damaged")
        numbers[word] = number
    return numbers


def _new_word(connection: sqlite3.Connection, word: str, limit: int) -> int:
    """A number for a new word. There is an end to them: a model may think of a new wrong name each time."""
    if connection.execute("SELECT count(*) FROM words").fetchone()[0] >= limit and word != UNKNOWN:
        return _word_numbers(connection, [UNKNOWN], limit)[UNKNOWN]
    return connection.execute("INSERT INTO words(text) VALUES (?)", (word,)).lastrowid or 0


def _add_tallies(connection: sqlite3.Connection, batch: Batch, numbers: dict[str, int]) -> None:
    fresh = cells_of(batch, (numbers[tool] for tool in batch.tool))
    known: dict[tuple[int, int, int], Tally] = {}
    for level, start in {key[:2] for key in fresh}:
        for tool, *sums, blob in rows(connection, KINDS["tallies"][2:], _SELECT, (level, start)):
            known[level, start, tool] = Tally._make((*sums, histogram_of(blob)))
    if not all(part.is_sound for part in known.values()):
        raise Unusable(Path("calls.db"), "damaged")
    write_cells(connection, {key: known[key].plus(part) if key in known else part for key, part in fresh.items()})


def _add_rows(connection: sqlite3.Connection, batch: Batch, columns: dict[str, bytes]) -> None:
    """Put the calls behind those of the last chunk, or into a new one where that is full."""
    chunk, count, first_ts, last_ts = None, len(batch), min(batch.ts), max(batch.ts)
    last = rows(connection, KINDS["chunks"], "SELECT * FROM chunks ORDER BY id DESC LIMIT 1")
    if last and last[0][1] < _CHUNK_ROWS:
        number, known_count, _, known_first, known_last = last[0]
        found = rows(connection, KINDS["columns"], "SELECT * FROM columns WHERE id = ?", (number,))
        known = dict(zip(COLUMNS, found[0][1:], strict=True)) if found else {}
        if known and is_whole(known):
            columns = {name: joined(name, known[name], columns[name]) for name in COLUMNS}
            chunk, count = number, known_count + count
            first_ts, last_ts = min(first_ts, known_first), max(last_ts, known_last)
    size = sum(map(len, columns.values()))
    insert = "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)"
    chunk = connection.execute(insert, (chunk, count, size, first_ts, last_ts)).lastrowid
    marks = ", ".join("?" * (len(COLUMNS) + 1))
    connection.execute(f"INSERT OR REPLACE INTO columns VALUES ({marks})", (chunk, *(columns[n] for n in COLUMNS)))


def _forget_files(connection: sqlite3.Connection, present: set[str]) -> None:
    """Forget files that are gone, a day late: somebody who is reading may have one of them open still."""
    old = rows(connection, (str,), "SELECT name FROM files WHERE at < ?", (int(time.time()) - _FORGET_FILE_S,))
    gone = [(name,) for (name,) in old if name not in present]
    connection.executemany("DELETE FROM files WHERE name = ?", gone)
    connection.executemany("DELETE FROM marks WHERE name = ?", [(END + name,) for (name,) in gone])


def _keep_newest(connection: sqlite3.Connection, keep: Keep) -> None:
    """Drop the oldest chunks; by the order in which they came, since a clock may have been wrong."""
    kept = size = 0
    dropped: list[tuple[int, int]] = []
    for chunk, count, length, _, last_ts in rows(connection, KINDS["chunks"], "SELECT * FROM chunks ORDER BY id DESC"):
        if dropped or kept >= keep.calls or (kept and size + length > keep.bytes):
            dropped.append((chunk, last_ts))
        kept, size = kept + count, size + length
    if not dropped:
        return
    newest = dropped[0][0]
    connection.execute("DELETE FROM chunks WHERE id <= ?", (newest,))
    connection.execute("DELETE FROM columns WHERE id <= ?", (newest,))
    connection.execute("DELETE FROM handles WHERE chunk <= ?", (newest,))
    connection.execute(
        "INSERT INTO marks VALUES ('dropped_until', ?)"
        " ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
        (max(last_ts for _, last_ts in dropped),),
    )
