"""The requests of the servers screen: list, start, stop, sign in, add, remove, logs. Listing starts nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.faces.server_setup import ServerSetup, read_pasted

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_MAX_LOGS = 100_000
_STARTING = ("start", "restart", "signIn")


class ServerRequests:
    """Answers the servers screen of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._setup = ServerSetup(box)

    def list(self) -> Json:
        """Every server: what it is, how it is, why, and how many tools it has. Starts nothing."""
        servers, packs = self._box.servers, self._box.registry.known_packs()
        added = servers.added()
        items = []
        for name, state in servers.items():
            definition = servers.definition(name)
            listing = servers.listing(name)
            address = definition.url or shlex.join((definition.command, *definition.args))
            items.append(
                {
                    "name": name,
                    "type": definition.type,
                    "state": state,
                    "reason": self._box.mask(servers.reason(name)),
                    "address": values.cut(self._box.mask(address), 300),
                    "tools": [spec.name for spec in packs.get(name, ()) if spec.server == name],
                    "isSaved": name not in added,
                    "signsIn": definition.signs_in,
                    "icon": "" if listing is None else listing.icon,
                }
            )
        return {"items": items}

    def act(self, name: str, action: str) -> Json:
        """Do one thing with a server; says what was done. A sign-in gives the address to visit."""
        servers = self._box.servers
        self._require(name)
        if action in _STARTING and not servers.is_allowed(name):
            raise UsageProblem(f"'{name}' is not trusted yet.", hint="Trust it in the Tools view, or run: %tool trust")
        if action == "signIn":
            link = servers.sign_in(name)
            return {"url": self._box.mask(link.url)}
        if action == "signOut":
            servers.sign_out(name)
            return {"said": f"You are signed out of {name}, in all notebooks."}
        if action == "remove":
            return {"said": self._setup.remove(name)}
        if action not in ("start", "stop", "restart"):
            raise UsageProblem(f"A server cannot '{action[:40]}'.")
        state = getattr(servers, action)(name)
        return {"said": f"{name} is {state}."}

    def logs(self, name: str) -> Json:
        """What a server wrote to stderr, the last of it."""
        self._require(name)
        return {"text": self._box.mask(self._box.servers.logs(name))[-_MAX_LOGS:]}

    def add(self, text: str, name: str, *, is_saved: bool) -> Json:
        """Add what a person pasted: a command line, an address, or JSON."""
        servers, notes = read_pasted(text, name), list[str]()
        if not name:
            servers, notes = self._setup.proposed(servers)
        return {"said": "\n".join([*self._setup.add(servers, is_saved=is_saved), *notes])}

    def _require(self, name: str) -> None:
        if name not in self._box.servers:
            raise UsageProblem(f"No server '{name[:40]}'.", hint="Refresh the list.")
