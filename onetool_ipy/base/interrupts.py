"""Defer Stop while our own bookkeeping runs.

Stop is SIGINT in the main thread. The handler of a running cell (`faces.notebook.running_cell`) raises at once while a
tool's or a library's code runs. Inside `with deferred:` (a record of the call log, a file that is written whole, a swap
of parts) it only notes the signal, and the end of the outermost block raises it. Such a block takes some milliseconds.
No other code thinks about interrupts. Outside of a cell Python's own handler holds, as in any script.
"""

from __future__ import annotations

import signal
from threading import get_ident, main_thread
from typing import Final

from onetool_ipy.base import forks


class Abandoned(BaseException):
    """Ends a call that nobody waits for any more: raised by a second Stop, which `except KeyboardInterrupt` misses."""


class Deferral:
    """Counts the blocks of bookkeeping that the main thread is in, and notes a Stop that comes meanwhile."""

    def __init__(self) -> None:
        self._depth = 0
        self._has_stop = False
        self._main = main_thread().ident
        forks.register(self)

    def after_fork(self) -> None:
        """Count for the thread that forked, which is the child's main thread."""
        self._main = get_ident()

    def __enter__(self) -> None:
        # Signal handlers run in the main thread only, so other threads neither need the counter nor may change it.
        if get_ident() == self._main:
            self._depth += 1

    def __exit__(self, *exc: object) -> None:
        if get_ident() != self._main:
            return
        self._depth -= 1
        if self._has_stop and not self._depth:
            self._has_stop = False
            signal.raise_signal(signal.SIGINT)

    def note_stop(self) -> bool:
        """Note a Stop for the end of the bookkeeping. False if none runs, and the handler may raise."""
        if self._depth:
            self._has_stop = True
        return self._depth > 0


deferred: Final = Deferral()
"""The one counter of the process, since there is one main thread and one SIGINT."""


def interrupt_in(exc: BaseException) -> BaseException | None:
    """Return the interrupt that an exception is, or that an exception group holds; None if there is none."""
    if isinstance(exc, (KeyboardInterrupt, Abandoned)):
        return exc
    if isinstance(exc, BaseExceptionGroup):
        return next(filter(None, map(interrupt_in, exc.exceptions)), None)
    return None
