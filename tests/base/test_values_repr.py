"""`short_repr` is the beginning of `repr`, and costs no more than what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base import values
from onetool_ipy.base.values import short_repr

LEAVES = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
KEYS = (
    st.text(max_size=3) | st.tuples(st.integers()) | st.tuples(st.text(max_size=3), st.integers())
)


def _nests(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    return lists | lists.map(tuple) | st.dictionaries(KEYS, inner, max_size=3)


NESTED = _nests(st.recursive(LEAVES, _nests, max_leaves=8))


@pytest.mark.slow
@given(value=NESTED, limit=st.integers(0, 200))
def test_it_is_the_repr_or_more_than_enough_of_its_beginning(value: Any, limit: int) -> None:
    whole = repr(value)
    said = short_repr(value, limit)

    assert said == whole or (len(said) > limit and whole.startswith(said))
    assert values.safe_repr(value, limit + 3) == values.cut(whole, limit + 3)


def _in_itself() -> list[Any]:
    inside: dict[str, Any] = {}
    own: list[Any] = [1, inside, (inside,)]
    inside["own"], inside["same"] = own, inside
    return [own, own]


def test_what_is_inside_itself_is_written_as_repr_writes_it() -> None:
    assert short_repr(_in_itself(), 1_000) == repr(_in_itself())


@pytest.mark.parametrize("depth", [60, 3_000, 20_000])
def test_a_value_whose_repr_would_never_end_costs_nothing(depth: int) -> None:
    """The same one many times inside itself; deeper than Python can recurse."""
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value, "b": [value, (value,)]}

    said = values.safe_repr(value)
    assert len(said) == 500
    assert said.startswith("{'a': " * 60)
