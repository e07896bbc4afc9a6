"""Counts that add up, and percentiles from a histogram that is one integer."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.stores.calls.line import Batch
from onetool_ipy.stores.calls.tally import EMPTY, Tally, percentile, summed, tally, to_blob, to_histogram

DURATIONS = st.lists(st.floats(0, 1e9), min_size=1, max_size=60)


def tally_of(durations: list[float]) -> Tally:
    count = len(durations)
    batch = Batch(ts=range(count), ok=[True] * count, ms=durations, size=[2] * count, tool=["a.b"] * count)
    return tally(batch, batch.tool)["a.b"]


@settings(deadline=None)
@given(DURATIONS, DURATIONS)
def test_two_tallies_add_up_to_that_of_all(first: list[float], second: list[float]) -> None:
    both, whole = tally_of(first).plus(tally_of(second)), tally_of(first + second)

    assert both._replace(ms_sum=0, last_ts=0) == whole._replace(ms_sum=0, last_ts=0)
    assert math.isclose(both.ms_sum, whole.ms_sum)
    assert both.plus(EMPTY) == both


@settings(deadline=None)
@given(DURATIONS, st.integers(1, 1 << 40))
def test_a_histogram_comes_back_from_the_disk(durations: list[float], times: int) -> None:
    histogram = tally_of(durations).histogram * times

    assert to_histogram(to_blob(histogram)) == histogram


def test_an_empty_histogram_is_no_bytes() -> None:
    assert to_blob(0) == b""
    assert to_histogram(b"") == 0


@pytest.mark.parametrize("blob", [b"\x01", b"\x03\0\0abc", b"\xff\0\0a", b"\x01\xff\xffa"])
def test_bytes_that_are_no_histogram_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="histogram"):
        to_histogram(blob)


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0, 90_000.0])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95, 0.99])
def test_a_percentile_is_within_three_percent(scale: float, share: float) -> None:
    chance = random.Random(7)
    durations = [scale * chance.lognormvariate(0, 1.5) for _ in range(2000)]
    true = sorted(durations)[math.ceil(share * 2000) - 1]

    found = percentile(tally_of(durations), share)

    assert found is not None
    assert abs(found - true) <= 0.032 * true + 0.001, "3.2 % and a microsecond"


def test_a_percentile_is_never_outside_what_was_seen() -> None:
    assert percentile(tally_of([5.0] * 100), 0.95) == 5.0
    assert percentile(tally_of([0.0]), 0.95) == 0.0
    assert percentile(tally_of([3.0, 4.0]), 1.0) == 4.0
    assert percentile(EMPTY, 0.95) is None


def test_a_tally_knows_its_rate_and_mean() -> None:
    batch = Batch(ts=[1, 9, 5], ok=[True, False, True], ms=[1.0, 2.0, 6.0], size=[1, 2, 3])
    found = tally(batch, ["x", "x", None])["x"]

    assert (found.calls, found.failures, found.success_rate, found.size, found.last_ts) == (2, 1, 50.0, 3, 9)
    assert found.avg_ms == statistics.fmean([1.0, 2.0])
    assert (EMPTY.success_rate, EMPTY.avg_ms) == (None, 0.0)


def test_parts_are_summed_by_key() -> None:
    one = tally_of([1.0])

    assert summed([("a", one), ("b", one), ("a", one)]) == {"a": one.plus(one), "b": one}
