"""The same rows as a table of every kind that a tool may give: by library, and by what Python
itself has.

`KINDS` makes each of some rows (dicts of one set of keys). Those in `NAMED` keep the names of the
columns.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it ships no stubs
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]  # it ships no stubs
import xarray as xr

Rows = list[dict[str, Any]]


def _columns(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _arrow(rows: Rows) -> pa.Table:
    return pa.table(_columns(rows))


def _dataset(rows: Rows) -> xr.Dataset:
    columns = {name: ("row", np.array(cells)) for name, cells in _columns(rows).items()}
    return xr.Dataset(columns, coords={"row": range(len(rows))})


def _relation(rows: Rows) -> Any:
    return _connection().from_arrow(_arrow(rows))


@cache
def _connection() -> Any:
    return duckdb.connect()


def _sqlite(rows: Rows) -> list[Any]:
    with sqlite3.connect(":memory:") as connection:
        connection.row_factory = sqlite3.Row
        names = ", ".join(f'"{name}"' for name in rows[0])
        connection.execute(f"create table t ({names})")
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(
            f"insert into t values ({marks})", [tuple(row.values()) for row in rows]
        )
        return connection.execute("select * from t").fetchall()


def _named(rows: Rows) -> list[Any]:
    kind: Any = namedtuple("Row", tuple(rows[0]))  # type: ignore[misc]  # the names come from the rows
    return [kind(**row) for row in rows]


def _instances(rows: Rows) -> list[Any]:
    kind = make_dataclass("Row", list(rows[0]))
    return [kind(**row) for row in rows]


FOREIGN: dict[str, Callable[[Rows], Any]] = {
    "polars": lambda rows: pl.DataFrame(_columns(rows)),
    "pyarrow": _arrow,
    "arrow-stream": lambda rows: _arrow(rows).to_reader(),
    "duckdb": _relation,
    "xarray": _dataset,
}
"""Tables of other libraries."""

NAMED: dict[str, Callable[[Rows], Any]] = {
    **FOREIGN,
    "pandas": lambda rows: pd.DataFrame(rows),
    "sqlite3": _sqlite,
    "named-tuples": _named,
    "dataclasses": _instances,
}

KINDS: dict[str, Callable[[Rows], Any]] = {
    **NAMED,
    "tuples": lambda rows: [tuple(row.values()) for row in rows],
    "array": lambda rows: np.array([tuple(row.values()) for row in rows], dtype=object),
}
