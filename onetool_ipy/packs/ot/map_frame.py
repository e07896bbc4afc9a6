"""The results of many rows as a DataFrame on the index they came from: the results, then ok, error, ms. Pure.

Where every result is a dict and `expand` holds, each key is a column; else there is one column with the tool's short
name. Numbers stay whole where rows failed (Int64, boolean), since a float would change large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs

    from onetool_ipy.sdk.row_calls import Row

__all__ = ["to_frame"]

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
