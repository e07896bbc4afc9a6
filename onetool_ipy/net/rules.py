"""Rules: what holds for one request, as a value.

When to try again, and how long to wait before. Pure: randomness, time and the wait itself are handed in.

Idempotent methods only. The wait doubles with each try and is spread by chance, so that many callers do not come back
at once; where the server says when (Retry-After), that counts. A wait that does not fit into the time left is not
begun: the answer that is there is given at once.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Awaitable, Callable, Mapping

from onetool_ipy.base.records import Value
from onetool_ipy.config.settings import HttpSettings
from onetool_ipy.net.hosts import Hosts, Origin

__all__ = ["IDEMPOTENT", "Retry", "Rules", "after_s", "is_passing"]


class Rules(Value):
    """What holds for one request; `hosts` None lets any host through that is not private.

    `timeout_s` is for all of it: look-up, connecting, redirects, tries and the body. `max_bytes` counts the body as it
    is after decompression. `tries` counts the first one too, and holds for idempotent methods only. With
    `max_redirects` 0 a redirect is a reply like any other.
    """

    hosts: Hosts | None = None
    allow_private: bool = False
    timeout_s: float = 10
    max_bytes: int = 5 * 1024 * 1024
    tries: int = 3
    max_redirects: int = 10

    def may_be_private(self, place: Origin) -> bool:
        """Whether the address of a place may be a private one."""
        return self.allow_private or (self.hosts is not None and self.hosts.allow_private(place))

    @classmethod
    def of(cls, http: HttpSettings) -> Rules:
        """The rules that the section `http` of the settings sets."""
        return cls(
            hosts=Hosts(http.allowed_hosts),
            allow_private=http.allow_private,
            timeout_s=http.timeout_s,
            max_bytes=http.max_response_bytes,
        )


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
