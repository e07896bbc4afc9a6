"""What one value of the settings may be: each kind takes a plain value and gives the checked one, or raises Wrong.

Pure, and without knowledge of files: the words of a Wrong follow the value in a message ("'abc' is not a number").
Text that came out of `${NAME}` is read as a number or boolean where one is wanted, since a template is always text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = [
    "Kind",
    "Wrong",
    "boolean",
    "choice",
    "header",
    "host",
    "number",
    "scalar_text",
    "text",
    "texts",
    "variable",
    "whole",
]

Kind = Callable[[Any], Any]

_YES = frozenset(("true", "yes", "on"))
_NO = frozenset(("false", "no", "off"))
_HOST = r"(?:(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"


class Wrong(ValueError):
    """Why a value does not fit; `hint` says what to write instead."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def text(value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str):
        raise Wrong("is not text", "Put it in quotes." if _is_number(value) else "")
    if not value.strip():
        raise Wrong("is empty")
    return value


def scalar_text(value: Any) -> str:
    """Text, or a number or boolean as text: arguments and environment of a command."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Wrong("is not text")


def header(value: Any) -> str:
    """The value of an HTTP header: one line of Latin-1."""
    found = scalar_text(value)
    if not found.isprintable() or any(ord(c) > 255 for c in found):
        raise Wrong("is not a header's value", "Use one line of plain letters.")
    return found


def variable(value: Any) -> str:
    """The name of an environment variable."""
    found = text(value)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found):
        raise Wrong("is not the name of an environment variable", "Write only the name, such as HTTP_PROXY.")
    return found


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; one text alone is a list of one."""
    if isinstance(value, str):
        return (text(value),)
    if not isinstance(value, list):
        raise Wrong("is not a list of texts")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise Wrong("is not a list of texts")
    return tuple(value)


def boolean(value: Any) -> bool:
    """true or false; yes, no, on and off are understood too, since other YAML readers do."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in _YES or word in _NO:
        return word in _YES
    raise Wrong("is not true or false")


def number(*, least: float = 0, most: float = 1e15, above: bool = False) -> Kind:
    """A number from `least` (or `above` it) to `most`."""

    def check(value: Any) -> float:
        found = _from_text(value, float)
        if not _is_number(found):
            raise Wrong("is not a number")
        return _ranged(found, least, most, above)

    return check


def whole(*, least: int = 0, most: int = 10**15) -> Kind:
    """A whole number from `least` to `most`."""

    def check(value: Any) -> int:
        found = _from_text(value, int)
        if not _is_number(found) or found != int(found):
            raise Wrong("is not a whole number")
        return int(_ranged(found, least, most, above=False))

    return check


def choice(*words: str) -> Kind:
    """One of these words."""

    def check(value: Any) -> str:
        if value in words and isinstance(value, str):
            return value
        from onetool_ipy.core.match import did_you_mean

        near = did_you_mean(value, words) if isinstance(value, str) else ""
        raise Wrong(f"is not one of {', '.join(words)}", near)

    return check


def host(value: Any) -> str:
    """`name`, `*.domain` or `[ipv6]`, each with an optional port."""
    found = text(value)
    match = re.fullmatch(_HOST, found)
    if match is None or int(match["port"] or 0) > 65535:
        raise Wrong("is not a host", "Write only the host, such as api.example.com or *.example.org:8443.")
    return found.lower()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _from_text(value: Any, make: Callable[[str], Any]) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return make(value)
    except ValueError:
        return value


def _ranged(value: float, least: float, most: float, above: bool) -> float:
    if not value >= least or (above and value == least):
        raise Wrong(f"is too small; it must be {'more than' if above else 'at least'} {least:g}")
    if value > most:
        raise Wrong(f"is too large; it may be at most {most:g}")
    return value
