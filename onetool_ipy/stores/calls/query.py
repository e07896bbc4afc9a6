"""The views of the call log: usage, calls over time, history and DataFrames. Each is SQL over all
calls on disk.

Periods are the last 24 hours, 7 days and 30 days, to the microsecond; percentiles are exact. Of
calls that expired only the sums of each day are left: the day at the edge of a period counts whole,
and percentiles are those of the calls that are kept. A period has no end: after a clock was set
back, calls dated in the future still count. Days are UTC.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.masking import MASK
from onetool_ipy.core.names import TOOLBOX
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.stores.calls.database import IS_A_CALL, Calls, literal
from onetool_ipy.stores.calls.journal import CONTEXT, MORE, Contexts, files_in, parse
from onetool_ipy.stores.calls.record import RUN_LENGTH, RUN_PREFIX

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

Period = Literal["day", "week", "month", "all"]
PERIODS: tuple[Period, ...] = get_args(Period)

_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 30}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LATEST = datetime.datetime.max.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_HOUR_US, _DAY_US = 3_600_000_000, 86_400_000_000
_MAX_GROUPS = 1_000
_MAX_FAMILY, _MAX_MADE = 300, 10
_SHORT_STEPS = tuple(seconds * 1_000_000 for seconds in (10, 30, 60, 120, 300, 600))
_MAX_STEPS = 120
_IN_RUN = f"call_id >= '{RUN_PREFIX}' AND call_id < '{RUN_PREFIX[:-1]}.'"
_COUNTED = f"tool IS NOT NULL AND {IS_A_CALL}"
_FROM_MODELS = "source IN ('model', 'mcp')"
_NOT_OT = f"tool NOT LIKE '{TOOLBOX}.%'"
_NEWEST_FIRST = "ORDER BY ts DESC, place DESC, call_id DESC"
"""Of two calls at the same time the one recorded later comes first."""
# What a message says about one call and not about its cause: texts in quotes, and words with a
# digit in them.
_VALUES = re.compile(r"""(?<!\w)'[^'\n]*+'|"[^"\n]*+"|[\w.:/+-]++""")
_DIGIT = re.compile(r"\d")
_MAX_VALUES = 50
_ROW = (
    "epoch_us(ts), call_id, tool, source, args, is_whole, ok, code, reason, message, ms, bytes,"
    ' handle, parent, "user", host, notebook, cell, "session", fingerprint, inputs'
)
_FRAME = (
    *("ts", "call_id", "tool", "source", "args", "ok", "code", "reason", "message", "ms", "bytes"),
    *("handle", "parent", "user", "host", "notebook", "cell", "session", "fingerprint"),
)
_CATEGORIES = (
    *("tool", "source", "code", "reason"),
    *("user", "host", "notebook", "cell", "session", "fingerprint"),
)


class InvalidPeriod(UsageProblem, ValueError, reason="invalid_period"):
    """A period that is not one of PERIODS."""

    def __init__(self, period: object) -> None:
        valid = ", ".join(PERIODS)
        super().__init__(
            f"Invalid period '{period}'. Valid: {valid}. Example: ot.stats(period='day')"
        )
        self.period = period


class ToolUsage(NamedTuple):
    """One tool's row. `p95_ms` is exact."""

    tool: str
    calls: int
    failures: int
    success_rate: float
    avg_ms: float
    p95_ms: float
    last_called: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePeriod:
    """What the calls of a period add up to; the tools called most come first."""

    period: Period
    tool: str | None
    since: datetime.datetime | None
    total_calls: int
    failures: int
    success_rate: float | None
    output_chars: int
    tools: tuple[ToolUsage, ...]

    @property
    def last_called(self) -> datetime.datetime | None:
        """When the last of these calls ended; None if there is none."""
        return max((row.last_called for row in self.tools), default=None)


class FailureGroup(NamedTuple):
    """Failed calls of one tool with the same cause; `message` is its `code` where none was
    recorded.

    Messages that differ only in values have one cause. It is written with `…` in place of the
    values.
    """

    tool: str
    message: str
    calls: int
    last_called: datetime.datetime


class UsageSpan(NamedTuple):
    """One step of a timeline; the edge of the period may cut the first one."""

    start: datetime.datetime
    calls: int
    failures: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The calls over time for a plot, in steps that suit them: seconds, minutes, hours, days; steps
    without calls, too."""

    step_s: int
    spans: tuple[UsageSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOverview:
    """All there is to say of a period but its timeline. `by_models` is calls of models and MCP
    clients, and the characters they got.

    `failures` has the failed calls by tool and message, the most frequent first.
    """

    usage: UsagePeriod
    by_models: tuple[int, int]
    failures: tuple[FailureGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls: of a tool, that succeeded or failed, from a time on, and how many of them; None
    means any.

    `text` is words that are all in the tool's name, the arguments or the error. `run` is a run of
    `ot.map`, or "" for calls of no run. `hides_ot` leaves out calls of `ot` itself.
    """

    limit: int | None = None
    tool: str | None = None
    ok: bool | None = None
    since: datetime.datetime | None = None
    text: str = ""
    run: str | None = None
    hides_ot: bool = False


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call as recorded. `args` is JSON text, masked and cut at 4 KB; `is_whole` says that it is
    neither.

    `bytes` is the size of the output: characters of text, bytes of binary data, an estimate for
    anything else. `parent` is the id of the call that made this one, `fingerprint` that of the tool
    as it was then. `inputs` says as JSON which arguments came from which calls; see `sources`.
    """

    ts: datetime.datetime
    call_id: str
    tool: str
    source: str
    args: str
    is_whole: bool
    ok: bool
    code: str | None
    reason: str | None
    message: str | None
    ms: float
    bytes: int
    handle: str | None
    parent: str | None
    user: str
    host: str
    notebook: str
    cell: str
    session: str
    fingerprint: str
    inputs: str | None = None

    @property
    def sources(self) -> list[tuple[str, str]]:
        """The arguments that came from other calls, each with the id of the call."""
        return [(str(name), str(call_id)) for name, call_id in json.loads(self.inputs or "[]")]

    @property
    def arguments(self) -> Any | None:
        """The arguments as they were given, to call again with; None if the record does not have
        all of them."""
        if not self.is_whole:
            return None
        from orjson import loads

        return loads(self.args)

    @property
    def why_no_arguments(self) -> str:
        """Why the record does not have the arguments as they were given; "" if it has."""
        if self.is_whole:
            return ""
        if self.code == "tool_not_found":
            return "no such tool"
        return "masked" if MASK in self.args else "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFamily:
    """A call with all that it came from: `calls` by id, `inner` by the id of the call that made
    them, the first ones.

    `inner_counts` has how often each call called each tool.
    """

    calls: Mapping[str, CallRow]
    inner: Mapping[str, Sequence[CallRow]]
    inner_counts: Mapping[str, Mapping[str, int]]


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The calls of one run of `ot.map` that are wanted. A row that was retried counts once, by its
    last try."""

    ts: datetime.datetime
    run: str
    tool: str
    rows: int
    failures: int
    began: datetime.datetime


class _Chosen(NamedTuple):
    """Which calls are added up: of a tool or of all, from a time to another, with or without those
    of `ot`."""

    tool: str | None
    first: int | None
    last: int | None = None
    hides_ot: bool = False

    def terms(self, *, of_days: bool = False) -> tuple[str, list[Any]]:
        """Give the condition for the calls in SQL, or for the sums of days that have some, and its
        values."""
        terms, begin, end = ("true", "day", "last") if of_days else (_COUNTED, "ts", "ts")
        values: list[Any] = []
        if self.first is not None:
            terms += f" AND {end} >= make_timestamp(?)"
            values.append(self.first)
        if self.last is not None:
            terms += f" AND {begin} <= make_timestamp(?)"
            values.append(self.last)
        if self.tool:
            terms += " AND tool = ?"
            values.append(self.tool)
        if self.hides_ot:
            terms += f" AND {_NOT_OT}"
        return terms, values


class _Sums(NamedTuple):
    """What the calls of a tool add up to."""

    tool: str
    calls: int
    failures: int
    p95_ms: float
    ms: float
    bytes: int
    last: int
    model_calls: int
    model_bytes: int

    def with_days(self, days: _Sums) -> _Sums:
        """Add the sums of expired days, which have no percentiles."""
        return self._replace(
            calls=self.calls + days.calls,
            failures=self.failures + days.failures,
            ms=self.ms + days.ms,
            bytes=self.bytes + days.bytes,
            last=max(self.last, days.last),
            model_calls=self.model_calls + days.model_calls,
            model_bytes=self.model_bytes + days.model_bytes,
        )


_CELLS = tuple(name for name in CallRow.__dataclass_fields__ if name not in ("ts", "call_id"))


def since(period: Period, now: datetime.datetime) -> int | None:
    """Give the start of a period in microseconds since 1970; None for all time. Raises
    InvalidPeriod."""
    if period not in PERIODS:
        raise InvalidPeriod(period)
    return None if period == "all" else _to_us(now) - _DAYS[period] * _DAY_US


def usage_of(
    calls: Calls, *, period: Period, tool: str | None, now: datetime.datetime
) -> UsagePeriod:
    """Add up a period. Raises InvalidPeriod."""
    chosen = _Chosen(tool, since(period, now))
    return _usage(period, chosen, _sums(calls, chosen))[0]


def overview_of(
    calls: Calls,
    *,
    period: Period,
    tool: str | None,
    now: datetime.datetime,
    start: datetime.datetime | None,
    hides_ot: bool,
) -> UsageOverview:
    """Sum up a period, or the time since `start`. Raises InvalidPeriod."""
    first = since(period, now) if start is None else _to_us(start)
    chosen = _Chosen(tool, first, hides_ot=hides_ot)
    usage, by_models = _usage(period, chosen, _sums(calls, chosen))
    failures = _failures(calls, chosen) if usage.failures else ()
    return UsageOverview(usage=usage, by_models=by_models, failures=failures)


def timeline_of(
    calls: Calls,
    *,
    tool: str | None,
    since: datetime.datetime | None,
    until: datetime.datetime | None,
    hides_ot: bool,
) -> Timeline:
    """Give the calls from a time to another in steps that suit them, without gaps: hours if all are
    of three days, shorter steps if of three hours.

    Sums of expired days are in the step that begins with the day.
    """
    first, last = None if since is None else _to_us(since), None
    # A later time than the calendar has is not known, so nothing is later.
    if until is not None and until != _LATEST:
        last = _to_us(until)
    chosen = _Chosen(tool, first, last, hides_ot)
    where, values = chosen.terms()
    rows = f"{calls.rows(since=first)} WHERE {where}"
    query = f"SELECT epoch_us(min(ts)), epoch_us(max(ts)) FROM {rows}"
    kept = [time for time in calls.ask(query, values)[0] if time is not None]
    days: list[tuple[int, int, int]] = []
    if calls.expired:
        terms, bounds = chosen.terms(of_days=True)
        query = (
            f"SELECT epoch_us(day), sum(calls), sum(failures) FROM {calls.days()} WHERE {terms}"
            " GROUP BY day"
        )
        days = [(day, count, failures) for day, count, failures in calls.ask(query, bounds)]
    times = [*kept, *(day for day, _, _ in days)]
    if not times:
        return Timeline(step_s=60, spans=())
    begin, end = min(times), max(times)
    width = _width(begin, end, lasted=kept[1] - kept[0] if kept else 0)
    begin -= begin % width
    steps = [
        UsageSpan(start=_to_time(start), calls=0, failures=0, p50_ms=0.0, p95_ms=0.0)
        for start in range(begin, end + 1, width)
    ]
    query = (
        f"SELECT (epoch_us(ts) - {begin}) // {width} AS step, count(*), count(*) FILTER (NOT ok),"
        f" quantile_disc(ms, [0.5, 0.95]) FROM {rows} GROUP BY step"
    )
    for step, count, failures, (p50, p95) in calls.ask(query, values):
        steps[step] = UsageSpan(steps[step].start, count, failures, round(p50, 3), round(p95, 3))
    for day, count, failures in days:
        step = (day - begin) // width
        span = steps[step]
        steps[step] = span._replace(calls=span.calls + count, failures=span.failures + failures)
    return Timeline(step_s=width // 1_000_000, spans=tuple(steps))


def _width(begin: int, end: int, *, lasted: int) -> int:
    """Give the width of the steps from a time to another, whose calls lasted so long."""
    width = _DAY_US
    if end // _DAY_US - begin // _DAY_US <= 3:
        width = _HOUR_US
        if end // _HOUR_US - begin // _HOUR_US <= 3:
            width = next((step for step in _SHORT_STEPS if lasted <= 36 * step), _HOUR_US)
    while end // width - begin // width > _MAX_STEPS:
        width *= 7
    return width


def counts_of(calls: Calls) -> dict[str, tuple[int, datetime.datetime]]:
    """Give how often each tool was ever called, and when last."""
    query = (
        "SELECT tool, sum(n)::BIGINT, epoch_us(max(last)) FROM (SELECT tool, count(*) AS n, max(ts)"
        f" AS last FROM {calls.rows()} WHERE {_COUNTED} GROUP BY tool UNION ALL SELECT tool, calls,"
        f" last FROM {calls.days()}) GROUP BY tool"
    )
    return {tool: (count, _to_time(last)) for tool, count, last in calls.ask(query)}


def _sums(calls: Calls, chosen: _Chosen) -> list[_Sums]:
    """Add up the calls of each tool. The most calls come first."""
    where, values = chosen.terms()
    query = (
        "SELECT tool, count(*), count(*) FILTER (NOT ok), quantile_disc(ms, 0.95), sum(ms),"
        " sum(bytes), epoch_us(max(ts)), count(*) FILTER (by_model), coalesce(sum(bytes) FILTER"
        f" (by_model), 0) FROM (SELECT *, {_FROM_MODELS} AS by_model FROM"
        f" {calls.rows(since=chosen.first)} WHERE {where}) GROUP BY tool"
    )
    sums = {row[0]: _Sums(*row) for row in calls.ask(query, values)}
    # To plan a query takes as long as to answer it, so days are asked for where there are some.
    if calls.expired:
        terms, values = chosen.terms(of_days=True)
        query = (
            "SELECT tool, sum(calls), sum(failures), 0.0, sum(ms), sum(bytes), epoch_us(max(last)),"
            f" sum(model_calls), sum(model_bytes) FROM {calls.days()} WHERE {terms} GROUP BY tool"
        )
        for row in calls.ask(query, values):
            days, kept = _Sums(*row), sums.get(row[0])
            sums[row[0]] = days if kept is None else kept.with_days(days)
    return sorted(sums.values(), key=lambda row: (-row.calls, row.tool))


def _usage(
    period: Period, chosen: _Chosen, rows: Sequence[_Sums]
) -> tuple[UsagePeriod, tuple[int, int]]:
    """Give the sums of tools as the usage of a period; also those of models, with what they got."""
    total, failures = sum(row.calls for row in rows), sum(row.failures for row in rows)
    usage = UsagePeriod(
        period=period,
        tool=chosen.tool,
        since=None if chosen.first is None else _to_time(chosen.first),
        total_calls=total,
        failures=failures,
        success_rate=round(100 * (total - failures) / total, 2) if total else None,
        output_chars=sum(row.bytes for row in rows),
        tools=tuple(
            ToolUsage(
                tool=row.tool,
                calls=row.calls,
                failures=row.failures,
                success_rate=round(100 * (row.calls - row.failures) / row.calls, 2),
                avg_ms=round(row.ms / row.calls, 3),
                p95_ms=round(row.p95_ms, 3),
                last_called=_to_time(row.last),
            )
            for row in rows
        ),
    )
    return usage, (sum(row.model_calls for row in rows), sum(row.model_bytes for row in rows))


def cause_of(message: str, args: str) -> str:
    """A failure's message with `…` in place of the values of its call: its arguments, quoted texts,
    numbers and ids."""
    try:
        arguments = json.loads(args)
    except ValueError:  # cut in the log
        arguments = {}
    values = arguments.values() if isinstance(arguments, dict) else ()
    texts = {str(each) for each in values if isinstance(each, str | int | float)}

    def cut(match: re.Match[str]) -> str:
        word = match[0]
        is_value = word[0] in "'\"" or _DIGIT.search(word) or word.strip(".:") in texts
        return "…" if is_value else word

    # A value of several words is no word of the message, so it is cut out first, the longest before
    # its parts.
    for text in sorted(filter(str.strip, texts), key=len, reverse=True)[:_MAX_VALUES]:
        if text.split() != [text]:
            message = message.replace(text, "…")
    return _VALUES.sub(cut, message)


def _failures(calls: Calls, chosen: _Chosen) -> tuple[FailureGroup, ...]:
    """Group the failed calls of a period by tool and cause, over the 1,000 most frequent messages
    of the log's rows."""
    where, values = chosen.terms()
    # The arguments of one call of each message are enough to know what in it is a value.
    query = (
        "SELECT tool, coalesce(message, code, '') AS text, count(*) AS n, epoch_us(max(ts)),"
        f" arg_min(args, ts) FROM {calls.rows(since=chosen.first)} WHERE NOT ok AND {where}"
        f" GROUP BY tool, message, code ORDER BY n DESC, 1, 2 LIMIT {_MAX_GROUPS}"
    )
    by_cause: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for name, message, count, last, args in calls.ask(query, values):
        by_cause.setdefault((name, cause_of(message, args)), []).append((message, count, last))
    groups = [
        FailureGroup(
            tool=name,
            # A cause with one message is that message: its values may say what went wrong.
            message=members[0][0] if len(members) == 1 else cause,
            calls=sum(count for _, count, _ in members),
            last_called=_to_time(max(last for _, _, last in members)),
        )
        for (name, cause), members in by_cause.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.calls, group.tool, group.message)))


def history_of(calls: Calls, chosen: CallFilter) -> list[CallRow]:
    """Give the chosen calls, newest first; of two at the same time the one recorded later."""
    if chosen.limit is not None and chosen.limit < 1:
        return []
    where, values = _terms(chosen)
    limit = "" if chosen.limit is None else f"LIMIT {chosen.limit}"
    query = f"SELECT {_ROW} FROM {calls.rows()} WHERE {where} {_NEWEST_FIRST} {limit}"
    return [_call_row(calls, row) for row in calls.ask(query, values)]


def history_in(folder: Path, chosen: CallFilter) -> list[CallRow]:
    """Give the chosen calls of the journals alone, newest first: without DuckDB."""
    rows: list[CallRow] = []
    handles: dict[str, str] = {}
    for file in files_in(folder):
        contexts: Contexts = {}
        for data, _ in file.lines(0) if file.state in ("open", "closed") else ():
            lines = parse(data, contexts)
            handles |= dict(lines.handles)
            for context, ts, call_id, args, is_whole, ms, size, more in lines.calls:
                cells: dict[str, Any] = dict(zip(CONTEXT, context, strict=True))
                cells |= {"args": args, "is_whole": is_whole, "ms": ms, "bytes": size}
                cells |= {"ts": _to_time(ts), "call_id": call_id, **dict.fromkeys(MORE), **more}
                rows.append(CallRow(**cells))
    words = chosen.text.lower().split()
    rows = [
        replace(row, handle=handles.get(row.call_id, row.handle))
        for row in rows
        if (chosen.tool is None or row.tool == chosen.tool)
        and (chosen.ok is None or row.ok is chosen.ok)
        and (chosen.since is None or row.ts >= chosen.since)
        and all(word in _searched(row) for word in words)
    ]
    # Sorting is stable, so of two calls at the same time the later one comes first.
    rows.reverse()
    return sorted(rows, key=lambda row: row.ts, reverse=True)[: chosen.limit]


def _searched(row: CallRow) -> str:
    parts = (row.tool, row.args, row.reason, row.message)
    return " ".join(part for part in parts if part).lower()


def _call_row(calls: Calls, row: Sequence[Any]) -> CallRow:
    ts, call_id, *values = row
    cells: dict[str, Any] = dict(zip(_CELLS, values, strict=True))
    cells["handle"] = calls.handles.get(call_id, cells["handle"])
    return CallRow(ts=_to_time(ts), call_id=call_id, **cells)


def family_of(calls: Calls, call_id: str) -> CallFamily:
    """Give a call, the calls that its arguments came from, and those that each of them made; at
    most some hundred."""
    rows_by_id: dict[str, CallRow] = {}
    children: dict[str, list[CallRow]] = {}
    counts: dict[str, dict[str, int]] = {}
    waiting = [call_id]
    while waiting and len(rows_by_id) < _MAX_FAMILY:
        marks = ", ".join("?" * len(waiting))
        chosen = (
            f"SELECT {_ROW} FROM {calls.rows()} WHERE tool IS NOT NULL AND call_id IN"
            f" ({marks}) {_NEWEST_FIRST}"
        )
        rows = [_call_row(calls, row) for row in calls.ask(chosen, waiting)]
        rows_by_id |= {row.call_id: row for row in rows}
        by_tool = (
            f"SELECT parent, tool, count(*) FROM {calls.rows()} WHERE parent IN ({marks}) GROUP BY"
            " parent, tool ORDER BY min(ts), tool"
        )
        for parent, tool, count in calls.ask(by_tool, waiting):
            counts.setdefault(parent, {})[tool] = count
        first = (
            f"SELECT {_ROW} FROM {calls.rows()} WHERE parent IN ({marks}) QUALIFY row_number() OVER"
            f" (PARTITION BY parent ORDER BY ts, place, call_id) <= {_MAX_MADE}"
            " ORDER BY ts, place, call_id"
        )
        below = [_call_row(calls, row) for row in calls.ask(first, waiting)] if counts else []
        for row in below:
            if row.parent in waiting:
                children.setdefault(row.parent, []).append(row)
        linked = [source for row in rows for _, source in row.sources]
        linked += [row.call_id for row in below]
        waiting = [each for each in dict.fromkeys(linked) if each not in rows_by_id][:_MAX_FAMILY]
    counts = {parent: tools for parent, tools in counts.items() if parent in rows_by_id}
    children = {parent: rows for parent, rows in children.items() if parent in rows_by_id}
    return CallFamily(calls=rows_by_id, inner=children, inner_counts=counts)


def lines_of(
    calls: Calls, chosen: CallFilter, *, offset: int, limit: int
) -> list[CallRow | RunRow]:
    """Give the chosen calls as a person reads them, newest first: a run of `ot.map` is one line."""
    singles = history_of(calls, replace(chosen, run="", limit=offset + limit))
    # Whether a row of a run failed, only all of its tries say.
    where, values = _terms(replace(chosen, run=None, ok=None))
    # Every retry follows a failed try of the same row, so both numbers without retries are those of
    # the rows.
    query = (
        # A call is noted at its end, so the run began before its first note.
        f"SELECT substr(call_id, 1, {RUN_LENGTH}) AS run, min(tool),"
        " min(epoch_us(ts) - CAST(ms * 1000 AS BIGINT)), epoch_us(max(ts)),"
        " count(*) - count(*) FILTER (instr(call_id, '.') > 0), count(*) FILTER"
        " (NOT ok) - count(*) FILTER (instr(call_id, '.') > 0) FROM"
        f" {calls.rows()} WHERE {where} AND {_IN_RUN} GROUP BY run"
    )
    runs = [
        RunRow(
            ts=_to_time(last),
            run=run,
            tool=tool,
            rows=max(rows, 1),
            failures=max(failed, 0),
            began=_to_time(first),
        )
        for run, tool, first, last, rows, failed in calls.ask(query, values)
        if chosen.ok is None or (failed > 0) is not chosen.ok
    ]
    lines: list[CallRow | RunRow] = [*singles, *runs]
    return sorted(lines, key=lambda line: line.ts, reverse=True)[offset : offset + limit]


def failures_first(calls: Calls, chosen: CallFilter, *, offset: int, limit: int) -> list[CallRow]:
    """Give the chosen calls, those that failed first, each newest first."""
    failed = history_of(calls, replace(chosen, ok=False, limit=offset + limit))
    missing = offset + limit - len(failed)
    good = (
        history_of(calls, replace(chosen, ok=True, limit=missing))
        if missing and chosen.ok is None
        else []
    )
    return [*failed, *good][offset:]


def _terms(chosen: CallFilter) -> tuple[str, list[Any]]:
    """Give the condition for the chosen calls in SQL, and its values."""
    equal = {
        "tool = ?": chosen.tool,
        "ok = ?": chosen.ok,
        "ts >= make_timestamp(?)": chosen.since and _to_us(chosen.since),
    }
    terms: list[tuple[str, list[Any]]] = [("tool IS NOT NULL", [])]
    terms += [(term, [value]) for term, value in equal.items() if value is not None]
    if chosen.run:
        terms += [(_IN_RUN, []), (f"substr(call_id, 1, {RUN_LENGTH}) = ?", [chosen.run])]
    elif chosen.run is not None:
        terms.append((f"NOT ({_IN_RUN})", []))
    if chosen.hides_ot:
        terms.append((_NOT_OT, []))
    for word in chosen.text.split():
        searched = "concat_ws(' ', tool, args, reason, message)"
        terms.append((f"contains(lower({searched}), lower(?))", [word]))
    return " AND ".join(term for term, _ in terms), [
        value for _, values in terms for value in values
    ]


def frame_of(calls: Calls, chosen: CallFilter) -> pd.DataFrame:
    """Give the calls as a DataFrame, newest first. Names are categories; `ts` is a time in UTC."""
    where, values = _terms(chosen)
    limit = "" if chosen.limit is None else f"LIMIT {max(0, chosen.limit)}"
    rows = calls.rows()
    distinct = ", ".join(f'list(DISTINCT "{name}")' for name in _CATEGORIES)
    (texts_by_column,) = calls.ask(f"SELECT {distinct} FROM {rows} WHERE {where}", values)
    columns = []
    for name in _FRAME:
        if name not in _CATEGORIES:
            columns.append(f'"{name}"')
            continue
        # DuckDB hands an ENUM over as categories, which is much quicker than texts.
        texts = sorted({text for text in texts_by_column[_CATEGORIES.index(name)] or () if text})
        kind = f"ENUM({literal(texts)[1:-1]})" if texts else "VARCHAR"
        columns.append(f'nullif("{name}", \'\')::{kind} AS "{name}"')
    query = f"SELECT {', '.join(columns)} FROM {rows} WHERE {where} {_NEWEST_FIRST} {limit}"
    frame = calls.connection.execute(query, values).df()
    frame["ts"] = frame["ts"].astype("datetime64[us]").dt.tz_localize("UTC")
    for name in _CATEGORIES:
        frame[name] = frame[name].astype("category")
    for name in ("call_id", "args", "message", "handle", "parent"):
        frame[name] = frame[name].astype("str")
    if calls.handles:
        frame["handle"] = frame["call_id"].map(calls.handles).fillna(frame["handle"])
    return frame


def _to_us(time: datetime.datetime) -> int:
    """Give an aware time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def _to_time(us: int) -> datetime.datetime:
    """Give a time from microseconds since 1970, or the nearest one that the calendar has."""
    try:
        return _EPOCH + datetime.timedelta(microseconds=us)
    except OverflowError:
        return _LATEST if us > 0 else _EPOCH
