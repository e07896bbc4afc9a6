"""Results that are kept by reference: when they are written, what is held, and that nothing is lost
on the way."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from onetool_ipy.stores.results import HandleExpired, HandleNotFound, Results
from tests.stores.results_aids import Clock, lines, names, open_results


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(tmp_path)


class Rows(list[Any]):
    """A list that can be watched."""


HEAVY = "x" * 20 * 1024 * 1024
"""One text that many large lists share."""


def test_kept_object_is_written_when_its_lines_are_asked_for(results: Results) -> None:
    handle = results.keep([{"a": 1}, {"a": 2}], tool="demo.rows", call_id="c1")
    assert names(results) == []

    assert lines(results, handle) == ['{"a":1}', '{"a":2}']

    assert names(results) == [f"{handle}.json", f"{handle}.txt"]
    assert results.list()[0]["tool"] == "demo.rows"


def test_kept_object_is_found_by_others_once_it_is_stored(results: Results, tmp_path: Path) -> None:
    handle, other = results.keep([1, 2]), open_results(tmp_path)
    with pytest.raises(HandleNotFound):
        other.query(handle)

    assert results.store(handle) == handle
    assert results.store(handle) == handle

    assert lines(other, handle) == ["1", "2"]


@pytest.mark.parametrize("value", ["text", b"bytes", 5, 2.5, None, True])
def test_text_and_the_like_are_written_at_once(results: Results, value: Any) -> None:
    handle = results.keep(value)

    assert names(results) == [f"{handle}.json", f"{handle}.txt"]


def test_keeping_does_not_change_the_object(results: Results) -> None:
    value = [{"b": {1, 2}}, (x for x in "ab")]
    handle = results.keep(value)

    results.query(handle)

    assert list(value[1]) == ["a", "b"]  # type: ignore[arg-type]  # the generator above


def test_stored_is_what_the_object_is_when_it_is_written(results: Results) -> None:
    value = [1]
    handle = results.keep(value)
    value.append(2)
    assert lines(results, handle) == ["1", "2"]

    value.append(3)

    assert lines(results, handle) == ["1", "2"]


def test_kept_object_expires_like_a_stored_one(tmp_path: Path) -> None:
    clock = Clock()
    results = open_results(tmp_path, clock)
    handle = results.keep([1])
    clock.forward(days=1)

    with pytest.raises(HandleExpired):
        results.query(handle)


@pytest.mark.slow
def test_only_the_newest_are_held_and_the_others_are_written(results: Results) -> None:
    objects = [Rows([number]) for number in range(100)]
    watched = [weakref.ref(one) for one in objects]
    handles = [results.keep(one) for one in objects]
    del objects
    gc.collect()

    assert sum(one() is not None for one in watched) == 32
    assert len(names(results)) == 2 * 68
    assert [lines(results, handle) for handle in handles] == [
        [str(number)] for number in range(100)
    ]


def test_heavy_object_is_held_weakly_and_nobody_waits_for_its_writing(results: Results) -> None:
    owned = Rows([0, HEAVY])
    handle = results.keep(owned)
    for number in range(32):
        results.keep([number])

    assert names(results) == []
    assert results.describe(handle)["lines"] is None
    assert lines(results, handle)[0] == "0"


@pytest.mark.slow
def test_heavy_object_that_its_owner_dropped_is_expired(results: Results) -> None:
    handle = results.keep(Rows([HEAVY]))
    for number in range(32):
        results.keep([number])
    gc.collect()

    with pytest.raises(HandleExpired, match="only kept in memory"):
        results.query(handle)
    assert handle not in [row["handle"] for row in results.list()]


@pytest.mark.slow
def test_objects_held_weigh_256_mb_at_most(results: Results) -> None:
    watched = []
    for _ in range(20):
        value = Rows([HEAVY])
        watched.append(weakref.ref(value))
        results.keep(value)
    del value
    gc.collect()

    assert sum(one() is not None for one in watched) == 12


def test_reload_and_close(results: Results, tmp_path: Path) -> None:
    handle = results.keep([1])
    newer = open_results(tmp_path)

    newer.take_over(results)
    results.close()
    results.close()

    assert lines(newer, handle) == ["1"]


@pytest.mark.slow
def test_value_is_the_object_itself_while_somebody_keeps_it(
    results: Results, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"])}, index=["a", "b"])
    handle = results.keep(frame)
    assert results.value(handle) is frame
    results.store(handle)
    assert results.value(handle) is frame

    again = open_results(tmp_path).value(handle)
    pd.testing.assert_frame_equal(again, frame.reset_index(drop=True))
    del frame
    gc.collect()
    pd.testing.assert_frame_equal(results.value(handle), again)


@pytest.mark.slow
def test_value_of_long_lines_is_whole_and_an_expired_one_is_gone(tmp_path: Path) -> None:
    clock = Clock()
    results = open_results(tmp_path, clock)
    rows = [{"text": "x" * 50_000}, {"text": "y"}]
    kept = pd.DataFrame(rows)
    handle, frame = results.put(rows), results.keep(kept)
    results.store(frame)
    assert results.value(handle) == rows
    clock.forward(days=2)
    for expired in (handle, frame):
        with pytest.raises(HandleExpired):
            results.value(expired)
