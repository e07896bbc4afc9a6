"""Closing: full journals become Parquet parts, small parts are joined, old parts expire.

A part is written whole under the name of its journal, then the journal is deleted; a part whose
journal is still there wins, so a kill at any moment neither loses nor doubles a call. A joined part
names its members, and a member that is named does not count, so the same holds for joining. An
expired part keeps the sums of each tool and day; the part itself wins as long as it is there.

One process at a time does this, others go on without waiting. Callers who record never wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onetool_ipy.base.files import claim, remove, remove_stale_temp_files
from onetool_ipy.stores.calls.database import (
    IS_A_CALL,
    ParquetPart,
    literal,
    part_from,
    read_metadata,
    rows_of,
    write_parquet,
)
from onetool_ipy.stores.calls.journal import (
    Contexts,
    JournalCall,
    JournalFile,
    files_in,
    parse,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SMALL, _AT_ONCE = 25_000, 20
"""Parts of fewer calls are joined, so many at once: a question reads few files, whatever wrote
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many of the newest calls are kept one by one, and how many bytes their parts may have."""

    calls: int = 1_000_000
    bytes: int = 512 << 20


def tidy(
    connection: DuckDBPyConnection,
    folder: Path,
    *,
    retention: Retention,
    least_calls: int,
) -> None:
    """Close journals of dead owners that have so many calls, join parts, let parts expire.

    Does nothing if another process is at it. Raises StoreError, OSError.
    """
    if not folder.is_dir():
        return
    fd = os.open(folder / "tidy.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not claim(fd):
            return
        remove_stale_temp_files(folder)
        files = files_in(folder)
        parts = _parts(connection, files)
        _remove_leftovers(files, parts)
        for file in files_in(folder):
            if file.state in ("open", "closed"):
                close_journal(connection, file, least_calls)
        parts = _join(connection, _parts(connection, files_in(folder)))
        _expire(connection, parts, retention)
    finally:
        os.close(fd)


def close_journal(connection: DuckDBPyConnection, file: JournalFile, least_calls: int) -> None:
    """Make a part of a journal that nobody owns any more, if it has so many calls."""
    if not file.size and file.state == "open":  # its owner may not have claimed it yet
        return
    try:
        fd = os.open(file.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, PermissionError):  # another user's stays a journal
        return
    try:
        # Whoever had it before may have closed it, and deleted it, a moment ago.
        if not claim(fd) or not os.fstat(fd).st_nlink:
            return
        if not _write_part(connection, file, least_calls):
            return
    finally:
        os.close(fd)
    # Windows removes no open file. Nobody goes on with a journal that has a part.
    with suppress(PermissionError):  # somebody reads it; the part wins
        remove(file.path)


def _write_part(connection: DuckDBPyConnection, file: JournalFile, least_calls: int) -> bool:
    contexts: Contexts = {}
    calls: list[JournalCall] = []
    handles: dict[str, str] = {}
    damaged = 0
    for data, _ in file.lines(0):
        lines = parse(data, contexts)
        calls += lines.calls
        handles |= dict(lines.handles)
        damaged += lines.damaged
    if not calls or (file.state == "open" and len(calls) < least_calls):
        return False
    _, times, ids, *_ = zip(*calls, strict=True)
    first, last = min(times), max(times)
    attached: list[JournalCall] = [
        ((), last, call_id, "", False, 0.0, 0, {"handle": handles[call_id]})
        for call_id in handles.keys() - set(ids)
    ]
    rows = [
        (*call[:-1], {**call[-1], "handle": handles[call_id]}) if call_id in handles else call
        for call, call_id in zip(calls, ids, strict=True)
    ]
    part = ParquetPart(
        file=file.as_state("part"),
        calls=len(calls),
        first=first,
        last=last,
        damaged=damaged,
        attached=len(attached),
        members=(),
    )
    query, values = rows_of([*rows, *attached], 0)
    write_parquet(connection, part.file.path, query, part.metadata(), values)
    return True


def _parts(connection: DuckDBPyConnection, files: Sequence[JournalFile]) -> list[ParquetPart]:
    """Give the parts that can be read, the oldest first, without members of others."""
    mine = [file for file in files if file.state in ("part", "expired")]
    entries = read_metadata(connection, [file.path for file in mine])
    found = [part_from(file, entries.get(str(file.path))) for file in mine]
    parts = [part for part in found if part is not None]
    members = {name for part in parts for name in part.members}
    return sorted(
        (part for part in parts if part.file.name not in members), key=lambda part: part.last
    )


def _remove_leftovers(files: Sequence[JournalFile], parts: Sequence[ParquetPart]) -> None:
    """Delete what a kill left behind: journals that have a part, members of joined parts, parts
    that expired."""
    members = {name for part in parts for name in part.members}
    whole = {part.file.name for part in parts if part.file.state == "part"}
    for file in files:
        is_journal = file.state in ("open", "closed")
        if file.name in members or (is_journal and file.name in whole):
            with suppress(OSError):
                file.path.unlink()
    # Of a part and its sums the part counts, and expires again.
    for part in parts:
        if part.file.state == "expired" and part.file.name in whole:
            with suppress(OSError):
                part.file.path.unlink()


def _join(connection: DuckDBPyConnection, parts: Sequence[ParquetPart]) -> list[ParquetPart]:
    """Join small parts, the oldest first. Give the parts after it, the oldest first."""
    small = [
        part
        for part in parts
        if part.file.state == "part"
        and part.calls < _SMALL
        # A journal that could not be deleted must find its part.
        and not part.file.as_state("open").path.exists()
    ]
    while len(small) >= _AT_ONCE:
        group, small = small[:_AT_ONCE], small[_AT_ONCE:]
        parts = [*(part for part in parts if part not in group), _join_group(connection, group)]
    return sorted(parts, key=lambda part: part.last)


def _join_group(connection: DuckDBPyConnection, group: Sequence[ParquetPart]) -> ParquetPart:
    first = group[0].file
    name = f"{first.name.partition('-')[0]}-{os.urandom(4).hex()}"
    joined = ParquetPart(
        file=JournalFile(folder=first.folder, name=name, state="part", size=0),
        calls=sum(part.calls for part in group),
        first=min(part.first for part in group),
        last=max(part.last for part in group),
        damaged=sum(part.damaged for part in group),
        attached=sum(part.attached for part in group),
        members=tuple(name for part in group for name in (part.file.name, *part.members)),
    )
    files = literal(str(part.file.path) for part in group)
    query = f"SELECT * FROM read_parquet({files}) ORDER BY ts, place, call_id"
    write_parquet(connection, joined.file.path, query, joined.metadata())
    for part in group:
        with suppress(OSError):
            part.file.path.unlink()
    return joined


def _expire(
    connection: DuckDBPyConnection, parts: Sequence[ParquetPart], retention: Retention
) -> None:
    """Replace the oldest parts by their sums, as far as there are too many newer calls."""
    calls = size = 0
    for part in reversed(parts):
        if part.file.state == "expired":
            continue
        length = part.file.path.stat().st_size
        is_old = calls >= retention.calls or size + length > retention.bytes
        calls, size = calls + part.calls, size + length
        if is_old:
            path = str(part.file.path)
            query = (
                "SELECT date_trunc('day', ts)::TIMESTAMP AS day, tool, count(*) AS calls, count(*)"
                " FILTER (NOT ok) AS failures, sum(ms) AS ms, sum(bytes)::BIGINT AS bytes, max(ts)"
                " AS last, count(*) FILTER (source IN ('model', 'mcp')) AS model_calls,"
                " coalesce(sum(bytes) FILTER (source IN ('model', 'mcp')), 0)::BIGINT AS"
                f" model_bytes FROM read_parquet({literal([path])}) WHERE {IS_A_CALL}"
                " GROUP BY 1, 2 ORDER BY 1, 2"
            )
            sums = part.file.as_state("expired").path
            write_parquet(connection, sums, query, part.metadata())
            # A kill here, or a reader on Windows, leaves the part, which then expires again.
            with suppress(PermissionError):
                remove(part.file.path)
