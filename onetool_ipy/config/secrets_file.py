"""secrets.yaml -> values by name. No message from here holds text from the right side of a colon.

Secrets are never cached, so this file is read at every load. Plain lines (`NAME: value`, quotes, comments) are read
without the YAML library, whose import alone takes about half of the start-up budget. Any other file goes to YAML,
with the same result.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from onetool_ipy.base.files import Unreadable, read
from onetool_ipy.base.masking import SHORTEST
from onetool_ipy.config.paths import Owners
from onetool_ipy.config.yaml_text import NotYaml, parse
from onetool_ipy.core.tool import Problem

__all__ = ["read_secrets", "simple_lines", "with_mode_now"]

_MODE = "has the file mode"
_SKIPPED = r" *(?:#[ -~]*)?"
_SIMPLE = (
    r"([A-Za-z_][A-Za-z0-9_]*): +"
    r"""(?:"([ !#-\[\]-~]*)"|'([ -&(-~]*)'|([A-Za-z0-9][A-Za-z0-9_./+=@-]*))"""
    r"(?: +#[ -~]*| *)"
)
_WORDS = frozenset(("null", "true", "false"))


def read_secrets(path: Path, shown: str, note: Callable[[Problem], None], owners: Owners) -> tuple[dict[str, str], str]:
    """Return the values, and a mark that changes with the file. Faults go to `note`; none is raised."""
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
    if wrong := _mode_problem(content.stat, shown):
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
    """Return the values if every line is plain, else None."""
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
            message = "has no value." if value is None else "is not text. Put the value in quotes."
            note(Problem(f"{shown}:{document.lines.get(name, 1)}", f"{name}: {message}"))
    return out


def _mode_problem(found: os.stat_result, shown: str) -> Problem | None:
    """Return what is wrong with the file's mode, or None."""
    mode = stat.S_IMODE(found.st_mode)
    if mode == 0o600 or os.name != "posix":
        return None
    return Problem(shown, f"{_MODE} {mode:04o}; it must be 0600, for you alone.", f"Run: chmod 600 {shown}")


def with_mode_now(problems: Iterable[Problem], path: Path, shown: str) -> list[Problem]:
    """Return the problems of a load, with the file's mode checked again."""
    others = [p for p in problems if p.where != shown or not p.message.startswith(_MODE)]
    try:
        now = _mode_problem(path.stat(), shown)
    except OSError:  # the file is gone, or we may not look at it
        now = None
    return others if now is None else [now, *others]
