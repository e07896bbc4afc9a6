"""What is wrong with a body is told place by place: `details` with a JSON pointer each, so that a
form can show it."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import uuid_utils

from tests.faces.rest.conftest import SECRET, Api
from tests.faces.rest.serving import Server, document, http_tool

URL = "https://api.example.com/users/${id}"


def _faults(answer: Any, status: int = 400) -> dict[str, str]:
    """The messages by their pointers; every one a sentence."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    for each in error["details"]:
        assert set(each) == {"pointer", "message"}
        assert each["message"][-1] in ".?"
        assert each["message"][0] == each["message"][0].upper()
    return {each["pointer"]: each["message"] for each in error["details"]}


def _with(change: dict[str, Any]) -> dict[str, Any]:
    """A tool's record, changed at places that are written `http.request.method`."""
    record: dict[str, Any] = copy.deepcopy(http_tool(URL))
    for place, value in change.items():
        *way, last = place.split(".")
        functools.reduce(lambda node, part: node.setdefault(part, {}), way, record)[last] = value
    return record


def _put(api: Api, record: Any, slug: str = "get-user", version: str = "1") -> Any:
    return api.call(
        "PUT", f"tools/bundles/{api.bundle()}/tools/{slug}/version/{version}", json=record
    )


ONE = {
    "method": ({"http.request.method": "FETCH"}, "/http/request/method"),
    "url": ({"http.request.urlTemplate": "ftp://x/"}, "/http/request/urlTemplate"),
    "hole in the url": (
        {"http.request.urlTemplate": "https://x.example/${a b}"},
        "/http/request/urlTemplate",
    ),
    "key of the url's query": (
        {"http.request.urlTemplate": "https://x.example/?${id}=1"},
        "/http/request/urlTemplate",
    ),
    "query": ({"http.request.query": {"q": {"no": 1}}}, "/http/request/query"),
    "hole in the query": ({"http.request.query": {"q": "${a b}"}}, "/http/request/query"),
    "header": ({"http.request.headers": {"A": "1", "a/b": 5}}, "/http/request/headers/a~1b"),
    "name of a header": ({"http.request.headers": {"a b": "1"}}, "/http/request/headers"),
    "hole in a header": ({"http.request.headers": {"A": "${a b}"}}, "/http/request/headers"),
    "body": ({"http.request.method": "HEAD", "http.request.body": 1}, "/http/request/body"),
    "hole in the body": (
        {"http.request.method": "POST", "http.request.body": {"a": "${a b}"}},
        "/http/request/body",
    ),
    "kind of the body": (
        {"http.request.method": "POST", "http.request.body": "{", "http.request.bodyType": "json"},
        "/http/request/body",
    ),
    "no such auth": ({"http.request.auth": {"type": "magic"}}, "/http/request/auth"),
    "auth without its value": (
        {"http.request.auth": {"type": "bearer"}},
        "/http/request/auth/value",
    ),
    "hole in the auth": (
        {"http.request.auth": {"type": "bearer", "value": "${a b}"}},
        "/http/request/auth",
    ),
    "selector": ({"http.response.selector": "a["}, "/http/response/selector"),
    "selector with a type": (
        {"http.response.selector": {"type": "regex", "expr": "("}},
        "/http/response/selector",
    ),
    "tag": ({"tags": ["good", ""]}, "/tags/1"),
    "description": ({"description": 5}, "/description"),
    "argSchema": ({"argSchema": {"type": "object", "properties": 5}}, "/argSchema"),
    "kind of the argSchema": ({"argSchema": {"type": "array"}}, "/argSchema"),
    "name of a secret": (
        {"argSchema": {"type": "object", "properties": {"API_KEY": {}}}},
        "/argSchema",
    ),
    "outputSchema": ({"outputSchema": {"type": "nothing"}}, "/outputSchema"),
    "limits": ({"limits": {"maxCallsPerMinute": 0}}, "/limits/maxCallsPerMinute"),
    "no such field": ({"colour": "red"}, "/colour"),
    "missing field": ({"type": None}, "/type"),
    "no http": ({"http": None}, ""),
}


@pytest.mark.parametrize("case", ONE)
def test_a_fault_is_told_with_its_place(api: Api, case: str) -> None:
    change, pointer = ONE[case]

    assert list(_faults(_put(api, _with(change)))) == [pointer]


def test_every_fault_is_told_at_once(api: Api) -> None:
    """What stands in the path, and what is wrong with each field of the body."""
    changed = {
        "http.request.urlTemplate": "ftp://nowhere",
        "http.request.method": "FETCH",
        "http.request.headers": {"Host": "x"},
        "http.request.auth": {"type": "basic"},
        "http.response.selector": "[",
        "argSchema": {"type": "string"},
        "tags": [""],
        "isEnabled": "yes",
    }

    told = _faults(_put(api, _with(changed), slug="get user", version="v 1"))

    assert set(told) == {
        *("/slug", "/version", "/argSchema", "/tags/0", "/isEnabled"),
        *(
            "/http/request/urlTemplate",
            "/http/request/method",
            "/http/request/headers",
            "/http/request/auth/username",
        ),
        "/http/response/selector",
    }
    assert told["/slug"] == "'get user' holds ' '. Use letters, digits and '-', as in 'get-user'."
    url = told["/http/request/urlTemplate"]
    assert url == "'ftp://nowhere' must start with http:// or https://."
    assert told["/http/request/auth/username"] == "It is missing."
    assert told["/isEnabled"] == "It must be true or false."


def test_names_that_mean_nothing_are_told_in_every_part_and_step(api: Api) -> None:
    request = {"method": "POST", "urlTemplate": "https://x.example/${no name}"}
    steps = [
        {"request": {**request, "query": {"q": "${id}"}}},
        {
            "request": {
                **request,
                "urlTemplate": URL,
                "body": {"a": "${step1.x}", "b": "${step2.x}"},
            }
        },
    ]
    record = _with({"http": {"steps": steps}})

    assert list(_faults(_put(api, record))) == [
        "/http/steps/0/request/urlTemplate",
        "/http/steps/1/request/body",
    ]


def test_label_that_is_another_than_in_the_path_is_told_with_the_rest(api: Api) -> None:
    assert set(_faults(_put(api, {**http_tool(URL), "version": "2", "tags": 5}))) == {
        "/version",
        "/tags",
    }


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b'"text"', b"\xff"], ids=repr)
def test_a_body_that_is_no_object_is_wrong_as_a_whole(api: Api, body: bytes) -> None:
    for verb, path in (
        ("PUT", f"tools/bundles/{uuid_utils.uuid7()}"),
        ("POST", "tools/test"),
        ("POST", "tools/import"),
    ):
        assert list(_faults(api.call(verb, path, content=body))) == [""]


def test_a_body_that_is_too_large_is_wrong_as_a_whole(api: Api) -> None:
    assert list(_faults(_put(api, _with({"description": "x" * (1 << 20)})), 413)) == [""]


def test_a_bundle_and_a_switch_have_their_places_too(api: Api) -> None:
    own = f"tools/bundles/{uuid_utils.uuid7()}"

    assert set(_faults(api.call("PUT", own, json={"slug": "a b", "description": 5}))) == {
        *("/slug", "/displayName", "/description")
    }
    assert set(
        _faults(api.call("PATCH", f"tools/bundles/{api.bundle()}", json={"isEnabled": 1}))
    ) == {"/isEnabled"}


def test_a_draft_has_its_places_inside_of_what_was_sent(api: Api) -> None:
    def test(tool: Any, args: Any = None) -> Any:
        return api.call(
            "POST", "tools/test", json={"tool": tool, "args": {} if args is None else args}
        )

    assert set(_faults(test(_with({"http.request.urlTemplate": "ftp://x", "tags": 5}), [1]))) == {
        *("/tool/http/request/urlTemplate", "/tool/tags", "/args")
    }
    assert set(_faults(test(_with({"http.request.headers": {"A": "${a b}"}})))) == {
        "/tool/http/request/headers"
    }
    assert set(_faults(test({"type": "go", "goTool": {"func": "time.now"}}))) == {"/tool/type"}
    assert set(_faults(api.call("POST", "tools/test", json={}))) == {"/tool"}


def test_an_import_tells_which_of_its_two_parts_is_wrong(api: Api) -> None:
    def bring(openapi: Any, slug: Any = "users") -> Any:
        return api.call("POST", "tools/import", json={"openapi": openapi, "bundle": {"slug": slug}})

    assert set(_faults(bring(5, "a b"))) == {"/openapi", "/bundle/slug"}
    assert set(_faults(bring("not: [a document"))) == {"/openapi"}
    assert set(_faults(bring({"openapi": "2.0"}))) == {"/openapi"}
    assert bring(document("https://x.example")).status_code == 201


def test_arguments_have_the_same_form_of_details(api: Api) -> None:
    place = api.tool(api.bundle(), "get-user", "/users/${id}")

    error = api.invoke(place, {"id": [], "more": 1}).json()["error"]

    assert error["code"] == "invalid_args"
    assert {each["pointer"] for each in error["details"]} == {"/id", ""}


def test_no_details_where_no_body_is_meant(api: Api) -> None:
    for answer in (
        api.call("GET", "tools/bundles", params={"pageSize": "none"}),
        api.call("GET", f"tools/bundles/{uuid_utils.uuid7()}/tools/a/version/1"),
    ):
        assert answer.status_code in (400, 404)
        assert set(answer.json()["error"]) == {"code", "message"}


def test_details_hold_no_secret(api: Api) -> None:
    answer = _put(
        api, _with({"http.request.urlTemplate": f"https://{SECRET}@x.example/"}), slug=f"{SECRET}_"
    )

    assert len(_faults(answer)) == 2
    assert SECRET not in answer.text


def test_the_description_names_the_details(server: Server) -> None:
    schemas = server.client.get("onetool/openapi.json").json()["components"]["schemas"]

    listed = next(
        each
        for each in schemas["ErrorBody"]["properties"]["details"]["anyOf"]
        if each.get("type") == "array"
    )
    place = schemas[listed["items"]["$ref"].rpartition("/")[2]]
    assert place["required"] == ["pointer", "message"]
    assert "JSON Pointer" in place["properties"]["pointer"]["description"]
