"""A response: `HttpResponse` is whole, `ResponseStream` is read as it arrives, sync or async, from any thread.

`BodyDecoder` counts a body while it decompresses it, so that no more than the limit is ever in memory: 400 KB of gzip
may hold 800 MB. We ask for gzip and deflate, and read only those. Of a stream, one task on the background loop owns the
connection and passes pieces on through a short pipe. Deadline and size limit hold for the whole body; leaving the
`with` block, Stop and cancelling close the connection.
"""

from __future__ import annotations

import asyncio
import codecs
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from onetool_ipy.base import values
from onetool_ipy.base.background import Background, Running
from onetool_ipy.base.errors import CallCancelled, CallFailure, ExecutionFailed, InvalidOutput, TooLarge, UsageProblem
from onetool_ipy.base.records import Value
from onetool_ipy.net.errors import ConnectionFailed, Mask, masked

if TYPE_CHECKING:
    import httpx

    from onetool_ipy.net.client import Rules

__all__ = ["ACCEPTED", "BodyDecoder", "HttpResponse", "ResponseStream", "charset_of", "mime_of"]

_NOT_OF_A_BODY = frozenset(("idna", "punycode", "undefined"))
"""Codecs of Python that are not for text bodies: they take minutes for a few megabytes, or always fail."""


class HttpResponse(Value):
    """A whole response. Header names are in lower case; `url` is that of the last redirect."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    attempts: int = 1

    @property
    def mime(self) -> str:
        return mime_of(self.headers)

    @property
    def is_json(self) -> bool:
        """Whether the response says that it is JSON."""
        return self.mime in ("application/json", "text/json") or self.mime.endswith("+json")

    @property
    def text(self) -> str:
        """The body as text, in the charset it names, else UTF-8; bytes that cannot be decoded become U+FFFD."""
        return self.body.decode(charset_of(self.headers), "replace").removeprefix("\ufeff")

    def json(self) -> Any:
        """The body as JSON; raises InvalidOutput if it is not JSON."""
        try:
            charset = charset_of(self.headers)
            source = self.body if charset == "utf-8" else self.text  # json detects UTF-16 in bytes
            return values.from_json(source)
        except RecursionError:
            raise InvalidOutput("The response says it is JSON, but is nested too deep.") from None
        except ValueError as exc:
            raise InvalidOutput(f"The response says it is JSON, but is not: {exc}") from None

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status} {self.mime} {len(self.body):,} bytes>"


def mime_of(headers: Mapping[str, str]) -> str:
    """The media type, in lower case, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def charset_of(headers: Mapping[str, str]) -> str:
    """The charset that a response names, if Python knows it; else UTF-8."""
    for part in headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            try:
                found = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return "utf-8"
            is_text = getattr(found, "_is_text_encoding", True) and found.name not in _NOT_OF_A_BODY
            return found.name if is_text else "utf-8"
    return "utf-8"


ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""

_PLAIN = ("", "identity")
_GZIP = 31
_ZLIB = 15
_RAW = -15
_HEAD = 2


class BodyDecoder:
    """Decompresses a body as it arrives; raises TooLarge past `limit` bytes."""

    __slots__ = ("_limit", "_total", "_unpack")

    def __init__(self, headers: Mapping[str, str], limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._unpack = _unpacker(headers.get("content-encoding", ""))
        said = headers.get("content-length", "")
        if said.isascii() and said.isdigit() and int(said) > limit:
            raise self._too_large(f"has {int(said):,} bytes")

    def feed(self, chunk: bytes) -> bytes:
        """Return the next chunk, decompressed."""
        out: list[bytes] = []
        for piece in self._pieces(chunk):
            out.append(piece)
            self._total += len(piece)
            if self._total > self._limit:
                raise self._too_large("is larger than allowed")
        return b"".join(out)

    def feed_some(self, chunk: bytes) -> bytes:
        """Return the next chunk, decompressed and cut at the limit; empty from then on."""
        out: list[bytes] = []
        for piece in () if self.is_full() else self._pieces(chunk):
            out.append(piece[: self._limit - self._total])
            self._total += len(out[-1])
            if self.is_full():
                break
        return b"".join(out)

    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._total >= self._limit

    def finish(self) -> None:
        """End the body; raises ConnectionFailed if the compressed data is cut off."""
        if self._unpack is not None and not self._unpack.is_whole():
            raise ConnectionFailed("The response is cut off in the middle of its compressed data.")

    def _pieces(self, chunk: bytes) -> Iterator[bytes]:
        if self._unpack is None:
            yield chunk
        else:
            yield from self._unpack.feed(chunk, lambda: self._limit - self._total + 1)

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(
            f"The response {size}; at most {self._limit:,} bytes are taken.",
            hint="Ask for less, or raise http.max_response_bytes.",
        )


class _Unpack:
    """Decompresses gzip, also of several members, and deflate with or without a zlib header."""

    __slots__ = ("_bits", "_head", "_zlib")

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._head = b""
        self._zlib: Any = None

    def feed(self, chunk: bytes, room: Callable[[], int]) -> Iterator[bytes]:
        if self._zlib is None:
            self._head += chunk
            if len(self._head) < _HEAD:
                return
            chunk = self._begin()
        while chunk:
            if self._zlib.eof:
                if self._bits != _GZIP:
                    return  # trailing data is ignored
                self._zlib = zlib.decompressobj(self._bits)
            try:
                out = self._zlib.decompress(chunk, room())
            except zlib.error:
                raise ExecutionFailed("The response's compressed data is damaged.") from None
            chunk = self._zlib.unconsumed_tail or self._zlib.unused_data
            if out:
                yield out

    def is_whole(self) -> bool:
        return not self._head if self._zlib is None else bool(self._zlib.eof)

    def _begin(self) -> bytes:
        """Detect from the first bytes which deflate it is: some servers leave out the zlib header."""
        first, second = self._head[:_HEAD]
        if self._bits == _ZLIB and (first & 0x0F != 8 or (first * 256 + second) % 31):
            self._bits = _RAW
        self._zlib = zlib.decompressobj(self._bits)
        return self._head


def _unpacker(encoding: str) -> _Unpack | None:
    coding = encoding.strip().lower()
    if coding in _PLAIN:
        return None
    if coding in ("gzip", "x-gzip"):
        return _Unpack(_GZIP)
    if coding == "deflate":
        return _Unpack(_ZLIB)
    raise ExecutionFailed(f"The response is packed as '{coding[:40]}', which was not asked for.")


_AHEAD = 8
_GRACE_S = 0.5

Send = Callable[[Any], Awaitable[None]]
"""Sends the request and passes the open response to its argument."""


class ResponseStream:
    """An open response. `status` and `headers` are set once the `with` block is entered."""

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
        """The body in decompressed pieces."""
        while (piece := self._background.run(self._pipe.get, self._left_s())) is not None:
            yield piece

    def lines(self) -> Iterator[str]:
        """The body in lines, without line ends."""
        splitter = _Lines(self.headers)
        for piece in self:
            yield from splitter.feed(piece)
        yield from splitter.finish()

    def read(self) -> HttpResponse:
        """Read the rest of the body."""
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

    async def aread(self) -> HttpResponse:
        """`read` for async code."""
        return self._reply(b"".join([piece async for piece in self]))

    def close(self) -> None:
        """Close the connection. May be called twice."""
        running, self._running = self._running, None
        if running is not None and not running.future.done():
            self._background.abandon(running)

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
        intake = BodyDecoder(headers, self._rules.max_bytes)
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

    def _reply(self, body: bytes) -> HttpResponse:
        return HttpResponse(self.status, self.headers, body, self.url)


class _Pipe:
    """A few pieces between the task that reads the network and the reader of the stream; lives on one loop."""

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
