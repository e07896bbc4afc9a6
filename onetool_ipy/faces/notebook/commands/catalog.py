"""The sub-commands that look: at tools and packs, at past calls and results, and at the screens.

`Pages` makes the pages (overview, pack, tool, help, `--dry`) that other lines of `%tool` show too.

`story` is the page of `%tool why`, about the last failure: the tool, the arguments as it received them, what it wanted,
what the other side said, and for HTTP tools the request and the response. A tool's own code is shown by its own frames;
ours come only with `--internals`. The page has no secrets: arguments are those of the call log, requests are masked
where they are made, and all of it is masked again.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import Disabled, OneToolError, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.core.call_line import format_call
from onetool_ipy.core.names import ASK
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.line.grammar import read_options
from onetool_ipy.faces.notebook.commands import (
    Command,
    CommandContext,
    CommandGroup,
    checked,
    confirmed,
    one_word,
    page,
    text_page,
)
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.errors import foreign_frames, raise_result
from onetool_ipy.packs.ot.catalog import pack_parts, tool_parts
from onetool_ipy.render.pages import Folded, Heading, Note, Part, Row, Rows, tool_rows
from onetool_ipy.render.views import counted, local_time
from onetool_ipy.toolbox import Toolbox

__all__ = ["CatalogCommands", "Pages", "story"]


class Pages:
    """Pages about the tools of one toolbox. `help_lines` are the lines of the sub-commands."""

    def __init__(self, box: Toolbox, help_lines: Sequence[str]) -> None:
        self._box = box
        self._help = help_lines

    def overview(self) -> Page:
        """The packs, recommended and one's own first, and what to type next."""
        packs = self._box.registry.packs()
        total = sum(len(specs) for specs in packs.values())
        names = sorted(packs, key=lambda name: min(map(self._box.place_of, packs[name])))
        rows = (Row(name, _names(packs[name]), self._label(packs[name]), link="tool") for name in names)
        parts: list[Part] = [
            Heading(f"{counted(total, 'tool')} in {counted(len(packs), 'pack')}"),
            Rows(tuple(rows)),
            Heading("Next", level=2),
            Rows(_lines(_NEXT)),
            Note(printable_line(self._box.config.paths.about)),
        ]
        problems = self._box.problems()
        if problems:
            shown = tuple(Row(p.where, p.text, "problem", "bad") for p in problems[:5])
            parts += [Heading(counted(len(problems), "problem"), level=2), Rows(shown)]
            parts += [Note("See all of them with: %tool health")] if len(problems) > len(shown) else []
        return page(self._box, parts)

    def _label(self, specs: Sequence[ToolSpec]) -> str:
        recommended = [spec.short_name for spec in specs if self._box.is_recommended(spec)]
        which = "" if len(recommended) == len(specs) else f": {', '.join(recommended[:6])}"
        return counted(len(specs), "tool") + (f", recommended{which}" if recommended else "")

    def pack_page(self, name: str) -> Page:
        """A pack: its tools with their summaries. Starts the servers whose tools are not known yet, as a list does."""
        specs = self._box.registry.packs().get(name)
        if specs is None:  # a server that lists no tools
            servers = self._box.servers
            raise UsageProblem(f"The server '{name}' is {servers[name]}. {servers.reason(name)}".rstrip())
        return self._pack_page(name, specs)

    def _pack_page(self, name: str, specs: list[ToolSpec]) -> Page:
        hint = Note(f"Look one up with: %tool info {specs[0].name}")
        return page(self._box, [*pack_parts(self._box, name, specs), hint])

    def list_page(self, specs: Sequence[ToolSpec]) -> Page:
        """Tools, recommended and one's own first; those about the toolbox itself are folded, if there are others."""
        found, is_recommended = sorted(specs, key=self._box.place_of), self._box.is_recommended
        others = [spec for spec in found if spec.pack != "ot" or is_recommended(spec)]
        about = found[len(others) :]
        if len(found) > _MOST_LISTED:
            more = Note(f"{len(found) - _MOST_LISTED:,} more. Narrow it down: %tool list TEXT")
            return page(self._box, [tool_rows(found[:_MOST_LISTED], is_recommended), more])
        if not others or not about:
            return page(self._box, [tool_rows(found, is_recommended)])
        title = f"ot: {counted(len(about), 'tool')} about the toolbox itself"
        return page(self._box, [tool_rows(others, is_recommended), Folded(title, (tool_rows(about, is_recommended),))])

    def usage(self, name: str) -> Page:
        """A tool's page, a pack's, or how to use `%tool`. Starts nothing."""
        if not name:
            commands = (Heading("Commands", level=2), Rows(_lines(self._help)))
            return page(self._box, [Heading("%tool"), Rows(_lines(USAGE)), *commands, Note(FLAGS)])
        specs = self._box.registry.known_packs().get(name)
        if specs is not None and self._box.registry.find(name) is None:
            return self._pack_page(name, specs)
        return page(self._box, tool_parts(self._box.registry.require(name)))

    def command(self, word: str) -> Page:
        """The lines of `%tool help` about one sub-command."""
        about = [line for line in self._help if re.match(rf"%%?tool {re.escape(word)}s?\b", line)]
        return page(self._box, [Rows(_lines(about))])

    def dry(self, spec: ToolSpec, args: dict[str, Any], *, check: bool = True) -> Page:
        """What a call would send: its arguments, read and checked. Nothing runs. Raises Disabled if it is off."""
        if spec.disabled:
            raise Disabled.of(spec.name, spec.disabled)
        sent = spec.checker.check(args, spec.name) if check else args
        shown = spec.checker.complete(args, spec.name) if check else args
        lines = [f"{spec.name} would be called with:", *(f"  {k} = {v!r}" for k, v in shown.items())]
        for request in [] if spec.http is None else spec.http.preview(sent):
            lines += ["and would send:", f"  {request['method']} {request['url']}"]
            lines += [f"  {name}: {value}" for name, value in request["headers"].items()]
            lines += [""] + [f"  {line}" for line in request["body"].splitlines()] if request.get("body") else []
        return text_page(self._box, lines)


_MOST_LISTED = 1_000
"""Tools that a page lists; a notebook saves them."""
_NEXT = (
    "%tool list [TEXT]           all tools, or those with TEXT in their name",
    "%tool info NAME             what a tool does and takes",
    "%tool NAME key=value ...    call it; x = %tool ... keeps the result",
    "%tool browse                the tool browser: search, forms, results",
    "@tool                       above a function of yours makes it a tool: from onetool_ipy import tool",
    "%tool --help                everything that %tool can do",
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
FLAGS = "Flags: --soft --timeout S --dry --bg --unchecked -o NAME --help; after -- everything is arguments"


def _lines(lines: Iterable[str]) -> tuple[Row, ...]:
    """Lines of help as rows: what to type, two blanks or more, what it does."""
    split = (line.partition("  ") for line in lines)
    return tuple(Row(typed, about.strip(), link="line" if "%tool" in typed else "") for typed, _, about in split)


def _names(specs: Sequence[ToolSpec]) -> str:
    shown = [spec.short_name for spec in specs[:6]]
    return ", ".join(shown) + (", ..." if len(specs) > len(shown) else "")


class CatalogCommands(CommandGroup):
    """The sub-commands that show what there is and what was."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool list [TEXT]              tools, or those with TEXT in their name",
        "%tool info NAME                what a tool does and takes (also: %tool NAME?)",
        "%tool search WORDS             find by words; typos are forgiven",
        "%tool health                   what is wrong now, and what to do",
        "%tool why [--internals]        the whole story of the last failure",
        "%tool reload                   read configuration and pack files again",
        "%tool history [N] [WORDS]      the newest calls, or those with WORDS; --failed, --tool NAME",
        "%tool history rerun [N or id]  call again",
        "%tool stats [day|week|month]   how the tools are used; --tool NAME, --output FILE.html",
        "%tool results [TEXT]           stored results; ot.result(handle=...) pages through one",
        "%tool browse [NAME]            the tool browser: search, forms, results",
        "%tool view HANDLE              page, search and sort a stored result",
        "%tool usage [day|week|month]   the usage view; --tool NAME",
    )

    def __init__(self, context: CommandContext, pages: Pages) -> None:
        super().__init__(context)
        self._pages = pages

    def table(self) -> dict[str, Command]:
        return {
            "list": self._list,
            "info": lambda rest: self._pages.usage(one_word(rest, "info")),
            "help": lambda rest: self._pages.usage(rest.strip()),
            "search": self._search,
            "health": self._health,
            "why": self._why,
            "reload": self._reload,
            "stats": self._stats,
            "history": self._history,
            "results": self._results,
            "browse": self._browse,
            "view": lambda rest: self.box.ot.view(
                one_word(rest, "view", what="handle", hint="See them with: %tool results")
            ),
            "usage": self._usage,
        }

    def _list(self, rest: str) -> Page:
        asked = read_options(rest, {})
        pattern = " ".join(asked.words).lower()
        found = [spec for spec in self.box.registry.list() if pattern in spec.name.lower()]
        if not found:
            raise UsageProblem(f"No tool's name holds '{pattern}'.", hint="See all with: %tool list")
        return self._pages.list_page(found)

    def _search(self, rest: str) -> Any:
        found = checked(self.box.ot.help(query=rest.strip()))
        return page(self.box, found.parts) if isinstance(found, Page) else found

    def _why(self, rest: str) -> Page:
        asked = read_options(rest, {"--internals": "switch"})
        return self.page(*story(self.box, self.context.last.failed, internals="--internals" in asked.given))

    def _reload(self, rest: str) -> Page:
        read_options(rest, {})
        self.box.reload()
        return Page("OK: Configuration reloaded")

    def _health(self, rest: str) -> Any:
        read_options(rest, {})
        return page(self.box, self.box.ot.health().parts())

    def _stats(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text", "--output": "text"})
        period = asked.words[0] if asked.words else "all"
        given = {name[2:]: value for name, value in asked.given.items()}
        return checked(self.box.ot.stats(period=period, **given))

    def _history(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text", "--failed": "switch"})
        if asked.words[:1] == ["rerun"]:
            return self._rerun(asked.words[1:])
        given = {name[2:]: value for name, value in asked.given.items()}
        words = asked.words
        if words and words[0].isdecimal():
            given["limit"] = _count(words[0])
            words = words[1:]
        return checked(self.box.ot.history(search=" ".join(words), **given))

    def _rerun(self, words: list[str]) -> Any:
        """Repeat a call, given by its id or by how many calls ago it was (1 is the last)."""
        wanted = words[0] if words else "1"
        rows = [row for row in self.box.log.history(limit=1000) if not row.tool.startswith("ot.") and row.tool != ASK]
        if wanted.isdecimal() and len(wanted) < 5:
            found = rows[int(wanted) - 1] if 0 < int(wanted) <= len(rows) else None
        else:
            found = next((row for row in rows if row.call_id == wanted), None)
        if found is None:
            raise UsageProblem(f"No call '{wanted}' in the history.", hint="See: %tool history")
        if found.arguments is None:
            raise UsageProblem(
                f"The arguments of that call of '{found.tool}' were masked or cut in the log.",
                hint="Type the call again.",
            )
        if not self._is_agreed(found.tool, found.arguments):
            return self.page(f"'{found.tool}' was not called again.")
        result = self.box.call(found.tool, found.arguments, source="magic")
        if not result.ok:
            raise_result(result, self.context.last)
        return result

    def _is_agreed(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Ask before repeating a call that may change something."""
        spec = self.box.registry.find(tool)
        if spec is None or spec.read_only:
            return True
        line = self.box.mask(format_call(tool, arguments))
        reply = confirmed(self.box, f"'{tool}' may change something. Call it again?", "Call it again", [line])
        if reply is None:
            raise UsageProblem(
                f"'{tool}' may change something, and nobody can be asked here whether to repeat it.",
                hint=f"Type the call itself: {line}",
            )
        return reply

    def _results(self, rest: str) -> Any:
        asked = read_options(rest, {})
        return checked(self.box.ot.results(pattern=" ".join(asked.words)))

    def _browse(self, rest: str) -> Any:
        words = read_options(rest, {}).words
        if len(words) > 1:
            raise UsageProblem("%tool browse takes at most one name.", hint="For example: %tool browse time.now")
        return self.box.ot.browser(words[0] if words else "")

    def _usage(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text"})
        if len(asked.words) > 1:
            raise UsageProblem("%tool usage takes at most one period.", hint="One of: day, week, month, all.")
        period = asked.words[0] if asked.words else "week"
        return self.box.ot.usage(period, asked.given.get("--tool", ""))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 10**6):
        raise UsageProblem(f"'{text[:40]}' is not a number of calls.", hint="For example: %tool history 20")
    return int(text)


# --- %tool why ------------------------------------------------------------------------------------


_MAX_BODY = 4_000
_RECENT = 200


def story(box: Toolbox, failed: ToolResult | BaseException | None, *, internals: bool = False) -> list[str]:
    """The lines of the page about a failed call, or about an exception outside of one."""
    if failed is None:
        return ["Nothing has failed in this session."]
    if not isinstance(failed, ToolResult):
        lines = failed.lines() if isinstance(failed, OneToolError) else [f"{type(failed).__name__}: {failed}"]
        return lines + (_frames(failed, failed.__traceback__) if internals else [])
    assert failed.error is not None
    error, lines = failed.error, _head(failed.error)
    lines += _arguments(box, failed)
    lines += _wanted(box, error)
    lines += _exchange(error)
    lines += _other_side(error)
    own = error.exception
    if internals and own is not None:
        lines += ["", "All frames:", *_frames(own, own.__traceback__)]
    elif own is not None and not isinstance(own, OneToolError):
        lines += ["", "In the tool's code:", *_frames(own, foreign_frames(own.__traceback__))]
    return [
        *lines,
        *([] if internals or own is None else ["", "With the frames of onetool_ipy: %tool why --internals"]),
    ]


def _head(error: Failure) -> list[str]:
    kind = error.code + (f" ({error.reason})" if error.reason else "")
    said = [f"'{error.tool}' failed: {kind}", *error.message.splitlines()]
    return [*said, *(f"  {line}" for line in error.hint.splitlines())]


def _arguments(box: Toolbox, failed: ToolResult) -> list[str]:
    """When and with what the tool was called, as the call log has it."""
    call_id = failed.meta.get("call_id")
    rows = box.log.history(limit=_RECENT) if box.config.settings.stats.enabled else []
    row = next((each for each in rows if each.call_id == call_id), None)
    if row is None:
        return []
    when = ["", f"Called at {local_time(row.ts)} from {row.source}; it took {row.ms:,.1f} ms."]
    try:
        given = json.loads(row.args)
    except ValueError:  # cut in the log
        given = row.args
    if not isinstance(given, Mapping):
        return [*when, "", "Arguments as received:", f"  {given}"]
    shown = [f"  {name} = {values.cut(json.dumps(value, ensure_ascii=False), 400)}" for name, value in given.items()]
    return [*when, "", "Arguments as received:", *(shown or ["  none"])]


def _wanted(box: Toolbox, error: Failure) -> list[str]:
    spec = box.registry.find(error.tool)
    if error.code != "invalid_args" or spec is None:
        return []
    wrong = error.details if isinstance(error.details, list) else []
    said = [f"  - {_place(each)}{each.get('message', '')}" for each in wrong if isinstance(each, Mapping)]
    return ["", "Wanted:", f"  {spec.signature}", *said]


def _place(violation: Mapping[str, Any]) -> str:
    return f"at {violation['pointer']}: " if violation.get("pointer") else ""


def _exchange(error: Failure) -> list[str]:
    """The last request of an HTTP tool and its response."""
    told = getattr(error.exception, "exchange", None)
    if not isinstance(told, Mapping):
        return []
    request, response = told["request"], told["response"]
    return [
        *("", "Request:", f"  {request['method']} {request['url']}", *_headers(request), *_body(request)),
        *("", "Response:", f"  HTTP {response['status']}", *_headers(response), *_body(response)),
    ]


def _headers(part: Mapping[str, Any]) -> list[str]:
    return [f"  {name}: {value}" for name, value in part["headers"].items()]


def _body(part: Mapping[str, Any]) -> list[str]:
    text = part.get("body") or ""
    return ["", *(f"  {line}" for line in values.cut(text, _MAX_BODY).splitlines())] if text else []


def _other_side(error: Failure) -> list[str]:
    """The words of a server, or what else the failure carries."""
    if error.code == "invalid_args" or error.details is None or _exchange(error):
        return []
    words = error.details
    if isinstance(words, Mapping) and "stderr" in words:
        words = words["stderr"]
    text = (
        words if isinstance(words, str) else "\n".join(map(str, words)) if _is_lines(words) else values.to_text(words)
    )
    return ["", "It also said:", *(f"  {line}" for line in values.cut(text, _MAX_BODY).splitlines())]


def _is_lines(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(line, str) for line in words)


def _frames(exc: BaseException, frames: Any) -> list[str]:
    return "".join(traceback.format_exception(type(exc), exc, frames)).rstrip().splitlines()
