"""An MCP server made with the official SDK's own helper, as most authors write one. A program of
its own.

Runs with any version of the SDK: `MCPServer` since 2, `FastMCP` before.
"""

from __future__ import annotations

from typing import Any, TypedDict

from pydantic import BaseModel

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server  # type: ignore[no-redef,attr-defined]  # the name before 2.0

server: Any = Server("sdk")


class Score(TypedDict):
    result: int


class RoundOutput(BaseModel):
    result: int


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool(name="renamed")
def words(text: str) -> list[str]:
    return text.split()


@server.tool()
def nothing() -> str | None:
    return None


@server.tool()
def score() -> Score:
    return {"result": 1}


@server.tool()
def play() -> RoundOutput:
    return RoundOutput(result=2)


@server.tool()
def counts() -> dict[str, int]:
    return {"result": 3}


if __name__ == "__main__":
    server.run()
