"""Documents of others: what is not one is said in words; parsing never raises anything but
InvalidRequest."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.document import MAX_BYTES, ImportNotes, as_text, parse_document

# PyYAML writes YAML 1.1, where 1e+5 is a text; documents are YAML 1.2, where it is a number.
TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"])).filter(
    lambda text: re.match(r"[-+.]?\d", text) is None
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nosuch.json", "'nosuch.json' is one line of text"),
        ("hello", "'hello' is one line of text"),
        ("ftp://x", "'ftp://x' is one line of text"),
        ("\ufeff hello \n", "'hello' is one line of text"),
        ("\x1b[2Jhello", r"'\\x1b\[2Jhello' is one line of text"),
        ("<!DOCTYPE html>\n<html>", "a web page or XML"),
        (b"\n  <html><body>openapi: 3</body></html>", "a web page or XML"),
        ("- a\n- b\n", "neither JSON nor YAML|not an object"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        (b" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_what_is_no_document_is_said_in_words(source: bytes | str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        parse_document(source, ImportNotes())

    assert "single value at its top" not in caught.value.message


@pytest.mark.slow
@given(document=st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), PLAIN, min_size=1))
def test_json_and_yaml_of_a_document_are_the_same(document: dict[str, Any]) -> None:
    texts = (json.dumps(document), json.dumps(document, indent=1), yaml.safe_dump(document))

    assert [parse_document(text, ImportNotes()) for text in texts] == [document] * 3


@given(source=st.binary(max_size=60) | st.text(max_size=60))
def test_any_bytes_are_a_mapping_or_refused(source: bytes | str) -> None:
    with suppress(InvalidRequest):
        assert isinstance(parse_document(source, ImportNotes()), dict)


@pytest.mark.parametrize(
    ("value", "text"), [("  a b ", "a b"), ("", ""), (None, ""), (5, ""), (["a"], "")]
)
def test_as_text_takes_only_text(value: object, text: str) -> None:
    assert as_text(value) == text


def test_half_a_character_is_written_out() -> None:
    assert parse_document({"a": "x\ud800"}, ImportNotes())["a"] == "x\\ud800"
