"""The requests of the servers screen and of a server's tab: list, start, stop, sign in, add,
remove, logs, messages.

Looking starts nothing.
"""

from __future__ import annotations

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.processes import command_line
from onetool_ipy.base.values import Json
from onetool_ipy.faces import pasted
from onetool_ipy.faces.client_files import FoundServer, without_secrets
from onetool_ipy.faces.server_setup import ServerSetup
from onetool_ipy.faces.widgets import text_in
from onetool_ipy.mcp.resources import prompt_names, reader_name
from onetool_ipy.toolbox import Toolbox

_MAX_LOGS = 100_000
_STARTING = ("start", "restart", "signIn")
# These stay true when the state of the server, which is shown beside them, changes.
_SAID = {"start": "was started", "restart": "was restarted", "stop": "was stopped"}
_OFFERED = (
    "tools",
    "resources",
    "templates",
    "prompts",
    "instructions",
    "about",
    "protocol",
    "faults",
)


class ServerRequests:
    """Answers the servers screen of one toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._setup = ServerSetup(box)

    def list(self, _payload: Json) -> Json:
        """Every server: what it is, how it is, why, and which tools it has; then those that wait
        for a secret."""
        waiting = self._box.config.waiting_servers().items()
        items = [self._item(name) for name in self._box.servers]
        return {"items": [*items, *({"name": name, "lacks": lacks} for name, lacks in waiting)]}

    def page(self, payload: Json) -> Json:
        """All that is known of one server: what it offers and what it says about itself."""
        name = self._name(payload)
        listing = self._box.servers.listing(name)
        offers: Json = {} if listing is None else {key: getattr(listing, key) for key in _OFFERED}
        if listing is not None:
            # Resources are read and prompts got by tools, which are found by these names.
            calls = {prompt["name"]: tool for tool, prompt in prompt_names(name, listing).items()}
            offers |= {"reader": reader_name(name, listing), "promptTools": calls}
        return {
            "server": self._item(name),
            **values.map_text(values.to_json(offers), self._box.mask),
        }

    def messages(self, payload: Json) -> Json:
        """The messages to and from a server since the one with this number."""
        name, after = self._name(payload), int(payload.get("after") or 0)
        return {"rows": [row for row in self._box.servers.trace(name) if row["number"] > after]}

    def message(self, payload: Json) -> Json:
        """One message whole."""
        text = self._box.servers.message(self._name(payload), int(payload["number"]))
        if text is None:
            raise UsageProblem("This message is no longer kept.")
        return {"text": text}

    def _item(self, name: str) -> Json:
        servers = self._box.servers
        definition, listing = servers.definition(name), servers.listing(name)
        address = definition.url or command_line((definition.command, *definition.args))
        tools = self._box.registry.known_packs().get(name, ())
        return {
            "name": name,
            "type": definition.type,
            "state": servers[name],
            "reason": self._box.mask(servers.reason(name)),
            "address": values.cut(self._box.mask(address), 300),
            "tools": [spec.name for spec in tools if spec.server == name],
            "isSaved": name not in servers.added(),
            "signsIn": definition.signs_in,
            "icon": "" if listing is None else listing.icon,
        }

    def act(self, payload: Json) -> Json:
        """Do one thing with a server; says what was done. A sign-in gives the address to visit."""
        servers, name, action = self._box.servers, self._name(payload), text_in(payload, "action")
        if action in _STARTING and not servers.is_allowed(name):
            raise UsageProblem(
                f"'{name}' is not trusted yet.",
                hint="Trust it in the Tools view, or run: %tool trust",
            )
        if action == "signIn":
            link = servers.sign_in(name)
            return {"url": self._box.mask(link.url)}
        if action == "signOut":
            servers.sign_out(name)
            return {"said": f"You are signed out of {name}, in all notebooks."}
        if action == "remove":
            return {"said": self._setup.remove(name)}
        if action not in _SAID:
            raise UsageProblem(f"A server cannot '{action[:40]}'.")
        getattr(servers, action)(name)
        return {"said": f"{name} {_SAID[action]}."}

    def logs(self, payload: Json) -> Json:
        """What a server wrote to stderr, the last of it."""
        return {"text": self._box.mask(self._box.servers.logs(self._name(payload)))[-_MAX_LOGS:]}

    def pasted(self, payload: Json) -> Json:
        """Say what a text is, and what can be done with it; nothing is done."""
        name, text = str(payload.get("name") or "").strip(), str(payload.get("text") or "")
        read = pasted.read(self._box, text, name=name)
        reply = {**read._asdict(), "fields": [each._asdict() for each in read.fields]}
        reply["choices"] = [each._asdict() for each in read.choices]
        masked: Json = values.map_text(values.to_json(reply), self._box.mask)
        return masked

    def add(self, payload: Json) -> Json:
        """Add what a person pasted: a command line, an address, or JSON. What is secret in it, and
        the `values` that were typed for what it lacks, go into secrets.yaml."""
        name, is_saved = str(payload.get("name") or "").strip(), bool(payload.get("isSaved"))
        servers, fields, notes = pasted.servers_of(
            self._box, text_in(payload, "text"), name, digest=str(payload.get("digest") or "")
        )
        servers, problems = pasted.usable(self._box, servers)
        typed = payload.get("values") or {}
        secrets = {each.name: str(typed.get(each.name) or "") for each in fields}
        if lacking := [name for name, value in secrets.items() if not value]:
            raise UsageProblem(f"Fill in {', '.join(lacking)}.")
        ready = []
        for server in servers:
            data, own = without_secrets(server)
            secrets |= own
            ready.append(FoundServer(server.name, data))
            self._setup.require_free(server.name)
        self._setup.keep_secrets(secrets)
        lines = self._setup.add(ready, is_saved=is_saved)
        return {
            "said": "\n".join([*lines, *notes, *problems]),
            "names": [server.name for server in ready],
        }

    def _name(self, payload: Json) -> str:
        name = text_in(payload, "name")
        if name not in self._box.servers:
            raise UsageProblem(f"No server '{name[:40]}'.", hint="Refresh the list.")
        return name
