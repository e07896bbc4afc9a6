"""Run a call: bind it to its tool, run the tool, and return a ToolResult. Never raises for a tool's own fault.

`bind` looks the tool up. The steps stand around the run, folded in order; each is a generator that sees the bound call
before and the result after. Sync and async callers share everything but the lines that wait. Stop (KeyboardInterrupt)
and cancellation pass through, after the steps have seen them as a cancelled result. A time limit covers all foreign
code: the import of a pack file, the conversion of arguments, the tool. The call log is no step: it hears of the end.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Protocol
from weakref import ref

from onetool_ipy.base import forks, values
from onetool_ipy.base.background import (
    LAZY,
    Background,
    CarriedException,
    DeadlineExceeded,
    Workers,
    drain,
    is_cancellation,
    require_wanted,
    run_detached,
    run_to_completion,
    timed_out,
)
from onetool_ipy.base.errors import (
    CallCancelled,
    CallFailure,
    Disabled,
    InvalidArgs,
    NotAllowed,
    TooDeep,
    ToolCallError,
    UsageProblem,
)
from onetool_ipy.base.interrupts import Abandoned, deferred, interrupt_in
from onetool_ipy.core import current, names
from onetool_ipy.core.callers import LIMITED, REMOTE
from onetool_ipy.core.registry import Registry
from onetool_ipy.core.result import CallSite, Failure, ToolResult
from onetool_ipy.core.tool import (
    PROJECT_ORIGINS,
    Admit,
    BoundCall,
    Heard,
    Record,
    Require,
    Step,
    ToolCall,
    ToolSpec,
    UncheckedCall,
)

__all__ = [
    "MAX_DEPTH",
    "SPAN_LOGGER",
    "CallIds",
    "CallListener",
    "Executor",
    "acall_heard",
    "call_heard",
    "failure_of",
    "own_frames",
    "span",
]

Mask = Callable[[str], str]

_OURS = tuple(f"onetool_ipy.{room}" for room in ("base.", "core.", "schema.", "sources.", "mcp.", "toolbox"))
_PLUMBING = ("concurrent.futures", "asyncio", "threading", "contextvars")


def failure_of(exc: BaseException, tool: str, mask: Mask) -> Failure:
    """Return the failure of a call that raised `exc`. A failed call inside the tool passes its reason on."""
    _scrub(exc, mask)
    if isinstance(exc, CallFailure):
        return Failure.of(exc, tool)
    if isinstance(exc, ToolCallError):
        inner = exc.error
        reason = inner.reason if inner.code == "execution_error" else None
        text = inner.message if inner.tool in (tool, "") else f"in '{inner.tool}': {inner.message}"
        return Failure("execution_error", text, tool, reason, inner.details, inner.hint, inner.status, exc)
    return Failure("execution_error", mask(_say(exc)), tool, exception=exc)


def own_frames(exc: BaseException) -> types.TracebackType | None:
    """Return the traceback of a tool's exception from the tool's first frame on, without our frames above it."""
    frame = exc.__traceback__
    while frame is not None and _is_above_the_tool(frame):
        frame = frame.tb_next
    return frame or exc.__traceback__


def _is_above_the_tool(frame: types.TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__", "")).startswith((*_OURS, *_PLUMBING))


def _say(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _scrub(exc: BaseException, mask: Mask) -> None:
    """Mask secrets in the text of an exception and its causes. An exception without secrets is not touched."""
    for link in _chain(exc):
        for name, value in _attributes(link):
            try:
                changed = values.map_text(value, mask)
                if changed is not value:
                    setattr(link, name, changed)
            except Exception:  # noqa: BLE001 - an exception class may forbid it; what is shown is masked again
                continue


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield an exception with its causes, contexts and members, each once."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        link = todo.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        todo += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            todo += link.exceptions


def _attributes(exc: BaseException) -> list[tuple[str, Any]]:
    found = [("args", exc.args), *vars(exc).items()]
    if isinstance(exc, OSError):
        found += [(name, getattr(exc, name)) for name in ("filename", "filename2", "strerror")]
    return found


SPAN_LOGGER = "onetool_ipy.span"
_MAX_VALUE = 200


def span(mask: Callable[[str], str]) -> Step:
    """One record per call on logger `onetool_ipy.span`: the tool's name, its arguments, duration and outcome."""
    logger = logging.getLogger(SPAN_LOGGER)
    # A level of its own keeps the arguments of calls out of the root logger's output. A level that the user set stays.
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)

    def step(bound: BoundCall) -> Generator[None, ToolResult, ToolResult | None] | None:
        return told(bound) if logger.isEnabledFor(logging.INFO) else None

    def told(bound: BoundCall) -> Generator[None, ToolResult, ToolResult | None]:
        result = yield
        args: Any = bound.call.args
        given = args if isinstance(args, dict) else {}
        taken = {k: v for k, v in _defaults(bound.spec).items() if k not in given}
        fields = {mask(str(k)): _short(v, mask) for k, v in {**given, **taken}.items()}
        tool, duration_ms = mask(bound.tool), result.meta.get("duration_ms")
        logger.info(
            "%s ok=%s duration_ms=%s %s",
            tool,
            result.ok,
            duration_ms,
            " ".join(f"{k}={v}" for k, v in fields.items()),
            extra={
                "span": tool,
                "fields": fields,
                "ok": result.ok,
                "duration_ms": duration_ms,
                "call_id": mask(str(bound.call.id)),
            },
        )
        return result

    return step


def _defaults(spec: ToolSpec | None) -> dict[str, Any]:
    """Return the defaults that our own tools used (001 wants them in the span), without empty ones."""
    if spec is None or spec.origin != "builtin":
        return {}
    known = spec.parameters.get("properties", {}).items()
    return {name: about["default"] for name, about in known if about.get("default") not in ("", None)}


def _short(value: object, mask: Callable[[str], str]) -> str:
    """Return a value as short text. It is masked before it is cut, so that no part of a secret is left."""
    return values.cut(mask(values.safe_repr(value, _MAX_VALUE * 50)), _MAX_VALUE)


class CallListener(Protocol):
    """Listens to one call."""

    def heard(self, done: float, total: float | None, text: str) -> None:
        """The tool reported progress. Called in any thread, at any rate."""

    def ended(self, ok: bool) -> None:
        """The call has a result."""

    def stopped(self, exc: BaseException) -> BaseException:
        """This exception stopped the call. Return the exception that the caller should see."""


def call_heard(
    listener: CallListener, executor: Executor, made: ToolCall, timeout_s: float | None, allow: Sequence[str] | None
) -> ToolResult:
    """Run a call, and tell a listener about it."""
    try:
        result = executor.call(made, timeout_s=timeout_s, allow=allow, heard=listener.heard)
    except BaseException as exc:  # noqa: BLE001 - it is raised, as the listener wants it seen
        raise _seen(listener, exc) from None
    listener.ended(result.ok)
    return result


async def acall_heard(
    listener: CallListener, executor: Executor, made: ToolCall, timeout_s: float | None, allow: Sequence[str] | None
) -> ToolResult:
    """`call_heard` without blocking the event loop."""
    try:
        result = await executor.acall(made, timeout_s=timeout_s, allow=allow, heard=listener.heard)
    except BaseException as exc:  # noqa: BLE001 - it is raised, as the listener wants it seen
        raise _seen(listener, exc) from None
    listener.ended(result.ok)
    return result


def _seen(listener: CallListener, exc: BaseException) -> BaseException:
    seen = listener.stopped(exc)
    return seen.with_traceback(exc.__traceback__)


MAX_DEPTH = 32
"""How deep tools may call tools before it counts as calling itself for ever."""

_LONGEST_S = 1e8
_LEAST_WAIT_S = 0.2
_log = logging.getLogger("onetool_ipy.core")

_Steps = list[Generator[None, ToolResult, ToolResult | None]]


class Executor:
    """Folds the steps around one invoke. `local_s` is the limit of calls that no person makes.

    `record` is called with every call at its end. It changes nothing, so it is not a step.
    `admit`, where it is set, raises Untrusted for a tool of a project that the user does not trust; `require` raises
    Unavailable for a tool that needs something which is not installed. `background` is the loop of our own async work;
    async tools run on `tool_loop`, so that one that blocks its loop blocks no server.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        owner: Any = None,
        steps: Sequence[Step] = (),
        record: Record | None = None,
        admit: Admit | None = None,
        require: Require | None = None,
        background: Background,
        tool_loop: Background,
        workers: Workers,
        local_s: float = 8.0,
        mask: Callable[[str], str] = str,
    ) -> None:
        self.registry = registry
        self.background = background
        self.tool_loop = tool_loop
        self.workers = workers
        self._owner = owner
        self._site = CallSite((lambda: None) if owner is None else ref(owner), mask)
        self._steps = tuple(steps)
        self._record = record
        self._admit = admit
        self._require = require
        self._local_s = local_s
        self._mask = mask

    def call(
        self,
        call: ToolCall,
        *,
        timeout_s: float | None = None,
        allow: Sequence[str] | None = None,
        heard: Heard | None = None,
    ) -> ToolResult:
        """Run a call to its end. `heard` gets its progress, unless a surrounding call has a listener."""
        bound = self.bind(call, timeout_s, allow, heard)
        began = time.perf_counter()
        entered: _Steps = []
        try:
            result = self._enter(bound, entered)
            if result is None:
                result = self._invoke(bound)
        except BaseException:
            self._leave(bound, entered, _cancelled(bound), began)
            raise
        return self._leave(bound, entered, result, began)

    async def acall(
        self,
        call: ToolCall,
        *,
        timeout_s: float | None = None,
        allow: Sequence[str] | None = None,
        heard: Heard | None = None,
    ) -> ToolResult:
        """Run a call to its end without blocking the event loop."""
        bound = self.bind(call, timeout_s, allow, heard)
        began = time.perf_counter()
        entered: _Steps = []
        try:
            result = self._enter(bound, entered)
            if result is None:
                result = await self._ainvoke(bound)
        except BaseException:
            self._leave(bound, entered, _cancelled(bound), began)
            raise
        return self._leave(bound, entered, result, began)

    def bind(
        self, call: ToolCall, timeout_s: float | None, allow: Sequence[str] | None, heard: Heard | None
    ) -> BoundCall:
        """Look up the tool of a call. Errors in the call become a failed result when it runs."""
        if timeout_s is not None:
            timeout_s = _seconds(timeout_s)
        name = call.name
        spec = call.loaded or (self.registry.get(name) if type(name) is str else None)
        tool = spec.name if spec is not None else name if type(name) is str else values.safe_repr(name, 80)
        return BoundCall(call, spec, tool, timeout_s, allow, heard)

    def _enter(self, bound: BoundCall, entered: _Steps) -> ToolResult | None:
        for step in self._steps:
            try:
                running = step(bound)
                if running is None:
                    continue
                next(running)
            except StopIteration as stop:
                found = stop.value
                if found is not None:  # an answer without running; it may be given to many calls, each with its meta
                    return ToolResult(found.ok, found.data, found.error, dict(found.meta))
            except Exception as exc:  # noqa: BLE001 - what a step refuses, or where it breaks: the call has failed
                return self._failed(bound, exc)
            else:
                entered.append(running)
        return None

    def _leave(self, bound: BoundCall, entered: _Steps, result: ToolResult, began: float) -> ToolResult:
        with deferred:
            duration_ms = round((time.perf_counter() - began) * 1e6) / 1000  # `round(..., 3)` takes three times as long
            self._stamp(bound, result, duration_ms)
            if entered:
                result = self._leave_steps(bound, entered, result, duration_ms)
            if self._record is not None:
                try:
                    self._record(bound, result)
                except Exception as exc:  # noqa: BLE001 - nor may its record cost the tool's result
                    reason = self._mask(values.safe_repr(exc))
                    _log.error("The call of '%s' could not be logged: %s", bound.tool, reason)
        return result

    def _leave_steps(self, bound: BoundCall, entered: _Steps, result: ToolResult, duration_ms: float) -> ToolResult:
        """Pass the result through the steps, the innermost first, and return it."""
        while entered:
            try:
                entered.pop().send(result)
            except StopIteration as stop:
                if stop.value is not None:  # a failed result is false, and still the answer
                    result = stop.value
            except CallFailure as exc:
                result = self._failed(bound, exc)
            except Exception as exc:  # noqa: BLE001 - a step that breaks must not cost the tool's result
                _log.error("A step around '%s' failed: %s", bound.tool, self._mask(values.safe_repr(exc)))
            self._stamp(bound, result, duration_ms)
        return result

    def _stamp(self, bound: BoundCall, result: ToolResult, duration_ms: float) -> None:
        """Write the call into the result's `meta`, and connect the result to this toolbox, which stores its lines."""
        call, meta = bound.call, result.meta
        meta["tool"] = bound.tool
        meta["call_id"] = call.id
        meta["source"] = call.source
        meta["duration_ms"] = duration_ms
        if bound.meta:
            meta.update(bound.meta)
        result.__dict__["_site"] = self._site  # frozen for everyone else

    def _invoke(self, bound: BoundCall) -> ToolResult:
        try:
            spec = self._find(bound)
            limit_s = self._limit(bound, spec)
            if limit_s is None:
                return ToolResult(True, self._direct(bound, spec))
            return ToolResult(True, self._limited(bound, spec, limit_s))
        except BaseException as exc:  # the one place where a tool's fault becomes data
            if (stop := interrupt_in(exc)) is exc:
                raise
            if stop is not None:
                raise stop from None
            if is_cancellation(exc):  # sync code is not cancelled: the tool raised it
                return self._failed(bound, CallCancelled("The tool was cancelled."))
            return self._failed(bound, exc)

    async def _ainvoke(self, bound: BoundCall) -> ToolResult:
        try:
            return ToolResult(True, await self._avalue(bound))
        except (KeyboardInterrupt, GeneratorExit, Abandoned):
            raise  # Stop, or somebody closes this coroutine; a tool's own come as `CarriedException`
        except BaseException as exc:  # the same place, for async callers
            if not is_cancellation(exc):
                return self._failed(bound, exc)
            if _is_being_cancelled():
                raise
            return self._failed(bound, CallCancelled("The tool was cancelled."))

    def _limited(self, bound: BoundCall, spec: ToolSpec, limit_s: float) -> Any:
        if not spec.is_async:
            return self.workers.run(lambda: self._direct(bound, spec, limit_s), limit_s)
        if (load := _importing(spec)) is not None:
            began = time.perf_counter()
            self.workers.run(load, limit_s)
            limit_s = max(limit_s - (time.perf_counter() - began), 0.01)
        return self._direct(bound, spec, limit_s)

    async def _avalue(self, bound: BoundCall) -> Any:
        spec = self._find(bound)
        limit_s = self._limit(bound, spec)
        if (load := _importing(spec)) is not None:
            began = time.perf_counter()
            spec = await self._in_worker(load, limit_s)
            limit_s = limit_s and max(limit_s - (time.perf_counter() - began), 0.01)
        if not spec.is_async:
            return await self._in_worker(lambda: self._direct(bound, spec, limit_s), limit_s)
        spec, args = self._prepare(bound, spec)
        token = current.enter(self._scope(bound, spec))
        loop = self._loop_of(spec)
        running = loop.submit(lambda: run_to_completion(lambda: spec.run(args), limit_s), limit_s)
        try:
            return await loop.wait(running, limit_s)
        except BaseException:
            _left_behind(running.is_alive)
            raise
        finally:
            current.leave(token)

    def _direct(self, bound: BoundCall, spec: ToolSpec, limit_s: float | None = None) -> Any:
        """Run the tool in this thread, and wait for it if it is async."""
        spec, args = self._prepare(bound, spec)
        token = current.enter(self._scope(bound, spec))
        try:
            if spec.is_async:
                if limit_s is None and spec.run_sync is not None:
                    return spec.run_sync(args)
                return self._await(lambda: spec.run(args), self._loop_of(spec), limit_s)
            value = spec.run(args)
            if type(value) not in LAZY:
                return value
            return drain(value) if isinstance(value, Generator) else self._await(lambda: value, self.tool_loop, limit_s)
        finally:
            current.leave(token)

    def _loop_of(self, spec: ToolSpec) -> Background:
        """Return the loop of an async tool: connections to servers live on our own."""
        return self.background if spec.server else self.tool_loop

    def _await(self, begin: Callable[[], Any], loop: Background, limit_s: float | None) -> Any:
        if not loop.is_here():
            return loop.run(lambda: run_to_completion(begin, limit_s), limit_s)
        # Sync code inside an async tool: the loop of that tool cannot wait for itself, so another one does.
        import asyncio

        return self.workers.run(lambda: asyncio.run(run_to_completion(begin, limit_s)), limit_s)

    async def _in_worker(self, work: Callable[[], Any], limit_s: float | None) -> Any:
        import asyncio

        self.workers.require_room()
        task = self.workers.submit(lambda: _run_detached(work))
        outer = asyncio.wrap_future(task.future)
        outer.add_done_callback(_hear)
        began, left_s = time.monotonic(), limit_s
        try:
            while not outer.done() and (left_s is None or left_s > 0):
                await asyncio.wait({outer}, timeout=left_s)
                left_s = limit_s and _left_s(limit_s, began + task.paused_s())
        except BaseException:
            self.workers.abandon(task)
            _left_behind(task.is_alive)
            raise
        if outer.done():
            return outer.result()
        self.workers.abandon(task)
        raise timed_out(limit_s)

    def _find(self, bound: BoundCall) -> ToolSpec:
        """Return the tool without running any of its code, if it may be called."""
        spec = bound.spec
        if self._admit is not None and (spec is None or spec.origin in PROJECT_ORIGINS):
            self._admit(bound.tool, spec)
        if spec is None or bound.allow is not None or spec.disabled:
            spec = self._find_allowed(bound, spec)
        if spec.deps and self._require is not None:
            self._require(spec)
        return spec

    def _find_allowed(self, bound: BoundCall, spec: ToolSpec | None) -> ToolSpec:
        """Do the same for a tool that is not known yet, is switched off, or may not be called here."""
        if spec is None:
            spec = self.registry.find(bound.tool) if type(bound.call.name) is str else None
            if spec is None:
                raise self.registry.missing(bound.tool)
            if self._admit is not None:
                self._admit(bound.tool, spec)
            bound.spec, bound.tool = spec, spec.name
        if bound.allow is not None and not names.allowed(spec.name, bound.allow):
            raise NotAllowed(f"The tool '{spec.name}' is not among those allowed here.")
        if spec.disabled and spec.load is None:
            raise Disabled.of(spec.name, spec.disabled)
        return spec

    def _limit(self, bound: BoundCall, spec: ToolSpec) -> float | None:
        if bound.timeout_s is not None:
            return bound.timeout_s
        if spec.limits_itself and bound.call.source not in REMOTE:
            return None
        return self._local_s if spec.timeout_s is None and bound.call.source in LIMITED else spec.timeout_s

    def _prepare(self, bound: BoundCall, spec: ToolSpec) -> tuple[ToolSpec, dict[str, Any]]:
        """Return the tool as its code defines it now, and the checked arguments."""
        if spec.load is not None:
            if bound.call.loaded is None:
                spec = bound.spec = spec.load()
            if spec.disabled:  # as it is now: another process may have turned it on or off
                raise Disabled.of(spec.name, spec.disabled)
        args = bound.call.args
        if type(args) is not dict and not isinstance(args, dict):
            raise InvalidArgs(
                f"'{spec.name}': the arguments must be an object, not {type(args).__name__}.",
                hint=f"Usage: {spec.signature}",
                details=[{"pointer": "", "message": "not an object", "keyword": "type"}],
            )
        ready, plain, bound.args_size = values.plain_copy(args)
        if type(bound.call) is UncheckedCall:
            return spec, ready
        return spec, spec.checker.check_copy(ready, plain, spec.name, self._mask)

    def _scope(self, bound: BoundCall, spec: ToolSpec) -> current.Scope:
        outer = current.scope()
        if outer is None:
            return current.Scope(self._owner, bound.call, spec, 1, bound.heard, None, None, bound.meta)
        require_wanted()
        if outer.depth >= MAX_DEPTH:
            raise TooDeep(
                f"'{spec.name}' was called {MAX_DEPTH} tools deep.", hint="Does a tool call itself without end?"
            )
        depth, progress, left, printed = outer.depth + 1, outer.progress, outer.left, outer.printed
        return current.Scope(
            *(self._owner, bound.call, spec, depth, progress, left, printed, bound.meta),
            asked_by=outer.asked_by,
            ask=outer.ask,
            client=outer.client,
        )

    def _failed(self, bound: BoundCall, exc: BaseException) -> ToolResult:
        if type(exc) is CarriedException:
            exc = exc.inner
        if type(exc) is DeadlineExceeded and bound.spec is not None:
            limit_s = self._limit(bound, bound.spec)
            exc = exc.of(bound.tool, bound.spec.timeout_s if limit_s is None else limit_s)
        return ToolResult(False, error=failure_of(exc, bound.tool, self._mask))


class CallIds:
    """Ids for calls: unique across processes, increasing within one; safe in threads and after a fork."""

    __slots__ = ("__weakref__", "_count", "_head")

    def __init__(self) -> None:
        self.after_fork()
        forks.register(self)

    def __call__(self) -> str:
        return f"{self._head}{next(self._count):06x}"

    def after_fork(self) -> None:
        """Start a new series of ids."""
        self._head = f"{int(time.time()):08x}{os.urandom(4).hex()}"
        self._count = itertools.count(1)


def _importing(spec: ToolSpec) -> Callable[[], ToolSpec] | None:
    """Return how to load a tool whose file may have to be imported, which may hang. A record is just read."""
    return spec.load if spec.origin in ("file", "entry_point") else None


def _seconds(timeout_s: Any) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise UsageProblem(f"A timeout is a number of seconds above 0, not {values.safe_repr(timeout_s, 40)}.")
    return min(float(timeout_s), _LONGEST_S)


def _left_s(limit_s: float, began: float) -> float:
    """Return how much of a call's limit is left."""
    left_s = limit_s - (time.monotonic() - began)
    return max(left_s, _LEAST_WAIT_S) if left_s > 0 else left_s


def _run_detached(work: Callable[[], Any]) -> Any:
    """Turn StopIteration into RuntimeError, as Python does in coroutines; otherwise the caller would wait forever."""
    try:
        return run_detached(work)
    except StopIteration as exc:
        raise RuntimeError(f"The tool raised StopIteration: {values.safe_repr(exc.value, 80)}") from exc


def _hear(future: Any) -> None:
    """Retrieve the exception of an abandoned call; otherwise asyncio would print it with all its frames."""
    if not future.cancelled():
        future.exception()


def _left_behind(is_alive: Callable[[], bool]) -> None:
    here = current.scope()
    if here is not None and here.left is not None:
        here.left.append(is_alive)


def _cancelled(bound: BoundCall) -> ToolResult:
    return ToolResult(False, error=Failure.of(CallCancelled("Stopped."), bound.tool))


def _is_being_cancelled() -> bool:
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
