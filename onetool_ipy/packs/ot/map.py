"""The results of many rows as a DataFrame on the index they came from: the results, then ok, error, ms. Pure.

Where every result is a dict and `expand` holds, each key is a column; else there is one column with the tool's short
name. Numbers stay whole where rows failed (Int64, boolean), since a float would change large ones.

`ot.map`: a tool for each row of a table, many at once; a run that was stopped goes on where it was.

What is done is on disk before it counts (`stores.done_rows`), how a row is called is `sdk.row_calls`, where rows run
is `sdk.engines`. Here is the run as a whole: which rows are still to do, progress, Stop, and the frame at the end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidArgs, NotAllowed, UsageProblem
from onetool_ipy.core import current
from onetool_ipy.core.decorate import mark
from onetool_ipy.core.tool import ToolSpec

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.sdk.rows import Row, Rows, Task
    from onetool_ipy.stores.map_progress import DoneRows
    from onetool_ipy.toolbox import Toolbox

__all__ = ["Mapping", "to_frame"]

_OURS = ("ok", "error", "ms")


def to_frame(name: str, index: Any, rows: Sequence[Row | None], *, expand: bool, about: dict[str, Any]) -> pd.DataFrame:
    """The frame; `attrs["onetool"]` says how it was made."""
    import pandas as pd

    own = pd.RangeIndex(len(rows)) if index is None else index
    good = [row.value for row in rows if row is not None and row.ok]
    if expand and good and all(isinstance(value, dict) for value in good):
        keys = dict.fromkeys(key for value in good for key in value)
        labels = {key: f"{name}_{key}" if key in _OURS else key for key in keys}
        cells = {labels[key]: [_cell(row, key) for row in rows] for key in keys}
    else:
        label = "result" if name in _OURS else name
        cells = {label: [row.value if row is not None and row.ok else None for row in rows]}
    table: dict[Any, Any] = {label: _column(column) for label, column in cells.items()}
    table["ok"] = [row is not None and row.ok for row in rows]
    table["error"] = pd.array([None if row is None or row.ok else row.error for row in rows], dtype="str")
    table["ms"] = [0.0 if row is None else float(row.ms) for row in rows]
    frame = pd.DataFrame(table)
    frame["ok"], frame["ms"] = frame["ok"].astype(bool), frame["ms"].astype(float)
    frame.index = own
    frame.attrs["onetool"] = about
    return frame


def _cell(row: Row | None, key: Any) -> Any:
    return row.value.get(key) if row is not None and row.ok else None


def _column(cells: list[Any]) -> Any:
    """Cells as pandas would have them, but never changed: whole numbers stay whole beside missing ones."""
    import pandas as pd

    kinds = {type(cell) for cell in cells if cell is not None}
    if None in cells if kinds <= {int, bool} else False:
        nullable = {frozenset({int}): "Int64", frozenset({bool}): "boolean"}.get(frozenset(kinds))
        if nullable is not None:
            try:
                return pd.array(cells, dtype=nullable)
            except (OverflowError, TypeError, ValueError):
                return _objects(cells)
    if kinds == {int}:
        try:
            return pd.array(cells, dtype="int64")
        except OverflowError:
            return _objects(cells)
    return pd.Series(_objects(cells)).infer_objects() if kinds else _objects(cells)


def _objects(cells: list[Any]) -> Any:
    import numpy as np

    made = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        made[place] = cell
    return made


_GRACE_S = 0.7
"""How long rows under way may take to end when Stop is pressed, so that they need not be called again."""

_TELL_S = 0.1


class Mapping:
    """The function about many rows, over one box."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box

    @mark()
    def map(
        self,
        tool: str,
        data: Any,
        workers: int = 8,
        engine: Any = "threads",
        retries: int = 2,
        per_minute: float | None = None,
        timeout: float | None = None,
        fresh: bool = False,
        expand: bool = True,
        columns: dict[str, Any] | None = None,
        const: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a tool for each row of a table, many at once.

        Each argument of the tool names the column it is taken from; a value that is no text is the same for all rows.
        A required argument that is not named is taken from the column of its own name. Rows that are done are kept for
        seven days: a run that was stopped or killed goes on where it was when it is run again, calling only
        what has not gone well. A tool whose schema or code has changed is called anew.

        Args:
            tool: Its name.
            data: A DataFrame, a Series or list (for the one open argument), a dict of lists, or a list of dicts.
            workers: How many rows are under way at a time.
            engine: "threads", "dask", a distributed.Client, or any concurrent.futures.Executor.
            retries: How often a row that failed by a time-out, a broken connection, 429 or 5xx is tried again.
            per_minute: At most so many calls a minute.
            timeout: Seconds that one call may take.
            fresh: Call every row anew, also those that are done.
            expand: Where each result is a dict, make a column of each key.
            columns: {argument: column}, where the argument has a name that is taken here.
            const: {argument: value} for values that are the same in all rows, texts too.
            arguments: The tool's arguments, as argument="column".

        Returns:
            A DataFrame on the same index: the results, and the columns ok, error, ms.

        Example:
            ot.map("tools.echo", ["a", "b"])
        """
        from onetool_ipy.sdk.rows import Task, read_rows

        _require_person(tool)
        spec = self._box.registry.load(tool)
        try:
            if spec.name == "ot.map":
                raise UsageProblem("'ot.map' cannot be mapped.")
            _require_numbers(workers, retries, per_minute)
            _require_engine(engine)
            rows = read_rows(spec, data, arguments, columns=columns, const=const)
            run = _Run(self._box, spec, rows, Task(spec.name, retries, timeout), workers, engine, per_minute, fresh)
            found = run.run()
        except UsageProblem as exc:
            raise InvalidArgs(exc.message, hint=exc.hint) from exc
        return to_frame(spec.short_name, rows.labels, found, expand=expand, about=run.about())


class _Run:
    """One run over all rows."""

    def __init__(
        self,
        box: Toolbox,
        spec: ToolSpec,
        rows: Rows,
        task: Task,
        workers: int,
        engine: Any,
        per_minute: float | None,
        fresh: bool,
    ) -> None:
        from onetool_ipy.core.fingerprint import code_hash
        from onetool_ipy.sdk.rows import Pace
        from onetool_ipy.stores.map_progress import DoneRows, keys_of, place_of

        self._box = box
        self._spec = spec
        self._rows = rows
        self._workers = workers
        self._engine = engine
        self._pace = None if per_minute is None else Pace(per_minute)
        self._task = task if per_minute is None or _is_here(engine) else task._replace(retries=0)
        self._keys = keys_of(rows)
        self._found: list[Row | None] = [None] * len(rows)
        path = place_of(box.config.paths.state / "maps", f"{_plain(spec.name)}-{code_hash(spec)}")
        self._done: DoneRows = DoneRows(path, mask=box.mask, now=lambda: box.now().timestamp())
        self._fresh = fresh
        self._count = self._failed = self._unkept = self._resumed = 0
        self._told = 0.0

    def run(self) -> list[Row | None]:
        """Call what is still to be called; what there is for each row."""
        stamp = self._done.begin()
        self._done.refresh()
        if self._fresh:
            self._done.drop(self._keys)
        todo = self._resume()
        if not todo:
            return self._found
        outcomes = self._outcomes(_Todo(self._rows, self._keys, todo, self._pace), stamp)
        try:
            for place, outcome in outcomes:
                self._take(todo[place], outcome)
        except KeyboardInterrupt as exc:
            self._stop(exc)
        finally:
            outcomes.close()
        self._tell(is_last=True)
        return self._found

    def about(self) -> dict[str, Any]:
        """What the frame says of how it was made."""
        called = self._count - self._resumed
        said = {"tool": self._spec.name, "rows": len(self._rows), "called": called, "resumed": self._resumed}
        said |= {"failed": self._failed, "not_kept": self._unkept}
        if self._done.fault is not None:
            said["not_kept_because"] = self._box.mask(self._done.fault.message)
        return said

    def _resume(self) -> list[int]:
        """Take the rows that are done; the numbers of the others."""
        from onetool_ipy.sdk.rows import Row

        known = [place for place, key in enumerate(self._keys) if self._done.find(key)]
        for place, done in zip(known, self._done.values(self._keys[p] for p in known), strict=True):
            if done is not None:
                self._found[place] = Row(True, done.value, "", done.ms, is_noted=True)
        self._count = self._resumed = sum(row is not None for row in self._found)
        return [place for place, row in enumerate(self._found) if row is None]

    def _outcomes(self, items: _Todo, stamp: str) -> Any:
        from onetool_ipy.sdk.batch import in_dask, in_executor, in_threads, is_executor
        from onetool_ipy.sdk.rows import Elsewhere, Here, packed_spec

        engine, width = self._engine, self._workers
        if _is_here(engine):
            here = Here(current.require(), self._task, self._done, None)
            if engine == "threads":
                return in_threads(items, here, width, grace_s=_GRACE_S)
            return in_executor(items, here, width, engine, grace_s=_GRACE_S)
        spec = packed_spec(self._spec) if self._spec.origin == "cell" else None
        away = Elsewhere(self._task, self._box.reopen, self._done.path, stamp, spec)
        if is_executor(engine):
            return in_executor(items, away, width, engine, grace_s=_GRACE_S)
        return in_dask(items, away, width, None if engine == "dask" else engine, grace_s=_GRACE_S)

    def _take(self, place: int, outcome: tuple[bool, Any]) -> None:
        from onetool_ipy.sdk.rows import Row

        ok, found = outcome
        row: Row = found if ok else Row(False, None, self._box.mask(str(found)), 0.0, is_noted=False)
        if row.ok and not row.is_noted:
            key = self._keys[place]
            is_noted = bool(key) and not _is_here(self._engine) and self._done.add(key, row.value, row.ms)
            self._unkept += not is_noted
        self._found[place] = row
        self._count += 1
        self._failed += not row.ok
        self._tell()

    def _tell(self, *, is_last: bool = False) -> None:
        from onetool_ipy.sdk.tools import progress

        now = time.monotonic()
        if is_last or now - self._told >= _TELL_S:
            self._told = now
            failed = f", {self._failed:,} failed" if self._failed else ""
            resumed = f", {self._resumed:,} from before" if self._resumed else ""
            progress(self._count, len(self._rows), f"{self._spec.name}{resumed}{failed}")

    def _stop(self, exc: BaseException) -> NoReturn:
        self._done.refresh()
        kept = sum(self._done.find(key) for key in self._keys)
        total = len(self._rows)
        raise type(exc)(f"{kept:,} of {total:,} rows are done and kept; run it again to go on.") from None


class _Todo(Sequence[tuple[str, dict[str, Any]]]):
    """The rows still to do, made when their turn comes."""

    def __init__(self, rows: Rows, keys: Sequence[str], places: Sequence[int], pace: Any) -> None:
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


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:60]


def _is_here(engine: Any) -> bool:
    from onetool_ipy.sdk.batch import is_thread_pool

    return engine == "threads" or is_thread_pool(engine)


def _require_person(tool: str) -> None:
    """A model's allow-list names tools; what calls any tool by its name would go around it."""
    if current.is_from_outside():
        raise NotAllowed(f"'ot.map' is for people and programs; call '{tool}' itself.")


def _require_engine(engine: Any) -> None:
    """Refuse what is no engine before anything is looked up: a run that is all done would never ask it."""
    from onetool_ipy.sdk.batch import is_dask, is_executor

    if engine == "dask" or _is_here(engine) or is_executor(engine) or is_dask(engine):
        return
    shown = values.safe_repr(engine, 80)
    raise UsageProblem(f"No engine {shown}.", hint='Valid: "threads", "dask", a distributed.Client, an Executor.')


def _require_numbers(workers: int, retries: int, per_minute: float | None) -> None:
    if workers < 1:
        raise UsageProblem(f"workers={workers} is not 1 or more.")
    if retries < 0:
        raise UsageProblem(f"retries={retries} is not 0 or more.")
    if per_minute is not None and not per_minute > 0:
        raise UsageProblem(f"per_minute={per_minute} is not above 0.")
