"""The state folder: the user's own, closed to others, and where `state_dir:` says."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.config.paths import home_at, state_base
from tests.harness.systems import has_mode

WORK = "version: 1\n"


@pytest.fixture(autouse=True)
def usual_mask() -> Any:
    """The mask that most systems have, with which a folder is open to all who may look."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def work(tmp_path: Path, config: str = WORK, **env: str) -> Path:
    """Do what leaves state behind, in a project; gives the state folder in force."""
    home = tmp_path / "home"
    project = tmp_path / "project"
    (project / ".onetool" / "tools").mkdir(parents=True, exist_ok=True)
    home.mkdir(exist_ok=True)
    (project / ".onetool" / "onetool.yaml").write_text(config, encoding="utf-8")
    text = (
        '"""P."""\npack = "p"\n__all__ = ["f"]\n\ndef f(n: int) -> str:\n    """F."""\n    return'
        ' "line\\n" * n\n'
    )
    (project / ".onetool" / "tools" / "p.py").write_text(text, encoding="utf-8")
    with open_toolbox(project, env={**home_at(home), **env}) as box:
        result = box.call("p.f", {"n": 50_000})
        assert result.ok, result.error
        result.store()
        box.log.close()
        box.log.tidy()
        assert box.log.usage().total_calls > 0
        return box.config.paths.state


def open_to_others(top: Path) -> list[str]:
    """What others may look into or read, below a folder and the folder itself."""
    found = [top, *top.rglob("*")]
    return [
        f"{path.relative_to(top.parent)} {stat.S_IMODE(path.lstat().st_mode):o}"
        for path in found
        if os.name != "nt" and path.lstat().st_mode & 0o077
    ]


def test_everything_in_the_state_directory_is_for_the_user_alone(tmp_path: Path) -> None:
    state = work(tmp_path)

    home = tmp_path / "home"
    assert state.parent == state_base(home_at(home), home)
    assert {path.name for path in state.iterdir()} >= {"calls", "results"}
    assert open_to_others(state.parent) == []


@pytest.mark.parametrize("way", ["environment", "state_dir"])
def test_a_folder_that_the_user_named_keeps_its_mode_and_ours_in_it_are_closed(
    tmp_path: Path, way: str
) -> None:
    named = tmp_path / "shared"
    named.mkdir(mode=0o755)
    if way == "environment":
        work(tmp_path, ONETOOL_STATE=str(named))
    else:
        work(tmp_path, f"state_dir: {named}\n")
    assert has_mode(named, 0o755)
    assert [line for line in open_to_others(named) if not line.startswith("shared 755")] == []


@pytest.mark.skipif(
    getattr(os, "geteuid", lambda: -1)() != 0, reason="only root can give a folder to somebody else"
)
@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_state_folder_that_somebody_else_owns_is_refused(tmp_path: Path, kind: str) -> None:
    """Whoever owns it could read every argument, and say yes to tools in the user's name."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    state = work(tmp_path, ONETOOL_STATE=str(shared))
    theirs = state.with_name("theirs")
    state.rename(theirs)
    os.chown(theirs, 4321, 4321)
    if kind == "folder":
        theirs.rename(state)
    else:
        state.symlink_to(theirs)
    before = sorted(path.name for path in (theirs if kind == "link" else state).rglob("*"))

    used = work(tmp_path, ONETOOL_STATE=str(shared))

    assert used.parent == tmp_path / "home" / ".local" / "state" / "onetool_ipy"
    assert sorted(path.name for path in (theirs if kind == "link" else state).rglob("*")) == before
    with open_toolbox(
        tmp_path / "project", env={**home_at(tmp_path / "home"), "ONETOOL_STATE": str(shared)}
    ) as box:
        assert "another user owns it" in str(box.problems())


def test_everything_follows_state_dir(tmp_path: Path) -> None:
    """Also with a file that is large enough to be kept as it was parsed."""
    kept = tmp_path / "kept"
    config = f"state_dir: {kept}\n# {'x' * 100_000}\n"

    assert work(tmp_path, config) == kept / "v2"

    assert list((tmp_path / "home").rglob("*")) == []
    assert {"calls", "results"} <= {path.name for path in (kept / "v2").iterdir()}


@pytest.mark.parametrize("way", ["default", "state_dir"])
def test_state_of_an_earlier_version_is_left_alone_and_named_once(tmp_path: Path, way: str) -> None:
    """Nobody reads it, and nobody deletes it. The line is gone once there is state of this
    version."""
    kept = tmp_path / "kept"
    config = f"state_dir: {kept}\n" if way == "state_dir" else WORK
    state = work(tmp_path, config)
    earlier = (
        kept / "calls" if way == "state_dir" else state.with_name(state.name.removesuffix("-v2"))
    )
    shutil.rmtree(state)
    earlier.mkdir()
    (earlier / "calls.db").write_bytes(b"as it was")
    env = {**home_at(tmp_path / "home")}

    with open_toolbox(tmp_path / "project", env=env) as box:
        named = [problem for problem in box.config.problems if problem.where == str(earlier)]
    work(tmp_path, config)
    with open_toolbox(tmp_path / "project", env=env) as box:
        assert [problem for problem in box.config.problems if problem.where == str(earlier)] == []

    assert [problem.message for problem in named] == [
        "an earlier version kept its call log and results here; they are not read."
    ]
    assert (earlier / "calls.db").read_bytes() == b"as it was"
