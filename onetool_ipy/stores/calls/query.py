"""The views of the call log: usage, calls over time, history and DataFrames. Each is computed from one snapshot.

Periods are the last 24 hours, 7 days and 30 days, to the microsecond: whole days and hours come from the rollups, the
part of an hour at the edge from the rows. Only if those were dropped (the newest million are kept) does the whole of
that hour count. A period has no end: after a clock was set back, calls dated in the future still count. Days are UTC:
local days would be sums of hours, which takes five times as long, and in some zones a day begins within an hour.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.records import Value
from onetool_ipy.stores.calls.database import COLUMNS, LogUnusable, to_rollup
from onetool_ipy.stores.calls.journal import FIELDS
from onetool_ipy.stores.calls.record import RUN_LENGTH, RUN_PREFIX
from onetool_ipy.stores.calls.rollup import DAY_US, HOUR_US, Rollup, by_hour_and_tool, grouped
from onetool_ipy.stores.calls.snapshot import CallSnapshot

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs


__all__ = [
    "PERIODS",
    "CallFilter",
    "CallRow",
    "FailureGroup",
    "InvalidPeriod",
    "Period",
    "RunRow",
    "Timeline",
    "ToolUsage",
    "UsageOverview",
    "UsagePeriod",
    "UsageSpan",
    "counts_of",
    "failures_first",
    "frame_of",
    "history_of",
    "lines_of",
    "overview_of",
    "since",
    "usage_of",
]

Period = Literal["day", "week", "month", "all"]
PERIODS: tuple[Period, ...] = get_args(Period)

_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 30}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_COUNTED = itemgetter(*map(FIELDS.index, ("ts", "tool", "ok", "ms", "size")))
_TS, _CALL_ID, _TOOL, _OK, _HANDLE = map(FIELDS.index, ("ts", "call_id", "tool", "ok", "handle"))
_SOURCE, _ARGS, _CODE, _REASON, _SIZE = map(FIELDS.index, ("source", "args", "code", "reason", "size"))
_MODELS = ("model", "mcp")
_MAX_GROUPS = 1_000
_MAX_IN_MINUTES = 50_000
"""Up to so many calls are added up by the minute; there are no sums of minutes on disk."""
_MINUTES = tuple(seconds * 1_000_000 for seconds in (10, 30, 60, 120, 300, 600))
_MAX_STEPS = 120
_IN_RUN = f"call_id >= '{RUN_PREFIX}' AND call_id < '{RUN_PREFIX[:-1]}.'"
"""As in the index of the database, to the letter: SQLite uses it only then."""
_ANY_HANDLE = "coalesce(later.handle, calls.handle)"
_PART = 512
"""How many rows are fetched at a time: few enough to stay in the cache of the processor."""

_Spans = Mapping[int, Rollup]
_MIN, _MAX = -(1 << 62), 1 << 62
_TYPES = [
    {kind, type(None)} if name in ("code", "reason", "handle") else {kind, bool}
    for name, kind in zip(FIELDS, COLUMNS["calls"][1:], strict=True)
]


class InvalidPeriod(OneToolError, ValueError):
    """A period that is not one of PERIODS."""

    def __init__(self, period: object) -> None:
        valid = ", ".join(PERIODS)
        super().__init__(f"Invalid period '{period}'. Valid: {valid}. Example: ot.stats(period='day')")
        self.period = period


class ToolUsage(Value):
    """One tool's row. `p95_ms` is within 3.2 % of the true one."""

    tool: str
    calls: int
    failures: int
    success_rate: float
    avg_ms: float
    p95_ms: float
    last_called: datetime.datetime


class UsagePeriod(Value):
    """What the calls of a period add up to; the tools called most come first."""

    period: Period
    tool: str | None
    since: datetime.datetime | None
    total_calls: int
    failures: int
    success_rate: float | None
    output_chars: int
    tools: tuple[ToolUsage, ...]


class FailureGroup(Value):
    """Failed calls of one tool with the same message; its `code` where none was recorded."""

    tool: str
    message: str
    calls: int
    last_called: datetime.datetime


class UsageSpan(Value):
    """One hour or day of a series; the edge of the period may cut the first one."""

    start: datetime.datetime
    calls: int
    failures: int
    p50_ms: float
    p95_ms: float


class Timeline(Value):
    """The calls over time for a plot, in steps that suit them: minutes, hours, days; steps without calls, too."""

    step_s: int
    spans: tuple[UsageSpan, ...]


class UsageOverview(Value):
    """All there is to say of a period. `by_models` is calls of models and MCP clients, and the characters they got.

    `failures` has the failed calls by tool and message, the most frequent first. `series` has the calls over time by
    the hour or the day of the period; `timeline` in steps that suit the calls there are.
    """

    usage: UsagePeriod
    by_models: tuple[int, int]
    failures: tuple[FailureGroup, ...]
    series: tuple[UsageSpan, ...]
    timeline: Timeline


class CallFilter(Value):
    """Which calls: of a tool, that succeeded or failed, from a time on, and how many of them; None means any.

    `text` is words that all stand in the tool's name, the arguments or the error. `run` is a run of `ot.map`, or "" for
    calls of no run. `hides_ot` leaves out calls of `ot` itself.
    """

    limit: int | None = None
    tool: str | None = None
    ok: bool | None = None
    since: datetime.datetime | None = None
    text: str = ""
    run: str | None = None
    hides_ot: bool = False


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call as recorded. `args` is JSON text, masked and cut at 4 KB; `is_whole` says that it is neither.

    `bytes` is the size of the output: characters of text, bytes of binary data, an estimate for anything else.
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
    ms: float
    bytes: int
    handle: str | None
    message: str | None = None

    @property
    def arguments(self) -> Any | None:
        """The arguments as they were given, to call again with; None if the record does not have all of them."""
        if not self.is_whole:
            return None
        from orjson import loads

        return loads(self.args)


class RunRow(Value):
    """The calls of one run of `ot.map` that are wanted. A row that was retried counts once, by its last try."""

    ts: datetime.datetime
    run: str
    tool: str
    rows: int
    failures: int
    began: datetime.datetime


# --- sums -----------------------------------------------------------------------------------------


def usage_of(found: CallSnapshot, *, period: Period, tool: str | None, now: datetime.datetime) -> UsagePeriod:
    """Add up a period. Raises InvalidPeriod."""
    edge = since(period, now)
    return _usage_of(found, period, tool, edge, _single_calls(found, edge, tool))


def _usage_of(
    found: CallSnapshot, period: Period, tool: str | None, edge: int | None, singles: _SingleCalls
) -> UsagePeriod:
    stored = _stored(found, edge, tool, singles.until, span="all" if edge is None else "day", key="tool")
    by_tool = grouped(chain(stored, ((name, cell) for (_, name), cell in singles.cells.items())))
    cells = by_tool.values()
    whole = Rollup(sum(cell.calls for cell in cells), sum(cell.failures for cell in cells))
    return UsagePeriod(
        period=period,
        tool=tool,
        since=None if edge is None else _to_time(edge),
        total_calls=whole.calls,
        failures=whole.failures,
        success_rate=None if whole.success_rate is None else round(whole.success_rate, 2),
        output_chars=sum(cell.size for cell in cells),
        tools=tuple(sorted((_tool_usage(*item) for item in by_tool.items()), key=lambda row: (-row.calls, row.tool))),
    )


def overview_of(found: CallSnapshot, *, period: Period, tool: str | None, now: datetime.datetime) -> UsageOverview:
    """Give all there is to say of a period. Raises InvalidPeriod."""
    edge = since(period, now)
    span: Literal["hour", "day"] = "hour" if period in ("day", "week") else "day"
    singles = _single_calls(found, edge, tool)
    spans = _by_span(found, edge, tool, span, singles)
    return UsageOverview(
        _usage_of(found, period, tool, edge, singles),
        _by_models(found, period=period, tool=tool, now=now),
        _failures_of(found, period=period, tool=tool, now=now),
        tuple(_usage_span(start, spans[start]) for start in sorted(spans)),
        _timeline_of(found, edge, tool, spans, spans if span == "hour" else None),
    )


def _by_span(
    found: CallSnapshot, edge: int | None, tool: str | None, span: Literal["hour", "day"], singles: _SingleCalls
) -> _Spans:
    """Add up the calls from an edge on by the hour or the day; those without calls are left out."""
    width = HOUR_US if span == "hour" else DAY_US
    stored = _stored(found, edge, tool or "", singles.until, span=span, key="start")
    cells = chain(stored, ((start, cell) for (start, _), cell in singles.cells.items()))
    return grouped((start - start % width, cell) for start, cell in cells)


def _timeline_of(
    found: CallSnapshot, edge: int | None, tool: str | None, spans: _Spans, hours: _Spans | None
) -> Timeline:
    """Give the calls over time: by the minute if all are of three hours, by the hour if of three days."""
    days = grouped((start - start % DAY_US, cell) for start, cell in spans.items())
    if not days:
        return Timeline(60, ())
    if max(days) - min(days) > 3 * DAY_US:
        return _timeline(days, DAY_US)
    first = max(min(days), _MIN if edge is None else edge)
    hours = hours or _by_span(found, first, tool, "hour", _single_calls(found, first, tool))
    if not hours:  # lost to damage; the sums of the days are not
        return _timeline(days, DAY_US)
    is_long = max(hours) - min(hours) > 3 * HOUR_US
    if is_long or sum(cell.calls for cell in hours.values()) > _MAX_IN_MINUTES:
        return _timeline(hours, HOUR_US)
    of_tool, values = (" AND tool = ?", (first, tool)) if tool else ("", (first,))
    select = f"SELECT ts, tool, ok, ms, size FROM calls WHERE ts >= ?{of_tool}"
    calls = found.rows((int, str, int, float, int), select, values)
    calls += [c for c in map(_COUNTED, found.tail.calls) if c[0] >= first and tool in (None, "", c[1])]
    if not calls:  # lost to damage
        return _timeline(hours, HOUR_US)
    lasted = max(call[0] for call in calls) - min(call[0] for call in calls)
    width = next((step for step in _MINUTES if lasted <= 36 * step), HOUR_US)
    try:
        cells = by_hour_and_tool(calls, width)
        return _timeline(grouped((start, cell) for (start, _), cell in cells.items()), width)
    except (OverflowError, ValueError):  # a duration that we never wrote; the sums on disk do not have it
        return _timeline(hours, HOUR_US)


def _timeline(cells: Mapping[int, Rollup], width: int) -> Timeline:
    """Make a timeline without gaps; steps are joined until there are few enough to be drawn."""
    while (max(cells) - min(cells)) // width > _MAX_STEPS:
        width *= 7
        cells = grouped((start - start % width, cell) for start, cell in cells.items())
    steps = range(min(cells), max(cells) + 1, width)
    return Timeline(width // 1_000_000, tuple(_usage_span(start, cells.get(start, Rollup(0, 0))) for start in steps))


def _by_models(found: CallSnapshot, *, period: Period, tool: str | None, now: datetime.datetime) -> tuple[int, int]:
    """Count the calls by models and MCP clients, and the characters of their output."""
    edge = since(period, now)
    first = _MIN if edge is None else edge
    of_tool, values = (" AND tool = ?", (first, tool)) if tool else ("", (first,))
    select = "SELECT count(*), coalesce(sum(size), 0) FROM calls WHERE source IN ('model', 'mcp') AND ts >= ?"
    ((calls, chars),) = found.rows((int, int), select + of_tool, values) or [(0, 0)]
    tail = [
        call[_SIZE]
        for call in found.tail.calls
        if call[_SOURCE] in _MODELS and call[_TS] >= first and tool in (None, "", call[_TOOL])
    ]
    return calls + len(tail), chars + sum(tail)


def _failures_of(
    found: CallSnapshot, *, period: Period, tool: str | None, now: datetime.datetime
) -> tuple[FailureGroup, ...]:
    """Group the failed calls of a period by tool and message: the 1,000 most frequent messages of the log's rows."""
    edge = since(period, now)
    wanted = CallFilter(None, tool or None, False, None if edge is None else _to_time(edge))
    of_tool, values = (" AND tool = ?", [tool]) if tool else ("", [])
    select = (
        "SELECT tool, coalesce(code, ''), coalesce(reason, ''), count(*), max(ts) FROM calls"
        f" WHERE ok = 0 AND ts >= ?{of_tool} GROUP BY tool, code, reason ORDER BY count(*) DESC LIMIT ?"
    )
    rows = found.rows((str, str, str, int, int), select, [_MIN if edge is None else edge, *values, _MAX_GROUPS])
    rows += [(call[_TOOL], call[_CODE], call[_REASON], 1, call[_TS]) for call in _tail_rows(found, wanted)]
    groups: dict[tuple[str, str], tuple[int, int]] = {}
    for name, code, reason, calls, last_ts in rows:
        key = name, (reason or "").partition("\n")[2] or code or ""
        before, last = groups.get(key, (0, last_ts))
        groups[key] = before + calls, max(last, last_ts)
    made = (FailureGroup(*key, calls, _to_time(last)) for key, (calls, last) in groups.items())
    return tuple(sorted(made, key=lambda group: (-group.calls, group.tool, group.message)))


def counts_of(found: CallSnapshot) -> dict[str, tuple[int, datetime.datetime]]:
    """Give how often each tool was ever called, and when last."""
    stored = "SELECT tool, calls, last_ts FROM rollups WHERE span = 'all' AND tool <> ''"
    out = {tool: (calls, last_ts) for tool, calls, last_ts in found.rows((str, int, int), stored)}
    for call in found.tail.calls:
        calls, last_ts = out.get(call[_TOOL], (0, call[_TS]))
        out[call[_TOOL]] = calls + 1, max(last_ts, call[_TS])
    return {tool: (calls, _to_time(last_ts)) for tool, (calls, last_ts) in out.items()}


def since(period: Period, now: datetime.datetime) -> int | None:
    """Give the start of a period in microseconds since 1970; None for all time. Raises InvalidPeriod."""
    if period not in PERIODS:
        raise InvalidPeriod(period)
    return None if period == "all" else _to_us(now) - _DAYS[period] * DAY_US


class _SingleCalls(NamedTuple):
    """The calls of a period that no rollup of it has, by hour and tool; rollups of hours count from `until` on."""

    until: int
    cells: Mapping[tuple[int, str], Rollup]


def _single_calls(found: CallSnapshot, edge: int | None, tool: str | None) -> _SingleCalls:
    """Add up the calls in the part of an hour after an edge, and those that are not folded yet."""
    until, rows = _MIN, []
    if edge is not None:
        until = -(-edge // HOUR_US) * HOUR_US
        dropped = found.rows((int,), "SELECT value FROM state WHERE name = 'dropped_until'")
        if dropped and edge <= dropped[0][0]:
            until = edge - edge % HOUR_US
        else:
            of_tool, values = (" AND tool = ?", (edge, until, tool)) if tool else ("", (edge, until))
            select = f"SELECT ts, tool, ok, ms, size FROM calls WHERE ts >= ? AND ts < ?{of_tool}"
            rows = found.rows((int, str, int, float, int), select, values)
    tail = map(_COUNTED, found.tail.calls)
    wanted = (call for call in tail if (edge is None or call[0] >= edge) and (tool is None or call[1] == tool))
    return _SingleCalls(until, by_hour_and_tool(chain(rows, wanted)))


def _stored(
    found: CallSnapshot, edge: int | None, tool: str | None, hour: int, *, span: str, key: Literal["tool", "start"]
) -> Iterator[tuple[Any, Rollup]]:
    """Add up the rollups of a period, each call once, by tool or by start.

    Tool "" is all tools together, None each of them. With span "hour" all is by the hour; with "day" hours come first,
    then days.
    """
    if edge is None:
        yield from _rollups(found, key, span, tool)
    elif span == "hour":
        yield from _rollups(found, key, "hour", tool, hour)
    else:
        day = -(-edge // DAY_US) * DAY_US
        yield from _rollups(found, key, "hour", tool, hour, day)
        yield from _rollups(found, key, "day", tool, day)


def _rollups(
    found: CallSnapshot,
    key: Literal["tool", "start"],
    span: str,
    tool: str | None,
    start: int = _MIN,
    stop: int = _MAX,
) -> Iterator[tuple[Any, Rollup]]:
    """Add up rollups; SQLite adds up the numbers."""
    of_tool, values = ("<> ''", (span, start, stop)) if tool is None else ("= ?", (span, start, stop, tool))
    sums = "sum(calls), sum(failures), sum(ms_sum), min(ms_min), max(ms_max), sum(size), max(last_ts)"
    where = f"span = ? AND start >= ? AND start < ? AND tool {of_tool}"
    select = f"SELECT {key}, {sums}, group_concat(durations) FROM rollups WHERE {where} GROUP BY {key}"
    for row in found.rows((str if key == "tool" else int, *COLUMNS["rollups"][3:]), select, values):
        yield row[0], to_rollup(row[1:])


def _tool_usage(name: str, found: Rollup) -> ToolUsage:
    return ToolUsage(
        tool=name,
        calls=found.calls,
        failures=found.failures,
        success_rate=round(found.success_rate or 0.0, 2),
        avg_ms=round(found.avg_ms, 3),
        p95_ms=_percentile(found, 0.95),
        last_called=_to_time(found.last_ts),
    )


def _usage_span(start: int, found: Rollup) -> UsageSpan:
    return UsageSpan(_to_time(start), found.calls, found.failures, _percentile(found, 0.5), _percentile(found, 0.95))


def _percentile(found: Rollup, share: float) -> float:
    return round(found.percentile(share) or 0.0, 3)


# --- single calls ---------------------------------------------------------------------------------


def history_of(found: CallSnapshot, wanted: CallFilter) -> list[CallRow]:
    """Give the newest calls that are wanted, newest first; of two at the same time the one recorded later."""
    stored = chain.from_iterable(_parts(found, wanted))
    newest = sorted(chain(_tail_rows(found, wanted), stored), key=itemgetter(_TS), reverse=True)
    rows = newest if wanted.limit is None else newest[: max(0, wanted.limit)]
    if not all(_TYPES[place].issuperset(map(type, column)) for place, column in enumerate(zip(*rows, strict=True))):
        raise LogUnusable(Path("calls.db"), "damaged")  # a value that we never wrote
    handles = found.tail.handles
    return [
        CallRow(
            _to_time(ts),
            call_id,
            tool,
            source,
            args,
            bool(args_whole),
            bool(ok),
            code or None,
            (reason or "").partition("\n")[0] or None,
            ms,
            size,
            handles.get(call_id) or handle or None,
            (reason or "").partition("\n")[2] or None,
        )
        for ts, call_id, tool, source, args, args_whole, ok, code, reason, ms, size, handle in rows
    ]


def lines_of(found: CallSnapshot, wanted: CallFilter, *, offset: int, limit: int) -> list[CallRow | RunRow]:
    """Give the calls that are wanted as a person reads them, newest first: a run of `ot.map` is one line."""
    singles = history_of(found, wanted.replace(run="", limit=offset + limit))
    lines: list[CallRow | RunRow] = [*singles, *_runs_of(found, wanted)]
    return sorted(lines, key=lambda line: line.ts, reverse=True)[offset : offset + limit]


def failures_first(found: CallSnapshot, wanted: CallFilter, *, offset: int, limit: int) -> list[CallRow]:
    """Give the calls that are wanted, those that failed first, each newest first."""
    failed = history_of(found, wanted.replace(ok=False, limit=offset + limit))
    missing = offset + limit - len(failed)
    good = history_of(found, wanted.replace(ok=True, limit=missing)) if missing and wanted.ok is None else []
    return [*failed, *good][offset:]


def _runs_of(found: CallSnapshot, wanted: CallFilter) -> list[RunRow]:
    every = wanted.replace(run=None, ok=None)  # whether a row failed, only all of its tries say
    where, values = _terms(every)
    select = (
        f"SELECT substr(call_id, 1, {RUN_LENGTH}) AS run, min(tool), min(ts), max(ts), count(*), count(*) - sum(ok),"
        f" sum(instr(call_id, '.') > 0) FROM calls WHERE {_IN_RUN}{where and ' AND '}{where} GROUP BY run"
    )
    cells = found.rows((str, str, int, int, int, int, int), select, values)
    for call in _tail_rows(found, every):
        if (call_id := call[_CALL_ID]).startswith(RUN_PREFIX):
            ts, failed, retried = call[_TS], int(not call[_OK]), int("." in call_id)
            cells.append((call_id[:RUN_LENGTH], call[_TOOL], ts, ts, 1, failed, retried))
    runs: dict[str, tuple[str, int, int, int, int]] = {}
    for run, tool, first, last, calls, failures, retries in cells:
        # Every retry follows a failed try of the same row, so both numbers are those of the rows.
        known = runs.get(run, (tool, first, last, 0, 0))
        rows, failed = known[3] + calls - retries, known[4] + failures - retries
        runs[run] = tool, min(first, known[1]), max(last, known[2]), rows, failed
    return [
        RunRow(_to_time(last), run, tool, max(rows, 1), max(failed, 0), _to_time(first))
        for run, (tool, first, last, rows, failed) in runs.items()
        if wanted.ok is None or (failed > 0) is not wanted.ok
    ]


def frame_of(found: CallSnapshot, wanted: CallFilter) -> pd.DataFrame:
    """Give the calls as a DataFrame, newest first. Names are categories; `ts` is a time in UTC."""
    import numpy as np
    import pandas as pd

    columns: dict[str, list[Any]] = {name: [] for name in FIELDS}
    for part in chain([_tail_rows(found, wanted)], _parts(found, wanted)):
        for column, values in zip(columns.values(), zip(*part, strict=True), strict=False):
            column.extend(values)
    if handles := found.tail.handles:
        columns["handle"] = [handles.get(*pair) for pair in zip(columns["call_id"], columns["handle"], strict=True)]
    try:
        ts = np.array(columns["ts"], dtype="i8")
        frame = pd.DataFrame(
            {
                "ts": pd.DatetimeIndex(ts.view("M8[us]")).tz_localize("UTC"),
                "call_id": _texts(columns["call_id"]),
                "tool": _categories(columns["tool"]),
                "source": _categories(columns["source"]),
                "args": _texts(columns["args"]),
                "ok": np.array(columns["ok"], dtype=bool),
                "code": _categories(columns["code"]),
                "reason": _categories(_split(columns["reason"], 0)),
                "message": _texts(_split(columns["reason"], 2)),
                "ms": np.array(columns["ms"], dtype="f8"),
                "bytes": np.array(columns["size"], dtype="i8"),
                "handle": _texts(columns["handle"]),
            },
            copy=False,
        )
    except (AttributeError, TypeError, ValueError, OverflowError) as exc:  # a value that we never wrote
        raise LogUnusable(Path("calls.db"), "damaged") from exc
    if (ts[1:] > ts[:-1]).any():
        frame = frame.take(np.argsort(-ts, kind="stable")).reset_index(drop=True)
    return frame if wanted.limit is None else frame.head(max(0, wanted.limit))


def _split(column: list[Any], place: int) -> list[Any]:
    """The reasons (0) or the messages (2) in what the log has as one text. Raises AttributeError for another value."""
    known = {text: text and (text.partition("\n")[place] or None) for text in set(column)}
    return column if known.keys() <= {None} else [known[text] for text in column]


def _parts(found: CallSnapshot, wanted: CallFilter) -> Iterator[list[Any]]:
    """Give the folded calls that are wanted, newest first; without a limit those folded last, which a caller sorts."""
    where, values = _terms(wanted)
    table, fields = "calls", list(FIELDS)
    if found.rows((int,), "SELECT 1 FROM handles LIMIT 1"):  # a look-up for each call costs
        table, fields = "calls LEFT JOIN handles AS later USING (call_id)", [*FIELDS[:_HANDLE], _ANY_HANDLE]
    order, limit = ("id DESC", -1) if wanted.limit is None else ("ts DESC, id DESC", max(0, wanted.limit))
    select = f"SELECT {', '.join(fields)} FROM {table} {where and 'WHERE'} {where} ORDER BY {order} LIMIT ?"
    yield from found.parts(select, [*values, limit], _PART)


def _terms(wanted: CallFilter) -> tuple[str, list[Any]]:
    """Give the condition for wanted calls in SQL, and its values."""
    equal = {"tool = ?": wanted.tool, "ok = ?": wanted.ok, "ts >= ?": wanted.since and _to_us(wanted.since)}
    terms: list[tuple[str, list[Any]]] = [(term, [value]) for term, value in equal.items() if value is not None]
    if wanted.run:
        terms += [(_IN_RUN, []), (f"substr(call_id, 1, {RUN_LENGTH}) = ?", [wanted.run])]
    elif wanted.run is not None:
        terms.append((f"NOT ({_IN_RUN})", []))
    if wanted.hides_ot:
        terms.append(("tool NOT LIKE 'ot.%'", []))
    for word in wanted.text.split():
        terms.append(("instr(lower(tool || ' ' || args || ' ' || coalesce(reason, '')), ?)", [_lower(word)]))
    return " AND ".join(term for term, _ in terms), [value for _, values in terms for value in values]


def _lower(text: str) -> str:
    """Lower the letters that SQLite lowers."""
    return text.translate(_LOWER)


_LOWER = {ord("A") + place: ord("a") + place for place in range(26)}


def _is_wanted(call: Any, wanted: CallFilter) -> bool:
    """What `_terms` says, of a call that is not folded yet."""
    run = call[_CALL_ID][:RUN_LENGTH] if call[_CALL_ID].startswith(RUN_PREFIX) else ""
    said = _lower(f"{call[_TOOL]} {call[_ARGS]} {call[_REASON] or ''}") if wanted.text else ""
    return (
        wanted.tool in (None, call[_TOOL])
        and wanted.ok in (None, call[_OK])
        and wanted.run in (None, run)
        and not (wanted.hides_ot and call[_TOOL].startswith("ot."))
        and all(_lower(word) in said for word in wanted.text.split())
    )


def _tail_rows(found: CallSnapshot, wanted: CallFilter) -> list[Any]:
    """Give the wanted calls that are not folded yet, as rows of the database, newest first."""
    first = None if wanted.since is None else _to_us(wanted.since)
    rows = [
        [*call[:7], call[7] or None, call[8] or None, float(call[9]), call[10], call[11] or None]
        for call in found.tail.calls
        if (first is None or call[_TS] >= first) and _is_wanted(call, wanted)
    ]
    rows.reverse()  # of two at the same time the one recorded later comes first
    return sorted(rows, key=itemgetter(_TS), reverse=True)


def _texts(column: list[Any]) -> Any:
    """Make a column of texts; None is a missing one. Raises TypeError for anything else."""
    import numpy as np
    import pandas as pd

    if not any(column):
        return pd.array([None], dtype="str").repeat(len(column))
    if not {str, type(None)}.issuperset(map(type, column)):
        raise TypeError
    return pd.array(np.array(column, dtype=object), dtype="str", copy=False)


def _categories(column: list[Any]) -> pd.Categorical:
    """Make a column of names; None is a missing one. Quicker than pandas does it."""
    import numpy as np
    import pandas as pd

    names = sorted(set(column) - {None})
    places = {name: place for place, name in enumerate(map(str.__str__, names))} | {None: -1}
    return pd.Categorical.from_codes(np.fromiter(map(places.__getitem__, column), "i4", len(column)), categories=names)


def _to_us(time: datetime.datetime) -> int:
    """Give an aware time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def _to_time(us: int) -> datetime.datetime:
    """Give the time of so many microseconds since 1970, or the nearest that the calendar has."""
    try:
        return _EPOCH + datetime.timedelta(microseconds=us)
    except OverflowError:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC) if us > 0 else _EPOCH
