"""Every number of `ot.stats`, `ot.history` and the usage panel, beside a plain Python list of calls.

The calls are of several kernels, in journals and parts; some parts are cut. Clocks go back and
forth, and the process is in some time zone.
"""

from __future__ import annotations

import datetime
import math
import os
import pickle
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.faces.widgets.overviews import usage_data
from onetool_ipy.packs.ot.usage import UsageTools
from onetool_ipy.stores.calls.log import CallLog

NOW = datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.UTC)
STEP = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
DAYS = {"day": 1, "week": 7, "month": 30, "all": 10**6}
CAUSES = {"the lid is open": "the lid is open", "no such street: X1": "no such street: …"}
CAUSES |= {"no such street: X2": "no such street: …", "": "execution_error"}
ZONES = ("UTC0", "IST-5:30", "CET-1CEST,M3.5.0,M10.5.0/3", "<-12>12")


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A call of the twin's list. `us` is its end in microseconds since 1970."""

    number: int
    us: int
    tool: str
    source: str
    ok: bool
    ms: float
    size: int
    message: str

    @property
    def moment(self) -> datetime.datetime:
        return EPOCH + datetime.timedelta(microseconds=self.us)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime.datetime:
        return self.now


class Kernels:
    """Two kernels that note calls in one log, and the list of what they noted."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.calls: list[Noted] = []
        self.count = 0
        self.folder, self.clock = folder, clock
        self.logs = [CallLog(folder, clock=clock, rotate_calls=9, close_calls=1) for _ in range(2)]

    def note(
        self,
        kernel: int,
        seconds: float,
        tool: str,
        source: str,
        message: str,
        ms: float,
        size: int,
    ) -> None:
        number, self.count = self.count, self.count + 1
        # No two calls end at the same time, so that their order is known.
        moment = NOW + datetime.timedelta(seconds=seconds, microseconds=number)
        self.clock.now, ok = moment, message == "ok"
        about: dict[str, Any] = {} if ok else {"code": "execution_error", "message": message}
        self.logs[kernel].record(
            f"id{number}", tool, source, {"n": number}, ok, ms, args_size=9, size=size, **about
        )
        us = (moment - EPOCH) // STEP
        call = Noted(
            number=number,
            us=us,
            tool=tool,
            source=source,
            ok=ok,
            ms=ms,
            size=size,
            message="" if ok else message,
        )
        self.calls.append(call)

    def close(self, kernel: int, _seconds: float) -> None:
        """Leave the journal, and make parts of all that nobody owns."""
        self.logs[kernel].close()
        self.logs[kernel].tidy()

    def cut(self, number: int, _seconds: float) -> None:
        """Damage a part: its calls are lost, and no others."""
        parts = sorted(self.folder.glob("*.parquet"))
        if not parts:
            return
        path = parts[number % len(parts)]
        with duckdb.connect() as database:
            try:
                rows = database.execute("SELECT call_id FROM read_parquet(?)", [str(path)])
            except duckdb.Error:
                return  # it was cut before
            lost = {name for (name,) in rows.fetchall()}
        os.truncate(path, path.stat().st_size // 2)
        self.calls = [call for call in self.calls if f"id{call.number}" not in lost]


def rate(calls: Sequence[Noted]) -> float | None:
    good = sum(call.ok for call in calls)
    return round(100 * good / len(calls), 2) if calls else None


def disc(calls: Sequence[Noted], part: float) -> float:
    """The exact percentile: the smallest value that so many calls do not exceed."""
    times = sorted(call.ms for call in calls)
    return round(times[math.ceil(part * len(times)) - 1], 3) if times else 0.0


def grouped(calls: Sequence[Noted], key: Callable[[Noted], Any]) -> dict[Any, list[Noted]]:
    groups: dict[Any, list[Noted]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return groups


def iso(call: Noted) -> str:
    return call.moment.isoformat(timespec="seconds")


def naive_stats(calls: Sequence[Noted], period: str) -> dict[str, Any]:
    models = [call for call in calls if call.source in ("model", "mcp")]
    tools = [
        {
            "tool": tool,
            "calls": len(mine),
            "failures": sum(not call.ok for call in mine),
            "success_rate": rate(mine),
            "avg_ms": pytest.approx(sum(call.ms for call in mine) / len(mine), abs=0.0011),
            "p95_ms": disc(mine, 0.95),
            "last_called": max(map(iso, mine)),
        }
        for tool, mine in grouped(calls, lambda call: call.tool).items()
    ]
    bad = [call for call in calls if not call.ok]
    failures = []
    for (tool, cause), mine in grouped(bad, lambda c: (c.tool, CAUSES[c.message])).items():
        texts = {call.message for call in mine}
        message = texts.pop() if len(texts) == 1 else cause
        row = {"tool": tool, "message": message or cause, "calls": len(mine)}
        failures.append({**row, "last_called": max(map(iso, mine))})
    return {
        "period": period,
        "total_calls": len(calls),
        "success_rate": rate(calls),
        "context_saved": max(0, round(len(models) * 30_000 - sum(c.size for c in models) / 4)),
        "time_saved_ms": len(models) * 4_000,
        "estimates": ["context_saved", "time_saved_ms"],
        "tools": sorted(tools, key=lambda row: (-row["calls"], row["tool"])),
        "failures": sorted(failures, key=lambda f: (-f["calls"], f["tool"], f["message"])),
    }


def naive_steps(calls: Sequence[Noted]) -> tuple[int, list[tuple[int, int, int, float, float]]]:
    """The width of a step, and of each its start, calls, failures, p50, p95."""
    if not calls:
        return 60 * SECOND, []
    begin, end = min(call.us for call in calls), max(call.us for call in calls)
    width = DAY
    if end // DAY - begin // DAY <= 3:
        width = HOUR
    if end // HOUR - begin // HOUR <= 3:
        short = (10 * SECOND, 30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, HOUR)
        width = min(step for step in short if end - begin <= 36 * step or step == HOUR)
    while end // width - begin // width > 120:
        width *= 7
    steps = grouped(calls, lambda call: call.us // width)
    spans = []
    for step in range(begin // width, end // width + 1):
        mine = steps.get(step, [])
        bad = sum(not call.ok for call in mine)
        spans.append((step * width, len(mine), bad, disc(mine, 0.5), disc(mine, 0.95)))
    return width, spans


def opened(folder: Path, clock: Callable[[], datetime.datetime]) -> Toolbox:
    (folder / ".onetool").mkdir(exist_ok=True)
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    return open_toolbox(folder, env={"ONETOOL_STATE": str(folder / "state")}, clock=clock)


@contextmanager
def in_zone(zone: str) -> Iterator[None]:
    """Set the time zone of this process, where it may."""
    before = os.environ.get("TZ")
    try:
        if hasattr(time, "tzset"):
            os.environ["TZ"] = zone
            time.tzset()
        yield
    finally:
        os.environ.pop("TZ", None)
        if before is not None:
            os.environ["TZ"] = before
        if hasattr(time, "tzset"):
            time.tzset()


SOON = st.floats(-7200, 0)
CALL = st.tuples(
    st.just("note"),
    st.integers(0, 1),
    st.one_of(SOON, st.floats(-3 * 86_400, 86_400), st.floats(-300 * 86_400, 0)),
    st.sampled_from(["a.b", "c.d", "ask", "é.ü", "ot.stats"]),
    st.sampled_from(["python", "model", "mcp"]),
    st.sampled_from(["ok", "ok", *CAUSES]),
    st.floats(0, 1e6, allow_nan=False).map(lambda ms: round(ms, 4)),
    st.integers(0, 10**6),
)
ACTION = st.one_of(
    CALL,
    CALL,
    CALL,
    st.tuples(st.just("close"), st.integers(0, 1), st.just(0.0)),
    st.tuples(st.just("cut"), st.integers(0, 3), st.just(0.0)),
)

# Enough calls to tell 95 of a hundred from 90, in steps of some seconds; and calls of four days
# that are more than three days apart.
MANY = [("note", 0, number, "a.b", "mcp", "ok", float(number), number) for number in range(60)]
FOUR_DAYS = [
    ("note", 0, seconds, "a.b", "model", "the lid is open", 1.0, 1)
    for seconds in (-3 * 86_400 - 3600, 20 * 3600)
]


def check(box: Toolbox, calls: Sequence[Noted]) -> None:
    real = [call for call in calls if call.tool not in ("ask", "program")]
    for period, tool in (*((period, "") for period in DAYS), ("all", "a.b")):
        first = (NOW - EPOCH) // STEP - DAYS[period] * DAY
        mine = [call for call in real if call.us >= first and tool in ("", call.tool)]
        stats = UsageTools(box).stats(period=period, tool=tool)
        assert stats == naive_stats(mine, period) | ({"tool": tool} if tool else {})
        width, spans = naive_steps(mine)
        since = None if period == "all" else EPOCH + first * STEP
        timeline = box.log.timeline(tool=tool or None, since=since)
        starts = [(span.start - EPOCH) // STEP for span in timeline.spans]
        assert (timeline.step_s * SECOND, starts) == (width, [span[0] for span in spans])
        assert [tuple(row.values())[1:] for row in stats.steps] == [span[1:] for span in spans]
        if period == "week":
            # The panel is where people look, so it does not count how often they do.
            _, spans = naive_steps([call for call in mine if not call.tool.startswith("ot.")])
            panel = usage_data(box, {"period": period})["series"]
            figures = [(row["ok"] + row["failed"], row["failed"]) for row in panel]
            assert figures == [(count, bad) for _, count, bad, _, _ in spans]
    newest = sorted(calls, key=lambda call: call.us, reverse=True)
    for limit in (3, 1000):
        rows = UsageTools(box).history(limit=limit)
        assert [
            (row["call_id"], row["tool"], row["ok"], row["ms"], row["error"] or "") for row in rows
        ] == [
            (f"id{call.number}", call.tool, call.ok, call.ms, call.message)
            for call in newest[:limit]
        ]
    failed = UsageTools(box).history(limit=1000, failed=True, tool="a.b", search="STREET")
    assert [row["call_id"] for row in failed] == [
        f"id{call.number}" for call in newest if call.tool == "a.b" and "street" in call.message
    ]
    assert box.log.counts() == {
        tool: (len(mine), max(call.moment for call in mine))
        for tool, mine in grouped(real, lambda call: call.tool).items()
    }
    assert [*box.log.frame()["call_id"]] == [f"id{call.number}" for call in newest]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(actions=st.lists(ACTION, min_size=1, max_size=40), zone=st.sampled_from(ZONES))
@example(actions=MANY, zone="UTC0")
@example(actions=FOUR_DAYS, zone="UTC0")
def test_every_number_is_that_of_a_plain_list(
    tmp_path_factory: pytest.TempPathFactory,
    actions: list[Any],
    zone: str,
) -> None:
    clock = Clock()
    with in_zone(zone), opened(tmp_path_factory.mktemp("project"), clock) as box:
        kernels = Kernels(box.log.folder, clock)
        for name, *values in actions:
            getattr(kernels, name)(*values)
        clock.now = NOW

        check(box, kernels.calls)

        drawn = UsageTools(box).stats()
        steps = UsageTools(box).stats().steps
        kernels.note(0, 2 * 86_400, "a.b", "python", "ok", 1.0, 1)
        kernels.close(0, 0.0)
        assert drawn.steps == steps, "a plot shows the calls of its sums, also when drawn later"
        assert pickle.loads(pickle.dumps(drawn)).steps == steps


@pytest.mark.slow
def test_sums_and_plots_are_whole_while_threads_write_and_parts_are_joined(tmp_path: Path) -> None:
    """Real clocks: what was noted before the question is in the sums, and what is in the sums is in
    their plot."""
    with opened(tmp_path, lambda: datetime.datetime.now(datetime.UTC)) as box:
        logs = [CallLog(box.log.folder, rotate_calls=20, close_calls=1) for _ in range(3)]
        noted, errors = [0, 0, 0], list[BaseException]()

        def write(thread: int) -> None:
            try:
                for number in range(250):
                    logs[thread].record(f"{thread}-{number}", "a.b", "python", {}, True, 1.0)
                    noted[thread] += 1
                    if number % 50 == thread:
                        logs[thread].tidy()
            except BaseException as exc:
                errors.append(exc)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            before = sum(noted)
            stats = UsageTools(box).stats(tool="a.b")
            drawn = sum(row["calls"] for row in stats.steps)
            assert before <= stats["total_calls"] <= drawn <= 750
        for thread in threads:
            thread.join()

        assert errors == []
        stats = UsageTools(box).stats(tool="a.b")
        assert stats["total_calls"] == sum(row["calls"] for row in stats.steps) == 750


@pytest.mark.slow
def test_a_plot_drawn_after_its_parts_were_joined_is_that_of_its_sums(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path, clock) as box:
        kernels = Kernels(box.log.folder, clock)
        for number in range(170):
            kernels.note(0, number * 60 - 86_400, "a.b", "python", "ok", number, 1)
        kernels.close(0, 0.0)
        drawn, steps = UsageTools(box).stats(), UsageTools(box).stats().steps
        before = sorted(box.log.folder.glob("*.parquet"))
        for number in range(170, 200):
            kernels.note(0, number * 60 - 86_400, "a.b", "python", "ok", number, 1)
        kernels.close(0, 0.0)

        assert not any(path.exists() for path in before[:10]), "the parts were joined"
        assert drawn.steps == steps
