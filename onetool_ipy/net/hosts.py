"""Hosts and addresses that may be reached: the allow-list, public addresses, and connections pinned to checked
addresses.

A pattern is `name`, `*.domain` (its subdomains, not itself) or `[ipv6]`, each with an optional port; without one, every
port is allowed. A literal address or `localhost` with its port is allowed even if it is private. A URL with
credentials, or with a host in an odd spelling, is refused: programs read those differently, and the check and the
connection must mean the same host. An IPv6 address may hold an IPv4 one that a gateway unwraps; then that one is
checked.

`PinnedTransport` looks a name up once, checks every address, and dials one of those, so a name that changes its address
between check and connection gains nothing. Host header, SNI and certificate stay on the name.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import httpcore
import httpx

from onetool_ipy.base.errors import ExecutionFailed, HostNotAllowed, InvalidConfig

__all__ = [
    "IDLE_S",
    "MAX_CONNECTIONS",
    "AsyncResolve",
    "Dial",
    "Hosts",
    "Origin",
    "PinnedTransport",
    "Resolve",
    "connect_pinned",
    "core_request",
    "is_odd_address",
    "is_private",
    "is_public",
    "is_this_machine",
    "literal_address",
    "look_up",
    "origin_of",
    "pattern_of",
    "require_public",
    "tls_context",
]

Resolve = Callable[[str, int], Iterable[str]]
"""(name, port) -> its addresses; raises OSError if there are none."""

_MAPPED = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_PROTOCOLS = ipaddress.IPv4Network("192.0.0.0/24")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LAST_LABEL = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)


def literal_address(host: str) -> str | None:
    """Return the address in its canonical spelling if the host is a literal address, or None for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def is_odd_address(host: str) -> bool:
    """Whether a host is an address in a spelling that only some programs read: `127.1`, `2130706433`, `0x7f.1`."""
    return literal_address(host) is None and _LAST_LABEL.fullmatch(host) is not None


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv4Address):
        return _is_public_v4(found)
    if any(found in network for network in (*_MAPPED, _NAT64)):
        return _is_public_v4(_v4(int(found)))
    if found in _SIX_TO_FOUR:
        return _is_public_v4(_v4(int(found) >> 80))
    if (int(found) >> 32) & 0xFFFFFFFF in _ISATAP and not _is_public_v4(_v4(int(found))):
        return False
    return found in _UNICAST and found.is_global and not found.is_multicast


def is_this_machine(address: str) -> bool:
    """Whether a connection to an address ends on this machine, also by an IPv4 address inside an IPv6 one."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address) and any(found in network for network in (*_MAPPED, _NAT64)):
        found = _v4(int(found))
    return found.is_loopback or found.is_unspecified


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def require_public(host: str, addresses: Iterable[str], *, allow_private: bool) -> list[str]:
    """Return the addresses, each once; raises HostNotAllowed if any of them may not be connected to."""
    checked = list(dict.fromkeys(addresses))
    if not allow_private:
        for address in checked:
            if not is_public(address):
                subject = f"The host '{host}' is at '{address}', which" if host != address else f"'{address}'"
                raise HostNotAllowed(
                    f"{subject} is not a public address.",
                    hint="Name address and port in http.allowed_hosts, or set http.allow_private: true."
                    if literal_address(host) or host == "localhost"
                    else "Set http.allow_private: true to reach private networks.",
                )
    return checked


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _PROTOCOLS


def _v4(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)


_PATTERN = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|(?:\*\.)?[^\s/:@\[\]*?#\\]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port of a URL. Headers may be shared only within one origin."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def upgrades_to(self, other: Origin) -> bool:
        """Whether the other origin is this host over TLS, on the default ports."""
        plain = self == ("http", self.host, 80)
        return plain and other == ("https", self.host, 443)


class Hosts:
    """An allow-list of hosts. An empty one allows nothing."""

    __slots__ = ("_exact", "_within", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._exact: set[tuple[str, int | None]] = set()
        self._within: set[tuple[str, int | None]] = set()
        for pattern in self.patterns:
            host, port = _parse(pattern)
            (self._within if host.startswith("*.") else self._exact).add((host.removeprefix("*."), port))

    def allow(self, origin: Origin) -> bool:
        """Whether an origin is on the list."""
        if {(origin.host, None), (origin.host, origin.port)} & self._exact:
            return True
        if literal_address(origin.host) is not None:
            return False
        _, *parents = _parents(origin.host)
        return any((parent, port) in self._within for parent in parents for port in (None, origin.port))

    def allow_private(self, origin: Origin) -> bool:
        """Whether the list names a private address, or `localhost`, with exactly this port."""
        return (origin.host, origin.port) in self._exact and is_private(origin.host)

    def require(self, origin: Origin) -> None:
        """Raise HostNotAllowed for an origin that is not on the list."""
        if self.allow(origin):
            return
        listed = ", ".join(self.patterns) or "none"
        raise HostNotAllowed(
            f"The host '{origin}' is not allowed.",
            hint=f"Add it to http.allowed_hosts (now there: {listed}), then run: %tool trust",
        )

    def __repr__(self) -> str:
        return f"Hosts({len(self.patterns)} patterns)"


def is_private(host: str) -> bool:
    """Whether a host is `localhost` or a literal address that is not public. Names are not looked up."""
    address = literal_address(host)
    return host == "localhost" if address is None else not is_public(address)


def pattern_of(scheme: str, host: str, port: int | None) -> str:
    """The pattern that allows the host of a URL; a private host is named with its port."""
    shown = f"[{host}]" if ":" in host else host
    if port is None and is_private(host):
        port = _PORTS[scheme]
    return shown if port is None else f"{shown}:{port}"


def origin_of(url: httpx.URL) -> Origin:
    """Return the origin of a URL; raises if it is not an http(s) URL with a plainly spelled host."""
    if url.scheme not in _PORTS:
        raise ExecutionFailed(
            f"'{url.scheme or 'no scheme'}' cannot be fetched.", hint="A URL starts with http:// or https://."
        )
    if url.userinfo:
        raise HostNotAllowed("A URL may not hold a user name or password.", hint="Send them as a header.")
    host = url.raw_host.decode("ascii", "replace").lower()
    if not host:
        raise ExecutionFailed("The URL names no host.")
    address = literal_address(host)
    spelled = address or host.removesuffix(".")
    is_odd = address is None and _LAST_LABEL.fullmatch(host) is not None
    if is_odd or (":" not in spelled and not _NAME.fullmatch(spelled)):
        raise HostNotAllowed(f"The host '{host}' is not spelled as a name or an address.")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ExecutionFailed(f"Port {port} is not valid.")
    return Origin(url.scheme, spelled, port)


def _parse(pattern: Any) -> tuple[str, int | None]:
    match = _PATTERN.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise InvalidConfig(
            f"{pattern!r} is not a host.", hint="Write api.example.com, *.example.org:8443 or [::1]:8443."
        )
    host = match["host"].lower().removesuffix(".")
    if host.startswith("["):
        host = literal_address(host[1:-1]) or ""
    elif not host.isascii():
        host = _in_ascii(host)
    if not host or is_odd_address(host.removeprefix("*.")):
        raise InvalidConfig(f"{pattern!r} is not a host.", hint="Write an address in its usual form.")
    return host, int(match["port"]) if match["port"] else None


def _in_ascii(host: str) -> str:
    """Encode an international name as IDNA."""
    star = "*." if host.startswith("*.") else ""
    try:
        return star + httpx.URL(f"http://{host.removeprefix('*.')}/").raw_host.decode("ascii")
    except httpx.InvalidURL:
        return ""


def _parents(host: str) -> list[str]:
    labels = host.split(".")
    return [".".join(labels[i:]) for i in range(len(labels))]


AsyncResolve = Callable[[str, int], Awaitable[Iterable[str]]]
Dial = Callable[[str, int, float | None], Awaitable[httpcore.AsyncNetworkStream]]
"""(address, port, seconds) -> an open stream."""

_Stream = TypeVar("_Stream")

MAX_CONNECTIONS = 20
IDLE_S = 20.0
_CONNECT_S = 30.0


def tls_context() -> ssl.SSLContext:
    """The TLS settings. They take 20 ms to make, so they are shared."""
    return httpx.create_ssl_context(trust_env=False)


class PinnedTransport(httpx.AsyncBaseTransport):
    """An httpx transport over a small pool of pinned connections. HTTP/1.1, no proxy, nothing from the environment."""

    def __init__(
        self, look_up: AsyncResolve, *, allow_private: bool, tls: ssl.SSLContext | None = None, dial: Dial | None = None
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,  # with fewer, httpcore drops each as soon as it is idle
            keepalive_expiry=IDLE_S,
            network_backend=_Backend(look_up, allow_private, _dial if dial is None else dial),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        got = await self._pool.handle_async_request(core_request(request))
        return httpx.Response(got.status, headers=got.headers, stream=_Body(got), extensions=got.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


def core_request(request: httpx.Request) -> httpcore.Request:
    """The same request for httpcore."""
    url = request.url
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


class _Body(httpx.AsyncByteStream):
    """The raw body. Closing it returns the connection to the pool, or ends it if something is left unread."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_stream():
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


class _Backend(httpcore.AsyncNetworkBackend):
    """Looks a host up and connects to a checked address."""

    def __init__(self, look_up: AsyncResolve, allow_private: bool, dial: Dial) -> None:
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
        work = connect_pinned(
            host, port, timeout, look_up=self._look_up, dial=self._dial, allow_private=self._allow_private
        )
        return await work

    async def sleep(self, seconds: float) -> None:
        """Wait. Required by httpcore's interface."""
        await httpcore.AnyIOBackend().sleep(seconds)


async def connect_pinned(
    host: str,
    port: int,
    timeout: float | None,
    *,
    look_up: AsyncResolve,
    dial: Callable[[str, int, float | None], Awaitable[_Stream]],
    allow_private: bool,
) -> _Stream:
    """Look a host up, check every address, and dial them one after another. Returns the first open stream."""
    known = literal_address(host)
    found = [known] if known is not None else await look_up(host, port)
    checked = require_public(host, found, allow_private=allow_private)
    until = time.monotonic() + (_CONNECT_S if timeout is None else timeout)
    fault: Exception = httpcore.ConnectError("The name has no address.")
    for tried, address in enumerate(checked):
        share_s = (until - time.monotonic()) / (len(checked) - tried)
        try:
            return await dial(address, port, max(share_s, 0.1))
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
            fault = exc
    raise fault


async def _dial(address: str, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
    return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout=timeout)
