"""Run a function over many items at once: in threads, in any Executor, or on a Dask cluster.

`batch_execute` returns the results as one text in the items' order; an item that fails has `Error:
...` in its own section and stops no other. `run_items` is the iterator below it, which `ot.map`
uses too: it yields (index, outcome) as items finish, and takes items from their sequence one by
one, so that the sequence may build them on demand. Closing it early (Stop, or a listener that
raises) cancels what has not begun and gives running items `grace_s` to finish. Those that take
longer end at their next line of Python; code inside C and other processes are left to themselves.

A function that goes to another process is pickled. A function of a pack file has no importable
module: it travels as the file's path and its name, or by value if cloudpickle is installed (Dask).
An exception comes back as text, since one that cannot be unpickled would break the pool. In the
other process there is no toolbox.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from importlib import import_module
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, NoReturn

from onetool_ipy.base import values
from onetool_ipy.base.background import WorkerThread, require_wanted
from onetool_ipy.base.errors import Unavailable, UsageProblem, words_of
from onetool_ipy.base.interrupts import deferred
from onetool_ipy.core import current
from onetool_ipy.sdk.tools import progress as report_progress

Func = Callable[[Any], Any]
Outcome = tuple[bool, Any]
"""Whether the item succeeded, and its value or the text of its failure."""
Outcomes = Generator[tuple[int, Outcome], None, None]
Item = tuple[Any, str]

_THREADS = 32
_MAX_LABEL = 80
_SCHEDULER = "DASK_SCHEDULER_ADDRESS"
_WAIT_S = 0.5
_REST_S = 0.002
"""How long finished items are left to pile up, since each wake-up takes the threads that work off
their work."""
_QUICK = 8
"""So many items of one thread in that time are quick: what we do for each takes a good part of
it."""
_ITEMS_PER_CORE = 8
_MAX_IN_EXECUTOR = 10_000


def normalize_items(items: Iterable[object]) -> list[Item]:
    """Return (value, label) pairs: a pair with a text label stays, anything else is its own
    label."""
    if isinstance(items, (str, bytes)):
        raise UsageProblem("The items are one text.", hint="Give a list of items.")
    pairs: list[Item] = []
    for item in items:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str):
            pairs.append(item)
        else:
            pairs.append(
                (item, item if isinstance(item, str) else values.safe_repr(item, _MAX_LABEL))
            )
    return pairs


def batch_execute(
    items: Iterable[object],
    func: Func,
    *,
    max_workers: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    engine: str | Executor | Any = "threads",
) -> str:
    """Run `func` on every item at once and return the results as text, a section each, in the
    items' order.

    In threads (and in a ThreadPoolExecutor) the function sees all that its caller sees. In other
    executors and on Dask it runs in another process: function, items and results are pickled, and
    there are no secrets, settings or packs. Code that asks for them there gets an error that says
    so.

    Args:
        items: Values, or (value, label) pairs.
        func: Called with the value alone; may be async.
        max_workers: How many run at a time; by default 32 threads, or as many as the engine has
            room for.
        progress: Called with (done, total, label) after each item.
        engine: `"threads"`, `"dask"`, a `distributed.Client`, or any `concurrent.futures.Executor`.
            `"dask"` uses the scheduler of `$DASK_SCHEDULER_ADDRESS`, else it starts a cluster on
            this machine for the batch.
    """
    work = normalize_items(items)
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"max_workers must be at least 1, got {max_workers}")
    if not work:
        return ""
    outcomes: list[Outcome] = [(False, "")] * len(work)
    with closing(run_items([value for value, _ in work], func, max_workers, engine)) as finished:
        for count, (index, outcome) in enumerate(finished, 1):
            outcomes[index] = outcome
            label = work[index][1]
            report_progress(count, len(work), label)
            if progress is not None:
                progress(count, len(work), label)
    box = current.toolbox()
    mask = str if box is None else box.mask
    sections = []
    for (_, label), (is_done, value) in zip(work, outcomes, strict=True):
        sections.append(
            f"=== {label} ===\n{values.to_text(value) if is_done else f'Error: {mask(value)}'}"
        )
    return "\n\n".join(sections)


def run_items(
    items: Sequence[object],
    func: Func,
    width: int | None,
    engine: object = "threads",
    *,
    grace_s: float = 0.0,
) -> Outcomes:
    """Run `func` on each item, at most `width` at a time, and yield (index, outcome) as they
    finish."""
    require_engine(engine)
    if engine == "threads":
        return _in_threads(items, func, width or _THREADS, grace_s)
    if isinstance(engine, Executor):
        return _in_window(items, width or _MAX_IN_EXECUTOR, _ExecutorWorkers(engine, func), grace_s)
    return _in_dask(items, func, width, None if engine == "dask" else engine, grace_s)


def require_engine(engine: object) -> None:
    """Raise UsageProblem if this is not an engine."""
    distributed = sys.modules.get("distributed")
    is_client = distributed is not None and isinstance(engine, distributed.Client)
    if not (
        is_client
        or isinstance(engine, Executor)
        or (isinstance(engine, str) and engine in ("threads", "dask"))
    ):
        label = values.safe_repr(engine, 80)
        raise UsageProblem(
            f"No engine {label}.",
            hint='Valid: "threads", "dask", a distributed.Client, an Executor.',
        )


def runs_in_threads(engine: object) -> bool:
    """Whether this engine runs its items in this process."""
    return engine == "threads" or isinstance(engine, ThreadPoolExecutor)


# --- in this process ------------------------------------------------------------------------------


def _in_threads(items: Sequence[Any], func: Func, width: int, grace_s: float) -> Outcomes:
    """Run items in daemon threads, each item in its own copy of the caller's context.

    One thread begins. The others start when its items are not quick: threads that never wait only
    take the interpreter from each other, and that costs more than such an item.
    """
    todo = iter(range(len(items)))
    done: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
    context = copy_context()

    def serve() -> None:
        # The iterator of a range gives each number to one thread.
        for index in todo:
            done.put((index, _outcome(context.copy(), func, items[index])))

    threads = [WorkerThread(serve) for _ in range(min(width, len(items)))]
    idle, left = iter(threads), len(items)
    try:
        # Stop may come while the threads start.
        _start(islice(idle, 1))
        while left:
            if done.empty():
                time.sleep(_REST_S)
                if done.qsize() < min(_QUICK, left):
                    _start(idle)
            yield _get(done)
            left -= 1
    finally:
        deque(todo, maxlen=0)
        if left:
            until = time.monotonic() + grace_s
            # Stop may have come before all threads were started.
            for thread in filter(WorkerThread.is_alive, threads):
                thread.join(max(0.0, until - time.monotonic()))
            for thread in filter(WorkerThread.is_alive, threads):
                thread.is_abandoned = True
                thread.throw()


def _start(threads: Iterable[WorkerThread]) -> None:
    # A start waits for a Condition, where an interrupt between two lines is a RuntimeError.
    for thread in threads:
        with deferred:
            thread.start()


def _outcome(context: Context, func: Func, item: object) -> Outcome:
    try:
        return True, context.run(lambda: _result(func(item)))
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, _message(exc)


def _result(value: object) -> Any:
    """Return the value, or the result of a coroutine."""
    if not isinstance(value, types.CoroutineType):
        return value
    import asyncio

    return asyncio.run(value)


def _get(done: SimpleQueue[Any]) -> Any:
    """Get the next item, in short waits. Raises Abandoned if nobody waits for the batch any
    more."""
    while True:
        require_wanted()
        with suppress(Empty):
            return done.get(timeout=_WAIT_S)


def _message(exc: BaseException) -> str:
    """Return the text of an exception, or its class name if it has none."""
    if isinstance(exc, BrokenExecutor):
        return "The worker process died, and the executor with it."
    text = words_of(exc)
    return f"{text} {exc.hint}".rstrip() if isinstance(exc, Unavailable) else text


# --- executors and clusters -----------------------------------------------------------------------


class _ExecutorWorkers:
    """A `concurrent.futures.Executor`. In a ThreadPoolExecutor, items see the caller's context.

    `pickler` is pickle, or cloudpickle for workers that may have none of our files.
    """

    def __init__(self, executor: Executor, func: Func, pickler: types.ModuleType = pickle) -> None:
        self._executor = executor
        self._func = func
        self._pickler = pickler
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()
        self._context = copy_context() if isinstance(executor, ThreadPoolExecutor) else None
        self._packed = b"" if self._context is not None else _pack_function(func, pickler)

    def submit(self, item: object) -> Future[Any]:
        """Begin an item and return its future. Raises if the item cannot be sent."""
        try:
            if self._context is not None:
                future = self._executor.submit(_outcome, self._context.copy(), self._func, item)
            else:
                future = self._executor.submit(_run_packed, self._packed, self._pickler.dumps(item))
        except BrokenExecutor:
            raise
        except RuntimeError as exc:
            raise UsageProblem(f"The executor takes no more work: {exc}") from exc
        # An interrupt inside of the future's lock would keep it, and the executor's thread with it.
        with deferred:
            future.add_done_callback(self._done.put)
        return future

    def next(self) -> tuple[Future[Any], Outcome]:
        """Wait for a future that has finished."""
        future = _get(self._done)
        try:
            outcome = future.result(0)
        except CancelledError:
            return future, (False, "It was cancelled.")
        except Exception as exc:  # noqa: BLE001 - what an executor itself raises is the item's failure
            return future, (False, _message(exc))
        if self._context is not None:
            return future, outcome
        ok, data = outcome
        try:
            return future, (ok, pickle.loads(data))  # noqa: S301 - packed by `_run_packed`
        except Exception as exc:  # noqa: BLE001 - unpickling runs foreign code
            return future, (False, f"The result cannot be read here: {_message(exc)}")


def _in_window(
    items: Sequence[object], width: int, workers: _ExecutorWorkers, grace_s: float
) -> Outcomes:
    """Keep `width` items running until all are done. At the end cancel what has not begun, and wait
    for the rest."""
    todo, count = 0, len(items)
    running: dict[Future[Any], int] = {}
    try:
        while todo < count or running:
            while todo < count and len(running) < width:
                index, todo = todo, todo + 1
                try:
                    running[workers.submit(items[index])] = index
                except UsageProblem:
                    raise
                except Exception as exc:  # noqa: BLE001 - pickling an item runs foreign code; a pool may be broken
                    yield index, (False, _message(exc))
            if running:
                future, outcome = workers.next()
                yield running.pop(future), outcome
    finally:
        unfinished = [future for future in running if not future.cancel()]
        if unfinished and grace_s:
            wait(unfinished, grace_s)


def _in_dask(
    items: Sequence[object], func: Func, width: int | None, client: object | None, grace_s: float
) -> Outcomes:
    """Run items on a Dask cluster, by its Executor. If a worker dies, another one runs its
    items."""
    try:
        distributed, cloudpickle = import_module("distributed"), import_module("cloudpickle")
    except ImportError as exc:
        raise UsageProblem(
            "The engine 'dask' needs the library distributed.",
            hint="Install it: pip install 'onetool-ipy[dask]'",
        ) from exc
    with _dask_client(distributed, client, width) as scheduler:
        if scheduler.asynchronous:
            raise UsageProblem(
                "The Dask client is asynchronous.", hint="Make it with Client(...) alone."
            )
        most = width or _ITEMS_PER_CORE * (sum(scheduler.ncores().values()) or 1)
        workers = _ExecutorWorkers(scheduler.get_executor(pure=False), func, cloudpickle)
        yield from _in_window(items, most, workers, grace_s)


@contextmanager
def _dask_client(distributed: Any, client: Any | None, width: int | None) -> Iterator[Any]:
    """Yield the client given, else one for the scheduler in the environment, else one for a local
    cluster."""
    if client is not None:
        yield client
        return
    if address := os.environ.get(_SCHEDULER):
        with distributed.Client(address, set_as_default=False) as opened:
            yield opened
        return
    cores = os.cpu_count() or 1
    workers = min(width or cores, cores)
    threads = math.ceil((width or cores) / workers)
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as opened,
    ):
        yield opened


# --- to another process and back ------------------------------------------------------------------


class _PackFunction(NamedTuple):
    """A function of a pack file, by the file's path and its name."""

    module: str
    file: str
    name: str


class _NoToolbox:
    """Stands for the toolbox in a process that has none."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unavailable(
            "This code runs in another process, which has no toolbox, settings or secrets.",
            hint="Read them before the batch, and pass them along with each item.",
        )


def _pack_function(func: Func, pickler: types.ModuleType) -> bytes:
    """Pickle a function: of a pack file by its path, or with its code by cloudpickle. Raises
    UsageProblem."""
    module = _pack_module(func)
    try:
        if module is not None and pickler is pickle and func is _member(module, func.__qualname__):
            return pickle.dumps(
                _PackFunction(module.__name__, str(module.__file__), func.__qualname__)
            )
        with ExitStack() as stack:
            if module is not None and pickler is not pickle:
                pickler.register_pickle_by_value(module)
                stack.callback(pickler.unregister_pickle_by_value, module)
            packed: bytes = pickler.dumps(func)
        return packed
    except Exception as exc:  # pickling runs foreign code
        raise UsageProblem(
            f"{values.safe_repr(func, 80)} cannot be sent to another process: {exc}",
            hint=(
                "Define it at the top of a module or pack file, and give it what it needs with each"
                " item. Secrets and open connections do not travel."
            ),
        ) from exc


def _pack_module(func: object) -> types.ModuleType | None:
    """Return the module of a function if it is a pack file's, which nobody can import."""
    while isinstance(func, partial):
        func = func.func
    module = sys.modules.get(getattr(func, "__module__", None) or "")
    return (
        module
        if module is not None and module.__spec__ is None and module.__name__ != "__main__"
        else None
    )


def _member(module: types.ModuleType, name: str) -> Any:
    member: Any = module
    for part in name.split("."):
        member = getattr(member, part, None)
    return member


def _run_packed(function: bytes, item: bytes) -> tuple[bool, bytes]:
    """In the other process: unpickle, call, and pickle the result or the text of the failure."""
    token = current.enter(current.Scope(_NoToolbox()))
    try:
        func = pickle.loads(function)  # noqa: S301 - packed by the batch that sent it
        if isinstance(func, _PackFunction):
            func = _member(sys.modules.get(func.module) or _load_pack_file(func), func.name)
        value = _result(func(pickle.loads(item)))  # noqa: S301 - packed by the batch that sent it
        try:
            return True, pickle.dumps(value)
        except Exception as exc:
            raise TypeError(
                f"The result, a {type(value).__name__}, cannot be sent back: {exc}"
            ) from exc
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, pickle.dumps(_message(exc))
    finally:
        current.leave(token)


def _load_pack_file(place: _PackFunction) -> types.ModuleType:
    """Run a pack file in this process, without registering its tools."""
    module = types.ModuleType(place.module)
    module.__file__ = place.file
    with open(place.file, "rb") as file:
        text = file.read()
    token = current.enter(current.Scope(_NoToolbox(), importing=True))
    sys.modules[place.module] = module
    try:
        exec(compile(text, place.file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[place.module]
        raise
    finally:
        current.leave(token)
    return module
