"""One registry of tools for notebooks: find them, call them, keep what they give.

The face of the package: a dozen names and Jupyter's entry functions, all of them loaded when first
used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from onetool_ipy._version import __version__

if TYPE_CHECKING:
    from onetool_ipy.assemble import open_toolbox
    from onetool_ipy.base.errors import (
        AskFailed,
        DuplicateTool,
        InvalidConfig,
        InvalidTool,
        OneToolError,
        ToolCallError,
        UnknownProvider,
        UsageProblem,
    )
    from onetool_ipy.core.decorate import tool
    from onetool_ipy.core.result import Failure, ToolResult
    from onetool_ipy.core.tool import ToolCall, ToolSpec
    from onetool_ipy.proxies import PackProxy
    from onetool_ipy.toolbox import Toolbox

__all__ = [
    "AskFailed",
    "DuplicateTool",
    "Failure",
    "InvalidConfig",
    "InvalidTool",
    "OneToolError",
    "PackProxy",
    "ToolCall",
    "ToolCallError",
    "ToolResult",
    "ToolSpec",
    "Toolbox",
    "UnknownProvider",
    "UsageProblem",
    "__version__",
    "open_toolbox",
    "tool",
]

_HOMES = {
    "open_toolbox": "assemble",
    "Toolbox": "toolbox",
    "PackProxy": "proxies",
    "tool": "core.decorate",
    "ToolSpec": "core.tool",
    "ToolCall": "core.tool",
    "ToolResult": "core.result",
    "Failure": "core.result",
    "OneToolError": "base.errors",
    "AskFailed": "base.errors",
    "ToolCallError": "base.errors",
    "UsageProblem": "base.errors",
    "InvalidConfig": "base.errors",
    "InvalidTool": "base.errors",
    "DuplicateTool": "base.errors",
    "UnknownProvider": "base.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ip: Any) -> None:
    """`%load_ext onetool_ipy`."""
    from onetool_ipy.faces.notebook import extension

    extension.load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """`%unload_ext onetool_ipy`."""
    from onetool_ipy.faces.notebook import extension

    extension.unload(ip)


def _host_here(box: Any) -> Any:
    """Return the host of a notebook that has no IPython (marimo); None elsewhere."""
    marimo = sys.modules.get("marimo")
    if marimo is None or not marimo.running_in_notebook():
        return None
    from onetool_ipy.faces.widgets.widget import MarimoHost

    return MarimoHost(box)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "onetool_ipy"}]


def _load_jupyter_server_extension(server: Any) -> None:
    from onetool_ipy.faces.rest import extension

    extension.load(server)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "onetool-ipy"}]
