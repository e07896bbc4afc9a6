"""Stop, in the cell of a call: the first interrupt is Python's own, a second one during the same call is hard.

A tool may catch KeyboardInterrupt and go on. The second time `Abandoned` is raised in it, and again at its next lines,
so that neither `except KeyboardInterrupt` nor a bare `except` holds it; only C code that never lets go is left. In a
cell with `await` ipykernel cancels the cell's task, which a sync call that blocks the event loop would never hear of:
there the interrupt is raised too. The handler is ours only while a cell runs.

Python sleeps over a signal that comes in the moment before a call into C begins to wait, and over one that another
thread takes, as one that just starts or ends may: its handler runs when the wait is over. So a `_Bell` hangs while a
cell has calls.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from onetool_ipy.base.background import Abandoned, is_cancellation, throw_into

__all__ = ["Interrupts"]

Handler = Any
_EXECUTOR = "onetool_ipy.core.executor"
_NUDGE: int = getattr(signal, "SIGCONT", 0)
_NUDGES = 20


class Interrupts:
    """The interrupts of one cell."""

    def __init__(self) -> None:
        self.has_struck = False
        self._waiting: Callable[[], object | None] = lambda: None
        self._struck: object | None = None
        self._before: Handler = None
        self._task: Any = None
        self._tracer: Any = None
        self._bell: _Bell | None = None

    def begin(self, waiting: Callable[[], object | None]) -> None:
        """A cell begins; `waiting` gives the call it waits for, if it waits for one."""
        self.has_struck, self._struck, self._waiting = False, None, waiting
        if threading.current_thread() is not threading.main_thread():
            return
        found = signal.getsignal(signal.SIGINT)
        if callable(found) and found != self._struck_by:
            self._before = found
            signal.signal(signal.SIGINT, self._struck_by)
        self._task = _current_task()

    def listen(self) -> None:
        """The cell makes a call: from now on `look` finds interrupts that Python sleeps over."""
        if self._before is None or not _NUDGE:
            return
        if self._bell is None:
            self._bell = _Bell()
        self._bell.hang()

    def look(self) -> None:
        """See that the last interrupt was heard; in another thread, a few times a second."""
        if self._bell is not None:
            self._bell.look()

    def end(self) -> None:
        """The cell has ended: the handler before ours is back."""
        self._struck, self._task = None, None
        before = self._before
        if before is None or threading.current_thread() is not threading.main_thread():
            return
        if self._bell is not None:
            self._bell.take_down()
        if signal.getsignal(signal.SIGINT) == self._struck_by:
            signal.signal(signal.SIGINT, before)
        self._before = None  # only now: an interrupt may have come between

    def seen(self, exc: BaseException, name: str, after_s: float) -> BaseException:
        """What a cell is to show of the exception that stopped a call: a KeyboardInterrupt of one line."""
        is_cell = is_cancellation(exc) and self.has_struck and self._task is not None and _current_task() is self._task
        if isinstance(exc, Abandoned):
            sys.settrace(self._tracer)
        if isinstance(exc, Abandoned) or is_cell:
            exc = KeyboardInterrupt()
        if isinstance(exc, KeyboardInterrupt) or (self.has_struck and is_cancellation(exc)):
            more = f" {exc}" if str(exc) else ""  # what the tool itself says of it
            said = f"{type(exc).__name__}: '{name}' was stopped after {after_s:.1f} s.{more}"
            with suppress(AttributeError, TypeError):
                exc._render_traceback_ = lambda: [said]  # type: ignore[attr-defined]  # IPython's protocol
        return exc

    def _struck_by(self, number: int, frame: types.FrameType | None) -> None:
        self.has_struck = True
        if self._bell is not None:
            self._bell.answer()
        call = self._waiting()
        outermost = _outermost_call(frame) if call is not None else None
        if outermost is None:
            self._pass_on(number, frame)
            return
        if call is not self._struck:
            self._struck = call
            raise KeyboardInterrupt
        self._tracer = sys.gettrace()
        _raise_at_next_lines(frame, outermost)
        raise Abandoned

    def _pass_on(self, number: int, frame: types.FrameType | None) -> None:
        if not callable(self._before):
            signal.default_int_handler(number, frame)
        self._before(number, frame)
        _wake_loop()


class _Bell:
    """Rings in C at each signal; where the handler does not answer, a signal that does nothing ends the wait."""

    def __init__(self) -> None:
        self._heard, self._rings = os.pipe()
        for end in (self._heard, self._rings):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end)
        self._owed = 0

    def hang(self) -> None:
        """Begin to hear of signals, unless somebody else does, or uses our nudge; in the main thread."""
        if signal.getsignal(_NUDGE) == signal.SIG_DFL:
            signal.signal(_NUDGE, _nothing)
            self._swap(self._rings)

    def take_down(self) -> None:
        """Leave all as it was; in the main thread."""
        if signal.getsignal(_NUDGE) == _nothing:
            self._swap(-1)
            signal.signal(_NUDGE, signal.SIG_DFL)
        self.answer()

    def answer(self) -> None:
        """The handler has run."""
        self._read()
        self._owed = 0

    def look(self) -> None:
        """Nudge the main thread where it owes an answer; in another one."""
        if signal.SIGINT in self._read():
            self._owed = _NUDGES
        main = threading.main_thread().ident
        if self._owed and main is not None and signal.getsignal(_NUDGE) == _nothing:
            self._owed -= 1
            signal.pthread_kill(main, _NUDGE)

    def _swap(self, rings: int) -> None:
        with suppress(ValueError, OSError):  # what was there before is closed meanwhile
            before = signal.set_wakeup_fd(rings, warn_on_full_buffer=False)
            if before not in (-1, self._rings):
                signal.set_wakeup_fd(before)

    def _read(self) -> bytes:
        with suppress(BlockingIOError):
            return os.read(self._heard, 4096)
        return b""


def _nothing(_number: int, _frame: types.FrameType | None) -> None:
    """Our nudge: that it comes is all."""


def _outermost_call(frame: types.FrameType | None) -> types.FrameType | None:
    """The frame of the executor that waits in this thread for a sync call, if one does."""
    found = None
    while frame is not None:
        if frame.f_globals.get("__name__") == _EXECUTOR and frame.f_code.co_name == "call":
            found = frame
        frame = frame.f_back
    return found


def _raise_at_next_lines(frame: types.FrameType | None, above: types.FrameType) -> None:
    """Let every line of the tools' own modules raise, so that one who catches is thrown out of the catching code too.

    Not those of libraries that they call: there `finally` must go on working, or locks would stay taken.
    """

    def tracer(_frame: types.FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            raise Abandoned
        return tracer

    frames: list[types.FrameType] = []
    while frame is not None and frame is not above:
        frames.append(frame)
        frame = frame.f_back
    above_tools = [each for each in frames if not _is_ours(each) and each.f_back is not None and _is_ours(each.f_back)]
    modules = [each.f_globals for each in above_tools]
    for each in frames:
        if any(each.f_globals is module for module in modules):
            each.f_trace = tracer
    _calm()
    sys.settrace(lambda *_: None)


def _calm() -> None:
    """Python 3.11 hangs when it traces while any thread has an exception thrown at it that it has not met yet.

    One flag stands for those of all threads. Meeting one of our own takes it down; the others are met all the same.
    """
    if sys.version_info >= (3, 12):
        return
    with suppress(Abandoned):
        throw_into(threading.current_thread())
        for _ in range(1000):
            pass


def _is_ours(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("onetool_ipy.")


def _wake_loop() -> None:
    """Let the event loop look at once for what a handler has left it to do: it sleeps on after a signal."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        with suppress(RuntimeError):
            asyncio.get_running_loop().call_soon_threadsafe(int)


def _current_task() -> Any:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    with suppress(RuntimeError):
        return asyncio.current_task()
    return None
