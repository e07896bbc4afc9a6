"""Taking turns with a stopwatch, and the lines of the table.

Owns how a time is taken: every round lets each contender run for a short slice, forwards and backwards in turn, and
medians over the rounds count. The clock is the CPU time of the process, since the clock on the wall also counts what
others do on the machine, and most where a contender has a process of its own. Standard library only.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["Contender", "LeftOut", "Rounds", "line", "note", "once", "race", "say", "statement", "table", "take_turns"]

_COLUMNS = ("row", "what", "ours", "peer", "ratio", "target", "met")
_HEADS = ("row", "what", "ours", "peer", "ratio", "reach", "met")


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

    def ratio(self, over: str, under: str) -> float:
        """The median of one contender's time over another's, round by round: both had the same weather."""
        pairs = zip(self.seconds[over], self.seconds[under], strict=True)
        return statistics.median(a / b for a, b in pairs)


def statement(name: str, code: str, /, **names: Any) -> Contender:
    """A contender that runs a line of Python; the garbage collector stays on, as it is for a user."""
    return Contender(name, timeit.Timer(code, "import gc; gc.enable()", time.process_time, globals=names).timeit)


def once(name: str, run: Callable[[], object], *, before: Callable[[], object] = gc.collect) -> Contender:
    """A contender for slow work. `before` prepares each run, untimed; by default it takes out the garbage of others."""

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


def race(contenders: Sequence[Contender], *, rounds: int = 201, slice_s: float = 0.001, least: int = 1) -> Rounds:
    """Seconds per run of each contender, by name. Short slices and many rounds ride out a busy machine.

    A slice is at least so many runs long, for those whose first run in a slice is slow.
    """
    counts = {c.name: max(least, _runs_in(c, slice_s)) for c in contenders}
    gc.collect()
    gc.freeze()  # what is already there is not ours to collect, in anybody's slice
    try:
        return take_turns({c.name: partial(_per_run, c, counts[c.name]) for c in contenders}, rounds)
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
    target: str = "",
    met: bool | None = None,
    note: str = "",
) -> dict[str, Any]:
    """One line of the table. Times are in seconds, text stands as it is; `name` says who the peer is.

    `ratio` is the peer's time over ours, best taken from `Rounds.ratio`; by default that of the two times. `note` is
    said below the table.
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
        "target": target,
        "met": met,
        "note": note,
    }


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
    ordered = sorted(lines, key=lambda found: found.get("row", 0))
    cells = [_HEADS, *(tuple(_cell(key, found.get(key)) for key in _COLUMNS) for found in ordered)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(_HEADS))]
    shown = [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    shown.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(shown)


def note(text: str) -> None:
    """Say what is going on, beside the table."""
    print(text, file=sys.stderr, flush=True)


def _per_run(contender: Contender, count: int) -> float:
    return contender.time(count) / count


def _runs_in(contender: Contender, slice_s: float) -> int:
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
        return {True: "yes", False: "NO"}.get(value, str(value))
    if key == "ratio" and isinstance(value, int | float):
        return f"{value:,.0f}x" if value >= 100 else f"{value:.3g}x"
    return say(value) if isinstance(value, float) else str(value)
