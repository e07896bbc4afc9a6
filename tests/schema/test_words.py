"""The words of the three checks: arguments, configuration, bundles."""

from __future__ import annotations

from pathlib import Path

import pytest

from onetool_ipy.base.errors import InvalidArgs, InvalidRequest
from onetool_ipy.bundles.model import read
from onetool_ipy.config.load import load_config
from onetool_ipy.faces.rest.routes import Switch
from onetool_ipy.schema.check import Checker
from onetool_ipy.schema.words import TYPES, predicate, type_words


@pytest.mark.parametrize(
    ("keyword", "facts", "words"),
    [
        ("type", {"types": ["null", "integer"]}, "is not a whole number or null"),
        ("type", {"types": []}, "is not what is asked for"),
        ("minimum", {"limit": 5}, "is too small; it must be at least 5"),
        ("exclusiveMaximum", {"limit": 1.0}, "is too large; it must be less than 1"),
        ("maximum", {"limit": 1e300}, "is too large; it may be at most 1e+300"),
        ("maximum", {"limit": 0.5}, "is too large; it may be at most 0.5"),
        ("minItems", {"limit": 1}, "has fewer than 1 item"),
        ("maxProperties", {"limit": 2}, "has more than 2 entries"),
        ("enum", {"options": list(range(20))}, "is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."),
        ("unheard-of", {}, "is not what is asked for"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_value(keyword: str, facts: dict[str, object], words: str) -> None:
    assert predicate(keyword, facts) == words


def test_every_type_of_json_has_words() -> None:
    assert type_words(TYPES) == " or ".join(TYPES.values())


def test_one_fault_has_the_same_words_in_all_three_checks(tmp_path: Path) -> None:
    """A word where a truth value is wanted: an argument, a setting, a field of a request."""
    checker = Checker({"type": "object", "properties": {"whole": {"type": "boolean"}}})
    with pytest.raises(InvalidArgs) as argument:
        checker.check({"whole": "perhaps"}, "p.add")
    (tmp_path / ".onetool").mkdir()
    settings = tmp_path / ".onetool" / "onetool.yaml"
    settings.write_text("stats: {enabled: perhaps}\n", encoding="utf-8")
    config = load_config(env={"ONETOOL_HOME": str(tmp_path / "home")}, cwd=tmp_path)
    with pytest.raises(InvalidRequest) as field:
        read(Switch, {"isEnabled": "perhaps"})

    assert "'perhaps' is not true or false" in argument.value.message
    assert "'perhaps' is not true or false" in str(config.problems[0])
    assert "'isEnabled' must be true or false" in field.value.message
