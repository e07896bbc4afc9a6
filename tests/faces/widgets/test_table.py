"""A result as a table: kinds of columns, filters, order, summaries, and rows taken away."""

from __future__ import annotations

import csv
import decimal
import io
import json
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np
import openpyxl  # type: ignore[import-untyped]  # it has no types
import pandas as pd
import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.widgets.table import FORMATS, ResultTable, TableQuery, query_of

ALL = slice(0, 1_000)
SECRET = "s3cr3t-value"
ROWS: list[dict[str, Any]] = [
    {
        "id": 7,
        "price": 66.7,
        "day": "2024-03-01T00:00:00",
        "town": "Wien",
        "on": True,
        "tags": ["a", "b"],
    },
    {
        "id": 2,
        "price": 112.47,
        "day": "2024-03-15T12:30:05",
        "town": "Linz",
        "on": False,
        "tags": [],
    },
    {"id": 9, "price": None, "day": None, "town": "wien west", "on": None, "tags": None},
    {
        "id": 4,
        "price": 5.0,
        "day": "2025-01-01T00:00:00",
        "town": "=Graz",
        "on": True,
        "tags": ["c"],
    },
]


def masked(text: str) -> str:
    return text.replace(SECRET, "***")


@pytest.fixture
def table() -> ResultTable:
    return ResultTable(ROWS, masked)


def found(table: ResultTable, **query: Any) -> list[int]:
    """The numbers of the found rows, in order."""
    return [row[0] for row in table.page(query_of(query), ALL)["rows"]]


def test_columns_have_kinds_and_cells_read_well(table: ResultTable) -> None:
    page = table.page(TableQuery(), ALL)
    kinds = {column["name"]: column["kind"] for column in page["columns"]}
    assert kinds == {
        "id": "integer",
        "price": "number",
        "day": "date",
        "town": "text",
        "on": "boolean",
        "tags": "nested",
    }
    assert [row[2] for row in page["rows"]] == ["66.70", "112.47", "", "5.00"], (
        "the decimals of a column are alike"
    )
    days = ["2024-03-01 00:00:00", "2024-03-15 12:30:05", "", "2025-01-01 00:00:00"]
    assert [row[3] for row in page["rows"]] == days, "the dates of a column are alike"
    assert [row[0] for row in page["rows"]] == [0, 1, 2, 3]


def test_rows_keep_the_number_that_they_have_in_the_data(table: ResultTable) -> None:
    assert found(table, sort={"column": 1, "isDown": True}) == [1, 0, 3, 2]
    assert found(table, sort={"column": 3, "isDown": False}, filter="wien") == [0, 2]


@pytest.mark.parametrize(
    ("column", "condition", "numbers"),
    [
        (1, "> 66", [0, 1]),
        (1, "5..70", [0, 3]),
        (1, "<=5", [3]),
        (1, "= 112.47", [1]),
        (1, "=", [2]),
        (1, "!=", [0, 1, 3]),
        (1, "66.7", [0]),
        (1, "5..<66.7", [3]),
        (1, "66.7..", [0, 1]),
        (1, "60 - 70", [0]),
        (1, "..66.7", [0, 3]),
        (1, "..<66.7", [3]),
        (1, "..-3", []),
        (1, "-3..5", [3]),
        (1, "60–70.5", [0]),
        (1, "== 112.47", [1]),
        (1, ">66", [0, 1]),
        (2, "2024-03-15..<2025", [1]),
        (2, "2024-03", [0, 1]),
        (2, "..2024-03-10", [0]),
        (2, "> 2024-03-01", [1, 3]),
        (2, "2024-03-10..2024", [1]),
        (2, "< 2024-03-15T12", [0]),
        (3, "WIEN", [0, 2]),
        (3, "=wien", [0]),
        (3, "!wien", [1, 3]),
        (3, "!=wien", [1, 2, 3]),
        (3, "==graz", [3]),
        (4, "true", [0, 3]),
        (5, '"c"', [3]),
    ],
)
def test_a_condition_on_a_column(
    table: ResultTable, column: int, condition: str, numbers: list[int]
) -> None:
    assert found(table, columns={str(column): condition}) == numbers


def test_conditions_are_joined(table: ResultTable) -> None:
    assert found(table, filter="i", columns={"0": "> 3", "3": "wien"}) == [0, 2]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"columns": {"1": "> cheap"}}, "'cheap' is not a number"),
        ({"columns": {"1": "> 3,5"}}, "'3,5' is not a number"),
        ({"columns": {"1": "3,5"}}, "'3,5' is not a number"),
        ({"columns": {"1": "8..2"}}, "8 is above 2"),
        ({"columns": {"1": "20-10"}}, "20 is above 10"),
        ({"columns": {"1": "cheap"}}, "'cheap' is not a number"),
        ({"columns": {"1": ">"}}, "A number is missing"),
        ({"columns": {"2": "in spring"}}, "'in spring' is not a part of a date"),
        ({"columns": {"3": "> a"}}, "'>' works on numbers and dates"),
        ({"columns": {"99": "x"}}, "no such column"),
        ({"sort": {"column": -1, "isDown": False}}, "no such column"),
    ],
)
def test_a_bad_query_says_what_is_wrong(
    table: ResultTable, query: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageProblem, match=said):
        found(table, **query)
    assert found(table) == [0, 1, 2, 3], "the table is as it was"


def test_a_column_of_mixed_values_is_sorted_as_text() -> None:
    mixed = ResultTable([{"x": 10}, {"x": "b"}, {"x": [1]}, {"x": None}], masked)
    assert sorted(found(mixed, sort={"column": 0, "isDown": False})) == [0, 1, 2, 3]


def test_the_summary_of_a_column(table: ResultTable) -> None:
    price = table.summary(TableQuery(), 1)
    assert (price["kind"], price["missing"], price["distinct"]) == ("number", 1, 3)
    assert (price["min"], price["max"], sum(price["bars"])) == ("5.00", "112.47", 3)
    day = table.summary(TableQuery(), 2)
    assert (day["min"], day["max"], sum(day["bars"])) == (
        "2024-03-01 00:00:00",
        "2025-01-01 00:00:00",
        3,
    )
    assert table.summary(TableQuery(), 4)["top"] == [["true", 2, 0], ["false", 1, 1]]
    assert table.summary(TableQuery(), 5)["distinct"] == 3
    assert table.summary(query_of({"filter": "wien"}), 0)["max"] == "9"


ODD: dict[str, Any] = {
    "numbers too large for a float": [{"a": 10**400}, {"a": 1}],
    "a range too large for a float": [{"a": 1e308}, {"a": -1e308}],
    "infinite": pd.DataFrame({"a": [float("inf"), 1.0]}),
    "decimals": [{"a": decimal.Decimal("1.5")}, {"a": None}],
    "days that are none": [{"a": "2024-99-99"}, {"a": "9999-12-31"}],
    "arrays": pd.DataFrame({"a": [np.array([1, 2]), np.array([3])]}),
    "columns of one name": pd.DataFrame([[1, "x"], [3, "y"]], columns=["a", "a"]),
    "columns of two levels": pd.DataFrame(
        [[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    ),
    "categories": pd.DataFrame({"a": pd.Categorical(["x", "y", "x"])}),
    "periods": pd.DataFrame({"a": pd.period_range("2024-01", periods=2, freq="M")}),
    "complex": pd.DataFrame({"a": [1 + 2j, 3j]}),
    "nullable": pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
    "mixed": [{"a": 1}, {"a": "x"}, {"a": [1]}, {"a": {"b": 1}}, {"a": None}],
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_values_are_shown_sorted_summed_up_and_taken_away(data: Any) -> None:
    table = ResultTable(data, masked)
    places = list(range(len(table.columns())))
    rows = table.page(TableQuery(), ALL)["total"]
    assert rows == len(data)
    assert len(table.copied(TableQuery(), 0, 9, places).split("\n")) == rows
    for kind in FORMATS:
        with suppress(UsageProblem):  # Parquet has no complex numbers
            assert table.download(TableQuery(), places, kind)
    for column in places:
        order = found(table, sort={"column": column, "isDown": True})
        assert sorted(order) == list(range(rows))
        assert table.summary(TableQuery(), column)["missing"] <= rows
        for condition in ("> 1", "1..2", "=", "x", "!x"):
            with suppress(UsageProblem):
                assert len(found(table, columns={str(column): condition})) <= rows


def test_an_empty_table_has_a_summary() -> None:
    empty = ResultTable(
        pd.DataFrame({"a": pd.Series([], dtype=float), "b": pd.Series([], dtype=object)}), masked
    )
    assert empty.page(TableQuery(), ALL)["total"] == 0
    assert empty.summary(TableQuery(), 0)["missing"] == 0
    assert empty.summary(TableQuery(), 1)["distinct"] == 0


def test_cells_and_rows_are_copied_as_tab_separated_text(table: ResultTable) -> None:
    by_price = query_of({"sort": {"column": 1, "isDown": False}})
    assert table.copied(by_price, 0, 0, [3]) == "=Graz"
    assert table.copied(by_price, 0, 1, [0, 3]) == "4\t=Graz\n7\tWien"
    assert ResultTable([{"a": "x\ty\nz"}], masked).copied(TableQuery(), 0, 0, [0]) == "x y z"
    many = ResultTable(pd.DataFrame({"a": range(20_000)}), masked)
    with pytest.raises(UsageProblem, match=r"At most 10,000 rows"):
        many.copied(TableQuery(), 0, 19_999, [0])


def test_found_rows_are_of_the_same_type_as_the_data() -> None:
    rows = ResultTable(ROWS, masked).found(query_of({"filter": "wien"}))
    assert rows == [ROWS[0], ROWS[2]]
    frame = pd.DataFrame({"n": [3, 1, 2]}, index=["c", "a", "b"])
    taken = ResultTable(frame, masked).found(query_of({"sort": {"column": 1, "isDown": False}}))
    assert list(taken.index) == ["a", "b", "c"]
    assert ResultTable(frame["n"], masked).found(TableQuery()).tolist() == [3, 1, 2]


def test_an_index_with_a_meaning_is_a_column() -> None:
    frame = pd.DataFrame({"n": [1]}, index=pd.Index(["x"], name="n"))
    assert [column["name"] for column in ResultTable(frame, masked).columns()] == ["n", "n"]
    filtered = pd.DataFrame({"n": [1, 2, 3]}).iloc[[2, 0]]
    assert [column["name"] for column in ResultTable(filtered, masked).columns()] == ["n"]


def test_a_table_is_downloaded_in_every_format(table: ResultTable) -> None:
    query, columns = (
        query_of({"columns": {"0": "> 3"}, "sort": {"column": 0, "isDown": True}}),
        [3, 0, 5],
    )
    read = pd.read_csv(io.BytesIO(table.download(query, columns, "csv")))
    assert read.columns.tolist() == ["town", "id", "tags"]
    assert read["id"].tolist() == [9, 7, 4]
    rows = json.loads(table.download(query, columns, "json"))
    assert rows[1] == {"town": "Wien", "id": 7, "tags": ["a", "b"]}
    parquet = pd.read_parquet(io.BytesIO(table.download(query, columns, "parquet")))
    assert parquet["town"].tolist() == ["wien west", "Wien", "=Graz"]
    with pytest.raises(UsageProblem, match="cannot be saved as 'exe'"):
        table.download(query, columns, "exe")


def test_columns_of_one_name_are_all_downloaded() -> None:
    table = ResultTable(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "a_2"]), masked)
    assert json.loads(table.download(TableQuery(), [0, 1, 2], "json")) == [
        {"a": 1, "a_2": 2, "a_2_2": 3}
    ]
    assert table.download(TableQuery(), [0, 1, 2], "csv").decode() == "a,a,a_2\r\n1,2,3\r\n"


def test_dates_of_a_frame_and_mixed_columns_are_downloaded() -> None:
    frame = pd.DataFrame({"at": [pd.Timestamp("2024-01-02 03:04")], "mixed": [{"a": 1}]})
    frame.loc[1] = [pd.NaT, "text"]
    table = ResultTable(frame, masked)
    assert table.page(TableQuery(), ALL)["rows"][0][1] == "2024-01-02 03:04:00"
    assert (
        pd.read_parquet(io.BytesIO(table.download(TableQuery(), [0, 1], "parquet")))["mixed"][1]
        == "text"
    )
    assert json.loads(table.download(TableQuery(), [0, 1], "json"))[1] == {
        "at": None,
        "mixed": "text",
    }


def test_a_spreadsheet_runs_no_text_of_a_csv_file() -> None:
    """A cell that begins with =, +, -, @, a tab or a line break gets a quote before it; numbers
    stay numbers."""
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "a=1", "", None]
    table = ResultTable(
        [{"=t": text, "n": -5, "mixed": -1 if text else "-x"} for text in texts], masked
    )

    rows = list(
        csv.reader(io.StringIO(table.download(TableQuery(), [0, 1, 2], "csv").decode(), newline=""))
    )

    assert rows[0] == ["'=t", "n", "mixed"]
    assert [row[0] for row in rows[1:]] == [
        *(f"'{text}" for text in texts[:7] if text),
        "a=1",
        "",
        "",
    ]
    assert {row[1] for row in rows[1:]} == {"-5"}
    assert [row[2] for row in rows[1:]] == [*["-1"] * 8, "'-x", "'-x"]
    assert [row["=t"] for row in json.loads(table.download(TableQuery(), [0, 1], "json"))] == texts


def test_half_a_character_is_written_out() -> None:
    table = ResultTable([{"a": "x\ud800", "\udfff": 1}], masked)

    assert table.page(TableQuery(), ALL)["rows"][0] == [0, "x\\ud800", "1"]
    assert [len(table.download(TableQuery(), [0, 1], kind)) > 10 for kind in FORMATS] == [True] * 4


def test_rows_that_share_no_key_make_no_table() -> None:
    """A table of n x n cells would take all memory; see base/values.py."""
    with pytest.raises(UsageProblem, match="too many different keys for a table"):
        ResultTable([{f"k{number}": 1} for number in range(20_000)], masked)


@pytest.mark.parametrize("kind", ["csv", "xlsx", "json", "parquet"])
def test_no_secret_leaves_by_any_way(kind: str) -> None:
    table = ResultTable([{f"k {SECRET}": f"v {SECRET}", "deep": {"x": [SECRET]}}], masked)
    out = table.download(TableQuery(), [0, 1], kind)
    if kind == "xlsx":
        out = b"".join(
            zipfile.ZipFile(io.BytesIO(out)).read(name)
            for name in zipfile.ZipFile(io.BytesIO(out)).namelist()
        )
    assert SECRET.encode() not in out
    answers = [table.page(TableQuery(), ALL), *(table.summary(TableQuery(), at) for at in (0, 1))]
    shown = json.dumps([*answers, table.values(TableQuery(), 0), table.values(TableQuery(), 1)])
    assert SECRET not in shown + table.copied(TableQuery(), 0, 0, [0, 1], has_names=True)


def chosen(table: ResultTable, column: int, *texts: str, **query: Any) -> dict[str, Any]:
    """A query with some values of a column chosen by their texts."""
    numbers = {item["text"]: item["id"] for item in table.values(TableQuery(), column)["items"]}
    return {**query, "choices": {str(column): [numbers[text] for text in texts]}}


def test_the_values_of_a_column_are_counted_and_chosen() -> None:
    table = ResultTable(
        [{"town": town, "n": n} for n, town in enumerate(["Wien", "Linz", None, "Wien", "wien"])],
        masked,
    )

    items = table.values(TableQuery(), 0)["items"]
    assert [(item["text"], item["count"]) for item in items] == [
        ("Wien", 2),
        ("", 1),
        ("Linz", 1),
        ("wien", 1),
    ]
    assert [item["text"] for item in table.values(TableQuery(), 0, "WIE")["items"]] == [
        "Wien",
        "wien",
    ]
    assert found(table, **chosen(table, 0, "Wien", "")) == [0, 2, 3]
    query = query_of(chosen(table, 0, "Wien", columns={"1": "> 0"}))
    assert table.values(query, 0)["total"] == 4, (
        "what is not chosen can still be chosen, by the other filters"
    )
    assert [item["text"] for item in table.values(query, 1)["items"]] == ["3"]
    assert table.summary(query, 0)["distinct"] == 1


def test_nested_cells_have_values_too(table: ResultTable) -> None:
    items = table.values(TableQuery(), 5)["items"]
    assert [item["count"] for item in items] == [1, 1, 1, 1]
    assert found(table, choices={"5": [items[1]["id"]]}) == [0]


NUMBERS = pd.Series([1.5, 2.25, 2.5, 1000.0, -3.0, 999.999, float("nan")])
DAYS = pd.Series(
    pd.to_datetime(
        ["2024-01-01", "2024-01-01 00:01", "2024-02-05 23:59:59", None], format="ISO8601"
    )
)


@pytest.mark.parametrize(
    "cells",
    [
        NUMBERS,
        pd.Series(range(97)),
        pd.Series([5, 5]),
        pd.Series([0.1 + 0.2, 0.3]),
        pd.Series([1e-9, 3e-9]),
        DAYS,
        DAYS.dt.normalize(),
        pd.Series(pd.date_range("1999-12-31", periods=50, freq="YS")),
        pd.Series(pd.date_range("2024-03-30 22:00", periods=30, freq="h", tz="Europe/Vienna")),
    ],
    ids=lambda cells: f"{cells.dtype}-{len(cells)}",
)
def test_a_bar_of_the_summary_is_a_condition_that_finds_its_rows(cells: pd.Series) -> None:
    table = ResultTable(cells.to_frame("c"), masked)
    about = table.summary(TableQuery(), 0)
    assert 1 <= len(about["bars"]) <= 18
    assert sum(about["bars"]) == cells.notna().sum()
    for count, condition in zip(about["bars"], about["ranges"], strict=True):
        assert len(found(table, columns={"0": condition})) == count, condition


def test_numbers_have_a_mean_a_median_and_a_deviation() -> None:
    about = ResultTable([{"n": 2}, {"n": 4}, {"n": 9}, {"n": None}], masked).summary(
        TableQuery(), 0
    )
    assert (about["mean"], about["median"], about["std"]) == ("5.00", "4.00", "3.61")
    assert (about["missing"], about["rows"]) == (1, 4)


@pytest.mark.parametrize(
    ("cells", "mean"),
    [([1.25, 2.5], "1.88"), ([0, 0, 1], "0.333"), ([1e-9, 3e-9], "2e-09"), ([0, 0], "0.00")],
    ids=["as many decimals as the cells", "whole numbers", "tiny", "zero"],
)
def test_figures_have_the_decimals_of_their_column(cells: list[float], mean: str) -> None:
    table = ResultTable([{"n": cell} for cell in cells], masked)
    assert table.summary(TableQuery(), 0)["mean"] == mean


def test_rows_have_the_labels_of_pandas() -> None:
    frame = pd.DataFrame({"n": [1, 2, 3]}, index=[30, 10, 20])
    assert found(ResultTable(frame, masked), sort={"column": 0, "isDown": True}) == [20, 10, 30]
    assert found(ResultTable(frame, masked), columns={"0": "> 1"}) == [10, 20]
    dated = pd.DataFrame({"d": ["2024-01-01", "2025-01-01"]}, index=[7, 5])
    assert found(ResultTable(dated, masked), columns={"0": "> 2024-06"}) == [5]


def test_an_excel_sheet_has_types_and_runs_no_text() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "at": [pd.Timestamp("2024-01-02 03:04"), pd.NaT],
            "zone": pd.to_datetime(["2024-01-02", "2024-01-03"], utc=True),
            "text": ["=1+1", "a\x01b"],
            "deep": [{"a": 1}, float("inf")],
        }
    )
    sheet = openpyxl.load_workbook(
        io.BytesIO(ResultTable(frame, masked).download(TableQuery(), [0, 1, 2, 3, 4], "xlsx"))
    )
    rows = [[cell.value for cell in row] for row in sheet["Result"].iter_rows()]
    assert rows[0] == ["n", "at", "zone", "text", "deep"]
    assert rows[1][:2] == [1, pd.Timestamp("2024-01-02 03:04")]
    assert sheet["Result"]["D2"].data_type == "s"
    assert (rows[1][3], rows[2][3]) == ("=1+1", "ab")
    assert '"a": 1' in rows[1][4]
    assert rows[2][1] is None


def test_names_of_columns_are_copied_on_request(table: ResultTable) -> None:
    assert table.copied(TableQuery(), 0, 0, [0, 3], has_names=True) == "id\ttown\n7\tWien"
