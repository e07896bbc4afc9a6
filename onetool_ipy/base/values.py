"""How values that JSON cannot hold are shown, stored and sent: one table, used everywhere.

    value                                   becomes
    ------------------------------------    -----------------------------------------------
    None, bool, int, float, str             itself; NaN and infinities: null
    an int of more than 4,000 digits        its hexadecimal text
    text with lone surrogates               the same text with \\udXXX written out
    list, tuple, set, frozenset, deque      list (sets sorted by their repr)
    dict and other mappings                 object; keys as text, 1 beside "1" as "1 (int)"
    bytes, bytearray, memoryview            {"base64": ..., "size": n}
    datetime, date, time                    ISO 8601 text; NaT: null
    timedelta                               seconds
    Decimal, UUID, Path, complex            text
    Enum                                    its value
    numpy scalar / array                    number / nested list; pandas.NA: null
    DataFrame                               list of records, without the index
    DataFrame with equal column names       {"columns": [...], "rows": [[...], ...]}
    Series, Index                           list
    any other table (`tables`)              as the DataFrame it gives
    sqlite3.Row                             object
    dataclass, pydantic model, namedtuple   object
    exception                               "Type: message"
    generator, file, anything else          its repr, cut at 500 characters, never consumed
    an object whose repr fails              "<Type object, repr failed>"
    a cycle, or more than 200 levels        "<cycle>", "<too deep>"

A value returned to Python is never altered: this is for what leaves it. Nothing here raises. pandas
is imported only for a table of another library, which `tables` reads.
"""

from __future__ import annotations

import json
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NoReturn

from onetool_ipy.base import tables

Json = dict[str, Any]
"""An object of JSON, as Python has it."""

NESTED: dict[type, str] = {list: "[...]", tuple: "(...)", dict: "{...}"}
"""The types that `short_repr` writes itself, and what it writes for one inside itself."""

MAX_ARGS_DEPTH = 100
"""How deep the value of an argument may be nested. The native check goes down some 130 levels."""
_MAX_DEPTH = 200
_MAX_REPR = 500
_MAX_BITS = 13_000
_SURE = frozenset((str, int, bool, type(None)))
_LEAVES = _SURE | {float}
_BRIEF = _LEAVES - {str}


def short_repr(value: object, limit: int) -> str:
    """Return `repr(value)` if it has at most `limit` characters, else its beginning, at the cost of
    what is shown.

    A list that holds the same list twice, and so on for forty levels, has a `repr` of a terabyte.
    The `repr` of what is inside may raise.
    """
    pieces: list[str] = []
    size = 0
    above = {id(value): _pieces(value)}
    while above and size <= limit:
        inside = next(reversed(above))
        piece = next(above[inside], None)
        if piece is None:
            del above[inside]
            continue
        if isinstance(piece, tuple):
            (inner,) = piece
            if type(inner) in NESTED and id(inner) not in above:
                above[id(inner)] = _pieces(inner)
                continue
            piece = NESTED.get(type(inner)) or repr(inner)
        pieces.append(piece)
        size += len(piece)
    return "".join(pieces)


def _pieces(value: Any) -> Iterator[str | tuple[Any]]:
    """Its text, and each thing inside as a tuple of one. At least one character stands before each
    of them."""
    if type(value) is dict:
        lead = "{"
        for key, inner in value.items():
            yield lead
            yield (key,)
            yield ": "
            yield (inner,)
            lead = ", "
        yield "{}" if lead == "{" else "}"
        return
    first, last = ("[", "]") if type(value) is list else ("(", ")")
    lead = first
    for inner in value:
        yield lead
        yield (inner,)
        lead = ", "
    if lead == first:
        yield first
    yield ",)" if type(value) is tuple and len(value) == 1 else last


def to_json(value: object) -> Any:
    """Return the JSON-safe form of any value, by the table above."""
    return _Writer().write(value, 0)


def to_comparable(value: object) -> Any:
    """Return the same with infinite numbers as they are: to a comparison they are not None."""
    return _Writer(keeps_infinite=True).write(value, 0)


def from_json(text: str | bytes) -> Any:
    """Parse strict JSON: NaN and Infinity raise ValueError too."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"'{word}' is not JSON")

    return json.loads(text, parse_constant=refuse)


def to_text(value: object) -> str:
    """Return the text of any value: text as it is, anything else as indented JSON."""
    # Not isinstance: the `__class__` of a proxy may raise.
    if issubclass(type(value), str):
        return str.__str__(value)
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a value is plain JSON as it stands: no other types, no NaN, at most 200 levels."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind in _LEAVES:
        return True
    if depth >= _MAX_DEPTH or (kind is not list and kind is not dict):
        return False
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        value = value.values()
    for inner in value:  # noqa: SIM110 - a generator for each level would cost more than what it looks at
        if type(inner) not in _SURE and not is_json(inner, depth + 1):
            return False
    return True


def safe_repr(value: object, limit: int = _MAX_REPR) -> str:
    """Return `repr(value)`, cut. Never raises."""
    try:
        text = short_repr(value, limit) if type(value) in NESTED else repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything
        return f"<{type(value).__name__} object, repr failed>"
    return cut(text, limit)


def cut(text: str, limit: int) -> str:
    """Return the text cut to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plain_copy(args: Mapping[str, Any]) -> tuple[dict[str, Any], bool, int, Copier | None]:
    """Copy arguments with their lists, dicts and tuples, sharing the leaves, so that a tool cannot
    change its caller's.

    Also tells whether a native walker may go through them: no cycle, at most 100 levels, and no
    subclass of a container that could hide either. What cannot be copied so is shared as it is. The
    number says how long they are as JSON, roughly and without their keys; -1 if they hold what JSON
    has no type for. The copier, where one was needed, knows which copy is of which container.
    """
    fresh = dict(args)
    size = 0
    for value in fresh.values():
        kind = type(value)
        if kind is str:
            size += len(value)
        elif kind not in _BRIEF:
            break
    else:
        return fresh, True, size, None
    size, copier = 0, Copier()
    for key, value in fresh.items():
        kind = type(value)
        if kind is str:
            size += len(value)
        elif kind not in _BRIEF:
            fresh[key] = copier.copy(value)
    return fresh, copier.plain, size + copier.size if copier.is_json else -1, copier


def encodable(text: str) -> str:
    """The text with half a character (a lone surrogate), which no file and no table can hold, as
    `\\udXXX`."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def map_text(value: object, change: Callable[[str], str]) -> Any:
    """Apply a function to every text inside lists, tuples and dicts; what holds no changed text
    stays itself."""
    if type(value) is str:
        return change(value)
    try:
        return _map(value, change)
    except RecursionError:
        return change(safe_repr(value))


def _map(value: Any, change: Callable[[str], str]) -> Any:
    kind = type(value)
    if kind is str:
        return change(value)
    if kind is dict:
        pairs = {
            change(k) if type(k) is str else _map(k, change): change(v)
            if type(v) is str
            else _map(v, change)
            for k, v in value.items()
        }
        same = all(
            a is c and b is d for (a, b), (c, d) in zip(pairs.items(), value.items(), strict=False)
        )
        return value if same and len(pairs) == len(value) else pairs
    if kind is list or kind is tuple:
        items = [change(v) if type(v) is str else _map(v, change) for v in value]
        if all(a is b for a, b in zip(items, value, strict=True)):
            return value
        return items if kind is list else tuple(items)
    return value


class _Unending(Exception):
    """A value is nested too deep, or holds itself."""


class Copier:
    """Copies containers; what stands in two places is copied once, so that the copy has the shape
    of the original.

    `copies` has each copy by the `id` of its original; `others` are the objects that were shared
    and not copied. `size` is the length with everything written out, however often it is there, so
    it may be a number of sixty digits. `is_too_deep` says that a value is nested deeper than
    arguments may be, or holds itself.
    """

    __slots__ = ("_sizes", "copies", "is_json", "is_too_deep", "others", "plain", "size")

    def __init__(self) -> None:
        self.plain = self.is_json = True
        self.is_too_deep = False
        self.size = 0
        self.copies: dict[int, Any] = {}
        self.others: list[Any] = []
        self._sizes: dict[int, int] = {}

    def copy(self, value: object) -> Any:
        try:
            return self._copy(value, 0)
        except _Unending:
            self.plain = self.is_json = False
            self.is_too_deep = True
            self.others.append(value)
            return value

    def _copy(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is not list and kind is not dict and kind is not tuple:
            self.is_json = False
            self.others.append(value)
            # jsonschema-rs would look inside these odd values, and so might go down without end.
            try:
                is_walked = isinstance(value, (dict, list, tuple, Enum))
            except Exception:  # noqa: BLE001 - a foreign __class__ may raise anything
                is_walked = True
            self.plain = self.plain and not is_walked
            return value
        if depth >= MAX_ARGS_DEPTH:
            raise _Unending
        copied = self.copies.get(id(value))
        if copied is not None:
            # A list without a size of its own is one of numbers.
            self.size += self._sizes.get(id(value), len(copied))
            return copied
        size_before = self.size
        if kind is dict:
            fresh: Any = dict(value)
            self._copy_items(fresh, fresh.items(), depth + 1)
        else:
            fresh = list(value)
            if not _BRIEF.issuperset(map(type, fresh)):
                self._copy_items(fresh, enumerate(fresh), depth + 1)
            if kind is tuple:
                self.is_json = False
                fresh = tuple(fresh)
        self.size += len(fresh)
        self._sizes[id(value)] = self.size - size_before
        self.copies[id(value)] = fresh
        return fresh

    def _copy_items(self, fresh: Any, items: Iterable[tuple[Any, Any]], depth: int) -> None:
        memo = self.copies
        for key, item in items:
            kind = type(item)
            if kind is str:
                self.size += len(item)
            elif (
                kind is list
                and depth < MAX_ARGS_DEPTH
                and id(item) not in memo
                and _BRIEF.issuperset(map(type, item))
            ):
                # A list of numbers alone, as the rows of most tables are, needs no call of its own.
                fresh[key] = memo[id(item)] = item[:]
                self.size += len(item)
            elif kind not in _BRIEF:
                fresh[key] = self._copy(item, depth)


class _Writer:
    """Writes one value as JSON-safe data."""

    __slots__ = ("_above", "_keeps_infinite")

    def __init__(self, *, keeps_infinite: bool = False) -> None:
        self._above: set[int] = set()
        self._keeps_infinite = keeps_infinite

    def write(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return value if value.isascii() else encodable(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() <= _MAX_BITS else hex(value)
        if kind is float:
            is_kept = math.isfinite(value) or (self._keeps_infinite and value == value)
            return value if is_kept else None
        if depth >= _MAX_DEPTH:
            return "<too deep>"
        if id(value) in self._above:
            return "<cycle>"
        self._above.add(id(value))
        try:
            return self._container(value, depth + 1)
        except RecursionError:
            return "<too deep>"
        except Exception:  # noqa: BLE001 - a foreign object may fail in any of its methods; its repr is what is left
            return encodable(safe_repr(value))
        finally:
            self._above.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is list:
            return [self.write(v, depth) for v in value]
        is_foreign = kind is not dict and tables.is_foreign(value)
        if is_foreign and (table := tables.tabular(value)) is not value:
            return self.write(table, depth)
        if isinstance(value, Mapping):
            plain = {
                k if type(k) is str and k.isascii() else _key(k): self.write(v, depth)
                for k, v in value.items()
            }
            if len(plain) == len(value):
                return plain
            names = zip(key_names(value), value.values(), strict=True)
            return {name: self.write(v, depth) for name, v in names}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {str(k): self.write(v, depth) for k, v in zip(value._fields, value, strict=True)}
        if isinstance(value, (list, tuple, deque)):
            return [self.write(v, depth) for v in value]
        if isinstance(value, (set, frozenset)):
            return [self.write(v, depth) for v in sorted(value, key=safe_repr)]
        if isinstance(value, (bytes, bytearray, memoryview)):
            import base64

            data = bytes(value)
            return {"base64": base64.b64encode(data).decode("ascii"), "size": len(data)}
        plainer = _scalar(value) or _inner(value)
        return encodable(safe_repr(value)) if plainer is None else self.write(plainer[0], depth)


def _scalar(value: object) -> tuple[Any] | None:
    """The plain form of a scalar kind; a 1-tuple, since the form itself may be None."""
    import datetime
    import pathlib

    if isinstance(value, Enum):
        return (value.value,)
    if isinstance(value, str):
        return (str.__str__(value),)
    if isinstance(value, int):
        return (int.__int__(value),)
    if isinstance(value, float):
        return (float.__float__(value),)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text = value.isoformat()
        return (None if text == "NaT" else text,)
    if isinstance(value, datetime.timedelta):
        return (value.total_seconds(),)
    # A module that is not loaded has no objects.
    classes = [
        getattr(sys.modules.get(module), name, ())
        for module, name in (("decimal", "Decimal"), ("uuid", "UUID"))
    ]
    if isinstance(value, (pathlib.PurePath, complex, *classes)):
        return (str(value),)
    if isinstance(value, BaseException):
        return (f"{type(value).__name__}: {value}",)
    return None


def _inner(value: Any) -> tuple[Any] | None:
    """The plainer object inside a dataclass or one of numpy, pandas or pydantic, without importing
    any of them."""
    from dataclasses import fields, is_dataclass

    if isinstance(value, type):
        return None
    if is_dataclass(value):
        return ({f.name: getattr(value, f.name) for f in fields(value)},)
    numpy, pandas, pydantic = (sys.modules.get(name) for name in ("numpy", "pandas", "pydantic"))
    if pandas is not None:
        if value is pandas.NA or value is pandas.NaT:
            return (None,)
        if tables.is_dataframe(value):
            if value.columns.map(_key).is_unique:
                return (value.to_dict(orient="records"),)
            return (
                {
                    "columns": value.columns.tolist(),
                    "rows": list(value.itertuples(index=False, name=None)),
                },
            )
        if isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
            return (value.tolist(),)
    if type(value) is getattr(sys.modules.get("sqlite3"), "Row", None):
        return (dict(zip(value.keys(), value, strict=True)),)
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return (value.tolist(),)
    if pydantic is not None and isinstance(value, pydantic.BaseModel):
        return (value.model_dump(),)
    return None


def key_names(keys: Iterable[object]) -> list[str]:
    """Return the keys of a mapping as text, each once: `1` beside `"1"` is `1 (int)`."""
    keys = list(keys)
    names = [_key(key) for key in keys]
    if len(set(names)) == len(names):
        return names
    taken = {name for key, name in zip(keys, names, strict=True) if isinstance(key, str)}
    for place, key in enumerate(keys):
        if not isinstance(key, str):
            while names[place] in taken:
                names[place] += f" ({type(key).__name__})"
            taken.add(names[place])
    return names


def _key(key: object) -> str:
    if isinstance(key, str):
        return encodable(str.__str__(key))
    converted = to_json(key)
    return converted if isinstance(converted, str) else json.dumps(converted)
