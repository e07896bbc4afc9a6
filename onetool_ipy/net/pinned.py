"""Connections to checked addresses: a name is looked up once, every address is checked, and one of those is dialled.

So a name that changes its address between check and connection gains nothing. Host header, SNI and certificate stay
on the name: httpcore takes them from the URL, and only the socket is ours. A connection is kept for reuse in a pool
whose connections were all checked by the same rule.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import httpcore
import httpx

from onetool_ipy.net import addresses

__all__ = ["Dial", "LookUp", "PinnedTransport", "tls_context"]

LookUp = Callable[[str, int], Awaitable[Iterable[str]]]
Dial = Callable[[str, int, float | None], Awaitable[httpcore.AsyncNetworkStream]]
"""(address, port, seconds) -> an open stream."""

_MAX_CONNECTIONS = 20
_IDLE_S = 20.0
_CONNECT_S = 30.0


def tls_context() -> ssl.SSLContext:
    """How certificates are checked; takes some 20 ms to make, so it is shared."""
    return httpx.create_ssl_context(trust_env=False)


class PinnedTransport(httpx.AsyncBaseTransport):
    """An httpx transport over a small pool of pinned connections. HTTP/1.1, no proxy, nothing from the environment."""

    def __init__(
        self, look_up: LookUp, *, allow_private: bool, tls: ssl.SSLContext | None = None, dial: Dial | None = None
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_CONNECTIONS,  # with fewer, httpcore drops each as soon as it is idle
            keepalive_expiry=_IDLE_S,
            network_backend=_Backend(look_up, allow_private, _dial if dial is None else dial),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        got = await self._pool.handle_async_request(sent)
        return httpx.Response(got.status, headers=got.headers, stream=_Body(got), extensions=got.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """The raw body; closing it gives the connection back, or ends it where something is left unread."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


class _Backend(httpcore.AsyncNetworkBackend):
    """Looks a host up, checks what it finds, and dials one address after another."""

    def __init__(self, look_up: LookUp, allow_private: bool, dial: Dial) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._dial = dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        known = addresses.literal(host)
        found = [known] if known is not None else await self._look_up(host, port)
        checked = addresses.require_public(host, found, allow_private=self._allow_private)
        until = time.monotonic() + (_CONNECT_S if timeout is None else timeout)
        fault: Exception = httpcore.ConnectError("The name has no address.")
        for tried, address in enumerate(checked):
            share_s = (until - time.monotonic()) / (len(checked) - tried)
            try:
                return await self._dial(address, port, max(share_s, 0.1))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                fault = exc
        raise fault

    async def sleep(self, seconds: float) -> None:
        """Wait; httpcore asks for it between its own tries, of which there are none."""
        await httpcore.AnyIOBackend().sleep(seconds)


async def _dial(address: str, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout=timeout)
