"""The one HTTP road: allowed hosts, pinned address, one deadline, size after decompression, retry, masking.

`Road` sends for HTTP tools and model clients, sync and async, from any thread; `borrowed` sends with a pack author's
own `httpx.Client`. Only here is httpx imported, and only when something is sent. Whatever goes wrong leaves this room
as one of `core.errors`, with every secret masked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.net.body import Reply, Stream
    from onetool_ipy.net.client import Road
    from onetool_ipy.net.hosts import Hosts
    from onetool_ipy.net.rules import Retry, Rules

__all__ = ["Hosts", "Reply", "Retry", "Road", "Rules", "Stream"]

_HOMES = {"Hosts": "hosts", "Reply": "body", "Retry": "rules", "Road": "client", "Rules": "rules", "Stream": "body"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
