"""ToolResult -> text/plain and text/html for a cell. Escaped, masked, and cut to what a screen takes.

A result whose data has a look of its own (a DataFrame, a figure) shows that; everything else shows as text.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, Protocol

from onetool_ipy.core import values
from onetool_ipy.core.model import ToolResult

__all__ = ["Limits", "Page", "html_text", "plain_text"]

Mask = Callable[[str], str]


class Limits(Protocol):
    """How much of a result a cell shows; `%config OneTool` sets it."""

    max_lines: int
    max_chars: int


class Page(str):
    """Text that shows as it is, in a terminal and in a cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return _pre(str(self))


def plain_text(result: ToolResult, mask: Mask, limits: Limits) -> str:
    """A result as the lines a terminal shows."""
    if result.error is not None:
        lines = [f"failed: {result.error.message}", *result.error.hint.splitlines()]
        return mask("\n".join(lines))
    data = result.data
    if data is None:
        return "None"
    text = data if isinstance(data, str) else _shown(data, limits)
    return _cut(mask(text), limits)


def _shown(data: Any, limits: Limits) -> str:
    if isinstance(data, (dict, list, tuple, int, float, bool)):
        return values.to_text(data)
    return values.safe_repr(data, limits.max_chars)


def _cut(text: str, limits: Limits) -> str:
    lines = text.splitlines()
    if len(lines) <= limits.max_lines and len(text) <= limits.max_chars:
        return text
    shown = "\n".join(lines[: limits.max_lines])[: limits.max_chars]
    count = shown.count("\n") + 1
    return f"{shown}\n... {count:,} of {len(lines):,} lines; .data holds all"


def html_text(shell: Any, result: ToolResult, mask: Mask, limits: Limits) -> str | None:
    """A result as the HTML of a cell."""
    if result.error is None and not isinstance(result.data, (str, dict, list, tuple, int, float, bool, type(None))):
        own = shell.display_formatter.formatters["text/html"](result.data)
        if isinstance(own, str):
            return mask(own)
    return _pre(plain_text(result, mask, limits))


def _pre(text: str) -> str:
    style = "margin:0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:30em;overflow:auto"
    return f'<pre style="{style}">{escape(text)}</pre>'
