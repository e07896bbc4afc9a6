"""`%tool server` and `%tool serve`: MCP servers that we use, and our tools for other MCP clients.

Adding, importing and removing are in `faces.server_setup`. `import` and `export` show the
difference and ask first; so does `add` for a registry card. `serve` writes its token to a file that
only its owner can read, never into the notebook.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import write_whole
from onetool_ipy.base.printable import printable, visible
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.config.edit import editing
from onetool_ipy.core.question import Question
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.client_files import (
    CLIENTS,
    FAMILIES,
    FoundServer,
    entry_of_project,
    read_client_file,
    read_json,
    read_text,
    snippet,
    with_entry,
    without_secrets,
)
from onetool_ipy.faces.commands import CommandContext, Page, WrongWords, confirmed, put
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.notebook.display import raise_result
from onetool_ipy.faces.pasted import servers_of, usable
from onetool_ipy.faces.server_setup import (
    CardInput,
    ServerSetup,
    card_name,
    is_card,
    require_no_installer,
    require_server,
    server_of,
)
from onetool_ipy.mcp.definition import UnconfirmedIssuer
from onetool_ipy.proxies import prompts_of, resources_of
from onetool_ipy.render import html
from onetool_ipy.render.views import Listing, counted

if TYPE_CHECKING:
    from onetool_ipy.faces.mcp.http import Serving

_UNCHANGED = "Nothing was changed."
_STARTERS = ("docker", "node", "npx", "python", "python3", "uv", "uvx")
_HOW = (
    "%tool server add NAME COMMAND ARGUMENTS   or   %tool server add NAME https://example.com/mcp"
)


def list_servers(context: CommandContext, options: Options) -> Listing | Page:
    """`%tool server`: the servers and their states."""
    if options.words:
        raise UsageProblem(f"%tool server list takes no '{options.words[0]}'.")
    servers, waiting = context.box.servers, context.box.config.waiting_servers()
    if not servers and not waiting:
        return context.page("There are no MCP servers.", f"Add one with: {_HOW}")
    packs = context.box.registry.known_packs()
    rows = [
        {
            "server": name,
            "type": servers.definition(name).type,
            "state": state,
            "tools": sum(spec.server == name for spec in packs.get(name, ())),
            "why": context.box.mask(servers.reason(name)),
        }
        for name, state in sorted(servers.items())
    ]
    rows += [
        {"server": name, "type": "", "state": "waiting", "tools": 0}
        | {"why": f"Add {' and '.join(lacks)} to secrets.yaml or to the environment."}
        for name, lacks in sorted(waiting.items())
    ]
    return Listing(rows)


def add(context: CommandContext, options: Options) -> Page:
    """`%tool server add`: our options stand before the command; all behind it is the command's. A
    cell has what the README of a server says: its JSON, or its command."""
    words, values = options.words, options.values
    if options.body.strip():
        return _add_pasted(context, options)
    if words and len(words) < 3 and "--url" not in values and words[-1].endswith(".json"):
        return _add_card(
            context, Path(words[-1]).expanduser(), words[0] if len(words) == 2 else "", values
        )
    if (
        not words
        or (len(words) < 2 and "--url" not in values)
        or (len(words) > 1 and "--url" in values)
    ):
        raise WrongWords("%tool server add needs a name, and a command or --url.", hint=_HOW)
    require_no_installer(words)
    name, *command = words
    if name in _STARTERS and "--url" not in values:
        raise UsageProblem(
            f"'{name}' stands where the server's name goes.",
            hint=f"Write: %tool server add NAME {' '.join(words)}",
        )
    if (
        len(command) == 1
        and "--url" not in values
        and command[0].startswith(("http://", "https://"))
    ):
        values, command = {**values, "--url": command[0]}, []
    if command and command[0].startswith(("http://", "https://")):
        raise UsageProblem(
            f"'{command[1]}' stands behind the address.",
            hint=f"Options go before the name: %tool server add {' '.join(command[1:])} {name} "
            f"{command[0]}",
        )
    data: dict[str, Any] = (
        {"type": "http", "url": values["--url"]} if "--url" in values else {"type": "stdio"}
    )
    if command:
        data |= {"command": command[0], "args": command[1:]}
    for flag, key in (("--env", "env"), ("--header", "headers")):
        if flag in values:
            data[key] = _pairs(flag, values[flag])
    if "--cwd" in values:
        data["cwd"] = values["--cwd"]
    if "--trusted" in values:
        data["trusted"] = True
    return _add_all(context, [FoundServer(name, data)], is_saved="--save" in values)


def _add_pasted(context: CommandContext, options: Options) -> Page:
    words, values = options.words, options.values
    beside = [*words[1:], *(flag for flag in values if flag not in ("--save", "--yes"))]
    if beside:
        raise UsageProblem(
            f"The server is in the cell, and '{beside[0]}' stands in the line.",
            hint="Write it in one place.",
        )
    servers, lacking, notes = servers_of(context.box, options.body, *words)
    for each in servers:
        ServerSetup(context.box).require_free(each.name)  # before anything is asked or kept
    notes += [f"Add {each.name} to secrets.yaml or to the environment." for each in lacking]
    if any(without_secrets(each)[1] for each in servers):
        notes.append("Delete its secret from this cell before you share the notebook.")
    return _add_found(context, servers, values, notes=notes)


def _add_card(context: CommandContext, path: Path, name: str, values: Mapping[str, Any]) -> Page:
    """Add the server of a registry card; asks for what is missing, then for a yes to the whole
    command."""
    card = read_json(path)
    if not is_card(card):
        raise UsageProblem(
            f"'{path}' is not a registry card.", hint="For other files: %tool server import FILE"
        )
    notes: list[str] = []
    if not name:
        (proposal,), notes = ServerSetup(context.box).proposed([FoundServer(card_name(card), {})])
        name = proposal.name
    ServerSetup(context.box).require_free(name)
    # Nobody is asked for the values of a program that is not there.
    blank = server_of(card, name, lambda wanted: f"${{{wanted.name}}}")
    require_server(blank.data, context.box.config.paths.project)
    pairs_by_flag = {
        key: _pairs(key, values[key]) for key in ("--env", "--header") if key in values
    }
    secrets: dict[str, str] = {}

    def answer(wanted: CardInput) -> str:
        typed = next(
            (each[wanted.name] for each in pairs_by_flag.values() if wanted.name in each), None
        )
        if (
            typed is None
            and wanted.is_secret
            and context.box.config.secrets.get(wanted.name) is not None
        ):
            return f"${{{wanted.name}}}"
        value = typed if typed is not None else _ask_value(context, wanted, name)
        if not wanted.is_secret:
            return value
        label = re.sub(r"\W+", "_", f"{name}_{wanted.name}").upper()
        secrets[label] = value
        return f"${{{label}}}"

    server = server_of(card, name, answer)
    lines = [_difference("+", name, server.data), *notes, *_kept_secrets(secrets)]
    if not _is_agreed(context, lines, f"Add the server '{name}'?", values):
        return context.page(_UNCHANGED)
    ServerSetup(context.box).keep_secrets(secrets)
    return _add_all(context, [server], is_saved="--save" in values, notes=notes)


def _ask_value(context: CommandContext, wanted: CardInput, server: str) -> str:
    """Ask the person for one value; a secret is not shown."""
    field: dict[str, Any] = {
        "type": "string",
        "title": wanted.name,
        "description": wanted.description,
    }
    if wanted.is_secret:
        field["format"] = "password"
    elif wanted.choices:
        field["enum"] = list(wanted.choices)
    needs = f"The server '{server}' needs '{wanted.name}'."
    value = _typed(context, needs, field, yes="Go on", nobody=f"Give it: --env {wanted.name}=...")
    if not value or (wanted.choices and value not in wanted.choices):
        raise UsageProblem(f"The server '{server}' was not added: it needs '{wanted.name}'.")
    return value


def _typed(
    context: CommandContext, text: str, field: Mapping[str, Any], *, yes: str, nobody: str
) -> str:
    """Ask for one value; empty if the person gives none. `nobody` is the hint where nobody can be
    asked."""
    form = {"type": "object", "properties": {"value": field}, "required": ["value"]}
    reply = put(
        context.box, Question("%tool", text, form=form, yes=yes, no="Cancel", takes_secret=True)
    )
    if reply is None:
        raise UsageProblem(text, hint=nobody)
    return str(reply.content.get("value", ""))


def import_servers(context: CommandContext, options: Options) -> Page:
    """`%tool server import CLIENT`."""
    words, values = options.words, options.values
    if len(words) != 1:
        hint = f"For example: %tool server import mcp.json   or one of {', '.join(CLIENTS)}"
        raise WrongWords("%tool server import needs one file or client.", hint=hint)
    servers = read_client_file(ServerSetup(context.box).client_path(words[0]))
    taken_names = {each.name for each in servers if each.name in context.box.servers}
    others, notes = ServerSetup(context.box).proposed(
        [each for each in servers if each.name not in taken_names]
    )
    taken_names |= {each.name for each in others if each.name in context.box.servers}
    fresh = [each for each in others if each.name not in taken_names]
    lines = [f"  {name}: left out, there is a server of that name" for name in sorted(taken_names)]
    if not fresh:
        raise UsageProblem("It has no new servers.", hint="\n".join(lines))
    return _add_found(context, fresh, values, lines, notes)


def _add_found(
    context: CommandContext,
    found: list[FoundServer],
    values: Mapping[str, Any],
    lines: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Page:
    """Show the servers that were found in a text, ask, and add them; `lines` stand above them."""
    fresh, problems = usable(context.box, found)
    lines = [*lines, *(f"  {problem}" for problem in problems)]
    plain = [(each, *without_secrets(each)) for each in fresh]
    secrets = {name: value for _, _, kept in plain for name, value in kept.items()}
    lines += [_difference("+", each.name, data) for each, data, _ in plain]
    lines += [f"  {note}" for note in notes]
    what = f"{len(fresh)} servers" if len(fresh) > 1 else f"the server '{fresh[0].name}'"
    if not _is_agreed(context, [*lines, *_kept_secrets(secrets)], f"Add {what}?", values):
        return context.page(_UNCHANGED)
    ServerSetup(context.box).keep_secrets(secrets)
    servers = [FoundServer(each.name, data) for each, data, _ in plain]
    return _add_all(context, servers, is_saved="--save" in values, notes=notes)


def export(context: CommandContext, options: Options) -> Page:
    """`%tool server export [FAMILY] [NAME ...]`: servers as JSON to paste; with `--self`, this
    project for a client."""
    words = options.words
    if "--self" in options.values:
        return _export_self(context, options)
    family, names = (
        (words[0], words[1:]) if words[:1] and words[0] in FAMILIES else ("claude", words)
    )
    setup = ServerSetup(context.box)
    chosen = [_one(context, [name], "export") for name in names] or sorted(context.box.servers)
    if not chosen:
        return context.page("There are no MCP servers to export.", f"Add one with: {_HOW}")
    text, notes = snippet(family, [FoundServer(name, setup.written(name)) for name in chosen])
    return context.page(text, *notes)


def _export_self(context: CommandContext, options: Options) -> Page:
    """Add this project to a client's file, so that its agent uses the tools of the running
    notebook."""
    if len(options.words) != 1 or options.words[0] not in CLIENTS:
        near = did_you_mean(options.words[0], CLIENTS) if options.words else ""
        message = f"%tool server export --self needs one client. {near}".rstrip()
        raise WrongWords(message, hint=f"One of: {', '.join(CLIENTS)}")
    (client,) = options.words
    project, path = context.box.config.paths.project, ServerSetup(context.box).client_path(client)
    real = Path(os.path.realpath(path))
    place = f"{path}" if real == path else f"{real} (the link {path} leads there)"
    before = read_text(path)
    entry = entry_of_project(project, os.environ)
    after = with_entry(client, path, before, entry)
    if after == before:
        return context.page(f"'{entry.name}' is in {place} already.")
    old, new = before.splitlines(), after.splitlines()
    head = tail = 0
    while head < len(old) and old[head] == new[head]:
        head += 1
    while tail < len(old) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    # A question shows long blanks as a number of blanks, so the margins of the lines are left out.
    lines = [f"- {line.strip()}" for line in old[head : len(old) - tail]]
    lines += [f"+ {line.strip()}" for line in new[head : len(new) - tail]]
    if not _is_agreed(context, lines, f"Add '{entry.name}' to {place}?", options.values):
        return context.page(_UNCHANGED)
    # The client may have written its file while the person read the question.
    with editing(context.box.config.paths):
        if read_text(path) != before:
            message = f"'{real}' has changed meanwhile. {_UNCHANGED}"
            raise UsageProblem(message, hint="Run it again.")
        real.parent.mkdir(parents=True, exist_ok=True)
        write_whole(real, after.encode(), mode=0o644)
    return context.page(
        f"'{entry.name}' is in {place} now. Start the client again to see it.",
        "It hands on the tools of the notebook of this project that runs; see docs/agents.md.",
    )


def _is_agreed(
    context: CommandContext, lines: list[str], question: str, values: Mapping[str, Any]
) -> bool:
    """Show what would change, and ask. Raises UsageProblem where nobody can be asked."""
    if "--yes" in values:
        return True
    is_agreed = confirmed(
        context.box, question, question.partition(" ")[0], [line.strip() for line in lines]
    )
    if is_agreed is None:
        text = context.box.mask("\n".join(lines))
        raise UsageProblem(
            f"Nobody can say yes here.\n{text}", hint="Add --yes to do it without asking."
        )
    return is_agreed


def _add_all(
    context: CommandContext,
    servers: list[FoundServer],
    *,
    is_saved: bool,
    notes: Sequence[str] = (),
) -> Page:
    # A shell has no session that a server could belong to.
    is_saved = is_saved or context.place == "shell"
    lines = ServerSetup(context.box).add(servers, is_saved=is_saved)
    return context.page(
        *lines, *notes, *(f"Try: %tool server test {server.name}" for server in servers[:5])
    )


def change_state(
    verb: Literal["start", "stop", "restart"], context: CommandContext, options: Options
) -> Page:
    """`%tool server start NAME`, and the same with `stop` and `restart`."""
    name = _one(context, options.words, verb)
    if verb != "stop":
        context.box.gate.require_server(name)
    state = getattr(context.box.servers, verb)(name)
    tools = sum(spec.server == name for spec in context.box.registry.known())
    return context.page(
        f"{name} is {state}" + (f", {counted(tools, 'tool')}." if state == "connected" else ".")
    )


def login(context: CommandContext, options: Options) -> Page | None:
    """`%tool server login NAME`."""
    words, values = options.words, options.values
    name = _one(context, words, "login")
    context.box.gate.require_server(name)
    servers = context.box.servers
    if "--code" in values:
        return _signed_in(context, name, servers.await_sign_in(name, values["--code"]))
    kernel = getattr(context.shell, "kernel", None)
    is_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if not (is_terminal if kernel is None else getattr(kernel, "_allow_stdin", False)):
        raise UsageProblem(
            f"Nobody is here to sign in to '{name}'.",
            hint=(
                "Sign in once in a notebook or a terminal; or set 'auth: {grant:"
                " client_credentials, ...}'."
            ),
        )
    try:
        link = servers.sign_in(name)
    except UnconfirmedIssuer as exc:
        question = f"Send the secret of your client to '{exc.issuer}'?"
        is_agreed = confirmed(context.box, question, "Send", [exc.message])
        if is_agreed is None:
            raise
        if not is_agreed:
            return context.page(f"You are not signed in to {name}. {_UNCHANGED}")
        link = servers.sign_in(name, issuer=exc.issuer)
    label, url = f"Sign in to {name}", context.box.mask(link.url)
    then = (
        "Then come back here. If the last page does not open, stop this cell, copy that page's"
        " address and run:"
    )
    then = f"{then}\n%tool server login {name} --code ADDRESS" if link.is_awaited else ""
    link_bundle = {
        "text/plain": printable(f"{label}: {url}\n{then}"),
        "text/html": html.whole_link(label, url) + "".join(map(html.note, then.splitlines())),
    }
    key = f"onetool-sign-in-{uuid4().hex}"
    context.publish(link_bundle, key)
    answer = ""
    if not link.is_awaited:  # the address holds a code that opens the account, so it is not shown
        field = {"type": "string", "title": "Address", "format": "password"}
        ends = "Paste the address at which the browser ends."
        answer = _typed(
            context, ends, field, yes="Sign in", nobody=f"%tool server login {name} --code ADDRESS"
        )
        if not answer:
            raise UsageProblem(f"You are not signed in to '{name}': no address was given.")
    done = _signed_in(context, name, servers.await_sign_in(name, answer))
    if context.place == "shell":
        return done
    context.publish(
        {"text/plain": str(done), "text/html": html.pre(str(done))}, key, is_update=True
    )
    return None


def _signed_in(context: CommandContext, name: str, state: str) -> Page:
    tools = sum(spec.server == name for spec in context.box.registry.known())
    return context.page(f"You are signed in to {name}. It is {state}, {counted(tools, 'tool')}.")


def logout(context: CommandContext, options: Options) -> Page:
    """`%tool server logout NAME`."""
    name = _one(context, options.words, "logout")
    context.box.servers.sign_out(name)
    return context.page(f"You are signed out of {name}, in all notebooks.")


def test(context: CommandContext, options: Options) -> Page:
    """`%tool server test NAME`."""
    name = _one(context, options.words, "test")
    context.box.gate.require_server(name)
    report = context.box.servers.test(name)
    lines = [f"{name}: {'works' if report.get('ok') else 'does not work'}"]
    facts = [
        (key, value)
        for key, value in report.items()
        if key not in ("server", "ok", "stderr") and value
    ]
    lines += [
        f"  {key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in facts
    ]
    if report.get("stderr"):
        lines += [
            "  its output:",
            *(f"    {line}" for line in str(report["stderr"]).splitlines()[-12:]),
        ]
    if not report.get("ok") and context.box.servers[name] == "signed out":
        lines.append(f"Sign in with: %tool server login {name}")
    return context.page(*lines)


def logs(context: CommandContext, options: Options) -> Page:
    """`%tool server logs NAME`."""
    name = _one(context, options.words, "logs")
    return context.page(
        *(context.box.servers.logs(name).splitlines() or [f"{name}: no log output."])
    )


def trace(context: CommandContext, options: Options) -> Listing | Page:
    """`%tool server trace NAME [N]`: the messages as a list, or the whole message N."""
    words = list(options.words)
    number = words.pop() if len(words) > 1 and words[-1].isdecimal() else ""
    name = _one(context, words, "trace")
    if number:
        text = context.box.servers.message(name, int(number))
        if text is None:
            raise UsageProblem(
                f"Message {number} of '{name}' is not kept.", hint=f"See: %tool server trace {name}"
            )
        return context.page(*text.splitlines())
    rows = context.box.servers.trace(name)
    return Listing(rows) if rows else context.page(f"No messages to or from '{name}' yet.")


def remove(context: CommandContext, options: Options) -> Page:
    """`%tool server remove NAME`."""
    return context.page(ServerSetup(context.box).remove(_one(context, options.words, "remove")))


def resources(context: CommandContext, options: Options) -> Listing | Page:
    """`%tool server resources NAME`."""
    name = _one(context, options.words, "resources")
    return resources_of(context.box, name) or context.page(
        f"The server '{name}' lists no resources."
    )


def prompts(context: CommandContext, options: Options) -> Listing | Page:
    """`%tool server prompts NAME`."""
    name = _one(context, options.words, "prompts")
    return prompts_of(context.box, name) or context.page(f"The server '{name}' lists no prompts.")


def read(context: CommandContext, options: Options) -> ToolResult:
    """`%tool server read NAME URI`: a template takes its variables as K=V."""
    words = options.words
    name = _one(context, words[:1], "read")
    if len(words) < 2:
        raise WrongWords(
            "%tool server read needs a URI.", hint=f"See them with: %tool server resources {name}"
        )
    variables: dict[str, str] = {}
    for word in words[2:]:
        key, is_pair, value = word.partition("=")
        if not is_pair:
            raise UsageProblem(
                f"'{word[:40]}' is not a variable of a template.", hint="Write it as name=value."
            )
        variables[key] = value
    result = context.box.read_resource(name, words[1], variables, source="magic")
    if result.error is not None:
        raise_result(result, context.last)
    return result


def _one(context: CommandContext, words: list[str], verb: str) -> str:
    if len(words) != 1:
        raise WrongWords(f"%tool server {verb} needs one name.", hint="See them with: %tool server")
    if words[0] not in context.box.servers:
        near = did_you_mean(words[0], context.box.servers)
        raise UsageProblem(
            f"No server '{words[0][:40]}'. {near}".strip(), hint="See them with: %tool server"
        )
    return words[0]


def _difference(sign: str, name: str, entry: Mapping[str, Any]) -> str:
    """One line of a difference. The whole entry is shown: a yes belongs to what was shown."""
    return visible(f"  {sign} {name}: {json.dumps(entry, ensure_ascii=False)}")


def _kept_secrets(secrets: Mapping[str, str]) -> list[str]:
    return [f"  Its secrets go to secrets.yaml: {', '.join(secrets)}"] if secrets else []


def _pairs(flag: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in text.split(","):
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key.strip():
            raise UsageProblem(
                f"{flag} needs NAME=value, not '{pair[:40]}'.",
                hint="Several: NAME=value,OTHER=value",
            )
        pairs[key.strip()] = value
    return pairs


def serve(context: CommandContext, options: Options) -> Serving:
    """`%tool serve`: offer our tools to other MCP clients."""
    if options.words:
        raise UsageProblem(
            f"%tool serve does not know '{options.words[0][:40]}'.", hint="It knows: status, stop."
        )
    if _serving(context) is not None:
        raise UsageProblem(
            "The tools are being served already.", hint="Stop it with: %tool serve stop"
        )
    from onetool_ipy.faces.mcp.http import serve_http  # late: it loads the MCP SDK

    text = options.values.get("--port", "0")
    if not (text.isascii() and text.isdecimal() and int(text[:6]) < 65536):
        raise UsageProblem(f"'{text[:20]}' is not a port.", hint="0 takes a free one.")
    serving = serve_http(
        context.box,
        host=options.values.get("--host", "127.0.0.1"),
        port=int(text),
        allow=options.values.get("--allow"),
        is_open="--no-token" in options.values,
    )
    context.end_serving = context.box.subscribe(closing=serving.stop)
    context.serving = serving
    serving.leave_note(context.box.config.paths.state)
    return serving


def serve_status(context: CommandContext, _options: Options) -> Serving | Page:
    """`%tool serve status`."""
    return _serving(context) or context.page("Nothing is being served. Start with: %tool serve")


def serve_stop(context: CommandContext, _options: Options) -> Page:
    """`%tool serve stop`."""
    serving = _serving(context)
    if serving is None:
        raise UsageProblem("Nothing is being served.", hint="Start with: %tool serve")
    context.serving = None
    context.end_serving()
    serving.stop()
    return context.page(f"No longer serving on {serving.url}")


def _serving(context: CommandContext) -> Serving | None:
    return context.serving if context.serving is not None and context.serving.is_up() else None
