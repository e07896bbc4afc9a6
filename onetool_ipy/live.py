"""`from onetool_ipy.live import brave`: the pack of that name in the current toolbox, anywhere in a program."""

from __future__ import annotations

from typing import Any

from onetool_ipy.core import current

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    box = current.require()
    pack = box.ot if name == "ot" else box.pack(name)
    if pack is None:
        near = ", ".join(box.registry.packs())
        raise AttributeError(f"No pack '{name}'. There are: {near}")
    return pack
