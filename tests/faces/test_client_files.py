"""The files of other clients: read into our terms, and ours as JSON that a client reads as the same
server."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.client_files import (
    CLIENTS,
    FAMILIES,
    FoundServer,
    as_ours,
    parse_json,
    read_client_file,
    servers_in,
    snippet,
    with_entry,
)
from onetool_ipy.faces.client_files import without_secrets as apart

TOKEN = "tok-12345-secret"
STDIO = FoundServer(
    "git-hub",
    {
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "some-mcp", "--mode", "x"],
        "env": {
            "GITHUB_TOKEN": "${GITHUB_TOKEN}",
            "OTHER": "${RENAMED}",
            "PLAIN": "1",
            "API_KEY": TOKEN,
        },
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
def test_a_snippet_reads_back_as_the_same_servers_without_their_secrets(
    family: str, tmp_path: Path
) -> None:
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
    assert [one["id"] for one in document["inputs"]] == [
        "GITHUB_TOKEN",
        "GIT_HUB_API_KEY",
        "RENAMED",
    ]
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
        '[mcp_servers.git-hub]\ncommand = "npx"\nenv = { PLAIN = "1" }\nenv_vars ='
        ' ["GITHUB_TOKEN"]\n[mcp_servers.docs]\nurl ='
        ' "https://docs.example.com/mcp"\nbearer_token_env_var = "DOCS_TOKEN"\nenv_http_headers = {'
        ' X-Api-Key = "DOCS_X_API_KEY" }\nhttp_headers = { X-Mode = "fast" }\n',
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
    entry = {
        "name": "git-hub",
        "command": "npx",
        "args": [],
        "env": [{"name": "PLAIN", "value": "1"}],
    }
    file.write_text(json.dumps({"mcp_servers": [entry]}), encoding="utf-8")

    assert {one.name: one.data for one in read_client_file(file)}["git-hub"]["env"] == {
        "PLAIN": "1"
    }


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
    for data in (
        None,
        7,
        [],
        {"env": [7, {"name": 1}]},
        {"url": {"a": 1}},
        {"env_vars": [1]},
        {"headers": "x"},
    ):
        assert as_ours("a", data).name == "a"


# --- one entry more in a client's file

OWN = FoundServer(
    "onetool-work", {"command": "/é/python", "args": ["-m", "onetool_ipy"], "env": {"A": "b"}}
)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text('a\\"/{}[],:é*', max_size=4)
ITEMS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('ab"/', max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
NOISE = st.sampled_from(
    ["", "", " ", "\t", "\n  ", "\r\n\t", '// note } ] "\n', "/* { , */", "\n\n    "]
)


def _written(draw: st.DrawFn, value: object) -> str:
    """The value as somebody may have typed it: blanks, comments and trailing commas anywhere."""
    if not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    pairs = value.items() if isinstance(value, dict) else [(None, item) for item in value]
    parts = []
    for key, item in pairs:
        label = "" if key is None else f"{json.dumps(key)}{draw(NOISE)}:{draw(NOISE)}"
        parts.append(f"{draw(NOISE)}{label}{_written(draw, item)}{draw(NOISE)}")
    comma = "," if parts and draw(st.booleans()) else ""
    return f"{opening}{draw(NOISE)}{','.join(parts)}{comma}{draw(NOISE)}{closing}"


@st.composite
def client_documents(draw: st.DrawFn, client: str) -> tuple[str, dict[str, object]]:
    document = dict(draw(st.dictionaries(st.text("ab", max_size=2), ITEMS, max_size=3)))
    entries = {
        name: {"command": name} for name in draw(st.lists(st.sampled_from("xyz"), unique=True))
    }
    is_list = client == "jupyter-ai"
    servers: object = (
        [{"name": name, **entry} for name, entry in entries.items()] if is_list else entries
    )
    if draw(st.booleans()):
        document[CLIENTS[client].key] = servers
    order = draw(st.permutations(list(document)))
    text = _written(draw, {key: document[key] for key in order})
    return draw(st.sampled_from(["", "\ufeff"])) + draw(NOISE) + text + draw(NOISE), document


@pytest.mark.slow
@given(data=st.data(), client=st.sampled_from([name for name in CLIENTS if name != "codex"]))
def test_an_entry_is_put_in_at_one_place_and_every_other_character_stays(
    data: st.DataObject, client: str
) -> None:
    """The naive twin adds to the parsed document; of the text, a beginning and an end are the old
    text."""
    text, document = data.draw(client_documents(client))
    after = with_entry(client, Path("file.json"), text, OWN)
    start = next(
        (at for at, (old, new) in enumerate(zip(text, after, strict=False)) if old != new),
        len(text),
    )
    assert after.endswith(text[start:]) or any(
        text.startswith(after[:at]) and after.endswith(text[at:]) for at in range(start + 1)
    )
    again = parse_json(after)
    assert {key: value for key, value in again.items() if key != CLIENTS[client].key} == {
        key: value for key, value in document.items() if key != CLIENTS[client].key
    }
    before = servers_in({CLIENTS[client].key: document.get(CLIENTS[client].key, {})})
    assert {name: entry for name, entry in servers_in(again).items() if name != OWN.name} == before
    assert as_ours(OWN.name, servers_in(again)[OWN.name]).data == {"type": "stdio", **OWN.data}
    assert with_entry(client, Path("file.json"), after, OWN) == after


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_toml_file_keeps_every_byte_before_the_entry(newline: str, mark: str) -> None:
    text = mark + newline.join(
        ["# mine", "model = 'é'", "[mcp_servers.a]", "command = 'x'  # c", ""]
    )
    after = with_entry("codex", Path("config.toml"), text, OWN)
    assert after.startswith(text)
    assert ("\r\n" in after) == (newline == "\r\n")
    assert "\n" not in after.replace("\r\n", "") or newline == "\n"
    servers = tomllib.loads(after.removeprefix("\ufeff").replace("\r\n", "\n"))["mcp_servers"]
    assert servers == {"a": {"command": "x"}, OWN.name: OWN.data}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "is nested deeper than 200 levels"),
        ('{"mcpServers": {"a": {"command": "\\ud800"}}}', "has half of a character"),
        ('{"mcpServers": {"a": 1e999}}', "has a number that is too large"),
        ('{"mcpServers": {"a": ' + "9" * 5_000 + "}}", "has a number that is too long"),
        ('{"a": NaN}', "'NaN' is not a number"),
        ("{", "is not JSON: line 1"),
    ],
    ids=["deep", "half", "large", "long", "NaN", "cut"],
)
def test_a_file_that_is_no_json_is_said_in_words(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mcp.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageProblem, match=words):
        read_client_file(tmp_path / "mcp.json")
    with pytest.raises(UsageProblem, match=words):
        with_entry("cursor", tmp_path / "mcp.json", text, OWN)
