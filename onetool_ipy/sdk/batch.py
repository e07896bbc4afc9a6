"""A function and its item on their way to another process or machine, and back. Half of it runs there.

Functions of a pack file have no module that could be imported elsewhere: they travel as the file's path and their
name, or by value where cloudpickle is at hand (Dask). What fails there comes back as words, since an exception that
cannot be unpickled would break the pool. There is no toolbox there, and whoever asks for it is told so.

Where the items of a batch run: threads here, any Executor, or a Dask cluster. Each gives outcomes as they come.

An engine is an iterator of (index, outcome). Items are taken from their sequence one by one, so that it may make them
when they are asked for. Closing an engine before its end (Stop, or a listener that raises) takes back what has not
begun, gives what is under way `grace_s` to end by itself, and ends what then runs in threads where that is Python code.

Run a function over many items at once, and give what they gave as one text (spec 000).

The order of the items is the order of the sections; an item that fails has `Error: ...` in its own section and stops
no other. At most `max_workers` run at a time, on every engine. Where they run is `engines`' work.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import threading
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, NoReturn, Protocol

from onetool_ipy.base import values
from onetool_ipy.base.background import Abandoned, throw_into
from onetool_ipy.base.errors import Unavailable, UsageProblem
from onetool_ipy.core import current
from onetool_ipy.sdk.tools import progress as report

__all__ = [
    "Outcome",
    "Parcel",
    "batch_execute",
    "finish",
    "in_dask",
    "in_executor",
    "in_threads",
    "is_dask",
    "is_executor",
    "is_thread_pool",
    "normalize_items",
    "pack_function",
    "pack_value",
    "run",
    "unpack",
    "words",
]

Outcome = tuple[bool, Any]
"""Whether it went well, and the value or the words of the failure."""

Parcel = tuple[bytes, bytes]
"""The function and the value, each pickled."""

_HINT = "Define it at the top of a module or pack file, and give it what it needs with each item."


class _Away:
    """Stands for the toolbox where there is none."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unavailable(
            "This code runs in another process: no toolbox, settings or secrets are at hand there.",
            hint="Read them before the batch, and pass them along with each item.",
        )


class _Located(NamedTuple):
    """A function of a pack file, by the file it stands in."""

    module: str
    file: str
    name: str


def pack_function(func: Callable[..., Any], *, by_value: bool) -> bytes:
    """The function, ready to travel; UsageProblem where it cannot."""
    module = sys.modules.get(getattr(_inner(func), "__module__", None) or "")
    homeless = module is not None and module.__spec__ is None and module.__name__ != "__main__"
    try:
        if by_value:
            return _by_value(func, module if homeless else None)
        if module is not None and homeless and func is _find(module, func):
            return pickle.dumps(_Located(module.__name__, str(module.__file__), func.__qualname__))
        return pickle.dumps(func)
    except Exception as exc:  # pickling runs foreign code
        raise UsageProblem(
            f"{values.safe_repr(func, 80)} cannot be sent to another process: {exc}",
            hint=f"{_HINT} Secrets and open connections do not travel.",
        ) from exc


def pack_value(value: Any, *, by_value: bool) -> bytes:
    """The item, ready to travel."""
    if by_value:
        packed: bytes = _cloudpickle().dumps(value)
        return packed
    return pickle.dumps(value)


def run(parcel: Parcel) -> tuple[bool, bytes]:
    """There: unpack, call, and pack what it gives, or say in words what failed."""
    token = current.enter(current.Scope(_Away()))
    try:
        func = _unpacked(parcel[0])
        value = pickle.loads(parcel[1])  # noqa: S301 - packed by the batch that sent it
        return True, _packed(finish(func(value)))
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, pickle.dumps(words(exc))
    finally:
        current.leave(token)


def unpack(sent: tuple[bool, bytes]) -> Outcome:
    """Here: what `run` gave there."""
    ok, data = sent
    try:
        return ok, pickle.loads(data)  # noqa: S301 - packed by `run`
    except Exception as exc:  # noqa: BLE001 - unpickling runs foreign code
        return False, f"The result cannot be read here: {words(exc)}"


def finish(value: Any) -> Any:
    """The value itself; of a coroutine what it gives."""
    if not isinstance(value, types.CoroutineType):
        return value
    import asyncio

    return asyncio.run(value)


def words(exc: BaseException) -> str:
    """What an exception says; its class where it says nothing."""
    try:
        text = str(exc).strip()
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        text = ""
    hint = getattr(exc, "hint", "")
    return f"{text or type(exc).__name__}{f' {hint}' if hint and isinstance(exc, Unavailable) else ''}"


def _packed(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as exc:
        raise TypeError(f"The result, a {type(value).__name__}, cannot be sent back: {exc}") from exc


def _inner(func: Any) -> Any:
    while isinstance(func, partial):
        func = func.func
    return func


def _find(module: types.ModuleType, func: Any) -> Any:
    found: Any = module
    for part in func.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def _by_value(func: Callable[..., Any], module: types.ModuleType | None) -> bytes:
    cloudpickle = _cloudpickle()
    if module is None:
        packed: bytes = cloudpickle.dumps(func)
        return packed
    cloudpickle.register_pickle_by_value(module)
    try:
        packed = cloudpickle.dumps(func)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return packed


def _cloudpickle() -> Any:
    """It comes with Dask; nobody else is asked to have it."""
    return import_module("cloudpickle")


def _unpacked(data: bytes) -> Callable[..., Any]:
    found = pickle.loads(data)  # noqa: S301 - packed by the batch that sent it
    if not isinstance(found, _Located):
        return found  # type: ignore[no-any-return]  # what was packed is a function
    module = sys.modules.get(found.module) or _load(found)
    func: Any = module
    for part in found.name.split("."):
        func = getattr(func, part)
    return func  # type: ignore[no-any-return]


def _load(place: _Located) -> types.ModuleType:
    """Run a pack file in this process; its tools are registered nowhere."""
    module = types.ModuleType(place.module)
    module.__file__ = place.file
    with open(place.file, "rb") as file:
        text = file.read()
    token = current.enter(current.Scope(_Away(), importing=True))
    sys.modules[place.module] = module
    try:
        exec(compile(text, place.file, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[place.module]
        raise
    finally:
        current.leave(token)
    return module


Func = Callable[[Any], Any]
Outcomes = Generator[tuple[int, Outcome], None, None]

_SCHEDULER = "DASK_SCHEDULER_ADDRESS"
_LOOK_UP_S = 0.5
_PER_CORE = 8
_MOST = 10_000


def in_threads(items: Sequence[Any], func: Func, width: int, *, grace_s: float = 0.0) -> Outcomes:
    """Daemon threads that take the next item until there is none, each item in its own copy of the caller's context."""
    todo = iter(range(len(items)))
    done: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
    context = copy_context()

    def serve() -> None:
        with suppress(Abandoned):
            for index in todo:  # a range's iterator gives each number to one thread
                done.put((index, _outcome(context.copy(), func, items[index])))

    threads = [threading.Thread(target=serve, name="onetool-batch", daemon=True) for _ in range(min(width, len(items)))]
    left = len(items)
    try:
        for thread in threads:  # inside: a Stop may come while they start
            thread.start()
        while left:
            yield _next(done)
            left -= 1
    finally:
        deque(todo, maxlen=0)
        if left:
            _end(threads, grace_s)


def in_executor(
    items: Sequence[Any], func: Func, width: int | None, executor: Executor, *, grace_s: float = 0.0
) -> Outcomes:
    """At most `width` items under way in an Executor; without it, as many as the executor takes."""
    return _windowed(items, width or _MOST, _Pool(executor, func), grace_s)


def in_dask(
    items: Sequence[Any], func: Func, width: int | None, client: Any | None, *, grace_s: float = 0.0
) -> Outcomes:
    """At most `width` items under way on a Dask cluster; a worker that dies has its items done by another."""
    _distributed()
    packed = pack_function(func, by_value=True)
    with _client(client, width) as found:
        if found.asynchronous:
            raise UsageProblem("The Dask client is an asynchronous one.", hint="Make it with Client(...) alone.")
        most = width or _PER_CORE * (sum(found.ncores().values()) or 1)
        yield from _windowed(items, most, _Cluster(found, packed), grace_s)


def is_executor(engine: object) -> bool:
    """Whether this is a `concurrent.futures.Executor`."""
    return isinstance(engine, Executor)


def is_thread_pool(engine: object) -> bool:
    """Whether this is an executor whose work runs in this process."""
    return isinstance(engine, ThreadPoolExecutor)


def is_dask(engine: object) -> bool:
    """Whether this is a `distributed.Client`."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(engine, distributed.Client)


class _Team(Protocol):
    """Those who do the items somewhere else."""

    def submit(self, item: Any) -> Any:
        """Begin an item; gives what stands for it. Raises where the item cannot be sent."""

    def next(self) -> tuple[Any, Outcome]:
        """Wait for one that has ended."""

    def cancel(self, running: Iterable[Any], grace_s: float) -> None:
        """Take back what has not begun, and give the rest some time to end."""


def _end(threads: Sequence[threading.Thread], grace_s: float) -> None:
    until = time.monotonic() + grace_s
    try:
        for thread in threads if grace_s else ():
            thread.join(max(0.0, until - time.monotonic()))
    finally:  # a second Stop does not wait
        for thread in threads:
            if thread.is_alive():
                throw_into(thread)


def _windowed(items: Sequence[Any], width: int, team: _Team, grace_s: float) -> Outcomes:
    """Keep `width` items under way until all are done."""
    todo, count = 0, len(items)
    running: dict[Any, int] = {}
    try:
        while todo < count or running:
            while todo < count and len(running) < width:
                index, todo = todo, todo + 1
                try:
                    running[team.submit(items[index])] = index
                except UsageProblem:
                    raise
                except Exception as exc:  # noqa: BLE001 - pickling an item runs foreign code; a pool may be broken
                    yield index, (False, _lost(exc))
            if running:
                ended, outcome = team.next()
                yield running.pop(ended), outcome
    finally:
        team.cancel(running, grace_s)


class _Pool:
    """A `concurrent.futures.Executor`; one of threads sees the caller's context."""

    def __init__(self, executor: Executor, func: Func) -> None:
        self._executor = executor
        self._func = func
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()
        self._context = copy_context() if isinstance(executor, ThreadPoolExecutor) else None
        self._packed = b"" if self._context is not None else pack_function(func, by_value=False)

    def submit(self, item: Any) -> Future[Any]:
        try:
            future = self._send(item)
        except BrokenExecutor:
            raise
        except RuntimeError as exc:
            raise UsageProblem(f"The executor takes no more work: {exc}") from exc
        future.add_done_callback(self._done.put)
        return future

    def next(self) -> tuple[Future[Any], Outcome]:
        ended = _next(self._done)
        try:
            found = ended.result(0)
        except CancelledError:
            return ended, (False, "It was cancelled.")
        except Exception as exc:  # noqa: BLE001 - what an executor itself raises is the item's failure
            return ended, (False, _lost(exc))
        return ended, found if self._context is not None else unpack(found)

    def cancel(self, running: Iterable[Future[Any]], grace_s: float) -> None:
        begun = [future for future in running if not future.cancel()]
        if begun and grace_s:
            wait(begun, grace_s)

    def _send(self, item: Any) -> Future[Any]:
        if self._context is not None:
            return self._executor.submit(_outcome, self._context.copy(), self._func, item)
        return self._executor.submit(run, (self._packed, pack_value(item, by_value=False)))


class _Cluster:
    """The workers of a Dask client."""

    def __init__(self, client: Any, packed: bytes) -> None:
        self._client = client
        self._packed = packed
        self._ended = _distributed().as_completed(loop=client.loop, with_results=True, raise_errors=False)

    def submit(self, item: Any) -> Any:
        future = self._client.submit(run, (self._packed, pack_value(item, by_value=True)), pure=False)
        self._ended.add(future)
        return future

    def next(self) -> tuple[Any, Outcome]:
        future, result = next(self._ended)
        if isinstance(result, BaseException):
            return future, (False, "It was cancelled.")
        if len(result) == 3:  # the exception's type, itself and its traceback; the future's status is one of later on
            return future, (False, words(result[1]))
        return future, unpack(result)

    def cancel(self, running: Iterable[Any], grace_s: float) -> None:
        left = list(running)
        try:
            if left and grace_s:
                _distributed().wait(left, timeout=grace_s)
        except TimeoutError:
            pass
        finally:  # a second Stop does not wait
            if left:
                self._client.cancel(left)


def _outcome(context: Context, func: Func, item: Any) -> Outcome:
    try:
        return True, context.run(_call, func, item)
    except Abandoned:
        raise
    except BaseException as exc:  # noqa: BLE001 - whatever a function raises is its item's failure
        return False, words(exc)


def _call(func: Func, item: Any) -> Any:
    return finish(func(item))


def _next(done: SimpleQueue[Any]) -> Any:
    """The next one; in short waits, so that a call that is given up notices."""
    while True:
        with suppress(Empty):
            return done.get(timeout=_LOOK_UP_S)


def _lost(exc: BaseException) -> str:
    if isinstance(exc, BrokenExecutor):
        return "The process that was to do it died, and with it the executor."
    return words(exc)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as exc:
        raise UsageProblem(
            "The engine 'dask' needs the library distributed.", hint="Install it: pip install 'onetool-ipy[dask]'"
        ) from exc


@contextmanager
def _client(client: Any | None, width: int | None) -> Iterator[Any]:
    """The client given; else one for the scheduler that the environment names; else a local cluster."""
    if client is not None:
        yield client
        return
    distributed = _distributed()
    if address := os.environ.get(_SCHEDULER):
        with distributed.Client(address, set_as_default=False) as opened:
            yield opened
        return
    cores = os.cpu_count() or 1
    workers = min(width or cores, cores)
    threads = math.ceil((width or cores) / workers)
    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=threads, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as opened,
    ):
        yield opened


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


def _run(items: list[Any], func: Callable[[Any], Any], width: int | None, engine: Any) -> Outcomes:
    if engine == "threads":
        return in_threads(items, func, width or _THREADS)
    if isinstance(engine, Executor):
        return in_executor(items, func, width, engine)
    if engine == "dask" or is_dask(engine):
        return in_dask(items, func, width, None if engine == "dask" else engine)
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
