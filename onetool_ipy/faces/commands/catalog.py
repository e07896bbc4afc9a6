"""The commands that look: at tools and packs, at the usage, and at the screens.

`Pages` makes the pages (overview, pack, tool, help, `--dry`) that other lines of `%tool` show too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onetool_ipy.base.errors import Disabled, Returned, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.load import all_labels
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.commands import (
    CommandContext,
    DataPage,
    Page,
    checked,
    one_word,
    page,
    text_page,
)
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.packs.ot.catalog import pack_parts, tool_parts
from onetool_ipy.packs.ot.usage import OT_LEFT_OUT, UsageTools
from onetool_ipy.render.pages import Heading, Note, Part, Row, Rows, tool_rows
from onetool_ipy.render.views import ForPeople, counted
from onetool_ipy.stores.calls.query import PERIODS
from onetool_ipy.toolbox import Toolbox

_MOST_LISTED = 1_000
"""Tools that a page lists; a notebook saves them."""
_BEGIN = (
    "@tool                    write a function, above it: from onetool_ipy import tool",
    "%%tool new http my-api   paste a curl command into the cell: it becomes a tool",
    "%tool server add NAME    add an MCP server: its command line or address; %%tool: its JSON",
)
"""Three ways to begin, where nobody has made a tool yet."""
_NEXT = (
    "%tool NAME key=value ...    call it; x = %tool ... keeps the result",
    "%tool list [TEXT]           all tools, or those with TEXT in their name",
    "%tool info NAME             what a tool does and takes",
    "%tool browse                the tool browser: search, forms, results",
    "%tool --help                what else %tool can do",
)
_FIRST_USAGE = (
    "%tool                       what there is",
    "%tool NAME key=value ...    call it; x = %tool ... keeps the result",
)
USAGE = (
    "%tool                          what there is",
    "%tool PACK                     a pack's page",
    "%tool NAME key=value ...       call it; {expression} passes an object of yours",
    "%tool NAME(a=1, b=x)           call it with Python expressions",
    '%tool NAME {"a": 1}            call it with all arguments as JSON',
    "%%tool NAME                    the cell's body is the text argument (--body ARG, --args)",
    "x = %tool ...                  keep the result",
)
FLAGS = (
    "Flags: --soft --timeout S --dry --bg --unchecked -o NAME --help; after -- everything is"
    " arguments"
)


class Pages:
    """Pages about the tools of one toolbox. `commands` are those that a person needs first."""

    def __init__(self, box: Toolbox, commands: Sequence[Part] = ()) -> None:
        self._box = box
        self._commands = commands

    def overview(self) -> Page:
        """The packs, recommended and one's own first, and what to type next. `ot` is the toolbox
        itself, and no pack of tools."""
        packs = {
            name: specs
            for name, specs in self._box.registry.packs().items()
            if not specs[0].is_toolbox
        }
        is_begun = any(spec.origin != "builtin" for specs in packs.values() for spec in specs)
        total = sum(len(specs) for specs in packs.values())
        names = sorted(packs, key=lambda name: min(map(self._box.registry.place_of, packs[name])))
        packs_rows = []
        for name in names:
            tools = ", ".join(spec.short_name for spec in packs[name][:6]) + (
                ", ..." if len(packs[name]) > 6 else ""
            )
            packs_rows.append(Row(name, tools, self._label(packs[name]), link="tool"))
        parts: list[Part] = [
            Heading(f"{counted(total, 'tool')} in {counted(len(packs), 'pack')}"),
            Rows(tuple(packs_rows)),
        ]
        if not is_begun:
            parts += [Heading("Begin", level=2), Rows(help_rows(_BEGIN))]
        parts += [
            Heading("Next", level=2),
            Rows(help_rows(_NEXT)),
            Note(printable_line(self._box.config.paths.about)),
        ]
        problems = self._box.problems()
        if problems:
            rows = tuple(Row(p.where, p.text, "problem", "bad") for p in problems[:5])
            parts += [Heading(counted(len(problems), "problem"), level=2), Rows(rows)]
            parts += (
                [Note("See all of them with: %tool health")] if len(problems) > len(rows) else []
            )
        return page(self._box, parts)

    def _label(self, specs: Sequence[ToolSpec]) -> str:
        recommended = [spec.short_name for spec in specs if self._box.registry.is_recommended(spec)]
        which = "" if len(recommended) == len(specs) else f": {', '.join(recommended[:6])}"
        return counted(len(specs), "tool") + (f", recommended{which}" if recommended else "")

    def pack_page(self, name: str) -> Page:
        """A pack: its tools with their summaries. Starts the servers whose tools are not known yet,
        as a list does."""
        specs = self._box.registry.packs().get(name)
        if specs is None:  # a server that lists no tools
            servers = self._box.servers
            raise UsageProblem(
                f"The server '{name}' is {servers[name]}. {servers.reason(name)}".rstrip(),
                hint=servers.advice(name),
            )
        return self._pack_page(name, specs)

    def _pack_page(self, name: str, specs: list[ToolSpec]) -> Page:
        hint = Note(f"Look one up with: %tool info {specs[0].name}")
        return page(self._box, [*pack_parts(self._box, name, specs), hint])

    def list_page(self, specs: Sequence[ToolSpec]) -> Page:
        """Tools, recommended and one's own first. The functions of the toolbox itself are no tools
        of a person, and stand there only where nothing else does."""
        ordered, is_recommended = (
            sorted(specs, key=self._box.registry.place_of),
            self._box.registry.is_recommended,
        )
        others = [spec for spec in ordered if not spec.is_toolbox or is_recommended(spec)]
        listed = others or ordered
        notes = []
        if len(listed) > _MOST_LISTED:
            left = len(listed) - _MOST_LISTED
            notes.append(Note(f"{left:,} more. Narrow it down: %tool list TEXT"))
        if len(listed) < len(ordered):
            notes.append(Note("The functions of the toolbox itself: %tool ot"))
        return page(self._box, [tool_rows(listed[:_MOST_LISTED], is_recommended), *notes])

    def usage(self, name: str) -> Page:
        """A tool's page, a pack's, or how to use `%tool`. Starts nothing."""
        if not name:
            return page(
                self._box, [Heading("%tool"), Rows(help_rows(_FIRST_USAGE)), *self._commands]
            )
        specs = self._box.registry.known_packs().get(name)
        if specs is not None and self._box.registry.find(name) is None:
            return self._pack_page(name, specs)
        spec = self._box.registry.require(name)
        (labels,) = all_labels([spec], self._box.config)
        return page(self._box, tool_parts(spec, labels))

    def all_commands(self, lines: Sequence[str]) -> Page:
        """Every way to write a line, and every command."""
        commands = (Heading("Commands", level=2), Rows(help_rows(lines)))
        return page(self._box, [Heading("%tool"), Rows(help_rows(USAGE)), *commands, Note(FLAGS)])

    def dry(self, spec: ToolSpec, args: dict[str, Any], *, check: bool = True) -> Page:
        """What a call would send: its arguments, read and checked. Nothing runs. Raises Disabled if
        it is off."""
        if spec.disabled:
            raise Disabled.of(spec.name, spec.disabled)
        sent = spec.checker.check(args, spec.name) if check else args
        complete = spec.checker.complete(args, spec.name) if check else args
        lines = [
            f"{spec.name} would be called with:",
            *(f"  {k} = {v!r}" for k, v in complete.items()),
        ]
        for request in [] if spec.http is None else spec.http.preview(sent):
            lines += ["and would send:", f"  {request['method']} {request['url']}"]
            lines += [f"  {name}: {value}" for name, value in request["headers"].items()]
            lines += (
                [""] + [f"  {line}" for line in request["body"].splitlines()]
                if request.get("body")
                else []
            )
        return text_page(self._box, lines)


def begin_lines() -> list[tuple[str, str]]:
    """Three ways to begin: what to type, and what it does."""
    return [(typed, about.strip()) for typed, _, about in (line.partition("  ") for line in _BEGIN)]


def help_rows(lines: Iterable[str]) -> tuple[Row, ...]:
    """Lines of help as rows: what to type, two blanks or more, what it does."""
    split = (line.partition("  ") for line in lines)
    return tuple(
        Row(typed, about.strip(), link="line" if "%tool" in typed else "")
        for typed, _, about in split
    )


def list_tools(context: CommandContext, options: Options) -> Page:
    """`%tool list [TEXT]`."""
    pattern = " ".join(options.words).lower()
    specs = [spec for spec in context.box.registry.list() if pattern in spec.name.lower()]
    if not specs:
        servers = context.box.servers
        for name, state in servers.items():
            if pattern in name.lower():
                raise UsageProblem(
                    f"The server '{name}' has no tools ({state}). {servers.reason(name)}".rstrip(),
                    hint=servers.advice(name)
                    or f"Wait for it, or see what is wrong: %tool server test {name}",
                )
        raise UsageProblem(f"No tool has '{pattern}' in its name.", hint="See all with: %tool list")
    return Pages(context.box).list_page(specs)


def show_tool(context: CommandContext, options: Options) -> Page:
    """`%tool info NAME`."""
    return Pages(context.box).usage(one_word(options, "info"))


def reload(context: CommandContext, _options: Options) -> Page:
    """`%tool reload`."""
    context.box.reload()
    return Page("OK: Configuration reloaded")


def health(context: CommandContext, _options: Options) -> DataPage:
    """`%tool health`: a page; for programs what `ot.health()` gives, in the words of screens."""
    report = context.box.ot.health()
    # Only the specification of `ot.health()` calls an MCP server a proxy.
    data = {"server" if key == "proxy" else key: value for key, value in report.items()}
    return DataPage.of(page(context.box, report.parts()), data, is_failure=bool(report["problems"]))


def stats(context: CommandContext, options: Options) -> Any:
    """`%tool stats [PERIOD]`; with `--view` as a screen."""
    if "--view" in options.values:
        return usage(context, options)
    if "--since" in options.values:
        raise UsageProblem(
            "%tool stats takes --since with --view alone.",
            hint=f"Write: %tool stats --view --since {options.values['--since']}",
        )
    if len(options.words) > 1:
        raise UsageProblem(
            "%tool stats takes at most one period.", hint="For example: %tool stats week"
        )
    period = options.words[0] if options.words else "all"
    if period not in PERIODS:
        raise UsageProblem(
            f"%tool stats does not know the period '{period[:40]}'.",
            hint=f"One of: {', '.join(PERIODS)}.",
        )
    tool, output = (options.values.get(name, "") for name in ("--tool", "--output"))
    is_own = not tool  # calls of `ot` count where one of them is named, as in the history
    try:
        record = ForPeople(UsageTools(context.box).sums(period, tool, output, hides_ot=is_own))
    except Returned as exc:  # the report could not be written
        raise UsageProblem(exc.message.removeprefix("Error: "), hint=exc.hint) from exc
    record.note = OT_LEFT_OUT if is_own else ""
    return record


def results(context: CommandContext, options: Options) -> Any:
    """`%tool results [HANDLE|TEXT]`."""
    text = " ".join(options.words)
    if text and any(row["handle"] == text for row in context.box.results.list()):
        return view(context, options) if context.shell else context.box.ot.result(handle=text)
    rows = checked(context.box.ot.results(pattern=text))
    if text and not rows:
        raise UsageProblem(
            f"No stored result has '{text[:40]}' as its handle or in its tool's name.",
            hint="See all with: %tool results",
        )
    rows.if_empty = "No results are stored. A large one is stored by itself."
    return rows


def browse(context: CommandContext, options: Options) -> object:
    """`%tool browse [NAME]`."""
    if len(options.words) > 1:
        raise UsageProblem(
            "%tool browse takes at most one name.", hint="For example: %tool browse time.now"
        )
    return context.box.ot.browser(options.words[0] if options.words else "")


def view(context: CommandContext, options: Options) -> object:
    """`%tool results HANDLE`."""
    return context.box.ot.view(
        one_word(options, "view", what="handle", hint="See them with: %tool results")
    )


def usage(context: CommandContext, options: Options) -> object:
    """`%tool stats [PERIOD] --view`."""
    if len(options.words) > 1:
        raise UsageProblem(
            "%tool stats takes at most one period.", hint="One of: day, week, month, all."
        )
    period = options.words[0] if options.words else "week"
    return context.box.ot.usage(
        period, options.values.get("--tool", ""), options.values.get("--since", "")
    )
