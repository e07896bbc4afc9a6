"""Adding and removing MCP servers, for `%tool server` and for the screens.

A server that is added belongs to this session; a saved one goes into `onetool.yaml`, and its secrets into
`secrets.yaml`. `faces.client_files` reads and writes the files of other clients.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.config.check import check_server
from onetool_ipy.config.edit import add_server, remove_server, save_secret
from onetool_ipy.faces.client_files import CLIENTS, FoundServer, without_secrets
from onetool_ipy.mcp.definition import read_server

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["ServerSetup"]


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
        self.require_free(found.name)
        where, limit, roots = "this session", config.settings.timeouts.mcp_s, config.settings.fs.roots
        folder = config.paths.project
        self._box.servers.add(read_server(found.name, checked, where, folder=folder, timeout_s=limit, roots=roots))
        return f"{found.name}: added for this session.{_doubts(found.data)}"

    def _save(self, found: FoundServer) -> str:
        data, secrets = without_secrets(found)
        check_server(found.name, found.data, self._box.config.secrets.get)
        self.require_free(found.name)
        paths = self._box.config.paths
        with self._box.gate.saving():
            for name, value in secrets.items():
                save_secret(paths, name, value)
            file = add_server(paths, found.name, data)
        kept = f" Its secrets are in secrets.yaml: {', '.join(secrets)}." if secrets else ""
        return f"{found.name}: saved to {file}.{kept}{_doubts(found.data)}"

    def require_free(self, name: str) -> None:
        """Raise UsageProblem if there is a server of that name."""
        if name in self._box.servers:
            raise UsageProblem(f"There is a server '{name}'.", hint="Take another name.")

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
        return CLIENTS[word].path(project, Path.home()) if word in CLIENTS else Path(word).expanduser()

    def written(self, name: str) -> dict[str, Any]:
        """The entry of a server as it is written, with every `${NAME}` unfilled."""
        saved = self._box.config.settings.servers.get(name)
        if saved is not None and name not in self._box.servers.added():
            return dict(saved.written)
        definition = self._box.servers.definition(name)
        given = {key: getattr(definition, key) for key in ("type", "command", "url")}
        given |= {"args": list(definition.args), "env": dict(definition.env), "headers": dict(definition.headers)}
        secrets = self._box.config.secrets
        by_value = {value: known for known in secrets.names() if (value := secrets.get(known))}

        def unfilled(text: str) -> str:
            for value in sorted(by_value, key=len, reverse=True):
                text = text.replace(value, f"${{{by_value[value]}}}")
            return text

        entry: dict[str, Any] = values.map_text(given, unfilled)
        return entry


_OUR_FLAGS = ("--url", "--env", "--header", "--cwd", "--save", "--trusted", "--yes")


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
