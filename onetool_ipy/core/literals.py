"""A value as it is written where it stands in Python text, so that it stays a value and never becomes code.

    in a string       its text, escaped for that string; braces doubled in an f-string; bytes as UTF-8
    in a raw string   its text, if a raw string can hold it
    in code           a Python literal: text in quotes, numbers bare; `Name` bare
    in a comment      its text on one line
    on a magic's line its text, if it holds nothing that a magic or a shell could read as more than text

What cannot be written safely raises Unwritable with the reason. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from onetool_ipy.core.places import Place

__all__ = ["MAX_TEXT", "Json", "Name", "Typed", "Unwritable", "as_text", "literal", "write"]

MAX_TEXT = 1_000_000
"""Characters that one value may become."""

_BARE_ON_MAGIC = re.compile(r"[\w./:@%+,=-]*")
_QUOTED_ON_MAGIC = re.compile(r"[\w ./:@%+,=-]*")
_IN_SPEC = re.compile(r"[\w.,<>=^+% -]*")
_WORD = re.compile(r"\w")


class Unwritable(Exception):
    """Why a value cannot stand at its place."""


class Name(str):
    """A dotted Python name, written bare in code."""

    __slots__ = ()


class Json(str):
    """JSON text of a value; in code the value itself is written."""

    __slots__ = ("value",)
    value: Any


class Typed(str):
    """A word as it was typed that means something else in code: `true`, `null`."""

    __slots__ = ("value",)
    value: Any

    def __bool__(self) -> bool:
        return bool(self.value)


def write(value: Any, place: Place, before: str, after: str) -> str:
    """The text for a value at a place, between what stands before and after it on its line."""
    if place.kind == "code":
        return _in_code(value, before, after)
    if place.kind == "field":
        return _in_field(value, place, before, after)
    text = as_text(value)
    if place.kind == "string":
        return _in_string(text, place)
    if place.kind == "comment":
        return "".join(c if c.isprintable() else " " for c in text)
    if place.kind == "magic":
        return _on_magic(text, before)
    if place.kind == "spec":
        return _checked(text, _IN_SPEC, "holds characters that a format cannot have")
    raise Unwritable("stands right behind a backslash or inside a quote; put a blank between, or double the backslash")


def as_text(value: Any) -> str:
    """The text of a value inside a string: text as it is, anything else as Python prints it."""
    if isinstance(value, str):
        return str(value)
    typed = getattr(value, "typed", None)
    if isinstance(typed, str):
        return typed
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return literal(value)
    try:
        text = str(value)
    except ValueError as exc:  # an integer with more digits than Python is willing to print
        raise Unwritable(f"cannot be written: {exc}") from exc
    return _bounded(text)


def literal(value: Any) -> str:
    """The Python literal of a value made of plain things: text, numbers, booleans, None, lists and dicts."""
    return _Writer().write(value)


class _Writer:
    """Writes one literal, with a limit on its size: lists that hold each other twice grow beyond any memory."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = MAX_TEXT

    def write(self, value: Any) -> str:
        self._add(value, 0)
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._left -= len(text) + 4
        if self._left < 0:
            raise Unwritable(f"is longer than {MAX_TEXT:,} characters")
        self._parts.append(text)

    def _add(self, value: Any, depth: int) -> None:
        if depth > 100:
            raise Unwritable("is nested too deeply")
        if isinstance(value, Json | Typed):
            value = value.value
        if isinstance(value, Name):
            self._put(str(value))
        elif value is None or isinstance(value, bool | str | bytes | int | float):
            self._put(_scalar(value))
        elif isinstance(value, Mapping):
            self._put("{")
            for i, (key, item) in enumerate(value.items()):
                self._put(", " if i else "")
                self._add(key, depth + 1)
                self._put(": ")
                self._add(item, depth + 1)
            self._put("}")
        elif isinstance(value, list | tuple):
            opened, closed = "[]" if isinstance(value, list) else "()"
            self._put(opened)
            for i, item in enumerate(value):
                self._put(", " if i else "")
                self._add(item, depth + 1)
            self._put("," + closed if isinstance(value, tuple) and len(value) == 1 else closed)
        else:
            kind = type(value).__name__
            raise Unwritable(f"is a {kind}, which has no literal; give its name, with 'type: name'")


def _scalar(value: str | bytes | int | float | None) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{float(value)}')"
    plain = next((kind for kind in (bool, int, float, str, bytes) if isinstance(value, kind)), None)
    try:
        return "None" if plain is None else plain.__repr__(value)
    except ValueError as exc:  # an integer of too many digits
        raise Unwritable(f"cannot be written: {exc}") from exc


def _in_code(value: Any, before: str, after: str) -> str:
    text = literal(value)
    left, right = before[-1:], after[:1]
    if right in ("'", '"'):
        raise Unwritable("stands right before a quote; put it inside the quotes")
    if text[:1] in ("'", '"', "b") and not isinstance(value, Name):
        if left in ("'", '"') or _WORD.match(left) or _WORD.match(right):
            raise Unwritable("is text and touches a name or a quote; put it inside quotes, or give it 'type: name'")
        return text
    left, right = before.rstrip(" \t")[-1:], after.lstrip(" \t")[:1]
    is_number = text[:1].isdigit() or text[:1] == "-"
    if is_number and (right == "." or (text[0] == "-" and (left in tuple("*+-/%@&|^~<>.") or right == "*"))):
        return f"({text})"
    return text


def _in_field(value: Any, place: Place, before: str, after: str) -> str:
    """In the braces of an f-string: text only where its quotes can differ from all quotes around it."""
    text = _in_code(value, before, after)
    if "'" not in text and '"' not in text and "\\" not in text:
        return text
    free = [quote for quote in "'\"" if quote not in place.around]
    plain = value if isinstance(value, str) and value.isprintable() else "\\"
    if free and not any(c in plain for c in "'\"\\{}"):
        return f"{free[0]}{plain}{free[0]}"
    raise Unwritable("stands in the braces of an f-string; give it a variable of its own on a line before")


def _in_string(text: str, place: Place) -> str:
    if "r" in place.prefix:
        text = _in_raw(text, place)
    else:
        quote = place.quote[0]
        text = "".join(_escaped(c, quote, is_bytes="b" in place.prefix) for c in text)
    return text.replace("{", "{{").replace("}", "}}") if "f" in place.prefix or "t" in place.prefix else text


def _escaped(char: str, quote: str, *, is_bytes: bool) -> str:
    if char == "\\" or char == quote:
        return "\\" + char
    if is_bytes and not char.isascii():
        return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    if char.isprintable():
        return char
    return char.encode("unicode_escape").decode("ascii")


def _in_raw(text: str, place: Place) -> str:
    if place.quote[0] in text:
        raise Unwritable(f"holds {place.quote[0]}, which the raw string around it cannot")
    if any(not c.isprintable() and not (c == "\n" and len(place.quote) == 3) for c in text):
        raise Unwritable("holds a line break or another character that the raw string around it cannot")
    if "b" in place.prefix and not text.isascii():
        raise Unwritable("holds a letter that the raw bytes around it cannot")
    return text


def _on_magic(text: str, before: str) -> str:
    line = re.split(r"[\n\r]", before)[-1]
    if text.startswith("-") and (not line.strip() or line[-1].isspace()):
        raise Unwritable("starts with '-', which a magic or the shell would take for an option")
    pattern = _QUOTED_ON_MAGIC if _is_in_quotes(line) else _BARE_ON_MAGIC
    return _checked(text, pattern, "holds characters that a magic or the shell may read as more than text; use Python")


def _is_in_quotes(line: str) -> bool:
    """Whether a shell would read what follows this line as quoted."""
    quote = ""
    for char in re.sub(r"\\.", "", line):
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
    return bool(quote)


def _checked(text: str, pattern: re.Pattern[str], reason: str) -> str:
    if not pattern.fullmatch(text):
        raise Unwritable(reason)
    return text


def _bounded(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise Unwritable(f"is longer than {MAX_TEXT:,} characters")
    return text
