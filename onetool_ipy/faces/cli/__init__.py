"""`onetool-ipy`: the toolbox on the command line. Results are JSON on stdout, words go to stderr, both masked.

Exit code 0 means ok, 1 a failed call, 2 a wrong command.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence

from onetool_ipy._version import __version__
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.faces.cli.commands import add_ask, add_bundles, add_mcp, add_project, add_tools, add_trust
from onetool_ipy.faces.cli.output import FAILED, OK, USAGE, CommandParser, say, say_error

__all__ = ["main", "make_parser"]


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
        return USAGE
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not be able to show every name
    try:
        code = run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OneToolError as exc:
        return say_error(exc)
    except BrokenPipeError:
        _drop_output()  # the reader went away (`| head`)
        return OK
    except OSError as exc:
        where = f": '{exc.filename}'" if exc.filename else ""
        say(f"{exc.strerror or exc}{where}.")
        _drop_output()
        return FAILED
    except KeyboardInterrupt:
        say("Stopped.")
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Make the parser with all commands and options."""
    parser = CommandParser(prog="onetool-ipy", description="One registry of tools for notebooks.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.set_defaults(config=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (add_tools, add_project, add_trust, add_mcp, add_ask, add_bundles):
        add(commands)
    return parser


def _drop_output() -> None:
    """Discard the rest of stdout, which Python would try to write again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
