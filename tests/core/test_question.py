"""What may be asked of a person, and which values a form takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onetool_ipy.core.question import Question, QuestionRefused, checked, choices_of, form_errors


def _form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


@pytest.mark.parametrize(
    "field",
    [
        {"password": {"type": "string"}},
        {"userPassword": {"type": "string"}},
        {"api_key": {"type": "string"}},
        {"x": {"type": "string", "title": "Access token"}},
        {"x": {"type": "string", "format": "password"}},
        {"x": {"type": "string", "description": "The password of your account"}},
        {"PIN": {"type": "integer"}},
        {"passwords": {"type": "string"}},
        {"pass\u200bword": {"type": "string"}},
        {"x": {"type": "string", "title": "Contraseña"}},
    ],
)
def test_a_form_that_asks_for_a_secret_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(
        QuestionRefused, match=r"Server 'shop' asks for a secret .* It was not shown\."
    ):
        checked(Question("server 'shop'", "Hello", form=_form(**field)))


@pytest.mark.parametrize("name", ["max_tokens", "spin", "shipping", "secretary", "pinned"])
def test_a_name_that_only_looks_like_a_secret_is_asked(name: str) -> None:
    found = checked(Question("server 'shop'", "Hello", form=_form(**{name: {"type": "string"}})))

    assert found.form is not None
    assert list(found.form["properties"]) == [name]


@pytest.mark.parametrize(
    "form",
    [
        {"type": "array"},
        {"type": "object", "properties": []},
        _form(a={"type": "object", "properties": {}}),
        _form(a={"type": "array", "items": {"type": "string"}}),
        _form(a={"type": ["string", "null"]}),
        _form(a=True),
        _form(a={"type": "string", "minLength": "x"}),
        _form(**{f"f{number}": {"type": "string"} for number in range(41)}),
        _form(a={"type": "string", "description": "x" * 70_000}),
    ],
)
def test_a_form_that_is_not_flat_or_too_large_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(QuestionRefused, match="form"):
        checked(Question("server 'shop'", "Hello", form=form))


@pytest.mark.parametrize(
    "url", ["https://shop.example/a?b=c#d", "http://127.0.0.1:8080/x", "http://localhost/x"]
)
def test_an_address_is_https_or_on_this_machine(url: str) -> None:
    assert checked(Question("server 'shop'", "Go", url=url)).url == url


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example:99999/pay",
        "https://shop.example:0/pay",
        "https://shop.example:http/pay",
        "http://shop.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://good.example@evil.example/",
        "https://shop.example/\u202egp.exe",
        "https://shop.example/ x",
        "https://[::1",
        "data:text/html,x",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(QuestionRefused, match="sends you to"):
        checked(Question("server 'shop'", "Go", url=url))


FIELDS = {
    "mail": {"type": "string", "format": "email"},
    "size": {
        "type": "string",
        "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
    },
    "count": {"type": "integer", "minimum": 1, "maximum": 9},
    "day": {"type": "string", "format": "date"},
    "extras": {
        "type": "array",
        "items": {"type": "string", "enum": ["milk", "sugar"]},
        "maxItems": 1,
    },
    "gift": {"type": "boolean"},
}


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (
            {
                "mail": "a@example.com",
                "size": "s",
                "count": 1,
                "day": "2026-01-31",
                "extras": [],
                "gift": True,
            },
            [],
        ),
        (
            {
                "mail": "nobody",
                "size": "m",
                "count": 10,
                "day": "31.1.",
                "extras": ["tea"],
                "gift": "yes",
            },
            ["/count", "/day", "/extras/0", "/gift", "/mail", "/size"],
        ),
        ({"mail": "a@example.com"}, ["", "", "", "", ""]),
    ],
)
def test_values_are_checked_against_the_form(content: dict[str, Any], wrong: list[str]) -> None:
    form = checked(Question("server 'shop'", "Order", form=_form(**FIELDS))).form
    assert form is not None

    found = form_errors(form, content)

    assert sorted(error["pointer"] for error in found) == wrong
    assert all(error["message"] for error in found)


def test_values_that_the_form_does_not_have_are_refused() -> None:
    form = checked(Question("server 'shop'", "Order", form=_form(gift={"type": "boolean"}))).form
    assert form is not None

    assert form_errors(form, {"gift": True, "more": 1}) != []


def test_choices_have_values_and_titles() -> None:
    titled = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "First"}]}}
    named = {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]}

    assert choices_of(titled) == [("a", "First")]
    assert choices_of(named) == [("x", "Ex"), ("y", "Why")]
    assert choices_of({"type": "string", "enum": ["x"]}) == [("x", "x")]
    assert choices_of({"type": "string"}) == []


def test_a_long_text_is_cut_and_says_so() -> None:
    found = checked(Question("server 'shop'", "x" * 5_000))

    assert found.text.endswith("… (1,000 more characters)")


def test_what_a_yes_is_about_has_no_secrets_and_is_not_asked_if_it_cannot_be_shown() -> None:
    question = Question("%tool", "Add s3cret?", details=("+ a: s3cret",), yes="Add")

    assert question.masked(lambda text: text.replace("s3cret", "***")).details == ("+ a: ***",)
    with pytest.raises(QuestionRefused, match=r"^%tool asks about more than can be shown"):
        checked(replace(question, details=("x" * 40_000, "y" * 40_000)))


def test_only_a_question_that_takes_a_secret_has_a_field_for_one() -> None:
    form = _form(value={"type": "string", "title": "API_KEY", "format": "password"})

    with pytest.raises(QuestionRefused, match="asks for a secret"):
        checked(Question("server 'shop'", "Go", form=form))
    found = checked(Question("%tool", "Go", form=form, yes="Go on", takes_secret=True)).form
    assert found is not None
    assert found["properties"]["value"]["format"] == "password"
