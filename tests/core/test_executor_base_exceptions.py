"""Whatever a tool raises is its failure, a BaseException too; a person's Stop and a cancellation
pass through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from onetool_ipy import ToolResult
from onetool_ipy.core.jobs import Job
from tests.core.support import Bench, MakeBench
from tests.harness.patience import HANG_S


class Odd(BaseException):
    """One of a tool's own."""


RAISED: dict[str, Callable[[], BaseException]] = {
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(3),
    "Odd": lambda: Odd("mine"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("many", [Odd("mine"), SystemExit(2)]),
}


def made_of(kind: str) -> BaseException:
    return RAISED[kind]()


def sync(kind: str) -> int:
    """Raise at once."""
    raise made_of(kind)


async def later(kind: str) -> int:
    """Raise after a turn of the loop."""
    await asyncio.sleep(0)
    raise made_of(kind)


def items(kind: str) -> Iterator[int]:
    """Raise after an item."""
    yield 1
    raise made_of(kind)


async def stream(kind: str) -> AsyncIterator[int]:
    """Raise after an item, on the loop."""
    yield 1
    raise made_of(kind)


async def in_a_task(kind: str) -> int:
    """Raise in a task of its own; asyncio lets some of these out of the loop itself."""
    return await asyncio.ensure_future(later(kind))


def fine() -> str:
    """Work."""
    return "fine"


async def turns() -> str:
    """Work on the loop."""
    await asyncio.sleep(0)
    return "turned"


TOOLS = [sync, later, items, stream, in_a_task]


def ask(
    bench: Bench, way: str, name: str, args: dict[str, Any], timeout_s: float | None
) -> ToolResult:
    if way == "call":
        return bench.call(name, args, timeout_s=timeout_s)
    if way == "acall":
        return asyncio.run(bench.acall(name, args, timeout_s=timeout_s))
    if way == "job":
        return Job(bench.executor, bench.resolve(name, args, timeout_s=timeout_s)).result(HANG_S)

    def outer() -> Any:
        """Call another tool."""
        return bench.call(name, args, timeout_s=timeout_s)

    bench.add(outer)
    found = bench.call("t.outer")
    assert isinstance(found.data, ToolResult)
    return found.data


@pytest.mark.parametrize("way", ["call", "acall", "job", "nested"])
@pytest.mark.parametrize("timeout_s", [None, 20.0], ids=["no limit", "limit"])
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
@pytest.mark.parametrize("kind", RAISED)
def test_what_a_tool_raises_is_its_failure(
    bench: MakeBench, way: str, timeout_s: float | None, tool: Callable[..., Any], kind: str
) -> None:
    made = bench(tool, fine, turns)

    result = ask(made, way, f"t.{tool.__name__}", {"kind": kind}, timeout_s)

    assert not result.ok
    assert result.error is not None
    assert result.error.code == "execution_error"
    assert result.error.message.startswith(kind)
    assert type(result.error.exception).__name__ == kind
    assert made.call("t.fine", timeout_s=20.0).data == "fine", "the next call is served"
    assert made.call("t.turns", timeout_s=20.0).data == "turned", "and the loop still turns"


def test_a_group_that_holds_a_persons_interrupt_is_the_interrupt(bench: MakeBench) -> None:
    """As libraries that run tasks in groups hand Stop on."""

    def grouped() -> None:
        raise BaseExceptionGroup(
            "tasks", [ValueError("x"), BaseExceptionGroup("inner", [KeyboardInterrupt()])]
        )

    made = bench(grouped)

    with pytest.raises(KeyboardInterrupt):
        made.call("t.grouped")


def test_an_async_call_that_is_closed_or_cancelled_ends(bench: MakeBench) -> None:
    """Closing a coroutine raises GeneratorExit inside it, which is nobody's failure."""
    release = threading.Event()

    def waits() -> None:
        release.wait(HANG_S)

    made = bench(waits)

    async def main() -> str:
        running = made.acall("t.waits")
        task = asyncio.ensure_future(running)
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "ended"

    try:
        assert asyncio.run(main()) == "cancelled"
        closed = made.acall("t.waits")
        asyncio.run(_step(closed))
    finally:
        release.set()


async def _step(coroutine: Any) -> None:
    """Run a coroutine up to where it waits, then close it."""
    coroutine.send(None)
    coroutine.close()
