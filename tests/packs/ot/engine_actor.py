"""`ot.map` and `batch_execute` on somebody else's executor, in a process of its own.

    python -m tests.packs.ot.engine_actor processes|loky|dask FOLDER

prints one JSON object: which rows went well, what they gave, and the text of the batch.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from onetool_ipy import open_toolbox
from onetool_ipy.sdk import batch_execute
from tests.packs.ot import map_actor
from tests.sdk import remote_functions


def opened(engine: str, stack: ExitStack) -> Executor:
    """Open the executor, and close it with the stack."""
    if engine == "processes":
        return stack.enter_context(
            ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))
        )
    if engine == "loky":
        import loky

        pool: Executor = stack.enter_context(loky.ProcessPoolExecutor(2))
        return pool
    import distributed

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    client = distributed.Client(stack.enter_context(cluster), set_as_default=False)
    executor: Executor = stack.enter_context(client).get_executor()
    return executor


def main(engine: str, folder: str) -> None:
    """Run both on the executor, and print what came of it."""
    map_actor.write_project(Path(folder))
    with ExitStack() as stack, open_toolbox(folder) as box:
        executor = opened(engine, stack)
        frame = box.ot.map("geo.code", ["1", "2", "7", "3"], engine=executor)
        text = batch_execute([(3, "three"), (4, "four")], remote_functions.square, engine=executor)
        report = {"ok": frame["ok"].tolist(), "lat": frame["lat"].tolist()[:2], "text": text}
    sys.stdout.write(f"\n{json.dumps(report)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
