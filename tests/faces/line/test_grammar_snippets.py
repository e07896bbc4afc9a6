"""The arguments of a snippet, typed after `$name`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.line.grammar import read_snippet_arguments
from onetool_ipy.snippets.definition import Bare


def read(text: str) -> dict[str, Any]:
    """The arguments of a text in which no expression can be evaluated."""

    def refuse(source: str) -> object:
        raise UsageProblem(f"No expression is evaluated here: {source[:20]!r}")

    return read_snippet_arguments(text, refuse)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("topic=Python", {"topic": "Python"}),
        ("a=1  b=2\n\tc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b=c==d", {"a": "b=c==d"}),
        ("url=https://x.y/z?q=1&r=a%20b#top", {"url": "https://x.y/z?q=1&r=a%20b#top"}),
        ('a="two words" b=x', {"a": "two words", "b": "x"}),
        ("a='two \"words\"'", {"a": 'two "words"'}),
        (r'a="say \"hi\" \\ C:\temp"', {"a": r'say "hi" \ C:\temp'}),
        ('a="line\nbreak" b=1', {"a": "line\nbreak", "b": "1"}),
        ('a=""', {"a": ""}),
        ("a=", {"a": ""}),
        ("a= b=1", {"a": "", "b": "1"}),
        ("a=it's", {"a": "it's"}),
        ("a=[1, 2, 'x y'] b={'k': [1]}", {"a": "[1, 2, 'x y']", "b": "{'k': [1]}"}),
        ("a=[1, ']'] b=2", {"a": "[1, ']']", "b": "2"}),
        ("a=:( b=2", {"a": ":(", "b": "2"}),
        ("a=[open b=2", {"a": "[open", "b": "2"}),
        ("größe=1", {"größe": "1"}),
    ],
)
def test_arguments_are_read_as_typed(text: str, found: dict[str, str]) -> None:
    assert read(text) == found


def test_quotes_make_text_and_bare_words_do_not() -> None:
    found = read("a=5 b=\"5\" c='5'")

    assert [isinstance(found[name], Bare) for name in "abc"] == [True, False, False]


@pytest.mark.parametrize(
    "text", ["word", "a=1 word", '"a"=1', "1a=2", 'a="open', "a='open", 'a="x"y', "a=1 a=2"]
)
def test_what_is_no_argument_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        read(text)


@given(st.text())
def test_reading_arguments_gives_values_or_a_usage_problem(text: str) -> None:
    try:
        said = read(text)
    except UsageProblem as exc:
        said = exc.lines()

    assert isinstance(said, dict) or len(said) <= 5


def test_an_expression_gives_its_object() -> None:
    found = read_snippet_arguments("n={1 + 1} d={'k': 1}", lambda source: eval(source))

    assert found == {"n": 2, "d": "{'k': 1}"}
