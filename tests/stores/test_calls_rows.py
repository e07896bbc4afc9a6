"""The single calls: as rows, as a table, as counts and as a series."""

from __future__ import annotations

from typing import Any

from onetool_ipy.stores.calls import CallLog
from tests.stores.calls_aids import HOUR, START, Clock, calls, clock, note, settle

__all__ = ["calls", "clock", "settle"]  # fixtures


def test_rows_come_newest_first_with_all_their_fields(calls: CallLog, clock: Clock, settle: Any) -> None:
    calls.record("c1", "geo.code", "model", {"q": "x"}, ok=True, ms=1.5, size=7, handle="r_9")
    settle(calls)
    clock.now = START + HOUR
    calls.record("c2", "geo.code", "rest", {}, ok=False, ms=250.0, code="execution_error", reason="timeout", size=3)
    settle(calls)

    newest, oldest = calls.history()

    assert (newest.call_id, newest.ok, newest.code, newest.reason) == ("c2", False, "execution_error", "timeout")
    assert newest.ts == START + HOUR, "a call is dated when it ended"
    assert (oldest.call_id, oldest.tool, oldest.source, oldest.args) == ("c1", "geo.code", "model", '{"q":"x"}')
    assert (oldest.arguments, oldest.is_whole, oldest.ms, oldest.bytes) == ({"q": "x"}, True, 1.5, 7)
    assert (oldest.handle, newest.handle, oldest.code, oldest.reason) == ("r_9", None, None, None)


def test_history_filters_and_limits(calls: CallLog, clock: Clock, settle: Any) -> None:
    for number in range(20):
        clock.now = START + number * HOUR
        note(calls, ("a.b", "c.d")[number % 2], number, ok=number % 5 != 0)
        settle(calls)

    assert [row.call_id for row in calls.history(limit=3)] == ["id19", "id18", "id17"]
    assert [row.call_id for row in calls.history(tool="a.b", ok=False)] == ["id10", "id0"]
    assert [row.call_id for row in calls.history(since=START + 18 * HOUR)] == ["id19", "id18"]
    assert [row.call_id for row in calls.history(limit=0)] == []
    assert len(calls.history(limit=None)) == 20
    assert calls.history(tool="no.such") == []


def test_a_frame_has_the_same_rows_as_history(calls: CallLog, clock: Clock, settle: Any) -> None:
    for number in range(30):
        clock.now = START - number % 7 * HOUR
        changes = {"ok": False, "code": "invalid_args", "reason": "schema"} if number % 4 == 0 else {}
        note(
            calls,
            f"p.t{number % 3}",
            number,
            size=number,
            ms=number / 4,
            handle="r_5" if number == 6 else "",
            **changes,
        )
        settle(calls)
    calls.attach("id7", "r_7")

    for wish in ({}, {"limit": 5}, {"tool": "p.t1"}, {"ok": False}, {"since": START - 2 * HOUR}, {"tool": "no.such"}):
        rows = calls.history(**{"limit": None, **wish})
        frame = calls.frame(**wish)

        assert sorted(frame["call_id"]) == sorted(row.call_id for row in rows)
        assert frame["ts"].is_monotonic_decreasing
        by_id = {row.call_id: row for row in rows}
        for found in frame.to_dict("records"):
            row = by_id[found["call_id"]]
            assert (found["ts"], found["tool"], found["source"], found["args"]) == (
                row.ts,
                row.tool,
                row.source,
                row.args,
            )
            assert (found["ok"], found["ms"], found["bytes"]) == (row.ok, row.ms, row.bytes)
            for name in ("code", "reason", "handle"):
                assert found[name] == getattr(row, name) or (getattr(row, name) is None and found[name] != found[name])
    names = ["ts", "call_id", "tool", "source", "args", "ok", "code", "reason", "ms", "bytes", "handle"]
    assert list(calls.frame()) == names
    assert str(calls.frame()["ts"].dtype) == "datetime64[us, UTC]"


def test_a_frame_of_an_empty_log_has_its_columns(calls: CallLog) -> None:
    frame = calls.frame()

    assert len(frame) == 0
    assert "p95_ms" not in frame
    assert "tool" in frame


def test_a_handle_that_comes_later_belongs_to_its_call(calls: CallLog, settle: Any) -> None:
    note(calls, number=1)
    settle(calls)
    calls.attach("id1", "r_42")
    settle(calls)

    assert calls.history()[0].handle == "r_42"
    assert calls.frame()["handle"][0] == "r_42"
    assert calls.usage().total_calls == 1


def test_counts_and_recent_tools(calls: CallLog, clock: Clock, settle: Any) -> None:
    for number, tool in enumerate(["a.a", "b.b", "a.a", "c.c", "a.a", "b.b"]):
        clock.now = START + number * HOUR
        note(calls, tool, number)
        settle(calls)

    assert calls.count_of("a.a") == (3, START + 4 * HOUR)
    assert calls.count_of("x.y") == (0, None)
    assert calls.recent_tools() == ["b.b", "a.a", "c.c"]
    assert calls.recent_tools(1) == ["b.b"]


def test_a_series_is_by_hour_for_a_week_and_by_day_for_a_month(calls: CallLog, clock: Clock, settle: Any) -> None:
    for hours in (1, 2, 2, 30, 30, 30):
        clock.now = START - hours * HOUR
        note(calls, ok=hours != 1, ms=10.0)
        settle(calls)
    clock.now = START

    week = calls.series(period="week")
    month = calls.series(period="month")

    assert [(span.calls, span.failures) for span in week] == [(3, 0), (2, 0), (1, 1)]
    assert [span.calls for span in month] == [3, 3]
    assert month == calls.series()
    assert week[0].start == (START - 31 * HOUR).replace(minute=0, second=0, microsecond=0) + HOUR
    assert (week[0].p50_ms, week[0].p95_ms) == (10.0, 10.0)
