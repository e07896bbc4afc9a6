"""A damaged database costs nothing: whatever is in it, it is made again from the journals, and every call counts."""

from __future__ import annotations

import datetime
import logging
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.calls.log import CallLog


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A line says each time that the database is made again."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def log_in(folder: Path) -> CallLog:
    return CallLog(folder, clock=lambda: datetime.datetime(2026, 3, 4, 12, tzinfo=datetime.UTC), rotate_bytes=50_000)


def filled(folder: Path, count: int) -> CallLog:
    log = log_in(folder)
    for number in range(count):
        log.record(f"id{number}", f"a.t{number % 7}", "python", {"n": number}, ok=True, ms=1.0, size=1)
    log.attach("id3", "r_3")
    log.compact()
    return log


def look_everywhere(log: CallLog) -> int:
    """Ask all there is to ask; the number of calls counted."""
    for period in ("day", "week", "month"):
        log.overview(period=period)  # type: ignore[arg-type]  # a Period
    rows = log.history(limit=None)
    assert len(rows) == len(log.frame())
    log.recent_tools()
    log.problems()
    return log.usage().total_calls


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(7), *(pytest.param(n, marks=pytest.mark.soak) for n in range(7, 1500))])
def test_a_database_damaged_anywhere_never_raises(tmp_path: Path, seed: int) -> None:
    """Random bytes at random places. Whatever SQLite notices costs nothing; the sums always fit the journals."""
    chance = random.Random(seed)
    filled(tmp_path, 2500)
    data = bytearray((tmp_path / "calls.db").read_bytes())
    for _ in range(chance.choice((1, 3, 20))):
        place = chance.randrange(100, len(data))
        for offset in range(place, min(len(data), place + chance.choice((1, 16, 600)))):
            data[offset] = chance.randrange(256)
    (tmp_path / "calls.db").write_bytes(data)
    log = log_in(tmp_path)

    look_everywhere(log)
    log.record("new", "a.t1", "python", {}, ok=True, ms=1.0)

    assert look_everywhere(log) == 2501
    assert any(row.call_id == "new" for row in log.history(limit=None))


CELLS = [
    *(("calls", name) for name in ("id", "ts", "call_id", "tool", "source", "args", "args_whole", "ok", "code")),
    *(("calls", name) for name in ("reason", "message", "ms", "size", "parent", "context")),
    *(("contexts", name) for name in ("id", "tool", "user", "cell", "fingerprint")),
    *(("rollups", name) for name in ("span", "start", "tool", "calls", "failures", "ms_sum", "ms_min", "ms_max")),
    *(("rollups", name) for name in ("size", "last_ts", "durations")),
    *(("journals", name) for name in ("name", "state", "offset", "calls", "damaged", "last_ts")),
    *(("handles", name) for name in ("call_id", "handle", "journal")),
]
JUNK: list[Any] = [None, b"\x00\xff\x07", 1 << 62]
MORE_JUNK: list[Any] = ["text", 1.5, b"", -1, 70_000]


@pytest.mark.parametrize("values", [JUNK, pytest.param(MORE_JUNK, marks=pytest.mark.soak)], ids=["junk", "more"])
@pytest.mark.parametrize(("table", "column"), CELLS)
def test_a_value_that_we_never_wrote_raises_nothing(tmp_path: Path, table: str, column: str, values: list[Any]) -> None:
    """SQLite takes any value in any column, and flipped bits make any value of another."""
    filled(tmp_path / "good", 60)
    for number, junk in enumerate(values):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "good", folder)
        with (
            closing(sqlite3.connect(folder / "calls.db", isolation_level=None)) as database,
            suppress(sqlite3.IntegrityError),  # NOT NULL, or no number for a row
        ):
            database.execute(f"UPDATE OR REPLACE {table} SET {column} = ?", (junk,))
        log = log_in(folder)

        log.record("new", "a.t1", "python", {}, ok=True, ms=1.0)
        look_everywhere(log)

        assert any(row.call_id == "new" for row in log.history(limit=None)), f"after {junk!r}"
