"""Run work off the caller's thread: one background event loop for async tools, worker threads for sync ones.

Both start at first need, run as daemons, and start anew in a forked child. A call past its time limit is cancelled.
Code that ignores the cancellation is abandoned: its late result is dropped, `Abandoned` is thrown into its thread,
which ends Python code, and it counts in `AbandonedCalls` while it still runs. At most `MAX_ABANDONED` calls under a
limit run at once, so never more than that many can be left behind. A tool that blocks the event loop loses it: a new
loop is started. asyncio and ctypes are imported at first need, since a shell without them would pay 20 ms.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from onetool_ipy.base.errors import CallCancelled, CallTimeout, TooLarge, Unavailable

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

_Item = TypeVar("_Item")

__all__ = [
    "GRACE_S",
    "LAZY",
    "MAX_ABANDONED",
    "MAX_ITEMS",
    "SIGNAL_CHECK_S",
    "Abandoned",
    "AbandonedCalls",
    "Background",
    "ForkLock",
    "Lane",
    "Overtime",
    "Raised",
    "Running",
    "Task",
    "Workers",
    "clock_stopped",
    "collected",
    "do_together",
    "finished",
    "interrupt_in",
    "is_cancellation",
    "outcome",
    "run_detached",
    "throw_into",
    "timed_out",
]


class ForkLock:
    """A re-entrant lock that is free in a forked child, whoever held it in the parent.

    What it guards must be whole at any moment for code without the lock: the child sees it as it was at the fork.
    """

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def mine(self) -> AbstractContextManager[object]:
        """Return the lock of this process, for a `with` statement: no interrupt comes between taking and noting it."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.RLock(), os.getpid()
        return self._lock


MAX_ITEMS = 1_000_000
"""How many items of a generator are collected before it counts as endless."""

LAZY = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
"""The types of unfinished values: generators, coroutines, async generators."""


class Raised(Exception):
    """Carries a BaseException that a tool raised to where its call ends.

    Raised as it is, asyncio would take it for its own: SystemExit ends the event loop, GeneratorExit a coroutine.
    """

    def __init__(self, inner: BaseException) -> None:
        super().__init__(inner)
        self.inner = inner


def collected(items: Iterator[Any]) -> list[Any]:
    """Return all items of a generator."""
    found = list(itertools.islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise _endless()
    return found


async def finished(begin: Callable[[], Any], limit_s: float | None) -> Any:
    """Run async work to its end. Past the limit it is cancelled, and its late result is dropped."""
    if limit_s is None:
        return await _awaited(begin())
    import asyncio

    try:
        async with asyncio.timeout(limit_s) as limit:
            value = await _awaited(begin())
    except Exception as exc:
        if not limit.expired():
            raise  # the tool's own
        raise timed_out(limit_s) from (None if isinstance(exc, TimeoutError) else exc)
    if limit.expired():
        raise timed_out(limit_s)
    return value


async def _awaited(value: Any) -> Any:
    try:
        return await _settled(value)
    except Exception:
        raise
    except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
        raise _carried(exc) from None


async def _settled(value: Any) -> Any:
    if isinstance(value, types.GeneratorType):
        return collected(value)
    if isinstance(value, AsyncIterator):
        found = []
        async for item in value:
            found.append(item)
            if len(found) > MAX_ITEMS:
                raise _endless()
        return found
    return await value if hasattr(type(value), "__await__") else value


def do_together(work: Callable[[_Item], object], items: Sequence[_Item], *, threads: int = 16) -> None:
    """Do short work that waits for the disk for each of the items, at the same time in some threads.

    Raises what the first of them raises. An interrupt waits until all have ended.
    """
    if len(items) < 2:
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, item) for item in items]:
            future.result()


def run_detached(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread that Stop does not reach: an interrupt there is the tool's own, and ends it alone."""
    try:
        return work()
    except Exception:
        raise
    except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
        raise _carried(exc) from None


def _carried(exc: BaseException) -> BaseException:
    """Return the exception to raise for a BaseException that a tool raised in such a thread."""
    if isinstance(exc, KeyboardInterrupt):
        return CallCancelled("The tool raised KeyboardInterrupt.")
    return exc if isinstance(exc, Abandoned) or is_cancellation(exc) else Raised(exc)


def _endless() -> TooLarge:
    return TooLarge(f"The tool yields more than {MAX_ITEMS:,} items.", hint="Let it take a limit.")


MAX_ABANDONED = 8
GRACE_S = 0.3
"""How long after its limit a call still waits for an async tool, so that the tool can end by its cancellation."""

SIGNAL_CHECK_S = 0.2
"""How long the main thread waits at a time. Python handles a signal that comes just before a wait at its end only."""

_ANSWER_S = 0.15
_ANSWERS = 20
"""How often a loop is asked for an answer, each time for `_ANSWER_S`, while no single step of a task holds it."""

_CLOSE_S = 0.5


class Abandoned(BaseException):
    """Thrown into the thread of an abandoned call; ends Python code at its next bytecode."""


class Overtime(CallTimeout):
    """A call ran past the time that was left for it."""

    def of(self, tool: str, limit_s: float | None) -> CallTimeout:
        """Return the same failure with the name of the tool and its whole limit."""
        more = max(30, round(3 * (limit_s or 0)))
        told = CallTimeout(
            f"'{tool}' did not finish within {limit_s or 0:g} s.", hint=f"Raise the limit: --timeout {more}"
        )
        told.__cause__ = self.__cause__
        return told


def timed_out(limit_s: float | None) -> Overtime:
    """Return the failure of a call that ran past its limit."""
    return Overtime(f"It did not finish within {round(limit_s or 0, 3):g} s.", hint="Raise the limit.")


_RELEASED_TWICE = ("cannot release un-acquired lock", "release unlocked lock")
"""What Python says of an RLock and of a Lock."""


def interrupt_in(exc: BaseException) -> BaseException | None:
    """Return the interrupt in `exc`, or None.

    An exception group may hold it. An interrupt that comes just after a `threading.Condition` released its lock shows
    as the RuntimeError of a second release.
    """
    if isinstance(exc, (KeyboardInterrupt, Abandoned)):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next(filter(None, map(interrupt_in, exc.exceptions)), None)
    stop = exc.__context__ if isinstance(exc, RuntimeError) and str(exc).endswith(_RELEASED_TWICE) else None
    return stop if isinstance(stop, (KeyboardInterrupt, Abandoned)) else None


def outcome(future: Future[Any], timeout_s: float | None) -> Any:
    """Wait for a future as `future.result(timeout_s)` does, and handle Stop at once.

    Python handles a signal that comes just before a wait at its end only, so the main thread waits a little at a time.
    """
    if threading.current_thread() is not threading.main_thread():
        return future.result(timeout_s)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = SIGNAL_CHECK_S if until is None else min(until - time.monotonic(), SIGNAL_CHECK_S)
        try:
            return future.result(max(left_s, 0))
        except TimeoutError:
            if future.done() or (until is not None and time.monotonic() >= until):
                raise
        except RuntimeError as exc:
            if (stop := interrupt_in(exc)) is not None:
                raise stop from None
            raise


class AbandonedCalls:
    """The abandoned calls that still run."""

    def __init__(self) -> None:
        self._alive: list[Callable[[], bool]] = []
        self._pid = os.getpid()

    def add(self, is_alive: Callable[[], bool]) -> None:
        self.count()
        self._alive.append(is_alive)

    def count(self) -> int:
        """Return how many there are now."""
        if self._pid != os.getpid():
            self._pid, self._alive = os.getpid(), []
        for is_alive in tuple(self._alive):
            if not is_alive() and is_alive in self._alive:
                self._alive.remove(is_alive)
        return len(self._alive)

    def require_room(self) -> None:
        """Raise Unavailable if `MAX_ABANDONED` of them still run."""
        if self._alive and self.count() >= MAX_ABANDONED:
            raise Unavailable(
                f"{MAX_ABANDONED} earlier calls that ran past their limit are still running.",
                hint="Restart the kernel, or wait for them to end.",
            )


Work = Callable[[], Awaitable[Any]]
"""Begins the work when it is called, on the loop."""


class Background:
    """One event loop in one daemon thread."""

    _loop: asyncio.AbstractEventLoop | None
    _thread: threading.Thread | None
    _unbegun: set[Running]

    def __init__(self, abandoned: AbandonedCalls | None = None) -> None:
        self._abandoned_calls = abandoned or AbandonedCalls()
        self._reset()

    def is_here(self) -> bool:
        """Whether the running code is on the background loop's own thread."""
        return self._thread is threading.current_thread()

    def submit(self, work: Work, limit_s: float | None = None) -> Running:
        """Begin async work on the loop, in a copy of the caller's context. Raises Unavailable if there is no room."""
        running = Running()
        self._submit(running, work, limit_s)
        return running

    def run(self, work: Work, limit_s: float | None = None) -> Any:
        """Run async work from sync code and wait for it; abandon it past its limit or on an interrupt."""
        from concurrent.futures import CancelledError

        running = Running()
        try:
            self._submit(running, work, limit_s)
            return outcome(running.future, None if limit_s is None else limit_s + GRACE_S)
        except CancelledError:
            raise CallCancelled("The tool was cancelled.") from None
        except TimeoutError:
            if running.future.done():
                return running.future.result()  # it came at the last moment, or is the tool's own TimeoutError
            self.abandon(running)
            self.revive()
            raise timed_out(limit_s) from None
        except BaseException:
            if not running.future.done():
                self.abandon(running)
            raise

    async def wait(self, running: Running, limit_s: float | None = None) -> Any:
        """Wait for work from async code, on any loop; abandon it past its limit or on cancellation."""
        import asyncio

        outer = asyncio.wrap_future(running.future)
        try:
            await asyncio.wait({outer}, timeout=None if limit_s is None else limit_s + GRACE_S)
        except BaseException:
            self.abandon(running)
            raise
        if outer.cancelled():
            raise CallCancelled("The tool was cancelled.")
        if outer.done():
            return outer.result()
        self.abandon(running)
        if not self.is_here():
            await asyncio.to_thread(self.revive)
        raise timed_out(limit_s)

    def abandon(self, running: Running) -> None:
        """Cancel work. It counts as abandoned while it still runs."""
        running.cancel()
        self._abandoned_calls.add(running.is_alive)

    def revive(self) -> None:
        """Free the loop from a tool that blocks it: end the tool, or leave the loop to it and use a new one."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        from asyncio import current_task

        for _ in range(_ANSWERS):
            task = current_task(loop)
            if _answers(loop):
                return
            if task is not None and current_task(loop) is task:  # else it is slow: the exception would hit another
                throw_into(thread)
                if _answers(loop):
                    return
                break
        if self._loop is loop:
            self._loop = self._thread = None
            _retire(loop)

    def close(self) -> None:
        """Stop the loop and cancel what runs on it. May be called twice; a later call starts a new loop."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        with suppress(RuntimeError):  # it is closed already
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _submit(self, running: Running, work: Work, limit_s: float | None) -> None:
        if limit_s is not None:
            self._abandoned_calls.require_room()
        loop, unbegun = self._ready()
        try:
            loop.call_soon_threadsafe(running.begin, work, loop, unbegun)
        except RuntimeError:  # it was closed in this moment
            raise CallCancelled("The toolbox was closed.") from None

    def _ready(self) -> tuple[asyncio.AbstractEventLoop, set[Running]]:
        if self._pid != os.getpid():
            self._reset()
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                import asyncio

                loop, unbegun = asyncio.new_event_loop(), set[Running]()
                thread = threading.Thread(target=_serve, args=(loop, unbegun), name="onetool-loop", daemon=True)
                try:
                    thread.start()
                except BaseException:  # an interrupt: it may serve all the same
                    loop.call_soon_threadsafe(loop.stop)
                    raise
                self._thread, self._loop, self._unbegun = thread, loop, unbegun
            return self._loop, self._unbegun

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop = self._thread = None
        self._unbegun = set()
        self._pid = os.getpid()


class Running:
    """Work on the background loop: its future, and whether its code still runs.

    The work sets the future itself, as its last step. `run_coroutine_threadsafe` would need two futures and another
    turn of the loop.
    """

    __slots__ = ("_state", "_task", "future")

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.future: Future[Any] = Future()
        self._task: asyncio.Task[None] | None = None
        self._state: Literal["new", "begun", "over"] = "new"

    def is_alive(self) -> bool:
        return self._state == "begun"

    def cancel(self) -> None:
        """Drop its result and cancel it."""
        if self._state == "new":
            self._state = "over"
        self.future.cancel()
        task = self._task
        if task is not None:
            with suppress(RuntimeError):  # the loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    def begin(self, work: Work, loop: asyncio.AbstractEventLoop, unbegun: set[Running]) -> None:
        """Begin the work in a task of its own, unless it was abandoned before. Runs on the loop."""
        if self._state == "new":
            unbegun.add(self)
            self._task = loop.create_task(self._follow(work, unbegun))

    async def _follow(self, work: Work, unbegun: set[Running]) -> None:
        """Run the work and set its future; the result of abandoned work is dropped."""
        from asyncio import CancelledError
        from concurrent.futures import InvalidStateError

        unbegun.discard(self)
        if self._state == "over":
            return
        self._state = "begun"
        try:
            value = await work()
        except CancelledError:
            self._state = "over"
        except BaseException as exc:  # noqa: BLE001 - whatever it raises belongs to the one who waits
            self._state = "over"
            with suppress(InvalidStateError):  # it was abandoned
                self.future.set_exception(exc)
        else:
            self._state = "over"
            with suppress(InvalidStateError):
                self.future.set_result(value)
        finally:
            self._task = None
            if not self.future.done():
                self.future.cancel()


def throw_into(thread: threading.Thread) -> None:
    """Throw `Abandoned` into a thread; it arrives when the thread next runs Python code."""
    import ctypes

    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Abandoned))


def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop still runs callbacks."""
    turned = threading.Event()
    try:
        loop.call_soon_threadsafe(turned.set)
    except RuntimeError:  # it is closed
        return False
    return turned.wait(_ANSWER_S)


def _retire(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a loop that a tool blocked, once it runs again and its other work is done."""
    import asyncio

    async def wind_down() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()

    asyncio.run_coroutine_threadsafe(wind_down(), loop)


def _served(loop: asyncio.AbstractEventLoop) -> bool:
    """Run the loop until it is stopped. Returns False if a tool's own task ended it: other tools still need it."""
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):  # asyncio hands these on to whoever runs the loop
        return False
    return True


def _serve(loop: asyncio.AbstractEventLoop, unbegun: set[Running]) -> None:
    import asyncio

    asyncio.set_event_loop(loop)
    with suppress(Abandoned):
        while not _served(loop):
            pass
    with suppress(Abandoned):
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending, timeout=_CLOSE_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    for running in tuple(unbegun):
        running.cancel()  # its task was cancelled before its first step, so it could not tell
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it was told to end, and did not
    loop.close()


Lane = Literal["limited", "free", "own"]
"""Which pool of workers: calls under a limit, calls without one, and work that another call waits for (no bound)."""

_MOST: dict[Lane, int] = {"limited": MAX_ABANDONED, "free": 32, "own": 1_000_000}
_MAX_IDLE = 4
_LEAST_S = 0.05
_IDLE_S = 2.0


class Task:
    """One piece of work for a worker, in a copy of its caller's context. `outer` is the work that waits for it."""

    __slots__ = ("_paused_at", "_paused_s", "context", "future", "lane", "outer", "work", "worker")

    def __init__(self, work: Callable[[], Any], lane: Lane) -> None:
        from concurrent.futures import Future

        self.work = work
        self.lane: Lane = lane
        self.context: Context = copy_context()
        self.worker: _Worker | None = None
        self.future: Future[Any] = Future()
        self.outer = _current_task()
        self._paused_s = 0.0
        self._paused_at: float | None = None

    def pause(self) -> None:
        """Stop the clock of this work and of those that wait for it, until `go_on`."""
        self._paused_at = time.monotonic()
        if self.outer is not None:
            self.outer.pause()

    def go_on(self) -> None:
        self._paused_s, self._paused_at = self.paused_s(), None
        if self.outer is not None:
            self.outer.go_on()

    def paused_s(self) -> float:
        """Return how long its clock has stood still."""
        return self._paused_s + (0.0 if self._paused_at is None else time.monotonic() - self._paused_at)

    def is_alive(self) -> bool:
        """Whether a worker runs it, abandoned or not."""
        return self.worker is not None and self.worker.task is self

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.context.run(self.work)
        except BaseException as exc:  # noqa: BLE001 - whatever a tool raises belongs to the one who waits
            self.future.set_exception(exc)
        else:
            self.future.set_result(result)


def _current_task() -> Task | None:
    """Return the work that this thread runs, if it is a worker."""
    thread = threading.current_thread()
    return thread.task if isinstance(thread, _Worker) else None


@contextmanager
def clock_stopped() -> Iterator[None]:
    """Stop the clock of the call that this thread runs: it waits for a person."""
    task = _current_task()
    if task is None:
        yield
        return
    task.pause()
    try:
        yield
    finally:
        task.go_on()


class Workers:
    """Daemon threads that run sync functions, reused when idle; each lane has its own bound."""

    def __init__(self, abandoned: AbandonedCalls | None = None) -> None:
        self._abandoned_calls = abandoned or AbandonedCalls()
        self._reset()

    def abandoned(self) -> int:
        """Return how many abandoned calls, of sync and async tools, still run."""
        return self._abandoned_calls.count()

    def submit(self, work: Callable[[], Any], lane: Lane = "own") -> Task:
        """Let a worker run `work` in a copy of the caller's context; it waits while its lane is full."""
        task = Task(work, lane)
        self._submit(task)
        return task

    def run(self, work: Callable[[], Any], timeout_s: float | None, lane: Lane = "limited") -> Any:
        """Run `work` and wait for it; abandon it past the limit or on an interrupt."""
        task = Task(work, lane)
        began, left_s = time.monotonic(), timeout_s
        try:
            self._submit(task)
            while left_s is None or left_s > 0:
                try:
                    return outcome(task.future, left_s)
                except TimeoutError:
                    if timeout_s is None or task.future.done():
                        return task.future.result()  # it came at the last moment, or is the tool's own TimeoutError
                    left_s = timeout_s + task.paused_s() - (time.monotonic() - began)
                    left_s = max(left_s, _LEAST_S) if left_s > 0 else left_s
            raise timed_out(timeout_s)
        except BaseException:
            self.abandon(task)
            raise

    def abandon(self, task: Task) -> None:
        """Drop the result of a task, and try to end it if it has begun."""
        if task.future.cancel():
            return
        with self._lock:  # a worker needs the lock to go on or to leave, so it is still the one to be stopped
            worker = task.worker
            if worker is None or worker.task is not task:
                return  # it has ended meanwhile
            worker.is_abandoned = True
            throw_into(worker)
        self._abandoned_calls.add(worker.is_alive)

    def close(self) -> None:
        """End idle workers now and busy ones after their task. A later call starts new ones."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            for worker in self._idle:
                worker.inbox.put(None)
            self._idle.clear()

    def ended(self, worker: _Worker) -> bool:
        """After a worker's task: give it the next one or let it idle (True), or end it (False)."""
        with self._lock:
            if worker.is_abandoned or worker.task is None:
                return False
            lane, worker.task = worker.task.lane, None
            self._busy[lane].discard(worker)
            if self._waiting[lane]:
                self._start(self._waiting[lane].popleft(), worker)
                return True
            if self._is_closed or len(self._idle) >= _MAX_IDLE:
                return False
            self._idle.append(worker)
            return True

    def left(self, worker: _Worker) -> None:
        """Free the place of a worker that has ended. May be called twice."""
        with self._lock:
            task, worker.task = worker.task, None
            if task is None:
                return
            self._busy[task.lane].discard(worker)
            if self._waiting[task.lane]:
                self._start(self._waiting[task.lane].popleft())

    def may_leave(self, worker: _Worker) -> bool:
        """Whether an idle worker may end: a task may just have been given to it."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
            return worker.inbox.empty()

    def _submit(self, task: Task) -> None:
        if self._pid != os.getpid():
            self._reset()
        self._abandoned_calls.require_room()
        with self._lock:
            self._is_closed = False
            if len(self._busy[task.lane]) < _MOST[task.lane]:
                self._start(task)
            else:
                self._waiting[task.lane].append(task)

    def _start(self, task: Task, worker: _Worker | None = None) -> None:
        """Give a task to a worker. After an interrupt between two lines, an idle worker ends and frees its place."""
        if worker is None:
            worker = self._idle.pop() if self._idle else _Worker(self)
        task.worker, worker.task = worker, task
        self._busy[task.lane].add(worker)
        worker.inbox.put(task)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._idle: list[_Worker] = []
        self._busy: dict[Lane, set[_Worker]] = {lane: set() for lane in _MOST}
        self._waiting: dict[Lane, deque[Task]] = {lane: deque() for lane in _MOST}
        self._pid: int = os.getpid()


class _Worker(threading.Thread):
    """A thread that runs one task after another until it is abandoned or ended."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(name="onetool-worker", daemon=True)
        self.inbox: SimpleQueue[Task | None] = SimpleQueue()
        self.task: Task | None = None
        self.is_abandoned = False
        self._workers = workers
        self.start()

    def run(self) -> None:
        with suppress(Abandoned):  # it may come a moment late, when the task has ended
            self._work()
        with suppress(Abandoned):
            self._workers.left(self)
        self._workers.left(self)

    def _work(self) -> None:
        while True:
            try:
                task = self.inbox.get(timeout=_IDLE_S)
            except Empty:
                if self._workers.may_leave(self):
                    return
                continue
            if task is None:
                return
            task.run()
            del task
            if not self._workers.ended(self):
                return


def is_cancellation(exc: BaseException) -> bool:
    """Whether this is asyncio's CancelledError; where asyncio was never loaded there is none."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(exc, asyncio.CancelledError)
