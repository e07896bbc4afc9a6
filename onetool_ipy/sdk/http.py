"""`safe_request`: one HTTP request with a pack author's own client, that tells how it went and never raises for it.

The words of its failures are made here; limits, redirects and masking are the work of `net.borrowed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from onetool_ipy.core import current
from onetool_ipy.core.errors import CallFailure, UsageProblem

if TYPE_CHECKING:
    import httpx

    from onetool_ipy.net.reply import Reply

__all__ = ["safe_request"]

_MAX_BODY = 200
_MAX_READ = 70_000


def safe_request(
    client: httpx.Client,
    method: str,
    url: str,
    *,
    timeout: Any = None,
    max_bytes: int | None = None,
    allowed_hosts: Sequence[str] | None = None,
    **options: Any,
) -> tuple[bool, Any]:
    """Send a request and give `(True, data)`, or `(False, what went wrong)`.

    `data` is the parsed JSON where the response says that it is JSON, else text. A status of 400 or more gives
    `HTTP error (404): ...` with the first 200 characters of the body; anything else that goes wrong gives
    `Request failed: ...`. No secret stands in either.

    Args:
        client: Its headers, auth, cookies, base URL, transport and redirect setting hold.
        method: `GET`, `POST`, ...
        url: Absolute, or relative to the client's base URL.
        timeout: Seconds for all of it; by default `http.timeout_s`, or the client's own where that is longer.
        max_bytes: The largest body taken, unpacked; by default `http.max_response_bytes`.
        allowed_hosts: Reach only these, at public addresses (unless `http.allow_private`, or an address with its port
            is named); by default any host.
        options: As for `httpx.Client.request`: params, json, data, content, headers, follow_redirects, ...
    """
    import httpx

    from onetool_ipy.net import borrowed

    if not isinstance(client, httpx.Client):
        raise UsageProblem(
            f"safe_request takes an httpx.Client, not a {type(client).__name__}.", hint="Make one: httpx.Client()"
        )
    box = current.require()
    http = box.config.settings.http
    try:
        reply = borrowed.send(
            _guarded(client, box, allowed_hosts),
            method,
            url,
            workers=box.workers,
            mask=box.mask,
            limit_s=borrowed.limit_of(client, timeout, http.timeout_s),
            max_bytes=http.max_response_bytes if max_bytes is None else max_bytes,
            **options,
        )
        problem = _problem(reply)
        if problem is not None:
            return False, f"HTTP error ({reply.status}): {_cut(box.mask(problem[:_MAX_READ]))}"
        return True, reply.json() if reply.is_json and reply.body else reply.text
    except CallFailure as exc:
        return False, f"Request failed: {exc.message}"


def _guarded(client: httpx.Client, box: Any, allowed_hosts: Sequence[str] | None) -> httpx.Client:
    """The client itself; over the road where hosts are limited, over the tests' transport where there is one."""
    from onetool_ipy.net import Hosts, Rules, borrowed

    road = getattr(box, "road", None)
    if allowed_hosts is not None:
        rules = Rules.of(box.config.settings.http).replace(hosts=Hosts(allowed_hosts))
        return borrowed.with_transport(client, borrowed.through_road(box.road, rules))
    if road is not None and road.transport is not None:
        return borrowed.with_transport(client, road.transport)
    return client


def _problem(reply: Reply) -> str | None:
    """What to say of a reply that is none to work with."""
    if reply.status >= 400:
        return reply.text or _phrase(reply.status)
    if 300 <= reply.status < 400 and "location" in reply.headers:
        return "it redirects, and redirects are not followed; pass follow_redirects=True"
    return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_BODY else text[:_MAX_BODY] + "..."
