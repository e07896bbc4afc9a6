"""Steps around a call: their order, what they may answer or replace, and what they see of Stop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import pytest

from onetool_ipy import Failure, ToolResult
from onetool_ipy.base import errors
from onetool_ipy.core import current
from onetool_ipy.core.executor import SPAN_LOGGER, span
from onetool_ipy.core.resolve import ResolvedCall
from tests.core.support import MakeBench
from tests.harness.patience import HANG_S

StepRun = Generator[None, ToolResult, ToolResult | None]


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def _noting(name: str, notes: list[str]) -> Callable[[ResolvedCall], StepRun]:
    def step(trip: ResolvedCall) -> StepRun:
        notes.append(f"{name} before {trip.tool}")
        result = yield
        notes.append(f"{name} after {result.ok}")
        return None

    return step


def test_steps_stand_around_the_call_in_order(bench: MakeBench) -> None:
    notes: list[str] = []

    def act() -> None:
        notes.append("act")

    bench(act, steps=[_noting("one", notes), _noting("two", notes)]).call("t.act")

    assert notes == [
        "one before t.act",
        "two before t.act",
        "act",
        "two after True",
        "one after True",
    ]


def test_a_step_that_is_switched_on_stands_inside_the_others(bench: MakeBench) -> None:
    notes: list[str] = []
    switched = [_noting("inner", notes)]

    def act() -> None:
        """Act."""

    table = bench(act, steps=[_noting("outer", notes)], switched=switched)
    table.call("t.act")
    assert notes == [
        "outer before t.act",
        "inner before t.act",
        "inner after True",
        "outer after True",
    ]

    notes.clear()
    switched.clear()
    table.call("t.act")
    assert notes == ["outer before t.act", "outer after True"]


def test_steps_see_calls_that_find_no_tool(bench: MakeBench) -> None:
    notes: list[str] = []

    bench(steps=[_noting("one", notes)]).call("t.none")

    assert notes == ["one before t.none", "one after False"]


@pytest.mark.parametrize("ok", [True, False])
async def test_a_step_may_answer_without_running_the_tool(bench: MakeBench, ok: bool) -> None:
    notes: list[str] = []
    answer = ToolResult(
        ok, "kept" if ok else None, None if ok else Failure("execution_error", "no", "t.boom")
    )

    def boom() -> None:
        raise AssertionError

    def cache(trip: ResolvedCall) -> StepRun:
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
    def double(_: ResolvedCall) -> StepRun:
        result = yield
        return ToolResult(True, result.data * 2)

    result = bench(add, steps=[double]).call("t.add", {"a": 1})

    assert result.data == 4
    assert {"tool", "call_id", "source", "duration_ms"} <= set(result.meta)


def test_a_step_may_replace_a_good_result_by_a_failed_one(bench: MakeBench) -> None:
    def judge(_: ResolvedCall) -> StepRun:
        yield
        return ToolResult(
            False, error=Failure("execution_error", "no", "t.add", reason="invalid_output")
        )

    result = bench(add, steps=[judge]).call("t.add", {"a": 1})

    assert (result.ok, result.error.reason) == (False, "invalid_output")


def test_a_step_may_step_aside(bench: MakeBench) -> None:
    def aside(_: ResolvedCall) -> StepRun:
        return None
        yield

    def not_even_begun(_: ResolvedCall) -> None:
        return None

    assert bench(add, steps=[aside, not_even_begun]).call("t.add", {"a": 1}).data == 2


def test_what_a_step_refuses_is_a_failed_call(bench: MakeBench) -> None:
    notes: list[str] = []

    def refuse(_: ResolvedCall) -> StepRun:
        raise errors.NotApproved("Say yes first.")
        yield

    refused = bench(add, steps=[_noting("one", notes), refuse]).call("t.add", {"a": 1})
    assert (refused.error.reason, refused.error.message) == ("not_approved", "Say yes first.")
    assert notes == ["one before t.add", "one after False"]


def _broken(_: ResolvedCall) -> StepRun:
    raise ZeroDivisionError("a bug")
    yield


def _broken_at_once(_: ResolvedCall) -> None:
    raise ZeroDivisionError("a bug")


def _broken_after(_: ResolvedCall) -> StepRun:
    yield
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("step", [_broken, _broken_at_once, _broken_after])
@pytest.mark.parametrize("mask", ["works", "breaks"])
async def test_a_step_that_breaks_costs_itself_not_the_call_and_not_its_row(
    bench: MakeBench, caplog: pytest.LogCaptureFixture, step: Any, mask: str
) -> None:
    """Tracing, spans and lineage stand beside a call; also where the masking of their error
    breaks."""
    rows: list[tuple[str, bool]] = []

    def mask_text(text: str) -> str:
        if mask == "breaks":
            raise ValueError("the mask is broken")
        return text

    options = {
        "mask": mask_text,
        "record": lambda resolved, result: rows.append((resolved.tool, result.ok)),
    }
    table = bench(add, steps=[step], **options)
    for result in (table.call("t.add", {"a": 1}), await table.acall("t.add", {"a": 1})):
        assert result.data == 2
    assert rows == [("t.add", True)] * 2
    assert "ZeroDivisionError" in caplog.text
    assert ("a bug" in caplog.text) == (mask == "works")


def test_a_switched_step_that_breaks_does_not_let_the_tool_run_in_its_place(
    bench: MakeBench,
) -> None:
    """A replay stands in for the tool; where it breaks, nothing may be sent."""

    def act() -> None:
        raise AssertionError

    result = bench(act, switched=[_broken]).call("t.act")
    assert result.error.message == "ZeroDivisionError: a bug"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_row_is_written_whatever_a_step_raises(
    bench: MakeBench, stop: type[BaseException]
) -> None:
    rows: list[str] = []

    def ends(_: ResolvedCall) -> StepRun:
        yield
        raise stop

    table = bench(add, steps=[ends], record=lambda resolved, _result: rows.append(resolved.tool))
    with pytest.raises(stop):
        table.call("t.add", {"a": 1})
    assert rows == ["t.add"]


def test_a_failure_that_cannot_be_masked_is_a_failed_call_without_its_text(
    bench: MakeBench,
) -> None:
    def fail() -> None:
        raise RuntimeError("s3cr3t")

    def mask_text(_text: str) -> str:
        raise ValueError("the mask is broken")

    result = bench(fail, mask=mask_text).call("t.fail")
    assert (result.error.message, result.error.exception) == ("RuntimeError", None)


def test_a_step_that_breaks_after_the_call_does_not_cost_its_result(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []

    def broken(_: ResolvedCall) -> StepRun:
        yield
        raise OSError("disk full")

    def judge(_: ResolvedCall) -> StepRun:
        yield
        raise errors.InvalidOutput("Not what was promised.")

    assert bench(add, steps=[_noting("one", notes), broken]).call("t.add", {"a": 1}).data == 2
    assert notes == ["one before t.add", "one after True"]
    assert "disk full" in caplog.text
    judged = bench(add, steps=[judge]).call("t.add", {"a": 1})
    assert judged.error.reason == "invalid_output"
    assert judged.meta["call_id"] == "id-1"


@pytest.mark.parametrize("limit", [None, HANG_S])
def test_stop_passes_through_after_the_steps_have_seen_it(
    bench: MakeBench, limit: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[ToolResult] = []

    def watch(_: ResolvedCall) -> StepRun:
        seen.append((yield))
        return None

    def stop() -> None:
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
    """Nobody presses Stop in a worker or on the background loop: a server that awaits the call must
    live on."""

    def sync() -> None:
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
        return 1

    table = bench(sync, later, items, fine)

    for name, limit in itertools.product(("sync", "later", "items"), (None, 5.0)):
        result = await table.acall(f"t.{name}", timeout_s=limit)
        assert (result.error.code, result.error.reason) == ("execution_error", "cancelled")
        assert (await table.acall("t.fine")).data == 1


def test_the_record_hears_of_the_end_when_all_steps_have_seen_it(bench: MakeBench) -> None:
    heard: list[tuple[str, Any, str]] = []

    def change(_: ResolvedCall) -> StepRun:
        result = yield
        return ToolResult(True, result.data * 10) if result.ok else None

    def record(trip: ResolvedCall, result: ToolResult) -> None:
        heard.append((trip.tool, result.data, result.meta["call_id"]))

    table = bench(add, steps=[change], record=record)

    assert table.call("t.add", {"a": 1}).data == 20
    assert table.call("t.no", {}).error.code == "tool_not_found"
    assert heard == [("t.add", 20, "id-1"), ("t.no", None, "id-1")]


def test_the_record_hears_of_stop(bench: MakeBench) -> None:
    heard: list[Any] = []

    def stop() -> None:
        raise KeyboardInterrupt

    table = bench(stop, record=lambda trip, result: heard.append((trip.tool, result.error.reason)))

    with pytest.raises(KeyboardInterrupt):
        table.call("t.stop")

    assert heard == [("t.stop", "cancelled")]


def test_a_record_that_fails_costs_no_result(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    def record(_trip: ResolvedCall, _result: ToolResult) -> None:
        raise RuntimeError("hunter22")

    table = bench(add, record=record, mask=lambda text: text.replace("hunter22", "***"))

    assert table.call("t.add", {"a": 1}).data == 2
    assert "The call of 't.add' could not be logged" in caplog.text
    assert "hunter" not in caplog.text


async def test_cancelling_an_async_call_passes_through_after_the_steps_have_seen_it(
    bench: MakeBench,
) -> None:
    seen: list[Any] = []
    begun = threading.Event()
    ended = threading.Event()

    def watch(_: ResolvedCall) -> StepRun:
        seen.append((yield).error.reason)
        return None

    async def wait() -> None:
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
