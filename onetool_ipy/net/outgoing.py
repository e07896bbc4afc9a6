"""Requests on their way out: made from plain values, and made anew for a redirect. Pure.

A redirect to another place gets none of the caller's headers but a harmless few, and never a body: they may hold
secrets that were meant for the first place only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from onetool_ipy._version import __version__
from onetool_ipy.core.errors import ExecutionFailed, HostNotAllowed, InvalidArgs
from onetool_ipy.net.body import ACCEPTED
from onetool_ipy.net.hosts import Place, place_of
from onetool_ipy.net.rules import Rules

__all__ = ["Headers", "headers_of", "new_request", "redirected", "require_allowed"]

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_KEPT = frozenset(("accept", "accept-encoding", "accept-language", "user-agent"))
_OF_THE_BODY = ("content-type", "content-length", "content-encoding", "transfer-encoding")
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def new_request(
    method: str,
    url: str | httpx.URL,
    *,
    headers: Headers | None = None,
    params: Mapping[str, Any] | None = None,
    content: bytes | str | None = None,
    json: Any = None,
) -> httpx.Request:
    """A request as plain values tell it; raises InvalidArgs or ExecutionFailed for what is none."""
    method = method.upper()
    if not _METHOD.fullmatch(method):
        raise InvalidArgs("The method of a request is a word such as GET.")
    given = _checked(headers)
    try:
        target = httpx.URL(url)
        if params:
            target = target.copy_merge_params(params)
        request = httpx.Request(method, target, headers=given, content=content, json=json)
    except httpx.InvalidURL as exc:
        raise ExecutionFailed(f"The URL is not valid: {exc}") from None
    except (TypeError, ValueError) as exc:
        raise InvalidArgs(f"The request cannot be written: {exc}") from None
    for name, value in _DEFAULTS.items():
        request.headers.setdefault(name, value)
    return request


def require_allowed(request: httpx.Request, rules: Rules) -> Place:
    """Where a request leads, if the rules let it; an address in the URL itself is checked here already."""
    from onetool_ipy.net import addresses

    place = place_of(request.url)
    if rules.hosts is not None:
        rules.hosts.require(place)
    if (address := addresses.literal(place.host)) is not None:
        addresses.require_public(place.host, [address], allow_private=rules.may_be_private(place))
    return place


def redirected(request: httpx.Request, status: int, headers: Mapping[str, str]) -> httpx.Request | None:
    """The request that a redirect asks for, or None where the response is none."""
    location = headers.get("location", "")
    if status not in _REDIRECTS or not location:
        return None
    try:
        target = request.url.join(location).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        raise ExecutionFailed("The response redirects to something that is no URL.") from None
    here, there = place_of(request.url), place_of(target)
    is_same = here == there or here.upgrades_to(there)
    turns_get = (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST")
    method = "GET" if turns_get else request.method
    body = b"" if turns_get else request.content
    if body and not is_same:
        raise HostNotAllowed(f"'{here}' redirects to '{there}', which would hand the request's body to another host.")
    kept = [(n, v) for n, v in request.headers.multi_items() if n != "host" and (is_same or n in _KEPT)]
    if not body:
        kept = [(n, v) for n, v in kept if n not in _OF_THE_BODY]
    return httpx.Request(method, target, headers=kept, content=body or None)


def headers_of(response: httpx.Response) -> dict[str, str]:
    """The headers of a response, names in lower case, repeated ones joined."""
    return {name.lower(): value for name, value in response.headers.items()}


def _checked(headers: Headers | None) -> list[tuple[bytes, bytes]]:
    items = headers.items() if isinstance(headers, Mapping) else headers or ()
    out: list[tuple[bytes, bytes]] = []
    for name, value in items:
        try:
            pair = (_bytes(name, "ascii"), _bytes(value, "latin-1"))
        except (UnicodeEncodeError, AttributeError):
            raise InvalidArgs("A header's value is text of Latin-1 characters.") from None
        if not _NAME.fullmatch(pair[0]) or _CONTROL.search(pair[1]):
            raise InvalidArgs("A header's name or value has characters that no header may have.")
        out.append(pair)
    return out


def _bytes(text: str | bytes, encoding: str) -> bytes:
    return text if isinstance(text, bytes) else text.encode(encoding)


_DEFAULTS = {
    "accept": "*/*",
    "accept-encoding": ACCEPTED,
    "user-agent": f"onetool-ipy/{__version__}",
}
