"""One configured MCP server: its state, its known tools, and calls over one connection after
another.

The async methods run on the background loop. All callers share one start. A dead connection is
replaced before a request is sent, never after. A connection from before a fork, or of a loop that
was given up, is not touched: the server then counts as not started.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import forks
from onetool_ipy.base.errors import (
    CallFailure,
    Unavailable,
    Untrusted,
    UsageProblem,
)
from onetool_ipy.core.tool import Problem
from onetool_ipy.mcp.connection import ServerConnection
from onetool_ipy.mcp.content import NotSent
from onetool_ipy.mcp.definition import ServerDefinition, State
from onetool_ipy.mcp.listing import ListingCache, ServerListing
from onetool_ipy.mcp.process import StderrLog
from onetool_ipy.mcp.status import Status
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.stores.tasks import TaskStore
from onetool_ipy.stores.tokens import TokenStore

if TYPE_CHECKING:
    from onetool_ipy.mcp.auth import ServerAuth, SignIn, SignInLink
    from onetool_ipy.mcp.session import ServerSession

_MET: tuple[State, ...] = ("connected", "disconnected")
_LAST_LINES = 20
_LOCK_S = 10.0

_log = logging.getLogger("onetool_ipy.sources")


class Server:
    """A server by its definition."""

    _status: Status
    _connection: ServerConnection | None
    _starting: asyncio.Task[ServerConnection] | None
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
        """The last known tools, from the server itself or from the cache; None if they are not
        known."""
        if self._listing is None and not self._is_cache_read:
            self._is_cache_read = True
            self._listing = self._cache.get(self.definition)
        return self._listing

    def has_failed_lately(self) -> bool:
        """Whether it failed to start recently, here or in another kernel: then a listing does not
        wait for it."""
        return self._cache.has_failed(self.definition)

    @property
    def status(self) -> Status:
        """How the server is now, and why."""
        # The status is read before the connection: a start that ends meanwhile in its own thread
        # then gives the answer of before.
        status, connection = self._status, self._own_connection()
        if status.kind == "connected" and (connection is None or not connection.is_usable()):
            reason = "" if connection is None else connection.reason
            return replace(status, kind="disconnected", reason=reason or "It ended.")
        is_signed_out = status.kind == "signed out"
        if status.kind == "connected" and self._auth is not None:
            is_signed_out = self._auth.needs_sign_in
        if is_signed_out and self.definition.signs_in:
            return replace(status, kind="signed out", reason=self._sign_in_reason())
        return status

    @property
    def state(self) -> State:
        """The state of the server now."""
        return self.status.kind

    @property
    def reason(self) -> str:
        """Why the server is not connected; empty if it is, is starting, or was never started."""
        return self.status.reason

    def explanation(self) -> tuple[str, str]:
        """Say why it has no tools to call, and what to do; empty if it was not tried."""
        status = self.status
        text = status.text(self.definition)
        return text, status.advice(self.definition) if text else ""

    def stderr_details(self) -> Any:
        """Return the end of the server's stderr output, as details of a failure."""
        lines = self.logs().splitlines()[-_LAST_LINES:]
        return {"server": self.name, "stderr": lines} if lines else None

    def _sign_in_reason(self) -> str:
        """Why it counts as signed out."""
        settings = self.definition.auth
        fault = self._tokens.fault(self._tokens.path(self.definition.url, settings.client))
        return (
            fault
            or (self._auth.fault if self._auth is not None else "")
            or "It wants you to sign in."
        )

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
        """Return why it is not connected, if it was tried, and which of its tools cannot be
        offered."""
        status, problems = self.status, []
        if status.is_problem:
            problems.append(self._problem(status.reason, status.advice(self.definition)))
        faults = () if self.listing is None else self.listing.faults
        hint = "Update the server, or tell its authors."
        return problems + [self._problem(fault, hint) for fault in faults]

    def _problem(self, message: str, hint: str) -> Problem:
        return Problem(
            self.definition.where, f"The server '{self.name}': {message}", hint, self.name
        )

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
        """Whether a health check may start it."""
        return self.status.may_be_tried(time.monotonic())

    async def connect(self) -> ServerConnection:
        """Return the connection; starts the server if needed. Raises Unavailable if it does not
        start."""
        connection, status = self._connection_here(), self._status
        if status.kind == "connected" and connection is not None and connection.is_usable():
            return connection
        if not self.definition.is_allowed:
            raise Untrusted.of(f"The server '{self.name}' is not trusted yet.", server=self.name)
        if status.kind in ("disabled", "stopped"):
            raise Unavailable(status.text(self.definition), hint=status.advice(self.definition))
        if self._starting is None:
            self._status = Status(kind="starting", since=time.monotonic(), took_s=status.took_s)
            task = asyncio.get_running_loop().create_task(
                self._start(self._status), context=contextvars.Context()
            )
            self._starting = task
            task.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    async def request(self, work: Callable[[ServerSession], Awaitable[object]]) -> Any:
        """Run one request of its session; over a new one if the request certainly did not reach the
        server."""
        connection = await self.connect()
        refusals = self._auth.refusals if self._auth is not None else 0
        try:
            try:
                return await connection.request(work)
            except NotSent:
                connection = await self.connect()
            return await connection.request(work)
        except NotSent:
            raise Unavailable(
                f"The server '{self.name}' does not take calls. {connection.reason}".rstrip()
            ) from None
        except CallFailure:
            if self._auth is not None and self._auth.refusals > refusals:
                raise self._sign_in_needed() from None
            raise

    async def complete(self, work: Callable[[ServerSession], Awaitable[object]]) -> Any:
        """The same for Tab: None if the server is not connected, which starts nothing."""
        connection = self._connection_here()
        return (
            None
            if connection is None or not connection.is_usable()
            else await connection.request(work)
        )

    def _sign_in_needed(self) -> Unavailable:
        """The failure of a call that the server refused until the user signs in, or grants more."""
        login = f"Sign in with: %tool server login {self.name}"
        if self.state == "signed out":
            text, hint = self.explanation()
            return Unavailable(text, hint=hint)
        return Unavailable(f"The server '{self.name}' needs more rights for this call.", hint=login)

    async def sign_in(self, issuer: str = "") -> SignInLink:
        """Start a sign-in, or return to the one that is under way. `issuer` may get the secret of
        the user's client."""
        if not self.definition.signs_in:
            raise UsageProblem(
                f"The server '{self.name}' has no sign-in.",
                hint="Its credentials are in its definition.",
            )
        if self.definition.auth.grant == "client_credentials":
            raise UsageProblem(
                f"The server '{self.name}' needs no sign-in: it uses client credentials."
            )
        if self._sign_in is None or self._sign_in.is_done:
            await self._meet_challenge(issuer)
        assert self._sign_in is not None
        return await asyncio.shield(self._sign_in.link)

    async def _meet_challenge(self, issuer: str) -> None:
        """Find out what the server asks for, and start a sign-in with it."""
        self._end_pause()
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
        definition = replace(
            self.definition, auth=replace(settings, issuer=settings.issuer or issuer)
        )
        self._sign_in = SignIn(definition, self._tokens, self._environ, challenge, self.restart)

    async def signed_in(self, answer: str = "") -> None:
        """Wait for the end of the sign-in that is under way, with an answer that a person pasted,
        if any."""
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
            responds, silent = await connection.responds(), "It does not answer."
            if self._connection is connection and self._status.kind in _MET:
                kind: State = "connected" if responds else "disconnected"
                self._status = replace(self._status, kind=kind, reason="" if responds else silent)
        if connection is not None and not connection.is_usable():
            # The reason is known once the connection has ended.
            await connection.wait_ended()
        elif self.may_be_tried():
            await self.connect()

    async def start(self) -> None:
        """Start it, also if it was stopped."""
        self._end_pause()
        await self.connect()

    async def stop(self) -> None:
        """End it. It stays stopped until `start`."""
        if self._status.kind not in ("disabled", "untrusted"):
            self._status = Status(kind="stopped", reason="It was stopped.", since=time.monotonic())
        if self._sign_in is not None:
            self._sign_in.drop()
        await self._end_connection("It was stopped.")

    async def restart(self) -> None:
        """End it and start it again."""
        self._end_pause()
        await self._end_connection("It was stopped.")
        await self.connect()

    def drop(self) -> None:
        """End it without waiting, from any thread."""
        connection = self._own_connection()
        for running in (connection, self._sign_in):
            if running is not None:
                running.drop()

    def _end_pause(self) -> None:
        if self._status.kind == "stopped":
            self._status = Status.at_rest(self.definition)

    async def _start(self, starting: Status) -> ServerConnection:
        """Start it. The status becomes that of the start, unless it was stopped meanwhile."""
        await self._end_connection("")
        self._stderr = self._stderr or StderrLog()
        self._auth = self._new_auth()
        connection = ServerConnection(
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
            refused = self._auth is not None and self._auth.needs_sign_in
            status = _since(
                starting, "signed out" if refused else connection.state, exc.message, exc.hint
            )
            if self._status is starting:
                self._status = status
            # The state is now that of the failed start.
            self._starting = None
            self._cache.note_failure(self.definition)
            if refused:
                raise self._sign_in_needed() from None
            _log.error("The server '%s' did not start; ot.health() says why.", self.name)
            raise Unavailable(
                status.text(self.definition),
                hint=status.advice(self.definition),
                details=self.stderr_details(),
            ) from None
        if self._status is starting:
            self._status = _since(starting, "connected")
        return connection

    def _new_auth(self) -> ServerAuth | None:
        if not self.definition.signs_in:
            return None
        # This imports the SDK, as `ServerConnection._open` does.
        from onetool_ipy.mcp.auth import ServerAuth

        return ServerAuth(self.definition, self._tokens)

    def _started(self, task: asyncio.Task[ServerConnection]) -> None:
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

    def _ended(self, _connection: ServerConnection) -> None:
        self._on_state()

    async def _end_connection(self, reason: str) -> None:
        connection, self._connection = self._connection_here(), None
        if connection is not None:
            await connection.stop(reason)

    def _own_connection(self) -> ServerConnection | None:
        """Return the connection, if it belongs to this process and its loop still runs."""
        if self._connection is not None and self._connection.loop.is_closed():
            self._forget_connection()
        return self._connection

    def _connection_here(self) -> ServerConnection | None:
        """The same on the background loop: a connection of a loop that was given up does not
        count."""
        connection = self._own_connection()
        if connection is not None and connection.loop is not asyncio.get_running_loop():
            connection.drop()
            self._forget_connection()
        return self._connection

    def _forget_connection(self) -> None:
        self._connection = self._starting = None
        if self._status.kind == "starting":
            self._status = Status.at_rest(self.definition)

    def after_fork(self) -> None:
        """Forget the connection, which belongs to the parent, and all that is known of it."""
        self._status = Status.at_rest(self.definition)
        self._connection = None
        self._starting = None
        self._auth = self._sign_in = None


def _since(starting: Status, kind: State, reason: str = "", hint: str = "") -> Status:
    """The status after a start that is over now."""
    now = time.monotonic()
    return Status(kind=kind, reason=reason, hint=hint, since=now, took_s=now - starting.since)
