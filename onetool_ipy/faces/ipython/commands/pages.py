"""The pages of `%tool`: what there is, a pack, a tool, how to type, and what a call would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onetool_ipy.core import current, schema
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.model import Dep, ToolSpec, UncheckedCall
from onetool_ipy.faces.ipython.commands.group import page, table_lines
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.render.counted import counted
from onetool_ipy.toolbox import Toolbox

__all__ = ["Pages"]


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
        if check:
            spec.checker.check(args, spec.name)
            return self._dry(spec, spec.checker.complete(args, spec.name))
        token = current.enter(current.Scope(self._box, UncheckedCall("", spec.name, args, "magic"), spec))
        try:
            return self._dry(spec, args)
        finally:
            current.leave(token)

    def _dry(self, spec: ToolSpec, args: dict[str, Any]) -> Page:
        lines = [f"{spec.name} would be called with:", *(f"  {k} = {v!r}" for k, v in args.items())]
        for request in [] if spec.preview is None else spec.preview(args):
            lines += ["and would send:", f"  {request['method']} {request['url']}"]
            lines += [f"  {name}: {value}" for name, value in request["headers"].items()]
            lines += [""] + [f"  {line}" for line in request["body"].splitlines()] if request.get("body") else []
        return page(self._box, lines)

    def tool_page(self, spec: ToolSpec) -> Page:
        lines = [spec.signature, "", spec.description]
        params = schema.params(spec.parameters)
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


def _argument_text(param: schema.Param, spec: ToolSpec) -> str:
    kind = schema.type_text(param.schema, spec.parameters)
    state = (
        "required" if param.required else f"default {param.schema['default']!r}" if param.has_default else "optional"
    )
    return f"{kind}, {state}" + (f": {param.description}" if param.description else "")
