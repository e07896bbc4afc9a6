"""Damaged, foreign and newer files: each costs itself only, is said, and raises nothing."""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.journal import FIELDS
from onetool_ipy.stores.calls.log import CallLog

GOOD = '[1772619630123456,"c%d","a.b","python","{}",true,true,"","",1.5,7,""]\n'


def log_in(folder: Path) -> CallLog:
    return CallLog(folder, clock=lambda: datetime.datetime(2026, 3, 4, 12, tzinfo=datetime.UTC))


def filled(folder: Path, count: int = 3000) -> CallLog:
    log = log_in(folder)
    for number in range(count):
        log.record(f"id{number}", f"a.t{number % 7}", "python", {"n": number}, ok=True, ms=1.0, size=1)
    log.fold()
    return log


def look_everywhere(log: CallLog) -> int:
    """Ask all there is to ask; the number of calls counted."""
    for period in ("day", "week", "month"):
        log.usage(period=period)  # type: ignore[arg-type]  # a Period
        log.overview(period=period)  # type: ignore[arg-type]  # a Period
    rows = log.history(limit=None)
    assert len(rows) == len(log.frame())
    log.recent_tools()
    return log.usage().total_calls


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"garbage\n",
        b"\0" * 4096 + b"\n",
        b"{}\n",
        b"[]\n",
        b"[1,2]\n",
        b'["only one"]\n',
        b"[" * 500 + b"\n",
        b"\xff\xfe\n",
        GOOD.replace("1.5", "-1").encode(),
        GOOD.replace("1.5", '"x"').encode(),
        GOOD.replace("1.5", "1e999").encode(),
        GOOD.replace("1772619630123456", "99999999999999999999").encode(),
        GOOD.replace("true,true", "true,1").encode(),
        GOOD.replace("true,true", "null,true").encode(),
        GOOD.replace('""]', "null]").encode(),
        GOOD.replace("7", "99999999999999999").encode(),
        GOOD.encode()[:30] + GOOD.encode(),
        b"x" * 3_000_000 + b"\n",
    ],
    ids=lambda line: ascii(line[:24]),
)
@pytest.mark.parametrize("folds", [False, True], ids=["appended", "folded"])
def test_a_damaged_line_costs_itself_only(tmp_path: Path, line: bytes, folds: bool) -> None:
    good = [(GOOD % number).encode() for number in range(6)]
    (tmp_path / "calls-1-1-000000000000.jsonl").write_bytes(b"".join([*good[:3], line, *good[3:]]))
    (tmp_path / "calls-1-1-000000000001.jsonl").write_bytes((GOOD % 9).encode())
    log = log_in(tmp_path)
    if folds:
        log.fold()

    assert look_everywhere(log) == 7
    assert {row.call_id for row in log.history()} == {"c0", "c1", "c2", "c3", "c4", "c5", "c9"}
    assert bool(log.problems()) is (line != b"\n")


@pytest.mark.parametrize("keep", [1, 20, 60])
def test_a_record_cut_off_by_a_kill_is_no_problem(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "calls-1-1-000000000000.jsonl"
    path.write_bytes((GOOD % 1 + GOOD % 2).encode() + (GOOD % 3).encode()[:keep])
    log = log_in(tmp_path)

    assert look_everywhere(log) == 2
    log.fold()
    assert look_everywhere(log) == 2
    assert log.problems() == []
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + bytes(5000), bytes(100_000)])
def test_a_database_that_is_none_is_set_aside_and_the_rest_counted(tmp_path: Path, content: bytes) -> None:
    log = filled(tmp_path, 100)
    (tmp_path / "calls.db").write_bytes(content)

    total = look_everywhere(log)

    assert total == 100, "this process's own file still has them"
    aside = list(tmp_path.glob("calls-damaged-*.db"))
    assert [path.read_bytes() for path in aside] == ([content] if content else [])
    problems = [str(one) for one in log.problems()]
    assert len(problems) == len(aside)
    assert all("set aside" in one and str(aside[0]) in one for one in problems)
    log.record("new", "a.b", "python", {}, ok=True, ms=1.0)
    log.fold()
    assert look_everywhere(log) == 101


def test_a_truncated_database_keeps_what_can_be_read(tmp_path: Path) -> None:
    """The sums are on the first pages, the calls on the later ones."""
    log = filled(tmp_path, 20_000)
    log.close()
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    data = (tmp_path / "calls.db").read_bytes()
    (tmp_path / "calls.db").write_bytes(data[: len(data) * 3 // 4])

    log = log_in(tmp_path)

    assert 0 <= look_everywhere(log) <= 20_000
    assert "set aside" in str(log.problems()[0])


@pytest.mark.parametrize(("period", "step_s"), [("day", 3600), ("month", 86_400)])
def test_an_overview_without_the_single_calls_has_their_sums(tmp_path: Path, period: Any, step_s: int) -> None:
    """Of a month, the sums of its hours are lost, too."""
    filled(tmp_path, 30)
    with sqlite3.connect(tmp_path / "calls.db") as database:
        database.execute("DELETE FROM calls")
        database.execute("DELETE FROM rollups WHERE span = 'hour' AND ?", (period == "month",))
    database.close()

    found = log_in(tmp_path).overview(period=period)

    assert found.usage.total_calls == 30
    assert found.timeline.step_s == step_s
    assert sum(step.calls for step in found.timeline.spans) == 30


def test_a_call_read_again_is_not_counted_twice(tmp_path: Path) -> None:
    """Rows and the journal's end are lost, and the rollups, which have these calls, are not."""
    log = filled(tmp_path, 30)
    log.attach("id20", "r_20")
    log.fold()
    log.record("not folded", "a.t1", "python", {}, ok=True, ms=1.0)
    with sqlite3.connect(tmp_path / "calls.db") as database:
        database.execute("DELETE FROM calls WHERE id > 10")
        database.execute("DELETE FROM handles")
        database.execute("UPDATE files SET mark = x'00'")
    database.close()

    assert log_in(tmp_path).usage().total_calls == 31
    found = {row.call_id: row.handle for row in log.history(limit=None)}
    assert found.keys() == {"not folded", *(f"id{number}" for number in range(30))}
    assert found["id20"] == "r_20"
    assert list(tmp_path.glob("calls-damaged-*.db"))
    log.fold()
    assert look_everywhere(log) == 31


def test_a_call_at_a_wrong_time_is_not_counted_twice(tmp_path: Path) -> None:
    """A changed time leaves the call itself known, and the journal still has the right one."""
    log = filled(tmp_path, 30)
    times = {row.call_id: row.ts for row in log.history(limit=None)}
    with sqlite3.connect(tmp_path / "calls.db") as database:
        database.execute("UPDATE calls SET ts = ts + (1 << 40) WHERE call_id = 'id3'")
        database.execute("UPDATE calls SET args = x'00' WHERE call_id = 'id4'")
        database.execute("UPDATE rollups SET calls = 'x'")
    database.close()

    assert look_everywhere(log) == 30
    assert {row.call_id: row.ts for row in log.history(limit=None)} == times


@pytest.mark.parametrize("seed", [*range(7), *(pytest.param(n, marks=pytest.mark.soak) for n in range(7, 1500))])
def test_a_database_damaged_anywhere_never_raises(tmp_path: Path, seed: int) -> None:
    """Random bytes at random places; what is counted is never more than was recorded, and counting goes on.

    A damaged row that got another call id is another call.
    """
    chance = random.Random(seed)
    log = filled(tmp_path, 2500)
    data = bytearray((tmp_path / "calls.db").read_bytes())
    for _ in range(chance.choice((1, 3, 20))):
        place = chance.randrange(100, len(data))
        for offset in range(place, min(len(data), place + chance.choice((1, 16, 600)))):
            data[offset] = chance.randrange(256)
    (tmp_path / "calls.db").write_bytes(data)
    log = log_in(tmp_path)

    before = look_everywhere(log)
    log.record("new", "a.t1", "python", {}, ok=True, ms=1.0)
    log.fold()

    look_everywhere(log)
    ids = {row.call_id for row in log.history(limit=None)}
    renamed = len(ids - {"new", *(f"id{number}" for number in range(2500))})
    assert 1 <= log.usage().total_calls <= 2501 + renamed
    assert before <= 2500 + renamed
    assert "new" in ids
    log.problems()


CELLS = [
    *(("calls", name) for name in ("id", *FIELDS)),
    *(("rollups", name) for name in ("span", "start", "tool", "calls", "failures", "ms_sum", "ms_min", "ms_max")),
    *(("rollups", name) for name in ("size", "last_ts", "durations")),
    *(("files", name) for name in ("name", "offset", "mark", "damaged", "at")),
    *(("handles", name) for name in ("call_id", "handle", "last_id")),
    ("state", "value"),
]
JUNK: list[Any] = [None, b"\x00\xff\x07", 1 << 62]
MORE_JUNK: list[Any] = ["text", 1.5, b"", -1, 70_000]


@pytest.mark.parametrize("values", [JUNK, pytest.param(MORE_JUNK, marks=pytest.mark.soak)], ids=["junk", "more"])
@pytest.mark.parametrize(("table", "column"), CELLS)
def test_a_value_that_we_never_wrote_raises_nothing(tmp_path: Path, table: str, column: str, values: list[Any]) -> None:
    """SQLite takes any value in any column, and flipped bits make any value of another."""
    good = tmp_path / "good"
    log = filled(good, 60)
    log.attach("id3", "r_3")
    log.fold()
    with sqlite3.connect(good / "calls.db") as connection:
        connection.execute("INSERT OR IGNORE INTO state VALUES ('dropped_until', 5)")
    connection.close()
    for number, junk in enumerate(values):
        folder = tmp_path / str(number)
        shutil.copytree(good, folder)
        connection = sqlite3.connect(folder / "calls.db", isolation_level=None)
        with suppress(sqlite3.IntegrityError):  # NOT NULL, or no number for a row
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (junk,))
        connection.close()
        log = log_in(folder)

        if number % 2:
            look_everywhere(log)
        log.record("new", "a.t1", "python", {}, ok=True, ms=1.0)
        log.fold()
        log.attach("new", "r_9")
        log.fold()
        look_everywhere(log)

        assert any(row.call_id == "new" for row in log.history(limit=None)), f"after {junk!r}"
        log.problems()


def test_a_newer_database_is_left_alone_and_said(tmp_path: Path) -> None:
    log = filled(tmp_path, 50)
    with sqlite3.connect(tmp_path / "calls.db") as connection:
        connection.execute("PRAGMA user_version=4")
    connection.close()
    before = (tmp_path / "calls.db").read_bytes()

    log.record("new", "a.b", "python", {}, ok=True, ms=1.0)
    log.fold()

    assert look_everywhere(log) == 51, "what the append file has is still counted"
    assert (tmp_path / "calls.db").read_bytes() == before
    assert "later version" in str(log.problems()[0])


def test_newer_append_files_are_left_alone_and_said(tmp_path: Path) -> None:
    newer = tmp_path / "calls-2-7-000000000000.jsonl"
    newer.write_bytes(b'{"a": "new format"}\n')
    log = filled(tmp_path, 5)

    assert look_everywhere(log) == 5
    assert newer.read_bytes() == b'{"a": "new format"}\n'
    assert "later version" in str(log.problems()[0])


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "calls.db") as connection:
        connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    before = (tmp_path / "calls.db").read_bytes()

    log = filled(tmp_path, 20)

    assert look_everywhere(log) == 20
    assert (tmp_path / "calls.db").read_bytes() == before
    assert "not a call log" in str(log.problems()[0])


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_what_is_no_file_in_place_of_the_database_is_left_alone(tmp_path: Path, kind: str) -> None:
    place, target = tmp_path / "calls.db", tmp_path / "target"
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(target)
    else:
        os.mkfifo(place)

    log = filled(tmp_path, 20)

    assert look_everywhere(log) == 20
    assert not target.exists()
    assert "not a call log" in str(log.problems()[0])


def test_foreign_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    names = ["notes.txt", "calls.jsonl", "calls-1-x-000000000000.jsonl", "calls-1-1-zz.jsonl", ".hidden", "x.db"]
    for name in names:
        (tmp_path / name).write_text(json.dumps([1]) + "\n", encoding="utf-8")
    os.mkfifo(tmp_path / "calls-1-1-000000000000.jsonl")
    (tmp_path / "calls-1-1-000000000001.jsonl").mkdir()
    (tmp_path / "calls-1-1-000000000002.jsonl").symlink_to(tmp_path / "notes.txt")

    log = filled(tmp_path, 10)
    log.close()

    assert look_everywhere(log_in(tmp_path)) == 10
    assert all((tmp_path / name).read_text(encoding="utf-8") == "[1]\n" for name in names)
    assert log.problems() == []
