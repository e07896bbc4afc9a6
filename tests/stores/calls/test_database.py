"""Append files and folds: processes, threads, what is kept and for how long."""

from __future__ import annotations

import datetime
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from onetool_ipy.base.background import Task, Workers
from onetool_ipy.stores.calls.database import Keep
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.calls.snapshot import try_fold
from tests.stores.calls.aids import DAY, START, Clock, calls, clock, note, settle

__all__ = ["calls", "clock", "settle"]  # fixtures


def stored_calls(folder: Path) -> int:
    with sqlite3.connect(folder / "calls.db") as connection:
        found: int = connection.execute("SELECT count(*) FROM calls").fetchone()[0]
    connection.close()
    return found


def test_folding_twice_changes_nothing(calls: CallLog) -> None:
    for number in range(100):
        note(calls, number=number)
    calls.fold()
    before = (calls.usage(), calls.history(limit=None))

    calls.fold()

    assert (calls.usage(), calls.history(limit=None)) == before


def test_recording_never_folds_in_the_caller_s_thread(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, fold_bytes=10_000)
    for number in range(1000):
        note(log, number=number)

    assert not (log.folder / "calls.db").exists()
    assert len(list(log.folder.glob("*.jsonl"))) == 1
    log.close()
    assert stored_calls(log.folder) == 1000, "what is due is folded at the end"
    assert not list(log.folder.glob("*.jsonl"))


def test_a_process_folds_in_the_background_once_its_calls_pause(tmp_path: Path, clock: Clock) -> None:
    workers, tasks = Workers(), list[Task]()
    log = CallLog(
        tmp_path / "calls",
        clock=clock,
        fold_bytes=10_000,
        run_later=lambda work: tasks.append(workers.submit(work)),
    )
    for number in range(1000):
        note(log, number=number)
    note(log, number=1000)
    for task in tasks:
        task.future.result(timeout=60)

    assert len(tasks) == 1
    assert stored_calls(log.folder) == 1001
    assert not list(log.folder.glob("*.jsonl")), "what was folded is deleted, and the next call begins a new file"
    note(log, number=1001)
    assert log.usage().total_calls == 1002
    workers.close()


def test_calls_without_a_pause_are_folded_when_the_journal_has_become_long(tmp_path: Path, clock: Clock) -> None:
    folds: list[Callable[[], None]] = []
    log = CallLog(tmp_path / "calls", clock=clock, fold_bytes=1000, run_later=folds.append)
    before = 1000
    for number in range(before):  # 3 MB, which no fold takes in one step
        log.record(f"id{number}", "a.b", "python", {"text": "x" * 3000}, ok=True, ms=1.0)
    fold = threading.Thread(target=folds[0])
    fold.start()
    while fold.is_alive():
        note(log, number=before)

    assert stored_calls(log.folder) >= before, "it did not leave off while the callers went on"
    log.close()


def test_a_fold_leaves_off_when_the_callers_go_on(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock)
    for number in range(1000):
        log.record(f"id{number}", "a.b", "python", {"text": "x" * 3000}, ok=True, ms=1.0)

    assert try_fold(log.folder, go_on=lambda: False) is None

    assert 0 < stored_calls(log.folder) < 1000
    assert log.usage().total_calls == 1000
    log.close()


def test_a_fold_ends_though_calls_come_faster_than_it_folds(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock)

    def call_on() -> bool:
        for _ in range(1000):  # 3 MB, more than one step folds
            log.record(f"id{next(numbers)}", "a.b", "python", {"text": "x" * 3000}, ok=True, ms=1.0)
        assert next(rounds) < 10, "it goes on for ever"
        return True

    numbers, rounds = itertools.count(), itertools.count()
    call_on()

    assert try_fold(log.folder, go_on=call_on) is None

    assert 1000 <= stored_calls(log.folder) < next(numbers)
    assert log.usage().total_calls == len(log.history(limit=None)) == next(numbers) - 1
    log.close()


def test_many_short_processes_leave_few_files(tmp_path: Path, clock: Clock) -> None:
    """Each command of the command line is a process of its own, with one call."""
    for number in range(200):
        log = CallLog(tmp_path / "calls", clock=clock)
        note(log, number=number)
        log.close()

    assert len(os.listdir(tmp_path / "calls")) < 80
    assert CallLog(tmp_path / "calls", clock=clock).usage().total_calls == 200


def test_the_newest_calls_are_kept_and_the_sums_for_ever(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, keep=Keep(calls=3000))
    for number in range(12_000):
        note(log, number=number, size=1)
        if number % 1000 == 999:
            log.fold()

    rows = log.history(limit=None)

    assert log.usage().total_calls == log.usage().output_chars == 12_000
    assert len(rows) == 3000
    assert {row.call_id for row in rows} >= {f"id{number}" for number in range(9000, 12_000)}


def test_where_rows_were_dropped_the_hour_at_the_edge_counts_whole(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, keep=Keep(calls=1))
    edge = START - DAY
    for number in range(4200):
        clock.now = edge + (number - 100) * datetime.timedelta(milliseconds=1)
        note(log, number=number)
        if number % 2100 == 2099:
            log.fold()
    clock.now = START

    assert log.usage(period="day").total_calls == 4200
    assert log.usage().total_calls == 4200


def test_names_without_end_are_counted_together(tmp_path: Path, clock: Clock) -> None:
    """A model that asks for a new wrong name each time must not make the log grow for ever."""
    log = CallLog(tmp_path / "calls", clock=clock)
    for number in range(3000):
        note(log, f"wrong.name{number}", number, ok=False, code="tool_not_found")
    log.fold()
    note(log, "right.name")
    log.fold()

    usage = log.usage()

    assert (usage.total_calls, usage.failures) == (3001, 3000)
    assert len(usage.tools) <= 1000
    assert usage.tools[0].tool == "(other)"
    assert log.count_of("right.name")[0] == 1


def test_threads_share_one_log(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, fold_bytes=20_000)

    def work(thread: int) -> None:
        for number in range(500):
            note(log, f"t.{thread}", thread * 1000 + number)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {row.tool: row.calls for row in log.usage().tools} == {f"t.{thread}": 500 for thread in range(8)}
    assert len({row.call_id for row in log.history(limit=None)}) == 4000
    log.fold()  # a busy machine may have put off those in between
    assert len(list(log.folder.glob("*.jsonl"))) <= 2


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    code = """
import datetime, os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]), clock=lambda: datetime.datetime.now(datetime.UTC))
log.record("parent", "a.b", "python", {}, ok=True, ms=0.0)
pid = os.fork()
log.record("child" if pid == 0 else "parent2", "a.b", "python", {}, ok=True, ms=0.0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(len(list(log.folder.glob("*.jsonl"))), sorted(row.call_id for row in log.history()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "calls")], capture_output=True, text=True, check=False
    )

    assert done.stdout.split(maxsplit=1) == ["2", "['child', 'parent', 'parent2']\n"], done.stderr


def test_files_are_for_their_owner_alone(calls: CallLog) -> None:
    note(calls)
    calls.fold()
    note(calls)

    modes = {path.name: path.stat().st_mode & 0o777 for path in calls.folder.iterdir()}

    assert set(modes.values()) == {0o600}
    assert calls.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_deleted_under_a_running_process_is_made_again(calls: CallLog, tmp_path: Path) -> None:
    note(calls, number=1)
    for path in calls.folder.iterdir():
        path.unlink()
    calls.folder.rmdir()
    calls.usage()
    note(calls, number=2)

    assert [row.call_id for row in calls.history()] == ["id2"]


def test_recording_loads_neither_sqlite_nor_pandas(tmp_path: Path) -> None:
    code = """
import datetime, sys
from pathlib import Path
import onetool_ipy.stores.calls.log as calls, onetool_ipy.stores.topics
early = [name for name in ("orjson", "sqlite3", "pandas", "yaml") if name in sys.modules]
log = calls.CallLog(Path(sys.argv[1]), clock=lambda: datetime.datetime.now(datetime.UTC))
log.record("id", "a.b", "python", {}, ok=True, ms=0.0)
print(early, [name for name in ("sqlite3", "pandas", "yaml", "numpy") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "calls")], capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "[] []", done.stderr
