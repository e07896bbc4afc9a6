"""`python -m tests.faults.interrupted NAME FOLDER COUNT`: interrupts at chance moments, in this one
process.

A timer interrupts as Stop does in a cell: by a signal, wherever Python happens to be, and after our
bookkeeping. Prints a JSON object with what landed and what was wrong after it. The tracebacks are
kept, as a notebook keeps the last one.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from onetool_ipy.base.files import StoreError, locked, write_whole
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.stores.results import Results

Report = dict[str, int]

_dice = random.Random(7)
_last: list[BaseException] = []


def strike(work: Callable[[], object], longest_s: float) -> bool:
    """Do the work with an interrupt at a chance moment, and say whether one came."""
    try:
        signal.setitimer(signal.ITIMER_REAL, _dice.uniform(1e-6, longest_s))
        try:
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for _ in range(1_000):  # a signal that was on its way arrives here, not in what follows
            pass
    except KeyboardInterrupt as exc:
        _last[:] = [exc]
        return True
    return False


def tries(count: int, report: Report) -> Iterator[int]:
    """Numbers until so many interrupts have landed; a busy machine needs more tries, but not
    without end."""
    for number in range(100 * count):
        if report["landed"] >= count:
            return
        yield number


def duration_s(work: Callable[[], object]) -> float:
    """How long the work takes when nothing is in its way."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def put(folder: Path, count: int) -> Report:
    results = Results(folder)
    old = results.put("old")
    text = "some text\n" * 200_000
    longest_s = 1.2 * duration_s(lambda: results.delete(results.put(text)))
    report = {"landed": 0, "half": 0, "left": 0}
    for _ in tries(count, report):
        report["landed"] += strike(lambda: results.put(text), longest_s)
        report["left"] += sum(name.endswith(".tmp") for name in os.listdir(folder))
        for row in results.list():
            report["half"] += row["handle"] != old and row["lines"] != 200_000
        for row in results.list():
            if row["handle"] != old:
                results.delete(row["handle"])
    assert results.query(old)["lines"] == ["old"]
    return report


def query(folder: Path, count: int) -> Report:
    results = Results(folder)
    handle = results.put("some text with words\n" * 40_000)
    before = len(os.listdir("/proc/self/fd"))
    report = {"landed": 0, "open": 0}
    ways: list[dict[str, Any]] = [{}, {"search": "w.*s$"}, {"search": "wrods", "fuzzy": True}]
    longest_s = [duration_s(partial(results.query, handle, **how)) for how in ways]
    for number in tries(count, report):
        report["landed"] += strike(
            partial(results.query, handle, **ways[number % 3]), longest_s[number % 3]
        )
    _last.clear()  # what it refers to may stay open as long as it lives
    gc.collect()
    report["open"] = len(os.listdir("/proc/self/fd")) - before
    assert results.query(handle)["total_lines"] == 40_000
    return report


def lock(folder: Path, count: int) -> Report:
    path = folder / "ours"

    def work() -> None:
        for _ in range(20):
            with locked(path):
                pass

    longest_s = duration_s(work)
    report = {"landed": 0, "held": 0}
    for _ in tries(count, report):
        report["landed"] += strike(work, longest_s)
        try:
            with locked(path, 0.0):
                pass
        except StoreError:
            report["held"] += 1
            path = path.with_name(path.name + "x")
    return report


def whole(folder: Path, count: int) -> Report:
    path = folder / "whole"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    longest_s = 1.2 * duration_s(lambda: write_whole(path, contents[0]))
    report = {"landed": 0, "half": 0, "left": 0}
    for number in tries(count, report):
        report["landed"] += strike(partial(write_whole, path, contents[number % 2]), longest_s)
        report["half"] += path.read_bytes() not in contents
        report["left"] += len(os.listdir(folder)) != 1
    return report


def main() -> None:
    def interrupt(_number: int, frame: FrameType | None) -> None:
        if not deferred.note_stop(frame):
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    campaigns = {"put": put, "query": query, "lock": lock, "whole": whole}
    report = campaigns[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(report))  # noqa: T201  # read by the test


if __name__ == "__main__":
    main()
