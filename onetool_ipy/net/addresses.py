"""Which IP addresses are public, whatever form they come in. Pure, but for the look-up of a name.

An IPv6 address may hold an IPv4 one that a gateway or the kernel unwraps; then that one counts. `is_global` alone is
True for the NAT64 and 6to4 forms of 127.0.0.1.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable

from onetool_ipy.core.errors import HostNotAllowed

__all__ = ["Resolve", "is_odd_number", "is_public", "literal", "look_up", "require_public"]

Resolve = Callable[[str, int], Iterable[str]]
"""(name, port) -> its addresses; raises OSError where there are none."""

_MAPPED = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("::ffff:0:0:0/96"))
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_UNICAST = ipaddress.IPv6Network("2000::/3")
_PROTOCOLS = ipaddress.IPv4Network("192.0.0.0/24")
_ISATAP = (0x00005EFE, 0x02005EFE)
_LAST_LABEL = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)\.?", re.IGNORECASE)


def literal(host: str) -> str | None:
    """The address that a host is by itself, in its one spelling; None for a name."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def is_odd_number(host: str) -> bool:
    """Whether a host is an address in a spelling that only some programs read: `127.1`, `2130706433`, `0x7f.1`."""
    return literal(host) is None and _LAST_LABEL.fullmatch(host) is not None


def is_public(address: str) -> bool:
    """Whether an address is one of the open internet."""
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


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, by the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def require_public(host: str, addresses: Iterable[str], *, allow_private: bool) -> list[str]:
    """The addresses, each once, if every one may be connected to; one that may not spoils them all."""
    checked = list(dict.fromkeys(addresses))
    if not allow_private:
        for address in checked:
            if not is_public(address):
                place = f"The host '{host}' is at '{address}', which" if host != address else f"'{address}'"
                raise HostNotAllowed(
                    f"{place} is not a public address.",
                    hint="Name address and port in http.allowed_hosts, or set http.allow_private: true."
                    if literal(host) or host == "localhost"
                    else "Set http.allow_private: true to reach private networks.",
                )
    return checked


def _is_public_v4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _PROTOCOLS


def _v4(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)
