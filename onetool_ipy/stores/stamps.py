"""Whether a file or folder may be another one than it was: by its times, size and number. It looks, it never opens.

A file system's clock ticks in milliseconds, some in seconds; what changed within its last tick could change again
without its times showing it. Such a stamp is young, and whoever relies on it has to look at the content again.
"""

from __future__ import annotations

import os
import time

__all__ = ["Stamp", "is_young", "stamp_from", "stamp_of"]

Stamp = tuple[int, int, int, int]
"""Time of change of the content and of the entry, in ns; size; number."""

_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_100_000_000


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """The stamp of what is at the path; None where nothing is."""
    try:
        return stamp_from(os.stat(path))
    except (OSError, ValueError):
        return None


def stamp_from(found: os.stat_result) -> Stamp:
    """The stamp in what the system said."""
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def is_young(stamp: Stamp) -> bool:
    """Whether there could be a change that the times do not show; whole seconds tell a coarse clock."""
    is_coarse = stamp[0] % 1_000_000_000 == 0 and stamp[1] % 1_000_000_000 == 0
    return time.time_ns() - stamp[1] < (_COARSE_TICK_NS if is_coarse else _TICK_NS)
