"""`%tool server export CLIENT --self`: this notebook in another client's file, and an agent that
uses it from there."""

from __future__ import annotations

import json
import subprocess
import tomllib
from ast import literal_eval
from pathlib import Path

import pytest

from onetool_ipy.faces.client_files import CLIENTS
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S
from tests.harness.servers import others_python
from tests.harness.surroundings import ROOT

_CELL = """
from onetool_ipy import tool
basket = ["tea"]
@tool(read_only=True)
def in_basket() -> list[str]:
    "What is in the basket."
    return basket
"""


@pytest.fixture
def loaded(loaded: Kernel) -> Kernel:
    loaded.execute("from pathlib import Path; home = Path.home()")
    return loaded


def _file(loaded: Kernel, client: str) -> Path:
    return CLIENTS[client].path(loaded.cwd, Path(loaded.evaluate("str(home)").strip("'")))


@pytest.fixture
def clean(loaded: Kernel) -> Kernel:
    """The kernel, with none of the clients' files in the home folder."""
    for client in CLIENTS:
        _file(loaded, client).unlink(missing_ok=True)
    return loaded


@pytest.mark.parametrize("client", list(CLIENTS))
def test_each_client_gets_an_entry_that_attaches_to_this_project(
    clean: Kernel, client: str
) -> None:
    text = clean.execute(f"%tool server export {client} --self --yes").text
    file = _file(clean, client)
    document = (
        tomllib.loads(file.read_text()) if client == "codex" else json.loads(file.read_text())
    )
    entries = document[CLIENTS[client].key]
    (entry,) = entries if isinstance(entries, list) else entries.values()
    (name,) = [entry["name"]] if isinstance(entries, list) else entries
    env = (
        {each["name"]: each["value"] for each in entry["env"]}
        if isinstance(entries, list)
        else entry["env"]
    )
    assert name.startswith("onetool-")
    assert f"'{name}' is in {file} now." in text
    assert entry["command"] == literal_eval(clean.evaluate("__import__('sys').executable"))
    assert entry["args"] == ["-m", "onetool_ipy", "mcp", "--attach", str(clean.cwd)]
    state = clean.evaluate("__import__('os').environ['ONETOOL_STATE']")
    assert env["ONETOOL_STATE"] == literal_eval(state)
    again = clean.execute(f"%tool server export {client} --self --yes").text
    assert "already" in again


def test_the_difference_is_shown_and_a_no_changes_nothing(clean: Kernel) -> None:
    file = clean.cwd / ".mcp.json"
    before = (
        '{\n    "mcpServers": {\n        "mine": {\n            "command": "x"\n        }\n   '
        " }\n}\n"
    )
    file.write_text(before)
    running = clean.start_execute("%tool server export claude-code --self", allow_stdin=True)
    question = clean.answer_input("n")
    assert '+ "onetool-' in " ".join(question.split())
    assert f"to {file}?" in question.replace("\n       | ", "")
    assert running.wait(HANG_S).text.endswith("Nothing was changed.")
    assert file.read_text() == before
    clean.execute("%tool server export claude-code --self --yes")
    after = file.read_text()
    assert json.loads(after)["mcpServers"]["mine"] == {"command": "x"}
    head, tail = (
        before[: before.index('\n        "mine')],
        before[before.index('\n        "mine') :],
    )
    assert after.startswith(head)
    assert after.endswith(tail)


def test_a_file_behind_a_link_is_named_by_its_real_path(clean: Kernel) -> None:
    """Dotfiles are often links into a repository; a yes is to the file that is written."""
    link, real = clean.cwd / ".mcp.json", clean.cwd / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    before = (
        b'\xef\xbb\xbf{\r\n  // my servers\r\n  "mcpServers": {"mine": {"command":'
        b' "x",},},\r\n}\r\n'
    )
    real.write_bytes(before)
    link.symlink_to(real)
    clean.start_execute("%tool server export claude-code --self", allow_stdin=True)
    question = clean.answer_input("y").replace("\n       | ", "")
    assert f"to {real} (the link {link} leads there)?" in question
    clean.execute("pass")
    after = real.read_bytes()
    assert link.is_symlink()
    start = before.index(b'{"mine"') + 1
    assert after[:start] == before[:start]
    assert after.endswith(before[start:])
    assert len(after) > len(before)


@pytest.mark.parametrize(
    ("client", "text", "words"),
    [
        ("vscode", '{"servers": {} // mine\n', 'Paste this there: { "servers": { "onetool-'),
        ("vscode", '{"servers": ' + "[" * 5_000, 'Paste this there: { "servers": { "onetool-'),
        ("cursor", '{"a": 1e999}', 'Paste this there: { "mcpServers": { "onetool-'),
        ("cursor", '{"mcpServers": null}', 'Paste this there: { "mcpServers": { "onetool-'),
        ("cursor", "[1]", 'Paste this there: { "mcpServers": { "onetool-'),
        (
            "cursor",
            '{"mcpServers": {"NAME": {"command": "other"}}}',
            "it has another entry 'onetool-",
        ),
        ("codex", "mcp_servers = {a = {command = 'x'}}", "Paste this there: [mcp_servers.onetool-"),
        ("codex", "= broken", "Paste this there: [mcp_servers.onetool-"),
    ],
)
def test_a_file_that_cannot_be_kept_whole_is_left_alone(
    clean: Kernel, client: str, text: str, words: str
) -> None:
    file = _file(clean, client)
    file.parent.mkdir(parents=True, exist_ok=True)
    clean.execute("%tool server export claude-code --self --yes")
    name = next(iter(json.loads((clean.cwd / ".mcp.json").read_text())["mcpServers"]))
    file.write_text(text.replace("NAME", name))
    refused = clean.execute(f"%tool server export {client} --self --yes", allow_errors=True).text
    assert words in " ".join(refused.split())
    assert f"'{file}' is not changed:" in refused
    assert file.read_text() == text.replace("NAME", name)


@pytest.mark.parametrize("line", ["--self", "nobody --self", "cursor vscode --self"])
def test_one_client_is_needed(clean: Kernel, line: str) -> None:
    assert (
        "needs one client" in clean.execute(f"%tool server export {line}", allow_errors=True).text
    )


@pytest.mark.slow
@pytest.mark.parametrize("client", ["jupyter-ai", "notebook-intelligence"])
def test_a_client_started_from_its_file_calls_a_tool_of_the_live_kernel(
    clean: Kernel, client: str
) -> None:
    """The client's own settings model reads the file; an MCP client of the older SDK starts what it
    names."""
    clean.execute(_CELL)
    clean.execute(f"%tool server export {client} --self --yes")
    clean.execute("%tool serve")
    clean.execute("basket.append('pear')")
    program = ROOT / "tests" / "faces" / "mcp" / "settings_client.py"
    command = [
        others_python("clients"),
        str(program),
        client,
        str(_file(clean, client)),
        "nb_in_basket",
    ]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    finally:
        clean.execute("%tool serve stop")
    assert ended.returncode == 0, ended.stderr[-2000:]
    (call,) = json.loads(ended.stdout.splitlines()[-1])["calls"]
    assert call["status"] == "success"
    assert "pear" in call["content"]
