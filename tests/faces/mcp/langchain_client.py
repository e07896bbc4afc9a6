# ruff: noqa: T201 - a program, not a part of the package
"""`langchain-mcp-adapters` as a client: load the tools of a server, call some, print what came as JSON.

Runs in .venv-clients, which has an older version of the SDK than ours:

    python langchain_client.py '{"server": {connection}, "calls": [{"name": ..., "args": {...}}]}'
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient  # type: ignore[import-not-found]  # in .venv-clients


async def main(asked: dict[str, Any]) -> dict[str, Any]:
    client = MultiServerMCPClient({"onetool": asked["server"]})
    tools = {tool.name: tool for tool in await client.get_tools()}
    found: dict[str, Any] = {"tools": {name: tool.args for name, tool in tools.items()}, "calls": []}
    for call in asked["calls"]:
        message = await tools[call["name"]].ainvoke({"type": "tool_call", "id": "1", **call})
        content = message.content if isinstance(message.content, str) else message.content[0]["text"]
        found["calls"].append({"status": message.status, "content": content, "artifact": message.artifact})
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
