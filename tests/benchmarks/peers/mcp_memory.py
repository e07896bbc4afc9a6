"""mcp: the SDK's own client connected in memory to its server, `await client.call_tool(name,
args)`."""

from __future__ import annotations

import asyncio

from mcp import Client
from mcp.server import MCPServer

from tests.benchmarks.peers.serve import serve
from tests.benchmarks.trivial import ARGS, add


async def main() -> None:
    server = MCPServer("bench")
    server.tool()(add)
    async with Client(server) as client:
        answer = await client.call_tool("add", ARGS)
        assert answer.content[0].text == str(add(**ARGS)), answer

        async def repeat(count: int) -> None:
            for _ in range(count):
                await client.call_tool("add", ARGS)

        await serve("mcp", repeat)


if __name__ == "__main__":
    asyncio.run(main())
