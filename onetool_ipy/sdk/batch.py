"""Run a function over many items at once, and give what they gave as one text (spec 000).

The order of the items is the order of the sections; an item that fails has `Error: ...` in its own section and stops
no other. At most `max_workers` run at a time, on every engine. Where they run is `engines`' work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import closing
from typing import Any

from onetool_ipy.core import current, values
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.sdk import engines
from onetool_ipy.sdk.away import Outcome
from onetool_ipy.sdk.tools import progress as report

__all__ = ["batch_execute", "normalize_items"]

Item = tuple[Any, str]
Listen = Callable[[int, int, str], None]

_THREADS = 32
_MAX_LABEL = 80


def normalize_items(items: Iterable[Any]) -> list[Item]:
    """Items as (value, label) pairs: a pair with a text label stays, anything else is its own label."""
    if isinstance(items, (str, bytes)):
        raise UsageProblem("The items are one text.", hint="Give a list of items.")
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

    In threads (and in a ThreadPoolExecutor) the function sees all that its caller sees. In other executors and on Dask
    it runs in another process: there function, items and results are pickled, and no secrets, settings or packs are
    at hand; whoever asks for them there is told so.

    Args:
        items: Values, or (value, label) pairs.
        func: Called with the value alone; may be async.
        max_workers: How many run at a time; by default 32 threads, or as many as the engine has room for.
        progress: Called with (done, total, label) after each item.
        engine: `"threads"`, `"dask"`, a `distributed.Client`, or any `concurrent.futures.Executor`. `"dask"` uses the
            scheduler of `$DASK_SCHEDULER_ADDRESS`, else it starts a cluster on this machine for the batch.
    """
    work = normalize_items(items)
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"max_workers must be at least 1, got {max_workers}")
    if not work:
        return ""
    outcomes: list[Outcome] = [(False, "")] * len(work)
    with closing(_run([value for value, _ in work], func, max_workers, engine)) as run:  # Stop may come anywhere
        for count, (index, outcome) in enumerate(run, 1):
            outcomes[index] = outcome
            label = work[index][1]
            report(count, len(work), label)
            if progress is not None:
                progress(count, len(work), label)
    return "\n\n".join(_section(label, outcome) for (_, label), outcome in zip(work, outcomes, strict=True))


def _run(items: list[Any], func: Callable[[Any], Any], width: int | None, engine: Any) -> engines.Outcomes:
    if engine == "threads":
        return engines.in_threads(items, func, width or _THREADS)
    if isinstance(engine, Executor):
        return engines.in_executor(items, func, width, engine)
    if engine == "dask" or engines.is_dask(engine):
        return engines.in_dask(items, func, width, None if engine == "dask" else engine)
    shown = values.safe_repr(engine, 80)
    raise UsageProblem(f"No engine {shown}.", hint='Valid: "threads", "dask", a distributed.Client, an Executor.')


def _normal(item: Any) -> Item:
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
        return item
    return (item, item if isinstance(item, str) else values.safe_repr(item, _MAX_LABEL))


def _section(label: str, outcome: Outcome) -> str:
    ok, value = outcome
    return f"=== {label} ===\n{values.to_text(value) if ok else f'Error: {_masked(value)}'}"


def _masked(words: str) -> str:
    box = current.toolbox()
    return words if box is None else str(box.mask(words))
