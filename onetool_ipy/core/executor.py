"""Run a resolved call, time it, record it, and return a ToolResult. Never raises for a tool's own
fault.

`resolve` has decided whether the call may run; nothing is asked again here. The steps are around
the run, folded in order; each is a generator that sees the call before and the result after. A step
that breaks is told of, and costs neither the call nor its row in the log. Sync and async callers
share everything but the lines that wait. Stop (KeyboardInterrupt) and cancellation pass through,
after the steps have seen them as a cancelled result. A time limit covers all code of the tool. The
call log is no step: it hears of the end.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any
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
from onetool_ipy.base.errors import CallCancelled, CallFailure, NotApproved, TooDeep
from onetool_ipy.base.interrupts import Abandoned, deferred, interrupt_in
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.current import enter, scope
from onetool_ipy.core.resolve import HANDLE_LENGTH, Listen, Record, ResolvedCall, Step
from onetool_ipy.core.result import CallSite, Failure, ToolResult, failure_of
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.core.tracing import OPENTELEMETRY, is_traced

SPAN_LOGGER = "onetool_ipy.span"
MAX_DEPTH = 32
"""How deep tools may call tools before it counts as calling itself for ever."""

_MAX_VALUE = 200
_LEAST_WAIT_S = 0.2
_log = logging.getLogger("onetool_ipy.core")
_spans = logging.getLogger(SPAN_LOGGER)
_modules = sys.modules

_Steps = list[Generator[None, ToolResult, ToolResult | None]]


class Executor:
    """Runs calls, with the steps around each. `record` is called with every call at its end; it
    changes nothing.

    `is_watched` says whether any of the `steps` is on: while none is, a call asks none of them.
    `switched` are the inner steps that are on now: their owner changes the list. They may stand in
    for the tool, as a replay does. So one that breaks is a failed call, and the tool does not run
    in its place. `find_origin` is called with a call whose arguments may come from the results of
    others, before the tool may change them.

    `is_write` says whether a call may change something, as far as its tool can be trusted.

    `background` is the loop of our own async work. Async tools run on `tool_loop`, so that one that
    blocks its loop blocks no server.
    """

    def __init__(
        self,
        *,
        owner: object = None,
        steps: Sequence[Step] = (),
        is_watched: Callable[[], bool] = lambda: True,
        switched: Sequence[Step] = (),
        find_origin: Callable[[ResolvedCall], None] | None = None,
        record: Record | None = None,
        background: Background,
        tool_loop: Background,
        workers: Workers,
        mask: Callable[[str], str] = str,
        is_write: Callable[[ToolSpec, Json], bool] = lambda spec, _args: not spec.read_only,
    ) -> None:
        self.background = background
        self.tool_loop = tool_loop
        self.workers = workers
        self._owner = owner
        self._site = CallSite((lambda: None) if owner is None else ref(owner), mask)
        self._steps = tuple(steps)
        self._is_watched = is_watched
        self._switched = switched
        self._find_origin = find_origin
        self._record = record or (lambda _call, _result: None)
        self._mask = mask
        self._is_write = is_write

    def call(self, call: ResolvedCall, listen: Listen | None = None) -> ToolResult:
        """Run a call to its end. `listen` gives the listener of a call that is inside no other."""
        listener = None
        call.outer = outer = scope()
        call.began = perf_counter()
        if outer is None and listen is not None:
            listener = call.listener = listen(call)
        try:
            if outer is not None or call.limit_s is not None:
                call.is_straight = False
            if not call.is_straight or self._switched or self._is_watched():
                result = self._call(call)
            else:
                try:
                    call.toolbox = self._owner
                    try:
                        enter(call)
                        value = call.spec.run(call.args)  # type: ignore[union-attr]  # it has a tool
                        if type(value) in LAZY:
                            value = self._finish(value, None)
                    finally:
                        enter(None)
                    call.took_s = took_s = perf_counter() - call.began
                    ms = round((took_s - call.waited_s) * 1e6) / 1000
                    meta = {
                        "tool": call.tool,
                        "call_id": call.id,
                        "source": call.source,
                        "duration_ms": ms,
                    }
                    if call.meta:
                        meta.update(call.meta)
                    result = ToolResult(True, value, None, meta, self._site)
                except BaseException as exc:  # noqa: BLE001 - as in `_call`
                    result = self._fail(call, exc)
                else:
                    # Stop cannot arrive between the result and its record.
                    record = self._record
                    try:
                        record(call, result)
                    except Exception as exc:  # noqa: BLE001 - its record may not cost the tool's result
                        self._report("The call of '%s' could not be logged: %s", call, exc)
        except BaseException as exc:
            if listener is None:
                raise
            raise listener.stopped(call, exc).with_traceback(exc.__traceback__) from None
        if listener is not None:
            listener.ended(call, result.ok)
        return result

    async def acall(self, call: ResolvedCall, listen: Listen | None = None) -> ToolResult:
        """Run a call to its end without blocking the event loop."""
        listener = None
        call.outer = outer = scope()
        call.began, call.is_straight = perf_counter(), False
        if outer is None and listen is not None:
            listener = call.listener = listen(call)
        entered: _Steps = []
        try:
            try:
                result = self._begin(call, entered)
                if result is None:
                    try:
                        result = ToolResult(True, await self._avalue(call), None, {})
                    except BaseException as exc:  # noqa: BLE001 - the same place, for async callers
                        result = self._acaught(call, exc)
            except BaseException:
                self._end(call, entered, _cancelled(call))
                raise
            result = self._end(call, entered, result)
        except BaseException as exc:
            if listener is None:
                raise
            raise listener.stopped(call, exc).with_traceback(exc.__traceback__) from None
        if listener is not None:
            listener.ended(call, result.ok)
        return result

    def _call(self, call: ResolvedCall) -> ToolResult:
        """Run a call that may be refused, has a limit, is inside another one, or has steps around
        it."""
        entered: _Steps = []
        try:
            result = self._begin(call, entered)
            if result is None:
                try:
                    # An async tool runs on its loop, which keeps the limit; a sync one needs a
                    # thread for it.
                    if call.limit_s is None or call.require().is_async:
                        value = self._direct(call)
                    else:
                        value = self.workers.run(partial(self._direct, call), call.left_s)
                    result = ToolResult(True, value, None, {})
                except BaseException as exc:  # noqa: BLE001 - the one place where a tool's fault becomes data
                    result = self._caught(call, exc)
        except BaseException:
            self._end(call, entered, _cancelled(call))
            raise
        return self._end(call, entered, result)

    def _fail(self, call: ResolvedCall, exc: BaseException) -> ToolResult:
        """End a call that raised."""
        try:
            result = self._caught(call, exc)
        except BaseException:
            self._end(call, [], _cancelled(call))
            raise
        return self._end(call, [], result)

    def _begin(self, call: ResolvedCall, entered: _Steps) -> ToolResult | None:
        """Begin the steps that are on. Returns the result of a call that a step answers, or that
        may not run."""
        if self._find_origin is not None and (
            call.copier is not None or call.args_size >= HANDLE_LENGTH
        ):
            try:
                self._find_origin(call)
            except Exception as exc:  # noqa: BLE001 - what is beside a call may not cost the call
                self._report("The origin of the arguments of '%s' is not known: %s", call, exc)
        if self._switched or self._is_watched():
            answer = self._enter_steps(call, entered)
            if answer is not None:
                return answer
        return None if call.failure is None else self._failed(call, call.failure)

    def _enter_steps(self, call: ResolvedCall, entered: _Steps) -> ToolResult | None:
        for step in (*self._steps, *self._switched):
            try:
                running = step(call)
                if running is None:
                    continue
                next(running)
            except StopIteration as stop:
                # One answer may be given to many calls, each with a `meta` of its own.
                if (answer := stop.value) is not None:
                    return ToolResult(answer.ok, answer.data, answer.error, dict(answer.meta))
            except Exception as exc:  # noqa: BLE001 - a step refuses the call, or breaks
                if isinstance(exc, CallFailure) or step in self._switched:
                    return self._failed(call, exc)
                self._report("A step around '%s' failed: %s", call, exc)
            else:
                entered.append(running)
        return None

    @deferred.during
    def _end(self, call: ResolvedCall, entered: _Steps, result: ToolResult) -> ToolResult:
        """Stamp the result, pass it through the steps, and record the call."""
        try:
            # What a person took to answer is not the tool's time. `round(..., 3)` takes three times
            # as long.
            call.took_s = perf_counter() - call.began
            duration_ms = round((call.took_s - call.waited_s) * 1e6) / 1000
            self._stamp(call, result, duration_ms)
            try:
                if entered:
                    result = self._leave_steps(call, entered, result, duration_ms)
            finally:
                try:
                    self._record(call, result)
                except Exception as exc:  # noqa: BLE001 - its record may not cost the tool's result
                    self._report("The call of '%s' could not be logged: %s", call, exc)
            return result
        finally:
            if deferred.has_stop:
                deferred.release()

    def _leave_steps(
        self, call: ResolvedCall, entered: _Steps, result: ToolResult, duration_ms: float
    ) -> ToolResult:
        """Pass the result through the steps, the innermost first, and return it."""
        while entered:
            try:
                entered.pop().send(result)
            except StopIteration as stop:
                # A failed result is false, and still the answer.
                if stop.value is not None:
                    result = stop.value
            except CallFailure as exc:
                result = self._failed(call, exc)
            except Exception as exc:  # noqa: BLE001 - a step that breaks must not cost the tool's result
                self._report("A step around '%s' failed: %s", call, exc)
            self._stamp(call, result, duration_ms)
        return result

    def _report(self, message: str, call: ResolvedCall, exc: Exception) -> None:
        """Say in the log of this process what broke beside a call."""
        try:
            reason = self._mask(values.safe_repr(exc))
        except Exception:  # noqa: BLE001 - the masking itself is broken, so no text of the exception is safe
            reason = type(exc).__name__
        _log.error(message, call.tool, reason)

    def _stamp(self, call: ResolvedCall, result: ToolResult, duration_ms: float) -> None:
        """Write the call into the result's `meta`, and connect the result to this toolbox, which
        stores its lines."""
        meta = result.meta
        meta["tool"] = call.tool
        meta["call_id"] = call.id
        meta["source"] = call.source
        meta["duration_ms"] = duration_ms
        if call.meta:
            meta.update(call.meta)
        # The result is frozen for everyone but the executor.
        result.__dict__["_site"] = self._site

    async def _avalue(self, call: ResolvedCall) -> Any:
        """Return what the tool gives: a sync one in a thread of its own, an async one on its
        loop."""
        spec, limit_s = call.require(), call.left_s
        if not spec.is_async:
            return await self._in_worker(lambda: self._direct(call), limit_s)
        call.toolbox = self._owner
        self._nest(call, spec, current.scope())
        token = current.enter(call)
        try:
            args = self._convert(call, spec) if spec.function.converters else call.args
            # A tool that limits itself is our own code: it ends when it is cancelled and raises
            # nothing but exceptions. On the loop it needs no task of its own.
            loop = self._loop_of(spec)
            if spec.limits_itself and loop.is_here():
                return await run_to_completion(lambda: spec.run(args), limit_s)
            running = loop.submit(
                lambda: run_to_completion(lambda: spec.run(args), limit_s), limit_s
            )
            try:
                return await loop.wait(running, limit_s)
            except BaseException:
                _left_behind(running.is_alive)
                raise
        finally:
            current.leave(token)

    def _caught(self, call: ResolvedCall, exc: BaseException) -> ToolResult:
        """Return the failure that a tool's exception is. Raises what is a Stop."""
        if (stop := interrupt_in(exc)) is exc:
            raise exc
        if stop is not None:
            raise stop from None
        # Nobody cancels sync code: the tool raised this itself.
        if is_cancellation(exc):
            return self._failed(call, CallCancelled("The tool was cancelled."))
        return self._failed(call, exc)

    def _acaught(self, call: ResolvedCall, exc: BaseException) -> ToolResult:
        """Return the failure that a tool's exception is. Raises a Stop, or the cancellation of this
        task.

        What a tool raises comes as a `CarriedException`; GeneratorExit closes the caller.
        """
        if isinstance(exc, (KeyboardInterrupt, GeneratorExit, Abandoned)):
            raise exc
        if not is_cancellation(exc):
            return self._failed(call, exc)
        import asyncio

        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise exc
        return self._failed(call, CallCancelled("The tool was cancelled."))

    def _direct(self, call: ResolvedCall) -> Any:
        """Run the tool in this thread, and wait for it if it is async."""
        spec = call.spec
        assert spec is not None
        call.toolbox = self._owner
        if (outer := current.scope()) is not None or call.asked_by in current.OUTSIDE:
            self._nest(call, spec, outer)
        token = current.enter(call)
        try:
            args = self._convert(call, spec) if spec.function.converters else call.args
            if spec.is_async:
                if call.limit_s is None and spec.http is not None:
                    return spec.http.send(args)
                return self._await(partial(spec.run, args), self._loop_of(spec), call.left_s)
            value = spec.run(args)
            return value if type(value) not in LAZY else self._finish(value, call.left_s)
        finally:
            current.leave(token)

    def _finish(self, value: Any, limit_s: float | None) -> Any:
        """Run a generator or a coroutine that a sync tool returned to its end."""
        return (
            drain(value)
            if isinstance(value, Generator)
            else self._await(lambda: value, self.tool_loop, limit_s)
        )

    def _convert(self, call: ResolvedCall, spec: ToolSpec) -> Json:
        """Return the arguments as the tool's own types, which is code of the tool."""
        if call.is_checked:
            spec.checker.convert(call.args, spec.name, self._mask)
        return call.args

    def _loop_of(self, spec: ToolSpec) -> Background:
        """Return the loop of an async tool: connections of HTTP tools and to servers live on our
        own."""
        return self.background if spec.http is not None or spec.server else self.tool_loop

    def _await(self, begin: Callable[[], object], loop: Background, limit_s: float | None) -> Any:
        if not loop.is_here():
            return loop.run(lambda: run_to_completion(begin, limit_s), limit_s)
        # Sync code inside an async tool: the loop of that tool cannot wait for itself, so another
        # one does.
        import asyncio

        return self.workers.run(lambda: asyncio.run(run_to_completion(begin, limit_s)), limit_s)

    async def _in_worker(self, work: Callable[[], object], limit_s: float | None) -> Any:
        import asyncio

        def run() -> Any:
            # A future cannot hold StopIteration: it becomes RuntimeError, as Python makes of it in
            # coroutines.
            try:
                return run_detached(work)
            except StopIteration as exc:
                raise RuntimeError(
                    f"The tool raised StopIteration: {values.safe_repr(exc.value, 80)}"
                ) from exc

        self.workers.require_room()
        task = self.workers.submit(run)
        outer: asyncio.Future[Any] | None = None
        began, left_s = time.monotonic(), limit_s
        try:
            # A future's methods take its lock, which Stop must not leave taken.
            with deferred:
                if not task.future.done():
                    outer = asyncio.wrap_future(task.future)
                    # Somebody must take the exception of an abandoned call, or asyncio prints it
                    # with all its frames.
                    outer.add_done_callback(lambda future: future.cancelled() or future.exception())
            while outer is not None and not outer.done() and (left_s is None or left_s > 0):
                await asyncio.wait({outer}, timeout=left_s)
                if limit_s is not None:
                    left_s = limit_s - (time.monotonic() - began - task.paused_s())
                    left_s = max(left_s, _LEAST_WAIT_S) if left_s > 0 else left_s
        except BaseException:
            self.workers.abandon(task)
            _left_behind(task.is_alive)
            raise
        if outer is None:
            # A quick tool has ended when its thread is known to have started. To wait for its
            # future on the loop would cost more than the tool; one turn of the loop lets other
            # tasks run, and a cancellation arrive.
            await asyncio.sleep(0)
            return task.future.result()
        if outer.done():
            return outer.result()
        self.workers.abandon(task)
        raise timed_out(limit_s)

    def _nest(self, call: ResolvedCall, spec: ToolSpec, outer: current.Scope | None) -> None:
        """Make a call the scope of its tool, inside the scope of now. Raises what forbids that."""
        if outer is None:
            if call.asked_by in current.OUTSIDE:
                call.may_write = call.has_yes or self._is_write(spec, call.args)
            return
        call.outer = outer
        require_wanted()
        if outer.depth >= MAX_DEPTH:
            raise TooDeep(
                f"'{spec.name}' was called {MAX_DEPTH} tools deep.",
                hint="Does a tool call itself without end?",
            )
        if outer.guard is not None:
            outer.guard(spec, call.given)
            # A call of an ask inside an ask has a guard of its own: both hold for what is inside.
            call.guard = outer.guard if call.guard is None else _both(outer.guard, call.guard)
        call.depth = outer.depth + 1
        call.progress, call.left, call.printed = outer.progress, outer.left, outer.printed
        call.asked_by = outer.asked_by or call.source
        call.ask, call.client = outer.ask, outer.client
        call.may_write = self._may_write(call, spec, outer)

    def _may_write(self, call: ResolvedCall, spec: ToolSpec, outer: current.Scope) -> bool:
        """Whether a tool inside a scope may change something. Raises NotApproved if it would and
        may not."""
        # Whoever is not the user calls a tool that writes only with a yes, so an outermost one has
        # it.
        is_outermost = outer.asked_by is None
        if call.has_yes or (outer.may_write and not is_outermost):
            return True
        is_write = self._is_write(spec, call.args)
        if is_outermost:
            return is_write or call.source not in current.OUTSIDE
        if is_write:
            caller = "A program" if outer.spec is None else f"'{outer.spec.name}'"
            raise NotApproved(
                f"'{spec.name}' may change something, and was not run: {caller} called it, and"
                " nobody allowed that.",
                hint=(
                    "Do not declare the tool that calls it read-only. Then a yes to it is for both."
                ),
            )
        return False

    def _failed(self, call: ResolvedCall, exc: BaseException) -> ToolResult:
        if type(exc) is CarriedException:
            exc = exc.inner
        if type(exc) is DeadlineExceeded and call.spec is not None:
            exc = exc.of(call.tool, call.limit_s or call.spec.timeout_s)
        try:
            return ToolResult(False, error=failure_of(exc, call.tool, self._mask))
        except Exception as fault:  # noqa: BLE001 - without masking no text of the tool's exception is safe
            self._report("The failure of '%s' could not be masked: %s", call, fault)
            return ToolResult(
                False, error=Failure("execution_error", type(exc).__name__, call.tool)
            )


class CallIds:
    """Ids for calls: unique across processes, increasing within one; safe in threads and after a
    fork."""

    def __init__(self) -> None:
        self.after_fork()
        forks.register(self)

    def __call__(self) -> str:
        return f"{self._head}{next(self._count)}"

    def after_fork(self) -> None:
        """Start a new series of ids."""
        self._head = f"{int(time.time()):08x}{os.urandom(4).hex()}"
        # Numbers of one length are in order as text, too.
        self._count = itertools.count(10_000_000)


def is_watched() -> bool:
    """Whether a call makes a span: a record on the logger of spans, or one of OpenTelemetry."""
    # The level alone says no for nearly every call, at a tenth of the cost; so does the module.
    return (_spans.level <= logging.INFO and _spans.isEnabledFor(logging.INFO)) or (
        OPENTELEMETRY in _modules and is_traced()
    )


def span(mask: Callable[[str], str]) -> Step:
    """One record per call on logger `onetool_ipy.span`: the tool's name, its arguments, duration
    and outcome."""
    logger = _spans
    # A level of its own keeps the arguments of calls out of the root logger's output. A level that
    # the user set stays.
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)

    def step(resolved: ResolvedCall) -> Generator[None, ToolResult, ToolResult | None] | None:
        return logged(resolved) if logger.isEnabledFor(logging.INFO) else None

    def logged(resolved: ResolvedCall) -> Generator[None, ToolResult, ToolResult | None]:
        result = yield
        call_args: object = resolved.given
        args = call_args if isinstance(call_args, dict) else {}
        entries = dict(args)
        # Spec 001 wants the defaults that our own tools used in the span, without empty ones.
        if resolved.spec is not None and resolved.spec.origin == "builtin":
            for name, schema in resolved.spec.parameters.get("properties", {}).items():
                if name not in args and schema.get("default") not in ("", None):
                    entries[name] = schema["default"]
        fields = {}
        for name, value in entries.items():
            # A value is masked before it is cut, so that no part of a secret is left.
            text = mask(values.safe_repr(value, _MAX_VALUE * 50))
            fields[mask(str(name))] = values.cut(text, _MAX_VALUE)
        tool, duration_ms = mask(resolved.tool), result.meta.get("duration_ms")
        logger.info(
            "%s ok=%s duration_ms=%s %s",
            tool,
            result.ok,
            duration_ms,
            " ".join(f"{name}={value}" for name, value in fields.items()),
            extra={
                "span": tool,
                "fields": fields,
                "ok": result.ok,
                "duration_ms": duration_ms,
                "call_id": mask(str(resolved.id)),
            },
        )
        return result

    return step


def _both(outer: current.NestedGuard, own: current.NestedGuard) -> current.NestedGuard:
    def ask(spec: ToolSpec, args: Mapping[str, Any]) -> None:
        outer(spec, args)
        own(spec, args)

    return ask


def _left_behind(is_alive: Callable[[], bool]) -> None:
    scope = current.scope()
    if scope is not None and scope.left is not None:
        scope.left.append(is_alive)


def _cancelled(call: ResolvedCall) -> ToolResult:
    return ToolResult(False, error=Failure.of(CallCancelled("Stopped."), call.tool))
