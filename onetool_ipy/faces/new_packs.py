"""New packs: a name that nothing else has, and the functions of a cell saved as one (`%%tool save
PACK`, a menu).

No new pack or server takes the name of a pack, a Python keyword or a name in the notebook. A name
that we propose ourselves is changed, and the change is said; a name that a person typed is refused
with that proposal. What a program writes (`box.bundles`, REST) is meant as it is.
"""

from __future__ import annotations

import keyword
import os
import re
from pathlib import Path

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import names_in, windows_fault
from onetool_ipy.base.values import Json
from onetool_ipy.config.edit import editing
from onetool_ipy.config.paths import FOLDER
from onetool_ipy.schema.read import identifier
from onetool_ipy.sources.pack_saving import save_functions
from onetool_ipy.toolbox import Toolbox

_PACK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def proposed_name(box: Toolbox, name: str, ending: str) -> tuple[str, str]:
    """Return a free name for a new pack, and why it is not the one that suggests itself, if so."""
    owner = _owner_of(box, name)
    return (
        (f"{name}{ending}", f"It is named {name}{ending}: '{name}' is {owner}.")
        if owner
        else (name, "")
    )


def require_free_name(box: Toolbox, name: str, ending: str) -> None:
    """Raise UsageProblem with a proposal if a name that a person typed is taken."""
    proposal, note = proposed_name(box, name, ending)
    if note:
        raise UsageProblem(
            f"'{name}' is {_owner_of(box, name)}.", hint=f"Choose another name: {proposal}"
        )


def _owner_of(box: Toolbox, name: str) -> str:
    """Say whose name it is; empty if it is free."""
    if keyword.iskeyword(name):
        return "a Python keyword"
    # Most disks of macOS and Windows do not tell capital letters from small ones.
    packs = {pack.casefold(): specs for pack, specs in box.registry.known_packs().items()}
    specs = packs.get(name.casefold())
    if specs or name in ("ot", "nb"):
        is_built_in = not specs or specs[0].origin == "builtin"
        return (
            "the name of a built-in pack" if is_built_in else "the name of a pack of this project"
        )
    if windows_fault(f"{name}.py", ()):
        return "the name of a device of Windows"
    return "a name in this notebook" if box.host.has_name(identifier(name)) else ""


def pack_file(box: Toolbox, pack: str) -> Path:
    """Return the path of a pack's file in the project, whether or not it exists."""
    paths = box.config.paths
    return (paths.onetool_dir or paths.project / FOLDER) / "tools" / f"{pack}.py"


def save_cell(box: Toolbox, pack: str, source: str) -> list[str]:
    """Put the functions of a cell into the file of a pack, load it, and return the names of their
    tools."""
    file = pack_file(box, pack)
    with box.gate.saving(), editing(box.config.paths):
        if file.name not in names_in(file.parent):
            require_free_name(box, pack, "_tools")
        names = save_functions(file, source, pack=pack, cells=box.host.inputs())
    box.reload()
    return [f"{pack}.{name}" for name in names]


def save_new_pack(box: Toolbox, pack: str, source: str) -> Json:
    """Save a cell as a new pack: `{tools, file}`. A file that exists is not changed: the menu has
    no undo."""
    if not _PACK_NAME.fullmatch(pack):
        raise UsageProblem(
            f"'{pack[:40]}' is not a valid pack name.", hint="Use small letters, digits and _."
        )
    file = pack_file(box, pack)
    if os.path.lexists(file):
        raise UsageProblem(
            f"There is a pack '{pack}' already.",
            hint=f"Choose another name, or: %%tool save {pack}",
        )
    return {"tools": save_cell(box, pack, source), "file": str(file)}
