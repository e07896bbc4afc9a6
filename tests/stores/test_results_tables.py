"""Tables of every kind in the result store: one line for each row, read again as they were, the
first page at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onetool_ipy.base.tables import is_frame, tabular
from onetool_ipy.stores.results import Results
from tests.harness.tables import KINDS, NAMED
from tests.stores.results_aids import SECRET, Clock, open_results

ROWS = [{"id": number, "name": f"n{number}"} for number in range(30)]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(tmp_path, Clock())


def reloaded(results: Results, handle: str) -> Any:
    """What another process reads under a handle."""
    value = open_results(results.folder.parent, Clock()).value(handle)
    table = tabular(value)
    return table if is_frame(table) else pd.DataFrame(table)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_kind_has_a_line_for_each_row(kind: str, results: Results) -> None:
    handle = results.put(KINDS[kind](ROWS))

    page = results.query(handle, limit=2, offset=8)
    matches = results.query(handle, search="n1[0-4]")

    assert page["total_lines"] == 30
    row = json.loads(page["lines"][0])
    assert (row["name"] if kind in NAMED else row[1]) == "n7"
    assert matches["matched"] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_table_is_read_again_as_it_was(kind: str, results: Results) -> None:
    handle = results.put(KINDS[kind](ROWS))

    names = ["id", "name"] if kind in NAMED else [0, 1]
    assert reloaded(results, handle)[names].to_numpy().tolist() == [
        [row["id"], row["name"]] for row in ROWS
    ]


@pytest.mark.slow
@given(
    ids=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=3, max_size=3),
    numbers=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    texts=st.lists(
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
        min_size=3,
        max_size=3,
    ),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_reloaded_equals_what_pandas_read(
    results: Results, ids: Any, numbers: Any, texts: Any
) -> None:
    frame = pl.DataFrame(
        {"id": ids, "x": numbers, "t": texts},
        schema={"id": pl.Int64, "x": pl.Float64, "t": pl.Utf8},
    )

    again = reloaded(results, results.put(frame))

    pd.testing.assert_frame_equal(again, tabular(frame), check_exact=True)


@pytest.mark.slow
def test_the_first_page_of_a_long_table_waits_for_no_writing(results: Results) -> None:
    frame = tabular(
        pl.DataFrame({"id": range(100_000), "name": [f"{SECRET} {n}" for n in range(100_000)]})
    )
    handle = results.keep(frame)

    page = results.query(handle, offset=99_999, limit=5)

    assert list(results.folder.parent.rglob("*.txt")) == []
    assert (page["total_lines"], page["returned"], page["offset"], page["has_more"]) == (
        100_000,
        2,
        99_999,
        False,
    )
    results.store(handle)
    assert results.query(handle, offset=99_999, limit=5) == page
    assert SECRET not in page["lines"][0]
