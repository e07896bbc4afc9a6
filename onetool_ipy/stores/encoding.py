"""Any value -> plain JSON data -> an equal value of the same type.

`base.values` says how a value is shown; this module says how it is recorded so that it can be given
out again. What JSON cannot hold becomes an object with the key `$type`. A value without such a form
(a generator, an open file, an instance of a user's class) raises NotEncodable: recording nothing is
better than giving back something else.

Tables of pandas are JSON (`orient="table"`) where that changes nothing, else Parquet, which needs
pyarrow. Each one is decoded at once and compared with the original, cell by cell: 0.0 is not -0.0,
and Decimal("1.1") is not Decimal("1.10"). Only the frequency of an index is not kept.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import math
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.values import Json

_TAG = "$type"
_MAX_DEPTH = 100
_MAX_BITS = 13_000
"""Python reads and writes no longer integer as decimal text."""

_LISTS: dict[str, Any] = {"tuple": tuple, "set": set}
_SCALARS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (
        bytes,
        lambda data: base64.b64encode(data).decode(),
        lambda text: base64.b64decode(text, validate=True),
    ),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "timedelta": (
        datetime.timedelta,
        lambda delta: [delta.days, delta.seconds, delta.microseconds],
        lambda parts: datetime.timedelta(*parts),
    ),
    "Decimal": (decimal.Decimal, str, decimal.Decimal),
    "UUID": (uuid.UUID, str, uuid.UUID),
    "float": (float, repr, float),
    "Path": (type(Path()), str, Path),
}
"""Name -> type, how it is written, how it is read."""
_NAMES = {kind: name for name, (kind, *_) in _SCALARS.items()}


class NotEncodable(UsageProblem, reason="not_encodable"):
    """A value that cannot be recorded without changing it."""


def encode(value: object) -> Any:
    """Return plain JSON data from which `decode` makes the same value. Raises NotEncodable."""
    return _encode(value, 0)


def decode(data: object) -> Any:
    """Return the value that was encoded. Raises NotEncodable for data that `encode` did not
    write."""
    try:
        return _decode(data)
    except NotEncodable:
        raise
    except Exception as exc:  # damaged data may fail in any constructor
        raise NotEncodable(f"it cannot be read back: {type(exc).__name__}: {exc}") from exc


def _encode(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind is bool or value is None or (kind is float and math.isfinite(value)):
        return value
    if kind is int and value.bit_length() <= _MAX_BITS:
        return value
    if kind is str:
        return _require_utf8(value)
    if depth >= _MAX_DEPTH:
        raise NotEncodable("it is nested too deep, or holds itself")
    if kind is list:
        return [_encode(item, depth + 1) for item in value]
    if kind is dict:
        if _TAG not in value and all(type(key) is str for key in value):
            return {_require_utf8(key): _encode(item, depth + 1) for key, item in value.items()}
        pairs = [[_encode(key, depth + 1), _encode(item, depth + 1)] for key, item in value.items()]
        return {_TAG: "dict", "value": pairs}
    if kind is tuple or kind is set:
        items = sorted(value, key=repr) if kind is set else value
        return {_TAG: kind.__name__, "value": [_encode(item, depth + 1) for item in items]}
    form = _encode_scalar(value) or _encode_pandas(value, depth + 1) or _encode_numpy(value)
    if form is None:
        raise NotEncodable(f"it holds a value of type '{kind.__module__}.{kind.__qualname__}'")
    return form


def _encode_scalar(value: Any) -> Json | None:
    """Encode a value of one of Python's own types; None for any other value."""
    name = _NAMES.get(type(value))
    if name is None:
        return None
    form = {_TAG: name, "value": _SCALARS[name][1](value)}
    if getattr(value, "fold", 0):
        form["fold"] = 1
    zone = getattr(value, "tzinfo", None)
    if zone is None or type(zone) is datetime.timezone:
        return form
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key and name == "datetime":
        return {**form, "zone": zone.key}
    raise NotEncodable(f"it holds a time in a zone of its own kind, '{type(zone).__name__}'")


def _require_utf8(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotEncodable("it holds text that is not valid Unicode") from None
    return text


def _encode_numpy(value: Any) -> Any:
    """Encode a number or an array of numpy; None for any other value."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        return {_TAG: "numpy.scalar", "dtype": value.dtype.str, "value": _encode(value.item(), 0)}
    if type(value) is not numpy.ndarray:
        return None
    if value.dtype.hasobject:
        raise NotEncodable("it holds an array of Python objects")
    if value.dtype.kind == "U":
        # A file of numpy has four bytes for each letter, in which masking sees no secret.
        form = {_TAG: "numpy.ndarray", "dtype": value.dtype.str, "shape": list(value.shape)}
        return {**form, "value": [_require_utf8(text) for text in value.ravel().tolist()]}
    file = io.BytesIO()
    numpy.save(file, value, allow_pickle=False)
    return {_TAG: "numpy.ndarray", "npy": _encode(file.getvalue(), 0)}


def _encode_pandas(value: Any, depth: int) -> Json | None:
    """Encode a table, a column, a time or a duration of pandas; None for any other value."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    if type(value) is pandas.Series:
        frame = _encode_frame(value.to_frame("value"))
        return {_TAG: "pandas.Series", "name": _encode(value.name, depth), "frame": frame}
    if value is pandas.NaT or value is pandas.NA:
        return {_TAG: "pandas.NaT" if value is pandas.NaT else "pandas.NA"}
    if type(value) in (pandas.Timestamp, pandas.Timedelta):
        return {_TAG: "pandas.scalar", "frame": _encode_frame(pandas.DataFrame({"value": [value]}))}
    return _encode_frame(value) if type(value) is pandas.DataFrame else None


def _encode_frame(frame: Any) -> Any:
    """Return the first form from which pandas makes the same table."""
    import pandas  # type: ignore[import-untyped]  # it ships no stubs

    about: Json = {"attrs": _encode(frame.attrs, 0)} if frame.attrs else {}
    index, is_counted = frame.index, isinstance(frame.index, pandas.RangeIndex)
    # An index that counts the rows is no list of numbers: views show it as no column.
    counted = {"range": [index.start, index.stop, index.step]} if is_counted else {}
    if is_counted and index.name is not None:
        counted["name"] = _encode(index.name, 0)
    # Without compression the text of a secret stays as it is in a Parquet file, so that masking
    # sees it.
    writers: dict[str, Callable[[], Json]] = {
        "table": lambda: {
            "table": json.loads(
                frame.to_json(orient="table", double_precision=15, index=not is_counted)
            ),
            **counted,
        },
        "parquet": lambda: {"parquet": _encode(frame.to_parquet(compression=None), 0)},
    }
    # For an index of periods pandas warns that it uses its own deprecated attributes; JSON cannot
    # hold such an index.
    index_types = getattr(frame.index, "dtypes", [frame.index.dtype])
    if any(isinstance(dtype, pandas.PeriodDtype) for dtype in (*frame.dtypes, *index_types)):
        del writers["table"]
    for write in writers.values():
        try:
            form = {_TAG: "pandas.DataFrame", **write(), **about}
            _require_same(_decode(form), frame)
        except Exception:  # noqa: BLE001  # pandas and pyarrow fail in many ways for tables they cannot hold
            continue
        return form
    raise NotEncodable(
        "it holds a table that neither JSON nor Parquet gives back unchanged; Parquet needs pyarrow"
    )


def _require_same(back: Any, frame: Any) -> None:
    """Raise AssertionError for a table that is not exactly the other one."""
    import numpy
    import pandas

    pandas.testing.assert_frame_equal(
        back, frame, check_exact=True, check_freq=False, check_index_type="exact"
    )
    # pandas finds values equal that are written differently.
    for place, dtype in enumerate(frame.dtypes):
        sides = [side.iloc[:, place] for side in (back, frame)]
        if dtype.name == "object":
            texts, others = ([*map(repr, side)] for side in sides)
            assert texts == others
        elif dtype.kind == "f":
            zeros, others = (
                numpy.signbit(side[(side == 0).fillna(False)].to_numpy(dtype=float))
                for side in sides
            )
            assert zeros.tolist() == others.tolist()


def _decode(data: Any) -> Any:
    if type(data) is list:
        return [_decode(item) for item in data]
    if type(data) is not dict:
        return data
    if _TAG not in data:
        return {key: _decode(item) for key, item in data.items()}
    name: str = data[_TAG]
    value: Any = data.get("value")
    if name in _LISTS:
        return _LISTS[name](_decode(item) for item in value)
    if name == "dict":
        return {_decode(key): _decode(item) for key, item in value}
    if name in _SCALARS:
        value = _SCALARS[name][2](value)
        if "zone" in data:
            value = value.astimezone(zoneinfo.ZoneInfo(data["zone"]))
        return value.replace(fold=1) if "fold" in data else value
    return _decode_numpy(name, data) if name.startswith("numpy.") else _decode_pandas(name, data)


def _decode_numpy(name: str, data: Json) -> object:
    import numpy

    if name == "numpy.scalar":
        return numpy.dtype(data["dtype"]).type(_decode(data["value"]))
    if "value" in data:
        return numpy.array(data["value"], dtype=data["dtype"]).reshape(tuple(data["shape"]))
    return numpy.load(io.BytesIO(_decode(data["npy"])), allow_pickle=False)


def _decode_pandas(name: str, data: Json) -> object:
    import pandas

    if name in ("pandas.NA", "pandas.NaT"):
        return getattr(pandas, name.removeprefix("pandas."))
    if name == "pandas.Series":
        return _decode(data["frame"])["value"].rename(_decode(data["name"]))
    if name == "pandas.scalar":
        return _decode(data["frame"])["value"].iloc[0]
    if name != "pandas.DataFrame":
        raise NotEncodable(f"'{name}' is not a known type")
    if "table" not in data:
        frame = pandas.read_parquet(io.BytesIO(_decode(data["parquet"])))
    else:
        frame = pandas.read_json(
            io.StringIO(json.dumps(data["table"])), orient="table", precise_float=True
        )
        if "range" in data:
            frame.index = pandas.RangeIndex(*data["range"], name=_decode(data.get("name")))
        elif isinstance(frame.index, pandas.RangeIndex):  # pandas makes one of 0, 1, 2
            frame.index = pandas.Index(frame.index.to_numpy(), name=frame.index.name)
    frame.attrs.update(_decode(data.get("attrs", {})))
    return frame
