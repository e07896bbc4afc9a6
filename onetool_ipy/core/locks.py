"""A lock that is free in a forked child, whoever held it in the parent.

`with lock.mine():` enters a lock of C, so that no interrupt can come between taking and noting it. What the lock guards
must be whole at any moment for those who do not hold it (an index that is replaced, an object that is there or not):
the child sees it as it was at the fork.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

__all__ = ["ForkLock"]


class ForkLock:
    """A re-entrant lock; each process has its own."""

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def mine(self) -> AbstractContextManager[object]:
        """The lock of this process."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.RLock(), os.getpid()
        return self._lock
