"""One configured MCP server: its state, its known tools, and calls over one connection after another.

The async methods run on the background loop. All callers share one start. A dead connection is replaced before a
request is sent, never after. A connection from before a fork, or of a loop that was given up, is not touched: the
server then counts as not started.

A connection has a process, a session, and the one task that owns both. The task opens, lists, follows changes of the
list, and closes; the SDK requires all of that in one task. A connection is used once, and its `reason` says in words
why it ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import forks
from onetool_ipy.base.errors import TRUST_IT, CallFailure, OneToolError, Unavailable, Untrusted, UsageProblem
from onetool_ipy.core.tool import Problem
from onetool_ipy.mcp.content import NotSent, error_text
from onetool_ipy.mcp.definition import FailureState, ServerDefinition, State
from onetool_ipy.mcp.listing import ListingCache, ServerListing
from onetool_ipy.mcp.process import ServerProcess, StderrLog
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.stores.tasks import TaskStore
from onetool_ipy.stores.tokens import TokenStore

if TYPE_CHECKING:
    from onetool_ipy.mcp.auth import ServerAuth, SignIn, SignInLink
    from onetool_ipy.mcp.session import ServerSession

_QUIET_S = 0.2
_MAX_QUIET_S = 2.0
_STOP_S = 1.0
_HAS_FAILED: Mapping[State, str] = {
    "failed": "did not start",
    "unreachable": "cannot be reached",
    "wrong address": "has a wrong address",
    "refused": "refuses access",
}
_NO_PROBLEM: tuple[State, ...] = ("connected", "disabled", "untrusted")
_QUICK_S = 3.0
_RETRY_S = 60.0
_LAST_LINES = 20
_LOCK_S = 10.0

_log = logging.getLogger("onetool_ipy.sources")


class _Connection:
    """A connection to a server. `ready` resolves to its listing, or to Unavailable with the reason."""

    def __init__(
        self,
        definition: ServerDefinition,
        environ: Mapping[str, str],
        stderr: StderrLog,
        trace: MessageTrace,
        *,
        on_list: Callable[[ServerListing], None],
        on_end: Callable[[_Connection], None],
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
        """Run one request of the session. Raises NotSent if it certainly did not reach the server."""
        assert self._session is not None
        return await work(self._session)

    async def responds(self) -> bool:
        """Whether the server responds now; a server with a call under way counts as responding."""
        if self._session is None or not self.is_usable():
            return False
        return bool(self._session.calls) or (await self._session.responds() and self.is_usable())

    async def wait_ended(self) -> None:
        """Wait a moment until a connection that is no longer usable has ended and has its reason."""
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
                    raise Unavailable(f"It did not answer within {self.definition.timeout_s:g} s.") from None
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
                self.ready.set_exception(Unavailable(self.reason or "It was stopped.", hint=self.hint))
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
    """Say how a process ended. Its last line is added only if it ended with an error, since that may be the reason."""
    if status is None:
        return "It ended."
    if status < 0:
        return f"The process that watches it was killed by signal {-status}."
    if status > 128:
        return f"It was ended by signal {status - 128}."
    return f"It ended with status {status}. {last_line if status else ''}".rstrip()


class Server:
    """A server by its definition."""

    _connection: _Connection | None
    _starting: asyncio.Task[_Connection] | None
    _tried_at: float | None
    _failure: FailureState
    _auth: ServerAuth | None
    _sign_in: SignIn | None

    def __init__(
        self,
        definition: ServerDefinition,
        environ: Mapping[str, str],
        cache: ListingCache,
        tokens: TokenStore,
        tasks: TaskStore,
        *,
        on_change: Callable[[], None],
        on_state: Callable[[], None],
    ) -> None:
        self.definition = definition
        self._environ = environ
        self._cache = cache
        self._tokens = tokens
        self._tasks = tasks
        self._on_change, self._on_state = on_change, on_state
        self.trace = MessageTrace()
        self._stderr: StderrLog | None = None
        self._listing: ServerListing | None = None
        self._is_cache_read = False
        self.after_fork()
        forks.register(self)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def listing(self) -> ServerListing | None:
        """The last known tools, from the server itself or from the cache; None if they are not known."""
        if self._listing is None and not self._is_cache_read:
            self._is_cache_read = True
            self._listing = self._cache.get(self.definition)
        return self._listing

    def has_failed_lately(self) -> bool:
        """Whether it failed to start recently, here or in another kernel: then a listing does not wait for it."""
        return self._cache.has_failed(self.definition)

    @property
    def state(self) -> State:
        """The state of the server now."""
        if not self.definition.enabled:
            return "disabled"
        if not self.definition.is_allowed:
            return "untrusted"
        connection = self._own_connection()
        # This is read first: if the start ends meanwhile in its own thread, the answer is still one of before or after.
        is_starting = self._starting is not None
        if connection is not None and connection.is_usable() and not self._is_silent:
            return "signed out" if self._auth is not None and self._auth.needs_sign_in else "connected"
        if self._is_stopped:
            return "stopped"
        if is_starting:
            return "starting"
        if self._was_connected:
            return "disconnected"
        return self._failure if self._reason else "not started"

    @property
    def reason(self) -> str:
        """Why the server is not connected; empty if it is, is starting, or was never started."""
        if self.state in ("connected", "starting"):
            return ""
        if self.state == "disabled":
            return "It is switched off in the configuration."
        if self.state == "untrusted":
            return f"It is not trusted yet. {TRUST_IT}"
        if self._is_stopped:
            return "It was stopped."
        if self.state == "signed out" and self.definition.signs_in:
            return self._sign_in_reason()
        if self._is_silent:
            return "It does not answer."
        return self._reason or ("It ended." if self._was_connected else "")

    def explanation(self) -> tuple[str, str]:
        """Say why it has no tools to call, and what to do; empty if it was not tried."""
        texts = {
            **{state: f"The server '{self.name}' {what}. {self._reason}" for state, what in _HAS_FAILED.items()},
            "disabled": f"The server '{self.name}' is switched off.",
            "starting": f"The server '{self.name}' is still starting.",
            "signed out": self._signed_out_text(),
            "disconnected": f"The server '{self.name}' is disconnected. {self.reason}",
            "stopped": f"The server '{self.name}' was stopped.",
        }
        text = texts.get(self.state, f"The server '{self.name}' has not started. {self.reason}" if self.reason else "")
        hints = {"disabled": "Set 'enabled: true' and reload.", "starting": "Try again in a moment."}
        if self._is_stopped:
            hints[self.state] = f"Start it with: %tool server start {self.name}"
        return text, hints.get(self.state, self._hint or self._advice) if text else ""

    def stderr_details(self) -> Any:
        """Return the end of the server's stderr output, as details of a failure."""
        lines = self.logs().splitlines()[-_LAST_LINES:]
        return {"server": self.name, "stderr": lines} if lines else None

    def _signed_out_text(self) -> str:
        if self.definition.signs_in:
            return f"The server '{self.name}' wants you to sign in."
        return f"The server '{self.name}' wants other credentials. {self._reason}"

    def _sign_in_reason(self) -> str:
        """Why it counts as signed out."""
        settings = self.definition.auth
        fault = self._tokens.fault(self._tokens.path(self.definition.url, settings.client))
        return fault or (self._auth.fault if self._auth is not None else "") or "It wants you to sign in."

    @property
    def _advice(self) -> str:
        if self.state == "signed out" and self.definition.signs_in:
            if self.definition.auth.grant == "client_credentials":
                return "Are 'auth.client_id' and its secret right?"
            return f"Sign in with: %tool server login {self.name}"
        if self.definition.url:
            return "Does it run, and are its address and headers right?"
        return f"See what it wrote: %tool server logs {self.name}"

    @property
    def was_tried(self) -> bool:
        """Whether it was started, with or without success, in this process."""
        return self._tried_at is not None

    @property
    def is_running(self) -> bool:
        """Whether there is a connection to end."""
        is_signing_in = self._sign_in is not None and not self._sign_in.is_done
        return self._own_connection() is not None or self._starting is not None or is_signing_in

    @property
    def pid(self) -> int | None:
        """The process id of a stdio server that runs."""
        connection = self._own_connection()
        if connection is None or connection.process is None or not connection.is_usable():
            return None
        return connection.process.pid

    def logs(self) -> str:
        """Return the end of the server's stderr output."""
        return "" if self._stderr is None else self._stderr.text()

    def problems(self) -> list[Problem]:
        """Return why it is not connected, if it was tried, and which of its tools cannot be offered."""
        problems = []
        if self.was_tried and self.reason and self.state not in _NO_PROBLEM and not self._is_stopped:
            hint = self._hint or self._advice
            problems.append(self._problem(self.reason, hint))
        faults = () if self.listing is None else self.listing.faults
        hint = "Update the server, or tell its authors."
        return problems + [self._problem(fault, hint) for fault in faults]

    def _problem(self, message: str, hint: str) -> Problem:
        return Problem(self.definition.where, f"The server '{self.name}': {message}", hint, self.name)

    @property
    def is_stale(self) -> bool:
        """Whether it runs, and its listing has passed the time for which it counts."""
        connection = self._own_connection()
        return connection is not None and connection.is_stale

    async def list_again(self) -> None:
        """Find out what it offers now: start it, or ask it if its listing no longer counts."""
        connection = await self.connect()
        if connection.is_stale:
            await connection.list_again()

    def may_be_tried(self) -> bool:
        """Whether a health check may start it: not if it died, was stopped, or just took long to fail."""
        if not self.definition.enabled or self._is_stopped or (self.was_tried and self._was_connected):
            return False
        if not self.was_tried or self._tried_at is None:
            return True
        return self._took_s < _QUICK_S or time.monotonic() - self._tried_at > _RETRY_S

    async def connect(self) -> _Connection:
        """Return the connection; starts the server if needed. Raises Unavailable if it does not start."""
        connection = self._connection_here()
        if connection is not None and connection.is_usable() and not self._is_silent:
            return connection
        if not self.definition.is_allowed:
            raise Untrusted.of(f"The server '{self.name}' is not trusted yet.", server=self.name)
        if not self.definition.enabled:
            raise Unavailable(f"The server '{self.name}' is switched off.", hint="Set 'enabled: true' and reload.")
        if self._is_stopped:
            raise Unavailable(
                f"The server '{self.name}' was stopped.", hint=f"Start it with: %tool server start {self.name}"
            )
        if self._starting is None:
            task = asyncio.get_running_loop().create_task(self._start(), context=contextvars.Context())
            self._starting = task
            task.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    async def request(self, work: Callable[[ServerSession], Awaitable[object]]) -> Any:
        """Run one request of its session; over a new one if the request certainly did not reach the server."""
        connection = await self.connect()
        refusals = self._auth.refusals if self._auth is not None else 0
        try:
            try:
                return await connection.request(work)
            except NotSent:
                connection = await self.connect()
            return await connection.request(work)
        except NotSent:
            raise Unavailable(f"The server '{self.name}' does not take calls. {connection.reason}".rstrip()) from None
        except CallFailure:
            if self._auth is not None and self._auth.refusals > refusals:
                raise self._sign_in_needed() from None
            raise

    async def complete(self, work: Callable[[ServerSession], Awaitable[object]]) -> Any:
        """The same for Tab: None if the server is not connected, which starts nothing."""
        connection = self._connection_here()
        return None if connection is None or not connection.is_usable() else await connection.request(work)

    def _sign_in_needed(self) -> Unavailable:
        """The failure of a call that the server refused until the user signs in, or grants more."""
        login = f"Sign in with: %tool server login {self.name}"
        if self.state == "signed out":
            return Unavailable(self._signed_out_text(), hint=self._advice)
        return Unavailable(f"The server '{self.name}' needs more rights for this call.", hint=login)

    async def sign_in(self, issuer: str = "") -> SignInLink:
        """Start a sign-in, or return to the one that is under way. `issuer` may get the secret of the user's client."""
        if not self.definition.signs_in:
            raise UsageProblem(
                f"The server '{self.name}' has no sign-in.", hint="Its credentials are in its definition."
            )
        if self.definition.auth.grant == "client_credentials":
            raise UsageProblem(f"The server '{self.name}' needs no sign-in: it uses client credentials.")
        if self._sign_in is None or self._sign_in.is_done:
            await self._meet_challenge(issuer)
        assert self._sign_in is not None
        return await asyncio.shield(self._sign_in.link)

    async def _meet_challenge(self, issuer: str) -> None:
        """Find out what the server asks for, and start a sign-in with it."""
        self._is_stopped = False
        try:
            await self.connect()
        except Unavailable:
            if self.state != "signed out":
                raise
        auth = self._auth
        if auth is not None and auth.has_tokens and auth.challenge is None:
            hint = f"To change the account: %tool server logout {self.name}"
            raise UsageProblem(f"You are signed in to '{self.name}'.", hint=hint)
        from onetool_ipy.mcp.auth import SignIn

        challenge, settings = None if auth is None else auth.challenge, self.definition.auth
        definition = replace(self.definition, auth=replace(settings, issuer=settings.issuer or issuer))
        self._sign_in = SignIn(definition, self._tokens, self._environ, challenge, self.restart)

    async def signed_in(self, answer: str = "") -> None:
        """Wait for the end of the sign-in that is under way, with an answer that a person pasted, if any."""
        if self._sign_in is None or (answer and self._sign_in.is_done):
            hint = f"Start one with: %tool server login {self.name}"
            raise UsageProblem(f"No sign-in to '{self.name}' is under way.", hint=hint)
        if answer:
            self._sign_in.paste(answer)
        await self._sign_in.finished()

    async def sign_out(self) -> None:
        """Forget the tokens, and tell the authorization server if it wants to know."""
        from onetool_ipy.mcp.auth import revoke

        if self._sign_in is not None:
            self._sign_in.drop()
        path = self._tokens.path(self.definition.url, self.definition.auth.client)
        await self._end_connection("You signed out.")
        async with self._tokens.locked(path, _LOCK_S):
            if self.definition.is_allowed:
                await revoke(self.definition, self._tokens)
            await asyncio.to_thread(self._tokens.remove, path)
        self.after_fork()

    async def probe(self) -> None:
        """Find out whether it responds now. Starts a server that was never started."""
        connection = self._connection_here()
        if connection is not None and connection.is_usable():
            self._is_silent = not await connection.responds()
        if connection is not None and not connection.is_usable():
            # The reason is known once the connection has ended.
            await connection.wait_ended()
        elif self.may_be_tried():
            await self.connect()

    async def start(self) -> None:
        """Start it, also if it was stopped."""
        self._is_stopped = False
        await self.connect()

    async def stop(self) -> None:
        """End it. It stays stopped until `start`."""
        self._is_stopped = True
        if self._sign_in is not None:
            self._sign_in.drop()
        await self._end_connection("It was stopped.")

    async def restart(self) -> None:
        """End it and start it again."""
        self._is_stopped = False
        await self._end_connection("It was stopped.")
        await self.connect()

    def drop(self) -> None:
        """End it without waiting, from any thread."""
        connection = self._own_connection()
        for running in (connection, self._sign_in):
            if running is not None:
                running.drop()

    async def _start(self) -> _Connection:
        began = time.monotonic()
        await self._end_connection("")
        self._stderr = self._stderr or StderrLog()
        self._tried_at, self._was_connected, self._is_silent = began, False, False
        self._auth = self._new_auth()
        connection = _Connection(
            self.definition,
            self._environ,
            self._stderr,
            self.trace,
            on_list=self._listed,
            on_end=self._ended,
            tasks=self._tasks,
            auth=self._auth,
        )
        self._connection = connection
        try:
            await connection.ready
        except Unavailable as exc:
            self._reason, self._hint = exc.message, exc.hint
            refused = self._auth is not None and self._auth.needs_sign_in
            self._failure = "signed out" if refused else connection.state
            # The state is now that of the failed start.
            self._starting = None
            self._cache.note_failure(self.definition)
            if refused:
                raise self._sign_in_needed() from None
            _log.error("The server '%s' did not start; ot.health() says why.", self.name)
            hint = exc.hint or self._advice
            message = f"The server '{self.name}' {_HAS_FAILED.get(self._failure, 'did not start')}. {exc.message}"
            raise Unavailable(message, hint=hint, details=self.stderr_details()) from None
        finally:
            self._took_s = time.monotonic() - began
        self._was_connected, self._reason, self._hint = True, "", ""
        return connection

    def _new_auth(self) -> ServerAuth | None:
        if not self.definition.signs_in:
            return None
        # This imports the SDK, as `_Connection._open` does.
        from onetool_ipy.mcp.auth import ServerAuth

        return ServerAuth(self.definition, self._tokens)

    def _started(self, task: asyncio.Task[_Connection]) -> None:
        if self._starting is task:
            self._starting = None
        if not task.cancelled():
            # The callers that waited have received the exception.
            task.exception()
        self._on_state()

    def _listed(self, listing: ServerListing) -> None:
        before, self._listing = self._listing, listing
        if before != listing:
            self._cache.put(self.definition, listing)
            self._on_change()

    def _ended(self, connection: _Connection) -> None:
        if self._connection is connection:
            self._reason = connection.reason or "It ended."
        self._on_state()

    async def _end_connection(self, reason: str) -> None:
        connection, self._connection = self._connection_here(), None
        if connection is not None:
            await connection.stop(reason)

    def _own_connection(self) -> _Connection | None:
        """Return the connection, if it belongs to this process and its loop still runs."""
        if self._connection is not None and self._connection.loop.is_closed():
            self._connection = self._starting = None
        return self._connection

    def _connection_here(self) -> _Connection | None:
        """The same on the background loop: a connection of a loop that was given up does not count."""
        connection = self._own_connection()
        if connection is not None and connection.loop is not asyncio.get_running_loop():
            connection.drop()
            self._connection = connection = self._starting = None
        return connection

    def after_fork(self) -> None:
        """Forget the connection, which belongs to the parent, and all that is known of it."""
        self._connection = None
        self._starting = None
        self._tried_at = None
        self._auth = self._sign_in = None
        self._took_s = 0.0
        self._was_connected = self._is_stopped = self._is_silent = False
        self._failure = "failed"
        self._reason = self._hint = ""
