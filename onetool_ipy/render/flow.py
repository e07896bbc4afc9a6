"""YAML flow text (spec 001): compact, readable, and loads back equal through a YAML safe loader.

    {name: a, count: 2}            an object of plain values, on one line
    - {name: a}                    a list of objects: a block sequence of flow items
    key: {a: {b: 1}}               an object that holds containers: block on top, flow below
At most two levels of flow stand inside each other; what is deeper is written as a block. What YAML cannot hold is
written by the table of `core.values`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from onetool_ipy.core import values

__all__ = ["flow"]

_MAX_FLOW = 2
_PLAIN = re.compile(r"[A-Za-z_/$<][\w./()<>$+*@^ -]*", re.ASCII)
_RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
_UNPRINTABLE = re.compile(r"[^\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def flow(value: Any) -> str:
    """Write a value as YAML flow text."""
    plain = values.to_json(value)
    return "\n".join(_block(plain, 0)) if isinstance(plain, (dict, list)) else _scalar(plain)


def _block(value: Any, depth: int) -> list[str]:
    if isinstance(value, dict) and value and _is_nested(value):
        return _mapping(value, depth)
    if isinstance(value, list) and value and any(isinstance(item, (dict, list)) for item in value):
        return _sequence(value, depth)
    return [_inline(value)]


def _mapping(value: dict[str, Any], depth: int) -> list[str]:
    lines = []
    for key, item in value.items():
        if _levels(item) <= _MAX_FLOW or not _has_block(item):
            lines.append(f"{_key(key)}: {_inline(item)}")
        else:
            lines.append(f"{_key(key)}:")
            lines += [f"  {line}" for line in _block(item, depth + 1)]
    return lines


def _sequence(value: list[Any], depth: int) -> list[str]:
    lines = []
    for item in value:
        if _levels(item) <= _MAX_FLOW or not _has_block(item):
            lines.append(f"- {_inline(item)}")
        else:
            first, *rest = _block(item, depth + 1)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines


def _is_nested(value: dict[str, Any]) -> bool:
    return any(isinstance(item, (dict, list)) for item in value.values())


def _has_block(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    return any(isinstance(item, (dict, list)) for item in inner)


def _levels(value: Any) -> int:
    """How many levels of flow a value would take on one line; counting stops where it is too many."""
    if not isinstance(value, (dict, list)):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    deepest = 0
    for item in inner:
        if isinstance(item, (dict, list)):
            deepest = max(deepest, _levels(item))
            if deepest >= _MAX_FLOW:
                return _MAX_FLOW + 1
    return deepest + 1


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)}: {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return _scalar(value)


def _key(key: str) -> str:
    return _text(key)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    return str(value) if isinstance(value, int) else _text(value)


def _float(value: float) -> str:
    """YAML wants a dot and a signed exponent in a number that is no integer."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    if not e:
        return text
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text[-1] != " " and text.lower() not in _RESERVED and " <" not in text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(_escape, quoted)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
