"""Sends with a pack author's own `httpx.Client`: its headers, auth, cookies and transport, under
our limits.

The client is sync and has its own connections, so the work is done in a worker thread that is
abandoned past the limit. Redirects are followed here, one by one, if the client or the call wants
them followed. A header that holds a secret is not sent to another host.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import httpx

from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, UsageProblem
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.net.client import HttpClient, Rules, headers_of
from onetool_ipy.net.hosts import Hosts
from onetool_ipy.net.response import (
    ACCEPTED,
    BodyDecoder,
    HttpResponse,
    Mask,
    mask_httpx_logs,
    masking,
    timeout_error,
    translated,
)

_GRACE_S = 0.4
_ERROR_BYTES = 64 * 1024
_SENDING = ("auth", "follow_redirects")


def send(
    client: httpx.Client,
    method: str,
    url: str | httpx.URL,
    *,
    http_client: HttpClient,
    http: HttpSettings,
    workers: Workers,
    mask: Mask,
    timeout: Any = None,
    max_bytes: int | None = None,
    allowed_hosts: Sequence[str] | None = None,
    **options: Any,
) -> HttpResponse:
    """Send and return the response, within the limits; of an error's body the first 64 KB. Raises a
    CallFailure.

    With `allowed_hosts` the transport is that of our HTTP client, which reaches these hosts only,
    at pinned addresses; without, the toolbox's own transport if it was opened with one, else the
    client's. `options` are those of `httpx.Client.request`. Raises UsageProblem for what is not a
    sync client of httpx.
    """
    if not isinstance(client, httpx.Client):
        raise UsageProblem(
            f"safe_request takes an httpx.Client, not a {type(client).__name__}.",
            hint="Make one: httpx.Client()",
        )
    # Seconds for the whole request: those of the call, else the larger one of the client's and the
    # default.
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        limit_s = float(timeout)
    else:
        chosen = httpx.Timeout(timeout) if timeout is not None else client.timeout
        limit_s = max(
            [http.timeout_s, *(part for part in chosen.as_dict().values() if part is not None)]
        )
    if allowed_hosts is not None:
        rules = replace(Rules.of(http), hosts=Hosts(allowed_hosts))
        client = _with_transport(client, _GuardedTransport(http_client, rules))
    elif http_client.transport is not None:
        client = _with_transport(client, http_client.transport)
    mask_httpx_logs()
    until = time.monotonic() + limit_s
    place: object = "the server"
    with masking(mask):
        try:
            parts = {name: value for name, value in options.items() if name not in _SENDING}
            request = client.build_request(method, url, timeout=limit_s, **parts)
            place = request.url.netloc.decode("ascii", "replace") or place
            most = http.max_response_bytes if max_bytes is None else max_bytes
            work = partial(
                _follow, client, request, options, mask=mask, max_bytes=most, until=until
            )
            response: HttpResponse = workers.run(work, limit_s + _GRACE_S)
            return response
        except CallFailure as exc:
            raise exc if exc.reason != "timeout" else timeout_error(place, limit_s) from None
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            httpx.StreamError,
            OSError,
            ValueError,
            RuntimeError,
        ) as exc:
            raise translated(exc, place, limit_s, mask) from None


def _with_transport(client: httpx.Client, transport: httpx.BaseTransport) -> httpx.Client:
    """Return the same client with another transport."""
    return httpx.Client(
        transport=transport,
        trust_env=False,
        auth=client.auth,
        base_url=client.base_url,
        cookies=client.cookies,
        event_hooks=client.event_hooks,
        follow_redirects=client.follow_redirects,
        headers=client.headers,
        max_redirects=client.max_redirects,
        params=client.params,
        timeout=client.timeout,
    )


def _follow(
    client: httpx.Client,
    request: httpx.Request,
    options: Mapping[str, Any],
    *,
    mask: Mask,
    max_bytes: int,
    until: float,
) -> HttpResponse:
    """Send a request along its redirects, in a worker thread."""
    auth = options.get("auth", httpx.USE_CLIENT_DEFAULT)
    follow_redirects = options.get("follow_redirects", client.follow_redirects)
    accepted = request.headers.get("accept-encoding", "").lower().split(",")
    if {coding.partition(";")[0].strip() for coding in accepted} - {
        "gzip",
        "deflate",
        "identity",
        "",
    }:
        request.headers["accept-encoding"] = ACCEPTED
    for _ in range(client.max_redirects + 1):
        _require_time(until)
        with closing(
            client.send(request, stream=True, auth=auth, follow_redirects=False)
        ) as response:
            following = response.next_request if follow_redirects else None
            if following is None:
                headers, chunks = headers_of(response), []
                if response.request.method == "HEAD":
                    pass
                elif response.status_code < 400:
                    decoder = BodyDecoder(headers, max_bytes)
                    chunks = [decoder.feed(chunk) for chunk in _chunks(response, until)]
                    decoder.finish()
                else:
                    # Of an error the status counts: its body is read from the beginning, as far as
                    # possible.
                    with suppress(ExecutionFailed, httpx.TransportError):
                        decoder = BodyDecoder({**headers, "content-length": ""}, _ERROR_BYTES)
                        for chunk in _chunks(response, until):
                            chunks.append(decoder.feed_some(chunk))
                            if decoder.is_full():
                                break
                return HttpResponse(
                    status=response.status_code,
                    headers=headers,
                    body=b"".join(chunks),
                    url=str(response.url),
                )
        left_s = max(until - time.monotonic(), 0.01)
        following.extensions = {**following.extensions, "timeout": httpx.Timeout(left_s).as_dict()}
        if _origin(request.url) != _origin(following.url):
            for name, value in following.headers.multi_items():
                if mask(value) != value:
                    following.headers.pop(name, None)
        request, auth = following, None
    raise ExecutionFailed(f"More than {client.max_redirects} redirects.")


def _chunks(response: httpx.Response, until: float) -> Iterator[bytes]:
    for chunk in response.stream:  # type: ignore[union-attr]  # a sync client's stream
        _require_time(until)
        yield chunk


def _require_time(until: float) -> None:
    if time.monotonic() > until:
        raise httpx.ReadTimeout("The time is up.")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _GuardedTransport(httpx.BaseTransport):
    """Reaches the hosts that the rules allow, by the connections of our client."""

    def __init__(self, http_client: HttpClient, rules: Rules) -> None:
        self._http_client = http_client
        self._rules = rules

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._http_client.send_once(request, self._rules)
