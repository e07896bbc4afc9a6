"""Every message of a session with a server passes here, in both directions.

Takes the entries out of the results of `*/list`: the SDK would reject the whole list for one
invalid entry, and run schemas from outside through a checker that a pattern can hang. `listing`
checks the tools instead; the SDK sees only their names. Fills in what the protocol lets a server
leave out and the SDK demands.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from mcp_types import PROTOCOL_VERSION_META_KEY

from onetool_ipy.mcp.listing import LISTS
from onetool_ipy.mcp.trace import MessageTrace

_LISTED = {"tools/list": "tools", **{method: key for _, method, key in LISTS.values()}}
_CACHEABLE = ("server/discover", "resources/read", *_LISTED)


class _PendingRequest(NamedTuple):
    """A request that waits for its response. `is_modern` says that it names its protocol, as from
    2026-07-28 on."""

    method: str
    is_modern: bool


class MessageInterceptor:
    """Sees every message of a session. `lists` collects the raw entries of the results of `*/list`,
    by their key.

    `sent` counts the messages that left; `undelivered` counts requests that certainly did not reach
    the server; `http` notes what its responses show.
    """

    def __init__(self, trace: MessageTrace) -> None:
        self.sent = 0
        self.undelivered = 0
        self.http = HttpNotes()
        self.lists: dict[str, list[Any]] = {}
        self._pending: dict[Any, _PendingRequest] = {}
        self._trace = trace

    def on_send(self, message: Any, data: bytes | None = None) -> None:
        self._trace.note(message, is_sent=True, data=data)
        method, number = getattr(message, "method", ""), getattr(message, "id", None)
        if method and number is not None:
            meta = (message.params or {}).get("_meta") or {}
            self._pending[number] = _PendingRequest(
                method, is_modern=PROTOCOL_VERSION_META_KEY in meta
            )

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
        # The protocol takes a result without these for complete, stale and private; the SDK refuses
        # it.
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
                # The SDK sees the name of the tool. It needs the schema only if that marks
                # arguments as HTTP headers.
                schema = tool.get("inputSchema")
                is_object = isinstance(schema, dict) and schema.get("type") == "object"
                has_headers = is_object and "x-mcp-header" in json.dumps(schema)
                stripped.append(
                    {
                        "name": tool["name"],
                        "inputSchema": schema if has_headers else {"type": "object"},
                    }
                )
            result[key] = stripped


class InterceptedStream:
    """A stream of the SDK whose messages pass the interceptor; everything else is the stream's
    own."""

    def __init__(self, inner: Any, interceptor: MessageInterceptor) -> None:
        self._inner, self._interceptor = inner, interceptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, item: Any, /) -> None:
        self._interceptor.on_send(item.message)
        await self._inner.send(item)
        self._interceptor.sent += 1

    async def receive(self) -> Any:
        return self._seen(await self._inner.receive())

    def __aiter__(self) -> InterceptedStream:
        return self

    async def __anext__(self) -> Any:
        return self._seen(await self._inner.__anext__())

    async def __aenter__(self) -> InterceptedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._inner.__aexit__(*exc)

    def _seen(self, item: Any) -> Any:
        if not isinstance(item, Exception):
            self._interceptor.on_receive(item.message)
        return item


class HttpNotes:
    """What the responses of one session showed: the last error status, and signs that no MCP server
    sends them."""

    def __init__(self) -> None:
        self.status = 0
        self.location = ""
        self.foreign = ""
