"""Job: a call that runs in the background, with its state, progress, result and cancel.

A job is an `acall` on the background loop, so that Stop and a closed cell do not touch it; a sync tool runs in a worker
from there. Cancelling gives the call up as a limit would.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple

from onetool_ipy.core import current
from onetool_ipy.core.errors import CallCancelled
from onetool_ipy.core.executor import Executor
from onetool_ipy.core.model import Failure, ToolCall, ToolResult

__all__ = ["Job", "Progress", "Status"]

_PATIENCE_S = 0.2
_log = logging.getLogger("onetool_ipy.core")

Status = Literal["queued", "running", "done", "failed", "cancelled", "abandoned"]
"""`abandoned` is a cancelled job whose tool still runs."""


class Progress(NamedTuple):
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
        self._status: Status = "queued"
        self._result: ToolResult | None = None
        self._left: list[Callable[[], bool]] = []
        self._running = executor.background.submit(lambda: self._run(timeout_s))

    @property
    def status(self) -> Status:
        if self._status == "abandoned" and not self._is_at_work():
            self._status = "cancelled"
        return self._status

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the result; TimeoutError if it is not there in time."""
        if self._result is not None:
            return self._result
        from concurrent.futures import CancelledError

        try:
            found: ToolResult = self._running.future.result(timeout)
        except CancelledError:
            return self._stopped()
        except TimeoutError:
            raise TimeoutError(f"The job '{self.call.name}' is still running after {timeout or 0:g} s.") from None
        return found

    def cancel(self) -> bool:
        """Give the call up; False when it had ended already."""
        if self._status not in ("queued", "running"):
            return False
        self._status = "abandoned"
        self._result = self._stopped()
        self._executor.background.give_up(self._running)
        until = time.monotonic() + _PATIENCE_S
        while self._is_at_work() and time.monotonic() < until:
            time.sleep(0.005)  # most tools end at once: then the job is cancelled and not abandoned
        self._tell()
        return True

    def __await__(self) -> Generator[Any, None, ToolResult]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        return f"<Job {self.call.name}: {self.status}>"

    async def _wait(self) -> ToolResult:
        import asyncio

        ended = asyncio.wrap_future(self._running.future)
        await asyncio.wait({ended})
        if not ended.cancelled():
            ended.exception()
        return self.result(0)

    async def _run(self, timeout_s: float | None) -> ToolResult:
        if self._status != "queued":
            return self._stopped()
        self._status = "running"
        outer = current.scope()
        box, depth = (outer.toolbox, outer.depth) if outer is not None else (None, 0)
        token = current.enter(current.Scope(box, depth=depth, progress=self._heard, left=self._left))
        try:
            result = await self._executor.acall(self.call, timeout_s=timeout_s)
        except BaseException:
            self._end("failed")
            raise
        finally:
            current.leave(token)
        if self._result is None:
            self._result = result
        self._end("done" if result.ok else "failed")
        return result

    def _end(self, status: Status) -> None:
        if self._status == "running":
            self._status = status
            self._tell()

    def _is_at_work(self) -> bool:
        return self._running.is_alive() or any(is_alive() for is_alive in self._left)

    def _heard(self, done: float, total: float | None, text: str) -> None:
        self.progress = Progress(done, total, text)
        self._tell()

    def _tell(self) -> None:
        if self._notify is None:
            return
        try:
            self._notify(self)
        except Exception as exc:  # noqa: BLE001 - who listens must not break the call
            _log.error("Who was told of the job '%s' failed: %s", self.call.name, type(exc).__name__)

    def _stopped(self) -> ToolResult:
        failure = Failure.of(CallCancelled("The job was cancelled."), self.call.name)
        meta = {"tool": self.call.name, "call_id": self.call.id, "source": self.call.source}
        return ToolResult(False, error=failure, meta=meta)
