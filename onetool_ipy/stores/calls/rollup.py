"""Rollups: what some calls add up to, with the histogram of their durations. Pure.

Two rollups add up to a third, so the sum over any hours, days, files and processes is exact. The histogram counts
calls by duration, with 16 bins to each doubling. A bin's key is the middle of the bin in microseconds, so a percentile
is within 3.2 % of the true one, and never outside the shortest and longest duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, frexp, inf, ldexp
from typing import Any

__all__ = ["DAY_US", "HOUR_US", "Rollup", "bin_key", "by_hour_and_tool", "by_span"]

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_PER_OCTAVE = 16
_OCTAVES = 60


def bin_key(number: int) -> str:
    """Give the key of a bin: its middle in microseconds. Bins count microseconds plus one, so that none is zero."""
    octave, part = divmod(number, _PER_OCTAVE)
    return repr(ldexp(1.0 + (part + 0.5) / _PER_OCTAVE, octave) - 1.0).removesuffix(".0")


_KEYS = tuple(map(bin_key, range(_OCTAVES * _PER_OCTAVE)))
_MS = {key: float(key) / 1000.0 for key in _KEYS}


@dataclass(slots=True)
class Rollup:
    """The sum of some calls. Durations are in ms, `last_ts` in microseconds since 1970, `size` in characters."""

    calls: int = 0
    failures: int = 0
    ms_sum: float = 0.0
    ms_min: float = inf
    ms_max: float = 0.0
    size: int = 0
    last_ts: int = -(1 << 62)
    durations: dict[str, int] = field(default_factory=dict)

    def add(self, other: Rollup) -> None:
        """Add the calls of another rollup to this one."""
        self.calls += other.calls
        self.failures += other.failures
        self.ms_sum += other.ms_sum
        self.ms_min = min(self.ms_min, other.ms_min)
        self.ms_max = max(self.ms_max, other.ms_max)
        self.size += other.size
        self.last_ts = max(self.last_ts, other.last_ts)
        durations = self.durations
        known = durations.get
        for key, calls in other.durations.items():
            durations[key] = known(key, 0) + calls

    @property
    def avg_ms(self) -> float:
        return self.ms_sum / self.calls if self.calls else 0.0

    @property
    def success_rate(self) -> float | None:
        """In percent; None without calls."""
        return 100.0 * (self.calls - self.failures) / self.calls if self.calls else None

    def percentile(self, share: float) -> float | None:
        """Give the duration in ms that this share of the calls (0 to 1) did not exceed; None without calls.

        Raises ValueError for a histogram with an unknown bin.
        """
        if not self.calls:
            return None
        left = max(1, ceil(share * self.calls))
        try:
            bins = sorted((_MS[key], calls) for key, calls in self.durations.items())
        except KeyError as exc:
            raise ValueError(f"no duration: {exc}") from exc
        for middle_ms, calls in bins:
            left -= calls
            if left <= 0:
                return min(max(middle_ms, self.ms_min), self.ms_max)
        return self.ms_max

    def is_valid(self) -> bool:
        """Whether calls can add up to this; a flipped bit makes other numbers."""
        is_counted = 0 <= self.failures <= self.calls <= 1 << 40 and self.size >= 0 and abs(self.last_ts) <= 1 << 60
        is_timed = 0 <= self.ms_min <= self.ms_max <= self.ms_sum * (1 + 1e-6) < inf
        return is_counted and is_timed and self.durations.keys() <= _MS.keys()


def by_hour_and_tool(calls: Iterable[Any]) -> dict[tuple[int, str], Rollup]:
    """Add up calls by the start of the hour and by tool; a call is its ts, tool, ok, ms and size."""
    groups: dict[tuple[int, str], list[Any]] = {}
    for call in calls:
        groups.setdefault((call[0] // HOUR_US * HOUR_US, call[1]), []).append(call)
    return {key: _sum(group) for key, group in groups.items()}


def by_span(cells: Iterable[tuple[tuple[int, str], Rollup]]) -> dict[tuple[str, int, str], Rollup]:
    """Add up hours to the rollups that the database keeps: by span, start and tool; tool "" is all tools together."""
    spans: dict[tuple[str, int, str], Rollup] = {}
    for (hour, tool), cell in cells:
        for span, start in (("all", 0), ("day", hour - hour % DAY_US), ("hour", hour)):
            for name in (tool, ""):
                spans.setdefault((span, start, name), Rollup()).add(cell)
    return spans


def _sum(calls: list[Any]) -> Rollup:
    ts, _, ok, ms, size = zip(*calls, strict=True)
    count = len(calls)
    durations = Counter([_KEYS[_bin(one)] for one in ms])
    return Rollup(count, count - sum(ok), float(sum(ms)), min(ms), max(ms), sum(size), max(ts), durations)


def _bin(ms: float) -> int:
    part, exponent = frexp(ms * 1000.0 + 1.0)
    return (exponent - 2) * _PER_OCTAVE + int(part * 2 * _PER_OCTAVE)
