"""OpenAPI documents, good and bad: what becomes of parameters, bodies, references, servers,
security and names."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.http.definition import HttpDefinition
from onetool_ipy.bundles.http.template import placeholders_in
from onetool_ipy.bundles.importing.draft import BundleDraft, ImportRequest
from onetool_ipy.bundles.importing.formats import import_document
from onetool_ipy.bundles.model import ToolBody, read
from onetool_ipy.schema.check import Checker
from tests.bundles.importing.test_openapi_real_documents import text_of


def document(**parts: Any) -> dict[str, Any]:
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "Pet Store", "version": "1.0.0"},
        "servers": [{"url": "https://a.test/v1/"}],
    }
    return {**whole, **parts}


def one(
    operation: dict[str, Any], *, path: str = "/pets", method: str = "get", **parts: Any
) -> BundleDraft:
    draft = import_document(document(paths={path: {method: operation}}, **parts))
    for tool in draft.tools:
        read(ToolBody, tool, own=(tool["slug"], tool["version"]))
        HttpDefinition.model_validate(tool["http"])
    return draft


def request_of(draft: BundleDraft) -> dict[str, Any]:
    found: dict[str, Any] = draft.tools[0]["http"]["request"]
    return found


def param(where: str, name: str, **more: Any) -> dict[str, Any]:
    return {"in": where, "name": name, "schema": {"type": "string"}, **more}


def test_a_document_becomes_a_bundle_and_its_tools() -> None:
    operation = {
        "operationId": "getPet",
        "summary": "One pet",
        "description": "Finds it.",
        "tags": ["pets", "a,b"],
        "deprecated": True,
        "parameters": [
            param("path", "petId", required=True),
            param("query", "full", description="All of it?"),
        ],
        "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}},
    }

    draft = one(operation, path="/pets/{petId}")

    assert draft.bundle == {
        "slug": "pet-store",
        "displayName": "Pet Store",
        "description": "",
        "isEnabled": True,
    }
    assert draft.tools == [
        {
            "slug": "getPet",
            "version": "1.0.0",
            "displayName": "One pet",
            "description": "One pet\n\nFinds it.\n\nDeprecated.",
            "tags": ["pets", "a b"],
            "type": "http",
            "argSchema": {
                "type": "object",
                "properties": {
                    "petId": {"type": "string"},
                    "full": {"type": "string", "description": "All of it?"},
                },
                "required": ["petId"],
                "additionalProperties": False,
            },
            "http": {
                "request": {
                    "method": "GET",
                    "urlTemplate": "https://a.test/v1/pets/${petId}",
                    "query": {"full": "${full}"},
                    "headers": {"Accept": "application/json"},
                }
            },
            "outputSchema": {"type": "object"},
            "outputSchemaFrom": "document",
        }
    ]
    assert (draft.hosts, draft.secrets, draft.notes) == (["a.test"], [], [])


@pytest.mark.parametrize(
    ("more", "placeholder"),
    [
        ({}, "${ids}"),
        ({"explode": False}, "${ids|csv}"),
        ({"style": "spaceDelimited", "explode": False}, "${ids|space}"),
        ({"style": "pipeDelimited", "explode": False}, "${ids|pipe}"),
        ({"style": "pipeDelimited", "explode": True}, "${ids}"),
        ({"style": "deepObject", "schema": {"type": "object"}}, "${ids|deep}"),
        ({"schema": {"type": "object"}}, "${ids|spread}"),
        ({"schema": {"type": "object"}, "explode": False}, "${ids|csv}"),
        (
            {"schema": None, "content": {"application/json": {"schema": {"type": "object"}}}},
            "${ids|json}",
        ),
    ],
)
def test_a_query_parameter_keeps_its_style(more: dict[str, Any], placeholder: str) -> None:
    parameter = {
        "in": "query",
        "name": "ids",
        "schema": {"type": "array", "items": {"type": "string"}},
        **more,
    }

    assert request_of(one({"parameters": [parameter]}))["query"] == {"ids": placeholder}


def test_a_path_parameter_keeps_its_style() -> None:
    parameters = [
        param("path", "a", style="label", required=True),
        param("path", "b", style="matrix", required=True),
        {"in": "path", "name": "c", "required": True, "schema": {"type": "array"}},
    ]

    draft = one({"parameters": parameters}, path="/x/{a}/{b}/{c}/{d}/a b$")

    assert (
        request_of(draft)["urlTemplate"] == "https://a.test/v1/x/.${a}/;b=${b}/${c}/${d}/a%20b%24"
    )
    assert draft.notes == [
        "GET /x/{a}/{b}/{c}/{d}/a b$: the path's 'd' is not a parameter, and is taken as text"
    ]


def test_headers_are_taken_and_cookies_noted() -> None:
    parameters = [param("header", n) for n in ("X-Trace", "Accept", "authorization", "Host")] + [
        param("cookie", "sid")
    ]

    draft = one({"parameters": parameters})

    assert request_of(draft)["headers"] == {"X-Trace": "${X-Trace}"}
    assert draft.notes == [
        "GET /pets: the header 'Host' cannot be set, and is left out",
        "GET /pets: the cookie parameter 'sid' is left out",
    ]


def test_the_same_name_in_two_places_makes_two_arguments() -> None:
    parameters = [param("path", "id", required=True), param("query", "id"), param("header", "id")]

    draft = one({"parameters": parameters}, path="/x/{id}")

    assert request_of(draft)["urlTemplate"].endswith("/x/${id}")
    assert request_of(draft)["query"] == {"id": "${id_2}"}
    assert request_of(draft)["headers"] == {"id": "${id_3}"}
    assert "GET /pets: 'id' is the argument 'id_2'" not in draft.notes
    assert len(draft.notes) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("application/json", {"body": {"a": "${a}", "b": "${b}"}, "bodyType": "json"}),
        (
            "application/merge-patch+json",
            {
                "body": {"a": "${a}", "b": "${b}"},
                "bodyType": "json",
                "headers": {"Content-Type": "application/merge-patch+json"},
            },
        ),
        (
            "application/x-www-form-urlencoded",
            {"body": {"a": "${a}", "b": "${b}"}, "bodyType": "form"},
        ),
        ("multipart/form-data", {"body": {"a": "${a}", "b": "${b}"}, "bodyType": "multipart"}),
        (
            "text/plain",
            {"body": "${body}", "bodyType": "text", "headers": {"Content-Type": "text/plain"}},
        ),
        (
            "image/png",
            {"body": "${body}", "bodyType": "binary", "headers": {"Content-Type": "image/png"}},
        ),
    ],
)
def test_a_body_becomes_arguments(content: str, expected: dict[str, Any]) -> None:
    fields = {
        "a": {"type": "integer"},
        "b": {"type": "string"},
        "id": {"type": "string", "readOnly": True},
    }
    schema = {"type": "object", "properties": fields, "required": ["a", "id"]}

    draft = one(
        {"requestBody": {"required": True, "content": {content: {"schema": schema}}}}, method="post"
    )

    request = request_of(draft)
    assert {key: request[key] for key in expected} == expected
    assert draft.tools[0]["argSchema"]["required"] == (
        ["a"] if isinstance(expected["body"], dict) else ["body"]
    )


@pytest.mark.parametrize(
    ("content", "is_file"), [("application/json", False), ("multipart/form-data", True)]
)
def test_a_binary_field_is_a_file_in_a_multipart_form_alone(content: str, is_file: bool) -> None:
    schema = {"type": "object", "properties": {"doc": {"type": "string", "format": "binary"}}}

    draft = one({"requestBody": {"content": {content: {"schema": schema}}}}, method="post")

    assert ("anyOf" in draft.tools[0]["argSchema"]["properties"]["doc"]) is is_file


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [{"type": "object"}, {"type": "string"}]},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"q": {}}},
        {"type": "object", "properties": {"a{b}": {}}},
        {"type": "object"},
        {},
        True,
    ],
)
def test_a_body_that_is_no_plain_object_is_one_argument(schema: Any) -> None:
    body = {"content": {"application/json": {"schema": schema}}}

    draft = one({"requestBody": body, "parameters": [param("query", "q")]}, method="post")

    assert request_of(draft)["body"] == "${body}"


def test_schemas_of_3_0_become_json_schema() -> None:
    fields = {
        "n": {"type": "integer", "nullable": True, "enum": [1, 2], "example": 1},
        "m": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "xml": {}, "x-y": 1},
        "r": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/P"}]},
        "odd": {"type": "file", "minLength": -1, "required": True, "pattern": "("},
        "d": {"type": "integer", "default": 30, "description": "Size."},
    }
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": fields}}}}

    draft = one(
        {"requestBody": body},
        method="post",
        openapi="3.0.3",
        components={"schemas": {"P": {"type": "string"}}},
    )

    found = draft.tools[0]["argSchema"]
    assert found["properties"] == {
        "n": {"type": ["integer", "null"], "enum": [1, 2, None], "examples": [1]},
        "m": {"type": "number", "exclusiveMinimum": 0},
        "r": {"anyOf": [{"allOf": [{"$ref": "#/$defs/P"}]}, {"type": "null"}]},
        "odd": {},
        "d": {"type": "integer", "description": "Size. (default: 30)"},
    }
    assert found["$defs"] == {"P": {"type": "string"}}
    assert draft.notes == [
        "the type 'file' does not exist, and is left out",
        "the pattern '(' is not a regular expression, and is left out",
    ]


def test_references_in_a_circle_stay_a_circle() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "integer"}},
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    loops = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}

    draft = one(
        {
            "requestBody": body,
            "parameters": [
                {"in": "query", "name": "x", "schema": {"$ref": "#/components/schemas/A"}}
            ],
        },
        method="post",
        components={"schemas": {"Node": node, **loops}},
    )

    check = Checker(draft.tools[0]["argSchema"])
    check.check({"v": 1, "next": {"v": 2, "next": {"v": 3}}}, "t")
    with pytest.raises(Exception, match="next"):
        check.check({"next": {"next": {"v": "x"}}}, "t")


def test_nothing_outside_of_the_document_is_fetched() -> None:
    parameters = [
        {"$ref": "https://evil.test/p.json"},
        {"in": "query", "name": "a", "schema": {"$ref": "other.yaml#/x"}},
        {"in": "query", "name": "b", "schema": {"$ref": "#/nowhere"}},
    ]

    draft = one({"parameters": parameters})

    assert draft.tools[0]["argSchema"]["properties"] == {"a": {}, "b": {}}
    assert (
        "'https://evil.test/p.json' is outside of the document, and is not fetched" in draft.notes
    )
    assert "'other.yaml#/x' is outside of the document, and is not fetched" in draft.notes
    assert "'#/nowhere' does not exist in the document" in draft.notes


SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "keyInQuery": {"type": "apiKey", "in": "query", "name": "k"},
    "inCookie": {"type": "apiKey", "in": "cookie", "name": "k"},
    "bearer": {"type": "http", "scheme": "Bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "digest": {"type": "http", "scheme": "digest"},
    "machine": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "https://a.test/token", "scopes": {}}},
    },
    "person": {
        "type": "oauth2",
        "flows": {"implicit": {"authorizationUrl": "https://a.test/x", "scopes": {}}},
    },
    "mtls": {"type": "mutualTLS"},
    "spaced": {"type": "apiKey", "in": "header", "name": "X API Key"},
    "own": {"type": "apiKey", "in": "header", "name": "Host"},
    "tenant": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "https://<tenant>.test/token", "scopes": {}}},
    },
}


@pytest.mark.parametrize(
    ("security", "auth"),
    [
        (
            [{"key": []}],
            {"type": "apiKey", "in": "header", "name": "X-Key", "value": "${PET_STORE_KEY}"},
        ),
        (
            [{"keyInQuery": []}],
            {"type": "apiKey", "in": "query", "name": "k", "value": "${PET_STORE_KEY_IN_QUERY}"},
        ),
        ([{"bearer": []}], {"type": "bearer", "value": "${PET_STORE_BEARER}"}),
        (
            [{"digest": []}, {"basic": []}],
            {
                "type": "basic",
                "username": "${PET_STORE_BASIC_USERNAME}",
                "password": "${PET_STORE_BASIC_PASSWORD}",
            },
        ),
        (
            [{"machine": ["read", "write"]}],
            {
                "type": "oauth2",
                "tokenUrl": "https://a.test/token",
                "clientId": "${PET_STORE_MACHINE_CLIENT_ID}",
                "clientSecret": "${PET_STORE_MACHINE_CLIENT_SECRET}",
                "scope": "read write",
            },
        ),
        ([{"person": ["x"]}], {"type": "bearer", "value": "${PET_STORE_PERSON_TOKEN}"}),
        ([{"mtls": []}], None),
        # What could not be sent costs itself, and not the whole document.
        ([{"spaced": []}], None),
        ([{"own": []}], None),
        ([{"tenant": []}], {"type": "bearer", "value": "${PET_STORE_TENANT_TOKEN}"}),
        ([{"inCookie": []}], None),
        ([{"nowhere": []}], None),
        ([{}, {"bearer": []}], None),
        ([], None),
    ],
)
def test_security_schemes_become_auth_with_names_of_secrets(security: list[Any], auth: Any) -> None:
    draft = one(
        {"security": security}, components={"securitySchemes": SCHEMES}, security=[{"key": []}]
    )

    assert request_of(draft).get("auth") == auth
    if auth is None and security:
        assert draft.notes
    for secret in draft.secrets:
        assert f"${{{secret['name']}}}" in json.dumps(auth)


def test_keys_that_are_wanted_together_are_all_sent() -> None:
    security = [{"key": [], "keyInQuery": [], "bearer": []}]

    draft = one({"security": security}, components={"securitySchemes": SCHEMES})

    request = request_of(draft)
    assert request["auth"]["type"] == "bearer"
    assert request["headers"] == {"X-Key": "${PET_STORE_KEY}"}
    assert request["query"] == {"k": "${PET_STORE_KEY_IN_QUERY}"}
    assert [secret["name"] for secret in draft.secrets] == [
        "PET_STORE_BEARER",
        "PET_STORE_KEY",
        "PET_STORE_KEY_IN_QUERY",
    ]


@pytest.mark.parametrize(
    ("server", "base_url", "url"),
    [
        ({"url": "https://a.test"}, None, "https://a.test/pets"),
        (
            {
                "url": "https://{r}.a.test/{v}",
                "variables": {"r": {"default": "eu"}, "v": {"default": 2}},
            },
            None,
            "https://eu.a.test/2/pets",
        ),
        ({"url": "/api/v3"}, "https://b.test/docs/openapi.json", "https://b.test/api/v3/pets"),
        ({"url": "v3"}, "https://b.test/docs/openapi.json", "https://b.test/docs/v3/pets"),
    ],
)
def test_the_server_is_the_first_one_with_its_defaults(
    server: dict[str, Any], base_url: str | None, url: str
) -> None:
    draft = import_document(
        document(
            servers=[server, {"url": "https://other.test"}], paths={"/pets": {"get": {"x": 1}}}
        ),
        ImportRequest(base_url=base_url),
    )

    assert request_of(draft)["urlTemplate"] == url


def test_a_server_that_is_no_place_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="has only a relative server URL"):
        import_document(document(servers=[{"url": "/v1"}], paths={"/a": {"get": {"x": 1}}}))
    for url in ("https://{x}.a.test/", "https://u:p@a.test/", "https://a.test/?x=1"):
        with pytest.raises(InvalidRequest, match="no operation that can be a tool"):
            import_document(document(servers=[{"url": url}], paths={"/a": {"get": {"x": 1}}}))


def test_names_come_from_operation_ids_and_are_all_different() -> None:
    ids = ["a/b_c", "a.b.c", "A-b-c", "über grün", "x" * 90, "x" * 90, "___", None, "pets.list()"]
    paths = {f"/p{i}": {"get": {"operationId": name, "x": 1}} for i, name in enumerate(ids)}

    slugs = [tool["slug"] for tool in import_document(document(paths=paths)).tools]

    assert slugs == [
        "a-b-c", "a-b-c-2", "A-b-c", "über-grün", "x" * 64, "x" * 62 + "-2", "get-p6", "get-p7", "pets-list",
    ]  # fmt: skip


def test_schemas_whose_references_multiply_are_left_out() -> None:
    """Such a schema would hold every call; the tool works without it."""
    schemas = {
        f"s{i}": {"allOf": [{"$ref": f"#/components/schemas/s{i + 1}"}] * 2} for i in range(20)
    } | {"s20": {}}
    top = {"$ref": "#/components/schemas/s0"}
    operation = {
        "parameters": [{"name": "x", "in": "query", "schema": top, "description": "An x."}],
        "responses": {"200": {"content": {"application/json": {"schema": top}}}},
    }

    draft = import_document(
        document(paths={"/x": {"get": operation}}, components={"schemas": schemas})
    )

    assert draft.tools[0]["argSchema"]["properties"] == {"x": {"description": "An x."}}
    assert "outputSchema" not in draft.tools[0]
    assert [note.partition(": ")[2] for note in draft.notes] == [
        "the schemas of its arguments are not kept: their references multiply",
        "its outputSchema is left out: its references multiply",
    ]


def test_shared_parameters_and_referred_paths_are_taken() -> None:
    item = {
        "parameters": [param("path", "id", required=True), param("query", "v")],
        "get": {"parameters": [param("query", "v", required=True)]},
    }
    whole = document(
        paths={"/x/{id}": {"$ref": "#/components/pathItems/X"}},
        components={"pathItems": {"X": item}},
    )

    tool = import_document(whole).tools[0]

    assert tool["argSchema"]["required"] == ["id", "v"]


def test_output_schemas_are_taken_where_they_are_sane() -> None:
    good = {"content": {"application/json": {"schema": {"type": "array"}}}}
    large = {
        "content": {
            "application/json": {"schema": {"enum": ["x" * 100 + str(i) for i in range(300)]}}
        }
    }

    assert one({"responses": {"200": good}}).tools[0]["outputSchema"] == {"type": "array"}
    assert "outputSchema" not in one({"responses": {"200": good, "204": {}}}).tools[0]
    assert "outputSchema" not in one({"responses": {"default": good}}).tools[0]
    draft = one({"responses": {"200": large}})
    assert "outputSchema" not in draft.tools[0]
    assert draft.notes == ["GET /pets: its outputSchema is left out, since it is very large"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"swagger": "1.2"}, "This is Swagger 1.2"),
        ({}, "not an OpenAPI 3 document"),
        ({"openapi": "4.0"}, "not an OpenAPI 3 document"),
        ({"openapi": "3.0.0"}, "no operation"),
        ({"openapi": "3.0.0", "paths": []}, "no operation"),
        ({"openapi": "3.0.0", "paths": {"/x": None, "/y": {"get": "z"}}}, "no operation"),
        (b"", "not an OpenAPI 3 document"),
        (b"[1, 2]", r"neither JSON nor YAML|no object"),
        (b"{oops", "neither JSON nor YAML"),
        (b"a: &a [*a]", r"neither JSON nor YAML|not an OpenAPI"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        ("<html>", "web page"),
        (b'{"a":' * 5000, "neither JSON nor YAML"),
    ],
)
def test_what_is_no_document_is_refused(source: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        import_document(source)


def test_odd_parts_cost_only_themselves() -> None:
    paths = {
        "/good": {"get": {"operationId": "good"}},
        "/odd": {
            "get": {
                "operationId": 5,
                "parameters": [
                    None,
                    3,
                    {"in": "query"},
                    {"in": "body", "name": "x"},
                    {"in": "query", "name": "ok", "schema": 7},
                ],
                "requestBody": "x",
                "responses": [1],
                "security": "none",
                "tags": {"a": 1},
            },
            "trace": {"x": 1},
        },
    }

    draft = import_document(document(paths=paths))

    assert [tool["slug"] for tool in draft.tools] == ["good", "get-odd"]
    assert draft.tools[1]["argSchema"]["properties"] == {"ok": {}}
    assert "TRACE /odd: a trace cannot be a tool, and is left out" in draft.notes


def test_yaml_is_read_as_json_is() -> None:
    text = """
openapi: 3.0.1
info: {title: T, version: 1.10}
servers: [{url: 'https://a.test'}]
paths:
  /a:
    get:
      responses: {200: {description: ok}}
      parameters:
      - {in: query, name: on, schema: {type: string, enum: [yes, no, 2020-01-01]}}
"""

    draft = import_document(text)

    assert draft.tools[0]["argSchema"]["properties"] == {
        "on": {"type": "string", "enum": ["yes", "no", "2020-01-01"]}
    }


def test_a_yaml_of_aliases_without_end_is_refused() -> None:
    """Unfolded, it has 10 to the 29 entries: who follows them all never ends."""
    lines = ["a0: &a0 [x]"] + [
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)
    ]

    with pytest.raises(InvalidRequest):
        import_document("openapi: 3.0.0\n" + "\n".join(lines))


def test_a_schema_without_end_in_depth_is_cut() -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"properties": {"x": deep}}

    draft = one({"parameters": [{"in": "query", "name": "d", "schema": deep}]})

    assert "a schema is nested too deep, and its inside is left out" in draft.notes


def test_styles_of_a_real_document_are_imported_with_notes() -> None:
    draft = import_document(text_of("parameters-style.json"))

    assert len(draft.tools) == 25
    assert any("cookie parameter" in note for note in draft.notes)
    assert any("with explode" in note for note in draft.notes)


@pytest.mark.slow
def test_a_damaged_document_costs_a_note_or_is_refused() -> None:
    """A real document with parts of it replaced at random: every tool that comes out can still be
    kept."""
    chance = random.Random(5)
    whole = json.loads(text_of("readme.json"))
    whole["paths"] = dict(list(whole["paths"].items())[:6])
    odd: list[Any] = [
        None,
        5,
        "x",
        [],
        {},
        True,
        ["a"],
        {"$ref": "#/paths"},
        {"$ref": "#"},
        {"a": {"b": 1}},
        "${x}",
        -1.5,
    ]
    kept = 0

    for _ in range(60):
        damaged = json.loads(json.dumps(whole))
        places = list(_places(damaged["paths"])) + list(_places(damaged["components"]))
        for holder, key in chance.sample(places, 25):
            holder[key] = chance.choice(odd)
        try:
            draft = import_document(damaged)
        except InvalidRequest:
            continue
        for tool in draft.tools:
            read(ToolBody, tool, own=(tool["slug"], tool["version"]))
            Checker(tool["argSchema"])
            kept += 1

    assert kept > 200


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    ):
        yield node, key
        yield from _places(value)


def test_what_stands_behind_a_hash_tells_operations_apart_and_is_not_sent() -> None:
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {
        "/files/{id}": {"put": {"operationId": "put_files_id", "parameters": [number]}},
        "/files/{id}#add_{kind}": {
            "put": {"operationId": "put_files_id#add", "parameters": [number]}
        },
        "/files/{id}?fields=x#remove": {"put": {"parameters": [number]}},
    }

    draft = import_document(document(paths=paths))

    assert [tool["http"]["request"]["urlTemplate"] for tool in draft.tools] == [
        *(
            "https://a.test/v1/files/${id}",
            "https://a.test/v1/files/${id}",
            "https://a.test/v1/files/${id}?fields=x",
        ),
    ]
    assert len({tool["slug"] for tool in draft.tools}) == 3
    assert [list(tool["argSchema"]["properties"]) for tool in draft.tools] == [["id"]] * 3
    for tool in draft.tools:
        read(ToolBody, tool, own=(tool["slug"], tool["version"]))


def test_an_argument_named_as_a_secret_is_renamed_and_that_is_said() -> None:
    listed = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("MY_KEY", "STORE_KEY", "other")
    ]
    body = {
        "content": {
            "application/json": {"schema": {"properties": {"BODY_KEY": {"type": "string"}}}}
        }
    }
    paths = {"/pets": {"post": {"parameters": listed, "requestBody": body}}}
    schemes = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}

    draft = import_document(
        document(paths=paths, components=schemes, security=[{"key": []}]),
        ImportRequest(slug="store", secrets=["MY_KEY", "BODY_KEY"]),
    )

    request = request_of(draft)
    assert request["query"] == {
        "MY_KEY": "${MY_KEY_2}",
        "STORE_KEY": "${STORE_KEY_2}",
        "other": "${other}",
    }
    assert request["body"] == {"BODY_KEY": "${BODY_KEY_2}"}
    assert request["auth"] == {"type": "bearer", "value": "${STORE_KEY}"}
    assert "POST /pets: 'MY_KEY' is the argument 'MY_KEY_2'" in draft.notes


def test_words_of_a_document_hold_no_control_characters() -> None:
    evil = "\x1b]0;x\x07a\u202eb\x9b2J"
    operation = {
        "summary": evil,
        "description": evil,
        "tags": [evil],
        "parameters": [{"name": evil, "in": "cookie"}],
    }

    draft = import_document(
        document(info={"title": evil, "description": evil}, paths={f"/{evil}": {"get": operation}})
    )

    tool = draft.tools[0]
    shown = [
        draft.bundle["displayName"],
        draft.bundle["description"],
        tool["displayName"],
        tool["description"],
    ]
    for text in (*shown, *draft.notes, draft.bundle["slug"], tool["slug"]):
        assert not any(sign in text for sign in "\x1b\x07\u202e\x9b"), text
    assert request_of(draft)["urlTemplate"].isascii()


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://user:word@a.test/",
            "https://a.test\\@b.test/",
            "https://a.test\n.b.test/",
            "https://a\x1b.test/",
        ),
        *(
            "https://{x}/",
            "https://a.test:99999/",
            "https://[::1/",
            "https:///path",
            "https://a.test/?k=v",
        ),
    ],
)
def test_a_server_that_could_be_read_in_two_ways_makes_no_tool(url: str) -> None:
    with pytest.raises(InvalidRequest, match="no operation"):
        import_document(document(paths={"/x": {"get": {}}}, servers=[{"url": url}]))


@pytest.mark.slow
def test_a_document_of_a_million_operations_is_refused_at_once() -> None:
    paths = {
        f"/{number}": {key: {"x": 1} for key in ("get", "put", "post")} for number in range(7_000)
    }

    with pytest.raises(InvalidRequest, match="more than 20,000 operations"):
        import_document(document(paths=paths))


@pytest.mark.slow
def test_thousands_of_equal_names_and_of_references_that_grow_cost_little() -> None:
    many = {f"/{number}": {"get": {"operationId": "same"}} for number in range(5_000)}
    grown = {"L0": {"type": "string"}}
    for level in range(1, 60):
        ref = {"$ref": f"#/components/schemas/L{level - 1}"}
        grown[f"L{level}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/L59"}}}}
    began = time.process_time()

    draft = import_document(document(paths=many))
    bomb = one({"requestBody": body}, method="post", components={"schemas": grown})

    assert len({tool["slug"] for tool in draft.tools}) == 5_000
    assert len(json.dumps(bomb.tools[0]["argSchema"])) < 20_000
    assert time.process_time() - began < 60


EVIL = "${OPENAI_API_KEY}"


@pytest.mark.parametrize(
    "parts",
    [
        {"info": {"title": EVIL, "version": EVIL}},
        {
            "servers": [
                {"url": "https://a.test/{x}", "variables": {"x": {"default": EVIL}}},
                {"url": "https://b.test"},
            ]
        },
        {"path": f"/{EVIL}"},
        {"path": f"/x?y={EVIL}"},
        {
            "operation": {
                "parameters": [{"name": EVIL, "in": place} for place in ("query", "header", "path")]
            }
        },
        *(
            {"operation": {"requestBody": {"content": {mime: {"schema": {"type": "string"}}}}}}
            for mime in (
                EVIL,
                f"text/{EVIL}",
                f"image/{EVIL}",
                f"application/{EVIL}+json",
                f"text/json; x={EVIL}",
            )
        ),
        {"operation": {"responses": {"200": {"content": {f"application/{EVIL}+json": {}}}}}},
        {"scheme": {"type": "apiKey", "in": "query", "name": EVIL}},
        {
            "scheme": {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": "https://a.test/"}},
            }
        },
        {
            "scheme": {
                "type": "oauth2",
                "flows": {"clientCredentials": {"tokenUrl": f"https://a.test/{EVIL}"}},
            }
        },
    ],
)
def test_no_word_of_a_document_is_a_template(parts: dict[str, Any]) -> None:
    """A document cannot name a secret: every `${` in a tool is ours."""
    scheme = parts.get("scheme")
    operation = {
        "responses": {},
        **parts.get("operation", {}),
        **({"security": [{"k": [EVIL]}]} if scheme else {}),
    }
    whole = {
        "servers": [{"url": "https://a.test"}],
        **{k: v for k, v in parts.items() if k in ("info", "servers")},
    }
    components = {"securitySchemes": {"k": scheme}} if scheme else {}

    try:
        draft = import_document(
            document(
                **whole, components=components, paths={parts.get("path", "/x"): {"post": operation}}
            )
        )
    except InvalidRequest:
        return  # it makes no tool at all

    for tool in draft.tools:
        request = tool["http"]["request"]
        used = {
            placeholder.name
            for key, part in request.items()
            if key != "auth"
            for placeholder in placeholders_in(part)
        }
        used |= {
            placeholder.name
            for key, text in request.get("auth", {}).items()
            if key != "name"
            for placeholder in placeholders_in(text)
        }
        assert used <= {
            *tool["argSchema"]["properties"],
            *(secret["name"] for secret in draft.secrets),
        }


def test_names_made_of_paths_leave_out_what_all_paths_share() -> None:
    paths = {
        path: {"get": {"responses": {"200": {"description": "ok"}}}}
        for path in (
            "/lab/api/listings/%40jupyterlab/list",
            "/lab/api/settings/{name}",
            "/lab/api/themes",
        )
    }

    tools = import_document(document(paths=paths)).tools

    assert [tool["slug"] for tool in tools] == [
        "get-listings-jupyterlab-list",
        "get-settings-name",
        "get-themes",
    ]
    assert all("/lab/api/" in tool["http"]["request"]["urlTemplate"] for tool in tools)

    (alone,) = import_document(document(paths={"/lab/api/themes": paths["/lab/api/themes"]})).tools
    assert alone["slug"] == "get-lab-api-themes"


@pytest.mark.parametrize("path", ["no", "@evil.example/", ".evil.example/", ":99/", "{x}.evil/"])
def test_a_path_without_a_slash_does_not_change_the_host(path: str) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {path: {"get": {"operationId": "x", "responses": {}}}},
    }

    (tool,) = import_document(document).tools

    assert tool["http"]["request"]["urlTemplate"].startswith("https://a.example/")
