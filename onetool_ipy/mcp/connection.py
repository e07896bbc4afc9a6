"""A server's process as a transport of the official SDK, and the sieve that every message of every transport passes.

The sieve takes the tools out of `tools/list` before the SDK sees them: there one tool that is not as it should be would
cost all, and a schema from outside would be run by a checker that a pattern can hang. They are judged in `listing`, and
the SDK gets the names. Imports mcp: it is itself imported in the loop's thread, when a server starts.

Streamable HTTP to a server, by the official SDK's transport, with the sieve in it and bounds around it.

No proxy of the environment is used, no packed answer taken, none that is too large. Notes which requests certainly did
not reach the server: nobody listens, or the session is one that it does not know (it was started anew). Imports httpx2,
the SDK's own: it is itself imported in the loop's thread, when such a server starts.

One life of a server: its process or session, the official client on it, and the one task that owns both.

The task opens, lists, follows `list_changed`, and closes; the SDK wants all of that in one task. Everything here runs
on the background loop. What went wrong is told in `why`, for people; the server is never asked twice for one call.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import CallFailure, CallTimeout, InvalidOutput, OneToolError, Unavailable
from onetool_ipy.mcp.content import OutputSchema, failure_of, value_of
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.listing import MAX_TOOLS, ServerListing, read_tools
from onetool_ipy.mcp.process import MAX_LINE, ServerProcess, StderrLog

__all__ = ["Connection", "MessageInterceptor", "NotSent", "Progress", "http_streams", "stdio_streams"]

_MARKS_HEADERS = "x-mcp-header"


class MessageInterceptor:
    """Notes what is asked for and takes out what the SDK need not see.

    `refused` counts the requests that certainly did not reach the server; `status` is its last HTTP status of an error.
    """

    def __init__(self) -> None:
        self.refused = 0
        self.status = 0
        self.tools: list[Any] = []
        self._asked: set[Any] = set()

    def sent(self, message: Any) -> None:
        """Look at a message on its way out."""
        if getattr(message, "method", None) == "tools/list":
            self._asked.add(message.id)

    def received(self, message: Any) -> None:
        """Look at a message on its way in; the list of tools is kept here, and made harmless there."""
        if not self._asked or getattr(message, "id", None) not in self._asked:
            return
        self._asked.discard(message.id)
        result = getattr(message, "result", None)
        if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        found = result["tools"]
        self.tools += found
        result["tools"] = [_harmless(tool) for tool in found if _has_name(tool)]


def _has_name(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _harmless(tool: dict[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    if isinstance(schema, dict) and schema.get("type") == "object" and _MARKS_HEADERS in json.dumps(schema):
        return {"name": tool["name"], "inputSchema": schema}
    return {"name": tool["name"], "inputSchema": {"type": "object"}}


class _Reading:
    """What a server writes, message by message. What is no message is noted and left out."""

    def __init__(self, child: ServerProcess, sieve: MessageInterceptor) -> None:
        self._child, self._sieve = child, sieve

    async def receive(self) -> Any:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def __anext__(self) -> Any:
        while True:
            line = await self._child.line()
            if line is None:
                raise StopAsyncIteration
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip() and not self._child.junk:
                    shown = line[:120].decode("utf-8", "replace").strip()
                    self._child.junk = f"It wrote to stdout what is no message: {shown!r}"
                continue
            self._sieve.received(message)
            return SessionMessage(message)

    def __aiter__(self) -> _Reading:
        return self

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _Reading:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


class _Writing:
    """A server's stdin, message by message."""

    def __init__(self, child: ServerProcess, sieve: MessageInterceptor) -> None:
        self._child, self._sieve = child, sieve

    async def send(self, item: Any, /) -> None:
        message = item.message
        self._sieve.sent(message)
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
        if not self._child.is_alive():
            self._sieve.refused += 1
            raise anyio.BrokenResourceError
        try:
            await self._child.send(data)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _Writing:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


@asynccontextmanager
async def stdio_streams(child: ServerProcess, sieve: MessageInterceptor) -> AsyncIterator[tuple[Any, Any]]:
    """The streams of a server's process; leaving ends it."""
    try:
        yield _Reading(child, sieve), _Writing(child, sieve)
    finally:
        child.end()


_HTTP_S = 30.0
_STREAM_S = 300.0
_SESSION = "mcp-session-id"
_NO_SESSION = (400, 404, 410)


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], sieve: MessageInterceptor
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams to a server at an address."""
    limits = httpx2.Timeout(_HTTP_S, read=_STREAM_S)
    plain = {"Accept-Encoding": "identity", **headers}
    async with (
        httpx2.AsyncClient(headers=plain, timeout=limits, transport=_Bounded(sieve), trust_env=False) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_LINE) as (reading, writing),
    ):
        yield _Sieved(reading, sieve), _Sieved(writing, sieve)


class _Bounded(httpx2.AsyncBaseTransport):
    """The network, with bounds."""

    def __init__(self, sieve: MessageInterceptor) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._sieve = sieve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self._sieve.refused += _is_request(request)
            raise
        if response.status_code >= 400:
            self._sieve.status = response.status_code
            if response.status_code in _NO_SESSION and _SESSION in request.headers:
                self._sieve.refused += _is_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("The answer is packed, which was not asked for.")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Counted(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """A body that ends in an error when it is too large; the events of a stream are counted by the SDK, one by one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > MAX_LINE:
                raise httpx2.ReadError(f"The answer is larger than {MAX_LINE // 2**20} MB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_request(request: httpx2.Request) -> bool:
    """Whether this carries a request of ours; a notification does not, nor does taking up an answer's stream again."""
    if request.method != "POST":
        return False
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "id" in message and "method" in message


class _Sieved:
    """A stream of the SDK with the sieve in it; everything else is the stream's own."""

    def __init__(self, inner: Any, sieve: MessageInterceptor) -> None:
        self._inner, self._sieve = inner, sieve

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any, /) -> None:
        self._sieve.sent(item.message)
        await self._inner.send(item)

    async def receive(self) -> Any:
        return self._seen(await self._inner.receive())

    def __aiter__(self) -> _Sieved:
        return self

    async def __anext__(self) -> Any:
        return self._seen(await self._inner.__anext__())

    async def __aenter__(self) -> _Sieved:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._inner.__aexit__(*exc)

    def _seen(self, item: Any) -> Any:
        if not isinstance(item, Exception):
            self._sieve.received(item.message)
        return item


Progress = Callable[[float, float | None, str], None]

_PATIENCE_S = 0.2
_MOST_PATIENCE_S = 2.0
_STOP_S = 1.0
_ANSWER_S = 3.0
_MAX_PAGES = 1_000
_MAX_WORDS = 20_000
_SPOKEN = "2025-11-25"


class NotSent(Exception):
    """A call certainly did not reach the server: its session or process was gone before."""


class Connection:
    """A server from its start to its end. `ready` gives its listing or the reason why there is none."""

    def __init__(
        self,
        definition: ServerDefinition,
        surroundings: Mapping[str, str],
        spill: StderrLog,
        *,
        on_list: Callable[[ServerListing], None],
        on_end: Callable[[Connection], None],
    ) -> None:
        self.definition = definition
        self.why = ""
        self.hint = ""
        self.calls = 0
        self.child: ServerProcess | None = None
        self.loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[ServerListing] = self.loop.create_future()
        self._surroundings = surroundings
        self._spill = spill
        self._on_list, self._on_end = on_list, on_end
        self._client: Any = None
        self._is_lost = False
        self._sieve: Any = None
        self._outputs: dict[str, OutputSchema] = {}
        self._schemas: dict[str, Any] = {}
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._owner = self.loop.create_task(self._own(), context=contextvars.Context())

    @property
    def status(self) -> int:
        """The last HTTP status with which the server refused something; 0 where there was none."""
        return 0 if self._sieve is None else int(self._sieve.status)

    def is_good(self) -> bool:
        """Whether a call could be sent now."""
        if self._client is None or self._is_lost or self._stop.is_set() or self._owner.done():
            return False
        return self.child is None or self.child.is_alive()

    async def call(self, tool: str, args: dict[str, Any], progress: Progress | None) -> Any:
        """Call a tool once. An idle limit counts from the last sign of life."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult
        from pydantic import ValidationError  # all three are there, since the server was started

        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=args))
        idle_s, refused = self.definition.idle_s, self._sieve.refused
        self.calls += 1
        try:
            async with nullcontext() if idle_s is None else asyncio.timeout(idle_s) as limit:
                heard = _hearing(progress, limit, idle_s)
                result = await self._client.session.send_request(request, CallToolResult, progress_callback=heard)
        except MCPError as exc:
            self._is_lost = self._is_lost or self._sieve.refused > refused
            if self._is_lost and self.calls == 1:  # alone, so it was this one that was refused
                raise NotSent from exc
            raise failure_of(exc, self.definition.name) from exc
        except ValidationError as exc:
            said = f"'{tool}' gave what is no result of a tool ({exc.error_count()} faults)."
            raise InvalidOutput(said) from None
        except TimeoutError:
            raise CallTimeout(
                f"Nothing was heard for {idle_s or 0:g} s.", hint="Raise 'idle_s' of the server."
            ) from None
        finally:
            self.calls -= 1
        return value_of(result, self._output(tool), tool)

    async def answers(self) -> bool:
        """Whether the server answers now; one that is busy with a call counts as answering."""
        if not self.is_good():
            return False
        if self.calls:
            return True
        from mcp_types import EmptyResult, PingRequest

        session, refused = self._client.session, self._sieve.refused
        try:
            async with asyncio.timeout(min(_ANSWER_S, self.definition.timeout_s)):
                if session.initialize_result is not None:
                    await session.send_request(PingRequest(), EmptyResult)
                else:
                    await session.send_discover(session.protocol_version)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is no answer
            self._is_lost = self._sieve.refused > refused
            return _is_an_answer(exc) and self.is_good()
        return self.is_good()

    async def over(self) -> None:
        """Wait, for a while, until a link that is no longer good has been closed and says why."""
        await asyncio.wait({self._owner}, timeout=2 * _STOP_S)

    async def stop(self, why: str = "") -> None:
        """Let the owner close everything, and wait for it, for a while."""
        if why:
            self.why = self.why or why
        self._stop.set()
        await asyncio.wait({self._owner}, timeout=_STOP_S)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=_STOP_S)
        if self.child is not None:
            self.child.end()
            await self.child.gone()

    def drop(self) -> None:
        """End the process at once, without waiting; from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and so is everything on it
            self.loop.call_soon_threadsafe(self._stop.set)

    def _output(self, tool: str) -> OutputSchema:
        found = self._outputs.get(tool)
        if found is None:
            found = self._outputs[tool] = OutputSchema(self._schemas.get(tool))
        return found

    async def _own(self) -> None:
        """The life of the link, in one task."""
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(self.definition.timeout_s):
                        listing = await self._open(stack)
                except TimeoutError:
                    raise Unavailable(f"It did not answer within {self.definition.timeout_s:g} s.") from None
                self.ready.set_result(listing)
                await self._follow()
        except asyncio.CancelledError:
            self.why = self.why or "It was stopped."
        except Exception as exc:  # noqa: BLE001 - the SDK and a foreign server: any reason ends this link, and only it
            await self._explain(exc)
        finally:
            self._client = None
            if self.child is not None:
                self.child.end()
            if not self.ready.done():
                self.ready.set_exception(Unavailable(self.why or "It was stopped.", hint=self.hint))
                self.ready.exception()  # somebody may have stopped waiting
            self._on_end(self)

    async def _open(self, stack: AsyncExitStack) -> ServerListing:
        definition = self.definition
        if definition.type == "stdio":  # the process starts while mcp is being imported
            self.child = await ServerProcess.start(definition, self._surroundings, self._spill)
        _be_quiet()
        from mcp import Client
        from mcp_types import Implementation

        self._sieve = MessageInterceptor()
        if self.child is not None:
            road = stdio_streams(self.child, self._sieve)
        else:
            road = http_streams(definition.url, definition.headers, self._sieve)
        client = Client(
            road,
            mode="auto",
            message_handler=self._heard,
            client_info=Implementation(name="onetool-ipy", version=__version__),
            cache=None,
        )
        await stack.enter_async_context(client)
        listing = await self._list(client)
        await self._subscribe(stack, client)
        self._client = client
        return listing

    async def _list(self, client: Any) -> ServerListing:
        """Ask for all pages of the list."""
        sieve, cursor, seen = self._sieve, None, set()
        sieve.tools = []
        if client.server_capabilities.tools is not None:
            for _ in range(_MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                cursor = page.next_cursor
                if not cursor or cursor in seen or len(sieve.tools) > MAX_TOOLS:
                    break
                seen.add(cursor)
        tools, faults = read_tools(sieve.tools)
        sieve.tools = []
        self._schemas = {tool["name"]: tool.get("outputSchema") for tool in tools}
        self._outputs = {}
        about = client.server_info
        listing = ServerListing(
            tools,
            faults,
            (client.instructions or "")[:_MAX_WORDS],
            "" if about is None else f"{about.name} {about.version}"[:200],
            client.protocol_version,
        )
        self._on_list(listing)
        return listing

    async def _subscribe(self, stack: AsyncExitStack, client: Any) -> None:
        """With a server of the newer protocol, changes of the list have to be asked for."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed or client.protocol_version <= _SPOKEN:
            return
        subscription = await stack.enter_async_context(client.listen(tools_list_changed=True))

        async def pass_on() -> None:
            with suppress(Exception):  # the end of the stream: the list is then as it was last known
                async for _event in subscription:
                    self._changed.set()

        task = self.loop.create_task(pass_on(), context=contextvars.Context())
        stack.callback(task.cancel)

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._changed.set()

    async def _follow(self) -> None:
        """Until the end: list again, after a change, when it has been quiet for a moment."""
        over = self.loop.create_task(self._watch(), context=contextvars.Context())
        stop = self.loop.create_task(self._stop.wait())
        try:
            while True:
                change = self.loop.create_task(self._changed.wait())
                await asyncio.wait({over, stop, change}, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if over.done() or stop.done():
                    break
                await self._settled(stop)
                async with asyncio.timeout(self.definition.timeout_s):
                    await self._list(self._client)
        finally:
            over.cancel()
            stop.cancel()
        if not self._stop.is_set():
            raise Unavailable("It ended.")

    async def _settled(self, stop: asyncio.Task[Any]) -> None:
        waited = 0.0
        while self._changed.is_set() and waited < _MOST_PATIENCE_S:
            self._changed.clear()
            await asyncio.wait({stop}, timeout=_PATIENCE_S)
            waited += _PATIENCE_S
        self._changed.clear()

    async def _watch(self) -> None:
        """Return when the process is gone; a session over HTTP has no end of its own."""
        if self.child is None:
            await asyncio.Event().wait()
        else:
            await self.child.over()

    async def _explain(self, exc: BaseException) -> None:
        """Say for people why this life ended."""
        while isinstance(exc, BaseExceptionGroup) and exc.exceptions:
            exc = exc.exceptions[0]
        said = exc.message if isinstance(exc, OneToolError) else _said(exc)
        self.hint = exc.hint if isinstance(exc, CallFailure) else ""
        if self.child is None or self._stop.is_set():
            self.why = f"{said} (HTTP {self.status})" if self.status else said
            return
        child = self.child
        child.end()
        status = await child.gone()
        said = child.fault or (_ending(status) if child.died else said)
        self.why = " ".join(part for part in (said, child.junk, child.last_words()) if part)


def _hearing(progress: Progress | None, limit: asyncio.Timeout | None, idle_s: float | None) -> Any:
    """What is called for each sign of progress: tell the caller, and begin to wait anew."""
    if progress is None and idle_s is None:
        return None

    async def heard(done: float, total: float | None, text: str | None) -> None:
        if limit is not None and idle_s is not None and not limit.expired():
            with suppress(RuntimeError):  # the call is over already
                limit.reschedule(asyncio.get_running_loop().time() + idle_s)
        if progress is not None:
            progress(done, total, text or "")

    return heard


def _is_an_answer(exc: Exception) -> bool:
    """An error that the server itself sent is an answer too."""
    error = getattr(exc, "error", None)
    return error is not None and getattr(error, "code", -32000) not in (-32000, -32001)


def _ending(status: int | None) -> str:
    if status is None:
        return "It ended."
    if status < 0:
        return f"The process that watches it was killed by signal {-status}."
    if status > 128:
        return f"It was ended by signal {status - 128}."
    return f"It ended with status {status}."


def _said(exc: BaseException) -> str:
    text = str(getattr(getattr(exc, "error", None), "message", "") or exc).strip()
    name = type(exc).__name__
    return f"{name}: {text}" if text and name != "MCPError" else text or name


def _be_quiet() -> None:
    """What the SDK has to say goes into `why`; it must not be printed into a cell."""
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    logger = logging.getLogger("client")  # the SDK's own name for its session's log, which others may use too
    if not any(getattr(known, "__name__", "") == "_not_of_mcp" for known in logger.filters):
        logger.addFilter(_not_of_mcp)


def _not_of_mcp(record: logging.LogRecord) -> bool:
    return "mcp" not in record.pathname.replace("\\", "/").split("/")
