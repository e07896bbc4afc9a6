"""`onetool-ipy`: the toolbox from the command line. Results are JSON on stdout, words go to stderr.

Exit code 0 is ok, 1 a failed call, 2 a wrong command. What leaves here is masked.
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
    """Run one command; returns its exit code."""
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
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show stops nothing
    try:
        code = run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OneToolError as exc:
        return say_error(exc)
    except BrokenPipeError:
        return _hush()
    except OSError as exc:
        return _refused(exc)
    except KeyboardInterrupt:
        say("Stopped.")
        return 130


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = CommandParser(prog="onetool-ipy", description="One registry of tools for notebooks.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.set_defaults(config=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (add_tools, add_project, add_trust, add_mcp, add_ask, add_bundles):
        add(commands)
    return parser


def _hush() -> int:
    """A reader that went away (`| head`) is no failure of ours."""
    _drop_output()
    return OK


def _refused(exc: OSError) -> int:
    """A file that is not to be had, or an output that takes no more; what is left of that is not tried again."""
    where = f": '{exc.filename}'" if exc.filename else ""
    say(f"{exc.strerror or exc}{where}.")
    _drop_output()
    return FAILED


def _drop_output() -> None:
    """Python writes what is left of stdout when it ends, and would complain once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
