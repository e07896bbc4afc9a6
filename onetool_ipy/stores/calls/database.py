"""The SQLite database of the call log: its tables, its connections, and how calls get in.

It is made from the journals and holds nothing that they do not, so it can be deleted at any time. A person can open
`calls.db` with `sqlite3`: the view `history` has the calls with their time as text, the view `days` the sums by day.

The database has a rollback journal, not WAL: that also works on network disks. Only one process writes at a time, under
the lock of `compaction`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onetool_ipy.core.names import NOT_TOOLS
from onetool_ipy.stores.calls.journal import FIELDS, JournalCall, JournalLines
from onetool_ipy.stores.calls.rollup import Rollup, by_hour_and_tool, by_span, grouped, merged

DOUBTS = (sqlite3.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a damaged database raises: SQLite itself, or a value in it that we never wrote."""

_VERSION = 7
_SCHEMA = """
CREATE TABLE journals(      -- how far each journal was read
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,    -- open, closed or expired
    offset INTEGER NOT NULL,
    calls INTEGER NOT NULL, -- that count
    damaged INTEGER NOT NULL, -- lines
    last_ts INTEGER NOT NULL
);
CREATE TABLE contexts(      -- where calls came from; many calls share one
    id INTEGER PRIMARY KEY,
    tool TEXT, source TEXT, user TEXT, host TEXT, notebook TEXT, cell TEXT, session TEXT,
    fingerprint TEXT        -- of the tool
);
CREATE TABLE calls(
    id INTEGER PRIMARY KEY, -- the number of the journal, times 2^32, plus a number that grows with the place in it
    ts INTEGER NOT NULL,    -- the end of the call in microseconds since 1970
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    source TEXT NOT NULL,   -- the caller: python, magic, model, rest, ...
    args TEXT NOT NULL,     -- JSON, masked and cut at 4 KB
    args_whole INTEGER NOT NULL, -- whether args are neither masked nor cut
    ok INTEGER NOT NULL,
    code TEXT, reason TEXT, message TEXT, -- of the error
    ms REAL NOT NULL,
    size INTEGER NOT NULL,  -- of the output in characters, estimated for structured data
    parent TEXT,            -- the id of the call that made this one
    inputs TEXT,            -- JSON: arguments, and the ids of the calls that they came from
    context INTEGER NOT NULL REFERENCES contexts(id)
);
CREATE INDEX calls_by_ts ON calls(ts);
CREATE INDEX calls_by_id ON calls(call_id);
CREATE INDEX calls_by_parent ON calls(parent, ts) WHERE parent IS NOT NULL;
CREATE INDEX calls_by_tool ON calls(tool, ts);
-- An index with the column of its own condition is read alone, without the rows.
CREATE INDEX calls_failed ON calls(tool, message, code, ts, ok) WHERE ok = 0;
CREATE INDEX calls_of_runs ON calls(call_id, ts, tool, ok) WHERE call_id >= 'map-' AND call_id < 'map.';
CREATE INDEX calls_by_models ON calls(ts, tool, size, source) WHERE source IN ('model', 'mcp');
CREATE TABLE handles(       -- of stored results
    call_id TEXT PRIMARY KEY, handle TEXT NOT NULL, journal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE rollups(
    span TEXT,              -- hour, day, week or all
    start INTEGER,          -- of the hour, day or week (UTC) in microseconds since 1970
    tool TEXT,              -- '' is all tools together
    calls INTEGER, failures INTEGER, ms_sum REAL, ms_min REAL, ms_max REAL, size INTEGER, last_ts INTEGER,
    durations TEXT,         -- JSON: the number of a bin, then the calls in each bin from there on
    PRIMARY KEY(span, start, tool)
) WITHOUT ROWID;
CREATE VIEW counted AS      -- what usage adds up: an ask has a row beside those of its calls, and is not a call
    SELECT * FROM calls WHERE tool <> 'ask';
CREATE VIEW history AS
    SELECT strftime('%Y-%m-%d %H:%M:%f', ts / 1e6, 'unixepoch') AS time, calls.tool, calls.source, ok, code, reason,
        message, ms, size, handle, args, call_id, parent, user, host, notebook, cell, session, fingerprint
    FROM calls JOIN contexts ON contexts.id = context LEFT JOIN handles USING (call_id) ORDER BY ts DESC;
CREATE VIEW days AS
    SELECT date(start / 1e6, 'unixepoch') AS day, tool, calls, failures, round(ms_sum / calls, 3) AS avg_ms,
        ms_min, ms_max, size
    FROM rollups WHERE span = 'day' AND tool <> '' ORDER BY start DESC, calls DESC;
"""

CONTEXT = ("tool", "source", "user", "host", "notebook", "cell", "session", "fingerprint")
_INSERT = """
INSERT INTO calls VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), ?, ?, nullif(?, ''), nullif(?, ''), ?
)
"""
_OWN = (
    *("ts", "id", "tool", "source", "args", "whole", "ok", "code", "reason", "message", "ms", "size"),
    *("parent", "inputs"),
)
_counted_cells = itemgetter(*map(FIELDS.index, ("ts", "tool", "ok", "ms", "size")))
_ID, _TOOL, _CODE, _HANDLE = map(FIELDS.index, ("id", "tool", "code", "handle"))

_OTHER, _MAX_WRONG_NAMES = "(other)", 990
"""So many names that no tool has are counted one by one: a model may invent a new one each time."""

_BUSY_CODES = (5, 6)
"""SQLite's busy and locked: another connection has the database."""
_DISK_CODES = (8, 10, 13, 14)
"""SQLite's read-only, I/O error, full and cannot open: the disk's fault, not the file's."""


class DatabaseDoubtful(ValueError):
    """The database does not fit the journals, or is of another version."""


def database_path(folder: Path) -> Path:
    return folder / "calls.db"


def delete(path: Path) -> None:
    """Delete the database. Raises OSError."""
    for name in (path.name, f"{path.name}-journal"):
        with suppress(FileNotFoundError):
            os.unlink(path.with_name(name))


def is_busy(exc: BaseException) -> bool:
    """Whether another connection has the database just now, which is nobody's fault."""
    return isinstance(exc, sqlite3.Error) and getattr(exc, "sqlite_errorcode", 0) & 0xFF in _BUSY_CODES


def is_fault_of_disk(exc: BaseException) -> bool:
    """Whether the disk, and not the database, is to blame."""
    return isinstance(exc, sqlite3.Error) and getattr(exc, "sqlite_errorcode", 0) & 0xFF in _DISK_CODES


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database at one moment: every query in the block sees the same."""
    with closing(_connect(f"file:{quote(os.fsencode(path))}?mode=ro")) as connection:
        connection.execute("BEGIN")
        yield connection


@contextmanager
def writing(path: Path | None) -> Iterator[sqlite3.Connection]:
    """Open the database to add to it, and create it if it is missing; without a path in memory."""
    if path is None:
        address = ":memory:"
    else:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        address = f"file:{quote(os.fsencode(path))}?mode=rw"
    with closing(_connect(address)) as connection:
        connection.execute("PRAGMA journal_mode=TRUNCATE")
        connection.execute("PRAGMA synchronous=NORMAL")
        # Without this a large transaction would lock readers out before its end.
        connection.execute("PRAGMA cache_spill=OFF")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version={_VERSION}; COMMIT;")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            raise DatabaseDoubtful("it has another version")
        yield connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does; an exception undoes it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite itself has undone it on a full disk
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def counted_cells(calls: Iterable[JournalCall]) -> list[Sequence[Any]]:
    """Give what rollups are made from, of those rows that are calls: time, tool, success, duration and size."""
    return [_counted_cells(call) for call in calls if call[_TOOL] not in NOT_TOOLS]


def to_rollup(row: Sequence[Any]) -> Rollup:
    """Read the sums of some rows of `rollups`, with their histograms one after the other. Raises one of DOUBTS."""
    from orjson import loads

    cell = Rollup(*row[:-1])._replace(durations=merged(loads(f"[{row[-1]}]")))
    if sum(cell.durations[1:]) != cell.calls:
        raise DatabaseDoubtful("a sum and its histogram differ")
    return cell


class CallWriter:
    """Adds calls within one transaction: rows at once, their sums when it is finished."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._hours: list[tuple[tuple[int, str], Rollup]] = []
        self._contexts: dict[tuple[str, ...], int] = {}
        self._names = {name for (name,) in connection.execute("SELECT tool FROM rollups WHERE span = 'all'")}

    def add(self, journal: int, offset: int, lines: JournalLines) -> int:
        """Add calls and handles of a journal, by its number, that begin at an offset in it. Give how many count."""
        # Every line has a byte and more, so these numbers are unique and in the order of the lines.
        first = (journal << 32) + offset
        # By columns, which is quicker than by rows. SQLite asks Python how to adapt a bool, and takes an int as it is.
        columns: dict[str, Iterable[Any]] = dict(zip(FIELDS, zip(*lines.calls, strict=True), strict=False))
        if columns:
            contexts = map(self._context, zip(*(columns[name] for name in CONTEXT), strict=True))
            columns |= {"whole": map(int, columns["whole"]), "ok": map(int, columns["ok"])}
            rows = zip(count(first), *(columns[name] for name in _OWN), contexts, strict=False)
            self._connection.executemany(_INSERT, rows)
        handles = chain(((call[_ID], call[_HANDLE]) for call in lines.calls if call[_HANDLE]), lines.handles)
        self._connection.executemany(f"INSERT OR REPLACE INTO handles VALUES (?, ?, {int(journal)})", handles)
        counted = counted_cells(map(self._limit_names, lines.calls))
        # Sums are made at once. Thousands of kept calls would be looked through by the collector, while callers wait.
        self._hours += by_hour_and_tool(counted).items()
        return len(counted)

    def add_sums(self, hours: Iterable[tuple[tuple[int, str], Rollup]]) -> None:
        """Add the sums of calls that have no rows any more."""
        self._hours += hours

    def finish(self) -> None:
        """Add what was counted to the rollups."""
        from orjson import dumps

        cells = by_span(grouped(self._hours))
        stored: list[tuple[tuple[str, int, str], Rollup]] = []
        for span, start in {key[:2] for key in cells}:
            rows = self._connection.execute("SELECT * FROM rollups WHERE span = ? AND start = ?", (span, start))
            stored += [(row[:3], to_rollup(row[3:])) for row in rows if row[:3] in cells]
        sums = grouped(chain(stored, cells.items())).items()
        fresh = [(*key, *cell[:-1], dumps(cell.durations).decode()) for key, cell in sums]
        self._connection.executemany("INSERT OR REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fresh)

    def _limit_names(self, call: JournalCall) -> JournalCall:
        """Give a call as it is counted: a wrong name counts as "(other)" where there are too many."""
        tool = call[_TOOL]
        if tool not in self._names:
            if call[_CODE] == "tool_not_found" and len(self._names) >= _MAX_WRONG_NAMES:
                return [*call[:_TOOL], _OTHER, *call[_TOOL + 1 :]]
            self._names.add(tool)
        return call

    def _context(self, cells: tuple[str, ...]) -> int:
        """Give the number of a context, which is stored at its first call."""
        number = self._contexts.get(cells)
        if number is None:
            # Only the newest are looked through. One that is older is stored again, which does no harm; an index
            # over all columns would be as large as the table.
            equal = " AND ".join(f"{name} = ?" for name in CONTEXT)
            recent = "SELECT id FROM contexts ORDER BY id DESC LIMIT 50"
            select = f"SELECT id FROM contexts WHERE id IN ({recent}) AND {equal}"
            row = self._connection.execute(select, cells).fetchone()
            insert = f"INSERT INTO contexts({', '.join(CONTEXT)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            number = row[0] if row else self._connection.execute(insert, cells).lastrowid or 0
            self._contexts[cells] = number
        return number


def _connect(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, timeout=2.0, isolation_level=None, check_same_thread=False)
