"""A kernel interrupt at any moment: stores whole, locks free, control back. `make soak` does
thousands."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.results import Results
from tests.faults.actors import ROOT
from tests.harness.patience import HANG_S
from tests.harness.programs import actor

TIMES = 25


def run(name: str, folder: Path, count: int) -> dict[str, int]:
    report = actor("tests.faults.interrupted", name, folder, count)
    assert report.pop("landed") == count
    return report


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(40 * TIMES, marks=pytest.mark.soak)])
def test_interrupted_put_leaves_the_store_whole(
    tmp_path: Path, count: int, record_property: Any
) -> None:
    record_property("figures", f"{count} interrupts landed, none did harm")
    assert run("put", tmp_path, count) == {"half": 0, "left": 0}


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(40 * TIMES, marks=pytest.mark.soak)])
def test_interrupted_query_leaves_nothing_open(
    tmp_path: Path, count: int, record_property: Any
) -> None:
    record_property("figures", f"{count} interrupts landed, none did harm")
    assert run("query", tmp_path, count) == {"open": 0}


@pytest.mark.parametrize("count", [60, pytest.param(60 * TIMES, marks=pytest.mark.soak)])
def test_interrupted_whole_write_is_old_or_new(
    tmp_path: Path, count: int, record_property: Any
) -> None:
    record_property("figures", f"{count} interrupts landed, none did harm")
    assert run("whole", tmp_path, count) == {"half": 0, "left": 0}


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(200 * TIMES, marks=pytest.mark.soak)])
def test_interrupted_lock_is_free(tmp_path: Path, count: int, record_property: Any) -> None:
    record_property("figures", f"{count} interrupts landed, none did harm")
    assert run("lock", tmp_path, count) == {"held": 0}


@pytest.mark.linux("/proc")
@pytest.mark.slow
def test_ctrl_c_ends_the_slowest_search(tmp_path: Path) -> None:
    """A pattern that keeps RE2 busy for every character, over a line that would take minutes."""
    handle = Results(tmp_path).put("".join(random.Random(2).choices("ab", k=1_000_000)) * 40)
    code = (
        "import sys, time; from pathlib import Path; from onetool_ipy.stores.results import"
        " Results\nresults = Results(Path(sys.argv[1]))\ntry: print('ready', time.process_time(),"
        " flush=True); results.query(sys.argv[2], search='[ab]*a[ab]{500}c')\nexcept"
        " KeyboardInterrupt: print('interrupted', time.process_time())"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), handle],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    word, used = child.stdout.readline().split()
    assert word == "ready"
    deep_s = float(used) + 0.1
    while child.poll() is None and _processor_s(child.pid) < deep_s:
        time.sleep(0.01)  # there is nothing to wait on
    before_s = _processor_s(child.pid)
    os.kill(child.pid, signal.SIGINT)
    left, _ = child.communicate(timeout=HANG_S)

    word, used = left.split()
    assert word == "interrupted"
    assert float(used) - before_s < 10, "the whole search takes minutes of the processor"


def _processor_s(pid: int) -> float:
    """What a process has used of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
