"""Small plots as inline SVG: bars over time, lines, horizontal bars. No script, no network, no fonts of their own.

Colours are CSS variables of the page they stand in, so that one plot serves light and dark. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from onetool_ipy.render.counted import counted

__all__ = ["Bar", "Row", "columns", "lines", "rows"]

_WIDTH = 720
_HEIGHT = 180
_LEFT = 56
_BOTTOM = 24
_TOP = 12
_ROW = 24


class Bar(NamedTuple):
    """One column: how much in all, how much of it failed."""

    label: str
    total: float
    failed: float = 0


class Row(NamedTuple):
    """One horizontal bar."""

    label: str
    total: float
    failed: float
    note: str


def columns(bars: Sequence[Bar], *, title: str) -> str:
    """Columns over time; the failed part stands at the foot of each."""
    if not bars:
        return _nothing(title)
    top = max((bar.total for bar in bars), default=0) or 1
    step = (_WIDTH - _LEFT) / len(bars)
    width = max(1.0, min(48.0, step * 0.8))
    parts = [_axis(top)]
    for index, bar in enumerate(bars):
        x = _LEFT + step * index + (step - width) / 2
        tip = f"{bar.label}: {counted(bar.total, 'call')}, {bar.failed:g} failed"
        parts.append(f"<g><title>{escape(tip)}</title>{_rect(x, width, 0, bar.total, top, 'ok')}")
        if bar.failed:
            parts.append(_rect(x, width, 0, bar.failed, top, "bad"))
        parts.append("</g>")
    parts.append(_labels([bar.label for bar in bars], step))
    return _frame(parts, _HEIGHT, title)


def lines(labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, title: str, unit: str) -> str:
    """Lines over time, one per series; the first is drawn strongest."""
    if not labels:
        return _nothing(title)
    top = max((value for _, values in series for value in values), default=0) or 1
    step = (_WIDTH - _LEFT) / len(labels)
    parts = [_axis(top, unit)]
    for index, (name, values) in enumerate(series):
        points = [(_LEFT + step * (i + 0.5), _y(value, top)) for i, value in enumerate(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line line{index}" points="{path}"><title>{escape(name)}</title></polyline>')
        for (x, y), value, label in zip(points, values, labels, strict=True):
            tip = escape(f"{label}: {name} {value:,.1f} {unit}")
            parts.append(
                f'<circle class="dot line{index}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"><title>{tip}</title></circle>'
            )
    parts.append(_labels(labels, step))
    return _frame(parts, _HEIGHT, title)


def rows(bars: Sequence[Row], *, title: str) -> str:
    """Horizontal bars with a label and a note each."""
    if not bars:
        return _nothing(title)
    top = max(bar.total for bar in bars) or 1
    left, right = 220, 120
    span = _WIDTH - left - right
    parts = []
    for index, bar in enumerate(bars):
        y = index * _ROW + 4
        wide, bad = span * bar.total / top, span * bar.failed / top
        label = bar.label if len(bar.label) <= 30 else bar.label[:29] + "…"
        parts.append(
            f"<g><title>{escape(f'{bar.label}: {bar.note}')}</title>"
            f'<text class="name" x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="ok" x="{left}" y="{y}" width="{max(wide, 1):.1f}" height="16" rx="2"/>'
            f'<rect class="bad" x="{left}" y="{y}" width="{bad:.1f}" height="16" rx="2"/>'
            f'<text class="note" x="{left + wide + 6:.1f}" y="{y + 12}">{escape(bar.note)}</text></g>'
        )
    return _frame(parts, len(bars) * _ROW + 8, title)


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _rect(x: float, width: float, low: float, high: float, top: float, kind: str) -> str:
    y0, y1 = _y(low, top), _y(high, top)
    return f'<rect class="{kind}" x="{x:.1f}" y="{y1:.1f}" width="{width:.1f}" height="{max(y0 - y1, 0):.1f}" rx="1"/>'


def _axis(top: float, unit: str = "") -> str:
    parts = []
    for share in (0, 0.5, 1):
        y = _y(top * share, top)
        text = f"{_tick(top * share, top)} {unit}".strip()
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    return "".join(parts)


def _tick(value: float, top: float) -> str:
    """A number with as many places as the axis needs to tell its three from each other."""
    if top < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if top >= 10 or top % 2 == 0 else f"{value:,.1f}"


def _labels(labels: Sequence[str], step: float) -> str:
    every = max(1, -(-len(labels) // 8))
    shown = [(i, label) for i, label in enumerate(labels) if i % every == 0]
    return "".join(
        f'<text class="tick" x="{_LEFT + step * (i + 0.5):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escape(label)}</text>"
        for i, label in shown
    )


def _frame(parts: Sequence[str], height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _nothing(title: str) -> str:
    parts = [f'<text class="tick" x="{_WIDTH / 2}" y="40" text-anchor="middle">no calls yet</text>']
    return _frame(parts, 64, title)
