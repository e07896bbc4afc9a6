"""The sub-commands of `%tool`, in groups by theme. To add one: write a group, and list it in `_groups`.

Each reads its own words and gives a value that shows itself; nothing here knows how a call runs.
"""

from __future__ import annotations

from typing import Any

from onetool_ipy.faces.ipython.commands.author import Author
from onetool_ipy.faces.ipython.commands.catalog import Catalog
from onetool_ipy.faces.ipython.commands.group import Bench, Command, Group
from onetool_ipy.faces.ipython.commands.pages import Pages
from onetool_ipy.faces.ipython.commands.serve import Serve
from onetool_ipy.faces.ipython.commands.usage import Usage

__all__ = ["Bench", "Commands"]


class Commands:
    """What can be asked of a toolbox besides calling a tool."""

    def __init__(self, bench: Bench) -> None:
        help_lines: list[str] = []
        self.pages = Pages(bench.box, help_lines)
        self._table: dict[str, Command] = {}
        for group in _groups(bench, self.pages):
            self._table.update(group.table())
            help_lines.extend(group.HELP)

    def words(self) -> frozenset[str]:
        return frozenset(self._table)

    def run(self, word: str, rest: str) -> Any:
        return self._table[word](rest)


def _groups(bench: Bench, pages: Pages) -> list[Group]:
    return [
        Catalog(bench, pages),
        Usage(bench),
        Author(bench),
        Serve(bench),
    ]
