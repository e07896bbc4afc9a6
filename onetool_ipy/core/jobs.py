"""Job: a call that runs in the background, with its state, progress, result and cancel.

A job runs on the background event loop, so Stop and a closed cell do not touch it; a sync tool runs
in a worker from there. Cancelling a job abandons its call as a time limit would. `Jobs` numbers the
jobs of a toolbox and keeps the newest; a host may listen to each of them from before it begins.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple, Protocol

from onetool_ipy.base.background import SIGNAL_CHECK_S, outcome
from onetool_ipy.base.errors import CallCancelled
from onetool_ipy.core import current
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.resolve import ResolvedCall
from onetool_ipy.core.result import Failure, ToolResult
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.core.tool import ToolCall

_PATIENCE_S = 0.2
_MAX_ENDED = 50
_log = logging.getLogger("onetool_ipy.core")

Status = Literal["queued", "running", "done", "failed", "cancelled", "abandoned"]
"""`abandoned` is a cancelled job whose tool still runs."""


class Progress(NamedTuple):
    """How far a call has got: `done` of `total` (None if unknown), and its message."""

    done: float = 0
    total: float | None = None
    text: str = ""


@without_secrets
class Job:
    """One call on its own. `status`, `progress`, `result(timeout)`, `cancel()`, and `await job`."""

    def __init__(
        self,
        executor: Executor,
        resolved: ResolvedCall,
        *,
        notify: Callable[[Job], None] | None = None,
        printed: Callable[[str], None] | None = None,
        number: int = 0,
    ) -> None:
        self.call = resolved.call
        self.number = number
        self.progress = Progress()
        self._printed = printed
        self._began = time.monotonic()
        self._ended: float | None = None
        self._executor = executor
        self._notify = notify
        self._status: Status = "queued"
        self._result: ToolResult | None = None
        self._left: list[Callable[[], bool]] = []
        self._running = executor.background.submit(lambda: self._run(resolved))

    @property
    def status(self) -> Status:
        if self._status == "abandoned" and not self._is_at_work():
            self._status = "cancelled"
        return self._status

    @property
    def elapsed_s(self) -> float:
        """How long the job has run, or ran."""
        return (self._ended or time.monotonic()) - self._began

    @property
    def is_over(self) -> bool:
        """Whether the job has a result, or will never have one."""
        return self._status not in ("queued", "running")

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the result. Raises TimeoutError if it does not arrive in time."""
        if self._result is not None:
            return self._result
        from concurrent.futures import CancelledError

        try:
            result: ToolResult = outcome(self._running.future, timeout)
        except CancelledError:
            return self._stopped()
        except TimeoutError:
            raise TimeoutError(
                f"The job '{self.call.name}' is still running after {timeout or 0:g} s."
            ) from None
        return result

    def cancel(self) -> bool:
        """Cancel the call. Returns False if it had already ended."""
        if not self.give_up():
            return False
        until = time.monotonic() + _PATIENCE_S
        while self._is_at_work() and time.monotonic() < until:
            # Most tools end at once: then the job is cancelled and not abandoned.
            time.sleep(0.005)
        self.tell()
        return True

    def give_up(self) -> bool:
        """Cancel without waiting for the call to react."""
        if self.is_over:
            return False
        self._status = "abandoned"
        self._ended = time.monotonic()
        self._result = self._stopped()
        self._executor.background.abandon(self._running)
        return True

    def __await__(self) -> Generator[Any, None, ToolResult]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        numbered = f" {self.number}" if self.number else ""
        return f"<Job{numbered} {self.call.name}: {self.status}>"

    async def _wait(self) -> ToolResult:
        import asyncio

        ended = asyncio.wrap_future(self._running.future)
        # The wait is short each time, so that the main thread hears of Stop: see `outcome`.
        while not ended.done():
            await asyncio.wait({ended}, timeout=SIGNAL_CHECK_S)
        if not ended.cancelled():
            ended.exception()
        return self.result(0)

    async def _run(self, resolved: ResolvedCall) -> ToolResult:
        if self._status != "queued":
            return self._stopped()
        self._status = "running"
        outer = current.scope()
        box, depth = (outer.toolbox, outer.depth) if outer is not None else (None, 0)
        here = current.Scope(
            box, depth=depth, progress=self._heard, left=self._left, printed=self._printed
        )
        if outer is not None:
            # A job of a model's tool is the model's.
            here.asked_by, here.may_write = outer.asked_by, outer.may_write
            here.guard = outer.guard
        token = current.enter(here)
        try:
            result = await self._executor.acall(resolved)
        except BaseException:
            if self._end("failed"):
                self.tell()
            raise
        finally:
            current.leave(token)
        if self._result is None:
            self._result = result
        if self._end("done" if result.ok else "failed") and self._notify is not None:
            await self._tell_elsewhere()
        return result

    def _end(self, status: Status) -> bool:
        if self._status != "running":
            return False
        self._status = status
        self._ended = time.monotonic()
        return True

    async def _tell_elsewhere(self) -> None:
        """Tell the listener about the end from a thread: showing a result takes time, and the loop
        must not wait."""
        import asyncio

        await asyncio.wrap_future(self._executor.workers.submit(self.tell).future)

    def _is_at_work(self) -> bool:
        return self._running.is_alive() or any(is_alive() for is_alive in self._left)

    def _heard(self, done: float, total: float | None, text: str) -> None:
        self.progress = Progress(done, total, text)
        self.tell()

    def tell(self) -> None:
        """Tell the listener the current state of the job."""
        if self._notify is None:
            return
        try:
            self._notify(self)
        except Exception as exc:  # noqa: BLE001 - a listener must not break the call
            _log.error("A listener of the job '%s' failed: %s", self.call.name, type(exc).__name__)

    def _stopped(self) -> ToolResult:
        failure = Failure.of(CallCancelled("The job was cancelled."), self.call.name)
        meta = {"tool": self.call.name, "call_id": self.call.id, "source": self.call.source}
        return ToolResult(False, error=failure, meta=meta)


class JobListener(Protocol):
    """Listens to one job."""

    def told(self, job: Job) -> None:
        """The job has started, made progress, or ended."""

    def printed(self, text: str) -> None:
        """The tool printed this text."""


class Jobs:
    """The jobs of a toolbox, by number. `listen` returns the listener for each new job."""

    def __init__(self, listen: Callable[[ToolCall], JobListener | None]) -> None:
        self._listen = listen
        self._known: dict[int, Job] = {}
        self._numbers = itertools.count(1)

    def start(
        self,
        executor: Executor,
        resolved: ResolvedCall,
        *,
        notify: Callable[[Job], None] | None = None,
    ) -> Job:
        """Start a job."""
        number = next(self._numbers)
        listener = self._listen(resolved.call) if notify is None else None
        printed = None if listener is None else listener.printed
        if listener is not None:
            notify = listener.told
        job = Job(executor, resolved, notify=notify, printed=printed, number=number)
        self._known[job.number] = job
        self._forget()
        # Also a job that has ended already: its own report comes from another thread, and may come
        # after the cell.
        if listener is not None:
            listener.told(job)
        return job

    def list(self) -> list[Job]:
        """Return the running jobs and the newest of the ended ones, oldest first."""
        return list(self._known.values())

    def get(self, number: int) -> Job | None:
        return self._known.get(number)

    def close(self) -> None:
        """Cancel all running jobs without waiting for them."""
        for job in self.list():
            if job.give_up():
                job.tell()

    def _forget(self) -> None:
        ended = [number for number, job in tuple(self._known.items()) if job.is_over]
        for number in ended[:-_MAX_ENDED]:
            self._known.pop(number, None)
