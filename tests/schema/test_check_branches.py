"""Schemas whose references multiply are refused before anything is judged by them; those that
people write are not."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidArgs, InvalidTool
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.schema.check import MOST, Checker, branch_count
from tests.harness.surroundings import ROOT


def doubling(
    levels: int, word: str = "anyOf", *, ref: str = "#/$defs/a{}", **more: Any
) -> dict[str, Any]:
    """Each level refers twice to the one below."""
    parts: dict[str, Any] = {"a0": {"type": "integer", "$anchor": "a0"}}
    for level in range(1, levels):
        below = ref.format(level - 1)
        parts[f"a{level}"] = {word: [{"$ref": below}, {"$ref": below}], "$anchor": f"a{level}"}
    return {
        "type": "object",
        "properties": {"x": {"$ref": ref.format(levels - 1)}},
        "$defs": parts,
        **more,
    }


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("ref", ["#/$defs/a{}", "#a{}", "#/$defs/%61{}"])
def test_references_that_multiply_are_refused(word: str, ref: str) -> None:
    for levels in (20, 64, 900):
        with pytest.raises(InvalidTool, match="multiply to more than 20,000"):
            Checker(doubling(levels, word, ref=ref))


def test_a_chain_without_end_is_refused_and_no_error_of_pythons() -> None:
    with pytest.raises(InvalidTool, match="multiply"):
        Checker(doubling(20_000))


def test_a_few_levels_are_judged_as_ever() -> None:
    assert branch_count(doubling(10)) > 1000

    checker = Checker(doubling(10))

    assert checker.check({"x": 3}, "t") == {"x": 3}
    with pytest.raises(InvalidArgs):
        checker.check({"x": "three"}, "t")


def test_what_leads_back_to_itself_is_no_multiplication() -> None:
    """A tree, the usual recursive schema, and one that says nothing but itself."""
    kinds = [
        {"type": "object", "properties": {f"k{n}": {"$ref": "#/$defs/tree"}}} for n in range(30)
    ]
    tree = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"anyOf": kinds}},
    }
    itself = {
        "type": "object",
        "$defs": {f"a{n}": {"$ref": f"#/$defs/a{(n + 1) % 20}"} for n in range(20)},
    }

    assert branch_count(tree) < 100
    assert branch_count(itself) < 100
    assert Checker(tree).check({"x": {"k1": {"k2": {}}}}, "t")


def test_a_python_object_that_holds_itself_ends() -> None:
    """It is no JSON, which the validator says; two lists that share all their parts are looked at
    once."""
    itself: dict[str, Any] = {"type": "object"}
    itself["properties"] = {"x": itself}
    shared: list[Any] = []
    for _ in range(100):
        shared = [shared, shared]

    assert branch_count(itself) == 1
    assert branch_count({"enum": shared}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("document", ["github.json", "readme.json", "galaxy.yaml"])
def test_schemas_of_real_documents_are_far_from_it(document: str) -> None:
    draft = import_document(
        lzma.decompress((ROOT / "tests" / "data" / "openapi" / f"{document}.xz").read_bytes())
    )

    found = [
        branch_count(tool[key])
        for tool in draft.tools
        for key in ("argSchema", "outputSchema")
        if key in tool
    ]

    assert max(found) < MOST / 20, json.dumps(sorted(found)[-5:])
