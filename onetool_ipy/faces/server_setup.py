"""Adding and removing MCP servers, for `%tool server` and for the screens.

A server that is added belongs to this session; a saved one goes into `onetool.yaml`, and its secrets into
`secrets.yaml`. Files and texts of other clients are read here: the `mcpServers` (or `servers`) of JSON, with comments
and trailing commas.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.check import check_server
from onetool_ipy.config.edit import add_server, remove_server, save_secret
from onetool_ipy.mcp.definition import read_server

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["FoundServer", "ServerSetup", "read_client_file", "read_client_text", "without_secrets"]

_SECRET = re.compile(r"key|token|secret|passw|auth|credential|cookie|\bpat\b", re.IGNORECASE)
_TAKEN = ("command", "args", "env", "cwd", "url", "headers")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_BYTES = 5_000_000


class FoundServer(NamedTuple):
    """A server of another client: its name, and its entry in our terms."""

    name: str
    data: dict[str, Any]


def read_client_file(path: Path) -> list[FoundServer]:
    """The servers of another client's file. Raises UsageProblem if it cannot be read or has none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageProblem(f"'{path}' is too large for a configuration.")
        text = path.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageProblem(f"'{path}' cannot be read: {reason}.") from exc
    return read_client_text(text, f"'{path}'")


def read_client_text(text: str, what: str) -> list[FoundServer]:
    """The servers of JSON text with comments and trailing commas; `what` names it in errors."""
    plain = _COMMA.sub(_kept, _COMMENT.sub(_kept, text))
    try:
        document = json.loads(plain)
    except (ValueError, RecursionError) as exc:
        raise UsageProblem(f"{what} is not JSON: {exc}.") from exc
    servers = _servers(document)
    if not servers:
        raise UsageProblem(f"{what} has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.')
    return [FoundServer(name, _entry(data)) for name, data in servers.items()]


def without_secrets(found: FoundServer) -> tuple[dict[str, Any], dict[str, str]]:
    """The entry with `${NAME}` in place of likely secrets, and those secrets by name."""
    data = dict(found.data)
    secrets: dict[str, str] = {}
    for section in ("env", "headers"):
        given = data.get(section)
        if not isinstance(given, dict):
            continue
        kept = dict(given)
        for key, value in given.items():
            if isinstance(value, str) and "${" not in value and value and _SECRET.search(key):
                name = re.sub(r"\W+", "_", f"{found.name}_{key}").upper()
                secrets[name] = value
                kept[key] = f"${{{name}}}"
        data[section] = kept
    return data, secrets


def _servers(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        return {}
    for key in ("mcpServers", "servers"):
        found = document.get(key)
        if isinstance(found, dict):
            return found
    inner = document.get("mcp")
    return _servers(inner) if isinstance(inner, dict) else {}


def _entry(data: Any) -> dict[str, Any]:
    """An entry in our terms: other clients name the type differently, or not at all."""
    if not isinstance(data, dict):
        return {"type": "stdio", "command": data}
    url = data.get("url") or data.get("serverUrl") or data.get("httpUrl")
    kept = {key: _filled(data[key]) for key in _TAKEN if data.get(key) not in (None, {}, [])}
    if data.get("disabled") is True or data.get("enabled") is False:
        kept["enabled"] = False
    if url:
        return {"type": "sse" if data.get("type") == "sse" else "http", **kept, "url": url}
    return {"type": "stdio", **kept}


def _filled(value: Any) -> Any:
    """Replace `${env:NAME}`, as other clients write it, by `${NAME}`."""
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", value)
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _kept(found: re.Match[str]) -> str:
    return found[1] or ""


class ServerSetup:
    """Adds servers to one toolbox and removes them."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    def add(self, found: list[FoundServer], *, is_saved: bool) -> list[str]:
        """Add servers and say what was done; a bad one does not stop the others. Raises UsageProblem if all are bad."""
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
            self._pin(each.name for each in found)
        self._box.host.reloaded()
        return lines

    def remove(self, name: str) -> str:
        """Remove a server, from `onetool.yaml` too if it is there; says what was done."""
        saved = self._box.config.settings.servers
        if name in saved and name not in self._box.servers.added():
            with self._box.gate.saving():
                file = remove_server(self._box.config.paths, name)
            self._box.reload()
            return f"{name} is removed, also from {file}."
        self._box.servers.remove(name)
        return f"{name} is removed."

    def _pin(self, names: Iterable[str]) -> None:
        """Trust servers that a person typed, if the project is trusted."""
        for name in names:
            if self._box.config.trust.is_pinned and name in self._box.config.settings.servers:
                self._box.trust(name)

    def _for_session(self, found: FoundServer) -> str:
        _, secrets = without_secrets(found)
        if secrets:
            raise UsageProblem(
                f"It holds a secret ({', '.join(secrets)}).",
                hint="Use --save, which keeps it in secrets.yaml; or put it there yourself and write ${NAME}.",
            )
        config = self._box.config
        checked = check_server(found.name, found.data, config.secrets.get)
        self._require_free(found.name)
        where, limit, roots = "this session", config.settings.timeouts.mcp_s, config.settings.fs.roots
        folder = config.paths.project
        self._box.servers.add(read_server(found.name, checked, where, folder=folder, timeout_s=limit, roots=roots))
        return f"{found.name}: added for this session.{_doubts(found.data)}"

    def _save(self, found: FoundServer) -> str:
        data, secrets = without_secrets(found)
        check_server(found.name, found.data, self._box.config.secrets.get)
        self._require_free(found.name)
        paths = self._box.config.paths
        with self._box.gate.saving():
            for name, value in secrets.items():
                save_secret(paths, name, value)
            file = add_server(paths, found.name, data)
        kept = f" Its secrets are in secrets.yaml: {', '.join(secrets)}." if secrets else ""
        return f"{found.name}: saved to {file}.{kept}{_doubts(found.data)}"

    def _require_free(self, name: str) -> None:
        if name in self._box.servers:
            raise UsageProblem(f"There is a server '{name}'.", hint="Take another name.")


_OUR_FLAGS = ("--url", "--env", "--header", "--cwd", "--save", "--trusted")


def _doubts(data: Mapping[str, Any]) -> str:
    """What is likely wrong with a server that was typed: a program that is not there, flags of ours for it."""
    command = str(data.get("command") or "")
    if not command:
        return ""
    said = "" if shutil.which(command) else f"\n  There is no program '{command}' on your PATH."
    ours = [flag for flag in _OUR_FLAGS if flag in data.get("args", ())]
    if ours:
        said += f"\n  {', '.join(ours)} went to the command. For %tool, write: %tool server add NAME {ours[0]} ..."
    return said
