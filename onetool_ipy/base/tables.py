"""What a table is, by its interface and not by its class, and any table as one of pandas.

    value                                                  its table
    ---------------------------------------------------    -----------------------------------
    DataFrame or Series of pandas                          itself
    its type has `to_dataframe()`, `__arrow_c_stream__`    what these give: xarray, polars, pyarrow,
    or `to_pandas()`                                       DuckDB, ibis and whatever comes next
    array of two dimensions                                columns 0, 1, ...
    array with named fields                                the fields are its columns
    list of tuples of one length                           columns 0, 1, ...
    list of named tuples, rows of sqlite3, dataclasses     records, by their names
    or pydantic models of one class

Only the type of a value is asked, since some objects answer to every name. Reading runs foreign
code, which may fail, take long or use a stream up: `read` says in words why there is no table
(`NotATable`), `tabular` then gives the value itself. Nothing here imports pandas before there is a
table to read.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from operator import methodcaller
from typing import Any

from onetool_ipy.base.interrupts import interrupt_in

_INTERFACES = ("to_dataframe", "__arrow_c_stream__", "to_pandas")
_MANY_CELLS = 1_000_000
_MOST_EMPTY = 50
_MAX_ROWS = 50_000_000
_MAX_BYTES = 2 << 30
_MAX_BATCHES = 1_000_000


class NotATable(Exception):
    """A value says that it is a table, and cannot be read as one. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def is_dataframe(value: object) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return isinstance(value, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def is_frame(value: object) -> bool:
    """Whether a value is a DataFrame or a Series of pandas."""
    return is_dataframe(value) or isinstance(
        value, getattr(sys.modules.get("pandas"), "Series", ())
    )


def is_foreign(value: object) -> bool:
    """Whether a value that is not of pandas says that it is a table. Reads nothing of it."""
    kind = type(value)
    # Nearly all values are of Python's own types.
    if kind.__module__ == "builtins":
        return False
    return any(_has_method(kind, name) for name in _INTERFACES) and not is_frame(value)


def is_missing(cell: object) -> bool:
    """Return whether a cell of a table is empty: None, NaN, or pandas' NA or NaT."""
    if cell is None or isinstance(cell, float):
        return cell is None or cell != cell
    pandas = sys.modules.get("pandas")
    return pandas is not None and (cell is pandas.NA or cell is pandas.NaT)


def is_sparse(rows: Iterable[Collection[object]]) -> bool:
    """Whether a table of rows, given by the names of their columns, would be large and nearly
    empty.

    Rows that each have names of their own make a table of n x n cells, which takes far more memory
    than the rows do.
    """
    rows = rows if isinstance(rows, list) else list(rows)
    cells = len(rows) * len(set(chain.from_iterable(rows)))
    return cells > _MANY_CELLS and cells > _MOST_EMPTY * sum(map(len, rows))


def are_tuples(value: object) -> bool:
    """Whether this is a list of tuples of one length, which are rows without names."""
    if type(value) is not list or not value or type(value[0]) is not tuple or not value[0]:
        return False
    return set(map(type, value)) == {tuple} and len(set(map(len, value))) == 1


def tabular(value: Any) -> Any:
    """Return a table as a frame of pandas or a list of records; any other value as it is.

    An index that names its rows becomes columns, since lines and records have none.
    """
    if is_foreign(value):
        try:
            return flat(read(value))
        except NotATable:
            return value
    try:
        return _rows(value) if type(value) is list and value else _array(value)
    except Exception:  # noqa: BLE001 - a foreign row or array may fail in any of its methods
        return value


def read(value: Any) -> Any:
    """Return a foreign table as a DataFrame or Series of pandas. Raises NotATable, which says
    why."""
    if (count := _rows_of(value)) > _MAX_ROWS:
        raise NotATable(
            f"As a table this {type(value).__name__} would have {count:,} rows.",
            hint="Take a part of .data, or call its own to_dataframe().",
        )
    kind, problems, has_arrow = type(value), [], True
    readers: dict[str, Callable[[Any], Any]] = {
        "to_dataframe": _read_dataframe,
        "__arrow_c_stream__": _read_stream,
        "to_pandas": methodcaller("to_pandas"),
        # DuckDB and polars can do these without pyarrow.
        "to_df": methodcaller("to_df"),
        "to_dicts": _read_dicts,
    }
    for name in [name for name in readers if _has_method(kind, name)]:
        try:
            frame = readers[name](value)
        except NotATable:
            raise
        # Foreign code may raise anything, and a panic of Rust is no Exception; the next interface
        # may work.
        except BaseException as exc:
            if interrupt_in(exc) is not None:
                raise
            problems.append(f"{name}: {type(exc).__name__}: {exc}")
            has_arrow = has_arrow and not isinstance(exc, ImportError)
            continue
        if is_frame(frame):
            return frame
        problems.append(f"{name}: it gave a {type(frame).__name__}")
    about = f" ({'; '.join(problems)[:300]})" if problems else ""
    hint = (
        "Its own object is in .data."
        if has_arrow
        else "Install pyarrow: %pip install 'onetool-ipy[parquet]'"
    )
    raise NotATable(f"This {kind.__name__} could not be read as a table{about}.", hint=hint)


def _rows_of(value: Any) -> int:
    """Return how many rows the dimensions of a value would make; 0 if it has none."""
    try:
        sizes = value.sizes
        return math.prod(map(int, sizes.values())) if isinstance(sizes, Mapping) else 0
    except Exception:  # noqa: BLE001 - foreign code; what it has is seen when it is read
        return 0


def as_code(value: object, name: str) -> str:
    """Return the expression that makes a DataFrame of a foreign table called `name`."""
    if _has_method(type(value), "to_dataframe"):
        named = "" if getattr(value, "name", "") is not None else "name='values'"
        return f"{name}.to_dataframe({named}).reset_index()"
    return (
        f"{name}.to_pandas()"
        if _has_method(type(value), "to_pandas")
        else f"pd.DataFrame.from_arrow({name})"
    )


def flat(frame: Any) -> Any:
    """Return a frame whose index only counts its rows: any other index becomes columns."""
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    if isinstance(frame.index, pd.RangeIndex):
        return frame
    table = frame if is_dataframe(frame) else frame.to_frame()
    return table.reset_index(allow_duplicates=True)


def _has_method(kind: type, name: str) -> bool:
    """Whether a class, and not its metaclass, has a method of this name; a property is none."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return callable(base.__dict__[name])
    return False


def _read_dataframe(value: Any) -> Any:
    # An array of xarray without a name has a table only under one, and its Arrow stream has no
    # dimensions.
    is_unnamed = getattr(value, "name", "") is None
    return value.to_dataframe(name="values") if is_unnamed else value.to_dataframe()


def _read_stream(value: Any) -> Any:
    """Read an Arrow stream. Raises NotATable if it does not end.

    What also has `to_pandas()` is in memory already, however large it is.
    """
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no stubs

    reader = pa.RecordBatchReader.from_stream(value)
    is_stream = not _has_method(type(value), "to_pandas")
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if is_stream and (size > _MAX_BYTES or len(batches) > _MAX_BATCHES):
            raise NotATable(
                f"This {type(value).__name__} has over {size >> 20:,} MB, so it was not read to its"
                " end.",
                hint="Return a part of it.",
            )
    # For Python's objects polars gives their addresses, as eight bytes.
    if not is_stream and any(map(pa.types.is_fixed_size_binary, reader.schema.types)):
        return value.to_pandas()
    table = pa.Table.from_batches(batches, reader.schema)
    frame = table.to_pandas(date_as_object=False)
    # pandas makes floats of whole numbers beside missing ones, which changes large numbers.
    for name, column in zip(table.column_names, table.columns, strict=True):
        if (
            pa.types.is_integer(column.type)
            and column.null_count
            and table.column_names.count(name) == 1
        ):
            sign = "" if pa.types.is_signed_integer(column.type) else "U"
            exact = pd.array(column.to_pylist(), dtype=f"{sign}Int{column.type.bit_width}")
            frame[name] = pd.Series(exact, index=frame.index)
    return frame


def _read_dicts(value: Any) -> Any:
    import pandas as pd

    names = getattr(value, "columns", None)
    return pd.DataFrame(value.to_dicts(), columns=names if isinstance(names, list) else None)


def _rows(rows: list[Any]) -> Any:
    """Return tuples of one length, or rows that know their names, as a table; else the list."""
    kind = type(rows[0])
    if kind is dict or kind is str or set(map(type, rows)) != {kind}:
        return rows
    if kind is tuple:
        return _of_tuples(rows) if are_tuples(rows) else rows
    names = _names(rows[0])
    if not names:
        return rows
    if issubclass(kind, tuple):
        return [dict(zip(names, row, strict=True)) for row in rows]
    if kind is not getattr(sys.modules.get("sqlite3"), "Row", None):
        return [{name: getattr(row, name, None) for name in names} for row in rows]
    cells = [tuple(row) for row in rows]
    if any(row.keys() != names for row in rows):
        return [dict(zip(row.keys(), row, strict=True)) for row in rows]
    if len(set(names)) == len(names):
        return [dict(zip(names, row, strict=True)) for row in cells]
    # A join gives two columns of one name, of which a record would keep one.
    frame = _of_tuples(cells)
    frame.columns = names
    return frame


def _of_tuples(rows: list[tuple[Any, ...]]) -> Any:
    """Return tuples of one length as a table. A whole number that no float can hold stays exact
    beside a missing one, of which pandas makes floats."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    for place in frame.columns[frame.dtypes == "float64"]:
        cells = [None if is_missing(row[place]) else row[place] for row in rows]
        numbers = [cell for cell in cells if type(cell) is int]
        if (
            len(numbers) + cells.count(None) < len(cells)
            or max(map(abs, numbers), default=0) < 2**53
        ):
            continue
        is_small = all(-(2**63) <= number < 2**63 for number in numbers)
        frame[place] = pd.Series(cells, dtype="Int64" if is_small else object)
    return frame


def _names(row: Any) -> list[str]:
    """Return the names that a row has for its cells; none if it has none."""
    kind = type(row)
    if issubclass(kind, tuple):
        return list(getattr(kind, "_fields", ()))
    if kind is getattr(sys.modules.get("sqlite3"), "Row", None):
        return list(row.keys())
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
    return list(fields) if isinstance(fields, dict) else []


def _array(value: Any) -> Any:
    """Return an array of two dimensions, or with named fields, as a table; else the value."""
    kind = type(value)
    if not _has_method(kind, "__array__") or is_frame(value) or len(value.shape) not in (1, 2):
        return value
    import numpy as np
    import pandas as pd

    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    is_table = array.shape == tuple(value.shape) and (array.ndim == 2 or array.dtype.names)
    return pd.DataFrame(array) if is_table and array.shape[-1] else value
