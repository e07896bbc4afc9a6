"""A call log of the landed version is converted without loss, whatever happens meanwhile.

`tests/fixtures/landed_calls.tar.xz` was written by the code of commit d5bb2f0: 600 calls over 45 days, the oldest 180
of them without rows, the newest 60 in a journal only; `expected.json` is what that code said about them.
"""

from __future__ import annotations

import datetime
import json
import sqlite3
import subprocess
import sys
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.records import Value
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.calls.query import PERIODS
from tests.harness.surroundings import ROOT

NOW = datetime.datetime(2026, 11, 15, 12, 34, 56, 789012, tzinfo=datetime.UTC)
TOTAL, ROWS, PAGE = 600, 480, 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ROOT / "tests/fixtures/landed_calls.tar.xz") as archive:
        archive.extractall(tmp_path / "calls", filter="data")
    return tmp_path / "calls"


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda one: one.isoformat()))


def log_in(folder: Path) -> CallLog:
    return CallLog(folder, clock=lambda: NOW)


def user_version(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


def cells(value: Value) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.fields()}


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("folds", [False, True], ids=["read", "folded"])
def test_usage_and_series_of_every_period_are_the_same(folder: Path, period: Any, folds: bool) -> None:
    wanted, log = expected(folder), log_in(folder)
    if folds:
        log.fold()
    found = cells(log.usage(period=period))
    usage = plain({**found, "tools": [cells(row) for row in found["tools"]]})

    for row, other in zip(usage["tools"], wanted["usage"][period]["tools"], strict=True):
        assert row.pop("avg_ms") == pytest.approx(other.pop("avg_ms"), abs=0.0011)  # the order of a sum of floats
    assert usage == wanted["usage"][period]
    assert plain([cells(span) for span in log.overview(period=period).series]) == wanted["series"][period]
    assert log.usage(period="month", tool="p1.t4").total_calls == wanted["tool"]["total_calls"]


def test_every_row_is_the_same(folder: Path) -> None:
    wanted, log = expected(folder), log_in(folder)

    rows = plain([asdict(row) for row in log.history(limit=None)])

    assert len(rows) == ROWS
    assert rows == [{**row, "message": None} for row in wanted["rows"]]
    assert log.problems() == []


def test_the_old_file_is_kept_and_the_earlier_version_takes_both_for_newer_ones(folder: Path) -> None:
    """The earlier version neither reads nor changes a database with a user_version over 1."""
    before = (folder / "calls.db").read_bytes()
    log_in(folder).usage()
    (kept,) = folder.glob("calls-landed-*.db")

    assert user_version(folder / "calls.db") == 3
    assert user_version(kept) == 2
    assert len(kept.read_bytes()) == len(before)
    log_in(folder).usage()
    assert list(folder.glob("calls-landed-*.db")) == [kept]


def test_an_older_kernel_goes_on_writing_and_its_calls_count(folder: Path) -> None:
    log = log_in(folder)
    log.usage()
    journal = max(folder.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    with journal.open("ab") as file:
        for number in range(5):
            file.write(b'\n[1794746096000000,"old%d","a.b","python","{}",true,true,"","",1.5,7,""]\n' % number)

    assert log.usage().total_calls == TOTAL + 5
    log.fold()
    assert log.usage().total_calls == TOTAL + 5
    assert len(log.history(limit=None)) == ROWS + 5


def test_a_conversion_that_was_killed_is_done_again(folder: Path) -> None:
    """The old file is frozen, the draft of the new one is half written."""
    with sqlite3.connect(folder / "calls.db") as connection:
        connection.execute("PRAGMA user_version=2")
    connection.close()
    (folder / ".calls-draft.db").write_bytes(b"half" * 1000)
    log = log_in(folder)

    assert log.usage().total_calls == TOTAL
    assert len(log.history(limit=None)) == ROWS
    assert not (folder / ".calls-draft.db").exists()
    assert log.problems() == []


def test_processes_that_start_at_once_convert_it_once(folder: Path) -> None:
    code = """
import sys
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
log = CallLog(Path(sys.argv[1]))
log.record("new", "a.b", "python", {}, ok=True, ms=1.0)
sys.stdin.readline()
log.fold()
print(len(log.history(limit=None)), log.usage().total_calls)
"""
    command = [sys.executable, "-c", code, str(folder)]
    children = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=120)[0].split() for child in children]

    assert all(TOTAL < int(total) <= TOTAL + 4 for _, total in said)
    assert log_in(folder).usage().total_calls == TOTAL + 4
    assert len(list(folder.glob("calls-landed-*.db"))) == 1
    assert log_in(folder).problems() == []


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_page_of_the_old_file_costs_no_count(folder: Path, share: float) -> None:
    data = bytearray((folder / "calls.db").read_bytes())
    page = int(len(data) / PAGE * share) * PAGE
    data[page : page + PAGE] = bytes(PAGE)
    (folder / "calls.db").write_bytes(data)
    log = log_in(folder)

    assert log.usage().total_calls == TOTAL
    log.history(limit=None)
    log.problems()
