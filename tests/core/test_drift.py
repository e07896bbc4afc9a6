"""How a tool differs from what it was: every injected change is named, and an unchanged tool never
drifts."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.core.drift import changes, facts
from onetool_ipy.core.tool import ToolSpec

SPEC = ToolSpec(
    name="shop.find",
    description="Find goods.\n\nPrices are in euros.\nNothing is changed.",
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for.", "minLength": 1},
            "limit": {"type": "integer", "default": 10, "maximum": 50},
            "sort": {"type": "string", "enum": ["price", "name"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    run=lambda args: args,
    output_schema={"type": "object", "properties": {"rows": {"type": "array"}}},
    read_only=True,
    origin="mcp",
)


def _set(*path: str, to: Any = None) -> Callable[[dict[str, Any]], None]:
    def change(tool: dict[str, Any]) -> None:
        *outer, last = path
        for step in outer:
            tool = tool[step]
        if to is None:
            del tool[last]
        else:
            tool[last] = to

    return change


P, A = "parameters", ("parameters", "properties")
DRIFTS = [
    (_set(P, "required", to=["query", "limit"]), "the argument 'limit' became required"),
    (_set(P, "required", to=[]), "the argument 'query' is no longer required"),
    (_set(P, "required"), "the argument 'query' is no longer required"),
    (_set(P, "required", to=["query", "ghost"]), "the rules for its arguments changed"),
    (_set(*A, "limit"), "the argument 'limit' is gone"),
    (_set(*A, "page", to={"type": "integer"}), "the argument 'page' is new, and optional"),
    (_set(*A, "limit", "type", to="string"), "the argument 'limit' was integer, is string"),
    (
        _set(*A, "limit", "type", to=["integer", "null"]),
        'the argument \'limit\' was integer, is ["integer", "null"]',
    ),
    (_set(*A, "limit", "type"), "the argument 'limit' was integer, is nothing"),
    (_set(*A, "limit", "default", to=20), "'default' of the argument 'limit' was 10, is 20"),
    (_set(*A, "limit", "default"), "'default' of the argument 'limit' was 10, is nothing"),
    (_set(*A, "limit", "maximum", to=5), "'maximum' of the argument 'limit' was 50, is 5"),
    (_set(*A, "limit", "minimum", to=1), "'minimum' of the argument 'limit' was nothing, is 1"),
    (_set(*A, "query", "minLength", to=3), "'minLength' of the argument 'query' was 1, is 3"),
    (_set(*A, "query", "pattern", to="^a"), "'pattern' of the argument 'query' was nothing, is ^a"),
    (_set(*A, "query", "format", to="uri"), "'format' of the argument 'query'"),
    (
        _set(*A, "query", "description", to="Words."),
        "the description of the argument 'query' changed:",
    ),
    (_set(*A, "query", "title", to="Query"), "the title of the argument 'query' changed:"),
    (
        _set(*A, "sort", "enum", to=["price"]),
        "the choices of the argument 'sort' changed: name gone",
    ),
    (
        _set(*A, "sort", "enum", to=["price", "name", "age"]),
        "the choices of the argument 'sort' changed: age new",
    ),
    (_set(*A, "sort", "enum", to=["name", "price"]), "another order"),
    (_set(*A, "sort", "enum"), "'enum' of the argument 'sort' was"),
    (_set(*A, "tags", "items", to={"type": "integer"}), "'items' of the argument 'tags' was"),
    (_set(*A, "tags", to={}), "the argument 'tags' was array, is nothing"),
    (_set(P, "additionalProperties", to=True), "the rules for its arguments changed"),
    (_set(P, "anyOf", to=[{"required": ["limit"]}]), "the rules for its arguments changed"),
    (
        _set("description", to="Find goods.\n\nPrices are in dollars.\nNothing is changed."),
        "+ Prices are in dollars.",
    ),
    (_set("read_only", to=False), "it was read-only, and may change something now"),
    (_set("returns", to={"type": "array"}), "what it returns changed"),
    (_set("fingerprint", to="other"), "its code or its definition changed"),
]


@pytest.mark.parametrize(("change", "text"), DRIFTS, ids=range(len(DRIFTS)))
def test_each_of_30_injected_drifts_is_named(
    change: Callable[[dict[str, Any]], None], text: str
) -> None:
    assert len(DRIFTS) == 30
    before = facts(SPEC)
    after = copy.deepcopy(before)
    change(after)
    after["fingerprint"] = "other"
    lines = changes(before, after)
    assert any(text in line for line in lines), lines
    assert changes(json.loads(json.dumps(after)), after) == []


def test_a_required_argument_that_is_new_says_so_and_long_texts_are_cut() -> None:
    before = facts(SPEC)
    after = copy.deepcopy(before)
    after["parameters"]["properties"]["shop"] = {"type": "string"}
    after["parameters"]["required"].append("shop")
    after["description"] = "\n".join(f"line {number}" for number in range(100))
    lines = changes(before, after)
    assert lines[0] == "the argument 'shop' is new, and required"
    assert lines[-1].startswith("  ... and ")
    assert len(lines) < 20


@pytest.mark.parametrize("size", [2_000, 50_000], ids=["all", "the first"])
def test_long_texts_of_similar_lines_are_compared_at_once(size: int) -> None:
    """By whole lines, the first 2,000 of them: 20 kB of similar lines took 9 s. A new line is
    always shown."""
    before, after = (
        {
            **facts(SPEC),
            "description": "\n".join(
                f"{end}{number % 50} similar line" for number in range(size - 1)
            ),
        }
        for end in ("a", "b")
    )
    after["description"] = "Send all files.\n" + after["description"]
    # A comparison inside of lines takes minutes, which ends the test.
    lines = changes(before, after)
    assert "  + Send all files." in lines
    assert ("Only the first 2,000 lines were compared." in lines[-1]) is (size > 2_000)


def test_many_lines_that_are_gone_do_not_hide_one_that_is_new() -> None:
    before = {**facts(SPEC), "description": "\n".join(f"old {number}" for number in range(500))}
    lines = changes(before, {**before, "description": "Send all files."})
    assert "  + Send all files." in lines
    assert lines[-1] == "  ... and 494 more lines"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("a\nb", "b\na", "its lines have another order"),
        ("a\n", "a", "  - "),
        ("a\u2028b", "a\nb", "+ a"),
        ("x\n" * 3_000 + "old", "x\n" * 3_000 + "new", "Only the first 2,000 lines were compared."),
    ],
)
def test_a_text_that_changed_always_says_how(before: str, after: str, words: str) -> None:
    lines = changes({"description": before}, {"description": after})
    assert words in "\n".join(lines), lines


@pytest.mark.parametrize(
    "odd", [None, [], "text", {"properties": []}, {"properties": {"a": None}, "required": "a"}]
)
def test_odd_schemas_have_no_drift_against_themselves_and_some_against_others(odd: Any) -> None:
    before = {**facts(SPEC), "parameters": odd}
    assert changes(before, copy.deepcopy(before)) == []
    assert changes(before, facts(SPEC))


def test_a_tool_that_is_unchanged_never_drifts() -> None:
    """The order of keys, and a way through JSON text, change nothing."""
    chance = random.Random(1)
    for _ in range(200):
        names = [f"a{number}" for number in range(chance.randint(0, 6))]
        properties = {
            name: {"type": chance.choice(["string", "integer"]), "default": chance.random()}
            for name in names
        }
        spec = SPEC.replace(
            parameters={"type": "object", "properties": properties, "required": names[:2]}
        )
        before = json.loads(json.dumps(facts(spec), sort_keys=True))
        shuffled = {name: properties[name] for name in chance.sample(names, len(names))}
        again = SPEC.replace(
            parameters={"required": names[:2], "properties": shuffled, "type": "object"}
        )
        assert changes(before, facts(again)) == []


SCHEMAS = st.dictionaries(
    st.sampled_from(["type", "default", "enum", "title"]),
    st.sampled_from([0, False, "text", [1], [True]]),
)
ARGUMENTS = st.dictionaries(st.sampled_from("ab"), SCHEMAS)


@given(ARGUMENTS, ARGUMENTS)
def test_each_argument_that_is_not_the_same_json_is_named(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    lines = changes(*({"parameters": {"properties": side}} for side in (before, after)))

    def differs(name: str) -> bool:
        return len({json.dumps(side.get(name), sort_keys=True) for side in (before, after)}) > 1

    named = {name for name in "ab" if f"argument '{name}'" in "\n".join(lines)}
    assert named == {name for name in "ab" if differs(name)}
