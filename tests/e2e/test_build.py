"""The committed panel and screens are what their sources give: rebuild them elsewhere and compare
byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.surroundings import OUTSIDE, ROOT

WORKSHOP = ROOT / "labextension"
BUILT = ROOT / "onetool_ipy" / "labextension"
UI = ROOT / "onetool_ipy" / "ui"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_committed_panel_and_screens_are_what_their_sources_build(tmp_path: Path) -> None:
    modules = WORKSHOP / "node_modules"
    assert modules.is_dir(), "`make test` fetches node_modules; or run `npm ci` in labextension/"
    copy = tmp_path / "labextension"
    shutil.copytree(WORKSHOP, copy, ignore=shutil.ignore_patterns("node_modules", "lib"))
    (tmp_path / "onetool_ipy" / "ui").mkdir(parents=True)
    shutil.copy(UI / "style.css", tmp_path / "onetool_ipy" / "ui")
    # Links, not copies, of 450 MB; a symbolic link would change how modules are found.
    shutil.copytree(modules, copy / "node_modules", symlinks=True, copy_function=_link_or_copy)

    scripts = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["npm", "run", "build"],
        cwd=copy,
        env={**OUTSIDE, "PATH": f"{scripts}{os.pathsep}{OUTSIDE['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert _contents(tmp_path / "onetool_ipy" / "labextension") == _contents(BUILT), (
        "make build-lab"
    )
    assert (tmp_path / "onetool_ipy" / "ui" / "screens.js").read_bytes() == (
        UI / "screens.js"
    ).read_bytes()


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
