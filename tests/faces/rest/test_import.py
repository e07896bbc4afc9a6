"""POST /onetool/tools/import: a bundle of an OpenAPI document, given or fetched; all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faces.rest.conftest import Api
from tests.faces.rest.serving import document


def _import(api: Api, openapi: Any, slug: str = "users") -> Any:
    return api.call("POST", "tools/import", json={"openapi": openapi, "bundle": {"slug": slug, "displayName": "Users"}})


def test_a_document_becomes_a_bundle_that_can_be_called(api: Api) -> None:
    answer = _import(api, document(f"http://{api.upstream.host}"))

    told = answer.json()
    assert answer.status_code == 201
    assert told["bundle"]["slug"] == "users"
    assert told["hosts"] == [api.upstream.host]
    tool = next(each for each in told["tools"] if "user" in each["slug"].lower())
    place = f"tools/bundles/{told['bundle']['bundleID']}/tools/{tool['slug']}/version/{tool['version']}"
    assert api.invoke(place, {"id": 4}).json() == {"ok": True, "value": {"id": 4, "name": "Ada"}}


def test_a_document_is_fetched_from_an_allowed_host_only(api: Api) -> None:
    fetched = _import(api, f"http://{api.upstream.host}/openapi.json")
    elsewhere = _import(api, "https://example.com/openapi.json", "other")
    missing = _import(api, f"http://{api.upstream.host}/broken", "other")

    assert fetched.status_code == 201
    assert len(fetched.json()["tools"]) == 2
    assert elsewhere.status_code == 403
    assert elsewhere.json()["error"]["reason"] == "host_not_allowed"
    assert missing.status_code == 502


@pytest.mark.parametrize(
    "openapi",
    [
        "",
        "not a document",
        "file:///etc/passwd",
        {},
        {"openapi": "2.0"},
        {"swagger": "2.0"},
        {"openapi": "3.1.0"},
        5,
        None,
    ],
)
def test_what_is_no_document_makes_nothing(api: Api, openapi: Any) -> None:
    before = api.call("GET", "tools/bundles").json()

    answer = _import(api, openapi)

    assert answer.status_code == 400, answer.text
    assert api.call("GET", "tools/bundles").json() == before


def test_a_slug_that_is_taken_is_a_conflict(api: Api) -> None:
    api.bundle("users")

    assert _import(api, document(f"http://{api.upstream.host}")).status_code == 409
    assert _import(api, document(f"http://{api.upstream.host}"), "time").status_code == 409
    assert _import(api, document(f"http://{api.upstream.host}"), "a_b").status_code == 400
