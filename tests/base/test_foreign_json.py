"""The one reader for JSON of others: what passes can be written again, and nothing else is
raised."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.foreign_json import MAX_DEPTH, NotJson, parse_json

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.sampled_from("aé𝄞\ud800\udfff"), max_size=3)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


def _is_plain(value: Any) -> bool:
    """The naive twin: finite numbers and whole characters."""
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or not any(0xD800 <= ord(char) < 0xE000 for char in value)


@pytest.mark.slow
@given(value=VALUES, mark=st.sampled_from(["", "\ufeff"]), as_bytes=st.booleans())
def test_a_value_comes_back_as_it_was_or_is_refused(value: Any, mark: str, as_bytes: bool) -> None:
    text = mark + json.dumps(value)
    value = json.loads(json.dumps(value))  # two halves that stand side by side are one character
    if not _is_plain(value):
        with pytest.raises(NotJson):
            parse_json(text)
        return
    again = parse_json(text.encode() if as_bytes else text)
    assert again == value
    assert json.loads(json.dumps(again, ensure_ascii=False, allow_nan=False).encode()) == value


@given(st.binary(max_size=200) | st.text(st.sampled_from('[]{}",:0e9\\u-d8. ')))
def test_any_text_gives_a_value_or_words(text: bytes | str) -> None:
    with suppress(NotJson):
        json.dumps(parse_json(text), allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "is nested deeper than 200 levels"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "is nested deeper than 200 levels"),
        ('{"a":' * 300 + "1" + "}" * 300, "is nested deeper than 200 levels"),
        ("9" * 5_000, "has a number that is too long"),
        ("1e999", "has a number that is too large"),
        ("[NaN]", "is not JSON: 'NaN' is not a number"),
        (r'{"\ud800": 1}', r"has half of a character (\ud800) in a text"),
        (b"\xff", "is not UTF-8 text (byte 0)"),
        ('{"a": 1,}', "is not JSON: line 1, column "),
        ("", "is not JSON: line 1, column 1"),
        (" " * 11, "is larger than 10 bytes"),
    ],
)
def test_what_is_wrong_is_said_in_words(text: str | bytes, words: str) -> None:
    with pytest.raises(NotJson) as refused:
        parse_json(text, limit=10 if "larger" in words else 1 << 20)
    assert words in str(refused.value)


def test_the_deepest_value_that_is_read_can_be_written() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_json(text)) == text
