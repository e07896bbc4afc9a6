"""The commands that only a shell has: tools as JSON, a model, an MCP server on stdio, the files of
a project.

A command returns its answer; `faces.cli` prints it. Questions go to the terminal, on stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from onetool_ipy.assemble import open_leniently
from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import write_whole
from onetool_ipy.base.printable import printable, printable_line, visible
from onetool_ipy.base.processes import command_line, quoted
from onetool_ipy.base.records import collector_paused, models_built_late
from onetool_ipy.config.edit import editing, text_of
from onetool_ipy.config.load import all_labels
from onetool_ipy.config.paths import FOLDER, home_of
from onetool_ipy.config.template import init_project, pack_template
from onetool_ipy.config.trust import TrustList
from onetool_ipy.core import names
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.commands import CommandContext, DataPage, Page, WrongWords, one_word
from onetool_ipy.faces.line.grammar import Options
from onetool_ipy.faces.line.values import Expected, read_plain, require_arguments
from onetool_ipy.faces.new_packs import require_free_name
from onetool_ipy.sdk.stubs import stubs

SHELLS = ("bash", "zsh", "fish", "powershell")
_TOKEN = "ONETOOL_MCP_TOKEN"


class NotDone(UsageProblem, reason="not_done"):
    """A command that did nothing, since the person said no or a file is in the way."""


def say(text: str) -> None:
    """Print words for a person to stderr."""
    sys.stderr.write(printable(f"{text}\n"))


def ask_at_terminal(question: str) -> str | None:
    """Ask the person at the terminal on stderr. Returns the typed line, or None if there is no
    terminal."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return None
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline() or None


def list_tools(context: CommandContext, options: Options) -> DataPage:
    """`tools list`: one's own tools first; for programs in the order of registration."""
    box = context.box
    specs = box.registry.list(options.values.get("--allow"))
    data = [
        {"name": s.name, "description": s.description, "inputSchema": s.parameters} for s in specs
    ]
    is_named = "--allow" in options.values
    ordered = [
        spec for spec in sorted(specs, key=box.registry.place_of) if is_named or not spec.is_toolbox
    ]
    width = max((len(spec.name) for spec in ordered), default=4)
    lines = [f"{'NAME':<{width}}  DESCRIPTION  (INPUT)"]
    lines += [
        f"{s.name:<{width}}  {s.summary}  ({s.signature.partition('(')[2][:-1]})" for s in ordered
    ]
    if len(ordered) < len(specs):
        lines.append(
            "The functions of the toolbox itself: onetool-ipy tools list --tool-allow ot.*"
        )
    room = context.width
    cut = [
        line[: room - 1] + "…" if 0 < room < len(line) else line
        for line in map(printable, map(box.mask, lines))
    ]
    return DataPage.of(Page("\n".join(cut)), data)


def show_tool(context: CommandContext, options: Options) -> DataPage:
    """`tools info NAME`: its schema and state."""
    box = context.box
    spec = box.registry.require(one_word(options, "info"))
    count, last = box.log.count_of(spec.name)
    (labels,) = all_labels([spec], box.config)
    facts = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.parameters,
        "signature": spec.signature,
        "source": spec.source,
        "pack": spec.pack,
        "enabled": not spec.disabled,
        "timeoutS": spec.timeout_s
        if spec.timeout_s is not None
        else box.config.settings.timeouts.local_s,
        "wireName": names.wire_names(each.name for each in box.registry.known())[spec.name],
        "callCount": count,
        "lastCalledAt": None if last is None else last.isoformat(timespec="milliseconds"),
        "deps": box.ot.deps(tool=spec.name),
        "reads": labels.reads_text,
        "sends": labels.sends_text,
    }
    return DataPage.of(Page(""), facts)


def invoke(context: CommandContext, options: Options) -> ToolResult:
    """`tools invoke NAME KEY=VALUE ...`: call a tool."""
    if not options.words:
        raise WrongWords(
            "onetool-ipy tools invoke needs the name of a tool.", hint="For example: %tool time.now"
        )
    name, *words = options.words
    text = options.values.get("--args", "{}")
    try:
        args = values.from_json(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as exc:
        hint = 'Write it as an object, e.g. --args \'{"message": "hello"}\'.'
        raise WrongWords(f"--args is not JSON: {exc}", hint=hint) from exc
    if words:
        spec = context.box.registry.find(name)
        args = _with_words(
            args, name, words, context.box.registry.loaded([] if spec is None else [spec])
        )
    return context.box.call(name, args, source="cli", timeout=options.values.get("--timeout"))


def _with_words(
    args: object, name: str, words: Sequence[str], specs: Sequence[ToolSpec]
) -> dict[str, object]:
    """The arguments with those of `KEY=VALUE` words, read as `%tool` reads them. Raises
    UsageProblem."""
    expected = Expected.of(specs[0].parameters if specs else {})
    try:
        arguments = dict(require_arguments(args, "--args"))
    except UsageProblem as exc:
        raise WrongWords(exc.message, hint=exc.hint) from exc
    for word in words:
        key, is_pair, text = word.partition("=")
        if not is_pair or not key:
            first = next(iter(expected.names), "key")
            hint = (
                f"For example: onetool-ipy tools invoke {name} {first}=... or --args"
                f" '{{\"{first}\": ...}}'"
            )
            raise WrongWords(f"'{word[:40]}' is not KEY=VALUE.", hint=hint)
        if key in arguments:
            raise WrongWords(f"'{key[:40]}' is given twice.", hint="Keep one of them.")
        arguments[key] = read_plain(text, expected.at(key))
    return arguments


def serve(context: CommandContext, options: Options) -> None:
    """`mcp`: serve the tools to an MCP client on stdio, over HTTP, or those of a running
    notebook."""
    flags = options.values
    if "--attach" in flags:
        _attach(options)
        return
    lost = [flag for flag in ("--port", "--host", "--no-token") if flag in flags]
    if lost and "--http" not in flags:
        raise WrongWords(
            f"{lost[0]} goes with --http.", hint="For example: onetool-ipy mcp --http --port 8765"
        )
    # It imports the SDK, which defines hundreds of models. Most clients need a few of them.
    with collector_paused(), models_built_late():
        from onetool_ipy.faces.mcp.http import serve_stdio

    box = context.box
    for problem in box.config.problems:
        say(box.mask(str(problem)))
    if "--http" in flags:
        _serve_http(context, options)
        return
    if sys.stdin is not None and sys.stdin.isatty():
        say(
            "Waiting for an MCP client on standard input. Give this command to your client, or use"
            " --http."
        )
    serve_stdio(box, allow=flags.get("--tool-allow"), say=say)


def _attach(options: Options) -> None:
    flags = options.values
    if wrong := [flag for flag in ("--http", "--tool-allow", "--no-token") if flag in flags]:
        raise UsageProblem(
            f"--attach hands on what the notebook serves; {wrong[0]} cannot change it."
        )
    folder = Path("." if flags["--attach"] is True else flags["--attach"]).expanduser()
    if not folder.is_dir():
        raise UsageProblem(
            f"'{flags['--attach']}' is not a folder.", hint="Name the folder of the project."
        )
    with open_leniently(flags.get("--config"), cwd=folder.resolve()) as box:
        paths = box.config.paths
    # This imports the SDK of MCP.
    from onetool_ipy.faces.mcp.attach import attach, choose_note, note_of_kernel

    note = choose_note(paths.state, paths.project, flags.get("--port", 0)) or note_of_kernel(
        paths.project
    )
    say(f"Attached to {note.url}")
    attach(note)


def _serve_http(context: CommandContext, options: Options) -> None:
    from onetool_ipy.faces.mcp.http import serve_http

    box, flags = context.box, options.values
    # The secrets of a project that the user does not trust must not choose the token.
    is_untrusted = box.config.trust.how == "untrusted"
    token = os.environ.get(_TOKEN) if is_untrusted else box.config.secrets.get(_TOKEN)
    if token is not None and len(token) < 16:
        raise UsageProblem(
            f"The secret '{_TOKEN}' is shorter than 16 characters.", hint="Choose a longer one."
        )
    serving = serve_http(
        box,
        host=flags.get("--host", "127.0.0.1"),
        port=flags.get("--port", 0),
        allow=flags.get("--tool-allow"),
        token=token,
        is_open="--no-token" in flags,
    )
    try:
        serving.leave_note(box.config.paths.state)
        say(f"Serving on {serving.url}")
        if token is None and serving.token is not None:
            say(f"Authorization: Bearer {serving.token}")
        say(serving.offer("--tool-allow"))
        serving.wait()
    finally:
        serving.stop()


def mock(context: CommandContext, options: Options) -> None:
    """`mock FILE`: serve a recording until the client ends, or until Ctrl-C."""
    flags = options.values
    if {"--http", "--stdio"} <= flags.keys() or ("--port" in flags and "--http" not in flags):
        raise WrongWords(
            "A mock is served on --stdio, or with --http and --port.", hint="Give one of them."
        )
    path = Path(
        one_word(
            options, "mock", what="recording", hint="For example: onetool-ipy mock calls.jsonl"
        )
    )
    from onetool_ipy.faces.mcp.http import serve_http, serve_stdio  # they import the SDK: 2 s
    from onetool_ipy.faces.mcp.mock import RestMock, mock_toolbox, read_recording

    calls = read_recording(path, context.box.mask)
    with mock_toolbox(path, calls, context.box.mask) as (box, tools):
        if "--http" not in flags:
            serve_stdio(box, allow=tools, say=say)
            return
        rest = RestMock(calls)
        serving = serve_http(
            box, port=flags.get("--port", 0), allow=tools, is_open=True, other=rest
        )
        try:
            say(
                f"Serving on {serving.url}: {len(tools)} tools, and {len(rest)} requests on the"
                " same port."
            )
            serving.wait()
        finally:
            serving.stop()


def seal_notebook(context: CommandContext, options: Options) -> Page:
    """`seal NB.ipynb`: pack a notebook with its recording."""
    from onetool_ipy.faces.sealing import seal

    source = Path(
        one_word(
            options, "seal", what="notebook", hint="For example: onetool-ipy seal report.ipynb"
        )
    )
    target = seal(source, context.box)
    return Page(
        f"wrote {target}\nRun it anywhere, without a network: onetool-ipy open {target.name}"
    )


def open_sealed(_context: CommandContext, options: Options) -> DataPage:
    """`open FILE`: run a sealed notebook offline, and say what differs."""
    from onetool_ipy.faces.sealing import run_sealed

    file = Path(
        one_word(
            options,
            "open",
            what="sealed notebook",
            hint="For example: onetool-ipy open a.sealed.zip",
        )
    )
    name = visible(file.name, 200)
    # A person may take "open" for a look, and so may whoever wrote a script.
    question = f"This runs the code of '{name}' on this machine, with your rights. Run it? [y/N] "
    reply = "y" if "--yes" in options.values or not file.is_file() else ask_at_terminal(question)
    if reply is None:
        hint = f"If you trust it: onetool-ipy open --yes {quoted(str(file))}"
        raise UsageProblem(
            f"The code of '{name}' would run here, and nobody can be asked.", hint=hint
        )
    if reply.strip().lower() not in ("y", "yes"):
        raise NotDone("Nothing was run.")
    lines = run_sealed(file)
    text = "\n".join(lines) if lines else f"{file.name} gives what it gave when it was sealed."
    return DataPage.of(Page(printable(text)), {"differs": lines}, is_failure=bool(lines))


def init(_context: CommandContext, options: Options) -> Page:
    """`init [FOLDER]`: a commented `.onetool/`; with `--pack` a pack in it."""
    if len(options.words) > 1:
        raise WrongWords("init takes one folder.", hint="For example: onetool-ipy init")
    folder = Path(options.words[0] if options.words else ".")
    is_new = not os.path.lexists(folder / FOLDER)
    pack = options.values.get("--pack")
    if pack is None:
        written = init_project(folder)
        lines = [f"wrote {path}" for path in written]
        lines += [f"left alone {path}, which is there already" for path in written.left_alone]
        lines += (
            ["Next: %load_ext onetool_ipy in a notebook, or onetool-ipy tools list"]
            if written
            else []
        )
    else:
        lines = _new_pack(folder, pack)
    if is_new and (folder / FOLDER).is_dir():
        TrustList.of(os.environ, home_of(os.environ)).add(folder.resolve(), {})
    return Page("\n".join(lines))


def _new_pack(folder: Path, name: str) -> list[str]:
    config = folder / ".onetool" / "onetool.yaml"
    with open_leniently(cwd=folder) as box, editing(box.config.paths):
        contents = pack_template(name, text_of(config))
        taken = [
            folder / place
            for place in contents
            if (folder / place).exists() and folder / place != config
        ]
        if taken:
            raise NotDone(f"'{taken[0]}' exists already; nothing was written.")
        require_free_name(box, name, "_tools")
        lines = []
        for place, text in contents.items():
            path = folder / place
            lines.append(f"{'added its settings to' if path.exists() else 'wrote'} {path}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode(), mode=0o644)
    return [*lines, f"Next: onetool-ipy tools list, or in a notebook: %tool {name}"]


def write_stubs(context: CommandContext, options: Options) -> Page:
    """`stubs`: `.pyi` files for editors."""
    lines = []
    for place, text in stubs(context.box.registry.loaded(context.box.registry.known())).items():
        path = Path(options.values.get("--output") or options.values.get("-o") or "typings") / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        lines.append(f"wrote {path}")
    return Page("\n".join(lines))


def export_script(context: CommandContext, options: Options) -> Page | None:
    """`export NOTEBOOK`: a notebook as a plain Python script."""
    from onetool_ipy.faces.export import export_notebook

    source = Path(
        one_word(
            options, "export", what="notebook", hint="For example: onetool-ipy export report.ipynb"
        )
    )
    text = export_notebook(source, context.box, context.command_words)
    output = options.values.get("--output") or options.values.get("-o")
    if output == "-":
        sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
        return None
    target = Path(output) if output else source.with_suffix(".py")
    if target.exists() and not output:
        raise WrongWords(f"'{target}' exists already; name another file with --output.")
    target.write_text(text, encoding="utf-8")
    say(f"wrote {target}")
    return None


def trust(_context: CommandContext, options: Options) -> Page | None:
    """`trust [PATH]`: show what a project runs and reaches, and allow it after a yes."""
    if "--list" in options.values:
        folders = TrustList.of(os.environ, home_of(os.environ)).folders()
        sys.stdout.write("".join(f"{printable_line(str(folder))}\n" for folder in folders))
        return None
    path = options.words[0] if options.words else "."
    folder = Path(path).resolve()
    if not folder.is_dir():
        raise NotDone(
            f"There is no folder '{path}'.", hint="Give that of a project: onetool-ipy trust ."
        )
    with open_leniently(cwd=folder) as box:
        if "--remove" in options.values:
            was_listed = box.gate.revoke()
            say("\n".join(box.mask(line) for line in box.gate.removal_lines(was_listed=was_listed)))
            return None
        if line := box.gate.settled_line():
            say(line)
            return None
        inventory = box.gate.inventory()
        if box.config.trust.how != "no project":
            say("\n".join(box.gate.question_lines()))
            reply = "y" if "--yes" in options.values else ask_at_terminal("Trust it? [y/N] ")
            if reply is None:
                line = command_line(
                    ["onetool-ipy", "trust", "--yes", *([] if path == "." else [path])]
                )
                raise NotDone(
                    "Nothing was trusted, since nobody can be asked here. If you agree, run:"
                    f" {line}"
                )
            if reply.strip().lower() not in ("y", "yes"):
                raise NotDone("Nothing was trusted.")
        box.gate.grant(shown=inventory)
    say(f"{folder} is trusted from now on. To take it back, run: onetool-ipy trust --remove")
    return None


def completion_script(_context: CommandContext, options: Options) -> Page:
    """`completion SHELL`: the script that makes a shell complete our commands, options and
    names."""
    shell = options.words[0] if len(options.words) == 1 else ""
    if shell not in SHELLS:
        hint = "For example: source <(onetool-ipy completion bash), in ~/.bashrc"
        raise WrongWords(f"completion needs a shell: {', '.join(SHELLS)}.", hint=hint)
    return Page(
        files("onetool_ipy.faces.commands")
        .joinpath(f"completion.{shell}")
        .read_text(encoding="utf-8")
        .rstrip()
    )
