"""One row of a long run: call the tool, try again what may pass, and note the row as done before it counts.

`Here` runs rows in this process. `Elsewhere` goes to another one (Dask, an Executor of processes) and opens the same
project's toolbox there, once per process: so a call there is logged, checked and masked as it is here, and no secret
travels. Done rows are noted where they ran; a row that is run again because its worker died is found there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from onetool_ipy.core import current
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.failures import is_passing
from onetool_ipy.core.model import ToolResult, ToolSpec
from onetool_ipy.stores.done_rows import DoneRows

__all__ = ["Elsewhere", "Here", "Pace", "Row", "Task", "packed_spec"]

Item = tuple[str, dict[str, Any]]

_FIRST_S = 0.3
_LONGEST_S = 20.0
_WAITS = 10
"""How often a row waits for a tool's own limit of calls per minute before it fails by it."""


class Row(NamedTuple):
    """How a row went. `is_noted` says that it is among the done rows of this machine."""

    ok: bool
    value: Any
    error: str
    ms: float
    is_noted: bool


class Task(NamedTuple):
    """What is to be done for each row."""

    tool: str
    retries: int
    timeout_s: float | None


class Here:
    """Calls rows in this process, in the scope of the call that asked for them."""

    def __init__(self, box: Any, task: Task, done: DoneRows, pace: Pace | None = None) -> None:
        self._box = box
        self._task = task
        self._done = done
        self._pace = pace

    def __call__(self, item: Item) -> Row:
        key, args = item
        outer = current.scope()
        call, spec, depth = (None, None, 0) if outer is None else (outer.call, outer.spec, outer.depth)
        token = current.enter(current.Scope(self._box, call, spec, depth))  # a row's progress is not the run's
        try:
            return _run(self._box, self._task, self._done, key, args, self._pace)
        finally:
            current.leave(token)


class Elsewhere:
    """Calls rows in another process; can be pickled. `spec` is a cell's tool, packed, since no file has it."""

    def __init__(
        self, task: Task, open_again: Callable[[], Any], journal: Path, stamp: str, spec: bytes | None = None
    ) -> None:
        self._task = task
        self._open_again = open_again
        self._journal = journal
        self._stamp = stamp
        self._spec = spec

    def __call__(self, item: Item) -> Row:
        key, args = item
        box = current.kept(("box", self._journal, self._stamp, self._spec), self._open)
        done: DoneRows = current.kept(
            ("done", self._journal), lambda: DoneRows(self._journal, mask=box.mask, now=lambda: box.now().timestamp())
        )
        is_shared = done.is_same(self._stamp)
        token = current.enter(current.Scope(box))
        try:
            if is_shared and key:
                done.refresh()
                if (found := next(done.values([key]))) is not None:
                    return Row(True, found.value, "", found.ms, is_noted=True)
            return _run(box, self._task, done if is_shared else None, key, args, None)
        finally:
            current.leave(token)

    def _open(self) -> Any:
        box = self._open_again()
        if self._spec is not None:
            import pickle

            box.registry.register(pickle.loads(self._spec))  # noqa: S301 - packed by the run that sent it
        return box


class Pace:
    """So many calls a minute, evenly spread, over all threads that ask. Waits; never bursts."""

    def __init__(self, per_minute: float) -> None:
        self._gap_s = 60.0 / per_minute
        self._turn: SimpleQueue[float] = SimpleQueue()
        self._turn.put(0.0)

    def wait(self) -> None:
        """Wait for one's turn."""
        free = self._turn.get()
        mine = max(free, time.monotonic())
        self._turn.put(mine + self._gap_s)
        time.sleep(max(0.0, mine - time.monotonic()))


def packed_spec(spec: ToolSpec) -> bytes:
    """A cell's tool by value, for another process. Raises UsageProblem where it cannot travel."""
    try:
        import cloudpickle  # type: ignore[import-untyped]  # it ships no types
    except ImportError as exc:
        raise UsageProblem(
            f"'{spec.name}' is a tool of this notebook, which only cloudpickle can send to another process.",
            hint="Install it: pip install 'onetool-ipy[dask]', or save the tool: %%tool --save PACK",
        ) from exc
    try:
        packed: bytes = cloudpickle.dumps(spec.replace(live=None, reread=None))
    except Exception as exc:  # pickling runs foreign code
        raise UsageProblem(
            f"'{spec.name}' cannot be sent to another process: {exc}", hint="Save it to a pack file: %%tool --save PACK"
        ) from exc
    return packed


def _run(box: Any, task: Task, done: DoneRows | None, key: str, args: dict[str, Any], pace: Pace | None) -> Row:
    began = time.perf_counter()
    result = _called(box, task, args, pace)
    ms = round((time.perf_counter() - began) * 1000, 3)
    if result.error is not None:
        return Row(False, None, box.mask(str(result.error)), ms, is_noted=False)
    is_noted = bool(key) and done is not None and done.add(key, result.data, ms)
    return Row(True, result.data, "", ms, is_noted)


def _called(box: Any, task: Task, args: dict[str, Any], pace: Pace | None) -> ToolResult:
    """Call until it goes well, fails for good, or was tried often enough."""
    tries = waits = 0
    while True:
        if pace is not None:
            pace.wait()
        result: ToolResult = box.call(task.tool, args, source="tool", timeout=task.timeout_s)
        if result.error is None or not is_passing(result) or result.error.reason == "cancelled":
            return result
        asked_s = _asked_s(result)
        if result.error.reason == "rate_limited" and asked_s is not None and waits < _WAITS:
            waits += 1
            _sleep(asked_s)
            continue
        if tries >= task.retries:
            return result
        tries += 1
        backoff_s = min(_FIRST_S * 2.0 ** (tries - 1), _LONGEST_S) * (0.5 + random.random() / 2)
        _sleep(max(backoff_s, min(asked_s or 0.0, _LONGEST_S)))


def _asked_s(result: ToolResult) -> float | None:
    """How long a refusal asks one to wait."""
    details = result.error.details if result.error is not None else None
    found = details.get("retryAfterS") if isinstance(details, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _sleep(seconds: float) -> None:
    """In short naps, so that a row that is given up notices."""
    until = time.monotonic() + min(seconds, 3 * _LONGEST_S)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
