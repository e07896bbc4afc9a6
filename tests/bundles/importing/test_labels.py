"""Names made of other people's words: always valid, always different, never part of a template."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onetool_ipy.bundles.importing.labels import (
    UniqueNames,
    argument,
    common_prefix,
    literal,
    secret,
    slug,
    version,
)
from onetool_ipy.bundles.validation import MAX_RUNES

WORDS = st.text(max_size=80) | st.sampled_from(
    ["a b", "a--b", "-", "é", "Ä ö", "x" * 200, "١٢", "a/b", "${x}"]
)


@given(text=WORDS)
def test_every_text_gives_valid_names(text: str) -> None:
    name, label = slug(text, "tool"), version(text)

    for each, marks in ((name, "-"), (label, "-.")):
        assert 1 <= len(each) <= MAX_RUNES
        assert "--" not in each
        assert each == each.strip(marks)
        assert all(char in marks or char.isalnum() for char in each)
    assert slug(name, "tool") == name
    assert re.fullmatch(r"[A-Z_][A-Z0-9_]*", secret(text, text))
    assert not re.search(r"[{}|\x00-\x1f\x7f]", argument(text))
    assert 1 <= len(argument(text)) <= 100


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("List Pets!", "List-Pets"),
        ("  ", "tool"),
        ("a__b", "a-b"),
        ("-a-", "a"),
        ("v1.2", "v1-2"),
        ("a" * 63 + "-bc", "a" * 63),
    ],
)
def test_slug_is_read_as_its_words(text: str, name: str) -> None:
    assert slug(text, "tool") == name


@pytest.mark.parametrize(
    ("text", "label"), [("1.2.3", "1.2.3"), (".1.", "1"), ("", "1"), ("v 1", "v-1")]
)
def test_version_keeps_its_dots(text: str, label: str) -> None:
    assert version(text) == label


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("petstore", "api_key"), "PETSTORE_API_KEY"),
        (("petStore", "apiKey"), "PET_STORE_API_KEY"),
        (("api", "api"), "API"),
        (("api", "api_key"), "API_KEY"),
        (("api", "apikey"), "API_APIKEY"),
        (("1", "2"), "_1_2"),
        (("", "ö!"), "O"),
        ((), "SECRET"),
    ],
)
def test_secret_is_named_after_its_owner(parts: tuple[str, ...], name: str) -> None:
    assert secret(*parts) == name


@given(
    names=st.lists(
        st.sampled_from(["a", "a-2", "a-3", "abcdef", "abcde-2"]) | st.text(max_size=8), max_size=20
    )
)
def test_no_name_is_handed_out_twice(names: list[str]) -> None:
    unique = UniqueNames(longest=6, taken=["a"])

    labels = [unique.take(name) for name in names]

    assert len({*labels, "a"}) == len(labels) + 1
    assert all(len(label) <= 6 for label in labels)


@given(text=st.text(alphabet="$${}ab", max_size=12))
def test_literal_text_holds_no_placeholder(text: str) -> None:
    # What a template reads back: `$${` is an escaped `${`.
    assert literal(text).replace("$${", "${") == text
    assert not re.search(r"(?<!\$)\$\{", literal(text))


@pytest.mark.parametrize(
    ("paths", "prefix"),
    [
        (["/lab/api/a", "/lab/api/b"], "/lab/api"),
        (["/lab/api/a", "/lab/x"], "/lab"),
        (["/a/{id}/x", "/a/{id}/y"], "/a"),
        (["/a/b"], ""),
        (["/a", "/b"], ""),
        ([], ""),
    ],
)
def test_common_folders_of_paths(paths: list[str], prefix: str) -> None:
    assert common_prefix(paths) == prefix
