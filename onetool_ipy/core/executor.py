"""Run a call: find the tool, check its arguments, run it, and give a ToolResult. Never raises for a tool's fault.

Around that stand the steps, folded in order; each is a generator that sees the trip before and the result after.
Sync and async callers share everything but the one line that waits. Stop (KeyboardInterrupt) and cancellation pass
through, after the steps have seen them as a cancelled result.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onetool_ipy.core import current, names, values
from onetool_ipy.core.errors import (
    CallCancelled,
    CallFailure,
    CallTimeout,
    Disabled,
    InvalidArgs,
    NotAllowed,
    TooDeep,
    TooLarge,
)
from onetool_ipy.core.loop import Background, Workers
from onetool_ipy.core.model import CallSource, Failure, Step, ToolCall, ToolResult, ToolSpec, Trip
from onetool_ipy.core.registry import Registry

__all__ = ["MAX_DEPTH", "MAX_ITEMS", "CallIds", "Executor", "Limits", "own_frames"]

MAX_DEPTH = 32
"""How deep tools may call tools before it counts as calling itself for ever."""
MAX_ITEMS = 1_000_000
"""How many items of a generator are collected before it counts as endless."""

_PERSON: frozenset[CallSource] = frozenset(("python", "magic", "shortcut", "widget", "tool"))
_LAZY = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
_OURS = ("onetool_ipy.core.", "onetool_ipy.sources.")

_Steps = list[Generator[None, ToolResult, ToolResult | None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a call by a model, REST, MCP or the command line may take where the tool sets none."""

    local_s: float = 8.0


class Executor:
    """Folds the steps around one invoke."""

    def __init__(
        self,
        registry: Registry,
        *,
        owner: Any = None,
        steps: Sequence[Step] = (),
        background: Background,
        workers: Workers,
        limits: Limits = Limits(),
        mask: Callable[[str], str] = str,
    ) -> None:
        self.registry = registry
        self.background = background
        self.workers = workers
        self._owner = owner
        self._steps = tuple(steps)
        self._limits = limits
        self._mask = mask

    def call(self, call: ToolCall, *, timeout_s: float | None = None, allow: Sequence[str] | None = None) -> ToolResult:
        """Run a call to its end."""
        trip = self._trip(call, timeout_s, allow)
        began = time.perf_counter()
        entered: _Steps = []
        try:
            result = self._enter(trip, entered)
            if result is None:
                result = self._invoke(trip)
        except BaseException:
            self._leave(trip, entered, self._cancelled(trip), began)
            raise
        return self._leave(trip, entered, result, began)

    async def acall(
        self, call: ToolCall, *, timeout_s: float | None = None, allow: Sequence[str] | None = None
    ) -> ToolResult:
        """Run a call to its end without blocking the event loop."""
        trip = self._trip(call, timeout_s, allow)
        began = time.perf_counter()
        entered: _Steps = []
        try:
            result = self._enter(trip, entered)
            if result is None:
                result = await self._ainvoke(trip)
        except BaseException:
            self._leave(trip, entered, self._cancelled(trip), began)
            raise
        return self._leave(trip, entered, result, began)

    def _trip(self, call: ToolCall, timeout_s: float | None, allow: Sequence[str] | None) -> Trip:
        spec = self.registry.get(call.name) if type(call.name) is str else None
        return Trip(call, spec, spec.name if spec else str(call.name), timeout_s, allow)

    def _enter(self, trip: Trip, entered: _Steps) -> ToolResult | None:
        for step in self._steps:
            running = step(trip)
            try:
                next(running)
            except StopIteration as stop:
                if stop.value is not None:
                    return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any
            else:
                entered.append(running)
        return None

    def _leave(self, trip: Trip, entered: _Steps, result: ToolResult, began: float) -> ToolResult:
        call = trip.call
        meta = result.meta
        meta["tool"] = trip.tool
        meta["call_id"] = call.id
        meta["source"] = call.source
        meta["duration_ms"] = round((time.perf_counter() - began) * 1000, 3)
        if trip.meta:
            meta.update(trip.meta)
        while entered:
            try:
                entered.pop().send(result)
            except StopIteration as stop:
                if stop.value is not None:
                    result = stop.value
        return result

    def _invoke(self, trip: Trip) -> ToolResult:
        try:
            spec, args, limit_s = self._prepare(trip)
            token = current.enter(self._scope(trip, spec))
            try:
                value = self._run(spec, args, limit_s)
            finally:
                current.leave(token)
            return ToolResult(True, value)
        except (Exception, SystemExit) as exc:  # the one place where a tool's fault becomes data
            return self._failed(trip, exc)

    async def _ainvoke(self, trip: Trip) -> ToolResult:
        try:
            spec, args, limit_s = self._prepare(trip)
            token = current.enter(self._scope(trip, spec))
            try:
                value = await self._arun(spec, args, limit_s)
            finally:
                current.leave(token)
            return ToolResult(True, value)
        except (Exception, SystemExit) as exc:  # the same place, for async callers
            return self._failed(trip, exc)

    def _prepare(self, trip: Trip) -> tuple[ToolSpec, dict[str, Any], float | None]:
        spec = self._find(trip)
        if not isinstance(trip.call.args, dict):
            raise InvalidArgs(
                f"'{spec.name}': the arguments must be an object, not {type(trip.call.args).__name__}.",
                hint=f"Usage: {spec.signature}",
            )
        args = spec.checker.check(trip.call.args, spec.name)
        limit_s = trip.timeout_s if trip.timeout_s is not None else spec.timeout_s
        if limit_s is None and trip.call.source not in _PERSON:
            limit_s = self._limits.local_s
        return spec, args, limit_s

    def _find(self, trip: Trip) -> ToolSpec:
        spec = trip.spec or (self.registry.find(trip.call.name) if type(trip.call.name) is str else None)
        if spec is None:
            raise self.registry.missing(str(trip.call.name))
        if spec.live is not None:
            spec = spec.live()
        trip.spec, trip.tool = spec, spec.name
        if trip.allow is not None and not names.allowed(spec.name, trip.allow):
            raise NotAllowed(f"The tool '{spec.name}' is not among those allowed here.")
        if spec.disabled:
            raise Disabled(f"The tool '{spec.name}' is switched off: {spec.disabled}")
        return spec

    def _scope(self, trip: Trip, spec: ToolSpec) -> current.Scope:
        outer = current.scope()
        depth = outer.depth + 1 if outer is not None else 1
        if depth > MAX_DEPTH:
            raise TooDeep(
                f"'{spec.name}' was called {MAX_DEPTH} tools deep.", hint="Does a tool call itself without end?"
            )
        return current.Scope(self._owner, trip.call, spec, depth, outer.progress if outer else None)

    def _run(self, spec: ToolSpec, args: dict[str, Any], limit_s: float | None) -> Any:
        if spec.is_async:
            return self._run_async(spec, args, limit_s)
        if limit_s is not None:
            return self.workers.run(lambda: self._run_sync(spec, args), limit_s)
        value = spec.run(args)
        return self._settle(value) if type(value) in _LAZY else value

    def _run_sync(self, spec: ToolSpec, args: dict[str, Any]) -> Any:
        value = spec.run(args)
        return self._settle(value) if type(value) in _LAZY else value

    def _run_async(self, spec: ToolSpec, args: dict[str, Any], limit_s: float | None) -> Any:
        if self.background.is_here():  # sync code inside an async tool: its loop cannot wait for itself
            return self.workers.submit(lambda: asyncio.run(_collected(spec.run(args)))).future.result(limit_s)
        return self.background.run(_limited(_collected_late(spec, args), limit_s), _grace(limit_s))

    async def _arun(self, spec: ToolSpec, args: dict[str, Any], limit_s: float | None) -> Any:
        if spec.is_async:
            work = _limited(_collected_late(spec, args), limit_s)
            if self.background.is_here():
                return await work
            return await asyncio.wrap_future(self.background.submit(work))
        task = self.workers.submit(lambda: self._run_sync(spec, args))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(task.future), limit_s)
        except TimeoutError:
            if task.future.done() and not task.future.cancelled():
                raise  # the tool's own
            self.workers.abandon(task)
            raise CallTimeout(f"No result within {limit_s:g} s.") from None
        except asyncio.CancelledError:
            self.workers.abandon(task)
            raise

    def _settle(self, value: Any) -> Any:
        """Turn what a function left unfinished (generator, coroutine) into its values."""
        if isinstance(value, types.GeneratorType):
            return _collect(value)
        return self.background.run(_collected(value))

    def _failed(self, trip: Trip, exc: BaseException) -> ToolResult:
        _scrub(exc, self._mask)
        if isinstance(exc, CallFailure):
            return ToolResult(False, error=Failure.of(exc, trip.tool))
        return ToolResult(False, error=Failure("execution_error", _say(exc), trip.tool, exception=exc))

    def _cancelled(self, trip: Trip) -> ToolResult:
        return ToolResult(False, error=Failure.of(CallCancelled("Stopped."), trip.tool))


class CallIds:
    """Ids for calls: unique over processes, growing within one; safe in threads and after a fork."""

    __slots__ = ("_count", "_head", "_pid")

    def __init__(self) -> None:
        self._start()

    def __call__(self) -> str:
        if self._pid != os.getpid():
            self._start()
        return f"{self._head}{next(self._count):06x}"

    def _start(self) -> None:
        self._pid = os.getpid()
        self._head = f"{int(time.time()):08x}{os.urandom(4).hex()}"
        self._count = itertools.count(1)


def own_frames(exc: BaseException) -> types.TracebackType | None:
    """The traceback of a tool's exception from the tool's first frame on, without ours above it."""
    frame = exc.__traceback__
    while frame is not None and _is_ours(frame):
        frame = frame.tb_next
    return frame or exc.__traceback__


def _is_ours(frame: types.TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__", "")).startswith(_OURS)


def _say(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # a foreign __str__ may raise anything
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _scrub(exc: BaseException, mask: Callable[[str], str]) -> None:
    """Mask secrets in the words of an exception and of what caused it; where there are none, nothing is touched."""
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        masked = values.map_text(link.args, mask)
        if masked != link.args:
            link.args = masked
        if isinstance(link, CallFailure):
            link.message, link.hint = mask(link.message), mask(link.hint)
            link.details = values.map_text(link.details, mask)
        link = link.__cause__ or link.__context__


def _collect(items: Iterator[Any]) -> list[Any]:
    found = list(itertools.islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise _endless()
    return found


def _endless() -> TooLarge:
    return TooLarge(f"The tool yields more than {MAX_ITEMS:,} items.", hint="Let it take a limit.")


async def _collected(value: Any) -> Any:
    if isinstance(value, AsyncIterator):
        found = []
        async for item in value:
            found.append(item)
            if len(found) > MAX_ITEMS:
                raise _endless()
        return found
    return await value


async def _collected_late(spec: ToolSpec, args: dict[str, Any]) -> Any:
    return await _collected(spec.run(args))


async def _limited(work: Any, limit_s: float | None) -> Any:
    if limit_s is None:
        return await work
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise  # the tool's own
        raise CallTimeout(f"No result within {limit_s:g} s.") from None


def _grace(limit_s: float | None) -> float | None:
    """How long sync code waits for an async tool that ought to have been cancelled by its limit."""
    return None if limit_s is None else limit_s + 0.5
