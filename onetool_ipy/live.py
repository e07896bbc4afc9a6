"""`from onetool_ipy.live import brave`: the pack of that name in the current toolbox, anywhere in a
program."""

from __future__ import annotations

import sys
from dis import opname
from typing import Any

from onetool_ipy.base.errors import ToolNotFound, UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.core import current

__all__: list[str] = []


class NoPack(UsageProblem, ImportError, reason="no_pack"):
    """A pack that is imported and is not there."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    box = current.require()
    pack = box.pack(name)
    if pack is None:
        packs = box.registry.known_packs()
        near = did_you_mean(name, packs) or f"There are: {', '.join(packs)}"
        # `from ... import` replaces an AttributeError by an ImportError without these words, so it
        # gets its own kind.
        asking = sys._getframe(1)
        is_import = opname[asking.f_code.co_code[asking.f_lasti]] == "IMPORT_FROM"
        raise (NoPack if is_import else ToolNotFound)(f"No pack '{name}'. {near}")
    return pack


def __dir__() -> list[str]:
    return sorted(current.require().registry.known_packs())
