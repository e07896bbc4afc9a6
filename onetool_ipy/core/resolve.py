"""Resolve a call: a name, a caller, arguments and an allow-list become a call that only needs to be
run.

This is the one place that decides whether a call may run: its server is started, the user trusts
it, the allow-list has it, it is switched on, what it needs is installed, its code is loaded, its
arguments fit. What does not depend on the arguments is found once for each generation of the
registry and kept; for each call it is looked whether its pack file, its bundle record or the user's
trust changed. A call that may not run is resolved too: its `failure` says why, and the executor
records it.

The check of arguments here runs no code of the tool. Converting them to the tool's own types does,
so that is part of the run, under its time limit. The import of a pack file has to come first: it
has the same limit, and its time counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.background import DeadlineExceeded, Workers, is_cancellation
from onetool_ipy.base.errors import Disabled, InvalidArgs, NotAllowed, OneToolError, UsageProblem
from onetool_ipy.base.interrupts import interrupt_in
from onetool_ipy.core import names
from onetool_ipy.core.current import LIMITED, OUTSIDE, REMOTE, Report, Scope
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import PROJECT_ORIGINS, CallSource, ToolCall, ToolSpec
from onetool_ipy.schema.read import usage_text

HANDLE_LENGTH = 12
"""How long the text of a handle is: a shorter text comes from no stored result."""

_LONGEST_S = 1e8
_LEAST_S = 0.01
_IMPORTED = ("entry_point", "file")

Arguments = (
    Mapping[str, Any]
    | tuple[tuple[Any, ...], dict[str, Any]]
    | Callable[[ToolSpec], dict[str, Any]]
)
"""The arguments of a call: by name; by position and by name, as Python gives them; or a function
that reads them as the tool wants them."""

Allow = Sequence[str] | Callable[[ToolSpec], bool]
"""The tools that may be called: an allow-list, or a function that decides."""

Prepare = Callable[[str, ToolSpec | None, CallSource], bool]
"""Called before a call of a project's tool is decided: a person may be asked for trust, and the
server of an unknown tool is started. Returns whether there may be other tools now."""

Admit = Callable[[str, ToolSpec | None], None]
"""Called with a tool by its name and what is known of it; raises Untrusted where the user's trust
does not cover it."""

HasNews = Callable[[], bool]
"""Whether the user trusted or distrusted something since these parts were built."""

Require = Callable[[ToolSpec], None]
"""Called with a tool that declares `deps`; raises Unavailable where one is missing."""


class CallListener(Protocol):
    """Listens to the calls that a person makes."""

    def heard(self, call: ResolvedCall, done: float, total: float | None, text: str) -> None:
        """The tool reported progress. Called in any thread, at any rate."""

    def ended(self, call: ResolvedCall, ok: bool) -> None:
        """The call has a result."""

    def stopped(self, call: ResolvedCall, exc: BaseException) -> BaseException:
        """This exception stopped the call. Return the exception that the caller should see."""


class ResolvedCall(Scope):
    """A call with its tool, ready to run; or with the `failure` that is its result. While the tool
    runs it is the scope of its code.

    `tool` is the canonical name, or what stands for a name that no tool has. `args` are the checked
    arguments, which the tool may change; `given` are those that came, and stay as they are.
    `args_size` and `copier` are what `values.plain_copy` says of them. `inputs` are the arguments
    that came from results of other calls, each with the id of the call; `lent` is what
    `core.lineage` knows of the copies. `limit_s` is the limit of the call, of which the import of a
    pack file has taken `load_s`. Steps and sources write into `meta` what the result's `meta` shall
    show. `has_yes` says that a person approved this tool, or that an allow-list of our MCP server
    names it: then it may change something through other tools. `began` is the time by
    `perf_counter` at which it began; `took_s` is known at its end. A call is straight if it is a
    person's call of a plain function, without a limit and inside no other call, with arguments that
    come from no result.
    """

    spec: ToolSpec | None
    meta: dict[str, Any]
    id: str
    name: str
    given: dict[str, Any]
    source: CallSource
    tool: str
    args: dict[str, Any]
    depth: int = 1
    is_checked: bool = True
    limit_s: float | None = None
    load_s: float = 0.0
    failure: BaseException | None = None
    args_size: int = -1
    copier: values.Copier | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    lent: object = None
    has_yes: bool = False
    is_straight: bool = False
    began: float = 0.0
    took_s: float = 0.0
    listener: CallListener | None = None
    _report: Report | None = None

    # What most calls leave as it is stands on the class: `__init__` of a dataclass sets each field.
    def __init__(
        self,
        call_id: str,
        name: str,
        given: dict[str, Any],
        source: CallSource,
        spec: ToolSpec | None,
        tool: str,
        limit_s: float | None = None,
    ) -> None:
        self.id = call_id
        self.name = name
        self.given = given
        self.source = self.asked_by = source
        self.spec = spec
        self.tool = tool
        self.limit_s = limit_s
        self.meta = {}
        self.args = {}

    @property
    def call(self) -> ToolCall:  # type: ignore[override]  # few ask for it
        """What was asked for."""
        return ToolCall(self.id, self.name, self.given, self.source)

    @property
    def progress(self) -> Report | None:
        """Tells whoever watches the call how far it is."""
        listener = self.listener
        return self._report if listener is None else partial(listener.heard, self)

    @progress.setter
    def progress(self, report: Report | None) -> None:
        self._report = report

    @property
    def left_s(self) -> float | None:
        """What is left of the limit for the run."""
        return None if self.limit_s is None else max(self.limit_s - self.load_s, _LEAST_S)

    def require(self) -> ToolSpec:
        """Return the tool, or raise why the call may not run."""
        if self.failure is not None:
            raise self.failure
        assert self.spec is not None
        return self.spec


class Step(Protocol):
    """One concern around a call, as a generator: code before `yield`, the result comes in, a result
    goes out.

    Returning a ToolResult before the yield answers the call without running it; returning None
    steps aside, and so does a step that gives no generator at all. A CallFailure that it raises
    becomes the call's result.
    """

    def __call__(
        self, resolved: ResolvedCall
    ) -> Generator[None, ToolResult, ToolResult | None] | None: ...


Listen = Callable[[ResolvedCall], CallListener | None]
"""Gives the listener of a call, if anybody watches it."""

Record = Callable[[ResolvedCall, ToolResult], None]
"""Called with every call at its end, after all steps, also if the call was refused, failed or was
stopped."""


class _Permit(NamedTuple):
    """A tool that a caller may call, whatever the arguments. Its calls are straight where their
    arguments are. Each call looks at the user's trust (`is_guarded`), and at the tool's file or
    record (`is_loaded`)."""

    spec: ToolSpec | None
    tool: str
    limit_s: float | None = None
    is_straight: bool = False
    is_guarded: bool = False
    is_loaded: bool = False

    @classmethod
    def of(
        cls, spec: ToolSpec, source: CallSource, limit_s: float | None, *, is_guarded: bool
    ) -> _Permit:
        is_straight = limit_s is None and spec.is_plain_function and source not in OUTSIDE
        return cls(spec, spec.name, limit_s, is_straight, is_guarded, spec.load is not None)


class Resolver:
    """Resolves the calls of one generation of a toolbox's parts.

    `local_s` is the limit of calls that no person makes. `in_force` gives the resolver of the parts
    in force: after `prepare` that may be another one, since trust that was given or taken builds
    new parts; `has_news` says that it did.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        workers: Workers,
        prepare: Prepare | None = None,
        in_force: Callable[[], Resolver] | None = None,
        admit: Admit | None = None,
        has_news: HasNews = lambda: False,
        require: Require | None = None,
        local_s: float = 8.0,
        mask: Callable[[str], str] = str,
    ) -> None:
        self.registry = registry
        self._workers = workers
        self._prepare = prepare
        self._in_force = in_force
        self._admit = admit
        self._has_news = has_news
        self._require = require
        self._local_s = local_s
        self._mask = mask
        self._permits: tuple[int, dict[tuple[str, CallSource], _Permit]] = (-1, {})
        """What was found out in one generation of the registry; replaced as a whole."""

    def resolve(
        self,
        call_id: str,
        name: str,
        args: Arguments,
        source: CallSource,
        timeout_s: float | None = None,
        allow: Allow | None = None,
        check: bool = True,
    ) -> ResolvedCall:
        """Resolve a call. What is wrong with it is its `failure`; raises UsageProblem for a timeout
        that is none."""
        generation, permits = self._permits
        permit = None
        if generation == self.registry.generation and type(name) is str:
            permit = permits.get((name, source))
        resolver, load_s, failure = self, 0.0, None
        if (
            permit is None
            or timeout_s is not None
            or allow is not None
            or (permit.is_guarded and self._has_news())
        ):
            resolver, permit, failure = self._find(permit, name, source, timeout_s, allow)
        if permit.is_loaded and failure is None:
            permit, load_s, failure = resolver._load(permit, source)
        spec, tool, limit_s, is_straight, _, _ = permit
        given: Any = args
        if type(args) is tuple and len(args) == 2 and type(args[1]) is dict:
            given = {} if spec is None else spec.named(args[0], args[1])
        elif type(args) is not dict:
            given = _by_name(args, spec)
        resolved = ResolvedCall(call_id, name, given, source, spec, tool, limit_s)
        if load_s:
            resolved.load_s = load_s
        if failure is not None or spec is None:
            resolved.failure = failure
            return resolved
        try:
            size = spec.checker.brief_size(given) if check and type(given) is dict else -1
            if size >= 0:
                resolved.args = given.copy()
                resolved.args_size = size
            else:
                size = resolver._check(resolved, spec, check)
            # Last: what is refused is never straight.
            if is_straight and 0 <= size < HANDLE_LENGTH:
                resolved.is_straight = True
        except OneToolError as exc:
            # Its traceback holds this frame, and so the call itself: only the collector could
            # free them.
            resolved.failure = exc.with_traceback(None)
        return resolved

    def _find(
        self,
        permit: _Permit | None,
        name: str,
        source: CallSource,
        timeout_s: float | None,
        allow: Allow | None,
    ) -> tuple[Resolver, _Permit, BaseException | None]:
        """Find a tool that is not known, or for which this call has rules of its own. Returns who
        decided, the permit, and what is in the way."""
        if timeout_s is not None:
            timeout_s = seconds(timeout_s)
        resolver, failure = self, None
        if (
            permit is None
            or permit.spec is None
            or (allow is not None and not _is_allowed(permit.spec, allow))
            or (permit.is_guarded and self._has_news())
        ):
            resolver, permit, failure = self._decide(name, source, allow)
        if timeout_s is not None:
            permit = permit._replace(limit_s=timeout_s, is_straight=False)
        return resolver, permit, failure

    def _is_guarded(self, spec: ToolSpec | None) -> bool:
        """Whether the user's trust is looked at for each call of this tool."""
        return self._admit is not None and (spec is None or spec.origin in PROJECT_ORIGINS)

    def is_quick(self, name: str, source: CallSource) -> bool:
        """Whether resolving a call of this tool waits for nothing: no server, no person, no
        import."""
        generation, permits = self._permits
        permit = permits.get((name, source)) if type(name) is str else None
        return (
            permit is not None
            and permit.spec is not None
            and generation == self.registry.generation
            and permit.spec.origin not in _IMPORTED
        )

    def _decide(
        self, name: str, source: CallSource, allow: Allow | None
    ) -> tuple[Resolver, _Permit, BaseException | None]:
        """Find out whether the caller may call the tool. Returns who decided, the permit, and what
        is in the way; then the permit holds what is known of the tool."""
        resolver, is_name = self, type(name) is str
        # The number is read first: a tool that is replaced meanwhile must not be kept under the
        # next.
        generation = self.registry.generation
        spec = self.registry.find(name) if is_name else None
        # Without `admit` everything is trusted for the life of these parts: only a server may be
        # missing.
        if (
            (spec is None or (self._admit is not None and spec.origin in PROJECT_ORIGINS))
            and is_name
            and self._prepare
        ):
            # A name that is not on the allow-list starts no server.
            may_start = (
                spec is not None or allow is None or callable(allow) or names.allowed(name, allow)
            )
            if may_start and self._prepare(name, spec, source):
                # Trust that was given or taken a moment ago has built new parts: theirs decide.
                resolver = self if self._in_force is None else self._in_force()
                generation = resolver.registry.generation
                spec = resolver.registry.find(name)
        tool = spec.name if spec is not None else name if is_name else values.safe_repr(name, 80)
        try:
            permit = resolver._permit(tool, spec, source, allow)
        except BaseException as exc:  # noqa: BLE001 - an import may raise anything
            _require_failure(exc)
            return resolver, _Permit(spec, tool), exc
        permits = resolver._permits
        if permits[0] != generation:
            permits = resolver._permits = (generation, {})
        permits[1][name, source] = permit
        return resolver, permit, None

    def _permit(
        self, tool: str, spec: ToolSpec | None, source: CallSource, allow: Allow | None
    ) -> _Permit:
        """Find out whether the caller may call the tool, and with which limit. Raises what is in
        the way."""
        if spec is not None and allow is not None and not _is_allowed(spec, allow):
            raise NotAllowed(f"The tool '{spec.name}' is not among those allowed here.")
        is_guarded = self._is_guarded(spec)
        if is_guarded and self._admit is not None:
            self._admit(tool, spec)
        if spec is None:
            raise self.registry.missing(tool)
        # Whether a tool with `load` is on is known when it is loaded: another process may have
        # switched it.
        if spec.disabled and spec.load is None:
            raise Disabled.of(spec.name, spec.disabled)
        if spec.deps and self._require is not None:
            self._require(spec)
        limit_s = None
        if (spec.timeout_s is not None or source in LIMITED) and (
            not spec.limits_itself or (source in REMOTE and spec.http is None)
        ):
            limit_s = self._local_s if spec.timeout_s is None else spec.timeout_s
        return _Permit.of(spec, source, limit_s, is_guarded=is_guarded)

    def _load(
        self, permit: _Permit, source: CallSource
    ) -> tuple[_Permit, float, BaseException | None]:
        """Take the tool as its file or record is now. Returns its permit, how long its import took,
        and what is in the way."""
        spec, tool, limit_s = permit.spec, permit.tool, permit.limit_s
        assert spec is not None
        assert spec.load is not None
        load_s = 0.0
        try:
            if limit_s is None or spec.origin not in _IMPORTED:
                loaded = spec.load()
            else:
                began = time.perf_counter()
                try:
                    loaded = self._workers.run(spec.load, limit_s)
                except DeadlineExceeded as exc:
                    raise exc.of(tool, limit_s) from exc.__cause__
                load_s = time.perf_counter() - began
        except BaseException as exc:  # noqa: BLE001 - the same
            _require_failure(exc)
            return permit, load_s, exc
        if loaded is not spec:
            permit = _Permit.of(loaded, source, limit_s, is_guarded=permit.is_guarded)
        failure = Disabled.of(loaded.name, loaded.disabled) if loaded.disabled else None
        return permit, load_s, failure

    def _check(self, resolved: ResolvedCall, spec: ToolSpec, is_checked: bool) -> int:
        """Copy the arguments, and check and complete the copy if `is_checked`. Returns how long
        they are as text; -1 if something may be inside them."""
        given: object = resolved.given
        if not isinstance(given, dict):
            raise InvalidArgs(
                f"'{spec.name}': the arguments must be an object, not {type(given).__name__}.",
                hint=f"Usage: {usage_text(spec.name, spec.parameters)}",
                details=[{"pointer": "", "message": "not an object", "keyword": "type"}],
            )
        args, is_plain, size, copier = values.plain_copy(given)
        resolved.args, resolved.args_size, resolved.copier = args, size, copier
        resolved.is_checked = is_checked
        if is_checked:
            if copier is not None and copier.is_too_deep:
                raise spec.checker.too_deep(spec.name)
            spec.checker.fit(args, is_plain, spec.name, self._mask)
        return size if copier is None else -1


def _by_name(args: Any, spec: ToolSpec | None) -> Any:
    """Return arguments that a function reads, or that are a mapping of another kind, as a dict."""
    if callable(args):
        return {} if spec is None else args(spec)
    return dict(args) if isinstance(args, Mapping) else args


def _is_allowed(spec: ToolSpec, allow: Allow) -> bool:
    return allow(spec) if callable(allow) else names.allowed(spec.name, allow)


def _require_failure(exc: BaseException) -> None:
    """Raise what stops this thread: that is no failure of the call."""
    if interrupt_in(exc) is not None or is_cancellation(exc):
        raise exc


def seconds(timeout_s: object) -> float:
    """Return a limit that somebody wrote as seconds. Raises UsageProblem for what is none."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise UsageProblem(
            f"A timeout is a number of seconds above 0, not {values.safe_repr(timeout_s, 40)}."
        )
    return min(float(timeout_s), _LONGEST_S)
