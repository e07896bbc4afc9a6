"""One moment of the call log: the database, and the calls of the journals that are not in it yet.

`ask` answers a question from such a moment. Reading changes nothing on disk, unless the database must be repaired or
converted first, or much is not folded yet. The journals are opened before the database: whatever another process folds
or deletes meanwhile, each call is seen exactly once. If the database cannot be repaired (on a disk that cannot be
written), the answer comes from a copy in memory, and `problems` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.files import StoreError
from onetool_ipy.base.records import once
from onetool_ipy.core.tool import Problem
from onetool_ipy.stores.calls.database import (
    KEEP,
    WAIT_S,
    Keep,
    LogUnusable,
    creating,
    database_path,
    ends,
    fold,
    identity,
    reading,
    rows,
    salvaging,
)
from onetool_ipy.stores.calls.journal import (
    FOLD_BYTES,
    JournalEnd,
    JournalLines,
    JournalReader,
    newer_journals,
    open_journals,
    parse,
)
from onetool_ipy.stores.calls.repair import repair, salvage, set_aside

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Answer", "CallSnapshot", "ask", "problems", "try_fold"]

_UNFOLDED_BYTES = 2 * FOLD_BYTES
"""How much may be unfolded before a reader folds it. To read it costs half as much, and its process folds it soon."""

_READER_WAIT_S = 2.0
"""How long a reader who must fold waits for others: else nobody folds, and each of them reads all that is unfolded."""

Answer = TypeVar("Answer")


class CallSnapshot:
    """What is on disk. `fault` says why the database is not part of it.

    `is_changed` says that a journal was cut or changed after it was read; a fold finds out what is new in it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection | None,
        journals: Sequence[JournalReader],
        fault: LogUnusable | None = None,
    ) -> None:
        known = {} if connection is None else ends(connection)
        found = [(journal, known.get(journal.name, JournalEnd())) for journal in journals]
        self.fault = fault
        self.is_changed = not all(journal.still_has(end) for journal, end in found)
        self._connection = connection
        self._tails = [(journal, max(0, end.offset)) for journal, end in found]

    @property
    def unfolded_bytes(self) -> int:
        return sum(max(0, journal.size() - offset) for journal, offset in self._tails)

    @once
    def tail(self) -> JournalLines:
        """What is in journals only."""
        calls: list[Any] = []
        handles: dict[str, str] = {}
        damaged = 0
        for journal, offset in self._tails:
            for data, _ in journal.blocks(offset):
                lines = parse(data)
                calls += lines.calls
                handles |= lines.handles
                damaged += lines.damaged
        return JournalLines(calls, handles, damaged)

    def rows(self, types: tuple[type, ...], statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Query the database; no rows if there is none. Raises LogUnusable for a value of another type."""
        return [] if self._connection is None else rows(self._connection, types, statement, values)

    def parts(self, statement: str, values: Sequence[object], size: int) -> Iterator[list[Any]]:
        """Query the database, and give the rows so many at a time."""
        if self._connection is not None:
            cursor = self._connection.execute(statement, values)
            while part := cursor.fetchmany(size):
                yield part


def ask(folder: Path, question: Callable[[CallSnapshot], Answer], *, keep: Keep = KEEP) -> Answer:
    """Answer a question about the log. Raises LogUnusable if the database is busy or its disk fails."""
    is_folded = False
    for _ in range(3):
        seen = identity(database_path(folder))
        try:
            with _snapshot(folder) as found:
                if is_folded or (found.unfolded_bytes <= _UNFOLDED_BYTES and not found.is_changed):
                    return question(found)
            try_fold(folder, keep=keep, wait_s=_READER_WAIT_S)
            is_folded = True
        except LogUnusable as exc:
            if exc.fault not in ("damaged", "landed"):
                raise
            fault = exc
            try:
                repair(folder, seen)
            except StoreError:
                break
        except OSError as exc:
            raise StoreError.of(folder, exc, doing="read") from exc
    with _snapshot_in_memory(folder, fault) as found:
        return question(found)


def try_fold(
    folder: Path,
    *,
    keep: Keep = KEEP,
    at_most: int | None = None,
    go_on: Callable[[], bool] = lambda: True,
    wait_s: float = WAIT_S,
) -> OneToolError | None:
    """Fold at most so many bytes, or all that is there now, while it may go on; give what went wrong, for a report.

    Calls that are recorded meanwhile are left to the next fold: they may come faster than they can be folded.
    """
    for _ in range(2):
        seen = identity(database_path(folder))
        try:
            if at_most is not None:
                fold(folder, keep=keep, at_most=at_most, wait_s=wait_s)
                return None
            sizes = {journal.name: journal.size() for journal in open_journals(folder)}
            while fold(folder, keep=keep, sizes=sizes, wait_s=wait_s) and go_on():
                pass
            return None
        except OSError as exc:
            return StoreError.of(folder, exc)
        except LogUnusable as exc:
            problem: OneToolError = exc
            if exc.fault not in ("damaged", "landed"):
                break
            try:
                repair(folder, seen)
            except StoreError as failed:
                return failed
    return problem


def problems(folder: Path, last: OneToolError | None) -> list[Problem]:
    """Report what is wrong with the log now, and what went wrong with the `last` fold."""
    found = list(_problems(folder))
    if isinstance(last, LogUnusable):
        found = [*filter(None, [last.problem()]), *found]
    elif last is not None:
        found.insert(0, Problem(str(folder), last.message, last.hint))
    return list({str(problem): problem for problem in found}.values())


def _problems(folder: Path) -> Iterator[Problem]:
    try:
        with _snapshot(folder) as found:
            if found.fault is not None and (problem := found.fault.problem()) is not None:
                yield problem
            damaged = "SELECT name, damaged FROM files WHERE damaged > 0 ORDER BY name"
            for name, lines in found.rows((str, int), damaged):
                yield _unread(folder / name, lines)
            if found.tail.damaged:
                yield _unread(folder, found.tail.damaged)
    except LogUnusable as exc:
        if (problem := exc.problem()) is not None:
            yield problem
    except OSError as exc:
        failed = StoreError.of(folder, exc, doing="read")
        yield Problem(str(folder), f"the call log cannot be read: {failed.reason}.", failed.hint)
    for name in newer_journals(folder):
        said = "a later version wrote this part of the call log; its calls are not counted here."
        yield Problem(str(folder / name), said, "Use that version to see them.")
    yield from set_aside(folder)


def _unread(where: Path, lines: int) -> Problem:
    said = f"{lines} lines could not be read and are left out of the call log."
    return Problem(str(where), said, "Nothing is to be done: all others are counted.")


@contextmanager
def _snapshot(folder: Path) -> Iterator[CallSnapshot]:
    """Look at the log. Raises LogUnusable if the database is damaged, landed or busy, or its disk fails."""
    journals = open_journals(folder)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(reading(database_path(folder)))
        except LogUnusable as exc:
            if exc.fault not in ("absent", "newer", "foreign"):
                raise
            yield CallSnapshot(None, journals, exc)
            return
        yield CallSnapshot(connection, journals)


@contextmanager
def _snapshot_in_memory(folder: Path, fault: LogUnusable) -> Iterator[CallSnapshot]:
    """Look at a database that cannot be repaired on its disk: what can be read of it is copied into memory."""
    journals = open_journals(folder)
    path = database_path(folder)
    with creating(None) as new:
        with salvaging(path) as old:
            old.execute("BEGIN")
            salvage(old, new, path)
        yield CallSnapshot(new, journals, fault)
