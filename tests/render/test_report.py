"""Plots: an axis whose numbers differ, and words that agree with their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from onetool_ipy.render.report import Bar, axis_marks, bands, columns, plots, rows
from onetool_ipy.render.views import counted


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0.088, ["0", "0.05", "0.1"]),
        (0.004, ["0", "0.002", "0.004"]),
        (1.5, ["0", "0.5", "1", "1.5"]),
        (3.0, ["0", "1", "2", "3"]),
        (34.0, ["0", "20", "40"]),
        (39.0, ["0", "20", "40"]),
        (1_200.0, ["0", "500", "1,000", "1,500"]),
    ],
)
def test_an_axis_has_round_numbers(top: float, ticks: list[str]) -> None:
    drawn = bands([("a", 0.0, top)], title="t")
    assert re.findall(r'class="tick"[^>]*>([^<]*) ms</text>', drawn) == ticks


def test_long_latencies_are_in_seconds_and_counts_are_whole() -> None:
    assert re.findall(r"([^>]*) s</text>", bands([("a", 1.0, 12_000.0)], title="t")) == [
        "0",
        "5",
        "10",
        "15",
    ]
    assert axis_marks(1, is_whole=True) == [0, 1]
    assert axis_marks(2, is_whole=True) == [0, 1, 2]
    assert axis_marks(0) == [0, 1]


def _steps(count: int) -> list[dict[str, object]]:
    return [
        {"start": f"10:0{at}", "calls": 2, "failures": 1, "p50_ms": 1.0, "p95_ms": 3.0}
        for at in range(count)
    ]


def test_few_steps_make_no_curve_and_failures_are_a_table() -> None:
    """Young data: the latency of each tool; from five steps on a band over time. A message is
    escaped."""
    tools = [{"tool": "a.b", "calls": 9, "failures": 1, "avg_ms": 2.0, "p95_ms": 4.0}]
    failures = [
        {
            "message": "no <such> street",
            "tool": "a.b",
            "calls": 7,
            "last_called": "2026-01-01T00:00:00Z",
        }
    ]
    young, older = plots(tools, _steps(4), failures), plots(tools, _steps(5), failures)
    assert "Latency by tool" in young
    assert "2 / 4 ms" in young
    assert "Latency by tool" not in older
    assert older.count('class="p50"') == 5
    assert "circle" not in young + older
    assert "no &lt;such&gt; street" in young


@pytest.mark.parametrize("draw", [columns, rows])
def test_a_plot_of_no_calls_says_so(draw: Callable[..., str]) -> None:
    plot = draw([], title="Calls")

    assert "no calls yet" in plot
    assert "<rect" not in plot


def test_one_of_a_thing_has_no_s() -> None:
    assert [counted(n, "call") for n in (0, 1, 2, 1_000)] == [
        "0 calls",
        "1 call",
        "2 calls",
        "1,000 calls",
    ]
    assert "mon: 1 call, 0 failed" in columns([Bar("mon", 1)], title="t")
