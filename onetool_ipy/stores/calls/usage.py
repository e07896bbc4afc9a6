"""Usage: how often, how well, how fast. Everything here is computed from one snapshot of the log.

Periods are the last 24 hours, 7 days and 30 days, to the microsecond: whole days and hours come from the tallies, the
part of an hour at the edge from the calls themselves. Only where those were dropped to make room (the newest million
are kept) does the whole of that hour count. A period has no end: after a clock was set back, what is dated in the
future still counts. Days are days of UTC.
"""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Literal, TypeVar, get_args

from onetool_ipy.config.settings import Stats
from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.calls.database import ALL, DAY, HOUR
from onetool_ipy.stores.calls.fold import DAY_US, HOUR_US
from onetool_ipy.stores.calls.line import Batch
from onetool_ipy.stores.calls.snapshot import Range, Snapshot
from onetool_ipy.stores.calls.tally import EMPTY, Tally, percentile, summed, tally

__all__ = [
    "PERIODS",
    "InvalidPeriod",
    "Period",
    "Savings",
    "Span",
    "ToolUsage",
    "Usage",
    "counts_of",
    "savings",
    "series_of",
    "since",
    "to_time",
    "to_us",
    "usage_of",
]

Period = Literal["day", "week", "month", "all"]
PERIODS: tuple[Period, ...] = get_args(Period)

Key = TypeVar("Key", bound=Hashable)

_COUNTED = ("ts", "tool", "flags", "ms", "size")
_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 30}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class InvalidPeriod(OneToolError, ValueError):
    """A period that is none of PERIODS."""

    def __init__(self, period: object) -> None:
        valid = ", ".join(PERIODS)
        super().__init__(f"Invalid period '{period}'. Valid: {valid}. Example: ot.stats(period='day')")
        self.period = period


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """One tool's row. `p95_ms` is within 3.2 % of the true one."""

    tool: str
    calls: int
    failures: int
    success_rate: float
    avg_ms: float
    p95_ms: float
    last_called: datetime.datetime


@dataclass(frozen=True, slots=True)
class Usage:
    """What the calls of a period add up to; the tools called most come first."""

    period: Period
    tool: str | None
    since: datetime.datetime | None
    total_calls: int
    failures: int
    success_rate: float | None
    output_chars: int
    tools: tuple[ToolUsage, ...]


@dataclass(frozen=True, slots=True)
class Savings:
    """Estimates, not measurements: what the calls spared a model in tokens and a person in time."""

    context_saved: int
    time_saved_ms: int


@dataclass(frozen=True, slots=True)
class Span:
    """One hour or day of a series; the first may have been cut by the edge of the period."""

    start: datetime.datetime
    calls: int
    failures: int
    p50_ms: float
    p95_ms: float


def savings(usage: Usage, stats: Stats) -> Savings:
    """Estimate what was saved, by the assumptions in the settings."""
    spent = usage.output_chars / stats.chars_per_token if stats.chars_per_token > 0 else 0.0
    return Savings(
        context_saved=max(0, round(usage.total_calls * stats.context_per_call - spent)),
        time_saved_ms=usage.total_calls * stats.time_overhead_per_call_ms,
    )


def usage_of(found: Snapshot, *, period: Period, tool: str | None, now: datetime.datetime) -> Usage:
    """Add up a period. Raises InvalidPeriod."""
    edge = since(period, now)
    if edge is None:
        by_tool = dict(found.by_tool(ALL, Range(tool=tool)))
    else:
        edges, hours, days = _parts(found, edge, tool)
        stored = (found.by_tool(HOUR, hours), found.by_tool(DAY, days))
        by_tool = summed(chain(((name, part) for (_, name), part in edges), *stored))
    for batch in found.tails():
        for name, part in tally(batch, _keys(batch, batch.tool, edge, tool)).items():
            by_tool[name] = by_tool.get(name, EMPTY).plus(part)
    whole = reduce(Tally.plus, by_tool.values(), EMPTY)
    return Usage(
        period=period,
        tool=tool,
        since=None if edge is None else to_time(edge),
        total_calls=whole.calls,
        failures=whole.failures,
        success_rate=None if whole.success_rate is None else round(whole.success_rate, 2),
        output_chars=whole.size,
        tools=tuple(sorted((_row(n, t) for n, t in by_tool.items() if t.calls), key=lambda r: (-r.calls, r.tool))),
    )


def series_of(found: Snapshot, *, period: Period, tool: str | None, now: datetime.datetime) -> tuple[Span, ...]:
    """The calls over time: by the hour for a day or a week, else by the day; spans without calls are left out."""
    edge = since(period, now)
    by = HOUR if period in ("day", "week") else DAY
    width = HOUR_US if by == HOUR else DAY_US
    if edge is None:
        spans = dict(found.by_start(DAY, Range(tool=tool)))
    else:
        edges, hours, days = _parts(found, edge, tool)
        stored = [found.by_start(HOUR, hours), found.by_start(DAY, days)]
        if by == HOUR:
            stored = [found.by_start(HOUR, hours._replace(stop=None))]
        parts = chain(((start, part) for (start, _), part in edges), *stored)
        spans = summed((start - start % width, part) for start, part in parts)
    for batch in found.tails():
        starts = (ts - ts % width for ts in batch.ts)
        for start, part in tally(batch, _keys(batch, starts, edge, tool)).items():
            spans[start] = spans.get(start, EMPTY).plus(part)
    return tuple(_span(start, spans[start]) for start in sorted(spans))


def counts_of(found: Snapshot) -> dict[str, tuple[int, datetime.datetime]]:
    """How often each tool was ever called, and when last."""
    out = {tool: (calls, last_ts) for tool, calls, last_ts in found.counts()}
    for batch in found.tails():
        for tool, ts in zip(batch.tool, batch.ts, strict=True):
            calls, last_ts = out.get(tool, (0, ts))
            out[tool] = calls + 1, max(last_ts, ts)
    return {tool: (calls, to_time(last_ts)) for tool, (calls, last_ts) in out.items()}


def since(period: Period, now: datetime.datetime) -> int | None:
    """Where a period begins, in microseconds since 1970; None for all time. Raises InvalidPeriod."""
    if period not in PERIODS:
        raise InvalidPeriod(period)
    return None if period == "all" else to_us(now) - _DAYS[period] * DAY_US


def to_us(time: datetime.datetime) -> int:
    """An aware time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def to_time(us: int) -> datetime.datetime:
    """The time of so many microseconds since 1970; one that no calendar has becomes the nearest that it has."""
    try:
        return _EPOCH + datetime.timedelta(microseconds=us)
    except OverflowError:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC) if us > 0 else _EPOCH


_Edge = list[tuple[tuple[int, str], Tally]]


def _parts(found: Snapshot, edge: int, tool: str | None) -> tuple[_Edge, Range, Range]:
    """The folded calls from an edge on, each once: a part of an hour, then hours, then days."""
    hour, day = _up(edge, HOUR_US), _up(edge, DAY_US)
    dropped_until = found.dropped_until
    if dropped_until is not None and edge <= dropped_until:
        edges, hour = [], edge - edge % HOUR_US
    else:
        edges = _edge(found, edge, hour, tool)
    return edges, Range(hour, day, tool), Range(day, None, tool)


def _edge(found: Snapshot, edge: int, hour: int, tool: str | None) -> _Edge:
    """The calls between the edge and the full hour, by start of the hour and tool."""
    parts: _Edge = []
    for chunk in found.chunks(first=edge, before=hour) if edge < hour else ():
        batch = found.chunk(chunk.number, _COUNTED)
        if batch is None:
            continue
        start = hour - HOUR_US
        labels = [(start, name) if ts < hour else None for name, ts in zip(batch.tool, batch.ts, strict=True)]
        parts += tally(batch, _keys(batch, labels, edge, tool)).items()
    return parts


def _keys(batch: Batch, labels: Iterable[Key], edge: int | None, tool: str | None) -> Iterable[Key | None]:
    """The labels of the calls that count, and None for the others."""
    if edge is None and tool is None:
        return labels
    return [
        label if (edge is None or ts >= edge) and (tool is None or name == tool) else None
        for label, ts, name in zip(labels, batch.ts, batch.tool, strict=True)
    ]


def _up(ts: int, width: int) -> int:
    return -(-ts // width) * width


def _row(name: str, found: Tally) -> ToolUsage:
    return ToolUsage(
        tool=name,
        calls=found.calls,
        failures=found.failures,
        success_rate=round(found.success_rate or 0.0, 2),
        avg_ms=round(found.avg_ms, 3),
        p95_ms=round(percentile(found, 0.95) or 0.0, 3),
        last_called=to_time(found.last_ts),
    )


def _span(start: int, found: Tally) -> Span:
    p50, p95 = percentile(found, 0.5) or 0.0, percentile(found, 0.95) or 0.0
    return Span(to_time(start), found.calls, found.failures, round(p50, 3), round(p95, 3))
