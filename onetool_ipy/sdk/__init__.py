"""What a pack author imports: `from onetool_ipy.sdk import call_tool, batch_execute, ...` (spec
000).

Inside a call every function uses the toolbox that runs it; outside, the toolbox opened last, or the
default one. A module is imported when one of its functions is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onetool_ipy.render.media import Audio, Blocks, Image, Resource, ResourceLink
    from onetool_ipy.sdk.batch import batch_execute, normalize_items
    from onetool_ipy.sdk.http import api_headers, lazy_client, safe_request
    from onetool_ipy.sdk.requirements import check_deps, deps_of, requires_cli, requires_lib
    from onetool_ipy.sdk.tools import (
        Roots,
        Sample,
        UserForm,
        ask_client,
        ask_model,
        ask_user,
        call_tool,
        client_can,
        describe_for_model,
        get_config,
        get_pack,
        get_secret,
        log,
        progress,
    )

__all__ = [
    "Audio",
    "Blocks",
    "Image",
    "Resource",
    "ResourceLink",
    "Roots",
    "Sample",
    "UserForm",
    "api_headers",
    "ask_client",
    "ask_model",
    "ask_user",
    "batch_execute",
    "call_tool",
    "check_deps",
    "client_can",
    "deps_of",
    "describe_for_model",
    "get_config",
    "get_pack",
    "get_secret",
    "lazy_client",
    "log",
    "normalize_items",
    "progress",
    "requires_cli",
    "requires_lib",
    "safe_request",
]

_HOMES = {
    "sdk.batch": ("batch_execute", "normalize_items"),
    "sdk.requirements": ("check_deps", "deps_of", "requires_cli", "requires_lib"),
    "sdk.http": ("api_headers", "lazy_client", "safe_request"),
    "render.media": ("Audio", "Blocks", "Image", "Resource", "ResourceLink"),
    "sdk.tools": (
        *("Roots", "Sample", "UserForm"),
        *(
            "ask_client",
            "ask_model",
            "ask_user",
            "call_tool",
            "client_can",
            "get_config",
            "get_pack",
            "get_secret",
        ),
        *("describe_for_model", "log", "progress"),
    ),
}


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"onetool_ipy.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
