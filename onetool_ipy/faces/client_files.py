"""MCP servers in the files of other clients: read them, and write ours in the form that each client reads.

Secrets never leave in plain text: what holds `${NAME}`, or looks like a secret, becomes the client's own variable or
input. A client that knows no variables gets the entry without it, and a note says what is missing. Nothing here asks
or writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import UsageProblem

__all__ = [
    "CLIENTS",
    "Client",
    "FoundServer",
    "as_ours",
    "merged",
    "parse_json",
    "read_client_file",
    "read_json",
    "servers_in",
    "translate",
    "without_secrets",
]

_TAKEN = ("command", "args", "env", "cwd", "url", "headers")
# What has no end (a text, a comment) goes on to the end of the file; to look for other ends of it would be slow.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*+"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*+"?)|,(?=\s*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)(?::-[^{}]*)?\}")
_BEARER = re.compile(r"Bearer \$\{(\w+)\}")
_MOST_BYTES = 5_000_000
_HOMES = {"darwin": "Library/Application Support/Claude", "win32": "AppData/Roaming/Claude"}


class FoundServer(NamedTuple):
    """A server of another client: its name, and its entry in our terms."""

    name: str
    data: dict[str, Any]


class Client(NamedTuple):
    """Another client: its file, below the project or the home folder; how it spells a variable, empty if it cannot."""

    title: str
    file: str
    key: str = "mcpServers"
    variable: str = ""
    is_of_project: bool = True

    def path(self, project: Path, home: Path) -> Path:
        return (project if self.is_of_project else home) / self.file


CLIENTS: Mapping[str, Client] = {
    "claude-desktop": Client(
        "Claude Desktop",
        f"{_HOMES.get(sys.platform, '.config/Claude')}/claude_desktop_config.json",
        is_of_project=False,
    ),
    "claude-code": Client("Claude Code", ".mcp.json", variable="${NAME}"),
    "vscode": Client("VS Code", ".vscode/mcp.json", key="servers", variable="${input:NAME}"),
    "cursor": Client("Cursor", ".cursor/mcp.json", variable="${env:NAME}"),
    "codex": Client("Codex", ".codex/config.toml", key="mcp_servers", is_of_project=False),
    "jupyter-ai": Client("Jupyter AI", ".jupyter/mcp_settings.json", key="mcp_servers"),
}


def read_client_file(path: Path) -> list[FoundServer]:
    """The servers of a file. Raises UsageProblem if the file cannot be read or has none."""
    return _found(read_json(path), f"'{path}'")


def _found(document: Any, what: str) -> list[FoundServer]:
    servers = servers_in(document)
    if not servers:
        raise UsageProblem(f"{what} has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.')
    return [as_ours(name, data) for name, data in servers.items()]


def as_ours(name: str, data: Any) -> FoundServer:
    """An entry of another client in our terms."""
    return FoundServer(name, _entry(data))


def read_json(path: Path) -> Any:
    """A JSON file with comments and trailing commas, or a TOML file. Raises UsageProblem."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageProblem(f"'{path}' is too large for a configuration.")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageProblem(f"'{path}' cannot be read: {reason}.") from exc
    kind = "TOML" if path.suffix == ".toml" else "JSON"
    try:
        return _parsed_toml(text) if kind == "TOML" else parse_json(text)
    except (ValueError, RecursionError) as exc:
        raise UsageProblem(f"'{path}' is not {kind}: {exc}.") from exc


def parse_json(text: str) -> Any:
    """JSON with comments and trailing commas."""
    return json.loads(_COMMA.sub(_kept, _COMMENT.sub(_kept, text)))


def _parsed_toml(text: str) -> dict[str, Any]:
    import tomllib  # few have such a file

    return tomllib.loads(text)


def _kept(found: re.Match[str]) -> str:
    return found[1] or ""


def without_secrets(found: FoundServer) -> tuple[dict[str, Any], dict[str, str]]:
    """The entry with `${NAME}` in place of likely secrets, and those secrets by name."""
    data = dict(found.data)
    secrets: dict[str, str] = {}

    def replaced(label: str, value: str) -> str:
        name = re.sub(r"\W+", "_", f"{found.name}_{label.lstrip('-')}").upper()
        secrets[name] = value
        return f"${{{name}}}"

    for section in ("env", "headers"):
        if isinstance(data.get(section), dict):
            data[section] = {
                key: replaced(key, value) if _is_plain(value) and is_secret_name(key) else value
                for key, value in data[section].items()
            }
    if isinstance(data.get("args"), list):
        words: list[Any] = []
        for word in data["args"]:
            flag, _, value = word.partition("=") if isinstance(word, str) else ("", "", "")
            before = words[-1] if words else None
            if _is_secret_flag(flag) and _is_plain(value):
                words.append(f"{flag}={replaced(flag, value)}")
            elif _is_secret_flag(before) and _is_plain(word) and not word.startswith("-"):
                words.append(replaced(before, word))
            else:
                words.append(word)
        data["args"] = words
    return data, secrets


def _is_secret_flag(word: Any) -> TypeGuard[str]:
    return isinstance(word, str) and word.startswith("-") and "=" not in word and is_secret_name(word)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "${" not in value


def servers_in(document: Any) -> dict[str, Any]:
    """The entries of a client's document by name; none if it has none."""
    if not isinstance(document, dict):
        return {}
    for key in ("mcpServers", "servers", "mcp_servers"):
        found = document.get(key)
        if isinstance(found, dict):
            return found
        if isinstance(found, list):  # Jupyter AI
            return {str(one.get("name")): one for one in found if isinstance(one, dict) and one.get("name")}
    inner = document.get("mcp")
    return servers_in(inner) if isinstance(inner, dict) else {}


def _entry(data: Any) -> dict[str, Any]:
    """An entry in our terms: other clients name the type differently, or not at all."""
    if not isinstance(data, dict):
        return {"type": "stdio", "command": data}
    data = {**data, "headers": data.get("headers") or data.get("http_headers")}
    for key in ("env", "headers"):
        if isinstance(data.get(key), list):  # Jupyter AI has lists of {name, value}
            data[key] = {one.get("name"): one.get("value") for one in data[key] if isinstance(one, dict)}
    if isinstance(data.get("env_vars"), list):  # Codex passes these on from its own environment
        data["env"] = {**(data.get("env") or {}), **{str(name): f"${{{name}}}" for name in data["env_vars"]}}
    if isinstance(data.get("env_http_headers"), dict):
        more = {header: f"${{{name}}}" for header, name in data["env_http_headers"].items()}
        data["headers"] = {**(data["headers"] or {}), **more}
    if data.get("bearer_token_env_var"):
        data["headers"] = {**(data["headers"] or {}), "Authorization": f"Bearer ${{{data['bearer_token_env_var']}}}"}
    kept = {key: _filled(data[key]) for key in _TAKEN if data.get(key) not in (None, {}, [])}
    if data.get("disabled") is True or data.get("enabled") is False:
        kept["enabled"] = False
    url = data.get("url") or data.get("serverUrl") or data.get("httpUrl")
    if not url:
        return {"type": "stdio", **kept}
    return {"type": "sse" if data.get("type") == "sse" else "http", **kept, "url": _filled(url)}


def _filled(value: Any) -> Any:
    """Replace `${env:NAME}` and `${input:name}`, as other clients write it, by `${NAME}`."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda hit: f"${{{hit[1].replace('-', '_')}}}", value)
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def translate(client: str, server: FoundServer) -> tuple[dict[str, Any] | None, list[str]]:
    """Our entry as another client writes it, or None if it cannot be; and notes about what is left out of it."""
    to, notes = CLIENTS[client], []
    data, _ = without_secrets(server)
    is_http = data.get("type") in ("http", "sse")
    if is_http and client == "claude-desktop":
        return None, [f"{to.title} takes only servers that it starts; add the address there by hand."]
    words = [data.get("command"), data.get("url"), *(data.get("args") or ())]
    if not to.variable and any("${" in str(word) for word in words):
        return None, [f"{to.title} fills no variables in a command or an address."]
    if data.get("cwd") and client not in ("vscode", "codex"):
        notes.append(f"{to.title} has no 'cwd': it is left out.")
    taken = (
        ("url", "headers")
        if is_http
        else ("command", "args", "env", "cwd")[: 4 if client in ("vscode", "codex") else 3]
    )
    entry = {key: data[key] for key in taken if data.get(key)}
    if client in ("claude-code", "vscode"):
        entry = {"type": data.get("type", "stdio"), **entry}
    if to.variable:
        return _respelled(entry, to.variable), notes
    for key in ("env", "headers"):
        open_ones = {name: str(value) for name, value in entry.get(key, {}).items() if "${" in str(value)}
        if open_ones:
            entry[key] = {name: value for name, value in entry[key].items() if name not in open_ones}
            notes += _by_codex(entry, key, open_ones) if client == "codex" else _left_out(to, key, open_ones)
    if client == "codex" and entry.get("headers"):
        entry["http_headers"] = entry.pop("headers")
    if client == "jupyter-ai":
        listed = {key: [{"name": n, "value": v} for n, v in entry.get(key, {}).items()] for key in ("env", "headers")}
        kept = (
            {"type": "http", "headers": listed["headers"]} if is_http else {"args": [], **entry, "env": listed["env"]}
        )
        return {"name": server.name, **({"url": entry["url"]} if is_http else {}), **kept}, notes
    return {key: value for key, value in entry.items() if value not in ({}, [])}, notes


def _left_out(to: Client, key: str, names: Mapping[str, str]) -> list[str]:
    what = "variable" if key == "env" else "header"
    return [f"{to.title} fills no variables: the {what} '{name}' is left out. Set it there." for name in names]


def _by_codex(entry: dict[str, Any], key: str, names: Mapping[str, str]) -> list[str]:
    """Put what Codex takes from its environment into its own keys; it passes a variable on under its own name alone."""
    notes = []
    for name, value in names.items():
        bearer = _BEARER.fullmatch(value) if key == "headers" and name.lower() == "authorization" else None
        if bearer is not None:
            entry["bearer_token_env_var"] = bearer[1]
        elif key == "headers" and (hit := _VARIABLE.fullmatch(value)) is not None:
            entry.setdefault("env_http_headers", {})[name] = hit[1]
        elif key == "env" and value == f"${{{name}}}":
            entry.setdefault("env_vars", []).append(name)
        else:
            notes.append(f"Codex cannot take '{name}' from {value}: it is left out. Set it there.")
    return notes


def _respelled(value: Any, variable: str) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda hit: variable.replace("NAME", hit[1]), value)
    if isinstance(value, dict):
        return {key: _respelled(each, variable) for key, each in value.items()}
    return [_respelled(each, variable) for each in value] if isinstance(value, list) else value


def merged(client: str, before: str, entries: Mapping[str, Any]) -> str:
    """The text of the client's file with these entries. Raises UsageProblem if they cannot be put in."""
    key = CLIENTS[client].key
    if client == "codex":
        return _with_tables(before, entries)
    document = parse_json(before) if before.strip() else {}
    if not isinstance(document, dict):
        raise UsageProblem("The file is not a JSON object.")
    if client == "jupyter-ai":
        others = [one for one in document.get(key) or [] if isinstance(one, dict) and one.get("name") not in entries]
        document[key] = [*others, *entries.values()]
    else:
        document[key] = {**(document.get(key) or {}), **entries}
    if client == "vscode":
        asked = set(re.findall(r"\$\{input:([\w-]+)\}", json.dumps(list(entries.values()))))
        known = [one for one in document.get("inputs") or [] if isinstance(one, dict)]
        new = sorted(asked - {str(one.get("id")) for one in known})
        fresh = [{"type": "promptString", "id": name, "description": name, "password": True} for name in new]
        if known or fresh:
            document["inputs"] = [*known, *fresh]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _with_tables(before: str, entries: Mapping[str, Any]) -> str:
    """Append tables to a TOML text. An existing table stays, and must be changed by hand."""
    known = _parsed_toml(before).get("mcp_servers", {})
    taken = [name for name in entries if name in known and known[name] != entries[name]]
    if taken:
        raise UsageProblem(f"The file has another server '{taken[0]}'.", hint="Take it out there first.")
    fresh = {name: entry for name, entry in entries.items() if name not in known}
    lines = [before.rstrip("\n")] if before.strip() else []
    for name, entry in fresh.items():
        lines += ["", f"[mcp_servers.{json.dumps(name, ensure_ascii=False)}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
    text = "\n".join(lines).lstrip("\n") + "\n"
    try:
        is_same = _parsed_toml(text).get("mcp_servers") == {**known, **fresh}
    except ValueError:
        is_same = False
    if not is_same:
        raise UsageProblem("The servers cannot be written as TOML.", hint="Add them by hand.")
    return text


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key, ensure_ascii=False)} = {_toml(each)}" for key, each in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
