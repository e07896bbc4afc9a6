"""Plots: an axis whose numbers differ, and words that agree with their numbers."""

from __future__ import annotations

import re

import pytest

from onetool_ipy.render.report import Bar, columns, lines
from onetool_ipy.render.views import counted


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0.088, ["0", "0.044", "0.088"]),
        (0.004, ["0", "0.002", "0.004"]),
        (1.5, ["0.0", "0.8", "1.5"]),
        (2.0, ["0", "1", "2"]),
        (3.0, ["0.0", "1.5", "3.0"]),
        (34.0, ["0", "17", "34"]),
        (12_000.0, ["0", "6,000", "12,000"]),
    ],
)
def test_an_axis_tells_its_numbers_apart(top: float, ticks: list[str]) -> None:
    drawn = lines(["a"], [("x", [top])], title="t", unit="ms")
    assert re.findall(r'class="tick"[^>]*>([^<]*) ms</text>', drawn) == ticks


def test_one_of_a_thing_has_no_s() -> None:
    assert [counted(n, "call") for n in (0, 1, 2, 1_000)] == ["0 calls", "1 call", "2 calls", "1,000 calls"]
    assert "mon: 1 call, 0 failed" in columns([Bar("mon", 1)], title="t")
