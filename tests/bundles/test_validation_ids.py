"""Ids, slugs and versions: what may be one, and what is said of the rest."""

from __future__ import annotations

import unicodedata
import uuid
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.validation import is_id, new_id, require_id, require_slug, require_version

GOOD_SLUGS = [
    "a",
    "get-user",
    "GetUser",
    "-",
    "über-größe",
    "读取-文件",
    "٣",
    "𐐀" * 64,
    "x" * 64,
    "ﬁ",
]
BAD_SLUGS = [
    "",
    "a_b",
    "a b",
    " a",
    "a\n",
    "a/b",
    "a\\b",
    "a.b",
    "a@b",
    "a+b",
    "a\0b",
    "a\u00a0b",
    "a\u200bb",
    "€",
    "x" * 65,
]
BAD_SLUGS += ["𐐀" * 65, "\ud800", "e" + "\u0301" * 3, "½", "Ⅷ", "—", None, 7, ["a"], b"a"]


@pytest.mark.spec("002/Data Model/Slug and version letters digits and dash")
@pytest.mark.spec("002/Data Model/Slug and version max 64 runes")
@pytest.mark.parametrize("slug", GOOD_SLUGS)
def test_slug_is_letters_digits_and_dash_up_to_64_runes(slug: str) -> None:
    assert require_slug(slug) == slug
    assert require_version(slug) == slug


@pytest.mark.spec("002/Data Model/Slug forbids underscore blank slash control and symbol")
@pytest.mark.spec("002/Data Model/Slug and version max 64 runes")
@pytest.mark.parametrize("slug", BAD_SLUGS, ids=lambda value: ascii(value)[:20])
def test_anything_else_is_refused_and_named(slug: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^slug: ") as caught:
        require_slug(slug)

    assert (caught.value.code, caught.value.status) == ("invalid_request", 400)


def test_a_refused_slug_is_told_with_the_nearest_good_one() -> None:
    for slug, hint in {
        "shop_api": "Use letters, digits and '-', as in 'shop-api'.",
        "my  API!": "Use letters, digits and '-', as in 'my-API'.",
        "_": "Use letters, digits and '-'.",
    }.items():
        with pytest.raises(InvalidRequest) as caught:
            require_slug(slug)
        assert caught.value.hint == hint


@pytest.mark.spec("002/Data Model/Dot is allowed in a version")
@pytest.mark.parametrize("version", ["1.0.0", "v1", "1.0-beta", ".1", "...", "2026.01.02", "ü.1"])
def test_version_may_hold_dots(version: str) -> None:
    assert require_version(version) == version
    if "." in version:
        with pytest.raises(InvalidRequest, match=r"holds '\.'"):
            require_slug(version)


@pytest.mark.parametrize("version", [".", "..", "v 1", "v/1", "v_1", "", "x" * 65, None, 1.0])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^version: "):
        require_version(version)


def test_composed_and_decomposed_forms_are_one_slug() -> None:
    twins = {require_slug(unicodedata.normalize(form, "café-Å")) for form in ("NFC", "NFD")}

    assert twins == {unicodedata.normalize("NFC", "café-Å")}


def test_64_letters_in_decomposed_form_are_64_runes() -> None:
    assert require_slug(unicodedata.normalize("NFD", "é" * 64)) == "é" * 64
    with pytest.raises(InvalidRequest, match="longer than 64"):
        require_slug(unicodedata.normalize("NFD", "é" * 65))
    with pytest.raises(InvalidRequest, match="longer than 64"):
        require_slug("e\u0301" * 10_000)


@pytest.mark.spec("002/Data Model/Slug and version are case-sensitive")
def test_case_is_kept() -> None:
    assert require_slug("Get") != require_slug("get")


@pytest.mark.spec("002/Data Model/bundleID and toolID are UUIDv7")
def test_only_uuid7_is_an_id() -> None:
    made = new_id()

    assert uuid.UUID(made).version == 7
    assert require_id(made.upper()) == require_id(uuid.UUID(made)) == made
    for bad in (
        str(uuid.uuid4()),
        str(uuid.uuid1()),
        made[:-1],
        made.replace("-", ""),
        f"{{{made}}}",
        "",
        "../x",
        None,
        7,
    ):
        assert not isinstance(bad, str) or not is_id(bad)
        with pytest.raises(InvalidRequest, match="is not a UUIDv7"):
            require_id(bad)


def test_new_ids_grow() -> None:
    made = [new_id() for _ in range(1000)]

    assert sorted(set(made)) == made
