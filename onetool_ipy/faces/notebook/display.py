"""What a cell shows: a result as text, HTML or an image, with the call that gave it in the
metadata; or an error.

Data with its own representation (a DataFrame, a figure) is shown by that; everything else by
`render.result`. A result that is cut is stored, and the line below it gives the handle. An error is
a few accurate lines; for a tool's own code its frames and none of ours. The last failure is kept
for `why`; `%debug` opens in the tool's own frame. Everything shown is masked.
"""

from __future__ import annotations

import base64
import binascii
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol

from onetool_ipy.base import tables
from onetool_ipy.base.background import outcome
from onetool_ipy.base.errors import OneToolError, ToolCallError
from onetool_ipy.base.printable import printable
from onetool_ipy.base.tables import is_frame
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import LinePage, ToolResult, own_frames
from onetool_ipy.render import html
from onetool_ipy.render.media import OWN_TYPES, Image, type_of
from onetool_ipy.render.result import DisplayLimits, note_line, show
from onetool_ipy.render.views import counted
from onetool_ipy.stores.result_lines import rows_of
from onetool_ipy.toolbox import Toolbox

_OWN_METHODS = ("_repr_html_", "_repr_mimebundle_", "_repr_png_", "_repr_svg_")
_MAX_OWN = 200_000
_OWN_ROWS = 10
"""Rows that other libraries show of a table; the line below a longer one leads to all of them."""
_PATIENCE_S = 0.3
"""How long a cell waits until a result is on disk; a table of 100,000 rows is, on most machines."""
_OURS = ("onetool_ipy.", "IPython.core.interactiveshell")


class CellLimits(Protocol):
    """How much of a result a cell shows, as `%config OneTool` says."""

    max_lines: int
    max_chars: int


class CellOptions(CellLimits, Protocol):
    """All that `%config OneTool` says about the calls of a notebook."""

    soft: bool

    @property
    def timeout(self) -> float | None: ...


def bundle(shell: Any, box: Toolbox, result: ToolResult, limits: CellLimits) -> tuple[Json, Json]:
    """The MIME bundle of a result, and its metadata. Lines below say what is cut, and what is to be
    known of it."""
    meta: Json = {
        key: result.meta[key]
        for key in ("tool", "call_id", "duration_ms", "handle")
        if key in result.meta
    }
    about = {"onetool": meta}
    bodies, part = _bodies(shell, result, limits)
    below: list[tuple[str, str]] = []
    if part:
        handle = meta.get("handle")
        try:
            handle = meta["handle"] = store_result(box, result)
            note = (
                f"{part} · open in viewer: ot.view('{handle}') · by line:"
                f" ot.result(handle='{handle}')"
            )
        except OneToolError as exc:
            result.meta["not_stored"] = meta["not_stored"] = box.mask(exc.message)
            note = f"{part} · all of it is in .data of the result (not stored: {exc.message})"
        below.append((f"... {note}", html.viewer_note(note, handle) if handle else html.note(note)))
    if note := note_line(result.meta):
        below.append((note, html.note(note)))
    for text, as_html in below:
        for mime, more in (("text/plain", f"\n{text}"), ("text/html", as_html)):
            if mime in bodies:
                bodies[mime] += more
    # The bytes of an image hold no text.
    plain = {
        mime for mime, body in bodies.items() if isinstance(body, str) and mime not in OWN_TYPES
    }
    bodies = {mime: box.mask(body) if mime in plain else body for mime, body in bodies.items()}
    if "text/plain" in bodies:
        bodies["text/plain"] = printable(bodies["text/plain"])
    return bodies, about


def _bodies(shell: Any, result: ToolResult, limits: CellLimits) -> tuple[Json, str]:
    """Return what a cell shows by MIME type, and which part of the whole that is, if not all of
    it."""
    if result.error is not None:
        text = "\n".join([f"failed: {result.error.message}", *result.error.hint.splitlines()])
        return {"text/plain": text, "text/html": html.pre(text)}, ""
    image = _image(result.data)
    if image is not None:
        return {
            "text/plain": f"<{image[0]}, {len(image[1]) * 3 // 4:,} bytes>",
            image[0]: image[1],
        }, ""
    data = result.data
    bounds = DisplayLimits(limits.max_lines, limits.max_chars)
    # Nearly every result: neither is a table, nor draws itself.
    if type(data) is str or type(data) is dict:
        rendered = show(data, bounds)
        return {"text/plain": rendered.text, "text/html": rendered.html}, rendered.cut
    table = tables.tabular(result.portable)
    # An object that draws itself does so; a table of another library may only have text.
    if not any(hasattr(type(data), name) for name in _OWN_METHODS):
        data = table
    part = _cut_by_pandas(data)
    if data is not table and tables.is_frame(table) and len(table) > _OWN_ROWS:
        part = counted(len(table), "row")
    if any(hasattr(type(data), name) for name in _OWN_METHODS):
        own = _own_bundle(shell, data, is_cut=bool(_cut_by_pandas(data)))
        if own is not None:
            return own, part
    rendered = show(data, bounds)
    return {"text/plain": rendered.text, "text/html": rendered.html}, rendered.cut or part


def _cut_by_pandas(data: Any) -> str:
    """Which part of a table pandas shows by its own settings; empty if all of it."""
    if not is_frame(data):
        return ""
    option = sys.modules["pandas"].get_option
    parts, is_cut = [], False
    for count, axis in zip(data.shape, ("rows", "columns"), strict=False):
        most = option(f"display.max_{axis}")
        is_over = bool(most) and count > most
        few = min(most, option("display.min_rows") or most) if is_over and axis == "rows" else most
        parts.append(f"{few:,} of {count:,} {axis}" if is_over else counted(count, axis[:-1]))
        is_cut |= is_over
    return " × ".join(parts) if is_cut else ""


def page_bundle(page: LinePage) -> dict[str, str]:
    """Lines of a result as rows of a table, if they are rows; else with their numbers. The lines
    are masked already."""
    first = page["offset"]
    numbers = page.get("line_numbers") or range(first, first + page["returned"])
    rows = rows_of(page["lines"])
    noun = "row" if rows or (not page["lines"] and page.is_of_rows) else "line"
    note = f"{page.get('matched', page['returned']):,} of {counted(page['total_lines'], noun)}"
    if page["has_more"]:
        rest = f"offset={first + page['returned']}"
        note += (
            f", {page['returned']:,} shown · all of them: .df"
            if "matched" in page
            else f" · more with {rest}"
        )
    if not page["lines"]:
        return {"text/plain": note, "text/html": html.note(note)}
    if rows:
        rendered = show(rows, DisplayLimits(rows=len(rows)))
        return {
            "text/plain": printable(f"{rendered.text}\n... {note}"),
            "text/html": rendered.html + html.note(note),
        }
    text = "\n".join(
        f"{number:>6,}  {line}" for number, line in zip(numbers, page["lines"], strict=False)
    )
    numbered = html.numbered(zip(numbers, page["lines"], strict=False))
    return {"text/plain": printable(f"{text}\n... {note}"), "text/html": numbered + html.note(note)}


def store_result(box: Toolbox, result: ToolResult) -> str:
    """Return the handle of a result, storing it if needed, so that it works in other kernels and
    after a restart."""
    if result.handle is not None:
        return result.handle
    call_id, tool = str(result.meta.get("call_id", "")), str(result.meta.get("tool", ""))
    handle = box.results.keep(result.portable, tool=tool, call_id=call_id)
    # The value is written at once where that is quick, else in the background. A disk that says no
    # at once raises StoreError. A value that the notebook changes meanwhile stays in memory, and is
    # written when it is read.
    writing = box.workers.submit(partial(box.results.store, handle)).future
    with suppress(TimeoutError, RuntimeError):
        outcome(writing, _PATIENCE_S)
    result.meta["handle"] = handle
    if call_id:
        box.log.attach(call_id, handle)
    return handle


def _image(data: object) -> tuple[str, str] | None:
    """The type and the base64 text of an image: bytes, or the body of an HTTP response as a tool
    gives it."""
    if isinstance(data, dict) and data.keys() == {"mime", "base64", "size"}:
        raw = decoded(data["base64"])
        mime_bundle = Image(str(data["mime"]), raw)._repr_mimebundle_() if raw else {}
        return next(
            ((mime, body) for mime, body in mime_bundle.items() if mime.startswith("image/")), None
        )
    if not isinstance(data, (bytes, bytearray)):
        return None
    raw = bytes(data)
    kind = type_of(raw[:12])
    return (kind, base64.b64encode(raw).decode("ascii")) if kind in OWN_TYPES else None


def decoded(text: str) -> bytes:
    """The bytes of base64 text; none where it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def _own_bundle(shell: Any, data: object, *, is_cut: bool) -> Json | None:
    """The shell's own representation of the data; None if it has none or is too large."""
    # The line below a table says how many rows there are; that of pandas would say it again,
    # without commas.
    with (
        sys.modules["pandas"].option_context("display.show_dimensions", False)
        if is_cut
        else nullcontext()
    ):
        bodies = _formatted(shell.display_formatter, data)
    rich = [mime for mime in bodies if mime != "text/plain" and mime != "application/json"]
    if sum(len(body) for body in bodies.values() if isinstance(body, str)) > _MAX_OWN:
        # A large figure has its data twice: as itself, and in a page for what cannot draw it.
        rich = [mime for mime in rich if not isinstance(bodies[mime], str)]
    if not rich:
        return None
    if is_frame(data) and "text/html" in bodies:
        bodies["text/html"] = html.as_text(bodies["text/html"])
    return {mime: bodies[mime] for mime in ("text/plain", *rich) if mime in bodies}


def _formatted(formatter: Any, data: object) -> Json:
    """Return what IPython would show of the data, in one piece.

    A figure of plotly would show itself (`_ipython_display_`) before our text about it; its bundle
    is the same figure.
    """
    shows_itself = formatter.ipython_display_formatter
    was_enabled, shows_itself.enabled = shows_itself.enabled, False
    try:
        bodies: Json = formatter.format(data)[0]
    finally:
        shows_itself.enabled = was_enabled
    return bodies


class LastFailure:
    """The last failure in this shell, for `%tool history why`. Renders exceptions of tools
    without our frames."""

    def __init__(self, shell: Any, mask: Callable[[str], str]) -> None:
        self._shell = shell
        self._mask = mask
        self.failed: ToolResult | BaseException | None = None

    def remember(self, failed: ToolResult | BaseException) -> None:
        """Remember a failed call, or an exception outside of one."""
        self.failed = failed

    def style(self, exc: BaseException, *, since: str = "") -> None:
        """Make a tool's or snippet's own exception show only its own frames, from the file `since`
        on."""
        if not (
            isinstance(self.failed, ToolResult)
            and self.failed.error
            and self.failed.error.exception is exc
        ):
            self.remember(exc)
        self.hide_our_frames(exc, since=since)

    def hide_our_frames(self, exc: BaseException, *, since: str = "") -> None:
        """Make an exception show no frame of ours, and only those from the file `since` on."""

        def lines() -> list[str]:
            # The frames are shown from the first one in the file `since` on; all of them if none is
            # in it.
            frame = exc.__traceback__
            while frame is not None and frame.tb_frame.f_code.co_filename != since:
                frame = frame.tb_next
            return self.render(exc, frame or exc.__traceback__)

        with suppress(AttributeError, TypeError):  # an exception class with slots is shown as usual
            exc._render_traceback_ = lines  # type: ignore[attr-defined]  # IPython's protocol

    def render(self, exc: BaseException, frames: types.TracebackType | None = None) -> list[str]:
        """The lines IPython would show, without our frames and without secrets."""
        own = foreign_frames(frames or exc.__traceback__)
        if isinstance(exc, BaseExceptionGroup):
            lines = "".join(traceback.format_exception(type(exc), exc, own)).split("\n")
            return [printable(self._mask(line)) for line in lines]
        formatter = self._shell.InteractiveTB
        coloured = formatter.structured_traceback(type(exc), exc, own, tb_offset=0)
        theme = formatter._theme_name
        formatter.set_theme_name("nocolor")
        try:
            plain: list[str] = formatter.structured_traceback(type(exc), exc, own, tb_offset=0)
        finally:
            formatter.set_theme_name(theme)
        # Escapes of the tool are not to be told from IPython's.
        if any(printable(line) != line for line in plain):
            return [printable(self._mask(line)) for line in plain]
        return [self._mask(line) for line in coloured]


def raise_result(result: ToolResult, last: LastFailure) -> NoReturn:
    """Raise a failed result as ToolCallError: with the frames of the tool's own exception, or as a
    few lines."""
    assert result.error is not None
    own = result.error.exception
    last.remember(result)
    if own is None or isinstance(own, OneToolError):
        raise ToolCallError(result)
    frames = own_frames(own)
    where = f"in tool '{result.error.tool}' (more: %tool history why, %debug)"
    lines = [*last.render(own, frames), where]
    failure = replace(result.error, message=printable(result.error.message))
    raise ToolCallError(ToolResult(False, result.data, failure, result.meta), lines).with_traceback(
        frames
    )


def foreign_frames(frames: types.TracebackType | None) -> types.TracebackType | None:
    """The same traceback without our frames, and without those of IPython above the cell."""
    kept = []
    while frames is not None:
        if not str(frames.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
            kept.append(frames)
        frames = frames.tb_next
    rebuilt: types.TracebackType | None = None
    for frame in reversed(kept):
        rebuilt = types.TracebackType(rebuilt, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rebuilt
