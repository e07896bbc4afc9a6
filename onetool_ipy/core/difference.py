"""What is different between two values: tables by key, JSON by path, text by line. Pure; pandas is
imported late.

Two values are equal if they are written the same, with these rules:

- Whole numbers are compared exactly, also those that pandas holds as floats beside a missing cell
  (up to 2**53). Other numbers are equal if their relative difference is at most 1e-9. So 1 and 1.0
  are equal. A boolean is no number.
- None, NaN, NaT and NA are all the same: missing. A cell that a record of a table does not have is
  a missing one; a column that no record has is a difference, and so is a key that an object does
  not have. An infinite number is not missing.
- Rows of tables, and records in lists, are matched by a key, so that their order does not count;
  without one that is obvious, by their place. Rows of a frame without a key are matched by the
  labels of its index.
- Text that is JSON is compared as its data. Values that are not JSON are compared as the JSON they
  are shown and stored as: there the keys 1 and "1" of an object are the same.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from onetool_ipy.base import tables, values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.tables import is_frame, is_missing, is_sparse
from onetool_ipy.base.values import Json
from onetool_ipy.core.result import to_frame

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

_TOLERANCE = 1e-9
_KEYS = (
    "id",
    "key",
    "uuid",
    "guid",
    "sku",
    "slug",
    "code",
    "name",
    "path",
    "url",
    "email",
    "date",
    "time",
)
_ENDINGS = ("_id", "_key", "_code", "id", "_name")
_MAX_TEXT = 200 * 10**6
_MAX_TEXT_LINES = 20_000
"""Texts of more lines are compared as sets of lines; aligning them takes time that grows with the
square."""
_MAX_LEVELS = 100
_MAX_WHOLE = 2**53
"""Beyond this a float is no longer one whole number, but some of them."""
_SCALARS = frozenset((type(None), bool, int, float, str))
_NAME = re.compile(r"[\w-]+")
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
        sides = texts_of(old, new)
        cell = cls(" → ".join(side or "nothing" for side in sides))
        cell.old, cell.new = sides
        return cell


def texts_of(old: object, new: object) -> tuple[str, str]:
    """Return two different values as two different texts; one that is missing as "".

    Text is in quotes where the other value is no text, and where one of them would look like
    nothing, or both the same.
    """
    texts = [_text(value) for value in (old, new)]
    kinds = {isinstance(value, str) for value in (old, new) if not is_missing(value)}
    is_odd = any(
        isinstance(side, str) and (not side.strip() or side != side.strip()) for side in (old, new)
    )
    if len(kinds) > 1 or is_odd:
        sides = zip((old, new), texts, strict=True)
        texts = [
            json.dumps(side, ensure_ascii=False) if isinstance(side, str) else text
            for side, text in sides
        ]
    return texts[0], texts[1]


def _text(value: object) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, (str, bool, float)):
        return str(value)
    # A number of thousands of digits is shortened, too.
    plain = values.to_json(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is different. `added` and `removed` have whole rows, `changed` has the old and new value
    of each cell.

    `columns` lists columns that were added, removed or have another type. `key` are the columns
    that rows were matched by; rows of tables without one were matched by their place, and `shared`
    are the columns of both. `rows` has only the rows that differ, and first how: of a changed one
    the new cells, and old and new where they differ. The last three columns of `changed` are the
    column, the old and the new value; where the key has such a name, theirs begins with `_`.
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


def compare(before: Any, after: Any, key: Any = None) -> Changes:
    """Compare two values. Raises UsageProblem for a key that is missing or not unique, and for what
    is too large."""
    for side in (before, after):
        if isinstance(side, str) and len(side) > _MAX_TEXT:
            message = (
                f"A text of {len(side) / 1e6:,.0f} MB is too large to compare; the limit is"
                f" {_MAX_TEXT / 1e6:,.0f} MB."
            )
            raise UsageProblem(
                message, hint="Compare parts of it, or read it as a table: pd.read_csv(...)."
            )
    try:
        return _compare(before, after, key)
    except RecursionError:
        raise UsageProblem(
            "A value is nested too deep to be compared, or holds itself.",
            hint="Compare a part of them: ot.diff(a['x'], b['x']).",
        ) from None
    except UnicodeEncodeError as exc:
        # pandas keeps the names of columns as UTF-8, and has no other way.
        raise UsageProblem(
            f"A column's name has a sign that is half of a character: {exc.object!r}.",
            hint="Give the column another name first.",
        ) from None
    except MemoryError:
        hint = "Compare fewer columns or rows: ot.diff(a[names], b[names])."
        raise UsageProblem(
            "The two values are too large to be compared in the memory that is left.", hint=hint
        ) from None


def _compare(before: Any, after: Any, key: Any) -> Changes:
    before, after = _plain(before), _plain(after)
    tables = _tables(before, after)
    if tables is not None:
        return _compare_tables(*tables, key)
    if key is not None and not all(isinstance(side, (dict, list)) for side in (before, after)):
        raise UsageProblem(
            "A key names a column, and these two values are no tables.", hint="Leave out the key."
        )
    if isinstance(before, str) and isinstance(after, str):
        return _compare_text(before, after)
    return _compare_data(before, after, key)


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
    return value if _is_plain(value) else values.to_comparable(value)


def _is_plain(value: Any) -> bool:
    """Whether a value is made of Python's own types for JSON. Raises RecursionError for one that is
    nested too deep."""
    level, is_plain = [value], True
    for _ in range(_MAX_LEVELS):
        # Each list or dict of a level is looked into once, however often it is there.
        containers = {id(part): part for part in level if type(part) in (list, dict)}
        is_plain = is_plain and all(
            id(part) in containers or type(part) in _SCALARS for part in level
        )
        if not containers:
            return is_plain
        level = []
        for part in containers.values():
            is_plain = is_plain and (type(part) is list or all(type(key) is str for key in part))
            level += part if type(part) is list else part.values()
    raise RecursionError


def _tables(before: Any, after: Any) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return two values as tables if both are tables or records, and nothing but their rows can
    differ."""
    if is_frame(before) or is_frame(after):
        sides = (before, after)
        fits = all(is_frame(side) or isinstance(side, (list, dict)) for side in sides)
        return (to_frame(before), to_frame(after)) if fits else None
    if _is_records(before) and _is_records(after):
        return _frames(before, after)
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return None
    # One list of records in an object is a table if all else in the object is equal.
    lists = [
        name
        for name, value in before.items()
        if _is_records(value) and _is_records(after.get(name))
    ]
    if len(lists) != 1 or not _same(_without(before, lists[0]), _without(after, lists[0])):
        return None
    return _frames(before[lists[0]], after[lists[0]])


def _frames(before: list[Json], after: list[Json]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return records as frames without a change of any cell."""
    import pandas as pd

    rows = _flattened([*before, *after])
    if is_sparse(rows):
        raise UsageProblem(
            f"The {len(rows):,} rows have too many different keys for a table: nearly all of it"
            " would be empty.",
            hint="Compare a part of them.",
        )
    frames = []
    for side in (rows[: len(before)], rows[len(before) :]):
        names = dict.fromkeys(name for row in side for name in row)
        columns = {name: _column([row.get(name) for row in side]) for name in names}
        frames.append(_table(columns, pd.RangeIndex(len(side))))
    return frames[0], frames[1]


def _table(columns: Mapping[Any, Any], index: pd.Index | None = None) -> pd.DataFrame:
    """Return columns, in their order, as a frame."""
    import pandas as pd

    try:
        return pd.DataFrame(dict(columns), index=index)
    except UnicodeEncodeError:
        # Half of a surrogate pair, as in `"\\ud800"` of JSON, is no UTF-8. The text columns of
        # pandas are.
        cells = {name: pd.Series(list(each), dtype=object) for name, each in columns.items()}
        return pd.DataFrame(cells)


def _table_of(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pd.DataFrame:
    cells = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return _table(cells)


def _flattened(rows: list[Json]) -> list[Json]:
    """Return records with the records inside them as columns `a.b`.

    That is so where all of them have such a record, and no name has a dot. Otherwise two columns
    could have one name, or a record that is missing would look like one without values.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    if any("." in name for name in names):
        return rows
    for name in names:
        cells: list[Any] = [row.get(name) for row in rows]
        if not all(
            type(cell) is dict and cell and not any("." in key for key in cell) for cell in cells
        ):
            continue
        inner = [
            {f"{name}.{key}": cell for key, cell in part.items()} for part in _flattened(cells)
        ]
        rows = [
            {
                key: cell
                for each in row
                for key, cell in (part.items() if each == name else ((each, row[each]),))
            }
            for row, part in zip(rows, inner, strict=True)
        ]
    return rows


def _column(cells: list[Any]) -> Any:
    """Return cells as a column of a type that holds each of them exactly."""
    import pandas as pd

    kinds = set(map(type, cells))
    if kinds == {bool} or kinds == {float}:
        return pd.Series(cells)
    if kinds <= {int, type(None)} and int in kinds:
        bounds = [cell for cell in cells if cell is not None]
        if min(bounds) >= -(2**63) and max(bounds) < 2**63:
            return pd.Series(cells, dtype="int64" if len(kinds) == 1 else "Int64")
    return pd.Series(cells, dtype=object)


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _without(record: Json, name: str) -> Json:
    return {key: value for key, value in record.items() if key != name}


# --- tables ---------------------------------------------------------------------------------------


def _compare_tables(before: pd.DataFrame, after: pd.DataFrame, key: Any) -> Changes:
    import numpy as np
    import pandas as pd

    before, after = _with_plain_labels(before), _with_plain_labels(after)
    for side in (before, after):
        if not side.columns.is_unique:
            name = side.columns[side.columns.duplicated()][0]
            raise UsageProblem(f"Two columns are named '{name}'.", hint="Rename one of them first.")
    shared = tuple(name for name in after.columns if name in before.columns)
    before, after = _with_whole_numbers(before, after, shared)
    names, old_keys, new_keys = _matching(before, after, key)
    places = old_keys.get_indexer(new_keys)
    is_old = places >= 0
    kept, kept_places = np.flatnonzero(is_old), places[is_old]
    is_gone = np.ones(len(before), dtype=bool)
    is_gone[kept_places] = False
    has_change = np.zeros(len(kept), dtype=bool)
    cells_by_column: dict[Any, tuple[Any, Any, Any]] = {}
    # A key is compared, too: True and 1 are found as one key, and are not equal.
    for name in shared:
        dtype = after[name].dtype
        if name in names and dtype == before[name].dtype and dtype.kind in "iuM":
            continue
        old, new = before[name].array.take(kept_places), after[name].array
        new = new if is_old.all() else new.take(kept)
        where = _changed_places(old, new)
        if len(where):
            has_change[where] = True
            # Cells of many columns go into one, so they are objects.
            cells_by_column[name] = (
                where,
                *(pd.array(side.take(where)).astype(object) for side in (old, new)),
            )
    added, removed = after[~is_old], before[is_gone]
    key_columns = {name: after[name].array.take(kept) for name in names} or {
        "row": new_keys.take(kept)
    }
    return Changes(
        kind="table",
        added=added,
        removed=removed,
        changed=_changed_cells(key_columns, cells_by_column),
        columns=_column_changes(before, after, shared if not len(kept) else cells_by_column),
        rows=_changed_rows(
            added,
            removed,
            after.take(kept[has_change]),
            np.flatnonzero(has_change),
            cells_by_column,
        ),
        key=tuple(names),
        shared=shared,
    )


def _with_plain_labels(side: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a column of several levels is named by a tuple: `"a"` is then not the
    columns below it."""
    import pandas as pd

    if side.columns.nlevels == 1:
        return side
    return side.set_axis(pd.Index([*side.columns], tupleize_cols=False), axis=1)


def _with_whole_numbers(
    before: pd.DataFrame, after: pd.DataFrame, shared: Sequence[Any]
) -> Sequence[pd.DataFrame]:
    """Return two tables in which whole numbers that became floats beside a missing cell are whole
    numbers again."""
    names = [name for name in shared if "f" in {side[name].dtype.kind for side in (before, after)}]
    names = [name for name in names if _kind(before[name]) == _kind(after[name]) == "whole number"]
    sides = [side.copy(deep=False) for side in (before, after)]
    for side in sides:
        for name in names:
            side[name] = _whole(side[name])
    return sides


def _whole(column: pd.Series) -> pd.Series:
    """Return a column of whole numbers as one of a type that holds each of them."""
    try:
        return column.astype("Int64")
    except (TypeError, OverflowError):  # one of them has more than 63 bits
        return column.astype(object)


def _changed_cells(
    key_columns: Mapping[Any, Any], cells_by_column: Mapping[Any, Any]
) -> pd.DataFrame:
    """Return a row for each changed cell: its key, its column, the old and the new value."""
    import pandas as pd

    head = {name: _free(name, key_columns) for name in ("column", "old", "new")}
    parts = []
    for name, (where, old, new) in cells_by_column.items():
        label = [name] * len(where)
        column = label if isinstance(name, str) else pd.Series(label, dtype=object)
        keys = {each: cells.take(where) for each, cells in key_columns.items()}
        columns = {**keys, head["column"]: column, head["old"]: old, head["new"]: new}
        parts.append(_table(columns))
    return (
        pd.concat(parts, ignore_index=True)
        if parts
        else pd.DataFrame(columns=[*key_columns, *head.values()])
    )


def _free(name: str, taken: Collection[Any]) -> str:
    """Return the name of a column of ours; with `_` before it where the table has such a column."""
    while name in taken:
        name = f"_{name}"
    return name


def _matching(
    before: pd.DataFrame, after: pd.DataFrame, key: Any
) -> tuple[list[Any], pd.Index, pd.Index]:
    """Return the columns that rows are matched by, and the key of each row; no column means by
    place, or by the index.

    Raises UsageProblem for a key that is missing or not unique.
    """
    sides = (before, after)
    if key is None:
        shared = [name for name in before.columns if name in after.columns]
        likely = [name for word in _KEYS for name in shared if str(name).lower() == word]
        likely += [
            name for ending in _ENDINGS for name in shared if str(name).lower().endswith(ending)
        ]
        names = [
            next(
                (name for name in dict.fromkeys(likely) if _is_key(before[name], after[name])), None
            )
        ]
        names = [name for name in names if name is not None]
        return names, *(_keys_of(side, names) for side in sides)
    names = [key] if isinstance(key, str) or not isinstance(key, Sequence) else list(key)
    for name in names:
        if not isinstance(name, Hashable):
            raise UsageProblem(
                "The key is no name of a column.", hint="Write key='id' or key=['id', 'date']."
            )
        if any(name not in side.columns for side in sides):
            listed = ", ".join(str(each) for each in before.columns if each in after.columns)
            raise UsageProblem(
                f"Both tables need a column '{name}'.",
                hint=f"Columns in both: {values.cut(listed, 200)}",
            )
    try:
        keys = [_keys_of(side, names) for side in sides]
        is_unique = [side.is_unique for side in keys]
    except TypeError:
        message = (
            f"The column '{names[0]}' has lists or objects in it, which cannot identify a row."
        )
        raise UsageProblem(message, hint="Name a column of texts or numbers.") from None
    for label, side, index, unique in zip(("first", "second"), sides, keys, is_unique, strict=True):
        if not unique:
            row = side.loc[index.duplicated(), names].iloc[0].tolist()
            cell = ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True))
            hint = "Name more columns, such as key=['id', 'date']."
            raise UsageProblem(
                f"The key is not unique: {cell} is in more than one row of the {label}.", hint=hint
            )
    return names, *keys


def _is_key(old: pd.Series, new: pd.Series) -> bool:
    """Whether a column identifies the rows of both tables: whole numbers, texts or times, each
    there once."""
    for side in (old, new):
        if side.dtype.kind in "fb" or side.hasnans:
            return False
        if side.dtype.name == "object" and not {str, int}.issuperset(map(type, side)):
            return False
        if not side.is_unique:
            return False
    return True


def _keys_of(side: pd.DataFrame, names: Sequence[Any]) -> pd.Index:
    import pandas as pd

    if len(names) == 1:
        return pd.Index(side[names[0]])
    if names:
        return pd.MultiIndex.from_frame(side[list(names)])
    is_labelled = not isinstance(side.index, pd.RangeIndex) and side.index.is_unique
    return side.index if is_labelled else pd.RangeIndex(len(side))


def _changed_places(old: Any, new: Any) -> Any:
    """Return the places at which two arrays of pandas differ.

    Most cells are equal, so the whole columns are compared as they are, and only what is left is
    looked at closely.
    """
    import numpy as np
    import pandas as pd

    kinds = {side.dtype.kind for side in (old, new)}
    if kinds <= {*"iuf"} and kinds != {*"iu"}:
        return _changed_numbers(old, new)
    if old.dtype == new.dtype and old.dtype.name != "object":
        # A comparison with a missing cell may be missing itself; those are looked at, too.
        places = np.flatnonzero(np.asarray(pd.array(old != new).fillna(True), dtype=bool))
        return places[~(old.take(places).isna() & new.take(places).isna())]
    pairs = zip(old.astype(object), new.astype(object), strict=True)
    return np.flatnonzero(np.fromiter((not _same(a, b) for a, b in pairs), bool, len(old)))


def _changed_numbers(old: Any, new: Any) -> Any:
    """Return the places at which two arrays of numbers differ, by the rules of `_same`."""
    import numpy as np

    is_missing_old, is_missing_new = (np.asarray(side.isna(), dtype=bool) for side in (old, new))
    is_whole = "f" not in (old.dtype.kind, new.dtype.kind)
    # What is missing is compared as 0 here, and by itself below.
    dtype = f"{old.dtype.kind}8" if is_whole else "f8"
    a, b = (
        side.to_numpy(dtype=dtype, na_value=0) if missing.any() else side.to_numpy(dtype=dtype)
        for side, missing in ((old, is_missing_old), (new, is_missing_new))
    )
    differs = a != b
    if not is_whole:
        places = np.flatnonzero(differs)
        x, y = a[places], b[places]
        most = np.maximum(np.abs(x), np.abs(y))
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(x - y)
            is_exact = (x == np.trunc(x)) & (y == np.trunc(y)) & (most <= _MAX_WHOLE)
            is_near = np.isfinite(gap) & (gap <= _TOLERANCE * most)
        differs[places] = is_exact | ~is_near
    return np.flatnonzero(
        np.where(is_missing_old | is_missing_new, is_missing_old != is_missing_new, differs)
    )


def _same(old: Any, new: Any) -> bool:
    """Whether two values are equal: whole numbers exactly, others within the tolerance."""
    if old is new or is_missing(old) or is_missing(new):
        return old is new or (is_missing(old) and is_missing(new))
    if type(old).__module__ == "numpy" or type(new).__module__ == "numpy":
        old, new = (
            side.tolist() if type(side).__module__ == "numpy" else side for side in (old, new)
        )
    if isinstance(old, bool) or isinstance(new, bool):
        return isinstance(old, bool) and isinstance(new, bool) and old == new
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        return _same_number(old, new)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(_same(a, b) for a, b in zip(old, new, strict=True))
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_same(old[name], new[name]) for name in old)
    try:
        return bool(old == new)
    except (TypeError, ValueError, ArithmeticError):  # values that cannot be compared
        return _same(values.to_comparable(old), values.to_comparable(new))


def _same_number(old: float, new: float) -> bool:
    if old == new or (isinstance(old, int) and isinstance(new, int)):
        return bool(old == new)
    if all(abs(side) <= _MAX_WHOLE and side == int(side) for side in (old, new)):
        return False
    try:
        return math.isclose(old, new, rel_tol=_TOLERANCE)
    except OverflowError:  # a whole number that no float can hold
        return False


def _column_changes(
    before: pd.DataFrame, after: pd.DataFrame, changed: Collection[Any]
) -> pd.DataFrame:
    """Return the columns that are new or gone, and those of the `changed` ones that have another
    type."""

    rows = [
        (name, "removed", _kind(before[name]), "")
        for name in before.columns
        if name not in after.columns
    ]
    for name in after.columns:
        if name not in before.columns:
            rows.append((name, "added", "", _kind(after[name])))
        elif name in changed:
            old, new = _kind(before[name]), _kind(after[name])
            if (
                old != new
                and "empty" not in (old, new)
                and {old, new} != {"whole number", "number"}
            ):
                rows.append((name, "retyped", old, new))
    return _table_of(rows, ("column", "change", "old", "new"))


def _kind(column: pd.Series) -> str:
    import pandas as pd

    kind = pd.api.types.infer_dtype(column, skipna=True)
    words = {
        "string": "text",
        "integer": "whole number",
        "floating": "number",
        "mixed-integer-float": "number",
    }
    # Whole numbers beside a missing cell became floats. Beyond 2**53 a float does not say which
    # number it was.
    if (
        kind == "floating"
        and column.dtype.kind == "f"
        and column.hasnans
        and (cells := column.dropna()).size
    ):
        return (
            "whole number" if ((cells % 1 == 0) & (cells.abs() <= _MAX_WHOLE)).all() else "number"
        )
    return str(words.get(kind, kind))


def _changed_rows(
    added: pd.DataFrame,
    removed: pd.DataFrame,
    changed: pd.DataFrame,
    places: Any,
    cells_by_column: Mapping[Any, Any],
) -> pd.DataFrame:
    """Return one table with only the rows that differ, and first how; a changed cell is a
    ChangedCell."""
    import numpy as np
    import pandas as pd

    cells = changed.astype(dict.fromkeys(cells_by_column, object))
    for name, (where, old, new) in cells_by_column.items():
        column = cells[name].to_numpy(copy=True)
        column[np.searchsorted(places, where)] = [
            ChangedCell.of(a, b) for a, b in zip(old, new, strict=True)
        ]
        # Without the type pandas would make plain text of the cells.
        cells[name] = pd.Series(column, index=cells.index, dtype=object)
    parts = {
        word: part
        for word, part in (("added", added), ("removed", removed), ("changed", cells))
        if len(part)
    }
    if not parts:
        return pd.DataFrame(columns=["change", *added.columns])
    columns = dict.fromkeys(name for part in parts.values() for name in part.columns)
    # A column that is not of one type in all parts is one of objects, so that no whole number
    # becomes a fraction.
    mixed = [
        name
        for name in columns
        if len({part[name].dtype if name in part.columns else None for part in parts.values()}) > 1
    ]
    rows = pd.concat(
        part.astype({name: object for name in mixed if name in part.columns})
        for part in parts.values()
    )
    rows.insert(0, _free("change", columns), np.repeat([*parts], [*map(len, parts.values())]))
    return rows


# --- data and text --------------------------------------------------------------------------------


def _compare_data(before: Any, after: Any, key: Any) -> Changes:
    import pandas as pd

    differences = list(_walk(before, after, "", None if key is None else str(key)))
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


def _walk(old: Any, new: Any, path: str, key: str | None) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield what differs: the word for it, its path, and the old and the new value."""
    waiting = [(path, old, new)]
    while waiting:
        path, old, new = waiting.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            names = dict.fromkeys([*old, *new])
            sides = [
                (_step(path, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
                for name in names
            ]
        elif isinstance(old, list) and isinstance(new, list):
            sides = list(_items(old, new, path, key))
        else:
            if not _same(old, new):
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


def _step(path: str, name: str) -> str:
    """Return the path of a key. A name that is no plain word is in brackets and quotes, so that no
    two look alike."""
    if _NAME.fullmatch(name) is None:
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def _items(
    old: list[Any], new: list[Any], path: str, key: str | None
) -> Iterator[tuple[str, Any, Any]]:
    """Pair the items of two lists: records by a key that both have, anything else by its place."""
    if _is_records(old) and _is_records(new):
        for name in dict.fromkeys([key, *_KEYS] if key else _KEYS):
            # Only texts and whole numbers identify a record.
            sides = [
                {json.dumps(row[name]): row for row in side if type(row.get(name)) in (str, int)}
                for side in (old, new)
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

    # Two texts have the same parts only if they are equal; `splitlines` forgets the last line end,
    # and which ones.
    old, new = before.split("\n"), after.split("\n")
    rows: list[tuple[str, int, str]] = []
    if max(len(old), len(new)) > _MAX_TEXT_LINES:
        for word, ours, theirs in (("removed", old, new), ("added", new, old)):
            left = Counter(theirs)
            for number, line in enumerate(ours, start=1):
                if left[line] > 0:
                    left[line] -= 1
                else:
                    rows.append((word, number, line))
        if not rows:
            # The same lines in another order.
            pairs = zip(range(1, len(old) + 1), old, new, strict=True)
            moved = [(number, a, b) for number, a, b in pairs if a != b]
            rows += [("removed", number, line) for number, line, _ in moved]
            rows += [("added", number, line) for number, _, line in moved]
    else:
        for tag, a, b, c, d in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            if tag != "equal":
                rows += [("removed", number + 1, old[number]) for number in range(a, b)]
                rows += [("added", number + 1, new[number]) for number in range(c, d)]
    table = _table_of(rows, ("change", "line", "text"))
    return Changes(
        kind="text",
        added=table[table.change == "added"].drop(columns="change"),
        removed=table[table.change == "removed"].drop(columns="change"),
        changed=pd.DataFrame(columns=["line", "old", "new"]),
        columns=pd.DataFrame(columns=["column", "change", "old", "new"]),
        rows=table,
    )
