"""The official SDK's client session with one server: over the pipes of a process, or over
streamable HTTP.

Importing the SDK takes 2 s, so `server` imports this module on the loop thread when a server
starts. All callbacks of the SDK's client are set in `ServerSession.open`. Its exceptions become
ours here.

Every message passes `interceptor`, by way of `pipes` or `transport`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.client.caching import CacheConfig, CacheEntry, CacheKey, InMemoryResponseCacheStore
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import (
    METHOD_NOT_FOUND,
    EmptyResult,
    Implementation,
    PingRequest,
    SetLevelRequest,
    SetLevelRequestParams,
)
from pydantic import ValidationError

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, ExecutionFailed, InvalidOutput, Unavailable
from onetool_ipy.base.values import Json
from onetool_ipy.mcp.callbacks import RunningCall, ServerCallbacks
from onetool_ipy.mcp.content import NotSent, OutputSchema, failure_of, meta_of, value_of
from onetool_ipy.mcp.definition import ServerDefinition
from onetool_ipy.mcp.interceptor import InterceptedStream, MessageInterceptor
from onetool_ipy.mcp.listing import (
    LISTS,
    MAX_TOOLS,
    OfferKind,
    ServerListing,
    read_icon,
    read_offers,
    read_tools,
)
from onetool_ipy.mcp.pipes import PipeReader, PipeWriter
from onetool_ipy.mcp.process import MAX_LINE, ServerProcess
from onetool_ipy.mcp.resources import Watch, Watches
from onetool_ipy.mcp.tasks import TaskRun, cancel_task, requires_task
from onetool_ipy.mcp.trace import MessageTrace
from onetool_ipy.mcp.transport import AddressFault, address_fault, http_client
from onetool_ipy.stores.tasks import SavedTask, TaskStore

Progress = Callable[[float, float | None, str], None]
"""Called with done, total and text."""

_ANSWER_S = 3.0
_MAX_PAGES = 1_000
_MAX_TEXT = 20_000
_LAST_HANDSHAKE = "2025-11-25"
_CHANGES = tuple(f"notifications/{what}/list_changed" for what in ("tools", "resources", "prompts"))
_OFFERS_S = 5.0
_LEAST_FRESH_S = 1.0
_MAX_FRESH_RESOURCES = 100
_MAX_FRESH_SIZE = 200_000
_CLOSED, _TIMED_OUT = -32000, -32001


class ServerSession:
    """A session of the SDK's client. `is_lost` says that the server no longer takes requests of
    this session.

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
        self._interceptor = MessageInterceptor(trace)
        self._callbacks = ServerCallbacks(definition, log)
        self._log = log
        self._outputs: dict[str, OutputSchema] = {}
        self._schemas: dict[str, Any] = {}
        self._tasks: set[str] = set()
        self._saved_tasks = tasks
        self._watches = Watches()
        self._client: Client

    def fault(self, exc: BaseException) -> AddressFault:
        """Say why this session over HTTP failed."""
        return address_fault(self._definition.url, self._interceptor.http, exc)

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
            mode="legacy"
            if self._definition.type == "sse" or self._definition.protocol == "legacy"
            else "auto",
            message_handler=on_message,
            client_info=Implementation(name="onetool-ipy", version=__version__),
            cache=CacheConfig(
                store=_FreshResources(), partition=self._definition.name, target_id="session"
            ),
            **self._callbacks.options,
        )
        self._client = await stack.enter_async_context(client)
        expected, spoken = self._definition.protocol, client.protocol_version
        if expected not in ("auto", "legacy", spoken):
            hint = "Set 'protocol: auto' for this server."
            raise Unavailable(
                f"It speaks MCP {spoken}, but its definition requires {expected}.", hint=hint
            )
        stack.callback(self._watches.end)
        await self._set_log_level()
        listing = await self.list_tools()
        await self._subscribe(stack, on_change)
        return listing

    async def _set_log_level(self) -> None:
        """Say which log messages we want. From 2026-07-28 on each request says it, which the SDK
        does."""
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
        capabilities = [
            name
            for name in ("resources", "prompts", "completions")
            if getattr(able, name) is not None
        ]
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
            icon=""
            if info is None
            else read_icon([icon.model_dump() for icon in info.icons or ()]),
        )

    async def _pages(self, list_page: Callable[..., Any], key: str) -> None:
        """Ask for all pages of a list; the interceptor collects the entries under `key`."""
        cursor, seen = None, set()
        for _ in range(_MAX_PAGES):
            page = await list_page(cursor=cursor)
            cursor = page.next_cursor
            if page.ttl_ms > 0 and self._client.protocol_version > _LAST_HANDSHAKE:
                self.fresh_s = min(self.fresh_s, max(page.ttl_ms / 1000, _LEAST_FRESH_S))
            if (
                not cursor
                or cursor in seen
                or len(self._interceptor.lists.get(key, ())) > MAX_TOOLS
            ):
                break
            seen.add(cursor)

    async def _list_offers(self) -> tuple[dict[OfferKind, Any], list[str]]:
        """List resources, templates and prompts, all at once."""
        able = self._client.server_capabilities
        kinds = [
            kind
            for kind, (capability, _, _) in LISTS.items()
            if getattr(able, capability) is not None
        ]
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
            # No capability stands for templates: a server with resources and without templates need
            # not know them.
            if kind != "templates" or exc.error.code != METHOD_NOT_FOUND:
                faults.append(
                    f"It does not answer {method}: {values.cut(str(exc.error.message), 200)}"
                )
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
            async def on_progress(
                progress: float, total: float | None, message: str | None
            ) -> None:
                call.heard()
                if listener is not None:
                    listener(progress, total, message or "")

            if tool in self._tasks:
                spec = None if call.scope is None else call.scope.spec
                run = TaskRun(client, call, listener, self._definition, self._saved_tasks)
                result = await run.start(tool, args, tool if spec is None else spec.name)
            else:
                # A server that is asked for progress sends it. Nobody needs it without a listener
                # and an idle limit.
                is_needed = listener is not None or self._definition.idle_s is not None
                result = await client.call_tool(
                    tool, args, progress_callback=on_progress if is_needed else None
                )
            return self._value(result, tool, call)

        return await self._request_in_call(send)

    async def resume(self, saved: SavedTask, progress: Progress | None) -> Any:
        """Wait for the result of a task that an earlier call has started, maybe in another
        kernel."""

        async def send(client: Client, call: RunningCall) -> Any:
            result = await TaskRun(
                client, call, progress, self._definition, self._saved_tasks
            ).resume(saved)
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

    async def _request_in_call(
        self, send: Callable[[Client, RunningCall], Awaitable[object]]
    ) -> Any:
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
            self.is_lost = (
                self.is_lost or interceptor.undelivered > undelivered or interceptor.sent == sent
            )
            # If no other call was under way, this one was not delivered.
            if self.is_lost and self.calls == 1 and not (call and call.is_begun):
                raise NotSent from exc
            raise _noted(failure_of(exc, name), call) from exc
        except ExecutionFailed as exc:
            raise _noted(exc, call) from None
        except ValidationError as exc:
            message = (
                f"The server '{name}' sent a result that is not valid ({exc.error_count()} errors)."
            )
            raise InvalidOutput(message) from None
        except InputRequiredRoundsExceededError as exc:
            message = (
                f"The server '{name}' asked {exc.max_rounds} times in a row and did not finish."
            )
            raise ExecutionFailed(message) from None
        finally:
            self.calls -= 1

    def _output(self, tool: str) -> OutputSchema:
        if tool not in self._outputs:
            self._outputs[tool] = OutputSchema(self._schemas.get(tool))
        return self._outputs[tool]

    def _header_fault(self, schema: object) -> str | None:
        """Say what is wrong with a tool's HTTP headers. The newer protocol demands that such a tool
        is left out."""
        return (
            None
            if self._client.protocol_version <= _LAST_HANDSHAKE
            else find_invalid_x_mcp_header(schema)
        )

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
                yield (
                    PipeReader(self._process, interceptor),
                    PipeWriter(self._process, interceptor),
                )
            finally:
                self._process.end()
            return
        client = http_client(definition, interceptor, self._auth)
        async with AsyncExitStack() as stack:
            if definition.type == "sse":
                streams = sse_client(
                    definition.url, httpx_client_factory=lambda *_args, **_options: client
                )
            else:
                # The older transport closes the client itself, this one does not.
                await stack.enter_async_context(client)
                streams = streamable_http_client(
                    definition.url, http_client=client, max_sse_event_size=MAX_LINE
                )
            reading, writing = await stack.enter_async_context(streams)
            yield InterceptedStream(reading, interceptor), InterceptedStream(writing, interceptor)

    async def _subscribe(self, stack: AsyncExitStack, on_change: Callable[[], None]) -> None:
        """Subscribe to changes of the list, which a server of the newer protocol sends only
        then."""
        client = self._client
        able = client.server_capabilities
        topics: dict[str, Any] = {
            f"{what}_list_changed": bool(offered is not None and offered.list_changed)
            for what, offered in (
                ("tools", able.tools),
                ("resources", able.resources),
                ("prompts", able.prompts),
            )
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
    """Return the failure. Its hint says if the server asked and got no answer, or is still
    working."""
    if call is not None and call.left:
        failure.hint = call.left
    elif call is not None and call.note and not failure.hint and call.note not in failure.message:
        failure.hint = call.note
    return failure


def _is_not_of_mcp(record: logging.LogRecord) -> bool:
    return "mcp" not in record.pathname.replace("\\", "/").split("/")


class _FreshResources(InMemoryResponseCacheStore):
    """The resources that were read and count as fresh (`ttlMs`), small ones only. Nothing else is
    kept by the SDK."""

    def __init__(self) -> None:
        super().__init__(max_entries=_MAX_FRESH_RESOURCES)

    async def set(self, key: CacheKey, entry: CacheEntry) -> None:
        contents = getattr(entry.value, "contents", ())
        size = sum(
            len(str(getattr(part, "text", "") or getattr(part, "blob", ""))) for part in contents
        )
        if key.method == "resources/read" and size <= _MAX_FRESH_SIZE:
            await super().set(key, entry)
