"""Functions that can be sent to another process, for the tests of `batch_execute`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from onetool_ipy.sdk import call_tool, get_config, get_secret

__all__ = [
    "Odd",
    "ask_for_a_secret",
    "ask_for_a_tool",
    "ask_for_settings",
    "die_on_two",
    "give_a_lock",
    "give_a_pid",
    "hold_up",
    "meet",
    "raise_odd",
    "square",
]


class Odd(Exception):
    """An exception that pickles, and cannot be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one} {two}")


def square(value: int) -> int:
    if value == 13:
        raise ValueError("thirteen is refused")
    return value * value


def give_a_pid(value: int) -> str:
    return f"{value} in {os.getpid()}"


def raise_odd(value: int) -> None:
    raise Odd(value, value)


def give_a_lock(value: int) -> Any:
    return threading.Lock() if value == 2 else value


def die_on_two(value: int) -> int:
    if value == 2:
        os._exit(1)
    return value


def ask_for_a_secret(name: str) -> str | None:
    return get_secret(name)


def ask_for_settings(name: str) -> dict[str, Any]:
    return get_config(name)


def ask_for_a_tool(name: str) -> Any:
    return call_tool(name)


def meet(place: str) -> int:
    """Mark this process in a folder, and tell how many others are there now."""
    mine = os.path.join(place, f"{os.getpid()}-{threading.get_ident()}")
    with open(mine, "w", encoding="utf-8"):
        found = len(os.listdir(place))
    threading.Event().wait(0.05)  # so that they overlap
    found = max(found, len(os.listdir(place)))
    os.unlink(mine)
    return found


def hold_up(done: str) -> Callable[[int], int]:
    """A function made by another one, which cannot be pickled by name."""
    return lambda value: value + len(done)
