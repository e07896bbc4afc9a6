"""A sync httpx transport (WSGI, a test's own) used from the event loop: each blocking step runs in a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

__all__ = ["Threaded"]

InWorker = Callable[[Callable[[], Any]], Awaitable[Any]]


class Threaded(httpx.AsyncBaseTransport):
    """Makes a sync transport async."""

    def __init__(self, transport: httpx.BaseTransport, in_worker: InWorker) -> None:
        self._transport = transport
        self._in_worker = in_worker

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        got = await self._in_worker(lambda: self._transport.handle_request(request))
        body = _Body(got, self._in_worker)
        return httpx.Response(got.status_code, headers=got.headers, stream=body, extensions=got.extensions)


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, in_worker: InWorker) -> None:
        self._response = response
        self._in_worker = in_worker

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = iter(self._response.stream)  # type: ignore[arg-type]  # a sync transport's stream
        while (chunk := await self._in_worker(lambda: next(chunks, None))) is not None:
            yield chunk

    async def aclose(self) -> None:
        await self._in_worker(self._response.close)
