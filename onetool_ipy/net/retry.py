"""When to try again, and how long to wait before. Pure: randomness, time and the wait itself are handed in.

Idempotent methods only. The wait doubles with each try and is spread by chance, so that many callers do not come back
at once; where the server says when (Retry-After), that counts. A wait that does not fit into the time left is not
begun: the answer that is there is given at once.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Awaitable, Callable, Mapping

from onetool_ipy.config.value import Value

__all__ = ["IDEMPOTENT", "Retry", "after_s", "is_passing"]

IDEMPOTENT = frozenset(("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"))

_PASSING = frozenset((408, 425, 429, 502, 503, 504))
_FIRST_S = 0.4
_LONGEST_S = 8.0
_LONGEST_DIGITS = 12


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Retry(Value):
    """What a retry needs of the outside world; tests hand in their own."""

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random
    now: Callable[[], datetime.datetime] = _utc_now

    def wait_s(self, attempt: int, headers: Mapping[str, str] | None = None) -> float:
        """Seconds to wait after the attempt of that number, counted from 1."""
        said = after_s((headers or {}).get("retry-after", ""), self.now())
        backoff = min(_FIRST_S * 2.0 ** (attempt - 1), _LONGEST_S)
        return said if said is not None else backoff * (0.5 + self.chance() / 2)


def is_passing(status: int) -> bool:
    """Whether a status says that it may be another one soon."""
    return status in _PASSING


def after_s(text: str, now: datetime.datetime) -> float | None:
    """Seconds until the moment that a Retry-After names; None where it names none."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:_LONGEST_DIGITS]) if len(text) <= _LONGEST_DIGITS else float("inf")
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - now).total_seconds())
