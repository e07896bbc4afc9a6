"""`init --pack`: the files of a new pack work as they are written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import InvalidTool, UsageProblem
from onetool_ipy.config.template import init_project, pack_template
from tests.harness.patience import HANG_S

SETTINGS = ".onetool/onetool.yaml"


def write(root: Path, name: str, settings: str = "") -> None:
    for path, text in pack_template(name, settings).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def test_a_new_pack_has_two_tools_that_work(tmp_path: Path) -> None:
    write(tmp_path, "brave")

    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        specs = box.registry.packs()["brave"]
        assert [spec.name for spec in specs] == ["brave.greet", "brave.count_words"]
        assert all(spec.example and spec.returns and spec.args for spec in specs)
        assert box.call("brave.greet", {"name": "Ada"}).unwrap() == "Hello Ada."
        assert [problem for problem in box.problems() if "brave" in str(problem)] == []


@pytest.mark.slow
def test_its_test_passes(tmp_path: Path) -> None:
    write(tmp_path, "brave")

    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        # pytest removes the folders of former runs as it ends: of every run of this machine, where
        # it is not told its own.
        "--basetemp",
        str(tmp_path / "inner"),
        "tests",
    ]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # ours take seconds to load
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=HANG_S
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_it_goes_into_a_project_that_init_has_written(tmp_path: Path) -> None:
    init_project(tmp_path)
    before = (tmp_path / SETTINGS).read_text(encoding="utf-8")

    write(tmp_path, "brave", before)

    after = (tmp_path / SETTINGS).read_text(encoding="utf-8")
    assert after.startswith(before.rstrip())
    with open_toolbox(
        tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        assert box.call("brave.greet", {"name": "Ada", "excited": True}).unwrap() == "Hello Ada!"


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "\n",
        "version: 1\n",
        "version: 1",
        "version: 1\npacks:\n  other: {a: 1}\n",
        "version: 1\npacks:   # mine\n    other:\n        a: 1\naliases: {x: y.z}\n",
        "packs: {}\nversion: 1\n",
        "# packs:\nversion: 1\n",
        "packs:\n\n  # a comment\n  other: {}\n",
        "packs: {other: {a: 1}}\n",
    ],
)
def test_the_settings_are_added_and_the_rest_stays(settings: str) -> None:
    before = yaml.safe_load(settings) or {"version": 1}

    after = yaml.safe_load(pack_template("brave", settings)[SETTINGS])

    others = before.get("packs") or {}
    assert after == {**before, "packs": {**others, "brave": {"greeting": "Hello"}}}


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    settings = "version: 1\npacks:\n  brave:\n    greeting: Hi\n"

    assert pack_template("brave", settings)[SETTINGS] == settings


@pytest.mark.parametrize("settings", ["packs: [1]\n", "packs: 5\n", "packs: [\n", "version: 2\n"])
def test_settings_that_nothing_can_be_added_to_are_not_touched(settings: str) -> None:
    with pytest.raises(UsageProblem, match=r"onetool\.yaml"):
        pack_template("brave", settings)


@pytest.mark.parametrize("name", ["", "a-b", "a.b", "1a", "class", "_a", "../x", "a/b"])
def test_a_name_that_no_pack_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidTool, match="not a valid pack name"):
        pack_template(name)
