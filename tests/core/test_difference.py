"""The difference of two values: rows by key, JSON by path, text by line; and pandas' own comparison
agrees."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy import Toolbox, ToolCallError
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.core.difference import compare
from onetool_ipy.render.difference import Difference
from tests.core.support import short
from tests.harness.project import Project

OLD = [
    {"id": 1, "name": "a", "price": 1.5},
    {"id": 2, "name": "b", "price": 2.0},
    {"id": 3, "name": "c", "price": None},
]
NEW = [
    {"id": 4, "name": "n", "price": 2.0},
    {"id": 1, "name": "a", "price": 1.75},
    {"id": 3, "name": "c", "price": None},
]


def mixed(*cells: Any) -> pd.DataFrame:
    """A table with one column of any objects."""
    return pd.DataFrame({"id": range(len(cells)), "x": pd.Series([*cells], dtype=object)})


def diff(before: Any, after: Any, key: Any = None) -> Difference:
    return Difference(compare(before, after, key))


@pytest.fixture
def box(project: Project) -> Toolbox:
    return project.open(clock=None)


def test_rows_are_matched_by_an_obvious_key_and_said_in_words() -> None:
    found = diff(OLD, NEW)

    assert found
    assert found.key == ("id",)
    assert found.added["id"].tolist() == [4]
    assert found.removed["id"].tolist() == [2]
    assert found.changed.to_dict("records") == [
        {"id": 1, "column": "price", "old": 1.5, "new": 1.75}
    ]
    assert str(found).splitlines() == [
        "1 row new, 1 row gone, 1 price changed: 1 price 1.5 → 1.75",
        "  new: id=4 name=n price=2.0",
        "  gone: id=2 name=b price=2.0",
    ]
    assert found.df["change"].tolist() == ["added", "removed", "changed"]
    assert found.df.set_index("id").loc[1, "price"] == "1.5 → 1.75"
    assert "1.5 → 1.75" in found._repr_html_()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (OLD, list(reversed(OLD))),
        (pd.DataFrame(OLD), OLD),
        ({"n": 1, "items": OLD}, {"items": list(reversed(OLD)), "n": 1}),
        ([{"id": 1, "x": 1.0}], [{"id": 1, "x": 1.0 + 1e-12}]),
        ([{"id": 1, "x": math.nan}], [{"id": 1, "x": None}]),
        (pd.DataFrame({"id": [1], "x": [pd.NA]}), pd.DataFrame({"id": [1], "x": [None]})),
        ({"a": [1, {"b": 0.1 + 0.2}]}, {"a": [1, {"b": 0.3}]}),
        ("a\nb", "a\nb"),
        ('{"a": 1}', {"a": 1}),
        ([], []),
        (5, 5),
        (None, math.nan),
        (pd.DataFrame({"id": [1], "x": [[1, 2]]}), pd.DataFrame({"id": [1], "x": [[1, 2]]})),
        (
            mixed(1.0, "a", None, np.array([1, 2])),
            mixed(1.0 + 1e-12, "a", math.nan, np.array([1, 2])),
        ),
        (mixed(math.inf), mixed(math.inf)),
        (pd.DataFrame({"id": [1], "x": [math.inf]}), pd.DataFrame({"id": [1], "x": [math.inf]})),
    ],
    ids=[
        "order",
        "frame",
        "object",
        "tolerance",
        "nan",
        "na",
        "data",
        "text",
        "json",
        "empty",
        "number",
        "none",
        "lists",
        "mixed",
        "infinite objects",
        "infinite",
    ],
)
def test_equal_values_have_no_difference(before: Any, after: Any) -> None:
    found = diff(before, after)
    assert not found
    assert str(found) == "No difference."
    assert len(found.df) == 0


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA], ids=["none", "nan", "na"])
@pytest.mark.parametrize(
    "of",
    [
        lambda x: mixed(x, "text"),
        lambda x: mixed(np.array([x], dtype=object)),
        lambda x: mixed(pd.Series([x], dtype=object)),
        lambda x: np.array([x], dtype=object),
        lambda x: (x, 1),
        lambda x: [{"id": 1, "at": datetime.date(2024, 1, 1), "x": x}],
    ],
    ids=["cell", "array in a cell", "series in a cell", "array", "tuple", "beside a date"],
)
def test_an_infinite_number_is_not_missing(of: Any, missing: Any) -> None:
    """JSON has no infinite numbers, so as JSON both are null."""
    assert diff(of(math.inf), of(missing))
    assert not diff(of(math.inf), of(math.inf))
    assert not diff(of(None), of(missing))


def test_a_series_in_a_cell_is_compared_as_exactly_as_a_column() -> None:
    assert diff(mixed(pd.Series([1])), mixed(pd.Series([True])))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([{"id": 1, "x": 1.0}], [{"id": 1, "x": 1.0 + 1e-8}], "1 x changed"),
        ([{"id": 1, "x": 2**60}], [{"id": 1, "x": 2**60 + 1}], "1 x changed"),
        ([{"id": 1, "x": None}], [{"id": 1, "x": 0}], "1 x changed: 1 x nothing → 0"),
        ([{"id": 1, "x": 5}], [{"id": 1, "x": "5"}], "column 'x' was whole number, is text"),
        ([{"id": 1, "x": True}], [{"id": 1, "x": 1}], "column 'x' was boolean, is whole number"),
        ([{"id": 1}], [{"id": 1, "y": 2}], "column 'y' is new"),
        ([{"id": 1, "y": 2}], [{"id": 1}], "column 'y' is gone"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "1 value changed: a.b 1 → 2"),
        ({"a": 1}, {"b": 1}, "1 value new, 1 value gone"),
        (
            {"n": 1, "rows": [{"id": 1, "x": 1}]},
            {"n": 2, "rows": [{"id": 1, "x": 3}]},
            "rows[id=1].x 1 → 3",
        ),
        ([1, 2], [1, 2, 3], "1 value new"),
        ("a\nb\nc", "a\nc\nd", "1 line new, 1 line gone"),
        ("text", {"a": 1}, '1 value changed: (the value itself) "text" → {"a": 1}'),
        (pd.DataFrame({"a": [1]}), "text", "1 value changed"),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 3}], "matched by their place"),
        ([{"id": 1, "x": [1]}], [{"id": 1, "x": [1, 2]}], "1 x changed: 1 x [1] → [1, 2]"),
        (pd.DataFrame({"x": [math.inf]}), pd.DataFrame({"x": [5.0]}), "1 x changed: 0 x inf → 5.0"),
        (
            pd.DataFrame({"x": [math.inf]}),
            pd.DataFrame({"x": [-math.inf]}),
            "1 x changed: 0 x inf → -inf",
        ),
        (mixed(math.inf, "a"), mixed(5.0, "a"), "1 x changed"),
        (mixed(10**400), mixed(1.5), "1 x changed"),
        (pd.DataFrame({7: [1.0, None]}), pd.DataFrame({7: [2**63, 1]}), "2 7 values changed"),
        (pd.DataFrame({"x": [1.0, None]}), pd.DataFrame({"x": [2**64, 1]}), "2 x values changed"),
        (
            pd.DataFrame({("x", "y"): [1]}),
            pd.DataFrame({"x": [1]}),
            "column '('x', 'y')' is gone, column 'x' is new",
        ),
        (
            pd.DataFrame({("x", "y"): [1], ("x", "z"): [1]}),
            pd.DataFrame({("x", "y"): [1], ("x", "z"): [2]}),
            "1 ('x', 'z') changed: 0",
        ),
        (mixed(np.array([1, 2])), mixed(np.array([1, 3])), "1 x changed: 0 x [1, 2] → [1, 3]"),
    ],
)
def test_what_differs_is_said(before: Any, after: Any, text: str) -> None:
    found = diff(before, after)
    assert found
    assert text in str(found)


def test_rows_without_a_key_are_matched_by_the_labels_of_their_index() -> None:
    before = pd.DataFrame({"x": [1, 2]}, index=["a", "b"])

    assert not diff(before, before.loc[["b", "a"]])
    assert diff(before, pd.DataFrame({"x": [2, 3]}, index=["b", "a"])).changed["row"].tolist() == [
        "a"
    ]
    plain = before.reset_index(drop=True)
    assert diff(plain, plain.iloc[::-1].reset_index(drop=True)).changed["row"].tolist() == [0, 1]


@pytest.mark.parametrize(("old", "new"), [(1, 2), ("a", "b"), ([1], "b")])
def test_a_key_of_what_is_no_table_is_refused(old: Any, new: Any) -> None:
    """It would say that rows were matched by it."""
    with pytest.raises(UsageProblem, match="A key names a column, and these two values are no"):
        diff(old, new, "id")


def test_a_key_that_is_not_unique_is_an_error_that_names_a_duplicate() -> None:
    rows = [{"shop": "a", "day": 1, "x": 1}, {"shop": "a", "day": 2, "x": 1}]
    with pytest.raises(
        UsageProblem, match="The key is not unique: shop='a' is in more than one row of the first"
    ):
        diff(rows, rows, "shop")
    assert not diff(rows, rows, ["shop", "day"])
    with pytest.raises(UsageProblem, match="Both tables need a column 'nope'"):
        diff(rows, rows, "nope")
    with pytest.raises(UsageProblem, match="The key is no name of a column"):
        diff(rows, rows, {"shop": 1})
    changed = [{**rows[0], "x": 5}, rows[1]]
    assert diff(rows, changed, ["shop", "day"]).changed.to_dict("records") == [
        {"shop": "a", "day": 1, "column": "x", "old": 1, "new": 5}
    ]


def test_ot_diff_takes_results_and_handles(box: Toolbox) -> None:
    def prices(rows: list[Any]) -> list[Any]:
        """Give a price list."""
        return rows

    box.adopt(prices)
    first, second = box.call("nb.prices", {"rows": OLD}), box.call("nb.prices", {"rows": NEW})
    assert (
        str(box.ot.diff(first, second))
        == str(box.ot.diff(first.store(), second.store()))
        == str(diff(OLD, NEW))
    )
    assert box.ot.diff(first, OLD, key="id").df.empty
    with pytest.raises(ToolCallError, match="not unique"):
        box.ot.diff([{"a": 1}, {"a": 1}], [{"a": 1}], key="a")
    tree = box.ot.origin(box.log.history(limit=1)[0].call_id)
    assert tree.tool == "ot.diff"


def test_long_texts_are_compared_by_their_lines() -> None:
    lines = [f"line {number}" for number in range(30_000)]
    found = diff("\n".join(lines), "\n".join([*lines[1:], "more"]))
    assert (found.added["text"].tolist(), found.removed["text"].tolist()) == (["more"], ["line 0"])


def _random_pair(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables with the same keys, some cells of which differ."""
    chance = np.random.default_rng(seed)
    rows = int(chance.integers(1, 40))
    before = pd.DataFrame(
        {
            "id": chance.permutation(rows * 2)[:rows],
            "price": np.where(chance.random(rows) < 0.2, np.nan, chance.random(rows) * 100),
            "count": chance.integers(-5, 5, rows),
            "name": [["a", "b", None, "c"][place] for place in chance.integers(0, 4, rows)],
            "when": pd.Timestamp("2026-01-01")
            + pd.to_timedelta(chance.integers(0, 9, rows), unit="D"),
            "is_new": chance.random(rows) < 0.5,
        }
    )
    after = before.copy()
    for column, value in (
        ("price", 7.5),
        ("count", 99),
        ("name", "new"),
        ("when", pd.Timestamp("2027-01-01")),
    ):
        after.loc[chance.random(rows) < 0.2, column] = value
    after.loc[chance.random(rows) < 0.1, "price"] = np.nan
    return before, after.sample(frac=1, random_state=seed)


def _agrees(seed: int) -> None:
    before, after = _random_pair(seed)
    found = diff(before, after, "id")
    ordered = after.set_index("id").loc[before["id"]]
    reference = before.set_index("id").compare(ordered)
    cells = {
        (row, column)
        for column in {name for name, _ in reference.columns}
        for row in reference.index
        if not _equal(reference.loc[row, (column, "self")], reference.loc[row, (column, "other")])
    }
    assert {(row["id"], row["column"]) for row in found.changed.to_dict("records")} == cells, seed
    assert bool(found) is bool(cells)
    for row in found.changed.to_dict("records"):
        assert _equal(row["old"], before.set_index("id").loc[row["id"], row["column"]])
        assert _equal(row["new"], ordered.loc[row["id"], row["column"]])

    cut = diff(before.iloc[2:], after, "id")
    assert set(cut.added["id"]) == set(before["id"][:2])
    assert cut.removed.empty


def _equal(one: Any, other: Any) -> bool:
    return bool((pd.isna(one) and pd.isna(other)) or one == other)


@pytest.mark.parametrize("seed", range(20))
def test_pandas_finds_the_same_cells(seed: int) -> None:
    _agrees(seed)


@pytest.mark.soak
def test_pandas_finds_the_same_cells_in_500_pairs() -> None:
    for seed in range(500):
        _agrees(seed)


class Huge:
    """A cell that cannot be compared in the memory that is left."""

    def __eq__(self, other: object) -> bool:
        raise MemoryError

    __hash__ = None  # type: ignore[assignment]  # it is not for dicts


def test_what_is_too_large_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(
        UsageProblem, match="A text of 200 MB is too large to compare; the limit is 200 MB"
    ):
        diff("x" * (2 * 10**8 + 1), "y")
    cells = [pd.DataFrame({"id": [1], "x": pd.Series([Huge()], dtype=object)}) for _ in range(2)]
    with pytest.raises(UsageProblem, match="too large to be compared in the memory that is left"):
        diff(*cells)


def test_whole_numbers_beside_missing_ones_stay_whole_and_are_compared_exactly() -> None:
    """A moment in milliseconds differs by less than the tolerance of fractions; a column named
    change stays."""
    before = [
        {"id": 1, "n": 3, "ms": 1_700_000_000_000, "change": "a"},
        {"id": 2, "n": None, "ms": 5, "change": "b"},
    ]
    after = [
        {"id": 1, "n": None, "ms": 1_700_000_000_001, "change": "a"},
        {"id": 3, "n": 4, "ms": 5, "change": "b"},
    ]

    found = diff(before, after)

    assert "1 n, 1 ms changed: 1 n 3 → nothing; 1 ms 1700000000000 → 1700000000001" in str(found)
    assert found.df.columns.tolist() == ["_change", "id", "n", "ms", "change"]
    assert [str(cell) for cell in found.df["n"]][-1] == "3 → nothing"
    assert found.added["n"].tolist() == [4]
    assert diff({"ms": 1_700_000_000_000}, {"ms": 1_700_000_000_001})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([{"id": 1, "ts": 1700000000000}, {"id": 2}], [{"id": 1, "ts": 1700000000900}, {"id": 2}]),
        ([{"id": 1, "n": 2**53 + 1}, {"id": 2}], [{"id": 1, "n": 2**53}, {"id": 2}]),
        ([{"id": 1, "n": 2**63}, {"id": 2}], [{"id": 1, "n": 2**63 + 1}, {"id": 2}]),
        ([{"id": 1, "n": 1e300}, {"id": 2}], [{"id": 1, "n": 2e300}, {"id": 2}]),
        (pd.DataFrame({"x": [1.7e12, None]}), pd.DataFrame({"x": [1.7e12 + 900, None]})),
        (pd.DataFrame({"x": [1e300, None]}), pd.DataFrame({"x": [2e300, None]})),
        (pd.DataFrame({"x": [1700000000000]}), pd.DataFrame({"x": [1700000000900.0]})),
        ({"n": 1700000000000}, {"n": 1700000000900.0}),
        ({".env": 1, "env": 2}, {".env": 9, "env": 2}),
        ({"": 1, ".": 2}, {"": 2, ".": 1}),
        ({"a.b": 1}, {"a": {"b": 1}}),
        ({"a[0]": 1, "a": [2]}, {"a[0]": 1, "a": [3]}),
        ("a", "a\n"),
        ("a\r\nb", "a\nb"),
        ("a\fb", "a\nb"),
        ("\n".join(map(str, range(30_000))), "\n".join(map(str, reversed(range(30_000))))),
        ([{"id": True, "x": 1}], [{"id": 1, "x": 1}]),
        ({"n": True, "rows": [{"x": 1}]}, {"n": 1, "rows": [{"x": 1}]}),
        ([{"id": 1, "day": "2024-01-01"}], [{"id": 1, "day": "2024-01-01T00:00"}]),
        ([{"a.b": 1}], [{"a": {"b": 1}}]),
        ([{"a": None}, {"a": {"b": 1}}], [{"a": {"b": None}}, {"a": {"b": 1}}]),
        (mixed(np.bool_(True)), mixed(1)),
        (mixed(np.array([True])), mixed(np.array([1]))),
        ([[[1, [2]]]], [[[1, [3]]]]),
        ({"a": math.inf}, {"a": None}),
        ([{}], [{}, {}]),
    ],
    ids=short,
)
def test_values_that_are_not_equal_differ(before: Any, after: Any) -> None:
    for old, new in ((before, after), (after, before)):
        found = diff(old, new)
        assert found
        assert str(found) != "No difference."
        assert not diff(old, old)
        assert found._repr_html_()


def test_a_value_nested_deeper_than_json_goes_differs_or_says_that_it_is_too_deep() -> None:
    def nested(levels: int, value: Any) -> Any:
        for _ in range(levels):
            value = [value]
        return value

    ring: list[Any] = []
    ring.append(ring)
    assert diff(nested(90, 1), nested(90, 2))
    assert not diff(nested(90, 1), nested(90, 1))
    for before, after in (
        (nested(5000, 1), nested(5000, 2)),
        (nested(101, {1}), nested(101, {2})),
        (ring, [ring]),
    ):
        with pytest.raises(UsageProblem, match="nested too deep to be compared, or holds itself"):
            diff(before, after)


@pytest.mark.parametrize("key", ["column", "old", "new", "row", "change"])
def test_a_key_may_have_the_name_of_a_column_of_ours(key: str) -> None:
    before, after = ([{key: "k1", "type": old}, {key: "k2", "type": 1}] for old in (1, "1"))
    found = diff(before, after, key)
    assert (
        str(found)
        .splitlines()[0]
        .startswith("1 type changed, column 'type' was whole number, is mixed")
    )
    assert 'k1 type 1 → "1"' in str(found)
    names = found.changed.columns.tolist()
    assert found.changed.to_dict("records") == [
        dict(zip(names, ("k1", "type", 1, "1"), strict=True))
    ]
    assert names[0] == key
    assert [name.lstrip("_") for name in names[1:]] == ["column", "old", "new"]


# --- against a naive twin -------------------------------------------------------------------------


def equal_number(old: Any, new: Any) -> bool:
    if isinstance(old, int) and isinstance(new, int):
        return old == new
    if all(abs(side) <= 2**53 and side == int(side) for side in (old, new)):
        return bool(old == new)
    return math.isclose(old, new, rel_tol=1e-9)


def equal(old: Any, new: Any) -> bool:
    """The naive twin of JSON values: by the rules of the docstring, one by one."""
    missing = [side is None or side != side for side in (old, new)]
    if any(missing):
        return all(missing)
    kinds = [
        next(kind for kind in (bool, (int, float), str, list, dict) if isinstance(side, kind))
        for side in (old, new)
    ]
    if kinds[0] != kinds[1]:
        return False
    if isinstance(old, list):
        return len(old) == len(new) and all(map(equal, old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(equal(old[name], new[name]) for name in old)
    return old == new if kinds[0] in (bool, str) else equal_number(old, new)


def equal_tables(
    old: list[dict[str, Any]], new: list[dict[str, Any]], key: str | None = None
) -> bool:
    """The naive twin of tables: the same columns, and in each row of one key, or place, equal
    cells."""
    if {name for row in old for name in row} != {name for row in new for name in row} or len(
        old
    ) != len(new):
        return False
    if key is not None:
        old, new = (sorted(side, key=lambda row: row[key]) for side in (old, new))
    names = {name for row in old for name in row}
    pairs = zip(old, new, strict=True)
    return all(equal(row.get(name), other.get(name)) for row, other in pairs for name in names)


NUMBERS = [0, 1, 2, 2**53, 2**53 + 1, 2**63, 2**63 + 1, -1, 1700000000000, 1700000000900]
FLOATS = [
    0.0,
    1.0,
    1.0 + 1e-12,
    1.5,
    1.5 + 1e-12,
    1.5 + 1e-6,
    2.0**53,
    1e300,
    2e300,
    1700000000900.0,
    math.nan,
]
SCALARS = st.sampled_from(
    [None, True, False, "", "a", "a\n", "a\r", "1", "2024-01-01", *NUMBERS, *FLOATS]
) | st.text("a.\n ", max_size=3)
NAMES = st.sampled_from(
    ["", ".", "a", "b", "a.b", ".env", "env", "column", "old", "new", "row", "change", "[0]"]
)


def _not_records(items: list[Any]) -> list[Any]:
    """A list of records is a table, which has a twin of its own."""
    return [*items, 0] if items and all(isinstance(item, dict) for item in items) else items


JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(_not_records) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=6,
)
CELLS = SCALARS | st.lists(SCALARS, max_size=2)
ROWS = st.lists(st.dictionaries(NAMES, CELLS, max_size=3), min_size=1, max_size=3)


def agrees(before: Any, after: Any, is_equal: bool, key: Any = None) -> None:
    found = diff(before, after, key)
    assert bool(found) is not is_equal
    assert (str(found) == "No difference.") is is_equal
    assert (len(found.df) == 0 and found.columns.empty) is is_equal


def test_keys_are_compared_as_the_json_that_is_stored() -> None:
    """A stored result has its keys as texts, so the one of today is compared as such."""
    assert not diff({1: "a"}, {"1": "a"})
    assert diff({1: "a"}, {"1": "b"})
    assert diff({1: "a"}, {"2": "a"})


@pytest.mark.slow
@given(JSON, JSON)
def test_json_values_have_no_difference_exactly_if_they_are_equal(before: Any, after: Any) -> None:
    agrees(before, before, True)
    agrees(before, after, equal(before, after))


@pytest.mark.slow
@given(JSON, st.data())
def test_one_changed_value_of_a_json_value_is_a_difference(
    before: Any, data: st.DataObject
) -> None:
    """Two independent values are rarely nearly equal, so one is changed in one place."""
    after = _changed_once(before, data)
    agrees(before, after, equal(before, after))


def _changed_once(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, (list, dict)) and value:
        place = data.draw(
            st.sampled_from([*(value if isinstance(value, dict) else range(len(value)))])
        )
        after = value.copy()
        after[place] = _changed_once(value[place], data)
        return _not_records(after) if isinstance(after, list) else after
    return data.draw(SCALARS)


@pytest.mark.slow
@given(ROWS, st.data())
def test_tables_have_no_difference_exactly_if_their_cells_are_equal(
    before: list[dict[str, Any]], data: st.DataObject
) -> None:
    after = [
        _changed_once(row, data) if row and data.draw(st.booleans()) else row for row in before
    ]
    after = [row if isinstance(row, dict) else {} for row in after][: data.draw(st.integers(1, 4))]
    agrees(before, after, equal_tables(before, after))


@pytest.mark.slow
@given(ROWS, NAMES, st.data())
def test_tables_with_a_key_are_compared_in_any_order(
    rows: list[dict[str, Any]], key: str, data: st.DataObject
) -> None:
    before = [{**row, key: number} for number, row in enumerate(rows)]
    after = [
        {**_changed_once(row, data), key: row[key]} if data.draw(st.booleans()) else row
        for row in before
    ]
    after = data.draw(st.permutations(after))
    agrees(before, after, equal_tables(before, after, key), key)


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("\ud800", "\ud801", 2),
        ("a\n\ud800", "a\nb", 2),
        ([{"id": 1, "s": "\ud800"}], [{"id": 1, "s": "\ud801"}], 1),
        ([{"id": "\ud800", "s": 1}], [{"id": "\ud800", "s": 2}], 1),
        ({"a": "\ud800"}, {"a": "\udfff"}, 1),
        (
            pd.DataFrame({"s": ["\ud800"]}, dtype=object),
            pd.DataFrame({"s": ["\ud801"]}, dtype=object),
            1,
        ),
    ],
)
def test_half_a_surrogate_pair_is_compared_like_any_text(
    before: Any, after: Any, count: int
) -> None:
    """Such texts come out of JSON. They are no UTF-8, which the text columns of pandas need."""
    difference = diff(before, after)
    parts = (difference.added, difference.removed, difference.changed)
    assert difference
    assert str(difference)
    assert sum(map(len, parts)) == count
    assert not diff(before, before)


def test_a_column_with_half_a_surrogate_pair_in_its_name_is_refused_in_words() -> None:
    with pytest.raises(UsageProblem, match="half of a character"):
        diff([{"id": 1, "\ud800": 1}], [{"id": 1, "\ud800": 2}])


def test_a_number_that_cannot_be_compared_is_no_error() -> None:
    """A signalling NaN raises where it is compared."""
    old, new = (pd.DataFrame([{"a": Decimal(text)}, {"a": Decimal(1)}]) for text in ("sNaN", "2"))

    assert len(compare(old, new).changed) == 1
