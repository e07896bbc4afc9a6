"""Promise 4: an interrupt at any moment of any call or write leaves stores whole, locks free and a usable toolbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT


@pytest.mark.parametrize("count", [30, pytest.param(1_000, marks=pytest.mark.soak)])
def test_interrupts_at_chance_moments_leave_everything_whole(tmp_path: Path, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.calling", str(tmp_path), str(count)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    sys.stdout.write(json.dumps(report, indent=1))  # the figures: pytest -s

    assert report.pop("wrong") == []
    del report["worst_ms"]  # a figure, since machines are shared: the promise is a second
    assert all(kind["landed"] >= count / 2 for kind in report.values()), report
