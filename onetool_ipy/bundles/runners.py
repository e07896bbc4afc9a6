"""Runners: the callable form of a stored tool, an HTTP request or a local function.

A runner counts the calls of the last minute and holds OAuth2 tokens, so it is kept as long as the parts of its record
that it was made from stay the same. `BundleContext` is what the registry and the service of one project share: the
store, the switches of the built-in bundles, and the runners. Importing this module loads no pydantic.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.bundles.builtins import BuiltInSwitches
from onetool_ipy.bundles.store import BundleStore

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.runner import HttpRunner, OutputCheck, RateLimit
    from onetool_ipy.bundles.model import Tool, ToolBody
    from onetool_ipy.net.client import HttpClient, Rules

_FOLDER = "bundles"


class RunnerDependencies(NamedTuple):
    """What runners need from their toolbox. The client and its rules are made when a runner is first needed.

    `secret` reads the secrets file only. `call` runs a tool of the registry and returns its value or raises its error.
    `hide` adds a token that was fetched to what `mask` hides.
    """

    http_client: Callable[[], HttpClient]
    rules: Callable[[], Rules]
    secret: Callable[[str], str | None]
    mask: Callable[[str], str]
    hide: Callable[[str], None]
    clock: Callable[[], datetime.datetime]
    call: Callable[[str, Mapping[str, Any]], Any]


class FunctionRunner:
    """A local function under the limits and the outputSchema of its record."""

    def __init__(
        self, func: str, name: str, needs: RunnerDependencies, *, output: OutputCheck, rate: RateLimit
    ) -> None:
        self._func = func
        self._name = name
        self._needs = needs
        self._output = output
        self._rate = rate

    def run(self, args: Mapping[str, Any], note: Callable[[dict[str, Any]], None] | None = None) -> Any:
        """Call the function; raises its own error. `note` receives what does not fit an imported outputSchema."""
        self._rate.take(self._name)
        value = self._needs.call(self._func, args)
        mismatch = self._output.check(values.to_json(value), self._name, self._needs.mask)
        if mismatch and note is not None:
            note({"mismatch": mismatch})
        return value


class Runners:
    """The runners of one project's tools, by tool id."""

    def __init__(self, needs: RunnerDependencies) -> None:
        self._needs = needs
        self._made: dict[str, tuple[Tool, HttpRunner | FunctionRunner]] = {}

    def of(self, tool: Tool, name: str) -> HttpRunner | FunctionRunner:
        """Return the runner of a stored tool. Raises InvalidTool if the record was edited and cannot work."""
        cached = self._made.get(tool.tool_id)
        if cached is not None and (cached[0] is tool or _decisive(cached[0]) == _decisive(tool)):
            return cached[1]
        runner = self.new(tool, name)
        self._made[tool.tool_id] = (tool, runner)
        return runner

    def new(self, tool: Tool | ToolBody, name: str) -> HttpRunner | FunctionRunner:
        """Make a runner that is not kept, also of a tool that is not stored."""
        from onetool_ipy.bundles.http.runner import HttpRunner, OutputCheck, RateLimit

        needs = self._needs
        if tool.go_tool is not None:
            limit = tool.limits.max_calls_per_minute if tool.limits else None
            output = OutputCheck(tool.output_schema, is_strict=tool.is_output_strict)
            return FunctionRunner(tool.go_tool.func, name, needs, output=output, rate=RateLimit(limit, needs.clock))
        assert tool.http is not None
        return HttpRunner(
            tool.http,
            arg_schema=tool.arg_schema,
            output_schema=tool.output_schema,
            is_output_strict=tool.is_output_strict,
            limits=tool.limits,
            name=name,
            client=needs.http_client(),
            rules=needs.rules(),
            secret=needs.secret,
            mask=needs.mask,
            hide=needs.hide,
            clock=needs.clock,
        )


def _decisive(tool: Tool) -> tuple[Any, ...]:
    """The parts of a record that a runner is made from."""
    return (tool.http, tool.go_tool, tool.limits, tool.arg_schema, tool.output_schema, tool.is_output_strict)


class BundleContext:
    """The store, the switches of the built-in bundles and the runners of one `.onetool` folder."""

    def __init__(
        self,
        home: Path,
        needs: RunnerDependencies,
        *,
        is_found: bool = True,
        on_made: Callable[[], None] = lambda: None,
    ) -> None:
        self.store = BundleStore(home / _FOLDER, is_found=is_found, on_made=on_made)
        self.switches = BuiltInSwitches(home / _FOLDER)
        self.runners = Runners(needs)
