"""Closing: journals become Parquet parts, small parts are joined, old ones expire. No answer may
change by it, whatever is killed, damaged or done twice."""

from __future__ import annotations

import datetime
import gzip
import json
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.stores.calls.closing import Retention
from onetool_ipy.stores.calls.database import Calls
from onetool_ipy.stores.calls.journal import CONTEXT, MORE, files_in
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.calls.query import CallFilter, Timeline, history_in, timeline_of
from tests.harness.programs import python
from tests.harness.systems import has_mode
from tests.stores.calls.aids import DAY, START, Clock, clock, note

__all__ = ["clock"]  # a fixture

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def states(folder: Path) -> Counter[str]:
    return Counter(file.state for file in files_in(folder))


def view(log: CallLog) -> list[Any]:
    """Everything there is to see."""
    overviews = [log.overview(), log.overview(period="week")]
    return [*overviews, log.history(limit=None), log.counts(), log.timeline()]


def filled(folder: Path, clock: Clock, count: int = 500, **options: Any) -> CallLog:
    log = CallLog(folder, clock=clock, **{"rotate_calls": 100, "close_calls": 1, **options})
    for number in range(count):
        clock.now = START - DAY + number * datetime.timedelta(seconds=100)
        note(log, f"a.t{number % 7}", number, ok=number % 9 != 0, ms=number / 4, size=3)
    log.attach("id7", "r_7")
    clock.now = START
    return log


def tidied(folder: Path, clock: Clock, **options: Any) -> CallLog:
    log = filled(folder, clock, **options)
    log.close()
    log.tidy()
    return log


TEXTS = st.text(max_size=9) | st.sampled_from(
    ["", "a'b\"c", "%s\n\0", "\u2028\U0001f600", "\\u0000"]
)
IDS = st.sampled_from(["c1", "c2", "c3", "odd 'id'"])
MOMENTS = st.sampled_from([0, -1, 1772619630123456]) | st.integers(0, 4 * 10**15)
ARGS = TEXTS | st.dictionaries(
    TEXTS, st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
)
NUMBERS = {
    "ts": MOMENTS,
    "ms": st.floats(0, 1e12) | st.integers(0, 9),
    "size": st.integers(0, 2**50),
}
MORES = st.fixed_dictionaries({}, optional={"ok": st.booleans(), **dict.fromkeys(MORE, TEXTS)})
CONTEXTS = st.fixed_dictionaries(
    {"context": st.integers(0, 3), "tool": TEXTS.filter(bool)},
    optional=dict.fromkeys(CONTEXT[1:], TEXTS),
)
ARRAYS = st.tuples(st.integers(0, 3), MOMENTS, IDS, ARGS, NUMBERS["ms"], NUMBERS["size"])
OLD = st.fixed_dictionaries(
    {
        "id": IDS,
        "tool": TEXTS.filter(bool),
        "whole": st.just(False),
        "ok": st.booleans(),
        **NUMBERS,
    },
    optional=dict.fromkeys((*CONTEXT[1:], *MORE, "args"), TEXTS),
)
LINES = st.lists(
    st.one_of(
        *(CONTEXTS, ARRAYS, st.tuples(ARRAYS, MORES).map(lambda two: (*two[0], two[1])), OLD),
        st.fixed_dictionaries({"id": IDS, "handle": TEXTS.filter(bool)}),
        st.sampled_from(
            [[], [1], {}, "x", None, {"id": "c1", "handle": 1}, [0, 1, "c1", {}, -1, 1]]
        ),
    ),
    max_size=12,
)


def plain_rows(lines: list[Any]) -> list[dict[str, Any]]:
    """Read a journal as simply as can be: the calls as history has them, the newest first."""
    contexts: dict[int, dict[str, str]] = {}
    rows: list[dict[str, Any]] = []
    handles: dict[str, str] = {}
    for line in lines:
        if isinstance(line, list | tuple) and len(line) >= 6 and line[4] >= 0:
            number, ts, call_id, args, ms, size, *rest = line
            row = {"ts": ts, "id": call_id, "args": args, "whole": type(args) is not str}
            row |= {"ms": ms, "size": size, **contexts.get(number, {"tool": "(unknown)"})}
            rows.append({"ok": True, **row, **(rest[0] if rest else {})})
        elif isinstance(line, dict) and "context" in line:
            contexts[line["context"]] = {name: line.get(name, "") for name in CONTEXT}
        elif isinstance(line, dict) and "ts" in line:
            rows.append({"args": "", **line})
        elif isinstance(line, dict) and type(line.get("handle")) is str:
            handles[line["id"]] = line["handle"]
    for row in rows:
        row["handle"] = handles.get(row["id"], row.get("handle"))
    rows.reverse()
    return sorted(rows, key=lambda row: row["ts"], reverse=True)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(lines=LINES)
def test_a_part_has_every_field_that_a_plain_reader_finds_in_its_journal(lines: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        (folder / "20260304T102030000000-00000000.jsonl").write_bytes(data)
        log = CallLog(folder, close_calls=1)
        from_journal, without_duckdb = log.history(limit=None), history_in(folder, CallFilter())
        log.tidy()
        rows, files = log.history(limit=None), list(states(folder))
        log.close()

    wanted = plain_rows(lines)
    assert files == (["part"] if wanted else ["open"])
    assert rows == from_journal == without_duckdb
    for row, plain in zip(rows, wanted, strict=True):
        assert row.ts == EPOCH + plain["ts"] * datetime.timedelta(microseconds=1)
        assert (row.call_id, row.is_whole, row.ok) == (plain["id"], plain["whole"], plain["ok"])
        assert (row.ms, row.bytes) == (plain["ms"], plain["size"])
        assert (row.arguments if row.is_whole else row.args) == plain["args"]
        assert [getattr(row, name) for name in CONTEXT] == [plain.get(name, "") for name in CONTEXT]
        assert [getattr(row, name) for name in MORE] == [plain.get(name) or None for name in MORE]


@pytest.mark.slow
def test_closing_changes_no_answer(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock)
    before = view(log)

    log.tidy()
    assert states(tmp_path) == {"part": 5, "open": 1}
    assert view(log) == before
    log.close()
    log.tidy()
    log.tidy()

    assert states(tmp_path) == {"part": 5, "open": 1}, "a journal without calls is left"
    assert view(log) == view(CallLog(tmp_path, clock=clock)) == before
    assert log.problems() == []


def test_a_journal_that_a_process_owns_is_left(tmp_path: Path, clock: Clock) -> None:
    owner = filled(tmp_path, clock, 50)

    CallLog(tmp_path, clock=clock, close_calls=1).tidy()

    assert states(tmp_path) == {"open": 1}
    note(owner, number=99)
    assert CallLog(tmp_path, clock=clock).usage().total_calls == 51


def test_a_full_journal_is_closed_in_another_thread(tmp_path: Path, clock: Clock) -> None:
    later: list[Callable[[], None]] = []
    log = filled(tmp_path, clock, 120, run_later=later.append)
    assert (states(tmp_path), len(later)) == ({"open": 2}, 1)

    later[0]()

    assert states(tmp_path) == {"part": 1, "open": 1}
    assert log.usage().total_calls == 120


def test_a_part_is_a_table_that_any_program_can_read(tmp_path: Path, clock: Clock) -> None:
    tidied(tmp_path, clock)
    parts = [str(path) for path in tmp_path.glob("*.parquet")]

    rows = duckdb.sql(f"SELECT count(*), max(ts), max(args) FROM read_parquet({parts})").fetchall()

    last = START - DAY + 499 * datetime.timedelta(seconds=100)
    assert rows == [(500, last.replace(tzinfo=None), '{"n":9}')]
    assert all(has_mode(path, 0o600) for path in tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("left", ["journal", "gzip"])
def test_a_part_whose_journal_is_still_there_wins(tmp_path: Path, clock: Clock, left: str) -> None:
    """A kill between the two steps; then nobody goes on with that journal."""
    log = filled(tmp_path, clock, 50)
    log.close()
    (file,) = files_in(tmp_path)
    data = file.path.read_bytes()
    before = view(log)
    log.tidy()
    ending = {"journal": "", "gzip": ".gz"}[left]
    data = gzip.compress(data) if left == "gzip" else data
    (tmp_path / f"{file.path.name}{ending}").write_bytes(data)

    assert view(CallLog(tmp_path, clock=clock)) == before
    other = CallLog(tmp_path, clock=clock, close_calls=1)
    note(other, number=77)
    assert other.usage().total_calls == 51, "a call in a journal that does not count is lost"
    other.tidy()
    assert states(tmp_path) == {"part": 1, "open": 1}
    assert other.usage().total_calls == 51


def test_lines_of_a_closed_journal_that_were_damaged_stay_named(
    tmp_path: Path, clock: Clock
) -> None:
    log = filled(tmp_path, clock, 50)
    log.close()
    (file,) = files_in(tmp_path)
    file.path.write_bytes(file.path.read_bytes() + b"garbage\n")

    log.tidy()

    assert log.usage().total_calls == 50
    assert "1 lines could not be read" in str(log.problems()[0])


def test_journals_of_the_last_version_are_read_and_closed(tmp_path: Path, clock: Clock) -> None:
    """An open one, a compressed one, and its database, which is left alone."""
    old = {"ts": 1772619630123456, "tool": "a.b", "source": "python", "args": '{"n":1}'}
    old |= {"whole": True, "ok": True, "ms": 1.5, "size": 7, "user": "eve", "session": "s1"}
    lines = [json.dumps({"id": f"c{number}", **old}).encode() + b"\n" for number in range(6)]
    late = b'{"id":"c4","handle":"r_9"}\n'
    (tmp_path / "20260304T102030000000-00000000.jsonl").write_bytes(b"".join(lines[:3]) + late)
    packed = gzip.compress(b"".join(lines[3:]))
    (tmp_path / "20260304T102030000000-00000001.jsonl.gz").write_bytes(packed)
    (tmp_path / "calls.db").write_bytes(b"SQLite format 3\0")
    log = CallLog(tmp_path, clock=clock, close_calls=1)
    before = view(log)

    assert {row.call_id: row.handle for row in before[2]} == {
        **{f"c{number}": None for number in range(6)},
        "c4": "r_9",
    }
    assert before[2][0].arguments == {"n": 1}
    log.tidy()
    assert states(tmp_path) == {"part": 2}
    assert view(log) == before
    assert (tmp_path / "calls.db").exists()


@pytest.mark.slow
def test_small_parts_are_joined_twenty_at_once(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock, 2000)
    log.attach("id450", "r_450")
    log.close()
    before = view(log)

    log.tidy()

    assert states(tmp_path) == {"part": 1, "open": 1}, "a journal without calls is left"
    assert view(log) == view(CallLog(tmp_path, clock=clock)) == before
    assert {row.handle for row in log.history(limit=None)} == {None, "r_7", "r_450"}


@pytest.mark.slow
def test_a_kill_while_parts_are_joined_counts_no_call_twice(tmp_path: Path, clock: Clock) -> None:
    log = tidied(tmp_path, clock, count=1900)
    small = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    assert len(small) == 19
    for number in range(1900, 1950):
        note(log, "a.t0", number)
    before = view(log)
    log.close()
    log.tidy()
    assert states(tmp_path)["part"] == 1
    for path, data in list(small.items())[:3]:
        path.write_bytes(data)

    assert view(CallLog(tmp_path, clock=clock)) == before
    log.tidy()
    assert states(tmp_path)["part"] == 1
    assert view(log) == before


@pytest.mark.slow
def test_parts_that_are_joined_between_two_looks_at_them_are_looked_for_again(
    tmp_path: Path, clock: Clock
) -> None:
    log = filled(tmp_path, clock, 1900)
    log.close()
    log.tidy()
    for number in range(1900, 1950):
        note(log, "a.t0", number)
    log.close()

    def join(frame: types.FrameType, event: str, _arg: object) -> None:
        is_part = str(frame.f_locals.get("path", "")).endswith(".parquet")
        if event == "call" and frame.f_code.co_name == "stamp_of" and is_part:
            sys.setprofile(None)
            CallLog(tmp_path, clock=clock, close_calls=1).tidy()

    sys.setprofile(join)
    try:
        count = CallLog(tmp_path, clock=clock).usage().total_calls
    finally:
        sys.setprofile(None)

    assert states(tmp_path)["part"] == 1
    assert count == 1950


@pytest.mark.slow
def test_parts_that_are_joined_within_a_question_are_asked_anew(
    tmp_path: Path, clock: Clock
) -> None:
    log = filled(tmp_path, clock, 1900)
    log.close()
    log.tidy()
    last = log.usage().last_called
    expected, asked = log.timeline(), list[Calls]()
    clock.now = START + 30 * DAY
    for number in range(1900, 1950):
        note(log, "a.t0", number)
    log.close()

    def question(calls: Calls) -> Timeline:
        if not asked:
            asked.append(calls)
            CallLog(tmp_path, clock=clock, close_calls=1).tidy()
        return timeline_of(calls, tool=None, since=None, until=last, hides_ot=False)

    assert log._ask(question) == expected
    assert states(tmp_path)["part"] == 1


@pytest.mark.slow
def test_what_expires_leaves_its_sums_by_tool_and_day(tmp_path: Path, clock: Clock) -> None:
    log = filled(tmp_path, clock, 1000, retention=Retention(calls=300))
    log.close()
    before = log.usage()

    log.tidy()

    assert states(tmp_path)["expired"] == 7
    assert len(log.history(limit=None)) == 300
    after = log.usage()
    assert (after.total_calls, after.failures, after.output_chars) == (1000, 112, 3000)
    for old, new in zip(before.tools, after.tools, strict=True):
        assert old._replace(p95_ms=0.0) == new._replace(p95_ms=0.0)
    assert sum(span.calls for span in log.timeline().spans) == 1000
    assert log.count_of("a.t1") == (143, before.tools[1].last_called)


def test_parts_of_too_many_bytes_expire(tmp_path: Path, clock: Clock) -> None:
    log = tidied(tmp_path, clock)
    size = max(path.stat().st_size for path in tmp_path.glob("*.parquet"))

    CallLog(tmp_path, clock=clock, retention=Retention(bytes=2 * size), close_calls=1).tidy()

    assert len(log.history(limit=None)) == 200
    assert log.usage().total_calls == 500


@pytest.mark.slow
def test_a_kill_while_a_part_expires_counts_no_call_twice(tmp_path: Path, clock: Clock) -> None:
    log = tidied(tmp_path, clock)
    parts = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    before = view(log)
    few = CallLog(tmp_path, clock=clock, retention=Retention(calls=100), close_calls=1)
    few.tidy()
    for path, data in parts.items():
        path.write_bytes(data)

    assert view(CallLog(tmp_path, clock=clock)) == before
    few.tidy()
    assert few.usage().total_calls == 500


@pytest.mark.slow
def test_two_threads_that_tidy_while_others_ask_and_record_lose_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    logs = [CallLog(tmp_path, clock=clock, rotate_calls=20, close_calls=1) for _ in range(3)]
    counts: list[int] = []
    errors: list[BaseException] = []

    def work(log: CallLog, thread: int) -> None:
        try:
            for number in range(100):
                note(log, f"a.t{thread}", thread * 1000 + number)
                if number % 20 == thread:
                    log.tidy()
                if number % 10 == 0:
                    rows = [row for row in log.history(limit=None) if row.tool == f"a.t{thread}"]
                    assert len(rows) == number + 1
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(log, number)) for number, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    counts = [log.usage().total_calls for log in logs]
    assert counts == [300] * 3


ENDS_AT_ONCE = """
import sys, threading
from pathlib import Path
from onetool_ipy.stores.calls.log import CallLog
def run_later(work):
    threading.Thread(target=work, daemon=True).start()
log = CallLog(Path(sys.argv[1]), close_calls=1, rotate_calls=100_000, run_later=run_later)
for number in range(20_000):
    log.record(f"id{number}", "a.b", "python", {"n": number}, True, 1.0, args_size=8)
log.close()
print(log.usage().total_calls)
while not Path(sys.argv[1], "tidy.lock").exists():
    pass
"""


@pytest.mark.slow
def test_a_process_that_ends_while_a_journal_is_closed_ends_in_peace(tmp_path: Path) -> None:
    """Python aborted the process: it ended a thread that was inside DuckDB."""
    run = python(ENDS_AT_ONCE, tmp_path, check=False, timeout=120)

    assert (run.returncode, run.stdout, run.stderr) == (0, "20000\n", "")
    assert len([*tmp_path.glob("*.parquet")]) == 1
    assert not [*tmp_path.glob("*.jsonl")]
