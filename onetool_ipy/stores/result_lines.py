"""A value -> its lines, piece by piece, without holding all of them at once; and lines -> rows, or the value. Pure.

`base.values` converts what stands inside a line. `form_of` says what the lines were made from, and `value_of` makes it
again: a DataFrame with the types of its columns, a list, text. Objects of other types come back as plain JSON values.

value                                stored as
----------------------------------   ------------------------------------------------------------------------
text                                 unchanged; lines end at `\\n` only, CR, NUL, BOM, U+2028 stay
bytes                                UTF-8 text; an invalid byte is written as `\\xNN`
list, tuple, set, deque, dict views  one line of JSON per item
array, Series, Index                 one line of JSON per item (of an array: per row)
DataFrame                            one line of JSON per row, by column name; a repeated name gets `.1`, `.2`
dict and other mappings              one JSON text over several lines: a line per key, and a line per item of a
                                     list, so that a list of records inside has one record per line
iterator, generator, open file       its repr: storing never consumes it
anything else                        what `base.values.to_json` makes of it, by the rows above
"""

from __future__ import annotations

import codecs
import json
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from datetime import datetime, timedelta, timezone
from typing import Any

import orjson

from onetool_ipy.base.frames import is_dataframe
from onetool_ipy.base.values import safe_repr, to_json

__all__ = ["form_of", "lines_of", "pieces", "rows_of", "value_of"]

Piece = str | bytes

_TEXT_PIECE = 256 * 1024
_PIECE = 256 * 1024
_ROWS = 5_000
_MAX_DEPTH = 8
_LISTS = (list, tuple, set, frozenset, deque, KeysView, ValuesView, ItemsView)
_PLAIN = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""The options of orjson that leave subclasses, dataclasses and datetimes to `base.values`."""


def pieces(value: Any) -> Iterator[Piece]:
    """Yield the lines of any value as UTF-8, cut anywhere. If a foreign object fails, the rest of its lines is lost."""
    if isinstance(value, str):
        yield from _text(value)
        return
    try:
        yield from _pieces(value)
    except Exception as exc:  # noqa: BLE001  # a foreign object may fail in any of its methods
        yield _json(f"<{type(value).__name__}, reading failed: {safe_repr(exc)}>") + b"\n"


def lines_of(items: Iterable[Any]) -> Iterator[Piece]:
    """Yield one line per item of an iterable, which is used up: text unchanged, anything else as JSON."""
    return _joined(_text_line(item) if isinstance(item, str) else _json(item) + b"\n" for item in items)


def rows_of(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows of a table that lines hold as JSON; empty if one of them does not."""
    try:
        rows = [json.loads(line) for line in lines]
    except ValueError:
        return []
    return rows if all(isinstance(row, dict) for row in rows) else []


def form_of(value: Any) -> dict[str, Any]:
    """Return what `value_of` needs besides the lines: the form of the value, of a table the types of its columns."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return {"form": "text"}
    if is_dataframe(value):
        return {"form": "DataFrame", "types": [str(kind) for kind in value.dtypes]}
    if _is_array(value):
        return {"form": type(value).__name__, "types": [str(value.dtype)]}
    return {"form": "list" if _is_list(value) else "json"}


def value_of(text: str, about: Mapping[str, Any]) -> Any:
    """Return the value that the lines were made from, as near as they have it; `about` is what `form_of` returned."""
    form, types = about.get("form"), about.get("types", ())
    if form == "text":
        return text
    if form == "json":
        try:
            return json.loads(text)
        except ValueError:
            pass  # An object of an unknown class that was written as a list, or a number that a mask has hidden.
    items = [_parsed(line) for line in text.removesuffix("\n").split("\n")] if text else []
    if form == "DataFrame":
        import pandas as pd  # type: ignore[import-untyped]  # it has no types

        rows = [row for row in items if isinstance(row, dict)]
        names = zip(rows[0] if rows else (), types, strict=False)
        return pd.DataFrame({name: _column([row.get(name) for row in rows], kind) for name, kind in names})
    return _column(items, types[0]) if form == "Series" else items


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _column(cells: list[Any], kind: str) -> Any:
    import pandas as pd

    column = pd.Series(cells, dtype=object)
    try:
        return column.astype(kind)
    except (TypeError, ValueError, OverflowError):
        return column  # A type that text does not become again, such as an interval.


def _pieces(value: Any) -> Iterator[Piece]:
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(memoryview(value))
    if is_dataframe(value):
        return _joined(_frame(value))
    if _is_array(value):
        return _joined(_item_lines(_array_items(value)))
    if _is_list(value):
        return _joined(_item_lines(_items(value)))
    if isinstance(value, Mapping):
        return _joined(_object(value))
    converted = to_json(value)
    if isinstance(converted, list):
        return _joined(_item_lines(converted))
    if isinstance(converted, dict):
        return _joined(_object(converted))
    return iter([_json(converted) + b"\n"])


def _text(text: str) -> Iterator[str]:
    for start in range(0, len(text), _TEXT_PIECE):
        yield text[start : start + _TEXT_PIECE]


def _text_line(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _bytes(view: memoryview) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    flat = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    for start in range(0, len(flat), _TEXT_PIECE):
        yield decoder.decode(flat[start : start + _TEXT_PIECE])
    yield decoder.decode(b"", final=True)


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join small parts into pieces of about 256 KiB."""
    held = bytearray()
    for part in parts:
        held += part
        if len(held) >= _PIECE:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _is_list(value: Any) -> bool:
    return isinstance(value, _LISTS) and not (isinstance(value, tuple) and hasattr(value, "_fields"))


def _items(value: Any) -> Iterable[Any]:
    return sorted(value, key=safe_repr) if isinstance(value, set | frozenset) else value


def _item_lines(items: Iterable[Any]) -> Iterator[bytes]:
    dumps, option = orjson.dumps, _PLAIN | orjson.OPT_APPEND_NEWLINE
    for item in items:
        try:
            yield dumps(item, None, option)
        except TypeError:
            yield _slow_json(item) + b"\n"


def _is_array(value: Any) -> bool:
    """Whether this is an array of numpy or a column of pandas; imports neither."""
    module = type(value).__module__.partition(".")[0]
    return module in ("numpy", "pandas") and hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0


def _array_items(value: Any) -> Iterator[Any]:
    by_place = getattr(value, "iloc", value)
    for start in range(0, len(value), _ROWS):
        yield from by_place[start : start + _ROWS].tolist()


def _object(value: Mapping[Any, Any]) -> Iterator[bytes]:
    yield from _opened(value, "", set())
    yield b"\n"


def _opened(value: Mapping[Any, Any], indent: str, above: set[int]) -> Iterator[bytes]:
    """Yield a mapping over several lines, without the last newline."""
    inner = indent + "  "
    above.add(id(value))
    opening = "{\n"
    for name, item in zip(_names(value), value.values(), strict=True):
        yield f"{opening}{inner}".encode() + _json(name) + b": "
        opening = ",\n"
        if isinstance(item, Mapping) and item and len(above) < _MAX_DEPTH and id(item) not in above:
            yield from _opened(item, inner, above)
        elif _is_list(item) and item and id(item) not in above:
            yield from _listed(_items(item), inner)
        else:
            yield _json("<cycle>" if id(item) in above else item)
    above.discard(id(value))
    yield f"\n{indent}}}".encode() if opening != "{\n" else b"{}"


def _listed(items: Iterable[Any], indent: str) -> Iterator[bytes]:
    separator = f"[\n{indent}  ".encode()
    for item in items:
        yield separator + _json(item)
        separator = f",\n{indent}  ".encode()
    yield f"\n{indent}]".encode()


def _names(value: Iterable[Any]) -> Iterator[str]:
    """Yield keys as text, as `base.values` converts them."""
    for key in value:
        yield key if type(key) is str else next(iter(to_json({key: None})))


def _json(value: Any) -> bytes:
    """Return one line of JSON."""
    try:
        return orjson.dumps(value, option=_PLAIN)
    except TypeError:
        return _slow_json(value)


def _slow_json(value: Any) -> bytes:
    converted = to_json(value)
    try:
        return json.dumps(converted, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except ValueError:  # an integer of more digits than Python writes
        return json.dumps(safe_repr(value)).encode("utf-8")


def _frame(frame: Any) -> Iterator[bytes]:
    """Yield the rows, converted column by column, 5,000 at a time: ten times as fast as row by row."""
    names = [_json(name).replace(b"%", b"%%") for name in _unique(list(_names(frame.columns)))]
    for start in range(0, len(frame), _ROWS):
        part = frame.iloc[start : start + _ROWS]
        if not names:
            yield b"{}\n" * len(part)
            continue
        columns = [_cells(part.iloc[:, place]) for place in range(len(names))]
        fields = [name + (b':"%b"' if quoted else b":%b") for name, (quoted, _) in zip(names, columns, strict=True)]
        row = b"{" + b",".join(fields) + b"}\n"
        yield b"".join([row % found for found in zip(*[cells for _, cells in columns], strict=True)])


def _unique(names: Sequence[str]) -> list[str]:
    taken: set[str] = set()
    out = []
    for name in names:
        number, fresh = 0, name
        while fresh in taken:
            number += 1
            fresh = f"{name}.{number}"
        taken.add(fresh)
        out.append(fresh)
    return out


def _cells(column: Any) -> tuple[bool, list[bytes]]:
    """Return every cell of a column as JSON, and whether the quotes around it are still missing."""
    kind = column.dtype.kind
    if kind == "M":
        return False, _datetime_cells(column)
    values = column.tolist()
    try:
        if kind in "biuf":
            return False, orjson.dumps(values)[1:-1].split(b",")
        if set(map(type, values)) == {str}:  # in JSON, no quote inside text follows a comma: a backslash is between
            return True, orjson.dumps(values)[2:-2].split(b'","')
    except TypeError:
        pass  # text or a number that only `base.values` can convert
    return False, [_cell(value) for value in values]


def _datetime_cells(column: Any) -> list[bytes]:
    """Convert datetimes by way of Python's own, a hundred times as fast, unless nanoseconds would be lost."""
    zone = getattr(column.dtype, "tz", None)
    local = (column if zone is None else column.dt.tz_localize(None)).to_numpy()
    micro = local.astype("M8[us]")
    values = micro.tolist()
    if not ((micro == local) | (micro != micro)).all() or int in set(map(type, values)):
        return [_json(to_json(value)) for value in column.tolist()]
    cells = orjson.dumps(values)[1:-1].split(b",")
    if zone is None:
        return cells
    offsets = (local - column.dt.tz_convert(None).to_numpy()).astype("m8[us]").tolist()
    ends = {offset: _offset_text(offset) for offset in set(offsets)}
    return [
        b"null" if cell == b"null" else cell[:-1] + ends[offset] for cell, offset in zip(cells, offsets, strict=True)
    ]


def _offset_text(offset: timedelta | None) -> bytes:
    """Return the end of an ISO 8601 text, such as `+01:00"`."""
    if offset is None:
        return b"null"
    return datetime(2000, 1, 1, tzinfo=timezone(offset)).isoformat()[19:].encode() + b'"'


def _cell(value: Any) -> bytes:
    if type(value) is str and value.isascii():
        return _quoted(value).encode("ascii")
    return bytes(memoryview(_json(value)))  # a copy: each result of orjson holds a kilobyte


_quoted: Callable[[str], str] = json.encoder.encode_basestring
