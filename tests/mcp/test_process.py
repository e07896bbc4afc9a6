"""The process of a server: its environment and its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from onetool_ipy import Toolbox, open_toolbox
from tests.harness.servers import hostile, write_project

Open = Callable[..., Toolbox]


def test_a_server_gets_the_safe_few_what_is_named_and_its_own(opened: Open, tmp_path: Path) -> None:
    definition = hostile(
        env={"OWN": "mine", "KEY": "${TOKEN}"}, inherit=["WANTED", "ABSENT"], cwd="sub"
    )
    (tmp_path / "sub").mkdir()
    around = {**os.environ, "TOKEN": "sesame-open", "WANTED": "yes", "PRIVATE": "no"}

    found = opened({"srv": definition}, env=around).call("srv.environment").unwrap()

    named = {"OWN": "mine", "KEY": "sesame-open", "WANTED": "yes"}
    safe = {
        name: around[name]
        for name in ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
        if name in around
    }
    ours = {"LC_CTYPE", "ONETOOL_SERVER"}
    assert {key: value for key, value in found["env"].items() if key not in ours} == {
        **safe,
        **named,
    }
    assert found["cwd"] == str(tmp_path / "sub")


def test_the_environment_of_the_toolbox_is_what_counts(tmp_path: Path) -> None:
    env: Mapping[str, str] = {
        "PATH": "/nowhere",
        "HOME": str(tmp_path),
        "ONETOOL_STATE": str(tmp_path / "state"),
    }
    write_project(tmp_path, {"srv": {"command": "sleep", "args": ["9"]}})
    with open_toolbox(tmp_path, env=env) as box:
        box.servers.check()

        assert box.servers.reason("srv") == "There is no command 'sleep'."
