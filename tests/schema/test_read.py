"""JSON Schema in words: the 58 schemas of real MCP servers, and hostile ones."""

from __future__ import annotations

import ast
import inspect
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import InvalidTool
from onetool_ipy.schema.check import Checker
from onetool_ipy.schema.read import (
    argument_lines,
    identifier,
    params,
    python_names,
    signature_of,
    signature_text,
    type_text,
    usage_text,
)
from tests.core.support import short

_FOLDER = Path(__file__).resolve().parents[1] / "data" / "mcp_schemas"
REAL = {
    f"{path.stem}.{tool['name']}": tool["inputSchema"]
    for path in sorted(_FOLDER.glob("*.json"))
    for tool in json.loads(path.read_text(encoding="utf-8"))
}


def _parse(name: str, parameters: Any) -> ast.FunctionDef:
    """The signature as Python reads it; dots and dashes of the tool's name are not its concern."""
    text = signature_text("f", parameters)
    made = ast.parse(f"def {text}: pass").body[0]
    assert isinstance(made, ast.FunctionDef), name
    return made


def test_all_real_schemas_are_here() -> None:
    assert len(REAL) == 58


@pytest.mark.parametrize("name", REAL)
def test_a_real_schema_gives_a_signature_that_python_can_parse(name: str) -> None:
    parameters = REAL[name]
    listed, required = parameters.get("properties", {}), set(parameters.get("required", ()))

    arguments = _parse(name, parameters).args

    names = [a.arg for a in arguments.args]
    count = len(names) - len(arguments.defaults)
    assert set(names) == {identifier(n) for n in listed}
    assert set(names[:count]) == {identifier(n) for n in required}
    assert {p.name for p in params(parameters) if p.required} == required


@pytest.mark.parametrize("name", REAL)
def test_a_real_schema_gives_a_line_for_each_argument(name: str) -> None:
    lines = argument_lines(REAL[name])

    listed = REAL[name].get("properties", {})
    assert sorted(line.partition(": ")[0] for line in lines) == sorted(listed)
    for argument, sub in listed.items():
        if sub.get("description"):
            assert f"{argument}: {' '.join(sub['description'].split())}" in lines


@pytest.mark.parametrize("name", REAL)
def test_a_real_schema_can_be_checked_against(name: str) -> None:
    checker = Checker(REAL[name])

    required = REAL[name].get("required", [])
    if required:
        with pytest.raises(Exception, match="missing argument"):
            checker.check({}, name)
    else:
        assert checker.check({}, name) == {}


@pytest.mark.parametrize(
    ("count", "required", "shown"),
    [
        (2, [], ["a0", "a1"]),
        (30, [], ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "..."]),
        (30, ["a8", "a9"], ["a8", "a9", "a0", "a1", "a2", "a3", "a4", "a5", "..."]),
        (30, [f"a{n}" for n in range(30)], [f"a{n}" for n in range(30)]),
    ],
)
def test_a_usage_is_short_and_has_all_that_is_required(
    count: int, required: list[str], shown: list[str]
) -> None:
    properties = {f"a{n}": {"type": "string"} for n in range(count)}
    parameters = {"type": "object", "properties": properties, "required": required}

    text = usage_text("pack.tool", parameters)

    assert [part.partition(":")[0] for part in text[len("pack.tool(") : -1].split(", ")] == shown
    rest = {**parameters, "properties": {}, "required": [], "additionalProperties": True}
    assert usage_text("pack.tool", rest) == "pack.tool(**arguments)"


def test_the_example_of_spec_001() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "repo": {"type": "string"},
            "query": {"type": "string", "description": "What."},
        },
        "required": ["query"],
    }

    quoted = signature_text("github.search", parameters, unknown="'...'")
    assert quoted == "github.search(query: str, repo: str = '...')"
    assert (
        signature_text("github.search", parameters) == "github.search(query: str, repo: str = ...)"
    )
    assert argument_lines(parameters) == ["query: What.", "repo: str"]


@pytest.mark.parametrize(
    ("sub", "text"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": ["null", "integer", "string"]}, "int | str | None"),
        (
            {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}}]},
            "list[float] | None",
        ),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", 1, True, None]}, "Literal['a', 1, True, None]"),
        ({"enum": ["a | b", "c]"], "type": ["string", "null"]}, "Literal['a | b', 'c]']"),
        ({"enum": [1.5, [1], {"a": 1}, None]}, "float | list | dict | None"),
        ({"const": "x"}, "Literal['x']"),
        ({"enum": list(range(10_000))}, f"Literal[{', '.join(map(str, range(20)))}, ...]"),
        ({"enum": ["x" * 10_000]}, "Literal[...]"),
        ({"enum": [1 << 40_000]}, "Literal[...]"),
        ({"type": "array"}, "list"),
        ({"type": "array", "items": True}, "list[Any]"),
        ({"type": "array", "items": {"$ref": "#/$defs/T"}}, "list[bool]"),
        ({"type": "object", "properties": {"a": {}}}, "dict"),
        ({"properties": {"a": {}}}, "dict"),
        ({"allOf": [{"$ref": "#/$defs/T"}, {"description": "x"}]}, "bool"),
        ({"$ref": "#/$defs/T"}, "bool"),
        ({"$ref": "#named"}, "int"),
        ({"$ref": "#/$defs/a~1b%20c"}, "str"),
        ({"$ref": "#/$defs/list/anyOf/1"}, "int"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "#unnamed"}, "Any"),
        ({"$ref": "http://127.0.0.1:9/x"}, "Any"),
        ({"$ref": 5}, "Any"),
        ({"type": "strange"}, "Any"),
        ({"type": 5}, "Any"),
        ({"anyOf": "no list"}, "Any"),
        ({}, "Any"),
        (True, "Any"),
        (None, "Any"),
        ([], "Any"),
    ],
    ids=short,
)
def test_a_schema_stands_for_a_python_type(sub: Any, text: str) -> None:
    defs = {
        "T": {"type": "boolean"},
        "named": {"$anchor": "named", "type": "integer"},
        "a/b c": {"type": "string"},
        "list": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    }
    root = {"type": "object", "properties": {"x": sub}, "$defs": defs}

    assert type_text(sub, root) == text
    _parse("x", root)


def _nested(depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        made = {
            "type": "object",
            "properties": {"a": made},
            "items": made,
            "anyOf": [made, made],
            "allOf": [made],
        }
    return made


_SELF = {"$ref": "#"}
HOSTILE: dict[str, Any] = {
    "ref to itself": {"type": "object", "properties": {"a": _SELF}},
    "refs in a ring": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "wide recursion": {
        "type": "object",
        "properties": {"a": {"anyOf": [_SELF] * 50}},
        "anyOf": [_SELF] * 50,
    },
    "wide recursion by allOf": {
        "type": "object",
        "properties": {"a": {"allOf": [_SELF] * 50}},
        "allOf": [_SELF] * 50,
    },
    "3,000 levels": {"type": "object", "properties": {"a": _nested(3_000)}},
    "no properties": {"type": "object"},
    "empty properties": {"type": "object", "properties": {}},
    "null properties": {"type": "object", "properties": None},
    "list of properties": {"type": "object", "properties": ["a"]},
    "boolean properties": {"type": "object", "properties": {"a": True, "b": False}},
    "required without property": {"type": "object", "required": ["b", "a", "b"]},
    "required is no list": {"type": "object", "properties": {"a": {}}, "required": "a"},
    "required holds odd things": {
        "type": "object",
        "properties": {"a": {}},
        "required": [1, None, "a"],
    },
    "names python cannot spell": {
        "type": "object",
        "properties": {
            n: {}
            for n in (
                "a-b",
                "a_b",
                "a.b",
                "1",
                "",
                "class",
                "ä é",
                "ﬁ",
                "fi",
                "x\ny",
                "None",
                "𝐚",
                "a",
            )
        },
    },
    "names that are no text": {"type": "object", "properties": {1: {}, None: {}}},
    "odd defaults": {
        "type": "object",
        "properties": {
            "a": {"default": "'\"\n"},
            "b": {"default": "x" * 10_000},
            "c": {"default": object()},
            "d": {"default": float("inf")},
            "e": {"default": [float("nan")]},
            "f": {"default": 1 << 40_000},
            "g": {"default": {"a": [1, None]}},
        },
    },
    "odd words": {
        "type": "object",
        "properties": {"a": {"description": ["x"], "title": 5}, "b": {"title": None}},
    },
    "true": True,
    "nothing": None,
    "a list": [1],
    "text": "string",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_hostile_schema_never_fails_and_never_takes_long(name: str) -> None:
    parameters = HOSTILE[name]
    began = time.process_time()

    signature = _parse(name, parameters)
    compile(f"def {signature_text('f', parameters)}: pass", "x", "exec")
    lines = argument_lines(parameters)

    assert len(lines) == len(signature.args.args)
    assert list(signature_of(parameters).parameters)[: len(lines)] == [
        a.arg for a in signature.args.args
    ]
    assert time.process_time() - began < 5


def test_names_python_cannot_spell_stay_apart_and_exact_ones_keep_theirs() -> None:
    known = params(
        {"type": "object", "properties": {name: {} for name in ("a-b", "a_b", "a.b", "class")}}
    )

    assert python_names(known) == {"a-b": "a_b_2", "a_b": "a_b", "a.b": "a_b_3", "class": "class_"}


def test_required_arguments_come_first_and_keep_their_order() -> None:
    parameters = {
        "type": "object",
        "properties": {name: {} for name in "abcd"},
        "required": ["d", "b"],
    }

    assert [p.name for p in params(parameters)] == ["b", "d", "a", "c"]


def test_what_all_of_requires_is_required_and_what_one_option_requires_is_not() -> None:
    parameters = {
        "type": "object",
        "allOf": [{"properties": {"a": {}}, "required": ["a"]}],
        "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"properties": {"c": {}}}],
    }

    assert {p.name: p.required for p in params(parameters)} == {"a": True, "b": False, "c": False}


def test_a_title_that_only_repeats_the_name_is_no_description() -> None:
    parameters = {
        "properties": {
            "page_size": {"title": "Page Size", "type": "integer"},
            "q": {"title": "Your query"},
        }
    }

    assert argument_lines(parameters) == ["page_size: int", "q: Your query"]


def test_the_python_signature_shows_types_and_defaults() -> None:
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer", "default": 5}, "a-b": {"type": "string"}, "o": {}},
        "required": ["a-b"],
        "additionalProperties": True,
    }

    assert str(signature_of(parameters)) == "(a_b: str, n: int = 5, o: Any = ..., **arguments)"


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "required",
                        "anyOf",
                        "allOf",
                        "enum",
                        "$ref",
                        "items",
                        "default",
                        "a",
                        "const",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_whatever_is_given_as_a_schema_can_be_read(parameters: Any) -> None:
    _parse("any", parameters)
    assert isinstance(signature_of(parameters), inspect.Signature)


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "strange"},
        {"properties": {"a": {"type": "strin"}}},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": 5},
        {"required": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": "file:///etc/passwd"},
        {"$schema": "http://example.com/own"},
        {"type": "object", "properties": {"a": _nested(3_000)}},
        {1: 2},
        {"enum": {1}},
    ],
    ids=short,
)
def test_a_schema_that_is_none_cannot_be_compiled(parameters: Any) -> None:
    with pytest.raises(InvalidTool, match="Not a JSON Schema"):
        Checker(parameters)


def test_the_place_of_a_fault_in_a_schema_is_named() -> None:
    with pytest.raises(InvalidTool, match="/properties/a/type"):
        Checker({"properties": {"a": {"type": "strin"}}})
