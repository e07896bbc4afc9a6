"""One call, from name to result: codes, reasons, steps, nesting, async. Limits are in test_limits."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from onetool_ipy import Failure, ToolResult, ToolSpec, UsageProblem
from onetool_ipy.base import errors
from onetool_ipy.base.background import MAX_ITEMS
from onetool_ipy.core import current
from onetool_ipy.core.executor import MAX_DEPTH, SPAN_LOGGER, CallIds, own_frames, span
from onetool_ipy.core.tool import Trip
from tests.core.support import MakeBench, short
from tests.harness.patience import HANG_S

StepRun = Generator[None, ToolResult, ToolResult | None]


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


async def slow_add(a: int, b: int = 1) -> int:
    """Add, later."""
    await asyncio.sleep(0)
    return a + b


@pytest.mark.spec("004/Executor/Checks existence and schema then runs the handler")
def test_a_call_is_found_checked_run_and_answered(bench: MakeBench) -> None:
    table = bench(add)

    good = table.call("t.add", {"a": 1, "b": 2})

    assert (good.ok, good.data, good.error) == (True, 3, None)
    assert good.meta["tool"] == "t.add"
    assert good.meta["call_id"] == "id-1"
    assert good.meta["source"] == "python"
    assert good.meta["duration_ms"] >= 0
    assert table.call("t.ad", {}).error.code == "tool_not_found"
    assert table.call("t.add", {"a": "x"}).error.code == "invalid_args"


@pytest.mark.spec("004/Executor/Three fixed error codes")
@pytest.mark.parametrize(
    ("name", "args", "code", "reason", "message"),
    [
        ("t.nothing", {}, "tool_not_found", None, "No tool 't.nothing'."),
        ("T.add", {"a": 1}, "tool_not_found", None, "No tool 'T.add'. Did you mean 't.add'?"),
        ("t.adds", {}, "tool_not_found", None, "No tool 't.adds'. Did you mean 't.add'"),
        ("", {}, "tool_not_found", None, "No tool ''."),
        (None, {}, "tool_not_found", None, "No tool 'None'."),
        (["t.add"], {}, "tool_not_found", None, "No tool '['t.add']'."),
        ("x" * 100_000, {}, "tool_not_found", None, "No tool 'xxx"),
        ("t.add", {}, "invalid_args", "schema", "missing argument 'a'"),
        ("t.add", [1, 2], "invalid_args", "schema", "'t.add': the arguments must be an object, not list."),
        ("t.add", "a", "invalid_args", "schema", "the arguments must be an object, not str."),
        ("t.add", {"A": 1}, "invalid_args", "schema", "unknown argument 'A', did you mean 'a'?"),
        ("t.boom", {}, "execution_error", None, "ValueError: no such luck"),
        ("t.exits", {}, "execution_error", None, "SystemExit: 3"),
        ("t.mute", {}, "execution_error", None, "Mute"),
        ("t.off", {}, "tool_not_found", "disabled", "The tool 't.off' is switched off: for now"),
        ("t.refuses", {}, "execution_error", "host_not_allowed", "Not there."),
        ("t.stops", {}, "execution_error", None, "StopIteration: 5"),  # in async code inside a RuntimeError
        ("t.cancels", {}, "execution_error", "cancelled", "The tool was cancelled."),
    ],
    ids=short,
)
async def test_every_failure_is_data(
    bench: MakeBench, name: Any, args: Any, code: str, reason: str | None, message: str
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def fails(exc: BaseException) -> Callable[[dict[str, Any]], Any]:
        def run(_: dict[str, Any]) -> Any:
            raise exc

        return run

    table = bench(add)
    for tool, exc in {
        "boom": ValueError("no such luck"),
        "exits": SystemExit(3),
        "mute": Mute(),
        "refuses": errors.HostNotAllowed("Not there."),
        "stops": StopIteration(5),
        "cancels": asyncio.CancelledError(),
    }.items():
        table.add(ToolSpec(name=f"t.{tool}", description="x", parameters={"type": "object"}, run=fails(exc)))
    off = ToolSpec(name="t.off", description="x", parameters={"type": "object"}, run=fails(ValueError()))
    table.add(off.replace(disabled="for now"))

    for result in (table.call(name, args), await table.acall(name, args)):
        assert result.ok is False
        assert result.data is None
        assert (result.error.code, result.error.reason) == (code, reason)
        assert message in result.error.message
        assert len(result.error.message) < 400
        assert set(result.to_dict()) == {"ok", "data", "error", "meta"}
        assert result.meta["source"] == "python"


def test_the_tools_own_exception_is_kept_with_its_own_frames(bench: MakeBench) -> None:
    def inner() -> None:
        raise KeyError("deep inside")

    def outer() -> None:
        """Fail."""
        inner()

    table = bench(outer)
    for options in ({}, {"timeout_s": 5}):
        exc = table.call("t.outer", **options).error.exception

        assert isinstance(exc, KeyError)
        frames = [frame.name for frame in traceback.extract_tb(own_frames(exc))]
        assert frames == ["outer", "inner"]


async def test_own_frames_of_an_async_tool(bench: MakeBench) -> None:
    async def outer() -> None:
        """Fail."""
        await asyncio.sleep(0)
        raise KeyError("later")

    table = bench(outer)
    for result in (table.call("t.outer"), await table.acall("t.outer"), table.call("t.outer", timeout_s=HANG_S)):
        assert [f.name for f in traceback.extract_tb(own_frames(result.error.exception))] == ["outer"]


@pytest.mark.parametrize("how", ["sync", "limited", "async"])
async def test_what_a_tool_leaves_unfinished_is_finished(bench: MakeBench, how: str) -> None:
    def lazy(n: int) -> Iterator[int]:
        """Yield."""
        yield from range(n)

    async def later(n: int) -> AsyncIterator[int]:
        """Yield, later."""
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def promise(n: int) -> list[int]:
        await asyncio.sleep(0)
        return list(range(n))

    def gives_promise(n: int) -> Any:
        """Give a coroutine."""
        return promise(n)

    def gives_stream(n: int) -> Any:
        """Give an async generator."""
        return later(n)

    table = bench(lazy, later, gives_promise, gives_stream)
    for name in ("lazy", "later", "gives_promise", "gives_stream"):
        if how == "async":
            result = await table.acall(f"t.{name}", {"n": 3})
        else:
            result = table.call(f"t.{name}", {"n": 3}, timeout_s=5 if how == "limited" else None)
        assert result.unwrap() == [0, 1, 2], name


def test_an_endless_generator_is_too_large(bench: MakeBench) -> None:
    def endless() -> Iterator[int]:
        """Count."""
        n = 0
        while True:
            yield n

    result = bench(endless).call("t.endless")

    assert result.error.reason == "too_large"
    assert f"{MAX_ITEMS:,}" in result.error.message


def test_a_generator_that_fails_half_way_is_a_failure(bench: MakeBench) -> None:
    def half() -> Iterator[int]:
        """Break."""
        yield 1
        raise ValueError("half way")

    assert bench(half).call("t.half").error.message == "ValueError: half way"


def test_a_tool_cannot_change_its_callers_arguments(bench: MakeBench) -> None:
    def greedy(items: list[int], options: dict[str, Any]) -> int:
        """Take all."""
        items.clear()
        options["deep"]["x"].append(1)
        options.clear()
        return 0

    args = {"items": [1, 2], "options": {"deep": {"x": []}}}

    assert bench(greedy).call("t.greedy", args).ok
    assert args == {"items": [1, 2], "options": {"deep": {"x": []}}}


def test_the_tools_own_object_is_what_the_caller_gets(bench: MakeBench) -> None:
    thing = object()

    def give() -> Any:
        """Give."""
        return thing

    assert bench(give).call("t.give").data is thing


@pytest.mark.parametrize("limit", [None, 10.0])
def test_a_tool_that_calls_itself_for_ever_is_stopped(bench: MakeBench, limit: float | None) -> None:
    depths: list[int] = []

    def again() -> Any:
        """Call oneself."""
        depths.append(current.scope().depth)
        return table.call("t.again", source="tool", timeout_s=limit).unwrap()

    table = bench(again)

    result = table.call("t.again")

    assert (result.error.code, result.error.reason) == ("execution_error", "recursion")
    assert max(depths) == MAX_DEPTH
    assert current.scope() is None


async def test_an_async_tool_that_calls_itself_for_ever_is_stopped(bench: MakeBench) -> None:
    async def again() -> Any:
        """Call oneself."""
        return (await table.acall("t.again", source="tool")).unwrap()

    table = bench(again)

    assert (await table.acall("t.again")).error.reason == "recursion"


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (errors.CallTimeout("slow"), "timeout"),
        (errors.Unavailable("gone"), "unavailable"),
        (errors.InvalidArgs("bad"), None),
        (errors.ToolNotFound("none"), None),
    ],
    ids=short,
)
def test_a_failed_call_inside_a_tool_hands_its_reason_on(
    bench: MakeBench, inner: errors.CallFailure, reason: str | None
) -> None:
    def low() -> None:
        """Fail."""
        raise inner

    def high() -> Any:
        """Call `low`."""
        return table.call("t.low").unwrap()

    table = bench(low, high)

    error = table.call("t.high").error

    assert (error.code, error.reason, error.tool) == ("execution_error", reason, "t.high")
    assert error.message == f"in 't.low': {inner.message}"


def test_nested_calls_know_where_they_are(bench: MakeBench) -> None:
    seen: list[Any] = []

    def low() -> None:
        """Look."""
        seen.append(current.scope())

    def high() -> None:
        """Look, call, look."""
        seen.append(current.scope())
        table.call("t.low", source="tool")
        seen.append(current.scope())

    class Owner: ...

    owner = Owner()
    table = bench(low, high, owner=owner)
    table.call("t.high")

    assert [(s.spec.name, s.depth, s.call.source) for s in seen] == [
        ("t.high", 1, "python"),
        ("t.low", 2, "tool"),
        ("t.high", 1, "python"),
    ]
    assert all(s.toolbox is owner for s in seen)
    assert current.scope() is None


COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@pytest.mark.parametrize("how", ["sync", "limited", "async", "async tool", "async tool limited"])
async def test_context_variables_reach_the_tool_and_do_not_leak_out(bench: MakeBench, how: str) -> None:
    def look() -> str:
        """Look."""
        found = COLOUR.get()
        COLOUR.set("changed")
        return found

    async def look_later() -> str:
        """Look."""
        await asyncio.sleep(0)
        return look()

    table = bench(look, look_later)
    COLOUR.set("red")

    if how == "async":
        found = (await table.acall("t.look")).data
    elif how.startswith("async tool"):
        found = (await table.acall("t.look_later", timeout_s=5 if "limited" in how else None)).data
    else:
        found = table.call("t.look", timeout_s=5 if how == "limited" else None).data

    assert found == "red"
    assert COLOUR.get() == ("changed" if how == "sync" else "red")


async def test_async_tools_are_called_from_sync_and_async_code(bench: MakeBench) -> None:
    table = bench(slow_add, add)

    assert table.call("t.slow_add", {"a": 1}).data == 2
    assert (await table.acall("t.slow_add", {"a": 2})).data == 3
    assert (await table.acall("t.add", {"a": 3})).data == 4


def test_async_tools_share_one_loop_that_is_not_the_callers(bench: MakeBench) -> None:
    async def where() -> Any:
        """Tell the loop."""
        return asyncio.get_running_loop(), threading.current_thread().name

    table = bench(where)

    first, second = table.call("t.where").data, table.call("t.where").data

    assert first[0] is second[0]
    assert first[1] == "onetool-loop"


async def test_many_async_calls_at_once(bench: MakeBench) -> None:
    meeting = 0

    async def meet(n: int) -> int:
        """Wait until all are here."""
        nonlocal meeting
        meeting += 1
        if meeting == 200:
            gate.set()
        await gate.wait()
        return n

    table = bench(meet)
    gate = await asyncio.wrap_future(table.background.submit(_event).future)

    results = await asyncio.gather(*(table.acall("t.meet", {"n": n}) for n in range(200)))

    assert [r.data for r in results] == list(range(200))


async def _event() -> asyncio.Event:
    return asyncio.Event()


async def test_many_sync_calls_at_once_do_not_block_the_loop(bench: MakeBench) -> None:
    barrier = threading.Barrier(20, timeout=HANG_S)

    def meet(n: int) -> int:
        """Wait until all are here."""
        barrier.wait()
        return n

    table = bench(meet)

    results = await asyncio.gather(*(table.acall("t.meet", {"n": n}) for n in range(20)))

    assert [r.data for r in results] == list(range(20))


def test_a_sync_call_inside_an_async_tool(bench: MakeBench) -> None:
    async def high(a: int) -> int:
        """Call async and sync tools, in sync and async ways."""
        one = table.call("t.slow_add", {"a": a}, source="tool").unwrap()
        two = (await table.acall("t.slow_add", {"a": one}, source="tool")).unwrap()
        three = table.call("t.add", {"a": two}, source="tool", timeout_s=HANG_S).unwrap()
        return (await table.acall("t.add", {"a": three}, source="tool")).unwrap()

    table = bench(high, add, slow_add)

    assert table.call("t.high", {"a": 1}).unwrap() == 5
    assert table.call("t.high", {"a": 1}, timeout_s=HANG_S).unwrap() == 5


def test_a_sync_tool_that_calls_async_tools(bench: MakeBench) -> None:
    def high(a: int) -> int:
        """Call an async tool."""
        return table.call("t.slow_add", {"a": a}, source="tool").unwrap()

    table = bench(high, slow_add)

    assert table.call("t.high", {"a": 1}).unwrap() == 2
    assert table.call("t.high", {"a": 1}, timeout_s=HANG_S).unwrap() == 2


def test_calls_from_many_threads(bench: MakeBench) -> None:
    table = bench(add, slow_add)
    found: list[Any] = []

    def work(n: int) -> None:
        names = ["t.add", "t.slow_add"] * 25
        found.extend(table.call(name, {"a": n, "b": i}).data == n + i for i, name in enumerate(names))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert found == [True] * 400


# --- allow-lists


@pytest.mark.spec("004/Registry/tool-allow filters the callable set")
def test_what_an_allow_list_leaves_out_cannot_be_called(bench: MakeBench) -> None:
    ran: list[int] = []

    def touch() -> None:
        """Leave a trace."""
        ran.append(1)

    table = bench(add, touch)

    refused = table.call("t.touch", allow=["t.add"])
    assert (refused.error.code, refused.error.reason) == ("tool_not_found", "not_allowed")
    assert table.call("t.touch", allow=[]).error.reason == "not_allowed"
    assert ran == []
    assert table.call("t.add", {"a": 1}, allow=["t.add"]).ok
    assert table.call("t.touch", allow=["t.*"]).ok
    assert table.call("t.touch", allow=None).ok


def test_what_is_not_allowed_is_not_even_imported(bench: MakeBench) -> None:
    imported: list[int] = []

    def live() -> ToolSpec:
        imported.append(1)
        raise AssertionError

    table = bench()
    spec = ToolSpec(name="t.file", description="x", parameters={"type": "object"}, run=lambda args: 1)
    table.add(spec.replace(live=live))

    assert table.call("t.file", allow=["t.other"]).error.reason == "not_allowed"
    assert imported == []


# --- steps


def _noting(name: str, notes: list[str]) -> Callable[[Trip], StepRun]:
    def step(trip: Trip) -> StepRun:
        notes.append(f"{name} before {trip.tool}")
        result = yield
        notes.append(f"{name} after {result.ok}")
        return None

    return step


def test_steps_stand_around_the_call_in_order(bench: MakeBench) -> None:
    notes: list[str] = []

    def act() -> None:
        """Act."""
        notes.append("act")

    bench(act, steps=[_noting("one", notes), _noting("two", notes)]).call("t.act")

    assert notes == ["one before t.act", "two before t.act", "act", "two after True", "one after True"]


def test_steps_see_calls_that_find_no_tool(bench: MakeBench) -> None:
    notes: list[str] = []

    bench(steps=[_noting("one", notes)]).call("t.none")

    assert notes == ["one before t.none", "one after False"]


@pytest.mark.parametrize("ok", [True, False])
async def test_a_step_may_answer_without_running_the_tool(bench: MakeBench, ok: bool) -> None:
    notes: list[str] = []
    answer = ToolResult(ok, "kept" if ok else None, None if ok else Failure("execution_error", "no", "t.boom"))

    def boom() -> None:
        """Never run."""
        raise AssertionError

    def cache(trip: Trip) -> StepRun:
        trip.meta["cached"] = True
        return answer
        yield

    table = bench(boom, steps=[_noting("outer", notes), cache, _noting("inner", notes)])

    for result in (table.call("t.boom"), await table.acall("t.boom")):
        assert (result.ok, result.data) == (ok, "kept" if ok else None)
        assert result.meta["cached"] is True
        assert result.meta["tool"] == "t.boom"
    assert notes == ["outer before t.boom", f"outer after {ok}"] * 2
    assert answer.meta == {}, "an answer given to many calls has no meta of one"


def test_a_step_may_replace_the_result(bench: MakeBench) -> None:
    def double(_: Trip) -> StepRun:
        result = yield
        return ToolResult(True, result.data * 2)

    result = bench(add, steps=[double]).call("t.add", {"a": 1})

    assert result.data == 4
    assert {"tool", "call_id", "source", "duration_ms"} <= set(result.meta)


def test_a_step_may_replace_a_good_result_by_a_failed_one(bench: MakeBench) -> None:
    def judge(_: Trip) -> StepRun:
        yield
        return ToolResult(False, error=Failure("execution_error", "no", "t.add", reason="invalid_output"))

    result = bench(add, steps=[judge]).call("t.add", {"a": 1})

    assert (result.ok, result.error.reason) == (False, "invalid_output")


def test_a_step_may_step_aside(bench: MakeBench) -> None:
    def aside(_: Trip) -> StepRun:
        return None
        yield

    def not_even_begun(_: Trip) -> None:
        return None

    assert bench(add, steps=[aside, not_even_begun]).call("t.add", {"a": 1}).data == 2


def test_what_a_step_raises_before_is_a_failed_call(bench: MakeBench) -> None:
    notes: list[str] = []

    def refuse(_: Trip) -> StepRun:
        raise errors.NotApproved("Say yes first.")
        yield

    def broken(_: Trip) -> StepRun:
        raise ZeroDivisionError("a bug")
        yield

    refused = bench(add, steps=[_noting("one", notes), refuse]).call("t.add", {"a": 1})
    assert (refused.error.reason, refused.error.message) == ("not_approved", "Say yes first.")
    assert notes == ["one before t.add", "one after False"]
    assert bench(add, steps=[broken]).call("t.add", {"a": 1}).error.message == "ZeroDivisionError: a bug"


def test_a_step_that_breaks_after_the_call_does_not_cost_its_result(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []

    def broken(_: Trip) -> StepRun:
        yield
        raise OSError("disk full")

    def judge(_: Trip) -> StepRun:
        yield
        raise errors.InvalidOutput("Not what was promised.")

    assert bench(add, steps=[_noting("one", notes), broken]).call("t.add", {"a": 1}).data == 2
    assert notes == ["one before t.add", "one after True"]
    assert "disk full" in caplog.text
    judged = bench(add, steps=[judge]).call("t.add", {"a": 1})
    assert judged.error.reason == "invalid_output"
    assert judged.meta["call_id"] == "id-1"


@pytest.mark.parametrize("limit", [None, 5.0])
def test_stop_passes_through_after_the_steps_have_seen_it(
    bench: MakeBench, limit: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[ToolResult] = []

    def watch(_: Trip) -> StepRun:
        seen.append((yield))
        return None

    def stop() -> None:
        """Be stopped."""
        raise KeyboardInterrupt

    table = bench(stop, steps=[span(str), watch])

    with caplog.at_level(logging.INFO, SPAN_LOGGER), pytest.raises(KeyboardInterrupt):
        table.call("t.stop", timeout_s=limit)

    assert seen[0].error.reason == "cancelled"
    assert seen[0].meta["tool"] == "t.stop"
    (record,) = [r for r in caplog.records if r.name == SPAN_LOGGER]
    assert (record.span, record.ok) == ("t.stop", False)
    assert current.scope() is None


async def test_a_tool_that_raises_keyboard_interrupt_ends_no_loop(bench: MakeBench) -> None:
    """Nobody presses Stop in a worker or on the background loop: a server that awaits the call must live on."""

    def sync() -> None:
        """Be rude."""
        raise KeyboardInterrupt

    async def later() -> None:
        """Be rude, later."""
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    async def items() -> AsyncIterator[int]:
        """Be rude, after one."""
        yield 1
        raise KeyboardInterrupt

    async def fine() -> int:
        """Be nice."""
        return 1

    table = bench(sync, later, items, fine)

    for name, limit in itertools.product(("sync", "later", "items"), (None, 5.0)):
        result = await table.acall(f"t.{name}", timeout_s=limit)
        assert (result.error.code, result.error.reason) == ("execution_error", "cancelled")
        assert (await table.acall("t.fine")).data == 1


def test_stop_inside_a_step_reaches_the_other_steps(bench: MakeBench) -> None:
    notes: list[str] = []

    def interrupted(_: Trip) -> StepRun:
        yield
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(add, steps=[_noting("one", notes), interrupted]).call("t.add", {"a": 1})

    assert notes[-1] == "one after False"


def test_the_record_hears_of_the_end_when_all_steps_have_seen_it(bench: MakeBench) -> None:
    heard: list[tuple[str, Any, str]] = []

    def change(_: Trip) -> StepRun:
        result = yield
        return ToolResult(True, result.data * 10) if result.ok else None

    def record(trip: Trip, result: ToolResult) -> None:
        heard.append((trip.tool, result.data, result.meta["call_id"]))

    table = bench(add, steps=[change], record=record)

    assert table.call("t.add", {"a": 1}).data == 20
    assert table.call("t.no", {}).error.code == "tool_not_found"
    assert heard == [("t.add", 20, "id-1"), ("t.no", None, "id-1")]


def test_the_record_hears_of_stop_wherever_it_came(bench: MakeBench) -> None:
    heard: list[Any] = []

    def interrupted(trip: Trip) -> StepRun:
        yield
        if trip.tool == "t.add":
            raise KeyboardInterrupt

    def stop() -> None:
        """Be stopped."""
        raise KeyboardInterrupt

    table = bench(add, stop, steps=[interrupted], record=lambda trip, result: heard.append((trip.tool, result.error)))

    for name, args in (("t.stop", {}), ("t.add", {"a": 1})):
        with pytest.raises(KeyboardInterrupt):
            table.call(name, args)

    assert [(tool, error.reason) for tool, error in heard] == [("t.stop", "cancelled"), ("t.add", "cancelled")]


def test_a_record_that_fails_costs_no_result(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    def record(_trip: Trip, _result: ToolResult) -> None:
        raise RuntimeError("hunter22")

    table = bench(add, record=record, mask=lambda text: text.replace("hunter22", "***"))

    assert table.call("t.add", {"a": 1}).data == 2
    assert "The record of 't.add' failed" in caplog.text
    assert "hunter" not in caplog.text


async def test_cancelling_an_async_call_passes_through_after_the_steps_have_seen_it(bench: MakeBench) -> None:
    seen: list[Any] = []
    begun = threading.Event()
    ended = threading.Event()

    def watch(_: Trip) -> StepRun:
        seen.append((yield).error.reason)
        return None

    async def wait() -> None:
        """Wait for ever."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    table = bench(wait, steps=[watch])
    task = asyncio.create_task(table.acall("t.wait"))
    await asyncio.to_thread(begun.wait, HANG_S)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == ["cancelled"]
    assert await asyncio.to_thread(ended.wait, HANG_S), "the tool itself is cancelled"


# --- the span


def test_the_span_says_tool_arguments_outcome_and_time(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        table.call("t.add", {"a": "hunter22" + "x" * 500})
        table.call("t.add", {"a": 1})

    bad, good = caplog.records
    assert (good.name, good.levelname, good.span, good.ok) == ("onetool_ipy.span", "INFO", "t.add", True)
    assert good.fields == {"a": "1"}
    assert good.duration_ms >= 0
    assert good.call_id == "id-1"
    assert good.getMessage().startswith("t.add ok=True")
    assert bad.ok is False
    assert "hunter" not in bad.getMessage()
    assert len(bad.fields["a"]) == 200


def test_a_secret_at_the_edge_of_a_cut_leaves_no_part_of_itself(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        for pad in range(185, 201):
            table.call("t.add", {"a": "." * pad + "hunter22"})

    assert "hun" not in caplog.text


def test_a_secret_given_as_the_name_of_a_tool_is_masked_in_its_span(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    table = bench(add, steps=[span(lambda text: text.replace("hunter22", "***"))])

    with caplog.at_level(logging.INFO, SPAN_LOGGER):
        table.call("t.hunter22")

    (record,) = caplog.records
    assert record.span == "t.***"
    assert "hunter" not in caplog.text + str(vars(record))


def test_the_span_is_quiet_by_default(bench: MakeBench, caplog: pytest.LogCaptureFixture) -> None:
    bench(add, steps=[span(str)]).call("t.add", {"a": 1})

    assert caplog.records == []


# --- secrets in failures


def _mask(text: str) -> str:
    return text.replace("hunter22", "***")


def test_secrets_are_masked_in_everything_a_failure_says(bench: MakeBench) -> None:
    class Own(Exception):
        def __init__(self, note: str) -> None:
            super().__init__("own")
            self.note = note

        def __str__(self) -> str:
            return f"own: {self.note}"

    def leak() -> None:
        """Leak in every way."""
        try:
            try:
                raise OSError(2, "hunter22", "/home/hunter22")
            except OSError as first:
                first.add_note("a note with hunter22")
                raise Own("hunter22") from first
        except Own as second:
            raise ExceptionGroup("group", [ValueError("inside hunter22", ["hunter22", {"k": "hunter22"}])]) from second

    error = bench(leak, mask=_mask).call("t.leak").error

    shown = "".join(traceback.format_exception(error.exception))
    assert "hunter22" not in error.message + str(error.to_dict())
    code = [line for line in shown.splitlines() if "hunter22" in line and "raise" not in line and "note" not in line]
    assert [line for line in code if not line.strip().startswith(("first", "^"))] == []
    inner = error.exception.exceptions[0]
    assert inner.args == ("inside ***", ["***", {"k": "***"}])
    assert error.exception.__cause__.note == "***"
    assert error.exception.__cause__.__cause__.filename == "/home/***"


def test_secrets_are_masked_in_what_was_being_handled_when_it_failed(bench: MakeBench) -> None:
    def leak() -> None:
        """Fail while handling a failure."""
        try:
            raise OSError("hunter22")
        except OSError:
            {}["key"]

    exc = bench(leak, mask=_mask).call("t.leak").error.exception

    assert exc.__cause__ is None
    assert exc.__context__.args == ("***",)


def test_secrets_are_masked_in_our_own_failures_too(bench: MakeBench) -> None:
    table = bench(add, mask=_mask)

    error = table.call("t.add", {"a": "hunter22"}).error
    assert "***" in error.message
    assert "hunter22" not in str(error.to_dict())


def test_a_value_that_is_returned_is_never_altered(bench: MakeBench) -> None:
    def tell() -> list[str]:
        """Tell."""
        return ["hunter22"]

    result = bench(tell, mask=_mask).call("t.tell")

    assert result.data == ["hunter22"]
    assert result.to_dict()["data"] == ["hunter22"]


def test_an_exception_with_odd_arguments_is_a_failure_like_any_other(bench: MakeBench) -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    class Locked(Exception):
        __slots__ = ()

        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("locked")

    def odd(which: int) -> None:
        """Raise."""
        raise [ValueError(loop), ValueError(deep), Locked("hunter22"), ValueError(object())][which]

    table = bench(odd, mask=_mask)
    for which in range(4):
        error = table.call("t.odd", {"which": which}).error
        assert error.code == "execution_error"
        assert "hunter22" not in error.message


# --- the rest


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True, [1]], ids=repr)
def test_a_timeout_that_is_none_is_a_misuse(bench: MakeBench, timeout: Any) -> None:
    with pytest.raises(UsageProblem, match="number of seconds above 0"):
        bench(add).call("t.add", {"a": 1}, timeout_s=timeout)


def test_a_timeout_without_end_is_one(bench: MakeBench) -> None:
    assert bench(add).call("t.add", {"a": 1}, timeout_s=float("inf")).data == 2


def test_call_ids_are_different_everywhere_and_grow() -> None:
    ids, others = CallIds(), CallIds()

    made = [ids() for _ in range(1_000)]

    assert len(set(made)) == 1_000
    assert made == sorted(made)
    assert others() not in made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_after_a_fork_the_child_can_call_too(bench: MakeBench) -> None:
    """Fork in the middle: with the loop running, an idle worker, and a call under way in another thread."""
    gate = threading.Event()
    begun = threading.Event()

    def hold() -> None:
        """Hold."""
        begun.set()
        gate.wait(HANG_S)

    table = bench(add, slow_add, hold)
    table.call("t.slow_add", {"a": 1})
    table.call("t.add", {"a": 1}, timeout_s=HANG_S)
    holder = threading.Thread(target=lambda: table.call("t.hold", timeout_s=HANG_S))
    holder.start()
    begun.wait(HANG_S)
    ids = CallIds()
    ids()

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        code = 1
        try:
            good = [
                table.call("t.slow_add", {"a": 1}, timeout_s=HANG_S).data == 2,
                table.call("t.add", {"a": 2}, timeout_s=HANG_S).data == 3,
                asyncio.run(table.acall("t.add", {"a": 3})).data == 4,
                table.workers.abandoned() == 0,
            ]
            os.write(writer, ids().encode() + b" " + str(all(good)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    said = os.read(reader, 1_000).decode()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    gate.set()
    holder.join(HANG_S)

    assert status == 0
    child_id, _, fine = said.partition(" ")
    assert fine == "True"
    assert child_id != ids()
    assert table.call("t.add", {"a": 1}, timeout_s=HANG_S).data == 2


def test_calls_import_no_event_loop_unless_they_need_one() -> None:
    code = (
        "import sys, onetool_ipy\n"
        "box = onetool_ipy.open_toolbox()\n"
        "assert box.call('time.now').ok\n"
        "print([m for m in ('asyncio', 'concurrent.futures', 'ctypes', 'pydantic', 'yaml') if m in sys.modules])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
