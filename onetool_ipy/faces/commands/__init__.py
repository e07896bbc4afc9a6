"""What a command is: a row of the table that `%tool`, the command line and completion read.

A command takes a context and its parsed options, and returns a value that shows itself: a page, a
listing, a result. Commands do not know how a call runs, nor where their answer is printed. `table`
lists them all; to add one, write its function in the module of its subject and a row there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.question import NobodyToAsk, Question, Reply
from onetool_ipy.faces.line.grammar import OptionKind, Options
from onetool_ipy.faces.notebook.display import LastFailure
from onetool_ipy.render import pages
from onetool_ipy.render.pages import Part, Row, Rows, masked, to_text
from onetool_ipy.render.views import ErrorText
from onetool_ipy.toolbox import Toolbox

if TYPE_CHECKING:
    from onetool_ipy.faces.mcp.http import Serving

Page = pages.PageText
Place = Literal["everywhere", "notebook", "shell"]
"""Where a command runs: in a notebook as `%tool NAME`, in a shell as `onetool-ipy NAME`, or in
both."""
Group = Literal["call", "make", "look back", "trust"]
"""The groups of the first page of help; all else is behind it."""
Offer = Literal["tool", "server", "handle", "client", "bundle", "uri", "file", "table", "session"]
"""Names that completion looks up."""


class WrongWords(UsageProblem):
    """A command whose own words or options are wrong, not what it was to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command. `offers` are the values that completion proposes: words, or names
    that it looks up. `aliases` are other spellings; `--no-tools=false` is a switch that stands for
    the option with this value."""

    name: str
    kind: OptionKind = "switch"
    help: str = ""
    metavar: str = ""
    offers: Offer | tuple[str, ...] = ()
    place: Place = "everywhere"
    aliases: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The option as help shows it."""
        return f"{self.name} {self.metavar or 'TEXT'}" if self.kind != "switch" else self.name


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table. A name of two words is a verb of the command that its first word names.

    `words` and `help` describe it; `takes` are the words and names that completion offers for each
    of its words. All behind its first `leading` words is taken as typed; with `is_text` all of it
    is one text. One that `is_cell` is the first line of a cell, `%%tool`. `elsewhere` is said where
    the command does not run. `output` is what the command line prints: text, or JSON with `--json`;
    JSON where no terminal is (`piped`) or always (`json`); words on stderr (`words`); or what the
    command itself writes (`own`). `group` is where the first page of help has it; it is not on that
    page without one. `alias_of` is the line that says the same today: an alias works, and is shown
    nowhere.
    """

    name: str
    words: str
    help: str
    run: Callable[[Any, Options], object]
    _: KW_ONLY
    options: tuple[Option, ...] = ()
    takes: tuple[Offer | tuple[str, ...], ...] = ()
    leading: int | None = None
    takes_body: bool = False
    is_cell: bool = False
    is_text: bool = False
    is_group: bool = False
    place: Place = "everywhere"
    elsewhere: str = ""
    output: Literal["text", "piped", "json", "words", "own"] = "text"
    is_lenient: bool = False
    group: Group | None = None
    alias_of: str = ""

    def runs_in(self, place: Place) -> bool:
        """Whether the command runs in a notebook, or in a shell."""
        return self.place in ("everywhere", place)

    def options_in(self, place: Place) -> Mapping[str, Option]:
        """The options that the command has there, by name."""
        return {
            option.name: option for option in self.options if option.place in ("everywhere", place)
        }

    def kinds(self, place: Place) -> dict[str, OptionKind]:
        """Every spelling of the options that the command has there, with what follows it."""
        kinds: dict[str, OptionKind] = {}
        for name, option in self.options_in(place).items():
            kinds[name] = option.kind
            for alias in option.aliases:
                spelling, _, value = alias.partition("=")
                kinds[spelling] = "switch" if value else option.kind
        return kinds

    def named(self, values: Mapping[str, Any], place: Place) -> dict[str, Any]:
        """Return the options of a line by their names, whatever their spelling. Raises
        UsageProblem."""
        named = dict(values)
        for name, option in self.options_in(place).items():
            typed = name if name in values else ""
            for alias in option.aliases:
                spelling, _, value = alias.partition("=")
                if spelling not in values:
                    continue
                if typed:
                    hint = "Keep one of them."
                    raise WrongWords(f"{typed} and {spelling} exclude each other.", hint=hint)
                typed = spelling
                named[name] = value or named[spelling]
                del named[spelling]
        return named

    def option_rows(self, place: Place) -> Rows:
        """The options that the command has there, as help shows them."""
        return Rows(
            tuple(Row(option.usage, option.help) for option in self.options_in(place).values())
        )

    @property
    def usage(self) -> str:
        """The command and its words, as typed after `%tool` or `onetool-ipy`."""
        return f"{self.name} {self.words}".rstrip()

    def line(self, place: Place) -> str:
        """The command and its words, as typed there."""
        lead = "onetool-ipy" if place == "shell" else "%%tool" if self.is_cell else "%tool"
        return f"{lead} {self.usage}"


class CommandContext:
    """What commands use, and what one shell remembers between them. The toolbox is opened when a
    command needs it."""

    def __init__(
        self,
        open_box: Callable[[], Toolbox],
        last: LastFailure | None = None,
        profile: Path | None = None,
        run_example: Callable[[str], object] | None = None,
        shell: Any = None,
        *,
        command_words: frozenset[str],
    ) -> None:
        self._open_box = open_box
        self.command_words = command_words
        """The words after `%tool` that name a command, and so no tool."""
        self._last = last
        self.profile = profile
        self.run_example = run_example
        self.shell = shell
        self.width = 0
        """The columns of the terminal that the answer goes to; 0 where it is not cut."""
        self.serving: Serving | None = None
        self.end_serving: Callable[[], None] = lambda: None
        self.listed_calls: list[str] = []
        """The ids of the calls that `history` listed last."""

    @cached_property
    def box(self) -> Toolbox:
        return self._open_box()

    @property
    def opened(self) -> Toolbox | None:
        """The toolbox, if a command has needed it."""
        box: Toolbox | None = self.__dict__.get("box")
        return box

    @property
    def place(self) -> Place:
        return "shell" if self.shell is None else "notebook"

    @cached_property
    def last(self) -> LastFailure:
        return self._last or LastFailure(self.shell, self.box.mask)

    def publish(self, bundle: Mapping[str, str], key: str, *, is_update: bool = False) -> None:
        """Show something while a command runs: as an output that can be replaced, or on stderr."""
        if self.shell is None:
            sys.stderr.write(f"{bundle['text/plain']}\n")
        else:
            self.shell.display_pub.publish(
                dict(bundle), transient={"display_id": key}, update=is_update
            )

    def page(self, *lines: str) -> Page:
        """Lines as a page of plain text, without secrets."""
        return text_page(self.box, lines)


class DataPage(Page):
    """A page with the data that a program gets instead of it. `is_failure` makes the command's exit
    code 1."""

    data: object
    is_failure: bool

    @classmethod
    def of(cls, page: Page, data: object, *, is_failure: bool = False) -> DataPage:
        """The same page with data."""
        with_data = cls(str(page), page.parts)
        with_data.data, with_data.is_failure = data, is_failure
        return with_data


def page(box: Toolbox, parts: Sequence[Part]) -> Page:
    """Parts as a page, without secrets."""
    plain = masked(tuple(parts), box.mask)
    return Page(to_text(plain, get_terminal_size((100, 24)).columns), plain)


def text_page(box: Toolbox, lines: Sequence[str]) -> Page:
    """Lines as a page of plain text, without secrets."""
    return Page(box.mask("\n".join(lines)))


def checked(value: Any) -> Any:
    """Return a value of `ot`; raise UsageProblem if it is an error text."""
    if isinstance(value, ErrorText):
        raise UsageProblem(value.removeprefix("Error: "))
    return value


def one_word(options: Options, command: str, *, what: str = "name", hint: str = "") -> str:
    """The only word that a command takes."""
    if len(options.words) != 1:
        hint = hint or f"For example: %tool {command} time.now"
        raise WrongWords(f"%tool {command} needs one {what}.", hint=hint)
    return options.words[0]


def confirmed(box: Toolbox, question: str, yes: str, details: Sequence[str] = ()) -> bool | None:
    """Ask for a yes, with buttons or typed; None if nobody can answer. `details` are the lines that
    a yes is about."""
    reply = put(box, Question("%tool", question, details=tuple(details), yes=yes))
    return None if reply is None else reply.action == "accept"


def put(box: Toolbox, question: Question) -> Reply | None:
    """Put the question of a command; None if nobody can answer. Raises UsageProblem after Stop."""
    try:
        return box.put_question(question)
    except NobodyToAsk:
        return None
    except KeyboardInterrupt:
        raise UsageProblem("Stopped at this question; nothing more was done.") from None
