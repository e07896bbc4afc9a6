"""`%tool list | info | help | search | health | why | reload`: what there is, how it is, what went wrong."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command, one_name, page, shown, table_lines
from onetool_ipy.faces.ipython.commands.pages import Pages
from onetool_ipy.faces.ipython.display import Page

__all__ = ["Catalog"]


class Catalog:
    """The sub-commands that look."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool list [TEXT]              tools, or those with TEXT in their name",
        "%tool info NAME                what a tool does and takes (also: %tool NAME?)",
        "%tool search WORDS             find by words; typos are forgiven",
        "%tool health                   what is wrong now, and what to do",
        "%tool why                      the whole story of the last failure",
        "%tool reload                   read configuration and pack files again",
    )

    def __init__(self, bench: Bench, pages: Pages) -> None:
        self._box = bench.box
        self._last = bench.last
        self._pages = pages

    def table(self) -> dict[str, Command]:
        return {
            "list": self._list,
            "info": self._info,
            "help": self._help,
            "search": self._search,
            "health": self._health,
            "why": self._why,
            "reload": self._reload,
        }

    def _list(self, rest: str) -> Page:
        asked = parse.read_options(rest, {})
        pattern = " ".join(asked.words).lower()
        specs = sorted(self._box.registry.list(), key=lambda spec: spec.name)
        found = [s for s in specs if pattern in s.name.lower()]
        if not found:
            raise UsageProblem(f"No tool's name holds '{pattern}'.", hint="See all with: %tool list")
        return page(self._box, table_lines([(s.name, s.summary) for s in found]))

    def _info(self, rest: str) -> Page:
        return self._pages.usage(one_name(rest, "info"))

    def _help(self, rest: str) -> Page:
        return self._pages.usage(rest.strip())

    def _why(self, rest: str) -> Page:
        parse.read_options(rest, {})
        return Page(self._last.why())

    def _reload(self, rest: str) -> Page:
        parse.read_options(rest, {})
        self._box.reload()
        return Page("OK: Configuration reloaded")

    def _search(self, rest: str) -> Any:
        return shown(self._box.ot.help(query=rest.strip()))

    def _health(self, rest: str) -> Any:
        parse.read_options(rest, {})
        return self._box.ot.health()
