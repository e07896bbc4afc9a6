"""A text is found for the patterns that schemas have, short and always the same; for a hopeless one
there is none."""

from __future__ import annotations

import jsonschema_rs
import pytest

from onetool_ipy.schema.sample import text_for

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


@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_matches_the_pattern(pattern: str, more: int) -> None:
    text = text_for(pattern, more=more)

    assert text is not None
    assert text == text_for(pattern, more=more)
    assert jsonschema_rs.is_valid({"type": "string", "pattern": pattern}, text)


def test_parts_that_may_repeat_do_so_as_often_as_wanted() -> None:
    assert [text_for("^a*b{2,3}c?$", more=more) for more in (0, 1, 5)] == [
        "bb",
        "abbbc",
        "aaaaabbbc",
    ]
    assert text_for(r"^[^a-y]\D\W$") == "za-"


@pytest.mark.parametrize(
    "pattern",
    ["(", "a{501}", "(a{100}){6}", "(" * 2000 + ")" * 2000],
    ids=["bad", "long", "longer", "deep"],
)
def test_a_hopeless_pattern_has_no_text(pattern: str) -> None:
    assert text_for(pattern) is None
