"""How the command line reads and answers: a parser with helpful errors, results as JSON on stdout, words on stderr."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn

from onetool_ipy.base import values
from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.printable import json_printable, printable
from onetool_ipy.toolbox import Toolbox

__all__ = [
    "FAILED",
    "OK",
    "USAGE",
    "CommandParser",
    "aside",
    "ask_at_terminal",
    "names_of",
    "say",
    "say_error",
    "say_hint",
    "show_json",
]

OK, FAILED, USAGE = 0, 1, 2

_IN_A_SHELL = (
    ("%tool list", "onetool-ipy tools list"),
    ("%tool trust", "onetool-ipy trust"),
    (", then run ot.reload():", ":"),
)


def say(text: str) -> None:
    """Print words for a person to stderr."""
    print(printable(text), file=sys.stderr)


def say_error(exc: OneToolError) -> int:
    """Print an error. Returns its exit code."""
    say_hint("\n".join(exc.lines()))
    return FAILED


def say_hint(text: str) -> None:
    """Print a text that was written for a notebook, with the commands of a shell."""
    for here, there in _IN_A_SHELL:
        text = text.replace(here, there)
    if text:
        say(text)


def ask_at_terminal(question: str) -> str | None:
    """Ask the person at the terminal on stderr. Returns the typed line, or None if there is no terminal."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return None
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline() or None


@contextmanager
def aside() -> Iterator[None]:
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


def show_json(box: Toolbox, value: Any) -> None:
    """Print a value as JSON, without secrets."""
    masked = values.map_text(values.to_json(value), box.mask)
    print(json_printable(json.dumps(masked, ensure_ascii=not _is_utf8(sys.stdout), indent=2)))


def _is_utf8(stream: Any) -> bool:
    """Whether a stream can write every character; otherwise JSON escapes them."""
    return "utf" in (getattr(stream, "encoding", None) or "utf-8").lower()


def names_of(csv: str | None) -> list[str] | None:
    """Split an allow-list at its commas; None if none was given."""
    return None if csv is None else [name.strip() for name in csv.split(",") if name.strip()]


_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>.*)", re.DOTALL)
_OF_TOOLS = {"list": "list", "ls": "list", "info": "info", "show": "info", "invoke": "invoke", "call": "invoke"}


class CommandParser(argparse.ArgumentParser):
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
