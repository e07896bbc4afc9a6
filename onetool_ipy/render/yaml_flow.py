"""YAML flow text (spec 001): compact, readable, and loads back equal through a YAML safe loader.

    {name: a, said: "two words"}   an object of plain values, on one line
    - {name: a}                    a list of objects: a block sequence of flow items
    [a, b]                         a list of plain values; one `- a` a line where that is long or
                                   has blanks
    key: {a: {b: 1}}               an object that holds more: block on top, flow below

At most two levels of flow are nested; deeper values are written as a block. A value that YAML
cannot hold is written as `base.values.to_json` converts it. Writing needs no YAML library.
"""

from __future__ import annotations

import re
from operator import add

from onetool_ipy.base import values

_MAX_FLOW = 2
_WIDTH = 100
_MAX_KEY = 1000
"""A longer key needs the `? ` mark, or no loader finds its colon."""
_WORD = re.compile(r"(?:[^\W\d]|/)[\w./-]*")
_SENTENCE = re.compile(r"(?:[^\W\d]|/)[^:#\n]*[^\s:#]|[^\W\d]")
_RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def flow(value: object) -> str:
    """Write a value as YAML flow text; a text alone as it would follow `key: `."""
    plain = values.to_json(value)
    return "\n".join(_block(plain)) if isinstance(plain, dict | list) else _loose(plain)


def inline(value: object) -> str:
    """Write a value on one line, however deep it is."""
    return _inline(values.to_json(value))


def _block(value: object) -> list[str]:
    if isinstance(value, dict) and value:
        levels = _levels(value)
        if levels <= _MAX_FLOW and not any(map(_has_objects, value.values())):
            text = _inline(value)
            if levels == 1 or len(text) <= _WIDTH:
                return [text]
        lines: list[str] = []
        for key, item in value.items():
            head = _tight(key)
            if not _has_objects(item) and _levels(item) <= _MAX_FLOW:
                lines += (
                    [f"? {head}", f": {_inline(item)}"]
                    if len(head) > _MAX_KEY
                    else [f"{head}: {_inline(item)}"]
                )
            else:
                lines += [f"? {head}", ":"] if len(head) > _MAX_KEY else [f"{head}:"]
                lines += [f"  {line}" for line in _block(item)]
        return lines
    if isinstance(value, list) and value:
        if not any(isinstance(item, dict | list) for item in value):
            text = _inline(value)
            has_sentence = any(isinstance(item, str) and " " in item for item in value)
            return (
                [text]
                if len(text) <= _WIDTH and not has_sentence
                else [f"- {_loose(item)}" for item in value]
            )
        lines = []
        for item in value:
            first, *rest = [_inline(item)] if _levels(item) <= _MAX_FLOW else _block(item)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines
    return [_inline(value)]


def _has_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _levels(value: object) -> int:
    """How many levels of flow a value takes on one line; counting stops at too many."""
    if not isinstance(value, dict | list):
        return 0
    deepest = 0
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            deepest = max(deepest, _levels(item))
            if deepest >= _MAX_FLOW:
                return _MAX_FLOW + 1
    return deepest + 1


def _inline(value: object) -> str:
    if isinstance(value, dict):
        keys = map(_tight, value)
        heads = (f"{key}: " if len(key) <= _MAX_KEY else f"? {key} : " for key in keys)
        return "{" + ", ".join(map(add, heads, map(_inline, value.values()))) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _tight(value)


def _tight(value: object) -> str:
    """A scalar inside flow: only single words stand without quotes."""
    return _scalar(value, _WORD)


def _loose(value: object) -> str:
    """A scalar on a line of its own: sentences without `:` and `#` need no quotes."""
    return _scalar(value, _SENTENCE)


def _scalar(value: object, bare: re.Pattern[str]) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # A float for YAML, which needs a dot and a signed exponent.
        text = repr(value)
        mantissa, mark, exponent = text.partition("e")
        return text if not mark or "." in mantissa else f"{mantissa}.0e{exponent}"
    if not isinstance(value, str):
        return str(value)
    if bare.fullmatch(value) and value.isprintable() and value.lower() not in _RESERVED:
        return value
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    chars = (
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return f'"{"".join(chars)}"'
