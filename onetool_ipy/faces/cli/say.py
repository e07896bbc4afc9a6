"""How the command line answers: results as JSON on stdout, words on stderr, three exit codes. Masked."""

from __future__ import annotations

import json
import sys
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure, OneToolError
from onetool_ipy.core.model import ToolSpec
from onetool_ipy.toolbox import Toolbox

__all__ = ["FAILED", "OK", "USAGE", "exact", "names_of", "say", "say_error", "show_json"]

OK, FAILED, USAGE = 0, 1, 2


def say(text: str) -> None:
    """Words for a person."""
    print(text, file=sys.stderr)


def say_error(exc: OneToolError) -> int:
    """An error's lines; gives the exit code for it."""
    for line in exc.lines():
        say(line)
    return FAILED


def show_json(box: Toolbox, value: Any) -> None:
    """A value as JSON, without secrets."""
    masked = values.map_text(values.to_json(value), box.mask)
    print(json.dumps(masked, ensure_ascii=False, indent=2))


def exact(spec: ToolSpec) -> ToolSpec:
    """The tool as its code has it; where that cannot be loaded, as its text says."""
    try:
        return spec.live() if spec.live is not None else spec
    except CallFailure as exc:
        say(exc.message)
        return spec


def names_of(csv: str | None) -> list[str] | None:
    """An allow-list as typed, separated by commas; None where none was given."""
    return None if csv is None else [name.strip() for name in csv.split(",") if name.strip()]
