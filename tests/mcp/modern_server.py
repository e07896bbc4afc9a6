"""An MCP server of the newest protocol, made with the official SDK: one resource that changes,
which clients follow.

A program of its own. Clients of 2026-07-28 follow resources by `subscriptions/listen`.
"""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("modern")
state = {"count": 0}


@server.resource("count://now")
def count() -> str:
    return str(state["count"])


@server.resource("count://{name}/twice")
def twice(name: str) -> str:
    return name * 2


@server.prompt()
def ask(topic: str) -> str:
    return f"Tell me about {topic}."


@server.tool()
async def add(context: Context[Any]) -> str:
    state["count"] += 1
    await context.notify_resource_updated("count://now")
    return "added"


@server.tool()
def read(text: str) -> str:
    return f"the tool, {text}"


if __name__ == "__main__":
    server.run()
