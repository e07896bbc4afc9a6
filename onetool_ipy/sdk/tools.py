"""What a running tool uses of its toolbox: other packs, its own settings and secrets, progress.

A pack called from another pack runs in a call of its own, so each sees its own settings.
"""

from __future__ import annotations

import sys
from typing import Any

from onetool_ipy.base import values
from onetool_ipy.core import current

__all__ = ["call_tool", "get_config", "get_pack", "get_secret", "progress"]


def get_pack(name: str) -> Any | None:
    """Return the pack of that name, with its tools as methods, or None."""
    return current.require().pack(name)


def call_tool(name: str, /, **kwargs: Any) -> Any:
    """Call a tool by its qualified name and return its raw value; a tool's own exception passes through.

    Raises ValueError if there is no such pack or tool.
    """
    box = current.require()
    found = box.registry.find(name)
    pack_name, _, tool_name = (found.name if found is not None else name).partition(".")
    pack = box.pack(pack_name)
    if pack is None:
        raise ValueError(f"Pack not found: {pack_name}")
    try:
        tool = pack[tool_name]
    except KeyError:
        raise ValueError(f"Tool not found: {name}") from None
    return tool(**kwargs)


def get_config(pack: str | None = None) -> dict[str, Any]:
    """Return a copy of the settings of the running tool's pack, or of the pack named; empty if it has none."""
    if pack is None:
        pack = _own_pack()
    found = current.require().config.settings.packs.get(pack)
    return {} if found is None else values.plain_copy(found.data)[0]


def get_secret(name: str) -> str | None:
    """Return the secret of that name, from secrets.yaml, else from the environment."""
    found = current.require().config.secrets.get(name)
    return None if found is None else str(found)


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Report how far the running call is, to the program that made it, if it listens."""
    here = current.scope()
    if here is not None and here.progress is not None:
        here.progress(done, total, text)


def _own_pack() -> str:
    """Return the pack of the running tool, or the one whose file is being imported."""
    here = current.scope()
    if here is None:
        return ""
    if here.importing:  # the running tool may belong to another pack
        asking = sys._getframe(2).f_globals.get("pack")
        return asking if isinstance(asking, str) else ""
    return here.spec.pack if here.spec is not None else ""
