"""Row 12: a call to an MCP server over stdio, and five servers started at once, beside the official
SDK's own client.

The raw client is used as its documentation shows, in an event loop of its own; ours is
`Toolbox.call`, with everything it does on the way: look-up, argument check, result, usage record,
the way to the loop's thread and back. Both talk to servers of the same kind and take turns. Times
are on the wall, since most of the work is the server's; a busy machine adds to both for each switch
between threads and processes, and we have two more. So the CPU time of the client's process, which
others cannot add to, is told too.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from onetool_ipy import open_toolbox
from tests.benchmarks.timing import LeftOut, at_most, line, note, take_turns
from tests.harness.servers import hostile, real, write_project

__all__ = ["ROWS", "run"]

ROWS = (12,)

_CALLS, _ROUNDS, _STARTS = 20, 31, 3
_WORKLOADS: tuple[tuple[str, Callable[[], dict[str, Any]], str, dict[str, Any]], ...] = (
    ("a server in plain Python", hostile, "echo", {"text": "x"}),
    ("mcp-server-time", lambda: real("time"), "get_current_time", {"timezone": "UTC"}),
    ("server-everything", lambda: real("everything"), "get-sum", {"a": 1, "b": 2}),
)
_FIVE = ("time", "git", "everything", "memory", "sequential-thinking")


def run() -> list[dict[str, Any]]:
    try:
        for name in _FIVE:
            real(name)
    except AssertionError as exc:
        raise LeftOut(str(exc)) from None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return [*_calls(stack, folder / "calls"), *_starts(folder / "starts")]


def _calls(stack: ExitStack, folder: Path) -> Iterator[dict[str, Any]]:
    definitions = {f"s{n}": make() for n, (_, make, _, _) in enumerate(_WORKLOADS)}
    write_project(folder, definitions)
    box = stack.enter_context(
        open_toolbox(folder, env={**os.environ, "ONETOOL_STATE": str(folder / "state")})
    )
    assert set(box.servers.check().values()) == {"connected"}
    runner = stack.enter_context(asyncio.Runner())
    clients = runner.run(_connect(list(definitions.values())))
    for n, (what, _, tool, args) in enumerate(_WORKLOADS):
        note(f"  calls to {what} ...")
        name, client = f"s{n}.{tool}", clients[n]
        assert box.call(name, args).ok

        async def raw(client: Any = client, tool: str = tool, args: dict[str, Any] = args) -> None:
            for _ in range(_CALLS):
                await client.call_tool(tool, args)

        def ours(name: str = name, args: dict[str, Any] = args) -> None:
            for _ in range(_CALLS):
                box.call(name, args)

        runner.run(raw())
        contenders = {"ours": ours, "raw": lambda raw=raw: runner.run(raw())}  # type: ignore[misc]
        for clock, told in ((time.perf_counter, "on the wall"), (time.process_time, "CPU")):
            found = take_turns(
                {name: _timed(work, clock) for name, work in contenders.items()}, _ROUNDS
            )
            ratio = found.ratio("raw", "ours")
            yield line(
                12,
                f"MCP stdio call, {what}, {told} ({1 / ratio:.2f}x the raw client)",
                found["ours"],
                found["raw"],
                name="raw SDK client",
                ratio=ratio,
                **at_most(1 / ratio, 1.3, 1.1, show=lambda over: f"{over:g}x the raw client"),
            )
    runner.run(_stop.pop()())


def _starts(folder: Path) -> Iterator[dict[str, Any]]:
    note("  five servers, all at once and one after the other ...")
    definitions = {name: real(name) for name in _FIVE}
    write_project(folder, definitions)

    def ours() -> float:
        with open_toolbox(
            folder, env={**os.environ, "ONETOOL_STATE": str(folder / "state")}
        ) as box:
            began = time.perf_counter()
            assert set(box.servers.check().values()) == {"connected"}
            return time.perf_counter() - began

    def raw() -> float:
        with asyncio.Runner() as runner:
            began = time.perf_counter()
            runner.run(_connect(list(definitions.values())))
            spent = time.perf_counter() - began
            runner.run(_stop.pop()())
        return spent

    found = take_turns({"ours": ours, "raw": raw}, _STARTS)
    ratio = found.ratio("raw", "ours")
    yield line(
        12,
        "five MCP servers, from nothing to connected",
        found["ours"],
        found["raw"],
        name="raw SDK client, one after the other",
        ratio=ratio,
        reach="all at once",
        met=ratio > 1,
    )


_stop: list[Callable[[], Any]] = []
"""How to end what `_connect` opened; the SDK wants that done by the task that opened it."""


async def _connect(definitions: list[dict[str, Any]]) -> list[Any]:
    """Raw clients, connected one after the other, each kept open by a task of its own until
    `_stop`."""
    clients: list[Any] = []
    over, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(_hold(definitions, clients, ready, over))
    await ready.wait()

    async def stop() -> None:
        over.set()
        await task

    _stop.append(stop)
    return clients


async def _hold(
    definitions: list[dict[str, Any]], clients: list[Any], ready: asyncio.Event, over: asyncio.Event
) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with AsyncExitStack() as stack:
        quiet = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: ASYNC230, SIM115 - once; the stack closes it
        for definition in definitions:
            asked = StdioServerParameters(command=definition["command"], args=definition["args"])
            clients.append(
                await stack.enter_async_context(Client(stdio_client(asked, errlog=quiet)))
            )
            await clients[-1].list_tools()
        ready.set()
        await over.wait()


def _timed(work: Callable[[], Any], clock: Callable[[], float]) -> Callable[[], float]:
    def timed() -> float:
        began = clock()
        work()
        return (clock() - began) / _CALLS

    return timed
