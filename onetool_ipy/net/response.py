"""What comes back of a request: a response, whole or as a stream, or a failure in our words.

`HttpResponse` is whole; the body of a stream arrives through `LimitedBody`. `BodyDecoder` counts a
body while it decompresses it, so that no more than the limit is ever in memory: 400 KB of gzip may
hold 800 MB. We ask for gzip and deflate, and read only those.

`translated` makes a failure of `base.errors` of an exception of httpx or the system, with secrets
masked. A `ConnectionFailed` is transient. A translated error is raised without its cause: the cause
holds the request with its URL and headers.
"""

from __future__ import annotations

import asyncio
import codecs
import logging
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    CallFailure,
    CallTimeout,
    ExecutionFailed,
    InvalidOutput,
    TooLarge,
    chain,
    words_of,
)
from onetool_ipy.base.processes import system_words
from onetool_ipy.core import current

Mask = Callable[[str], str]

ACCEPTED = "gzip, deflate"
"""The value of Accept-Encoding."""

_GZIP = 31
_ZLIB = 15
_MEMBER = b"\x1f\x8b\x08"
"""What each member of gzip begins with."""
_WBITS = {"": None, "identity": None, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_NOT_OF_A_BODY = frozenset(("idna", "punycode", "undefined"))
"""Codecs of Python that are not for text bodies: they take minutes for a few megabytes, or always
fail."""
_MAX_WORDS = 300
_TIMEOUTS = (httpx.TimeoutException, TimeoutError)
_REFUSED = (httpx.ConnectError, socket.gaierror)
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError, OSError)
_QUERY = re.compile(r"(?i)(https?://)(?:[^\s/?#@]*@)?([^\s?#'\"]*+)(?:[?#][^\s'\"]*)?")
_USER = re.compile(r"(?i)(https?://)[^\s/?#@]*@")


class ConnectionFailed(ExecutionFailed, transient=True):
    """A connection that could not be made, or broke."""


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
        """The body as text, in the charset it names, else UTF-8; bytes that cannot be decoded
        become U+FFFD."""
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
    """Decompresses a body as it arrives, gzip also of several members; raises TooLarge past `limit`
    bytes.

    What is behind the compressed data and is not another member (zeros, a line end) is not part of
    the body.
    """

    __slots__ = ("_head", "_is_over", "_limit", "_total", "_wbits", "_zlib")

    def __init__(self, headers: Mapping[str, str], limit: int) -> None:
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in _WBITS:
            raise ExecutionFailed(
                f"The response is packed as '{coding[:40]}', which was not asked for."
            )
        self._limit = limit
        self._total = 0
        self._wbits = _WBITS[coding]
        self._zlib: zlib._Decompress | None = None
        self._head = b""
        self._is_over = False
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
        if self._is_over:
            return
        if bool(self._head) if self._zlib is None or self._zlib.eof else True:
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
            self._zlib, self._head = zlib.decompressobj(self._wbits), b""
        body = bytearray()
        while chunk and len(body) < room and not self._is_over:
            if self._zlib.eof:
                chunk = self._head = self._head + chunk
                if self._wbits != _GZIP or not chunk.startswith(_MEMBER[: len(chunk)]):
                    self._is_over = True
                    break
                if len(chunk) < len(_MEMBER):
                    break
                self._zlib, self._head = zlib.decompressobj(_GZIP), b""
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
    """The body of an open response, decompressed and counted. What breaks it is one of our
    failures.

    `failure_of` translates a foreign exception.
    """

    def __init__(
        self,
        body: httpx.AsyncByteStream,
        decoder: BodyDecoder,
        failure_of: Callable[[Exception], CallFailure],
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
        # The failure is raised outside of the handler: the foreign exception holds the request with
        # its headers.
        raise failure

    async def aclose(self) -> None:
        await self._body.aclose()


def timeout_error(place: object, limit_s: float) -> CallTimeout:
    """The error of a request that ran past its limit."""
    return CallTimeout(
        f"'{place}' did not respond completely within {round(limit_s, 3):g} s.",
        hint="Raise http.timeout_s, or the tool's timeoutMs.",
    )


def translated(exc: BaseException, place: object, limit_s: float, mask: Mask) -> CallFailure:
    """Translate a foreign exception into one of ours."""
    if isinstance(exc, CallFailure):
        return masked(exc, mask)
    # The reason is in the system's words if it has some. asyncio writes words of its own there, so
    # the system is asked where there is a number.
    system = next(
        (link for link in chain(exc) if isinstance(link, OSError) and link.strerror), None
    )
    if system is not None:
        words = mask(system_words(system))
    else:
        words = values.cut(mask(_without_query(words_of(exc))), _MAX_WORDS)
    if isinstance(exc, _TIMEOUTS):
        return masked(timeout_error(place, limit_s), mask)
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain(exc)):
        return ExecutionFailed(mask(f"The certificate of '{place}' is not valid: {words}"))
    if isinstance(exc, _REFUSED):
        hint = "Is the address right, and is there a network?"
        return ConnectionFailed(mask(f"Cannot connect to '{place}': {words}"), hint=hint)
    if isinstance(exc, _BROKEN):
        return ConnectionFailed(mask(f"The connection to '{place}' broke: {words}"))
    return ExecutionFailed(mask(f"Cannot send to '{place}': {words}"))


def masked(exc: CallFailure, mask: Mask) -> CallFailure:
    """Mask the secrets in an error."""
    exc.message, exc.hint = mask(exc.message), mask(exc.hint)
    exc.args = (exc.message,)
    exc.__cause__ = exc.__context__ = None
    return exc


@contextmanager
def masking(mask: Mask) -> Iterator[None]:
    """Mask the secrets in a failure of the block, and drop its cause: that holds the request with
    its headers."""
    try:
        yield
    except CallFailure as exc:
        masked(exc, mask)
        raise


def mask_httpx_logs() -> None:
    """Mask what httpx logs: it writes every URL, with the secrets in it."""
    # A filter that is there already is not added again.
    logging.getLogger("httpx").addFilter(_mask_record)


def _mask_record(record: logging.LogRecord) -> bool:
    box = current.toolbox()
    mask = box.mask if box is not None else str
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg if isinstance(arg, (int, float)) else mask(_without_query(str(arg)))
            for arg in record.args
        )
    return True


def _without_query(text: str) -> str:
    return _USER.sub(r"\1", _QUERY.sub(r"\1\2", text))
