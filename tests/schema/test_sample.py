"""Sample arguments fit their schema, also where it has a pattern."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onetool_ipy.schema.sample import samples


def fits(schema: dict[str, Any]) -> list[bool]:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return [jsonschema_rs.is_valid(whole, args) for _, args in samples(whole)]


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^[a-z]+$", "minLength": 10},
        {"pattern": "^[a-z]*$", "minLength": 30, "maxLength": 60},
        {"pattern": "^[a-z ]+$", "maxLength": 3},
        {"pattern": "^\\d+$", "minLength": 5, "maxLength": 6},
        {"pattern": "^[A-Z][a-z]*$", "minLength": 2},
        {"pattern": "Z$", "format": "date-time"},
    ],
)
def test_a_sample_matches_the_pattern_and_has_the_length(schema: dict[str, Any]) -> None:
    assert all(fits({"type": "string", **schema}))


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?=.*\\d)(?=.*[A-Z]).{8,}$",
        "[",
        "^\\p{L}{3}$",
        "^((a{1000}){1000}){1000}$",
        "(" * 3000,
        "^(a+)+$(?!x)",
        "^(?!)$",
        "a{99999999999}",
    ],
)
def test_a_pattern_that_is_not_understood_gives_plain_text(pattern: str) -> None:
    """Nothing raises, and nothing takes long: an expression of others is never run by Python."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": pattern}},
        "required": ["a"],
    }

    assert all(isinstance(args["a"], str) for _, args in samples(schema))


WHOLE = st.integers(-50, 50)
BOUND = st.one_of(
    WHOLE, st.floats(-50, 50, allow_nan=False), st.sampled_from([1, 0, 2**53, -(10**18), 1e300])
)


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["integer", "number"]))
    keys = st.sampled_from(["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"])
    bounds = draw(st.dictionaries(keys, WHOLE if kind == "integer" else BOUND, max_size=2))
    step = (
        draw(st.sampled_from([{}, {}, {"multipleOf": 1}, {"multipleOf": 5}]))
        if kind == "integer"
        else {}
    )
    schema = {"type": kind, **bounds, **step}
    low = max(bounds.get("minimum", -(10**400)), bounds.get("exclusiveMinimum", -(10**400)))
    high = min(bounds.get("maximum", 10**400), bounds.get("exclusiveMaximum", 10**400))
    # A naive twin says whether there is a number at all.
    if kind == "integer":
        few = range(-120, 121)
        assume(any(jsonschema_rs.is_valid(schema, number) for number in few))
    else:
        assume(low < high or (low == high and jsonschema_rs.is_valid(schema, float(low))))
    return schema


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    least = draw(st.integers(0, 300))
    most = draw(st.integers(least, 400))
    lengths = {"minLength": least, "maxLength": most}
    chosen = draw(st.sets(st.sampled_from([*lengths])))
    return {"type": "string", **{key: lengths[key] for key in chosen}}


@st.composite
def patterns(draw: st.DrawFn) -> dict[str, Any]:
    pieces = st.sampled_from(["a", "[b-d]", "\\d", "[^x]", "(e|f)", "(?:gh)", "\\w"])
    repeats = st.sampled_from(["", "+", "*", "?", "{2}", "{1,3}"])
    parts = draw(st.lists(st.tuples(pieces, repeats), min_size=1, max_size=6))
    return {"type": "string", "pattern": "^" + "".join(map("".join, parts)) + "$"}


def lists(items: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    keys = st.sampled_from([("minItems",), ("maxItems",), ("minItems", "maxItems")])
    sizes = st.builds(dict.fromkeys, keys, st.integers(0, 5))
    return st.builds(lambda inner, size: {"type": "array", "items": inner, **size}, items, sizes)


PLAIN = st.one_of(
    numbers(), texts(), patterns(), st.just({"type": "boolean"}), st.just({"enum": ["x", 2, None]})
)


@pytest.mark.slow
@given(schema=st.one_of(PLAIN, lists(PLAIN)))
def test_every_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert all(fits(schema)), list(
        samples({"type": "object", "properties": {"a": schema}, "required": ["a"]})
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "exclusiveMaximum": 1},
        {"type": "integer", "maximum": -5},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-9},
        {"type": "number", "minimum": 1.5, "exclusiveMaximum": 1.75},
        {"type": "integer", "minimum": 1.5},
        {"type": "integer", "multipleOf": 7, "minimum": 8},
        {"type": "array", "maxItems": 0},
        {"type": "string", "maxLength": 3.0},
    ],
)
def test_sample_at_a_bound_fits(schema: dict[str, Any]) -> None:
    assert all(fits(schema))


def test_sample_of_a_schema_that_nothing_fits_is_given_quickly() -> None:
    """No number, and no text of this length, is made; a tool's schema may say anything."""
    schemas = {
        "a": {"type": "integer", "minimum": 2, "maximum": 1},
        "b": {"type": "string", "minLength": 10**15},
    }

    ((_, args), *_) = samples({"type": "object", "properties": schemas, "required": ["a", "b"]})

    assert isinstance(args["a"], int)
    assert len(args["b"]) <= 10_000


def test_edge_values_are_empty_where_that_fits() -> None:
    kinds = {
        "text": {"type": "string"},
        "items": {"type": "array", "items": {}},
        "flag": {"type": "boolean"},
        "count": {"type": "integer"},
        "word": {"type": "string", "minLength": 1},
        "choice": {"enum": ["first", "last"]},
    }

    edges = dict(samples({"type": "object", "properties": kinds}))["edge values"]

    assert edges.pop("word")
    assert edges == {"text": "", "items": [], "flag": False, "count": 0, "choice": "last"}
