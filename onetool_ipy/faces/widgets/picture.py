"""What a screen looks like where no kernel runs: in a saved notebook, as a page, on a terminal.

Made from what the screen would show first, at the moment it is opened; everything is escaped and masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.core import values
from onetool_ipy.core.model import ToolResult
from onetool_ipy.core.printable import printable
from onetool_ipy.faces.widgets.usage import usage_shown
from onetool_ipy.render import html

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Picture", "browser_picture", "result_picture", "usage_picture"]

_MOST_TOOLS = 40
_MOST_LINES = 20
_COLUMNS = ("tool", "calls", "failures", "avg_ms", "p95_ms", "last_called")
_HINT = "Run this cell to use it. If it still is a picture then, anywidget is missing where JupyterLab runs."
_ALONE = (
    "<style>.jp-OutputArea-child:has(.otx-picture) + .jp-OutputArea-child:not(:has(.otx,.otx-lack))"
    "{display:none}</style>"
)
"""The output after the picture is the view, of which JupyterLab only has an error to show where no kernel runs."""


class Picture(NamedTuple):
    """A screen that does not move: as HTML, and as text."""

    html: str
    text: str


def browser_picture(box: Toolbox) -> Picture:
    """The tools by pack, the first few with what they do."""
    specs = sorted(box.registry.known(), key=lambda spec: (spec.pack == "ot", spec.name))
    packs = box.registry.known_packs()
    title = f"Tool browser: {len(specs):,} tools in {len(packs):,} packs."
    rows = [{"tool": spec.name, "what it does": values.cut(spec.summary, 120)} for spec in specs[:_MOST_TOOLS]]
    left = f" {len(specs) - _MOST_TOOLS:,} more." if len(specs) > _MOST_TOOLS else ""
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [title, *(f"  {row['tool']:<{width}}  {row['what it does']}" for row in rows)]
    return _made(box, title, html.table(rows), f"{_HINT}{left}", [*lines, left.strip()])


def result_picture(box: Toolbox, result: ToolResult | None, handle: str | None) -> Picture:
    """The first lines of a result."""
    if result is not None and result.error is not None:
        title, lines = "A failed result.", [f"{result.error.code}: {result.error.message}"]
        return _made(box, title, html.pre(box.mask("\n".join(lines))), _HINT, [title, *lines])
    page = box.results.query(handle, limit=_MOST_LINES) if handle else _first_lines(result)
    tool = str(result.meta.get("tool", "")) if result is not None else ""
    title = f"Result{f' of {tool}' if tool else ''}: {page['total_lines']:,} lines."
    shown = [values.cut(line, 300) for line in page["lines"]]
    return _made(box, title, html.pre(box.mask("\n".join(shown))), _HINT, [title, *shown])


def usage_picture(box: Toolbox, period: str, tool: str) -> Picture:
    """Totals and tools of a period."""
    found = usage_shown(box, {"period": period, "tool": tool})
    title = ", ".join([f"Usage, {period}", *(f"{total['value']} {total['label']}" for total in found["totals"])]) + "."
    rows: list[Any] = [{key: _figure(row[key]) for key in _COLUMNS} for row in found["tools"][:_MOST_TOOLS]]
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [f"  {row['tool']:<{width}}  {row['calls']} calls, {row['failures']} failed" for row in rows]
    return _made(box, title, html.table(rows, _COLUMNS), _HINT, [title, *lines])


def _figure(value: Any) -> Any:
    return round(value) if isinstance(value, float) else value


def _first_lines(result: ToolResult | None) -> dict[str, Any]:
    lines = [] if result is None else values.to_text(result.data).split("\n")
    return {"lines": lines[:_MOST_LINES], "total_lines": len(lines)}


def _made(box: Toolbox, title: str, body: str, below: str, lines: list[str]) -> Picture:
    head = f'<div style="font-weight:600">{html.escape(box.mask(title))}</div>'
    shown = f'<div class="otx-picture">{_ALONE}{head}{body}{html.note(below)}</div>'
    return Picture(shown, printable(box.mask("\n".join(line for line in lines if line))))
