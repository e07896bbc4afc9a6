"""The command line as a user runs it: exit codes, JSON on stdout, words on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.faces.cli import main


class Ran:
    """What one command gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one pack file and one mock tool, as working directory."""
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "shop.py").write_text(
        'def price(item: str, count: int = 1) -> int:\n    """Tell a price."""\n    return 2 * count\n',
        encoding="utf-8",
    )
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        "version: 1\ntools:\n"
        "  - {name: weather, description: Tell the weather, type: function, handler: weather,\n"
        "     parameters: {type: object, properties: {city: {type: string}}},\n"
        "     implementation: {type: mock, mock_response: {sun: true}}}\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def run(project: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*words: str) -> Ran:
        code = main(words)
        seen = capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    return command


@pytest.mark.spec("004/CLI/tools list")
def test_list_shows_name_description_and_input(run: Any) -> None:
    """By name, description and inputSchema: as a table, and with --json as data."""
    table = run("tools", "list")
    assert table.code == 0
    assert "shop.price" in table.out
    assert "Tell a price." in table.out
    assert "item: str, count: int = 1" in table.out
    rows = run("tools", "list", "--json").json
    assert [sorted(row) for row in rows] == [["description", "inputSchema", "name"]] * len(rows)
    byname = {row["name"]: row for row in rows}
    assert byname["shop.price"]["inputSchema"]["required"] == ["item"]
    assert {"time.now", "tools.echo", "shell.pwd", "fs.list_dir", "fs.read_file"} <= set(byname)


@pytest.mark.spec("004/Registry/tool-allow filters the callable set")
@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ("time.now,shop.price", ["time.now", "shop.price"]),
        ("fs.*", ["fs.list_dir", "fs.read_file"]),
        ("weather", ["config.weather"]),
        ("", []),
        ("nothing.here", []),
    ],
)
def test_tool_allow_filters_the_list(run: Any, allow: str, expected: list[str]) -> None:
    rows = run("tools", "list", "--json", "--tool-allow", allow).json
    assert [row["name"] for row in rows] == expected


@pytest.mark.spec("004/CLI/tools info")
def test_info_prints_schema_and_state_as_json(run: Any) -> None:
    ran = run("tools", "info", "shop.price")
    assert ran.code == 0
    assert list(ran.json) == [
        "name", "description", "inputSchema", "signature", "source", "pack", "enabled",
        "timeoutS", "wireName", "callCount", "lastCalledAt", "deps",
    ]  # fmt: skip
    assert ran.json["signature"] == "shop.price(item: str, count: int = 1)"
    assert ran.json["wireName"] == "shop_price"
    assert ran.json["timeoutS"] == 8
    assert run("tools", "info", "weather").json["wireName"] == "weather"


@pytest.mark.spec("004/CLI/tools invoke")
def test_invoke_calls_a_tool_and_prints_its_result(run: Any) -> None:
    ran = run("tools", "invoke", "shop.price", "--args", '{"item": "tea", "count": 3}')
    assert ran.code == 0
    assert ran.err == ""
    assert set(ran.json) == {"ok", "data", "error", "meta"}
    assert (ran.json["ok"], ran.json["data"], ran.json["error"]) == (True, 6, None)
    assert ran.json["meta"]["source"] == "cli"
    assert run("tools", "invoke", "weather").json["data"] == {"sun": True}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tools", "invoke", "shop.prize"], 1, "Did you mean 'shop.price'?"),
        (["tools", "info", "nope.nope"], 1, "No tool 'nope.nope'."),
        (["tools", "invoke", "shop.price"], 1, "missing argument 'item'"),
        (["tools", "invoke", "shop.price", "--args", "{oops"], 2, "--args is not JSON"),
        (["tools", "invoke", "shop.price", "--args", "[1]"], 1, "must be an object, not list"),
        (["tools", "invoke"], 2, "required"),
        (["tools", "frobnicate"], 2, "invalid choice"),
        (["tools"], 2, "usage"),
        ([], 2, "usage"),
        (["--config", "nowhere.yaml", "tools", "list"], 1, "nowhere.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said_on_stderr_with_the_right_code(run: Any, words: list[str], code: int, said: str) -> None:
    """Contract 12: 0 ok, 1 failed call, 2 usage."""
    ran = run(*words)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err
    if code == 1 and "invoke" in words:
        assert ran.json["ok"] is False


def test_a_call_from_the_command_line_has_the_local_limit(run: Any, project: Path) -> None:
    config = project / ".onetool" / "onetool.yaml"
    config.write_text(config.read_text(encoding="utf-8") + "timeouts: {local_s: 0.2}\n", encoding="utf-8")
    (project / ".onetool" / "tools" / "slow.py").write_text(
        'def spin() -> None:\n    """Spin."""\n    while True:\n        pass\n', encoding="utf-8"
    )
    ran = run("tools", "invoke", "slow.spin")
    assert ran.code == 1
    assert ran.json["error"]["reason"] == "timeout"


def test_secrets_are_masked_on_stdout_and_stderr(run: Any, project: Path) -> None:
    secrets = project / ".onetool" / "secrets.yaml"
    secrets.write_text("KEY: hunter2-very-secret\n", encoding="utf-8")
    secrets.chmod(0o600)
    ran = run("tools", "invoke", "tools.echo", "--args", '{"message": "a hunter2-very-secret b"}')
    assert ran.code == 0
    assert "hunter2" not in ran.out + ran.err
    assert "***" in ran.json["data"]


def test_init_writes_a_commented_folder_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert (tmp_path / ".onetool" / "onetool.yaml").is_file()
    assert "secrets.yaml" in (tmp_path / ".onetool" / ".gitignore").read_text(encoding="utf-8")
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: 1\n# mine\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["init"]) == 0
    assert "# mine" in (tmp_path / ".onetool" / "onetool.yaml").read_text(encoding="utf-8")
    assert main(["tools", "list"]) == 0
    assert "example." in capsys.readouterr().out


def test_the_installed_command_runs_and_a_closed_pipe_is_no_error(project: Path) -> None:
    """The console script is there, and `| head` does not make it fail."""
    command = f"{Path(sys.executable).parent / 'onetool-ipy'} tools list | head -1"
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=project, capture_output=True, text=True, check=False, env={**os.environ}, timeout=60,
    )  # fmt: skip
    assert ran.stdout.startswith("NAME")
    assert "Traceback" not in ran.stderr


def test_init_pack_writes_a_pack_its_test_and_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new pack is found at once, its own test passes, and nothing is written over."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--pack", "greet"]) == 0
    capsys.readouterr()
    assert main(["tools", "list"]) == 0
    assert "greet." in capsys.readouterr().out
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert main(["init", "--pack", "greet"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["init", "--pack", "not a name"]) == 1


def test_stubs_are_python_that_names_every_tool(run: Any, project: Path) -> None:
    import ast

    assert run("stubs").code == 0
    files = list((project / "typings").rglob("*.pyi"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"))
    assert "price: _Tool_price" in text
    assert "item: str" in text
