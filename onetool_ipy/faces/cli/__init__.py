"""`onetool-ipy`: the toolbox from the command line. Results are JSON on stdout, words go to stderr.

Exit code 0 is ok, 1 a failed call, 2 a wrong command. What leaves here is masked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from onetool_ipy._version import __version__
from onetool_ipy.core.errors import OneToolError
from onetool_ipy.faces.cli import ask, bundles, mcp, project, tools
from onetool_ipy.faces.cli.say import OK, USAGE, say, say_error

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
    try:
        return run(options)
    except OneToolError as exc:
        return say_error(exc)
    except BrokenPipeError:
        return _hush()
    except KeyboardInterrupt:
        say("Stopped.")
        return 130


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="onetool-ipy", description="One registry of tools for notebooks.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", metavar="FILE", help="the configuration to use")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for group in (tools, project, mcp, ask, bundles):
        group.add(commands)
    return parser


def _hush() -> int:
    """A reader that went away (`| head`) is no failure of ours."""
    sys.stderr.close()
    return OK
