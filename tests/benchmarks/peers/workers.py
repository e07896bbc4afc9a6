"""Our side of a peer: find or make its environment, start its worker, ask it for times.

A peer that is importable here runs in this Python; any other gets an environment of its own below
`build/bench/`, installed by name with pip and kept for the next run. What cannot be had is a
PeerMissing with its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.timing import Contender, note
from tests.harness.surroundings import OUTSIDE, ROOT

__all__ = ["PeerMissing", "Worker", "python_with"]

_INSTALL_TIMEOUT_S = 900
_ENVIRONMENTS = ROOT / "build" / "bench"


class PeerMissing(Exception):
    """A peer that cannot be run here; the message says why."""


def python_with(module: str, *distributions: str) -> str:
    """A Python that can import the module: this one, else one of an environment made for it."""
    if _has(sys.executable, module):
        return sys.executable
    folder = _ENVIRONMENTS / f"{module}-{sys.version_info.major}.{sys.version_info.minor}"
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    if not (Path(python).exists() and _has(python, module)):
        note(f"  installing {', '.join(distributions)} into an environment of its own ...")
        _do([sys.executable, "-m", "venv", "--clear", str(folder)], module)
        _do([python, "-m", "pip", "install", "--quiet", *distributions], module)
    if not _has(python, module):
        raise PeerMissing(f"{module}: installed, but cannot be imported")
    return python


class Worker:
    """A peer's process. `contender` takes its turn in a race; `close` ends the process."""

    def __init__(self, program: str, python: str) -> None:
        """Start `peers/<program>.py` and wait until it is ready."""
        self._program = program
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - close() does
        self._process = subprocess.Popen(
            [python, "-m", f"tests.benchmarks.peers.{program}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        self.version = str(self._read()["ready"])

    def contender(self, name: str) -> Contender:
        return Contender(name, self._time)

    def close(self) -> None:
        """May be called twice."""
        if self._process.poll() is None:
            self._process.kill()
        if not self._errors.closed:
            self._process.communicate()
            self._errors.close()

    def _time(self, count: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"n": count}) + "\n")
        self._process.stdin.flush()
        return float(self._read()["seconds"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return dict(json.loads(line))
        self._process.wait()
        self._errors.seek(0)
        reason = _last_line(self._errors.read())
        self.close()
        raise PeerMissing(f"{self._program} ended: {reason}")


def _has(python: str, module: str) -> bool:
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return (
        subprocess.run(
            [python, "-c", look], cwd=ROOT.anchor, check=False, capture_output=True
        ).returncode
        == 0
    )


def _do(command: list[str], module: str) -> None:
    """Run with the developer's own environment: that is where pip is told what it needs."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=_INSTALL_TIMEOUT_S,
            env=OUTSIDE,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PeerMissing(f"{module}: {type(exc).__name__}") from exc
    if done.returncode:
        raise PeerMissing(f"{module} could not be installed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    """The line that says what went wrong, without a long tail."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no reason given"])[-1][:160]
