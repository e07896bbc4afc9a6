"""Run a function over many items at once: threads here, any Executor, or a Dask cluster (spec 000).

The order of the items is the order of the sections; an item that fails has `Error: ...` in its own section and stops
no other. At most `max_workers` run at a time, on every engine. Stop ends the batch; what runs in threads is left behind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

from onetool_ipy.core import values
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.sdk.tools import progress as report

__all__ = ["batch_execute", "normalize_items"]

Item = tuple[Any, str]
Outcome = tuple[bool, Any]
Listen = Callable[[int, int, str], None]

_THREADS = 32
_SCHEDULER = "DASK_SCHEDULER_ADDRESS"


def normalize_items(items: Iterable[Any]) -> list[Item]:
    """Items as (value, label) pairs: a pair with a text label stays, anything else is its own label."""
    return [_normal(item) for item in items]


def batch_execute(
    items: Iterable[Any],
    func: Callable[[Any], Any],
    *,
    max_workers: int | None = None,
    progress: Listen | None = None,
    engine: str | Executor | Any = "threads",
) -> str:
    """Run `func` on every item at once and give the results as text, a section each, in the items' order.

    Args:
        items: Values, or (value, label) pairs.
        func: Called with the value alone.
        max_workers: How many run at a time.
        progress: Called with (done, total, label) after each item.
        engine: `"threads"`, `"dask"`, a `distributed.Client`, or any `concurrent.futures.Executor`.
    """
    work = normalize_items(items)
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"max_workers must be at least 1, got {max_workers}")
    if not work:
        return ""
    outcomes: list[Outcome | None] = [None] * len(work)
    for count, (index, outcome) in enumerate(_run(work, func, max_workers, engine), 1):
        outcomes[index] = outcome
        label = work[index][1]
        report(count, len(work), label)
        if progress is not None:
            progress(count, len(work), label)
    return "\n\n".join(_section(label, outcome) for (_, label), outcome in zip(work, outcomes, strict=True))


def _normal(item: Any) -> Item:
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
        return item
    return (item, item if isinstance(item, str) else values.safe_repr(item, 80))


def _section(label: str, outcome: Outcome | None) -> str:
    ok, value = outcome if outcome is not None else (False, "stopped")
    body = values.to_text(value) if ok else f"Error: {value}"
    return f"=== {label} ===\n{body}"


def _run(work: list[Item], func: Callable[[Any], Any], width: int | None, engine: Any) -> Iterator[tuple[int, Outcome]]:
    if engine == "threads":
        return _in_threads(work, func, min(width or _THREADS, len(work)))
    if isinstance(engine, Executor):
        return _in_executor(work, func, width or _width(engine), engine)
    if engine == "dask" or type(engine).__module__.partition(".")[0] == "distributed":
        return _in_dask(work, func, width, None if engine == "dask" else engine)
    raise UsageProblem(f"No engine {engine!r}.", hint='Valid: "threads", "dask", a distributed.Client, an Executor.')


def _in_threads(work: list[Item], func: Callable[[Any], Any], width: int) -> Iterator[tuple[int, Outcome]]:
    """Daemon threads that take the next item until there is none, each item in a copy of the caller's context."""
    waiting = iter(list(enumerate(work)))
    done: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
    stopped = threading.Event()
    lock = threading.Lock()
    contexts = [copy_context() for _ in range(width)]

    def take() -> tuple[int, Item] | None:
        with lock:
            return None if stopped.is_set() else next(waiting, None)

    def serve() -> None:
        while (taken := take()) is not None:
            index, (value, _) = taken
            done.put((index, _outcome(func, value)))

    for context in contexts:
        threading.Thread(target=context.run, args=(serve,), name="onetool-batch", daemon=True).start()
    try:
        for _ in work:
            yield done.get()
    finally:
        stopped.set()


def _in_executor(
    work: list[Item], func: Callable[[Any], Any], width: int, executor: Executor
) -> Iterator[tuple[int, Outcome]]:
    """At most `width` items under way in an Executor."""
    _require_pickle(func, executor)
    running: dict[Future[Any], int] = {}
    waiting = iter(enumerate(work))
    try:
        while True:
            for index, (value, _) in waiting:
                running[executor.submit(func, value)] = index
                if len(running) >= width:
                    break
            if not running:
                return
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield running.pop(future), _outcome_of(future)
    finally:
        for future in running:
            future.cancel()


def _in_dask(
    work: list[Item], func: Callable[[Any], Any], width: int | None, client: Any | None
) -> Iterator[tuple[int, Outcome]]:
    with _dask_client(client, width) as found:
        cores = sum(found.ncores().values()) or 1
        executor = found.get_executor(pure=False)
        yield from _in_executor(work, func, width or 2 * cores, executor)


@contextmanager
def _dask_client(client: Any | None, width: int | None) -> Iterator[Any]:
    """The client given; else one for the scheduler that the environment names; else a local cluster."""
    if client is not None:
        yield client
        return
    try:
        from distributed import Client
    except ImportError as exc:
        raise UsageProblem(
            "The engine 'dask' needs the library distributed.", hint="Install it with: pip install onetool-ipy[dask]"
        ) from exc
    address = os.environ.get(_SCHEDULER)
    options: dict[str, Any] = {"address": address} if address else {"n_workers": width, "dashboard_address": None}
    with Client(**options) as opened:
        yield opened


def _outcome(func: Callable[[Any], Any], value: Any) -> Outcome:
    try:
        return True, func(value)
    except Exception as exc:  # noqa: BLE001 - an item's failure is its own section
        return False, _words(exc)


def _outcome_of(future: Future[Any]) -> Outcome:
    try:
        return True, future.result()
    except Exception as exc:  # noqa: BLE001 - an item's failure is its own section
        return False, _words(exc)


def _words(exc: BaseException) -> str:
    return str(exc).strip() or type(exc).__name__


def _width(executor: Executor) -> int:
    return int(getattr(executor, "_max_workers", 0) or 2 * (os.cpu_count() or 1))


def _require_pickle(func: Callable[[Any], Any], executor: Executor) -> None:
    if not isinstance(executor, ProcessPoolExecutor):
        return
    import pickle

    try:
        pickle.dumps(func)
    except Exception as exc:
        raise UsageProblem(
            f"{values.safe_repr(func, 80)} cannot be sent to another process: {exc}",
            hint="Define it at the top of a module, not in a cell or another function; secrets do not travel either.",
        ) from exc
