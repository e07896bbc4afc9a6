"""`ot`, the pack about the toolbox itself (spec 001): catalog, help, state, usage.

Each function gives a plain value that prints as YAML flow text. It gets what it reports on as a `Desk`, not as the
Toolbox class. Where 001 wants an error text returned, `ot.*` in Python returns it; see `edge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onetool_ipy.packs.ot.catalog import Catalog
from onetool_ipy.packs.ot.context import Desk
from onetool_ipy.packs.ot.health import State
from onetool_ipy.packs.ot.help import Guide
from onetool_ipy.packs.ot.map import Mapping
from onetool_ipy.packs.ot.results import Stored
from onetool_ipy.packs.ot.usage import UsageTools

__all__ = ["Desk", "functions"]


def functions(desk: Desk) -> list[Callable[..., Any]]:
    """The tools of the pack, for this desk."""
    catalog, guide, state, stored, usage = Catalog(desk), Guide(desk), State(desk), Stored(desk), UsageTools(desk)
    return [
        catalog.tools,
        catalog.packs,
        catalog.aliases,
        catalog.snippets,
        guide.help,
        catalog.config,
        state.health,
        state.deps,
        state.notify,
        state.reload,
        usage.stats,
        usage.history,
        stored.result,
        stored.results,
        Mapping(desk).map,
        catalog.version,
    ]
