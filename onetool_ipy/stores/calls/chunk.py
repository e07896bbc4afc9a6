"""Some thousand calls as one row of the database: numbers as arrays, texts as lines. Pure.

So a million calls are some hundred rows, and become a table without a million steps of Python. Names (of tools,
sources, codes, reasons) are numbers here, which the database's list of words explains.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from onetool_ipy.stores.calls.line import FIELDS, Batch

__all__ = ["COLUMNS", "UNKNOWN", "WIDTHS", "decode", "encode", "is_whole", "joined", "lines", "one_line"]

COLUMNS = ("ts", "tool", "flags", "ms", "size", "source", "code", "reason", "call_id", "handle", "args")
WIDTHS = {"ts": 8, "tool": 2, "flags": 1, "ms": 8, "size": 8, "source": 2, "code": 2, "reason": 2}
"""How many bytes a value has."""
UNKNOWN = "(other)"
"""What a name is called that the list of words does not have, or had no room for."""

_MOST = 1 << 50
_TEXTS = ("call_id", "handle", "args")
_NAMES = ("tool", "source", "code", "reason")


def encode(batch: Batch, numbers: Mapping[str, int]) -> dict[str, bytes]:
    """The columns of a batch as bytes."""
    flags = bytes(ok | whole << 1 for ok, whole in zip(batch.ok, batch.whole, strict=True))
    return {
        "ts": array("q", batch.ts).tobytes(),
        "tool": _numbered(batch.tool, numbers),
        "flags": flags,
        "ms": array("d", batch.ms).tobytes(),
        "size": array("q", batch.size).tobytes(),
        "source": _numbered(batch.source, numbers),
        "code": _numbered(batch.code, numbers),
        "reason": _numbered(batch.reason, numbers),
        "call_id": _text(batch.call_id),
        "handle": _text(batch.handle),
        "args": _text(batch.args),
    }


def decode(columns: Mapping[str, bytes], words: Mapping[int, str]) -> Batch | None:
    """The batch again, blank where a column was not asked for; None where they are not of one length, or damaged."""
    try:
        count = len(columns["flags"])
        blank = [""] * count
        texts = {name: lines(columns[name]) if name in columns else blank for name in _TEXTS}
        names = {name: _named(columns[name], words) if name in columns else blank for name in _NAMES}
        batch = Batch(
            ts=_array("q", columns["ts"]),
            call_id=texts["call_id"],
            tool=names["tool"],
            source=names["source"],
            args=texts["args"],
            whole=[flag >> 1 & 1 == 1 for flag in columns["flags"]],
            ok=[flag & 1 == 1 for flag in columns["flags"]],
            code=names["code"],
            reason=names["reason"],
            ms=_sane(_array("d", columns["ms"])),
            size=_sane(_array("q", columns["size"])),
            handle=texts["handle"],
        )
    except (ValueError, TypeError):
        return None
    return batch if all(len(getattr(batch, field)) == count for field in FIELDS) else None


def is_whole(columns: Mapping[str, bytes]) -> bool:
    """Whether all columns have as many values as there are calls; quicker than to decode them."""
    count = len(columns["flags"])
    if not count or any(len(columns[name]) != count * width for name, width in WIDTHS.items()):
        return False
    return all(columns[name].count(b"\n") == count - 1 for name in _TEXTS)


def joined(name: str, first: bytes, second: bytes) -> bytes:
    """One column of two chunks, one after the other."""
    return first + b"\n" + second if name in _TEXTS else first + second


def lines(data: bytes) -> list[str]:
    """A column of texts."""
    return data.decode("utf-8", "replace").split("\n")


def one_line(text: str) -> str:
    """A text as a column holds it."""
    return text.replace("\n", "\\n")


def _text(column: Sequence[str]) -> bytes:
    text = "\n".join(column)
    if text.count("\n") != len(column) - 1:
        text = "\n".join(map(one_line, column))
    return text.encode("utf-8", "replace")


def _numbered(column: Sequence[str], numbers: Mapping[str, int]) -> bytes:
    return array("H", [numbers[word] for word in column]).tobytes()


def _named(data: bytes, words: Mapping[int, str]) -> list[str]:
    return [words.get(number, UNKNOWN) for number in _array("H", data)]


def _sane(numbers: array[int]) -> array[int]:
    """Durations and sizes; what none can be, as a flipped bit may make it, counts as zero."""
    if numbers and not (min(numbers) >= 0 and sum(numbers) < _MOST):
        return array(numbers.typecode, [one if 0 <= one < _MOST else 0 for one in numbers])
    return numbers


def _array(kind: str, data: bytes) -> array[int]:
    out: array[int] = array(kind)
    out.frombytes(data)
    return out
