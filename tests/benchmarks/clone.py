"""Rows 9 and 28: from `git clone` to the first result in JupyterLab, and what the installation
takes on the disk.

One run, on the wall: a fresh clone, installed as `make lab` does it, the server, a notebook in the
browser, and a cell with `%load_ext onetool_ipy` and a tool. uv's cache is the user's, as it is.
There is no peer.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.screens import require_browser
from tests.benchmarks.timing import LeftOut, at_most, line, note
from tests.harness.lab import Lab
from tests.harness.surroundings import OUTSIDE, ROOT
from tests.harness.wheel import Installed

__all__ = ["ROWS", "run"]

ROWS = (9, 28)

_REACH_S, _MOONSHOT_S = 240.0, 120.0
_REACH_MB, _MOONSHOT_MB = 450.0, 350.0
_TIMEOUT_S = 900


def run() -> list[dict[str, Any]]:
    require_browser()
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        note("  clone and install ...")
        clone = Path(place) / "clone"
        _do("git", "clone", "--quiet", str(ROOT), str(clone))
        _do(str(clone / ".ci" / "python"), str(clone / "tasks.py"), "install", "lab")
        installed_s = time.perf_counter() - began
        note("  the first result ...")
        lab = Lab(Installed(clone / ".venv", clone), Path(place))
        try:
            notebook = lab.open_notebook(
                ["%load_ext onetool_ipy\nnow = %tool time.now\nprint(now.ok)"]
            )
            said = notebook.run_cell(0)[-1]
            spent = time.perf_counter() - began
            assert said["text"].endswith("True\n"), said
        finally:
            lab.close()
        return [
            line(9, "clone to installed, on the wall", installed_s),
            line(
                9,
                "clone to first result in Lab, on the wall",
                spent,
                **at_most(spent, _REACH_S, _MOONSHOT_S),
            ),
            _size(clone / ".venv"),
        ]


def _size(environment: Path) -> dict[str, Any]:
    files = [Path(folder) / name for folder, _, names in os.walk(environment) for name in names]
    megabytes = sum(path.stat().st_size for path in files if not path.is_symlink()) / 1e6
    packages = sum(1 for path in environment.glob("lib/python*/site-packages/*.dist-info"))
    target = at_most(megabytes, _REACH_MB, _MOONSHOT_MB, show=lambda size: f"{size:g} MB")
    return line(
        28,
        "what a fresh environment takes",
        f"{megabytes:.0f} MB, {packages} distributions",
        **target,
    )


def _do(*command: str) -> None:
    """Run a command in the user's own surroundings, where pip finds its index and its cache."""
    try:
        done = subprocess.run(
            command,
            env=dict(OUTSIDE),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LeftOut(f"{' '.join(command[:2])}: {exc}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise LeftOut(f"{' '.join(command[:2])} failed: {' '.join(last)}")
