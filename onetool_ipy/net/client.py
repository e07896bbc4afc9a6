"""The HTTP client: sends requests by rules, sync or async, from any thread.

One deadline, Stop and cancelling end a request at any point: in a look-up, a handshake, a slow header or a slow body.
An async caller is served on the toolbox's background loop, a sync caller in its own thread. The coroutines here are the
same for both, and each side shares a small pool of connections. With a transport of the tests the network is not
touched, and the rules still hold.

`BlockingTransport` serves sync callers. It has the methods of an async transport; they block, so `run_blocking` runs a
coroutine that awaits nothing else without an event loop. A thread waits a little at a time and then runs Python code,
where Stop and `Abandoned` reach it. There is no lock: an interrupt between any two lines leaves at most an unused
connection. httpcore hands our stream the times of a request and does not look at them, so they are the moment of its
deadline.

Only idempotent methods are retried. The wait doubles with each attempt and is spread by chance; a Retry-After header
takes its place. A wait that does not fit into the time left is not begun: the response at hand is returned. A redirect
to another origin gets only a few harmless headers and never a body, since those may hold secrets for the first one.
"""

from __future__ import annotations

import asyncio
import datetime
import math
import os
import random
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import httpcore
import httpx

from onetool_ipy._version import __version__
from onetool_ipy.base.background import SIGNAL_CHECK_S, Background, Workers, outcome
from onetool_ipy.base.errors import TRANSIENT_STATUSES, CallFailure, ExecutionFailed, HostNotAllowed, InvalidArgs
from onetool_ipy.base.records import Value
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.net.body import ACCEPTED, BodyDecoder, HttpResponse, LimitedBody
from onetool_ipy.net.errors import ConnectionFailed, Mask, masked, timeout_error, translated
from onetool_ipy.net.hosts import (
    IDLE_S,
    MAX_CONNECTIONS,
    Dial,
    Hosts,
    Origin,
    PinnedTransport,
    Resolve,
    connect_pinned,
    core_request,
    literal_address,
    look_up,
    origin_of,
    require_public,
    tls_context,
)

__all__ = [
    "IDEMPOTENT",
    "BlockingLookUp",
    "BlockingTransport",
    "Headers",
    "HttpClient",
    "Retry",
    "Rules",
    "ThreadedTransport",
    "after_s",
    "headers_of",
    "new_request",
    "redirected",
    "require_allowed",
    "run_blocking",
    "sleep_blocking",
]

BlockingLookUp = Callable[[str, int, float], Iterable[str]]
"""(name, port, seconds) -> its addresses; raises OSError if there are none."""


class Rules(Value):
    """The limits of one request. With `hosts` None any host that is not private may be reached.

    `timeout_s` covers everything: look-up, connecting, redirects, retries and the body. `max_bytes` counts the body
    after decompression. `tries` includes the first one and holds for idempotent methods only. With `max_redirects` 0 a
    redirect is returned like any other response.
    """

    hosts: Hosts | None = None
    allow_private: bool = False
    timeout_s: float = 10
    max_bytes: int = 5 * 1024 * 1024
    tries: int = 3
    max_redirects: int = 10

    def may_be_private(self, origin: Origin) -> bool:
        """Whether the address of an origin may be private."""
        return self.allow_private or (self.hosts is not None and self.hosts.allow_private(origin))

    @classmethod
    def of(cls, http: HttpSettings) -> Rules:
        """The rules of the section `http` of the settings."""
        return cls(
            hosts=Hosts(http.allowed_hosts),
            allow_private=http.allow_private,
            timeout_s=http.timeout_s,
            max_bytes=http.max_response_bytes,
        )


IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))

_FIRST_S = 0.4

_LONGEST_S = 8.0

_LONGEST_DIGITS = 12


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


Sleep = Callable[[float], Awaitable[object]]


class Retry(Value):
    """Sleep, chance and clock of retries; tests pass their own. Without a `sleep` the caller waits in its own way."""

    sleep: Sleep | None = None
    chance: Callable[[], float] = random.random
    now: Callable[[], datetime.datetime] = _utc_now

    def wait_s(self, attempt: int, headers: Mapping[str, str] | None = None) -> float:
        """Seconds to wait after an attempt, counted from 1."""
        said = after_s((headers or {}).get("retry-after", ""), self.now())
        backoff = min(_FIRST_S * 2.0 ** (attempt - 1), _LONGEST_S)
        return said if said is not None else backoff * (0.5 + self.chance() / 2)


def after_s(text: str, now: datetime.datetime) -> float | None:
    """Seconds until the moment that a Retry-After header names, or None."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:_LONGEST_DIGITS]) if len(text) <= _LONGEST_DIGITS else float("inf")
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())


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
    """Make a request of plain values; raises InvalidArgs or ExecutionFailed if they cannot be sent."""
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


def require_allowed(request: httpx.Request, rules: Rules) -> Origin:
    """Return the origin of a request, or raise HostNotAllowed. An address in the URL itself is checked here."""

    origin = origin_of(request.url)
    if rules.hosts is not None:
        rules.hosts.require(origin)
    if (address := literal_address(origin.host)) is not None:
        require_public(origin.host, [address], allow_private=rules.may_be_private(origin))
    return origin


def redirected(request: httpx.Request, status: int, headers: Mapping[str, str]) -> httpx.Request | None:
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

InWorker = Callable[[Callable[[], Any]], Awaitable[Any]]


class ThreadedTransport(httpx.AsyncBaseTransport):
    """Makes a sync transport async."""

    def __init__(self, transport: httpx.BaseTransport, in_worker: InWorker) -> None:
        self._transport = transport
        self._in_worker = in_worker

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        got = await self._in_worker(lambda: self._transport.handle_request(request))
        body = _ThreadedBody(got, self._in_worker)
        return httpx.Response(got.status_code, headers=got.headers, stream=body, extensions=got.extensions)


class _ThreadedBody(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response, in_worker: InWorker) -> None:
        self._response = response
        self._in_worker = in_worker

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = iter(self._response.stream)  # type: ignore[arg-type]  # a sync transport's stream
        while (chunk := await self._in_worker(lambda: next(chunks, None))) is not None:
            yield chunk

    async def aclose(self) -> None:
        await self._in_worker(self._response.close)


_T = TypeVar("_T")
Use = Callable[["httpx.Response", Mapping[str, str], "httpx.Request", int], Awaitable[_T]]
"""(response, headers, request, attempt) -> a value made of it while the connection is open."""


class HttpClient:
    """Sends requests. `transport` replaces the network, `resolve` and `dial` replace parts of it."""

    def __init__(
        self,
        background: Background,
        workers: Workers,
        *,
        mask: Mask = str,
        transport: Any = None,
        resolve: Resolve = look_up,
        dial: Dial | None = None,
        tls: ssl.SSLContext | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.transport = transport
        self.mask = mask
        self._background = background
        self._workers = workers
        self._resolve = resolve
        self._dial = dial
        self._tls = tls
        self._retry = retry or Retry()
        self._pools: _Pools | None = None
        self._blocking_pools: _Pools | None = None

    def request(
        self,
        method: str,
        url: str | httpx.URL,
        *,
        rules: Rules,
        headers: Headers | None = None,
        params: Mapping[str, Any] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
    ) -> HttpResponse:
        """Send, and return the whole response whatever its status. Raises a CallFailure if there is no response."""
        request = self._request(method, url, headers, params, content, json)
        is_here = self._background.is_here()  # sync code inside an async tool: its loop cannot wait for itself
        if self._dial is None and (self.transport is None or is_here):
            return self._blocking(request, rules)
        found: HttpResponse = self._background.run(
            lambda: self._shared(request, rules, _reader(rules)), rules.timeout_s
        )
        return found

    async def arequest(
        self,
        method: str,
        url: str | httpx.URL,
        *,
        rules: Rules,
        headers: Headers | None = None,
        params: Mapping[str, Any] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
    ) -> HttpResponse:
        """`request` without blocking the event loop."""
        request = self._request(method, url, headers, params, content, json)
        if self._background.is_here():
            return await self._shared(request, rules, _reader(rules))
        running = self._background.submit(lambda: self._shared(request, rules, _reader(rules)), rules.timeout_s)
        reply: HttpResponse = await self._background.wait(running, rules.timeout_s)
        return reply

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str | httpx.URL,
        *,
        rules: Rules,
        headers: Headers | None = None,
        params: Mapping[str, Any] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
    ) -> AsyncIterator[httpx.Response]:
        """Open a response to read as it arrives: `async with client.stream(...) as response`, on the background loop.

        The response is httpx's own, without a `content-encoding`: its body is decompressed and its size limited here.
        There is one attempt, since a part may have been read, and no redirect. The caller holds the deadline; leaving
        the block closes the connection.
        """
        request = self._request(method, url, headers, params, content, json)
        origin = require_allowed(request, rules)
        transport = self._loop_pools().get(origin.scheme, rules.may_be_private(origin))
        answer = await self._send(request, rules, transport, origin)
        try:
            decoder = BodyDecoder(headers_of(answer), rules.max_bytes)
            body = LimitedBody(
                answer.stream,  # type: ignore[arg-type]  # an async transport's stream
                decoder,
                lambda exc: translated(exc, origin, rules.timeout_s, self.mask),
            )
            plain = [pair for pair in answer.headers.multi_items() if pair[0] != "content-encoding"]
            yield httpx.Response(answer.status_code, headers=plain, stream=body, request=request)
        finally:
            await answer.aclose()

    def close(self) -> None:
        """Close idle connections; may be called twice. A later request opens new ones."""
        pools, self._pools = self._pools, None
        if pools is not None and pools.owner.is_running():
            self._background.run(pools.aclose, 1)
        self._forget_blocking()

    def _request(self, method: str, url: Any, headers: Any, params: Any, content: Any, json: Any) -> httpx.Request:
        try:
            return new_request(method, url, headers=headers, params=params, content=content, json=json)
        except CallFailure as exc:
            fault = masked(exc, self.mask)
        raise fault

    async def _shared(self, request: httpx.Request, rules: Rules, use: Use[_T]) -> _T:
        """Send on the background loop, with its shared connections."""
        return await self._in_time(request, rules, use, self._loop_pools())

    def _loop_pools(self) -> _Pools:
        loop = asyncio.get_running_loop()
        if self._pools is None or self._pools.owner is not loop:
            self._pools = _Pools(loop, self._new_transport, asyncio.sleep)
        return self._pools

    def _blocking(self, request: httpx.Request, rules: Rules) -> HttpResponse:
        """Send in this thread, with connections that all threads of this process share."""
        pools = self._blocking_pools
        if pools is None or pools.owner != os.getpid():
            pools = self._blocking_pools = _Pools(os.getpid(), self._new_blocking_transport, sleep_blocking)
        try:
            return run_blocking(self._tries(request, rules, _reader(rules), pools))
        except CallFailure as exc:
            fault = masked(exc, self.mask)
        except BaseException:  # an interrupt, between any two lines: what the others share is begun anew
            self._forget_blocking()
            raise
        raise fault

    def _forget_blocking(self) -> None:
        pools, self._blocking_pools = self._blocking_pools, None
        if pools is not None and pools.owner == os.getpid():
            run_blocking(pools.aclose())

    async def _in_time(self, request: httpx.Request, rules: Rules, use: Use[_T], pools: _Pools) -> _T:
        """Hold the one deadline; mask every failure."""
        origin = request.url.netloc.decode("ascii", "replace")
        fault: CallFailure
        try:
            async with asyncio.timeout(rules.timeout_s):
                return await self._tries(request, rules, use, pools)
        except TimeoutError:
            fault = masked(timeout_error(origin, rules.timeout_s), self.mask)
        except CallFailure as exc:
            fault = masked(exc, self.mask)
        raise fault

    async def _tries(self, request: httpx.Request, rules: Rules, use: Use[_T], pools: _Pools) -> _T:
        until = time.monotonic() + rules.timeout_s
        tries = rules.tries if request.method in IDEMPOTENT else 1
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._follow(request, rules, use, pools, attempt, tries, until)
            except _Again as again:
                wait_s = again.wait_s
            except ConnectionFailed as exc:
                wait_s = self._retry.wait_s(attempt)
                if attempt >= tries or not self._fits(wait_s, until):
                    exc.details = {"attempts": attempt}
                    raise
            sleep = pools.sleep if self._retry.sleep is None else self._retry.sleep
            await sleep(wait_s)

    async def _follow(
        self,
        request: httpx.Request,
        rules: Rules,
        use: Use[_T],
        pools: _Pools,
        attempt: int,
        tries: int,
        until: float,
    ) -> _T:
        """One attempt, along its redirects. Every hop is checked before its host is looked up or anything is sent."""
        hops = 0
        while True:
            origin = require_allowed(request, rules)
            request.extensions["until"] = until
            response = await self._send(request, rules, pools.get(origin.scheme, rules.may_be_private(origin)), origin)
            try:
                headers = headers_of(response)
                following = redirected(request, response.status_code, headers) if rules.max_redirects else None
                if following is None:
                    if attempt < tries and response.status_code in TRANSIENT_STATUSES:
                        wait_s = self._retry.wait_s(attempt, headers)
                        if self._fits(wait_s, until):
                            raise _Again(wait_s)
                    return await self._guarded(use(response, headers, request, attempt), origin, rules)
            finally:
                await response.aclose()
            hops += 1
            if hops > rules.max_redirects:
                raise ExecutionFailed(f"More than {rules.max_redirects} redirects, the last one from '{origin}'.")
            request = following

    async def _send(self, request: httpx.Request, rules: Rules, transport: Any, origin: object) -> httpx.Response:
        return await self._guarded(transport.handle_async_request(request), origin, rules)

    async def _guarded(self, work: Awaitable[_T], origin: object, rules: Rules) -> _T:
        try:
            return await work
        except (CallFailure, asyncio.CancelledError):
            raise
        except Exception as exc:  # noqa: BLE001 - the one place where a foreign exception is translated
            fault = translated(exc, origin, rules.timeout_s, self.mask)
        raise fault

    def _fits(self, wait_s: float, until: float) -> bool:
        return time.monotonic() + wait_s < until

    def _new_transport(self, scheme: str, allow_private: bool) -> Any:
        if self.transport is not None:
            return self._own_transport(self._in_worker)
        return PinnedTransport(self._look_up, allow_private=allow_private, tls=self._tls_of(scheme), dial=self._dial)

    def _own_transport(self, in_worker: InWorker) -> Any:
        is_async = hasattr(self.transport, "handle_async_request")
        return self.transport if is_async else ThreadedTransport(self.transport, in_worker)

    def _new_blocking_transport(self, scheme: str, allow_private: bool) -> Any:
        if self.transport is not None:
            return self._own_transport(_in_this_thread)
        return BlockingTransport(self._look_up_blocking, allow_private=allow_private, tls=self._tls_of(scheme))

    def _tls_of(self, scheme: str) -> ssl.SSLContext | None:
        if scheme == "https" and self._tls is None:
            self._tls = tls_context()
        return self._tls

    def _look_up_blocking(self, host: str, port: int, limit_s: float) -> list[str]:
        """Look a name up in a worker: the system's resolver cannot be interrupted."""
        found: list[str] = outcome(self._workers.submit(lambda: list(self._resolve(host, port))).future, limit_s)
        return found

    async def _look_up(self, host: str, port: int) -> list[str]:
        return await self._in_worker(lambda: list(self._resolve(host, port)))

    async def _in_worker(self, work: Callable[[], _T]) -> _T:
        """Await blocking work in a worker. If the wait ends first, the work is left to finish by itself."""
        task = self._workers.submit(work)
        found: _T = await asyncio.wrap_future(task.future)
        return found


async def _in_this_thread(work: Callable[[], _T]) -> _T:
    return work()


class _Again(Exception):
    """Another attempt is due, after `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.wait_s = wait_s


class _Pools:
    """The transports of an event loop or of a process, by scheme and by whether private addresses are allowed."""

    def __init__(self, owner: Any, make: Callable[[str, bool], Any], sleep: Sleep) -> None:
        self.owner = owner
        self.sleep = sleep
        self._make = make
        self._made: dict[tuple[str, bool], Any] = {}

    def get(self, scheme: str, allow_private: bool) -> Any:
        key = (scheme, allow_private)
        if key not in self._made:
            self._made[key] = self._make(scheme, allow_private)
        return self._made[key]

    async def aclose(self) -> None:
        made, self._made = self._made, {}
        for transport in made.values():
            if isinstance(transport, (PinnedTransport, BlockingTransport)):
                await transport.aclose()


def _reader(rules: Rules) -> Use[HttpResponse]:
    """Return the function that reads a whole response."""

    async def read(
        response: httpx.Response, headers: Mapping[str, str], request: httpx.Request, attempt: int
    ) -> HttpResponse:
        parts: list[bytes] = []
        if request.method != "HEAD":
            intake = BodyDecoder(headers, rules.max_bytes)
            async for chunk in response.stream:  # type: ignore[union-attr]  # an async transport's stream
                parts.append(intake.feed(chunk))  # noqa: PERF401 - what came before a failure is let go at once
            intake.finish()
        return HttpResponse(response.status_code, headers, b"".join(parts), str(request.url), attempt)

    return read


def run_blocking(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that blocks wherever it awaits to its end, in this thread."""
    try:
        work.send(None)
    except StopIteration as done:
        value: _T = done.value
        return value
    work.close()
    raise RuntimeError("The coroutine waits for an event loop.")


async def sleep_blocking(seconds: float) -> None:
    """Sleep in this thread, a little at a time."""
    until = time.monotonic() + seconds
    while (left_s := _left_s(until)) > 0:
        time.sleep(min(left_s, SIGNAL_CHECK_S))  # noqa: ASYNC251 - it is for a thread without a loop


class BlockingTransport(httpx.AsyncBaseTransport):
    """An httpx transport over a few pinned connections that all threads share.

    The extension `until` of a request is the moment of its deadline.
    """

    def __init__(self, look_up: BlockingLookUp, *, allow_private: bool, tls: ssl.SSLContext | None = None) -> None:
        self._backend = _BlockingBackend(look_up, allow_private)
        self._tls = tls
        self._idle: deque[httpcore.HTTPConnection] = deque()
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(MAX_CONNECTIONS):
            self._permits.put(None)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        sent, until = core_request(request), request.extensions["until"]
        sent.extensions = {"timeout": dict.fromkeys(("connect", "read", "write"), until)}
        try:
            self._permits.get(timeout=max(until - time.monotonic(), 0))
        except Empty:
            raise httpcore.PoolTimeout from None
        try:
            connection = self._take(sent.url.origin)
            got = connection.handle_request(sent)
        except BaseException:
            self._permits.put(None)
            raise
        body = _BlockingBody(got, lambda: self._give_back(connection))
        return httpx.Response(got.status, headers=got.headers, stream=body, extensions=got.extensions)

    async def aclose(self) -> None:
        """Close the idle connections; those in use are closed after their response."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _take(self, origin: httpcore.Origin) -> httpcore.HTTPConnection:
        """Return the connection to this origin that was used last, or a new one."""
        others: list[httpcore.HTTPConnection] = []
        found: httpcore.HTTPConnection | None = None
        with suppress(IndexError):
            while found is None:
                connection = self._idle.pop()
                if connection.has_expired() or not connection.is_available():
                    connection.close()
                elif connection.can_handle_request(origin):
                    found = connection
                else:
                    others.append(connection)
        self._idle.extend(reversed(others))
        return found or httpcore.HTTPConnection(
            origin, ssl_context=self._tls, keepalive_expiry=IDLE_S, network_backend=self._backend
        )

    def _give_back(self, connection: httpcore.HTTPConnection) -> None:
        if connection.is_idle():
            self._idle.append(connection)
        self._permits.put(None)
        if len(self._idle) > MAX_CONNECTIONS:
            with suppress(IndexError):
                self._idle.popleft().close()


class _BlockingBody(httpx.AsyncByteStream):
    """The raw body. Closing it gives the connection back, or ends it if something is left unread."""

    def __init__(self, response: httpcore.Response, give_back: Callable[[], None]) -> None:
        self._response = response
        self._give_back: Callable[[], None] | None = give_back
        self._chunks = response.iter_stream()

    def __aiter__(self) -> _BlockingBody:
        return self

    async def __anext__(self) -> bytes:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            self._response.close()
            give_back()


class _BlockingBackend(httpcore.NetworkBackend):
    """Looks a host up and connects to a checked address."""

    def __init__(self, look_up: BlockingLookUp, allow_private: bool) -> None:
        self._look_up = look_up
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the shape that httpcore asks for
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout)

        async def look_up(host: str, port: int) -> Iterable[str]:
            return self._look_up(host, port, left_s)

        work = connect_pinned(host, port, left_s, look_up=look_up, dial=_dial_socket, allow_private=self._allow_private)
        return run_blocking(work)


async def _dial_socket(address: str, port: int, timeout: float | None) -> httpcore.NetworkStream:
    try:
        connected = socket.create_connection((address, port), timeout)
    except TimeoutError as exc:
        raise httpcore.ConnectTimeout(str(exc)) from exc
    except OSError as exc:
        raise httpcore.ConnectError(str(exc)) from exc
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return _SocketStream(connected)


class _SocketStream(httpcore.NetworkStream):
    """A socket. The `timeout` of each method is a moment."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._wait(partial(self._socket.recv, max_bytes), timeout, httpcore.ReadTimeout, httpcore.ReadError)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            send = partial(self._socket.send, rest)
            rest = rest[self._wait(send, timeout, httpcore.WriteTimeout, httpcore.WriteError) :]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        wrapped = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname, do_handshake_on_connect=False)
        secure = _SocketStream(wrapped)
        try:
            secure._wait(wrapped.do_handshake, timeout, httpcore.ConnectTimeout, httpcore.ConnectError)
        except BaseException:
            secure.close()
            raise
        return secure

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks for: the TLS connection, and whether an idle connection was closed by the server."""
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        return self._is_readable() if info == "is_readable" else None

    def _is_readable(self) -> bool:
        try:
            self._socket.settimeout(0)
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # the bytes on the wire, also under TLS
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _wait(self, act: Callable[[], _T], until: float | None, late: type[Exception], broken: type[Exception]) -> _T:
        while (left_s := _left_s(until)) > 0:
            try:
                self._socket.settimeout(min(left_s, SIGNAL_CHECK_S))
                return act()
            except TimeoutError:
                continue  # here an interrupt arrives
            except OSError as exc:
                raise broken(str(exc)) from exc
        raise late


def _left_s(until: float | None) -> float:
    return math.inf if until is None else until - time.monotonic()
