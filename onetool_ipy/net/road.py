"""Road: sends requests by the rules, whoever asks: sync or async, from any thread.

All work is done on the toolbox's background loop, so that one deadline, Stop and cancelling end it at any point: in a
look-up, a handshake, a slow header or a slow body. Connections are shared there, in small pools. With a transport of
the tests' own the network is not touched, but the rules hold all the same.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from onetool_ipy.core.errors import CallFailure, ExecutionFailed
from onetool_ipy.core.loop import Background
from onetool_ipy.core.workers import Workers
from onetool_ipy.net import addresses
from onetool_ipy.net.body import Intake
from onetool_ipy.net.faults import Broken, Mask, late, masked, translated
from onetool_ipy.net.reply import Reply
from onetool_ipy.net.retry import IDEMPOTENT, Retry, is_passing
from onetool_ipy.net.rules import Rules

if TYPE_CHECKING:
    import httpx

    from onetool_ipy.net.outgoing import Headers
    from onetool_ipy.net.pinned import Dial
    from onetool_ipy.net.stream import Stream

__all__ = ["Road"]

_T = TypeVar("_T")
Use = Callable[["httpx.Response", Mapping[str, str], "httpx.Request", int], Awaitable[_T]]
"""(response, headers, request, attempt) -> what is made of it, while the connection is open."""


class Road:
    """Sends requests. `transport`, where it is given, stands for the network; `resolve` and `dial` for parts of it."""

    def __init__(
        self,
        background: Background,
        workers: Workers,
        *,
        mask: Mask = str,
        transport: Any = None,
        resolve: addresses.Resolve = addresses.look_up,
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
    ) -> Reply:
        """Send, and wait for the whole reply, whatever its status. Raises a CallFailure where there is none."""
        request = self._request(method, url, headers, params, content, json)
        if self._background.is_here():  # sync code inside an async tool: its loop cannot wait for itself
            limit_s = rules.timeout_s + 1
            reply: Reply = self._workers.run(lambda: asyncio.run(self._alone(request, rules)), limit_s, "own")
            return reply
        found: Reply = self._background.run(lambda: self._shared(request, rules, _reader(rules)), rules.timeout_s)
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
    ) -> Reply:
        """`request` without blocking the event loop, whichever it is."""
        request = self._request(method, url, headers, params, content, json)
        if self._background.is_here():
            return await self._shared(request, rules, _reader(rules))
        running = self._background.submit(lambda: self._shared(request, rules, _reader(rules)), rules.timeout_s)
        reply: Reply = await self._background.wait(running, rules.timeout_s)
        return reply

    def stream(
        self,
        method: str,
        url: str | httpx.URL,
        *,
        rules: Rules,
        headers: Headers | None = None,
        params: Mapping[str, Any] | None = None,
        content: bytes | str | None = None,
        json: Any = None,
    ) -> Stream:
        """A reply that is read as it comes: `with road.stream(...) as reply: for line in reply.lines(): ...`.

        `async with` and `reply.alines()` are the same for async code. Deadline and size hold for all of it; there is
        one try, since part of it may have been read.
        """
        from onetool_ipy.net.stream import Stream

        request = self._request(method, url, headers, params, content, json)
        rules = rules.replace(tries=1)
        return Stream(self._background, lambda use: self._shared(request, rules, use), rules, self.mask)

    def close(self) -> None:
        """Close idle connections; may be called twice. A later request opens new ones."""
        pools, self._pools = self._pools, None
        if pools is not None and pools.is_usable():
            self._background.run(pools.aclose, 1)

    def _request(self, method: str, url: Any, headers: Any, params: Any, content: Any, json: Any) -> httpx.Request:
        from onetool_ipy.net.outgoing import new_request

        try:
            return new_request(method, url, headers=headers, params=params, content=content, json=json)
        except CallFailure as exc:
            fault = masked(exc, self.mask)
        raise fault

    async def _shared(self, request: httpx.Request, rules: Rules, use: Use[_T]) -> _T:
        """On the background loop, with the connections that are kept there."""
        loop = asyncio.get_running_loop()
        if self._pools is None or self._pools.loop is not loop:
            self._pools = _Pools(loop, self._new_transport)
        return await self._in_time(request, rules, use, self._pools)

    async def _alone(self, request: httpx.Request, rules: Rules) -> Reply:
        """On a loop of its own, with connections of its own."""
        pools = _Pools(asyncio.get_running_loop(), self._new_transport)
        try:
            return await self._in_time(request, rules, _reader(rules), pools)
        finally:
            await pools.aclose()

    async def _in_time(self, request: httpx.Request, rules: Rules, use: Use[_T], pools: _Pools) -> _T:
        """The one deadline, and the one place where foreign exceptions become ours."""
        place = request.url.netloc.decode("ascii", "replace")
        fault: CallFailure
        try:
            async with asyncio.timeout(rules.timeout_s):
                return await self._tries(request, rules, use, pools)
        except TimeoutError:
            fault = masked(late(place, rules.timeout_s), self.mask)
        except CallFailure as exc:
            fault = masked(exc, self.mask)
        raise fault

    async def _tries(self, request: httpx.Request, rules: Rules, use: Use[_T], pools: _Pools) -> _T:
        until = asyncio.get_running_loop().time() + rules.timeout_s
        tries = rules.tries if request.method in IDEMPOTENT else 1
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._follow(request, rules, use, pools, attempt, tries, until)
            except _Again as again:
                wait_s = again.wait_s
            except Broken as exc:
                wait_s = self._retry.wait_s(attempt)
                if attempt >= tries or not self._fits(wait_s, until):
                    exc.details = {"attempts": attempt}
                    raise
            await self._retry.sleep(wait_s)

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
        """One try, along its redirects; every hop is checked before anything is looked up or sent."""
        from onetool_ipy.net import outgoing

        hops = 0
        while True:
            place = outgoing.require_allowed(request, rules)
            response = await self._send(request, rules, pools.get(place.scheme, rules.may_be_private(place)), place)
            try:
                headers = outgoing.headers_of(response)
                following = outgoing.redirected(request, response.status_code, headers) if rules.max_redirects else None
                if following is None:
                    if attempt < tries and is_passing(response.status_code):
                        wait_s = self._retry.wait_s(attempt, headers)
                        if self._fits(wait_s, until):
                            raise _Again(wait_s)
                    return await self._guarded(use(response, headers, request, attempt), place, rules)
            finally:
                await response.aclose()
            hops += 1
            if hops > rules.max_redirects:
                raise ExecutionFailed(f"More than {rules.max_redirects} redirects, the last one from '{place}'.")
            request = following

    async def _send(self, request: httpx.Request, rules: Rules, transport: Any, place: object) -> httpx.Response:
        return await self._guarded(transport.handle_async_request(request), place, rules)

    async def _guarded(self, work: Awaitable[_T], place: object, rules: Rules) -> _T:
        try:
            return await work
        except (CallFailure, asyncio.CancelledError):
            raise
        except Exception as exc:  # noqa: BLE001 - the one place where a foreign exception is translated
            fault = translated(exc, place, rules.timeout_s, self.mask)
        raise fault

    def _fits(self, wait_s: float, until: float) -> bool:
        return asyncio.get_running_loop().time() + wait_s < until

    def _new_transport(self, scheme: str, allow_private: bool) -> Any:
        if self.transport is not None:
            if hasattr(self.transport, "handle_async_request"):
                return self.transport
            from onetool_ipy.net.threaded import Threaded

            return Threaded(self.transport, self._in_worker)
        from onetool_ipy.net.pinned import PinnedTransport, tls_context

        if scheme == "https" and self._tls is None:
            self._tls = tls_context()
        return PinnedTransport(self._look_up, allow_private=allow_private, tls=self._tls, dial=self._dial)

    async def _look_up(self, host: str, port: int) -> list[str]:
        return await self._in_worker(lambda: list(self._resolve(host, port)))

    async def _in_worker(self, work: Callable[[], _T]) -> _T:
        """Wait for blocking work; when that is over, the work is left to end by itself."""
        task = self._workers.submit(work, "own")
        found: _T = await asyncio.wrap_future(task.future)
        return found


class _Again(Exception):
    """Another try is due, after so many seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.wait_s = wait_s


class _Pools:
    """The transports of one event loop, by scheme and by what their connections may reach."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[str, bool], Any]) -> None:
        self.loop = loop
        self._make = make
        self._made: dict[tuple[str, bool], Any] = {}

    def get(self, scheme: str, allow_private: bool) -> Any:
        key = (scheme, allow_private)
        if key not in self._made:
            self._made[key] = self._make(scheme, allow_private)
        return self._made[key]

    def is_usable(self) -> bool:
        return bool(self._made) and self.loop.is_running()

    async def aclose(self) -> None:
        from onetool_ipy.net.pinned import PinnedTransport

        made, self._made = self._made, {}
        for transport in made.values():
            if isinstance(transport, PinnedTransport):
                await transport.aclose()


def _reader(rules: Rules) -> Use[Reply]:
    """How a reply is read whole."""

    async def read(response: httpx.Response, headers: Mapping[str, str], request: httpx.Request, attempt: int) -> Reply:
        parts: list[bytes] = []
        if request.method != "HEAD":
            intake = Intake(headers, rules.max_bytes)
            async for chunk in response.stream:  # type: ignore[union-attr]  # an async transport's stream
                parts.append(intake.feed(chunk))  # noqa: PERF401 - what came before a failure is let go at once
            intake.finish()
        return Reply(response.status_code, headers, b"".join(parts), str(request.url), attempt)

    return read
