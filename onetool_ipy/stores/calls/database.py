"""The SQLite file of the call log: its tables, its connections, and the fold that fills it from the journals.

A person can open `calls.db` with `sqlite3` and read it: `calls` has one row for each call, `rollups` the sums by hour,
by day and in all, and the view `history` the calls with their time as text. A fold adds rows and rollups, and notes how
far it read each journal, in one transaction: a kill at any moment neither loses nor doubles a call, and any number of
processes may fold at once. Rollups are kept for ever, of the calls the newest million.

The database has a rollback journal, not WAL: a reader then writes nothing, so the log can be read on a full or
read-only disk. Errors of sqlite3 leave this module as `LogUnusable`.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.core.tool import Problem
from onetool_ipy.stores.calls.journal import FIELDS, JournalEnd, JournalLines, JournalReader, open_journals, parse
from onetool_ipy.stores.calls.rollup import Rollup, by_hour_and_tool, by_span, grouped, merged

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "COLUMNS",
    "KEEP",
    "WAIT_S",
    "CallWriter",
    "Keep",
    "LogUnusable",
    "attempt",
    "creating",
    "database_path",
    "ends",
    "fold",
    "identity",
    "reading",
    "rows",
    "salvaging",
    "to_rollup",
    "writing",
]

COLUMNS: dict[str, tuple[type, ...]] = {
    "calls": (int, int, str, str, str, str, int, int, str, str, float, int, str),
    "handles": (str, str, int),
    "rollups": (str, int, str, int, int, float, float, float, int, int, str),
    "files": (str, int, int, int, int),
    "state": (str, int),
}
"""The types of the tables' columns; `code`, `reason` and `handle` of `calls` may also be NULL."""

_VERSION = 3
_APPLICATION = 0x6F74636C  # "otcl"
_SCHEMA = """
CREATE TABLE calls(
    id INTEGER PRIMARY KEY, -- in the order in which calls were folded
    ts INTEGER NOT NULL,    -- the end of the call in microseconds since 1970
    call_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    source TEXT NOT NULL,   -- the caller: python, magic, model, rest, ...
    args TEXT NOT NULL,     -- JSON, masked and cut at 4 KB
    args_whole INTEGER NOT NULL, -- whether args are neither masked nor cut
    ok INTEGER NOT NULL,
    code TEXT,              -- of the error
    reason TEXT,            -- of the error, and in a second line the beginning of its message
    ms REAL NOT NULL,
    size INTEGER NOT NULL,  -- of the output in characters, estimated for structured data
    handle TEXT             -- of the stored result
);
CREATE INDEX calls_by_ts ON calls(ts);
CREATE INDEX calls_by_tool ON calls(tool, ts);
CREATE INDEX calls_failed ON calls(ts) WHERE ok = 0;
CREATE TABLE rollups(
    span TEXT,              -- hour, day or all
    start INTEGER,          -- of the hour or day (UTC) in microseconds since 1970
    tool TEXT,              -- '' is all tools together
    calls INTEGER, failures INTEGER, ms_sum REAL, ms_min REAL, ms_max REAL, size INTEGER, last_ts INTEGER,
    durations TEXT,         -- JSON: the number of a bin, then the calls in each bin from there on (see durations)
    PRIMARY KEY(span, start, tool)
) WITHOUT ROWID;
CREATE TABLE handles(       -- of results that were stored after their call was recorded
    call_id TEXT PRIMARY KEY, handle TEXT NOT NULL,
    last_id INTEGER NOT NULL -- the newest call at that time
) WITHOUT ROWID;
CREATE TABLE files(         -- how far each journal was read
    name TEXT PRIMARY KEY, offset INTEGER NOT NULL, mark INTEGER NOT NULL, damaged INTEGER NOT NULL, at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE state(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIEW history AS
    SELECT strftime('%Y-%m-%d %H:%M:%f', ts / 1e6, 'unixepoch') AS time, tool, source, ok, code, reason, ms, size,
        coalesce(handles.handle, calls.handle) AS handle, args, call_id
    FROM calls LEFT JOIN handles USING (call_id) ORDER BY ts DESC;
CREATE VIEW days AS
    SELECT date(start / 1e6, 'unixepoch') AS day, tool, calls, failures, round(ms_sum / calls, 3) AS avg_ms,
        ms_min, ms_max, size
    FROM rollups WHERE span = 'day' AND tool <> '' ORDER BY start DESC, calls DESC;
CREATE VIEW durations AS
    SELECT span, start, tool, (1 << bin / 16) * (16.5 + bin % 16) / 16 - 1 AS microseconds, calls
    FROM (SELECT span, start, tool, json_extract(durations, '$[0]') + key - 1 AS bin, value AS calls
        FROM rollups, json_each(rollups.durations) WHERE key > 0 AND value > 0);
"""

_LATER_INDEXES = (
    "calls_by_models ON calls(ts, tool, size) WHERE source IN ('model', 'mcp')",
    "calls_of_runs ON calls(call_id, ts, tool, ok) WHERE call_id >= 'map-' AND call_id < 'map.'",
    "calls_by_message ON calls(tool, code, reason, ts) WHERE ok = 0",
)
"""Made apart from the schema: a database of an earlier version gets them at its next fold."""

_INSERT = f"INSERT INTO calls({', '.join(FIELDS)}) VALUES "
_ROW = "(?, ?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), ?, ?, nullif(?, ''))"
_ROWS_AT_ONCE = 64
"""How many rows one statement inserts. sqlite3 lets other threads run during each statement."""

_COUNTED = itemgetter(*map(FIELDS.index, ("ts", "tool", "ok", "ms", "size")))
_TOOL, _CODE = FIELDS.index("tool"), FIELDS.index("code")
_NAMES = "SELECT tool FROM rollups WHERE span = 'all' AND tool <> ''"
_OTHER = "(other)"
_MAX_NAMES, _MAX_WRONG_NAMES = 60_000, 990
_AT_ONCE = 1 << 20
_FORGET_FILE_S = 24 * 3600

WAIT_S = 0.05
"""How long a fold waits for another process; one that found no time is made up for by the next."""

Fault = Literal["absent", "damaged", "landed", "newer", "foreign", "busy", "disk"]

_BUSY, _DAMAGED = (5, 6), (1, 11, 20, 24, 26)
_SAID: dict[Fault, tuple[str, str]] = {
    "absent": ("there is no call log yet.", ""),
    "damaged": ("the call log is damaged.", "The next call sets it aside and keeps what can be read."),
    "landed": ("the call log has the format of an earlier version.", "It is converted when it can be written."),
    "newer": ("a later version wrote this call log; it is neither read nor changed.", "Use that version to see it."),
    "foreign": ("this is not a call log; it is left alone, and usage is counted without it.", "Move it elsewhere."),
    "busy": ("the call log is in use.", "It is tried again later."),
    "disk": ("the call log cannot be read or written.", "Is the disk full, or read-only?"),
}


class LogUnusable(OneToolError):
    """The database cannot be used now; `fault` says why."""

    def __init__(self, path: Path, fault: Fault, detail: str = "") -> None:
        said, hint = _SAID[fault]
        super().__init__(f"{path}: {said}" + (f" ({detail})" if detail else ""), hint=hint)
        self.path = path
        self.fault = fault

    def problem(self) -> Problem | None:
        """Say it as a problem, unless the database does not exist yet or is busy."""
        said, hint = _SAID[self.fault]
        return None if self.fault in ("absent", "busy") else Problem(str(self.path), said, hint)


@dataclass(frozen=True, slots=True)
class Keep:
    """How many calls are kept as rows: so many of the newest, and fewer if the file is larger than so many bytes."""

    calls: int = 1_000_000
    bytes: int = 256 << 20


KEEP = Keep()


def database_path(folder: Path) -> Path:
    return folder / "calls.db"


def identity(path: Path) -> int | None:
    """Give the inode of the database, which changes when it is repaired; None if there is none."""
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


# --- connections ----------------------------------------------------------------------------------


@contextmanager
def reading(path: Path, *, timeout_s: float = 2.0) -> Iterator[sqlite3.Connection]:
    """Open the database at one moment: every query in the block sees the same. Raises LogUnusable."""
    with _connected(path, timeout_s) as connection:
        connection.execute("BEGIN")
        _require_ours(connection, path)
        yield connection


@contextmanager
def writing(path: Path, *, timeout_s: float = WAIT_S) -> Iterator[sqlite3.Connection]:
    """Run one transaction; the database is created if it is missing. An exception rolls everything back."""
    _create_file(path)
    seen = identity(path)
    with _connected(path, timeout_s) as connection:
        connection.execute("PRAGMA journal_mode=TRUNCATE")
        connection.execute("PRAGMA synchronous=NORMAL")  # in this mode two flushes instead of four, each some ms
        connection.execute("PRAGMA cache_spill=OFF")  # so that readers wait only for the end of a fold
        connection.execute("BEGIN IMMEDIATE")
        if identity(path) != seen:
            raise LogUnusable(path, "busy")  # it was repaired in this moment; this may be the file that was set aside
        _create_tables(connection)
        _require_ours(connection, path)
        for index in _LATER_INDEXES:
            connection.execute(f"CREATE INDEX IF NOT EXISTS {index}")
        yield connection
        connection.execute("COMMIT")


@contextmanager
def creating(path: Path | None) -> Iterator[sqlite3.Connection]:
    """Fill a new database that nobody reads yet; without a path in memory. Raises LogUnusable."""
    if path is not None:
        _create_file(path)
    with _connected(path, 0.05) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _create_tables(connection)
        yield connection
        connection.execute("COMMIT")


@contextmanager
def salvaging(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a damaged database to read what is left of it; any query may fail. Raises LogUnusable."""
    with _connected(path, 2.0) as connection:
        connection.execute("PRAGMA writable_schema=ON")  # or SQLite refuses a file that lacks its last pages
        yield connection


def rows(
    connection: sqlite3.Connection, types: tuple[type, ...], statement: str, values: Sequence[object] = ()
) -> list[Any]:
    """Run a query. Raises LogUnusable for a value of another type: SQLite would store any in any column."""
    found = connection.execute(statement, values).fetchall()
    if any(tuple(map(type, row)) != types for row in found):
        raise LogUnusable(Path("calls.db"), "damaged")
    return found


def attempt(connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> tuple[list[Any], bool]:
    """Run a query on a damaged database: the rows up to where it fails, and whether these are all."""
    import sqlite3

    found: list[Any] = []
    try:
        found.extend(connection.execute(statement, values))
    except (sqlite3.Error, UnicodeError):
        return found, False
    return found, True


@contextmanager
def _connected(path: Path | None, timeout_s: float) -> Iterator[sqlite3.Connection]:
    import sqlite3

    place = path or Path("calls.db")
    if path is not None:
        _require_file(path)
    address = ":memory:" if path is None else f"file:{quote(os.fsencode(path))}?mode=rw"  # SQLite reads if it must
    connection = None
    try:
        connection = sqlite3.connect(
            address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )
        yield connection
    except sqlite3.Error as exc:
        raise LogUnusable(place, _fault(exc), str(exc)) from exc
    except UnicodeError as exc:  # in what SQLite itself says about what it found
        raise LogUnusable(place, "damaged") from exc
    finally:
        if connection is not None:
            connection.close()  # which undoes what was not committed


def _require_file(path: Path) -> None:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise LogUnusable(path, "foreign")
    except FileNotFoundError:
        raise LogUnusable(path, "absent") from None
    except OSError as exc:
        raise LogUnusable(path, "disk", str(exc)) from exc


def _fault(exc: sqlite3.Error) -> Fault:
    code = getattr(exc, "sqlite_errorcode", None)
    if code is None:  # raised by Python's module, for a value that does not fit
        return "damaged"
    kind = code & 0xFF
    if kind in _BUSY:
        return "busy"
    return "damaged" if kind in _DAMAGED else "disk"


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        raise LogUnusable(path, "absent" if not names else "damaged" if names >= COLUMNS.keys() else "foreign")
    if version != _VERSION:
        raise LogUnusable(path, "newer" if version > _VERSION else "landed")


def _create_tables(connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={_VERSION}")


def _create_file(path: Path) -> None:
    """Create the file for its owner alone. Never open an existing one: closing it would free SQLite's own locks."""
    with suppress(OSError):  # SQLite says what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


# --- the fold -------------------------------------------------------------------------------------


def fold(
    folder: Path,
    *,
    keep: Keep = KEEP,
    at_most: int = _AT_ONCE,
    sizes: Mapping[str, int] | None = None,
    wait_s: float = WAIT_S,
) -> bool:
    """Add what the journals hold, at most so many bytes; True if there is more. Raises LogUnusable.

    It waits so long for other processes. `sizes` says which journals are read, and how far each at least. A journal is
    flushed to the disk before the transaction ends. One that was cut or changed since is read again; calls that the
    database has do not count twice. A journal that was read to its end and whose process is gone is deleted.
    """
    journals = [one for one in open_journals(folder) if sizes is None or one.name in sizes]
    if not journals:
        return False
    reached: dict[str, int] = {}
    left = at_most
    with writing(database_path(folder), timeout_s=wait_s) as connection:
        known = ends(connection)
        writer = CallWriter(connection)
        for journal in journals:
            end = known.get(journal.name, JournalEnd())
            due = left if sizes is None else min(left, sizes[journal.name] - end.offset)
            reached[journal.name] = _fold_journal(writer, journal, end, due)
            left -= max(0, reached[journal.name] - end.offset)
            if left <= 0:
                break
        writer.finish()
        _forget_files(connection, {journal.name for journal in journals})
        _keep_newest(connection, keep)
    for journal in journals:
        if journal.name in reached:
            journal.delete_if_done(reached[journal.name])
    return left <= 0


class CallWriter:
    """Adds calls within one transaction: rows at once, their rollups when it is finished."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._hours: list[tuple[tuple[int, str], Rollup]] = []
        self._names = {name for (name,) in rows(connection, (str,), _NAMES)}

    def add(self, lines: JournalLines) -> None:
        """Keep calls and handles as rows, and count the calls."""
        calls = self.add_rows(lines.calls)
        self._hours += by_hour_and_tool(map(_COUNTED, calls)).items()
        if lines.handles:
            self.add_handles(lines.handles)

    def add_handles(self, handles: Mapping[str, str]) -> None:
        """Keep the handles of results that were stored after their call was recorded."""
        last = self.connection.execute("SELECT coalesce(max(id), 0) FROM calls").fetchone()[0]
        later = [(call_id, handle, last) for call_id, handle in handles.items()]
        self.connection.executemany("INSERT OR REPLACE INTO handles VALUES (?, ?, ?)", later)

    def add_rows(self, calls: list[Any]) -> list[Any]:
        """Keep calls as rows without counting them; give them with the names under which they are counted."""
        if not self._names.issuperset(map(itemgetter(_TOOL), calls)):
            calls = [self._named(call) for call in calls]
        for first in range(0, len(calls), _ROWS_AT_ONCE):
            part = calls[first : first + _ROWS_AT_ONCE]
            self.connection.execute(_INSERT + ", ".join([_ROW] * len(part)), list(chain.from_iterable(part)))
        return calls

    def finish(self) -> None:
        """Add what was counted to the rollups."""
        cells = by_span(grouped(self._hours))
        known: list[tuple[tuple[str, int, str], Rollup]] = []
        for span, start in {key[:2] for key in cells}:
            stored = "SELECT * FROM rollups WHERE span = ? AND start = ?"
            found = rows(self.connection, COLUMNS["rollups"], stored, (span, start))
            known += [(row[:3], to_rollup(row[3:])) for row in found if row[:3] in cells]
        self.write_rollups(grouped(chain(known, cells.items())))
        self._hours = []

    def unseen(self, lines: JournalLines) -> JournalLines:
        """Leave out the calls that the database has, by their time and id."""
        if not lines.calls:
            return lines
        times = [call[0] for call in lines.calls]
        near = "SELECT ts, call_id FROM calls WHERE ts BETWEEN ? AND ?"
        have = Counter(rows(self.connection, (int, str), near, (min(times), max(times))))
        new: list[Any] = []
        for call in lines.calls:
            if have[call[0], call[1]] > 0:
                have[call[0], call[1]] -= 1
            else:
                new.append(call)
        return lines._replace(calls=new)

    def note_file(self, journal: JournalReader, offset: int, damaged: int) -> None:
        """Note how far a journal was read and how many lines were invalid. The journal is flushed to the disk first."""
        journal.sync()
        self.connection.execute(
            "INSERT INTO files VALUES (?, ?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET offset = excluded.offset,"
            " mark = excluded.mark, damaged = damaged + excluded.damaged, at = excluded.at",
            (journal.name, offset, journal.mark(offset) or 0, damaged, int(time.time())),
        )

    def write_rollups(self, cells: Mapping[tuple[str, int, str], Rollup]) -> None:
        """Store rollups by span, start and tool, in place of those that were there."""
        from orjson import dumps

        self._names.update(tool for _, _, tool in cells if tool)
        fresh = [
            (*key, c.calls, c.failures, c.ms_sum, c.ms_min, c.ms_max, c.size, c.last_ts, dumps(c.durations).decode())
            for key, c in cells.items()
        ]
        self.connection.executemany("INSERT OR REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", fresh)

    def _named(self, call: Sequence[Any]) -> Sequence[Any]:
        """Count a new name as "(other)" if there are too many: a model may invent a new wrong name each time."""
        tool = call[_TOOL]
        limit = _MAX_WRONG_NAMES if call[_CODE] == "tool_not_found" else _MAX_NAMES
        if tool not in self._names and (not tool or len(self._names) >= limit):
            tool = _OTHER
        self._names.add(tool)
        return call if tool == call[_TOOL] else [*call[:_TOOL], tool, *call[_TOOL + 1 :]]


def to_rollup(row: Sequence[Any]) -> Rollup:
    """Read the sums of some rows of `rollups`, with their histograms one after the other. Raises LogUnusable."""
    from orjson import JSONDecodeError, loads

    calls, failures, ms_sum, ms_min, ms_max, size, last_ts, durations = row
    try:
        found = Rollup(calls, failures, ms_sum, ms_min, ms_max, size, last_ts, merged(loads(f"[{durations}]")))
    except (JSONDecodeError, TypeError, ValueError, IndexError) as exc:
        raise LogUnusable(Path("calls.db"), "damaged") from exc
    if not found.has_histogram():  # a flipped bit
        raise LogUnusable(Path("calls.db"), "damaged")
    return found


def ends(connection: sqlite3.Connection) -> dict[str, JournalEnd]:
    """Give how far each journal was read; one may have been cut or changed since (`JournalReader.still_has`)."""
    found = rows(connection, (str, int, int), "SELECT name, offset, mark FROM files")
    return {name: JournalEnd(offset, mark) for name, offset, mark in found}


def _fold_journal(writer: CallWriter, journal: JournalReader, known: JournalEnd, left: int) -> int:
    """Add what stands after the known end of a journal, at most so many bytes, and give the offset after it.

    A journal that was cut or changed is read again from its start, for the calls that the database does not have.
    """
    is_changed = not journal.still_has(known)
    begin = offset = 0 if is_changed else known.offset
    damaged = 0
    for data, end in journal.blocks(begin):
        lines = parse(data)
        writer.add(writer.unseen(lines) if is_changed else lines)
        damaged += lines.damaged
        offset = end
        if offset - begin >= left and not is_changed:
            break
    if is_changed:
        writer.connection.execute("DELETE FROM files WHERE name = ?", (journal.name,))
    if is_changed or offset != begin:
        writer.note_file(journal, offset, damaged)
    return offset


def _forget_files(connection: sqlite3.Connection, present: set[str]) -> None:
    """Forget journals that are gone, a day late: another process may still have one of them open for reading."""
    old = rows(connection, (str,), "SELECT name FROM files WHERE at < ?", (int(time.time()) - _FORGET_FILE_S,))
    gone: Iterable[tuple[str]] = [(name,) for (name,) in old if name not in present]
    connection.executemany("DELETE FROM files WHERE name = ?", gone)


def _keep_newest(connection: sqlite3.Connection, keep: Keep) -> None:
    """Drop the oldest rows, in the order in which they were added, since a clock may have been wrong."""
    # Two queries in one: SQLite looks up one minimum or maximum in an index, but reads all rows for both of them.
    ends_of = "SELECT coalesce((SELECT min(id) FROM calls), 0), coalesce((SELECT max(id) FROM calls), 0)"
    ((first, last),) = connection.execute(ends_of)
    used = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count"
    size = connection.execute(f"{used}, pragma_page_size").fetchone()[0]
    kept = min(keep.calls, int((last - first + 1) * keep.bytes / max(size, 1)))
    newest = last - max(1, kept)
    if newest < first:
        return
    dropped = "SELECT coalesce(max(+ts), 0) FROM calls WHERE id <= ?"  # not by the index of ts: these are its last
    (until,) = connection.execute(dropped, (newest,)).fetchone()
    connection.execute("DELETE FROM calls WHERE id <= ?", (newest,))
    connection.execute("DELETE FROM handles WHERE last_id <= ?", (newest,))
    connection.execute(
        "INSERT INTO state VALUES ('dropped_until', ?)"
        " ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
        (until,),
    )
