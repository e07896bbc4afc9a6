"""BundleKit: what the registry and the service of one project share, so that both see the same files and runners.

Light: it loads no pydantic. The runners, which do, are made when something is called.

Runners: what makes a stored tool callable, an HTTP request or a local function; made at its first call, then kept.

A runner counts the calls of this minute and holds tokens, so it lives as long as what it was made from stays the same,
whatever switches are turned meanwhile. It knows no bundle and no registry: a local function is called by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.bundles.context import RunnerDependencies
from onetool_ipy.bundles.model import Tool, ToolBody

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.runner import HttpRunner

__all__ = ["FunctionRunner", "Runners"]


Note = Callable[[dict[str, Any]], None]


class FunctionRunner:
    """A local function under the limits and the outputSchema of its record."""

    def __init__(self, tool: Tool | ToolBody, name: str, outside: RunnerDependencies) -> None:
        from onetool_ipy.bundles.http.runner import OutputCheck, RateLimit

        assert tool.go_tool is not None
        self._func = tool.go_tool.func
        self._name = name
        self._outside = outside
        self._output = OutputCheck(tool.output_schema, is_strict=tool.is_output_strict)
        self._rate = RateLimit(tool.limits.max_calls_per_minute if tool.limits else None, outside.clock)

    def run(self, args: Mapping[str, Any], note: Note | None = None) -> Any:
        """Call it; raises the function's own error. `note` is told what does not fit an imported outputSchema."""
        self._rate.take(self._name)
        value = self._outside.call(self._func, args)
        found = self._output.check(values.to_json(value), self._name, self._outside.mask)
        if found and note is not None:
            note({"mismatch": found})
        return value


class Runners:
    """The runners of one project's tools, by tool id."""

    def __init__(self, outside: RunnerDependencies) -> None:
        self._outside = outside
        self._made: dict[str, tuple[Tool, HttpRunner | FunctionRunner]] = {}

    def of(self, tool: Tool, name: str) -> HttpRunner | FunctionRunner:
        """The runner of a stored tool. Raises InvalidTool for one that was edited into something that cannot work."""
        known = self._made.get(tool.tool_id)
        if known is not None and (known[0] is tool or _essence(known[0]) == _essence(tool)):
            return known[1]
        made = self.draft(tool, name)
        self._made[tool.tool_id] = (tool, made)
        return made

    def draft(self, tool: Tool | ToolBody, name: str) -> HttpRunner | FunctionRunner:
        """A runner of one's own, also for what is not stored."""
        if tool.http is None:
            return FunctionRunner(tool, name, self._outside)
        from onetool_ipy.bundles.http.runner import compile_http

        # what is not stored yet is of this version: a schema without a word is its author's
        is_strict = tool.is_output_strict if isinstance(tool, Tool) else tool.output_schema_from != "document"
        outside = self._outside
        return compile_http(
            tool.http,
            arg_schema=tool.arg_schema,
            output_schema=tool.output_schema,
            is_output_strict=is_strict,
            limits=tool.limits,
            name=name,
            client=outside.http_client(),
            rules=outside.rules(),
            secret=outside.secret,
            mask=outside.mask,
            hide=outside.hide,
            clock=outside.clock,
        )


def _essence(tool: Tool) -> tuple[Any, ...]:
    return (tool.http, tool.go_tool, tool.limits, tool.arg_schema, tool.output_schema, tool.is_output_strict)
