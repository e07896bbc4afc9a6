"""ToolboxServer: a toolbox as an MCP server. Lists its tools, runs calls, reports progress and changes.

It offers what its allow-list names, and without one the tools that only read: no person is asked here. Tools have their
wire names, since many clients accept no others; a canonical name works too. Everything sent is masked; a result larger
than `output.max_inline_bytes` is sent as a handle. `ot.result` reads the handles that were sent to clients here,
whatever the allow-list; it is listed after the first one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.core import current, names
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.render.views import counted
from onetool_ipy.toolbox import Toolbox

__all__ = ["ToolboxServer"]

_PAGE = 250
_MAX_HANDLES = 10_000
_RESULT_TOOL = "ot.result"
_INSTRUCTIONS = (
    "Tools of a onetool_ipy project. A large result comes as {handle, total_lines, preview}: "
    "read more of it with the tool %s (handle, offset, limit, search)."
)

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it prints tracebacks of client errors


class ToolboxServer:
    """One toolbox as an MCP server. `allow` is an allow-list; None offers the tools that only read."""

    def __init__(self, box: Toolbox, *, allow: Sequence[str] | None = None) -> None:
        self._box = box
        self._allow = allow
        self._handles: dict[str, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._bus = InMemorySubscriptionBus()
        self._clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._wire: dict[str, str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        reader = self._names().get(_RESULT_TOOL, _RESULT_TOOL)
        self.server: Server[Any] = Server(
            "onetool_ipy",
            version=__version__,
            instructions=_INSTRUCTIONS % reader,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self._unsubscribe = box.subscribe(changed=self._changed)

    def options(self) -> InitializationOptions:
        """Return the options of the handshake."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=True))

    def offer(self, flag: str) -> str:
        """Say how many tools are offered, how many are not, and how to offer others with that flag."""
        known = [spec for spec in self._box.registry.list() if not spec.disabled]
        offered = [spec for spec in known if self._is_offered(spec)]
        text = f"Offering {counted(len(offered), 'tool')}"
        if self._allow is None:
            left = sum(not spec.read_only for spec in known)
            others = f" Left out, since they may change something: {left}." if left else ""
            return f"{text} that only read.{others} Name what to offer instead with {flag}; '*' is all."
        lost = [entry for entry in self._allow if not any(names.allowed(spec.name, [entry]) for spec in known)]
        return text + (f". No tool is named {', '.join(map(repr, lost))}." if lost else ".")

    def close(self) -> None:
        """Stop watching the toolbox. May be called twice."""
        self._unsubscribe()

    async def _list(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._note_client(context)
        await asyncio.to_thread(self._box.registry.refresh)
        wire = self._names()
        specs = [spec for spec in self._box.registry.list() if not spec.disabled and self._is_listed(spec)]
        start = _position(params.cursor if params is not None else None, len(specs))
        page = specs[start : start + _PAGE]
        more = start + _PAGE < len(specs)
        return types.ListToolsResult(
            tools=[self._tool(spec, wire[spec.name]) for spec in page], next_cursor=str(start + _PAGE) if more else None
        )

    def _tool(self, spec: ToolSpec, wire: str) -> types.Tool:
        return types.Tool(
            name=wire,
            title=spec.name,
            description=self._box.mask(spec.description),
            input_schema=values.map_text(values.to_json(spec.parameters), self._box.mask),
            annotations=types.ToolAnnotations(title=spec.name, read_only_hint=spec.read_only),
        )

    async def _call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        self._note_client(context)
        name, args = self._canonical(params.name), params.arguments or {}
        reporter = _ProgressReporter(context)
        token = current.enter(current.Scope(self._box, progress=reporter.report))
        try:
            result = await self._box.acall(name, args, source="mcp", allow=self._allowed(name, args))
        finally:
            current.leave(token)
            await reporter.close()
        answer = await asyncio.to_thread(self._answer, result)
        self._note_handle(result, answer)
        return answer

    def _is_offered(self, spec: ToolSpec) -> bool:
        if spec.name in names.FOR_PEOPLE:
            return False
        if self._allow is not None:
            return names.allowed(spec.name, self._allow)
        return spec.read_only and names.allowed(spec.name, self._box.config.settings.ask.tool_allow)

    def _is_listed(self, spec: ToolSpec) -> bool:
        return self._is_offered(spec) or (spec.name == _RESULT_TOOL and bool(self._handles))

    def _allowed(self, name: str, args: Any) -> Sequence[str]:
        """Return the allow-list of one call."""
        handle = args.get("handle") if name == _RESULT_TOOL and isinstance(args, dict) else None
        if isinstance(handle, str) and handle in self._handles:
            return (_RESULT_TOOL,)
        if self._allow is not None:
            return self._allow
        spec = self._box.registry.find(name)
        if spec is None or not self._is_offered(spec):
            return ()
        writes = isinstance(args, dict) and bool(args.get(names.WRITING.get(spec.name, "")))
        return () if writes else (spec.name,)

    def _note_handle(self, result: ToolResult, answer: types.CallToolResult) -> None:
        """Remember a handle that is sent to a client. After the first one `ot.result` is listed."""
        handle = (answer.structured_content or {}).get("handle")
        if not isinstance(handle, str) or result.meta.get("handle") != handle:
            return
        is_first = not self._handles
        self._handles[handle] = None
        if len(self._handles) > _MAX_HANDLES:
            self._handles.pop(next(iter(self._handles)))
        reader = self._box.registry.get(_RESULT_TOOL)
        if is_first and reader is not None and not self._is_offered(reader):
            task = asyncio.get_running_loop().create_task(self._notify_all())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _answer(self, result: ToolResult) -> types.CallToolResult:
        box = self._box
        if result.error is not None:
            failure = values.map_text(values.to_json(result.to_dict()["error"]), box.mask)
            content = types.TextContent(text=_failure_text(failure))
            return types.CallToolResult(content=[content], structured_content={"error": failure}, is_error=True)
        try:
            data = values.map_text(box.outgoing(result), box.mask)
        except OneToolError as exc:
            return types.CallToolResult(content=[types.TextContent(text=box.mask(exc.message))], is_error=True)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        structured = data if isinstance(data, dict) else {"result": data}
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured)

    def _names(self) -> dict[str, str]:
        known = self._wire
        if known is None:
            known = self._wire = names.wire_names(spec.name for spec in self._box.registry.known())
        return known

    def _canonical(self, asked: str) -> str:
        """Return the canonical name of a tool; a client may use its wire name or its own name."""
        for name, wire in self._names().items():
            if wire == asked:
                return name
        return asked

    def _note_client(self, context: ServerRequestContext[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        # The SDK's session lives for one request only; the connection behind it has no public name.
        self._clients.add(getattr(context.session, "_connection", context.session))

    def _changed(self) -> None:
        """The tools of the registry changed. Called in any thread."""
        self._wire = None
        loop = self._loop
        if loop is not None and not loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._notify_all(), loop)

    async def _notify_all(self) -> None:
        await self._bus.publish(ToolsListChanged())
        for client in list(self._clients):
            try:
                await client.send_tool_list_changed()
            except Exception:  # noqa: BLE001 - the client is gone; the SDK raises many kinds for that
                self._clients.discard(client)


class _ProgressReporter:
    """Sends a call's progress to the client. `report` may be called in any thread; the newest report wins."""

    def __init__(self, context: ServerRequestContext[Any]) -> None:
        self._session = context.session
        self._loop = asyncio.get_running_loop()
        self._newest: deque[tuple[float, float | None, str]] = deque(maxlen=1)  # two threads meet here
        self._sending: asyncio.Task[None] | None = None

    def report(self, done: float, total: float | None, text: str) -> None:
        self._newest.append((done, total, text))
        self._loop.call_soon_threadsafe(self._send)

    async def close(self) -> None:
        """Send the last report before the result is sent."""
        await asyncio.sleep(0)
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)

    def _send(self) -> None:
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        while self._newest:
            done, total, text = self._newest.pop()
            await self._session.report_progress(done, total, text or None)


def _position(cursor: str | None, count: int) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10 and 0 < int(cursor) <= count):
        raise MCPError(types.INVALID_PARAMS, f"The cursor '{cursor[:40]}' is not one of this server's.")
    return int(cursor)


def _failure_text(failure: dict[str, Any]) -> str:
    reason = f" ({failure['reason']})" if failure.get("reason") else ""
    return f"{failure['code']}{reason}: {failure['message']}"
