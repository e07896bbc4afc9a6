"""Kept values come back equal, in value and in type; what could not is refused."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
import sys
import uuid
import zoneinfo
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.stores.encoding import NotEncodable, decode, encode

ROME = zoneinfo.ZoneInfo("Europe/Rome")
FRAME = pd.DataFrame(
    {
        "int": [1, 2, 3],
        "str": ["x", None, "z"],
        "float": [1.5, float("nan"), 2],
        "time": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
        "zoned": pd.date_range("2024", periods=3, tz="Europe/Berlin"),
        "category": pd.Categorical(["u", "v", "u"], ordered=True),
        "bool": [True, False, True],
        "nullable": pd.array([1, None, 3], dtype="Int64"),
        "delta": pd.to_timedelta([1, 2, 3], unit="s"),
    },
    index=pd.date_range("2024-01-01", periods=3, name="day"),
)
VALUES: list[Any] = [
    None, True, 1, 2**200, 1.5, float("inf"), "text", "ä\n ", b"\x00\xff", (1, (2,)), {1, "a"},
    {1: "a", (1, 2): "b"}, {"$type": "mine"},
    {"a": [1, {"b": None}]},
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - without a zone
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=ROME, fold=1), datetime.date(2026, 1, 2), datetime.time(1, 2),
    datetime.timedelta(-1, 2, 3), decimal.Decimal("1.10"), uuid.UUID(int=5), pathlib.Path("a/b"),
    np.int64(3), np.float32(1.5), np.bool_(True), np.arange(6).reshape(2, 3), np.arange(5000.0), np.array(["a", "bb"]),
    np.array(["2020", "NaT"], dtype="M8[D]"), np.zeros(1, dtype=[("a", "i4")]),
    pd.Timestamp("2024-01-01T00:00:00.123456789"), pd.Timestamp("2024", tz="Asia/Tokyo"), pd.NaT, pd.NA,
    pd.Timedelta(5, "s"), FRAME, FRAME["str"], pd.DataFrame(), pd.Series([1], name=("a", 1)),
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [0.1 + 0.2]}), FRAME.set_index(["int", "str"]),
    pd.Series(pd.period_range("2020", periods=2)), pd.DataFrame({"a": [1]}, pd.period_range("2020", periods=1)),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    back = decode(json.loads(json.dumps(encode(value))))

    assert type(back) is type(value)
    if isinstance(value, pd.DataFrame):
        pd.testing.assert_frame_equal(back, value, check_exact=True, check_freq=False)
    elif isinstance(value, pd.Series):
        pd.testing.assert_series_equal(back, value, check_exact=True, check_freq=False)
    elif isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        np.testing.assert_array_equal(back, value)
    else:
        assert back is value or back == value
    is_moment = isinstance(value, datetime.datetime) and value is not pd.NaT
    if is_moment and not isinstance(value, pd.Timestamp):
        assert (back.tzinfo, back.fold) == (value.tzinfo, value.fold)


def test_table_is_json_where_that_changes_nothing() -> None:
    """So that a person can read it, and secrets in it are masked; other tables are Parquet."""
    readable, exact = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [0.1 + 0.2]})

    assert encode(readable)["table"]["data"] == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert list(encode(exact)) == ["$type", "parquet"]


def test_table_that_needs_parquet_is_refused_without_pyarrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(NotEncodable, match="Parquet needs pyarrow"):
        encode(pd.DataFrame({"a": [0.1 + 0.2]}))

    assert "table" in encode(pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [-0.0, 1.0]}),
        pd.DataFrame({"a": [decimal.Decimal("1.1"), decimal.Decimal("2")]}),
        pd.DataFrame({"a": [decimal.Decimal("1.1"), decimal.Decimal("1.10")]}),
        pd.DataFrame({"a": [7]}),
        pd.DataFrame({"a": [7, 8]}, index=pd.Index([0, 1])),
        pd.DataFrame({"a": range(9)})[1::2],
        pd.DataFrame({"a": [7]}, index=pd.RangeIndex(1, name="n")),
    ],
    ids=[
        "minus zero",
        "decimals",
        "decimals that are equal",
        "one row",
        "numbers as index",
        "every other row",
        "range with a name",
    ],
)
def test_a_table_is_the_same_to_the_last_sign_and_in_its_index(frame: pd.DataFrame) -> None:
    """pandas compares none of these. A view shows an index that is no count of rows."""
    try:
        back = decode(json.loads(json.dumps(encode(frame))))
    except NotEncodable:
        assert isinstance(frame["a"][0], decimal.Decimal)
        return

    assert [*map(str, back["a"])] == [*map(str, frame["a"])]
    assert repr(back.index) == repr(frame.index)


def test_what_a_table_says_about_itself_is_kept() -> None:
    """`attrs` of a table are part of what a tool gave, such as the tool of an `ot.map`."""
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["source"] = {"year": 2024, "of": (1, 2)}

    assert decode(json.loads(json.dumps(encode(frame)))).attrs == frame.attrs


@pytest.mark.parametrize("kind", [datetime.datetime.fromisoformat, lambda text: datetime.time(2)])
def test_the_second_time_of_an_hour_is_kept(kind: Any) -> None:
    moment = kind("2026-10-25T02:30").replace(fold=1)

    assert decode(json.loads(json.dumps(encode(moment)))).fold == 1


def _endless() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


class Own:
    """A class that nobody can know when it is read back."""


@pytest.mark.parametrize(
    "value",
    [object(), Own(), bytearray(b"x"), frozenset({1}), deque([1]), 1 + 2j,
     (n for n in ()), _endless(), defaultdict(int), type("Text", (str,), {})("x"), len, Own,
     [1, {"a": Own()}], 2**20_000, "\ud800", np.array([None, {"a": 1}], dtype=object), FRAME.index,
     pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame({"a": [[1], {"b": (1, 2)}, None]})],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_could_not_come_back_is_refused(value: Any) -> None:
    with pytest.raises(NotEncodable):
        encode(value)


@pytest.mark.parametrize(
    "data",
    [{"$type": "os.system"}, {"$type": "bytes", "value": "%"}, {"$type": "UUID", "value": 1}],
)
def test_a_form_that_nobody_wrote_is_an_error_and_runs_nothing(data: Any) -> None:
    with pytest.raises(NotEncodable):
        decode(data)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(TEXT | st.integers(), inner) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(PLAIN)
def test_any_plain_value_comes_back(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value
