"""All calls of a folder as one table, to be asked in SQL by DuckDB.

`CallDatabase.ask` looks at what is on disk now: Parquet parts are read where they are, journals
that are not closed yet are read into memory, each line once. Nothing is kept on disk, so nothing
can be out of date: an answer covers every call that was recorded before the question.

A part or journal that cannot be read costs itself: it is left out and named. If the journal of a
part is still there, the journal is read instead. Files that vanish meanwhile, since another process
closed a journal, are looked for again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from onetool_ipy.base import forks
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import AtomicFile, Stamp, StoreError, stamp_of
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.core.names import NOT_TOOLS
from onetool_ipy.stores.calls.journal import (
    CONTEXT,
    MORE,
    Context,
    Contexts,
    JournalCall,
    JournalFile,
    files_in,
    parse,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Answer = TypeVar("Answer")

COLUMNS = {
    "ts": "TIMESTAMP",
    "call_id": "VARCHAR",
    "tool": "VARCHAR",
    "source": "VARCHAR",
    "args": "VARCHAR",
    "is_whole": "BOOLEAN",
    "ok": "BOOLEAN",
    "code": "VARCHAR",
    "reason": "VARCHAR",
    "message": "VARCHAR",
    "ms": "DOUBLE",
    "bytes": "BIGINT",
    "handle": "VARCHAR",
    "parent": "VARCHAR",
    "user": "VARCHAR",
    "host": "VARCHAR",
    "notebook": "VARCHAR",
    "cell": "VARCHAR",
    "session": "VARCHAR",
    "fingerprint": "VARCHAR",
    "inputs": "VARCHAR",
}
"""The columns of a part, beside `place`, the number of a call in its journal. `ts` is UTC."""

DAY_COLUMNS = {
    "day": "TIMESTAMP",
    "tool": "VARCHAR",
    "calls": "BIGINT",
    "failures": "BIGINT",
    "ms": "DOUBLE",
    "bytes": "BIGINT",
    "last": "TIMESTAMP",
    "model_calls": "BIGINT",
    "model_bytes": "BIGINT",
}
"""The columns of an expired part: the sums of a tool's calls on a day."""

_CALL: dict[str, Any] = {
    "place": "BIGINT",
    "context": "BIGINT",
    "ts": "BIGINT",
    "call_id": "VARCHAR",
    "args": "VARCHAR",
    "is_whole": "BOOLEAN",
    "ms": "DOUBLE",
    "bytes": "BIGINT",
    "more": {"ok": "BOOLEAN", **dict.fromkeys(MORE, "VARCHAR")},
}
"""A call on its way into DuckDB: its place, the number of its context, and the rest of it."""

VERSION = 1
IS_A_CALL = f"tool NOT IN {tuple(sorted(NOT_TOOLS))}"
"""What usage adds up: an ask or a program has a row beside those of its calls, and is no call."""
_STOPPED = "Query interrupted"
_FRESH = "log.fresh"
"""The table of the calls in open journals. It has a schema of its own: in `main` are the names that
a person may use."""
_TRIES = 50
"""How often an answer is begun anew: each time that another process closed a journal meanwhile."""
_CHANGING = "its files change all the time"
_LONGEST_END_S = 20.0
_MEMORY = "512MB"


class DatabaseMissing(UsageProblem, reason="database_missing"):
    """DuckDB, which answers questions about calls, cannot be loaded."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Questions about calls need DuckDB, which cannot be loaded: {reason}.",
            hint="Run `pip install duckdb`. Calls are recorded all the same.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPart:
    """A Parquet part: how many calls it has, from when to when, and what else its metadata says.

    `members` are the names of the parts that were joined to it. `attached` is how many handles of
    calls of other journals it has.
    """

    file: JournalFile
    calls: int
    first: int
    last: int
    damaged: int
    attached: int
    members: tuple[str, ...]

    def metadata(self) -> dict[str, str]:
        """Return what is written into the file."""
        numbers = {"first": self.first, "last": self.last, "damaged": self.damaged}
        numbers |= {"version": VERSION, "calls": self.calls, "attached": self.attached}
        texts = {name: str(number) for name, number in numbers.items()}
        return texts | {"members": " ".join(self.members)}


@dataclass(slots=True, eq=False)
class _Fresh:
    """How far an open journal was read."""

    offset: int = 0
    calls: int = 0
    damaged: int = 0
    contexts: Contexts = field(default_factory=dict)
    handles: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls on disk at one moment, to be asked.

    `damaged` has the files with lines that could not be read, and how many; 0 for a whole file.
    """

    connection: DuckDBPyConnection
    parts: Sequence[ParquetPart]
    expired: Sequence[Path]
    damaged: Sequence[tuple[str, int]]
    handles: Mapping[str, str]
    """Of results that were stored later, by call id."""

    def rows(self, *, since: int | None = None) -> str:
        """Return the table of all calls as SQL, or without parts that end before a time."""
        parts = [part for part in self.parts if since is None or part.last >= since]
        names = ", ".join(f'"{name}"' for name in (*COLUMNS, "place"))
        fresh = f"SELECT {names} FROM {_FRESH}"
        if not parts:
            return f"({fresh})"
        files = literal([str(part.file.path) for part in parts])
        return f"(SELECT {names} FROM read_parquet({files}) UNION ALL {fresh})"

    def days(self) -> str:
        """Return the table of the sums of expired calls as SQL."""
        if not self.expired:
            names = ", ".join(f"NULL::{kind} AS {name}" for name, kind in DAY_COLUMNS.items())
            return f"(SELECT {names} WHERE false)"
        return f"(SELECT * FROM read_parquet({literal(map(str, self.expired))}))"

    def ask(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of an answer."""
        return self.connection.execute(query, values).fetchall()


class CallDatabase:
    """The calls of a folder. Threads may share it; one question is answered at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hold_connections()
        self._parts: dict[Path, tuple[Stamp | None, ParquetPart | None]] = {}
        self._fresh: dict[str, _Fresh] = {}

    def ask(self, question: Callable[[Calls], Answer]) -> Answer:
        """Answer a question about all that is on disk. Raises StoreError, DatabaseMissing."""
        connection = self.connect()
        fault = _CHANGING
        with self._lock:
            for _ in range(_TRIES):
                try:
                    # A Stop between lines that were read and the note of it would read them twice.
                    with deferred:
                        calls = self._look(connection)
                    return question(calls)
                except FileNotFoundError:
                    continue  # another process closed a journal meanwhile
                except OSError as exc:
                    raise StoreError.of(self._folder, exc, doing="read") from exc
                except duck_errors() as exc:
                    fault = str(exc)
                    self._check_parts(connection)
                except RuntimeError as exc:
                    # DuckDB looks for signals itself, and raises this in place of what their
                    # handler raised.
                    if str(exc) != _STOPPED:
                        raise
                    raise KeyboardInterrupt from None
        raise StoreError(self._folder, fault.splitlines()[0][:200], doing="read")

    def ask_apart(self, question: Callable[[Calls], Answer]) -> Answer:
        """Answer a question by a connection of its own, which the question may lock and interrupt.
        An error of DuckDB that no part is the cause of is the question's own, and is raised."""
        fault = _CHANGING
        for _ in range(_TRIES):
            twin = CallDatabase(self._folder)
            # What is known of the parts is of use to both, also which of them are damaged.
            twin._parts = self._parts
            connection = twin.connect()
            try:
                return question(twin._look(connection))
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise StoreError.of(self._folder, exc, doing="read") from exc
            except duck_errors() as exc:
                fault = str(exc)
                with closing(connect(self._folder)) as other:
                    if self._check_parts(other):
                        raise
            finally:
                connection.close()
        raise StoreError(self._folder, fault.splitlines()[0][:200], doing="read")

    @contextmanager
    def writing(self) -> Iterator[DuckDBPyConnection]:
        """Lend a connection to whoever writes parts, maybe in another thread, one at a time: the
        process does not end meanwhile. Raises DatabaseMissing."""
        # A connection has one answer at a time, and that of `ask` is somebody's question.
        with self._writing, closing(self.connect().cursor()) as connection:
            yield connection

    def connect(self) -> DuckDBPyConnection:
        """Open DuckDB, once. Raises DatabaseMissing."""
        with self._lock:
            if not self._connections:
                connection = connect(self._folder)
                types = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
                schema, _, _ = _FRESH.partition(".")
                connection.execute(f"CREATE SCHEMA {schema}").fetchall()
                connection.execute(
                    f"CREATE TABLE {_FRESH}({types}, place BIGINT, journal VARCHAR)"
                ).fetchall()
                self._connections.append(connection)
            return self._connections[0]

    def forget(self) -> None:
        """Leave the connection to the process that this one was forked from."""
        forks.leave_to_parent(self._connections)
        self._end.detach()
        self._hold_connections()
        self._fresh = {}

    def _hold_connections(self) -> None:
        """Make room for the connection. It goes before the interpreter does: DuckDB prints a page
        of warnings about one that is still there at the very end."""
        self._connections: list[DuckDBPyConnection] = []
        self._lock, self._writing = threading.RLock(), threading.RLock()
        # Whoever writes takes the other lock meanwhile, so its own is the first.
        self._end = finalize(self, _end, self._connections, (self._writing, self._lock))

    def _look(self, connection: DuckDBPyConnection) -> Calls:
        """Find out what is on disk. Raises FileNotFoundError if it changes meanwhile."""
        files = files_in(self._folder)
        parts, damaged = self._read_parts(connection, files)
        members = {name for part in parts for name in part.members}
        parts = [part for part in parts if part.file.name not in members]
        whole = {part.file.name for part in parts}
        journals = [
            file
            for file in files
            if file.state in ("open", "closed") and file.name not in members | whole
        ]
        damaged += self._read_journals(connection, journals)
        handles: dict[str, str] = {}
        for fresh in self._fresh.values():
            handles |= fresh.handles
        damaged += [(name, fresh.damaged) for name, fresh in self._fresh.items() if fresh.damaged]
        rows = [part for part in parts if part.file.state == "part"]
        if attached := [str(part.file.path) for part in rows if part.attached]:
            select = f"SELECT call_id, handle FROM read_parquet({literal(attached)})"
            handles |= dict(connection.execute(f"{select} WHERE tool IS NULL").fetchall())
        full = {part.file.name for part in rows}
        return Calls(
            connection=connection,
            # A search for the newest calls skips what is older than those that it has found.
            parts=sorted(rows, key=lambda part: part.last, reverse=True),
            expired=[
                part.file.path
                for part in parts
                if part.file.state == "expired" and part.file.name not in full
            ],
            damaged=sorted(damaged),
            handles=handles,
        )

    def _read_parts(
        self, connection: DuckDBPyConnection, files: Sequence[JournalFile]
    ) -> tuple[list[ParquetPart], list[tuple[str, int]]]:
        """Read what is new of the parts' metadata. Give the parts, and those with damage."""
        parts, damaged = [], []
        stamps = {file: stamp_of(file.path) for file in files if file.state in ("part", "expired")}
        if None in stamps.values():
            raise FileNotFoundError("A part was joined to others since it was listed.")
        unread = [
            file
            for file, stamp in stamps.items()
            if self._parts.get(file.path, (None, None))[0] != stamp
        ]
        entries = read_metadata(connection, [file.path for file in unread])
        for file in unread:
            self._parts[file.path] = (stamps[file], part_from(file, entries.get(str(file.path))))
        for file in stamps:
            part = self._parts[file.path][1]
            if part is not None:
                parts.append(part)
            if part is None or part.damaged:
                damaged.append((file.path.name, part.damaged if part else 0))
        return parts, damaged

    def _read_journals(
        self, connection: DuckDBPyConnection, journals: Sequence[JournalFile]
    ) -> list[tuple[str, int]]:
        """Bring the lines of open journals that are new into memory. Give those that cannot be
        read, such as one of another user."""
        damaged = []
        names = {file.name for file in journals}
        for name in self._fresh.keys() - names:
            self._drop(connection, name)
        for file in journals:
            if file.size < self._fresh.get(file.name, _Fresh()).offset:
                self._drop(connection, file.name)
            fresh = self._fresh.setdefault(file.name, _Fresh())
            try:
                for data, offset in file.lines(fresh.offset):
                    lines = parse(data, fresh.contexts)
                    if lines.calls:
                        rows, values = rows_of(lines.calls, fresh.calls)
                        add = f"INSERT INTO {_FRESH} BY NAME SELECT *, ? AS journal FROM ({rows})"
                        connection.execute(add, [file.name, *values]).fetchall()
                    fresh.offset = offset
                    fresh.calls += len(lines.calls)
                    fresh.damaged += lines.damaged
                    fresh.handles |= dict(lines.handles)
            except PermissionError:
                damaged.append((file.path.name, 0))
        return damaged

    def _drop(self, connection: DuckDBPyConnection, name: str) -> None:
        del self._fresh[name]
        connection.execute(f"DELETE FROM {_FRESH} WHERE journal = ?", [name]).fetchall()

    def _check_parts(self, connection: DuckDBPyConnection) -> bool:
        """Read every part, and leave out those that cannot be read, until they change. Says whether
        all of them could be read."""
        is_whole = True
        for path, (stamp, part) in list(self._parts.items()):
            if part is None or stamp is None:
                continue
            names = DAY_COLUMNS if part.file.state == "expired" else COLUMNS
            typed = ", ".join(f'max("{name}"::{kind})' for name, kind in names.items())
            try:
                connection.execute(
                    f"SELECT {typed} FROM read_parquet({literal([str(path)])})"
                ).fetchall()
            except duck_errors() as exc:
                is_whole = False
                if path.exists() and not _is_of_the_machine(exc):
                    self._parts[path] = (stamp, None)
        return is_whole


def _end(connections: list[DuckDBPyConnection], locks: Sequence[threading.RLock]) -> None:
    """Let the connection go, once no other thread uses it.

    The interpreter ends a thread that is inside DuckDB by aborting the whole process. The locks
    stay taken: a thread that comes later waits, and is ended in peace.
    """
    for lock in locks:
        lock.acquire(timeout=_LONGEST_END_S)
    connections.clear()


def connect(folder: Path) -> DuckDBPyConnection:
    """Open DuckDB in memory. Raises DatabaseMissing."""
    try:
        # A Stop that cuts the import off would leave half a library.
        with deferred:
            import duckdb

        # What does not fit into memory goes beside the calls, not into the working folder.
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "threads": 2,
            "temp_directory": str(folder / "spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        # It would draw a bar into the cell, or over a terminal's line.
        connection.execute("SET enable_progress_bar = false").fetchall()
        return connection
    except Exception as exc:
        raise DatabaseMissing(f"{type(exc).__name__}: {str(exc)[:200]}") from exc


def literal(texts: Iterable[str]) -> str:
    """Write texts as a list in SQL."""
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"


def rows_of(calls: Sequence[JournalCall], place: int) -> tuple[str, list[str]]:
    """Return calls of a journal as SQL, numbered from a place on, and the value in it.

    They are numbers, bools and texts, which are quicker to hand over as JSON than one by one.
    """
    from orjson import dumps

    contexts, *columns = map(list, zip(*calls, strict=True))
    # Contexts are few: each call has the number of its own.
    numbers: dict[Context, int] = {}
    context_numbers = [numbers.setdefault(context, len(numbers) + 1) for context in contexts]
    places = [*range(place, place + len(calls))]
    journal: dict[str, list[Any]] = dict(
        zip(_CALL, (places, context_numbers, *columns), strict=True)
    )
    journal["contexts"] = [dict(zip(CONTEXT, context, strict=False)) for context in numbers]
    structure = {name: [kind] for name, kind in _CALL.items()}
    structure["contexts"] = [dict.fromkeys(CONTEXT, "VARCHAR")]
    unnested = ", ".join(f"unnest(c.{name}) AS {name}" for name in _CALL)
    query = (
        "SELECT make_timestamp(ts) AS ts, call_id, args, is_whole, ms, bytes, place, unnest(more),"
        f" unnest(contexts[context]) FROM (SELECT {unnested}, c.contexts FROM (SELECT"
        # The text is in a row, since DuckDB takes three times as long for a constant.
        f" from_json(text, '{dumps(structure).decode()}') AS c FROM (VALUES (?)) AS journal(text)))"
    )
    return query, [dumps(journal).decode()]


def write_parquet(
    connection: DuckDBPyConnection,
    path: Path,
    query: str,
    metadata: Mapping[str, str],
    values: Sequence[object] = (),
) -> None:
    """Write the answer of a query as a Parquet file, whole or not at all. Raises StoreError."""
    facts = ", ".join(f"{name}: '{text}'" for name, text in metadata.items())
    with AtomicFile(path) as file:
        with file.lent() as temp:
            place = str(temp).replace("'", "''")
            try:
                connection.execute(
                    # Version 2 keeps the differences of times, which are a third as long and read
                    # twice as fast.
                    f"COPY ({query}) TO '{place}' (FORMAT parquet, PARQUET_VERSION V2, COMPRESSION"
                    f" zstd, USE_TMP_FILE false, KV_METADATA {{{facts}}})",
                    values,
                ).fetchall()
            except duck_errors() as exc:
                raise StoreError(path, _reason(exc)) from exc
        file.commit()


def read_metadata(
    connection: DuckDBPyConnection, paths: Sequence[Path]
) -> dict[str, dict[str, str]]:
    """Read what we wrote into the metadata of parts, by path; a damaged one is left out. Raises an
    error of DuckDB that is not about the parts."""
    if not paths:
        return {}
    query = f"SELECT file_name, key, value FROM parquet_kv_metadata({literal(map(str, paths))})"
    try:
        rows = connection.execute(query).fetchall()
    except duck_errors() as exc:
        if _is_of_the_machine(exc):
            raise
        if len(paths) == 1:
            if not paths[0].exists():
                raise FileNotFoundError(paths[0]) from None
            return {}
        # One of them is damaged, or gone.
        halves = paths[: len(paths) // 2], paths[len(paths) // 2 :]
        return read_metadata(connection, halves[0]) | read_metadata(connection, halves[1])
    entries: dict[str, dict[str, str]] = {}
    for name, key, value in rows:
        text = bytes(value).decode("utf-8", "replace")
        entries.setdefault(name, {})[bytes(key).decode("utf-8", "replace")] = text
    return entries


def part_from(file: JournalFile, metadata: Mapping[str, str] | None) -> ParquetPart | None:
    """Make a part of its metadata; None if it is not ours, or of another version."""
    if metadata is None or metadata.get("version") != str(VERSION):
        return None
    try:
        return ParquetPart(
            file=file,
            calls=int(metadata["calls"]),
            first=int(metadata["first"]),
            last=int(metadata["last"]),
            damaged=int(metadata["damaged"]),
            attached=int(metadata["attached"]),
            members=tuple(metadata["members"].split()),
        )
    except (LookupError, ValueError):
        return None


def duck_errors() -> type[Exception]:
    """Return the class of all errors of DuckDB."""
    import duckdb

    return duckdb.Error


def _is_of_the_machine(exc: Exception) -> bool:
    """Whether an error of DuckDB says nothing about the file that is read: no memory, too many open
    files, a Stop. Such a file is whole, and is read at the next question."""
    import duckdb

    is_short = "Too many open files" in str(exc)
    return is_short or isinstance(exc, (duckdb.OutOfMemoryException, duckdb.InterruptException))


def _reason(exc: Exception) -> str:
    text = str(exc)
    for name in ("No space left", "Disk quota", "Read-only"):
        if name in text:
            return {"No": "the disk is full", "Disk": "the disk quota is used up"}.get(
                name.split()[0], "the disk is read-only"
            )
    return " ".join(text.split())[:200]
