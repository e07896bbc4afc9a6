"""Saving the functions of a cell in a pack file of the project: `%%tool save PACK`, and the menu of a cell."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.faces.pack_names import require_free_name
from onetool_ipy.sources.pack_files import save_functions

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

_PACK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def pack_file(box: Toolbox, pack: str) -> Path:
    """Return the path of a pack's file in the project, whether or not it exists."""
    paths = box.config.paths
    return (paths.onetool_dir or paths.project / FOLDER) / "tools" / f"{pack}.py"


def save_cell(box: Toolbox, pack: str, source: str) -> list[str]:
    """Put the functions of a cell into the file of a pack, load it, and return the names of their tools."""
    file = pack_file(box, pack)
    if not file.exists():
        require_free_name(box, pack, "_tools")
    with box.gate.saving():
        names = save_functions(file, source, pack=pack, cells=box.host.inputs())
    box.reload()
    return [f"{pack}.{name}" for name in names]


def save_new_pack(box: Toolbox, pack: str, source: str) -> Json:
    """Save a cell as a new pack: `{tools, file}`. A file that exists is not changed: the menu has no undo."""
    if not _PACK_NAME.fullmatch(pack):
        raise UsageProblem(f"'{pack[:40]}' is not a valid pack name.", hint="Use small letters, digits and _.")
    file = pack_file(box, pack)
    if os.path.lexists(file):
        raise UsageProblem(f"There is a pack '{pack}' already.", hint=f"Choose another name, or: %%tool save {pack}")
    return {"tools": save_cell(box, pack, source), "file": str(file)}
