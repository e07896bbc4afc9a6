"""What a record says of its calls: a document's outputSchema is a hint, an author's is a promise;
GET only reads."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.bundles.aids import ProjectBundles, go, http
from tests.harness.project import Project

CONFIG = (
    "version: 1\nhttp: {allowed_hosts: [api.example.com], allow_private: true}\noutput:"
    " {max_inline_bytes: 300}"
)
WRONG = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["name", "id"]}
MADE = {"id": 7, "made": True}
IMPORTED = {
    "method": "POST",
    "urlTemplate": "https://api.example.com/things",
    "headers": {"Accept": "application/json"},
}


def _shelf(project: Project, answer: Any = MADE) -> ProjectBundles:
    transport = httpx.MockTransport(lambda _: httpx.Response(201, json=answer))
    return ProjectBundles(project, config=CONFIG, transport=transport)


def _put(project_bundles: ProjectBundles, **more: Any) -> str:
    record = {"type": "http", "http": {"request": IMPORTED}, "outputSchema": WRONG, **more}
    return project_bundles.bundles.put_tool(
        project_bundles.bundle().bundle_id, "make", "1", record
    ).tool_id


def _shown(project_bundles: ProjectBundles) -> dict[str, Any]:
    record: dict[str, Any] = next(
        tool.to_dict() for tool in project_bundles.bundles.list_tools() if tool.slug == "make"
    )
    return record


def test_what_breaks_the_schema_of_a_document_is_still_the_result(project: Project) -> None:
    project_bundles = _shelf(project)
    _put(project_bundles, outputSchemaFrom="document")

    called = project_bundles.box.call("my-api.make", {})

    assert (called.ok, called.data, called.meta["status"]) == (True, MADE, 201)
    assert sorted(found["pointer"] for found in called.meta["mismatch"]) == ["", "/id"]
    assert all(found["message"] for found in called.meta["mismatch"])
    assert _shown(project_bundles)["outputSchemaFrom"] == "document"


def test_what_fits_says_nothing(project: Project) -> None:
    project_bundles = _shelf(project, {"id": "7", "name": "n"})
    _put(project_bundles, outputSchemaFrom="document")

    assert "mismatch" not in project_bundles.box.call("my-api.make", {}).meta


def test_what_breaks_the_schema_of_an_author_fails_and_keeps_the_value(project: Project) -> None:
    project_bundles = _shelf(project)
    _put(project_bundles)

    error = project_bundles.box.call("my-api.make", {}).error

    assert (error.code, error.reason) == ("execution_error", "invalid_output")  # type: ignore[union-attr]
    assert error.details["value"] == MADE  # type: ignore[union-attr, index, call-overload]
    assert sorted(found["pointer"] for found in error.details["mismatch"]) == ["", "/id"]  # type: ignore[union-attr, index, call-overload]
    assert "outputSchemaFrom" not in _shown(project_bundles)


def test_a_local_functions_schema_is_its_authors(project: Project) -> None:
    project_bundles = _shelf(project)
    project_bundles.bundles.put_tool(
        project_bundles.bundle().bundle_id, "say", "1", go(outputSchema={"type": "integer"})
    )

    error = project_bundles.box.call("my-api.say", {"message": "hello"}).error

    assert error.reason == "invalid_output"  # type: ignore[union-attr]
    assert error.details["value"] == "hello"  # type: ignore[union-attr, index, call-overload]


@pytest.mark.parametrize("source", ["model", "rest", "mcp", "cli"])
def test_a_large_value_that_does_not_fit_leaves_as_a_handle(project: Project, source: Any) -> None:
    project_bundles = _shelf(project, {"id": 7, "rows": ["x" * 50] * 100})
    _put(project_bundles)

    sent = project_bundles.box.call("my-api.make", {}, source=source).error.details["value"]  # type: ignore[union-attr, index, call-overload]
    kept = project_bundles.box.call("my-api.make", {}).error.details["value"]  # type: ignore[union-attr, index, call-overload]

    assert set(sent) == {"handle", "total_lines", "preview"}
    assert project_bundles.box.results.query(sent["handle"])["total_lines"] == sent["total_lines"]
    assert kept["id"] == 7
    assert len(kept["rows"]) == 100


@pytest.mark.parametrize(
    ("methods", "said", "read_only"),
    [
        (["GET"], None, True),
        (["HEAD"], None, True),
        (["POST"], None, False),
        (["DELETE"], None, False),
        (["OPTIONS"], None, False),
        (["GET", "GET"], None, True),
        (["GET", "POST"], None, False),
        (["GET"], False, False),
        (["POST"], True, True),
    ],
)
def test_tools_that_only_get_are_read_only_unless_the_record_says_otherwise(
    project_bundles: ProjectBundles, methods: list[str], said: bool | None, read_only: bool
) -> None:
    requests = [
        {"request": {"method": method, "urlTemplate": "https://api.example.com/x"}}
        for method in methods
    ]
    record = {**http(), "http": requests[0] if len(requests) == 1 else {"steps": requests}}
    if said is not None:
        record["readOnly"] = said

    made = project_bundles.bundles.put_tool(project_bundles.bundle().bundle_id, "x", "1", record)

    assert project_bundles.box.registry.get("my-api.x").read_only is read_only  # type: ignore[union-attr]
    assert project_bundles.another().registry.get("my-api.x@1").read_only is read_only  # type: ignore[union-attr]
    assert made.to_dict().get("readOnly") is said


def test_a_record_does_not_say_what_a_local_function_does(project_bundles: ProjectBundles) -> None:
    bundle = project_bundles.bundle()
    project_bundles.bundles.put_tool(bundle.bundle_id, "a", "1", go())
    project_bundles.bundles.put_tool(bundle.bundle_id, "b", "1", go(readOnly=True))

    assert [project_bundles.box.registry.get(f"my-api.{slug}").read_only for slug in "ab"] == [
        False,
        False,
    ]  # type: ignore[union-attr]
