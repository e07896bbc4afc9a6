"""langchain-core: `tool.invoke(args)`."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool

from tests.benchmarks.peers.serve import serve
from tests.benchmarks.trivial import ARGS, add


def main() -> None:
    theirs = tool(add)
    assert theirs.invoke(ARGS) == add(**ARGS)

    def repeat(count: int) -> None:
        for _ in range(count):
            theirs.invoke(ARGS)

    asyncio.run(serve("langchain-core", repeat))


if __name__ == "__main__":
    main()
