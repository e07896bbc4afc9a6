"""`${NAME}`: find it and fill it. `$${` is a literal `${`. Pure text in, text out.

A NAME is letters, digits and `_`, not beginning with a digit. Anything else after `${` is a fault, so that a typing
error never travels on as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["BadTemplate", "UnknownName", "fill"]

_PLACE = r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)\})?"


class BadTemplate(ValueError):
    """Text whose `${` is not followed by `NAME}`."""


class UnknownName(LookupError):
    """A name that neither the secrets nor the environment have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def fill(text: str, get: Callable[[str], str | None]) -> str:
    """Replace every `${NAME}` by `get(NAME)`; raise UnknownName or BadTemplate."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match[1]
        if name is None:
            raise BadTemplate(text)
        found = get(name)
        if found is None:
            raise UnknownName(name)
        return found

    return re.sub(_PLACE, value, text)
