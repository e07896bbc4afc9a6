"""Promise 4: an interrupt at any moment of any call or write leaves stores whole, locks free and a
usable toolbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.surroundings import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [20, pytest.param(1_000, marks=pytest.mark.soak)])
def test_interrupts_at_chance_moments_leave_everything_whole(
    tmp_path: Path, count: int, record_property: Any
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.calling", str(tmp_path), str(count)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    wrong, worst_ms = report.pop("wrong"), report.pop("worst_ms")
    landed = sum(kind["landed"] for kind in report.values())
    record_property(
        "figures",
        f"{landed} interrupts in {len(report)} kinds of calls, {len(wrong)} did harm, slowest"
        f" {worst_ms:.0f} ms",
    )

    assert wrong == []
    assert all(kind["landed"] >= count / 2 for kind in report.values()), report
