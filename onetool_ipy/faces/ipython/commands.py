"""The sub-commands of `%tool`: list, info, why, reload, help; and the pages for no name, a pack, a tool.

Each reads its own words and gives a value that shows itself; nothing here knows how a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onetool_ipy.core import schema
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.core.samples import samples
from onetool_ipy.faces.ipython import install, parse
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.faces.ipython.errors import LastFailure, raise_result
from onetool_ipy.render.shown import ErrorText, Listing
from onetool_ipy.toolbox import Toolbox

__all__ = ["Commands"]

_CHECK_S = 10.0
"""Seconds that one try of `%tool check` may take."""


class Commands:
    """What can be asked of a toolbox besides calling a tool."""

    def __init__(self, box: Toolbox, last: LastFailure, profile: Path, run_example: Callable[[str], Any]) -> None:
        self._box = box
        self._last = last
        self._profile = profile
        self._run_example = run_example
        self._table: dict[str, Callable[[str], Any]] = {
            "list": self._list,
            "info": self._info,
            "help": self._help,
            "why": self._why,
            "reload": self._reload,
            "search": self._search,
            "stats": self._stats,
            "history": self._history,
            "results": self._results,
            "health": self._health,
            "check": self._check,
            "install": self._install,
        }

    def words(self) -> frozenset[str]:
        return frozenset(self._table)

    def run(self, word: str, rest: str) -> Any:
        return self._table[word](rest)

    def overview(self) -> Page:
        """What there is, and what to type next."""
        packs = self._box.registry.packs()
        total = sum(len(specs) for specs in packs.values())
        width = max(len(name) for name in packs)
        lines = [f"{total} tools in {len(packs)} packs", ""]
        lines += [f"  {name:<{width}}  {len(specs):>3}  {_names(specs)}" for name, specs in sorted(packs.items())]
        lines += ["", *_NEXT]
        problems = self._box.problems()
        if problems:
            lines += ["", f"{len(problems)} problems:", *(f"  {problem}" for problem in problems[:5])]
        return self._page(lines)

    def pack_page(self, name: str) -> Page:
        """A pack's tools with what they do."""
        specs = self._box.registry.packs()[name]
        lines = [f"{name} ({specs[0].source.partition(':')[0]}, {len(specs)} tools)"]
        said = self._box.config.prompts.get(name)
        if said:
            lines += ["", said]
        lines += [
            "",
            *_table([(s.name, s.summary) for s in specs]),
            "",
            f"Look one up with: %tool info {specs[0].name}",
        ]
        return self._page(lines)

    def usage(self, name: str) -> Page:
        """A tool's page, a pack's, or how to use `%tool`."""
        if not name:
            return self._page(_USAGE)
        if name in self._box.registry.packs() and self._box.registry.find(name) is None:
            return self.pack_page(name)
        return self._tool_page(self._box.registry.require(name))

    def dry(self, spec: ToolSpec, args: dict[str, Any]) -> Page:
        """What a call would send: the arguments as they were read and checked. Nothing runs."""
        spec.checker.check(args, spec.name)
        return self._page([f"{spec.name} would be called with:", *(f"  {k} = {v!r}" for k, v in args.items())])

    def _list(self, rest: str) -> Page:
        asked = parse.read_options(rest, {})
        pattern = " ".join(asked.words).lower()
        specs = sorted(self._box.registry.list(), key=lambda spec: spec.name)
        found = [s for s in specs if pattern in s.name.lower()]
        if not found:
            raise UsageProblem(f"No tool's name holds '{pattern}'.", hint="See all with: %tool list")
        return self._page(_table([(s.name, s.summary) for s in found]))

    def _info(self, rest: str) -> Page:
        return self.usage(_one_name(rest, "info"))

    def _help(self, rest: str) -> Page:
        return self.usage(rest.strip())

    def _why(self, rest: str) -> Page:
        parse.read_options(rest, {})
        return Page(self._last.why())

    def _reload(self, rest: str) -> Page:
        parse.read_options(rest, {})
        self._box.reload()
        return Page("OK: Configuration reloaded")

    def _search(self, rest: str) -> Any:
        return _shown(self._box.ot.help(query=rest.strip()))

    def _stats(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--tool": "text", "--output": "text"})
        period = asked.words[0] if asked.words else "all"
        given = {name[2:]: value for name, value in asked.given.items()}
        return _shown(self._box.ot.stats(period=period, **given))

    def _history(self, rest: str) -> Any:
        asked = parse.read_options(rest, {"--tool": "text", "--failed": "switch"})
        if asked.words[:1] == ["rerun"]:
            return self._rerun(asked.words[1:])
        given = {name[2:]: value for name, value in asked.given.items()}
        if asked.words:
            given["limit"] = _count(asked.words[0])
        return _shown(self._box.ot.history(**given))

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
        result = self._box.call(found.tool, found.arguments, source="magic")
        if not result.ok:
            raise_result(result, self._last)
        return result

    def _results(self, rest: str) -> Any:
        asked = parse.read_options(rest, {})
        return _shown(self._box.ot.results(pattern=" ".join(asked.words)))

    def _health(self, rest: str) -> Any:
        parse.read_options(rest, {})
        return self._box.ot.health()

    def _check(self, rest: str) -> Any:
        """Try a tool: its docstring's examples, arguments made from its schema, and what its docstring leaves out."""
        spec = self._box.registry.require(_one_name(rest, "check"))
        rows = [self._check_example(line) for line in spec.example.splitlines() if line.strip()]
        for label, args in samples(spec.parameters):
            result = self._box.call(spec.name, args, source="magic", timeout=_CHECK_S)
            said = "ok" if result.error is None else f"{result.error.code}: {result.error.message}"
            rows.append({"check": label, "call": parse.format_call(spec.name, args), "outcome": said})
        silent = [p.name for p in schema.params(spec.parameters) if not p.description]
        if spec.description in ("", spec.short_name):
            rows.append({"check": "docstring", "call": "", "outcome": "missing: say what the tool does"})
        if silent:
            rows.append({"check": "docstring", "call": "", "outcome": f"no words about: {', '.join(silent)}"})
        masked = [{key: self._box.mask(value) for key, value in row.items()} for row in rows]
        return Listing(masked)

    def _check_example(self, line: str) -> dict[str, str]:
        try:
            self._run_example(line)
        except Exception as exc:  # noqa: BLE001 - an example may raise anything; what it raised is the answer
            return {"check": "example", "call": line.strip(), "outcome": f"{type(exc).__name__}: {exc}"}
        return {"check": "example", "call": line.strip(), "outcome": "ok"}

    def _install(self, rest: str) -> Page:
        given = parse.read_options(rest, {"--lazy": "switch", "--always": "switch", "--remove": "switch"})
        if given.words or len(given.given) != 1:
            raise UsageProblem(
                "%tool install wants one of --lazy, --always, --remove.",
                hint="--lazy loads us at the first %tool, --always at every start.",
            )
        if "--remove" in given.given:
            return Page(install.remove(self._profile))
        return Page(install.install(self._profile, "lazy" if "--lazy" in given.given else "always"))

    def _tool_page(self, spec: ToolSpec) -> Page:
        lines = [spec.signature, "", spec.description]
        params = schema.params(spec.parameters)
        if params:
            lines += ["", "Arguments:"]
            rows = [(p.name, _argument_text(p, spec)) for p in params]
            lines += [f"  {line}" for line in _table(rows)]
        if spec.returns:
            lines += ["", "Returns:", f"  {spec.returns}"]
        if spec.example:
            lines += ["", "Example:", *(f"  {line}" for line in spec.example.splitlines())]
        for row in self._box.ot.deps(tool=spec.name) if spec.deps else ():
            how = f" ({row['install']})" if row["install"] else ""
            lines += ["", f"Needs the {row['kind']} {row['name']}: {row['status']}{how}"]
        facts = [spec.source, spec.origin, *(["read-only"] if spec.read_only else []), *spec.tags]
        lines += ["", f"Source: {', '.join(facts)}" + (f" ({spec.where})" if spec.where else "")]
        return self._page(lines)

    def _page(self, lines: Sequence[str]) -> Page:
        return Page(self._box.mask("\n".join(lines)))


_NEXT = (
    "Next:",
    "  %tool list [TEXT]           all tools, or those with TEXT in their name",
    "  %tool info NAME             what a tool does and takes",
    "  %tool NAME key=value ...    call it; x = %tool ... keeps the result",
)
_USAGE = (
    "%tool                          what there is",
    "%tool PACK                     a pack's page",
    "%tool list [TEXT]              tools, or those with TEXT in their name",
    "%tool info NAME                what a tool does and takes (also: %tool NAME?)",
    "%tool NAME key=value ...       call it; {expression} passes an object of yours",
    "%tool NAME(a=1, b=x)           call it with Python expressions",
    '%tool NAME {"a": 1}            call it with all arguments as JSON',
    "%%tool NAME                    the cell's body is the text argument (--body ARG, --args)",
    "x = %tool ...                  keep the result",
    "%tool search WORDS             find by words; typos are forgiven",
    "%tool history [N] [--failed]   the newest calls; %tool history rerun [N or id] calls again",
    "%tool stats [day|week|month]   how the tools are used; --tool NAME, --output FILE.html",
    "%tool results [TEXT]           stored results; ot.result(handle=...) pages through one",
    "%tool health                   what is wrong now, and what to do",
    "%tool why                      the whole story of the last failure",
    "%tool check NAME               call it with arguments made from its schema",
    "%tool install --lazy|--always  have %tool in every notebook; --remove undoes it",
    "%tool reload                   read configuration and pack files again",
    "Flags: --soft --timeout S --dry --bg -o NAME --help; after -- everything is arguments",
)


def _shown(value: Any) -> Any:
    """A value of `ot` as it is; an error text as the error it is."""
    if isinstance(value, ErrorText):
        raise UsageProblem(value.removeprefix("Error: "))
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 10**6):
        raise UsageProblem(f"'{text[:40]}' is no number of calls.", hint="For example: %tool history 20")
    return int(text)


def _one_name(rest: str, command: str) -> str:
    asked = parse.read_options(rest, {})
    if len(asked.words) != 1:
        raise UsageProblem(f"%tool {command} wants one name.", hint=f"For example: %tool {command} time.now")
    return asked.words[0]


def _names(specs: Sequence[ToolSpec]) -> str:
    shown = [spec.short_name for spec in specs[:6]]
    return ", ".join(shown) + (", ..." if len(specs) > len(shown) else "")


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(left) for left, _ in rows), default=0)
    return [f"{left:<{width}}  {right}".rstrip() for left, right in rows]


def _argument_text(param: schema.Param, spec: ToolSpec) -> str:
    kind = schema.type_text(param.schema, spec.parameters)
    state = (
        "required" if param.required else f"default {param.schema['default']!r}" if param.has_default else "optional"
    )
    return f"{kind}, {state}" + (f": {param.description}" if param.description else "")
