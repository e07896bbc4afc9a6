"""`onetool-ipy`: the toolbox on the command line. Results are JSON on stdout, words go to stderr, both masked.

Exit code 0 means ok, 1 a failed call, 2 a wrong command.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from onetool_ipy._version import __version__
from onetool_ipy.assemble import open_leniently, open_toolbox
from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, OneToolError, UsageProblem
from onetool_ipy.base.printable import json_printable, printable, printable_line
from onetool_ipy.config.edit import allow_host
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.config.template import init_project, pack_template
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core import names
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces import creation
from onetool_ipy.faces.line.values import Expected, read_plain, require_arguments
from onetool_ipy.faces.pack_names import require_free_name
from onetool_ipy.faces.secret_hosts import new_sendings, unconfirmed
from onetool_ipy.render.result import note_line
from onetool_ipy.sdk.stubs import stubs
from onetool_ipy.toolbox import Toolbox
from onetool_ipy.trust_gate import question_lines, removal_lines, settled_line

if TYPE_CHECKING:
    from onetool_ipy.bundles.importing.draft import BundleDraft

__all__ = ["main", "make_parser"]

_OK, _FAILED, _USAGE = 0, 1, 2

_IN_A_SHELL = (
    ("%tool list", "onetool-ipy tools list"),
    ("%tool trust", "onetool-ipy trust"),
    (", then run ot.reload():", ":"),
)

_TOKEN = "ONETOOL_MCP_TOKEN"
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    parser = make_parser()
    try:
        options = parser.parse_args(argv)
    except SystemExit as exc:
        return int(exc.code or 0)
    run: Callable[[argparse.Namespace], int] | None = getattr(options, "run", None)
    if run is None:
        (getattr(options, "help_of", parser)).print_help(sys.stderr)
        return _USAGE
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not be able to show every name
    try:
        code = run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OneToolError as exc:
        return _say_error(exc)
    except BrokenPipeError:
        _drop_output()  # the reader went away (`| head`)
        return _OK
    except OSError as exc:
        where = f": '{exc.filename}'" if exc.filename else ""
        _say(f"{exc.strerror or exc}{where}.")
        _drop_output()
        return _FAILED
    except KeyboardInterrupt:
        _say("Stopped.")
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Make the parser with all commands and options."""
    parser = _CommandParser(prog="onetool-ipy", description="One registry of tools for notebooks.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.set_defaults(config=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (_add_tools, _add_project, _add_trust, _add_mcp, _add_ask, _add_bundles):
        add(commands)
    return parser


def _drop_output() -> None:
    """Discard the rest of stdout, which Python would try to write again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _say(text: str) -> None:
    """Print words for a person to stderr."""
    print(printable(text), file=sys.stderr)


def _say_error(exc: OneToolError) -> int:
    """Print an error. Returns its exit code."""
    _say_hint("\n".join(exc.lines()))
    return _FAILED


def _say_hint(text: str) -> None:
    """Print a text that was written for a notebook, with the commands of a shell."""
    for here, there in _IN_A_SHELL:
        text = text.replace(here, there)
    if text:
        _say(text)


def _ask_at_terminal(question: str) -> str | None:
    """Ask the person at the terminal on stderr. Returns the typed line, or None if there is no terminal."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return None
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline() or None


@contextmanager
def _aside() -> Iterator[None]:
    """Send what tools and pack files print to stderr, also from child processes: stdout is for the result."""
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout
        kept = -1
    try:
        if kept >= 0:
            sys.stdout.flush()
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


def _show_json(box: Toolbox, value: Any) -> None:
    """Print a value as JSON, without secrets."""
    masked = values.map_text(values.to_json(value), box.mask)
    print(json_printable(json.dumps(masked, ensure_ascii=not _is_utf8(sys.stdout), indent=2)))


def _is_utf8(stream: Any) -> bool:
    """Whether a stream can write every character; otherwise JSON escapes them."""
    return "utf" in (getattr(stream, "encoding", None) or "utf-8").lower()


def _names_of(csv: str | None) -> list[str] | None:
    """Split an allow-list at its commas; None if none was given."""
    return None if csv is None else [name.strip() for name in csv.split(",") if name.strip()]


_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>[^()]*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>.*)", re.DOTALL)
_OF_TOOLS = {"list": "list", "ls": "list", "info": "info", "show": "info", "invoke": "invoke", "call": "invoke"}


class _CommandParser(argparse.ArgumentParser):
    """A parser with helpful errors. Each command takes `--config`, before or after the other options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        said = "the configuration to use" if " " not in self.prog else argparse.SUPPRESS  # shown once, for all commands
        self.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=said)

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong; exit code 2."""
        choice, unknown = _CHOICE.search(message), _UNKNOWN.match(message)
        if choice is not None:
            message = _no_command(choice["given"], re.findall(r"[\w-]+", choice["known"]))
        elif unknown is not None and "=" in unknown["given"]:
            message += "\nKEY=VALUE stands before the options."
        super().error(message)


def _no_command(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    meant = near[0] if near else f"tools {_OF_TOOLS[given]}" if given in _OF_TOOLS and "tools" in known else ""
    return f"no command '{given}'. " + (f"Did you mean '{meant}'?" if meant else f"There are: {', '.join(known)}.")


def _add_tools(commands: Any) -> None:
    tools = commands.add_parser("tools", help="list, look up and call tools")
    tools.set_defaults(help_of=tools)
    verbs = tools.add_subparsers(title="commands", metavar="COMMAND")
    listing = verbs.add_parser("list", help="list the tools")
    listing.add_argument("--tool-allow", metavar="CSV", help="only these: names or pack.*, separated by commas")
    listing.add_argument("--json", action="store_true", help="name, description and inputSchema as JSON")
    listing.set_defaults(run=_list)
    info = verbs.add_parser("info", help="one tool's schema and state, as JSON")
    info.add_argument("name")
    info.set_defaults(run=_info)
    invoke = verbs.add_parser("invoke", help="call a tool; the result is JSON")
    invoke.add_argument("name")
    invoke.add_argument("words", nargs="*", metavar="KEY=VALUE", help="arguments, each read by what the tool takes")
    invoke.add_argument("--args", default="{}", metavar="JSON", help="the arguments as a JSON object; - reads stdin")
    invoke.add_argument("--timeout", type=_seconds, metavar="S", help="seconds it may take")
    invoke.set_defaults(run=_invoke)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0")
    return found


def _list(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        specs = box.registry.list(_names_of(options.tool_allow))
        if options.json:
            _show_json(
                box, [{"name": s.name, "description": s.description, "inputSchema": s.parameters} for s in specs]
            )
            return _OK
        rows = [(s.name, s.summary, s.signature.partition("(")[2][:-1]) for s in specs]
        width = max((len(name) for name, _, _ in rows), default=4)
        _print_row(f"{'NAME':<{width}}  DESCRIPTION  (INPUT)")
        for name, text, arguments in rows:
            _print_row(box.mask(f"{name:<{width}}  {text}  ({arguments})"))
        return _OK


def _print_row(text: str) -> None:
    """Print a row, cut to the width of a terminal."""
    line = printable(text)
    room = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 0
    print(line[: room - 1] + "…" if 0 < room < len(line) else line)


def _info(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        try:
            spec = box.registry.require(options.name)
        except CallFailure as exc:
            return _say_error(exc)
        with _aside():
            deps = box.ot.deps(tool=spec.name)
        count, last = box.log.count_of(spec.name)
        wire = names.wire_names(s.name for s in box.registry.known())[spec.name]
        _show_json(
            box,
            {
                "name": spec.name,
                "description": spec.description,
                "inputSchema": spec.parameters,
                "signature": spec.signature,
                "source": spec.source,
                "pack": spec.pack,
                "enabled": not spec.disabled,
                "timeoutS": spec.timeout_s if spec.timeout_s is not None else box.config.settings.timeouts.local_s,
                "wireName": wire,
                "callCount": count,
                "lastCalledAt": None if last is None else last.isoformat(timespec="milliseconds"),
                "deps": deps,
            },
        )
        return _OK


def _with_words(args: Any, words: Sequence[str], specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """The arguments with those of `KEY=VALUE` words, read as `%tool` reads them. Raises UsageProblem."""
    expected = Expected.of(specs[0].parameters if specs else {})
    found = dict(require_arguments(args, "--args"))
    for word in words:
        key, is_pair, text = word.partition("=")
        if not is_pair or not key:
            raise UsageProblem(
                f"'{word[:40]}' is not KEY=VALUE.", hint="For example: onetool-ipy tools invoke time.now"
            )
        if key in found:
            raise UsageProblem(f"'{key[:40]}' is given twice.")
        found[key] = read_plain(text, expected.at(key))
    return found


def _invoke(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.args == "-" else options.args
    try:
        args = values.from_json(text)
    except (ValueError, RecursionError) as exc:
        _say(f"--args is not JSON: {exc}")
        _say('Write it as an object, e.g. --args \'{"message": "hello"}\'.')
        return _USAGE
    with open_toolbox(options.config) as box:
        if options.words:
            try:
                spec = box.registry.find(options.name)
                args = _with_words(args, options.words, box.registry.loaded([] if spec is None else [spec]))
            except UsageProblem as exc:
                _say(exc.message)
                _say_hint(exc.hint)
                return _USAGE
        with _aside():
            result = box.call(options.name, args, source="cli", timeout=options.timeout)
        data = box.outgoing(result)  # first: it notes the handle of a large result in `meta`
        _show_json(box, {**result.to_dict(), "data": data})
        if result.error is not None:
            _say_hint(box.mask(f"{result.error.message}\n{result.error.hint}".rstrip()))
            return _FAILED
        if line := note_line(result.meta):
            _say(box.mask(line))
        return _OK


def _add_bundles(commands: Any) -> None:
    about = "make a bundle of an OpenAPI 3 or Swagger 2.0 document or a Postman collection"
    imported = commands.add_parser("import", help=about)
    imported.add_argument(
        "source", metavar="FILE_OR_URL", nargs="+", help="a file or an address; openapi may stand before"
    )
    imported.add_argument("--bundle", metavar="NAME", help="the bundle's name; by default made from the title")
    imported.add_argument("--server", metavar="URL", help="the server to call, instead of the document's")
    imported.add_argument("--auth", metavar="KIND:SECRET", help="for tools without auth, such as bearer:API_TOKEN")
    imported.add_argument("--dry", action="store_true", help="only list what would be imported")
    imported.add_argument("--read-only", action="store_true", help="only operations that read: GET and HEAD")
    imported.add_argument("--allow-host", action="store_true", help="let HTTP tools reach the hosts that are named")
    for option, metavar, what in _IMPORT_LISTS:
        imported.add_argument(option, metavar=metavar, action="append", default=[], help=what)
    imported.set_defaults(run=_import)


_IMPORT_LISTS = (
    ("--tag", "TAG", "only operations with this tag; again for more"),
    ("--include", "PATTERN", "only operations whose name or path it matches, such as 'get-*' or '/users/*'"),
    ("--exclude", "PATTERN", "leave out operations whose name or path it matches"),
    ("--secret-host", "NAME=HOST", "send a secret that is used with another host to this one, too"),
)


def _drafted(box: Toolbox, options: argparse.Namespace) -> BundleDraft:
    from onetool_ipy.bundles.importing.draft import ImportRequest
    from onetool_ipy.bundles.importing.formats import import_document

    words = options.source[1:] if options.source[0] == "openapi" and len(options.source) > 1 else options.source
    if len(words) != 1:
        raise UsageProblem("import needs one file or address.", hint="onetool-ipy import openapi.json")
    also = creation.own_host(words[0]) if options.allow_host else ()
    data, base_url = creation.read_source(box, words[0], also=also)
    chosen = creation.choice(options.tag, options.include, options.exclude, read_only=options.read_only)
    known = box.config.secrets.names()
    return import_document(data, ImportRequest(options.bundle, base_url, options.server, known, chosen))


def _import(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        draft = _drafted(box, options)
        if options.dry:
            _show_json(box, draft.rows())
            return _OK
        if options.auth:
            creation.add_auth(draft, options.auth)
        left = unconfirmed(new_sendings(box, draft.tools, made_up=None), options.secret_host)
        for one in left:
            reply = _ask_at_terminal(f"{one.said} Send it there? [y/N] \n") or ""
            if reply.strip().lower() not in ("y", "yes"):
                _say(f"{one.said} Nothing was made.")
                _say("To allow it add: " + " ".join(f"--secret-host {each.word}" for each in left))
                return _FAILED
        notes = creation.name_bundle(box, draft, options.bundle)
        made = creation.store_draft(box, draft)
        for line in [*creation.told(made, draft, box), *notes]:
            _say(box.mask(line))
        for host in creation.unreached(box, draft.hosts):
            if options.allow_host:
                with box.gate.saving(f"host {host}"):
                    _say(f"allowed {host} in {allow_host(box.config.paths, host)}")
            else:
                _say(f"not allowed yet: {host}; add --allow-host, or add it to http.allowed_hosts")
        names = [f"{made.bundle.slug}.{tool.slug}" for tool in made.tools]
        _show_json(box, {"bundle": made.bundle.to_dict(), "tools": names, "hosts": draft.hosts, "notes": draft.notes})
        return _OK


def _add_mcp(commands: Any) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="serve the tools to an MCP client",
        description="Serve the tools to an MCP client: on stdio, or with --http on a port of this machine.",
    )
    mcp.add_argument("--http", action="store_true", help="streamable HTTP instead of stdio")
    mcp.add_argument("--host", default="127.0.0.1")
    mcp.add_argument("--port", type=int, default=0, help="by default a free one")
    mcp.add_argument(
        "--tool-allow",
        metavar="CSV",
        help="offer exactly these: names, pack.* or *, separated by commas; by default the tools that only read",
    )
    mcp.add_argument(
        "--no-token", action="store_true", help=f"ask for no token; else it is the secret {_TOKEN}, or a new one"
    )
    mcp.add_argument(
        "--attach",
        nargs="?",
        const=".",
        metavar="FOLDER",
        help="hand on, on stdio, the tools of a running notebook of this project; by default of the one here",
    )
    mcp.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    if options.attach is not None:
        return _attach(options)
    from onetool_ipy.faces.mcp.http import serve_stdio  # it imports the SDK: 2 s

    with open_leniently(options.config) as box:
        for problem in box.config.problems:
            _say(box.mask(str(problem)))
        allow = _names_of(options.tool_allow)
        if options.http:
            return _serve_http(box, options, allow)
        if sys.stdin.isatty():
            _say("Waiting for an MCP client on standard input. Give this command to your client, or use --http.")
        serve_stdio(box, allow=allow, say=_say)
    return _OK


def _attach(options: argparse.Namespace) -> int:
    given = {"--http": options.http, "--tool-allow": options.tool_allow, "--no-token": options.no_token}
    if wrong := [flag for flag, value in given.items() if value]:
        raise UsageProblem(f"--attach hands on what the notebook serves; {wrong[0]} cannot change it.")
    folder = Path(options.attach).expanduser()
    if not folder.is_dir():
        raise UsageProblem(f"'{options.attach}' is not a folder.", hint="Name the folder of the project.")
    with open_leniently(options.config, cwd=folder.resolve()) as box:
        paths = box.config.paths
    from onetool_ipy.faces.mcp.attach import attach, choose_note, note_of_kernel  # it imports the SDK

    note = choose_note(paths.state, paths.project, options.port) or note_of_kernel(paths.project)
    _say(f"Attached to {note.url}")
    attach(note)
    return _OK


def _serve_http(box: Toolbox, options: argparse.Namespace, allow: list[str] | None) -> int:
    from onetool_ipy.faces.mcp.http import serve_http

    is_theirs = box.config.trust.how == "untrusted"  # then its secrets.yaml must not choose the token
    known = os.environ.get(_TOKEN) if is_theirs else box.config.secrets.get(_TOKEN)
    if known is not None and len(known) < 16:
        raise UsageProblem(f"The secret '{_TOKEN}' is shorter than 16 characters.", hint="Choose a longer one.")
    serving = serve_http(box, host=options.host, port=options.port, allow=allow, token=known, is_open=options.no_token)
    try:
        serving.leave_note(box.config.paths.state)
        _say(f"Serving on {serving.url}")
        if known is None and serving.token is not None:
            _say(f"Authorization: Bearer {serving.token}")
        _say(serving.offer("--tool-allow"))
        serving.wait()
    finally:
        serving.stop()
    return _OK


def _add_ask(commands: Any) -> None:
    ask = commands.add_parser("ask", help="ask a model, which may call tools; the answer is JSON")
    ask.add_argument("prompt", type=_prompt, help="what to ask; tool:NAME {json} runs a tool without a model")
    ask.add_argument(
        "--with-tools",
        nargs="?",
        const=True,
        type=_boolean,
        metavar="true|false",
        help="whether tools are offered; by default as ask.with_tools says, which is true",
    )
    ask.add_argument("--tool-allow", metavar="CSV", help="offer only these: names or pack.*, separated by commas")
    ask.add_argument("--model", metavar="NAME", help="which model of the configuration")
    ask.add_argument("--max-steps", type=_count, metavar="N", help="requests before it must answer")
    ask.add_argument("--approve", metavar="CSV", help="tools that may run without a question")
    ask.set_defaults(run=_ask)


def _prompt(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is nothing to ask")
    return text


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not true or false")
    return found


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to 1000")
    return int(text)


def _ask(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        with _aside():
            allow, approve = _names_of(options.tool_allow), _names_of(options.approve)
            typed = box.ask.typed(options.prompt, source="cli", tool_allow=allow, approve=approve or ())
            answer = typed or box.ask(
                options.prompt,
                model=options.model,
                with_tools=options.with_tools,
                tool_allow=allow,
                max_steps=options.max_steps,
                approve=approve,
                source="cli",
            )
        _show_json(box, answer.to_dict())
        if answer.note:
            _say(box.mask(answer.note))
        is_failed_call = not answer.model and answer.tool_error is not None
        return _OK if answer.ok and not is_failed_call else _FAILED


def _add_project(commands: Any) -> None:
    init = commands.add_parser("init", help="write a commented .onetool/ folder")
    init.add_argument("folder", nargs="?", default=".")
    init.add_argument("--pack", metavar="NAME", help="write a pack file with two tools, its test and its settings")
    init.set_defaults(run=_init)
    stubs = commands.add_parser("stubs", help="write .pyi files for the packs, so that editors complete them")
    stubs.add_argument("--output", "-o", metavar="FOLDER", default="typings")
    stubs.set_defaults(run=_stubs)
    health = commands.add_parser("health", help="what is wrong now, and what to do, as JSON")
    health.set_defaults(run=_health)
    export = commands.add_parser("export", help="write a notebook as a plain Python script")
    export.add_argument("notebook")
    export.add_argument("--output", "-o", metavar="FILE", help="by default NOTEBOOK.py; - prints it")
    export.set_defaults(run=_export)


def _health(options: argparse.Namespace) -> int:
    with open_leniently(options.config) as box:
        with _aside():
            health = box.ot.health()
        # Only the specification of `ot.health()` calls an MCP server a proxy.
        _show_json(box, {"server" if key == "proxy" else key: value for key, value in health.items()})
        return _FAILED if health["problems"] else _OK


def _export(options: argparse.Namespace) -> int:
    from onetool_ipy.faces.export import export_notebook

    source = Path(options.notebook)
    with open_leniently(options.config) as box:
        text = export_notebook(source, box)
    if options.output == "-":
        print(printable(text) if sys.stdout.isatty() else text, end="")
        return _OK
    target = Path(options.output) if options.output else source.with_suffix(".py")
    if target.exists() and not options.output:
        _say(f"'{target}' is there already; name another file with --output.")
        return _USAGE
    target.write_text(text, encoding="utf-8")
    _say(f"wrote {target}")
    return _OK


def _init(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    is_new = not os.path.lexists(folder / FOLDER)
    code = _init_pack(folder, options.pack) if options.pack is not None else _init_project(folder)
    if is_new and (folder / FOLDER).is_dir():
        TrustList.of(os.environ, Path.home()).add(folder.resolve(), {})
    return code


def _init_project(folder: Path) -> int:
    written = init_project(folder)
    for path in written:
        _say(f"wrote {path}")
    for path in written.left_alone:
        _say(f"left alone {path}, which is there already")
    if written:
        _say("Next: %load_ext onetool_ipy in a notebook, or onetool-ipy tools list")
    return _OK


def _init_pack(folder: Path, name: str) -> int:
    config = folder / ".onetool" / "onetool.yaml"
    files = pack_template(name, config.read_text(encoding="utf-8") if config.exists() else "")
    taken = [folder / place for place in files if (folder / place).exists() and folder / place != config]
    if taken:
        _say(f"'{taken[0]}' is there already; nothing was written.")
        return _FAILED
    with open_leniently(cwd=folder) as box:
        require_free_name(box, name, "_tools")
    for place, text in files.items():
        path = folder / place
        done = "added its settings to" if path.exists() else "wrote"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        _say(f"{done} {path}")
    _say(f"Next: onetool-ipy tools list, or in a notebook: %tool {name}")
    return _OK


def _stubs(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        for place, text in stubs(box.registry.loaded(box.registry.list())).items():
            path = Path(options.output) / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            _say(f"wrote {path}")
    return _OK


def _add_trust(commands: Any) -> None:
    trust = commands.add_parser("trust", help="show what a project runs and reaches, and allow it after a yes")
    trust.add_argument("path", nargs="?", default=".", help="the project's folder; by default this one")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    trust.add_argument("--remove", action="store_true", help="trust it no longer")
    trust.add_argument("--list", action="store_true", help="the projects that you trust")
    trust.set_defaults(run=_trust)


def _trust(options: argparse.Namespace) -> int:
    if options.list:
        for folder in TrustList.of(os.environ, Path.home()).folders():
            print(printable_line(str(folder)))
        return _OK
    folder = Path(options.path).resolve()
    if not folder.is_dir():
        _say(f"There is no folder '{options.path}'.")
        return _FAILED
    with open_leniently(cwd=folder) as box:
        if options.remove:
            was_listed = box.distrust()
            _say("\n".join(box.mask(line) for line in removal_lines(box, was_listed=was_listed)))
            return _OK
        if settled := settled_line(box):
            _say(settled)
            return _OK
        inventory = box.would_run()
        if box.config.trust.how != "no project":
            _say("\n".join(question_lines(box)))
            reply = "y" if options.yes else _ask_at_terminal("Trust it? [y/N] ")
            if reply is None:
                line = shlex.join(["onetool-ipy", "trust", "--yes", *([] if options.path == "." else [options.path])])
                _say(f"Nothing was trusted, since nobody can be asked here. If you agree, run: {line}")
                return _FAILED
            if reply.strip().lower() not in ("y", "yes"):
                _say("Nothing was trusted.")
                return _FAILED
        box.trust(shown=inventory)
        _say(f"{folder} is trusted from now on. To take it back, run: onetool-ipy trust --remove")
    return _OK


if __name__ == "__main__":
    sys.exit(main())
