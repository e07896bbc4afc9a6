"""Row 8: `%load_ext onetool_ipy` in a started shell. CPU time, each time in a fresh process, with
bytecode present.

Beside it stand the floor, an extension that does nothing, and jupysql. Also says which heavy
modules came along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import projects
from tests.benchmarks.peers import fresh_shell
from tests.benchmarks.peers.workers import PeerMissing, python_with
from tests.benchmarks.timing import Rounds, at_most, line, note, take_turns
from tests.harness import surroundings

__all__ = ["ROWS", "run"]

ROWS = (8,)

_ROUNDS = 7
_HEAVY = frozenset(("pandas", "httpx", "pydantic", "ipywidgets", "jinja2", "mcp"))
_FLOOR, _JUPYSQL = "empty extension", "jupysql"
_BARE = "no config"
_OURS = {
    _BARE: (0.015, 0.010),
    "no config, in a kernel": (0.015, 0.010),
    "100 tools, warm cache": (0.060, 0.040),
    "1,000 tools, warm cache": (0.080, 0.050),
}
"""What is measured of ours, and the CPU seconds of reach and moonshot. In a terminal's shell but
for the second."""
_TOOLS = {"100 tools, warm cache": 100, "1,000 tools, warm cache": 1000}


@dataclass(slots=True)
class _Shell:
    """A fresh shell to be started over and over in the same surroundings."""

    folder: Path
    extension: str = "onetool_ipy"
    python: str = sys.executable
    kind: str = "terminal"
    loaded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def load(self) -> float:
        """CPU seconds of one `%load_ext`."""
        env = {
            **os.environ,
            **surroundings.private(self.folder.parent / "home"),
            "PYTHONPATH": str(_extensions(self)),
        }
        command = [self.python, "-P", fresh_shell.__file__, self.extension, self.kind]
        done = subprocess.run(
            command, cwd=self.folder, env=env, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"%load_ext {self.extension} failed:\n{done.stdout}{done.stderr}")
        found = json.loads(done.stdout.splitlines()[-1])
        self.loaded |= set(found["loaded"])
        return float(found["cpu_s"])


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        shells, missing = _shells(Path(folder))
        note("  compiling and filling caches ...")
        for shell in shells.values():
            shell.load()
        note(f"  {_ROUNDS} rounds of {len(shells)} fresh processes ...")
        found = take_turns({name: shell.load for name, shell in shells.items()}, _ROUNDS)
        return list(_lines(found, shells, missing))


def _shells(folder: Path) -> tuple[dict[str, _Shell], str]:
    shells = {_FLOOR: _Shell(folder / "floor" / "work", "bench_empty_extension")}
    for name in _OURS:
        place = folder / f"ours{len(shells)}" / "work"
        count = _TOOLS.get(name)
        kind = "kernel" if "kernel" in name else "terminal"
        shells[name] = _Shell(
            projects.with_definitions(place, count) if count else place, kind=kind
        )
    try:
        python = python_with("sql", "jupysql", "ipython")
    except PeerMissing as exc:
        return shells, str(exc)
    shells[_JUPYSQL] = _Shell(folder / "sql" / "work", "sql", python)
    return shells, ""


def _extensions(shell: _Shell) -> Path:
    """A folder with the empty extension in it, on the path of every shell alike."""
    folder = shell.folder.parent / "extensions"
    if not folder.exists():
        folder.mkdir()
        text = '"""Does nothing."""\n\n\ndef load_ipython_extension(shell):\n    pass\n'
        (folder / "bench_empty_extension.py").write_text(text, encoding="utf-8")
    return folder


def _lines(found: Rounds, shells: dict[str, _Shell], missing: str) -> Iterator[dict[str, Any]]:
    for name, limit_s in _OURS.items():
        what = f"%load_ext, {name} (CPU)"
        headline = "`%load_ext onetool_ipy` in a kernel, CPU" if "kernel" in name else ""
        ours, floor = found[name], found[_FLOOR]
        yield line(8, what, ours, floor, name=_FLOOR, headline=headline, **at_most(ours, *limit_s))
    ours = found[_BARE]
    if missing:
        text = f"No peer '{_JUPYSQL}': {missing}"
        yield line(8, "%load_ext, no config (CPU)", ours, "not there", name=_JUPYSQL, note=text)
    else:
        ratio = found.ratio(_JUPYSQL, _BARE)
        yield line(
            8,
            "%load_ext, no config (CPU)",
            ours,
            found[_JUPYSQL],
            name=f"{_JUPYSQL}, %load_ext sql",
            ratio=ratio,
        )
    heavy = _HEAVY & {module for name in _OURS for module in shells[name].loaded}
    theirs = (
        f"{_JUPYSQL}: {', '.join(sorted(_HEAVY & shells[_JUPYSQL].loaded)) or 'none'}"
        if not missing
        else ""
    )
    yield line(
        8,
        "heavy modules loaded",
        ", ".join(sorted(heavy)) or "none",
        theirs,
        reach="none",
        met=not heavy,
    )
