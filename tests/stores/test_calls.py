"""Usage: what is recorded comes back in sums, exact to the microsecond, whoever folded it when."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.config.settings import StatsSettings
from onetool_ipy.stores.calls import CallLog, StatsDisabled
from onetool_ipy.stores.calls.query import PERIODS, InvalidPeriod, Savings, savings
from tests.stores.calls_aids import DAY, HOUR, START, Clock, calls, clock, note, settle

__all__ = ["calls", "clock", "settle"]  # fixtures


@pytest.mark.spec("001/Runtime Statistics/Get all-time stats")
def test_usage_adds_up_all_calls(calls: CallLog, settle: Any) -> None:
    """Every field of the scenario: total, success rate, both estimates, and the breakdown by tool."""
    for number in range(10):
        note(calls, "geo.code" if number < 7 else "web.find", number, ms=2.0, size=100, ok=number != 3)
        settle(calls)

    usage = calls.usage()

    assert (usage.total_calls, usage.failures, usage.success_rate, usage.output_chars) == (10, 1, 90.0, 1000)
    assert [(row.tool, row.calls, row.failures) for row in usage.tools] == [("geo.code", 7, 1), ("web.find", 3, 0)]
    assert usage.tools[0].success_rate == 85.71
    assert (usage.tools[0].avg_ms, usage.tools[0].p95_ms) == (2.0, 2.0)
    assert usage.tools[0].last_called == START
    assert savings(usage, StatsSettings()) == Savings(context_saved=10 * 30_000 - 250, time_saved_ms=40_000)


def test_usage_of_an_empty_log_is_zero_and_has_no_rate(calls: CallLog) -> None:
    usage = calls.usage()

    assert (usage.total_calls, usage.failures, usage.success_rate, usage.tools) == (0, 0, None, ())
    assert not calls.folder.exists(), "looking must not make a folder"


def test_savings_are_never_negative(calls: CallLog) -> None:
    note(calls, size=10_000_000)

    assert savings(calls.usage(), StatsSettings()).context_saved == 0
    assert savings(calls.usage(), StatsSettings(chars_per_token=0)).context_saved == 30_000


@pytest.mark.spec("001/Runtime Statistics/Filter by period")
@pytest.mark.parametrize(("period", "days"), [("day", 1), ("week", 7), ("month", 30)])
def test_a_period_is_exact_to_the_microsecond(
    calls: CallLog, clock: Clock, settle: Any, period: Any, days: int
) -> None:
    """One call right before the edge, one on it, one right after, and some in every bucket up to now."""
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
    assert sum(span.calls for span in calls.series(period=period)) == 6


@pytest.mark.spec("001/Runtime Statistics/Filter by period")
def test_periods_are_those_of_the_spec() -> None:
    assert PERIODS == ("day", "week", "month", "all")


@pytest.mark.parametrize("minute", range(0, 60, 7))
def test_a_period_agrees_with_counting_one_by_one(tmp_path: Path, clock: Clock, minute: int) -> None:
    """Calls every 37 minutes over 40 days, edges at many places within the hour, and on full hours and days."""
    log = CallLog(tmp_path / "calls", clock=clock)
    moments = [START - 40 * DAY + number * datetime.timedelta(minutes=37) for number in range(1557)]
    for number, clock.now in enumerate(moments):
        note(log, number=number)
    log.fold()
    now = START.replace(minute=minute, second=0, microsecond=0)
    for asked in (now, now.replace(minute=0), now.replace(hour=0, minute=0)):
        for period, days in (("day", 1), ("week", 7), ("month", 30)):
            expected = sum(moment >= asked - days * DAY for moment in moments)
            assert log.usage(period=period, now=asked).total_calls == expected  # type: ignore[arg-type]  # a Period


@pytest.mark.spec("001/Runtime Statistics/Filter by tool")
def test_a_tool_filters_everything(calls: CallLog, settle: Any) -> None:
    for number in range(6):
        note(calls, ("brave.search", "geo.code")[number % 2], number, ok=number > 1, size=10, ms=float(number))
        settle(calls)

    for period in PERIODS:
        usage = calls.usage(tool="brave.search", period=period)

        assert (usage.total_calls, usage.failures, usage.output_chars) == (3, 1, 30)
        assert [row.tool for row in usage.tools] == ["brave.search"]
        assert sum(span.calls for span in calls.series(tool="brave.search", period=period)) == 3
    assert calls.usage(tool="nobody.knows").total_calls == 0


@pytest.mark.spec("001/Runtime Statistics/Stats disabled")
def test_disabled_statistics_record_nothing_and_say_so(tmp_path: Path, clock: Clock) -> None:
    log = CallLog(tmp_path / "calls", clock=clock, enabled=False)
    note(log)
    log.attach("id0", "r_1")

    for question in (log.usage, log.series, log.history, log.frame):
        with pytest.raises(StatsDisabled, match="disabled"):
            question()
    assert not log.folder.exists()
    assert log.problems() == []


@pytest.mark.spec("001/Runtime Statistics/Invalid period")
@pytest.mark.parametrize("period", ["invalid", "", "Day", "year"])
def test_an_unknown_period_is_refused_in_the_words_of_the_spec(calls: CallLog, period: Any) -> None:
    for question in (calls.usage, calls.series):
        with pytest.raises(InvalidPeriod) as caught:
            question(period=period)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value) == (
            f"Invalid period '{period}'. Valid: day, week, month, all. Example: ot.stats(period='day')"
        )


def test_a_clock_set_back_loses_nothing(calls: CallLog, clock: Clock, settle: Any) -> None:
    """Calls from before the clock was set back are dated in the future; they count in every period."""
    note(calls, number=1)
    settle(calls)
    clock.now = START - DAY
    note(calls, number=2)
    settle(calls)

    assert [calls.usage(period=period).total_calls for period in PERIODS] == [2, 2, 2, 2]
    assert [row.call_id for row in calls.history()] == ["id1", "id2"]
    assert calls.usage().tools[0].last_called == START


@pytest.mark.parametrize("year", [1, 1969, 9999])
def test_a_clock_far_off_breaks_nothing(calls: CallLog, clock: Clock, settle: Any, year: int) -> None:
    clock.now = datetime.datetime(year, 6, 1, tzinfo=datetime.UTC)
    note(calls)
    settle(calls)

    assert calls.usage().total_calls == 1
    assert calls.history()[0].ts.year == year
    clock.now = START
    assert calls.usage(period="day").total_calls == int(year > 2026)
