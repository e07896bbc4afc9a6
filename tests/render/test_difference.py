"""What changed, in words and as a table with only the changes; the comparison itself is
`core/test_difference.py`."""

from __future__ import annotations

from typing import Any

import pytest

from onetool_ipy.core.difference import compare
from onetool_ipy.render.difference import Difference

ROWS = [{"id": number, **dict.fromkeys("abcd", 0)} for number in range(200)]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([{"id": 1}], [{"id": 1}], "No difference."),
        ([{"id": 1, "x": None}], [{"id": 1, "x": 0}], "1 x changed: 1 x nothing → 0"),
        (
            ROWS[:1],
            [{**ROWS[0], **dict.fromkeys("abcd", 1)}],
            "1 a, 1 b, 1 c and 1 other column changed: 0 a 0 → 1",
        ),
        ({"a": {"b": 1}}, {"a": {"b": 2}, "c": 1}, "1 value new, 1 value changed: a.b 1 → 2"),
        ("a\nb", "a\nc\nd", "2 lines new, 1 line gone"),
        ([{"id": 1, "x": 5}], [{"id": 1, "x": "5"}], "column 'x' was whole number, is text"),
        ([{"id": 1, "y": 5}], [{"id": 1, "z": 5}], "column 'y' is gone, column 'z' is new"),
    ],
    ids=["none", "cell", "columns", "data", "text", "type", "column"],
)
def test_what_changed_is_said(before: Any, after: Any, text: str) -> None:
    difference = Difference(compare(before, after))

    assert text in str(difference)
    assert bool(difference) is (text != "No difference.")


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": 1}, {"b": [2]}, ["1 value new, 1 value gone", "  new: b: [2]", "  gone: a: 1"]),
        ("a", "a\n", ["1 line new", '  new: line 2: ""']),
        (
            "a\r\nb",
            "a\nb",
            ["1 line new, 1 line gone", "  new: line 1: a", '  gone: line 1: "a\\r"'],
        ),
        (
            [{"id": 1}],
            [{"id": 1}, {"id": 2, "x": "5"}],
            ["1 row new, column 'x' is new", "  new: id=2 x=5"],
        ),
        (
            [0],
            [0, 1, 2, 3, 4, 5],
            [
                "5 values new",
                *(f"  new: [{place}]: {place}" for place in (1, 2, 3)),
                "  new: 2 more",
            ],
        ),
        ({"a": 5}, {"a": "5"}, ['1 value changed: a 5 → "5"']),
        ({"a": "x"}, {"a": "x "}, ['1 value changed: a "x" → "x "']),
        ({"a": None}, {}, ["1 value gone", "  gone: a: nothing"]),
        ({"a": ""}, {"a": None}, ['1 value changed: a "" → nothing']),
        ({"": 1, ".": 2}, {"": 2, ".": 1}, ['2 values changed: [""] 1 → 2; ["."] 2 → 1']),
        (
            {"a": "x" * 99 + "1"},
            {"a": "x" * 99 + "2"},
            ["1 value changed: a …xxxxxxxxxx1 → …xxxxxxxxxx2"],
        ),
        ({"n": 10**5000}, {"n": 1}, [f"1 value changed: n {hex(10**5000)[:37]}... → 1"]),
    ],
    ids=[
        "data",
        "line",
        "return",
        "row",
        "many",
        "type",
        "blank",
        "gone",
        "empty",
        "names",
        "long",
        "digits",
    ],
)
def test_what_is_new_or_gone_is_printed_and_two_values_never_look_the_same(
    before: Any, after: Any, lines: list[str]
) -> None:
    assert str(Difference(compare(before, after))).splitlines() == lines


def test_a_page_has_only_the_first_of_many_changes() -> None:
    difference = Difference(compare(ROWS, [{**row, "a": 1} for row in ROWS]))
    page = difference._repr_html_()

    assert str(difference).splitlines()[0].endswith("; 197 more")
    assert page.count("<tr>") == 101
    assert "and 100 more rows" in page
    assert len(difference) == 200
