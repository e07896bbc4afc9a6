"""The pages of `%tool`: what there is, a pack, a tool, how to type, and what a call would send.

`%tool list | info | help | search | health | why | reload`: what there is, how it is, what went wrong.

`%tool stats | history | results`: what was called, how it went, what is kept.

`%tool browse | view | usage`: the screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.tool import Dep, ToolSpec
from onetool_ipy.faces.line.grammar import format_call, read_options
from onetool_ipy.faces.notebook.commands.bundles import answered
from onetool_ipy.faces.notebook.commands.group import Bench, Command, one_name, page, shown, table_lines
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.errors import raise_result
from onetool_ipy.render.views import counted
from onetool_ipy.schema.read import Param, type_text
from onetool_ipy.schema.read import params as schema_params
from onetool_ipy.toolbox import Toolbox

__all__ = ["Catalog", "Look", "Pages", "Usage"]


class Pages:
    """Text pages about the tools of one toolbox. `help_lines` are those of the sub-commands."""

    def __init__(self, box: Toolbox, help_lines: Sequence[str]) -> None:
        self._box = box
        self._help = help_lines

    def overview(self) -> Page:
        """What there is, and what to type next."""
        packs = self._box.registry.packs()
        total = sum(len(specs) for specs in packs.values())
        width = max(len(name) for name in packs)
        lines = [f"{counted(total, 'tool')} in {counted(len(packs), 'pack')}", ""]
        lines += [f"  {name:<{width}}  {len(specs):>3}  {_names(specs)}" for name, specs in sorted(packs.items())]
        lines += ["", *_NEXT]
        problems = self._box.problems()
        if problems:
            lines += ["", f"{counted(len(problems), 'problem')}:", *(f"  {problem}" for problem in problems[:5])]
        return page(self._box, lines)

    def pack_page(self, name: str) -> Page:
        """A pack's tools with what they do."""
        specs = self._box.registry.packs().get(name)
        if specs is None:  # a server that tells nothing
            servers = self._box.servers
            raise UsageProblem(f"The server '{name}' is {servers[name]}. {servers.reason(name)}".rstrip())
        lines = [f"{name} ({specs[0].source.partition(':')[0]}, {counted(len(specs), 'tool')})"]
        said = self._box.config.prompts.get(name)
        if said:
            lines += ["", said]
        lines += [
            "",
            *table_lines([(s.name, s.summary) for s in specs]),
            "",
            f"Look one up with: %tool info {specs[0].name}",
        ]
        return page(self._box, lines)

    def usage(self, name: str) -> Page:
        """A tool's page, a pack's, or how to use `%tool`."""
        if not name:
            return page(self._box, [*USAGE, *self._help, FLAGS])
        if name in self._box.registry.known_packs() and self._box.registry.find(name) is None:
            return self.pack_page(name)
        return self.tool_page(self._box.registry.require(name))

    def dry(self, spec: ToolSpec, args: dict[str, Any], *, check: bool = True) -> Page:
        """What a call would send: the arguments as they were read and checked. Nothing runs."""
        sent = spec.checker.check(args, spec.name) if check else args
        shown = spec.checker.complete(args, spec.name) if check else args
        lines = [f"{spec.name} would be called with:", *(f"  {k} = {v!r}" for k, v in shown.items())]
        for request in [] if spec.preview is None else spec.preview(sent):
            lines += ["and would send:", f"  {request['method']} {request['url']}"]
            lines += [f"  {name}: {value}" for name, value in request["headers"].items()]
            lines += [""] + [f"  {line}" for line in request["body"].splitlines()] if request.get("body") else []
        return page(self._box, lines)

    def tool_page(self, spec: ToolSpec) -> Page:
        lines = [spec.signature, "", spec.description]
        params = schema_params(spec.parameters)
        if params:
            lines += ["", "Arguments:"]
            rows = [(p.name, _argument_text(p, spec)) for p in params]
            lines += [f"  {line}" for line in table_lines(rows)]
        if spec.returns:
            lines += ["", "Returns:", f"  {spec.returns}"]
        if spec.example:
            lines += ["", "Example:", *(f"  {line}" for line in spec.example.splitlines())]
        lines += [line for dep in spec.deps for line in ("", _need(dep))]
        if spec.origin == "builtin" and spec.pack != "ot":  # the packs that no notebook has as names
            lines += ["", f"In Python: from onetool_ipy.live import {spec.pack}"]
        facts = [spec.source, spec.origin, *(["read-only"] if spec.read_only else []), *spec.tags]
        lines += ["", f"Source: {', '.join(facts)}" + (f" ({spec.where})" if spec.where else "")]
        return page(self._box, lines)


_NEXT = (
    "Next:",
    "  %tool list [TEXT]           all tools, or those with TEXT in their name",
    "  %tool info NAME             what a tool does and takes",
    "  %tool NAME key=value ...    call it; x = %tool ... keeps the result",
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


def _names(specs: Sequence[ToolSpec]) -> str:
    shown = [spec.short_name for spec in specs[:6]]
    return ", ".join(shown) + (", ..." if len(specs) > len(shown) else "")


def _need(dep: Dep) -> str:
    from onetool_ipy.sdk.deps import is_there

    how = f" ({dep.install})" if dep.install else ""
    return f"Needs the {dep.kind} {dep.name}: {'ok' if is_there(dep) else 'missing'}{how}"


def _argument_text(param: Param, spec: ToolSpec) -> str:
    kind = type_text(param.schema, spec.parameters)
    state = (
        "required" if param.required else f"default {param.schema['default']!r}" if param.has_default else "optional"
    )
    return f"{kind}, {state}" + (f": {param.description}" if param.description else "")


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
        asked = read_options(rest, {})
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
        read_options(rest, {})
        return Page(self._last.why())

    def _reload(self, rest: str) -> Page:
        read_options(rest, {})
        self._box.reload()
        return Page("OK: Configuration reloaded")

    def _search(self, rest: str) -> Any:
        return shown(self._box.ot.help(query=rest.strip()))

    def _health(self, rest: str) -> Any:
        read_options(rest, {})
        return self._box.ot.health()


class Usage:
    """The sub-commands that look back."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool history [N] [--failed]   the newest calls; %tool history rerun [N or id] calls again",
        "%tool stats [day|week|month]   how the tools are used; --tool NAME, --output FILE.html",
        "%tool results [TEXT]           stored results; ot.result(handle=...) pages through one",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._last = bench.last

    def table(self) -> dict[str, Command]:
        return {"stats": self._stats, "history": self._history, "results": self._results}

    def _stats(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text", "--output": "text"})
        period = asked.words[0] if asked.words else "all"
        given = {name[2:]: value for name, value in asked.given.items()}
        return shown(self._box.ot.stats(period=period, **given))

    def _history(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text", "--failed": "switch"})
        if asked.words[:1] == ["rerun"]:
            return self._rerun(asked.words[1:])
        given = {name[2:]: value for name, value in asked.given.items()}
        if asked.words:
            given["limit"] = _count(asked.words[0])
        return shown(self._box.ot.history(**given))

    def _rerun(self, words: list[str]) -> Any:
        """Call again what was called: by the id of a call, or how many calls ago (1 is the last)."""
        wanted = words[0] if words else "1"
        rows = [row for row in self._box.log.history(limit=1000) if not row.tool.startswith("ot.")]
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
        self._require_yes(found.tool, found.arguments)
        result = self._box.call(found.tool, found.arguments, source="magic")
        if not result.ok:
            raise_result(result, self._last)
        return result

    def _require_yes(self, tool: str, arguments: dict[str, Any]) -> None:
        """Ask before a call is repeated that may change something."""
        spec = self._box.registry.find(tool)
        if spec is None or spec.read_only:
            return
        line = self._box.mask(format_call(tool, arguments))
        reply = answered(f"'{tool}' may change something. Call it again?\n  {line}\n[y/N] ")
        if reply is None:
            raise UsageProblem(
                f"'{tool}' may change something, and nobody can be asked here whether to repeat it.",
                hint=f"Type the call itself: {line}",
            )
        if not reply:
            raise UsageProblem(f"'{tool}' was not called again.")

    def _results(self, rest: str) -> Any:
        asked = read_options(rest, {})
        return shown(self._box.ot.results(pattern=" ".join(asked.words)))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 10**6):
        raise UsageProblem(f"'{text[:40]}' is no number of calls.", hint="For example: %tool history 20")
    return int(text)


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
        words = read_options(rest, {}).words
        if len(words) > 1:
            raise UsageProblem("%tool browse wants at most one name.", hint="For example: %tool browse time.now")
        return self._box.ot.browser(words[0] if words else "")

    def _view(self, rest: str) -> Any:
        words = read_options(rest, {}).words
        if len(words) != 1:
            raise UsageProblem("%tool view wants one handle.", hint="See them with: %tool results")
        return self._box.ot.view(words[0])

    def _usage(self, rest: str) -> Any:
        asked = read_options(rest, {"--tool": "text"})
        if len(asked.words) > 1:
            raise UsageProblem("%tool usage wants at most one period.", hint="One of: day, week, month, all.")
        period = asked.words[0] if asked.words else "week"
        return self._box.ot.usage(period, asked.given.get("--tool", ""))
