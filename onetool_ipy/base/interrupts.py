"""Defer Stop while our own bookkeeping runs.

Stop is SIGINT in the main thread. The handler of a running cell (`faces.notebook.running_cell`)
raises at once while a tool's or a library's code runs. While bookkeeping runs (a record of the call
log, a file that is written whole, a swap of parts) it only notes the signal, and the end of the
bookkeeping raises it. That takes some milliseconds. Bookkeeping is a block, `with deferred:`, or a
whole function, `@deferred.during`, which costs its callers nothing: the handler finds it among the
frames of the main thread. No other code thinks about interrupts. Outside of a cell Python's own
handler holds, as in any script.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import get_ident, main_thread
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from onetool_ipy.base import forks

Function = TypeVar("Function", bound=Callable[..., Any])


class Abandoned(BaseException):
    """Ends a call that nobody waits for any more: raised by a second Stop, which `except
    KeyboardInterrupt` misses."""


class Deferral:
    """Knows the bookkeeping that the main thread is in, and notes a Stop that comes meanwhile."""

    def __init__(self) -> None:
        self.has_stop = False
        """Whether a Stop was noted. A function that is marked by `during` looks at it last."""
        self._depth = 0
        self._functions: set[CodeType] = set()
        self._main = main_thread().ident
        forks.register(self)

    def after_fork(self) -> None:
        """Count for the thread that forked, which is the child's main thread."""
        self._main = get_ident()

    def during(self, function: Function) -> Function:
        """Mark a function as bookkeeping. However it ends, the last that it does has to be:

        finally:
            if deferred.has_stop:
                deferred.release()
        """
        self._functions.add(function.__code__)
        return function

    def __enter__(self) -> None:
        # Signal handlers run in the main thread only, so other threads neither need the counter nor
        # may change it.
        if get_ident() == self._main:
            self._depth += 1

    def __exit__(self, *exc: object) -> None:
        if get_ident() != self._main:
            return
        self._depth -= 1
        if self.has_stop and not self._depth:
            self._raise_stop()

    def release(self) -> None:
        """Raise a noted Stop at the end of a marked function, unless other bookkeeping is around
        it."""
        if get_ident() == self._main:
            self._raise_stop()

    def note_stop(self, frame: FrameType | None) -> bool:
        """Note a Stop for the end of the bookkeeping. False if none runs in the main thread, whose
        frame this is, and the handler may raise."""
        self.has_stop = self._depth > 0 or self._is_in_bookkeeping(frame)
        return self.has_stop

    def forget_stop(self) -> None:
        """Forget a Stop that was noted for a cell that is over."""
        self.has_stop = False

    def _is_in_bookkeeping(self, frame: FrameType | None) -> bool:
        ended: FrameType | None = None
        while frame is not None:
            if frame.f_code is _RELEASE:
                # The function that calls `release` has done all it had to do.
                ended = frame.f_back
            elif frame.f_code in self._functions and frame is not ended:
                return True
            frame = frame.f_back
        return False

    def _raise_stop(self) -> None:
        self.has_stop = False
        signal.raise_signal(signal.SIGINT)


_RELEASE: Final = Deferral.release.__code__

deferred: Final = Deferral()
"""The one of the process, since there is one main thread and one SIGINT."""


def interrupt_in(exc: BaseException) -> BaseException | None:
    """Return the interrupt that an exception is, or that an exception group holds; None if there is
    none."""
    if isinstance(exc, (KeyboardInterrupt, Abandoned)):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next(filter(None, map(interrupt_in, exc.exceptions)), None)
    return None
