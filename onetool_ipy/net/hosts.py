"""Hosts and addresses that may be reached: the allow-list, which addresses are public, and
connections to those alone.

A pattern is `name`, `*.domain` (its subdomains, not itself) or `[ipv6]`, each with an optional
port; without one, every port is allowed. A literal address or `localhost` with its port is allowed
even if it is private. A URL with credentials, or with a host in an odd spelling, is refused:
programs read those differently, and the check and the connection must mean the same host. An IPv6
address may hold an IPv4 one that a gateway unwraps; then that one is checked.

A connection is pinned to a checked address: a name is looked up once for each connection, every
address is checked, and one of those is dialled, so a name that changes its address between check
and connection gains nothing. Host header, SNI and certificate stay on the name. HTTP/1.1, no proxy,
nothing from the environment. The pools of connections are httpcore's own, and the transports over
them httpx's.

httpcore's timeouts hold for a single read or write, so a server that drips bytes outlives them. An
async caller is cancelled at its deadline. A sync caller sends inside `deadline(...)`: each wait of
its thread gets the time that is left.
"""

from __future__ import annotations

import ipaddress
import math
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import httpcore
import httpx

from onetool_ipy.base.background import SIGNAL_CHECK_S, require_wanted
from onetool_ipy.base.errors import ExecutionFailed, HostNotAllowed, InvalidConfig, TooLarge

Resolve = Callable[[str, int], Iterable[str]]
"""(name, port) -> its addresses; raises OSError if there are none."""

_MAPPED = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_PROTOCOLS = ipaddress.IPv4Network("192.0.0.0/24")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LAST_LABEL = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)
_PATTERN = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|(?:\*\.)?[^\s/:@\[\]*?#\\]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE
)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
PORTS = {"http": 80, "https": 443}

MAX_CONNECTIONS = 20
IDLE_S = 20.0
_CONNECT_S = 30.0
_WRITE_BYTES = 64 * 1024
_LEAST_WAIT_S = 0.001
_FRAMES = 8
"""How many bytes a chunk of one byte is on the wire, about."""
_HEADERS = 1024 * 1024

LookUp = Callable[[str, int, float], Iterable[str]]
"""(name, port, seconds) -> its addresses; raises OSError if there are none."""

AsyncLookUp = Callable[[str, int], Awaitable[Iterable[str]]]
"""(name, port) -> its addresses; raises OSError if there are none."""


class _Limits:
    """What one request may take of its connections: time, and bytes on the wire."""

    __slots__ = ("room", "until")

    def __init__(self, until: float = math.inf, room: float = math.inf) -> None:
        self.until = until
        self.room = room

    def take(self, data: bytes) -> bytes:
        """Count what was read; raises TooLarge, or httpcore's ReadTimeout if it came too late.

        A server that always has something to send never lets a read wait, so the clock is looked at
        here.
        """
        self.room -= len(data)
        if self.room < 0:
            raise TooLarge(
                "The server sends much more than a response of the allowed size needs.",
                hint="Ask for less, or raise http.max_response_bytes.",
            )
        if time.monotonic() >= self.until:
            raise httpcore.ReadTimeout("The deadline has passed.")
        return data


_NO_LIMITS = _Limits()
_limits: ContextVar[_Limits | None] = ContextVar("limits", default=None)


class UrlOrigin(NamedTuple):
    """Scheme, host and port of a URL. Headers may be shared only within one origin."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def upgrades_to(self, other: UrlOrigin) -> bool:
        """Whether the other origin is this host over TLS, on the default ports."""
        plain = self == ("http", self.host, 80)
        return plain and other == ("https", self.host, 443)


class Hosts:
    """An allow-list of hosts. An empty one allows nothing."""

    __slots__ = ("_exact", "_private", "_within", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._exact: set[tuple[str, int | None]] = set()
        self._within: set[tuple[str, int | None]] = set()
        for pattern in self.patterns:
            host, port = _parse(pattern)
            (self._within if host.startswith("*.") else self._exact).add(
                (host.removeprefix("*."), port)
            )
        self._private = {
            (host, port) for host, port in self._exact if port is not None and is_private(host)
        }

    def allow(self, origin: UrlOrigin) -> bool:
        """Whether an origin is on the list."""
        if (origin.host, None) in self._exact or (origin.host, origin.port) in self._exact:
            return True
        # No pattern is the end of an address: one that begins with `*.` and a number is refused.
        labels = origin.host.split(".")
        parents = [".".join(labels[start:]) for start in range(1, len(labels))]
        return any(
            (parent, port) in self._within for parent in parents for port in (None, origin.port)
        )

    def allow_private(self, origin: UrlOrigin) -> bool:
        """Whether the list names a private address, or `localhost`, with exactly this port."""
        return (origin.host, origin.port) in self._private

    def require(self, origin: UrlOrigin) -> None:
        """Raise HostNotAllowed for an origin that is not on the list."""
        if self.allow(origin):
            return
        patterns = ", ".join(self.patterns) or "none"
        raise HostNotAllowed(
            f"The host '{origin}' is not allowed.",
            hint=(
                f"Add it to http.allowed_hosts in .onetool/onetool.yaml (allowed now: {patterns}),"
                " then run: %tool trust"
            ),
        )

    def __repr__(self) -> str:
        return f"Hosts({len(self.patterns)} patterns)"


def literal_address(host: str) -> str | None:
    """Return the address in its canonical spelling if the host is a literal address, or None for a
    name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def is_odd_address(host: str) -> bool:
    """Whether a host is an address in a spelling that only some programs read: `127.1`,
    `2130706433`, `0x7f.1`."""
    return literal_address(host) is None and _LAST_LABEL.fullmatch(host) is not None


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_public_v4(parsed)
    if any(parsed in network for network in (*_MAPPED, _NAT64)):
        return _is_public_v4(_v4(int(parsed)))
    if parsed in _SIX_TO_FOUR:
        return _is_public_v4(_v4(int(parsed) >> 80))
    if (int(parsed) >> 32) & 0xFFFFFFFF in _ISATAP and not _is_public_v4(_v4(int(parsed))):
        return False
    return parsed in _UNICAST and parsed.is_global and not parsed.is_multicast


def is_private(host: str) -> bool:
    """Whether a host is `localhost` or a literal address that is not public. Names are not looked
    up."""
    address = literal_address(host)
    return host == "localhost" if address is None else not is_public(address)


def is_this_machine(address: str) -> bool:
    """Whether a connection to an address ends on this machine, also by an IPv4 address inside an
    IPv6 one."""
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and any(
        parsed in network for network in (*_MAPPED, _NAT64)
    ):
        parsed = _v4(int(parsed))
    return parsed.is_loopback or parsed.is_unspecified


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, by the system's resolver."""
    return [
        str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]


def require_public(host: str, addresses: Iterable[str], *, allow_private: bool) -> list[str]:
    """Return the addresses, each once; raises HostNotAllowed if any of them may not be connected
    to."""
    unique = list(dict.fromkeys(addresses))
    private = (
        next((address for address in unique if not is_public(address)), None)
        if not allow_private
        else None
    )
    if private is None:
        return unique
    subject = f"The host '{host}' is at '{private}', which" if host != private else f"'{private}'"
    raise HostNotAllowed(
        f"{subject} is not a public address.",
        hint="Name address and port in http.allowed_hosts, or set http.allow_private: true."
        if is_private(host)
        else "Set http.allow_private: true to reach private networks.",
    )


def origin_of(url: httpx.URL) -> UrlOrigin:
    """Return the origin of a URL; raises if it is not an http(s) URL with a plainly spelled
    host."""
    if url.scheme not in PORTS:
        raise ExecutionFailed(
            f"'{url.scheme or 'no scheme'}' cannot be fetched.",
            hint="A URL starts with http:// or https://.",
        )
    if url.userinfo:
        raise HostNotAllowed(
            "A URL may not hold a user name or password.", hint="Send them as a header."
        )
    host = url.raw_host.decode("ascii", "replace").lower()
    if not host:
        raise ExecutionFailed("The URL names no host.")
    address = literal_address(host)
    spelled = address or host.removesuffix(".")
    is_odd = address is None and _LAST_LABEL.fullmatch(host) is not None
    if is_odd or (":" not in spelled and not _NAME.fullmatch(spelled)):
        raise HostNotAllowed(f"The host '{host}' is not spelled as a name or an address.")
    port = PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ExecutionFailed(f"Port {port} is not valid.")
    return UrlOrigin(url.scheme, spelled, port)


def pattern_of(scheme: str, host: str, port: int | None) -> str:
    """The pattern that allows the host of a URL; a private host is named with its port."""
    name = f"[{host}]" if ":" in host else host
    if port is None and is_private(host):
        port = PORTS[scheme]
    return name if port is None else f"{name}:{port}"


def _parse(pattern: object) -> tuple[str, int | None]:
    match = _PATTERN.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise InvalidConfig(
            f"{pattern!r} is not a host.",
            hint="Write api.example.com, *.example.org:8443 or [::1]:8443.",
        )
    host = match["host"].lower().removesuffix(".")
    if host.startswith("["):
        host = literal_address(host[1:-1]) or ""
    elif not host.isascii():
        # An international name is listed in its ASCII form, as it is sent.
        star = "*." if host.startswith("*.") else ""
        try:
            host = star + httpx.URL(f"http://{host.removeprefix('*.')}/").raw_host.decode("ascii")
        except httpx.InvalidURL:
            host = ""
    if not host or is_odd_address(host.removeprefix("*.")):
        raise InvalidConfig(
            f"{pattern!r} is not a host.", hint="Write an address in its usual form."
        )
    return host, int(match["port"]) if match["port"] else None


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _PROTOCOLS


def _v4(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)


@contextmanager
def limited(until: float, max_bytes: int) -> Iterator[None]:
    """Let the requests of this thread or task end at a moment of `time.monotonic()`, and bound what
    they read.

    Headers and the frames of chunks are on the wire too, so there is room for several times
    `max_bytes`.
    """
    token = _limits.set(_Limits(until, _FRAMES * max_bytes + _HEADERS))
    try:
        yield
    finally:
        _limits.reset(token)


class PinnedTransport(httpx.HTTPTransport):
    """A transport for sync callers, shared by all threads."""

    def __init__(
        self,
        look_up: LookUp,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        # httpx has no argument for the network backend. Its own __init__ makes the pool and nothing
        # else.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            # With fewer than the maximum, httpcore drops each connection as soon as it is idle.
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Backend(look_up, allow_private, network or httpcore.SyncBackend()),
        )


class AsyncPinnedTransport(httpx.AsyncHTTPTransport):
    """The same for async callers, shared by all tasks of an event loop."""

    def __init__(
        self,
        look_up: AsyncLookUp,
        *,
        allow_private: bool,
        tls: ssl.SSLContext | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_AsyncBackend(
                look_up, allow_private, network or httpcore.AnyIOBackend()
            ),
        )


class _Backend(httpcore.NetworkBackend):
    """Looks a host up, checks every address, and dials them one after another."""

    def __init__(
        self, look_up: LookUp, allow_private: bool, network: httpcore.NetworkBackend
    ) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._network = network

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        until = time.monotonic() + _wait_s(timeout)
        address = literal_address(host)
        listed = [address] if address is not None else self._look_up(host, port, _left_s(until))
        addresses = require_public(host, listed, allow_private=self._allow_private)
        failure: Exception = httpcore.ConnectError("The name has no address.")
        for tried, address in enumerate(addresses):
            share_s = _left_s(until) / (len(addresses) - tried)
            try:
                return _TimedStream(self._network.connect_tcp(address, port, timeout=share_s))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    """The same for async callers. Nobody waits in its streams longer than the caller, who is
    cancelled."""

    def __init__(
        self, look_up: AsyncLookUp, allow_private: bool, network: httpcore.AsyncNetworkBackend
    ) -> None:
        self._look_up = look_up
        self._allow_private = allow_private
        self._network = network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        until = time.monotonic() + (_CONNECT_S if timeout is None else timeout)
        address = literal_address(host)
        listed = [address] if address is not None else await self._look_up(host, port)
        addresses = require_public(host, listed, allow_private=self._allow_private)
        failure: Exception = httpcore.ConnectError("The name has no address.")
        for tried, address in enumerate(addresses):
            share_s = _left_s(until) / (len(addresses) - tried)
            try:
                return _CountedStream(
                    await self._network.connect_tcp(address, port, timeout=share_s)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """A stream of httpcore's whose waits end at the deadline of the thread that uses it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        # An abandoned thread learns of it when it next runs Python code, and so does a main thread
        # that was interrupted just before it began to wait. Hence a thread waits a little at a
        # time.
        until = time.monotonic() + _wait_s(timeout)
        while True:
            left_s = _left_s(until)
            try:
                return (_limits.get() or _NO_LIMITS).take(
                    self._stream.read(max_bytes, min(left_s, SIGNAL_CHECK_S))
                )
            except httpcore.ReadTimeout:
                require_wanted()
                if (
                    left_s <= SIGNAL_CHECK_S
                    or time.monotonic() >= (_limits.get() or _NO_LIMITS).until
                ):
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # httpcore gives the whole timeout to each part that the system takes, so large buffers are
        # cut up here.
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._stream.write(buffer[start : start + _WRITE_BYTES], _wait_s(timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, _wait_s(timeout)))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> object:
        """What httpcore asks of a stream: its TLS connection, and whether the server has closed
        it."""
        return self._stream.get_extra_info(info)


class _CountedStream(httpcore.AsyncNetworkStream):
    """A stream of httpcore's whose reads are counted and looked at by the clock."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return (_limits.get() or _NO_LIMITS).take(await self._stream.read(max_bytes, timeout))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _CountedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        """What httpcore asks of a stream."""
        return self._stream.get_extra_info(info)


def _wait_s(timeout: float | None) -> float:
    """How long a thread may wait: for httpcore's timeout, and not beyond its deadline."""
    until = min(
        (_limits.get() or _NO_LIMITS).until,
        time.monotonic() + (_CONNECT_S if timeout is None else timeout),
    )
    return _left_s(until)


def _left_s(until: float) -> float:
    # A timeout of 0 would mean that a socket does not block, and then there is no time-out either.
    return max(until - time.monotonic(), _LEAST_WAIT_S)
