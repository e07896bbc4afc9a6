"""Documents that nobody meant well: each is refused in one clear line, or costs a note."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.curl import import_curl
from onetool_ipy.bundles.importing.formats import import_document

HEAD = '{"openapi": "3.1.0", "servers": [{"url": "https://a.test"}], "paths": '


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b'{"log": {"entries": [' + b" " * (65 * 1024 * 1024), "at most 67,108,864 are read"),
        ('{"item":[' * 20_000, "neither JSON nor YAML"),
        (
            '{"info": {}, "item": ' + "[" * 5000 + "]" * 5000 + "}",
            "no operation|neither JSON nor YAML",
        ),
        (HEAD + '{"/a": {"$ref": "#/paths/~1a"}}}', "no operation"),
        (
            HEAD
            + '{"/a": {"$ref": "file:///etc/passwd"}, "/b": {"$ref": "http://b.test/x.json#/b"}}}',
            "no operation",
        ),
        (
            '{"log": {"entries": [{"request": {"url": "https://a.test/x"}}]}}',
            "HAR files .* copy the request as cURL",
        ),
        ('{"log": {}}', "not an OpenAPI 3 document"),
        ('{"info": 5, "item": []}', "not an OpenAPI 3 document"),
        ("[]", "holds a list at its top"),
    ],
    ids=["large", "deep", "deep-items", "loop", "elsewhere", "har", "log", "info", "list"],
)
def test_what_cannot_be_imported_is_refused_in_one_line(source: bytes | str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        import_document(source)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200


def test_each_format_is_known_by_itself() -> None:
    request = {"method": "GET", "url": "https://a.test/x"}
    documents: dict[str, dict[str, Any]] = {
        "OpenAPI document": json.loads(HEAD + '{"/a": {"get": {"x": 1}}}}'),
        "Swagger 2.0 document": {
            "swagger": "2.0",
            "host": "a.test",
            "paths": {"/a": {"get": {"x": 1}}},
        },
        "Postman collection": {
            "collection": {"info": {}, "item": [{"name": "x", "request": request}]}
        },
    }

    assert [import_document(each).kind for each in documents.values()] == list(documents)


HALF = "\ud800"


@pytest.mark.parametrize("form", ["value", "escaped", "raw"])
def test_half_a_character_anywhere_is_written_out(form: str) -> None:
    """No file can hold a lone surrogate; JSON can write one all the same."""
    words = {"operationId": HALF, "summary": HALF, "tags": [HALF], "description": HALF}
    parameters = [
        {"name": HALF, "in": "query", "schema": {"enum": [HALF], "pattern": HALF}},
        {"name": "x", "in": "path"},
    ]
    operation = {
        **words,
        "parameters": parameters,
        "responses": {"200": {"content": {f"application/{HALF}+json": {}}}},
    }
    request = {
        "method": "GET",
        "url": f"https://a.test/{HALF}?{HALF}={HALF}",
        "header": [{"key": "a", "value": HALF}],
    }
    documents: list[dict[str, Any]] = [
        {
            **json.loads(HEAD + "{}}"),
            "info": {"title": HALF},
            "paths": {f"/{HALF}/{{x}}": {"get": operation}},
        },
        {
            "info": {"name": HALF},
            "item": [{"name": HALF, "item": [{"name": HALF, "request": request}]}],
        },
    ]

    for document in documents:
        texts = {
            "value": document,
            "escaped": json.dumps(document),
            "raw": json.dumps(document, ensure_ascii=False),
        }
        draft = import_document(texts[form])

        json.dumps([draft.tools, draft.bundle, draft.notes], ensure_ascii=False).encode("utf-8")
        assert len(draft.tools) == 1


@pytest.mark.parametrize("read", [str, json.loads], ids=["text", "value"])
def test_a_deep_document_with_half_a_character_is_refused_for_that(
    read: Callable[[str], Any],
) -> None:
    deep = HEAD + '{}, "x": ' + "[" * 600 + "]" * 600 + ', "y": "\\ud800"}'

    # Where Python can write it, there is only nothing in it.
    words = "nested too deep to write out the half character|no operation that can be a tool"
    with pytest.raises(InvalidRequest, match=words):
        import_document(read(deep))


@pytest.mark.parametrize(
    "part", ["/{}", "/?a={}", " -H 'a: {}'", " -d '{}'", " -u {}:x", " -F '{}=x'"]
)
def test_a_command_with_half_a_character_is_refused(part: str) -> None:
    with pytest.raises(InvalidRequest, match="half a character"):
        import_curl("curl https://a.test" + part.replace("{}", HALF))
