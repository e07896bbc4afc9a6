"""Reads the command line as argparse does; says what a mistyped command may have meant, and where arguments go."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["Parser"]

_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<given>.*)", re.DOTALL)
_OF_TOOLS = {"list": "list", "ls": "list", "info": "info", "show": "info", "invoke": "invoke", "call": "invoke"}


class Parser(argparse.ArgumentParser):
    """A parser whose errors help; each of its commands takes `--config`, before or behind the others."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        said = "the configuration to use" if " " not in self.prog else argparse.SUPPRESS  # said once, for all commands
        self.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=said)

    def error(self, message: str) -> NoReturn:
        """Print the usage and what is wrong; exit code 2."""
        choice, unknown = _CHOICE.search(message), _UNKNOWN.match(message)
        if choice is not None:
            message = _no_command(choice["given"], re.findall(r"[\w-]+", choice["known"]))
        elif unknown is not None:
            message += _as_json(unknown["given"].split())
        super().error(message)


def _no_command(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    meant = near[0] if near else f"tools {_OF_TOOLS[given]}" if given in _OF_TOOLS and "tools" in known else ""
    return f"no command '{given}'. " + (f"Did you mean '{meant}'?" if meant else f"There are: {', '.join(known)}.")


def _as_json(words: Sequence[str]) -> str:
    """How `key=value` words are written, where there are some."""
    pairs = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    if not pairs:
        return ""
    return f"\nArguments of a tool are JSON: --args '{json.dumps({key: _value(text) for key, text in pairs.items()})}'"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
