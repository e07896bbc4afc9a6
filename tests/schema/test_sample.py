"""Sample arguments fit their schema, also where it has a pattern."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from onetool_ipy.schema.sample import samples

PATTERNS = [
    r"^[A-Z]{3}$",
    r"^\d{4}-\d{2}-\d{2}$",
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    r"^(open|closed|all)$",
    r"^#[0-9a-fA-F]{6}$",
    r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    r"^\S+@\S+\.\S+$",
    r"^https?:\/\/",
    r"^([0-9]{1,3}\.){3}[0-9]{1,3}(\/[0-9]{1,2})?$",
    r"^[^\s/]+/[^\s/]+$",
    r"^(?!-)[a-z-]+$",
    r"^(?<year>\d{4})(?<month>\d\d)?$",
    r"(['\"])x\1",
    r"^\+[1-9]\d{1,14}$",
    r"^arn:aws:iam::\d{12}:role\/[\w+=,.@-]+$",
    r"^[^\W\d_]+ \w+\t?$",
    r"^$",
    r"^\u0041+$",
    r"^.{40}$",
    r"[\s\S]+!",
]


def fits(schema: dict[str, Any]) -> list[bool]:
    whole = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return [jsonschema_rs.is_valid(whole, args) for _, args in samples(whole)]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_sample_matches_the_pattern(pattern: str) -> None:
    assert all(fits({"type": "string", "pattern": pattern}))


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
