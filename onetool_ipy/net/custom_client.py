"""Sends with a pack author's own `httpx.Client`: its headers, auth, cookies and transport, under our limits.

The client is sync and has its own connections, so the work is done in a worker thread that is abandoned past the limit.
Redirects are followed here, one by one, if the client or the call wants them followed. A header that holds a secret is
not sent to another host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from onetool_ipy.base.background import Workers
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, UsageProblem
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.net.body import ACCEPTED, BodyDecoder, HttpResponse
from onetool_ipy.net.client import HttpClient, Rules, headers_of
from onetool_ipy.net.errors import Mask, mask_httpx_logs, masked, timeout_error, translated
from onetool_ipy.net.hosts import Hosts

__all__ = ["guarded", "limit_of", "require_client", "send"]

_GRACE_S = 0.4
_ERROR_BYTES = 64 * 1024
_SENDING = ("auth", "follow_redirects")


def send(
    client: httpx.Client,
    method: str,
    url: str | httpx.URL,
    *,
    workers: Workers,
    mask: Mask,
    limit_s: float,
    max_bytes: int,
    **options: Any,
) -> HttpResponse:
    """Send and return the response, within the limits; of an error's body the first 64 KB. Raises a CallFailure.

    `options` are those of `httpx.Client.request`, without `timeout`.
    """
    mask_httpx_logs()
    until = time.monotonic() + limit_s
    work = _Sending(client, max_bytes, mask, until)
    place: object = "the server"
    fault: CallFailure
    try:
        request = client.build_request(method, url, timeout=limit_s, **_without(options, _SENDING))
        place = request.url.netloc.decode("ascii", "replace") or place
        reply: HttpResponse = workers.run(lambda: work.run(request, options), limit_s + _GRACE_S)
        return reply
    except CallFailure as exc:
        fault = masked(exc if exc.reason != "timeout" else timeout_error(place, limit_s), mask)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, RuntimeError) as exc:
        fault = translated(exc, place, limit_s, mask)
    raise fault


def limit_of(client: httpx.Client, timeout: Any, default_s: float) -> float:
    """Seconds for a whole request: those of the call, else the larger one of the client's and the default."""
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        return float(timeout)
    chosen = httpx.Timeout(timeout) if timeout is not None else client.timeout
    return max([default_s, *(part for part in chosen.as_dict().values() if part is not None)])


def require_client(client: object) -> None:
    """Raise UsageProblem for what is not a sync client of httpx."""
    if not isinstance(client, httpx.Client):
        raise UsageProblem(
            f"safe_request takes an httpx.Client, not a {type(client).__name__}.", hint="Make one: httpx.Client()"
        )


def guarded(
    client: httpx.Client, http_client: HttpClient, http: HttpSettings, allowed_hosts: Sequence[str] | None
) -> httpx.Client:
    """Return the client with the transport it may use.

    With `allowed_hosts` that is our HTTP client, which reaches these hosts only, at pinned addresses; without, the
    toolbox's own transport if it was opened with one, else the client's.
    """
    if allowed_hosts is not None:
        rules = Rules.of(http).replace(hosts=Hosts(allowed_hosts), tries=1, max_redirects=0)
        return _with_transport(client, _ClientTransport(http_client, rules))
    return client if http_client.transport is None else _with_transport(client, http_client.transport)


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


class _Sending:
    """One request in a worker thread."""

    def __init__(self, client: httpx.Client, max_bytes: int, mask: Mask, until: float) -> None:
        self._client = client
        self._max_bytes = max_bytes
        self._mask = mask
        self._until = until

    def run(self, request: httpx.Request, options: Mapping[str, Any]) -> HttpResponse:
        auth = options.get("auth", httpx.USE_CLIENT_DEFAULT)
        follow = options.get("follow_redirects", self._client.follow_redirects)
        _ask_for_known_encodings(request)
        for _ in range(self._client.max_redirects + 1):
            self._check_time()
            response = self._client.send(request, stream=True, auth=auth, follow_redirects=False)
            try:
                following = response.next_request if follow else None
                if following is None:
                    return self._read(response)
            finally:
                response.close()
            request, auth = self._moved(request, following), None
        raise ExecutionFailed(f"More than {self._client.max_redirects} redirects.")

    def _read(self, response: httpx.Response) -> HttpResponse:
        headers = headers_of(response)
        failed = response.status_code >= 400
        read = self._some if failed else self._all
        body = b"" if response.request.method == "HEAD" else read(response, headers)
        return HttpResponse(response.status_code, headers, body, str(response.url))

    def _all(self, response: httpx.Response, headers: Mapping[str, str]) -> bytes:
        intake = BodyDecoder(headers, self._max_bytes)
        body = b"".join(self._pieces(response, intake.feed))
        intake.finish()
        return body

    def _some(self, response: httpx.Response, headers: Mapping[str, str]) -> bytes:
        """Read the beginning of an error's body, as far as possible."""
        parts: list[bytes] = []
        with suppress(ExecutionFailed, httpx.TransportError):  # the status is what counts
            intake = BodyDecoder({**headers, "content-length": ""}, _ERROR_BYTES)
            for piece in self._pieces(response, intake.feed_some):
                parts.append(piece)
                if intake.is_full():
                    break
        return b"".join(parts)

    def _pieces(self, response: httpx.Response, feed: Callable[[bytes], bytes]) -> Iterator[bytes]:
        for chunk in response.stream:  # type: ignore[union-attr]  # a sync client's stream
            self._check_time()
            yield feed(chunk)

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise httpx.ReadTimeout("The time is up.")

    def _moved(self, before: httpx.Request, request: httpx.Request) -> httpx.Request:
        left_s = max(self._until - time.monotonic(), 0.01)
        request.extensions = {**request.extensions, "timeout": httpx.Timeout(left_s).as_dict()}
        if (before.url.scheme, before.url.host, before.url.port) != (
            request.url.scheme,
            request.url.host,
            request.url.port,
        ):
            for name, value in request.headers.multi_items():
                if self._mask(value) != value:
                    request.headers.pop(name, None)
        return request


class _ClientTransport(httpx.BaseTransport):
    """Sends with our client. The body of its responses is already decompressed."""

    def __init__(self, http_client: HttpClient, rules: Rules) -> None:
        self._http_client = http_client
        self._rules = rules

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._http_client.request(
            request.method, request.url, headers=request.headers.raw, content=request.read(), rules=self._rules
        )
        unpacked = ("content-encoding", "content-length", "transfer-encoding")
        headers = {name: value for name, value in reply.headers.items() if name not in unpacked}
        return httpx.Response(reply.status, headers=headers, content=reply.body)


def _ask_for_known_encodings(request: httpx.Request) -> None:
    wanted = {part.partition(";")[0].strip() for part in request.headers.get("accept-encoding", "").lower().split(",")}
    if wanted - {"gzip", "deflate", "identity", ""}:
        request.headers["accept-encoding"] = ACCEPTED


def _without(options: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
