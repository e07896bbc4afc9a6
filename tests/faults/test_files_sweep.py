"""A sweep removes what dead writers left, and never what a living one is writing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.files import write_whole

SWEEP = """
import os, sys
from pathlib import Path
from onetool_ipy.base.files import remove_stale_temp_files
parent = os.getppid()
print("sweeping", flush=True)
while os.getppid() == parent:  # who ends at its limit leaves none behind
    remove_stale_temp_files(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("count", "sweeps"), [(200, 4), pytest.param(20_000, 12, marks=pytest.mark.soak)]
)
def test_a_sweep_never_takes_a_living_writers_file(
    tmp_path: Path, count: int, sweeps: int, record_property: Any
) -> None:
    """Many sweeps at once lock a new file now and then before its writer can: it then writes under
    another name."""
    command = [sys.executable, "-c", SWEEP, str(tmp_path)]
    sweepers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(sweeps)]
    try:
        for sweeper in sweepers:
            assert sweeper.stdout is not None
            assert sweeper.stdout.readline() == "sweeping\n"
        for number in range(count):
            write_whole(tmp_path / f"file{number % 40}", b"whole")
    finally:
        for sweeper in sweepers:
            sweeper.kill()
            sweeper.communicate()
    record_property("figures", f"{count} writes beside {sweeps} sweepers, none taken")
    assert {path.read_bytes() for path in tmp_path.glob("file*")} == {b"whole"}
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("file")] == []
