"""What a pack author imports: `from onetool_ipy.sdk import call_tool, batch_execute, ...` (spec 000).

Every function works inside a call, in the toolbox that runs it, and outside one, in the toolbox opened last; without
any the default one is opened. Nothing here is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.sdk.batch import batch_execute, normalize_items
    from onetool_ipy.sdk.clients import api_headers, lazy_client
    from onetool_ipy.sdk.tools import call_tool, get_config, get_pack, get_secret, progress

__all__ = [
    "api_headers",
    "batch_execute",
    "call_tool",
    "get_config",
    "get_pack",
    "get_secret",
    "lazy_client",
    "normalize_items",
    "progress",
]

_HOMES = {
    "batch_execute": "batch",
    "normalize_items": "batch",
    "api_headers": "clients",
    "lazy_client": "clients",
    "call_tool": "tools",
    "get_config": "tools",
    "get_pack": "tools",
    "get_secret": "tools",
    "progress": "tools",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
