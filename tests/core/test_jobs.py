"""Jobs: a call on its own, with status, progress, result and cancel."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onetool_ipy.core import current
from onetool_ipy.core.jobs import Job, Jobs, Progress
from onetool_ipy.core.tool import ToolCall
from tests.core.support import Bench, MakeBench
from tests.harness.patience import HANG_S, until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def _start(
    table: Bench, name: str, args: Any = None, *, timeout_s: float | None = None, **options: Any
) -> Job:
    return Job(
        table.executor, table.resolve(name, args, source="magic", timeout_s=timeout_s), **options
    )


def _wait(event: threading.Event) -> None:
    assert event.wait(HANG_S)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_job_runs_and_is_done(bench: MakeBench, gate: threading.Event, kind: str) -> None:
    begun = threading.Event()

    def sync(n: int) -> int:
        begun.set()
        gate.wait(HANG_S)
        return n + 1

    async def later(n: int) -> int:
        begun.set()
        await asyncio.to_thread(gate.wait, HANG_S)
        return n + 1

    table = bench(sync, later)
    job = _start(table, "t.sync" if kind == "sync" else "t.later", {"n": 1})

    _wait(begun)
    assert job.status == "running"
    assert "running" in repr(job)
    with pytest.raises(TimeoutError, match=r"still running after 0\.01 s"):
        job.result(0.01)
    gate.set()
    result = job.result(HANG_S)

    assert (result.data, job.status) == (2, "done")
    assert result.meta["call_id"] == "id-1"
    assert job.result() is result
    assert job.cancel() is False
    assert job.status == "done"


def test_a_job_waits_its_turn_as_queued(bench: MakeBench, gate: threading.Event) -> None:
    """The loop is busy with something else: the job has not begun, and can be cancelled before it
    does."""
    ran: list[int] = []

    async def hold() -> None:
        gate.wait(HANG_S)

    def act() -> None:
        ran.append(1)

    table = bench(act)
    holding = table.background.submit(hold)
    assert until(holding.is_alive)
    second, third = _start(table, "t.act"), _start(table, "t.act")

    assert second.status == "queued"
    assert third.cancel() is True
    assert third.status == "cancelled"
    assert third.result(HANG_S).error.reason == "cancelled"
    gate.set()
    assert second.result(HANG_S).ok
    assert ran == [1]


def test_a_failed_call_is_a_failed_job(bench: MakeBench) -> None:
    def boom() -> None:
        raise ValueError("no")

    table = bench(boom)

    for name, code in (("t.boom", "execution_error"), ("t.none", "tool_not_found")):
        job = _start(table, name)
        assert job.result(HANG_S).error.code == code
        assert job.status == "failed"


def test_a_limit_holds_for_a_job(bench: MakeBench, gate: threading.Event) -> None:
    def block() -> None:
        gate.wait(HANG_S)

    job = _start(bench(block), "t.block", timeout_s=0.05)

    assert job.result(HANG_S).error.reason == "timeout"
    assert job.status == "failed"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("spin", "cancelled"),
        ("sleeper", "cancelled"),
        ("block", "abandoned"),
        ("swallow", "abandoned"),
    ],
)
def test_cancel_ends_a_tool_or_leaves_it_behind(
    bench: MakeBench, gate: threading.Event, name: str, status: str
) -> None:
    begun = threading.Event()

    def spin() -> None:
        begun.set()
        while not gate.is_set():
            pass

    def block() -> None:
        """Wait inside C."""
        begun.set()
        gate.wait(HANG_S)

    async def sleeper() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def swallow() -> None:
        begun.set()
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    table = bench(spin, block, sleeper, swallow)
    told: list[str] = []
    job = _start(table, f"t.{name}", notify=lambda job: told.append(job.status))
    _wait(begun)

    assert job.cancel() is True

    assert until(lambda: job.status == status)
    assert job.cancel() is False
    assert job.result(HANG_S).error.reason == "cancelled"
    assert until(lambda: table.workers.abandoned() == (1 if status == "abandoned" else 0))
    # How it was a moment later, on a machine of any speed.
    assert until(lambda: told[-1] in (status, "abandoned"))
    gate.set()
    assert until(lambda: job.status == "cancelled")
    assert until(lambda: table.workers.abandoned() == 0)


def test_progress_is_heard_also_from_tools_that_the_tool_calls(bench: MakeBench) -> None:
    def low() -> None:
        current.scope().progress(2, None, "deep")

    def high() -> None:
        """Report, and call."""
        current.scope().progress(1, 3, "one")
        table.call("t.low", source="tool")

    table = bench(low, high)
    heard: list[Progress] = []

    job = _start(table, "t.high", notify=lambda job: heard.append(job.progress))

    assert job.result(HANG_S).ok
    assert Progress(1, 3, "one") in heard
    assert heard.index(Progress(1, 3, "one")) < heard.index(Progress(2, None, "deep"))
    assert job.progress == Progress(2, None, "deep")


def test_who_listens_cannot_break_the_call(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    def act() -> int:
        current.scope().progress(1, 1, "")
        return 5

    def broken(job: Job) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        assert _start(bench(act), "t.act", notify=broken).result(HANG_S).data == 5
    assert "ZeroDivisionError" in caplog.text


class Told:
    """Notes in which threads a job was told."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def told(self, job: Job) -> None:
        assert job.number
        self.threads.append(threading.get_ident())

    def printed(self, text: str) -> None:
        """Nothing is printed here."""


def test_the_host_knows_a_job_when_it_was_started_also_one_that_ended_already(
    bench: MakeBench,
) -> None:
    def quick() -> int:
        return 1

    table = bench(quick)
    for _ in range(100):
        told = Told()
        job = Jobs(lambda _call, told=told: told).start(
            table.executor, table.resolve("t.quick", {}, source="magic")
        )
        assert threading.get_ident() in told.threads
        assert job.result(HANG_S).data == 1


async def test_a_job_can_be_awaited(bench: MakeBench, gate: threading.Event) -> None:
    def wait(n: int) -> int:
        gate.wait(HANG_S)
        return n

    table = bench(wait)
    job = _start(table, "t.wait", {"n": 3})
    impatient = asyncio.create_task(asyncio.wait_for(_of(job), 0.02))
    with pytest.raises(TimeoutError):
        await impatient
    assert job.status == "running", "who stops waiting does not stop the job"
    gate.set()

    assert (await job).data == 3
    assert (await job).data == 3


async def _of(job: Job) -> Any:
    return await job


async def test_awaiting_a_cancelled_job_gives_its_result(
    bench: MakeBench, gate: threading.Event
) -> None:
    def block() -> None:
        gate.wait(HANG_S)

    job = _start(bench(block), "t.block")
    job.cancel()

    assert (await job).error.reason == "cancelled"


def test_fifty_ended_jobs_are_kept_and_every_one_that_runs(
    bench: MakeBench, gate: threading.Event
) -> None:
    """A loop that starts jobs for days holds the results of the newest alone."""

    def work(waits: bool) -> None:
        if waits:
            gate.wait(HANG_S)

    table = bench(work)
    jobs = Jobs(lambda _call: None)
    started = []
    for number in range(60):
        resolved = table.resolve("t.work", {"waits": number == 0}, source="magic")
        started.append(jobs.start(table.executor, resolved))
        if number:
            started[-1].result(HANG_S)

    # The newest was started before it ended: fifty ended ones, the first and the newest.
    assert jobs.list() == [started[0], *started[-51:]]
    assert jobs.get(started[1].number) is None
    assert started[1].status == "done"


def test_a_job_that_starts_jobs_of_itself_ends(bench: MakeBench) -> None:
    """The depth goes with the context, so that a tool cannot call itself for ever by way of
    jobs."""

    def again() -> Any:
        return _start(table, "t.again").result(HANG_S).unwrap()

    table = bench(again)

    assert _start(table, "t.again").result(HANG_S).error.reason == "recursion"


def test_many_jobs_at_once(bench: MakeBench) -> None:
    def double(n: int) -> int:
        return n * 2

    table = bench(double)
    jobs = [_start(table, "t.double", {"n": n}) for n in range(100)]

    assert [job.result(HANG_S).data for job in jobs] == [n * 2 for n in range(100)]


def test_jobs_that_threads_start_at_once_have_numbers_of_their_own(bench: MakeBench) -> None:
    def work() -> int:
        return 1

    table, together = bench(work), threading.Barrier(4)

    def listen(_call: ToolCall) -> None:
        together.wait(HANG_S)

    def start(_thread: int) -> Job:
        return jobs.start(table.executor, table.resolve("t.work", {}, source="magic"))

    jobs = Jobs(listen)
    with ThreadPoolExecutor(4) as threads:
        started = list(threads.map(start, range(4)))

    assert sorted(job.number for job in started) == [1, 2, 3, 4]
    assert {id(job) for job in jobs.list()} == {id(job) for job in started}
    assert all(jobs.get(job.number) is job for job in started)
