"""The call log on a disk that is full, read-only or failing: the call goes on, old records are
read, it is said why."""

from __future__ import annotations

import datetime
import json
import os
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


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_full_disk_drops_records_says_so_and_reads_the_rest(disk: Path) -> None:
    log = log_in(disk / "calls")
    for number in range(50):
        note(log, number)
    log.tidy()
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
    log.tidy()
    assert log.usage().total_calls == 81 + 50 - dropped
    assert log.history(limit=1)[0].call_id == "id200"


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_part_on_a_full_disk_is_not_written_and_its_journal_stays(disk: Path) -> None:
    log = log_in(disk / "calls", rotate_calls=100, close_calls=1)
    for number in range(400):
        note(log, number)
    names = set(os.listdir(log.folder))
    filler = fill(disk)

    log.tidy()

    assert "the disk is full" in str(log.problems()[0])
    assert log.usage().total_calls == 400
    assert set(os.listdir(log.folder)) - {"tidy.lock"} == names
    filler.unlink()
    log.tidy()
    assert log.problems() == []
    assert log.usage().total_calls == 400
    assert len(list(log.folder.glob("*.parquet"))) == 4
    assert not [name for name in os.listdir(log.folder) if "tmp" in name]


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_disk_full_from_the_start_fails_no_call(disk: Path) -> None:
    fill(disk)
    log = log_in(disk / "calls")

    for number in range(20):
        note(log, number)

    assert log.usage().total_calls == 0
    assert "20 calls of this process were not recorded: the disk is full." in str(log.problems()[0])


@pytest.mark.linux("small disks by mount, failing system calls by strace")
def test_a_read_only_disk_is_read_and_fails_no_call(disk: Path) -> None:
    log = log_in(disk / "calls")
    for number in range(30):
        note(log, number)
    log.tidy()
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
    later.tidy()


CHILD = """
import datetime, json, os, sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
folder, out, action = sys.argv[1:]
log = CallLog(Path(folder), clock=lambda: datetime.datetime.now(datetime.UTC), close_calls=1)
if action == "record":
    for number in range(10):
        log.record(f"id{number}", "a.b", "python", {"n": number}, ok=True, ms=1.0, size=1)
elif action == "tidy":
    log.tidy()
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


@pytest.mark.linux("small disks by mount, failing system calls by strace")
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
def test_a_write_that_fails_costs_its_record_only(
    tmp_path: Path, fault: str, kept: int, reason: str
) -> None:
    said = faulty(tmp_path / "calls", "record", fault)

    assert said["total"] == kept
    assert f"{10 - kept} calls of this process were not recorded" in said["problems"][0]
    assert reason in said["problems"][0]
    assert log_in(tmp_path / "calls").usage().total_calls == kept


@pytest.mark.linux("small disks by mount, failing system calls by strace")
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "fdatasync,fsync:error=EIO",
        "pwrite64,write:error=ENOSPC:when=3+",
        "rename:error=EIO",
        "flock:error=ENOLCK",
        "unlink:error=EIO",
    ],
    ids=["fsync", "full", "rename", "lock", "unlink"],
)
def test_a_closing_that_fails_costs_nothing_and_is_done_later(tmp_path: Path, fault: str) -> None:
    log = log_in(tmp_path / "calls", rotate_calls=50)
    for number in range(200):
        note(log, number)
    log.close()

    said = faulty(log.folder, "tidy", fault)

    assert said["total"] == 200
    later = log_in(log.folder, close_calls=1)
    assert later.usage().total_calls == 200
    later.tidy()
    assert len({row.call_id for row in later.history(limit=None)}) == 200
    assert len(list(log.folder.glob("*.parquet"))) == 4
    assert later.problems() == []
