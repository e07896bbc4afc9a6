"""A value -> its lines, piece by piece, without holding all of them at once; and lines -> rows, or
the value. Pure.

`base.values` converts what is inside a line. `form_of` says what the lines were made from, and
`value_of` makes it again: a DataFrame with the types of its columns, a list, text. Objects of other
types come back as plain JSON values.

value                                stored as
----------------------------------   -------------------------------------------------------------
text                                 unchanged; lines end at LF or CR LF only, NUL, BOM, U+2028 stay
bytes                                UTF-8 text; an invalid byte is written as `\\xNN`
list, tuple, set, deque, dict views  one line of JSON per item
array, Series, Index                 one line of JSON per item (of an array: per row)
DataFrame                            one line of JSON per row, by column name; a repeated name gets
                                     `.1`, `.2`
another library's table              as the DataFrame that it gives (`as_stored`)
dict and other mappings              one JSON text over several lines: a line per key, and a line
                                     per item of a list, so that a list of records inside has one
                                     record per line
iterator, generator, open file       its repr: storing never consumes it
anything else                        what `base.values.to_json` makes of it, by the rows above
"""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from typing import Any

import orjson

from onetool_ipy.base import tables
from onetool_ipy.base.tables import is_dataframe
from onetool_ipy.base.values import Json, key_names, safe_repr, to_json

Piece = str | bytes

_PIECE = 256 * 1024
_ROWS = 5_000
_MAX_DEPTH = 8
_LISTS = (list, tuple, set, frozenset, deque, KeysView, ValuesView, ItemsView)
_PLAIN = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
"""The options of orjson that leave subclasses, dataclasses and datetimes to `base.values`."""


def pieces(value: Any) -> Iterator[Piece]:
    """Yield the lines of any value as UTF-8, cut anywhere. If a foreign object fails, the rest of
    its lines is lost."""
    if isinstance(value, str):
        for start in range(0, len(value), _PIECE):
            yield value[start : start + _PIECE]
        return
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
            view = memoryview(value)
            flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
            for start in range(0, len(flat), _PIECE):
                yield decoder.decode(flat[start : start + _PIECE])
            yield decoder.decode(b"", final=True)
        else:
            yield from _joined(_lines(value))
    except Exception as exc:  # noqa: BLE001  # a foreign object may fail in any of its methods
        yield _json(f"<{type(value).__name__}, reading failed: {safe_repr(exc)}>") + b"\n"


def as_stored(value: Any) -> Any:
    """Return a table or array of another library as the DataFrame that is stored for it."""
    if isinstance(value, (str, bytes, *_LISTS)) or _is_array(value):
        return value
    table = tables.tabular(value)
    return table if tables.is_frame(table) else value


def rows_of(lines: Iterable[str]) -> list[Json]:
    """Return the rows of a table that lines hold as JSON; empty if one of them does not."""
    try:
        rows = [json.loads(line) for line in lines]
    except ValueError:
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []


def form_of(value: Any) -> Json:
    """Return what `value_of` needs besides the lines: the form of the value, of a table the types
    of its columns."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return {"form": "text"}
    if is_dataframe(value):
        # A table without rows has no line that would name its columns.
        names = {} if len(value) else {"names": key_names(value.columns)}
        return {"form": "DataFrame", "types": [str(kind) for kind in value.dtypes], **names}
    if (_is_array(value) and value.ndim == 2) or tables.are_tuples(value):
        return {"form": "tuples"}
    if _is_array(value):
        return {"form": type(value).__name__, "types": [str(value.dtype)]}
    return {"form": "list" if _is_list(value) else "json"}


def value_of(text: str, about: Mapping[str, Any]) -> Any:
    """Return the value that the lines were made from, as near as they have it; `about` is what
    `form_of` returned."""
    form, types = about.get("form"), about.get("types", ())
    if form == "text":
        return text
    if form == "json":
        try:
            return json.loads(text)
        except ValueError:
            # An object of an unknown class that was written as a list, or a number that a mask
            # has hidden.
            pass
    items: list[Any] = []
    for line in text.removesuffix("\n").split("\n") if text else ():
        try:
            items.append(json.loads(line))
        except ValueError:
            items.append(line)
    if form == "DataFrame":
        import pandas as pd  # type: ignore[import-untyped]  # it has no types

        rows = [row for row in items if isinstance(row, dict)]
        names = zip(rows[0] if rows else about.get("names", ()), types, strict=False)
        return pd.DataFrame(
            {name: _column([row.get(name) for row in rows], kind) for name, kind in names}
        )
    if form == "tuples":
        return [tuple(item) if isinstance(item, list) else item for item in items]
    return _column(items, types[0]) if form == "Series" else items


def _column(cells: list[Any], kind: str) -> Any:
    import pandas as pd

    column = pd.Series(cells, dtype=object)
    try:
        if kind.startswith("timedelta"):
            # Durations are written in seconds; as numbers they would be of the unit of their type.
            column = pd.to_timedelta(column, unit="s")
        return column.astype(kind)
    except (TypeError, ValueError, OverflowError):
        return column  # A type that text does not become again, such as an interval.


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join small parts into pieces of about 256 KiB."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _lines(value: Any) -> Iterator[bytes]:
    items: Iterable[Any]
    if is_dataframe(value):
        items = _frame_rows(value)
    elif _is_array(value):
        by_place = getattr(value, "iloc", value)
        items = (
            item
            for start in range(0, len(value), _ROWS)
            for item in by_place[start : start + _ROWS].tolist()
        )
    elif _is_list(value):
        items = _items(value)
    elif isinstance(value, Mapping):
        yield from _opened(value, "", set())
        yield b"\n"
        return
    else:
        plain = to_json(value)
        if isinstance(plain, list | dict):
            yield from _lines(plain)
            return
        items = [plain]
    for item in items:
        yield _json(item) + b"\n"


def _is_list(value: object) -> bool:
    return isinstance(value, _LISTS) and not (
        isinstance(value, tuple) and hasattr(value, "_fields")
    )


def _items(value: Any) -> Iterable[Any]:
    return sorted(value, key=safe_repr) if isinstance(value, set | frozenset) else value


def _is_array(value: object) -> bool:
    """Whether this is an array of numpy or a column of pandas; imports neither."""
    module = type(value).__module__.partition(".")[0]
    return (
        module in ("numpy", "pandas") and hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0
    )


def _opened(value: Mapping[Any, Any], indent: str, above: set[int]) -> Iterator[bytes]:
    """Yield a mapping over several lines, without the last newline."""
    inner = indent + "  "
    above.add(id(value))
    opening = "{\n"
    for name, item in zip(key_names(value), value.values(), strict=True):
        yield f"{opening}{inner}".encode() + _json(name) + b": "
        opening = ",\n"
        if isinstance(item, Mapping) and item and len(above) < _MAX_DEPTH and id(item) not in above:
            yield from _opened(item, inner, above)
        elif _is_list(item) and item and id(item) not in above:
            separator = "["
            for each in _items(item):
                yield f"{separator}\n{inner}  ".encode() + _json(each)
                separator = ","
            yield f"\n{inner}]".encode()
        else:
            yield _json("<cycle>" if id(item) in above else item)
    above.discard(id(value))
    yield f"\n{indent}}}".encode() if opening != "{\n" else b"{}"


def _json(value: object) -> bytes:
    """Return one line of JSON."""
    try:
        return orjson.dumps(value, _convert, _PLAIN)
    except TypeError:
        pass
    # A lone surrogate, an integer over 64 bits, a key that is not text, or a cycle: `to_json`
    # converts the whole value.
    try:
        return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except ValueError:
        # Python refuses to write integers of thousands of digits.
        return json.dumps(safe_repr(value)).encode("utf-8")


def _convert(value: object) -> object:
    """Return the plain form of a value that orjson does not know."""
    # Large tables are full of timestamps, which `to_json` would convert to the same text in twice
    # the time.
    if isinstance(value, datetime):
        text = value.isoformat()
        return None if text == "NaT" else text
    return to_json(value)


def _frame_rows(frame: Any) -> Iterator[Json]:
    """Yield the rows by column name. Cells are converted column by column, 5,000 at a time."""
    names: list[str] = []
    for key in frame.columns:
        (name,) = key_names((key,))
        number, unique = 0, name
        while unique in names:
            number += 1
            unique = f"{name}.{number}"
        names.append(unique)
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        columns = [part.iloc[:, place].tolist() for place in range(len(names))]
        rows: Iterable[tuple[Any, ...]] = (
            zip(*columns, strict=True) if columns else [()] * len(part)
        )
        for row in rows:
            yield dict(zip(names, row, strict=True))
