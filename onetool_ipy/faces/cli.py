"""`onetool-ipy`: the commands of `faces.commands.table` in a shell.

Results are on stdout, as JSON where the command says so; words go to stderr, both masked. Exit code
0 means ok, 1 a failed call, 2 a wrong command. What tools and pack files print goes to stderr, too.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import NamedTuple

from onetool_ipy._version import __version__
from onetool_ipy.assemble import open_leniently, open_toolbox
from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError, UsageProblem
from onetool_ipy.base.printable import json_printable, printable
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.commands import Command, CommandContext, DataPage, Option, WrongWords
from onetool_ipy.faces.commands.catalog import help_rows
from onetool_ipy.faces.commands.shell import say
from onetool_ipy.faces.commands.table import (
    command_parts,
    command_words,
    continuation,
    find,
    first_page,
    help_lines,
    require_no_words,
    shell_lines,
)
from onetool_ipy.faces.line.grammar import Options, read_shell_options
from onetool_ipy.render.pages import Rows, to_text
from onetool_ipy.render.result import note_line
from onetool_ipy.render.views import Listing, Record
from onetool_ipy.toolbox import Toolbox

_OK, _FAILED, _USAGE = 0, 1, 2
_CONFIG = Option("--config", "text", "the configuration to use", "FILE", "file")
_HELP = (Option("--help", help="show this"), Option("-h", help="the same as --help"))
_JSON = Option("--json", help="print it as JSON")
_WIDTH = 100
# A name of a project that is not trusted must not become a command of the shell when a person
# presses Enter.
_SAFE = re.compile(r"[\w.@:/+=,-]+")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The terminal may not be able to show every name.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OneToolError as exc:
        say(shell_lines("\n".join(exc.lines())))
        return _USAGE if isinstance(exc, WrongWords) else _FAILED
    except BrokenPipeError:
        _drop_output()  # the reader went away (`| head`)
        return _OK
    except OSError as exc:
        where = f": '{exc.filename}'" if exc.filename else ""
        say(f"{exc.strerror or exc}{where}.")
        _drop_output()
        return _FAILED
    except KeyboardInterrupt:
        say("Stopped.")
        return 130


class _Line(NamedTuple):
    """A command line that was understood; `text` is printed instead where it asks for help or the
    version."""

    command: Command | None
    options: Options
    config: str | None = None
    as_json: bool = False
    text: str = ""


def _run(arguments: list[str]) -> int:
    """Read the command line, run its command, print the answer."""
    if arguments[:2] == ["completion", "words"]:
        return _offer_words(arguments[2:])
    try:
        line = read_line(arguments)
    except UsageProblem as exc:
        raise WrongWords(exc.message, hint=exc.hint) from exc
    if line.text:
        sys.stdout.write(f"{line.text}\n")
        return _OK
    if line.command is None or (line.command.is_group and line.command.name in ("tools", "new")):
        sys.stderr.write(f"{_overview() if line.command is None else _help(line.command)}\n")
        return _USAGE
    return _answer(line)


def read_line(arguments: Sequence[str]) -> _Line:
    """Read a command line. Raises UsageProblem."""
    before = {option.name: option.kind for option in (_CONFIG, *_HELP, Option("--version"))}
    leading = read_shell_options(arguments, before, leading=1)
    words, config = leading.words, leading.values.get("--config")
    asks_for_help = bool({"--help", "-h"} & set(leading.values))
    if words == ["help", "all"]:
        return _Line(None, leading, text=_overview(is_whole=True))
    if words[:1] == ["help"]:
        words, asks_for_help = words[1:], True
    if "--version" in leading.values or not words:
        text = (
            __version__ if "--version" in leading.values else _overview() if asks_for_help else ""
        )
        return _Line(None, leading, text=text)
    command, length = find(words, "shell")
    rest = words[length:]
    if asks_for_help or rest in (["--help"], ["-h"]):
        return _Line(command, leading, text=_help(command))
    kinds = command.kinds("shell")
    kinds |= {option.name: option.kind for option in _common_options(command)}
    options = read_shell_options(rest, kinds, leading=command.leading)
    options = replace(options, values=command.named(options.values, "shell"))
    text = _help(command) if {"--help", "-h"} & set(options.values) else ""
    if not text:
        require_no_words(command, options, "shell")
    config = options.values.pop("--config", config)
    return _Line(command, options, config, bool(options.values.pop("--json", False)), text)


def _common_options(command: Command) -> list[Option]:
    has_json = command.output in ("text", "piped", "json") and command.name != "completion"
    return [_CONFIG, *_HELP, *([_JSON] if has_json else [])]


def _answer(line: _Line) -> int:
    """Run a command and print what it gives. Returns the exit code."""
    command, options, config, as_json, _ = line
    assert command is not None

    def open_box() -> Toolbox:
        return open_leniently(config) if command.is_lenient else open_toolbox(config)

    context = CommandContext(open_box, command_words=command_words())
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    context.width = shutil.get_terminal_size().columns if is_terminal else 0
    if config is not None and command.output == "own":
        options.values["--config"] = config
    try:
        if command.output == "own":
            command.run(context, options)
            return _OK
        with _aside():
            answer = command.run(context, options)
        if isinstance(answer, ToolResult):
            return _print_result(
                context.box, answer, is_shown=as_json or not is_terminal or answer.ok
            )
        # The lines that a person may type are those of a shell.
        text = "" if answer is None else shell_lines(printable(str(answer)))
        if isinstance(answer, Listing | Record):
            is_said = answer or (isinstance(answer, Listing) and answer.if_empty)
            text = printable(answer.to_text(context.width or _WIDTH)) if is_said else "nothing"
        wants_json = (
            as_json or command.output == "json" or (command.output == "piped" and not is_terminal)
        )
        if command.output == "words":
            say(text)
        elif wants_json:
            _print_json(context.box, answer.data if isinstance(answer, DataPage) else answer)
            if command.output == "json" and isinstance(answer, DataPage) and text:
                say(text)
        elif text:
            sys.stdout.write(f"{text}\n")
        return _FAILED if isinstance(answer, DataPage) and answer.is_failure else _OK
    finally:
        if context.opened is not None:
            context.opened.close()


def _print_result(box: Toolbox, result: ToolResult, *, is_shown: bool) -> int:
    """Print the result of a call. A failure at a terminal is its words alone; programs get all of
    it as JSON."""
    data = box.outgoing(result)  # first: it notes the handle of a large result in `meta`
    if is_shown:
        _print_json(box, {**result.to_dict(), "data": data})
    if result.error is not None:
        say(shell_lines(box.mask(f"{result.error.message}\n{result.error.hint}".rstrip())))
        return _FAILED
    if line := note_line(result.meta):
        say(box.mask(line))
    return _OK


def _overview(*, is_whole: bool = False) -> str:
    parts = [Rows(help_rows(help_lines("shell")))] if is_whole else first_page("shell")
    commands = to_text(parts, shutil.get_terminal_size((_WIDTH, 24)).columns)
    return (
        "usage: onetool-ipy [--config FILE] COMMAND ...\n\nOne registry of tools for"
        f" notebooks.\n\n{commands}\n\nMore about one: onetool-ipy COMMAND --help. The"
        " version: --version."
    )


def _help(command: Command) -> str:
    usage = command.usage if not command.is_group else f"{command.name} COMMAND"
    common = ", ".join(option.usage for option in _common_options(command) if option.name != "-h")
    parts = command_parts(command.name, "shell")
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    return f"usage: onetool-ipy {usage}\n\n{shell_lines(to_text(parts, width))}\n\nAlso: {common}"


def _offer_words(arguments: Sequence[str]) -> int:
    """Print what can follow on a half-typed command line, a word a line. Starts nothing, and never
    fails."""
    *words, last = [*arguments[arguments[:1] == ["--"] :]] or [""]
    while words[:1] == ["--config"]:
        del words[:2]
    try:
        offers = _offers(words, last)
    except Exception:  # noqa: BLE001 - a broken project must never break Tab
        offers = []
    safe = [
        word for word in dict.fromkeys(offers) if word.startswith(last) and _SAFE.fullmatch(word)
    ]
    sys.stdout.write("".join(f"{word}\n" for word in safe))
    return _OK


def _offers(words: Sequence[str], last: str) -> list[str]:
    if not words:
        return [line.split()[0] for line in help_lines("shell")] + [
            _CONFIG.name,
            "--help",
            "--version",
        ]
    command, offers, names = continuation(words, last, "shell")
    if command is not None and last.startswith("-"):
        return [*offers, *(option.name for option in _common_options(command))]
    if not names and (command is None or command.name != "tools invoke"):
        return offers
    with open_leniently(None) as box:
        registry = box.registry
        if command is not None and command.name == "tools invoke" and len(words) > 2:
            spec = registry.find(words[2])
            return (
                []
                if spec is None
                else [f"{name}=" for name in spec.parameters.get("properties", {})]
            )
        tools = [spec.name for spec in sorted(registry.known(), key=registry.place_of)]
        names_by_kind = {
            "tool": tools,
            "server": list(box.servers),
            "table": ["calls", *(f"r_{row['handle']}" for row in box.results.list())],
            "handle": [str(row["handle"]) for row in box.results.list()],
            "bundle": [bundle.slug for bundle in box.bundles.all_bundles()]
            if "bundle" in names
            else [],
            "session": box.ask.session_names() if "session" in names else [],
        }
        return [*offers, *(name for kind in names for name in names_by_kind.get(kind, ()))]


def _drop_output() -> None:
    """Discard the rest of stdout, which Python would try to write again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


@contextmanager
def _aside() -> Iterator[None]:
    """Send what tools and pack files print to stderr, also from child processes: stdout is for the
    result."""
    try:
        stdout = os.dup(1)
    except OSError:  # there is no stdout
        stdout = -1
    try:
        if stdout >= 0:
            sys.stdout.flush()
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if stdout >= 0:
            os.dup2(stdout, 1)
            os.close(stdout)


def _print_json(box: Toolbox, value: object) -> None:
    """Print a value as JSON, without secrets."""
    masked = values.map_text(values.to_json(value), box.mask)
    # A stream that cannot write every character gets escapes.
    is_utf8 = "utf" in (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    text = json.dumps(masked, ensure_ascii=not is_utf8, indent=2)
    sys.stdout.write(f"{json_printable(text)}\n")


if __name__ == "__main__":
    sys.exit(main())
