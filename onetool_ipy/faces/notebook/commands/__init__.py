"""The sub-commands of `%tool`, in groups by theme. To add one: write a group, and list it in `_groups`.

Each reads its own words and gives a value that shows itself; nothing here knows how a call runs.
"""

from __future__ import annotations

from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.notebook.commands.bundles import BundleCommands, NewHttp
from onetool_ipy.faces.notebook.commands.catalog import Catalog, Look, Pages, Usage
from onetool_ipy.faces.notebook.commands.group import Bench, CellCommand, Command, Group
from onetool_ipy.faces.notebook.commands.jobs import Author, JobCommands, Replay
from onetool_ipy.faces.notebook.commands.servers import Serve, ServerCommands
from onetool_ipy.faces.notebook.commands.trust import TrustCommands

__all__ = ["Bench", "Commands"]


class Commands:
    """What can be asked of a toolbox besides calling a tool."""

    def __init__(self, bench: Bench) -> None:
        help_lines: list[str] = []
        self.pages = Pages(bench.box, help_lines)
        self._table: dict[str, Command] = {}
        self._cells: dict[str, CellCommand] = {}
        for group in _groups(bench, self.pages):
            self._table.update(group.table())
            self._cells.update(getattr(group, "cells", dict)())
            help_lines.extend(group.HELP)

    def words(self) -> frozenset[str]:
        return frozenset(self._table)

    def run(self, word: str, rest: str, cell: str | None = None) -> Any:
        if cell is None or not cell.strip():
            return self._table[word](rest)
        if word not in self._cells:
            raise UsageProblem(f"%tool {word} takes nothing but its own line.", hint=f"Write it as: %tool {word}")
        return self._cells[word](rest, cell)


def _groups(bench: Bench, pages: Pages) -> list[Group]:
    return [
        Catalog(bench, pages),
        Usage(bench),
        JobCommands(bench),
        Author(bench),
        NewHttp(bench),
        BundleCommands(bench),
        Replay(bench),
        Look(bench),
        Serve(bench),
        ServerCommands(bench),
        TrustCommands(bench),
    ]
