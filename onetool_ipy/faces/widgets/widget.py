"""The screens as ipywidgets: `ot.browser()`, `result.view()`, `ot.usage()`.

The synced state of a `View` is the ES module and nothing else; data goes by messages, which no notebook saves. Before
the view comes a picture: a static output of what the screen shows first, for saved notebooks, exported pages and
terminals. The view hides its picture by id. Everything in a picture is escaped and masked.

`linked` joins the files of `ui/src` into one module: each file becomes a function that returns its exports. So nothing
has to be built. The files keep to one import or export per line.

marimo has no IPython: there `ot.browser()` gives the widget as `mo.ui.anywidget` (`MarimoHost`).
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

import anywidget

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.printable import printable
from onetool_ipy.core.result import Json, ToolResult
from onetool_ipy.faces.widgets.requests import ScreenRequests, usage_shown
from onetool_ipy.host import Host
from onetool_ipy.render import html
from onetool_ipy.render.views import Text
from onetool_ipy.stores.result_lines import rows_of
from onetool_ipy.toolbox import Toolbox

__all__ = [
    "MarimoHost",
    "NotebookScreens",
    "Picture",
    "View",
    "browser_picture",
    "linked",
    "result_picture",
    "style",
    "usage_picture",
]

_IMPORT = re.compile(r"^import \{([^}]+)\} from '\./(\w+)\.js';\n", re.MULTILINE)
_EXPORTED = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LISTED = re.compile(r"^export \{([^}]+)\};\n", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ([^;]+);\n", re.MULTILINE)


def linked(entry: str = "index") -> str:
    """The module `entry` and everything that it imports, as one module."""
    done: dict[str, str] = {}
    _link(entry, done)
    wrapped = "\n".join(done.values())
    return f"const modules = {{}};\n{wrapped}\nexport default modules.{entry}.default;\n"


def style() -> str:
    """The style sheet of the screens."""
    return (files("onetool_ipy.ui") / "style.css").read_text(encoding="utf-8")


def _link(name: str, done: dict[str, str]) -> None:
    if name in done:
        return
    text = (files("onetool_ipy.ui") / "src" / f"{name}.js").read_text(encoding="utf-8")
    for found in _IMPORT.finditer(text):
        _link(found[2], done)
    exported = _EXPORTED.findall(text)
    exported += [part.strip() for found in _LISTED.finditer(text) for part in found[1].split(",")]
    exported += [f"default: {found[1]}" for found in _DEFAULT.finditer(text)]
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = modules.{found[2]};\n", text)
    body = _DEFAULT.sub("", _LISTED.sub("", _EXPORTED.sub("", body)))
    done[name] = f"modules.{name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"


_MOST_TOOLS = 40
_MOST_LINES = 20
_COLUMNS = ("tool", "calls", "failures", "avg_ms", "p95_ms", "last_called")
_FAILURES = "Failed calls by message:"
_HINT = "Run this cell to use it. If it still is a picture then, anywidget is missing where JupyterLab runs."
_ALONE = (
    "<style>.jp-OutputArea-child:has(.otx-picture) + .jp-OutputArea-child:not(:has(.otx,.otx-missing-widgets))"
    "{display:none}</style>"
)
"""Hides the output after the picture: without a kernel JupyterLab shows an error there instead of the view."""


class Picture(NamedTuple):
    """A static screen, as HTML and as text."""

    html: str
    text: str


def browser_picture(box: Toolbox) -> Picture:
    """The first tools with their summaries."""
    specs = sorted(box.registry.known(), key=box.place_of)
    packs = box.registry.known_packs()
    title = f"Tool browser: {len(specs):,} tools in {len(packs):,} packs."
    rows = [{"tool": spec.name, "what it does": values.cut(spec.summary, 120)} for spec in specs[:_MOST_TOOLS]]
    left = f" {len(specs) - _MOST_TOOLS:,} more." if len(specs) > _MOST_TOOLS else ""
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [title, *(f"  {row['tool']:<{width}}  {row['what it does']}" for row in rows)]
    return _made(box, title, html.table(rows), f"{_HINT}{left}", [*lines, left.strip()])


def result_picture(box: Toolbox, result: ToolResult | None, handle: str | None) -> Picture:
    """The first lines of a result."""
    if result is not None and result.error is not None:
        title, lines = "A failed result.", [f"{result.error.code}: {result.error.message}"]
        return _made(box, title, html.pre(box.mask("\n".join(lines))), _HINT, [title, *lines])
    page = box.results.query(handle, limit=_MOST_LINES) if handle else _first_lines(result)
    tool = str(result.meta.get("tool", "")) if result is not None else ""
    title = f"Result{f' of {tool}' if tool else ''}: {page['total_lines']:,} lines."
    shown = [values.cut(line, 300) for line in page["lines"]]
    if rows := rows_of(page["lines"]):
        title = title.replace(" lines.", " rows.")
        return _made(box, title, box.mask(html.table(rows)), _HINT, [title, *shown])
    return _made(box, title, html.pre(box.mask("\n".join(shown))), _HINT, [title, *shown])


def usage_picture(box: Toolbox, period: str, tool: str) -> Picture:
    """Totals, tools and failures of a period."""
    usage = usage_shown(box, {"period": period, "tool": tool})
    title = ", ".join([f"Usage, {period}", *(f"{total['value']} {total['label']}" for total in usage["totals"])]) + "."
    rows: list[Any] = [{key: _figure(row[key]) for key in _COLUMNS} for row in usage["tools"][:_MOST_TOOLS]]
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [f"  {row['tool']:<{width}}  {row['calls']} calls, {row['failures']} failed" for row in rows]
    body = html.table(rows, _COLUMNS)
    failures = [{**row, "message": values.cut(row["message"], 200)} for row in usage["failures"][:_MOST_LINES]]
    if failures:
        body += html.note(_FAILURES) + html.table(failures)
        lines += [_FAILURES, *(f"  {row['calls']} x {row['tool']}: {row['message']}" for row in failures)]
    return _made(box, title, body, _HINT, [title, *lines])


def _figure(value: Any) -> Any:
    return round(value) if isinstance(value, float) else value


def _first_lines(result: ToolResult | None) -> dict[str, Any]:
    data: Any = None if result is None else result.data
    head = values.to_json(data[:_MOST_LINES]) if isinstance(data, (list, tuple)) or hasattr(data, "iloc") else None
    if isinstance(head, list) and head and all(isinstance(row, dict) for row in head):
        return {"lines": [json.dumps(row, ensure_ascii=False) for row in head], "total_lines": len(data)}
    lines = [] if result is None else values.to_text(result.data).split("\n")
    return {"lines": lines[:_MOST_LINES], "total_lines": len(lines)}


def _made(box: Toolbox, title: str, body: str, below: str, lines: list[str]) -> Picture:
    head = f'<div style="font-weight:600">{html.escape(box.mask(title))}</div>'
    shown = f'<div class="otx-picture {html.AS_TEXT}">{_ALONE}{head}{body}{html.note(below)}</div>'
    return Picture(shown, printable(box.mask("\n".join(line for line in lines if line))))


_WIDGET = "application/vnd.jupyter.widget-view+json"
_LACKING = html.marked_note(
    "otx-missing-widgets",
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
        self._requests = ScreenRequests(
            box,
            send=self.send,
            namespace=lambda: shell.user_ns,
            first={"view": view, "options": options, "picture": self._picture_id},
        )
        if result is not None:
            self._requests.show_first(result)
        self.on_msg(self._received)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        self._requests.receive(content)

    def close(self) -> None:
        """Close the view in the kernel and on the page."""
        self._requests.close()
        super().close()

    def _ipython_display_(self) -> None:
        """Show the picture, then the view that replaces it."""
        publish = self._shell.display_pub.publish
        shown = f'<div id="{self._picture_id}">{self._picture.html}</div>'
        publish({"text/html": shown, "text/plain": self._picture.text})
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

    def usage(self, period: str = "week", tool: str = "") -> Any:
        """The usage view."""
        if period not in _PERIODS:
            raise UsageProblem(f"'{period}' is not a period.", hint=f"One of: {', '.join(_PERIODS)}.")
        return self._screen("usage", {"period": period, "tool": tool}, usage_picture(self._box, period, tool))

    def http_tool(self) -> Any:
        """The editor of a new HTTP tool."""
        title = "The editor of an HTTP tool: request, auth, arguments, response."
        return self._screen("http", {}, _made(self._box, title, "", _HINT, [title]))

    def close(self) -> None:
        """Close every screen; may be called twice."""
        while self._open:
            self._open.pop().close()

    def _screen(self, view: str, options: Json, picture: Picture, result: ToolResult | None = None) -> Any:
        if getattr(self._shell, "kernel", None) is None:
            return Text(picture.text)
        return self._view(view, options, picture, result)

    def _view(self, view: str, options: Json, picture: Picture, result: ToolResult | None) -> Any:
        made = View(self._box, self._shell, view=view, options=options, picture=picture, result=result)
        self._open.append(made)
        return made


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
