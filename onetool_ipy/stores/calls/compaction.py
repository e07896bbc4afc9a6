"""Compaction: bring the database up to the journals, close full journals, let old ones expire.

`Compactor.ask` answers a question about the log: it compacts, then asks the database. On any doubt about the database
(its version, an error of SQLite, a value that we never wrote, figures that do not fit the journals) it is deleted and
made again, and a line says so. Where it cannot be written (a full or read-only disk), it is made in memory for that one
question.

All of this happens under one lock between processes. Callers who record never wait for it.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from onetool_ipy.base.files import StoreError, locked, write_whole
from onetool_ipy.base.records import collector_paused
from onetool_ipy.stores.calls import database
from onetool_ipy.stores.calls.database import DOUBTS, CallWriter, DatabaseDoubtful, counted_cells, transaction
from onetool_ipy.stores.calls.journal import FIELDS, JournalFile, journals_in, parse
from onetool_ipy.stores.calls.rollup import Rollup, by_hour_and_tool, grouped

Answer = TypeVar("Answer")

_log = logging.getLogger("onetool_ipy.calls")
_TS = FIELDS.index("ts")
_LONG_AGO = -(1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many of the newest calls are kept one by one, and how many bytes their journals may have."""

    calls: int = 1_000_000
    bytes: int = 512 << 20


class Compaction(NamedTuple):
    """How a compaction went: how many calls are not in the database yet, and what prevented it.

    The database is busy if another connection kept it all the time, which is nobody's fault.
    """

    pending: int = 0
    fault: StoreError | None = None
    is_busy: bool = False


class _Journal(NamedTuple):
    """A row of `journals`."""

    number: int
    name: str
    state: str
    offset: int
    calls: int
    damaged: int
    last_ts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts the call log of a folder, `step_bytes` at a time."""

    folder: Path
    retention: Retention
    rotate_bytes: int
    step_bytes: int

    def ask(self, question: Callable[[sqlite3.Connection], Answer], patience_s: float) -> tuple[Answer, Compaction]:
        """Compact, then answer a question. Raises StoreError if the journals cannot be read."""
        path = database.database_path(self.folder)
        compaction = Compaction()
        for _ in range(2):
            compaction = self.compact(patience_s)
            if compaction.fault is not None or compaction.is_busy or not path.exists():
                break
            try:
                with database.reading(path) as connection:
                    return question(connection), compaction
            except DOUBTS as exc:
                compaction = self._discard(exc)
        try:
            with database.writing(None) as connection:
                _add_journals(connection, journals_in(self.folder), sys.maxsize)
                return question(connection), Compaction(0, compaction.fault)
        except OSError as exc:
            raise StoreError.of(self.folder, exc, doing="read") from exc

    def compact(self, patience_s: float) -> Compaction:
        """Bring journals into the database for `patience_s`, and make it again if needed. Never raises for a disk."""
        deadline, compaction = time.monotonic() + patience_s, Compaction()
        for _ in range(2):
            try:
                # In steps, so that a question of another process need not wait for all of them.
                while (left := self._compact()) and time.monotonic() < deadline:
                    pass
                return Compaction(self._pending() if left else 0)
            except DOUBTS as exc:
                compaction = self._discard(exc)
                if compaction.is_busy:
                    break
            except OSError as exc:
                return Compaction(0, StoreError.of(self.folder, exc))
            except StoreError as exc:
                return Compaction(0, exc)
        return compaction

    def _compact(self) -> int:
        path = database.database_path(self.folder)
        if not self.folder.is_dir():  # looking makes no folder
            return 0
        with locked(path):
            if path.is_symlink() or (path.exists() and not path.is_file()):
                path.unlink()  # nothing but our own file belongs there
            with database.writing(path) as connection:
                files = journals_in(self.folder)
                left = _add_journals(connection, files, self.step_bytes)
                full = [file for file in files.values() if file.state == "open" and file.size >= self.rotate_bytes]
                if full and not left:
                    for file in full:
                        file.close()
                    _expire(connection, journals_in(self.folder), self.retention)
        return left

    def _pending(self) -> int:
        """Count the calls that are on disk and not in the database."""
        with database.reading(database.database_path(self.folder)) as connection:
            rows = {row[1]: _Journal(*row) for row in connection.execute("SELECT * FROM journals")}
        pending = 0
        for file in journals_in(self.folder).values():
            row = rows.get(file.name)
            if file.state != "expired":
                pending += sum(data.count(b"\n") for data, _ in file.lines(row.offset if row else 0))
            elif row is None or not row.state:
                pending += sum(cell.calls for _, cell in _read_sums(file)[0])
        return pending

    def _discard(self, exc: Exception) -> Compaction:
        """Delete the database, which is in doubt, unless it is only busy or the disk is to blame."""
        path = database.database_path(self.folder)
        if database.is_busy(exc):
            return Compaction(is_busy=True)
        if database.is_fault_of_disk(exc):
            return Compaction(0, StoreError(path, str(exc)))
        try:
            with locked(path):
                database.delete(path)
        except OSError as failure:
            return Compaction(0, StoreError.of(path, failure))
        except StoreError as failure:
            return Compaction(0, failure)
        reason = exc if isinstance(exc, DatabaseDoubtful) else "it is damaged"
        _log.warning("The call log's database '%s' is made again from its journals: %s.", path, reason)
        return Compaction()


def _add_journals(connection: sqlite3.Connection, files: Mapping[str, JournalFile], most_bytes: int) -> int:
    """Add what the journals have and the database has not, the newest journals first. Give the bytes left over.

    Raises one of DOUBTS if the database has calls that the journals have not.
    """
    rows = {row[1]: _Journal(*row) for row in connection.execute("SELECT * FROM journals")}
    total = connection.execute("SELECT calls FROM rollups WHERE span = 'all' AND tool = ''").fetchone()
    if sum(row.calls for row in rows.values()) != (total[0] if total else 0):
        raise DatabaseDoubtful("its sums do not fit its journals")
    if not rows.keys() <= files.keys():
        raise DatabaseDoubtful("a journal is gone")
    news = []
    for file in files.values():
        row = rows.get(file.name) or _Journal(0, file.name, "", 0, 0, 0, _LONG_AGO)
        if file.state == "open" and file.size < row.offset:
            raise DatabaseDoubtful("a journal is shorter than it was")
        if file.state != row.state or (file.state == "open" and file.size > row.offset):
            news.append((file, row))
    if not news:
        return 0
    left = 0
    # A run of the collector over a notebook's objects would hold up the callers.
    with collector_paused(), transaction(connection):
        # All are numbered by their age, though the newest are read first: then ids follow the time of the calls.
        insert = "INSERT INTO journals(name, state, offset, calls, damaged, last_ts) VALUES (?, '', 0, 0, 0, ?)"
        for place, (file, row) in enumerate(news):
            if not row.number:
                number = connection.execute(insert, (row.name, _LONG_AGO)).lastrowid or 0
                news[place] = file, row._replace(number=number)
        writer = CallWriter(connection)
        for file, row in reversed(news):
            if most_bytes > 0:
                most_bytes -= _add_journal(connection, writer, file, row)
            else:
                left += file.path.stat().st_size - (row.offset if file.state == "open" else 0)
        writer.finish()
    return left


def _add_journal(connection: sqlite3.Connection, writer: CallWriter, file: JournalFile, row: _Journal) -> int:
    """Add what is new in a journal. Give the bytes that were read."""
    if file.state == "expired":
        return _add_expired(connection, writer, file, row)
    offset, calls, damaged, last_ts = row[3:]
    for data, end in file.lines(row.offset):
        lines = parse(data)
        calls += writer.add(row.number, offset, lines)
        offset, damaged = end, damaged + lines.damaged
        last_ts = max([last_ts, *(call[_TS] for call in lines.calls)])
    update = "UPDATE journals SET state = ?, offset = ?, calls = ?, damaged = ?, last_ts = ? WHERE number = ?"
    connection.execute(update, (file.state, offset, calls, damaged, last_ts, row.number))
    return offset - row.offset


def _add_expired(connection: sqlite3.Connection, writer: CallWriter, file: JournalFile, row: _Journal) -> int:
    """Add the sums of an expired journal. Give the bytes that were read.

    Calls that were counted when they had rows stay counted, and only lose their rows.
    """
    if row.state:
        connection.execute("DELETE FROM calls WHERE id BETWEEN ? AND ?", (row.number << 32, (row.number + 1 << 32) - 1))
        connection.execute("DELETE FROM handles WHERE journal = ?", (row.number,))
        connection.execute("UPDATE journals SET state = 'expired' WHERE number = ?", (row.number,))
        return 0
    hours, damaged = _read_sums(file)
    writer.add_sums(hours)
    update = "UPDATE journals SET state = 'expired', calls = ?, damaged = ? WHERE number = ?"
    connection.execute(update, (sum(cell.calls for _, cell in hours), damaged, row.number))
    return file.path.stat().st_size


def _read_sums(file: JournalFile) -> tuple[list[tuple[tuple[int, str], Rollup]], int]:
    """Read the sums of an expired journal. Give them, and how many lines are damaged."""
    from orjson import JSONDecodeError, loads

    hours, damaged = [], 0
    for line in file.path.read_bytes().splitlines():
        try:
            hour, tool, *cell = loads(line)
            hours.append(((int(hour), str(tool)), Rollup(*cell)))
        except (JSONDecodeError, TypeError, ValueError):
            damaged += 1
    return hours, damaged


def _expire(connection: sqlite3.Connection, files: Mapping[str, JournalFile], retention: Retention) -> None:
    """Replace the oldest closed journals by their sums, as far as there are too many newer calls."""
    from orjson import dumps

    calls = size = 0
    for row in connection.execute("SELECT * FROM journals WHERE state <> 'expired' ORDER BY last_ts DESC").fetchall():
        journal, file = _Journal(*row), files[row[1]]
        is_old = calls >= retention.calls or size + journal.offset > retention.bytes
        calls, size = calls + journal.calls, size + journal.offset
        if file.state != "closed" or not is_old:
            continue
        parts = (by_hour_and_tool(counted_cells(parse(data).calls)) for data, _ in file.lines(0))
        hours = grouped(chain.from_iterable(part.items() for part in parts))
        write_whole(file.path_as("expired"), b"".join(dumps([*key, *cell]) + b"\n" for key, cell in hours.items()))
        # A kill here leaves the closed journal, which then expires again. The next compaction drops the rows.
        file.path.unlink()
