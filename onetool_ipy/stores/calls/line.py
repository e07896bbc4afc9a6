"""One call as one line: the format of the append files, read back as columns.

A line is a JSON array of the twelve fields of `FIELDS`, or of two, `call_id` and `handle`, where a result was stored
after its call was recorded. It has a newline before and behind it, so that half a line spoils no other. Reading never
raises: a line that is not one of these is counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["FIELDS", "FORMAT", "Batch", "parse"]

FORMAT = 1
"""The number of this format, in the name of each append file; a file with a higher one is not read."""

FIELDS = ("ts", "call_id", "tool", "source", "args", "whole", "ok", "code", "reason", "ms", "size", "handle")
"""`ts`, when the call ended, in microseconds since 1970; `whole` and `ok` are booleans; a missing text is ""."""

_KINDS: tuple[frozenset[type], ...] = tuple(
    frozenset(kinds)
    for kinds in (
        (int,),
        (str,),
        (str,),
        (str,),
        (str,),
        (bool,),
        (bool,),
        (str,),
        (str,),
        (int, float),
        (int,),
        (str,),
    )
)
_MAX_TS = 1 << 60
_MAX_MS = 1e12
_MAX_SIZE = 1 << 50


@dataclass(frozen=True, slots=True)
class Batch:
    """Some calls as columns of equal length, the handles that came later, and how many lines could not be read."""

    ts: Sequence[int] = ()
    call_id: Sequence[str] = ()
    tool: Sequence[str] = ()
    source: Sequence[str] = ()
    args: Sequence[str] = ()
    whole: Sequence[bool] = ()
    ok: Sequence[bool] = ()
    code: Sequence[str] = ()
    reason: Sequence[str] = ()
    ms: Sequence[float] = ()
    size: Sequence[int] = ()
    handle: Sequence[str] = ()
    handles: dict[str, str] = field(default_factory=dict)
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.ts)


def parse(data: bytes) -> Batch:
    """Read whole lines, each with its newline."""
    from orjson import JSONDecodeError, loads

    try:
        rows = loads(b"[%b]" % data.strip(b"\n").replace(b"\n\n", b","))
    except JSONDecodeError:
        return _parse_one_by_one(data)
    columns = _columns(rows)
    return Batch(*columns) if columns is not None else _parse_one_by_one(data)


def _parse_one_by_one(data: bytes) -> Batch:
    from orjson import JSONDecodeError, loads

    good: list[Any] = []
    handles: dict[str, str] = {}
    damaged = 0
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            row = loads(line)
        except JSONDecodeError:
            damaged += 1
            continue
        if type(row) is list and len(row) == 2 and type(row[0]) is type(row[1]) is str:
            handles[row[0]] = row[1]
        elif _columns([row]) is not None:
            good.append(row)
        else:
            damaged += 1
    columns = _columns(good) if good else None
    return replace(Batch(*(columns or ())), handles=handles, damaged=damaged)


def _columns(rows: list[Any]) -> list[Any] | None:
    """The rows as columns, if every one of them is a whole record."""
    if not rows or set(map(type, rows)) != {list} or set(map(len, rows)) != {len(FIELDS)}:
        return None
    columns = list(zip(*rows, strict=True))
    if any(not kinds.issuperset(map(type, column)) for kinds, column in zip(_KINDS, columns, strict=True)):
        return None
    bounds: Iterable[tuple[Sequence[float], float, float]] = (
        (columns[0], -_MAX_TS, _MAX_TS),
        (columns[9], 0, _MAX_MS),
        (columns[10], 0, _MAX_SIZE),
    )
    return columns if all(low <= min(column) and max(column) <= high for column, low, high in bounds) else None
