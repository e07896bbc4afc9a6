"""The state folder in force: one of the user's own, closed to everybody else.

A folder that another user owns is refused, also behind a link: its owner could read what calls were given and gave, and
put approvals of their own there. Folders that are ours and open to others, as earlier versions made them, are closed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from onetool_ipy.base.files import tighten
from onetool_ipy.config.paths import STATE_ENV, expand_home, is_ours, state_folder
from onetool_ipy.core.tool import Problem

__all__ = ["chosen_state", "close_to_others", "own_state", "written_state_dir"]

_OUR_FOLDERS = ("cache", "calls", "maps", "results", "serving")

_STATE_DIR = re.compile(rb"^state_dir[ \t]*:", re.MULTILINE)

_PLAIN = re.compile(
    rb"^state_dir:[ \t]+(?:\"([^\"\\\n]+)\"|'([^'\n]+)'|([\w./~-][^\s#:\"'\\]*))[ \t]*(?:[ \t]#[^\n]*)?\r?$",
    re.MULTILINE,
)


def own_state(state: Path, project: Path, *, env: Mapping[str, str], home: Path) -> tuple[Path, list[Problem]]:
    """The folder to use for a project: the one given, or the user's usual one where somebody else owns that."""
    if not os.path.isdir(state) or is_ours(str(state)):
        return state, []
    usual = state_folder(project, env={key: value for key, value in env.items() if key != STATE_ENV}, home=home)
    said = "refused as a state folder, since another user owns it."
    problem = Problem(str(state), said, f"Point ${STATE_ENV} at a folder of your own.")
    return usual, [problem]


def chosen_state(chosen: str, project: Path, home: Path) -> Path:
    """The folder that `state_dir:` names."""
    return Path(os.path.abspath(project / expand_home(Path(chosen), home)))


def close_to_others(state: Path, *made: Path) -> None:
    """Close our folders in the state folder, and those that we `made`. One that the user named keeps its own mode."""
    for folder in (*made, *(state / name for name in _OUR_FOLDERS)):
        tighten(folder)


def written_state_dir(data: bytes) -> str | None:
    """`state_dir:` as a configuration file has it, without parsing all of it; "" where it is not plainly written."""
    if _STATE_DIR.search(data) is None:
        return None
    found = _PLAIN.findall(data)
    return b"".join(found[0]).decode("utf-8", "replace") if len(found) == 1 else ""
