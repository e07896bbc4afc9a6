"""`%tool server` and `%tool serve`: MCP servers that we use, and our tools for other MCP clients.

Adding, importing and removing are in `faces.server_setup`. `import` and `export` show the difference and ask first; so
does `add` for a registry card. `serve` writes its token to a file that only its owner can read, never into the
notebook.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import write_whole
from onetool_ipy.base.printable import printable, printable_line
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.faces.client_files import (
    CLIENTS,
    FoundServer,
    as_ours,
    merged,
    read_client_file,
    read_json,
    translate,
    without_secrets,
)
from onetool_ipy.faces.line.grammar import OptionKind, read_leading_options, read_options
from onetool_ipy.faces.notebook.commands import Command, CommandContext, CommandGroup, confirmed, put
from onetool_ipy.faces.notebook.display import Page
from onetool_ipy.faces.notebook.errors import raise_result
from onetool_ipy.faces.notebook.host import can_ask
from onetool_ipy.faces.server_setup import CardInput, ServerSetup, card_name, is_card, server_of
from onetool_ipy.mcp.definition import UnconfirmedIssuer
from onetool_ipy.proxies import prompts_of, resources_of
from onetool_ipy.render import html
from onetool_ipy.render.views import Listing, counted

if TYPE_CHECKING:
    from onetool_ipy.faces.mcp.http import Serving
    from onetool_ipy.toolbox import Toolbox

__all__ = ["ServeCommands", "ServerCommands"]

_ADD: Mapping[str, OptionKind] = {
    "--url": "text",
    "--env": "text",
    "--header": "text",
    "--cwd": "text",
    "--save": "switch",
    "--trusted": "switch",
    "--yes": "switch",
}
_UNCHANGED = "Nothing was changed."
_HOW = "%tool server add NAME COMMAND ARGUMENTS   or   %tool server add NAME https://example.com/mcp"
_VERB_OPTIONS: Mapping[str, Mapping[str, OptionKind]] = {
    "import": {"--save": "switch", "--yes": "switch"},
    "export": {"--yes": "switch"},
    "login": {"--code": "text"},
}


class ServerCommands(CommandGroup):
    """The sub-commands about MCP servers."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool server [list]            the MCP servers and their states",
        "%tool server add NAME COMMAND ARGUMENTS   a server for this session; before COMMAND: --env K=V, --cwd, --save",
        "%tool server add NAME URL      a server reached by HTTP; --header K=V, --save",
        "%tool server add CARD.json     a server of a registry card; asks for what is missing",
        "%tool server import CLIENT     the servers of another client, or of its FILE; --save keeps them",
        "%tool server export CLIENT [NAME ...]   ours for another client: " + ", ".join(CLIENTS),
        "%tool server login|logout NAME  sign in to a server, or out; --code ADDRESS gives the answer by hand",
        "%tool server start|stop|restart|test|logs|remove NAME   remove also takes a saved one out of onetool.yaml",
        "%tool server trace NAME        every message to and from it, as a table",
        "%tool server resources|prompts NAME   what it offers beside its tools",
        "%tool server read NAME URI     a resource; a template takes its variables as K=V",
    )

    def __init__(self, context: CommandContext) -> None:
        super().__init__(context)
        self._setup = ServerSetup(self.box)
        self._verbs: dict[str, Callable[[list[str], Mapping[str, Any]], Any]] = {
            "list": self._list,
            "add": self._add,
            "import": self._import,
            "export": self._export,
            "start": lambda words, _: self._state(words, "start"),
            "stop": lambda words, _: self._state(words, "stop"),
            "restart": lambda words, _: self._state(words, "restart"),
            "login": self._login,
            "logout": self._logout,
            "test": self._test,
            "logs": self._logs,
            "trace": self._trace,
            "remove": self._remove,
            "resources": lambda words, _: self._offers(words, "resources", resources_of),
            "prompts": lambda words, _: self._offers(words, "prompts", prompts_of),
            "read": self._read,
        }

    def table(self) -> dict[str, Command]:
        return {"server": self._server, "servers": self._server}

    def _server(self, rest: str) -> Any:
        verb, _, more = rest.strip().partition(" ")
        if not verb:
            return self._list([], {})
        if verb not in self._verbs:
            near = did_you_mean(verb, self._verbs)
            raise UsageProblem(
                f"%tool server does not know '{verb[:40]}'. {near}".strip(), hint=f"It knows: {', '.join(self._verbs)}."
            )
        if verb == "add":  # NAME and COMMAND; all behind the command is the command's
            asked = read_leading_options(more, _ADD, 2)
        else:
            asked = read_options(more, _VERB_OPTIONS.get(verb, {}))
        return self._verbs[verb](asked.words, asked.given)

    def _list(self, words: list[str], _given: Mapping[str, Any]) -> Any:
        if words:
            raise UsageProblem(f"%tool server list takes no '{words[0]}'.")
        servers = self.box.servers
        if not servers:
            return self.page("There are no MCP servers.", f"Add one with: {_HOW}")
        packs = self.box.registry.known_packs()
        rows = [
            {
                "server": name,
                "type": servers.definition(name).type,
                "state": state,
                "tools": sum(spec.server == name for spec in packs.get(name, ())),
                "why": self.box.mask(servers.reason(name)),
            }
            for name, state in sorted(servers.items())
        ]
        return Listing(rows)

    def _add(self, words: list[str], given: Mapping[str, Any]) -> Page:
        if words and len(words) < 3 and "--url" not in given and words[-1].endswith(".json"):
            return self._add_card(Path(words[-1]).expanduser(), words[0] if len(words) == 2 else "", given)
        if not words or (len(words) < 2 and "--url" not in given) or (len(words) > 1 and "--url" in given):
            raise UsageProblem("%tool server add needs a name, and a command or --url.", hint=_HOW)
        name, *command = words
        if len(command) == 1 and "--url" not in given and command[0].startswith(("http://", "https://")):
            given, command = {**given, "--url": command[0]}, []
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
        return self._add_all([FoundServer(name, data)], is_saved="--save" in given)

    def _add_card(self, path: Path, name: str, given: Mapping[str, Any]) -> Page:
        """Add the server of a registry card; asks for what is missing, then for a yes to the whole command."""
        card = read_json(path)
        if not is_card(card):
            raise UsageProblem(f"'{path}' is not a registry card.", hint="For other files: %tool server import FILE")
        notes: list[str] = []
        if not name:
            (proposal,), notes = self._setup.proposed([FoundServer(card_name(card), {})])
            name = proposal.name
        self._setup.require_free(name)
        told = {key: _pairs(key, given[key]) for key in ("--env", "--header") if key in given}
        secrets: dict[str, str] = {}

        def answer(wanted: CardInput) -> str:
            known = next((each[wanted.name] for each in told.values() if wanted.name in each), None)
            if known is None and wanted.is_secret and self.box.config.secrets.get(wanted.name) is not None:
                return f"${{{wanted.name}}}"
            value = known if known is not None else self._ask_value(wanted, name)
            if not wanted.is_secret:
                return value
            label = re.sub(r"\W+", "_", f"{name}_{wanted.name}").upper()
            secrets[label] = value
            return f"${{{label}}}"

        found = server_of(card, name, answer)
        shown = [_difference("+", name, found.data), *notes, *_kept_secrets(secrets)]
        if not self._is_agreed(shown, f"Add the server '{name}'?", given):
            return self.page(_UNCHANGED)
        self._setup.keep_secrets(secrets)
        return self._add_all([found], is_saved="--save" in given, notes=notes)

    def _ask_value(self, wanted: CardInput, server: str) -> str:
        """Ask the person for one value; a secret is not shown."""
        field: dict[str, Any] = {"type": "string", "title": wanted.name, "description": wanted.description}
        if wanted.is_secret:
            field["format"] = "password"
        elif wanted.choices:
            field["enum"] = list(wanted.choices)
        needs = f"The server '{server}' needs '{wanted.name}'."
        value = self._typed(needs, field, yes="Go on", nobody=f"Give it: --env {wanted.name}=...")
        if not value or (wanted.choices and value not in wanted.choices):
            raise UsageProblem(f"The server '{server}' was not added: it needs '{wanted.name}'.")
        return value

    def _typed(self, text: str, field: Mapping[str, Any], *, yes: str, nobody: str) -> str:
        """Ask for one value; empty if the person gives none. `nobody` is the hint where nobody can be asked."""
        from onetool_ipy.core.question import Question  # late: few servers need it

        form = {"type": "object", "properties": {"value": field}, "required": ["value"]}
        reply = put(self.box, Question("%tool", text, form=form, yes=yes, no="Cancel", takes_secret=True))
        if reply is None:
            raise UsageProblem(text, hint=nobody)
        return str(reply.content.get("value", ""))

    def _import(self, words: list[str], given: Mapping[str, Any]) -> Page:
        if len(words) != 1:
            hint = f"For example: %tool server import mcp.json   or one of {', '.join(CLIENTS)}"
            raise UsageProblem("%tool server import needs one file or client.", hint=hint)
        servers = read_client_file(self._setup.client_path(words[0]))
        known = {each.name for each in servers if each.name in self.box.servers}
        others, notes = self._setup.proposed([each for each in servers if each.name not in known])
        known |= {each.name for each in others if each.name in self.box.servers}
        fresh = [each for each in others if each.name not in known]
        lines = [f"  {name}: left out, there is a server of that name" for name in sorted(known)]
        if not fresh:
            raise UsageProblem("There is nothing new in it.", hint="\n".join(lines))
        plain = [(each, *without_secrets(each)) for each in fresh]
        secrets = {name: value for _, _, kept in plain for name, value in kept.items()}
        lines += [_difference("+", each.name, data) for each, data, _ in plain]
        lines += [f"  {note}" for note in notes]
        if not self._is_agreed([*lines, *_kept_secrets(secrets)], f"Add {counted(len(fresh), 'server')}?", given):
            return self.page(_UNCHANGED)
        self._setup.keep_secrets(secrets)
        servers = [FoundServer(each.name, data) for each, data, _ in plain]
        return self._add_all(servers, is_saved="--save" in given, notes=notes)

    def _export(self, words: list[str], given: Mapping[str, Any]) -> Page:
        client = words[0] if words else ""
        if client not in CLIENTS:
            near = did_you_mean(client, CLIENTS)
            raise UsageProblem(
                f"%tool server export needs a client. {near}".rstrip(), hint=f"One of: {', '.join(CLIENTS)}"
            )
        path = self._setup.client_path(client)
        known = {each.name: each for each in read_client_file(path)} if path.exists() and path.stat().st_size else {}
        lines, entries = [], {}
        for name in words[1:] or sorted(self.box.servers):
            self._one([name], "export")
            entry, notes = translate(client, FoundServer(name, self._setup.written(name)))
            lines += [f"  {name}: {note}" for note in notes]
            if entry is None or (name in known and _plain_entry(known[name]) == _plain_entry(as_ours(name, entry))):
                continue
            if name in known:
                lines.append(_difference("-", name, _plain_entry(known[name])))
            lines.append(_difference("+", name, entry))
            entries[name] = entry
        if not entries:
            return self.page(*lines, f"{path} has nothing to change.")
        before = path.read_text(encoding="utf-8-sig") if path.exists() else ""
        after = merged(client, before, entries)
        if re.search(r"^[ \t]*+(//|/\*)", before, re.MULTILINE):
            lines.append("  The comments of the file would be lost.")
        if not self._is_agreed(lines, f"Write {counted(len(entries), 'server')} to {path}?", given):
            return self.page(_UNCHANGED)
        write_whole(path, after.encode("utf-8"))
        return self.page(*lines, f"Written to {path}.")

    def _is_agreed(self, lines: list[str], question: str, given: Mapping[str, Any]) -> bool:
        """Show what would change, and ask. Raises UsageProblem where nobody can be asked."""
        if "--yes" in given:
            return True
        said = confirmed(self.box, question, question.partition(" ")[0], [line.strip() for line in lines])
        if said is None:
            shown = self.box.mask("\n".join(lines))
            raise UsageProblem(f"Nobody can say yes here.\n{shown}", hint="Add --yes to do it without asking.")
        return said

    def _add_all(self, servers: list[FoundServer], *, is_saved: bool, notes: Sequence[str] = ()) -> Page:
        lines = self._setup.add(servers, is_saved=is_saved)
        return self.page(*lines, *notes, *(f"Try: %tool server test {server.name}" for server in servers[:5]))

    def _state(self, words: list[str], verb: str) -> Page:
        name = self._one(words, verb)
        if verb != "stop":
            self.box.gate.require_server(name)
        state = getattr(self.box.servers, verb)(name)
        tools = sum(spec.server == name for spec in self.box.registry.known())
        said = f"{name} is {state}" + (f", {counted(tools, 'tool')}." if state == "connected" else ".")
        return self.page(said)

    def _login(self, words: list[str], given: Mapping[str, Any]) -> Page | None:
        name = self._one(words, "login")
        self.box.gate.require_server(name)
        servers = self.box.servers
        if "--code" in given:
            return self._signed_in(name, servers.await_sign_in(name, given["--code"]))
        if not can_ask(self.context.shell):
            raise UsageProblem(
                f"Nobody is here to sign in to '{name}'.",
                hint="Sign in once in a notebook or a terminal; or set 'auth: {grant: client_credentials, ...}'.",
            )
        try:
            link = servers.sign_in(name)
        except UnconfirmedIssuer as exc:
            question = f"Send the secret of your client to '{exc.issuer}'?"
            is_agreed = confirmed(self.box, question, "Send", [exc.message])
            if is_agreed is None:
                raise
            if not is_agreed:
                return self.page(f"You are not signed in to {name}. {_UNCHANGED}")
            link = servers.sign_in(name, issuer=exc.issuer)
        label, url = f"Sign in to {name}", self.box.mask(link.url)
        then = "Then come back here. If the last page does not open, stop this cell, copy that page's address and run:"
        then = f"{then}\n%tool server login {name} --code ADDRESS" if link.is_awaited else ""
        shown = {
            "text/plain": printable(f"{label}: {url}\n{then}"),
            "text/html": html.whole_link(label, url) + "".join(map(html.note, then.splitlines())),
        }
        transient = {"display_id": f"onetool-sign-in-{uuid4().hex}"}
        publish = self.context.shell.display_pub.publish
        publish(shown, transient=transient)
        answer = ""
        if not link.is_awaited:  # the address holds a code that opens the account, so it is not shown
            field = {"type": "string", "title": "Address", "format": "password"}
            ends = "Paste the address at which the browser ends."
            answer = self._typed(ends, field, yes="Sign in", nobody=f"%tool server login {name} --code ADDRESS")
            if not answer:
                raise UsageProblem(f"You are not signed in to '{name}': no address was given.")
        done = str(self._signed_in(name, servers.await_sign_in(name, answer)))
        publish({"text/plain": done, "text/html": html.pre(done)}, transient=transient, update=True)
        return None

    def _signed_in(self, name: str, state: str) -> Page:
        tools = sum(spec.server == name for spec in self.box.registry.known())
        return self.page(f"You are signed in to {name}. It is {state}, {counted(tools, 'tool')}.")

    def _logout(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "logout")
        self.box.servers.sign_out(name)
        return self.page(f"You are signed out of {name}, in all notebooks.")

    def _test(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "test")
        self.box.gate.require_server(name)
        found = self.box.servers.test(name)
        lines = [f"{name}: {'works' if found.get('ok') else 'does not work'}"]
        shown = [(key, value) for key, value in found.items() if key not in ("server", "ok", "stderr") and value]
        lines += [f"  {key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in shown]
        if found.get("stderr"):
            lines += ["  its output:", *(f"    {line}" for line in str(found["stderr"]).splitlines()[-12:])]
        return self.page(*lines)

    def _logs(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        name = self._one(words, "logs")
        said = self.box.servers.logs(name)
        return self.page(*(said.splitlines() or [f"{name} has written nothing to stderr."]))

    def _trace(self, words: list[str], _given: Mapping[str, Any]) -> Any:
        name = self._one(words, "trace")
        rows = self.box.servers.trace(name)
        return Listing(rows) if rows else self.page(f"There were no messages to or from '{name}' yet.")

    def _remove(self, words: list[str], _given: Mapping[str, Any]) -> Page:
        return self.page(self._setup.remove(self._one(words, "remove")))

    def _offers(self, words: list[str], verb: str, rows_of: Callable[[Toolbox, str], Listing]) -> Any:
        name = self._one(words, verb)
        return rows_of(self.box, name) or self.page(f"The server '{name}' lists no {verb}.")

    def _read(self, words: list[str], _given: Mapping[str, Any]) -> Any:
        name = self._one(words[:1], "read")
        if len(words) < 2:
            raise UsageProblem("%tool server read needs a uri.", hint=f"See them with: %tool server resources {name}")
        variables: dict[str, str] = {}
        for word in words[2:]:
            key, is_pair, value = word.partition("=")
            if not is_pair:
                raise UsageProblem(f"'{word[:40]}' is not a variable of a template.", hint="Write it as name=value.")
            variables[key] = value
        result = self.box.read_resource(name, words[1], variables, source="magic")
        if result.error is not None:
            raise_result(result, self.context.last)
        return result

    def _one(self, words: list[str], verb: str) -> str:
        if len(words) != 1:
            raise UsageProblem(f"%tool server {verb} needs one name.", hint="See them with: %tool server")
        if words[0] not in self.box.servers:
            near = did_you_mean(words[0], self.box.servers)
            raise UsageProblem(f"No server '{words[0][:40]}'. {near}".strip(), hint="See them with: %tool server")
        return words[0]


def _difference(sign: str, name: str, entry: Mapping[str, Any]) -> str:
    """One line of a difference. The whole entry is shown: a yes belongs to what was shown."""
    return printable_line(f"  {sign} {name}: {json.dumps(entry, ensure_ascii=False)}")


def _kept_secrets(secrets: Mapping[str, str]) -> list[str]:
    return [f"  Its secrets go to secrets.yaml: {', '.join(secrets)}"] if secrets else []


def _plain_entry(found: FoundServer) -> dict[str, Any]:
    """An entry of another client's file without its secrets."""
    return without_secrets(found)[0]


def _pairs(flag: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise UsageProblem(f"{flag} wants NAME=value, not '{pair[:40]}'.", hint="Several: NAME=value,OTHER=value")
        found[key.strip()] = value
    return found


_OPTIONS: dict[str, OptionKind] = {"--port": "text", "--host": "text", "--allow": "text", "--no-token": "switch"}


class ServeCommands(CommandGroup):
    """Serve our tools to other MCP clients."""

    HELP: ClassVar[tuple[str, ...]] = (
        "%tool serve [--port N]         offer the read-only tools to other MCP clients; --allow CSV; %tool serve stop",
    )

    def __init__(self, context: CommandContext) -> None:
        super().__init__(context)
        self._serving: Serving | None = None

    def table(self) -> dict[str, Command]:
        return {"serve": self._serve}

    def _serve(self, rest: str) -> Serving | Page:
        asked = read_options(rest, _OPTIONS)
        if asked.words == ["stop"]:
            return self._stop()
        if asked.words not in ([], ["status"]):
            raise UsageProblem(f"%tool serve does not know '{asked.words[0]}'.", hint="It knows: status, stop.")
        if asked.words == ["status"]:
            return self._status()
        if self._is_up():
            raise UsageProblem("The tools are being served already.", hint="End that with: %tool serve stop")
        self._start(asked.given)
        return self._status()

    def _start(self, given: dict[str, Any]) -> None:
        allow = given.get("--allow")
        from onetool_ipy.faces.mcp.http import serve_http  # late: it loads the MCP SDK

        serving = serve_http(
            self.box,
            host=given.get("--host", "127.0.0.1"),
            port=_port(given.get("--port", "0")),
            allow=None if allow is None else [name.strip() for name in allow.split(",") if name.strip()],
            is_open="--no-token" in given,
        )
        self._end_with_box = self.box.subscribe(closing=serving.stop)
        self._serving = serving
        serving.leave_note(self.box.config.paths.state)

    def _stop(self) -> Page:
        if not self._is_up() or self._serving is None:
            raise UsageProblem("Nothing is being served.", hint="Begin with: %tool serve")
        serving, self._serving = self._serving, None
        self._end_with_box()
        serving.stop()
        return self.page(f"No longer serving on {serving.url}")

    def _status(self) -> Serving | Page:
        if not self._is_up() or self._serving is None:
            return self.page("Nothing is being served. Begin with: %tool serve")
        return self._serving

    def _is_up(self) -> bool:
        return self._serving is not None and self._serving.is_up()


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:6]) < 65536):
        raise UsageProblem(f"'{text[:20]}' is not a port.", hint="0 takes a free one.")
    return int(text)
