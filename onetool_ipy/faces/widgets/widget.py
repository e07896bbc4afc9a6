"""The screens as ipywidgets: `ot.browser()`, `result.view()`, `ot.usage()`.

The synced state of a `View` is the ES module and nothing else; data goes by messages, which no notebook saves. Before
the view comes its picture (`pictures`), which the view hides by id.

The ES module is built from `labextension/ui` and committed, so that no Node is needed to install or to run.

marimo has no IPython: there `ot.browser()` gives the widget as `mo.ui.anywidget` (`MarimoHost`).
"""

from __future__ import annotations

import sys
import uuid
from importlib.resources import files
from typing import Any, ClassVar

import anywidget

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.widgets.pictures import Picture, browser_picture, editor_picture, result_picture, usage_picture
from onetool_ipy.faces.widgets.requests import ScreenRequests
from onetool_ipy.host import Host
from onetool_ipy.render import html
from onetool_ipy.render.views import Text
from onetool_ipy.toolbox import Toolbox

_WIDGET = "application/vnd.jupyter.widget-view+json"
_LACKING = "<style>body:not(:has(.jp-NotebookPanel)) .otx-missing-widgets{display:none}</style>" + html.marked_note(
    "otx-missing-widgets",
    "This JupyterLab cannot show the screen. Install jupyterlab_widgets where it runs "
    "(pip install jupyterlab_widgets anywidget) and reload the page.",
)
"""What a running JupyterLab without widgets shows. The reader of an exported page lacks nothing and does not see it."""


class View(anywidget.AnyWidget):
    """One screen in a cell."""

    _esm: ClassVar[str] = (files("onetool_ipy.ui") / "screens.js").read_text(encoding="utf-8")
    _css: ClassVar[str] = (files("onetool_ipy.ui") / "style.css").read_text(encoding="utf-8")

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
        self._requests = ScreenRequests(
            box,
            send=self.send,
            namespace=lambda: shell.user_ns,
            first={"view": view, "options": options, "picture": self._picture_id},
        )
        if result is not None:
            self._requests.show_first(result)
        self.on_msg(self._received)

    def _received(self, _widget: object, content: object, _buffers: object) -> None:
        self._requests.receive(content)

    def close(self) -> None:
        """Close the view in the kernel and on the page."""
        self._requests.close()
        super().close()

    def _ipython_display_(self) -> None:
        """Show the picture, then the view that replaces it."""
        publish = self._shell.display_pub.publish
        page = f'<div id="{self._picture_id}">{self._picture.html}</div>'
        publish({"text/html": page, "text/plain": self._picture.text})
        publish({_WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}, "text/html": _LACKING})


_PERIODS = ("day", "week", "month", "all")


class NotebookScreens:
    """The screens of one shell."""

    def __init__(self, box: Toolbox, shell: Any) -> None:
        self._box = box
        self._shell = shell
        self._open: list[Any] = []

    def browser(self, tool: str = "", args: Json | None = None) -> Any:
        """The tool browser, at a tool or a pack if one is named."""
        registry = self._box.registry
        if tool in registry.known_packs() and registry.find(tool) is None:
            return self._screen("browser", {"pack": tool}, browser_picture(self._box))
        options: Json = {"tool": registry.require(tool).name, "args": args} if tool else {}
        return self._screen("browser", options, browser_picture(self._box))

    def result(self, shown: Any) -> Any:
        """The viewer of a result, of a stored result by its handle, or of any other value."""
        result = None if isinstance(shown, str) else shown if isinstance(shown, ToolResult) else ToolResult(True, shown)
        handle = shown if result is None else result.handle
        picture = result_picture(self._box, result, handle)
        return self._screen("result", {"handle": None if result else handle}, picture, result)

    def usage(self, period: str = "week", tool: str = "", since: str = "") -> Any:
        """The usage view of a period, or since a time such as `yesterday` or `3d`."""
        if period not in _PERIODS:
            raise UsageProblem(f"'{period}' is not a period.", hint=f"One of: {', '.join(_PERIODS)}.")
        options = {"period": period, "tool": tool, "since": since}
        return self._screen("usage", options, usage_picture(self._box, period, tool, since))

    def http_tool(self) -> Any:
        """The editor of a new HTTP tool."""
        return self._screen("http", {}, editor_picture(self._box))

    def close(self) -> None:
        """Close every screen; may be called twice."""
        while self._open:
            self._open.pop().close()

    def _screen(self, view: str, options: Json, picture: Picture, result: ToolResult | None = None) -> Any:
        if getattr(self._shell, "kernel", None) is None:
            return Text(picture.text)
        return self._view(view, options, picture, result)

    def _view(self, view: str, options: Json, picture: Picture, result: ToolResult | None) -> Any:
        screen = View(self._box, self._shell, view=view, options=options, picture=picture, result=result)
        self._open.append(screen)
        return screen


# --- marimo, a notebook without IPython ------------------------------------------------------------


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
