"""Calls per minute, counted over the last sixty seconds. Needs no lock: a permit is taken out while it is looked at."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable

from onetool_ipy.core.errors import RateLimited

__all__ = ["PerMinute"]

_MINUTE = datetime.timedelta(seconds=60)


class PerMinute:
    """So many permits, each free again a minute after its use."""

    def __init__(self, most: int | None, clock: Callable[[], datetime.datetime]) -> None:
        self._most = most
        self._clock = clock
        self._used: deque[datetime.datetime] = deque()
        self._fresh: deque[None] = deque([None] * (most or 0))

    def take(self, tool: str) -> None:
        """Use a permit, or raise RateLimited."""
        if self._most is None:
            return
        now = self._clock()
        try:
            self._fresh.pop()
        except IndexError:
            self._reuse(now, tool)
        self._used.append(now)

    def _reuse(self, now: datetime.datetime, tool: str) -> None:
        wait_s = 1
        try:
            oldest = self._used.popleft()  # no one else sees it now
        except IndexError:  # all are being looked at
            pass
        else:
            if oldest + _MINUTE <= now or oldest > now + _MINUTE:  # the latter: the clock was set back
                return
            self._used.appendleft(oldest)
            wait_s = max(1, round((oldest + _MINUTE - now).total_seconds()))
        raise RateLimited(
            f"'{tool}' may be called {self._most} times a minute.",
            hint=f"Wait {wait_s} s, or raise its maxCallsPerMinute.",
            details={"retryAfterS": wait_s},
        )
