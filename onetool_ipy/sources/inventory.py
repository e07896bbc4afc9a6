"""What a project would run once the user trusts it: the content of the trust question (contract 16).

Read from the text of the files; nothing is run, started or filled. All of it is untrusted, so control characters are
shown as escapes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.settings import Definition
from onetool_ipy.config.trust import Trust, difference, pin_of, referenced_names

__all__ = ["Inventory", "ServerEntry", "server_entries"]

_MOST_SHOWN = 20


class ServerEntry(NamedTuple):
    """One MCP server: its command, and the variables and secrets that it would get.

    Variables of the user's are listed by name, variables that the project sets with their value: `PATH=./bin`.
    """

    name: str
    runs: str
    variables: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """How the definition differs from the one that the user approved."""

    def lines(self) -> list[str]:
        """Return the server as the question shows it."""
        found = [f"server {printable_line(self.name)}: {printable_line(self.runs)}"]
        if self.secrets:
            found.append(f"  gets the secrets {', '.join(self.secrets)}")
        if self.variables:
            found.append(f"  gets the variables {', '.join(map(printable_line, self.variables))}")
        return found + [f"  {printable_line(line)}" for line in self.changes]


class Inventory(NamedTuple):
    """Everything that trusting a project covers."""

    folder: str
    pack_files: tuple[str, ...] = ()
    servers: tuple[ServerEntry, ...] = ()
    http_tools: int = 0
    hosts: tuple[str, ...] = ()
    snippets: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return one line for each thing that would run. Long lists are cut."""
        found = [f"pack file {printable_line(file)}" for file in self.pack_files[:_MOST_SHOWN]]
        if len(self.pack_files) > _MOST_SHOWN:
            found.append(f"... and {len(self.pack_files) - _MOST_SHOWN} more pack files")
        for server in self.servers:
            found += server.lines()
        if self.http_tools:
            hosts = _joined(self.hosts) or "no host"
            found.append(f"{self.http_tools} HTTP tool{'s' * (self.http_tools > 1)} to {hosts}")
        if self.snippets:
            found.append(f"snippets {_joined([f'${name}' for name in self.snippets])}")
        return found or ["nothing of it runs by itself"]

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain JSON, for a form."""
        return {
            "folder": printable_line(self.folder),
            "packFiles": [printable_line(file) for file in self.pack_files],
            "servers": [
                {
                    "name": printable_line(server.name),
                    "runs": printable_line(server.runs),
                    "variables": [printable_line(name) for name in server.variables],
                    "secrets": list(server.secrets),
                    "changes": [printable_line(line) for line in server.changes],
                }
                for server in self.servers
            ],
            "httpTools": self.http_tools,
            "hosts": [printable_line(host) for host in self.hosts],
            "snippets": [printable_line(name) for name in self.snippets],
        }


def server_entries(
    servers: Mapping[str, Definition], trust: Trust, secret_names: Iterable[str]
) -> tuple[ServerEntry, ...]:
    """Return the servers that need approval, as written; a server approved before also says what changed."""
    known = set(secret_names)
    found = []
    for name, definition in servers.items():
        pin = pin_of(definition.written)
        if trust.covers(name, pin) or definition.data.get("enabled") is False:
            continue
        drawn = referenced_names(pin)
        inherited = [str(variable) for variable in pin.get("inherit") or ()]
        given = [f"{key}={value}" for key, value in (pin.get("env") or {}).items() if not referenced_names(value)]
        entry = ServerEntry(
            name,
            _runs(pin),
            tuple(dict.fromkeys([*(n for n in drawn if n not in known), *inherited, *given])),
            tuple(n for n in drawn if n in known),
            tuple(difference(trust.pins[name], pin)) if name in trust.pins else (),
        )
        found.append(entry)
    return tuple(found)


def _runs(pin: Mapping[str, Any]) -> str:
    """Return the whole command line, or the address."""
    if pin.get("url"):
        return str(pin["url"])
    words = [str(pin.get("command") or ""), *(str(word) for word in pin.get("args") or ())]
    line = shlex.join(words)
    return f"{line} (in {pin['cwd']})" if pin.get("cwd") else line


def _joined(names: Sequence[str]) -> str:
    shown = ", ".join(printable_line(name) for name in names[:_MOST_SHOWN])
    more = len(names) - _MOST_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
