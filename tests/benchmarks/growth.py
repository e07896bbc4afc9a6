"""Row 37: how cost grows: tools, calls in the history, the size of a result, rows of a map. And
rows 23 to 25: firsts.

Each point is the CPU time of the best of some runs. The exponent is that of the three largest
sizes: 1 is growth in proportion. With `--big` the history goes to ten million calls and the result
to a gigabyte. The firsts run in a fresh process each: the first `ot.stats()`, the first search with
its index, opening a project with 1,000 pack files.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onetool_ipy import open_toolbox
from onetool_ipy.base.search import Index
from onetool_ipy.stores.calls.log import CallLog
from onetool_ipy.stores.results import Results
from tests.benchmarks import corpus, projects
from tests.benchmarks.page import exponent
from tests.benchmarks.timing import BIG, at_most, fresh, line, note, once, say, take_turns
from tests.benchmarks.trivial import add
from tests.harness.surroundings import ROOT

__all__ = ["ROWS", "record_calls", "run"]

ROWS = (23, 24, 25, 37)

_LINEAR = 1.15
"""The exponent up to which growth counts as in proportion on a shared machine."""
_ROUNDS = 5
_SMALL, _LARGE = 50_000, 1_000_000
"""The sizes of the history for which the first targets were given."""

_WHY_STATS = (
    "Row 23: the first ot.stats() of a process also imports DuckDB and builds the registry; every"
    " later one is SQL over all calls that are on disk at that moment."
)
_WHY_PACKS = (
    "Row 25: a third is imports, a third finding 1,000 files (their status and owner, when the"
    " project is opened and again when it is listed), the rest their cached outlines and the"
    " registry. One cached answer for the folder would save most of it, and miss a file that"
    " changed."
)
_FIRST_STATS = """
    import os, sys, time
    from onetool_ipy import open_toolbox
    box = open_toolbox(sys.argv[1], env={**os.environ, "ONETOOL_STATE": sys.argv[2]})
    began = time.process_time()
    box.call("ot.stats", {}).unwrap()
    print(time.process_time() - began)
    """
_FIRST_SEARCH = """
    import sys, time
    from tests.benchmarks import corpus
    from onetool_ipy.base.search import Index
    tools = corpus.many_tools(int(sys.argv[1]))
    began = time.process_time()
    Index(tools).search("github.create_isue")
    print(time.process_time() - began)
    """
_FIRST_LIST = """
    import os, sys, time
    from onetool_ipy import open_toolbox
    began = time.process_time()
    box = open_toolbox(sys.argv[1], env={**os.environ, "ONETOOL_STATE": sys.argv[2], "ONETOOL_TRUST": sys.argv[1]})
    assert len(box.registry.list()) > 1000
    print(time.process_time() - began)
    """


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return [*_tools(), *_history(folder), *_results(folder), *_map(folder), *_packs(folder)]


def _tools() -> Iterator[dict[str, Any]]:
    sizes = (10, 100, 1_000, 10_000, 50_000)
    note("  tools ...")
    first: list[tuple[float, float]] = []
    typed: list[tuple[float, float]] = []
    for size in sizes:
        tools = corpus.many_tools(size)
        first.append(
            (size, _best(lambda tools=tools: Index(tools).search("github.create_isue"), 3))
        )
        index = Index(tools)
        index.search("github.create_isue")
        typed.append((size, _best(lambda index=index: index.search("create isue"), 20)))
    yield _grown("tools", "Search among tools", "tools", "first search, its index included", first)
    yield _grown("tools", "Search among tools", "tools", "each search after it", typed)
    for size, reach in ((10_000, 0.150), (50_000, 0.700)):
        spent = take_turns({"ours": fresh(_FIRST_SEARCH, str(size))}, 3)["ours"]
        what = f"first search among {size:,} tools, its index included, in a fresh process"
        yield line(24, what, spent, **at_most(spent, reach))


def _history(folder: Path) -> Iterator[dict[str, Any]]:
    sizes = (10_000, _SMALL, 100_000, _LARGE, *((10_000_000,) if os.environ.get(BIG) else ()))
    stats: list[tuple[float, float]] = []
    month: list[tuple[float, float]] = []
    newest: list[tuple[float, float]] = []
    closings: list[tuple[float, float]] = []
    project, state = projects.with_packs(folder / "history", 1, 1), folder / "state"
    have = 0
    for size in sizes:
        note(f"  a history of {size:,} calls ...")
        with open_toolbox(project, env={**os.environ, "ONETOOL_STATE": str(state)}) as box:
            _fill(box.log, size - have)
            have = size
            stats.append((size, _best(lambda box=box: box.call("ot.stats", {}).unwrap(), _ROUNDS)))
            month.append(
                (
                    size,
                    _best(
                        lambda box=box: box.call("ot.stats", {"period": "month"}).unwrap(), _ROUNDS
                    ),
                )
            )
            newest.append(
                (size, _best(lambda box=box: box.call("ot.history", {}).unwrap(), _ROUNDS))
            )
            more = once(
                "",
                box.log.tidy,
                before=lambda box=box: record_calls(str(box.log.folder), 1500, days=0.02),
            )
            closings.append((size, min(more.time(1) for _ in range(_ROUNDS))))
        if size == _SMALL:
            spent = stats[-1][1]
            yield line(23, f"ot.stats() at {size:,} calls", spent, **at_most(spent, 0.040))
        if size == _LARGE:
            spent = take_turns({"ours": fresh(_FIRST_STATS, str(project), str(state))}, 5)["ours"]
            yield line(
                23,
                "first ot.stats() of a process, 1 M calls",
                spent,
                note=_WHY_STATS,
                **at_most(spent, 0.600, 0.300),
            )
            said, spent = "`ot.stats()` over a million calls", stats[-1][1]
            yield line(
                23, "ot.stats() after it", spent, headline=said, **at_most(spent, 0.300, 0.150)
            )
            yield line(
                23,
                "ot.stats('month') after it",
                month[-1][1],
                **at_most(month[-1][1], 0.080, 0.040),
            )
    title = "The call log"
    yield _grown("history", title, "calls in the history", "ot.stats()", stats)
    yield _grown("history", title, "calls in the history", "ot.stats('month')", month)
    yield _grown("history", title, "calls in the history", "ot.history()", newest)
    yield _grown("history", title, "calls in the history", "closing 1,500 calls", closings)


def _fill(log: CallLog, size: int) -> None:
    """Calls over sixty days, recorded one by one by two processes, and closed."""
    code = (
        "import sys; from tests.benchmarks import growth; growth.record_calls(sys.argv[1],"
        " int(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(log.folder), str(size // 2)]
    for writer in [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]:
        assert writer.wait() == 0
    log.tidy()


def record_calls(folder: str, size: int, days: float = 60) -> None:
    """Record so many calls of forty tools over the last days."""
    moment = [datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)]
    pause = datetime.timedelta(days=days) / size
    log = CallLog(Path(folder), clock=lambda: moment[0])
    for number in range(size):
        moment[0] += pause
        failed = {"code": "execution_error", "reason": "timeout"} if number % 37 == 0 else {}
        args = {"query": f"coffee {number % 5000}"}
        name = f"pack{number % 8}.tool{number % 40}"
        log.record(
            f"{os.getpid():x}-{number:x}",
            name,
            "python",
            args,
            ok=not failed,
            ms=number % 97 + 0.5,
            size=9,
            **failed,
        )
    log.close()


def _results(folder: Path) -> Iterator[dict[str, Any]]:
    sizes = (1, 10, 100, *((1000,) if os.environ.get(BIG) else ()))
    store: list[tuple[float, float]] = []
    page: list[tuple[float, float]] = []
    search: list[tuple[float, float]] = []
    results = Results(folder / "results", max_bytes=1 << 40)
    row = (
        "0000001 2026-11-15T02:00:00 alpha beta gamma id=00ff00ff00ff00ff value=000001 and some"
        " more of it, as it is\n"
    )
    for megabytes in sizes:
        note(f"  a result of {megabytes} MB ...")
        text = row * (megabytes * 1_000_000 // len(row))
        store.append(
            (
                megabytes * 1e6,
                _best(
                    lambda text=text: results.delete(results.put(text)), 1 if megabytes > 100 else 3
                ),
            )
        )
        handle = results.put(text)
        middle = len(text) // len(row) // 2
        del text
        page.append(
            (
                megabytes * 1e6,
                _best(lambda h=handle, m=middle: results.query(h, offset=m, limit=100), 20),
            )
        )
        search.append(
            (megabytes * 1e6, _best(lambda h=handle: results.query(h, search="id=ffff"), 3))
        )
        results.delete(handle)
    yield _grown("results", "A stored result", "bytes", "store it", store)
    yield _grown("results", "A stored result", "bytes", "100 lines from its middle", page)
    yield _grown("results", "A stored result", "bytes", "a pattern that matches nothing", search)


def _map(folder: Path) -> Iterator[dict[str, Any]]:
    sizes = (1_000, 10_000, 100_000)
    points: list[tuple[float, float]] = []
    with open_toolbox(env={**os.environ, "ONETOOL_STATE": str(folder / "map")}) as box:
        box.adopt(add)
        for size in sizes:
            note(f"  a map of {size:,} rows ...")
            rows = [{"a": number, "b": size} for number in range(size)]
            call = {"tool": "nb.add", "data": rows, "fresh": True}
            points.append((size, _best(lambda call=call: box.call("ot.map", call).unwrap(), 1)))
    yield _grown("map", "ot.map over a tool that does nothing", "rows", "ot.map", points)


def _packs(folder: Path) -> Iterator[dict[str, Any]]:
    note("  1,000 pack files ...")
    project = projects.with_packs(folder / "packs", 1000, 2)
    sample = fresh(_FIRST_LIST, str(project), str(folder / "packs-state"))
    sample()  # fills the cache
    spent = take_turns({"ours": sample}, 5)["ours"]
    what = "open a project with 1,000 pack files and list them, warm"
    yield line(25, what, spent, note=_WHY_PACKS, **at_most(spent, 0.250, 0.080))


def _best(work: Callable[[], object], runs: int) -> float:
    contender = once("", work)
    return min(contender.time(1) for _ in range(runs))


def _grown(
    name: str, title: str, axis: str, series: str, points: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    grows = exponent(points)
    what = f"{series}, {points[0][0]:,.0f} to {points[-1][0]:,.0f} {axis}: grows as n^{grows:.2f}"
    plot = {"name": name, "title": title, "axis": axis, "series": series, "points": list(points)}
    target = at_most(grows, _LINEAR, show=lambda value: f"n^{value:g}")
    return line(
        37, what, points[-1][1], f"{say(points[0][1])} at the smallest size", plot=plot, **target
    )
