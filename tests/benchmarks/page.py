"""What a run leaves: `docs/benchmarks.md` with its plots, a table in the README, and the figures of
both as JSON.

A module's figures are kept with the date and the machine until that module runs again, so that one
can be measured anew without the others. The page is always made from all the figures that are kept.
"""

from __future__ import annotations

import datetime
import html
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.benchmarks.timing import COLUMNS, cells, say
from tests.harness.surroundings import ROOT

__all__ = ["exponent", "keep", "machine", "write"]

_PAGE = ROOT / "docs" / "benchmarks.md"
_PLOTS = ROOT / "docs" / "benchmarks"
_FIGURES = _PLOTS / "figures.json"
_README = ROOT / "README.md"
_BLOCK = re.compile(
    r"(?<=<!-- made by make bench -->\n).*?(?=<!-- /made by make bench -->)", re.DOTALL
)
_INTRODUCTION = """\
# How fast it is

`make bench` made this page. Ours and the peer run in one process or side by side, taking turns, on the same clock: CPU
time of the process unless a line says "on the wall". `ratio` is the peer's time over ours: above 1 we are faster.
`reach` is the target, `moonshot` what we would like to be known for. Where many calls are made the figure is the mean
that a user pays, with full journals of the call log closed on the way; what happens once in a process has lines of its
own ("first"). The peers of a call are langchain-core, fastmcp and the MCP SDK, each in its own environment.

"""
_GROWTH = """
## How cost grows

Both axes are logarithmic: growth in proportion is a straight line, no growth a flat one.

"""
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 460, 260, 64, 40, 16, 44
_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")


def machine() -> str:
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores{load}"


def keep(module: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Keep a module's lines for the page, in place of those of its last run."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    runs = {**_kept(), module: {"date": date, "machine": machine(), "lines": list(lines)}}
    _PLOTS.mkdir(exist_ok=True)
    text = json.dumps(dict(sorted(runs.items())), ensure_ascii=False, indent=1)
    _FIGURES.write_text(f"{text}\n", encoding="utf-8")


def write() -> None:
    """Write the page, its plots and the README's block from all lines that are kept."""
    runs = _kept()
    lines = sorted(
        (line for run in runs.values() for line in run["lines"]), key=lambda line: line["row"]
    )
    drawn = [line for line in lines if line.get("plot")]
    for name, plots in _by_name(line["plot"] for line in drawn).items():
        (_PLOTS / f"{name}.svg").write_text(_svg(plots), encoding="utf-8")
    _PAGE.write_text("".join(_page(runs, lines, drawn)), encoding="utf-8")
    headlines = [line for line in lines if line.get("headline")]
    readme = _README.read_text(encoding="utf-8")
    if headlines:
        _README.write_text(
            _BLOCK.sub(lambda _: "".join(_headlines(headlines)), readme), encoding="utf-8"
        )


def _kept() -> dict[str, Any]:
    found: dict[str, Any] = (
        json.loads(_FIGURES.read_text(encoding="utf-8")) if _FIGURES.exists() else {}
    )
    return found


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """How the cost grows at the large end: the k of n^k, from the last three points."""
    last = [(math.log(size), math.log(max(cost, 1e-9))) for size, cost in points[-3:]]
    middle_x, middle_y = (sum(values) / len(last) for values in zip(*last, strict=True))
    return sum((x - middle_x) * (y - middle_y) for x, y in last) / sum(
        (x - middle_x) ** 2 for x, _ in last
    )


def _page(
    runs: Mapping[str, Mapping[str, Any]],
    lines: Sequence[Mapping[str, Any]],
    drawn: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    yield _INTRODUCTION
    for head in sorted({run["machine"].partition(", load")[0] for run in runs.values()}):
        when = [
            f"{name} {run['date']}{run['machine'].removeprefix(head)}"
            for name, run in runs.items()
            if run["machine"].startswith(head)
        ]
        yield f"Measured with {head}: {'; '.join(when)}.\n\n"
    yield f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
    for line in lines:
        yield f"| {' | '.join(map(_escaped, cells(line)))} |\n"
    notes = dict.fromkeys(line["note"] for line in lines if line.get("note"))
    yield "\n" + "".join(f"- {html.escape(text, quote=False)}\n" for text in notes)
    yield _GROWTH
    for name, plots in _by_name(line["plot"] for line in drawn).items():
        yield f"![{plots[0]['title']}](benchmarks/{name}.svg)\n"


def _headlines(lines: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| work | ours | others |\n|---|---|---|\n"
    for line in lines:
        yield f"| {line['headline']} | {_escaped(line['ours'])} | {_escaped(line['peer'])} |\n"


def _escaped(text: str) -> str:
    return (
        html.escape(text, quote=False)
        .replace("|", "&#124;")
        .replace("*", "&#42;")
        .replace("_", "&#95;")
    )


def _by_name(plots: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for plot in plots:
        found.setdefault(plot["name"], []).append(plot)
    return found


def _svg(plots: Sequence[Mapping[str, Any]]) -> str:
    """Some series over the same sizes: {name, title, axis, series, points: [(size, seconds)]}."""
    points = [point for plot in plots for point in plot["points"]]
    sizes, costs = [size for size, _ in points], [cost for _, cost in points]
    low, high = (
        math.floor(math.log10(min(costs))),
        max(math.ceil(math.log10(max(costs))), 1 + math.floor(math.log10(min(costs)))),
    )
    first, last = math.log10(min(sizes)), math.log10(max(sizes))

    def at(size: float, cost: float) -> tuple[float, float]:
        x = _LEFT + (math.log10(size) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)
        y = _TOP + (high - math.log10(cost)) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif"'
            ' font-size="11">\n'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n',
        (
            f'<text x="{_LEFT}" y="18" font-size="13"'
            f' font-weight="bold">{html.escape(plots[0]["title"])}</text>\n'
        ),
    ]
    for power in range(low, high + 1):
        _, y = at(min(sizes), 10.0**power)
        parts.append(
            f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#e5e7eb"/>\n'
        )
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{say(10.0**power)}</text>\n'
        )
    for count in sorted(set(sizes)):
        x, y = at(count, 10.0**low)
        parts.append(f'<text x="{x}" y="{y + 16}" text-anchor="middle">{_count(count)}</text>\n')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}"'
        f' text-anchor="middle">{html.escape(plots[0]["axis"])}</text>\n'
    )
    for number, plot in enumerate(plots):
        parts += _series(
            plot, [at(*point) for point in plot["points"]], _COLOURS[number % len(_COLOURS)], number
        )
    return "".join([*parts, "</svg>\n"])


def _series(
    plot: Mapping[str, Any], points: Sequence[tuple[float, float]], colour: str, number: int
) -> Iterator[str]:
    path = " ".join(f"{x},{y}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
    yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>\n' for x, y in points)
    yield (
        f'<text x="{_LEFT + 8}" y="{34 + 14 * number}"'
        f' fill="{colour}">{html.escape(plot["series"])}</text>\n'
    )


def _count(size: float) -> str:
    for unit, value in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= value:
            return f"{size / value:g} {unit}"
    return f"{size:g}"
