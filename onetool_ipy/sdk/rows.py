"""One row of a long run: call the tool, try again what may pass, and note the row as done before it counts.

`Here` runs rows in this process. `Elsewhere` goes to another one (Dask, an Executor of processes) and opens the same
project's toolbox there, once per process: so a call there is logged, checked and masked as it is here, and no secret
travels. Done rows are noted where they ran; a row that is run again because its worker died is found there.

The rows that a tool is called for: a table, a list or a Series -> arguments, row by row. Pure.

A text names a column, anything else is a constant; `columns=` and `const=` say it outright. All that is wrong with the
names is said before anything runs. A missing cell (None, NaN, NaT, NA) is not passed to an optional argument, and is
None for a required one. Rows are made when they are asked for, so that a million of them cost no more than their cells.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.core import current
from onetool_ipy.core.executor import is_passing
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.stores.map_progress import DoneRows

__all__ = ["Elsewhere", "Here", "Pace", "Row", "Rows", "Task", "packed_spec", "read_rows"]

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


_MAX_LISTED = 12


class Rows(Sequence[dict[str, Any]]):
    """The arguments of each row; `labels` is the index of the table they came from, None for a plain list."""

    def __init__(
        self, cells: Mapping[str, Sequence[Any]], const: Mapping[str, Any], required: frozenset[str], table: _Table
    ) -> None:
        self.labels = table.index
        self._cells = cells
        self._const = const
        self._required = required
        self._length = table.length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self._length:
            raise IndexError(place)
        args = dict(self._const)
        for name, cells in self._cells.items():
            cell = cells[place]
            if cell is _ABSENT:
                continue
            if not _is_missing(cell):
                args[name] = cell
            elif name in self._required:
                args[name] = None
        return args


class _Table(NamedTuple):
    """What was given: columns by label, or `single` where it is one list of values."""

    length: int
    index: Any
    labels: Sequence[Any]
    cells: Callable[[Any], Sequence[Any]]
    single: Sequence[Any] | None = None
    is_strict: bool = False


class _Absent:
    """Stands for a key that a record does not have."""


_ABSENT = _Absent()


def read_rows(
    spec: ToolSpec,
    data: Any,
    given: Mapping[str, Any],
    *,
    columns: Mapping[str, Any] | None = None,
    const: Mapping[str, Any] | None = None,
) -> Rows:
    """Match what was given to the arguments of a tool. Raises UsageProblem where that cannot be done."""
    table = _table(data)
    named, fixed = dict(columns or {}), dict(const or {})
    for name, value in given.items():
        if name in named or name in fixed:
            raise UsageProblem(f"The argument '{name}' was given twice.")
        if _is_column(name, value, table):
            named[name] = value
        else:
            fixed[name] = value
    if twice := named.keys() & fixed.keys():
        raise UsageProblem(f"The argument '{min(twice)}' is in columns= and in const=.")
    _require_known(spec, [*named, *fixed])
    required = frozenset(param.name for param in spec.params if param.required)
    if table.single is not None and not named:
        cells: dict[str, Sequence[Any]] = {_only_argument(spec, fixed, required): table.single}
    else:
        for name in _by_own_name(spec, table, required, is_alone=not named and not given):
            if name not in named and name not in fixed:
                named[name] = name
        cells = {name: _column(label, table) for name, label in named.items()}
    if missing := [p.name for p in spec.params if p.required and p.name not in cells and p.name not in fixed]:
        raise UsageProblem(
            f"No column for the argument '{missing[0]}' of '{spec.name}'.",
            hint=f'Say which: {missing[0]}="COLUMN". Columns: {_listed(table.labels)}',
        )
    return Rows(cells, fixed, required, table)


def _table(data: Any) -> _Table:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    if isinstance(data, pd.DataFrame):
        return _Table(len(data), data.index, list(data.columns), lambda label: data[label].tolist())
    if isinstance(data, pd.Series):
        cells = data.tolist()
        labels = [] if data.name is None else [data.name]
        return _Table(len(cells), data.index, labels, lambda _label: cells, cells)
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        shown = values.safe_repr(data, 60)
        raise UsageProblem(f"{shown} is no table.", hint="Give a DataFrame, a Series, a list, or a dict of lists.")
    if isinstance(data, Mapping):
        return _of_lists(data)
    if getattr(data, "ndim", 1) != 1:
        raise UsageProblem(
            f"An array of {getattr(data, 'ndim', 0)} dimensions is no list.", hint="Make it a DataFrame."
        )
    items = data.tolist() if hasattr(data, "tolist") else list(data)
    records = [isinstance(item, Mapping) for item in items]
    if items and all(records):
        return _of_records(items)
    if any(records):
        raise UsageProblem("Some items of the list are dicts and some are not.", hint="Give one kind.")
    return _Table(len(items), None, [], lambda _label: items, items)


def _of_lists(data: Mapping[Any, Any]) -> _Table:
    lists: dict[Any, list[Any]] = {}
    for label, cells in data.items():
        if isinstance(cells, (str, bytes, Mapping)) or not isinstance(cells, Iterable):
            raise UsageProblem(
                f"'{label}' holds {values.safe_repr(cells, 40)}, which is no list.",
                hint="A dict of lists is a table; one value for all rows goes into const=.",
            )
        lists[label] = cells.tolist() if hasattr(cells, "tolist") else list(cells)
    lengths = {label: len(cells) for label, cells in lists.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{label}: {length}" for label, length in list(lengths.items())[:_MAX_LISTED])
        raise UsageProblem(f"The lists are not of one length ({said}).")
    length = next(iter(lengths.values()), 0)
    return _Table(length, None, list(lists), lambda label: lists[label], is_strict=True)


def _of_records(items: Sequence[Mapping[Any, Any]]) -> _Table:
    labels = list(dict.fromkeys(key for item in items for key in item))
    return _Table(len(items), None, labels, lambda label: [item.get(label, _ABSENT) for item in items], is_strict=True)


def _is_column(name: str, value: Any, table: _Table) -> bool:
    """Whether a value names a column: a text does; where a constant looks like a column's label, nobody can tell."""
    if isinstance(value, str):
        if table.single is not None:
            return value in table.labels
        if value in table.labels:
            return True
        near = did_you_mean(value, [str(label) for label in table.labels])
        raise UsageProblem(
            f"No column '{values.cut(value, 60)}' for the argument '{name}'. {near}".rstrip(),
            hint=f"Columns: {_listed(table.labels)}. For the same text in each row: "
            f"const={{{name!r}: {values.safe_repr(value, 40)}}}",
        )
    try:
        is_label = type(value) is not bool and value in table.labels
    except (TypeError, ValueError):  # an array has no single answer
        return False
    if is_label and table.single is None:
        raise UsageProblem(
            f"{name}={value!r} may be a column or a value.",
            hint=f"Say columns={{{name!r}: {value!r}}} or const={{{name!r}: {value!r}}}.",
        )
    return False


def _require_known(spec: ToolSpec, asked: Iterable[str]) -> None:
    if spec.parameters.get("additionalProperties", True) is not False:
        return
    known = [param.name for param in spec.params]
    for name in asked:
        if name not in known:
            near = did_you_mean(str(name), known)
            raise UsageProblem(f"'{spec.name}' has no argument '{name}'. {near}".rstrip(), hint=spec.signature)


def _only_argument(spec: ToolSpec, fixed: Mapping[str, Any], required: frozenset[str]) -> str:
    left = [param.name for param in spec.params if param.required and param.name not in fixed]
    if not left and not required:
        left = [param.name for param in spec.params if param.name not in fixed]
    if not left:
        raise UsageProblem(
            f"A list is for one argument, and no argument of '{spec.name}' is left for it.",
            hint="Leave out the one that the list is for, or give a table: {'column': [...]}.",
        )
    if len(left) != 1:
        raise UsageProblem(
            f"A list is for one argument, and '{spec.name}' leaves open which of {', '.join(left)} it is.",
            hint="Give a table, or a dict of lists; constants go into const=.",
        )
    return left[0]


def _by_own_name(spec: ToolSpec, table: _Table, required: frozenset[str], *, is_alone: bool) -> list[str]:
    """The arguments whose columns have their names: the required ones, and all where none was named."""
    if is_alone and table.is_strict:
        _require_known(spec, table.labels)
    return [p.name for p in spec.params if p.name in table.labels and (is_alone or p.name in required)]


def _column(label: Any, table: _Table) -> Sequence[Any]:
    count = sum(1 for known in table.labels if known == label)
    if count != 1:
        said = f"There are {count} columns" if count else "There is no column"
        raise UsageProblem(f"{said} '{label}'.", hint=f"Columns: {_listed(table.labels)}")
    return table.cells(label)


def _is_missing(cell: Any) -> bool:
    if cell is None:
        return True
    kind = type(cell)
    if kind is float:
        return bool(cell != cell)  # NaN
    return kind.__name__ in ("NaTType", "NAType")


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(str(label) for label in labels[:_MAX_LISTED])
    return (shown + (", ..." if len(labels) > _MAX_LISTED else "")) or "none"
