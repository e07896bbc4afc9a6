"""The usage report: one self-contained HTML page with plots and a table; the plots also stand in a cell.

The plots are inline SVG without script, network or fonts of their own. Colours are CSS variables, so that one plot
serves light and dark. Every text that comes from a tool is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from onetool_ipy.render.views import counted, duration, people_rows

__all__ = ["CELL_STYLE", "MARK", "STYLE", "Bar", "HorizontalBar", "columns", "lines", "plots", "rows", "usage_page"]

_WIDTH = 720
_HEIGHT = 180
_LEFT = 56
_BOTTOM = 24
_TOP = 12
_ROW = 24


class Bar(NamedTuple):
    """One column: its total, and how much of it failed."""

    label: str
    total: float
    failed: float = 0


class HorizontalBar(NamedTuple):
    """One horizontal bar."""

    label: str
    total: float
    failed: float
    note: str


def columns(bars: Sequence[Bar], *, title: str) -> str:
    """Columns over time, with the failed part at the foot of each."""
    if not bars:
        return _nothing(title)
    top = max((bar.total for bar in bars), default=0) or 1
    step = (_WIDTH - _LEFT) / len(bars)
    width = max(1.0, min(48.0, step * 0.8))
    parts = [_axis(top)]
    for index, bar in enumerate(bars):
        x = _LEFT + step * index + (step - width) / 2
        tip = f"{bar.label}: {counted(bar.total, 'call')}, {bar.failed:g} failed"
        parts.append(f"<g><title>{escape(tip)}</title>{_rect(x, width, bar.total, top, 'ok')}")
        if bar.failed:
            parts.append(_rect(x, width, bar.failed, top, "bad"))
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


def rows(bars: Sequence[HorizontalBar], *, title: str) -> str:
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


def _rect(x: float, width: float, high: float, top: float, kind: str) -> str:
    y0, y1 = _y(0, top), _y(high, top)
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
    """A number with enough places to tell the three numbers of the axis apart."""
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


MARK = '<meta name="generator" content="onetool_ipy usage report">'
"""Marks a file as a report of ours, which may be overwritten."""

STYLE = """
.ot-usage{--ot-ok:#3b7dd8;--ot-bad:#d64545;--ot-ink:#1f2328;--ot-soft:#656d76;--ot-line:#d8dee4;--ot-page:#fff;
color:var(--ot-ink);font:14px/1.5 system-ui,sans-serif}
@media (prefers-color-scheme:dark){.ot-usage{--ot-ok:#6ea8fe;--ot-bad:#ff7b72;--ot-ink:#e6edf3;--ot-soft:#8d96a0;
--ot-line:#30363d;--ot-page:#0d1117}}
.ot-usage svg{width:100%;height:auto;display:block;overflow:visible}
.ot-usage .ok{fill:var(--ot-ok)}.ot-usage .bad{fill:var(--ot-bad)}
.ot-usage .grid{stroke:var(--ot-line);stroke-width:1}
.ot-usage .tick{fill:var(--ot-soft);font-size:11px}.ot-usage .name{fill:var(--ot-ink);font-size:12px}
.ot-usage .note{fill:var(--ot-soft);font-size:11px}
.ot-usage .line{fill:none;stroke:var(--ot-ok);stroke-width:2}.ot-usage .line1{stroke:var(--ot-soft);stroke-width:1.5}
.ot-usage .dot{fill:var(--ot-ok)}.ot-usage .dot.line1{fill:var(--ot-soft)}
.ot-usage .facts{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.ot-usage .fact{border:1px solid var(--ot-line);border-radius:8px;padding:10px 16px;min-width:120px}
.ot-usage .fact b{display:block;font-size:22px;font-weight:600}
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
_FAILURE_COLUMNS = (("message", "Message"), ("tool", "Tool"), ("calls", "Calls"), ("last_called", "Last call"))


def usage_page(
    summary: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]],
    series: Sequence[Mapping[str, Any]],
    *,
    made: str,
    formula: str = "",
) -> str:
    """The whole page. `series` rows are {start, calls, failures, p50_ms, p95_ms}; `formula` is that of the savings."""
    estimated = f"; tokens and time saved are estimated from {formula}" if formula else ""
    title = f"Tool usage: {summary.get('period', 'all')}" + (f", {summary['tool']}" if summary.get("tool") else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'{MARK}<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_PAGE}{STYLE}</style></head>"
        f'<body><main class="ot-usage" style="max-width:960px;margin:0 auto;padding:24px">'
        f"<h1 style='font-size:20px;margin:0'>{escape(title)}</h1>"
        f'<p class="small">made {escape(made)}{escape(estimated)}</p>'
        f"{_facts(summary, has_savings=bool(formula))}{plots(tools, series)}<h2>By tool</h2>{_table(tools, _COLUMNS)}"
        f"{_failures(summary.get('failures') or ())}</main></body></html>\n"
    )


def plots(tools: Sequence[Mapping[str, Any]], series: Sequence[Mapping[str, Any]]) -> str:
    """Calls over time, latency, and the most used tools, for the report and for a cell."""
    labels = [str(row["start"]) for row in series]
    bars = [Bar(label, row["calls"], row["failures"]) for label, row in zip(labels, series, strict=True)]
    latency = [("p95", [r["p95_ms"] for r in series]), ("median", [r["p50_ms"] for r in series])]
    most = [
        HorizontalBar(
            *(str(row["tool"]), row["calls"], row["failures"]),
            f"{counted(row['calls'], 'call')}, {row['failures']:,} failed",
        )
        for row in tools[:12]
    ]
    return (
        f"<h2>Calls over time</h2>{columns(bars, title='Calls over time')}"
        "<h2>Latency <span class='small'>p95 and median</span></h2>"
        f"{lines(labels, latency, title='Latency', unit='ms')}"
        f"<h2>Most used, with failures</h2>{rows(most, title='Calls per tool')}"
    )


def _failures(groups: Sequence[Mapping[str, Any]]) -> str:
    return f"<h2>Failed calls by message</h2>{_table(groups, _FAILURE_COLUMNS)}" if groups else ""


def _facts(summary: Mapping[str, Any], *, has_savings: bool) -> str:
    rate = summary.get("success_rate")
    facts = [
        (f"{summary.get('total_calls', 0):,}", "calls"),
        ("–" if rate is None else f"{rate:.1f} %", "succeeded"),
    ]
    if has_savings:
        facts.append((f"{summary['context_saved']:,}", "tokens saved (estimate)"))
        facts.append((duration(summary["time_saved_ms"]), "saved (estimate)"))
    cards = "".join(f'<div class="fact"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for v, k in facts)
    return f'<div class="facts">{cards}</div>'


def _table(rows: Sequence[Mapping[str, Any]], labels: Sequence[tuple[str, str]]) -> str:
    head = "".join(f"<th>{escape(label)}</th>" for _, label in labels)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(key)))}</td>" for key, _ in labels) + "</tr>"
        for row in people_rows(rows)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
