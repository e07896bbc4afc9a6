"""`batch_execute` on a real Dask cluster of two processes on this machine."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.sdk import batch_execute
from tests.harness.cluster import cluster
from tests.harness.project import Project
from tests.sdk import remote_functions


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster() as opened:
        yield opened


@pytest.mark.slow
def test_items_run_on_the_cluster_in_order(box: Toolbox, client: Any) -> None:
    heard: list[tuple[int, int]] = []

    text = batch_execute(
        [(i, f"n{i}") for i in (3, 13, 4)],
        remote_functions.square,
        engine=client,
        progress=lambda done, total, label: heard.append((done, total)),
    )

    assert text == "=== n3 ===\n9\n\n=== n13 ===\nError: thirteen is refused\n\n=== n4 ===\n16"
    assert heard == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.slow
def test_both_workers_are_used_and_no_more_run_than_allowed(
    box: Toolbox, client: Any, tmp_path: Path
) -> None:
    place = tmp_path / "meeting"
    place.mkdir()
    items = [(str(place), str(i)) for i in range(8)]

    pids = set(
        re.findall(
            r"in (\d+)", batch_execute(range(20), remote_functions.give_a_pid, engine=client)
        )
    )
    one = batch_execute(items, remote_functions.meet, engine=client, max_workers=1)

    assert len(pids) == 2
    assert str(os.getpid()) not in pids
    assert set(re.findall(r"\n(\d+)", one)) == {"1"}


@pytest.mark.slow
def test_functions_of_cells_and_of_pack_files_travel(project: Project, client: Any) -> None:
    """By value: a worker on another machine has neither the notebook nor the file."""
    file = project.pack(
        "far",
        """
        from onetool_ipy.sdk import batch_execute
        ENGINE = []
        FACTOR = 2
        def use(engine):
            "Choose the engine."
            ENGINE.append(engine)
        def work():
            "Work elsewhere."
            return batch_execute([1, 2], _twice, engine=ENGINE[0])
        def _twice(value):
            return value * FACTOR
        """,
    )
    box = project.open()
    box.pack("far").use(client)  # type: ignore[union-attr]
    box.call("far.work")
    factor = 5

    assert box.call("far.work").unwrap() == "=== 1 ===\n2\n\n=== 2 ===\n4"
    assert batch_execute([1], lambda value: value + factor, engine=client) == "=== 1 ===\n6"
    assert file.exists()


@pytest.mark.slow
def test_what_does_not_pickle_is_said(box: Toolbox, client: Any) -> None:
    lock = threading.Lock()

    with pytest.raises(UsageProblem, match="cannot be sent to another process"):
        batch_execute([1], lambda value: (lock, value), engine=client)
    text = batch_execute([(lock, "lock"), (2, "two")], remote_functions.square, engine=client)

    assert text.startswith("=== lock ===\nError: cannot pickle")
    assert text.endswith("=== two ===\n4")


@pytest.mark.slow
def test_secrets_are_not_at_hand_and_that_is_said(project: Project, client: Any) -> None:
    project.secrets(KEY="sk-dask-0123456789")
    project.open()

    text = batch_execute(["KEY"], remote_functions.ask_for_a_secret, engine=client)

    assert "which has no toolbox, settings or secrets" in text


@pytest.mark.slow
def test_a_scheduler_named_in_the_environment_is_used(
    box: Toolbox, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", client.scheduler.address)
    workers = {info["pid"] for info in _workers(client)}

    text = batch_execute(range(8), remote_functions.give_a_pid, engine="dask")

    assert {int(pid) for pid in re.findall(r"in (\d+)", text)} <= workers


@pytest.mark.slow
async def test_an_asynchronous_client_is_refused(box: Toolbox, client: Any) -> None:
    from distributed import Client

    async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as odd:
        with pytest.raises(UsageProblem, match="asynchronous"):
            batch_execute([1], str, engine=odd)


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(box: Toolbox, client: Any) -> None:
    """kill -9 in the midst of it, with done results on the dead worker: its items are done again by
    the other one."""
    victim = _workers(client)[0]["pid"]

    def listen(done: int, total: int, label: str) -> None:
        if done == 5:
            os.kill(victim, signal.SIGKILL)

    text = batch_execute(range(60), _slow_square, engine=client, progress=listen)

    assert re.findall(r"\n(\d+)", text) == [str(i * i) for i in range(60)]


def _slow_square(value: int) -> int:
    threading.Event().wait(0.02)
    return value * value


@pytest.mark.slow
def test_what_was_done_stays_done_when_its_worker_dies_before_it_is_asked_for(box: Toolbox) -> None:
    """All results are here when the workers are killed; from then on the cluster counts their items
    as lost."""
    from distributed import Future

    def kill(done: int, _total: int, _label: str) -> None:
        if done > 1:
            return
        futures = [Future(key, own) for key in own.futures]
        own.gather(futures)
        before = own.run(os.getpid)
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while all(future.status == "finished" for future in futures):
            if not before.keys() & own.scheduler_info()["workers"].keys():
                return  # they were lost and done again, between two looks
            assert time.monotonic() < until
            time.sleep(0.01)  # the client is told by the scheduler

    with cluster() as own:
        text = batch_execute(
            range(6), remote_functions.square, engine=own, max_workers=6, progress=kill
        )

    assert text == "\n\n".join(f"=== {n} ===\n{n * n}" for n in range(6))


def _workers(client: Any) -> list[dict[str, int]]:
    return [{"pid": pid} for pid in client.run(os.getpid).values()]


@pytest.mark.soak
def test_without_a_client_a_cluster_is_started_for_the_batch(box: Toolbox) -> None:
    text = batch_execute(range(4), remote_functions.give_a_pid, engine="dask", max_workers=2)

    pids = set(re.findall(r"in (\d+)", text))
    assert str(os.getpid()) not in pids
    assert len(pids) in (1, 2)
