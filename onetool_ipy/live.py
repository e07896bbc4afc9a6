"""`from onetool_ipy.live import brave`: the pack of that name in the current toolbox, anywhere in a program."""

from __future__ import annotations

from typing import Any

from onetool_ipy.base.search import did_you_mean
from onetool_ipy.core import current

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    box = current.require()
    pack = box.pack(name)
    if pack is None:
        packs = box.registry.known_packs()
        near = did_you_mean(name, packs) or f"There are: {', '.join(packs)}"
        raise AttributeError(f"No pack '{name}'. {near}")
    return pack


def __dir__() -> list[str]:
    return sorted(current.require().registry.known_packs())
