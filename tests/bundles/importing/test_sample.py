"""One request as it was sent becomes a tool: what may change is an argument, what is secret is a
name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onetool_ipy.base.values import Json
from onetool_ipy.bundles.importing.curl import import_curl
from onetool_ipy.bundles.importing.sample import SampleDraft, SampleRequest, draft_tool, mark


def draft(url: str = "https://a.test/x", **fields: Any) -> SampleDraft:
    return draft_tool(SampleRequest(urls=[url], **fields))


def request(tool_draft: SampleDraft) -> Json:
    http: Json = tool_draft.tool["http"]["request"]
    return http


def test_what_may_change_is_an_argument_with_its_default() -> None:
    draft = import_curl(
        'curl \'https://a.test/x?state=open&n=5&on=true&zip=007&t=a&t=b\' --json \'{"k": {"d": 1},'
        ' "z": null}\''
    )

    assert draft.tool["argSchema"] == {
        "type": "object",
        "properties": {
            "state": {"type": "string", "default": "open"},
            "n": {"type": "integer", "default": 5},
            "on": {"type": "boolean", "default": True},
            "zip": {"type": "string", "default": "007"},
            "t": {"type": "array", "default": ["a", "b"]},
            "k": {"type": "object", "default": {"d": 1}},
            "z": {"default": None},
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("command", "secrets"),
    [
        (
            "curl https://api.github.com/user -H 'Authorization: Bearer ghp-12345678'",
            {"GITHUB_TOKEN": "ghp-12345678"},
        ),
        ("curl https://x.test/ -H 'X-API-Key: key-12345678'", {"X_API_KEY": "key-12345678"}),
        ("curl 'https://www.acme.test/?api_key=key-12345678'", {"ACME_API_KEY": "key-12345678"}),
        ("curl https://u:pw-12345678@a.b.test/", {"B_USERNAME": "u", "B_PASSWORD": "pw-12345678"}),
        (
            "curl 127.0.0.1:1/ -H 'authorization: basic YW5uOnB3LTEyMzQ1Njc4'",
            {"API_USERNAME": "ann", "API_PASSWORD": "pw-12345678"},
        ),
        (
            "curl https://b.test -d 'client_secret=cs-12345678&grant=x'",
            {"B_CLIENT_SECRET": "cs-12345678"},
        ),
        ("curl https://b.test -b 'sid=sess-12345678'", {"B_COOKIE": "sid=sess-12345678"}),
        (
            "curl https://b.test/key-12345678/x -H 'X-Token: key-12345678' -d 'note=key-12345678'",
            {"B_TOKEN": "key-12345678"},
        ),
    ],
)
def test_the_value_of_a_secret_never_stands_in_the_tool(
    command: str, secrets: dict[str, str]
) -> None:
    draft = import_curl(command)

    assert draft.secrets == secrets
    assert "12345678" not in json.dumps(draft.tool)
    assert "12345678" not in json.dumps(draft.notes)


def test_a_variable_of_the_shell_that_is_a_secret_keeps_its_name() -> None:
    """Its value is not in the line, so the tool asks for a secret of that name."""
    command = """curl "https://b.test/x?key=$API_KEY" -H "X-Token: $T" -u "$USER:$PASS\""""

    made = import_curl(command)

    asked = request(made)
    assert asked["query"] == {"key": "${API_KEY}"}
    assert asked["headers"] == {"X-Token": "${T}"}
    assert asked["auth"] == {"type": "basic", "username": "${USER}", "password": "${PASS}"}
    assert made.secrets == {}
    assert sorted(made.missing) == ["API_KEY", "PASS", "T", "USER"]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://a.test", "/"),
        ("https://a.test/a b/%20", "/a%20b/%20"),
        ("https://a.test/{owner}/<the repo>", "/${owner}/${the repo}"),
    ],
)
def test_the_path_has_what_was_written_and_placeholders_for_the_rest(url: str, path: str) -> None:
    assert request(draft(url))["urlTemplate"] == f"https://a.test{path}"


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        ({}, "GET"),
        ({"data": [("data", "a=1")]}, "POST"),
        ({"form": [("form", "a=1")]}, "POST"),
        ({"data": [("data", "a=1")], "is_get": True}, "GET"),
        ({"is_head": True}, "HEAD"),
        ({"method": "put"}, "PUT"),
    ],
)
def test_the_method_is_the_one_that_curl_takes(fields: dict[str, Any], method: str) -> None:
    assert request(draft(**fields))["method"] == method


def test_headers_that_the_connection_sets_are_left_out_and_said() -> None:
    tool_draft = draft(
        headers=["Host: b.test", "Content-Length: 3", "X-Empty;", "X-None:", "X-A: 1"],
        cookie="jar.txt",
    )

    assert request(tool_draft)["headers"] == {"X-Empty": "", "X-A": "1"}
    assert tool_draft.notes == [
        "the cookies of the file 'jar.txt' are left out",
        "the header Host is set by the connection itself",
    ]


@pytest.mark.parametrize(
    ("text", "body", "kind"),
    [
        ('{"a": 1}', {"a": "${a}"}, "json"),
        ("[1, 2]", "${body}", "json"),
        ("{no json", "${body}", "text"),
        ("[" * 200 + "]" * 200, "${body}", "text"),
        (mark("ALL"), "${ALL}", "text"),
    ],
    ids=["object", "list", "text", "deep", "variable"],
)
def test_a_json_body_is_taken_apart_as_far_as_it_is_json(
    text: str, body: object, kind: str
) -> None:
    tool_draft = draft(
        data=[("data", text)], headers=["Content-Type: application/json"], variables={"ALL": None}
    )

    assert request(tool_draft)["body"] == body
    assert request(tool_draft)["bodyType"] == kind
