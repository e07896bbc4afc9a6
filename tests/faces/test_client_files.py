"""The files of other clients: read into our terms, and ours written so that each client reads the same server."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.client_files import CLIENTS, FoundServer, as_ours, merged, read_client_file, translate
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


def written(client: str, *servers: FoundServer, before: str = "") -> tuple[str, list[str]]:
    entries, notes = {}, []
    for server in servers:
        entry, said = translate(client, server)
        notes += said
        if entry is not None:
            entries[server.name] = entry
    return merged(client, before, entries), notes


@pytest.mark.parametrize("client", CLIENTS)
def test_no_secret_leaves_in_plain_text(client: str) -> None:
    text, notes = written(client, STDIO, HTTP)

    assert TOKEN not in text
    assert TOKEN not in " ".join(notes)
    assert "npx" in text


@pytest.mark.parametrize("client", ["claude-code", "vscode", "cursor"])
def test_a_client_with_variables_reads_the_same_server(client: str, tmp_path: Path) -> None:
    text, notes = written(client, STDIO, HTTP)
    file = tmp_path / "mcp.json"
    file.write_text(text, encoding="utf-8")

    back = {found.name: found.data for found in read_client_file(file)}

    assert back == {server.name: apart(server)[0] for server in (STDIO, HTTP)}
    assert notes == []


def test_vs_code_asks_for_what_is_secret() -> None:
    document = json.loads(written("vscode", STDIO, before='{"inputs": [{"id": "GITHUB_TOKEN", "type": "x"}]}')[0])

    assert document["servers"]["git-hub"]["env"]["GITHUB_TOKEN"] == "${input:GITHUB_TOKEN}"
    asked = {one["id"]: one for one in document["inputs"]}
    assert set(asked) == {"GITHUB_TOKEN", "RENAMED", "GIT_HUB_API_KEY"}
    assert asked["GITHUB_TOKEN"]["type"] == "x"
    assert asked["RENAMED"] == {"type": "promptString", "id": "RENAMED", "description": "RENAMED", "password": True}


def test_codex_takes_variables_by_its_own_keys() -> None:
    text, notes = written("codex", STDIO, HTTP, before='model = "o1"\n')
    document = tomllib.loads(text)

    assert document["model"] == "o1"
    assert document["mcp_servers"]["git-hub"] == {
        "command": "npx",
        "args": ["-y", "some-mcp", "--mode", "x"],
        "env": {"PLAIN": "1"},
        "env_vars": ["GITHUB_TOKEN"],
    }
    assert document["mcp_servers"]["docs"] == {
        "url": "https://docs.example.com/mcp",
        "bearer_token_env_var": "DOCS_TOKEN",
        "env_http_headers": {"X-Api-Key": "DOCS_X_API_KEY"},
        "http_headers": {"X-Mode": "fast"},
    }
    assert len(notes) == 2
    assert "Codex cannot take 'OTHER' from ${RENAMED}" in notes[0]


def test_codex_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(written("codex", STDIO, HTTP)[0], encoding="utf-8")

    found = {one.name: one.data for one in read_client_file(file)}

    assert found["git-hub"]["env"] == {"PLAIN": "1", "GITHUB_TOKEN": "${GITHUB_TOKEN}"}
    assert found["docs"]["headers"] == {
        "X-Mode": "fast",
        "X-Api-Key": "${DOCS_X_API_KEY}",
        "Authorization": "Bearer ${DOCS_TOKEN}",
    }
    with pytest.raises(UsageProblem, match="another server 'docs'"):
        merged("codex", file.read_text(encoding="utf-8"), {"docs": {"url": "https://other"}})


def test_jupyter_ai_has_lists(tmp_path: Path) -> None:
    before = json.dumps({"mcp_servers": [{"name": "old", "command": "x", "args": [], "env": []}, {"name": "docs"}]})
    text, notes = written("jupyter-ai", STDIO, HTTP, before=before)

    old, first, second = json.loads(text)["mcp_servers"]
    assert old["name"] == "old"
    assert first == {
        "name": "git-hub",
        "command": "npx",
        "args": ["-y", "some-mcp", "--mode", "x"],
        "env": [{"name": "PLAIN", "value": "1"}],
    }
    assert second == {
        "name": "docs",
        "url": "https://docs.example.com/mcp",
        "type": "http",
        "headers": [{"name": "X-Mode", "value": "fast"}],
    }
    assert len(notes) == 5
    file = tmp_path / "mcp_settings.json"
    file.write_text(text, encoding="utf-8")
    assert {one.name: one.data for one in read_client_file(file)}["git-hub"]["env"] == {"PLAIN": "1"}


def test_claude_desktop_starts_programs_only() -> None:
    text, notes = written("claude-desktop", STDIO, HTTP, before='{"theme": "dark", // mine\n}')

    document = json.loads(text)
    assert document["theme"] == "dark"
    assert list(document["mcpServers"]) == ["git-hub"]
    assert document["mcpServers"]["git-hub"]["env"] == {"PLAIN": "1"}
    assert any("takes only servers that it starts" in note for note in notes)


@pytest.mark.parametrize("client", CLIENTS)
def test_other_entries_stay(client: str) -> None:
    if client == "codex":
        before = '[mcp_servers.mine]\ncommand = "a"\n'
    elif client == "jupyter-ai":
        before = '{"mcp_servers": [{"name": "mine", "command": "a"}]}'
    else:
        before = json.dumps({CLIENTS[client].key: {"mine": {"command": "a"}}})

    text, _ = written(client, FoundServer("new", {"type": "stdio", "command": "b"}), before=before)

    assert '"a"' in text
    assert '"b"' in text


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
