"""Usage, series, history and DataFrames: what is recorded comes back, whether its journal was
closed or not."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.log import CallLog, StatsDisabled
from onetool_ipy.stores.calls.query import (
    PERIODS,
    CallFilter,
    CallRow,
    InvalidPeriod,
    RunRow,
    cause_of,
)
from onetool_ipy.stores.calls.record import new_run
from tests.core.support import Calls as CountedCalls
from tests.stores.calls.aids import DAY, HOUR, START, Clock, calls, clock, note, settle

__all__ = ["calls", "clock", "settle"]  # fixtures


@pytest.mark.spec("001/Runtime Statistics/Get all-time stats")
def test_usage_adds_up_all_calls(calls: CallLog, settle: Any) -> None:
    """Every field of the scenario that the log knows: total, success rate, and the breakdown by
    tool."""
    for number in range(10):
        note(
            calls,
            "geo.code" if number < 7 else "web.find",
            number,
            ms=2.0,
            size=100,
            ok=number != 3,
        )
        settle(calls)

    usage = calls.usage()

    assert (usage.total_calls, usage.failures, usage.success_rate, usage.output_chars) == (
        10,
        1,
        90.0,
        1000,
    )
    assert [(row.tool, row.calls, row.failures) for row in usage.tools] == [
        ("geo.code", 7, 1),
        ("web.find", 3, 0),
    ]
    assert usage.tools[0].success_rate == 85.71
    assert (usage.tools[0].avg_ms, usage.tools[0].p95_ms) == (2.0, 2.0)
    assert usage.tools[0].last_called == START
    assert calls.overview().by_models == (0, 0)


def test_an_ask_is_in_the_history_and_is_not_a_call(calls: CallLog, settle: Any) -> None:
    """Neither sums, nor plots, nor failures count it; those of its calls that failed do count."""
    for number, (tool, ok) in enumerate(
        [("ask", True), ("ask", False), ("geo.code", True), ("geo.code", False)]
    ):
        note(calls, tool, number, ok=ok, source="model", message="" if ok else "no")
        settle(calls)

    for period in PERIODS:
        seen = calls.overview(period=period)
        assert (seen.usage.total_calls, seen.usage.failures, seen.by_models[0]) == (2, 1, 2)
        assert [group.tool for group in seen.failures] == ["geo.code"]
    assert sum(span.calls for span in calls.timeline().spans) == 2
    assert [row.tool for row in calls.history()].count("ask") == len(calls.frame()) - 2 == 2
    assert calls.recent_tools() == ["geo.code"]


def test_usage_of_an_empty_log_is_zero_and_has_no_rate(calls: CallLog) -> None:
    usage = calls.usage()

    assert (usage.total_calls, usage.failures, usage.success_rate, usage.tools) == (0, 0, None, ())
    assert not calls.folder.exists(), "looking must not make a folder"


def test_calls_by_models_are_counted_apart(calls: CallLog, clock: Clock, settle: Any) -> None:
    """Calls by people count nothing; the period and the tool hold for these, too."""
    for source in ("python", "magic", "rest", "tool", "model", "mcp"):
        note(calls, "geo.code", source=source, size=1000)
    settle(calls)
    clock.now += 2 * DAY
    note(calls, "web.find", source="model", size=10_000_000)

    assert calls.overview(tool="geo.code").by_models == (2, 2000)
    assert calls.overview(period="day").by_models == (1, 10_000_000)
    settle(calls)
    assert calls.overview().by_models == (3, 10_002_000)


def test_an_overview_asks_about_failures_only_if_there_are_some(calls: CallLog) -> None:
    """A question costs some milliseconds before its first row is read."""
    counts = []
    for ok in (True, False):
        note(calls, ok=ok, code="" if ok else "execution_error")
        calls.overview()
        with CountedCalls("Calls.ask", "Calls.days") as count:
            calls.overview()
        counts.append(count)

    good, failed = counts
    assert failed["Calls.ask"] - good["Calls.ask"] == 1
    assert good["Calls.days"] == failed["Calls.days"] == 0


@pytest.mark.spec("001/Runtime Statistics/Filter by period")
@pytest.mark.parametrize(("period", "days"), [("day", 1), ("week", 7), ("month", 30)])
def test_a_period_is_exact_to_the_microsecond(
    calls: CallLog, clock: Clock, settle: Any, period: Any, days: int
) -> None:
    """One call right before the edge, one on it, one right after, and some in every bucket up to
    now."""
    edge = START - days * DAY
    step = datetime.timedelta(microseconds=1)
    moments = [edge - step, edge, edge + step, edge + HOUR, edge + 23 * HOUR, START - HOUR, START]
    for number, clock.now in enumerate(moments):
        note(calls, number=number, size=1)
        settle(calls)
    clock.now = START

    usage = calls.usage(period=period)

    assert usage.total_calls == 6
    assert usage.since == edge
    assert usage.output_chars == 6
    timeline = calls.timeline(since=usage.since)
    assert sum(span.calls for span in timeline.spans) == 6


@pytest.mark.spec("001/Runtime Statistics/Filter by period")
def test_periods_are_those_of_the_spec() -> None:
    assert PERIODS == ("day", "week", "month", "all")


@pytest.mark.parametrize("minute", range(0, 60, 7))
def test_a_period_agrees_with_counting_one_by_one(
    tmp_path: Path, clock: Clock, minute: int
) -> None:
    """Calls every 37 minutes over 40 days, edges at many places within the hour, and on full hours
    and days."""
    log = CallLog(tmp_path / "calls", clock=clock)
    moments = [START - 40 * DAY + number * datetime.timedelta(minutes=37) for number in range(1557)]
    for number, clock.now in enumerate(moments):
        note(log, number=number)
    log.close()
    log.tidy()
    now = START.replace(minute=minute, second=0, microsecond=0)
    for asked in (now, now.replace(minute=0), now.replace(hour=0, minute=0)):
        for period, days in (("day", 1), ("week", 7), ("month", 30)):
            expected = sum(moment >= asked - days * DAY for moment in moments)
            assert log.usage(period=period, now=asked).total_calls == expected  # type: ignore[arg-type]  # a Period


@pytest.mark.spec("001/Runtime Statistics/Filter by tool")
def test_a_tool_filters_everything(calls: CallLog, settle: Any) -> None:
    for number in range(6):
        note(
            calls,
            ("brave.search", "geo.code")[number % 2],
            number,
            ok=number > 1,
            size=10,
            ms=float(number),
        )
        settle(calls)

    for period in PERIODS:
        usage = calls.usage(tool="brave.search", period=period)

        assert (usage.total_calls, usage.failures, usage.output_chars) == (3, 1, 30)
        assert [row.tool for row in usage.tools] == ["brave.search"]
        timeline = calls.timeline(tool="brave.search", since=usage.since)
        assert sum(span.calls for span in timeline.spans) == 3
    assert calls.usage(tool="nobody.knows").total_calls == 0


@pytest.mark.spec("001/Runtime Statistics/Stats disabled")
def test_disabled_statistics_record_nothing_and_say_so(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, enabled=False)
    note(log)
    log.attach("id0", "r_1")

    for question in (log.usage, log.overview, log.history, log.frame):
        with pytest.raises(StatsDisabled, match="disabled"):
            question()
    assert not log.folder.exists()
    assert log.problems() == []


@pytest.mark.spec("001/Runtime Statistics/Invalid period")
@pytest.mark.parametrize("period", ["invalid", "", "Day", "year"])
def test_an_unknown_period_is_refused_in_the_words_of_the_spec(calls: CallLog, period: Any) -> None:
    for question in (calls.usage, calls.overview):
        with pytest.raises(InvalidPeriod) as caught:
            question(period=period)
        assert isinstance(caught.value, ValueError)
        assert (
            str(caught.value)
            == f"Invalid period '{period}'. Valid: day, week, month, all. Example:"
            " ot.stats(period='day')"
        )


def test_a_clock_set_back_loses_nothing(calls: CallLog, clock: Clock, settle: Any) -> None:
    """Calls from before the clock was set back are dated in the future; they count in every
    period."""
    note(calls, number=1)
    settle(calls)
    clock.now = START - DAY
    note(calls, number=2)
    settle(calls)

    assert [calls.usage(period=period).total_calls for period in PERIODS] == [2, 2, 2, 2]
    assert [row.call_id for row in calls.history()] == ["id1", "id2"]
    assert calls.usage().tools[0].last_called == START


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_a_clock_far_off_breaks_nothing(
    calls: CallLog, clock: Clock, settle: Any, year: int
) -> None:
    clock.now = datetime.datetime(year, 6, 1, tzinfo=datetime.UTC)
    note(calls)
    settle(calls)

    assert calls.usage().total_calls == 1
    assert calls.history()[0].ts.year == year
    clock.now = START
    assert calls.usage(period="day").total_calls == int(year > 2026)


# --- single calls ---------------------------------------------------------------------------------


def test_rows_come_newest_first_with_all_their_fields(
    calls: CallLog, clock: Clock, settle: Any
) -> None:
    calls.record(
        "c1", "geo.code", "model", {"q": "x"}, ok=True, ms=1.5, args_size=1, size=7, handle="r_9"
    )
    settle(calls)
    clock.now = START + HOUR
    calls.record(
        "c2",
        "geo.code",
        "rest",
        {},
        ok=False,
        ms=250.0,
        code="execution_error",
        reason="timeout",
        size=3,
    )
    settle(calls)

    newest, oldest = calls.history()

    assert (newest.call_id, newest.ok, newest.code, newest.reason) == (
        "c2",
        False,
        "execution_error",
        "timeout",
    )
    assert newest.ts == START + HOUR, "a call is dated when it ended"
    assert (oldest.call_id, oldest.tool, oldest.source, oldest.args) == (
        "c1",
        "geo.code",
        "model",
        '{"q":"x"}',
    )
    assert (oldest.arguments, oldest.is_whole, oldest.ms, oldest.bytes) == (
        {"q": "x"},
        True,
        1.5,
        7,
    )
    assert (oldest.handle, newest.handle, oldest.code, oldest.reason) == ("r_9", None, None, None)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_frame_has_the_same_rows_as_history(calls: CallLog, clock: Clock, settle: Any) -> None:
    for number in range(30):
        clock.now = START - number % 7 * HOUR
        changes = (
            {"ok": False, "code": "invalid_args", "reason": "schema"} if number % 4 == 0 else {}
        )
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

    for wish in (
        {},
        {"limit": 5},
        {"tool": "p.t1"},
        {"ok": False},
        {"since": START - 2 * HOUR},
        {"tool": "no.such"},
    ):
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
                assert found[name] == getattr(row, name) or (
                    getattr(row, name) is None and found[name] != found[name]
                )
    names = "ts call_id tool source args ok code reason message ms bytes handle parent"
    assert list(calls.frame()) == [
        *names.split(),
        *["user", "host", "notebook", "cell", "session", "fingerprint"],
    ]
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


@pytest.mark.parametrize(
    ("minutes", "step_s", "steps"),
    [
        ((0, 0.1, 5), 10, 31),
        ((0, 30, 119), 300, 25),
        ((0, 60 * 5, 60 * 30), 3600, 31),
        ((0, 60 * 24 * 10), 86400, 11),
        ((0, 60 * 24 * 600), 7 * 86400, 87),
    ],
)
def test_a_timeline_has_steps_that_suit_its_calls(
    calls: CallLog, clock: Clock, settle: Any, minutes: tuple[float, ...], step_s: int, steps: int
) -> None:
    """Minutes for a first day, hours for the first days, then days; steps without calls are there,
    too."""
    for back in minutes:
        clock.now = START - HOUR * back / 60
        note(calls, ok=back != 0, ms=10.0)
        note(calls, "other.tool", ms=99.0)
        settle(calls)
    clock.now = START

    seen = calls.timeline(tool="a.b")

    assert (seen.step_s, abs(len(seen.spans) - steps) <= 1) == (step_s, True)
    assert sum(span.calls for span in seen.spans) == len(minutes)
    assert (seen.spans[-1].calls, seen.spans[-1].failures, seen.spans[-1].p95_ms) == (1, 1, 10.0)
    gaps = {
        (b.start - a.start).total_seconds()
        for a, b in zip(seen.spans, seen.spans[1:], strict=False)
    }
    assert gaps == {step_s}
    assert calls.timeline(tool="no.calls").spans == ()
    assert calls.timeline(since=START, until=START).step_s == 10


def test_history_is_searched_by_words_in_name_arguments_and_error(
    calls: CallLog, settle: Any
) -> None:
    for number, (tool, args, said) in enumerate(
        [
            ("shop.order", {"street": "Ring 1"}, ""),
            ("shop.order", {"n": 2}, "no such STREET"),
            ("geo.code", {}, ""),
        ]
    ):
        calls.record(
            f"id{number}", tool, "python", args, not said, 1.0, code="execution_error", message=said
        )
        settle(calls)

    assert [row.call_id for row in calls.history(text="street")] == ["id1", "id0"]
    assert [row.call_id for row in calls.history(text="SHOP ring")] == ["id0"]
    assert [row.call_id for row in calls.history(text="street", ok=False)] == ["id1"]
    assert calls.history(text="100% _") == [], "no character is a wildcard"


def test_a_run_of_map_is_one_line_and_its_failures_come_first(
    calls: CallLog, clock: Clock, settle: Any
) -> None:
    """A row that was retried counts once, by its last try; calls of `ot` itself can be left out."""
    run = new_run()
    failed = {"ok": False, "code": "execution_error", "message": "no such street"}

    def row(name: str, *, is_good: bool) -> None:
        clock.now += HOUR / 60
        about = {} if is_good else failed
        calls.record(
            f"{run}-{name}", "shop.order", "tool", {"row": name}, **{"ok": True, "ms": 1.0, **about}
        )
        settle(calls)

    for number in range(5):
        row(f"{number}", is_good=number != 3)
    row("5", is_good=False)
    row("5.1", is_good=True)
    row("6", is_good=False)
    row("6.1", is_good=False)
    note(calls, "ot.map", 1)
    note(calls, "geo.code", 2)
    settle(calls)

    lines = calls.lines(CallFilter(hides_ot=True))
    assert [line.tool for line in lines] == ["geo.code", "shop.order"]
    assert lines[1] == RunRow(
        ts=clock.now,
        run=run,
        tool="shop.order",
        rows=7,
        failures=2,
        began=START + HOUR / 60 - datetime.timedelta(milliseconds=1),
    )
    [only] = calls.lines(CallFilter(hides_ot=True, ok=False))
    assert only == lines[1]
    assert calls.lines(CallFilter(hides_ot=True, text="nothing like it")) == []
    assert calls.lines(CallFilter(hides_ot=True), offset=1, limit=1) == [lines[1]]
    inside = calls.lines(CallFilter(run=run), limit=6)
    assert all(isinstance(line, CallRow) for line in inside)
    assert [line.ok for line in inside if isinstance(line, CallRow)] == [False] * 4 + [True] * 2
    assert len(calls.lines(CallFilter(run=run), offset=6)) == 3


def test_every_failure_of_a_period_is_grouped_by_its_cause(calls: CallLog, settle: Any) -> None:
    """A cause is a message without the values of its call; one that was told once keeps them."""
    for number in range(2_600):
        message = ("no such street: X{}", "the lid is open")[number % 2].format(number % 100)
        note(calls, number=number, ok=False, code="execution_error", message=message)
        if number % 1_300 == 0:
            settle(calls)
    note(calls, number=1, ok=False, code="execution_error", message="only once: 17")

    assert [(group.message, group.calls) for group in calls.overview().failures] == [
        ("no such street: …", 1300),
        ("the lid is open", 1300),
        ("only once: 17", 1),
    ]


@pytest.mark.parametrize(
    ("message", "args", "cause"),
    [
        ("no such street: X47", "{}", "no such street: …"),
        ("no price for tea", '{"item": "tea"}', "no price for …"),
        ("no price for green tea", '{"item": "green tea"}', "no price for …"),
        ("no price for teapots", '{"item": "tea"}', "no price for teapots"),
        ("'id': 3 is not a string", '{"id": 3}', "…: … is not a string"),
        ("Cannot connect to '127.0.0.1:80'", "cut {", "Cannot connect to …"),
        ("it doesn't say, and isn't sure", "{}", "it doesn't say, and isn't sure"),
        ("", "[1]", ""),
    ],
)
def test_a_cause_has_no_values(message: str, args: str, cause: str) -> None:
    assert cause_of(message, args) == cause
