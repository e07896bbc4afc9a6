"""Sixteen processes on one store, one log, one file. `make soak` runs 1,000 writes in each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy.stores.results import HandleExpired, Results
from tests.faults.actors import Stage, acknowledged

PROCESSES = 16
FEW, MANY = 15, 1_000


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    process = Stage()
    yield process
    process.close()


def all_together(stage: Stage, actor: str, **arguments: Any) -> None:
    each = [
        {**arguments, "seed": f"p{number}"} if "seed" in arguments else arguments
        for number in range(PROCESSES)
    ]
    pids = [stage.start(actor, **one) for one in each]
    assert [stage.wait(pid) for pid in pids] == [0] * PROCESSES


@pytest.mark.slow
@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
def test_every_result_of_every_process_is_there(
    stage: Stage, tmp_path: Path, count: int, record_property: Any
) -> None:
    folder, acks = tmp_path / "results", tmp_path / "acks"

    all_together(stage, "put", folder=str(folder), acks=str(acks), seed="", lines=5, count=count)

    results, known = Results(folder), acknowledged(acks)
    record_property(
        "figures", f"{PROCESSES} processes, {PROCESSES * count} results, {len(known)} there"
    )
    assert len({one["handle"] for one in known}) == PROCESSES * count
    assert {row["handle"] for row in results.list()} == {one["handle"] for one in known}
    for one in known:
        assert all(
            line.startswith(f"{one['seed']} ") for line in results.query(one["handle"])["lines"]
        )


@pytest.mark.slow
def test_quota_holds_while_all_write(stage: Stage, tmp_path: Path) -> None:
    """Each looks after a share of the quota that it has written itself, so together they may be
    over by two quotas."""
    folder, acks = tmp_path / "results", tmp_path / "acks"

    all_together(
        stage,
        "put",
        folder=str(folder),
        acks=str(acks),
        seed="",
        lines=500,
        count=FEW,
        max_bytes=1_000_000,
    )

    results = Results(folder, max_bytes=1_000_000)
    assert sum(path.stat().st_size for path in folder.glob("*.txt")) <= 3_000_000
    results.reap()
    assert sum(path.stat().st_size for path in folder.glob("*.txt")) <= 1_000_000
    found: Counter[str] = Counter()
    for one in acknowledged(acks):
        try:
            found["there"] += results.query(one["handle"])["total_lines"] == 500
        except HandleExpired:
            found["evicted"] += 1
    assert found["there"] + found["evicted"] == PROCESSES * FEW
    assert found["there"] >= 10


@pytest.mark.parametrize("count", [100, pytest.param(MANY, marks=pytest.mark.soak)])
def test_appended_records_are_whole(stage: Stage, tmp_path: Path, count: int) -> None:
    path = tmp_path / "log"

    all_together(stage, "append_records", path=str(path), seed="", count=count)

    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len({(record["seed"], record["number"]) for record in records}) == PROCESSES * count


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, pytest.param(MANY, marks=pytest.mark.soak)])
def test_locked_counter_loses_no_step(stage: Stage, tmp_path: Path, count: int) -> None:
    path = tmp_path / "counter"
    path.write_bytes(b"0")

    all_together(stage, "count_up", path=str(path), count=count)

    assert int(path.read_bytes()) == PROCESSES * count
