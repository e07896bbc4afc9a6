"""The background loop: what work on it gives, raises or leaves undone reaches the one who waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import importlib
import io
import itertools
import logging
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from onetool_ipy.base.background import (
    MAX_ABANDONED,
    Abandoned,
    Background,
    DeadlineExceeded,
    StepThread,
    Workers,
    WorkerThread,
    clock_stopped,
    do_together,
    drain,
    outcome,
    require_wanted,
    run_to_completion,
)
from onetool_ipy.base.errors import CallCancelled, TooLarge, Unavailable
from onetool_ipy.base.interrupts import deferred
from tests.core.support import Calls
from tests.harness.patience import HANG_S, until


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.close()


async def _fine() -> str:
    await asyncio.sleep(0)
    return "fine"


async def _thread() -> threading.Thread:
    return threading.current_thread()


def _raising(exc: BaseException) -> Callable[[], Any]:
    async def work() -> None:
        await asyncio.sleep(0)
        raise exc

    return work


def test_a_loop_that_begins_while_it_is_closed_harms_neither() -> None:
    background, errors = Background(), list[BaseException]()

    def work() -> None:
        for _ in range(300):
            try:
                background.run(_fine)
            except CallCancelled:
                pass
            except BaseException as exc:
                errors.append(exc)

    callers = [threading.Thread(target=work) for _ in range(2)]
    for caller in callers:
        caller.start()
    while any(caller.is_alive() for caller in callers):
        background.close()
    for caller in callers:
        caller.join()
    background.close()
    assert errors == []


@pytest.mark.parametrize(
    "exc",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()],
    ids=lambda exc: type(exc).__name__,
)
def test_whatever_work_raises_is_told_and_the_loop_goes_on(
    background: Background, exc: BaseException
) -> None:
    thread = background.run(_thread)

    with pytest.raises(type(exc)) as caught:
        background.run(_raising(exc))

    assert caught.value is exc
    assert background.run(_fine) == "fine"
    assert background.run(_thread) is thread


@pytest.mark.parametrize(
    "exc", [asyncio.CancelledError(), concurrent.futures.CancelledError()], ids=["own", "other"]
)
def test_work_that_cancels_itself_is_a_cancelled_call(
    background: Background, exc: BaseException
) -> None:
    with pytest.raises(CallCancelled, match="The tool was cancelled"):
        background.run(_raising(exc))


def test_work_runs_in_a_copy_of_its_callers_context(background: Background) -> None:
    place = contextvars.ContextVar("place", default="nowhere")
    place.set("here")

    async def work() -> str:
        found = place.get()
        place.set("there")
        return found

    assert background.run(work) == "here"
    assert place.get() == "here"


def test_work_given_up_before_it_began_never_begins(background: Background) -> None:
    begun: list[str] = []
    gate = threading.Event()

    async def hold() -> None:
        gate.wait(HANG_S)

    async def work() -> None:
        begun.append("work")

    background.submit(hold)
    running = background.submit(work)
    background.abandon(running)
    gate.set()

    assert background.run(_fine) == "fine"
    assert begun == []
    assert running.future.cancelled()
    assert not running.is_alive()


def test_work_of_a_call_that_was_given_up_is_not_wanted_either() -> None:
    """A tool that asks a person from within another one: Stop of the outer call ends the
    question."""
    workers, is_given_up = Workers(), threading.Event()
    ends: list[type[BaseException] | None] = []

    def inner() -> None:
        require_wanted()
        is_begun.set()
        is_given_up.wait(HANG_S)
        try:
            require_wanted()
        except BaseException as exc:
            ends.append(type(exc))
            raise
        ends.append(None)

    is_begun = threading.Event()
    outer = workers.submit(lambda: workers.run(inner, None))
    assert is_begun.wait(HANG_S)
    outer.is_abandoned = True
    is_given_up.set()
    outer.join(HANG_S)

    assert ends == [Abandoned]


def test_a_call_given_up_in_the_moment_of_its_start_does_not_run() -> None:
    """Too late to be cancelled, too early to be ended by an exception: a loop would run for
    ever."""
    begun: list[str] = []
    workers, worker = Workers(), WorkerThread(lambda: begun.append("work"))

    class Started(concurrent.futures.Future[Any]):
        def set_running_or_notify_cancel(self) -> bool:
            is_wanted = super().set_running_or_notify_cancel()
            workers.abandon(worker)
            return is_wanted

    worker.future = Started()
    worker.start()
    worker.join(HANG_S)

    assert begun == []
    assert workers.abandoned() == 0


def test_a_call_given_up_inside_of_an_import_leaves_the_module_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls wait for a module that a third thread imports. One is given up; the other gets the
    module."""
    gate = SimpleNamespace(is_reached=threading.Event(), is_open=threading.Event())
    monkeypatch.setitem(sys.modules, "gate_of_the_import", gate)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "held_up.py").write_text(
        f"from gate_of_the_import import *\nis_reached.set()\nis_open.wait({HANG_S})\n",
        encoding="utf-8",
    )
    workers, threads = Workers(), []
    for _ in range(3):
        threads.append(workers.submit(lambda: importlib.import_module("held_up")))
        ident = threads[-1].ident or 0
        assert gate.is_reached.wait(HANG_S)
        if len(threads) > 1:
            assert until(
                lambda ident=ident: sys._current_frames()[ident].f_code.co_name == "acquire"
            )

    workers.abandon(threads[1])
    gate.is_open.set()

    for thread in threads:
        thread.join(HANG_S / 3)
    assert [thread.is_alive() for thread in threads] == [False] * 3
    assert threads[2].future.result().__name__ == "held_up"


def test_a_call_given_up_inside_of_an_import_ends_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the next call finds the library whole."""
    gate = SimpleNamespace(is_reached=threading.Event(), is_open=threading.Event())
    monkeypatch.setitem(sys.modules, "gate_of_the_library", gate)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "library_part.py").write_text(
        "from gate_of_the_library import *\nis_reached.set()\nwhile not is_open.is_set():"
        " is_open.wait(0.001)\n",
        encoding="utf-8",
    )
    (tmp_path / "library_whole.py").write_text(
        "import library_part\nis_whole = True\n", encoding="utf-8"
    )

    def use_and_loop() -> None:
        importlib.import_module("library_whole")
        while True:
            gate.is_open.wait(0.001)

    workers = Workers()
    worker = workers.submit(use_and_loop)
    assert gate.is_reached.wait(HANG_S)

    workers.abandon(worker)
    assert workers.abandoned() == 1
    worker.join(0.2)  # time enough for an exception that must not come
    gate.is_open.set()
    worker.join(HANG_S)

    assert not worker.is_alive()
    assert sys.modules["library_whole"].is_whole


def test_an_import_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "endless.py").write_text("while True: pass\n", encoding="utf-8")
    worker = Workers().submit(lambda: importlib.import_module("endless"))

    with Calls("WorkerThread._has_thrown") as looks:
        worker.throw(import_s=0.1)
        worker.join(HANG_S)

    assert not worker.is_alive()
    assert "endless" not in sys.modules
    assert sum(looks.values()) < 100, "one that looks all the time keeps a core busy"


def test_a_call_given_up_while_it_takes_the_lock_of_a_log_gives_it_back_and_ends() -> None:
    handler = logging.StreamHandler(io.StringIO())
    lock, never = handler.lock, threading.Event()
    assert lock is not None

    def use_and_loop() -> None:
        handler.acquire()
        handler.release()
        while True:
            never.wait(0.001)

    with lock:
        worker = Workers().submit(use_and_loop)
        assert until(lambda: _code_of(worker) is logging.Handler.acquire.__code__)
        worker.throw()
    worker.join(HANG_S)

    assert not worker.is_alive()
    handler.lock = None  # the end of the process would wait for one that is kept
    assert lock.acquire(blocking=False)


def _code_of(worker: threading.Thread) -> object:
    frame = sys._current_frames().get(worker.ident or 0)
    return frame and frame.f_code


# The exception may arrive in a callback of the collector, where Python drops it and says so: that
# call goes on.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["imports", "logs"])
def test_a_call_given_up_at_any_line_leaves_no_lock_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An exception between two lines of the import system, or of a log's handler, kept their locks
    once in 50 calls."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_again.py").write_text("", encoding="utf-8")
    importlib.invalidate_caches()
    log = logging.Logger("a log of its own")
    log.addHandler(logging.StreamHandler(io.StringIO()))

    def use() -> None:
        if kind == "logs":
            log.warning("used")
        else:
            sys.modules.pop("imported_again", None)
            importlib.import_module("imported_again")

    def use_until(is_over: threading.Event) -> None:
        while not is_over.is_set():
            use()

    workers = Workers()
    for _ in range(300):
        is_over = threading.Event()
        worker = workers.submit(partial(use_until, is_over))
        worker.join(0.001)
        worker.throw(import_s=0)
        is_over.set()
        next_one = workers.submit(use)
        next_one.join(HANG_S / 3)
        assert not next_one.is_alive()


def test_work_past_its_limit_is_told_from_a_time_out_of_its_own(background: Background) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceeded, match="It did not finish within 0") as caught:
        background.run(lambda: run_to_completion(endless, 0.01))
    for limit_s in (None, HANG_S):
        with pytest.raises(TimeoutError, match="mine"):
            background.run(
                lambda limit_s=limit_s: run_to_completion(_raising(TimeoutError("mine")), limit_s)
            )

    failure = caught.value.of("a.b", 20)
    assert failure.message == "'a.b' did not finish within 20 s."
    assert failure.hint == "Raise the limit: --timeout 60"
    assert caught.value.of("a.b", 2).hint == "Raise the limit: --timeout 30"


def test_eight_calls_that_do_not_end_leave_no_room_for_one_with_a_limit() -> None:
    workers, gate = Workers(), threading.Event()
    for number in range(MAX_ABANDONED):
        assert workers.abandoned() == number
        workers.require_room()
        workers.abandon(workers.submit(lambda: gate.wait(HANG_S)))

    with pytest.raises(Unavailable, match="8 earlier calls that ran past their limit"):
        workers.run(lambda: 1, HANG_S)
    gate.set()

    assert until(lambda: workers.abandoned() == 0)
    assert workers.run(lambda: 1, HANG_S) == 1


def test_the_clock_of_a_call_and_of_the_one_that_waits_for_it_stands_still_for_a_person() -> None:
    seen: list[bool] = []

    def ask() -> None:
        asking = threading.current_thread()
        assert isinstance(asking, WorkerThread)
        with clock_stopped():
            seen.append(until(lambda: min(asking.paused_s(), outer.paused_s()) > 0))
        seen.append(asking.paused_s() == asking.paused_s() > 0)

    workers = Workers()
    outer = WorkerThread(lambda: workers.run(ask, HANG_S))
    outer.start()
    outer.join(HANG_S)

    assert seen == [True, True]
    assert outer.paused_s() == outer.paused_s() > 0


def test_a_generator_without_an_end_is_too_large() -> None:
    assert drain(iter(range(3))) == [0, 1, 2]
    with pytest.raises(TooLarge, match="yields more than 1,000,000 items"):
        drain(itertools.count())


def test_who_waits_for_work_that_a_closing_loop_did_not_begin_is_told(
    background: Background,
) -> None:
    """The loop is held up; behind that stand a call and the end of the loop, in this order."""
    gate = threading.Event()
    holding: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, threading.Thread]] = (
        queue.SimpleQueue()
    )
    begun: list[str] = []

    async def hold() -> None:
        holding.put((asyncio.get_running_loop(), threading.current_thread()))
        gate.wait(HANG_S)

    async def work() -> None:
        begun.append("work")

    background.submit(hold)
    loop, thread = holding.get(timeout=HANG_S)
    waiting = background.submit(work)
    loop.call_soon_threadsafe(loop.stop)
    gate.set()
    thread.join(HANG_S)

    assert not thread.is_alive()
    assert waiting.future.cancelled()
    assert begun == []


class _Stopped(concurrent.futures.Future[Any]):
    """A future whose lock is taken when Stop comes."""

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        with self._condition:
            signal.raise_signal(signal.SIGINT)
        super().add_done_callback(fn)


def test_stop_does_not_come_between_the_lines_of_a_future() -> None:
    """Else its lock would stay taken, and the thread that ends the work would wait for it for
    ever."""
    deferrals: list[bool] = []

    def handle(_number: int, frame: FrameType | None) -> None:
        deferrals.append(deferred.note_stop(frame))
        if not deferrals[-1]:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            outcome(_Stopped(), HANG_S)
    finally:
        signal.signal(signal.SIGINT, previous)

    assert deferrals == [True, False], "noted inside, raised behind"


def test_work_for_many_items_is_done_at_the_same_time() -> None:
    """The barrier opens only when eight threads wait at it."""
    barrier = threading.Barrier(8, timeout=HANG_S)
    done: list[int] = []

    def work(item: int) -> None:
        barrier.wait()
        done.append(item)

    do_together(work, range(16), threads=8)

    assert sorted(done) == list(range(16))


@pytest.mark.parametrize("count", [1, 20])
def test_what_one_item_raises_is_raised_when_all_have_ended(count: int) -> None:
    ended: list[int] = []

    def work(item: int) -> None:
        ended.append(item)
        if item == 0:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        do_together(work, range(count))

    assert sorted(ended) == list(range(count))


def test_steps_share_a_thread_that_ends_with_the_block() -> None:
    """What a step raises is raised where it was taken, and the next step can be taken."""

    def fail() -> None:
        raise SystemExit(3)

    with StepThread() as steps:
        first = steps.run(threading.current_thread)
        with pytest.raises(SystemExit):
            steps.run(fail)
        second = steps.run(threading.current_thread)

    first.join(HANG_S)
    assert second is first
    assert not first.is_alive()
