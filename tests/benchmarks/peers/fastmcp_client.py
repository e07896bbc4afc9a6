"""fastmcp: a client in the same process as its server, `await client.call_tool(name, args)`."""

from __future__ import annotations

import asyncio

from fastmcp import Client, FastMCP

from tests.benchmarks.peers.serve import serve
from tests.benchmarks.trivial import ARGS, add


async def main() -> None:
    server = FastMCP("bench")
    server.tool(add)
    async with Client(server) as client:
        answer = await client.call_tool("add", ARGS)
        assert answer.data == add(**ARGS), answer

        async def repeat(count: int) -> None:
            for _ in range(count):
                await client.call_tool("add", ARGS)

        await serve("fastmcp", repeat)


if __name__ == "__main__":
    asyncio.run(main())
