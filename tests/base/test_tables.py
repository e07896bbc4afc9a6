"""What is a table, known by its interface, and how one is read; which rows would make a nearly
empty one."""

from __future__ import annotations

import itertools
import sqlite3
from datetime import datetime
from typing import Any, ClassVar
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.base.interrupts import Abandoned
from onetool_ipy.base.tables import (
    NotATable,
    as_code,
    is_dataframe,
    is_foreign,
    is_frame,
    is_missing,
    is_sparse,
    read,
    tabular,
)
from tests.harness.programs import python
from tests.harness.tables import FOREIGN, KINDS, NAMED


class OwnFrame(pd.DataFrame):  # type: ignore[misc]  # pandas ships no types
    """A subclass, as other libraries have."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pd.DataFrame(), (True, True)),
        (OwnFrame({"a": [1]}), (True, True)),
        (pd.Series([1]), (False, True)),
        (pd.Index([1]), (False, False)),
        ([{"a": 1}], (False, False)),
        (pd.DataFrame, (False, False)),
        (None, (False, False)),
    ],
)
def test_frames_are_told_from_other_values(value: Any, expected: tuple[bool, bool]) -> None:
    assert (is_dataframe(value), is_frame(value)) == expected


def test_asking_imports_no_pandas() -> None:
    code = (
        "import sys; from onetool_ipy.base.tables import is_frame; is_frame([]); print('pandas' in"
        " sys.modules)"
    )
    done = python(code)

    assert done.stdout == "False\n"


@pytest.mark.slow
def test_rows_with_keys_of_their_own_are_sparse() -> None:
    assert is_sparse({f"k{number}"} for number in range(2_000))
    assert not is_sparse({f"k{number}"} for number in range(900))
    assert not is_sparse(
        {"a", "b", *([f"k{number}"] if number % 2000 == 0 else [])} for number in range(100_000)
    )
    assert not is_sparse({f"k{name}" for name in range(100)} for _ in range(20_000))
    assert not is_sparse([])


ROWS = [{"id": number, "name": f"n{number}"} for number in range(30)]
YEARS = datetime.fromisoformat("1800-01-01"), datetime.fromisoformat("2200-01-01")
CELLS = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=1, max_size=8),
    st.lists(
        st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.datetimes(*YEARS)), min_size=1, max_size=8),
)


@st.composite
def columns(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of one to three columns, each of one type, with gaps."""
    sides = draw(st.lists(CELLS, min_size=1, max_size=3))
    length = min(map(len, sides))
    return [{f"c{place}": side[row] for place, side in enumerate(sides)} for row in range(length)]


def plain(frame: pd.DataFrame) -> list[list[Any]]:
    """The cells, with None for a missing one."""
    return [
        [None if is_missing(cell) else cell for cell in row]
        for row in frame.astype(object).itertuples(index=False, name=None)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["polars", "pyarrow", "arrow-stream", "duckdb", "named-tuples", "tuples"]
)
@given(rows=columns())
@settings(max_examples=60)
def test_a_table_of_any_kind_has_the_cells_it_was_made_of(
    kind: str, rows: list[dict[str, Any]]
) -> None:
    """The naive twin is the rows themselves: no number is rounded beside a missing one, no cell
    moves."""
    table = tabular(KINDS[kind](rows))

    frame = table if is_frame(table) else pd.DataFrame(table, dtype=object)
    assert plain(frame) == [list(row.values()) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_known_by_its_interface(kind: str) -> None:
    value = KINDS[kind](ROWS)

    table = tabular(value)

    frame = table if is_frame(table) else pd.DataFrame(table)
    names = ["id", "name"] if kind in NAMED else [0, 1]
    assert [tuple(row) for row in frame[names].itertuples(index=False)] == [
        (row["id"], row["name"]) for row in ROWS
    ]
    assert is_foreign(value) == (kind in FOREIGN)


def test_coordinates_of_a_dataset_become_columns() -> None:
    grid = xr.Dataset(
        {"t": (("lat", "lon"), [[1.0, 2.0], [3.0, 4.0]])}, {"lat": [50, 60], "lon": [5, 6]}
    )

    assert tabular(grid).to_dict("list") == {
        "lat": [50, 50, 60, 60],
        "lon": [5, 6, 5, 6],
        "t": [1.0, 2.0, 3.0, 4.0],
    }
    pd.testing.assert_frame_equal(read(grid), grid.to_dataframe())


def test_an_array_without_a_name_keeps_its_coordinates() -> None:
    """As the sum of two arrays is."""
    array = xr.DataArray([[1, 2]], dims=("x", "y"), coords={"y": ["a", "b"]})

    assert tabular(array).to_dict("records") == [
        {"x": 0, "y": "a", "values": 1},
        {"x": 0, "y": "b", "values": 2},
    ]
    made = eval(as_code(array, "array"), {"array": array})
    assert made["y"].tolist() == ["a", "b"]
    assert tabular(xr.DataArray(5)).to_dict("records") == [{"values": 5}]


def test_objects_in_a_frame_of_polars_stay_objects() -> None:
    """Its Arrow stream has their addresses in memory."""
    cell = object()
    frame = read(pl.DataFrame({"n": [1], "x": pl.Series([cell], dtype=pl.Object)}))

    assert frame["x"].tolist() == [cell]
    assert frame["n"].tolist() == [1]


class OddSizes:
    """A table whose sizes are no numbers."""

    sizes: ClassVar[Any] = {"a": "many"}

    def to_dataframe(self) -> pd.DataFrame:
        return pd.DataFrame({"a": [1]})


class BrokenSizes(OddSizes):
    @property
    def sizes(self) -> Any:  # type: ignore[override]  # what breaks is a property
        raise RuntimeError("no sizes")


@pytest.mark.parametrize("value", [OddSizes(), BrokenSizes()], ids=["odd", "broken"])
def test_sizes_that_cannot_be_read_cost_nothing(value: Any) -> None:
    assert tabular(value)["a"].tolist() == [1]


class Panics:
    """A panic of Rust reaches Python as a BaseException."""

    def to_pandas(self) -> Any:
        raise BaseException("index out of bounds")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Abandoned()], ids=["first", "second"])
def test_a_stop_while_a_table_is_read_is_no_fault_of_the_table(stop: BaseException) -> None:
    class Stopped:
        def to_pandas(self) -> Any:
            raise stop

    with pytest.raises(type(stop)):
        tabular(Stopped())


def test_a_dataset_with_too_many_rows_is_not_made_a_table() -> None:
    """A grid that a tool opened lazily must not fill the memory because a cell shows it."""
    grid = xr.Dataset(coords={"time": range(10_000), "lat": range(721), "lon": range(1_440)})

    assert tabular(grid) is grid
    with pytest.raises(NotATable, match=r"would have 10,382,400,000 rows"):
        read(grid)


class Raises:
    def to_pandas(self) -> Any:
        raise RuntimeError("no connection")


class GivesSomethingElse:
    def to_pandas(self) -> Any:
        return 3


class IsProperty:
    @property
    def to_pandas(self) -> Any:
        return pd.DataFrame({"a": [1]})


class TakesArguments:
    def to_pandas(self, table: str) -> Any:
        return pd.DataFrame({"a": [table]})


class AnswersEverything:
    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_options: pd.DataFrame({"a": [1]})


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        return lambda *_args: pd.DataFrame({"a": [1]})


class OfMeta(metaclass=Meta):
    pass


class BreaksHalfWay:
    """An Arrow stream that fails after its first batch."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        def batches() -> Any:
            yield pa.record_batch({"a": [1]})
            raise OSError("the disk is gone")

        return pa.RecordBatchReader.from_batches(
            pa.schema({"a": pa.int64()}), batches()
        ).__arrow_c_stream__()


class NeverEnds:
    """An Arrow stream of the same batch for ever."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batch = pa.record_batch({"a": np.zeros(50_000_000)})
        return pa.RecordBatchReader.from_batches(
            batch.schema, itertools.repeat(batch)
        ).__arrow_c_stream__()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (Raises(), "RuntimeError: no connection"),
        (GivesSomethingElse(), "it gave a int"),
        (TakesArguments(), "TypeError"),
        (BreaksHalfWay(), "the disk is gone"),
        (NeverEnds(), "not read to its end"),
        (Panics(), "index out of bounds"),
    ],
    ids=lambda case: type(case).__name__ if not isinstance(case, str) else "",
)
def test_a_table_that_cannot_be_read_stays_itself_and_says_why(value: Any, problem: str) -> None:
    assert tabular(value) is value
    with pytest.raises(NotATable, match=problem):
        read(value)


@pytest.mark.parametrize(
    "value",
    [
        AnswersEverything(),
        OfMeta(),
        OfMeta,
        IsProperty(),
        MagicMock(),
        MagicMock(spec=pl.DataFrame),
        pl.DataFrame,
    ],
    ids=["__getattr__", "metaclass", "class", "property", "mock", "spec", "type"],
)
def test_an_object_that_answers_to_every_name_is_no_table(value: Any) -> None:
    assert not is_foreign(value)
    assert tabular(value) is value


@pytest.mark.parametrize(
    "value",
    [
        [],
        [()],
        [(1, 2), (3,)],
        [(1, 2), [3, 4]],
        ((1, 2), (3, 4)),
        [1, 2],
        np.zeros(3),
        np.zeros((2, 2, 2)),
        "ab",
    ],
    ids=str,
)
def test_rows_of_many_lengths_and_other_arrays_are_no_table(value: Any) -> None:
    assert tabular(value) is value


def test_two_columns_of_one_name_both_stay() -> None:
    with sqlite3.connect(":memory:") as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("select 1 as id, 2 as id").fetchall()

    assert tabular(rows).to_numpy().tolist() == [[1, 2]]


class Tensor:
    """An array of another library, such as torch has."""

    shape = (2, 2)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([[1, 2], [3, 4]])


class Row:
    """A row whose cells cannot be read."""

    __dataclass_fields__: ClassVar[dict[str, Any]] = {"a": None}

    @property
    def a(self) -> int:
        raise RuntimeError("no")


def test_an_array_is_known_by_its_interface_and_a_broken_row_is_no_table() -> None:
    assert tabular(Tensor()).to_numpy().tolist() == [[1, 2], [3, 4]]
    rows = [Row()]
    assert tabular(rows) is rows


def test_an_array_with_named_fields_keeps_them() -> None:
    array = np.array([(1, 2.5)], dtype=[("id", "i8"), ("x", "f8")])

    assert tabular(array).to_dict("records") == [{"id": 1, "x": 2.5}]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["polars", "duckdb"])
def test_a_table_is_read_without_pyarrow(kind: str) -> None:
    """pyarrow is an extra of ours, and polars and DuckDB need it for their own way to pandas."""
    make = {
        "polars": "import polars; table = polars.DataFrame({'id': [1, None], 'name': ['a', 'b']})",
        "duckdb": (
            "import duckdb; table = duckdb.sql(\"select * from (values (1, 'a'), (null, 'b')) t(id,"
            ' name)")'
        ),
    }[kind]
    code = f"""
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
{make}
from onetool_ipy.base.tables import tabular
frame = tabular(table)
print(list(frame.columns), frame["id"].iloc[0] == 1, frame["id"].isna().tolist(), frame["name"].tolist())
"""
    done = python(code, check=False)

    assert done.stdout == "['id', 'name'] True [False, True] ['a', 'b']\n", done.stderr[-2000:]
