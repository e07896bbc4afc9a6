"""`python -m tests.faults.interrupted NAME FOLDER COUNT`: interrupts at chance moments, in this one process.

A timer raises KeyboardInterrupt exactly as Ctrl-C does: by a signal, wherever Python happens to be. Prints a JSON
object with what landed and what was wrong after it. The tracebacks are kept, as a notebook keeps the last one.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from onetool_ipy.stores.files import StoreError, locked, write_whole
from onetool_ipy.stores.results import Results

Report = dict[str, int]

_dice = random.Random(7)


def strike(work: Callable[[], object], longest_s: float) -> BaseException | None:
    """Do the work with an interrupt at a chance moment; give what came of it."""
    try:
        signal.setitimer(signal.ITIMER_REAL, _dice.uniform(1e-6, longest_s))
        try:
            work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as exc:
        return exc
    return None


def put(folder: Path, count: int) -> Report:
    results = Results(folder)
    old = results.put("old")
    text = "some text\n" * 200_000
    began = time.perf_counter()
    results.delete(results.put(text))
    longest_s = 1.2 * (time.perf_counter() - began)
    report = {"landed": 0, "half": 0, "left": 0, "late": 0}
    for _ in range(count):
        done: list[str] = []
        began = time.perf_counter()
        landed = strike(lambda done=done: done.append(results.put(text)), longest_s)
        report["landed"] += landed is not None
        report["late"] += time.perf_counter() - began > longest_s + 1.0
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
    handle = results.put("some text with words\n" * 200_000)
    before = len(os.listdir("/proc/self/fd"))
    report = {"landed": 0, "open": 0, "late": 0}
    for number in range(count):
        how = ({}, {"search": "w.*s$"}, {"search": "wrods", "fuzzy": True})[number % 3]
        began = time.perf_counter()
        landed = strike(lambda how=how: results.query(handle, **how), 0.001 if not how else 0.2)  # type: ignore[arg-type]
        report["landed"] += landed is not None
        report["late"] += time.perf_counter() - began > 1.2
    report["open"] = len(os.listdir("/proc/self/fd")) - before
    assert results.query(handle)["total_lines"] == 200_000
    return report


def lock(folder: Path, count: int) -> Report:
    return _lock(folder / "ours", locked, count)


def careless_lock(folder: Path, count: int) -> Report:
    """The control: a lock as one would write it."""
    return _lock(folder / "careless", _careless, count)


def _lock(path: Path, make: Callable[[Path], AbstractContextManager[object]], count: int) -> Report:
    def work() -> None:
        for _ in range(20):
            with make(path):
                pass

    began = time.perf_counter()
    work()
    longest_s = time.perf_counter() - began
    report = {"landed": 0, "held": 0}
    for _ in range(count):
        landed = strike(work, longest_s)
        report["landed"] += landed is not None
        try:
            with locked(path, 0.0):
                pass
        except StoreError:
            report["held"] += 1
            path = path.with_name(path.name + "x")
        del landed  # until here the traceback was alive
    return report


@contextmanager
def _careless(path: Path) -> Iterator[None]:
    file = io.FileIO(path.with_name(path.name + ".lock"), "a")
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        file.close()


def whole(folder: Path, count: int) -> Report:
    path = folder / "whole"
    contents = [bytes([letter]) * 300_000 for letter in b"ab"]
    began = time.perf_counter()
    write_whole(path, contents[0])
    longest_s = 1.2 * (time.perf_counter() - began)
    report = {"landed": 0, "half": 0, "left": 0}
    for number in range(count):
        landed = strike(lambda number=number: write_whole(path, contents[number % 2]), longest_s)
        report["landed"] += landed is not None
        report["half"] += path.read_bytes() not in contents
        report["left"] += len(os.listdir(folder)) != 1
    return report


def main() -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    campaigns = {"put": put, "query": query, "lock": lock, "careless_lock": careless_lock, "whole": whole}
    report = campaigns[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(report))  # noqa: T201  # read by the test


if __name__ == "__main__":
    main()
