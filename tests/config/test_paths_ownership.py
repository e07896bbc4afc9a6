"""Files of `.onetool/` that another user may have written are problems, and nothing in them
counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onetool_ipy import InvalidConfig, open_toolbox
from onetool_ipy.config.load import Config, load_config
from onetool_ipy.config.paths import home_at

FILES = {
    "onetool.yaml": "timeouts: {local_s: 3}\n",
    "snippets.yaml": "hello: {body: 'print(1)'}\n",
    "prompts.yaml": "packs: {geo: Be brief.}\n",
    "secrets.yaml": "TOKEN: abcdef123\n",
}
COUNTS = {
    "onetool.yaml": lambda config: config.settings.timeouts.local_s == 3,
    "snippets.yaml": lambda config: "hello" in config.settings.snippets,
    "prompts.yaml": lambda config: "geo" in config.prompts,
    "secrets.yaml": lambda config: config.secrets.get("TOKEN") == "abcdef123",
}
needs_root = pytest.mark.skipif(
    getattr(os, "geteuid", lambda: -1)() != 0, reason="only root can give a file away"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "work" / ".onetool"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o600)
    return folder


def _load(folder: Path, *, named: bool = False) -> Config:
    home = folder.parent.parent
    env = {**home_at(home), "ONETOOL_STATE": str(home / "state"), "ONETOOL_TRUST": str(home)}
    return load_config(
        folder / "onetool.yaml" if named else None, env=env, cwd=folder.parent, home=home
    )


def _counted(config: Config) -> list[str]:
    return [name for name, counts in COUNTS.items() if counts(config)]


def test_files_of_the_user_count(folder: Path) -> None:
    config = _load(folder)

    assert (_counted(config), config.problems) == (list(FILES), ())


@pytest.mark.posix("modes of files")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_all_may_write_does_not_count(folder: Path, name: str, named: bool) -> None:
    (folder / name).chmod(0o602)

    config = _load(folder, named=named)

    assert _counted(config) == [other for other in FILES if other != name]
    (problem,) = config.problems
    assert str(problem) == (
        f".onetool/{name}: may be written by every user of this machine, so it is ignored. "
        f"Look at what it holds, then run: chmod o-w .onetool/{name}"
    )
    assert bool(config.errors) == (name == "onetool.yaml")


@needs_root
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_user_does_not_count(folder: Path, name: str) -> None:
    os.chown(folder / name, 12345, -1)

    config = _load(folder)

    assert _counted(config) == [other for other in FILES if other != name]
    (problem,) = config.problems
    assert f".onetool/{name}: belongs to another user, so it is ignored." in str(problem)


@pytest.mark.posix("modes of files")
def test_a_folder_that_all_may_write_is_refused(folder: Path) -> None:
    folder.chmod(0o777)

    config = _load(folder)

    assert _counted(config) == []
    assert config.paths.onetool_dir is None
    assert "may be written by every user of this machine" in str(config.problems[0])
    folder.chmod(0o1777)
    assert _counted(_load(folder)) == list(FILES)


@pytest.mark.posix("modes of files")
def test_a_named_folder_that_all_may_write_is_refused_with_an_error(folder: Path) -> None:
    folder.chmod(0o777)

    assert _counted(_load(folder, named=True)) == []
    with pytest.raises(InvalidConfig, match="may be written by every user of this machine"):
        open_toolbox(
            folder / "onetool.yaml",
            env={**home_at(folder), "ONETOOL_STATE": str(folder / "state")},
        )


@needs_root
def test_a_folder_that_was_named_counts_with_the_files_of_its_owner(folder: Path) -> None:
    os.chown(folder, 12345, -1)
    os.chown(folder / "onetool.yaml", 12345, -1)
    os.chown(folder / "snippets.yaml", 54321, -1)

    assert _counted(_load(folder)) == []
    assert _counted(_load(folder, named=True)) == ["onetool.yaml", "prompts.yaml", "secrets.yaml"]
