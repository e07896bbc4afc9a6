"""`ot`, the pack about the toolbox itself (spec 001): catalog, help, state, usage.

Each function returns a plain value that prints as YAML flow text. Where spec 001 wants an error text returned, `ot.*`
in Python returns it; see `errors`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onetool_ipy.packs.ot.catalog import Catalog
from onetool_ipy.packs.ot.health import State
from onetool_ipy.packs.ot.help import Guide
from onetool_ipy.packs.ot.map import MapTools
from onetool_ipy.packs.ot.results import Stored
from onetool_ipy.packs.ot.usage import UsageTools

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["functions"]


def functions(box: Toolbox) -> list[Callable[..., Any]]:
    """The tools of the pack, of this toolbox."""
    catalog, guide, state, stored, usage = Catalog(box), Guide(box), State(box), Stored(box), UsageTools(box)
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
        MapTools(box).map,
        catalog.version,
    ]
