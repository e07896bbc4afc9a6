"""A request inside its bundle: where it goes, and whose auth it gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from onetool_ipy.bundles.http.definition import Auth, RequestTemplate

BASE = "https://a.test/v1"
BEARER = {"type": "bearer", "value": "${TOKEN}"}
HEADER = {"type": "apiKey", "in": "header", "name": "X-Key", "value": "${KEY}"}
QUERY = {"type": "apiKey", "in": "query", "name": "key", "value": "${KEY}"}


@pytest.mark.parametrize(
    ("auth", "request_parts", "is_signed"),
    [
        (BEARER, {}, True),
        (BEARER, {"headers": {"authorization": "own"}}, False),
        (HEADER, {"query": {"X-Key": "1"}}, True),
        (HEADER, {"headers": {"x-key": "own"}}, False),
        (QUERY, {"headers": {"key": "1"}}, True),
        (QUERY, {"query": {"key": "own"}}, False),
        (BEARER, {"auth": {"type": "none"}}, False),
        (BEARER, {"urlTemplate": "https://b.test/x"}, False),
        (BEARER, {"urlTemplate": "https://a.test/other"}, True),
        (BEARER, {"urlTemplate": "http://a.test/x"}, False),
    ],
)
def test_the_bundles_auth_goes_to_its_own_origin_unless_the_request_signs_itself(
    auth: dict[str, Any], request_parts: dict[str, Any], is_signed: bool
) -> None:
    own: Auth = TypeAdapter(Auth).validate_python(auth)
    request = RequestTemplate.model_validate({"urlTemplate": "/x", **request_parts})

    placed = request.within(BASE, own)

    assert (placed.auth == own) is is_signed
    assert placed.url_template == (
        f"{BASE}/x" if request.url_template == "/x" else request.url_template
    )
    assert request.within(BASE, None).auth == request.auth


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"query": {"a": {"b": 1}}}, "neither text, number, true, false nor a list of those"),
        ({"headers": {"A": "1", "a": "2"}}, "a header is named twice"),
        ({"method": "HEAD", "body": "x"}, "a HEAD request has no body"),
        ({"bodyType": "form", "body": [1]}, "a form's body is an object of its fields"),
        ({"bodyType": "multipart", "body": "x"}, "a multipart body is an object of its fields"),
        ({"bodyType": "text", "body": {"a": 1}}, "a text body is text, or one"),
        ({"body": json.loads("[" * 300 + "]" * 300)}, "at most 200 levels"),
    ],
    ids=["query", "twice", "head", "form", "multipart", "text", "deep"],
)
def test_a_request_that_cannot_be_sent_is_refused(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RequestTemplate.model_validate({"urlTemplate": "/x", **parts})
