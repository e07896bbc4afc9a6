"""Where the items of a batch run: threads here, any Executor, or a Dask cluster. Each gives outcomes as they come.

An engine is an iterator of (index, outcome). Items are taken from their sequence one by one, so that it may make them
when they are asked for. Closing an engine before its end (Stop, or a listener that raises) takes back what has not
begun, gives what is under way `grace_s` to end by itself, and ends what then runs in threads where that is Python code.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.loop import Abandoned, throw_into
from onetool_ipy.sdk import away
from onetool_ipy.sdk.away import Outcome

__all__ = ["in_dask", "in_executor", "in_threads", "is_dask", "is_executor", "is_thread_pool"]

Func = Callable[[Any], Any]
Outcomes = Generator[tuple[int, Outcome], None, None]

_SCHEDULER = "DASK_SCHEDULER_ADDRESS"
_LOOK_UP_S = 0.5
_PER_CORE = 8
_MOST = 10_000


def in_threads(items: Sequence[Any], func: Func, width: int, *, grace_s: float = 0.0) -> Outcomes:
    """Daemon threads that take the next item until there is none, each item in its own copy of the caller's context."""
    todo = iter(range(len(items)))
    done: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
    context = copy_context()

    def serve() -> None:
        with suppress(Abandoned):
            for index in todo:  # a range's iterator gives each number to one thread
                done.put((index, _outcome(context.copy(), func, items[index])))

    threads = [threading.Thread(target=serve, name="onetool-batch", daemon=True) for _ in range(min(width, len(items)))]
    left = len(items)
    try:
        for thread in threads:  # inside: a Stop may come while they start
            thread.start()
        while left:
            yield _next(done)
            left -= 1
    finally:
        deque(todo, maxlen=0)
        if left:
            _end(threads, grace_s)


def in_executor(
    items: Sequence[Any], func: Func, width: int | None, executor: Executor, *, grace_s: float = 0.0
) -> Outcomes:
    """At most `width` items under way in an Executor; without it, as many as the executor takes."""
    return _windowed(items, width or _MOST, _Pool(executor, func), grace_s)


def in_dask(
    items: Sequence[Any], func: Func, width: int | None, client: Any | None, *, grace_s: float = 0.0
) -> Outcomes:
    """At most `width` items under way on a Dask cluster; a worker that dies has its items done by another."""
    _distributed()
    packed = away.pack_function(func, by_value=True)
    with _client(client, width) as found:
        if found.asynchronous:
            raise UsageProblem("The Dask client is an asynchronous one.", hint="Make it with Client(...) alone.")
        most = width or _PER_CORE * (sum(found.ncores().values()) or 1)
        yield from _windowed(items, most, _Cluster(found, packed), grace_s)


def is_executor(engine: object) -> bool:
    """Whether this is a `concurrent.futures.Executor`."""
    return isinstance(engine, Executor)


def is_thread_pool(engine: object) -> bool:
    """Whether this is an executor whose work runs in this process."""
    return isinstance(engine, ThreadPoolExecutor)


def is_dask(engine: object) -> bool:
    """Whether this is a `distributed.Client`."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(engine, distributed.Client)


class _Team(Protocol):
    """Those who do the items somewhere else."""

    def submit(self, item: Any) -> Any:
        """Begin an item; gives what stands for it. Raises where the item cannot be sent."""

    def next(self) -> tuple[Any, Outcome]:
        """Wait for one that has ended."""

    def cancel(self, running: Iterable[Any], grace_s: float) -> None:
        """Take back what has not begun, and give the rest some time to end."""


def _end(threads: Sequence[threading.Thread], grace_s: float) -> None:
    until = time.monotonic() + grace_s
    try:
        for thread in threads if grace_s else ():
            thread.join(max(0.0, until - time.monotonic()))
    finally:  # a second Stop does not wait
        for thread in threads:
            if thread.is_alive():
                throw_into(thread)


def _windowed(items: Sequence[Any], width: int, team: _Team, grace_s: float) -> Outcomes:
    """Keep `width` items under way until all are done."""
    todo, count = 0, len(items)
    running: dict[Any, int] = {}
    try:
        while todo < count or running:
            while todo < count and len(running) < width:
                index, todo = todo, todo + 1
                try:
                    running[team.submit(items[index])] = index
                except UsageProblem:
                    raise
                except Exception as exc:  # noqa: BLE001 - pickling an item runs foreign code; a pool may be broken
                    yield index, (False, _lost(exc))
            if running:
                ended, outcome = team.next()
                yield running.pop(ended), outcome
    finally:
        team.cancel(running, grace_s)


class _Pool:
    """A `concurrent.futures.Executor`; one of threads sees the caller's context."""

    def __init__(self, executor: Executor, func: Func) -> None:
        self._executor = executor
        self._func = func
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()
        self._context = copy_context() if isinstance(executor, ThreadPoolExecutor) else None
        self._packed = b"" if self._context is not None else away.pack_function(func, by_value=False)

    def submit(self, item: Any) -> Future[Any]:
        try:
            future = self._send(item)
        except BrokenExecutor:
            raise
        except RuntimeError as exc:
            raise UsageProblem(f"The executor takes no more work: {exc}") from exc
        future.add_done_callback(self._done.put)
        return future

    def next(self) -> tuple[Future[Any], Outcome]:
        ended = _next(self._done)
        try:
            found = ended.result(0)
        except CancelledError:
            return ended, (False, "It was cancelled.")
        except Exception as exc:  # noqa: BLE001 - what an executor itself raises is the item's failure
            return ended, (False, _lost(exc))
        return ended, found if self._context is not None else away.unpack(found)

    def cancel(self, running: Iterable[Future[Any]], grace_s: float) -> None:
        begun = [future for future in running if not future.cancel()]
        if begun and grace_s:
            wait(begun, grace_s)

    def _send(self, item: Any) -> Future[Any]:
        if self._context is not None:
            return self._executor.submit(_outcome, self._context.copy(), self._func, item)
        return self._executor.submit(away.run, (self._packed, away.pack_value(item, by_value=False)))


class _Cluster:
    """The workers of a Dask client."""

    def __init__(self, client: Any, packed: bytes) -> None:
        self._client = client
        self._packed = packed
        self._ended = _distributed().as_completed(loop=client.loop, with_results=True, raise_errors=False)

    def submit(self, item: Any) -> Any:
        future = self._client.submit(away.run, (self._packed, away.pack_value(item, by_value=True)), pure=False)
        self._ended.add(future)
        return future

    def next(self) -> tuple[Any, Outcome]:
        future, result = next(self._ended)
        if isinstance(result, BaseException):
            return future, (False, "It was cancelled.")
        if len(result) == 3:  # the exception's type, itself and its traceback; the future's status is one of later on
            return future, (False, away.words(result[1]))
        return future, away.unpack(result)

    def cancel(self, running: Iterable[Any], grace_s: float) -> None:
        left = list(running)
        try:
            if left and grace_s:
                _distributed().wait(left, timeout=grace_s)
        except TimeoutError:
            pass
        finally:  # a second Stop does not wait
            if left:
                self._client.cancel(left)


def _outcome(context: Context, func: Func, item: Any) -> Outcome:
    try:
        return True, context.run(_call, func, item)
    except Abandoned:
        raise
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, away.words(exc)


def _call(func: Func, item: Any) -> Any:
    return away.finish(func(item))


def _next(done: SimpleQueue[Any]) -> Any:
    """The next one; in short waits, so that a call that is given up notices."""
    while True:
        with suppress(Empty):
            return done.get(timeout=_LOOK_UP_S)


def _lost(exc: BaseException) -> str:
    if isinstance(exc, BrokenExecutor):
        return "The process that was to do it died, and with it the executor."
    return away.words(exc)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as exc:
        raise UsageProblem(
            "The engine 'dask' needs the library distributed.", hint="Install it: pip install 'onetool-ipy[dask]'"
        ) from exc


@contextmanager
def _client(client: Any | None, width: int | None) -> Iterator[Any]:
    """The client given; else one for the scheduler that the environment names; else a local cluster."""
    if client is not None:
        yield client
        return
    distributed = _distributed()
    if address := os.environ.get(_SCHEDULER):
        with distributed.Client(address, set_as_default=False) as opened:
            yield opened
        return
    cores = os.cpu_count() or 1
    workers = min(width or cores, cores)
    threads = math.ceil((width or cores) / workers)
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as opened,
    ):
        yield opened
