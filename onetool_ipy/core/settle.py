"""Turn what a function left unfinished (coroutine, generator, async generator) into its value or its values."""

from __future__ import annotations

import itertools
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from onetool_ipy.core.errors import CallCancelled, TooLarge
from onetool_ipy.core.failures import is_cancellation
from onetool_ipy.core.loop import Abandoned, too_late

__all__ = ["LAZY", "MAX_ITEMS", "Raised", "collected", "finished", "unstopped"]

MAX_ITEMS = 1_000_000
"""How many items of a generator are collected before it counts as endless."""

LAZY = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
"""The types of what is unfinished."""


class Raised(Exception):
    """Carries a BaseException that a tool raised to where its call ends.

    Raised as it is, asyncio and coroutines would take it for their own: SystemExit ends a loop, GeneratorExit a wait.
    """

    def __init__(self, inner: BaseException) -> None:
        super().__init__(inner)
        self.inner = inner


def collected(items: Iterator[Any]) -> list[Any]:
    """All items of a generator."""
    found = list(itertools.islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise _endless()
    return found


async def finished(begin: Callable[[], Any], limit_s: float | None) -> Any:
    """Begin async work and see it through; past the limit it is cancelled, and its late result is dropped."""
    if limit_s is None:
        return await _awaited(begin())
    import asyncio

    try:
        async with asyncio.timeout(limit_s) as limit:
            value = await _awaited(begin())
    except Exception as exc:
        if not limit.expired():
            raise  # the tool's own
        raise too_late(limit_s) from (None if isinstance(exc, TimeoutError) else exc)
    if limit.expired():
        raise too_late(limit_s)
    return value


async def _awaited(value: Any) -> Any:
    try:
        return await _settled(value)
    except Exception:
        raise
    except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
        raise _carried(exc) from None


async def _settled(value: Any) -> Any:
    if isinstance(value, types.GeneratorType):
        return collected(value)
    if isinstance(value, AsyncIterator):
        found = []
        async for item in value:
            found.append(item)
            if len(found) > MAX_ITEMS:
                raise _endless()
        return found
    return await value if hasattr(type(value), "__await__") else value


def unstopped(work: Callable[[], Any]) -> Any:
    """Do `work` in a thread where nobody presses Stop: an interrupt is the tool's own, and ends it alone."""
    try:
        return work()
    except Exception:
        raise
    except BaseException as exc:  # noqa: BLE001 - a tool may raise anything
        raise _carried(exc) from None


def _carried(exc: BaseException) -> BaseException:
    """What stands for a BaseException that came out of a tool where nobody presses Stop."""
    if isinstance(exc, KeyboardInterrupt):
        return CallCancelled("The tool raised KeyboardInterrupt.")
    return exc if isinstance(exc, Abandoned) or is_cancellation(exc) else Raised(exc)


def _endless() -> TooLarge:
    return TooLarge(f"The tool yields more than {MAX_ITEMS:,} items.", hint="Let it take a limit.")
