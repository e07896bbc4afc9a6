"""The database: tables that a person can read, and how calls get into them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from onetool_ipy.core import current
from onetool_ipy.stores.calls.log import CallLog
from tests.stores.calls.aids import calls, clock, note

__all__ = ["calls", "clock"]  # fixtures


def test_a_person_reads_calls_and_days_with_sqlite(calls: CallLog) -> None:
    note(calls, "geo.code", 1, ms=3.0)
    calls.attach("id1", "r_1")
    calls.compact()

    with closing(sqlite3.connect(calls.folder / "calls.db")) as database:
        columns = "time, tool, source, ok, handle, args, session <> ''"
        (row,) = database.execute(f"SELECT {columns} FROM history").fetchall()
        days = database.execute("SELECT day, tool, calls, failures, avg_ms FROM days").fetchall()

    assert row == ("2026-03-04 10:20:30.123", "geo.code", "python", 1, "r_1", '{"n":1}', 1)
    assert days == [("2026-03-04", "geo.code", 1, 0, 3.0)]


def test_calls_of_one_cell_share_a_context(calls: CallLog) -> None:
    for cell in ("one", "two", "one"):
        current.enter_cell(cell)
        for number in range(5):
            note(calls, number=number)
        calls.compact()
    current.enter_cell("")

    with closing(sqlite3.connect(calls.folder / "calls.db")) as database:
        assert database.execute("SELECT cell FROM contexts").fetchall() == [("one",), ("two",)]
    assert [row.cell for row in calls.history()].count("one") == 10


def test_names_without_end_are_counted_together(tmp_path: Path) -> None:
    """A model that asks for a new wrong name each time must not make the sums grow for ever."""
    log = CallLog(tmp_path / "calls")
    for number in range(3000):
        note(log, f"wrong.name{number}", number, ok=False, code="tool_not_found")
    log.compact()
    note(log, "right.name")
    log.compact()

    usage = log.usage()

    assert (usage.total_calls, usage.failures) == (3001, 3000)
    assert len(usage.tools) <= 1000
    assert usage.tools[0].tool == "(other)"
    assert log.count_of("right.name")[0] == 1
