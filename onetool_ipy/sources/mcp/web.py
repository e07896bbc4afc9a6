"""Streamable HTTP to a server, by the official SDK's transport, with the sieve in it and bounds around it.

No proxy of the environment is used, no packed answer taken, none that is too large. Notes which requests certainly did
not reach the server: nobody listens, or the session is one that it does not know (it was started anew). Imports httpx2,
the SDK's own: it is itself imported in the loop's thread, when such a server starts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from onetool_ipy.sources.mcp.child import MAX_LINE
from onetool_ipy.sources.mcp.wire import Sieve

__all__ = ["over_http"]

_HTTP_S = 30.0
_STREAM_S = 300.0
_SESSION = "mcp-session-id"
_NO_SESSION = (400, 404, 410)


@asynccontextmanager
async def over_http(url: str, headers: Mapping[str, str], sieve: Sieve) -> AsyncIterator[tuple[Any, Any]]:
    """The streams to a server at an address."""
    limits = httpx2.Timeout(_HTTP_S, read=_STREAM_S)
    plain = {"Accept-Encoding": "identity", **headers}
    async with (
        httpx2.AsyncClient(headers=plain, timeout=limits, transport=_Bounded(sieve), trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as (reading, writing),
    ):
        yield _Sieved(reading, sieve), _Sieved(writing, sieve)


class _Bounded(httpx2.AsyncBaseTransport):
    """The network, with bounds."""

    def __init__(self, sieve: Sieve) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._sieve = sieve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self._sieve.refused += _is_request(request)
            raise
        if response.status_code >= 400:
            self._sieve.status = response.status_code
            if response.status_code in _NO_SESSION and _SESSION in request.headers:
                self._sieve.refused += _is_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("The answer is packed, which was not asked for.")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """A body that ends in an error when it is too large; the events of a stream are counted by the SDK, one by one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > MAX_LINE:
                raise httpx2.ReadError(f"The answer is larger than {MAX_LINE // 2**20} MB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_request(request: httpx2.Request) -> bool:
    """Whether this carries a request of ours; a notification does not, nor does taking up an answer's stream again."""
    if request.method != "POST":
        return False
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "id" in message and "method" in message


class _Sieved:
    """A stream of the SDK with the sieve in it; everything else is the stream's own."""

    def __init__(self, inner: Any, sieve: Sieve) -> None:
        self._inner, self._sieve = inner, sieve

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any, /) -> None:
        self._sieve.sent(item.message)
        await self._inner.send(item)

    async def receive(self) -> Any:
        return self._seen(await self._inner.receive())

    def __aiter__(self) -> _Sieved:
        return self

    async def __anext__(self) -> Any:
        return self._seen(await self._inner.__anext__())

    async def __aenter__(self) -> _Sieved:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._inner.__aexit__(*exc)

    def _seen(self, item: Any) -> Any:
        if not isinstance(item, Exception):
            self._sieve.received(item.message)
        return item
