"""Argument texts become values by the schema, whatever shape that has; expressions are evaluated in
the cell."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import read_arguments
from tests.faces.line.test_grammar import SCHEMA, read


def test_numbers_that_are_none_fit_a_number_only() -> None:
    """NaN and Infinity are numbers where text does not fit."""
    assert math.isnan(read("t ratio=NaN")["ratio"])
    assert read("t ratio=-Infinity") == {"ratio": -math.inf}
    assert read("t any=NaN maybe=Infinity") == {"any": "NaN", "maybe": "Infinity"}


def test_an_expression_gives_the_object_itself() -> None:
    """`{expression}` hands over the very object, never a copy."""
    thing = object()
    for text in ("q={thing}", "(q=thing)", "(thing)", "{'q': thing}"):
        got = read_arguments(text, SCHEMA, lambda source: eval(source, {"thing": thing}))
        assert got["q"] is thing


def test_an_error_of_an_expression_keeps_its_cause() -> None:
    """The user's own exception is the cause, for `%tool why`."""
    with pytest.raises(UsageProblem) as caught:
        read("t q={1/0}")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interrupt_passes_through() -> None:
    """Stop while an expression runs is not an error of the line."""

    def stop(source: str) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_arguments("q={x}", SCHEMA, stop)


def test_a_usage_problem_of_evaluate_is_kept() -> None:
    """What the magic itself refuses is not wrapped again."""

    def refuse(source: str) -> object:
        raise UsageProblem("no")

    with pytest.raises(UsageProblem, match=r"^no$"):
        read_arguments("q={x}", SCHEMA, refuse)


def test_call_form_evaluates_multi_line_and_named_expressions() -> None:
    """Python inside the brackets may be any expression, over lines too."""
    assert read("t(q='a',\n  count=[1,\r\n 2][0], ratio=1 +\n 2, any=(y := 5))") == {
        "q": "a",
        "count": 1,
        "ratio": 3,
        "any": 5,
    }


def test_a_lone_generator_reaches_the_first_argument() -> None:
    """`NAME(i for i in values)` is one argument."""
    assert list(read("t(i for i in values)")["q"]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        pytest.param({}, "a=5 b=x", {"a": 5, "b": "x"}, id="nothing known"),
        pytest.param({"properties": None, "required": 5}, "a=5", {"a": 5}, id="nonsense"),
        pytest.param({"properties": {"a": True}}, "a=5", {"a": 5}, id="true"),
        pytest.param({"properties": {"a": False}}, "a=5", {"a": 5}, id="false"),
        pytest.param({"properties": {"a": {"$ref": "#/nowhere"}}}, "a=5", {"a": 5}, id="dangling"),
        pytest.param(
            {"properties": {"a": {"$ref": "https://x.org/s.json"}}}, "a=5", {"a": 5}, id="remote"
        ),
        pytest.param({"properties": {"a": {"$ref": "#/properties/a"}}}, "a=5", {"a": 5}, id="loop"),
        pytest.param(
            {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]}}},
            "a=5",
            {"a": "5"},
            id="loop with a way out",
        ),
        pytest.param(
            {"$ref": "#/$defs/In", "$defs": {"In": {"properties": {"a": {"type": "string"}}}}},
            "a=5",
            {"a": "5"},
            id="root is a reference",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]},
            "5",
            {"a": "5"},
            id="allOf, bare word",
        ),
        pytest.param(
            {"additionalProperties": {"type": "string"}}, "a=5", {"a": "5"}, id="additional"
        ),
        pytest.param({"properties": {"a": {"const": "5"}}}, "a=5", {"a": "5"}, id="const"),
        pytest.param({"properties": {"a": {"const": 5}}}, "a=5", {"a": 5}, id="const number"),
        pytest.param(
            {"properties": {"a": {"type": "string", "allOf": [{"type": "integer"}]}}},
            "a=5",
            {"a": 5},
            id="contradiction",
        ),
        pytest.param(
            {
                "properties": {"a": {"$ref": "#/$defs/a~1b%20c"}},
                "$defs": {"a/b c": {"type": "string"}},
            },
            "a=5",
            {"a": "5"},
            id="escaped pointer",
        ),
        pytest.param(
            {"properties": {"a": {"enum": [True, "1", 2]}}}, "a=1", {"a": "1"}, id="true is not 1"
        ),
        pytest.param(
            {"properties": {"a": {"type": ["number", "string"]}}},
            "a=5",
            {"a": 5},
            id="5 is a number",
        ),
        pytest.param(
            {"properties": {"b": {}, "a": {}}}, "('x', 5)", {"b": "x", "a": 5}, id="order"
        ),
        pytest.param(
            {"properties": {"b": {}, "a": {}}, "required": ["a"]},
            "('x', 5)",
            {"a": "x", "b": 5},
            id="required first",
        ),
        pytest.param({"properties": {"a": {}}}, "x", {"a": "x"}, id="the only argument"),
    ],
)
def test_a_schema_of_any_shape_is_survived(
    schema: dict[str, Any], text: str, expected: dict[str, Any]
) -> None:
    """Hostile and odd schemas: references, loops, nonsense."""
    assert read_arguments(text, schema, eval) == expected


def test_a_deep_or_wide_schema_takes_no_time() -> None:
    """A schema that doubles at each of 60 references, and 5,000 levels of anyOf."""
    doubling: dict[str, Any] = {
        str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)
    }
    schema = {
        "properties": {"a": {"$ref": "#/$defs/0"}},
        "$defs": {**doubling, "60": {"type": "string"}},
    }
    assert read_arguments("a=5", schema, eval)["a"] in ("5", 5)
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    assert read_arguments("a=5", {"properties": {"a": deep}}, eval)["a"] in ("5", 5)


def test_a_backslash_in_python_text_gives_no_warning_of_ours() -> None:
    """Reading a value never warns about a line that the user did not write."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_arguments(r"(q='\d')", SCHEMA, len) == {"q": 4}
        assert read_arguments(r"values=['\d']", SCHEMA, len) == {"values": ["\\d"]}
