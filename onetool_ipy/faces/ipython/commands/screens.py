"""`%tool browse | view | usage`: the screens."""

from __future__ import annotations

from typing import Any, ClassVar

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.group import Bench, Command

__all__ = ["Look"]


class Look:
    """The sub-commands that open a screen."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool browse [NAME]            the tool browser: search, forms, results",
        "%tool view HANDLE              page, search and sort a stored result",
        "%tool usage [day|week|month]   the usage view; --tool NAME",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box

    def table(self) -> dict[str, Command]:
        return {"browse": self._browse, "view": self._view, "usage": self._usage}

    def _browse(self, rest: str) -> Any:
        words = parse.read_options(rest, {}).words
        if len(words) > 1:
            raise UsageProblem("%tool browse wants at most one name.", hint="For example: %tool browse time.now")
        return self._box.ot.browser(words[0] if words else "")

    def _view(self, rest: str) -> Any:
        words = parse.read_options(rest, {}).words
        if len(words) != 1:
            raise UsageProblem("%tool view wants one handle.", hint="See them with: %tool results")
        return self._box.ot.view(words[0])

    def _usage(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--tool": "text"})
        if len(asked.words) > 1:
            raise UsageProblem("%tool usage wants at most one period.", hint="One of: day, week, month, all.")
        period = asked.words[0] if asked.words else "week"
        return self._box.ot.usage(period, asked.given.get("--tool", ""))
