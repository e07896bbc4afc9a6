"""`ot.map` and `batch_execute` on other people's executors: processes, loky, and Dask's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["processes", "loky", "dask"])
def test_a_column_and_a_batch_run_on_the_executor(engine: str, tmp_path: Path) -> None:
    """Row 7 is refused by the tool; the others go well. The batch keeps its order."""
    command = [
        sys.executable,
        "-m",
        "tests.packs.ot.engine_actor",
        engine,
        str(tmp_path / "project"),
    ]
    env = {**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ended = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "ok": [True, True, False, True],
        "lat": [1, 2],
        "text": "=== three ===\n9\n\n=== four ===\n16",
    }
