"""A view of the `ui` module as an ipywidget: its few traits, its messages to a `Desk`, its picture for later.

The synced state holds the module and nothing else: what is shown goes by messages, which no notebook keeps. The picture
is an output of its own before the view, since a page without the kernel shows nothing of a view. The view hides it by
its id, so that no front end's own class names count. What stands in for the view is shown where widgets are unknown.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

import anywidget

from onetool_ipy.core.model import Json, ToolResult
from onetool_ipy.faces.ipython.display import keep
from onetool_ipy.faces.widgets.desk import Desk
from onetool_ipy.faces.widgets.module import linked, style
from onetool_ipy.faces.widgets.picture import Picture
from onetool_ipy.render import html
from onetool_ipy.toolbox import Toolbox

__all__ = ["View"]

_WIDGET = "application/vnd.jupyter.widget-view+json"
_LACKING = html.marked_note(
    "otx-lack",
    "This page cannot show widgets. In JupyterLab: the environment that it runs in lacks the package "
    "jupyterlab_widgets. Install it there (pip install jupyterlab_widgets anywidget) and reload the page.",
)


class View(anywidget.AnyWidget):
    """One screen in a cell."""

    _esm: ClassVar[str] = linked()
    _css: ClassVar[str] = style()

    def __init__(
        self,
        box: Toolbox,
        shell: Any,
        *,
        view: str,
        options: Json,
        picture: Picture,
        result: ToolResult | None = None,
    ) -> None:
        super().__init__()
        self._picture = picture
        self._picture_id = f"otx-picture-{uuid.uuid4().hex[:12]}"
        self._shell = shell
        self._desk = Desk(
            box,
            send=self.send,
            namespace=lambda: shell.user_ns,
            keep=lambda made: keep(box, made),
            first={"view": view, "options": options, "picture": self._picture_id},
        )
        if result is not None:
            self._desk.show_first(result)
        self.on_msg(self._received)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._desk.receive(content)

    def close(self) -> None:
        """Let go of the view, on both sides."""
        self._desk.close()
        super().close()

    def _ipython_display_(self) -> None:
        """Show the picture, and the view that takes its place."""
        publish = self._shell.display_pub.publish
        shown = f'<div id="{self._picture_id}">{self._picture.html}</div>'
        publish({"text/html": shown, "text/plain": self._picture.text})
        publish({_WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}, "text/html": _LACKING})
