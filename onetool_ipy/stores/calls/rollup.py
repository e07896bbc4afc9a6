"""Rollups: what some calls add up to, with the histogram of their durations. Pure.

Two rollups add up to a third, so the sum over any hours, days, files and processes is exact. The histogram has 16 bins
to each doubling of the duration, so a percentile is within 3.2 % of the true one, and never outside the shortest and
longest duration. It is a list: the number of its first bin, then the calls in each bin from there on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, repeat, zip_longest
from math import ceil, frexp, inf, ldexp
from typing import Any, NamedTuple, TypeVar

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
SPANS = {"hour": HOUR_US, "day": DAY_US, "week": 7 * DAY_US}

_PER_OCTAVE = 16

Key = TypeVar("Key", bound=Hashable)


class Rollup(NamedTuple):
    """The sum of some calls. Durations are in ms, `last_ts` in microseconds since 1970, `size` in characters."""

    calls: int = 0
    failures: int = 0
    ms_sum: float = 0.0
    ms_min: float = inf
    ms_max: float = 0.0
    size: int = 0
    last_ts: int = -(1 << 62)
    durations: Sequence[int] = ()

    @property
    def avg_ms(self) -> float:
        return self.ms_sum / self.calls if self.calls else 0.0

    @property
    def success_rate(self) -> float | None:
        """In percent; None without calls."""
        return 100.0 * (self.calls - self.failures) / self.calls if self.calls else None

    def percentile(self, share: float) -> float | None:
        """Give the duration in ms that this share of the calls (0 to 1) did not exceed; None without calls."""
        if not self.calls:
            return None
        counts = list(accumulate(self.durations[1:]))
        octave, part = divmod(self.durations[0] + bisect_left(counts, max(1, ceil(share * self.calls))), _PER_OCTAVE)
        middle_ms = (ldexp(1.0 + (part + 0.5) / _PER_OCTAVE, octave) - 1.0) / 1000.0
        return min(max(middle_ms, self.ms_min), self.ms_max)


def grouped(cells: Iterable[tuple[Key, Rollup]]) -> dict[Key, Rollup]:
    """Add up the rollups that share a key."""
    groups: dict[Key, list[Rollup]] = {}
    for key, cell in cells:
        groups.setdefault(key, []).append(cell)
    sums = {}
    for key, group in groups.items():
        # Most groups have one member, which is its own sum.
        if len(group) > 1:
            calls, failures, ms_sum, ms_min, ms_max, size, last_ts, durations = zip(*group, strict=True)
            total = sum(calls), sum(failures), sum(ms_sum), min(ms_min), max(ms_max), sum(size), max(last_ts)
            group[0] = Rollup(*total, merged(durations))
        sums[key] = group[0]
    return sums


def merged(histograms: Iterable[Sequence[int]]) -> Sequence[int]:
    """Add up histograms."""
    full = [histogram for histogram in histograms if histogram]
    if len(full) < 2:
        return full[0] if full else []
    first = min(one[0] for one in full)
    wide = ([0] * (one[0] - first) + [*one[1:]] for one in full)
    return [first, *map(sum, zip_longest(*wide, fillvalue=0))]


def by_hour_and_tool(calls: Iterable[Any], width: int = HOUR_US) -> dict[tuple[int, str], Rollup]:
    """Add up calls by the start of the hour (or another width) and by tool; a call is its ts, tool, ok, ms and size."""
    groups: dict[tuple[int, str], list[Any]] = {}
    for call in calls:
        groups.setdefault((call[0] // width * width, call[1]), []).append(call)
    sums = {}
    for key, group in groups.items():
        ts, _, ok, ms, size = zip(*group, strict=True)
        # Bins count microseconds plus one, so that none is zero.
        parts = (frexp(duration * 1000.0 + 1.0) for duration in ms)
        bins = Counter((exponent - 2) * _PER_OCTAVE + int(part * 2 * _PER_OCTAVE) for part, exponent in parts)
        durations = [min(bins), *map(bins.get, range(min(bins), max(bins) + 1), repeat(0))]
        count = len(group)
        sums[key] = Rollup(count, count - sum(ok), float(sum(ms)), min(ms), max(ms), sum(size), max(ts), durations)
    return sums


def by_span(hours: Mapping[tuple[int, str], Rollup]) -> dict[tuple[str, int, str], Rollup]:
    """Add up hours to the rollups that the database keeps: by span, start and tool; tool "" is all tools together."""
    level = {("hour", *key): cell for key, cell in hours.items()}
    spans = dict(level)
    for span in ("day", "week"):
        starts = (((span, start - start % SPANS[span], tool), cell) for (_, start, tool), cell in level.items())
        level = grouped(starts)
        spans |= level
    spans |= grouped((("all", 0, tool), cell) for (_, _, tool), cell in level.items())
    return spans | grouped(((span, start, ""), cell) for (span, start, _), cell in spans.items())
