"""Addresses and base URLs: whether an address lies below a base URL, and its path there. Pure.

Two addresses are the same if scheme, host, port, path and query are. The case of scheme and host, a
default port, a dot behind the host, an international name in its ASCII form, the spelling of an
IPv6 address and an IPv4 address written as one make no difference. Paths are compared segment by
segment, with `.` and `..` followed and letters, digits and `-._~` not percent-encoded:
`https://a/v10` is not below `https://a/v1`. Names are not looked up, so `localhost` is not
`127.0.0.1`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import NamedTuple

URL = re.compile(r"https?://(?P<host>[^/?#]*)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
PLACE = re.compile(r"(?P<name>\[[^\[\]]*\]|[^\[\]:]+)(?::(?P<port>[0-9]*))?")
INSIDE = re.compile(r"\$\{[^{}]*\}")
_HELD = re.compile(r"\x00([0-9]+)\x00")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class _Address(NamedTuple):
    """An address: its segments as written, but for `.` and `..`. `query` begins with `?`, or is
    empty."""

    origin: str
    segments: tuple[str, ...]
    query: str


def is_relative(url: str) -> bool:
    """Whether an address is relative to the base URL of its bundle: `/path`, or `?query` for the
    base URL itself."""
    return url.startswith(("/", "?")) and not url.startswith("//")


def joined(base_url: str, url: str) -> str:
    """The whole address of a tool: `url` itself, or behind the base URL if it is relative."""
    return base_url.rstrip("/") + url if is_relative(url) else url


def origin(url: str) -> str:
    """Scheme, host and port of a URL, with the default port written out; empty for a relative
    URL."""
    match = URL.fullmatch(url)
    if match is None:
        return ""
    scheme, host = url.partition(":")[0].lower(), match["host"].lower()
    place = PLACE.fullmatch(host)
    name, port = (place["name"], place["port"]) if place is not None else (host, "")
    number = int(port[:9]) if port else 443 if scheme == "https" else 80
    return f"{scheme}://{_host(name)}:{number}"


def below(url: str, base_url: str) -> str | None:
    """The path of an address below a base URL, as a tool stores it; None if it is not below it.

    `joined(base_url, path)` is the same address.
    """
    address, base = _parsed(url), _parsed(base_url)
    if address is None or base is None or base.query or address.origin != base.origin:
        return None
    # A base URL that ends in `/` means the same as one that does not.
    lead = base.segments[:-1] if base.segments[-1:] == ("",) else base.segments
    if [*map(_plain, address.segments[: len(lead)])] != [*map(_plain, lead)]:
        return None
    path = "".join(f"/{segment}" for segment in address.segments[len(lead) :])
    if not path and not lead:
        path = "/"
    return path + (address.query or ("" if path else "?"))


def is_doubled(path: str, base_url: str) -> bool:
    """Whether a path already begins with the path of a base URL: `/v1/orders` behind
    `https://a/v1`."""
    base = _parsed(base_url)
    has_path = base is not None and any(base.segments)
    return has_path and below(origin(base_url) + path, base_url) is not None


def owner(url: str, base_urls: Mapping[str, str]) -> str | None:
    """The name of the base URL that an address lies below. Of several the longest counts, of equal
    ones the first."""
    lengths = {}
    for name, base_url in base_urls.items():
        base = _parsed(base_url)
        if base is not None and below(url, base_url) is not None:
            lengths[name] = len([segment for segment in base.segments if segment])
    return max(lengths, key=lambda name: lengths[name], default=None)


def _parsed(url: str) -> _Address | None:
    match = URL.fullmatch(url)
    if match is None:
        return None
    # A `${name}` may hold any sign. No URL holds a NUL, so a number between two of them stands for
    # it.
    held = INSIDE.findall(match["rest"])
    numbers = iter(range(len(held)))
    rest = INSIDE.sub(lambda _: f"\0{next(numbers)}\0", match["rest"])
    path, mark, query = rest.partition("?")

    def restored(text: str) -> str:
        return _HELD.sub(lambda found: held[int(found[1])], text)

    segments = tuple(map(restored, _followed(path.split("/")[1:])))
    return _Address(origin(url), segments, restored(mark + query))


def _plain(segment: str) -> str:
    """A segment to compare: RFC 3986 says that these characters mean the same with and without
    encoding."""

    def decoded(found: re.Match[str]) -> str:
        char = chr(int(found[1], 16))
        return char if char in _UNRESERVED else found[0].upper()

    return _ENCODED.sub(decoded, segment)


def _followed(segments: list[str]) -> list[str]:
    """The segments of a path with `.` and `..` followed, as a client sends them."""
    out: list[str] = []
    for number, segment in enumerate(segments, start=1):
        dots = _plain(segment)
        if dots == "..":
            out = out[:-1]
        elif dots != ".":
            out.append(segment)
        if dots in (".", "..") and number == len(segments):
            out.append("")
    return out


def _host(name: str) -> str:
    if name.startswith("["):
        try:
            address = IPv6Address(name[1:-1])
        except ValueError:
            return name
        # A connection to `::ffff:10.0.0.1` is one to 10.0.0.1.
        return f"[{address}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)
    if not name.isascii():
        import httpx

        try:
            name = httpx.URL(f"http://{name}/").raw_host.decode("ascii")
        except httpx.InvalidURL:
            return name
    return name.removesuffix(".")
