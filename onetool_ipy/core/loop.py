"""One background event loop in one daemon thread, for all async tools of a toolbox; and the count of given-up calls.

It starts at first need and never keeps the process alive. A call past its limit is cancelled; one that does not mind
is given up: its late result is dropped, and it counts in `GivenUp` as long as it runs. A tool that blocks the loop gets
`Abandoned` thrown into it, which ends Python code; where that does not help, the loop is left to it and a new one
started. After a fork the child starts its own. asyncio and ctypes are imported at first need: a shell without them
would pay 20 ms.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.core.errors import CallCancelled, CallTimeout, Unavailable

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future

__all__ = [
    "GRACE_S",
    "HEARS_S",
    "MAX_ABANDONED",
    "Abandoned",
    "Background",
    "GivenUp",
    "Overtime",
    "Running",
    "hidden_stop",
    "outcome",
    "throw_into",
    "too_late",
]

MAX_ABANDONED = 8
GRACE_S = 0.3
"""How much longer than its limit an async tool is waited for, so that it can end by being cancelled."""

HEARS_S = 0.2
"""How long the main thread waits at a time: a signal that comes in the moment before is noticed at the end only."""

_ANSWER_S = 0.15
_CLOSE_S = 0.5


class Abandoned(BaseException):
    """Thrown into a thread whose call was given up; ends Python code at its next bytecode."""


class Overtime(CallTimeout):
    """A call ran past the time that was left for it."""

    def of(self, tool: str, limit_s: float | None) -> CallTimeout:
        """The same, in the words of whoever knows the tool and its whole limit."""
        told = CallTimeout(f"No result of '{tool}' within {limit_s or 0:g} s.", hint=self.hint)
        told.__cause__ = self.__cause__
        return told


def too_late(limit_s: float | None) -> Overtime:
    """The failure of a call that ran past its limit."""
    return Overtime(f"No result within {round(limit_s or 0, 3):g} s.", hint="Give it more time, or ask for less.")


def hidden_stop(exc: BaseException) -> BaseException | None:
    """The interrupt that this is, or that became something else.

    A group of exceptions may hold it. Where it comes in the moment in which a `Condition` of `threading` has let go of
    its lock, the lock cannot be let go of again, and an error says so.
    """
    if isinstance(exc, (KeyboardInterrupt, Abandoned)):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next(filter(None, map(hidden_stop, exc.exceptions)), None)
    stop = exc.__context__ if isinstance(exc, RuntimeError) and "un-acquired lock" in str(exc) else None
    return stop if isinstance(stop, (KeyboardInterrupt, Abandoned)) else None


def outcome(future: Future[Any], timeout_s: float | None) -> Any:
    """`future.result(timeout_s)` that hears of Stop at once.

    A signal that comes in the moment before Python begins to wait is noticed at the end of the wait only: so the main
    thread, which is the one to hear of it, waits a little at a time.
    """
    if threading.current_thread() is not threading.main_thread():
        return future.result(timeout_s)
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = HEARS_S if until is None else min(until - time.monotonic(), HEARS_S)
        try:
            return future.result(max(left_s, 0))
        except TimeoutError:
            if future.done() or (until is not None and time.monotonic() >= until):
                raise
        except RuntimeError as exc:
            if (stop := hidden_stop(exc)) is not None:
                raise stop from None
            raise


class GivenUp:
    """The calls that were given up and are still running."""

    def __init__(self) -> None:
        self._alive: list[Callable[[], bool]] = []
        self._pid = os.getpid()

    def add(self, is_alive: Callable[[], bool]) -> None:
        self.count()
        self._alive.append(is_alive)

    def count(self) -> int:
        """How many there are now."""
        if self._pid != os.getpid():
            self._pid, self._alive = os.getpid(), []
        for is_alive in tuple(self._alive):
            if not is_alive() and is_alive in self._alive:
                self._alive.remove(is_alive)
        return len(self._alive)

    def require_room(self) -> None:
        """Raise Unavailable where as many as may be are still running."""
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

    def __init__(self, given_up: GivenUp | None = None) -> None:
        self._given_up = given_up or GivenUp()
        self._reset()

    def is_here(self) -> bool:
        """Whether the running code is on the background loop's own thread."""
        return self._thread is threading.current_thread()

    def submit(self, work: Work, limit_s: float | None = None) -> Running:
        """Begin async work on the loop, in a copy of the caller's context; where it has a limit, if there is room."""
        running = Running()
        self._submit(running, work, limit_s)
        return running

    def run(self, work: Work, limit_s: float | None = None) -> Any:
        """Run async work from sync code and wait for it; give it up past its limit or on an interrupt."""
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
            self.give_up(running)
            self.revive()
            raise too_late(limit_s) from None
        except BaseException:
            if not running.future.done():
                self.give_up(running)
            raise

    async def wait(self, running: Running, limit_s: float | None = None) -> Any:
        """Wait for work from async code, on this loop or on another; give it up past its limit or on cancellation."""
        import asyncio

        outer = asyncio.wrap_future(running.future)
        try:
            await asyncio.wait({outer}, timeout=None if limit_s is None else limit_s + GRACE_S)
        except BaseException:
            self.give_up(running)
            raise
        if outer.cancelled():
            raise CallCancelled("The tool was cancelled.")
        if outer.done():
            return outer.result()
        self.give_up(running)
        if not self.is_here():
            await asyncio.to_thread(self.revive)
        raise too_late(limit_s)

    def give_up(self, running: Running) -> None:
        """Cancel work; as long as it does not mind, it counts as given up."""
        running.cancel()
        self._given_up.add(running.is_alive)

    def revive(self) -> None:
        """Where a tool blocks the loop, try to end that tool; where it cannot be ended, leave the loop to it."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or _answers(loop):
            return
        throw_into(thread)
        if _answers(loop) or self._loop is not loop:
            return
        self._loop = self._thread = None
        _retire(loop)

    def close(self) -> None:
        """Stop the loop, cancelling what runs on it; may be called twice. A later call starts a new one."""
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        with suppress(RuntimeError):  # it is closed already
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _submit(self, running: Running, work: Work, limit_s: float | None) -> None:
        if limit_s is not None:
            self._given_up.require_room()
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

    The work tells its outcome itself, in its last step. That of `run_coroutine_threadsafe` would come by two futures
    and another turn of the loop.
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
        """Drop what it gives, and ask it to end."""
        if self._state == "new":
            self._state = "over"
        self.future.cancel()
        task = self._task
        if task is not None:
            with suppress(RuntimeError):  # the loop is closed
                task.get_loop().call_soon_threadsafe(task.cancel)

    def begin(self, work: Work, loop: asyncio.AbstractEventLoop, unbegun: set[Running]) -> None:
        """On the loop: begin the work in a task of its own, unless it was given up before."""
        if self._state == "new":
            unbegun.add(self)
            self._task = loop.create_task(self._follow(work, unbegun))

    async def _follow(self, work: Work, unbegun: set[Running]) -> None:
        """Do the work and tell its outcome; once it was given up, that is dropped."""
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
            with suppress(InvalidStateError):  # it was given up
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
    """Whether a loop still turns."""
    turned = threading.Event()
    try:
        loop.call_soon_threadsafe(turned.set)
    except RuntimeError:  # it is closed
        return False
    return turned.wait(_ANSWER_S)


def _retire(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop that was left end by itself, once it turns again and its other work is done."""
    import asyncio

    async def wind_down() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()

    asyncio.run_coroutine_threadsafe(wind_down(), loop)


def _served(loop: asyncio.AbstractEventLoop) -> bool:
    """Run the loop until it is stopped; False where a tool's own task ended it, which others must not suffer from."""
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
