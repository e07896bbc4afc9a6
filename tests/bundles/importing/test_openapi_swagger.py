"""Swagger 2.0 documents: two of the usual kinds are imported, and what their tools send is judged
at a real server."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.draft import ImportRequest
from onetool_ipy.bundles.importing.formats import import_document
from tests.bundles.importing.imported import ImportedTools
from tests.net.loopback import Loopback

TALK = """
swagger: "2.0"
info: {title: Talk, version: 1.7.0}
host: HOST
basePath: /echo/api
schemes: [http]
consumes: [application/x-www-form-urlencoded]
produces: [application/json]
securityDefinitions:
  slackAuth:
    type: oauth2
    flow: accessCode
    authorizationUrl: https://talk.example.com/authorize
    tokenUrl: https://talk.example.com/token
    scopes: {"chat:write": Write.}
  key: {type: apiKey, in: header, name: X-Talk-Key}
security: [{key: []}]
parameters:
  cursor: {name: cursor, in: query, type: string, description: The page.}
responses:
  ok: {description: Fine., schema: {$ref: "#/definitions/answer"}}
definitions:
  answer:
    type: object
    required: [ok]
    properties: {ok: {type: boolean}, channel: {type: string, x-nullable: true}}
paths:
  /chat.postMessage:
    post:
      operationId: chat_postMessage
      tags: [chat]
      consumes: [application/x-www-form-urlencoded, application/json]
      parameters:
        - {name: token, in: header, type: string, required: true, description: "Scope: `chat:write`"}
        - {name: channel, in: formData, type: string, required: true}
        - {name: text, in: formData, type: string, description: The words.}
        - {name: link_names, in: formData, type: boolean}
        - {name: users, in: formData, type: array, items: {type: string}}
        - {name: tags, in: formData, type: array, items: {type: string}, collectionFormat: multi}
      responses: {"200": {$ref: "#/responses/ok"}, default: {description: Bad.}}
  /conversations.list:
    parameters: [{$ref: "#/parameters/cursor"}]
    get:
      operationId: conversations_list
      parameters:
        - {name: limit, in: query, type: integer, minimum: 1, maximum: 1000, default: 100}
        - {name: types, in: query, type: array, items: {type: string, enum: [public, private]}}
        - {name: ids, in: query, type: array, items: {type: integer}, collectionFormat: multi}
        - {name: pipes, in: query, type: array, items: {type: string}, collectionFormat: pipes}
        - {name: blanks, in: query, type: array, items: {type: string}, collectionFormat: ssv}
        - {name: tabs, in: query, type: array, items: {type: string}, collectionFormat: tsv}
      responses: {"200": {description: Fine.}}
  /files.upload:
    post:
      operationId: files_upload
      consumes: [multipart/form-data]
      parameters:
        - {name: file, in: formData, type: file, required: true}
        - {name: title, in: formData, type: string}
      responses: {"200": {description: Fine.}}
"""

ENGINE = """
swagger: "2.0"
schemes: [http]
host: HOST
produces: [application/json, text/plain]
consumes: [application/json, text/plain]
basePath: /echo/v1.44
info: {title: Engine API, version: "1.44"}
securityDefinitions: {who: {type: basic}}
definitions:
  Port: {type: object, properties: {PrivatePort: {type: integer, format: uint16}, Type: {type: string}}}
  Config:
    type: object
    properties:
      Image: {type: string}
      Env: {type: array, items: {type: string}}
      Ports: {type: array, items: {$ref: "#/definitions/Port"}}
  Create:
    allOf:
      - $ref: "#/definitions/Config"
      - {type: object, properties: {HostConfig: {type: object, x-nullable: true}}}
  Summary:
    type: array
    items: {type: object, properties: {Id: {type: string}, Ports: {type: array, items: {$ref: "#/definitions/Port"}}}}
paths:
  /containers/json:
    get:
      operationId: ContainerList
      security: [{who: []}]
      parameters:
        - {name: all, in: query, type: boolean, default: false}
        - {name: filters, in: query, type: string}
      responses:
        200: {description: no error, schema: {$ref: "#/definitions/Summary"}}
        400: {description: bad parameter}
  /containers/create:
    post:
      operationId: ContainerCreate
      consumes: [application/json, application/octet-stream]
      parameters:
        - {name: name, in: query, type: string, pattern: "^/?[a-zA-Z0-9][a-zA-Z0-9_.-]+$"}
        - name: body
          in: body
          required: true
          schema: {$ref: "#/definitions/Create"}
      responses: {201: {description: made, schema: {type: object, properties: {Id: {type: string}}}}}
  /containers/{id}/archive:
    put:
      operationId: PutContainerArchive
      consumes: [application/x-tar, application/octet-stream]
      parameters:
        - {name: id, in: path, required: true, type: string}
        - {name: path, in: query, required: true, type: string}
        - {name: inputStream, in: body, required: true, schema: {type: string, format: binary}}
      responses: {200: {description: ok}}
    get:
      operationId: ContainerArchive
      produces: [application/x-tar]
      parameters:
        - {name: id, in: path, required: true, type: string}
      responses: {200: {description: a file, schema: {type: file}}}
  /version: {get: {operationId: SystemVersion, responses: {200: {description: ok}}}}
"""

SECRETS = {
    "TALK_KEY": "key-of-the-talk",
    "API_WHO_USERNAME": "ada",
    "API_WHO_PASSWORD": "lovelace",
    "API_KEY": "key-of-the-talk",
}


def test_forms_lists_and_shared_parameters_are_sent_as_the_document_says(
    imported: ImportedTools,
) -> None:
    assert imported.store(TALK, "api", SECRETS).hosts == [imported.host]

    post = imported.sent(
        "api.chat-postMessage",
        token="t-1",
        channel="C1",
        text="hi & you",
        link_names=True,
        users=["a", "b"],
        tags=["x", "y"],
    )
    listed = imported.sent(
        "api.conversations-list",
        cursor="c=",
        types=["public", "private"],
        ids=[1, 2],
        pipes=["a", "b"],
        blanks=["a", "b"],
        tabs=["a", "b"],
    )

    assert (post.method, post.path) == ("POST", "/echo/api/chat.postMessage")
    assert post.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (post.headers["token"], post.headers["x-talk-key"]) == ("t-1", "key-of-the-talk")
    fields = [("channel", "C1"), ("text", "hi & you"), ("link_names", "true"), ("users", "a,b")]
    assert parse_qsl(post.body.decode()) == [*fields, ("tags", "x"), ("tags", "y")]
    query = parse_qsl(urlsplit(listed.target).query)
    assert sorted(query) == [
        *(("blanks", "a b"), ("cursor", "c="), ("ids", "1"), ("ids", "2")),
        *(("pipes", "a|b"), ("tabs", "a,b"), ("types", "public,private")),
    ]


def test_arguments_are_checked_by_the_schemas_of_parameters(
    imported: ImportedTools, server: Loopback
) -> None:
    imported.store(TALK, "api", SECRETS)

    for args in ({"limit": 0}, {"limit": "x"}, {"types": ["secret"]}, {"more": 1}):
        assert imported.box.call("api.conversations-list", args).error.code == "invalid_args"  # type: ignore[union-attr]
    assert (
        imported.box.call("api.chat-postMessage", {"text": "no channel"}).error.code
        == "invalid_args"
    )  # type: ignore[union-attr]
    assert server.seen == []


def test_a_file_of_a_form_makes_it_multipart(imported: ImportedTools) -> None:
    imported.store(TALK, "api", SECRETS)

    seen = imported.sent("api.files-upload", file="the content", title="A title")

    whole = message_from_bytes(
        b"Content-Type: " + seen.headers["content-type"].encode() + b"\r\n\r\n" + seen.body
    )
    parts = {
        part.get_param("name", header="content-disposition"): part for part in whole.get_payload()
    }  # type: ignore[union-attr]
    assert parts["file"].get_payload() == "the content"  # type: ignore[index, union-attr]
    assert parts["title"].get_payload() == "A title"  # type: ignore[index, union-attr]


def test_bodies_of_json_and_bytes_are_sent_as_such(imported: ImportedTools) -> None:
    imported.store(ENGINE, "api", SECRETS)
    config = {"Image": "debian", "Env": ["A=1"], "Ports": [{"PrivatePort": 80}], "HostConfig": None}

    made = imported.sent("api.ContainerCreate", name="web", body=config)
    put = imported.sent("api.PutContainerArchive", id="a/b", path="/tmp", body={"base64": "AAEC"})

    assert (made.method, made.target) == ("POST", "/echo/v1.44/containers/create?name=web")
    assert made.headers["content-type"] == "application/json"
    assert json.loads(made.body) == config
    assert (put.method, put.target) == ("PUT", "/echo/v1.44/containers/a%2Fb/archive?path=%2Ftmp")
    assert put.headers["content-type"] == "application/x-tar"
    assert put.body == b"\x00\x01\x02"
    wrong = imported.box.call(
        "api.ContainerCreate", {"body": {"Ports": [{"PrivatePort": "x"}]}}
    ).error
    assert wrong.details[0]["pointer"].startswith("/body")  # type: ignore[union-attr, index]


def test_basic_auth_response_schemas_and_words(imported: ImportedTools) -> None:
    imported.store(ENGINE, "api", SECRETS)

    seen = imported.sent("api.ContainerList", all=True)
    answer = imported.box.call("api.ContainerList", {})

    assert seen.headers["authorization"] == "Basic YWRhOmxvdmVsYWNl"
    assert "authorization" not in imported.sent("api.SystemVersion").headers
    assert answer.meta["mismatch"], (
        "the server answers with an object, and the document says a list"
    )
    spec = imported.box.registry.get("api.ContainerList")
    assert spec.read_only  # type: ignore[union-attr]
    assert "(default: false)" in spec.parameters["properties"]["all"]["description"]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [TALK, ENGINE])
def test_every_operation_is_a_tool_and_what_is_lost_is_said(text: str) -> None:
    draft = import_document(text.replace("HOST", "a.test"))
    paths = yaml.safe_load(text)["paths"].values()

    assert len(draft.tools) == sum(len(item.keys() & {"get", "put", "post"}) for item in paths)
    lost = [note for note in draft.notes if "very large" not in note]
    assert lost == (["'tabs': a list as tsv is written as csv"] if text is TALK else [])


@pytest.mark.parametrize(
    ("parts", "base_url", "url"),
    [
        ({"host": "a.test"}, None, "https://a.test/x"),
        ({"host": "a.test", "schemes": ["http"]}, None, "http://a.test/x"),
        (
            {"host": "a.test", "schemes": ["wss", "http", "https"], "basePath": "v1/"},
            None,
            "https://a.test/v1/x",
        ),
        ({"host": "a.test"}, "http://b.test/swagger.json", "http://a.test/x"),
        ({"basePath": "/v2"}, "https://b.test:8443/docs/swagger.json", "https://b.test:8443/v2/x"),
    ],
)
def test_the_server_is_made_of_host_base_path_and_scheme(
    parts: dict[str, Any], base_url: str, url: str
) -> None:
    document = {
        "swagger": 2.0,
        "info": {"title": "T"},
        "paths": {"/x": {"get": {"responses": {}}}},
        **parts,
    }

    draft = import_document(document, ImportRequest(base_url=base_url))

    assert draft.tools[0]["http"]["request"]["urlTemplate"] == url


@pytest.mark.parametrize(
    "parts",
    [
        {"swaggerVersion": "1.2"},
        {"swagger": "3.0"},
        {"swagger": "2.0"},
        {"swagger": "2.0", "host": "u:p@a.test", "paths": {"/x": {"get": {}}}},
        {"swagger": "2.0", "host": "a.test/{b}", "paths": {"/x": {"get": {"responses": {}}}}},
        {"swagger": "2.0", "host": "a.test", "paths": {"/x": {"$ref": "#/paths/~1x"}}},
    ],
)
def test_what_leads_nowhere_is_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        import_document({"info": {"title": "T"}, **parts})


ODD: tuple[Any, ...] = (
    None,
    True,
    -1.5,
    "",
    [],
    {},
    [{}],
    {"$ref": "#"},
    {"$ref": "#/definitions/Port"},
    ["a"],
    "${X}",
)


@pytest.mark.parametrize("text", [TALK, ENGINE])
def test_whatever_stands_in_one_place_costs_a_note_or_is_refused(text: str) -> None:
    whole = json.loads(json.dumps(yaml.safe_load(text.replace("HOST", "a.test"))))
    changes = [(path, odd) for path in _paths(whole) if path for odd in ODD]
    made = 0

    for path, odd in random.Random(7).sample(changes, 200):
        damaged = json.loads(json.dumps(whole))
        holder = damaged
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = odd
        try:
            made += len(import_document(damaged, ImportRequest(base_url="https://b.test/")).tools)
        except InvalidRequest:
            continue

    assert made > 300


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, sub in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from _paths(sub, (*path, key))
