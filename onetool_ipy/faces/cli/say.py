"""How the command line answers: results as JSON on stdout, words on stderr, three exit codes. Masked."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import OneToolError
from onetool_ipy.core.printable import json_printable, printable
from onetool_ipy.toolbox import Toolbox

__all__ = ["FAILED", "OK", "USAGE", "aside", "names_of", "say", "say_error", "say_hint", "show_json"]

OK, FAILED, USAGE = 0, 1, 2

_IN_A_SHELL = (
    ("%tool list", "onetool-ipy tools list"),
    ("%tool trust", "onetool-ipy trust"),
    (", then run ot.reload():", ":"),
)


def say(text: str) -> None:
    """Words for a person."""
    print(printable(text), file=sys.stderr)


def say_error(exc: OneToolError) -> int:
    """An error's lines; gives the exit code for it."""
    say_hint("\n".join(exc.lines()))
    return FAILED


def say_hint(text: str) -> None:
    """Lines that were written for a notebook, in the words of a shell."""
    for here, there in _IN_A_SHELL:
        text = text.replace(here, there)
    if text:
        say(text)


@contextmanager
def aside() -> Iterator[None]:
    """Send to stderr what tools and pack files print, also through child processes: stdout is for the result."""
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
    """A value as JSON, without secrets."""
    masked = values.map_text(values.to_json(value), box.mask)
    print(json_printable(json.dumps(masked, ensure_ascii=not _is_utf8(sys.stdout), indent=2)))


def _is_utf8(stream: Any) -> bool:
    """Whether every character can be written there; elsewhere JSON has escapes for them."""
    return "utf" in (getattr(stream, "encoding", None) or "utf-8").lower()


def names_of(csv: str | None) -> list[str] | None:
    """An allow-list as typed, separated by commas; None where none was given."""
    return None if csv is None else [name.strip() for name in csv.split(",") if name.strip()]
