"""The source of the tools of bundles: `<bundle>.<tool>`, and every version as
`<bundle>.<tool>@<version>`.

The plain name stands for the enabled version that changed last. Single versions can be called by
name but are not listed. If any process switches or changes a tool, the next call sees it: each call
asks the store, through `live`, what the name stands for now. A project without bundles costs one
stat of a missing folder.

A runner is the callable form of a stored tool, an HTTP request or a local function. It counts the
calls of the last minute and holds OAuth2 tokens, so it is kept as long as the parts of its record
that it was made from stay the same. `BundleContext` is what this source and the service of one
project share: the store, the switches of the built-in bundles, and the runners. Importing this
module loads no pydantic.

Also here: `Switched`, which gives the built-in tools the switches of their bundles. A switch
changes the registry when it is switched, and at a refresh where another process switched it; a call
of a built-in reads no file of a bundle.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidOutput, InvalidTool, OneToolError, ToolNotFound
from onetool_ipy.bundles.builtins import BUILTINS, BuiltInSwitches, bundle_off, tool_off
from onetool_ipy.bundles.environments import FILE, EnvironmentFile
from onetool_ipy.bundles.store import EMPTY, BundleSnapshot, BundleStore, StoredBundle
from onetool_ipy.core import current
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import GuardFacts, HttpHooks, Problem, Source, ToolSpec

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.runner import HttpRunner, OutputCheck, RateLimit
    from onetool_ipy.bundles.model import Tool, ToolBody
    from onetool_ipy.net.client import HttpClient, Rules

_FOLDER = "bundles"
_DECISIVE = attrgetter(
    "http", "go_tool", "limits", "arg_schema", "output_schema", "is_output_strict"
)
"""The parts of a record that a runner is made from."""

_INCIDENTAL = frozenset(
    ("toolID", "bundleID", "displayName", "tags", "isEnabled", "createdAt", "modifiedAt")
)
_SLACK_S = 1.0
"""The executor's limit exceeds an HTTP tool's own deadline by this, so that the tool reports its
own timeout."""


class RunnerDependencies(NamedTuple):
    """What runners need from their toolbox. The client and its rules are made when a runner is
    first needed.

    `secret` reads the secrets file only. `call` runs a tool of the registry and returns its value
    or raises its error. `hide` adds a token that was fetched to what `mask` hides.
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
        self,
        func: str,
        name: str,
        needs: RunnerDependencies,
        *,
        output: OutputCheck,
        rate: RateLimit,
    ) -> None:
        self._func = func
        self._name = name
        self._needs = needs
        self._output = output
        self._rate = rate

    def run(
        self, args: Mapping[str, Any], note: Callable[[dict[str, Any]], None] | None = None
    ) -> Any:
        """Call the function; raises its own error. `note` receives what does not fit an imported
        outputSchema."""
        self._rate.take(self._name)
        value = self._needs.call(self._func, args)
        mismatch = self._output.check(values.to_json(value), self._name, self._needs.mask)
        if mismatch and note is not None:
            note({"mismatch": mismatch})
        return value


class Runners:
    """The runners of one project's tools, by tool id."""

    def __init__(self, needs: RunnerDependencies, environments: EnvironmentFile) -> None:
        self._needs = needs
        self._environments = environments
        self._made: dict[str, tuple[Tool, HttpRunner | FunctionRunner]] = {}

    def of(self, tool: Tool, name: str) -> HttpRunner | FunctionRunner:
        """Return the runner of a stored tool. Raises InvalidTool if the record was edited and
        cannot work."""
        cached = self._made.get(tool.tool_id)
        if cached is not None and (cached[0] is tool or _DECISIVE(cached[0]) == _DECISIVE(tool)):
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
            return FunctionRunner(
                tool.go_tool.func, name, needs, output=output, rate=RateLimit(limit, needs.clock)
            )
        assert tool.http is not None
        active, (slug, base_url) = tool.http.environment, tool.http.place
        fence = None
        if active is not None:
            fence = partial(self._environments.fence, slug, active.name, base_url, name)
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
            fence=fence,
        )


class BundleContext:
    """The store, the environments, the switches of the built-in bundles and the runners of one
    `.onetool` folder."""

    def __init__(
        self, home: Path, needs: RunnerDependencies, *, is_found: bool, on_made: Callable[[], None]
    ) -> None:
        self.store = BundleStore(home / _FOLDER, is_found=is_found, on_made=on_made)
        self.switches = BuiltInSwitches(home / _FOLDER)
        self.environments = EnvironmentFile(home / FILE)
        self.runners = Runners(needs, self.environments)


class BundleTools:
    """The source of the stored bundles. `find` looks up the local functions that records name."""

    def __init__(
        self,
        context: BundleContext,
        *,
        find: Callable[[str], ToolSpec | None],
        http_timeout_s: float,
    ) -> None:
        self._store = context.store
        self._environments = context.environments
        self._runners = context.runners
        self._find = find
        self._http_timeout_s = http_timeout_s
        self._last_listed: BundleSnapshot = EMPTY
        self._specs: dict[str, tuple[Tool, str, ToolSpec]] = {}

    def tools(self) -> Iterator[ToolSpec]:
        self._last_listed = snapshot = self._store.snapshot()
        for held in snapshot.live():
            if held.duplicate_of:
                continue
            for slug in held.slugs:
                chosen = held.chosen(slug)
                if chosen is not None:
                    yield self._spec(held, chosen, "")
                yield from (self._spec(held, tool, tool.version) for tool in held.versions(slug))

    def problems(self) -> Iterator[Problem]:
        snapshot = self._store.snapshot()
        yield from snapshot.problems
        yield from self._environments.problems()
        # A secret that many tools lack is one problem.
        lacks: dict[object, list[Problem]] = {}
        for held in snapshot.live():
            if not held.bundle.is_enabled:
                continue
            for tool in held.tools.values():
                if tool.is_enabled and (lack := self._lack(held, tool)):
                    lacks.setdefault(lack.secret or lack, []).append(lack)
        for first, *more in lacks.values():
            yield first._replace(where=f"{first.where} and {len(more)} more") if more else first

    def refresh(self) -> bool:
        """Whether the files changed since the tools were last listed."""
        return self._store.snapshot() is not self._last_listed

    def _load(self, bundle: str, slug: str, version: str) -> ToolSpec:
        """Return the tool that a name stands for now."""
        held = self._store.snapshot_for(bundle, slug).of_slug(bundle)
        tool = None
        if held is not None:
            tool = held.tools.get((slug, version)) if version else held.chosen(slug)
        if held is None or tool is None:
            raise ToolNotFound(
                f"The tool '{_name(bundle, slug, version)}' was deleted.",
                hint="See all: %tool list",
            )
        return self._spec(held, tool, version)

    def _spec(self, held: StoredBundle, tool: Tool, version: str) -> ToolSpec:
        """The spec of a tool, cached until the tool changes, so that its compiled check is kept."""
        bundle = held.bundle
        name = _name(bundle.slug, tool.slug, version)
        off = "" if tool.is_enabled else tool_off(bundle.slug, tool.slug, tool.version)
        off = off if bundle.is_enabled else bundle_off(bundle.slug)
        tool = held.completed(tool)
        cached = self._specs.get(name)
        if cached is not None and cached[0] is tool and cached[1] == off:
            return cached[2]
        spec = ToolSpec(
            name=name,
            description=tool.description or tool.display_name or tool.slug,
            parameters=tool.arg_schema,
            run=partial(self._arequest if tool.http is not None else self._function, tool, name),
            http=None
            if tool.http is None
            else HttpHooks(
                partial(self._request, tool, name),
                partial(self._preview, tool, name),
                tool.http.text_names(),
                tool.http.origins(),
                tool.http.has_credentials(tool.arg_schema.get("properties", ())),
            ),
            guard=GuardFacts(
                behind=None if tool.go_tool is None else partial(self._find, tool.go_tool.func)
            ),
            is_async=tool.http is not None,
            tags=tuple(tool.tags),
            read_only=tool.http is not None
            and tool.is_read_only,  # a record does not tell this of a function
            origin="bundle",
            timeout_s=self._limit_s(tool),
            output_schema=tool.output_schema if isinstance(tool.output_schema, dict) else None,
            disabled=off,
            where=f"bundle {bundle.slug}",
            load=partial(self._load, bundle.slug, tool.slug, version),
            identity=partial(self._identity, tool),
            record=(tool.version, tool.tool_id),
        )
        self._specs[name] = (tool, off, spec)
        return spec

    def _identity(self, tool: Tool) -> Any:
        """Return what decides how a call behaves: the record without incidental fields, and the
        local function.

        That may be a tool of a bundle again, and so on. One that leads back to itself ends there.
        """
        steps: dict[str, list[Any]] = {}
        name, end = "", ""
        while name not in steps:
            record = {key: value for key, value in tool.stored().items() if key not in _INCIDENTAL}
            steps[name] = [
                record,
                tool.http and tool.http.environment and tool.http.environment.variables,
            ]
            inner = None if tool.go_tool is None else self._find(tool.go_tool.func)
            if inner is None or inner.origin != "bundle":
                end = "" if inner is None else inner.fingerprint
                break
            name, tool = inner.name, self._specs[inner.name][0]
        return [[*steps.values()], end]

    def _request(self, tool: Tool, name: str, args: dict[str, Any]) -> Any:
        runner: Any = self._runners.of(tool, name)
        try:
            return runner.send(args, _note())
        except InvalidOutput as exc:
            _shorten(exc)
            raise

    async def _arequest(self, tool: Tool, name: str, args: dict[str, Any]) -> Any:
        runner: Any = self._runners.of(tool, name)
        try:
            return await runner.asend(args, _note())
        except InvalidOutput as exc:
            import asyncio

            await asyncio.to_thread(_shorten, exc)
            raise

    def _preview(self, tool: Tool, name: str, args: dict[str, Any]) -> Any:
        runner: Any = self._runners.of(tool, name)
        return [{**request, "secrets": runner.secrets} for request in runner.requests(args)]

    def _function(self, tool: Tool, name: str, args: dict[str, Any]) -> Any:
        runner: Any = self._runners.of(tool, name)
        return runner.run(args, _note())

    def _limit_s(self, tool: Tool) -> float | None:
        """HTTP tools have a deadline of their own, for every caller."""
        if tool.http is None:
            return None
        own = [step.request.timeout_ms for _, step in tool.http.plan()]
        return max(self._http_timeout_s if ms is None else ms / 1000 for ms in own) + _SLACK_S

    def _lack(self, held: StoredBundle, tool: Tool) -> Problem | None:
        """Return what an enabled tool lacks, and what to do about it."""
        where = f"{held.bundle.slug}.{tool.slug}@{tool.version}"
        if tool.go_tool is not None:
            if self._find(tool.go_tool.func) is not None:
                return None
            message = f"the function '{tool.go_tool.func}' is not there."
            return Problem(where, message, "The tool comes back with it.")
        try:
            runner: Any = self._runners.of(held.completed(tool), f"{held.bundle.slug}.{tool.slug}")
            missing = runner.missing_secrets()
        except InvalidTool as exc:
            return Problem(where, f"cannot be called: {exc.message}", exc.hint)
        if not missing:
            return None
        if environment := held.bundle.environment:
            message = (
                f"'{missing[0]}' is neither a variable of the environment '{environment.name}' nor"
                " a secret."
            )
            place = f"{held.bundle.slug} {environment.name}"
            return Problem(
                where, message, f"Set it: %tool bundle env {place} --set {missing[0]}=VALUE"
            )
        message = f"the secret '{missing[0]}' is missing."
        hint = "Add it to secrets.yaml, then reload."
        return Problem(where, message, hint, secret=missing[0])


def _note() -> Callable[[dict[str, Any]], None] | None:
    """Return the function that adds a runner's notes to the `meta` of the result."""
    here = current.scope()
    return None if here is None or here.meta is None else here.meta.update


def _shorten(exc: InvalidOutput) -> None:
    """Replace a large value in the error's details by a handle, as for any value that leaves the
    kernel."""
    here = current.scope()
    call = None if here is None else here.call
    if (
        here is None
        or call is None
        or call.source not in current.LIMITED
        or not isinstance(exc.details, dict)
    ):
        return
    with suppress(OneToolError):
        whole = ToolResult(
            True, data=exc.details["value"], meta={"tool": call.name, "call_id": call.id}
        )
        exc.details["value"] = here.toolbox.outgoing(whole)


def http_hosts(store: BundleStore) -> tuple[int, list[str]]:
    """Return the number of HTTP tools in the bundles, and the hosts that they would reach,
    sorted."""
    from urllib.parse import urlsplit

    listed = (
        held.completed(tool) for held in store.snapshot().live() for tool in held.tools.values()
    )
    tools = [tool for tool in listed if tool.http is not None]
    steps = [step for tool in tools if tool.http is not None for _, step in tool.http.plan()]
    return len(tools), sorted({urlsplit(step.request.url_template).netloc for step in steps})


class Switched:
    """A source of built-in tools, each on or off as the switches of the built-in bundles say."""

    def __init__(self, inner: Source, switches: BuiltInSwitches) -> None:
        self._inner = inner
        self._switches = switches
        self._funcs = frozenset(tool.func for builtin in BUILTINS for tool in builtin.tools)
        self._last_listed: dict[str, str] = {}
        self._specs: dict[str, ToolSpec] = {}

    def tools(self) -> Iterable[ToolSpec]:
        self._switches.off()
        self._last_listed = dict(self._switches.reasons)
        return [self._switched(spec) for spec in self._inner.tools()]

    def problems(self) -> Iterable[Problem]:
        return [*self._inner.problems(), *self._switches.problems()]

    def refresh(self) -> bool:
        self._switches.off()
        return self._last_listed != self._switches.reasons

    def _switched(self, spec: ToolSpec) -> ToolSpec:
        reason = self._switches.reason(spec.name) if spec.name in self._funcs else ""
        if not reason:
            return spec
        switched = self._specs.get(spec.name)
        if switched is None or switched.disabled != reason:
            switched = self._specs[spec.name] = spec.replace(disabled=reason, load=None)
        return switched


def _name(bundle: str, slug: str, version: str) -> str:
    return f"{bundle}.{slug}@{version}" if version else f"{bundle}.{slug}"
