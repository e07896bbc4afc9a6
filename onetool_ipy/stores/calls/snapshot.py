"""One moment of the call log: the database as it stands, and the lines of the append files that are not in it yet.

Reading changes nothing on disk. The append files are opened before the database is looked at, so whatever another
process folds or deletes meanwhile, each call is seen exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.core.once import once
from onetool_ipy.stores.calls.append import End, Reader, open_readers
from onetool_ipy.stores.calls.chunk import COLUMNS, UNKNOWN, decode
from onetool_ipy.stores.calls.database import KINDS, Unusable, database_path, ends, reading, rows, words
from onetool_ipy.stores.calls.fold import histogram_of
from onetool_ipy.stores.calls.line import Batch, parse
from onetool_ipy.stores.calls.tally import Tally

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Chunk", "Range", "Snapshot", "snapshot", "tails_only"]

_SUMS = "sum(calls), sum(failures), sum(ms_sum), min(ms_min), max(ms_max), sum(size), max(last_ts)"


class Range(NamedTuple):
    """Which tallies: those that start in a range of time, of a tool; None means any."""

    start: int | None = None
    stop: int | None = None
    tool: str | None = None


class Chunk(NamedTuple):
    """Some thousand calls in the database: how many, and the times of the first and the last of them."""

    number: int
    rows: int
    first_ts: int
    last_ts: int


class Snapshot:
    """What is on disk. `fault` says why the database is not part of it, where it is not.

    `is_torn` says that an append file was cut or changed after it was read; a fold finds out what is new in it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection | None,
        tails: Sequence[tuple[Reader, int]],
        fault: Unusable | None,
        *,
        is_torn: bool = False,
    ) -> None:
        self.fault = fault
        self.is_torn = is_torn
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

    @once
    def words(self) -> dict[int, str]:
        return {} if self._connection is None else words(self._connection)

    def by_tool(self, level: int, wanted: Range) -> Iterator[tuple[str, Tally]]:
        """What the tallies of a level add up to for each tool."""
        for number, part in self._summed("tool", level, wanted):
            yield self.words.get(number, UNKNOWN), part

    def by_start(self, level: int, wanted: Range) -> Iterator[tuple[int, Tally]]:
        """What the tallies of a level add up to for each hour or day, by its start."""
        return self._summed("start", level, wanted)

    def _summed(self, key: str, level: int, wanted: Range) -> Iterator[tuple[int, Tally]]:
        """SQLite adds up the numbers, we the histograms."""
        where, values = "level = ?", [level]
        if wanted.start is not None:
            where, values = f"{where} AND start >= ?", [*values, wanted.start]
        if wanted.stop is not None:
            where, values = f"{where} AND start < ?", [*values, wanted.stop]
        if wanted.tool is not None:
            where, values = f"{where} AND tool = ?", [*values, self.number_of(wanted.tool)]
        histograms: dict[int, int] = {}
        for name, blob in self._query((int, bytes), f"SELECT {key}, histogram FROM tallies WHERE {where}", values):
            histograms[name] = histograms.get(name, 0) + histogram_of(blob)
        sums = f"SELECT {key}, {_SUMS} FROM tallies WHERE {where} GROUP BY {key}"
        for name, *row in self._query((int, *KINDS["tallies"][3:-1]), sums, values):
            found = Tally._make((*row, histograms.get(name, 0)))
            if not found.is_sound:
                raise Unusable(Path("calls.db"), "damaged")
            yield name, found

    def number_of(self, word: str) -> int:
        """The number that stands for a word, or -1."""
        return next((number for number, known in self.words.items() if known == word), -1)

    def counts(self) -> Iterator[tuple[str, int, int]]:
        """Each tool's calls and the time of its last one, without the tail."""
        counted = "SELECT tool, calls, last_ts FROM tallies WHERE level = 0"
        for number, calls, last_ts in self._query((int, int, int), counted):
            yield self.words.get(number, UNKNOWN), calls, last_ts

    def chunks(self, *, first: int | None = None, before: int | None = None) -> list[Chunk]:
        """The chunks that may hold calls in a range of time, newest first."""
        listed = "SELECT id, rows, first_ts, last_ts FROM chunks ORDER BY last_ts DESC, id DESC"
        chunks = map(Chunk._make, self._query((int, int, int, int), listed))
        return [
            chunk
            for chunk in chunks
            if (first is None or chunk.last_ts >= first) and (before is None or chunk.first_ts < before)
        ]

    def chunk(self, number: int, names: Sequence[str] = COLUMNS) -> Batch | None:
        """The calls of a chunk, with these columns; None where it is damaged."""
        return decode(self.columns(number, names), self.words)

    def columns(self, number: int, names: Sequence[str]) -> dict[str, bytes]:
        """Some columns of a chunk as they are stored."""
        kinds = (bytes,) * len(names)
        found = self._query(kinds, f"SELECT {', '.join(names)} FROM columns WHERE id = ?", [number])
        return dict(zip(names, found[0], strict=True)) if found else dict.fromkeys(names, b"")

    def handles(self) -> dict[str, str]:
        """The handles that came after their calls, by call id, without the tail."""
        return dict(self._query((str, str), "SELECT call_id, handle FROM handles"))

    @property
    def dropped_until(self) -> int | None:
        """The time of the newest call whose row was dropped to make room."""
        found = self._query((int,), "SELECT value FROM marks WHERE name = 'dropped_until'")
        return found[0][0] if found else None

    @property
    def damaged_files(self) -> list[tuple[str, int]]:
        """Append files with lines that could not be read, and how many."""
        return self._query((str, int), "SELECT name, damaged FROM files WHERE damaged > 0 ORDER BY name")

    def _query(self, kinds: tuple[type, ...], statement: str, values: Sequence[object] = ()) -> list[Any]:
        return [] if self._connection is None else rows(self._connection, kinds, statement, values)


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
        known = ends(connection)
        read = [(reader, known.get(reader.name, End())) for reader in readers]
        is_torn = not all(reader.still_has(end) for reader, end in read)
        yield Snapshot(connection, [(reader, max(0, end.offset)) for reader, end in read], None, is_torn=is_torn)


def tails_only(folder: Path, fault: Unusable) -> Snapshot:
    """The log without its database: what the append files hold."""
    return Snapshot(None, [(reader, 0) for reader in open_readers(folder)], fault)
