"""`.df` of a result that is a table: of any library, equal to what pandas itself reads; the tool's
object stays."""

from __future__ import annotations

import math
import pickle
import threading
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.difference import compare
from onetool_ipy.core.result import ToolResult, to_frame
from tests.harness.tables import KINDS, NAMED

ROWS = [{"id": number, "name": f"n{number}"} for number in range(30)]
FLAT = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(
        st.none(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.booleans(),
        st.sampled_from(["", "x", "2026"]),
    ),
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_a_frame_and_stays_itself(kind: str) -> None:
    data = KINDS[kind](ROWS)
    result = ToolResult(True, data)

    frame = result.df

    columns = ["id", "name"] if kind in NAMED else [0, 1]
    assert list(frame.columns) == columns
    assert frame[columns[0]].tolist() == list(range(30))
    assert result.data is data


def test_a_frame_is_what_its_library_gives_pandas() -> None:
    grid = xr.Dataset(
        {"t": (("lat", "lon"), [[1.0, 2.0], [3.0, 4.0]])}, {"lat": [50, 60], "lon": [5, 6]}
    )
    matrix = np.arange(6).reshape(2, 3)
    polars = pl.DataFrame(
        {"id": [1, 2], "at": [pd.Timestamp("2026-01-02"), None], "x": [0.5, None]}
    )

    pd.testing.assert_frame_equal(ToolResult(True, grid).df, grid.to_dataframe())
    pd.testing.assert_frame_equal(ToolResult(True, matrix).df, pd.DataFrame(matrix))
    pd.testing.assert_frame_equal(ToolResult(True, polars).df, polars.to_pandas())


def test_large_whole_numbers_beside_a_missing_one_are_not_rounded() -> None:
    frame = ToolResult(True, pl.DataFrame({"id": [2**63 - 1, None]})).df

    assert frame["id"].iloc[0] == 2**63 - 1
    assert frame["id"].isna().tolist() == [False, True]


def test_a_stream_is_read_once_and_a_query_is_run_once() -> None:
    """A reader of Arrow is used up by its first reading."""
    result = ToolResult(True, pa.table({"a": [1, 2]}).to_reader())
    assert (
        result.df["a"].tolist()
        == result.df["a"].tolist()
        == result.portable["a"].tolist()
        == [1, 2]
    )

    runs = []
    connection = duckdb.connect()
    count = connection.create_function(
        "counted", lambda value: runs.append(value) or value, ["BIGINT"], "BIGINT"
    )
    query = ToolResult(True, count.sql("select counted(7) as a"))
    assert (query.df["a"].tolist(), query.portable["a"].tolist(), query.df["a"].tolist()) == (
        [7],
        [7],
        [7],
    )
    assert len(runs) == 1


def test_a_stream_that_was_read_is_still_sent_whole() -> None:
    result = ToolResult(True, pa.table({"a": [1, 2]}).to_reader())
    assert len(result.df) == 2

    rows = [{"a": 1}, {"a": 2}]
    assert (result.to_dict()["data"], result.as_invoke()["value"]) == (rows, rows)
    assert '"a": 2' in result.text


def test_a_frame_belongs_to_its_caller() -> None:
    result = ToolResult(True, pl.DataFrame({"a": [1, 2]}), meta={"call_id": "c1"})

    frame = result.df
    frame.loc[0, "a"] = 99
    frame["b"] = 1

    assert result.df.to_dict("list") == {"a": [1, 2]}
    assert result.df.attrs["onetool"]["call_id"] == "c1"


def test_a_result_whose_table_was_read_can_be_sent_elsewhere() -> None:
    result = ToolResult(True, pl.DataFrame({"a": [1]}))
    assert result.df["a"].tolist() == [1]

    again = pickle.loads(pickle.dumps(result))

    assert "_frame" not in vars(again)
    assert again.df["a"].tolist() == [1]


def test_a_table_that_cannot_be_read_says_so() -> None:
    class Broken:
        def to_pandas(self) -> Any:
            raise OSError("no connection")

    result = ToolResult(True, Broken())

    with pytest.raises(
        UsageProblem, match=r"This Broken could not be read as a table .*OSError: no connection"
    ):
        _ = result.df
    assert result.portable is result.data


def test_two_results_of_one_table_are_read_by_many_threads() -> None:
    shared = pl.DataFrame({"id": range(4_000), "name": [f"n{number}" for number in range(4_000)]})
    results = [ToolResult(True, shared), ToolResult(True, shared)]
    start, sums = threading.Barrier(8), []

    def work(result: ToolResult) -> None:
        start.wait()
        sums.append(
            (int(result.df["id"].sum()), len(result.portable), result.to_dict()["data"][-1]["name"])
        )

    threads = [threading.Thread(target=work, args=(results[place % 2],)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sums == [(7_998_000, 4_000, "n3999")] * 8


@pytest.mark.slow
@given(rows=st.lists(FLAT, min_size=1, max_size=6))
def test_plain_records_are_read_as_pandas_reads_them(rows: list[dict[str, Any]]) -> None:
    """But for whole numbers that no float holds, beside a missing cell."""
    if not any(rows):
        return
    expected = pd.DataFrame(rows)
    for name in expected.columns[expected.dtypes == "float64"]:
        cells = [None if pd.isna(row.get(name)) else row[name] for row in rows]
        numbers = [cell for cell in cells if cell is not None]
        if {*map(type, numbers)} == {int} and max(map(abs, numbers)) >= 2**53:
            is_small = all(-(2**63) <= number < 2**63 for number in numbers)
            expected[name] = pd.Series(cells, dtype="Int64" if is_small else object)
    pd.testing.assert_frame_equal(to_frame(rows), expected, check_exact=True)


def test_an_infinite_number_stays_one() -> None:
    assert math.isinf(to_frame([{"a": math.inf}, {"a": 1.0}])["a"].iloc[0])


@pytest.mark.parametrize("kind", sorted(NAMED))
def test_a_table_of_any_kind_is_compared_with_one_of_pandas(kind: str) -> None:
    changed = [{**row, "name": "other"} if row["id"] == 7 else row for row in ROWS]

    same, other = NAMED[kind](ROWS), NAMED[kind](changed)

    row = {"row": range(30)} if kind == "xarray" else {}
    before = pd.DataFrame(ROWS).assign(**row)
    assert not len(compare(before, same, "id").rows)
    assert compare(before, other, "id").changed[["id", "old", "new"]].to_numpy().tolist() == [
        [7, "n7", "other"]
    ]


ID = 1234567890123456789


@pytest.mark.parametrize(
    ("data", "name", "cells"),
    [
        ([{"to": ID}, {"to": None}], "to", [ID, None]),
        ([{"to": ID}, {"id": 1}], "to", [ID, None]),
        ([{"user": {"id": -ID}}, {"user": {}}], "user.id", [-ID, None]),
        ({"items": [{"id": 1, "to": 2**63}, {"id": 2, "to": None}]}, "to", [2**63, None]),
        ([ID, None, 1], "value", [ID, None, 1]),
        ([{"x": 1.5}, {"x": ID}], "x", [1.5, float(ID)]),
        ([(1, ID), (2, None)], 1, [ID, None]),
        ([(2**63, 1), (None, 1)], 0, [2**63, None]),
    ],
    ids=[
        "none",
        "no key",
        "inside",
        "64 bits",
        "values",
        "fraction",
        "tuples",
        "tuples of 64 bits",
    ],
)
def test_a_large_whole_number_beside_a_missing_one_is_exact(
    data: Any, name: Any, cells: list[Any]
) -> None:
    """As the id of a message that is an answer to another, or to none. pandas makes floats."""
    column = ToolResult(True, data).df[name]

    assert [None if pd.isna(cell) else cell for cell in column] == cells
    assert column.tolist()[0] == cells[0]
