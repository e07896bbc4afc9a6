"""How much of a call is looked at for its record: the text of its arguments, and the size of what it gave.

Both looks are bounded: however large the value, some kilobytes and some dozens of items of it are touched, and no
foreign method runs (`repr`, `__len__`, `items` of a subclass). Pure; nothing here raises.

The size of a result is its length for text and bytes. Anything else is measured as the JSON text it would make: exact
in order of magnitude for what has up to 64 items, and beyond that scaled up from those it began with. A table counts
12 characters a cell, an array 8 an item, an object of another kind 64.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import islice
from typing import Any

from onetool_ipy.base import values

__all__ = ["MAX_ARGS_BYTES", "RUN_LENGTH", "RUN_PREFIX", "excerpt", "measure", "new_run", "short_text"]

RUN_PREFIX = "map-"
RUN_LENGTH = 16
"""The id of a call by `ot.map` begins with that of its run; that of a retry ends in `.` and its number."""

MAX_ARGS_BYTES = 4096
"""What of the arguments' JSON text is kept."""

_MANY = 64
_DEEP = 20
_WINDOW = 16_384
_MARGIN = 8_192
"""A secret that the end of a window cuts in two is not known as one, so the end is left out: no secret is longer."""

_CELL, _ITEM, _OBJECT = 12, 8, 64


def new_run() -> str:
    """Make an id for a run of `ot.map`."""
    return RUN_PREFIX + os.urandom((RUN_LENGTH - len(RUN_PREFIX)) // 2).hex()


def excerpt(args: Any, mask: Callable[[str], str], dumps: Callable[[Any], bytes], size: int) -> tuple[str, bool]:
    """Give the arguments as JSON text, masked and cut at 4 KB, and whether that is all of them, unchanged.

    `dumps` is orjson's; a frequent caller looks it up once. `size` is what `values.plain_copy` said of them.
    """
    if not 0 <= size <= _WINDOW:
        return _careful(args, mask, dumps)
    try:
        raw = dumps(args)
    except TypeError:  # a lone surrogate, an integer over 64 bits, a key that is not text
        return _careful(args, mask, dumps)
    text = raw.decode()
    if mask(text) != text or ("null" in text and not values.is_json(args)):  # NaN is null
        return _careful(args, mask, dumps)
    if len(raw) > MAX_ARGS_BYTES:
        return raw[:MAX_ARGS_BYTES].decode("utf-8", "ignore"), False
    return text, True


def measure(value: Any) -> int:
    """Give the characters (of binary data the bytes) of a result, estimated where counting would cost."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind is int:
        return value.bit_length() * 3 // 10 + 1  # type: ignore[no-any-return]  # `value` is Any
    return _Measure().of(value, 0)


def short_text(text: str, mask: Callable[[str], str], limit: int) -> str:
    """Give a foreign text (a name that somebody typed, an id) masked, on one line, fit for UTF-8, and cut."""
    known = mask(text) if len(text) <= _WINDOW else _masked_head(text, mask)
    clean = values.to_json(known[:limit])
    return " ".join(clean.split()) if isinstance(clean, str) else ""


def _careful(args: Any, mask: Callable[[str], str], dumps: Callable[[Any], bytes]) -> tuple[str, bool]:
    """The long way round: a bounded copy, masked text by text, then as a whole, then cut."""
    copy = _Copy(mask)
    found = copy.of(args, 0)
    plain = values.to_json(found)
    text = dumps(plain).decode()
    is_whole = copy.is_whole and plain == found
    if mask(text) != text:
        text, is_whole = mask(dumps(values.to_json(values.map_text(plain, mask))).decode()), False
    raw = text.encode()
    if len(raw) > MAX_ARGS_BYTES:
        return raw[:MAX_ARGS_BYTES].decode("utf-8", "ignore"), False
    return text, is_whole


def _masked_head(text: str, mask: Callable[[str], str]) -> str:
    """The beginning of a long text: masked first, cut after, so that half a secret is never left over."""
    masked = mask(text[:_WINDOW])
    return masked[: max(0, len(masked) - _MARGIN)][:MAX_ARGS_BYTES] + "..."


class _Copy:
    """A copy of a value as plain JSON, of at most about twice what is kept; `is_whole` says that nothing was lost."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.is_whole = True
        self._mask = mask
        self._left = 2 * MAX_ARGS_BYTES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 4
        if self._left <= 0 or depth > _DEEP:
            return self._lost("...")
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, (list, tuple)):
            return self._array(value, depth)
        return self._scalar(value)

    def _lost(self, shown: Any) -> Any:
        self.is_whole = False
        return shown

    def _text(self, value: str) -> str:
        if len(value) > MAX_ARGS_BYTES:
            self._left -= MAX_ARGS_BYTES
            return str(self._lost(_masked_head(value, self._mask)))
        self._left -= len(value)
        return str.__str__(value) if type(value) is str else str(self._lost(str.__str__(value)))

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in list(islice(dict.items(value), self._left)):
            if self._left <= 0:
                self._lost(None)
                break
            name = self._text(key) if isinstance(key, str) else str(self._lost(values.safe_repr(self._scalar(key))))
            out[name] = self.of(item, depth + 1)
        return out

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        if type(value) is not list:
            self.is_whole = False
        out: list[Any] = []
        for item in islice(value, self._left):
            if self._left <= 0:
                self._lost(None)
                break
            out.append(self.of(item, depth + 1))
        return out

    def _scalar(self, value: Any) -> Any:
        kind = type(value)
        self._left -= 8
        if value is None or kind is bool:
            return value
        if kind is int:
            bits = value.bit_length()
            return value if bits < 64 else self._lost(f"<int of {bits} bits>")
        if kind is float:
            return value if math.isfinite(value) else self._lost(None)
        self.is_whole = False
        if kind in (bytes, bytearray):
            return f"<{len(value)} bytes>"
        return _simple(value)


def _simple(value: Any) -> Any:
    """A date, path, decimal or numpy scalar as the table of `values` has it; of anything else its kind."""
    import datetime
    import decimal
    import pathlib
    import uuid

    kind = type(value)
    if isinstance(
        value, (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, pathlib.PurePath, uuid.UUID)
    ):
        return values.to_json(value)
    shape = getattr(value, "shape", None) if kind.__module__.partition(".")[0] in ("numpy", "pandas") else None
    if shape == () and hasattr(value, "item"):
        return values.to_json(value)
    return f"<{kind.__name__} of shape {shape}>" if isinstance(shape, tuple) else f"<{kind.__name__}>"


class _Measure:
    """The size of a value as JSON text, from a look at no more than `_MANY` of its items."""

    def __init__(self) -> None:
        self._left = _MANY

    def of(self, value: Any, depth: int) -> int:
        kind = type(value)
        if kind is str:
            return len(value) + 2 if depth else len(value)
        if kind is int:
            return value.bit_length() * 3 // 10 + 1  # type: ignore[no-any-return]  # `value` is Any
        if kind is float:
            return 8
        if kind is dict:
            return self._object(value, depth)
        if kind is list or kind is tuple:
            return self._array(value, depth)
        return self._other(value, depth)

    def _object(self, value: dict[Any, Any], depth: int) -> int:
        if not value or depth > _DEEP:
            return 2
        spent = seen = 0
        for key, item in list(islice(value.items(), max(1, self._left))):
            self._left -= 1
            seen += 1
            spent += self.of(item, depth + 1) + 4 + (len(key) if type(key) is str else 4)
            if self._left <= 0:
                break
        return 2 + _scaled(spent, seen, len(value))

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> int:
        if not value or depth > _DEEP:
            return 2
        spent = seen = 0
        for item in islice(value, max(1, self._left)):
            self._left -= 1
            seen += 1
            spent += self.of(item, depth + 1) + 2
            if self._left <= 0:
                break
        return 2 + _scaled(spent, seen, len(value))

    def _other(self, value: Any, depth: int) -> int:
        if value is None or value is True:
            return 4
        if value is False:
            return 5
        if isinstance(value, str):
            return str.__len__(value)
        if isinstance(value, dict):
            return self._object(dict(islice(dict.items(value), _MANY)), depth) * max(1, dict.__len__(value) // _MANY)
        if isinstance(value, (list, tuple)):
            return self._array(list(islice(value, _MANY)), depth) * max(1, len(value) // _MANY)
        if isinstance(value, (set, frozenset)):
            return self._array(list(islice(value, _MANY)), depth) * max(1, len(value) // _MANY)
        if isinstance(value, (bytes, bytearray)):
            return len(value)
        if isinstance(value, memoryview):
            return value.nbytes
        return _measure_table(value)


def _scaled(spent: int, seen: int, count: int) -> int:
    return spent * count // seen if seen else count * _OBJECT


def _measure_table(value: Any) -> int:
    """A table or array by its shape, without a look at its contents."""
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas", "polars", "pyarrow", "xarray"):
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape):
            return math.prod(shape) * (_CELL if len(shape) == 2 and hasattr(value, "columns") else _ITEM)
    return _OBJECT
