"""Values as plain JSON data and back again, equal in value and in type: for what is kept to be given out later.

`core.values` says how a value is shown; this says how it is kept. What JSON has no form for becomes an object with the
key `$type`. A value that could not come back as it was (a generator, an open file, an object of a class of one's own)
is refused with Unfaithful: better nothing kept than something else given back. Tables are in `faithful_tables`.
"""

from __future__ import annotations

import base64
import math
import sys
from collections import deque
from typing import Any

from onetool_ipy.core.errors import OneToolError

__all__ = ["TAG", "Unfaithful", "decode", "encode"]

TAG = "$type"
_MAX_DEPTH = 100
_MAX_BITS = 13_000
"""Python reads and writes no longer integer as decimal text."""

_PLAIN = frozenset((bool, type(None)))
_BASE64: dict[Any, str] = {bytes: "bytes", bytearray: "bytearray"}
_LISTS: dict[Any, str] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_MAKERS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}


class Unfaithful(OneToolError):
    """A value that could not be given back as it is."""


def encode(value: Any) -> Any:
    """Plain JSON data that `decode` makes the same value of. Raises Unfaithful."""
    try:
        return _encode(value, 0)
    except RecursionError:
        raise Unfaithful("it is nested too deep") from None


def decode(data: Any) -> Any:
    """The value that was encoded. Raises Unfaithful for what `encode` never wrote."""
    try:
        return _decode(data)
    except Unfaithful:
        raise
    except Exception as exc:
        raise Unfaithful(f"it cannot be read back: {type(exc).__name__}: {exc}") from exc


def _encode(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else {TAG: "int", "value": hex(value)}
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}
    if depth >= _MAX_DEPTH:
        raise Unfaithful("it is nested too deep, or holds itself")
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind is dict:
        return _encode_dict(value, depth)
    if kind in _LISTS:
        items = sorted(value, key=repr) if kind in (set, frozenset) else value
        return {TAG: _LISTS[kind], "value": [_encode(item, depth + 1) for item in items]}
    if kind in _BASE64:
        return {TAG: _BASE64[kind], "value": base64.b64encode(value).decode("ascii")}
    return _scalar(value) or _table(value, depth) or _refuse(value)


def _text(value: str) -> Any:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # lone surrogates
        return {TAG: "str", "value": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")}
    return value


def _encode_dict(value: dict[Any, Any], depth: int) -> Any:
    if TAG not in value and all(type(key) is str and (key.isascii() or type(_text(key)) is str) for key in value):
        return {key: _encode(item, depth + 1) for key, item in value.items()}
    pairs = [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]
    return {TAG: "dict", "value": pairs}


def _scalar(value: Any) -> Any:
    """Single values of the standard library."""
    import datetime
    import decimal
    import pathlib
    import uuid

    kind = type(value)
    if kind is datetime.datetime:
        return _moment(value)
    if kind in (datetime.date, datetime.time):
        if getattr(value, "tzinfo", None) is not None:
            raise Unfaithful("it holds a time of day with a zone")
        return {TAG: kind.__name__, "value": value.isoformat()}
    if kind is datetime.timedelta:
        return {TAG: "timedelta", "value": [value.days, value.seconds, value.microseconds]}
    if kind is decimal.Decimal or kind is uuid.UUID:
        return {TAG: kind.__name__, "value": str(value)}
    if kind is complex:
        return {TAG: "complex", "value": repr(value)}
    if isinstance(value, pathlib.PurePath) and kind in _paths():
        return {TAG: "Path" if isinstance(value, pathlib.Path) else "PurePath", "value": str(value)}
    return None


def _paths() -> tuple[type, ...]:
    import pathlib

    return (type(pathlib.Path()), type(pathlib.PurePath()))


def _moment(value: Any) -> Any:
    """A datetime; its zone by name where it has one."""
    import datetime
    import zoneinfo

    zone = value.tzinfo
    if zone is None or type(zone) is datetime.timezone:
        return {TAG: "datetime", "value": value.isoformat(), **({"fold": 1} if value.fold else {})}
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        plain = value.replace(tzinfo=None).isoformat()
        return {TAG: "datetime", "value": plain, "zone": zone.key, **({"fold": 1} if value.fold else {})}
    raise Unfaithful(f"it holds a datetime in a zone of its own kind, {type(zone).__name__}")


def _table(value: Any, depth: int) -> Any:
    """What numpy and pandas hold; a library that is not loaded has no values here."""
    if not ({"numpy", "pandas"} & sys.modules.keys()):
        return None
    from onetool_ipy.stores import faithful_tables

    return faithful_tables.encode(value, lambda inner: _encode(inner, depth + 1))


def _refuse(value: Any) -> Any:
    kind = type(value)
    raise Unfaithful(f"it holds a {kind.__module__}.{kind.__qualname__}, which has no form to be kept in")


def _decode(data: Any) -> Any:
    if type(data) is list:
        return [_decode(item) for item in data]
    if type(data) is not dict:
        return data
    if TAG not in data:
        return {key: _decode(item) for key, item in data.items()}
    kind: Any = data[TAG]
    value: Any = data.get("value")
    if kind in _MAKERS:
        return _MAKERS[kind](_decode(item) for item in value)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in value}
    if kind in ("bytes", "bytearray", "str"):
        raw = base64.b64decode(value, validate=True)
        return raw.decode("utf-8", "surrogatepass") if kind == "str" else bytearray(raw) if kind == "bytearray" else raw
    found = _decode_scalar(kind, value, data)
    if found is not None:
        return found
    from onetool_ipy.stores import faithful_tables

    return faithful_tables.decode(data, _decode)


def _decode_scalar(kind: str, value: Any, data: dict[str, Any]) -> Any:
    import datetime
    import decimal
    import pathlib
    import uuid

    if kind == "datetime":
        found = datetime.datetime.fromisoformat(value).replace(fold=data.get("fold", 0))
        if "zone" not in data:
            return found
        import zoneinfo

        return found.replace(tzinfo=zoneinfo.ZoneInfo(data["zone"]))
    if kind == "timedelta":
        return datetime.timedelta(*value)
    makers: dict[str, Any] = {
        "float": float,
        "int": lambda text: int(text, 16),
        "date": datetime.date.fromisoformat,
        "time": datetime.time.fromisoformat,
        "Decimal": decimal.Decimal,
        "UUID": uuid.UUID,
        "complex": complex,
        "Path": pathlib.Path,
        "PurePath": pathlib.PurePath,
    }
    return makers[kind](value) if kind in makers else None
