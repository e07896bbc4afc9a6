"""How values that JSON cannot hold are shown, stored and sent: one table, used everywhere.

    value                                   becomes
    ------------------------------------    -----------------------------------------------
    None, bool, int, float, str             itself; NaN and infinities: null
    text with lone surrogates               the same text with \\udXXX written out
    list, tuple, set, frozenset, deque      list (sets sorted by their text)
    dict and other mappings                 object; keys as text
    bytes, bytearray, memoryview            {"base64": ..., "size": n}
    datetime, date, time                    ISO 8601 text
    timedelta                               seconds
    Decimal, UUID, Path, complex            text
    Enum                                    its value
    numpy scalar / array                    number / nested list
    DataFrame / Series, Index               list of records / list
    dataclass, pydantic model, namedtuple   object
    exception                               "Type: message"
    generator, file, anything else          its repr, cut at 500 characters, never consumed
    an object whose repr fails              "<Type object, repr failed>"
    a cycle, or more than 200 levels        "<cycle>", "<too deep>"

A value returned to Python is never altered: this is for what leaves it. Nothing here raises.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["map_text", "plain_copy", "safe_repr", "to_json", "to_text"]

_MAX_DEPTH = 200
_MAX_REPR = 500
_CONTAINERS = frozenset((dict, list, tuple))


def to_json(value: Any) -> Any:
    """Give the JSON-safe form of any value, by the table above."""
    return _convert(value, 0, set())


def to_text(value: Any) -> str:
    """Give the text of any value: text as it is, anything else as indented JSON."""
    if isinstance(value, str):
        return str(value)
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)


def safe_repr(value: Any, limit: int = _MAX_REPR) -> str:
    """Give `repr(value)`, cut, and never fail."""
    try:
        text = repr(value)
    except Exception:  # a foreign __repr__ may raise anything
        return f"<{type(value).__name__} object, repr failed>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plain_copy(args: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Copy arguments with their lists and dicts, sharing the leaves, so that a tool cannot change its caller's.

    Also tells whether they are plain: not cyclic and at most 200 levels deep. What is not plain is shared as it is.
    """
    fresh = dict(args)
    for key, value in fresh.items():
        kind = type(value)
        if kind is list or kind is dict or kind is tuple:
            try:
                fresh[key] = _copy(value, 0)
            except _NotPlain:
                return dict(args), False
    return fresh, True


def map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a function to every text inside lists, tuples and dicts; anything else stays itself."""
    if type(value) is str:
        return change(value)
    if type(value) is dict:
        return {map_text(k, change): map_text(v, change) for k, v in value.items()}
    if type(value) is list:
        return [map_text(v, change) for v in value]
    if type(value) is tuple:
        return tuple(map_text(v, change) for v in value)
    return value


class _NotPlain(Exception):
    pass


def _copy(value: Any, depth: int) -> Any:
    """Copy one container; a cycle is seen as a depth without end."""
    if depth >= _MAX_DEPTH:
        raise _NotPlain
    if type(value) is dict:
        copied = dict(value)
        for key, item in copied.items():
            if type(item) in _CONTAINERS:
                copied[key] = _copy(item, depth + 1)
        return copied
    items = list(value)
    for i, item in enumerate(items):
        if type(item) in _CONTAINERS:
            items[i] = _copy(item, depth + 1)
    return items if type(value) is list else tuple(items)


def _convert(value: Any, depth: int, seen: set[int]) -> Any:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _clean(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if depth >= _MAX_DEPTH:
        return "<too deep>"
    if id(value) in seen:
        return "<cycle>"
    seen.add(id(value))
    try:
        return _convert_object(value, depth, seen)
    except RecursionError:
        return "<too deep>"
    except Exception:  # a foreign object may fail in any of its methods; its repr is what is left
        return _clean(safe_repr(value))
    finally:
        seen.discard(id(value))


def _convert_object(value: Any, depth: int, seen: set[int]) -> Any:
    if isinstance(value, Mapping):
        return {_key(k): _convert(v, depth + 1, seen) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {k: _convert(v, depth + 1, seen) for k, v in zip(value._fields, value, strict=True)}
    if isinstance(value, (list, tuple)):
        return [_convert(v, depth + 1, seen) for v in value]
    if isinstance(value, (set, frozenset)):
        return [_convert(v, depth + 1, seen) for v in sorted(value, key=safe_repr)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        return {"base64": base64.b64encode(raw).decode("ascii"), "size": len(raw)}
    simple = _simple(value)
    if simple is not None:
        return simple[0]
    inner = _inner(value)
    if inner is not None:
        return _convert(inner[0], depth + 1, seen)
    return _clean(safe_repr(value))


def _simple(value: Any) -> tuple[Any] | None:
    """The scalar kinds of the table; a 1-tuple, since the answer itself may be None."""
    import datetime
    import decimal
    import enum
    import pathlib
    import uuid

    if isinstance(value, enum.Enum):
        return (to_json(value.value),)
    if isinstance(value, str):
        return (_clean(str(value)),)
    if isinstance(value, int):
        return (int(value),)
    if isinstance(value, float):
        return (float(value) if math.isfinite(value) else None,)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text = value.isoformat()
        return (None if text == "NaT" else text,)
    if isinstance(value, datetime.timedelta):
        return (value.total_seconds(),)
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath, complex)):
        return (_clean(str(value)),)
    if isinstance(value, BaseException):
        return (_clean(f"{type(value).__name__}: {value}"),)
    return None


def _inner(value: Any) -> tuple[Any] | None:
    """The plainer object inside a foreign one (numpy, pandas, pydantic, dataclass), without importing any."""
    from collections import deque
    from dataclasses import fields, is_dataclass

    if isinstance(value, deque):
        return (list(value),)
    if is_dataclass(value) and not isinstance(value, type):
        return ({f.name: getattr(value, f.name) for f in fields(value)},)
    module = type(value).__module__.partition(".")[0]
    if module == "pandas" or (hasattr(value, "to_dict") and hasattr(value, "columns")):
        if hasattr(value, "columns"):
            return (value.to_dict(orient="records"),)
        if hasattr(value, "tolist"):
            return (value.tolist(),)
        return (None,) if str(value) in ("NaT", "<NA>") else None
    if module == "numpy" and hasattr(value, "tolist"):
        return (value.tolist(),)
    if hasattr(type(value), "model_dump"):
        return (value.model_dump(mode="json"),)
    return None


def _key(key: Any) -> str:
    if isinstance(key, str):
        return _clean(str(key))
    converted = to_json(key)
    return converted if isinstance(converted, str) else json.dumps(converted)


def _clean(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
