"""Run work off the caller's thread: event loops for async work, a daemon thread for each piece of
sync work.

A `Background` is one event loop in one daemon thread. `Workers` start a daemon thread for each call
under a time limit. Both start at first need. A `StepThread` takes steps without a limit, one after
the other. A call past its limit, or stopped, is abandoned: async code is cancelled, and `Abandoned`
is raised in a thread. Its late result is dropped, and it counts in `AbandonedCalls` while it runs;
from `MAX_ABANDONED` on, calls under a limit are refused. A loop that an abandoned call blocks is
left to that call, and the next call gets a new one. asyncio is imported at first need, since a
shell without it would pay 20 ms.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from onetool_ipy.base import forks
from onetool_ipy.base.errors import CallCancelled, CallTimeout, TooLarge, Unavailable
from onetool_ipy.base.interrupts import Abandoned, deferred
from onetool_ipy.base.processes import new_event_loop

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

MAX_ITEMS = 1_000_000
"""How many items of a generator are collected before it counts as endless."""

LAZY = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
"""The types of unfinished values: generators, coroutines, async generators."""

MAX_ABANDONED = 8
"""How many abandoned calls may run before calls under a limit are refused."""

GRACE_S = 0.3
"""How long after its limit a call still waits for an async tool, so that the tool can end by its
cancellation."""

SIGNAL_CHECK_S = 0.2
"""How long the main thread waits at a time, so that it handles signals."""

IMPORT_S = 30.0
"""How long an abandoned call may finish an import. A library imported by half is of no use to the
next call."""

# These modules take locks of the whole process by hand, in functions that use these names. An
# exception between two lines of such a function keeps the lock: whoever imports that module later,
# or logs to that handler, waits for ever.
_IMPORT_SYSTEM = frozenset(("_frozen_importlib", "importlib._bootstrap"))
_LOCKING_MODULES = _IMPORT_SYSTEM | {"logging"}
_LOCKING_NAMES = frozenset(
    ("acquire", "release", "acquire_lock", "release_lock", "_acquireLock", "_releaseLock")
)
_LOOK_S = 0.002
_ANSWER_S = 0.2
_LEAST_S = 0.05
_CLOSE_S = 0.5

_Item = TypeVar("_Item")
Work = Callable[[], Awaitable[Any]]
"""Begins async work when it is called, on the loop."""


class CarriedException(Exception):
    """Carries a BaseException that a tool raised to where its call ends.

    Raised as it is, asyncio would take it for its own: SystemExit ends the event loop,
    GeneratorExit a coroutine.
    """

    def __init__(self, inner: BaseException) -> None:
        super().__init__(inner)
        self.inner = inner


class DeadlineExceeded(CallTimeout):
    """A call ran past the time that was left for it."""

    def of(self, tool: str, limit_s: float | None) -> CallTimeout:
        """Return the same failure with the name of the tool and its whole limit."""
        more = max(30, round(3 * (limit_s or 0)))
        failure = CallTimeout(
            f"'{tool}' did not finish within {limit_s or 0:g} s.",
            hint=f"Raise the limit: --timeout {more}",
        )
        failure.__cause__ = self.__cause__
        return failure


def timed_out(limit_s: float | None) -> DeadlineExceeded:
    """Return the failure of a call that ran past its limit."""
    return DeadlineExceeded(
        f"It did not finish within {round(limit_s or 0, 3):g} s.", hint="Raise the limit."
    )


def drain(items: Iterator[object]) -> list[Any]:
    """Return all items of a generator."""
    values = list(itertools.islice(items, MAX_ITEMS + 1))
    if len(values) > MAX_ITEMS:
        raise _endless()
    return values


async def run_to_completion(begin: Callable[[], object], limit_s: float | None) -> Any:
    """Run async work to its end. Past the limit it is cancelled, and its late result is dropped."""
    if limit_s is None:
        return await _await_value(begin())
    import asyncio

    try:
        async with asyncio.timeout(limit_s) as limit:
            value = await _await_value(begin())
    except Exception as exc:
        # A failure before the limit is the tool's own, a TimeoutError too.
        if not limit.expired():
            raise
        raise timed_out(limit_s) from (None if isinstance(exc, TimeoutError) else exc)
    if limit.expired():
        raise timed_out(limit_s)
    return value


async def _await_value(value: Any) -> Any:
    """Return what a tool's value is in the end: the items of a generator, the result of an
    awaitable, or itself."""
    try:
        if isinstance(value, types.GeneratorType):
            return drain(value)
        if isinstance(value, AsyncIterator):
            items = []
            async for item in value:
                items.append(item)
                if len(items) > MAX_ITEMS:
                    raise _endless()
            return items
        return await value if hasattr(type(value), "__await__") else value
    except Exception:
        raise
    except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
        raise _carried(exc) from None


def run_detached(work: Callable[[], object]) -> Any:
    """Run `work` in a thread that Stop does not reach: an interrupt there is the tool's own, and
    ends it alone."""
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
    return exc if isinstance(exc, Abandoned) or is_cancellation(exc) else CarriedException(exc)


def _endless() -> TooLarge:
    return TooLarge(f"The tool yields more than {MAX_ITEMS:,} items.", hint="Let it take a limit.")


def is_cancellation(exc: BaseException) -> bool:
    """Whether this is asyncio's CancelledError; where asyncio was never loaded there is none."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(exc, asyncio.CancelledError)


def do_together(
    work: Callable[[_Item], object], items: Sequence[_Item], *, threads: int = 16
) -> None:
    """Do short work that waits for the disk for each of the items, in several threads at the same
    time.

    Raises what the first of them raises, after all have ended.
    """
    if len(items) < 2:
        for item in items:
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, item) for item in items]:
            future.result()


def outcome(future: Future[object], timeout_s: float | None) -> Any:
    """Wait for a future as `future.result(timeout_s)` does. In the main thread Stop ends the wait
    at once."""
    if threading.current_thread() is not threading.main_thread():
        return future.result(timeout_s)
    # The main thread waits for a plain lock, a little at a time: a signal that comes just before a
    # wait (on Windows: during a wait) is handled at its end only. Every method of a future takes
    # the lock of a Condition. An interrupt between two lines of that would keep the lock for ever,
    # and with it the thread that ends the work.
    ended = threading.Lock()
    ended.acquire()
    with deferred:
        future.add_done_callback(lambda _: ended.release())
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s
    while (left_s := until - time.monotonic()) > 0:
        if ended.acquire(timeout=min(left_s, SIGNAL_CHECK_S)):
            break
    with deferred:
        return future.result(0)


class AbandonedCalls:
    """The abandoned calls that still run."""

    def __init__(self) -> None:
        self._alive: list[Callable[[], bool]] = []

    def add(self, is_alive: Callable[[], bool]) -> None:
        self.count()
        self._alive.append(is_alive)

    def count(self) -> int:
        """Return how many there are now."""
        for is_alive in tuple(self._alive):
            if not is_alive():
                # Another thread may have removed it meanwhile.
                with suppress(ValueError):
                    self._alive.remove(is_alive)
        return len(self._alive)

    def require_room(self) -> None:
        """Raise Unavailable if `MAX_ABANDONED` of them still run."""
        if self._alive and self.count() >= MAX_ABANDONED:
            raise Unavailable(
                f"{MAX_ABANDONED} earlier calls that ran past their limit are still running.",
                hint="Restart the kernel, or wait for them to end.",
            )


class Background:
    """One event loop in one daemon thread."""

    def __init__(self, abandoned: AbandonedCalls | None = None) -> None:
        self._abandoned_calls = abandoned or AbandonedCalls()
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Forget the loop of the parent, which has no thread here."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._probe: threading.Event | None = None

    def is_here(self) -> bool:
        """Whether the running code is on this loop's own thread."""
        return self._thread is threading.current_thread()

    def submit(self, work: Work, limit_s: float | None = None) -> Running:
        """Begin async work on the loop, in a copy of the caller's context. Raises Unavailable if
        there is no room."""
        running = Running()
        self._begin(running, work, limit_s)
        return running

    def run(self, work: Work, limit_s: float | None = None) -> Any:
        """Run async work from sync code and wait for it; abandon it past its limit or on an
        interrupt."""
        from concurrent.futures import CancelledError

        running = Running()
        try:
            self._begin(running, work, limit_s)
            return outcome(running.future, None if limit_s is None else limit_s + GRACE_S)
        except CancelledError:
            raise CallCancelled("The tool was cancelled.") from None
        except CarriedException as exc:
            raise exc.inner from None
        except TimeoutError:
            # The result may have come at the last moment, or the TimeoutError is the tool's own.
            if running.future.done():
                return running.future.result()
            self.abandon(running)
            raise timed_out(limit_s) from None
        except BaseException as exc:
            self.abandon(running)
            if is_cancellation(exc):
                raise CallCancelled("The tool was cancelled.") from None
            raise

    async def wait(self, running: Running, limit_s: float | None = None) -> Any:
        """Wait for work from async code, on any loop; abandon it past its limit or on
        cancellation."""
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
        raise timed_out(limit_s)

    def abandon(self, running: Running) -> None:
        """Cancel work. It counts as abandoned while it still runs."""
        with deferred:
            running.cancel()
        if not running.is_alive():
            return
        self._abandoned_calls.add(running.is_alive)
        # The next call looks whether the loop has run this callback; if not, the abandoned call
        # blocks the loop.
        loop, probe = self._loop, threading.Event()
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(probe.set)
                self._probe = probe

    def close(self) -> None:
        """Stop the loop and cancel what runs on it. May be called twice; a later call starts a new
        loop."""
        # A call that begins the loop in this moment has started its thread when the lock is free.
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        # The loop may be closed already.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _begin(self, running: Running, work: Work, limit_s: float | None) -> None:
        if limit_s is not None:
            self._abandoned_calls.require_room()
        with self._lock, deferred:
            loop, thread = self._ready()
            running.begin(work, loop, thread)

    def _ready(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """Return a loop that runs, and its thread. Needs the lock."""
        import asyncio

        if self._probe is not None and not self.is_here():
            if not self._probe.wait(_ANSWER_S) and self._loop is not None:
                # A tool blocks the loop. It stops once it runs again and its other work is done.
                blocked, self._loop = self._loop, None

                async def wind_down() -> None:
                    others = asyncio.all_tasks() - {asyncio.current_task()}
                    await asyncio.gather(*others, return_exceptions=True)
                    blocked.stop()

                asyncio.run_coroutine_threadsafe(wind_down(), blocked)
            self._probe = None
        if self._loop is None or self._thread is None or self._loop.is_closed():
            self._loop = new_event_loop()
            self._thread = threading.Thread(
                target=_serve, args=(self._loop,), name="onetool-loop", daemon=True
            )
            self._thread.start()
        return self._loop, self._thread


class Running:
    """Async work on a loop: its future, and whether its code still runs."""

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.future: Future[Any] = Future()
        self._thread: threading.Thread | None = None
        self._state: Literal["new", "begun", "over"] = "new"
        self._is_abandoned = False

    def is_alive(self) -> bool:
        return self._state == "begun" and self._thread is not None and self._thread.is_alive()

    def cancel(self) -> None:
        """Drop its result and cancel it."""
        self._is_abandoned = True
        self.future.cancel()

    def begin(self, work: Work, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        """Begin the work in a task of its own. Raises CallCancelled if the loop was closed in this
        moment."""
        import asyncio

        self._thread = thread
        coroutine = self._follow(work)
        try:
            self.future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError:
            coroutine.close()
            raise CallCancelled("The toolbox was closed.") from None

    def _is_unwanted(self) -> bool:
        # A method, since the answer changes while the work runs: a type checker takes an attribute
        # for unchanged.
        return self._is_abandoned

    async def _follow(self, work: Work) -> Any:
        from asyncio import CancelledError

        # The cancellation of work that has not begun arrives one turn of the loop too late.
        if self._is_unwanted():
            return None
        self._state = "begun"
        try:
            return await work()
        except (Exception, CancelledError):
            # Nobody reads the failure of abandoned work, and asyncio would print it.
            if self._is_unwanted():
                return None
            raise
        except BaseException as exc:  # noqa: BLE001 - raised as it is, it would end the loop of all others
            raise CarriedException(exc) from None
        finally:
            self._state = "over"


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel what is left on it. The target of its thread."""
    import asyncio

    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt):
            # asyncio hands these on from a task that a tool started itself. Other tools still need
            # the loop.
            continue
    # Work that was submitted just before the end becomes a task in the first round and is cancelled
    # in the second, so that whoever waits for it hears of the end.
    for _ in range(2):
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(
            asyncio.wait(tasks, timeout=_CLOSE_S) if tasks else asyncio.sleep(0)
        )
    loop.run_until_complete(loop.shutdown_asyncgens())
    # A task that swallowed its cancellation is dropped here. Without this mark asyncio would print
    # it.
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio has no public name for it
    loop.close()


class WorkerThread(threading.Thread):
    """One piece of work in a daemon thread of its own, in a copy of its caller's context.

    `outer` is the work that waits for this one, if it was started by one.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        from concurrent.futures import Future

        super().__init__(name="onetool-worker", daemon=True)
        self.future: Future[Any] = Future()
        self.is_abandoned = False
        self._work = work
        self._context = copy_context()
        self._outer = _current_worker()
        self._paused_s = 0.0
        self._paused_at: float | None = None
        self._state: Literal["new", "begun", "over"] = "new"
        self._changing = threading.Lock()

    def run(self) -> None:
        # An exception that was thrown just as the work ended arrives a few lines later. Nobody
        # waits for this thread.
        with suppress(Abandoned):
            self._run()

    def _run(self) -> None:
        # A thread object may be held for long; what its work holds need not be.
        work = self._work
        del self._work
        if not self.future.set_running_or_notify_cancel():
            return
        error: BaseException | None = None
        try:
            with self._changing:
                if self.is_abandoned:  # in this moment, too early for `throw`
                    raise Abandoned
                self._state = "begun"
            value = self._context.run(work)
        except BaseException as exc:  # noqa: BLE001 - whatever a tool raises belongs to the one who waits
            error = exc
        with self._changing:
            self._state = "over"
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)

    def throw(self, import_s: float = IMPORT_S) -> None:
        """Raise Abandoned in the thread, once, at its next line of Python, or after the import that
        it is in.

        A loop would keep a core for ever, and a question in a notebook would take the answer of the
        next one. Code inside C, and code that swallows the exception, goes on. So does code that
        waits for the lock of a module.
        """
        until = time.monotonic() + import_s

        def look_again() -> None:
            while not self._has_thrown(may_import=time.monotonic() < until):
                time.sleep(_LOOK_S)  # nothing tells when a thread leaves a line

        if not self._has_thrown(may_import=import_s > 0):
            threading.Thread(target=look_again, name="onetool-end", daemon=True).start()

    def _has_thrown(self, *, may_import: bool) -> bool:
        """Raise Abandoned in the thread; False if it is where it must not be cut off now."""
        import ctypes

        with self._changing:
            if self._state != "begun":
                return True
            # The thread stands still between this look and the exception, as good as always.
            ident = self.ident or 0
            innermost = sys._current_frames()[ident]
            is_locking = not _LOCKING_NAMES.isdisjoint(innermost.f_code.co_names)
            if is_locking and innermost.f_globals.get("__name__", "") in _LOCKING_MODULES:
                return False
            frame: types.FrameType | None = innermost
            while may_import and frame is not None:
                if frame.f_globals.get("__name__", "") in _IMPORT_SYSTEM:
                    return False
                frame = frame.f_back
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(ident), ctypes.py_object(Abandoned)
            )
            return True

    def pause(self) -> None:
        """Stop the clock of this work and of those that wait for it, until `go_on`."""
        self._paused_at = time.monotonic()
        if self._outer is not None:
            self._outer.pause()

    def go_on(self) -> None:
        self._paused_s, self._paused_at = self.paused_s(), None
        if self._outer is not None:
            self._outer.go_on()

    def paused_s(self) -> float:
        """Return how long its clock has stood still."""
        return self._paused_s + (
            0.0 if self._paused_at is None else time.monotonic() - self._paused_at
        )

    def require_wanted(self) -> None:
        """Raise Abandoned if nobody waits for this work any more."""
        if self.is_abandoned:
            raise Abandoned
        if self._outer is not None:
            self._outer.require_wanted()


def _current_worker() -> WorkerThread | None:
    thread = threading.current_thread()
    return thread if isinstance(thread, WorkerThread) else None


@contextmanager
def clock_stopped() -> Iterator[None]:
    """Stop the clock of the call that this thread runs: it waits for a person."""
    worker = _current_worker()
    if worker is None:
        yield
        return
    worker.pause()
    try:
        yield
    finally:
        worker.go_on()


def require_wanted() -> None:
    """Raise Abandoned in a call that was abandoned. For code that waits for a person or an API, a
    little at a time."""
    worker = _current_worker()
    if worker is not None:
        worker.require_wanted()


class Workers:
    """Starts a daemon thread for each piece of sync work."""

    def __init__(self, abandoned: AbandonedCalls | None = None) -> None:
        self._abandoned_calls = abandoned or AbandonedCalls()

    def abandoned(self) -> int:
        """Return how many abandoned calls, of sync and async tools, still run."""
        return self._abandoned_calls.count()

    def require_room(self) -> None:
        """Raise Unavailable if too many abandoned calls still run."""
        self._abandoned_calls.require_room()

    def submit(self, work: Callable[[], object]) -> WorkerThread:
        """Run `work` in a thread of its own, in a copy of the caller's context."""
        worker = WorkerThread(work)
        with deferred:
            worker.start()
        return worker

    def run(self, work: Callable[[], object], timeout_s: float | None) -> Any:
        """Run `work` and wait for it; abandon it past the limit or on an interrupt. Raises
        Unavailable without room."""
        self.require_room()
        began, left_s = time.monotonic(), timeout_s
        worker = WorkerThread(work)
        try:
            with deferred:
                worker.start()
            while left_s is None or left_s > 0:
                try:
                    return outcome(worker.future, left_s)
                except TimeoutError:
                    # The result may have come at the last moment, or the TimeoutError is the tool's
                    # own.
                    if timeout_s is None or worker.future.done():
                        return worker.future.result()
                    # While the call waits for a person, its clock stands still.
                    left_s = timeout_s + worker.paused_s() - (time.monotonic() - began)
                    left_s = max(left_s, _LEAST_S) if left_s > 0 else left_s
            raise timed_out(timeout_s)
        except BaseException:
            self.abandon(worker)
            raise

    def abandon(self, worker: WorkerThread) -> None:
        """Drop the result of work that is not done and tell its thread to end. It counts as
        abandoned while it runs."""
        with deferred:
            if worker.future.done():
                return
            worker.is_abandoned = True
            worker.future.cancel()
            self._abandoned_calls.add(worker.is_alive)
            worker.throw()


class StepThread:
    """One daemon thread for steps of sync work that do not hear Stop. As a context manager, which
    lets the thread end.

    Stop ends only the wait for a step: whoever took it has to end the step itself.
    """

    def __init__(self) -> None:
        self._steps: SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = SimpleQueue()

    def __enter__(self) -> StepThread:
        def serve() -> None:
            for future, step in iter(self._steps.get, None):
                try:
                    future.set_result(step())
                except BaseException as exc:  # noqa: BLE001 - whatever a step raises belongs to the one who waits
                    future.set_exception(exc)

        with deferred:
            threading.Thread(target=serve, name="onetool-steps", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._steps.put(None)

    def run(self, step: Callable[[], object]) -> Any:
        """Take a step in the thread and wait for it."""
        from concurrent.futures import Future

        future: Future[Any] = Future()
        self._steps.put((future, step))
        is_main = threading.current_thread() is threading.main_thread()
        while True:
            try:
                return outcome(future, None if is_main else SIGNAL_CHECK_S)
            except TimeoutError:
                # It may be the step's own. Abandoned does not reach a thread that waits.
                if future.done():
                    return future.result()
                require_wanted()
