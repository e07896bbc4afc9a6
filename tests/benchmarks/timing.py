"""Taking turns with a stopwatch, and the lines of the table.

Owns how a time is taken: every round lets each contender run for a slice, forwards and backwards in
turn. `Rounds[name]` is the median of the rounds, `Rounds.mean(name)` what a user pays who makes all
of these calls: a cost that comes every thousandth call is in the mean and not in the median. The
clock is the CPU time of the process unless a row says that it is the wall's, and always the same
one for both sides. Standard library only.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import textwrap
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tests.harness.surroundings import ROOT

__all__ = [
    "BIG",
    "COLUMNS",
    "Contender",
    "LeftOut",
    "Met",
    "Rounds",
    "at_least",
    "at_most",
    "cells",
    "fresh",
    "line",
    "note",
    "once",
    "per_run",
    "race",
    "runs_in",
    "say",
    "statement",
    "table",
    "take_turns",
    "timed",
    "times",
]

BIG = "ONETOOL_BENCH_BIG"
"""The variable that `--big` sets."""

COLUMNS = ("row", "what", "ours", "peer", "ratio", "reach", "moonshot", "met")


Met = bool | Literal["moonshot"] | None
"""Whether a target is met; None for a line that is there to compare only."""


class LeftOut(Exception):
    """What a module needs is not here; the message says what."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something to be timed: `time(n)` runs it n times and gives the seconds that took in all."""

    name: str
    time: Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Rounds:
    """What each contender took in each round, in seconds per run."""

    seconds: Mapping[str, Sequence[float]]

    def __getitem__(self, name: str) -> float:
        """The median of a contender."""
        return statistics.median(self.seconds[name])

    def mean(self, name: str) -> float:
        """The mean of a contender."""
        return statistics.fmean(self.seconds[name])

    def mean_ratio(self, over: str, under: str) -> float:
        """One contender's mean over another's."""
        return self.mean(over) / self.mean(under)

    def ratio(self, over: str, under: str) -> float:
        """The median of one contender's time over another's, round by round: both had the same
        weather."""
        pairs = zip(self.seconds[over], self.seconds[under], strict=True)
        return statistics.median(a / b for a, b in pairs)


def statement(name: str, code: str, /, **names: Any) -> Contender:
    """A contender that runs a line of Python; the garbage collector stays on, as it is for a
    user."""
    return Contender(
        name, timeit.Timer(code, "import gc; gc.enable()", time.process_time, globals=names).timeit
    )


def once(
    name: str, run: Callable[[], object], *, before: Callable[[], object] = gc.collect
) -> Contender:
    """A contender for slow work. `before` prepares each run, untimed; by default it takes out the
    garbage of others."""

    def timed(n: int) -> float:
        spent = 0.0
        for _ in range(n):
            before()
            began = time.process_time()
            kept = run()
            spent += time.process_time() - began
            del kept
        return spent

    return Contender(name, timed)


def timed(
    work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """A sample for `take_turns`: the seconds of one run on this clock, on the wall by default."""

    def sample() -> float:
        began = clock()
        kept = work()
        spent = clock() - began
        del kept
        return spent

    return sample


def fresh(code: str, *arguments: str) -> Callable[[], float]:
    """A sample for `take_turns`: a number that a program prints, run in a new process with the
    bytecode compiled."""

    def sample() -> float:
        command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return float(done.stdout.splitlines()[-1])

    return sample


def race(
    contenders: Sequence[Contender], *, rounds: int = 201, slice_s: float = 0.001, least: int = 1
) -> Rounds:
    """Seconds per run of each contender, by name. Short slices and many rounds ride out a busy
    machine.

    A slice is at least so many runs long, for those whose first run in a slice is slow.
    """
    counts = {c.name: max(least, runs_in(c, slice_s)) for c in contenders}
    gc.collect()
    gc.freeze()  # what is already there is not ours to collect, in anybody's slice
    try:
        return take_turns({c.name: partial(per_run, c, counts[c.name]) for c in contenders}, rounds)
    finally:
        gc.unfreeze()


def take_turns(samples: Mapping[str, Callable[[], float]], rounds: int) -> Rounds:
    """What each function gives, called once a round, in alternating order."""
    found: dict[str, list[float]] = {name: [] for name in samples}
    for turn in range(rounds):
        for name in samples if turn % 2 == 0 else reversed(samples):
            found[name].append(samples[name]())
    return Rounds(found)


def line(
    row: int,
    what: str,
    ours: float | str,
    peer: float | str | None = None,
    *,
    name: str = "",
    ratio: float | None = None,
    reach: str = "",
    moonshot: str = "",
    met: Met = None,
    note: str = "",
    headline: str = "",
    plot: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One line of the table. Times are in seconds, text stands as it is; `name` says who the peer
    is.

    `ratio` is the peer's time over ours, best taken from `Rounds.ratio`; by default that of the two
    times. `at_most` and `at_least` give reach, moonshot and met. `note` is said below the table;
    `headline` puts the line into the README in these words; `plot` is drawn by `page`.
    """
    if ratio is None and isinstance(peer, float) and isinstance(ours, float) and ours:
        ratio = peer / ours
    shown = "" if peer is None else say(peer)
    return {
        "row": row,
        "what": what,
        "ours": say(ours),
        "peer": f"{shown} {name}".strip(),
        "ratio": ratio,
        "reach": reach,
        "moonshot": moonshot,
        "met": met,
        "note": note,
        "headline": headline,
        "plot": plot,
    }


def at_most(
    value: float,
    reach: float,
    moonshot: float | None = None,
    *,
    show: Callable[[float], str] | None = None,
) -> dict[str, Any]:
    """Reach, moonshot and met of a line whose value, by default in seconds, is better the smaller
    it is."""
    show = show or say
    met: Met = "moonshot" if moonshot is not None and value <= moonshot else value <= reach
    return {
        "reach": f"<= {show(reach)}",
        "moonshot": "" if moonshot is None else f"<= {show(moonshot)}",
        "met": met,
    }


def at_least(
    value: float,
    reach: float,
    moonshot: float | None = None,
    *,
    show: Callable[[float], str] | None = None,
) -> dict[str, Any]:
    """Reach, moonshot and met of a line whose value, by default a ratio, is better the larger it
    is."""
    show = show or times
    met: Met = "moonshot" if moonshot is not None and value >= moonshot else value >= reach
    return {
        "reach": f">= {show(reach)}",
        "moonshot": "" if moonshot is None else f">= {show(moonshot)}",
        "met": met,
    }


def times(ratio: float) -> str:
    """A ratio in three digits."""
    return f"{_three_digits(ratio)}x"


def say(seconds: float | str) -> str:
    """A time with its unit, in three digits."""
    if isinstance(seconds, str):
        return seconds
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds * 1e6)} µs"


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """The lines as one table, in the order of their rows."""
    rows = [COLUMNS, *map(cells, sorted(lines, key=lambda found: found.get("row", 0)))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    shown = [
        " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    shown.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(shown)


def cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    """A line's texts, one for each of COLUMNS."""
    return tuple(_cell(key, found.get(key)) for key in COLUMNS)


def note(text: str) -> None:
    """Say what is going on, beside the table."""
    print(text, file=sys.stderr, flush=True)


def per_run(contender: Contender, count: int) -> float:
    """Seconds of one of so many runs."""
    return contender.time(count) / count


def runs_in(contender: Contender, slice_s: float) -> int:
    """How many runs fill so many seconds."""
    contender.time(1)  # the first run may import or compile
    count, spent = 1, contender.time(1)
    while spent < slice_s / 4:
        count = min(count * 10, max(count + 1, int(count * slice_s / max(spent, 1e-9))))
        spent = contender.time(count)
    return max(1, round(count * slice_s / spent))


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "met":
        return {True: "yes", False: "NO", "moonshot": "yes, moonshot"}[value]
    if key == "ratio" and isinstance(value, int | float):
        return times(value)
    return say(value) if isinstance(value, float) else str(value)
