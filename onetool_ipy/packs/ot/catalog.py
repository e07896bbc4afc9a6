"""`ot.tools`, `ot.packs`, `ot.aliases`, `ot.snippets`, `ot.config`, `ot.version`: what there is (spec 001).

Also the pages of packs and snippets, which `ot.help` shows too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import CallFailure, OneToolError
from onetool_ipy.base.search import contains
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.packs.ot.errors import choice, worded
from onetool_ipy.render.views import Listing, Record, Text
from onetool_ipy.render.yaml_flow import flow, inline
from onetool_ipy.schema.read import signature_text
from onetool_ipy.snippets.definition import MISSING, Snippet, SnippetParam, example_of

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["INFO", "CatalogTools", "Info", "as_written", "pack_instructions", "pack_text", "snippet_page"]


def snippet_page(snippet: Snippet) -> str:
    """Return one snippet exactly as spec 001 prints it: definition, example call and its expansion."""
    lines = [f"name: {flow(snippet.name)}", f"description: {flow(snippet.description)}"]
    lines += ["params:", *(f"  {p.name}: {_param(p)}" for p in snippet.params)] if snippet.params else ["params: {}"]
    lines += ["body: |", *(f"  {line}".rstrip() for line in snippet.body.rstrip("\n").split("\n"))]
    return "\n".join([*lines, "", *_example(snippet)])


def _prompt_page(spec: ToolSpec) -> str:
    """Return one prompt of a server in the same form: its text comes from the server when it is used."""
    lines = [f"name: {flow(spec.name)}", f"description: {flow(spec.description)}"]
    lines += ["params:", *(f"  {p.name}: {{description: {flow(p.description)}}}" for p in spec.params)]
    return "\n".join([*lines, f"server: {flow(spec.server)}"])


def _example(snippet: Snippet) -> list[str]:
    try:
        line, expansion = example_of(snippet)
    except OneToolError as exc:
        return [f"# No example: {exc.message}"]
    return ["# Example with defaults:", f"# {line}", "# Expands to:", *expansion.rstrip("\n").split("\n")]


def _param(param: SnippetParam) -> str:
    said = {
        "type": param.declared or None,
        "default": param.default,
        "description": param.description or None,
    }
    parts = []
    for key, value in said.items():
        if value is MISSING or (value is None and key != "default"):
            continue
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and key != "type" else inline(value)
        parts.append(f"{key}: {shown}")
    return "{" + ", ".join(parts) + "}"


Info = Literal["list", "min", "full"]
INFO: tuple[Info, ...] = get_args(Info)
"""The functions accept any text, since spec 001 fixes the error message for a wrong one."""


class CatalogTools:
    """The listing functions, of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark(read_only=True)
    @worded
    def tools(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the tools.

        Args:
            pattern: Only tools with this text in their name, whatever the case.
            info: list (names), min (name and description) or full (signature, args, returns, example, source).

        Returns:
            Names or rows, sorted by name.

        Example:
            ot.tools(pattern="search")
        """
        choice("info", info, INFO, "ot.tools(info='min')")
        found = sorted((s for s in self._box.registry.list() if contains(pattern, s.name)), key=lambda s: s.name)
        if info == "list":
            return Listing(spec.name for spec in found)
        if info == "min":
            return Listing({"name": spec.name, "description": spec.summary} for spec in found)
        return Listing(_tool_row(as_written(spec)) for spec in found)

    @mark(read_only=True)
    @worded
    def packs(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the packs.

        Args:
            pattern: Only packs with this text in their name, whatever the case.
            info: list (names), min (name, source, tool_count) or full (instructions and tools, as text).

        Returns:
            Names, rows, or text at full.

        Example:
            ot.packs(pattern="brave", info="full")
        """
        choice("info", info, INFO, "ot.packs(info='min')")
        found = {n: s for n, s in sorted(self._box.registry.packs().items()) if contains(pattern, n)}
        if info == "list":
            return Listing(found)
        if info == "min":
            return Listing({"name": n, "source": _kind(s), "tool_count": len(s)} for n, s in found.items())
        return Text("\n\n".join(pack_text(self._box, name, specs) for name, specs in found.items()))

    @mark(read_only=True)
    @worded
    def aliases(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the aliases.

        Args:
            pattern: Only aliases with this text in their name or target.
            info: list (names), min (`name -> target`) or full ({name, target}).

        Returns:
            Names, lines or rows, sorted by name.

        Example:
            ot.aliases()
        """
        choice("info", info, INFO, "ot.aliases(info='min')")
        known = sorted(self._box.shortcuts.aliases.items())
        found = [(name, target) for name, target in known if contains(pattern, name) or contains(pattern, target)]
        if info == "list":
            return Listing(name for name, _ in found)
        if info == "min":
            return Listing(f"{name} -> {target}" for name, target in found)
        return Listing({"name": name, "target": target} for name, target in found)

    @mark(read_only=True)
    @worded
    def snippets(self, pattern: str = "", info: Info | str = "min") -> Any:
        """List the snippets, and the prompts of MCP servers that are known.

        Args:
            pattern: Only snippets with this text in their name or description.
            info: list (names), min (`name: description`) or full (definition, example and expansion, as text).

        Returns:
            Names, lines, or text at full.

        Example:
            ot.snippets(pattern="pkg", info="full")
        """
        choice("info", info, INFO, "ot.snippets(info='min')")
        found = [
            snippet
            for _, snippet in sorted(self._box.shortcuts.snippets.items())
            if contains(pattern, snippet.name) or contains(pattern, snippet.description)
        ]
        prompts = [
            spec for spec in self._box.prompts() if contains(pattern, spec.name) or contains(pattern, spec.summary)
        ]
        if info == "list":
            return Listing([*(snippet.name for snippet in found), *(spec.name for spec in prompts)])
        if info == "min":
            lines = [(snippet.name, snippet.description) for snippet in found]
            lines += [(spec.name, spec.summary) for spec in prompts]
            return Listing(f"{name}: {said}".rstrip() for name, said in lines)
        return Text("\n\n".join([*map(snippet_page, found), *map(_prompt_page, prompts)]))

    @mark(read_only=True)
    @worded
    def config(self) -> Any:
        """Show the key values of the configuration: aliases, snippets and servers.

        Returns:
            {aliases, snippets, servers}

        Example:
            ot.config()
        """
        known = self._box.shortcuts
        described = {name: {"description": snippet.description} for name, snippet in known.snippets.items()}
        return Record(aliases=dict(known.aliases), snippets=described, servers=list(self._box.config.settings.servers))

    @mark(read_only=True)
    def version(self) -> Any:
        """Tell the version of onetool_ipy.

        Returns:
            The version, such as 1.0.0.

        Example:
            ot.version()
        """
        return Text(__version__)


def as_written(spec: ToolSpec) -> ToolSpec:
    """Return the tool as its file is now, or as it was listed if it is gone since. Imports nothing."""
    try:
        return spec.as_written()
    except CallFailure:
        return spec


def _tool_row(spec: ToolSpec) -> Mapping[str, Any]:
    """Return the fields of spec 001 that the tool has."""
    row: dict[str, Any] = {
        "name": spec.name,
        "signature": _signature(spec),
        "description": spec.description,
        "source": spec.source,
    }
    more = {"args": list(spec.args), "returns": spec.returns, "example": spec.example}
    return {**row, **{key: value for key, value in more.items() if value}}


def _signature(spec: ToolSpec) -> str:
    """Return the signature. For a server's tool, spec 001 wants `'...'` instead of `...` for an optional argument."""
    return signature_text(spec.name, spec.parameters, unknown="'...'") if spec.server else spec.signature


def pack_text(box: Toolbox, name: str, specs: list[ToolSpec]) -> str:
    """Return a pack's page: its name, source, instructions and tools."""
    lines = [f"## {name}", "", f"source: {_kind(specs)}"]
    lines += [line for said in pack_instructions(box, name, specs) for line in ("", said)]
    return "\n".join([*lines, "", *(f"- {spec.name}: {spec.summary}" for spec in specs)])


def pack_instructions(box: Toolbox, name: str, specs: list[ToolSpec]) -> list[str]:
    """Return how to use a pack, by prompts.yaml and by its server."""
    said = [box.config.prompts.get(name, "")]
    said += [box.servers.instructions(name)] if any(spec.server == name for spec in specs) else []
    return [text.strip() for text in said if text.strip()]


def _kind(specs: list[ToolSpec]) -> str:
    return specs[0].source.partition(":")[0]
