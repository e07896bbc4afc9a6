"""Facts about pandas tables without importing pandas: is a value one, is a cell empty, would rows make a sparse one."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any

_MANY_CELLS = 1_000_000
_MOST_EMPTY = 50


def is_dataframe(value: object) -> bool:
    """Whether a value is a DataFrame."""
    return isinstance(value, getattr(sys.modules.get("pandas"), "DataFrame", ()))


def is_frame(value: object) -> bool:
    """Whether a value is a DataFrame or a Series."""
    return is_dataframe(value) or isinstance(value, getattr(sys.modules.get("pandas"), "Series", ()))


def is_missing(cell: object) -> bool:
    """Return whether a cell of a table is empty: None, NaN, or pandas' NA or NaT."""
    if cell is None or isinstance(cell, float):
        return cell is None or cell != cell
    pandas = sys.modules.get("pandas")
    return pandas is not None and (cell is pandas.NA or cell is pandas.NaT)


def is_sparse(rows: Iterable[Collection[object]]) -> bool:
    """Whether a table of these rows, given by the names of their columns, would be large and nearly empty.

    Rows that each have names of their own make a table of n x n cells, which takes far more memory than the rows do.
    """
    names: set[Any] = set()
    count = filled = 0
    for row in rows:
        names.update(row)
        count += 1
        filled += len(row)
    cells = count * len(names)
    return cells > _MANY_CELLS and cells > _MOST_EMPTY * filled
