"""The HTTP client: sends requests by rules, sync or async, from any thread.

A sync caller sends in its own thread, an async caller on the toolbox's background loop; each side
has its own pools of pinned connections (`net.hosts`). One deadline covers everything, and Stop or a
cancellation ends a request at any point: in a look-up, a handshake, a slow header or a slow body.
What to send next, and whether a response counts, is decided by `_Exchange`, which does no I/O;
`request` and `arequest` only carry it out.

Requests go to httpx's transports and not through an `httpx.Client`: a client would keep cookies of
one tool for the next one, and log every URL with the secrets in it. With a transport of the
caller's own the network is not touched, and the rules still hold.

Only idempotent methods are retried. The wait doubles with each attempt and is spread by chance; a
Retry-After header takes its place. A wait that does not fit into the time left is not begun: the
response at hand is returned. A redirect to another origin gets only a few harmless headers and
never a body, since those may hold secrets for the first one.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Self, TypedDict, TypeVar, Unpack

import httpcore
import httpx

from onetool_ipy._version import __version__
from onetool_ipy.base import forks
from onetool_ipy.base.background import Background, DeadlineExceeded, Workers, outcome
from onetool_ipy.base.errors import (
    TRANSIENT_STATUSES,
    CallFailure,
    ExecutionFailed,
    HostNotAllowed,
    InvalidArgs,
)
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.core.tracing import (
    OPENTELEMETRY,
    Attributes,
    trace_headers,
    traced_request,
)
from onetool_ipy.net.hosts import (
    PORTS,
    AsyncPinnedTransport,
    Hosts,
    PinnedTransport,
    Resolve,
    UrlOrigin,
    limited,
    literal_address,
    look_up,
    origin_of,
    require_public,
)
from onetool_ipy.net.response import (
    ACCEPTED,
    BodyDecoder,
    ConnectionFailed,
    HttpResponse,
    LimitedBody,
    Mask,
    masking,
    timeout_error,
    translated,
)

IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))
_FIRST_WAIT_S = 0.4
_LONGEST_WAIT_S = 8.0
_LONGEST_DIGITS = 12
_CLOSE_S = 1.0
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_SHARED_HEADERS = frozenset(("accept", "accept-encoding", "accept-language", "user-agent"))
_BODY_HEADERS = frozenset(
    ("content-type", "content-length", "content-encoding", "transfer-encoding")
)
_DEFAULT_HEADERS = {
    "accept": "*/*",
    "accept-encoding": ACCEPTED,
    "user-agent": f"onetool-ipy/{__version__}",
}
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

Headers = Mapping[str, str] | Iterable[tuple[str | bytes, str | bytes]]

_T = TypeVar("_T")


class RequestParts(TypedDict, total=False):
    """What a request may have besides its method and URL."""

    headers: Headers | None
    params: Mapping[str, Any] | None
    content: bytes | str | None
    json: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of one request. With `hosts` None any host that is not private may be reached.

    `timeout_s` covers everything: look-up, connecting, redirects, retries and the body. `max_bytes`
    counts the body after decompression. `tries` includes the first one and holds for idempotent
    methods only. With `max_redirects` 0 a redirect is returned like any other response. `require`
    raises for an address that must not be sent to, also by a redirect.
    """

    hosts: Hosts | None = None
    allow_private: bool = False
    timeout_s: float = 10
    max_bytes: int = 5 * 1024 * 1024
    tries: int = 3
    max_redirects: int = 10
    require: Callable[[str], None] | None = None

    @classmethod
    def of(cls, http: HttpSettings, also: Iterable[str] = ()) -> Self:
        """The rules of the section `http` of the settings, which `also` allows more hosts."""
        return cls(
            hosts=Hosts([*http.allowed_hosts, *also]),
            allow_private=http.allow_private,
            timeout_s=http.timeout_s,
            max_bytes=http.max_response_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Sleep, chance and clock of retries; tests pass their own. `asleep` is for async callers."""

    sleep: Callable[[float], object] = time.sleep
    asleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)

    def wait_s(self, attempt: int, headers: Mapping[str, str] | None = None) -> float:
        """Seconds to wait after an attempt, counted from 1."""
        after = after_s((headers or {}).get("retry-after", ""), self.now())
        backoff = min(_FIRST_WAIT_S * 2.0 ** (attempt - 1), _LONGEST_WAIT_S)
        return after if after is not None else backoff * (0.5 + self.chance() / 2)


class HttpClient:
    """Sends requests. `transport` replaces the network; `resolve` and the two networks replace
    parts of it."""

    def __init__(
        self,
        background: Background,
        workers: Workers,
        *,
        mask: Mask = str,
        transport: Any = None,
        resolve: Resolve = look_up,
        network: httpcore.NetworkBackend | None = None,
        async_network: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.transport = transport
        self.mask = mask
        self._background = background
        self._workers = workers
        self._resolve = resolve
        self._network = network
        self._async_network = async_network
        self._tls = tls
        self._retry = retry or Retry()
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Forget the connections: a child may not use its parent's."""
        # The key has the scheme, since the settings of TLS take long to make, and whether private
        # addresses are allowed, since a connection to one must not serve a request that may not
        # reach it.
        self._transports: dict[tuple[str, bool], PinnedTransport] = {}
        self._async_transports: dict[
            tuple[asyncio.AbstractEventLoop, str, bool], AsyncPinnedTransport
        ] = {}

    def request(
        self, method: str, url: str | httpx.URL, *, rules: Rules, **parts: Unpack[RequestParts]
    ) -> HttpResponse:
        """Send, and return the whole response whatever its status. Raises a CallFailure if there is
        no response."""
        with masking(self.mask):
            exchange = _Exchange(new_request(method, url, **parts), rules, self._retry, self.mask)
            if self.transport is not None and not hasattr(self.transport, "handle_request"):
                with exchange.in_words():
                    response: HttpResponse = self._background.run(
                        lambda: self._carry_out(exchange), rules.timeout_s
                    )
                return response
            with limited(exchange.until, rules.max_bytes):
                while (answer := self._attempt(exchange)) is None:
                    if exchange.wait_s:
                        self._retry.sleep(exchange.wait_s)
                return answer

    async def arequest(
        self, method: str, url: str | httpx.URL, *, rules: Rules, **parts: Unpack[RequestParts]
    ) -> HttpResponse:
        """`request` without blocking the event loop."""
        with masking(self.mask):
            exchange = _Exchange(new_request(method, url, **parts), rules, self._retry, self.mask)
            if self._background.is_here():
                return await self._carry_out(exchange)
            running = self._background.submit(lambda: self._carry_out(exchange), rules.timeout_s)
            with exchange.in_words():
                response: HttpResponse = await self._background.wait(running, rules.timeout_s)
            return response

    @asynccontextmanager
    async def stream(
        self, method: str, url: str | httpx.URL, *, rules: Rules, **parts: Unpack[RequestParts]
    ) -> AsyncIterator[httpx.Response]:
        """Open a response to read as it arrives: `async with client.stream(...) as response`, on
        the background loop.

        The response is httpx's own, without a `content-encoding`: its body is decompressed and its
        size limited here. There is one attempt, since a part may have been read, and no redirect.
        The caller holds the deadline; leaving the block closes the connection.
        """
        with masking(self.mask):
            exchange = _Exchange(new_request(method, url, **parts), rules, self._retry, self.mask)
            try:
                # Not `exchange.admit()`: the time of the rules is for whole requests, and a model
                # may think longer.
                transport = self._async_transport(*admitted(exchange.request.url, rules))
                # The span of a request to a model is its caller's.
                exchange.add_trace_headers()
                answer = await transport.handle_async_request(exchange.request)
            except Exception as exc:  # noqa: BLE001 - httpx's, or of a transport of the caller's own
                raise exchange.failure(exc) from None
        try:
            decoder = BodyDecoder(headers_of(answer), rules.max_bytes)
            body = LimitedBody(answer.stream, decoder, exchange.failure)  # type: ignore[arg-type]  # an async stream
            plain = [pair for pair in answer.headers.multi_items() if pair[0] != "content-encoding"]
            yield httpx.Response(
                answer.status_code, headers=plain, stream=body, request=exchange.request
            )
        finally:
            await answer.aclose()

    def send_once(self, request: httpx.Request, rules: Rules) -> httpx.Response:
        """Send a request of a client of httpx's as it is, to a host and an address that the rules
        allow."""
        return self._transport(*admitted(request.url, rules)).handle_request(request)

    def close(self) -> None:
        """Close the connections; may be called twice. A later request opens new ones."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            transport.close()
        async_transports, self._async_transports = self._async_transports, {}
        for (loop, *_), async_transport in async_transports.items():
            # What a busy loop does not close in time ends with the process.
            if loop.is_running():
                with suppress(DeadlineExceeded):
                    self._background.run(async_transport.aclose, _CLOSE_S)

    def _attempt(self, exchange: _Exchange) -> HttpResponse | None:
        """Send the next request of an exchange. Returns None if there is another one to send."""
        try:
            place = exchange.admit()
            with exchange.traced() as ended, closing(self._send(exchange, place)) as response:
                ended["http.response.status_code"] = response.status_code
                if exchange.goes_on(response):
                    return None
                decoder = exchange.decoder()
                body = b"".join([decoder.feed(chunk) for chunk in response.stream])  # type: ignore[union-attr]
                decoder.finish()
        except Exception as exc:  # noqa: BLE001 - httpx's, or of a transport of the caller's own
            exchange.try_again_after(exc)
            return None
        return exchange.response(response.status_code, body)

    def _send(self, exchange: _Exchange, place: tuple[UrlOrigin, bool]) -> httpx.Response:
        transport = self._transport(*place)
        if transport is not self.transport:
            return transport.handle_request(exchange.request)
        # A transport of the caller's own knows no deadline, so it runs in a worker that is left
        # behind then.
        task = self._workers.submit(lambda: transport.handle_request(exchange.request))
        response: httpx.Response = outcome(task.future, exchange.left_s())
        return response

    async def _carry_out(self, exchange: _Exchange) -> HttpResponse:
        """Send the requests of an exchange on the background loop."""
        with masking(self.mask), limited(exchange.until, exchange.max_bytes):
            try:
                async with asyncio.timeout(exchange.left_s()):
                    while (answer := await self._async_attempt(exchange)) is None:
                        if exchange.wait_s:
                            await self._retry.asleep(exchange.wait_s)
                    return answer
            except TimeoutError as exc:
                raise exchange.failure(exc) from None

    async def _async_attempt(self, exchange: _Exchange) -> HttpResponse | None:
        """`_attempt` without blocking the event loop."""
        try:
            transport = self._async_transport(*exchange.admit())
            with exchange.traced() as ended:
                response = await transport.handle_async_request(exchange.request)
                ended["http.response.status_code"] = response.status_code
                try:
                    if exchange.goes_on(response):
                        return None
                    decoder = exchange.decoder()
                    body = b"".join([decoder.feed(chunk) async for chunk in response.stream])  # type: ignore[union-attr]
                    decoder.finish()
                finally:
                    await response.aclose()
        except Exception as exc:  # noqa: BLE001 - httpx's, or of a transport of the caller's own
            exchange.try_again_after(exc)
            return None
        return exchange.response(response.status_code, body)

    def _transport(self, origin: UrlOrigin, allow_private: bool) -> httpx.BaseTransport:
        if self.transport is not None:
            own: httpx.BaseTransport = self.transport
            return own
        key = (origin.scheme, allow_private)
        if key not in self._transports:
            tls = self._tls_for(origin)
            pinned = PinnedTransport(
                self._look_up, allow_private=allow_private, tls=tls, network=self._network
            )
            self._transports.setdefault(key, pinned)
        return self._transports[key]

    def _async_transport(self, origin: UrlOrigin, allow_private: bool) -> httpx.AsyncBaseTransport:
        if self.transport is not None:
            is_async = hasattr(self.transport, "handle_async_request")
            return self.transport if is_async else _InWorker(self.transport, self._in_worker)
        key = (asyncio.get_running_loop(), origin.scheme, allow_private)
        if key not in self._async_transports:
            self._async_transports = {
                k: t for k, t in self._async_transports.items() if not k[0].is_closed()
            }
            self._async_transports[key] = AsyncPinnedTransport(
                self._async_look_up,
                allow_private=allow_private,
                tls=self._tls_for(origin),
                network=self._async_network,
            )
        return self._async_transports[key]

    def _tls_for(self, origin: UrlOrigin) -> ssl.SSLContext | None:
        if origin.scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        return self._tls

    def _look_up(self, host: str, port: int, limit_s: float) -> list[str]:
        """Look a name up in a worker: the system's resolver cannot be interrupted."""
        task = self._workers.submit(lambda: list(self._resolve(host, port)))
        addresses: list[str] = outcome(task.future, limit_s)
        return addresses

    async def _async_look_up(self, host: str, port: int) -> list[str]:
        return await self._in_worker(lambda: list(self._resolve(host, port)))

    async def _in_worker(self, work: Callable[[], _T]) -> _T:
        """Await blocking work in a worker. If the wait ends first, the work is left to finish by
        itself."""
        value: _T = await asyncio.wrap_future(self._workers.submit(work).future)
        return value


class _InWorker(httpx.AsyncBaseTransport):
    """Serves async callers with a sync transport of the caller's own. The body is read whole."""

    def __init__(
        self,
        transport: httpx.BaseTransport,
        in_worker: Callable[[Callable[[], httpx.Response]], Awaitable[httpx.Response]],
    ) -> None:
        self._transport = transport
        self._in_worker = in_worker

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        def send() -> httpx.Response:
            with closing(self._transport.handle_request(request)) as response:
                body = b"".join(response.stream)  # type: ignore[arg-type]  # a sync transport's stream
            return httpx.Response(
                response.status_code, headers=response.headers, stream=httpx.ByteStream(body)
            )

        return await self._in_worker(send)


class _Exchange:
    """A request with its redirects and retries: what to send next, and whether a response counts.
    Does no I/O."""

    def __init__(self, request: httpx.Request, rules: Rules, retry: Retry, mask: Mask) -> None:
        self.request = request
        self.until = time.monotonic() + rules.timeout_s
        self.max_bytes = rules.max_bytes
        self.wait_s = 0.0
        self._first = request
        self._is_traced = not {"traceparent", "tracestate"} & request.headers.keys()
        self._rules = rules
        self._retry = retry
        self._mask = mask
        self._place = request.url.netloc.decode("ascii", "replace")
        self._headers: Mapping[str, str] = {}
        self._tries = rules.tries if request.method in IDEMPOTENT else 1
        self._attempt = 1
        self._hops = 0

    def left_s(self) -> float:
        """Seconds until the deadline."""
        return max(self.until - time.monotonic(), 0)

    def admit(self) -> tuple[UrlOrigin, bool]:
        """`admitted` for the next request: every hop is checked before its host is looked up or
        anything is sent."""
        origin, allow_private = admitted(self.request.url, self._rules)
        self._place = str(origin)
        self.request.extensions["timeout"] = httpx.Timeout(self.left_s()).as_dict()
        return origin, allow_private

    @contextmanager
    def traced(self) -> Iterator[Attributes]:
        """Be the client span of the next request, which carries its id."""
        if OPENTELEMETRY not in sys.modules:
            yield {}
            return
        url = self.request.url
        with traced_request(self.request.method, url.host, url.port or PORTS[url.scheme]) as ended:
            self.add_trace_headers()
            yield ended

    def add_trace_headers(self) -> None:
        """Add `traceparent`, unless the caller has one of their own."""
        if self._is_traced:
            self.request.headers.update(trace_headers())

    def goes_on(self, response: httpx.Response) -> bool:
        """Whether there is another request to send after a response: along a redirect, or again
        after `wait_s`."""
        self._headers = headers_of(response)
        following = (
            redirected(self.request, response.status_code, self._headers)
            if self._rules.max_redirects
            else None
        )
        if following is not None:
            self._hops += 1
            if self._hops > self._rules.max_redirects:
                raise ExecutionFailed(
                    f"More than {self._rules.max_redirects} redirects, the last one from"
                    f" '{self._place}'."
                )
            self.request, self.wait_s = following, 0.0
            return True
        return response.status_code in TRANSIENT_STATUSES and self._tries_again(self._headers)

    def try_again_after(self, exc: Exception) -> None:
        """Prepare another attempt after a broken connection. Raises our failure if there is
        none."""
        failure = self.failure(exc)
        if not isinstance(failure, ConnectionFailed):
            raise failure from None
        if not self._tries_again({}):
            failure.details = {"attempts": self._attempt}
            raise failure from None

    @contextmanager
    def in_words(self) -> Iterator[None]:
        """Name the host where the loop was too busy to see that the time is over."""
        try:
            yield
        except DeadlineExceeded:
            raise timeout_error(self._place, self._rules.timeout_s) from None

    def failure(self, exc: Exception) -> CallFailure:
        """Translate a foreign exception into one of ours."""
        return translated(exc, self._place, self._rules.timeout_s, self._mask)

    def decoder(self) -> BodyDecoder:
        """What reads the body of the response that counts. The headers of a HEAD describe a body
        that is not sent."""
        return BodyDecoder(
            {} if self.request.method == "HEAD" else self._headers, self._rules.max_bytes
        )

    def response(self, status: int, body: bytes) -> HttpResponse:
        """The whole response."""
        url = str(self.request.url)
        return HttpResponse(
            status=status, headers=self._headers, body=body, url=url, attempts=self._attempt
        )

    def _tries_again(self, headers: Mapping[str, str]) -> bool:
        """Go back to the first request, if an attempt is left and the wait before it fits into the
        time left."""
        if self._attempt >= self._tries:
            return False
        wait_s = self._retry.wait_s(self._attempt, headers)
        if wait_s >= self.left_s():
            return False
        self._attempt += 1
        self._hops = 0
        self.request, self.wait_s = self._first, wait_s
        return True


def new_request(method: str, url: str | httpx.URL, **parts: Unpack[RequestParts]) -> httpx.Request:
    """Make a request of plain values; raises InvalidArgs or ExecutionFailed if they cannot be
    sent."""
    method = method.upper()
    if not _METHOD.fullmatch(method):
        raise InvalidArgs("The method of a request is a word such as GET.")
    headers, pairs = parts.get("headers"), list[tuple[bytes, bytes]]()
    for name, value in headers.items() if isinstance(headers, Mapping) else headers or ():
        try:
            key = name if isinstance(name, bytes) else name.encode("ascii")
            text = value if isinstance(value, bytes) else value.encode("latin-1")
        except (UnicodeEncodeError, AttributeError):
            raise InvalidArgs("A header's value is text of Latin-1 characters.") from None
        if not _HEADER_NAME.fullmatch(key) or _CONTROL.search(text):
            raise InvalidArgs("A header's name or value has characters that no header may have.")
        pairs.append((key, text))
    try:
        target = httpx.URL(url)
        if params := parts.get("params"):
            target = target.copy_merge_params(params)
        content, json = parts.get("content"), parts.get("json")
        request = httpx.Request(method, target, headers=pairs, content=content, json=json)
    except httpx.InvalidURL as exc:
        raise ExecutionFailed(f"The URL is not valid: {exc}") from None
    except (TypeError, ValueError) as exc:
        raise InvalidArgs(f"The request cannot be written: {exc}") from None
    for default, preset in _DEFAULT_HEADERS.items():
        request.headers.setdefault(default, preset)
    return request


def admitted(url: httpx.URL, rules: Rules) -> tuple[UrlOrigin, bool]:
    """Return the origin of a URL, and whether its address may be private; raises HostNotAllowed.

    An address in the URL itself is checked here. Those of a name are checked when a connection is
    made.
    """
    origin = origin_of(url)
    if rules.require is not None:
        rules.require(str(url))
    if rules.hosts is not None:
        rules.hosts.require(origin)
    allow_private = rules.allow_private or (
        rules.hosts is not None and rules.hosts.allow_private(origin)
    )
    if not allow_private and (address := literal_address(origin.host)) is not None:
        require_public(origin.host, [address], allow_private=False)
    return origin, allow_private


def redirected(
    request: httpx.Request, status: int, headers: Mapping[str, str]
) -> httpx.Request | None:
    """Return the request that a redirect asks for, or None if the response is not a redirect."""
    location = headers.get("location", "")
    if status not in _REDIRECTS or not location:
        return None
    try:
        target = request.url.join(location).copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError):
        raise ExecutionFailed("The response redirects to something that is not a URL.") from None
    here, there = origin_of(request.url), origin_of(target)
    is_same = here == there or here.upgrades_to(there)
    turns_get = (status == 303 and request.method != "HEAD") or (
        status in (301, 302) and request.method == "POST"
    )
    body = b"" if turns_get else request.content
    if body and not is_same:
        raise HostNotAllowed(
            f"'{here}' redirects to '{there}', which would hand the request's body to another host."
        )
    dropped = {"host", *(() if body else _BODY_HEADERS)}
    pairs = [
        (n, v)
        for n, v in request.headers.multi_items()
        if n not in dropped and (is_same or n in _SHARED_HEADERS)
    ]
    return httpx.Request(
        "GET" if turns_get else request.method, target, headers=pairs, content=body or None
    )


def headers_of(response: httpx.Response) -> dict[str, str]:
    """The headers of a response, names in lower case, repeated ones joined."""
    return {name.lower(): value for name, value in response.headers.items()}


def after_s(text: str, now: datetime.datetime) -> float | None:
    """Seconds until the moment that a Retry-After header names, or None."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _LONGEST_DIGITS else float("inf")
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())
