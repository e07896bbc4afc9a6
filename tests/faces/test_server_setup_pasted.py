"""What a person pastes from a README becomes a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.assemble import open_leniently
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.client_files import FoundServer
from onetool_ipy.faces.server_setup import ServerSetup, read_pasted

MEMORY = {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}


@pytest.mark.parametrize(
    ("text", "name", "data"),
    [
        ("npx -y @modelcontextprotocol/server-memory", "memory", MEMORY),
        ("$ npx -y \\\n  @modelcontextprotocol/server-memory", "memory", MEMORY),
        (
            "uvx mcp-server-time@2025.1",
            "time",
            {"type": "stdio", "command": "uvx", "args": ["mcp-server-time@2025.1"]},
        ),
        (
            "python -m mcp_server_git",
            "git",
            {"type": "stdio", "command": "python", "args": ["-m", "mcp_server_git"]},
        ),
        (
            "uv run weather.py",
            "weather",
            {"type": "stdio", "command": "uv", "args": ["run", "weather.py"]},
        ),
        (
            "/opt/notes-mcp --ro",
            "notes",
            {"type": "stdio", "command": "/opt/notes-mcp", "args": ["--ro"]},
        ),
        (
            "https://mcp.linear.app/mcp",
            "linear",
            {"type": "http", "url": "https://mcp.linear.app/mcp"},
        ),
        ("claude mcp add memory -- npx -y @modelcontextprotocol/server-memory", "memory", MEMORY),
        (
            "claude mcp add --transport http sentry https://mcp.sentry.dev/mcp",
            "sentry",
            {"type": "http", "url": "https://mcp.sentry.dev/mcp"},
        ),
        (
            "claude mcp add notes -e LEVEL=debug --scope user -- npx -y notes --scope x",
            "notes",
            {"command": "npx", "args": ["-y", "notes", "--scope", "x"], "env": {"LEVEL": "debug"}},
        ),
        (
            "codex mcp add --env=LEVEL=debug notes npx -y notes",
            "notes",
            {"command": "npx", "args": ["-y", "notes"]},
        ),
        (
            "LEVEL=debug npx files",
            "files",
            {"type": "stdio", "command": "npx", "args": ["files"], "env": {"LEVEL": "debug"}},
        ),
        (
            '{"mcpServers": {"memory": {"command": "npx", "args": ["-y", "m"]}}}',
            "memory",
            {"command": "npx"},
        ),
        ('"memory": {"command": "npx", "args": ["m"], },', "memory", {"command": "npx"}),
        (
            '{"memory": {"url": "https://x.example/mcp"}} ',
            "memory",
            {"type": "http", "url": "https://x.example/mcp"},
        ),
        ('{"command": "npx", "args": ["-y", "@a/server-memory"]}', "memory", {"command": "npx"}),
        (
            '{"servers": {"gh": {"type": "http", "url": "https://x.example"}}} // VS Code',
            "gh",
            {"type": "http"},
        ),
        (
            "claude mcp add --transport sse linear https://mcp.linear.app/sse",
            "linear",
            {"type": "sse", "url": "https://mcp.linear.app/sse"},
        ),
        (
            '{"mcpServers": {"x": {"transport": "sse", "url": "https://x.example/sse"}}}',
            "x",
            {"type": "sse"},
        ),
        (
            """claude mcp add-json gh '{"type": "http", "url": "https://x.example/a b"}' -s user""",
            "gh",
            {"type": "http", "url": "https://x.example/a b"},
        ),
        (
            """code --add-mcp '{"name": "notes", "command": "npx", "args": ["-y", "n"]}'""",
            "notes",
            {"command": "npx", "args": ["-y", "n"]},
        ),
        (
            '{"mcpServers": {"x": {"command": "npx", "env": ["LEVEL=a=b"]}}}',
            "x",
            {"env": {"LEVEL": "a=b"}},
        ),
    ],
)
def test_what_a_readme_says_is_a_server(text: str, name: str, data: dict[str, Any]) -> None:
    (found,) = read_pasted(text)
    assert found.name == name
    assert data.items() <= found.data.items()
    assert read_pasted(text, "mine") == [FoundServer("mine", found.data)]


@pytest.mark.parametrize(
    "text",
    [
        "pip install mcp-server-time",
        "/usr/bin/pip3 install mcp-server-time",
        "python3 -m pip install mcp-server-time",
        "uv tool install mcp-server-time",
        "npm i -g mcp-server-time",
        "docker pull mcp-server-time",
    ],
)
def test_line_that_installs_a_server_is_not_added(tmp_path: Path, text: str) -> None:
    with open_leniently(cwd=tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        with pytest.raises(
            UsageProblem, match="installs a program and does not run a server"
        ) as caught:
            ServerSetup(box).add(read_pasted(text), is_saved=False)
        assert "%tool server add NAME mcp-server-time" in caught.value.message
        assert list(box.servers) == []


def test_second_address_of_a_short_name_takes_the_name_of_its_host(tmp_path: Path) -> None:
    urls = [
        "https://mcp.acme.com/mcp",
        "https://mcp.acme.org/mcp",
        "http://127.0.0.1:9/mcp",
        "http://127.0.0.1:8/mcp",
    ]
    with open_leniently(cwd=tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        setup = ServerSetup(box)
        for url in urls:
            setup.add(setup.proposed(read_pasted(url))[0], is_saved=False)
        with pytest.raises(UsageProblem, match="There is a server 'acme'"):
            setup.add(setup.proposed(read_pasted(urls[0]))[0], is_saved=False)

        assert list(box.servers) == ["acme", "mcp_acme_org", "server", "server_8"]


def test_several_servers_keep_their_names() -> None:
    found = read_pasted(
        '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://b.example"}}}', "ignored"
    )
    assert [each.name for each in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Nothing was pasted"),
        ("   \n", "Nothing was pasted"),
        ("npx 'open", "not a command line"),
        ("KEY=value", "no command in it"),
        ("claude mcp add", "no command in it"),
        ("{", "not JSON"),
        ("{}", "no servers"),
        ('{"a": 1}', "no servers"),
        ("{" * 100_000, "not JSON"),
        ("https://[bad/mcp", "not an address"),
    ],
)
def test_anything_else_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        read_pasted(text)


def test_server_that_a_person_saves_is_trusted_with_the_project(tmp_path: Path) -> None:
    """In a folder that this makes a project, and again in the project that it is then."""
    env = {
        **os.environ,
        **home_at(tmp_path),
        "ONETOOL_STATE": str(tmp_path / "state"),
        "ONETOOL_TRUST": "",
    }
    (tmp_path / "new").mkdir()
    with open_leniently(env=env, cwd=tmp_path / "new") as box:
        for name in ("first", "second"):
            ServerSetup(box).add(
                [FoundServer(name, {"command": sys.executable, "args": [name]})], is_saved=True
            )
            assert box.config.trust.how == "listed"
            assert box.config.withheld == {}
            assert dict(box.servers.items())[name] == "not started"
