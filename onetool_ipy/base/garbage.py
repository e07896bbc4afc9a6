"""Pause Python's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["set_aside"]


@contextmanager
def set_aside() -> Iterator[None]:
    """Pause the garbage collector. Building many objects that all stay is about a quarter faster without it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
