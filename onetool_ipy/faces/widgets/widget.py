"""The screens as ipywidgets: `ot.browser()`, `result.view()`, `ot.usage()`; and their pictures.

The synced state of a `View` is the ES module and nothing else; data goes by messages, which no
notebook saves. The ES module is built from `labextension/src/screens` and committed, so that no
Node is needed to install or to run. Before the view comes its picture, which the view hides by id:
a static output of what the screen shows first, for saved notebooks, exported pages and terminals.
It has at most 100 kB, whatever the data: few rows and columns, cut cells and cut names. Everything
in it is masked first, then cut, then escaped.

marimo has no IPython: there `ot.browser()` gives the widget as `mo.ui.anywidget` (`MarimoHost`).
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

import anywidget

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.exits import before_exit
from onetool_ipy.base.printable import printable
from onetool_ipy.base.tables import is_frame, is_missing, tabular
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import ToolResult
from onetool_ipy.faces.widgets.overviews import usage_data
from onetool_ipy.faces.widgets.requests import ScreenRequests
from onetool_ipy.faces.widgets.table import (
    ResultTable,
    TableQuery,
    column_kind,
    shape_of,
    shown_cell,
    unique,
)
from onetool_ipy.host import Host
from onetool_ipy.render import html
from onetool_ipy.render.result import aligned
from onetool_ipy.render.views import Text, counted
from onetool_ipy.stores.result_lines import rows_of
from onetool_ipy.toolbox import Toolbox

_MAX_BYTES = 95_000
"""What HTML and text have together as JSON. The elements around them stay below 5 kB."""
_MAX_TOOLS = 40
_MAX_ROWS = 20
_SIZES = ((20, 100), (8, 40))
"""How many columns a table shows, and of how many characters. A table of the second size fits
always."""
_INDEX = "#"
_MAX_LINE = 300
_MAX_TEXT_LINE = 200
_MAX_NAME = 60
_MAX_SUMMARY = 100
_MAX_MESSAGE = 2_000
_MAX_FAILURES = 10
_FAILURES = "Failed calls by message:"
_USAGE_COLUMNS = ("tool", "calls", "failures", "avg_ms", "p95_ms", "last_called")
_HINT = "A picture. In Jupyter, run this cell to use it."
_ALONE = (
    "<style>.jp-OutputArea-child:has(.otx-picture) +"
    " .jp-OutputArea-child:not(:has(.otx,.otx-missing-widgets)){display:none}</style>"
)
"""Hides the output after the picture: without a kernel JupyterLab shows an error there instead of
the view."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_LACKING = (
    "<style>body:not(:has(.jp-NotebookPanel)) .otx-missing-widgets{display:none}</style>"
    + html.marked_note(
        "otx-missing-widgets",
        "This JupyterLab cannot show the screen. Install jupyterlab_widgets where it runs "
        "(pip install jupyterlab_widgets anywidget) and reload the page.",
    )
)
"""What a running JupyterLab without widgets shows. The reader of an exported page lacks nothing and
does not see it."""


class Picture(NamedTuple):
    """A static screen, as HTML and as text."""

    html: str
    text: str


class _Corner(NamedTuple):
    """The first rows and columns of a table as texts; `numbers` are the places of columns that hold
    numbers.

    `labels` are those of the rows, as pandas counts them; none if the index is columns already.
    """

    names: list[str]
    cells: list[list[str]]
    numbers: set[int]
    total_columns: int
    labels: list[str]


def browser_picture(box: Toolbox) -> Picture:
    """Draw the first tools with their summaries."""
    tools = (spec for spec in box.registry.known() if not spec.is_toolbox)
    specs = sorted(tools, key=box.registry.place_of)
    packs = len({spec.pack for spec in specs})
    title = f"Tool browser: {counted(len(specs), 'tool')} in {counted(packs, 'pack')}."
    rows = [
        {
            "tool": values.cut(box.mask(spec.name), _MAX_NAME),
            "what it does": values.cut(box.mask(spec.summary), _MAX_SUMMARY),
        }
        for spec in specs[:_MAX_TOOLS]
    ]
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [f"{row['tool']:<{width}}  {row['what it does']}" for row in rows]
    return _draw(box, title, html.table(rows), lines, _part(len(rows), len(specs), "tools"))


def result_picture(box: Toolbox, result: ToolResult | None, handle: str | None) -> Picture:
    """Draw the first rows or lines of a result, which may be known only by its handle."""
    if result is not None and result.error is not None:
        message = values.cut(box.mask(f"{result.error.code}: {result.error.message}"), _MAX_MESSAGE)
        return _draw(box, "A failed result.", html.pre(message), [message], "")
    tool = "" if result is None else str(result.meta.get("tool", ""))
    title = f"Result{f' of {values.cut(tool, _MAX_NAME)}' if tool else ''}"
    if handle:
        page = box.results.query(handle, limit=_MAX_ROWS)
        rows, lines, total = rows_of(page["lines"]), page["lines"], page["total_lines"]
        if not rows:
            return _draw_lines(box, title, lines, total)
        return _draw_table(box, title, rows, total)
    data: Any = None if result is None else tabular(result.portable)
    is_records = (
        isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data)
    )
    if is_frame(data) or is_records:
        return _draw_table(box, title, data, len(data))
    lines = values.to_text(data).split("\n")
    return _draw_lines(box, title, lines[:_MAX_ROWS], len(lines))


def usage_picture(box: Toolbox, period: str, tool: str, since: str = "") -> Picture:
    """Draw the totals, the tools and the failures of a period, or since a time."""
    usage = usage_data(box, {"period": period, "tool": tool, "since": since})
    span = f"since {usage['start']}" if since else period
    title = (
        ", ".join(
            [f"Usage, {span}", *(f"{total['value']} {total['label']}" for total in usage["totals"])]
        )
        + "."
    )
    rows: list[Any] = [
        {
            key: round(row[key]) if isinstance(row[key], float) else row[key]
            for key in _USAGE_COLUMNS
        }
        | {"tool": values.cut(box.mask(row["tool"]), _MAX_NAME)}
        for row in usage["tools"][:_MAX_TOOLS]
    ]
    width = max((len(row["tool"]) for row in rows), default=0)
    lines = [
        f"{row['tool']:<{width}}  {counted(row['calls'], 'call')}, {row['failures']:,} failed"
        for row in rows
    ]
    body = html.table(rows, _USAGE_COLUMNS)
    failures = [
        {
            **row,
            "tool": values.cut(box.mask(row["tool"]), _MAX_NAME),
            "message": values.cut(row["message"], 200),
        }
        for row in usage["failures"][:_MAX_FAILURES]
    ]
    if failures:
        body += html.note(_FAILURES) + html.table(failures)
        lines += [
            _FAILURES,
            *(f"{row['calls']} x {row['tool']}: {row['message']}" for row in failures),
        ]
    return _draw(box, title, body, lines, _part(len(rows), len(usage["tools"]), "tools"))


def editor_picture(box: Toolbox) -> Picture:
    """Draw the HTTP tool editor: its name."""
    return _draw(box, "The editor of an HTTP tool: request, auth, arguments, response.", "", [], "")


def _draw_lines(box: Toolbox, title: str, lines: Sequence[str], total: int) -> Picture:
    texts = [values.cut(box.mask(line), _MAX_LINE) for line in lines]
    title = f"{title}: {counted(total, 'line')}."
    return _draw(box, title, html.pre("\n".join(texts)), texts, _part(len(texts), total, "lines"))


def _draw_table(box: Toolbox, title: str, data: Any, total: int) -> Picture:
    """Draw a table in the first size that fits."""
    corner = _frame_corner(box, data) if is_frame(data) else _rows_corner(box, data)
    title = f"{title}: {counted(total, 'row')} × {counted(corner.total_columns, 'column')}."
    for max_columns, max_chars in _SIZES:
        index, *names = unique(
            [_INDEX, *(values.cut(name, max_chars) for name in corner.names[:max_columns])]
        )
        numbers = [name for at, name in enumerate(names) if at in corner.numbers]
        rows = [
            dict(zip(names, [values.cut(cell, max_chars) for cell in cells], strict=False))
            for cells in corner.cells
        ]
        columns = _part(len(names), corner.total_columns, "columns")
        if corner.labels:
            names, numbers = [index, *names], [index, *numbers]
            rows = [{index: label, **row} for label, row in zip(corner.labels, rows, strict=True)]
        part = ", ".join(filter(None, (_part(len(rows), total, "rows"), columns)))
        lines = [values.cut(line, _MAX_TEXT_LINE) for line in aligned(rows, names, numbers)]
        picture = _draw(box, title, html.table(rows, names, numbers=numbers), lines, part)
        if len(json.dumps(picture, ensure_ascii=False).encode("utf-8", "replace")) <= _MAX_BYTES:
            break
    return picture


def _frame_corner(box: Toolbox, data: Any) -> _Corner:
    """Take the corner of a frame that a picture may show; the rest of a wide frame would take
    seconds."""
    total_columns = data.shape[1] if data.ndim > 1 else 1
    part = data.iloc[:_MAX_ROWS, : _SIZES[0][0]] if data.ndim > 1 else data.iloc[:_MAX_ROWS]
    page = ResultTable(part, box.mask).page(TableQuery(), slice(0, _MAX_ROWS))
    names = [column["name"] for column in page["columns"]]
    numbers = {
        at for at, column in enumerate(page["columns"]) if column["kind"] in ("integer", "number")
    }
    # The index may be columns, too, which come in addition to those of the frame.
    extra = len(names) - (part.shape[1] if part.ndim > 1 else 1)
    labels = [] if extra else [str(row[0]) for row in page["rows"]]
    return _Corner(names, [row[1:] for row in page["rows"]], numbers, total_columns + extra, labels)


def _rows_corner(box: Toolbox, data: Sequence[Mapping[Any, Any]]) -> _Corner:
    rows = data[:_MAX_ROWS]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = keys[: _SIZES[0][0]]
    kinds = [column_kind([row.get(key) for row in rows]) for key in columns]
    present = ([cell for row in rows if not is_missing(cell := row.get(key))] for key in columns)
    shapes = [shape_of(cells, kind) for cells, kind in zip(present, kinds, strict=True)]
    cells = [
        [
            box.mask(shown_cell(row.get(key), shape))
            for key, shape in zip(columns, shapes, strict=True)
        ]
        for row in rows
    ]
    numbers = {at for at, kind in enumerate(kinds) if kind in ("integer", "number")}
    labels = [str(place) for place in range(len(rows))]
    return _Corner([box.mask(str(key)) for key in columns], cells, numbers, len(keys), labels)


def _part(count: int, total: int, noun: str) -> str:
    return f"{count:,} of {total:,} {noun}" if count < total else ""


def _draw(box: Toolbox, title: str, body: str, lines: Sequence[str], part: str) -> Picture:
    """Put a picture together. `part` says how much of the whole it shows, if not all."""
    title = box.mask(title)
    head = f'<div style="{html.EDGE};font-weight:600">{html.escape(title)}</div>'
    note = html.note(f"Shown: {part}. {_HINT}" if part else _HINT)
    texts = [title, *(f"  {line}" for line in lines), *([f"Shown: {part}."] if part else [])]
    page = f'<div class="otx-picture {html.AS_TEXT}">{_ALONE}{head}{body}{note}</div>'
    return Picture(page, printable("\n".join(texts)))


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
            send=lambda message: before_exit.send(lambda: self.send(message)),
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
        publish(
            {
                _WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id},
                "text/html": _LACKING,
            }
        )


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
        result = (
            None
            if isinstance(shown, str)
            else shown
            if isinstance(shown, ToolResult)
            else ToolResult(True, shown)
        )
        handle = shown if result is None else result.handle
        picture = result_picture(self._box, result, handle)
        return self._screen("result", {"handle": None if result else handle}, picture, result)

    def usage(self, period: str = "week", tool: str = "", since: str = "") -> Any:
        """The usage view of a period, or since a time such as `yesterday` or `3d`."""
        if period not in _PERIODS:
            raise UsageProblem(
                f"'{period}' is not a period.", hint=f"One of: {', '.join(_PERIODS)}."
            )
        options = {"period": period, "tool": tool, "since": since}
        return self._screen("usage", options, usage_picture(self._box, period, tool, since))

    def http_tool(self) -> Any:
        """The editor of a new HTTP tool."""
        return self._screen("http", {}, editor_picture(self._box))

    def close(self) -> None:
        """Close every screen; may be called twice."""
        while self._open:
            self._open.pop().close()

    def _screen(
        self, view: str, options: Json, picture: Picture, result: ToolResult | None = None
    ) -> Any:
        if getattr(self._shell, "kernel", None) is None:
            return Text(picture.text)
        return self._view(view, options, picture, result)

    def _view(self, view: str, options: Json, picture: Picture, result: ToolResult | None) -> Any:
        screen = View(
            self._box, self._shell, view=view, options=options, picture=picture, result=result
        )
        self._open.append(screen)
        return screen


# --- marimo, a notebook without IPython ---


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

    def _screen(
        self, view: str, options: Json, picture: Picture, result: ToolResult | None = None
    ) -> Any:
        return sys.modules["marimo"].ui.anywidget(self._view(view, options, picture, result))


class _Notebook:
    """The part of a shell that a view needs: the variables of the notebook."""

    @property
    def user_ns(self) -> dict[str, Any]:
        return vars(sys.modules["__main__"])
