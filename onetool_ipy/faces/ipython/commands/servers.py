"""`%tool server list | add | import | start | stop | restart | logs | test | remove`: the MCP servers of the project.

A server that is added belongs to this session; with `--save` it goes into `onetool.yaml`, and what in it is secret
into `secrets.yaml`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from onetool_ipy.config.edit import add_server, save_secret
from onetool_ipy.config.entries import check_server
from onetool_ipy.core import match
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.faces.ipython import parse
from onetool_ipy.faces.ipython.commands.client_files import Found, read_client_file, without_secrets
from onetool_ipy.faces.ipython.commands.group import Bench, Command, page
from onetool_ipy.faces.ipython.display import Page
from onetool_ipy.faces.ipython.flags import OptionKind
from onetool_ipy.render.counted import counted
from onetool_ipy.render.shown import Listing

__all__ = ["ServerCommands"]

_ADD: Mapping[str, OptionKind] = {
    "--url": "text",
    "--env": "text",
    "--header": "text",
    "--cwd": "text",
    "--save": "switch",
    "--trusted": "switch",
}
_HOW = "%tool server add NAME COMMAND ARGUMENT ...   or   %tool server add NAME --url http://127.0.0.1:8000/mcp"


class ServerCommands:
    """What can be done with MCP servers."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool server [list]            the MCP servers and how they are",
        "%tool server add NAME COMMAND  a server for this session; --url URL, --env K=V, --header K=V, --save",
        "%tool server import FILE       the mcpServers of another client's JSON; --save keeps them",
        "%tool server start|stop|restart|test|logs|remove NAME",
    )

    def __init__(self, bench: Bench) -> None:
        self._box = bench.box
        self._verbs: dict[str, Callable[[list[str], Mapping[str, Any]], Any]] = {
            "list": self._list,
            "add": self._add,
            "import": self._import,
            "start": lambda words, _: self._state(words, "start"),
            "stop": lambda words, _: self._state(words, "stop"),
            "restart": lambda words, _: self._state(words, "restart"),
            "test": self._test,
            "logs": self._logs,
            "remove": self._remove,
        }

    def table(self) -> dict[str, Command]:
        return {"server": self._server, "servers": self._server}

    def _server(self, rest: str) -> Any:
        verb, _, more = rest.strip().partition(" ")
        if not verb:
            return self._list([], {})
        if verb not in self._verbs:
            near = match.did_you_mean(verb, self._verbs)
            raise UsageProblem(
                f"%tool server does not know '{verb[:40]}'. {near}".strip(), hint=f"It knows: {', '.join(self._verbs)}."
            )
        asked = parse.read_options(more, _ADD if verb in ("add", "import") else {})
        return self._verbs[verb](asked.words, asked.given)

    def _list(self, words: list[str], _given: Mapping[str, Any]) -> Any:
        if words:
            raise UsageProblem(f"%tool server list takes no '{words[0]}'.")
        servers = self._box.servers
        if not servers:
            return page(self._box, ["There are no MCP servers.", f"Add one with: {_HOW}"])
        packs = self._box.registry.known_packs()
        rows = [
            {
                "server": name,
                "type": servers.definition(name).type,
                "state": state,
                "tools": sum(spec.server == name for spec in packs.get(name, ())),
                "why": self._box.mask(servers.reason(name)),
            }
            for name, state in sorted(servers.items())
        ]
        return Listing(rows)

    def _add(self, words: list[str], given: Mapping[str, Any]) -> Page:
        if not words or (len(words) < 2 and "--url" not in given) or (len(words) > 1 and "--url" in given):
            raise UsageProblem("%tool server add wants a name, and a command or --url.", hint=_HOW)
        name, *command = words
        data: dict[str, Any] = {"type": "http", "url": given["--url"]} if "--url" in given else {"type": "stdio"}
        if command:
            data |= {"command": command[0], "args": command[1:]}
        for flag, key in (("--env", "env"), ("--header", "headers")):
            if flag in given:
                data[key] = _pairs(flag, given[flag])
        if "--cwd" in given:
            data["cwd"] = given["--cwd"]
        if "--trusted" in given:
            data["trusted"] = True
        return self._keep([Found(name, data)], is_saved="--save" in given)

    def _import(self, words: list[str], given: Mapping[str, Any]) -> Page:
        if len(words) != 1:
            raise UsageProblem("%tool server import wants one file.", hint="For example: %tool server import mcp.json")
        return self._keep(read_client_file(Path(words[0])), is_saved="--save" in given)

    def _keep(self, found: list[Found], *, is_saved: bool) -> Page:
        """Take servers in, each for itself: one that is not right stops no other."""
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
            self._say_yes(each.name for each in found)
        names = ", ".join(each.name for each in found)
        return page(self._box, [*lines, f"Try: %tool server test {found[0].name}   ({names})"])

    def _say_yes(self, names: Iterable[str]) -> None:
        """A server that a person typed needs no question, where the project is trusted."""
        for name in names:
            if self._box.config.trust.is_pinned and name in self._box.config.settings.servers:
                self._box.trust(name)

    def _for_session(self, found: Found) -> str:
        from onetool_ipy.sources.mcp.definition import read_server

        _, secrets = without_secrets(found)
        if secrets:
            raise UsageProblem(
                f"It holds a secret ({', '.join(secrets)}).",
                hint="Use --save, which keeps it in secrets.yaml; or put it there yourself and write ${NAME}.",
            )
        config = self._box.config
        checked = check_server(found.name, found.data, config.secrets.get)
        self._require_free(found.name)
        where, limit = "this session", config.settings.timeouts.mcp_s
        self._box.servers.add(read_server(found.name, checked, where, folder=config.paths.project, timeout_s=limit))
        return f"{found.name}: added for this session."

    def _save(self, found: Found) -> str:
        data, secrets = without_secrets(found)
        check_server(found.name, found.data, self._box.config.secrets.get)
        self._require_free(found.name)
        paths = self._box.config.paths
        with self._box.saving():
            for name, value in secrets.items():
                save_secret(paths, name, value)
            file = add_server(paths, found.name, data)
        kept = f" Its secrets are in secrets.yaml: {', '.join(secrets)}." if secrets else ""
        return f"{found.name}: saved to {file}.{kept}"

    def _require_free(self, name: str) -> None:
        if name in self._box.servers:
            raise UsageProblem(f"There is a server '{name}'.", hint="Take another name.")

    def _state(self, words: list[str], verb: str) -> Page:
        name = self._one(words, verb)
        if verb != "stop":
            self._box.admit_server(name)
        state = getattr(self._box.servers, verb)(name)
        tools = sum(spec.server == name for spec in self._box.registry.known())
        said = f"{name} is {state}" + (f", {counted(tools, 'tool')}." if state == "connected" else ".")
        return page(self._box, [said])

    def _test(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "test")
        self._box.admit_server(name)
        found = self._box.servers.test(name)
        lines = [f"{name}: {'works' if found.get('ok') else 'does not work'}"]
        shown = [(key, value) for key, value in found.items() if key not in ("server", "ok", "stderr") and value]
        lines += [f"  {key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in shown]
        if found.get("stderr"):
            lines += ["  what it said:", *(f"    {line}" for line in str(found["stderr"]).splitlines()[-12:])]
        return page(self._box, lines)

    def _logs(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "logs")
        said = self._box.servers.logs(name)
        return page(self._box, said.splitlines() or [f"{name} has said nothing on stderr."])

    def _remove(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "remove")
        self._box.servers.remove(name)
        return page(self._box, [f"{name} is removed."])

    def _one(self, words: list[str], verb: str) -> str:
        if len(words) != 1:
            raise UsageProblem(f"%tool server {verb} wants one name.", hint="See them with: %tool server")
        if words[0] not in self._box.servers:
            near = match.did_you_mean(words[0], self._box.servers)
            raise UsageProblem(f"No server '{words[0][:40]}'. {near}".strip(), hint="See them with: %tool server")
        return words[0]


def _pairs(flag: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise UsageProblem(f"{flag} wants NAME=value, not '{pair[:40]}'.", hint="Several: NAME=value,OTHER=value")
        found[key.strip()] = value
    return found
