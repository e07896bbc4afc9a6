"""How much of a call is looked at for its record: the text of its arguments, and the size of what
it gave.

Both looks are bounded: however large the value, some kilobytes and some dozens of items of it are
touched, and no foreign method runs (`repr`, `__len__`, `items` of a subclass). Pure; nothing here
raises.

The size of a result is its length for text and bytes. Anything else is measured as the JSON text it
would make: exactly for a few plain items, in order of magnitude for what has up to 64, and beyond
that scaled up from those it began with. A table counts 12 characters a cell, an array 8 an item, an
object of another kind 64.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import pathlib
import uuid
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from onetool_ipy.base import values

RUN_PREFIX = "map-"
RUN_LENGTH = 16
"""The id of a call by `ot.map` begins with that of its run; that of a retry ends in `.` and its
number."""

MAX_ARGS_BYTES = 4096
"""What of the arguments' JSON text is kept."""

_MAX_ITEMS = 64
_MAX_LEAVES, _MAX_LEAF = 2 * _MAX_ITEMS, 1000
NUMBERS = frozenset((int, float, bool, type(None)))
"""The types of values that are small and that nothing can be inside of."""

_MAX_NAME = 60
_MAX_DEPTH = 20
_WINDOW = 16_384
_MARGIN = 8_192
"""A secret that the end of a window cuts in two is not known as one, so the end is left out: no
secret is longer."""

_CELL, _ITEM, _OBJECT = 12, 8, 64
_SIMPLE = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    pathlib.PurePath,
    uuid.UUID,
)
_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, set, frozenset)
_TABLES = ("numpy", "pandas", "polars", "pyarrow", "xarray")


def new_run() -> str:
    """Make an id for a run of `ot.map`."""
    return RUN_PREFIX + os.urandom((RUN_LENGTH - len(RUN_PREFIX)) // 2).hex()


def excerpt(
    args: object, mask: Callable[[str], str], dumps: Callable[[object], bytes], size: int
) -> tuple[str, bool]:
    """Give the arguments as JSON text, masked and cut at 4 KB, and whether that is all of them,
    unchanged.

    `dumps` is orjson's; a frequent caller looks it up once. `size` is what `values.plain_copy` said
    of them.
    """
    if 0 <= size <= _WINDOW:
        try:
            raw = dumps(args)
        except TypeError:  # a lone surrogate, an integer over 64 bits, a key that is not text
            pass
        else:
            text = raw.decode()
            # NaN is null in JSON, so arguments with a null are looked at more closely.
            if mask(text) == text and ("null" not in text or values.is_json(args)):
                return (text, True) if len(raw) <= MAX_ARGS_BYTES else (_cut(raw), False)
    plain = values.to_json(_shorten(args, mask, [2 * MAX_ARGS_BYTES], 0))
    text = dumps(plain).decode()
    # The texts inside are masked one by one, then all of the JSON: a number may be a secret, too.
    if mask(text) != text:
        text = mask(dumps(values.to_json(values.map_text(plain, mask))).decode())
    return _cut(text.encode()), False


def encode_inputs(inputs: Iterable[tuple[str, str]]) -> str:
    """Write the arguments that came from other calls, each with the id of the call, as JSON
    text."""
    return json.dumps(
        [[values.encodable(str(name))[:_MAX_NAME], str(call_id)] for name, call_id in inputs]
    )


def measure(value: object) -> int:
    """Give the characters (of binary data the bytes) of a result, estimated where counting would
    cost."""
    if type(value) is int:
        # The number of digits, nearly.
        return value.bit_length() * 3 // 10 + 1
    kind = type(value)
    if (kind is dict or kind is list) and (size := _json_length(value)):
        return size
    return _size(value, 0, [_MAX_ITEMS])


def _json_length(whole: Any) -> int:
    """Give the length of the JSON text of a few plain items, or rows of them; 0 for anything
    else. Writing it takes less time than measuring each item."""
    # `from orjson import dumps` would take four times as long.
    import orjson

    parts, count = [whole], 0
    try:
        for part in parts:
            count += len(part)
            if count > _MAX_LEAVES:
                return 0
            items = part
            if type(part) is dict:
                items = part.values()
                for key in part:
                    if type(key) is not str or len(key) > _MAX_LEAF:
                        return 0
            for item in items:
                kind = type(item)
                if kind is str:
                    if len(item) > _MAX_LEAF:
                        return 0
                elif kind not in NUMBERS:
                    if part is not whole or (kind is not dict and kind is not list):
                        return 0
                    # The loop goes on with it.
                    parts.append(item)
        return len(orjson.dumps(whole))
    # Half a character, an integer over 64 bits; or the tool still changes the value elsewhere.
    except (TypeError, RuntimeError):
        return 0


def short_text(text: str, mask: Callable[[str], str], limit: int) -> str:
    """Give a foreign text (a name that somebody typed, an id) masked, on one line, fit for UTF-8,
    and cut."""
    masked = mask(text) if len(text) <= _WINDOW else _masked_head(text, mask)
    return " ".join(values.encodable(masked[:limit]).split())


def _cut(raw: bytes) -> str:
    return raw[:MAX_ARGS_BYTES].decode("utf-8", "ignore")


def _masked_head(text: str, mask: Callable[[str], str]) -> str:
    """Give the beginning of a long text: masked first, cut after, so that half a secret is never
    left over."""
    masked = mask(text[:_WINDOW])
    return masked[: max(0, len(masked) - _MARGIN)][:MAX_ARGS_BYTES] + "..."


def _shorten(value: object, mask: Callable[[str], str], budget: list[int], depth: int) -> object:
    """Copy a value as plain JSON for a person to read: about as many characters as the budget
    has."""
    budget[0] -= 8
    if budget[0] <= 0 or depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, str):
        budget[0] -= min(len(value), MAX_ARGS_BYTES)
        return (
            str.__str__(value)
            if len(value) <= MAX_ARGS_BYTES
            else _masked_head(str.__str__(value), mask)
        )
    if isinstance(value, dict):
        pairs = list(islice(dict.items(value), budget[0]))
        return {
            str(_shorten(key, mask, budget, _MAX_DEPTH)): _shorten(item, mask, budget, depth + 1)
            for key, item in pairs
            if budget[0] > 0
        }
    if isinstance(value, (list, tuple)):
        return [
            _shorten(item, mask, budget, depth + 1)
            for item in islice(value, budget[0])
            if budget[0] > 0
        ]
    if value is None or isinstance(value, (bool, float)):
        return value
    if type(value) is int:
        return value if value.bit_length() < 64 else f"<int of {value.bit_length()} bits>"
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value)} bytes>"
    kind = type(value)
    shape = (
        getattr(value, "shape", None)
        if kind.__module__.partition(".")[0] in ("numpy", "pandas")
        else None
    )
    # A date, path, decimal or numpy scalar is written as `values` has it; of anything else its
    # type.
    if isinstance(value, _SIMPLE) or (shape == () and hasattr(value, "item")):
        return values.to_json(value)
    return (
        f"<{kind.__name__} of shape {shape}>" if isinstance(shape, tuple) else f"<{kind.__name__}>"
    )


def _size(value: object, depth: int, left: list[int]) -> int:
    """Give the size of a value as JSON text, from a look at no more items than are `left`."""
    if type(value) is int:
        return measure(value)
    if isinstance(value, str):
        return str.__len__(value) + (2 if depth else 0)
    if value is None or isinstance(value, bool):
        return 5 if value is False else 4
    if isinstance(value, float):
        return _ITEM
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, memoryview):
        return value.nbytes
    container = next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
    if container is None:
        # A table or an array is measured by its shape, without a look at its contents.
        shape = (
            getattr(value, "shape", None)
            if type(value).__module__.partition(".")[0] in _TABLES
            else None
        )
        if not isinstance(shape, tuple) or not all(isinstance(side, int) for side in shape):
            return _OBJECT
        return math.prod(shape) * (
            _CELL if len(shape) == 2 and hasattr(value, "columns") else _ITEM
        )
    count: int = container.__len__(value)
    if not count or depth > _MAX_DEPTH:
        return 2
    total = seen = 0
    # The items are listed first: the tool may still be changing the value in another thread.
    inside = dict.items(value) if isinstance(value, dict) else container.__iter__(value)
    for item in list(islice(inside, max(1, left[0]))):
        left[0] -= 1
        seen += 1
        total += 2 + sum(
            _size(part, depth + 1, left) for part in (item if container is dict else (item,))
        )
        if left[0] <= 0:
            break
    return 2 + total * count // seen
