"""What calls add up to: counts, sums, and the spread of their durations. Pure.

A tally is a value and two of them add up to a third, so the sum over any hours, days, files and processes is exact.
The spread is a histogram with 16 bins to each doubling of the duration; a percentile read from it is within 3.2 % of
the true one, and never outside the smallest and largest duration. In memory the histogram is one integer, 64 bits to a
bin: adding two is `+`. On disk a bin has as few bytes as its largest needs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from math import ceil, frexp, ldexp
from typing import NamedTuple, TypeVar

from onetool_ipy.stores.calls.line import Batch

__all__ = ["EMPTY", "Tally", "percentile", "summed", "tally", "to_blob", "to_histogram"]

_PER_OCTAVE = 16
_BIN_BITS = 64
_WIDTHS = (1, 2, 4, 8)
_MOST_BINS = 60 * _PER_OCTAVE
"""Up to some decades of duration; a line with more is not read."""

Key = TypeVar("Key", bound=Hashable)


class Tally(NamedTuple):
    """The sum of some calls. Durations in ms, `last_ts` in microseconds, `size` in characters."""

    calls: int = 0
    failures: int = 0
    ms_sum: float = 0.0
    ms_min: float = float("inf")
    ms_max: float = 0.0
    size: int = 0
    last_ts: int = -(1 << 62)
    histogram: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.calls + other.calls,
            self.failures + other.failures,
            self.ms_sum + other.ms_sum,
            min(self.ms_min, other.ms_min),
            max(self.ms_max, other.ms_max),
            self.size + other.size,
            max(self.last_ts, other.last_ts),
            self.histogram + other.histogram,
        )

    @property
    def avg_ms(self) -> float:
        return self.ms_sum / self.calls if self.calls else 0.0

    @property
    def success_rate(self) -> float | None:
        """In percent; None with no calls."""
        return 100.0 * (self.calls - self.failures) / self.calls if self.calls else None

    @property
    def is_sound(self) -> bool:
        """Whether the histogram has as many calls as were counted; a flipped bit would part them."""
        return sum(_bins(self.histogram)) == self.calls


EMPTY = Tally()


def tally(batch: Batch, keys: Iterable[Key | None]) -> dict[Key, Tally]:
    """Add up the calls that share a key; there is one key for each call, and one with None does not count."""
    places: defaultdict[Key, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        if key is not None:
            places[key].append(place)
    return {key: _tally(batch, found) for key, found in places.items()}


def summed(parts: Iterable[tuple[Key, Tally]]) -> dict[Key, Tally]:
    """Add up the tallies that share a key."""
    out: dict[Key, Tally] = {}
    for key, part in parts:
        known = out.get(key)
        out[key] = part if known is None else known.plus(part)
    return out


def percentile(of: Tally, share: float) -> float | None:
    """The duration in ms that this share of the calls (0 to 1) did not exceed; None with no calls."""
    if not of.calls:
        return None
    wanted = max(1, ceil(share * of.calls))
    first = _first_bin(of.histogram)
    passed = list(accumulate(_bins(of.histogram >> (first * _BIN_BITS))))
    if not passed or passed[-1] < wanted:
        return of.ms_max
    return min(max(_middle_ms(first + bisect_left(passed, wanted)), of.ms_min), of.ms_max)


def to_blob(histogram: int) -> bytes:
    """The histogram for the disk: bytes to a bin, the number of the first bin, the bins in use."""
    if histogram <= 0:
        return b""
    first = _first_bin(histogram)
    wide = _bins(histogram >> (first * _BIN_BITS)).tobytes()
    width = next(width for width in _WIDTHS if not any(wide[place::8].strip(b"\0") for place in range(width, 8)))
    bins = bytearray(len(wide) // 8 * width)
    for place in range(width):
        bins[place::width] = wide[place::8]
    return bytes((width,)) + first.to_bytes(2, "little") + bins


def to_histogram(blob: bytes) -> int:
    """The histogram again. Raises ValueError for bytes that are none."""
    if not blob:
        return 0
    if len(blob) < 3 or blob[0] not in _WIDTHS:
        raise ValueError("no histogram")
    width, first, bins = blob[0], int.from_bytes(blob[1:3], "little"), blob[3:]
    if first + len(bins) // width > _MOST_BINS:
        raise ValueError("no histogram of ours")
    wide = bytearray(len(bins) // width * 8)
    for place in range(width):
        wide[place::8] = bins[place::width]
    return int.from_bytes(wide, "little") << (first * _BIN_BITS)


def _first_bin(histogram: int) -> int:
    return max(0, (histogram & -histogram).bit_length() - 1) // _BIN_BITS


def _bins(histogram: int) -> array[int]:
    bins = array("Q")
    bins.frombytes(histogram.to_bytes((histogram.bit_length() + _BIN_BITS - 1) // _BIN_BITS * 8, "little"))
    return bins


def _tally(batch: Batch, places: list[int]) -> Tally:
    if len(places) == len(batch):
        return _tally_of(batch.ok, batch.ms, batch.size, batch.ts)
    size, ts = ([column[i] for i in places] for column in (batch.size, batch.ts))
    return _tally_of([batch.ok[i] for i in places], [batch.ms[i] for i in places], size, ts)


def _tally_of(ok: Sequence[bool], ms: Sequence[float], size: Sequence[int], ts: Sequence[int]) -> Tally:
    return Tally(len(ok), len(ok) - sum(ok), float(sum(ms)), min(ms), max(ms), sum(size), max(ts), _histogram(ms))


def _histogram(ms: Iterable[float]) -> int:
    halves = [frexp(one * 1000.0 + 1.0) for one in ms]
    bins = Counter([exponent * _PER_OCTAVE + int(part * 2 * _PER_OCTAVE) for part, exponent in halves])
    first = min(bins)
    counts = array("Q", bytes(8 * (max(bins) - first + 1)))
    for number, count in bins.items():
        counts[number - first] = count
    return int.from_bytes(counts.tobytes(), "little") << ((first - 2 * _PER_OCTAVE) * _BIN_BITS)


def _middle_ms(number: int) -> float:
    """The middle of a bin. Durations were counted in microseconds plus one, so that none is zero."""
    octave, part = divmod(number, _PER_OCTAVE)
    low = ldexp(1.0 + part / _PER_OCTAVE, octave)
    high = ldexp(1.0 + (part + 1) / _PER_OCTAVE, octave)
    return ((low + high) / 2 - 1.0) / 1000.0
