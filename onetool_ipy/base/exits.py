"""What a thread may not begin once the process ends: a message to the pages of a kernel.

A kernel that ends closes the socket of each thread that has sent, and then waits until no socket is
open: for ever, if a thread opened one in between. Daemon threads run during all of that. So a
message from any thread goes through `before_exit`; the end of the process waits for the message
that is on its way, and those after it are dropped.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Final

from onetool_ipy.base import forks
from onetool_ipy.base.interrupts import deferred

_LAST_MESSAGE_S = 5.0


class Gate:
    """Lets messages out, one at a time, until the process ends."""

    def __init__(self) -> None:
        self._is_open: bool | None = None
        self.after_fork()
        forks.register(self)

    def after_fork(self) -> None:
        """Take a lock of this process's own."""
        self._lock = threading.RLock()

    def send(self, message: Callable[[], object]) -> None:
        """Send a message, unless the process ends."""
        with deferred, self._lock:
            if self._is_open is None:
                # Not before: what is registered last runs first, and the kernel must have
                # registered its own end.
                self._is_open = True
                atexit.register(self._close)
            if self._is_open:
                message()

    def _close(self) -> None:
        self._is_open = False
        # A message that hangs does not keep the process.
        if self._lock.acquire(timeout=_LAST_MESSAGE_S):
            self._lock.release()


before_exit: Final = Gate()
"""The one gate of the process, since it ends once."""
