"""How many of what, in words: `1 call`, `2 calls`."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: float, noun: str) -> str:
    """A number with its noun, which takes an s where there is not exactly one."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
