"""HTTP for pack authors: clients made when first needed, headers that carry a secret, and
`safe_request`.

`safe_request` sends one request with a pack author's own client and returns how it went instead of
raising. Limits, redirects and masking are the work of `net.custom_client`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from http.client import responses
from typing import TYPE_CHECKING, Any, TypeVar

from onetool_ipy.base.errors import CallFailure
from onetool_ipy.core import current
from onetool_ipy.sdk.tools import get_secret

if TYPE_CHECKING:
    import httpx


_T = TypeVar("_T")
_MAX_BODY = 200
_MAX_READ = 70_000


def api_headers(
    secret_name: str, *, header_name: str = "Authorization", prefix: str = "Bearer "
) -> dict[str, str]:
    """The header that authenticates with a secret; empty if there is no such secret."""
    secret = get_secret(secret_name)
    return {} if secret is None else {header_name: f"{prefix}{secret}"}


def lazy_client(
    factory: Callable[[], _T], *, secret_name: str | None = None
) -> Callable[[], _T | None]:
    """A function that makes the client once, at its first call, whichever thread is first.

    Where `secret_name` names a secret that is not there, it gives None and makes nothing; once the
    secret has another value, a new client is made. After a factory that raised, the next call tries
    again.
    """
    # A factory that asks for its own client fails; with a plain lock it would wait for ever.
    making = threading.RLock()
    clients: list[tuple[str | None, _T]] = []

    def get() -> _T | None:
        secret = None
        if secret_name is not None and (secret := get_secret(secret_name)) is None:
            return None
        if not clients or clients[0][0] != secret:
            with making:
                if not clients or clients[0][0] != secret:
                    clients[:] = [(secret, factory())]
                return clients[0][1]
        return clients[0][1]

    return get


def safe_request(
    client: httpx.Client,
    method: str,
    url: str,
    *,
    timeout: object = None,
    max_bytes: int | None = None,
    allowed_hosts: Sequence[str] | None = None,
    **options: object,
) -> tuple[bool, Any]:
    """Send a request and give `(True, data)`, or `(False, what went wrong)`.

    `data` is the parsed JSON where the response says that it is JSON, else text. A status of 400 or
    more gives `HTTP error (404): ...` with the first 200 characters of the body; anything else that
    goes wrong gives `Request failed: ...`. No secret stands in either.

    Args:
        client: Its headers, auth, cookies, base URL, transport and redirect setting hold.
        method: `GET`, `POST`, ...
        url: Absolute, or relative to the client's base URL.
        timeout: Seconds for all of it; by default `http.timeout_s`, or the client's own where that
            is longer.
        max_bytes: The largest body taken, unpacked; by default `http.max_response_bytes`.
        allowed_hosts: Reach only these, at public addresses (unless `http.allow_private`, or an
            address with its port is named); by default any host.
        options: As for `httpx.Client.request`: params, json, data, content, headers,
            follow_redirects, ...
    """
    from onetool_ipy.net.custom_client import send  # late: it loads httpx

    box = current.require()
    try:
        reply = send(
            client,
            method,
            url,
            http_client=box.http_client,
            http=box.config.settings.http,
            workers=box.workers,
            mask=box.mask,
            timeout=timeout,
            max_bytes=max_bytes,
            allowed_hosts=allowed_hosts,
            **options,
        )
        problem = None
        if reply.status >= 400:
            problem = reply.text or responses.get(reply.status, "")
        elif 300 <= reply.status < 400 and "location" in reply.headers:
            problem = "it redirects, and redirects are not followed; pass follow_redirects=True"
        if problem is not None:
            text = box.mask(problem[:_MAX_READ])
            text = text if len(text) <= _MAX_BODY else text[:_MAX_BODY] + "..."
            return False, f"HTTP error ({reply.status}): {text}"
        return True, reply.json() if reply.is_json and reply.body else reply.text
    except CallFailure as exc:
        return False, f"Request failed: {exc.message}"
