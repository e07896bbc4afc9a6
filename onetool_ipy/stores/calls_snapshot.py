"""One moment of the call log: the database as it stands, and the lines of the append files that are not in it yet.

Reading changes nothing on disk. The append files are opened before the database is looked at, so whatever another
process folds or deletes meanwhile, each call is seen exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.stores.calls_append import Reader, open_readers
from onetool_ipy.stores.calls_chunk import COLUMNS, decode
from onetool_ipy.stores.calls_database import Unusable, database_path, reading
from onetool_ipy.stores.calls_fold import tally_of
from onetool_ipy.stores.calls_line import Batch, parse
from onetool_ipy.stores.calls_tally import Tally

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Chunk", "Snapshot", "snapshot", "tails_only"]

_TALLY = "calls, failures, ms_sum, ms_min, ms_max, size, last_ts, histogram"


class Chunk(NamedTuple):
    """Some thousand calls in the database: how many, and the times of the first and the last of them."""

    number: int
    rows: int
    first_ts: int
    last_ts: int


class Snapshot:
    """What is on disk. `fault` says why the database is not part of it, where it is not."""

    def __init__(
        self, connection: sqlite3.Connection | None, tails: Sequence[tuple[Reader, int]], fault: Unusable | None
    ) -> None:
        self.fault = fault
        self._connection = connection
        self._tails = tails

    @property
    def unfolded_bytes(self) -> int:
        return sum(max(0, reader.size() - offset) for reader, offset in self._tails)

    def tails(self) -> Iterator[Batch]:
        """The calls that are in append files only, some thousand at a time."""
        for reader, offset in self._tails:
            for data, _ in reader.blocks(offset):
                yield parse(data)

    @cached_property
    def words(self) -> dict[int, str]:
        return dict(self._query("SELECT id, text FROM words"))

    def tallies(
        self, level: int, *, start: int = 0, stop: int | None = None, tool: str | None = None
    ) -> Iterator[tuple[int, str, Tally]]:
        """The tallies of a level that start in a range, each with its start and its tool."""
        where, values = "level = ? AND start >= ?", [level, start]
        if stop is not None:
            where, values = f"{where} AND start < ?", [*values, stop]
        if tool is not None:
            number = next((n for n, word in self.words.items() if word == tool), -1)
            where, values = f"{where} AND tool = ?", [*values, number]
        for begin, number, *row in self._query(f"SELECT start, tool, {_TALLY} FROM tallies WHERE {where}", values):
            yield begin, self.words.get(number, "?"), tally_of(tuple(row))

    def counts(self) -> Iterator[tuple[str, int, int]]:
        """Each tool's calls and the time of its last one, without the tail."""
        for number, calls, last_ts in self._query("SELECT tool, calls, last_ts FROM tallies WHERE level = 0"):
            yield self.words.get(number, "?"), calls, last_ts

    def chunks(self, *, first: int | None = None, before: int | None = None) -> list[Chunk]:
        """The chunks that may hold calls in a range of time, newest first."""
        rows = self._query("SELECT id, rows, first_ts, last_ts FROM chunks ORDER BY last_ts DESC, id DESC")
        return [
            Chunk(number, count, first_ts, last_ts)
            for number, count, first_ts, last_ts in rows
            if type(count) is type(first_ts) is type(last_ts) is int
            and (first is None or last_ts >= first)
            and (before is None or first_ts < before)
        ]

    def chunk(self, number: int, names: Sequence[str] = COLUMNS) -> Batch | None:
        """The calls of a chunk, with these columns; None where it is damaged."""
        return decode(self.columns(number, names), self.words)

    def columns(self, number: int, names: Sequence[str]) -> dict[str, bytes]:
        """Some columns of a chunk as they are stored."""
        found = self._query(f"SELECT {', '.join(names)} FROM columns WHERE id = ?", [number])
        return dict(zip(names, found[0], strict=True)) if found else dict.fromkeys(names, b"")

    def handles(self) -> dict[str, str]:
        """The handles that came after their calls, by call id, without the tail."""
        return dict(self._query("SELECT call_id, handle FROM handles"))

    @property
    def dropped_until(self) -> int | None:
        """The time of the newest call whose row was dropped to make room."""
        found = self._query("SELECT value FROM marks WHERE name = 'dropped_until'")
        return found[0][0] if found else None

    @property
    def damaged_files(self) -> list[tuple[str, int]]:
        """Append files with lines that could not be read, and how many."""
        return self._query("SELECT name, damaged FROM files WHERE damaged > 0 ORDER BY name")

    def _query(self, statement: str, values: Sequence[object] = ()) -> list[tuple]:  # type: ignore[type-arg]  # any row
        return [] if self._connection is None else self._connection.execute(statement, values).fetchall()


@contextmanager
def snapshot(folder: Path) -> Iterator[Snapshot]:
    """Look at the log. Raises Unusable where the database is damaged or busy, or its disk fails."""
    readers = open_readers(folder)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(reading(database_path(folder)))
        except Unusable as exc:
            if exc.fault not in ("absent", "newer", "foreign"):
                raise
            yield Snapshot(None, [(reader, 0) for reader in readers], exc)
            return
        known = dict(connection.execute("SELECT name, offset FROM files"))
        yield Snapshot(connection, [(reader, known.get(reader.name, 0)) for reader in readers], None)


def tails_only(folder: Path, fault: Unusable) -> Snapshot:
    """The log without its database: what the append files hold."""
    return Snapshot(None, [(reader, 0) for reader in open_readers(folder)], fault)
