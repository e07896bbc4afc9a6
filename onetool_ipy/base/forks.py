"""What is renewed in a forked child: the one registry of the package.

A fork copies memory and the thread that forks, nothing else. Locks that other threads held stay
locked, loops have no thread, descriptors and ids are shared with the parent. An object with such
state registers here, and its `after_fork` runs in the child before anything else does. No other
code compares process ids to notice a fork.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with state that belongs to one process."""

    def after_fork(self) -> None:
        """Renew that state. Runs in the child, which has one thread; must not block or raise."""


# The registry is one for the process, as the hook of the system is.
_members: WeakSet[Forkable] = WeakSet()


def register(member: Forkable) -> None:
    """Call `member.after_fork()` in every forked child, as long as the member lives."""
    _members.add(member)


def leave_to_parent(thing: object) -> None:
    """Let a thing outlive this child, also its interpreter, since it cannot be destroyed here: its
    threads are the parent's, and whoever waits for them crashes or waits for ever."""
    import ctypes  # late: it is slow to import

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _renew() -> None:
    for member in tuple(_members):
        member.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
