"""The commands of the table on a real command line: what a person types, right and wrong, and at a
real terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.faces.cli import main
from tests.harness.patience import HANG_S


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "shop.py").write_text(
        'def price(item: str) -> int:\n    """Tell a price."""\n    raise LookupError(f"no price'
        ' for {item}")\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONETOOL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ONETOOL_TRUST", str(tmp_path))
    return tmp_path


def at_terminal(*words: str, typed: str = "") -> tuple[int, str]:
    """Run a command whose stdout, stderr and stdin are a terminal. Returns its exit code and what
    it wrote."""
    import pty

    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    command = [sys.executable, "-m", "onetool_ipy", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            text += piece
        code = process.wait(HANG_S)
    os.close(ours)
    return code, text.decode().replace("\r\n", "\n")


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_a_failure_at_a_terminal_is_its_words_and_piped_it_is_json(project: Path) -> None:
    """Not 15 to 20 lines of JSON with the sentence last."""
    code, text = at_terminal("tools", "invoke", "shop.price", "item=tea")
    assert code == 1
    assert text.splitlines() == ["LookupError: no price for tea"]

    code, text = at_terminal("tools", "invoke", "shop.price", "item=tea", "--json")
    assert '"code": "execution_error"' in text
    piped = subprocess.run(
        [sys.executable, "-m", "onetool_ipy", "tools", "invoke", "shop.price", "item=tea"],
        capture_output=True, text=True, check=False, timeout=HANG_S,
    )  # fmt: skip
    assert (piped.returncode, json.loads(piped.stdout)["ok"]) == (1, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tools", "list", "--jsn"], "No flag '--jsn'. Did you mean '--json'?"),
        (["stat"], "No command 'stat'. Did you mean 'stats'?"),
        (["history", "--sinc", "today"], "Did you mean '--since'?"),
        (["history", "--since", "soon"], "--since does not understand 'soon'."),
        (
            ["tools", "invoke", "tools.echo", '{"message": 1}'],
            "onetool-ipy tools invoke tools.echo message=...",
        ),
        (["browse"], "The tool browser is a screen of a notebook: %tool browse"),
        (["completion", "tcsh"], "completion needs a shell: bash, zsh, fish, powershell."),
        (["server", "add"], "needs a name, and a command or --url"),
        (["bundle", "show"], "onetool-ipy bundle show needs one name."),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_wrong_words_are_told_in_a_line_or_two(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code = main(words)
    err = capsys.readouterr().err
    assert code == (1 if "soon" in words else 2)
    assert message in err
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "No running notebook has the tools of"),
        (["--port", "7"], "Nothing serves"),
        (["--no-token"], "--no-token cannot change it."),
    ],
    ids=["no notebook", "no port", "another token"],
)
def test_attach_without_anything_to_attach_to_says_so(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["mcp", "--attach", *words]) == 1
    assert message in capsys.readouterr().err


def test_own_tools_come_first_in_the_list(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tools", "list"])
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert names[0] == "shop.price"
    assert "time.now" in names
    assert "ot.tools" not in names


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(words)
    return code, capsys.readouterr().out


def test_history_is_listed_and_called_again(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tools", "invoke", "tools.echo", "message=one"])
    main(["tools", "invoke", "shop.price", "item=tea"])
    capsys.readouterr()

    code, text = run(capsys, "history")
    assert code == 0
    assert "shop.price item=tea · failed: LookupError: no price for tea" in text
    assert "onetool-ipy history rerun N" in text
    rows: list[dict[str, Any]] = json.loads(run(capsys, "history", "--failed", "--json")[1])
    assert [(row["tool"], row["ok"], row["args"]) for row in rows] == [
        ("shop.price", False, {"item": "tea"})
    ]
    code, text = run(capsys, "history", "rerun", "2")
    assert (code, json.loads(text)["data"]) == (0, "one")


def test_help_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")

    for words in (["--help"], ["server", "--help"]):
        _, text = run(capsys, *words)
        assert max(map(len, text.splitlines())) <= 72


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["stats", "day"], "period: day\ntotal_calls: 0\nCalls of ot itself are left out"),
        (["stats", "--json"], '"total_calls": 0'),
        (["search", "price"], "shop.price"),
        (["results"], "No results are stored."),
        (["results", "--json"], "[]"),
        (["server"], "There are no MCP servers."),
        (["bundle"], "built_in"),
        (["bundle", "show", "time"], "time.now@1"),
        (["server", "export"], "no MCP servers to export"),
        (["check", "time.now"], "ok"),
        (["history", "--help"], "--since WHEN"),
        (["help", "server"], "onetool-ipy server add NAME COMMAND"),
        (["--help"], "help all  check, mock, "),
        (["help", "all"], "completion bash|zsh|fish|powershell"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_notebook_shows_the_shell_shows(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], part: str
) -> None:
    code, text = run(capsys, *words)
    assert code == 0
    assert part in text


def test_a_server_is_added_for_good_and_removed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell has no session that a server could belong to; the command's own options are the
    command's."""
    code, text = run(capsys, "server", "add", "clock", sys.executable, "-m", "clock", "--json")
    config = project / ".onetool" / "onetool.yaml"
    assert code == 0, text
    assert "--json" in config.read_text(encoding="utf-8")
    assert "clock" in run(capsys, "server")[1]
    assert run(capsys, "server", "remove", "clock")[0] == 0
    assert "clock" not in config.read_text(encoding="utf-8")


def test_an_http_tool_is_made_from_options(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(
        capsys, "new", "http", "my-api.get-user", "--url", "https://api.example.com/u/{id}"
    )
    assert code == 0
    assert "GET https://api.example.com/u/" in text
    assert "my-api.get-user" in run(capsys, "tools", "list")[1]
    assert run(capsys, "bundle", "off", "my-api")[1] == "The bundle my-api is off.\n"


@pytest.mark.posix("a terminal of its own")
@pytest.mark.slow
def test_health_is_a_page_at_a_terminal_and_json_in_a_pipe(project: Path) -> None:
    code, text = at_terminal("health")
    assert code == 0
    assert not text.startswith("{")
    assert text.count("\n") < 40


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["hist"], ["history"]),
        (["history", "--f"], ["--failed"]),
        (["history", "--since", "y"], ["yesterday"]),
        (["tools", ""], ["list", "info", "invoke"]),
        (["tools", "invoke", "sh"], ["shop.price", "shell.pwd"]),
        (["tools", "invoke", "shop.price", ""], ["item="]),
        (["bundle", "show", "f"], ["fs"]),
        (["completion", "z"], ["zsh"]),
        (["nonsense", "x"], []),
        (["--config", "a.yaml", "stat"], ["stats"]),
        ([], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_shell_is_offered_what_can_follow(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], offers: list[str] | None
) -> None:
    code, text = run(capsys, "completion", "words", "--", *words)
    assert code == 0
    assert text.split() == offers if offers is not None else "history" in text.split()


def test_a_name_that_a_shell_would_run_is_not_offered(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".onetool" / "onetool.yaml").write_text(
        "tools:\n  - {name: 'evil.$(touch${IFS}x)', description: d, type: function, handler: h,\n"
        "     implementation: {type: mock, mock_response: 1}}\n",
        encoding="utf-8",
    )
    assert run(capsys, "completion", "words", "--", "tools", "invoke", "evil")[1] == ""
    assert run(capsys, "completion", "words", "--", "tools", "invoke", "shop")[1] == "shop.price\n"


@pytest.mark.slow
def test_bash_completes_with_the_script(project: Path) -> None:
    """The script as bash runs it: Tab after `onetool-ipy history --s` and after a half-typed
    tool."""
    ask = (
        'source <(onetool-ipy completion bash); tab() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));'
        ' _onetool_ipy 2>/dev/null; echo "${COMPREPLY[*]}"; }; tab onetool-ipy history --s; tab'
        " onetool-ipy tools invoke shop; tab onetool-ipy server ''"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", ask],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    since, tool, verbs = ran.stdout.splitlines()
    assert (since, tool) == ("--since", "shop.price")
    assert verbs.split()[:2] == ["list", "add"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_asks_the_same_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "completion", shell)
    assert code == 0
    assert "onetool-ipy completion words -- " in text
    assert f"onetool-ipy completion {shell}" in text, "the script says how it is installed"
