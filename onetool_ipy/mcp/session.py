"""The official SDK's client session with one server: over the pipes of a process, or over streamable HTTP.

Importing the SDK takes 2 s, so `server` imports this module on the loop thread when a server starts. All
callbacks of the SDK's client are set in `ServerSession.open`. Its exceptions become ours here.

Every message passes a `_MessageInterceptor`. It takes the entries out of the results of `*/list`: the SDK would reject
the whole list for one invalid entry, and run schemas from outside through a checker that a pattern can hang. `listing`
checks the tools instead; the SDK sees only their names.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import math
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2
from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.client.caching import CacheConfig, CacheEntry, CacheKey, InMemoryResponseCacheStore
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    EmptyResult,
    Implementation,
    PingRequest,
    SetLevelRequest,
    SetLevelRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, InvalidOutput, Unavailable, chain
from onetool_ipy.base.values import Json
from onetool_ipy.mcp.callbacks import RunningCall, ServerCallbacks
from onetool_ipy.mcp.content import NotSent, OutputSchema, error_text, failure_of, meta_of, value_of
from onetool_ipy.mcp.definition import FailureState, ServerDefinition
from onetool_ipy.mcp.listing import LISTS, MAX_TOOLS, OfferKind, ServerListing, read_icon, read_offers, read_tools
from onetool_ipy.mcp.process import MAX_LINE, ServerProcess
from onetool_ipy.mcp.resources import Watch, Watches
from onetool_ipy.mcp.tasks import TaskRun, cancel_task, requires_task
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.net.hosts import is_public, is_this_machine, look_up
from onetool_ipy.stores.tasks import SavedTask, TaskStore

Progress = Callable[[float, float | None, str], None]
"""Called with done, total and text."""

_ANSWER_S = 3.0
_MAX_PAGES = 1_000
_MAX_TEXT = 20_000
_LAST_HANDSHAKE = "2025-11-25"
_CHANGES = tuple(f"notifications/{what}/list_changed" for what in ("tools", "resources", "prompts"))
_LISTED = {"tools/list": "tools", **{method: key for _, method, key in LISTS.values()}}
_CACHEABLE = ("server/discover", "resources/read", *_LISTED)
_OFFERS_S = 5.0
_LEAST_FRESH_S = 1.0
_MAX_FRESH_RESOURCES = 100
_MAX_FRESH_SIZE = 200_000
_HTTP_S = 30.0
_HTTP_READ_S = 300.0
_SESSION_HEADER = "mcp-session-id"
_MCP_TYPES = ("application/json", "text/event-stream")
_UNKNOWN_SESSION = (400, 404, 410)
_CLOSED, _TIMED_OUT = -32000, -32001

_PARSE_ERROR = -32700
_IS_THE_PATH_RIGHT = "Is the path right? It often ends in /mcp."


class ServerSession:
    """A session of the SDK's client. `is_lost` says that the server no longer takes requests of this session.

    `fresh_s` says for how long the last listing counts, if the server has said so (`ttlMs`).
    """

    def __init__(
        self,
        definition: ServerDefinition,
        process: ServerProcess | None,
        *,
        log: Callable[[str], None],
        trace: MessageTrace,
        tasks: TaskStore,
        auth: httpx2.Auth | None = None,
    ) -> None:
        # Keep the SDK from printing into a cell. The reason of a failure is in `Connection.reason`.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        # The SDK logs under this name, which others may use too.
        logger = logging.getLogger("client")
        if not any(getattr(each, "__name__", "") == "_is_not_of_mcp" for each in logger.filters):
            logger.addFilter(_is_not_of_mcp)
        self.calls = 0
        self.is_lost = False
        self.fresh_s = math.inf
        self._definition = definition
        self._process = process
        self._auth = auth
        self._interceptor = _MessageInterceptor(trace)
        self._callbacks = ServerCallbacks(definition, log)
        self._log = log
        self._outputs: dict[str, OutputSchema] = {}
        self._schemas: dict[str, Any] = {}
        self._tasks: set[str] = set()
        self._saved_tasks = tasks
        self._watches = Watches()
        self._client: Client

    def fault(self, exc: BaseException) -> _AddressFault:
        """Say why this session over HTTP failed."""
        notes, address = self._interceptor.http, _shown(self._definition.url)
        # These read errors are our own: the response is too large, or compressed.
        if isinstance(exc, httpx2.ReadError) and str(exc).startswith("The response is"):
            return _AddressFault("failed", str(exc))
        if isinstance(exc, httpx2.TransportError) and not isinstance(exc, httpx2.SSEError) and not notes.status:
            return _unreachable(exc, address, urlsplit(self._definition.url).hostname or "")
        if notes.status == 401:
            return _AddressFault("signed out", "It wants credentials (HTTP 401).")
        if notes.status == 403:
            return _AddressFault("refused", "It refuses access (HTTP 403).", "Are its headers right?")
        if notes.status == 429 or notes.status >= 500:
            return _AddressFault("failed", f"It reports an internal error (HTTP {notes.status}).", "Try again later.")
        if notes.location:
            hint = "If that is the server, use that address."
            return _AddressFault("wrong address", f"{address} redirects to {_shown(notes.location)}.", hint)
        is_no_mcp = getattr(getattr(exc, "error", None), "code", 0) == _PARSE_ERROR or isinstance(exc, httpx2.SSEError)
        if notes.status or notes.foreign or is_no_mcp:
            status = f" (HTTP {notes.status})" if notes.status else ""
            message = f"{address} answers, but not as an MCP server{status}."
            return _AddressFault("wrong address", message, _IS_THE_PATH_RIGHT)
        return _AddressFault("failed", error_text(exc))

    async def open(self, stack: AsyncExitStack, on_change: Callable[[], None]) -> ServerListing:
        """Connect and list the tools. `on_change` is called when the server's tools change."""

        async def on_message(message: Any) -> None:
            method = getattr(message, "method", "")
            if method in _CHANGES:
                on_change()
            elif method == "notifications/resources/updated":
                self._watches.heard(str(message.params.uri))

        client = Client(
            self._streams(),
            mode="legacy" if self._definition.type == "sse" or self._definition.protocol == "legacy" else "auto",
            message_handler=on_message,
            client_info=Implementation(name="onetool-ipy", version=__version__),
            cache=CacheConfig(store=_FreshResources(), partition=self._definition.name, target_id="session"),
            **self._callbacks.options,
        )
        self._client = await stack.enter_async_context(client)
        expected, spoken = self._definition.protocol, client.protocol_version
        if expected not in ("auto", "legacy", spoken):
            hint = "Set 'protocol: auto' for this server."
            raise Unavailable(f"It speaks MCP {spoken}, but its definition requires {expected}.", hint=hint)
        stack.callback(self._watches.end)
        await self._set_log_level()
        listing = await self.list_tools()
        await self._subscribe(stack, on_change)
        return listing

    async def _set_log_level(self) -> None:
        """Say which log messages we want. From 2026-07-28 on each request says it, which the SDK does."""
        client, level = self._client, self._definition.log_level
        if client.server_capabilities.logging is None or client.protocol_version > _LAST_HANDSHAKE:
            return
        request = SetLevelRequest(params=SetLevelRequestParams.model_validate({"level": level}))
        try:
            async with asyncio.timeout(_ANSWER_S):
                await client.session.send_request(request, EmptyResult)
        except (MCPError, TimeoutError, ValidationError):
            self._log(f"[client] It does not take the log level '{level}'.")

    async def list_tools(self) -> ServerListing:
        """Ask for all pages of the list."""
        client, interceptor = self._client, self._interceptor
        self.fresh_s = math.inf
        # The SDK lists, too, before it repeats a call whose headers were wrong.
        interceptor.lists.clear()
        if client.server_capabilities.tools is not None:
            await self._pages(client.list_tools, "tools")
        entries = interceptor.lists.pop("tools", [])
        tools, faults = read_tools(entries, self._header_fault)
        offers, more_faults = await self._list_offers()
        self._schemas = {tool["name"]: tool.get("outputSchema") for tool in tools}
        self._tasks = {tool["name"] for tool in entries if requires_task(tool)}
        self._outputs = {}
        info, able = client.server_info, client.server_capabilities
        capabilities = [name for name in ("resources", "prompts", "completions") if getattr(able, name) is not None]
        if able.resources is not None and able.resources.subscribe:
            capabilities.append("subscribe")
        return ServerListing(
            tools,
            (*faults, *more_faults),
            (client.instructions or "")[:_MAX_TEXT],
            "" if info is None else f"{info.name} {info.version}"[:200],
            client.protocol_version,
            **offers,
            capabilities=tuple(capabilities),
            icon="" if info is None else read_icon([icon.model_dump() for icon in info.icons or ()]),
        )

    async def _pages(self, list_page: Callable[..., Any], key: str) -> None:
        """Ask for all pages of a list; the interceptor collects the entries under `key`."""
        cursor, seen = None, set()
        for _ in range(_MAX_PAGES):
            page = await list_page(cursor=cursor)
            cursor = page.next_cursor
            if page.ttl_ms > 0 and self._client.protocol_version > _LAST_HANDSHAKE:
                self.fresh_s = min(self.fresh_s, max(page.ttl_ms / 1000, _LEAST_FRESH_S))
            if not cursor or cursor in seen or len(self._interceptor.lists.get(key, ())) > MAX_TOOLS:
                break
            seen.add(cursor)

    async def _list_offers(self) -> tuple[dict[OfferKind, Any], list[str]]:
        """List resources, templates and prompts, all at once."""
        able = self._client.server_capabilities
        kinds = [kind for kind, (capability, _, _) in LISTS.items() if getattr(able, capability) is not None]
        lists = await asyncio.gather(*(self._list_offer(kind) for kind in kinds))
        offers = {kind: entries for kind, (entries, _) in zip(kinds, lists, strict=True)}
        return offers, [fault for _, faults in lists for fault in faults]

    async def _list_offer(self, kind: OfferKind) -> tuple[tuple[Any, ...], list[str]]:
        """List one kind. A list that fails is empty, and a fault; the tools stay."""
        client, (_, method, key) = self._client, LISTS[kind]
        requests: dict[OfferKind, Callable[..., Any]] = {
            "resources": client.list_resources,
            "templates": client.list_resource_templates,
            "prompts": client.list_prompts,
        }
        faults: list[str] = []
        try:
            async with asyncio.timeout(_OFFERS_S):
                await self._pages(requests[kind], key)
        except MCPError as exc:
            # No capability stands for templates: a server with resources and without templates need not know them.
            if kind != "templates" or exc.error.code != METHOD_NOT_FOUND:
                faults.append(f"It does not answer {method}: {values.cut(str(exc.error.message), 200)}")
        except (TimeoutError, ValidationError) as exc:
            faults.append(f"It does not answer {method} ({type(exc).__name__}).")
        entries, entry_faults = read_offers(kind, self._interceptor.lists.pop(key, []))
        return entries, [*faults, *entry_faults]

    async def watch(self, watch: Watch) -> None:
        """Follow a resource until the session or the watch ends."""
        await self.request(lambda client: self._watches.follow(watch, client))

    async def call(self, tool: str, args: Json, listener: Progress | None) -> Any:
        """Call a tool once. The idle limit counts from the server's last sign."""

        async def send(client: Client, call: RunningCall) -> Any:
            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                call.heard()
                if listener is not None:
                    listener(progress, total, message or "")

            if tool in self._tasks:
                spec = None if call.scope is None else call.scope.spec
                run = TaskRun(client, call, listener, self._definition, self._saved_tasks)
                result = await run.start(tool, args, tool if spec is None else spec.name)
            else:
                # A server that is asked for progress sends it. Nobody needs it without a listener and an idle limit.
                is_needed = listener is not None or self._definition.idle_s is not None
                result = await client.call_tool(tool, args, progress_callback=on_progress if is_needed else None)
            return self._value(result, tool, call)

        return await self._request_in_call(send)

    async def resume(self, saved: SavedTask, progress: Progress | None) -> Any:
        """Wait for the result of a task that an earlier call has started, maybe in another kernel."""

        async def send(client: Client, call: RunningCall) -> Any:
            result = await TaskRun(client, call, progress, self._definition, self._saved_tasks).resume(saved)
            return self._value(result, saved.wire, call)

        return await self._request_in_call(send)

    async def cancel(self, saved: SavedTask) -> bool:
        """Cancel such a task; whether the server has heard that."""
        is_heard: bool = await self.request(lambda client: cancel_task(client, saved.task_id))
        return is_heard

    def _value(self, result: object, tool: str, call: RunningCall) -> Any:
        if call.scope is not None and call.scope.meta is not None:
            notes = {"mcp": meta_of(result), "note": call.note}
            call.scope.meta.update((key, value) for key, value in notes.items() if value)
        return value_of(result, self._output(tool), tool, self._definition.name)

    async def request(self, send: Callable[[Client], Awaitable[object]]) -> Any:
        """Send one request that is not a tool's call."""
        return await self._request_in_call(lambda client, _call: send(client))

    async def _request_in_call(self, send: Callable[[Client, RunningCall], Awaitable[object]]) -> Any:
        """Send one request by the SDK's client, in as many rounds as the server needs.

        Raises NotSent if it certainly did not reach the server, else a CallFailure.
        """
        name, interceptor = self._definition.name, self._interceptor
        undelivered, sent = interceptor.undelivered, interceptor.sent
        call: RunningCall | None = None
        self.calls += 1
        try:
            async with self._callbacks.call() as call:
                return await send(self._client, call)
        except MCPError as exc:
            self.is_lost = self.is_lost or interceptor.undelivered > undelivered or interceptor.sent == sent
            # If no other call was under way, this one was not delivered.
            if self.is_lost and self.calls == 1 and not (call and call.is_begun):
                raise NotSent from exc
            raise _noted(failure_of(exc, name), call) from exc
        except ExecutionFailed as exc:
            raise _noted(exc, call) from None
        except ValidationError as exc:
            message = f"The server '{name}' sent a result that is not valid ({exc.error_count()} errors)."
            raise InvalidOutput(message) from None
        except InputRequiredRoundsExceededError as exc:
            message = f"The server '{name}' asked {exc.max_rounds} times in a row and did not finish."
            raise ExecutionFailed(message) from None
        finally:
            self.calls -= 1

    def _output(self, tool: str) -> OutputSchema:
        if tool not in self._outputs:
            self._outputs[tool] = OutputSchema(self._schemas.get(tool))
        return self._outputs[tool]

    def _header_fault(self, schema: object) -> str | None:
        """Say what is wrong with a tool's HTTP headers. The newer protocol demands that such a tool is left out."""
        return None if self._client.protocol_version <= _LAST_HANDSHAKE else find_invalid_x_mcp_header(schema)

    async def responds(self) -> bool:
        """Ask the server for a sign of life. An error that the server itself sent is one too."""
        session, undelivered = self._client.session, self._interceptor.undelivered
        try:
            async with asyncio.timeout(min(_ANSWER_S, self._definition.timeout_s)):
                if session.initialize_result is not None:
                    await session.send_request(PingRequest(), EmptyResult)
                else:
                    await session.send_discover(self._client.protocol_version)
        except Exception as exc:  # noqa: BLE001 - the SDK raises many kinds; only an error of the server is a response
            self.is_lost = self._interceptor.undelivered > undelivered
            return isinstance(exc, MCPError) and exc.error.code not in (_CLOSED, _TIMED_OUT)
        return True

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the streams to the server, and end its process afterwards."""
        definition, interceptor = self._definition, self._interceptor
        if self._process is not None:
            try:
                yield _PipeReader(self._process, interceptor), _PipeWriter(self._process, interceptor)
            finally:
                self._process.end()
            return
        client = http_client(definition, interceptor, self._auth)
        async with AsyncExitStack() as stack:
            if definition.type == "sse":
                streams = sse_client(definition.url, httpx_client_factory=lambda *_args, **_options: client)
            else:
                # The older transport closes the client itself, this one does not.
                await stack.enter_async_context(client)
                streams = streamable_http_client(definition.url, http_client=client, max_sse_event_size=MAX_LINE)
            reading, writing = await stack.enter_async_context(streams)
            yield _InterceptedStream(reading, interceptor), _InterceptedStream(writing, interceptor)

    async def _subscribe(self, stack: AsyncExitStack, on_change: Callable[[], None]) -> None:
        """Subscribe to changes of the list, which a server of the newer protocol sends only then."""
        client = self._client
        able = client.server_capabilities
        topics: dict[str, Any] = {
            f"{what}_list_changed": bool(offered is not None and offered.list_changed)
            for what, offered in (("tools", able.tools), ("resources", able.resources), ("prompts", able.prompts))
        }
        if not any(topics.values()) or client.protocol_version <= _LAST_HANDSHAKE:
            return
        subscription = await stack.enter_async_context(client.listen(**topics))

        async def follow() -> None:
            # When the stream ends, the list stays as it was last known.
            with suppress(Exception):
                async for _event in subscription:
                    on_change()

        task = asyncio.get_running_loop().create_task(follow(), context=contextvars.Context())
        stack.callback(task.cancel)


def _noted(failure: CallFailure, call: RunningCall | None) -> CallFailure:
    """Return the failure. Its hint says if the server asked and got no answer, or is still working."""
    if call is not None and call.left:
        failure.hint = call.left
    elif call is not None and call.note and not failure.hint and call.note not in failure.message:
        failure.hint = call.note
    return failure


def _is_not_of_mcp(record: logging.LogRecord) -> bool:
    return "mcp" not in record.pathname.replace("\\", "/").split("/")


class _FreshResources(InMemoryResponseCacheStore):
    """The resources that were read and count as fresh (`ttlMs`), small ones only. Nothing else is kept by the SDK."""

    def __init__(self) -> None:
        super().__init__(max_entries=_MAX_FRESH_RESOURCES)

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        contents = getattr(entry.value, "contents", ())
        size = sum(len(str(getattr(part, "text", "") or getattr(part, "blob", ""))) for part in contents)
        if key.method == "resources/read" and size <= _MAX_FRESH_SIZE:
            await super().set(key, entry)


class _PendingRequest(NamedTuple):
    """A request that waits for its response. `is_modern` says that it names its protocol, as from 2026-07-28 on."""

    method: str
    is_modern: bool


class _MessageInterceptor:
    """Sees every message of a session. `lists` collects the raw entries of the results of `*/list`, by their key.

    `sent` counts the messages that left; `undelivered` counts requests that certainly did not reach the server;
    `http` notes what its responses show.
    """

    def __init__(self, trace: MessageTrace) -> None:
        self.sent = 0
        self.undelivered = 0
        self.http = _HttpNotes()
        self.lists: dict[str, list[Any]] = {}
        self._pending: dict[Any, _PendingRequest] = {}
        self._trace = trace

    def on_send(self, message: Any, data: bytes | None = None) -> None:
        self._trace.note(message, is_sent=True, data=data)
        method, number = getattr(message, "method", ""), getattr(message, "id", None)
        if method and number is not None:
            meta = (message.params or {}).get("_meta") or {}
            self._pending[number] = _PendingRequest(method, is_modern=PROTOCOL_VERSION_META_KEY in meta)

    def on_receive(self, message: Any, data: bytes | None = None) -> None:
        self._trace.note(message, is_sent=False, data=data)
        if hasattr(message, "method"):
            return
        request, result = self._pending.pop(message.id, None), getattr(message, "result", None)
        if request is None or not isinstance(result, dict):
            return
        # The SDK takes the start of a task for the result of a call, which must have content.
        if isinstance(result.get("task"), dict):
            result.setdefault("content", [])
        # The protocol takes a result without these for complete, stale and private; the SDK refuses it.
        if request.is_modern:
            result.setdefault("resultType", "complete")
            if request.method in _CACHEABLE:
                result.setdefault("ttlMs", 0)
                result.setdefault("cacheScope", "private")
        key = _LISTED.get(request.method, "")
        if isinstance(result.get(key), list):
            self.lists.setdefault(key, []).extend(result[key])
            stripped = []
            for tool in result[key] if key == "tools" else ():
                if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
                    continue
                # The SDK sees the name of the tool. It needs the schema only if that marks arguments as HTTP headers.
                schema = tool.get("inputSchema")
                is_object = isinstance(schema, dict) and schema.get("type") == "object"
                has_headers = is_object and "x-mcp-header" in json.dumps(schema)
                stripped.append({"name": tool["name"], "inputSchema": schema if has_headers else {"type": "object"}})
            result[key] = stripped


class _PipeStream:
    """One direction of a server's pipes. The session ends the process, so closing a stream does nothing."""

    def __init__(self, process: ServerProcess, interceptor: _MessageInterceptor) -> None:
        self._process, self._interceptor = process, interceptor

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _PipeStream:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        return None


class _PipeReader(_PipeStream):
    """The messages on a server's stdout. Other lines are noted in `process.junk` and left out."""

    async def receive(self) -> Any:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> _PipeReader:
        return self

    async def __anext__(self) -> Any:
        while True:
            line = await self._process.line()
            if line is None:
                raise StopAsyncIteration
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip() and not self._process.junk:
                    start = line[:120].decode("utf-8", "replace").strip()
                    self._process.junk = f"Its stdout is not MCP: {start!r}"
                continue
            self._interceptor.on_receive(message, line)
            return SessionMessage(message)


class _PipeWriter(_PipeStream):
    """A server's stdin, message by message."""

    async def send(self, item: Any, /) -> None:
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8") + b"\n"
        self._interceptor.on_send(message, data)
        if not self._process.is_alive():
            self._interceptor.undelivered += 1
            raise anyio.BrokenResourceError
        try:
            await self._process.send(data)
        except OSError as exc:
            raise anyio.BrokenResourceError from exc
        self._interceptor.sent += 1


def http_client(
    definition: ServerDefinition, interceptor: _MessageInterceptor | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """The HTTP client for a server and its sign-in. Uses no proxy of the environment and follows no redirect."""
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **definition.headers},
        timeout=httpx2.Timeout(_HTTP_S, read=_HTTP_READ_S),
        transport=_HttpTransport(definition.url, interceptor or _MessageInterceptor(MessageTrace())),
        trust_env=False,
        auth=auth,
    )


class _HttpTransport(httpx2.AsyncBaseTransport):
    """The network with a limit on response sizes. Notes the requests that certainly did not reach the server.

    The user chose the server's own address. Any other one was named by the server, for its sign-in, and is checked.
    """

    def __init__(self, url: str, interceptor: _MessageInterceptor) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._elsewhere: httpx2.AsyncHTTPTransport | None = None
        self._url = httpx2.URL(url)
        self._interceptor = interceptor

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_own = _origin(request.url) == _origin(self._url)
        if not is_own and self._elsewhere is None:
            self._elsewhere = _SignInTransport(self._url)
        transport = self._inner if is_own or self._elsewhere is None else self._elsewhere
        try:
            response = await transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            self._interceptor.undelivered += _is_request(request)
            raise
        content_type = response.headers.get("content-type", "")
        # A sign-in asks other addresses.
        if request.url == self._url:
            self._note(request, response, content_type)
        if response.status_code in _UNKNOWN_SESSION and _SESSION_HEADER in request.headers:
            self._interceptor.undelivered += _is_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("The response is compressed, which was not asked for.")
        if not content_type.startswith("text/event-stream"):
            response.stream = _LimitedBody(response.stream)
        return response

    def _note(self, request: httpx2.Request, response: httpx2.Response, content_type: str) -> None:
        notes = self._interceptor.http
        if response.is_redirect:
            notes.location = str(request.url.join(response.headers.get("location", "")))
        elif response.status_code >= 400:
            notes.status = response.status_code
        elif response.status_code == 200 and not content_type.startswith(_MCP_TYPES):
            notes.foreign = content_type or "nothing"

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._elsewhere is not None:
            await self._elsewhere.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


class _SignInTransport(httpx2.AsyncHTTPTransport):
    """The network as a server may use it through us: to addresses that are no nearer to us than the server itself."""

    def __init__(self, server: httpx2.URL) -> None:
        super().__init__()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(), network_backend=_CheckedBackend(server)
        )


class _CheckedBackend(httpcore2.AnyIOBackend):
    """Looks a host up once, checks every address, and dials one of those."""

    def __init__(self, server: httpx2.URL) -> None:
        self._server = server

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await _addresses(host, port)
        own_addresses = await _addresses(self._server.host, self._server.port or 443)
        limit = max(map(_nearness, own_addresses), default=0)
        if any(_nearness(address) > limit for address in addresses):
            raise Unavailable(
                f"The server names an address for its sign-in that is not safe: '{host}' is not a public address."
            )
        fault: Exception = httpcore2.ConnectError(f"There is no host '{host}'.")
        for address in dict.fromkeys(addresses):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                fault = exc
        raise fault


async def _addresses(host: str, port: int) -> list[str]:
    """Look up a host; empty if there is none."""
    try:
        return await asyncio.to_thread(look_up, host.strip("[]"), port)
    except OSError:
        return []


def _nearness(address: str) -> int:
    """How near to us an address is: 0 on the internet, 1 in a private network, 2 on this machine."""
    return 0 if is_public(address) else 2 if is_this_machine(address) else 1


class _LimitedBody(httpx2.AsyncByteStream):
    """A body with a size limit. The SDK limits the events of an event stream itself."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > MAX_LINE:
                raise httpx2.ReadError(f"The response is larger than {MAX_LINE // 2**20} MB.")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_request(request: httpx2.Request) -> bool:
    """Whether an HTTP request carries a JSON-RPC request. A notification or resuming a stream is not one."""
    if request.method != "POST":
        return False
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "id" in message and "method" in message


class _InterceptedStream:
    """A stream of the SDK whose messages pass the interceptor; everything else is the stream's own."""

    def __init__(self, inner: Any, interceptor: _MessageInterceptor) -> None:
        self._inner, self._interceptor = inner, interceptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any, /) -> None:
        self._interceptor.on_send(item.message)
        await self._inner.send(item)
        self._interceptor.sent += 1

    async def receive(self) -> Any:
        return self._seen(await self._inner.receive())

    def __aiter__(self) -> _InterceptedStream:
        return self

    async def __anext__(self) -> Any:
        return self._seen(await self._inner.__anext__())

    async def __aenter__(self) -> _InterceptedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._inner.__aexit__(*exc)

    def _seen(self, item: Any) -> Any:
        if not isinstance(item, Exception):
            self._interceptor.on_receive(item.message)
        return item


class _HttpNotes:
    """What the responses of one session showed: the last error status, and signs that no MCP server sends them."""

    def __init__(self) -> None:
        self.status = 0
        self.location = ""
        self.foreign = ""


class _AddressFault(NamedTuple):
    """Why an address does not work."""

    state: FailureState
    text: str
    hint: str = ""


def _unreachable(exc: BaseException, address: str, host: str) -> _AddressFault:
    causes = list(chain(exc))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return _AddressFault("unreachable", f"There is no host '{host}'.", "Is the address spelled right?")
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return _AddressFault("unreachable", f"The certificate of '{host}' is not valid here.")
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return _AddressFault("unreachable", f"{address} does not speak https.", "Is it http://, or another port?")
    if isinstance(exc, httpx2.TimeoutException):
        message = f"{address} does not answer in time."
        return _AddressFault("unreachable", message, "Does it run, and can it be reached?")
    if isinstance(exc, httpx2.ConnectError):
        return _AddressFault("unreachable", f"Nothing answers at {address}.", "Does it run, and is the port right?")
    is_broken = isinstance(exc, httpx2.NetworkError) or any(isinstance(cause, ConnectionResetError) for cause in causes)
    problem = "breaks the connection off" if is_broken else "does not answer properly"
    return _AddressFault("wrong address", f"{address} {problem}.", _IS_THE_PATH_RIGHT)


def _shown(url: str) -> str:
    """An address without user name and query, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return values.cut(f"{parts.scheme}://{host}{parts.path}", 120)
