"""POST /onetool/tools/import: a bundle of an OpenAPI document, given or fetched; all of it or
nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faces.rest.conftest import Api
from tests.faces.rest.serving import document


def _import(api: Api, openapi: Any, slug: str = "users") -> Any:
    return api.call(
        "POST",
        "tools/import",
        json={"openapi": openapi, "bundle": {"slug": slug, "displayName": "Users"}},
    )


def test_a_document_becomes_a_bundle_that_can_be_called(api: Api) -> None:
    answer = _import(api, document(f"http://{api.upstream.host}"))

    told = answer.json()
    assert answer.status_code == 201
    assert told["bundle"]["slug"] == "users"
    assert told["hosts"] == [api.upstream.host]
    assert told["blockedHosts"] == []
    tool = next(each for each in told["tools"] if "user" in each["slug"].lower())
    place = (
        f"tools/bundles/{told['bundle']['bundleID']}/tools/{tool['slug']}/version/{tool['version']}"
    )
    assert api.invoke(place, {"id": 4}).json() == {"ok": True, "value": {"id": 4, "name": "Ada"}}


def test_a_preview_shows_the_operations_and_an_import_takes_the_chosen(api: Api) -> None:
    whole = document(f"http://{api.upstream.host}") | {"servers": [{"url": "/"}]}

    nowhere = api.call("POST", "tools/import/preview", json={"document": whole})
    server = f"http://{api.upstream.host}"
    preview = api.call("POST", "tools/import/preview", json={"document": whole, "server": server})

    assert nowhere.status_code == 400
    (detail,) = nowhere.json()["error"]["details"]
    assert detail["pointer"] == "/server"
    assert "--server" not in detail["message"]
    assert preview.status_code == 200
    told = preview.json()
    assert told["kind"] == "OpenAPI document"
    assert told["hosts"] == [api.upstream.host]
    assert len(told["operations"]) == 2
    first = told["operations"][0]
    assert first["url"].startswith(server)
    body = {
        "document": whole,
        "server": server,
        "choose": {"names": [first["name"]]},
        "bundle": {"slug": "one"},
    }
    made = api.call("POST", "tools/import", json=body)
    assert made.status_code == 201
    assert [tool["slug"] for tool in made.json()["tools"]] == [first["name"]]
    none = api.call(
        "POST", "tools/import", json={**body, "choose": {"tags": ["x"]}, "bundle": {"slug": "two"}}
    )
    assert none.status_code == 400
    assert none.json()["error"]["details"][0]["pointer"] == "/document"
    assert "two" not in [each["slug"] for each in api.call("GET", "tools/bundles").json()["items"]]


def test_tools_without_auth_get_the_one_that_was_chosen(api: Api) -> None:
    body = {"document": document("https://api.example.com"), "bundle": {"slug": "signed"}}

    wrong = api.call("POST", "tools/import", json={**body, "auth": "bearer:not a name"})
    made = api.call("POST", "tools/import", json={**body, "auth": "header:X-Api-Key:SHOP_KEY"})

    assert wrong.status_code == 400
    (detail,) = wrong.json()["error"]["details"]
    assert detail["pointer"] == "/auth"
    assert "bearer:API_TOKEN" in detail["message"]
    assert made.status_code == 201
    sent = {"type": "apiKey", "in": "header", "name": "X-Api-Key", "value": "${SHOP_KEY}"}
    assert all(tool["http"]["request"]["auth"] == sent for tool in made.json()["tools"])
    assert "SHOP_KEY" in [each["name"] for each in made.json()["secrets"]]


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


@pytest.mark.slow
def test_a_secret_goes_to_another_host_only_where_that_is_confirmed(api: Api) -> None:
    """`API_KEY` is used with the upstream; a document called 'Api' would take it to another
    host."""
    own = api.bundle("own")
    api.tool(own, "me", "/users/1?k=${API_KEY}")
    document = {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:1/v1"}],
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
        "paths": {"/x": {"get": {"operationId": "x"}}},
    }
    body = {"openapi": document, "bundle": {"slug": "api"}}
    record = {
        "type": "http",
        "http": {"request": {"urlTemplate": "http://127.0.0.1:1/?k=${API_KEY}"}},
    }
    place = f"tools/bundles/{own}/tools/other/version/1"
    word = "API_KEY=127.0.0.1:1"

    refused = [
        api.call("POST", "tools/import", json=body),
        api.call("POST", "tools/test", json={"tool": record}),
        api.call("PUT", place, json=record, params={"checkSecrets": "true"}),
    ]

    for answer in refused:
        assert answer.status_code == 409, answer.text
        error = answer.json()["error"]
        assert (error["code"], error["reason"]) == ("conflict", "secret_host")
        assert error["details"][0]["secret"] == "API_KEY"
        assert error["details"][0]["host"] == "127.0.0.1:1"
        assert error["details"][0]["usedWith"] == [api.upstream.host]
    assert [each["slug"] for each in api.call("GET", "tools/bundles").json()["items"]][-1] == "own"
    assert api.upstream.seen == []
    tested = api.call("POST", "tools/test", json={"tool": record, "confirmSecrets": [word]})
    assert tested.json()["error"]["reason"] == "host_not_allowed"
    confirmed = {"checkSecrets": "true", "confirmSecrets": word}
    assert api.call("PUT", place, json=record, params=confirmed).status_code == 201
    assert api.call("PUT", place.replace("other", "meant"), json=record).status_code == 201
    api.call("DELETE", place)
    api.call("DELETE", place.replace("other", "meant"))
    assert api.call("POST", "tools/import", json=body).status_code == 409
    assert (
        api.call("POST", "tools/import", json={**body, "confirmSecrets": [word]}).status_code == 201
    )
