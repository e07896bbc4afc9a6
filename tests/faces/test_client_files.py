"""The files of other clients: read into our terms, and ours as JSON that a client reads as the same server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.faces.client_files import FAMILIES, FoundServer, as_ours, read_client_file, snippet
from onetool_ipy.faces.client_files import without_secrets as apart

TOKEN = "tok-12345-secret"
STDIO = FoundServer(
    "git-hub",
    {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "some-mcp", "--mode", "x"],
        "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "OTHER": "${RENAMED}", "PLAIN": "1", "API_KEY": TOKEN},
    },
)
HTTP = FoundServer(
    "docs",
    {
        "type": "http",
        "url": "https://docs.example.com/mcp",
        "headers": {"Authorization": "Bearer ${DOCS_TOKEN}", "X-Api-Key": TOKEN, "X-Mode": "fast"},
    },
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_snippet_reads_back_as_the_same_servers_without_their_secrets(family: str, tmp_path: Path) -> None:
    text, notes = snippet(family, [STDIO, HTTP])
    file = tmp_path / "mcp.json"
    file.write_text(text, encoding="utf-8")

    assert {one.name: one.data for one in read_client_file(file)} == {
        server.name: apart(server)[0] for server in (STDIO, HTTP)
    }
    assert TOKEN not in text + " ".join(notes)


def test_vs_code_asks_for_what_is_secret_and_others_are_told_to_set_it() -> None:
    document = json.loads(snippet("vscode", [STDIO])[0])

    assert document["servers"]["git-hub"]["env"]["GITHUB_TOKEN"] == "${input:GITHUB_TOKEN}"
    assert [one["id"] for one in document["inputs"]] == ["GITHUB_TOKEN", "GIT_HUB_API_KEY", "RENAMED"]
    assert document["inputs"][2] == {
        "type": "promptString", "id": "RENAMED", "description": "RENAMED", "password": True,
    }  # fmt: skip
    _, notes = snippet("claude", [STDIO])
    assert notes[0].startswith("Set there: GITHUB_TOKEN, GIT_HUB_API_KEY, RENAMED.")


def test_a_folder_is_left_out_for_clients_that_know_none() -> None:
    server = FoundServer("a", {"type": "stdio", "command": "x", "cwd": "/srv"})

    text, notes = snippet("claude", [server])
    assert "cwd" not in text
    assert notes == ["a: Claude, Cursor and most clients have no 'cwd', so it is left out."]
    assert json.loads(snippet("vscode", [server])[0])["servers"]["a"]["cwd"] == "/srv"


def test_codex_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[mcp_servers.git-hub]\ncommand = "npx"\nenv = { PLAIN = "1" }\nenv_vars = ["GITHUB_TOKEN"]\n'
        '[mcp_servers.docs]\nurl = "https://docs.example.com/mcp"\nbearer_token_env_var = "DOCS_TOKEN"\n'
        'env_http_headers = { X-Api-Key = "DOCS_X_API_KEY" }\nhttp_headers = { X-Mode = "fast" }\n',
        encoding="utf-8",
    )

    servers = {one.name: one.data for one in read_client_file(file)}

    assert servers["git-hub"]["env"] == {"PLAIN": "1", "GITHUB_TOKEN": "${GITHUB_TOKEN}"}
    assert servers["docs"]["headers"] == {
        "X-Mode": "fast",
        "X-Api-Key": "${DOCS_X_API_KEY}",
        "Authorization": "Bearer ${DOCS_TOKEN}",
    }


def test_files_of_jupyter_ai_have_lists(tmp_path: Path) -> None:
    file = tmp_path / "mcp_settings.json"
    entry = {"name": "git-hub", "command": "npx", "args": [], "env": [{"name": "PLAIN", "value": "1"}]}
    file.write_text(json.dumps({"mcp_servers": [entry]}), encoding="utf-8")

    assert {one.name: one.data for one in read_client_file(file)}["git-hub"]["env"] == {"PLAIN": "1"}


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--api-key", TOKEN], ["--api-key", "${S_API_KEY}"]),
        ([f"--token={TOKEN}", "x"], ["--token=${S_TOKEN}", "x"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--api-key", "${KEY}"], ["--api-key", "${KEY}"]),
        (["--name", "x", 7], ["--name", "x", 7]),
        (["--Passwort", TOKEN, f"-pw={TOKEN}"], ["--Passwort", "${S_PASSWORT}", "-pw=${S_PW}"]),
    ],
)
def test_secrets_among_arguments_are_told_apart(args: list[Any], kept: list[Any]) -> None:
    assert apart(FoundServer("s", {"args": args}))[0]["args"] == kept


def test_hostile_entries_are_only_data() -> None:
    for data in (None, 7, [], {"env": [7, {"name": 1}]}, {"url": {"a": 1}}, {"env_vars": [1]}, {"headers": "x"}):
        assert as_ours("a", data).name == "a"
