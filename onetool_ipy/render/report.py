"""The usage report: one self-contained HTML page with plots and a table. Reads no file, loads nothing, runs no script.

Light and dark follow the reader's system; every text that comes from a tool is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from onetool_ipy.render import svg
from onetool_ipy.render.counted import counted

__all__ = ["CELL_STYLE", "MARK", "STYLE", "plots", "usage_page"]

MARK = '<meta name="generator" content="onetool_ipy usage report">'
"""By this line a file is known as a report of ours, which may be written over."""

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
"""In a cell the colours are the notebook's own, whatever the system's are."""

_PAGE = "body{margin:0;background:#fff}@media (prefers-color-scheme:dark){body{background:#0d1117}}"
_COLUMNS = (
    ("tool", "Tool"),
    ("calls", "Calls"),
    ("failures", "Failed"),
    ("success_rate", "OK %"),
    ("avg_ms", "Mean ms"),
    ("p95_ms", "95 % ms"),
    ("last_called", "Last call"),
)


def usage_page(
    summary: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], series: Sequence[Mapping[str, Any]], *, made: str
) -> str:
    """The whole page. `series` rows are {start, calls, failures, p50_ms, p95_ms}."""
    title = f"Tool usage: {summary.get('period', 'all')}" + (f", {summary['tool']}" if summary.get("tool") else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'{MARK}<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_PAGE}{STYLE}</style></head>"
        f'<body><main class="ot-usage" style="max-width:960px;margin:0 auto;padding:24px">'
        f"<h1 style='font-size:20px;margin:0'>{escape(title)}</h1>"
        f'<p class="small">made {escape(made)}; tokens and time saved are estimates</p>'
        f"{_facts(summary)}{plots(tools, series)}<h2>By tool</h2>{_table(tools)}</main></body></html>\n"
    )


def plots(tools: Sequence[Mapping[str, Any]], series: Sequence[Mapping[str, Any]]) -> str:
    """Calls over time, latency, and the tools called most, as they stand in the report and in a cell."""
    labels = [str(row["start"]) for row in series]
    bars = [svg.Bar(label, row["calls"], row["failures"]) for label, row in zip(labels, series, strict=True)]
    latency = [("95 % of calls", [r["p95_ms"] for r in series]), ("half of calls", [r["p50_ms"] for r in series])]
    most = [
        svg.Row(
            *(str(row["tool"]), row["calls"], row["failures"]),
            f"{counted(row['calls'], 'call')}, {row['failures']:,} failed",
        )
        for row in tools[:12]
    ]
    return (
        f"<h2>Calls over time</h2>{svg.columns(bars, title='Calls over time')}"
        "<h2>Latency <span class='small'>— 95 % of calls are below the strong line, half below the thin one</span></h2>"
        f"{svg.lines(labels, latency, title='Latency', unit='ms')}"
        f"<h2>Most used, with failures</h2>{svg.rows(most, title='Calls per tool')}"
    )


def _facts(summary: Mapping[str, Any]) -> str:
    rate = summary.get("success_rate")
    facts = [
        (f"{summary.get('total_calls', 0):,}", "calls"),
        ("–" if rate is None else f"{rate:.1f} %", "went well"),
        (f"{summary.get('context_saved', 0):,}", "tokens saved (estimate)"),
        (_duration(summary.get("time_saved_ms", 0)), "saved (estimate)"),
    ]
    cards = "".join(f'<div class="fact"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for v, k in facts)
    return f'<div class="facts">{cards}</div>'


def _table(tools: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{escape(label)}</th>" for _, label in _COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(key)))}</td>" for key, _ in _COLUMNS) + "</tr>" for row in tools
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _duration(ms: float) -> str:
    seconds = ms / 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} s"
