"""What a model is told of a value: at most 4 kB, three rows, nothing secret, whatever the value
does."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
import pytest
from pydantic import BaseModel

from onetool_ipy.llm.description import MAX_BYTES, describe, outline
from onetool_ipy.render.media import Image
from tests.harness.tables import FOREIGN

SECRET = "sk-live-0123456789abcdef"


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


def customers(count: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(count),
            "name": [f"person-{number}" for number in range(count)],
            "country": ["PE" if number % 3 else "NO" for number in range(count)],
            "debt": [None if number % 10 == 0 else float(number) for number in range(count)],
            "since": pd.date_range("2020-01-01", periods=count, freq="D"),
        }
    )


def test_rule_12_a_table_gives_shape_types_missing_range_and_frequent_values() -> None:
    description = describe(customers(1000))

    lines = description.data.splitlines()
    assert lines[0] == "DataFrame with 1,000 rows and 5 columns"
    assert lines[2:7] == [
        "- id: int64, 0 to 999",
        "- name: str",
        '- country: str, often ["PE", "NO"]',
        "- debt: float64, 100 missing, 1.0 to 999.0",
        "- since: datetime64[us], 2020-01-01 00:00:00 to 2022-09-26 00:00:00",
    ]
    assert lines[7] == "first 3 of 1,000 rows:"
    assert json.loads(lines[8]) == [0, "person-0", "NO", None, "2020-01-01 00:00:00"]
    assert len(lines) == 11
    assert (description.extent, description.is_whole) == ("3 of 1,000 rows", False)


def test_rule_12_no_fourth_row_can_be_read() -> None:
    """The values of a column that differ from row to row are told for three rows only."""
    frame = customers(1000).sample(frac=1, random_state=7)

    text = describe(frame).data

    told = [name for name in frame["name"] if f'"{name}"' in text]
    assert told == frame["name"].tolist()[:3]


def test_rule_12_at_most_five_values_of_a_column_are_told() -> None:
    frame = pd.DataFrame({"kind": [f"kind-{number % 40}" for number in range(4000)]})

    (line,) = [line for line in describe(frame).data.splitlines() if line.startswith("- kind")]

    assert line.count("kind-") == 5


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(np.zeros((5, 10_000))),
        pd.DataFrame(
            [[f"a{'x' * 5000}"] * 50] * 5, columns=[f"column {'y' * 300} {n}" for n in range(50)]
        ),
        pd.DataFrame({f"ü{n}": ["ä" * 200] * 9 for n in range(200)}),
        pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
        pd.DataFrame({"odd": [[1], {"a": 2}, {3}, None, object()]}),
        pd.DataFrame({"odd": [complex(1, 2), None, np.nan, pd.NA, 1 << 100]}, dtype=object),
        pd.DataFrame(
            {
                "p": pd.period_range("2020", periods=4, freq="M"),
                "t": pd.to_timedelta([1, 2, None, 4]),
            }
        ),
        pd.DataFrame(
            {"i": pd.array([1, None, 3], dtype="Int64"), "c": pd.Categorical(["a", None, "a"])}
        ),
        pd.DataFrame(
            {
                "s": pd.arrays.SparseArray([0, 0, 1]),
                "tz": pd.date_range("2020", periods=3, tz="UTC"),
            }
        ),
        pd.DataFrame(
            {"v": pd.interval_range(0, 3)},
            index=pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "c")]),
        ),
        pd.DataFrame({("a", 1): [1], ("a", 2): [2]}),
        pd.DataFrame({"n": [np.nan] * 4, "inf": [np.inf, -np.inf, 0, 1]}),
        pd.DataFrame({"half": pd.Series(["\ud800"] * 4, dtype=object)}),
        pd.DataFrame(),
        pd.DataFrame(index=range(5)),
        pd.DataFrame({"a": []}),
        pd.Series([1, None, 3], name="n"),
        pd.Series(["x"] * 9, index=list("abcdefghi")),
    ],
    ids=lambda frame: f"{type(frame).__name__}-{frame.shape}",
)
def test_rule_12_an_odd_table_is_described_in_4_kb(frame: Any) -> None:
    description = describe(frame)

    assert description.size <= MAX_BYTES
    assert description.data.startswith(type(frame).__name__)
    assert f"of {len(frame):,} rows" in description.extent


def test_rule_12_ten_thousand_columns_are_counted() -> None:
    text = describe(pd.DataFrame(np.zeros((5, 10_000)))).data

    listed = text.count("float64")
    assert listed > 50
    assert f"and {10_000 - listed:,} more columns" in text


class Own:
    def _repr_llm_(self) -> object:
        return {"own": True}


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def _repr_llm_(self) -> object:
        raise RuntimeError("no description")


class Drawn:
    def _repr_png_(self) -> bytes:
        return b"\x89PNG\r\n\x1a\n drawn"


@dataclass
class Point:
    x: int
    at: datetime


class City(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": [1, None]}, {"a": [1, None]}),
        (["Lima", "Oslo"], ["Lima", "Oslo"]),
        ((1, 2.5), [1, 2.5]),
        (OrderedDict(a=1), {"a": 1}),
        ("short text", "short text"),
        (7, 7),
        (None, None),
        (True, True),
        (np.array([[1, 2], [3, 4]]), ["array of shape (2, 2), int64", [[1, 2], [3, 4]]]),
        (
            Point(1, datetime(2020, 1, 2, tzinfo=UTC)),
            {"type": "Point", "value": {"x": 1, "at": "2020-01-02T00:00:00+00:00"}},
        ),
        (City(name="Lima"), {"type": "City", "value": {"name": "Lima"}}),
        (Own(), {"own": True}),
        (Broken(), "Broken: <Broken object, repr failed>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rule_12_a_small_value_is_told_whole(value: object, data: object) -> None:
    description = describe(value)

    assert description.data == data
    assert description.is_whole


@pytest.mark.parametrize(
    ("value", "begin", "extent"),
    [
        (
            list(range(100_000)),
            "list with 100,000 items (int)\n- 0\n- 1\n- 2",
            "3 of 100,000 items",
        ),
        (
            [{"a": 1, "b": "x" * 50}] * 400,
            "list with 400 items (dict)\n- {'a': 1, 'b'",
            "3 of 400 items",
        ),
        ({n: "x" * n for n in range(5000)}, "dict with 5,000 keys\n- 0: str", "of 5,000 keys"),
        ("word " * 10_000, "word word", "of 50,000 characters"),
        (
            np.zeros((1000, 3)),
            "array of shape (1000, 3), float64, 0.0 to 0.0; first values [0.0,",
            "5 of 3,000 values",
        ),
        (
            np.array([np.nan] * 9000),
            "array of shape (9000,), float64, 9,000 NaN",
            "5 of 9,000 values",
        ),
        (bytes(5000), "5,000 bytes: b'", "40 of 5,000 bytes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rule_12_of_a_large_value_the_beginning_is_told(
    value: object, begin: str, extent: str
) -> None:
    description = describe(value)

    assert description.data.startswith(begin)
    assert extent in description.extent
    assert not description.is_whole
    assert description.size <= MAX_BYTES


def test_rule_12_a_function_is_told_by_its_source() -> None:
    assert "def customers(count: int)" in describe(customers).data
    assert "len" in describe(len).data


def test_rule_12_a_registered_describer_counts_for_subclasses_and_before_the_classs_own() -> None:
    class Child(Own):
        pass

    described: dict[type, Callable[[Any], object]] = {
        Own: lambda value: f"a {type(value).__name__}"
    }

    assert describe(Child(), describers=described).data == "a Child"
    assert describe(Own(), describers={Own: lambda value: 1 / 0}).data == {"own": True}
    assert describe(3, describers={int: lambda value: "x" * 9000}).size <= MAX_BYTES
    assert describe(3, describers={int: lambda value: ["x"] * 9000}).size <= MAX_BYTES
    assert describe(3, describers={int: lambda value: Image("image/png", b"p")}).images == (
        Image("image/png", b"p"),
    )


@pytest.mark.parametrize(
    "value", [Drawn(), Image("image/png", b"\x89PNG\r\n\x1a\n drawn"), b"\x89PNG\r\n\x1a\n drawn"]
)
def test_rule_13_what_is_a_picture_goes_as_one(value: object) -> None:
    description = describe(value)

    assert description.images == (Image("image/png", b"\x89PNG\r\n\x1a\n drawn"),)
    assert description.extent == "an image of 14 bytes"


@pytest.mark.parametrize("distance", [0, 20, 40, 55, 59, 3900, 4050, 4080])
@pytest.mark.parametrize(
    "hide",
    [
        lambda text: text,
        lambda text: [text, "x" * 9000],
        lambda text: {"key": text, text: 1, "more": "x" * 9000},
        lambda text: pd.DataFrame({"a": [text] * 9, text[-80:]: [{"inner": text}] * 9}),
        lambda text: np.array([text] * 4000, dtype=object),
        lambda text: type("Odd", (), {"__repr__": lambda self: text})(),
        lambda text: type("Odd", (), {"_repr_llm_": lambda self: text})(),
        lambda text: text.encode(),
    ],
    ids=["text", "list", "dict", "frame", "array", "repr", "own", "bytes"],
)
def test_rule_12_a_secret_is_masked_wherever_the_text_is_cut(
    hide: Callable[[str], object], distance: int
) -> None:
    description = describe(hide("." * distance + SECRET + "." * 9000), mask=mask)

    text = json.dumps(description.data)
    assert not any(SECRET[:length] in text for length in range(8, len(SECRET) + 1))
    assert description.size <= MAX_BYTES


def test_rule_12_the_outline_runs_no_code_of_the_value() -> None:
    assert outline(Broken()).data == "a value of type Broken"
    assert outline(customers(7)).data == "DataFrame with 7 rows and 5 columns"


@pytest.mark.parametrize("limit", [60, 200, 1000])
def test_rule_12_a_smaller_limit_holds(limit: int) -> None:
    for value in (
        customers(100),
        "x" * 5000,
        list(range(5000)),
        {n: n for n in range(5000)},
        np.zeros(5000),
    ):
        assert describe(value, limit=limit).size <= limit


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_table_of_any_library_is_described_as_one(kind: str) -> None:
    rows = [{"id": number, "name": f"person-{number}"} for number in range(5_000)]

    description = describe(FOREIGN[kind](rows))

    assert description.data.startswith("DataFrame with 5,000 rows")
    assert "0 to 4999" in description.data
    assert (description.extent, description.is_whole) == ("3 of 5,000 rows", False)
    assert "person-4" not in description.data


def test_few_tuples_go_whole_and_many_as_a_table() -> None:
    assert describe([(1, "a"), (2, "b")]).data == [[1, "a"], [2, "b"]]
    assert describe([(number, "a") for number in range(5_000)]).extent == "3 of 5,000 rows"
