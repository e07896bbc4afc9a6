"""Row 11: `batch_execute` over items that wait, in threads beside a bare ThreadPoolExecutor, and on
Dask.

Times are on the wall, since waiting is all that the items do; ours and the peer take turns.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from onetool_ipy.sdk import batch_execute
from tests.benchmarks.timing import Rounds, line, note, take_turns

__all__ = ["ROWS", "run"]

ROWS = (11,)

_ITEMS, _WIDE, _ITEM_S = 1000, 32, 0.010
_IDEAL_S = _ITEMS * _ITEM_S / _WIDE
_ROUNDS = 15
_DASK_ITEMS, _DASK_ITEM_S, _DASK_ROUNDS = 80, 0.050, 5
_LINEAR = 0.85
"""The part of a perfect speed-up that still counts as near-linear on a shared machine."""


def run() -> list[dict[str, Any]]:
    return [*_threads(), *_dask()]


def _threads() -> Iterator[dict[str, Any]]:
    note("  in threads ...")
    found = take_turns(
        {
            "ours": _timed(lambda: batch_execute(range(_ITEMS), _wait_10_ms, max_workers=_WIDE)),
            "pool": _timed(_in_pool),
            "given": _timed(_in_given_pool),
        },
        _ROUNDS,
    )
    for name, what in (("ours", "threads"), ("given", "an Executor")):
        yield line(
            11,
            f"batch_execute in {what}, {_ITEMS:,} items of 10 ms, {_WIDE} wide"
            f" ({found[name] / _IDEAL_S:.2f}x ideal)",
            found[name],
            found["pool"],
            name="ThreadPoolExecutor.map",
            ratio=found.ratio("pool", name),
            reach=f"<= 1.2x ideal ({1.2 * _IDEAL_S * 1000:.0f} ms)",
            met=found[name] <= 1.2 * _IDEAL_S,
        )


def _dask() -> Iterator[dict[str, Any]]:
    what = f"batch_execute on Dask, {_DASK_ITEMS} items of 50 ms"
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        yield line(
            11,
            what,
            "not measured",
            "not there",
            name="dask",
            note="No peer 'dask': pip install distributed",
        )
        return
    note("  on Dask clusters of 1, 2 and 4 workers ...")
    with ExitStack() as stack:
        clients = {size: _client(stack, distributed, size) for size in (1, 2, 4)}
        samples: dict[str, Callable[[], float]] = {}
        for size, client in clients.items():
            samples[f"ours {size}"] = _timed(lambda client=client: _on(client))  # type: ignore[misc]
            samples[f"map {size}"] = _timed(lambda client=client: _bare(client))  # type: ignore[misc]
        for sample in samples.values():
            sample()  # the first one sends the code
        found = take_turns(samples, _DASK_ROUNDS)
    yield from _dask_lines(found, what)


def _dask_lines(found: Rounds, what: str) -> Iterator[dict[str, Any]]:
    for size in (2, 4):
        ratio = found.ratio("ours 1", f"ours {size}")
        yield line(
            11,
            f"{what}, {size} workers",
            found[f"ours {size}"],
            found["ours 1"],
            name="with 1 worker",
            ratio=ratio,
            reach=f">= {_LINEAR * size:.1f}x (near-linear)",
            met=ratio >= _LINEAR * size,
        )
    for size in (1, 2, 4):
        ratio = found.ratio(f"map {size}", f"ours {size}")
        shown = f"{what}, {size} worker{'s' if size > 1 else ''}"
        yield line(
            11,
            shown,
            found[f"ours {size}"],
            found[f"map {size}"],
            name="client.map, gather",
            ratio=ratio,
        )


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def sample() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return sample


def _wait_10_ms(item: int) -> int:
    time.sleep(_ITEM_S)
    return item


def _wait_50_ms(item: int) -> int:
    time.sleep(_DASK_ITEM_S)
    return item


def _in_pool() -> None:
    with ThreadPoolExecutor(_WIDE) as pool:
        list(pool.map(_wait_10_ms, range(_ITEMS)))


def _in_given_pool() -> None:
    with ThreadPoolExecutor(_WIDE) as pool:
        batch_execute(range(_ITEMS), _wait_10_ms, engine=pool)


def _client(stack: ExitStack, distributed: Any, size: int) -> Any:
    cluster = distributed.LocalCluster(n_workers=size, threads_per_worker=1, dashboard_address=":0")
    stack.enter_context(cluster)
    return stack.enter_context(distributed.Client(cluster, set_as_default=False))


def _on(client: Any) -> str:
    return batch_execute(range(_DASK_ITEMS), _wait_50_ms, engine=client)


def _bare(client: Any) -> Any:
    return client.gather(client.map(_wait_50_ms, range(_DASK_ITEMS), pure=False))
