"""The failure of a call: from whatever a tool raised to the data in its result, without secrets."""

from __future__ import annotations

import types
from collections.abc import Callable

from onetool_ipy.base import values
from onetool_ipy.base.errors import CallFailure, chain
from onetool_ipy.core.result import Failure, ToolCallError

Mask = Callable[[str], str]

_OURS = tuple(f"onetool_ipy.{room}" for room in ("base.", "core.", "schema.", "sources.", "mcp.", "toolbox"))
_PLUMBING = ("concurrent.futures", "asyncio", "threading", "contextvars")


def failure_of(exc: BaseException, tool: str, mask: Mask) -> Failure:
    """Return the failure of a call that raised `exc`. A failed call inside the tool passes its reason on."""
    for link in chain(exc):
        attributes: list[tuple[str, object]] = [("args", link.args), *vars(link).items()]
        if isinstance(link, OSError):
            attributes += [(name, getattr(link, name)) for name in ("filename", "filename2", "strerror")]
        for name, value in attributes:
            try:
                changed = values.map_text(value, mask)
                if changed is not value:
                    setattr(link, name, changed)
            except Exception:  # noqa: BLE001 - an exception class may forbid it; what is shown is masked again
                continue
    if isinstance(exc, CallFailure):
        return Failure.of(exc, tool)
    if isinstance(exc, ToolCallError):
        inner = exc.error
        reason = inner.reason if inner.code == "execution_error" else None
        text = inner.message if inner.tool in (tool, "") else f"in '{inner.tool}': {inner.message}"
        return Failure("execution_error", text, tool, reason, inner.details, inner.hint, inner.status, exc)
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    name = type(exc).__name__
    return Failure("execution_error", mask(f"{name}: {text}" if text else name), tool, exception=exc)


def own_frames(exc: BaseException) -> types.TracebackType | None:
    """Return the traceback of a tool's exception from the tool's first frame on, without our frames above it."""
    frame = exc.__traceback__
    while frame is not None and str(frame.tb_frame.f_globals.get("__name__", "")).startswith((*_OURS, *_PLUMBING)):
        frame = frame.tb_next
    return frame or exc.__traceback__
