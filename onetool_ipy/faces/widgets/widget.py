"""A view of the `ui` module as an ipywidget: its few traits, its messages to a `Desk`, its picture for later.

The synced state holds which view it is and nothing else: what is shown goes by messages, which no notebook keeps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import anywidget
import traitlets

from onetool_ipy.core.model import Json, ToolResult
from onetool_ipy.faces.ipython.display import keep
from onetool_ipy.faces.widgets.desk import Desk
from onetool_ipy.faces.widgets.module import linked, style
from onetool_ipy.faces.widgets.picture import Picture
from onetool_ipy.toolbox import Toolbox

__all__ = ["View"]

_WIDGET = "application/vnd.jupyter.widget-view+json"


class View(anywidget.AnyWidget):
    """One screen in a cell."""

    _esm: ClassVar[str] = linked()
    _css: ClassVar[str] = style()
    view = traitlets.Unicode("browser").tag(sync=True)
    options = traitlets.Dict().tag(sync=True)

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
        super().__init__(view=view, options=options)
        self._picture = picture
        self._desk = Desk(box, send=self.send, namespace=lambda: shell.user_ns, keep=lambda made: keep(box, made))
        if result is not None:
            self._desk.show_first(result)
        self.on_msg(self._received)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._desk.receive(content)

    def close(self) -> None:
        """Let go of the view, on both sides."""
        self._desk.close()
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        looks = {**(data or {}), "text/plain": self._picture.text, "text/html": self._picture.html}
        return looks, metadata
