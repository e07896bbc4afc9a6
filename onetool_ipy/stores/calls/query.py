"""The views of the call log: usage, calls over time, history and DataFrames. Each is computed from one database.

Periods are the last 24 hours, 7 days and 30 days, to the microsecond: whole days and hours come from the rollups, the
part of an hour at the edge from the rows. Only if those have expired does the whole of that hour count. A period has no
end: after a clock was set back, calls dated in the future still count. Days are UTC: local days would be sums of hours,
which takes five times as long, and in some zones a day begins within an hour.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.masking import MASK
from onetool_ipy.core.shown import without_secrets
from onetool_ipy.stores.calls.record import RUN_LENGTH, RUN_PREFIX
from onetool_ipy.stores.calls.rollup import DAY_US, HOUR_US, SPANS, Rollup, by_hour_and_tool, grouped

if TYPE_CHECKING:
    from sqlite3 import Connection

    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
    from pandas.api.extensions import ExtensionArray  # type: ignore[import-untyped]  # it ships no stubs

Period = Literal["day", "week", "month", "all"]
PERIODS: tuple[Period, ...] = get_args(Period)

_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 30}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_MAX_GROUPS = 1_000
_MAX_FAMILY, _MAX_MADE = 300, 10
_MAX_IN_MINUTES = 50_000
"""More calls than this are not added up by the minute; there are no sums of minutes on disk."""
_MINUTES = tuple(seconds * 1_000_000 for seconds in (10, 30, 60, 120, 300, 600))
_MAX_STEPS = 120
_IN_RUN = f"call_id >= '{RUN_PREFIX}' AND call_id < '{RUN_PREFIX[:-1]}.'"
"""As in the index of the database, to the letter: SQLite uses it only then."""
# What a message says about one call and not about its cause: texts in quotes, and words with a digit in them.
_VALUES = re.compile(r"""(?<!\w)'[^'\n]*+'|"[^"\n]*+"|[\w.:/+-]++""")
_DIGIT = re.compile(r"\d")
_MAX_VALUES = 50
_PART = 512
"""How many rows are fetched at a time: few enough to stay in the cache of the processor."""

_Spans = Mapping[int, Rollup]
_MIN, _MAX = -(1 << 62), 1 << 62


class InvalidPeriod(OneToolError, ValueError):
    """A period that is not one of PERIODS."""

    def __init__(self, period: object) -> None:
        valid = ", ".join(PERIODS)
        super().__init__(f"Invalid period '{period}'. Valid: {valid}. Example: ot.stats(period='day')")
        self.period = period


class ToolUsage(NamedTuple):
    """One tool's row. `p95_ms` is within 3.2 % of the true one."""

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


class FailureGroup(NamedTuple):
    """Failed calls of one tool with the same cause; `message` is its `code` where none was recorded.

    Messages that differ only in values have one cause. It is written with `…` in place of the values.
    """

    tool: str
    message: str
    calls: int
    last_called: datetime.datetime


class UsageSpan(NamedTuple):
    """One hour or day of a series; the edge of the period may cut the first one."""

    start: datetime.datetime
    calls: int
    failures: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The calls over time for a plot, in steps that suit them: minutes, hours, days; steps without calls, too."""

    step_s: int
    spans: tuple[UsageSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageOverview:
    """All there is to say of a period. `by_models` is calls of models and MCP clients, and the characters they got.

    `failures` has the failed calls by tool and message, the most frequent first. `series` has the
    calls over time by the hour or the day of the period; `timeline` in steps that suit the calls
    there are. `pending` is how many calls on disk are not counted yet.
    """

    usage: UsagePeriod
    by_models: tuple[int, int]
    failures: tuple[FailureGroup, ...]
    series: tuple[UsageSpan, ...]
    timeline: Timeline
    pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which calls: of a tool, that succeeded or failed, from a time on, and how many of them; None means any.

    `text` is words that are all in the tool's name, the arguments or the error. `run` is a run of `ot.map`, or "" for
    calls of no run. `hides_ot` leaves out calls of `ot` itself.
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
    """One call as recorded. `args` is JSON text, masked and cut at 4 KB; `is_whole` says that it is neither.

    `bytes` is the size of the output: characters of text, bytes of binary data, an estimate for anything else.
    `parent` is the id of the call that made this one, `fingerprint` that of the tool as it was then. `inputs` says as
    JSON which arguments came from which calls; see `sources`.
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
        """The arguments as they were given, to call again with; None if the record does not have all of them."""
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
    """A call with all that it came from: `calls` by id, `inner` by the id of the call that made them, the first ones.

    `inner_counts` has how often each call called each tool.
    """

    calls: Mapping[str, CallRow]
    inner: Mapping[str, Sequence[CallRow]]
    inner_counts: Mapping[str, Mapping[str, int]]


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The calls of one run of `ot.map` that are wanted. A row that was retried counts once, by its last try."""

    ts: datetime.datetime
    run: str
    tool: str
    rows: int
    failures: int
    began: datetime.datetime


def since(period: Period, now: datetime.datetime) -> int | None:
    """Give the start of a period in microseconds since 1970; None for all time. Raises InvalidPeriod."""
    if period not in PERIODS:
        raise InvalidPeriod(period)
    return None if period == "all" else _to_us(now) - _DAYS[period] * DAY_US


def usage_of(database: Connection, *, period: Period, tool: str | None, now: datetime.datetime) -> UsagePeriod:
    """Add up a period. Raises InvalidPeriod."""
    return _usage(database, period, tool, _Edge.of(database, since(period, now), tool))


def overview_of(
    database: Connection, *, period: Period, tool: str | None, now: datetime.datetime, start: datetime.datetime | None
) -> UsageOverview:
    """Give all there is to say of a period, or of the time since `start`. Raises InvalidPeriod."""
    first = since(period, now) if start is None else _to_us(start)
    edge = _Edge.of(database, first, tool)
    span: Literal["hour", "day"] = "hour" if first is not None and _to_us(now) - first <= 7 * DAY_US else "day"
    spans = _by_span(database, edge, tool, span)
    terms, values = edge.terms(tool)
    by_models = f"SELECT count(*), coalesce(sum(size), 0) FROM counted WHERE source IN ('model', 'mcp') AND {terms}"
    return UsageOverview(
        usage=_usage(database, period, tool, edge),
        by_models=database.execute(by_models, values).fetchone(),
        failures=_failures(database, terms, values),
        series=tuple(_usage_span(start, spans[start]) for start in sorted(spans)),
        timeline=_timeline_of(database, edge, tool, spans, spans if span == "hour" else None),
    )


def counts_of(database: Connection) -> dict[str, tuple[int, datetime.datetime]]:
    """Give how often each tool was ever called, and when last."""
    rows = database.execute("SELECT tool, calls, last_ts FROM rollups WHERE span = 'all' AND tool <> ''")
    return {tool: (calls, _to_time(last_ts)) for tool, calls, last_ts in rows}


def damaged_of(database: Connection) -> list[tuple[str, int]]:
    """Give the journals with lines that could not be read, and how many."""
    return database.execute("SELECT name, damaged FROM journals WHERE damaged > 0 ORDER BY name").fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """The start of a period, and the calls between it and the first whole hour, by hour and tool."""

    start: int
    first_hour: int
    cells: Mapping[tuple[int, str], Rollup]

    @classmethod
    def of(cls, database: Connection, start: int | None, tool: str | None) -> _Edge:
        whole = cls(start=_MIN if start is None else start, first_hour=_MIN if start is None else start, cells={})
        if start is None or start % HOUR_US == 0:
            return whole
        whole = replace(whole, first_hour=start - start % HOUR_US)
        terms, values = whole.terms(tool, whole.first_hour)
        select = f"SELECT ts, tool, ok, ms, size FROM counted WHERE {terms} AND ts < ?"
        rows = database.execute(select, (*values, whole.first_hour + HOUR_US)).fetchall()
        sums = "SELECT coalesce(sum(calls), 0) FROM rollups WHERE span = 'hour' AND start = ? AND tool = ?"
        # Without all of its rows this hour cannot be divided, so it counts whole.
        if len(rows) != database.execute(sums, (whole.first_hour, tool or "")).fetchone()[0]:
            return whole
        cells = by_hour_and_tool(row for row in rows if row[0] >= start)
        return replace(whole, first_hour=whole.first_hour + HOUR_US, cells=cells)

    def terms(self, tool: str | None, start: int | None = None) -> tuple[str, tuple[int | str, ...]]:
        """Give the condition for the calls of the period, or from another start on, in SQL, and its values."""
        first = self.start if start is None else start
        return ("ts >= ? AND tool = ?", (first, tool)) if tool else ("ts >= ?", (first,))


def _usage(database: Connection, period: Period, tool: str | None, edge: _Edge) -> UsagePeriod:
    spans = ("all",) if edge.start == _MIN else ("hour", "day", "week")
    stored = _stored(database, edge, tool, spans=spans, key="tool")
    by_tool = grouped(chain(stored, ((name, cell) for (_, name), cell in edge.cells.items())))
    whole = grouped(("", cell) for cell in by_tool.values()).get("", Rollup())
    rows = [
        ToolUsage(
            tool=name,
            calls=cell.calls,
            failures=cell.failures,
            success_rate=round(cell.success_rate or 0.0, 2),
            avg_ms=round(cell.avg_ms, 3),
            p95_ms=round(cell.percentile(0.95) or 0.0, 3),
            last_called=_to_time(cell.last_ts),
        )
        for name, cell in by_tool.items()
    ]
    return UsagePeriod(
        period=period,
        tool=tool,
        since=None if edge.start == _MIN else _to_time(edge.start),
        total_calls=whole.calls,
        failures=whole.failures,
        success_rate=None if whole.success_rate is None else round(whole.success_rate, 2),
        output_chars=whole.size,
        tools=tuple(sorted(rows, key=lambda row: (-row.calls, row.tool))),
    )


def _by_span(database: Connection, edge: _Edge, tool: str | None, span: Literal["hour", "day"]) -> _Spans:
    """Add up the calls from an edge on by the hour or the day; those without calls are left out."""
    stored = _stored(database, edge, tool or "", spans=("hour",) if span == "hour" else ("hour", "day"), key="start")
    cells = chain(stored, ((start, cell) for (start, _), cell in edge.cells.items()))
    return grouped((start - start % SPANS[span], cell) for start, cell in cells)


def _timeline_of(database: Connection, edge: _Edge, tool: str | None, spans: _Spans, hours: _Spans | None) -> Timeline:
    """Give the calls over time: by the minute if all are of three hours, by the hour if of three days."""
    days = grouped((start - start % DAY_US, cell) for start, cell in spans.items())
    if not days:
        return Timeline(step_s=60, spans=())
    if max(days) - min(days) > 3 * DAY_US:
        return _timeline(days, DAY_US)
    first = max(min(days), edge.start)
    if hours is None:
        hours = _by_span(database, _Edge.of(database, first, tool), tool, "hour")
    total = sum(cell.calls for cell in hours.values())
    if max(hours) - min(hours) > 3 * HOUR_US or total > _MAX_IN_MINUTES:
        return _timeline(hours, HOUR_US)
    terms, values = edge.terms(tool, first)
    calls = database.execute(f"SELECT ts, tool, ok, ms, size FROM counted WHERE {terms}", values).fetchall()
    if len(calls) < total:  # some of them have expired
        return _timeline(hours, HOUR_US)
    lasted = max(call[0] for call in calls) - min(call[0] for call in calls)
    width = next((step for step in _MINUTES if lasted <= 36 * step), HOUR_US)
    cells = by_hour_and_tool(calls, width)
    return _timeline(grouped((start, cell) for (start, _), cell in cells.items()), width)


def _timeline(cells: _Spans, width: int) -> Timeline:
    """Make a timeline without gaps; steps are joined until there are few enough to be drawn."""
    while (max(cells) - min(cells)) // width > _MAX_STEPS:
        width *= 7
        cells = grouped((start - start % width, cell) for start, cell in cells.items())
    steps = range(min(cells), max(cells) + 1, width)
    spans = tuple(_usage_span(start, cells.get(start, Rollup())) for start in steps)
    return Timeline(step_s=width // 1_000_000, spans=spans)


def cause_of(message: str, args: str) -> str:
    """A failure's message with `…` in place of the values of its call: its arguments, quoted texts, numbers and ids."""
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

    # A value of several words is no word of the message, so it is cut out first, the longest before its parts.
    for text in sorted(filter(str.strip, texts), key=len, reverse=True)[:_MAX_VALUES]:
        if text.split() != [text]:
            message = message.replace(text, "…")
    return _VALUES.sub(cut, message)


def _failures(database: Connection, terms: str, values: Sequence[object]) -> tuple[FailureGroup, ...]:
    """Group the failed calls of a period by tool and cause, over the 1,000 most frequent messages of the log's rows."""
    # The index of failed calls has all but the arguments, and those of one call of each message are enough.
    messages = (
        "SELECT tool, coalesce(message, code, '') AS text, count(*) AS calls, max(ts) AS last, min(id) AS first"
        f" FROM counted WHERE ok = 0 AND {terms} GROUP BY tool, message, code ORDER BY 3 DESC, 1, 2 LIMIT ?"
    )
    select = f"SELECT f.tool, text, calls, last, args FROM ({messages}) AS f JOIN calls ON calls.id = first"
    by_cause: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for name, message, calls, last, args in database.execute(select, (*values, _MAX_GROUPS)):
        by_cause.setdefault((name, cause_of(message, args)), []).append((message, calls, last))
    groups = [
        FailureGroup(
            tool=name,
            # A cause with one message is that message: its values may say what went wrong.
            message=members[0][0] if len(members) == 1 else cause,
            calls=sum(calls for _, calls, _ in members),
            last_called=_to_time(max(last for _, _, last in members)),
        )
        for (name, cause), members in by_cause.items()
    ]
    return tuple(sorted(groups, key=lambda group: (-group.calls, group.tool, group.message)))


def _stored(
    database: Connection, edge: _Edge, tool: str | None, *, spans: Sequence[str], key: Literal["tool", "start"]
) -> Iterator[tuple[Any, Rollup]]:
    """Add up the rollups of a period, each call once, by tool or by start.

    Tool "" is all tools together, None each of them. Of the spans, the shortest first, each goes on to where one of the
    next begins: hours to the next day, days to the next week.
    """
    from onetool_ipy.stores.calls.database import to_rollup  # late: it loads sqlite3

    first, parts = edge.first_hour, []
    for span, longer in zip_longest(spans, spans[1:]):
        end = -(-first // SPANS[longer]) * SPANS[longer] if longer else _MAX
        parts += [span, first, end]
        first = end
    where = " OR ".join(["span = ? AND start >= ? AND start < ?"] * len(spans))
    of_tool, values = ("<> ''", parts) if tool is None else ("= ?", [*parts, tool])
    # SQLite adds up the numbers; histograms come as one text.
    sums = "sum(calls), sum(failures), sum(ms_sum), min(ms_min), max(ms_max), sum(size), max(last_ts)"
    select = f"SELECT {key}, {sums}, group_concat(durations) FROM rollups WHERE ({where}) AND tool {of_tool}"
    for name, *row in database.execute(f"{select} GROUP BY {key}", values):
        yield name, to_rollup(row)


def _usage_span(start: int, cell: Rollup) -> UsageSpan:
    p50_ms, p95_ms = (round(cell.percentile(share) or 0.0, 3) for share in (0.5, 0.95))
    return UsageSpan(start=_to_time(start), calls=cell.calls, failures=cell.failures, p50_ms=p50_ms, p95_ms=p95_ms)


def history_of(database: Connection, chosen: CallFilter) -> list[CallRow]:
    """Give the chosen calls, newest first; of two at the same time the one recorded later."""
    where, values = _terms(chosen)
    limit = -1 if chosen.limit is None else max(0, chosen.limit)
    return _call_rows(database, f"{where} ORDER BY ts DESC, id DESC LIMIT ?", [*values, limit])


def family_of(database: Connection, call_id: str) -> CallFamily:
    """Give a call, the calls that its arguments came from, and those that each of them made; at most some hundred."""
    calls: dict[str, CallRow] = {}
    children: dict[str, list[CallRow]] = {}
    counts: dict[str, dict[str, int]] = {}
    waiting = [call_id]
    while waiting and len(calls) < _MAX_FAMILY:
        marks = ", ".join("?" * len(waiting))
        rows = _call_rows(database, f"WHERE call_id IN ({marks})", waiting)
        calls |= {row.call_id: row for row in rows}
        for row in rows:
            by_tool = "SELECT tool, count(*) FROM calls WHERE parent = ? GROUP BY tool ORDER BY min(ts)"
            if times := dict(database.execute(by_tool, (row.call_id,))):
                counts[row.call_id] = times
                first = "WHERE parent = ? ORDER BY ts, id LIMIT ?"
                children[row.call_id] = _call_rows(database, first, [row.call_id, _MAX_MADE])[::-1]
        linked = [source for row in rows for _, source in row.sources]
        linked += [each.call_id for row in rows for each in children.get(row.call_id, ())]
        waiting = [each for each in dict.fromkeys(linked) if each not in calls][:_MAX_FAMILY]
    return CallFamily(calls=calls, inner=children, inner_counts=counts)


def _call_rows(database: Connection, terms: str, values: Sequence[Any]) -> list[CallRow]:
    """Give the calls that these terms select, newest first. Raises LookupError for a damaged database."""
    rows = database.execute(
        "SELECT ts, call_id, calls.tool, calls.source, args, args_whole AS is_whole, ok, code, reason, message, ms,"
        " size AS bytes, handle, parent, user, host, notebook, cell, session, fingerprint, inputs"
        f" FROM (SELECT * FROM calls {terms}) AS calls"
        " LEFT JOIN contexts ON contexts.id = context LEFT JOIN handles USING (call_id)"
        " ORDER BY ts DESC, calls.id DESC",
        values,
    )
    names = [column[0] for column in rows.description]
    history = []
    for row in rows:
        cells = dict(zip(names, row, strict=True))
        if cells["session"] is None:
            raise LookupError("a context is missing")
        cells |= {"ts": _to_time(cells["ts"]), "is_whole": bool(cells["is_whole"]), "ok": bool(cells["ok"])}
        history.append(CallRow(**cells))
    return history


def lines_of(database: Connection, chosen: CallFilter, *, offset: int, limit: int) -> list[CallRow | RunRow]:
    """Give the chosen calls as a person reads them, newest first: a run of `ot.map` is one line."""
    singles = history_of(database, replace(chosen, run="", limit=offset + limit))
    # Whether a row of a run failed, only all of its tries say.
    where, values = _terms(replace(chosen, run=None, ok=None))
    in_run = f"{where} AND {_IN_RUN}" if where else f"WHERE {_IN_RUN}"
    # Every retry follows a failed try of the same row, so both numbers without retries are those of the rows.
    select = (
        f"SELECT substr(call_id, 1, {RUN_LENGTH}) AS run, min(tool), min(ts), max(ts),"
        " count(*) - sum(instr(call_id, '.') > 0), count(*) - sum(ok) - sum(instr(call_id, '.') > 0)"
        f" FROM calls {in_run} GROUP BY run"
    )
    runs = [
        RunRow(ts=_to_time(last), run=run, tool=tool, rows=max(rows, 1), failures=max(failed, 0), began=_to_time(first))
        for run, tool, first, last, rows, failed in database.execute(select, values)
        if chosen.ok is None or (failed > 0) is not chosen.ok
    ]
    lines: list[CallRow | RunRow] = [*singles, *runs]
    return sorted(lines, key=lambda line: line.ts, reverse=True)[offset : offset + limit]


def failures_first(database: Connection, chosen: CallFilter, *, offset: int, limit: int) -> list[CallRow]:
    """Give the chosen calls, those that failed first, each newest first."""
    failed = history_of(database, replace(chosen, ok=False, limit=offset + limit))
    missing = offset + limit - len(failed)
    good = history_of(database, replace(chosen, ok=True, limit=missing)) if missing and chosen.ok is None else []
    return [*failed, *good][offset:]


def _terms(chosen: CallFilter) -> tuple[str, list[Any]]:
    """Give the condition for the chosen calls in SQL, and its values."""
    equal = {"tool = ?": chosen.tool, "ok = ?": chosen.ok, "ts >= ?": chosen.since and _to_us(chosen.since)}
    terms: list[tuple[str, list[Any]]] = [(term, [value]) for term, value in equal.items() if value is not None]
    if chosen.run:
        terms += [(_IN_RUN, []), (f"substr(call_id, 1, {RUN_LENGTH}) = ?", [chosen.run])]
    elif chosen.run is not None:
        terms.append((f"NOT ({_IN_RUN})", []))
    if chosen.hides_ot:
        terms.append(("tool NOT LIKE 'ot.%'", []))
    for word in chosen.text.split():
        searched = "lower(tool || ' ' || args || ' ' || coalesce(reason, '') || ' ' || coalesce(message, ''))"
        terms.append((f"instr({searched}, lower(?))", [word]))
    where = "WHERE " + " AND ".join(term for term, _ in terms) if terms else ""
    return where, [value for _, values in terms for value in values]


def frame_of(database: Connection, chosen: CallFilter) -> pd.DataFrame:
    """Give the calls as a DataFrame, newest first. Names are categories; `ts` is a time in UTC."""
    import numpy as np
    import pandas as pd

    where, values = _terms(chosen)
    order, limit = ("id DESC", -1) if chosen.limit is None else ("ts DESC, id DESC", max(0, chosen.limit))
    select = f"SELECT ts, call_id, args, ok, ms, size, parent, context FROM calls {where} ORDER BY {order} LIMIT ?"
    rows = database.execute(select, (*values, limit))
    columns: list[list[Any]] = [[] for _ in rows.description]
    while part := rows.fetchmany(_PART):
        for column, cells in zip(columns, zip(*part, strict=True), strict=True):
            column.extend(cells)
    ts, call_id, args, ok, ms, size, parent, context = columns
    stamps, is_good = np.array(ts, dtype="i8"), np.array(ok, dtype=bool)
    # Each value of a million rows costs time, so what only failed calls have is read of these alone.
    where, values = _terms(replace(chosen, ok=False))
    select = f"SELECT code, reason, message FROM calls {where} ORDER BY {order} LIMIT ?"
    failed = database.execute(select, (*values, int((~is_good).sum()))).fetchall()
    errors = np.full((3, len(ts)), None, dtype=object)
    errors[:, ~is_good] = np.array(failed, dtype=object).reshape(-1, 3).T
    handles = dict(database.execute("SELECT call_id, handle FROM handles"))
    # Many calls share a context, so its names are put in place by numpy.
    contexts = database.execute("SELECT * FROM contexts").fetchall()
    numbers, *names = zip(*contexts, strict=True) if contexts else [()] * 9
    if not {*numbers}.issuperset(context):
        raise LookupError("a context is missing")
    place = np.searchsorted(np.array(numbers, dtype="i8"), np.array(context, dtype="i8"))
    tool, source, *origin = (_categories(column).take(place) for column in names)
    frame = pd.DataFrame(
        {
            "ts": pd.DatetimeIndex(stamps.view("M8[us]")).tz_localize("UTC"),
            "call_id": _texts(call_id),
            "tool": tool,
            "source": source,
            "args": _texts(args),
            "ok": is_good,
            "code": _categories(errors[0]),
            "reason": _categories(errors[1]),
            "message": _texts(errors[2]),
            "ms": np.array(ms, dtype="f8"),
            "bytes": np.array(size, dtype="i8"),
            "handle": _texts([*map(handles.get, call_id)] if handles else [None] * len(ts)),
            "parent": _texts(parent),
            **dict(zip(("user", "host", "notebook", "cell", "session", "fingerprint"), origin, strict=True)),
        },
        copy=False,
    )
    if (stamps[1:] > stamps[:-1]).any():
        frame = frame.take(np.argsort(-stamps, kind="stable")).reset_index(drop=True)
    return frame


def _texts(column: Sequence[str | None]) -> ExtensionArray:
    """Make a column of texts; None is a missing one."""
    import numpy as np
    import pandas as pd

    # A column that no call has is made the quick way.
    if not any(column):
        return pd.array([None], dtype="str").repeat(len(column))
    return pd.array(np.asarray(column, dtype=object), dtype="str", copy=False)


def _categories(column: Sequence[str | None]) -> pd.Categorical:
    """Make a column of names; None is a missing one. Quicker than pandas does it."""
    import numpy as np
    import pandas as pd

    names = sorted(name for name in set(column) if name)
    places = {name: place for place, name in enumerate(names)} | dict.fromkeys((None, ""), -1)
    return pd.Categorical.from_codes(np.fromiter(map(places.__getitem__, column), "i4", len(column)), categories=names)


def _to_us(time: datetime.datetime) -> int:
    """Give an aware time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def _to_time(us: int) -> datetime.datetime:
    """Give a time from microseconds since 1970, or the nearest one that the calendar has."""
    try:
        return _EPOCH + datetime.timedelta(microseconds=us)
    except OverflowError:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC) if us > 0 else _EPOCH
