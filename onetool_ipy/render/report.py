"""The usage report: one self-contained HTML page with plots and a table; the plots also stand in a
cell.

The plots are inline SVG without script, network or fonts of their own. Colours are CSS variables,
so that one plot serves light and dark. Every text that comes from a tool is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from onetool_ipy.render.views import counted, people_rows

FEW_STEPS = 5
"""With fewer steps than this a plot over time says nothing: the latency is then shown by tool."""

_WIDTH = 720
_HEIGHT = 180
_LEFT = 56
_BOTTOM = 24
_TOP = 12
_ROW = 24
_SECONDS_FROM_MS = 2_000


class Bar(NamedTuple):
    """One column: its total, and how much of it failed."""

    label: str
    total: float
    failed: float = 0


class HorizontalBar(NamedTuple):
    """One horizontal bar; the first part of it is drawn stronger."""

    label: str
    total: float
    part: float
    note: str


def columns(bars: Sequence[Bar], *, title: str) -> str:
    """Columns over time, with the failed part at the foot of each."""
    if not bars:
        return _nothing(title)
    marks = axis_marks(max(bar.total for bar in bars), is_whole=True)
    step = (_WIDTH - _LEFT) / len(bars)
    width = max(1.0, min(48.0, step * 0.8))
    parts = [_axis(marks)]
    for index, bar in enumerate(bars):
        x = _LEFT + step * index + (step - width) / 2
        tip = f"{bar.label}: {counted(bar.total, 'call')}, {bar.failed:g} failed"
        parts.append(
            f"<g><title>{escape(tip)}</title>{_rect(x, width, 0, bar.total, marks[-1], 'ok')}"
        )
        if bar.failed:
            parts.append(_rect(x, width, 0, bar.failed, marks[-1], "bad"))
        parts.append("</g>")
    parts.append(_labels([bar.label for bar in bars], step))
    return _frame(parts, _HEIGHT, title)


def bands(steps: Sequence[tuple[str, float, float] | None], *, title: str) -> str:
    """A band over time from the median to p95, in milliseconds; a step without calls is None and
    leaves a gap."""
    points = [step for step in steps if step is not None]
    top = max((p95 for _, _, p95 in points), default=0)
    unit, scale = ("s", 1000) if top >= _SECONDS_FROM_MS else ("ms", 1)
    marks = axis_marks(top / scale)
    wide = (_WIDTH - _LEFT) / len(steps)
    parts = [_axis(marks, unit)]
    for index, step in enumerate(steps):
        if step is None:
            continue
        label, p50, p95 = step
        x, tip = _LEFT + wide * index, f"{label}: median {p50:,.1f} ms, p95 {p95:,.1f} ms"
        y50, y95 = (_y(value / scale, marks[-1]) for value in (p50, p95))
        parts.append(
            f"<g><title>{escape(tip)}</title>"
            f"{_rect(x, wide, p50 / scale, p95 / scale, marks[-1], 'band')}"
            f'<line class="p95" x1="{x:.1f}" x2="{x + wide:.1f}" y1="{y95:.1f}" y2="{y95:.1f}"/>'
            f'<line class="p50" x1="{x:.1f}" x2="{x + wide:.1f}" y1="{y50:.1f}"'
            f' y2="{y50:.1f}"/></g>'
        )
    parts.append(_labels(["" if step is None else step[0] for step in steps], wide))
    return _frame(parts, _HEIGHT, title)


def rows(bars: Sequence[HorizontalBar], *, title: str) -> str:
    """Horizontal bars with a label and a note each."""
    if not bars:
        return _nothing(title)
    top = max(bar.total for bar in bars) or 1
    left, right = 220, 180
    span = _WIDTH - left - right
    parts = []
    for index, bar in enumerate(bars):
        y = index * _ROW + 4
        wide, part = span * bar.total / top, span * bar.part / top
        label = bar.label if len(bar.label) <= 30 else bar.label[:29] + "…"
        parts.append(
            f"<g><title>{escape(f'{bar.label}: {bar.note}')}</title>"
            f'<text class="name" x="{left - 8}" y="{y + 12}"'
            f' text-anchor="end">{escape(label)}</text>'
            f'<rect class="band" x="{left}" y="{y}" width="{max(wide, 1):.1f}" height="16" rx="2"/>'
            f'<rect class="ok" x="{left}" y="{y}" width="{max(part, 1):.1f}" height="16" rx="2"/>'
            f'<text class="note" x="{left + wide + 6:.1f}"'
            f' y="{y + 12}">{escape(bar.note)}</text></g>'
        )
    return _frame(parts, len(bars) * _ROW + 8, title)


def axis_marks(top: float, *, is_whole: bool = False) -> list[float]:
    """Two to four round numbers from 0 on, the last of them not below `top`: 0, 20, 40."""
    if top <= 0:
        return [0.0, 1.0]
    size = 10.0 ** math.floor(math.log10(top) - 1)
    step = next(size * factor for factor in (1, 2, 5, 10, 20, 50, 100) if top <= 3 * size * factor)
    step = max(step, 1.0) if is_whole else step
    return [float(f"{step * place:.6g}") for place in range(math.ceil(top / step - 1e-9) + 1)]


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)


def _rect(x: float, width: float, low: float, high: float, top: float, kind: str) -> str:
    y0, y1 = _y(low, top), _y(high, top)
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y1:.1f}" width="{width:.1f}"'
        f' height="{max(y0 - y1, 0):.1f}"/>'
    )


def _axis(marks: Sequence[float], unit: str = "") -> str:
    parts = []
    for mark in marks:
        y = _y(mark, marks[-1])
        text = f"{mark:,.10g} {unit}".strip()
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}"'
            f' text-anchor="end">{escape(text)}</text>'
        )
    return "".join(parts)


def _labels(labels: Sequence[str], step: float) -> str:
    every = max(1, -(-len(labels) // 8))
    ticks = [(i, label) for i, label in enumerate(labels) if i % every == 0]
    return "".join(
        f'<text class="tick" x="{_LEFT + step * (i + 0.5):.1f}" y="{_HEIGHT - 6}"'
        f' text-anchor="middle">{escape(label)}</text>'
        for i, label in ticks
    )


def _frame(parts: Sequence[str], height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _nothing(title: str) -> str:
    parts = [f'<text class="tick" x="{_WIDTH / 2}" y="40" text-anchor="middle">no calls yet</text>']
    return _frame(parts, 64, title)


MARK = '<meta name="generator" content="onetool_ipy usage report">'
"""Marks a file as a report of ours, which may be overwritten."""

STYLE = """
.ot-usage{--ot-ok:#3b7dd8;--ot-bad:#d64545;--ot-ink:#1f2328;--ot-soft:#656d76;--ot-line:#d8dee4;--ot-page:#fff;
color:var(--ot-ink);font:14px/1.5 system-ui,sans-serif}
@media \
(prefers-color-scheme:dark){.ot-usage{--ot-ok:#6ea8fe;--ot-bad:#ff7b72;--ot-ink:#e6edf3;--ot-soft:#8d96a0;
--ot-line:#30363d;--ot-page:#0d1117}}
.ot-usage svg{width:100%;height:auto;display:block;overflow:visible}
.ot-usage .ok{fill:var(--ot-ok)}.ot-usage .bad{fill:var(--ot-bad)}
.ot-usage .grid{stroke:var(--ot-line);stroke-width:1}
.ot-usage .tick{fill:var(--ot-soft);font-size:11px}.ot-usage \
.name{fill:var(--ot-ink);font-size:12px}
.ot-usage .note{fill:var(--ot-soft);font-size:11px}
.ot-usage .band{fill:var(--ot-ok);opacity:.25}.ot-usage .p50{stroke:var(--ot-ok);stroke-width:2.5}
.ot-usage .p95{stroke:var(--ot-ok);stroke-width:1}
.ot-usage .facts{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.ot-usage .fact{border:1px solid var(--ot-line);border-radius:8px;padding:10px 16px;min-width:120px}
.ot-usage .fact b{display:block;font-size:22px;font-weight:600}
.ot-usage .key::before{content:"■ ";color:var(--ot-bad)}
.ot-usage .fact span,.ot-usage .small{color:var(--ot-soft);font-size:12px}
.ot-usage h2{font-size:15px;margin:24px 0 8px}
.ot-usage table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
.ot-usage th,.ot-usage td{padding:5px 10px;border-bottom:1px solid var(--ot-line);text-align:right}
.ot-usage th:first-child,.ot-usage td:first-child{text-align:left;overflow-wrap:anywhere}
.ot-usage th{color:var(--ot-soft);font-weight:500;font-size:12px}
"""

CELL_STYLE = """
.ot-usage{--ot-ok:var(--jp-brand-color1,#3b7dd8)!important;--ot-bad:var(--jp-error-color1,#d64545)!important;
--ot-ink:var(--jp-ui-font-color1,inherit)!important;--ot-soft:var(--jp-ui-font-color2,#777)!important;
--ot-line:var(--jp-border-color2,rgba(128,128,128,.35))!important;max-width:820px}
"""
"""In a cell the colours are the notebook's own."""

_MOST_MESSAGES = 20
_PAGE = "body{margin:0;background:#fff}@media (prefers-color-scheme:dark){body{background:#0d1117}}"
_COLUMNS = (
    ("tool", "Tool"),
    ("calls", "Calls"),
    ("failures", "Failed"),
    ("success_rate", "OK %"),
    ("avg_ms", "Mean ms"),
    ("p95_ms", "p95 ms"),
    ("last_called", "Last call"),
)
_FAILURE_COLUMNS = (
    ("message", "Message"),
    ("tool", "Tool"),
    ("calls", "Calls"),
    ("last_called", "Last call"),
)


def usage_page(
    summary: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    *,
    made: str,
) -> str:
    """The whole page. `steps` are {start, calls, failures, p50_ms, p95_ms}."""
    title = f"Tool usage: {summary.get('period', 'all')}" + (
        f", {summary['tool']}" if summary.get("tool") else ""
    )
    rate, calls = summary.get("success_rate"), summary.get("total_calls", 0)
    facts = [
        (f"{calls:,}", "call" if calls == 1 else "calls"),
        ("–" if rate is None else f"{rate:.1f} %", "succeeded"),
    ]
    cards = "".join(
        f'<div class="fact"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for v, k in facts
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'{MARK}<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_PAGE}{STYLE}</style></head>"
        f'<body><main class="ot-usage" style="max-width:960px;margin:0 auto;padding:24px">'
        f"<h1 style='font-size:20px;margin:0'>{escape(title)}</h1>"
        f'<p class="small">made {escape(made)}</p>'
        f'<div class="facts">{cards}</div>{plots(tools, steps, summary.get("failures") or ())}'
        f"<h2>By tool</h2>{_table(tools, _COLUMNS)}</main></body></html>\n"
    )


def plots(
    tools: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Calls over time, latency, and the failed calls by message, for the report and for a cell."""
    bars = [Bar(str(row["start"]), row["calls"], row["failures"]) for row in steps]
    failed = '<span class="key">failed</span>' if any(bar.failed for bar in bars) else ""
    messages = ""
    if failures:
        left = len(failures) - _MOST_MESSAGES
        more = f"<p class='small'>{counted(left, 'more message')}</p>" if left > 0 else ""
        messages = (
            "<h2>Failed calls by"
            f" message</h2>{_table(failures[:_MOST_MESSAGES], _FAILURE_COLUMNS)}{more}"
        )
    if sum(bool(row["calls"]) for row in steps) >= FEW_STEPS:
        points = [
            (str(r["start"]), r["p50_ms"], r["p95_ms"]) if r["calls"] else None for r in steps
        ]
        latency = (
            "<h2>Latency <span class='small'>median to"
            f" p95</span></h2>{bands(points, title='Latency')}"
        )
    else:
        notes = [(row, f"{_ms(row['avg_ms'])} / {_ms(row['p95_ms'])} ms") for row in tools[:8]]
        slow = [
            HorizontalBar(str(row["tool"]), row["p95_ms"], row["avg_ms"], note)
            for row, note in notes
        ]
        latency = (
            "<h2>Latency by tool <span class='small'>mean /"
            f" p95</span></h2>{rows(slow, title='Latency by tool')}"
        )
    return (
        "<h2>Calls <span"
        f" class='small'>{failed}</span></h2>{columns(bars, title='Calls over time')}"
        f"{latency}{messages}"
    )


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _table(rows: Sequence[Mapping[str, object]], labels: Sequence[tuple[str, str]]) -> str:
    head = "".join(f"<th>{escape(label)}</th>" for _, label in labels)
    body = ""
    for row in people_rows(rows):
        body += "<tr>"
        for key, _ in labels:
            value = row.get(key)
            text = (
                "–"
                if value is None
                else f"{value:,.1f}"
                if isinstance(value, float)
                else str(value)
            )
            body += f"<td>{escape(f'{value:,}' if isinstance(value, int) else text)}</td>"
        body += "</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
