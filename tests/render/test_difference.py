"""What changed, in words and as a table with only the changes; the comparison itself is `core/test_difference.py`."""

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
        (ROWS[:1], [{**ROWS[0], **dict.fromkeys("abcd", 1)}], "1 a, 1 b, 1 c and 1 other column changed: 0 a 0 → 1"),
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


def test_a_page_has_only_the_first_of_many_changes() -> None:
    difference = Difference(compare(ROWS, [{**row, "a": 1} for row in ROWS]))
    page = difference._repr_html_()

    assert str(difference).endswith("; 197 more")
    assert page.count("<tr>") == 101
    assert "and 100 more rows" in page
    assert len(difference) == 200
