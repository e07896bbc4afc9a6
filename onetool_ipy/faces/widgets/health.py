"""The data of the health screen: the state of the project, problems with what can be done about each, lines of files.

Lines are shown only of files that a present problem names, and never of a secrets file: what is wrong there may be a
secret that no mask knows.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from onetool_ipy._version import __version__
from onetool_ipy.base import values
from onetool_ipy.base.errors import TRUST_IT, UsageProblem
from onetool_ipy.base.printable import printable_line
from onetool_ipy.base.values import Json
from onetool_ipy.core.tool import Problem
from onetool_ipy.packs.ot.health import PATIENCE_S, missing

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,7}))?", re.DOTALL)
_COMMAND = re.compile(r"Run: (.+)")
_MAX_FILE = 1 << 20
_AROUND = 3
_SECRETS = "secrets.yaml"


def problem_rows(box: Toolbox) -> list[Json]:
    """Every problem: `{where, message, hint, action}`. The action does what the hint says; None if a person must."""
    return [_row(box, problem) for problem in box.problems()]


def report(box: Toolbox) -> Json:
    """The state of the project, as far as it is known; no server is started for it."""
    box.gate.refresh()
    box.registry.refresh()
    specs = box.registry.known()
    names = repr([(spec.name, bool(spec.disabled)) for spec in specs])
    servers = {name: {"state": state, "reason": box.servers.reason(name)} for name, state in box.servers.items()}
    return {
        "version": __version__,
        "project": str(box.config.paths.project),
        "trust": box.gate.state(),
        "tools": len(specs),
        "fingerprint": blake2b(names.encode()).hexdigest()[:16],
        "problems": problem_rows(box),
        "servers": servers,
    }


def check_health(box: Toolbox) -> Json:
    """Start and test every server, for a few seconds, and list what tools need and is not installed: `{missing}`."""
    box.gate.refresh()
    box.servers.check(PATIENCE_S)
    return {"missing": [_row(box, problem) for problem in missing(box)]}


def lines_around(box: Toolbox, where: str) -> Json:
    """The lines of the file that a present problem names, around its line: `{first, line, lines}`."""
    if where not in {problem.where for problem in box.problems()}:
        raise UsageProblem("This problem is gone.", hint="Refresh the list.")
    path, line = _place_of(box, where) or (None, None)
    if path is None or line is None or path.name == _SECRETS or path.stat().st_size > _MAX_FILE:
        return {"first": 1, "line": 0, "lines": []}
    text = path.read_text(encoding="utf-8", errors="replace").split("\n")
    first = max(1, line - _AROUND)
    lines = [printable_line(values.cut(box.mask(text_line), 300)) for text_line in text[first - 1 : line + _AROUND]]
    return {"first": first, "line": line, "lines": lines}


def _row(box: Toolbox, problem: Problem) -> Json:
    return {
        "where": problem.where,
        "message": problem.message,
        "hint": problem.hint,
        "action": _action(box, problem),
    }


def _action(box: Toolbox, problem: Problem) -> Json | None:
    if problem.hint == TRUST_IT:
        return {"kind": "trust", "label": "Trust"}
    if problem.server and problem.server in box.servers:
        state = dict(box.servers.items())[problem.server]
        if state == "signed out":
            return {"kind": "server", "label": "Sign in", "server": problem.server, "action": "signIn"}
        if state == "untrusted":
            return {"kind": "trust", "label": "Trust"}
        if state != "connected":
            return {"kind": "server", "label": "Restart", "server": problem.server, "action": "restart"}
    if command := _COMMAND.fullmatch(problem.hint):
        return {"kind": "copy", "label": "Copy", "text": command[1]}
    if place := _place_of(box, problem.where):
        return {"kind": "open", "label": "Open", "path": str(place[0]), "line": place[1]}
    return None


def _place_of(box: Toolbox, where: str) -> tuple[Path, int | None] | None:
    """The file and the line in `where`; None if it names no plain file."""
    parts = _PLACE.fullmatch(where)
    if parts is None:
        return None
    try:
        path = box.config.paths.project / Path(parts["path"]).expanduser()
        if not path.is_file():
            return None
    except (OSError, ValueError, RuntimeError):  # such as a NUL, or an unknown user's home
        return None
    return path, int(parts["line"]) if parts["line"] else None
