"""httpx's transports over connections that are pinned to checked addresses, for sync and for async callers.

A name is looked up once for each connection, every address is checked, and one of those is dialled, so a name that
changes its address between check and connection gains nothing. Host header, SNI and certificate stay on the name.
HTTP/1.1, no proxy, nothing from the environment. The pools of connections are httpcore's own.

httpcore's timeouts hold for a single read or write, so a server that drips bytes outlives them. An async caller is
cancelled at its deadline. A sync caller sends inside `deadline(...)`: each wait of its thread gets the time that is
left.
"""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpcore
import httpx

from onetool_ipy.base.background import SIGNAL_CHECK_S, require_wanted
from onetool_ipy.net.hosts import literal_address, require_public

MAX_CONNECTIONS = 20
IDLE_S = 20.0
_CONNECT_S = 30.0
_WRITE_BYTES = 64 * 1024
_LEAST_WAIT_S = 0.001

LookUp = Callable[[str, int, float], Iterable[str]]
"""(name, port, seconds) -> its addresses; raises OSError if there are none."""

AsyncLookUp = Callable[[str, int], Awaitable[Iterable[str]]]
"""(name, port) -> its addresses; raises OSError if there are none."""

_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """End every wait of this thread for a pinned connection at a moment of `time.monotonic()`."""
    token = _deadline.set(until)
    try:
        yield
    finally:
        _deadline.reset(token)


class PinnedTransport(httpx.HTTPTransport):
    """A transport for sync callers, shared by all threads."""

    def __init__(
        self,
        look_up: LookUp,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        # httpx has no argument for the network backend. Its own __init__ makes the pool and nothing else.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            # With fewer than the maximum, httpcore drops each connection as soon as it is idle.
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Backend(look_up, allow_private, network or httpcore.SyncBackend()),
        )


class AsyncPinnedTransport(httpx.AsyncHTTPTransport):
    """The same for async callers, shared by all tasks of an event loop."""

    def __init__(
        self,
        look_up: AsyncLookUp,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_AsyncBackend(look_up, allow_private, network or httpcore.AnyIOBackend()),
        )


class _Backend(httpcore.NetworkBackend):
    """Looks a host up, checks every address, and dials them one after another."""

    def __init__(self, look_up: LookUp, allow_private: bool, network: httpcore.NetworkBackend) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._network = network

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        until = time.monotonic() + _wait_s(timeout)
        address = literal_address(host)
        listed = [address] if address is not None else self._look_up(host, port, _left_s(until))
        addresses = require_public(host, listed, allow_private=self._allow_private)
        failure: Exception = httpcore.ConnectError("The name has no address.")
        for tried, address in enumerate(addresses):
            share_s = _left_s(until) / (len(addresses) - tried)
            try:
                return _TimedStream(self._network.connect_tcp(address, port, timeout=share_s))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    """The same for async callers. Its streams are not timed: whoever awaits them is cancelled at the deadline."""

    def __init__(self, look_up: AsyncLookUp, allow_private: bool, network: httpcore.AsyncNetworkBackend) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        until = time.monotonic() + (_CONNECT_S if timeout is None else timeout)
        address = literal_address(host)
        listed = [address] if address is not None else await self._look_up(host, port)
        addresses = require_public(host, listed, allow_private=self._allow_private)
        failure: Exception = httpcore.ConnectError("The name has no address.")
        for tried, address in enumerate(addresses):
            share_s = _left_s(until) / (len(addresses) - tried)
            try:
                return await self._network.connect_tcp(address, port, timeout=share_s)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """A stream of httpcore's whose waits end at the deadline of the thread that uses it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # An abandoned thread learns of it when it next runs Python code, and so does a main thread that was
        # interrupted just before it began to wait. Hence a thread waits a little at a time.
        until = time.monotonic() + _wait_s(timeout)
        while True:
            left_s = _left_s(until)
            try:
                return self._stream.read(max_bytes, min(left_s, SIGNAL_CHECK_S))
            except httpcore.ReadTimeout:
                require_wanted()
                if left_s <= SIGNAL_CHECK_S:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # httpcore gives the whole timeout to each part that the system takes, so large buffers are cut up here.
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], _wait_s(timeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, _wait_s(timeout)))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> object:
        """What httpcore asks of a stream: its TLS connection, and whether the server has closed it."""
        return self._stream.get_extra_info(info)


def _wait_s(timeout: float | None) -> float:
    """How long a thread may wait: for httpcore's timeout, and not beyond its deadline."""
    until = min(_deadline.get(), time.monotonic() + (_CONNECT_S if timeout is None else timeout))
    return _left_s(until)


def _left_s(until: float) -> float:
    # A timeout of 0 would mean that a socket does not block, and then there is no time-out either.
    return max(until - time.monotonic(), _LEAST_WAIT_S)
