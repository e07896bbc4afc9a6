"""`ot.map` and `batch_execute` on other people's executors: processes, loky, and Dask's own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import distributed
import loky  # type: ignore[import-untyped]  # it has no types
import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.sdk import batch_execute
from tests.packs.ot import map_actor
from tests.sdk import remote_functions


@pytest.fixture(scope="module", params=["processes", "loky", "dask"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with ExitStack() as stack:
        if request.param == "processes":
            spawn = multiprocessing.get_context("spawn")
            yield stack.enter_context(ProcessPoolExecutor(2, mp_context=spawn))
        elif request.param == "loky":
            pool = loky.ProcessPoolExecutor(2)
            stack.callback(pool.shutdown, kill_workers=True)
            yield pool
        else:
            cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
            client = distributed.Client(stack.enter_context(cluster), set_as_default=False)
            yield stack.enter_context(client).get_executor()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    map_actor.write_project(tmp_path)
    with open_toolbox(tmp_path, env={**os.environ, "ONETOOL_STATE": str(tmp_path / "state")}) as opened:
        yield opened


def test_a_column_goes_through_a_tool_on_the_executor(box: Toolbox, executor: Executor) -> None:
    frame = box.ot.map("geo.code", ["1", "2", "7", "3"], engine=executor)
    assert frame["ok"].tolist() == [True, True, False, True], frame.to_string()
    assert frame["lat"].tolist()[:2] == [1, 2]


def test_items_run_on_the_executor_in_order(box: Toolbox, executor: Executor) -> None:
    text = batch_execute([(3, "three"), (4, "four")], remote_functions.square, engine=executor)
    assert text == "=== three ===\n9\n\n=== four ===\n16"
