"""Daemon threads for sync tools that must not hold up their caller: under a limit, or called from async code.

They start at first need, are reused, leave after a while without work, and never keep the process alive. A call past
its limit is given up: its late result is dropped, `Abandoned` is thrown into its thread (Python code ends by it; a call
into C ends when it ends), and it counts in `GivenUp` as long as it runs. At most `MAX_ABANDONED` calls under a limit
run at once, others wait their turn: so never more than that many can be left behind. After a fork the child starts its
own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.core.loop import MAX_ABANDONED, Abandoned, GivenUp, outcome, throw_into, too_late

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Lane", "Task", "Workers"]

Lane = Literal["limited", "free", "own"]
"""Who may run at once: calls under a limit, calls without one, and work that another call waits for (no bound)."""

_MOST: dict[Lane, int] = {"limited": MAX_ABANDONED, "free": 32, "own": 1_000_000}
_MAX_IDLE = 4
_IDLE_S = 2.0


class Task:
    """One piece of work for a worker, in a copy of its caller's context."""

    __slots__ = ("context", "future", "lane", "work", "worker")

    def __init__(self, work: Callable[[], Any], lane: Lane) -> None:
        from concurrent.futures import Future

        self.work = work
        self.lane: Lane = lane
        self.context: Context = copy_context()
        self.worker: _Worker | None = None
        self.future: Future[Any] = Future()

    def is_alive(self) -> bool:
        """Whether a worker is at it, given up or not."""
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


class Workers:
    """Daemon threads that run sync functions, reused when idle; each lane has its own bound."""

    def __init__(self, given_up: GivenUp | None = None) -> None:
        self._given_up = given_up or GivenUp()
        self._reset()

    def abandoned(self) -> int:
        """How many given-up calls, of sync and of async tools, are still running."""
        return self._given_up.count()

    def submit(self, work: Callable[[], Any], lane: Lane = "own") -> Task:
        """Let a worker do `work`, in a copy of the caller's context; it waits where its lane is full."""
        task = Task(work, lane)
        self._submit(task)
        return task

    def run(self, work: Callable[[], Any], timeout_s: float | None, lane: Lane = "limited") -> Any:
        """Run `work` and wait; past the limit, or on an interrupt, give it up."""
        task = Task(work, lane)
        try:
            self._submit(task)
            return outcome(task.future, timeout_s)
        except TimeoutError:
            if task.future.done():
                return task.future.result()  # it came at the last moment, or is the tool's own TimeoutError
            self.abandon(task)
            raise too_late(timeout_s) from None
        except BaseException:
            self.abandon(task)
            raise

    def abandon(self, task: Task) -> None:
        """Give a task up: drop its result, and try to end it if it has begun."""
        if task.future.cancel():
            return
        with self._lock:  # a worker needs the lock to go on or to leave, so it is still the one to be stopped
            worker = task.worker
            if worker is None or worker.task is not task:
                return  # it has ended meanwhile
            worker.is_given_up = True
            throw_into(worker)
        self._given_up.add(worker.is_alive)

    def close(self) -> None:
        """Let idle workers go; those at work go when they have ended. A later call starts new ones."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            for worker in self._idle:
                worker.inbox.put(None)
            self._idle.clear()

    def ended(self, worker: _Worker) -> bool:
        """A worker's task has ended: give it the next one or let it rest (True), or send it away (False)."""
        with self._lock:
            if worker.is_given_up or worker.task is None:
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
        """A worker is gone; what it held is free for one that waits. May be said twice."""
        with self._lock:
            task, worker.task = worker.task, None
            if task is None:
                return
            self._busy[task.lane].discard(worker)
            if self._waiting[task.lane]:
                self._start(self._waiting[task.lane].popleft())

    def may_leave(self, worker: _Worker) -> bool:
        """Whether a worker that had nothing to do for a while may go: a task may be on its way to it."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
            return worker.inbox.empty()

    def _submit(self, task: Task) -> None:
        if self._pid != os.getpid():
            self._reset()
        self._given_up.require_room()
        with self._lock:
            self._is_closed = False
            if len(self._busy[task.lane]) < _MOST[task.lane]:
                self._start(task)
            else:
                self._waiting[task.lane].append(task)

    def _start(self, task: Task, worker: _Worker | None = None) -> None:
        """An interrupt may come between any two of these lines: a worker without work leaves, and frees its place."""
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
    """A thread that does one task after another until it is given up or sent away."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(name="onetool-worker", daemon=True)
        self.inbox: SimpleQueue[Task | None] = SimpleQueue()
        self.task: Task | None = None
        self.is_given_up = False
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
