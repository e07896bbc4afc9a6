"""A run of the tests ends and says what failed, whatever happens to the process of a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import ROOT

STOPPED = """
import os, signal
def test_first(): assert 0, "seen"
def test_stopped(): os.kill(os.getpid(), signal.SIGSTOP)
"""
ORPHAN = """
import os, time
def test_first(): assert 0, "seen"
def test_ended():
    if not os.fork():
        time.sleep(20)
        os._exit(0)
    os._exit(1)
"""


@pytest.mark.slow
@pytest.mark.posix("SIGSTOP and fork")
@pytest.mark.parametrize("test", [STOPPED, ORPHAN], ids=["stopped", "child keeps the pipe"])
def test_a_worker_that_is_not_heard_of_ends_the_run_which_shows_what_failed(
    tmp_path: Path, test: str
) -> None:
    (tmp_path / "test_it.py").write_text(test, encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    run = "-p tests.harness.silence --silent-s 10 -n 1 --dist loadfile --max-worker-restart=0"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *run.split(), tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "heard of any test for 10 s. Running were:\n  test_it.py::test_" in done.stdout
    assert "AssertionError: seen" in done.stdout
    assert done.returncode != 0


@pytest.mark.posix("fork")
def test_a_forked_child_of_a_test_ends_by_itself() -> None:
    """It shares the pipe of its worker."""
    child = os.fork()
    if not child:
        os._exit(0 if signal.getitimer(signal.ITIMER_REAL)[0] > 0 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
