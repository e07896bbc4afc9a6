"""Which hosts may be reached: the allow-list, and what a URL must be before its host is even looked up. Pure.

A pattern is `name`, `*.domain` (its subdomains, not itself) or `[ipv6]`, each with an optional port; without one every
port is meant. A literal address or `localhost` with a port is meant as it stands, also where it is private. A URL with
credentials in it, or with a host in an odd spelling, is refused: programs read those differently, and the check and the
connection must mean the same host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from onetool_ipy.core.errors import ExecutionFailed, HostNotAllowed, InvalidConfig
from onetool_ipy.net import addresses

__all__ = ["Hosts", "Place", "Url", "is_private", "pattern_of", "place_of"]

_PATTERN = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|(?:\*\.)?[^\s/:@\[\]*?#\\]+)(?::(?P<port>\d{1,5}))?", re.IGNORECASE)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.(?!-)[a-z0-9_-]{1,63})*")
_PORTS = {"http": 80, "https": 443}


class Url(Protocol):
    """What is asked of a URL; `httpx.URL` is one."""

    @property
    def scheme(self) -> str: ...
    @property
    def raw_host(self) -> bytes: ...
    @property
    def port(self) -> int | None: ...
    @property
    def userinfo(self) -> bytes: ...


class Place(NamedTuple):
    """Where a URL leads: two with the same place may see each other's headers."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def upgrades_to(self, other: Place) -> bool:
        """Whether the other is this very host, only now over TLS."""
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

    def allow(self, place: Place) -> bool:
        """Whether a place is on the list."""
        if {(place.host, None), (place.host, place.port)} & self._exact:
            return True
        if addresses.literal(place.host) is not None:
            return False
        _, *parents = _parents(place.host)
        return any((parent, port) in self._within for parent in parents for port in (None, place.port))

    def allow_private(self, place: Place) -> bool:
        """Whether a place is a private address, or `localhost`, that the list names with its very port."""
        return (place.host, place.port) in self._exact and is_private(place.host)

    def require(self, place: Place) -> None:
        """Raise HostNotAllowed for a place that is not on the list."""
        if self.allow(place):
            return
        listed = ", ".join(self.patterns) or "none"
        raise HostNotAllowed(
            f"The host '{place}' is not allowed.", hint=f"Add it to http.allowed_hosts; now there: {listed}."
        )

    def __repr__(self) -> str:
        return f"Hosts({len(self.patterns)} patterns)"


def is_private(host: str) -> bool:
    """Whether a host is `localhost`, or an address that is not a public one; a name says nothing of where it leads."""
    address = addresses.literal(host)
    return host == "localhost" if address is None else not addresses.is_public(address)


def pattern_of(scheme: str, host: str, port: int | None) -> str:
    """How an allow-list names the host of a URL: a private one with its port, which alone is meant."""
    shown = f"[{host}]" if ":" in host else host
    if port is None and is_private(host):
        port = _PORTS[scheme]
    return shown if port is None else f"{shown}:{port}"


def place_of(url: Url) -> Place:
    """Where a URL leads, if that can be said without doubt."""
    if url.scheme not in _PORTS:
        raise ExecutionFailed(
            f"'{url.scheme or 'no scheme'}' cannot be fetched.", hint="A URL starts with http:// or https://."
        )
    if url.userinfo:
        raise HostNotAllowed("A URL may not hold a user name or password.", hint="Send them as a header.")
    host = url.raw_host.decode("ascii", "replace").lower()
    if not host:
        raise ExecutionFailed("The URL names no host.")
    spelled = addresses.literal(host) or host.removesuffix(".")
    if addresses.is_odd_number(host) or (":" not in spelled and not _NAME.fullmatch(spelled)):
        raise HostNotAllowed(f"The host '{host}' is not spelled as a name or an address.")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 65536:
        raise ExecutionFailed(f"The port {port} is none.")
    return Place(url.scheme, spelled, port)


def _parse(pattern: Any) -> tuple[str, int | None]:
    match = _PATTERN.fullmatch(pattern) if isinstance(pattern, str) else None
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise InvalidConfig(
            f"{pattern!r} is not a host.", hint="Write api.example.com, *.example.org:8443 or [::1]:8443."
        )
    host = match["host"].lower().removesuffix(".")
    if host.startswith("["):
        host = addresses.literal(host[1:-1]) or ""
    elif not host.isascii():
        host = _in_ascii(host)
    if not host or addresses.is_odd_number(host.removeprefix("*.")):
        raise InvalidConfig(f"{pattern!r} is not a host.", hint="Write an address in its usual form.")
    return host, int(match["port"]) if match["port"] else None


def _in_ascii(host: str) -> str:
    """An international name as it travels."""
    import httpx

    star = "*." if host.startswith("*.") else ""
    try:
        return star + httpx.URL(f"http://{host.removeprefix('*.')}/").raw_host.decode("ascii")
    except httpx.InvalidURL:
        return ""


def _parents(host: str) -> list[str]:
    labels = host.split(".")
    return [".".join(labels[i:]) for i in range(len(labels))]
