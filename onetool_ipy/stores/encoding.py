"""Any value -> plain JSON data -> an equal value of the same type.

`base.values` says how a value is shown; this module says how it is stored so that it can be given out again. What JSON
cannot hold becomes an object with the key `$type`. A value that could not come back as it was (a generator, an open
file, an instance of a user's class) raises NotEncodable: storing nothing is better than giving back something else.

numpy and pandas values keep their dtypes. Each pandas table is decoded at once and compared with the original, so that
an unforeseen kind of column (sparse, periods, an extension type) raises NotEncodable and never changes silently.
"""

from __future__ import annotations

import base64
import datetime
import math
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from onetool_ipy.base.errors import OneToolError

__all__ = ["NotEncodable", "decode", "encode"]

_TAG = "$type"
_MAX_DEPTH = 100
_MAX_BITS = 13_000
"""Python reads and writes no longer integer as decimal text."""
_MAX_READABLE = 1000
"""Larger numpy arrays are stored as base64 instead of as a list of numbers."""

_BYTES: dict[Any, str] = {bytes: "bytes", bytearray: "bytearray"}
_LISTS: dict[Any, str] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_LIST_TYPES: dict[str, Any] = {name: kind for kind, name in _LISTS.items()}
_PATHS = {type(Path()): "Path", type(PurePath()): "PurePath"}


class NotEncodable(OneToolError):
    """A value that cannot be stored without changing it."""


def encode(value: Any) -> Any:
    """Return plain JSON data from which `decode` makes the same value. Raises NotEncodable."""
    try:
        return _encode(value, 0)
    except RecursionError:
        raise NotEncodable("it is nested too deep") from None


def decode(data: Any) -> Any:
    """Return the value that was encoded. Raises NotEncodable for data that `encode` did not write."""
    try:
        return _decode(data)
    except NotEncodable:
        raise
    except Exception as exc:  # damaged data may fail in any constructor
        raise NotEncodable(f"it cannot be read back: {type(exc).__name__}: {exc}") from exc


def _encode(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else {_TAG: "int", "value": hex(value)}
    if kind is str:
        return value if _is_utf8(value) else {_TAG: "str", "value": _base64(value.encode("utf-8", "surrogatepass"))}
    if kind is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if depth >= _MAX_DEPTH:
        raise NotEncodable("it is nested too deep, or holds itself")
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind is dict:
        return _encode_dict(value, depth)
    if kind in _LISTS:
        items = sorted(value, key=repr) if kind in (set, frozenset) else value
        return {_TAG: _LISTS[kind], "value": [_encode(item, depth + 1) for item in items]}
    if kind in _BYTES:
        return {_TAG: _BYTES[kind], "value": _base64(value)}
    form = _encode_scalar(value) or _encode_pandas(value, depth) or _encode_numpy(value, depth)
    if form is None:
        raise NotEncodable(f"it holds a {kind.__module__}.{kind.__qualname__}, which has no form to be kept in")
    return form


def _is_utf8(text: str) -> bool:
    """Whether the text has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _encode_dict(value: dict[Any, Any], depth: int) -> Any:
    if _TAG not in value and all(type(key) is str and _is_utf8(key) for key in value):
        return {key: _encode(item, depth + 1) for key, item in value.items()}
    pairs = [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]
    return {_TAG: "dict", "value": pairs}


def _encode_scalar(value: Any) -> Any:
    """Encode a single value of the standard library; None for any other."""
    import decimal
    import uuid

    kind = type(value)
    if kind is datetime.datetime:
        return _encode_datetime(value)
    if kind is datetime.date or kind is datetime.time:
        if getattr(value, "tzinfo", None) is not None:
            raise NotEncodable("it holds a time of day with a zone")
        return {_TAG: kind.__name__, "value": value.isoformat()}
    if kind is datetime.timedelta:
        return {_TAG: "timedelta", "value": [value.days, value.seconds, value.microseconds]}
    if kind is decimal.Decimal or kind is uuid.UUID:
        return {_TAG: kind.__name__, "value": str(value)}
    if kind is complex:
        return {_TAG: "complex", "value": repr(value)}
    return {_TAG: _PATHS[kind], "value": str(value)} if kind in _PATHS else None


def _encode_datetime(value: datetime.datetime) -> Any:
    import zoneinfo

    zone = value.tzinfo
    fold = {"fold": 1} if value.fold else {}
    if zone is None or type(zone) is datetime.timezone:
        return {_TAG: "datetime", "value": value.isoformat(), **fold}
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key:
        return {_TAG: "datetime", "value": value.replace(tzinfo=None).isoformat(), "zone": zone.key, **fold}
    raise NotEncodable(f"it holds a datetime in a zone of its own kind, {type(zone).__name__}")


def _encode_numpy(value: Any, depth: int) -> Any:
    """Encode a value of numpy; None for any other. A library that is not loaded has no values."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        return {_TAG: "numpy.scalar", "dtype": value.dtype.str, "value": _encode(value.item(), depth + 1)}
    if type(value) is not numpy.ndarray:
        return None
    kind = value.dtype.kind
    form: dict[str, Any] = {_TAG: "numpy.ndarray", "dtype": value.dtype.str, "shape": list(value.shape)}
    if kind in "Mm":
        return {**form, "value": value.ravel().view("i8").tolist()}
    if kind not in "biufcUO":
        raise NotEncodable(f"it holds an array of {value.dtype}")
    if value.size > _MAX_READABLE and kind not in "UO":
        return {**form, "base64": _base64(value.tobytes())}
    return {**form, "value": [_encode(item, depth + 1) for item in value.ravel().tolist()]}


def _encode_pandas(value: Any, depth: int) -> Any:
    """Encode a value of pandas; None for any other."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    kind, depth = type(value), depth + 1
    if value is pandas.NA:
        return {_TAG: "pandas.NA"}
    if value is pandas.NaT:
        return {_TAG: "pandas.NaT"}
    if kind is pandas.Timestamp:
        zone = {} if value.tz is None else {"zone": str(value.tz)}
        return {_TAG: "pandas.Timestamp", "value": value.isoformat(), "unit": value.unit, **zone}
    if kind is pandas.Timedelta:
        return {_TAG: "pandas.Timedelta", "value": value.as_unit("ns").value, "unit": value.unit}
    if kind is pandas.Series:
        form = {
            _TAG: "pandas.Series",
            "name": _encode(value.name, depth),
            "index": _encode_index(value.index, depth),
            "data": _encode_column(value.array, depth),
        }
        return _compared(value, form, pandas.testing.assert_series_equal)
    if kind is pandas.DataFrame:
        form = {
            _TAG: "pandas.DataFrame",
            "columns": _encode_index(value.columns, depth),
            "index": _encode_index(value.index, depth),
            "data": [_encode_column(value.iloc[:, i].array, depth) for i in range(value.shape[1])],
        }
        return _compared(value, form, pandas.testing.assert_frame_equal)
    if isinstance(value, pandas.Index):
        return _compared(value, _encode_index(value, depth), pandas.testing.assert_index_equal)
    return None


def _compared(value: Any, form: Any, compare: Callable[..., None]) -> Any:
    """Return the form if it decodes to the same table."""
    try:
        decoded = decode(form)
        compare(decoded, value, check_exact=True)
    except (AssertionError, TypeError, ValueError) as exc:
        raise NotEncodable(f"its table would come back changed: {str(exc).splitlines()[0]}") from exc
    if type(decoded) is not type(value):
        raise NotEncodable("its table would come back changed")
    return form


def _encode_index(index: Any, depth: int) -> Any:
    import pandas  # type: ignore[import-untyped]  # it ships no stubs

    if isinstance(index, pandas.MultiIndex):
        levels = [_encode_column(index.get_level_values(i).array, depth) for i in range(index.nlevels)]
        return {_TAG: "pandas.Index", "names": [_encode(name, depth) for name in index.names], "levels": levels}
    form = {_TAG: "pandas.Index", "name": _encode(index.name, depth)}
    if isinstance(index, pandas.RangeIndex):
        return {**form, "range": [index.start, index.stop, index.step]}
    freq = getattr(index, "freqstr", None)
    return {**form, "data": _encode_column(index.array, depth), **({"freq": freq} if freq else {})}


def _encode_column(array: Any, depth: int) -> Any:
    """Encode one column: its dtype, and its values one by one (times as ISO text, categories by their codes)."""
    import numpy
    import pandas

    dtype = array.dtype
    form: dict[str, Any] = {"dtype": str(dtype)}
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = _encode_column(dtype.categories.array, depth)
        return {**form, "ordered": bool(dtype.ordered), "categories": categories, "codes": array.codes.tolist()}
    kind = getattr(dtype, "kind", "")
    if kind == "M":
        return {**form, "value": [None if item is pandas.NaT else item.isoformat() for item in array]}
    if kind == "m":
        return {**form, "value": [None if item is pandas.NaT else item.as_unit("ns").value for item in array]}

    def plain(item: Any) -> Any:  # the column has the dtype already
        return item.item() if isinstance(item, numpy.generic) and item.dtype.kind in "biufc" else item

    return {**form, "value": [_encode(plain(item), depth) for item in array]}


def _decode(data: Any) -> Any:
    if type(data) is list:
        return [_decode(item) for item in data]
    if type(data) is not dict:
        return data
    if _TAG not in data:
        return {key: _decode(item) for key, item in data.items()}
    kind: Any = data[_TAG]
    value: Any = data.get("value")
    if kind in _LIST_TYPES:
        return _LIST_TYPES[kind](_decode(item) for item in value)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in value}
    if kind in ("bytes", "bytearray", "str"):
        raw = base64.b64decode(value, validate=True)
        return raw.decode("utf-8", "surrogatepass") if kind == "str" else bytearray(raw) if kind == "bytearray" else raw
    if kind.startswith(("numpy.", "pandas.")):
        return _decode_table(kind, data)
    return _decode_scalar(kind, value, data)


def _decode_scalar(kind: str, value: Any, data: dict[str, Any]) -> Any:
    import decimal
    import uuid

    if kind == "datetime":
        moment = datetime.datetime.fromisoformat(value).replace(fold=data.get("fold", 0))
        if "zone" not in data:
            return moment
        import zoneinfo

        return moment.replace(tzinfo=zoneinfo.ZoneInfo(data["zone"]))
    makers: dict[str, Callable[[Any], Any]] = {
        "float": float,
        "int": lambda text: int(text, 16),
        "date": datetime.date.fromisoformat,
        "time": datetime.time.fromisoformat,
        "timedelta": lambda parts: datetime.timedelta(*parts),
        "Decimal": decimal.Decimal,
        "UUID": uuid.UUID,
        "complex": complex,
        "Path": Path,
        "PurePath": PurePath,
    }
    if kind not in makers:
        raise _unknown(kind)
    return makers[kind](value)


def _unknown(kind: str) -> NotEncodable:
    return NotEncodable(f"'{kind}' is not a known type")


def _decode_table(kind: str, data: dict[str, Any]) -> Any:
    import numpy
    import pandas

    if kind == "numpy.scalar":
        return numpy.dtype(data["dtype"]).type(_decode(data["value"]))
    if kind == "numpy.ndarray":
        return _decode_array(data)
    if kind == "pandas.NA":
        return pandas.NA
    if kind == "pandas.NaT":
        return pandas.NaT
    if kind == "pandas.Timestamp":
        moment = pandas.Timestamp(data["value"])
        return (moment.tz_convert(data["zone"]) if "zone" in data else moment).as_unit(data["unit"])
    if kind == "pandas.Timedelta":
        return pandas.Timedelta(data["value"], unit="ns").as_unit(data["unit"])
    if kind == "pandas.Index":
        return _decode_index(data)
    if kind == "pandas.Series":
        return pandas.Series(
            _decode_column(data["data"]), index=_decode_index(data["index"]), name=_decode(data["name"])
        )
    if kind == "pandas.DataFrame":
        cells = {i: _decode_column(column) for i, column in enumerate(data["data"])}
        frame = pandas.DataFrame(cells, index=_decode_index(data["index"]))
        frame.columns = _decode_index(data["columns"])
        return frame
    raise _unknown(kind)


def _decode_array(data: dict[str, Any]) -> Any:
    import numpy

    dtype = numpy.dtype(data["dtype"])
    if "base64" in data:
        array = numpy.frombuffer(base64.b64decode(data["base64"]), dtype=dtype).copy()
    elif dtype.kind == "O":
        array = _object_array(_decode(data["value"]))
    elif dtype.kind in "Mm":
        array = numpy.array(data["value"], dtype="i8").view(dtype)
    else:
        array = numpy.array(_decode(data["value"]), dtype=dtype)
    return array.reshape(tuple(data["shape"]))


def _object_array(items: list[Any]) -> Any:
    import numpy

    array = numpy.empty(len(items), dtype=object)
    array[:] = items
    return array


def _decode_index(data: dict[str, Any]) -> Any:
    import pandas

    if "levels" in data:
        levels = [_decode_column(level) for level in data["levels"]]
        return pandas.MultiIndex.from_arrays(levels, names=_decode(data["names"]))
    if "range" in data:
        return pandas.RangeIndex(*data["range"], name=_decode(data["name"]))
    index = pandas.Index(_decode_column(data["data"]), name=_decode(data["name"]))
    if data.get("freq"):
        index.freq = data["freq"]
    return index


def _decode_column(data: dict[str, Any]) -> Any:
    import pandas

    dtype = data["dtype"]
    if dtype == "category":
        categories = pandas.Index(_decode_column(data["categories"]))
        return pandas.Categorical.from_codes(data["codes"], categories, ordered=data["ordered"])
    items = data["value"]
    if dtype.startswith("datetime64"):
        return pandas.Series(pandas.to_datetime(items, format="ISO8601", utc="," in dtype)).astype(dtype).array
    if dtype.startswith("timedelta64"):
        return pandas.Series(pandas.to_timedelta(items, unit="ns")).astype(dtype).array
    items = _decode(items)
    return _object_array(items) if dtype == "object" else pandas.array(items, dtype=dtype)
