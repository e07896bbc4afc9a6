"""Results that are kept by reference until somebody asks for their lines.

Owns which objects are held and for how long: the newest 32, and of those only as many as weigh 256 MB together, by
estimate; the newest one always. What has to go is handed back to be written. A heavy object that allows it is held
weakly instead, so that nobody waits for a write he did not ask for: while its owner has it, its handle works.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from itertools import islice
from typing import Any

from onetool_ipy.config.value import Value

__all__ = ["Kept", "KeptResults", "estimate"]

_MOST = 32
_MOST_BYTES = 256 * 1024 * 1024
_MOST_WEAK = 1_000
_HEAVY = 16 * 1024 * 1024
_SAMPLE = 50
_UNKNOWN = 1_000
_CONTAINERS = (list, tuple, dict, set, frozenset)
_KNOWN = (*_CONTAINERS, str, bytes, int, float)


class Kept(Value):
    """An object and what is known of the call that gave it; `get` gives it, or None if its owner let go of it."""

    get: Callable[[], Any]
    weight: int
    tool: str
    call_id: str
    created_ns: int


class KeptResults:
    """Objects by handle, oldest first."""

    def __init__(self) -> None:
        self._strong: dict[str, Kept] = {}
        self._weak: dict[str, Kept] = {}

    def add(self, handle: str, value: Any, *, tool: str, call_id: str, created_ns: int) -> None:
        self._strong[handle] = Kept(lambda: value, estimate(value), tool, call_id, created_ns)

    def find(self, handle: str) -> Kept | None:
        return self._strong.get(handle) or self._weak.get(handle)

    def drop(self, handle: str) -> bool:
        """Forget an object, and say whether it was there."""
        return (self._strong.pop(handle, None) or self._weak.pop(handle, None)) is not None

    def too_many(self) -> list[str]:
        """Handles, oldest first, that have to be written and dropped; heavy ones are held weakly from now on."""
        out = []
        weight = sum(kept.weight for kept in self._strong.values())
        spare = len(self._strong) - _MOST
        for handle, kept in list(self._strong.items())[:-1]:
            if spare <= 0 and weight <= _MOST_BYTES:
                break
            spare, weight = spare - 1, weight - kept.weight
            if not (kept.weight >= _HEAVY and self._weaken(handle, kept)):
                out.append(handle)
        return out

    def items(self) -> list[tuple[str, Kept]]:
        """What is held and still there."""
        held = [*self._weak.items(), *self._strong.items()]
        return [(handle, kept) for handle, kept in held if kept.get() is not None]

    def clear(self) -> None:
        self._strong.clear()
        self._weak.clear()

    def _weaken(self, handle: str, kept: Kept) -> bool:
        try:
            reference = weakref.ref(kept.get())
        except TypeError:
            return False
        self._weak[handle] = Kept(reference, kept.weight, kept.tool, kept.call_id, kept.created_ns)
        self._strong.pop(handle, None)
        for oldest in list(self._weak)[:-_MOST_WEAK]:
            self._weak.pop(oldest, None)
        return True


def estimate(value: Any, depth: int = 0) -> int:
    """About how many bytes an object takes, from a sample of what is in it; strangers are not asked."""
    if type(value).__module__.partition(".")[0] in ("pandas", "numpy"):
        return _array_size(value)
    if not isinstance(value, _KNOWN):
        return _UNKNOWN
    size = sys.getsizeof(value)
    if depth > 5 or not isinstance(value, _CONTAINERS) or not value:
        return size
    inside = value.items() if isinstance(value, dict) else value
    sample = [estimate(item, depth + 1) for item in islice(inside, _SAMPLE)]
    return size + sum(sample) * len(value) // len(sample)


def _array_size(value: Any) -> int:
    if hasattr(value, "memory_usage"):
        used = value.memory_usage()
        return int(used.sum() if hasattr(used, "sum") else used)
    return int(getattr(value, "nbytes", _UNKNOWN))
