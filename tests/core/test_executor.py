"""One call, from name to result: codes, reasons, nesting, async, allow-lists.

Steps, secrets and limits have files of their own.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from onetool_ipy import ToolResult, ToolSpec, UsageProblem
from onetool_ipy.base import errors
from onetool_ipy.base.background import MAX_ITEMS
from onetool_ipy.core import current
from onetool_ipy.core.executor import MAX_DEPTH, CallIds
from onetool_ipy.core.result import own_frames
from onetool_ipy.core.tool import HttpHooks
from onetool_ipy.sources.functions import spec_of
from tests.core.support import MakeBench, short
from tests.harness.patience import HANG_S
from tests.harness.programs import python

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
        (
            "t.add",
            [1, 2],
            "invalid_args",
            "schema",
            "'t.add': the arguments must be an object, not list.",
        ),
        ("t.add", "a", "invalid_args", "schema", "the arguments must be an object, not str."),
        ("t.add", {"A": 1}, "invalid_args", "schema", "unknown argument 'A' (did you mean 'a'?)"),
        ("t.boom", {}, "execution_error", None, "ValueError: no such luck"),
        ("t.exits", {}, "execution_error", None, "SystemExit: 3"),
        ("t.mute", {}, "execution_error", None, "Mute"),
        ("t.off", {}, "tool_not_found", "disabled", "The tool 't.off' is switched off: for now"),
        ("t.refuses", {}, "execution_error", "host_not_allowed", "Not there."),
        (
            "t.stops",
            {},
            "execution_error",
            None,
            "StopIteration: 5",
        ),  # in async code inside a RuntimeError
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
        table.add(
            ToolSpec(
                name=f"t.{tool}", description="x", parameters={"type": "object"}, run=fails(exc)
            )
        )
    off = ToolSpec(
        name="t.off", description="x", parameters={"type": "object"}, run=fails(ValueError())
    )
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
        inner()

    table = bench(outer)
    for options in ({}, {"timeout_s": HANG_S}):
        exc = table.call("t.outer", **options).error.exception

        assert isinstance(exc, KeyError)
        frames = [frame.name for frame in traceback.extract_tb(own_frames(exc))]
        assert frames == ["outer", "inner"]


async def test_own_frames_of_an_async_tool(bench: MakeBench) -> None:
    async def outer() -> None:
        await asyncio.sleep(0)
        raise KeyError("later")

    table = bench(outer)
    for result in (
        table.call("t.outer"),
        await table.acall("t.outer"),
        table.call("t.outer", timeout_s=HANG_S),
    ):
        assert [f.name for f in traceback.extract_tb(own_frames(result.error.exception))] == [
            "outer"
        ]


@pytest.mark.parametrize("how", ["sync", "limited", "async"])
async def test_what_a_tool_leaves_unfinished_is_finished(bench: MakeBench, how: str) -> None:
    def lazy(n: int) -> Iterator[int]:
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
        return promise(n)

    def gives_stream(n: int) -> Any:
        """Give an async generator."""
        return later(n)

    table = bench(lazy, later, gives_promise, gives_stream)
    for name in ("lazy", "later", "gives_promise", "gives_stream"):
        if how == "async":
            result = await table.acall(f"t.{name}", {"n": 3})
        else:
            result = table.call(
                f"t.{name}", {"n": 3}, timeout_s=HANG_S if how == "limited" else None
            )
        assert result.unwrap() == [0, 1, 2], name


def test_an_endless_generator_is_too_large(bench: MakeBench) -> None:
    def endless() -> Iterator[int]:
        n = 0
        while True:
            yield n

    result = bench(endless).call("t.endless")

    assert result.error.reason == "too_large"
    assert f"{MAX_ITEMS:,}" in result.error.message


def test_a_tool_cannot_change_its_callers_arguments(bench: MakeBench) -> None:
    def greedy(items: list[int], options: dict[str, Any]) -> int:
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
        return thing

    assert bench(give).call("t.give").data is thing


@pytest.mark.parametrize("limit", [None, HANG_S])
def test_a_tool_that_calls_itself_for_ever_is_stopped(
    bench: MakeBench, limit: float | None
) -> None:
    depths: list[int] = []

    def again() -> Any:
        depths.append(current.scope().depth)
        return table.call("t.again", source="tool", timeout_s=limit).unwrap()

    table = bench(again)

    result = table.call("t.again")

    assert (result.error.code, result.error.reason) == ("execution_error", "recursion")
    assert max(depths) == MAX_DEPTH
    assert current.scope() is None


async def test_an_async_tool_that_calls_itself_for_ever_is_stopped(bench: MakeBench) -> None:
    async def again() -> Any:
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
        raise inner

    def high() -> Any:
        return table.call("t.low").unwrap()

    table = bench(low, high)

    error = table.call("t.high").error

    assert (error.code, error.reason, error.tool) == ("execution_error", reason, "t.high")
    assert error.message == f"in 't.low': {inner.message}"


def test_nested_calls_know_where_they_are(bench: MakeBench) -> None:
    seen: list[Any] = []

    def low() -> None:
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
async def test_context_variables_reach_the_tool_and_do_not_leak_out(
    bench: MakeBench, how: str
) -> None:
    def look() -> str:
        found = COLOUR.get()
        COLOUR.set("changed")
        return found

    async def look_later() -> str:
        await asyncio.sleep(0)
        return look()

    table = bench(look, look_later)
    COLOUR.set("red")

    if how == "async":
        found = (await table.acall("t.look")).data
    elif how.startswith("async tool"):
        found = (
            await table.acall("t.look_later", timeout_s=HANG_S if "limited" in how else None)
        ).data
    else:
        found = table.call("t.look", timeout_s=HANG_S if how == "limited" else None).data

    assert found == "red"
    assert COLOUR.get() == ("changed" if how == "sync" else "red")


async def test_async_tools_are_called_from_sync_and_async_code(bench: MakeBench) -> None:
    table = bench(slow_add, add)

    assert table.call("t.slow_add", {"a": 1}).data == 2
    assert (await table.acall("t.slow_add", {"a": 2})).data == 3
    assert (await table.acall("t.add", {"a": 3})).data == 4


async def test_an_async_tool_that_can_block_runs_in_the_thread_of_a_sync_caller(
    bench: MakeBench,
) -> None:
    async def where() -> str:
        return threading.current_thread().name

    table = bench()
    table.add(
        spec_of(where, pack="t", origin="cell").replace(
            http=HttpHooks(lambda _: threading.current_thread().name, lambda _: [])
        )
    )

    assert table.call("t.where").data == threading.current_thread().name
    # A limit that it does not keep itself.
    assert table.call("t.where", timeout_s=60).data == "onetool-loop"
    assert (await table.acall("t.where")).data == "onetool-loop"


def test_async_tools_share_one_loop_that_is_not_the_callers(bench: MakeBench) -> None:
    async def where() -> Any:
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


def test_calls_from_many_threads(bench: MakeBench) -> None:
    table = bench(add, slow_add)
    found: list[Any] = []

    def work(n: int) -> None:
        names = ["t.add", "t.slow_add"] * 25
        found.extend(
            table.call(name, {"a": n, "b": i}).data == n + i for i, name in enumerate(names)
        )

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert found == [True] * 400


@pytest.mark.spec("004/Registry/tool-allow filters the callable set")
def test_what_an_allow_list_leaves_out_cannot_be_called(bench: MakeBench) -> None:
    ran: list[int] = []

    def touch() -> None:
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
    spec = ToolSpec(
        name="t.file", description="x", parameters={"type": "object"}, run=lambda args: 1
    )
    table.add(spec.replace(load=live))

    assert table.call("t.file", allow=["t.other"]).error.reason == "not_allowed"
    assert imported == []


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
    """Fork in the middle: with the loop running, an idle worker, and a call under way in another
    thread."""
    gate = threading.Event()
    begun = threading.Event()

    def hold() -> None:
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
        "import sys, onetool_ipy\nbox = onetool_ipy.open_toolbox()\nassert"
        " box.call('time.now').ok\nprint([m for m in ('asyncio', 'concurrent.futures', 'ctypes',"
        " 'yaml') if m in sys.modules])"
    )

    done = python(code)

    assert done.stdout.strip() == "[]"


async def test_async_calls_of_quick_tools_let_the_loop_run(bench: MakeBench) -> None:
    def act() -> int:
        return 1

    table, turns = bench(act), 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    for _ in range(20):
        assert (await table.acall("t.act")).data == 1
    counting.cancel()

    assert turns >= 20


class _Below:
    """Two tools that only read, and one that writes; the first calls the second, which calls the
    third."""

    def __init__(
        self, bench: MakeBench, how: str = "sync", *, is_outer_read_only: bool = True
    ) -> None:
        self.table = table = bench()
        self.written: list[int] = []
        self.failures: list[Any] = []

        def write(n: int) -> int:
            self.written.append(n)
            return n

        def nested(name: str, n: int) -> Any:
            # A tool of a model calls as Python does.
            result = table.call(name, {"n": n})
            if result.error is not None:
                self.failures.append(result.error)
            return result.data

        def middle(n: int) -> Any:
            """Call a tool that writes, in this thread, in another one, or later."""
            if how == "thread":
                results: list[Any] = []
                inside = contextvars.copy_context()
                thread = threading.Thread(
                    target=lambda: inside.run(lambda: results.append(nested("t.write", n)))
                )
                thread.start()
                thread.join()
                return results[0]
            return nested("t.write", n)

        async def outer_later(n: int) -> Any:
            """Call a tool that reads."""
            resolved = table.resolve("t.middle", {"n": n})
            return (await table.executor.acall(resolved)).data

        def outer(n: int) -> Any:
            """Call a tool that reads."""
            return nested("t.middle", n)

        first = outer_later if how == "async" else outer
        first.__name__ = "outer"
        table.add(write)
        table.add(replace(spec_of(middle, pack="t", origin="cell"), read_only=True))
        table.add(replace(spec_of(first, pack="t", origin="cell"), read_only=is_outer_read_only))


@pytest.mark.parametrize("how", ["sync", "async", "thread"])
@pytest.mark.parametrize("source", ["model", "mcp", "rest"])
def test_a_tool_that_only_reads_cannot_write_through_another(
    bench: MakeBench, source: str, how: str
) -> None:
    """Two calls deep, in a thread and in a coroutine; what a person calls may do it."""
    below = _Below(bench, how)

    below.table.call("t.outer", {"n": 1}, source=source)

    assert below.written == []
    assert [(error.reason, error.tool) for error in below.failures] == [("not_approved", "t.write")]
    assert "'t.middle' called it" in below.failures[0].message
    for person in ("python", "magic", "shortcut", "cli"):
        below.table.call("t.outer", {"n": 2}, source=person)
    assert below.written == [2, 2, 2, 2]


@pytest.mark.parametrize("source", ["model", "mcp", "rest"])
def test_a_yes_to_the_outermost_tool_is_a_yes_to_what_it_calls(
    bench: MakeBench, source: str
) -> None:
    """A tool that writes runs for others only after a yes; one that reads may have one, too."""
    reading, writing = _Below(bench), _Below(bench, is_outer_read_only=False)

    resolved = reading.table.resolve("t.outer", {"n": 1}, source=source)
    resolved.has_yes = True
    reading.table.executor.call(resolved)
    writing.table.call("t.outer", {"n": 1}, source=source)

    assert (reading.written, writing.written) == ([1], [1])


def test_a_tool_may_write_in_a_scope_of_a_client_only_with_a_yes(bench: MakeBench) -> None:
    """An MCP request has a scope of its own around its outermost call."""
    below = _Below(bench)
    for has_yes in (False, True):
        token = current.enter(current.Scope(None))
        try:
            resolved = below.table.resolve("t.outer", {"n": 1}, source="mcp")
            resolved.has_yes = has_yes
            below.table.executor.call(resolved)
        finally:
            current.leave(token)
    assert below.written == [1]


@pytest.mark.parametrize("source", ["python", "magic", "model", "mcp", "rest", "cli", "shortcut"])
def test_what_is_nested_too_deep_to_be_checked_is_refused_in_every_face(
    bench: MakeBench, source: str
) -> None:
    """The schema of the argument is not looked at below some 130 levels: a tool ran with anything
    there."""
    ran: list[Any] = []

    def take(rows: list[Any]) -> int:
        ran.append(rows)
        return 1

    table = bench(take)
    for levels, code in (
        (100, None),
        (101, "invalid_args"),
        (150, "invalid_args"),
        (900, "invalid_args"),
    ):
        rows: list[Any] = []
        for _ in range(levels - 1):
            rows = [rows]
        result = table.call("t.take", {"rows": rows}, source=source)
        assert (result.error and result.error.code) == code, levels
    assert len(ran) == 1
