"""ToolResult -> what a cell shows: text/plain, text/html or an image, and where it came from in the metadata.

A result whose data has a look of its own (a DataFrame, a figure) shows that; everything else is `render.result`. What
is cut gets a handle at once, and the line below says how to get the rest. Everything shown is masked.
"""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any, Protocol

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.printable import printable
from onetool_ipy.core.result import ToolResult
from onetool_ipy.render import html
from onetool_ipy.render.result import Bounds, Shown, mismatch_line, show
from onetool_ipy.render.views import Text as Page

if TYPE_CHECKING:
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Limits", "Page", "bundle"]

_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_OWN_LOOK = ("_repr_html_", "_repr_mimebundle_", "_repr_png_", "_repr_svg_")
_MAX_OWN = 200_000


class Limits(Protocol):
    """How much of a result a cell shows; `%config OneTool` sets it."""

    max_lines: int
    max_chars: int


def bundle(shell: Any, box: Toolbox, result: ToolResult, limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    """The MIME bundle of a result, and its metadata: which call gave it. What does not fit is told below it."""
    shown, about = _bundle(shell, box, result, limits)
    said = box.mask(mismatch_line(result.meta))
    if said:
        below = {"text/plain": f"\n{said}", "text/html": html.note(said)}
        shown = {mime: body + below[mime] if mime in below else body for mime, body in shown.items()}
    if "text/plain" in shown:
        shown["text/plain"] = printable(shown["text/plain"])
    return shown, about


def _bundle(shell: Any, box: Toolbox, result: ToolResult, limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    meta = {key: result.meta[key] for key in ("tool", "call_id", "duration_ms", "handle") if key in result.meta}
    about = {"onetool": meta}
    if result.error is not None:
        lines = [f"failed: {result.error.message}", *result.error.hint.splitlines()]
        text = box.mask("\n".join(lines))
        return {"text/plain": text, "text/html": html.pre(text)}, about
    image = _image(result.data)
    if image is not None:
        return {"text/plain": f"<{image[0]}, {len(result.data):,} bytes>", image[0]: image[1]}, about
    if any(hasattr(type(result.data), name) for name in _OWN_LOOK):
        own = _own_look(shell, box, result.data)
        if own is not None:
            return _kept_table(box, result, own, about), about
    shown = show(result.data, Bounds(limits.max_lines, limits.max_chars))
    if not shown.cut:
        whole = {"text/plain": box.mask(shown.text), "text/html": box.mask(shown.html)}
        return _kept_table(box, result, whole, about), about
    return _cut(box, result, shown, about)


def _cut(
    box: Toolbox, result: ToolResult, shown: Shown, about: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Show a part, and below it how to get the rest."""
    said = _rest(box, result, shown.cut, about)
    text = f"{shown.text}\n... {said}"
    return {"text/plain": box.mask(text), "text/html": box.mask(shown.html + html.note(said))}, about


def _rest(box: Toolbox, result: ToolResult, cut: str, about: dict[str, Any]) -> str:
    """How much is shown and how to get the rest; where it cannot be stored, why not."""
    try:
        handle = keep(box, result)
    except OneToolError as exc:
        result.meta["not_stored"] = about["onetool"]["not_stored"] = box.mask(exc.message)
        return f"{cut} · all of it: .data (not stored: {exc.message})"
    about["onetool"]["handle"] = handle
    return f"{cut} · all of it: .data, or ot.result(handle='{handle}')"


def _kept_table(box: Toolbox, result: ToolResult, own: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The look of a table, which pandas may have cut."""
    cut = _cut_by_pandas(result.data)
    if not cut:
        return own
    said = box.mask(_rest(box, result, cut, about))
    below = {"text/plain": f"\n... {said}", "text/html": html.note(said)}
    return {mime: body + below[mime] if mime in below else body for mime, body in own.items()}


def _cut_by_pandas(data: Any) -> str:
    """How much of a table pandas shows by its own settings, where that is not all."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, (pandas.DataFrame, pandas.Series)):
        return ""
    most = pandas.get_option("display.max_rows"), pandas.get_option("display.max_columns")
    wide = zip(data.shape, most, ("rows", "columns"), strict=False)
    over = [f"{count:,} {what}" for count, limit, what in wide if limit and count > limit]
    return f"a part of {' and '.join(over)}" if over else ""


def keep(box: Toolbox, result: ToolResult) -> str:
    """The handle of a result, given now if it has none; text is written at once, objects when they are asked for."""
    if result.handle is not None:
        return result.handle
    call_id, tool = str(result.meta.get("call_id", "")), str(result.meta.get("tool", ""))
    handle = box.results.keep(result.data, tool=tool, call_id=call_id)
    result.meta["handle"] = handle
    if call_id:
        box.log.attach(call_id, handle)
    return handle


def _image(data: Any) -> tuple[str, str] | None:
    if not isinstance(data, (bytes, bytearray)):
        return None
    raw = bytes(data)
    kind = next((mime for magic, mime in _IMAGES.items() if raw.startswith(magic)), None)
    return None if kind is None else (kind, base64.b64encode(raw).decode("ascii"))


def _own_look(shell: Any, box: Toolbox, data: Any) -> dict[str, Any] | None:
    """What the shell would show of the data itself, where that is not too much."""
    found, _ = shell.display_formatter.format(data)
    looks = {mime: box.mask(body) if isinstance(body, str) else body for mime, body in found.items()}
    rich = [mime for mime in looks if mime != "text/plain" and mime != "application/json"]
    if not rich or sum(len(body) for body in looks.values() if isinstance(body, str)) > _MAX_OWN:
        return None
    return {mime: looks[mime] for mime in ("text/plain", *rich) if mime in looks}
