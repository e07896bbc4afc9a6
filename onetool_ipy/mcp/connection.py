"""One connection to a server: its process, its session, and the one task that owns both.

The task opens, lists, follows changes of the list, and closes; the SDK requires all of that in one
task. A connection is used once, and its `reason` says in words why it ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from onetool_ipy.base.errors import CallFailure, OneToolError, Unavailable
from onetool_ipy.base.processes import IS_WINDOWS
from onetool_ipy.mcp.content import error_text
from onetool_ipy.mcp.definition import FailureState, ServerDefinition
from onetool_ipy.mcp.listing import ServerListing
from onetool_ipy.mcp.process import ServerProcess, StderrLog
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.stores.tasks import TaskStore

if TYPE_CHECKING:
    from onetool_ipy.mcp.auth import ServerAuth
    from onetool_ipy.mcp.session import ServerSession

_QUIET_S = 0.2
_MAX_QUIET_S = 2.0
_STOP_S = 1.0


class ServerConnection:
    """A connection to a server. `ready` resolves to its listing, or to Unavailable with the
    reason."""

    def __init__(
        self,
        definition: ServerDefinition,
        environ: Mapping[str, str],
        stderr: StderrLog,
        trace: MessageTrace,
        *,
        on_list: Callable[[ServerListing], None],
        on_end: Callable[[ServerConnection], None],
        tasks: TaskStore,
        auth: ServerAuth | None = None,
    ) -> None:
        self.definition = definition
        self.state: FailureState = "failed"
        self.reason = ""
        self.hint = ""
        self.process: ServerProcess | None = None
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[ServerListing] = self.loop.create_future()
        self._environ = environ
        self._stderr, self._trace = stderr, trace
        self._tasks, self._auth = tasks, auth
        self._on_list, self._on_end = on_list, on_end
        self._session: ServerSession | None = None
        self._is_open = False
        self._changed, self._listed = asyncio.Event(), asyncio.Event()
        self._stale_at = math.inf
        self._stop = asyncio.Event()
        self._owner = self.loop.create_task(self._own(), context=contextvars.Context())

    def is_usable(self) -> bool:
        """Whether a call could be sent now."""
        if not self._is_open or self._session is None or self._session.is_lost:
            return False
        if self._stop.is_set() or self._owner.done():
            return False
        return self.process is None or self.process.is_alive()

    @property
    def is_stale(self) -> bool:
        """Whether the listing is older than the server said it may be."""
        return self.loop.time() >= self._stale_at and self.is_usable()

    async def list_again(self) -> None:
        """List again, as after a change, and wait for that or for the end of the connection."""
        self._listed.clear()
        self._changed.set()
        listing = self.loop.create_task(self._listed.wait())
        await asyncio.wait({listing, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        listing.cancel()

    async def request(self, work: Callable[[ServerSession], Awaitable[object]]) -> Any:
        """Run one request of the session. Raises NotSent if it certainly did not reach the
        server."""
        assert self._session is not None
        return await work(self._session)

    async def responds(self) -> bool:
        """Whether the server responds now; a server with a call under way counts as responding."""
        if self._session is None or not self.is_usable():
            return False
        return bool(self._session.calls) or (await self._session.responds() and self.is_usable())

    async def wait_ended(self) -> None:
        """Wait a moment until a connection that is no longer usable has ended and has its
        reason."""
        await asyncio.wait({self._owner}, timeout=2 * _STOP_S)

    async def stop(self, reason: str = "") -> None:
        """Close everything, and wait a moment for it."""
        self.reason = self.reason or reason
        self._stop.set()
        await asyncio.wait({self._owner}, timeout=_STOP_S)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=_STOP_S)
        if self.process is not None:
            self.process.end()
            await self.process.wait_gone()

    def drop(self) -> None:
        """Close everything without waiting, from any thread."""
        # If the loop is closed, so is everything on it.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._stop.set)

    async def _own(self) -> None:
        """Open, follow and close the connection, in one task."""
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self.definition.timeout_s):
                        session, listing = await self._open(stack)
                except TimeoutError:
                    raise Unavailable(
                        f"It did not answer within {self.definition.timeout_s:g} s."
                    ) from None
                self._is_open = True
                self.ready.set_result(listing)
                await self._follow(session)
        except asyncio.CancelledError:
            self.reason = self.reason or "It was stopped."
        except Exception as exc:  # noqa: BLE001 - the SDK and a foreign server: any error ends only this connection
            await self._explain(exc)
        finally:
            self._is_open = False
            if self.process is not None:
                self.process.end()
            if not self.ready.done():
                self.ready.set_exception(
                    Unavailable(self.reason or "It was stopped.", hint=self.hint)
                )
                # Nobody may be waiting for this exception, and asyncio would print it.
                self.ready.exception()
            self._on_end(self)

    async def _open(self, stack: AsyncExitStack) -> tuple[ServerSession, ServerListing]:
        if self.definition.type == "stdio":
            self.process = await ServerProcess.start(self.definition, self._environ, self._stderr)
        # The import takes 2 s the first time; the process starts meanwhile.
        from onetool_ipy.mcp.session import ServerSession

        session = self._session = ServerSession(
            self.definition,
            self.process,
            log=self._stderr.add_line,
            trace=self._trace,
            tasks=self._tasks,
            auth=self._auth,
        )
        listing = await session.open(stack, self._changed.set)
        self._note_list(session, listing)
        return session, listing

    def _note_list(self, session: ServerSession, listing: ServerListing) -> None:
        self._stale_at = self.loop.time() + session.fresh_s
        self._on_list(listing)
        self._listed.set()

    async def _follow(self, session: ServerSession) -> None:
        """List again after each change, until the process ends or `stop` is called."""
        ended = self.loop.create_task(self._wait_process(), context=contextvars.Context())
        stop = self.loop.create_task(self._stop.wait())
        try:
            while True:
                change = self.loop.create_task(self._changed.wait())
                await asyncio.wait({ended, stop, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if ended.done() or stop.done():
                    break
                await self._wait_quiet(stop)
                async with asyncio.timeout(self.definition.timeout_s):
                    self._note_list(session, await session.list_tools())
        finally:
            ended.cancel()
            stop.cancel()
        if not self._stop.is_set():
            raise Unavailable("It ended.")

    async def _wait_quiet(self, stop: asyncio.Task[Any]) -> None:
        """Wait until there has been no change for a moment."""
        waited = 0.0
        while self._changed.is_set() and waited < _MAX_QUIET_S:
            self._changed.clear()
            await asyncio.wait({stop}, timeout=_QUIET_S)
            waited += _QUIET_S
        self._changed.clear()

    async def _wait_process(self) -> None:
        """Return when the process has ended. A session over HTTP has no end of its own."""
        if self.process is None:
            await asyncio.Event().wait()
        else:
            await self.process.wait_ended()

    async def _explain(self, exc: BaseException) -> None:
        """Say in words why the connection ended."""
        while isinstance(exc, BaseExceptionGroup) and exc.exceptions:
            exc = exc.exceptions[0]
        process = self.process
        self.hint = exc.hint if isinstance(exc, CallFailure) else ""
        if process is None and self._session is not None and not isinstance(exc, OneToolError):
            self.state, self.reason, self.hint = self._session.fault(exc)
            return
        text = exc.message if isinstance(exc, OneToolError) else error_text(exc)
        if process is None or self._stop.is_set():
            self.reason = text
            return
        process.end()
        status = await process.wait_gone()
        if process.died and not process.fault:
            text = _ending(status, process.last_error())
        self.reason = " ".join(part for part in (process.fault or text, process.junk) if part)


def _ending(status: int | None, last_line: str) -> str:
    """Say how a process ended. Its last line is added only if it ended with an error, since that
    may be the reason."""
    if status is None:
        return "It ended."
    if status < 0:
        return f"The process that watches it was killed by signal {-status}."
    if status > 128 and not IS_WINDOWS:
        return f"It was ended by signal {status - 128}."
    if not status or not last_line:
        return f"It ended with status {status}."
    end = "" if last_line.endswith((".", "!", "?")) else "."
    return f"It ended with status {status}: {last_line}{end}"
