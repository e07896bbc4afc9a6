"""Rollups: sums that add up, and percentiles from a histogram of durations."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.stores.calls.rollup import DAY_US, HOUR_US, Rollup, by_hour_and_tool, by_span, grouped

DURATIONS = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)


def rollup_of(durations: list[float]) -> Rollup:
    calls = [(ts, "a.b", True, ms, 2) for ts, ms in enumerate(durations)]
    return by_hour_and_tool(calls)[0, "a.b"]


@settings(deadline=None)
@given(DURATIONS, DURATIONS)
def test_two_rollups_add_up_to_that_of_all(first: list[float], second: list[float]) -> None:
    both = grouped([("x", rollup_of(first)), ("x", rollup_of(second))])["x"]
    whole = rollup_of(first + second)

    assert math.isclose(both.ms_sum, whole.ms_sum)
    assert both._replace(ms_sum=0, last_ts=0) == whole._replace(ms_sum=0, last_ts=0)


def test_an_empty_rollup_adds_nothing() -> None:
    one = rollup_of([1.0, 2.0])

    assert grouped([("x", one), ("x", Rollup()), ("y", one)]) == {"x": one, "y": one}
    assert (Rollup().success_rate, Rollup().avg_ms, Rollup().percentile(0.95)) == (None, 0.0, None)


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0, 90_000.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95, 0.99])
def test_a_percentile_is_within_three_percent(scale: float, share: float) -> None:
    chance = random.Random(7)
    durations = [scale * chance.lognormvariate(0, 1.5) for _ in range(2000)]
    true = sorted(durations)[math.ceil(share * 2000) - 1]

    found = rollup_of(durations).percentile(share)

    assert found is not None
    assert abs(found - true) <= 0.032 * true + 0.001, "3.2 % and a microsecond"


def test_a_percentile_is_never_outside_what_was_seen() -> None:
    assert rollup_of([5.0] * 100).percentile(0.95) == 5.0
    assert rollup_of([0.0]).percentile(0.95) == 0.0
    assert rollup_of([3.0, 4.0]).percentile(1.0) == 4.0


def test_a_histogram_begins_with_its_first_bin() -> None:
    assert rollup_of([0.0]).durations == [0, 1]
    assert rollup_of([1.0]).durations == [159, 1]
    assert rollup_of([1.0, 1.0, 1.1]).durations == [159, 2, 0, 1]


def test_a_rollup_knows_its_rate_and_mean() -> None:
    calls = [(1, "x", True, 1.0, 1), (9, "x", False, 2.0, 2), (5, "y", True, 6.0, 3)]
    found = by_hour_and_tool(calls)[0, "x"]

    assert (found.calls, found.failures, found.success_rate, found.size, found.last_ts) == (2, 1, 50.0, 3, 9)
    assert found.avg_ms == statistics.fmean([1.0, 2.0])


def test_hours_add_up_to_days_weeks_and_all_for_each_tool_and_all_tools() -> None:
    times = (-HOUR_US, 0, HOUR_US, DAY_US + HOUR_US)
    hours = by_hour_and_tool([(ts, tool, True, 1.0, 1) for ts in times for tool in ("a", "b")])

    spans = {key: cell.calls for key, cell in by_span(hours).items()}

    assert {key: calls for key, calls in spans.items() if key[2] == "a"} == {
        ("all", 0, "a"): 4,
        ("week", -7 * DAY_US, "a"): 1,
        ("week", 0, "a"): 3,
        ("day", -DAY_US, "a"): 1,
        ("day", 0, "a"): 2,
        ("day", DAY_US, "a"): 1,
        **{("hour", ts, "a"): 1 for ts in times},
    }
    assert {key: calls for key, calls in spans.items() if not key[2]} == {
        ("all", 0, ""): 8,
        ("week", -7 * DAY_US, ""): 2,
        ("week", 0, ""): 6,
        ("day", -DAY_US, ""): 2,
        ("day", 0, ""): 4,
        ("day", DAY_US, ""): 2,
        **{("hour", ts, ""): 2 for ts in times},
    }
