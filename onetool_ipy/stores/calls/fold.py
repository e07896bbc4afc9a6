"""Append files -> database: what is in the files is added to the tallies and kept as rows, once.

How far each file was read is stored in the same transaction as what was read from it, so a kill at any moment neither
loses nor doubles a call, and any number of processes may fold at once. Tallies are kept for ever, by hour, by day and
in all; of the calls themselves the newest million, or 256 MB. A file that was read to its end and whose owner is gone
is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.stores.calls.append import Reader, open_readers
from onetool_ipy.stores.calls.chunk import COLUMNS, UNKNOWN, encode, is_whole, joined, one_line
from onetool_ipy.stores.calls.database import (
    ALL,
    DAY,
    HOUR,
    KINDS,
    MAX_NUMBER,
    Unusable,
    database_path,
    offsets,
    rows,
    writing,
)
from onetool_ipy.stores.calls.line import Batch, parse
from onetool_ipy.stores.calls.tally import Tally, summed, tally, to_blob, to_histogram

if TYPE_CHECKING:
    import sqlite3

__all__ = ["DAY_US", "HOUR_US", "KEEP", "Keep", "fold", "histogram_of"]

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
    if not any(reader.size() for reader in readers):
        return False
    reached: dict[str, int] = {}
    left = at_most
    with writing(database_path(folder)) as connection:
        known = offsets(connection, {reader.name: reader.size() for reader in readers})
        for reader in readers:
            begin = reached[reader.name] = known.get(reader.name, 0)
            damaged = 0
            for batch, end in _batches(reader, begin):
                _add(connection, batch)
                damaged += batch.damaged
                left -= end - reached[reader.name]
                reached[reader.name] = end
                if left <= 0:
                    break
            if reached[reader.name] != begin:
                _note_file(connection, reader.name, reached[reader.name], damaged)
            if left <= 0:
                break
        _forget_files(connection, {reader.name for reader in readers})
        _keep_newest(connection, keep)
    for reader in readers:
        if reader.name in reached:
            reader.delete_if_done(reached[reader.name])
    return left <= 0


def histogram_of(blob: Any) -> int:
    """A histogram from `tallies`. Raises Unusable where it is none."""
    try:
        return to_histogram(blob)
    except (ValueError, TypeError) as exc:
        raise Unusable(Path("calls.db"), "damaged") from exc


def _batches(reader: Reader, offset: int) -> Iterator[tuple[Batch, int]]:
    for data, end in reader.blocks(offset):
        yield parse(data), end


def _add(connection: sqlite3.Connection, batch: Batch) -> None:
    if len(batch):
        numbers = _word_numbers(connection, {*batch.source, *batch.code, *batch.reason, *_found(batch)}, _MAX_WORDS)
        numbers |= _word_numbers(connection, set(batch.tool) - numbers.keys(), _MAX_WRONG_NAMES)
        _add_tallies(connection, batch, numbers)
        _add_rows(connection, batch, encode(batch, numbers))
    if batch.handles:
        chunk = connection.execute("SELECT coalesce(max(id), 0) FROM chunks").fetchone()[0]
        later = [(one_line(call_id), handle, chunk) for call_id, handle in batch.handles.items()]
        connection.executemany("INSERT OR REPLACE INTO handles VALUES (?, ?, ?)", later)


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
    hours = (ts - ts % HOUR_US for ts in batch.ts)
    tools = (numbers[tool] for tool in batch.tool)
    cells = tally(batch, zip(hours, tools, strict=True))
    levels = summed(
        (key, part)
        for (hour, tool), part in cells.items()
        for key in ((ALL, 0, tool), (DAY, hour - hour % DAY_US, tool), (HOUR, hour, tool))
    )
    known: dict[tuple[int, int, int], Tally] = {}
    for level, start in {key[:2] for key in levels}:
        for tool, *sums, blob in rows(connection, KINDS["tallies"][2:], _SELECT, (level, start)):
            known[level, start, tool] = Tally._make((*sums, histogram_of(blob)))
    fresh = [(*key, *_stored(known[key].plus(part) if key in known else part)) for key, part in levels.items()]
    connection.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fresh)


def _stored(tally: Tally) -> tuple[Any, ...]:
    return (*tally[:-1], to_blob(tally.histogram))


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


def _note_file(connection: sqlite3.Connection, name: str, offset: int, damaged: int) -> None:
    connection.execute(
        "INSERT INTO files VALUES (?, ?, ?, ?) ON CONFLICT(name) DO UPDATE"
        " SET offset = excluded.offset, damaged = damaged + excluded.damaged, at = excluded.at",
        (name, offset, damaged, int(time.time())),
    )


def _forget_files(connection: sqlite3.Connection, present: set[str]) -> None:
    """Forget files that are gone, a day late: somebody who is reading may have one of them open still."""
    old = rows(connection, (str,), "SELECT name FROM files WHERE at < ?", (int(time.time()) - _FORGET_FILE_S,))
    gone = [(name,) for (name,) in old if name not in present]
    connection.executemany("DELETE FROM files WHERE name = ?", gone)


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
