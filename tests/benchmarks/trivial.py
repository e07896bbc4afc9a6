"""The trivial tool that every contender of row 1 calls. Standard library only, since workers
elsewhere import it."""

from __future__ import annotations

from typing import Any

__all__ = ["ARGS", "SCHEMA", "add"]

ARGS: dict[str, Any] = {"a": 1, "b": 2}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
