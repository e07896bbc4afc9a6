"""`@name` in a prompt: which @ names a variable, and which is text."""

from __future__ import annotations

import pytest

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.llm.ask.attachments import as_written, named_variables, variables_of


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("What is odd in @df and @fig?", ["df", "fig"]),
        (
            "@df, @df (@other) \"@quoted\" '@single' [@a] {@b} x=@c **@d**",
            ["df", "other", "quoted", "single", "a", "b", "c", "d"],
        ),
        ("line one\n@second line", ["second"]),
        ("what is @größe?", ["größe"]),
        ("mail me@example.com or a.b+c@d.org", []),
        ("@@df is text, and so is @ alone, @1 and a@b", []),
        ("@df.columns and @df's rows", ["df"]),
        ("use `@property` or ``a `@b` c`` and @real", ["real"]),
        ("```python\n@cached\ndef f(): ...\nx = @df\n```\nbut @real", ["real"]),
        ("~~~\n@df\n~~~", []),
        ("```\n@df without an end", []),
        ("Explain:\n@property\n@cache(maxsize=2)\ndef f(self): ...\nand @df", ["df"]),
        ("@dataclass\nclass A: ...", []),
        ("@app.get('/x')\nasync def f(): ...", []),
        ("@df\nis the table", ["df"]),
    ],
)
def test_rule_12_an_at_at_the_beginning_of_a_word_names_a_variable(
    prompt: str, names: list[str]
) -> None:
    assert named_variables(prompt) == names


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("@@df and @df", "@df and @df"),
        ("a@@b", "a@@b"),
        ("`@@x` @@y", "`@@x` @y"),
        ("me@example.com", "me@example.com"),
    ],
)
def test_rule_12_two_ats_are_one(prompt: str, text: str) -> None:
    assert as_written(prompt) == text


def test_rule_12_an_unknown_name_is_an_error_with_a_proposal() -> None:
    with pytest.raises(UsageProblem) as caught:
        variables_of("What is in @custmers?", {"customers": 1, "_custmers_": 2})

    assert (
        caught.value.message
        == "The prompt names '@custmers', and there is no variable of that name. Did you mean"
        " 'customers'?"
    )
    assert caught.value.hint == "Nothing was sent. Write @@custmers for an @ that is text."


def test_rule_12_the_variables_are_those_of_the_namespace() -> None:
    assert variables_of("@a @b @a", {"a": 1, "b": None, "c": 3}) == {"a": 1, "b": None}
