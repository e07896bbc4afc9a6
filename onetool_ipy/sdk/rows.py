"""The rows that a tool is called for: a table, a list or a Series -> arguments, row by row. Pure.

A text names a column, anything else is a constant; `columns=` and `const=` say it outright. All that is wrong with the
names is said before anything runs. A missing cell (None, NaN, NaT, NA) is not passed to an optional argument, and is
None for a required one. Rows are made when they are asked for, so that a million of them cost no more than their cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from onetool_ipy.core import match, values
from onetool_ipy.core.errors import UsageProblem
from onetool_ipy.core.model import ToolSpec

__all__ = ["Rows", "read_rows"]

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
        near = match.did_you_mean(value, [str(label) for label in table.labels])
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
            near = match.did_you_mean(str(name), known)
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
