"""Compaction: the database follows the journals, whatever happens to it; closed journals and their sums are kept."""

from __future__ import annotations

import datetime
import json
import logging
import math
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.background import Workers, WorkerThread
from onetool_ipy.stores.calls.compaction import Compactor, Retention
from onetool_ipy.stores.calls.journal import journals_in
from onetool_ipy.stores.calls.log import CallLog
from tests.stores.calls.aids import DAY, START, Clock, calls, clock, note

__all__ = ["calls", "clock"]  # fixtures


def stored_calls(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "calls.db")) as database:
        count: int = database.execute("SELECT count(*) FROM calls").fetchone()[0]
    return count


def states(folder: Path) -> list[str]:
    return sorted(file.state for file in journals_in(folder).values())


def view(log: CallLog) -> list[Any]:
    """All that can be asked."""
    periods: list[Any] = ["day", "week", "month", "all"]
    rows = sorted(log.history(limit=None), key=lambda row: row.call_id)
    return [rows, *(log.overview(period=period) for period in periods), log.counts(), len(log.frame())]


def filled(folder: Path, clock: Clock, count: int = 500, **options: Any) -> CallLog:
    log = CallLog(folder, clock=clock, **{"rotate_bytes": 20_000, **options})
    for number in range(count):
        clock.now = START - DAY + number * datetime.timedelta(seconds=100)
        note(log, f"a.t{number % 7}", number, ok=number % 9 != 0, ms=1.5, size=3)
    log.attach("id7", "r_7")
    clock.now = START
    return log


def test_compacting_twice_changes_nothing(calls: CallLog) -> None:
    for number in range(100):
        note(calls, number=number)
    calls.compact()
    before = view(calls)

    calls.compact()

    assert view(calls) == before


def test_recording_never_compacts_in_the_caller_s_thread(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    log.close()

    assert not (tmp_path / "calls.db").exists()
    assert set(states(tmp_path)) == {"open"}


def test_full_journals_are_compacted_and_closed_in_the_background(tmp_path: Path, clock: Clock) -> None:
    workers, tasks = Workers(), list[WorkerThread]()
    log = filled(tmp_path, clock, run_later=lambda work: tasks.append(workers.submit(work)))
    for task in tasks:
        task.future.result(timeout=60)

    assert tasks
    assert stored_calls(tmp_path) > 0
    assert "closed" in states(tmp_path)
    assert log.usage().total_calls == 500


def test_a_closed_journal_holds_the_same_lines(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    before = {name: [*file.lines(0)] for name, file in journals_in(tmp_path).items()}

    log.compact()

    after = journals_in(tmp_path)
    assert {name: [*file.lines(0)] for name, file in after.items()} == before
    assert sum(file.state == "closed" for file in after.values()) == len(after) - 1, "all but the one in use"


def test_a_kill_between_compressing_and_deleting_counts_no_call_twice(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    plain = {file.path: file.path.read_bytes() for file in journals_in(tmp_path).values()}
    log.compact()
    for path, data in plain.items():
        path.write_bytes(data)

    assert log.usage().total_calls == 500
    (tmp_path / "calls.db").unlink()
    assert log.usage().total_calls == 500


def damage(path: Path, start: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


DOUBTS: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "not a database": lambda path: path.write_bytes(b"not a database at all" * 1000),
    "header": lambda path: damage(path, 0, bytes(100)),
    "first page": lambda path: damage(path, 0, b"\xa5" * 4096),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "older version": lambda path: change(path, "PRAGMA user_version=3"),
    "newer version": lambda path: change(path, "PRAGMA user_version=99"),
    "another database": lambda path: (path.unlink(), change(path, "CREATE TABLE theirs(x)")),
    "a wrong sum": lambda path: change(path, "UPDATE rollups SET calls = calls + 4096 WHERE span = 'all'"),
    "a sum of text": lambda path: change(path, "UPDATE rollups SET durations = 'x'"),
    "no table": lambda path: change(path, "DROP TABLE contexts"),
    "a link": lambda path: (path.rename(path.with_name("other")), path.symlink_to(path.with_name("other"))),
    "a fifo": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("doubt", DOUBTS.values(), ids=DOUBTS.keys())
def test_a_doubtful_database_is_made_again_from_the_journals(
    tmp_path: Path, clock: Clock, doubt: Callable[[Path], object]
) -> None:
    log = filled(tmp_path, clock)
    log.compact()
    before = view(log)

    doubt(tmp_path / "calls.db")

    assert view(CallLog(tmp_path, clock=clock)) == before
    assert log.problems() == []
    with closing(sqlite3.connect(tmp_path / "calls.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_line_says_that_the_database_is_made_again(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path, clock)
    log.compact()
    (tmp_path / "calls.db").write_bytes(b"junk" * 5000)

    with caplog.at_level(logging.WARNING):
        log.usage()
        log.usage()

    path = tmp_path / "calls.db"
    assert caplog.messages == [f"The call log's database '{path}' is made again from its journals: it is damaged."]


@pytest.mark.parametrize(
    "change_journal",
    [Path.unlink, lambda path: os.truncate(path, path.stat().st_size // 2), lambda path: os.truncate(path, 0)],
    ids=["deleted", "cut", "cut to nothing"],
)
def test_calls_that_no_journal_has_any_more_do_not_count(
    tmp_path: Path, clock: Clock, change_journal: Callable[[Path], object]
) -> None:
    """Whoever deletes a journal deletes its calls."""
    log = filled(tmp_path, clock, rotate_bytes=1 << 20)
    log.compact()
    (file,) = journals_in(tmp_path).values()

    change_journal(file.path)

    kept = file.path.read_bytes().count(b"\n") if file.path.exists() else 0
    assert CallLog(tmp_path, clock=clock).usage().total_calls == kept


def test_much_is_added_in_the_background_and_a_line_says_so(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest journals come first. No call is lost meanwhile, and later all of them count."""
    filled(tmp_path, clock, 1500).close()
    later: list[Callable[[], None]] = []
    options: dict[str, Any] = {"rotate_bytes": 20_000, "step_bytes": 15_000, "patience_s": 0.0}
    log = CallLog(tmp_path, clock=clock, run_later=later.append, **options)

    with caplog.at_level(logging.WARNING):
        early = log.history(limit=1)
        part = log.overview()

    assert 0 < part.usage.total_calls < 1500
    # The handle that `filled` attaches is a line of its own, in the newest journal, which is read
    # first.
    assert part.usage.total_calls + part.pending == 1500
    frame = log.frame()
    assert len(frame) + frame.attrs["pending"] == 1500
    assert early[0].call_id == "id1499"
    assert "calls do not count yet" in caplog.messages[0]
    assert "do not count yet" in str(log.problems()[0])
    assert len(later) == 1
    later[0]()
    assert log.usage().total_calls == 1500
    assert log.overview().pending == 0
    assert "pending" not in log.frame().attrs
    assert log.problems() == []


def test_calls_of_expired_journals_are_pending_too_while_the_database_is_made_again(
    tmp_path: Path, clock: Clock
) -> None:
    filled(tmp_path, clock, 1500, retention=Retention(calls=300)).compact()
    assert "expired" in states(tmp_path)
    (tmp_path / "calls.db").unlink()
    later: list[Callable[[], None]] = []
    log = CallLog(tmp_path, clock=clock, run_later=later.append, step_bytes=1, patience_s=0.0)
    for _ in states(tmp_path):
        overview = log.overview()
        assert overview.usage.total_calls + overview.pending == 1500
    assert overview.pending == 0


def test_the_newest_calls_are_kept_and_the_sums_for_ever(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path, clock=clock, retention=Retention(calls=1000), rotate_bytes=50_000)
    for number in range(4000):
        clock.now = START + number * datetime.timedelta(seconds=1)
        note(log, number=number, size=1)
        if number % 1000 == 999:
            log.compact()

    rows = log.history(limit=None)

    assert log.usage().total_calls == log.usage().output_chars == 4000
    assert 1000 <= len(rows) < 1600
    assert {row.call_id for row in rows} >= {f"id{number}" for number in range(3000, 4000)}
    assert "expired" in states(tmp_path)
    before = view(log)
    (tmp_path / "calls.db").unlink()
    assert view(log) == before, "the sums are kept beside the database"


def test_journals_of_too_many_bytes_expire(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock, retention=Retention(bytes=50_000))

    log.compact()

    assert log.usage().total_calls == 500
    assert 100 < len(log.history(limit=None)) < 300


def test_a_kill_while_a_journal_expires_counts_no_call_twice(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    log.compact()
    expiring = Compactor(folder=tmp_path, retention=Retention(calls=1), rotate_bytes=1, step_bytes=1 << 20)
    closed = {file.path: file.path.read_bytes() for file in journals_in(tmp_path).values() if file.state == "closed"}
    for _ in range(2):
        expiring.compact(math.inf)
    for path, data in [*closed.items()][:2]:
        path.write_bytes(data)

    assert log.usage().total_calls == 500
    expiring.compact(math.inf)
    assert log.usage().total_calls == 500


def test_a_damaged_sum_costs_itself_only(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock, retention=Retention(calls=1))
    log.compact()
    expired = next(file for file in journals_in(tmp_path).values() if file.state == "expired")
    lines = expired.path.read_bytes().splitlines()
    lost = json.loads(lines[0])[2]
    expired.path.write_bytes(b"\n".join([b"garbage", *lines[1:]]) + b"\n")
    (tmp_path / "calls.db").unlink()

    assert log.usage().total_calls == 500 - lost
    assert "1 lines could not be read" in str(log.problems()[0])


def test_where_rows_expired_the_hour_at_the_edge_counts_whole(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path, clock=clock, retention=Retention(calls=1), rotate_bytes=50_000)
    edge = START - DAY
    for number in range(4200):
        clock.now = edge + (number - 100) * datetime.timedelta(milliseconds=1)
        note(log, number=number)
    clock.now = START
    log.compact()

    assert log.usage(period="day").total_calls == 4200
    assert log.usage().total_calls == 4200


def test_a_database_that_cannot_be_written_is_made_in_memory(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    before = view(log)
    (tmp_path / "calls.db").unlink()
    (tmp_path / "calls.db").mkdir()

    assert view(log) == before
    assert "cannot be used" in str(log.problems()[0])
    (tmp_path / "calls.db").rmdir()
    assert log.problems() == []


def test_a_database_that_another_connection_holds_is_no_problem(tmp_path: Path, clock: Clock) -> None:
    """A question is then answered from the journals, and the database stays as it is."""
    log = filled(tmp_path, clock, 50)
    log.compact()
    with closing(sqlite3.connect(tmp_path / "calls.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        note(log, "a.late", 50)

        assert log.usage().total_calls == 51
        assert log.problems() == []
        other.execute("ROLLBACK")

    assert stored_calls(tmp_path) == 50
    assert log.usage().total_calls == 51
