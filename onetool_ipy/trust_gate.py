"""TrustGate: what of a project may run, by what the user trusts. A toolbox asks it before anything of a project starts.

`config.trust` knows the user's list. `Inventory` lists what a yes would let run, for the trust question (contract 16);
it is read from the text of the files, nothing is run, and control characters are shown as escapes. The gate decides
about one tool, server or snippet, lets the host ask the person if one is at the keyboard, and follows what the user
said meanwhile in another process. What may not run is refused with Untrusted. `trust_state` and the lines below it
report all this to a person.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import Untrusted, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.config.settings import Definition
from onetool_ipy.config.trust import Trust, difference, pin_of, referenced_names
from onetool_ipy.core.tool import PROJECT_ORIGINS, CallSource, ToolSpec

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Inventory", "ServerEntry", "TrustGate", "removal_lines", "server_entries", "trust_lines", "trust_state"]

_MOST_SHOWN = 20
_BY_A_PERSON: frozenset[CallSource] = frozenset(("python", "magic", "shortcut"))


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
        found = {
            "folder": self.folder,
            "packFiles": self.pack_files,
            "servers": self.servers,
            "httpTools": self.http_tools,
            "hosts": self.hosts,
            "snippets": self.snippets,
        }
        plain: dict[str, Any] = values.map_text(values.to_json(found), printable_line)
        return plain


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


class TrustGate:
    """Decides what of a toolbox's project may run."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    def prepare(self, tool: str, source: CallSource) -> None:
        """Before a call: let the person say yes where the tool needs one. The call itself is refused, not this."""
        spec = self._box.parts.registry.get(tool)
        if spec is None or spec.origin in PROJECT_ORIGINS:
            self._ask_for(partial(self.admit, tool), source)

    def admit(self, tool: str, spec: ToolSpec | None = None) -> None:
        """Raise Untrusted for a tool of a project, or of a server in it, that the user does not trust."""
        parts = self._box.parts
        if parts.config.trust.record is None:
            return
        spec = spec or parts.registry.get(tool)
        server = tool.partition(".")[0] if spec is None else spec.server
        if spec is not None and (spec.origin not in PROJECT_ORIGINS or self._box.session.specs.get(spec.name) is spec):
            return
        if server and (spec is not None or server in self._box.servers):
            if not self._box.servers.is_allowed(server):
                raise self._untrusted(f"The tool '{spec.name if spec else tool}' was not run", server)
        elif spec is not None and not parts.config.trust.is_given:
            raise self._untrusted(f"The tool '{spec.name}' was not run")

    def is_admitted(self, tool: str) -> bool:
        """Whether `admit` lets a tool run."""
        try:
            self.admit(tool)
        except Untrusted:
            return False
        return True

    def require(self) -> None:
        """Raise Untrusted where the project is not trusted, and the person does not say yes."""
        self._ask_for(self._admit_project, "magic")
        self._admit_project()

    def require_snippet(self, name: str) -> None:
        """Raise Untrusted for a snippet of a project that the user does not trust, and does not say yes to."""
        if not self._box.is_session_snippet(name):
            self.require()

    def may_expand(self, snippet: str) -> bool:
        """Whether the template of a snippet may be filled without asking."""
        self.refresh()
        return self._box.is_session_snippet(snippet) or self._is_free()

    def require_server(self, name: str) -> None:
        """Raise Untrusted for a server that a person wants to start, and does not say yes to."""
        self._ask_for(partial(self._admit_server, name), "magic")
        self._admit_server(name)

    def grant(self, server: str = "", *, shown: Inventory | None = None) -> None:
        """Trust the project from now on, with its servers as they are defined now; or one server alone."""
        self._box.follow_trust()
        parts = self._box.parts
        if shown is not None and parts.inventory() != shown:
            raise UsageProblem(
                "The project has changed since you were shown what it holds; nothing was trusted.",
                hint="Run it again to see what it holds now.",
            )
        config = parts.config
        if config.trust.how == "no project":
            raise UsageProblem(f"There is no project in '{config.paths.project}'.", hint="Make one: onetool-ipy init")
        if config.trust.record is None:
            return
        parts.record_trust(server)
        self._box.follow_trust()

    def revoke(self) -> bool:
        """Trust the project no longer; False where it was not on the user's list."""
        was_listed = self._box.parts.forget_trust()
        self._box.follow_trust()
        return was_listed

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around what a person saves into the project: a `.onetool` folder that this creates is trusted."""
        parts = self._box.parts
        is_new = not os.path.lexists(parts.config.paths.project / FOLDER)
        yield
        if is_new and self._box.parts.config.trust.how == "no project":
            self._box.parts.record_trust("")

    def refresh(self) -> None:
        """Before something of the project may start: follow what the user said since, in whatever process."""
        if self._box.parts.config.trust.has_changed() and not self._box.is_closed:
            self._box.follow_trust()

    def _is_free(self) -> bool:
        trust = self._box.parts.config.trust
        return trust.is_given or trust.how == "no project"

    def _admit_project(self) -> None:
        if not self._is_free():
            raise self._untrusted("It was not run")

    def _admit_server(self, name: str) -> None:
        if not self._box.servers.is_allowed(name):
            raise self._untrusted(f"The server '{name}' was not started", name)

    def _untrusted(self, what: str, server: str = "") -> Untrusted:
        if server and self._box.parts.config.trust.is_given:
            return Untrusted(f"{what}: the server '{server}' is new or has changed.", server=server)
        return Untrusted(f"{what}: this project is not trusted.")

    def _ask_for(self, admit: Callable[[], None], source: CallSource) -> None:
        """Let the host ask for the trust that is missing, where a person made the call."""
        self.refresh()
        if source not in _BY_A_PERSON:
            return
        try:
            admit()
        except Untrusted as exc:
            self._box.host.ask_for_trust(exc)


# --- the state of a project's trust, for people ---------------------------------------------------


_WHY = {
    "home": "It is your own, in your home directory.",
    "named": "It was named outright, so it is trusted in this process.",
    "environment": "$ONETOOL_TRUST names it.",
}


def trust_state(box: Toolbox) -> dict[str, Any]:
    """Whether the project is trusted, why, and what a yes would let run."""
    config = box.config
    return {
        "folder": str(config.paths.project),
        "isTrusted": config.trust.is_given,
        "how": config.trust.how,
        "wouldRun": box.would_run().to_dict(),
    }


def trust_lines(box: Toolbox) -> list[str]:
    """Lines that say what a yes lets run, or why there is nothing to say yes to."""
    trust, found = box.config.trust, box.would_run()
    folder = printable_line(found.folder)
    if trust.how in _WHY:
        return [f"{folder} is trusted already. {_WHY[trust.how]}"]
    if trust.how == "listed" and not found.servers:
        return [f"{folder} is trusted already."]
    return [f"{folder} is trusted from now on. It may run:", *(f"  {line}" for line in found.lines())]


def removal_lines(box: Toolbox, *, was_listed: bool) -> list[str]:
    """Lines that say what `--remove` did."""
    trust, folder = box.config.trust, printable_line(str(box.config.paths.project))
    if trust.how in _WHY:
        return [f"{folder} is still trusted. {_WHY[trust.how]}"]
    return [f"{folder} is no longer trusted." if was_listed else f"{folder} was not trusted."]
