"""Stop waits for the end of bookkeeping, and for nothing else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from onetool_ipy.base.interrupts import Abandoned, Deferral, interrupt_in


@pytest.fixture
def deferral() -> Iterator[Deferral]:
    """A counter with the handler that a cell has."""
    counter = Deferral()

    def handle(_number: int, frame: FrameType | None) -> None:
        if not counter.note_stop(frame):
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    yield counter
    signal.signal(signal.SIGINT, previous)


def test_stop_in_a_block_is_raised_at_the_end_of_the_outermost_one(deferral: Deferral) -> None:
    steps: list[str] = []

    def work() -> None:
        with deferral:
            with deferral:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                steps.append("inner")
            steps.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert steps == ["inner", "outer"]
    with deferral:
        steps.append("a Stop is raised once")


def test_stop_outside_of_a_block_is_raised_at_once(deferral: Deferral) -> None:
    with deferral:
        pass

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_block_that_fails_is_over(deferral: Deferral) -> None:
    with pytest.raises(ZeroDivisionError), deferral:
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_block_of_another_thread_defers_nothing(deferral: Deferral) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with deferral:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert inside.wait(60)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Abandoned()], ids=["first", "second"])
def test_an_interrupt_is_seen_in_a_group_too(stop: BaseException) -> None:
    group = BaseExceptionGroup("two", [ValueError(), BaseExceptionGroup("one", [stop])])

    assert interrupt_in(stop) is stop
    assert interrupt_in(group) is stop
    assert interrupt_in(ExceptionGroup("none", [ValueError()])) is None


def _marked(deferral: Deferral, steps: list[str]) -> None:
    @deferral.during
    def work(inner: bool) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            steps.append("begun")
            if inner:
                work(False)
            steps.append("ended")
        finally:
            if deferral.has_stop:
                deferral.release()

    work(True)


def test_stop_in_a_marked_function_is_raised_at_the_end_of_the_outermost_one(
    deferral: Deferral,
) -> None:
    steps: list[str] = []

    with pytest.raises(KeyboardInterrupt):
        _marked(deferral, steps)

    assert steps == ["begun", "begun", "ended", "ended"]
    assert not deferral.has_stop


def test_stop_in_a_marked_function_inside_a_block_is_raised_at_the_end_of_the_block(
    deferral: Deferral,
) -> None:
    steps: list[str] = []

    def work() -> None:
        with deferral:
            _marked(deferral, steps)
            steps.append("block")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert steps[-1] == "block"


def test_a_block_inside_a_marked_function_does_not_end_its_bookkeeping(deferral: Deferral) -> None:
    steps: list[str] = []

    @deferral.during
    def work() -> None:
        try:
            with deferral:
                signal.raise_signal(signal.SIGINT)
            steps.append("behind the block")
        finally:
            if deferral.has_stop:
                deferral.release()

    with pytest.raises(KeyboardInterrupt):
        work()

    assert steps == ["behind the block"]


def test_a_marked_function_of_another_thread_raises_no_stop_of_the_main_thread(
    deferral: Deferral,
) -> None:
    @deferral.during
    def work() -> None:
        if deferral.has_stop:
            deferral.release()

    with deferral:
        signal.raise_signal(signal.SIGINT)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        kept = deferral.has_stop
        deferral.forget_stop()

    assert kept
