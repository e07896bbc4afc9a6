"""Threads: one background event loop for async tools, and a few daemon workers for sync tools under a limit.

Both start at first need and never keep the process alive. A call past its limit is abandoned: its late result is
dropped, an exception is thrown into its thread (which ends pure Python code), and at most `MAX_ABANDONED` may be alive.
After a fork the child starts its own.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from onetool_ipy.core.errors import CallTimeout, Unavailable

__all__ = ["MAX_ABANDONED", "Abandoned", "Background", "Workers"]

MAX_ABANDONED = 8
_MAX_IDLE = 4


class Abandoned(BaseException):
    """Thrown into a thread whose call was given up; ends Python code at its next bytecode."""


class Background:
    """One event loop in one daemon thread, for all async tools of a toolbox."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._pid != os.getpid():
            self._start()
        assert self._loop is not None
        return self._loop

    def is_here(self) -> bool:
        """Whether the running code is on the background loop's own thread."""
        return self._thread is threading.current_thread()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine on the loop, in a copy of the caller's context."""
        return copy_context().run(asyncio.run_coroutine_threadsafe, coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None) -> Any:
        """Run a coroutine from sync code and wait for it; cancel it on a limit or an interrupt."""
        future = self.submit(coroutine)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # the tool's own
            future.cancel()
            raise CallTimeout(f"No result within {timeout_s:g} s.") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._loop = loop
        self._thread = threading.Thread(target=_serve, args=(loop,), name="onetool-loop", daemon=True)
        self._thread.start()


class Workers:
    """Daemon threads that run sync functions under a limit, reused when idle."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        self._abandoned: list[_Worker] = []
        self._pid = os.getpid()

    def abandoned(self) -> int:
        """How many given-up calls are still running."""
        self._abandoned[:] = [worker for worker in self._abandoned if worker.is_alive()]
        return len(self._abandoned)

    def submit(self, work: Callable[[], Any]) -> Task:
        """Start `work` in a worker, in a copy of the caller's context."""
        if self.abandoned() >= MAX_ABANDONED:
            raise Unavailable(
                f"{MAX_ABANDONED} earlier calls that ran past their limit are still running.",
                hint="Restart the kernel, or wait for them to end.",
            )
        if self._pid != os.getpid():
            self._pid, self._idle, self._abandoned = os.getpid(), [], []
        worker = self._idle.pop() if self._idle else _Worker(self._idle)
        task = Task(work, copy_context(), worker)
        worker.queue.put(task)
        return task

    def run(self, work: Callable[[], Any], timeout_s: float) -> Any:
        """Run `work` and wait; past the limit, or on an interrupt, give it up."""
        task = self.submit(work)
        try:
            return task.future.result(timeout_s)
        except TimeoutError:
            if task.future.done():
                raise  # the tool's own
            self.abandon(task)
            raise CallTimeout(f"No result within {timeout_s:g} s.") from None
        except BaseException:
            if not task.future.done():
                self.abandon(task)
            raise

    def abandon(self, task: Task) -> None:
        """Give a running task up: drop its result and try to end it."""
        if task.worker.give_up(task):
            self._abandoned.append(task.worker)

    def close(self) -> None:
        for worker in self._idle:
            worker.queue.put(None)
        self._idle.clear()


class Task:
    """One piece of work on its way through a worker."""

    __slots__ = ("context", "future", "work", "worker")

    def __init__(self, work: Callable[[], Any], context: Context, worker: _Worker) -> None:
        self.work = work
        self.context = context
        self.worker = worker
        self.future: Future[Any] = Future()


class _Worker(threading.Thread):
    """A thread that does one task after another until it is given up."""

    def __init__(self, idle: list[_Worker]) -> None:
        super().__init__(name="onetool-worker", daemon=True)
        self.queue: SimpleQueue[Task | None] = SimpleQueue()
        self._idle = idle
        self._given_up = False
        self._running: Task | None = None
        self.start()

    def run(self) -> None:
        try:
            while (task := self.queue.get()) is not None:
                self._running = task
                self._do(task)
                self._running = None
                if self._given_up or len(self._idle) >= _MAX_IDLE:
                    return
                self._idle.append(self)
        except Abandoned:
            return  # it came a moment late, after the task had ended

    def give_up(self, task: Task) -> bool:
        """Leave the task alone; False when it has ended meanwhile."""
        if self._running is not task and task.future.done():
            return False
        self._given_up = True
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(Abandoned))
        return True

    def _do(self, task: Task) -> None:
        try:
            result = task.context.run(task.work)
        except BaseException as exc:  # whatever a tool raises belongs to the one who waits
            task.future.set_exception(exc)
        else:
            task.future.set_result(result)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()
