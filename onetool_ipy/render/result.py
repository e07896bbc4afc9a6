"""A result as a cell shows it: text and HTML from the same rows, cut to the size of a screen.

Rows become a table, nested data a foldable tree, text stays text. A value with its own
representation (a DataFrame, a figure) is shown elsewhere. `Called` is a call that a model made: one
line, and below it, folded, arguments and result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from onetool_ipy.base import tables, values
from onetool_ipy.base.printable import printable
from onetool_ipy.render import html

_MAX_HEAD = 110
_ONE_LINE = 100
_MAX_CELL = 60
_MAX_COLUMNS = 30
_MAX_NODES = 400
_OPEN_LEVELS = 2
MARKS = {"running": "…", "ok": "✓", "failed": "✗", "skipped": "–"}
"""The sign of each state of a call."""
_COLOURS = {
    "running": "var(--jp-ui-font-color2,#777)",
    "ok": "var(--jp-success-color1,#388e3c)",
    "failed": "var(--jp-error-color1,#d32f2f)",
    "skipped": "var(--jp-ui-font-color2,#777)",
}
_BOX = (
    "border-left:3px solid {colour};padding:1px 0 1px 10px;"
    "margin:4px 0 6px calc(var(--jp-code-font-size,0px)*.602);"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"
)
_SUMMARY = "cursor:pointer;overflow-wrap:anywhere;color:var(--jp-content-font-color1,inherit)"
_SOFT = "color:var(--jp-content-font-color2,#777)"
_LABEL = f"{_SOFT};font-family:var(--jp-ui-font-family,sans-serif);font-size:90%;margin:5px 0 1px"


class DisplayLimits(NamedTuple):
    """How much of a result is shown."""

    lines: int = 60
    chars: int = 20_000
    rows: int = 20


class RenderedValue(NamedTuple):
    """A value as text, and what makes the HTML; `cut` says which part is shown, if not all."""

    text: str
    to_html: Callable[[], str]
    cut: str = ""

    @property
    def html(self) -> str:
        return self.to_html()


class Called(NamedTuple):
    """One call in its current state. `problem` says why it failed; `facts` are short notes such as
    `12 ms`."""

    name: str
    args: Any
    state: str = "running"
    data: Any = None
    problem: str = ""
    facts: tuple[str, ...] = ()
    is_open: bool = False


def note_line(meta: Mapping[str, Any]) -> str:
    """A line about a result: what its server asked in vain, or where it does not fit an imported
    outputSchema."""
    mismatches = meta.get("mismatch")
    if not mismatches:
        return str(meta.get("note", ""))
    first = mismatches[0]
    more = f" (and {len(mismatches) - 1} more in .meta['mismatch'])" if len(mismatches) > 1 else ""
    where = f" at '{first['pointer']}'" if first["pointer"] else ""
    return (
        f"The answer does not fit the schema of the imported document{where}:"
        f" {first['message']}{more}"
    )


def head(call: Called) -> str:
    """`fs.read_file path="README.md"`, cut to one line."""
    if not isinstance(call.args, Mapping):
        return values.cut(f"{call.name} {values.cut(str(call.args), 60)}", _MAX_HEAD)
    plain = values.to_json(dict(call.args))
    words = [
        f"{key}={values.cut(json.dumps(value, ensure_ascii=False), 60)}"
        for key, value in plain.items()
    ]
    return values.cut(" ".join([call.name, *words]), _MAX_HEAD)


def to_text(call: Called) -> str:
    """For a terminal: the line, and a few lines of the result."""
    facts = f"  ({', '.join(call.facts)})" if call.facts else ""
    lines = [f"{MARKS[call.state]} {printable(head(call) + facts)}"]
    if call.problem:
        lines += [f"    {printable(line)}" for line in call.problem.split("\n")]
    elif call.state == "ok":
        result = show(call.data, DisplayLimits(lines=3, chars=240, rows=3)).text.split("\n")
        lines += [f"    {printable(values.cut(line, 100))}" for line in result[:4]]
    return "\n".join(lines)


def to_html(call: Called) -> str:
    """For a notebook: a line that unfolds."""
    colour = _COLOURS[call.state]
    name, _, rest = head(call).partition(" ")
    facts = html.escape(" · ".join(call.facts))
    line = (
        f'<span style="color:{colour}">{MARKS[call.state]}</span> <b'
        f' style="font-weight:600">{html.escape(name)}</b> <span'
        f' style="{_SOFT}">{html.escape(rest)}{"&ensp;·&ensp;" if facts else ""}{facts}</span>'
    )
    box = _BOX.format(colour=colour)
    if call.state == "running":
        return f'<div class="{html.AS_TEXT}" style="{box}">{line}</div>'
    inner = []
    if call.args:
        text = call.args
        if not isinstance(text, str):
            plain = values.to_json(call.args)
            text = json.dumps(plain, ensure_ascii=False)
            if len(text) > _ONE_LINE:
                text = json.dumps(plain, ensure_ascii=False, indent=2)
        inner.append(_part("arguments", html.pre(values.cut(text, 4_000))))
    if call.problem:
        inner.append(_part("not done", html.pre(call.problem)))
    else:
        result = show(call.data, DisplayLimits(lines=20, chars=4_000, rows=10))
        inner.append(_part("result" + (f" ({result.cut})" if result.cut else ""), result.html))
    state = " open" if call.is_open else ""
    summary = f'<summary style="{_SUMMARY}">{line}</summary>'
    return (
        f'<details{state} class="{html.AS_TEXT}" style="{box}">{summary}{"".join(inner)}</details>'
    )


def _part(label: str, body: str) -> str:
    return f'<div style="{_LABEL}">{html.escape(label)}</div>{body}'


def show(data: Any, bounds: DisplayLimits) -> RenderedValue:
    """Show any value."""
    if isinstance(data, (str, int)):
        return _text(str(values.to_json(data)), bounds)
    if type(data) is not dict:
        data = tables.tabular(data)
    total = len(data) if isinstance(data, (list, tuple)) else 0
    if type(data) is not dict and tables.is_dataframe(data):
        total = len(data)
        if data.columns.is_unique and len(data.columns) <= _MAX_COLUMNS:
            first = data.head(bounds.rows).to_dict("records")
            data = [
                {name: None if tables.is_missing(cell) else cell for name, cell in row.items()}
                for row in first
            ]
    some = data[:20] if isinstance(data, (list, tuple)) else ()
    # A list of objects with few different keys is a table.
    if (
        some
        and all(isinstance(row, Mapping) and row for row in some)
        and len(_columns(some)) <= _MAX_COLUMNS
    ):
        chosen = [
            row if isinstance(row, Mapping) else {"value": row} for row in data[: bounds.rows]
        ]
        rows = [{str(key): html.cell_text(value) for key, value in row.items()} for row in chosen]
        columns = _columns(rows)
        numbers = [name for name in columns if html.is_numeric(row.get(name) for row in chosen)]
        cut = f"{len(rows):,} of {total:,} rows" if total > len(rows) else ""
        return RenderedValue(
            "\n".join(aligned(rows, columns, numbers)),
            partial(html.table, rows, columns, numbers=numbers),
            cut,
        )
    if isinstance(data, (dict, list, tuple)):
        plain = values.to_json(data)
        compact = json.dumps(plain, ensure_ascii=False)
        if len(compact) <= _ONE_LINE:
            return RenderedValue(compact, partial(html.pre, compact))
        text = _text(json.dumps(plain, ensure_ascii=False, indent=2), bounds)
        budget = [_MAX_NODES]
        tree = _branch("", plain, 0, budget)
        cut = text.cut or ("not all of it" if budget[0] <= 0 else "")
        return RenderedValue(text.text, partial(html.tree, tree), cut)
    return _text(values.safe_repr(data, bounds.chars + 1), bounds)


def _text(text: str, bounds: DisplayLimits) -> RenderedValue:
    lines = text.split("\n")
    if len(lines) <= bounds.lines and len(text) <= bounds.chars:
        return RenderedValue(text, partial(html.pre, text))
    excerpt = "\n".join(lines[: bounds.lines])[: bounds.chars]
    return RenderedValue(
        excerpt,
        partial(html.pre, excerpt),
        f"{excerpt.count(chr(10)) + 1:,} of {len(lines):,} lines",
    )


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(str(key) for row in rows for key in row))


def aligned(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], numbers: Collection[str]
) -> list[str]:
    """Rows of texts as aligned lines under their headings."""
    lines: list[list[str]] = [[] for _ in range(len(rows) + 1)]
    for column in columns:
        cells = [_short(column), *(_short(row.get(column, "")) for row in rows)]
        width = max(map(len, cells))
        for line, text in zip(lines, cells, strict=True):
            line.append(text.rjust(width) if column in numbers else text.ljust(width))
    return ["  ".join(line).rstrip() for line in lines]


def _short(text: str) -> str:
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= _MAX_CELL else flat[: _MAX_CELL - 1] + "…"


def _branch(label: str, value: object, level: int, budget: list[int]) -> html.Node:
    """One node of the tree; the budget limits the number of nodes."""
    budget[0] -= 1
    if not isinstance(value, (dict, list)) or not value:
        return html.Node(label, json.dumps(value, ensure_ascii=False))
    pairs = (
        value.items()
        if isinstance(value, dict)
        else ((str(i), item) for i, item in enumerate(value))
    )
    children: list[html.Node] = []
    for key, item in pairs:
        if budget[0] <= 0:
            children.append(html.Node("…", f"{len(value) - len(children):,} more"))
            break
        children.append(_branch(str(key), item, level + 1, budget))
    kind = f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
    return html.Node(label, kind, tuple(children), is_open=level < _OPEN_LEVELS)
