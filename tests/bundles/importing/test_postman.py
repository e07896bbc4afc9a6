"""Postman collections: what their tools send to a real server, and what is not imported."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.draft import (
    BundleDraft,
    ImportRequest,
    MissingServer,
    OperationChoice,
)
from onetool_ipy.bundles.importing.formats import import_document
from tests.bundles.importing.imported import ImportedTools

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


def url(path: str, **parts: Any) -> dict[str, Any]:
    names = path.strip("/").split("/")
    return {
        "raw": f"{{{{baseUrl}}}}/{'/'.join(names)}",
        "host": ["{{baseUrl}}"],
        "path": names,
        **parts,
    }


COLLECTION: dict[str, Any] = {
    "info": {
        "_postman_id": "1",
        "name": "Shop API",
        "schema": SCHEMA,
        "description": {"content": "A shop."},
    },
    "auth": {
        "type": "bearer",
        "bearer": [{"key": "token", "value": "tok-literal-123", "type": "string"}],
    },
    "variable": [
        {"key": "host", "value": "HOST"},
        {"key": "baseUrl", "value": "http://{{host}}/echo"},
        {"key": "tenant", "value": "acme"},
        {"key": "tenant", "value": "another", "disabled": True},
        {"key": "pin", "value": "4711", "type": "secret"},
    ],
    "event": [{"listen": "prerequest", "script": {"exec": ["pm.globals.set('a', 1)"]}}],
    "item": [
        {
            "name": "Users",
            "item": [
                {
                    "name": "Get user",
                    "request": {
                        "method": "GET",
                        "header": [
                            {"key": "X-Tenant", "value": "{{tenant}}"},
                            {"key": "X-Pin", "value": "{{pin}}"},
                            {"key": "X-Off", "value": "1", "disabled": True},
                        ],
                        "description": "One user.",
                        "url": url(
                            "users/:userId",
                            query=[
                                {"key": "fields", "value": "name", "description": "What to give."},
                                {"key": "verbose", "value": "true", "disabled": True},
                            ],
                            variable=[
                                {"key": "userId", "value": "7", "description": "The user's number."}
                            ],
                        ),
                    },
                },
                {
                    "name": "List",
                    "request": {
                        "method": "GET",
                        "url": url("users"),
                        "auth": {
                            "type": "basic",
                            "basic": [
                                {"key": "username", "value": "ada"},
                                {"key": "password", "value": "{{pw}}"},
                            ],
                        },
                    },
                },
                {
                    "name": "Login",
                    "request": {
                        "method": "POST",
                        "auth": {"type": "noauth"},
                        "body": {
                            "mode": "raw",
                            "raw": (
                                '{"user": {"name": "{{name}}", "password": "hunter2-literal"},'
                                ' "keep": {{keep}}}'
                            ),
                            "options": {"raw": {"language": "json"}},
                        },
                        "url": url("login"),
                    },
                },
            ],
        },
        {
            "name": "Orders",
            "auth": {
                "type": "apikey",
                "apikey": [
                    {"key": "key", "value": "X-Key"},
                    {"key": "value", "value": "key-of-orders"},
                ],
            },
            "item": [
                {
                    "name": "List",
                    "request": {
                        "method": "POST",
                        "body": {
                            "mode": "urlencoded",
                            "urlencoded": [
                                {"key": "q", "value": "a b"},
                                {"key": "n", "value": "2"},
                            ],
                        },
                        "url": url("orders/search"),
                    },
                },
                {
                    "name": "Upload",
                    "request": {
                        "method": "PUT",
                        "body": {
                            "mode": "formdata",
                            "formdata": [
                                {"key": "doc", "type": "file", "src": "x"},
                                {"key": "title", "value": "T"},
                            ],
                        },
                        "url": url("orders/doc"),
                    },
                },
                {
                    "name": "Ask",
                    "request": {
                        "method": "POST",
                        "body": {
                            "mode": "graphql",
                            "graphql": {"query": "query Q($a: Int) {x}", "variables": '{"a": 1}'},
                        },
                        "url": url("graphql"),
                    },
                },
                {
                    "name": "Signed",
                    "request": {
                        "method": "GET",
                        "url": url("signed"),
                        "auth": {"type": "awsv4", "awsv4": []},
                    },
                },
                {"name": "Elsewhere", "request": {"method": "GET", "url": "{{other}}/x"}},
            ],
        },
    ],
}


def draft_of(collection: dict[str, Any], **asked: Any) -> BundleDraft:
    return import_document(json.dumps(collection).replace("HOST", "a.test"), ImportRequest(**asked))


def test_requests_are_sent_as_postman_sends_them(imported: ImportedTools) -> None:
    own = {
        "SHOP_TOKEN": "new-token",
        "SHOP_PIN": "1234",
        "SHOP_PW": "pw-1",
        "SHOP_USERNAME": "ada",
        "SHOP_KEY": "k-1",
    }
    imported.store(json.dumps(COLLECTION), "shop", {**own, "SHOP_PASSWORD": "s3cret-1"})

    got = imported.sent("shop.get-user")
    assert (got.method, got.path, got.query) == ("GET", "/echo/users/7", {"fields": "name"})
    assert (got.headers["authorization"], got.headers["x-tenant"], got.headers["x-pin"]) == (
        "Bearer new-token",
        "acme",
        "1234",
    )
    assert "x-off" not in got.headers
    got = imported.sent("shop.get-user", userId=9, tenant="o/r", verbose=True)
    assert (got.target.partition("?")[0], got.query["verbose"]) == ("/echo/users/9", "true")
    assert got.headers["x-tenant"] == "o/r"
    got = imported.sent("shop.users-list")
    assert got.headers["authorization"] == "Basic " + base64.b64encode(b"ada:pw-1").decode()
    got = imported.sent("shop.login", name="Bob", keep="yes")
    assert json.loads(got.body) == {"user": {"name": "Bob", "password": "s3cret-1"}, "keep": "yes"}
    assert "authorization" not in got.headers
    got = imported.sent("shop.orders-list", n=3)
    assert parse_qsl(got.body.decode()) == [("q", "a b"), ("n", "3")]
    assert (got.headers["x-key"], got.headers["content-type"]) == (
        "k-1",
        "application/x-www-form-urlencoded",
    )
    got = imported.sent("shop.upload", doc="content")
    assert b"content" in got.body
    assert got.headers["content-type"].startswith("multipart/form-data")
    got = imported.sent("shop.ask", variables={"a": 5})
    assert json.loads(got.body) == {"query": "query Q($a: Int) {x}", "variables": {"a": 5}}


def test_folders_are_tags_and_words_are_kept() -> None:
    draft = draft_of(COLLECTION)

    by_name = {tool["slug"]: tool for tool in draft.tools}
    assert (draft.kind, draft.bundle["slug"], draft.bundle["description"]) == (
        "Postman collection",
        "shop-api",
        "A shop.",
    )
    assert list(by_name) == [
        "get-user",
        "users-list",
        "login",
        "orders-list",
        "upload",
        "ask",
        "signed",
    ]
    assert by_name["get-user"]["tags"] == ["Users"]
    assert by_name["get-user"]["description"] == "One user."
    assert by_name["users-list"]["displayName"] == "List"
    properties = by_name["get-user"]["argSchema"]["properties"]
    assert properties["userId"] == {
        "type": "integer",
        "description": "The user's number.",
        "default": 7,
    }
    assert properties["fields"]["description"] == "What to give."
    assert by_name["login"]["argSchema"]["required"] == ["name", "keep"]
    chosen = draft_of(COLLECTION, choice=OperationChoice(tags=("orders",), include=("/orders/*",)))
    assert [tool["slug"] for tool in chosen.tools] == ["orders-list", "upload"]
    assert chosen.offered == 8


def test_no_credential_is_kept_and_what_is_left_out_is_said() -> None:
    draft = draft_of(COLLECTION)

    kept = json.dumps([draft.tools, draft.bundle, draft.secrets, draft.notes])
    for value in ("tok-literal-123", "hunter2-literal", "key-of-orders", "4711"):
        assert value not in kept
    names = [each["name"] for each in draft.secrets]
    assert names == [
        *("SHOP_API_KEY", "SHOP_API_PASSWORD", "SHOP_API_PIN", "SHOP_API_PW"),
        *("SHOP_API_TOKEN", "SHOP_API_USERNAME"),
    ]
    said = "\n".join(draft.notes)
    assert "scripts of the collection are not run" in said
    assert "'Signed': auth of the kind 'awsv4' is not imported" in said
    assert "'Elsewhere': {{other}} has no value. The tool is left out" in said


def test_two_credentials_of_one_name_are_two_secrets() -> None:
    def item(name: str, token: str) -> dict[str, Any]:
        return {
            "name": name,
            "request": {
                "url": "https://a.test/x",
                "auth": {"type": "bearer", "bearer": {"token": token}},
            },
        }

    draft = draft_of(
        {
            "info": {"name": "Two"},
            "item": [item("a", "one-1"), item("b", "two-2"), item("c", "one-1")],
        }
    )

    values = [tool["http"]["request"]["auth"]["value"] for tool in draft.tools]
    assert values == ["${TWO_TOKEN}", "${TWO_TOKEN_2}", "${TWO_TOKEN}"]


@pytest.mark.parametrize(
    ("fields", "auth"),
    [
        (
            {
                "grant_type": "client_credentials",
                "accessTokenUrl": "https://a.test/t",
                "scope": "a b",
            },
            {"type": "oauth2", "tokenUrl": "https://a.test/t", "scope": "a b"},
        ),
        (
            {"grant_type": "client_credentials", "accessTokenUrl": "https://a.test/t"},
            {"type": "oauth2"},
        ),
        *(
            ({"grant_type": "client_credentials", "accessTokenUrl": url}, {"type": "bearer"})
            for url in ("{{tokens}}", "https://<tenant>.test/t", "")
        ),
        (
            {"grant_type": "authorization_code", "accessTokenUrl": "https://a.test/t"},
            {"type": "bearer"},
        ),
    ],
)
def test_oauth2_is_asked_for_where_no_person_is_needed(
    fields: dict[str, str], auth: dict[str, str]
) -> None:
    own = {**fields, "clientId": "me-1", "clientSecret": "secret-1", "accessToken": "token-1"}
    request = {"url": "https://a.test/x", "auth": {"type": "oauth2", "oauth2": own}}

    made = draft_of({"info": {"name": "T"}, "item": [{"name": "x", "request": request}]}).tools[0][
        "http"
    ]["request"]

    assert {key: made["auth"][key] for key in auth} == auth
    assert ("scope" in made["auth"]) is ("scope" in auth)
    secrets = {"clientId", "clientSecret"} if auth["type"] == "oauth2" else {"value"}
    assert {key for key, text in made["auth"].items() if text.startswith("${T_")} == secrets


def test_a_server_is_named_where_the_collection_has_none() -> None:
    bare = {**COLLECTION, "variable": []}

    with pytest.raises(MissingServer) as caught:
        draft_of(bare)
    assert caught.value.message == "The collection does not say what {{baseUrl}} is."
    assert "--server" in str(caught.value.hint)
    draft = draft_of(bare, server="https://b.test/v2")
    assert draft.tools[0]["http"]["request"]["urlTemplate"] == "https://b.test/v2/users/${userId}"
    assert draft.hosts == ["b.test"]


@pytest.mark.parametrize(
    ("request_", "template"),
    [
        ("https://a.test/v1/x", "https://a.test/v1/x"),
        ("a.test/v1/x?q=1", "http://a.test/v1/x"),
        ({"url": "https://a.test"}, "https://a.test/"),
        (
            {
                "url": {
                    "protocol": "https",
                    "host": ["a", "test"],
                    "port": "8443",
                    "path": ["x", {"value": "y"}],
                }
            },
            "https://a.test:8443/x/y",
        ),
        (
            {"url": {"raw": "https://a.test/{{x y}}/${evil}/{{$guid}}"}},
            "https://a.test/${x_y}/%24${evil}/${guid}",
        ),
    ],
)
def test_a_url_may_be_written_in_many_ways(request_: Any, template: str) -> None:
    draft = draft_of({"info": {"name": "T"}, "item": [{"name": "x", "request": request_}]})

    assert draft.tools[0]["http"]["request"]["urlTemplate"] == template


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"_postman_variable_scope": "environment", "values": []}, "a Postman environment"),
        ({"requests": [], "order": [], "folders": []}, "version 1"),
        ({"info": {"name": "x"}, "item": []}, "no operation"),
        (
            {
                "info": {"name": "x"},
                "item": [{"name": "y", "request": {"method": "LINK", "url": "https://a.test"}}],
            },
            "no operation",
        ),
    ],
)
def test_what_has_nothing_to_import_is_refused(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        import_document(document)


def test_a_hostile_collection_costs_a_note_or_is_refused() -> None:
    deep: dict[str, Any] = {"name": "end", "request": "https://a.test/x"}
    for _ in range(500):
        deep = {"name": "f", "item": [deep]}
    evil = "${SECRET}\x1b[31m\ue000x\ue001\n"
    odd: list[Any] = [
        None,
        5,
        [],
        {"request": None},
        {
            "name": evil,
            "request": {"url": f"https://a.test/{evil}", "header": [{"key": evil, "value": evil}]},
        },
        {"name": 3, "request": {"url": 7}},
        {
            "request": {
                "url": {"raw": [], "query": {}, "path": 3},
                "body": {"mode": "raw", "raw": {}},
            }
        },
        {"name": "loop", "request": "{{a}}/x"},
        {
            "name": "nest",
            "request": {
                "url": "https://a.test/n",
                "method": "POST",
                "body": {
                    "mode": "raw",
                    "raw": "[" * 500 + "]" * 500,
                    "options": {"raw": {"language": "json"}},
                },
            },
        },
    ]
    whole = {
        "info": {"name": evil},
        "variable": [{"key": "a", "value": "{{b}}"}, {"key": "b", "value": "{{a}}"}],
        "item": [*odd, deep],
    }

    draft = import_document(whole)

    kept = json.dumps([draft.tools, draft.bundle, draft.notes])
    assert "\\u001b" not in kept
    assert "\\ue000" not in json.dumps([tool["http"] for tool in draft.tools])
    assert "folders in more than 30 levels are left out" in draft.notes
    assert {tool["slug"] for tool in draft.tools} >= {"nest"}
    (named,) = [tool for tool in draft.tools if "SECRET" in json.dumps(tool)]
    assert named["argSchema"]["required"] == ["SECRET"]  # an argument, which no secret fills
    assert draft.secrets == []
