"""A tool's result -> what a cell shows of it: text and HTML from the same rows, cut to what a screen takes.

Tables for rows, a foldable tree for nested data, text as it is. A value with a look of its own (a DataFrame, a figure)
is shown by that, elsewhere. Pure; everything from the result is escaped by `html`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from onetool_ipy.core import values
from onetool_ipy.core.printable import printable
from onetool_ipy.render import html

__all__ = ["Bounds", "Shown", "aligned", "cell_text", "show"]

_ONE_LINE = 100
_MAX_CELL = 60
_MAX_COLUMNS = 30
_MAX_NODES = 400
_OPEN_LEVELS = 2


class Bounds(NamedTuple):
    """How much of a result is shown."""

    lines: int = 60
    chars: int = 20_000
    rows: int = 20


class Shown(NamedTuple):
    """What a cell shows; `cut` says how much of how much, where not all is shown."""

    text: str
    html: str
    cut: str = ""


def show(data: Any, bounds: Bounds) -> Shown:
    """Show any value."""
    if isinstance(data, (str, int)):
        return _text(str(values.to_json(data)), bounds)
    if _is_rows(data):
        return _table(data, bounds)
    if isinstance(data, (dict, list, tuple)):
        return _nested(data, bounds)
    return _text(values.safe_repr(data, bounds.chars + 1), bounds)


def _text(text: str, bounds: Bounds) -> Shown:
    lines = text.split("\n")
    if len(lines) <= bounds.lines and len(text) <= bounds.chars:
        return Shown(text, html.pre(text))
    shown = "\n".join(lines[: bounds.lines])[: bounds.chars]
    cut = f"{shown.count(chr(10)) + 1:,} of {len(lines):,} lines"
    return Shown(shown, html.pre(shown), cut)


def _is_rows(data: Any) -> bool:
    """A list of objects that have their keys in common, mostly."""
    if not isinstance(data, (list, tuple)) or not data:
        return False
    some = data[:20]
    return all(isinstance(row, Mapping) and row for row in some) and len(_columns(some)) <= _MAX_COLUMNS


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(key) for row in rows for key in row))


def _table(data: Sequence[Any], bounds: Bounds) -> Shown:
    chosen = [row if isinstance(row, Mapping) else {"value": row} for row in data[: bounds.rows]]
    rows = [{str(key): cell_text(value) for key, value in row.items()} for row in chosen]
    columns = _columns(rows)
    numbers = [name for name in columns if html.is_numeric(row.get(name) for row in chosen)]
    cut = f"{len(rows):,} of {len(data):,} rows" if len(data) > len(rows) else ""
    return Shown("\n".join(aligned(rows, columns, numbers)), html.table(rows, columns, numbers=numbers), cut)


def aligned(rows: Sequence[Mapping[str, str]], columns: Sequence[str], numbers: Collection[str]) -> list[str]:
    """Rows of texts as lines of a table, under their headings."""
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


def cell_text(value: Any) -> str:
    """A value in one cell of a table."""
    plain = values.to_json(value)
    return plain if isinstance(plain, str) else "" if plain is None else json.dumps(plain, ensure_ascii=False)


def _nested(data: Any, bounds: Bounds) -> Shown:
    plain = values.to_json(data)
    compact = json.dumps(plain, ensure_ascii=False)
    if len(compact) <= _ONE_LINE:
        return Shown(compact, html.pre(compact))
    text = _text(json.dumps(plain, ensure_ascii=False, indent=2), bounds)
    budget = [_MAX_NODES]
    tree = html.tree(_branch("", plain, 0, budget))
    return Shown(text.text, tree, text.cut or ("not all of it" if budget[0] <= 0 else ""))


def _branch(label: str, value: Any, level: int, budget: list[int]) -> html.Node:
    """One node of the tree; the budget bounds how many there are."""
    budget[0] -= 1
    if not isinstance(value, (dict, list)) or not value:
        return html.Node(label, json.dumps(value, ensure_ascii=False))
    pairs = value.items() if isinstance(value, dict) else ((str(i), item) for i, item in enumerate(value))
    children: list[html.Node] = []
    for key, item in pairs:
        if budget[0] <= 0:
            children.append(html.Node("…", f"{len(value) - len(children):,} more"))
            break
        children.append(_branch(str(key), item, level + 1, budget))
    kind = f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
    return html.Node(label, kind, tuple(children), is_open=level < _OPEN_LEVELS)
