"""The call log on a disk that is full, read-only or failing: the call goes on, old records are read, it is said why."""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.log import CallLog
from tests.faults.disks import make_read_only, small_disk
from tests.faults.failing import run_failing


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KB."""
    with small_disk(tmp_path / "disk", "512k") as place:
        yield place


def log_in(folder: Path, **options: Any) -> CallLog:
    return CallLog(folder, clock=lambda: datetime.datetime.now(datetime.UTC), **options)


def note(log: CallLog, number: int, size: int = 100) -> None:
    log.record(f"id{number}", "a.b", "python", {"q": "x" * size}, ok=True, ms=1.0, size=1)


def fill(disk: Path, name: str = "filler") -> Path:
    with open(disk / name, "wb", buffering=0) as file:
        for block in (65_536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * block)
            except OSError:
                continue
    return disk / name


def test_a_full_disk_drops_records_says_so_and_reads_the_rest(disk: Path) -> None:
    log = log_in(disk / "calls")
    for number in range(50):
        note(log, number)
    log.compact()
    for number in range(50, 80):
        note(log, number)
    filler = fill(disk)

    for number in range(100, 150):
        note(log, number, 900)

    problems = [str(one) for one in log.problems()]
    dropped = int(problems[0].split(": ")[1].split()[0])
    assert 0 < dropped <= 50
    assert "the disk is full" in problems[0]
    assert str(log.folder) in problems[0]
    assert log.usage().total_calls == 80 + 50 - dropped
    assert log.history(limit=1)[0].tool == "a.b"
    assert len(log.frame()) == 80 + 50 - dropped

    filler.unlink()
    note(log, 200)
    log.compact()
    assert log.usage().total_calls == 81 + 50 - dropped
    assert log.history(limit=1)[0].call_id == "id200"


def test_a_compaction_on_a_full_disk_changes_nothing_and_is_done_later(disk: Path) -> None:
    log = log_in(disk / "calls")
    note(log, 0)
    log.compact()
    before = (log.folder / "calls.db").read_bytes()
    for number in range(1, 400):
        note(log, number)
    filler = fill(disk)

    log.compact()

    assert log.problems() != []
    assert log.usage().total_calls == 400
    filler.unlink()
    log.compact()
    assert log.problems() == []
    assert log.usage().total_calls == 400
    assert (log.folder / "calls.db").read_bytes() != before
    assert not [name for name in os.listdir(log.folder) if "tmp" in name or "draft" in name]


def test_a_disk_full_from_the_start_fails_no_call(disk: Path) -> None:
    fill(disk)
    log = log_in(disk / "calls")

    for number in range(20):
        note(log, number)

    assert log.usage().total_calls == 0
    assert "20 calls of this process were not recorded: the disk is full." in str(log.problems()[0])


def test_a_read_only_disk_is_read_and_fails_no_call(disk: Path) -> None:
    log = log_in(disk / "calls")
    for number in range(30):
        note(log, number)
    log.compact()
    for number in range(30, 40):
        note(log, number)
    log.close()
    make_read_only(disk)

    later = log_in(disk / "calls")
    note(later, 99)

    assert "the disk is read-only" in str(later.problems()[0])
    assert later.usage().total_calls == 40
    assert later.usage(period="day").total_calls == 40
    assert len(later.history(limit=None)) == 40
    assert later.count_of("a.b")[0] == 40
    later.compact()


CHILD = """
import datetime, json, os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
folder, out, action = sys.argv[1:]
log = CallLog(Path(folder), clock=lambda: datetime.datetime.now(datetime.UTC))
if action == "record":
    for number in range(10):
        log.record(f"id{number}", "a.b", "python", {"n": number}, ok=True, ms=1.0, size=1)
elif action == "compact":
    log.compact()
else:
    log.usage()
    log.history(limit=None)
said = {"problems": [str(one) for one in log.problems()], "total": log.usage().total_calls}
fd = os.open(out, os.O_CREAT | os.O_WRONLY)
os.writev(fd, [json.dumps(said).encode()])
"""


def faulty(folder: Path, action: str, fault: str) -> dict[str, Any]:
    """Run one action while the system refuses some of its calls."""
    out = folder.parent / f"out-{os.urandom(4).hex()}"
    command = [sys.executable, "-c", CHILD, str(folder), str(out), action]
    done, failed = run_failing(fault, command, out.with_suffix(".strace"))
    assert done.returncode == 0, done.stderr
    assert failed > 0, "the fault was never met"
    said: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kept", "reason"),
    [
        ("write:error=ENOSPC:when=4+", 3, "the disk is full"),
        ("write:error=EIO:when=4", 9, "input/output error"),
        ("write:error=EDQUOT:when=1..10", 0, "quota"),
        ("write:retval=5:when=4", 9, "the disk is full"),
        ("mkdir:error=EROFS", 0, "read-only"),
    ],
    ids=["full", "once", "quota", "short", "folder"],
)
def test_a_write_that_fails_costs_its_record_only(tmp_path: Path, fault: str, kept: int, reason: str) -> None:
    said = faulty(tmp_path / "calls", "record", fault)

    assert said["total"] == kept
    assert f"{10 - kept} calls of this process were not recorded" in said["problems"][0]
    assert reason in said["problems"][0]
    assert log_in(tmp_path / "calls").usage().total_calls == kept


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    ["fdatasync,fsync:error=EIO", "pwrite64:error=ENOSPC", "pwrite64:error=EIO:when=7+", "flock:error=ENOLCK"],
    ids=["fsync", "full", "middle", "lock"],
)
def test_a_compaction_that_fails_is_undone_and_done_later(tmp_path: Path, fault: str) -> None:
    log = log_in(tmp_path / "calls")
    for number in range(100):
        note(log, number)
    log.compact()
    for number in range(100, 200):
        note(log, number)
    log.close()

    said = faulty(log.folder, "compact", fault)

    assert said["problems"] or "flock" in fault
    later = log_in(log.folder)
    later.compact()
    assert later.usage().total_calls == 200
    assert len({row.call_id for row in later.history(limit=None)}) == 200
    with sqlite3.connect(log.folder / "calls.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert later.problems() == []


def test_a_damaged_database_on_a_disk_that_fails_is_answered_all_the_same(tmp_path: Path) -> None:
    log = log_in(tmp_path / "calls")
    for number in range(100):
        note(log, number)
    log.compact()
    (log.folder / "calls.db").write_bytes(b"not a database at all" * 1000)

    said = faulty(log.folder, "look", "unlink:error=EIO")

    assert said["total"] == 100, "it is made in memory"
    assert "cannot be used" in said["problems"][0]
