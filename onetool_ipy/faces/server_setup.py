"""Adding and removing MCP servers, for `%tool server` and for the screens.

A server that is added belongs to this session; a saved one goes into `onetool.yaml`, and its
secrets into `secrets.yaml`. `faces.client_files` reads and writes the files of other clients.

`server_of` reads a registry card: a `server.json` of the MCP registry, with a question for each
missing value. A card comes from outside. Its program is one of a few that install packages, a
package's name cannot be an option, and the whole command is shown before a person says yes. Secrets
are only named here.

`read_pasted` reads what a person pastes from a README: a command line, an address, JSON, or the
line with which another client adds it (`claude mcp add ...`). Without a name the server gets that
of its package, program or host.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.foreign_json import NotJson
from onetool_ipy.base.processes import find_command, words_in
from onetool_ipy.base.values import Json
from onetool_ipy.config.check import check_server
from onetool_ipy.config.edit import add_server, remove_server, save_secret
from onetool_ipy.config.paths import home_of
from onetool_ipy.faces.client_files import (
    CLIENTS,
    FoundServer,
    as_ours,
    parse_json,
    servers_in,
    without_secrets,
)
from onetool_ipy.faces.new_packs import proposed_name, require_free_name
from onetool_ipy.mcp.definition import read_server
from onetool_ipy.toolbox import Toolbox

_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "npm": ("npx",),
    "pypi": ("uvx",),
    "oci": ("docker", "podman"),
}
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?\w[\w./:@-]*", re.ASCII)
_VERSION = re.compile(r"\w[\w.+!-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_PLACEHOLDER = re.compile(r"\{([\w-]+)\}")
_MAX_INPUTS = 100

_OTHER_CLIENT = re.compile(r"(?:claude|codex|gemini|copilot)\s+mcp\s+add\b")
_IS_SSE = re.compile(_OTHER_CLIENT.pattern + r".*?\s(?:-t|--transport)[ =]sse\s")
_JSON_FOR_CLIENT = re.compile(
    r"(?:claude mcp add-json (?:(?:-s|--scope)[ =]\w+ )?(\S+)|code --add-mcp) (\{.*\})", re.DOTALL
)
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_LAUNCHERS = ("npx", "uvx", "bunx", "pnpm", "npm", "uv", "docker", "python", "python3", "node")
_RUN_WORDS = ("run", "exec", "dlx", "x", "tool")
_ENDING = "_server"
_INSTALLS = re.compile(
    r"(?:(?:sudo )?(?:pip3?|pipx|npm|pnpm|yarn|brew|apt|apt-get|cargo|gem|conda|mamba|go|uv|uv"
    r" pip|uv tool"
    r"|python3? -m pip)) (?:install|i|add|get)(?= |$)|docker pull(?= |$)"
)
_RUNNERS = {
    "npx": "-y @modelcontextprotocol/server-everything",
    "uvx": "mcp-server-time",
}
_ORIGINS = {"npx": "It comes with Node.js.", "uvx": "It comes with uv: pip install uv"}
_ADDRESS = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::\d+)?/\S*$")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.(?!py$|js$|sh$|exe$)[a-z]{2,63}(?::\d+)?")
_OUR_FLAGS = ("--url", "--env", "--header", "--cwd", "--save", "--trusted", "--yes")
_HEADER_FLAGS = ("-H", "--header")
_MAX_COMMAND = 32_000
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|<[^<>]*>""", re.DOTALL)
# What a shell does not hand on to a program: its operators, a second line, other commands in words.
_SHELL = re.compile(r"(?<!\S)(?:&&?|\|\|?|\d?>>?|<<?)(?!\S)|;(?!\S)|\n|`|\$\(")
_ENTRY_KEYS = ("command", "url", "serverUrl", "httpUrl")


class ServerSetup:
    """Adds servers to one toolbox and removes them."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    def proposed(self, servers: list[FoundServer]) -> tuple[list[FoundServer], list[str]]:
        """Give servers that a document or a command names free names; returns them, and a line for
        each new name.

        The name of a server that is there stays: it is the same server, most likely, and is refused
        as such.
        """
        present = self._box.servers
        servers = [self._apart(server) for server in servers]
        names = [
            (server.name, "")
            if server.name in present
            else proposed_name(self._box, server.name, _ENDING)
            for server in servers
        ]
        renamed = [
            server._replace(name=name) for server, (name, _) in zip(servers, names, strict=True)
        ]
        return renamed, [note for _, note in names if note]

    def _apart(self, server: FoundServer) -> FoundServer:
        """Return a server by the whole name of its host, if its short name belongs to one at
        another address."""
        url, servers = str(server.data.get("url") or ""), self._box.servers
        if (
            not url
            or server.name not in servers
            or servers.definition(server.name).url in ("", url)
        ):
            return server
        parts = urlsplit(url)
        name = re.sub(r"\W+", "_", parts.hostname or "").strip("_")
        if not name[:1].isalpha() or name == server.name:
            name = f"{server.name}_{parts.port or name}"
        return server if name in servers else server._replace(name=name)

    def add(self, found: list[FoundServer], *, is_saved: bool) -> list[str]:
        """Add servers and say what was done; a bad one does not stop the others. Raises
        UsageProblem if all are bad."""
        lines: list[str] = []
        added = 0
        for each in found:
            try:
                lines.append(self._save(each) if is_saved else self._for_session(each))
                added += 1
            except UsageProblem as exc:
                lines.append(f"{each.name}: not added. {exc.message} {exc.hint}".rstrip())
        if not added:
            raise UsageProblem("\n".join(lines) or "There are no servers in it.")
        if is_saved:
            self._box.reload()
        self._box.host.reloaded()
        return lines

    def remove(self, name: str) -> str:
        """Remove a server, from `onetool.yaml` too if it is there; says what was done."""
        saved = self._box.config.settings.servers
        if name in saved and name not in self._box.servers.added():
            with self._box.gate.saving():
                file = remove_server(self._box.config.paths, name)
            self._box.reload()
            self._box.host.reloaded()
            return f"{name} is removed, also from {file}."
        self._box.servers.remove(name)
        self._box.host.reloaded()
        return f"{name} is removed."

    def _for_session(self, found: FoundServer) -> str:
        _, secrets = without_secrets(found)
        if secrets:
            raise UsageProblem(
                f"It holds a secret ({', '.join(secrets)}).",
                hint=(
                    "Use --save, which keeps it in secrets.yaml; or put it there yourself and write"
                    " ${NAME}."
                ),
            )
        config = self._box.config
        checked = check_server(found.name, found.data, config.secrets.get)
        self.require_free(found.name)
        require_server(found.data, config.paths.project)
        folder, limit = config.paths.project, config.settings.timeouts.mcp_s
        self._box.servers.add(
            read_server(found.name, checked, "this session", folder=folder, timeout_s=limit)
        )
        return f"{found.name}: added for this session.{_doubts(found.data)}"

    def _save(self, found: FoundServer) -> str:
        data, secrets = without_secrets(found)
        check_server(found.name, found.data, self._box.config.secrets.get)
        paths = self._box.config.paths
        self.require_free(found.name)
        require_server(found.data, paths.project)
        with self._box.gate.saving(f"server {found.name}"):
            for name, value in secrets.items():
                save_secret(paths, name, value)
            file = add_server(paths, found.name, data)
        kept = f" Its secrets are in secrets.yaml: {', '.join(secrets)}." if secrets else ""
        return f"{found.name}: saved to {file}.{kept}{_doubts(found.data)}"

    def require_free(self, name: str) -> None:
        """Raise UsageProblem if a new server cannot have that name."""
        if name in self._box.servers:
            raise UsageProblem(f"There is a server '{name}'.", hint="Choose another name.")
        require_free_name(self._box, name, _ENDING)

    def keep_secrets(self, secrets: Mapping[str, str]) -> None:
        """Put secrets into secrets.yaml, and read them."""
        if secrets:
            with self._box.gate.saving():
                for name, value in secrets.items():
                    save_secret(self._box.config.paths, name, value)
            self._box.reload()

    def client_path(self, word: str) -> Path:
        """The file of another client by the client's name, or by its own path."""
        project = self._box.config.paths.project
        return (
            CLIENTS[word].path(project, home_of(os.environ))
            if word in CLIENTS
            else Path(word).expanduser()
        )

    def written(self, name: str) -> Json:
        """The entry of a server as it is written, with every `${NAME}` unfilled."""
        saved = self._box.config.settings.servers.get(name)
        if saved is not None and name not in self._box.servers.added():
            return dict(saved.written)
        definition = self._box.servers.definition(name)
        data = {key: getattr(definition, key) for key in ("type", "command", "url")}
        data |= {
            "args": list(definition.args),
            "env": dict(definition.env),
            "headers": dict(definition.headers),
        }
        secrets = self._box.config.secrets
        by_value = {value: each for each in secrets.names() if (value := secrets.get(each))}

        def unfilled(text: str) -> str:
            for value in sorted(by_value, key=len, reverse=True):
                text = text.replace(value, f"${{{by_value[value]}}}")
            return text

        entry: dict[str, Any] = values.map_text(data, unfilled)
        return entry


def require_server(data: Json, folder: Path) -> None:
    """Raise UsageProblem for a server that cannot start here, in a project's folder: its program is
    not there, or its line installs a server."""
    command = str(data.get("command") or "")
    words = [command, *map(str, data.get("args") or ())]
    require_no_installer(words)
    if command in _RUNNERS and all(word.startswith("-") for word in words[1:]):
        raise UsageProblem(
            f"'{' '.join(words)[:80]}' names no package.",
            hint=f"For example: {command} {_RUNNERS[command]}",
        )
    if not command or "${" in command:
        return
    env = data.get("env")
    path = str(env.get("PATH") or "") if isinstance(env, dict) else ""
    environ = os.environ if not path or "${" in path else {"PATH": path}
    cwd = folder / Path(str(data.get("cwd") or ".")).expanduser()
    if find_command(command, cwd=str(cwd), env=environ) is None:
        where = f"in {cwd}" if os.path.dirname(command) else "on your PATH"
        raise UsageProblem(
            f"There is no program '{command[:80]}' {where}.",
            hint=_origin(command),
        )


def _origin(command: str) -> str:
    """Say where a program comes from that is not there, or what was meant."""
    if _ADDRESS.match(command):
        return f"For an address, write https://{command[:80]}"
    if len(command.split()) > 1:
        return f"Its arguments stand outside of the quotes: {command[:80]}"
    if _HOST.fullmatch(command):
        return f"Install it first, or correct its name. For an address, write https://{command}"
    return _ORIGINS.get(Path(command).name, "Install it first, or correct its name.")


def require_no_installer(words: Sequence[str]) -> None:
    """Raise UsageProblem for the line that installs a server: it is not the one that starts it."""
    hit = _INSTALLS.match(" ".join([Path(words[0]).name, *words[1:]])) if words else None
    if hit is not None:
        raise UsageProblem(
            f"'{hit[0]}' installs a program and does not run a server.",
            hint=(
                "Run it in a terminal. Then add what it installed: %tool server add NAME"
                f" {words[-1].split()[-1]}"
            ),
        )


def _doubts(data: Json) -> str:
    """What is likely wrong with a server that was typed: flags of ours went to it."""
    ours = [flag for flag in _OUR_FLAGS if flag in data.get("args", ())]
    if not ours:
        return ""
    return (
        f"\n  {', '.join(ours)} went to the command. For %tool, write: %tool server add NAME"
        f" {ours[0]} ..."
    )


class CardInput(NamedTuple):
    """A value that a card needs: its name, what it is for, and whether it is a secret."""

    name: str
    description: str
    is_secret: bool
    choices: tuple[str, ...] = ()


Answer = Callable[[CardInput], str]
"""Gives the value of an input: what was data before, or what a person says; for a secret its
`${NAME}`."""


def is_card(document: object) -> bool:
    """Whether a document is a registry card."""
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return False
    return any(isinstance(document.get(key), list) for key in ("packages", "remotes"))


def card_name(card: Mapping[str, object]) -> str:
    """A short name for the server of a card: `weather` for `io.github.someone/weather`."""
    return re.sub(r"[^\w-]+", "-", str(card["name"]).rpartition("/")[2]).strip("-")[:40] or "server"


def server_of(card: Json, name: str, answer: Answer) -> FoundServer:
    """The server of a card. Raises UsageProblem if it has none that can be used here."""
    packages = [
        one for one in card.get("packages") or [] if isinstance(one, dict) and _program(one)
    ]
    there = [one for one in packages if shutil.which(_program(one))]
    remotes = [
        one
        for one in card.get("remotes") or []
        if isinstance(one, dict)
        and one.get("type") == "streamable-http"
        and isinstance(one.get("url"), str)
    ]
    if there or (packages and not remotes):
        return FoundServer(name, _from_package((there or packages)[0], answer))
    if remotes:
        headers = _values(remotes[0].get("headers"), answer, _HEADER, "header")
        url = _substituted(remotes[0]["url"], remotes[0].get("variables"), answer)
        return FoundServer(
            name, {"type": "http", "url": url, **({"headers": headers} if headers else {})}
        )
    kinds = ", ".join(
        sorted(
            {
                str(one.get("registryType"))
                for one in card.get("packages") or []
                if isinstance(one, dict)
            }
        )
    )
    raise UsageProblem(
        f"The card '{values.cut(str(card['name']), 80)}' has no server that can be used here.",
        hint=(
            f"It has: {values.cut(kinds, 80) or 'nothing'}. Known are npm, pypi, oci, and remotes"
            " over HTTP."
        ),
    )


def _program(package: Json) -> str:
    """Return the program that starts a package, which the card may not choose; empty for one of
    another kind."""
    transport = package.get("transport")
    kind = transport.get("type") if isinstance(transport, dict) else "stdio"
    programs = _PROGRAMS.get(str(package.get("registryType")), ()) if kind == "stdio" else ()
    return (
        package["runtimeHint"]
        if package.get("runtimeHint") in programs
        else next(iter(programs), "")
    )


def _from_package(package: Json, answer: Answer) -> Json:
    kind, program = package["registryType"], _program(package)
    identifier, version = str(package.get("identifier") or ""), str(package.get("version") or "")
    if not _PACKAGE.fullmatch(identifier) or (version and not _VERSION.fullmatch(version)):
        raise UsageProblem(
            f"The card names no package: {values.safe_repr(identifier, 60)}"
            f" {values.cut(version, 40)}"
        )
    env = _values(package.get("environmentVariables"), answer, _NAME, "variable")
    before = _arguments(package.get("runtimeArguments"), answer)
    after = _arguments(package.get("packageArguments"), answer)
    if kind == "oci":
        passed = [word for variable in env for word in ("-e", variable)]
        tag = (
            f"{identifier}:{version}"
            if version and ":" not in identifier.rpartition("/")[2]
            else identifier
        )
        args = ["run", "-i", "--rm", *passed, *before, tag, *after]
    else:
        args = [
            *(before or (["-y"] if kind == "npm" else [])),
            f"{identifier}@{version}" if version else identifier,
            *after,
        ]
    return {"type": "stdio", "command": program, "args": args, **({"env": env} if env else {})}


def _values(listed: object, answer: Answer, form: re.Pattern[str], what: str) -> dict[str, str]:
    """The values of variables or headers, by name."""
    headers: dict[str, str] = {}
    for one in listed[:_MAX_INPUTS] if isinstance(listed, list) else ():
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not form.fullmatch(name):
            raise UsageProblem(
                f"The card has a {what} without a usable name: {values.safe_repr(name, 60)}"
            )
        value = _value(one, name, answer)
        if value is not None:
            headers[name] = value
    return headers


def _arguments(listed: object, answer: Answer) -> list[str]:
    """The words of arguments, named and positional."""
    arguments: list[str] = []
    for one in listed[:_MAX_INPUTS] if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            continue
        name = str(one.get("name") or "")
        is_flag = (
            name
            and not ({"value", "default", "valueHint", "format"} & one.keys())
            and not one.get("isRequired")
        )
        if is_flag:
            arguments.append(name)
            continue
        value = _value(one, name.lstrip("-") or str(one.get("valueHint") or "argument"), answer)
        if value is not None:
            arguments += [name, value] if name else [value]
    return arguments


def _value(one: Json, name: str, answer: Answer) -> str | None:
    """A value as the card gives it, its default, or what is answered if it is required; None if it
    is not needed."""
    if isinstance(one.get("value"), str) and one["value"]:
        return _substituted(one["value"], one.get("variables"), answer)
    if isinstance(one.get("default"), str | int | float) and not one.get("isSecret"):
        return str(one["default"])
    if one.get("isRequired") is not True:
        return None
    choices = one.get("choices")
    description = values.cut(str(one.get("description") or ""), 300)
    listed = tuple(map(str, choices[:50])) if isinstance(choices, list) else ()
    return answer(CardInput(values.cut(name, 60), description, one.get("isSecret") is True, listed))


def _substituted(text: str, variables: object, answer: Answer) -> str:
    declared = variables if isinstance(variables, dict) else {}

    def value(hit: re.Match[str]) -> str:
        one = declared.get(hit[1])
        value = (
            _value({"isRequired": True, **one}, hit[1], answer) if isinstance(one, dict) else None
        )
        return hit[0] if value is None else value

    return _PLACEHOLDER.sub(value, text)


def read_pasted(text: str, name: str = "") -> list[FoundServer]:
    """The servers of what was pasted; `name` wins over a guess. Raises UsageProblem if there are
    none."""
    text = text.strip().removeprefix("$ ").strip()
    if not text:
        raise UsageProblem("Nothing was pasted.", hint="Paste a command line, an address, or JSON.")
    if text.startswith("{") or re.match(r'"[^"]+"\s*:\s*\{', text):
        return _from_json(text if text.startswith("{") else f"{{{text.rstrip(',')}}}", name)
    words = _words_of_command(text)
    if json_words := _JSON_FOR_CLIENT.match(" ".join(words)):
        return _from_json(json_words[2], name or json_words[1] or "")
    env: dict[str, str] = {}
    data: dict[str, Any]
    if _OTHER_CLIENT.match(text):
        label, words, env = _client_words(words[3:])
        name = name or label
    while words and _ASSIGNED.fullmatch(words[0]):
        key, _, env[key] = words.pop(0).partition("=")
    if not words:
        raise UsageProblem(
            "There is no command in it.",
            hint="For example: npx -y @modelcontextprotocol/server-memory",
        )
    if re.match(r"https?://", words[0]):
        data = {"type": "sse" if _IS_SSE.match(text) else "http", "url": words[0]}
        if headers := _headers_in(words[1:]):
            data["headers"] = headers
        return [FoundServer(name or _name_of_host(words[0]), data)]
    data = {"type": "stdio", "command": words[0], "args": words[1:]}
    return [FoundServer(name or _name_of_command(words), {**data, "env": env} if env else data)]


def _words_of_command(text: str) -> list[str]:
    """The words of the one command in a text. A server is started without a shell: what a shell
    would do with the rest is not done, so it is refused. Raises UsageProblem."""
    if len(text) > _MAX_COMMAND:
        raise UsageProblem(
            f"This has {len(text):,} characters; a command line has at most {_MAX_COMMAND:,}."
        )
    line = re.sub(r"\\\r?\n", " ", text)
    if hit := _SHELL.search(_QUOTED.sub("''", line)):
        what = hit[0].strip() or "A second line"
        raise UsageProblem(
            f"{what} is for a shell, and a server is started without one.",
            hint="Paste the one command that starts the server.",
        )
    try:
        return words_in(line)
    except ValueError as exc:
        raise UsageProblem(f"This is not a command line: {exc}.") from exc


def _headers_in(words: Sequence[str]) -> dict[str, str]:
    """The headers behind an address: `--header "Name: value"`. Raises UsageProblem for others."""
    headers: dict[str, str] = {}
    waiting = iter(words)
    for word in waiting:
        option, has_value, value = word.partition("=")
        if option not in _HEADER_FLAGS:
            raise UsageProblem(
                f"'{word[:80]}' stands behind the address and belongs to no header.",
                hint="Paste the address alone, or with: --header 'Name: value'",
            )
        label, _, content = (value if has_value else next(waiting, "")).partition(":")
        headers[label.strip()] = content.strip()
    return headers


def _client_words(words: Sequence[str]) -> tuple[str, list[str], dict[str, str]]:
    """The name, the command and the variables of the words behind `mcp add`; its other options are
    left out."""
    end = words.index("--") if "--" in words else len(words)
    plain: list[str] = []
    headers: list[str] = []
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
        elif option in _HEADER_FLAGS:
            headers += [option, value]
    return (plain[0] if plain else ""), [*plain[1:], *words[end + 1 :], *headers], env


def _from_json(text: str, name: str) -> list[FoundServer]:
    try:
        document = parse_json(text)
    except NotJson as exc:
        raise UsageProblem(f"This text {exc}.", hint="Paste the whole of it, from { to }.") from exc
    servers = servers_in(document)
    if not servers:  # the inside of such a file: entries by name, or one entry
        is_one = any(key in document for key in _ENTRY_KEYS)
        servers = {str(document.get("name") or ""): document} if is_one else document
    entries = [
        as_ours(key, data)
        for key, data in servers.items()
        if isinstance(data, dict) and data.keys() & _ENTRY_KEYS
    ]
    if not entries:
        raise UsageProblem(
            "This JSON has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.'
        )
    if len(entries) > 1:
        return entries
    data = entries[0].data
    label = name or entries[0].name
    if not label:
        command = [str(word) for word in (data.get("command", ""), *data.get("args", ()))]
        label = _name_of_host(str(data["url"])) if data.get("url") else _name_of_command(command)
    return [FoundServer(label, data)]


def _name_of_command(words: Sequence[str]) -> str:
    """A name from a package or program: `memory` for `npx -y
    @modelcontextprotocol/server-memory@1`."""
    runs_package = Path(words[0]).name in _LAUNCHERS
    named = (
        [word for word in words[1:] if not word.startswith("-") and word not in _RUN_WORDS]
        if runs_package
        else []
    )
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
