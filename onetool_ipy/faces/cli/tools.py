"""`onetool-ipy tools list | info | invoke`."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from typing import Any

from onetool_ipy.assemble import open_toolbox
from onetool_ipy.core import names
from onetool_ipy.core.errors import CallFailure
from onetool_ipy.core.printable import printable
from onetool_ipy.faces.cli.say import (
    FAILED,
    OK,
    USAGE,
    aside,
    names_of,
    say,
    say_error,
    say_hint,
    show_json,
)
from onetool_ipy.render.mismatch import mismatch_line

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command to the parser's."""
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
        specs = box.registry.list(names_of(options.tool_allow))
        if options.json:
            show_json(box, [{"name": s.name, "description": s.description, "inputSchema": s.parameters} for s in specs])
            return OK
        rows = [(s.name, s.summary, s.signature.partition("(")[2][:-1]) for s in specs]
        width = max((len(name) for name, _, _ in rows), default=4)
        _print_row(f"{'NAME':<{width}}  DESCRIPTION  (INPUT)")
        for name, text, arguments in rows:
            _print_row(box.mask(f"{name:<{width}}  {text}  ({arguments})"))
        return OK


def _print_row(text: str) -> None:
    """A row; where a person looks at it, in one line of the terminal."""
    line = printable(text)
    room = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 0
    print(line[: room - 1] + "…" if 0 < room < len(line) else line)


def _info(options: argparse.Namespace) -> int:
    with open_toolbox(options.config) as box:
        try:
            spec = box.registry.require(options.name)
        except CallFailure as exc:
            return say_error(exc)
        with aside():
            deps = box.ot.deps(tool=spec.name)
        count, last = box.log.count_of(spec.name)
        wire = names.wire_names(s.name for s in box.registry.known())[spec.name]
        show_json(
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
        return OK


def _invoke(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.args == "-" else options.args
    try:
        args = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        say(f"--args is not JSON: {exc}")
        say('Write it as an object, e.g. --args \'{"message": "hello"}\'.')
        return USAGE
    with open_toolbox(options.config) as box:
        with aside():
            result = box.call(options.name, args, source="cli", timeout=options.timeout)
        data = box.outgoing(result)  # first: it says in `meta` where a large one is kept
        show_json(box, {**result.to_dict(), "data": data})
        if result.error is not None:
            say(box.mask(result.error.message))
            say_hint(box.mask(result.error.hint))
            return FAILED
        if line := mismatch_line(result.meta):
            say(box.mask(line))
        return OK


def _no_number(word: str) -> Any:
    raise ValueError(f"'{word}' is no JSON")
