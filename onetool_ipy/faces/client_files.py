"""MCP servers in the files of other clients: read theirs, and show ours as the JSON that a family
of clients reads.

Secrets never leave in plain text: what holds `${NAME}`, or looks like a secret, becomes the
client's own variable or input. `with_entry` is the text of a client's file with one entry more:
this project, for agents that live elsewhere. Nothing here asks or writes.
"""

from __future__ import annotations

import copy
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from onetool_ipy.base import foreign_json, values
from onetool_ipy.base.credentials import is_secret_name
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import bytes_of
from onetool_ipy.base.foreign_json import NotJson
from onetool_ipy.base.values import Json
from onetool_ipy.config.paths import APPLICATIONS

_TAKEN = ("command", "args", "env", "cwd", "url", "headers")
# What has no end (a text, a comment) goes on to the end of the file; to look for other ends of it
# would be slow.
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*+"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*+"?)|,(?=\s*[}\]])', re.DOTALL)
# Blanks and comments of JSON with comments, or a token of it in a group.
_TOKEN = re.compile(
    r"\s++|//[^\n]*+|/\*.*?(?:\*/|\Z)|"
    r'("(?:\\.|[^"\\])*+"?|[{}\[\]:,]|[^\s{}\[\]:,"/]++|/)',
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)(?::-[^{}]*)?\}")
# A parameter of an address with its value, or the password in front of its host.
_IN_URL = re.compile(r"([?&])([^?=&#]++)=([^&#]+)|(://[^/?#@:]*:)([^/?#@]+)(?=@)")
_MOST_BYTES = 5_000_000
_CARRIED = ("ONETOOL_STATE", "JUPYTER_RUNTIME_DIR")
"""Variables that say where this project's notes and kernels are. Clients do not hand their
environment on."""


class FoundServer(NamedTuple):
    """A server of another client: its name, and its entry in our terms."""

    name: str
    data: dict[str, Any]


class Client(NamedTuple):
    """Another client's file of servers, below the project or the home folder."""

    file: str
    is_of_project: bool = True
    key: str = "mcpServers"

    def path(self, project: Path, home: Path) -> Path:
        return (project if self.is_of_project else home) / self.file


class Family(NamedTuple):
    """Clients that read the same JSON: its key, and how they spell a variable."""

    title: str
    key: str
    variable: str
    has_cwd: bool = False


CLIENTS: Mapping[str, Client] = {
    "claude-desktop": Client(
        f"{APPLICATIONS}/Claude/claude_desktop_config.json",
        is_of_project=False,
    ),
    "claude-code": Client(".mcp.json"),
    "vscode": Client(".vscode/mcp.json", key="servers"),
    "cursor": Client(".cursor/mcp.json"),
    "codex": Client(".codex/config.toml", is_of_project=False, key="mcp_servers"),
    "jupyter-ai": Client(".jupyter/mcp_settings.json", key="mcp_servers"),
    "notebook-intelligence": Client(".jupyter/nbi/mcp.json", is_of_project=False),
}
FAMILIES: Mapping[str, Family] = {
    "claude": Family("Claude, Cursor and most clients", "mcpServers", "${NAME}"),
    "vscode": Family("VS Code and its kin", "servers", "${input:NAME}", has_cwd=True),
}


def read_client_file(path: Path) -> list[FoundServer]:
    """The servers of a file. Raises UsageProblem if the file cannot be read or has none."""
    servers = servers_in(read_json(path))
    if not servers:
        raise UsageProblem(
            f"'{path}' has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.'
        )
    return [as_ours(name, data) for name, data in servers.items()]


def read_json(path: Path) -> Any:
    """A JSON file with comments and trailing commas, or a TOML file. Raises UsageProblem."""
    if not os.path.lexists(path):
        raise UsageProblem(
            f"'{path}' cannot be read: there is no such file.",
            hint="Name a file with servers, such as .mcp.json.",
        )
    text = read_text(path)
    try:
        return _parse_toml(text) if path.suffix == ".toml" else parse_json(text)
    except ValueError as exc:
        raise UsageProblem(f"'{path}' {exc}.") from exc


def read_text(path: Path) -> str:
    """Return the text of a client's file with its own line ends and mark; empty if it is missing.

    Raises UsageProblem.
    """
    content = bytes_of(path)
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError as exc:
        raise UsageProblem(f"'{path}' cannot be read: it is not UTF-8 text.") from exc
    if len(text) > _MOST_BYTES:
        raise UsageProblem(f"'{path}' is too large for a configuration.")
    return text


def parse_json(text: str) -> Any:
    """Parse JSON with comments and trailing commas. Raises NotJson."""
    bare = _COMMENT.sub(lambda match: match[1] or " ", text)
    return foreign_json.parse_json(_COMMA.sub(r"\1", bare))


def _parse_toml(text: str) -> Json:
    """Parse TOML. Raises NotJson, as for a file that is not JSON."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"is not TOML: {exc}") from exc


def without_secrets(found: FoundServer) -> tuple[Json, dict[str, str]]:
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

    def in_url(hit: re.Match[str]) -> str:
        if hit[5] and _is_plain(hit[5]):
            return hit[4] + replaced("password", hit[5])
        if hit[2] and is_secret_name(hit[2]) and _is_plain(hit[3]):
            return f"{hit[1]}{hit[2]}={replaced(hit[2], hit[3])}"
        return hit[0]

    if isinstance(data.get("url"), str):
        data["url"] = _IN_URL.sub(in_url, data["url"])
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


def _is_secret_flag(word: object) -> TypeGuard[str]:
    return (
        isinstance(word, str) and word.startswith("-") and "=" not in word and is_secret_name(word)
    )


def _is_plain(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and "${" not in value


def servers_in(document: object) -> Json:
    """The entries of a client's document by name; none if it has none."""
    if not isinstance(document, dict):
        return {}
    for key in ("mcpServers", "servers", "mcp_servers"):
        entries = document.get(key)
        if isinstance(entries, dict):
            return entries
        if isinstance(entries, list):  # Jupyter AI
            return {
                str(one.get("name")): one
                for one in entries
                if isinstance(one, dict) and one.get("name")
            }
    inner = document.get("mcp")
    return servers_in(inner) if isinstance(inner, dict) else {}


def as_ours(name: str, data: object) -> FoundServer:
    """An entry of another client in our terms: others name the type differently, or not at all."""
    if not isinstance(data, dict):
        return FoundServer(name, {"type": "stdio", "command": data})
    data = {**data, "headers": data.get("headers") or data.get("http_headers")}
    for key in ("env", "headers"):
        if isinstance(data.get(key), list):  # Jupyter AI has lists of {name, value}
            texts = [each.partition("=") for each in data[key] if isinstance(each, str)]
            data[key] = {
                one.get("name"): one.get("value") for one in data[key] if isinstance(one, dict)
            } | {name: value for name, _, value in texts}
    if isinstance(data.get("env_vars"), list):  # Codex passes these on from its own environment
        data["env"] = {
            **(data.get("env") or {}),
            **{str(each): f"${{{each}}}" for each in data["env_vars"]},
        }
    if isinstance(data.get("env_http_headers"), dict):
        more = {header: f"${{{variable}}}" for header, variable in data["env_http_headers"].items()}
        data["headers"] = {**(data["headers"] or {}), **more}
    if data.get("bearer_token_env_var"):
        data["headers"] = {
            **(data["headers"] or {}),
            "Authorization": f"Bearer ${{{data['bearer_token_env_var']}}}",
        }
    # Others write `${env:NAME}` and `${input:name}` for our `${NAME}`.
    entry = {key: data[key] for key in _TAKEN if data.get(key) not in (None, {}, [])}
    if data.get("disabled") is True or data.get("enabled") is False:
        entry["enabled"] = False
    if url := data.get("url") or data.get("serverUrl") or data.get("httpUrl"):
        is_sse = "sse" in (data.get("type"), data.get("transport"), data.get("transportType"))
        entry = {"type": "sse" if is_sse else "http", **entry, "url": url}
    ours = values.map_text(
        entry, lambda text: _VARIABLE.sub(lambda hit: f"${{{hit[1].replace('-', '_')}}}", text)
    )
    return FoundServer(name, {"type": "stdio", **ours})


def snippet(family: str, servers: Sequence[FoundServer]) -> tuple[str, list[str]]:
    """Servers of ours as JSON for the clients of a family, and notes about what is left to do
    there."""
    style, notes = FAMILIES[family], []
    entries: dict[str, Any] = {}
    variables: set[str] = set()
    for server in servers:
        data, _ = without_secrets(server)
        is_http = data.get("type") in ("http", "sse")
        keys = ("url", "headers") if is_http else ("command", "args", "env", "cwd")
        entry = {
            "type": data.get("type", "stdio"),
            **{key: data[key] for key in keys if data.get(key)},
        }
        if not style.has_cwd and entry.pop("cwd", None):
            notes.append(f"{server.name}: {style.title} have no 'cwd', so it is left out.")
        variables.update(_VARIABLE.findall(json.dumps(entry)))
        spell = partial(_VARIABLE.sub, lambda hit: style.variable.replace("NAME", hit[1]))
        entries[server.name] = values.map_text(entry, spell)
    document: dict[str, Any] = {style.key: entries}
    if variables and style.variable.startswith("${input:"):
        document["inputs"] = [
            {"type": "promptString", "id": name, "description": name, "password": True}
            for name in sorted(variables)
        ]
    elif variables:
        notes.append(
            f"Set there: {', '.join(sorted(variables))}. A client that fills no variables needs the"
            " value."
        )
    return json.dumps(document, indent=2, ensure_ascii=False), notes


def entry_of_project(project: Path, env: Mapping[str, str]) -> FoundServer:
    """Return the entry that hands the tools of this project's running notebook to a client."""
    name = re.sub(r"[^a-z0-9]+", "-", project.name.lower()).strip("-") or "project"
    data: dict[str, Any] = {
        "command": sys.executable,
        "args": ["-m", "onetool_ipy", "mcp", "--attach", str(project)],
    }
    carried = {key: env[key] for key in _CARRIED if env.get(key)}
    return FoundServer(f"onetool-{name}", {**data, **({"env": carried} if carried else {})})


def with_entry(client: str, path: Path, text: str, server: FoundServer) -> str:
    """Return the text of a client's file with one entry put in at one place; the rest stays.

    The same text comes back where the entry is there. Raises UsageProblem for another entry of that
    name, and for a file that cannot be changed so, with what to paste.
    """
    is_toml, entry = client == "codex", _entry_text(client, server)
    paste = f"Paste this there:\n{entry}"
    parse = _parse_toml if is_toml else parse_json
    is_empty = not text.removeprefix("\ufeff").strip()
    try:
        document = {} if is_empty else parse(text)
    except ValueError as exc:
        raise UsageProblem(f"'{path}' is not changed: it {exc}.", hint=paste) from exc
    present = servers_in(document).get(server.name)
    if present is not None:
        if {key: as_ours(server.name, present).data.get(key) for key in server.data} == server.data:
            return text
        message = f"'{path}' is not changed: it has another entry '{server.name}'."
        raise UsageProblem(message, hint=f"Replace that one by:\n{entry}")
    after = _appended(text, entry) if is_toml or is_empty else _inserted(client, text, server)
    # Nothing is written that reads as anything but the old file with one entry more.
    try:
        read_again = {} if after is None else parse(after)
        if is_toml:
            expected = copy.deepcopy(document)
            expected.setdefault("mcp_servers", {})[server.name] = _parse_toml(entry)["mcp_servers"][
                server.name
            ]
        else:
            expected = _with_added(client, document, server)
    except (ValueError, TypeError, AttributeError, KeyError):
        read_again, expected = None, document
    if after is None or read_again != expected:
        message = f"'{path}' is not changed: it holds its servers in another way than this client."
        raise UsageProblem(message, hint=paste)
    return after


def _appended(text: str, entry: str) -> str:
    """Put an entry behind the end of a text, with the line ends of the file."""
    newline = "\r\n" if "\r\n" in text else "\n"
    is_empty = not text.removeprefix("\ufeff").strip()
    gap = "" if is_empty else newline if text.endswith("\n") else newline * 2
    return f"{text}{gap}{entry.replace(chr(10), newline)}{newline}"


def _inserted(client: str, text: str, server: FoundServer) -> str | None:
    """Put an entry in front of the others, or its list in front of all; None without a place for
    it.

    In front, the entry needs nothing but a comma behind it, whatever commas and comments the file
    has.
    """
    bracket = "[" if client == "jupyter-ai" else "{"
    whole = _with_added(client, {}, server)[CLIENTS[client].key]
    (only,) = whole if isinstance(whole, list) else whole.values()
    for key, opening, name, value in (
        (CLIENTS[client].key, bracket, "" if bracket == "[" else server.name, only),
        ("", "{", CLIENTS[client].key, whole),
    ):
        # The mark at the beginning of a file is no token.
        tokens = [match for match in _TOKEN.finditer(text, text.startswith("\ufeff")) if match[1]]
        place = _container(tokens, key)
        if place is None:
            continue
        if tokens[place][1] != opening or place + 1 >= len(tokens):
            return None
        first = tokens[place + 1]
        return _placed(text, tokens[place].end(), first.start(), first[1] in "}]", name, value)
    return None


def _container(tokens: Sequence[re.Match[str]], key: str) -> int | None:
    """Return the place of the bracket that opens the value of a key; "" is the document itself."""
    if not key:
        return 0 if tokens else None
    depth, value = 0, None
    for place, token in enumerate(tokens):
        depth += (token[1] in "{[") - (token[1] in "}]")
        is_key = (
            depth == 1
            and token[1][0] == '"'
            and [one[1] for one in tokens[place + 1 : place + 2]] == [":"]
        )
        # Of two equal keys the last counts, as in every reader.
        if is_key and place + 2 < len(tokens) and json.loads(token[1], strict=False) == key:
            value = place + 2
    return value


def _placed(text: str, start: int, first: int, is_alone: bool, name: str, value: Any) -> str:
    """Put a member behind the bracket at `start`; the next member or the end is at `first`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    margin = re.search(r'\n([ \t]+)"', text)
    unit = margin[1] if margin else "  "
    label = f"{json.dumps(name, ensure_ascii=False)}: " if name else ""
    gap = text[start:first]
    if not is_alone and "\n" not in gap:
        return f"{text[:start]}{label}{json.dumps(value, ensure_ascii=False)}, {text[start:]}"
    line = text[text.rfind("\n", 0, start) + 1 : start]
    outer = line[: len(line) - len(line.lstrip(" \t\ufeff"))].replace("\ufeff", "")
    inner = outer + unit if is_alone else gap[gap.rfind("\n") + 1 :]
    if inner.strip():
        inner = outer + unit
    body = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + inner)
    if is_alone:
        # Up to a comment, the blanks between the two brackets stay behind the entry.
        end = newline + outer if "\n" not in gap else ""
        return f"{text[:start]}{newline}{inner}{label}{body}{end}{text[start:]}"
    # A comment behind the bracket stays on its line.
    remark = re.match(r"[ \t]*//[^\r\n]*", gap)
    place = start + (remark.end() if remark else 0)
    return f"{text[:place]}{newline}{inner}{label}{body},{text[place:]}"


def _with_added(client: str, document: Json, server: FoundServer) -> Json:
    """Return the document with one entry more. Jupyter AI has a list where others have an
    object."""
    key = CLIENTS[client].key
    if client == "jupyter-ai":
        env = [{"name": name, "value": value} for name, value in server.data.get("env", {}).items()]
        return {
            **document,
            key: [{"name": server.name, **server.data, "env": env}, *document.get(key, [])],
        }
    return {
        **document,
        key: {**document.get(key, {}), server.name: {"type": "stdio", **server.data}},
    }


def _entry_text(client: str, server: FoundServer) -> str:
    """Return an entry as a client writes it, for a person to paste."""
    if client != "codex":
        return json.dumps(_with_added(client, {}, server), indent=2, ensure_ascii=False)
    # Basic strings of TOML are those of JSON, as far as paths and names go.
    lines = [f"[mcp_servers.{server.name}]"]
    lines += [
        f"{key} = {json.dumps(server.data[key], ensure_ascii=False)}" for key in ("command", "args")
    ]
    env = ", ".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}"
        for name, value in server.data.get("env", {}).items()
    )
    return "\n".join([*lines, *([f"env = {{ {env} }}"] if env else [])])
