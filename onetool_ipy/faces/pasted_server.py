"""What a person pastes from a README to add an MCP server: a command line, an address, or JSON.

The line with which another client adds it (`claude mcp add ...`) is understood too. Without a name the server gets that
of its package, program or host.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.client_files import FoundServer, as_ours, parse_json, servers_in

__all__ = ["read_pasted"]

_OTHER_CLIENT = re.compile(r"(?:claude|codex|gemini|copilot)\s+mcp\s+add\b")
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_LAUNCHERS = ("npx", "uvx", "bunx", "pnpm", "npm", "uv", "docker", "python", "python3", "node")
_RUN_WORDS = ("run", "exec", "dlx", "x", "tool")
_ENTRY_KEYS = ("command", "url", "serverUrl", "httpUrl")


def read_pasted(text: str, name: str = "") -> list[FoundServer]:
    """The servers of what was pasted; `name` wins over a guess. Raises UsageProblem if there are none."""
    text = text.strip().removeprefix("$ ").strip()
    if not text:
        raise UsageProblem("Nothing was pasted.", hint="Paste a command line, an address, or JSON.")
    if text.startswith("{") or re.match(r'"[^"]+"\s*:\s*\{', text):
        return _from_json(text if text.startswith("{") else f"{{{text.rstrip(',')}}}", name)
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as exc:
        raise UsageProblem(f"This is not a command line: {exc}.") from exc
    env: dict[str, str] = {}
    if _OTHER_CLIENT.match(text):
        given, words, env = _client_words(words[3:])
        name = name or given
    while words and _ASSIGNED.fullmatch(words[0]):
        key, _, env[key] = words.pop(0).partition("=")
    if not words:
        raise UsageProblem("There is no command in it.", hint="For example: npx -y @modelcontextprotocol/server-memory")
    if re.match(r"https?://", words[0]):
        return [FoundServer(name or _name_of_host(words[0]), {"type": "http", "url": words[0]})]
    data: dict[str, Any] = {"type": "stdio", "command": words[0], "args": words[1:]}
    return [FoundServer(name or _name_of_command(words), {**data, "env": env} if env else data)]


def _client_words(words: Sequence[str]) -> tuple[str, list[str], dict[str, str]]:
    """The name, the command and the variables of the words behind `mcp add`; its other options are left out."""
    end = words.index("--") if "--" in words else len(words)
    plain: list[str] = []
    env: dict[str, str] = {}
    waiting = iter(words[:end])
    for word in waiting:
        if len(plain) > 1 or not word.startswith("-"):
            plain.append(word)  # behind the command all is the command's
            continue
        option, has_value, value = word.partition("=")
        value = value if has_value else next(waiting, "")
        if option in ("-e", "--env"):
            key, _, env[key] = value.partition("=")
    return (plain[0] if plain else ""), [*plain[1:], *words[end + 1 :]], env


def _from_json(text: str, name: str) -> list[FoundServer]:
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as exc:
        raise UsageProblem(f"This is not JSON: {exc}.", hint="Paste the whole of it, from { to }.") from exc
    servers = servers_in(document)
    if not servers:  # the inside of such a file: entries by name, or one entry
        is_one = any(key in document for key in _ENTRY_KEYS)
        servers = {str(document.get("name") or ""): document} if is_one else document
    found = [as_ours(key, data) for key, data in servers.items() if isinstance(data, dict)]
    if not found:
        raise UsageProblem("This JSON has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.')
    if len(found) > 1:
        return found
    data = found[0].data
    given = name or found[0].name
    if not given:
        command = [str(word) for word in (data.get("command", ""), *data.get("args", ()))]
        given = _name_of_host(str(data["url"])) if data.get("url") else _name_of_command(command)
    return [FoundServer(given, data)]


def _name_of_command(words: Sequence[str]) -> str:
    """A name from a package or program: `memory` for `npx -y @modelcontextprotocol/server-memory@1`."""
    runs_package = Path(words[0]).name in _LAUNCHERS
    named = [word for word in words[1:] if not word.startswith("-") and word not in _RUN_WORDS] if runs_package else []
    plain = re.sub(r"@[^/@]*$", "", named[0] if named else words[0]).rstrip("/")
    return _plain_name(Path(plain).stem)


def _name_of_host(url: str) -> str:
    """A name from a host: `linear` for `https://mcp.linear.app/mcp`."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError as exc:
        raise UsageProblem(f"'{url[:80]}' is not an address: {exc}.") from exc
    parts = [part for part in host.split(".") if part not in ("mcp", "api", "www")]
    return _plain_name(parts[0] if parts else "")


def _plain_name(text: str) -> str:
    plain = re.sub(r"^(?:mcp[-_])?(?:server[-_])?|[-_](?:mcp)?(?:[-_]?server)?$", "", text.lower())
    return re.sub(r"\W+", "_", plain).strip("_").lstrip("0123456789") or "server"
