"""Why a server at an address cannot be used: its state, one sentence, and what to do. No words of a library."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from onetool_ipy.base import values

if TYPE_CHECKING:
    from onetool_ipy.mcp.connection import FailureState

__all__ = ["AddressFault", "HttpNotes", "address_fault"]

_PARSE_ERROR = -32700
_MAX_WORDS = 300
_IS_THE_PATH_RIGHT = "Is the path right? It often ends in /mcp."


class HttpNotes:
    """What the responses of one session showed: the last error status, and signs that no MCP server sends them."""

    def __init__(self) -> None:
        self.status = 0
        self.location = ""
        self.foreign = ""


class AddressFault(NamedTuple):
    """Why an address does not work."""

    state: FailureState
    text: str
    hint: str = ""


def address_fault(exc: BaseException, url: str, notes: HttpNotes) -> AddressFault:
    """Say why a session over HTTP failed with this exception."""
    shown = _shown(url)
    if isinstance(exc, httpx2.ReadError) and str(exc).startswith("The response is"):  # ours: too large, or compressed
        return AddressFault("failed", str(exc))
    if isinstance(exc, httpx2.TransportError) and not isinstance(exc, httpx2.SSEError) and not notes.status:
        return _unreachable(exc, shown, urlsplit(url).hostname or "")
    if notes.status == 401:
        return AddressFault("signed out", "It wants credentials (HTTP 401).")
    if notes.status == 403:
        return AddressFault("refused", "It refuses us (HTTP 403).", "Are its headers right?")
    if notes.status == 429 or notes.status >= 500:
        return AddressFault("failed", f"It has trouble of its own (HTTP {notes.status}).", "Try again later.")
    if notes.location:
        hint = "If that is the server, use that address."
        return AddressFault("wrong address", f"{shown} sends us on to {_shown(notes.location)}.", hint)
    error = getattr(exc, "error", None)
    if notes.status or notes.foreign or getattr(error, "code", 0) == _PARSE_ERROR or isinstance(exc, httpx2.SSEError):
        status = f" (HTTP {notes.status})" if notes.status else ""
        said = f"{shown} answers, but not as an MCP server{status}."
        return AddressFault("wrong address", said, _IS_THE_PATH_RIGHT)
    return AddressFault("failed", values.cut(_words(exc, error), _MAX_WORDS))


def _unreachable(exc: BaseException, shown: str, host: str) -> AddressFault:
    causes = list(_causes(exc))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return AddressFault("unreachable", f"There is no host '{host}'.", "Is the address spelled right?")
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return AddressFault("unreachable", f"The certificate of '{host}' is not valid here.")
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return AddressFault("unreachable", f"{shown} does not speak https.", "Is it http://, or another port?")
    if isinstance(exc, httpx2.TimeoutException):
        return AddressFault("unreachable", f"{shown} does not answer in time.", "Does it run, and can it be reached?")
    if isinstance(exc, httpx2.ConnectError):
        return AddressFault("unreachable", f"Nothing answers at {shown}.", "Does it run, and is the port right?")
    broken = any(isinstance(cause, OSError) and cause.errno == errno.ECONNRESET for cause in causes)
    said = "breaks the connection off" if broken or isinstance(exc, httpx2.NetworkError) else "does not answer properly"
    return AddressFault("wrong address", f"{shown} {said}.", _IS_THE_PATH_RIGHT)


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """The exception and all it came from."""
    waiting: list[Any] = [exc]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseException) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, *(getattr(found, "exceptions", ()) or ())]


def _shown(url: str) -> str:
    """An address without user name and query, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return values.cut(f"{parts.scheme}://{host}{parts.path}", 120)


def _words(exc: BaseException, error: Any) -> str:
    if error is not None:
        return f"It answers with an error: {' '.join(str(error.message).split())}"
    return f"The connection failed ({type(exc).__name__})."
