"""YAML flow text: the forms of spec 001, and that it loads back equal."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from onetool_ipy.render.yaml_flow import flow, inline

ODD = [
    *(
        "on",
        "Yes",
        "null",
        "~",
        "y",
        "1",
        "1.0",
        "1e3",
        "1_000",
        "0x1f",
        "12:30",
        "2024-01-01",
        "=",
        "<<",
        "a: b",
    ),
    *(
        "a:",
        "a #b",
        "#a",
        "- x",
        "--- a",
        "...",
        "? a",
        "@x",
        "%y",
        "* a",
        "&b",
        "!c",
        "|",
        ">",
        "a, b",
        "[a",
        "{a",
    ),
    *(
        "a]",
        '"',
        "'",
        " a",
        "a ",
        "",
        "\t",
        "a\nb",
        "\r",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "\U0001f600",
        "קובץ",
    ),
    *("a\\b", "_", "/"),
]
_TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(ODD)
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.spec("001/YAML Flow Style Output/Flow style formatting")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"key": "value", "key2": "value2"}, "{key: value, key2: value2}"),
        ([{"name": "a"}, {"name": "b"}], "- {name: a}\n- {name: b}"),
        ([{"name": "a", "args": ["q: text"]}], '- {name: a, args: ["q: text"]}'),
        ({"rows": [{"a": 1}]}, "rows:\n  - {a: 1}"),
        ({"a": {"b": 1}}, "{a: {b: 1}}"),
        ({"a": {"b": {"c": 1}}}, "a: {b: {c: 1}}"),
        ({"a": {"b": {"c": {"d": 1}}}}, "a:\n  b: {c: {d: 1}}"),
        ([[[[1]]]], "- - [[1]]"),
        (["a.b", "c"], "[a.b, c]"),
        (["two words"], "- two words"),
        ({"v": "1.0.0", "cwd": "/a/b-c"}, '{v: "1.0.0", cwd: /a/b-c}'),
        (
            {"count": 5, "ok": True, "none": None, "far": 1e20},
            "{count: 5, ok: true, none: null, far: 1.0e+20}",
        ),
        ({}, "{}"),
        ([], "[]"),
        ("Bare text, it's fine", "Bare text, it's fine"),
    ],
)
def test_value_is_written_in_the_form_of_the_spec(value: Any, text: str) -> None:
    assert flow(value) == text
    assert yaml.safe_load(text) == value


@pytest.mark.slow
@pytest.mark.spec("001/YAML Flow Style Output/Readability")
@settings(max_examples=400, deadline=None)
@given(_PLAIN)
def test_any_value_loads_back_with_at_most_two_levels_of_flow(value: Any) -> None:
    text = flow(value)

    assert yaml.safe_load(text) == value
    assert max(map(_levels, text.split("\n"))) <= 2


@pytest.mark.spec("001/YAML Flow Style Output/Readability")
def test_long_lists_and_objects_take_a_line_for_each_entry() -> None:
    names = [f"pack.tool_{i}" for i in range(50)]

    assert flow(names).splitlines() == [f"- {name}" for name in names]
    assert flow({"a": dict.fromkeys(names, 1), "b": []}).splitlines()[1] == "b: []"


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_text_that_yaml_reads_otherwise_is_quoted(text: str) -> None:
    for value in (text, [text], {text: text}, [{"a": [text]}], {"a": {"b": {text: text}}}):
        assert yaml.safe_load(flow(value)) == value


def test_very_long_keys_are_found_again() -> None:
    for value in ({"k" * 3000: {"a": {"b": {"c": 1}}}}, {"k " * 2000: 1}, [{"k" * 3000: [1]}]):
        assert yaml.safe_load(flow(value)) == value


def test_what_yaml_cannot_hold_is_written_by_the_table_of_values() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert flow({"a": float("nan")}) == "{a: null}"
    assert "cycle" in flow(loop)
    assert yaml.safe_load(flow({"a": {1, 2}, "b": b"x", "c": "\ud800"})) == {
        "a": [1, 2],
        "b": {"base64": "eA==", "size": 1},
        "c": "\\ud800",
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_PLAIN)
def test_inline_is_one_line(value: Any) -> None:
    assert "\n" not in inline(value)
    assert yaml.safe_load(inline(value)) == value


def _levels(line: str) -> int:
    """How deep brackets stand in each other outside quotes."""
    depth = deepest = 0
    in_quotes = is_escaped = False
    for char in line:
        if in_quotes:
            in_quotes = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            in_quotes = True
        elif char in "{[" and (depth or line.lstrip("- ")[:1] in "{[" or ": " in line):
            depth += 1
            deepest = max(deepest, depth)
        elif char in "}]":
            depth -= 1
    return deepest
