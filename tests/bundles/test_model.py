"""Records: the same on disk and on the wire, and what is said of bad ones."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from onetool_ipy.base.errors import BodyTooLarge, InvalidRequest, RequestRefused
from onetool_ipy.bundles.model import Bundle, Page, Switch, read
from tests.bundles.aids import ProjectBundles, go, http

BUNDLE_KEYS = {
    "bundleID",
    "slug",
    "displayName",
    "description",
    "isEnabled",
    "isBuiltIn",
    "createdAt",
    "modifiedAt",
}
TOOL_KEYS = {
    *(
        "toolID",
        "bundleID",
        "slug",
        "version",
        "displayName",
        "description",
        "tags",
        "type",
        "argSchema",
        "isEnabled",
    ),
    *("isBuiltIn", "available", "createdAt", "modifiedAt", "callCount", "lastCalledAt"),
}


@pytest.mark.slow
def test_bundle_on_the_wire(project_bundles: ProjectBundles) -> None:
    """Contract 15, On the wire."""
    made = project_bundles.bundle(description="About it.")

    wire = made.to_dict()
    assert wire.keys() == BUNDLE_KEYS
    assert wire["createdAt"] == "2026-01-02T12:00:00Z"
    assert (wire["isEnabled"], wire["isBuiltIn"], wire["displayName"]) == (True, False, "My API")
    assert json.loads(json.dumps(wire)) == wire
    assert read(Bundle, wire).to_dict() == wire


def test_tool_on_the_wire(project_bundles: ProjectBundles) -> None:
    """Contract 15, On the wire: fields that may be missing are left out, `lastCalledAt` is null."""
    bundle = project_bundles.bundle()

    local = project_bundles.tool(bundle, tags=["a", "b", "a"]).to_dict()
    remote = project_bundles.bundles.put_tool(
        bundle.bundle_id,
        "get",
        "1",
        http(outputSchema={"type": "array"}, limits={"maxCallsPerMinute": 5}),
    ).to_dict()

    assert local.keys() == {*TOOL_KEYS, "goTool"}
    assert (local["lastCalledAt"], local["callCount"], local["tags"]) == (None, 0, ["a", "b"])
    assert remote.keys() == {*TOOL_KEYS, "http", "outputSchema", "limits"}
    assert remote["http"] == {
        "request": {"method": "GET", "urlTemplate": "https://api.example.com/things"}
    }
    assert remote["limits"] == {"maxCallsPerMinute": 5}
    assert remote["argSchema"]["additionalProperties"] is False
    assert remote["displayName"] == "get"


def test_fields_are_reached_as_attributes_and_by_wire_name(project_bundles: ProjectBundles) -> None:
    made = project_bundles.bundle()

    assert made.display_name == made["displayName"] == dict(made.to_dict())["displayName"]
    assert made.get("softDeletedAt", "none") == "none"
    with pytest.raises(KeyError):
        made["nope"]


def test_page_is_its_rows(project_bundles: ProjectBundles) -> None:
    page = project_bundles.bundles.list_bundles()

    assert isinstance(page, Page)
    assert [bundle.slug for bundle in page] == [page[i].slug for i in range(len(page))]
    assert page.to_dict() == {"items": [bundle.to_dict() for bundle in page]}


def test_records_show_in_one_line_each(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.tool(bundle, isEnabled=False)

    assert repr(bundle) == f"<bundle my-api (on) {bundle.bundle_id}>"
    shown = repr(
        project_bundles.bundles.list_tools(include_disabled=True, page_size=6)
    ).splitlines()
    assert shown[0].startswith("<tool now@1 (go, on, built-in) of")
    assert shown[-1] == f"<tool say@1 (go, off) of the bundle {bundle.bundle_id}>"
    assert repr(project_bundles.bundles.list_tools(page_size=1)).endswith("\n...")


BAD = {
    "no type": ({}, "'type' is missing"),
    "odd type": (go(type="rust"), "type: "),
    "unknown key": (
        go(displayname="x"),
        "'displayname': no such field, did you mean 'displayName'?",
    ),
    "python's name": (go(display_name="x"), "'display_name': no such field"),
    "go without function": ({"type": "go"}, "needs 'goTool'"),
    "python without function": ({"type": "python"}, "needs 'goTool'"),
    "http without request": ({"type": "http"}, "needs 'http'"),
    "both": ({**http(), "goTool": {"func": "a.b"}}, "has no 'goTool'"),
    "no pack": (go(func="echo"), "goTool.func: 'echo' is not of the form 'pack.tool'"),
    "import path": (go(func="os:system x"), "goTool.func: "),
    "enabled as text": (go(isEnabled="yes"), "'isEnabled' must be true or false"),
    "enabled as number": (go(isEnabled=1), "'isEnabled' must be true or false"),
    "tags as text": (go(tags="a,b"), "'tags' must be a list"),
    "empty tag": (go(tags=[""]), "tags.0: "),
    "schema as text": (go(argSchema="{}"), "'argSchema' must be an object"),
    "schema of no object": (
        go(argSchema={"type": "array"}),
        'argSchema: its "type" must be "object"',
    ),
    "schema that is none": (
        go(argSchema={"type": "object", "properties": {"a": {"type": "nope"}}}),
        "argSchema: ",
    ),
    "remote reference": (
        go(
            argSchema={
                "type": "object",
                "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}},
            }
        ),
        "argSchema: ",
    ),
    "output schema that is none": (go(outputSchema={"type": 7}), "outputSchema: "),
    "deep schema": (
        go(argSchema=json.loads('{"type":"object","not":' + '{"not":' * 300 + "{}" + "}" * 301)),
        "200 levels",
    ),
    "not a number": (go(argSchema={"type": "object", "default": float("nan")}), "Only JSON"),
    "half a character": (
        go(argSchema={"type": "object", "properties": {"a": {"enum": ["\ud800"]}}}),
        "half a character",
    ),
    "half a character in a text": (go(description="\ud800"), "half a character"),
    "bytes": (go(description=b"x"), "Only JSON"),
    "zero calls": (http(limits={"maxCallsPerMinute": 0}), "limits.maxCallsPerMinute"),
    "unknown limit": (http(limits={"maxCalls": 1}), "'limits.maxCalls': no such field"),
    "ftp": (http("ftp://example.com"), "must start with http:// or https://"),
    "variable in the host": (http("https://${host}/x"), "${host}"),
    "slug of its own": (go(slug="other"), "slug: it is another one"),
    "version of its own": (go(version="9"), "version: it is another one"),
    "no object": ([1], "An object is needed"),
    "nothing": (None, "An object is needed"),
}


@pytest.mark.spec("002/Data Model/urlTemplate starts with http or https")
@pytest.mark.spec("002/Terminology/Tool type is go or http")
@pytest.mark.parametrize("case", BAD)
def test_bad_record_is_refused_naming_the_field_and_nothing_is_stored(
    project_bundles: ProjectBundles, case: str
) -> None:
    bundle = project_bundles.bundle()
    record, said = BAD[case]

    with pytest.raises(InvalidRequest) as caught:
        project_bundles.bundles.put_tool(bundle.bundle_id, "say", "1", record)  # type: ignore[arg-type]  # that is the point

    assert said in caught.value.message
    assert project_bundles.bundles.list_tools(bundle_ids=[bundle.bundle_id]).items == []
    assert [path.name for path in (project_bundles.root / bundle.slug).iterdir()] == ["bundle.json"]


def test_what_was_read_can_be_sent_back_as_a_new_version(project_bundles: ProjectBundles) -> None:
    """`toolID` in a PUT body is ignored, and so is what only the store decides."""
    bundle = project_bundles.bundle()
    first = project_bundles.tool(bundle)
    body = {**first.to_dict(), "version": "2"}

    second = project_bundles.bundles.put_tool(bundle.bundle_id, "say", "2", body)

    assert second.tool_id != first.tool_id
    assert second.arg_schema == first.arg_schema
    again = project_bundles.bundles.put_tool(
        bundle.bundle_id, "say", "3", {**go(), "toolID": "junk", "callCount": 99}
    )
    assert (again.call_count, again.version) == (0, "3")


@pytest.mark.spec("002/Data Model/Placeholders come from arguments or secrets")
def test_argument_named_as_a_secret_is_refused(project_bundles: ProjectBundles) -> None:
    project_bundles.project.write("secrets.yaml", "API_KEY: s3cret-value\n", mode=0o600)
    box = project_bundles.another()
    bundle = project_bundles.bundle()
    schema = {"type": "object", "properties": {"API_KEY": {"type": "string"}}}

    with pytest.raises(InvalidRequest, match="'API_KEY' is also the name of a secret"):
        box.bundles.put_tool(bundle.bundle_id, "get", "1", http(argSchema=schema))

    assert box.bundles.put_tool(
        bundle.bundle_id, "get", "1", http("https://api.example.com/?k=${API_KEY}")
    ).available


def test_record_over_a_mebibyte_is_too_large(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    schema = {"type": "object", "properties": {"a": {"enum": ["x" * 1000] * 1100}}}

    with pytest.raises(BodyTooLarge) as caught:
        project_bundles.tool(bundle, argSchema=schema)

    assert (caught.value.status, caught.value.code) == (413, "too_large")


@pytest.mark.parametrize(
    "body", [{}, {"isEnabled": None}, {"isEnabled": True, "slug": "x"}, {"isEnabled": "true"}, 1]
)
def test_switch_is_exactly_is_enabled(body: Any) -> None:
    with pytest.raises(RequestRefused):
        read(Switch, body)


def test_times_need_a_zone() -> None:
    good = {"bundleID": "01a1dda5-1a5f-7550-940b-3554c1c70918", "slug": "a", "displayName": "A"}
    moment = "2026-01-02T12:00:00+02:00"

    found = read(Bundle, {**good, "createdAt": moment, "modifiedAt": moment})

    assert found.created_at == datetime.datetime(2026, 1, 2, 10, tzinfo=datetime.UTC)
    with pytest.raises(InvalidRequest, match="createdAt: it needs a time zone"):
        read(Bundle, {**good, "createdAt": "2026-01-02T12:00:00", "modifiedAt": moment})
