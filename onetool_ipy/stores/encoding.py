"""numpy's and pandas' values for `faithful`: kept with their types, and refused where they would come back changed.

Each table is read back at once and compared with the original, so that a kind of column nobody thought of (sparse
ones, periods, a type of an extension) is an Unfaithful and never a quiet change.

Values as plain JSON data and back again, equal in value and in type: for what is kept to be given out later.

`core.values` says how a value is shown; this says how it is kept. What JSON has no form for becomes an object with the
key `$type`. A value that could not come back as it was (a generator, an open file, an object of a class of one's own)
is refused with Unfaithful: better nothing kept than something else given back. Tables are in `faithful_tables`.
"""

from __future__ import annotations

import base64
import math
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from onetool_ipy.base.errors import OneToolError

__all__ = ["TAG", "Unfaithful", "decode", "decode_table", "encode", "encode_table"]

Inner = Callable[[Any], Any]

_TAG = "$type"
_READABLE = 1000
"""Numbers in an array up to which it is kept readable; a larger one is kept as its bytes."""


def encode_table(value: Any, inner: Inner) -> Any:
    """The form of a value of numpy or pandas; None for any other. Raises Unfaithful."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None:
        found = _encode_pandas(value, pandas, inner)
        if found is not None:
            return found
    if numpy is None:
        return None
    if isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        return {_TAG: "numpy.scalar", "dtype": value.dtype.str, "value": inner(value.item())}
    if type(value) is numpy.ndarray:
        return _encode_array(value, inner)
    return None


def decode_table(data: dict[str, Any], inner: Inner) -> Any:
    """The value of a form that `encode` gave. Raises Unfaithful for another."""
    import numpy
    import pandas  # type: ignore[import-untyped]  # it ships no stubs

    kind = data[_TAG]
    if kind == "numpy.scalar":
        return numpy.dtype(data["dtype"]).type(inner(data["value"]))
    if kind == "numpy.ndarray":
        return _decode_array(data, inner)
    if kind == "pandas.NA":
        return pandas.NA
    if kind == "pandas.NaT":
        return pandas.NaT
    if kind == "pandas.Timestamp":
        return _decode_timestamp(data)
    if kind == "pandas.Timedelta":
        return pandas.Timedelta(data["value"], unit="ns").as_unit(data["unit"])
    if kind == "pandas.Index":
        return _decode_index(data, inner)
    if kind == "pandas.Series":
        return pandas.Series(
            _decode_column(data["data"], inner), index=_decode_index(data["index"], inner), name=inner(data["name"])
        )
    if kind == "pandas.DataFrame":
        columns = _decode_index(data["columns"], inner)
        index = _decode_index(data["index"], inner)
        frame = pandas.DataFrame({i: _decode_column(c, inner) for i, c in enumerate(data["data"])}, index=index)
        frame.columns = columns
        return frame
    raise _unfaithful(f"'{kind}' is no kind that is known")


def _unfaithful(why: str) -> Exception:
    return Unfaithful(why)


def _encode_array(value: Any, inner: Inner) -> Any:
    form: dict[str, Any] = {_TAG: "numpy.ndarray", "dtype": value.dtype.str, "shape": list(value.shape)}
    if value.dtype.kind == "O":
        return {**form, "value": [inner(item) for item in value.ravel().tolist()]}
    if value.dtype.kind in "Mm":
        return {**form, "value": value.ravel().view("i8").tolist()}
    if value.dtype.kind not in "biufcU":
        raise _unfaithful(f"it holds an array of {value.dtype}")
    if value.size > _READABLE and value.dtype.kind != "U":
        return {**form, "base64": base64.b64encode(value.tobytes()).decode("ascii")}
    return {**form, "value": [inner(item) for item in value.ravel().tolist()]}


def _decode_array(data: dict[str, Any], inner: Inner) -> Any:
    import numpy

    kind = numpy.dtype(data["dtype"])
    shape = tuple(data["shape"])
    if "base64" in data:
        return numpy.frombuffer(base64.b64decode(data["base64"]), dtype=kind).reshape(shape).copy()
    items = [inner(item) for item in data["value"]]
    if kind.kind == "O":
        made = numpy.empty(len(items), dtype=object)
        made[:] = items
        return made.reshape(shape)
    if kind.kind in "Mm":
        return numpy.array(items, dtype="i8").view(kind).reshape(shape)
    return numpy.array(items, dtype=kind).reshape(shape)


def _encode_pandas(value: Any, pandas: Any, inner: Inner) -> Any:
    if value is pandas.NA:
        return {_TAG: "pandas.NA"}
    if value is pandas.NaT:
        return {_TAG: "pandas.NaT"}
    kind = type(value)
    if kind is pandas.Timestamp:
        return _encode_timestamp(value)
    if kind is pandas.Timedelta:
        return {_TAG: "pandas.Timedelta", "value": value.as_unit("ns").value, "unit": value.unit}
    if kind is pandas.Series:
        form = {
            _TAG: "pandas.Series",
            "name": inner(value.name),
            "index": _encode_index(value.index, pandas, inner),
            "data": _encode_column(value.array, inner),
        }
        return _checked(value, form, pandas.testing.assert_series_equal)
    if kind is pandas.DataFrame:
        form = {
            _TAG: "pandas.DataFrame",
            "columns": _encode_index(value.columns, pandas, inner),
            "index": _encode_index(value.index, pandas, inner),
            "data": [_encode_column(value.iloc[:, i].array, inner) for i in range(value.shape[1])],
        }
        return _checked(value, form, pandas.testing.assert_frame_equal)
    if isinstance(value, pandas.Index):
        return _checked(value, _encode_index(value, pandas, inner), pandas.testing.assert_index_equal)
    return None


def _checked(value: Any, form: Any, compare: Callable[..., None]) -> Any:
    """The form, if it comes back as the same table."""
    try:
        back = decode(form)
        compare(back, value, check_exact=True)
        same = type(back) is type(value) and getattr(back, "dtypes", 0) is not None
    except (AssertionError, TypeError, ValueError) as exc:
        raise _unfaithful(f"its table would come back changed: {str(exc).splitlines()[0]}") from exc
    if not same:
        raise _unfaithful("its table would come back changed")
    return form


def _encode_timestamp(value: Any) -> Any:
    zone = None if value.tz is None else str(value.tz)
    form = {_TAG: "pandas.Timestamp", "value": value.isoformat(), "unit": value.unit}
    return {**form, "zone": zone} if zone else form


def _decode_timestamp(data: dict[str, Any]) -> Any:
    import pandas

    found = pandas.Timestamp(data["value"])
    if "zone" in data:
        found = found.tz_convert(data["zone"])
    return found.as_unit(data["unit"])


def _encode_index(index: Any, pandas: Any, inner: Inner) -> Any:
    if isinstance(index, pandas.MultiIndex):
        levels = [_encode_column(index.get_level_values(i).array, inner) for i in range(index.nlevels)]
        return {_TAG: "pandas.Index", "names": [inner(name) for name in index.names], "levels": levels}
    if isinstance(index, pandas.RangeIndex):
        where = [index.start, index.stop, index.step]
        return {_TAG: "pandas.Index", "name": inner(index.name), "range": where}
    form = {_TAG: "pandas.Index", "name": inner(index.name), "data": _encode_column(index.array, inner)}
    freq = getattr(index, "freqstr", None)
    return {**form, "freq": freq} if freq else form


def _decode_index(data: dict[str, Any], inner: Inner) -> Any:
    import pandas

    if "levels" in data:
        levels = [_decode_column(level, inner) for level in data["levels"]]
        return pandas.MultiIndex.from_arrays(levels, names=[inner(name) for name in data["names"]])
    if "range" in data:
        return pandas.RangeIndex(*data["range"], name=inner(data["name"]))
    found = pandas.Index(_decode_column(data["data"], inner), name=inner(data["name"]))
    if data.get("freq"):
        found.freq = data["freq"]
    return found


def _encode_column(array: Any, inner: Inner) -> Any:
    """One column: its type, and its values one by one (times as ISO text, categories by their codes)."""
    import pandas

    kind = array.dtype
    form: dict[str, Any] = {"dtype": str(kind)}
    if isinstance(kind, pandas.CategoricalDtype):
        categories = _encode_column(kind.categories.array, inner)
        return {**form, "ordered": bool(kind.ordered), "categories": categories, "codes": array.codes.tolist()}
    if getattr(kind, "kind", "") == "M":
        return {**form, "value": [None if item is pandas.NaT else item.isoformat() for item in array]}
    if getattr(kind, "kind", "") == "m":
        return {**form, "value": [None if item is pandas.NaT else item.as_unit("ns").value for item in array]}
    return {**form, "value": [inner(_item(item)) for item in array]}


def _item(item: Any) -> Any:
    """A number of numpy as Python's: the column has its type already."""
    import numpy

    return item.item() if isinstance(item, numpy.generic) and item.dtype.kind in "biufc" else item


def _decode_column(data: dict[str, Any], inner: Inner) -> Any:
    import numpy
    import pandas

    kind = data["dtype"]
    if kind == "category":
        categories = pandas.Index(_decode_column(data["categories"], inner))
        return pandas.Categorical.from_codes(data["codes"], categories, ordered=data["ordered"])
    items = data["value"]
    if kind.startswith("datetime64"):
        return pandas.Series(pandas.to_datetime(items, format="ISO8601", utc="," in kind)).astype(kind).array
    if kind.startswith("timedelta64"):
        return pandas.Series(pandas.to_timedelta(items, unit="ns")).astype(kind).array
    items = [inner(item) for item in items]
    if kind == "object":
        made = numpy.empty(len(items), dtype=object)
        made[:] = items
        return made
    return pandas.array(items, dtype=kind)


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
    return encode_table(value, lambda inner: _encode(inner, depth + 1))


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
    return decode_table(data, _decode)


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
