"""An MCP server of the newest protocol that says for how long its answers count, made with the
official SDK.

A program of its own. Its resource counts how often it was read; each list of tools has one tool
more. It tells nobody of new tools.
"""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

state = {"lists": 0, "reads": 0}
bus = InMemorySubscriptionBus()


async def list_tools(_context: ServerRequestContext[Any], _params: Any) -> types.ListToolsResult:
    state["lists"] += 1
    names = ["change", *(f"tool{number}" for number in range(state["lists"]))]
    meta = {"shop.example/color": "green"}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, input_schema={"type": "object"}, _meta=meta) for name in names]
    )


async def call_tool(_context: ServerRequestContext[Any], _params: Any) -> types.CallToolResult:
    await bus.publish(ResourceUpdated(uri="count://reads"))
    return types.CallToolResult(content=[types.TextContent(text="changed")])


async def list_resources(
    _context: ServerRequestContext[Any], _params: Any
) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[types.Resource(uri="count://reads", name="reads")])


async def read(_context: ServerRequestContext[Any], params: types.ReadResourceRequestParams) -> Any:
    state["reads"] += 1
    padding = " " * (300_000 if "large" in str(params.uri) else 0)
    text = types.TextResourceContents(
        uri=str(params.uri), text=f"read {state['reads']} times{padding}"
    )
    return types.ReadResourceResult(contents=[text])


async def main() -> None:
    server: Server[Any] = Server(
        "fresh",
        cache_hints={
            "tools/list": CacheHint(ttl_ms=1),
            "resources/read": CacheHint(ttl_ms=3_600_000),
        },
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read,
        on_subscriptions_listen=ListenHandler(bus),
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
