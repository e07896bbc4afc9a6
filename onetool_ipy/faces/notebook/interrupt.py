"""Stop during a call: the signal handler of a running cell.

The first Stop of a call is Python's own KeyboardInterrupt. A tool may catch it and go on; the second Stop of the same
call raises `Abandoned`, which `except KeyboardInterrupt` does not catch. While our own bookkeeping runs, Stop waits for
its end (`base.interrupts`). In a cell with `await` ipykernel cancels the cell's task; a blocking sync call does not
notice that, so the interrupt is raised there too. Where no call runs, the handler that was there before decides.
"""

from __future__ import annotations

import signal
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from onetool_ipy.base.background import is_cancellation
from onetool_ipy.base.interrupts import Abandoned, deferred

if TYPE_CHECKING:
    import asyncio

_EXECUTOR = "onetool_ipy.core.executor"


class Interrupts:
    """The interrupts of one cell."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self._current_call: Callable[[], object | None] = lambda: None
        self._interrupted_call: object | None = None
        self._previous: Callable[[int, types.FrameType | None], object] | None = None
        self._task: asyncio.Task[object] | None = None

    def begin(self, current_call: Callable[[], object | None]) -> None:
        """Install the handler for a cell; `current_call` returns the call that the cell waits for, or None."""
        self.is_interrupted, self._interrupted_call, self._current_call = False, None, current_call
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self._on_interrupt:
            self._previous = handler
            signal.signal(signal.SIGINT, self._on_interrupt)
        self._task = _current_task()

    def end(self) -> None:
        """Restore the previous handler after the cell, unless the cell has set another one."""
        self._interrupted_call, self._task = None, None
        if self._previous is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) == self._on_interrupt:
            signal.signal(signal.SIGINT, self._previous)
        # Last, since an interrupt may arrive before the handler is replaced.
        self._previous = None

    def to_show(self, exc: BaseException, name: str, after_s: float) -> BaseException:
        """Return the exception that the cell shows for a stopped call: a KeyboardInterrupt of one line."""
        # ipykernel cancels the task of a cell with `await`; the person pressed Stop all the same.
        is_cell = self._task is not None and _current_task() is self._task
        if isinstance(exc, Abandoned) or (is_cell and self.is_interrupted and is_cancellation(exc)):
            exc = KeyboardInterrupt()
        if isinstance(exc, KeyboardInterrupt) or (self.is_interrupted and is_cancellation(exc)):
            words = f" {exc}" if str(exc) else ""
            line = f"{type(exc).__name__}: '{name}' was stopped after {after_s:.1f} s.{words}"
            with suppress(AttributeError, TypeError):
                exc._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]  # IPython's protocol
        return exc

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        if deferred.note_stop():
            return
        self.is_interrupted = True
        call = self._current_call()
        if call is None or not _is_in_sync_call(frame):
            self._pass_on(number, frame)
        elif call is self._interrupted_call:
            raise Abandoned
        else:
            self._interrupted_call = call
            raise KeyboardInterrupt

    def _pass_on(self, number: int, frame: types.FrameType | None) -> None:
        if self._previous is None:
            signal.default_int_handler(number, frame)
        else:
            self._previous(number, frame)
        # ipykernel's handler schedules a callback, but a signal does not wake a loop that sleeps.
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().call_soon_threadsafe(int)


def _is_in_sync_call(frame: types.FrameType | None) -> bool:
    """Whether the executor waits for a sync call in this thread. Elsewhere an exception would hit an event loop."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _EXECUTOR and frame.f_code.co_name == "call":
            return True
        frame = frame.f_back
    return False


def _current_task() -> asyncio.Task[object] | None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        with suppress(RuntimeError):
            return asyncio.current_task()  # type: ignore[no-any-return]  # the module is looked up at run time
    return None
