"""How a face sees a call that a person made: when it begins, what it says of its progress, how it ends.

`Toolbox.watch` is asked once for each call that no other call made; what it gives hears of that call. The progress of
tools that the tool calls goes to the same listener. Where nobody watches, a call pays one look at an attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from onetool_ipy.core.executor import Executor
from onetool_ipy.core.model import ToolCall, ToolResult

__all__ = ["Watch", "Watcher", "acall", "call"]


class Watch(Protocol):
    """Hears of one call."""

    def heard(self, done: float, total: float | None, text: str) -> None:
        """The tool says how far it is; in any thread, as often as it likes."""

    def ended(self, ok: bool) -> None:
        """The call has given its result."""

    def stopped(self, exc: BaseException) -> BaseException:
        """The call was stopped by this exception; give what the caller is to see of it."""


Watcher = Callable[[ToolCall], Watch | None]
"""Gives who wants to hear of a call, if anybody does."""


def call(
    watch: Watch, executor: Executor, made: ToolCall, timeout_s: float | None, allow: Sequence[str] | None
) -> ToolResult:
    """Run a call that is watched."""
    try:
        result = executor.call(made, timeout_s=timeout_s, allow=allow, heard=watch.heard)
    except BaseException as exc:  # noqa: BLE001 - it is raised, as the face wants it seen
        raise _seen(watch, exc) from None
    watch.ended(result.ok)
    return result


async def acall(
    watch: Watch, executor: Executor, made: ToolCall, timeout_s: float | None, allow: Sequence[str] | None
) -> ToolResult:
    """`call` without blocking the event loop."""
    try:
        result = await executor.acall(made, timeout_s=timeout_s, allow=allow, heard=watch.heard)
    except BaseException as exc:  # noqa: BLE001 - it is raised, as the face wants it seen
        raise _seen(watch, exc) from None
    watch.ended(result.ok)
    return result


def _seen(watch: Watch, exc: BaseException) -> BaseException:
    seen = watch.stopped(exc)
    return seen.with_traceback(exc.__traceback__)
