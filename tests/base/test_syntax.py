"""Constants, names and texts of a stranger's syntax tree: nothing is evaluated, nothing raises."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.syntax import assigned_name, constant, last_name, printable, source

MISSING = object()
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10)
    | st.binary(max_size=10)
)
LITERALS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=20,
)


def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@given(value=LITERALS)
def test_constant_is_what_python_writes(value: Any) -> None:
    node = parsed(repr(value))

    assert constant(node) == value
    text = source(node)
    if text and len(ast.unparse(node)) <= 500:
        assert constant(parsed(text), otherwise=MISSING) == value


@pytest.mark.parametrize(
    "text",
    [
        "f()",
        "a",
        "a.b",
        "[a]",
        "{'x': f()}",
        "f'{1}'",
        "1 if x else 2",
        "lambda: 1",
        "2**3",
        "1 + '2'",
        "[1][0]",
        "not 1",
    ],
)
def test_what_is_no_constant_gives_the_fallback(text: str) -> None:
    assert constant(parsed(text), otherwise=MISSING) is MISSING


@pytest.mark.parametrize(("bits", "is_read"), [(999, True), (1000, True), (1001, False)])
def test_number_is_read_up_to_its_bound(bits: int, is_read: bool) -> None:
    number = 2 ** (bits - 1)

    assert constant(ast.Constant(number), otherwise=MISSING) == (number if is_read else MISSING)


def test_tree_is_read_up_to_its_bounds() -> None:
    deep = parsed("[" * 49 + "]" * 49)
    deeper = parsed("[" * 51 + "]" * 51)
    # Each item is a node, and so are the list and its context.
    few, many = parsed(str([1] * 8)), parsed(str([1] * 9))

    assert constant(deep, otherwise=MISSING) is not MISSING
    assert constant(deeper, otherwise=MISSING) is MISSING
    assert constant(few, nodes=10) == [1] * 8
    assert constant(many, otherwise=MISSING, nodes=10) is MISSING
    assert source(parsed(str([1] * 190)))
    assert source(parsed(str([1] * 210))) == ""
    assert constant(None, otherwise=MISSING) is MISSING
    assert source(None) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("a.b.c", "c"),
        ("a.b(1)", "b"),
        ("f(x)", "f"),
        ("f()()", ""),
        ("1", ""),
        ("a[0]", ""),
        ("a[0].b", "b"),
    ],
)
def test_last_name_of_a_reference(text: str, name: str) -> None:
    assert last_name(parsed(text)) == name


@given(text=st.text(max_size=80), limit=st.integers(4, 60))
def test_printable_is_one_short_line(text: str, limit: int) -> None:
    line = printable(text, limit)

    assert line.isprintable()
    assert len(line) <= 10 * limit
    assert line == text or len(text) > limit or not text.isprintable()


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("m = ot.map('a.b', rows)", "m"),
        ("rows = [1]\nm = k = ot.map('a.b', rows)\nm", "m"),
        ("m = ot.map('a.c', rows)", ""),
        ("m = ot.map(tool, rows)", ""),
        ("m = ot.map('a.b', rows)\nn = ot.map('a.b', rows)", ""),
        ("m = len(ot.map('a.b', rows))", ""),
        ("m[0] = ot.map('a.b', rows)", ""),
        ("ot.map('a.b', rows)", ""),
        ("m = ot.map()", ""),
        ("m = ot.map('a.b', rows", ""),
        ("", ""),
    ],
)
def test_assigned_name_is_that_of_the_one_call(cell: str, name: str) -> None:
    assert assigned_name(cell, "map", "a.b") == name
