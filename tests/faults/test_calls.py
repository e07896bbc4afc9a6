"""The call log under kill -9, interrupts and many processes. Nothing acknowledged is lost, nothing
counts twice.

The campaigns run in a process of their own (`log_campaign`), small here and with thousands of kills
under `soak`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from tests.harness.programs import actor
from tests.harness.surroundings import ROOT

FEW_AND_MANY = [pytest.param(25, id="few"), pytest.param(1000, id="many", marks=pytest.mark.soak)]


def run(name: str, folder: Path, **options: Any) -> dict[str, Any]:
    return actor("tests.faults.log_campaign", name, json.dumps({"folder": str(folder), **options}))


@pytest.mark.slow
@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_killed_process_loses_no_record(tmp_path: Path, kills: int, record_property: Any) -> None:
    found = run("record_killed", tmp_path / "calls", rounds=kills, seed=kills)

    record_property(
        "figures", f"{kills} kills, {found['landed']} inside a record, {found['lost']} lost"
    )
    assert found["landed"] > kills / 10, "too few kills came inside a record to prove anything"
    assert (found["lost"], found["doubled"], found["problems"]) == (0, 0, [])
    assert found["extra"] <= kills, (
        "at most the one record of each process that was not yet answered for"
    )
    assert found["totals_agree"]


@pytest.mark.slow
@pytest.mark.parametrize("kills", FEW_AND_MANY)
def test_a_kill_while_journals_are_closed_neither_loses_nor_doubles(
    tmp_path: Path, kills: int, record_property: Any
) -> None:
    found = run("tidy_killed", tmp_path / "calls", rounds=kills, seed=kills)

    record_property(
        "figures", f"{kills} kills, {found['landed']} inside a closing, {found['lost']} lost"
    )
    assert found["landed"] > kills / 20
    assert (found["lost"], found["doubled"], found["problems"]) == (0, 0, [])
    assert found["totals_agree"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "kills"),
    [pytest.param(6, 12, id="few"), pytest.param(16, 1000, id="many", marks=pytest.mark.soak)],
)
def test_a_storm_of_kills_loses_nothing_and_spoils_no_answer(
    tmp_path: Path, processes: int, kills: int, record_property: Any
) -> None:
    """All record, look and close journals in one log at once; each killed one is replaced."""
    found = run("storm", tmp_path / "calls", processes=processes, kills=kills, seed=kills)

    record_property("figures", f"{found['killed']} kills, {found['lost']} of {found['acked']} lost")
    assert found["died"] == 0, "a worker ends itself if an answer lacks one of its own calls"
    assert (found["lost"], found["doubled"], found["problems"]) == (0, 0, [])
    assert found["totals_agree"]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "interrupts",
    [pytest.param(60, id="few"), pytest.param(5000, id="many", marks=pytest.mark.soak)],
)
def test_an_interrupt_at_any_moment_leaves_the_log_whole(
    tmp_path: Path, interrupts: int, record_property: Any
) -> None:
    """Records, looks and notes, stopped again and again; afterwards no lock is held and all can go
    on."""
    found = run("interrupted", tmp_path, rounds=interrupts, seed=interrupts)

    record_property(
        "figures",
        f"{interrupts} interrupts, {found['landed']} inside the store, {found['lost']} lost",
    )
    # Several that arrive while DuckDB is at work are one for Python.
    assert found["landed"] > interrupts / 60
    assert (found["lost"], found["doubled"], found["problems"], found["bad_notes"]) == (0, 0, [], 0)
    assert found["totals_agree"]


_BURST = """
import os, sys
from onetool_ipy import open_toolbox

box = open_toolbox(sys.argv[1], env={"HOME": sys.argv[1], "ONETOOL_STATE": sys.argv[1] + "/state"})
for number in range(int(sys.argv[2])):
    result = box.call("tools.echo", {"message": str(number)})
    os.write(1, result.meta["call_id"].encode() + b"\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "each", [pytest.param(300, id="few"), pytest.param(21_000, id="many", marks=pytest.mark.soak)]
)
def test_the_first_answer_after_a_burst_covers_all_that_was_written(
    tmp_path: Path, each: int
) -> None:
    """Four processes write at once, and end without a word; the next kernel asks at once."""
    command = [sys.executable, "-c", _BURST, str(tmp_path), str(each)]
    writers = [subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    with open_toolbox(
        tmp_path, env={"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    ) as box:
        stats = box.ot.stats()
        assert stats["total_calls"] == 4 * each


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [pytest.param(3, id="few"), pytest.param(100, id="many", marks=pytest.mark.soak)]
)
def test_every_acknowledged_call_is_in_the_answer_of_another_kernel_right_after_a_kill(
    tmp_path: Path, kills: int
) -> None:
    env = {"HOME": str(tmp_path), "ONETOOL_STATE": str(tmp_path / "state")}
    acknowledged: set[str] = set()
    with open_toolbox(tmp_path, env=env) as other:
        for number in range(kills):
            writer = subprocess.Popen(
                [sys.executable, "-c", _BURST, str(tmp_path), "1000000"],
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            assert writer.stdout is not None
            acknowledged.update(writer.stdout.readline().strip() for _ in range(50 + 37 * number))
            writer.kill()
            writer.wait()
            history = other.log.history(limit=None)
            answered = {row.call_id for row in history}
            assert len(answered) == len(history), "no call is there twice"
            # What the pipe still holds was acknowledged before the kill, too; its last line may be
            # a part.
            acknowledged.update(line.strip() for line in writer.stdout if line.endswith("\n"))
            assert acknowledged <= answered
