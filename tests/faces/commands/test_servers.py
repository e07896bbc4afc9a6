"""`%tool server ...` in a real kernel, with servers that others wrote."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.client_files import FoundServer, read_client_file, without_secrets
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S
from tests.harness.servers import real
from tests.harness.systems import has_mode

TOKEN = "ghp_0123456789abcdef"


def refused(kernel: Kernel, line: str) -> str:
    outcome = kernel.execute(line, allow_errors=True)
    assert outcome.error is not None, outcome.text
    assert len(outcome.error.text.splitlines()) <= 5
    return outcome.error.text


@pytest.mark.slow
def test_the_life_of_a_server(loaded: Kernel) -> None:
    """Add, list, test, call, stop, start again, read its logs, remove."""
    assert "no MCP servers" in loaded.execute("%tool server").text
    command = real("time")["command"]
    assert "added for this session" in loaded.execute(f"%tool server add clock {command}").text
    tested = loaded.execute("%tool server test clock", timeout=HANG_S).text
    assert "works" in tested
    assert "mcp-time" in tested
    listed = loaded.execute("%tool server list").text
    assert "clock" in listed
    assert "connected" in listed
    loaded.execute("r = %tool clock.get_current_time timezone=Europe/Vienna")
    assert loaded.evaluate("r['timezone']") == "'Europe/Vienna'"
    assert "stopped" in loaded.execute("%tool server stop clock").text
    assert "connected, 2 tools" in loaded.execute("%tool server start clock", timeout=HANG_S).text
    assert "connected" in loaded.execute("%tool server restart clock", timeout=HANG_S).text
    loaded.execute("%tool server logs clock")
    traced = loaded.execute("%tool server trace clock").text
    assert all(word in traced for word in ("tools/call", "→", "Europe/Vienna"))
    assert "removed" in loaded.execute("%tool server remove clock").text
    assert "clock" in refused(loaded, "%tool clock.get_current_time timezone=Europe/Vienna")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x missingprogram-xyz --port 1", "There is no program 'missingprogram-xyz' on your PATH."),
        ("x ./missing.sh", "There is no program './missing.sh' in "),
        ("x mcp.example.com/mcp", "For an address, write https://mcp.example.com/mcp"),
        ("x 'missing-xyz --port 1'", "stand outside of the quotes: missing-xyz --port 1"),
        ("x 'pip install mcp-x'", "Then add what it installed: %tool server add NAME mcp-x"),
        ("--save x missingprogram-xyz", "There is no program 'missingprogram-xyz' on your PATH."),
        ("x pip install mcp-server-time", "'pip install' installs a program"),
        ("pip install mcp-server-time", "'pip install' installs a program"),
        ("x uv tool install y", "'uv tool install' installs a program"),
    ],
)
def test_what_cannot_start_is_refused_and_not_added(
    loaded: Kernel, line: str, message: str
) -> None:
    assert message in refused(loaded, f"%tool server add {line}")
    assert "There are no MCP servers." in loaded.execute("%tool server list").text
    assert not (loaded.cwd / ".onetool").exists()


@pytest.mark.slow
def test_why_a_server_does_not_start(loaded: Kernel) -> None:
    """mcp-server-sqlite breaks with the SDK of today: its own words are shown."""
    loaded.execute(f"%tool server add db {real('sqlite')['command']}")
    said = loaded.execute("%tool server test db", timeout=HANG_S).text
    assert "does not work" in said
    assert "its output" in said


@pytest.mark.slow
def test_import_of_another_clients_file(loaded: Kernel) -> None:
    """`--save` keeps the servers in onetool.yaml and their secrets in secrets.yaml; nothing shown
    holds one."""
    folder = loaded.cwd
    entry = real("time")
    servers = {
        "clock": {"command": entry["command"], "args": [], "env": {"API_TOKEN": TOKEN, "MODE": "x"}}
    }
    (folder / "claude.json").write_text(f'{{ // mine\n "mcpServers": {json.dumps(servers)},\n}}')
    assert "--yes" in refused(loaded, "%tool server import claude.json")
    assert not (folder / ".onetool" / "secrets.yaml").exists()
    importing = loaded.start_execute("%tool server import claude.json --save", allow_stdin=True)
    question = loaded.answer_input("y").replace("\n       | ", "")
    assert "+ clock:" in question
    assert entry["command"] in question
    assert "Its secrets go to secrets.yaml: CLOCK_API_TOKEN" in question
    shown = importing.wait(HANG_S).text
    assert TOKEN not in shown + question
    config = (folder / ".onetool" / "onetool.yaml").read_text()
    assert TOKEN not in config
    assert "${CLOCK_API_TOKEN}" in config
    secrets = folder / ".onetool" / "secrets.yaml"
    assert TOKEN in secrets.read_text()
    assert has_mode(secrets, 0o600)
    assert "works" in loaded.execute("%tool server test clock", timeout=HANG_S).text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tool server adn x y", "adn"),
        ("%tool server add", "needs a name"),
        ("%tool server add x", "needs a name"),
        ("%tool server add x --url http://127.0.0.1:1/mcp cmd", "needs a name"),
        ("%tool server add x --url ftp://127.0.0.1/", "url"),
        ("%tool server add x --url http://example.com/mcp", "https"),
        ("%tool server add x --env NOPE cmd", "NAME=value"),
        ("%tool server add --env API_KEY=abcdefgh x cmd", "secret"),
        ("%tool server start nobody", "nobody"),
        ("%tool server logs", "one name"),
        ("%tool server import", "one file"),
        ("%tool server export nobody", "No server 'nobody'."),
        ("%tool server export vscode nobody", "No server 'nobody'."),
        ("%tool server import nowhere.json", "cannot be read"),
        ("%tool server import /", "is a folder"),
        ("%tool server list x", "does not know 'x'"),
    ],
)
def test_wrong_words(loaded: Kernel, line: str, said: str) -> None:
    assert said in refused(loaded, line)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (
            '{"mcpServers": {"a": {"command": "x", "args": ["1"]}}}',
            {"a": {"type": "stdio", "command": "x", "args": ["1"]}},
        ),
        (
            '{"servers": {"a": {"type": "http", "url": "https://h/mcp"}}}',
            {"a": {"type": "http", "url": "https://h/mcp"}},
        ),
        (
            '{"mcp": {"servers": {"a": {"url": "https://h"}}}}',
            {"a": {"type": "http", "url": "https://h"}},
        ),
        (
            '// c\n{"mcpServers": {"a": {"command": "x", /* no, */ "disabled": true,},}}',
            {"a": {"type": "stdio", "command": "x", "enabled": False}},
        ),
        (
            '{"mcpServers": {"a": {"command": "x//y", "env": {"K": "${env:HOME}"}}}}',
            {"a": {"type": "stdio", "command": "x//y", "env": {"K": "${HOME}"}}},
        ),
    ],
    ids=["claude", "vscode", "vscode settings", "comments", "variables"],
)
def test_client_files(tmp_path: Path, text: str, servers: dict[str, object]) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    assert {found.name: found.data for found in read_client_file(file)} == servers


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"mcpServers": {}}', '{"mcpServers": []}', "\x00", "[" * 100_000]
)
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(UsageProblem, match=r"mcp\.json"):
        read_client_file(file)


def test_what_looks_secret_is_told_apart() -> None:
    found = FoundServer(
        "git-hub",
        {
            "headers": {"Authorization": "Bearer abc", "X-Mode": "fast"},
            "env": {"GITHUB_TOKEN": TOKEN, "OTHER": "${X}"},
        },
    )
    data, secrets = without_secrets(found)
    assert secrets == {"GIT_HUB_AUTHORIZATION": "Bearer abc", "GIT_HUB_GITHUB_TOKEN": TOKEN}
    assert data["headers"] == {"Authorization": "${GIT_HUB_AUTHORIZATION}", "X-Mode": "fast"}
    assert data["env"] == {"GITHUB_TOKEN": "${GIT_HUB_GITHUB_TOKEN}", "OTHER": "${X}"}


SUMS = """
import sys
from mcp.server import MCPServer
server = MCPServer("sums")

@server.tool()
def total(a: int, b: int) -> int:
    "Add, times the factor."
    return (a + b) * int(sys.argv[sys.argv.index("--factor") + 1])

server.run()
"""


@pytest.mark.slow
def test_a_command_line_of_any_readme_is_taken_as_it_is_and_is_a_python_name_at_once(
    loaded: Kernel,
) -> None:
    """Flags behind the command are the command's, also those that we have too; ours stand before
    it."""
    (loaded.cwd / "sums.py").write_text(SUMS, encoding="utf-8")
    said = loaded.execute(
        f"%tool server add sums {sys.executable} -u sums.py -y --factor 10 --url x --save -- -c"
    ).text
    assert "sums: added for this session." in said
    assert "--url, --save went to the command" in said
    assert "Try: %tool server test sums" in said
    assert "(sums)" not in said
    assert loaded.execute("sums.total(a=1, b=2)", timeout=HANG_S).result_text == "30"
    assert not (loaded.cwd / ".onetool").exists()

    loaded.execute("%tool server remove sums")
    assert loaded.evaluate("'sums' in globals()") == "False", (
        "a name of a server that is gone stays"
    )


@pytest.mark.slow
def test_a_saved_server_is_removed_from_the_file(loaded: Kernel) -> None:
    file = loaded.cwd / ".onetool" / "onetool.yaml"
    file.parent.mkdir()
    mine = "version: 1  # mine\nservers:\n  other: {type: stdio, command: other}  # keep\n"
    file.write_text(mine, encoding="utf-8")
    loaded.execute("%reload_ext onetool_ipy")
    loaded.execute("%tool trust", allow_errors=True)
    (loaded.cwd / "sums.py").write_text(SUMS, encoding="utf-8")
    loaded.execute(f"%tool server add --save sums {sys.executable} sums.py --factor 1")
    assert "sums" in file.read_text(encoding="utf-8")
    assert loaded.execute("%tool server").text.count("not started") == 2, (
        "nobody waits for a server by adding one"
    )
    said = loaded.execute("%tool server remove sums").text
    assert f"sums is removed, also from {file}" in said
    assert loaded.evaluate("'sums' in globals()") == "False"
    assert file.read_text(encoding="utf-8") == mine
    loaded.execute("%tool server remove other")
    assert file.read_text(encoding="utf-8") == "version: 1  # mine\n"
    assert "no MCP servers" in loaded.execute("%tool server").text


def test_import_asks_and_a_no_changes_nothing(loaded: Kernel) -> None:
    own = {"command": sys.executable}
    servers = {"a": {**own, "env": {"KEY": TOKEN}}, "b": own}
    (loaded.cwd / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    importing = loaded.start_execute("%tool server import mcp.json", allow_stdin=True)
    loaded.answer_input("sure")
    said = importing.wait(HANG_S).text
    assert "'sure' is neither yes nor no, so it is a no." in said
    assert "Add 2 servers? You said no, " in said
    assert said.endswith("Nothing was changed.")
    loaded.execute("from onetool_ipy.core import current; servers = current.toolbox().servers")
    assert loaded.evaluate("list(servers)") == "[]"

    shown = loaded.execute("%tool server import mcp.json --yes").text
    assert "a: added for this session." in shown
    assert "${A_KEY}" not in shown
    assert TOKEN in (loaded.cwd / ".onetool" / "secrets.yaml").read_text()
    assert loaded.evaluate("sorted(servers)") == "['a', 'b']"
    assert loaded.evaluate("servers.definition('a').env['KEY']") == repr(TOKEN)
    assert "no new servers" in refused(loaded, "%tool server import mcp.json")


def test_the_json_of_a_readme_is_added_from_a_cell_after_a_yes(loaded: Kernel) -> None:
    entry = {"command": sys.executable, "args": ["-m", "mine"], "env": {"API_KEY": TOKEN}}
    readme = json.dumps({"mcpServers": {"a": entry}})

    assert "--yes" in refused(loaded, f"%%tool server add\n{readme}")
    adding = loaded.start_execute(f"%%tool server add\n{readme}", allow_stdin=True)
    question = loaded.answer_input("y").replace("\n       | ", "")
    said = adding.wait(HANG_S).text

    assert '+ a: {"type": "stdio", "command": "' in question
    assert '"args": ["-m", "mine"], "env": {"API_KEY": "${A_API_KEY}"}}' in question
    assert TOKEN not in question + said
    assert "a: added for this session." in said
    assert "Delete its secret from this cell before you share the notebook." in said
    assert TOKEN in (loaded.cwd / ".onetool" / "secrets.yaml").read_text()
    loaded.execute("from onetool_ipy.core import current; servers = current.toolbox().servers")
    assert loaded.evaluate("servers.definition('a').args") == "('-m', 'mine')"
    secrets = (loaded.cwd / ".onetool" / "secrets.yaml").read_bytes()
    other = readme.replace('"API_KEY"', '"OTHER_KEY"')
    assert "There is a server 'a'." in refused(loaded, f"%%tool server add --yes\n{other}")
    assert (loaded.cwd / ".onetool" / "secrets.yaml").read_bytes() == secrets


@pytest.mark.parametrize(
    ("line", "body", "said"),
    [
        ("add b x", '{"mcpServers": {}}', "'x' stands in the line"),
        ("add --env A=b", '{"mcpServers": {}}', "'--env' stands in the line"),
        ("add", '{"mcpServers": {}}', "This JSON has no servers."),
        ("add", '{"mcpServers":', "This text is not JSON: line 1, column 15"),
        ("add", "pip install mine", "installs a program and does not run a server"),
        ("add", "API_KEY='<yours>' {python} -m mine", "Add API_KEY to"),
        ("list", "x", "%tool server list takes no cell body."),
    ],
)
def test_a_cell_without_a_server_is_refused_in_words(
    loaded: Kernel, line: str, body: str, said: str
) -> None:
    body = body.replace("{python}", Path(sys.executable).as_posix())
    assert said in refused(loaded, f"%%tool server {line}\n{body}")
    assert loaded.execute("%tool server").result_text.startswith("There are no MCP servers.")


def test_export_shows_json_to_paste_without_secrets(loaded: Kernel) -> None:
    assert "no MCP servers to export" in loaded.execute("%tool server export").text
    (loaded.cwd / "mcp.json").write_text(
        json.dumps({"mcpServers": {"a": {"command": sys.executable, "env": {"KEY": TOKEN}}}})
    )
    loaded.execute("%tool server import mcp.json --yes --save")

    text = loaded.execute("%tool server export").result_text
    assert json.loads(text[: text.rindex("}") + 1])["mcpServers"]["a"]["env"] == {"KEY": "${A_KEY}"}
    assert "Set there: A_KEY." in text
    assert TOKEN not in text
    assert (
        json.loads(loaded.execute("%tool server export vscode a").result_text)["inputs"][0]["id"]
        == "A_KEY"
    )
    assert not (loaded.cwd / ".mcp.json").exists()


@pytest.mark.slow
def test_a_registry_card_asks_for_what_is_missing_and_shows_the_command(loaded: Kernel) -> None:
    server = real("time")
    variables = [
        {"name": "CLOCK_KEY", "isRequired": True, "isSecret": True, "description": "A key\x07"}
    ]
    package = {
        "registryType": "pypi",
        "identifier": "mcp-server-time",
        "environmentVariables": variables,
    }
    card = {"name": "io.github.someone/clock", "version": "1", "packages": [package]}
    (loaded.cwd / "server.json").write_text(json.dumps(card))
    loaded.execute(
        f"import os; path = os.environ['PATH']; os.environ['PATH'] = {str(loaded.cwd)!r}"
    )
    # The person is told before a value is asked for.
    assert "There is no program 'uvx'" in refused(loaded, "%tool server add server.json")
    programs = loaded.cwd / "programs"
    programs.mkdir()
    (programs / "uvx").write_text(f'#!/bin/sh\nshift\nexec {server["command"]} "$@"\n')
    (programs / "uvx").chmod(0o755)
    loaded.execute(f"os.environ['PATH'] = {str(programs)!r} + os.pathsep + path")

    assert "needs 'CLOCK_KEY'" in refused(loaded, "%tool server add server.json")
    adding = loaded.start_execute("%tool server add server.json --save", allow_stdin=True)
    loaded.answer_input(TOKEN)
    assert loaded.answer_input("n").endswith("\nAdd the server 'clock'? [y/N] ")
    assert adding.wait(HANG_S).text.endswith("Nothing was changed.")
    assert not (loaded.cwd / ".onetool").exists()
    adding = loaded.start_execute("%tool server add server.json --save", allow_stdin=True)
    needs = loaded.answer_input(TOKEN)
    assert needs.startswith("The server 'clock' needs 'CLOCK_KEY'.\nA key\\x07\nCLOCK_KEY (text")
    question = loaded.answer_input("y").replace("\n       | ", "")
    assert (
        '"command": "uvx", "args": ["mcp-server-time"], "env": {"CLOCK_KEY": "${CLOCK_CLOCK_KEY}"}'
        in question
    )
    assert TOKEN not in question + adding.wait(HANG_S).text
    assert TOKEN not in (loaded.cwd / ".onetool" / "onetool.yaml").read_text()
    assert TOKEN in (loaded.cwd / ".onetool" / "secrets.yaml").read_text()
    assert "works" in loaded.execute("%tool server test clock", timeout=HANG_S).text
    again = refused(loaded, "%tool server add server.json")
    assert "There is a server 'clock'." in again
    assert (
        "other: added"
        in loaded.execute("%tool server add --yes --env CLOCK_KEY=k other server.json").text
    )
    (loaded.cwd / "other.json").write_text("{}")
    assert "not a registry card" in refused(loaded, "%tool server add other.json")
