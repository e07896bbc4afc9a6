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
_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset)
_TABLES = ("numpy", "pandas", "polars", "pyarrow", "xarray")


def new_run() -> str:
    """Make an id for a run of `ot.map`."""
    return RUN_PREFIX + os.urandom((RUN_LENGTH - len(RUN_PREFIX)) // 2).hex()


def excerpt(args: Any, mask: Callable[[str], str], dumps: Callable[[Any], bytes], size: int) -> tuple[str, bool]:
    """Give the arguments as JSON text, masked and cut at 4 KB, and whether that is all of them, unchanged.

    `dumps` is orjson's; a frequent caller looks it up once. `size` is what `values.plain_copy` said of them.
    """
    if 0 <= size <= _WINDOW:
        try:
            raw = dumps(args)
        except TypeError:  # a lone surrogate, an integer over 64 bits, a key that is not text
            return _careful(args, mask, dumps)
        text = raw.decode()
        # NaN is null in JSON, so arguments with a null are looked at more closely.
        if mask(text) == text and ("null" not in text or values.is_json(args)):
            return (text, True) if len(raw) <= MAX_ARGS_BYTES else (_cut(raw), False)
    return _careful(args, mask, dumps)


def measure(value: Any) -> int:
    """Give the characters (of binary data the bytes) of a result, estimated where counting would cost."""
    return len(value) if type(value) is str else _size(value, 0, [_MANY])


def short_text(text: str, mask: Callable[[str], str], limit: int) -> str:
    """Give a foreign text (a name that somebody typed, an id) masked, on one line, fit for UTF-8, and cut."""
    masked = mask(text) if len(text) <= _WINDOW else _masked_head(text, mask)
    clean = values.to_json(masked[:limit])
    return " ".join(clean.split()) if isinstance(clean, str) else ""


def _careful(args: Any, mask: Callable[[str], str], dumps: Callable[[Any], bytes]) -> tuple[str, bool]:
    """Do the same for any value: a bounded copy, masked text by text, then as a whole, then cut."""
    copy = _Copy(mask)
    excerpted = copy.of(args, 0)
    plain = values.to_json(excerpted)
    text = dumps(plain).decode()
    is_whole = copy.is_whole and plain == excerpted
    if mask(text) != text:
        text, is_whole = mask(dumps(values.to_json(values.map_text(plain, mask))).decode()), False
    raw = text.encode()
    return (text, is_whole) if len(raw) <= MAX_ARGS_BYTES else (_cut(raw), False)


def _cut(raw: bytes) -> str:
    return raw[:MAX_ARGS_BYTES].decode("utf-8", "ignore")


def _masked_head(text: str, mask: Callable[[str], str]) -> str:
    """Give the beginning of a long text: masked first, cut after, so that half a secret is never left over."""
    masked = mask(text[:_WINDOW])
    return masked[: max(0, len(masked) - _MARGIN)][:MAX_ARGS_BYTES] + "..."


class _Copy:
    """A copy of a value as plain JSON, of at most about twice what is kept; `is_whole` says that nothing was lost."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self.is_whole = True
        self._mask = mask
        self._left = 2 * MAX_ARGS_BYTES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 8
        kind = type(value)
        if self._left <= 0 or depth > _DEEP:
            return self._lost("...")
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            pairs = list(islice(dict.items(value), self._left))
            copied = {self._key(key): self.of(item, depth + 1) for key, item in pairs if self._left > 0}
            return copied if self._left > 0 else self._lost(copied)
        if isinstance(value, (list, tuple)):
            copied_items = [self.of(item, depth + 1) for item in islice(value, self._left) if self._left > 0]
            return copied_items if self._left > 0 and kind is list else self._lost(copied_items)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() < 64 else self._lost(f"<int of {value.bit_length()} bits>")
        if kind is float:
            return value if math.isfinite(value) else self._lost(None)
        return self._lost(_named(value))

    def _key(self, key: Any) -> str:
        return self._text(key) if isinstance(key, str) else str(self._lost(values.safe_repr(self.of(key, _DEEP))))

    def _text(self, value: str) -> str:
        self._left -= min(len(value), MAX_ARGS_BYTES)
        if len(value) > MAX_ARGS_BYTES:
            return str(self._lost(_masked_head(value, self._mask)))
        return value if type(value) is str else str(self._lost(str.__str__(value)))

    def _lost(self, shown: Any) -> Any:
        self.is_whole = False
        return shown


def _named(value: Any) -> Any:
    """Give a date, path, decimal or numpy scalar as `values` has it; of anything else its kind."""
    import datetime
    import decimal
    import pathlib
    import uuid

    kind = type(value)
    if kind in (bytes, bytearray):
        return f"<{len(value)} bytes>"
    simple = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, pathlib.PurePath, uuid.UUID)
    shape = getattr(value, "shape", None) if kind.__module__.partition(".")[0] in ("numpy", "pandas") else None
    if isinstance(value, simple) or (shape == () and hasattr(value, "item")):
        return values.to_json(value)
    return f"<{kind.__name__} of shape {shape}>" if isinstance(shape, tuple) else f"<{kind.__name__}>"


def _size(value: Any, depth: int, left: list[int]) -> int:
    """Give the size of a value as JSON text, from a look at no more items than are `left`."""
    kind = type(value)
    if kind is int:
        return value.bit_length() * 3 // 10 + 1  # type: ignore[no-any-return]  # `value` is Any
    if isinstance(value, str):
        return str.__len__(value) + (2 if depth else 0)
    if value is None or kind is bool:
        return 5 if value is False else 4
    if isinstance(value, float):
        return 8
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, memoryview):
        return value.nbytes
    container = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
    if container is None:
        return _table_size(value)
    count: int = container.__len__(value)
    if not count or depth > _DEEP:
        return 2
    total = seen = 0
    # Listed first: the tool may still be changing the value in another thread.
    for item in list(islice(dict.items(value) if container is dict else container.__iter__(value), max(1, left[0]))):
        left[0] -= 1
        seen += 1
        if container is dict:
            key = item[0]
            total += 4 + (str.__len__(key) if isinstance(key, str) else 4) + _size(item[1], depth + 1, left)
        else:
            total += 2 + _size(item, depth + 1, left)
        if left[0] <= 0:
            break
    return 2 + total * count // seen


def _table_size(value: Any) -> int:
    """Give the size of a table or array by its shape, without a look at its contents."""
    if type(value).__module__.partition(".")[0] in _TABLES:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape):
            return math.prod(shape) * (_CELL if len(shape) == 2 and hasattr(value, "columns") else _ITEM)
    return _OBJECT
