"""How long a test waits for what must come: a guard against a hang, and no promise of how fast a
machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["HANG_S", "until"]

HANG_S = 90.0


def until(is_so: Callable[[], object], limit_s: float = HANG_S) -> bool:
    """Look until something is so, which tells nobody when; True if it came to be."""
    end = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
