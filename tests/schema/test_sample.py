"""Sample arguments fit their schema, also where it has a pattern."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from onetool_ipy.schema.sample import samples


def fits(schema: dict[str, Any]) -> list[bool]:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return [jsonschema_rs.is_valid(whole, args) for _, args in samples(whole)]


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^[a-z]+$", "minLength": 10},
        {"pattern": "^[a-z]*$", "minLength": 30, "maxLength": 60},
        {"pattern": "^[a-z ]+$", "maxLength": 3},
        {"pattern": "^\\d+$", "minLength": 5, "maxLength": 6},
        {"pattern": "^[A-Z][a-z]*$", "minLength": 2},
        {"pattern": "Z$", "format": "date-time"},
    ],
)
def test_a_sample_matches_the_pattern_and_has_the_length(schema: dict[str, Any]) -> None:
    assert all(fits({"type": "string", **schema}))


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?=.*\\d)(?=.*[A-Z]).{8,}$",
        "[",
        "^\\p{L}{3}$",
        "^((a{1000}){1000}){1000}$",
        "(" * 3000,
        "^(a+)+$(?!x)",
        "^(?!)$",
        "a{99999999999}",
    ],
)
def test_a_pattern_that_is_not_understood_gives_plain_text(pattern: str) -> None:
    """Nothing raises, and nothing takes long: an expression of others is never run by Python."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}

    assert all(isinstance(args["a"], str) for _, args in samples(schema))
