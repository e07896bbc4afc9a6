"""`onetool-ipy trust`, and what the command line refuses before it (contract 16)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools = tmp_path / "home" / "clone" / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "mine.py").write_text('def go() -> int:\n    "Go."\n    return 7\n', encoding="utf-8")
    return tools.parents[1]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    home = folder.parent
    env = {**os.environ, "HOME": str(home), "ONETOOL_STATE": str(home / "state"), "ONETOOL_TRUST": ""}
    command = [sys.executable, "-m", "onetool_ipy", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=100, check=False)


def test_a_call_is_refused_until_the_folder_is_trusted(folder: Path) -> None:
    refused = run(folder, "tools", "invoke", "mine.go")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["reason"] == "untrusted"
    assert "onetool-ipy trust" in refused.stderr
    said = run(folder, "trust")
    assert said.returncode == 0
    assert "tools/mine.py" in said.stderr
    assert json.loads(run(folder, "tools", "invoke", "mine.go").stdout)["data"] == 7
    assert run(folder, "trust", "--list").stdout.split() == [str(folder)]
    assert "no longer trusted" in run(folder, "trust", "--remove").stderr
    assert run(folder, "tools", "invoke", "mine.go").returncode == 1
    assert "was not trusted" in run(folder, "trust", "--remove").stderr


def test_a_folder_is_trusted_by_its_path(folder: Path) -> None:
    beside = folder.parent / "beside"
    beside.mkdir()
    assert run(beside, "trust", "../clone").returncode == 0
    assert run(folder, "tools", "invoke", "mine.go").returncode == 0


def test_config_names_a_project_outright(folder: Path) -> None:
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    assert run(folder, "--config", ".onetool/onetool.yaml", "tools", "invoke", "mine.go").returncode == 0


def test_a_folder_without_a_project_or_no_folder_is_said(folder: Path) -> None:
    empty = folder.parent / "empty"
    empty.mkdir()
    assert "There is no project in" in run(empty, "trust").stderr
    missing = run(folder, "trust", "nowhere")
    assert missing.returncode == 1
    assert "There is no folder 'nowhere'" in missing.stderr


@pytest.mark.parametrize("words", [["init"], ["init", "--pack", "greet"]])
def test_init_trusts_the_folder_that_it_makes(folder: Path, words: list[str]) -> None:
    new = folder.parent / "new"
    new.mkdir()
    assert run(new, *words).returncode == 0
    assert run(new, "trust", "--list").stdout.split() == [str(new)]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_the_token_of_our_mcp_server_comes_from_no_project_that_is_not_trusted(folder: Path, is_trusted: bool) -> None:
    secrets = folder / ".onetool" / "secrets.yaml"
    secrets.touch(mode=0o600)
    secrets.write_text("ONETOOL_MCP_TOKEN: known-to-who-wrote-it\n", encoding="utf-8")
    if is_trusted:
        run(folder, "trust")
    home = folder.parent
    env = {**os.environ, "HOME": str(home), "ONETOOL_STATE": str(home / "state"), "ONETOOL_TRUST": ""}
    command = [sys.executable, "-m", "onetool_ipy", "mcp", "--http"]
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        said = next(line for line in serving.stderr if line.startswith("Serving on"))
        answer = httpx.post(said.split()[-1], headers={"Authorization": "Bearer known-to-who-wrote-it"}, json={})
        serving.terminate()
    assert (answer.status_code != 401) is is_trusted


def test_init_trusts_no_folder_that_was_there(folder: Path) -> None:
    run(folder, "init")
    assert run(folder, "trust", "--list").stdout == ""
