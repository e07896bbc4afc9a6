"""Names for new servers and packs. None takes the name of a pack, a Python keyword or a name in the notebook.

A name that we propose ourselves is changed, and the change is said; a name that a person typed is refused with that
proposal. What a program writes (`box.bundles`, REST) is meant as it is.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.schema.read import identifier

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox


def proposed_name(box: Toolbox, name: str, ending: str) -> tuple[str, str]:
    """Return a free name for a new pack, and why it is not the one that suggests itself, if so."""
    owner = _owner_of(box, name)
    return (f"{name}{ending}", f"It is named {name}{ending}: '{name}' is {owner}.") if owner else (name, "")


def require_free_name(box: Toolbox, name: str, ending: str) -> None:
    """Raise UsageProblem with a proposal if a name that a person typed is taken."""
    proposal, note = proposed_name(box, name, ending)
    if note:
        raise UsageProblem(f"'{name}' is {_owner_of(box, name)}.", hint=f"Choose another name: {proposal}")


def _owner_of(box: Toolbox, name: str) -> str:
    """Say whose name it is; empty if it is free."""
    if keyword.iskeyword(name):
        return "a Python keyword"
    specs = box.registry.known_packs().get(name)
    if specs or name in ("ot", "nb"):
        is_built_in = not specs or specs[0].origin == "builtin"
        return "the name of a built-in pack" if is_built_in else "the name of a pack of this project"
    return "a name in this notebook" if box.host.has_name(identifier(name)) else ""
