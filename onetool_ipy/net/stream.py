"""Stream: a reply that is read as it comes, sync or async, from any thread.

One task on the background loop owns the connection and hands pieces over through a short pipe; whoever reads waits for
the next one. The deadline and the size hold for the whole; leaving the `with` block, Stop and cancelling close it.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from onetool_ipy.core.errors import CallCancelled, CallFailure, UsageProblem
from onetool_ipy.core.loop import Background, Running
from onetool_ipy.net.body import Intake
from onetool_ipy.net.faults import Mask, masked
from onetool_ipy.net.reply import Reply, charset_of
from onetool_ipy.net.rules import Rules

if TYPE_CHECKING:
    import httpx

__all__ = ["Stream"]

_AHEAD = 8
_GRACE_S = 0.5

Send = Callable[[Any], Awaitable[None]]
"""Sends the request and gives the open response to the function it is called with."""


class Stream:
    """An open reply. `status` and `headers` are there once it was entered."""

    status: int
    headers: Mapping[str, str]
    url: str

    def __init__(self, background: Background, send: Send, rules: Rules, mask: Mask) -> None:
        self._background = background
        self._send = send
        self._rules = rules
        self._mask = mask
        self._pipe = _Pipe()
        self._running: Running | None = None
        self._until = 0.0

    def __enter__(self) -> Self:
        if self._background.is_here():
            raise UsageProblem("A stream cannot be read here without blocking.", hint="Use `async with`.")
        self._begin()
        try:
            self._background.run(self._pipe.opened, self._left_s())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """The body in pieces, unpacked."""
        while (piece := self._background.run(self._pipe.get, self._left_s())) is not None:
            yield piece

    def lines(self) -> Iterator[str]:
        """The body in lines, without their ends."""
        splitter = _Lines(self.headers)
        for piece in self:
            yield from splitter.feed(piece)
        yield from splitter.finish()

    def read(self) -> Reply:
        """The rest of the body, whole."""
        return self._reply(b"".join(self))

    async def __aenter__(self) -> Self:
        self._begin()
        try:
            await self._wait(self._pipe.opened)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._wait(self._pipe.get)) is not None:
            yield piece

    async def alines(self) -> AsyncIterator[str]:
        """`lines` for async code."""
        splitter = _Lines(self.headers)
        async for piece in self:
            for line in splitter.feed(piece):
                yield line
        for line in splitter.finish():
            yield line

    async def aread(self) -> Reply:
        """`read` for async code."""
        return self._reply(b"".join([piece async for piece in self]))

    def close(self) -> None:
        """End it, wherever it is; may be called twice."""
        running, self._running = self._running, None
        if running is not None and not running.future.done():
            self._background.give_up(running)

    def _begin(self) -> None:
        if self._until:
            raise UsageProblem("A stream is read once.", hint="Send the request again.")
        self._until = time.monotonic() + self._rules.timeout_s
        self._running = self._background.submit(self._serve)

    async def _serve(self) -> None:
        """The task that owns the connection."""
        fault: BaseException = CallCancelled("The stream was closed.")
        try:
            await self._send(self._take)
        except CallFailure as exc:
            fault = masked(exc, self._mask)
        else:
            self._pipe.end()
        finally:
            self._pipe.end(fault)  # the first end counts

    async def _take(
        self,
        response: httpx.Response,
        headers: Mapping[str, str],
        request: httpx.Request,
        attempt: int,  # noqa: ARG002 - the shape of every use
    ) -> None:
        intake = Intake(headers, self._rules.max_bytes)
        self.status, self.headers, self.url = response.status_code, headers, str(request.url)
        self._pipe.open()
        async for chunk in response.stream:  # type: ignore[union-attr]  # an async transport's stream
            piece = intake.feed(chunk)
            if piece:
                await self._pipe.put(piece)
        intake.finish()

    async def _wait(self, work: Callable[[], Awaitable[Any]]) -> Any:
        if self._background.is_here():
            return await work()
        left_s = self._left_s()
        return await self._background.wait(self._background.submit(work, left_s), left_s)

    def _left_s(self) -> float:
        return max(self._until - time.monotonic(), 0) + _GRACE_S

    def _reply(self, body: bytes) -> Reply:
        return Reply(self.status, self.headers, body, self.url)


class _Pipe:
    """A few pieces between the task that reads the network and whoever wants them; lives on one loop."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._is_open = False
        self._is_over = False
        self._fault: BaseException | None = None

    def open(self) -> None:
        self._is_open = True
        self._changed.set()

    def end(self, fault: BaseException | None = None) -> None:
        if not self._is_over:
            self._is_over, self._fault = True, fault
            self._changed.set()

    async def opened(self) -> None:
        await self._until(lambda: self._is_open or self._is_over)
        if not self._is_open:
            self._raise()

    async def put(self, piece: bytes) -> None:
        await self._until(lambda: len(self._pieces) < _AHEAD)
        self._pieces.append(piece)
        self._changed.set()

    async def get(self) -> bytes | None:
        await self._until(lambda: bool(self._pieces) or self._is_over)
        if not self._pieces:
            self._raise()
            return None
        self._changed.set()
        return self._pieces.popleft()

    async def _until(self, is_true: Callable[[], bool]) -> None:
        while not is_true():
            self._changed.clear()
            await self._changed.wait()

    def _raise(self) -> None:
        if self._fault is not None:
            raise self._fault


class _Lines:
    """Cuts pieces of bytes into lines of text, wherever the pieces end."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._decoder = codecs.getincrementaldecoder(charset_of(headers))("replace")
        self._rest = ""

    def feed(self, piece: bytes) -> Iterator[str]:
        *lines, self._rest = (self._rest + self._decoder.decode(piece)).split("\n")
        yield from (line.removesuffix("\r") for line in lines)

    def finish(self) -> Iterator[str]:
        rest = self._rest + self._decoder.decode(b"", final=True)
        if rest:
            yield rest.removesuffix("\r")
