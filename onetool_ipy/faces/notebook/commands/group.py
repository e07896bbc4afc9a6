"""What the groups of sub-commands share: what they may look at, and a few ways to read their words.

A group is a class made with a `Bench`: `table()` gives word -> function of the rest of the line, and `HELP` the lines
that `%tool help` shows for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.errors import LastFailure
from onetool_ipy.render.views import ErrorText
from onetool_ipy.toolbox import Toolbox

__all__ = ["Bench", "CellCommand", "Command", "Group", "one_name", "page", "shown", "table_lines"]

Command = Callable[[str], Any]
CellCommand = Callable[[str, str | None], Any]
"""A command that takes what stands below it in its cell too."""


class Bench(NamedTuple):
    """What a sub-command may look at and use."""

    box: Toolbox
    last: LastFailure
    profile: Path
    run_example: Callable[[str], Any]
    shell: Any


class Group(Protocol):
    """Some sub-commands of one theme."""

    HELP: ClassVar[tuple[str, ...]]

    def table(self) -> dict[str, Command]:
        """Word -> what it does with the rest of the line."""


def page(box: Toolbox, lines: Sequence[str]) -> Page:
    """Lines as a page of plain text, without secrets."""
    return Page(box.mask("\n".join(lines)))


def shown(value: Any) -> Any:
    """A value of `ot` as it is; an error text as the error it is."""
    if isinstance(value, ErrorText):
        raise UsageProblem(value.removeprefix("Error: "))
    return value


def one_name(rest: str, command: str) -> str:
    """The one name that a sub-command wants."""
    asked = read_options(rest, {})
    if len(asked.words) != 1:
        raise UsageProblem(f"%tool {command} wants one name.", hint=f"For example: %tool {command} time.now")
    return asked.words[0]


def table_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns as lines."""
    width = max((len(left) for left, _ in rows), default=0)
    return [f"{left:<{width}}  {right}".rstrip() for left, right in rows]
