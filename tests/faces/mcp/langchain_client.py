# ruff: noqa: T201 - a program, not a part of the package
"""`langchain-mcp-adapters` as a client: load the tools of some servers, call some, print what came
as JSON.

Runs in .venv-clients, which has an older version of the SDK than ours:

    python langchain_client.py \\
        '{"servers": {name: {connection}}, "calls": [{"name": ..., "args": {...}}]}'

Each server has one session for all calls; without one the adapters would start a new server for
each.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient  # type: ignore[import-not-found]  # in .venv-clients
from langchain_mcp_adapters.tools import load_mcp_tools  # type: ignore[import-not-found]  # in .venv-clients


async def main(asked: dict[str, Any]) -> dict[str, Any]:
    client = MultiServerMCPClient(asked["servers"])
    found = {}
    for server in asked["servers"]:
        async with client.session(server) as session:
            found[server] = await listed_and_called(session, asked["calls"])
    return found


async def listed_and_called(session: Any, calls: list[dict[str, Any]]) -> dict[str, Any]:
    tools = {tool.name: tool for tool in await load_mcp_tools(session)}
    found: dict[str, Any] = {
        "tools": {name: tool.args for name, tool in tools.items()},
        "calls": [],
    }
    for call in calls:
        message = await tools[call["name"]].ainvoke({"type": "tool_call", "id": "1", **call})
        content = (
            message.content if isinstance(message.content, str) else message.content[0]["text"]
        )
        found["calls"].append(
            {"status": message.status, "content": content, "artifact": message.artifact}
        )
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
