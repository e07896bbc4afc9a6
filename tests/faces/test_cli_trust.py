"""`onetool-ipy trust`, and what the command line refuses before it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tools = tmp_path / "home" / "clone" / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "mine.py").write_text('def go() -> int:\n    "Go."\n    return 7\n', encoding="utf-8")
    return tools.parents[1]


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in a folder, as somebody who trusts nothing yet and has no terminal."""
    for name, value in _env(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    def run(folder: Path, *words: str) -> Ran:
        monkeypatch.chdir(folder)
        code = main(list(words))
        return Ran(code, *capsys.readouterr())

    return run


def _env(folder: Path) -> dict[str, str]:
    home = folder.parent
    return {
        **os.environ,
        **home_at(home),
        "ONETOOL_STATE": str(home / "state"),
        "ONETOOL_TRUST": "",
    }


def test_a_call_is_refused_until_the_folder_is_trusted(folder: Path, run: Run) -> None:
    refused = run(folder, "tools", "invoke", "mine.go")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["reason"] == "untrusted"
    assert "onetool-ipy trust" in refused.stderr
    shown = run(folder, "trust", "--yes")
    assert shown.returncode == 0
    assert str(Path("tools/mine.py")) in shown.stderr
    assert json.loads(run(folder, "tools", "invoke", "mine.go").stdout)["data"] == 7
    assert run(folder, "trust", "--list").stdout.split() == [str(folder)]
    assert "no longer trusted" in run(folder, "trust", "--remove").stderr
    assert run(folder, "tools", "invoke", "mine.go").returncode == 1
    assert "was not trusted" in run(folder, "trust", "--remove").stderr


@pytest.mark.parametrize("path", [".", "../clone"])
def test_without_a_terminal_nothing_is_trusted_but_the_list_and_the_line_to_type_are_shown(
    folder: Path, path: str, run: Run
) -> None:
    refused = run(folder, "trust", path)
    assert refused.returncode == 1
    assert f"  pack file {Path('tools/mine.py')}" in refused.stderr
    line = "onetool-ipy trust --yes" + ("" if path == "." else " ../clone")
    assert refused.stderr.rstrip().endswith(f"run: {line}")
    assert run(folder, "tools", "invoke", "mine.go").returncode == 1
    assert run(folder, *line.split()[1:]).returncode == 0
    assert run(folder, "tools", "invoke", "mine.go").returncode == 0
    assert "is trusted already" in run(folder, "trust", path).stderr


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "is_trusted"), [("y", True), ("YES", True), ("n", False), ("", False), ("yep", False)]
)
def test_at_a_terminal_the_list_is_shown_before_the_question(
    folder: Path, typed: str, is_trusted: bool, run: Run
) -> None:
    import pty

    (folder / ".onetool" / "onetool.yaml").write_text(
        "models: {m: {provider: ollama, model: x, base_url: 'http://127.0.0.1:1', key: TOKEN}}\n",
        encoding="utf-8",
    )
    ours, theirs = pty.openpty()
    os.write(ours, f"{typed}\n".encode())

    command = [sys.executable, "-m", "onetool_ipy", "trust"]
    shown = subprocess.run(
        command,
        cwd=folder,
        env=_env(folder),
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    os.close(ours)
    os.close(theirs)
    before, _, after = shown.stderr.partition("Trust it? [y/N] ")
    assert "model m: ollama x at http://127.0.0.1:1" in before
    assert "sends the key TOKEN" in before
    assert ("is trusted from now on" in after) is is_trusted
    assert (shown.returncode == 0) is is_trusted
    assert (run(folder, "tools", "invoke", "mine.go").returncode == 0) is is_trusted


def test_what_was_added_since_is_shown_alone(folder: Path, run: Run) -> None:
    run(folder, "trust", "--yes")
    (folder / ".onetool" / "onetool.yaml").write_text("fs: {roots: [., /etc]}\n", encoding="utf-8")
    shown = run(folder, "trust")
    assert shown.returncode == 1
    assert "has changed since you trusted it" in shown.stderr
    assert "folder /etc" in shown.stderr
    assert "mine.py" not in shown.stderr


def test_a_folder_is_trusted_by_its_path(folder: Path, run: Run) -> None:
    beside = folder.parent / "beside"
    beside.mkdir()
    assert run(beside, "trust", "../clone", "--yes").returncode == 0
    assert run(folder, "tools", "invoke", "mine.go").returncode == 0


def test_config_names_a_project_outright(folder: Path, run: Run) -> None:
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    assert (
        run(folder, "--config", ".onetool/onetool.yaml", "tools", "invoke", "mine.go").returncode
        == 0
    )


def test_a_folder_without_a_project_or_no_folder_is_said(folder: Path, run: Run) -> None:
    empty = folder.parent / "empty"
    empty.mkdir()
    assert "There is no project in" in run(empty, "trust").stderr
    missing = run(folder, "trust", "nowhere")
    assert missing.returncode == 1
    assert "There is no folder 'nowhere'" in missing.stderr


@pytest.mark.parametrize("words", [["init"], ["init", "--pack", "greet"]])
def test_init_trusts_the_folder_that_it_makes(folder: Path, words: list[str], run: Run) -> None:
    new = folder.parent / "new"
    new.mkdir()
    assert run(new, *words).returncode == 0
    assert run(new, "trust", "--list").stdout.split() == [str(new)]


@pytest.mark.slow
@pytest.mark.parametrize("is_trusted", [False, True])
def test_the_token_of_our_mcp_server_comes_from_no_project_that_is_not_trusted(
    folder: Path, is_trusted: bool, run: Run
) -> None:
    secrets = folder / ".onetool" / "secrets.yaml"
    secrets.touch(mode=0o600)
    secrets.write_text("ONETOOL_MCP_TOKEN: known-to-who-wrote-it\n", encoding="utf-8")
    if is_trusted:
        run(folder, "trust", "--yes")
    command = [sys.executable, "-m", "onetool_ipy", "mcp", "--http"]
    with subprocess.Popen(
        command, cwd=folder, env=_env(folder), stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stderr is not None
        said = next(line for line in serving.stderr if line.startswith("Serving on"))
        answer = httpx.post(
            said.split()[-1], headers={"Authorization": "Bearer known-to-who-wrote-it"}, json={}
        )
        serving.terminate()
    assert (answer.status_code != 401) is is_trusted


def test_init_trusts_no_folder_that_was_there(folder: Path, run: Run) -> None:
    run(folder, "init")
    assert run(folder, "trust", "--list").stdout == ""
