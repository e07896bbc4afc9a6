"""The screens in a marimo notebook, which has no IPython: `ot.browser()` gives the widget as `mo.ui.anywidget`."""

from __future__ import annotations

import sys
from typing import Any

from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.faces.widgets.widget import NotebookScreens, Picture
from onetool_ipy.host import Host
from onetool_ipy.toolbox import Toolbox

__all__ = ["MarimoHost", "is_running"]


def is_running() -> bool:
    """Whether this code runs in a cell of marimo."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


class MarimoHost(Host):
    """The host of a toolbox in a marimo notebook."""

    def __init__(self, box: Toolbox) -> None:
        self._screens = MarimoScreens(box)

    def screens(self) -> NotebookScreens:
        return self._screens


class MarimoScreens(NotebookScreens):
    """The screens of one marimo notebook."""

    def __init__(self, box: Toolbox) -> None:
        super().__init__(box, _Notebook())

    def _screen(self, view: str, options: Json, picture: Picture, result: ToolResult | None = None) -> Any:
        return sys.modules["marimo"].ui.anywidget(self._view(view, options, picture, result))


class _Notebook:
    """The part of a shell that a view needs: the variables of the notebook."""

    @property
    def user_ns(self) -> dict[str, Any]:
        return vars(sys.modules["__main__"])
