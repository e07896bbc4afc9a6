"""The sub-commands of `%tool`, in groups by subject; this file holds what the groups share.

A group is a `CommandGroup`. Its `table()` maps each sub-command to the function that takes the rest of the line; `HELP`
are its lines of `%tool help`. To add a group, list it in `faces.notebook.run`. A command returns a value that shows
itself; commands do not know how a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.errors import LastFailure
from onetool_ipy.render.pages import Part, masked, to_text
from onetool_ipy.render.views import ErrorText
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.core.question import Question, Reply

__all__ = [
    "CellCommand",
    "Command",
    "CommandContext",
    "CommandGroup",
    "checked",
    "confirmed",
    "one_word",
    "page",
    "put",
    "text_page",
]

Command = Callable[[str], Any]
CellCommand = Callable[[str, str | None], Any]
"""A command that also takes the body of its cell."""


class CommandContext(NamedTuple):
    """What the sub-commands of one shell use."""

    box: Toolbox
    last: LastFailure
    profile: Path
    run_example: Callable[[str], Any]
    shell: Any


class CommandGroup:
    """Some sub-commands of one subject."""

    HELP: ClassVar[tuple[str, ...]] = ()

    def __init__(self, context: CommandContext) -> None:
        self.context = context
        self.box = context.box

    def table(self) -> dict[str, Command]:
        """The sub-commands by name."""
        raise NotImplementedError

    def cells(self) -> dict[str, CellCommand]:
        """Those that also take the body of a cell."""
        return {}

    def page(self, *lines: str) -> Page:
        """Lines as a page of plain text, without secrets."""
        return text_page(self.box, lines)


def page(box: Toolbox, parts: Sequence[Part]) -> Page:
    """Parts as a page, without secrets."""
    shown = masked(tuple(parts), box.mask)
    return Page(to_text(shown, get_terminal_size((100, 24)).columns), shown)


def text_page(box: Toolbox, lines: Sequence[str]) -> Page:
    """Lines as a page of plain text, without secrets."""
    return Page(box.mask("\n".join(lines)))


def checked(value: Any) -> Any:
    """Return a value of `ot`; raise UsageProblem if it is an error text."""
    if isinstance(value, ErrorText):
        raise UsageProblem(value.removeprefix("Error: "))
    return value


def one_word(rest: str, command: str, *, what: str = "name", hint: str = "") -> str:
    """The only word that a sub-command takes."""
    asked = read_options(rest, {})
    if len(asked.words) != 1:
        hint = hint or f"For example: %tool {command} time.now"
        raise UsageProblem(f"%tool {command} needs one {what}.", hint=hint)
    return asked.words[0]


def confirmed(box: Toolbox, question: str, yes: str, details: Sequence[str] = ()) -> bool | None:
    """Ask for a yes, with buttons or typed; None if nobody can answer. `details` are the lines that a yes is about."""
    from onetool_ipy.core.question import Question  # late: most notebooks ask nothing

    reply = put(box, Question("%tool", question, details=tuple(details), yes=yes))
    return None if reply is None else reply.action == "accept"


def put(box: Toolbox, question: Question) -> Reply | None:
    """Put the question of a command; None if nobody can answer. Raises UsageProblem after Stop."""
    from onetool_ipy.core.question import NobodyToAsk  # late, too

    try:
        return box.put_question(question)
    except NobodyToAsk:
        return None
    except KeyboardInterrupt:
        raise UsageProblem("Stopped at this question; nothing more was done.") from None
