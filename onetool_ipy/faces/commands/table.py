"""The one table of commands, and what is read from it: the command of a line, its help, and what
can follow.

`%tool` runs the rows of a notebook, `onetool-ipy` those of a shell; most rows run in both. A name
may have two rows, one for each place, where a notebook and a shell need different things.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, get_args

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.search import Entry, Index, did_you_mean
from onetool_ipy.faces.client_files import CLIENTS, FAMILIES
from onetool_ipy.faces.commands import (
    Command,
    CommandContext,
    Group,
    Offer,
    Option,
    Page,
    asking,
    bundles,
    calls,
    catalog,
    checked,
    lock,
    page,
    servers,
    setup,
    shell,
)
from onetool_ipy.faces.commands import history as past
from onetool_ipy.faces.line.grammar import Options, asks_for_help, read_options
from onetool_ipy.render.pages import Heading, Part, Row, Rows

_PERIODS = ("day", "week", "month", "all")
_SINCE = ("today", "yesterday", "2h", "7d")
_WIDTH = 31
_TOOL = Option("--tool", "text", "only this tool", "NAME", "tool")
_SINCE_OPTION = Option(
    "--since",
    "text",
    "only calls from then on: today, yesterday, 2h, 3d, a date or a time",
    "WHEN",
    _SINCE,
)
_FILTERS = (Option("--failed", help="only calls that failed"), _SINCE_OPTION, _TOOL)
_YES = Option("--yes", help="do not ask")
_SAVE = Option("--save", help="keep it in onetool.yaml")
_ALLOW_HOST = Option("--allow-host", help="let HTTP tools reach the hosts that are named")
_SECRET_HOST = Option(
    "--secret-host", "texts", "send a secret to this host, too; again for more", "NAME=HOST"
)
_OUTPUT = (
    Option("--output", "text", "where to write it", "PATH", "file"),
    Option("-o", "text", "the same as --output", "PATH", "file"),
)
_NEW_HTTP = tuple(
    Option(name, "text", text, metavar)
    for name, metavar, text in (
        ("--url", "URL", "the address; {name} in it is an argument"),
        ("--method", "METHOD", "GET, unless there is a body"),
        ("--header", "'NAME: VALUE'", "a header; ${SECRET} is filled in"),
        ("--body", "TEXT", "the body"),
        ("--arg", "NAME:TYPE", "the type of an argument, and its default: NAME:TYPE=VALUE"),
        ("--curl", "COMMAND", "all of it as a curl command"),
        ("--describe", "TEXT", "what the tool does"),
        ("--tags", "CSV", "its tags"),
    )
)

# A table is read by its columns, so it is not wrapped by its commas.
# fmt: off
TABLE: tuple[Command, ...] = (
    # --- tools
    Command("list", "[TEXT]", "tools, or those with TEXT in their name", catalog.list_tools,
        takes=("tool",), group="call",
        place="notebook", elsewhere="Did you mean 'tools list'?"),
    Command("info", "NAME", "what a tool does and takes (also: %tool NAME?)", catalog.show_tool,
        takes=("tool",),
        group="call", place="notebook", elsewhere="Did you mean 'tools info'?"),
    Command("search", "WORDS", "find tools and commands by words; typos are forgiven",
        # `search` reads this table, so it is looked up when it is called.
        lambda context, options: search(context, options), group="call"),  # noqa: PLW0108
    Command("tools", "", "list, look up and call tools", shell.list_tools, is_group=True,
        group="call", place="shell"),
    Command("tools list", "", "the tools: name, description, input", shell.list_tools,
        options=(asking.ALLOW,),
        place="shell"),
    Command("tools info", "NAME", "one tool's schema and state, as JSON", shell.show_tool,
        takes=("tool",),
        place="shell", output="json"),
    Command("tools invoke", "NAME [KEY=VALUE ...]", "call a tool; the result is JSON", shell.invoke,
        options=(Option("--args", "text", "the arguments as a JSON object; - reads stdin", "JSON"),
        Option("--timeout", "seconds", "seconds it may take", "S")), takes=("tool",), place="shell",
        output="json"),
    Command("check", "NAME", "try a tool with arguments made from its schema", calls.check,
        options=(Option("--call", help="also call a tool that may change something, after a yes"),),
        takes=("tool",)),
    Command("browse", "[NAME]", "the tool browser: search, forms, results", catalog.browse,
        takes=("tool",), group="call",
        place="notebook", elsewhere="The tool browser is a screen of a notebook: %tool browse"),
    Command("adopt", "EXPR",
        "make tools of another framework's, of an object, a server or module:name", setup.adopt,
        options=(Option("--pack", "text", "their pack; by default the object's or framework's name",
        "NAME"),
        Option("--read-only", "names", "those that change nothing", "CSV")), place="notebook",
        elsewhere="Tools are adopted for one session: "
        "%tool adopt in a notebook, box.adopt(...) in a program"),
    Command("save", "PACK",
        "promote the cell's functions to a pack file", setup.save_cell,
        takes_body=True, is_cell=True, group="make", place="notebook",
        elsewhere="Only a notebook has cells to save: %%tool save PACK"),
    # --- calls
    Command("history", "[N] [WORDS]", "the newest calls, or those with WORDS", past.history,
        options=_FILTERS, group="look back"),
    *(
        Command(name, "[N]",
            "call again what stands at N in the list; the last call without N", past.rerun,
            options=_FILTERS, output="json", alias_of=alias_of)
        for name, alias_of in (("history rerun", ""), ("rerun", "history rerun"))
    ),
    Command("history diff", "A B", "what changed from the result of call A to that of call B",
        past.diff,
        options=(*_FILTERS, Option("--key", "text", "the column that identifies a row", "COLUMN"))),
    *(
        Command(name, "", "the whole story of the last failure", past.why,
            options=(Option("--internals", help="with the frames of onetool_ipy"),),
            place="notebook", alias_of=alias_of,
            elsewhere="Only a notebook remembers its last failure. "
            "In a shell: onetool-ipy history --failed")
        for name, alias_of in (("history why", ""), ("why", "history why"))
    ),
    Command("sql", "QUERY",
        "SQL over calls, stored results (r_HANDLE) and your tables",
        calls.sql,
        options=(Option("--timeout", "seconds", "seconds it may take", "S", place="shell"),),
        takes=("table",), takes_body=True, is_text=True, group="look back"),
    Command("stats", "[day|week|month|all]", "how the tools are used", catalog.stats,
        options=(_TOOL,
        Option("--output", "text", "also write an HTML report", "FILE", "file"),
        Option("--view", help="as a screen, with plots", place="notebook"),
        replace(_SINCE_OPTION, help="with --view: only calls from then on", place="notebook")),
        takes=(_PERIODS,), group="look back"),
    Command("usage", "[day|week|month|all]", "the usage view", catalog.usage,
        options=(_SINCE_OPTION, _TOOL), takes=(_PERIODS,), alias_of="stats --view",
        place="notebook",
        elsewhere="The usage view is a screen of a notebook. In a shell: onetool-ipy stats"),
    Command("results", "[HANDLE|TEXT]", "stored results; with a handle that result",
        catalog.results, takes=("handle",), group="look back"),
    Command("view", "HANDLE", "page, search and sort a stored result", catalog.view,
        takes=("handle",), alias_of="results HANDLE",
        place="notebook",
        elsewhere="The viewer is a screen of a notebook. "
        "In a shell: onetool-ipy tools invoke ot.result handle=HANDLE"),
    Command("jobs", "[ID]", "calls in the background (%tool NAME --bg)", calls.jobs,
        place="notebook",
        elsewhere="Jobs belong to the notebook that started them: %tool jobs"),
    Command("jobs cancel", "ID", "end one", calls.cancel_job, place="notebook"),
    Command("replay", "FILE", "record results to FILE, then answer from it", calls.replay,
        options=(Option("--only", help="answer from the file alone"), Option("--refresh",
        help="record again")),
        takes=("file",), place="notebook",
        elsewhere="A replay belongs to a notebook or a script: "
        "%tool replay FILE, or with ot.replay(FILE):"),
    Command("replay off", "", "call the tools again", calls.replay_off, place="notebook"),
    Command("program", "[@NAME ...]", "run the cell's program over the tools, in a sandbox",
        calls.run_program,
        options=(Option("-o", "variable", "put the answer into a variable", "NAME"),
        Option("--plan", help="make no write now: show the writes, and keep the program"),
        Option("--approve", "names", "tools that may write without a question", "CSV", "tool"),
        Option("--allow", "names", "only these tools: names or pack.*", "CSV", "tool")),
        takes_body=True, is_cell=True,
        place="notebook", elsewhere="A program is a cell of a notebook: %%tool program"),
    asking.ROW,
    # --- the project
    Command("health", "", "what is wrong now, and what to do", catalog.health, output="piped",
        is_lenient=True, group="trust"),
    Command("reload", "", "read configuration and pack files again", catalog.reload,
        place="notebook",
        elsewhere="Each command of a shell reads the configuration itself. "
        "In a notebook: %tool reload"),
    Command("trust", "", "let this project run and reach what it names", setup.trust,
        options=(Option("--remove", help="trust it no longer"),), group="trust",
        place="notebook"),
    Command("trust list", "", "the projects that you trust", setup.list_trusted, place="notebook"),
    Command("trust", "[PATH]", "show what a project runs and reaches, and allow it after a yes",
        shell.trust,
        options=(_YES, Option("--remove", help="trust it no longer"),
        Option("--list", help="the projects that you trust")), takes=("file",), group="trust",
        place="shell", output="own"),
    Command("lock", "", "write .onetool/onetool.lock: what every tool is now", lock.lock,
        group="trust"),
    Command("lock check", "[NAME]",
        "say what differs from the lock file, of all tools or of one; fails if something drifted",
        lock.check, takes=("tool",)),
    Command("verify", "", "say what differs from the lock file; fails if something drifted",
        lock.verify, alias_of="lock check"),
    Command("diff", "NAME", "how one tool differs from the lock file", lock.diff, takes=("tool",),
        alias_of="lock check NAME"),
    Command("mock", "FILE", "serve a recording: its tools over MCP, its HTTP requests as REST",
        shell.mock,
        options=(Option("--http",
        help="on a port of this machine, with the recorded HTTP requests"),
        Option("--port", "number", "the port; a free one by default", "N"),
        Option("--stdio", help="to one MCP client on standard input and output, the default")),
        takes=("file",),
        place="shell", elsewhere="A mock runs in a shell: !onetool-ipy mock FILE", output="own",
        is_lenient=True),
    Command("seal", "NOTEBOOK", "pack a notebook with the recording that it replays",
        shell.seal_notebook,
        takes=("file",), place="shell",
        elsewhere="A saved notebook is sealed in a shell: onetool-ipy seal NOTEBOOK",
        output="words", is_lenient=True),
    Command("open", "FILE", "run a sealed notebook offline, and say what differs",
        shell.open_sealed,
        options=(_YES,), takes=("file",), place="shell",
        elsewhere="A sealed notebook runs in a shell: onetool-ipy open FILE",
        is_lenient=True),
    Command("install", "--lazy|--always", "have %tool in every notebook", setup.install_startup,
        options=(Option("--lazy", help="load at the first %tool"), Option("--always",
        help="load at every start"),
        Option("--remove", help="undo it"))),
    Command("init", "[FOLDER]", "write a commented .onetool/ folder", shell.init,
        options=(Option("--pack", "text",
        "write a pack file with two tools, its test and its settings", "NAME"),),
        takes=("file",), group="make", place="shell", output="words"),
    Command("stubs", "", "write .pyi files for the packs, so that editors complete them",
        shell.write_stubs,
        options=_OUTPUT, place="shell", output="words"),
    Command("export", "NOTEBOOK", "write a notebook as a plain Python script", shell.export_script,
        options=_OUTPUT,
        takes=("file",), place="shell", output="own", is_lenient=True),
    # --- HTTP tools
    Command("new", "", "make an HTTP tool", bundles.new_http, is_group=True, takes_body=True),
    Command("new http", "BUNDLE.TOOL",
        "an HTTP tool from options, curl, or a form",
        bundles.new_http,
        options=(*_NEW_HTTP, _ALLOW_HOST, _SECRET_HOST,
        Option("--save-secrets", help="keep the secrets of the command in secrets.yaml"),
        Option("--replace", help="replace the tool of that name")), leading=0, takes_body=True,
        group="make"),
    Command("bundle", "", "bundles and their switches", bundles.list_bundles, is_group=True),
    Command("bundle list", "", "bundles and their switches", bundles.list_bundles),
    *(
        Command(f"bundle {verb}", words, about, run, takes=("bundle",))
        for verb, words, run, about in (
            ("show", "NAME[.tool[@version]]", bundles.show_bundle, "what is in it"),
            ("on", "NAME[.tool[@version]]", partial(bundles.switch, "on"),
            "switch a bundle, a tool or one version on"),
            ("off", "NAME[.tool[@version]]", partial(bundles.switch, "off"), "switch it off"),
            ("run", "NAME", bundles.run_all,
            "call each of its tools that only reads, with example arguments"),
        )
    ),
    Command("bundle set", "NAME", "the base URL and the auth of all its tools", bundles.set_bundle,
        options=(Option("--base-url", "text", "what the addresses begin with", "URL"),
        Option("--auth", "text", "bearer:SECRET, ..., or none", "KIND:SECRET"), _SECRET_HOST,
        _ALLOW_HOST),
        takes=("bundle",)),
    Command("bundle env", "NAME [ENV]",
        "its environments; switch to one, or make one with --base-url",
        bundles.environment, options=(Option("--base-url", "text", "what the addresses begin with",
        "URL"),
        Option("--auth", "text", "bearer:SECRET, ..., or none", "KIND:SECRET"),
        Option("--set", "texts", "a variable for ${NAME} in requests; again for more",
        "NAME=VALUE"),
        _SECRET_HOST, _ALLOW_HOST),
        takes=("bundle",)),
    Command("bundle delete", "NAME", "delete a bundle, or NAME.tool@version", bundles.delete_bundle,
        options=(Option("--with-tools", help="with all its tools"),), takes=("bundle",)),
    Command("import", "FILE_OR_URL", "a bundle from an OpenAPI, Swagger or Postman file",
        bundles.import_tools,
        options=(Option("--bundle", "text", "the bundle's name; by default made from the title",
        "NAME"),
        Option("--server", "text", "the server to call, instead of the document's", "URL"),
        Option("--auth", "text", "for tools without auth, such as bearer:API_TOKEN", "KIND:SECRET"),
        Option("--tag", "texts", "only operations with this tag; again for more", "TAG"),
        Option("--include", "texts", "only operations whose name or path it matches: 'get-*'",
        "PATTERN"),
        Option("--exclude", "texts", "leave out operations whose name or path it matches",
        "PATTERN"),
        Option("--read-only", help="only operations that read: GET and HEAD"),
        Option("--dry", help="only list what would be imported"), _ALLOW_HOST, _SECRET_HOST),
        takes=("file",), group="make",
        output="json"),
    # --- MCP
    Command("server", "", "the MCP servers and their states", servers.list_servers, is_group=True),
    Command("server list", "", "the MCP servers and their states", servers.list_servers),
    Command("server add", "NAME COMMAND ARGUMENTS",
        "a server, in a shell for good; options come first",
        servers.add, options=(Option("--url", "text", "a server reached by HTTP", "URL"),
        Option("--env", "text", "variables: K=V, several separated by commas", "K=V"),
        Option("--header", "text", "headers: K=V, several separated by commas", "K=V"),
        Option("--cwd", "text", "its folder", "FOLDER", "file"), _SAVE,
        Option("--trusted", help="believe what it says about its tools"), _YES), leading=2,
        takes_body=True, group="make"),
    Command("server import", "CLIENT|FILE", "the servers of another client, or of its file",
        servers.import_servers,
        options=(_SAVE, _YES), takes=(tuple(CLIENTS),)),
    Command("server export", "[" + "|".join(FAMILIES) + "] [NAME ...] | CLIENT --self",
        "ours for other clients",
        servers.export, options=(Option("--self",
        help="add this project's running notebook to a client's file"), _YES),
        takes=((*FAMILIES, *CLIENTS), "server")),
    Command("server login", "NAME", "sign in to a server", servers.login, takes=("server",),
        options=(Option("--code", "text", "give the answer by hand", "ADDRESS"),)),
    *(
        Command(f"server {verb}", "NAME", about, run, takes=("server",))
        for verb, run, about in (
            ("logout", servers.logout, "sign out of it"),
            ("test", servers.test, "does it work?"),
            ("logs", servers.logs, "what it wrote to stderr"),
            ("remove", servers.remove, "remove it, also from onetool.yaml"),
            ("resources", servers.resources, "the resources it offers"),
            ("prompts", servers.prompts, "the prompts it offers"),
        )
    ),
    *(
        Command(f"server {verb}", "NAME", about, run, takes=("server",), place="notebook",
            elsewhere=f"A server runs in the notebook that started it: %tool server {verb} NAME")
        for verb, run, about in (
            ("start", partial(servers.change_state, "start"), "start it"),
            ("stop", partial(servers.change_state, "stop"), "stop it"),
            ("restart", partial(servers.change_state, "restart"), "stop and start it"),
            ("trace", servers.trace,
            "every message to and from it; with a number that message whole"),
        )
    ),
    Command("server read", "NAME URI [K=V ...]",
        "read a resource; a template takes its variables as K=V",
        servers.read, takes=("server", "uri"), output="json"),
    Command("serve", "", "offer the read-only tools to other MCP clients", servers.serve,
        options=(Option("--port", "text", "by default a free one", "N"),
        Option("--host", "text", "by default 127.0.0.1", "HOST"),
        Option("--allow", "names", "offer exactly these: names, pack.* or *", "CSV", "tool",
        aliases=("--tool-allow",)),
        Option("--no-token", help="ask for no token")), place="notebook",
        elsewhere="In a shell: onetool-ipy mcp"),
    Command("serve status", "", "what is served now", servers.serve_status, place="notebook"),
    Command("serve stop", "", "end it", servers.serve_stop, place="notebook"),
    Command("mcp", "",
        "serve the tools to an MCP client: on stdio, or with --http on a port of this machine",
        shell.serve, options=(Option("--http", help="streamable HTTP instead of stdio"),
        Option("--host", "text", "by default 127.0.0.1", "HOST"),
        Option("--port", "number", "by default a free one", "N"),
        Option("--tool-allow", "names", "offer exactly these; by default the tools that only read",
        "CSV", "tool", aliases=("--allow",)),
        Option("--no-token",
        help="ask for no token; else it is the secret ONETOOL_MCP_TOKEN, or a new one"),
        Option("--attach", "optional", "hand on the tools of a running notebook of this project",
        "FOLDER", "file")),
        place="shell", elsewhere="In a notebook: %tool serve", output="own", is_lenient=True),
    Command("completion", "|".join(shell.SHELLS),
        "the script that makes your shell complete onetool-ipy",
        shell.completion_script, takes=(shell.SHELLS,), place="shell"),
)
# fmt: on
_ALIASES = {"servers": "server", "bundles": "bundle"}
_IN_TOOLS = {
    "ls": "tools list",
    "show": "tools info",
    "call": "tools invoke",
    "invoke": "tools invoke",
}
_LINE = re.compile(r"%tool ([\w.@-]+)(?: ([\w-]+))?")


class Continuation(NamedTuple):
    """What can follow on a line: words, and names to look up. `command` is None where the line has
    none yet."""

    command: Command | None
    words: list[str]
    names: list[Offer]


def rows(place: Literal["notebook", "shell"]) -> dict[str, Command]:
    """The commands of a place by name."""
    return {command.name: command for command in TABLE if command.runs_in(place)}


def command_words() -> frozenset[str]:
    """The words after `%tool` that name a command, and so no tool."""
    return frozenset([*(name for name in rows("notebook") if " " not in name), *_ALIASES, "help"])


def find(words: Sequence[str], place: Literal["notebook", "shell"]) -> tuple[Command, int]:
    """The command that a line begins with, and how many words its name has. Raises UsageProblem."""
    commands = rows(place)
    first = _ALIASES.get(words[0], words[0]) if words else ""
    pair = f"{first} {words[1]}" if len(words) > 1 else ""
    if pair in commands:
        return commands[pair], 2
    command = commands.get(first)
    if command is None:
        if elsewhere := next(
            (row.elsewhere for row in TABLE if row.name == first and row.elsewhere), ""
        ):
            raise UsageProblem(
                f"No command '{first}'. {elsewhere}" if elsewhere.startswith("Did") else elsewhere
            )
        names = [name for name, row in commands.items() if " " not in name and not row.alias_of]
        close = difflib.get_close_matches(first, names, n=1)
        meant = close[0] if close else _IN_TOOLS.get(first, "")
        if "." in first:
            meant = f"tools invoke {first[:40]}"
        hint = f"Did you mean '{meant}'?" if meant else "See all with: onetool-ipy --help"
        raise UsageProblem(f"No command '{first[:40]}'. {hint}")
    if elsewhere := next((row.elsewhere for row in TABLE if row.name == pair), ""):
        raise UsageProblem(elsewhere)
    if command.is_group and len(words) > 1 and not words[1].startswith("-"):
        verbs = verbs_of(first, place)
        lead = "onetool-ipy" if place == "shell" else "%tool"
        near = did_you_mean(words[1], verbs)
        looks = [verb for verb in ("show", "test", "info") if verb in verbs]
        of_one = f" For one of them: {lead} {first} {looks[0]} NAME" if looks and not near else ""
        raise UsageProblem(
            f"{lead} {first} does not know '{words[1][:40]}'. {near}".strip(),
            hint=f"It knows: {', '.join(verbs)}.{of_one}",
        )
    return command, 1


def require_no_words(
    command: Command, options: Options, place: Literal["notebook", "shell"]
) -> None:
    """Raise UsageProblem if a command that takes no words has some: `lock chek` must not lock."""
    if command.words or command.takes or command.is_group or not options.words:
        return
    lead = "onetool-ipy" if place == "shell" else "%tool"
    word = options.words[0]
    near = did_you_mean(word, verbs_of(command.name, place))
    raise UsageProblem(
        f"{lead} {command.name} does not know '{word[:40]}'. {near}".strip(),
        hint=f"See: {lead} {command.name} --help",
    )


def search(context: CommandContext, options: Options) -> object:
    """`search WORDS`: tools, packs, snippets and aliases, then the commands that have the words."""
    query = " ".join(options.words)
    answer = checked(context.box.ot.help(query=query))
    if not isinstance(answer, Page) or not answer.startswith(("# Results for", "No matches")):
        return answer if not isinstance(answer, Page) else page(context.box, answer.parts)
    place: Literal["notebook", "shell"] = "shell" if context.shell is None else "notebook"
    index = Index(
        Entry(row.name, f"{row.line(place)} {row.help}", value=row)
        for row in rows(place).values()
        if not row.alias_of
    )
    hits = [hit.item.value for hit in index.search(query, limit=3) if hit.tier != "fuzzy"]
    listing = Rows(tuple(Row(hit.line(place), hit.help, link="line") for hit in hits))
    parts = list(answer.parts) if answer.startswith("#") or not hits else []
    return page(context.box, [*parts, Heading("Commands", level=2), listing] if hits else parts)


def verbs_of(name: str, place: Literal["notebook", "shell"]) -> list[str]:
    """The second words of a command."""
    return [
        row.name.partition(" ")[2]
        for row in rows(place).values()
        if row.name.startswith(f"{name} ") and not row.alias_of
    ]


def continuation(
    words: Sequence[str], last: str, place: Literal["notebook", "shell"]
) -> Continuation:
    """What can follow the finished `words` of a line, where `last` is being typed. Never raises."""
    try:
        command, length = find(words, place)
    except UsageProblem:
        first = rows(place).get(words[0]) if len(words) == 1 else None
        return Continuation(first, verbs_of(words[0], place) if first else [], [])
    options, rest = command.options_in(place), words[length:]
    before = options.get(rest[-1]) if rest else None
    if before is not None and before.kind != "switch":
        offers = before.offers
        return Continuation(
            command, *((list(offers), []) if isinstance(offers, tuple) else ([], [offers]))
        )
    flags = [name for name, option in options.items() if name not in rest or option.kind == "texts"]
    if last.startswith("-"):
        return Continuation(command, flags, [])
    plain = [word for word in rest if not word.startswith("-")]
    place_of_word = min(len(plain), len(command.takes) - 1)
    takes = command.takes[place_of_word] if command.takes else ()
    verbs = verbs_of(command.name, place) if not rest else []
    listed = [*(takes if isinstance(takes, tuple) else ()), *verbs, *(flags if not rest else [])]
    return Continuation(command, listed, [takes] if isinstance(takes, str) else [])


def shell_lines(text: str) -> str:
    """A text that was written for a notebook, with the commands of a shell."""

    def respelled(match: re.Match[str]) -> str:
        first, second = match[1], match[2] or ""
        behind = f" {second}" if second else ""
        if behind and (name := first + behind) in rows("notebook") and name not in rows("shell"):
            return match[0]
        if first in rows("shell"):
            return f"onetool-ipy {first}{behind}"
        if first in ("list", "info"):
            return f"onetool-ipy tools {first}{behind}"
        is_call = "." in first and not first.endswith(".")
        return f"onetool-ipy tools invoke {first}{behind}" if is_call else match[0]

    text = _LINE.sub(respelled, text).replace(", then run ot.reload()", "")
    return text.replace("%ask --", "onetool-ipy ask --")


def help_lines(place: Literal["notebook", "shell"]) -> list[str]:
    """A line for each command: what to type, and what it does; its verbs stand in the line."""
    return [
        _help_line(command, place)
        for command in rows(place).values()
        if " " not in command.name and not command.alias_of
    ]


def first_page(place: Literal["notebook", "shell"]) -> list[Part]:
    """The commands that a person needs first, in four groups; the last one names the others."""
    parts: list[Part] = []
    listed: set[str] = set()
    for group in get_args(Group):
        commands = [command for command in rows(place).values() if command.group == group]
        lines = [_help_line(command, place) for command in commands]
        listed |= {command.name for command in commands}
        parts += [Heading(group.capitalize(), level=2), Rows(catalog.help_rows(lines))]
    others = [line.split()[place == "notebook"] for line in help_lines(place)]
    behind = ", ".join(name for name in others if name not in listed)
    lead = "%tool help all" if place == "notebook" else "onetool-ipy help all"
    return [*parts, Heading("More", level=2), Rows((Row(lead, behind, link="line"),))]


def _help_line(command: Command, place: Literal["notebook", "shell"]) -> str:
    typed = command.line(place) if place == "notebook" else command.usage
    verbs = verbs_of(command.name, place)
    about = f"{command.help}; {', '.join(verbs)}" if verbs else command.help
    return f"{typed:<{_WIDTH - 2}}  {about}"


def command_parts(name: str, place: Literal["notebook", "shell"]) -> list[Part]:
    """The help of one command: its lines and its options, and those of its verbs."""
    first = _ALIASES.get(name, name)
    about = [
        row for row in rows(place).values() if row.name == first or row.name.startswith(f"{first} ")
    ]
    parts: list[Part] = [Rows(tuple(Row(row.line(place), row.help, link="line") for row in about))]
    for row in about:
        title = f"Options of {row.name}" if len(about) > 1 else "Options"
        if row.options_in(place):
            parts += [Heading(title, level=2), row.option_rows(place)]
    return parts


class Commands:
    """The commands of the `%tool` of one notebook."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self.pages = catalog.Pages(context.box, first_page("notebook"))

    def run(self, word: str, rest: str, cell: str | None = None) -> object:
        """Run a command, given by its first word and the text behind it."""
        if word == "help":
            return self._help(rest.strip())
        if asks_for_help(rest) or rest.strip() in ("-h", "?"):
            return page(self._context.box, command_parts(word, "notebook"))
        second = rest.split(maxsplit=1)[:1]
        command, length = find([word, *second], "notebook")
        text = rest if length == 1 else rest.lstrip()[len(second[0]) :]
        body = cell or ""
        if body.strip() and not command.takes_body:
            raise UsageProblem(
                f"%tool {command.name} takes no cell body.",
                hint=f"Write it as: %tool {command.name}",
            )
        if command.name == "new":
            raise UsageProblem(
                "%tool new makes HTTP tools.",
                hint="For example: %tool new http my-api.get-user --url ...",
            )
        if command.is_text:
            return command.run(self._context, Options([text.strip()], {}, body))
        options = read_options(text, command.kinds("notebook"), leading=command.leading)
        require_no_words(command, options, "notebook")
        values = command.named(options.values, "notebook")
        return command.run(self._context, Options(options.words, values, body))

    def require_here(self, word: str) -> None:
        """Raise UsageProblem if a word is a command of the shell alone."""
        command = rows("shell").get(word)
        if command is not None:
            elsewhere = command.elsewhere or f"Write: !onetool-ipy {word}"
            raise UsageProblem(
                f"'{word}' is a command of the shell, and no tool has this name.", hint=elsewhere
            )

    def _help(self, name: str) -> Page:
        if name == "all":
            return self.pages.all_commands(help_lines("notebook"))
        if name in ("ask", "%ask"):
            return page(self._context.box, asking.help_parts())
        is_command = (
            name in self._context.command_words and self._context.box.registry.find(name) is None
        )
        if is_command and name != "help":
            return page(self._context.box, command_parts(name, "notebook"))
        return self.pages.usage(name)
