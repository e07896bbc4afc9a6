"""What a cell shows of a result: numbers set right, lines whole."""

from __future__ import annotations

import pytest

from onetool_ipy.render.result import DisplayLimits, show
from tests.harness.tables import KINDS, NAMED


def test_columns_of_numbers_are_set_right_in_text_and_html() -> None:
    rows = [{"name": "a", "n": 1, "share": 0.5}, {"name": "bb", "n": 100, "share": None}]
    shown = show(rows, DisplayLimits())
    assert shown.text.splitlines() == ["name    n  share", "a       1    0.5", "bb    100"]
    assert shown.html.count("text-align:right") == 2 * 3


def test_a_column_of_truths_or_of_texts_is_set_left() -> None:
    assert (
        "text-align:right"
        not in show([{"ok": True, "text": "1"}, {"ok": False, "text": "22"}], DisplayLimits()).html
    )


def test_text_that_utf8_cannot_hold_is_written_out() -> None:
    shown = show("\ud800", DisplayLimits())
    assert shown.text.encode() == b"\\ud800"
    assert shown.html.encode()


def test_a_number_longer_than_python_prints_is_shown() -> None:
    assert show(10**5000, DisplayLimits()).text == hex(10**5000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_any_kind_is_shown_by_its_first_rows(kind: str) -> None:
    rows = [{"id": number, "name": f"n{number}"} for number in range(100)]

    shown = show(KINDS[kind](rows), DisplayLimits(rows=3))

    assert shown.cut == "3 of 100 rows"
    head, *lines = shown.text.split("\n")
    assert ("name" if kind in NAMED else "1") in head.split()
    assert [line.split()[-1] for line in lines] == ["n0", "n1", "n2"]
    assert shown.html.count("<tr") == 4
