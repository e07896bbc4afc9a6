"""Long runs of `ot.map`: stopped, killed, resumed, on processes and on a Dask cluster. Each row
that went well once."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.result import ToolCallError
from tests.harness.cluster import cluster
from tests.harness.kernel import Kernel
from tests.harness.patience import until
from tests.packs.ot import map_actor

ROWS = 10_000
HANG_S = 120


@pytest.fixture
def root(tmp_path: Path) -> Path:
    map_actor.write_project(tmp_path)
    return tmp_path


@pytest.fixture
def box(root: Path) -> Iterator[Toolbox]:
    with open_toolbox(root, env={**os.environ, "ONETOOL_STATE": str(root / "state")}) as opened:
        yield opened


def run(root: Path, rows: int, strike: str = "") -> dict[str, Any]:
    """Run in a process of its own, which sends itself a signal at a row: `ROW,SIGNAL`; return what
    it says."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.packs.ot.map_actor", str(root), str(rows)],
        stdout=subprocess.PIPE,
        env={**os.environ, "ONETOOL_STATE": str(root / "state"), "STRIKE": strike},
        timeout=HANG_S,
        check=False,
    )
    return json.loads(ended.stdout) if ended.stdout else {}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, pytest.param(ROWS, marks=pytest.mark.soak)])
def test_interrupted_twice_and_resumed_each_row_that_went_well_is_called_once(
    root: Path, count: int
) -> None:
    """One row in a hundred fails; Stop twice, each time in another process; then to the end."""
    for row in (count // 5, count * 3 // 5):
        stopped = run(root, count, f"{row},{signal.SIGINT:d}")
        assert "rows are done and kept; run it again to go on" in stopped["stopped"]
    before = len(map_actor.called(root))

    last = run(root, count)

    assert count // 2 < before < count
    assert Counter(map_actor.called(root)).most_common(1)[0][1] == 1
    assert len(map_actor.called(root)) == last["ok"] == count * 99 // 100
    assert last["failed"] == count // 100
    assert last["resumed"] == before
    assert last["lat"] == sum(i for i in range(count) if i % 100 != 7)


@pytest.mark.slow
def test_killed_in_the_middle_at_most_the_rows_under_way_are_called_again(root: Path) -> None:
    assert run(root, 1000, f"400,{signal.SIGKILL:d}") == {}
    before = len(map_actor.called(root))

    last = run(root, 1000)

    counts = Counter(map_actor.called(root))
    assert before > 300
    assert len(counts) == last["ok"] == 990
    assert before - last["resumed"] <= 8
    assert sum(count - 1 for count in counts.values()) <= 8


def test_failed_rows_are_tried_again_and_only_they(box: Toolbox, root: Path) -> None:
    rows = [str(i) for i in range(20)]
    box.ot.map("geo.code", rows)
    again = box.ot.map("geo.code", rows)

    assert again.attrs["onetool"]["called"] == 1
    assert (root / "failed").read_text(encoding="utf-8").split() == ["7", "7"]
    assert len(map_actor.called(root)) == 19


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster() as opened:
        yield opened


@pytest.mark.slow
def test_on_dask_a_killed_worker_costs_no_second_call(
    box: Toolbox, root: Path, client: Any
) -> None:
    """kill -9 of a worker in the midst of its row: that row is called again by another, no row that
    went well is."""
    rows = [str(i) for i in range(200)]

    frame = box.ot.map("geo.die_once", rows, engine=client, workers=16)

    assert (root / "died").exists()
    assert frame["ok"].all()
    assert frame["die_once"].tolist() == [row * 2 for row in rows]
    assert sorted(map_actor.called(root), key=int) == rows
    assert box.ot.map("geo.die_once", rows).attrs["onetool"]["called"] == 0


@pytest.mark.slow
def test_on_dask_calls_are_logged_and_run_in_both_workers(box: Toolbox, client: Any) -> None:
    client.wait_for_workers(2, timeout=HANG_S)  # the one that was killed comes back

    frame = box.ot.map("geo.pid", [str(i) for i in range(24)], engine=client)

    assert frame["pid"].nunique() == 2
    assert os.getpid() not in set(frame["pid"])
    assert box.log.count_of("geo.pid")[0] == 24


@pytest.mark.slow
def test_a_tool_of_a_cell_travels_to_dask(box: Toolbox, client: Any) -> None:
    factor = 5

    def times(value: int) -> int:
        if value == 3:
            raise ValueError("three is refused")
        return value * factor

    box.adopt(times)
    frame = box.ot.map("nb.times", [1, 2, 3], engine=client)

    assert frame["times"].tolist()[:2] == [5, 10]
    assert frame["error"].tolist()[2] == "ValueError: three is refused"


@pytest.mark.soak
def test_many_rows_on_dask_with_a_worker_killed(box: Toolbox, root: Path, client: Any) -> None:
    rows = [str(i) for i in range(ROWS)]
    frame = box.ot.map("geo.die_once", rows, engine=client, workers=32)
    assert frame["ok"].all()
    assert sorted(map_actor.called(root), key=int) == rows


@pytest.mark.slow
def test_processes_of_an_executor(box: Toolbox, root: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        frame = box.ot.map("geo.code", pd.Series(["1", "7", "3"], index=list("abc")), engine=pool)
        box.adopt(_holding(pool))
        with pytest.raises(ToolCallError, match="cannot be sent"):
            box.ot.map("nb.held", [1], engine=pool)

    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame["ok"].tolist() == [True, False, True]
    assert frame["lat"].tolist()[::2] == [1, 3]
    assert sorted(map_actor.called(root)) == ["1", "3"]


def test_threads_of_an_executor(box: Toolbox, root: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        frame = box.ot.map("geo.code", ["1", "2"], engine=pool)
    assert frame["name"].tolist() == ["place 1", "place 2"]
    assert box.ot.map("geo.code", ["1", "2"]).attrs["onetool"]["called"] == 0


def _holding(thing: Any) -> Any:
    def held(value: int) -> int:
        """Hold what cannot travel."""
        return value if thing else 0

    return held


@pytest.mark.slow
def test_stop_in_a_notebook_says_what_is_kept_and_the_cell_goes_on_after_a_restart(
    fresh_kernel: Any, root: Path
) -> None:
    """A real kernel: interrupted, restarted, run again; nothing that went well is called twice."""
    cell = """
        import time
        from onetool_ipy import tool
        @tool
        def slow(n: int) -> int:
            "Take its time."
            time.sleep(0.02)
            open("slow", "a").write(f"{n}\\n")
            return n
        print("begun", flush=True)
        frame = ot.map("nb.slow", range(200), workers=4)
    """
    kernel = fresh_kernel(cwd=root)
    load = f"import os; os.chdir({str(root)!r})\n%load_ext onetool_ipy"
    kernel.execute(load)
    running = kernel.start_execute(textwrap.dedent(cell))
    assert until(lambda: len(_lines(root / "slow")) > 40)
    kernel.interrupt()
    stopped = running.wait(allow_errors=True)
    assert re.search(
        r"KeyboardInterrupt: 'ot.map' was stopped after .* of 200 rows are done and kept",
        stopped.text,
    )
    kernel.restart()
    kernel.execute(load)
    kernel.execute(textwrap.dedent(cell))

    assert sorted(_lines(root / "slow"), key=int) == [str(n) for n in range(200)]
    assert int(kernel.evaluate("frame.attrs['onetool']['resumed']")) > 40


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split() if file.exists() else []


@pytest.mark.slow
def test_the_cell_says_how_it_went_how_to_see_what_failed_and_what_was_kept(kernel: Kernel) -> None:
    kernel.execute(
        "%load_ext onetool_ipy\nfrom onetool_ipy import tool\nbad = {'a': 'no such street', 'b':"
        " 'odd'}"
    )
    kernel.execute(
        "@tool\ndef code(n: int) -> int:\n    'Code it.'\n    if n % 50 == 7: raise ValueError('no"
        " such street')\n    if n == 99: raise KeyError('odd')\n    return n"
    )
    first = kernel.execute("m = ot.map('nb.code', range(500), retries=0)", timeout=HANG_S)
    again = kernel.execute("m = ot.map('nb.code', range(500), retries=0)", timeout=HANG_S)
    mixed = kernel.execute("m = ot.map('nb.code', [7, 99], retries=0)", timeout=HANG_S)
    failed = kernel.evaluate("m[~m.ok].n.tolist()")
    nameless = kernel.execute("len(ot.map('nb.code', [7, 99], retries=0))", timeout=HANG_S)
    good = kernel.execute("m = ot.map('nb.code', [1, 2], retries=0, fresh=True)", timeout=HANG_S)

    assert "0 ok, 2 failed (m[~m.ok]) · first for n=7: ValueError: no such street" in mixed.text
    assert failed == "[7, 99]"
    assert "0 ok, 2 failed (rows where .ok is False) · first for n=7" in nameless.text
    told = "489 ok, 11 failed (m[~m.ok]) · 10 times, first for n=7: ValueError: no such street"
    assert f"ot.map nb.code: {told}" in first.text
    assert re.search(
        rf"ot.map nb.code: 489 kept from \d\d:\d\d:\d\d, 11 called · {re.escape(told)}", again.text
    )
    assert "ot.map nb.code: 2 ok" in good.text
    assert kernel.evaluate("len(m[~m.ok])") == "0"
    quiet = kernel.execute("from onetool_ipy.sdk import call_tool\nx = len(ot.map('nb.code', [1]))")
    assert "1 kept from" in quiet.text
