"""Stored results: `ot.result` pages and searches one, `ot.results` lists them (spec 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onetool_ipy.base.search import contains
from onetool_ipy.core import current
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.packs.ot.catalog import INFO
from onetool_ipy.packs.ot.errors import choice, worded
from onetool_ipy.render import html
from onetool_ipy.render.views import Listing, Record, counted

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox


@without_secrets
class ResultLines(Record):
    """Lines of a stored result, shown with their numbers."""

    handle: str

    def view(self) -> Any:
        """Open the whole result in the viewer."""
        return current.require().ot.view(self.handle)

    def _repr_html_(self) -> str:
        first = self["offset"]
        numbers = self.get("line_numbers") or range(first, first + len(self["lines"]))
        lines, more = counted(self["total_lines"], "line"), ""
        of = f"{self['matched']:,} found in {lines}" if "matched" in self else lines
        if self["has_more"]:
            more = f"; more with offset={first + self['returned']}"
        text = f"{self['returned']:,} of {of}{more}"
        return html.numbered(zip(numbers, self["lines"], strict=False)) + html.note(text)


class ResultTools:
    """The functions about stored results, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    @worded
    def result(
        self, handle: str, offset: int = 1, limit: int = 100, search: str = "", fuzzy: bool = False
    ) -> Any:
        """Page through or search a stored result.

        Args:
            handle: Its handle.
            offset: The first line, counted from 1 (of those found, with search).
            limit: How many lines.
            search: Only lines that match this regular expression (RE2; (?i) ignores case).
            fuzzy: Find lines with similar words instead, best first.

        Returns:
            {lines, total_lines, returned, offset, has_more}, with search also {matched,
            line_numbers}.

        Example:
            ot.result(handle="k3f9a2", search="error")
        """
        page = self._box.results.query(
            handle, offset=offset, limit=limit, search=search or None, fuzzy=fuzzy
        )
        lines = ResultLines(page)
        lines.handle = handle
        return lines

    @mark(read_only=True)
    @worded
    def results(self, pattern: str = "", info: str = "min") -> Any:
        """List the stored results, newest first.

        Args:
            pattern: Only those with this text in their handle or tool.
            info: list (handles), min or full (handle, tool, created, lines, bytes, expires).

        Returns:
            Handles or rows.

        Example:
            ot.results()
        """
        choice("info", info, INFO, "ot.results(info='min')")
        rows = [
            r
            for r in self._box.results.list()
            if contains(pattern, r["handle"]) or contains(pattern, r["tool"])
        ]
        if info == "list":
            return Listing(row["handle"] for row in rows)
        return Listing(
            {**row, "created": _time(row["created"]), "expires": _time(row["expires"])}
            for row in rows
        )


def _time(moment: Any) -> str:
    return (
        str(moment.isoformat(timespec="seconds")) if hasattr(moment, "isoformat") else str(moment)
    )
