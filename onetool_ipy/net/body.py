"""A response: `HttpResponse` is whole; the body of a stream arrives through `LimitedBody`.

`BodyDecoder` counts a body while it decompresses it, so that no more than the limit is ever in memory: 400 KB of gzip
may hold 800 MB. We ask for gzip and deflate, and read only those.
"""

from __future__ import annotations

import asyncio
import codecs
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, InvalidOutput, TooLarge
from onetool_ipy.net.errors import ConnectionFailed

ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""

_GZIP = 31
_ZLIB = 15
_WBITS = {"": None, "identity": None, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_NOT_OF_A_BODY = frozenset(("idna", "punycode", "undefined"))
"""Codecs of Python that are not for text bodies: they take minutes for a few megabytes, or always fail."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpResponse:
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
            # The library detects UTF-16 in bytes.
            source = self.body if charset == "utf-8" else self.text
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
                codec = codecs.lookup(value.strip().strip("\"'"))
            except (LookupError, ValueError):
                return "utf-8"
            is_text = getattr(codec, "_is_text_encoding", True) and codec.name not in _NOT_OF_A_BODY
            return codec.name if is_text else "utf-8"
    return "utf-8"


class BodyDecoder:
    """Decompresses a body as it arrives, gzip also of several members; raises TooLarge past `limit` bytes."""

    __slots__ = ("_head", "_limit", "_total", "_wbits", "_zlib")

    def __init__(self, headers: Mapping[str, str], limit: int) -> None:
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in _WBITS:
            raise ExecutionFailed(f"The response is packed as '{coding[:40]}', which was not asked for.")
        self._limit = limit
        self._total = 0
        self._wbits = _WBITS[coding]
        self._zlib: zlib._Decompress | None = None
        self._head = b""
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limit:
            raise self._too_large(f"has {int(length):,} bytes")

    def feed(self, chunk: bytes) -> bytes:
        """Return the next chunk, decompressed."""
        body = self._decompressed(chunk, self._limit - self._total + 1)
        self._total += len(body)
        if self._total > self._limit:
            raise self._too_large("is larger than allowed")
        return body

    def feed_some(self, chunk: bytes) -> bytes:
        """Return the next chunk, decompressed and cut at the limit; empty from then on."""
        room = self._limit - self._total
        body = self._decompressed(chunk, room)[:room]
        self._total += len(body)
        return body

    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._total >= self._limit

    def finish(self) -> None:
        """End the body; raises ConnectionFailed if the compressed data is cut off."""
        if bool(self._head) if self._zlib is None else not self._zlib.eof:
            raise ConnectionFailed("The response is cut off in the middle of its compressed data.")

    def _decompressed(self, chunk: bytes, room: int) -> bytes:
        """Decompress a chunk as far as there is room for it."""
        if self._wbits is None:
            return chunk
        if self._zlib is None:
            self._head = chunk = self._head + chunk
            if len(chunk) < 2:
                return b""
            # Some servers leave out the zlib header of deflate, which its two bytes tell.
            if self._wbits == _ZLIB and (chunk[0] & 0x0F != 8 or (chunk[0] * 256 + chunk[1]) % 31):
                self._wbits = -_ZLIB
            self._zlib = zlib.decompressobj(self._wbits)
        body = bytearray()
        while chunk and len(body) < room:
            if self._zlib.eof:
                # After gzip another member may follow; after deflate trailing data is ignored.
                if self._wbits != _GZIP:
                    break
                self._zlib = zlib.decompressobj(_GZIP)
            try:
                body += self._zlib.decompress(chunk, room - len(body))
            except zlib.error:
                raise ExecutionFailed("The response's compressed data is damaged.") from None
            chunk = self._zlib.unconsumed_tail or self._zlib.unused_data
        return bytes(body)

    def _too_large(self, size: str) -> TooLarge:
        return TooLarge(
            f"The response {size}; at most {self._limit:,} bytes are taken.",
            hint="Ask for less, or raise http.max_response_bytes.",
        )


class LimitedBody(httpx.AsyncByteStream):
    """The body of an open response, decompressed and counted. What breaks it is one of our failures.

    `failure_of` translates a foreign exception.
    """

    def __init__(
        self, body: httpx.AsyncByteStream, decoder: BodyDecoder, failure_of: Callable[[Exception], CallFailure]
    ) -> None:
        self._body = body
        self._decoder = decoder
        self._failure_of = failure_of

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                yield self._decoder.feed(chunk)
            self._decoder.finish()
            return
        except (CallFailure, asyncio.CancelledError):
            raise
        except Exception as exc:  # noqa: BLE001 - httpx's, or of a transport of the user's own
            failure = self._failure_of(exc)
        # The failure is raised outside of the handler: the foreign exception holds the request with its headers.
        raise failure

    async def aclose(self) -> None:
        await self._body.aclose()
