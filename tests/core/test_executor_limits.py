"""Time limits: control comes back, what is left behind is counted and bounded, late results are
dropped."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from onetool_ipy import ToolResult, ToolSpec
from onetool_ipy.base.background import MAX_ABANDONED
from onetool_ipy.core.tool import FunctionFacts
from onetool_ipy.faces.notebook.running_cell import Interrupts
from onetool_ipy.sdk import progress
from tests.core.support import Bench, MakeBench
from tests.harness.patience import HANG_S, until

LIMIT_S = 0.1


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a stuck tool waits for; opened after the test, so that no thread is left behind."""
    event = threading.Event()
    yield event
    event.set()


def _stuck_tools(gate: threading.Event) -> dict[str, Callable[..., Any]]:  # noqa: C901 - nine ways to be stuck
    def spin() -> None:
        while not gate.is_set():
            pass

    def block() -> None:
        """Wait inside C, where no exception arrives."""
        gate.wait()

    def stubborn() -> None:
        """Catch everything and go on."""
        while not gate.is_set():
            try:
                gate.wait(0.01)
            except BaseException:
                continue

    async def sleeper() -> None:
        """Wait, and be cancelled."""
        await asyncio.Event().wait()

    async def swallow() -> None:
        """Swallow every cancellation."""
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def async_spin() -> None:
        """Block the loop in Python."""
        while not gate.is_set():
            pass

    async def async_block() -> None:
        """Block the loop inside C."""
        gate.wait()

    def promise() -> Any:
        """Give a coroutine that never ends."""
        return sleeper()

    def drip() -> Iterator[int]:
        while not gate.is_set():
            yield 1
            gate.wait(0.001)

    tools = (spin, block, stubborn, sleeper, swallow, async_spin, async_block, promise, drip)
    return {fn.__name__: fn for fn in tools}


STUCK = [
    "spin",
    "block",
    "stubborn",
    "sleeper",
    "swallow",
    "async_spin",
    "async_block",
    "promise",
    "drip",
]
OBEDIENT = {"sleeper", "promise"}


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("name", STUCK)
async def test_control_is_back_after_the_limit_while_the_tool_is_still_stuck(
    bench: MakeBench, gate: threading.Event, name: str, how: str
) -> None:
    def ping() -> str:
        return "pong"

    async def async_ping() -> str:
        """Answer, later."""
        await asyncio.sleep(0)
        return "pong"

    async def call() -> ToolResult:
        if how == "sync":
            return table.call(f"t.{name}", timeout_s=LIMIT_S)
        return await table.acall(f"t.{name}", timeout_s=LIMIT_S)

    table = bench(_stuck_tools(gate)[name], ping, async_ping)

    result = await call()
    while name not in OBEDIENT and not table.workers.abandoned():
        # On a machine that stood still it had not even begun, and nothing was left behind.
        result = await call()

    assert (result.error.code, result.error.reason) == ("execution_error", "timeout")
    assert result.error.message == f"'t.{name}' did not finish within 0.1 s."
    if name in OBEDIENT:
        assert until(lambda: table.workers.abandoned() == 0)
    else:
        assert table.workers.abandoned() == 1
    assert table.call("t.ping", timeout_s=HANG_S).data == "pong"
    assert table.call("t.async_ping", timeout_s=HANG_S).data == "pong", (
        "a blocked loop is left to the one who blocks it"
    )
    gate.set()
    assert until(lambda: table.workers.abandoned() == 0)


def test_a_loop_that_is_slow_and_not_blocked_is_left_alone(
    bench: MakeBench, gate: threading.Event
) -> None:
    """Its next answer is a second away, but no step of a task takes that long: nobody's step is
    ended."""
    steps: list[int] = []

    async def step(number: int) -> None:
        gate.wait(0.02)
        steps.append(number)

    async def crowd() -> None:
        """Let many tasks take turns, and wait."""
        tasks = [asyncio.create_task(step(number)) for number in range(60)]
        await asyncio.Event().wait()
        await asyncio.gather(*tasks)

    table = bench(crowd)

    assert table.call("t.crowd", timeout_s=LIMIT_S).error.reason == "timeout"

    assert until(lambda: steps == list(range(60)))


@pytest.mark.parametrize("how", ["progress", "call"])
def test_an_abandoned_tool_ends_where_it_next_uses_the_toolbox(bench: MakeBench, how: str) -> None:
    """A report of progress, or a call of another tool, ends the thread of a call that nobody waits
    for."""

    def low() -> None:
        """Do nothing."""

    def loop() -> None:
        while True:
            if how == "progress":
                progress(1, 2)
            else:
                table.call("t.low", source="tool")

    table = bench(low, loop)

    assert table.call("t.loop", timeout_s=LIMIT_S).error.reason == "timeout"
    assert until(lambda: table.workers.abandoned() == 0)


@pytest.mark.parametrize("name", ["block", "stubborn", "swallow"])
def test_the_ninth_stuck_call_is_refused(
    bench: MakeBench, gate: threading.Event, name: str
) -> None:
    table = bench(*_stuck_tools(gate).values())

    reasons = []
    # What could not begin in time is no stuck call.
    while table.workers.abandoned() < MAX_ABANDONED:
        reasons.append(table.call(f"t.{name}", timeout_s=LIMIT_S).error.reason)

    assert set(reasons) == {"timeout"}
    assert len(reasons) >= MAX_ABANDONED
    assert table.call(f"t.{name}", timeout_s=LIMIT_S).error.reason == "unavailable"
    assert table.workers.abandoned() == MAX_ABANDONED
    gate.set()
    assert until(lambda: table.workers.abandoned() == 0)
    assert table.call(f"t.{name}", timeout_s=HANG_S).ok, "when they have ended, there is room again"


@pytest.mark.parametrize("how", ["threads", "async"])
async def test_calls_that_come_at_once_do_not_wait_for_each_other(
    bench: MakeBench, how: str
) -> None:
    """Each call has a thread of its own: the barrier opens only when all of them run."""
    count = 3 * MAX_ABANDONED
    barrier = threading.Barrier(count, timeout=HANG_S)

    def meet() -> int:
        return barrier.wait()

    table = bench(meet)

    if how == "async":
        results = await asyncio.gather(
            *(table.acall("t.meet", timeout_s=HANG_S) for _ in range(count))
        )
    else:
        with ThreadPoolExecutor(count) as threads:
            results = list(
                threads.map(lambda _: table.call("t.meet", timeout_s=HANG_S), range(count))
            )

    assert sorted(result.data for result in results) == list(range(count))


def test_a_late_result_is_dropped(bench: MakeBench, gate: threading.Event) -> None:
    gave: list[str] = []

    def late() -> str:
        """Give, late."""
        gate.wait()
        gave.append("late")
        return "late"

    def quick() -> str:
        return "quick"

    table = bench(late, quick)
    assert table.call("t.late", timeout_s=LIMIT_S).error.reason == "timeout"
    gate.set()
    until(lambda: table.workers.abandoned() == 0)

    assert [table.call("t.quick", timeout_s=HANG_S).data for _ in range(5)] == ["quick"] * 5


async def test_a_failure_in_answer_to_the_limit_is_the_limits(bench: MakeBench) -> None:
    begun = threading.Event()

    async def clumsy() -> None:
        """Fail while being cancelled."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("clumsy")

    table = bench(clumsy)

    for is_async in (False, True):
        begun.clear()
        while not begun.is_set():
            result = (
                await table.acall("t.clumsy", timeout_s=0.05)
                if is_async
                else table.call("t.clumsy", timeout_s=0.05)
            )
        assert result.error.reason == "timeout"
        assert str(result.error.exception.__cause__) == "clumsy"


async def test_a_late_result_of_an_async_tool_is_dropped(bench: MakeBench) -> None:
    async def late() -> str:
        """Answer a cancellation with a result."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    table = bench(late)

    assert table.call("t.late", timeout_s=0.05).error.reason == "timeout"
    assert (await table.acall("t.late", timeout_s=0.05)).error.reason == "timeout"


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_timeout_error_of_the_tools_own_is_its_own(bench: MakeBench, how: str) -> None:
    def own() -> None:
        raise TimeoutError("the database is slow")

    async def own_later() -> None:
        raise TimeoutError("the database is slow")

    table = bench(own, own_later)
    for name in ("t.own", "t.own_later"):
        result = (
            table.call(name, timeout_s=HANG_S)
            if how == "sync"
            else await table.acall(name, timeout_s=HANG_S)
        )
        assert (result.error.message, result.error.reason) == (
            "TimeoutError: the database is slow",
            None,
        )
    assert table.workers.abandoned() == 0


@pytest.mark.spec("004/Candidate/Default time limit 8 s")
@pytest.mark.parametrize(
    ("source", "has_limit"),
    [
        ("python", False),
        ("magic", False),
        ("shortcut", False),
        ("widget", False),
        ("tool", False),
        ("model", True),
        ("rest", True),
        ("mcp", True),
        ("cli", True),
    ],
)
def test_only_calls_by_machines_have_a_limit_of_their_own(
    bench: MakeBench, source: Any, has_limit: bool
) -> None:
    """A call under a limit runs in a worker, one without in the caller's thread."""

    def where() -> str:
        return threading.current_thread().name

    table = bench(where)

    found = table.call("t.where", source=source).data

    assert (found == "onetool-worker") is has_limit
    assert (found == threading.current_thread().name) is not has_limit


def test_the_limit_of_the_configuration_is_the_one_that_holds(
    bench: MakeBench, gate: threading.Event
) -> None:
    table = bench(*_stuck_tools(gate).values(), local_s=0.05)

    assert (
        table.call("t.block", source="model").error.message
        == "'t.block' did not finish within 0.05 s."
    )


def test_the_call_wins_over_the_tool_and_the_tool_over_the_default(
    bench: MakeBench, gate: threading.Event
) -> None:
    table = bench(local_s=HANG_S)
    table.add(
        ToolSpec(
            name="t.block",
            description="x",
            parameters={"type": "object"},
            run=lambda args: gate.wait(),
            timeout_s=0.05,
        )
    )

    assert (
        table.call("t.block", source="model").error.message
        == "'t.block' did not finish within 0.05 s."
    )
    assert table.call("t.block").error.message == "'t.block' did not finish within 0.05 s."
    assert (
        table.call("t.block", timeout_s=0.02).error.message
        == "'t.block' did not finish within 0.02 s."
    )


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_limit_covers_the_import_of_a_file(
    bench: MakeBench, gate: threading.Event, is_async: bool
) -> None:
    spec = ToolSpec(
        name="t.file",
        description="x",
        parameters={"type": "object"},
        run=lambda a: 1,
        is_async=is_async,
    )

    def live() -> ToolSpec:
        gate.wait()
        return spec

    table = bench()
    table.add(spec.replace(load=live, origin="file"))

    assert table.call("t.file", timeout_s=0.05).error.reason == "timeout"
    result = await table.acall("t.file", timeout_s=0.05)
    assert (result.error.reason, result.error.message) == (
        "timeout",
        "'t.file' did not finish within 0.05 s.",
    )


def test_the_limit_covers_the_conversion_of_arguments(
    bench: MakeBench, gate: threading.Event
) -> None:
    class Slow:
        def to_python(self, value: Any) -> Any:
            gate.wait()
            return value

        def accepts(self, value: Any) -> bool:
            return value is not None

    table = bench()
    parameters = {"type": "object", "properties": {"a": {}}}
    function = FunctionFacts(converters={"a": Slow()})
    table.add(
        ToolSpec(
            name="t.f", description="x", parameters=parameters, run=lambda a: 1, function=function
        )
    )

    assert table.call("t.f", {"a": 1}, timeout_s=0.05).error.reason == "timeout"


@pytest.mark.posix("signals of threads")
def test_stop_gives_control_back_at_once_and_gives_the_call_up(
    bench: MakeBench, gate: threading.Event
) -> None:
    """A real SIGINT in the main thread while it waits for a worker, and for the loop; each tool
    sends it itself."""

    def stop() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def block() -> None:
        """Wait inside C."""
        stop()
        gate.wait()

    async def sleeper() -> None:
        """Wait, and be cancelled."""
        stop()
        await asyncio.Event().wait()

    async def swallow() -> None:
        """Swallow every cancellation."""
        stop()
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    table, cell = bench(block, sleeper, swallow), Interrupts()
    cell.begin(object)
    try:
        for name, options in (("block", {"timeout_s": HANG_S}), ("sleeper", {}), ("swallow", {})):
            with pytest.raises(KeyboardInterrupt):
                table.call(f"t.{name}", **options)
    finally:
        cell.end()

    assert until(lambda: table.workers.abandoned() == 2)
    gate.set()
    assert until(lambda: table.workers.abandoned() == 0)


async def test_cancelling_an_async_wait_for_a_sync_tool_gives_it_up(
    bench: MakeBench, gate: threading.Event
) -> None:
    table = bench(*_stuck_tools(gate).values())
    begun = threading.Event()

    def block_too() -> None:
        """Say so, then wait inside C."""
        begun.set()
        gate.wait()

    table.add(block_too)
    task = asyncio.create_task(table.acall("t.block_too"))
    assert await asyncio.to_thread(begun.wait, HANG_S)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert table.workers.abandoned() == 1


def test_nested_calls_under_limits_do_not_wait_for_each_other(bench: MakeBench) -> None:
    """Eight calls fill the lane; what they call themselves must still get its turn."""
    barrier = threading.Barrier(MAX_ABANDONED, timeout=HANG_S)

    def low() -> int:
        return 1

    def high() -> int:
        """Wait for the others, then call."""
        barrier.wait()
        return table.call("t.low", source="tool", timeout_s=HANG_S).unwrap()

    table = bench(low, high)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(table.call("t.high", timeout_s=HANG_S).data))
        for _ in range(MAX_ABANDONED)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert found == [1] * MAX_ABANDONED


@pytest.mark.slow
def test_given_up_calls_are_quiet(
    bench: MakeBench,
    gate: threading.Event,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def fails_late() -> None:
        """Do not mind, then fail when nobody listens any more."""
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)
        raise ValueError("too late")

    def fails_later() -> None:
        """Fail when nobody listens any more."""
        gate.wait()
        raise ValueError("too late")

    table = bench(fails_late, fails_later)
    with caplog.at_level(logging.DEBUG):
        table.call("t.fails_late", timeout_s=0.05)
        table.call("t.fails_later", timeout_s=0.05)
        gate.set()
        assert until(lambda: table.workers.abandoned() == 0)
        table.close()
        gc.collect()

    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err == ""


async def test_given_up_calls_are_quiet_on_the_callers_loop_too(
    bench: MakeBench, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    begun = threading.Event()

    def fails_later() -> None:
        """Fail when nobody listens any more."""
        begun.set()
        gate.wait()
        raise ValueError("too late")

    table = bench(fails_later)
    with caplog.at_level(logging.DEBUG):
        assert (await table.acall("t.fails_later", timeout_s=0.05)).error.reason == "timeout"
        begun.clear()
        task = asyncio.create_task(table.acall("t.fails_later"))
        assert await asyncio.to_thread(begun.wait, HANG_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert await asyncio.to_thread(until, lambda: table.workers.abandoned() == 0)
        await asyncio.sleep(0)  # what they told the loop is heard
        del task
        gc.collect()

    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def _threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("onetool-")}


def test_no_thread_starts_before_it_is_needed_and_none_stays_after_close() -> None:
    def ping() -> str:
        return "pong"

    async def async_ping() -> str:
        return "pong"

    before = threading.active_count()
    table = Bench([ping, async_ping], [])
    table.call("t.ping")
    assert threading.active_count() == before
    table.call("t.ping", timeout_s=HANG_S)
    table.call("t.async_ping")
    assert _threads() >= {"onetool-loop"}

    table.close()
    table.close()

    assert until(lambda: threading.active_count() == before)
    assert table.call("t.async_ping", timeout_s=HANG_S).data == "pong", (
        "what was closed can be started again"
    )
    table.close()
