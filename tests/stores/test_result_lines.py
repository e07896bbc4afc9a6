"""What becomes a line: the table of `results_rows`, row by row, and that nothing at all breaks
it."""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from onetool_ipy.base.values import to_json
from onetool_ipy.stores.result_lines import form_of, pieces, value_of
from tests.stores.results_aids import lines, open_results


class Point(NamedTuple):
    x: int
    y: int


class Failing:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class FailingMap(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise OSError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def stored(value: Any) -> list[str]:
    """All lines of a value, without a store."""
    data = b"".join(
        piece.encode("utf-8") if isinstance(piece, str) else piece for piece in pieces(value)
    )
    return data.decode("utf-8").removesuffix("\n").split("\n") if data else []


CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)

ONE_LINE_PER_ITEM = {
    "list": ([1, "a\nb", None, {"k": [1, 2]}], ["1", '"a\\nb"', "null", '{"k":[1,2]}']),
    "tuple": ((1, 2), ["1", "2"]),
    "set": ({3, 1}, ["1", "3"]),
    "deque": (collections.deque([1]), ["1"]),
    "range": (range(10**12), ['"range(0, 1000000000000)"']),
    "keys": ({"a": 1}.keys(), ['"a"']),
    "items": ({"a": 1}.items(), ['["a",1]']),
    "empty": ([], []),
    "NaN": ([math.nan, math.inf], ["null", "null"]),
    "not JSON": (
        [{1, 2}, b"x", date(2026, 1, 2)],
        ["[1,2]", '{"base64":"eA==","size":1}', '"2026-01-02"'],
    ),
    "wide": (["é\u2028😀"], ['"é\u2028😀"']),
    "surrogate": (["\ud800"], ['"\\\\ud800"']),
    "big integer": ([10**30], ["1000000000000000000000000000000"]),
    "other keys": ([{1: "a", None: "b"}], ['{"1":"a","null":"b"}']),
    "named tuple": ([Point(1, 2)], ['{"x":1,"y":2}']),
    "numpy": ([np.float64(1.5), np.int32(2)], ["1.5", "2"]),
    "failing repr": ([Failing(), 1], ['"<Failing object, repr failed>"', "1"]),
    "array": (np.array([[1, 2], [3, 4]]), ["[1,2]", "[3,4]"]),
    "series": (pd.Series([1.5, None]), ["1.5", "null"]),
    "cycle": (CYCLE, ["1", '[1,"<cycle>"]']),
    "scalar": (42, ["42"]),
    "nothing": (None, ["null"]),
    "failing object": (Failing(), ['"<Failing object, repr failed>"']),
}


@pytest.mark.parametrize(
    ("value", "expected"), ONE_LINE_PER_ITEM.values(), ids=ONE_LINE_PER_ITEM.keys()
)
def test_items_are_lines_of_json(value: Any, expected: list[str]) -> None:
    assert stored(value) == expected


def test_mapping_is_one_json_text_with_a_record_per_line() -> None:
    value = {
        "count": 2,
        "data": {"items": [{"id": 1}, {"id": 2}], "none": [], "more": {}},
        3: (1, [2]),
    }

    assert stored(value) == [
        "{",
        '  "count": 2,',
        '  "data": {',
        '    "items": [',
        '      {"id":1},',
        '      {"id":2}',
        "    ],",
        '    "none": [],',
        '    "more": {}',
        "  },",
        '  "3": [',
        "    1,",
        "    [2]",
        "  ]",
        "}",
    ]
    assert json.loads("\n".join(stored(value))) == to_json(value)


def test_mapping_with_keys_of_one_text_loses_no_value() -> None:
    assert stored({1: "a", "1": {True: 2, "true": 3}}) == [
        "{",
        '  "1 (int)": "a",',
        '  "1": {',
        '    "true (bool)": 2,',
        '    "true": 3',
        "  }",
        "}",
    ]


def test_mapping_that_holds_itself_ends() -> None:
    value: dict[str, Any] = {"a": 1}
    value["self"] = value
    value["list"] = [value, value]
    deep: dict[str, Any] = {}
    for _ in range(1_000):
        deep = {"in": deep}

    for one in (value, deep):
        json.loads("\n".join(stored(one)))


def test_iterator_is_not_used_up(tmp_path: Path) -> None:
    """Storing never changes what Python gets."""
    numbers = iter([1, 2])
    with (tmp_path / "file").open("w+") as file:
        file.write("a\nb\n")
        file.seek(0)

        (first,), (second,) = stored(numbers), stored(file)

        assert list(numbers) == [1, 2]
        assert file.read() == "a\nb\n"
    assert "list_iterator" in first
    assert "TextIOWrapper" in second


def test_object_that_fails_on_the_way_costs_only_its_own_rest() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    class Items(list[int]):
        def __iter__(self) -> Iterator[int]:
            return failing()

    assert stored(Items([1]))[-1] == "\"<Items, reading failed: OSError('no more')>\""
    assert "reading failed" in stored(FailingMap())[-1]


def test_bytes_are_their_text_and_what_is_none_is_written_out(tmp_path: Path) -> None:
    results = open_results(tmp_path)

    assert lines(results, results.put(b"a\r\n\xff\x00\nb")) == ["a", "\\xff\x00", "b"]
    assert lines(results, results.put(bytearray("é\n".encode()))) == ["é"]
    assert lines(results, results.put(memoryview(b"abc")[::2])) == ["ac"]


def test_bytes_are_decoded_over_the_borders_of_pieces(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    text = "€" * 200_000

    handle = results.put(text.encode())

    assert (results.folder / f"{handle}.txt").read_bytes().startswith(text.encode())


def frame() -> pd.DataFrame:
    """Every kind of column that has its own road, and those that have none."""
    return pd.DataFrame(
        {
            "int": [1, 2, 3],
            "float": [0.1, math.nan, math.inf],
            "bool": [True, False, True],
            "str": ['a","b', "é\n\\", "\x00,"],
            "some": ["x", None, "z"],
            "object": [{"k": [1]}, b"x", {1, 2}],
            "surrogate": pd.Series(["a", "\ud800", "c"], dtype=object),
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "category": pd.Categorical(["x", None, "y"]),
            "day": pd.to_datetime(
                ["2026-01-01 00:00:00", None, "2026-01-02 03:04:05.678"], format="ISO8601"
            ),
            "nano": pd.to_datetime(["2026-01-01T00:00:00.123456789"] * 3),
            "zone": pd.to_datetime(["2026-01-01", None, "2026-07-01"]).tz_localize("Europe/Berlin"),
            "far": np.array(["0001-01-01", "12026-01-01", "2026-01-01"], dtype="M8[s]"),
            "delta": pd.to_timedelta(["1s", None, "1D"]),
            "complex": [1j, 2j, 3j],
            "big": [10**30, 1, -1],
            "date": [date(2026, 1, 1), None, datetime(2026, 1, 1, tzinfo=UTC)],
        }
    )


def test_frame_is_a_line_per_row_by_the_table() -> None:
    value = frame()

    rows = [json.loads(line) for line in stored(value)]

    assert rows == to_json(value)
    assert rows[0]["zone"] == "2026-01-01T00:00:00+01:00"
    assert rows[2]["zone"] == "2026-07-01T00:00:00+02:00"
    assert rows[0]["nano"].endswith(".123456789")


def test_frame_of_many_parts_loses_no_row() -> None:
    value = pd.DataFrame({"n": range(12_345), "s": [f"s{number}" for number in range(12_345)]})

    found = stored(value)

    assert found == [f'{{"n":{number},"s":"s{number}"}}' for number in range(12_345)]


def test_odd_column_names_are_text_and_none_is_lost() -> None:
    columns = ["<script>", "a", "a", "a.1", "%s", '"', "", "\ud800", ("x", 1), 5, None, "é\n"]
    value = pd.DataFrame([range(len(columns))], columns=pd.Index(columns, dtype=object))

    (line,) = stored(value)

    expected = [
        "<script>",
        "a",
        "a.1",
        "a.1.1",
        "%s",
        '"',
        "",
        "\\ud800",
        '["x", 1]',
        "5",
        "null",
        "é\n",
    ]
    assert json.loads(line) == {name: number for number, name in enumerate(expected)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pd.DataFrame(), []),
        (pd.DataFrame({"a": []}), []),
        (pd.DataFrame(index=[1, 2]), ["{}", "{}"]),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            ['{"[\\"a\\", \\"b\\"]":1}'],
        ),
    ],
    ids=["nothing", "no rows", "no columns", "two levels"],
)
def test_odd_frames(value: Any, expected: list[str]) -> None:
    assert stored(value) == expected


def read_again(value: Any) -> Any:
    text = b"".join(
        part if isinstance(part, bytes) else part.encode() for part in pieces(value)
    ).decode()
    return value_of(text, json.loads(json.dumps(form_of(value))))


@pytest.mark.parametrize(
    "value",
    [
        "two\nlines\n",
        "",
        [],
        [1, "a", None, {"b": [2]}],
        ["one"],
        {"a": {"b": 1}, "c": []},
        {},
        5,
        2.5,
        None,
        True,
    ],
    ids=repr,
)
def test_value_is_read_again_from_its_lines(value: Any) -> None:
    assert read_again(value) == value


def test_frame_is_read_again_with_the_types_of_its_columns() -> None:
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime(["2024-02-17T19:33:00", None]),
            "there": pd.to_datetime(["2024-02-17T19:33:00+01:00", None], utc=True).tz_convert(
                "Europe/Vienna"
            ),
            "pieces": [3, 4],
            "gaps": pd.array([1, None], dtype="Int64"),
            "price": [2.0, None],
            "paid": [True, False],
            "town": pd.Categorical(["Wien", "Linz"]),
            "name": ["Ada", None],
            "nested": [{"a": 1}, [2]],
        }
    )
    pd.testing.assert_frame_equal(read_again(frame), frame)
    pd.testing.assert_series_equal(read_again(frame["when"]), frame["when"], check_names=False)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_duration_is_read_again_as_long_as_it_was(unit: Any) -> None:
    """It is written in seconds, and its type has another unit: a day was read as 86 ms."""
    durations = pd.Series(pd.to_timedelta(["1 days", "00:00:02", "-1 days", None])).dt.as_unit(unit)

    pd.testing.assert_frame_equal(
        read_again(durations.to_frame("took")), durations.to_frame("took")
    )
    pd.testing.assert_series_equal(read_again(durations), durations)
    parts = pd.Series(pd.to_timedelta([1, 10**15 + 1], unit="ns"))
    pd.testing.assert_series_equal(read_again(parts), parts)


def test_a_table_without_rows_keeps_its_columns() -> None:
    frame = pd.DataFrame({"id": [1], "when": pd.to_datetime(["2024"]), "town": ["Wien"]})[:0]

    again = read_again(frame)

    assert again.dtypes.to_dict() == frame.dtypes.to_dict()
    assert len(again) == 0


def test_what_text_does_not_become_again_stays_text() -> None:
    frame = pd.DataFrame({"span": pd.interval_range(0, 2), "n": [1, 2]})
    again = read_again(frame)
    assert list(again.columns) == ["span", "n"]
    assert again["n"].dtype == "int64"
    assert isinstance(again["span"][0], str)


def test_hidden_number_does_not_break_what_is_read() -> None:
    """A mask may hide digits, so that a line is no longer JSON."""
    assert value_of('{"a": ***}\n', {"form": "json"}) == ['{"a": ***}']
    assert value_of("1\n***\n", {"form": "list"}) == [1, "***"]
    assert value_of("a\nb\n", {}) == ["a", "b"]
