"""`ot.browser()`, `result.view()`, `ot.usage()`: a widget where the shell can show one, else its picture as text."""

from __future__ import annotations

from typing import Any

from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.model import Json, ToolResult
from onetool_ipy.faces.widgets.picture import Picture, browser_picture, result_picture, usage_picture
from onetool_ipy.render.shown import Text
from onetool_ipy.toolbox import Toolbox

__all__ = ["Screens"]

_PERIODS = ("day", "week", "month", "all")


class Screens:
    """The screens of one shell."""

    def __init__(self, box: Toolbox, shell: Any) -> None:
        self._box = box
        self._shell = shell
        self._open: list[Any] = []

    def browser(self, tool: str = "", args: Json | None = None) -> Any:
        """The tool browser, at a tool if one is named."""
        options: Json = {"tool": self._box.registry.require(tool).name, "args": args} if tool else {}
        return self._screen("browser", options, browser_picture(self._box))

    def result(self, shown: Any) -> Any:
        """The viewer of a result, of the stored result with this handle, or of any other value."""
        result = None if isinstance(shown, str) else shown if isinstance(shown, ToolResult) else ToolResult(True, shown)
        handle = shown if result is None else result.handle
        picture = result_picture(self._box, result, handle)
        return self._screen("result", {"handle": None if result else handle}, picture, result)

    def usage(self, period: str = "week", tool: str = "") -> Any:
        """The usage view."""
        if period not in _PERIODS:
            raise UsageProblem(f"'{period}' is no period.", hint=f"One of: {', '.join(_PERIODS)}.")
        return self._screen("usage", {"period": period, "tool": tool}, usage_picture(self._box, period, tool))

    def close(self) -> None:
        """Close every screen; may be called twice."""
        while self._open:
            self._open.pop().close()

    def _screen(self, view: str, options: Json, picture: Picture, result: ToolResult | None = None) -> Any:
        if getattr(self._shell, "kernel", None) is None:
            return Text(picture.text)
        return self._view(view, options, picture, result)

    def _view(self, view: str, options: Json, picture: Picture, result: ToolResult | None) -> Any:
        from onetool_ipy.faces.widgets.widget import View

        made = View(self._box, self._shell, view=view, options=options, picture=picture, result=result)
        self._open.append(made)
        return made
