"""Tools as modules: every stub is Python, has each tool once, and says no more than the schemas
do."""

from __future__ import annotations

import ast
import keyword
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onetool_ipy.core.tool import FunctionFacts, ServerFacts, ToolSpec
from onetool_ipy.llm.programs.stubs import tool_modules

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True) | st.sampled_from(
    ["class", "time", "__x", "a-b"]
)
KEYS = st.text(min_size=1, max_size=8)
SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")] + [{}, True]
    ),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
        | st.builds(
            lambda fields: {"type": "object", "properties": fields},
            st.dictionaries(KEYS, inner, max_size=4),
        )
    ),
    max_leaves=8,
)


def spec(name: str, parameters: Any = None, **fields: Any) -> ToolSpec:
    parameters = {"type": "object", "properties": {}} if parameters is None else parameters
    return ToolSpec(
        **{"name": name, "description": "Do it.", "parameters": parameters, "run": len, **fields}
    )


def functions(text: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
@given(
    names=st.lists(st.tuples(NAMES, NAMES), max_size=6, unique=True),
    schema=SCHEMAS,
    fields=st.dictionaries(KEYS, SCHEMAS, max_size=4),
    words=st.text(max_size=30),
)
@example(names=[("t", "_2nd-try"), ("t", "__")], schema=True, fields={}, words="x")
def test_every_stub_is_python_and_has_each_tool_once(
    names: list[tuple[str, str]], schema: Any, fields: dict[str, Any], words: str
) -> None:
    output = schema if isinstance(schema, dict) else None
    parameters = {"type": "object", "properties": fields, "required": list(fields)[:1]}
    description = words if words.strip() else "x"
    specs = [
        spec(f"{pack}.{tool}", parameters, output_schema=output, description=description)
        for pack, tool in names
    ]

    modules = tool_modules(specs, lambda _spec: False)

    assert sorted(each.name for each in modules.tools.values()) == sorted(
        each.name for each in specs
    )
    for label, module in modules.modules.items():
        assert label.isidentifier()
        assert not keyword.iskeyword(label)
        written = functions(module.stub)
        assert set(written) == set(module.functions)
        assert len(module.functions) == len(set(module.functions))
        assert all(
            not name.startswith("_") and f"{label}.{name}" in modules.tools for name in written
        )


def test_pack_with_the_name_of_a_python_module_is_called_otherwise() -> None:
    modules = tool_modules([spec("time.now"), spec("crm.find")], lambda _spec: False)

    assert set(modules.modules) == {"time_tools", "crm"}
    assert modules.tools["time_tools.now"].name == "time.now"


def test_function_that_asks_says_so() -> None:
    text = tool_modules(
        [spec("crm.find"), spec("crm.drop")], lambda each: each.name == "crm.drop"
    ).text()

    assert '"""Do it."""' in text
    assert '"""Do it. (asks the person)"""' in text
    assert text.startswith("# import crm\n")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "enum": ["a"]}, "str"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "float"),
        ({"anyOf": [{"type": "number"}, {"type": "string"}]}, "Any"),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "list['FindRow']",
        ),
        (None, "Any"),
        ({}, "Any"),
    ],
)
def test_result_has_the_type_of_its_schema(schema: Any, kind: str) -> None:
    stub = (
        tool_modules([spec("crm.find", output_schema=schema)], lambda _spec: False)
        .modules["crm"]
        .stub
    )

    returns = functions(stub)["find"].returns
    assert returns is not None
    assert ast.unparse(returns) == kind


def test_value_that_a_server_may_have_wrapped_is_not_described() -> None:
    schema = {"type": "object", "properties": {"result": {"type": "string"}}}
    own = spec("crm.find", output_schema=schema)
    served = spec("shop.find", output_schema=schema, server_facts=ServerFacts(server="shop"))

    modules = tool_modules([own, served], lambda _spec: False).modules

    assert "class FindRow" in modules["crm"].stub
    assert "class" not in modules["shop"].stub


def test_rest_of_the_positions_is_written_with_a_star() -> None:
    properties = {"a": {"type": "string"}, "more": {"type": "array"}, "b": {"type": "integer"}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["a"],
        "additionalProperties": False,
    }
    function = FunctionFacts(positional=("a", "*more"))

    modules = tool_modules([spec("crm.find", parameters, function=function)], lambda _spec: False)

    assert "def find(a: str, *more: Any, b: int = ...)" in modules.modules["crm"].stub


def test_arguments_without_a_default_come_first() -> None:
    properties = {"b": {"type": "integer"}, "a": {"type": "string"}, "class": {"type": "boolean"}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["a"],
        "additionalProperties": False,
    }

    stub = tool_modules([spec("crm.find", parameters)], lambda _spec: False).modules["crm"].stub

    arguments = functions(stub)["find"].args
    assert [each.arg for each in arguments.args] == ["a", "b", "class_"]
    assert len(arguments.defaults) == 2
    assert arguments.kwarg is None
