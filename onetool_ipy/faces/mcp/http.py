"""Serve a toolbox over MCP: on streamable HTTP in its own thread behind a bearer token, or to one
client on stdio.

Every request must carry the token, before anything else is looked at. The token never appears in a
repr: a notebook keeps what it shows. The SDK bounds the sessions of older clients, ends idle ones
and refuses one too many; newer clients have none.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from onetool_ipy.base.background import Background, Workers
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import write_whole
from onetool_ipy.base.processes import is_running, listen_alone
from onetool_ipy.base.values import Json
from onetool_ipy.faces.mcp.attach import NOTES
from onetool_ipy.faces.mcp.server import ToolboxServer
from onetool_ipy.toolbox import Toolbox

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

PATH = "/mcp"
MAX_SESSIONS = 200
"""How many sessions there may be at a time."""

_STOP_S = 5.0
_IDLE_S = 1800.0
_POLL_S = 1.0
_CHUNK = 65_536


class Serving:
    """A toolbox that is being served: `url`, `token` (None if none is required), `client()`,
    `stop()`.

    `file` is where a notebook has written the client's configuration.
    """

    def __init__(
        self,
        server: ToolboxServer,
        listening: socket.socket,
        *,
        host: str,
        token: str | None,
        other: ASGIApp | None = None,
    ) -> None:
        import uvicorn  # late: a client on stdio does not wait for it

        port = listening.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
        self.token = token
        self.file: Path | None = None
        self._toolbox_server = server
        inner = server.server.streamable_http_app(
            streamable_http_path=PATH,
            host=host,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=_IDLE_S,
        )
        app = _TokenRequired(inner, token)
        config = uvicorn.Config(
            app if other is None else _ByPath(app, other),
            log_config=None,
            lifespan="on",
            timeout_graceful_shutdown=1,
            ws="none",
        )
        self._server = uvicorn.Server(config)
        # A tool that blocks the toolbox's loop must not stop the answers.
        self._background = Background()
        self._running = self._background.submit(lambda: self._server.serve(sockets=[listening]))
        self._undo: list[Callable[[], None]] = []

    def client(self) -> Json:
        """Return the configuration for another client. It holds the token: take care where you show
        it."""
        headers = (
            {} if self.token is None else {"headers": {"Authorization": f"Bearer {self.token}"}}
        )
        return {"mcpServers": {"onetool": {"type": "http", "url": self.url, **headers}}}

    def offer(self, flag: str) -> str:
        """Say how many tools are offered, and how to offer others with that flag."""
        return self._toolbox_server.offer(flag)

    def is_up(self) -> bool:
        return not self._running.future.done()

    def wait(self) -> None:
        """Wait until it ends."""
        self._running.future.result()

    def leave_note(self, state: Path) -> None:
        """Write what a client needs into a project's state folder, for the user alone, until it
        stops."""
        file = self.file = state / NOTES / f"{self.url.rpartition(':')[2].partition('/')[0]}.json"
        write_whole(file, json.dumps(self.client(), indent=2).encode())
        self._undo.append(lambda: file.unlink(missing_ok=True))

    def stop(self) -> None:
        """End it and its thread. May be called twice."""
        self._toolbox_server.close()
        while self._undo:
            self._undo.pop()()
        self._server.should_exit = True
        with suppress(Exception):
            self._running.future.result(_STOP_S)
        self._background.close()

    def __repr__(self) -> str:
        if not self.is_up():
            return f"No longer serving on {self.url}"
        lines = [f"Serving on {self.url}", "Stop with: %tool serve stop", self.offer("--allow")]
        if self.token is None:
            lines.append("No token is asked for: every program on this machine may call the tools.")
        elif self.file is not None:
            lines.append(f"What another client needs, with the bearer token, is in {self.file}")
        if self.file is not None:
            lines.append(
                "An agent in a terminal, in this project's folder, runs: onetool-ipy mcp --attach"
            )
        return "\n".join(lines)


def serve_http(
    box: Toolbox,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    allow: Sequence[str] | None = None,
    token: str | None = None,
    is_open: bool = False,
    other: ASGIApp | None = None,
) -> Serving:
    """Serve a toolbox on a port of this machine; port 0 takes a free one.

    Args:
        token: The bearer token that a client must send; by default a new one.
        is_open: Require no token. Only on loopback.
        other: The ASGI application of all other paths.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if is_open and not is_loopback:
        raise UsageProblem(
            f"'{host}' can be reached from other machines; a token is needed there.",
            hint="Leave --no-token out.",
        )
    listening = _listen(host, port)
    server = ToolboxServer(box, allow=allow)
    token = None if is_open else token or secrets.token_urlsafe(24)
    return Serving(server, listening, host=host, token=token, other=other)


def serve_to_process(box: Toolbox, pid: int) -> Serving:
    """Serve the tools that only read, with a new token, until that process of this machine has
    ended."""
    serving = serve_http(box)
    unsubscribe = box.subscribe(closing=serving.stop)

    async def watch() -> None:
        while is_running(pid):  # noqa: ASYNC110 - nothing tells of the end of a process that is not a child
            await asyncio.sleep(_POLL_S)
        unsubscribe()
        await asyncio.to_thread(serving.stop)

    box.background.submit(watch)
    return serving


class _ByPath:
    """Two ASGI applications: one for `/mcp` and what belongs to the server itself, the other for
    all other paths."""

    def __init__(self, app: ASGIApp, other: ASGIApp) -> None:
        self._app = app
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] != "http" or scope["path"] == PATH
        await (self._app if is_ours else self._other)(scope, receive, send)


class _TokenRequired:
    """An ASGI application behind a bearer token."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._wanted = None if token is None else f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_known = scope["type"] != "http" or self._wanted is None
        if not is_known:
            credentials = [value for name, value in scope["headers"] if name == b"authorization"]
            kind, _, rest = (
                credentials[0].partition(b" ") if len(credentials) == 1 else (b"", b"", b"")
            )
            is_known = hmac.compare_digest(kind.lower() + b" " + rest.strip(), self._wanted or b"")
        if is_known:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"A bearer token is needed.\n"})


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listen_alone(listening)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as exc:
        listening.close()
        raise UsageProblem(
            f"Cannot listen on '{host}' port {port}: {str(exc).rstrip('.')}.",
            hint="Choose another with --port, or 0 for a free one.",
        ) from exc
    listening.setblocking(False)
    return listening


def serve_stdio(
    box: Toolbox,
    *,
    allow: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> None:
    """Serve the client on standard input; what tools print goes to standard error. `say` gets what
    is offered."""
    # Descriptor 0 may be another file by now, so Python's own look at the start is what counts.
    if sys.stdin is None:
        raise UsageProblem(
            "Standard input is closed: no client is there.", hint="Serve on a port with --http."
        )

    async def serve() -> None:
        server = ToolboxServer(box, allow=allow)
        say(server.offer("--tool-allow"))
        try:
            with _standard_input() as fd:
                # The SDK says that it wants a file, and only iterates over it.
                lines: Any = _lines(fd)
                async with stdio_server(stdin=lines) as (incoming, outgoing):
                    await server.server.run(incoming, outgoing, server.options())
        finally:
            server.close()

    is_read = True
    try:
        anyio.run(serve)
    except* (BrokenPipeError, ConnectionResetError):
        is_read = False
    if not is_read:
        raise BrokenPipeError  # the client went away: the command ends as it does before `| head`


@contextmanager
def _standard_input() -> Iterator[int]:
    """Give a descriptor for standard input. Meanwhile tools and their processes have an empty one,
    as the SDK does."""
    private, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        yield private
    finally:
        # The private one stays open: a thread may still wait for its next bytes.
        os.dup2(private, 0)


async def _lines(fd: int) -> AsyncIterator[str]:
    """Give the lines of a descriptor. The SDK's own reader would hold the process until the next
    line comes."""
    workers = Workers()
    pieces: list[bytes] = []
    while data := await asyncio.wrap_future(workers.submit(partial(os.read, fd, _CHUNK)).future):
        first, *others = data.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces).decode("utf-8", "replace")
            pieces = [other]
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")
