"""Tools in each provider's words, judged by the providers' own types over every schema we have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import UnknownProvider
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.llm.formats import PROVIDERS, OfferedTool, declare, offers
from onetool_ipy.llm.wire import Gemini, ModelRequest
from onetool_ipy.toolbox import Toolbox
from tests.llm import provider_types

SCHEMAS = Path(__file__).parents[1] / "data" / "mcp_schemas"
REAL = [
    (f"{path.stem}.{tool['name']}", tool["inputSchema"])
    for path in sorted(SCHEMAS.glob("*.json"))
    for tool in json.loads(path.read_text(encoding="utf-8"))
]


def _args(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


HOSTILE: dict[str, dict[str, Any]] = {
    "bare": {"type": "object"},
    "any": _args(x={}, y=True, z=False),
    "type list": _args(x={"type": ["string", "null", "integer"]}, y={"type": ["null"]}),
    "enums": _args(
        a={"enum": [1, 2]},
        b={"enum": ["", "x"]},
        c={"enum": ["x", None]},
        d={"const": 3},
        e={"const": "on"},
    ),
    "enum typed": _args(
        a={"type": "integer", "enum": [1, 2], "description": "How many."}, b={"enum": []}
    ),
    "ref": {**_args(x={"$ref": "#/$defs/P"}), "$defs": {"P": _args(y={"type": "number"})}},
    "ref to itself": {
        **_args(x={"$ref": "#/$defs/N"}),
        "$defs": {"N": _args(next={"$ref": "#/$defs/N"})},
    },
    "ref to the top": _args(x={"$ref": "#"}),
    "ref in a ring": {
        **_args(x={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "ref nowhere": _args(x={"$ref": "#/$defs/None"}),
    "choices": _args(
        x={"oneOf": [{"type": "string"}, {"type": "integer"}]}, y={"anyOf": [{"type": "null"}]}
    ),
    "all": _args(x={"allOf": [_args(a={"type": "string"}), {**_args(b={}), "required": ["b"]}]}),
    "top choice": {
        "type": "object",
        "oneOf": [{**_args(a={}), "required": ["a"]}, _args(b={"type": "string"})],
    },
    "top all": {
        "type": "object",
        "allOf": [{"$ref": "#/$defs/P"}],
        "$defs": {"P": _args(y={"type": "number"})},
    },
    "top odd": {
        **_args(a={}),
        "enum": [{}],
        "not": {"required": ["b"]},
        "if": True,
        "then": {},
        "$schema": "x",
    },
    "tuples": _args(
        a={"type": "array", "items": [{"type": "integer"}, {"type": "integer"}]},
        b={"prefixItems": [{}, {}]},
    ),
    "arrays": _args(
        a={"type": "array"},
        b={"type": "array", "items": {"type": "array"}},
        c={"items": {"type": "string"}},
    ),
    "bounds": _args(
        a={"type": "number", "exclusiveMinimum": 0, "multipleOf": 2},
        b={"type": "string", "format": "uri"},
    ),
    "required unknown": {**_args(a={"type": "string"}), "required": ["a", "b"]},
    "odd words": _args(
        **{"a b": {"type": "string"}, "$x": {"type": "string"}, "type": {"type": "string"}}
    ),
    "names of keywords": _args(properties=_args(items={"type": "string"}), enum={"type": "array"}),
    "free": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "patternProperties": {"^x": {}},
    },
    "deep": _args(
        x={
            "type": "array",
            "items": {"type": "array", "items": {"type": "array", "items": {"type": "array"}}},
        }
    ),
    "defaults": _args(
        a={"type": "string", "default": None}, b={"type": "array", "items": {}, "default": []}
    ),
    "dependent": {
        **_args(a={}),
        "dependentRequired": {"a": ["b"]},
        "unevaluatedProperties": False,
        "minProperties": 1,
    },
}
_WEB = [f"#/$defs/N{i}" for i in range(12)]
HOSTILE["refs without end"] = {
    **_args(x={"$ref": _WEB[0]}),
    "$defs": {
        f"N{i}": _args(**{f"p{j}": {"$ref": ref} for j, ref in enumerate(_WEB)}) for i in range(12)
    },
}
HOSTILE["choices without end"] = {
    "type": "object",
    "anyOf": [{"$ref": ref} for ref in _WEB],
    "$defs": {f"N{i}": {"anyOf": [{"$ref": ref} for ref in _WEB]} for i in range(12)},
}


def _nested(depth: int) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        out = _args(x=out)
    return out


HOSTILE |= {"sixty deep": _nested(60), "two hundred deep": _nested(200)}

ALL = [*REAL, *HOSTILE.items()]


def _offer(name: str, parameters: dict[str, Any]) -> OfferedTool:
    return OfferedTool("tool", f"What {name} does.", parameters, name)


@pytest.fixture(scope="module")
def box() -> Any:
    with open_toolbox(env={}) as opened:
        yield opened


def test_there_are_58_real_schemas() -> None:
    assert len(REAL) == 58


@pytest.mark.parametrize(("name", "schema"), ALL, ids=[name for name, _ in ALL])
def test_every_schema_is_what_each_provider_takes(name: str, schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    for provider in PROVIDERS:
        (made,) = declare(provider, [_offer(name, schema)])
        _JUDGES[provider](made)
        assert len(json.dumps(made, allow_nan=False)) < 200_000
    assert json.dumps(schema) == before, "the tool's own schema is not touched"


@pytest.mark.parametrize(("name", "schema"), ALL, ids=[name for name, _ in ALL])
def test_geminis_raw_schema_is_taken_too(name: str, schema: dict[str, Any]) -> None:
    body = Gemini().body(
        ModelRequest("https://x", "m", (), (_offer(name, schema),), None, is_streamed=False)
    )

    (tool,) = body["tools"]
    provider_types.gemini().Tool.model_validate(tool)


@pytest.mark.parametrize(("name", "schema"), REAL, ids=[name for name, _ in REAL])
def test_what_fits_a_real_schema_fits_what_the_model_is_told(
    name: str, schema: dict[str, Any]
) -> None:
    """A schema is loosened, never tightened: every argument is still named, and no other is
    needed."""
    (openai,) = declare("openai", [_offer(name, schema)])
    (gemini,) = declare("gemini", [_offer(name, schema)])

    for told in (openai["function"]["parameters"], gemini["functionDeclarations"][0]["parameters"]):
        assert list(told["properties"]) == list(schema.get("properties", {}))
        assert set(told.get("required", ())) == set(schema.get("required", ()))


@pytest.mark.spec("003/Provider Format Conversion/Convert to OpenAI format")
def test_openai(box: Toolbox) -> None:
    (made,) = box.formats("openai", allowed=["fs.read_file"])

    spec = box.registry.require("fs.read_file")
    assert made.keys() == {"type", "function"}
    assert made["type"] == "function"
    assert made["function"] == {
        "name": "fs_read_file",
        "description": spec.description,
        "parameters": spec.parameters,
    }
    for tool in box.formats("openai"):
        _judge_openai(tool)


@pytest.mark.spec("003/Provider Format Conversion/Convert to Ollama format")
def test_ollama(box: Toolbox) -> None:
    assert box.formats("ollama") == box.formats("openai")
    for tool in box.formats("ollama"):
        _judge_ollama(tool)


@pytest.mark.spec("003/Provider Format Conversion/Convert to Gemini format")
def test_gemini(box: Toolbox) -> None:
    (made,) = box.formats("gemini", allowed=["fs.list_dir"])

    (declared,) = made["functionDeclarations"]
    assert made.keys() == {"functionDeclarations"}
    assert declared.keys() == {"name", "description", "parameters"}
    assert declared["name"] == "fs_list_dir"
    assert declared["parameters"]["type"] == "object"
    assert declared["parameters"]["required"] == ["path"]
    assert declared["parameters"]["properties"]["recursive"]["type"] == "boolean"
    every = box.formats("gemini")
    assert len(every) == len(box.registry.list()), "one for each tool"
    for tool in every:
        _judge_gemini(tool)


def test_anthropic(box: Toolbox) -> None:
    (made,) = box.formats("anthropic", allowed=["fs.read_file"])

    assert made.keys() == {"name", "description", "input_schema"}
    for tool in box.formats("anthropic"):
        _judge_anthropic(tool)


@pytest.mark.spec("003/Provider Format Conversion/Filter by allowed tools")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_only_allowed_tools_in_their_own_order(box: Toolbox, provider: str) -> None:
    names = [spec.name for spec in box.registry.list()]
    asked = ["tools.echo", "fs.read_file", "no.such", "time.now", "time.now"]

    found = [_name(tool) for tool in box.formats(provider, allowed=asked)]

    expected = [name.replace(".", "_") for name in names if name in asked]
    assert found == expected
    assert len(found) == 3
    assert box.formats(provider, allowed=[]) == []
    assert [_name(tool) for tool in box.formats(provider, allowed=["fs.*"])] == [
        "fs_list_dir",
        "fs_read_file",
    ]
    assert len(box.formats(provider)) == len(names)


@pytest.mark.spec("003/Provider Format Conversion/Unknown provider format")
@pytest.mark.parametrize("provider", ["openia", "", "OpenAI", "cohere", None, 7])
def test_an_unknown_provider_is_refused_by_name(box: Toolbox, provider: Any) -> None:
    with pytest.raises(
        UnknownProvider, match=rf"^The provider {provider!r} is not supported\."
    ) as caught:
        box.formats(provider)

    assert isinstance(caught.value, ValueError)
    assert "anthropic, gemini, ollama, openai" in caught.value.hint


def _spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="d", parameters={"type": "object"}, run=lambda _: None)


def test_wire_names_are_judged_over_all_registered_tools() -> None:
    """Two whose wire names collide are told apart, also when only one of them is offered."""
    all_names = ["a.b_c", "a_b.c", "a.d"]

    (alone,) = offers([_spec("a.b_c")], among=all_names)
    both = offers([_spec("a_b.c"), _spec("a.b_c")], among=all_names)

    assert alone.name != "a_b_c"
    assert alone.name.startswith("a_b_c_")
    assert both[1] == alone
    assert len({offer.name for offer in both}) == 2
    assert {offer.tool for offer in both} == {"a.b_c", "a_b.c"}


def test_a_tool_that_is_off_is_not_offered(tmp_path: Path) -> None:
    with open_toolbox(env={"ONETOOL_STATE": str(tmp_path)}) as opened:
        opened.registry.register(_spec("x.on"))
        opened.registry.register(_spec("x.off").replace(disabled="it needs a key"))

        assert [_name(tool) for tool in opened.formats("openai", allowed=["x.*"])] == ["x_on"]


def test_a_long_description_is_cut_where_openai_wants_it() -> None:
    (made,) = declare("openai", [OfferedTool("t", "x" * 3000, {"type": "object"}, "t.t")])

    assert len(made["function"]["description"]) == 1024
    assert made["function"]["description"].endswith("...")


def test_what_geminis_subset_cannot_say_is_said_in_words() -> None:
    schema = _args(
        n={"type": "integer", "enum": [1, 2], "description": "How many."},
        t={"type": ["string", "null"]},
    )

    (made,) = declare("gemini", [_offer("x", schema)])

    properties = made["functionDeclarations"][0]["parameters"]["properties"]
    assert properties["n"] == {"type": "integer", "description": "How many. One of: 1, 2."}
    assert properties["t"] == {"type": "string", "nullable": True}


def test_the_arguments_beside_a_choice_stay_for_gemini() -> None:
    choice = {
        "anyOf": [{"required": ["k"]}, {"required": ["n"]}],
        **_args(k={"type": "string"}, n={"type": "integer"}),
    }

    (made,) = declare("gemini", [_offer("x", _args(at=choice))])

    at = made["functionDeclarations"][0]["parameters"]["properties"]["at"]
    assert at["properties"] == {"k": {"type": "string"}, "n": {"type": "integer"}}


def test_a_ref_is_written_out_for_gemini() -> None:
    schema = {
        **_args(at={"$ref": "#/$defs/P", "description": "Where."}),
        "$defs": {"P": _args(lat={"type": "number"})},
    }

    (made,) = declare("gemini", [_offer("x", schema)])

    at = made["functionDeclarations"][0]["parameters"]["properties"]["at"]
    assert at == {
        "type": "object",
        "description": "Where.",
        "properties": {"lat": {"type": "number"}},
    }


def test_a_choice_at_the_top_is_loosened_to_all_that_its_branches_name() -> None:
    schema = {
        "type": "object",
        "properties": {"k": {"type": "string"}},
        "required": ["k"],
        "anyOf": [{**_args(a={}), "required": ["a", "c"]}, {**_args(b={}), "required": ["b", "c"]}],
    }

    for provider in ("openai", "anthropic"):
        (made,) = declare(provider, [_offer("x", schema)])
        told = made.get("input_schema") or made["function"]["parameters"]
        assert set(told["properties"]) == {"k", "a", "b"}
        assert set(told["required"]) == {"k", "c"}
        assert "anyOf" not in told


def _name(tool: dict[str, Any]) -> str:
    for found in (tool.get("function"), *tool.get("functionDeclarations", ()), tool):
        if found is not None:
            return str(found["name"])
    raise AssertionError(tool)


def _judge_openai(tool: dict[str, Any]) -> None:
    assert provider_types.openai_tool().validate_python(tool) == tool
    _judge_top(tool["function"]["parameters"])


def _judge_anthropic(tool: dict[str, Any]) -> None:
    provider_types.anthropic_tool().validate_python(tool)
    _judge_top(tool["input_schema"])


def _judge_ollama(tool: dict[str, Any]) -> None:
    provider_types.ollama_tool().model_validate(tool)
    _judge_top(tool["function"]["parameters"])


def _judge_top(schema: dict[str, Any]) -> None:
    """What their types do not know, and their servers refuse."""
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"}
    Draft202012Validator(_without_refs(schema))
    _judge_arrays(schema)


def _without_refs(schema: dict[str, Any]) -> dict[str, Any]:
    """The same without `$ref`: whether one leads anywhere is not the question here."""
    found: dict[str, Any] = json.loads(json.dumps(schema).replace('"$ref"', '"x-ref"'))
    return found


def _judge_arrays(schema: Any) -> None:
    for node in _nodes(schema):
        if node.get("type") == "array":
            assert isinstance(node["items"], dict | bool)


def _judge_gemini(tool: dict[str, Any]) -> None:
    """The type, and what the server is known to refuse: empty enums, arrays without items, unknown
    required ones."""
    provider_types.gemini().Tool.model_validate(tool)
    for declared in tool["functionDeclarations"]:
        top = declared["parameters"]
        assert top["type"] == "object"
        for node in _nodes(top):
            assert all(isinstance(word, str) and word for word in node.get("enum", ["x"]))
            assert set(node.get("required", ())) <= set(node.get("properties", ()))
            assert node.get("type") != "array" or "items" in node
            assert node.get("properties") != {} or node is top
            assert "anyOf" not in node or len(node["anyOf"]) > 1


def _nodes(schema: Any) -> list[dict[str, Any]]:
    """The schemas in a schema; a property that is called `items` is none."""
    if not isinstance(schema, dict):
        return []
    inner = [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", ())]
    return [schema, *(node for one in inner for node in _nodes(one))]


_JUDGES = {
    "openai": _judge_openai,
    "ollama": _judge_ollama,
    "gemini": _judge_gemini,
    "anthropic": _judge_anthropic,
}
