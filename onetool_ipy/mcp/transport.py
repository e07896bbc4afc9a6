"""HTTP to a server and to its sign-in, and in words why an address does not work.

Bodies have a size limit, and nothing is compressed. The user chose the server's own address; every
other one was named by the server and is checked before it is dialled. The SDK speaks httpx2, so
this is not `net`, which speaks httpx.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore2
import httpx2

from onetool_ipy.base import values
from onetool_ipy.base.errors import Unavailable, chain
from onetool_ipy.mcp.content import error_text
from onetool_ipy.mcp.definition import FailureState, ServerDefinition
from onetool_ipy.mcp.interceptor import HttpNotes, MessageInterceptor
from onetool_ipy.mcp.process import MAX_LINE
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.net.hosts import is_public, is_this_machine, look_up

_HTTP_S = 30.0
_HTTP_READ_S = 300.0
_SESSION_HEADER = "mcp-session-id"
_MCP_TYPES = ("application/json", "text/event-stream")
_UNKNOWN_SESSION = (400, 404, 410)
_PARSE_ERROR = -32700
_PATH_HINT = "Is the path right? It often ends in /mcp."


class AddressFault(NamedTuple):
    """Why an address does not work."""

    state: FailureState
    text: str
    hint: str = ""


def http_client(
    definition: ServerDefinition,
    interceptor: MessageInterceptor | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """The HTTP client for a server and its sign-in. Uses no proxy of the environment and follows no
    redirect."""
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **definition.headers},
        timeout=httpx2.Timeout(_HTTP_S, read=_HTTP_READ_S),
        transport=_HttpTransport(definition.url, interceptor or MessageInterceptor(MessageTrace())),
        trust_env=False,
        auth=auth,
    )


def address_fault(url: str, notes: HttpNotes, exc: BaseException) -> AddressFault:
    """Say why a session over HTTP failed, by what its responses showed."""
    address = _shown(url)
    # These read errors are our own: the response is too large, or compressed.
    if isinstance(exc, httpx2.ReadError) and str(exc).startswith("The response is"):
        return AddressFault("failed", str(exc))
    if (
        isinstance(exc, httpx2.TransportError)
        and not isinstance(exc, httpx2.SSEError)
        and not notes.status
    ):
        return _unreachable(exc, address, urlsplit(url).hostname or "")
    if notes.status == 401:
        return AddressFault("signed out", "It wants credentials (HTTP 401).")
    if notes.status == 403:
        return AddressFault("refused", "It refuses access (HTTP 403).", "Are its headers right?")
    if notes.status == 429 or notes.status >= 500:
        return AddressFault(
            "failed", f"It reports an internal error (HTTP {notes.status}).", "Try again later."
        )
    if notes.location:
        hint = "If that is the server, use that address."
        return AddressFault(
            "wrong address", f"{address} redirects to {_shown(notes.location)}.", hint
        )
    is_no_mcp = getattr(getattr(exc, "error", None), "code", 0) == _PARSE_ERROR or isinstance(
        exc, httpx2.SSEError
    )
    if notes.status or notes.foreign or is_no_mcp:
        status = f" (HTTP {notes.status})" if notes.status else ""
        message = f"{address} answers, but not as an MCP server{status}."
        return AddressFault("wrong address", message, _PATH_HINT)
    return AddressFault("failed", error_text(exc))


class _HttpTransport(httpx2.AsyncBaseTransport):
    """The network with a limit on response sizes. Notes the requests that certainly did not reach
    the server.

    The user chose the server's own address. Any other one was named by the server, for its sign-in,
    and is checked.
    """

    def __init__(self, url: str, interceptor: MessageInterceptor) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._elsewhere: httpx2.AsyncHTTPTransport | None = None
        self._url = httpx2.URL(url)
        self._interceptor = interceptor

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_own = _origin(request.url) == _origin(self._url)
        if not is_own and self._elsewhere is None:
            self._elsewhere = _SignInTransport(self._url)
        transport = self._inner if is_own or self._elsewhere is None else self._elsewhere
        try:
            response = await transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self._interceptor.undelivered += _is_request(request)
            raise
        content_type = response.headers.get("content-type", "")
        # A sign-in asks other addresses.
        if request.url == self._url:
            self._note(request, response, content_type)
        if response.status_code in _UNKNOWN_SESSION and _SESSION_HEADER in request.headers:
            self._interceptor.undelivered += _is_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("The response is compressed, which was not asked for.")
        if not content_type.startswith("text/event-stream"):
            response.stream = _LimitedBody(response.stream)
        return response

    def _note(self, request: httpx2.Request, response: httpx2.Response, content_type: str) -> None:
        notes = self._interceptor.http
        if response.is_redirect:
            notes.location = str(request.url.join(response.headers.get("location", "")))
        elif response.status_code >= 400:
            notes.status = response.status_code
        elif response.status_code == 200 and not content_type.startswith(_MCP_TYPES):
            notes.foreign = content_type or "nothing"

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._elsewhere is not None:
            await self._elsewhere.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _SignInTransport(httpx2.AsyncHTTPTransport):
    """The network as a server may use it through us: to addresses that are no nearer to us than the
    server itself."""

    def __init__(self, server: httpx2.URL) -> None:
        super().__init__()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(), network_backend=_CheckedBackend(server)
        )


class _CheckedBackend(httpcore2.AnyIOBackend):
    """Looks a host up once, checks every address, and dials one of those."""

    def __init__(self, server: httpx2.URL) -> None:
        self._server = server

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await _addresses(host, port)
        own_addresses = await _addresses(self._server.host, self._server.port or 443)
        limit = max(map(_nearness, own_addresses), default=0)
        if any(_nearness(address) > limit for address in addresses):
            raise Unavailable(
                f"The server names an address for its sign-in that is not safe: '{host}' is not a"
                " public address."
            )
        fault: Exception = httpcore2.ConnectError(f"There is no host '{host}'.")
        for address in dict.fromkeys(addresses):
            try:
                return await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                fault = exc
        raise fault


async def _addresses(host: str, port: int) -> list[str]:
    """Look up a host; empty if there is none."""
    try:
        return await asyncio.to_thread(look_up, host.strip("[]"), port)
    except OSError:
        return []


def _nearness(address: str) -> int:
    """How near to us an address is: 0 on the internet, 1 in a private network, 2 on this
    machine."""
    return 0 if is_public(address) else 2 if is_this_machine(address) else 1


class _LimitedBody(httpx2.AsyncByteStream):
    """A body with a size limit. The SDK limits the events of an event stream itself."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > MAX_LINE:
                raise httpx2.ReadError(f"The response is larger than {MAX_LINE // 2**20} MB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_request(request: httpx2.Request) -> bool:
    """Whether an HTTP request carries a JSON-RPC request. A notification or resuming a stream is
    not one."""
    if request.method != "POST":
        return False
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "id" in message and "method" in message


def _unreachable(exc: BaseException, address: str, host: str) -> AddressFault:
    causes = list(chain(exc))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return AddressFault(
            "unreachable", f"There is no host '{host}'.", "Is the address spelled right?"
        )
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return AddressFault("unreachable", f"The certificate of '{host}' is not valid here.")
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return AddressFault(
            "unreachable", f"{address} does not speak https.", "Is it http://, or another port?"
        )
    if isinstance(exc, httpx2.TimeoutException):
        message = f"{address} does not answer in time."
        return AddressFault("unreachable", message, "Does it run, and can it be reached?")
    if isinstance(exc, httpx2.ConnectError):
        return AddressFault(
            "unreachable", f"Nothing answers at {address}.", "Does it run, and is the port right?"
        )
    is_broken = isinstance(exc, httpx2.NetworkError) or any(
        isinstance(cause, ConnectionResetError) for cause in causes
    )
    problem = "breaks the connection off" if is_broken else "does not answer properly"
    return AddressFault("wrong address", f"{address} {problem}.", _PATH_HINT)


def _shown(url: str) -> str:
    """An address without user name and query, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return values.cut(f"{parts.scheme}://{host}{parts.path}", 120)
