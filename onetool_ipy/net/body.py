"""The body of a response, counted as it is unpacked: no more than allowed is ever held in memory.

Decompression is bounded: 400 KB may well stand for 800 MB. gzip and deflate are what we ask for and what we read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onetool_ipy.core.errors import ExecutionFailed, TooLarge
from onetool_ipy.net.faults import Broken

__all__ = ["ACCEPTED", "Intake"]

ACCEPTED = "gzip, deflate"
"""What to say in Accept-Encoding."""

_PLAIN = ("", "identity")
_GZIP = 31
_ZLIB = 15
_RAW = -15
_HEAD = 2


class Intake:
    """Takes a body in as it arrives and gives it on unpacked; raises TooLarge past `limit` bytes."""

    __slots__ = ("_limit", "_total", "_unpack")

    def __init__(self, headers: Mapping[str, str], limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._unpack = _unpacker(headers.get("content-encoding", ""))
        said = headers.get("content-length", "")
        if said.isascii() and said.isdigit() and int(said) > limit:
            raise self._too_large(f"has {int(said):,} bytes")

    def feed(self, chunk: bytes) -> bytes:
        """The next piece, unpacked."""
        out: list[bytes] = []
        for piece in self._pieces(chunk):
            out.append(piece)
            self._total += len(piece)
            if self._total > self._limit:
                raise self._too_large("has no end in sight")
        return b"".join(out)

    def sip(self, chunk: bytes) -> bytes:
        """The next piece, cut where the limit is reached; empty from then on."""
        out: list[bytes] = []
        for piece in () if self.is_full() else self._pieces(chunk):
            out.append(piece[: self._limit - self._total])
            self._total += len(out[-1])
            if self.is_full():
                break
        return b"".join(out)

    def is_full(self) -> bool:
        """Whether there is room for nothing more."""
        return self._total >= self._limit

    def finish(self) -> None:
        """Say that there is no more; raises where the packed data is cut off."""
        if self._unpack is not None and not self._unpack.is_whole():
            raise Broken("The response is cut off in the middle of its compressed data.")

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
    """Undoes gzip, also of several members, or deflate in both of its readings; never more than `room` at a time."""

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
                    return  # nothing belongs behind it
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
        """Tell from the first bytes which deflate is meant: some servers leave out its head."""
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
