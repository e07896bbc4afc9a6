"""Job: a call that runs in the background. Its state, progress, result and cancel; every face that runs something uses it.

A job belongs to the executor it was started on and runs in one of its workers, so that Stop and a closed cell do not
touch it. Cancelling a sync tool abandons it as a limit would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any, Literal

from onetool_ipy.core import current
from onetool_ipy.core.errors import CallCancelled
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.loop import Task
from onetool_ipy.core.model import Failure, ToolCall, ToolResult

__all__ = ["Job", "Progress", "Status"]

_PATIENCE_S = 0.2

Status = Literal["queued", "running", "done", "failed", "cancelled", "abandoned"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is: `done` of `total` (None where it is not known), and what it says."""

    done: float = 0
    total: float | None = None
    text: str = ""


class Job:
    """One call on its own. `status`, `progress`, `result(timeout)`, `cancel()`, and `await job`."""

    def __init__(
        self,
        executor: Executor,
        call: ToolCall,
        *,
        timeout_s: float | None = None,
        notify: Callable[[Job], None] | None = None,
    ) -> None:
        self.call = call
        self.progress = Progress()
        self._executor = executor
        self._notify = notify
        self._started = False
        self._cancelled = False
        self._task: Task = executor.workers.submit(lambda: self._run(timeout_s))

    @property
    def status(self) -> Status:
        if self._cancelled:
            return "cancelled" if self._task.future.done() else "abandoned"
        if not self._started:
            return "queued"
        if not self._task.future.done():
            return "running"
        return "done" if self.result().ok else "failed"

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the result; TimeoutError if it is not there in time."""
        if self._cancelled:
            return self._stopped()
        try:
            found = self._task.future.result(timeout)
        except TimeoutError:
            raise TimeoutError(f"The job '{self.call.name}' is still running after {timeout:g} s.") from None
        except BaseException:
            return self._stopped()
        return found if isinstance(found, ToolResult) else self._stopped()

    def cancel(self) -> bool:
        """Give the call up; False when it had ended already."""
        if self._task.future.done() or self._cancelled:
            return False
        self._cancelled = True
        self._executor.workers.abandon(self._task)
        wait([self._task.future], timeout=_PATIENCE_S)
        if self._notify is not None:
            self._notify(self)
        return True

    def __await__(self) -> Generator[Any, None, ToolResult]:
        return asyncio.to_thread(self.result).__await__()

    def __repr__(self) -> str:
        return f"<Job {self.call.name}: {self.status}>"

    def _run(self, timeout_s: float | None) -> ToolResult:
        self._started = True
        outer = current.scope()
        token = current.enter(current.Scope(outer.toolbox if outer else None, progress=self._heard))
        try:
            return self._executor.call(self.call, timeout_s=timeout_s)
        finally:
            current.leave(token)
            if self._notify is not None:
                self._notify(self)

    def _heard(self, done: float, total: float | None, text: str) -> None:
        self.progress = Progress(done, total, text)
        if self._notify is not None:
            self._notify(self)

    def _stopped(self) -> ToolResult:
        failure = Failure.of(CallCancelled("The job was cancelled."), self.call.name)
        return ToolResult(False, error=failure, meta={"tool": self.call.name, "call_id": self.call.id})
