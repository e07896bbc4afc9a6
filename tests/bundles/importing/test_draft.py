"""Which operations of a document become tools, under which names, and at which server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jupyter_server
import pytest

from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.bundles.importing.draft import (
    BundleDraft,
    ImportRequest,
    MissingServer,
    OperationChoice,
)
from onetool_ipy.bundles.importing.formats import import_document

JUPYTER = (Path(jupyter_server.__file__).parent / "services" / "api" / "api.yaml").read_bytes()
"""A real Swagger 2.0 document: it has neither host nor operation ids."""

PATHS = {
    "/users": {
        "get": {"operationId": "listUsers", "tags": ["Users"]},
        "post": {"operationId": "addUser"},
    },
    "/users/{id}": {"delete": {"operationId": "deleteUser", "tags": ["Users", "Admin"]}},
    "/orders": {
        "get": {"operationId": "listOrders", "tags": ["Orders"]},
        "head": {"operationId": "anyOrders"},
    },
}


def document(**parts: Any) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop"},
        "servers": [{"url": "https://a.test"}],
        **parts,
    }


def names(draft: BundleDraft) -> list[str]:
    return [tool["slug"] for tool in draft.tools]


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [
        (OperationChoice(), ["listUsers", "addUser", "deleteUser", "listOrders", "anyOrders"]),
        (OperationChoice(tags=("users",)), ["listUsers", "deleteUser"]),
        (OperationChoice(tags=("Orders", "Admin")), ["deleteUser", "listOrders"]),
        (OperationChoice(read_only=True), ["listUsers", "listOrders", "anyOrders"]),
        (OperationChoice(include=("list*",)), ["listUsers", "listOrders"]),
        (OperationChoice(include=("/users*",), exclude=("DELETE *",)), ["listUsers", "addUser"]),
        (OperationChoice(exclude=("*user*",)), ["listOrders", "anyOrders"]),
        (OperationChoice(names=("addUser", "listOrders")), ["addUser", "listOrders"]),
        (OperationChoice(tags=("Users",), include=("list*",), read_only=True), ["listUsers"]),
    ],
)
def test_operations_are_chosen_by_tag_pattern_name_and_method(
    choice: OperationChoice, chosen: list[str]
) -> None:
    draft = import_document(document(paths=PATHS), ImportRequest(choice=choice))

    assert names(draft) == chosen
    assert draft.offered == 5


def test_only_what_is_chosen_says_what_it_needs() -> None:
    paths = {
        "/a": {"get": {"operationId": "a", "security": [{"key": []}]}},
        "/b": {
            "get": {
                "operationId": "b",
                "servers": [{"url": "https://b.test"}],
                "callbacks": {"x": {}},
            }
        },
    }
    schemes = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}

    draft = import_document(
        document(paths=paths, components=schemes),
        ImportRequest(choice=OperationChoice(names=("a",))),
    )

    assert (draft.hosts, [each["name"] for each in draft.secrets], draft.notes) == (
        ["a.test"],
        ["SHOP_KEY"],
        [],
    )


def test_a_name_is_the_same_whatever_else_is_chosen() -> None:
    paths = {f"/{letter}": {"get": {"operationId": "get", "tags": [letter]}} for letter in "abc"}

    draft = import_document(
        document(paths=paths), ImportRequest(choice=OperationChoice(tags=("c",)))
    )

    assert names(draft) == ["get-3"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (OperationChoice(tags=("user",)), "No tag 'user'. Did you mean 'Users'?"),
        (OperationChoice(include=("nothing*",)), "None of the 5 operations is chosen."),
        (OperationChoice(names=()), "None of the 5 operations is chosen."),
    ],
)
def test_a_choice_of_nothing_says_what_there_is(choice: OperationChoice, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        import_document(document(paths=PATHS), ImportRequest(choice=choice))

    assert caught.value.message == message
    assert caught.value.hint == "Its tags: Admin, Orders, Users. See all operations with --dry."


def test_the_document_of_jupyter_server_is_imported_with_readable_names() -> None:
    draft = import_document(JUPYTER, ImportRequest(server="http://localhost:8888"))

    assert draft.kind == "Swagger 2.0 document"
    assert len(draft.tools) == draft.offered == 32
    by_name = {tool["slug"]: tool for tool in draft.tools}
    assert {"list-available-sessions", "restart-a-kernel", "delete-a-checkpoint"} <= by_name.keys()
    contents = by_name["get-contents-of-file-or-directory"]
    assert (
        contents["http"]["request"]["urlTemplate"] == "http://localhost:8888/api/contents/${path}"
    )
    assert contents["argSchema"]["properties"]["format"]["enum"] == ["text", "base64"]
    assert by_name["post-sessions"]["http"]["request"]["bodyType"] == "json"  # its summary is long
    assert all(len(name) < 50 for name in by_name)
    assert draft.hosts == ["localhost:8888"]

    kernels = import_document(
        JUPYTER,
        ImportRequest(server="http://localhost:8888", choice=OperationChoice(tags=("kernels",))),
    )
    assert len(kernels.tools) == 6
    assert {tool["tags"][0] for tool in kernels.tools} == {"kernels"}


def test_a_relative_server_names_the_option() -> None:
    with pytest.raises(MissingServer) as caught:
        import_document(JUPYTER)

    assert caught.value.message == "The document has only a relative server URL ('/')."
    assert caught.value.hint == "Name its server: --server https://api.example.com"


@pytest.mark.parametrize(
    ("said", "server", "url"),
    [
        ("https://a.test/v1", None, "https://a.test/v1/users"),
        ("https://a.test/v1", "https://b.test", "https://b.test/users"),
        ("https://a.test/v1", "http://b.test:8080/v2/", "http://b.test:8080/v2/users"),
        ("/v1", "https://b.test", "https://b.test/v1/users"),
        ("/v1", "https://b.test/own", "https://b.test/own/users"),
        ("/", "b.test", "https://b.test/users"),
    ],
)
def test_the_server_that_is_given_is_called(said: str, server: str | None, url: str) -> None:
    draft = import_document(
        document(paths={"/users": {"get": {"x": 1}}}, servers=[{"url": said}]),
        ImportRequest(server=server),
    )

    assert draft.tools[0]["http"]["request"]["urlTemplate"] == url


@pytest.mark.parametrize(
    "server",
    ["ftp://b.test", "https://", "https://${HOST}", "https://u@b.test", "https://b.test/?x"],
)
def test_a_server_that_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(MissingServer, match="is not the URL of a server"):
        import_document(document(paths=PATHS), ImportRequest(server=server))


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ({"operationId": "list_items_items__get"}, "list-items"),  # as FastAPI makes them
        ({"operationId": "items_get"}, "items-get"),
        ({"summary": "List all items."}, "list-all-items"),
        ({"summary": "List all items that the shop has ever had in its store"}, "get-items"),
        ({"summary": "??"}, "get-items"),
    ],
)
def test_a_name_is_what_the_document_calls_the_operation(
    operation: dict[str, Any], name: str
) -> None:
    draft = import_document(document(paths={"/items/": {"get": operation}}))

    assert names(draft) == [name]
