"""The call log under kill -9, interrupts and many processes. Nothing acknowledged is lost, nothing counts twice.

The campaigns run in a process of their own (`log_campaign`), small here and with thousands of kills under `soak`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.surroundings import ROOT

FEW_AND_MANY = [pytest.param(25, id="few"), pytest.param(3000, id="many", marks=pytest.mark.soak)]


def run(name: str, folder: Path, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.faults.log_campaign", name, json.dumps({"folder": str(folder), **options})]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counted: dict[str, Any] = json.loads(done.stdout)
    return counted


@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_killed_process_loses_no_record(tmp_path: Path, kills: int, record_property: Any) -> None:
    found = run("record_killed", tmp_path / "calls", rounds=kills, seed=kills)

    record_property("figures", f"{kills} kills, {found['landed']} inside a record, {found['lost']} lost")
    assert found["landed"] > kills / 10, "too few kills came inside a record to prove anything"
    assert (found["lost"], found["doubled"], found["problems"]) == (0, 0, [])
    assert found["extra"] <= kills, "at most the one record of each process that was not yet answered for"
    assert found["totals_agree"]


@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_kill_inside_a_compaction_neither_loses_nor_doubles(tmp_path: Path, kills: int, record_property: Any) -> None:
    found = run("compact_killed", tmp_path / "calls", rounds=kills, seed=kills)

    record_property("figures", f"{kills} kills, {found['landed']} inside a compaction, {found['lost']} lost")
    assert found["landed"] > kills / 20
    assert (found["lost"], found["doubled"], found["problems"]) == (0, 0, [])
    assert found["totals_agree"]


@pytest.mark.parametrize("kills", [pytest.param(12, id="few"), pytest.param(1000, id="many", marks=pytest.mark.soak)])
def test_a_kill_while_the_database_is_made_again_costs_nothing(
    tmp_path: Path, kills: int, record_property: Any
) -> None:
    found = run("remake_killed", tmp_path / "calls", rounds=kills, seed=kills)

    record_property("figures", f"{kills} kills, {found['landed']} inside, totals {found['totals']}")
    assert found["landed"] > kills / 4
    assert found["totals"] == [3000]


@pytest.mark.parametrize(
    ("processes", "each"),
    [pytest.param(16, 300, id="few"), pytest.param(16, 20_000, id="many", marks=pytest.mark.soak)],
)
def test_many_processes_add_up_while_some_of_them_look(
    tmp_path: Path, processes: int, each: int, record_property: Any
) -> None:
    found = run("many_records", tmp_path / "calls", processes=processes, each=each)

    whole = processes * each
    record_property("figures", f"{processes} processes, {whole} records, {found['rows']} found")
    assert found["codes"] == [0], "a process that looked must have seen all of its own calls"
    assert (found["total"], found["failures"], found["size"]) == (whole, whole // 4, 3 * whole)
    assert (found["tools"], found["by_tool"]) == (processes, [each])
    assert (found["rows"], found["distinct"]) == (whole, whole)
    assert found["problems"] == []


@pytest.mark.parametrize(
    "interrupts", [pytest.param(60, id="few"), pytest.param(5000, id="many", marks=pytest.mark.soak)]
)
def test_an_interrupt_at_any_moment_leaves_the_log_whole(tmp_path: Path, interrupts: int, record_property: Any) -> None:
    """Records, looks and notes, stopped again and again; afterwards no lock is held and all can go on."""
    found = run("interrupted", tmp_path, rounds=interrupts, seed=interrupts)

    record_property("figures", f"{interrupts} interrupts, {found['landed']} inside the store, {found['lost']} lost")
    assert found["landed"] > interrupts / 10
    assert (found["lost"], found["doubled"], found["problems"], found["bad_notes"]) == (0, 0, [], 0)
    assert found["totals_agree"]
