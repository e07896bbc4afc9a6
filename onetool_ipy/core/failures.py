"""A tool's exception -> Failure: its words with secrets masked, its traceback without our frames. Never raises."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import CallFailure, ToolCallError
from onetool_ipy.core.model import Failure, ToolResult

__all__ = ["failure_of", "is_cancellation", "is_passing", "own_frames"]

Mask = Callable[[str], str]

_OURS = ("onetool_ipy.core.", "onetool_ipy.sources.", "onetool_ipy.toolbox")
_PLUMBING = ("concurrent.futures", "asyncio", "threading", "contextvars")
_PASSING_REASONS = ("timeout", "unavailable", "rate_limited", "cancelled")
_PASSING_STATUS = (408, 425, 429, 500, 502, 503, 504)
_PASSING_KINDS = frozenset(("ConnectionError", "TimeoutError", "TransportError", "Broken", "gaierror"))
"""Classes by name, since those of httpx and of `net` are not to be loaded for this."""


def failure_of(exc: BaseException, tool: str, mask: Mask) -> Failure:
    """What a call that raised `exc` gives. A failed call inside the tool hands its reason on."""
    _scrub(exc, mask)
    if isinstance(exc, CallFailure):
        return Failure.of(exc, tool)
    if isinstance(exc, ToolCallError):
        inner = exc.error
        reason = inner.reason if inner.code == "execution_error" else None
        text = inner.message if inner.tool in (tool, "") else f"in '{inner.tool}': {inner.message}"
        return Failure("execution_error", text, tool, reason, inner.details, inner.hint, inner.status, exc)
    return Failure("execution_error", mask(_say(exc)), tool, exception=exc)


def is_passing(result: ToolResult) -> bool:
    """Whether a failed call may go well if it is tried again: a time-out, no connection, 429 or 5xx from upstream."""
    error = result.error
    if error is None or error.code != "execution_error":
        return False
    if error.reason in _PASSING_REASONS or result.meta.get("status") in _PASSING_STATUS:
        return True
    kinds = {kind.__name__ for kind in type(error.exception).__mro__}
    return bool(kinds & _PASSING_KINDS)


def is_cancellation(exc: BaseException) -> bool:
    """Whether this is asyncio's CancelledError; where asyncio was never loaded there is none."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(exc, asyncio.CancelledError)


def own_frames(exc: BaseException) -> types.TracebackType | None:
    """The traceback of a tool's exception from the tool's first frame on, without ours above it."""
    frame = exc.__traceback__
    while frame is not None and _is_above_the_tool(frame):
        frame = frame.tb_next
    return frame or exc.__traceback__


def _is_above_the_tool(frame: types.TracebackType) -> bool:
    return str(frame.tb_frame.f_globals.get("__name__", "")).startswith((*_OURS, *_PLUMBING))


def _say(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def _scrub(exc: BaseException, mask: Mask) -> None:
    """Mask secrets in the words of an exception and of all that led to it; where there are none, nothing is touched."""
    for link in _chain(exc):
        with suppress(Exception):  # an exception class may forbid any of it; what is shown is masked again
            masked = values.map_text(link.args, mask)
            if masked is not link.args:
                link.args = masked
        for name, value in _attributes(link):
            with suppress(Exception):
                changed = values.map_text(value, mask)
                if changed is not value:
                    setattr(link, name, changed)


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """An exception with its causes, contexts and members, each once."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        link = todo.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        todo += [link.__cause__, link.__context__]
        if isinstance(link, BaseExceptionGroup):
            todo += link.exceptions


def _attributes(exc: BaseException) -> list[tuple[str, Any]]:
    found = list(vars(exc).items())
    if isinstance(exc, OSError):
        found += [(name, getattr(exc, name)) for name in ("filename", "filename2", "strerror")]
    return found
