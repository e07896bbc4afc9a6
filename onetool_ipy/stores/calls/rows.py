"""The single calls, newest first: as rows for `ot.history`, as a table for pandas.

The newest million are there (see `fold`). The order is that of the calls' own times, whichever process made
them. A table is made from whole columns, so that it costs no step of Python per call.
"""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onetool_ipy.stores.calls.chunk import COLUMNS, UNKNOWN, WIDTHS, encode, lines
from onetool_ipy.stores.calls.line import Batch
from onetool_ipy.stores.calls.snapshot import Chunk, Snapshot
from onetool_ipy.stores.calls.usage import to_time, to_us

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

__all__ = ["CallRow", "Wanted", "frame_of", "history_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which calls: of a tool, that went well or not, from a time on, and how many of them; None means any."""

    limit: int | None = None
    tool: str | None = None
    ok: bool | None = None
    since: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call as recorded. `args` is JSON text, masked and cut at 4 KB; `is_whole` says that it is neither.

    `bytes` is the size of the output: characters of text, bytes of binary data, an estimate for anything else.
    """

    ts: datetime.datetime
    call_id: str
    tool: str
    source: str
    args: str
    is_whole: bool
    ok: bool
    code: str | None
    reason: str | None
    ms: float
    bytes: int
    handle: str | None

    @property
    def arguments(self) -> Any | None:
        """The arguments as they were given, to call again with; None where the record does not have all of them."""
        if not self.is_whole:
            return None
        from orjson import loads

        return loads(self.args)


def history_of(found: Snapshot, wanted: Wanted) -> list[CallRow]:
    """The newest calls that are wanted, newest first."""
    handles = found.handles()
    picked: list[_Place] = []
    for batch in found.tails():
        handles.update(batch.handles)
        picked = _newest([*picked, *_places(batch, wanted, batch)], wanted.limit)
    for chunk in found.chunks(first=_edge(wanted)):
        if wanted.limit is not None and len(picked) >= wanted.limit and _oldest(picked) > chunk.last_ts:
            break
        stored = found.chunk(chunk.number, _LOOKED_AT) if _may_match(found, chunk, wanted) else None
        if stored is not None:
            picked = _newest([*picked, *_places(stored, wanted, chunk.number)], wanted.limit)
    chunks = {home: found.chunk(home) for home in {home for _, _, home in picked if isinstance(home, int)}}
    at_home = ((chunks[home] if isinstance(home, int) else home, place) for _, place, home in picked)
    return [_row(batch, place, handles) for batch, place in at_home if batch is not None]


def frame_of(found: Snapshot, wanted: Wanted) -> pd.DataFrame:
    """The calls that are wanted as a DataFrame, newest first. Names are categories; `ts` is a time in UTC."""
    import numpy as np
    import pandas as pd

    table = _table(found, wanted)
    numbers = {name: np.frombuffer(b"".join(table.numbers[name]), dtype=kind) for name, kind in _NUMBERS.items()}
    keep = _kept(numbers, table.words, wanted)
    call_ids = _texts(table.call_id, keep)
    return pd.DataFrame(
        {
            "ts": pd.DatetimeIndex(numbers["ts"][keep].view("M8[us]")).tz_localize("UTC"),
            "call_id": call_ids,
            "tool": _categories(numbers["tool"][keep], table.words),
            "source": _categories(numbers["source"][keep], table.words),
            "args": _texts(table.args, keep),
            "ok": (numbers["flags"][keep] & 1).astype(bool),
            "code": _categories(numbers["code"][keep], table.words),
            "reason": _categories(numbers["reason"][keep], table.words),
            "ms": numbers["ms"][keep],
            "bytes": numbers["size"][keep],
            "handle": _handles(table, keep, call_ids),
        },
        copy=False,
    )


_Place = tuple[int, int, "Batch | int"]
"""The time of a call, and where it is in which batch of the tail, or in which chunk."""

_NUMBERS = {
    "ts": "i8",
    "tool": "u2",
    "flags": "u1",
    "ms": "f8",
    "size": "i8",
    "source": "u2",
    "code": "u2",
    "reason": "u2",
}
_LOOKED_AT = ("ts", "tool", "flags", "ms", "size")
_MAX_NUMBER = 65_535


def _may_match(found: Snapshot, chunk: Chunk, wanted: Wanted) -> bool:
    """Whether a chunk has a call of the wanted tool and outcome; quick, since most have none of a rare one."""
    if wanted.tool is not None:
        number = found.number_of(wanted.tool)
        if number not in array("H", found.columns(chunk.number, ("tool",))["tool"]):
            return False
    if wanted.ok is None:
        return True
    flags = found.columns(chunk.number, ("flags",))["flags"]
    return any(flags.count(bytes((int(wanted.ok) | whole,))) for whole in (0, 2))


def _edge(wanted: Wanted) -> int | None:
    return None if wanted.since is None else to_us(wanted.since)


def _places(batch: Batch, wanted: Wanted, home: Batch | int) -> Iterator[_Place]:
    edge = _edge(wanted)
    for place, (ts, tool, ok) in enumerate(zip(batch.ts, batch.tool, batch.ok, strict=True)):
        if edge is not None and ts < edge:
            continue
        if (wanted.tool is None or tool == wanted.tool) and (wanted.ok is None or ok == wanted.ok):
            yield ts, place, home


def _newest(places: Iterable[_Place], limit: int | None) -> list[_Place]:
    """The newest of them, newest first; of two at the same time the one recorded later."""
    ordered = sorted(places, key=lambda place: place[:2], reverse=True)
    return ordered if limit is None else ordered[: max(0, limit)]


def _oldest(picked: list[_Place]) -> int:
    return picked[-1][0] if picked else 0


def _row(batch: Batch, place: int, handles: dict[str, str]) -> CallRow:
    return CallRow(
        ts=to_time(batch.ts[place]),
        call_id=batch.call_id[place],
        tool=batch.tool[place],
        source=batch.source[place],
        args=batch.args[place],
        is_whole=batch.whole[place],
        ok=batch.ok[place],
        code=batch.code[place] or None,
        reason=batch.reason[place] or None,
        ms=batch.ms[place],
        bytes=batch.size[place],
        handle=handles.get(batch.call_id[place]) or batch.handle[place] or None,
    )


class _Table:
    """Whole columns, oldest chunk first and the tail last; the words by number; the handles that came later."""

    def __init__(self, words: dict[int, str], handles: dict[str, str]) -> None:
        self.numbers: dict[str, list[bytes]] = {name: [] for name in _NUMBERS}
        self.call_id: list[str] = []
        self.args: list[str] = []
        self.handle: list[str] = []
        self.has_handles = False
        self.words = words
        self.handles = handles

    def add(self, piece: dict[str, bytes]) -> None:
        """Put a chunk behind the others; one whose columns are not of one length is left out."""
        rows = len(piece["flags"])
        call_ids, args, handles = lines(piece["call_id"]), lines(piece["args"]), lines(piece["handle"])
        is_whole = all(len(piece[name]) == rows * width for name, width in WIDTHS.items())
        if not is_whole or not rows == len(call_ids) == len(args) == len(handles):
            return
        for name, column in self.numbers.items():
            column.append(piece[name])
        self.call_id += call_ids
        self.args += args
        self.handle += handles
        self.has_handles = self.has_handles or bool(piece["handle"].strip(b"\n"))


def _table(found: Snapshot, wanted: Wanted) -> _Table:
    handles, tail = found.handles(), []
    numbers = {word: number for number, word in found.words.items()}
    for batch in found.tails():
        handles.update(batch.handles)
        if len(batch):
            _number(numbers, {*batch.tool, *batch.source, *batch.code, *batch.reason})
            tail.append(encode(batch, numbers))
    words = {number: word for word, number in numbers.items() if number < _MAX_NUMBER}
    table = _Table(words, handles)
    for chunk in reversed(_needed(found, wanted, sum(len(piece["flags"]) for piece in tail))):
        table.add(found.columns(chunk.number, COLUMNS))
    for piece in tail:
        table.add(piece)
    return table


def _needed(found: Snapshot, wanted: Wanted, rows: int) -> list[Chunk]:
    """The chunks to look at, newest first: with a limit and no other wish not all of them."""
    chunks = found.chunks(first=_edge(wanted))
    if wanted.limit is None or wanted.tool is not None or wanted.ok is not None:
        return chunks
    needed: list[Chunk] = []
    oldest = 0
    for chunk in chunks:
        if rows >= wanted.limit and chunk.last_ts < oldest:
            break
        needed.append(chunk)
        rows += chunk.rows
        oldest = min(oldest, chunk.first_ts) if len(needed) > 1 else chunk.first_ts
    return needed


def _number(numbers: dict[str, int], words: Iterable[str]) -> None:
    """Give words of the tail a number behind those of the database; there is an end to them, as there."""
    top = max(numbers.values(), default=0)
    for word in sorted(words):
        if word not in numbers:
            top = min(top + 1, _MAX_NUMBER)
            numbers[word] = top


def _kept(numbers: dict[str, Any], words: dict[int, str], wanted: Wanted) -> slice | np.ndarray[Any, Any]:
    """Where the wanted calls are, newest first; where they are in order anyway, a slice, which copies nothing."""
    import numpy as np

    ts = numbers["ts"]
    is_ordered = bool((ts[1:] >= ts[:-1]).all())
    if is_ordered and wanted == Wanted():
        return slice(None, None, -1)
    keep = (np.arange(len(ts)) if is_ordered else np.argsort(ts, kind="stable"))[::-1]
    if wanted.tool is not None:
        number = next((number for number, word in words.items() if word == wanted.tool), -1)
        keep = keep[numbers["tool"][keep] == number]
    if wanted.ok is not None:
        keep = keep[(numbers["flags"][keep] & 1) == int(wanted.ok)]
    if wanted.since is not None:
        keep = keep[ts[keep] >= to_us(wanted.since)]
    return keep if wanted.limit is None else keep[: max(0, wanted.limit)]


def _texts(column: list[str], keep: slice | np.ndarray[Any, Any]) -> Any:
    import numpy as np
    import pandas as pd

    return pd.array(np.array(column, dtype=object)[keep], dtype="str", copy=False)


def _categories(numbers: np.ndarray[Any, Any], words: dict[int, str]) -> pd.Categorical:
    """Names by number; "" is a missing one."""
    import numpy as np
    import pandas as pd

    used = np.flatnonzero(np.bincount(numbers, minlength=1))
    names = {int(number): words.get(int(number), UNKNOWN) for number in used}
    places = {name: place for place, name in enumerate(sorted({name for name in names.values() if name}))}
    codes = np.full(_MAX_NUMBER + 1, -1, dtype=np.int32)
    for number, name in names.items():
        codes[number] = places.get(name, -1)
    return pd.Categorical.from_codes(codes[numbers], categories=list(places))


def _handles(table: _Table, keep: slice | np.ndarray[Any, Any], call_ids: Any) -> Any:
    """The handles; missing where there is none, which is almost everywhere."""
    import pandas as pd

    handles = pd.array([None], dtype="str").repeat(len(call_ids))
    if table.has_handles:
        stored = _texts(table.handle, keep)
        handles[stored != ""] = stored[stored != ""]
    if table.handles:
        for place in pd.Series(call_ids).isin(list(table.handles)).to_numpy().nonzero()[0]:
            handles[place] = table.handles[call_ids[place]]
    return handles
