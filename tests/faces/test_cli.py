"""The command line as a user runs it: exit codes, JSON on stdout, words on stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.config.template import pack_template
from onetool_ipy.faces.cli import main
from tests.harness.patience import HANG_S
from tests.harness.programs import python


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
        'def price(item: str, count: int = 1) -> int:\n    """Tell a price."""\n    return 2 *'
        " count\n",
        encoding="utf-8",
    )
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        "version: 1\ntools:\n"
        "  - {name: weather, description: Tell the weather, type: function, handler: weather,\n"
        "     parameters: {type: object, properties: {city: {type: string}}},\n"
        "     implementation: {type: mock, mock_response: {sun: true}}}\n",
        encoding="utf-8",
    )
    (tmp_path / "n.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
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
    assert "ot.history" not in table.out, "the toolbox itself is no tool of a person"
    assert "ot.history" in run("tools", "list", "--tool-allow", "ot.*").out
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
        "timeoutS", "wireName", "callCount", "lastCalledAt", "deps", "reads", "sends",
    ]  # fmt: skip
    assert ran.json["signature"] == "shop.price(item: str, count: int = 1)"
    assert ran.json["wireName"] == "shop_price"
    assert ran.json["timeoutS"] == 8
    assert run("tools", "info", "weather").json["wireName"] == "weather"


def test_a_large_result_goes_as_a_handle_that_meta_names_too(run: Any, project: Path) -> None:
    """`max_inline_bytes` counts bytes: a text of 60 two-byte characters is over 100 of them."""
    (project / ".onetool" / "onetool.yaml").write_text(
        "output: {max_inline_bytes: 100}\n", encoding="utf-8"
    )
    (project / "wide.txt").write_text("é" * 60, encoding="utf-8")
    (project / "fits.txt").write_text("é" * 50, encoding="utf-8")

    sent = run("tools", "invoke", "fs.read_file", "--args", '{"path": "wide.txt"}').json

    assert sent["data"] == {
        "handle": sent["meta"]["handle"],
        "total_lines": 1,
        "preview": ["é" * 60],
    }
    small = run("tools", "invoke", "fs.read_file", "--args", '{"path": "fits.txt"}').json
    assert (small["data"], "handle" in small["meta"]) == ("é" * 50, False)


def test_invoke_takes_arguments_by_name(run: Any) -> None:
    """Each word is read by what the tool takes, as in `%tool`."""
    ran = run("tools", "invoke", "shop.price", "item=tea", "count=3")
    assert (
        ran.json["data"]
        == run("tools", "invoke", "shop.price", "--args", '{"item": "tea", "count": 3}').json[
            "data"
        ]
    )
    mixed = run("tools", "invoke", "shop.price", "item=007", "--args", '{"count": 3}').json
    assert mixed["ok"] is True, "text stays text"
    assert run("tools", "invoke", "tools.echo", "message=a=b").json["data"] == "a=b"


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
        (["tools", "invoke", "tools.echo", "--args", '{"message": NaN}'], 2, "'NaN' is not JSON"),
        (["tools", "invoke", "shop.price", "--args", "[1]"], 1, "must be an object, not list"),
        (["tools", "invoke"], 2, "needs the name of a tool"),
        (
            ["tools", "frobnicate"],
            2,
            "does not know 'frobnicate'.\nIt knows: list, info, invoke. For one of them: onetool-ipy tools info NAME",
        ),
        (["tools", "lsit"], 2, "does not know 'lsit'. Did you mean 'list'?"),
        (["list"], 2, "No command 'list'. Did you mean 'tools list'?"),
        (["tools", "invoke", "shop.price", "tea"], 2, "'tea' is not KEY=VALUE"),
        (["tools", "invoke", "shop.price", "=x"], 2, "'=x' is not KEY=VALUE"),
        (["tools", "invoke", "shop.price", "item=a", "item=b"], 2, "'item' is given twice"),
        (
            ["tools", "invoke", "shop.price", "item=a", "--args", '{"item": "b"}'],
            2,
            "'item' is given twice",
        ),
        (["tools", "invoke", "shop.price", "item=a", "--args", "[]"], 2, "--args is of type list"),
        (["tools", "invoke", "shop.price", "item=a", "count=few"], 1, "count"),
        (
            ["tools", "invoke", "time.now", "--timeout", "-1"],
            2,
            "needs a number of seconds above 0, not '-1'",
        ),
        (["tools", "info", "shop.prise"], 1, "See all with: onetool-ipy tools list"),
        (["tools", "invoke", "shop.price"], 1, "Usage: shop.price(item: str"),
        (["ask", "hello"], 1, "onetool.yaml, for example:"),
        (
            ["export", "-o", "missing/x.py", "n.ipynb"],
            1,
            f"No such file or directory: '{Path('missing/x.py')}'",
        ),
        (["tools", "list", "--config", "missing.yaml"], 1, "missing.yaml: there is no such file"),
        (["tools"], 2, "usage"),
        ([], 2, "usage"),
        (["--config", "nowhere.yaml", "tools", "list"], 1, "nowhere.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said_on_stderr_with_the_right_code(
    run: Any, words: list[str], code: int, said: str
) -> None:
    """Contract 12: 0 ok, 1 failed call, 2 usage."""
    ran = run(*words)
    assert ran.code == code
    assert said in ran.err
    assert "Traceback" not in ran.err
    if code == 1 and "invoke" in words:
        assert ran.json["ok"] is False


def test_a_call_from_the_command_line_has_the_local_limit(run: Any, project: Path) -> None:
    config = project / ".onetool" / "onetool.yaml"
    config.write_text(
        config.read_text(encoding="utf-8") + "timeouts: {local_s: 0.2}\n", encoding="utf-8"
    )
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


@pytest.mark.slow
def test_the_installed_command_runs_and_a_closed_pipe_is_no_error(project: Path) -> None:
    """The console script is there, and `| head` does not make it fail."""
    command = f"{Path(sys.executable).parent / 'onetool-ipy'} tools list | head -1"
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=project, capture_output=True, text=True, check=False, env={**os.environ}, timeout=HANG_S,
    )  # fmt: skip
    assert ran.stdout.startswith("NAME")
    assert "Traceback" not in ran.stderr


def test_init_pack_writes_a_pack_its_test_and_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new pack is found at once, and nothing is written over.
    tests/config/test_template_pack.py runs its test."""
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--pack", "greet"]) == 0
    assert "Next: onetool-ipy tools list, or in a notebook: %tool greet" in capsys.readouterr().err
    written = {
        place: (tmp_path / place).read_text(encoding="utf-8") for place in pack_template("greet")
    }
    assert written == pack_template("greet")
    assert main(["tools", "list"]) == 0
    assert "greet." in capsys.readouterr().out
    assert main(["init", "--pack", "greet"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main(["init", "--pack", "not a name"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--tool-allow", "--allow"])
def test_what_is_served_is_named_by_either_word(tmp_path: Path, option: str) -> None:
    line = [sys.executable, "-m", "onetool_ipy", "mcp", option, "time.now,no.such"]

    done = subprocess.run(
        line, cwd=tmp_path, input="", capture_output=True, text=True, check=True, timeout=HANG_S
    )

    assert done.stderr.strip() == "Offering 1 tool. No tool is named 'no.such'."


def test_a_pack_in_a_project_leaves_every_other_byte_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An editor of Windows ended its lines; and another one did not write UTF-8."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / ".onetool" / "onetool.yaml"
    file.parent.mkdir()
    before = b"version: 1\r\n# mine\r\nfs: {roots: ['.']}\r\n"
    file.write_bytes(before)

    assert main(["init", "--pack", "greet"]) == 0

    assert file.read_bytes().startswith(before)
    assert b"\n" not in file.read_bytes().replace(b"\r\n", b"")
    file.write_bytes(b"version: 1 # caf\xe9\n")
    assert main(["init", "--pack", "other"]) == 1
    assert "onetool.yaml' cannot be read" in capsys.readouterr().err
    assert not (tmp_path / ".onetool/tools/other.py").exists()


def test_stubs_are_python_that_names_every_tool(run: Any, project: Path) -> None:
    import ast

    assert run("stubs").code == 0
    files = list((project / "typings").rglob("*.pyi"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"))
    assert "price: _Tool_price" in text
    assert "item: str" in text


_TALKS = """import os
print("imported")


def talk() -> str:
    \"\"\"Talk in three ways.\"\"\"
    print("by print")
    os.write(1, b"by a descriptor\\n")
    os.system("echo by a child")
    return "done"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["tools", "invoke", "talk.talk"], ["tools", "list", "--json"], ["health"]]
)
def test_what_a_tool_prints_goes_to_stderr_and_stdout_is_json(
    project: Path, words: list[str]
) -> None:
    """Contract 12: results are JSON on stdout, whatever pack files, tools and their children
    print."""
    (project / ".onetool" / "tools" / "talk.py").write_text(_TALKS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "onetool_ipy", *words], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)
    if "invoke" in words:
        assert [line for line in ran.stderr.splitlines() if line] == [
            *("imported", "by print", "by a descriptor", "by a child")
        ]


@pytest.mark.slow
def test_health_names_servers_as_servers(project: Path) -> None:
    """`proxy` is a word of `ot.health()` alone."""
    (project / ".onetool" / "onetool.yaml").write_text(
        "version: 1\nservers: {gone: {type: stdio, command: no-such-command-here}}\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, "-m", "onetool_ipy", "health"], capture_output=True, text=True, check=False
    )

    health = json.loads(ran.stdout)
    assert "proxy" not in ran.stdout
    assert health["server"]["servers"] == {"gone": "disconnected"}
    assert health["server"]["states"] == {"gone": "failed"}


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp932", "utf-8"])
def test_an_output_in_another_encoding_is_json_all_the_same(project: Path, encoding: str) -> None:
    (project / ".onetool" / "tools" / "w\u00f6rter.py").write_text(
        'def tell() -> str:\n    """Tell \u65e5\u672c."""\n    return "caf\u00e9 \u65e5\u672c"\n',
        encoding="utf-8",
    )
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    ran, listed = (
        subprocess.run(
            [sys.executable, "-m", "onetool_ipy", *words], capture_output=True, env=env, check=True
        )
        for words in (["tools", "invoke", "w\u00f6rter.tell"], ["tools", "list"])
    )
    assert json.loads(ran.stdout.decode(encoding))["data"] == "caf\u00e9 \u65e5\u672c"
    assert b"Tell" in listed.stdout


@pytest.mark.linux("/dev/full")
@pytest.mark.slow
def test_an_output_that_takes_no_more_is_said_in_one_line(project: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "onetool_ipy", "tools", "list"]
        # What is left in the buffer fails only when it is written.
        env = {**os.environ, "PYTHONUNBUFFERED": ""}
        ran = subprocess.run(
            command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (1, "No space left on device.\n")


def test_config_stands_before_or_behind_the_command(run: Any, project: Path) -> None:
    other = project / "other" / ".onetool" / "onetool.yaml"
    other.parent.mkdir(parents=True)
    other.write_text("version: 1\n", encoding="utf-8")
    before = run("--config", str(other), "tools", "list")
    assert before.code == 0
    assert "shop.price" not in before.out
    assert run("tools", "list", "--config", str(other)).out == before.out


def test_python_m_runs_the_command_and_loads_nothing_heavy(project: Path) -> None:
    script = (
        "import sys, runpy; sys.argv = ['x', '--version']\ntry:\n   "
        " runpy.run_module('onetool_ipy')\n"
    )
    script += (
        "except SystemExit as exc:\n    print(exc.code, {'IPython', 'pandas', 'httpx', 'mcp'} &"
        " set(sys.modules))"
    )
    ran = python(script)
    assert ran.stdout.splitlines()[1:] == ["0 set()"]
