"""One run of `ot.map`: table -> arguments of each row -> calls, many at once -> DataFrame.

A row is stored in `stores.map_progress` before it counts as finished, so a run that was stopped can
be resumed; while a replay is on, its file alone counts. `sdk.batch` runs the rows. In threads, rows
are called in this toolbox (`_CallHere`). In another process (Dask, an Executor of processes)
`_CallElsewhere` opens the same project's toolbox, once per process: calls are logged, checked and
masked as they are here, and no secret travels.

Arguments: a text names a column, anything else is a constant; `columns=` and `const=` state it. All
errors in names are reported before anything runs. A missing cell (None, NaN, NaT, NA) is not passed
to an optional argument, and is None for a required one.
"""

from __future__ import annotations

import datetime
import pickle
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from onetool_ipy.base import syntax, tables, values
from onetool_ipy.base.errors import ExecutionFailed, InvalidArgs, UsageProblem, is_transient
from onetool_ipy.base.search import did_you_mean
from onetool_ipy.base.tables import is_missing, is_sparse
from onetool_ipy.base.values import Json
from onetool_ipy.core import current
from onetool_ipy.core.result import ToolResult
from onetool_ipy.core.tool import CallSource, ToolSpec, code_hash
from onetool_ipy.render.views import local_time
from onetool_ipy.sdk.batch import Outcome, require_engine, run_items, runs_in_threads
from onetool_ipy.sdk.tools import progress
from onetool_ipy.stores.calls.record import new_run
from onetool_ipy.stores.map_progress import MapProgress, progress_file, row_keys

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.toolbox import Toolbox

Item = tuple[str, dict[str, Any]]
"""The key of a row and its arguments."""

_GRACE_S = 0.7
"""How long running rows may take to finish after Stop, so that they need not be called again."""
_PROGRESS_EVERY_S = 0.1
_FIRST_RETRY_S = 0.3
_LONGEST_RETRY_S = 20.0
_MAX_RATE_WAITS = 10
"""How often a row waits for a tool's own limit of calls per minute before it fails."""
_MAX_LISTED = 12
_MAX_ERROR = 80
_OWN_ERROR = re.compile(r"(?:execution_error|invalid_args): ")
"""A code in front of a message that says as much by itself."""
_OWN_COLUMNS = ("ok", "error", "ms")
_OPTIONS = ("workers", "engine", "retries", "per_minute", "timeout", "fresh", "expand", "columns")


class RowResult(NamedTuple):
    """How a row went. `is_stored` says that it is among the finished rows on this machine."""

    ok: bool
    value: Any
    error: str
    ms: float
    is_stored: bool


def run_map(
    box: Toolbox,
    tool: object,
    data: Any,
    arguments: Mapping[str, Any],
    named: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    timeout_s: float | None,
    fresh: bool,
    expand: bool,
) -> pd.DataFrame:
    """Call the tool for each row and return the table of results. Raises InvalidArgs before
    anything runs.

    `named` has `columns` and `const`; `options` are those of `require_options`.
    """
    if not isinstance(tool, str):
        name = getattr(tool, "__name__", "add")
        raise InvalidArgs(
            f"ot.map takes the name of a tool first, not a {type(tool).__name__}.",
            hint=f'For example: ot.map("nb.{name}", table)',
        )
    spec = box.registry.load(tool)
    try:
        require_options(spec, **options)
        if box.replays.active is not None and not runs_in_threads(options["engine"]):
            raise UsageProblem(
                "A replay is on, and answers in this process alone.",
                hint="Leave engine= out, or switch it off: %tool replay off",
            )
        rows = read_rows(spec, data, arguments, **named)
        run = MapRun(box, spec, rows, timeout_s=timeout_s, **options)
        result = run.run(fresh=fresh)
    except UsageProblem as exc:
        raise InvalidArgs(exc.message, hint=exc.hint) from exc
    here = current.scope()
    if here is not None and here.call is not None and here.call.source != "tool":
        cell = next(reversed(box.host.inputs()), "")
        name = syntax.assigned_name(cell, "map", tool)
        box.host.note(box.mask(f"ot.map {tool}: {run.summary(name)}"))
    frame = to_frame(spec.short_name, rows.table_index, result, expand=expand, about=run.about())
    # A list has no index by which the rows could be joined, so its values stand before their
    # results.
    for name, cells in reversed(rows.unindexed.items()):
        if name not in frame:
            frame.insert(0, name, _frame_column(cells))
    return frame


class MapRun:
    """One run over all rows."""

    def __init__(
        self,
        box: Toolbox,
        spec: ToolSpec,
        rows: TableRows,
        *,
        workers: int,
        engine: object,
        retries: int,
        per_minute: float | None,
        timeout_s: float | None,
    ) -> None:
        self._box = box
        self._spec = spec
        self._rows = rows
        self._workers = workers
        self._engine = engine
        self._is_local = runs_in_threads(engine)
        self._pace = None if per_minute is None else _Pace(per_minute)
        is_paced_elsewhere = per_minute is not None and not self._is_local
        outer = current.scope()
        self._task = _RowTask(
            spec.name,
            0 if is_paced_elsewhere else retries,
            timeout_s,
            new_run(),
            None if outer is None else outer.asked_by,
            outer is None or outer.may_write,
            code_hash(spec),
        )
        # What a recording gave is not what the tool gave, and the other way round.
        self._is_replay = box.replays.active is not None
        self._keys = [""] * len(rows) if self._is_replay else row_keys(rows)
        self._results: list[RowResult | None] = [None] * len(rows)
        plain_name = "".join(c if c.isascii() and c.isalnum() else "_" for c in spec.name)[:60]
        path = progress_file(box.config.paths.state / "maps", f"{plain_name}-{self._task.code}")
        self._stored = MapProgress(path, mask=box.mask, now=lambda: box.now().timestamp())
        self._finished = self._failed = self._not_stored = self._resumed = 0
        self._reported_at = 0.0
        self._kept_from: datetime.datetime | None = None

    def run(self, *, fresh: bool) -> list[RowResult | None]:
        """Call the rows that are not finished, or all if `fresh`, and return the results of all
        rows."""
        self._kept_from = self._stored.last_write()
        stamp = self._stored.begin()
        if fresh:
            self._stored.drop(self._keys)
        else:
            self._stored.refresh()
        todo = self._resume()
        if not todo:
            return self._results
        outcomes = run_items(
            _Items(self._rows, self._keys, todo, self._pace),
            self._caller(stamp),
            self._workers,
            self._engine,
            grace_s=_GRACE_S,
        )
        with self._stored.open_for_rows(), closing(outcomes):
            try:
                for place, outcome in outcomes:
                    self._add(todo[place], outcome)
            except KeyboardInterrupt as exc:
                self._stop(exc)
        self._report(is_last=True)
        return self._results

    def about(self) -> Json:
        """Return what the frame says in `attrs["onetool"]` about the run."""
        called = self._finished - self._resumed
        here = current.scope()
        facts: dict[str, Any] = {}
        if here is not None and here.call is not None:
            again = {
                name: value
                for name, value in here.call.args.items()
                if name not in ("data", "engine", "fresh")
            }
            facts["call_id"] = here.call.id
            # pandas copies `attrs` deeply with every frame, so only plain values may be in it.
            if values.is_json(again):
                facts["arguments"] = again
        facts |= {
            "tool": self._spec.name,
            "rows": len(self._rows),
            "called": called,
            "resumed": self._resumed,
        }
        facts |= {"failed": self._failed, "not_kept": self._not_stored}
        if self._is_replay:
            facts["not_kept_because"] = "a replay is on"
        elif self._stored.fault is not None:
            facts["not_kept_because"] = self._box.mask(self._stored.fault.message)
        return facts

    def summary(self, name: str = "") -> str:
        """Say in one line how the run went, and how to see what failed in the table, which has this
        name."""
        called = self._finished - self._resumed
        lines = []
        if self._resumed and self._kept_from is not None:
            lines.append(
                f"{self._resumed:,} kept from {local_time(self._kept_from)}, {called:,} called"
            )
        ok = f"{self._finished - self._failed:,} ok"
        if not self._failed:
            return " · ".join([*lines, ok])
        errors = Counter(row.error for row in self._results if row is not None and not row.ok)
        error, count = errors.most_common(1)[0]
        often = "first " if count == 1 else f"{count:,} times, first "
        place = next(
            place
            for place, row in enumerate(self._results)
            if row is not None and row.error == error
        )
        row = ", ".join(
            f"{name}={values.safe_repr(cell, 40)}" for name, cell in self._rows[place].items()
        )
        often = (
            f"{'' if self._failed == 1 else often}for"
            f" {self._box.mask(values.cut(row, _MAX_ERROR))}: "
        )
        failed = f"{name}[~{name}.ok]" if name else "rows where .ok is False"
        return " · ".join(
            [
                *lines,
                f"{ok}, {self._failed:,} failed ({failed})",
                often + values.cut(_without_code(error), _MAX_ERROR),
            ]
        )

    def _resume(self) -> list[int]:
        """Take the stored results, and return the places of the rows without one."""
        places = [place for place, key in enumerate(self._keys) if self._stored.is_finished(key)]
        for place, row in zip(
            places, self._stored.values(self._keys[p] for p in places), strict=True
        ):
            if row is not None:
                self._results[place] = RowResult(True, row.value, "", row.ms, is_stored=True)
        self._finished = self._resumed = sum(row is not None for row in self._results)
        return [place for place, row in enumerate(self._results) if row is None]

    def _caller(self, stamp: str) -> Callable[[Item], RowResult]:
        if self._is_local:
            return _CallHere(current.require(), self._task, self._stored)
        spec = _pack_spec(self._spec) if self._spec.origin == "cell" else None
        return _CallElsewhere(self._task, self._box.reopen, self._stored.path, stamp, spec)

    def _add(self, place: int, outcome: Outcome) -> None:
        ok, value = outcome
        row: RowResult = (
            value
            if ok
            else RowResult(False, None, self._box.mask(str(value)), 0.0, is_stored=False)
        )
        if row.ok and not row.is_stored:
            key = self._keys[place]
            is_stored = (
                bool(key) and not self._is_local and self._stored.add(key, row.value, row.ms)
            )
            self._not_stored += not is_stored
        self._results[place] = row
        self._finished += 1
        self._failed += not row.ok
        self._report()

    def _report(self, *, is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now - self._reported_at >= _PROGRESS_EVERY_S:
            self._reported_at = now
            failed = f", {self._failed:,} failed" if self._failed else ""
            resumed = f", {self._resumed:,} from before" if self._resumed else ""
            progress(self._finished, len(self._rows), f"{self._spec.name}{resumed}{failed}")

    def _stop(self, exc: BaseException) -> NoReturn:
        self._stored.refresh()
        stored = sum(self._stored.is_finished(key) for key in self._keys)
        total = len(self._rows)
        raise type(exc)(
            f"{stored:,} of {total:,} rows are done and kept; run it again to go on."
        ) from None


def require_options(
    spec: ToolSpec, *, engine: object, workers: int, retries: int, per_minute: float | None
) -> None:
    """Raise UsageProblem for options that cannot be used, also if no row is left to call."""
    if spec.name == "ot.map":
        raise UsageProblem("'ot.map' cannot be mapped.")
    require_engine(engine)
    # NaN is not compared with a schema, since JSON has none.
    for name, number, least in (("workers", workers, 1), ("retries", retries, 0)):
        if not number >= least:
            raise UsageProblem(f"{name}={number} is not {least} or more.")
    if per_minute is not None and not per_minute > 0:
        raise UsageProblem(f"per_minute={per_minute} is not above 0.")


class _Items(Sequence[Item]):
    """The rows that are left to call, built when their turn comes."""

    def __init__(
        self, rows: TableRows, keys: Sequence[str], places: Sequence[int], pace: _Pace | None
    ) -> None:
        self._rows = rows
        self._keys = keys
        self._places = places
        self._pace = pace

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: Any) -> Any:
        if self._pace is not None:
            self._pace.wait()
        place = self._places[number]
        return self._keys[place], self._rows[place]


class _Pace:
    """A number of calls a minute, evenly spread over all threads, without bursts."""

    def __init__(self, per_minute: float) -> None:
        self._gap_s = 60.0 / per_minute
        self._next_free: SimpleQueue[float] = SimpleQueue()
        self._next_free.put(0.0)

    def wait(self) -> None:
        """Sleep until it is this caller's turn."""
        mine = max(self._next_free.get(), time.monotonic())
        self._next_free.put(mine + self._gap_s)
        time.sleep(max(0.0, mine - time.monotonic()))


# --- one row --------------------------------------------------------------------------------------


class _RowTask(NamedTuple):
    """What to do for each row."""

    tool: str
    retries: int
    timeout_s: float | None
    run: str
    asked_by: CallSource | None
    may_write: bool
    code: str


class _SameTool:
    """Whether a tool is the one of the beginning of the run. A switch of the environment, an edited
    file or a cell makes it another one."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._last: ToolSpec | None = None

    def __call__(self, spec: ToolSpec) -> bool:
        if spec is not self._last and code_hash(spec) != self._code:
            return False
        self._last = spec
        return True


class _CallHere:
    """Calls rows in this process, in the scope of the call of `ot.map`."""

    def __init__(self, box: Toolbox, task: _RowTask, stored: MapProgress) -> None:
        self._box = box
        self._task = task
        self._stored = stored
        self._is_same = _SameTool(task.code)
        outer = current.scope() or current.Scope(box)
        self._scope = current.Scope(  # of all rows; a row's progress is not the run's
            *(box, outer.call, outer.spec),
            depth=outer.depth,
            asked_by=outer.asked_by,
            ask=outer.ask,
            client=outer.client,
            may_write=outer.may_write,
        )

    def __call__(self, item: Item) -> RowResult:
        token = current.enter(self._scope)
        try:
            return _call_row(self._box, self._task, self._stored, self._is_same, item)
        finally:
            current.leave(token)


class _CallElsewhere:
    """Calls rows in another process; can be pickled. `spec` is a pickled tool of a cell, which no
    file contains."""

    def __init__(
        self,
        task: _RowTask,
        reopen: Callable[[], Toolbox],
        path: Path,
        stamp: str,
        spec: bytes | None,
    ) -> None:
        self._task = task
        self._reopen = reopen
        self._path = path
        self._stamp = stamp
        self._spec = spec

    def __call__(self, item: Item) -> RowResult:
        box: Toolbox = current.kept(("box", self._path, self._stamp, self._spec), self._open)
        stored: MapProgress = current.kept(
            ("progress", self._path),
            lambda: MapProgress(self._path, mask=box.mask, now=lambda: box.now().timestamp()),
        )
        is_same = current.kept(("same", self._path), lambda: _SameTool(self._task.code))
        is_shared = stored.has_stamp(self._stamp)
        token = current.enter(
            current.Scope(box, asked_by=self._task.asked_by, may_write=self._task.may_write)
        )
        try:
            if is_shared and item[0]:  # a row is run again if its worker died
                stored.refresh()
                if (row := next(stored.values([item[0]]))) is not None:
                    return RowResult(True, row.value, "", row.ms, is_stored=True)
            return _call_row(box, self._task, stored if is_shared else None, is_same, item)
        finally:
            current.leave(token)

    def _open(self) -> Toolbox:
        box = self._reopen()
        if self._spec is not None:
            box.registry.register(pickle.loads(self._spec))  # noqa: S301 - packed by the run that sent it
        return box


def _pack_spec(spec: ToolSpec) -> bytes:
    """Pickle a cell's tool by value. Raises UsageProblem if it cannot be sent."""
    try:
        import cloudpickle  # type: ignore[import-untyped]  # it ships no types
    except ImportError as exc:
        raise UsageProblem(
            f"'{spec.name}' is a tool of this notebook, which only cloudpickle can send to another"
            " process.",
            hint="Install it: pip install 'onetool-ipy[dask]', or save the tool: %%tool save PACK",
        ) from exc
    try:
        packed: bytes = cloudpickle.dumps(
            spec.replace(load=None, function=spec.function._replace(returned=None))
        )
    except Exception as exc:  # pickling runs foreign code
        raise UsageProblem(
            f"'{spec.name}' cannot be sent to another process: {exc}",
            hint="Save it to a pack file: %%tool save PACK",
        ) from exc
    return packed


def _call_row(
    box: Toolbox, task: _RowTask, stored: MapProgress | None, is_same: _SameTool, item: Item
) -> RowResult:
    key, args = item
    began = time.perf_counter()
    result = _call_with_retries(box, task, is_same, args)
    ms = round((time.perf_counter() - began) * 1000, 3)
    if result.error is not None:
        return RowResult(False, None, box.mask(str(result.error)), ms, is_stored=False)
    # A replay may have begun during the run; what it gave is not what the tool gave.
    is_own = bool(key) and "replayed" not in result.meta
    is_stored = is_own and stored is not None and stored.add(key, result.data, ms)
    return RowResult(True, result.data, "", ms, is_stored)


def _call_with_retries(box: Toolbox, task: _RowTask, is_same: _SameTool, args: Json) -> ToolResult:
    """Call until it succeeds, fails for good, or has used up its retries."""
    tries = waits = 0
    call_id = f"{task.run}-{box.new_id()}"
    while True:
        number = f".{tries + waits}" if tries + waits else ""
        resolved = box.resolve(
            task.tool, args, source="tool", timeout=task.timeout_s, call_id=call_id + number
        )
        if resolved.failure is None and not is_same(resolved.require()):
            message = f"'{task.tool}' has changed since this run began."
            resolved.failure = ExecutionFailed(message, hint="Run it again.")
        result = box.call(resolved)
        error = result.error
        if error is None or not is_transient(error.exception) or error.reason == "cancelled":
            return result
        delay = error.details.get("retryAfterS") if isinstance(error.details, dict) else None
        retry_after_s = (
            float(delay)
            if isinstance(delay, (int, float)) and not isinstance(delay, bool)
            else None
        )
        if error.reason == "rate_limited" and retry_after_s is not None and waits < _MAX_RATE_WAITS:
            waits += 1
            _sleep(retry_after_s)
            continue
        if tries >= task.retries:
            return result
        tries += 1
        backoff_s = min(_FIRST_RETRY_S * 2.0 ** (tries - 1), _LONGEST_RETRY_S) * (
            0.5 + random.random() / 2
        )
        _sleep(max(backoff_s, min(retry_after_s or 0.0, _LONGEST_RETRY_S)))


def _sleep(seconds: float) -> None:
    """Sleep in short steps, so that an abandoned row notices."""
    until = time.monotonic() + min(seconds, 3 * _LONGEST_RETRY_S)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))


# --- table -> arguments ---------------------------------------------------------------------------


class _Absent:
    """Stands for a key that a record does not have."""


_ABSENT = _Absent()


class TableRows(Sequence[dict[str, Any]]):
    """The arguments of each row, built on demand. `table_index` is None for a plain list."""

    def __init__(
        self,
        cells: Mapping[str, Sequence[object]],
        const: Mapping[str, object],
        required: frozenset[str],
        table: _Table,
    ) -> None:
        self.table_index = table.index
        self._cells = cells
        self._const = const
        self._required = required
        self._length = table.length

    @property
    def unindexed(self) -> dict[str, list[object]]:
        """The cells of each argument, if the data has no index of its own."""
        if self.table_index is not None:
            return {}
        return {
            name: [
                None
                if cell is _ABSENT
                else values.encodable(cell)
                if isinstance(cell, str)
                else cell
                for cell in cells
            ]
            for name, cells in self._cells.items()
        }

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
            if not is_missing(cell):
                args[name] = cell
            elif name in self._required:
                args[name] = None
        return args


class _Table(NamedTuple):
    """The data given: columns by label, or `single` if it is one list of values."""

    length: int
    index: Any
    labels: Sequence[Any]
    cells: Callable[[Any], Sequence[Any]]
    single: Sequence[Any] | None = None
    is_strict: bool = False


def read_rows(
    spec: ToolSpec,
    data: object,
    arguments: Mapping[str, object],
    *,
    columns: Mapping[str, object] | None = None,
    const: Mapping[str, object] | None = None,
) -> TableRows:
    """Match the data to the arguments of a tool. Raises UsageProblem if they do not match."""
    table = _read_table(data)
    named, fixed = dict(columns or {}), dict(const or {})
    for name, value in arguments.items():
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
        # Required arguments are taken from columns of their name; if none was named, so are all
        # others.
        is_alone = not named and not arguments
        if is_alone and table.is_strict:
            _require_known(spec, table.labels)
        for param in spec.params:
            if (
                param.name in table.labels
                and (is_alone or param.name in required)
                and param.name not in fixed
            ):
                named.setdefault(param.name, param.name)
        for label in named.values():
            count = sum(1 for other in table.labels if other == label)
            if count != 1:
                message = f"There are {count} columns" if count else "There is no column"
                raise UsageProblem(
                    f"{message} '{label}'.", hint=f"Columns: {_listed(table.labels)}"
                )
        cells = {name: table.cells(label) for name, label in named.items()}
    if missing := [
        p.name for p in spec.params if p.required and p.name not in cells and p.name not in fixed
    ]:
        raise UsageProblem(
            f"No column for the argument '{missing[0]}' of '{spec.name}'.",
            hint=f'Say which: {missing[0]}="COLUMN". Columns: {_listed(table.labels)}',
        )
    return TableRows(cells, fixed, required, table)


def _read_table(data: object) -> _Table:
    import pandas as pd

    tuples: Any = data if type(data) is list else None
    data = tables.tabular(data)
    if isinstance(data, pd.DataFrame) and tuples is not None:
        # The tuples may be the values of one argument, and their places may be named as columns.
        return _Table(
            len(tuples), None, list(data.columns), lambda label: data[label].tolist(), tuples
        )
    if isinstance(data, pd.DataFrame):
        return _Table(len(data), data.index, list(data.columns), lambda label: data[label].tolist())
    if isinstance(data, pd.Series):
        cells = data.tolist()
        labels = [] if data.name is None else [data.name]
        return _Table(len(cells), data.index, labels, lambda _label: cells, cells)
    if isinstance(data, (str, bytes)) or not isinstance(data, Iterable):
        excerpt = values.safe_repr(data, 60)
        raise UsageProblem(
            f"{excerpt} is not a table.",
            hint="Give a DataFrame, a Series, a list, or a dict of lists.",
        )
    if isinstance(data, Mapping):
        lists: dict[Any, list[Any]] = {}
        for label, cells in data.items():
            if isinstance(cells, (str, bytes, Mapping)) or not isinstance(cells, Iterable):
                raise UsageProblem(
                    f"'{label}' holds {values.safe_repr(cells, 40)}, which is not a list.",
                    hint="A dict of lists is a table; one value for all rows goes into const=.",
                )
            lists[label] = cells.tolist() if hasattr(cells, "tolist") else list(cells)
        lengths = {label: len(cells) for label, cells in lists.items()}
        if len(set(lengths.values())) > 1:
            listing = ", ".join(
                f"{label}: {length}" for label, length in list(lengths.items())[:_MAX_LISTED]
            )
            raise UsageProblem(f"The lists are not of one length ({listing}).")
        length = next(iter(lengths.values()), 0)
        return _Table(length, None, list(lists), lambda label: lists[label], is_strict=True)
    if getattr(data, "ndim", 1) != 1:
        raise UsageProblem(
            f"An array of {getattr(data, 'ndim', 0)} dimensions is not a list.",
            hint="Make it a DataFrame.",
        )
    items = data.tolist() if hasattr(data, "tolist") else list(data)
    is_record = [isinstance(item, Mapping) for item in items]
    if items and all(is_record):
        labels = list(dict.fromkeys(key for item in items for key in item))
        return _Table(
            len(items),
            None,
            labels,
            lambda label: [item.get(label, _ABSENT) for item in items],
            is_strict=True,
        )
    if any(is_record):
        raise UsageProblem(
            "Some items of the list are dicts and some are not.", hint="Give one kind."
        )
    return _Table(len(items), None, [], lambda _label: items, items)


def _is_column(name: str, value: object, table: _Table) -> bool:
    """Whether a value names a column. A text does; a constant that equals a column's label is
    ambiguous."""
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
    if getattr(value, "ndim", 0) == 1 and len(value) == table.length:  # type: ignore[arg-type]  # an array
        raise UsageProblem(
            f"'{name}' is given an array with a value for each row.",
            hint=f"Name its column: {name}='column'. The whole array in each row: "
            f"const={{{name!r}: ...}}",
        )
    try:
        is_label = type(value) is not bool and value in table.labels
    except (TypeError, ValueError):  # an array compares element by element
        return False
    if is_label and table.single is None:
        raise UsageProblem(
            f"{name}={value!r} may be a column or a value.",
            hint=f"Say columns={{{name!r}: {value!r}}} or const={{{name!r}: {value!r}}}.",
        )
    return False


def _require_known(spec: ToolSpec, names: Iterable[str]) -> None:
    if spec.parameters.get("additionalProperties", True) is not False:
        return
    params = [param.name for param in spec.params]
    for name in names:
        if name not in params:
            near = did_you_mean(str(name), [*params, *_OPTIONS])
            raise UsageProblem(
                f"'{spec.name}' has no argument '{name}'. {near}".rstrip(), hint=spec.signature
            )


def _only_argument(spec: ToolSpec, fixed: Mapping[str, object], required: frozenset[str]) -> str:
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
            f"A list is for one argument, and '{spec.name}' leaves open which of {', '.join(left)}"
            " it is.",
            hint="Give a table, or a dict of lists; constants go into const=.",
        )
    return left[0]


def _listed(labels: Sequence[object]) -> str:
    text = ", ".join(str(label) for label in labels[:_MAX_LISTED])
    return (text + (", ..." if len(labels) > _MAX_LISTED else "")) or "none"


# --- results -> DataFrame -------------------------------------------------------------------------


def to_frame(
    name: str, index: object, rows: Sequence[RowResult | None], *, expand: bool, about: Json
) -> pd.DataFrame:
    """Return the frame on the given index: the results, then ok, error, ms; `attrs["onetool"]` is
    `about`.

    If `expand` and every result is a dict, each key is a column, unless nearly all cells would be
    empty; else the one column has the tool's short name. Half a character, which pandas cannot
    store, is written out.
    """
    try:
        frame = _frame(name, rows, expand=expand)
    except UnicodeEncodeError:
        plain = [row and RowResult(*values.map_text(list(row), values.encodable)) for row in rows]
        frame = _frame(name, plain, expand=expand)
    if index is not None:
        frame.index = index
    frame.attrs["onetool"] = about
    return frame


def _without_code(error: str) -> str:
    return _OWN_ERROR.sub("", error, count=1) if _OWN_ERROR.match(error) else error


def _frame(name: str, rows: Sequence[RowResult | None], *, expand: bool) -> pd.DataFrame:
    import pandas as pd

    good = [row.value for row in rows if row is not None and row.ok]
    if expand and good and all(isinstance(value, dict) for value in good) and not is_sparse(good):
        keys = dict.fromkeys(key for value in good for key in value)
        labels = {key: f"{name}_{key}" if key in _OWN_COLUMNS else key for key in keys}
        cells = {
            labels[key]: [
                row.value.get(key) if row is not None and row.ok else None for row in rows
            ]
            for key in keys
        }
    else:
        label = "result" if name in _OWN_COLUMNS else name
        cells = {label: [row.value if row is not None and row.ok else None for row in rows]}
    table: dict[Any, Any] = {label: _frame_column(column) for label, column in cells.items()}
    table["ok"] = [row is not None and row.ok for row in rows]
    table["error"] = pd.array(
        [None if row is None or row.ok else _without_code(row.error) for row in rows],
        dtype="str",
    )
    table["ms"] = [0.0 if row is None else float(row.ms) for row in rows]
    frame = pd.DataFrame(table)
    frame["ok"], frame["ms"] = frame["ok"].astype(bool), frame["ms"].astype(float)
    frame.index = pd.RangeIndex(len(rows))
    return frame


def _frame_column(cells: list[object]) -> object:
    """Return cells as pandas stores them. Integers next to missing cells become Int64: floats would
    change them."""
    import numpy as np
    import pandas as pd

    kinds = frozenset(type(cell) for cell in cells if cell is not None)
    nullable = (
        {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(kinds)
        if any(cell is None for cell in cells)
        else None
    )
    dtype = nullable or ("int64" if kinds == {int} else None)
    if dtype is not None:
        try:
            return pd.array(cells, dtype=dtype)
        except (OverflowError, TypeError, ValueError):
            kinds = frozenset()
    objects = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        objects[place] = cell
    return pd.Series(objects).infer_objects() if kinds else objects
