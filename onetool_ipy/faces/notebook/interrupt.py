"""Stop during a call: the first interrupt is Python's own KeyboardInterrupt, the second one cannot be caught.

A tool may catch KeyboardInterrupt and go on. On a second interrupt of the same call `Abandoned` is raised in it, and
again at its next lines, so that neither `except KeyboardInterrupt` nor a bare `except` stops it; only C code that never
returns is left. In a cell with `await` ipykernel cancels the cell's task; a blocking sync call does not notice that, so
the interrupt is raised there too. Our signal handler is installed only while a cell runs.

Python runs a signal handler late if the signal arrives just before a C call begins to wait, or in another thread.
`_SignalWatcher` detects this while a cell has calls, and wakes the main thread. Python drops an exception that is
raised in a destructor or in a callback of a weak reference: an interrupt that was lost so is sent again.
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
from functools import partial
from typing import Any

from onetool_ipy.base.background import Abandoned, is_cancellation, throw_into

__all__ = ["Interrupts"]

Handler = Any
_EXECUTOR = "onetool_ipy.core.executor"
_WAKE_UP: int = getattr(signal, "SIGCONT", 0)
_WAKE_UPS = 20


class Interrupts:
    """The interrupts of one cell."""

    def __init__(self) -> None:
        self.is_interrupted = False
        self._waiting: Callable[[], object | None] = lambda: None
        self._interrupted_call: object | None = None
        self._before: Handler = None
        self._hook: Handler = None
        self._before_hook: Handler = None
        self._lost: type[BaseException] | None = None
        self._task: Any = None
        self._tracer: Any = None
        self._watcher: _SignalWatcher | None = None

    def begin(self, waiting: Callable[[], object | None]) -> None:
        """Install the handler for a cell; `waiting` returns the call that the cell waits for, or None."""
        self.is_interrupted, self._interrupted_call, self._waiting, self._lost = False, None, waiting, None
        if threading.current_thread() is not threading.main_thread():
            return
        found = signal.getsignal(signal.SIGINT)
        if callable(found) and found != self._on_interrupt:
            self._before = found
            signal.signal(signal.SIGINT, self._on_interrupt)
            # One for each cell: another hook that was set during the last one may call that cell's.
            self._before_hook = sys.unraisablehook
            self._hook = sys.unraisablehook = partial(self._on_dropped, self._before_hook)
        self._task = _current_task()

    def watch(self) -> None:
        """Begin to look for delayed signals; the cell makes its first call."""
        if self._before is None or not _WAKE_UP:
            return
        if self._watcher is None:
            self._watcher = _SignalWatcher()
        self._watcher.start()

    def check(self) -> None:
        """Wake the main thread if it has not handled an interrupt, or lost it. Runs in a helper thread."""
        if self._watcher is None:
            return
        self._watcher.check()
        lost, self._lost = self._lost, None
        main = threading.main_thread().ident
        if lost is not None and main is not None and self._waiting() is not None:
            if lost is not Abandoned:  # the next one counts as the first
                self._interrupted_call = None
            signal.pthread_kill(main, signal.SIGINT)

    def end(self) -> None:
        """Restore the previous handler after the cell."""
        self._interrupted_call, self._task = None, None
        before = self._before
        if before is None or threading.current_thread() is not threading.main_thread():
            return
        if self._watcher is not None:
            self._watcher.stop()
        if signal.getsignal(signal.SIGINT) == self._on_interrupt:
            signal.signal(signal.SIGINT, before)
        if sys.unraisablehook is self._hook:
            sys.unraisablehook = self._before_hook
        self._before = None  # last: an interrupt may have arrived in between

    def to_show(self, exc: BaseException, name: str, after_s: float) -> BaseException:
        """The exception that the cell shows for a stopped call: a KeyboardInterrupt of one line."""
        is_cell = (
            is_cancellation(exc) and self.is_interrupted and self._task is not None and _current_task() is self._task
        )
        if isinstance(exc, Abandoned):
            sys.settrace(self._tracer)
        if isinstance(exc, Abandoned) or is_cell:
            exc = KeyboardInterrupt()
        if isinstance(exc, KeyboardInterrupt) or (self.is_interrupted and is_cancellation(exc)):
            more = f" {exc}" if str(exc) else ""  # the tool's own words
            said = f"{type(exc).__name__}: '{name}' was stopped after {after_s:.1f} s.{more}"
            with suppress(AttributeError, TypeError):
                exc._render_traceback_ = lambda: [said]  # type: ignore[attr-defined]  # IPython's protocol
        return exc

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        self.is_interrupted = True
        if self._watcher is not None:
            self._watcher.acknowledge()
        call = self._waiting()
        outermost = _outermost_call(frame) if call is not None else None
        if outermost is None:
            self._pass_on(number, frame)
            return
        if call is not self._interrupted_call:
            self._interrupted_call = call
            raise KeyboardInterrupt
        self._tracer = sys.gettrace()
        _raise_at_next_lines(frame, outermost)
        raise Abandoned

    def _on_dropped(self, before: Callable[[Any], object], dropped: Any) -> None:
        """Note an interrupt that Python drops; the exceptions of others are reported as ever."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and issubclass(dropped.exc_type, KeyboardInterrupt | Abandoned) and self._waiting() is not None:
            self._lost = dropped.exc_type
        else:
            before(dropped)

    def _pass_on(self, number: int, frame: types.FrameType | None) -> None:
        if not callable(self._before):
            signal.default_int_handler(number, frame)
        self._before(number, frame)
        _wake_loop()


class _SignalWatcher:
    """Learns of each signal from C code. If our handler does not run, it sends a signal that ends the wait."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end)
        self._pending = 0

    def start(self) -> None:
        """Begin to watch, unless another handler uses our wake-up signal. Runs in the main thread."""
        if signal.getsignal(_WAKE_UP) == signal.SIG_DFL:
            signal.signal(_WAKE_UP, _nothing)
            self._set_wakeup_fd(self._writer)

    def stop(self) -> None:
        """Restore what `start` changed. Runs in the main thread."""
        if signal.getsignal(_WAKE_UP) == _nothing:
            self._set_wakeup_fd(-1)
            signal.signal(_WAKE_UP, signal.SIG_DFL)
        self.acknowledge()

    def acknowledge(self) -> None:
        """Note that the handler has run."""
        self._read()
        self._pending = 0

    def check(self) -> None:
        """Wake the main thread if it has not handled a pending interrupt. Runs in a helper thread."""
        if signal.SIGINT in self._read():
            self._pending = _WAKE_UPS
        main = threading.main_thread().ident
        if self._pending and main is not None and signal.getsignal(_WAKE_UP) == _nothing:
            self._pending -= 1
            signal.pthread_kill(main, _WAKE_UP)

    def _set_wakeup_fd(self, writer: int) -> None:
        with suppress(ValueError, OSError):  # the previous descriptor has been closed
            before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            if before not in (-1, self._writer):
                signal.set_wakeup_fd(before)

    def _read(self) -> bytes:
        with suppress(BlockingIOError):
            return os.read(self._reader, 4096)
        return b""


def _nothing(_number: int, _frame: types.FrameType | None) -> None:
    """Handle our wake-up signal: its arrival is enough."""


def _outermost_call(frame: types.FrameType | None) -> types.FrameType | None:
    """The frame of the executor that waits for a sync call in this thread, or None."""
    found = None
    while frame is not None:
        if frame.f_globals.get("__name__") == _EXECUTOR and frame.f_code.co_name == "call":
            found = frame
        frame = frame.f_back
    return found


def _raise_at_next_lines(frame: types.FrameType | None, above: types.FrameType) -> None:
    """Let every line of the tools' own modules raise, so that code that catches the exception is left too.

    Libraries that the tools call are spared: their `finally` must run, or locks would stay taken.
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
    _clear_pending()
    sys.settrace(lambda *_: None)


def _clear_pending() -> None:
    """Clear Python 3.11's flag for asynchronous exceptions: it hangs if tracing starts while the flag is set.

    One flag serves all threads. Raising one exception in this thread clears it; those of other threads still arrive.
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
    """Wake the event loop, which sleeps on after a signal, so that it runs what the handler scheduled."""
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
