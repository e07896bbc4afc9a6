"""Rows and texts -> HTML for a cell. All text from outside is escaped here and nowhere else.

The HTML is self-contained and has no script. Every outer element is marked so that `$` in it stays
a dollar sign, which notebooks and exported pages would typeset as mathematics. Colours are
JupyterLab's variables with fallbacks, so that one output works in light themes, dark themes and
static pages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.printable import printable

AS_TEXT = "mathjax_ignore tex2jax_ignore"
"""The classes of an element that MathJax leaves alone: version 3 and later (JupyterLab), and
version 2 (nbconvert)."""

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As html.escape has them; the import of that module takes 3 of the 45 ms of opening a project."""
_MAX_CELL = 300
_SHORT = 32
_TALL, _LONG = 80, 25_000
"""A text of more lines or characters scrolls in a box. What a cell shows by default is shorter."""
_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
_SOFT = "var(--jp-ui-font-color2,#777)"
_TABLE = "border-collapse:collapse;margin:2px 0;font-variant-numeric:tabular-nums"
_CELL = f"text-align:left;vertical-align:top;padding:3px 12px 3px 0;border-bottom:1px solid {_LINE}"
_RIGHT = ";text-align:right"
_MARKED = ";font-weight:600;background:rgba(33,150,243,.16)"
_HEAD = f"{_CELL};color:{_SOFT};font-weight:500"
EDGE = "padding-left:calc(var(--jp-code-font-size,0px)*.602)"
"""The left edge of what JupyterLab prints: one character of its code font."""
CODE_BOX = (
    "margin:0 0"
    " 6px;padding:0;white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;background:none"
)
_PRE = (
    f"margin:0;{EDGE};white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;"
    "font-family:var(--jp-code-font-family,monospace);"
    "font-size:var(--jp-code-font-size,inherit);line-height:var(--jp-code-line-height,inherit)"
)
"""Preformatted text with the size and the lines of what `print` writes."""
_CODE = "font-family:var(--jp-code-font-family,monospace);font-size:90%"
_NUMBER = (
    f"flex:none;min-width:5ch;margin-right:2ch;text-align:right;color:{_SOFT};user-select:none"
)
_WRAP = f"{EDGE};max-height:40em;overflow:auto"
_BOX = f'class="{AS_TEXT} otx-scroll" tabindex="0"'
"""A box that scrolls: it takes the focus, so that a keyboard can scroll it."""


def escape(text: str) -> str:
    """Text that is safe in an element and in a quoted attribute; control characters are shown as
    escapes."""
    return printable(text).translate(_ENTITIES)


def as_text(body: str) -> str:
    """Foreign HTML, such as a table of pandas, at our left edge; its dollar signs stay dollar
    signs."""
    return f'<div class="{AS_TEXT}" style="{EDGE}">{body}</div>'


def pre(text: str) -> str:
    """Preformatted text, wrapped; one that is very long scrolls."""
    if text.count("\n") > _TALL or len(text) > _LONG:
        return f'<pre {_BOX} style="{_PRE};max-height:40em;overflow:auto">{escape(text)}</pre>'
    return f'<pre class="{AS_TEXT}" style="{_PRE}">{escape(text)}</pre>'


def numbered(lines: Iterable[tuple[int, str]]) -> str:
    """Lines with their numbers, which are not copied with the text."""
    rows = "".join(
        f'<div style="display:flex"><span style="{_NUMBER}">{number:,}</span>'
        f'<span style="white-space:pre-wrap;overflow-wrap:anywhere">{escape(line)}</span></div>'
        for number, line in lines
    )
    return f'<div {_BOX} style="{_WRAP};{_CODE}">{rows}</div>'


def note(text: str) -> str:
    """A small line below an output."""
    return (
        f'<div class="{AS_TEXT}"'
        f' style="{EDGE};color:{_SOFT};font-size:90%;margin-top:2px">{escape(text)}</div>'
    )


def viewer_note(text: str, handle: str) -> str:
    """A note with a button that opens the result in JupyterLab; without our panel's style sheet it
    is hidden."""
    command = escape(json.dumps({"handle": handle}))
    button = (
        '<button type="button" class="otx-open" style="display:none"'
        f' data-commandlinker-command="onetool:view" data-commandlinker-args="{command}">Open in'
        " viewer</button>"
    )
    return f'<div class="otx-cut">{note(text)}<div style="{EDGE}">{button}</div></div>'


def whole_link(label: str, url: str) -> str:
    """A link that opens a new page, with its whole address below it."""
    return (
        f'<div class="{AS_TEXT}"><a href="{escape(url)}" target="_blank" rel="noopener noreferrer"'
        f' style="font-weight:600">{escape(label)}</a>'
        "<div"
        f' style="{_CODE};color:{_SOFT};overflow-wrap:anywhere;margin-top:2px">{escape(url)}</div>'
        "</div>"
    )


def answer_page(text: str) -> str:
    """A whole page with one sentence, for a browser."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>onetool_ipy</title><body'
        ' style="font:16px system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0'
        f' 1em;text-align:center"><p>{escape(text)}</p></body></html>'
    )


def marked_note(mark: str, text: str) -> str:
    """A note that a style sheet finds by its class."""
    return f'<div class="{escape(mark)}">{note(text)}</div>'


def table(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[str] | None = None,
    *,
    numbers: Collection[str] | None = None,
    is_marked: Callable[[object], bool] = lambda _cell: False,
) -> str:
    """Rows as a table, with the columns of all rows in their first order; columns of numbers are
    right-aligned."""
    names = (
        list(columns)
        if columns is not None
        else list(dict.fromkeys(key for row in rows for key in row))
    )
    right = (
        numbers
        if numbers is not None
        else {n for n in names if is_numeric(row.get(n) for row in rows)}
    )
    head = "".join(
        f'<th style="{_HEAD}{_RIGHT * (name in right)}">{escape(str(name))}</th>' for name in names
    )
    body = ""
    for row in rows:
        body += "<tr>"
        for name in names:
            text = cell_text(row.get(name, ""))
            label = text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
            style = f"{_CELL};white-space:nowrap" if len(text) <= _SHORT else _CELL
            style += _MARKED * is_marked(row.get(name))
            body += f'<td style="{style}{_RIGHT * (name in right)}">{escape(label)}</td>'
        body += "</tr>"
    return (
        f'<div {_BOX} style="{_WRAP}"><table style="{_TABLE}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


class Node(NamedTuple):
    """One line of a tree: a key, a value or a count, and its children."""

    label: str
    text: str
    children: tuple[Node, ...] = ()
    is_open: bool = False


def tree(node: Node) -> str:
    """Nested data as a foldable tree, without script."""
    return f'<div {_BOX} style="{_WRAP};{_CODE}">{_node(node)}</div>'


def _node(node: Node) -> str:
    key = f'<span style="color:{_SOFT}">{escape(node.label)}</span> ' if node.label else ""
    if not node.children:
        text = node.text if len(node.text) <= _MAX_CELL else node.text[: _MAX_CELL - 1] + "…"
        return f'<div style="overflow-wrap:anywhere">{key}{escape(text)}</div>'
    inner = "".join(_node(child) for child in node.children)
    state = " open" if node.is_open else ""
    return (
        f'<details{state}><summary style="cursor:pointer">{key}<span'
        f' style="color:{_SOFT}">{escape(node.text)}</span></summary><div'
        f' style="padding-left:1.4em">{inner}</div></details>'
    )


def is_numeric(column: Iterable[object]) -> bool:
    """Whether a column has only numbers or shares in percent, so that it is right-aligned."""
    filled = [value for value in column if value is not None]
    return bool(filled) and all(
        type(value) in (int, float) or (isinstance(value, str) and value.endswith(" %"))
        for value in filled
    )


def cell_text(value: object) -> str:
    """The text of a value in a table: text as it is, None as nothing, all else as JSON."""
    plain = values.to_json(value)
    return (
        plain
        if isinstance(plain, str)
        else ""
        if plain is None
        else json.dumps(plain, ensure_ascii=False)
    )
