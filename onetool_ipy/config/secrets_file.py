"""secrets.yaml -> values by name. No message made here holds anything that stands right of a colon.

Plain lines (`NAME: value`, quotes, comments) are read without the YAML library, since this file is in no cache and is
read at every load; anything else goes to YAML, with the same result.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from onetool_ipy.base.files import Unreadable, read
from onetool_ipy.base.masking import SHORTEST
from onetool_ipy.config.paths import Owners
from onetool_ipy.core.tool import Problem

__all__ = ["mode_problem", "read_secrets", "simple_lines", "with_mode_now"]

_MODE = "has the file mode"
_SKIPPED = r" *(?:#[ -~]*)?"
_SIMPLE = (
    r"([A-Za-z_][A-Za-z0-9_]*): +"
    r"""(?:"([ !#-\[\]-~]*)"|'([ -&(-~]*)'|([A-Za-z0-9][A-Za-z0-9_./+=@-]*))"""
    r"(?: +#[ -~]*| *)"
)
_WORDS = frozenset(("null", "true", "false"))


def read_secrets(path: Path, shown: str, note: Callable[[Problem], None], owners: Owners) -> tuple[dict[str, str], str]:
    """The values, and a mark that changes when the file does; every fault is noted, none is raised."""
    try:
        content = read(path)
    except Unreadable as exc:
        note(Problem(shown, str(exc)))
        return {}, "unreadable"
    if content is None:
        return {}, ""
    if fault := owners.fault(content.stat, shown):
        note(Problem(shown, *fault))
        return {}, "refused"
    if wrong := mode_problem(content.stat, shown):
        note(wrong)
    values = simple_lines(content.data)
    if values is None:
        values = _from_yaml(content.data, shown, note)
    for name, value in values.items():
        if len(value.strip()) < SHORTEST:
            message = f"{name}: is shorter than {SHORTEST} characters, so it is not masked."
            note(Problem(shown, message, "Use a longer secret."))
    found = content.stat
    return values, f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"


def simple_lines(data: bytes) -> dict[str, str] | None:
    """The values where every line is simple; None sends the file to YAML."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return None
    out: dict[str, str] = {}
    for line in text.split("\n"):
        if re.fullmatch(_SKIPPED, line):
            continue
        match = re.fullmatch(_SIMPLE, line)
        if match is None or match[1] in out or (match[4] or "").lower() in _WORDS:
            return None
        out[match[1]] = next(part for part in match.groups()[1:] if part is not None)
    return out


def _from_yaml(data: bytes, shown: str, note: Callable[[Problem], None]) -> dict[str, str]:
    from onetool_ipy.config.yaml_text import NotYaml, parse

    try:
        document = parse(data, numbers=False)
    except NotYaml as exc:
        message = exc.fault.message.partition(":")[0].rstrip(".")
        note(Problem(f"{shown}:{exc.fault.line}", f"{message}.", "Write 'NAME: \"value\"' lines."))
        return {}
    for fault in document.faults:
        message = f"{fault.key}: cannot be used as it is written."
        hint = "Write each name once, and put its value in quotes."
        note(Problem(f"{shown}:{fault.line}", message, hint))
    out: dict[str, str] = {}
    for name, value in document.data.items():
        if isinstance(value, str):
            out[name] = value
        else:
            note(Problem(f"{shown}:{document.lines.get(name, 1)}", f"{name}: {_kind(value)}"))
    return out


def _kind(value: Any) -> str:
    return "has no value." if value is None else "is not text. Put the value in quotes."


def mode_problem(found: os.stat_result, shown: str) -> Problem | None:
    """What is wrong with the file's mode, if anything."""
    mode = stat.S_IMODE(found.st_mode)
    if mode == 0o600 or os.name != "posix":
        return None
    return Problem(shown, f"{_MODE} {mode:04o}; it must be 0600, for you alone.", f"Run: chmod 600 {shown}")


def with_mode_now(problems: Iterable[Problem], path: Path, shown: str) -> list[Problem]:
    """The problems of a load, where what is said of the file's mode is true now."""
    others = [p for p in problems if p.where != shown or not p.message.startswith(_MODE)]
    try:
        now = mode_problem(path.stat(), shown)
    except OSError:  # gone, or not ours to look at: there is no mode to speak of
        now = None
    return others if now is None else [now, *others]
