"""What is different between two values: tables by key, JSON by path, text by line. Pure; pandas is imported late.

Rows of tables are matched by the key; without one that is obvious, by their place. Two missing cells (None, NaN, NaT,
NA) are equal, and so are two numbers whose relative difference is at most 1e-9. Lists of records inside JSON are
matched by a key, too.
"""

from __future__ import annotations

import difflib
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base import tables, values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.tables import is_frame, is_missing
from onetool_ipy.core.result import to_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

TOLERANCE = 1e-9
_KEYS = ("id", "key", "uuid", "guid", "sku", "slug", "code", "name", "path", "url", "email", "date", "time")
_ENDINGS = ("_id", "_key", "_code", "id", "_name")
_MAX_TEXT = 200 * 10**6
_MAX_TEXT_LINES = 20_000
"""Texts of more lines are compared as sets of lines; aligning them takes time that grows with the square."""
_ABSENT = object()
"""Stands for what one side does not have."""


class ChangedCell(str):
    """A cell that changed, as text: `old → new`. A viewer shows the two sides apart."""

    __slots__ = ("new", "old")

    old: str
    new: str

    @classmethod
    def of(cls, old: object, new: object) -> ChangedCell:
        """Make the cell of its old and its new value."""
        sides = [
            "" if is_missing(value) else str(value) if isinstance(value, (str, int, float)) else values.to_text(value)
            for value in (old, new)
        ]
        cell = cls(" → ".join(side or "nothing" for side in sides))
        cell.old, cell.new = sides
        return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is different. `added` and `removed` have whole rows, `changed` has the old and new value of each cell.

    `columns` lists columns that were added, removed or have another type. `key` are the columns that rows were matched
    by; rows of tables without one were matched by their place, and `shared` are the columns of both. `rows` has only
    the rows that differ, and first how: of a changed one the new cells, and old and new where they differ.
    """

    kind: Literal["table", "data", "text"]
    added: pd.DataFrame
    removed: pd.DataFrame
    changed: pd.DataFrame
    columns: pd.DataFrame
    rows: pd.DataFrame
    key: tuple[Any, ...] = ()
    shared: tuple[Any, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(map(len, (self.added, self.removed, self.changed, self.columns)))


def compare(before: Any, after: Any, key: Any = None, *, tolerance: float = TOLERANCE) -> Changes:
    """Compare two values. Raises UsageProblem for a key that is missing or not unique, and for what is too large."""
    for side in (before, after):
        if isinstance(side, str) and len(side) > _MAX_TEXT:
            message = (
                f"A text of {len(side) / 1e6:,.0f} MB is too large to compare; the limit is {_MAX_TEXT / 1e6:,.0f} MB."
            )
            raise UsageProblem(message, hint="Compare parts of it, or read it as a table: pd.read_csv(...).")
    try:
        return _compare(before, after, key, tolerance)
    except MemoryError:
        hint = "Compare fewer columns or rows: ot.diff(a[names], b[names])."
        raise UsageProblem(
            "The two values are too large to be compared in the memory that is left.", hint=hint
        ) from None


def _compare(before: Any, after: Any, key: Any, tolerance: float) -> Changes:
    before, after = _plain(before), _plain(after)
    if isinstance(before, str) and isinstance(after, str):
        return _compare_text(before, after)
    tables = _tables(before, after)
    if tables is not None:
        return _compare_tables(*tables, key, tolerance)
    return _compare_data(before, after, key, tolerance)


def _plain(value: Any) -> Any:
    """Return a table as it is, text that is JSON as its data, and anything else as plain JSON."""
    value = tables.tabular(value)
    if is_frame(value):
        return value
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return values.to_json(value)


def _tables(before: Any, after: Any) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return two values as tables if both are tables or records, and nothing but their rows can differ."""
    if is_frame(before) or is_frame(after):
        sides = (before, after)
        fits = all(is_frame(side) or isinstance(side, (list, dict)) for side in sides)
        return (to_frame(before), to_frame(after)) if fits else None
    if _is_records(before) and _is_records(after):
        return to_frame(before), to_frame(after)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return None
    # One list of records in an object is a table if all else in the object is equal.
    lists = [name for name, value in before.items() if _is_records(value) and _is_records(after.get(name))]
    if len(lists) != 1 or _without(before, lists[0]) != _without(after, lists[0]):
        return None
    return to_frame(before[lists[0]]), to_frame(after[lists[0]])


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


# --- tables ---------------------------------------------------------------------------------------


def _compare_tables(before: pd.DataFrame, after: pd.DataFrame, key: Any, tolerance: float) -> Changes:
    import numpy as np
    import pandas as pd

    for side in (before, after):
        if not side.columns.is_unique:
            name = side.columns[side.columns.duplicated()][0]
            raise UsageProblem(f"Two columns are named '{name}'.", hint="Rename one of them first.")
    shared = tuple(name for name in after.columns if name in before.columns)
    # A whole number beside a missing one became a fraction, and would be said as one: 3.0.
    whole = [name for name in shared if "f" in {side[name].dtype.kind for side in (before, after)}]
    whole = [name for name in whole if _kind(before[name]) == _kind(after[name]) == "whole number"]
    before, after = (side.astype(dict.fromkeys(whole, "Int64")) if whole else side for side in (before, after))
    names, old_keys, new_keys = _matching(before, after, key)
    places = old_keys.get_indexer(new_keys)
    is_old = places >= 0
    kept, kept_places = np.flatnonzero(is_old), places[is_old]
    is_gone = np.ones(len(before), dtype=bool)
    is_gone[kept_places] = False
    changes, has_change = [], np.zeros(len(kept), dtype=bool)
    cells_by_column: dict[Any, tuple[Any, Any, Any]] = {}
    for name in (each for each in shared if each not in names):
        old, new = before[name].array.take(kept_places), after[name].array
        new = new if is_old.all() else new.take(kept)
        where = _changed_places(old, new, tolerance)
        if len(where):
            has_change[where] = True
            # Cells of many columns go into one, so they are objects.
            cells = {side: pd.array(part.take(where)).astype(object) for side, part in (("old", old), ("new", new))}
            cells_by_column[name] = (where, cells["old"], cells["new"])
            rows = {each: after[each].array.take(kept[where]) for each in names} or {"row": new_keys.take(kept[where])}
            changes.append(pd.DataFrame({**rows, "column": name, **cells}))
    head = [*(names or ["row"]), "column", "old", "new"]
    changed = pd.concat(changes, ignore_index=True) if changes else pd.DataFrame(columns=head)
    added, removed = after[~is_old], before[is_gone]
    return Changes(
        kind="table",
        added=added,
        removed=removed,
        changed=changed,
        columns=_column_changes(before, after),
        rows=_changed_rows(added, removed, after.take(kept[has_change]), np.flatnonzero(has_change), cells_by_column),
        key=tuple(names),
        shared=shared,
    )


def _matching(before: pd.DataFrame, after: pd.DataFrame, key: Any) -> tuple[list[Any], pd.Index, pd.Index]:
    """Return the columns that rows are matched by, and the key of each row; no column means by place, or by the index.

    Raises UsageProblem for a key that is missing or not unique.
    """
    sides = (before, after)
    if key is None:
        shared = [name for name in before.columns if name in after.columns]
        likely = [name for word in _KEYS for name in shared if str(name).lower() == word]
        likely += [name for ending in _ENDINGS for name in shared if str(name).lower().endswith(ending)]
        names = [next((name for name in dict.fromkeys(likely) if _is_key(before[name], after[name])), None)]
        names = [name for name in names if name is not None]
        return names, *(_keys_of(side, names) for side in sides)
    names = [key] if isinstance(key, str) or not isinstance(key, Sequence) else list(key)
    for name in names:
        if not isinstance(name, Hashable):
            raise UsageProblem("The key is no name of a column.", hint="Write key='id' or key=['id', 'date'].")
        if any(name not in side.columns for side in sides):
            listed = ", ".join(str(each) for each in before.columns if each in after.columns)
            raise UsageProblem(
                f"Both tables need a column '{name}'.", hint=f"Columns in both: {values.cut(listed, 200)}"
            )
    keys = [_keys_of(side, names) for side in sides]
    for label, side, index in zip(("first", "second"), sides, keys, strict=True):
        if not index.is_unique:
            row = side.loc[index.duplicated(), names].iloc[0].tolist()
            cell = ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True))
            hint = "Name more columns, such as key=['id', 'date']."
            raise UsageProblem(f"The key is not unique: {cell} is in more than one row of the {label}.", hint=hint)
    return names, *keys


def _is_key(old: pd.Series, new: pd.Series) -> bool:
    """Whether a column identifies the rows of both tables."""
    try:
        return all(side.is_unique and not side.hasnans and side.dtype.kind != "f" for side in (old, new))
    except TypeError:  # lists and dicts are not hashable
        return False


def _keys_of(side: pd.DataFrame, names: Sequence[Any]) -> pd.Index:
    import pandas as pd

    if len(names) == 1:
        return pd.Index(side[names[0]])
    if names:
        return pd.MultiIndex.from_frame(side[list(names)])
    is_labelled = not isinstance(side.index, pd.RangeIndex) and side.index.is_unique
    return side.index if is_labelled else pd.RangeIndex(len(side))


def _changed_places(old: Any, new: Any, tolerance: float) -> Any:
    """Return the places at which two arrays of pandas differ.

    Most cells are equal, so the whole columns are compared as they are, and only what is left is looked at closely.
    """
    import numpy as np
    import pandas as pd

    kinds = {side.dtype.kind for side in (old, new)}
    if kinds <= {*"iufb"}:
        # Numbers with missing cells are compared as floats.
        a, b = (
            side.to_numpy(dtype="f8", na_value=np.nan) if side.isna().any() else side.to_numpy() for side in (old, new)
        )
        places = np.flatnonzero(a != b)
        if kinds <= {*"iu"} and a.dtype.kind != "f":
            return places
        a, b = a[places].astype("f8"), b[places].astype("f8")
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(a - b)
            is_near = np.isfinite(gap) & (gap <= tolerance * np.maximum(np.abs(a), np.abs(b)))
        return places[~(is_near | (np.isnan(a) & np.isnan(b)))]
    if old.dtype == new.dtype and old.dtype.name != "object":
        # A comparison with a missing cell may be missing itself; those are looked at, too.
        places = np.flatnonzero(np.asarray(pd.array(old != new).fillna(True), dtype=bool))
        return places[~(old.take(places).isna() & new.take(places).isna())]
    pairs = zip(old.astype(object), new.astype(object), strict=True)
    return np.flatnonzero(np.fromiter((not _same(a, b, tolerance) for a, b in pairs), bool, len(old)))


def _same(old: Any, new: Any, tolerance: float) -> bool:
    """Whether two plain values are equal: whole numbers exactly, others within the tolerance."""
    if old is new or (is_missing(old) and is_missing(new)):
        return True
    if isinstance(old, bool) or isinstance(new, bool):
        return isinstance(old, bool) and isinstance(new, bool) and old == new
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if old == new or (isinstance(old, int) and isinstance(new, int)):
            return bool(old == new)
        try:
            return math.isclose(old, new, rel_tol=tolerance)
        except OverflowError:  # a whole number that no float can hold
            return False
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(_same(a, b, tolerance) for a, b in zip(old, new, strict=True))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name], tolerance) for name in old)
    try:
        return bool(old == new)
    except (TypeError, ValueError):  # arrays, or values that cannot be compared
        return bool(values.to_json(old) == values.to_json(new))


def _column_changes(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    rows = [(name, "removed", _kind(before[name]), "") for name in before.columns if name not in after.columns]
    for name in after.columns:
        kind = _kind(after[name])
        if name not in before.columns:
            rows.append((name, "added", "", kind))
        elif (old := _kind(before[name])) != kind and "empty" not in (old, kind):
            rows.append((name, "retyped", old, kind))
    return pd.DataFrame(rows, columns=["column", "change", "old", "new"])


def _kind(column: pd.Series) -> str:
    import pandas as pd

    kind = pd.api.types.infer_dtype(column, skipna=True)
    words = {"string": "text", "integer": "whole number", "floating": "number", "mixed-integer-float": "number"}
    if kind == "floating" and column.hasnans and (cells := column.dropna()).size and (cells % 1 == 0).all():
        return "whole number"
    return str(words.get(kind, kind))


def _changed_rows(
    added: pd.DataFrame, removed: pd.DataFrame, changed: pd.DataFrame, places: Any, cells_by_column: Mapping[Any, Any]
) -> pd.DataFrame:
    """Return one table with only the rows that differ, and first how; a changed cell is a ChangedCell."""
    import numpy as np
    import pandas as pd

    cells = changed.astype(dict.fromkeys(cells_by_column, object))
    for name, (where, old, new) in cells_by_column.items():
        column = cells[name].to_numpy(copy=True)
        column[np.searchsorted(places, where)] = [ChangedCell.of(a, b) for a, b in zip(old, new, strict=True)]
        # Without the type pandas would make plain text of the cells.
        cells[name] = pd.Series(column, index=cells.index, dtype=object)
    parts = {word: part for word, part in (("added", added), ("removed", removed), ("changed", cells)) if len(part)}
    if not parts:
        return pd.DataFrame(columns=["change", *added.columns])
    columns = dict.fromkeys(name for part in parts.values() for name in part.columns)
    # A column that is not of one type in all parts is one of objects, so that no whole number becomes a fraction.
    mixed = [
        name
        for name in columns
        if len({part[name].dtype if name in part.columns else None for part in parts.values()}) > 1
    ]
    rows = pd.concat(part.astype({name: object for name in mixed if name in part.columns}) for part in parts.values())
    head = "change"
    while head in columns:
        head = f"_{head}"
    rows.insert(0, head, np.repeat([*parts], [*map(len, parts.values())]))
    return rows


# --- data and text --------------------------------------------------------------------------------


def _compare_data(before: Any, after: Any, key: Any, tolerance: float) -> Changes:
    import pandas as pd

    differences = list(_walk(before, after, "", None if key is None else str(key), tolerance))
    added = [(path, new) for word, path, _, new in differences if word == "added"]
    removed = [(path, old) for word, path, old, _ in differences if word == "removed"]
    changed = [(path, old, new) for word, path, old, new in differences if word == "changed"]
    return Changes(
        kind="data",
        added=pd.DataFrame(added, columns=["path", "value"], dtype=object),
        removed=pd.DataFrame(removed, columns=["path", "value"], dtype=object),
        changed=pd.DataFrame(changed, columns=["path", "old", "new"], dtype=object),
        columns=pd.DataFrame(columns=["column", "change", "old", "new"]),
        rows=pd.DataFrame(differences, columns=["change", "path", "old", "new"], dtype=object),
        key=() if key is None else (key,),
    )


def _walk(old: Any, new: Any, path: str, key: str | None, tolerance: float) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield what differs: the word for it, its path, and the old and the new value."""
    waiting = [(path, old, new)]
    while waiting:
        path, old, new = waiting.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            steps = {f"{path}.{name}".lstrip("."): name for name in dict.fromkeys([*old, *new])}
            sides = [(step, old.get(name, _ABSENT), new.get(name, _ABSENT)) for step, name in steps.items()]
        elif isinstance(old, list) and isinstance(new, list):
            sides = list(_items(old, new, path, key))
        else:
            if not _same(old, new, tolerance):
                yield "changed", path or "(the value itself)", old, new
            continue
        for step, a, b in reversed(sides):
            if a is not _ABSENT and b is not _ABSENT:
                waiting.append((step, a, b))
        for step, a, b in sides:
            if a is _ABSENT:
                yield "added", step, None, b
            elif b is _ABSENT:
                yield "removed", step, a, None


def _items(old: list[Any], new: list[Any], path: str, key: str | None) -> Iterator[tuple[str, Any, Any]]:
    """Pair the items of two lists: records by a key that both have, anything else by its place."""
    if _is_records(old) and _is_records(new):
        for name in dict.fromkeys([key, *_KEYS] if key else _KEYS):
            sides = [
                {json.dumps(row.get(name)): row for row in side if row.get(name) is not None} for side in (old, new)
            ]
            if all(len(rows) == len(side) for rows, side in zip(sides, (old, new), strict=True)):
                for value in dict.fromkeys([*sides[0], *sides[1]]):
                    step = f"{path}[{name}={value}]"
                    yield step, sides[0].get(value, _ABSENT), sides[1].get(value, _ABSENT)
                return
    for place in range(max(len(old), len(new))):
        a, b = (side[place] if place < len(side) else _ABSENT for side in (old, new))
        yield f"{path}[{place}]", a, b


def _compare_text(before: str, after: str) -> Changes:
    import pandas as pd

    old, new = before.splitlines(), after.splitlines()
    rows: list[tuple[str, int, str]] = []
    if max(len(old), len(new)) > _MAX_TEXT_LINES:
        for word, ours, theirs in (("removed", old, new), ("added", new, old)):
            left = Counter(theirs)
            for number, line in enumerate(ours, start=1):
                if left[line] > 0:
                    left[line] -= 1
                else:
                    rows.append((word, number, line))
    else:
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                rows += [("removed", number + 1, old[number]) for number in range(a, b)]
                rows += [("added", number + 1, new[number]) for number in range(c, d)]
    table = pd.DataFrame(rows, columns=["change", "line", "text"])
    return Changes(
        kind="text",
        added=table[table.change == "added"].drop(columns="change"),
        removed=table[table.change == "removed"].drop(columns="change"),
        changed=pd.DataFrame(columns=["line", "old", "new"]),
        columns=pd.DataFrame(columns=["column", "change", "old", "new"]),
        rows=table,
    )
