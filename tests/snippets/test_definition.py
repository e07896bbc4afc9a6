"""Aliases, snippets and their parameters: what they stand for, and which arguments they take."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import pytest

from onetool_ipy.base.errors import InvalidConfig, UsageProblem
from onetool_ipy.snippets.definition import (
    Bare,
    Snippet,
    example_of,
    expand,
    faults_of,
    read_shortcuts,
    read_snippet,
    resolve,
)


def snippet(body: str, **params: Any) -> Snippet:
    return read_snippet("s", {"body": body, "params": params})


class Definition(NamedTuple):
    data: dict[str, Any]
    where: str = "onetool.yaml:3"


# Aliases


def test_chain_of_aliases_leads_to_the_tool() -> None:
    assert resolve("a", {"a": "b", "b": "$c", "c": "brave.search"}) == "brave.search"


@pytest.mark.parametrize(
    "aliases", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}]
)
def test_cycle_is_a_problem_of_its_own_and_stops_no_other(aliases: dict[str, str]) -> None:
    known = read_shortcuts({**aliases, "ok": "time.now"}, {})

    problems = known.problems(lambda name: name == "time.now", ["time.now"])

    assert len(problems) == len(aliases)
    assert all("leads back to itself" in str(problem) for problem in problems)
    assert known.find("ok") == "time.now"
    with pytest.raises(UsageProblem, match="a -> "):
        known.find("a")


def test_unknown_target_is_a_problem_with_the_nearest_names() -> None:
    known = read_shortcuts({"ws": "brav.search"}, {})

    (problem,) = known.problems(lambda name: False, ["brave.search"])

    assert "brav.search" in problem.message
    assert "brave.search" in problem.hint


def test_bad_snippet_is_a_fault_and_stops_no_other() -> None:
    known = read_shortcuts({}, {"bad": Definition({"body": ""}), "good": Definition({"body": "1"})})

    assert list(known.snippets) == ["good"]
    assert [fault.where for fault in known.faults] == ["onetool.yaml:3"]


def test_snippet_wins_over_an_alias_of_the_same_name_and_that_is_a_problem() -> None:
    known = read_shortcuts({"x": "time.now"}, {"x": Definition({"body": "1"})})

    assert isinstance(known.find("x"), Snippet)
    assert any("wins" in str(problem) for problem in known.problems(lambda name: True))
    assert known.find("nothing") is None


def test_faults_of_a_body_are_problems() -> None:
    known = read_shortcuts(
        {}, {"a": Definition({"body": "{{ x }}"}), "b": Definition({"body": "{{ "})}
    )

    said = " ".join(map(str, known.problems(lambda name: True)))

    assert "'x', which is not among its params" in said
    assert "cannot be read" in said


def test_snippet_of_the_session_joins_the_others() -> None:
    known = read_shortcuts({}, {"a": Definition({"body": "1"})}).with_snippet(snippet("2"))

    assert sorted(known.snippets) == ["a", "s"]


# Parameters


def test_defaults_are_filled_in_and_typed() -> None:
    given = {"a": {"default": 5}, "b": {"default": "x"}, "c": {"default": None}, "d": [1]}
    one = snippet("f({{ a }}, {{ b }}, {{ c }}, {{ d }})", **given)

    assert expand(one, {}) == "f(5, 'x', None, [1])"


@pytest.mark.parametrize(
    ("declared", "typed", "written"),
    [
        ("int", "7", "7"),
        ("int", "1_000", "1000"),
        ("integer", "-3", "-3"),
        ("float", "2", "2"),
        ("number", "1e3", "1000.0"),
        ("bool", "true", "True"),
        ("boolean", "no", "False"),
        ("text", "7", "'7'"),
        ("str", "true", "'true'"),
        ("list", "[1, 'a']", "[1, 'a']"),
        ("list", "[true, null]", "[True, None]"),
        ("dict", '{"a": 1}', "{'a': 1}"),
        ("name", "df.total", "df.total"),
        ("any", "7", "7"),
        ("", "7", "7"),
        ("", "1.50", "1.5"),
        ("", "true", "True"),
        ("", "null", "None"),
        ("", "[1, 2]", "[1, 2]"),
        ("", "007", "'007'"),
        ("", "+49123", "'+49123'"),
        ("", "word", "'word'"),
        ("", "1e999", "'1e999'"),
    ],
)
def test_bare_word_is_read_by_the_type_of_its_parameter(
    declared: str, typed: str, written: str
) -> None:
    one = snippet("x = {{ v }}", v={"type": declared} if declared else {})

    assert expand(one, {"v": Bare(typed)}) == f"x = {written}"


@pytest.mark.parametrize(
    "typed", ["5", "1.50", "1e3", "true", "null", "[1,  2]", '{"a":1}', "007", "word"]
)
def test_untyped_word_stays_as_typed_inside_quotes(typed: str) -> None:
    one = snippet('x = "{{ v }}"', v={})

    assert ast.literal_eval(expand(one, {"v": Bare(typed)})[4:]) == typed


def test_untyped_words_count_and_decide() -> None:
    one = snippet("{% if v %}\nx = {{ n + 1 }}\n{% endif %}\n", v={}, n={})

    assert expand(one, {"v": Bare("true"), "n": Bare("2")}) == "x = 3\n"
    assert expand(one, {"v": Bare("false"), "n": Bare("2")}) == ""


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        *(
            ("int", "x"),
            ("int", "1.5"),
            ("int", True),
            ("float", "x"),
            ("bool", "maybe"),
            ("list", "x"),
            ("list", {}),
        ),
        *(
            ("dict", "[1]"),
            ("name", "a b"),
            ("name", "a();b"),
            ("name", "class"),
            ("name", ""),
            ("text", [1]),
        ),
    ],
)
def test_value_of_another_type_is_refused_with_the_parameters(declared: str, given: Any) -> None:
    one = snippet("x = {{ v }}", v={"type": declared, "description": "What it is"})

    with pytest.raises(UsageProblem) as caught:
        expand(one, {"v": Bare(given) if isinstance(given, str) else given})

    assert "'v' must be of type" in caught.value.message
    assert "What it is" in caught.value.hint


def test_all_faults_are_said_at_once_with_the_usage() -> None:
    one = snippet("{{ topic }}{{ n }}", topic={}, n={"type": "int"}, more={"default": 1})

    with pytest.raises(UsageProblem) as caught:
        expand(one, {"topc": "x", "n": Bare("y")})

    assert "unknown 'topc', did you mean 'topic'?" in caught.value.message
    assert "missing 'topic'" in caught.value.message
    assert "'n' must be" in caught.value.message
    assert "$s topic=... n=... [more=1]" in caught.value.hint
    assert len(caught.value.lines()) <= 5


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"body": 5},
        {"body": "x", "params": [1]},
        {"body": "x", "params": {"a b": {}}},
        {"body": "x", "params": {"class": {}}},
        {"body": "x", "params": {"a": {"type": "strng"}}},
        {"body": "x", "params": {"a": {"type": "int", "default": "x"}}},
        {"body": "x", "params": {"a": {"type": "int", "example": "x"}}},
    ],
)
def test_bad_definition_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        read_snippet("s", data)


def test_parameters_are_a_json_schema_for_completion() -> None:
    one = snippet("x", topic={"description": "What"}, n={"default": 5})

    assert one.parameters == {
        "type": "object",
        "properties": {"topic": {"description": "What"}, "n": {"type": "integer", "default": 5}},
        "required": ["topic"],
        "additionalProperties": False,
    }


def test_example_uses_the_example_or_the_name_and_leaves_defaults_out() -> None:
    one = snippet(
        'f("{{ a }}", {{ n }}, {{ b }})', a={"example": "two words"}, b={}, n={"default": 5}
    )

    assert example_of(one) == ('$s a="two words" b=b', "f(\"two words\", 5, 'b')")


# Expansion


def test_faults_can_be_seen_without_expanding() -> None:
    (fault,) = faults_of(snippet("{{ x }} {{ y }} {{ range(3) }}", x={}))

    assert fault == "Its body uses 'y', which is not among its params."
    assert len(faults_of(snippet("{% if %}"))) == 1
    assert faults_of(snippet("{% for i in x %}{{ i }}{{ loop.index }}{% endfor %}", x={})) == []
