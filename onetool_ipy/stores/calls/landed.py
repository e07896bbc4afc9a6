"""The landed format of the call log: calls packed in chunks of columns, names as numbers, histograms as bytes.

Read once, when a database in that format is converted (see `repair`), and written by nobody any more. A kernel with
the earlier version may still run beside us: once the file is frozen, that version takes it for one of a later version
and leaves it and the journals alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onetool_ipy.stores.calls.database import attempt
from onetool_ipy.stores.calls.rollup import Rollup, grouped

if TYPE_CHECKING:
    import sqlite3

__all__ = ["TABLES", "calls", "files", "freeze", "handles", "rollups", "state"]

TABLES = frozenset(("words", "marks", "files", "tallies", "chunks", "columns", "handles"))

_FROZEN = 2
_SPANS = ("all", "day", "hour")
_ARRAYS = {"ts": "q", "tool": "H", "flags": "B", "ms": "d", "size": "q", "source": "H", "code": "H", "reason": "H"}
_TEXTS = ("call_id", "handle", "args")
_END = "end:"


def freeze(connection: sqlite3.Connection) -> bool:
    """Let no process with the earlier version change the database any more; False if it is not in that format."""
    names, _ = attempt(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
    if not {name for (name,) in names} >= TABLES:
        return False
    attempt(connection, f"PRAGMA user_version={_FROZEN}")
    return True


def calls(connection: sqlite3.Connection) -> Iterator[list[Any] | None]:
    """Give the calls, chunk by chunk; None for a chunk that is damaged."""
    words = dict(attempt(connection, "SELECT id, text FROM words")[0])
    listed, are_all = attempt(connection, "SELECT id FROM columns ORDER BY id")
    if not are_all:
        listed += attempt(connection, "SELECT id FROM columns ORDER BY id DESC")[0]
        yield None
    for (number,) in sorted(set(listed)):
        found, _ = attempt(connection, f"SELECT {', '.join((*_ARRAYS, *_TEXTS))} FROM columns WHERE id = ?", (number,))
        try:
            yield _decoded(dict(zip((*_ARRAYS, *_TEXTS), found[0], strict=True)), words)
        except (IndexError, TypeError, ValueError):
            yield None


def rollups(connection: sqlite3.Connection) -> tuple[dict[tuple[str, int, str], Rollup], bool]:
    """Give the rollups by span, start and tool, and whether these are all."""
    words = dict(attempt(connection, "SELECT id, text FROM words")[0])
    found, are_all = attempt(connection, "SELECT * FROM tallies")
    cells: list[tuple[tuple[str, int, str], Rollup]] = []
    for level, start, number, calls, failures, ms_sum, ms_min, ms_max, size, last_ts, histogram in found:
        try:
            cell = Rollup(calls, failures, ms_sum, ms_min, ms_max, size, last_ts, _durations(histogram))
            is_valid = cell.is_valid()
            key = _SPANS[level], start, _word(words, number)
        except (IndexError, TypeError, ValueError):
            is_valid = False
        if not is_valid:
            are_all = False
            continue
        cells += [(key, cell), ((*key[:2], ""), cell)]
    return grouped(cells), are_all


def files(connection: sqlite3.Connection) -> tuple[list[Any], bool]:
    """Give name, offset, mark (None if it is not known), damaged lines and time of each journal."""
    marks = dict(attempt(connection, "SELECT name, value FROM marks")[0])
    found, are_all = attempt(connection, "SELECT name, offset, damaged, at FROM files")
    return [(name, offset, marks.get(f"{_END}{name}"), damaged, at) for name, offset, damaged, at in found], are_all


def handles(connection: sqlite3.Connection) -> list[Any]:
    """Give call id and handle of the results that were stored later."""
    return attempt(connection, "SELECT call_id, handle FROM handles")[0]


def state(connection: sqlite3.Connection) -> list[Any]:
    """Give the name and value of what else is known."""
    return attempt(connection, "SELECT name, value FROM marks WHERE name = 'dropped_until'")[0]


def _decoded(columns: Mapping[str, bytes], words: Mapping[int, str]) -> list[Any]:
    """Read a chunk: numbers are arrays, texts are lines. Raises ValueError if the columns are not of one length."""
    found: dict[str, Any] = {name: columns[name].decode("utf-8", "replace").split("\n") for name in _TEXTS}
    for name, kind in _ARRAYS.items():
        numbers = array(kind)
        numbers.frombytes(columns[name])
        found[name] = numbers
    for name in ("tool", "source", "code", "reason"):
        found[name] = [_word(words, number) for number in found[name]]
    found["whole"] = [flag >> 1 & 1 == 1 for flag in found["flags"]]
    found["ok"] = [flag & 1 == 1 for flag in found["flags"]]
    names = ("ts", "call_id", "tool", "source", "args", "whole", "ok", "code", "reason", "ms", "size", "handle")
    return list(zip(*(found[name] for name in names), strict=True))


def _durations(histogram: bytes) -> list[int]:
    """Read a histogram: the bytes of a bin, the number of the first bin, then the bins."""
    if not histogram:
        return []
    width, first = histogram[0], int.from_bytes(histogram[1:3], "little")
    bins = (int.from_bytes(histogram[at : at + width], "little") for at in range(3, len(histogram), width))
    return [first, *bins]


def _word(words: Mapping[int, str], number: int) -> str:
    return words.get(number, f"(unknown {number})")
