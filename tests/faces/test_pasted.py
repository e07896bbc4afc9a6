"""What a pasted text is, and which step follows; what nothing can be made of is refused in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.faces.client_files import FoundServer, without_secrets
from onetool_ipy.faces.pasted import Pasted, read, servers_of
from onetool_ipy.toolbox import Toolbox

PETS = "openapi: 3.1.0\ninfo: {title: Pets, version: '1'}\npaths: {}\n"
POSTMAN_SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
POSTMAN = {"info": {"name": "Shop", "schema": POSTMAN_SCHEMA}, "item": []}
CARD = {
    "name": "io.github.someone/weather",
    "remotes": [
        {
            "type": "streamable-http",
            "url": "https://weather.example/mcp",
            "headers": [{"name": "X-Key", "isRequired": True, "isSecret": True}],
        }
    ],
}


def server_json(**entry: object) -> str:
    command = {} if "url" in entry else {"command": sys.executable}
    return json.dumps({"mcpServers": {"x": {**command, **entry}}})


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "pets.yaml").write_bytes(PETS.encode())
    (tmp_path / "page.json").write_text("<html>", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    (tmp_path / "serve.py").write_text("", encoding="utf-8")
    opened = open_toolbox(tmp_path)
    yield opened
    opened.close()


def steps(pasted: Pasted) -> list[str]:
    return [choice.kind for choice in pasted.choices]


@pytest.mark.parametrize(
    ("text", "kinds", "says"),
    [
        (
            "curl https://api.example.com/orders/{id}",
            ["http"],
            "A curl command: makes an HTTP tool GET /orders/{id} of api.example.com.",
        ),
        (
            "$ curl -X POST https://a.example/x -H 'Authorization: Bearer abc'",
            ["http"],
            "POST /x of a.example. Its credentials become secrets of the project: ",
        ),
        ('curl https://a.example/x -H "X-Key: $NO_KEY"', ["http"], "It needs NO_KEY."),
        (
            "https://api.example.com/v1/orders",
            ["http", "import", "server"],
            "An address: makes an HTTP tool GET /v1/orders of api.example.com.",
        ),
        (
            "http://127.0.0.1:8000/openapi.json",
            ["import", "http", "server"],
            "The description of an API, by its look",
        ),
        ("https://mcp.linear.app/sse", ["server", "http", "import"], "The address of an MCP"),
        ("https://tools.example/mcp", ["server", "http", "import"], "The address of an MCP"),
        (PETS, ["import"], "An OpenAPI document"),
        ("pets.yaml", ["import"], "The file pets.yaml: An OpenAPI document"),
        ('{"swagger": "2.0", "info": {"title": "Old"}}', ["import"], "A Swagger document, 'Old'"),
        (
            json.dumps(POSTMAN),
            ["import"],
            "A Postman collection, 'Shop'",
        ),
        (f"{sys.executable} serve.py", ["server"], "A command line: an MCP server. It runs this:"),
        (json.dumps(CARD), ["server"], "The JSON of an MCP server. It connects to this:"),
        (
            json.dumps({"mcpServers": {n: {"command": sys.executable} for n in ("a", "b")}}),
            ["server"],
            "The JSON of 2 MCP servers. They run this:",
        ),
    ],
    ids=range(14),
)
def test_a_text_says_what_it_is_and_what_follows(
    box: Toolbox, text: str, kinds: list[str], says: str
) -> None:
    pasted = read(box, text)

    assert steps(pasted) == kinds
    assert says in pasted.says


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Nothing was pasted."),
        ("pip install mcp-server-time", "'pip install' installs a program"),
        ("!pip install mcp-server-time", "'pip install' installs a program"),
        ("no-such-program", "neither an address, nor a file, nor a program"),
        ("no-such-program --port 1", "There is no program 'no-such-program' on your PATH."),
        ("nosuch.json", "There is no file 'nosuch.json' in "),
        ("page.json", "This is a web page or XML"),
        ("<!doctype html><html>", "This is a web page or XML"),
        ("serve.py", "'serve.py' is a Python file."),
        ("git clone https://a.example/x", "'git' does not run an MCP server."),
        ("rm -rf build", "'rm' does not run an MCP server."),
        ("/bin/rm -rf build", "'/bin/rm' does not run an MCP server."),
        ("notes.txt", "'notes.txt' is a file, but not one that can be added."),
        ("ftp://a.example/x", "'ftp://a.example/x' is not an address that can be used."),
        ("npx -y", "'npx -y' names no package."),
        ("uvx --quiet", "'uvx --quiet' names no package."),
        ("GET https://a.example/x", "'GET https://a.example/x' is a request"),
        ("def f(x):\n    return x", "This is Python."),
        ("https://", "'https://' is not an address."),
        ("curl", "The command has no URL"),
        ("curl -d", "The option 'data' has no value."),
        ('{"a": 1', "This text is not JSON"),
        ("[1]", "This JSON is neither the description of an API nor of MCP servers."),
        ('{"log": {"entries": []}}', "A HAR file is not imported."),
        ('{"x": {"command": "no-such-program"}}', "There is no program 'no-such-program'"),
        ("python 'serve.py", "This is not a command line"),
        ("python a.py && rm x", "&& is for a shell"),
        ("python a.py; rm x", "; is for a shell"),
        ("python a.py | sh", "| is for a shell"),
        ("python a.py > x", "> is for a shell"),
        ("python a.py & rm x", "& is for a shell"),
        ("python $(rm x)", "$( is for a shell"),
        ("python `rm x`", "` is for a shell"),
        ("python a.py\nrm x", "A second line is for a shell"),
        ("claude mcp add x -- python a.py && rm x", "&& is for a shell"),
        ("x" * 1_000_000, "This has 1,000,000 characters"),
        (
            "https://a.example/mcp https://b.example",
            "'https://b.example' stands behind the address",
        ),
        ('{"mcpServers": {}}', "This JSON has no servers."),
        ('{"mcpServers": {"a": {"mcpServers": {}}}}', "This JSON has no servers."),
        (server_json(args="-c x"), "x.args: '-c x' is not a list."),
        (server_json(args=[None]), "x.args[0]: 'None' is not text."),
        (server_json(url="file:///etc/passwd"), "is not an http:// or https:// address"),
        (json.dumps({"../../x": {"command": "python"}}), "'../../x' is not a server's name"),
    ],
)
def test_what_nothing_can_be_made_of_is_refused_in_words(
    box: Toolbox, text: str, words: str
) -> None:
    with pytest.raises(OneToolError) as caught:
        read(box, text)

    assert words in caught.value.message


@pytest.mark.parametrize(
    "around",
    ["```json\n{}\n```", "// In .vscode/mcp.json:\n{}", "/* one\ntwo */\n// three\n\n{}\n// end"],
    ids=["fence", "comment", "comments"],
)
def test_json_is_read_as_a_page_shows_it(box: Toolbox, tmp_path: Path, around: str) -> None:
    text = around.replace("{}", server_json(args=["-y", "notes"]).replace("]}", "], /* more */}"))
    (tmp_path / "mcp.json").write_text(text.replace("```json", "").strip("`"), encoding="utf-8")

    for pasted in (text, "mcp.json"):
        (server,), _, _ = servers_of(box, pasted)
        assert (server.name, server.data["args"]) == ("x", ["-y", "notes"])
        assert steps(read(box, pasted)) == ["server"]


def test_looking_at_a_text_starts_and_stores_nothing(box: Toolbox, tmp_path: Path) -> None:
    files = sorted(path.name for path in tmp_path.rglob("*"))

    read(box, f"{sys.executable} -c \"open('ran', 'w')\"")

    assert list(box.servers) == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == files


def test_a_file_to_import_is_read_and_its_text_is_handed_on(box: Toolbox) -> None:
    assert read(box, "pets.yaml").document == PETS.strip()
    assert read(box, PETS).document == ""


@pytest.mark.parametrize(
    ("entry", "fields", "data"),
    [
        (
            {"env": {"KEY": "<your key>", "LEVEL": "debug"}},
            ["KEY"],
            {"env": {"KEY": "${KEY}", "LEVEL": "debug"}},
        ),
        ({"env": {"API_KEY": ""}}, ["API_KEY"], {"env": {"API_KEY": "${API_KEY}"}}),
        (
            {"args": ["--api-key", "YOUR_KEY", "--to=<place>", "plain"]},
            ["N_API_KEY", "N_TO"],
            {"args": ["--api-key", "${N_API_KEY}", "--to=${N_TO}", "plain"]},
        ),
        (
            {"args": ["-e", "KEY=<your key>", "--api-key", 8000, "a=b"]},
            ["N_KEY"],
            {"args": ["-e", "KEY=${N_KEY}", "--api-key", "8000", "a=b"]},
        ),
        ({"args": ["--key", "${NO_KEY}"]}, ["NO_KEY"], {"args": ["--key", "${NO_KEY}"]}),
        ({"env": {"API_KEY": "sk-1234"}}, [], {"env": {"API_KEY": "sk-1234"}}),
    ],
)
def test_what_a_readme_leaves_open_is_a_field(
    box: Toolbox, entry: dict[str, object], fields: list[str], data: dict[str, object]
) -> None:
    text = json.dumps({"n": {"command": sys.executable, **entry}})

    (server,), lacking, _ = servers_of(box, text)

    assert [field.name for field in lacking] == fields
    assert {key: server.data[key] for key in data} == data


def test_the_header_of_an_address_keeps_its_scheme(box: Toolbox) -> None:
    """What a field is for is what stood in its place, without the scheme."""
    headers = {"Authorization": "Bearer <token>", "X-Tenant": "<tenant>"}
    entry = {"url": "https://x.example/mcp", "headers": headers}

    (server,), lacking, _ = servers_of(box, json.dumps({"n": entry}))

    assert server.data["headers"] == {
        "Authorization": "Bearer ${N_AUTHORIZATION}",
        "X-Tenant": "${N_X_TENANT}",
    }
    assert {*lacking} == {("N_AUTHORIZATION", "<token>"), ("N_X_TENANT", "<tenant>")}


def test_a_secret_is_named_and_never_shown(box: Toolbox) -> None:
    text = json.dumps({"n": {"command": sys.executable, "args": ["--token", "s3cr3t"]}})

    pasted = read(box, text)

    assert "N_TOKEN" in pasted.says
    assert "s3cr3t" not in repr(pasted)


def test_all_that_a_server_would_run_with_is_shown_before_a_yes(box: Toolbox) -> None:
    entry = {
        "args": ["-c", f"{' ' * 400}evil()\u200b"],
        "env": {"LD_PRELOAD": "/tmp/x.so"},
        "cwd": "/tmp/x",
    }

    shown = "\n".join(read(box, server_json(**entry)).runs)

    assert "evil()\\u200b" in shown
    assert "sets LD_PRELOAD=/tmp/x.so" in shown
    assert "runs in /tmp/x" in shown


def test_a_secret_that_an_address_gets_is_named_before_a_yes(box: Toolbox) -> None:
    entry = {"url": "https://x.example/mcp", "headers": {"X": "${OPENAI_API_KEY}"}}

    assert read(box, server_json(**entry)).runs == (
        "x: https://x.example/mcp",
        "sends the header X: ${OPENAI_API_KEY}",
    )


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ("python -c 'a && b; c | d > `e` $(f)'", {"args": ["-c", "a && b; c | d > `e` $(f)"]}),
        ("python a%20b !c >d", {"args": ["a%20b", "!c", ">d"]}),
        ("python a.py \\\n  --to <your key>", {"args": ["a.py", "--to", "<your", "key>"]}),
        ("python 'https://a.example?x=1&y=2'", {"args": ["https://a.example?x=1&y=2"]}),
        (
            "claude mcp add -t http -H 'X: 1' n https://a.example/mcp --header 'Y: a:b'",
            {"url": "https://a.example/mcp", "headers": {"Y": "a:b", "X": "1"}},
        ),
    ],
)
def test_what_is_quoted_or_an_option_goes_along(
    box: Toolbox, line: str, data: dict[str, object]
) -> None:
    (server,), _, _ = servers_of(box, line)

    assert {key: server.data[key] for key in data} == data


def test_a_file_that_changed_since_it_was_shown_is_not_added(box: Toolbox, tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(server_json(args=["a"]), encoding="utf-8")
    shown = read(box, "servers.json")
    servers_of(box, "servers.json", digest=shown.digest)
    file.write_text(server_json(args=["b"]), encoding="utf-8")

    with pytest.raises(OneToolError, match="has changed since it was shown"):
        servers_of(box, "servers.json", digest=shown.digest)


@pytest.mark.parametrize(
    ("url", "kept", "secrets"),
    [
        ("https://u:p%40w@a.example/m", "https://u:${N_PASSWORD}@a.example/m", ["p%40w"]),
        (
            "https://a.example/m?x=1&api_key=abc#d",
            "https://a.example/m?x=1&api_key=${N_API_KEY}#d",
            ["abc"],
        ),
        ("https://a.example:8000/@x:y@z?x=1", "https://a.example:8000/@x:y@z?x=1", []),
    ],
)
def test_a_secret_in_an_address_is_kept_as_one(url: str, kept: str, secrets: list[str]) -> None:
    data, found = without_secrets(FoundServer("n", {"type": "http", "url": url}))

    assert (data["url"], list(found.values())) == (kept, secrets)
