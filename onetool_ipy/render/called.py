"""A call that a model made -> what a cell shows of it: one line, and folded below it arguments and result. Pure.

Text and HTML are made from the same parts; everything from the model or the tool is escaped by `html`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from onetool_ipy.core import values
from onetool_ipy.core.printable import printable
from onetool_ipy.render import html
from onetool_ipy.render.result import Bounds, show

__all__ = ["Called", "head", "to_html", "to_text"]

_BOUNDS = Bounds(lines=20, chars=4_000, rows=10)
_MAX_HEAD = 110
_ONE_LINE = 100
_MARKS = {"running": "…", "ok": "✓", "failed": "✗"}
_COLOURS = {
    "running": "var(--jp-ui-font-color2,#777)",
    "ok": "var(--jp-success-color1,#388e3c)",
    "failed": "var(--jp-error-color1,#d32f2f)",
}
_BOX = (
    "border-left:3px solid {colour};padding:1px 0 1px 10px;margin:4px 0 6px;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"
)
_SUMMARY = "cursor:pointer;overflow-wrap:anywhere;color:var(--jp-content-font-color1,inherit)"
_SOFT = "color:var(--jp-content-font-color2,#777)"
_LABEL = f"{_SOFT};font-family:var(--jp-ui-font-family,sans-serif);font-size:90%;margin:5px 0 1px"


class Called(NamedTuple):
    """One call, as far as it has come. `problem` is why it failed; `facts` are small words such as `12 ms`."""

    name: str
    args: Any
    state: str = "running"
    data: Any = None
    problem: str = ""
    facts: tuple[str, ...] = ()
    is_open: bool = False


def head(call: Called) -> str:
    """`fs.read_file path="README.md"`, cut to one line."""
    return values.cut(" ".join([call.name, *_given(call.args)]), _MAX_HEAD)


def to_text(call: Called) -> str:
    """For a terminal: the line, and a few lines of what came of it."""
    facts = f"  ({', '.join(call.facts)})" if call.facts else ""
    lines = [f"{_MARKS[call.state]} {printable(head(call) + facts)}"]
    if call.problem:
        lines += [f"    {printable(line)}" for line in call.problem.split("\n")]
    elif call.state == "ok":
        shown = show(call.data, Bounds(lines=3, chars=240, rows=3)).text.split("\n")
        lines += [f"    {printable(values.cut(line, 100))}" for line in shown[:4]]
    return "\n".join(lines)


def to_html(call: Called) -> str:
    """For a notebook: a line that unfolds."""
    colour = _COLOURS[call.state]
    name, _, rest = head(call).partition(" ")
    facts = html.escape(" · ".join(call.facts))
    line = (
        f'<span style="color:{colour}">{_MARKS[call.state]}</span> <b style="font-weight:600">{html.escape(name)}</b> '
        f'<span style="{_SOFT}">{html.escape(rest)}{"&ensp;·&ensp;" if facts else ""}{facts}</span>'
    )
    box = _BOX.format(colour=colour)
    if call.state == "running":
        return f'<div style="{box}">{line}</div>'
    inner = [_part("arguments", html.pre(_arguments(call.args)))] if call.args else []
    if call.problem:
        inner.append(_part("not done", html.pre(call.problem)))
    else:
        shown = show(call.data, _BOUNDS)
        inner.append(_part("result" + (f" ({shown.cut})" if shown.cut else ""), shown.html))
    state = " open" if call.is_open else ""
    return f'<details{state} style="{box}"><summary style="{_SUMMARY}">{line}</summary>{"".join(inner)}</details>'


def _part(label: str, body: str) -> str:
    return f'<div style="{_LABEL}">{html.escape(label)}</div>{body}'


def _given(args: Any) -> list[str]:
    if not isinstance(args, Mapping):
        return [values.cut(str(args), 60)]
    plain = values.to_json(dict(args))
    return [f"{key}={values.cut(json.dumps(value, ensure_ascii=False), 60)}" for key, value in plain.items()]


def _arguments(args: Any) -> str:
    if isinstance(args, str):
        return values.cut(args, 4_000)
    plain = values.to_json(args)
    short = json.dumps(plain, ensure_ascii=False)
    return short if len(short) <= _ONE_LINE else values.cut(json.dumps(plain, ensure_ascii=False, indent=2), 4_000)
