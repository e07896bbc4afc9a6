"""The tools of `ot`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onetool_ipy.packs.ot.catalog import CatalogTools, HelpTools
from onetool_ipy.packs.ot.health import HealthTools
from onetool_ipy.packs.ot.lineage import LineageTools
from onetool_ipy.packs.ot.map import MapTools
from onetool_ipy.packs.ot.results import ResultTools
from onetool_ipy.packs.ot.sql import SqlTools
from onetool_ipy.packs.ot.usage import UsageTools

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox


def functions(box: Toolbox) -> list[Callable[..., Any]]:
    """Return the tools of the pack for this toolbox."""
    catalog, health = CatalogTools(box), HealthTools(box)
    results, usage, lineage = ResultTools(box), UsageTools(box), LineageTools(box)
    return [
        catalog.tools,
        catalog.packs,
        catalog.aliases,
        catalog.snippets,
        HelpTools(box).help,
        catalog.config,
        health.health,
        health.deps,
        health.notify,
        health.reload,
        usage.stats,
        usage.history,
        SqlTools(box).sql,
        results.result,
        results.results,
        MapTools(box).map,
        lineage.origin,
        lineage.diff,
        lineage.refresh,
        catalog.version,
    ]
