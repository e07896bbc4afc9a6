"""Connections for a caller that waits in its own thread, and the way to run the client's coroutines there.

`BlockingTransport` has the methods of an async transport; they block, so `run_blocking` runs a coroutine that awaits
nothing else without an event loop. A thread waits a little at a time and then runs Python code, where Stop and
`Abandoned` reach it. There is no lock: an interrupt between any two lines leaves nothing but a connection unused.
httpcore hands our stream the times of a request and does not look at them, so they are the moment of its deadline.
"""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import httpcore
import httpx

from onetool_ipy.base.background import SIGNAL_CHECK_S
from onetool_ipy.net.hosts import IDLE_S, MAX_CONNECTIONS, connect_pinned, core_request

__all__ = ["BlockingLookUp", "BlockingTransport", "run_blocking", "sleep_blocking"]

_T = TypeVar("_T")

BlockingLookUp = Callable[[str, int, float], Iterable[str]]
"""(name, port, seconds) -> its addresses; raises OSError if there are none."""


def run_blocking(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that blocks wherever it awaits to its end, in this thread."""
    try:
        work.send(None)
    except StopIteration as done:
        value: _T = done.value
        return value
    work.close()
    raise RuntimeError("The coroutine waits for an event loop.")


async def sleep_blocking(seconds: float) -> None:
    """Sleep in this thread, a little at a time."""
    until = time.monotonic() + seconds
    while (left_s := _left_s(until)) > 0:
        time.sleep(min(left_s, SIGNAL_CHECK_S))  # noqa: ASYNC251 - it is for a thread without a loop


class BlockingTransport(httpx.AsyncBaseTransport):
    """An httpx transport over a few pinned connections that all threads share.

    The extension `until` of a request is the moment of its deadline.
    """

    def __init__(self, look_up: BlockingLookUp, *, allow_private: bool, tls: ssl.SSLContext | None = None) -> None:
        self._backend = _Backend(look_up, allow_private)
        self._tls = tls
        self._idle: deque[httpcore.HTTPConnection] = deque()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(MAX_CONNECTIONS):
            self._permits.put(None)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sent, until = core_request(request), request.extensions["until"]
        sent.extensions = {"timeout": dict.fromkeys(("connect", "read", "write"), until)}
        try:
            self._permits.get(timeout=max(until - time.monotonic(), 0))
        except Empty:
            raise httpcore.PoolTimeout from None
        try:
            connection = self._take(sent.url.origin)
            got = connection.handle_request(sent)
        except BaseException:
            self._permits.put(None)
            raise
        body = _Body(got, lambda: self._give_back(connection))
        return httpx.Response(got.status, headers=got.headers, stream=body, extensions=got.extensions)

    async def aclose(self) -> None:
        """Close the idle connections; those in use are closed after their response."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _take(self, origin: httpcore.Origin) -> httpcore.HTTPConnection:
        """Return the connection to this origin that was used last, or a new one."""
        others: list[httpcore.HTTPConnection] = []
        found: httpcore.HTTPConnection | None = None
        with suppress(IndexError):
            while found is None:
                connection = self._idle.pop()
                if connection.has_expired() or not connection.is_available():
                    connection.close()
                elif connection.can_handle_request(origin):
                    found = connection
                else:
                    others.append(connection)
        self._idle.extend(reversed(others))
        return found or httpcore.HTTPConnection(
            origin, ssl_context=self._tls, keepalive_expiry=IDLE_S, network_backend=self._backend
        )

    def _give_back(self, connection: httpcore.HTTPConnection) -> None:
        if connection.is_idle():
            self._idle.append(connection)
        self._permits.put(None)
        if len(self._idle) > MAX_CONNECTIONS:
            with suppress(IndexError):
                self._idle.popleft().close()


class _Body(httpx.AsyncByteStream):
    """The raw body. Closing it gives the connection back, or ends it if something is left unread."""

    def __init__(self, response: httpcore.Response, give_back: Callable[[], None]) -> None:
        self._response = response
        self._give_back: Callable[[], None] | None = give_back
        self._chunks = response.iter_stream()

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            self._response.close()
            give_back()


class _Backend(httpcore.NetworkBackend):
    """Looks a host up and connects to a checked address."""

    def __init__(self, look_up: BlockingLookUp, allow_private: bool) -> None:
        self._look_up = look_up
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout)

        async def look_up(host: str, port: int) -> Iterable[str]:
            return self._look_up(host, port, left_s)

        work = connect_pinned(host, port, left_s, look_up=look_up, dial=_dial, allow_private=self._allow_private)
        return run_blocking(work)


async def _dial(address: str, port: int, timeout: float | None) -> httpcore.NetworkStream:
    try:
        connected = socket.create_connection((address, port), timeout)
    except TimeoutError as exc:
        raise httpcore.ConnectTimeout(str(exc)) from exc
    except OSError as exc:
        raise httpcore.ConnectError(str(exc)) from exc
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _Stream(connected)


class _Stream(httpcore.NetworkStream):
    """A socket. The `timeout` of each method is a moment."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._wait(partial(self._socket.recv, max_bytes), timeout, httpcore.ReadTimeout, httpcore.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            send = partial(self._socket.send, rest)
            rest = rest[self._wait(send, timeout, httpcore.WriteTimeout, httpcore.WriteError) :]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        wrapped = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname, do_handshake_on_connect=False)
        secure = _Stream(wrapped)
        try:
            secure._wait(wrapped.do_handshake, timeout, httpcore.ConnectTimeout, httpcore.ConnectError)
        except BaseException:
            secure.close()
            raise
        return secure

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: the TLS connection, and whether an idle connection was closed by the server."""
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        return self._is_readable() if info == "is_readable" else None

    def _is_readable(self) -> bool:
        try:
            self._socket.settimeout(0)
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # the bytes on the wire, also under TLS
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _wait(self, act: Callable[[], _T], until: float | None, late: type[Exception], broken: type[Exception]) -> _T:
        while (left_s := _left_s(until)) > 0:
            try:
                self._socket.settimeout(min(left_s, SIGNAL_CHECK_S))
                return act()
            except TimeoutError:
                continue  # here an interrupt arrives
            except OSError as exc:
                raise broken(str(exc)) from exc
        raise late


def _left_s(until: float | None) -> float:
    return math.inf if until is None else until - time.monotonic()
