"""Errors in a cell: a few accurate lines; for a tool's own code its frames and none of ours.

Everything shown is masked. The last failure is kept for `why`; `%debug` opens in the tool's own frame.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

from onetool_ipy.base.errors import OneToolError
from onetool_ipy.base.printable import printable
from onetool_ipy.core.result import ToolCallError, ToolResult, own_frames

_OURS = ("onetool_ipy.", "IPython.core.interactiveshell")


class LastFailure:
    """The last failure in this shell, for `%tool why`. Renders exceptions of tools without our frames."""

    def __init__(self, shell: Any, mask: Callable[[str], str]) -> None:
        self._shell = shell
        self._mask = mask
        self.failed: ToolResult | BaseException | None = None

    def remember(self, failed: ToolResult | BaseException) -> None:
        """Remember a failed call, or an exception outside of one."""
        self.failed = failed

    def style(self, exc: BaseException, *, since: str = "") -> None:
        """Make a tool's or snippet's own exception show only its own frames, from the file `since` on."""
        if not (isinstance(self.failed, ToolResult) and self.failed.error and self.failed.error.exception is exc):
            self.remember(exc)

        def lines() -> list[str]:
            # The frames are shown from the first one in the file `since` on; all of them if none is in it.
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
        if any(printable(line) != line for line in plain):  # escapes of the tool are not to be told from IPython's
            return [printable(self._mask(line)) for line in plain]
        return [self._mask(line) for line in coloured]


def raise_result(result: ToolResult, last: LastFailure) -> NoReturn:
    """Raise a failed result as ToolCallError: with the frames of the tool's own exception, or as a few lines."""
    assert result.error is not None
    own = result.error.exception
    last.remember(result)
    if own is None or isinstance(own, OneToolError):
        raise ToolCallError(result)
    frames = own_frames(own)
    lines = [*last.render(own, frames), f"in tool '{result.error.tool}' (more: %tool why, %debug)"]
    failure = replace(result.error, message=printable(result.error.message))
    raise ToolCallError(ToolResult(False, result.data, failure, result.meta), lines).with_traceback(frames)


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
