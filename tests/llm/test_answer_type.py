"""The type of an answer: its schema, what is read from a reply, and what is wrong with one that
does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.llm.answer_type import AnswerMismatch, AnswerType, is_strict, type_named


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


class Strict(City):
    @field_validator("name")
    @classmethod
    def _begins_with_a_capital(cls, name: str) -> str:
        if not name[:1].isupper():
            raise ValueError("a city has a capital letter")
        return name


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: float
    when: date


class Row(TypedDict):
    id: int


class Tree(BaseModel):
    children: list[Tree]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, '{"value": 7}', 7),
        (int, "7", 7),
        (str, "just text", "just text"),
        (str, '{"value": "text"}', "text"),
        (list[str], '```json\n["a", "b"]\n```', ["a", "b"]),
        (list[City], '{"value": [{"name": "Lima", "people": 10}]}', [City(name="Lima", people=10)]),
        (City, '{"name": "Lima", "people": 10}', City(name="Lima", people=10)),
        (
            City,
            'Here:\n```\n{"value": {"name": "Lima", "people": "10"}}\n```\nDone.',
            City(name="Lima", people=10),
        ),
        (Point, '{"value": {"x": 1, "when": "2026-01-02"}}', Point(1.0, date(2026, 1, 2))),
        (Row, '{"id": 3}', {"id": 3}),
        (Colour, '{"value": "red"}', Colour.RED),
        (Literal["a", "b"], '{"value": "b"}', "b"),
        (dict[str, int], '{"value": 3}', {"value": 3}),
        (dict[str, int], '{"value": {"value": 3}}', {"value": 3}),
        (Tree, '{"value": {"children": [{"children": []}]}}', Tree(children=[Tree(children=[])])),
        (bool | None, '{"value": null}', None),
    ],
    ids=str,
)
def test_rule_14_a_value_of_the_type_is_read_from_the_reply(
    kind: Any, text: str, value: object
) -> None:
    assert AnswerType(kind).read(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reasons"),
    [
        (
            list[City],
            '{"value": [{"name": 3}]}',
            ("field 'value[0]': 'people' is missing", "field 'value[0].name': 3 is not text"),
        ),
        (
            City,
            '{"name": "Lima", "people": -1}',
            ("field 'value.people': -1 is too small; it must be at least 0",),
        ),
        (int, "about seven", ("it is not JSON",)),
        (int, "", ("it is not JSON",)),
        (
            Strict,
            '{"name": "lima", "people": 1}',
            ("field 'value.name': a city has a capital letter",),
        ),
        (Literal["a", "b"], '{"value": "c"}', ("field 'value': 'c' is not one of",)),
    ],
    ids=str,
)
def test_rule_14_reasons_say_what_is_wrong_in_our_words(
    kind: Any, text: str, reasons: tuple[str, ...]
) -> None:
    with pytest.raises(AnswerMismatch) as caught:
        AnswerType(kind).read(text)

    assert caught.value.text == text
    assert all(
        any(reason.startswith(begin) for reason in caught.value.reasons) for begin in reasons
    )
    assert "Input should" not in str(caught.value.reasons)


@pytest.mark.parametrize(
    ("kind", "strict"), [(City, True), (list[City], True), (dict[str, int], False), (Tree, True)]
)
def test_rule_14_the_schema_has_an_object_at_its_top(kind: Any, strict: bool) -> None:
    schema = AnswerType(kind).schema

    assert (schema["type"], schema["required"], schema["additionalProperties"]) == (
        "object",
        ["value"],
        False,
    )
    assert is_strict(schema) == strict


class Optional(BaseModel):
    note: str = ""


def test_rule_14_a_field_with_a_default_is_not_strict() -> None:
    assert not is_strict(AnswerType(Optional).schema)


@pytest.mark.parametrize("kind", [object(), "NoSuchName", AnswerType])
def test_rule_14_what_is_no_type_is_refused_before_anything_is_sent(kind: Any) -> None:
    with pytest.raises(UsageProblem, match="cannot be checked against"):
        AnswerType(kind)


def test_rule_14_a_type_is_named_by_the_names_of_the_notebook() -> None:
    assert type_named("list[City]", {"City": City}) == list[City]
    assert type_named("Literal['a', 'b']", {}) == Literal["a", "b"]
    with pytest.raises(UsageProblem, match=r"there is no 'Citty'\. Did you mean 'City'\?"):
        type_named("list[Citty]", {"City": City})
    with pytest.raises(UsageProblem, match="this is not a type"):
        type_named("list[", {})
