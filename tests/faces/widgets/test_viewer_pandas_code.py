"""The code of a table finds the rows that the table shows, in the same order, with the same
columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from onetool_ipy.faces.widgets.table import ResultTable, query_of
from onetool_ipy.faces.widgets.viewer import pandas_code

SALES = pd.DataFrame(
    {
        "at": pd.date_range("2024-01-01", periods=200, freq="7h"),
        "town": np.array(["Wien", "Linz", "Graz", None, "wien west"], dtype=object)[
            np.arange(200) % 5
        ],
        "pieces": np.arange(200) % 17,
        "price": np.round(np.sin(np.arange(200)) * 50, 2),
        "paid": np.arange(200) % 3 == 0,
        "day": [f"2024-0{1 + at % 9}-01T10:00:00" for at in range(200)],
    }
)


def taken(data: pd.DataFrame, visible: list[int], **payload: Any) -> pd.DataFrame:
    """Run the code of a query; the last line is the table."""
    table = ResultTable(data, str)
    *lines, last = pandas_code(table, query_of(payload), visible, "df").split("\n")
    namespace = {"df": data, "pd": pd}
    exec("\n".join(lines), namespace)
    rows = eval(last, namespace)
    expected = table.found(query_of(payload))
    assert isinstance(rows, pd.DataFrame)
    assert len(rows) == len(expected)
    if not table.has_index_columns:
        assert rows.index.tolist() == expected.index.tolist()
    return rows


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"columns": {"2": "> 5", "3": "-10..<20"}},
        {"columns": {"2": "= 5"}},
        {"columns": {"2": "!= 5"}},
        {"columns": {"3": "5..20.5"}},
        {"columns": {"2": "5.."}},
        {"columns": {"0": "..2024-02"}},
        {"columns": {"1": "wien"}},
        {"columns": {"1": "=WIEN"}},
        {"columns": {"1": "!=wien"}},
        {"columns": {"1": "!wien"}},
        {"columns": {"1": "="}},
        {"columns": {"1": "!="}},
        {"columns": {"0": "2024-02"}},
        {"columns": {"0": "> 2024-02"}},
        {"columns": {"0": "2024-01-10..<2024-02-01 12"}},
        {"columns": {"5": "> 2024-03"}},
        {"columns": {"5": "2024-03..2024-05"}},
        {"columns": {"4": "true"}},
        {"columns": {"2": "1"}},
        {"filter": "wien"},
        {"sort": {"column": 3, "isDown": True}, "columns": {"2": "<= 4"}},
        {"sort": {"column": 2, "isDown": False}},
        {"choices": {"1": [0, 1]}},
        {"choices": {"1": [0, -1], "2": [3, 4]}},
        {"choices": {"0": [0, 7]}},
        {"choices": {"4": [0]}, "filter": "2024-01", "columns": {"3": "< 0"}},
    ],
    ids=str,
)
def test_code_finds_the_rows_of_the_screen(payload: dict[str, Any]) -> None:
    taken(SALES, list(range(6)), **payload)


def test_code_has_the_columns_of_the_screen() -> None:
    assert taken(SALES, [3, 1], columns={"1": "linz"}).columns.tolist() == ["price", "town"]
    twins = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])
    assert taken(twins, [1, 2], columns={"1": "2"}).to_numpy().tolist() == [[2, 3]]


def test_an_index_that_is_a_column_on_the_screen_becomes_one() -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    assert taken(frame, [0, 1], columns={"0": "y"}).to_numpy().tolist() == [["y", 2]]


def test_code_is_short() -> None:
    table = ResultTable(SALES, str)
    query = query_of(
        {"columns": {"3": "> 10"}, "choices": {"1": [0, 1]}, "sort": {"column": 0, "isDown": True}}
    )
    assert pandas_code(table, query, [0, 1], "sales") == (
        "sales[(sales['price'] > 10) & sales['town'].isin(['Wien', 'Linz'])]"
        ".sort_values('at', ascending=False, kind='stable')[['at', 'town']]"
    )
