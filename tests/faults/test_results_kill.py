"""kill -9 in the middle of a write: what was acknowledged is there, nothing half is, nothing piles
up.

Small counts here; `make soak` kills thousands. Each campaign goes on until enough kills landed in a
write (a temp file was left).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.base.files import remove_stale_temp_files
from onetool_ipy.stores.results import Results
from tests.faults.actors import Stage, acknowledged, text_of

LINES = 40_000
FEW, MANY = 15, 2_000


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    process = Stage()
    yield process
    process.close()


def kill_after(stage: Stage, pid: int, delay_s: float) -> None:
    time.sleep(delay_s)  # the moment of the kill is what the test is about
    os.kill(pid, signal.SIGKILL)
    assert stage.wait(pid) == -signal.SIGKILL


def temps(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tmp")] if folder.exists() else []


def campaign(stage: Stage, tmp_path: Path, kills: int) -> str:
    """Kill until so many kills were made and enough of them landed in a write, however slow the
    machine is."""
    dice = random.Random(4)
    folder, acks = tmp_path / "results", tmp_path / "acks"
    landed = made = 0
    while made < kills or landed < kills // 4:
        made += 1
        pid = stage.start("put", folder=str(folder), acks=str(acks), seed=f"k{made}", lines=LINES)
        kill_after(stage, pid, dice.uniform(0.005, 0.12))
        landed += bool(temps(folder))
        results = Results(folder)
        known = {one["handle"]: one["seed"] for one in acknowledged(acks)}
        stored = {row["handle"] for row in results.list()}
        assert known.keys() <= stored, "acknowledged, and not there"
        assert len(stored - known.keys()) <= 1, "at most the one that was about to be acknowledged"
        for handle in stored:
            check_whole(results, handle, known.get(handle))
        results.reap()
        assert temps(folder) == []
        for handle in stored:
            results.delete(handle)
        acks.unlink(missing_ok=True)
    return f"{made} kills, {landed} inside a write, none lost or half"


def check_whole(results: Results, handle: str, seed: str | None) -> None:
    found = results.query(handle, search=f"^{seed or 'k'}.* x{{53}}$", limit=1)
    assert found["total_lines"] == found["matched"] == LINES


@pytest.mark.slow
@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
def test_killed_put_loses_nothing_and_leaves_nothing_half(
    stage: Stage, tmp_path: Path, kills: int, record_property: Any
) -> None:
    record_property("figures", campaign(stage, tmp_path, kills))


def test_file_written_whole_is_old_or_new(stage: Stage, tmp_path: Path) -> None:
    dice = random.Random(5)
    path = tmp_path / "whole"
    path.write_bytes(text_of("0", LINES).encode())
    landed = kills = 0
    while kills < FEW or landed < FEW // 4:
        kills += 1
        pid = stage.start("rewrite", path=str(path), lines=LINES)
        kill_after(stage, pid, dice.uniform(0.005, 0.08))
        data = path.read_bytes()
        assert data == text_of(chr(data[0]) if data else "", LINES).encode()
        landed += bool(temps(tmp_path))
        remove_stale_temp_files(tmp_path)
        assert temps(tmp_path) == []
