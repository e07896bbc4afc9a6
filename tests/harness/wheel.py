"""The wheel as a user gets it: built from the checkout, installed into a venv outside of it.

The venv holds nothing of ours but the wheel. Its dependencies are lent from the environment the
tests run in (a path entry and links), because installing them anew takes minutes; `make soak` has
a test that does install them. What is lent never includes our own package or panel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.harness.surroundings import OUTSIDE, ROOT

__all__ = ["Installed", "build_wheel", "install"]

_BUILD_TIMEOUT_S = 300
_OURS = "onetool"
# Notebook 7 puts a button into JupyterLab and its server into JupyterLab's.
_NOT_LENT = ("@jupyter-notebook", "notebook.json")
# Folders whose entries are lent one by one; everything else is lent whole.
_OPENED = {"share", "etc", "jupyter", "labextensions"}


@dataclass(frozen=True, slots=True)
class Installed:
    """A venv with the wheel in it, and a PATH on which there is no Node."""

    prefix: Path
    wheel: Path

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.prefix / "bin" / "python"

    @property
    def path(self) -> str:
        """A PATH that has the venv's scripts and nothing else."""
        return str(self.prefix / "bin")

    def run(
        self, *command: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> str:
        """What `python COMMAND` prints, run outside the checkout without Node."""
        done = subprocess.run(
            [str(self.python), *command],
            cwd=cwd,
            env={**os.environ, "PATH": self.path, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"python {' '.join(command)} failed:\n{done.stdout}")
        return done.stdout


def build_wheel(into: Path) -> Path:
    """Build the wheel of the checkout, with the build tools that are installed."""
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(into)])
    (wheel,) = into.glob("*.whl")
    return wheel


def install(wheel: Path, prefix: Path) -> Installed:
    """Make a venv at `prefix`, install the wheel alone, then lend it its dependencies."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(prefix)])
    installed = Installed(prefix, wheel)
    pip = [sys.executable, "-m", "pip", "--python", str(installed.python)]
    _run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)])
    _lend(installed)
    return installed


def _lend(installed: Installed) -> None:
    """Lend what is installed beside us. Only after pip: it must not see our editable install."""
    (site,) = installed.prefix.glob("lib/python*/site-packages")
    lent = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (site / "lent.pth").write_text("\n".join(lent) + "\n", encoding="utf-8")
    for name in ("share", "etc"):
        _link(Path(sys.prefix) / name, installed.prefix / name)
    # The sandbox of programs is a program of its own beside the interpreter.
    _link(Path(sysconfig.get_path("scripts")) / "monty", installed.prefix / "bin" / "monty")


def _link(source: Path, target: Path) -> None:
    if _OURS in source.name or source.name in _NOT_LENT or not source.exists():
        return
    if source.name in _OPENED or source.name.endswith("_config.d"):
        target.mkdir(exist_ok=True)
        for child in sorted(source.iterdir()):
            _link(child, target / child.name)
    elif not target.exists():
        target.symlink_to(source)


def _run(command: list[str]) -> None:
    """Run a build step with the developer's own settings (pip's mirrors, npm's cache)."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={name: value for name, value in OUTSIDE.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}")
