"""A person's SQL over the calls, stored results and tables of their own, by DuckDB.

A query is one SELECT. Its tables are `calls`, `r_<handle>`, and names that the caller looks up.
Each query has a connection of its own with 512 MB of memory. DuckDB reads parts of the log and
stored results where they are; a result that is a table of another form is read into memory.

A query reaches nothing else. It is read as a syntax tree first: a statement that writes, also one
inside a WITH, and a function that reads files are refused. Then access to files and the network is
switched off but for the files of its tables, and the settings are locked.
"""

from __future__ import annotations

import atexit
import json
import mmap
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import tables, values
from onetool_ipy.base.background import StepThread
from onetool_ipy.base.errors import (
    ExecutionFailed,
    InvalidArgs,
    OneToolError,
    TooLarge,
    Unavailable,
)
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.core.result import to_frame
from onetool_ipy.stores.calls.database import (
    Calls,
    DatabaseMissing,
    connect,
    duck_errors,
    literal,
)

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
    from duckdb import DuckDBPyConnection

    from onetool_ipy.stores.calls.log import CallLog
    from onetool_ipy.stores.results import Results

RESULT = "r_"
"""The name of a stored result's table begins so; its handle follows."""

_CALLS = "calls"
_EXAMPLE = "For example: select tool, count(*) from calls group by all"
_COLUMNS = (
    *("call_id", "tool", "source", "args", "ok", "code", "reason", "message", "ms", "bytes"),
    *("handle", "parent", "user", "host", "notebook", "cell", "session", "fingerprint"),
)
_READING = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
"""The nodes of a query that only reads. A WITH may also hold COPY and INSERT."""
_FUNCTIONS = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest")
)
"""The functions that may stand in FROM. Others read files, run SQL from a text, or tell of DuckDB
itself."""
_SETTINGS = (
    "python_enable_replacements = false",
    "enable_external_access = false",
    "lock_configuration = true",
)
_MAX_QUERY = 200_000
_MAX_LOADED = 256 << 20
_MAX_ANSWER = 512 << 20
_MAX_OBJECT = 32 << 20
_VECTORS, _MAX_CHUNK = 50, 64 << 20
_LISTED = 8
_ENDING_S, _ASK_S = 0.8, 0.05
_PLAIN = frozenset(
    ("string", "integer", "floating", "boolean", "datetime", "date", "time", "decimal", "bytes")
)
_NO_TABLE = re.compile(r"Table with name (.{1,300}?) does not exist")
_NO_COLUMN = re.compile(r'Referenced column "(.{1,300}?)" not found')
_NO_FUNCTION = re.compile(r"Function with name \"?(\w+)\"? (?:does not exist|is not in)")
_QUOTED = re.compile(r'"([^"]*)"')

_NO_FILES = "A query reads tables alone: no files, no addresses, no settings."
_READ_FIRST = "Read a file with Python first: its DataFrame is a table by its name."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of the person who asks: `find` gives a DataFrame by its name, or None. `names` are
    all there are."""

    find: Callable[[str], pd.DataFrame | None]
    names: Callable[[], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectQuery:
    """A query that only reads, and the names of its tables as they are written."""

    text: str
    names: tuple[str, ...]
    lists_tables: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What a name of a query is: SQL that reads files, or a DataFrame."""

    name: str
    sql: str = ""
    frame: pd.DataFrame | None = None
    path: Path | None = None


class Sql:
    """Answers queries. `columns` keeps what was found out of the columns of stored results, by
    handle: they never change."""

    def __init__(self, log: CallLog, results: Results, columns: dict[str, str]) -> None:
        self.log = log
        self._results = results
        self._columns = columns

    def ask(self, text: str, own: Tables) -> pd.DataFrame:
        """Answer a query. Raises InvalidArgs, ExecutionFailed, TooLarge. Stop ends it."""
        # Half a library, which a Stop in the import leaves, may make the next query wait for ever.
        with deferred:
            import pandas as pd  # noqa: F401 - used in the thread

        question = _Asked(self, text, own)
        with StepThread() as steps:
            try:
                frame: pd.DataFrame = steps.run(question.run)
            except BaseException:
                question.stop()
                raise
        return frame

    def names(self) -> list[str]:
        """Return the names of our own tables."""
        return [_CALLS, *(f"{RESULT}{row['handle']}" for row in self._results.list())]

    def about(self, own: Tables) -> pd.DataFrame:
        """Return all tables there are, and what each is."""
        import pandas as pd

        rows = [(_CALLS, "every call of the log")]
        rows += [(f"{RESULT}{row['handle']}", row["tool"]) for row in self._results.list()]
        rows += [(name, "a table of yours") for name in own.names()]
        return pd.DataFrame(rows, columns=["table", "what"])

    def calls_of(self, calls: Calls) -> str:
        """Return the calls as SQL, with the handles of results that were stored later."""
        database = calls.connection
        database.execute("CREATE TABLE log.handles(call_id VARCHAR, late VARCHAR)").fetchall()
        for pair in calls.handles.items():
            database.execute("INSERT INTO log.handles VALUES (?, ?)", pair).fetchall()
        # A time without a zone would be compared with now() as if it were local.
        cells = {
            "ts": "timezone('UTC', c.ts) AS ts",
            "handle": "coalesce(h.late, c.handle) AS handle",
        }
        columns = ", ".join(cells.get(name, f'c."{name}"') for name in ("ts", *_COLUMNS))
        return (
            f"SELECT {columns} FROM {calls.rows()} AS c LEFT JOIN log.handles AS h USING (call_id)"
            " WHERE c.tool IS NOT NULL"
        )

    def result(self, name: str, connection: DuckDBPyConnection) -> _Source | None:
        """Return the stored result that a name means. Raises HandleNotFound, HandleExpired,
        StoreError."""
        handle = name.lower().removeprefix(RESULT)
        if name.lower() == handle:
            return None
        if (frame := self._results.held_table(handle)) is not None:
            return _Source(name=name, frame=frame)
        path, form = self._results.file_of(handle)
        is_of_rows = form != "text" and _first_byte(path) == b"{" and form != "json"
        if is_of_rows and (sql := self._rows(handle, path, connection)):
            return _Source(name=name, sql=sql, path=path)
        if form == "text" and _first_byte(path) not in (b"{", b"[") and not _has_return(path):
            return _Source(name=name, sql=_LINES.format(path=_text(path)), path=path)
        if path.stat().st_size > _MAX_LOADED:
            raise TooLarge(
                f"The result '{handle}' is no table that can be read in place, and too large to be"
                " read into memory.",
                hint=f"Search it instead: ot.result('{handle}', search='...')",
            )
        return _Source(name=name, frame=to_frame(self._results.value(handle)))

    def _rows(self, handle: str, path: Path, connection: DuckDBPyConnection) -> str:
        """Return SQL for a result with a record in each line; "" if DuckDB cannot read it so."""
        if (columns := self._columns.get(handle)) is not None:
            return columns
        options = f"format = 'newline_delimited', maximum_object_size = {_MAX_OBJECT}"
        # All rows are looked at: a key or a type may come late. It is done once for a result.
        guess = "sample_size = -1, map_inference_threshold = -1, field_appearance_threshold = 0"
        rows = f"read_json({_text(path)}, {options}"
        sql = ""
        with suppress(duck_errors()):
            described = connection.execute(f"DESCRIBE FROM {rows}, {guess})").fetchall()
            kinds = {name: kind for name, kind, *_ in described}
            # Two keys that differ in case are renamed, and then not found again.
            firsts = {re.sub(r"_\d+$", "", name).casefold() for name in kinds}
            if kinds.keys() != {"json"} and len(firsts) == len(kinds):
                typed = ", ".join(f"{_text(name)}: {_text(kinds[name])}" for name in kinds)
                sql = f"FROM {rows}, columns = {{{typed}}})"
        self._columns[handle] = sql
        return sql


class _Asked:
    """One query under way. `run` is made in a thread of its own, which `stop` ends."""

    def __init__(self, sql: Sql, text: str, own: Tables) -> None:
        self._sql = sql
        self._text = text
        self._own = own
        self._connection: DuckDBPyConnection | None = None
        self._is_stopped = self._is_over = False

    def run(self) -> pd.DataFrame:
        """Answer the query."""
        problem: OneToolError
        # A process that ends while a thread is in DuckDB is aborted.
        atexit.register(self.stop)
        try:
            return self._run()
        except DatabaseMissing as exc:
            problem = Unavailable(exc.message, hint=exc.hint)
        except OneToolError as exc:
            problem = exc
        except duck_errors() as exc:
            problem = self._worded(exc)
        finally:
            self._connection, self._is_over = None, True
            atexit.unregister(self.stop)
        # Whoever keeps a failure would keep the connection in its frames, and DuckDB prints a page
        # about one that is there at the end of the interpreter.
        problem.__cause__ = problem.__context__ = None
        raise problem.with_traceback(None)

    def _run(self) -> pd.DataFrame:
        with closing(connect(self._sql.log.folder)) as connection:
            query = read(self._text, connection)
            if query.lists_tables:
                return self._sql.about(self._own)
            if _CALLS not in map(str.lower, query.names):
                return self._answer(query, connection, None)
        return self._sql.log.ask_apart(lambda calls: self._answer(query, calls.connection, calls))

    def stop(self) -> None:
        """End the query, and wait a moment for its end."""
        self._is_stopped = True
        until = time.monotonic() + _ENDING_S
        # An interrupt between two statements is lost, so it is repeated.
        while not self._is_over and time.monotonic() < until:
            if self._connection is not None:
                with suppress(duck_errors()):
                    self._connection.interrupt()
            time.sleep(_ASK_S)

    def _answer(
        self, query: SelectQuery, connection: DuckDBPyConnection, calls: Calls | None
    ) -> pd.DataFrame:
        self._connection = connection
        sources = [] if calls is None else [_Source(name=_CALLS, sql=self._sql.calls_of(calls))]
        sources += self._sources(query, connection)
        paths = [source.path for source in sources if source.path is not None]
        paths += [] if calls is None else [part.file.path for part in calls.parts]
        for source in sources:
            name = '"' + source.name.replace('"', '""') + '"'
            if source.frame is not None:
                connection.register(source.name, _fit(source.frame))
            else:
                connection.execute(f"CREATE VIEW {name} AS {source.sql}").fetchall()
        allowed = literal(map(str, paths))
        for setting in (f"allowed_paths = {allowed}", *_SETTINGS):
            connection.execute(f"SET {setting}").fetchall()
        self._require_wanted()
        return _fetch(query.text, connection, self._require_wanted)

    def _sources(self, query: SelectQuery, connection: DuckDBPyConnection) -> Iterator[_Source]:
        seen: dict[str, str] = {_CALLS: _CALLS}
        for name in query.names:
            self._require_wanted()
            if name.lower() == _CALLS or seen.get(name.lower()) == name:
                continue
            source = self._sql.result(name, connection) if name.lower()[:2] == RESULT else None
            if source is None and (frame := self._own.find(name)) is not None:
                source = _Source(name=name, frame=frame)
            if source is not None and name.lower() in seen:
                raise InvalidArgs(
                    f"'{name}' and '{seen[name.lower()]}' are one name in SQL.",
                    hint="Rename one of them.",
                )
            if source is not None:
                seen[name.lower()] = name
                yield source

    def _require_wanted(self) -> None:
        if self._is_stopped:
            raise Unavailable("The query was stopped.")

    def _worded(self, exc: Exception) -> ExecutionFailed | InvalidArgs:
        """Return an error of DuckDB in words for the person who wrote the query."""
        import duckdb

        text = str(exc)
        if isinstance(exc, duckdb.OutOfMemoryException):
            return TooLarge(
                "The query needs more than 512 MB of memory.",
                hint="Take fewer rows or columns: where, limit, or group by.",
            )
        if match := _NO_TABLE.search(text):
            calls, *results = self._sql.names()
            names = [calls, *self._own.names(), *results]
            hint = f"There are: {_listed(names)}."
            if "/" in match[1] or "." in match[1]:
                hint = f"{_NO_FILES} {hint}"
            name = match[1].strip('"')
            return InvalidArgs(
                f"No table '{name}'. {did_you_mean(name, names)}".rstrip(), hint=hint
            )
        if match := _NO_COLUMN.search(text):
            _, _, candidates = text.partition("Candidate bindings:")
            names = _QUOTED.findall(candidates.partition("\n")[0])
            near = did_you_mean(match[1], names)
            hint = f"Near it: {_listed(names)}. All: describe TABLE" if names else ""
            return InvalidArgs(f"No column '{match[1]}'. {near}".rstrip(), hint=hint)
        if match := _NO_FUNCTION.search(text):
            _, _, near = text.partition("Did you mean ")
            hint = f"Did you mean '{_QUOTED.findall(near)[0]}'?" if _QUOTED.search(near) else ""
            return InvalidArgs(f"No function '{match[1]}'. {hint}".rstrip())
        if isinstance(exc, duckdb.PermissionException):
            return InvalidArgs(_NO_FILES, hint=_READ_FIRST)
        if "lambda arrow" in text:
            return InvalidArgs("'->' makes no function.", hint="Write: lambda x: x + 1")
        _, _, reason = text.partition(": ")
        # What follows the first sentence is advice for whoever may change DuckDB's settings.
        reason = " ".join(reason.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        # The line of the query, with a mark below the place of the error.
        _, mark, place = text.partition("\nLINE ")
        hint = place.partition(": ")[2].split("\n")[0].strip() if mark else ""
        return InvalidArgs(f"The query failed: {values.cut(reason, 300)}.", hint=hint)


_LINES = (
    "FROM read_csv({path}, delim = '\x01\x01\x02', quote = '', escape = '', header = false,"
    " auto_detect = false, new_line = '\\n', columns = {{'line': 'VARCHAR'}},"
    f" force_not_null = ['line'], max_line_size = {_MAX_OBJECT})"
)


def read(text: str, connection: DuckDBPyConnection) -> SelectQuery:
    """Read a query without running it. Raises InvalidArgs if it is not one SELECT that only
    reads."""
    if len(text) > _MAX_QUERY:
        raise InvalidArgs(f"The query has over {_MAX_QUERY:,} characters.")
    try:
        select = "SELECT json_serialize_sql(?::VARCHAR)"
        ((serialized,),) = connection.execute(select, [text]).fetchall()
        tree = json.loads(serialized)
    except (duck_errors(), RecursionError) as exc:
        raise InvalidArgs("The query cannot be read: it is no plain text, or too deep.") from exc
    if tree["error"]:
        raise _refusal(tree, text)
    if len(tree["statements"]) != 1:
        several = "One query at a time." if tree["statements"] else "There is no query."
        raise InvalidArgs(several, hint=_EXAMPLE)
    names: dict[str, None] = {}
    lists_tables = False
    for node in _nodes(tree["statements"][0]):
        kind = str(node.get("type", ""))
        _require_reading(kind, node)
        if kind == "SHOW_REF" and node.get("show_type") == "SHOW_SPECIAL":
            lists_tables = True
        # A table that is said to be in another schema is none of ours.
        is_ours = node.get("schema_name", "").lower() in ("", "main")
        if is_ours and node.get("table_name") and "class" not in node:
            names[str(node["table_name"])] = None
    return SelectQuery(text=text, names=tuple(names), lists_tables=lists_tables)


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a syntax tree in the order of its text."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            yield node
            waiting += reversed(list(node.values()))


def _require_reading(kind: str, node: dict[str, Any]) -> None:
    """Refuse a node of a query that does not only read tables. Raises InvalidArgs."""
    if kind.endswith("_NODE") and kind not in _READING:
        raise InvalidArgs("A query only reads: it may not copy, insert, update or delete.")
    if kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in _FUNCTIONS:
            raise InvalidArgs(
                f"'{values.cut(name, 40)}' cannot stand in FROM. {_NO_FILES}",
                hint=_READ_FIRST,
            )
    if node.get("named_param_map"):
        raise InvalidArgs("A query has no parameters.", hint="Write the values into it.")


def _refusal(tree: dict[str, Any], text: str) -> InvalidArgs:
    """Return why a text is no query that can be read."""
    message = str(tree["error_message"])
    if tree["error_type"] == "not implemented":
        return InvalidArgs(
            "A query is one SELECT: it only reads.",
            hint=_EXAMPLE,
        )
    place = tree.get("position")
    if place is None:
        if "depth" in message:
            return InvalidArgs("The query is too deep.")
        return InvalidArgs(f"The SQL is wrong: {values.cut(message, 200)}.", hint=_EXAMPLE)
    # The place counts bytes.
    before = text.encode()[: int(place)].decode("utf-8", "ignore")
    line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    source = text.split("\n")[line]
    begin = max(0, column - 60)
    pointer = f"{source[begin : column + 20].rstrip()}\n{' ' * (column - begin)}^"
    message = message.replace('"', "'")
    return InvalidArgs(
        f"The SQL is wrong at line {line + 1}, character {column + 1}: {values.cut(message, 200)}.",
        hint=pointer,
    )


def _fetch(
    text: str, connection: DuckDBPyConnection, require_wanted: Callable[[], None]
) -> pd.DataFrame:
    """Run a query and return its rows. Raises TooLarge."""
    import pandas as pd

    relation = connection.sql(text)
    large = [
        place for place, kind in enumerate(relation.types) if str(kind) in ("HUGEINT", "UHUGEINT")
    ]
    if large:
        # pandas has no such numbers, and floats would change them.
        names = [name.replace('"', '""') for name in relation.columns]
        cells = [
            f'#{place + 1}{"::VARCHAR" if place in large else ""} AS "{name}"'
            for place, name in enumerate(names)
        ]
        # Written anew from its syntax tree, the query has no comment and no semicolon at its end.
        written = "SELECT json_deserialize_sql(json_serialize_sql(?::VARCHAR))"
        ((inner,),) = connection.execute(written, [text]).fetchall()
        text = f"SELECT {', '.join(cells)} FROM ({inner})"
    connection.execute(text)
    parts: list[pd.DataFrame] = []
    size, vectors = 0, 1
    while True:
        require_wanted()
        part = connection.fetch_df_chunk(vectors)
        if parts and not len(part):
            break
        parts.append(part)
        part_size = int(part.memory_usage(index=False, deep=True).sum())
        # Rows may be large, and a chunk is whole in memory before it is counted.
        vectors = max(1, min(_VECTORS, vectors * _MAX_CHUNK // max(part_size, 1)))
        size += part_size
        if size > _MAX_ANSWER:
            raise TooLarge(
                f"The answer has over {_MAX_ANSWER >> 20:,} MB.",
                hint="Take fewer rows or columns: where, limit, or group by.",
            )
        if not len(part):
            break
    frame = parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)
    for place in large:
        numbers = [
            None if cell is None or cell != cell else int(cell) for cell in frame.iloc[:, place]
        ]
        frame.isetitem(place, _whole_numbers(numbers))
    return frame


def _whole_numbers(cells: Sequence[int | None]) -> Any:
    import pandas as pd

    try:
        return pd.array(cells, dtype="Int64" if None in cells else "int64")
    except OverflowError:
        return pd.Series(cells, dtype=object)


def _fit(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a DataFrame that DuckDB reads as it is: each column of one kind, the index as columns.

    Cells of a column that has several kinds become text: texts as they are, others as JSON.
    """
    from pandas.api.types import infer_dtype  # type: ignore[import-untyped]  # it ships no stubs

    frame = tables.flat(frame).copy(deep=False)
    if not len(frame.columns):
        raise InvalidArgs("A table without columns cannot be asked.")
    # Names may be numbers, tuples, empty or twice there; in SQL case does not count.
    names: dict[str, str] = {}
    for label in frame.columns:
        name = ".".join(map(str, label)) if isinstance(label, tuple) else str(label)
        unique, number = name or "column", 0
        while unique.lower() in names:
            number += 1
            unique = f"{name}_{number}"
        names[unique.lower()] = unique
    frame.columns = list(names.values())
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind in "biuf" and not hasattr(dtype, "subtype"):
            continue
        column = frame.iloc[:, place]
        is_plain = dtype.kind in "Mm" or str(dtype) in ("str", "string", "category")
        if dtype.kind == "O" and not is_plain:
            is_plain = infer_dtype(column, skipna=True) in _PLAIN
        if not is_plain:
            frame.isetitem(place, [_as_text(cell) for cell in column])
    return frame


def _as_text(cell: object) -> str | None:
    if isinstance(cell, str):
        return cell
    return None if tables.is_missing(cell) else json.dumps(values.to_json(cell))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _text(text: object) -> str:
    """Write a text in SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def _first_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1)


def _has_return(path: Path) -> bool:
    """Whether a text has carriage returns: DuckDB would end lines there."""
    if not path.stat().st_size:
        return True
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b"\r") >= 0
