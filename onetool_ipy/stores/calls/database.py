"""The SQLite file of the call log: its tables, how it is opened, and what is done when it is not as it should be.

Owns sqlite3: its errors leave this room as `Unusable`, which says whether the file is damaged, of a later version,
somebody else's, busy, or on a disk that fails. Rollback journal, not WAL: a reader then writes nothing, so that what
is there can be read on a full or read-only disk; a fold pays some milliseconds for it, once in thousands of calls.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.core.model import Problem
from onetool_ipy.stores.calls.append import End

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "ALL",
    "DAY",
    "END",
    "HOUR",
    "KINDS",
    "MAX_NUMBER",
    "Unusable",
    "attempt",
    "database_path",
    "ends",
    "problem_of",
    "reading",
    "rows",
    "salvaging",
    "words",
    "writing",
]

KINDS: dict[str, tuple[type, ...]] = {
    "words": (int, str),
    "marks": (str, int),
    "files": (str, int, int, int),
    "tallies": (int, int, int, int, int, float, float, float, int, int, bytes),
    "chunks": (int, int, int, int, int),
    "columns": (int, *[bytes] * 11),
    "handles": (str, str, int),
}
"""What the tables hold, column by column."""
MAX_NUMBER = 65_535
"""The highest number of a word: two bytes of a column."""

ALL, DAY, HOUR = 0, 1, 2
"""The levels of the tallies: for ever, by UTC day, by hour. `start` is in microseconds since 1970."""

END = "end:"
"""What the name of a mark begins with that holds the checksum of an append file's end, as far as it was read."""

_VERSION = 1
_APPLICATION = 0x6F74636C  # "otcl"
_TABLES = """
CREATE TABLE words(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE marks(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE files(name TEXT PRIMARY KEY, offset INTEGER NOT NULL, damaged INTEGER NOT NULL, at INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE tallies(
    level INTEGER, start INTEGER, tool INTEGER, calls INTEGER, failures INTEGER, ms_sum REAL, ms_min REAL, ms_max REAL,
    size INTEGER, last_ts INTEGER, histogram BLOB, PRIMARY KEY(level, start, tool)) WITHOUT ROWID;
CREATE TABLE chunks(id INTEGER PRIMARY KEY, rows INTEGER, bytes INTEGER, first_ts INTEGER, last_ts INTEGER);
CREATE TABLE columns(
    id INTEGER PRIMARY KEY, ts BLOB, tool BLOB, flags BLOB, ms BLOB, size BLOB, source BLOB, code BLOB, reason BLOB,
    call_id BLOB, handle BLOB, args BLOB);
CREATE TABLE handles(call_id TEXT PRIMARY KEY, handle TEXT NOT NULL, chunk INTEGER NOT NULL) WITHOUT ROWID;
"""

Fault = Literal["absent", "damaged", "newer", "foreign", "busy", "disk"]

_BUSY, _DAMAGED = (5, 6), (1, 11, 20, 24, 26)
_SAID: dict[Fault, tuple[str, str]] = {
    "absent": ("there is no call log yet.", ""),
    "damaged": ("the call log is damaged.", "It is set aside, and what can be read of it is kept, at the next call."),
    "newer": ("a later version wrote this call log; it is neither read nor changed.", "Use that version to see it."),
    "foreign": ("this is not a call log; it is left alone, and usage is counted without it.", "Move it elsewhere."),
    "busy": ("the call log is in use.", "It is tried again later."),
    "disk": ("the call log cannot be read or written.", "Is the disk full, or read-only?"),
}


class Unusable(OneToolError):
    """A database that cannot be used now; `fault` says why."""

    def __init__(self, path: Path, fault: Fault, detail: str = "") -> None:
        said, hint = _SAID[fault]
        super().__init__(f"{path}: {said}" + (f" ({detail})" if detail else ""), hint=hint)
        self.path = path
        self.fault = fault


def database_path(folder: Path) -> Path:
    return folder / "calls.db"


def problem_of(exc: Unusable) -> Problem | None:
    """What health says of it; one that is not there yet, or is busy, is none."""
    if exc.fault in ("absent", "busy"):
        return None
    said, hint = _SAID[exc.fault]
    return Problem(str(exc.path), said, hint)


@contextmanager
def reading(path: Path, *, timeout_s: float = 2.0) -> Iterator[sqlite3.Connection]:
    """One moment of the database: every query in the block sees the same. Raises Unusable."""
    with _connected(path, timeout_s) as connection:
        connection.execute("BEGIN")
        _require_ours(connection, path)
        yield connection


@contextmanager
def writing(path: Path, *, timeout_s: float = 0.05) -> Iterator[sqlite3.Connection]:
    """One transaction, which makes the database where there is none. Any exception undoes all of it."""
    _create(path)
    with _connected(path, timeout_s) as connection:
        connection.execute("PRAGMA journal_mode=TRUNCATE")
        connection.execute("PRAGMA synchronous=NORMAL")  # in this mode two flushes instead of four, each some ms
        connection.execute("PRAGMA cache_spill=OFF")  # so that readers wait for the end of a fold only
        connection.execute("BEGIN IMMEDIATE")
        if _is_new(connection):
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={_VERSION}")
        _require_ours(connection, path)
        yield connection
        connection.execute("COMMIT")


@contextmanager
def salvaging(path: Path) -> Iterator[sqlite3.Connection]:
    """A damaged database, to read what is left of it; any query may fail. Raises Unusable."""
    with _connected(path, 2.0) as connection:
        connection.execute("PRAGMA writable_schema=ON")  # or SQLite refuses a file that lacks its last pages
        yield connection


def rows(
    connection: sqlite3.Connection, kinds: tuple[type, ...], statement: str, values: Sequence[object] = ()
) -> list[Any]:
    """The rows of a query. Raises Unusable where one has a value of another kind: SQLite would take any."""
    found = connection.execute(statement, values).fetchall()
    if any(tuple(map(type, row)) != kinds for row in found):
        raise Unusable(Path("calls.db"), "damaged")
    return found


def words(connection: sqlite3.Connection) -> dict[int, str]:
    """The names that numbers stand for. Raises Unusable for a number that is none of ours."""
    found = dict(rows(connection, KINDS["words"], "SELECT id, text FROM words"))
    if found and not 0 < min(found) <= max(found) <= MAX_NUMBER:
        raise Unusable(Path("calls.db"), "damaged")
    return found


def ends(connection: sqlite3.Connection) -> dict[str, End]:
    """How far each append file was read; a file may have been cut or changed since (`Reader.still_has`)."""
    marks = dict(rows(connection, KINDS["marks"], "SELECT name, value FROM marks"))
    found = rows(connection, (str, int), "SELECT name, offset FROM files")
    return {name: End(offset, marks.get(END + name)) for name, offset in found}


def attempt(connection: sqlite3.Connection, statement: str, values: Sequence[object] = ()) -> tuple[list[Any], bool]:
    """The rows of a query up to where the file is damaged, and whether these are all."""
    import sqlite3

    found: list[Any] = []
    try:
        found.extend(connection.execute(statement, values))
    except (sqlite3.Error, UnicodeError):
        return found, False
    return found, True


@contextmanager
def _connected(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection]:
    import sqlite3

    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise Unusable(path, "foreign")
    except FileNotFoundError:
        raise Unusable(path, "absent") from None
    except OSError as exc:
        raise Unusable(path, "disk", str(exc)) from exc
    connection = None
    try:
        address = f"file:{quote(os.fsencode(path))}?mode=rw"  # SQLite turns to reading where it may not write
        connection = sqlite3.connect(
            address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = _text
        yield connection
    except sqlite3.Error as exc:
        raise Unusable(path, _fault(exc), str(exc)) from exc
    except UnicodeError as exc:  # in SQLite's own words about what it found
        raise Unusable(path, "damaged") from exc
    finally:
        if connection is not None:
            connection.close()  # which undoes what was not committed


def _fault(exc: sqlite3.Error) -> Fault:
    code = getattr(exc, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself, for a value that does not fit
        return "damaged"
    kind = code & 0xFF
    if kind in _BUSY:
        return "busy"
    return "damaged" if kind in _DAMAGED else "disk"


def _require_ours(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise Unusable(
            path, "absent" if _is_new(connection) else "damaged" if _has_our_tables(connection) else "foreign"
        )
    if version > _VERSION:
        raise Unusable(path, "newer")


def _is_new(connection: sqlite3.Connection) -> bool:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return bool(application == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0)


def _has_our_tables(connection: sqlite3.Connection) -> bool:
    """Whether this is our database, of which only the mark in the header is damaged."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return names >= KINDS.keys()


def _create(path: Path) -> None:
    """Make the file for its owner alone. Never open one that is there: closing it would free SQLite's own locks."""
    with suppress(OSError):  # SQLite says what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
